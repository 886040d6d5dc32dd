/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PUT in two steps: reserve, then commit or abort by the owner.
 *
 * The first writer is decided before any memory is looked for: the object enters the index as
 * RESERVING, with nothing but a record slot and a pointer to the op whose key it has. So the
 * second of two writers never evicts anything, it waits. Pages and the rest of the record follow
 * without any lock, and an op that finds no room at once is continued by engine_poll.
 *
 * The op that reserves is not changed and not given back while its object is RESERVING, therefore
 * others may read its key through the object, under the shard's lock.
 */
#include <errno.h>

#include "engine/engine_internal.h"
#include "engine/fill.h"

#define PUT_TRIES 16u	/* times that others may take the room we made, per turn */

static int put_done(struct larder_op *op, int status)
{
	op->status = status;
	return ENGINE_DONE;
}

static int put_refuse(struct engine_reactor *r, struct larder_op *op, int status, uint64_t now)
{
	engine_history_refused(r, op, status, now);
	return put_done(op, status);
}

static int put_check(struct engine *e, const struct larder_op *op)
{
	uint64_t pages = (op->length + e->page_size - 1) / e->page_size, block_bytes;
	bool shorter;

	if (op->n_keys != 1 || op->keys[0].key_len == 0 || op->keys[0].key_len > LARDER_KEY_MAX ||
	    !op->keys[0].key || op->length == 0)
		return LARDER_BAD_REQUEST;
	if (op->length > e->max_value_bytes || pages > arena_pages(e->arena))
		return LARDER_TOO_LARGE;
	if (op->opcode == LARDER_OP_PUT &&
	    (!op->checks || op->n_checks != larder_check_count(op->length)))
		return LARDER_BAD_REQUEST;
	if (records_needed(op->keys[0].key_len, 1, larder_check_count(op->length)) > e->capacity)
		return LARDER_TOO_LARGE;
	if (engine_op_ns(e, op) == ENGINE_NOWHERE)
		return LARDER_NOT_FOUND;
	if (!engine_namespace_takes(e, op->ns, op->length, &block_bytes, &shorter))
		return LARDER_BAD_REQUEST;
	return LARDER_OK;
}

/* What a writer of a present key learns. Drops the reference unless the op keeps it. */
static int put_present(struct engine_reactor *r, struct larder_op *op, uint32_t slot)
{
	struct engine *e = r->engine;
	struct engine_object *o = &e->objects[slot];

	op->present = true;
	if (op->opcode == LARDER_OP_PUT_BEGIN) {
		op->object = o;
		return put_done(op, LARDER_OK);
	}
	op->status = engine_compare(e, slot, op->length, op->checks, op->n_checks);
	if (op->stats)
		engine_stat(e, slot, engine_now(r), op->stats);
	engine_unref(r, o);
	return ENGINE_DONE;
}

void engine_put_told(struct engine_reactor *r, struct larder_op *op, uint32_t slot,
		     enum engine_outcome outcome)
{
	if (outcome == OUTCOME_FAILED)
		(void)put_done(op, LARDER_BUSY);
	else
		(void)put_present(r, op, slot);
}

/* The key is there or another writer is at it. Lock held; released here. */
static int put_found(struct engine_reactor *r, struct larder_op *op, uint32_t slot, uint64_t now)
{
	struct engine *e = r->engine;

	if (!engine_is_filling(&e->objects[slot])) {
		engine_ref(r, slot, 1);
		if (!(op->flags & LARDER_F_NO_TOUCH))
			engine_touch(r, slot, now);
		engine_unlock(e, op->shard);
		engine_balance(r, op->tenant, now);
		return put_present(r, op, slot);
	}
	if (!(op->flags & LARDER_F_NOWAIT) && engine_wait_key(r, op, slot)) {
		engine_unlock(e, op->shard);
		return ENGINE_LATER;
	}
	engine_unlock(e, op->shard);
	return put_done(op, LARDER_BUSY);
}

/* Takes a record slot, or @promised, for a writer that may come. Its status; RECORD_NONE with OK:
 * none is free, or (*@own) no more of the tenant's own. */
