/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds of the property tests: a fresh one each run, told, and repeated by LARDER_SEED. */
#ifndef LARDER_TESTS_MEM_PROPERTY_H
#define LARDER_TESTS_MEM_PROPERTY_H

#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "fixture.h"

/* @test: what the repeating command line ends with. */
static inline uint64_t property_seed(const char *test)
{
	const char *text = getenv("LARDER_SEED");
	struct timespec now;
	uint64_t seed;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	seed = text ? strtoull(text, NULL, 10)
		    : (uint64_t)now.tv_sec * 1000003u + (uint64_t)now.tv_nsec;
	print_message("seed %" PRIu64 ", repeat: LARDER_SEED=%" PRIu64 " %s\n", seed, seed, test);
	return seed;
}

#endif
