/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What arrives. A byte stream is read in the pieces that its own content tells: a header, then
 * exactly its body, then its payload in pieces of at most NODE_PIECE_BYTES, each straight into
 * the pages of its value (so that the checksum follows while they are in cache) or into memory that
 * nobody reads. The connection never waits for a request: a payload that has no place (its PUT
 * waits, was refused, was cancelled, is past its deadline) is thrown away as it arrives.
 *
 * A request may so end while buffers that lie in its pages are posted. They are adrift: redirected
 * to nowhere, so the pages can go, and counted, so their events are taken for nobody's. Buffers
 * come back in order, therefore the adrift ones are the first of those that are posted.
 *
 * On a message transport each free request keeps its buffer posted, and a message comes whole.
 */
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "node/session.h"

#define RECEIVE_PATIENCE 16u	/* turns that a payload may wait for its PUT to get room */

/* Posts one buffer. False: the connection is ending. */
static bool receive_post(struct session *s, void *data, uint32_t length, uint64_t cookie)
{
	const struct transport_rx rx = { .data = data, .length = length, .cookie = cookie };
	int r = transport_post_rx(s->conn, &rx, 1);

	if (r < 0) {
		node_session_close(s, false);
		return false;
	}
	return true;
}

void node_receive_start(struct session *s)
{
	s->rx = s->stream ? RX_MAGIC : RX_HEADER;
	(void)receive_post(s, s->hs.in, s->stream ? 4 : SESSION_HS_IN,
			   cookie_make(COOKIE_HANDSHAKE_RX, 0, 0));	/* failed: it is closing */
}

void node_receive_next_handshake(struct session *s)
{
	s->rx = RX_HEADER;
	(void)receive_post(s, s->hs.in, s->stream ? WIRE_HEADER_SIZE : SESSION_HS_IN,
			   cookie_make(COOKIE_HANDSHAKE_RX, 0, 0));	/* failed: it is closing */
}

static void receive_next_header(struct session *s)
{
	s->rx = RX_HEADER;
	(void)receive_post(s, &s->head, sizeof(s->head),
			   cookie_make(COOKIE_HEADER, 0, 0));	/* failed: it is closing */
}

void node_receive_open(struct session *s)
{
	if (s->stream) {
		receive_next_header(s);
		return;
	}
	list_for_each(it, &s->free) {
		struct request *r = list_entry(it, struct request, link);

		if (!receive_post(s, r->message, s->max_message,
				  cookie_make(COOKIE_MESSAGE, r->index, 0)))
			return;
	}
}

/* Who else could have knocked: for the one line that says so. */
static const char *receive_stranger(const uint8_t magic[4])
{
	if (magic[0] == 0x16 && magic[1] == 0x03)
		return "it speaks TLS, and this port does not";
	if (memcmp(magic, "GET ", 4) == 0 || memcmp(magic, "POST", 4) == 0 ||
	    memcmp(magic, "HEAD", 4) == 0 || memcmp(magic, "PUT ", 4) == 0 ||
	    memcmp(magic, "PRI ", 4) == 0 || memcmp(magic, "OPTI", 4) == 0)
		return "it speaks HTTP, and this port does not";
	if (magic[0] == '*' || memcmp(magic, "PING", 4) == 0 || memcmp(magic, "INFO", 4) == 0)
		return "it speaks the Redis protocol, and this port does not";
	if (memcmp(magic, "SSH-", 4) == 0)
		return "it speaks SSH, and this port does not";
	return "its first bytes are no message of ours";
}

static const char *receive_header_fault(const struct wire_header *h, uint32_t max_message)
{
	int r = wire_header_check(h, max_message);

	if (r == -EMSGSIZE)
		return "a message is longer than was agreed";
	if (r < 0 && r != -EOPNOTSUPP)
		return "a header is of no protocol or version that this node speaks";
	if (h->flags & WIRE_REPLY)
		return "a reply came where a request was due";
	return NULL;
}

