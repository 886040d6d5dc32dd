/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces: what a descriptor demands, what is shared with others, and how one goes. */
#include <errno.h>

#include "fixture.h"

static int ns_open(struct fixture *f, const char *name, const struct larder_descriptor *d,
		   bool create, uint32_t *ns, const char **field)
{
	return engine_namespace_open(f->engine, f->tenant, name, (uint16_t)strlen(name), d, create,
				     ns, field);
}

static int other_open(struct fixture *g, const char *owner, const char *name, uint32_t *ns)
{
	const char *field = NULL;

	return engine_namespace_open_other(g->engine, g->tenant, false, owner, name,
					   (uint16_t)strlen(name), NULL, ns, &field);
}

/* --- P10: descriptors --------------------------------------------------------------------- */

static struct larder_descriptor full_descriptor(void)
{
	return (struct larder_descriptor){
		.model = "llama", .revision = "7", .weights_digest = "sha256:00", .adapter = "a",
		.position = "rope", .dtype = "bf16", .layout = "NHD", .hash_scheme = "xxh3",
		.hash_seed = 1, .bytes_per_block = 4096, .tokens_per_block = 16, .tp = 2, .pp = 1,
		.flags = LARDER_DESCRIPTOR_SHORT_LAST,
	};
}

#define FIELD(f) { #f, offsetof(struct larder_descriptor, f) }
static const struct {
	const char *name;
	size_t offset;
} fields[] = {
	FIELD(model), FIELD(revision), FIELD(weights_digest), FIELD(adapter), FIELD(position),
	FIELD(dtype), FIELD(layout), FIELD(hash_scheme), FIELD(hash_seed), FIELD(bytes_per_block),
	FIELD(tokens_per_block), FIELD(tp), FIELD(pp), FIELD(flags),
};

/* Both ways: as a field of the one that is stored, and of the one that is asked for. */
static void P10_mismatch__names_each_field(void **state)
{
	const struct larder_descriptor full = full_descriptor();
	struct fixture f = {};
	uint32_t ns, found;

	fixture_open(&f, 16);
	assert_int_equal(ns_open(&f, "full", &full, true, &ns, NULL), LARDER_OK);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		struct larder_descriptor other = full;
		const char *field = NULL;

		((uint8_t *)&other)[fields[i].offset] ^= 0x10;
		found = UINT32_MAX;
		for (int create = 0; create < 2; create++) {
			assert_int_equal(ns_open(&f, "full", &other, create, &found, &field),
					 LARDER_LAYOUT_MISMATCH);
			assert_string_equal(field, fields[i].name);
			assert_int_equal(found, UINT32_MAX);
		}
		/* nothing of the wrong one was kept */
		assert_memory_equal(&engine_namespace(f.engine, f.tenant, false, ns)->descriptor,
				    &full, sizeof(full));
	}
	fixture_restart(&f);
	assert_int_equal(ns_open(&f, "full", NULL, false, &found, NULL), LARDER_OK);
	assert_memory_equal(&engine_namespace(f.engine, f.tenant, false, found)->descriptor, &full,
			    sizeof(full));
	fixture_close(&f);
}

static void P10_put__of_another_length_is_refused(void **state)
{
	struct larder_descriptor d = { .bytes_per_block = 5000 };
	struct fixture f = {}, g;
	uint64_t bytes;
	bool shorter;

	fixture_open(&f, 64);
	g = f;
	assert_int_equal(ns_open(&f, "exact", &d, true, &f.ns, NULL), LARDER_OK);
	d.flags = LARDER_DESCRIPTOR_SHORT_LAST;
	assert_int_equal(ns_open(&g, "short", &d, true, &g.ns, NULL), LARDER_OK);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(put(&f, "a", 1, 4999), LARDER_BAD_REQUEST);
		assert_int_equal(put(&f, "a", 1, 5001), LARDER_BAD_REQUEST);
		assert_int_equal(put(&f, "a", 1, 5000), round ? LARDER_EXISTS_SAME : LARDER_OK);
		assert_int_equal(put(&g, "a", 1, 5001), LARDER_BAD_REQUEST);
		assert_int_equal(put(&g, "b", 1, 1), round ? LARDER_EXISTS_SAME : LARDER_OK);
		assert_int_equal(put(&g, "a", 1, 5000), round ? LARDER_EXISTS_SAME : LARDER_OK);
		assert_false(engine_namespace_takes(f.engine, f.ns, 4999, &bytes, &shorter));
		assert_int_equal(bytes, 5000);
		assert_false(shorter);
		assert_false(engine_namespace_takes(f.engine, g.ns, 5001, &bytes, &shorter));
		assert_true(shorter);
		/* it is the stored descriptor's, not the opener's */
		f.engine = g.engine = engine_close(f.engine);
		assert_int_equal(engine_open(&f.config, &f.engine), 0);
		g.engine = f.engine;
		f.r = g.r = engine_reactor(f.engine, 0);
	}
	/* begun in parts: the same */
	{
		struct request q;

		request_init(&q, &f, LARDER_OP_PUT_BEGIN, "p");
		q.op.length = 1;
		assert_int_equal(request_run(f.r, &q), LARDER_BAD_REQUEST);
		/* whose it is comes first: a stranger learns no length */
		assert_int_equal(engine_tenant_add(f.engine, "other", &q.op.tenant), 0);
		assert_int_equal(request_run(f.r, &q), LARDER_NOT_FOUND);
	}
	fixture_close(&f);
}

