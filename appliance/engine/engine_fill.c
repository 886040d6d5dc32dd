/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fill leases: of those who miss a key one is told to compute it, the others may wait for it.
 *
 * A key that is promised is in the index like one that is being written: an object, here in state
 * OBJECT_PROMISED, on which waiters hang. It has a record slot and nothing in the record file, so a
 * restart knows nothing of it; its key stands in the table of promises. It ends
 *
 *	when a PUT of that key takes it over, waiters and all (engine_put.c),
 *	when it is broken: given up by its id, its time over, its holder gone, the key deleted or
 *	its namespace flushed, or records so short that a PUT needs its slot. Who waits is told
 *	then, and the first of those who ask for it gets the next one.
 *
 * The table's lock is below the shards'. A promise is made and ended under the lock of its shard,
 * with both, so whoever holds the shard's lock and sees the object promised may read its entry.
 * Those who come from the table (deadline, holder) remember what they saw, let the table go, take
 * the shard's lock, and look again.
 */
#include <errno.h>
#include <string.h>

#include "engine/engine_internal.h"
#include "engine/fill.h"

#define FILLS_MAX 4096u
#define FILLS_OF_RECORDS 8u		/* promises hold at most one record in so many */
#define FILLS_OF_TENANT 4u		/* and one tenant that part of them */
#define FILL_MS 10000u			/* where the asker names no time */

struct fill {
	uint64_t id, holder;
	uint64_t serial;		/* 0: free */
	uint32_t tenant, ns;
	uint32_t slot, shard;
	uint32_t next_free;		/* index + 1 */
	uint16_t key_len;
};

struct engine_fills {
	pthread_mutex_t lock;
	struct fill *entries;
	uint8_t (*keys)[LARDER_KEY_MAX];
	uint32_t capacity, per_tenant;
	uint32_t top;			/* entries from here on were never in use */
	uint32_t free;			/* index + 1 */
	uint64_t serial;
	struct heap deadlines;
	uint64_t first_ns;		/* atomic: the earliest deadline */
	uint32_t count;			/* atomic */
	uint32_t held[RECORDS_TENANTS_MAX];	/* atomic */
};

static void fills_lock(struct engine_fills *f)
{
	(void)pthread_mutex_lock(&f->lock);	/* can't fail: not recursive, not robust */
}

static void fills_unlock(struct engine_fills *f)
{
	__atomic_store_n(&f->first_ns, heap_first(&f->deadlines), __ATOMIC_RELAXED);
	__atomic_store_n(&f->count, f->deadlines.count, __ATOMIC_RELAXED);
	(void)pthread_mutex_unlock(&f->lock);
}

/* Shard's lock held, and the object is promised. */
static struct fill *fill_of(struct engine *e, uint32_t slot)
{
	return &e->fills->entries[e->objects[slot].last];
}

static void fill_gauge(struct engine *e, uint32_t tenant, int64_t sign)
{
	struct larder_gauges *g = engine_gauges(e, tenant);

	if (g)
		ledger_gauge_add(&g->fills, (uint64_t)sign);
}

/* --- made and ended: shard's lock held ---------------------------------------------------- */

/* An entry of the table, filled in. Index + 1; 0: there is none for this tenant. */
static uint32_t fill_take(struct engine *e, const struct larder_op *op, const struct engine_key *k,
			  uint32_t slot, uint64_t deadline)
{
	struct engine_fills *f = e->fills;
	struct fill *entry;
	uint32_t id = 0;

	fills_lock(f);
	if (f->held[op->tenant] < f->per_tenant && (f->free || f->top < f->capacity)) {
		id = f->free ? f->free : ++f->top;
		entry = &f->entries[id - 1];
		if (f->free)
			f->free = entry->next_free;
		*entry = (struct fill){
			.id = op->lease_id,
			.holder = op->holder,
			.serial = ++f->serial,
			.tenant = op->tenant,
			.ns = k->ns,
			.slot = slot,
			.shard = k->shard,
			.key_len = k->len,
		};
		memcpy(f->keys[id - 1], k->key, k->len);
		heap_set(&f->deadlines, id - 1, deadline);
		__atomic_store_n(&f->held[op->tenant], f->held[op->tenant] + 1, __ATOMIC_RELAXED);
		fill_gauge(e, op->tenant, 1);
	}
	fills_unlock(f);
	return id;
}

