/* SPDX-License-Identifier: Apache-2.0 */
/* P7: what was acknowledged is there after kill -9, what was deleted stays deleted. */
#include "promise.h"

#define KEYS 300
#define ROUNDS 5

static size_t length_of(unsigned i)
{
	return 1 + i * 977u % 150000;
}

static void reconnect(struct larder_client *c)
{
	for (uint64_t end = now_ms() + 5000; larder_ping(c, 500) != LARDER_OK;)
		assert_true(now_ms() < end);
}

/* Puts all, deletes every third, begins some; then the node dies without a word. */
static void P7_acknowledged_stays_and_deleted_stays_away(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "survives");
	int64_t pages = node_stat(&node, "memory", "pages_free");
	struct larder_put_stream *begun;
	char key[24];

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < KEYS; i++) {
			snprintf(key, sizeof(key), "k-%u", i);
			assert_int_equal(promise_put(c, ns, key, length_of(i), i), LARDER_OK);
			if (i % 3 == 0)
				assert_int_equal(larder_delete(c, ns, key, strlen(key), 0, 5000),
						 LARDER_OK);
		}
		assert_int_equal(larder_put_begin(c, ns, "half", 4, 5 << 20, 20000, &begun), 0);
		assert_int_equal(larder_put_part(begun, 0, "begun", 5), 0);
		node_kill(&node);
		node_start(&node);
		(void)larder_put_abort(begun);
		reconnect(c);
		for (unsigned i = 0; i < KEYS; i++) {
			snprintf(key, sizeof(key), "k-%u", i);
			assert_int_equal(promise_get(c, ns, key, length_of(i), i),
					 i % 3 ? LARDER_OK : LARDER_NOT_FOUND);
			if (i % 3)
				assert_int_equal(larder_delete(c, ns, key, strlen(key), 0, 5000),
						 LARDER_OK);
		}
		assert_int_equal(larder_exists(c, ns, "half", 4, 5000), LARDER_NOT_FOUND);
		assert_int_equal(node_stat_wait(&node, "memory", "pages_free", pages), pages);
	}
	larder_close(c);
}

static void P7_leases_pins_and_descriptors_survive(void **state)
{
	const struct larder_descriptor d = { .model = "llama-3.1-8b", .dtype = "bf16",
					     .bytes_per_block = 4096 };
	struct larder_client *c = node_client(&node, NODE_SHM);
	struct larder_descriptor back;
	uint32_t ns;

	assert_int_equal(larder_ns_open(c, "described", &d, LARDER_NS_CREATE, 5000, &ns), 0);
	assert_int_equal(promise_put(c, ns, "leased", 4096, 1), LARDER_OK);
	assert_int_equal(promise_put(c, ns, "pinned", 4096, 2), LARDER_OK);
	assert_int_equal(promise_ask(c, LARDER_OP_LEASE, ns, "leased", 0, 9, 500000, NULL),
			 LARDER_OK);
	assert_int_equal(promise_ask(c, LARDER_OP_PIN, ns, "pinned", LARDER_F_HARD, 0, 0, NULL),
			 LARDER_OK);
	for (unsigned round = 0; round < 2; round++) {
		if (round)		/* the polite way keeps them too */
			node_stop(&node);
		else
			node_kill(&node);
		node_start(&node);
		reconnect(c);
		assert_int_equal(larder_delete(c, ns, "leased", 6, 0, 5000), LARDER_BUSY);
		assert_int_equal(larder_delete(c, ns, "pinned", 6, 0, 5000), LARDER_BUSY);
		assert_int_equal(promise_get(c, ns, "leased", 4096, 1), LARDER_OK);
		assert_int_equal(larder_ns_descriptor(c, ns, &back), 0);
		assert_memory_equal(&back, &d, sizeof(d));
	}
	assert_int_equal(promise_ask(c, LARDER_OP_RELEASE, ns, "leased", 0, 9, 0, NULL), LARDER_OK);
	assert_int_equal(promise_ask(c, LARDER_OP_UNPIN, ns, "pinned", LARDER_F_HARD, 0, 0, NULL),
			 LARDER_OK);
	assert_int_equal(larder_delete(c, ns, "leased", 6, 0, 5000), LARDER_OK);
	assert_int_equal(larder_delete(c, ns, "pinned", 6, 0, 5000), LARDER_OK);
	larder_close(c);
}

PROMISE("[engine]\nlease_max = 600000\n",
	cmocka_unit_test(P7_acknowledged_stays_and_deleted_stays_away),
	cmocka_unit_test(P7_leases_pins_and_descriptors_survive))
