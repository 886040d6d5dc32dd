/* SPDX-License-Identifier: Apache-2.0 */
/* What is still there after the engine has gone and come back over the same memory. */
#include <errno.h>

#include "fixture.h"

static void restart__acknowledged_is_there(void **state)
{
	struct fixture f = { .config.shards = 16 };
	struct records_rebuilt rebuilt;
	struct engine_object *o;
	char key[16];

	fixture_open(&f, 512);
	for (uint32_t i = 0; i < 100; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put(&f, key, i, 1 + 200 * i), LARDER_OK);
	}
	for (uint32_t i = 0; i < 100; i += 3) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(delete(&f, key, 0), LARDER_OK);
	}
	fixture_restart(&f);
	engine_get_rebuilt(f.engine, &rebuilt);
	assert_int_equal(rebuilt.objects, 66);
	assert_int_equal(rebuilt.dropped_bad, 0);
	assert_int_equal(rebuilt.dropped_twice, 0);
	assert_int_equal(rebuilt.dropped_unfinished, 0);
	assert_int_equal(counts(&f).objects, 66);
	assert_int_equal(f.ledger->gauges[0].objects, 66);
	assert_int_equal(f.ledger->gauges[0].value_bytes, rebuilt.bytes);
	assert_int_equal(f.ledger->gauges[0].namespaces, 1);
	for (uint32_t i = 0; i < 100; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		if (i % 3 == 0) {
			assert_int_equal(touch(&f, key), LARDER_NOT_FOUND);
			continue;
		}
		assert_int_equal(get(&f, key, &o), LARDER_OK);
		object_assert(o, i, 1 + 200 * i);
		assert_false(engine_verify(f.r, o));
		engine_unref(f.r, o);
	}
	fixture_close(&f);
}

/* Stops as a killed process does: whatever is under way stays as it is in the file. */
static void restart__unfinished_is_gone(void **state)
{
	struct fixture f = {};
	struct request filling;
	struct engine_object *o;
	struct records_rebuilt rebuilt;

	fixture_open(&f, 64);
	assert_int_equal(put(&f, "kept", 1, 5000), LARDER_OK);
	assert_int_equal(put(&f, "deleted", 2, 5000), LARDER_OK);
	assert_int_equal(get(&f, "deleted", &o), LARDER_OK);
	assert_int_equal(delete(&f, "deleted", 0), LARDER_OK);
	request_init(&filling, &f, LARDER_OP_PUT, "filling");
	request_value(&filling, 3, 3 * FIXTURE_PAGE);
	assert_int_equal(request_run(f.r, &filling), LARDER_OK);
	fixture_restart(&f);
	engine_get_rebuilt(f.engine, &rebuilt);
	assert_int_equal(rebuilt.objects, 1);
	assert_int_equal(rebuilt.dropped_unfinished, 2);
	assert_int_equal(counts(&f).free_pages, 62);
	assert_int_equal(touch(&f, "kept"), LARDER_OK);
	assert_int_equal(touch(&f, "deleted"), LARDER_NOT_FOUND);
	assert_int_equal(presence(&f, "filling"), LARDER_ABSENT);
	fixture_close(&f);
}

static void restart__leases_are_there(void **state)
{
	struct fixture f = {};

	fixture_open(&f, 64);
	assert_int_equal(put(&f, "a", 1, 10), LARDER_OK);
	assert_int_equal(put(&f, "b", 1, 10), LARDER_OK);
	assert_int_equal(lease(&f, "a", 1, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "a", 2, 3000), LARDER_LEASED);
	assert_int_equal(lease(&f, "b", 1, 2000), LARDER_LEASED);
	assert_null(engine_poll(f.r));		/* the last turn that anybody looked */
	fixture_advance(&f, 100 * NSEC_PER_SEC);
	fixture_restart(&f);			/* that long it was away: not held against them */
	assert_int_equal(counts(&f).leases, 3);
	assert_int_equal(f.ledger->gauges[0].leases, 3);
	assert_int_equal(f.ledger->gauges[0].leased_bytes, 20);
	assert_int_equal(delete(&f, "a", 0), LARDER_BUSY);
	assert_int_equal(release(&f, "a", 2), LARDER_OK);
	fixture_advance(&f, 1000 * NSEC_PER_MSEC);
	assert_int_equal(delete(&f, "a", 0), LARDER_OK);
	assert_int_equal(delete(&f, "b", 0), LARDER_BUSY);
	assert_int_equal(release(&f, NULL, 1), LARDER_OK);
	assert_int_equal(delete(&f, "b", 0), LARDER_OK);
	fixture_close(&f);
}

