/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PUT and GET of one value.
 *
 * PUT: the engine reserves, bytes arrive (inline or read from regions) while their checksums are
 * computed, and only what agrees with the writer's checks is committed. GET: the engine gives a
 * reference, which is kept until the last byte was handed back by the transport.
 */
#include <string.h>

#include <larder/probes.h>

#include "base/compiler.h"
#include "node/session.h"

static void put_reply(struct request *r, uint64_t size)
{
	const struct wire_put_done done = { .size_bytes = size,
					    .commit_time_ms = r->stat.commit_time_ms };

	node_reply_struct(r, &done, sizeof(done), r->op.status);
}

static void put_finish(struct request *r)
{
	r->hold = HOLD_NONE;
	engine_commit(r->session->reactor->engine, &r->op);
	if (r->op.status == LARDER_OK || r->op.status == LARDER_EXISTS_SAME)
		put_reply(r, r->op.length);
	else
		node_reply_status(r, r->op.status);
}

void node_put_refuse(struct request *r, const struct larder_op *op)
{
	struct engine *e = session_node(r->session)->engine;
	uint64_t bytes;
	bool shorter;

	/* the engine has seen to it that the namespace is its own */
	if (op->status != LARDER_BAD_REQUEST || !engine_namespace(e, op->tenant, false, op->ns) ||
	    engine_namespace_takes(e, op->ns, op->length, &bytes, &shorter)) {
		node_reply_status(r, op->status);
		return;
	}
	node_reply_error(r, op->status, bytes,
			 "the value has %llu bytes, the namespace's blocks have %llu%s: put whole "
			 "blocks, or use a namespace with another descriptor",
			 (unsigned long long)op->length, (unsigned long long)bytes,
			 shorter ? " or less" : "");
}

/* All pieces of the value are back. */
static void put_pulled(struct request *r)
{
	const uint32_t *computed = r->op.checks + r->op.n_checks;

	if (!node_transfer_is_whole(r)) {
		node_request_release(r);
		node_reply_transfer(r);
		return;
	}
	if (r->transfer.checked &&
	    memcmp(computed, r->op.checks, r->op.n_checks * sizeof(*computed)) != 0) {
		node_request_release(r);
		node_reply_error(r, LARDER_CHECKSUM, 0,
				 "the bytes that arrived do not match the checks that came along");
		return;
	}
	put_finish(r);
}

static void put_reserved(struct request *r)
{
	uint32_t *computed = (uint32_t *)r->scratch + r->op.n_checks;

	switch (r->op.status) {
	case LARDER_OK:
		break;
	case LARDER_EXISTS_SAME:
		put_reply(r, r->op.length);
		return;
	default:
		node_put_refuse(r, &r->op);
		return;
	}
	if (r->stranded) {
		/* it waited, and its payload was thrown away meanwhile */
		node_request_release(r);
		node_reply_status(r, LARDER_BUSY);
		return;
	}
	if (r->wire.n_segs > 0 && node_transfer_hold_segs(r) != LARDER_OK) {
		node_request_release(r);
		return;
	}
	r->transfer.checked = session_node(r->session)->config.verify_commit;
	if (r->transfer.checked)
		check_stream_init(&r->transfer.crc, r->op.length, computed);
	node_transfer_start(r, REQUEST_PULL, r->op.object, 0, r->op.length, put_pulled);
}

bool node_put_is_too_large(struct request *r, uint64_t length)
{
	uint64_t max = session_node(r->session)->config.max_value_bytes;

	if (length <= max)
		return false;
	node_reply_error(r, LARDER_TOO_LARGE, max,
			 "the value has %llu bytes, this node takes at most %llu: split it",
			 (unsigned long long)length, (unsigned long long)max);
	return true;
}

/* A value of a message transport moves through regions, whose segments must be named. */
bool node_value_has_no_way(struct request *r)
{
	if (r->session->stream || r->wire.n_segs > 0)
		return false;
	node_reply_error(r, LARDER_BAD_REQUEST, 0,
			 "%s: on this transport a value moves through regions: name segments",
			 wire_op_info(r->opcode)->name);
	return true;
}

void node_op_put(struct request *r)
{
	const struct wire_put *p = &r->wire.u.put;

	if (node_put_is_too_large(r, p->length) || node_value_has_no_way(r))
		return;
	r->op.n_checks = p->n_checks;	/* scratch: the writer's checks, then ours */
	memcpy(r->scratch, r->wire.checks, r->op.n_checks * sizeof(uint32_t));
	r->op.checks = (const uint32_t *)r->scratch;
	r->op.length = p->length;
	r->op.digest = p->digest;
	r->op.ttl_ms = p->ttl_ms;
	r->key.key = r->wire.tail;
	r->key.key_len = p->key_len;
	r->op.keys = &r->key;
	r->op.n_keys = 1;
	memset(&r->stat, 0, sizeof(r->stat));
	r->op.stats = &r->stat;
	node_request_submit(r, &r->op, put_reserved);
}

