/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SET and the GETs.
 *
 * RESP's clients send no checks, so the codec is the writer: it computes them as the bytes arrive,
 * and the object says that they are the node's (CHECKED_BY_NODE). They are known when the value is
 * in, so SET is the engine's PUT_BEGIN and commit. What follows the value (EX, PX, NX) is read
 * before the commit. The bytes of a key that is there already are only checked: the same ones are
 * +OK, others CONFLICT. Taking them as a new version would mean a second object under one key, or
 * a delete first, while somebody relies on an EXISTS: see larder-lmcache(7).
 *
 * GET compares the pages with those checks before the first byte leaves (resp.verify): nobody else
 * does it for these clients.
 */
#include <string.h>

#include "base/check.h"
#include "base/compiler.h"
#include "node/resp.h"

/* --- SET ------------------------------------------------------------------------------------- */

/* The value is in (or will not be). Its command is not over yet. */
static void set_arrived(struct request *r)
{
	if (!node_transfer_is_whole(r)) {
		node_request_release(r);
		node_reply_transfer(r);
		return;
	}
	node_request_move(r, REQUEST_REST);
}

static void set_reserved(struct request *r)
{
	struct session *s = r->session;
	struct resp_session *p = resp_of(s);

	if (r->op.status != LARDER_OK) {
		node_put_refuse(r, &r->op);
		return;
	}
	/* the wait for others is over: from here on the stall time counts, and this */
	r->op.deadline_ns = r->start_ns + NODE_DEADLINE_MAX_MS * NSEC_PER_MSEC;
	r->op.n_checks = larder_check_count(r->op.length);
	check_stream_init(&r->transfer.crc, r->op.length, (uint32_t *)r->scratch);
	r->transfer.checked = true;
	node_transfer_start(r, REQUEST_PULL, r->op.object, 0, r->op.length, set_arrived);
	if (r->op.present) {
		r->transfer.sink = r->message;
		r->transfer.sink_bytes = s->max_message;
	}
	p->request = r;
	p->waits = false;
	resp_go(s);
}

static void set_refuse_key(struct request *r, int status)
{
	if (status == LARDER_BAD_REQUEST)
		node_reply_error(r, status, 0, "a key has 1 to %u bytes", LARDER_KEY_MAX);
	else if (status == LARDER_QUOTA)
		node_reply_error(r, status, 0, "no namespace can be made for the key: the tenant "
				 "has as many as its limit or the node's directory allows");
	else
		node_reply_status(r, status);
}

void resp_set_value(struct session *s, struct resp_session *p)
{
	uint64_t length = p->reader.length;
	struct request *r;
	int status;

	r = resp_request(s, LARDER_OP_PUT);
	p->waits = true;
	r->inbound = length;
	if (length == 0) {
		node_reply_error(r, LARDER_BAD_REQUEST, 0, "a value has at least one byte");
		return;
	}
	if (node_draining(session_node(s))) {
		node_reply_status(r, LARDER_DRAINING);
		return;
	}
	if (node_put_is_too_large(r, length) || !node_admit(r))
		return;
	status = resp_take_key(r, 1, true);
	if (status != LARDER_OK) {
		set_refuse_key(r, status);
		return;
	}
	r->op.opcode = LARDER_OP_PUT_BEGIN;
	r->op.flags = LARDER_F_CHECKED_BY_NODE;
	r->op.length = length;
	r->op.digest = key_digest(p->ns_digest, r->key.key, r->key.key_len);
	node_request_submit(r, &r->op, set_reserved);
}

struct set_options {
	uint32_t ttl_ms;
	bool if_absent;
};

/* NULL, or what is wrong with them. */
static const char *set_options(const struct resp_session *p, struct set_options *ret)
{
	*ret = (struct set_options){ .ttl_ms = 0 };
	for (uint32_t i = 2; i < p->n_args; i++) {
		bool seconds = resp_arg_is(p, i, "EX");
		int64_t n;

		if (resp_arg_is(p, i, "NX")) {
			ret->if_absent = true;
			continue;
		}
		if ((!seconds && !resp_arg_is(p, i, "PX")) || i + 1 == p->n_args || ret->ttl_ms)
			return "syntax error: SET key value [EX seconds | PX milliseconds] [NX]";
		if (!resp_arg_number(p, ++i, &n))
			return "value is not an integer or out of range";
		if (n < 1 || n > (seconds ? UINT32_MAX / 1000 : UINT32_MAX))
			return "invalid expire time in 'set' command";
		ret->ttl_ms = (uint32_t)(seconds ? 1000 * n : n);
	}
	return NULL;
}

