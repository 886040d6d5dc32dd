/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synchronous calls on one key or a list of them: a batch on the caller's stack.
 */
#include <errno.h>
#include <string.h>

#include "client/handle.h"

LARDER_PUBLIC int larder_run(struct larder_client *c, struct larder_batch *b)
{
	struct waiter w;
	int r = handle_check(c);

	if (r < 0)
		return r;
	r = job_init_batch(&w.job, b);
	if (r < 0) {
		handle_error(w.job.text);
		return r;
	}
	w.job.deadline_ns = handle_deadline(c, b->deadline_ms);
	return handle_call(c, &w);
}

/* One key. The status of its item, so that EXISTS_SAME is told. */
static int sync_one(struct larder_client *c, struct larder_batch *b, struct larder_item *item)
{
	int r;

	b->items = item;
	b->n_items = 1;
	r = larder_run(c, b);
	return r < 0 ? r : item->status;
}

LARDER_PUBLIC int larder_put(struct larder_client *c, uint32_t ns, const void *key, size_t key_len,
			     const void *value, size_t len, uint32_t deadline_ms)
{
	struct iovec iov = { (void *)value, len };	/* only read: iovec has no const */
	struct larder_item item = { .key = key, .key_len = key_len, .iov = &iov, .iovcnt = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_PUT, .ns = ns, .deadline_ms = deadline_ms };

	if (!value)
		return handle_refuse("there is no value");
	return sync_one(c, &b, &item);
}

LARDER_PUBLIC int larder_get(struct larder_client *c, uint32_t ns, const void *key, size_t key_len,
			     void *buffer, size_t room, size_t *ret_len, uint32_t deadline_ms)
{
	struct iovec iov = { buffer, room };
	struct larder_item item = { .key = key, .key_len = key_len, .iov = &iov, .iovcnt = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_GET, .ns = ns, .deadline_ms = deadline_ms };
	int r;

	if (!buffer && room)
		return handle_refuse("there is no buffer");
	r = sync_one(c, &b, &item);
	if (ret_len && (r == LARDER_OK || r == LARDER_TOO_SMALL))
		*ret_len = item.done_bytes;
	return r;
}

LARDER_PUBLIC int larder_exists(struct larder_client *c, uint32_t ns, const void *key,
				size_t key_len, uint32_t deadline_ms)
{
	struct larder_item item = { .key = key, .key_len = key_len };
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .ns = ns,
				  .deadline_ms = deadline_ms };

	return sync_one(c, &b, &item);
}

LARDER_PUBLIC int larder_stat(struct larder_client *c, uint32_t ns, const void *key,
			      size_t key_len, uint32_t flags, uint32_t deadline_ms,
			      struct larder_stat *ret)
{
	struct larder_item item = { .key = key, .key_len = key_len };
	struct larder_batch b = { .opcode = LARDER_OP_STAT, .ns = ns, .flags = flags,
				  .deadline_ms = deadline_ms };
	int r = sync_one(c, &b, &item);

	if (r == LARDER_OK && ret)
		*ret = item.stat;
	return r;
}

LARDER_PUBLIC int larder_delete(struct larder_client *c, uint32_t ns, const void *key,
				size_t key_len, uint32_t flags, uint32_t deadline_ms)
{
	struct larder_item item = { .key = key, .key_len = key_len };
	struct larder_batch b = { .opcode = LARDER_OP_DELETE, .ns = ns, .flags = flags,
				  .deadline_ms = deadline_ms };

	return sync_one(c, &b, &item);
}

/* --- PING ------------------------------------------------------------------------------------ */

static int ping_encode(struct call *call, struct wire_writer *w)
{
	struct wire_ping ping = { .token = call_id(call) };
	int len;

	wire_append(w, &ping, sizeof(ping));
	len = wire_finish(w, LARDER_OP_PING, 0, 0, call_id(call), 0);
	if (len < 0)
		return len;
	call->message_len = (uint32_t)len;
	return 0;
}

static void ping_reply(struct call *call, const struct wire_reply *r)
{
	if (r->u.ping.token != call_id(call))
		job_fault(call->job, "the node answered another ping");
}

LARDER_PUBLIC int larder_ping(struct larder_client *c, uint32_t deadline_ms)
{
	struct waiter w;
	int r = handle_check(c);

	if (r < 0)
		return r;
	job_init_one(&w.job, LARDER_OP_PING, 0);
	w.job.deadline_ns = handle_deadline(c, deadline_ms);
	w.job.encode = ping_encode;
	w.job.reply = ping_reply;
	return handle_call(c, &w);
}
