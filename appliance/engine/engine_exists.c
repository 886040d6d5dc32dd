/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EXISTS and LEASE: many keys, each leased in the same step in which it is found, under the same
 * lock. The policy is never told: asking is not using.
 *
 * A look-up is three cache misses that depend on one another. So they are a pipeline: while one key
 * is looked up, the record of one some way behind is fetched, the object of one further behind, and
 * the bucket of one behind that.
 *
 * With FILL the first missing key may become the op's to fill; with WAIT too, it waits for that key
 * while it is another's, and for no other.
 *
 * With WAIT the op stops at the first key that another writer fills and goes on from it when that
 * writer ends. op->count is the key to go on from, until the op is done; op->leading_run grows
 * along.
 */
#include "engine/engine_internal.h"
#include "engine/fill.h"

#define EXISTS_AHEAD 16u		/* keys from one stage of the pipeline to the next */
#define EXISTS_RING 64u			/* over three times that */

struct exists {
	struct engine_reactor *r;
	struct larder_op *op;
	uint64_t now;
	uint64_t lease_deadline;	/* 0: no lease is wanted */
	bool wait;
	bool fill;			/* a fill lease on the first missing key is wanted */
};

/*
 * Another one writes the key, or is to. With FILL the op waits only for its first missing key: from
 * there on it may hold a fill lease, and who holds one waits for nobody. Lock held. False: parked.
 */
static bool exists_filling(const struct exists *x, struct larder_op_key *key, uint32_t i,
			   uint32_t slot)
{
	bool first = x->op->leading_run == i;

	key->presence = LARDER_FILLING;
	if (!x->wait || (x->fill && !first))
		return true;
	if (engine_wait_key(x->r, x->op, slot))
		return false;
	key->status = LARDER_BUSY;
	return true;
}

/* Lock held. */
static void exists_found(const struct exists *x, struct larder_op_key *key, uint32_t slot)
{
	struct engine *e = x->r->engine;
	enum engine_leased leased;

	key->presence = LARDER_PRESENT;
	key->status = LARDER_OK;
	if (!x->lease_deadline)
		return;
	leased = engine_lease_add(e, slot, x->op->tenant, x->op->lease_id, x->lease_deadline,
				  x->now);
	if (leased == ENGINE_LEASED) {
		key->presence = LARDER_LEASED;
		return;
	}
	key->status = LARDER_QUOTA;
	engine_refused(x->r, x->op, LARDER_LIMIT_leased_bytes);
}

/* Lock held. False: the op is parked at this key. */
static bool exists_look(const struct exists *x, uint32_t i, const struct engine_key *k,
			const struct engine_found *f)
{
	struct larder_op *op = x->op;
	struct larder_op_key *key = &op->keys[i];

	key->presence = LARDER_ABSENT;
	key->status = LARDER_NOT_FOUND;
	if (f->slot != RECORD_NONE && !engine_is_filling(&x->r->engine->objects[f->slot])) {
		exists_found(x, key, f->slot);
		return true;
	}
	/* the one fill lease is for the first missing key, whoever gets it */
	if (x->fill && op->leading_run == i)
		key->status = (uint8_t)engine_fill_ask(x->r, op, k, f->slot, x->now);
	if (key->status == LARDER_NOT_FOUND && f->slot != RECORD_NONE)
		return exists_filling(x, key, i, f->slot);
	return true;
}

static bool exists_one(const struct exists *x, uint32_t i, const struct engine_key *k)
{
	struct larder_op *op = x->op;
	struct larder_op_key *key = &op->keys[i];
	struct engine_found f;
	bool go_on;

	op->shard = k->shard;
	do {
		engine_lock(x->r->engine, k->shard);
		f = engine_find(x->r, k, x->now);
		go_on = exists_look(x, i, k, &f);
		engine_unlock(x->r->engine, k->shard);
		if (!go_on)
			return false;
		engine_found_done(x->r, &f);
	} while (key->status == LARDER_NO_SPACE && engine_fill_room(x->r, op, x->now));
	if (key->status == LARDER_NO_SPACE)
		key->status = LARDER_NOT_FOUND;
	if (key->presence == LARDER_PRESENT || key->presence == LARDER_LEASED)
		op->leading_run += op->leading_run == i;
	return true;
}

/* Key @i, if there is one, in its place in the ring. */
static struct engine_key *exists_stage(const struct exists *x, struct engine_key *ring, uint64_t i,
				       uint64_t first)
{
	return i >= first && i < x->op->n_keys ? &ring[i % EXISTS_RING] : NULL;
}

/* Keys from op->count on. False: the op is parked at one. */
static bool exists_keys(const struct exists *x, uint32_t ns)
{
	const struct engine *e = x->r->engine;
	struct larder_op *op = x->op;
	struct engine_key ring[EXISTS_RING], *k;
	uint64_t first = op->count;

	/* unsigned: before the first key is far behind the last */
	for (uint64_t i = first; i < op->n_keys + 3ull * EXISTS_AHEAD; i++) {
		k = exists_stage(x, ring, i, first);
		if (k) {
			/* lengths were checked: it can't fail */
			(void)engine_key_init(e, k, ns, &op->keys[i], false);
			engine_index_prefetch_bucket(e, k);
		}
		k = exists_stage(x, ring, i - EXISTS_AHEAD, first);
		if (k)
			engine_index_prefetch_object(e, k);
		k = exists_stage(x, ring, i - 2 * EXISTS_AHEAD, first);
		if (k)
			engine_index_prefetch_record(e, k);
		k = exists_stage(x, ring, i - 3 * EXISTS_AHEAD, first);
		if (k) {
			op->count = i - 3 * EXISTS_AHEAD;
			if (!exists_one(x, (uint32_t)op->count, k))
				return false;
		}
	}
	op->count = op->n_keys;
	return true;
}

