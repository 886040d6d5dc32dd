/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What arrives.
 *
 * On a stream the buffers posted are exactly what must come next, in order: a header; when it is
 * there, the body that it announces; when that is decoded, the payload, straight into the caller's
 * memory in pieces whose check is computed while they are in the cache. Nothing is posted into a
 * caller's memory before the reply that carries the payload was decoded and believed, so a refusal
 * never touches it. Payload that nobody wants any more goes into one scratch piece, over and over.
 *
 * Posted buffers and their events are in the same order (the transport's contract), so a ring of
 * what was posted says what each event is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/conn.h"

#define RECEIVE_THROTTLED_MAX_MS 1000u	/* no node may make it wait longer at a time */
#define RECEIVE_SPREAD_MAX 4u		/* doublings of what chance adds */

static int receive_post(struct conn *conn, uint8_t kind, uint8_t *data, uint32_t length)
{
	struct rx *rx = &conn->rx[conn->rx_tail % CONN_RX_POSTED];
	struct transport_rx post = { .data = data, .length = length };
	int r;

	if (conn->rx_tail - conn->rx_head >= CONN_RX_POSTED)
		return -ENOBUFS;
	post.cookie = ++conn->rx_cookie;
	r = transport_post_rx(conn->tc, &post, 1);
	if (r < 0)
		return r;
	*rx = (struct rx){ .kind = kind, .data = data, .length = length, .cookie = post.cookie };
	conn->rx_tail++;
	return 0;
}

static int receive_header(struct conn *conn)
{
	return receive_post(conn, RX_HEADER, (uint8_t *)&conn->header, WIRE_HEADER_SIZE);
}

static uint32_t receive_message_count(const struct conn *conn)
{
	uint32_t max = conn->tc->transport->ops->limits.max_rx;

	return max && max < CONN_RX_POSTED ? max : CONN_RX_POSTED;
}

int receive_start(struct conn *conn)
{
	uint32_t n;

	if (conn->stream)
		return receive_header(conn);
	n = receive_message_count(conn);
	for (uint32_t i = 0; i < n; i++) {
		int r = receive_post(conn, RX_MESSAGE, conn->body + (size_t)i * conn->body_size,
				     conn->body_size);

		if (r < 0)
			return r;
	}
	return 0;
}

int receive_resize(struct conn *conn, uint32_t max_message)
{
	uint8_t *body;

	/* with boundaries, posted buffers can not grow: there the node keeps to what was posted */
	if (!conn->stream || max_message <= conn->body_size)
		return 0;
	body = malloc(max_message);
	if (!body)
		return -ENOMEM;
	/* nothing is posted into it: the welcome was the last body */
	free(conn->body);
	conn->body = body;
	conn->body_size = max_message;
	return 0;
}

/* --- payload --------------------------------------------------------------------------------- */

/* The piece that lies at p->at. */
static int payload_post_one(struct conn *conn)
{
	struct payload *p = &conn->payload;
	uint32_t piece = p->checked ? CONN_PIECE : CONN_PIECE_UNCHECKED;
	uint64_t n = MIN(p->left, (uint64_t)CONN_SCRATCH);
	uint8_t *data = conn->scratch + (size_t)CONN_RX_AHEAD * CONN_SCRATCH;
	uint8_t kind = RX_WASTE;
	int r;

	if (p->call && p->at >= p->app && p->at < p->app_end) {
		kind = RX_VALUE;
		n = iov_take(&p->cursor, (size_t)MIN(p->app_end - p->at, (uint64_t)piece), &data);
		if (!n)
			return -EFAULT;	/* the list is shorter than its sum said */
	} else if (p->call) {
		/* at most CONN_RX_AHEAD are posted at a time: each has a buffer of its own */
		kind = RX_EDGE;
		data = conn->scratch + (size_t)(p->edges++ % CONN_RX_AHEAD) * CONN_SCRATCH;
		if (p->at < p->app)
			n = MIN(n, p->app - p->at);
	}
	r = receive_post(conn, kind, data, (uint32_t)n);
	if (r < 0)
		return r;
	p->left -= n;
	p->at += n;
	p->pending += n;
	return 0;
}

/* Posts ahead; behind the payload, the next header. */
static void payload_fill(struct conn *conn)
{
	struct payload *p = &conn->payload;
	int r = 0;

	while (p->left && conn->rx_tail - conn->rx_head < CONN_RX_AHEAD && !r)
		r = payload_post_one(conn);
	if (!r && !p->left && conn->rx[(conn->rx_tail - 1) % CONN_RX_POSTED].kind != RX_HEADER)
		r = receive_header(conn);
	if (r < 0)
		conn_fail(conn, r, "receiving failed: %s", strerror(-r));
}

/* @call NULL: its bytes are thrown away. */
static void payload_start(struct conn *conn, struct call *call, uint64_t length)
{
	struct payload *p = &conn->payload;

	*p = (struct payload){ .call = call, .left = length };
	conn->in_flight++;	/* the node has its credit back with the last byte, not before */
	if (call) {
		call->state = CALL_RECEIVING;
		p->app = MIN(call->head, length);
		p->app_end = MIN(call->head + call->room, length);
		p->checked = call->got.n_checks > 0;
		iov_start(&p->cursor, call->iov, call->iovcnt);
		verify_start(&p->verify, call->checks, call->got.n_checks, length);
	}
	payload_fill(conn);
}

static void payload_arrived(struct conn *conn, const struct rx *rx)
{
	struct payload *p = &conn->payload;
	struct call *call = p->call;

	p->pending -= rx->length;
	if (call && p->checked && rx->kind != RX_WASTE)
		verify_feed(&p->verify, rx->data, rx->length);
	if (!p->left && !p->pending) {
		conn->in_flight--;
		conn->core->kick = true;
	}
	if (!p->left && !p->pending && call) {
		p->call = NULL;
		value_got_all(call, !p->checked || verify_good(&p->verify));
	}
	if (conn->state != CONN_OVER)
		payload_fill(conn);
}

int receive_abandon(struct conn *conn, struct call *call)
{
	struct payload *p = &conn->payload;
	const struct transport_ops *ops = conn->tc->transport->ops;

	if (p->call != call)
		return 0;
	for (uint32_t i = conn->rx_head; i != conn->rx_tail; i++) {
		struct rx *rx = &conn->rx[i % CONN_RX_POSTED];
		int r;

		if (rx->kind != RX_VALUE && rx->kind != RX_EDGE)
			continue;
		r = ops->redirect_rx(conn->tc, rx->cookie, NULL);
		if (r < 0) {
			conn_fail(conn, r, "a value was cut at its deadline");
			return r;
		}
		rx->kind = RX_WASTE;
	}
	p->call = NULL;
	call->state = CALL_REPLIED;
	call->replied = true;
	call->result = call->end_status;
	return 0;
}

/* --- replies --------------------------------------------------------------------------------- */

static struct call *receive_call(struct conn *conn, const struct wire_header *h)
{
	struct call *call;

	if ((h->request_id & 0xffff) >= CORE_CALLS)
		return NULL;
	call = &conn->core->calls[h->request_id & 0xffff];
	if (call_id(call) != h->request_id || call->conn != conn || call->opcode != h->op)
		return NULL;
	if (call->replied || (call->state != CALL_SENT && call->state != CALL_SENDING))
		return NULL;
	/* not one byte of it has left */
	return call->accepted ? call : NULL;
}

/* A GET's answer. 0 or -EPROTO. */
static int receive_got(struct conn *conn, struct call *call, const struct wire_reply *r)
{
	int k = value_got(call, r);

	if (k < 0)
		return k;
	if (k == 0 && conn->stream)
		payload_start(conn, call, r->header.payload_len);
	else if (r->header.payload_len)
		payload_start(conn, NULL, r->header.payload_len);
	return 0;
}

static int receive_one(struct call *call, const struct wire_reply *r)
{
	struct job *job = call->job;
	int status = r->is_error ? reply_status(call, r) : r->header.status;

	if (!r->is_error)
		job->reply(call, r);
	call_result(call, status);
	return 0;
}

/*
 * Over a rate of the tenant: waits as long as the node says, and up to as long again (more at each
 * repeat), so that those who were refused together do not come back together. False: that is past
 * the caller's deadline, so it is told.
 */
static bool receive_throttled(struct call *call, const struct wire_reply *r)
{
	struct core *core = call->core;
	uint64_t told = MAX(MIN(r->u.error.detail, (uint64_t)RECEIVE_THROTTLED_MAX_MS),
			    (uint64_t)1) * NSEC_PER_MSEC;
	uint64_t spread = told << MIN(call->backoffs, RECEIVE_SPREAD_MAX);
	uint64_t wait = told + prng_below(&core->prng, spread + 1);

	if (call->end_status)
		return false;
	if (core->now_ns + wait >= call->job->deadline_ns)
		wait = told;	/* its last chance */
	if (core->now_ns + wait >= call->job->deadline_ns)
		return false;
	call->backoffs++;
	call->sends--;		/* not a failure of the connection */
	call->not_before_ns = core->now_ns + wait;
	call_result(call, CALL_AGAIN);
	return true;
}

/* Takes one decoded reply. 0 or -errno: the session can not go on. */
static int receive_reply(struct conn *conn, const struct wire_reply *r, const void *body)
{
	struct call *call = receive_call(conn, &r->header);

	if (!call || r->header.status >= LARDER_STATUS_COUNT)
		return -EPROTO;
	call_answered(call);
	if (call->index == CORE_CONTROL) {
		call->state = CALL_FREE;
		if (conn->state == CONN_HELLO || conn->state == CONN_AUTH)
			handshake_reply(conn, r, body);
		else
			conn_control_reply(conn);
		return r->header.payload_len ? -EPROTO : 0;
	}
	if (!call->job) {
		if (r->header.payload_len)
			payload_start(conn, NULL, r->header.payload_len);
		call_result(call, 0);
		return 0;
	}
	if (r->is_error && r->header.status == LARDER_THROTTLED && !r->header.payload_len &&
	    receive_throttled(call, r))
		return 0;
	if (call->opcode == LARDER_OP_GET)
		return receive_got(conn, call, r);
	if (r->header.payload_len)
		return -EPROTO;
	if (call->job->kind == JOB_ONE)
		return receive_one(call, r);
	if (call->opcode == LARDER_OP_PUT) {
		value_put_reply(call, r);
		return 0;
	}
	return keys_reply(call, r);
}

/* Header and body are there. */
static void receive_message(struct conn *conn, const struct wire_header *h, const void *body)
{
	struct wire_reply reply;
	int r = wire_body_check(h, body);

	if (r == 0)
		r = wire_reply_decode(h, body, &reply);
	if (r == 0 && h->payload_len && !conn->stream)
		r = -EPROTO;
	if (r == 0)
		r = receive_reply(conn, &reply, body);
	if (r < 0)
		conn_fail(conn, r, "the node broke the protocol");
}

static void receive_body_done(struct conn *conn)
{
	/* a payload's pieces come first: whoever starts one posts them and the header behind */
	receive_message(conn, &conn->header, conn->body);
	if (conn->state != CONN_OVER && conn->rx_head == conn->rx_tail) {
		int r = receive_header(conn);

		if (r < 0)
			conn_fail(conn, r, "receiving failed: %s", strerror(-r));
	}
}

static void receive_header_done(struct conn *conn)
{
	int r = wire_header_check(&conn->header, conn->body_size);

	if (r < 0) {
		conn_fail(conn, r, "what answers is not a Larder node of our version");
		return;
	}
	if (!conn->header.body_len) {
		receive_body_done(conn);
		return;
	}
	r = receive_post(conn, RX_BODY, conn->body, conn->header.body_len);
	if (r < 0)
		conn_fail(conn, r, "receiving failed: %s", strerror(-r));
}

static void receive_whole(struct conn *conn, const struct rx *rx, uint32_t length)
{
	struct wire_header h;
	int r = -EPROTO;

	if (length >= WIRE_HEADER_SIZE) {
		memcpy(&h, rx->data, sizeof(h));
		r = wire_header_check(&h, conn->body_size);
		if (r == 0 && h.body_len != length - WIRE_HEADER_SIZE)
			r = -EPROTO;
	}
	if (r < 0) {
		conn_fail(conn, r, "what answers is not a Larder node of our version");
		return;
	}
	receive_message(conn, &h, rx->data + WIRE_HEADER_SIZE);
	if (conn->state == CONN_OVER)
		return;
	r = receive_post(conn, RX_MESSAGE, rx->data, rx->length);
	if (r < 0)
		conn_fail(conn, r, "receiving failed: %s", strerror(-r));
}

void conn_rx(struct conn *conn, const struct transport_event *ev)
{
	struct rx rx;

	if (conn->rx_head == conn->rx_tail)
		return;		/* an event that nothing was posted for */
	rx = conn->rx[conn->rx_head++ % CONN_RX_POSTED];
	if (ev->status < 0 || conn->state == CONN_OVER) {
		conn_settle(conn);
		return;
	}
	conn_heard(conn);
	switch (rx.kind) {
	case RX_HEADER:
		receive_header_done(conn);
		break;
	case RX_BODY:
		receive_body_done(conn);
		break;
	case RX_MESSAGE:
		receive_whole(conn, &rx, ev->length);
		break;
	default:
		payload_arrived(conn, &rx);
		break;
	}
}
