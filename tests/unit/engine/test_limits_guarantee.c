/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: whose objects go while the node is short, and whose do not. */
#include "limits.h"

#include "engine/engine_internal.h"

static uint64_t pages_of(const struct fixture *f, const struct who *w)
{
	return gauges(f, w)->resident_bytes / FIXTURE_PAGE;
}

static void three_open(struct fixture *f, uint32_t pages, struct who *a, struct who *b,
		       struct who *c)
{
	fixture_open(f, pages);
	*a = (struct who){ .tenant = f->tenant, .ns = f->ns };
	*b = *c = (struct who){};
	who_open(f, "b", b);
	who_open(f, "c", c);
}

static void flood__takes_nothing_below_a_guarantee(void **state)
{
	static const char *const policies[] = { "fifo", "lru", "aseg" };

	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		struct fixture f = { .config.policy = policies[i] };
		struct who a, b, c;

		three_open(&f, 32, &a, &b, &c);
		limit(&f, &b, LARDER_LIMIT_guarantee_bytes, 10 * FIXTURE_PAGE);
		limit(&f, &c, LARDER_LIMIT_guarantee_bytes, 4 * FIXTURE_PAGE);
		as(&f, &b);
		put_many(&f, "b", 8, 1);		/* below */
		as(&f, &c);
		put_many(&f, "c", 6, 1);		/* above: two are anybody's */
		fixture_advance(&f, 100 * NSEC_PER_SEC);
		as(&f, &a);
		put_many(&f, "a", 300, 1);
		assert_int_equal(evicted(&f, &b), 0);
		assert_in_range(pages_of(&f, &c), 4, 6);
		as(&f, &b);
		assert_int_equal(present_of(&f, "b", 8), 8);
		/* and what is guaranteed can still be had */
		put_many(&f, "n", 2, 1);
		assert_int_equal(pages_of(&f, &b), 10);
		assert_int_equal(evicted(&f, &b), 0);
		fixture_close(&f);
	}
}

static void victims__come_from_the_one_furthest_above(void **state)
{
	struct fixture f = {};
	struct who a, b, c;

	three_open(&f, 30, &a, &b, &c);
	as(&f, &b);
	put_many(&f, "b", 12, 1);
	as(&f, &c);
	put_many(&f, "c", 15, 1);
	as(&f, &a);
	put_many(&f, "a", 3, 1);
	/* c holds most, but b is further above what it is guaranteed */
	limit(&f, &c, LARDER_LIMIT_guarantee_bytes, 10 * FIXTURE_PAGE);
	put_many(&f, "x", 5, 1);
	assert_int_equal(evicted(&f, &b), 5);
	assert_int_equal(evicted(&f, &c), 0);
	/* a is the furthest now: it holds 8 and has no guarantee */
	put_many(&f, "y", 2, 1);
	assert_int_equal(evicted(&f, &a), 2);
	fixture_close(&f);
}

static void no_space__is_said_before_a_guarantee_is_touched(void **state)
{
	struct fixture f = {};
	struct who a, b, c;

	three_open(&f, 16, &a, &b, &c);
	as(&f, &b);
	put_many(&f, "b", 10, 1);
	as(&f, &a);
	put_many(&f, "a", 6, 1);
	for (uint32_t i = 0; i < 6; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "a%u", i);
		assert_int_equal(lease(&f, key, 1, 1000), LARDER_LEASED);
	}
	limit(&f, &b, LARDER_LIMIT_guarantee_bytes, 10 * FIXTURE_PAGE);
	assert_int_equal(put(&f, "more", 1, 1), LARDER_NO_SPACE);
	assert_int_equal(evicted(&f, &b), 0);
	/* its owner may always evict its own */
	as(&f, &b);
	assert_int_equal(put(&f, "more", 1, 1), LARDER_OK);
	assert_int_equal(evicted(&f, &b), 1);
	/* one page less is guaranteed: that one goes */
	limit(&f, &b, LARDER_LIMIT_guarantee_bytes, 9 * FIXTURE_PAGE);
	as(&f, &a);
	assert_int_equal(put(&f, "more", 1, 1), LARDER_OK);
	assert_int_equal(evicted(&f, &b), 2);
	assert_int_equal(put(&f, "again", 1, 1), LARDER_OK);
	assert_int_equal(presence(&f, "more"), LARDER_ABSENT);
	assert_int_equal(evicted(&f, &b), 2);
	fixture_close(&f);
}

