/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaves: calls in the order in which they were made, each as few descriptors as the transport
 * allows; and the control slot, one request at a time beyond the credits, for PING and CANCEL.
 *
 * On a stream the payload is sent from the caller's memory as it lies there. A descriptor that the
 * transport took has exactly one done-event; both the call and the connection count them. A value
 * begins only when little of the one before is left in the transport, so that one whose deadline
 * passes before its turn can simply be dropped.
 */
#include <errno.h>
#include <string.h>

#include "client/conn.h"

#define SEND_IOV_MAX 64u
#define SEND_AHEAD (256u * 1024u)	/* payload in the transport before another value begins */

/* Pieces of the next descriptor. Advances @cursor and *@at. */
static uint16_t send_gather(struct call *call, struct iov_cursor *cursor, uint64_t *at,
			    struct iovec *iov, const struct transport_limits *limits)
{
	uint64_t total = call->message_len + call->out_len;
	uint64_t room = limits->max_message ? limits->max_message : UINT32_MAX;
	uint32_t max = MIN(limits->max_iov ? limits->max_iov : 1u, SEND_IOV_MAX);
	uint32_t n = 0;
	uint8_t *data;

	if (*at < call->message_len) {
		size_t take = (size_t)MIN(call->message_len - *at, room);

		iov[n++] = (struct iovec){ call->message + *at, take };
		*at += take;
		room -= take;
	}
	while (n < max && room && *at < total) {
		size_t take = iov_take(cursor, (size_t)MIN(total - *at, room), &data);

		if (!take)
			break;	/* room is never more than the list holds: see value.c */
		iov[n++] = (struct iovec){ data, take };
		*at += take;
		room -= take;
	}
	return (uint16_t)n;
}

/* Number of descriptors; less than all when the transport is full. */
static int send_call(struct conn *conn, struct call *call)
{
	const struct transport_ops *ops = conn->tc->transport->ops;
	uint64_t total = call->message_len + call->out_len;
	struct iovec iov[SEND_IOV_MAX];
	int sent = 0;

	if (call->out_len && !call->accepted && conn->tx_bytes >= SEND_AHEAD)
		return 0;

	while (call->accepted < total) {
		struct iov_cursor cursor = call->out;
		uint64_t at = call->accepted;
		struct transport_tx tx = {
			.type = TRANSPORT_SEND,
			.iov = iov,
			.cookie = call->index,
			.gate = TRANSPORT_NO_GATE,
		};
		int r;

		tx.niov = send_gather(call, &cursor, &at, iov, &ops->limits);
		r = transport_tx(conn->tc, &tx, 1);
		if (r < 0)
			return r;
		if (r == 0)
			break;
		if (!call->accepted)
			conn->tx_bytes += call->out_len;
		call->out = cursor;
		call->accepted = at;
		call->tx_pending++;
		conn->tx_pending++;
		sent++;
	}
	return sent;
}

int conn_send(struct conn *conn)
{
	int work = 0;

	while (!list_empty(&conn->sending) && conn->state != CONN_OVER) {
		struct call *call = list_entry(conn->sending.next, struct call, link);
		int r = send_call(conn, call);

		if (r < 0) {
			conn_fail(conn, r, "sending failed: %s", strerror(-r));
			break;
		}
		if (r > 0)
			conn->tx_ns = conn->core->now_ns;
		work += r;
		if (call->accepted < call->message_len + call->out_len)
			break;
		call_sent(call);
	}
	return work;
}

void conn_tx_done(struct conn *conn, uint64_t cookie)
{
	struct core *core = conn->core;
	struct call *call;

	if (cookie >= CORE_CALLS || !core->calls[cookie].tx_pending)
		return;		/* not ours: the transport's fault, and nothing depends on it */
	call = &core->calls[cookie];
	conn->tx_pending--;
	if (call->index == CORE_CONTROL) {
		call->tx_pending--;
		conn_settle(conn);
		return;
	}
	if (call->tx_pending == 1 && call->accepted == call->message_len + call->out_len)
		conn->tx_bytes -= call->out_len;
	call_tx_done(call);
	conn_settle(conn);
}

/* --- the control slot ------------------------------------------------------------------------ */

struct call *conn_control_call(struct conn *conn)
{
	struct call *call = &conn->core->calls[CORE_CONTROL];

	if (conn->control_busy || call->tx_pending)
		return NULL;
	call->generation++;
	call->conn = conn;
	call->replied = false;
	call->out_len = 0;
	call->accepted = 0;
	call->job = NULL;
	return call;
}

void conn_control_send(struct conn *conn, struct call *call, int message_len)
{
	if (message_len < 0) {
		conn_fail(conn, message_len, "a message of the session could not be made");
		return;
	}
	call->message_len = (uint32_t)message_len;
	call->state = CALL_SENDING;
	call->sent_ns = conn->core->now_ns;
	conn->control_busy = true;
	conn->in_flight++;	/* call_answered takes it back; this slot is beyond credits */
	conn->credits++;
	/* before values that wait for room: a CANCEL is about those that were sent */
	if (!list_empty(&conn->sending) &&
	    list_entry(conn->sending.next, struct call, link)->accepted)
		list_insert_before(conn->sending.next->next, &call->link);
	else
		list_push_head(&conn->sending, &call->link);
	(void)conn_send(conn);	/* what does not fit goes with the next turn */
}

/* The oldest call that wants its CANCEL sent. */
static struct call *conn_cancel_next(struct conn *conn)
{
	list_for_each(it, &conn->sent) {
		struct call *call = list_entry(it, struct call, link);

		if (call->cancel_wanted)
			return call;
	}
	return NULL;
}

static void conn_cancel(struct conn *conn, struct call *target)
{
	struct wire_cancel cancel = { .request_id = call_id(target) };
	struct call *call = conn_control_call(conn);
	struct wire_writer w;

	if (!call)
		return;
	target->cancel_wanted = false;
	conn->core->cancels--;
	call->opcode = LARDER_OP_CANCEL;
	wire_begin(&w, call->message, WIRE_MESSAGE_MAX);
	wire_append(&w, &cancel, sizeof(cancel));
	conn_control_send(conn, call,
			  wire_finish(&w, LARDER_OP_CANCEL, 0, 0, call_id(call), 0));
}

void conn_ping(struct conn *conn)
{
	struct call *call = conn_control_call(conn);
	struct wire_writer w;
	struct wire_ping ping;

	if (!call)
		return;
	ping.token = call_id(call);
	call->opcode = LARDER_OP_PING;
	wire_begin(&w, call->message, WIRE_MESSAGE_MAX);
	wire_append(&w, &ping, sizeof(ping));
	conn_control_send(conn, call, wire_finish(&w, LARDER_OP_PING, 0, 0, call_id(call), 0));
}

void conn_control(struct conn *conn)
{
	struct call *target;

	if (conn->state != CONN_READY || conn->control_busy || !conn->core->cancels)
		return;
	target = conn_cancel_next(conn);
	if (target)
		conn_cancel(conn, target);
}

void conn_control_reply(struct conn *conn)
{
	conn->control_busy = false;
	conn->credits--;
	conn_control(conn);
}
