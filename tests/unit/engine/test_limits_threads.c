/* SPDX-License-Identifier: Apache-2.0 */
/* Two reactors at one tenant's limits: never past one together, every refusal counted once. */
#include "limits.h"

#include "base/prng.h"
#include "engine/engine_internal.h"

#define CAP 12u			/* pages */
#define STEPS 4000u
#define HAMMER 8000000u

struct side {
	pthread_t thread;
	struct fixture *f;
	struct engine_reactor *r;
	uint32_t number;
	uint64_t seed;
	uint64_t refused[LARDER_LIMITS];
	uint64_t above;		/* times that a limit was seen passed */
	uint64_t bad;		/* statuses that can't be */
};

static bool side_above(struct side *s)
{
	struct engine_tenant *t = &s->f->engine->tenants[s->f->tenant];
	const struct larder_gauges *g = &s->f->ledger->gauges[s->f->tenant];

	return __atomic_load_n(&t->resident_pages, __ATOMIC_RELAXED) > CAP ||
	       __atomic_load_n(&t->objects, __ATOMIC_RELAXED) > CAP - 2 ||
	       __atomic_load_n(&t->pinned_bytes, __ATOMIC_RELAXED) > 1000 ||
	       __atomic_load_n(&g->leased_bytes, __ATOMIC_RELAXED) > 3 * FIXTURE_PAGE;
}

/* cmocka's assertions belong to the main thread. */
static int side_run(struct side *s, struct request *q)
{
	struct larder_op *op = NULL;

	if (engine_submit(s->r, &q->op) == 0)
		return q->op.status;
	while (!op)
		op = engine_poll(s->r);
	s->bad += op != &q->op;
	return op->status;
}

static void side_put(struct side *s, struct prng *p)
{
	static const uint32_t checks[1];
	struct request q;
	char key[16];
	int status;

	(void)snprintf(key, sizeof(key), "%u-%u", s->number, (uint32_t)prng_below(p, 16));
	request_init(&q, s->f, LARDER_OP_PUT, key);
	q.op.length = 1 + prng_below(p, 3 * FIXTURE_PAGE);
	q.op.checks = checks;
	q.op.n_checks = 1;
	status = side_run(s, &q);
	s->above += side_above(s);
	if (status == LARDER_QUOTA && q.op.limit < LARDER_LIMITS)
		s->refused[q.op.limit]++;
	else if (status == LARDER_OK && prng_below(p, 4))
		engine_commit(s->r, &q.op);
	else if (status == LARDER_OK)
		engine_abort(s->r, &q.op);
	else if (status != LARDER_EXISTS_SAME && status != LARDER_CONFLICT)
		s->bad++;
}

static void side_lease(struct side *s, struct prng *p, int opcode)
{
	struct request q;
	char key[16];

	(void)snprintf(key, sizeof(key), "%u-%u", (uint32_t)prng_below(p, 2),
		       (uint32_t)prng_below(p, 16));
	request_init(&q, s->f, opcode, key);
	q.op.lease_id = prng_below(p, 3);
	q.op.lease_ms = 1000;
	(void)side_run(s, &q);
	s->above += side_above(s);
	if (opcode == LARDER_OP_LEASE && q.key.status == LARDER_QUOTA)
		s->refused[LARDER_LIMIT_leased_bytes]++;
}

static void *side_main(void *arg)
{
	struct side *s = arg;
	struct prng p;

	prng_seed(&p, s->seed + s->number);
	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t bytes = 1 + prng_below(&p, 600);

		side_put(s, &p);
		side_lease(s, &p, LARDER_OP_LEASE);
		side_lease(s, &p, LARDER_OP_RELEASE);
		if (engine_pinned_take(s->f->engine, s->f->tenant, bytes)) {
			s->above += side_above(s);
			engine_pinned_give(s->f->engine, s->f->tenant, bytes);
		}
	}
	return NULL;
}

