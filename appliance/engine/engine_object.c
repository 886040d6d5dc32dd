/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One object: found, referenced, taken out, freed, described.
 *
 * A reference is taken under the shard's lock while the object is COMMITTED, and dropped without
 * any lock. Taking an object out (engine_doom) happens under the lock too and sets OBJECT_GONE in
 * the same word that counts the references: whoever makes the count zero with that bit set, the
 * one who took it out or the last reader, owns what is left and frees it. So a read under way is
 * never cut, and nobody waits for it.
 *
 * Order in the record file: the state says DOOMED before any page of the object is given back, so
 * that no two records that count ever name the same page.
 */
#include <larder/probes.h>

#include "base/check.h"
#include "engine/engine_internal.h"

#define OBJECT_CHECKS_STEP 64u
#define OBJECT_RUNS_STEP 64u

bool engine_is_expired(struct engine *e, uint32_t slot, uint64_t now)
{
	/* a lease and a hard pin are promises, a ttl only a wish */
	return e->objects[slot].flags & OBJECT_TTL &&
	       now >= __atomic_load_n(&engine_record(e, slot)->expire_ns, __ATOMIC_RELAXED) &&
	       engine_lease_word(e, slot) <= now && !engine_is_hard_pinned(e, slot);
}

struct engine_found engine_find(struct engine_reactor *r, const struct engine_key *k, uint64_t now)
{
	struct engine *e = r->engine;
	struct engine_found f = { .gone = RECORD_NONE };

	f.slot = engine_index_find(e, k, &f.ambiguous);
	if (f.slot == RECORD_NONE || e->objects[f.slot].state != RECORD_COMMITTED ||
	    !engine_is_expired(e, f.slot, now))
		return f;
	if (engine_doom(r, f.slot, END_EXPIRED))
		f.gone = f.slot;
	f.slot = RECORD_NONE;
	return f;
}

void engine_found_done(struct engine_reactor *r, const struct engine_found *f)
{
	if (f->gone != RECORD_NONE)
		engine_object_free(r, f->gone);
}

bool engine_lock_object(struct engine *e, uint32_t slot, uint32_t tenant, uint32_t *ret_shard)
{
	struct engine_object *o = &e->objects[slot];
	uint64_t hash;

	if (engine_state(o) != RECORD_COMMITTED)
		return false;
	if (tenant != RECORD_NONE && __atomic_load_n(&o->tenant, __ATOMIC_RELAXED) != tenant)
		return false;
	hash = __atomic_load_n(&o->hash, __ATOMIC_RELAXED);
	*ret_shard = engine_shard_of(e, hash);
	engine_lock(e, *ret_shard);
	/* If the slot changed hands meanwhile it may belong to another shard, but then not with
	 * this hash. */
	if (engine_state(o) == RECORD_COMMITTED &&
	    __atomic_load_n(&o->hash, __ATOMIC_RELAXED) == hash &&
	    (tenant == RECORD_NONE || __atomic_load_n(&o->tenant, __ATOMIC_RELAXED) == tenant))
		return true;
	engine_unlock(e, *ret_shard);
	return false;
}

void engine_enter(struct engine *e, uint32_t slot, uint32_t tenant, uint64_t hash, uint8_t state,
		  uint64_t last)
{
	struct engine_object *o = &e->objects[slot];

	__atomic_store_n(&o->hash, hash, __ATOMIC_RELAXED);
	__atomic_store_n(&o->tenant, (uint8_t)tenant, __ATOMIC_RELAXED);
	__atomic_store_n(&o->refs, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&o->leases, 0, __ATOMIC_RELAXED);
	engine_set_state(o, state);
	o->at = 0;
	o->last = last;
	o->prev = o->next = RECORD_NONE;
	o->size_pages = 0;
	o->waiters = 0;
	o->seg = OBJECT_SEG_NONE;
	o->flags = 0;
	engine_index_insert(e, slot);
}

void engine_ref(struct engine_reactor *r, uint32_t slot, uint32_t n)
{
	(void)__atomic_fetch_add(&r->engine->objects[slot].refs, n, __ATOMIC_RELAXED);
	engine_tally(&r->counters.references, n);
}

void engine_unref(struct engine_reactor *r, struct engine_object *o)
{
	engine_tally(&r->counters.references, -1);
	if (__atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) == OBJECT_GONE)
		engine_object_free(r, engine_slot(r->engine, o));
}

void engine_touch(struct engine_reactor *r, uint32_t slot, uint64_t now)
{
	struct engine *e = r->engine;
	struct engine_object *o = &e->objects[slot];
	struct record *record = engine_record(e, slot);
	struct policy_place place = engine_place(e, o->tenant, engine_shard_of(e, o->hash), now);

	if (o->seg < POLICY_SEGMENTS)
		e->policy->on_hit(&place, slot);
	else
		engine_list_move(&place, o->seg, slot);
	__atomic_store_n(&record->last_ns, now, __ATOMIC_RELAXED);
	if (record->hits != UINT32_MAX)
		__atomic_store_n(&record->hits, record->hits + 1, __ATOMIC_RELAXED);
}

