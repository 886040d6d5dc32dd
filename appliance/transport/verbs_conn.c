/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: its state (verbs_phase.h), its turn, its end.
 *
 * All work is done in turns: poll visits each connection that has something to do once, and a turn
 * moves at most TRANSPORT_TURN_BYTES, delivered and posted together.
 *
 * The end: rdma_cm tells the peer, the queue pair goes into the error state, what is at the device
 * comes back flushed, and behind it a marker of ours. Then the queue pair is destroyed, and only
 * then does the owner hear DOWN: nothing touches its memory any more.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "transport/verbs.h"

void verbs_conn_move(struct verbs_conn *c, enum verbs_phase to)
{
	if (!verbs_phase_allows(c->phase, to))
		log_err(verbs_owner(c)->config.log, "rdma: a connection goes from %s to %s",
			verbs_phase_name(c->phase), verbs_phase_name(to));
	c->phase = (uint8_t)to;
}

void verbs_conn_start(struct verbs_transport *t, struct verbs_conn *c, enum verbs_phase phase)
{
	bool accepted = c->accepted;

	memset(c, 0, offsetof(struct verbs_conn, wr));
	c->accepted = accepted;
	c->base.transport = &t->base;
	c->waiting = VERBS_NO_SLOT;
	c->rx.head = c->rx.tail = 0;
	c->tx.reported = c->tx.done = c->tx.next = c->tx.tail = 0;
	c->tx.iov_head = c->tx.iov_tail = 0;
	c->tx.iov_skip = 0;
	list_init(&c->regions);
	list_init(&c->bucket);
	list_init(&c->ready);
	list_init(&c->link);
	list_push_tail(&t->conns, &c->link);
	c->phase = VERBS_FREE;
	verbs_conn_move(c, phase);
}

void verbs_conn_end(struct verbs_conn *c, int status, int cancel_status)
{
	struct verbs_transport *t = verbs_owner(c);

	if (c->phase >= VERBS_ENDING)
		return;
	c->status = status;
	c->cancel_status = cancel_status;
	verbs_conn_move(c, VERBS_ENDING);
	c->ending_ns = t->config.clock ? clock_now(t->config.clock) : 0;
	/* it may have gone already, or not be reached any more: nothing waits for its answer */
	if (c->established)
		(void)rdma_disconnect(c->id);
	verbs_qp_stop(c);
	verbs_ready(c);
}

void verbs_conn_strip(struct verbs_conn *c)
{
	struct verbs_device *d = c->device;

	verbs_qp_free(c);
	verbs_region_orphan_all(c);
	for (; c->wr_head != c->wr_tail; c->wr_head++) {
		const struct verbs_wr *wr = &c->wr[c->wr_head % VERBS_WRS];

		if (wr->buffer >= 0)
			d->tx_free[d->n_tx_free++] = (uint16_t)wr->buffer;
	}
	c->n_buffers = 0;
	if (d) {
		verbs_drop_waiting(c);
		if (c->window)
			d->receives_left += c->window + VERBS_UPDATES;
		c->window = 0;
	}
	if (c->id)
		(void)rdma_destroy_id(TAKE_PTR(c->id));
	c->device = NULL;
}

void verbs_conn_release(struct verbs_conn *c)
{
	struct verbs_transport *t = verbs_owner(c);

	verbs_conn_end(c, -ECANCELED, -ECANCELED);
	if (c->phase == VERBS_ENDING) {
		verbs_conn_strip(c);
		verbs_conn_move(c, VERBS_OVER);
	}
	verbs_tx_cancel(c, c->cancel_status);
	verbs_conn_move(c, VERBS_GONE);
	list_remove(&c->ready);
	list_remove(&c->link);
	list_push_tail(&t->gone, &c->link);
}

/* --- the end, step by step ----------------------------------------------------------------- */

static bool conn_is_flushed(const struct verbs_conn *c)
{
	const struct verbs_transport *t = verbs_owner(c);

	if (!c->qp)
		return true;
	if (c->wr_head == c->wr_tail)
		return c->device->drained;	/* no completion names it any more */
	return !t->config.clock || clock_now(t->config.clock) - c->ending_ns > VERBS_FLUSH_NS;
}

static void conn_return_buffers(struct verbs_conn *c, struct verbs_batch *b)
{
	while (c->rx.head != c->rx.tail && b->n < b->max) {
		const struct transport_rx *rx = &c->rx.slot[c->rx.head++ % VERBS_MAX_RX];
		struct transport_event *ev = verbs_emit(c, b, TRANSPORT_RX);

		ev->cookie = rx->cookie;
		ev->data = rx->data;
		ev->status = c->cancel_status;
	}
}

