/* SPDX-License-Identifier: Apache-2.0 */
/* What all tenants share, and none may use up: leases, namespaces, what an owner lends. */
#include "limits.h"

#include "engine/engine_internal.h"

static uint32_t ns_create(struct fixture *f, const struct who *w, const char *name, int expect)
{
	uint32_t id = 0;

	assert_int_equal(engine_namespace_open(f->engine, w->tenant, name, (uint16_t)strlen(name),
					       NULL, true, &id, NULL), expect);
	return id;
}

/* @reader may read in the namespace of @owner from now on. */
static void share(struct fixture *f, const struct who *owner, const struct who *reader)
{
	struct engine_share s = { .name = "ns", .name_len = 2 };

	s.readers.bits[reader->tenant / 64] = 1ull << reader->tenant % 64;
	assert_int_equal(engine_set_shares(f->engine, owner->tenant, &s, 1), 0);
}

/* Leases prefix0 to prefix(n - 1) of @owner, for @reader; how many it got. */
static uint32_t lend(struct fixture *f, const struct who *owner, const struct who *reader,
		     const char *prefix, uint32_t n)
{
	const struct who foreign = { .tenant = reader->tenant, .ns = owner->ns };
	uint32_t got = 0;

	as(f, &foreign);
	for (uint32_t i = 0; i < n; i++) {
		char key[32];

		(void)snprintf(key, sizeof(key), "%s%u", prefix, i);
		got += lease(f, key, 7, 1000) == LARDER_LEASED;
	}
	as(f, owner);
	return got;
}

static void leases__one_tenant_gets_half_of_the_table(void **state)
{
	struct fixture f = {};
	struct who a = {}, b = {}, c = {};

	fixture_open(&f, 64);
	who_open(&f, "a", &a);
	who_open(&f, "b", &b);
	who_open(&f, "c", &c);
	limit(&f, &a, LARDER_LIMIT_leased_bytes, FIXTURE_PAGE);
	as(&f, &a);
	assert_int_equal(put(&f, "k", 1, FIXTURE_PAGE), LARDER_OK);
	for (uint32_t id = 1; id <= FIXTURE_LEASES / 2; id++)
		assert_int_equal(lease(&f, "k", id, 1000), LARDER_LEASED);
	for (uint32_t id = 1000; id < 1003; id++)
		assert_int_equal(lease(&f, "k", id, 1000), LARDER_PRESENT);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_leased_bytes), 3);
	/* the others' half is theirs */
	as(&f, &b);
	assert_int_equal(put(&f, "k", 1, FIXTURE_PAGE), LARDER_OK);
	for (uint32_t id = 1; id <= FIXTURE_LEASES / 2; id++)
		assert_int_equal(lease(&f, "k", id, 1000), LARDER_LEASED);
	assert_int_equal(refused(&f, &b, LARDER_LIMIT_leased_bytes), 0);
	/* the table is full: that is counted too */
	as(&f, &c);
	assert_int_equal(put(&f, "k", 1, FIXTURE_PAGE), LARDER_OK);
	assert_int_equal(lease(&f, "k", 1, 1000), LARDER_PRESENT);
	assert_int_equal(refused(&f, &c, LARDER_LIMIT_leased_bytes), 1);
	/* what ends counts no more */
	as(&f, &a);
	assert_int_equal(release(&f, "k", 3), LARDER_OK);
	assert_int_equal(lease(&f, "k", 1000, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "k", 1001, 1000), LARDER_PRESENT);
	fixture_restart(&f);
	assert_int_equal(f.engine->tenants[a.tenant].leases, FIXTURE_LEASES / 2);
	as(&f, &a);
	assert_int_equal(lease(&f, "k", 1001, 1000), LARDER_PRESENT);
	fixture_advance(&f, NSEC_PER_SEC);
	assert_int_equal(lease(&f, "k", 1001, 1000), LARDER_LEASED);
	fixture_close(&f);
}

