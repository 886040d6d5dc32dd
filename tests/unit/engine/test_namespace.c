/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces and tenants: who may see what, LIST and flush. */
#include <errno.h>

#include "fixture.h"

static int ns_open(struct fixture *f, const char *name, const struct larder_descriptor *d,
		   bool create, uint32_t *ns, const char **field)
{
	return engine_namespace_open(f->engine, f->tenant, name, (uint16_t)strlen(name), d, create,
				     ns, field);
}

/* --- LIST --------------------------------------------------------------------------------- */

#define STEADY 500u

struct seen {
	uint32_t times[STEADY];
	uint32_t all, room;
};

static bool seen_entry(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	struct seen *s = user;
	uint32_t i;
	char text[32];

	if (s->room == 0)
		return false;
	s->room--;
	s->all++;
	memcpy(text, key, key_len);
	text[key_len] = '\0';
	if (sscanf(text, "steady%u", &i) == 1) {
		assert_int_equal(st->size_bytes, 1 + i);
		s->times[i]++;
	}
	return true;
}

/* One call; @room entries fit. */
static int list_some(struct fixture *f, uint64_t *cursor, uint32_t max, uint32_t room,
		     const char *prefix, struct seen *s)
{
	struct request q;
	uint32_t before = s->all;

	request_init(&q, f, LARDER_OP_LIST, prefix ? prefix : "");
	q.op.n_keys = prefix ? 1 : 0;
	q.op.cursor = *cursor;
	q.op.max = max;
	q.op.list = seen_entry;
	q.op.list_user = s;
	s->room = room;
	(void)request_run(f->r, &q);
	if (q.op.status == LARDER_OK) {
		assert_int_equal(q.op.count, s->all - before);
		assert_true(q.op.count <= max && q.op.count <= room);
	}
	*cursor = q.op.cursor;
	return q.op.status;
}

static void list__under_churn_tells_each_steady_key_once(void **state)
{
	struct fixture f = { .config.shards = 16 };
	struct seen s = {};
	uint64_t cursor = 0;
	char key[32];
	uint32_t churn = 0;

	fixture_open(&f, 8192);
	for (uint32_t i = 0; i < STEADY; i++) {
		(void)snprintf(key, sizeof(key), "churn%u", i);
		assert_int_equal(put(&f, key, 1, 1), LARDER_OK);
		(void)snprintf(key, sizeof(key), "steady%u", i);
		assert_int_equal(put(&f, key, 1, 1 + i), LARDER_OK);
	}
	do {
		assert_int_equal(list_some(&f, &cursor, 50, churn % 13, NULL, &s), LARDER_OK);
		for (uint32_t n = 0; n < 7; n++, churn++) {
			(void)snprintf(key, sizeof(key), "churn%u", churn);
			(void)delete(&f, key, 0);
			(void)snprintf(key, sizeof(key), "churn%u", churn + STEADY);
			assert_int_equal(put(&f, key, 1, 1), LARDER_OK);
		}
	} while (cursor);
	for (uint32_t i = 0; i < STEADY; i++)
		assert_int_equal(s.times[i], 1);
	fixture_close(&f);
}

static void list__prefix_and_limits(void **state)
{
	struct fixture f = {};
	struct seen s = {};
	uint64_t cursor = 0;

	fixture_open(&f, 64);
	assert_int_equal(put(&f, "ab", 1, 1), LARDER_OK);
	assert_int_equal(put(&f, "abc", 1, 1), LARDER_OK);
	assert_int_equal(put(&f, "b", 1, 1), LARDER_OK);
	assert_int_equal(list_some(&f, &cursor, 10, 10, "ab", &s), LARDER_OK);
	assert_int_equal(cursor, 0);
	assert_int_equal(s.all, 2);
	/* no room for the first: the same place again */
	assert_int_equal(list_some(&f, &cursor, 10, 0, NULL, &s), LARDER_OK);
	assert_int_equal(s.all, 2);
	assert_int_not_equal(cursor, 0);
	assert_int_equal(list_some(&f, &cursor, 10, 10, NULL, &s), LARDER_OK);
	assert_int_equal(s.all, 5);
	assert_int_equal(cursor, 0);
	cursor = UINT64_MAX;			/* any number may come over a wire */
	assert_int_equal(list_some(&f, &cursor, 10, 10, NULL, &s), LARDER_OK);
	assert_int_equal(cursor, 0);
	assert_int_equal(list_some(&f, &cursor, 0, 10, NULL, &s), LARDER_BAD_REQUEST);
	fixture_close(&f);
}