static void order_after_restart(const char *policy, const char *first_out)
{
	struct fixture f = { .config.policy = policy, .config.shards = 1 };

	fixture_open(&f, 4);
	for (uint32_t i = 0; i < 4; i++) {
		const char key[] = { (char)('a' + i), '\0' };

		fixture_advance(&f, 10);
		assert_int_equal(put(&f, key, i, 1), LARDER_OK);
	}
	fixture_advance(&f, 10);
	assert_int_equal(touch(&f, "a"), LARDER_OK);
	fixture_restart(&f);
	assert_int_equal(put(&f, "new", 1, 1), LARDER_OK);
	assert_int_equal(presence(&f, first_out), LARDER_ABSENT);
	assert_int_equal(counts(&f).objects, 4);
	fixture_close(&f);
}

static void restart__keeps_the_order_of_eviction(void **state)
{
	order_after_restart("lru", "b");
	order_after_restart("fifo", "a");
}

static void restart__with_another_number_of_shards(void **state)
{
	struct fixture f = { .config.shards = 1 };
	char key[16];

	fixture_open(&f, 64);
	for (uint32_t i = 0; i < 64; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put(&f, key, i, 1), LARDER_OK);
	}
	f.config.shards = 256;
	f.config.max_value_bytes = 1;		/* what is there may be larger than what may come */
	fixture_restart(&f);
	for (uint32_t i = 0; i < 64; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(touch(&f, key), LARDER_OK);
	}
	assert_int_equal(put(&f, "new", 1, 1), LARDER_OK);
	fixture_close(&f);
}

static void restart__after_another_boot_there_is_nothing(void **state)
{
	struct fixture f = {};

	fixture_open(&f, 64);
	assert_int_equal(put(&f, "k", 1, 1), LARDER_OK);
	f.config.boot_id = "next";
	f.engine = engine_close(f.engine);
	fixture_start(&f);
	assert_int_equal(touch(&f, "k"), LARDER_NOT_FOUND);
	assert_int_equal(counts(&f).objects, 0);
	assert_int_equal(counts(&f).free_pages, 64);
	fixture_close(&f);
}

static void restart__a_key_that_is_there_twice_is_served_once(void **state)
{
	struct fixture f = {};
	struct records *records;
	struct larder_run run;
	uint32_t slot;
	struct engine_object *o;
	struct record_content content;

	fixture_open(&f, 64);
	assert_int_equal(put(&f, "k", 1, 10), LARDER_OK);
	/* a second record of the same key, as no run of ours would leave it */
	records = engine_records(f.engine);
	slot = records_slot_take(records);
	assert_int_equal(arena_alloc(f.memory->arena, 1, &run, 1), 1);
	content = (struct record_content){ .tenant = f.tenant, .ns = f.ns, .length = 20,
					   .key = "k", .key_len = 1, .runs = &run, .n_runs = 1,
					   .n_checks = 1 };
	assert_int_equal(records_fill(records, slot, &content), 0);
	records_commit(records, slot, NULL, 1);
	arena_release(f.memory->arena, &run, 1);
	fixture_restart(&f);
	assert_int_equal(counts(&f).objects, 1);
	assert_int_equal(counts(&f).free_pages, 63);
	assert_int_equal(get(&f, "k", &o), LARDER_OK);
	engine_unref(f.r, o);
	fixture_close(&f);
}

static void open__refuses_what_makes_no_sense(void **state)
{
	struct fixture f = {};
	struct engine_config c;
	struct engine *e = NULL;

	fixture_open(&f, 64);
	f.engine = engine_close(f.engine);
	c = f.config;
	c.shards = 3;
	assert_int_equal(engine_open(&c, &e), -EINVAL);
	c.shards = 2048;
	assert_int_equal(engine_open(&c, &e), -EINVAL);
	c = f.config;
	c.reactors = 65;
	assert_int_equal(engine_open(&c, &e), -EINVAL);
	c = f.config;
	c.policy = "best";
	assert_int_equal(engine_open(&c, &e), -EINVAL);
	c = f.config;
	c.reserve_pages = 64;
	assert_int_equal(engine_open(&c, &e), -EINVAL);
	c = f.config;
	c.max_value_bytes = 0;
	assert_int_equal(engine_open(&c, &e), -EINVAL);
	c = f.config;
	c.lease_max_ms = 0;
	assert_int_equal(engine_open(&c, &e), -EINVAL);
	c = f.config;
	c.boot_id = "a boot id that is much longer than any that a kernel ever gave itself";
	assert_int_equal(engine_open(&c, &e), -EINVAL);
	assert_null(e);
	assert_null(engine_close(NULL));
	fixture_start(&f);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(restart__acknowledged_is_there),
		cmocka_unit_test(restart__unfinished_is_gone),
		cmocka_unit_test(restart__leases_are_there),
		cmocka_unit_test(restart__keeps_the_order_of_eviction),
		cmocka_unit_test(restart__with_another_number_of_shards),
		cmocka_unit_test(restart__after_another_boot_there_is_nothing),
		cmocka_unit_test(restart__a_key_that_is_there_twice_is_served_once),
		cmocka_unit_test(open__refuses_what_makes_no_sense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
