/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of tenants. Some change while everybody works; a refusal is allowed when one that was in
 * force at some moment of the operation may have been met, by what the model says may have been
 * there. Only the calm phase knows that exactly (exact_limits.c).
 *
 * Two of them are felt by keys that nobody touches. A tenant that is held to less memory or fewer
 * objects than it has evicts its own: so while such a cap is set its keys may vanish, and those of
 * nobody else. And what a guarantee covers is never evicted for others, however short the node is:
 * only a writer of its own may do that, when nothing of others can go.
 */
#include "sim.h"

static uint64_t limits_of(const struct larder_limits *l, enum larder_limit limit)
{
	return l->value[limit] ? l->value[limit] : UINT64_MAX;
}

static bool limits_squeeze(const struct larder_limits *l)
{
	return (l->value[LARDER_LIMIT_resident_bytes] || l->value[LARDER_LIMIT_objects]) &&
	       l->value[LARDER_LIMIT_over_cap] == LARDER_OVER_CAP_EVICT_OWN;
}

/* --- set ------------------------------------------------------------------------------------- */

static int limits_tell(struct world *w, uint32_t tenant, const struct larder_limits *l)
{
	struct larder_tenant_limits one = { .limits = *l };
	char name[24];

	(void)snprintf(name, sizeof(name), "tenant-%u", tenant);
	one.tenant = name;
	return larder_node_set_limits(w->node, &one, 1, NULL);
}

static void limits_took(struct world *w, uint32_t tenant, const struct larder_limits *l)
{
	struct tenant *t = &w->tenant[tenant];

	w->seq++;
	if (t->n_past == SIM_SETTINGS)
		memmove(t->past, t->past + 1, sizeof(t->past[0]) * --t->n_past);
	t->past[t->n_past++] = (struct setting){ w->seq, t->limits };
	/* what may have vanished under the old ones has by now */
	for (uint32_t i = 0; i < w->n_keys; i++)
		if (w->key[i].tenant == tenant)
			model_key_refresh(w, &w->key[i]);
	if (t->squeezed)
		t->squeezed_seq = w->seq;
	t->unsafe_seq = w->seq;
	t->limits = *l;
	t->over_bytes = UINT64_MAX;	/* what there is now, may stay */
	t->squeezed = limits_squeeze(l);
	w->squeezed |= t->squeezed;
	limits_look(w);
	for (uint32_t i = 0; i < w->n_keys; i++)
		if (w->key[i].tenant == tenant)
			model_key_refresh(w, &w->key[i]);
}

void limits_set(struct world *w, uint32_t tenant, const struct larder_limits *l)
{
	int r = limits_tell(w, tenant, l);

	world_trace(w, "limits", tenant, l->value[0], (uint64_t)r);
	if (r < 0 && !(r == -ENOSPC && l->value[LARDER_LIMIT_guarantee_bytes]))
		sim_fail(w, "limits of tenant %u: %s", tenant, strerror(-r));
	if (r == 0)
		limits_took(w, tenant, l);
}

/* Run-time values end with the node: a daemon sets them again before anybody is let in. */
void limits_apply(struct world *w)
{
	for (uint32_t t = 0; t < w->knobs.tenants && w->knobs.limits; t++) {
		int r = limits_tell(w, t, &w->tenant[t].limits);

		w->tenant[t].over_bytes = UINT64_MAX;
		if (r < 0)
			sim_fail(w, "limits of tenant %u after a start: %s", t, strerror(-r));
	}
}

void limits_lift(struct world *w)
{
	static const struct larder_limits none;

	for (uint32_t t = 0; t < w->knobs.tenants; t++) {
		struct larder_limits l = none;

		if (w->tenant[t].gone)
			continue;
		l.value[LARDER_LIMIT_guarantee_bytes] =
			w->tenant[t].limits.value[LARDER_LIMIT_guarantee_bytes];
		if (memcmp(&l, &w->tenant[t].limits, sizeof(l)) != 0)
			limits_set(w, t, &l);
	}
}

/* --- drawn ----------------------------------------------------------------------------------- */

