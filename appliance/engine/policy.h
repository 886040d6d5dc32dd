/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eviction policies. A policy orders the objects of one list set (one tenant in one shard) and
 * keeps a few sums per tenant across its shards; the engine decides whose objects go, samples shard
 * tails, and keeps the rule that no two shards are locked at once.
 *
 * Lists are linked by record slot, so a policy needs no memory of its own per object. A policy may
 * use two lists: victims come from segment 0 while it has any that may go, then from segment 1. All
 * functions but excess run under the shard's lock and must be O(1).
 *
 * Sizes are in pages. A tenant's sums are relaxed atomics: exact while one reactor works, near
 * enough while several do.
 *
 * To add one: write engine/policy_<name>.c and add its name to engine/policies.h.
 */
#ifndef LARDER_ENGINE_POLICY_H
#define LARDER_ENGINE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/object.h"
#include "engine/policy_ghost.h"

#define POLICY_SEGMENTS 2u

/* Lists of a set: the policy's own segments, then those of pinned objects, of which it is not told:
 * soft ones go when their tenant has nothing else that may, hard ones never. */
enum policy_pinned { POLICY_SOFT = POLICY_SEGMENTS, POLICY_HARD, POLICY_LISTS };

/* One list, young end at head. Slots; RECORD_NONE = empty. */
struct policy_list {
	uint32_t head;
	uint32_t tail;
	uint64_t pages;		/* of its objects */
	uint64_t count;
};

/* The lists of one tenant in one shard. */
struct policy_set {
	struct policy_list seg[POLICY_LISTS];
};

/* One tenant over all its shards; all zero at the start. */
struct policy_tenant {
	uint64_t pages[POLICY_LISTS];
	uint64_t count[POLICY_LISTS];
	/* The policy's own; a policy that learns nothing leaves them alone. */
	uint64_t hits[POLICY_SEGMENTS];	/* pages found in the older half of a list; they fade */
	uint64_t window;		/* pages evicted since the share was looked at */
	int32_t lean;			/* of the boundary, towards segment 0 */
} __attribute__((aligned(CACHE_LINE)));

/* Where a policy is at work: one tenant in one shard, whose lock is held. */
struct policy_place {
	struct engine_object *objects;
	struct policy_set *set;
	struct policy_tenant *tenant;
	struct policy_ghost *ghost;	/* NULL: it keeps none */
	uint64_t cap;			/* pages that the tenant may hold at this moment */
	uint64_t now_ns;
};

struct policy {
	const char *name;
	bool by_touch;		/* a hit moves an object: a restart orders by the last touch */
	bool ghost;		/* it remembers what it evicted */
	uint32_t segments;
	void (*on_insert)(const struct policy_place *p, uint32_t slot);
	void (*on_hit)(const struct policy_place *p, uint32_t slot);
	/* The object of @segment that would go first, RECORD_NONE when there is none. *@ret_at: its
	 * age key, comparable between shards (smaller = older). Takes nothing out. */
	uint32_t (*victim)(const struct engine_object *objects, const struct policy_set *set,
			   uint32_t segment, uint64_t *ret_at);
	void (*on_remove)(const struct policy_place *p, uint32_t slot);
	/* After on_remove: it had to go to make room. NULL: no matter. */
	void (*on_evict)(const struct policy_place *p, uint32_t slot);
	/* Segment 1 is over its share: its oldest is to become the youngest of segment 0. Asked
	 * without any lock after inserts and hits. NULL: never. */
	bool (*excess)(const struct policy_tenant *t, uint64_t cap);
};

const struct policy *policy_find(const char *name);	/* NULL: no such policy */
/* Comma-separated names, for messages. */
const char *policy_names(void);

/* Building blocks for policies. */
void policy_list_init(struct policy_list *l);
void policy_list_push_head(struct engine_object *objects, struct policy_list *l, uint32_t slot);
void policy_list_remove(struct engine_object *objects, struct policy_list *l, uint32_t slot);
/* Puts an object that is in no list at the young end of @segment, dated now. */
void policy_enter(const struct policy_place *p, uint32_t segment, uint32_t slot);
/* Takes it out of the list that it is in. Fits on_remove. */
void policy_leave(const struct policy_place *p, uint32_t slot);
/* The old end of a list. Fits victim. */
uint32_t policy_tail(const struct engine_object *objects, const struct policy_set *set,
		     uint32_t segment, uint64_t *ret_at);

#endif
