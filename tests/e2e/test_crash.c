/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 of clients in mid-transfer: every count of the node is back at its start. kill -9 of the
 * node: leases hold. (Of the node under load: test_torture.c.)
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"

#define VALUE (8u << 20)
#define CHILDREN 12

static struct node node;

/* Puts and gets for ever, until it is killed. */
static void child_main(enum node_transport t, unsigned index, bool put)
{
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "crash");
	struct larder_region *region = NULL;
	uint8_t *memory;

	if (larder_region_alloc(c, VALUE, 0, &region))
		_exit(1);
	memory = larder_region_addr(region);
	pattern_fill(memory, VALUE, index);
	for (unsigned i = 0;; i++) {
		char key[32];
		size_t got;

		snprintf(key, sizeof(key), "child-%u-%u", index, i % 4);
		if (put) {
			(void)larder_put(c, ns, key, strlen(key), memory, VALUE, 5000);
			(void)larder_delete(c, ns, key, strlen(key), 0, 5000);
		} else {
			(void)larder_get(c, ns, "shared", 6, memory, VALUE, &got, 5000);
		}
	}
}

static void kill_clients_in_mid_transfer__counts_return(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "crash");
	uint8_t *value = malloc(VALUE), *back = malloc(VALUE);
	unsigned fds, fds_after;
	size_t got;
	int64_t pages_free;

	pattern_fill(value, VALUE, 42);
	assert_int_equal(larder_put(c, ns, "shared", 6, value, VALUE, 10000), LARDER_OK);
	pages_free = node_stat(&node, "memory", "pages_free");
	/* the question's own connection may still be closing, here as at the end */
	fds = node_fds(&node);
	for (unsigned i = 0; i < 100; i++) {
		unsigned now = node_fds(&node);

		fds = now < fds ? now : fds;
		sleep_ms(5);
	}
	for (unsigned round = 0; round < 4; round++) {
		pid_t pids[CHILDREN];

		for (unsigned i = 0; i < CHILDREN; i++) {
			pids[i] = fork();
			assert_true(pids[i] >= 0);
			if (pids[i] == 0)
				child_main(i % 2 ? NODE_TCP : NODE_SHM, i, i % 4 < 2);
		}
		assert_true(node_stat_wait(&node, "connections", "connections", CHILDREN + 1) ==
			    CHILDREN + 1);
		sleep_ms(150 + round * 37);
		for (unsigned i = 0; i < CHILDREN; i++) {
			int status;

			assert_int_equal(kill(pids[i], SIGKILL), 0);
			assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
			assert_true(WIFSIGNALED(status));	/* it had not ended by itself */
		}
		assert_int_equal(node_stat_wait(&node, "connections", "connections", 1), 1);
		assert_int_equal(node_stat_wait(&node, "connections", "regions", 0), 0);
		assert_int_equal(node_stat_wait(&node, "objects", "references", 0), 0);
		assert_int_equal(node_stat_wait(&node, "objects", "filling", 0), 0);
		assert_int_equal(larder_get(c, ns, "shared", 6, back, VALUE, &got, 5000),
				 LARDER_OK);
		assert_memory_equal(value, back, VALUE);
	}
	/* what the children had put and not deleted is an object like any other */
	for (unsigned i = 0; i < CHILDREN; i++)
		for (unsigned k = 0; k < 4; k++) {
			char key[32];
			int r;

			snprintf(key, sizeof(key), "child-%u-%u", i, k);
			r = larder_delete(c, ns, key, strlen(key), 0, 5000);
			assert_true(r == LARDER_OK || r == LARDER_NOT_FOUND);
		}
	assert_int_equal(node_stat_wait(&node, "memory", "pages_free", pages_free), pages_free);
	/* the last question's own connection may still be closing */
	for (uint64_t end = now_ms() + 20000;
	     (fds_after = node_fds(&node)) > fds && now_ms() < end;)
		sleep_ms(5);
	assert_int_equal(fds, fds_after);
	larder_close(c);
	free(value);
	free(back);
}

/* A lease that was promised before the crash holds after it. */
static void leases_survive_a_crash(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "leases");
	struct larder_item item = { .key = "leased", .key_len = 6 };
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .ns = ns, .flags = LARDER_F_LEASE,
				  .lease_id = 99, .lease_ms = 30000, .deadline_ms = 5000,
				  .items = &item, .n_items = 1 };

	assert_int_equal(larder_put(c, ns, "leased", 6, "bytes", 5, 5000), LARDER_OK);
	assert_int_equal(larder_run(c, &b), LARDER_OK);
	assert_int_equal(item.presence, LARDER_LEASED);
	assert_int_equal(larder_delete(c, ns, "leased", 6, 0, 5000), LARDER_BUSY);
	node_kill(&node);
	node_start(&node);
	/* the handle finds the node again by itself: within a second on an idle machine */
	for (uint64_t end = now_ms() + 10000; larder_ping(c, 500) != LARDER_OK;)
		assert_true(now_ms() < end);
	assert_int_equal(larder_delete(c, ns, "leased", 6, 0, 5000), LARDER_BUSY);
	b.opcode = LARDER_OP_RELEASE;
	b.flags = 0;
	assert_int_equal(larder_run(c, &b), LARDER_OK);
	assert_int_equal(larder_delete(c, ns, "leased", 6, 0, 5000), LARDER_OK);
	larder_close(c);
}

static int setup(void **state)
{
	node_setup(&node, "[memory]\nsize = 512M\n");
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
		cmocka_unit_test(kill_clients_in_mid_transfer__counts_return),
		cmocka_unit_test(leases_survive_a_crash),
	};
	int r = cmocka_run_group_tests(tests, setup, teardown);

	node_cleanup(&node);
	return r;
}
