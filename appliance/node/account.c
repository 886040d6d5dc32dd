/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger is told of requests: how many, how they ended, how long they took and how many
 * bytes of payload they moved. Counted when it happened: bytes with their done-event, the rest when
 * the last done-event of the reply is in. A request without a reply (its connection was lost) adds
 * its bytes and nothing else. What is found, stored and evicted is the engine's to count.
 */
#include <larder/probes.h>

#include "node/session.h"

static struct larder_usage *account_usage(struct request *r)
{
	const struct session *s = r->session;

	return ledger_usage(session_node(s)->ledger, s->reactor->index, s->slot);
}

static uint64_t *account_gauge(struct larder_gauges *g, uint8_t opcode)
{
	switch (node_admit_class(opcode)) {
	case LARDER_LIMIT_in_flight_fetch:
		return &g->in_flight_fetch;
	case LARDER_LIMIT_in_flight_write:
		return &g->in_flight_write;
	case LARDER_LIMIT_in_flight_lookup:
		return &g->in_flight_lookup;
	default:
		return NULL;
	}
}

void node_account_start(struct request *r)
{
	const struct session *s = r->session;

	r->gauge = account_gauge(&session_node(s)->ledger->gauges[s->slot], r->opcode);
	if (r->gauge)
		ledger_gauge_add(r->gauge, 1);
}

void node_account_bytes(struct request *r, uint64_t bytes)
{
	enum larder_cause cause = r->opcode != LARDER_OP_GET ? LARDER_CAUSE_CLIENT_WRITE :
				  r->session->viewer	     ? LARDER_CAUSE_VIEW :
							       LARDER_CAUSE_CLIENT_READ;

	if (bytes)
		ledger_count(&account_usage(r)->bytes[cause], bytes);
	r->moved += bytes;
}

void node_account_discarded(struct session *s, uint64_t bytes)
{
	struct larder_usage *u = ledger_usage(session_node(s)->ledger, s->reactor->index, s->slot);

	ledger_count(&u->bytes[LARDER_CAUSE_DISCARDED], bytes);
}

void node_account_hit(struct request *r, uint64_t bytes)
{
	ledger_count(&account_usage(r)->get_hit_bytes, bytes);
}

/* What a viewer waited for says nothing of what tenants get: it is at idle priority itself. */
static enum larder_latency_op account_class(const struct request *r)
{
	if (r->session->viewer)
		return LARDER_LATENCY_OTHER;
	switch (r->opcode) {
	case LARDER_OP_GET:
		return LARDER_LATENCY_GET;
	case LARDER_OP_PUT:
		return LARDER_LATENCY_PUT;
	case LARDER_OP_EXISTS:
		return LARDER_LATENCY_EXISTS;
	default:
		return LARDER_LATENCY_OTHER;
	}
}

void node_account_end(struct request *r)
{
	const struct session *s = r->session;
	struct larder_node *n = session_node(s);
	struct larder_usage *u = account_usage(r);
	bool lost = r->lost || r->state != REQUEST_REPLY;
	uint64_t ns = clock_now(&n->clock) - r->start_ns;

	if (r->state != REQUEST_BODY)
		larder_probe6(op_done, request_probe_op(r), s->slot, r->opcode,
			      lost ? LARDER_PROBE_LOST : r->status, r->moved, ns);
	if (r->gauge)
		ledger_gauge_sub(r->gauge, 1);
	r->gauge = NULL;
	node_admit_over(r);
	if (lost)
		return;
	ledger_count(&u->ops[r->opcode < LARDER_OP_MAX ? r->opcode : 0], 1);
	ledger_count(&u->status[r->status], 1);
	if (r->status == LARDER_CHECKSUM)
		ledger_count(&u->checksum_errors, 1);
	if (r->status == LARDER_LAYOUT_MISMATCH)
		ledger_count(&u->layout_mismatches, 1);
	ledger_latency(n->ledger, s->reactor->index, account_class(r), ns);
}
