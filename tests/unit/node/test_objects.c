/* SPDX-License-Identifier: Apache-2.0 */
/* Values and keys through the raw wire: every operation, sizes around every boundary. */
#include "speak.h"

#include "engine/engine.h"

static void put_get__sizes(void **state)
{
	static const size_t sizes[] = { 1, RIG_PAGE - 1, RIG_PAGE, RIG_PAGE + 1, 256 * 1024 - 1,
					256 * 1024, 256 * 1024 + 1, 1024 * 1024 + 3, 8u << 20 };
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		char key[32];

		snprintf(key, sizeof(key), "k%zu", sizes[i]);
		assert_int_equal(peer_get(p, ns, key, sizes[i]), LARDER_NOT_FOUND);
		assert_int_equal(peer_put_key(p, ns, key, sizes[i]), LARDER_OK);
		assert_int_equal(p->reply.u.put_done.size_bytes, sizes[i]);
		assert_true(p->reply.u.put_done.commit_time_ms > 1700000000000ull);
		assert_int_equal(peer_get(p, ns, key, sizes[i]), LARDER_OK);
		peer_check_value(p, key, sizes[i]);
		/* again: the same, and another value under the key */
		assert_int_equal(peer_put_key(p, ns, key, sizes[i]), LARDER_EXISTS_SAME);
		_cleanup_free_ uint8_t *other = value_make("x", sizes[i]);

		assert_int_equal(peer_put(p, &(struct put_options){ .ns = ns, .key = key,
						.value = other, .length = sizes[i] }),
				 LARDER_CONFLICT);
		assert_int_equal(peer_get(p, ns, key, sizes[i]), LARDER_OK);
		peer_check_value(p, key, sizes[i]);
	}
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void put__refused_and_the_stream_goes_on(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	size_t len = 600000, large = (8u << 20) + 1;
	_cleanup_free_ uint8_t *v = value_make("k", large);

	assert_int_equal(peer_put(p, &(struct put_options){ .ns = ns, .key = "k", .value = v,
					.length = len, .bad_check = true }), LARDER_CHECKSUM);
	assert_int_equal(peer_get(p, ns, "k", len), LARDER_NOT_FOUND);
	assert_int_equal(peer_put(p, &(struct put_options){ .ns = ns, .key = "k", .value = v,
					.length = large }), LARDER_TOO_LARGE);
	assert_int_equal(p->reply.u.error.detail, 8u << 20);
	assert_int_equal(peer_put(p, &(struct put_options){ .ns = ns + 77, .key = "k", .value = v,
					.length = len }), LARDER_NOT_FOUND);
	assert_int_equal(peer_put(p, &(struct put_options){ .ns = ns, .flags = 1u << 30, .key = "k",
					.value = v, .length = len }), LARDER_BAD_REQUEST);
	assert_int_equal(peer_put(p, &(struct put_options){ .ns = ns, .key = "k", .value = v,
					.length = len }), LARDER_OK);
	assert_int_equal(peer_get(p, ns, "k", len), LARDER_OK);
	peer_check_value(p, "k", len);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

/* The message and the value cut at every byte: the node sees each half by itself. */
static void put__split_at_every_byte(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p), n = 0;
	size_t len = 100;

	for (size_t cut = 1;; cut++) {
		char key[16];
		struct draft d;
		uint8_t wire[400];

		snprintf(key, sizeof(key), "k%03zu", cut);
		_cleanup_free_ uint8_t *v = value_make(key, len);

		draft_put(&d, p, &(struct put_options){ .ns = ns, .key = key, .value = v,
							 .length = len });
		assert_true(d.length + len <= sizeof(wire));
		memcpy(wire, d.buffer, d.length);
		memcpy(wire + d.length, v, len);
		if (cut == d.length + len)
			break;
		peer_write(p, wire, cut);
		rig_settle(r);
		peer_write(p, wire + cut, d.length + len - cut);
		assert_int_equal(peer_status(p), LARDER_OK);
		assert_int_equal(peer_get(p, ns, key, len), LARDER_OK);
		peer_check_value(p, key, len);
		n++;
	}
	assert_int_equal(n, WIRE_HEADER_SIZE + sizeof(struct wire_put) + 4 + 4 + len - 1);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void get__ranges(void **state)
{
	static const struct {
		uint64_t offset, length;
		uint32_t flags;
		int status;
		uint64_t moved;
		uint32_t n_checks;
	} cases[] = {
		{ 0, 10, 0, LARDER_OK, 10, 1 },
		{ 262144, 262144, 0, LARDER_OK, 262144, 1 },
		{ 262144, 262145, 0, LARDER_OK, 262145, 2 },
		{ 524288, 1u << 30, 0, LARDER_OK, 600000 - 524288, 1 },
		{ 100, 50, 0, LARDER_BAD_REQUEST, 0, 0 },
		{ 100, 50, LARDER_F_NO_CHECKS, LARDER_OK, 50, 0 },
		{ 599999, 50, LARDER_F_NO_CHECKS, LARDER_OK, 1, 0 },
		{ 600000, 1, LARDER_F_NO_CHECKS, LARDER_BAD_REQUEST, 0, 0 },
		{ 786432, 1, 0, LARDER_BAD_REQUEST, 0, 0 },
		{ UINT64_MAX, UINT64_MAX, LARDER_F_NO_CHECKS, LARDER_BAD_REQUEST, 0, 0 },
		{ 0, 0, 0, LARDER_BAD_REQUEST, 0, 0 },
	};
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	_cleanup_free_ uint8_t *v = value_make("k", 600000);

	assert_int_equal(peer_put_key(p, ns, "k", 600000), LARDER_OK);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		peer_send_get(p, ns, cases[i].flags, "k", cases[i].offset, cases[i].length, 0);
		assert_int_equal(peer_status(p), cases[i].status);
		if (cases[i].status != LARDER_OK)
			continue;
		assert_int_equal(p->reply.u.got.length, cases[i].moved);
		assert_int_equal(p->reply.u.got.n_checks, cases[i].n_checks);
		assert_int_equal(p->reply.u.got.size_bytes, 600000);
		assert_int_equal(p->h.payload_len, cases[i].moved);
		assert_memory_equal(p->payload, v + cases[i].offset, cases[i].moved);
		if (cases[i].n_checks)
			assert_int_equal(p->reply.u.got.first_check,
					 cases[i].offset / LARDER_CHECK_BLOCK);
	}
	/* too small: told before the first byte, with the size */
	assert_int_equal(peer_get(p, ns, "k", 599999), LARDER_TOO_SMALL);
	assert_int_equal(p->reply.u.error.detail, 600000);
	peer_send_get(p, ns, 0, "k", 786432, 1, 0);
	assert_int_equal(peer_status(p), LARDER_BAD_REQUEST);
	assert_int_equal(p->reply.u.error.detail, 600000);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void get__verify(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	uint8_t *pages;

	assert_int_equal(peer_put_key(p, ns, "k", 600000), LARDER_OK);
	/* a false report removes nothing */
	peer_send_get(p, ns, LARDER_F_VERIFY | LARDER_F_WHOLE, "k", 0, 0, 600000);
	assert_int_equal(peer_status(p), LARDER_OK);
	peer_check_value(p, "k", 600000);
	/* one bit of its pages turns: NOT_FOUND, and a new PUT succeeds */
	pages = r->memory->arena_map;
	for (size_t i = 0; i < r->memory->arena_map_bytes; i++)
		if (pages[i]) {
			pages[i] ^= 0x10;
			break;
		}
	peer_send_get(p, ns, LARDER_F_VERIFY | LARDER_F_WHOLE, "k", 0, 0, 600000);
	assert_int_equal(peer_status(p), LARDER_NOT_FOUND);
	assert_int_equal(peer_get(p, ns, "k", 600000), LARDER_NOT_FOUND);
	assert_int_equal(peer_put_key(p, ns, "k", 600000), LARDER_OK);
	assert_int_equal(peer_get(p, ns, "k", 600000), LARDER_OK);
	peer_check_value(p, "k", 600000);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void keys__exists_lease_delete_stat(void **state)
{
	static const char *const keys[] = { "a", "b", "absent", "c" };
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	struct wire_stat st;

	assert_int_equal(peer_put_key(p, ns, "a", 10), LARDER_OK);
	assert_int_equal(peer_put_key(p, ns, "b", 20), LARDER_OK);
	assert_int_equal(peer_put_key(p, ns, "c", 30), LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_EXISTS, ns, 0, 0, 0, keys, 4), LARDER_OK);
	assert_int_equal(p->reply.u.keys_done.n_keys, 4);
	assert_int_equal(p->reply.u.keys_done.leading_run, 2);
	assert_int_equal(peer_key_status(p, 0).presence, LARDER_PRESENT);
	assert_int_equal(peer_key_status(p, 2).presence, LARDER_ABSENT);
	assert_int_equal(peer_key_status(p, 3).presence, LARDER_PRESENT);

	assert_int_equal(peer_keys(p, LARDER_OP_EXISTS, ns, LARDER_F_LEASE, 9, 3600000, keys, 2),
			 LARDER_OK);
	assert_int_equal(p->reply.u.keys_done.lease_ms, r->config.lease_max_ms);
	assert_int_equal(peer_key_status(p, 0).presence, LARDER_LEASED);
	assert_int_equal(peer_keys(p, LARDER_OP_DELETE, ns, 0, 0, 0, keys, 4), LARDER_OK);
	assert_int_equal(peer_key_status(p, 0).status, LARDER_BUSY);
	assert_int_equal(peer_key_status(p, 2).status, LARDER_NOT_FOUND);
	assert_int_equal(peer_key_status(p, 3).status, LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_RELEASE, ns, 0, 9, 0, NULL, 0), LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_DELETE, ns, 0, 0, 0, keys, 1), LARDER_OK);
	assert_int_equal(peer_key_status(p, 0).status, LARDER_OK);

	assert_int_equal(peer_keys(p, LARDER_OP_STAT, ns, 0, 0, 0, keys, 2), LARDER_OK);
	memcpy(&st, p->reply.tail, sizeof(st));
	assert_int_equal(st.status, LARDER_NOT_FOUND);
	memcpy(&st, p->reply.tail + sizeof(st), sizeof(st));
	assert_int_equal(st.status, LARDER_OK);
	assert_int_equal(st.stat.size_bytes, 20);
	assert_int_equal(peer_keys(p, LARDER_OP_LEASE, ns, 0, 5, 1000, &keys[1], 1), LARDER_OK);
	assert_int_equal(p->reply.u.keys_done.lease_ms, 1000);
	assert_int_equal(rig_stats(r).leases, 1);
	assert_int_equal(peer_keys(p, LARDER_OP_PIN, ns, LARDER_F_HARD, 0, 0, &keys[1], 1),
			 LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_RELEASE, ns, 0, 5, 0, NULL, 0), LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_DELETE, ns, 0, 0, 0, &keys[1], 1), LARDER_OK);
	assert_int_equal(peer_key_status(p, 0).status, LARDER_BUSY);
	assert_int_equal(peer_keys(p, LARDER_OP_UNPIN, ns, LARDER_F_HARD, 0, 0, &keys[1], 1),
			 LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_PIN, ns, 0, 0, 0, &keys[2], 1), LARDER_NOT_FOUND);
	peer_close(p);
	rig_stop(r);
}

