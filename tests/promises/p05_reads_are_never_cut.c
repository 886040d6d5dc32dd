/* SPDX-License-Identifier: Apache-2.0 */
/* P5: eviction, delete and the end of a lease wait for a read under way; it is late, not wrong. */
#include "promise.h"

#define BIG (24u << 20)

static struct raw reader;

/* Asks for the object and reads the head of the answer: the rest waits in the node. */
static void read_begin(const char *ns_name)
{
	uint8_t message[WIRE_MESSAGE_MAX];
	int len;

	raw_connect(&reader, &node);
	assert_int_equal(raw_handshake(&reader, "demo", node.secret), LARDER_OK);
	len = raw_get_message(message, 5, raw_namespace(&reader, ns_name), "big", BIG);
	assert_true(raw_send(&reader, message, (size_t)len));
	assert_true(raw_reply(&reader, 5000));
	assert_int_equal(reader.header.status, LARDER_OK);
}

static void read_end(uint64_t seed)
{
	uint8_t *back = malloc(BIG);

	assert_non_null(back);
	assert_true(raw_read(&reader, back, BIG, 20000));
	assert_int_equal(pattern_check(back, BIG, seed), -1);
	raw_close(&reader);
	assert_int_equal(node_stat_wait(&node, "objects", "references", 0), 0);
	free(back);
}

static void flood(struct larder_client *c, unsigned from)
{
	uint32_t ns = node_namespace(c, "flood");
	char key[24];

	for (unsigned i = from; i < from + 1500; i++) {
		snprintf(key, sizeof(key), "flood-%u", i);
		assert_int_equal(promise_put(c, ns, key, 65536, i), LARDER_OK);
	}
}

static void P5_delete_waits_for_the_reader(void **state)
{
	struct larder_client *c = node_client(&node, NODE_SHM);
	uint32_t ns = node_namespace(c, "deleted");

	assert_int_equal(promise_put(c, ns, "big", BIG, 11), LARDER_OK);
	read_begin("deleted");
	assert_int_equal(larder_delete(c, ns, "big", 3, LARDER_F_FORCE, 5000), LARDER_OK);
	assert_int_equal(promise_get(c, ns, "big", BIG, 11), LARDER_NOT_FOUND);
	flood(c, 0);
	read_end(11);
	larder_close(c);
}

static void P5_eviction_and_a_short_lease_wait_for_the_reader(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "evicted");

	assert_int_equal(promise_put(c, ns, "big", BIG, 12), LARDER_OK);
	assert_int_equal(promise_ask(c, LARDER_OP_LEASE, ns, "big", 0, 1, 50, NULL), LARDER_OK);
	read_begin("evicted");
	sleep_ms(100);			/* the lease is over */
	flood(c, 10000);
	read_end(12);
	larder_close(c);
}

/* A reader that never reads is dropped after the stall time, and holds nothing then. */
static void P5_a_reader_that_stalls_holds_for_a_bounded_time(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "stalled");
	int64_t pages = node_stat(&node, "memory", "pages_free");

	assert_int_equal(promise_put(c, ns, "big", BIG, 13), LARDER_OK);
	read_begin("stalled");
	assert_int_equal(larder_delete(c, ns, "big", 3, LARDER_F_FORCE, 5000), LARDER_OK);
	for (uint64_t end = now_ms() + 10000; node_stat(&node, "objects", "references") > 0;) {
		assert_true(now_ms() < end);
		sleep_ms(20);
	}
	assert_true(node_stat_wait(&node, "memory", "pages_free", pages) >= pages);
	raw_close(&reader);
	larder_close(c);
}

/* Over shared memory the node writes into the reader's own: a delete in the middle cuts nothing. */
static void P5_readers_by_shared_memory_are_not_cut_either(void **state)
{
	struct larder_client *c = node_client(&node, NODE_SHM), *d = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "shared"), ns_d = node_namespace(d, "shared");
	struct larder_region *region;
	struct iovec iov;
	unsigned whole = 0;

	assert_int_equal(larder_region_alloc(c, BIG, 0, &region), 0);
	iov = (struct iovec){ larder_region_addr(region), BIG };
	for (uint64_t i = 0; i < 20; i++) {
		struct larder_item item = { .key = "big", .key_len = 3, .iov = &iov, .iovcnt = 1 };
		struct larder_batch b = { .opcode = LARDER_OP_GET, .ns = ns, .deadline_ms = 20000,
					  .items = &item, .n_items = 1 }, *done;

		assert_int_equal(promise_put(c, ns, "big", BIG, 100 + i), LARDER_OK);
		assert_int_equal(larder_submit(c, &b), 0);
		assert_int_equal(larder_delete(d, ns_d, "big", 3, LARDER_F_FORCE, 10000),
				 LARDER_OK);
		while (larder_poll(c, &done, 1) == 0)
			sleep_ms(1);
		assert_true(item.status == LARDER_OK || item.status == LARDER_NOT_FOUND);
		if (item.status == LARDER_OK)
			assert_int_equal(pattern_check(iov.iov_base, BIG, 100 + i), -1);
		whole += item.status == LARDER_OK;
	}
	assert_true(whole > 0);
	assert_int_equal(larder_region_free(region), 0);
	larder_close(d);
	larder_close(c);
}

PROMISE("[node]\nstall_timeout = 2000\n", cmocka_unit_test(P5_delete_waits_for_the_reader),
	cmocka_unit_test(P5_readers_by_shared_memory_are_not_cut_either),
	cmocka_unit_test(P5_eviction_and_a_short_lease_wait_for_the_reader),
	cmocka_unit_test(P5_a_reader_that_stalls_holds_for_a_bounded_time))