void engine_fill_end(struct engine *e, uint32_t slot)
{
	struct engine_fills *f = e->fills;
	struct fill *entry = fill_of(e, slot);
	uint32_t id = (uint32_t)(entry - f->entries);

	fills_lock(f);
	heap_remove(&f->deadlines, id);
	__atomic_store_n(&f->held[entry->tenant], f->held[entry->tenant] - 1, __ATOMIC_RELAXED);
	fill_gauge(e, entry->tenant, -1);
	entry->serial = 0;
	entry->next_free = f->free;
	f->free = id + 1;
	fills_unlock(f);
}

uint32_t engine_fill_break(struct engine *e, uint32_t slot)
{
	struct engine_object *o = &e->objects[slot];
	uint32_t n;

	engine_fill_end(e, slot);
	engine_index_remove(e, slot);
	engine_set_state(o, RECORD_FREE);
	return engine_wait_detach(e, o, OUTCOME_FAILED, &n);
}

void engine_fill_broken(struct engine_reactor *r, uint32_t slot, uint32_t waiters)
{
	records_slot_give(r->engine->records, slot);
	engine_wait_wake(r, waiters);
}

bool engine_fill_has_key(struct engine *e, uint32_t slot, const struct engine_key *k)
{
	const struct fill *entry = fill_of(e, slot);

	return entry->ns == k->ns && entry->key_len == k->len &&
	       memcmp(e->fills->keys[entry - e->fills->entries], k->key, k->len) == 0;
}

bool engine_fill_is_of(struct engine *e, uint32_t slot, const struct larder_op *op)
{
	const struct fill *entry = fill_of(e, slot);

	/* without an id of its own a fill lease is the holder's to give up, and nobody else's */
	return entry->tenant == op->tenant && entry->id == op->lease_id &&
	       (op->lease_id || entry->holder == op->holder);
}

/* --- asked for: shard's lock held --------------------------------------------------------- */

static uint64_t fill_deadline(const struct engine *e, const struct larder_op *op, uint64_t now)
{
	return now + engine_fill_ms(e, op->lease_ms) * NSEC_PER_MSEC;
}

uint32_t engine_fill_ms(const struct engine *e, uint32_t wanted_ms)
{
	return MIN(wanted_ms ? wanted_ms : FILL_MS, e->lease_max_ms);
}

/* The same id again is the same lease, wherever it comes from: a retry after a lost reply. */
static int fill_repeat(struct engine *e, const struct larder_op *op, uint32_t slot, uint64_t now)
{
	struct engine_fills *f = e->fills;
	struct fill *entry = fill_of(e, slot);
	uint32_t id = (uint32_t)(entry - f->entries);

	if (entry->tenant != op->tenant || entry->id != op->lease_id || op->lease_id == 0)
		return LARDER_NOT_FOUND;
	fills_lock(f);
	entry->holder = op->holder;
	heap_set(&f->deadlines, id, MAX(heap_at(&f->deadlines, id), fill_deadline(e, op, now)));
	fills_unlock(f);
	return LARDER_FILL;
}

static int fill_promise(struct engine_reactor *r, const struct larder_op *op,
			const struct engine_key *k, uint64_t now)
{
	struct engine *e = r->engine;
	struct larder_usage *u = engine_usage(r, engine_usage_slot(e, op));
	uint32_t slot = records_slot_take(e->records), id;

	if (slot == RECORD_NONE)
		return LARDER_NO_SPACE;
	id = fill_take(e, op, k, slot, fill_deadline(e, op, now));
	if (id == 0) {
		records_slot_give(e->records, slot);
		if (u)
			ledger_count(&u->fills_refused, 1);
		return LARDER_NOT_FOUND;
	}
	engine_enter(e, slot, op->tenant, k->hash, OBJECT_PROMISED, id - 1);
	if (u)
		ledger_count(&u->fills, 1);
	return LARDER_FILL;
}

