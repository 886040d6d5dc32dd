/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues and the end of a byte stream; stream.h says why they are here.
 *
 * A descriptor's iov array is copied into one ring of pieces that all descriptors of the connection
 * share. Sending consumes pieces from the ring's head, so a partial write is nothing special: the
 * first piece becomes shorter. A descriptor is sent when none of its pieces is left.
 */
#include "transport/stream.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/compiler.h"

static_assert((STREAM_MAX_TX & (STREAM_MAX_TX - 1)) == 0, "positions wrap");
static_assert((STREAM_IOVS & (STREAM_IOVS - 1)) == 0, "positions wrap");
static_assert((STREAM_MAX_RX & (STREAM_MAX_RX - 1)) == 0, "positions wrap");
static_assert(STREAM_MAX_IOV <= STREAM_IOVS, "a descriptor fits into an empty queue");
static_assert(offsetof(struct stream, base) == 0, "stream_of");

struct transport_event *stream_emit(struct stream *s, struct stream_batch *b, uint8_t type)
{
	struct transport_event *ev = &b->events[b->n++];

	*ev = (struct transport_event){ .type = type, .conn = &s->base };
	return ev;
}

/* Descriptors without bytes are sent when those before them are. */
static void stream_tx_settle(struct stream_tx *q)
{
	while (q->sent != q->tail && q->slot[q->sent % STREAM_MAX_TX].left == 0)
		q->sent++;
}

static int stream_tx_check(const struct transport_tx *tx)
{
	size_t sum = 0;

	if (tx->type == TRANSPORT_READ || tx->type == TRANSPORT_WRITE)
		return -EOPNOTSUPP;
	if (tx->type != TRANSPORT_SEND || tx->niov > STREAM_MAX_IOV || (tx->niov && !tx->iov))
		return -EINVAL;
	for (uint32_t i = 0; i < tx->niov; i++) {
		if (tx->iov[i].iov_len > STREAM_MAX_MESSAGE)
			return -EMSGSIZE;
		sum += tx->iov[i].iov_len;
	}
	return sum > STREAM_MAX_MESSAGE ? -EMSGSIZE : 0;
}

static bool stream_tx_fits(const struct stream_tx *q, const struct transport_tx *tx)
{
	return q->tail - q->reported < STREAM_MAX_TX &&
	       STREAM_IOVS - (q->iov_tail - q->iov_head) >= tx->niov;
}

int stream_tx_push(struct stream *s, const struct transport_tx *tx, uint32_t n)
{
	struct stream_tx *q = &s->tx;
	uint32_t done;

	if (s->phase > STREAM_UP)
		return -ENOTCONN;
	for (done = 0; done < n; done++) {
		const struct transport_tx *d = &tx[done];
		struct stream_tx_slot *slot = &q->slot[q->tail % STREAM_MAX_TX];
		int r = stream_tx_check(d);

		if (r < 0 && done == 0)
			return r;
		if (r < 0 || !stream_tx_fits(q, d))
			break;
		slot->cookie = d->cookie;
		slot->left = 0;
		for (uint32_t i = 0; i < d->niov; i++) {
			if (!d->iov[i].iov_len)
				continue;
			q->iov[q->iov_tail++ % STREAM_IOVS] = d->iov[i];
			slot->left++;
		}
		q->tail++;
	}
	stream_tx_settle(q);
	return (int)done;
}

uint32_t stream_tx_gather(const struct stream_tx *q, struct iovec *iov, uint32_t max,
			  size_t budget, size_t *bytes)
{
	uint32_t n = 0;

	*bytes = 0;
	for (uint32_t at = q->iov_head; at != q->iov_tail && n < max && budget; at++) {
		iov[n] = q->iov[at % STREAM_IOVS];
		if (iov[n].iov_len > budget)
			iov[n].iov_len = budget;
		budget -= iov[n].iov_len;
		*bytes += iov[n].iov_len;
		n++;
	}
	return n;
}

bool stream_tx_is_more_than(const struct stream_tx *q, size_t bytes)
{
	size_t sum = 0;

	for (uint32_t at = q->iov_head; at != q->iov_tail && sum <= bytes; at++)
		sum += q->iov[at % STREAM_IOVS].iov_len;
	return sum > bytes;
}

void stream_tx_advance(struct stream_tx *q, size_t n)
{
	while (n) {
		struct iovec *iov = &q->iov[q->iov_head % STREAM_IOVS];

		if (iov->iov_len > n) {
			iov->iov_base = (char *)iov->iov_base + n;
			iov->iov_len -= n;
			return;
		}
		n -= iov->iov_len;
		q->iov_head++;
		q->slot[q->sent % STREAM_MAX_TX].left--;
		stream_tx_settle(q);
	}
}

void stream_tx_report(struct stream *s, struct stream_batch *b)
{
	struct stream_tx *q = &s->tx;

	while (q->reported != q->sent && stream_room(b)) {
		struct transport_event *ev = stream_emit(s, b, TRANSPORT_TX_DONE);

		ev->cookie = q->slot[q->reported++ % STREAM_MAX_TX].cookie;
	}
}

int stream_rx_post(struct stream *s, const struct transport_rx *rx, uint32_t n)
{
	struct stream_rx *q = &s->rx;

	if (s->phase > STREAM_UP)
		return -ENOTCONN;
	if (n > STREAM_MAX_RX - (q->tail - q->head))
		return -ENOBUFS;
	for (uint32_t i = 0; i < n; i++) {
		if (!rx[i].data || !rx[i].length || rx[i].length > STREAM_MAX_MESSAGE)
			return -EINVAL;
	}
	for (uint32_t i = 0; i < n; i++) {
		q->slot[q->tail++ % STREAM_MAX_RX] = (struct stream_rx_slot){
			.data = rx[i].data,
			.length = rx[i].length,
			.partial = rx[i].partial,
			.cookie = rx[i].cookie,
		};
	}
	return 0;
}

