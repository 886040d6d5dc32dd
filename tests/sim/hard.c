/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moments that chance would find too rarely, made on purpose: all credits in use while large values
 * arrive, waiters of a writer, an object deleted under a reader that stands still, a crash in the
 * instant of an acknowledgement or in the middle of a value.
 */
#include "sim.h"

/* The key that has one of the largest values. */
static struct model_key *hard_key(struct world *w, const struct client *c)
{
	return &w->key[c->tenant * w->knobs.spaces * w->knobs.names];
}

/* Puts value 0 of the client's large key. False: there was no room. */
static bool hard_put(struct world *w, const struct client *c)
{
	struct model_key *k = hard_key(w, c);

	calm_one(w, LARDER_OP_DELETE, k, 0, LARDER_F_FORCE, 0);
	calm_one(w, LARDER_OP_PUT, k, 0, 0, 0);
	return !(k->set & SIM_ABSENT) || w->knobs.evicts;
}

/* More at once than there are credits: each one comes back, or one is lost for good. Large values
 * are on their way meanwhile: a credit comes back with the last byte. */
void hard_credits(struct world *w)
{
	for (uint32_t i = 0; i < w->knobs.clients; i++) {
		struct client *c = &w->client[i];

		(void)hard_put(w, c);
		for (uint32_t n = 0; n < w->knobs.credits + 3; n++) {
			struct op *op;

			if (n < 3) {
				op = calm_whole(w, c, hard_key(w, c));
			} else {
				op = calm_op(w, c, LARDER_OP_EXISTS);
				op_add(op, hard_key(w, c), 0);
			}
			(void)op_submit(op);
		}
		calm_wait(w, "as many operations as there are credits");
	}
}

/* Who waits for a writer is told as soon as it is done. */
void hard_waiters(struct world *w)
{
	struct client *c = &w->client[prng_below(&w->op_rng, w->knobs.clients)];
	struct client *o = calm_client(w, c->tenant);
	struct model_key *k = &w->key[c->tenant * w->knobs.spaces * w->knobs.names];
	struct larder_put_stream *s;
	bool commit = chance(&w->op_rng, 2);
	struct op *op;
	int r;

	/* waiting takes credits: with few of them the stream itself would wait for one */
	if (w->knobs.credits < 4 || k->set != SIM_ABSENT || k->value[0].length > 8 * w->knobs.page)
		return;
	world_sync_begin(c);
	r = larder_put_begin(c->c, c->ns[0], k->name, k->name_len, k->value[0].length, 0, &s);
	world_sync_end(c);
	if (r == LARDER_NO_SPACE && w->knobs.evicts)
		return;
	if (r)
		sim_fail(w, "put_begin: %s", larder_status_name(r));
	op = calm_op(w, o, LARDER_OP_GET);
	op->batch.flags = LARDER_F_WAIT;
	op_add(op, k, 0);
	(void)op_submit(op);
	op = calm_op(w, o, LARDER_OP_EXISTS);
	op->batch.flags = LARDER_F_WAIT;
	op_add(op, k, 0);
	(void)op_submit(op);
	if (k->set == SIM_ABSENT)
		k->set |= commit ? SIM_VALUE(0) : 0;
	for (struct item *it = k->pending; it; it = it->next)
		it->seen |= k->set;
	for (uint32_t i = 0; i < 20; i++)
		(void)world_turn(w);
	world_sync_begin(c);
	r = larder_put_part(s, 0, k->value[0].bytes, (size_t)k->value[0].length);
	if (r == 0)
		r = commit ? larder_put_commit(s) : larder_put_abort(s);
	world_sync_end(c);
	if (r)
		sim_fail(w, "a stream in the calm: %s: %s", larder_status_name(r),
			 larder_last_error());
	calm_wait(w, "those who waited for a writer");
}


static struct client *hard_other(struct world *w, const struct client *c)
{
	for (uint32_t i = 0; i < w->knobs.clients; i++)
		if (w->client[i].tenant == c->tenant && i != c->index)
			return &w->client[i];
	return NULL;
}