static void conn_finish(struct verbs_conn *c, struct verbs_batch *b)
{
	struct transport_event *ev;

	if (c->phase == VERBS_ENDING) {
		if (!conn_is_flushed(c))
			return;
		verbs_conn_strip(c);
		verbs_conn_move(c, VERBS_OVER);
	}
	if (c->phase == VERBS_OVER) {
		verbs_tx_report(c, b);		/* what was done before */
		if (c->tx.reported != c->tx.done || b->n == b->max)
			return;
		ev = verbs_emit(c, b, TRANSPORT_CONN_DOWN);
		ev->status = c->status;
		verbs_conn_move(c, VERBS_DOWN);
		verbs_tx_cancel(c, c->cancel_status);
	}
	verbs_tx_report(c, b);
	conn_return_buffers(c, b);
	if (c->tx.reported != c->tx.tail || c->rx.head != c->rx.tail || b->n == b->max)
		return;
	(void)verbs_emit(c, b, TRANSPORT_CONN_GONE);	/* has no further field */
	verbs_conn_release(c);
}

/* --- the turn ------------------------------------------------------------------------------ */

static void conn_budget(struct verbs_conn *c)
{
	const struct verbs_transport *t = verbs_owner(c);

	if (c->turn == t->turn)
		return;
	c->turn = t->turn;
	c->turn_left = TRANSPORT_TURN_BYTES;
}

static bool conn_owes(const struct verbs_conn *c)
{
	return c->tx.done != c->tx.tail;
}

/* The peer has gone. What it sent before finds its buffers first, as far as there are some. */
static void conn_closed(struct verbs_conn *c)
{
	bool unread = c->waiting != VERBS_NO_SLOT && c->rx.head != c->rx.tail;

	if (c->phase >= VERBS_ENDING || unread || !c->device->drained)
		return;
	verbs_conn_end(c, conn_owes(c) ? -ECONNRESET : 0, -ECONNRESET);
}

static void conn_open(struct verbs_conn *c, struct verbs_batch *b)
{
	if (c->region_dying)
		verbs_region_bury(c);
	verbs_tx_report(c, b);
	verbs_deliver(c, b);
	if (c->phase == VERBS_OPEN) {
		verbs_post_update(c);
		verbs_post(c);
	}
	verbs_tx_report(c, b);
}

static bool conn_may_post(const struct verbs_conn *c)
{
	const struct verbs_tx_slot *s = &c->tx.slot[c->tx.next % VERBS_MAX_TX];

	if (c->tx.next == c->tx.tail || c->wr_tail - c->wr_head >= VERBS_SQ)
		return false;	/* a completion brings it here again */
	if (s->type != TRANSPORT_SEND)
		return true;
	return verbs_credits_may_send(&c->credits) && c->n_buffers < VERBS_SEND_BUFFERS;
}

static bool conn_wants(const struct verbs_conn *c)
{
	switch (c->phase) {
	case VERBS_NEW:
	case VERBS_ENDING:
	case VERBS_OVER:
	case VERBS_DOWN:
		return true;
	case VERBS_OPEN:
		return c->closed || c->region_dying || c->starved ||
		       c->tx.reported != c->tx.done || conn_may_post(c) ||
		       (c->waiting != VERBS_NO_SLOT && c->rx.head != c->rx.tail);
	case VERBS_DRAIN:
		return c->closed || c->starved || c->tx.reported != c->tx.done || conn_may_post(c);
	default:
		return false;
	}
}

void verbs_conn_turn(struct verbs_conn *c, struct verbs_batch *b)
{
	conn_budget(c);
	switch (c->phase) {
	case VERBS_NEW:
		if (b->n < b->max) {
			(void)verbs_emit(c, b, TRANSPORT_CONN_UP);	/* has no further field */
			verbs_conn_move(c, VERBS_OPEN);
		}
		break;		/* its owner has to see it first */
	case VERBS_OPEN:
		conn_open(c, b);
		if (c->closed)
			conn_closed(c);
		break;
	case VERBS_DRAIN:
		verbs_post(c);
		verbs_tx_report(c, b);
		if (!conn_owes(c))
			verbs_conn_end(c, 0, -ECANCELED);
		else if (c->closed)
			conn_closed(c);
		break;
	default:
		break;
	}
	if (c->phase >= VERBS_ENDING && c->phase != VERBS_GONE)
		conn_finish(c, b);
	if (conn_wants(c))
		verbs_ready(c);
}

void verbs_conn_flush(struct verbs_conn *c)
{
	if (c->phase != VERBS_OPEN)
		return;
	conn_budget(c);
	verbs_post(c);
}

int verbs_disconnect(struct transport_conn *base, bool drain)
{
	struct verbs_conn *c = verbs_conn_of(base);

	if (c->phase >= VERBS_ENDING)
		return 0;
	if (!drain || c->phase < VERBS_OPEN) {
		verbs_conn_end(c, 0, -ECANCELED);
		return 0;
	}
	if (c->phase == VERBS_OPEN)
		verbs_conn_move(c, VERBS_DRAIN);
	verbs_ready(c);
	return 0;
}

void verbs_peer_text(const struct verbs_conn *c, char *text, size_t size)
{
	if (tcp_address_format(&c->peer, text, size) < 0)
		(void)snprintf(text, size, "?");
}

int verbs_peer(struct transport_conn *base, struct transport_peer *ret)
{
	const struct verbs_conn *c = verbs_conn_of(base);

	*ret = (struct transport_peer){ 0 };
	verbs_peer_text(c, ret->text, sizeof(ret->text));
	return 0;
}
