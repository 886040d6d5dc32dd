/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets of what can't be evicted: pins and leases, and the guarantees of others beside them. */
#include "fixture.h"

#include "engine/engine_internal.h"

static void limit(struct fixture *f, uint32_t tenant, enum larder_limit which, uint64_t value)
{
	struct larder_limits l = {};

	l.value[which] = value;
	engine_tenant_set_limits(f->engine, tenant, &l);
}

static void pinned_bytes__at_the_limit_and_one_above(void **state)
{
	struct fixture f = {};
	uint64_t *gauge;

	fixture_open(&f, 16);
	gauge = &f.ledger->gauges[0].pinned_bytes;
	limit(&f, f.tenant, LARDER_LIMIT_pinned_bytes, 1000);
	assert_true(engine_pinned_take(f.engine, f.tenant, 999));
	assert_false(engine_pinned_take(f.engine, f.tenant, 2));
	assert_true(engine_pinned_take(f.engine, f.tenant, 1));
	assert_false(engine_pinned_take(f.engine, f.tenant, 1));
	assert_int_equal(*gauge, 1000);
	/* a lower limit takes nothing away, but gives nothing new until it is below */
	limit(&f, f.tenant, LARDER_LIMIT_pinned_bytes, 500);
	assert_int_equal(*gauge, 1000);
	engine_pinned_give(f.engine, f.tenant, 999);
	assert_false(engine_pinned_take(f.engine, f.tenant, 500));
	assert_true(engine_pinned_take(f.engine, f.tenant, 499));
	assert_int_equal(*gauge, 500);
	engine_pinned_give(f.engine, f.tenant, 499);
	engine_pinned_give(f.engine, f.tenant, 1);
	assert_int_equal(*gauge, 0);
	fixture_close(&f);
}

static void pins__leave_the_guarantees_of_others_their_place(void **state)
{
	struct fixture f = {};
	struct larder_limits effective;
	uint32_t other, third;

	fixture_open(&f, 16);
	assert_int_equal(engine_tenant_add(f.engine, "other", &other), 0);
	assert_int_equal(engine_tenant_add(f.engine, "third", &third), 0);
	limit(&f, other, LARDER_LIMIT_guarantee_bytes, 10 * FIXTURE_PAGE - 1);
	engine_tenant_effective(f.engine, f.tenant, &effective);
	assert_int_equal(effective.value[LARDER_LIMIT_pinned_bytes], 6 * FIXTURE_PAGE);
	assert_int_equal(effective.value[LARDER_LIMIT_leased_bytes], 6 * FIXTURE_PAGE);
	assert_int_equal(effective.value[LARDER_LIMIT_resident_bytes], 16 * FIXTURE_PAGE);
	/* whole pages count: one byte holds one */
	assert_true(engine_pinned_take(f.engine, f.tenant, 3 * FIXTURE_PAGE + 1));
	assert_false(engine_pinned_take(f.engine, f.tenant, 2 * FIXTURE_PAGE + 1));
	/* who is refused pays nothing of its own budget */
	assert_int_equal(f.engine->tenants[f.tenant].pinned_bytes, 3 * FIXTURE_PAGE + 1);
	assert_int_equal(f.engine->tenants[f.tenant].pinned_pages, 4);
	/* together, not each for itself */
	assert_true(engine_pinned_take(f.engine, third, 2 * FIXTURE_PAGE));
	assert_false(engine_pinned_take(f.engine, third, 1));
	assert_false(engine_pinned_take(f.engine, f.tenant, 1));
	/* within its own guarantee a tenant always may */
	assert_true(engine_pinned_take(f.engine, other, 10 * FIXTURE_PAGE));
	/* and where nobody else has one there is nothing to leave room for */
	assert_true(engine_pinned_take(f.engine, other, 1));
	engine_pinned_give(f.engine, other, 1);
	engine_pinned_give(f.engine, other, 10 * FIXTURE_PAGE);
	engine_pinned_give(f.engine, third, 2 * FIXTURE_PAGE);
	engine_pinned_give(f.engine, f.tenant, 3 * FIXTURE_PAGE + 1);
	assert_int_equal(f.ledger->gauges[0].pinned_bytes, 0);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pinned_bytes__at_the_limit_and_one_above),
		cmocka_unit_test(pins__leave_the_guarantees_of_others_their_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
