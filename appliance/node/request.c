/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a request: node_request_move is the only place where its state changes, and the table
 * above it says which ways there are. Each wait has a name, and each wait ends by the same step:
 * back to STARTED, then the continuation that was left in `next`.
 *
 * When its connection is lost a request only cleans up: it takes back what the engine has, waits
 * for the last buffer that the transport owes it, gives up what it holds, and is free.
 */
#include <assert.h>
#include <string.h>

#include <larder/probes.h>

#include "node/codec.h"
#include "node/session.h"

#define TO(state) (1u << REQUEST_##state)

static const uint16_t request_ways[REQUEST_STATES] = {
	[REQUEST_FREE] = TO(BODY) | TO(STARTED),
	[REQUEST_BODY] = TO(STARTED) | TO(FREE),
	[REQUEST_STARTED] = TO(ENGINE) | TO(REGION) | TO(YIELD) | TO(PARTS) | TO(PULL) |
			    TO(PUSH) | TO(VERIFY) | TO(REST) | TO(REPLY) | TO(FREE),
	[REQUEST_ENGINE] = TO(STARTED) | TO(FREE),
	[REQUEST_REGION] = TO(STARTED) | TO(FREE),
	[REQUEST_YIELD] = TO(STARTED) | TO(FREE),
	[REQUEST_PARTS] = TO(STARTED) | TO(FREE),
	[REQUEST_PULL] = TO(STARTED) | TO(FREE),
	[REQUEST_PUSH] = TO(STARTED) | TO(FREE),
	[REQUEST_REST] = TO(STARTED) | TO(FREE),
	[REQUEST_VERIFY] = TO(STARTED) | TO(FREE),
	/* STARTED: cancelled before its first byte left, so it gets another reply */
	[REQUEST_REPLY] = TO(FREE) | TO(STARTED),
};

void node_request_move(struct request *r, enum request_state to)
{
	assert(request_ways[r->state] & (1u << to));
	r->state = (uint8_t)to;
	node_yield_moved(r);
}

void node_request_begin(struct request *r, uint8_t opcode, bool control)
{
	struct session *s = r->session;

	list_remove(&r->link);
	list_push_tail(&s->active, &r->link);
	s->n_active++;
	node_count(&s->reactor->requests, 1);
	r->opcode = opcode;
	r->control = control;
	r->charged = true;
	s->charged++;
	s->charged_plain += !r->control;
	r->hold = HOLD_NONE;
	r->status = LARDER_OK;
	r->cancelled = r->expired = r->lost = r->segs_held = r->stranded = false;
	r->out = 0;
	r->payload = r->inbound = r->moved = 0;
	r->trailer = NULL;
	s->began++;
	r->put = NULL;
	r->gauge = NULL;
	r->claimed = LARDER_LIMIT_NONE;
	r->submitted = NULL;
	r->next = NULL;
	r->start_ns = clock_now(&session_node(s)->clock);
	node_request_move(r, REQUEST_BODY);
}

void node_request_uncharge(struct request *r)
{
	if (!r->charged)
		return;
	r->charged = false;
	r->session->charged--;
	r->session->charged_plain -= !r->control;
}

static void request_free(struct request *r)
{
	struct session *s = r->session;

	node_request_uncharge(r);
	node_account_end(r);
	node_request_move(r, REQUEST_FREE);
	list_remove(&r->queue);
	list_remove(&r->link);
	list_push_head(&s->free, &r->link);	/* the one whose memory is warm goes next */
	s->n_active--;
	node_uncount(&s->reactor->requests, 1);
	if (s->state == SESSION_OPEN)
		s->codec->freed(r);
}

void node_request_start(struct request *r)
{
	node_request_move(r, REQUEST_STARTED);
	node_account_start(r);
	larder_probe5(op_start, request_probe_op(r), r->session->slot, r->opcode,
		      r->session->holder, r->start_ns);
}

