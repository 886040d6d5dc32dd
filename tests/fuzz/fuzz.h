/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every fuzz target has: one function. libFuzzer calls it with what it invents, replay.c with
 * the files of the corpus. A property that does not hold ends the program.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* assert that is there in every build */
#define PROPERTY(x)                                                                                \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			(void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x);     \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* A copy of exactly @len bytes, so that a sanitizer sees one byte read too far. */
static inline void *fuzz_copy(const void *data, size_t len)
{
	void *copy = calloc(1, len ? len : 1);

	PROPERTY(copy);
	if (len)
		memcpy(copy, data, len);
	return copy;
}

#endif
