/* SPDX-License-Identifier: Apache-2.0 */
/* loop's own promises: names, knobs, broken cables, and two threads on one pair. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "transport/loop.h"
#include "transport/registry.h"

static uint64_t fake_now;

static uint64_t fake_monotonic(void *user)
{
	return fake_now;
}

static const struct clock fake_clock = { .monotonic_ns = fake_monotonic };

static struct transport *open_loop(uint32_t max_conns)
{
	struct transport_config config = { .clock = &fake_clock, .max_conns = max_conns };
	struct transport *t;

	assert_int_equal(transport_loop()->open(&config, &t), 0);
	return t;
}

struct two {
	struct transport *a, *b;
	struct transport_conn *ca, *cb;
};

static void two_open(struct two *two, const char *name)
{
	struct transport_event ev;

	two->a = open_loop(0);
	two->b = open_loop(4);
	assert_int_equal(transport_loop()->listen(two->b, name), 0);
	assert_int_equal(transport_loop()->connect(two->a, name, NULL, &two->ca), 0);
	assert_int_equal(transport_poll(two->a, &ev, 1), 1);
	assert_int_equal(ev.type, TRANSPORT_CONN_UP);
	assert_int_equal(transport_poll(two->b, &ev, 1), 1);
	assert_int_equal(ev.type, TRANSPORT_CONN_UP);
	two->cb = ev.conn;
}

static void two_close(struct two *two)
{
	transport_loop()->close(two->a);
	transport_loop()->close(two->b);
}

static int send_bytes(struct transport_conn *c, void *data, size_t len)
{
	struct iovec iov = { .iov_base = data, .iov_len = len };
	struct transport_tx tx = { .type = TRANSPORT_SEND, .niov = 1, .iov = &iov };

	return transport_tx(c, &tx, 1);
}

static void post(struct transport_conn *c, void *data, uint32_t len)
{
	struct transport_rx rx = { .data = data, .length = len };

	assert_int_equal(transport_post_rx(c, &rx, 1), 0);
}

static void loop_listen__names(void **state)
{
	struct transport *a = open_loop(1), *b = open_loop(1);
	char name[100], text[16];

	memset(name, 'n', sizeof(name));
	name[99] = '\0';
	assert_int_equal(transport_loop()->bound(a, text, sizeof(text)), -ENOENT);
	assert_int_equal(transport_loop()->listen(a, ""), -EINVAL);
	assert_int_equal(transport_loop()->listen(a, NULL), -EINVAL);
	assert_int_equal(transport_loop()->listen(a, name), -EINVAL);
	assert_int_equal(transport_loop()->listen(a, "one"), 0);
	assert_int_equal(transport_loop()->listen(a, "two"), 0);
	assert_int_equal(transport_loop()->listen(b, "two"), -EADDRINUSE);
	assert_int_equal(transport_loop()->bound(a, text, sizeof(text)), 0);
	assert_string_equal(text, "two");
	assert_int_equal(transport_loop()->bound(a, text, 3), -ENOSPC);
	transport_loop()->close(a);
	assert_int_equal(transport_loop()->listen(b, "two"), 0);	/* free again */
	transport_loop()->close(b);
}

static void loop_open__needs_a_clock(void **state)
{
	struct transport_config config = { .max_conns = 1 };
	struct transport *t;

	assert_int_equal(transport_loop()->open(&config, &t), -EINVAL);
	assert_int_equal(transport_loop()->open(NULL, &t), -EINVAL);
}

/* Whoever was waiting in the backlog of a listener that closes is told. */
static void loop_close__with_a_backlog(void **state)
{
	struct transport *a = open_loop(0), *b = open_loop(1);
	struct transport_event ev[4];
	struct transport_conn *c;
	char byte;

	assert_int_equal(transport_loop()->listen(b, "backlog"), 0);
	assert_int_equal(transport_loop()->connect(a, "backlog", NULL, &c), 0);
	transport_loop()->close(b);
	post(c, &byte, 1);
	assert_int_equal(transport_poll(a, ev, 4), 4);
	assert_int_equal(ev[0].type, TRANSPORT_CONN_UP);
	assert_int_equal(ev[1].type, TRANSPORT_CONN_DOWN);
	assert_int_equal(ev[1].status, -ECONNRESET);
	assert_int_equal(ev[2].type, TRANSPORT_RX);
	assert_int_equal(ev[3].type, TRANSPORT_CONN_GONE);
	transport_loop()->close(a);
}

