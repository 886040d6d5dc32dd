/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value that arrives in parts: PUT_BEGIN reserves it under a number of this connection, PUT_PART
 * brings each byte once and in any order, PUT_COMMIT carries the checks and compares them with the
 * pages, PUT_ABORT gives up. What has arrived is a sorted list of spans that do not touch; a writer
 * that leaves more gaps than SESSION_SPANS_MAX is refused, not remembered.
 *
 * The engine's hold on the object is the put's, not a request's. It ends with COMMIT, ABORT, at the
 * deadline of its BEGIN (a writer that gave up may not say so), or, when the connection is lost,
 * with the last part that was still moving.
 */
#include <string.h>

#include "base/compiler.h"
#include "node/session.h"

static struct session_put *put_find(struct session *s, uint64_t id)
{
	struct session_put *p = &s->puts[id % SESSION_PUTS_MAX];

	return id != 0 && p->used && p->id == id ? p : NULL;
}

/* Its deadline ended it: what still comes for it is late, not wrong. */
static bool put_expired(const struct session *s, uint64_t id)
{
	const struct session_put *p = &s->puts[id % SESSION_PUTS_MAX];

	return id != 0 && p->id == id && p->expired;
}

static struct session_put *put_take(struct session *s)
{
	for (uint32_t i = 0; i < SESSION_PUTS_MAX; i++) {
		struct session_put *p = &s->puts[i];

		if (p->used)
			continue;
		memset(p, 0, offsetof(struct session_put, key_bytes));
		p->used = true;
		/* never 0, never the same twice, and it names its place */
		p->id = ++s->next_put * SESSION_PUTS_MAX + i;
		s->n_puts++;
		node_count(&s->reactor->puts, 1);
		return p;
	}
	return NULL;
}

static void put_give(struct session *s, struct session_put *p)
{
	p->used = false;
	s->n_puts--;
	node_uncount(&s->reactor->puts, 1);
}

/* Ends the engine's hold without a commit. */
static void put_abort(struct session *s, struct session_put *p)
{
	engine_abort(s->reactor->engine, &p->op);
	put_give(s, p);
}

/* --- begin ----------------------------------------------------------------------------------- */

static void begin_answered(struct request *r)
{
	struct session_put *p = r->put;
	struct wire_put_begun begun = { .put = p->id, .present = p->op.present };

	r->put = NULL;
	p->ender = NULL;
	if (p->op.status != LARDER_OK) {
		const struct larder_op refused = p->op;

		r->op.limit = p->op.limit;
		put_give(r->session, p);
		node_put_refuse(r, &refused);
		return;
	}
	node_reactor_due(r->session->reactor, p->op.deadline_ns);
	node_reply_struct(r, &begun, sizeof(begun), LARDER_OK);
}

void node_op_put_begin(struct request *r)
{
	const struct wire_put *w = &r->wire.u.put;
	struct session_put *p;

	if (node_put_is_too_large(r, w->length))
		return;
	p = put_take(r->session);
	if (!p) {
		node_reply_error(r, LARDER_QUOTA, SESSION_PUTS_MAX,
				 "%u values are begun on this connection, which is the limit: "
				 "commit or abort one", SESSION_PUTS_MAX);
		return;
	}
	memcpy(p->key_bytes, r->wire.tail, w->key_len);
	p->key = (struct larder_op_key){ .key = p->key_bytes, .key_len = w->key_len };
	p->length = w->length;
	p->op = r->op;
	p->op.keys = &p->key;
	p->op.n_keys = 1;
	p->op.length = w->length;
	p->op.digest = w->digest;
	p->op.ttl_ms = w->ttl_ms;
	p->ender = r;		/* nobody may use it before the answer */
	r->put = p;
	node_request_submit(r, &p->op, begin_answered);
}

/* --- spans ----------------------------------------------------------------------------------- */

static bool spans_overlap(const struct session_put *p, uint64_t from, uint64_t to)
{
	for (uint32_t i = 0; i < p->n_spans; i++)
		if (from < p->spans[i].to && to > p->spans[i].from)
			return true;
	return false;
}

