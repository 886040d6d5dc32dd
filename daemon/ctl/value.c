/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value of an id is a sequence of 64-bit words: word i = mix(mix(id) + (i + 1) * golden ratio),
 * which is splitmix64 seeded by the mixed id. A word depends on its place alone, so that pages that
 * are swapped, shifted or another object's are seen; and the loop has no chain, so that it runs at
 * several bytes a cycle. Words are stored little endian: values agree between machines.
 */
#include "ctl/value.h"

#include <endian.h>
#include <string.h>

#include "ctl/util.h"

#define VALUE_GOLDEN 0x9e3779b97f4a7c15ull

static inline uint64_t value_word(uint64_t seed, uint64_t i)
{
	return htole64(util_mix64(seed + (i + 1) * VALUE_GOLDEN));
}

void value_fill(uint64_t id, void *buffer, size_t len)
{
	const uint64_t seed = util_mix64(id ^ VALUE_GOLDEN);
	const size_t words = len / sizeof(uint64_t);
	unsigned char *p = buffer;
	uint64_t w;
	size_t i;

	for (i = 0; i < words; i++) {
		w = value_word(seed, i);
		memcpy(p + i * sizeof(w), &w, sizeof(w));
	}
	w = value_word(seed, words);
	memcpy(p + words * sizeof(w), &w, len % sizeof(w));
}

bool value_check(uint64_t id, const void *buffer, size_t len)
{
	const uint64_t seed = util_mix64(id ^ VALUE_GOLDEN);
	const size_t words = len / sizeof(uint64_t);
	const unsigned char *p = buffer;
	uint64_t w, difference = 0;
	size_t i;

	for (i = 0; i < words; i++) {
		memcpy(&w, p + i * sizeof(w), sizeof(w));
		difference |= w ^ value_word(seed, i);
	}
	w = value_word(seed, words);
	return !difference && !memcmp(p + words * sizeof(w), &w, len % sizeof(w));
}
