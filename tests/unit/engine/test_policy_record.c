/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of keys that are not there, how old victims were, and admission. */
#include "engine/engine_internal.h"
#include "fixture.h"

static struct engine_why why(struct fixture *f, const char *key)
{
	struct engine_why w;

	assert_true(engine_why(f->engine, f->tenant, f->ns, key, (uint16_t)strlen(key), &w));
	return w;
}

static int put_begin(struct fixture *f, const char *key)
{
	struct request q;
	int status;

	request_init(&q, f, LARDER_OP_PUT_BEGIN, key);
	q.op.length = 100;
	status = request_run(f->r, &q);
	if (status == LARDER_OK)
		engine_abort(f->r, &q.op);
	return status;
}

static void why__tells_evicted_when_and_for_whom(void **state)
{
	struct fixture f = { .config.shards = 4 };
	struct engine_why w;
	uint64_t start;

	fixture_open(&f, 1);
	w = why(&f, "a");
	assert_int_equal(w.fate, ENGINE_FATE_UNKNOWN);
	assert_int_equal(w.entries, 0);
	assert_int_equal(w.since_ns, f.now_ns);
	assert_int_equal(put(&f, "a", 1, 10), LARDER_OK);
	assert_int_equal(why(&f, "a").fate, ENGINE_FATE_PRESENT);
	fixture_advance(&f, 7 * NSEC_PER_SEC);
	start = f.now_ns;
	assert_int_equal(put(&f, "b", 1, 10), LARDER_OK);
	fixture_advance(&f, NSEC_PER_SEC);
	w = why(&f, "a");
	assert_int_equal(w.fate, ENGINE_FATE_EVICTED);
	assert_int_equal(w.when_ns, start);
	assert_int_equal(w.age_ms, 7000);
	assert_int_equal(w.room_for, f.tenant);
	assert_int_equal(w.entries, 1);
	assert_int_equal(w.since_ns, start);
	/* back again, and out again: the last time counts */
	assert_int_equal(put(&f, "a", 1, 10), LARDER_OK);
	assert_int_equal(why(&f, "a").fate, ENGINE_FATE_PRESENT);
	fixture_advance(&f, 100 * NSEC_PER_SEC);
	assert_int_equal(put(&f, "c", 1, 10), LARDER_OK);
	w = why(&f, "a");
	assert_int_equal(w.fate, ENGINE_FATE_EVICTED);
	assert_int_equal(w.age_ms, 100000);
	assert_int_equal(w.entries, 3);
	/* deleted is no eviction */
	assert_int_equal(delete(&f, "c", 0), LARDER_OK);
	assert_int_equal(why(&f, "c").fate, ENGINE_FATE_UNKNOWN);
	fixture_close(&f);
}

static void why__tells_ahead_of_need_and_refused(void **state)
{
	struct fixture f = { .config.shards = 1, .config.reserve_pages = 1 };
	struct engine_why w;

	fixture_open(&f, 3);
	assert_int_equal(put(&f, "a", 1, 10), LARDER_OK);
	fixture_advance(&f, 1);
	assert_int_equal(put(&f, "b", 1, 10), LARDER_OK);
	fixture_advance(&f, 1);
	assert_int_equal(put(&f, "c", 1, 10), LARDER_OK);
	assert_null(engine_poll(f.r));
	w = why(&f, "a");
	assert_int_equal(w.fate, ENGINE_FATE_EVICTED);
	assert_int_equal(w.room_for, UINT32_MAX);
	assert_int_equal(put(&f, "d", 1, 10), LARDER_OK);
	assert_int_equal(lease(&f, "b", 1, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "c", 1, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "d", 1, 1000), LARDER_LEASED);
	assert_int_equal(put(&f, "e", 1, 10), LARDER_NO_SPACE);
	w = why(&f, "e");
	assert_int_equal(w.fate, ENGINE_FATE_REFUSED);
	assert_int_equal(w.status, LARDER_NO_SPACE);
	assert_int_equal(w.when_ns, f.now_ns);
	fixture_close(&f);
}

