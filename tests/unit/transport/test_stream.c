/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of byte streams: pieces, partial progress, positions that wrap, the order of an end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "transport/stream.h"

#define SEED 20240607u

static struct stream *new_stream(void)
{
	struct stream *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->phase = STREAM_UP;
	return s;
}

static int push(struct stream *s, const struct iovec *iov, uint16_t niov, uint64_t cookie)
{
	struct transport_tx tx = {
		.type = TRANSPORT_SEND, .niov = niov, .iov = iov, .cookie = cookie,
	};

	return stream_tx_push(s, &tx, 1);
}

static uint32_t report(struct stream *s, struct transport_event *ev, uint32_t max)
{
	struct stream_batch b = { .events = ev, .max = max };

	stream_tx_report(s, &b);
	return b.n;
}

static void stream_tx_push__refuses_nonsense(void **state)
{
	struct iovec iov = { .iov_base = &iov, .iov_len = 1 };
	struct transport_tx tx = { .type = TRANSPORT_WRITE, .niov = 1, .iov = &iov };
	struct transport_tx two[2];
	struct stream *s = new_stream();

	assert_int_equal(stream_tx_push(s, &tx, 1), -EOPNOTSUPP);
	tx.type = 0;
	assert_int_equal(stream_tx_push(s, &tx, 1), -EINVAL);
	tx.type = TRANSPORT_SEND;
	tx.niov = STREAM_MAX_IOV + 1;
	assert_int_equal(stream_tx_push(s, &tx, 1), -EINVAL);
	tx.niov = 1;
	tx.iov = NULL;
	assert_int_equal(stream_tx_push(s, &tx, 1), -EINVAL);
	tx.iov = &iov;
	iov.iov_len = (size_t)STREAM_MAX_MESSAGE + 1;
	assert_int_equal(stream_tx_push(s, &tx, 1), -EMSGSIZE);
	iov.iov_len = 1;
	two[0] = two[1] = tx;
	two[1].type = TRANSPORT_READ;
	assert_int_equal(stream_tx_push(s, two, 2), 1);		/* up to the bad one */
	assert_int_equal(stream_tx_push(s, &two[1], 1), -EOPNOTSUPP);
	s->phase = STREAM_DRAIN;
	assert_int_equal(stream_tx_push(s, &tx, 1), -ENOTCONN);
	free(s);
}

static void stream_tx_push__pieces_run_out_before_descriptors(void **state)
{
	struct stream *s = new_stream();
	struct transport_event ev[4];
	struct iovec iov[STREAM_MAX_IOV], out[1];
	uint64_t cookie = 0;
	size_t bytes;

	for (uint32_t i = 0; i < STREAM_MAX_IOV; i++)
		iov[i] = (struct iovec){ .iov_base = iov, .iov_len = 1 };
	while (push(s, iov, STREAM_MAX_IOV, cookie) == 1)
		cookie++;
	assert_int_equal(cookie, STREAM_IOVS / STREAM_MAX_IOV);
	assert_int_equal(stream_tx_gather(&s->tx, out, 1, 100, &bytes), 1);
	stream_tx_advance(&s->tx, STREAM_MAX_IOV);
	assert_int_equal(report(s, ev, 4), 1);
	assert_int_equal(push(s, iov, STREAM_MAX_IOV, cookie), 1);
	free(s);
}

static void stream_tx__descriptors_without_bytes_keep_their_place(void **state)
{
	struct stream *s = new_stream();
	struct transport_event ev[8];
	struct iovec iov[2] = { { .iov_base = ev }, { .iov_base = ev } };
	size_t bytes;

	assert_int_equal(push(s, iov, 2, 0), 1);
	assert_int_equal(push(s, NULL, 0, 1), 1);
	assert_int_equal(report(s, ev, 8), 2);
	iov[1].iov_len = 3;
	assert_int_equal(push(s, iov, 2, 2), 1);
	assert_int_equal(push(s, NULL, 0, 3), 1);
	assert_int_equal(report(s, ev, 8), 0);
	assert_int_equal(stream_tx_gather(&s->tx, iov, 2, 100, &bytes), 1);
	assert_int_equal(bytes, 3);
	stream_tx_advance(&s->tx, 2);
	assert_int_equal(report(s, ev, 8), 0);
	stream_tx_advance(&s->tx, 1);
	assert_int_equal(report(s, ev, 8), 2);
	assert_int_equal(ev[0].cookie, 2);
	assert_int_equal(ev[1].cookie, 3);
	assert_false(stream_tx_unsent(&s->tx));
	free(s);
}