static void keys__a_thousand(void **state)
{
	static char text[1200][8];
	static const char *keys[1200];
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p), max = (uint32_t)WIRE_STAT_KEYS_MAX;

	for (uint32_t i = 0; i < 1200; i++) {
		snprintf(text[i], sizeof(text[i]), "k%u", i);
		keys[i] = text[i];
	}
	for (uint32_t i = 0; i < 1000; i += 100)
		assert_int_equal(peer_put_key(p, ns, keys[i], 5), LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_EXISTS, ns, 0, 0, 0, keys, 1000), LARDER_OK);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(peer_key_status(p, i).presence,
				 i % 100 ? LARDER_ABSENT : LARDER_PRESENT);
	assert_int_equal(peer_keys(p, LARDER_OP_EXISTS, ns, 0, 0, 0, keys, 1024), LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_EXISTS, ns, 0, 0, 0, keys, 1025),
			 LARDER_BAD_REQUEST);
	assert_int_equal(peer_keys(p, LARDER_OP_STAT, ns, 0, 0, 0, keys, max), LARDER_OK);
	assert_int_equal(p->reply.u.stats_done.n_keys, max);
	assert_int_equal(peer_keys(p, LARDER_OP_STAT, ns, 0, 0, 0, keys, max + 1),
			 LARDER_BAD_REQUEST);
	peer_close(p);
	rig_stop(r);
}

