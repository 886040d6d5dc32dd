/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes: whose a buffer is (b), order (e), how a stream and how messages fill buffers (h), what a
 * redirected buffer gets.
 */
#include <errno.h>
#include <string.h>

#include "pair.h"
#include "transport/loop.h"

static bool b_has_all_back(void *user)
{
	const struct pair *p = user;

	return p->b.back == p->b.posted && p->a.done == p->a.accepted;
}

static bool b_has_back(void *user)
{
	const struct pair *p = user;

	return p->b.back == p->b.posted;
}

static void b_received_buffer_untouched_after_event(void **state)
{
	struct pair *p = pair_new(subject_of(state));
	uint8_t first[64], second[64], data[64];

	pattern_fill(data, 1, 0, sizeof(data));
	side_post(&p->b, first, sizeof(first));
	assert_int_equal(side_send(&p->a, data, sizeof(data)), 1);
	pair_until(p, b_has_all_back, p);
	pattern_check(first, 1, 0, sizeof(first));
	memset(first, 0x11, sizeof(first));
	for (unsigned i = 0; i < 200; i++) {
		side_post(&p->b, second, sizeof(second));
		assert_int_equal(side_send(&p->a, data, sizeof(data)), 1);
		pair_until(p, b_has_all_back, p);
	}
	for (size_t i = 0; i < sizeof(first); i++)
		assert_int_equal(first[i], 0x11);
	pair_close(p);
}

static bool a_is_done(void *user)
{
	const struct pair *p = user;

	return p->a.done == p->a.accepted;
}

/* What was sent arrives although the sender's memory is reused at its event. */
static void b_sent_buffer_is_free_at_event(void **state)
{
	struct pair *p = pair_new(subject_of(state));
	uint8_t data[512], got[512];

	for (unsigned i = 0; i < 100; i++) {
		pattern_fill(data, i, 0, sizeof(data));
		assert_int_equal(side_send(&p->a, data, sizeof(data)), 1);
		pair_until(p, a_is_done, p);
		memset(data, 0xdd, sizeof(data));
		side_post(&p->b, got, sizeof(got));
		pair_until(p, b_has_all_back, p);
		pattern_check(got, i, 0, sizeof(got));
	}
	pair_close(p);
}

static void b_iov_array_is_copied_at_acceptance(void **state)
{
	struct pair *p = pair_new(subject_of(state));
	struct iovec iov[2];
	uint8_t data[100], got[100];

	pattern_fill(data, 5, 0, sizeof(data));
	iov[0] = (struct iovec){ .iov_base = data, .iov_len = 30 };
	iov[1] = (struct iovec){ .iov_base = data + 30, .iov_len = 70 };
	side_post(&p->b, got, sizeof(got));
	assert_int_equal(side_send_iov(&p->a, iov, 2), 1);
	memset(iov, 0xff, sizeof(iov));
	pair_until(p, b_has_all_back, p);
	pattern_check(got, 5, 0, sizeof(got));
	pair_close(p);
}

static void e_order_holds_under_random_splits(void **state)
{
	struct pair *p = pair_new(subject_of(state));
	struct flow there, back;
	uint64_t end = now_ms() + PAIR_PATIENCE_MS;

	flow_start(&there, p, true, 3000000);
	flow_start(&back, p, false, 2000000);
	while (!flow_done(&there) || !flow_done(&back)) {
		if (prng_below(&p->prng, 3))
			flow_feed(&there);
		if (prng_below(&p->prng, 3))
			flow_feed(&back);
		p->a.max = (uint32_t)prng_below(&p->prng, 8) + 1;
		p->b.max = (uint32_t)prng_below(&p->prng, 8) + 1;
		pair_step(p);
		assert_true(now_ms() < end);
	}
	flow_free(&there);
	flow_free(&back);
	pair_close(p);
}