/* Random descriptors sent in random portions are the bytes that went in; positions wrap 2^32. */
static void stream_tx__random_portions(void **state)
{
	static uint8_t in[1u << 20], out[1u << 20];
	struct stream *s = new_stream();
	struct transport_event ev[16];
	size_t queued = 0, sent = 0;
	uint64_t pushed = 0, done = 0;
	struct prng prng;

	prng_seed(&prng, SEED);
	print_message("seed %u\n", SEED);
	s->tx.reported = s->tx.sent = s->tx.tail = UINT32_MAX - 50;
	s->tx.iov_head = s->tx.iov_tail = UINT32_MAX - 77;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)prng_next(&prng);
	while (sent < sizeof(in)) {
		struct iovec iov[STREAM_MAX_IOV];
		uint16_t niov = (uint16_t)prng_below(&prng, 9);
		size_t bytes, budget, at = queued;
		uint32_t n;

		for (uint16_t i = 0; i < niov; i++) {
			iov[i].iov_base = in + at;
			iov[i].iov_len = MIN((size_t)prng_below(&prng, 500), sizeof(in) - at);
			at += iov[i].iov_len;
		}
		if (push(s, iov, niov, pushed) == 1) {
			queued = at;
			pushed++;
		}
		budget = prng_below(&prng, 3000) + 1;
		n = stream_tx_gather(&s->tx, iov, (uint32_t)prng_below(&prng, STREAM_MAX_IOV) + 1,
				     budget, &bytes);
		assert_true(bytes <= budget);
		bytes = prng_below(&prng, bytes + 1);
		for (size_t i = 0, left = bytes; i < n && left; i++) {
			size_t piece = MIN(left, iov[i].iov_len);

			memcpy(out + sent, iov[i].iov_base, piece);
			sent += piece;
			left -= piece;
		}
		stream_tx_advance(&s->tx, bytes);
		n = report(s, ev, (uint32_t)prng_below(&prng, 17));
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(ev[i].cookie, done++);
	}
	while ((report(s, ev, 1)))
		done++;
	assert_int_equal(done, pushed);
	assert_memory_equal(in, out, sizeof(in));
	free(s);
}

static void stream_rx_post__all_or_none(void **state)
{
	struct stream *s = new_stream();
	struct transport_rx rx[STREAM_MAX_RX + 1];
	uint8_t byte;

	for (uint32_t i = 0; i <= STREAM_MAX_RX; i++)
		rx[i] = (struct transport_rx){ .data = &byte, .length = 1, .cookie = i };
	assert_int_equal(stream_rx_post(s, rx, STREAM_MAX_RX + 1), -ENOBUFS);
	assert_true(stream_rx_empty(&s->rx));
	rx[1].length = 0;
	assert_int_equal(stream_rx_post(s, rx, 2), -EINVAL);
	rx[1].length = STREAM_MAX_MESSAGE + 1;
	assert_int_equal(stream_rx_post(s, rx, 2), -EINVAL);
	rx[1] = (struct transport_rx){ .length = 1 };
	assert_int_equal(stream_rx_post(s, rx, 2), -EINVAL);
	assert_true(stream_rx_empty(&s->rx));
	rx[1] = rx[0];
	assert_int_equal(stream_rx_post(s, rx, STREAM_MAX_RX), 0);
	assert_int_equal(stream_rx_post(s, rx, 1), -ENOBUFS);
	s->phase = STREAM_DOWN;
	assert_int_equal(stream_rx_post(s, rx, 0), -ENOTCONN);
	free(s);
}

