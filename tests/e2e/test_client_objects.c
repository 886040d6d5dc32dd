/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What callers do over a session with a real node, over tcp and shm: scatter lists, batches, lists
 * of keys, leases, streams, many threads on one handle, cancel. Sessions are in test_client.c.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness.h"

static struct node node;

#define BOTH(name)                                                                                 \
	static void name##__tcp(void **state)                                                      \
	{                                                                                          \
		name(NODE_TCP);                                                                    \
	}                                                                                          \
	static void name##__shm(void **state)                                                      \
	{                                                                                          \
		name(NODE_SHM);                                                                    \
	}

static void put_text(struct larder_client *c, uint32_t ns, const char *key, const char *value)
{
	int r = larder_put(c, ns, key, strlen(key), value, strlen(value), 5000);

	assert_true(r == LARDER_OK || r == LARDER_EXISTS_SAME);
}

/* --- lists and batches ----------------------------------------------------------------------- */

#define SCATTER 700001u

/* Cuts [@data, @data + SCATTER) into pieces of odd lengths, empty ones between them. */
static int scatter(uint8_t *data, struct iovec *iov, size_t step)
{
	size_t at = 0;
	int n = 0;

	iov[n++] = (struct iovec){ NULL, 0 };
	while (at < SCATTER) {
		size_t len = step * (unsigned)n * 7 + 1;

		if (len > SCATTER - at)
			len = SCATTER - at;
		iov[n++] = (struct iovec){ data + at, len };
		if (n % 3 == 0)
			iov[n++] = (struct iovec){ data + at, 0 };
		at += len;
	}
	iov[n++] = (struct iovec){ data, 0 };
	return n;
}

static void scatter_lists(enum node_transport t)
{
	static const size_t steps[] = { 1, 13, 997 };
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "client");
	struct larder_region *region;
	struct iovec *from = calloc(2000, sizeof(*from)), *to = calloc(2000, sizeof(*to));

	assert_non_null(from);
	assert_non_null(to);
	assert_int_equal(larder_region_alloc(c, SCATTER, 0, &region), 0);
	for (unsigned i = 0; i < 12; i++) {
		uint8_t *heap = malloc(2 * SCATTER), *m = larder_region_addr(region);
		uint8_t *back = i & 1 ? m : heap + SCATTER, *value = i & 2 ? m : heap;
		struct larder_item item = { .key = "scattered", .key_len = 9, .iov = from };
		struct larder_batch b = { .opcode = LARDER_OP_PUT, .ns = ns, .items = &item,
					  .n_items = 1, .deadline_ms = 10000 };

		assert_non_null(heap);
		pattern_fill(value, SCATTER, i);
		item.iovcnt = scatter(value, from, steps[i % 3]);
		assert_int_equal(larder_run(c, &b), LARDER_OK);
		memset(back, 0, SCATTER);
		item.iov = to;
		item.iovcnt = scatter(back, to, steps[(i + 1) % 3]);
		b.opcode = LARDER_OP_GET;
		assert_int_equal(larder_run(c, &b), LARDER_OK);
		assert_int_equal(item.done_bytes, SCATTER);
		assert_int_equal(pattern_check(back, SCATTER, i), -1);
		assert_int_equal(larder_delete(c, ns, "scattered", 9, 0, 5000), LARDER_OK);
		free(heap);
	}
	assert_int_equal(larder_region_free(region), 0);
	free(from);
	free(to);
	larder_close(c);
}
BOTH(scatter_lists)

struct many {
	struct larder_batch batch;
	struct larder_item *items;
	struct iovec *iov;
	char (*keys)[16];
	uint8_t *memory;
	size_t each;
};

