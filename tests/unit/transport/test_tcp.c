/* SPDX-License-Identifier: Apache-2.0 */
/* How tcp connections end: half-closed, reset, drained, lingering, deserted, forked. */
#include "tcp_peer.h"

#include <sys/wait.h>

static void tcp_half_close__what_was_accepted_is_still_sent(void **state)
{
	static uint8_t data[6u << 20], got[1u << 16];
	struct peer p;
	char word[5];
	size_t total = 0;

	peer_open(&p, 0);
	peer_post(&p, word, sizeof(word));
	peer_post(&p, got, sizeof(got));	/* it will be half full at the end */
	assert_int_equal(write(p.raw, "hello!", 6), 6);
	peer_until(&p, TRANSPORT_RX, 1);
	assert_memory_equal(word, "hello", 5);
	peer_send(&p, data, sizeof(data));
	assert_int_equal(shutdown(p.raw, SHUT_WR), 0);
	assert_int_equal(fcntl(p.raw, F_SETFL, O_NONBLOCK), 0);
	for (unsigned i = 0; i < 20; i++)
		(void)peer_step(&p);
	assert_int_equal(peer_count(&p, TRANSPORT_CONN_DOWN), 0);
	for (;;) {
		static uint8_t sink[1u << 18];
		ssize_t r = read(p.raw, sink, sizeof(sink));

		if (r > 0)
			total += (size_t)r;
		if (r == 0 || (r < 0 && errno != EAGAIN))
			break;
		(void)peer_step(&p);
	}
	assert_int_equal(total, sizeof(data));
	peer_until(&p, TRANSPORT_CONN_GONE, 1);
	assert_int_equal(peer_event(&p, TRANSPORT_CONN_DOWN)->status, 0);
	assert_int_equal(peer_event(&p, TRANSPORT_TX_DONE)->status, 0);
	assert_int_equal(peer_event(&p, TRANSPORT_RX)->length, 1);
	peer_close(&p);
}

static void tcp_reset__what_had_arrived_is_received_first(void **state)
{
	uint8_t got[2][50], data[100];
	struct peer p;

	peer_open(&p, 0);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	assert_int_equal(write(p.raw, data, 70), 70);
	raw_reset(&p);
	peer_post(&p, got[0], 50);
	peer_post(&p, got[1], 50);
	peer_until(&p, TRANSPORT_CONN_GONE, 1);
	assert_int_equal(peer_event(&p, TRANSPORT_CONN_DOWN)->status, -ECONNRESET);
	assert_memory_equal(got[0], data, 50);
	assert_int_equal(peer_event(&p, TRANSPORT_RX)->length, 20);
	assert_int_equal(peer_event(&p, TRANSPORT_RX)->status, -ECONNRESET);
	assert_memory_equal(got[1], data + 50, 20);
	peer_close(&p);
}

static void tcp_reset__is_noticed_with_nothing_posted(void **state)
{
	struct peer p;

	peer_open(&p, 0);
	assert_int_equal(write(p.raw, "unread", 6), 6);
	for (unsigned i = 0; i < 10; i++)
		(void)peer_step(&p);
	raw_reset(&p);
	assert_true(wakes(p.t, PATIENCE_MS));
	peer_until(&p, TRANSPORT_CONN_GONE, 1);
	assert_int_equal(peer_event(&p, TRANSPORT_CONN_DOWN)->status, -ECONNRESET);
	peer_close(&p);
}

static void tcp_end__is_noticed_with_nothing_posted(void **state)
{
	struct peer p;

	peer_open(&p, 0);
	(void)close(TAKE_FD(p.raw));
	assert_true(wakes(p.t, PATIENCE_MS));
	peer_until(&p, TRANSPORT_CONN_GONE, 1);
	assert_int_equal(peer_event(&p, TRANSPORT_CONN_DOWN)->status, 0);
	peer_close(&p);
}

/* The end comes behind what was not read yet, and an idle poll does not spin on it. */
static void tcp_end__waits_for_what_is_unread(void **state)
{
	struct peer p;
	char got[6];

	peer_open(&p, 0);
	assert_int_equal(write(p.raw, "unread", 6), 6);
	assert_int_equal(shutdown(p.raw, SHUT_WR), 0);
	for (unsigned i = 0; i < 20; i++)
		(void)peer_step(&p);
	assert_int_equal(peer_count(&p, TRANSPORT_CONN_DOWN), 0);
	assert_false(wakes(p.t, 0));
	peer_post(&p, got, sizeof(got));
	assert_true(wakes(p.t, 0));
	peer_until(&p, TRANSPORT_CONN_GONE, 1);
	assert_int_equal(peer_event(&p, TRANSPORT_RX)->status, 0);
	assert_memory_equal(got, "unread", 6);
	assert_int_equal(peer_event(&p, TRANSPORT_CONN_DOWN)->status, 0);
	peer_close(&p);
}

