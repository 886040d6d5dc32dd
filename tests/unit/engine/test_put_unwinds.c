/* SPDX-License-Identifier: Apache-2.0 */
/* A PUT that fails half-way gives back what it had taken. */
#include "limits.h"

#include "engine/engine_internal.h"

/* Takes record slots until @left are free; they are given back with slots_give. */
static uint32_t slots_take(struct fixture *f, uint32_t *slots, uint32_t left)
{
	struct records *records = engine_records(f->engine);
	uint32_t n = 0;

	while (records_slots_free(records) > left) {
		slots[n] = records_slot_take(records);
		assert_int_not_equal(slots[n++], RECORD_NONE);
	}
	return n;
}

static void slots_give(struct fixture *f, const uint32_t *slots, uint32_t n)
{
	while (n > 0)
		records_slot_give(engine_records(f->engine), slots[--n]);
}

static void no_record__gives_the_objects_quota_back(void **state)
{
	static uint32_t slots[4096];
	struct fixture f = {};
	struct who a;
	uint32_t n;

	fixture_open(&f, 64);
	a = (struct who){ .tenant = f.tenant, .ns = f.ns };
	limit(&f, &a, LARDER_LIMIT_objects, 2);
	assert_in_range(f.memory->info.records, 1, ARRAY_SIZE(slots));
	n = slots_take(&f, slots, 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(put(&f, "k", 1, 1), LARDER_NO_SPACE);
	assert_int_equal(f.engine->tenants[a.tenant].objects, 0);
	slots_give(&f, slots, n);
	put_many(&f, "k", 2, 1);
	fixture_close(&f);
}

/* Memory in single pages needs more records than the PUT counted on, and there are none. */
static void no_overflow_records__gives_the_pages_back(void **state)
{
	enum { PAGES = 64 };
	static uint32_t slots[4096];
	struct engine_object *o[PAGES / 2];
	struct fixture f = {};
	struct who a;
	uint32_t n;

	fixture_open(&f, PAGES);
	a = (struct who){ .tenant = f.tenant, .ns = f.ns };
	put_many(&f, "k", PAGES, 1);
	for (uint32_t i = 0; i < PAGES; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "k%u", i);
		if (i % 2)
			assert_int_equal(delete(&f, key, 0), LARDER_OK);
		else
			assert_int_equal(get(&f, key, &o[i / 2]), LARDER_OK);
	}
	assert_int_equal(records_needed(4, 1, 1), 1);
	assert_true(records_needed(4, PAGES / 2, 1) > 1);
	n = slots_take(&f, slots, 1);
	assert_int_equal(put(&f, "wide", 1, PAGES / 2 * FIXTURE_PAGE), LARDER_NO_SPACE);
	assert_int_equal(f.engine->tenants[a.tenant].resident_pages, PAGES / 2);
	assert_int_equal(gauges(&f, &a)->resident_bytes, PAGES / 2 * FIXTURE_PAGE);
	assert_int_equal(counts(&f).free_pages, PAGES / 2);
	slots_give(&f, slots, n);
	assert_int_equal(put(&f, "wide", 1, PAGES / 2 * FIXTURE_PAGE), LARDER_OK);
	for (uint32_t i = 0; i < PAGES / 2; i++)
		engine_unref(f.r, o[i]);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_record__gives_the_objects_quota_back),
		cmocka_unit_test(no_overflow_records__gives_the_pages_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