static void many_make(struct many *m, uint32_t ns, const char *prefix, unsigned n, size_t each)
{
	*m = (struct many){ .each = each };
	m->items = calloc(n, sizeof(*m->items));
	m->iov = calloc(n, sizeof(*m->iov));
	m->keys = calloc(n, sizeof(*m->keys));
	m->memory = malloc(n * each);
	assert_true(m->items && m->iov && m->keys && m->memory);
	for (unsigned i = 0; i < n; i++) {
		snprintf(m->keys[i], sizeof(m->keys[i]), "%s%05u", prefix, i);
		m->iov[i] = (struct iovec){ m->memory + i * each, each };
		m->items[i] = (struct larder_item){ .key = m->keys[i],
						    .key_len = strlen(m->keys[i]),
						    .iov = &m->iov[i], .iovcnt = 1 };
		pattern_fill(m->iov[i].iov_base, each, i + 1);
	}
	m->batch = (struct larder_batch){ .opcode = LARDER_OP_PUT, .ns = ns, .items = m->items,
					  .n_items = n, .deadline_ms = 30000 };
}

static void many_free(struct many *m)
{
	free(m->items);
	free(m->iov);
	free(m->keys);
	free(m->memory);
}

static void batch__exists_with_a_hole(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "client");
	struct many m;

	many_make(&m, ns, "hole-", 2000, 64);
	assert_int_equal(larder_run(c, &m.batch), LARDER_OK);
	assert_int_equal(larder_delete(c, ns, m.keys[1234], strlen(m.keys[1234]), 0, 5000),
			 LARDER_OK);
	m.batch.opcode = LARDER_OP_EXISTS;
	assert_int_equal(larder_run(c, &m.batch), LARDER_NOT_FOUND);
	assert_int_equal(m.batch.n_done, 2000);
	assert_int_equal(m.batch.leading_run, 1234);
	for (unsigned i = 0; i < 2000; i++)
		assert_int_equal(m.items[i].presence, i == 1234 ? LARDER_ABSENT : LARDER_PRESENT);
	m.batch.opcode = LARDER_OP_DELETE;
	assert_int_equal(larder_run(c, &m.batch), LARDER_NOT_FOUND);
	m.batch.opcode = LARDER_OP_EXISTS;
	assert_int_equal(larder_run(c, &m.batch), LARDER_NOT_FOUND);
	assert_int_equal(m.batch.leading_run, 0);
	many_free(&m);
	larder_close(c);
}
BOTH(batch__exists_with_a_hole)

static void batch__300_values(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "client");
	struct many m;

	many_make(&m, ns, "value-", 300, 70001);
	assert_int_equal(larder_run(c, &m.batch), LARDER_OK);
	memset(m.memory, 0, 300 * m.each);
	m.batch.opcode = LARDER_OP_GET;
	assert_int_equal(larder_run(c, &m.batch), LARDER_OK);
	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(m.items[i].done_bytes, m.each);
		assert_int_equal(pattern_check(m.iov[i].iov_base, m.each, i + 1), -1);
	}
	m.batch.opcode = LARDER_OP_DELETE;
	assert_int_equal(larder_run(c, &m.batch), LARDER_OK);
	many_free(&m);
	larder_close(c);
}
BOTH(batch__300_values)

static bool mark_key(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	uint8_t *seen = user;
	unsigned n;
	char text[16] = "";

	assert_true(key_len < sizeof(text));
	memcpy(text, key, key_len);
	assert_int_equal(sscanf(text, "list-%u", &n), 1);
	assert_true(n < 5000);
	seen[n]++;
	return st->size_bytes == 16;
}

static void list__5000_keys_with_a_prefix(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "listed");
	uint8_t *seen = calloc(1, 5000);
	uint64_t cursor = 0;
	unsigned pages = 0;
	struct many m;

	assert_non_null(seen);
	put_text(c, ns, "lis", "not it");
	put_text(c, ns, "lisu", "nor this");
	many_make(&m, ns, "list-", 5000, 16);
	assert_int_equal(larder_run(c, &m.batch), LARDER_OK);
	do {
		assert_int_equal(larder_list(c, ns, "list-", 5, &cursor, 700, mark_key, seen,
					     5000), LARDER_OK);
		assert_true(++pages < 1000);
	} while (cursor);
	for (unsigned i = 0; i < 5000; i++)
		assert_int_equal(seen[i], 1);
	m.batch.opcode = LARDER_OP_DELETE;
	assert_int_equal(larder_run(c, &m.batch), LARDER_OK);
	many_free(&m);
	free(seen);
	larder_close(c);
}
BOTH(list__5000_keys_with_a_prefix)

