/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LIST: the objects of a namespace, in the order of their record slots. An object never changes its
 * slot, so one that is there all the time is told exactly once, whatever comes and goes around it,
 * and the node keeps nothing between two calls: the cursor is the next slot plus one.
 *
 * A call visits a bounded number of slots, so it may come back with no entry and a cursor. An
 * object of another namespace counts for several, because its record has to be looked at: among a
 * million of them a small namespace is found by many short calls, and nobody waits behind a long
 * one.
 *
 * A namespace without objects is known by its count and not searched for.
 *
 * A key in the op is a prefix: only keys that begin with it are told.
 */
#include <string.h>

#include "engine/engine_internal.h"

#define LIST_RECORD_COST 8u	/* of a slot whose record is looked at; an empty one costs 1 */

/* Gives the object in @slot to the op's function. False: it had no room for it. */
static bool list_slot(struct engine_reactor *r, struct larder_op *op, uint32_t slot, uint64_t now,
		      uint32_t *cost)
{
	struct engine *e = r->engine;
	uint32_t owner = __atomic_load_n(&e->namespaces[op->ns].tenant, __ATOMIC_RELAXED);
	struct engine_object *o = &e->objects[slot];
	uint8_t key[LARDER_KEY_MAX];
	struct larder_stat st;
	uint32_t shard;
	uint16_t len;
	bool taken = true;

	/* RECORD_NONE when it was retired meanwhile: there is nothing in it to be met */
	if (!engine_lock_object(e, slot, owner, &shard))
		return true;
	*cost += LIST_RECORD_COST;
	if (engine_record(e, slot)->ns != op->ns || engine_is_expired(e, slot, now)) {
		engine_unlock(e, shard);
		return true;
	}
	engine_ref(r, slot, 1);
	engine_unlock(e, shard);
	len = records_key(e->records, slot, key);
	if (op->n_keys == 0 || (len >= op->keys[0].key_len &&
				memcmp(key, op->keys[0].key, op->keys[0].key_len) == 0)) {
		engine_stat(e, slot, now, &st);
		taken = op->list(op->list_user, key, len, &st);
		op->count += taken;
	}
	engine_unref(r, o);
	return taken;
}

int engine_list(struct engine_reactor *r, struct larder_op *op, uint64_t now)
{
	struct engine *e = r->engine;
	uint64_t slot = op->cursor ? op->cursor - 1 : 0;
	uint64_t end = MIN(slot + ENGINE_SLOTS_PER_TURN, (uint64_t)e->capacity);
	uint32_t cost = 0;

	if (!op->list || op->max == 0 || op->n_keys > 1 ||
	    (op->n_keys == 1 && (op->keys[0].key_len > LARDER_KEY_MAX || !op->keys[0].key))) {
		op->status = LARDER_BAD_REQUEST;
		return ENGINE_DONE;
	}
	if (engine_op_ns(e, op) == ENGINE_NOWHERE) {
		op->status = LARDER_NOT_FOUND;
		return ENGINE_DONE;
	}
	/* nothing that has been there since the list began can be in the rest */
	if (__atomic_load_n(&e->namespaces[op->ns].objects, __ATOMIC_RELAXED) == 0)
		slot = end = e->capacity;
	while (slot < end && cost < ENGINE_SLOTS_PER_TURN && op->count < op->max &&
	       list_slot(r, op, (uint32_t)slot, now, &cost)) {
		slot++;
		cost++;
	}
	op->cursor = slot < e->capacity ? slot + 1 : 0;
	op->status = LARDER_OK;
	return ENGINE_DONE;
}