/* Adds what overlaps nothing. False: it would leave too many gaps. */
static bool spans_add(struct session_put *p, uint64_t from, uint64_t to)
{
	uint32_t i = 0;

	while (i < p->n_spans && p->spans[i].to < from)
		i++;
	if (i < p->n_spans && p->spans[i].to == from) {
		p->spans[i].to = to;
		if (i + 1 < p->n_spans && p->spans[i + 1].from == to) {
			p->spans[i].to = p->spans[i + 1].to;
			p->n_spans--;
			memmove(&p->spans[i + 1], &p->spans[i + 2],
				(p->n_spans - i - 1) * sizeof(p->spans[0]));
		}
		return true;
	}
	if (i < p->n_spans && p->spans[i].from == to) {
		p->spans[i].from = from;
		return true;
	}
	if (p->n_spans == SESSION_SPANS_MAX)
		return false;
	memmove(&p->spans[i + 1], &p->spans[i], (p->n_spans - i) * sizeof(p->spans[0]));
	p->spans[i] = (struct session_span){ .from = from, .to = to };
	p->n_spans++;
	return true;
}

static uint64_t spans_total(const struct session_put *p)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < p->n_spans; i++)
		total += p->spans[i].to - p->spans[i].from;
	return total;
}

/* --- parts ----------------------------------------------------------------------------------- */

/* Parts that are moving now are not in the spans yet. */
static bool part_overlaps_moving(const struct session *s, const struct session_put *p,
				 uint64_t from, uint64_t to)
{
	for (const struct list *it = s->active.next; it != &s->active; it = it->next) {
		const struct request *o = list_entry(it, struct request, link);
		const struct wire_put_part *w = &o->wire.u.put_part;

		if (o->put == p && o->opcode == LARDER_OP_PUT_PART &&
		    from < w->offset + w->length && to > w->offset)
			return true;
	}
	return false;
}

static const char *part_fault(const struct request *r, const struct session_put *p)
{
	const struct wire_put_part *w = &r->wire.u.put_part;

	if (!p)
		return "this connection has begun no value of that number";
	if (p->ender)
		return "the value is being committed or given up";
	if (w->offset >= p->length || w->length > p->length - w->offset)
		return "the part does not lie inside the value";
	if (spans_overlap(p, w->offset, w->offset + w->length) ||
	    part_overlaps_moving(r->session, p, w->offset, w->offset + w->length))
		return "some of these bytes were given already: each comes once";
	return NULL;
}

static void part_pulled(struct request *r)
{
	const struct wire_put_part *w = &r->wire.u.put_part;
	struct session_put *p = r->put;
	bool whole = node_transfer_is_whole(r), kept;

	kept = whole && spans_add(p, w->offset, w->offset + w->length);
	node_part_done(r);
	if (!whole)
		node_reply_transfer(r);
	else if (!kept)
		node_reply_error(r, LARDER_QUOTA, SESSION_SPANS_MAX,
				 "the parts leave more than %u gaps, which is the limit: send them "
				 "in order", SESSION_SPANS_MAX);
	else
		node_reply_none(r);
}

void node_op_put_part(struct request *r)
{
	const struct wire_put_part *w = &r->wire.u.put_part;
	struct session_put *p = put_find(r->session, w->put);
	const char *fault = part_fault(r, p);

	if (node_value_has_no_way(r))
		return;
	if (fault) {
		if (put_expired(r->session, w->put))
			node_reply_status(r, LARDER_DEADLINE);
		else
			node_reply_error(r, LARDER_BAD_REQUEST, 0, "PUT_PART: %s", fault);
		return;
	}
	if (p->op.present) {
		/* the key is there: bytes are not wanted, the commit's checks decide */
		if (spans_add(p, w->offset, w->offset + w->length))
			node_reply_none(r);
		else
			node_reply_error(r, LARDER_QUOTA, SESSION_SPANS_MAX,
					 "the parts leave more than %u gaps", SESSION_SPANS_MAX);
		return;
	}
	if (w->n_segs > 0 && node_transfer_hold_segs(r) != LARDER_OK)
		return;
	/* a part never holds the key for longer than the whole may */
	r->op.deadline_ns = MIN(r->op.deadline_ns, p->op.deadline_ns);
	r->put = p;
	p->parts++;
	node_transfer_start(r, REQUEST_PULL, p->op.object, w->offset, w->length, part_pulled);
}

void node_part_done(struct request *r)
{
	struct session_put *p = TAKE_PTR(r->put);

	if (--p->parts > 0)
		return;
	if (p->lost) {
		put_abort(r->session, p);
	} else if (p->ender && p->ender->state == REQUEST_PARTS) {
		node_request_move(p->ender, REQUEST_STARTED);
		p->ender->next(p->ender);
	}
}

/* --- commit and abort ------------------------------------------------------------------------ */

