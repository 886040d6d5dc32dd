/* SPDX-License-Identifier: Apache-2.0 */
/* P2: a value becomes visible in one step, after its last byte; then to everybody. */
#include "promise.h"

#define LENGTH 600000u
#define READERS 6

static struct larder_client *readers[READERS];
static uint32_t ns_of[READERS];

static void readers_open(void)
{
	for (unsigned i = 0; i < READERS; i++) {
		readers[i] = node_client(&node, i % 2 ? NODE_SHM : NODE_TCP);
		ns_of[i] = node_namespace(readers[i], "half");
	}
}

static void readers_close(void)
{
	for (unsigned i = 0; i < READERS; i++)
		larder_close(readers[i]);
}

static void all_see(const char *key, int status)
{
	for (unsigned i = 0; i < READERS; i++) {
		assert_int_equal(larder_exists(readers[i], ns_of[i], key, strlen(key), 5000),
				 status);
		assert_int_equal(promise_get(readers[i], ns_of[i], key, LENGTH, 3), status);
	}
}

static void P2_an_inline_value_is_nothing_until_its_last_byte(void **state)
{
	static struct raw r;
	uint8_t message[WIRE_MESSAGE_MAX], *value = promise_value(LENGTH, 3);
	static const size_t cuts[] = { 0, 1, 300000, LENGTH - 1 };
	size_t sent = 0;
	int len;

	readers_open();
	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "demo", node.secret), LARDER_OK);
	len = raw_put_message(message, 9, raw_namespace(&r, "half"), "inline", value, LENGTH);
	assert_true(raw_send(&r, message, (size_t)len));
	for (unsigned i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		assert_true(raw_send(&r, value + sent, cuts[i] - sent));
		sent = cuts[i];
		assert_int_equal(node_stat_wait(&node, "objects", "filling", 1), 1);
		all_see("inline", LARDER_NOT_FOUND);
	}
	assert_true(raw_send(&r, value + sent, LENGTH - sent));
	assert_true(raw_reply(&r, 5000));
	assert_int_equal(r.header.status, LARDER_OK);
	all_see("inline", LARDER_OK);
	raw_close(&r);
	readers_close();
	free(value);
}

static void P2_a_value_in_parts_is_nothing_until_its_commit(void **state)
{
	uint8_t *value = promise_value(LENGTH, 3);

	readers_open();
	for (unsigned t = 0; t < 2; t++) {
		struct larder_put_stream *s;
		char key[16];

		snprintf(key, sizeof(key), "parts-%u", t);
		assert_int_equal(larder_put_begin(readers[t], ns_of[t], key, strlen(key), LENGTH,
						  20000, &s), 0);
		for (size_t at = 0; at < LENGTH; at += 100000) {
			assert_int_equal(larder_put_part(s, at, value + at, 100000), 0);
			all_see(key, LARDER_NOT_FOUND);
		}
		assert_int_equal(larder_put_commit(s), LARDER_OK);
		all_see(key, LARDER_OK);
	}
	readers_close();
	free(value);
}

static void P2_a_writer_that_leaves_leaves_nothing(void **state)
{
	static struct raw r;
	uint8_t message[WIRE_MESSAGE_MAX], *value = promise_value(LENGTH, 3);
	int64_t pages = node_stat(&node, "memory", "pages_free");
	int len;

	readers_open();
	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "demo", node.secret), LARDER_OK);
	len = raw_put_message(message, 9, raw_namespace(&r, "half"), "left", value, LENGTH);
	assert_true(raw_send(&r, message, (size_t)len));
	assert_true(raw_send(&r, value, LENGTH - 1));
	raw_close(&r);
	assert_int_equal(node_stat_wait(&node, "objects", "filling", 0), 0);
	assert_int_equal(node_stat_wait(&node, "memory", "pages_free", pages), pages);
	all_see("left", LARDER_NOT_FOUND);
	readers_close();
	free(value);
}

PROMISE("", cmocka_unit_test(P2_an_inline_value_is_nothing_until_its_last_byte),
	cmocka_unit_test(P2_a_value_in_parts_is_nothing_until_its_commit),
	cmocka_unit_test(P2_a_writer_that_leaves_leaves_nothing))
