/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Viewers yield. What they read is for people and indexers, at idle priority where they run, so on
 * a reactor it comes after what clients asked for, too: while a request of a client moves, from
 * its first byte to the end of its reply, no viewer's is begun and no piece of a value goes to one.
 * Then what a client meets of a crawler is at most the one step that was under way when it came.
 *
 * Nobody waits for ever: on a reactor that is never idle one step of the viewers is taken every
 * YIELD_NS.
 */
#include "base/compiler.h"
#include "node/node.h"
#include "node/session.h"

#define YIELD_NS (1u * NSEC_PER_MSEC)

/* It waits for nobody but us; a wait for another writer, or for a region, may be long. */
static bool yield_moves(uint8_t state)
{
	switch ((enum request_state)state) {
	case REQUEST_BODY:
	case REQUEST_STARTED:
	case REQUEST_PULL:
	case REQUEST_PUSH:
	case REQUEST_VERIFY:
	case REQUEST_REPLY:
		return true;
	default:
		return false;
	}
}

void node_yield_moved(struct request *r)
{
	bool moves = !r->session->viewer && yield_moves(r->state);

	/* by what was counted: a session becomes a viewer's in the middle of its first request */
	r->session->reactor->moving += (uint32_t)moves - (uint32_t)r->moves;
	r->moves = moves;
}

bool node_yield(struct reactor *r)
{
	if (r->moving == 0) {
		r->yield_until_ns = r->now_ns + YIELD_NS;
		return false;
	}
	if (r->now_ns < r->yield_until_ns)
		return true;
	r->yield_until_ns = r->now_ns + YIELD_NS;
	return false;
}

void node_yield_start(struct request *r)
{
	node_request_move(r, REQUEST_YIELD);
	list_push_tail(&r->session->reactor->yielding, &r->queue);
}

int node_yield_turn(struct reactor *r)
{
	int n = 0;

	while (!list_empty(&r->yielding) && !node_yield(r)) {
		struct request *first = list_entry(r->yielding.next, struct request, queue);
		struct session *s = first->session;

		list_remove(&first->queue);
		node_request_move(first, REQUEST_STARTED);
		node_dispatch(first);
		node_session_kick(s);
		n++;
	}
	return n;
}