static int put_take_slot(struct engine *e, const struct larder_op *op, uint32_t promised,
			 uint32_t *slot, bool *own)
{
	int status = engine_writer_enter(e, op);

	*slot = RECORD_NONE;
	*own = false;
	if (status != LARDER_OK)
		return status;
	*own = !engine_objects_take(e, op->tenant);
	if (!*own) {
		*slot = promised != RECORD_NONE ? promised : records_slot_take(e->records);
		if (*slot == RECORD_NONE)
			engine_objects_add(e, op->tenant, -1);
	}
	if (*slot == RECORD_NONE)
		engine_writer_leave(e, op->ns);
	return LARDER_OK;
}

/* The writer has its place: a new one, or that of the promise with all who wait. Lock held. */
static void put_enter(struct engine *e, const struct larder_op *op, uint64_t hash, uint32_t slot,
		      bool promised)
{
	if (!promised) {
		engine_enter(e, slot, op->tenant, hash, OBJECT_RESERVING, (uintptr_t)op);
		return;
	}
	engine_fill_end(e, slot);
	e->objects[slot].last = (uintptr_t)op;
	engine_set_state(&e->objects[slot], OBJECT_RESERVING);
}

/* Refused before it had a place: whoever waits because the key is promised is told. */
static int put_refuse_key(struct engine_reactor *r, struct larder_op *op,
			  const struct engine_key *k, int status, uint64_t now)
{
	struct engine *e = r->engine;
	struct engine_found f;
	uint32_t waiters = 0;
	bool promised;

	engine_lock(e, k->shard);
	f = engine_find(r, k, now);
	promised = f.slot != RECORD_NONE && engine_state(&e->objects[f.slot]) == OBJECT_PROMISED;
	if (promised)
		waiters = engine_fill_break(e, f.slot);
	engine_unlock(e, k->shard);
	engine_found_done(r, &f);
	if (promised)
		engine_fill_broken(r, f.slot, waiters);
	return put_refuse(r, op, status, now);
}

/*
 * Where leases and pins leave too little, nothing is evicted in vain. Leases that have run out but
 * still stand in the table are no reason.
 */
static enum engine_room put_evict_own(struct engine_reactor *r, const struct larder_op *op,
				      uint32_t pages, uint32_t objects, struct engine_scan *scan,
				      uint64_t now)
{
	struct engine *e = r->engine;

	if (engine_held_full(e, op->tenant, pages)) {
		engine_lease_expire(e, now, ENGINE_LEASES_PER_TURN);
		if (engine_held_full(e, op->tenant, pages))
			return engine_lease_due(e, now) ? ROOM_LATER : ROOM_NONE;
	}
	return engine_make_own_room(r, op->tenant, pages, objects, scan, now);
}

/* Room below the caps of the op's own tenant. NONE: it is refused, for op->limit. */
static enum engine_room put_own_room(struct engine_reactor *r, struct larder_op *op, uint32_t pages,
				     uint32_t objects, struct engine_scan *scan, uint64_t now)
{
	struct engine *e = r->engine;
	const struct engine_tenant *t = &e->tenants[op->tenant];
	enum larder_limit limit = engine_over(e, op->tenant, pages, objects);
	enum engine_room room = ROOM_NONE;

	if (limit == LARDER_LIMIT_NONE)
		return ROOM_READY;
	if (pages <= engine_cap_pages(t) &&
	    __atomic_load_n(&t->limit[LARDER_LIMIT_over_cap], __ATOMIC_RELAXED) ==
	    LARDER_OVER_CAP_EVICT_OWN)
		room = put_evict_own(r, op, pages, objects, scan, now);
	if (room == ROOM_NONE)
		engine_refused(r, op, limit);
	return room;
}

/* What is not there, or is promised, is admitted or not. What somebody waits for will be read. */
static bool put_is_admitted(struct engine_reactor *r, const struct larder_op *op,
			    const struct engine_key *k, uint32_t promised)
{
	return (promised != RECORD_NONE && r->engine->objects[promised].waiters) ||
	       engine_admits(r, op, k);
}

