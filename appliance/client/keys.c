/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are lists of keys: EXISTS, LEASE, RELEASE, PIN, UNPIN, STAT, DELETE. As many keys
 * as fit go into one message; the node answers with a status per key.
 */
#include <errno.h>
#include <string.h>

#include "client/conn.h"

/* How many items from @first on fit into one message. */
uint32_t keys_fit(struct job *job, uint32_t first, uint32_t max_message)
{
	const struct larder_batch *b = job->batch;
	uint32_t room = MIN(max_message, WIRE_MESSAGE_MAX) - WIRE_HEADER_SIZE -
			(uint32_t)sizeof(struct wire_keys);
	uint32_t max = WIRE_KEYS_MAX, n = 0;

	if (b->opcode == LARDER_OP_STAT)	/* the answer is what has to fit */
		max = (MIN(max_message, WIRE_MESSAGE_MAX) - WIRE_HEADER_SIZE -
		       (uint32_t)sizeof(struct wire_stats_done)) /
		      (uint32_t)sizeof(struct wire_stat);
	while (n < max && first + n < b->n_items) {
		uint32_t need = (uint32_t)(sizeof(uint16_t) + b->items[first + n].key_len);

		if (need > room)
			break;
		room -= need;
		n++;
	}
	return n;
}

int keys_encode(struct call *call, struct wire_writer *w)
{
	const struct larder_batch *b = call->job->batch;
	struct name *name = name_find(call->core, b->ns);
	struct wire_keys keys;
	bool last = call->first + call->n_items >= b->n_items;
	int len;

	if (!name) {
		job_text(call->job, LARDER_BAD_REQUEST, "namespace %u was not opened here", b->ns);
		return LARDER_BAD_REQUEST;
	}
	if (name->refusal)
		return name->refusal;
	keys = (struct wire_keys){
		.c = call_common(call, name->remote, call_flags(call)),
		.lease_id = b->lease_id,
		.lease_ms = b->lease_ms,
		.n_keys = call->n_items,
	};
	wire_append(w, &keys, sizeof(keys));
	for (uint32_t i = 0; i < call->n_items; i++) {
		const struct larder_item *item = &b->items[call->first + i];

		wire_append_key(w, item->key, (uint16_t)item->key_len);
	}
	len = wire_finish(w, call->opcode, last ? WIRE_LAST : 0, 0, call_id(call), 0);
	if (len < 0)
		return len;
	call->message_len = (uint32_t)len;
	return 0;
}

int reply_status(struct call *call, const struct wire_reply *r)
{
	int status = r->header.status;

	/* we asked for an end: the caller is told why we did */
	if ((status == LARDER_CANCELLED || status == LARDER_DEADLINE) && call->end_status)
		return call->end_status;
	if (call->job && r->is_error && r->tail_len)
		job_text(call->job, status, "%.*s", (int)MIN(r->tail_len, CORE_TEXT_SIZE - 1),
			 (const char *)r->tail);
	return status;
}

static int keys_item(struct larder_item *item, const struct wire_reply *r, uint32_t i)
{
	struct wire_key_status ks;
	struct wire_stat st;

	if (r->header.op != LARDER_OP_STAT) {
		memcpy(&ks, r->tail + i * sizeof(ks), sizeof(ks));
		item->presence = ks.presence;
		return ks.status;
	}
	memcpy(&st, r->tail + i * sizeof(st), sizeof(st));
	if (st.status == LARDER_OK)
		item->stat = st.stat;
	return (int)st.status;
}

/* Status of each key; the caller's memory was copied into the message, so nothing is waited for. */
static void keys_items(struct call *call, const struct wire_reply *r)
{
	struct job *job = TAKE_PTR(call->job);
	uint32_t first = call->first, n = call->n_items;

	for (uint32_t i = 0; i < n; i++) {
		struct larder_item *item = &job->batch->items[first + i];
		int status = keys_item(item, r, i);

		if (status >= LARDER_STATUS_COUNT)
			status = LARDER_INTERNAL;
		job_item_done(job, first + i, status);
	}
}

int keys_reply(struct call *call, const struct wire_reply *r)
{
	uint32_t n = call->opcode == LARDER_OP_STAT ? r->u.stats_done.n_keys
						    : r->u.keys_done.n_keys;

	if (r->is_error) {
		call_result(call, reply_status(call, r));
		return 0;
	}
	if (!call->n_items) {
		call_result(call, r->header.status);
		return 0;
	}
	if (n != call->n_items) {
		call_result(call, LARDER_INTERNAL);
		return -EPROTO;
	}
	keys_items(call, r);
	call_result(call, 0);
	return 0;
}
