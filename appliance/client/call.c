/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a call.
 *
 *	            call_try                accepted              answered
 *	WAITING ───────────────▶ SENDING ───────────────▶ SENT ─────────────▶ (RECEIVING) ─▶ ended
 *	   ▲                        │                       │
 *	   └── connection lost, BUSY, THROTTLED, bad checks: sent again, inside the deadline
 *
 * A call ends in two steps that may come in either order: its items get their status (call_end:
 * the caller's memory is the caller's again), and its slot becomes free (the node has answered and
 * the transport has given back what it was sending). A call whose items have ended while the node
 * owes the answer has no job; it keeps its slot, gate number and credit until the answer comes or
 * the connection is over.
 *
 * At its deadline a call asks the node to let go (CANCEL) and waits for the answer a short time:
 * the grace. What happens without one depends on who could still touch the caller's memory: see
 * call_grace_over.
 */
#include "client/core.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "client/conn.h"
#include "client/memory.h"

#define CALL_GATE_RETRY_NS NSEC_PER_MSEC
#define CALL_HELD_RETRY_NS (10 * NSEC_PER_MSEC)

struct call *call_new(struct core *core, struct job *job, uint8_t opcode)
{
	struct call *call = list_entry(list_pop_head(&core->free), struct call, link);
	struct call fresh = {
		.core = core,
		.job = job,
		.opcode = opcode,
		.state = CALL_WAITING,
		.index = call->index,
		.generation = call->generation + 1,
		.message = call->message,
		.checks = call->checks,
	};

	core->n_free--;
	*call = fresh;
	list_init(&call->link);
	list_push_tail(&core->waiting, &call->link);
	return call;
}

uint64_t call_id(const struct call *call)
{
	return (uint64_t)call->generation << 16 | call->index;
}

uint32_t call_flags(const struct call *call)
{
	uint32_t flags = call->job->batch->flags;

	if (call->job->split && !call->fill)
		flags &= ~(uint32_t)(LARDER_F_FILL | LARDER_F_WAIT);
	return flags;
}

struct wire_common call_common(const struct call *call, uint32_t ns, uint32_t flags)
{
	const struct job *job = call->job;
	uint64_t now = call->core->now_ns;
	uint64_t left = job->deadline_ns > now ? job->deadline_ns - now : 0;

	return (struct wire_common){
		.batch = job->batch_id,
		.batch_index = call->first,
		.deadline_ms = (uint32_t)MAX(left / NSEC_PER_MSEC, 1ull),
		.ns = ns,
		.flags = flags,
	};
}

/* Neither node nor transport knows the slot any more, and nobody waits for it. */
static void call_free(struct call *call)
{
	struct core *core = call->core;

	bounce_put(call);
	list_remove(&call->link);
	call->state = CALL_FREE;
	call->conn = NULL;
	call->exposed = false;
	list_push_head(&core->free, &call->link);
	core->n_free++;
	core->kick = true;
}

/* Back to the start, for another try. */
static void call_wait_again(struct call *call)
{
	struct core *core = call->core;

	bounce_put(call);
	list_remove(&call->link);
	call->generation++;
	call->state = CALL_WAITING;
	call->conn = NULL;
	call->replied = false;
	call->gate_armed = false;
	call->exposed = false;
	call->tainted = false;
	call->held = false;
	call->accepted = 0;
	call->out_len = 0;
	call->message_len = 0;
	list_push_head(&core->waiting, &call->link);
	if (call->not_before_ns)
		core_timer(core, call->not_before_ns);
	else
		core->kick = true;
}

/* A call that was not sent: it ends here. */
static void call_refuse(struct call *call, int status)
{
	bounce_put(call);
	call->conn = NULL;
	call_end(call, status);
	call_free(call);
}

static int call_encode_status(struct call *call, int r)
{
	int status = r == -ENOMEM ? LARDER_INTERNAL : LARDER_BAD_REQUEST;

	if (r >= 0)
		return r;
	job_text(call->job, status, "the request could not be made: %s", strerror(-r));
	return status;
}

int call_encode(struct call *call)
{
	struct conn *conn = call->conn;
	struct wire_writer w;
	int r;

	wire_begin(&w, call->message, MIN(conn->max_message, WIRE_MESSAGE_MAX));
	if (call->job->kind == JOB_ONE)
		r = call->job->encode(call, &w);
	else if (call->opcode == LARDER_OP_PUT)
		r = value_put_encode(call, &w);
	else if (call->opcode == LARDER_OP_GET)
		r = value_get_encode(call, &w);
	else
		r = keys_encode(call, &w);
	return r;
}

/* May it go out on @conn now? */
static bool call_may_go(const struct call *call, const struct conn *conn)
{
	if (!conn || call->tx_pending)
		return false;
	if (conn->state != CONN_READY &&
	    !(conn->state == CONN_REOPEN && call->job->control_plane))
		return false;
	return call->not_before_ns <= call->core->now_ns && conn->in_flight < conn->credits;
}

