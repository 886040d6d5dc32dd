/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on lists of keys (EXISTS, LEASE, RELEASE, PIN, UNPIN, DELETE, STAT) and the listing.
 * Keys, their results and stats live in the request's scratch; the answer to STAT is the longest,
 * so its keys are limited by the message.
 */
#include <string.h>

#include "base/compiler.h"
#include "node/session.h"
#include "wire/encode.h"

/* Decodes the list of keys into the scratch. False: it was refused. */
static bool keys_decode(struct request *r, uint32_t max)
{
	int n;

	r->op.keys = (struct larder_op_key *)r->scratch;
	n = wire_keys_decode(&r->wire, r->op.keys, max);
	if (n < 0) {
		node_reply_error(r, LARDER_BAD_REQUEST, max,
				 "%s: %u keys in one message, at most %u fit: send several",
				 wire_op_info(r->opcode)->name, r->wire.u.keys.n_keys, max);
		return false;
	}
	r->op.n_keys = (uint32_t)n;
	return true;
}

static void keys_reply(struct request *r)
{
	struct wire_keys_done done = { .n_keys = r->op.n_keys, .leading_run = r->op.leading_run,
				       .lease_ms = r->op.lease_ms };
	struct wire_writer w;

	if (r->op.status != LARDER_OK && r->op.status != LARDER_NOT_FOUND) {
		node_reply_status(r, r->op.status);
		return;
	}
	node_reply_begin(r, &w);
	wire_append(&w, &done, sizeof(done));
	for (uint32_t i = 0; i < r->op.n_keys; i++) {
		const struct wire_key_status st = { .status = r->op.keys[i].status,
						    .presence = r->op.keys[i].presence };

		wire_append(&w, &st, sizeof(st));
	}
	node_reply_finish(r, &w, r->op.status, 0);
}

static bool keys_lease(const struct request *r)
{
	return r->opcode == LARDER_OP_LEASE ||
	       (r->opcode == LARDER_OP_EXISTS &&
		(r->op.flags & (LARDER_F_LEASE | LARDER_F_FILL)));
}

void node_op_keys(struct request *r)
{
	const struct wire_keys *k = &r->wire.u.keys;
	struct larder_node *n = session_node(r->session);

	if (keys_lease(r)) {
		if (r->session->viewer) {
			node_reply_error(r, LARDER_DENIED, 0, "the role viewer takes no lease");
			return;
		}
		if (node_draining(n)) {
			node_reply_status(r, LARDER_DRAINING);
			return;
		}
		r->op.lease_ms = MIN(k->lease_ms, n->config.lease_max_ms);
	}
	r->op.lease_id = k->lease_id;
	if (!keys_decode(r, WIRE_KEYS_MAX))
		return;
	node_request_submit(r, &r->op, keys_reply);
}

static void stat_reply(struct request *r)
{
	struct wire_stats_done done = { .n_keys = r->op.n_keys };
	struct wire_writer w;

	if (r->op.status != LARDER_OK && r->op.status != LARDER_NOT_FOUND) {
		node_reply_status(r, r->op.status);
		return;
	}
	node_reply_begin(r, &w);
	wire_append(&w, &done, sizeof(done));
	for (uint32_t i = 0; i < r->op.n_keys; i++) {
		const struct wire_stat st = { .status = r->op.keys[i].status,
					      .stat = r->op.stats[i] };

		wire_append(&w, &st, sizeof(st));
	}
	node_reply_finish(r, &w, r->op.status, 0);
}

void node_op_stat(struct request *r)
{
	uint32_t room = r->session->max_message - WIRE_HEADER_SIZE -
			(uint32_t)sizeof(struct wire_stats_done);
	uint32_t max = room / (uint32_t)sizeof(struct wire_stat); /* WIRE_STAT_KEYS_MAX or less */
	size_t keys = ALIGN_UP(max * sizeof(struct larder_op_key), (size_t)8);

	if (!keys_decode(r, max))
		return;
	static_assert((WIRE_STAT_KEYS_MAX + 1) *
		      (sizeof(struct larder_op_key) + sizeof(struct larder_stat)) <=
		      REQUEST_SCRATCH, "keys and stats of one message");
	r->op.stats = (struct larder_stat *)(r->scratch + keys);
	memset(r->op.stats, 0, r->op.n_keys * sizeof(*r->op.stats));
	node_request_submit(r, &r->op, stat_reply);
}

/* --- LIST ------------------------------------------------------------------------------------ */

/* A listing under way: lives on the stack, because the engine does not park a LIST. */
struct listing {
	struct wire_writer w;
	uint32_t count;
};

static bool list_entry_add(void *user, const void *key, size_t key_len,
			   const struct larder_stat *st)
{
	struct listing *l = user;
	const struct wire_list_entry e = { .stat = *st, .key_len = (uint32_t)key_len };

	if (wire_room(&l->w) < sizeof(e) + key_len)
		return false;
	wire_append(&l->w, &e, sizeof(e));
	wire_append(&l->w, key, (uint32_t)key_len);
	l->count++;
	return true;
}

static void list_done(struct request *r)
{
	struct listing *l = r->op.list_user;
	const struct wire_listed listed = { .cursor = r->op.cursor, .count = l->count };

	if (r->op.status != LARDER_OK) {
		node_reply_status(r, r->op.status);
		return;
	}
	/* written last, because it counts what follows it */
	wire_patch(&l->w, 0, &listed, sizeof(listed));
	node_reply_finish(r, &l->w, LARDER_OK, 0);
}

void node_op_list(struct request *r)
{
	const struct wire_list *w = &r->wire.u.list;
	const struct wire_listed nothing = { 0 };
	struct listing l = { .count = 0 };

	r->reply = r->scratch;	/* the prefix stays readable in the message */
	wire_begin(&l.w, r->scratch, r->session->max_message);
	wire_append(&l.w, &nothing, sizeof(nothing));
	r->key.key = r->wire.tail;
	r->key.key_len = (uint16_t)w->prefix_len;
	r->op.keys = &r->key;
	r->op.n_keys = w->prefix_len > 0;
	r->op.cursor = w->cursor;
	r->op.max = w->max ? w->max : UINT32_MAX;
	r->op.list = list_entry_add;
	r->op.list_user = &l;
	node_request_submit(r, &r->op, list_done);
}
