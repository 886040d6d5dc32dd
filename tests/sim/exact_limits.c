/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits in the calm, where it is known what is there: one less than is needed refuses, exactly
 * what is needed does not, each refusal is counted once, and what a PUT that failed had taken of a
 * budget is there again.
 */
#include "sim.h"

struct budget {
	struct world *w;
	struct model_key *k;
	int v;
	uint64_t pages;			/* that value needs */
	struct larder_gauges gauges;	/* while the key is absent */
	struct larder_usage usage;
};

static int exact_put(struct world *w, struct model_key *k, int v)
{
	struct op *op = calm_op(w, calm_client(w, k->tenant), LARDER_OP_PUT);

	op_add(op, k, v);
	calm_run(op, "a PUT at a limit");
	return op->items[0].status;
}

static void exact_begin(struct world *w, struct budget *b)
{
	struct prng *r = &w->more_rng;

	b->w = w;
	b->k = &w->key[prng_below(r, w->n_keys)];
	b->v = (int)prng_below(r, SIM_VALUES);
	b->pages = (b->k->value[b->v].length + w->knobs.page - 1) / w->knobs.page;
	calm_one(w, LARDER_OP_DELETE, b->k, 0, LARDER_F_FORCE, 0);
	calm_rest(w);
	ledger_look(w, b->k->tenant, &b->usage, &b->gauges);
}

static void exact_refused(const struct budget *b, enum larder_limit limit, uint64_t want)
{
	struct larder_gauges g;
	struct larder_usage u;

	calm_rest(b->w);
	ledger_look(b->w, b->k->tenant, &u, &g);
	calm_equal(b->w, larder_limit_name(limit), u.refused[limit] - b->usage.refused[limit],
		   want);
}

static void exact_status(const struct budget *b, int status, int want)
{
	if (status != want)
		sim_fail(b->w, "at its limits, key %u of tenant %u: %s instead of %s (%" PRIu64
			 " bytes, %" PRIu64 " objects were there, %" PRIu64 " pages more)",
			 b->k->index, b->k->tenant, larder_status_name(status),
			 larder_status_name(want), b->gauges.resident_bytes, b->gauges.objects,
			 b->pages);
}

/* Its own things go, or it is refused; here: refused. */
static void exact_cap(struct world *w, bool objects, bool enough)
{
	struct larder_limits l = { 0 };
	struct budget b;
	uint64_t value;

	exact_begin(w, &b);
	value = objects ? b.gauges.objects + enough :
			  b.gauges.resident_bytes + (b.pages - !enough) * w->knobs.page;
	if (!value)
		return;		/* would be no limit */
	l.value[objects ? LARDER_LIMIT_objects : LARDER_LIMIT_resident_bytes] = value;
	l.value[LARDER_LIMIT_over_cap] = LARDER_OVER_CAP_REJECT;
	limits_set(w, b.k->tenant, &l);
	exact_status(&b, exact_put(w, b.k, b.v), enough ? LARDER_OK : LARDER_QUOTA);
	exact_refused(&b, objects ? LARDER_LIMIT_objects : LARDER_LIMIT_resident_bytes, !enough);
	limits_lift(w);
}

/* A PUT that took its object and found no pages below the cap; one that was given up: after either
 * there is room for exactly one more. */
