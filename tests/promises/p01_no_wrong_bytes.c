/* SPDX-License-Identifier: Apache-2.0 */
/* P1: a GET gives exactly what was put, or an error; what went bad heals by a new PUT. */
#include "promise.h"

#define BIG (3u * LARDER_CHECK_BLOCK + 777u)

static void P1_bytes_are_those_that_were_put(void **state)
{
	static const size_t sizes[] = { 1, 4095, 65536, 65537, LARDER_CHECK_BLOCK,
					LARDER_CHECK_BLOCK + 1, BIG };

	for (int t = NODE_TCP; t <= NODE_SHM; t++) {
		struct larder_client *c = node_client(&node, (enum node_transport)t);
		uint32_t ns = node_namespace(c, node_transport_name((enum node_transport)t));

		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			char key[16];

			snprintf(key, sizeof(key), "k%u", i);
			assert_int_equal(promise_put(c, ns, key, sizes[i], i + 1), LARDER_OK);
			assert_int_equal(promise_get(c, ns, key, sizes[i], i + 1), LARDER_OK);
		}
		larder_close(c);
	}
}

/* A range's status; when it is OK its bytes must be right. */
static int range(struct larder_client *c, uint32_t ns, const uint8_t *value, uint64_t offset,
		 size_t len)
{
	uint8_t *back = calloc(1, len);
	struct iovec iov = { back, len };
	struct larder_item item = { .key = "bad", .key_len = 3, .iov = &iov, .iovcnt = 1,
				    .offset = offset, .length = len };
	struct larder_batch b = { .opcode = LARDER_OP_GET, .ns = ns, .deadline_ms = 10000,
				  .items = &item, .n_items = 1 };

	assert_non_null(back);
	assert_true(larder_run(c, &b) >= 0);
	if (item.status == LARDER_OK)
		assert_memory_equal(back, value + offset, len);
	free(back);
	return item.status;
}

static void P1_a_flipped_byte_is_an_error_and_heals(void **state)
{
	uint8_t *value = promise_value(BIG, 77);

	for (int t = NODE_TCP; t <= NODE_SHM; t++) {
		struct larder_client *c = node_client(&node, (enum node_transport)t);
		uint32_t ns = node_namespace(c, "flipped");
		struct larder_client_info info;

		assert_int_equal(promise_put(c, ns, "bad", BIG, 77), LARDER_OK);
		promise_flip(77, BIG, LARDER_CHECK_BLOCK + 100);
		/* a block that is good is served, the bad one never */
		assert_int_equal(range(c, ns, value, 5, 1000), LARDER_OK);
		assert_int_equal(promise_get(c, ns, "bad", BIG, 77), LARDER_NOT_FOUND);
		larder_get_info(c, &info);
		assert_true(info.checksum_errors > 0);
		assert_int_equal(range(c, ns, value, 5, 1000), LARDER_NOT_FOUND);
		assert_int_equal(promise_put(c, ns, "bad", BIG, 77), LARDER_OK);
		assert_int_equal(promise_get(c, ns, "bad", BIG, 77), LARDER_OK);
		assert_int_equal(larder_delete(c, ns, "bad", 3, 0, 5000), LARDER_OK);
		larder_close(c);
	}
	assert_int_equal(node_stat(&node, "objects", "quarantined"), 2);
	free(value);
}

static void P1_a_false_report_removes_nothing(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "false-report");
	int64_t quarantined = node_stat(&node, "objects", "quarantined");
	uint8_t *back = malloc(BIG);
	struct iovec iov = { back, BIG };
	struct larder_item item = { .key = "good", .key_len = 4, .iov = &iov, .iovcnt = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_GET, .ns = ns, .flags = LARDER_F_VERIFY,
				  .deadline_ms = 10000, .items = &item, .n_items = 1 };

	assert_non_null(back);
	assert_int_equal(promise_put(c, ns, "good", BIG, 5), LARDER_OK);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(larder_run(c, &b), LARDER_OK);
		assert_int_equal(pattern_check(back, BIG, 5), -1);
	}
	assert_int_equal(node_stat(&node, "objects", "quarantined"), quarantined);
	larder_close(c);
	free(back);
}

/* A writer whose checks are not those of its bytes stores nothing. */
static void P1_checks_are_compared_before_the_commit(void **state)
{
	static struct raw r;
	uint8_t message[WIRE_MESSAGE_MAX], *value = promise_value(70000, 8);
	uint32_t ns;
	int len;

	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "demo", node.secret), LARDER_OK);
	ns = raw_namespace(&r, "lies");
	len = raw_put_message(message, 9, ns, "lie", value, 70000);
	value[69999] ^= 1;
	assert_true(raw_send(&r, message, (size_t)len));
	assert_true(raw_send(&r, value, 70000));
	assert_true(raw_reply(&r, 5000));
	assert_int_equal(r.header.status, LARDER_CHECKSUM);
	len = raw_get_message(message, 10, ns, "lie", 70000);
	assert_true(raw_send(&r, message, (size_t)len));
	assert_true(raw_reply(&r, 5000));
	assert_int_equal(r.header.status, LARDER_NOT_FOUND);
	raw_close(&r);
	free(value);
}

/* "engine.scrub" off: here the reader is to find it, not the scrubber */
PROMISE("[engine]\nscrub = 0\n",
	cmocka_unit_test(P1_bytes_are_those_that_were_put),
	cmocka_unit_test(P1_a_flipped_byte_is_an_error_and_heals),
	cmocka_unit_test(P1_a_false_report_removes_nothing),
	cmocka_unit_test(P1_checks_are_compared_before_the_commit))