static void receive_handshake_header(struct session *s, struct wire_header *h, uint32_t have)
{
	const char *fault;

	memcpy(h, s->hs.in, sizeof(*h));
	fault = receive_header_fault(h, SESSION_HS_IN);
	if (!fault && h->payload_len != 0)
		fault = "payload before authentication";
	if (!fault && !s->stream && have != WIRE_HEADER_SIZE + h->body_len)
		fault = "a message's length is not what its header says";
	if (fault) {
		node_session_refuse(s, fault);
		return;
	}
	if (s->stream && have == WIRE_HEADER_SIZE && h->body_len > 0) {
		s->rx = RX_BODY;
		(void)receive_post(s, s->hs.in + WIRE_HEADER_SIZE, h->body_len,
				   cookie_make(COOKIE_HANDSHAKE_RX, 0, 0));	/* or closing */
		return;
	}
	node_handshake_message(s, h, s->hs.in + WIRE_HEADER_SIZE,
			       WIRE_HEADER_SIZE + h->body_len);
}

static void receive_handshake(struct session *s, uint32_t length)
{
	struct wire_header h;
	uint32_t magic;

	switch (s->rx) {
	case RX_MAGIC:
		memcpy(&magic, s->hs.in, sizeof(magic));
		if (magic != WIRE_MAGIC) {
			node_session_refuse(s, receive_stranger(s->hs.in));
			return;
		}
		s->rx = RX_HEADER;
		(void)receive_post(s, s->hs.in + 4, WIRE_HEADER_SIZE - 4,
				   cookie_make(COOKIE_HANDSHAKE_RX, 0, 0));	/* or closing */
		return;
	case RX_HEADER:
		if (!s->stream && length < WIRE_HEADER_SIZE) {
			node_session_refuse(s, "a message is shorter than a header");
			return;
		}
		receive_handshake_header(s, &h, s->stream ? WIRE_HEADER_SIZE : length);
		return;
	case RX_BODY:
		memcpy(&h, s->hs.in, sizeof(h));
		node_handshake_message(s, &h, s->hs.in + WIRE_HEADER_SIZE,
				       WIRE_HEADER_SIZE + h.body_len);
		return;
	default:
		return;
	}
}

/* Header and body are in r->message. */
static void receive_body(struct session *s, struct request *r)
{
	struct wire_header h;
	int e;

	memcpy(&h, r->message, sizeof(h));
	if (wire_body_check(&h, r->message + WIRE_HEADER_SIZE) < 0) {
		node_session_refuse(s, "the checksum of a message is wrong");
		return;
	}
	e = wire_request_decode(&h, r->message + WIRE_HEADER_SIZE, &r->wire);
	r->wire.header = h;
	if (s->stream) {
		s->rx_left = h.payload_len;
		s->rx_request = NULL;
		s->rx = RX_PAYLOAD;
	}
	s->rx_patience = 0;
	node_request_start(r, e);
	if (!s->stream || s->state != SESSION_OPEN)
		return;
	if (s->rx_left > 0 && r->state == REQUEST_ENGINE) {
		s->rx_request = r;
		s->rx_patience = s->reactor->turn + RECEIVE_PATIENCE;
	}
	if (s->rx_left == 0 && s->rx_out == 0)
		receive_next_header(s);
}

static void receive_begin(struct session *s)
{
	struct request *r;

	if (!node_request_has_credit(s, s->head.op)) {
		node_session_refuse(s, "more requests under way than it has credits for");
		return;
	}
	if (list_empty(&s->free)) {
		s->rx = RX_HELD;	/* until a reply that was handed over is really out */
		return;
	}
	r = list_entry(s->free.next, struct request, link);
	node_request_begin(r, &s->head);
	memcpy(r->message, &s->head, sizeof(s->head));
	if (s->head.body_len == 0) {
		receive_body(s, r);
		return;
	}
	s->rx = RX_BODY;
	if (receive_post(s, r->message + WIRE_HEADER_SIZE, s->head.body_len,
			 cookie_make(COOKIE_BODY, r->index, s->head.body_len))) {
		r->out++;
		session_owe(s);
	}
}

void node_receive_resume(struct session *s)
{
	if (s->rx == RX_HELD)
		receive_begin(s);
}

static void receive_header(struct session *s)
{
	const char *fault = receive_header_fault(&s->head, s->max_message);

	if (fault)
		node_session_refuse(s, fault);
	else
		receive_begin(s);
}

