/* SPDX-License-Identifier: Apache-2.0 */
/* leased_bytes: who pays for a lease, and what is said over the budget. */
#include "limits.h"

#include "engine/engine_internal.h"

/* As a tenant that may read the namespace of another would. */
static enum engine_leased lease_foreign(struct fixture *f, const struct who *reader,
					const char *key, uint64_t id, uint32_t ms)
{
	struct engine *e = f->engine;
	uint64_t now = clock_now(&f->clock);
	struct engine_object *o;
	enum engine_leased rc;
	uint32_t shard;

	assert_int_equal(get(f, key, &o), LARDER_OK);
	assert_true(engine_lock_object(e, engine_slot(e, o), RECORD_NONE, &shard));
	rc = engine_lease_add(e, engine_slot(e, o), reader->tenant, id, now + ms * NSEC_PER_MSEC,
			      now);
	engine_unlock(e, shard);
	engine_unref(f->r, o);
	return rc;
}

static uint64_t leased(const struct fixture *f, const struct who *w)
{
	uint64_t bytes = f->engine->tenants[w->tenant].leased_bytes;

	assert_int_equal(gauges(f, w)->leased_bytes, bytes);
	return bytes;
}

static void own_open(struct fixture *f, struct who *a)
{
	fixture_open(f, 64);
	*a = (struct who){ .tenant = f->tenant, .ns = f->ns };
	put_many(f, "k", 4, 1);
}

static void leased_bytes__at_the_limit_and_one_above(void **state)
{
	struct fixture f = {};
	struct who a;

	own_open(&f, &a);
	assert_int_equal(put(&f, "one", 1, 1), LARDER_OK);
	limit(&f, &a, LARDER_LIMIT_leased_bytes, 2 * FIXTURE_PAGE);
	assert_int_equal(lease(&f, "one", 1, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "k0", 1, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "k1", 1, 1000), LARDER_PRESENT);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_leased_bytes), 1);
	assert_int_equal(leased(&f, &a), FIXTURE_PAGE + 1);
	/* what is paid for may be leased again, and for longer */
	assert_int_equal(lease(&f, "k0", 2, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "k0", 1, 2000), LARDER_LEASED);
	assert_int_equal(leased(&f, &a), FIXTURE_PAGE + 1);
	assert_int_equal(release(&f, "k0", 1), LARDER_OK);
	assert_int_equal(leased(&f, &a), FIXTURE_PAGE + 1);
	assert_int_equal(release(&f, "one", 1), LARDER_OK);
	assert_int_equal(lease(&f, "k1", 1, 1000), LARDER_LEASED);
	assert_int_equal(leased(&f, &a), 2 * FIXTURE_PAGE);
	assert_int_equal(lease(&f, "one", 1, 1000), LARDER_PRESENT);
	/* a lower limit ends none, and grants none */
	limit(&f, &a, LARDER_LIMIT_leased_bytes, 1);
	assert_int_equal(counts(&f).leases, 2);
	assert_int_equal(lease(&f, "k2", 1, 1000), LARDER_PRESENT);
	assert_int_equal(release(&f, NULL, 1), LARDER_OK);
	assert_int_equal(release(&f, NULL, 2), LARDER_OK);
	assert_int_equal(lease(&f, "k2", 1, 1000), LARDER_PRESENT);
	assert_int_equal(lease(&f, "one", 1, 1000), LARDER_LEASED);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_leased_bytes), 4);
	fixture_close(&f);
}

