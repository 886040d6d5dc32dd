/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pseudo-random numbers from a seed that was handed in: xoshiro256** (Blackman and Vigna 2018,
 * seeded by splitmix64). Not for secrets: those come from a struct secure_random.
 */
#ifndef LARDER_BASE_PRNG_H
#define LARDER_BASE_PRNG_H

#include <stddef.h>
#include <stdint.h>

struct prng {
	uint64_t s[4];
};

void prng_seed(struct prng *p, uint64_t seed);
uint64_t prng_next(struct prng *p);
/* Uniform in [0, bound); bound > 0. */
uint64_t prng_below(struct prng *p, uint64_t bound);

/* Unpredictable bytes: getrandom(2) in the daemon, seeded in the simulator. 0 or -errno. */
struct secure_random {
	int (*bytes)(void *user, void *out, size_t len);
	void *user;
};
extern const struct secure_random secure_random_system;

#endif