static void namespaces__retired_ones_use_up_half_at_most(void **state)
{
	struct fixture f = {};
	struct who a = {}, b = {};

	fixture_open(&f, 64);		/* a directory of 16 */
	who_open(&f, "a", &a);
	who_open(&f, "b", &b);
	limit(&f, &a, LARDER_LIMIT_namespaces, 2);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(engine_namespace_retire(f.engine, a.tenant,
							 ns_create(&f, &a, "again", LARDER_OK)),
				 LARDER_OK);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_namespaces), 0);
	(void)ns_create(&f, &a, "again", LARDER_QUOTA);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_namespaces), 1);
	(void)ns_create(&f, &a, "ns", LARDER_OK);	/* it is there */
	(void)ns_create(&f, &b, "mine", LARDER_OK);
	fixture_restart(&f);
	(void)ns_create(&f, &a, "again", LARDER_OK);
	fixture_close(&f);
}

static void lent__the_owner_keeps_half_of_its_cap(void **state)
{
	struct fixture f = {};
	struct who a = {}, b = {}, c = {};

	fixture_open(&f, 64);
	who_open(&f, "a", &a);
	who_open(&f, "b", &b);
	who_open(&f, "c", &c);
	limit(&f, &a, LARDER_LIMIT_resident_bytes, 8 * FIXTURE_PAGE);
	share(&f, &a, &b);
	as(&f, &a);
	put_many(&f, "k", 8, 1);
	/* whatever the owner leases itself: it may let go before they do */
	assert_int_equal(lease(&f, "k1", 1, 1000), LARDER_LEASED);
	assert_int_equal(lend(&f, &a, &b, "k", 8), 4);
	assert_int_equal(f.engine->tenants[a.tenant].lent_pages, 4);
	assert_int_equal(refused(&f, &b, LARDER_LIMIT_leased_bytes), 4);
	assert_int_equal(refused(&f, &a, LARDER_LIMIT_leased_bytes), 0);
	assert_int_equal(release(&f, "k1", 1), LARDER_OK);
	/* what is lent may be leased again; and the owner is not bound by it */
	assert_int_equal(lend(&f, &a, &b, "k", 8), 4);
	assert_int_equal(lease(&f, "k5", 1, 1000), LARDER_LEASED);
	assert_int_equal(put(&f, "new", 1, 3 * FIXTURE_PAGE), LARDER_OK);
	fixture_restart(&f);
	assert_int_equal(f.engine->tenants[a.tenant].lent_pages, 4);
	assert_int_equal(f.engine->tenants[a.tenant].lent_objects, 4);
	/* an object that ends under its leases is lent no more */
	as(&f, &a);
	assert_int_equal(delete(&f, "k0", LARDER_F_FORCE), LARDER_OK);
	assert_int_equal(f.engine->tenants[a.tenant].lent_pages, 3);
	fixture_advance(&f, NSEC_PER_SEC);
	assert_null(engine_poll(f.r));
	assert_int_equal(f.engine->tenants[a.tenant].lent_pages, 0);
	assert_int_equal(f.engine->tenants[a.tenant].lent_objects, 0);
	fixture_close(&f);
}

static void lent__the_owner_keeps_half_of_its_objects(void **state)
{
	struct fixture f = {};
	struct who a = {}, b = {};

	fixture_open(&f, 64);
	who_open(&f, "a", &a);
	who_open(&f, "b", &b);
	limit(&f, &a, LARDER_LIMIT_objects, 6);
	share(&f, &a, &b);
	as(&f, &a);
	put_many(&f, "k", 6, 1);
	assert_int_equal(lend(&f, &a, &b, "k", 6), 3);
	put_many(&f, "new", 3, 1);
	/* without a cap it is half of what the node has for it */
	limit(&f, &a, LARDER_LIMIT_objects, 0);
	limit(&f, &b, LARDER_LIMIT_guarantee_bytes, 44 * FIXTURE_PAGE);
	put_many(&f, "m", 14, 1);
	assert_int_equal(lend(&f, &a, &b, "m", 14), 7);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leases__one_tenant_gets_half_of_the_table),
		cmocka_unit_test(namespaces__retired_ones_use_up_half_at_most),
		cmocka_unit_test(lent__the_owner_keeps_half_of_its_cap),
		cmocka_unit_test(lent__the_owner_keeps_half_of_its_objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