/* --- leases, streams, threads, cancel -------------------------------------------------------- */

static void lease__twice_is_once(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "client");
	struct larder_item item = { .key = "leased", .key_len = 6 };
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .ns = ns, .items = &item,
				  .n_items = 1, .flags = LARDER_F_LEASE, .lease_id = 4711 + t,
				  .lease_ms = 20000, .deadline_ms = 5000 };
	struct larder_stat st;

	put_text(c, ns, "leased", "until released");
	assert_int_equal(larder_run(c, &b), LARDER_OK);
	assert_int_equal(item.presence, LARDER_LEASED);
	b.opcode = LARDER_OP_LEASE;
	b.flags = 0;
	for (int i = 0; i < 2; i++)
		assert_int_equal(larder_run(c, &b), LARDER_OK);
	assert_int_equal(larder_stat(c, ns, "leased", 6, 0, 5000, &st), LARDER_OK);
	assert_in_range(st.lease_ms, 1, 20000);
	assert_int_equal(larder_delete(c, ns, "leased", 6, 0, 5000), LARDER_BUSY);
	b.opcode = LARDER_OP_RELEASE;
	for (int i = 0; i < 2; i++) {
		int r = larder_run(c, &b);

		assert_true(r == LARDER_OK || (i && r == LARDER_NOT_FOUND));
	}
	assert_int_equal(larder_delete(c, ns, "leased", 6, 0, 5000), LARDER_OK);
	larder_close(c);
}
BOTH(lease__twice_is_once)

static void stream__in_parts(enum node_transport t)
{
	enum { LEN = 900007, PART = 100003 };
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "client");
	uint8_t *value = malloc(LEN), *back = malloc(LEN);
	struct larder_put_stream *s;
	size_t got = 0;

	assert_non_null(value);
	assert_non_null(back);
	pattern_fill(value, LEN, 77);
	assert_int_equal(larder_put_begin(c, ns, "parts", 5, LEN, 10000, &s), LARDER_OK);
	for (size_t at = 0; at < LEN; at += PART)
		assert_int_equal(larder_put_part(s, at, value + at,
						 LEN - at < PART ? LEN - at : PART), LARDER_OK);
	assert_int_equal(larder_exists(c, ns, "parts", 5, 5000), LARDER_NOT_FOUND);
	assert_int_equal(larder_put_commit(s), LARDER_OK);
	assert_int_equal(larder_get(c, ns, "parts", 5, back, LEN, &got, 5000), LARDER_OK);
	assert_int_equal(got, LEN);
	assert_int_equal(pattern_check(back, LEN, 77), -1);
	assert_int_equal(larder_delete(c, ns, "parts", 5, 0, 5000), LARDER_OK);
	assert_int_equal(larder_put_begin(c, ns, "parts", 5, LEN, 10000, &s), LARDER_OK);
	assert_int_equal(larder_put_part(s, 0, value, PART), LARDER_OK);
	assert_int_equal(larder_put_abort(s), LARDER_OK);
	assert_int_equal(larder_exists(c, ns, "parts", 5, 5000), LARDER_NOT_FOUND);
	assert_int_equal(node_stat_wait(&node, "objects", "filling", 0), 0);
	free(value);
	free(back);
	larder_close(c);
}
BOTH(stream__in_parts)

static void get__without_room(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "client");
	size_t size = 0;

	put_text(c, ns, "sized", "eleven byte");
	assert_int_equal(larder_get(c, ns, "sized", 5, NULL, 0, &size, 5000), LARDER_TOO_SMALL);
	assert_int_equal(size, 11);
	larder_close(c);
}
BOTH(get__without_room)