/* The knobs of loop: the same over a wire that moves a few bytes at a time, late. */
static void e_order_holds_on_an_unkind_wire(void **state)
{
	const struct subject *s = subject_of(state);
	struct loop_knobs knobs = { .max_move = 300, .delay_polls = 3 };
	struct flow there, back;
	struct pair *p;

	if (s->ops != transport_find("loop"))
		SKIP_BECAUSE("only loop has knobs");
	p = pair_new(s);
	knobs.split_seed = p->seed | 1;
	assert_int_equal(loop_set_knobs(p->a.t, &knobs), 0);
	assert_int_equal(loop_set_knobs(p->b.t, &knobs), 0);
	flow_start(&there, p, true, 200000);
	there.largest_tx = there.largest_rx = 700;
	flow_run(&there);
	flow_free(&there);
	flow_start(&back, p, false, 100000);
	back.largest_tx = back.largest_rx = 5;
	flow_run(&back);
	flow_free(&back);
	pair_close(p);
}

static void h_stream_reports_buffer_when_exactly_full(void **state)
{
	const struct subject *s = subject_of(state);
	uint8_t data[20], got[4][8];
	struct pair *p;

	if (s->message)
		SKIP_BECAUSE("keeps message boundaries");
	p = pair_new(s);
	pattern_fill(data, 9, 0, sizeof(data));
	side_post(&p->b, got[0], 4);
	side_post(&p->b, got[1], 6);
	side_post(&p->b, got[2], 5);
	assert_int_equal(side_send(&p->a, data, 12), 1);
	pair_settle(p);
	assert_int_equal(p->b.back, 2);		/* 4 and 6 are full, 2 of 5 are there */
	pattern_check(got[0], 9, 0, 4);
	pattern_check(got[1], 9, 4, 6);
	assert_int_equal(side_send(&p->a, data + 12, 8), 1);
	pair_settle(p);
	assert_int_equal(p->b.back, 3);
	pattern_check(got[2], 9, 10, 5);
	assert_int_equal(p->b.rx_bytes, 15);
	side_post(&p->b, got[3], 5);		/* the rest has been waiting */
	pair_until(p, b_has_all_back, p);
	pattern_check(got[3], 9, 15, 5);
	pair_close(p);
}

static void h_stream_fills_one_byte_buffers(void **state)
{
	const struct subject *s = subject_of(state);
	uint8_t data[300], got[300];
	struct pair *p;

	if (s->message)
		SKIP_BECAUSE("keeps message boundaries");
	p = pair_new(s);
	pattern_fill(data, 2, 0, sizeof(data));
	assert_int_equal(side_send(&p->a, data, sizeof(data)), 1);
	for (unsigned i = 0; i < sizeof(got); i++) {
		side_post(&p->b, got + i, 1);
		if (i % 7 == 0)
			pair_step(p);
		while (p->b.posted - p->b.back >= 32)
			pair_step(p);
	}
	pair_until(p, b_has_all_back, p);
	pattern_check(got, 2, 0, sizeof(got));
	pair_close(p);
}

/* More buffers than a system call fills, one of them redirected to nowhere, and bytes behind them:
 * what is read ahead belongs into the buffers that the call left out. */
static void h_stream_fills_more_buffers_than_one_call_takes(void **state)
{
	static uint8_t data[70][100], got[60][100];
	const struct subject *s = subject_of(state);
	struct pair *p;

	if (s->message)
		SKIP_BECAUSE("keeps message boundaries");
	for (int thrown = -1; thrown < 60; thrown += 4) {
		p = pair_new(s);
		pattern_fill(data[0], 4, 0, sizeof(data));
		memset(got, 0, sizeof(got));
		for (unsigned i = 0; i < 60; i++)
			side_post(&p->b, got[i], sizeof(got[i]));
		if (thrown >= 0)
			assert_int_equal(p->b.conn->transport->ops->redirect_rx(
					 p->b.conn, (uint64_t)thrown, NULL), 0);
		assert_int_equal(side_send(&p->a, data, sizeof(data)), 1);
		pair_until(p, b_has_all_back, p);
		for (int i = 0; i < 60; i++)
			if (i != thrown)
				pattern_check(got[i], 4, (uint64_t)i * 100, sizeof(got[i]));
		pair_close(p);
	}
}

static void side_post_partial(struct side *side, void *data, uint32_t len)
{
	const struct transport_rx rx = { .data = data, .length = len, .partial = true,
					 .cookie = side->posted };

	assert_int_equal(transport_post_rx(side->conn, &rx, 1), 0);
	side->posted++;
}

