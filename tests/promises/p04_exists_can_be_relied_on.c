/* SPDX-License-Identifier: Apache-2.0 */
/* P4: what EXISTS has leased is there for as long as the lease, whatever others put or delete. */
#include "promise.h"

#define KEYS 40
#define LENGTH 65536u
#define FLOOD 2500			/* over twice the memory */

static void key_of(char *key, size_t size, const char *kind, unsigned i)
{
	snprintf(key, size, "%s-%u", kind, i);
}

/* All KEYS in one EXISTS with a lease; how many it says are leased, and the leading run. */
static unsigned lease_all(struct larder_client *c, uint32_t ns, uint32_t lease_ms, uint32_t *run)
{
	static char keys[KEYS + 1][24];
	struct larder_item items[KEYS + 1] = { 0 };
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .ns = ns, .flags = LARDER_F_LEASE,
				  .lease_id = 4711, .lease_ms = lease_ms, .deadline_ms = 10000,
				  .items = items, .n_items = KEYS + 1 };
	unsigned leased = 0;

	for (unsigned i = 0; i < KEYS; i++)
		key_of(keys[i], sizeof(keys[i]), "kept", i);
	strcpy(keys[KEYS], "nowhere");
	for (unsigned i = 0; i <= KEYS; i++)
		items[i] = (struct larder_item){ .key = keys[i], .key_len = strlen(keys[i]) };
	assert_true(larder_run(c, &b) >= 0);
	for (unsigned i = 0; i < KEYS; i++)
		leased += items[i].presence == LARDER_LEASED;
	assert_int_equal(items[KEYS].presence, LARDER_ABSENT);
	*run = b.leading_run;
	return leased;
}

static void P4_leased_objects_outlive_a_flood(void **state)
{
	struct larder_client *c = node_client(&node, NODE_SHM);
	uint32_t ns = node_namespace(c, "leased"), run;
	char key[24];

	for (unsigned i = 0; i < KEYS; i++) {
		key_of(key, sizeof(key), "kept", i);
		assert_int_equal(promise_put(c, ns, key, LENGTH, i), LARDER_OK);
	}
	assert_int_equal(lease_all(c, ns, 600000, &run), KEYS);
	assert_int_equal(run, KEYS);
	for (unsigned i = 0; i < FLOOD; i++) {
		key_of(key, sizeof(key), "flood", i);
		assert_int_equal(promise_put(c, ns, key, LENGTH, i), LARDER_OK);
	}
	assert_true(node_stat(&node, "objects", "evictions") > FLOOD / 3);
	for (unsigned i = 0; i < KEYS; i++) {
		key_of(key, sizeof(key), "kept", i);
		assert_int_equal(promise_get(c, ns, key, LENGTH, i), LARDER_OK);
		assert_int_equal(larder_delete(c, ns, key, strlen(key), 0, 5000), LARDER_BUSY);
	}
	larder_close(c);
}

static void P4_delete_and_flush_are_busy_unless_forced(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "busy");
	uint64_t objects, bytes;
	uint8_t presence;

	assert_int_equal(promise_put(c, ns, "a", LENGTH, 1), LARDER_OK);
	assert_int_equal(promise_put(c, ns, "b", LENGTH, 2), LARDER_OK);
	assert_int_equal(promise_ask(c, LARDER_OP_EXISTS, ns, "a", LARDER_F_LEASE, 7, 30000,
				     &presence), LARDER_OK);
	assert_int_equal(presence, LARDER_LEASED);
	assert_int_equal(larder_ns_flush(c, ns, false, 5000, &objects, &bytes), LARDER_BUSY);
	assert_int_equal(objects, 1);
	assert_int_equal(promise_get(c, ns, "a", LENGTH, 1), LARDER_OK);
	assert_int_equal(promise_get(c, ns, "b", LENGTH, 2), LARDER_NOT_FOUND);
	assert_int_equal(larder_delete(c, ns, "a", 1, 0, 5000), LARDER_BUSY);
	/* its end gives the object up */
	assert_int_equal(promise_ask(c, LARDER_OP_RELEASE, ns, "a", 0, 7, 0, NULL), LARDER_OK);
	assert_int_equal(larder_delete(c, ns, "a", 1, 0, 5000), LARDER_OK);
	assert_int_equal(promise_put(c, ns, "a", LENGTH, 1), LARDER_OK);
	assert_int_equal(promise_ask(c, LARDER_OP_LEASE, ns, "a", 0, 8, 30000, NULL), LARDER_OK);
	assert_int_equal(larder_delete(c, ns, "a", 1, LARDER_F_FORCE, 5000), LARDER_OK);
	larder_close(c);
}

/* A lease ends at its time, and not a moment before. */
static void P4_a_lease_lasts_as_long_as_it_was_granted(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "times");
	uint64_t start, end, objects, bytes;
	struct larder_stat st;

	assert_int_equal(promise_put(c, ns, "k", LENGTH, 1), LARDER_OK);
	start = now_ms();
	assert_int_equal(promise_ask(c, LARDER_OP_LEASE, ns, "k", 0, 3, 1500, NULL), LARDER_OK);
	assert_int_equal(larder_stat(c, ns, "k", 1, 0, 5000, &st), LARDER_OK);
	assert_true(st.lease_ms <= 1500);
	while (larder_delete(c, ns, "k", 1, 0, 5000) == LARDER_BUSY)
		assert_true(now_ms() < start + 15000);
	end = now_ms();
	assert_true(end >= start + 1500);
	/* and a flush that is forced asks no lease */
	assert_int_equal(promise_put(c, ns, "k", LENGTH, 1), LARDER_OK);
	assert_int_equal(promise_ask(c, LARDER_OP_LEASE, ns, "k", 0, 4, 600000, NULL), LARDER_OK);
	assert_int_equal(larder_ns_flush(c, ns, true, 5000, &objects, &bytes), 0);
	assert_int_equal(objects, 1);
	assert_int_equal(promise_get(c, ns, "k", LENGTH, 1), LARDER_NOT_FOUND);
	larder_close(c);
}

PROMISE("[engine]\nlease_max = 600000\n",
	cmocka_unit_test(P4_leased_objects_outlive_a_flood),
	cmocka_unit_test(P4_delete_and_flush_are_busy_unless_forced),
	cmocka_unit_test(P4_a_lease_lasts_as_long_as_it_was_granted))