int engine_fill_ask(struct engine_reactor *r, const struct larder_op *op,
		    const struct engine_key *k, uint32_t slot, uint64_t now)
{
	struct engine *e = r->engine;

	/* a reader does not fill, and whose time is over will not */
	if (op->flags & LARDER_F_NO_TOUCH || k->by_hash || k->ns == ENGINE_NOWHERE ||
	    __atomic_load_n(&e->namespaces[k->ns].tenant, __ATOMIC_ACQUIRE) != op->tenant ||
	    (op->deadline_ns && now >= op->deadline_ns))
		return LARDER_NOT_FOUND;
	if (slot == RECORD_NONE)
		return fill_promise(r, op, k, now);
	if (engine_state(&e->objects[slot]) == OBJECT_PROMISED)
		return fill_repeat(e, op, slot, now);
	return LARDER_NOT_FOUND;
}

bool engine_fill_room(struct engine_reactor *r, const struct larder_op *op, uint64_t now)
{
	struct larder_usage *u = engine_usage(r, engine_usage_slot(r->engine, op));
	struct engine_scan scan = {};

	r->room_for = op->tenant;
	if (engine_make_room(r, 0, 1, &scan, now) == ROOM_READY)
		return true;
	if (u)
		ledger_count(&u->fills_refused, 1);
	return false;
}

/* --- broken from outside: no lock held ---------------------------------------------------- */

enum fill_why { FILL_LAPSED, FILL_OF_HOLDER, FILL_OF_ID, FILL_OF_NS, FILL_RECLAIMED };

struct fill_wish {
	enum fill_why why;
	uint64_t now;		/* LAPSED */
	uint64_t id;		/* of holder, or of lease */
	uint32_t tenant, ns;	/* OF_ID, OF_NS */
	uint32_t from;		/* entries before it have been looked at */
};

/* Table's lock held. */
static bool fill_is_wanted(const struct engine_fills *f, uint32_t i, const struct fill_wish *w)
{
	const struct fill *entry = &f->entries[i];

	if (!entry->serial)
		return false;
	switch (w->why) {
	case FILL_LAPSED:
		return heap_at(&f->deadlines, i) <= w->now;
	case FILL_OF_HOLDER:
		return entry->holder == w->id;
	case FILL_OF_ID:
		return entry->tenant == w->tenant && entry->id == w->id;
	case FILL_OF_NS:
		return entry->ns == w->ns;
	case FILL_RECLAIMED:
		return true;
	}
	return false;
}

/* Finds the next that is wanted. False: there is none. */
static bool fill_pick(struct engine_fills *f, struct fill_wish *w, uint32_t *ret)
{
	bool found = false;

	fills_lock(f);
	if (w->why == FILL_LAPSED || w->why == FILL_RECLAIMED) {
		*ret = f->deadlines.count ? f->deadlines.entries[0].id : 0;
		found = f->deadlines.count && fill_is_wanted(f, *ret, w);
	}
	for (; !found && w->from < f->top && w->why != FILL_LAPSED; w->from++) {
		*ret = w->from;
		found = fill_is_wanted(f, w->from, w);
	}
	fills_unlock(f);
	return found;
}

/* Breaks entry @i if it is still one that is wanted. */
static bool fill_break_picked(struct engine_reactor *r, uint32_t i, const struct fill_wish *w)
{
	struct engine *e = r->engine;
	struct engine_fills *f = e->fills;
	struct larder_usage *u;
	uint32_t shard, slot, tenant, waiters;
	bool wanted;

	fills_lock(f);
	shard = f->entries[i].shard;
	fills_unlock(f);
	engine_lock(e, shard);
	fills_lock(f);
	wanted = fill_is_wanted(f, i, w) && f->entries[i].shard == shard;
	slot = f->entries[i].slot;
	tenant = f->entries[i].tenant;
	fills_unlock(f);
	if (!wanted) {
		engine_unlock(e, shard);
		return false;
	}
	waiters = engine_fill_break(e, slot);
	engine_unlock(e, shard);
	engine_fill_broken(r, slot, waiters);
	u = engine_usage(r, e->tenants[tenant].ledger_slot);
	if (u && (w->why == FILL_LAPSED || w->why == FILL_OF_HOLDER))
		ledger_count(&u->fills_lapsed, 1);
	return true;
}

