/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RESP port as a stream: values of any size in pieces of any size, what breaks off, what is no
 * RESP, what stalls; and what RESP and native clients see of one another.
 */
#include "resp_speak.h"

static void check_end(struct rig *r)
{
	rig_settle(r);
	rig_check_released(r);
	rig_stop(r);
}

/* Around the sizes where something changes: the inbox, a check block, a piece, a page. */
static void values__of_all_sizes(void **state)
{
	static const size_t sizes[] = { 1, 4095, 4096, 4097, 16383, 16384, 16385, 70000, 262143,
					262144, 262145, 524288, 1000003, 4u << 20 };
	static const size_t pieces[] = { 1u << 20, 65536, 5000 };
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_open(&rr);

	for (size_t i = 0; i < ARRAY_SIZE(sizes) * ARRAY_SIZE(pieces); i++) {
		size_t len = sizes[i / ARRAY_SIZE(pieces)];
		char key[32];
		uint8_t *v;

		snprintf(key, sizeof(key), "k%zu", i);
		v = value_make(key, len);
		for (int again = 0; again < 2; again++) {	/* the second is the same */
			resp_set_bytes(p, key, v, len, pieces[i % ARRAY_SIZE(pieces)]);
			resp_expect(p, "+OK\r\n");
		}
		resp_get_bytes(p, key, v, len);
		v[len - 1] ^= 1;
		resp_set_bytes(p, key, v, len, 1u << 20);
		resp_expect_line(p, "-CONFLICT ");
		v[len - 1] ^= 1;
		resp_get_bytes(p, key, v, len);
		resp_do(p, "PING", "+PONG\r\n");
		snprintf(key, sizeof(key), "DEL k%zu", i);
		resp_do(p, key, ":1\r\n");
		free(v);
	}
	peer_close(p);
	check_end(r);
}

static void values__over_the_largest_are_passed_over(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr;
	struct peer *p;
	uint8_t *v = value_make("k", 3u << 20);

	r->config.max_value_bytes = 1u << 20;
	rr = resp_rig_open(r);
	p = resp_open(&rr);
	resp_set_bytes(p, "k", v, 3u << 20, 100000);
	resp_expect_line(p, "-TOO_LARGE ");
	resp_do(p, "GET k", "$-1\r\n");
	resp_raw(p, "*1\r\n$3145728\r\n");	/* a command of that name */
	for (size_t at = 0; at < 3u << 20; at += 1u << 19)
		peer_write(p, v + at, 1u << 19);
	resp_raw(p, "\r\n");
	resp_expect_line(p, "-ERR ");
	resp_do(p, "PING", "+PONG\r\n");
	free(v);
	peer_close(p);
	check_end(r);
}

/* Cut after each of a number of bytes: nothing is there, nothing is held. */
static void cut__leaves_nothing(void **state)
{
	static const size_t cuts[] = { 1, 3, 4, 12, 13, 20, 25, 33, 100, 16400, 40000, 100031,
				       100032 };
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	uint8_t *v = value_make("key", 100000);
	char *text = malloc(100100);
	struct peer *p;
	size_t len;

	assert_non_null(text);
	len = (size_t)sprintf(text, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$100000\r\n");
	memcpy(text + len, v, 100000);
	len += 100000;
	memcpy(text + len, "\r\n", 2);
	for (size_t i = 0; i < ARRAY_SIZE(cuts); i++) {
		p = resp_open(&rr);
		assert_true(cuts[i] < len + 2);
		peer_write(p, text, cuts[i]);
		rig_settle(r);
		peer_close(p);
		rig_check_released(r);
		assert_int_equal(rig_stats(r).objects, 0);
	}
	/* a line end that is none: no value either */
	p = resp_open(&rr);
	memcpy(text + len, "XY", 2);
	peer_write(p, text, len + 2);
	resp_expect_line(p, "-ERR Protocol error");
	peer_expect_closed(p);
	assert_int_equal(rig_stats(r).objects, 0);
	peer_close(p);
	free(text);
	free(v);
	check_end(r);
}

static void stranger__is_told_and_closed(void **state)
{
	static const char *const words[] = { "PING\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
					     "POST / HTTP/1.1\r\n\r\nSET a b\r\n", "\r\n",
					     "*1\r\n$-1\r\n" };
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);

	for (size_t i = 0; i < 2 * ARRAY_SIZE(words); i++) {
		struct peer *p = i % 2 ? resp_open(&rr) : resp_connect(&rr);

		peer_write(p, words[i / 2], strlen(words[i / 2]));
		resp_expect_line(p, "-ERR Protocol error: ");
		peer_expect_closed(p);
		peer_close(p);
	}
	check_end(r);
}

/* Before AUTH little is listened to, and not for long. */
static void stranger__holds_little(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_connect(&rr);

	resp_send(p, "A B C D E F G H I J K L M N O P Q");
	resp_expect_line(p, "-ERR ");
	resp_raw(p, "*2\r\n$4\r\nAUTH\r\n");
	rig_advance(r, r->config.handshake_timeout_ms + 100);
	peer_expect_closed(p);
	peer_close(p);
	check_end(r);
}

