/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces and tenants that end, in the calm: a retired one is empty, its id leads nowhere, also
 * after another one was made; of a purged tenant nothing is left and nobody else misses anything.
 */
#include "sim.h"

#define SPACES_NEW "space-new"

static struct client *spaces_other(struct world *w, struct client *c)
{
	for (uint32_t i = 0; i < w->knobs.clients; i++)
		if (w->client[i].tenant == c->tenant && i != c->index)
			return &w->client[i];
	return NULL;
}

/* False: something in it is leased or pinned. */
static bool spaces_retire_one(struct world *w, struct client *c, uint32_t space, bool force)
{
	struct op op = { .w = w, .client = c->index, .opcode = LARDER_OP_NS_RETIRE,
			 .number = ++w->op_number };
	uint64_t objects, bytes;
	bool held = false;
	int status;

	for (uint32_t i = 0; i < w->knobs.names; i++) {
		op_add(&op, &w->key[(c->tenant * w->knobs.spaces + space) * w->knobs.names + i],
		       0);
		op.item[i].effect = (struct effect){ .deletes = true, .forced = force };
	}
	op_begin_call(&op);
	world_sync_begin(c);
	status = larder_ns_retire(c->c, c->ns[space], force, 0, &objects, &bytes);
	world_sync_end(c);
	for (uint32_t i = 0; i < op.n; i++)
		held |= model_maybe_leased(w, &op.item[i]);
	if (status != LARDER_OK && !(status == LARDER_BUSY && !force && held))
		sim_fail(w, "NS_RETIRE: %s: %s", larder_status_name(status), larder_last_error());
	op_end_call(&op, status, status == LARDER_OK ? SIM_ABSENT : 0);
	return status == LARDER_OK;
}

/* Its id belongs to nothing: what is put elsewhere is not met by who still has it. */
static void spaces_old_id(struct world *w, struct client *c, struct client *o, uint32_t space)
{
	struct model_key *k = &w->key[(c->tenant * w->knobs.spaces + space) * w->knobs.names];
	uint64_t objects, bytes;
	struct op *op;
	uint32_t ns;
	int r;

	world_sync_begin(c);
	r = larder_ns_open(c->c, SPACES_NEW, NULL, LARDER_NS_CREATE, 0, &ns);
	if (r == 0)
		r = larder_put(c->c, ns, k->name, k->name_len, "new", 3, 0);
	world_sync_end(c);
	if (r != 0 && !(r == LARDER_NO_SPACE && w->knobs.evicts))
		sim_fail(w, "a new namespace: %s: %s", larder_status_name(r), larder_last_error());
	op = calm_op(w, o, LARDER_OP_EXISTS);
	op_add(op, k, 0);
	calm_run(op, "EXISTS by the id of a retired namespace");
	if (op->items[0].presence != LARDER_ABSENT)
		sim_fail(w, "the id of a retired namespace leads to another one");
	world_sync_begin(c);
	r = larder_ns_retire(c->c, ns, true, 0, &objects, &bytes);
	world_sync_end(c);
	if (r != 0)
		sim_fail(w, "NS_RETIRE of a new namespace: %s: %s", larder_status_name(r),
			 larder_last_error());
}

/* Everybody opens it again. */
static void spaces_reopen(struct world *w, uint32_t tenant, uint32_t space)
{
	for (uint32_t i = 0; i < w->knobs.clients; i++) {
		struct client *c = &w->client[i];

		if (c->tenant == tenant)
			c->ns_open[space] = false;
		c->shared_open = false;
	}
	for (uint32_t i = 0; i < w->knobs.clients; i++)
		calm_connect(w, &w->client[i]);
	spaces_shared(w);
}

void spaces_shared(struct world *w)
{
	for (uint32_t i = 0; i < w->knobs.clients && w->knobs.shares; i++) {
		tenants_open_shared(w, &w->client[i]);
		if (!w->client[i].shared_open)
			sim_fail(w, "client %u does not get what is shared with it", i);
	}
}

static void spaces_retire(struct world *w)
{
	struct prng *r = &w->more_rng;
	struct client *c = &w->client[prng_below(r, w->knobs.clients)];
	struct client *o = spaces_other(w, c);
	uint32_t space = (uint32_t)prng_below(r, w->knobs.spaces);

	if (chance(r, 2))
		calm_one(w, LARDER_OP_PUT, &w->key[c->tenant * w->knobs.spaces * w->knobs.names],
			 0, 0, 0);
	if (!spaces_retire_one(w, c, space, chance(r, 2)))
		(void)spaces_retire_one(w, c, space, true);
	if (o)
		spaces_old_id(w, c, o, space);
	spaces_reopen(w, c->tenant, space);
}

static void spaces_purge(struct world *w)
{
	tenants_purge(w);
	tenants_finish(w);
	for (uint32_t i = 0; i < w->knobs.clients; i++)
		calm_connect(w, &w->client[i]);
	calm_rest(w);
	spaces_shared(w);
	for (uint32_t i = 0; i < w->n_keys; i++)
		calm_get(w, &w->key[i]);
}

void exact_spaces(struct world *w)
{
	if (chance(&w->more_rng, 3))
		spaces_retire(w);
	if (chance(&w->more_rng, 4))
		spaces_purge(w);
}