static void list__of_an_empty_namespace_is_one_call(void **state)
{
	struct fixture f = {}, g;
	struct seen s = {};
	uint64_t cursor = 0;
	char key[16];

	fixture_open(&f, 8192);
	g = f;
	assert_int_equal(ns_open(&f, "two", NULL, true, &g.ns, NULL), LARDER_OK);
	for (uint32_t i = 0; i < 2000; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put(&f, key, i, 1), LARDER_OK);
	}
	assert_int_equal(list_some(&g, &cursor, 10, 10, NULL, &s), LARDER_OK);
	assert_int_equal(cursor, 0);
	assert_int_equal(put(&g, "last", 1, 1), LARDER_OK);
	assert_int_equal(list_some(&g, &cursor, 10, 10, NULL, &s), LARDER_OK);
	assert_int_not_equal(cursor, 0);	/* among so many it takes several */
	while (cursor)
		assert_int_equal(list_some(&g, &cursor, 10, 10, NULL, &s), LARDER_OK);
	assert_int_equal(s.all, 1);
	assert_int_equal(delete(&g, "last", 0), LARDER_OK);
	assert_int_equal(list_some(&g, &cursor, 10, 10, NULL, &s), LARDER_OK);
	assert_int_equal(cursor, 0);
	fixture_close(&f);
}

struct meddler {
	struct fixture *f;
	struct engine_reactor *other;
	uint32_t told;
};

/* What another reactor may do while this one is told of @key: delete it, and put something new. */
static bool meddle(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	struct meddler *m = user;
	uint64_t pages = counts(m->f).free_pages, records = counts(m->f).free_records;
	struct request q;

	assert_int_equal(key_len, 3);
	assert_memory_equal(key, "old", 3);
	assert_int_equal(st->size_bytes, 5000);
	request_init(&q, m->f, LARDER_OP_DELETE, "old");
	assert_int_equal(request_run(m->other, &q), LARDER_OK);
	/* gone for everybody, and its record and pages are nobody else's yet */
	assert_int_equal(presence(m->f, "old"), LARDER_ABSENT);
	assert_int_equal(counts(m->f).doomed, 1);
	assert_int_equal(counts(m->f).references, 1);
	assert_int_equal(counts(m->f).free_pages, pages);
	assert_int_equal(counts(m->f).free_records, records);
	assert_int_equal(put_on(m->f, m->other, "new", 2, 100), LARDER_OK);
	m->told++;
	return true;
}

static void list__holds_what_it_tells(void **state)
{
	struct fixture f = { .config.reactors = 2 };
	struct meddler m = { .f = &f };
	struct request q;

	fixture_open(&f, 64);
	m.other = engine_reactor(f.engine, 1);
	assert_int_equal(put(&f, "old", 1, 5000), LARDER_OK);
	request_init(&q, &f, LARDER_OP_LIST, "old");
	q.op.max = 10;
	q.op.list = meddle;
	q.op.list_user = &m;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(m.told, 1);
	assert_int_equal(counts(&f).doomed, 0);
	assert_int_equal(counts(&f).references, 0);
	assert_int_equal(counts(&f).objects, 1);
	assert_int_equal(touch(&f, "new"), LARDER_OK);
	fixture_close(&f);
}

/* --- flush -------------------------------------------------------------------------------- */

static void flush__takes_its_namespace_only(void **state)
{
	struct fixture f = { .config.shards = 64 }, g;
	struct request q;
	uint64_t objects, bytes;
	char key[16];

	fixture_open(&f, 8192);
	g = f;
	assert_int_equal(ns_open(&f, "two", NULL, true, &g.ns, NULL), LARDER_OK);
	for (uint32_t i = 0; i < 200; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put(&f, key, i, 10), LARDER_OK);
		assert_int_equal(put(&g, key, i, 20), LARDER_OK);
	}
	engine_namespace_usage(f.engine, f.ns, &objects, &bytes);
	assert_int_equal(objects, 200);
	assert_int_equal(bytes, 2000);
	request_init(&q, &f, LARDER_OP_NS_FLUSH, "");
	q.op.n_keys = 0;
	assert_int_equal(engine_submit(f.r, &q.op), 1);	/* more slots than one turn visits */
	while (!engine_poll(f.r))
		;
	assert_int_equal(q.op.status, LARDER_OK);
	assert_int_equal(q.op.count, 200);
	assert_int_equal(q.op.bytes, 2000);
	assert_int_equal(q.op.kept, 0);
	engine_namespace_usage(f.engine, f.ns, &objects, &bytes);
	assert_int_equal(objects, 0);
	assert_int_equal(bytes, 0);
	engine_namespace_usage(f.engine, g.ns, &objects, &bytes);
	assert_int_equal(objects, 200);
	/* by deadline and cancel */
	request_init(&q, &g, LARDER_OP_NS_FLUSH, "");
	q.op.deadline_ns = f.now_ns + 5;
	assert_int_equal(engine_submit(f.r, &q.op), 1);
	fixture_advance(&f, 5);
	assert_ptr_equal(engine_poll(f.r), &q.op);
	assert_int_equal(q.op.status, LARDER_DEADLINE);
	q.op.deadline_ns = 0;
	assert_int_equal(engine_submit(f.r, &q.op), 1);
	assert_int_equal(engine_cancel(f.r, &q.op), 0);
	assert_null(engine_poll(f.r));
	fixture_close(&f);
}