void engine_resident(struct engine *e, uint32_t tenant, int64_t pages)
{
	struct larder_gauges *g = engine_gauges(e, tenant);

	(void)__atomic_fetch_add(&e->tenants[tenant].resident_pages, (uint64_t)pages,
				 __ATOMIC_RELAXED);
	if (g)
		ledger_gauge_add(&g->resident_bytes, (uint64_t)pages * e->page_size);
}

void engine_listed(struct engine *e, uint32_t slot, int64_t sign)
{
	const struct record *record = engine_record(e, slot);
	struct engine_tenant *t = &e->tenants[record->tenant];
	struct engine_ns *ns = &e->namespaces[record->ns];
	struct larder_gauges *g = engine_gauges(e, record->tenant);
	uint64_t bytes = (uint64_t)sign * record->length;

	(void)__atomic_fetch_add(&t->listed, (uint64_t)sign, __ATOMIC_RELAXED);
	(void)__atomic_fetch_add(&ns->objects, (uint64_t)sign, __ATOMIC_RELAXED);
	(void)__atomic_fetch_add(&ns->bytes, bytes, __ATOMIC_RELAXED);
	if (e->objects[slot].flags & OBJECT_TTL)
		(void)__atomic_fetch_add(&e->with_ttl, (uint64_t)sign, __ATOMIC_RELAXED);
	if (g) {
		ledger_gauge_add(&g->objects, (uint64_t)sign);
		ledger_gauge_add(&g->value_bytes, bytes);
	}
}

static void object_count_end(struct engine_reactor *r, uint32_t slot, enum engine_end why)
{
	struct engine *e = r->engine;
	const struct record *record = engine_record(e, slot);
	struct larder_usage *u = engine_usage(r, e->tenants[record->tenant].ledger_slot);

	engine_tally(&r->counters.objects, -1);
	engine_tally(&r->counters.doomed, 1);
	if (why == END_QUARANTINED && e->ledger)
		ledger_gauge_add(&e->ledger->node->quarantined, 1);
	if (why == END_EVICTED) {
		engine_tally((int64_t *)&r->counters.evictions, 1);
		engine_tally((int64_t *)&r->counters.evicted_bytes, (int64_t)record->length);
	}
	if (larder_probe_enabled(evict) && (why == END_EVICTED || why == END_EXPIRED))
		engine_tell_evicted(r, slot, why);
	if (!u)
		return;
	if (why == END_EVICTED) {
		ledger_count(&u->evicted_objects, 1);
		ledger_count(&u->evicted_bytes, record->length);
	} else if (why == END_EXPIRED) {
		ledger_count(&u->expired_objects, 1);
	}
}

bool engine_doom(struct engine_reactor *r, uint32_t slot, enum engine_end why)
{
	struct engine *e = r->engine;
	struct engine_object *o = &e->objects[slot];
	enum record_state state = why == END_QUARANTINED ? RECORD_QUARANTINED : RECORD_DOOMED;
	struct policy_place place = engine_place(e, o->tenant, engine_shard_of(e, o->hash), 0);

	if (o->seg < POLICY_SEGMENTS)
		e->policy->on_remove(&place, slot);
	else
		policy_leave(&place, slot);
	o->seg = OBJECT_SEG_NONE;
	engine_index_remove(e, slot);
	engine_lease_orphan(e, slot);
	engine_pin_orphan(e, slot);
	engine_set_state(o, (uint8_t)state);
	records_set_state(e->records, slot, state);
	engine_listed(e, slot, -1);
	engine_objects_add(e, o->tenant, -1);
	object_count_end(r, slot, why);
	return __atomic_fetch_or(&o->refs, OBJECT_GONE, __ATOMIC_ACQ_REL) == 0;
}

/* Uses the reactor's runs as scratch. After records_free the slot is somebody else's. */
void engine_object_free(struct engine_reactor *r, uint32_t slot)
{
	struct engine *e = r->engine;
	struct engine_object *o = &e->objects[slot];
	const struct record *record = engine_record(e, slot);

	for (uint32_t first = 0; first < record->n_runs; first += r->n_runs) {
		uint32_t n = MIN(record->n_runs - first, r->n_runs);

		records_runs(e->records, slot, r->runs, first, n);
		arena_release(e->arena, r->runs, n);
	}
	engine_resident(e, o->tenant, -(int64_t)o->size_pages);
	engine_tally(o->state == RECORD_FILLING ? &r->counters.filling : &r->counters.doomed, -1);
	engine_set_state(o, RECORD_FREE);
	o->size_pages = 0;
	__atomic_store_n(&o->refs, 0, __ATOMIC_RELAXED);
	records_free(e->records, slot);
}

