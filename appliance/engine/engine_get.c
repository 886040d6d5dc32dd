/* SPDX-License-Identifier: Apache-2.0 */
/* GET gives a reference, STAT a description. Which bytes move where is the caller's business. */
#include "engine/engine_internal.h"
#include "engine/fill.h"

/* Lock held on entry, released here. The object is the op's from now on. */
static int get_found(struct engine_reactor *r, struct larder_op *op, uint32_t slot, uint64_t now)
{
	struct engine *e = r->engine;
	struct larder_usage *u = engine_usage(r, engine_usage_slot(e, op));

	engine_ref(r, slot, 1);
	if (!(op->flags & LARDER_F_NO_TOUCH))
		engine_touch(r, slot, now);
	engine_unlock(e, op->shard);
	engine_balance(r, e->objects[slot].tenant, now);
	if (u)
		ledger_count(&u->get_hits, 1);
	if (op->stats)
		engine_stat(e, slot, now, op->stats);
	op->object = &e->objects[slot];
	op->status = LARDER_OK;
	return ENGINE_DONE;
}

/* Not there: it is the op's to fill, to be waited for, or absent. Lock held. */
static int get_missing(struct engine_reactor *r, struct larder_op *op, const struct engine_key *k,
		       const struct engine_found *f, uint64_t now)
{
	op->status = f->ambiguous ? LARDER_BAD_REQUEST : LARDER_NOT_FOUND;
	if (op->flags & LARDER_F_FILL && !f->ambiguous)
		op->status = engine_fill_ask(r, op, k, f->slot, now);
	if (op->status != LARDER_NOT_FOUND || f->slot == RECORD_NONE ||
	    !(op->flags & LARDER_F_WAIT))
		return ENGINE_DONE;
	if (engine_wait_key(r, op, f->slot))
		return ENGINE_LATER;
	op->status = LARDER_BUSY;
	return ENGINE_DONE;
}

int engine_get(struct engine_reactor *r, struct larder_op *op, uint64_t now)
{
	struct engine *e = r->engine;
	struct engine_key k;
	struct engine_found f;
	int step;

	if (op->n_keys != 1 || engine_key_init(e, &k, engine_op_ns(e, op), &op->keys[0],
					       op->flags & LARDER_F_BY_HASH) != LARDER_OK) {
		op->status = LARDER_BAD_REQUEST;
		return ENGINE_DONE;
	}
	op->shard = k.shard;
	do {
		engine_lock(e, k.shard);
		f = engine_find(r, &k, now);
		if (f.slot != RECORD_NONE && !engine_is_filling(&e->objects[f.slot]))
			return get_found(r, op, f.slot, now);
		step = get_missing(r, op, &k, &f, now);
		engine_unlock(e, k.shard);
		engine_found_done(r, &f);
	} while (step == ENGINE_DONE && op->status == LARDER_NO_SPACE &&
		 engine_fill_room(r, op, now));
	if (step == ENGINE_DONE && op->status == LARDER_NO_SPACE)
		op->status = LARDER_NOT_FOUND;
	return step;
}

/* It waited for a writer; a commit brought a reference along. */
int engine_get_told(struct engine_reactor *r, struct larder_op *op, uint32_t slot,
		    enum engine_outcome outcome, uint64_t now)
{
	struct engine *e = r->engine;
	struct larder_usage *u = engine_usage(r, engine_usage_slot(e, op));

	if (outcome == OUTCOME_FAILED) {
		if (op->flags & LARDER_F_FILL)	/* perhaps it is this one's turn */
			return engine_get(r, op, now);
		op->status = LARDER_NOT_FOUND;
		return ENGINE_DONE;
	}
	if (engine_op_ns(e, op) == ENGINE_NOWHERE) {	/* not shared with it any more */
		engine_unref(r, &e->objects[slot]);
		op->status = LARDER_NOT_FOUND;
		return ENGINE_DONE;
	}
	if (!(op->flags & LARDER_F_NO_TOUCH)) {
		engine_lock(e, op->shard);
		if (engine_state(&e->objects[slot]) == RECORD_COMMITTED)
			engine_touch(r, slot, now);
		engine_unlock(e, op->shard);
		engine_balance(r, e->objects[slot].tenant, now);
	}
	if (u)
		ledger_count(&u->get_hits, 1);
	if (op->stats)
		engine_stat(e, slot, now, op->stats);
	op->object = &e->objects[slot];
	op->status = LARDER_OK;
	return ENGINE_DONE;
}

static int stat_one(struct engine_reactor *r, struct larder_op *op, uint32_t i, uint32_t ns,
		    uint64_t now)
{
	struct engine *e = r->engine;
	struct engine_key k;
	struct engine_found f;
	int status = engine_key_init(e, &k, ns, &op->keys[i], op->flags & LARDER_F_BY_HASH);

	if (status != LARDER_OK)
		return status;
	engine_lock(e, k.shard);
	f = engine_find(r, &k, now);
	if (f.slot != RECORD_NONE && engine_is_filling(&e->objects[f.slot]))
		f.slot = RECORD_NONE;
	if (f.slot != RECORD_NONE)
		engine_ref(r, f.slot, 1);
	engine_unlock(e, k.shard);
	engine_found_done(r, &f);
	if (f.slot == RECORD_NONE)
		return f.ambiguous ? LARDER_BAD_REQUEST : LARDER_NOT_FOUND;
	engine_stat(e, f.slot, now, &op->stats[i]);
	op->expire_ns = engine_record(e, f.slot)->expire_ns;
	engine_unref(r, &e->objects[f.slot]);
	return LARDER_OK;
}

int engine_op_stat(struct engine_reactor *r, struct larder_op *op, uint64_t now)
{
	uint32_t ns = engine_op_ns(r->engine, op), found = 0;

	if (!op->stats || op->n_keys == 0) {
		op->status = LARDER_BAD_REQUEST;
		return ENGINE_DONE;
	}
	for (uint32_t i = 0; i < op->n_keys; i++) {
		op->stats[i] = (struct larder_stat){};
		op->keys[i].status = (uint8_t)stat_one(r, op, i, ns, now);
		found += op->keys[i].status != LARDER_NOT_FOUND;
	}
	op->status = found ? LARDER_OK : LARDER_NOT_FOUND;
	return ENGINE_DONE;
}
