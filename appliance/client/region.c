/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions inside the core: which memory is direct, and what this connection's node knows of it.
 *
 * A region is made known lazily, by the first call that needs it, and anew on each connection: its
 * state is that of the connection whose epoch it carries. A region that the transport or the node
 * refuses is no error: its buffers go through the bounce.
 */
#include <errno.h>
#include <string.h>

#include <larder/probes.h>

#include "base/log.h"
#include "client/conn.h"
#include "client/memory.h"

#define REGION_DEL_NS (1000 * NSEC_PER_MSEC)	/* how long a node may take to let one go */

static bool range_overlaps(uintptr_t a, uintptr_t a_end, uintptr_t b, uintptr_t b_end)
{
	return a < b_end && b < a_end;
}

static bool region_holds(const struct larder_region *r, const void *addr, size_t len)
{
	uintptr_t base = (uintptr_t)r->addr, at = (uintptr_t)addr;

	return at >= base && at - base <= r->size && len <= r->size - (at - base);
}

static bool region_detached(const struct larder_region *r, size_t page)
{
	return r->detached[page / 64] & 1ull << page % 64;
}

static bool region_lost(const struct larder_region *r, const void *addr, size_t len)
{
	size_t at = (size_t)((const uint8_t *)addr - r->addr);

	if (!r->n_detached || !len)
		return false;
	for (size_t page = at / r->page; page <= (at + len - 1) / r->page; page++) {
		if (region_detached(r, page))
			return true;
	}
	return false;
}

struct larder_region *region_find(struct core *core, const void *addr, size_t len)
{
	list_for_each(it, &core->regions) {
		struct larder_region *r = list_entry(it, struct larder_region, link);

		if (region_holds(r, addr, len))
			return r->closed || region_lost(r, addr, len) ? NULL : r;
	}
	return NULL;
}

/* --- making it known ------------------------------------------------------------------------- */

static int region_add_encode(struct call *call, struct wire_writer *w)
{
	struct larder_region *r = call->job->user;
	struct wire_region_add add = {
		.region = r->number,
		.opaque_len = r->opaque_len,
		.size_bytes = region_bytes(r),
	};
	int len;

	wire_append(w, &add, sizeof(add));
	wire_append(w, r->opaque, r->opaque_len);
	len = wire_finish(w, LARDER_OP_REGION_ADD, 0, 0, call_id(call), 0);
	if (len < 0)
		return len;
	call->message_len = (uint32_t)len;
	return 0;
}

static void region_no_reply(struct call *call, const struct wire_reply *r)
{
}

static void region_transport_del(struct larder_region *r)
{
	struct transport_region *tr = TAKE_PTR(r->tr);

	if (tr)
		(void)tr->transport->ops->region_del(tr);	/* ours: what could refuse? */
}

static void region_added(struct job *job)
{
	struct larder_region *r = job->user;
	struct core *core = job->core;

	core->kick = true;
	if (job->status == LARDER_OK && r->tr) {
		r->state = REGION_KNOWN;
		larder_probe2(client_region_add, r->number, r->size);
		return;
	}
	if (r->epoch == job->epoch && r->state == REGION_ADDING) {
		r->state = REGION_REFUSED;
		r->refusal = job->status;
		log_warning(&core->log, "a region of %zu bytes is not direct: %s", r->size,
			    job->text);
	}
	region_transport_del(r);
}

static int region_add(struct conn *conn, struct larder_region *r)
{
	const struct transport_ops *ops = conn->tc->transport->ops;
	struct core *core = conn->core;
	size_t len = sizeof(r->opaque);
	int k;

	k = ops->region_add(conn->tc, r->addr, region_bytes(r), r->fd, 0, r->opaque, &len, &r->tr);
	if (k < 0)
		r->tr = NULL;
	if (k == -ENOBUFS)
		return -EAGAIN;	/* its queue is full of what we sent: after the next answer */
	if (k < 0)
		return k;
	r->opaque_len = (uint32_t)len;
	r->number = ++core->region_number;
	r->state = REGION_ADDING;
	job_init_one(&r->job, LARDER_OP_REGION_ADD, 0);
	r->job.control_plane = true;
	r->job.epoch = conn->epoch;
	r->job.deadline_ns = core->now_ns + core->connect_timeout_ns;
	r->job.encode = region_add_encode;
	r->job.reply = region_no_reply;
	r->job.finished = region_added;
	r->job.user = r;
	core_submit(core, &r->job);
	return -EAGAIN;
}

int region_know(struct conn *conn, struct larder_region *r)
{
	int k;

	if (r->epoch != conn->epoch) {
		r->epoch = conn->epoch;
		r->state = REGION_UNKNOWN;
		r->tr = NULL;
	}
	switch (r->state) {
	case REGION_KNOWN:
		return 0;
	case REGION_ADDING:
		return -EAGAIN;
	case REGION_REFUSED:
		return r->refusal;
	default:
		break;
	}
	k = region_add(conn, r);
	if (k == -EAGAIN)
		return k;
	r->state = REGION_REFUSED;
	r->refusal = k;
	return k;
}

void regions_drop(struct conn *conn)
{
	list_for_each(it, &conn->core->regions) {
		struct larder_region *r = list_entry(it, struct larder_region, link);

		if (r->epoch != conn->epoch)
			continue;
		if (r->state == REGION_KNOWN)
			larder_probe2(client_region_del, r->number, r->size);
		if (conn->tc)
			region_transport_del(r);
		r->tr = NULL;
		r->state = REGION_UNKNOWN;
	}
	list_for_each(it, &conn->arenas)
		arena_forget(conn, it);
}

