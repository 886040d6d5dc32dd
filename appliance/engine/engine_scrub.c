/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scrubber: looks at the pages of committed objects for bytes that went bad, so that they are
 * found before a reader finds them. No more bytes a second than e->scrub_rate, all reactors
 * together: one check block becomes due at a time and is looked at in slices, one per turn of the
 * reactor, so that no request waits for more than a slice.
 *
 * Two cursors. `fresh` goes through what was committed lately (a bounded ring; what falls out of it
 * waits for the sweep), `sweep` through every slot, each reactor through its own share of them.
 * Where both have work the ring gets three turns of four, so that neither starves.
 *
 * An object is referenced for the look at one slice and not between turns: whoever deletes or
 * evicts it in between is not hindered, and the cursor notices by its generation that it is gone.
 * Pages of a committed object do not change, so a difference is never a read in the middle of a
 * write.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "engine/engine_internal.h"

#define SCRUB_SLICE (16u << 10)
#define SCRUB_SLOTS 256u		/* that one turn of the sweep passes without finding any */
#define SCRUB_SLOT_COST 64u		/* bytes that passing one is counted as */
#define SCRUB_STALE 16u			/* entries of the ring whose object is gone, per turn */
#define SCRUB_PASS_NS (60 * NSEC_PER_SEC)	/* a small node is not swept over and over */
#define SCRUB_LOG_NS NSEC_PER_SEC
#define SCRUB_PIECES 16u
#define SCRUB_ANY UINT64_MAX		/* generation: whatever object is in the slot */

void engine_scrub_init(struct engine_reactor *r)
{
	r->scrub.sweep_slot = r->index;
	r->scrub.held = RECORD_NONE;
}

void engine_set_scrub(struct engine *e, uint64_t bytes_per_s)
{
	__atomic_store_n(&e->scrub_rate, bytes_per_s, __ATOMIC_RELAXED);
}

void engine_scrub_note(struct engine_reactor *r, uint32_t slot)
{
	struct engine_scrub *s = &r->scrub;

	if (!__atomic_load_n(&r->engine->scrub_rate, __ATOMIC_RELAXED))
		return;
	if (s->noted - s->taken == ENGINE_SCRUB_RING)
		s->taken++;		/* the oldest: the sweep will come to it */
	s->ring[s->noted++ % ENGINE_SCRUB_RING] = (struct engine_scrub_look){
		.slot = slot, .generation = engine_record(r->engine, slot)->generation,
	};
}

bool engine_scrub_holds(struct engine *e, uint32_t slot)
{
	for (uint32_t i = 0; i < e->reactors; i++)
		if (__atomic_load_n(&e->reactor[i].scrub.held, __ATOMIC_ACQUIRE) == slot)
			return true;
	return false;
}

/* --- one block ---------------------------------------------------------------------------- */

static uint64_t scrub_block_bytes(const struct engine_object *o, uint32_t block)
{
	return MIN(engine_object_length(o) - (uint64_t)block * LARDER_CHECK_BLOCK,
		   (uint64_t)LARDER_CHECK_BLOCK);
}

static uint32_t scrub_crc(const struct engine_object *o, uint64_t at, uint64_t left, uint32_t crc)
{
	while (left) {
		struct iovec iov[SCRUB_PIECES];
		uint64_t bytes;
		uint32_t n = engine_object_iov(o, at, left, iov, SCRUB_PIECES, &bytes);

		if (n == 0)
			return ~crc;	/* its runs are shorter than its length */
		for (uint32_t i = 0; i < n; i++)
			crc = crc32c(crc, iov[i].iov_base, iov[i].iov_len);
		at += bytes;
		left -= bytes;
	}
	return crc;
}

static bool scrub_block_is(const struct engine_object *o, uint32_t block, uint32_t crc)
{
	uint32_t want;

	engine_object_checks(o, &want, block, 1);
	return crc == want;
}

