/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PIN and UNPIN. A pin is a mark, not a count: an object has a soft one or not, and a hard one or
 * not. So both operations may be repeated after a lost reply, and whoever takes a pin back takes it
 * back for everybody of the tenant.
 *
 * The mark is one store into one word of the record, which is all that a restart needs. On the heap
 * the object is in the list of its strongest pin, where eviction meets it last or never.
 *
 * The budget is taken before the mark is made and given back after it is gone, or when the object
 * ends.
 */
#include "engine/engine_internal.h"

static uint32_t pin_list(uint32_t pins)
{
	return pins & ENGINE_PIN_HARD ? POLICY_HARD : POLICY_SOFT;
}

static void pin_store(struct engine *e, uint32_t slot, uint32_t pins)
{
	__atomic_store_n(&engine_record(e, slot)->pins, pins, __ATOMIC_RELEASE);
}

/* Lock held. */
static int pin_set(struct engine_reactor *r, struct larder_op *op, uint32_t slot, uint32_t kind,
		   const struct policy_place *place)
{
	struct engine *e = r->engine;
	uint32_t pins = engine_pins(e, slot);

	if (pins & kind)
		return LARDER_OK;
	if (kind == ENGINE_PIN_HARD &&
	    !engine_pinned_take(e, op->tenant, engine_record(e, slot)->length)) {
		engine_refused(r, op, LARDER_LIMIT_pinned_bytes);
		return LARDER_QUOTA;
	}
	pins |= kind & (1u | 1u << 16);
	pin_store(e, slot, pins);
	engine_list_move(place, pin_list(pins), slot);
	return LARDER_OK;
}

/* Lock held. Without any pin it is to its policy as if it came now. */
static int pin_clear(struct engine *e, uint32_t slot, uint32_t kind,
		     const struct policy_place *place)
{
	uint32_t pins = engine_pins(e, slot);

	if (!(pins & kind))
		return LARDER_OK;
	if (kind == ENGINE_PIN_HARD)
		engine_pin_orphan(e, slot);
	pins &= ~kind;
	pin_store(e, slot, pins);
	if (pins) {
		engine_list_move(place, pin_list(pins), slot);
		return LARDER_OK;
	}
	policy_leave(place, slot);
	e->policy->on_insert(place, slot);
	return LARDER_OK;
}

static int pin_one(struct engine_reactor *r, struct larder_op *op, const struct engine_key *k,
		   uint64_t now)
{
	struct engine *e = r->engine;
	uint32_t kind = op->flags & LARDER_F_HARD ? ENGINE_PIN_HARD : ENGINE_PIN_SOFT;
	int status = LARDER_NOT_FOUND;
	struct policy_place place;
	struct engine_found f;

	engine_lock(e, k->shard);
	f = engine_find(r, k, now);
	if (f.slot != RECORD_NONE && !engine_is_filling(&e->objects[f.slot])) {
		place = engine_place(e, op->tenant, k->shard, now);
		status = op->opcode == LARDER_OP_PIN ? pin_set(r, op, f.slot, kind, &place)
						     : pin_clear(e, f.slot, kind, &place);
	}
	engine_unlock(e, k->shard);
	engine_found_done(r, &f);
	return status;
}

int engine_pin(struct engine_reactor *r, struct larder_op *op, uint64_t now)
{
	struct engine *e = r->engine;
	uint32_t ns = engine_op_ns(e, op), found = 0;
	struct engine_key k;

	if (op->n_keys == 0 || !op->keys) {
		op->status = LARDER_BAD_REQUEST;
		return ENGINE_DONE;
	}
	for (uint32_t i = 0; i < op->n_keys; i++) {
		int status = engine_key_init(e, &k, ns, &op->keys[i], false);

		if (status == LARDER_OK)
			status = pin_one(r, op, &k, now);
		op->keys[i].status = (uint8_t)status;
		op->count += status == LARDER_OK;
		found += status != LARDER_NOT_FOUND;
	}
	engine_balance(r, op->tenant, now);
	op->status = found ? LARDER_OK : LARDER_NOT_FOUND;
	return ENGINE_DONE;
}

void engine_pin_orphan(struct engine *e, uint32_t slot)
{
	const struct record *record = engine_record(e, slot);

	if (engine_is_hard_pinned(e, slot))
		engine_pinned_give(e, record->tenant, record->length);
}

void engine_pin_rebuild(struct engine *e, uint32_t slot, const struct policy_place *place)
{
	const struct record *record = engine_record(e, slot);
	uint32_t pins = engine_pins(e, slot);

	if (!pins)
		return;
	engine_list_move(place, pin_list(pins), slot);
	/* no limit is set yet */
	if (pins & ENGINE_PIN_HARD)
		(void)engine_pinned_take(e, record->tenant, record->length);
}