static void limits_draw_rates(struct world *w, struct larder_limits *l)
{
	struct prng *r = &w->more_rng;
	const uint64_t max = w->knobs.value_max;

	if (chance(r, 4))
		l->value[LARDER_LIMIT_ops_per_s] = between(r, 50, 2000);
	if (chance(r, 5))
		l->value[LARDER_LIMIT_in_bytes_per_s] = between(r, 4 * max, 60 * max);
	if (chance(r, 5))
		l->value[LARDER_LIMIT_out_bytes_per_s] = between(r, 4 * max, 60 * max);
	if (chance(r, 4))
		l->value[LARDER_LIMIT_in_flight_lookup] = between(r, 1, 3);
	if (chance(r, 4))
		l->value[LARDER_LIMIT_in_flight_fetch] = between(r, 1, 3);
	if (chance(r, 4))
		l->value[LARDER_LIMIT_in_flight_write] = between(r, 1, 3);
}

static void limits_draw(struct world *w, struct larder_limits *l)
{
	struct prng *r = &w->more_rng;
	const struct knobs *k = &w->knobs;
	const uint64_t some = (uint64_t)k->spaces * k->names;

	*l = (struct larder_limits){ 0 };
	if (chance(r, 3))
		l->value[LARDER_LIMIT_resident_bytes] =
			between(r, 1, chance(r, 3) ? k->pages : k->value_max / k->page + some) *
			k->page + prng_below(r, k->page);
	if (chance(r, 4))
		l->value[LARDER_LIMIT_objects] = between(r, 1, some);
	if (chance(r, 3))
		l->value[LARDER_LIMIT_over_cap] = LARDER_OVER_CAP_REJECT;
	if (chance(r, 4))
		l->value[LARDER_LIMIT_leased_bytes] = between(r, 1, 4 * k->value_max);
	if (chance(r, 3))
		l->value[LARDER_LIMIT_pinned_bytes] = between(r, 1, 3 * k->value_max);
	if (k->guarantees && chance(r, 2)) {
		uint64_t most = (uint64_t)k->pages * k->page;

		if (l->value[LARDER_LIMIT_resident_bytes])
			most = MIN(most, l->value[LARDER_LIMIT_resident_bytes]);
		l->value[LARDER_LIMIT_guarantee_bytes] = between(r, 1, most);
	}
	limits_draw_rates(w, l);
}

void limits_change(struct world *w)
{
	uint32_t tenant = (uint32_t)prng_below(&w->more_rng, w->knobs.tenants);
	struct larder_limits l = { 0 };

	if (!w->node || w->doom.dead || w->tenant[tenant].gone)
		return;
	if (!chance(&w->more_rng, 4))
		limits_draw(w, &l);
	limits_set(w, tenant, &l);
}

/* Pages are taken before they are written, so here is no delay. Objects that were being written
 * when their cap was set may still come. */
static bool limits_watch_tenant(void *user, const struct larder_node_tenant *t)
{
	struct world *w = user;
	uint32_t i = (uint32_t)(t->name[7] - '0');	/* "tenant-0" */
	struct tenant *one = &w->tenant[i];
	uint64_t cap = limits_of(&one->limits, LARDER_LIMIT_resident_bytes);

	if (one->gone)
		return true;
	if (t->resident_bytes > cap && t->resident_bytes > one->over_bytes)
		sim_fail(w, "tenant %u grew to %" PRIu64 " bytes, its cap is %" PRIu64, i,
			 t->resident_bytes, cap);
	one->over_bytes = MIN(one->over_bytes, t->resident_bytes);
	return true;
}

void limits_watch(struct world *w)
{
	bool any = false;

	for (uint32_t t = 0; t < w->knobs.tenants; t++)
		any |= w->tenant[t].limits.value[LARDER_LIMIT_resident_bytes] > 0;
	if (any && w->node && !w->doom.dead)
		larder_node_tenants(w->node, limits_watch_tenant, w);
}

/* --- what is felt by everybody --------------------------------------------------------------- */

static bool limits_writes(const struct world *w, uint32_t tenant)
{
	for (uint32_t i = 0; i < w->n_keys; i++) {
		const struct model_key *k = &w->key[i];

		if (k->tenant != tenant)
			continue;
		if (k->linger.puts)
			return true;
		for (const struct item *it = k->pending; it; it = it->next)
			if (it->op->opcode == LARDER_OP_PUT ||
			    it->op->opcode == LARDER_OP_PUT_BEGIN ||
			    it->op->batch.flags & LARDER_F_FILL)
				return true;
	}
	return false;
}