int engine_compare(struct engine *e, uint32_t slot, uint64_t length, const uint32_t *checks,
		   uint32_t n_checks)
{
	const struct record *record = engine_record(e, slot);
	uint32_t have[OBJECT_CHECKS_STEP];

	if (record->length != length || record->n_checks != n_checks)
		return LARDER_CONFLICT;
	for (uint32_t first = 0; first < n_checks; first += OBJECT_CHECKS_STEP) {
		uint32_t n = MIN(n_checks - first, OBJECT_CHECKS_STEP);

		records_checks(e->records, slot, have, first, n);
		for (uint32_t i = 0; i < n; i++)
			if (have[i] != checks[first + i])
				return LARDER_CONFLICT;
	}
	return LARDER_EXISTS_SAME;
}

/* CRC-32C of the whole value, from those of its check blocks. */
static uint32_t object_crc(struct engine *e, uint32_t slot)
{
	const struct record *record = engine_record(e, slot);
	uint32_t checks[OBJECT_CHECKS_STEP], crc = 0;
	uint64_t left = record->length;

	for (uint32_t first = 0; first < record->n_checks; first += OBJECT_CHECKS_STEP) {
		uint32_t n = MIN(record->n_checks - first, OBJECT_CHECKS_STEP);

		records_checks(e->records, slot, checks, first, n);
		for (uint32_t i = 0; i < n; i++) {
			uint64_t block = MIN(left, (uint64_t)LARDER_CHECK_BLOCK);

			crc = crc32c_combine(crc, checks[i], block);
			left -= block;
		}
	}
	return crc;
}

void engine_stat(struct engine *e, uint32_t slot, uint64_t now, struct larder_stat *st)
{
	const struct record *record = engine_record(e, slot);
	uint64_t wall = clock_wall_ms(e->clock);
	uint64_t age = wall > record->commit_time_ms ? wall - record->commit_time_ms : 0;
	uint64_t lease = engine_lease_word(e, slot);
	uint64_t left_ms = lease > now ? (lease - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC : 0;

	*st = (struct larder_stat){
		.size_bytes = record->length,
		.commit_time_ms = record->commit_time_ms,
		.digest = record->digest,
		.inode = (uint64_t)slot << 32 | (uint32_t)record->generation,
		.crc32c = object_crc(e, slot),
		.hits = __atomic_load_n(&record->hits, __ATOMIC_RELAXED),
		.age_ms = (uint32_t)MIN(age, (uint64_t)UINT32_MAX),
		.lease_ms = (uint32_t)MIN(left_ms, (uint64_t)UINT32_MAX),
		.pins = __atomic_load_n(&record->pins, __ATOMIC_RELAXED),
		.runs = record->n_runs,
		.flags = record->flags & RECORD_CHECKED_BY_NODE ? LARDER_F_CHECKED_BY_NODE : 0,
	};
}

uint64_t engine_object_length(const struct engine_object *o)
{
	return engine_record(o->engine, engine_slot(o->engine, o))->length;
}

uint64_t engine_object_digest(const struct engine_object *o)
{
	return engine_record(o->engine, engine_slot(o->engine, o))->digest;
}

uint32_t engine_object_n_runs(const struct engine_object *o)
{
	return engine_record(o->engine, engine_slot(o->engine, o))->n_runs;
}

void engine_object_runs(const struct engine_object *o, struct larder_run *runs, uint32_t first,
			uint32_t n)
{
	records_runs(o->engine->records, engine_slot(o->engine, o), runs, first, n);
}

void engine_object_checks(const struct engine_object *o, uint32_t *checks, uint32_t first,
			  uint32_t n)
{
	records_checks(o->engine->records, engine_slot(o->engine, o), checks, first, n);
}

uint32_t engine_object_iov(const struct engine_object *o, uint64_t offset, uint64_t length,
			   struct iovec *iov, uint32_t max, uint64_t *ret_bytes)
{
	struct engine *e = o->engine;
	uint32_t slot = engine_slot(e, o), n_runs = engine_object_n_runs(o), n = 0;
	uint64_t size = engine_object_length(o), start = 0, bytes = 0;
	char *base = arena_base(e->arena);
	struct larder_run runs[OBJECT_RUNS_STEP];

	length = offset < size ? MIN(length, size - offset) : 0;
	for (uint32_t i = 0; i < n_runs && bytes < length && n < max; i++) {
		struct larder_run *run = &runs[i % OBJECT_RUNS_STEP];
		uint64_t run_bytes, skip, take;

		if (i % OBJECT_RUNS_STEP == 0)
			records_runs(e->records, slot, runs, i, MIN(n_runs - i, OBJECT_RUNS_STEP));
		run_bytes = (uint64_t)run->count * e->page_size;
		if (start + run_bytes > offset + bytes) {
			skip = offset + bytes - start;
			take = MIN(run_bytes - skip, length - bytes);
			iov[n++] = (struct iovec){
				.iov_base = base + (uint64_t)run->page * e->page_size + skip,
				.iov_len = take,
			};
			bytes += take;
		}
		start += run_bytes;
	}
	*ret_bytes = bytes;
	return n;
}