/* --- P9: sharing -------------------------------------------------------------------------- */

static int change(struct fixture *g, int opcode, uint32_t flags)
{
	struct request q;

	request_init(&q, g, opcode, "k");
	if (opcode == LARDER_OP_PUT)
		request_value(&q, 1, 10);
	if (opcode == LARDER_OP_PUT_BEGIN)
		q.op.length = 10;
	if (opcode == LARDER_OP_NS_FLUSH)
		q.op.n_keys = 0;
	q.op.flags = flags;
	return request_run(g->r, &q);
}

static void share(struct fixture *f, const char *name, uint32_t reader)
{
	struct engine_share s = { .name = name, .name_len = (uint16_t)strlen(name) };

	s.readers.bits[reader / 64] |= 1ull << reader % 64;
	assert_int_equal(engine_set_shares(f->engine, f->tenant, &s, 1), 0);
}

static const int changes[] = {
	LARDER_OP_PUT, LARDER_OP_PUT_BEGIN, LARDER_OP_DELETE, LARDER_OP_NS_FLUSH, LARDER_OP_PIN,
	LARDER_OP_UNPIN,
};

static bool list_entry(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	++*(uint32_t *)user;
	return true;
}

static void assert_reads(struct fixture *g)
{
	struct larder_stat st;
	struct request q;
	uint32_t listed = 0;

	assert_int_equal(presence(g, "k"), LARDER_PRESENT);
	assert_int_equal(lease(g, "k", 7, 1000), LARDER_LEASED);
	assert_int_equal(touch(g, "k"), LARDER_OK);
	request_init(&q, g, LARDER_OP_STAT, "k");
	q.op.stats = &st;
	assert_int_equal(request_run(g->r, &q), LARDER_OK);
	assert_int_equal(st.size_bytes, 10);
	assert_true(st.hits > 0);		/* a reader's hits count */
	request_init(&q, g, LARDER_OP_LEASE, "k");
	q.op.lease_id = 7;
	q.op.lease_ms = 2000;
	assert_int_equal(request_run(g->r, &q), LARDER_OK);
	request_init(&q, g, LARDER_OP_LIST, "");
	q.op.n_keys = 0;
	q.op.max = 10;
	q.op.list = list_entry;
	q.op.list_user = &listed;
	assert_int_equal(request_run(g->r, &q), LARDER_OK);
	assert_int_equal(listed, 1);
	assert_int_equal(release(g, "k", 7), LARDER_OK);
}

/* Whoever may not read meets nothing, whatever he tries. */
static void assert_blind(struct fixture *g)
{
	struct request q;

	assert_int_equal(presence(g, "k"), LARDER_ABSENT);
	assert_int_equal(lease(g, "k", 7, 1000), LARDER_ABSENT);
	assert_int_equal(touch(g, "k"), LARDER_NOT_FOUND);
	request_init(&q, g, LARDER_OP_LIST, "");
	q.op.n_keys = 0;
	q.op.max = 10;
	q.op.list = list_entry;
	assert_int_equal(request_run(g->r, &q), LARDER_NOT_FOUND);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(change(g, changes[i], LARDER_F_FORCE), LARDER_NOT_FOUND);
	assert_int_equal(change(g, LARDER_OP_EXISTS, LARDER_F_FILL), LARDER_OK);
	assert_null(engine_namespace_readable(g->engine, g->tenant, false, g->ns));
}

