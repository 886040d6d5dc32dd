/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces: create, open, list, flush, retire. A session names those of its own tenant, and as
 * "tenant:name" those that others share with it; a viewer names any like that.
 */
#include <string.h>

#include "base/compiler.h"
#include "node/session.h"
#include "wire/encode.h"

struct ns_name {
	char owner[LARDER_TENANT_NAME_MAX + 1];	/* empty: its own tenant */
	const void *name;
	uint16_t len;
};

/* Splits "tenant:name". LARDER_OK or a status to refuse with. */
static int ns_name_split(const struct request *r, struct ns_name *ret)
{
	const struct session *s = r->session;
	const uint8_t *name = r->wire.tail;
	uint16_t len = r->wire.u.ns_open.name_len;
	const uint8_t *colon = len ? memchr(name, ':', len) : NULL;
	size_t owner_len = colon ? (size_t)(colon - name) : 0;

	*ret = (struct ns_name){ .name = name, .len = len };
	if (!colon)
		return s->viewer ? LARDER_BAD_REQUEST : LARDER_OK;
	if (owner_len == 0)
		return LARDER_BAD_REQUEST;
	if (owner_len > LARDER_TENANT_NAME_MAX)
		return LARDER_NOT_FOUND;
	memcpy(ret->owner, name, owner_len);
	ret->name = colon + 1;
	ret->len = (uint16_t)(len - owner_len - 1);
	if (ret->len == 0 || memchr(ret->name, ':', ret->len))
		return LARDER_BAD_REQUEST;
	if (!s->viewer && strcmp(ret->owner, s->tenant->name) == 0)
		ret->owner[0] = '\0';
	return LARDER_OK;
}

static bool ns_limit_is_met(const struct session *s)
{
	const struct larder_gauges *g = &session_node(s)->ledger->gauges[s->slot];
	uint64_t limit = s->viewer ? 0 : quota_limit(s->quota, LARDER_LIMIT_namespaces);

	return limit && __atomic_load_n(&g->namespaces, __ATOMIC_RELAXED) >= limit;
}

static void ns_open_refuse(struct request *r, int status, const char *field)
{
	if (status == LARDER_LAYOUT_MISMATCH)
		node_reply_error(r, status, 0, "%s", field ? field : "descriptor");
	else if (status == LARDER_NOT_FOUND)
		node_reply_error(r, status, 0,
				 "there is no namespace of that name: create it first");
	else if (status == LARDER_QUOTA && ns_limit_is_met(r->session))
		node_reply_over(r, LARDER_LIMIT_namespaces);
	else if (status == LARDER_QUOTA)
		node_reply_error(r, status, 0,
				 "half of the node's directory of namespaces is used up by this "
				 "tenant, or all of it by all: retire some, their places are free "
				 "after the node's next start");
	else if (status == LARDER_UNSUPPORTED)
		node_reply_error(r, status, 0,
				 "the node's eviction policy remembers no keys, so it can't tell a "
				 "second touch: admit all");
	else if (status == LARDER_BAD_REQUEST)
		node_reply_error(r, status, 0, "%s",
				 r->session->viewer ?
				 "a viewer names a namespace as tenant:name" :
				 "a namespace's name has 1 to 128 bytes, and no ':'");
	else
		node_reply_status(r, status);
}

/* One of another tenant's. Whether there is none or it is not for us looks the same. */
static int ns_open_other(struct request *r, const struct ns_name *name, bool create,
			 uint32_t *ret_ns, const char **field)
{
	const struct wire_ns_open *o = &r->wire.u.ns_open;
	struct engine *e = session_node(r->session)->engine;
	const struct larder_descriptor *d = o->has_descriptor && !create ? &o->descriptor : NULL;
	int status = engine_namespace_open_other(e, r->op.tenant, r->session->viewer, name->owner,
						 name->name, name->len, d, ret_ns, field);

	return create && status == LARDER_OK ? LARDER_DENIED : status;
}

static int ns_open_own(struct request *r, const struct ns_name *name, bool create,
		       struct wire_ns_opened *opened, const char **field)
{
	const struct wire_ns_open *o = &r->wire.u.ns_open;
	struct engine *e = session_node(r->session)->engine;
	enum engine_admission admission = o->admission == WIRE_ADMISSION_SECOND_TOUCH ?
					  ENGINE_ADMIT_SECOND_TOUCH : ENGINE_ADMIT_ALL;
	uint32_t before;
	int status;

	if (!engine_admission_is_possible(e, admission))
		return LARDER_UNSUPPORTED;
	if (create && engine_namespace_open(e, r->op.tenant, name->name, name->len, NULL, false,
					    &before, field) == LARDER_NOT_FOUND)
		opened->flags = WIRE_NS_CREATED;
	status = engine_namespace_open(e, r->op.tenant, name->name, name->len,
				       o->has_descriptor ? &o->descriptor : NULL, create,
				       &opened->ns, field);
	if (status == LARDER_OK && o->admission != WIRE_ADMISSION_LEAVE)
		status = engine_namespace_set_admission(e, r->op.tenant, opened->ns, admission);
	return status;
}

static uint16_t ns_flags(const struct request *r, uint32_t ns, const struct namespace_record *rec)
{
	struct engine *e = session_node(r->session)->engine;
	bool own = !r->session->viewer && rec->tenant == r->op.tenant;

	return (engine_namespace_admission(e, ns) == ENGINE_ADMIT_SECOND_TOUCH ?
		WIRE_NS_SECOND_TOUCH : 0) | (own ? 0 : WIRE_NS_READ_ONLY);
}