/* One that is partial comes back with what there is; behind a whole one it waits for its turn. */
static void h_partial_buffer_comes_with_what_there_is(void **state)
{
	const struct subject *s = subject_of(state);
	uint8_t data[40], whole[10], part[3][16];
	struct pair *p;

	if (s->message)
		SKIP_BECAUSE("keeps message boundaries");
	p = pair_new(s);
	pattern_fill(data, 9, 0, sizeof(data));
	side_post_partial(&p->b, part[0], 16);
	pair_settle(p);
	assert_int_equal(p->b.back, 0);
	assert_int_equal(side_send(&p->a, data, 3), 1);
	pair_until(p, b_has_all_back, p);
	assert_int_equal(side_last(&p->b, TRANSPORT_RX)->length, 3);
	pattern_check(part[0], 9, 0, 3);
	side_post(&p->b, whole, sizeof(whole));
	side_post_partial(&p->b, part[1], 16);
	assert_int_equal(side_send(&p->a, data + 3, 10), 1);
	pair_settle(p);
	assert_int_equal(p->b.back, 2);		/* the whole one; nothing is left for the next */
	pattern_check(whole, 9, 3, 10);
	assert_int_equal(side_send(&p->a, data + 13, 27), 1);
	side_post_partial(&p->b, part[2], 16);
	pair_until(p, b_has_all_back, p);
	assert_int_equal(p->b.rx_bytes, 40);
	pattern_check(part[1], 9, 13, 16);
	pattern_check(part[2], 9, 29, 11);
	pair_close(p);
}

/* More than any read-ahead waits in the transport, then large and small buffers take turns. */
static void h_stream_mixes_small_and_large_buffers(void **state)
{
	static uint8_t data[1u << 20], got[1u << 20];
	const struct subject *s = subject_of(state);
	struct pair *p;
	size_t at = 0;

	if (s->message)
		SKIP_BECAUSE("keeps message boundaries");
	p = pair_new(s);
	pattern_fill(data, 3, 0, sizeof(data));
	assert_int_equal(side_send(&p->a, data, sizeof(data)), 1);
	for (unsigned i = 0; at < sizeof(got); i++) {
		size_t len = MIN(i % 2 ? (size_t)150000 : (size_t)32, sizeof(got) - at);

		side_post(&p->b, got + at, (uint32_t)len);
		at += len;
		pair_until(p, b_has_back, p);
	}
	pair_until(p, b_has_all_back, p);
	pattern_check(got, 3, 0, sizeof(got));
	pair_close(p);
}

static void h_message_takes_one_buffer_each(void **state)
{
	const struct subject *s = subject_of(state);
	uint8_t data[3000], got[3][4000];
	struct pair *p;

	if (!s->message)
		SKIP_BECAUSE("a byte stream");
	p = pair_new(s);
	pattern_fill(data, 4, 0, sizeof(data));
	for (unsigned i = 0; i < 3; i++)
		side_post(&p->b, got[i], sizeof(got[i]));
	assert_int_equal(side_send(&p->a, data, 1), 1);
	assert_int_equal(side_send(&p->a, data, 3000), 1);
	assert_int_equal(side_send(&p->a, data, 50), 1);
	pair_until(p, b_has_all_back, p);
	assert_int_equal(p->b.rx_bytes, 3051);
	assert_int_equal(side_last(&p->b, TRANSPORT_RX)->length, 50);
	pattern_check(got[1], 4, 0, 3000);
	pair_close(p);
}

static void h_message_of_the_largest_size_fits(void **state)
{
	const struct subject *s = subject_of(state);
	static uint8_t data[1u << 20], got[1u << 20];
	uint32_t largest = s->ops->limits.max_message;
	struct pair *p;

	if (!s->message)
		SKIP_BECAUSE("a byte stream");
	assert_true(largest < sizeof(data));
	p = pair_new(s);
	pattern_fill(data, 6, 0, largest);
	side_post(&p->b, got, largest);
	assert_int_equal(side_send(&p->a, data, largest), 1);
	pair_until(p, b_has_all_back, p);
	assert_int_equal(side_last(&p->b, TRANSPORT_RX)->length, largest);
	pattern_check(got, 6, 0, largest);
	assert_true(side_send(&p->a, data, largest + 1) < 0);
	pair_close(p);
}

