/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on namespaces and lists of keys. A list's answer is copied as it came; the caller's own
 * thread walks it and calls the caller's function, so that nothing waits for that.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/handle.h"

static int space_sent(struct call *call, int len)
{
	if (len < 0)
		return len;
	call->message_len = (uint32_t)len;
	return 0;
}

/* --- open ------------------------------------------------------------------------------------ */

struct space_open {
	struct waiter w;
	const char *text;
	const struct larder_descriptor *d;
	bool create;
	uint8_t admission;
	uint32_t local;
};

static struct space_open *space_open_of(struct job *job)
{
	return container_of(job, struct space_open, w.job);
}

static int space_open_encode(struct call *call, struct wire_writer *w)
{
	struct space_open *o = space_open_of(call->job);

	return space_sent(call, name_encode(w, o->text, o->d, o->create, o->admission,
						     call_id(call)));
}

static void space_open_reply(struct call *call, const struct wire_reply *r)
{
	struct space_open *o = space_open_of(call->job);
	struct name *n = name_opened(call->core, o->text, o->create, &r->u.ns_opened);

	if (!n) {
		job_fault(call->job, "no memory for another namespace");
		return;
	}
	if (o->admission)
		n->admission = o->admission;
	o->local = n->local;
}

LARDER_PUBLIC int larder_ns_open(struct larder_client *c, const char *name,
				 const struct larder_descriptor *d, uint32_t flags,
				 uint32_t deadline_ms, uint32_t *ret_ns)
{
	struct space_open o = { .text = name, .d = d, .create = flags & LARDER_NS_CREATE };
	uint32_t admission = flags & (LARDER_NS_ADMIT_ALL | LARDER_NS_SECOND_TOUCH);
	size_t len = name ? strlen(name) : 0;
	int r = handle_check(c);

	if (r < 0)
		return r;
	if (!len || len > WIRE_NS_NAME_MAX)
		return handle_refuse("a namespace's name has 1 to %u bytes", WIRE_NS_NAME_MAX);
	if (!ret_ns || flags & ~(LARDER_NS_CREATE | admission))
		return handle_refuse(ret_ns ? "a flag is unknown" : "no place for the namespace");
	if (admission == (LARDER_NS_ADMIT_ALL | LARDER_NS_SECOND_TOUCH) ||
	    (admission && !o.create))
		return handle_refuse("one admission can be chosen, with LARDER_NS_CREATE");
	if (admission)
		o.admission = admission == LARDER_NS_ADMIT_ALL ? WIRE_ADMISSION_ALL
							      : WIRE_ADMISSION_SECOND_TOUCH;
	job_init_one(&o.w.job, o.create ? LARDER_OP_NS_CREATE : LARDER_OP_NS_OPEN, 0);
	o.w.job.deadline_ns = handle_deadline(c, deadline_ms);
	o.w.job.encode = space_open_encode;
	o.w.job.reply = space_open_reply;
	r = handle_call(c, &o.w);
	if (r == LARDER_OK)
		*ret_ns = o.local;
	return r;
}

struct space_descriptor {
	struct waiter w;
	uint32_t ns;
	struct larder_descriptor *ret;
};

static int space_descriptor_local(struct job *job)
{
	struct space_descriptor *s = container_of(job, struct space_descriptor, w.job);
	struct name *n = name_find(job->core, s->ns);

	if (!n)
		return LARDER_NOT_FOUND;
	*s->ret = n->descriptor;
	return LARDER_OK;
}

LARDER_PUBLIC int larder_ns_descriptor(struct larder_client *c, uint32_t ns,
				       struct larder_descriptor *ret)
{
	struct space_descriptor s = { .ns = ns, .ret = ret };
	int r = handle_check(c);

	if (r < 0)
		return r;
	if (!ret)
		return handle_refuse("no place for the descriptor");
	job_init_one(&s.w.job, 0, 0);
	s.w.job.kind = JOB_LOCAL;
	s.w.job.local = space_descriptor_local;
	return handle_call(c, &s.w);
}

static int space_fault(void)
{
	handle_error("the node's list makes no sense");
	return LARDER_INTERNAL;
}

/* --- lists ----------------------------------------------------------------------------------- */

/* One page of either list. */
struct space_page {
	struct waiter w;
	uint64_t cursor;
	uint32_t max;
	const void *prefix;
	uint32_t prefix_len;
	struct wire_reply reply;
	uint8_t *tail;		/* of the reply, copied */
};

