/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant may hold. Each budget is a counter of the tenant that is taken from before the
 * thing itself, in one atomic step, and given back when the thing ends or does not come about: two
 * reactors can't pass a limit together. Gauges of the ledger follow; they decide nothing, since
 * tenants may share a slot there.
 *
 * A guarantee is memory that others can't take, and it has to be reachable. What is leased or
 * pinned hard can't be evicted for anybody, so of that the tenants together hold no more than
 * leaves every guarantee its place: sum of max(held, guarantee) over all tenants <= pages of the
 * node. A tenant within its own guarantee always may. What is being written or read ends by itself
 * and is not counted there.
 */
#include <larder/probes.h>

#include "engine/engine_internal.h"

bool engine_take(uint64_t *counter, uint64_t n, uint64_t max)
{
	uint64_t have = __atomic_load_n(counter, __ATOMIC_RELAXED);

	do {
		if (n > max || have > max - n)
			return false;
	} while (!__atomic_compare_exchange_n(counter, &have, have + n, true, __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
	return true;
}

static void limits_give(uint64_t *counter, uint64_t n)
{
	(void)__atomic_fetch_sub(counter, n, __ATOMIC_SEQ_CST);
}

uint64_t engine_limit(const struct engine_tenant *t, enum larder_limit limit)
{
	uint64_t value = __atomic_load_n(&t->limit[limit], __ATOMIC_RELAXED);

	return value ? value : UINT64_MAX;
}

void engine_refused(struct engine_reactor *r, struct larder_op *op, enum larder_limit limit)
{
	struct larder_usage *u = engine_usage(r, engine_usage_slot(r->engine, op));

	op->limit = (uint8_t)limit;
	if (u)
		ledger_count(&u->refused[limit], 1);
	larder_probe3(reject, engine_usage_slot(r->engine, op), limit, 1);
}

/* --- caps --------------------------------------------------------------------------------- */

bool engine_resident_take(struct engine *e, uint32_t tenant, uint64_t pages)
{
	struct engine_tenant *t = &e->tenants[tenant];
	struct larder_gauges *g = engine_gauges(e, tenant);

	if (!engine_take(&t->resident_pages, pages, engine_cap_pages(t)))
		return false;
	if (g)
		ledger_gauge_add(&g->resident_bytes, pages * e->page_size);
	return true;
}

bool engine_objects_take(struct engine *e, uint32_t tenant)
{
	struct engine_tenant *t = &e->tenants[tenant];

	return engine_take(&t->objects, 1, engine_limit(t, LARDER_LIMIT_objects));
}

void engine_objects_add(struct engine *e, uint32_t tenant, int64_t n)
{
	(void)__atomic_fetch_add(&e->tenants[tenant].objects, (uint64_t)n, __ATOMIC_RELAXED);
}

enum larder_limit engine_over(struct engine *e, uint32_t tenant, uint64_t pages, uint64_t objects)
{
	const struct engine_tenant *t = &e->tenants[tenant];

	if (pages && __atomic_load_n(&t->resident_pages, __ATOMIC_RELAXED) + pages >
		     engine_cap_pages(t))
		return LARDER_LIMIT_resident_bytes;
	if (objects && __atomic_load_n(&t->objects, __ATOMIC_RELAXED) + objects >
		       engine_limit(t, LARDER_LIMIT_objects))
		return LARDER_LIMIT_objects;
	return LARDER_LIMIT_NONE;
}

void engine_tenant_set_limits(struct engine *e, uint32_t tenant, const struct larder_limits *l)
{
	struct engine_tenant *t;
	uint64_t cap, guarantee;

	if (tenant >= RECORDS_TENANTS_MAX)
		return;
	t = &e->tenants[tenant];
	cap = l->value[LARDER_LIMIT_resident_bytes];
	guarantee = l->value[LARDER_LIMIT_guarantee_bytes];
	(void)pthread_mutex_lock(&e->control);
	for (uint32_t i = 0; i < LARDER_LIMITS_MAX; i++)
		__atomic_store_n(&t->limit[i], l->value[i], __ATOMIC_RELAXED);
	__atomic_store_n(&t->cap_pages, cap ? cap / e->page_size : UINT64_MAX, __ATOMIC_RELAXED);
	__atomic_store_n(&t->guarantee_pages,
			 guarantee / e->page_size + (guarantee % e->page_size != 0),
			 __ATOMIC_SEQ_CST);
	(void)pthread_mutex_unlock(&e->control);
}

/* --- guarantees while the node is short --------------------------------------------------- */

uint64_t engine_above(const struct engine_tenant *t)
{
	uint64_t pages = __atomic_load_n(&t->resident_pages, __ATOMIC_RELAXED);
	uint64_t guarantee = __atomic_load_n(&t->guarantee_pages, __ATOMIC_RELAXED);

	return pages > guarantee ? pages - guarantee : 0;
}

/* Room is made for a tenant that its own guarantee entitles to it. */
bool engine_entitled(const struct engine_reactor *r)
{
	const struct engine_tenant *t;

	if (r->room_for == RECORD_NONE)
		return false;
	t = &r->engine->tenants[r->room_for];
	return __atomic_load_n(&t->resident_pages, __ATOMIC_RELAXED) + r->room_pages <=
	       __atomic_load_n(&t->guarantee_pages, __ATOMIC_RELAXED);
}

/*
 * What goes for others is claimed first, so that two of them can't take the same last page above
 * the guarantee. Objects are not divisible: from one who has only a part of an object too much,
 * nothing goes, unless for one who has less than its own guarantee.
 */
bool engine_spare(struct engine_reactor *r, uint32_t tenant, uint64_t pages, uint64_t *ret_claim)
{
	struct engine_tenant *t = &r->engine->tenants[tenant];
	uint64_t guarantee = __atomic_load_n(&t->guarantee_pages, __ATOMIC_RELAXED), going;

	*ret_claim = 0;
	if (tenant == r->room_for || !guarantee)
		return true;
	going = __atomic_add_fetch(&t->going_pages, pages, __ATOMIC_SEQ_CST);
	if (engine_entitled(r))
		going -= pages - 1;
	if (__atomic_load_n(&t->resident_pages, __ATOMIC_SEQ_CST) >= guarantee + going) {
		*ret_claim = pages;
		return true;
	}
	limits_give(&t->going_pages, pages);
	return false;
}

void engine_spare_done(struct engine_reactor *r, uint32_t tenant, uint64_t claim)
{
	if (claim)
		limits_give(&r->engine->tenants[tenant].going_pages, claim);
}

/* --- what can't be evicted ---------------------------------------------------------------- */

static uint64_t limits_guarantee(const struct engine_tenant *t)
{
	return __atomic_load_n(&t->guarantee_pages, __ATOMIC_SEQ_CST);
}

/* Of all tenants but one (RECORD_NONE: of all). */
static uint64_t limits_guarantees(const struct engine *e, uint32_t but)
{
	uint32_t n = __atomic_load_n(&e->n_tenants, __ATOMIC_ACQUIRE);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += i == but ? 0 : limits_guarantee(&e->tenants[i]);
	return sum;
}

/* Too much rather than too little: what is both leased and pinned counts twice. */
static uint64_t limits_held(const struct engine_tenant *t)
{
	return __atomic_load_n(&t->leased_pages, __ATOMIC_SEQ_CST) +
	       __atomic_load_n(&t->pinned_pages, __ATOMIC_SEQ_CST);
}

/* Every guarantee still has its place. Two who ask at once may both hear no, never both yes. */
static bool limits_held_fit(const struct engine *e)
{
	uint32_t n = __atomic_load_n(&e->n_tenants, __ATOMIC_ACQUIRE);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct engine_tenant *t = &e->tenants[i];

		sum += MAX(limits_held(t), limits_guarantee(t));
	}
	return sum <= arena_pages(e->arena);
}

bool engine_held_take(struct engine *e, uint32_t tenant, uint64_t *counter, uint64_t pages)
{
	const struct engine_tenant *t = &e->tenants[tenant];

	(void)__atomic_fetch_add(counter, pages, __ATOMIC_SEQ_CST);
	if (limits_held(t) <= limits_guarantee(t) || !limits_guarantees(e, tenant) ||
	    limits_held_fit(e))
		return true;
	limits_give(counter, pages);
	return false;
}

void engine_held_give(uint64_t *counter, uint64_t pages)
{
	limits_give(counter, pages);
}

bool engine_held_full(struct engine *e, uint32_t tenant, uint64_t pages)
{
	const struct engine_tenant *t = &e->tenants[tenant];
	uint64_t stay = MAX(__atomic_load_n(&t->leased_pages, __ATOMIC_RELAXED),
			    __atomic_load_n(&t->pinned_pages, __ATOMIC_RELAXED));

	return pages && stay + pages > engine_cap_pages(t);
}

/*
 * Half of what the owner may have, in pages and in objects, is not lent: so it always has that to
 * evict for what it writes.
 */
bool engine_lends(const struct engine *e, uint32_t tenant, uint64_t pages)
{
	const struct engine_tenant *t = &e->tenants[tenant];
	uint64_t all = arena_pages(e->arena), others = limits_guarantees(e, tenant);
	uint64_t left = MAX(all > others ? all - others : 0, limits_guarantee(t));

	return t->lent_pages + pages <= MIN(left, engine_cap_pages(t)) / 2 &&
	       t->lent_objects < engine_limit(t, LARDER_LIMIT_objects) / 2;
}

bool engine_pinned_take(struct engine *e, uint32_t tenant, uint64_t bytes)
{
	struct engine_tenant *t = &e->tenants[tenant];
	struct larder_gauges *g = engine_gauges(e, tenant);

	if (!engine_take(&t->pinned_bytes, bytes, engine_limit(t, LARDER_LIMIT_pinned_bytes)))
		return false;
	if (!engine_held_take(e, tenant, &t->pinned_pages, arena_pages_of(e->page_size, bytes))) {
		limits_give(&t->pinned_bytes, bytes);
		return false;
	}
	if (g)
		ledger_gauge_add(&g->pinned_bytes, bytes);
	return true;
}

void engine_pinned_give(struct engine *e, uint32_t tenant, uint64_t bytes)
{
	struct engine_tenant *t = &e->tenants[tenant];
	struct larder_gauges *g = engine_gauges(e, tenant);

	limits_give(&t->pinned_bytes, bytes);
	engine_held_give(&t->pinned_pages, arena_pages_of(e->page_size, bytes));
	if (g)
		ledger_gauge_sub(&g->pinned_bytes, bytes);
}

void engine_tenant_effective(struct engine *e, uint32_t tenant, struct larder_limits *ret)
{
	static const enum larder_limit held[] = { LARDER_LIMIT_pinned_bytes,
						  LARDER_LIMIT_leased_bytes };
	uint64_t pages = arena_pages(e->arena), others = limits_guarantees(e, tenant);
	const struct engine_tenant *t = &e->tenants[tenant];
	uint64_t left = pages > others ? pages - others : 0;

	left = MAX(left, limits_guarantee(t));
	for (uint32_t i = 0; i < LARDER_LIMITS_MAX; i++)
		ret->value[i] = __atomic_load_n(&t->limit[i], __ATOMIC_RELAXED);
	ret->value[LARDER_LIMIT_resident_bytes] =
		MIN(engine_limit(t, LARDER_LIMIT_resident_bytes), pages * e->page_size);
	for (size_t i = 0; others && i < ARRAY_SIZE(held); i++)
		/* 0 would be no limit */
		ret->value[held[i]] = MIN(engine_limit(t, held[i]), MAX(left * e->page_size, 1u));
}