static void h_message_longer_than_its_buffer_ends_with_emsgsize(void **state)
{
	const struct subject *s = subject_of(state);
	uint8_t data[200] = { 1 }, got[100];
	struct pair *p;

	if (!s->message)
		SKIP_BECAUSE("a byte stream");
	p = pair_new(s);
	side_post(&p->b, got, sizeof(got));
	assert_int_equal(side_send(&p->a, data, sizeof(data)), 1);
	pair_until_gone(p, &p->b);
	assert_int_equal(p->b.down_status, -EMSGSIZE);
	assert_int_equal(p->b.returned, 1);
	pair_close(p);
}

static void h_redirected_buffer_gets_the_rest(void **state)
{
	const struct subject *s = subject_of(state);
	uint8_t data[100], old[60], new[60], tail[40];
	struct pair *p = pair_new(s);

	if (s->message) {
		assert_int_equal(s->ops->redirect_rx(p->b.conn, 0, NULL), -EOPNOTSUPP);
		pair_close(p);
		return;
	}
	pattern_fill(data, 7, 0, sizeof(data));
	memset(new, 0, sizeof(new));
	side_post(&p->b, old, sizeof(old));
	assert_int_equal(side_send(&p->a, data, 25), 1);
	pair_settle(p);
	assert_int_equal(s->ops->redirect_rx(p->b.conn, 0, new), 0);
	memset(old, 0xcc, sizeof(old));		/* ours since the call returned */
	assert_int_equal(side_send(&p->a, data + 25, 75), 1);
	side_post(&p->b, tail, sizeof(tail));
	pair_until(p, b_has_all_back, p);
	for (size_t i = 0; i < sizeof(old); i++)
		assert_int_equal(old[i], 0xcc);
	pattern_check(new + 25, 7, 25, 35);
	pattern_check(tail, 7, 60, 40);
	assert_int_equal(s->ops->redirect_rx(p->b.conn, 0, new), -ENOENT);
	pair_close(p);
}

static void h_thrown_away_buffer_keeps_its_place(void **state)
{
	static uint8_t data[700000], old[600000], tail[100000];
	const struct subject *s = subject_of(state);
	struct pair *p;

	if (s->message)
		SKIP_BECAUSE("redirecting is for streams");
	p = pair_new(s);
	pattern_fill(data, 8, 0, sizeof(data));
	side_post(&p->b, old, sizeof(old));
	side_post(&p->b, tail, sizeof(tail));
	assert_int_equal(side_send(&p->a, data, 5000), 1);
	pair_settle(p);
	pattern_check(old, 8, 0, 5000);
	assert_int_equal(s->ops->redirect_rx(p->b.conn, 0, NULL), 0);
	memset(old, 0x77, sizeof(old));
	assert_int_equal(side_send(&p->a, data + 5000, sizeof(data) - 5000), 1);
	pair_until(p, b_has_all_back, p);
	assert_int_equal(p->b.rx_bytes, sizeof(data));
	for (size_t i = 0; i < sizeof(old); i++)
		assert_int_equal(old[i], 0x77);
	pattern_check(tail, 8, sizeof(old), sizeof(tail));
	pair_close(p);
}

const struct CMUnitTest cases_bytes[] = {
	cmocka_unit_test(b_received_buffer_untouched_after_event),
	cmocka_unit_test(b_sent_buffer_is_free_at_event),
	cmocka_unit_test(b_iov_array_is_copied_at_acceptance),
	cmocka_unit_test(e_order_holds_under_random_splits),
	cmocka_unit_test(e_order_holds_on_an_unkind_wire),
	cmocka_unit_test(h_stream_reports_buffer_when_exactly_full),
	cmocka_unit_test(h_stream_fills_one_byte_buffers),
	cmocka_unit_test(h_stream_fills_more_buffers_than_one_call_takes),
	cmocka_unit_test(h_partial_buffer_comes_with_what_there_is),
	cmocka_unit_test(h_stream_mixes_small_and_large_buffers),
	cmocka_unit_test(h_message_takes_one_buffer_each),
	cmocka_unit_test(h_message_of_the_largest_size_fits),
	cmocka_unit_test(h_message_longer_than_its_buffer_ends_with_emsgsize),
	cmocka_unit_test(h_redirected_buffer_gets_the_rest),
	cmocka_unit_test(h_thrown_away_buffer_keeps_its_place),
};
const size_t n_cases_bytes = ARRAY_SIZE(cases_bytes);