static struct space_page *space_page_of(struct job *job)
{
	return container_of(job, struct space_page, w.job);
}

static void space_page_reply(struct call *call, const struct wire_reply *r)
{
	struct space_page *p = space_page_of(call->job);

	free(p->tail);
	p->tail = NULL;
	p->reply = *r;
	p->reply.tail = NULL;
	if (!r->tail_len)
		return;
	p->tail = malloc(r->tail_len);
	if (!p->tail) {
		job_fault(call->job, "no memory for a list");
		return;
	}
	memcpy(p->tail, r->tail, r->tail_len);
	p->reply.tail = p->tail;
}

static int space_names_encode(struct call *call, struct wire_writer *w)
{
	struct space_page *p = space_page_of(call->job);
	struct wire_ns_list list = { .cursor = p->cursor, .max = p->max };

	wire_append(w, &list, sizeof(list));
	return space_sent(call, wire_finish(w, LARDER_OP_NS_LIST, 0, 0, call_id(call), 0));
}

static int space_page_call(struct larder_client *c, struct space_page *p, uint64_t deadline_ns,
			   uint8_t opcode, uint32_t ns,
			   int (*encode)(struct call *call, struct wire_writer *w))
{
	job_init_one(&p->w.job, opcode, ns);
	p->w.job.deadline_ns = deadline_ns;
	p->w.job.encode = encode;
	p->w.job.reply = space_page_reply;
	return handle_call(c, &p->w);
}

/* Tells the names of one page. 1: the caller wants no more. */
static int space_names_tell(struct space_page *p,
			    bool (*fn)(void *user, const struct larder_ns_info *i), void *user)
{
	struct wire_ns_entry entry;
	const uint8_t *name;
	uint32_t pos = 0;
	int k;

	while ((k = wire_ns_entry_next(&p->reply, &pos, &entry, &name)) > 0) {
		struct larder_ns_info info = {
			.ns = entry.ns,
			.objects = entry.objects,
			.bytes = entry.bytes,
			.created_ms = entry.created_ms,
		};

		info.flags |= entry.flags & WIRE_NS_SECOND_TOUCH ? LARDER_NS_SECOND_TOUCH : 0;
		info.flags |= entry.flags & WIRE_NS_READ_ONLY ? LARDER_NS_READ_ONLY : 0;

		memcpy(info.name, name, MIN((size_t)entry.name_len, sizeof(info.name) - 1));
		if (!fn(user, &info))
			return 1;
	}
	return k;
}

LARDER_PUBLIC int larder_ns_list(struct larder_client *c,
				 bool (*fn)(void *user, const struct larder_ns_info *i),
				 void *user, uint32_t deadline_ms)
{
	struct space_page p = { .max = UINT32_MAX };
	uint64_t deadline_ns;
	int r = handle_check(c);

	if (r < 0)
		return r;
	if (!fn)
		return handle_refuse("there is no function to call");
	deadline_ns = handle_deadline(c, deadline_ms);
	do {
		r = space_page_call(c, &p, deadline_ns, LARDER_OP_NS_LIST, 0,
				    space_names_encode);
		if (r != LARDER_OK)
			break;
		r = space_names_tell(&p, fn, user);
		if (r < 0)
			r = space_fault();
		else if (r > 0 || !p.reply.u.ns_listed.cursor)
			p.reply.u.ns_listed.cursor = r = 0;
		p.cursor = p.reply.u.ns_listed.cursor;
	} while (r == LARDER_OK && p.cursor);
	free(p.tail);
	return r;
}

static int space_keys_encode(struct call *call, struct wire_writer *w)
{
	struct space_page *p = space_page_of(call->job);
	struct name *n = name_find(call->core, call->job->ns);
	struct wire_list list = {
		.cursor = p->cursor,
		.max = p->max,
		.prefix_len = p->prefix_len,
	};

	if (!n) {
		job_text(call->job, LARDER_BAD_REQUEST, "namespace %u was not opened here",
			 call->job->ns);
		return LARDER_BAD_REQUEST;
	}
	if (n->refusal)
		return n->refusal;
	list.c = call_common(call, n->remote, 0);
	wire_append(w, &list, sizeof(list));
	wire_append(w, p->prefix, p->prefix_len);
	return space_sent(call, wire_finish(w, LARDER_OP_LIST, WIRE_LAST, 0, call_id(call), 0));
}