static void commit_finish(struct request *r)
{
	struct session_put *p = TAKE_PTR(r->put);
	struct wire_put_done done = { .size_bytes = p->length };
	int status;

	p->op.stats = &r->stat;
	engine_commit(r->session->reactor->engine, &p->op);
	status = p->op.status;
	put_give(r->session, p);
	done.commit_time_ms = r->stat.commit_time_ms;
	if (status == LARDER_OK || status == LARDER_EXISTS_SAME)
		node_reply_struct(r, &done, sizeof(done), status);
	else
		node_reply_status(r, status);
}

static void commit_verified(struct request *r)
{
	if (!r->verify_bad) {
		commit_finish(r);
		return;
	}
	put_abort(r->session, TAKE_PTR(r->put));
	node_reply_error(r, LARDER_CHECKSUM, 0,
			 "the bytes that arrived do not match the checks of the commit");
}

/* Every part that was under way is home. */
static void commit_check(struct request *r)
{
	struct session_put *p = r->put;
	const struct wire_put_commit *w = &r->wire.u.put_commit;
	bool whole = p->n_spans == 1 && p->spans[0].from == 0 && p->spans[0].to == p->length;

	if ((!whole && !p->op.present) || w->n_checks != larder_check_count(p->length)) {
		r->put = NULL;
		p->ender = NULL;	/* it may be completed and committed yet */
		node_reply_error(r, LARDER_BAD_REQUEST, 0,
				 "PUT_COMMIT: %llu of %llu bytes were given, with %u checks (one "
				 "for each 256 KiB is due)", (unsigned long long)spans_total(p),
				 (unsigned long long)p->length, w->n_checks);
		return;
	}
	memcpy(r->scratch, r->wire.checks, w->n_checks * sizeof(uint32_t));
	memset(&r->stat, 0, sizeof(r->stat));
	p->op.checks = (const uint32_t *)r->scratch;
	p->op.n_checks = w->n_checks;
	if (p->op.present || !session_node(r->session)->config.verify_commit) {
		commit_finish(r);
		return;
	}
	r->verify_checks = p->op.checks;
	node_verify_start(r, p->op.object, 0, p->length, commit_verified);
}

static void abort_now(struct request *r)
{
	put_abort(r->session, TAKE_PTR(r->put));
	node_reply_none(r);
}

/* COMMIT and ABORT begin alike: nobody else's turn any more, and wait for the parts. */
static void put_end(struct request *r, uint64_t id, void (*next)(struct request *))
{
	struct session_put *p = put_find(r->session, id);

	if (put_expired(r->session, id)) {
		node_reply_status(r, LARDER_DEADLINE);
		return;
	}
	if (!p || p->ender) {
		node_reply_error(r, LARDER_BAD_REQUEST, 0,
				 "%s: this connection has no value %llu that is open",
				 wire_op_info(r->opcode)->name, (unsigned long long)id);
		return;
	}
	r->put = p;
	p->ender = r;
	r->next = next;
	if (p->parts == 0)
		next(r);
	else
		node_request_move(r, REQUEST_PARTS);
}

void node_op_put_commit(struct request *r)
{
	put_end(r, r->wire.u.put_commit.put, commit_check);
}

void node_op_put_abort(struct request *r)
{
	put_end(r, r->wire.u.put_abort.put, abort_now);
}

/* --- the deadline ---------------------------------------------------------------------------- */

void node_puts_expire(struct session *s, uint64_t now)
{
	for (uint32_t i = 0; s->n_puts > 0 && i < SESSION_PUTS_MAX; i++) {
		struct session_put *p = &s->puts[i];

		/* what is under way for it has a deadline of its own, and ends first */
		if (!p->used || p->lost || p->ender || p->parts > 0)
			continue;
		if (now < p->op.deadline_ns) {
			node_reactor_due(s->reactor, p->op.deadline_ns);
			continue;
		}
		p->expired = true;
		put_abort(s, p);
	}
}

/* --- the connection is lost ------------------------------------------------------------------ */

/* BEGIN, COMMIT or ABORT will not end it any more. */
void node_put_orphan(struct request *r)
{
	struct session_put *p = TAKE_PTR(r->put);

	p->ender = NULL;
	p->lost = true;
	if (r->opcode == LARDER_OP_PUT_BEGIN && p->op.status != LARDER_OK)
		put_give(r->session, p);
	else if (p->parts == 0)
		put_abort(r->session, p);
}

void node_puts_lost(struct session *s)
{
	for (uint32_t i = 0; i < SESSION_PUTS_MAX; i++) {
		struct session_put *p = &s->puts[i];

		if (!p->used || p->lost)
			continue;
		p->lost = true;
		if (p->parts == 0 && !p->ender)
			put_abort(s, p);
	}
}
