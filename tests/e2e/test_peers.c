/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers that misbehave: a hundred stalled readers, other protocols on the port, half messages,
 * wrong secrets, more requests than credits. Each costs itself its connection and nobody else
 * anything; counts return to where they were.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raw.h"

#define STALLED 100
#define VALUE (4u << 20)
/* As configured below: long enough for a good peer's handshake on a busy machine. */
#define HANDSHAKE_MS 4000

static struct node node;

static void others_are_served(void)
{
	for (int t = NODE_TCP; t <= NODE_SHM; t++) {
		struct larder_client *c = node_client(&node, (enum node_transport)t);
		uint32_t ns = node_namespace(c, "others");
		char b[8];
		size_t got;

		assert_true(larder_put(c, ns, "k", 1, "value", 5, 10000) <= LARDER_EXISTS_SAME);
		assert_int_equal(larder_get(c, ns, "k", 1, b, sizeof(b), &got, 10000), LARDER_OK);
		assert_int_equal(got, 5);
		larder_close(c);
	}
}

static void a_hundred_stalled_readers__bounded_and_dropped(void **state)
{
	static struct raw readers[STALLED];
	struct larder_client *c = node_client(&node, NODE_SHM);
	uint32_t ns = node_namespace(c, "stalled");
	uint8_t message[WIRE_MESSAGE_MAX];
	uint8_t *value = malloc(VALUE);
	uint64_t rss, rss_after;
	int64_t objects;

	assert_non_null(value);
	pattern_fill(value, VALUE, 1);
	assert_int_equal(larder_put(c, ns, "big", 3, value, VALUE, 10000), LARDER_OK);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(
			larder_put(c, ns, &(char){ (char)('a' + i) }, 1, value, 1000, 10000),
			LARDER_OK);
	objects = node_stat(&node, "objects", "objects");
	for (unsigned i = 0; i < STALLED; i++) {
		raw_connect(&readers[i], &node);
		assert_int_equal(raw_handshake(&readers[i], "demo", node.secret), LARDER_OK);
	}
	rss = node_rss_kib(&node);
	for (unsigned i = 0; i < STALLED; i++)
		for (unsigned k = 0; k < readers[i].welcome.credits; k++) {
			int len = raw_get_message(message, k + 10, ns, "big", VALUE);

			assert_true(raw_send(&readers[i], message, (size_t)len));
		}
	others_are_served();
	rss_after = node_rss_kib(&node);
	/* 6,400 answers of 4 MiB asked for: what the node holds for them stays under 100 MiB */
	assert_true(rss_after < rss + 100 * 1024);
	assert_int_equal(node_stat(&node, "objects", "evictions"), 0);
	/* stall_timeout is 2 s here: they are dropped, nothing was evicted, all is as before */
	for (unsigned i = 0; i < STALLED; i++) {
		assert_true(raw_closed(&readers[i], 20000));
		raw_close(&readers[i]);
	}
	assert_int_equal(node_stat_wait(&node, "connections", "connections", 1), 1);
	assert_int_equal(node_stat_wait(&node, "objects", "references", 0), 0);
	assert_int_equal(node_stat(&node, "objects", "objects"), objects + 1 /* of others */);
	larder_close(c);
	free(value);
}

static void other_protocols__are_turned_away(void **state)
{
#define WORDS(text) { text, sizeof(text) - 1 }	/* some hold zeros */
	static const struct {
		const char *text;
		size_t len;
	} words[] = {
		WORDS("GET / HTTP/1.1\r\nHost: node\r\n\r\n"),
		WORDS("*1\r\n$4\r\nPING\r\n"),
		WORDS("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and more bytes of a hello"),
		WORDS("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n and then what it sends to get going\r\n"),
	};
#undef WORDS

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t len = words[i].len;
		struct raw r;

		raw_connect(&r, &node);
		(void)raw_send(&r, words[i].text, len < 32 ? len : 32);
		if (len > 32)
			(void)raw_send(&r, words[i].text + 32, len - 32);
		if (len >= WIRE_HEADER_SIZE)
			assert_true(raw_closed(&r, HANDSHAKE_MS - 1000));
		else	/* less than a header: the handshake's time-out ends it */
			assert_true(raw_closed(&r, 20000));
		raw_close(&r);
	}
	others_are_served();
	assert_int_equal(node_stat_wait(&node, "connections", "connections", 0), 0);
}