void call_try(struct call *call)
{
	struct core *core = call->core;
	struct conn *conn = core->conn;
	int r;

	if (job_is_cut_off(call->job)) {
		call_refuse(call, LARDER_DISCONNECTED);
		return;
	}
	if (!call_may_go(call, conn)) {
		if (call->not_before_ns > core->now_ns)
			core_timer(core, call->not_before_ns);
		return;
	}
	call->conn = conn;
	r = call_encode(call);
	if (r == -EAGAIN) {
		call->conn = NULL;
		return;
	}
	if (r) {
		call_refuse(call, call_encode_status(call, r));
		return;
	}
	if (call->sends)
		core_count(core, retries);
	call->sends++;
	call->sent_ns = core->now_ns;
	call->state = CALL_SENDING;
	conn->in_flight++;
	list_remove(&call->link);
	list_push_tail(&conn->sending, &call->link);
}

void call_end(struct call *call, int status)
{
	struct job *job = TAKE_PTR(call->job);
	uint32_t first = call->first, n = call->n_items;
	bool reverse = call->opcode == LARDER_OP_PUT || call->opcode == LARDER_OP_GET;

	if (call->cancel_wanted) {
		call->cancel_wanted = false;
		call->core->cancels--;
	}
	if (status == LARDER_CANCELLED)
		core_count(call->core, cancelled);
	if (job->kind == JOB_ONE) {
		job_finish(job, status);
		return;
	}
	if (!n)
		job_item_done(job, 0, status);
	for (uint32_t i = 0; i < n; i++)
		job_item_done(job, reverse ? first : first + i, status);
}

/* Result and memory are both there? */
static void call_settle(struct call *call)
{
	if (!call->replied || call->tx_pending || call->state == CALL_SENDING)
		return;
	if (!call->job) {
		call_free(call);
		return;
	}
	if (call->result == CALL_AGAIN) {
		if (!call->end_status) {
			call_wait_again(call);
			return;
		}
		call->result = call->end_status;
	}
	call_end(call, call->result);
	call_free(call);
}

void call_answered(struct call *call)
{
	call->conn->in_flight--;
	call->gate_armed = false;
	call->exposed = false;
	call->core->kick = true;
	if (call->cancel_wanted) {
		call->cancel_wanted = false;
		call->core->cancels--;
	}
	if (call->state == CALL_SENT) {
		list_remove(&call->link);
		call->state = CALL_REPLIED;
	}
}

void call_result(struct call *call, int result)
{
	call->replied = true;
	call->result = result;
	if (call->state == CALL_RECEIVING)
		call->state = CALL_REPLIED;
	call_settle(call);
}

void call_sent(struct call *call)
{
	list_remove(&call->link);
	if (call->replied) {
		call->state = CALL_REPLIED;
		call_settle(call);
		return;
	}
	call->state = CALL_SENT;
	list_push_tail(&call->conn->sent, &call->link);
	if (call->end_status && call->job && !call->cancel_wanted) {
		call->cancel_wanted = true;
		call->core->cancels++;
	}
}

void call_tx_done(struct call *call)
{
	call->tx_pending--;
	if (call->state == CALL_WAITING)
		call->core->kick = true;
	else
		call_settle(call);
}

/* --- the early end --------------------------------------------------------------------------- */

void call_want_end(struct call *call, int status)
{
	struct core *core = call->core;

	if (call->end_status)
		return;
	call->end_status = (uint8_t)status;
	if (call->state == CALL_WAITING) {
		if (!call->tx_pending) {
			call_refuse(call, status);
			return;
		}
		/* the transport has our message still, and nothing of the caller's */
		call_end(call, status);
		call->replied = true;
		call->state = CALL_REPLIED;
		list_remove(&call->link);
		return;
	}
	if (call->state == CALL_SENDING && !call->accepted && !call->replied) {
		call->conn->in_flight--;
		call_refuse(call, status);
		return;
	}
	call->grace_ns = core->now_ns + core->grace_ns;
	core_timer(core, call->grace_ns);
	if (call->state == CALL_SENT) {
		call->cancel_wanted = true;
		core->cancels++;
	}
}

/*
 * The node is frozen inside the caller's memory: other memory takes its place. The status that ends
 * the call; -errno: not all of it could be replaced, so the call is held. It must not end while
 * the node could still write, whatever its deadline was. It is tried again until the memory is
 * replaced, the node has left the slice, or the node's end of the connection is seen closed (what
 * is gone writes nothing). Until then we do not close our end, which would hide the node's.
 */