static void half_a_command__has_its_time(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *idle = resp_open(&rr), *slow = resp_open(&rr), *value = resp_open(&rr);

	resp_raw(slow, "*2\r\n$3\r\nGET\r\n");
	resp_raw(value, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000\r\nabc");
	/* a byte now and then does not help */
	for (int i = 0; i < 8 && !slow->down; i++) {
		rig_advance(r, r->config.stall_timeout_ms / 5);
		peer_send_raw(slow, i == 0 ? "$" : "0", 1);
		rig_settle(r);
	}
	rig_advance(r, 1000);
	peer_expect_closed(slow);
	peer_expect_closed(value);
	peer_close(slow);
	peer_close(value);
	rig_advance(r, 10 * r->config.keepalive_ms);
	resp_do(idle, "PING", "+PONG\r\n");	/* silence is no fault here */
	peer_close(idle);
	check_end(r);
}

/* Who asks and does not read costs a bounded number of references, then its connection. */
static void slow_reader__is_bounded(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_open(&rr), *q = resp_open(&rr);
	uint8_t *v = value_make("k", 1u << 20);

	resp_set_bytes(p, "k", v, 1u << 20, 1u << 20);
	resp_expect(p, "+OK\r\n");
	for (int i = 0; i < 300; i++)
		peer_send_raw(q, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 20);
	rig_settle(r);
	assert_in_range(rig_stats(r).references, 1, 2 * (r->config.credits + 1));
	rig_advance(r, r->config.stall_timeout_ms + 1000);
	peer_expect_closed(q);
	resp_get_bytes(p, "k", v, 1u << 20);
	peer_close(q);
	peer_close(p);
	free(v);
	check_end(r);
}

/* A second SET of a key waits for the first, however the first ends. */
static void two_writers__second_waits(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *a = resp_open(&rr), *b = resp_open(&rr);

	resp_raw(a, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\nsa");
	rig_settle(r);
	resp_send(b, "SET k same");
	rig_settle(r);
	resp_raw(a, "me\r\n");
	resp_expect(a, "+OK\r\n");
	resp_expect(b, "+OK\r\n");
	/* the first gives up */
	resp_raw(a, "*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$4\r\nxx");
	rig_settle(r);
	resp_send(b, "SET l mine");
	rig_settle(r);
	peer_close(a);
	resp_expect_line(b, "-BUSY ");
	resp_do(b, "SET l mine", "+OK\r\n");
	/* or never comes back */
	a = resp_open(&rr);
	resp_raw(a, "*3\r\n$3\r\nSET\r\n$1\r\nm\r\n$4\r\nxx");
	rig_settle(r);
	resp_send(b, "SET m mine");
	rig_settle(r);
	rig_advance(r, r->config.resp.wait_ms + 100);
	resp_expect_line(b, "-DEADLINE ");
	peer_close(a);
	peer_close(b);
	check_end(r);
}

static void native__sees_the_same_objects(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_open(&rr), *q = peer_login(r);
	const char *key = "meta-llama/x:y@8@3@00ff@bf16";
	uint8_t *v = value_make(key, 300000);
	uint32_t ns;

	resp_set_bytes(p, key, v, 300000, 65536);
	resp_expect(p, "+OK\r\n");
	assert_int_equal(peer_ns(q, LARDER_OP_NS_OPEN, "meta-llama/x%3Ay", NULL, &ns),
			 LARDER_OK);
	assert_int_equal(peer_get(q, ns, key, 1u << 20), LARDER_OK);
	assert_true(q->reply.u.got.flags & LARDER_F_CHECKED_BY_NODE);
	peer_check_value(q, key, 300000);
	/* the other way round, and its first writer wins */
	assert_int_equal(peer_ns(q, LARDER_OP_NS_CREATE, "resp", NULL, &ns), LARDER_OK);
	assert_int_equal(peer_put_key(q, ns, "k", 5000), LARDER_OK);
	free(v);
	v = value_make("k", 5000);
	resp_get_bytes(p, "k", v, 5000);
	resp_do_line(p, "SET k other", "-CONFLICT ");
	resp_set_bytes(p, "k", v, 5000, 5000);
	resp_expect(p, "+OK\r\n");
	free(v);
	peer_close(q);
	peer_close(p);
	check_end(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values__of_all_sizes),
		cmocka_unit_test(values__over_the_largest_are_passed_over),
		cmocka_unit_test(cut__leaves_nothing),
		cmocka_unit_test(stranger__is_told_and_closed),
		cmocka_unit_test(stranger__holds_little),
		cmocka_unit_test(half_a_command__has_its_time),
		cmocka_unit_test(slow_reader__is_bounded),
		cmocka_unit_test(two_writers__second_waits),
		cmocka_unit_test(native__sees_the_same_objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
