/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants that leave the configuration, are purged or not, and come back, while the others work;
 * and what each shares with the next: its first namespace, for reading.
 *
 * Who was away finds its objects again, unless it was purged: then nothing is left, whatever was
 * leased or pinned. What its clients had under way is uncertain.
 */
#include "sim.h"

static void tenants_name(uint32_t t, char name[24])
{
	(void)snprintf(name, 24, "tenant-%u", t);
}

/* --- shared ---------------------------------------------------------------------------------- */

static void tenants_share(struct world *w, uint32_t t)
{
	struct larder_share share = { .ns = "space-0", .ns_len = 7 };
	char owner[24], reader[24];
	int r;

	if (!w->knobs.shares)
		return;
	tenants_name(t, owner);
	tenants_name((t + 1) % w->knobs.tenants, reader);
	share.reader = reader;
	r = larder_node_set_shares(w->node, owner, &share, 1);
	if (r < 0)
		sim_fail(w, "what %s shares: %s", owner, strerror(-r));
}

static uint32_t tenants_owner(const struct world *w, const struct client *c)
{
	return (c->tenant + w->knobs.tenants - 1) % w->knobs.tenants;
}

void tenants_open_shared(struct world *w, struct client *c)
{
	uint32_t owner = tenants_owner(w, c);
	char name[40];
	int r;

	if (!w->knobs.shares || c->shared_open || w->tenant[owner].gone)
		return;
	(void)snprintf(name, sizeof(name), "tenant-%u:space-0", owner);
	world_sync_begin(c);
	r = larder_ns_open(c->c, name, NULL, 0, 0, &c->shared);
	world_sync_end(c);
	world_trace(w, "ns_open", c->index, 99, (uint64_t)r);
	/* it is not there before its owner made it, or while the owner is away */
	c->shared_open = r == 0 && !w->tenant[owner].gone;
	if (r != 0 && r != LARDER_NOT_FOUND && r != LARDER_DENIED && r != LARDER_THROTTLED &&
	    !status_is_uncertain(r))
		sim_fail(w, "namespace %s: %s: %s", name, larder_status_name(r),
			 larder_last_error());
}

struct model_key *tenants_shared_key(struct world *w, const struct client *c)
{
	return &w->key[tenants_owner(w, c) * w->knobs.spaces * w->knobs.names +
		       prng_below(&w->more_rng, w->knobs.names)];
}

static void tenants_unshare(struct world *w, uint32_t owner)
{
	for (uint32_t i = 0; i < w->knobs.clients; i++)
		if (tenants_owner(w, &w->client[i]) == owner)
			w->client[i].shared_open = false;
}

bool tenants_not_shared(const struct item *it)
{
	const struct world *w = it->op->w;
	const struct tenant *owner = &w->tenant[it->key->tenant];

	return w->client[it->op->client].tenant != it->key->tenant &&
	       (owner->gone || owner->gone_seq >= it->op->start_seq);
}

/* --- away ------------------------------------------------------------------------------------ */

void tenants_purge(struct world *w)
{
	uint32_t t = (uint32_t)prng_below(&w->more_rng, w->knobs.tenants);
	struct tenant *one = &w->tenant[t];
	char name[24];
	int r;

	if (!w->node || w->doom.dead || one->gone)
		return;
	tenants_name(t, name);
	r = larder_node_tenant_remove(w->node, name);
	if (r < 0)
		sim_fail(w, "tenant_remove of %s: %s", name, strerror(-r));
	w->seq++;
	one->gone = true;
	one->purging = !chance(&w->more_rng, 3);
	one->back_ns = w->now_ns + between(&w->more_rng, 0, 300) * NSEC_PER_MSEC;
	one->limits.value[LARDER_LIMIT_guarantee_bytes] = 0;	/* it is given up */
	tenants_unshare(w, t);
	for (uint32_t i = 0; i < w->knobs.clients; i++)
		w->client[i].away |= w->client[i].tenant == t;
	if (one->purging)
		model_purge(w, t);
	limits_look(w);
	world_trace(w, "remove", t, one->purging, 0);
}

static void tenants_back(struct world *w, uint32_t t)
{
	struct tenant *one = &w->tenant[t];
	struct larder_limits l = one->limits;
	char name[24], secret[24];
	int r;

	tenants_name(t, name);
	(void)snprintf(secret, sizeof(secret), "secret-%u", t);
	r = larder_node_tenant_add(w->node, name, secret, strlen(secret), NULL, 0);
	if (r < 0)
		sim_fail(w, "tenant_add of %s again: %s", name, strerror(-r));
	w->seq++;
	one->gone = false;
	one->gone_seq = w->seq;
	tenants_share(w, t);
	if (w->knobs.limits)
		limits_set(w, t, &l);
	world_trace(w, "back", t, 0, 0);
}

static void tenants_turn_one(struct world *w, uint32_t t)
{
	struct tenant *one = &w->tenant[t];
	uint64_t objects, bytes;
	char name[24];
	int r;

	if (one->purging) {
		tenants_name(t, name);
		r = larder_node_purge(w->node, name, &objects, &bytes);
		if (r < 0)
			sim_fail(w, "purge of %s: %s", name, strerror(-r));
		if (r > 0)
			return;
		w->seq++;
		one->purging = false;
		model_purged(w, t);
		world_trace(w, "purged", t, objects, bytes);
	}
	if (w->now_ns >= one->back_ns)
		tenants_back(w, t);
}

void tenants_turn(struct world *w)
{
	for (uint32_t t = 0; t < w->knobs.tenants && w->node && !w->doom.dead; t++)
		if (w->tenant[t].gone)
			tenants_turn_one(w, t);
}

/* After a start all are there: what was half thrown away stays so. */
void tenants_booted(struct world *w)
{
	for (uint32_t t = 0; t < w->knobs.tenants; t++) {
		struct tenant *one = &w->tenant[t];

		tenants_share(w, t);
		tenants_unshare(w, t);
		if (!one->gone)
			continue;
		w->seq++;
		for (uint32_t i = 0; one->purging && i < w->n_keys; i++)
			if (w->key[i].tenant == t)
				w->key[i].purge_seq = w->seq;
		one->gone = one->purging = false;
		one->gone_seq = w->seq;
	}
	limits_apply(w);
}

void tenants_finish(struct world *w)
{
	uint64_t until = w->now_ns + calm_bound(w);
	bool all;

	do {
		(void)world_turn(w);
		all = true;
		for (uint32_t t = 0; t < w->knobs.tenants; t++)
			all &= !w->tenant[t].gone;
		if (w->now_ns > until)
			sim_fail(w, "a tenant that is purged does not come back");
	} while (!all || !w->node);
}

bool tenants_away_now(const struct world *w, const struct op *op)
{
	const struct tenant *t = &w->tenant[w->client[op->client].tenant];

	return t->gone || (t->gone_seq && t->gone_seq >= op->start_seq);
}

/* Was it refused because its tenant was not there? Its client remembers that. */
bool tenants_away(const struct world *w, const struct op *op)
{
	return tenants_away_now(w, op) || w->client[op->client].away;
}
