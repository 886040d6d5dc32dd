/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the owner of a connection has handed over: descriptors in one ring, in order; their pieces
 * in a second; posted buffers in a third. As in shm_queue.c no event is stored: a descriptor that
 * is done stays in its slot until an array of a poll has room for its event.
 */
#include <errno.h>
#include <string.h>

#include "transport/verbs.h"

static_assert((VERBS_MAX_TX & (VERBS_MAX_TX - 1)) == 0, "positions wrap");
static_assert((VERBS_IOVS & (VERBS_IOVS - 1)) == 0, "positions wrap");
static_assert((VERBS_MAX_RX & (VERBS_MAX_RX - 1)) == 0, "positions wrap");
static_assert((VERBS_WRS & (VERBS_WRS - 1)) == 0, "positions wrap");
static_assert(VERBS_WRS > VERBS_SQ + VERBS_SQ_SPARE, "what is at the device has a place");
static_assert(VERBS_MAX_IOV <= VERBS_IOVS, "a descriptor fits into an empty queue");

struct transport_event *verbs_emit(struct verbs_conn *c, struct verbs_batch *b, uint8_t type)
{
	struct transport_event *ev = &b->events[b->n++];

	*ev = (struct transport_event){ .type = type, .conn = &c->base };
	return ev;
}

static bool queue_fits(const struct verbs_tx *q, uint32_t niov)
{
	return q->tail - q->reported < VERBS_MAX_TX &&
	       VERBS_IOVS - (q->iov_tail - q->iov_head) >= niov;
}

/* 0 or why this descriptor can't be taken, whatever the queue. */
static int queue_check(const struct verbs_conn *c, const struct transport_tx *tx,
		       uint64_t *length)
{
	const struct verbs_region *region;
	uint64_t sum = 0;

	if (tx->niov > VERBS_MAX_IOV || (tx->niov && !tx->iov))
		return -EINVAL;
	for (uint32_t i = 0; i < tx->niov; i++) {
		if (tx->iov[i].iov_len > VERBS_MAX_TRANSFER)
			return -EMSGSIZE;
		sum += tx->iov[i].iov_len;
	}
	*length = sum;
	if (tx->type == TRANSPORT_SEND)
		return sum > VERBS_MAX_MESSAGE ? -EMSGSIZE : 0;
	if (tx->type != TRANSPORT_READ && tx->type != TRANSPORT_WRITE)
		return -EINVAL;
	if (!tx->region)
		return -EINVAL;
	region = container_of(tx->region, struct verbs_region, base);
	if (region->conn != c || region->mr)
		return -EINVAL;
	return sum > VERBS_MAX_TRANSFER ? -EMSGSIZE : 0;
}

static void queue_push(struct verbs_tx *q, const struct transport_tx *tx, uint64_t length)
{
	struct verbs_tx_slot *s = &q->slot[q->tail++ % VERBS_MAX_TX];

	*s = (struct verbs_tx_slot){
		.type = tx->type,
		.cookie = tx->cookie,
		.length = length,
		.offset = tx->offset,
	};
	if (tx->type != TRANSPORT_SEND) {
		s->region = container_of(tx->region, struct verbs_region, base);
		s->region->busy++;
		/* it takes its turn among the others and ends there */
		if (s->offset > s->region->base.size ||
		    length > s->region->base.size - s->offset)
			s->status = -ERANGE;
	}
	for (uint32_t i = 0; i < tx->niov; i++) {
		if (!tx->iov[i].iov_len)
			continue;
		q->iov[q->iov_tail++ % VERBS_IOVS] = tx->iov[i];
		s->pieces++;
	}
}

int verbs_tx(struct transport_conn *base, const struct transport_tx *tx, uint32_t n)
{
	struct verbs_conn *c = verbs_conn_of(base);
	uint32_t taken;

	if (c->phase > VERBS_OPEN)
		return -ENOTCONN;
	for (taken = 0; taken < n; taken++) {
		uint64_t length;
		int r = queue_check(c, &tx[taken], &length);

		if (r < 0 && !taken)
			return r;
		if (r < 0 || !queue_fits(&c->tx, tx[taken].niov))
			break;
		queue_push(&c->tx, &tx[taken], length);
	}
	if (taken)
		verbs_ready(c);
	return (int)taken;
}

void verbs_tx_settle(struct verbs_conn *c)
{
	struct verbs_tx *q = &c->tx;

	while (q->done != q->tail) {
		struct verbs_tx_slot *s = &q->slot[q->done % VERBS_MAX_TX];

		if (!s->posted || s->under_way)
			return;
		if (s->region)
			s->region->busy--;
		s->region = NULL;
		q->done++;
	}
}

void verbs_tx_cancel(struct verbs_conn *c, int status)
{
	struct verbs_tx *q = &c->tx;

	for (uint32_t i = q->done; i != q->tail; i++) {
		struct verbs_tx_slot *s = &q->slot[i % VERBS_MAX_TX];

		s->posted = true;
		s->under_way = 0;
		s->status = status;
	}
	q->next = q->tail;
	q->iov_head = q->iov_tail;
	q->iov_skip = 0;
	verbs_tx_settle(c);
}

static uint8_t queue_event(const struct verbs_tx_slot *s)
{
	switch (s->type) {
	case TRANSPORT_READ:
		return TRANSPORT_READ_DONE;
	case TRANSPORT_WRITE:
		return TRANSPORT_WRITE_DONE;
	default:
		return TRANSPORT_TX_DONE;
	}
}

void verbs_tx_report(struct verbs_conn *c, struct verbs_batch *b)
{
	struct verbs_tx *q = &c->tx;

	while (q->reported != q->done && b->n < b->max) {
		const struct verbs_tx_slot *s = &q->slot[q->reported++ % VERBS_MAX_TX];
		struct transport_event *ev = verbs_emit(c, b, queue_event(s));

		ev->cookie = s->cookie;
		ev->status = s->status;
	}
}

int verbs_post_rx(struct transport_conn *base, const struct transport_rx *rx, uint32_t n)
{
	struct verbs_conn *c = verbs_conn_of(base);

	if (c->phase > VERBS_OPEN)
		return -ENOTCONN;
	for (uint32_t i = 0; i < n; i++) {
		if (!rx[i].data || !rx[i].length)
			return -EINVAL;
	}
	if (n > VERBS_MAX_RX - (c->rx.tail - c->rx.head))
		return -ENOBUFS;
	for (uint32_t i = 0; i < n; i++)
		c->rx.slot[c->rx.tail++ % VERBS_MAX_RX] = rx[i];
	if (c->waiting != VERBS_NO_SLOT)
		verbs_ready(c);
	return 0;
}