/* The guarantee covers all that there may be, and no writer of its own makes room. */
static bool limits_safe(const struct world *w, uint32_t tenant, const struct extent *e)
{
	uint64_t guarantee = w->tenant[tenant].limits.value[LARDER_LIMIT_guarantee_bytes];

	return guarantee && w->node && e->pages * w->knobs.page <= guarantee &&
	       !w->tenant[tenant].gone && !limits_writes(w, tenant);
}

static void limits_note(struct op *op, const struct extent *e)
{
	op->most_pages = MAX(op->most_pages, e->pages);
	op->most_objects = MAX(op->most_objects, e->objects);
	op->held_pages = MAX(op->held_pages, e->held_pages);
	op->held_objects = MAX(op->held_objects, e->held_objects);
}

void limits_look(struct world *w)
{
	if (!w->knobs.limits)
		return;
	for (uint32_t t = 0; t < w->knobs.tenants; t++) {
		struct extent e;

		model_extent(w, t, NULL, &e);
		for (uint32_t i = 0; i < SIM_OPS; i++)
			if (w->op[i].kind == OP_BATCH && w->client[w->op[i].client].tenant == t)
				limits_note(&w->op[i], &e);
		for (uint32_t i = 0; i < w->knobs.clients; i++)
			if (w->client[i].stream.op.n && w->client[i].tenant == t)
				limits_note(&w->client[i].stream.op, &e);
		if (!limits_safe(w, t, &e))
			w->tenant[t].unsafe_seq = w->seq;
	}
}

bool limits_may_evict(const struct world *w, const struct model_key *k, uint64_t since_seq)
{
	const struct tenant *t = &w->tenant[k->tenant];

	if (t->squeezed || (w->squeezed && t->squeezed_seq >= since_seq))
		return true;
	if (!w->knobs.evicts || !w->knobs.guarantees)
		return w->knobs.evicts;
	return t->unsafe_seq >= MIN(since_seq, w->seq);
}

/* --- which refusals are allowed -------------------------------------------------------------- */

/* Calls @may for each setting of @t that was in force since the operation began. */
static bool limits_any_of(const struct world *w, const struct tenant *t, const struct op *op,
			  const struct item *it,
			  bool (*may)(const struct world *w, const struct larder_limits *l,
				      const struct op *op, const struct item *it))
{
	if (may(w, &t->limits, op, it))
		return true;
	if (t->n_past == SIM_SETTINGS && t->past[0].until_seq >= op->start_seq)
		return true;		/* some are forgotten */
	for (uint32_t i = 0; i < t->n_past; i++)
		if (t->past[i].until_seq >= op->start_seq && may(w, &t->past[i].limits, op, it))
			return true;
	return false;
}

static bool limits_any(const struct world *w, const struct op *op, const struct item *it,
		       bool (*may)(const struct world *w, const struct larder_limits *l,
				   const struct op *op, const struct item *it))
{
	return limits_any_of(w, &w->tenant[w->client[op->client].tenant], op, it, may);
}

static bool limits_quota(const struct world *w, const struct larder_limits *l,
			 const struct op *op, const struct item *it)
{
	uint64_t need = (it->key->value[it->v].length + w->knobs.page - 1) / w->knobs.page;
	uint64_t cap = l->value[LARDER_LIMIT_resident_bytes], objects;

	cap = cap ? cap / w->knobs.page : UINT64_MAX;
	objects = limits_of(l, LARDER_LIMIT_objects);
	/* the most that there was counts this operation itself, too */
	if (l->value[LARDER_LIMIT_over_cap] == LARDER_OVER_CAP_REJECT)
		return op->most_pages + need > cap || op->most_objects + 1 > objects;
	return need > cap || (cap != UINT64_MAX && op->held_pages + need > cap) ||
	       (objects != UINT64_MAX && op->held_objects + 1 > objects);
}

bool limits_allow_quota(const struct world *w, const struct item *it)
{
	return limits_any(w, it->op, it, limits_quota);
}

static uint64_t limits_sum_of(const struct world *w, const struct item *it, bool pins)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < w->n_keys; i++) {
		const struct model_key *k = &w->key[i];
		bool maybe = pins ? k->maybe_pinned && k->tenant == it->key->tenant
				  : k->leased_at_most_ns || k->leases_linger || k->pending;

		sum += maybe && k != it->key ? model_most_length(k) : 0;
	}
	return sum + model_most_length(it->key);
}