struct worker {
	pthread_t thread;
	struct larder_client *c;
	uint32_t ns;
	unsigned id;
	unsigned bad;
};

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	uint8_t value[30000], back[30000];
	char key[32];
	size_t got;

	for (unsigned i = 0; i < 40; i++) {
		size_t len = 1 + (w->id * 977 + i * 7919) % sizeof(value);

		snprintf(key, sizeof(key), "worker-%u-%u", w->id, i);
		pattern_fill(value, sizeof(value), w->id * 1000 + i);
		w->bad += larder_put(w->c, w->ns, key, strlen(key), value, len, 20000) != 0;
		w->bad += larder_get(w->c, w->ns, key, strlen(key), back, len, &got, 20000) != 0;
		w->bad += got != len || pattern_check(back, len, w->id * 1000 + i) != -1;
		w->bad += larder_delete(w->c, w->ns, key, strlen(key), 0, 20000) != 0;
	}
	return NULL;
}

static void threads__on_one_handle(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "client");
	struct worker w[16];

	for (unsigned i = 0; i < 16; i++) {
		w[i] = (struct worker){ .c = c, .ns = ns, .id = i };
		assert_int_equal(pthread_create(&w[i].thread, NULL, worker_main, &w[i]), 0);
	}
	for (unsigned i = 0; i < 16; i++) {
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
		assert_int_equal(w[i].bad, 0);
	}
	larder_close(c);
}
BOTH(threads__on_one_handle)

/* A GET that waits for another writer, its buffer in a region. */
static void cancel__and_region_in_use(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t), *writer = node_client(&node, t);
	uint32_t ns = node_namespace(c, "client"), theirs = node_namespace(writer, "client");
	struct larder_region *region;
	struct larder_put_stream *s;
	struct iovec iov;
	struct larder_item item = { .key = "slow", .key_len = 4, .iov = &iov, .iovcnt = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_GET, .ns = ns, .items = &item, .n_items = 1,
				  .flags = LARDER_F_WAIT, .deadline_ms = 20000 }, *done = NULL;
	uint64_t start;

	assert_int_equal(larder_region_alloc(c, 4096, 0, &region), 0);
	iov = (struct iovec){ larder_region_addr(region), 4096 };
	assert_int_equal(larder_put_begin(writer, theirs, "slow", 4, 4096, 20000, &s), LARDER_OK);
	assert_int_equal(larder_submit(c, &b), 0);
	sleep_ms(100);
	assert_int_equal(larder_poll(c, &done, 1), 0);
	assert_int_equal(larder_region_free(region), -EBUSY);
	start = now_ms();
	assert_int_equal(larder_cancel(c, &b), 0);
	while (larder_poll(c, &done, 1) != 1)
		assert_true(now_ms() < start + 10000);	/* not at its deadline */
	assert_ptr_equal(done, &b);
	assert_int_equal(item.status, LARDER_CANCELLED);
	assert_int_equal(larder_cancel(c, &b), -ENOENT);
	assert_int_equal(larder_region_free(region), 0);
	assert_int_equal(larder_put_abort(s), LARDER_OK);
	larder_close(writer);
	larder_close(c);
	assert_int_equal(node_stat_wait(&node, "connections", "regions", 0), 0);
}
BOTH(cancel__and_region_in_use)

/* --------------------------------------------------------------------------------------------- */

static int setup(void **state)
{
	/* small pages: thousands of small objects */
	node_setup(&node, "[memory]\nsize = 128M\npage_size = 4K\n");
	node_start(&node);
	return 0;
}

static int teardown(void **state)
{
	node_stop(&node);
	return 0;
}

#define EITHER(name) cmocka_unit_test(name##__tcp), cmocka_unit_test(name##__shm)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EITHER(scatter_lists),
		EITHER(batch__exists_with_a_hole),
		EITHER(batch__300_values),
		EITHER(list__5000_keys_with_a_prefix),
		EITHER(lease__twice_is_once),
		EITHER(stream__in_parts),
		EITHER(get__without_room),
		EITHER(threads__on_one_handle),
		EITHER(cancel__and_region_in_use),
	};
	int r = cmocka_run_group_tests(tests, setup, teardown);

	node_cleanup(&node);
	return r;
}
