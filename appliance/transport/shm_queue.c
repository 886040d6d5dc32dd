/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the owner of a connection has handed over: descriptors in one ring, in order; their pieces
 * in a second ring, so that a descriptor with one piece does not pay for sixty-four; posted buffers
 * in a third.
 *
 * No event is ever stored. A descriptor that is done stays in its slot until an array of a poll has
 * room for its event; so the queue being full is the only limit, and "full" is what tx answers.
 * The slots that carry a descriptor of ours (gates, regions) travel in the same ring, because they
 * must leave before the messages that speak of them, and are dropped silently when done.
 */
#include <errno.h>
#include <string.h>

#include "transport/shm.h"

static_assert((SHM_MAX_TX & (SHM_MAX_TX - 1)) == 0, "positions wrap");
static_assert((SHM_IOVS & (SHM_IOVS - 1)) == 0, "positions wrap");
static_assert((SHM_MAX_RX & (SHM_MAX_RX - 1)) == 0, "positions wrap");
static_assert(SHM_MAX_IOV <= SHM_IOVS, "a descriptor fits into an empty queue");

struct transport_event *shm_emit(struct shm_conn *c, struct shm_batch *b, uint8_t type)
{
	struct transport_event *ev = &b->events[b->n++];

	*ev = (struct transport_event){ .type = type, .conn = &c->base };
	return ev;
}

static bool queue_fits(const struct shm_tx *q, uint32_t niov)
{
	return q->tail - q->reported < SHM_MAX_TX &&
	       SHM_IOVS - (q->iov_tail - q->iov_head) >= niov;
}

/* 0 or why this descriptor can't be taken, whatever the queue. */
static int queue_check(const struct shm_conn *c, const struct transport_tx *tx, uint64_t *length)
{
	const struct shm_region *region;
	uint64_t sum = 0;

	if (tx->niov > SHM_MAX_IOV || (tx->niov && !tx->iov))
		return -EINVAL;
	for (uint32_t i = 0; i < tx->niov; i++) {
		if (tx->iov[i].iov_len > SHM_MAX_TRANSFER)
			return -EMSGSIZE;
		sum += tx->iov[i].iov_len;
	}
	*length = sum;
	if (tx->type == TRANSPORT_SEND)
		return sum > SHM_MAX_MESSAGE ? -EMSGSIZE : 0;
	if (tx->type != TRANSPORT_READ && tx->type != TRANSPORT_WRITE)
		return -EINVAL;
	if (!tx->region)
		return -EINVAL;
	region = container_of(tx->region, struct shm_region, base);
	if (region->conn != c || !region->map)
		return -EINVAL;
	return sum > SHM_MAX_TRANSFER ? -EMSGSIZE : 0;
}

static struct shm_slot *queue_next(struct shm_tx *q)
{
	struct shm_slot *s = &q->slot[q->tail++ % SHM_MAX_TX];

	memset(s, 0, sizeof(*s));
	s->fd = -1;
	return s;
}

static void queue_push(struct shm_tx *q, const struct transport_tx *tx, uint64_t length)
{
	struct shm_slot *s = queue_next(q);

	s->type = tx->type;
	s->gate = tx->gate;
	s->cookie = tx->cookie;
	s->length = length;
	s->offset = tx->offset;
	if (tx->type != TRANSPORT_SEND) {
		s->region = container_of(tx->region, struct shm_region, base);
		s->region->busy++;
	}
	for (uint32_t i = 0; i < tx->niov; i++) {
		if (!tx->iov[i].iov_len)
			continue;
		q->iov[q->iov_tail++ % SHM_IOVS] = tx->iov[i];
		s->pieces++;
	}
}

int shm_tx(struct transport_conn *base, const struct transport_tx *tx, uint32_t n)
{
	struct shm_conn *c = shm_conn_of(base);
	uint32_t taken;

	if (c->phase > SHM_OPEN)
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
	if (taken && !c->blocked)
		shm_ready(c);
	return (int)taken;
}

int shm_tx_fd(struct shm_conn *c, const struct shm_frame *frame, int fd)
{
	struct shm_slot *s;

	if (!queue_fits(&c->tx, 0))
		return -ENOBUFS;
	s = queue_next(&c->tx);
	s->type = SHM_SLOT_FD;
	s->frame = *frame;
	s->fd = fd;
	if (!c->blocked)
		shm_ready(c);
	return 0;
}

struct shm_slot *shm_tx_head(struct shm_conn *c)
{
	return c->tx.done == c->tx.tail ? NULL : &c->tx.slot[c->tx.done % SHM_MAX_TX];
}

uint32_t shm_tx_gather(const struct shm_tx *q, const struct shm_slot *s, size_t bytes,
		       struct iovec *iov)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->pieces && bytes; i++) {
		iov[n] = q->iov[(q->iov_head + i) % SHM_IOVS];
		iov[n].iov_len = MIN(iov[n].iov_len, bytes);
		bytes -= iov[n].iov_len;
		n++;
	}
	return n;
}

void shm_tx_advance(struct shm_tx *q, struct shm_slot *s, size_t bytes)
{
	s->moved += bytes;
	while (bytes) {
		struct iovec *iov = &q->iov[q->iov_head % SHM_IOVS];

		if (iov->iov_len > bytes) {
			iov->iov_base = (char *)iov->iov_base + bytes;
			iov->iov_len -= bytes;
			return;
		}
		bytes -= iov->iov_len;
		q->iov_head++;
		s->pieces--;
	}
}

void shm_tx_finish(struct shm_conn *c, int status)
{
	struct shm_tx *q = &c->tx;
	struct shm_slot *s = &q->slot[q->done++ % SHM_MAX_TX];

	s->status = status;
	q->iov_head += s->pieces;	/* of one that did not get to its end */
	s->pieces = 0;
	if (s->region)
		s->region->busy--;
	if (s->fd >= 0)
		(void)close(TAKE_FD(s->fd));	/* the peer has its own, or nobody will */
}

static uint8_t queue_event(const struct shm_slot *s)
{
	switch (s->type) {
	case SHM_SLOT_READ:
		return TRANSPORT_READ_DONE;
	case SHM_SLOT_WRITE:
		return TRANSPORT_WRITE_DONE;
	default:
		return TRANSPORT_TX_DONE;
	}
}

void shm_tx_report(struct shm_conn *c, struct shm_batch *b)
{
	struct shm_tx *q = &c->tx;

	while (q->reported != q->done) {
		const struct shm_slot *s = &q->slot[q->reported % SHM_MAX_TX];
		struct transport_event *ev;

		if (s->type != SHM_SLOT_FD) {
			if (b->n == b->max)
				return;
			ev = shm_emit(c, b, queue_event(s));
			ev->cookie = s->cookie;
			ev->status = s->status;
		}
		q->reported++;
	}
}

int shm_post_rx(struct transport_conn *base, const struct transport_rx *rx, uint32_t n)
{
	struct shm_conn *c = shm_conn_of(base);

	if (c->phase > SHM_OPEN)
		return -ENOTCONN;
	for (uint32_t i = 0; i < n; i++) {
		if (!rx[i].data || !rx[i].length)
			return -EINVAL;
	}
	if (n > SHM_MAX_RX - (c->rx.tail - c->rx.head))
		return -ENOBUFS;
	for (uint32_t i = 0; i < n; i++)
		c->rx.slot[c->rx.tail++ % SHM_MAX_RX] = rx[i];
	/* When that fails the connection ends, and they come back as events: they are taken. */
	(void)shm_conn_watch(c, EPOLLIN, 0);
	return 0;
}