static void why__another_tenants_key_is_no_key(void **state)
{
	struct fixture f = {};
	struct engine_why w;
	uint32_t other;

	fixture_open(&f, 4);
	assert_int_equal(engine_tenant_add(f.engine, "other", &other), 0);
	assert_int_equal(put(&f, "a", 1, 10), LARDER_OK);
	assert_false(engine_why(f.engine, other, f.ns, "a", 1, &w));
	assert_false(engine_why(f.engine, f.tenant, f.ns + 1, "a", 1, &w));
	assert_false(engine_why(f.engine, f.tenant, f.ns, "", 0, &w));
	fixture_close(&f);
}

static void why__the_record_is_bounded(void **state)
{
	struct fixture f = { .config.shards = 1, .config.reactors = 64 };
	struct engine_why w;
	char key[16];

	fixture_open(&f, 1);
	for (uint32_t i = 0; i < 1500; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		fixture_advance(&f, 1);
		assert_int_equal(put(&f, key, i, 1), LARDER_OK);
	}
	w = why(&f, "k0");
	assert_int_equal(w.fate, ENGINE_FATE_UNKNOWN);
	assert_int_equal(w.entries, 1024);
	assert_int_equal(why(&f, "k474").fate, ENGINE_FATE_UNKNOWN);
	assert_int_equal(why(&f, "k475").fate, ENGINE_FATE_EVICTED);
	assert_int_equal(why(&f, "k1498").fate, ENGINE_FATE_EVICTED);
	assert_int_equal(why(&f, "k1499").fate, ENGINE_FATE_PRESENT);
	fixture_close(&f);
}

static void evicted_age__falls_into_its_bucket(void **state)
{
	static const struct { uint64_t s; uint32_t bucket; } cases[] = {
		{ 0, 0 }, { 1, 1 }, { 3, 1 }, { 4, 2 }, { 64, 4 }, { 65535, 8 }, { 65536, 9 },
		{ 10000000, 9 },
	};
	struct fixture f = { .config.shards = 1 };

	fixture_open(&f, 1);
	assert_int_equal(put(&f, "first", 1, 1), LARDER_OK);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct larder_usage *u = ledger_usage(f.ledger, 0, 0);
		uint64_t before = u->evicted_age[cases[i].bucket];
		char key[16];

		(void)snprintf(key, sizeof(key), "k%zu", i);
		fixture_advance(&f, cases[i].s * NSEC_PER_SEC);
		assert_int_equal(put(&f, key, 1, 1), LARDER_OK);
		assert_int_equal(u->evicted_age[cases[i].bucket], before + 1);
	}
	fixture_close(&f);
}

/* --- admission ---------------------------------------------------------------------------- */

static void admission__second_touch_stores_the_second_put(void **state)
{
	struct fixture f = { .config.policy = "aseg", .config.shards = 4 };
	struct engine_why w;

	fixture_open(&f, 8);
	assert_int_equal(engine_namespace_admission(f.engine, f.ns), ENGINE_ADMIT_ALL);
	assert_int_equal(put(&f, "before", 1, 10), LARDER_OK);
	assert_int_equal(engine_namespace_set_admission(f.engine, f.tenant, f.ns,
							ENGINE_ADMIT_SECOND_TOUCH), LARDER_OK);
	assert_int_equal(presence(&f, "a"), LARDER_ABSENT);	/* asking is no touch */
	assert_int_equal(put(&f, "a", 1, 10), LARDER_QUOTA);
	assert_int_equal(presence(&f, "a"), LARDER_ABSENT);
	w = why(&f, "a");
	assert_int_equal(w.fate, ENGINE_FATE_REFUSED);
	assert_int_equal(w.status, LARDER_QUOTA);
	assert_int_equal(ledger_usage(f.ledger, 0, 0)->put_not_admitted, 1);
	assert_int_equal(counts(&f).objects, 1);
	assert_int_equal(put(&f, "a", 1, 10), LARDER_OK);
	assert_int_equal(put(&f, "a", 1, 10), LARDER_EXISTS_SAME);
	assert_int_equal(put_begin(&f, "b"), LARDER_QUOTA);
	assert_int_equal(put_begin(&f, "b"), LARDER_OK);
	/* what is there is there */
	assert_int_equal(put(&f, "before", 1, 10), LARDER_EXISTS_SAME);
	assert_int_equal(put(&f, "before", 2, 10), LARDER_CONFLICT);
	/* the choice is kept, what was remembered is not */
	fixture_restart(&f);
	assert_int_equal(engine_namespace_admission(f.engine, f.ns), ENGINE_ADMIT_SECOND_TOUCH);
	assert_int_equal(put(&f, "b", 1, 10), LARDER_QUOTA);
	assert_int_equal(engine_namespace_set_admission(f.engine, f.tenant, f.ns,
							ENGINE_ADMIT_ALL), LARDER_OK);
	assert_int_equal(put(&f, "c", 1, 10), LARDER_OK);
	fixture_close(&f);
}

