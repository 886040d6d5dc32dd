/* SPDX-License-Identifier: Apache-2.0 */
/* Least recently used: insert and hit put an object at the young end, the old end goes. */
#include "engine/policies.h"

static void lru_on_insert(const struct policy_place *p, uint32_t slot)
{
	policy_enter(p, 0, slot);
}

static void lru_on_hit(const struct policy_place *p, uint32_t slot)
{
	if (p->set->seg[0].head == slot) {
		p->objects[slot].at = p->now_ns;
		return;
	}
	policy_leave(p, slot);
	policy_enter(p, 0, slot);
}

const struct policy policy_lru = {
	.name = "lru",
	.by_touch = true,
	.segments = 1,
	.on_insert = lru_on_insert,
	.on_hit = lru_on_hit,
	.victim = policy_tail,
	.on_remove = policy_leave,
};