static void batch__says_quota_key_by_key(void **state)
{
	struct fixture f = {};
	struct who a;
	struct request q;
	struct larder_op_key keys[] = {
		{ .key = "k0", .key_len = 2 }, { .key = "k1", .key_len = 2 },
		{ .key = "no", .key_len = 2 }, { .key = "k2", .key_len = 2 },
		{ .key = "k3", .key_len = 2 },
	};

	own_open(&f, &a);
	limit(&f, &a, LARDER_LIMIT_leased_bytes, 2 * FIXTURE_PAGE);
	request_init(&q, &f, LARDER_OP_EXISTS, "");
	q.op.keys = keys;
	q.op.n_keys = ARRAY_SIZE(keys);
	q.op.flags = LARDER_F_LEASE;
	q.op.lease_id = 1;
	q.op.lease_ms = 1000;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(keys[0].presence, LARDER_LEASED);
	assert_int_equal(keys[1].presence, LARDER_LEASED);
	assert_int_equal(keys[2].presence, LARDER_ABSENT);
	for (unsigned i = 3; i < 5; i++) {
		assert_int_equal(keys[i].presence, LARDER_PRESENT);
		assert_int_equal(keys[i].status, LARDER_QUOTA);
	}
	assert_int_equal(q.op.leading_run, 2);
	assert_int_equal(q.op.limit, LARDER_LIMIT_leased_bytes);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_leased_bytes), 2);
	fixture_close(&f);
}

static void run_out__is_no_reason_to_refuse(void **state)
{
	struct fixture f = {};
	struct who a;

	own_open(&f, &a);
	limit(&f, &a, LARDER_LIMIT_leased_bytes, FIXTURE_PAGE);
	assert_int_equal(lease(&f, "k0", 1, 1000), LARDER_LEASED);
	fixture_advance(&f, NSEC_PER_SEC - 1);
	assert_int_equal(lease(&f, "k1", 1, 1000), LARDER_PRESENT);
	fixture_advance(&f, 1);
	assert_int_equal(lease(&f, "k1", 1, 1000), LARDER_LEASED);
	assert_int_equal(leased(&f, &a), FIXTURE_PAGE);
	fixture_close(&f);
}

static void foreign__pays_for_each_lease(void **state)
{
	struct fixture f = {};
	struct who a, reader = {};

	own_open(&f, &a);
	who_open(&f, "reader", &reader);
	limit(&f, &a, LARDER_LIMIT_leased_bytes, FIXTURE_PAGE);
	limit(&f, &reader, LARDER_LIMIT_leased_bytes, 3 * FIXTURE_PAGE);
	assert_int_equal(lease_foreign(&f, &reader, "k0", 1, 1000), ENGINE_LEASED);
	assert_int_equal(lease_foreign(&f, &reader, "k0", 2, 1000), ENGINE_LEASED);
	assert_int_equal(lease_foreign(&f, &reader, "k0", 2, 2000), ENGINE_LEASED);
	assert_int_equal(leased(&f, &reader), 2 * FIXTURE_PAGE);
	assert_int_equal(leased(&f, &a), 0);
	/* the owner's first is the owner's */
	assert_int_equal(lease(&f, "k0", 1, 1000), LARDER_LEASED);
	assert_int_equal(leased(&f, &a), FIXTURE_PAGE);
	assert_int_equal(lease(&f, "k1", 1, 1000), LARDER_PRESENT);
	assert_int_equal(lease_foreign(&f, &reader, "k1", 1, 1000), ENGINE_LEASED);
	assert_int_equal(lease_foreign(&f, &reader, "k2", 1, 1000), ENGINE_LEASE_OVER);
	assert_int_equal(f.engine->tenants[a.tenant].leased_pages, 2);
	assert_int_equal(release(&f, "k0", 1), LARDER_OK);
	assert_int_equal(leased(&f, &a), 0);
	assert_int_equal(delete(&f, "k0", 0), LARDER_BUSY);
	/* by force: what holds nothing counts nothing, and its end gives nothing back twice */
	assert_int_equal(delete(&f, "k0", LARDER_F_FORCE), LARDER_OK);
	assert_int_equal(leased(&f, &reader), FIXTURE_PAGE);
	assert_int_equal(f.engine->tenants[a.tenant].leased_pages, 1);
	assert_int_equal(counts(&f).leases, 3);
	fixture_advance(&f, 5 * NSEC_PER_SEC);
	assert_null(engine_poll(f.r));
	assert_int_equal(counts(&f).leases, 0);
	assert_int_equal(leased(&f, &reader), 0);
	assert_int_equal(f.engine->tenants[a.tenant].leased_pages, 0);
	fixture_close(&f);
}

