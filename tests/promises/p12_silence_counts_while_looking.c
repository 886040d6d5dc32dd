/* SPDX-License-Identifier: Apache-2.0 */
/* P12: while the node does not look, no peer and no lease expires; requests' deadlines stand. */
#include "promise.h"

#include <signal.h>

#define IDLE 32
#define STOP_MS 3500			/* over keepalive and over the lease */

static void P12_a_stopped_node_expires_nobody(void **state)
{
	struct larder_client *idle[IDLE], *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "stopped");
	struct larder_client_info info;

	assert_int_equal(promise_put(c, ns, "leased", 5000, 1), LARDER_OK);
	for (unsigned i = 0; i < IDLE; i++)
		idle[i] = node_client(&node, i % 2 ? NODE_SHM : NODE_TCP);
	assert_int_equal(promise_ask(c, LARDER_OP_EXISTS, ns, "leased", LARDER_F_LEASE, 3, 2500,
				     NULL), LARDER_OK);
	node_signal(&node, SIGSTOP);
	sleep_ms(STOP_MS);
	node_signal(&node, SIGCONT);
	/* the lease had run out on the wall, not for the node */
	assert_int_equal(larder_delete(c, ns, "leased", 6, 0, 5000), LARDER_BUSY);
	assert_int_equal(node_stat(&node, "connections", "connections"), IDLE + 1);
	assert_int_equal(promise_get(c, ns, "leased", 5000, 1), LARDER_OK);
	/* and it does end, counted while the node looks */
	for (uint64_t end = now_ms() + 6000; larder_delete(c, ns, "leased", 6, 0, 5000);)
		assert_true(now_ms() < end);
	for (unsigned i = 0; i < IDLE; i++) {
		assert_int_equal(larder_ping(idle[i], 2000), LARDER_OK);
		larder_get_info(idle[i], &info);
		assert_int_equal(info.reconnects, 0);
		larder_close(idle[i]);
	}
	larder_close(c);
}

static void P12_a_crash_is_such_a_gap(void **state)
{
	struct larder_client *c = node_client(&node, NODE_SHM);
	uint32_t ns = node_namespace(c, "crash");

	assert_int_equal(promise_put(c, ns, "leased", 5000, 2), LARDER_OK);
	assert_int_equal(promise_ask(c, LARDER_OP_LEASE, ns, "leased", 0, 4, 2500, NULL),
			 LARDER_OK);
	node_kill(&node);
	sleep_ms(STOP_MS);
	node_start(&node);
	for (uint64_t end = now_ms() + 3000; larder_ping(c, 500) != LARDER_OK;)
		assert_true(now_ms() < end);
	assert_int_equal(larder_delete(c, ns, "leased", 6, 0, 5000), LARDER_BUSY);
	assert_int_equal(larder_delete(c, ns, "leased", 6, LARDER_F_FORCE, 5000), LARDER_OK);
	larder_close(c);
}

static void P12_deadlines_do_not_move(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "deadline");
	uint64_t start;
	int r;

	assert_int_equal(promise_put(c, ns, "k", 5000, 1), LARDER_OK);
	node_signal(&node, SIGSTOP);
	start = now_ms();
	r = larder_exists(c, ns, "k", 1, 400);
	assert_true(r == LARDER_DEADLINE || r == LARDER_DISCONNECTED);
	assert_true(now_ms() - start < 2000);
	node_signal(&node, SIGCONT);
	for (uint64_t end = now_ms() + 3000; larder_ping(c, 500) != LARDER_OK;)
		assert_true(now_ms() < end);
	assert_int_equal(promise_get(c, ns, "k", 5000, 1), LARDER_OK);
	larder_close(c);
}

PROMISE("[node]\nkeepalive = 2000\n", cmocka_unit_test(P12_a_stopped_node_expires_nobody),
	cmocka_unit_test(P12_a_crash_is_such_a_gap),
	cmocka_unit_test(P12_deadlines_do_not_move))