static int peer_list(struct peer *p, uint32_t ns, uint64_t cursor, uint32_t max, const char *prefix)
{
	const struct wire_list l = { .c = { .ns = ns }, .cursor = cursor, .max = max,
				     .prefix_len = (uint32_t)strlen(prefix) };
	struct draft d;

	draft_begin(&d);
	wire_append(&d.w, &l, sizeof(l));
	wire_append(&d.w, prefix, l.prefix_len);
	draft_finish(&d, p, LARDER_OP_LIST, 0);
	peer_write(p, d.buffer, d.length);
	return peer_status(p);
}

/* Counts what a whole listing tells; each call at most @max. */
static uint32_t list_all(struct peer *p, uint32_t ns, uint32_t max, const char *prefix)
{
	uint64_t cursor = 0;
	uint32_t total = 0;

	do {
		struct wire_list_entry e;
		const uint8_t *key;
		uint32_t pos = 0, n = 0;

		assert_int_equal(peer_list(p, ns, cursor, max, prefix), LARDER_OK);
		while (wire_list_entry_next(&p->reply, &pos, &e, &key) == 1) {
			assert_memory_equal(key, prefix, strlen(prefix));
			assert_int_equal(e.stat.size_bytes, 7);
			n++;
		}
		assert_int_equal(n, p->reply.u.listed.count);
		assert_true(n <= max);
		total += n;
		cursor = p->reply.u.listed.cursor;
	} while (cursor);
	return total;
}