/* A line a second and reactor: memory that fails as a whole must not flood the log. */
static void scrub_tell(struct engine_reactor *r, uint32_t slot, uint32_t block)
{
	struct engine *e = r->engine;
	const struct record *record = engine_record(e, slot);
	const struct namespace_record *ns = records_namespace(e->records, record->ns);
	const char *tenant = records_tenant_name(e->records, record->tenant);
	uint64_t now = clock_now(e->clock);
	char name[3 * LARDER_NS_NAME_MAX + 1], hash[2 * LARDER_KEY_HASH_SIZE + 1], more[48] = "";
	uint8_t key[LARDER_KEY_MAX], bytes[LARDER_KEY_HASH_SIZE];

	if (r->scrub.log_ns && now - r->scrub.log_ns < SCRUB_LOG_NS) {
		r->scrub.untold++;
		return;
	}
	if (!ns || larder_key_format(ns->name, ns->name_len, name, sizeof(name)) < 0)
		name[0] = '\0';
	larder_key_hash(key, records_key(e->records, slot, key), bytes);
	for (uint32_t i = 0; i < LARDER_KEY_HASH_SIZE; i++)
		(void)snprintf(hash + 2 * i, 3, "%02x", bytes[i]);
	if (r->scrub.untold)
		(void)snprintf(more, sizeof(more), " (and %" PRIu64 " more like it)",
			       r->scrub.untold);
	log_warning(e->log, "engine: tenant %s, namespace %s, key hash %s, inode %" PRIu64
		    ": bytes of check block %u of %u went bad in memory; the object is taken out "
		    "of service, put it again%s", tenant ? tenant : "", name, hash,
		    (uint64_t)slot << 32 | (uint32_t)record->generation, block + 1,
		    record->n_checks, more);
	r->scrub.untold = 0;
	r->scrub.log_ns = now;
}

bool engine_verify_block(struct engine_reactor *r, struct engine_object *o, uint32_t block)
{
	struct engine *e = r->engine;
	uint32_t slot = engine_slot(e, o), shard = engine_shard_of(e, o->hash);
	bool first;

	if (scrub_block_is(o, block, scrub_crc(o, (uint64_t)block * LARDER_CHECK_BLOCK,
					       scrub_block_bytes(o, block), 0)))
		return false;
	engine_lock(e, shard);
	/* our reference keeps the slot, so at most somebody else was faster */
	first = engine_state(o) == RECORD_COMMITTED;
	if (first)
		(void)engine_doom(r, slot, END_QUARANTINED);
	engine_unlock(e, shard);
	if (first)
		scrub_tell(r, slot, block);
	return true;
}

bool engine_verify(struct engine_reactor *r, struct engine_object *o)
{
	uint32_t n = larder_check_count(engine_object_length(o));

	for (uint32_t block = 0; block < n; block++)
		if (engine_verify_block(r, o, block))
			return true;
	return false;
}

/* Takes a reference when the object is still there. */
static bool scrub_take(struct engine_reactor *r, struct engine_scrub_look *at)
{
	struct engine *e = r->engine;
	uint32_t shard;
	bool there;

	if (!engine_lock_object(e, at->slot, RECORD_NONE, &shard))
		return false;
	if (at->generation == SCRUB_ANY)
		at->generation = engine_record(e, at->slot)->generation;
	there = engine_record(e, at->slot)->generation == at->generation;
	if (there) {
		__atomic_store_n(&r->scrub.held, at->slot, __ATOMIC_RELEASE);
		engine_ref(r, at->slot, 1);
	}
	engine_unlock(e, shard);
	return there;
}

/* After the last slice of a block. False: there is nothing more to look at in this object. */
static bool scrub_block_end(struct engine_reactor *r, struct engine_scrub_look *at)
{
	struct engine_object *o = &r->engine->objects[at->slot];

	/* a difference is looked at a second time before it is believed */
	if (!scrub_block_is(o, at->block, at->crc) && engine_verify_block(r, o, at->block))
		return false;
	at->block++;
	at->done = at->crc = 0;
	return at->block < larder_check_count(engine_object_length(o));
}

/*
 * Looks at the next slice and moves the cursor on; its generation is 0 when there is nothing more.
 * Returns the bytes of the block that it is in: 0 = the object is gone.
 */
static uint64_t scrub_look(struct engine_reactor *r, struct engine_scrub_look *at)
{
	struct engine_object *o = &r->engine->objects[at->slot];
	uint64_t bytes;
	uint32_t slice;

	if (!scrub_take(r, at)) {
		*at = (struct engine_scrub_look){};
		return 0;
	}
	bytes = scrub_block_bytes(o, at->block);
	slice = (uint32_t)MIN(bytes - at->done, (uint64_t)SCRUB_SLICE);
	at->crc = scrub_crc(o, (uint64_t)at->block * LARDER_CHECK_BLOCK + at->done, slice, at->crc);
	at->done += slice;
	if (at->done == bytes && !scrub_block_end(r, at))
		*at = (struct engine_scrub_look){};
	engine_unref(r, o);
	__atomic_store_n(&r->scrub.held, RECORD_NONE, __ATOMIC_RELEASE);
	engine_tally((int64_t *)&r->counters.scrubbed_bytes, slice);
	return bytes;
}

/* --- what to look at ---------------------------------------------------------------------- */

