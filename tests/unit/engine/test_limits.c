/* SPDX-License-Identifier: Apache-2.0 */
/* Caps of a tenant: resident_bytes, objects, namespaces; at the limit, one below, one above. */
#include "limits.h"

#include "base/prng.h"

/* Two tenants on a node of 64 pages; the second holds two objects that are older than all else. */
static void two_open(struct fixture *f, struct who *a, struct who *other)
{
	fixture_open(f, 64);
	*a = (struct who){ .tenant = f->tenant, .ns = f->ns };
	who_open(f, "other", other);
	as(f, other);
	put_many(f, "o", 2, 1);
	fixture_advance(f, NSEC_PER_SEC);
	as(f, a);
}

static void two_close(struct fixture *f, const struct who *other)
{
	as(f, other);
	assert_int_equal(present_of(f, "o", 2), 2);
	assert_int_equal(evicted(f, other), 0);
	fixture_close(f);
}

static void resident__reject_is_said_at_once_and_counted(void **state)
{
	struct fixture f = {};
	struct who a, other = {};

	two_open(&f, &a, &other);
	/* part of a page more gives no page more */
	limit(&f, &a, LARDER_LIMIT_resident_bytes, 5 * FIXTURE_PAGE - 1);
	limit(&f, &a, LARDER_LIMIT_over_cap, LARDER_OVER_CAP_REJECT);
	put_many(&f, "k", 3, 1);
	put_is_refused(&f, &a, LARDER_LIMIT_resident_bytes, FIXTURE_PAGE + 1);
	assert_int_equal(put(&f, "last", 1, FIXTURE_PAGE), LARDER_OK);
	assert_int_equal(gauges(&f, &a)->resident_bytes, 4 * FIXTURE_PAGE);
	put_is_refused(&f, &a, LARDER_LIMIT_resident_bytes, 1);
	put_is_refused(&f, &a, LARDER_LIMIT_resident_bytes, 5 * FIXTURE_PAGE);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_resident_bytes), 3);
	assert_int_equal(counts(&f).evictions, 0);
	/* what is there needs no room */
	assert_int_equal(put(&f, "last", 1, FIXTURE_PAGE), LARDER_EXISTS_SAME);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_resident_bytes), 3);
	assert_int_equal(delete(&f, "k0", 0), LARDER_OK);
	assert_int_equal(put(&f, "next", 1, 1), LARDER_OK);
	put_is_refused(&f, &a, LARDER_LIMIT_resident_bytes, 1);
	two_close(&f, &other);
}

static void resident__evict_own_takes_the_oldest_of_its_own(void **state)
{
	struct fixture f = { .config.shards = 1 };
	struct who a, other = {};

	two_open(&f, &a, &other);
	limit(&f, &a, LARDER_LIMIT_resident_bytes, 4 * FIXTURE_PAGE);
	put_many(&f, "k", 4, 1);
	assert_int_equal(counts(&f).evictions, 0);
	assert_int_equal(put(&f, "more", 1, 1), LARDER_OK);
	assert_int_equal(counts(&f).evictions, 1);
	assert_int_equal(presence(&f, "k0"), LARDER_ABSENT);
	assert_int_equal(put(&f, "large", 1, 3 * FIXTURE_PAGE), LARDER_OK);
	assert_int_equal(counts(&f).evictions, 4);
	assert_int_equal(presence(&f, "more"), LARDER_PRESENT);
	assert_int_equal(gauges(&f, &a)->resident_bytes, 4 * FIXTURE_PAGE);
	/* as large as the cap fits, one byte more never does */
	put_is_refused(&f, &a, LARDER_LIMIT_resident_bytes, 4 * FIXTURE_PAGE + 1);
	assert_int_equal(presence(&f, "large"), LARDER_PRESENT);
	assert_int_equal(put(&f, "whole", 1, 4 * FIXTURE_PAGE), LARDER_OK);
	assert_int_equal(gauges(&f, &a)->objects, 1);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_resident_bytes), 1);
	two_close(&f, &other);
}

static void resident__quota_when_leases_fill_the_cap(void **state)
{
	struct fixture f = {};
	struct who a, other = {};

	two_open(&f, &a, &other);
	limit(&f, &a, LARDER_LIMIT_resident_bytes, 4 * FIXTURE_PAGE);
	put_many(&f, "k", 4, 1);
	for (uint32_t i = 0; i < 4; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(lease(&f, key, 1, 1000), LARDER_LEASED);
	}
	put_is_refused(&f, &a, LARDER_LIMIT_resident_bytes, 1);
	put_is_refused(&f, &a, LARDER_LIMIT_resident_bytes, 1);
	assert_int_equal(present_of(&f, "k", 4), 4);
	assert_int_equal(release(&f, "k2", 1), LARDER_OK);
	/* one page could go, but two are wanted: nothing goes in vain */
	put_is_refused(&f, &a, LARDER_LIMIT_resident_bytes, FIXTURE_PAGE + 1);
	assert_int_equal(put(&f, "l", 1, 1), LARDER_OK);
	assert_int_equal(presence(&f, "k2"), LARDER_ABSENT);
	/* leases that have run out are no reason, also while they still stand in the table */
	fixture_advance(&f, NSEC_PER_SEC);
	assert_int_equal(put(&f, "m", 1, 4 * FIXTURE_PAGE), LARDER_OK);
	two_close(&f, &other);
}