static void restart__counts_again(void **state)
{
	struct fixture f = {};
	struct who a, reader = {};

	own_open(&f, &a);
	who_open(&f, "reader", &reader);
	assert_int_equal(lease(&f, "k0", 1, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "k0", 2, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "k1", 2, 1000), LARDER_LEASED);
	assert_int_equal(lease_foreign(&f, &reader, "k0", 1, 1000), ENGINE_LEASED);
	assert_int_equal(lease_foreign(&f, &reader, "k0", 2, 1000), ENGINE_LEASED);
	fixture_restart(&f);
	assert_int_equal(leased(&f, &a), 2 * FIXTURE_PAGE);
	assert_int_equal(leased(&f, &reader), 2 * FIXTURE_PAGE);
	assert_int_equal(f.engine->tenants[a.tenant].leased_pages, 2);
	assert_int_equal(f.engine->tenants[a.tenant].objects, 4);
	assert_int_equal(gauges(&f, &a)->resident_bytes, 4 * FIXTURE_PAGE);
	limit(&f, &a, LARDER_LIMIT_leased_bytes, 2 * FIXTURE_PAGE);
	limit(&f, &a, LARDER_LIMIT_objects, 4);
	limit(&f, &a, LARDER_LIMIT_over_cap, LARDER_OVER_CAP_REJECT);
	put_is_refused(&f, &a, LARDER_LIMIT_objects, 1);
	assert_int_equal(lease(&f, "k2", 1, 1000), LARDER_PRESENT);
	assert_int_equal(release(&f, NULL, 2), LARDER_OK);
	assert_int_equal(leased(&f, &a), FIXTURE_PAGE);
	assert_int_equal(lease(&f, "k2", 1, 1000), LARDER_LEASED);
	fixture_advance(&f, 5 * NSEC_PER_SEC);
	assert_null(engine_poll(f.r));
	assert_int_equal(leased(&f, &a), 0);
	assert_int_equal(leased(&f, &reader), 0);
	fixture_close(&f);
}

static void guarantees__are_out_of_reach_for_leases(void **state)
{
	struct fixture f = {};
	struct who a, other = {}, third = {};

	fixture_open(&f, 16);
	a = (struct who){ .tenant = f.tenant, .ns = f.ns };
	who_open(&f, "other", &other);
	who_open(&f, "third", &third);
	limit(&f, &other, LARDER_LIMIT_guarantee_bytes, 10 * FIXTURE_PAGE);
	put_many(&f, "k", 8, 1);
	as(&f, &third);
	put_many(&f, "t", 8, 1);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(lease(&f, (const char *const []){ "t0", "t1", "t2", "t3" }[i], 1,
				       1000), LARDER_LEASED);
	as(&f, &a);
	assert_int_equal(lease(&f, "k0", 1, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "k1", 1, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "k2", 1, 1000), LARDER_PRESENT);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_leased_bytes), 1);
	assert_false(engine_pinned_take(f.engine, a.tenant, 1));
	/* a second lease of what is held takes no more */
	assert_int_equal(lease(&f, "k1", 2, 1000), LARDER_LEASED);
	/* so the guarantee can be had, all of it, and leased */
	as(&f, &other);
	fixture_advance(&f, 1);
	put_many(&f, "o", 10, 1);
	assert_int_equal(present_of(&f, "o", 10), 10);
	for (uint32_t i = 0; i < 10; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "o%u", i);
		assert_int_equal(lease(&f, key, 1, 1000), LARDER_LEASED);
	}
	assert_int_equal(put(&f, "o10", 1, 1), LARDER_NO_SPACE);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leased_bytes__at_the_limit_and_one_above),
		cmocka_unit_test(batch__says_quota_key_by_key),
		cmocka_unit_test(run_out__is_no_reason_to_refuse),
		cmocka_unit_test(foreign__pays_for_each_lease),
		cmocka_unit_test(restart__counts_again),
		cmocka_unit_test(guarantees__are_out_of_reach_for_leases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