static void exact_given_back(struct world *w, bool refused)
{
	struct larder_limits l = { 0 };
	struct larder_put_stream *s;
	struct budget b;
	struct client *c;
	int r;

	exact_begin(w, &b);
	c = calm_client(w, b.k->tenant);
	l.value[LARDER_LIMIT_over_cap] = LARDER_OVER_CAP_REJECT;
	l.value[LARDER_LIMIT_objects] = b.gauges.objects + 1;
	l.value[LARDER_LIMIT_resident_bytes] =
		b.gauges.resident_bytes + (b.pages - refused) * w->knobs.page;
	if (!l.value[LARDER_LIMIT_resident_bytes])
		return;
	limits_set(w, b.k->tenant, &l);
	if (refused) {
		exact_status(&b, exact_put(w, b.k, b.v), LARDER_QUOTA);
	} else {
		world_sync_begin(c);
		r = larder_put_begin(c->c, c->ns[b.k->space], b.k->name, b.k->name_len,
				     b.k->value[b.v].length, 0, &s);
		exact_status(&b, r, LARDER_OK);
		exact_status(&b, larder_put_abort(s), LARDER_OK);
		world_sync_end(c);
	}
	calm_rest(w);
	l.value[LARDER_LIMIT_resident_bytes] = b.gauges.resident_bytes + b.pages * w->knobs.page;
	limits_set(w, b.k->tenant, &l);
	exact_status(&b, exact_put(w, b.k, b.v), LARDER_OK);
	limits_lift(w);
}

/* The model knows that nobody else's can go for it. */
static void exact_evict_own(struct world *w)
{
	struct larder_limits l = { 0 };
	struct larder_gauges g;
	struct larder_usage u;
	struct extent e;
	struct budget b;
	bool objects = chance(&w->more_rng, 2);
	int status;

	exact_begin(w, &b);
	if (!b.gauges.objects)
		return;
	model_extent(w, b.k->tenant, NULL, &e);
	l.value[LARDER_LIMIT_objects] = objects ? b.gauges.objects : 0;
	l.value[LARDER_LIMIT_resident_bytes] =
		objects ? 0 : MAX(b.gauges.resident_bytes, b.pages * w->knobs.page);
	limits_set(w, b.k->tenant, &l);
	status = exact_put(w, b.k, b.v);
	if (!e.held_objects && !w->knobs.evicts)
		exact_status(&b, status, LARDER_OK);
	calm_rest(w);
	ledger_look(w, b.k->tenant, &u, &g);
	if (objects ? g.objects > l.value[LARDER_LIMIT_objects]
		    : g.resident_bytes > l.value[LARDER_LIMIT_resident_bytes])
		sim_fail(w, "tenant %u has %" PRIu64 " objects, %" PRIu64 " bytes: over its cap",
			 b.k->tenant, g.objects, g.resident_bytes);
	limits_lift(w);
	for (uint32_t i = 0; i < w->n_keys; i++)
		if (w->key[i].tenant == b.k->tenant)
			calm_get(w, &w->key[i]);
}

static int exact_hold(struct world *w, const struct budget *b, bool pin)
{
	struct op *op = calm_op(w, calm_client(w, b->k->tenant),
				pin ? LARDER_OP_PIN : LARDER_OP_EXISTS);

	op->batch.flags = pin ? LARDER_F_HARD : LARDER_F_LEASE;
	op->lease_ms = pin ? 0 : MIN(w->knobs.lease_max_ms, 40u);
	op->lease_id = pin ? 0 : ++w->lease_number;
	op_add(op, b->k, 0);
	calm_run(op, "a lease or pin at its limit");
	return op->items[0].status;
}

/* leased_bytes, pinned_bytes: to the byte. */
static void exact_held(struct world *w, bool pin)
{
	enum larder_limit limit = pin ? LARDER_LIMIT_pinned_bytes : LARDER_LIMIT_leased_bytes;
	struct larder_limits l = { 0 };
	struct budget b;
	uint64_t length, held;

	exact_begin(w, &b);
	length = b.k->value[b.v].length;
	held = pin ? b.gauges.pinned_bytes : b.gauges.leased_bytes;
	/* leases of before may end in the middle */
	if (b.gauges.leases || held + length < 2)
		return;
	exact_status(&b, exact_put(w, b.k, b.v), LARDER_OK);
	l.value[limit] = held + length - 1;
	limits_set(w, b.k->tenant, &l);
	exact_status(&b, exact_hold(w, &b, pin), LARDER_QUOTA);
	exact_refused(&b, limit, 1);
	l.value[limit] = held + length;
	limits_set(w, b.k->tenant, &l);
	exact_status(&b, exact_hold(w, &b, pin), LARDER_OK);
	exact_refused(&b, limit, 1);
	limits_lift(w);
	calm_one(w, LARDER_OP_DELETE, b.k, 0, 0, 0);		/* BUSY: the model knows */
	calm_one(w, LARDER_OP_DELETE, b.k, 0, LARDER_F_FORCE, 0);
}