int stream_rx_redirect(struct stream *s, uint64_t cookie, void *to)
{
	struct stream_rx *q = &s->rx;

	for (uint32_t at = q->head; at != q->tail; at++) {
		struct stream_rx_slot *slot = &q->slot[at % STREAM_MAX_RX];

		if (slot->cookie == cookie) {
			slot->data = to;
			return 0;
		}
	}
	return -ENOENT;
}

bool stream_rx_is_more_than(const struct stream_rx *q, size_t bytes)
{
	size_t sum = 0;

	for (uint32_t at = q->head; at != q->tail && sum <= bytes; at++)
		sum += q->slot[at % STREAM_MAX_RX].length;
	return sum > bytes;
}

uint32_t stream_rx_gather(const struct stream_rx *q, struct iovec *iov, uint32_t max,
			  size_t budget, size_t *bytes)
{
	uint32_t n = 0;

	*bytes = 0;
	for (uint32_t at = q->head; at != q->tail && n < max && budget; at++) {
		const struct stream_rx_slot *slot = &q->slot[at % STREAM_MAX_RX];
		size_t rest = slot->length - slot->filled;

		if (!slot->data)
			break;
		iov[n].iov_base = slot->data + slot->filled;
		iov[n].iov_len = MIN(rest, budget);
		budget -= iov[n].iov_len;
		*bytes += iov[n].iov_len;
		n++;
	}
	return n;
}

static void stream_rx_tell(struct stream *s, struct stream_batch *b)
{
	const struct stream_rx_slot *slot = stream_rx_first(&s->rx);
	struct transport_event *ev = stream_emit(s, b, TRANSPORT_RX);

	ev->cookie = slot->cookie;
	ev->data = slot->data;
	ev->length = slot->filled;
	s->rx.head++;
}

/* The first buffer got @n bytes more, the last of @left that are there; tells it when it is full,
 * or when it wants no more than there is. */
static void stream_rx_fill(struct stream *s, struct stream_batch *b, size_t n, size_t left)
{
	struct stream_rx_slot *slot = stream_rx_first(&s->rx);

	slot->filled += (uint32_t)n;
	if (slot->filled == slot->length || (slot->partial && n == left))
		stream_rx_tell(s, b);
}

size_t stream_rx_advance(struct stream *s, struct stream_batch *b, size_t n)
{
	while (n && !stream_rx_empty(&s->rx) && stream_room(b)) {
		const struct stream_rx_slot *slot = stream_rx_first(&s->rx);
		size_t piece = MIN(n, (size_t)(slot->length - slot->filled));

		stream_rx_fill(s, b, piece, n);
		n -= piece;
	}
	return n;
}

size_t stream_rx_copy(struct stream *s, struct stream_batch *b, const char *from, size_t len)
{
	size_t taken = 0;

	while (taken < len && !stream_rx_empty(&s->rx) && stream_room(b)) {
		const struct stream_rx_slot *slot = stream_rx_first(&s->rx);
		size_t piece = MIN(len - taken, (size_t)(slot->length - slot->filled));

		if (slot->data)
			memcpy(slot->data + slot->filled, from + taken, piece);
		stream_rx_fill(s, b, piece, len - taken);
		taken += piece;
	}
	return taken;
}

void stream_end(struct stream *s, int status, int cancel_status)
{
	if (s->phase >= STREAM_DOWN)
		return;
	s->phase = STREAM_DOWN;
	s->status = status;
	s->cancel_status = cancel_status;
}

void stream_report_up(struct stream *s, struct stream_batch *b)
{
	if (!s->up_owed || !stream_room(b))
		return;
	(void)stream_emit(s, b, TRANSPORT_CONN_UP);	/* has no further field */
	s->up_owed = false;
}

static void stream_return_tx(struct stream *s, struct stream_batch *b)
{
	struct stream_tx *q = &s->tx;

	while (q->reported != q->tail && stream_room(b)) {
		struct transport_event *ev = stream_emit(s, b, TRANSPORT_TX_DONE);

		ev->cookie = q->slot[q->reported++ % STREAM_MAX_TX].cookie;
		ev->status = s->cancel_status;
	}
}

static void stream_return_rx(struct stream *s, struct stream_batch *b)
{
	while (!stream_rx_empty(&s->rx) && stream_room(b)) {
		const struct stream_rx_slot *slot = stream_rx_first(&s->rx);
		struct transport_event *ev = stream_emit(s, b, TRANSPORT_RX);

		ev->cookie = slot->cookie;
		ev->data = slot->data;
		ev->length = slot->filled;
		ev->status = s->cancel_status;
		s->rx.head++;
	}
}

bool stream_finish(struct stream *s, struct stream_batch *b)
{
	stream_report_up(s, b);
	if (s->phase == STREAM_DOWN) {
		stream_tx_report(s, b);
		if (s->up_owed || stream_tx_unreported(&s->tx) || !stream_room(b))
			return false;
		stream_emit(s, b, TRANSPORT_CONN_DOWN)->status = s->status;
		s->phase = STREAM_RETURN;
	}
	if (s->phase == STREAM_RETURN) {
		stream_return_tx(s, b);
		stream_return_rx(s, b);
		return s->tx.reported == s->tx.tail && stream_rx_empty(&s->rx);
	}
	return true;
}
