/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which namespace a key is in, and the walks over all that a RESP client can name: SCAN, DBSIZE.
 *
 * With a fixed resp.namespace that is this one. With "auto" it is, of each of the tenant's
 * namespaces, the keys that would be looked for there: another key in it, put by a native client,
 * has no name here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <larder/descriptor.h>

#include "base/compiler.h"
#include "node/resp.h"

#define SCAN_CALLS 8u		/* of the engine's LIST in one answer */
#define SCAN_COUNT_MAX 10000
#define SCAN_SLOT_BITS 34u	/* of the cursor: slots are 32 bits and one more for "none yet" */
#define SCAN_HEAD 64u		/* what comes before the keys in the answer */

static bool ns_is_fixed(const struct larder_node *n)
{
	return strcmp(n->resp_ns, "auto") != 0;
}

/* Its name; its length. */
static size_t ns_of_key(const struct larder_node *n, const void *key, size_t len,
			char name[RESP_NAMESPACE_MAX])
{
	const char *other = ns_is_fixed(n) ? n->resp_ns : RESP_NS_OTHER;
	size_t name_len = ns_is_fixed(n) ? 0 : resp_key_namespace(key, len, name);

	if (name_len > 0)
		return name_len;
	name_len = strlen(other);
	memcpy(name, other, name_len);
	return name_len;
}

/* LARDER_OK: p->ns is it. */
static int ns_open(struct session *s, const char *name, size_t len, bool create)
{
	struct resp_session *p = resp_of(s);
	struct engine *e = session_node(s)->engine;
	const struct namespace_record *rec;
	const char *field;
	int status;

	if (p->ns_known && p->ns_len == len && memcmp(p->ns_name, name, len) == 0 &&
	    engine_namespace(e, s->tenant->id, false, p->ns))
		return LARDER_OK;
	p->ns_known = false;
	status = engine_namespace_open(e, s->tenant->id, name, (uint16_t)len, NULL, create,
				       &p->ns, &field);
	if (status != LARDER_OK)
		return status;
	rec = engine_namespace(e, s->tenant->id, false, p->ns);
	if (!rec)		/* retired in between */
		return LARDER_NOT_FOUND;
	p->ns_digest = larder_descriptor_digest(&rec->descriptor);
	memcpy(p->ns_name, name, len);
	p->ns_len = (uint8_t)len;
	p->ns_known = true;
	return LARDER_OK;
}

int resp_take_key(struct request *r, uint32_t i, bool create)
{
	struct session *s = r->session;
	struct resp_session *p = resp_of(s);
	char name[RESP_NAMESPACE_MAX];
	size_t len;
	int status;

	if (p->too_long || i >= p->n_args)
		return LARDER_BAD_REQUEST;
	r->key.key = resp_arg(p, i, &len);
	if (len < 1 || len > LARDER_KEY_MAX)
		return LARDER_BAD_REQUEST;
	r->key.key_len = (uint16_t)len;
	status = ns_open(s, name, ns_of_key(session_node(s), r->key.key, len, name), create);
	r->op.ns = p->ns;
	return status;
}

/* --- SCAN ------------------------------------------------------------------------------------ */

/* Can @ns hold keys of this tenant's RESP clients? */
static const struct namespace_record *scan_namespace(const struct request *r, uint32_t ns)
{
	const struct larder_node *n = session_node(r->session);
	const struct namespace_record *rec = engine_namespace(n->engine, r->op.tenant, false, ns);

	if (rec && ns_is_fixed(n) && (rec->name_len != strlen(n->resp_ns) ||
				      memcmp(rec->name, n->resp_ns, rec->name_len) != 0))
		return NULL;
	return rec;
}

static bool scan_key_lives_in(const struct request *r, const void *key, size_t len,
			      const struct namespace_record *rec)
{
	char name[RESP_NAMESPACE_MAX];
	size_t name_len = ns_of_key(session_node(r->session), key, len, name);

	return rec && rec->name_len == name_len && memcmp(rec->name, name, name_len) == 0;
}

static bool scan_entry(void *user, const void *key, size_t len, const struct larder_stat *st)
{
	struct request *r = user;
	struct resp_scan *c = &resp_of(r->session)->scan;

	if ((c->pattern && !resp_match(c->pattern, c->pattern_len, key, len)) ||
	    !scan_key_lives_in(r, key, len, scan_namespace(r, c->ns)))
		return true;
	if (c->found >= c->count || c->w.room - c->w.len < len + 16)
		return false;
	resp_write_bulk(&c->w, key, len);
	c->found++;
	return true;
}

