/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of the keys that are not there: a bounded record of the last evictions and refusals,
 * so that "why was this a miss?" has an answer that is not a guess.
 *
 * A ring per reactor, which alone writes it. Its lock is a leaf, taken by the writer for one entry
 * and by a reader, anyone who asks, for a few at a time, so that nobody's question holds up a
 * reactor. The newest entry of a key wins. Keys are known by the index's hash, which has a salt of
 * this process: the record starts empty after a restart, and says how far back it goes.
 */
#include <errno.h>

#include "engine/engine_internal.h"

#define HISTORY_ENTRIES 65536u		/* of all reactors together */
#define HISTORY_ENTRIES_MIN 1024u
#define HISTORY_STEP 64u		/* read under one hold of the lock */
#define HISTORY_NOBODY 0xffffu

struct history_entry {
	uint64_t hash;
	uint64_t when_ns;
	uint32_t ns;
	uint32_t age_ms;	/* evicted: since the last touch; saturates */
	uint16_t whom;		/* evicted: tenant for whom, or nobody yet */
	uint8_t tenant;
	uint8_t status;		/* refused: what the writer was told; LARDER_OK: evicted */
};

struct engine_history {
	pthread_mutex_t lock;
	struct history_entry *ring;	/* [size] */
	uint32_t size;
	uint64_t n;			/* written so far */
};

static void history_lock(struct engine_history *h)
{
	/* can't fail: not recursive, not robust */
	(void)pthread_mutex_lock(&h->lock);
}

static void history_unlock(struct engine_history *h)
{
	(void)pthread_mutex_unlock(&h->lock);
}

int engine_history_init(struct engine *e)
{
	uint32_t size = MAX(HISTORY_ENTRIES / e->reactors, HISTORY_ENTRIES_MIN);

	e->history = calloc(e->reactors, sizeof(*e->history));
	if (!e->history)
		return -ENOMEM;
	for (uint32_t i = 0; i < e->reactors; i++) {
		struct engine_history *h = &e->history[i];
		int rc = pthread_mutex_init(&h->lock, NULL);

		if (rc)
			return -rc;
		h->size = size;
		h->ring = calloc(size, sizeof(*h->ring));
		if (!h->ring)
			return -ENOMEM;
	}
	return 0;
}

void engine_history_done(struct engine *e)
{
	for (uint32_t i = 0; e->history && i < e->reactors && e->history[i].size; i++) {
		free(e->history[i].ring);
		(void)pthread_mutex_destroy(&e->history[i].lock);	/* fails only while held */
	}
	free(TAKE_PTR(e->history));
}

static void history_add(struct engine_reactor *r, const struct history_entry *entry)
{
	struct engine_history *h = &r->engine->history[r->index];

	history_lock(h);
	h->ring[h->n++ % h->size] = *entry;
	history_unlock(h);
}

/* Age 0 is below 1 s, age i below 4^i s, the last one takes the rest. */
static uint32_t history_age(uint64_t age_ns)
{
	uint64_t bound = NSEC_PER_SEC;
	uint32_t i = 0;

	for (; i < LARDER_LEDGER_AGES - 1 && age_ns >= bound; i++)
		bound *= 4;
	return i;
}

void engine_history_evicted(struct engine_reactor *r, uint32_t slot, uint64_t now)
{
	struct engine *e = r->engine;
	const struct engine_object *o = &e->objects[slot];
	const struct record *record = engine_record(e, slot);
	struct larder_usage *u = engine_usage(r, e->tenants[o->tenant].ledger_slot);
	uint64_t last = __atomic_load_n(&record->last_ns, __ATOMIC_RELAXED);
	uint64_t age = now > last ? now - last : 0;
	const struct history_entry entry = {
		.hash = o->hash,
		.when_ns = now,
		.ns = record->ns,
		.age_ms = (uint32_t)MIN(age / NSEC_PER_MSEC, (uint64_t)UINT32_MAX),
		.whom = r->room_for == RECORD_NONE ? HISTORY_NOBODY : (uint16_t)r->room_for,
		.tenant = o->tenant,
		.status = LARDER_OK,
	};

	history_add(r, &entry);
	if (u)
		ledger_count(&u->evicted_age[history_age(age)], 1);
}

void engine_history_refused(struct engine_reactor *r, const struct larder_op *op, int status,
			    uint64_t now)
{
	struct engine *e = r->engine;
	const struct history_entry entry = {
		.hash = engine_hash(e, op->ns, op->keys[0].key, op->keys[0].key_len),
		.when_ns = now,
		.ns = op->ns,
		.whom = HISTORY_NOBODY,
		.tenant = (uint8_t)op->tenant,
		.status = (uint8_t)status,
	};

	history_add(r, &entry);
}

/* Newest first. *@found: the newest entry of the key; left alone when an older one is met. */
static void history_search(struct engine_history *h, uint64_t hash, struct history_entry *found,
			   struct engine_why *why)
{
	uint64_t next, oldest;

	history_lock(h);
	next = h->n;
	history_unlock(h);
	for (;;) {
		uint64_t end;

		history_lock(h);
		/* what was overwritten meanwhile is gone */
		oldest = h->n > h->size ? h->n - h->size : 0;
		end = next > oldest + HISTORY_STEP ? next - HISTORY_STEP : oldest;
		for (; next > end; next--) {
			const struct history_entry *entry = &h->ring[(next - 1) % h->size];

			why->entries++;
			why->since_ns = MIN(why->since_ns, entry->when_ns);
			if (entry->hash == hash && entry->when_ns > found->when_ns)
				*found = *entry;
		}
		history_unlock(h);
		if (next <= oldest)
			return;
	}
}

static bool why_present(struct engine *e, const struct engine_key *k, uint64_t now)
{
	bool ambiguous, present;
	uint32_t slot;

	engine_lock(e, k->shard);
	slot = engine_index_find(e, k, &ambiguous);
	present = slot != RECORD_NONE && !engine_is_filling(&e->objects[slot]) &&
		  !engine_is_expired(e, slot, now);
	engine_unlock(e, k->shard);
	return present;
}

bool engine_why(struct engine *e, uint32_t tenant, uint32_t ns, const void *key, uint16_t key_len,
		struct engine_why *ret)
{
	const struct larder_op_key op_key = { .key = key, .key_len = key_len };
	uint64_t now = clock_now(e->clock);
	struct history_entry found = {};
	struct engine_key k;

	*ret = (struct engine_why){ .fate = ENGINE_FATE_UNKNOWN, .since_ns = now };
	if (!engine_namespace(e, tenant, false, ns) ||
	    engine_key_init(e, &k, ns, &op_key, false) != LARDER_OK)
		return false;
	for (uint32_t i = 0; i < e->reactors; i++)
		history_search(&e->history[i], k.hash, &found, ret);
	if (why_present(e, &k, now)) {
		ret->fate = ENGINE_FATE_PRESENT;
		return true;
	}
	if (found.hash != k.hash || found.ns != ns || found.tenant != tenant)
		return true;
	ret->fate = found.status == LARDER_OK ? ENGINE_FATE_EVICTED : ENGINE_FATE_REFUSED;
	ret->status = found.status;
	ret->when_ns = found.when_ns;
	ret->age_ms = found.age_ms;
	ret->room_for = found.whom == HISTORY_NOBODY ? UINT32_MAX : found.whom;
	return true;
}
