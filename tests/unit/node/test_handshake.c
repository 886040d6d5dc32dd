/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake, what it refuses, and strangers on the port. */
#include "speak.h"

static const struct hello_options demo = { .tenant = "demo", .secret = RIG_SECRET };

static const struct larder_node_section *section(struct rig *r, void **map, size_t *size)
{
	int fd = larder_node_ledger_fd(r->node);
	const struct larder_ledger_header *h;

	assert_true(fd >= 0);
	*size = (size_t)lseek(fd, 0, SEEK_END);
	*map = mmap(NULL, *size, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(*map, MAP_FAILED);
	close(fd);
	h = *map;
	return (const void *)((const char *)*map + h->section[LARDER_SECTION_NODE].offset);
}

static void handshake__good(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_connect(r);

	assert_int_equal(rig_stats(r).unauthenticated, 1);
	assert_int_equal(peer_handshake(p, &demo), LARDER_OK);
	assert_int_equal(p->welcome.credits, r->config.credits);
	assert_int_equal(p->welcome.check_block, LARDER_CHECK_BLOCK);
	assert_int_equal(p->welcome.page_size, RIG_PAGE);
	assert_int_equal(p->welcome.max_value_bytes, r->config.max_value_bytes);
	assert_int_equal(p->welcome.max_message, WIRE_MESSAGE_MAX);
	assert_int_equal(p->welcome.capabilities & WIRE_CAP_ONE_SIDED, 0);
	assert_int_equal(rig_stats(r).unauthenticated, 0);
	assert_int_equal(rig_stats(r).connections, 1);
	assert_int_equal(peer_ping(p), LARDER_OK);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void handshake__keepalive_wish(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_connect(r);

	assert_int_equal(peer_handshake(p, &(struct hello_options){ .tenant = "demo",
			 .secret = RIG_SECRET, .keepalive_ms = 2000 }), LARDER_OK);
	assert_int_equal(p->welcome.keepalive_ms, 2000);
	peer_close(p);
	p = peer_connect(r);
	assert_int_equal(peer_handshake(p, &(struct hello_options){ .tenant = "demo",
			 .secret = RIG_SECRET, .keepalive_ms = UINT32_MAX }), LARDER_OK);
	assert_int_equal(p->welcome.keepalive_ms, r->config.keepalive_ms);
	peer_close(p);
	rig_stop(r);
}

/* An unknown tenant and a wrong secret get the same answer, in the same number of messages. */
static void handshake__denied(void **state)
{
	const struct hello_options bad[] = {
		{ .tenant = "demo", .secret = "wrong horse" },
		{ .tenant = "nobody", .secret = RIG_SECRET },
		{ .tenant = "demo", .secret = NULL },
		{ .tenant = "other", .secret = RIG_SECRET },
	};
	struct rig *r = rig_start();
	const struct larder_node_section *v;
	char first[256] = "";
	size_t size;
	void *map;

	v = section(r, &map, &size);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct peer *p = peer_connect(r);
		char text[256];

		assert_int_equal(peer_handshake(p, &bad[i]), LARDER_DENIED);
		assert_int_equal(p->h.op, LARDER_OP_AUTH);
		snprintf(text, sizeof(text), "%.*s", (int)p->reply.tail_len,
			 (const char *)p->reply.tail);
		if (i == 0)
			strcpy(first, text);
		assert_string_equal(text, first);
		peer_expect_closed(p);
		peer_close(p);
		assert_int_equal(v->auth_failures, i + 1);
	}
	munmap(map, size);
	rig_check_released(r);
	rig_stop(r);
}

static void handshake__two_secrets(void **state)
{
	struct rig *r = rig_start();

	peer_close(peer_login_as(r, "other", "tom"));
	peer_close(peer_login_as(r, "other", "jerry"));
	assert_int_equal(larder_node_tenant_add(r->node, "other", "spike", 5, NULL, 0), 0);
	peer_close(peer_login_as(r, "other", "spike"));
	struct peer *p = peer_connect(r);

	assert_int_equal(peer_handshake(p, &(struct hello_options){ .tenant = "other",
								     .secret = "jerry" }),
			 LARDER_DENIED);
	peer_close(p);
	rig_stop(r);
}

/* What a removed tenant holds ends, nobody is let in as it, and what it had stays. */
static void tenant__is_removed_and_comes_back(void **state)
{
	struct rig *r = rig_new();

	r->config.reactors = 2;
	rig_open(r);
	struct peer *a = peer_login(r), *b = peer_login(r);
	struct peer *other = peer_login_as(r, "other", "tom"), *late;
	const struct hello_options old = { .tenant = "demo", .secret = RIG_SECRET };
	uint32_t ns = peer_open_ns(a);

	assert_int_equal(larder_node_tenant_remove(r->node, "nobody"), -ENOENT);
	assert_int_equal(larder_node_tenant_remove(r->node, NULL), -ENOENT);
	assert_int_equal(peer_put_key(a, ns, "k", 100000), LARDER_OK);
	put_partly(b, ns, "l", 5000, 100, 0);
	assert_int_equal(larder_node_tenant_remove(r->node, "demo"), 0);
	assert_int_equal(larder_node_tenant_remove(r->node, "demo"), -ENOENT);
	peer_expect_closed(a);
	assert_non_null(strstr(r->last_line, "demo was removed"));
	peer_expect_closed(b);
	assert_false(other->down);
	assert_int_equal(peer_ping(other), LARDER_OK);
	assert_int_equal(rig_stats(r).filling, 0);
	assert_int_equal(rig_stats(r).objects, 1);
	late = peer_connect(r);
	assert_int_equal(peer_handshake(late, &old), LARDER_DENIED);
	peer_expect_closed(late);
	peer_close(late);
	/* no secret is no secret: an empty one proves nothing */
	late = peer_connect(r);
	assert_int_equal(peer_handshake(late, &(struct hello_options){ .tenant = "demo" }),
			 LARDER_DENIED);
	peer_expect_closed(late);
	peer_close(late);
	peer_close(a);
	peer_close(b);
	assert_int_equal(larder_node_tenant_add(r->node, "demo", "new", 3, NULL, 0), 0);
	late = peer_login_as(r, "demo", "new");
	assert_int_equal(peer_ns(late, LARDER_OP_NS_OPEN, "m", NULL, &ns), LARDER_OK);
	assert_int_equal(peer_get(late, ns, "k", 100000), LARDER_OK);
	peer_check_value(late, "k", 100000);
	peer_close(late);
	peer_close(other);
	rig_check_released(r);
	rig_stop(r);
}

/* Gone and back before a reactor looks: sessions of before still end. */
static void tenant__is_removed_and_back_at_once(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *half = peer_connect(r);
	const struct hello_options o = { .tenant = "demo", .secret = RIG_SECRET };
	struct draft hello;

	peer_hello(half, &o, &hello);
	peer_write(half, hello.buffer, hello.length);
	assert_int_equal(peer_status(half), LARDER_OK);
	assert_int_equal(larder_node_tenant_remove(r->node, "demo"), 0);
	assert_int_equal(larder_node_tenant_add(r->node, "demo", RIG_SECRET, strlen(RIG_SECRET),
						NULL, 0), 0);
	peer_expect_closed(a);
	peer_close(a);
	a = peer_login(r);
	assert_int_equal(peer_ping(a), LARDER_OK);
	peer_close(a);
	peer_close(half);
	rig_check_released(r);
	rig_stop(r);
}

static void handshake__refused(void **state)
{
	const struct {
		struct hello_options o;
		int status;
	} bad[] = {
		{ { .tenant = "demo", .secret = RIG_SECRET, .version = WIRE_VERSION + 1 },
		  LARDER_UNSUPPORTED },
		{ { .tenant = "demo", .secret = RIG_SECRET, .check_block = 4096 },
		  LARDER_UNSUPPORTED },
		{ { .tenant = "demo", .secret = RIG_SECRET, .role = WIRE_ROLE_VIEWER },
		  LARDER_DENIED },	/* loop has no peer credentials */
		{ { .tenant = "demo", .secret = RIG_SECRET, .role = 7 }, LARDER_BAD_REQUEST },
	};
	struct rig *r = rig_start();

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct peer *p = peer_connect(r);

		assert_int_equal(peer_handshake(p, &bad[i].o), bad[i].status);
		assert_true(p->reply.is_error && p->reply.tail_len > 10);
		peer_expect_closed(p);
		peer_close(p);
	}
	larder_node_drain(r->node, true);
	struct peer *p = peer_connect(r);

	assert_int_equal(peer_handshake(p, &demo), LARDER_DRAINING);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void handshake__other_words_first(void **state)
{
	const uint8_t ops[] = { LARDER_OP_AUTH, LARDER_OP_GET, LARDER_OP_NS_LIST };
	const uint8_t zeros[64] = { 0 };
	struct rig *r = rig_start();

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		struct peer *p = peer_connect(r);
		int status;

		peer_request(p, ops[i], zeros, wire_op_info(ops[i])->request_size);
		status = peer_status(p);
		assert_true(status == LARDER_DENIED || status == -1);
		peer_expect_closed(p);
		peer_close(p);
	}
	/* PING alone is allowed, and keeps nothing open beyond the handshake's time */
	struct peer *p = peer_connect(r);

	assert_int_equal(peer_ping(p), LARDER_OK);
	assert_int_equal(peer_handshake(p, &demo), LARDER_OK);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void handshake__timeout(void **state)
{
	struct rig *r = rig_start();
	struct peer *silent = peer_connect(r), *pinging = peer_connect(r);

	rig_advance(r, r->config.handshake_timeout_ms / 2);
	assert_int_equal(peer_ping(pinging), LARDER_OK);
	assert_false(silent->down);
	rig_advance(r, r->config.handshake_timeout_ms / 2 + 200);
	peer_expect_closed(silent);
	peer_expect_closed(pinging);
	peer_close(silent);
	peer_close(pinging);
	rig_check_released(r);
	rig_stop(r);
}

static void connection__limits(void **state)
{
	struct rig *r = rig_new();
	struct peer *in[3], *late;

	r->config.max_unauthenticated = 2;
	r->config.max_connections = 3;
	rig_open(r);
	in[0] = peer_connect(r);
	in[1] = peer_connect(r);
	late = peer_connect(r);
	peer_expect_closed(late);
	peer_close(late);
	assert_int_equal(peer_handshake(in[0], &demo), LARDER_OK);
	assert_int_equal(peer_handshake(in[1], &demo), LARDER_OK);
	in[2] = peer_connect(r);
	assert_int_equal(peer_handshake(in[2], &demo), LARDER_OK);
	late = peer_connect(r);
	peer_expect_closed(late);
	peer_close(late);
	for (int i = 0; i < 3; i++)
		peer_close(in[i]);
	rig_check_released(r);
	peer_close(peer_login(r));
	rig_stop(r);
}

/* Whoever knocks with another protocol is shown out at once, with one line for all of them. */
static void stranger__is_closed_at_once(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *word;
	} strangers[] = {
		{ "GET / HTTP/1.1\r\n", 16, "HTTP" },
		{ "\x16\x03\x01\x02\x00\x01", 6, "TLS" },
		{ "PING\r\n", 6, "Redis" },
		{ "*1\r\n$4\r\n", 8, "Redis" },
		{ "\0\0\0\0\0\0\0\0", 8, "no message of ours" },
		{ "LRDR\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
		  "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 32, "" },
	};
	struct rig *r = rig_start();
	const struct larder_node_section *v;
	size_t size;
	void *map;

	v = section(r, &map, &size);
	for (size_t i = 0; i < ARRAY_SIZE(strangers); i++) {
		struct peer *p = peer_connect(r);

		rig_advance(r, 1200);	/* or its line would be held back */
		peer_send_raw(p, strangers[i].bytes, strangers[i].len);
		peer_expect_closed(p);
		assert_non_null(strstr(r->last_line, strangers[i].word));
		assert_int_equal(v->protocol_errors, i + 1);
		peer_close(p);
	}
	uint32_t lines = r->lines;

	for (int i = 0; i < 50; i++) {
		struct peer *p = peer_connect(r);

		peer_send_raw(p, "GET / HTTP/1.0\r\n\r\n", 18);
		peer_expect_closed(p);
		peer_close(p);
	}
	assert_true(r->lines - lines <= 1);
	assert_int_equal(v->protocol_errors, ARRAY_SIZE(strangers) + 50);
	munmap(map, size);
	rig_check_released(r);
	rig_stop(r);
}

/* Random bytes after a good magic, and a good handshake with one bit flipped anywhere. */
static void garbage__never_opens_a_session(void **state)
{
	struct rig *r = rig_start();
	struct draft hello;

	for (uint32_t bit = 0; bit < 120 * 8; bit += 7) {
		struct peer *p = peer_connect(r);

		peer_hello(p, &demo, &hello);
		hello.buffer[bit / 8] ^= (uint8_t)(1u << bit % 8);
		peer_send_raw(p, hello.buffer, hello.length);
		/* a longer body_len waits for bytes that never come: its time runs out */
		rig_settle(r);
		if (!p->down)
			rig_advance(r, r->config.handshake_timeout_ms + 200);
		peer_expect_closed(p);
		peer_close(p);
	}
	rig_check_released(r);
	rig_stop(r);
}

static void session__hello_again(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	struct draft hello;

	peer_hello(p, &demo, &hello);
	peer_write(p, hello.buffer, hello.length);
	assert_int_equal(peer_status(p), LARDER_BAD_REQUEST);
	assert_int_equal(peer_ping(p), LARDER_OK);
	peer_close(p);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handshake__good),
		cmocka_unit_test(handshake__keepalive_wish),
		cmocka_unit_test(handshake__denied),
		cmocka_unit_test(handshake__two_secrets),
		cmocka_unit_test(tenant__is_removed_and_comes_back),
		cmocka_unit_test(tenant__is_removed_and_back_at_once),
		cmocka_unit_test(handshake__refused),
		cmocka_unit_test(handshake__other_words_first),
		cmocka_unit_test(handshake__timeout),
		cmocka_unit_test(connection__limits),
		cmocka_unit_test(stranger__is_closed_at_once),
		cmocka_unit_test(garbage__never_opens_a_session),
		cmocka_unit_test(session__hello_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
