/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making room. Three choices, one after another: whose objects (of the tenant that is furthest
 * above its guarantee; where a tenant's own cap is what is short, its own), which shard (the oldest
 * of four sampled tails), which object (the policy's). What is leased or being read stays and goes
 * to the young end of its list, so that nobody meets it again soon. Pinned objects are in lists of
 * their own: the hard ones' is never looked at, the soft ones' when its tenant has nothing in the
 * policy's lists, or when the walk below has found nothing there that may go.
 *
 * The choices read many shards, each lock for itself; by the time one is acted on another reactor
 * may have changed it. That costs an order of eviction that is slightly off, never a wrong one: the
 * tail is read again under the lock under which it is taken out.
 *
 * Saying NO_SPACE is dearer than finding room: only a walk over every list (struct engine_scan)
 * that met nothing evictable may say it. It walks a bounded piece per turn, and twice where others
 * may have been at work in between, since a list may move under it. For a tenant within its own
 * guarantee the first pass leaves out its own objects: what others have too much goes first.
 */
#include "engine/engine_internal.h"

#define EVICT_TAILS_MAX 64u		/* kept tails of one tenant that one call looks at */
#define EVICT_BALANCE_MAX 4u		/* objects that one insert or hit moves between lists */
#define EVICT_TENANTS_MAX 4u
#define EVICT_SHARDS_SAMPLED 4u
#define EVICT_LISTS_MAX 1024u		/* empty lists that one turn of the walk passes */
#define EVICT_VICTIMS_MAX 256u		/* that one call evicts; the op goes on next turn */
#define EVICT_AHEAD 4u			/* victims ahead of need per turn */
#define EVICT_PAUSE_NS (10 * NSEC_PER_MSEC)
#define EXPIRE_CYCLE_NS (60 * NSEC_PER_SEC)	/* one walk over all slots */
#define EXPIRE_MAX 1024u

/* LOOKED_AT: kept for as long as the scrubber looks at it, which is no reason to say NO_SPACE. */
enum evict_tail { TAIL_NONE, TAIL_KEPT, TAIL_LOOKED_AT, TAIL_SPARED, TAIL_GONE };

static bool evict_allowed(struct engine *e, uint32_t slot, uint64_t now)
{
	return __atomic_load_n(&e->objects[slot].refs, __ATOMIC_ACQUIRE) == 0 &&
	       engine_lease_word(e, slot) <= now;
}

static uint32_t evict_victim(struct engine *e, const struct policy_set *set, uint32_t segment,
			     uint64_t *at)
{
	if (segment >= POLICY_SEGMENTS)
		return policy_tail(e->objects, set, segment, at);
	return e->policy->victim(e->objects, set, segment, at);
}

/* Takes out the policy's victim in that segment, or moves it out of the way. SPARED: it would, but
 * the tenant's guarantee says no. */
static enum evict_tail evict_tail(struct engine_reactor *r, uint32_t tenant, uint32_t shard,
				  uint32_t segment, uint64_t now)
{
	struct engine *e = r->engine;
	struct policy_place place;
	enum engine_end why;
	uint64_t at, claim;
	uint32_t slot;
	bool free, brief = false;

	engine_lock(e, shard);
	place = engine_place(e, tenant, shard, now);
	slot = evict_victim(e, place.set, segment, &at);
	if (slot == RECORD_NONE) {
		engine_unlock(e, shard);
		return TAIL_NONE;
	}
	/* the scrubber may have let go between the first look at the references and that at it */
	if (!evict_allowed(e, slot, now) &&
	    ((brief = engine_scrub_holds(e, slot)) || !evict_allowed(e, slot, now))) {
		engine_list_move(&place, segment, slot);
		engine_unlock(e, shard);
		return brief ? TAIL_LOOKED_AT : TAIL_KEPT;
	}
	if (!engine_spare(r, tenant, e->objects[slot].size_pages, &claim)) {
		engine_unlock(e, shard);
		return TAIL_SPARED;
	}
	why = engine_is_expired(e, slot, now) ? END_EXPIRED : END_EVICTED;
	free = engine_doom(r, slot, why);
	if (why == END_EVICTED) {
		engine_history_evicted(r, slot, now);
		if (e->policy->on_evict)
			e->policy->on_evict(&place, slot);
	}
	engine_unlock(e, shard);
	if (free)
		engine_object_free(r, slot);
	engine_spare_done(r, tenant, claim);
	return TAIL_GONE;
}

/* The tenant furthest above its guarantee, of those with something in a list; RECORD_NONE. Who
 * makes room for itself may always give its own, but others that have too much go first. */
static uint32_t evict_tenant(struct engine_reactor *r, const uint32_t *skip, uint32_t n_skip)
{
	struct engine *e = r->engine;
	uint32_t n = __atomic_load_n(&e->n_tenants, __ATOMIC_ACQUIRE), best = RECORD_NONE;
	uint64_t most = 0;

	for (uint32_t t = 0; t < n; t++) {
		uint64_t pages = engine_above(&e->tenants[t]);
		bool skipped = false;

		if (t == r->room_for && !engine_entitled(r))
			pages = MAX(pages, 1u);
		if (pages <= most || !__atomic_load_n(&e->tenants[t].listed, __ATOMIC_RELAXED))
			continue;
		for (uint32_t i = 0; i < n_skip; i++)
			skipped |= skip[i] == t;
		if (skipped)
			continue;
		most = pages;
		best = t;
	}
	return best;
}

static bool evict_older(struct engine *e, uint32_t tenant, uint32_t shard, uint32_t segment,
			uint64_t *oldest)
{
	uint64_t at;
	uint32_t slot;
	bool older;

	engine_lock(e, shard);
	slot = evict_victim(e, engine_set_of(e, tenant, shard), segment, &at);
	older = slot != RECORD_NONE && at < *oldest;
	engine_unlock(e, shard);
	if (older)
		*oldest = at;
	return older;
}

static uint64_t evict_count(const struct engine *e, uint32_t tenant, uint32_t segment)
{
	return __atomic_load_n(&e->tenants[tenant].policy.count[segment], __ATOMIC_RELAXED);
}

/* The shard with the oldest of four tails of this tenant; of all when those are empty. */
static bool evict_shard(struct engine_reactor *r, uint32_t tenant, uint32_t segment,
			uint32_t *ret_shard)
{
	struct engine *e = r->engine;
	uint64_t oldest = UINT64_MAX;

	*ret_shard = 0;
	if (e->shards == 1)
		return true;
	if (e->shards > EVICT_SHARDS_SAMPLED) {
		for (uint32_t i = 0; i < EVICT_SHARDS_SAMPLED; i++) {
			uint32_t shard = (uint32_t)prng_below(&r->prng, e->shards);

			if (evict_older(e, tenant, shard, segment, &oldest))
				*ret_shard = shard;
		}
		if (oldest != UINT64_MAX)
			return true;
	}
	for (uint32_t shard = 0; shard < e->shards; shard++)
		if (evict_older(e, tenant, shard, segment, &oldest))
			*ret_shard = shard;
	return oldest != UINT64_MAX;
}

static bool evict_segment(struct engine_reactor *r, uint32_t tenant, uint32_t segment,
			  uint64_t tails, uint64_t now)
{
	enum evict_tail tail = TAIL_NONE;
	uint32_t shard;

	tails = MIN(tails, evict_count(r->engine, tenant, segment));
	for (; tails > 0 && tail != TAIL_SPARED && evict_shard(r, tenant, segment, &shard);
	     tails--) {
		tail = evict_tail(r, tenant, shard, segment, now);
		if (tail == TAIL_GONE)
			return true;
	}
	return false;
}

/* The oldest of the first segment that has one which may go. */
static bool evict_from(struct engine_reactor *r, uint32_t tenant, uint64_t now)
{
	struct engine *e = r->engine;
	uint64_t most = EVICT_TAILS_MAX / e->policy->segments, others = 0;

	for (uint32_t segment = 0; segment < e->policy->segments; segment++) {
		if (evict_segment(r, tenant, segment, most, now))
			return true;
		others += evict_count(e, tenant, segment);
	}
	/* while there are others only the walk can tell that none of them may go */
	return !others && evict_segment(r, tenant, POLICY_SOFT, EVICT_TAILS_MAX, now);
}

bool engine_evict_one(struct engine_reactor *r, uint64_t now)
{
	uint32_t tried[EVICT_TENANTS_MAX];

	for (uint32_t n = 0; n < EVICT_TENANTS_MAX; n++) {
		uint32_t tenant = evict_tenant(r, tried, n);

		if (tenant == RECORD_NONE)
			return false;
		if (evict_from(r, tenant, now))
			return true;
		tried[n] = tenant;
	}
	return false;
}

void engine_balance(struct engine_reactor *r, uint32_t tenant, uint64_t now)
{
	struct engine *e = r->engine;
	struct engine_tenant *t = &e->tenants[tenant];

	if (!e->policy->excess)
		return;
	for (uint32_t n = 0; n < EVICT_BALANCE_MAX; n++) {
		struct policy_place place;
		uint32_t shard, slot;
		uint64_t at;

		if (!e->policy->excess(&t->policy, engine_cap(e, tenant)) ||
		    !evict_shard(r, tenant, 1, &shard))
			return;
		engine_lock(e, shard);
		place = engine_place(e, tenant, shard, now);
		slot = e->policy->victim(e->objects, place.set, 1, &at);
		if (slot != RECORD_NONE)
			engine_list_move(&place, 0, slot);
		engine_unlock(e, shard);
	}
}

/* Steps the walk to the next list. False: it is through all of them. */
static bool evict_scan_next(struct engine *e, struct engine_scan *s)
{
	s->inside = false;
	if (!s->soft && ++s->segment < POLICY_SEGMENTS)
		return true;
	s->segment = s->soft ? POLICY_SOFT : 0;
	if (++s->shard < e->shards)
		return true;
	s->shard = 0;
	if (s->own)
		return false;
	return ++s->tenant < __atomic_load_n(&e->n_tenants, __ATOMIC_ACQUIRE);
}

/* May the walk that has come to a tenant take from it? */
static bool evict_scan_may(const struct engine_reactor *r, const struct engine_scan *s)
{
	if (s->tenant == r->room_for)
		return s->own || s->passes > 0 || !engine_entitled(r);
	return engine_above(&r->engine->tenants[s->tenant]) > 0;
}

/* Objects in the list that the walk has come to. A tenant without any, or none for others, is
 * passed as a whole. */
static uint64_t evict_scan_enter(struct engine_reactor *r, struct engine_scan *s)
{
	struct engine *e = r->engine;
	const struct engine_tenant *t = &e->tenants[s->tenant];
	uint64_t count;

	if (!__atomic_load_n(&t->sets, __ATOMIC_ACQUIRE) ||
	    !__atomic_load_n(&t->listed, __ATOMIC_RELAXED) ||
	    !evict_scan_may(r, s)) {
		s->shard = e->shards - 1;
		s->segment = s->soft ? POLICY_SOFT : POLICY_SEGMENTS - 1;
		return 0;
	}
	engine_lock(e, s->shard);
	count = engine_set_of(e, s->tenant, s->shard)->seg[s->segment].count;
	engine_unlock(e, s->shard);
	return count;
}

/* A piece of the walk. READY: one was evicted; LATER: go on next turn; NONE: nothing anywhere. */
static enum engine_room evict_scan(struct engine_reactor *r, struct engine_scan *s, uint64_t now)
{
	struct engine *e = r->engine;
	uint32_t passes = s->active || e->reactors > 1 || engine_entitled(r) ? 2 : 1;
	uint32_t first = s->own ? r->room_for : 0;

	if (!s->active)
		*s = (struct engine_scan){ .active = true, .own = s->own, .tenant = first };
	for (uint32_t tails = 0, lists = 0; tails < EVICT_TAILS_MAX && lists < EVICT_LISTS_MAX;) {
		enum evict_tail tail;

		if (!s->inside) {
			s->left = evict_scan_enter(r, s);
			s->inside = true;
			lists++;
		}
		tail = s->left ? evict_tail(r, s->tenant, s->shard, s->segment, now) : TAIL_NONE;
		if (tail == TAIL_GONE) {
			s->passes = 0;
			return ROOM_READY;
		}
		if (tail == TAIL_KEPT || tail == TAIL_LOOKED_AT) {
			s->again |= tail == TAIL_LOOKED_AT;
			s->left--;
			tails++;
			continue;
		}
		if (evict_scan_next(e, s))
			continue;
		s->tenant = first;
		if (++s->passes < passes)
			continue;
		if (s->again) {
			/* the scrubber may have had the one that could go */
			s->again = false;
			s->passes = 0;
			return ROOM_LATER;
		}
		if (s->soft)
			return ROOM_NONE;
		*s = (struct engine_scan){ .active = true, .own = s->own, .tenant = first,
					   .soft = true, .segment = POLICY_SOFT };
	}
	return ROOM_LATER;
}

/* Victims of one call: others may take what it frees, but a turn stays short. */
static uint32_t evict_most(uint32_t pages, uint32_t more)
{
	return (uint32_t)MIN((uint64_t)pages + more + EVICT_TAILS_MAX, (uint64_t)EVICT_VICTIMS_MAX);
}

enum engine_room engine_make_room(struct engine_reactor *r, uint32_t pages, uint32_t records,
				  struct engine_scan *scan, uint64_t now)
{
	struct engine *e = r->engine;
	uint32_t most = evict_most(pages, records);
	enum engine_room room;

	r->room_pages = pages;
	if (scan->own)
		*scan = (struct engine_scan){};
	for (uint32_t n = 0; arena_free_pages(e->arena) < pages ||
			     (records && records_slots_free(e->records) < records); n++) {
		if (n == most)
			return ROOM_LATER;
		if (!scan->active && engine_evict_one(r, now))
			continue;
		room = evict_scan(r, scan, now);
		if (room != ROOM_READY)
			return room;
	}
	return ROOM_READY;
}

enum engine_room engine_make_own_room(struct engine_reactor *r, uint32_t tenant, uint32_t pages,
				      uint32_t objects, struct engine_scan *scan, uint64_t now)
{
	struct engine *e = r->engine;
	uint32_t most = evict_most(pages, objects);

	if (!scan->own)
		*scan = (struct engine_scan){ .own = true };
	for (uint32_t n = 0; engine_over(e, tenant, pages, objects) != LARDER_LIMIT_NONE; n++) {
		enum engine_room room;

		if (n == most)
			return ROOM_LATER;
		if (!scan->active && evict_from(r, tenant, now))
			continue;
		room = evict_scan(r, scan, now);
		if (room != ROOM_READY)
			return room;
	}
	*scan = (struct engine_scan){};
	return ROOM_READY;
}

void engine_evict_ahead(struct engine_reactor *r, uint64_t now)
{
	struct engine *e = r->engine;

	if (!e->reserve_pages || now < r->evict_after_ns)
		return;
	r->room_for = RECORD_NONE;
	r->room_pages = 0;
	for (uint32_t n = 0; n < EVICT_AHEAD; n++) {
		if (arena_free_pages(e->arena) >= e->reserve_pages)
			return;
		if (!engine_evict_one(r, now)) {
			r->evict_after_ns = now + EVICT_PAUSE_NS;
			return;
		}
	}
}

uint64_t engine_ahead_at(const struct engine_reactor *r)
{
	struct engine *e = r->engine;

	if (arena_free_pages(e->arena) >= e->reserve_pages)
		return UINT64_MAX;
	return r->evict_after_ns;
}

void engine_expire_sweep(struct engine_reactor *r, uint64_t now)
{
	struct engine *e = r->engine;
	uint64_t elapsed, n;

	if (!__atomic_load_n(&e->with_ttl, __ATOMIC_RELAXED)) {
		r->expire_ns = now;
		return;
	}
	elapsed = MIN(now - r->expire_ns, EXPIRE_CYCLE_NS);
	n = elapsed * e->capacity / EXPIRE_CYCLE_NS;
	if (n == 0)
		return;
	r->expire_ns = now;
	for (n = MIN(n, (uint64_t)EXPIRE_MAX); n > 0; n--) {
		uint32_t slot = r->expire_slot, shard;
		bool free = false;

		r->expire_slot = (slot + 1) % e->capacity;
		if (!engine_lock_object(e, slot, RECORD_NONE, &shard))
			continue;
		if (engine_is_expired(e, slot, now))
			free = engine_doom(r, slot, END_EXPIRED);
		engine_unlock(e, shard);
		if (free)
			engine_object_free(r, slot);
	}
}