static void list__pages_and_prefix(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);

	for (uint32_t i = 0; i < 400; i++) {
		char key[16];

		snprintf(key, sizeof(key), "%c%u", i % 4 ? 'x' : 'y', i);
		assert_int_equal(peer_put_key(p, ns, key, 7), LARDER_OK);
	}
	assert_int_equal(list_all(p, ns, 1000, ""), 400);
	assert_int_equal(list_all(p, ns, 7, ""), 400);
	assert_int_equal(list_all(p, ns, 50, "y"), 100);
	assert_int_equal(list_all(p, ns, 50, "zz"), 0);
	assert_int_equal(peer_list(p, ns + 1, 0, 10, ""), LARDER_NOT_FOUND);
	peer_close(p);
	rig_stop(r);
}

static void namespace__open_list_flush(void **state)
{
	struct larder_descriptor a = { .model = "llama", .tokens_per_block = 16 }, b = a;
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	struct wire_ns_entry e;
	const uint8_t *name;
	uint32_t n1, n2, pos = 0;

	assert_int_equal(peer_ns(p, LARDER_OP_NS_OPEN, "one", NULL, NULL), LARDER_NOT_FOUND);
	assert_int_equal(peer_ns(p, LARDER_OP_NS_CREATE, "one", &a, &n1), LARDER_OK);
	assert_int_equal(p->reply.u.ns_opened.flags, 1);
	assert_int_equal(peer_ns(p, LARDER_OP_NS_CREATE, "one", &a, &n2), LARDER_OK);
	assert_int_equal(p->reply.u.ns_opened.flags, 0);
	assert_int_equal(n1, n2);
	b.tokens_per_block = 32;
	assert_int_equal(peer_ns(p, LARDER_OP_NS_OPEN, "one", &b, NULL), LARDER_LAYOUT_MISMATCH);
	assert_int_equal(p->reply.tail_len, strlen("tokens_per_block"));
	assert_memory_equal(p->reply.tail, "tokens_per_block", p->reply.tail_len);
	assert_int_equal(peer_ns(p, LARDER_OP_NS_OPEN, "demo:one", NULL, &n2), LARDER_OK);
	assert_string_equal(p->reply.u.ns_opened.descriptor.model, "llama");
	assert_int_equal(peer_ns(p, LARDER_OP_NS_OPEN, "other:one", NULL, NULL), LARDER_NOT_FOUND);
	assert_int_equal(peer_ns(p, LARDER_OP_NS_CREATE, "demo:a:b", NULL, NULL),
			 LARDER_BAD_REQUEST);
	assert_int_equal(peer_put_key(p, n1, "k", 100), LARDER_OK);

	const struct wire_ns_list l = { .max = 0 };

	peer_request(p, LARDER_OP_NS_LIST, &l, sizeof(l));
	assert_int_equal(peer_status(p), LARDER_OK);
	assert_int_equal(p->reply.u.ns_listed.count, 1);
	assert_int_equal(wire_ns_entry_next(&p->reply, &pos, &e, &name), 1);
	assert_int_equal(e.objects, 1);
	assert_int_equal(e.bytes, 100);
	assert_memory_equal(name, "one", 3);

	const struct wire_ns_flush f = { .ns = n1 }, g = { .ns = n1 + 1 };

	peer_request(p, LARDER_OP_NS_FLUSH, &g, sizeof(g));
	assert_int_equal(peer_status(p), LARDER_NOT_FOUND);
	peer_request(p, LARDER_OP_NS_FLUSH, &f, sizeof(f));
	assert_int_equal(peer_status(p), LARDER_OK);
	assert_int_equal(p->reply.u.ns_flushed.objects, 1);
	assert_int_equal(p->reply.u.ns_flushed.bytes, 100);
	peer_close(p);
	rig_stop(r);
}