/* Evicted is seen before: it comes back at its first PUT. */
static void admission__takes_back_what_was_evicted(void **state)
{
	struct fixture f = { .config.policy = "aseg", .config.shards = 1 };

	fixture_open(&f, 2);
	assert_int_equal(put(&f, "a", 1, 10), LARDER_OK);
	fixture_advance(&f, 1);
	assert_int_equal(put(&f, "b", 1, 10), LARDER_OK);
	assert_int_equal(put(&f, "c", 1, 10), LARDER_OK);
	assert_int_equal(presence(&f, "a"), LARDER_ABSENT);
	assert_int_equal(engine_namespace_set_admission(f.engine, f.tenant, f.ns,
							ENGINE_ADMIT_SECOND_TOUCH), LARDER_OK);
	assert_int_equal(put(&f, "a", 1, 10), LARDER_OK);
	/* refusals age as evictions do: five times the memory later it is forgotten */
	assert_int_equal(put(&f, "d", 1, 10), LARDER_QUOTA);
	for (uint32_t i = 0; i < 10; i++) {
		char key[16];

		(void)snprintf(key, sizeof(key), "other%u", i);
		assert_int_equal(put(&f, key, 1, 10), LARDER_QUOTA);
	}
	assert_int_equal(put(&f, "d", 1, 10), LARDER_QUOTA);
	fixture_close(&f);
}

static void admission__needs_a_policy_that_remembers(void **state)
{
	struct fixture f = { .config.policy = "aseg" };

	fixture_open(&f, 8);
	assert_int_equal(engine_namespace_set_admission(f.engine, f.tenant + 1, f.ns,
							ENGINE_ADMIT_ALL), LARDER_NOT_FOUND);
	assert_int_equal(engine_namespace_set_admission(f.engine, f.tenant, f.ns,
							ENGINE_ADMIT_SECOND_TOUCH), LARDER_OK);
	f.config.policy = "lru";
	fixture_restart(&f);
	/* it can't be had: all are let in, and the wish is kept */
	assert_int_equal(put(&f, "a", 1, 10), LARDER_OK);
	assert_int_equal(engine_namespace_set_admission(f.engine, f.tenant, f.ns,
							ENGINE_ADMIT_SECOND_TOUCH),
			 LARDER_UNSUPPORTED);
	f.config.policy = "aseg";
	fixture_restart(&f);
	assert_int_equal(put(&f, "b", 1, 10), LARDER_QUOTA);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(why__tells_evicted_when_and_for_whom),
		cmocka_unit_test(why__tells_ahead_of_need_and_refused),
		cmocka_unit_test(why__another_tenants_key_is_no_key),
		cmocka_unit_test(why__the_record_is_bounded),
		cmocka_unit_test(evicted_age__falls_into_its_bucket),
		cmocka_unit_test(admission__second_touch_stores_the_second_put),
		cmocka_unit_test(admission__takes_back_what_was_evicted),
		cmocka_unit_test(admission__needs_a_policy_that_remembers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