/* --- who may what ------------------------------------------------------------------------- */

static void foreign__namespace_is_not_found(void **state)
{
	struct fixture f = {}, g;
	struct request q;
	struct larder_stat st;
	struct seen s = {};
	uint64_t cursor = 0;

	fixture_open(&f, 64);
	g = f;					/* another tenant that knows the number */
	assert_int_equal(engine_tenant_add(f.engine, "other", &g.tenant), 0);
	assert_int_equal(put(&f, "k", 1, 10), LARDER_OK);
	assert_int_equal(touch(&g, "k"), LARDER_NOT_FOUND);
	assert_int_equal(presence(&g, "k"), LARDER_ABSENT);
	assert_int_equal(lease(&g, "k", 1, 1000), LARDER_ABSENT);
	assert_int_equal(put(&g, "k", 1, 10), LARDER_NOT_FOUND);
	assert_int_equal(delete(&g, "k", LARDER_F_FORCE), LARDER_NOT_FOUND);
	request_init(&q, &g, LARDER_OP_STAT, "k");
	q.op.stats = &st;
	assert_int_equal(request_run(f.r, &q), LARDER_NOT_FOUND);
	request_init(&q, &g, LARDER_OP_NS_FLUSH, "");
	assert_int_equal(request_run(f.r, &q), LARDER_NOT_FOUND);
	assert_int_equal(list_some(&g, &cursor, 10, 10, NULL, &s), LARDER_NOT_FOUND);
	/* leases are a tenant's own too */
	assert_int_equal(lease(&f, "k", 5, 1000), LARDER_LEASED);
	assert_int_equal(release(&g, NULL, 5), LARDER_NOT_FOUND);
	assert_int_equal(release(&g, "k", 5), LARDER_NOT_FOUND);
	assert_int_equal(counts(&f).leases, 1);
	/* numbers that are none */
	g = f;
	g.ns = 15;
	assert_int_equal(touch(&g, "k"), LARDER_NOT_FOUND);
	g.ns = UINT32_MAX;
	assert_int_equal(touch(&g, "k"), LARDER_NOT_FOUND);
	assert_int_equal(put(&g, "k", 1, 10), LARDER_NOT_FOUND);
	g.ns = f.ns;
	g.tenant = RECORDS_TENANTS_MAX;
	assert_int_equal(touch(&g, "k"), LARDER_BAD_REQUEST);
	assert_null(engine_namespace(f.engine, 1, false, f.ns));
	assert_non_null(engine_namespace(f.engine, f.tenant, false, f.ns));
	assert_non_null(engine_namespace(f.engine, 1, true, f.ns));
	assert_null(engine_namespace(f.engine, f.tenant, true, 15));
	assert_int_equal(touch(&f, "k"), LARDER_OK);
	fixture_close(&f);
}

static void viewer__reads_any_and_touches_nothing(void **state)
{
	struct fixture f = { .config.shards = 1 }, g;
	struct request q;
	struct larder_stat st;

	fixture_open(&f, 4);
	g = f;
	assert_int_equal(engine_tenant_add(f.engine, "viewer", &g.tenant), 0);
	for (uint32_t i = 0; i < 4; i++) {
		const char key[] = { (char)('a' + i), '\0' };

		assert_int_equal(put(&f, key, i, 1), LARDER_OK);
	}
	request_init(&q, &g, LARDER_OP_GET, "a");
	q.op.flags = LARDER_F_NO_TOUCH;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	engine_unref(f.r, q.op.object);
	q.op.opcode = LARDER_OP_STAT;
	q.op.stats = &st;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(st.hits, 0);
	q.op.opcode = LARDER_OP_EXISTS;
	q.op.flags = LARDER_F_NO_TOUCH | LARDER_F_LEASE;
	q.op.lease_ms = 1000;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.key.presence, LARDER_PRESENT);	/* and no lease */
	q.op.opcode = LARDER_OP_LEASE;
	assert_int_equal(request_run(f.r, &q), LARDER_NOT_FOUND);
	q.op.opcode = LARDER_OP_DELETE;
	assert_int_equal(request_run(f.r, &q), LARDER_NOT_FOUND);
	assert_int_equal(put(&f, "new", 1, 1), LARDER_OK);
	assert_int_equal(presence(&f, "a"), LARDER_ABSENT);	/* still the oldest */
	assert_int_equal(ledger_usage(f.ledger, 0, LARDER_LEDGER_VIEW_TENANT)->get_hits, 1);
	assert_int_equal(ledger_usage(f.ledger, 0, LARDER_LEDGER_VIEW_TENANT)->exists_keys, 1);
	assert_int_equal(ledger_usage(f.ledger, 0, 0)->get_hits, 0);
	fixture_close(&f);
}

