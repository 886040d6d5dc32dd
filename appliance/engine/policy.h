/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eviction policies. A policy orders the objects of one list set (one tenant in one shard); the
 * engine decides whose objects go and samples shard tails, the policy names the object.
 *
 * Lists are linked by record slot, so a policy needs no memory of its own per object. All four
 * functions run under the shard's lock and must be O(1).
 *
 * To add one: write engine/policy_<name>.c, add it to the table in engine/policy.c.
 */
#ifndef LARDER_ENGINE_POLICY_H
#define LARDER_ENGINE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/object.h"

#define POLICY_SEGMENTS 2u

/* One list, young end at head. Slots; RECORD_NONE = empty. */
struct policy_list {
	uint32_t head;
	uint32_t tail;
	uint64_t pages;		/* of its objects */
	uint64_t count;
};

/* The lists of one tenant in one shard. */
struct policy_set {
	struct policy_list seg[POLICY_SEGMENTS];
};

struct policy {
	const char *name;
	bool by_touch;		/* a hit moves an object: a restart orders by the last touch */
	void (*on_insert)(struct engine_object *objects, struct policy_set *set, uint32_t slot,
			  uint64_t now_ns);
	void (*on_hit)(struct engine_object *objects, struct policy_set *set, uint32_t slot,
		       uint64_t now_ns);
	/* The object that would go first, RECORD_NONE when there is none. *@ret_at: its age key,
	 * comparable between shards (smaller = older). Takes nothing out. */
	uint32_t (*victim)(const struct engine_object *objects, const struct policy_set *set,
			   uint64_t *ret_at);
	void (*on_remove)(struct engine_object *objects, struct policy_set *set, uint32_t slot);
};

const struct policy *policy_find(const char *name);	/* NULL: no such policy */
/* Comma-separated names, for messages. */
const char *policy_names(void);

/* Building blocks for policies. */
void policy_list_init(struct policy_list *l);
void policy_list_push_head(struct engine_object *objects, struct policy_list *l, uint32_t slot);
void policy_list_remove(struct engine_object *objects, struct policy_list *l, uint32_t slot);

#endif
