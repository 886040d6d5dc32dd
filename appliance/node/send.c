/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaves: replies, in the order in which they became ready, each with the payload that belongs
 * to it and nothing of another reply in between. One with little payload goes at once; the rest is
 * handed out by the fair turns (drr.c) in pieces of at most NODE_PIECE_BYTES, straight from the
 * pages, the first piece in one descriptor with its message.
 *
 * What a slow reader can hold is bounded by its credits and the window: its pages stay referenced,
 * nothing is copied for it.
 */
#include <errno.h>
#include <string.h>

#include <larder/probes.h>

#include "base/compiler.h"
#include "node/session.h"

#define SEND_SMALL (16u * 1024u)	/* payload of a reply that goes at once */

void node_send_queue(struct request *r)
{
	node_request_move(r, REQUEST_REPLY);
	larder_probe4(op_phase, request_probe_op(r), r->session->slot, r->opcode,
		      LARDER_PHASE_REPLY);
	r->reply_posted = false;
	r->transfer.posted = r->transfer.done = 0;
	list_push_tail(&r->session->tx, &r->queue);
}

/* Describes the next descriptor of @r. Number of pieces; *@ret_payload = payload bytes in it. */
static uint32_t send_describe(struct request *r, uint32_t budget, struct iovec *iov, uint32_t max,
			      uint32_t *ret_payload)
{
	struct transfer *t = &r->transfer;
	uint64_t want = MIN(r->payload - t->posted, (uint64_t)budget), bytes = 0;
	uint32_t n = 0;

	if (!r->reply_posted)
		iov[n++] = (struct iovec){ .iov_base = r->reply, .iov_len = r->reply_len };
	if (want > 0)
		n += engine_object_iov(t->object, t->offset + t->posted, want, iov + n, max - n - 1,
				       &bytes);
	if (r->trailer && t->posted + bytes == r->payload)
		iov[n++] = (struct iovec){ .iov_base = (void *)r->trailer,
					   .iov_len = strlen(r->trailer) };
	*ret_payload = (uint32_t)bytes;
	return n;
}

/* One descriptor of the first reply. 1 = posted, 0 = not now. */
static int send_one(struct session *s, struct request *r, uint32_t budget, uint32_t *ret_payload)
{
	struct iovec iov[NODE_IOV_MAX];
	uint32_t payload, max = MIN(s->limits->max_iov, NODE_IOV_MAX);
	struct transport_tx tx = { .type = TRANSPORT_SEND, .iov = iov, .gate = TRANSPORT_NO_GATE };
	int n;

	tx.niov = (uint16_t)send_describe(r, budget, iov, max, &payload);
	tx.cookie = cookie_make(COOKIE_SEND, r->index, payload);
	n = transport_tx(s->conn, &tx, 1);
	if (n < 0 && n != -EAGAIN) {
		node_session_close(s, false);
		return 0;
	}
	if (n <= 0)
		return 0;
	r->reply_posted = true;
	r->out++;
	session_owe(s);
	r->transfer.posted += payload;
	*ret_payload = payload;
	return 1;
}

static void send_posted(struct session *s, struct request *r)
{
	if (r->transfer.posted != r->payload)
		return;
	list_remove(&r->queue);
	node_request_uncharge(r);
}

void node_send_small(struct session *s)
{
	while (s->state == SESSION_OPEN && !list_empty(&s->tx)) {
		struct request *r = list_entry(s->tx.next, struct request, queue);
		uint64_t left = r->payload - r->transfer.posted;
		uint32_t payload;

		if (left > SEND_SMALL || (left > 0 && !node_drr_may_overdraw(s->reactor, s)))
			break;
		if (send_one(s, r, (uint32_t)left, &payload) == 0)
			break;
		node_drr_charge(s->reactor, s, payload);
		if (node_admit_class(r->opcode) != LARDER_LIMIT_in_flight_write)
			s->reactor->light_ns = s->reactor->now_ns;
		send_posted(s, r);
	}
}

uint32_t node_send_pump(struct session *s, uint32_t budget)
{
	uint32_t used = 0;

	while (s->state == SESSION_OPEN && !list_empty(&s->tx)) {
		struct request *r = list_entry(s->tx.next, struct request, queue);
		uint32_t payload;

		if (r->payload > r->transfer.posted &&
		    (used >= budget ||
		     r->transfer.posted - r->transfer.done >= NODE_WINDOW_BYTES))
			break;
		if (send_one(s, r, budget - used, &payload) == 0)
			break;
		used += payload;
		send_posted(s, r);
	}
	return used;
}

void node_send_event(struct session *s, const struct transport_event *ev)
{
	struct request *r = &s->requests[cookie_request(ev->cookie)];

	r->out--;
	s->out--;
	if (ev->status >= 0) {
		r->transfer.done += cookie_length(ev->cookie);
		node_account_bytes(r, cookie_length(ev->cookie));
	}
	if (node_request_settle_lost(r))
		return;
	if (ev->status < 0)
		node_session_close(s, false);
	else if (r->out == 0 && r->reply_posted && r->transfer.posted == r->payload)
		node_request_end(r);
}
