/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits as the control thread sets and reads them: what may be set, all or nothing, what is in
 * force, and that the ledger tells both. What reactors do with them: test_rates.c.
 */
#include "limit_speak.h"

#define ARENA (4096ull * RIG_PAGE)

static uint64_t in_force(struct rig *r, const char *tenant, enum larder_limit limit)
{
	struct larder_limits l;

	assert_int_equal(larder_node_get_limits(r->node, tenant, NULL, &l), 0);
	return l.value[limit];
}

/* Maps what everyone else may map. */
static const struct larder_ledger_header *ledger_map(struct rig *r, size_t *ret_size)
{
	_cleanup_close_ int fd = larder_node_ledger_fd(r->node);
	off_t size = lseek(fd, 0, SEEK_END);
	void *map = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	*ret_size = (size_t)size;
	return map;
}

static uint64_t ledger_limit(const struct larder_ledger_header *h, enum larder_ledger_section s,
			     uint32_t slot, enum larder_limit limit)
{
	const uint64_t *v = (const uint64_t *)((const char *)h + h->section[s].offset);

	return v[slot * LARDER_LEDGER_LIMITS + limit];
}

static void limits__are_given_back_as_set_and_as_in_force(void **state)
{
	struct rig *r = rig_start();
	struct larder_tenant_limits l = { .tenant = "demo" };
	struct larder_limits set, effective;

	for (unsigned i = 0; i < LARDER_LIMITS; i++)
		l.limits.value[i] = i == LARDER_LIMIT_over_cap ? 1 : 7 + i;
	l.limits.value[LARDER_LIMIT_guarantee_bytes] = 3;
	assert_int_equal(larder_node_set_limits(r->node, &l, 1, NULL), 0);
	assert_int_equal(larder_node_get_limits(r->node, "demo", &set, &effective), 0);
	assert_memory_equal(&set, &l.limits, sizeof(set));
	assert_memory_equal(&effective, &l.limits, sizeof(effective));
	assert_int_equal(larder_node_get_limits(r->node, "nobody", &set, &effective), -ENOENT);
	assert_int_equal(larder_node_get_limits(r->node, "other", NULL, NULL), 0);
	rig_stop(r);
}

static void limits__in_force_are_bounded_by_the_node(void **state)
{
	struct rig *r = rig_start();

	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_resident_bytes), ARENA);
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_leased_bytes), ARENA);
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_weight), LARDER_WEIGHT_DEFAULT);
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_connections), r->config.max_connections);
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_regions),
			 (uint64_t)r->config.max_connections * r->config.max_regions);
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_in_flight_fetch),
			 (uint64_t)r->config.max_connections * r->config.credits);
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_ops_per_s), 0);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_resident_bytes, UINT64_MAX), 0);
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_resident_bytes), ARENA);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_connections, 2), 0);
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_in_flight_write), 2 * r->config.credits);
	/* setting is of all limits: what is not named is none again */
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_resident_bytes), ARENA);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_weight, LARDER_WEIGHT_MAX), 0);
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_connections), r->config.max_connections);
	rig_stop(r);
}

static void guarantees__fit_the_node_together(void **state)
{
	struct rig *r = rig_start();
	struct larder_tenant_limits l[2] = { { .tenant = "demo" }, { .tenant = "other" } };
	size_t bad = 99;
	uint32_t lines = r->lines;

	l[0].limits.value[LARDER_LIMIT_guarantee_bytes] = ARENA / 2;
	l[1].limits.value[LARDER_LIMIT_guarantee_bytes] = ARENA / 2 + 1;
	assert_int_equal(larder_node_set_limits(r->node, l, 2, &bad), -ENOSPC);
	assert_int_equal(bad, 1);
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_guarantee_bytes), 0);
	assert_int_equal(r->lines, lines + 1);
	assert_non_null(strstr(r->last_line, "other"));
	l[1].limits.value[LARDER_LIMIT_guarantee_bytes] = ARENA / 2;
	assert_int_equal(larder_node_set_limits(r->node, l, 2, &bad), 0);
	/* all is guaranteed: neither can hold more fast than its own half */
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_leased_bytes), ARENA / 2);
	assert_int_equal(in_force(r, "other", LARDER_LIMIT_pinned_bytes), ARENA / 2);
	assert_int_equal(in_force(r, "demo", LARDER_LIMIT_resident_bytes), ARENA);
	/* one alone is measured against what the other keeps */
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_guarantee_bytes, ARENA / 2 + 1), -ENOSPC);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_guarantee_bytes, UINT64_MAX), -ENOSPC);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_guarantee_bytes, 1), 0);
	assert_int_equal(in_force(r, "other", LARDER_LIMIT_leased_bytes), ARENA - RIG_PAGE);
	/* who is removed guarantees nothing any more */
	assert_int_equal(larder_node_tenant_remove(r->node, "other"), 0);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_guarantee_bytes, ARENA), 0);
	assert_int_equal(set_one(r, "other", LARDER_LIMIT_guarantee_bytes, 0), -ENOENT);
	rig_stop(r);
}