static void two_reactors__never_past_a_limit(enum larder_over_cap over_cap, uint64_t seed)
{
	struct fixture f = { .config.reactors = 2 };
	struct side sides[2] = {};
	struct request q;
	struct who a;

	print_message("seed %llu\n", (unsigned long long)seed);
	fixture_open(&f, 64);
	a = (struct who){ .tenant = f.tenant, .ns = f.ns };
	limit(&f, &a, LARDER_LIMIT_resident_bytes, CAP * FIXTURE_PAGE);
	limit(&f, &a, LARDER_LIMIT_objects, CAP - 2);
	limit(&f, &a, LARDER_LIMIT_leased_bytes, 3 * FIXTURE_PAGE);
	limit(&f, &a, LARDER_LIMIT_pinned_bytes, 1000);
	limit(&f, &a, LARDER_LIMIT_over_cap, over_cap);
	for (uint32_t i = 0; i < 2; i++) {
		sides[i] = (struct side){ .f = &f, .r = engine_reactor(f.engine, i), .number = i,
					  .seed = seed };
		assert_int_equal(pthread_create(&sides[i].thread, NULL, side_main, &sides[i]), 0);
	}
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(pthread_join(sides[i].thread, NULL), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(sides[i].above, 0);
		assert_int_equal(sides[i].bad, 0);
	}
	for (uint32_t l = 0; l < LARDER_LIMITS; l++)
		assert_int_equal(sides[0].refused[l] + sides[1].refused[l],
				 refused(&f, &a, (enum larder_limit)l));
	if (over_cap == LARDER_OVER_CAP_REJECT)
		assert_int_equal(counts(&f).evictions, 0);
	for (uint64_t id = 0; id < 3; id++) {
		request_init(&q, &f, LARDER_OP_RELEASE, "");
		q.op.n_keys = 0;
		q.op.lease_id = id;
		(void)request_run(f.r, &q);
	}
	assert_int_equal(f.engine->tenants[a.tenant].leased_pages, 0);
	assert_int_equal(f.engine->tenants[a.tenant].pinned_pages, 0);
	fixture_close(&f);
}

static void two_reactors__never_past_a_limit_evict_own(void **state)
{
	two_reactors__never_past_a_limit(LARDER_OVER_CAP_EVICT_OWN, 1);
	two_reactors__never_past_a_limit(LARDER_OVER_CAP_EVICT_OWN, 2);
}

static void two_reactors__never_past_a_limit_reject(void **state)
{
	two_reactors__never_past_a_limit(LARDER_OVER_CAP_REJECT, 3);
	two_reactors__never_past_a_limit(LARDER_OVER_CAP_REJECT, 4);
}

/* --- the steps themselves, as fast as they go -------------------------------------------- */

struct hammer {
	pthread_t thread;
	struct fixture *f;
	struct engine_reactor *r;
	uint32_t guarded;
	uint64_t *budget, *inside, *seen;
	pthread_barrier_t *start;
};

/* What two hold at once of what there is one of. */
static void hammer_inside(struct hammer *h)
{
	if (__atomic_add_fetch(h->inside, 1, __ATOMIC_SEQ_CST) > 1)
		(void)__atomic_add_fetch(h->seen, 1, __ATOMIC_SEQ_CST);
	(void)__atomic_sub_fetch(h->inside, 1, __ATOMIC_SEQ_CST);
}

