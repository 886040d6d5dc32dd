/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which function does which operation, and what is asked of every request before it: may this role
 * do it, is it past its deadline, is the node draining, is its tenant within its limits. Whether
 * its namespace is one of its tenant is the engine's to see: there, one that is not is as empty,
 * and as slow, as any other.
 *
 * To add an operation: a line in wire/ops.def, a node_op_* function, a line in the table here.
 */
#include <larder/probes.h>

#include "base/compiler.h"
#include "node/session.h"

/* What is asked beforehand. */
enum dispatch_needs {
	NEEDS_COMMON = 1,	/* its body begins with struct wire_common */
	NEEDS_INTAKE = 2,	/* brings something new: refused while draining */
};

struct dispatch_entry {
	void (*run)(struct request *r);
	uint32_t needs;
};

static const struct dispatch_entry dispatch_table[LARDER_OP_MAX] = {
	[LARDER_OP_PING] = { node_op_ping, 0 },
	[LARDER_OP_CANCEL] = { node_op_cancel, 0 },
	[LARDER_OP_NS_CREATE] = { node_op_ns_open, 0 },
	[LARDER_OP_NS_OPEN] = { node_op_ns_open, 0 },
	[LARDER_OP_NS_LIST] = { node_op_ns_list, 0 },
	[LARDER_OP_NS_FLUSH] = { node_op_ns_flush, 0 },
	[LARDER_OP_NS_RETIRE] = { node_op_ns_retire, 0 },
	[LARDER_OP_REGION_ADD] = { node_op_region_add, 0 },
	[LARDER_OP_REGION_DEL] = { node_op_region_del, 0 },
	[LARDER_OP_PUT] = { node_op_put, NEEDS_COMMON | NEEDS_INTAKE },
	[LARDER_OP_PUT_BEGIN] = { node_op_put_begin, NEEDS_COMMON | NEEDS_INTAKE },
	[LARDER_OP_PUT_PART] = { node_op_put_part, NEEDS_COMMON },
	[LARDER_OP_PUT_COMMIT] = { node_op_put_commit, NEEDS_COMMON },
	[LARDER_OP_PUT_ABORT] = { node_op_put_abort, 0 },
	[LARDER_OP_GET] = { node_op_get, NEEDS_COMMON },
	[LARDER_OP_EXISTS] = { node_op_keys, NEEDS_COMMON },
	[LARDER_OP_LEASE] = { node_op_keys, NEEDS_COMMON | NEEDS_INTAKE },
	[LARDER_OP_RELEASE] = { node_op_keys, NEEDS_COMMON },
	[LARDER_OP_PIN] = { node_op_keys, NEEDS_COMMON },
	[LARDER_OP_UNPIN] = { node_op_keys, NEEDS_COMMON },
	[LARDER_OP_STAT] = { node_op_stat, NEEDS_COMMON },
	[LARDER_OP_LIST] = { node_op_list, NEEDS_COMMON },
	[LARDER_OP_DELETE] = { node_op_keys, NEEDS_COMMON },
};

static uint64_t dispatch_deadline(const struct request *r, uint32_t ms)
{
	if (ms == 0 || ms > NODE_DEADLINE_MAX_MS)
		ms = NODE_DEADLINE_MAX_MS;
	return r->start_ns + ms * NSEC_PER_MSEC;
}

/* Fills what every operation has. False: it was refused. */
static bool dispatch_common(struct request *r)
{
	struct session *s = r->session;
	const struct wire_common *c = &r->wire.u.common;
	const struct namespace_record *ns;

	r->op.flags = c->flags | (s->viewer ? LARDER_F_NO_TOUCH : 0);
	r->op.ns = c->ns;
	r->op.deadline_ns = dispatch_deadline(r, c->deadline_ms);
	if (s->reactor->now_ns > r->op.deadline_ns) {
		node_reply_status(r, LARDER_DEADLINE);
		return false;
	}
	if (s->viewer) {
		/* it reads as the tenant of the namespace would; where none is, nothing */
		ns = engine_namespace(session_node(s)->engine, 0, true, c->ns);
		r->op.tenant = ns ? ns->tenant : 0;
	}
	return true;
}

/* What is wrong with @r before its operation is asked. 0 = nothing. */
static int dispatch_refusal(const struct request *r, const struct wire_op_info *info)
{
	if (r->session->viewer && !(info->flags & WIRE_OP_VIEWER))
		return LARDER_DENIED;
	if (r->wire.header.payload_len > 0 && !(info->flags & WIRE_OP_PAYLOAD))
		return LARDER_BAD_REQUEST;
	return LARDER_OK;
}

/* What it brings of values, through a region or not. */
static uint64_t dispatch_inbound(const struct request *r)
{
	if (r->opcode == LARDER_OP_PUT)
		return r->wire.u.put.length;
	return r->opcode == LARDER_OP_PUT_PART ? r->wire.u.put_part.length : 0;
}

void node_dispatch(struct request *r)
{
	const struct wire_op_info *info = wire_op_info(r->opcode);
	const struct dispatch_entry *e = &dispatch_table[r->opcode];
	struct session *s = r->session;
	int refusal = dispatch_refusal(r, info);

	r->op = (struct larder_op){ .opcode = r->opcode,
				    .tenant = s->tenant ? s->tenant->id : 0,
				    .holder = s->holder,
				    .deadline_ns = dispatch_deadline(r, 0),
				    .limit = LARDER_LIMIT_NONE };
	r->key = (struct larder_op_key){ 0 };
	r->transfer.checked = false;
	r->inbound = dispatch_inbound(r);
	s->conn->bulk = r->inbound > TRANSPORT_LIGHT_BYTES;
	if (refusal == LARDER_DENIED)
		node_reply_error(r, refusal, 0, "the role viewer may not use %s", info->name);
	else if (refusal != LARDER_OK)
		node_reply_error(r, refusal, 0, "%s carries no payload", info->name);
	else if (!e->run)
		node_reply_error(r, LARDER_BAD_REQUEST, 0, "%s makes no sense in an open session",
				 info->name);
	else if ((e->needs & NEEDS_COMMON) && !dispatch_common(r))
		return;
	else if ((e->needs & NEEDS_INTAKE) && node_draining(session_node(s)))
		node_reply_status(r, LARDER_DRAINING);
	else if (node_admit(r)) {
		larder_probe4(op_phase, request_probe_op(r), s->slot, r->opcode,
			      LARDER_PHASE_ADMITTED);
		e->run(r);
	}
}

void node_op_ping(struct request *r)
{
	const struct wire_ping ping = r->wire.u.ping;

	node_reply_struct(r, &ping, sizeof(ping), LARDER_OK);
}

void node_op_cancel(struct request *r)
{
	struct session *s = r->session;
	uint64_t id = r->wire.u.cancel.request_id;

	list_for_each(it, &s->active) {
		struct request *other = list_entry(it, struct request, link);

		if (other == r || other->state == REQUEST_BODY ||
		    other->wire.header.request_id != id)
			continue;
		node_request_cancel(other);
		break;
	}
	node_reply_none(r);
}