static void stream_rx_copy__stops_for_want_of_room(void **state)
{
	struct stream *s = new_stream();
	struct transport_event ev[2];
	struct stream_batch b = { .events = ev, .max = 2 };
	char in[30], got[3][10];
	struct transport_rx rx[3];

	memset(in, 'x', sizeof(in));
	for (unsigned i = 0; i < 3; i++)
		rx[i] = (struct transport_rx){ .data = got[i], .length = 10, .cookie = i };
	assert_int_equal(stream_rx_post(s, rx, 3), 0);
	assert_int_equal(stream_rx_copy(s, &b, in, sizeof(in)), 20);
	assert_int_equal(b.n, 2);
	assert_int_equal(ev[1].length, 10);
	assert_ptr_equal(ev[1].data, got[1]);
	b.n = 0;
	assert_int_equal(stream_rx_copy(s, &b, in, 4), 4);
	assert_int_equal(b.n, 0);
	assert_int_equal(stream_rx_copy(s, &b, in, 30), 6);
	assert_int_equal(b.n, 1);
	assert_int_equal(stream_rx_copy(s, &b, in, 30), 0);
	free(s);
}

static void stream_rx_gather__stops_before_a_thrown_buffer(void **state)
{
	struct stream *s = new_stream();
	struct transport_event ev[4];
	struct stream_batch b = { .events = ev, .max = 4 };
	char got[3][10];
	struct transport_rx rx[3];
	struct iovec iov[3];
	size_t bytes;

	for (unsigned i = 0; i < 3; i++)
		rx[i] = (struct transport_rx){ .data = got[i], .length = 10, .cookie = i };
	assert_int_equal(stream_rx_post(s, rx, 3), 0);
	assert_int_equal(stream_rx_redirect(s, 1, NULL), 0);
	assert_int_equal(stream_rx_redirect(s, 7, NULL), -ENOENT);
	assert_int_equal(stream_rx_gather(&s->rx, iov, 3, 100, &bytes), 1);
	assert_int_equal(bytes, 10);
	assert_int_equal(stream_rx_advance(s, &b, 10), 0);
	assert_int_equal(stream_rx_gather(&s->rx, iov, 3, 100, &bytes), 0);
	assert_int_equal(stream_rx_advance(s, &b, 10), 0);
	assert_int_equal(b.n, 2);
	assert_null(ev[1].data);
	assert_int_equal(ev[1].length, 10);
	assert_int_equal(stream_rx_gather(&s->rx, iov, 3, 4, &bytes), 1);
	assert_int_equal(bytes, 4);
	assert_int_equal(stream_rx_advance(s, &b, 13), 3);	/* what is beyond the last buffer */
	free(s);
}

/* One event per call: UP, what was sent, DOWN, what was not, buffers; in this order. */
static void stream_finish__one_event_at_a_time(void **state)
{
	const uint8_t order[] = {
		TRANSPORT_CONN_UP, TRANSPORT_TX_DONE, TRANSPORT_CONN_DOWN,
		TRANSPORT_TX_DONE, TRANSPORT_TX_DONE, TRANSPORT_RX,
	};
	const int status[] = { 0, 0, -EPIPE, -ECONNRESET, -ECONNRESET, -ECONNRESET };
	struct stream *s = new_stream();
	struct transport_event ev;
	char mem[10];
	struct iovec iov = { .iov_base = mem, .iov_len = 10 };
	struct transport_rx rx = { .data = mem, .length = 10 };

	s->up_owed = true;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(push(s, &iov, 1, i), 1);
	assert_int_equal(stream_rx_post(s, &rx, 1), 0);
	stream_tx_advance(&s->tx, 15);
	stream_end(s, -EPIPE, -ECONNRESET);
	stream_end(s, 0, -ECANCELED);	/* the first reason stays */
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		struct stream_batch none = { .max = 0 };
		struct stream_batch b = { .events = &ev, .max = 1 };

		assert_false(stream_finish(s, &none));
		assert_int_equal(stream_finish(s, &b), i + 1 == ARRAY_SIZE(order));
		assert_int_equal(b.n, 1);
		assert_int_equal(ev.type, order[i]);
		assert_int_equal(ev.status, status[i]);
	}
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stream_tx_push__refuses_nonsense),
		cmocka_unit_test(stream_tx_push__pieces_run_out_before_descriptors),
		cmocka_unit_test(stream_tx__descriptors_without_bytes_keep_their_place),
		cmocka_unit_test(stream_tx__random_portions),
		cmocka_unit_test(stream_rx_post__all_or_none),
		cmocka_unit_test(stream_rx_copy__stops_for_want_of_room),
		cmocka_unit_test(stream_rx_gather__stops_before_a_thrown_buffer),
		cmocka_unit_test(stream_finish__one_event_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