/* Takes a place in the index for the key. */
static int put_place(struct engine_reactor *r, struct larder_op *op, uint32_t *slot,
		     struct engine_scan *scan, uint64_t now)
{
	struct engine *e = r->engine;
	struct engine_key k;

	if (engine_key_init(e, &k, op->ns, &op->keys[0], false) != LARDER_OK)
		return put_done(op, LARDER_BAD_REQUEST);
	op->shard = k.shard;
	for (uint32_t tries = 0; tries < PUT_TRIES; tries++) {
		struct engine_found f;
		enum engine_room room;
		int status;
		bool own;

		engine_lock(e, k.shard);
		f = engine_find(r, &k, now);
		if (f.slot != RECORD_NONE &&
		    engine_state(&e->objects[f.slot]) != OBJECT_PROMISED)
			return put_found(r, op, f.slot, now);
		if (!put_is_admitted(r, op, &k, f.slot)) {
			engine_unlock(e, k.shard);
			engine_found_done(r, &f);
			return put_refuse_key(r, op, &k, LARDER_QUOTA, now);
		}
		status = put_take_slot(e, op, f.slot, slot, &own);
		if (*slot != RECORD_NONE)
			put_enter(e, op, k.hash, *slot, f.slot != RECORD_NONE);
		engine_unlock(e, k.shard);
		engine_found_done(r, &f);
		if (status != LARDER_OK)
			return put_done(op, status);
		if (*slot != RECORD_NONE) {
			engine_tally(&r->counters.filling, 1);
			return ENGINE_DONE;
		}
		room = own ? put_own_room(r, op, 0, 1, scan, now) :
			     engine_make_room(r, 0, 1, scan, now);
		if (room == ROOM_NONE && (own || !engine_fill_reclaim(r)))
			return put_refuse_key(r, op, &k, own ? LARDER_QUOTA : LARDER_NO_SPACE, now);
		if (room == ROOM_LATER)
			break;
	}
	return ENGINE_LATER;
}

static uint64_t put_expiry(const struct engine *e, const struct larder_op *op, uint64_t now)
{
	uint32_t ttl_ms = op->ttl_ms ? op->ttl_ms : e->namespaces[op->ns].ttl_ms;

	return ttl_ms ? now + ttl_ms * NSEC_PER_MSEC : 0;
}

/* Writes the record; r->runs has the pages. 0 or -ENOSPC. */
static int put_fill(struct engine_reactor *r, const struct larder_op *op, uint32_t slot,
		    uint32_t n_runs, uint64_t now)
{
	struct engine *e = r->engine;
	struct record *record = engine_record(e, slot);
	const struct record_content content = {
		.tenant = op->tenant,
		.ns = op->ns,
		.length = op->length,
		.digest = op->digest,
		.expire_ns = put_expiry(e, op, now),
		.flags = op->flags & LARDER_F_CHECKED_BY_NODE ? RECORD_CHECKED_BY_NODE : 0,
		.key = op->keys[0].key,
		.key_len = op->keys[0].key_len,
		.runs = r->runs,
		.n_runs = n_runs,
		.checks = op->opcode == LARDER_OP_PUT ? op->checks : NULL,
		.n_checks = larder_check_count(op->length),
	};
	int rc = records_fill(e->records, slot, &content);

	if (rc < 0)
		return rc;
	__atomic_store_n(&record->hits, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&record->last_ns, now, __ATOMIC_RELAXED);
	__atomic_store_n(&record->lease_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&record->pins, 0, __ATOMIC_RELAXED);
	return 0;
}

/* Pages into r->runs, counted for the tenant first: their number of runs, or -ENOSPC: others were
 * faster. */
static int put_pages(struct engine_reactor *r, const struct larder_op *op, uint32_t pages)
{
	struct engine *e = r->engine;
	int n_runs;

	if (!engine_resident_take(e, op->tenant, pages))
		return -ENOSPC;
	n_runs = arena_alloc(e->arena, pages, r->runs, pages);
	if (n_runs < 0)
		engine_resident(e, op->tenant, -(int64_t)pages);
	return n_runs;
}

