/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fill leases: whoever was told FILL holds the key's, and nobody else is told so, until it ends: by
 * its time, with its holder's connection, by any PUT, DELETE or flush of the key, by RELEASE of its
 * id. The model keeps the ones that are certainly held.
 */
#include "sim.h"

static uint64_t fill_connection(const struct world *w, uint32_t client)
{
	struct larder_client_info info;

	if (!w->client[client].c)
		return UINT64_MAX;
	larder_get_info(w->client[client].c, &info);
	return info.connected ? info.reconnects : UINT64_MAX;
}

static void fill_drop(struct model_key *k, uint32_t i)
{
	k->fill[i] = k->fill[--k->n_fills];
}

void fill_ends(struct world *w, struct model_key *k, uint64_t id)
{
	for (uint32_t i = k->n_fills; i-- > 0;)
		if (!id || k->fill[i].id == id)
			fill_drop(k, i);
	k->fill_end_seq = w->seq;
}

void fill_ends_all(struct world *w)
{
	for (uint32_t i = 0; i < w->n_keys; i++)
		fill_ends(w, &w->key[i], 0);
}

void fill_look(struct world *w)
{
	if (!w->knobs.fills)
		return;
	for (uint32_t n = 0; n < w->n_keys; n++) {
		struct model_key *k = &w->key[n];

		for (uint32_t i = k->n_fills; i-- > 0;)
			if (w->now_ns >= k->fill[i].until_ns ||
			    k->fill[i].connection != fill_connection(w, k->fill[i].client))
				fill_drop(k, i);
	}
}

/* Does anything else that is under way end it, or did since @it began? */
static bool fill_in_doubt(const struct world *w, const struct item *it)
{
	const struct model_key *k = it->key;

	if (k->fill_end_seq >= it->op->start_seq || k->linger.puts || k->linger.deletes)
		return true;
	for (const struct item *o = k->pending; o; o = o->next)
		if (o->effect.puts || o->effect.deletes || o->op->opcode == LARDER_OP_PUT_BEGIN ||
		    o->op->opcode == LARDER_OP_RELEASE)
			return true;
	return false;
}

/* A connection may be over for the node before its client knows. And where records are short the
 * node takes fill leases back. There only the calm phase knows who holds what. */
static bool fill_sees(const struct knobs *k)
{
	const struct faults *f = &k->may;

	return !k->records_short && !f->breaks && !f->cuts && !f->crashes && !f->gaps && !f->slow &&
	       !f->purges && !f->splits;
}

void fill_taken(struct world *w, struct item *it)
{
	struct model_key *k = it->key;
	const struct op *op = it->op;
	uint64_t ms = op->lease_ms ? MIN(op->lease_ms, w->knobs.lease_max_ms)
				   : MIN(10000u, w->knobs.lease_max_ms);
	uint64_t until = op->start_ns + ms * NSEC_PER_MSEC;

	if (!fill_sees(&w->knobs))
		return;
	fill_look(w);
	for (uint32_t i = 0; i < k->n_fills; i++)
		if (k->fill[i].from_ns <= op->start_ns && k->fill[i].id != op->lease_id)
			sim_fail(w, "key %u of tenant %u: client %u holds its fill lease %" PRIu64
				 ", and operation %" PRIu64 " of client %u was told FILL", k->index,
				 k->tenant, k->fill[i].client, k->fill[i].id, op->number,
				 op->client);
	if (op_resent(op) || fill_in_doubt(w, it) ||
	    k->n_fills == SIM_FILLS || w->now_ns >= until)
		return;
	k->fill[k->n_fills++] = (struct fill){ op->lease_id, w->now_ns, until, op->client,
					       fill_connection(w, op->client) };
}

uint64_t fill_count(struct world *w)
{
	uint64_t sum = 0;

	for (uint32_t t = 0; t < w->knobs.tenants; t++) {
		struct larder_gauges g;
		struct larder_usage u;

		ledger_look(w, t, &u, &g);
		sum += g.fills;
	}
	return sum;
}