static void open__compares_descriptors(void **state)
{
	struct fixture f = {};
	struct larder_descriptor d = { .tokens_per_block = 512 }, empty = {}, other;
	const char *field = NULL;
	uint32_t ns, again;

	(void)snprintf(d.model, sizeof(d.model), "model");
	other = d;
	(void)snprintf(other.dtype, sizeof(other.dtype), "fp8");
	fixture_open(&f, 16);
	assert_int_equal(ns_open(&f, "d", NULL, false, &ns, &field), LARDER_NOT_FOUND);
	assert_int_equal(ns_open(&f, "d", &d, true, &ns, &field), LARDER_OK);
	assert_int_equal(ns_open(&f, "d", &d, false, &again, &field), LARDER_OK);
	assert_int_equal(again, ns);
	assert_int_equal(ns_open(&f, "d", NULL, true, &again, &field), LARDER_OK);
	assert_null(field);
	assert_int_equal(ns_open(&f, "d", &other, true, &again, &field), LARDER_LAYOUT_MISMATCH);
	assert_string_equal(field, "dtype");
	assert_int_equal(ns_open(&f, "d", &empty, true, &again, &field), LARDER_LAYOUT_MISMATCH);
	/* made without a descriptor: the empty one, which any other mismatches */
	assert_int_equal(ns_open(&f, "ns", &d, false, &again, &field), LARDER_LAYOUT_MISMATCH);
	assert_string_equal(field, "model");
	fixture_restart(&f);
	assert_int_equal(ns_open(&f, "d", &other, true, &again, &field), LARDER_LAYOUT_MISMATCH);
	assert_string_equal(field, "dtype");
	assert_int_equal(ns_open(&f, "d", &d, true, &again, &field), LARDER_OK);
	assert_int_equal(again, ns);
	assert_int_equal(f.ledger->gauges[0].namespaces, 2);
	fixture_close(&f);
}

static void open__names_and_limits(void **state)
{
	static const char longest[LARDER_NS_NAME_MAX + 1] = "x";
	struct fixture f = {};
	uint32_t ns, tenant;
	char name[8];

	fixture_open(&f, 16);
	assert_int_equal(ns_open(&f, "", NULL, true, &ns, NULL), LARDER_BAD_REQUEST);
	assert_int_equal(engine_namespace_open(f.engine, f.tenant, longest, sizeof(longest), NULL,
					       true, &ns, NULL), LARDER_BAD_REQUEST);
	assert_int_equal(engine_namespace_open(f.engine, 77, "x", 1, NULL, true, &ns, NULL),
			 LARDER_BAD_REQUEST);
	for (uint32_t i = 1; i < 8; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		assert_int_equal(ns_open(&f, name, NULL, true, &ns, NULL), LARDER_OK);
	}
	assert_int_equal(ns_open(&f, "more", NULL, true, &ns, NULL), LARDER_QUOTA);
	/* the rest is for others, as far as it goes */
	for (uint32_t i = 0; i < 9; i++) {
		(void)snprintf(name, sizeof(name), "t%u", i / 4);
		assert_int_equal(engine_tenant_add(f.engine, name, &tenant), 0);
		(void)snprintf(name, sizeof(name), "n%u", i);
		assert_int_equal(engine_namespace_open(f.engine, tenant, name, 2, NULL, true, &ns,
						       NULL), i < 8 ? LARDER_OK : LARDER_QUOTA);
	}
	assert_int_equal(engine_tenant_add(f.engine, "", &tenant), -EINVAL);
	assert_int_equal(engine_tenant_add(f.engine, "Not", &tenant), -EINVAL);
	assert_int_equal(engine_tenant_add(f.engine, "a-tenant-with-a-name-that-is-too-long",
					   &tenant), -EINVAL);
	assert_int_equal(engine_tenant_add(f.engine, "demo", &tenant), 0);
	assert_int_equal(tenant, f.tenant);
	assert_string_equal(engine_tenant_name(f.engine, tenant), "demo");
	assert_null(engine_tenant_name(f.engine, 200));
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list__under_churn_tells_each_steady_key_once),
		cmocka_unit_test(list__prefix_and_limits),
		cmocka_unit_test(list__of_an_empty_namespace_is_one_call),
		cmocka_unit_test(list__holds_what_it_tells),
		cmocka_unit_test(flush__takes_its_namespace_only),
		cmocka_unit_test(foreign__namespace_is_not_found),
		cmocka_unit_test(viewer__reads_any_and_touches_nothing),
		cmocka_unit_test(open__compares_descriptors),
		cmocka_unit_test(open__names_and_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