static void resident__counts_what_is_written_and_what_is_read(void **state)
{
	struct fixture f = {};
	struct who a, other = {};
	struct engine_object *read;
	struct request q;

	two_open(&f, &a, &other);
	limit(&f, &a, LARDER_LIMIT_resident_bytes, 4 * FIXTURE_PAGE);
	request_init(&q, &f, LARDER_OP_PUT, "filling");
	request_value(&q, 1, 2 * FIXTURE_PAGE);
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(gauges(&f, &a)->resident_bytes, 2 * FIXTURE_PAGE);
	assert_int_equal(put(&f, "k", 1, 2 * FIXTURE_PAGE), LARDER_OK);
	assert_int_equal(get(&f, "k", &read), LARDER_OK);
	put_is_refused(&f, &a, LARDER_LIMIT_resident_bytes, 1);
	/* deleted, but its pages are still being read */
	assert_int_equal(delete(&f, "k", 0), LARDER_OK);
	put_is_refused(&f, &a, LARDER_LIMIT_resident_bytes, 1);
	engine_unref(f.r, read);
	assert_int_equal(put(&f, "k", 1, 2 * FIXTURE_PAGE), LARDER_OK);
	/* a writer that gives up gives back */
	engine_abort(f.r, &q.op);
	assert_int_equal(gauges(&f, &a)->resident_bytes, 2 * FIXTURE_PAGE);
	assert_int_equal(put(&f, "l", 1, 2 * FIXTURE_PAGE), LARDER_OK);
	assert_int_equal(counts(&f).evictions, 0);
	two_close(&f, &other);
}

static void resident__lower_limit_loses_nothing_at_once(void **state)
{
	struct fixture f = {};
	struct who a;
	uint64_t before;

	fixture_open(&f, 600);
	a = (struct who){ .tenant = f.tenant, .ns = f.ns };
	put_many(&f, "k", 500, 1);
	limit(&f, &a, LARDER_LIMIT_resident_bytes, 10 * FIXTURE_PAGE);
	for (uint32_t i = 0; i < 100; i++) {
		fixture_advance(&f, NSEC_PER_SEC);
		assert_null(engine_poll(f.r));
	}
	assert_int_equal(counts(&f).objects, 500);
	limit(&f, &a, LARDER_LIMIT_over_cap, LARDER_OVER_CAP_REJECT);
	put_is_refused(&f, &a, LARDER_LIMIT_resident_bytes, 1);
	assert_int_equal(counts(&f).objects, 500);
	limit(&f, &a, LARDER_LIMIT_over_cap, LARDER_OVER_CAP_EVICT_OWN);
	before = refused(&f, &a, LARDER_LIMIT_resident_bytes);
	/* hundreds have to go: it takes some turns, and is done */
	assert_int_equal(put(&f, "more", 1, 3 * FIXTURE_PAGE), LARDER_OK);
	assert_int_equal(counts(&f).objects, 8);
	assert_int_equal(gauges(&f, &a)->resident_bytes, 10 * FIXTURE_PAGE);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_resident_bytes), before);
	/* none again */
	limit(&f, &a, LARDER_LIMIT_resident_bytes, 0);
	put_many(&f, "n", 300, 1);
	assert_int_equal(counts(&f).objects, 308);
	fixture_close(&f);
}

static void one_turn_evicts_a_bounded_number(void **state)
{
	struct fixture f = {};
	struct who a;
	struct request q;
	uint32_t turns = 0;

	fixture_open(&f, 600);
	a = (struct who){ .tenant = f.tenant, .ns = f.ns };
	put_many(&f, "k", 500, 1);
	limit(&f, &a, LARDER_LIMIT_resident_bytes, 10 * FIXTURE_PAGE);
	request_init(&q, &f, LARDER_OP_PUT, "more");
	request_value(&q, 1, 1);
	assert_int_equal(engine_submit(f.r, &q.op), 1);
	for (uint64_t was = 500;; turns++) {
		uint64_t is = counts(&f).objects;

		assert_true(was - is <= 100);
		was = is;
		if (engine_poll(f.r))
			break;
	}
	assert_in_range(turns, 4, 20);
	assert_int_equal(q.op.status, LARDER_OK);
	engine_abort(f.r, &q.op);
	fixture_close(&f);
}