static int exists_check(struct engine *e, struct larder_op *op)
{
	bool lease = op->flags & LARDER_F_LEASE || op->opcode == LARDER_OP_LEASE;

	if (op->n_keys == 0 || !op->keys || (lease && op->lease_ms == 0))
		return LARDER_BAD_REQUEST;
	for (uint32_t i = 0; i < op->n_keys; i++)
		if (op->keys[i].key_len == 0 || op->keys[i].key_len > LARDER_KEY_MAX ||
		    !op->keys[i].key)
			return LARDER_BAD_REQUEST;
	/* what is granted */
	if (op->flags & LARDER_F_FILL)
		op->lease_ms = engine_fill_ms(e, op->lease_ms);
	op->lease_ms = MIN(op->lease_ms, e->lease_max_ms);
	return LARDER_OK;
}

static int exists_done(struct engine_reactor *r, struct larder_op *op)
{
	struct larder_usage *u = engine_usage(r, engine_usage_slot(r->engine, op));
	uint32_t present = 0;

	for (uint32_t i = 0; i < op->n_keys; i++)
		present += op->keys[i].presence == LARDER_PRESENT ||
			   op->keys[i].presence == LARDER_LEASED;
	op->count = 0;
	op->status = LARDER_OK;
	if (op->opcode == LARDER_OP_LEASE) {
		op->status = present ? LARDER_OK : LARDER_NOT_FOUND;
	} else if (u) {
		ledger_count(&u->exists_keys, op->n_keys);
		ledger_count(&u->exists_present, present);
		ledger_count(&u->leading_run_keys, op->leading_run);
	}
	return ENGINE_DONE;
}

int engine_exists(struct engine_reactor *r, struct larder_op *op, uint64_t now, bool wait)
{
	struct engine *e = r->engine;
	struct exists x = { .r = r, .op = op, .now = now };
	uint32_t ns = engine_op_ns(e, op);

	if (op->count == 0) {
		op->status = exists_check(e, op);
		if (op->status != LARDER_OK)
			return ENGINE_DONE;
	}
	x.wait = wait && op->flags & LARDER_F_WAIT;
	x.fill = op->flags & LARDER_F_FILL && op->opcode == LARDER_OP_EXISTS;
	/* a viewer takes no lease, whatever it asks for */
	if ((op->flags & LARDER_F_LEASE || op->opcode == LARDER_OP_LEASE) &&
	    !(op->flags & LARDER_F_NO_TOUCH))
		x.lease_deadline = now + op->lease_ms * NSEC_PER_MSEC;
	if (!exists_keys(&x, ns))
		return ENGINE_LATER;
	return exists_done(r, op);
}

/* Lock not held. */
static int release_one(struct engine_reactor *r, const struct larder_op *op,
		       const struct engine_key *k, uint64_t now)
{
	struct engine *e = r->engine;
	struct engine_found f;
	bool dropped = false, broken = false;
	uint32_t waiters = 0;

	engine_lock(e, k->shard);
	f = engine_find(r, k, now);
	if (f.slot != RECORD_NONE && engine_state(&e->objects[f.slot]) == OBJECT_PROMISED) {
		broken = engine_fill_is_of(e, f.slot, op);
		if (broken)
			waiters = engine_fill_break(e, f.slot);
	} else if (f.slot != RECORD_NONE && !engine_is_filling(&e->objects[f.slot])) {
		dropped = engine_lease_drop(e, f.slot, op->tenant, op->lease_id);
	}
	engine_unlock(e, k->shard);
	engine_found_done(r, &f);
	if (broken)
		engine_fill_broken(r, f.slot, waiters);
	return dropped || broken ? LARDER_OK : LARDER_NOT_FOUND;
}

/* With keys: this id's lease on each. Without: all that the id holds, a bounded part per turn. */
int engine_release(struct engine_reactor *r, struct larder_op *op, uint64_t now)
{
	struct engine *e = r->engine;
	uint32_t ns = engine_op_ns(e, op);
	struct engine_key k;

	if (op->n_keys == 0) {
		uint32_t n = engine_lease_drop_all(e, op->tenant, op->lease_id,
						   ENGINE_LEASES_PER_TURN);

		if (n < ENGINE_LEASES_PER_TURN)
			n += engine_fill_drop_all(r, op->tenant, op->lease_id,
						  ENGINE_LEASES_PER_TURN - n);
		op->count += n;
		if (n == ENGINE_LEASES_PER_TURN)
			return ENGINE_LATER;
		op->status = op->count ? LARDER_OK : LARDER_NOT_FOUND;
		return ENGINE_DONE;
	}
	for (uint32_t i = 0; i < op->n_keys; i++) {
		int status = engine_key_init(e, &k, ns, &op->keys[i], false);

		if (status == LARDER_OK)
			status = release_one(r, op, &k, now);
		op->keys[i].status = (uint8_t)status;
		op->count += status == LARDER_OK;
	}
	op->status = op->count ? LARDER_OK : LARDER_NOT_FOUND;
	return ENGINE_DONE;
}
