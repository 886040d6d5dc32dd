/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default policy: its rules one by one, its ghost, and what they come to in an engine. The
 * rates on whole traces are in test_aseg_rates.c.
 */
#include "engine/engine_internal.h"
#include "fixture.h"

#define SECOND NSEC_PER_SEC
#define OBJECTS 64u

/* --- the ghost ---------------------------------------------------------------------------- */

static void ghost__remembers_until_it_is_asked(void **state)
{
	struct policy_ghost *g;

	assert_int_equal(policy_ghost_new(0, 100, 100, &g), 0);
	assert_false(policy_ghost_take(g, 42));
	policy_ghost_put(g, 42, 1);
	assert_true(policy_ghost_has(g, 42));
	assert_false(policy_ghost_has(g, 43));
	assert_true(policy_ghost_take(g, 42));
	assert_false(policy_ghost_has(g, 42));
	assert_false(policy_ghost_take(g, 42));
	assert_null(policy_ghost_free(g));
}

static void ghost__forgets_after_four_times_the_memory(void **state)
{
	struct policy_ghost *g;

	assert_int_equal(policy_ghost_new(0, 100, 100, &g), 0);
	policy_ghost_put(g, 1ull << 63 | 42, 1);
	policy_ghost_put(g, 7, 400);
	assert_true(policy_ghost_has(g, 1ull << 63 | 42));
	policy_ghost_put(g, 7, 1);
	assert_false(policy_ghost_has(g, 1ull << 63 | 42));
	assert_false(policy_ghost_take(g, 1ull << 63 | 42));
	policy_ghost_free(g);
}

/* Of ten keys of one line the two oldest make place, whichever came again counts as young. */
static void ghost__a_full_line_drops_the_oldest(void **state)
{
	struct policy_ghost *g;

	assert_int_equal(policy_ghost_new(0, 100, 1000, &g), 0);
	for (uint32_t i = 1; i <= 8; i++)
		policy_ghost_put(g, i, 1);
	policy_ghost_put(g, 1, 1);		/* over the same fingerprint */
	policy_ghost_put(g, 9, 1);
	policy_ghost_put(g, 10, 1);
	for (uint32_t i = 1; i <= 10; i++)
		assert_int_equal(policy_ghost_has(g, i), i != 2 && i != 3);
	policy_ghost_free(g);
}

static void ghost__works_at_every_size(void **state)
{
	static const uint32_t bits[] = { 0, 1, 6, 10 };

	for (size_t b = 0; b < ARRAY_SIZE(bits); b++) {
		struct policy_ghost *g;

		/* more pages than ticks: the clock is divided */
		assert_int_equal(policy_ghost_new(bits[b], 5000, INT32_MAX, &g), 0);
		for (uint64_t i = 0; i < 64; i++)
			policy_ghost_put(g, i << 58 | i, 1);
		policy_ghost_put(g, UINT64_MAX, 1);
		for (uint64_t i = 0; i < 64; i++)
			assert_true(policy_ghost_take(g, i << 58 | i));
		assert_true(policy_ghost_take(g, UINT64_MAX));
		assert_in_range(policy_ghost_bytes(g), 5000 * 128, 5000 * 128 + (64u << 10) + 128);
		policy_ghost_free(g);
	}
}

/* --- the rules, without an engine --------------------------------------------------------- */

struct bench {
	struct engine_object objects[OBJECTS];
	struct policy_set set;
	struct policy_tenant tenant;
	struct policy_place place;
	const struct policy *p;
};

static void bench_init(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	for (uint32_t i = 0; i < OBJECTS; i++) {
		b->objects[i].prev = b->objects[i].next = RECORD_NONE;
		b->objects[i].size_pages = 1;
		b->objects[i].hash = (i + 1) * 0x9e3779b97f4a7c15u;
		b->objects[i].seg = OBJECT_SEG_NONE;
	}
	for (uint32_t i = 0; i < POLICY_SEGMENTS; i++)
		policy_list_init(&b->set.seg[i]);
	b->p = policy_find("aseg");
	b->place = (struct policy_place){
		.objects = b->objects, .set = &b->set, .tenant = &b->tenant, .cap = OBJECTS,
	};
	assert_int_equal(policy_ghost_new(0, OBJECTS, OBJECTS, &b->place.ghost), 0);
}

