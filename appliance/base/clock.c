/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's clocks. Everything else is handed a struct clock. */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"

static struct timespec clock_read(clockid_t id)
{
	struct timespec ts;

	/* Both clocks exist on every kernel; a wrong time would break promises silently. */
	if (unlikely(clock_gettime(id, &ts) < 0))
		abort();
	return ts;
}

static uint64_t clock_system_monotonic_ns(void *user)
{
	struct timespec ts = clock_read(CLOCK_MONOTONIC);

	(void)user;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t clock_system_wall_ms(void *user)
{
	struct timespec ts = clock_read(CLOCK_REALTIME);

	(void)user;
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / NSEC_PER_MSEC;
}

const struct clock clock_system = {
	.monotonic_ns = clock_system_monotonic_ns,
	.wall_ms = clock_system_wall_ms,
};