/* What the engine's answer leaves in our hands. A begun put keeps its own. */
static void request_note_hold(struct request *r, const struct larder_op *op)
{
	if (op != &r->op || op->status != LARDER_OK)
		return;
	if (op->opcode == LARDER_OP_PUT || op->opcode == LARDER_OP_PUT_BEGIN)
		r->hold = HOLD_FILLING;
	else if (op->opcode == LARDER_OP_GET)
		r->hold = HOLD_REFERENCE;
}

static void request_engine_over(struct request *r)
{
	request_note_hold(r, r->submitted);
	r->submitted = NULL;
	if (r->session->rx_request == r)
		r->session->rx_request = NULL;	/* its operation takes it, or it has no place */
	if (node_request_settle_lost(r))
		return;
	node_request_move(r, REQUEST_STARTED);
	r->next(r);
}

void node_request_submit(struct request *r, struct larder_op *op, void (*next)(struct request *))
{
	op->owner = r;
	r->submitted = op;
	r->next = next;
	node_request_move(r, REQUEST_ENGINE);
	if (engine_submit(r->session->reactor->engine, op) == 0)
		request_engine_over(r);
}

void node_request_engine_done(struct larder_op *op)
{
	struct request *r = op->owner;
	struct session *s = r->session;

	request_engine_over(r);
	node_session_kick(s);
}

void node_request_release(struct request *r)
{
	struct engine_reactor *e = r->session->reactor->engine;

	if (r->hold == HOLD_FILLING)
		engine_abort(e, &r->op);
	else if (r->hold == HOLD_REFERENCE)
		engine_unref(e, r->op.object);
	r->hold = HOLD_NONE;
}

/* Not a byte of its reply has left: it answers CANCELLED instead. */
static void request_cancel_reply(struct request *r)
{
	if (r->reply_posted || r->payload == 0)
		return;
	list_remove(&r->queue);
	node_request_release(r);
	r->payload = 0;
	node_request_move(r, REQUEST_STARTED);
	node_reply_status(r, LARDER_CANCELLED);
}

void node_request_cancel(struct request *r)
{
	r->cancelled = true;
	switch ((enum request_state)r->state) {
	case REQUEST_ENGINE:
		if (engine_cancel(r->session->reactor->engine, r->submitted) == 0) {
			r->submitted->status = LARDER_CANCELLED;
			request_engine_over(r);
		}
		break;
	case REQUEST_PULL:
	case REQUEST_PUSH:
		if (r->transfer.is_inline)
			node_payload_strand(r->session, r);
		else
			node_transfer_stop(r);
		break;
	case REQUEST_YIELD:
		list_remove(&r->queue);
		node_request_move(r, REQUEST_STARTED);
		node_reply_status(r, LARDER_CANCELLED);
		break;
	case REQUEST_REPLY:
		request_cancel_reply(r);
		break;
	default:
		break;	/* over in a moment by itself */
	}
}

/* Gives up all that a lost request holds. */
static void request_drop(struct request *r)
{
	node_transfer_drop_segs(r);
	node_request_release(r);
	if (r->put) {
		if (r->opcode == LARDER_OP_PUT_PART)
			node_part_done(r);
		else
			node_put_orphan(r);
	}
	request_free(r);
}

bool node_request_settle_lost(struct request *r)
{
	if (!r->lost)
		return false;
	if (r->out == 0 && !r->submitted)
		request_drop(r);
	return true;
}

void node_request_abandon(struct request *r)
{
	r->lost = true;
	r->transfer.stop = true;
	if (r->session->rx_request == r)
		r->session->rx_request = NULL;
	if (r->state == REQUEST_ENGINE &&
	    engine_cancel(r->session->reactor->engine, r->submitted) == 0) {
		r->submitted->status = LARDER_CANCELLED;
		r->submitted = NULL;
	}
	list_remove(&r->queue);
	(void)node_request_settle_lost(r);	/* else its events, or the engine, bring it back */
}

void node_request_end(struct request *r)
{
	node_request_release(r);
	request_free(r);
}