/* --- GET ------------------------------------------------------------------------------------- */

static void get_reply(struct request *r, bool with_payload)
{
	const struct engine_object *o = r->op.object;
	const struct transfer *t = &r->transfer;
	bool checks = !(r->op.flags & LARDER_F_NO_CHECKS);
	uint32_t first = (uint32_t)(t->offset / LARDER_CHECK_BLOCK);
	uint32_t *sums = (uint32_t *)r->scratch;
	struct wire_got got = {
		.size_bytes = engine_object_length(o),
		.offset = t->offset,
		.length = t->length,
		.digest = engine_object_digest(o),
		.commit_time_ms = r->stat.commit_time_ms,
		.first_check = first,
		.flags = r->stat.flags & LARDER_F_CHECKED_BY_NODE,
	};
	struct wire_writer w;

	if (checks)
		got.n_checks = larder_check_count(t->offset + t->length) - first;
	engine_object_checks(o, sums, first, got.n_checks);
	node_account_hit(r, t->length);
	node_reply_begin(r, &w);
	wire_append(&w, &got, sizeof(got));
	wire_append(&w, sums, got.n_checks * (uint32_t)sizeof(*sums));
	node_reply_finish(r, &w, LARDER_OK, with_payload ? t->length : 0);
}

static void get_pushed(struct request *r)
{
	if (!node_transfer_is_whole(r)) {
		node_request_release(r);
		node_reply_transfer(r);
		return;
	}
	get_reply(r, false);
}

/* Cuts the range to the value. False: it was refused, before the first byte. */
static bool get_range(struct request *r, uint64_t *offset, uint64_t *length)
{
	const struct wire_get *g = &r->wire.u.get;
	uint64_t size = engine_object_length(r->op.object), room;

	*offset = g->offset;
	*length = size;
	room = g->room;
	if (!(r->op.flags & LARDER_F_WHOLE)) {
		if (g->offset >= size) {
			node_reply_error(r, LARDER_BAD_REQUEST, size,
					 "the range begins at %llu, the value has %llu bytes",
					 (unsigned long long)g->offset, (unsigned long long)size);
			return false;
		}
		*length = MIN(g->length, size - g->offset);
		room = *length;
	}
	if (g->n_segs > 0)
		room = MIN(room, wire_segs_total(&r->wire));
	if (room < *length) {
		node_reply_error(r, LARDER_TOO_SMALL, size,
				 "the value has %llu bytes, there is room for %llu",
				 (unsigned long long)size, (unsigned long long)room);
		return false;
	}
	return true;
}

static void get_move(struct request *r)
{
	uint64_t offset, length;

	if (!get_range(r, &offset, &length)) {
		node_request_release(r);
		return;
	}
	node_admit_read(r, length);
	if (r->wire.n_segs > 0) {
		if (node_transfer_hold_segs(r) != LARDER_OK) {
			node_request_release(r);
			return;
		}
		node_transfer_start(r, REQUEST_PUSH, r->op.object, offset, length, get_pushed);
		return;
	}
	larder_probe4(op_phase, request_probe_op(r), r->session->slot, r->opcode,
		      LARDER_PHASE_DATA);
	r->transfer.object = r->op.object;
	r->transfer.offset = offset;
	r->transfer.length = length;
	get_reply(r, true);
}

/* Our own look at the pages is over; only a difference troubles the engine. */
static void get_verified(struct request *r)
{
	if (r->verify_bad && engine_verify_block(r->session->reactor->engine, r->op.object,
						 r->verify_block)) {
		node_request_release(r);
		node_reply_error(r, LARDER_NOT_FOUND, 0,
				 "its bytes went bad and were taken out of service: put it again");
		return;
	}
	get_move(r);
}

static void get_found(struct request *r)
{
	if (r->op.status != LARDER_OK) {
		node_reply_status(r, r->op.status);
		return;
	}
	if (r->op.flags & LARDER_F_VERIFY) {
		r->verify_checks = NULL;
		node_verify_start(r, r->op.object, 0, engine_object_length(r->op.object),
				  get_verified);
		return;
	}
	get_move(r);
}

void node_op_get(struct request *r)
{
	const struct wire_get *g = &r->wire.u.get;

	if (node_value_has_no_way(r))
		return;
	if (r->session->viewer && (r->op.flags & LARDER_F_FILL)) {
		node_reply_error(r, LARDER_DENIED, 0, "the role viewer takes no lease");
		return;
	}
	if (node_draining(session_node(r->session)))
		r->op.flags &= ~(uint32_t)LARDER_F_FILL;	/* nothing new begins */
	r->key.key = r->wire.tail;
	r->key.key_len = g->key_len;
	r->op.keys = &r->key;
	r->op.n_keys = 1;
	memset(&r->stat, 0, sizeof(r->stat));
	r->op.stats = &r->stat;
	node_request_submit(r, &r->op, get_found);
}
