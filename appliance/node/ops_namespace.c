/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces: create, open, list, flush. A session names those of its own tenant; a viewer, which
 * belongs to none, spells "tenant:name".
 */
#include <string.h>

#include "base/compiler.h"
#include "node/session.h"
#include "wire/encode.h"

struct ns_name {
	uint32_t tenant;
	const void *name;
	uint16_t len;
};

/* Splits "tenant:name". LARDER_OK or a status to refuse with. */
static int ns_name_resolve(const struct request *r, struct ns_name *ret)
{
	const struct session *s = r->session;
	const uint8_t *name = r->wire.tail;
	uint16_t len = r->wire.u.ns_open.name_len;
	const uint8_t *colon = len ? memchr(name, ':', len) : NULL;
	char tenant[LARDER_TENANT_NAME_MAX + 1] = "";
	size_t tenant_len = colon ? (size_t)(colon - name) : 0;

	*ret = (struct ns_name){ .tenant = r->op.tenant, .name = name, .len = len };
	if (!colon)
		return s->viewer ? LARDER_BAD_REQUEST : LARDER_OK;
	if (tenant_len > LARDER_TENANT_NAME_MAX)
		return LARDER_NOT_FOUND;
	memcpy(tenant, name, tenant_len);
	ret->name = colon + 1;
	ret->len = (uint16_t)(len - tenant_len - 1);
	if (memchr(ret->name, ':', ret->len))
		return LARDER_BAD_REQUEST;
	if (s->viewer)
		return records_tenant_find(engine_records(session_node(s)->engine), tenant,
					   &ret->tenant) < 0 ? LARDER_NOT_FOUND : LARDER_OK;
	return strcmp(tenant, s->tenant->name) == 0 ? LARDER_OK : LARDER_NOT_FOUND;
}

static void ns_open_refuse(struct request *r, int status, const char *field)
{
	if (status == LARDER_LAYOUT_MISMATCH)
		node_reply_error(r, status, 0, "%s", field ? field : "descriptor");
	else if (status == LARDER_NOT_FOUND)
		node_reply_error(r, status, 0,
				 "there is no namespace of that name: create it first");
	else if (status == LARDER_QUOTA)
		node_reply_error(r, status, 0,
				 "the node's directory of namespaces is full: remove some");
	else if (status == LARDER_BAD_REQUEST)
		node_reply_error(r, status, 0, "%s",
				 r->session->viewer ?
				 "a viewer names a namespace as tenant:name" :
				 "a namespace's name has 1 to 128 bytes, and no ':'");
	else
		node_reply_status(r, status);
}

void node_op_ns_open(struct request *r)
{
	struct larder_node *n = session_node(r->session);
	const struct wire_ns_open *o = &r->wire.u.ns_open;
	bool create = r->opcode == LARDER_OP_NS_CREATE;
	struct wire_ns_opened opened = { 0 };
	const struct namespace_record *rec;
	const char *field = NULL;
	struct ns_name name;
	uint32_t before = UINT32_MAX;
	int status = ns_name_resolve(r, &name);

	if (status != LARDER_OK) {
		ns_open_refuse(r, status, NULL);
		return;
	}
	if (create && engine_namespace_open(n->engine, name.tenant, name.name, name.len, NULL,
					    false, &before, &field) != LARDER_OK)
		before = UINT32_MAX;
	status = engine_namespace_open(n->engine, name.tenant, name.name, name.len,
				       o->has_descriptor ? &o->descriptor : NULL, create,
				       &opened.ns, &field);
	if (status != LARDER_OK) {
		ns_open_refuse(r, status, field);
		return;
	}
	rec = engine_namespace(n->engine, name.tenant, r->session->viewer, opened.ns);
	if (!rec) {
		ns_open_refuse(r, LARDER_NOT_FOUND, NULL);
		return;
	}
	opened.flags = create && before == UINT32_MAX;
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

	if (r->session->viewer) {
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
	e.name_len = len;
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
			engine_namespace(n->engine, r->op.tenant, r->session->viewer, at);

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

void node_op_ns_flush(struct request *r)
{
	const struct wire_ns_flush *f = &r->wire.u.ns_flush;

	if (!engine_namespace(session_node(r->session)->engine, r->op.tenant, false, f->ns)) {
		node_reply_error(r, LARDER_NOT_FOUND, 0,
				 "there is no namespace %u for this session: open it by name",
				 f->ns);
		return;
	}
	r->op.ns = f->ns;
	r->op.flags = f->flags & LARDER_F_FORCE;
	node_request_submit(r, &r->op, flush_done);
}