static void loop_set_knobs__refuses(void **state)
{
	struct loop_knobs knobs = { .delay_polls = LOOP_DELAY_MAX + 1 };
	struct transport_config config = { .clock = &fake_clock };
	struct transport *a = open_loop(0), *tcp;

	assert_int_equal(loop_set_knobs(a, &knobs), -EINVAL);
	knobs.delay_polls = LOOP_DELAY_MAX;
	assert_int_equal(loop_set_knobs(a, &knobs), 0);
	assert_int_equal(transport_tcp()->open(&config, &tcp), 0);
	assert_int_equal(loop_set_knobs(tcp, &knobs), -EINVAL);
	transport_tcp()->close(tcp);
	transport_loop()->close(a);
}

static void loop_knobs__max_move_is_bytes_per_poll(void **state)
{
	struct loop_knobs knobs = { .max_move = 3 };
	struct transport_event ev;
	char data[10] = "abcdefghi", got[10];
	struct two two;

	two_open(&two, "move");
	assert_int_equal(loop_set_knobs(two.b, &knobs), 0);
	assert_int_equal(send_bytes(two.ca, data, 10), 1);
	assert_int_equal(transport_poll(two.a, &ev, 1), 1);
	post(two.cb, got, 10);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(transport_poll(two.b, &ev, 1), 0);
	assert_int_equal(transport_poll(two.b, &ev, 1), 1);
	assert_memory_equal(data, got, 10);
	two_close(&two);
}

static void loop_knobs__delay_is_polls_of_the_receiver(void **state)
{
	struct loop_knobs knobs = { .delay_polls = 5 };
	struct transport_event ev;
	char data[4] = "xyz", got[4];
	struct two two;

	two_open(&two, "delay");
	assert_int_equal(loop_set_knobs(two.b, &knobs), 0);
	post(two.cb, got, 4);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(transport_poll(two.b, &ev, 1), 0);
	assert_int_equal(send_bytes(two.ca, data, 4), 1);
	assert_int_equal(transport_poll(two.a, &ev, 1), 1);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(transport_poll(two.b, &ev, 1), 0);
	assert_int_equal(transport_poll(two.b, &ev, 1), 1);
	assert_string_equal(got, "xyz");
	two_close(&two);
}

static void loop_knobs__break_after_a_number_of_bytes(void **state)
{
	struct loop_knobs knobs = { .break_after = 7 };
	struct transport_event ev[8];
	char data[10] = "abcdefghi", got[7], more[5];
	struct two two;

	two_open(&two, "break");
	assert_int_equal(loop_set_knobs(two.a, &knobs), 0);
	assert_int_equal(send_bytes(two.ca, data, 10), 1);
	post(two.cb, got, 7);
	post(two.cb, more, 5);
	assert_int_equal(transport_poll(two.a, ev, 8), 3);
	assert_int_equal(ev[0].type, TRANSPORT_CONN_DOWN);
	assert_int_equal(ev[0].status, -ECONNRESET);
	assert_int_equal(ev[1].type, TRANSPORT_TX_DONE);
	assert_int_equal(ev[1].status, -ECONNRESET);
	assert_int_equal(ev[2].type, TRANSPORT_CONN_GONE);
	assert_int_equal(transport_poll(two.b, ev, 8), 4);	/* 7 bytes had arrived */
	assert_int_equal(ev[0].type, TRANSPORT_RX);
	assert_memory_equal(got, data, 7);
	assert_int_equal(ev[1].type, TRANSPORT_CONN_DOWN);
	assert_int_equal(ev[1].status, -ECONNRESET);
	two_close(&two);
}

static void loop_break__loses_what_was_on_its_way(void **state)
{
	struct transport_event ev[8];
	char data[10] = "abcdefghi", got[20];
	struct two two;

	two_open(&two, "cable");
	assert_int_equal(send_bytes(two.ca, data, 10), 1);
	assert_int_equal(transport_poll(two.a, ev, 8), 1);
	assert_int_equal(ev[0].status, 0);
	post(two.cb, got, 20);
	assert_int_equal(loop_break(two.cb), 0);
	assert_int_equal(transport_poll(two.b, ev, 8), 3);
	assert_int_equal(ev[0].status, -ECONNRESET);
	assert_int_equal(ev[1].length, 0);
	assert_int_equal(loop_break(two.cb), -ENOTCONN);
	assert_int_equal(transport_poll(two.a, ev, 8), 2);
	assert_int_equal(ev[0].status, -ECONNRESET);
	two_close(&two);
}

