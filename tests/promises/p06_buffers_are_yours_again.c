/* SPDX-License-Identifier: Apache-2.0 */
/* P6: nothing touches a buffer after its completion, whatever timed out, was cancelled or died. */
#include "promise.h"

#include <signal.h>

#define VALUE (16u << 20)
#define DEPTH 3

struct read {
	struct larder_item item;
	struct larder_batch batch;
	struct iovec iov;
	struct larder_region *region;
};

static void reads_submit(struct larder_client *c, uint32_t ns, struct read *f, uint32_t deadline)
{
	for (unsigned i = 0; i < DEPTH; i++) {
		assert_int_equal(larder_region_alloc(c, VALUE, 0, &f[i].region), 0);
		f[i].iov = (struct iovec){ larder_region_addr(f[i].region), VALUE };
		f[i].item = (struct larder_item){ .key = "big", .key_len = 3, .iov = &f[i].iov,
						  .iovcnt = 1 };
		f[i].batch = (struct larder_batch){ .opcode = LARDER_OP_GET, .ns = ns,
						    .deadline_ms = deadline, .items = &f[i].item,
						    .n_items = 1 };
		assert_int_equal(larder_submit(c, &f[i].batch), 0);
	}
}

/* Waits for all; each buffer is ours from then on: writes into it what only we know. */
static void reads_take_back(struct larder_client *c, struct read *f, unsigned within_ms)
{
	uint64_t end = now_ms() + within_ms;
	struct larder_batch *done;
	unsigned n = 0;

	while (n < DEPTH && now_ms() < end) {
		n += (unsigned)larder_poll(c, &done, 1);
		sleep_ms(1);
	}
	assert_int_equal(n, DEPTH);
	for (unsigned i = 0; i < DEPTH; i++) {
		if (f[i].item.status == LARDER_OK)
			assert_int_equal(pattern_check(f[i].iov.iov_base, VALUE, 1), -1);
		pattern_fill(f[i].iov.iov_base, VALUE, 1000 + i);
	}
}

static void reads_are_untouched(struct read *f)
{
	for (unsigned i = 0; i < DEPTH; i++) {
		assert_int_equal(pattern_check(f[i].iov.iov_base, VALUE, 1000 + i), -1);
		assert_int_equal(larder_region_free(f[i].region), 0);
	}
}

/* Stops (or kills) the node @after_ms into the reads. */
static void node_falls_silent(enum node_transport t, int signal, unsigned after_ms)
{
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "silent");
	struct read f[DEPTH];

	reads_submit(c, ns, f, 300);
	sleep_ms(after_ms);
	node_signal(&node, signal);
	reads_take_back(c, f, 3000);
	if (signal == SIGKILL) {
		assert_int_equal(node_wait(&node, 10000), 256 + SIGKILL);
		node_start(&node);
	} else {
		node_signal(&node, SIGCONT);
	}
	sleep_ms(150);			/* whatever it still had in its hands comes out now */
	reads_are_untouched(f);
	larder_close(c);
}

static void P6_a_stopped_node_touches_nothing_when_it_goes_on(void **state)
{
	for (int t = NODE_TCP; t <= NODE_SHM; t++)
		for (unsigned after = 0; after < 6; after++)
			node_falls_silent((enum node_transport)t, SIGSTOP, after);
}

static void P6_a_killed_node_gives_every_buffer_back(void **state)
{
	for (int t = NODE_TCP; t <= NODE_SHM; t++)
		for (unsigned after = 0; after < 3; after++)
			node_falls_silent((enum node_transport)t, SIGKILL, after);
}

static void P6_a_cancelled_read_touches_nothing_afterwards(void **state)
{
	for (int t = NODE_TCP; t <= NODE_SHM; t++) {
		struct larder_client *c = node_client(&node, (enum node_transport)t);
		uint32_t ns = node_namespace(c, "silent");
		struct read f[DEPTH];

		reads_submit(c, ns, f, 10000);
		for (unsigned i = 0; i < DEPTH; i++)
			assert_true(larder_cancel(c, &f[i].batch) <= 0);
		reads_take_back(c, f, 5000);
		assert_int_equal(larder_ping(c, 5000), LARDER_OK);
		sleep_ms(50);
		reads_are_untouched(f);
		larder_close(c);
	}
}

static void put_first(void)
{
	struct larder_client *c = node_client(&node, NODE_SHM);

	assert_true(promise_put(c, node_namespace(c, "silent"), "big", VALUE, 1) <=
		    LARDER_EXISTS_SAME);
	larder_close(c);
}

static void P6_a_put_that_timed_out_is_whole_or_absent(void **state)
{
	for (int t = NODE_TCP; t <= NODE_SHM; t++) {
		struct larder_client *c = node_client(&node, (enum node_transport)t);
		uint32_t ns = node_namespace(c, "timed-out");
		const char *key = node_transport_name((enum node_transport)t);
		uint8_t *value = promise_value(VALUE, 9);
		int r;

		node_signal(&node, SIGSTOP);
		r = larder_put(c, ns, key, 3, value, VALUE, 200);
		assert_true(r != LARDER_OK && r != LARDER_EXISTS_SAME);
		memset(value, 0, VALUE);	/* it is ours again */
		node_signal(&node, SIGCONT);
		for (uint64_t end = now_ms() + 3000; larder_ping(c, 500) != LARDER_OK;)
			assert_true(now_ms() < end);
		r = promise_get(c, ns, key, VALUE, 9);
		assert_true(r == LARDER_OK || r == LARDER_NOT_FOUND);
		larder_close(c);
		free(value);
	}
}

static int setup_values(void **state)
{
	put_first();
	return 0;
}

PROMISE("[memory]\nsize = 256M\n",
	cmocka_unit_test_setup(P6_a_stopped_node_touches_nothing_when_it_goes_on, setup_values),
	cmocka_unit_test_setup(P6_a_killed_node_gives_every_buffer_back, setup_values),
	cmocka_unit_test_setup(P6_a_cancelled_read_touches_nothing_afterwards, setup_values),
	cmocka_unit_test(P6_a_put_that_timed_out_is_whole_or_absent))
