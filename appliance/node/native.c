/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec of docs/protocol.md, as far as it reads; handshake.c is its first words, dispatch.c and
 * ops_*.c its operations, reply.c its answers.
 *
 * A byte stream is read in the pieces that its own content tells: a header, then exactly its body,
 * then its payload. The connection never waits for a request: a payload that has no place (its PUT
 * waits, was refused, was cancelled, is past its deadline) is thrown away as it arrives.
 *
 * On a message transport each free request keeps its buffer posted, and a message comes whole.
 */
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "node/codec.h"
#include "node/session.h"

#define NATIVE_PATIENCE 16u	/* turns that a payload may wait for its PUT to get room */

static int native_start(struct session *s)
{
	s->rx = s->stream ? RX_MAGIC : RX_HEADER;
	(void)node_session_post_rx(s, s->hs.in, s->stream ? 4 : SESSION_HS_IN,
			   cookie_make(COOKIE_HANDSHAKE_RX, 0, 0));	/* failed: it is closing */
	return 0;
}

void node_native_next_handshake(struct session *s)
{
	s->rx = RX_HEADER;
	(void)node_session_post_rx(s, s->hs.in, s->stream ? WIRE_HEADER_SIZE : SESSION_HS_IN,
			   cookie_make(COOKIE_HANDSHAKE_RX, 0, 0));	/* failed: it is closing */
}

static void native_next_header(struct session *s)
{
	s->rx = RX_HEADER;
	(void)node_session_post_rx(s, &s->head, sizeof(s->head),
			   cookie_make(COOKIE_HEADER, 0, 0));	/* failed: it is closing */
}

void node_native_open(struct session *s)
{
	if (s->stream) {
		native_next_header(s);
		return;
	}
	list_for_each(it, &s->free) {
		struct request *r = list_entry(it, struct request, link);

		if (!node_session_post_rx(s, r->message, s->max_message,
				  cookie_make(COOKIE_MESSAGE, r->index, 0)))
			return;
	}
}

/* Who else could have knocked: for the one line that says so. */
static const char *native_stranger(const uint8_t magic[4])
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

static const char *native_header_fault(const struct wire_header *h, uint32_t max_message)
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

static void native_handshake_header(struct session *s, struct wire_header *h, uint32_t have)
{
	const char *fault;

	memcpy(h, s->hs.in, sizeof(*h));
	fault = native_header_fault(h, SESSION_HS_IN);
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
		(void)node_session_post_rx(s, s->hs.in + WIRE_HEADER_SIZE, h->body_len,
				   cookie_make(COOKIE_HANDSHAKE_RX, 0, 0));	/* or closing */
		return;
	}
	node_handshake_message(s, h, s->hs.in + WIRE_HEADER_SIZE,
			       WIRE_HEADER_SIZE + h->body_len);
}

