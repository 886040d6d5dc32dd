/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payload of a byte stream, whatever protocol frames it: s->rx_left bytes of it are still to come,
 * in pieces of at most NODE_PIECE_BYTES, each straight into the pages of its value (so that the
 * checksum follows while they are in cache) or into memory that nobody reads.
 *
 * A request may end while buffers that lie in its pages are posted. They are adrift: redirected
 * to nowhere, so the pages can go, and counted, so their events are taken for nobody's. Buffers
 * come back in order, therefore the adrift ones are the first of those that are posted.
 */
#include "base/compiler.h"
#include "node/codec.h"
#include "node/session.h"

/* Takes the pages of @r back from the transport. False: it would not, and the connection ends. */
static bool payload_set_adrift(struct session *s, struct request *r)
{
	struct transport_conn *c = s->conn;
	uint32_t n = s->rx_posted - s->rx_adrift;

	/* all that is posted is of @r: a payload begins when the one before is in */
	for (uint32_t i = 0; i < n; i++) {
		uint64_t cookie = cookie_make(COOKIE_PAYLOAD, r->index, s->rx_number - n + i);

		if (c->transport->ops->redirect_rx(c, cookie, NULL) < 0) {
			node_session_close(s, false);
			return false;
		}
	}
	s->rx_adrift = s->rx_posted;
	r->out -= n;
	return true;
}

void node_payload_strand(struct session *s, struct request *r)
{
	if (s->rx_request == r) {
		if (!payload_set_adrift(s, r))
			return;
		s->rx_request = NULL;
	}
	node_transfer_stop(r);
}

void node_payload_expire(struct session *s, uint64_t now)
{
	struct request *r = s->rx_request;

	if (!r || r->state != REQUEST_PULL)
		return;		/* one that the engine has ends there */
	if (now < r->op.deadline_ns) {
		node_reactor_due(s->reactor, r->op.deadline_ns);
		return;
	}
	r->expired = true;
	node_payload_strand(s, r);
	node_session_kick(s);
}

void node_payload_event(struct session *s, const struct transport_event *ev)
{
	bool pages = cookie_kind(ev->cookie) == COOKIE_PAYLOAD;

	if (s->rx_adrift > 0) {
		s->rx_adrift--;
		pages = false;
	}
	s->out--;
	s->rx_posted--;
	s->rx_out -= ev->length;	/* it is full, or the connection is down */
	if (pages)
		node_transfer_landed(&s->requests[cookie_request(ev->cookie)], ev->data,
				     ev->length, ev->status);
	else if (ev->status >= 0)
		node_account_discarded(s, ev->length);
	if (s->state == SESSION_OPEN && s->rx == RX_PAYLOAD && s->rx_left == 0 && s->rx_out == 0) {
		s->rx_request = NULL;
		s->codec->payload_over(s);
	}
}

/*
 * The engine has not decided about a PUT whose payload is at the door. When it only makes room that
 * takes a few turns, and is waited for; another writer may take long, and is not.
 */
static bool payload_waits(struct session *s)
{
	struct request *r = s->rx_request;

	if (!r || r->state != REQUEST_ENGINE)
		return false;
	if (s->reactor->turn <= s->rx_patience)
		return true;
	r->stranded = true;
	s->rx_request = NULL;
	return false;
}

/* Where the next piece of the payload goes; 0 = nowhere for now. */
static uint32_t payload_place(struct session *s, uint32_t want, void **ret_data)
{
	struct request *r = s->rx_request;
	struct iovec iov;
	uint64_t bytes;

	if (!r) {
		*ret_data = s->reactor->discard;
		return want;
	}
	if (r->transfer.sink) {
		*ret_data = r->transfer.sink;
		return s->rx_out == 0 ? MIN(want, r->transfer.sink_bytes) : 0;
	}
	if (engine_object_iov(r->transfer.object, r->transfer.offset + r->transfer.posted, want,
			      &iov, 1, &bytes) != 1)
		return 0;
	*ret_data = iov.iov_base;
	return (uint32_t)bytes;
}

uint32_t node_payload_pump(struct session *s, uint32_t budget)
{
	uint32_t used = 0;

	if (s->rx == RX_PAYLOAD && payload_waits(s))
		return 0;
	while (s->state == SESSION_OPEN && s->rx == RX_PAYLOAD && s->rx_left > 0 && used < budget &&
	       s->rx_out < NODE_WINDOW_BYTES && s->rx_posted + 1 < s->limits->max_rx) {
		struct request *r = s->rx_request;
		uint32_t want = (uint32_t)MIN(s->rx_left, (uint64_t)(budget - used)), bytes;
		void *data = NULL;

		if (r && s->reactor->now_ns > r->op.deadline_ns) {
			r->expired = true;
			node_payload_strand(s, r);
			continue;
		}
		bytes = payload_place(s, want, &data);
		if (bytes == 0 ||
		    !node_session_post_rx(s, data, bytes,
				  cookie_make(r ? COOKIE_PAYLOAD : COOKIE_DISCARD,
					      r ? r->index : 0, s->rx_number)))
			break;
		session_owe(s);
		s->rx_number++;
		s->rx_posted++;
		s->rx_out += bytes;
		s->rx_left -= bytes;
		used += bytes;
		if (r) {
			r->out++;
			r->transfer.posted += bytes;
		}
		if (s->rx_left == 0)
			s->codec->payload_posted(s);
	}
	return used;
}