static void objects__that_reach_below_are_spared(void **state)
{
	struct fixture f = { .config.shards = 1 };
	struct who a, b, c;

	three_open(&f, 16, &a, &b, &c);
	limit(&f, &b, LARDER_LIMIT_guarantee_bytes, 9 * FIXTURE_PAGE);
	as(&f, &b);
	put_many(&f, "b", 5, 2);
	as(&f, &a);
	put_many(&f, "a", 30, 1);
	assert_int_equal(evicted(&f, &b), 0);
	/* also when nothing else is left */
	assert_int_equal(present_of(&f, "a", 30), 6);
	for (uint32_t i = 24; i < 30; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "a%u", i);
		assert_int_equal(lease(&f, key, 1, 1000), LARDER_LEASED);
	}
	assert_int_equal(put(&f, "more", 1, 1), LARDER_NO_SPACE);
	assert_int_equal(evicted(&f, &b), 0);
	assert_int_equal(release(&f, NULL, 1), LARDER_OK);
	/* but the last part of an object keeps nobody else from its own guarantee */
	limit(&f, &c, LARDER_LIMIT_guarantee_bytes, 7 * FIXTURE_PAGE);
	as(&f, &c);
	put_many(&f, "c", 7, 1);
	assert_int_equal(pages_of(&f, &c), 7);
	assert_int_equal(evicted(&f, &c), 0);
	assert_int_equal(evicted(&f, &b), 1);
	fixture_close(&f);
}

/* A hundred leased objects hide the one that may go; still it goes, and none of one's own. */
static void guarantee__is_had_past_many_kept_ones(void **state)
{
	struct fixture f = { .config.shards = 1 };
	struct who a, b, c;

	three_open(&f, 120, &a, &b, &c);
	put_many(&f, "a", 110, 1);
	for (uint32_t i = 0; i < 109; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "a%u", i);
		assert_int_equal(lease(&f, key, 1, 60000), LARDER_LEASED);
	}
	limit(&f, &b, LARDER_LIMIT_guarantee_bytes, 11 * FIXTURE_PAGE);
	as(&f, &b);
	put_many(&f, "b", 11, 1);
	assert_int_equal(present_of(&f, "b", 11), 11);
	assert_int_equal(evicted(&f, &a), 1);
	assert_int_equal(evicted(&f, &b), 0);
	assert_int_equal(put(&f, "b11", 1, 1), LARDER_OK);
	assert_int_equal(evicted(&f, &b), 1);
	fixture_close(&f);
}

static void ahead_of_need__guarantees_hold_too(void **state)
{
	struct fixture f = { .config.reserve_pages = 6 };
	struct who a, b, c;

	three_open(&f, 16, &a, &b, &c);
	limit(&f, &b, LARDER_LIMIT_guarantee_bytes, 16 * FIXTURE_PAGE);
	as(&f, &b);
	put_many(&f, "b", 16, 1);
	for (uint32_t i = 0; i < 100; i++) {
		fixture_advance(&f, NSEC_PER_SEC);
		assert_null(engine_poll(f.r));
	}
	assert_int_equal(evicted(&f, &b), 0);
	limit(&f, &b, LARDER_LIMIT_guarantee_bytes, 12 * FIXTURE_PAGE);
	for (uint32_t i = 0; i < 100; i++) {
		fixture_advance(&f, NSEC_PER_SEC);
		assert_null(engine_poll(f.r));
	}
	assert_int_equal(evicted(&f, &b), 4);
	fixture_close(&f);
}

static void cap__is_what_the_policy_works_with(void **state)
{
	struct fixture f = { .config.policy = "aseg" };
	struct who a;

	fixture_open(&f, 64);
	a = (struct who){ .tenant = f.tenant, .ns = f.ns };
	put_many(&f, "k", 4, 1);
	assert_int_equal(engine_cap(f.engine, a.tenant), 64);
	limit(&f, &a, LARDER_LIMIT_resident_bytes, 10 * FIXTURE_PAGE);
	assert_int_equal(engine_cap(f.engine, a.tenant), 10);
	limit(&f, &a, LARDER_LIMIT_resident_bytes, 100 * FIXTURE_PAGE);
	assert_int_equal(engine_cap(f.engine, a.tenant), 64);
	limit(&f, &a, LARDER_LIMIT_resident_bytes, 2 * FIXTURE_PAGE);
	assert_int_equal(engine_cap(f.engine, a.tenant), 2);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flood__takes_nothing_below_a_guarantee),
		cmocka_unit_test(victims__come_from_the_one_furthest_above),
		cmocka_unit_test(no_space__is_said_before_a_guarantee_is_touched),
		cmocka_unit_test(objects__that_reach_below_are_spared),
		cmocka_unit_test(guarantee__is_had_past_many_kept_ones),
		cmocka_unit_test(ahead_of_need__guarantees_hold_too),
		cmocka_unit_test(cap__is_what_the_policy_works_with),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
