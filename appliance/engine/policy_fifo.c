/* SPDX-License-Identifier: Apache-2.0 */
/* First in, first out: the oldest insert goes, whatever was read since. */
#include "engine/policies.h"

static void fifo_on_insert(const struct policy_place *p, uint32_t slot)
{
	policy_enter(p, 0, slot);
}

static void fifo_on_hit(const struct policy_place *p, uint32_t slot)
{
}

const struct policy policy_fifo = {
	.name = "fifo",
	.by_touch = false,
	.segments = 1,
	.on_insert = fifo_on_insert,
	.on_hit = fifo_on_hit,
	.victim = policy_tail,
	.on_remove = policy_leave,
};
