/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EXISTS and LEASE: many keys, each leased in the same step in which it is found, under the same
 * lock. The policy is never told: asking is not using.
 *
 * A look-up is three cache misses that depend on one another. So they are a pipeline: while one key
 * is looked up, the record of one some way behind is fetched, the object of one further behind, and
 * the bucket of one behind that.
 *
 * With WAIT the op stops at the first key that another writer fills and goes on from it when that
 * writer ends. op->count is the key to go on from, until the op is done; op->leading_run grows
 * along.
 */
#include "engine/engine_internal.h"

#define EXISTS_AHEAD 16u		/* keys from one stage of the pipeline to the next */
#define EXISTS_RING 64u			/* over three times that */

struct exists {
	struct engine_reactor *r;
	struct larder_op *op;
	uint64_t now;
	uint64_t lease_deadline;	/* 0: no lease is wanted */
	bool wait;
};

/* Lock held. False: the op is parked at this key. */
static bool exists_found(const struct exists *x, struct larder_op_key *key, uint32_t slot)
{
	struct engine *e = x->r->engine;
	enum engine_leased leased;

	if (engine_is_filling(&e->objects[slot])) {
		if (x->wait && engine_wait_key(x->r, x->op, slot))
			return false;
		key->presence = LARDER_FILLING;
		return true;
	}
	key->presence = LARDER_PRESENT;
	key->status = LARDER_OK;
	if (!x->lease_deadline)
		return true;
	leased = engine_lease_add(e, slot, x->op->tenant, x->op->lease_id, x->lease_deadline,
				  x->now);
	if (leased == ENGINE_LEASED)
		key->presence = LARDER_LEASED;
	else
		key->status = LARDER_QUOTA;
	if (leased == ENGINE_LEASE_OVER)
		engine_refused(x->r, x->op, LARDER_LIMIT_leased_bytes);
	return true;
}

static bool exists_one(const struct exists *x, uint32_t i, const struct engine_key *k)
{
	struct larder_op *op = x->op;
	struct larder_op_key *key = &op->keys[i];
	struct engine_found f;
	bool go_on = true;

	key->presence = LARDER_ABSENT;
	key->status = LARDER_NOT_FOUND;
	op->shard = k->shard;
	engine_lock(x->r->engine, k->shard);
	f = engine_find(x->r, k, x->now);
	if (f.slot != RECORD_NONE)
		go_on = exists_found(x, key, f.slot);
	engine_unlock(x->r->engine, k->shard);
	engine_found_done(x->r, &f);
	if (key->presence == LARDER_PRESENT || key->presence == LARDER_LEASED)
		op->leading_run += op->leading_run == i;
	return go_on;
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
	op->lease_ms = MIN(op->lease_ms, e->lease_max_ms);	/* what is granted */
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
	bool dropped = false;

	engine_lock(e, k->shard);
	f = engine_find(r, k, now);
	if (f.slot != RECORD_NONE && !engine_is_filling(&e->objects[f.slot]))
		dropped = engine_lease_drop(e, f.slot, op->tenant, op->lease_id);
	engine_unlock(e, k->shard);
	engine_found_done(r, &f);
	return dropped ? LARDER_OK : LARDER_NOT_FOUND;
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
