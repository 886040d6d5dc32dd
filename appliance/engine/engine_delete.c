/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DELETE and NS_FLUSH. An object that is being read becomes invisible at once; its pages come free
 * with the last reference. What is leased or pinned hard stays (BUSY, or counted as kept) unless
 * forced; a soft pin is about eviction only. A key that was promised to somebody is so no more.
 *
 * A flush walks the record slots, a bounded number of them per turn, and is continued by
 * engine_poll: op->cursor is the slot to go on from. It deletes what was there when it began; what
 * is put behind its back may stay.
 */
#include "engine/engine_internal.h"
#include "engine/fill.h"

/* Lock held. */
static bool delete_allowed(struct engine *e, const struct larder_op *op, uint32_t slot,
			   uint64_t now)
{
	return op->flags & LARDER_F_FORCE ||
	       (engine_lease_word(e, slot) <= now && !engine_is_hard_pinned(e, slot));
}

static int delete_one(struct engine_reactor *r, const struct larder_op *op, uint32_t i, uint32_t ns,
		      uint64_t now)
{
	struct engine *e = r->engine;
	struct engine_key k;
	struct engine_found f;
	uint32_t waiters = 0;
	bool free = false, promised = false;
	int status = engine_key_init(e, &k, ns, &op->keys[i], op->flags & LARDER_F_BY_HASH);

	if (status != LARDER_OK)
		return status;
	engine_lock(e, k.shard);
	f = engine_find(r, &k, now);
	promised = f.slot != RECORD_NONE && engine_state(&e->objects[f.slot]) == OBJECT_PROMISED;
	if (promised)
		waiters = engine_fill_break(e, f.slot);
	if (f.slot == RECORD_NONE || promised || engine_is_filling(&e->objects[f.slot]))
		status = f.ambiguous ? LARDER_BAD_REQUEST : LARDER_NOT_FOUND;
	else if (!delete_allowed(e, op, f.slot, now))
		status = LARDER_BUSY;
	else
		free = engine_doom(r, f.slot, END_DELETED);
	engine_unlock(e, k.shard);
	engine_found_done(r, &f);
	if (promised)
		engine_fill_broken(r, f.slot, waiters);
	if (free)
		engine_object_free(r, f.slot);
	return status;
}

int engine_delete(struct engine_reactor *r, struct larder_op *op, uint64_t now)
{
	uint32_t ns = engine_op_ns(r->engine, op), found = 0;

	if (op->n_keys == 0 || !op->keys) {
		op->status = LARDER_BAD_REQUEST;
		return ENGINE_DONE;
	}
	for (uint32_t i = 0; i < op->n_keys; i++) {
		int status = delete_one(r, op, i, ns, now);

		op->keys[i].status = (uint8_t)status;
		op->count += status == LARDER_OK;
		found += status != LARDER_NOT_FOUND;
	}
	op->status = found ? LARDER_OK : LARDER_NOT_FOUND;
	return ENGINE_DONE;
}

static void flush_slot(struct engine_reactor *r, struct larder_op *op, uint32_t slot, uint64_t now)
{
	struct engine *e = r->engine;
	const struct record *record = engine_record(e, slot);
	uint64_t length;
	uint32_t shard;
	bool free;

	if (!engine_lock_object(e, slot, op->tenant, &shard))
		return;
	if (record->ns != op->ns || !delete_allowed(e, op, slot, now)) {
		op->kept += record->ns == op->ns;
		engine_unlock(e, shard);
		return;
	}
	length = record->length;
	free = engine_doom(r, slot, END_DELETED);
	engine_unlock(e, shard);
	op->count++;
	op->bytes += length;
	if (free)
		engine_object_free(r, slot);
}

int engine_flush(struct engine_reactor *r, struct larder_op *op, uint64_t now)
{
	struct engine *e = r->engine;
	uint64_t end = MIN(op->cursor + ENGINE_SLOTS_PER_TURN, (uint64_t)e->capacity);

	if (engine_op_ns(e, op) == ENGINE_NOWHERE) {
		op->status = LARDER_NOT_FOUND;
		return ENGINE_DONE;
	}
	if (op->cursor == 0)
		engine_fill_flush(r, op->ns);
	for (; op->cursor < end; op->cursor++)
		flush_slot(r, op, (uint32_t)op->cursor, now);
	if (op->cursor < e->capacity)
		return ENGINE_LATER;
	op->status = LARDER_OK;
	return ENGINE_DONE;
}