/* One message a second: the second of two at once can not wait for it. */
static void exact_rate(struct world *w)
{
	struct larder_limits l = { .value = { [LARDER_LIMIT_ops_per_s] = 1 } };
	struct budget b;
	struct op *op;

	exact_begin(w, &b);
	limits_set(w, b.k->tenant, &l);
	calm_one(w, LARDER_OP_EXISTS, b.k, 0, 0, 0);
	op = calm_op(w, calm_client(w, b.k->tenant), LARDER_OP_EXISTS);
	op->batch.deadline_ms = 5;
	op_add(op, b.k, 0);
	calm_run(op, "an operation over its rate");
	exact_status(&b, op->items[0].status, LARDER_THROTTLED);
	exact_refused(&b, LARDER_LIMIT_ops_per_s, 1);
	limits_lift(w);
	calm_one(w, LARDER_OP_EXISTS, b.k, 0, 0, 0);
}

/* One GET at a time: who comes too early comes again, and all are served. */
static void exact_in_flight(struct world *w)
{
	struct larder_limits l = { .value = { [LARDER_LIMIT_in_flight_fetch] = 1 } };
	struct budget b;

	exact_begin(w, &b);
	exact_status(&b, exact_put(w, b.k, b.v), LARDER_OK);
	limits_set(w, b.k->tenant, &l);
	for (uint32_t i = 0; i < 3; i++)
		(void)op_submit(calm_whole(w, calm_client(w, b.k->tenant), b.k));
	calm_wait(w, "three GETs of which one may be in flight");
	limits_lift(w);
}

static void exact_none(struct world *w)
{
	static const struct larder_limits none;

	for (uint32_t t = 0; t < w->knobs.tenants; t++)
		limits_set(w, t, &none);
}

/* However much others put into a node that is short: what is guaranteed stays. */
static void exact_guarantee(struct world *w)
{
	struct larder_limits l = { 0 };
	struct larder_gauges g;
	struct larder_usage u;
	struct budget b;

	if (w->knobs.tenants < 2)
		return;
	exact_none(w);
	exact_begin(w, &b);
	(void)exact_put(w, b.k, b.v);
	calm_rest(w);
	ledger_look(w, b.k->tenant, &u, &b.gauges);
	l.value[LARDER_LIMIT_guarantee_bytes] = b.gauges.resident_bytes;
	limits_set(w, b.k->tenant, &l);
	for (uint32_t i = 0; i < w->n_keys; i++)
		if (w->key[i].tenant != b.k->tenant)
			(void)exact_put(w, &w->key[i], 0);
	calm_rest(w);
	ledger_look(w, b.k->tenant, &u, &g);
	calm_equal(w, "guaranteed bytes that others left", g.resident_bytes,
		   b.gauges.resident_bytes);
	exact_none(w);
}

void exact_limits(struct world *w)
{
	struct prng *r = &w->more_rng;

	if (!w->knobs.limits)
		return;
	if (chance(r, 2))
		exact_evict_own(w);
	if (w->knobs.guarantees)
		exact_guarantee(w);
	if (w->knobs.evicts)
		return;		/* something may go, or not fit, for another reason */
	exact_cap(w, chance(r, 2), chance(r, 2));
	exact_given_back(w, chance(r, 2));
	exact_held(w, chance(r, 2));
	if (chance(r, 2))
		exact_rate(w);
	if (chance(r, 2))
		exact_in_flight(w);
}
