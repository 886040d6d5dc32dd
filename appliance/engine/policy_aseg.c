/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default: two LRU lists, P (probation) for what was seen once and M for what was seen again,
 * a ghost, and a boundary between the lists that adapts.
 *
 * Most blocks of a prefix cache are never read again, and which ones they are shows only when one
 * comes back. So a new key starts in P, and goes to M when it is hit, or when it returns after its
 * eviction while the ghost still knows it. Victims come from P. When M holds more than its share,
 * its oldest go back to the young end of P and get a second round there.
 *
 * How much P is worth depends on how long a block takes to come back compared to how long the node
 * can keep it, and that nobody can configure. So hits on the older half of each list are counted
 * (what a smaller list would have lost), and after each eighth of the capacity evicted the boundary
 * moves by 1/32 towards the list that earns more per page held.
 *
 * The guard: a prefill that writes a block and a decode that reads it a moment later are one use.
 * A touch within five seconds of the last one is a hit, but moves nothing.
 *
 * Segment 0 is P, segment 1 is M. o->at is when the object got its place, o->last its last touch
 * that counted.
 */
#include "base/clock.h"

#include "engine/policies.h"
#include "mem/records.h"

#define ASEG_GUARD_NS (5 * NSEC_PER_SEC)
#define ASEG_PARTS 32		/* of the capacity: the boundary's step and unit */
#define ASEG_LEAN_MAX 14	/* either way from the middle: each list keeps 1/16 */
#define ASEG_WINDOWS 8u		/* per capacity evicted */
#define ASEG_FADE 4u

enum { SEGMENT_P = 0, SEGMENT_M = 1 };

static uint64_t aseg_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void aseg_on_insert(const struct policy_place *p, uint32_t slot)
{
	struct engine_object *o = &p->objects[slot];

	o->last = p->now_ns;
	policy_enter(p, policy_ghost_take(p->ghost, o->hash) ? SEGMENT_M : SEGMENT_P, slot);
}

static void aseg_on_hit(const struct policy_place *p, uint32_t slot)
{
	struct engine_object *o = &p->objects[slot];
	const struct policy_list *list = &p->set->seg[o->seg];

	if (p->now_ns < o->last + ASEG_GUARD_NS)
		return;
	o->last = p->now_ns;
	if (2 * o->at < p->now_ns + p->objects[list->tail].at)
		(void)__atomic_fetch_add(&p->tenant->hits[o->seg], o->size_pages,
					 __ATOMIC_RELAXED);
	policy_leave(p, slot);
	policy_enter(p, SEGMENT_M, slot);
}

/* Rounded down: the last three never fade, so without any news each list pulls a little. */
static void aseg_fade(uint64_t *hits)
{
	(void)__atomic_fetch_sub(hits, aseg_load(hits) / ASEG_FADE, __ATOMIC_RELAXED);
}

/* Hits per page held, P against M, both sides multiplied out. */
static void aseg_adapt(struct policy_tenant *t)
{
	unsigned __int128 p = aseg_load(&t->hits[SEGMENT_P]), m = aseg_load(&t->hits[SEGMENT_M]);
	int32_t lean = __atomic_load_n(&t->lean, __ATOMIC_RELAXED);

	p *= aseg_load(&t->pages[SEGMENT_M]) + 1;
	m *= aseg_load(&t->pages[SEGMENT_P]) + 1;
	if (p > m && lean < ASEG_LEAN_MAX)
		__atomic_store_n(&t->lean, lean + 1, __ATOMIC_RELAXED);
	else if (m > p && lean > -ASEG_LEAN_MAX)
		__atomic_store_n(&t->lean, lean - 1, __ATOMIC_RELAXED);
	aseg_fade(&t->hits[SEGMENT_P]);
	aseg_fade(&t->hits[SEGMENT_M]);
}

static void aseg_on_evict(const struct policy_place *p, uint32_t slot)
{
	const struct engine_object *o = &p->objects[slot];
	struct policy_tenant *t = p->tenant;
	uint64_t turn = p->cap / ASEG_WINDOWS;

	policy_ghost_put(p->ghost, o->hash, o->size_pages);
	if (__atomic_add_fetch(&t->window, o->size_pages, __ATOMIC_RELAXED) < turn)
		return;
	/* two may get here: one of them finds the window full */
	if (__atomic_exchange_n(&t->window, 0, __ATOMIC_RELAXED) >= turn)
		aseg_adapt(t);
}

static bool aseg_excess(const struct policy_tenant *t, uint64_t cap)
{
	int32_t lean = __atomic_load_n(&t->lean, __ATOMIC_RELAXED);
	uint64_t parts_m = (uint64_t)(ASEG_PARTS / 2 - lean);

	return aseg_load(&t->pages[SEGMENT_M]) > cap * parts_m / ASEG_PARTS &&
	       aseg_load(&t->count[SEGMENT_M]) > 1;
}

const struct policy policy_aseg = {
	.name = "aseg",
	.by_touch = true,
	.ghost = true,
	.segments = 2,
	.on_insert = aseg_on_insert,
	.on_hit = aseg_on_hit,
	.victim = policy_tail,
	.on_remove = policy_leave,
	.on_evict = aseg_on_evict,
	.excess = aseg_excess,
};
