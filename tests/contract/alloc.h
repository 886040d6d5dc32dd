/* SPDX-License-Identifier: Apache-2.0 */
/* Counts this program's allocations, where the allocator is glibc's. */
#ifndef LARDER_TESTS_CONTRACT_ALLOC_H
#define LARDER_TESTS_CONTRACT_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

/* False under a sanitizer, whose allocator can not be wrapped. */
bool alloc_can_count(void);
/* Calls of malloc, calloc, realloc and aligned_alloc so far. */
uint64_t alloc_count(void);

#endif