static uint64_t hard_free_pages(struct world *w)
{
	struct larder_node_stats s;

	larder_node_get_stats(w->node, &s);
	return s.pages_free;
}

/* A reader stands still, and its object is deleted: the pages stay until the last byte left. */
void hard_reader(struct world *w)
{
	struct client *c = &w->client[prng_below(&w->op_rng, w->knobs.clients)];
	struct client *o = hard_other(w, c);
	struct model_key *k = hard_key(w, c);
	struct op *read, *op;
	uint64_t pages;

	/* less would fit into what is under way between the two */
	if (!o || w->knobs.evicts || k->value[0].length <= LOOP_RING_BYTES + w->knobs.page ||
	    !hard_put(w, c))
		return;
	calm_rest(w);
	read = calm_whole(w, c, k);
	(void)op_submit(read);
	(void)world_step_client(c);
	c->slow_until_ns = UINT64_MAX;
	for (uint32_t i = 0; i < 20; i++)
		(void)world_turn(w);
	pages = hard_free_pages(w);
	op = calm_op(w, o, LARDER_OP_DELETE);
	op->batch.flags = LARDER_F_FORCE;
	op_add(op, k, 0);
	(void)op_submit(op);
	for (uint32_t i = 0; i < 40; i++)
		(void)world_turn(w);
	if (op->kind != OP_NONE)
		sim_fail(w, "a DELETE waits for a reader");
	if (hard_free_pages(w) != pages)
		sim_fail(w, "%" PRIu64 " pages came free under a reader", hard_free_pages(w) -
			 pages);
	c->slow_until_ns = 0;
	calm_wait(w, "a reader whose object was deleted");
}

/* --- crashes --------------------------------------------------------------------------------- */

void hard_come_back(struct world *w)
{
	uint64_t until = w->now_ns + calm_bound(w);

	if (chance(&w->op_rng, 2))
		w->boot_gap_ns = between(&w->op_rng, 1100, 4000) * NSEC_PER_MSEC;
	while (!w->node || w->n_ops) {
		(void)world_turn(w);
		if (w->now_ns > until + w->boot_gap_ns)
			sim_fail(w, "%u operations do not end after a crash", w->n_ops);
	}
	for (uint32_t i = 0; i < w->knobs.clients; i++)
		calm_connect(w, &w->client[i]);
	calm_rest(w);
	model_barrier(w);
}

/* The node dies while the largest value arrives: afterwards it is there whole, or not at all. */
static void hard_crash_midway(struct world *w, struct client *c)
{
	struct model_key *k = hard_key(w, c);
	struct op *op;

	calm_one(w, LARDER_OP_DELETE, k, 0, LARDER_F_FORCE, 0);
	op = calm_op(w, c, LARDER_OP_PUT);
	op->calm = false;
	op->excused = true;
	op_add(op, k, 0);
	(void)op_submit(op);
	for (uint64_t n = between(&w->op_rng, 1, 6); n > 0 && op->kind != OP_NONE; n--)
		(void)world_turn(w);
	host_die(w);
	hard_come_back(w);
}

/* ... and in the instant in which a client reads that something is done. A lease holds over it. */
void hard_crash(struct world *w)
{
	struct client *c = &w->client[prng_below(&w->op_rng, w->knobs.clients)];
	struct model_key *k = &w->key[prng_below(&w->op_rng, w->n_keys)];
	struct model_key *leased = &w->key[prng_below(&w->op_rng, w->n_keys)];

	hard_crash_midway(w, c);
	calm_one(w, LARDER_OP_DELETE, k, 0, LARDER_F_FORCE, 0);
	calm_one(w, LARDER_OP_EXISTS, leased, 0, LARDER_F_LEASE, w->knobs.lease_max_ms);
	calm_one(w, LARDER_OP_PUT, k, 1, 0, 0);
	host_die(w);
	hard_come_back(w);
	calm_get(w, k);
	calm_one(w, LARDER_OP_DELETE, leased, 0, 0, 0);
}