static void bench_done(struct bench *b)
{
	b->place.ghost = policy_ghost_free(b->place.ghost);
}

static const struct policy_place *at(struct bench *b, uint64_t now_ns)
{
	b->place.now_ns = now_ns;
	return &b->place;
}

static void bench_evict(struct bench *b, uint64_t now_ns, uint32_t slot)
{
	b->p->on_remove(at(b, now_ns), slot);
	b->p->on_evict(at(b, now_ns), slot);
}

static void aseg__a_second_touch_promotes_unless_it_is_the_same_burst(void **state)
{
	struct bench b;

	bench_init(&b);
	for (uint32_t i = 0; i < 3; i++)
		b.p->on_insert(at(&b, 100 * SECOND), i);
	b.p->on_hit(at(&b, 105 * SECOND - 1), 0);
	assert_int_equal(b.objects[0].seg, 0);
	assert_int_equal(b.set.seg[0].tail, 0);		/* not even to the young end */
	assert_int_equal(b.objects[0].last, 100 * SECOND);
	b.p->on_hit(at(&b, 105 * SECOND), 1);
	assert_int_equal(b.objects[1].seg, 1);
	assert_int_equal(b.objects[1].at, 105 * SECOND);
	assert_int_equal(b.tenant.count[0], 2);
	assert_int_equal(b.tenant.count[1], 1);
	/* within the guard of its last move it stays where it is, too */
	b.p->on_hit(at(&b, 107 * SECOND), 2);
	b.p->on_hit(at(&b, 109 * SECOND), 1);
	assert_int_equal(b.set.seg[1].head, 2);
	b.p->on_hit(at(&b, 110 * SECOND), 1);
	assert_int_equal(b.set.seg[1].head, 1);
	/* a clock read just before another reactor's is no long silence */
	b.p->on_hit(at(&b, 106 * SECOND), 1);
	assert_int_equal(b.objects[1].last, 110 * SECOND);
	bench_done(&b);
}

static void aseg__what_comes_back_from_the_ghost_is_not_new(void **state)
{
	struct bench b;

	bench_init(&b);
	b.p->on_insert(at(&b, 1), 0);
	b.p->on_insert(at(&b, 1), 1);
	bench_evict(&b, 2, 0);
	b.p->on_remove(at(&b, 2), 1);			/* deleted, not evicted */
	b.p->on_insert(at(&b, 3), 0);
	b.p->on_insert(at(&b, 3), 1);
	assert_int_equal(b.objects[0].seg, 1);
	assert_int_equal(b.objects[1].seg, 0);
	bench_done(&b);
}

static void aseg__victims_are_the_tails(void **state)
{
	struct bench b;
	uint64_t age = 0;

	bench_init(&b);
	assert_int_equal(b.p->victim(b.objects, &b.set, 0, &age), RECORD_NONE);
	b.p->on_insert(at(&b, 10), 0);
	b.p->on_insert(at(&b, 11), 1);
	assert_int_equal(b.p->victim(b.objects, &b.set, 0, &age), 0);
	assert_int_equal(age, 10);
	assert_int_equal(b.p->victim(b.objects, &b.set, 1, &age), RECORD_NONE);
	b.p->on_hit(at(&b, 10 * SECOND), 0);
	assert_int_equal(b.p->victim(b.objects, &b.set, 0, &age), 1);
	assert_int_equal(b.p->victim(b.objects, &b.set, 1, &age), 0);
	assert_int_equal(age, 10 * SECOND);
	bench_done(&b);
}