/* --- forgetting ------------------------------------------------------------------------------ */

static int region_del_encode(struct call *call, struct wire_writer *w)
{
	struct larder_region *r = call->job->user;
	struct wire_region_del del = { .region = r->number };
	int len;

	wire_append(w, &del, sizeof(del));
	len = wire_finish(w, LARDER_OP_REGION_DEL, 0, 0, call_id(call), 0);
	if (len < 0)
		return len;
	call->message_len = (uint32_t)len;
	return 0;
}

static void region_deleted(struct job *job)
{
	struct larder_region *r = job->user;
	struct job *waiter = TAKE_PTR(r->waiter);

	/* whatever the node said: its transfers have drained, or it is frozen or gone */
	if (r->state == REGION_KNOWN)
		larder_probe2(client_region_del, r->number, r->size);
	region_transport_del(r);
	r->state = REGION_UNKNOWN;
	if (waiter)
		job_finish(waiter, LARDER_OK);
}

void region_forget(struct core *core, struct larder_region *r, struct job *waiter)
{
	struct conn *conn = core->conn;

	if (!conn || conn->state != CONN_READY || r->epoch != conn->epoch ||
	    r->state != REGION_KNOWN) {
		if (waiter)
			job_finish(waiter, LARDER_OK);
		return;
	}
	r->waiter = waiter;
	job_init_one(&r->job, LARDER_OP_REGION_DEL, 0);
	r->job.control_plane = true;
	r->job.epoch = conn->epoch;
	r->job.deadline_ns = core->now_ns + REGION_DEL_NS;
	r->job.encode = region_del_encode;
	r->job.reply = region_no_reply;
	r->job.finished = region_deleted;
	r->job.user = r;
	core_submit(core, &r->job);
}

/* --- use ------------------------------------------------------------------------------------- */

static bool iov_touches(const struct iovec *iov, int n, uintptr_t from, uintptr_t to)
{
	for (int i = 0; i < n; i++) {
		uintptr_t at = (uintptr_t)iov[i].iov_base;

		if (iov[i].iov_len && range_overlaps(at, at + iov[i].iov_len, from, to))
			return true;
	}
	return false;
}

static bool batch_touches(const struct larder_batch *b, uintptr_t from, uintptr_t to)
{
	if (b->opcode != LARDER_OP_GET && b->opcode != LARDER_OP_PUT)
		return false;
	for (uint32_t i = 0; i < b->n_items; i++) {
		if (b->items[i].status == -1 &&
		    iov_touches(b->items[i].iov, b->items[i].iovcnt, from, to))
			return true;
	}
	return false;
}

bool region_in_use(struct core *core, const struct larder_region *r)
{
	uintptr_t from = (uintptr_t)r->addr, to = from + r->size;

	if (r->epoch && core->conn && r->epoch == core->conn->epoch && r->state == REGION_ADDING)
		return true;
	list_for_each(it, &core->jobs) {
		const struct job *job = list_entry(it, struct job, link);

		if (job->kind == JOB_BATCH && batch_touches(job->batch, from, to))
			return true;
		if (job->kind == JOB_ONE && iov_touches(job->iov, job->iovcnt, from, to))
			return true;
	}
	return false;
}

/* --- loss ------------------------------------------------------------------------------------ */

/* Calls whose bytes the node writes to pages that we can no longer see. */
static void region_taint(struct core *core, uintptr_t from, uintptr_t to)
{
	for (uint32_t i = 0; i < CORE_DEPTH; i++) {
		struct call *call = &core->calls[i];

		if (call->state != CALL_FREE && call->job && call->opcode == LARDER_OP_GET &&
		    !call->bounced && iov_touches(call->iov, call->iovcnt, from, to))
			call->tainted = true;
	}
}

static void region_detach(struct larder_region *r, size_t page, size_t end)
{
	for (; page < end; page++) {
		r->detached[page / 64] |= 1ull << page % 64;
		r->n_detached++;
	}
}

/* Pages that were detached before are private already: another mapping of the file would bring the
 * old bytes of their neighbours back. */
static int region_lose_pages(struct core *core, struct larder_region *r, uintptr_t lost,
			     uintptr_t lost_end)
{
	uintptr_t base = (uintptr_t)r->addr;
	size_t page = (lost - base) / r->page, last = (lost_end - 1 - base) / r->page;

	while (page <= last) {
		size_t end = page + 1;
		int k;

		if (region_detached(r, page)) {
			page = end;
			continue;
		}
		while (end <= last && !region_detached(r, end))
			end++;
		k = mapping_replace(r, base + page * r->page, base + end * r->page, lost,
				    lost_end);
		if (k < 0)
			return k;
		region_detach(r, page, end);
		region_taint(core, base + page * r->page, base + end * r->page);
		page = end;
	}
	return mapping_own(r, lost, lost_end);
}

int region_lose(struct core *core, const void *addr, size_t len)
{
	list_for_each(it, &core->regions) {
		struct larder_region *r = list_entry(it, struct larder_region, link);

		if (r->fd >= 0 && len && region_holds(r, addr, len))
			return region_lose_pages(core, r, (uintptr_t)addr, (uintptr_t)addr + len);
	}
	return -ENOENT;
}