void resp_set(struct session *s, struct resp_session *p)
{
	struct engine_reactor *e = s->reactor->engine;
	struct request *r = p->request;
	struct set_options o;
	const char *fault = set_options(p, &o);
	struct resp_writer w;

	if (fault) {
		resp_answer_error(s, "ERR", "%s", fault);
		return;
	}
	node_request_move(r, REQUEST_STARTED);
	if (o.if_absent && r->op.present) {
		node_request_release(r);
		resp_reply_null(r, LARDER_CONFLICT);
		return;
	}
	if (o.ttl_ms)
		engine_put_ttl(e, &r->op, o.ttl_ms);
	r->hold = HOLD_NONE;
	r->op.checks = (const uint32_t *)r->scratch;
	engine_commit(e, &r->op);
	if (r->op.status != LARDER_OK && r->op.status != LARDER_EXISTS_SAME) {
		node_reply_status(r, r->op.status);
		return;
	}
	resp_reply_begin(r, &w);
	resp_write_simple(&w, "OK");
	resp_reply_end(r, &w, r->op.status);
}

/* --- GET ------------------------------------------------------------------------------------- */

static void get_move(struct request *r)
{
	const struct resp_session *p = resp_of(r->session);

	node_admit_read(r, p->to - p->from);
	node_account_hit(r, p->to - p->from);
	resp_reply_value(r, p->from, p->to - p->from);
}

/* Our own look at the pages is over; only a difference troubles the engine. */
static void get_verified(struct request *r)
{
	if (r->verify_bad && engine_verify_block(r->session->reactor->engine, r->op.object,
						 r->verify_block)) {
		node_request_release(r);
		resp_reply_null(r, LARDER_CHECKSUM);
		return;
	}
	get_move(r);
}

static void get_start(struct request *r, uint64_t from, uint64_t to)
{
	struct resp_session *p = resp_of(r->session);

	p->from = from;
	p->to = to;
	if (!resp_config(r->session)->verify) {
		get_move(r);
		return;
	}
	r->verify_checks = NULL;
	node_verify_start(r, r->op.object, from, to - from, get_verified);
	node_session_kick(r->session);
}

static void get_found(struct request *r)
{
	if (r->op.status == LARDER_OK)
		get_start(r, 0, engine_object_length(r->op.object));
	else if (r->op.status == LARDER_NOT_FOUND)
		resp_reply_null(r, LARDER_NOT_FOUND);
	else
		node_reply_status(r, r->op.status);
}

/* What is said where there is nothing. */
static void get_nothing(struct request *r)
{
	struct resp_writer w;

	if (resp_of(r->session)->command->run != resp_getrange) {
		resp_reply_null(r, LARDER_NOT_FOUND);
		return;
	}
	resp_reply_begin(r, &w);
	resp_write_text(&w, "");
	resp_reply_end(r, &w, LARDER_NOT_FOUND);
}

static void get_key(struct session *s, struct resp_session *p, void (*found)(struct request *))
{
	struct request *r = resp_request(s, LARDER_OP_GET);

	p->waits = true;
	if (!node_admit(r))
		return;
	if (resp_take_key(r, 1, false) == LARDER_OK)
		node_request_submit(r, &r->op, found);
	else
		get_nothing(r);
}

void resp_get(struct session *s, struct resp_session *p)
{
	get_key(s, p, get_found);
}

void resp_mget(struct session *s, struct resp_session *p)
{
	p->head_due = p->reader.argument == 2;	/* the first key was read just now */
	get_key(s, p, get_found);
}

static void getrange_found(struct request *r)
{
	const struct resp_session *p = resp_of(r->session);
	int64_t from = (int64_t)p->from, to = (int64_t)p->to, size;

	if (r->op.status == LARDER_NOT_FOUND) {
		get_nothing(r);
		return;
	}
	if (r->op.status != LARDER_OK) {
		node_reply_status(r, r->op.status);
		return;
	}
	size = (int64_t)engine_object_length(r->op.object);
	from = from < 0 ? MAX(from + size, 0) : from;
	to = to < 0 ? to + size : MIN(to, size - 1);
	if (from > to) {
		node_request_release(r);
		get_nothing(r);
		return;
	}
	get_start(r, (uint64_t)from, (uint64_t)to + 1);
}

void resp_getrange(struct session *s, struct resp_session *p)
{
	int64_t from, to;

	if (!resp_arg_number(p, 2, &from) || !resp_arg_number(p, 3, &to)) {
		resp_answer_error(s, "ERR", "value is not an integer or out of range");
		return;
	}
	p->from = (uint64_t)from;
	p->to = (uint64_t)to;
	get_key(s, p, getrange_found);
}