/* Only what a list half as long would have lost speaks for the list. */
static void aseg__hits_count_in_the_older_half(void **state)
{
	struct bench b;

	bench_init(&b);
	b.objects[0].size_pages = 3;
	b.p->on_insert(at(&b, 100 * SECOND), 0);
	b.p->on_insert(at(&b, 110 * SECOND), 1);
	b.p->on_hit(at(&b, 118 * SECOND), 1);		/* 110 is younger than 109 */
	assert_int_equal(b.tenant.hits[0], 0);
	b.p->on_hit(at(&b, 118 * SECOND), 0);
	assert_int_equal(b.tenant.hits[0], 3);
	b.p->on_hit(at(&b, 130 * SECOND), 0);
	assert_int_equal(b.tenant.hits[1], 3);
	bench_done(&b);
}

/* A window's worth of evictions; what of it goes is not the point. */
static void bench_window(struct bench *b)
{
	for (uint32_t i = 0; i < OBJECTS / 8; i++) {
		b->p->on_insert(at(b, SECOND), OBJECTS - 1);
		bench_evict(b, SECOND, OBJECTS - 1);
	}
}

static void aseg__the_boundary_follows_what_earns_and_stops_at_a_sixteenth(void **state)
{
	struct bench b;

	bench_init(&b);
	for (uint32_t i = 0; i < 8; i++)
		b.p->on_insert(at(&b, SECOND), i);
	assert_int_equal(b.tenant.lean, 0);
	bench_window(&b);
	assert_int_equal(b.tenant.lean, 0);		/* nobody earned anything */
	for (uint32_t i = 0; i < 40; i++) {
		b.tenant.hits[0] = 100;
		bench_window(&b);
		assert_int_equal(b.tenant.lean, MIN(i + 1, 14u));
		assert_int_equal(b.tenant.hits[0], 75);
	}
	/* M may hold 2 of 32 parts of 64 pages */
	b.tenant.count[1] = 5;
	b.tenant.pages[1] = 4;
	assert_false(b.p->excess(&b.tenant, OBJECTS));
	b.tenant.pages[1] = 5;
	assert_true(b.p->excess(&b.tenant, OBJECTS));
	b.tenant.count[1] = 1;				/* one object that is all of it stays */
	assert_false(b.p->excess(&b.tenant, OBJECTS));
	b.tenant.count[1] = b.tenant.pages[1] = 0;
	for (uint32_t i = 0; i < 60; i++) {
		b.tenant.hits[0] = 0;
		b.tenant.hits[1] = 100;
		bench_window(&b);
	}
	assert_int_equal(b.tenant.lean, -14);
	bench_done(&b);
}

/* --- in an engine ------------------------------------------------------------------------- */

static void name(char key[16], const char *prefix, uint32_t i)
{
	(void)snprintf(key, 16, "%s%u", prefix, i);
}

static void put_many(struct fixture *f, const char *prefix, uint32_t first, uint32_t n)
{
	char key[16];

	for (uint32_t i = first; i < first + n; i++) {
		name(key, prefix, i);
		assert_int_equal(put(f, key, i, 1), LARDER_OK);
		fixture_advance(f, NSEC_PER_MSEC);
	}
}

static uint32_t present_of(struct fixture *f, const char *prefix, uint32_t first, uint32_t n)
{
	uint32_t present = 0;
	char key[16];

	for (uint32_t i = first; i < first + n; i++) {
		name(key, prefix, i);
		present += presence(f, key) == LARDER_PRESENT;
	}
	return present;
}

static const struct policy_tenant *sums(const struct fixture *f)
{
	return &f->engine->tenants[f->tenant].policy;
}

static void aseg__a_scan_does_not_flush_what_is_used(void **state)
{
	struct fixture f = { .config.policy = "aseg", .config.shards = 16 };
	char key[16];

	fixture_open(&f, 400);
	put_many(&f, "used", 0, 100);
	for (uint32_t round = 0; round < 20; round++) {
		fixture_advance(&f, 5 * SECOND);
		for (uint32_t i = 0; i < 100; i++) {
			name(key, "used", i);
			assert_int_equal(touch(&f, key), LARDER_OK);
		}
		/* more than the memory each time: lru would keep none */
		put_many(&f, "scan", round * 600, round ? 600 : 200);
	}
	assert_int_equal(present_of(&f, "used", 0, 100), 100);
	assert_int_equal(sums(&f)->count[1], 100);
	assert_int_equal(sums(&f)->pages[0] + sums(&f)->pages[1], 400);
	fixture_close(&f);
}