static void loop_drain__a_stalled_peer_is_cut_by_the_clock(void **state)
{
	static char data[LOOP_RING_BYTES + 1000];
	struct transport_event ev[4];
	struct two two;

	two_open(&two, "stall");
	assert_int_equal(send_bytes(two.ca, data, sizeof(data)), 1);
	assert_int_equal(transport_disconnect(two.ca, true), 0);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(transport_poll(two.a, ev, 4), 0);
	fake_now += 10 * NSEC_PER_SEC;
	assert_int_equal(transport_poll(two.a, ev, 4), 3);
	assert_int_equal(ev[0].type, TRANSPORT_CONN_DOWN);
	assert_int_equal(ev[0].status, -ETIMEDOUT);
	assert_int_equal(ev[1].status, -ECANCELED);
	two_close(&two);
}

/* --- one side in a thread of its own --- */

#define THREAD_BYTES (8u << 20)
#define THREAD_PIECE 50000u

struct echo {
	struct transport *t;
	bool stop;	/* atomic */
	bool failed;	/* after the join */
};

/* Sends back what it gets, a piece at a time. */
static void *echo_main(void *arg)
{
	static uint8_t buf[THREAD_PIECE];
	struct echo *e = arg;

	while (!__atomic_load_n(&e->stop, __ATOMIC_ACQUIRE)) {
		struct transport_event ev;
		struct transport_rx rx = { .data = buf, .length = sizeof(buf) };
		int n = transport_poll(e->t, &ev, 1);

		if (n == 0)
			(void)sched_yield();	/* nothing to do for now */
		else if (n < 0)
			e->failed = true;
		else if (ev.type == TRANSPORT_RX && ev.status == 0)
			e->failed |= send_bytes(ev.conn, buf, sizeof(buf)) != 1;
		else if (ev.type == TRANSPORT_CONN_UP ||
			 (ev.type == TRANSPORT_TX_DONE && ev.status == 0))
			e->failed |= transport_post_rx(ev.conn, &rx, 1) != 0;
	}
	transport_loop()->close(e->t);
	return NULL;
}

/* Feeds the echo one round after the other and compares. */
static void talk(struct transport *a, struct transport_conn *c, unsigned rounds)
{
	static uint8_t out[THREAD_PIECE], in[THREAD_PIECE];

	for (unsigned i = 0; i < rounds; i++) {
		unsigned back = 0;

		for (size_t k = 0; k < sizeof(out); k++)
			out[k] = (uint8_t)(k * 7 + i);
		post(c, in, sizeof(in));
		assert_int_equal(send_bytes(c, out, sizeof(out)), 1);
		while (back < 2) {
			struct transport_event ev;
			int n = transport_poll(a, &ev, 1);

			assert_true(n >= 0);
			if (!n) {
				(void)sched_yield();	/* the other side's turn */
				continue;
			}
			assert_int_equal(ev.status, 0);
			back += ev.type == TRANSPORT_RX || ev.type == TRANSPORT_TX_DONE;
		}
		assert_memory_equal(in, out, sizeof(in));
	}
}

static void loop__two_threads(void **state)
{
	struct transport *a = open_loop(0);
	struct echo e = { .t = open_loop(8) };
	struct transport_conn *c;
	struct transport_event ev[4];
	pthread_t thread;

	assert_int_equal(transport_loop()->listen(e.t, "threads"), 0);
	assert_int_equal(pthread_create(&thread, NULL, echo_main, &e), 0);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(transport_loop()->connect(a, "threads", NULL, &c), 0);
		talk(a, c, THREAD_BYTES / THREAD_PIECE / 4);
		assert_int_equal(transport_disconnect(c, i % 2), 0);
		while (!transport_poll(a, ev, 4))
			;
	}
	assert_int_equal(transport_loop()->connect(a, "threads", NULL, &c), 0);
	__atomic_store_n(&e.stop, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(e.failed);
	transport_loop()->close(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loop_listen__names),
		cmocka_unit_test(loop_open__needs_a_clock),
		cmocka_unit_test(loop_close__with_a_backlog),
		cmocka_unit_test(loop_set_knobs__refuses),
		cmocka_unit_test(loop_knobs__max_move_is_bytes_per_poll),
		cmocka_unit_test(loop_knobs__delay_is_polls_of_the_receiver),
		cmocka_unit_test(loop_knobs__break_after_a_number_of_bytes),
		cmocka_unit_test(loop_break__loses_what_was_on_its_way),
		cmocka_unit_test(loop_drain__a_stalled_peer_is_cut_by_the_clock),
		cmocka_unit_test(loop__two_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
