/* SPDX-License-Identifier: Apache-2.0 */
/* Least recently used: insert and hit put an object at the young end, the old end goes. */
#include "engine/policies.h"
#include "engine/policy.h"
#include "mem/records.h"

static void lru_on_insert(struct engine_object *objects, struct policy_set *set, uint32_t slot,
			  uint64_t now_ns)
{
	objects[slot].seg = 0;
	objects[slot].at = now_ns;
	policy_list_push_head(objects, &set->seg[0], slot);
}

static void lru_on_hit(struct engine_object *objects, struct policy_set *set, uint32_t slot,
		       uint64_t now_ns)
{
	objects[slot].at = now_ns;
	if (set->seg[0].head == slot)
		return;
	policy_list_remove(objects, &set->seg[0], slot);
	policy_list_push_head(objects, &set->seg[0], slot);
}

static uint32_t lru_victim(const struct engine_object *objects, const struct policy_set *set,
			   uint64_t *ret_at)
{
	uint32_t slot = set->seg[0].tail;

	if (slot != RECORD_NONE)
		*ret_at = objects[slot].at;
	return slot;
}

static void lru_on_remove(struct engine_object *objects, struct policy_set *set, uint32_t slot)
{
	policy_list_remove(objects, &set->seg[0], slot);
}

const struct policy policy_lru = {
	.name = "lru",
	.by_touch = true,
	.on_insert = lru_on_insert,
	.on_hit = lru_on_hit,
	.victim = lru_victim,
	.on_remove = lru_on_remove,
};