static void aseg__exists_touches_nothing(void **state)
{
	struct fixture f = { .config.policy = "aseg", .config.shards = 1 };

	fixture_open(&f, 4);
	put_many(&f, "k", 0, 4);
	fixture_advance(&f, 60 * SECOND);
	assert_int_equal(presence(&f, "k0"), LARDER_PRESENT);
	assert_int_equal(lease(&f, "k0", 1, 1), LARDER_LEASED);
	fixture_advance(&f, SECOND);
	assert_int_equal(sums(&f)->count[1], 0);
	assert_int_equal(put(&f, "new", 1, 1), LARDER_OK);
	assert_int_equal(presence(&f, "k0"), LARDER_ABSENT);
	fixture_close(&f);
}

static void aseg__the_second_list_stays_within_its_share(void **state)
{
	struct fixture f = { .config.policy = "aseg", .config.shards = 8 };
	char key[16];

	fixture_open(&f, 256);
	put_many(&f, "k", 0, 256);
	fixture_advance(&f, 60 * SECOND);
	for (uint32_t i = 0; i < 256; i++) {
		name(key, "k", i);
		assert_int_equal(touch(&f, key), LARDER_OK);
		assert_true(sums(&f)->pages[1] <= 128);
	}
	assert_int_equal(sums(&f)->pages[1], 128);
	assert_int_equal(sums(&f)->pages[0], 128);
	fixture_close(&f);
}

/* All of probation leased: the victim comes from the other list, and nobody is told NO_SPACE. */
static void aseg__leased_probation_lets_the_other_list_give(void **state)
{
	struct fixture f = { .config.policy = "aseg", .config.shards = 1 };

	fixture_open(&f, 8);
	put_many(&f, "k", 0, 8);
	fixture_advance(&f, 10 * SECOND);
	assert_int_equal(touch(&f, "k3"), LARDER_OK);
	for (uint32_t i = 0; i < 8; i++) {
		char key[16];

		name(key, "k", i);
		if (i != 3)
			assert_int_equal(lease(&f, key, i, 1000), LARDER_LEASED);
	}
	assert_int_equal(put(&f, "new", 1, 1), LARDER_OK);
	assert_int_equal(presence(&f, "k3"), LARDER_ABSENT);
	assert_int_equal(present_of(&f, "k", 0, 8), 7);
	fixture_close(&f);
}

static void aseg__sums_are_of_what_is_there(void **state)
{
	struct fixture f = { .config.policy = "aseg", .config.shards = 4 };
	uint64_t seed = 11;
	struct prng p;

	print_message("seed %llu\n", (unsigned long long)seed);
	prng_seed(&p, seed);
	fixture_open(&f, 64);
	for (uint32_t step = 0; step < 20000; step++) {
		uint32_t i = (uint32_t)prng_below(&p, 100);
		char key[16];

		name(key, "k", i);
		fixture_advance(&f, prng_below(&p, 2) * SECOND);
		switch (prng_below(&p, 8)) {
		case 0:
			(void)delete(&f, key, 0);
			break;
		case 1:
		case 2:
		case 3:
			(void)touch(&f, key);
			break;
		default:
			assert_in_range(put(&f, key, i, 1 + i % 9 * FIXTURE_PAGE), LARDER_OK,
					LARDER_EXISTS_SAME);
		}
		assert_int_equal((sums(&f)->pages[0] + sums(&f)->pages[1]) * FIXTURE_PAGE,
				 f.ledger->gauges[0].resident_bytes);
		assert_int_equal(sums(&f)->count[0] + sums(&f)->count[1], counts(&f).objects);
		assert_true(f.ledger->gauges[0].resident_bytes <= 64 * FIXTURE_PAGE);
	}
	fixture_close(&f);
}

