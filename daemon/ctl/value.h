/* SPDX-License-Identifier: Apache-2.0 */
/* Values made from a number, so that every byte read back can be checked without keeping it. */
#ifndef LARDERCTL_VALUE_H
#define LARDERCTL_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the value of @id: the same @len bytes every time; a shorter one is its beginning. */
void value_fill(uint64_t id, void *buffer, size_t len);
/* Whether @buffer holds exactly what value_fill writes. */
bool value_check(uint64_t id, const void *buffer, size_t len);

#endif