static uint64_t scrub_fresh(struct engine_reactor *r)
{
	struct engine_scrub *s = &r->scrub;
	uint64_t bytes = 0;

	for (uint32_t n = 0; n < SCRUB_STALE && bytes == 0; n++) {
		if (!s->fresh.generation) {
			if (s->taken == s->noted)
				break;
			s->fresh = s->ring[s->taken++ % ENGINE_SCRUB_RING];
		}
		bytes = scrub_look(r, &s->fresh);
	}
	return MAX(bytes, (uint64_t)SCRUB_SLOT_COST);
}

/* Ends a pass at the last slot; the next one may wait. */
static void scrub_sweep_next(struct engine_reactor *r)
{
	struct engine_scrub *s = &r->scrub;

	s->sweep_slot += r->engine->reactors;
	if (s->sweep_slot < r->engine->capacity)
		return;
	s->sweep_slot = r->index;
	s->sweeping = false;
	engine_tally((int64_t *)&r->counters.scrub_passes, 1);
}

static uint64_t scrub_sweep(struct engine_reactor *r, uint64_t now)
{
	struct engine *e = r->engine;
	struct engine_scrub *s = &r->scrub;
	uint64_t bytes;

	if (!s->sweeping) {
		s->sweeping = true;
		s->pass_ns = now;
	}
	for (uint32_t n = 0; !s->sweep.generation; n++) {
		if (n == SCRUB_SLOTS || !s->sweeping)
			return n * SCRUB_SLOT_COST;
		if (s->sweep_slot < e->capacity &&
		    engine_state(&e->objects[s->sweep_slot]) == RECORD_COMMITTED)
			s->sweep = (struct engine_scrub_look){
				.slot = s->sweep_slot, .generation = SCRUB_ANY,
			};
		scrub_sweep_next(r);
	}
	bytes = scrub_look(r, &s->sweep);
	return MAX(bytes, (uint64_t)SCRUB_SLOT_COST);
}

/* --- when --------------------------------------------------------------------------------- */

static uint64_t scrub_cost_ns(const struct engine *e, uint64_t rate, uint64_t bytes)
{
	return bytes * e->reactors * NSEC_PER_SEC / rate;
}

static bool scrub_has_fresh(const struct engine_scrub *s)
{
	return s->fresh.generation || s->taken != s->noted;
}

/* When the sweep may go on: UINT64_MAX while there is nothing to look at. */
static uint64_t scrub_sweep_at(const struct engine_reactor *r)
{
	struct engine *e = r->engine;
	const struct engine_scrub *s = &r->scrub;
	uint32_t n = __atomic_load_n(&e->n_tenants, __ATOMIC_ACQUIRE);

	for (uint32_t t = 0; t < n; t++)
		if (__atomic_load_n(&e->tenants[t].listed, __ATOMIC_RELAXED))
			return s->sweeping || !s->pass_ns ? 0 : s->pass_ns + SCRUB_PASS_NS;
	return UINT64_MAX;
}

static uint64_t scrub_due(const struct engine_reactor *r, uint64_t rate)
{
	return r->scrub.since_ns + scrub_cost_ns(r->engine, rate, r->scrub.spent);
}

uint64_t engine_scrub_at(const struct engine_reactor *r)
{
	uint64_t rate = __atomic_load_n(&r->engine->scrub_rate, __ATOMIC_RELAXED);
	uint64_t at;

	if (!rate)
		return UINT64_MAX;
	if (r->scrub.fresh.done || r->scrub.sweep.done)
		return 0;
	at = scrub_has_fresh(&r->scrub) ? 0 : scrub_sweep_at(r);
	return MAX(at, scrub_due(r, rate));
}

void engine_scrub_step(struct engine_reactor *r, uint64_t now)
{
	struct engine_scrub *s = &r->scrub;
	uint64_t rate = __atomic_load_n(&r->engine->scrub_rate, __ATOMIC_RELAXED);
	uint64_t due, behind;
	bool sweep, fresh;

	if (!rate)
		return;
	if (s->fresh.done || s->sweep.done) {	/* the block is paid for */
		(void)(s->fresh.done ? scrub_fresh(r) : scrub_sweep(r, now));
		return;
	}
	due = scrub_due(r, rate);
	if (now < due)
		return;
	fresh = scrub_has_fresh(s);
	sweep = scrub_sweep_at(r) <= now;
	if (!fresh && !sweep)
		return;
	/* what a busy reactor missed it may make up for, a block's worth at most */
	behind = scrub_cost_ns(r->engine, rate, LARDER_CHECK_BLOCK);
	s->since_ns = MAX(due, now > behind ? now - behind : 0);
	s->spent = fresh && (!sweep || s->turn++ % 4) ? scrub_fresh(r) : scrub_sweep(r, now);
}
