/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant is thrown away: all of it, in bounded steps, under whoever still reads. */
#include <errno.h>

#include "fixture.h"

#define TURNS_MAX 1000u

/* Turns until it is done; TURNS_MAX: it is not. */
static unsigned purge_run(struct fixture *f, struct engine_purge *p)
{
	unsigned n = 0;

	while (n++ < TURNS_MAX)
		if (engine_purge_turn(f->r, p))
			return n;
	return TURNS_MAX;
}

static void purge__takes_everything_of_one_tenant(void **state)
{
	struct engine_share share = { .name = "ns", .name_len = 2 };
	struct fixture f = { .config.shards = 16 }, g;
	struct engine_purge p;
	uint32_t again, ns;
	char key[16];

	fixture_open(&f, 8192);
	g = f;
	assert_int_equal(engine_tenant_add(f.engine, "gone", &g.tenant), 0);
	assert_int_equal(engine_namespace_open(f.engine, g.tenant, "ns", 2, NULL, true, &g.ns,
					       NULL), LARDER_OK);
	assert_int_equal(engine_namespace_open(f.engine, g.tenant, "two", 3, NULL, true, &ns,
					       NULL), LARDER_OK);
	share.readers.bits[0] = 1ull << g.tenant;
	assert_int_equal(engine_set_shares(f.engine, f.tenant, &share, 1), 0);
	for (uint32_t i = 0; i < 300; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put(&f, key, i, 10), LARDER_OK);
		assert_int_equal(put(&g, key, i, 20), LARDER_OK);
	}
	/* leases on its own, of its own on another's, and of that other */
	assert_int_equal(lease(&g, "k1", 1, 60000), LARDER_LEASED);
	g.ns = f.ns;
	assert_int_equal(lease(&g, "k2", 2, 60000), LARDER_LEASED);
	assert_int_equal(lease(&f, "k2", 3, 60000), LARDER_LEASED);

	assert_int_equal(engine_purge_begin(f.engine, "nobody", &p), -ENOENT);
	assert_int_equal(engine_purge_begin(f.engine, "gone", &p), 0);
	assert_false(engine_purge_turn(f.r, &p));	/* more slots than one turn visits */
	assert_true(p.objects < 300 || counts(&f).objects > 0);
	assert_in_range(purge_run(&f, &p), 2, 50);
	assert_int_equal(p.objects, 300);
	assert_int_equal(p.bytes, 300 * 20);
	assert_int_equal(counts(&f).objects, 300);
	assert_int_equal(counts(&f).leases, 1);
	assert_null(engine_tenant_name(f.engine, g.tenant));
	assert_null(engine_namespace(f.engine, 0, true, ns));
	assert_int_equal(engine_namespace_open(f.engine, g.tenant, "ns", 2, NULL, true, &ns, NULL),
			 LARDER_BAD_REQUEST);
	/* what it was allowed to read, whoever gets the bit next */
	assert_int_equal(touch(&g, "k3"), LARDER_NOT_FOUND);
	assert_int_equal(engine_purge_begin(f.engine, "gone", &p), -ENOENT);
	assert_int_equal(engine_tenant_add(f.engine, "gone", &again), 0);
	assert_int_not_equal(again, g.tenant);
	/* the next start finds no trace, and may use the id */
	fixture_restart(&f);
	assert_int_equal(counts(&f).objects, 300);
	assert_int_equal(engine_tenant_add(f.engine, "another", &again), 0);
	assert_int_equal(again, g.tenant);
	g.engine = f.engine;
	g.r = f.r;
	assert_int_equal(engine_namespace_open(f.engine, again, "ns", 2, NULL, true, &g.ns, NULL),
			 LARDER_OK);
	assert_int_equal(presence(&g, "k1"), LARDER_ABSENT);
	fixture_close(&f);
}

/* A read under way is not cut, and the id is not given up while an object carries it. */
static void purge__waits_for_readers_and_writers(void **state)
{
	struct engine_object *o;
	struct fixture f = {};
	struct engine_purge p;
	struct request w;

	fixture_open(&f, 64);
	assert_int_equal(put(&f, "read", 1, 5000), LARDER_OK);
	assert_int_equal(get(&f, "read", &o), LARDER_OK);
	request_init(&w, &f, LARDER_OP_PUT_BEGIN, "w");
	w.op.length = 10;
	assert_int_equal(request_run(f.r, &w), LARDER_OK);
	assert_int_equal(engine_purge_begin(f.engine, "demo", &p), 0);
	assert_int_equal(purge_run(&f, &p), TURNS_MAX);
	assert_int_equal(p.objects, 1);
	object_assert(o, 1, 5000);
	engine_unref(f.r, o);
	assert_int_equal(purge_run(&f, &p), TURNS_MAX);
	assert_non_null(engine_tenant_name(f.engine, f.tenant));
	engine_abort(f.r, &w.op);
	assert_true(purge_run(&f, &p) < TURNS_MAX);
	assert_null(engine_tenant_name(f.engine, f.tenant));
	assert_int_equal(counts(&f).free_pages, 64);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(purge__takes_everything_of_one_tenant),
		cmocka_unit_test(purge__waits_for_readers_and_writers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