void node_op_ns_open(struct request *r)
{
	struct engine *e = session_node(r->session)->engine;
	bool create = r->opcode == LARDER_OP_NS_CREATE;
	struct wire_ns_opened opened = { 0 };
	const struct namespace_record *rec;
	const char *field = NULL;
	struct ns_name name;
	int status = ns_name_split(r, &name);

	if (status == LARDER_OK)
		status = name.owner[0] ? ns_open_other(r, &name, create, &opened.ns, &field)
				       : ns_open_own(r, &name, create, &opened, &field);
	if (status != LARDER_OK) {
		ns_open_refuse(r, status, field);
		return;
	}
	rec = engine_namespace_readable(e, r->op.tenant, r->session->viewer, opened.ns);
	if (!rec) {		/* retired, or not shared any more, in between */
		ns_open_refuse(r, LARDER_NOT_FOUND, NULL);
		return;
	}
	opened.flags |= ns_flags(r, opened.ns, rec);
	opened.descriptor = rec->descriptor;
	node_reply_struct(r, &opened, sizeof(opened), LARDER_OK);
}

/* One entry; false = no room. */
static bool ns_list_one(struct request *r, struct wire_writer *w, uint32_t ns,
			const struct namespace_record *rec)
{
	struct larder_node *n = session_node(r->session);
	struct wire_ns_entry e = { .ns = ns, .created_ms = rec->created_ms };
	char name[WIRE_NS_NAME_MAX];
	uint32_t len = 0;

	e.flags = ns_flags(r, ns, rec);
	if (e.flags & WIRE_NS_READ_ONLY) {
		const char *tenant = engine_tenant_name(n->engine, rec->tenant);

		len = tenant ? (uint32_t)strnlen(tenant, LARDER_TENANT_NAME_MAX) : 0;
		if (len)
			memcpy(name, tenant, len);
		name[len++] = ':';
	}
	memcpy(name + len, rec->name, MIN(rec->name_len, LARDER_NS_NAME_MAX));
	len += MIN(rec->name_len, LARDER_NS_NAME_MAX);
	if (wire_room(w) < sizeof(e) + len)
		return false;
	engine_namespace_usage(n->engine, ns, &e.objects, &e.bytes);
	e.name_len = (uint16_t)len;
	wire_append(w, &e, sizeof(e));
	wire_append(w, name, len);
	return true;
}

void node_op_ns_list(struct request *r)
{
	struct larder_node *n = session_node(r->session);
	uint32_t end = records_namespaces(engine_records(n->engine)), at;
	uint32_t max = r->wire.u.ns_list.max ? r->wire.u.ns_list.max : UINT32_MAX;
	struct wire_ns_listed listed = { 0 };
	struct wire_writer w;

	at = (uint32_t)MIN(r->wire.u.ns_list.cursor, (uint64_t)end);
	node_reply_begin(r, &w);
	wire_append(&w, &listed, sizeof(listed));
	for (; at < end && listed.count < max; at++) {
		const struct namespace_record *rec =
			engine_namespace_readable(n->engine, r->op.tenant, r->session->viewer, at);

		if (!rec)
			continue;
		if (!ns_list_one(r, &w, at, rec))
			break;
		listed.count++;
	}
	listed.cursor = at < end ? at : 0;
	/* written last, because it counts what follows it */
	wire_patch(&w, 0, &listed, sizeof(listed));
	node_reply_finish(r, &w, LARDER_OK, 0);
}

static void flush_done(struct request *r)
{
	const struct wire_ns_flushed flushed = { .objects = r->op.count, .bytes = r->op.bytes,
						 .kept = r->op.kept };

	if (r->op.status != LARDER_OK) {
		node_reply_status(r, r->op.status);
		return;
	}
	node_reply_struct(r, &flushed, sizeof(flushed), LARDER_OK);
}

/* Takes what a flush and a retirement ask for. False: it was refused. */
static bool flush_take(struct request *r)
{
	const struct wire_ns_flush *f = &r->wire.u.ns_flush;
	struct engine *e = session_node(r->session)->engine;

	r->op.opcode = LARDER_OP_NS_FLUSH;
	r->op.ns = f->ns;
	r->op.flags = f->flags & LARDER_F_FORCE;
	if (engine_namespace(e, r->op.tenant, false, f->ns))
		return true;
	if (engine_namespace_readable(e, r->op.tenant, false, f->ns))
		node_reply_status(r, LARDER_DENIED);
	else
		node_reply_error(r, LARDER_NOT_FOUND, 0,
				 "there is no namespace %u for this session: open it by name",
				 f->ns);
	return false;
}

void node_op_ns_flush(struct request *r)
{
	if (flush_take(r))
		node_request_submit(r, &r->op, flush_done);
}

/* It is empty, unless something is leased or was put meanwhile. */
static void retire_flushed(struct request *r)
{
	struct larder_node *n = session_node(r->session);
	int status = r->op.status;

	if (status == LARDER_OK && r->op.kept) {
		node_reply_error(r, LARDER_BUSY, r->op.kept,
				 "%llu objects are leased or pinned hard and stay, with the "
				 "namespace (%llu went): try again later, or force it",
				 (unsigned long long)r->op.kept, (unsigned long long)r->op.count);
		return;
	}
	if (status == LARDER_OK)
		status = engine_namespace_retire(n->engine, r->op.tenant, r->op.ns);
	if (status == LARDER_BUSY) {
		node_reply_error(r, status, 0,
				 "someone is still putting into the namespace: stop that first, or "
				 "try again");
		return;
	}
	r->op.status = status;
	flush_done(r);
}

void node_op_ns_retire(struct request *r)
{
	if (flush_take(r))
		node_request_submit(r, &r->op, retire_flushed);
}