static void wrong_secret_and_unknown_tenant__look_alike(void **state)
{
	struct raw r;

	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "demo", "not the secret"), LARDER_DENIED);
	assert_true(raw_closed(&r, HANDSHAKE_MS - 1000));
	raw_close(&r);
	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "nobody", "not the secret"), LARDER_DENIED);
	assert_true(raw_closed(&r, HANDSHAKE_MS - 1000));
	raw_close(&r);
	others_are_served();
}

static void half_messages__time_out(void **state)
{
	struct raw r;
	uint8_t message[WIRE_MESSAGE_MAX];
	uint8_t value[4096];
	uint32_t ns;
	int len;

	/* silent from the start */
	raw_connect(&r, &node);
	assert_true(raw_closed(&r, 20000));
	raw_close(&r);
	/* half a header (silence, for the node), half a body, half a payload */
	for (unsigned cut = 0; cut < 3; cut++) {
		raw_connect(&r, &node);
		assert_int_equal(raw_handshake(&r, "demo", node.secret), LARDER_OK);
		ns = raw_namespace(&r, "half");
		pattern_fill(value, sizeof(value), 9);
		len = raw_put_message(message, 77, ns, "half", value, sizeof(value));
		assert_true(raw_send(&r, message, cut == 0 ? 10 : cut == 1 ? 40 : (size_t)len));
		if (cut == 2)
			assert_true(raw_send(&r, value, 1000));
		assert_true(raw_closed(&r, 20000));
		raw_close(&r);
	}
	assert_int_equal(node_stat_wait(&node, "connections", "connections", 0), 0);
	assert_int_equal(node_stat_wait(&node, "objects", "filling", 0), 0);
	others_are_served();
}

static void over_credit__is_closed(void **state)
{
	struct raw r;
	uint8_t message[WIRE_MESSAGE_MAX];
	uint32_t ns;
	bool closed = false;

	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "demo", node.secret), LARDER_OK);
	ns = raw_namespace(&r, "others");
	/* nobody reads: every request stays in flight once the socket is full */
	for (unsigned i = 0; i < 40 * r.welcome.credits && !closed; i++) {
		int len = raw_get_message(message, 1000 + i, ns, "big-enough", VALUE);

		if (i == 0) {
			struct larder_client *c = node_client(&node, NODE_TCP);
			uint8_t *value = malloc(VALUE);

			pattern_fill(value, VALUE, 3);
			assert_true(larder_put(c, node_namespace(c, "others"), "big-enough", 10,
					       value, VALUE, 5000) <= LARDER_EXISTS_SAME);
			free(value);
			larder_close(c);
		}
		closed = !raw_send(&r, message, (size_t)len);
		if (i > 2 * r.welcome.credits)
			sleep_ms(1);
	}
	assert_true(closed || raw_closed(&r, 20000));
	raw_close(&r);
	assert_int_equal(node_stat_wait(&node, "objects", "references", 0), 0);
	others_are_served();
}

static int setup(void **state)
{
	node_setup(&node, "[memory]\nsize = 128M\n[node]\nstall_timeout = 2000\n"
			  "keepalive = 4000\nhandshake_timeout = 4000\n");
	node_start(&node);
	return 0;
}

static int teardown(void **state)
{
	node_stop(&node);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hundred_stalled_readers__bounded_and_dropped),
		cmocka_unit_test(other_protocols__are_turned_away),
		cmocka_unit_test(wrong_secret_and_unknown_tenant__look_alike),
		cmocka_unit_test(half_messages__time_out),
		cmocka_unit_test(over_credit__is_closed),
	};
	int r = cmocka_run_group_tests(tests, setup, teardown);

	node_cleanup(&node);
	return r;
}
