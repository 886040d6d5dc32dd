/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes at several places of one binary, each passed a known number of times: op_done 1000 times
 * at one, 500 at another and 30 at a third that is a copy of the second by inlining, evict and
 * reject at two each. Tenant 7. Whoever listens counts each pass once.
 */
#include <stdint.h>
#include <stdio.h>

#include <larder/probes.h>

#define TENANT 7u
#define OP_PUT 0x20u
#define OP_GET 0x28u

static volatile uint64_t bytes = 3;	/* else the compiler sees constants alone */

static void __attribute__((noinline)) got(uint64_t i)
{
	larder_probe6(op_done, i, TENANT, OP_GET, 0, bytes, 1000);
	larder_probe5(evict, TENANT, TENANT, bytes, i, LARDER_EVICT_ROOM);
}

static inline void __attribute__((always_inline)) put(uint64_t i, uint64_t status)
{
	larder_probe6(op_done, i, TENANT, OP_PUT, status, bytes + 2, 2000);
	larder_probe3(reject, TENANT, 2, bytes);
}

static void __attribute__((noinline)) put_well(uint64_t i)
{
	put(i, 0);
}

static void __attribute__((noinline)) put_badly(uint64_t i)
{
	put(i, 3);
	larder_probe5(evict, TENANT, TENANT, bytes + 1, i, LARDER_EVICT_ROOM);
}

int main(void)
{
	for (uint64_t i = 0; i < 1000; i++)
		got(i);
	for (uint64_t i = 0; i < 500; i++)
		put_well(i);
	for (uint64_t i = 0; i < 30; i++)
		put_badly(i);
	puts("passed");
	return 0;
}