/* Pages and records are there, the writer may begin. */
static int put_filling(struct engine_reactor *r, struct larder_op *op, uint32_t slot,
		       uint32_t pages)
{
	struct engine *e = r->engine;
	struct engine_object *o = &e->objects[slot];

	engine_lock(e, op->shard);
	o->size_pages = pages;
	o->flags = engine_record(e, slot)->expire_ns ? OBJECT_TTL : 0;
	o->last = 0;
	engine_set_state(o, RECORD_FILLING);
	engine_unlock(e, op->shard);
	op->object = o;
	return put_done(op, LARDER_OK);
}

/* Finds pages and overflow records for the object that is RESERVING in @slot. */
static int put_reserve(struct engine_reactor *r, struct larder_op *op, uint32_t slot,
		       struct engine_scan *scan, uint64_t now)
{
	struct engine *e = r->engine;
	uint32_t pages = arena_pages_of(e->page_size, op->length);
	uint32_t n_checks = larder_check_count(op->length);
	uint32_t more = records_needed(op->keys[0].key_len, 1, n_checks) - 1;

	for (uint32_t tries = 0; tries < PUT_TRIES; tries++) {
		enum engine_room room = put_own_room(r, op, pages, 0, scan, now);
		int status = LARDER_QUOTA, n_runs;

		if (room == ROOM_READY) {
			room = engine_make_room(r, pages, more, scan, now);
			status = LARDER_NO_SPACE;
		}
		if (room == ROOM_NONE && status == LARDER_NO_SPACE &&
		    records_slots_free(e->records) < more && engine_fill_reclaim(r))
			continue;
		if (room == ROOM_NONE) {
			engine_put_fail(r, slot);
			return put_refuse(r, op, status, now);
		}
		if (room == ROOM_LATER)
			break;
		n_runs = put_pages(r, op, pages);
		if (n_runs < 0)
			continue;
		if (put_fill(r, op, slot, (uint32_t)n_runs, now) < 0) {
			arena_release(e->arena, r->runs, (uint32_t)n_runs);
			engine_resident(e, op->tenant, -(int64_t)pages);
			more = records_needed(op->keys[0].key_len, (uint32_t)n_runs, n_checks) - 1;
			continue;
		}
		return put_filling(r, op, slot, pages);
	}
	return ENGINE_LATER;
}

int engine_put_continue(struct engine_reactor *r, struct larder_op *op, uint32_t *slot,
			struct engine_scan *scan, uint64_t now)
{
	r->room_for = op->tenant;
	if (*slot == RECORD_NONE) {
		int step = put_place(r, op, slot, scan, now);

		if (*slot == RECORD_NONE)
			return step;
	}
	return put_reserve(r, op, *slot, scan, now);
}

int engine_put(struct engine_reactor *r, struct larder_op *op, uint64_t now)
{
	uint32_t slot = RECORD_NONE;
	struct engine_scan scan = {};
	int status = put_check(r->engine, op);

	if (status != LARDER_OK)
		return put_done(op, status);
	if (engine_put_continue(r, op, &slot, &scan, now) == ENGINE_DONE)
		return ENGINE_DONE;
	if (op->stage)			/* waits for another writer */
		return ENGINE_LATER;
	if (engine_wait_work(r, op, slot, &scan))
		return ENGINE_LATER;
	if (slot != RECORD_NONE)
		engine_put_fail(r, slot);
	return put_done(op, LARDER_BUSY);
}