static void tcp_disconnect__at_once_resets(void **state)
{
	struct peer p;
	char byte;

	peer_open(&p, 0);
	assert_int_equal(transport_disconnect(p.conn, false), 0);
	assert_int_equal(recv(p.raw, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	peer_until(&p, TRANSPORT_CONN_GONE, 1);
	assert_int_equal(peer_event(&p, TRANSPORT_CONN_DOWN)->status, -ECANCELED);
	peer_close(&p);
}

static void tcp_drain__a_stalled_peer_is_cut_by_the_clock(void **state)
{
	static uint8_t data[16u << 20];
	struct peer p;

	peer_open(&p, 4096);
	peer_send(&p, data, sizeof(data));
	assert_int_equal(transport_disconnect(p.conn, true), 0);
	for (unsigned i = 0; i < 200; i++)
		(void)peer_step(&p);
	assert_int_equal(peer_count(&p, TRANSPORT_CONN_DOWN), 0);
	fake_now += TCP_DRAIN_STALL + 1;
	peer_until(&p, TRANSPORT_CONN_GONE, 1);
	assert_int_equal(peer_event(&p, TRANSPORT_CONN_DOWN)->status, -ETIMEDOUT);
	assert_int_equal(peer_event(&p, TRANSPORT_TX_DONE)->status, -ECANCELED);
	peer_close(&p);
}

/* All is in our kernel, not yet in the peer's: the socket stays until it is, or time is up. */
static void tcp_drain__lingers_until_delivered(void **state)
{
	static uint8_t data[60000], sink[1u << 16];
	struct peer p;
	size_t total = 0;
	ssize_t r;

	for (unsigned patient = 0; patient < 2; patient++) {
		peer_open(&p, 4096);
		peer_send(&p, data, sizeof(data));
		peer_until(&p, TRANSPORT_TX_DONE, 1);
		assert_int_equal(transport_disconnect(p.conn, true), 0);
		peer_until(&p, TRANSPORT_CONN_DOWN, 1);
		for (unsigned i = 0; i < 50; i++)
			(void)peer_step(&p);
		assert_int_equal(peer_count(&p, TRANSPORT_CONN_GONE), 0);
		if (!patient) {
			fake_now += TCP_LINGER + 1;
			peer_until(&p, TRANSPORT_CONN_GONE, 1);
			peer_close(&p);
			continue;
		}
		while ((r = read(p.raw, sink, sizeof(sink))) > 0)
			total += (size_t)r;
		assert_int_equal(r, 0);
		assert_int_equal(total, sizeof(data));
		(void)close(TAKE_FD(p.raw));
		peer_until(&p, TRANSPORT_CONN_GONE, 1);
		assert_int_equal(peer_event(&p, TRANSPORT_CONN_DOWN)->status, 0);
		peer_close(&p);
	}
}

/* A child that inherited the socket keeps neither the peer waiting nor epoll pointing at us. */
static void tcp_fork__a_child_that_holds_the_socket(void **state)
{
	struct peer p;
	int hold[2];
	char byte;
	pid_t pid;

	for (unsigned drain = 0; drain < 2; drain++) {
		peer_open(&p, 0);
		assert_int_equal(pipe(hold), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			(void)close(hold[1]);
			_exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
		}
		(void)close(hold[0]);
		assert_int_equal(transport_disconnect(p.conn, drain), 0);
		peer_until(&p, TRANSPORT_CONN_GONE, 1);
		assert_int_equal(recv(p.raw, &byte, 1, 0), drain ? 0 : -1);
		(void)send(p.raw, "x", 1, MSG_NOSIGNAL);	/* taken or not: no event */
		for (unsigned i = 0; i < 10; i++)
			assert_int_equal(peer_step(&p), 0);
		(void)close(hold[1]);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		peer_close(&p);
	}
}

/* Thrown-away bytes, then ordinary ones, through the kernel's own discard. */
static void tcp_redirect__discards_in_the_kernel(void **state)
{
	static uint8_t data[900000], old[800000], tail[100000];
	struct peer p;
	size_t sent = 0;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 13 + (i >> 9));
	peer_open(&p, 0);
	peer_post(&p, old, sizeof(old));
	peer_post(&p, tail, sizeof(tail));
	assert_int_equal(transport_tcp()->redirect_rx(p.conn, 0, NULL), 0);
	assert_int_equal(fcntl(p.raw, F_SETFL, O_NONBLOCK), 0);
	while (sent < sizeof(data)) {
		ssize_t r = write(p.raw, data + sent, sizeof(data) - sent);

		if (r > 0)
			sent += (size_t)r;
		(void)peer_step(&p);
	}
	peer_until(&p, TRANSPORT_RX, 2);
	assert_memory_equal(tail, data + sizeof(old), sizeof(tail));
	for (size_t i = 0; i < sizeof(old); i++)
		assert_int_equal(old[i], 0);
	peer_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tcp_half_close__what_was_accepted_is_still_sent),
		cmocka_unit_test(tcp_reset__what_had_arrived_is_received_first),
		cmocka_unit_test(tcp_reset__is_noticed_with_nothing_posted),
		cmocka_unit_test(tcp_end__is_noticed_with_nothing_posted),
		cmocka_unit_test(tcp_end__waits_for_what_is_unread),
		cmocka_unit_test(tcp_disconnect__at_once_resets),
		cmocka_unit_test(tcp_drain__a_stalled_peer_is_cut_by_the_clock),
		cmocka_unit_test(tcp_drain__lingers_until_delivered),
		cmocka_unit_test(tcp_fork__a_child_that_holds_the_socket),
		cmocka_unit_test(tcp_redirect__discards_in_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