static void receive_message(struct session *s, struct request *r, uint32_t length)
{
	struct wire_header h;
	const char *fault = NULL;

	if (length < sizeof(h)) {
		node_session_refuse(s, "a message is shorter than a header");
		return;
	}
	memcpy(&h, r->message, sizeof(h));
	fault = receive_header_fault(&h, s->max_message);
	if (!fault && (length != sizeof(h) + h.body_len || h.payload_len != 0))
		fault = "a message's length is not what its header says";
	if (!fault && !node_request_has_credit(s, h.op))
		fault = "more requests under way than it has credits for";
	if (fault) {
		node_session_refuse(s, fault);
		return;
	}
	node_request_begin(r, &h);
	receive_body(s, r);
}

/* Takes the pages of @r back from the transport. False: it would not, and the connection ends. */
static bool receive_set_adrift(struct session *s, struct request *r)
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

void node_receive_strand(struct session *s, struct request *r)
{
	if (s->rx_request == r) {
		if (!receive_set_adrift(s, r))
			return;
		s->rx_request = NULL;
	}
	node_transfer_stop(r);
}

void node_receive_expire(struct session *s, uint64_t now)
{
	struct request *r = s->rx_request;

	if (!r || r->state != REQUEST_PULL)
		return;		/* one that the engine has ends there */
	if (now < r->op.deadline_ns) {
		node_reactor_due(s->reactor, r->op.deadline_ns);
		return;
	}
	r->expired = true;
	node_receive_strand(s, r);
	node_session_kick(s);
}

static void receive_payload(struct session *s, const struct transport_event *ev)
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
	if (s->state == SESSION_OPEN && s->rx == RX_PAYLOAD && s->rx_left == 0 && s->rx_out == 0) {
		s->rx_request = NULL;
		receive_next_header(s);
	}
}

void node_receive_event(struct session *s, const struct transport_event *ev)
{
	bool usable = ev->status >= 0;
	struct request *r;

	switch (cookie_kind(ev->cookie)) {
	case COOKIE_HANDSHAKE_RX:
		if (usable && s->state < SESSION_OPEN)
			receive_handshake(s, ev->length);
		break;
	case COOKIE_HEADER:
		if (usable && s->state == SESSION_OPEN)
			receive_header(s);
		break;
	case COOKIE_BODY:
		r = &s->requests[cookie_request(ev->cookie)];
		r->out--;
		s->out--;
		if (!node_request_settle_lost(r) && usable && s->state == SESSION_OPEN)
			receive_body(s, r);
		break;
	case COOKIE_MESSAGE:
		if (usable && s->state == SESSION_OPEN)
			receive_message(s, &s->requests[cookie_request(ev->cookie)], ev->length);
		break;
	case COOKIE_PAYLOAD:
	case COOKIE_DISCARD:
		receive_payload(s, ev);
		break;
	default:
		break;
	}
}

/*
 * The engine has not decided about a PUT whose payload is at the door. When it only makes room that
 * takes a few turns, and is waited for; another writer may take long, and is not.
 */
static bool receive_waits(struct session *s)
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
static uint32_t receive_place(struct session *s, uint32_t want, void **ret_data)
{
	struct request *r = s->rx_request;
	struct iovec iov;
	uint64_t bytes;

	if (!r) {
		*ret_data = s->reactor->discard;
		return want;
	}
	if (engine_object_iov(r->transfer.object, r->transfer.offset + r->transfer.posted, want,
			      &iov, 1, &bytes) != 1)
		return 0;
	*ret_data = iov.iov_base;
	return (uint32_t)bytes;
}

uint32_t node_receive_pump(struct session *s, uint32_t budget)
{
	uint32_t used = 0;

	if (s->rx == RX_PAYLOAD && receive_waits(s))
		return 0;
	while (s->state == SESSION_OPEN && s->rx == RX_PAYLOAD && s->rx_left > 0 && used < budget &&
	       s->rx_out < NODE_WINDOW_BYTES && s->rx_posted + 1 < s->limits->max_rx) {
		struct request *r = s->rx_request;
		uint32_t want = (uint32_t)MIN(s->rx_left, (uint64_t)(budget - used)), bytes;
		void *data = NULL;

		if (r && s->reactor->now_ns > r->op.deadline_ns) {
			r->expired = true;
			node_receive_strand(s, r);
			continue;
		}
		bytes = receive_place(s, want, &data);
		if (bytes == 0 ||
		    !receive_post(s, data, bytes,
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
	}
	return used;
}