/* Takes a RESERVING or FILLING object back and tells those who wait for it. */
void engine_put_fail(struct engine_reactor *r, uint32_t slot)
{
	struct engine *e = r->engine;
	struct engine_object *o = &e->objects[slot];
	uint32_t shard = engine_shard_of(e, o->hash), list, n, ns;
	bool reserving;

	engine_lock(e, shard);
	reserving = engine_state(o) == OBJECT_RESERVING;
	ns = reserving ? ((const struct larder_op *)(uintptr_t)o->last)->ns
		       : engine_record(e, slot)->ns;
	engine_index_remove(e, slot);
	list = engine_wait_detach(e, o, OUTCOME_FAILED, &n);
	engine_objects_add(e, o->tenant, -1);
	if (reserving)
		engine_set_state(o, RECORD_FREE);
	engine_unlock(e, shard);
	if (reserving) {
		engine_tally(&r->counters.filling, -1);
		records_slot_give(e->records, slot);
	} else {
		engine_object_free(r, slot);
	}
	engine_writer_leave(e, ns);
	engine_wait_wake(r, list);
}

void engine_abort(struct engine_reactor *r, struct larder_op *op)
{
	struct engine_object *o = TAKE_PTR(op->object);

	if (op->present)
		engine_unref(r, o);
	else
		engine_put_fail(r, engine_slot(r->engine, o));
}

void engine_put_ttl(struct engine_reactor *r, const struct larder_op *op, uint32_t ttl_ms)
{
	struct engine *e = r->engine;
	struct engine_object *o = op->object;
	uint32_t shard = engine_shard_of(e, o->hash);

	if (op->present)
		return;
	/* under no check yet: the commit computes it */
	__atomic_store_n(&engine_record(e, engine_slot(e, o))->expire_ns,
			 engine_now(r) + ttl_ms * NSEC_PER_MSEC, __ATOMIC_RELAXED);
	engine_lock(e, shard);
	o->flags |= OBJECT_TTL;
	engine_unlock(e, shard);
}

/* The object is in the record file: now the index says so too. Returns those who waited. */
static uint32_t put_publish(struct engine_reactor *r, struct larder_op *op, uint32_t slot,
			    uint64_t now)
{
	struct engine *e = r->engine;
	struct engine_object *o = &e->objects[slot];
	uint32_t shard = engine_shard_of(e, o->hash), tenant = o->tenant, list, n;
	struct policy_place place;

	engine_lock(e, shard);
	place = engine_place(e, tenant, shard, now);
	engine_set_state(o, RECORD_COMMITTED);
	e->policy->on_insert(&place, slot);
	engine_listed(e, slot, 1);
	engine_writer_leave(e, engine_record(e, slot)->ns);
	engine_scrub_note(r, slot);
	list = engine_wait_detach(e, o, OUTCOME_COMMITTED, &n);
	if (op->stats)
		n++;
	engine_ref(r, slot, n);
	engine_unlock(e, shard);
	engine_balance(r, tenant, now);
	return list;
}

void engine_commit(struct engine_reactor *r, struct larder_op *op)
{
	struct engine *e = r->engine;
	uint32_t slot = engine_slot(e, op->object), list;
	uint64_t now = engine_now(r);
	const uint32_t *checks = op->opcode == LARDER_OP_PUT ? NULL : op->checks;
	struct record *record = engine_record(e, slot);
	struct larder_usage *u = engine_usage(r, engine_usage_slot(e, op));

	if (op->present) {
		if (!op->checks)
			op->status = LARDER_BAD_REQUEST;
		else
			op->status = engine_compare(e, slot, op->length, op->checks, op->n_checks);
		engine_unref(r, TAKE_PTR(op->object));
		return;
	}
	if (op->opcode != LARDER_OP_PUT && (!checks || op->n_checks != record->n_checks)) {
		engine_abort(r, op);
		op->status = LARDER_BAD_REQUEST;
		return;
	}
	__atomic_store_n(&record->last_ns, now, __ATOMIC_RELAXED);
	records_commit(e->records, slot, checks, clock_wall_ms(e->clock));
	engine_tally(&r->counters.filling, -1);
	engine_tally(&r->counters.objects, 1);
	if (u)
		ledger_count(&u->put_new, 1);
	list = put_publish(r, op, slot, now);
	if (op->stats) {
		engine_stat(e, slot, now, op->stats);
		engine_unref(r, op->object);
	}
	op->object = NULL;
	op->status = LARDER_OK;
	engine_wait_wake(r, list);
}