/* Nothing of one tenant is there for another, whatever it guesses. */
static void tenants__are_apart(void **state)
{
	static const char *const key[] = { "k" };
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login_as(r, "other", "tom");
	uint32_t na = peer_open_ns(a), nb = peer_open_ns(b);
	const struct wire_ns_flush f = { .ns = na, .flags = LARDER_F_FORCE };

	assert_int_not_equal(na, nb);
	assert_int_equal(peer_put_key(a, na, "k", 5000), LARDER_OK);
	assert_int_equal(peer_get(b, nb, "k", 5000), LARDER_NOT_FOUND);
	assert_int_equal(peer_get(b, na, "k", 5000), LARDER_NOT_FOUND);
	assert_int_equal(peer_put_key(b, na, "k2", 5000), LARDER_NOT_FOUND);
	assert_int_equal(peer_keys(b, LARDER_OP_DELETE, na, LARDER_F_FORCE, 0, 0, key, 1),
			 LARDER_NOT_FOUND);
	peer_request(b, LARDER_OP_NS_FLUSH, &f, sizeof(f));
	assert_int_equal(peer_status(b), LARDER_NOT_FOUND);
	assert_int_equal(peer_list(b, na, 0, 10, ""), LARDER_NOT_FOUND);
	assert_int_equal(peer_get(a, na, "k", 5000), LARDER_OK);
	peer_check_value(a, "k", 5000);
	peer_close(a);
	peer_close(b);
	rig_check_released(r);
	rig_stop(r);
}

static void bad_messages__are_answered(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint8_t junk[64] = { 0 };
	struct draft d;
	struct wire_header h;

	/* an operation that is none, a body that decodes to nothing, payload where none belongs */
	peer_request(p, 0x3f, junk, 16);
	assert_int_equal(peer_status(p), LARDER_UNSUPPORTED);
	peer_request(p, LARDER_OP_GET, junk, 16);
	assert_int_equal(peer_status(p), LARDER_BAD_REQUEST);
	peer_request(p, LARDER_OP_PUT, NULL, 0);
	assert_int_equal(peer_status(p), LARDER_BAD_REQUEST);
	draft_begin(&d);
	wire_append(&d.w, junk, sizeof(struct wire_ping));
	draft_finish(&d, p, LARDER_OP_PING, 64);
	peer_write(p, d.buffer, d.length);
	peer_write(p, junk, 64);
	assert_int_equal(peer_status(p), LARDER_BAD_REQUEST);
	assert_int_equal(peer_ping(p), LARDER_OK);
	/* a region on a transport without them */
	const struct wire_region_add add = { .region = 1, .size_bytes = 4096 };

	peer_request(p, LARDER_OP_REGION_ADD, &add, sizeof(add));
	assert_int_equal(peer_status(p), LARDER_UNSUPPORTED);
	/* a wrong checksum can't be answered */
	draft_struct(&d, p, LARDER_OP_PING, junk, sizeof(struct wire_ping));
	d.buffer[WIRE_HEADER_SIZE] ^= 1;
	peer_write(p, d.buffer, d.length);
	peer_expect_closed(p);
	peer_close(p);
	/* nor a reply, nor a body over the limit */
	p = peer_login(r);
	draft_begin(&d);
	wire_append(&d.w, junk, sizeof(struct wire_ping));
	assert_true(wire_finish(&d.w, LARDER_OP_PING, WIRE_REPLY, 0, 1, 0) > 0);
	peer_write(p, d.buffer, WIRE_HEADER_SIZE + sizeof(struct wire_ping));
	peer_expect_closed(p);
	peer_close(p);
	p = peer_login(r);
	h = (struct wire_header){ .op = LARDER_OP_PING, .body_len = WIRE_MESSAGE_MAX };
	h.magic = WIRE_MAGIC;
	h.version = WIRE_VERSION;
	peer_write(p, &h, sizeof(h));
	peer_expect_closed(p);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_get__sizes),
		cmocka_unit_test(put__refused_and_the_stream_goes_on),
		cmocka_unit_test(put__split_at_every_byte),
		cmocka_unit_test(get__ranges),
		cmocka_unit_test(get__verify),
		cmocka_unit_test(keys__exists_lease_delete_stat),
		cmocka_unit_test(keys__a_thousand),
		cmocka_unit_test(list__pages_and_prefix),
		cmocka_unit_test(namespace__open_list_flush),
		cmocka_unit_test(tenants__are_apart),
		cmocka_unit_test(bad_messages__are_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