static void native_handshake(struct session *s, uint32_t length)
{
	struct wire_header h;
	uint32_t magic;

	switch (s->rx) {
	case RX_MAGIC:
		memcpy(&magic, s->hs.in, sizeof(magic));
		if (magic != WIRE_MAGIC) {
			node_session_refuse(s, native_stranger(s->hs.in));
			return;
		}
		s->rx = RX_HEADER;
		(void)node_session_post_rx(s, s->hs.in + 4, WIRE_HEADER_SIZE - 4,
				   cookie_make(COOKIE_HANDSHAKE_RX, 0, 0));	/* or closing */
		return;
	case RX_HEADER:
		if (!s->stream && length < WIRE_HEADER_SIZE) {
			node_session_refuse(s, "a message is shorter than a header");
			return;
		}
		native_handshake_header(s, &h, s->stream ? WIRE_HEADER_SIZE : length);
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

static bool native_is_control(uint8_t opcode)
{
	const struct wire_op_info *info = wire_op_info(opcode);

	return info && (info->flags & WIRE_OP_CONTROL);
}

/* A credit for @opcode: the extra one serves only what carries the flag CONTROL. */
static bool native_has_credit(const struct session *s, uint8_t opcode)
{
	if (s->charged > s->credits)
		return false;
	return native_is_control(opcode) || s->charged_plain < s->credits;
}

/* The body is in and decoded (or @error). */
static void native_run(struct request *r, int error)
{
	node_request_start(r);
	if (!wire_op_info(r->opcode))
		node_reply_error(r, LARDER_UNSUPPORTED, 0, "operation 0x%02x is not known here",
				 r->opcode);
	else if (error < 0)
		node_reply_error(r, LARDER_BAD_REQUEST, 0,
				 "the body of %s makes no sense: its lengths, counts or flags are "
				 "not as docs/protocol.md tells",
				 wire_op_info(r->opcode)->name);
	else if (r->session->viewer)
		node_yield_start(r);
	else
		node_dispatch(r);
}

/* Header and body are in r->message. */
static void native_body(struct session *s, struct request *r)
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
	native_run(r, e);
	if (!s->stream || s->state != SESSION_OPEN)
		return;
	if (s->rx_left > 0 && r->state == REQUEST_ENGINE) {
		s->rx_request = r;
		s->rx_patience = s->reactor->turn + NATIVE_PATIENCE;
	}
	if (s->rx_left == 0 && s->rx_out == 0)
		native_next_header(s);
}

static void native_begin(struct session *s)
{
	struct request *r;

	if (!native_has_credit(s, s->head.op)) {
		node_session_refuse(s, "more requests under way than it has credits for");
		return;
	}
	if (list_empty(&s->free)) {
		s->rx = RX_HELD;	/* until a reply that was handed over is really out */
		return;
	}
	r = list_entry(s->free.next, struct request, link);
	node_request_begin(r, s->head.op, native_is_control(s->head.op));
	memcpy(r->message, &s->head, sizeof(s->head));
	if (s->head.body_len == 0) {
		native_body(s, r);
		return;
	}
	s->rx = RX_BODY;
	if (node_session_post_rx(s, r->message + WIRE_HEADER_SIZE, s->head.body_len,
			 cookie_make(COOKIE_BODY, r->index, s->head.body_len))) {
		r->out++;
		session_owe(s);
	}
}

static void native_resume(struct session *s)
{
	if (s->rx == RX_HELD)
		native_begin(s);
}

static void native_header(struct session *s)
{
	const char *fault = native_header_fault(&s->head, s->max_message);

	if (fault)
		node_session_refuse(s, fault);
	else
		native_begin(s);
}

static void native_message(struct session *s, struct request *r, uint32_t length)
{
	struct wire_header h;
	const char *fault = NULL;

	if (length < sizeof(h)) {
		node_session_refuse(s, "a message is shorter than a header");
		return;
	}
	memcpy(&h, r->message, sizeof(h));
	fault = native_header_fault(&h, s->max_message);
	if (!fault && (length != sizeof(h) + h.body_len || h.payload_len != 0))
		fault = "a message's length is not what its header says";
	if (!fault && !native_has_credit(s, h.op))
		fault = "more requests under way than it has credits for";
	if (fault) {
		node_session_refuse(s, fault);
		return;
	}
	node_request_begin(r, h.op, native_is_control(h.op));
	native_body(s, r);
}

static void native_received(struct session *s, const struct transport_event *ev)
{
	bool usable = ev->status >= 0;
	struct request *r;

	switch (cookie_kind(ev->cookie)) {
	case COOKIE_HANDSHAKE_RX:
		if (usable && s->state < SESSION_OPEN)
			native_handshake(s, ev->length);
		break;
	case COOKIE_HEADER:
		if (usable && s->state == SESSION_OPEN)
			native_header(s);
		break;
	case COOKIE_BODY:
		r = &s->requests[cookie_request(ev->cookie)];
		r->out--;
		s->out--;
		if (!node_request_settle_lost(r) && usable && s->state == SESSION_OPEN)
			native_body(s, r);
		break;
	case COOKIE_MESSAGE:
		if (usable && s->state == SESSION_OPEN)
			native_message(s, &s->requests[cookie_request(ev->cookie)], ev->length);
		break;
	default:
		break;
	}
}

/* Each free request keeps its buffer posted where messages come whole. */
static void native_freed(struct request *r)
{
	struct session *s = r->session;

	if (s->stream)
		native_resume(s);
	else	/* failed: it is closing */
		(void)node_session_post_rx(s, r->message, s->max_message,
					   cookie_make(COOKIE_MESSAGE, r->index, 0));
}

static void native_stop(struct session *s)
{
	explicit_bzero(&s->hs, sizeof(s->hs));
}

static void native_payload_posted(struct session *s)
{
	/* a header is asked for when the payload is in: it may have to wait for a request */
}

static void native_scan(struct session *s, uint64_t now_ns)
{
	node_puts_expire(s, now_ns);	/* after the part that may hold it up */
}

const struct node_codec node_codec_native = {
	.name = "native",
	.start = native_start,
	.stop = native_stop,
	.received = native_received,
	.greeted = node_handshake_sent,
	.payload_posted = native_payload_posted,
	.payload_over = native_next_header,
	.freed = native_freed,
	.refuse = node_native_refuse,
	.scan = native_scan,
};