static void *hammer_budget(void *arg)
{
	struct hammer *h = arg;

	(void)pthread_barrier_wait(h->start);
	for (uint32_t i = 0; i < HAMMER; i++) {
		if (!engine_take(h->budget, 1, 1))
			continue;
		hammer_inside(h);
		(void)__atomic_sub_fetch(h->budget, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void *hammer_spare(void *arg)
{
	struct hammer *h = arg;

	(void)pthread_barrier_wait(h->start);
	for (uint32_t i = 0; i < HAMMER; i++) {
		uint64_t claim;

		if (!engine_spare(h->r, h->guarded, 1, &claim))
			continue;
		hammer_inside(h);
		engine_spare_done(h->r, h->guarded, claim);
	}
	return NULL;
}

static void hammer_both(struct fixture *f, uint32_t guarded, void *(*what)(void *))
{
	uint64_t budget = 0, inside = 0, seen = 0;
	struct hammer both[2];
	pthread_barrier_t start;

	assert_int_equal(pthread_barrier_init(&start, NULL, 2), 0);
	for (uint32_t i = 0; i < 2; i++) {
		both[i] = (struct hammer){ .f = f, .guarded = guarded, .budget = &budget,
					   .inside = &inside, .seen = &seen, .start = &start,
					   .r = engine_reactor(f->engine, i) };
		both[i].r->room_for = f->tenant;
		both[i].r->room_pages = 1;
		assert_int_equal(pthread_create(&both[i].thread, NULL, what, &both[i]), 0);
	}
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(pthread_join(both[i].thread, NULL), 0);
	assert_int_equal(pthread_barrier_destroy(&start), 0);
	assert_int_equal(seen, 0);
	assert_int_equal(budget, 0);
}

static void one_of_two__has_the_last_unit(void **state)
{
	struct fixture f = { .config.reactors = 2 };
	struct who a, b = {};

	fixture_open(&f, 64);
	a = (struct who){ .tenant = f.tenant, .ns = f.ns };
	who_open(&f, "b", &b);
	hammer_both(&f, b.tenant, hammer_budget);
	as(&f, &b);
	put_many(&f, "b", 8, 1);
	limit(&f, &b, LARDER_LIMIT_guarantee_bytes, 7 * FIXTURE_PAGE);
	as(&f, &a);
	hammer_both(&f, b.tenant, hammer_spare);
	assert_int_equal(f.engine->tenants[b.tenant].going_pages, 0);
	fixture_close(&f);
}

/* --- a guarantee between two who flood ---------------------------------------------------- */

static void *flood_main(void *arg)
{
	static const uint32_t checks[1];
	struct side *s = arg;
	struct engine_tenant *guarded = &s->f->engine->tenants[s->seed];

	for (uint32_t i = 0; i < 2 * CAP; i++) {
		struct request q;
		char key[16];
		int status;

		(void)snprintf(key, sizeof(key), "%u-%u", s->number, i);
		request_init(&q, s->f, LARDER_OP_PUT, key);
		q.op.length = 1;
		q.op.checks = checks;
		q.op.n_checks = 1;
		status = side_run(s, &q);
		if (status == LARDER_OK)
			engine_commit(s->r, &q.op);
		s->bad += status != LARDER_OK && status != LARDER_NO_SPACE;
		/* nothing of their own can go: they want all that the other has */
		request_init(&q, s->f, LARDER_OP_LEASE, key);
		q.op.lease_ms = 1000;
		(void)side_run(s, &q);
		s->above += __atomic_load_n(&guarded->resident_pages, __ATOMIC_RELAXED) < CAP;
	}
	return NULL;
}

static void two_floods__leave_the_last_guaranteed_page(void **state)
{
	for (uint32_t round = 0; round < 40; round++) {
		struct fixture f = { .config.reactors = 2 };
		struct side sides[2] = {};
		struct who a, b = {};

		fixture_open(&f, 2 * CAP);
		a = (struct who){ .tenant = f.tenant, .ns = f.ns };
		who_open(&f, "b", &b);
		as(&f, &b);
		for (uint32_t i = 0; i < 2 * CAP; i++)
			assert_int_equal(put(&f, (const char[]){ (char)('a' + i), 0 }, i, 1),
					 LARDER_OK);
		limit(&f, &b, LARDER_LIMIT_guarantee_bytes, CAP * FIXTURE_PAGE);
		as(&f, &a);
		for (uint32_t i = 0; i < 2; i++) {
			sides[i] = (struct side){ .f = &f, .r = engine_reactor(f.engine, i),
						  .number = i, .seed = b.tenant };
			assert_int_equal(pthread_create(&sides[i].thread, NULL, flood_main,
							&sides[i]), 0);
		}
		for (uint32_t i = 0; i < 2; i++)
			assert_int_equal(pthread_join(sides[i].thread, NULL), 0);
		for (uint32_t i = 0; i < 2; i++) {
			assert_int_equal(sides[i].above, 0);
			assert_int_equal(sides[i].bad, 0);
		}
		assert_int_equal(gauges(&f, &b)->objects, CAP);
		fixture_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_reactors__never_past_a_limit_evict_own),
		cmocka_unit_test(two_reactors__never_past_a_limit_reject),
		cmocka_unit_test(one_of_two__has_the_last_unit),
		cmocka_unit_test(two_floods__leave_the_last_guaranteed_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
