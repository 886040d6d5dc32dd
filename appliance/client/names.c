/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces that callers have opened. A caller keeps its id for as long as the handle lives; what
 * the node calls the namespace may change (its memory was made anew), so each connection opens
 * every known name again, the same way as the caller did, before anything else goes out on it.
 *
 * A name that can not be opened again does not end the session: its refusal becomes the answer to
 * every request on it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "client/conn.h"

struct name *name_find(struct core *core, uint32_t local)
{
	list_for_each(it, &core->names) {
		struct name *n = list_entry(it, struct name, link);

		if (n->local == local)
			return n;
	}
	return NULL;
}

static struct name *name_by_text(struct core *core, const char *text)
{
	list_for_each(it, &core->names) {
		struct name *n = list_entry(it, struct name, link);

		if (!strcmp(n->text, text))
			return n;
	}
	return NULL;
}

static void name_take(struct name *n, const struct wire_ns_opened *opened)
{
	n->remote = opened->ns;
	n->descriptor = opened->descriptor;
	n->digest = larder_descriptor_digest(&opened->descriptor);
	n->opened = true;
	n->retired = false;
	n->refusal = 0;
}

void name_retired(struct name *n)
{
	n->retired = true;
	n->refusal = LARDER_NOT_FOUND;
}

struct name *name_opened(struct core *core, const char *text, bool create,
			 const struct wire_ns_opened *opened)
{
	struct name *n = name_by_text(core, text);
	uint32_t local = opened->ns;

	if (n) {
		n->create |= create;
		name_take(n, opened);
		return n;
	}
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	/* an id of another name from before the node's memory was made anew stays that name's */
	while (local == LARDER_NS_ANY || name_find(core, local))
		local = (local + 1) | 0x40000000u;
	memcpy(n->text, text, strnlen(text, sizeof(n->text) - 1));
	n->local = local;
	n->create = create;
	name_take(n, opened);
	list_push_tail(&core->names, &n->link);
	return n;
}

int name_encode(struct wire_writer *w, const char *text, const struct larder_descriptor *d,
		bool create, uint8_t admission, uint64_t request_id)
{
	struct wire_ns_open open = {
		.name_len = (uint16_t)strlen(text),
		.has_descriptor = d != NULL,
		.admission = admission,
	};

	if (d)
		open.descriptor = *d;
	wire_append(w, &open, sizeof(open));
	wire_append(w, text, open.name_len);
	return wire_finish(w, create ? LARDER_OP_NS_CREATE : LARDER_OP_NS_OPEN, 0, 0, request_id,
			   0);
}

/* --- after a reconnect ----------------------------------------------------------------------- */

static int name_reopen_encode(struct call *call, struct wire_writer *w)
{
	struct name *n = call->job->user;
	/* what was stored is what digests were computed from: anything else is another namespace */
	int len = name_encode(w, n->text, &n->descriptor, n->create, n->admission, call_id(call));

	if (len < 0)
		return len;
	call->message_len = (uint32_t)len;
	return 0;
}

static void name_reopen_reply(struct call *call, const struct wire_reply *r)
{
	struct name *n = call->job->user;

	if (n->remote != r->u.ns_opened.ns)
		log_notice(&call->core->log, "namespace %s has another id now", n->text);
	name_take(n, &r->u.ns_opened);
}

static void name_reopened(struct job *job)
{
	struct name *n = job->user;
	struct core *core = job->core;
	struct conn *conn = core->conn;

	if (!conn || conn->epoch != job->epoch || conn->state != CONN_REOPEN)
		return;		/* the next connection tries again */
	if (job->status == LARDER_DEADLINE || job->status == LARDER_DISCONNECTED ||
	    job->status == LARDER_THROTTLED) {
		conn_fail(conn, -ETIMEDOUT, "namespace %s could not be opened again", n->text);
		return;
	}
	if (job->status) {
		n->refusal = job->status;
		log_warning(&core->log, "namespace %s: %s: %s", n->text,
			    larder_status_name(job->status), job->text);
	}
	if (--conn->reopening == 0)
		conn_ready(conn);
}

bool names_reopen(struct core *core)
{
	struct conn *conn = core->conn;

	/* counted first: one that is refused on the spot must not be the last by accident */
	list_for_each(it, &core->names)
		conn->reopening += !list_entry(it, struct name, link)->retired;
	if (conn->reopening == 0)
		return true;
	list_for_each(it, &core->names) {
		struct name *n = list_entry(it, struct name, link);

		if (n->retired)
			continue;
		n->opened = false;
		n->refusal = 0;
		/* that of a connection that ended before its names were open may still wait */
		if (n->job.finished)
			job_end(&n->job, LARDER_DISCONNECTED);
		job_init_one(&n->job, n->create ? LARDER_OP_NS_CREATE : LARDER_OP_NS_OPEN, 0);
		n->job.control_plane = true;
		n->job.epoch = conn->epoch;
		n->job.deadline_ns = core->now_ns + core->connect_timeout_ns;
		n->job.encode = name_reopen_encode;
		n->job.reply = name_reopen_reply;
		n->job.finished = name_reopened;
		n->job.user = n;
		core_submit(core, &n->job);
	}
	return false;
}

void names_free(struct core *core)
{
	list_for_each_safe(it, &core->names) {
		struct name *n = list_entry(it, struct name, link);

		list_remove(&n->link);
		free(n);
	}
}