static int call_lost(struct call *call)
{
	struct iov_cursor cursor;
	uint64_t left = call->room;
	bool lost = false;
	uint8_t *at;
	size_t n;
	int r;

	bounce_retire(call);
	/* what the node only reads is safe: at worst it reads other bytes and its checks differ */
	if (call->bounced || call->opcode != LARDER_OP_GET)
		return call->end_status;
	iov_start(&cursor, call->iov, call->iovcnt);
	while (left && (n = iov_take(&cursor, (size_t)MIN(left, (uint64_t)SIZE_MAX), &at))) {
		r = region_lose(call->core, at, n);
		if (r < 0 && r != -ENOENT) {
			if (!call->held)
				log_err(&call->core->log,
					"a buffer in which the node froze is held: %s",
					strerror(-r));
			call->held = true;
			return r;
		}
		lost |= r == 0;
		left -= n;
	}
	call->held = false;
	if (!lost)
		return call->end_status;
	core_count(call->core, buffers_lost);
	job_text(call->job, LARDER_BUFFER_LOST,
		 "the node froze inside the buffer; its pages were replaced");
	return LARDER_BUFFER_LOST;
}

/* One-sided: 0 = nobody touches its memory any more; 1 = try again later; else the status. */
static int call_take_gate(struct call *call)
{
	struct core *core = call->core;
	struct transport_conn *tc = call->conn->tc;
	int r;

	if (!call->gate_armed || !tc)
		return 0;
	r = tc->transport->ops->gate_take(tc, call->index);
	if (r == 0) {
		call->gate_armed = false;
		return 0;
	}
	if (!call->gate_ns)
		call->gate_ns = core->now_ns + core->grace_ns;
	r = core->now_ns < call->gate_ns ? -EAGAIN : call_lost(call);
	if (r >= 0)
		return r;
	call->grace_ns = core->now_ns + (call->held ? CALL_HELD_RETRY_NS : CALL_GATE_RETRY_NS);
	core_timer(core, call->grace_ns);
	return 1;
}

/* Ends its items although the node still owes an answer. */
static void call_orphan(struct call *call, int status)
{
	if (!call->gate_armed)
		bounce_put(call);
	call->grace_ns = 0;
	call_end(call, status);
	call_settle(call);
}

void call_grace_over(struct call *call)
{
	struct core *core = call->core;
	struct conn *conn = call->conn;
	int status = call->end_status;
	int r;

	call->grace_ns = 0;
	if (!conn || conn->state == CONN_OVER)
		return;		/* ends with the connection, in a moment */
	/* once: a gate that is busy brings it here again */
	if (!call->gate_ns && (conn->rx_ns < call->sent_ns ||
			       (!call->replied && conn->rx_ns == call->sent_ns)))
		core_unanswered(core);
	if (call->state == CALL_RECEIVING) {
		/* the rest of the value goes to scratch and the connection lives on */
		if (receive_abandon(conn, call) == 0)
			call_orphan(call, status);
		return;
	}
	if (call->out_len && (call->state == CALL_SENDING || call->tx_pending)) {
		/* a value is cut midway: nothing else can follow it on this stream */
		conn_fail(conn, 0, "a value was cut at its deadline");
		return;
	}
	if (call->exposed) {
		/* its items end when the transport has surely let go: see call_conn_spent */
		conn_fail(conn, 0, "a request was not answered in time after its deadline");
		return;
	}
	if (conn->one_sided) {
		r = call_take_gate(call);
		if (r == 1)
			return;
		if (r)
			status = r;
	}
	call_orphan(call, status);
}

bool call_seal(struct call *call)
{
	struct transport_conn *tc = call->conn->tc;
	int r = 0;

	if (!call->gate_armed || !tc)
		return true;
	if (tc->transport->ops->gate_take(tc, call->index) < 0 && call->job)
		r = call_lost(call);
	if (r < 0)
		return false;
	if (r == LARDER_BUFFER_LOST)
		call->end_status = LARDER_BUFFER_LOST;
	call->gate_armed = false;
	return true;
}

/* --- the end of its connection --------------------------------------------------------------- */

void call_conn_spent(struct call *call)
{
	struct conn *conn = call->conn;
	struct job *job = call->job;

	if (call->cancel_wanted) {
		call->cancel_wanted = false;
		call->core->cancels--;
	}
	call->gate_armed = false;
	call->exposed = false;
	call->state = CALL_REPLIED;
	list_remove(&call->link);
	if (!job) {
		call_free(call);
		return;
	}
	if (call->replied && call->result != CALL_AGAIN) {
		call_end(call, call->result);
		call_free(call);
		return;
	}
	if (call->end_status || job->epoch || call->sends >= CORE_SENDS_MAX) {
		int status = call->end_status ? call->end_status : LARDER_DISCONNECTED;

		job_text(job, status, "the connection to %s ended: %s", conn->target->url,
			 conn->why[0] ? conn->why : "by the node");
		call_end(call, status);
		call_free(call);
		return;
	}
	call_wait_again(call);
}
