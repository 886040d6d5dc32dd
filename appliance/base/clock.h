/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time, handed in. The libraries ask a struct clock; only base/clock.c and daemon/ ask the kernel.
 * A test or the simulator hands in its own.
 */
#ifndef LARDER_BASE_CLOCK_H
#define LARDER_BASE_CLOCK_H

#include <stdint.h>

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_USEC 1000ull

struct clock {
	uint64_t (*monotonic_ns)(void *user);	/* never goes back; CLOCK_MONOTONIC in the daemon */
	uint64_t (*wall_ms)(void *user);	/* milliseconds since 1970, for people */
	void *user;
};

static inline uint64_t clock_now(const struct clock *c)
{
	return c->monotonic_ns(c->user);
}

static inline uint64_t clock_wall_ms(const struct clock *c)
{
	return c->wall_ms(c->user);
}

/* The kernel's clocks. */
extern const struct clock clock_system;

#endif