/* Of leased and pinned memory there is not more than leaves every guarantee its place. */
static bool limits_no_place(const struct world *w)
{
	uint64_t sum = 0;
	bool any = false;

	for (uint32_t t = 0; t < w->knobs.tenants; t++) {
		uint64_t bytes = w->tenant[t].limits.value[LARDER_LIMIT_guarantee_bytes];
		struct extent e;

		model_extent(w, t, NULL, &e);
		any |= bytes > 0;
		/* what is both leased and pinned counts twice */
		sum += MAX(2 * e.held_pages, (bytes + w->knobs.page - 1) / w->knobs.page);
	}
	return any && sum > w->knobs.pages;
}

static bool limits_lease(const struct world *w, const struct larder_limits *l,
			 const struct op *op, const struct item *it)
{
	return limits_sum_of(w, it, false) > limits_of(l, LARDER_LIMIT_leased_bytes);
}

/* Of what its owner may have, with this setting of the owner, others may lease half. */
static bool limits_lent(const struct world *w, const struct larder_limits *l, const struct op *op,
			const struct item *it)
{
	uint64_t cap = limits_of(l, LARDER_LIMIT_resident_bytes), pages = 0, objects = 0;

	for (uint32_t i = 0; i < w->n_keys; i++) {
		const struct model_key *k = &w->key[i];

		if (k->tenant != it->key->tenant ||
		    !(k == it->key || k->leased_at_most_ns || k->leases_linger || k->pending))
			continue;
		pages += (model_most_length(k) + w->knobs.page - 1) / w->knobs.page;
		objects++;
	}
	/* guarantees of others leave less */
	cap = MIN(cap / w->knobs.page, (uint64_t)w->knobs.pages);
	return w->knobs.guarantees || pages > cap / 2 ||
	       objects > limits_of(l, LARDER_LIMIT_objects) / 2;
}

bool limits_allow_lease_quota(const struct world *w, const struct item *it)
{
	uint32_t owner = it->key->tenant;

	return limits_no_place(w) || limits_any(w, it->op, it, limits_lease) ||
	       (owner != w->client[it->op->client].tenant &&
		limits_any_of(w, &w->tenant[owner], it->op, it, limits_lent));
}

static bool limits_pin(const struct world *w, const struct larder_limits *l, const struct op *op,
		       const struct item *it)
{
	return limits_sum_of(w, it, true) > limits_of(l, LARDER_LIMIT_pinned_bytes);
}

bool limits_allow_pin_quota(const struct world *w, const struct item *it)
{
	return limits_no_place(w) || limits_any(w, it->op, it, limits_pin);
}

static bool limits_throttle(const struct world *w, const struct larder_limits *l,
			    const struct op *op, const struct item *it)
{
	if (l->value[LARDER_LIMIT_ops_per_s])
		return true;
	switch (op->opcode) {
	case LARDER_OP_GET:
		return l->value[LARDER_LIMIT_out_bytes_per_s] ||
		       l->value[LARDER_LIMIT_in_flight_fetch];
	case LARDER_OP_PUT:
	case LARDER_OP_PUT_BEGIN:
		return l->value[LARDER_LIMIT_in_bytes_per_s] ||
		       l->value[LARDER_LIMIT_in_flight_write];
	case LARDER_OP_EXISTS:
	case LARDER_OP_LEASE:
	case LARDER_OP_STAT:
	case LARDER_OP_LIST:
		return l->value[LARDER_LIMIT_in_flight_lookup];
	default:
		return false;
	}
}

bool limits_allow_throttled(const struct world *w, const struct op *op)
{
	return limits_any(w, op, NULL, limits_throttle);
}

static bool limits_has_guarantee(const struct larder_limits *l)
{
	return l->value[LARDER_LIMIT_guarantee_bytes] > 0;
}

/* Then there may be no memory although a lot of it may be evicted for others. */
bool limits_guaranteed(const struct world *w, const struct op *op)
{
	for (uint32_t t = 0; t < w->knobs.tenants; t++) {
		const struct tenant *one = &w->tenant[t];

		if (limits_has_guarantee(&one->limits))
			return true;
		for (uint32_t i = 0; i < one->n_past; i++)
			if (one->past[i].until_seq >= op->start_seq &&
			    limits_has_guarantee(&one->past[i].limits))
				return true;
	}
	return false;
}