static void limits__are_all_taken_or_none(void **state)
{
	struct rig *r = rig_start();
	struct larder_tenant_limits l[3] = { { .tenant = "demo" }, { .tenant = "_view" },
					     { .tenant = "other" } };
	const struct {
		const char *tenant;
		unsigned limit;
		uint64_t value;
		int expected;
	} bad[] = {
		{ "nobody", LARDER_LIMIT_objects, 1, -ENOENT },
		{ "demo", LARDER_LIMIT_objects, 1, -EINVAL },		/* twice */
		{ "other", LARDER_LIMIT_weight, LARDER_WEIGHT_MAX + 1, -EINVAL },
		{ "other", LARDER_LIMIT_over_cap, 2, -EINVAL },
		{ "other", LARDER_LIMITS, 1, -EINVAL },
		{ "other", LARDER_LIMITS_MAX - 1, 1, -EINVAL },
		{ "other", LARDER_LIMIT_guarantee_bytes, 5001, -EINVAL }, /* over resident_bytes */
	};
	size_t at;

	l[0].limits.value[LARDER_LIMIT_objects] = 5;
	l[1].limits.value[LARDER_LIMIT_ops_per_s] = 5;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		uint32_t lines = r->lines;

		l[2] = (struct larder_tenant_limits){ .tenant = bad[i].tenant };
		l[2].limits.value[LARDER_LIMIT_resident_bytes] = 5000;
		l[2].limits.value[bad[i].limit] = bad[i].value;
		assert_int_equal(larder_node_set_limits(r->node, l, 3, &at), bad[i].expected);
		assert_int_equal(at, 2);
		assert_int_equal(r->lines, lines + 1);
		assert_int_equal(in_force(r, "_view", LARDER_LIMIT_ops_per_s), 100000);
		assert_int_equal(in_force(r, "other", LARDER_LIMIT_resident_bytes), ARENA);
	}
	assert_int_equal(larder_node_set_limits(r->node, l, 2, NULL), 0);
	assert_int_equal(in_force(r, "_view", LARDER_LIMIT_ops_per_s), 5);
	assert_int_equal(in_force(r, "_view", LARDER_LIMIT_out_bytes_per_s), 0);
	assert_int_equal(set_one(r, "_view", LARDER_LIMIT_pinned_bytes, 1), -EINVAL);
	rig_stop(r);
}

static void ledger__tells_limits_as_set_and_in_force(void **state)
{
	struct rig *r = rig_start();
	size_t size;
	const struct larder_ledger_header *h = ledger_map(r, &size);

	/* demo was added first, so its slot is 0 */
	assert_int_equal(ledger_limit(h, LARDER_SECTION_LIMITS, 0, LARDER_LIMIT_weight), 0);
	assert_int_equal(ledger_limit(h, LARDER_SECTION_EFFECTIVE, 0, LARDER_LIMIT_weight),
			 LARDER_WEIGHT_DEFAULT);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_guarantee_bytes, 4096), 0);
	assert_int_equal(ledger_limit(h, LARDER_SECTION_LIMITS, 0, LARDER_LIMIT_guarantee_bytes),
			 4096);
	assert_int_equal(ledger_limit(h, LARDER_SECTION_EFFECTIVE, 1, LARDER_LIMIT_leased_bytes),
			 ARENA - 4096);
	assert_int_not_equal(ledger_limit(h, LARDER_SECTION_LIMITS, LARDER_LEDGER_VIEW_TENANT,
					  LARDER_LIMIT_ops_per_s), 0);
	assert_int_equal(munmap((void *)h, size), 0);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits__are_given_back_as_set_and_as_in_force),
		cmocka_unit_test(limits__in_force_are_bounded_by_the_node),
		cmocka_unit_test(guarantees__fit_the_node_together),
		cmocka_unit_test(limits__are_all_taken_or_none),
		cmocka_unit_test(ledger__tells_limits_as_set_and_in_force),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