LARDER_PUBLIC int larder_list(struct larder_client *c, uint32_t ns, const void *prefix,
			      size_t prefix_len, uint64_t *cursor, uint32_t max,
			      bool (*fn)(void *user, const void *key, size_t key_len,
					 const struct larder_stat *st),
			      void *user, uint32_t deadline_ms)
{
	struct space_page p = { .prefix = prefix, .prefix_len = (uint32_t)prefix_len };
	struct wire_list_entry entry;
	const uint8_t *key;
	uint32_t pos = 0;
	int r = handle_check(c), k;

	if (r < 0)
		return r;
	if (!cursor || !fn)
		return handle_refuse("there is no cursor, or no function to call");
	if (prefix_len > LARDER_KEY_MAX || (prefix_len && !prefix))
		return handle_refuse("a prefix has 0 to %u bytes", (unsigned)LARDER_KEY_MAX);
	p.cursor = *cursor;
	p.max = max ? max : UINT32_MAX;
	r = space_page_call(c, &p, handle_deadline(c, deadline_ms), LARDER_OP_LIST, ns,
			    space_keys_encode);
	if (r == LARDER_OK) {
		while ((k = wire_list_entry_next(&p.reply, &pos, &entry, &key)) > 0) {
			if (!fn(user, key, entry.key_len, &entry.stat))
				break;
		}
		if (k < 0)
			r = space_fault();
		else
			*cursor = p.reply.u.listed.cursor;
	}
	free(p.tail);
	return r;
}

/* --- flush and retire ------------------------------------------------------------------------ */

struct space_flush {
	struct waiter w;
	bool force;
	struct wire_ns_flushed done;
};

static int space_flush_encode(struct call *call, struct wire_writer *w)
{
	struct space_flush *f = container_of(call->job, struct space_flush, w.job);
	struct name *n = name_find(call->core, call->job->ns);
	struct wire_ns_flush flush = { .flags = f->force ? LARDER_F_FORCE : 0 };

	if (!n)
		return LARDER_BAD_REQUEST;
	if (n->refusal)
		return n->refusal;
	flush.ns = n->remote;
	wire_append(w, &flush, sizeof(flush));
	return space_sent(call, wire_finish(w, call->job->opcode, 0, 0, call_id(call), 0));
}

static void space_flush_reply(struct call *call, const struct wire_reply *r)
{
	struct name *n = name_find(call->core, call->job->ns);

	container_of(call->job, struct space_flush, w.job)->done = r->u.ns_flushed;
	if (n && call->job->opcode == LARDER_OP_NS_RETIRE)
		name_retired(n);
}

/* A flush that had to leave something: BUSY, as a DELETE of that would be. */
static int space_kept(const struct wire_ns_flushed *done)
{
	char text[160];

	(void)snprintf(text, sizeof(text), "%llu objects are leased or pinned hard and stay, %llu "
		       "are gone: release them, or force it", (unsigned long long)done->kept,
		       (unsigned long long)done->objects);
	handle_error(text);
	return LARDER_BUSY;
}

static int space_flush_call(struct larder_client *c, uint8_t opcode, uint32_t ns, bool force,
			    uint32_t deadline_ms, uint64_t *ret_objects, uint64_t *ret_bytes)
{
	struct space_flush f = { .force = force };
	int r = handle_check(c);

	if (r < 0)
		return r;
	job_init_one(&f.w.job, opcode, ns);
	f.w.job.deadline_ns = handle_deadline(c, deadline_ms);
	f.w.job.encode = space_flush_encode;
	f.w.job.reply = space_flush_reply;
	r = handle_call(c, &f.w);
	if (r == LARDER_OK && ret_objects)
		*ret_objects = f.done.objects;
	if (r == LARDER_OK && ret_bytes)
		*ret_bytes = f.done.bytes;
	return r == LARDER_OK && f.done.kept ? space_kept(&f.done) : r;
}

LARDER_PUBLIC int larder_ns_flush(struct larder_client *c, uint32_t ns, bool force,
				  uint32_t deadline_ms, uint64_t *ret_objects,
				  uint64_t *ret_bytes)
{
	return space_flush_call(c, LARDER_OP_NS_FLUSH, ns, force, deadline_ms, ret_objects,
				ret_bytes);
}

LARDER_PUBLIC int larder_ns_retire(struct larder_client *c, uint32_t ns, bool force,
				   uint32_t deadline_ms, uint64_t *ret_objects,
				   uint64_t *ret_bytes)
{
	return space_flush_call(c, LARDER_OP_NS_RETIRE, ns, force, deadline_ms, ret_objects,
				ret_bytes);
}