static void scan_reply(struct request *r)
{
	struct resp_scan *c = &resp_of(r->session)->scan;
	struct resp_writer w;
	char cursor[24];

	(void)snprintf(cursor, sizeof(cursor), "%" PRIu64, c->cursor);
	resp_reply_begin(r, &w);
	resp_write_array(&w, 2);
	resp_write_text(&w, cursor);
	resp_write_array(&w, c->found);
	/* it is counted: what the keys were given is what is left */
	memcpy(w.at + w.len, c->w.at, c->w.len);
	w.len += c->w.len;
	resp_reply_end(r, &w, LARDER_OK);
}

static void scan_step(struct request *r);

static void scan_listed(struct request *r)
{
	struct resp_scan *c = &resp_of(r->session)->scan;

	c->slot = r->op.cursor;
	if (r->op.status != LARDER_OK || c->slot == 0) {	/* or retired meanwhile */
		c->ns++;
		c->slot = 0;
	}
	scan_step(r);
}

/* The next namespace that there is, from where the cursor stands; then the engine lists it. */
static void scan_step(struct request *r)
{
	struct resp_scan *c = &resp_of(r->session)->scan;
	uint32_t end = records_namespaces(engine_records(session_node(r->session)->engine));

	while (c->ns < end && !scan_namespace(r, c->ns)) {
		c->ns++;
		c->slot = 0;
	}
	c->cursor = c->ns < end ? (uint64_t)c->ns << SCAN_SLOT_BITS | MAX(c->slot, (uint64_t)1) : 0;
	if (c->ns == end || c->calls++ == SCAN_CALLS || c->found >= c->count) {
		scan_reply(r);
		return;
	}
	r->op.ns = c->ns;
	r->op.cursor = c->slot;
	r->op.count = 0;
	node_request_submit(r, &r->op, scan_listed);
}

/* NULL, or what is wrong. */
static const char *scan_options(struct resp_session *p)
{
	struct resp_scan *c = &p->scan;
	int64_t n;

	*c = (struct resp_scan){ .count = 10 };
	if (!resp_arg_number(p, 1, &n) || n < 0)
		return "invalid cursor";
	c->ns = (uint32_t)(n >> SCAN_SLOT_BITS);
	c->slot = (uint64_t)n & ((1ull << SCAN_SLOT_BITS) - 1);
	for (uint32_t i = 2; i < p->n_args; i += 2) {
		size_t len;

		if (i + 1 == p->n_args)
			return "syntax error";
		if (resp_arg_is(p, i, "MATCH")) {
			c->pattern = resp_arg(p, i + 1, &len);
			c->pattern_len = (uint32_t)len;
		} else if (!resp_arg_is(p, i, "COUNT") || !resp_arg_number(p, i + 1, &n) || n < 1) {
			return "syntax error: SCAN cursor [MATCH pattern] [COUNT number]";
		} else {
			c->count = (uint32_t)MIN(n, SCAN_COUNT_MAX);
		}
	}
	return NULL;
}

void resp_scan(struct session *s, struct resp_session *p)
{
	const char *fault = scan_options(p);
	struct resp_scan *c = &p->scan;
	struct request *r;

	if (fault) {
		resp_answer_error(s, "ERR", "%s", fault);
		return;
	}
	r = resp_request(s, LARDER_OP_LIST);
	p->waits = true;
	if (!node_admit(r))
		return;
	resp_begin(&c->w, r->scratch, MIN(s->max_message - SCAN_HEAD, REQUEST_SCRATCH), false);
	r->key.key = c->pattern;
	r->key.key_len = c->pattern ? (uint16_t)MIN(resp_match_prefix(c->pattern, c->pattern_len),
						    (size_t)LARDER_KEY_MAX) : 0;
	r->op.n_keys = r->key.key_len > 0;
	r->op.max = UINT32_MAX;
	r->op.list = scan_entry;
	r->op.list_user = r;
	scan_step(r);
}

void resp_dbsize(struct session *s, struct resp_session *p)
{
	struct engine *e = session_node(s)->engine;
	uint32_t end = records_namespaces(engine_records(e));
	uint64_t sum = 0, objects, bytes;
	struct request *r = resp_request(s, LARDER_OP_NS_LIST);

	p->waits = true;
	if (!node_admit(r))
		return;
	for (uint32_t i = 0; i < end; i++) {
		if (!scan_namespace(r, i))
			continue;
		engine_namespace_usage(e, i, &objects, &bytes);
		sum += objects;
	}
	resp_reply_integer(r, (int64_t)sum, LARDER_OK);
}