static void P9_share__reads_and_changes_nothing(void **state)
{
	struct fixture f = {}, g, h;
	uint32_t ns = UINT32_MAX;

	fixture_open(&f, 64);
	g = h = f;
	assert_int_equal(engine_tenant_add(f.engine, "reader", &g.tenant), 0);
	assert_int_equal(engine_tenant_add(f.engine, "stranger", &h.tenant), 0);
	assert_int_equal(put(&f, "k", 1, 10), LARDER_OK);
	assert_blind(&g);
	assert_int_equal(other_open(&g, "demo", "ns", &ns), LARDER_NOT_FOUND);
	share(&f, "ns", g.tenant);
	assert_int_equal(other_open(&g, "demo", "ns", &ns), LARDER_OK);
	assert_int_equal(ns, f.ns);
	assert_reads(&g);
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++)
		assert_int_equal(change(&g, changes[i], LARDER_F_FORCE), LARDER_DENIED);
	assert_int_equal(change(&g, LARDER_OP_EXISTS, LARDER_F_FILL), LARDER_DENIED);
	assert_int_equal(change(&g, LARDER_OP_GET, LARDER_F_FILL), LARDER_DENIED);
	assert_int_equal(engine_namespace_retire(f.engine, g.tenant, f.ns), LARDER_NOT_FOUND);
	assert_null(engine_namespace(f.engine, g.tenant, false, f.ns));
	assert_blind(&h);
	assert_int_equal(other_open(&h, "demo", "ns", &ns), LARDER_NOT_FOUND);
	assert_int_equal(presence(&f, "k"), LARDER_PRESENT);
	/* taken back: at once, also where the id is known */
	assert_int_equal(engine_set_shares(f.engine, f.tenant, NULL, 0), 0);
	assert_blind(&g);
	assert_int_equal(other_open(&g, "demo", "ns", &ns), LARDER_NOT_FOUND);
	fixture_close(&f);
}

static void P9_share__by_name_of_what_is_to_come(void **state)
{
	struct engine_share two[3] = {
		{ .name = "later", .name_len = 5 },
		{ .name = "ns", .name_len = 2 },
		{ .name = "later", .name_len = 5 },
	};
	struct fixture f = {}, g, h;
	uint32_t ns;

	fixture_open(&f, 64);
	g = h = f;
	assert_int_equal(engine_tenant_add(f.engine, "reader", &g.tenant), 0);
	assert_int_equal(engine_tenant_add(f.engine, "second", &h.tenant), 0);
	two[0].readers.bits[0] = 1ull << g.tenant;
	two[2].readers.bits[0] = 1ull << h.tenant;
	assert_int_equal(engine_set_shares(f.engine, f.tenant, two, 3), 0);
	assert_int_equal(ns_open(&f, "later", NULL, true, &ns, NULL), LARDER_OK);
	g.ns = h.ns = f.ns = ns;
	assert_int_equal(put(&f, "k", 1, 10), LARDER_OK);
	assert_int_equal(touch(&g, "k"), LARDER_OK);
	assert_int_equal(touch(&h, "k"), LARDER_OK);
	/* refused as a whole: what was shared still is */
	two[1].name_len = 0;
	assert_int_equal(engine_set_shares(f.engine, f.tenant, two, 3), -EINVAL);
	assert_int_equal(touch(&h, "k"), LARDER_OK);
	assert_int_equal(engine_set_shares(f.engine, f.tenant, two, 1), 0);
	assert_int_equal(touch(&g, "k"), LARDER_OK);
	assert_int_equal(touch(&h, "k"), LARDER_NOT_FOUND);
	fixture_close(&f);
}

/* Readers are bits in several words: each of those is its own, at both ends of them. */
static void P9_share__tells_70_tenants_apart(void **state)
{
	static const uint32_t readers[] = { 1, 5, 63, 64, 65, 69 };
	struct fixture f = {}, g;

	fixture_open(&f, 64);
	g = f;
	for (uint32_t i = 1; i < 70; i++) {
		char name[16];
		uint32_t tenant;

		(void)snprintf(name, sizeof(name), "tenant-%u", i);
		assert_int_equal(engine_tenant_add(f.engine, name, &tenant), 0);
		assert_int_equal(tenant, i);
	}
	assert_int_equal(put(&f, "k", 1, 10), LARDER_OK);
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		share(&f, "ns", readers[i]);
		for (g.tenant = 1; g.tenant < 70; g.tenant++)
			assert_int_equal(touch(&g, "k"), g.tenant == readers[i] ?
							 LARDER_OK : LARDER_NOT_FOUND);
	}
	fixture_close(&f);
}

/* A reader that waits for a key when the sharing ends is not given the value. */
static void P9_share__ends_under_a_waiting_reader(void **state)
{
	struct fixture f = {}, g;
	struct request w, q;

	fixture_open(&f, 64);
	g = f;
	assert_int_equal(engine_tenant_add(f.engine, "reader", &g.tenant), 0);
	share(&f, "ns", g.tenant);
	request_init(&w, &f, LARDER_OP_PUT, "k");
	request_value(&w, 1, 10);
	assert_int_equal(request_run(f.r, &w), LARDER_OK);
	request_init(&q, &g, LARDER_OP_GET, "k");
	q.op.flags = LARDER_F_WAIT;
	assert_int_equal(engine_submit(f.r, &q.op), 1);
	assert_int_equal(engine_set_shares(f.engine, f.tenant, NULL, 0), 0);
	object_write(w.op.object, 1);
	engine_commit(f.r, &w.op);
	assert_ptr_equal(engine_poll(f.r), &q.op);
	assert_int_equal(q.op.status, LARDER_NOT_FOUND);
	assert_int_equal(counts(&f).references, 0);
	fixture_close(&f);
}