static uint32_t fill_break_all(struct engine_reactor *r, struct fill_wish *w, uint32_t max)
{
	struct engine_fills *f = r->engine->fills;
	uint32_t n = 0, i;

	while (n < max && fill_pick(f, w, &i))
		n += fill_break_picked(r, i, w);
	return n;
}

void engine_fill_expire(struct engine_reactor *r, uint64_t now, uint32_t max)
{
	struct fill_wish w = { .why = FILL_LAPSED, .now = now };

	if (engine_fill_next(r->engine) <= now)
		(void)fill_break_all(r, &w, max);
}

void engine_fills_release(struct engine_reactor *r, uint64_t holder)
{
	struct fill_wish w = { .why = FILL_OF_HOLDER, .id = holder };

	if (engine_fill_count(r->engine))
		(void)fill_break_all(r, &w, UINT32_MAX);
}

uint32_t engine_fill_drop_all(struct engine_reactor *r, uint32_t tenant, uint64_t id, uint32_t max)
{
	struct fill_wish w = { .why = FILL_OF_ID, .tenant = tenant, .id = id };

	if (!__atomic_load_n(&r->engine->fills->held[tenant], __ATOMIC_RELAXED))
		return 0;
	return fill_break_all(r, &w, max);
}

void engine_fill_flush(struct engine_reactor *r, uint32_t ns)
{
	struct fill_wish w = { .why = FILL_OF_NS, .ns = ns };

	if (engine_fill_count(r->engine))
		(void)fill_break_all(r, &w, UINT32_MAX);
}

bool engine_fill_reclaim(struct engine_reactor *r)
{
	struct fill_wish w = { .why = FILL_RECLAIMED };

	return engine_fill_count(r->engine) && fill_break_all(r, &w, 1) == 1;
}

uint64_t engine_fill_next(struct engine *e)
{
	return __atomic_load_n(&e->fills->first_ns, __ATOMIC_RELAXED);
}

uint32_t engine_fill_count(struct engine *e)
{
	return __atomic_load_n(&e->fills->count, __ATOMIC_RELAXED);
}

void engine_fill_forgive(struct engine *e, uint64_t gap_ns)
{
	fills_lock(e->fills);
	heap_shift(&e->fills->deadlines, gap_ns);
	fills_unlock(e->fills);
}

/* --- open and close ----------------------------------------------------------------------- */

int engine_fills_init(struct engine *e)
{
	struct engine_fills *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return -ENOMEM;
	rc = pthread_mutex_init(&f->lock, NULL);
	if (rc) {
		free(f);
		return -rc;
	}
	e->fills = f;
	f->first_ns = UINT64_MAX;
	f->capacity = MAX(MIN(e->capacity / FILLS_OF_RECORDS, FILLS_MAX), 1u);
	f->per_tenant = MAX(f->capacity / FILLS_OF_TENANT, 1u);
	f->entries = calloc(f->capacity, sizeof(*f->entries));
	f->keys = calloc(f->capacity, sizeof(*f->keys));
	if (!f->entries || !f->keys)
		return -ENOMEM;
	return heap_init(&f->deadlines, f->capacity);
}

void engine_fills_done(struct engine *e)
{
	struct engine_fills *f = e->fills;

	if (!f)
		return;
	heap_done(&f->deadlines);
	free(f->keys);
	free(f->entries);
	(void)pthread_mutex_destroy(&f->lock);	/* fails only while held */
	free(f);
	e->fills = NULL;
}
