/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xoshiro256** after Blackman and Vigna (2018), seeded by splitmix64 so that any seed, zero too,
 * gives a good state; and the kernel's randomness for what must not be guessed.
 */
#include <errno.h>
#include <sys/random.h>

#include "base/compiler.h"
#include "base/prng.h"

static uint64_t prng_splitmix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t prng_rotl(uint64_t x, int n)
{
	return (x << n) | (x >> (64 - n));
}

void prng_seed(struct prng *p, uint64_t seed)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->s); i++)
		p->s[i] = prng_splitmix(&seed);
}

uint64_t prng_next(struct prng *p)
{
	uint64_t *s = p->s;
	uint64_t result = prng_rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = prng_rotl(s[3], 45);
	return result;
}

/* Multiply and shift; the few low products that would favour some results are drawn again. */
uint64_t prng_below(struct prng *p, uint64_t bound)
{
	unsigned __int128 product = (unsigned __int128)prng_next(p) * bound;

	if ((uint64_t)product < bound) {
		uint64_t biased = -bound % bound;

		while ((uint64_t)product < biased)
			product = (unsigned __int128)prng_next(p) * bound;
	}
	return (uint64_t)(product >> 64);
}

static int prng_system_bytes(void *user, void *out, size_t len)
{
	uint8_t *at = out;

	(void)user;
	while (len > 0) {
		ssize_t n = getrandom(at, len, 0);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

const struct secure_random secure_random_system = { .bytes = prng_system_bytes };