/* --- retired ------------------------------------------------------------------------------ */

static void retire__only_what_is_empty(void **state)
{
	struct fixture f = {};
	struct request w, q;
	uint32_t ns, again;

	fixture_open(&f, 64);
	assert_int_equal(put(&f, "k", 1, 10), LARDER_OK);
	assert_int_equal(engine_namespace_retire(f.engine, f.tenant, f.ns), LARDER_BUSY);
	assert_int_equal(touch(&f, "k"), LARDER_OK);
	assert_int_equal(put(&f, "l", 1, 10), LARDER_OK);
	assert_int_equal(delete(&f, "k", 0), LARDER_OK);
	assert_int_equal(delete(&f, "l", 0), LARDER_OK);
	/* a writer at work, in both of its steps, and one that gave up */
	request_init(&w, &f, LARDER_OP_PUT_BEGIN, "w");
	w.op.length = 10;
	assert_int_equal(request_run(f.r, &w), LARDER_OK);
	assert_int_equal(engine_namespace_retire(f.engine, f.tenant, f.ns), LARDER_BUSY);
	engine_abort(f.r, &w.op);
	assert_int_equal(engine_namespace_retire(f.engine, f.tenant + 1, f.ns), LARDER_NOT_FOUND);
	assert_int_equal(engine_namespace_retire(f.engine, f.tenant, f.ns), LARDER_OK);
	assert_int_equal(engine_namespace_retire(f.engine, f.tenant, f.ns), LARDER_NOT_FOUND);
	assert_int_equal(f.ledger->gauges[0].namespaces, 0);
	/* its number is nobody's */
	assert_int_equal(put(&f, "k", 1, 10), LARDER_NOT_FOUND);
	assert_int_equal(presence(&f, "k"), LARDER_ABSENT);
	request_init(&q, &f, LARDER_OP_NS_FLUSH, "");
	q.op.n_keys = 0;
	assert_int_equal(request_run(f.r, &q), LARDER_NOT_FOUND);
	assert_int_equal(engine_namespace_set_admission(f.engine, f.tenant, f.ns, ENGINE_ADMIT_ALL),
			 LARDER_NOT_FOUND);
	for (unsigned i = 0; i < 7; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "n%u", i);
		assert_int_equal(ns_open(&f, name, NULL, true, &ns, NULL), LARDER_OK);
		assert_int_not_equal(ns, f.ns);
	}
	assert_int_equal(ns_open(&f, "ns", NULL, true, &ns, NULL), LARDER_QUOTA);
	assert_int_equal(engine_namespace_retire(f.engine, f.tenant, 3), LARDER_OK);
	assert_int_equal(ns_open(&f, "ns", NULL, true, &ns, NULL), LARDER_QUOTA);
	/* and can name another after the next start */
	fixture_restart(&f);
	assert_int_equal(ns_open(&f, "new", NULL, true, &again, NULL), LARDER_OK);
	fixture_close(&f);
}

/* A PUT that waits for room has no place yet: when it gets one, its namespace is gone. */
static void retire__under_a_put_that_waits_for_its_key(void **state)
{
	struct fixture f = {};
	struct request first, second;

	fixture_open(&f, 64);
	request_init(&first, &f, LARDER_OP_PUT, "k");
	request_value(&first, 1, 10);
	assert_int_equal(request_run(f.r, &first), LARDER_OK);
	request_init(&second, &f, LARDER_OP_PUT, "k");
	request_value(&second, 1, 10);
	assert_int_equal(engine_submit(f.r, &second.op), 1);
	assert_int_equal(engine_namespace_retire(f.engine, f.tenant, f.ns), LARDER_BUSY);
	engine_abort(f.r, &first.op);
	assert_int_equal(engine_namespace_retire(f.engine, f.tenant, f.ns), LARDER_OK);
	assert_ptr_equal(engine_poll(f.r), &second.op);
	assert_int_equal(second.op.status, LARDER_BUSY);
	assert_int_equal(request_run(f.r, &second), LARDER_NOT_FOUND);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(P10_mismatch__names_each_field),
		cmocka_unit_test(P10_put__of_another_length_is_refused),
		cmocka_unit_test(P9_share__reads_and_changes_nothing),
		cmocka_unit_test(P9_share__by_name_of_what_is_to_come),
		cmocka_unit_test(P9_share__tells_70_tenants_apart),
		cmocka_unit_test(P9_share__ends_under_a_waiting_reader),
		cmocka_unit_test(retire__only_what_is_empty),
		cmocka_unit_test(retire__under_a_put_that_waits_for_its_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
