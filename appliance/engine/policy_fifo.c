/* SPDX-License-Identifier: Apache-2.0 */
/* First in, first out: the oldest insert goes, whatever was read since. */
#include "engine/policies.h"
#include "engine/policy.h"
#include "mem/records.h"

static void fifo_on_insert(struct engine_object *objects, struct policy_set *set, uint32_t slot,
			   uint64_t now_ns)
{
	objects[slot].seg = 0;
	objects[slot].at = now_ns;
	policy_list_push_head(objects, &set->seg[0], slot);
}

static void fifo_on_hit(struct engine_object *objects, struct policy_set *set, uint32_t slot,
			uint64_t now_ns)
{
}

static uint32_t fifo_victim(const struct engine_object *objects, const struct policy_set *set,
			    uint64_t *ret_at)
{
	uint32_t slot = set->seg[0].tail;

	if (slot != RECORD_NONE)
		*ret_at = objects[slot].at;
	return slot;
}

static void fifo_on_remove(struct engine_object *objects, struct policy_set *set, uint32_t slot)
{
	policy_list_remove(objects, &set->seg[0], slot);
}

const struct policy policy_fifo = {
	.name = "fifo",
	.by_touch = false,
	.on_insert = fifo_on_insert,
	.on_hit = fifo_on_hit,
	.victim = fifo_victim,
	.on_remove = fifo_on_remove,
};