/* Another tenant's scan costs this one neither its objects nor what it learnt. */
static void aseg__tenants_do_not_share_a_boundary(void **state)
{
	struct fixture f = { .config.policy = "aseg", .config.shards = 8 };
	uint32_t mine, mine_ns;

	fixture_open(&f, 300);
	put_many(&f, "k", 0, 100);
	mine = f.tenant;
	mine_ns = f.ns;
	assert_int_equal(engine_tenant_add(f.engine, "other", &f.tenant), 0);
	assert_int_equal(engine_namespace_open(f.engine, f.tenant, "ns", 2, NULL, true, &f.ns,
					       NULL), LARDER_OK);
	/* it has what is free, and then the same keys again are not mine */
	put_many(&f, "k", 0, 3000);
	assert_int_equal(sums(&f)->pages[0] + sums(&f)->pages[1], 200);
	assert_int_equal(engine_cap(f.engine, f.tenant), 200);
	assert_int_equal(engine_cap(f.engine, mine), 100);
	f.tenant = mine;
	f.ns = mine_ns;
	assert_int_equal(present_of(&f, "k", 0, 100), 100);
	assert_int_equal(sums(&f)->window, 0);
	assert_int_equal(sums(&f)->lean, 0);
	fixture_close(&f);
}

/* What was used again before the restart is worth more after it; what was only read back is not. */
static void aseg__restart_keeps_who_was_seen_again(void **state)
{
	struct fixture f = { .config.policy = "aseg", .config.shards = 1 };

	fixture_open(&f, 8);
	put_many(&f, "k", 0, 8);
	assert_int_equal(touch(&f, "k1"), LARDER_OK);		/* the same burst */
	fixture_advance(&f, 10 * SECOND);
	assert_int_equal(touch(&f, "k0"), LARDER_OK);
	assert_int_equal(touch(&f, "k2"), LARDER_OK);
	fixture_restart(&f);
	assert_int_equal(sums(&f)->count[1], 2);
	assert_int_equal(sums(&f)->hits[0], 0);		/* nothing learnt from the retelling */
	assert_int_equal(put(&f, "new0", 1, 1), LARDER_OK);
	assert_int_equal(presence(&f, "k3"), LARDER_ABSENT);	/* the oldest of the rest */
	assert_int_equal(put(&f, "new1", 1, 1), LARDER_OK);
	assert_int_equal(put(&f, "new2", 1, 1), LARDER_OK);
	assert_int_equal(presence(&f, "k0"), LARDER_PRESENT);
	assert_int_equal(presence(&f, "k2"), LARDER_PRESENT);
	/* the wall clock was set back: objects seem to come from the future. Order is all that is
	 * lost. */
	f.wall_ms -= 3600 * 1000;
	fixture_restart(&f);
	assert_int_equal(counts(&f).objects, 8);
	assert_int_equal(put(&f, "new3", 1, 1), LARDER_OK);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ghost__remembers_until_it_is_asked),
		cmocka_unit_test(ghost__forgets_after_four_times_the_memory),
		cmocka_unit_test(ghost__a_full_line_drops_the_oldest),
		cmocka_unit_test(ghost__works_at_every_size),
		cmocka_unit_test(aseg__a_second_touch_promotes_unless_it_is_the_same_burst),
		cmocka_unit_test(aseg__what_comes_back_from_the_ghost_is_not_new),
		cmocka_unit_test(aseg__victims_are_the_tails),
		cmocka_unit_test(aseg__hits_count_in_the_older_half),
		cmocka_unit_test(aseg__the_boundary_follows_what_earns_and_stops_at_a_sixteenth),
		cmocka_unit_test(aseg__a_scan_does_not_flush_what_is_used),
		cmocka_unit_test(aseg__exists_touches_nothing),
		cmocka_unit_test(aseg__the_second_list_stays_within_its_share),
		cmocka_unit_test(aseg__leased_probation_lets_the_other_list_give),
		cmocka_unit_test(aseg__sums_are_of_what_is_there),
		cmocka_unit_test(aseg__tenants_do_not_share_a_boundary),
		cmocka_unit_test(aseg__restart_keeps_who_was_seen_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