static void objects__at_the_limit_and_one_above(void **state)
{
	struct fixture f = {};
	struct who a, other = {};
	struct engine_object *read;
	struct request q;

	two_open(&f, &a, &other);
	limit(&f, &a, LARDER_LIMIT_objects, 3);
	limit(&f, &a, LARDER_LIMIT_over_cap, LARDER_OVER_CAP_REJECT);
	put_many(&f, "k", 2, 1);
	/* one that is being written is one */
	request_init(&q, &f, LARDER_OP_PUT, "filling");
	request_value(&q, 1, 1);
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	put_is_refused(&f, &a, LARDER_LIMIT_objects, 1);
	engine_abort(f.r, &q.op);
	assert_int_equal(put(&f, "k2", 2, FIXTURE_PAGE), LARDER_OK);
	put_is_refused(&f, &a, LARDER_LIMIT_objects, 1);
	/* one that was deleted is none, whoever still reads it */
	assert_int_equal(get(&f, "k1", &read), LARDER_OK);
	assert_int_equal(delete(&f, "k1", 0), LARDER_OK);
	assert_int_equal(put(&f, "k1", 1, FIXTURE_PAGE), LARDER_OK);
	engine_unref(f.r, read);
	put_is_refused(&f, &a, LARDER_LIMIT_objects, 1);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_objects), 3);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_resident_bytes), 0);

	limit(&f, &a, LARDER_LIMIT_over_cap, LARDER_OVER_CAP_EVICT_OWN);
	assert_int_equal(put(&f, "more", 1, 1), LARDER_OK);
	assert_int_equal(gauges(&f, &a)->objects, 3);
	assert_int_equal(counts(&f).evictions, 1);
	for (const char *const *key = (const char *const []){ "k0", "k1", "k2", "more", NULL };
	     *key; key++)
		(void)lease(&f, *key, 1, 1000);
	put_is_refused(&f, &a, LARDER_LIMIT_objects, 1);
	two_close(&f, &other);
}

static void namespaces__at_the_limit_and_one_above(void **state)
{
	struct fixture f = {};
	struct who a, other = {};
	uint32_t ns;

	two_open(&f, &a, &other);
	limit(&f, &a, LARDER_LIMIT_namespaces, 2);
	assert_int_equal(engine_namespace_open(f.engine, a.tenant, "x", 1, NULL, true, &ns, NULL),
			 LARDER_OK);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(engine_namespace_open(f.engine, a.tenant, "y", 1, NULL, true, &ns,
						       NULL), LARDER_QUOTA);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_namespaces), 3);
	/* those that are there can be opened, others' limits are their own */
	assert_int_equal(engine_namespace_open(f.engine, a.tenant, "x", 1, NULL, true, &ns, NULL),
			 LARDER_OK);
	assert_int_equal(engine_namespace_open(f.engine, a.tenant, "y", 1, NULL, false, &ns, NULL),
			 LARDER_NOT_FOUND);
	assert_int_equal(engine_namespace_open(f.engine, other.tenant, "y", 1, NULL, true, &ns,
					       NULL), LARDER_OK);
	limit(&f, &a, LARDER_LIMIT_namespaces, 3);
	assert_int_equal(engine_namespace_open(f.engine, a.tenant, "y", 1, NULL, true, &ns, NULL),
			 LARDER_OK);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_namespaces), 3);
	assert_int_equal(gauges(&f, &a)->namespaces, 3);
	two_close(&f, &other);
}

static void sizes_of_1_to_32__bytes_never_above_the_budget(void **state)
{
	static const char *const policies[] = { "fifo", "lru", "aseg" };

	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		struct fixture f = { .config.policy = policies[i], .config.shards = 16 };
		struct who a;
		struct prng p;
		const uint64_t cap = 200 * FIXTURE_PAGE;

		prng_seed(&p, 7);
		fixture_open(&f, 1000);
		a = (struct who){ .tenant = f.tenant, .ns = f.ns };
		limit(&f, &a, LARDER_LIMIT_resident_bytes, cap);
		for (uint32_t n = 0; n < 2000; n++) {
			char key[16];

			(void)snprintf(key, sizeof(key), "k%u", (uint32_t)prng_below(&p, 300));
			fixture_advance(&f, NSEC_PER_SEC);
			if (touch(&f, key) == LARDER_NOT_FOUND)
				assert_int_equal(put(&f, key, n, (1 + prng_below(&p, 32)) *
						     FIXTURE_PAGE), LARDER_OK);
			assert_true(gauges(&f, &a)->resident_bytes <= cap);
		}
		/* it is used, too: less than one value stays free */
		assert_true(gauges(&f, &a)->resident_bytes > cap - 64 * FIXTURE_PAGE);
		assert_int_equal(refused(&f, &a, LARDER_LIMIT_resident_bytes), 0);
		fixture_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resident__reject_is_said_at_once_and_counted),
		cmocka_unit_test(resident__evict_own_takes_the_oldest_of_its_own),
		cmocka_unit_test(resident__quota_when_leases_fill_the_cap),
		cmocka_unit_test(resident__counts_what_is_written_and_what_is_read),
		cmocka_unit_test(resident__lower_limit_loses_nothing_at_once),
		cmocka_unit_test(one_turn_evicts_a_bounded_number),
		cmocka_unit_test(objects__at_the_limit_and_one_above),
		cmocka_unit_test(namespaces__at_the_limit_and_one_above),
		cmocka_unit_test(sizes_of_1_to_32__bytes_never_above_the_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
