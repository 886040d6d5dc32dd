/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fill leases, pins and ttl in the calm: who is told to fill, who waits and until when, what a pin
 * keeps and over what, and that an object is gone when its time is over and not before.
 */
#include "sim.h"

static struct op *exact_op(struct world *w, struct client *c, uint8_t opcode, struct model_key *k,
			   uint32_t flags)
{
	struct op *op = calm_op(w, c, opcode);

	op->batch.flags = flags;
	op_add(op, k, 0);
	return op;
}

static void exact_turns(struct world *w, uint32_t n)
{
	while (n-- > 0)
		(void)world_turn(w);
}

static void exact_pass(struct world *w, uint64_t until_ns)
{
	while (w->now_ns < until_ns)
		(void)world_turn(w);
}

static struct model_key *exact_absent(struct world *w, const struct client *c)
{
	struct model_key *k = &w->key[c->tenant * w->knobs.spaces * w->knobs.names +
				      prng_below(&w->more_rng, w->knobs.names)];

	calm_one(w, LARDER_OP_DELETE, k, 0, LARDER_F_FORCE, 0);
	return k;
}

static struct client *exact_other(struct world *w, struct client *c)
{
	for (uint32_t i = 0; i < w->knobs.clients; i++)
		if (w->client[i].tenant == c->tenant && i != c->index)
			return &w->client[i];
	return c;
}

/* --- fill leases ----------------------------------------------------------------------------- */

static struct op *exact_ask(struct world *w, struct client *c, struct model_key *k, uint32_t flags,
			    uint32_t ms)
{
	struct op *op = exact_op(w, c, LARDER_OP_EXISTS, k, LARDER_F_FILL | flags);

	op->lease_id = ++w->lease_number;
	op->lease_ms = ms;
	return op;
}

/* Is told FILL, or fails; 0 where records are so short that there may be none. */
static uint64_t exact_fill(struct world *w, struct client *c, struct model_key *k, uint32_t ms,
			   const char *why)
{
	struct op *op = exact_ask(w, c, k, 0, ms);

	calm_run(op, why);
	if (op->items[0].status == LARDER_FILL)
		return op->lease_id;
	if (!w->knobs.records_short && op->items[0].status != LARDER_OK)
		sim_fail(w, "key %u of tenant %u, %s: %s instead of FILL", k->index, k->tenant, why,
			 larder_status_name(op->items[0].status));
	return 0;
}

static void exact_release(struct world *w, struct client *c, struct model_key *k, uint64_t id)
{
	struct op *op = exact_op(w, c, LARDER_OP_RELEASE, k, 0);

	op->lease_id = id;
	calm_run(op, "the RELEASE of a fill lease");
}

/* It ends with its time, and by its id. */
static void exact_fill_ends(struct world *w, struct client *c)
{
	uint32_t ms = (uint32_t)between(&w->more_rng, 1, MIN(w->knobs.lease_max_ms, 20u));
	struct model_key *k = exact_absent(w, c);
	uint64_t id = exact_fill(w, c, k, ms, "nobody holds a fill lease");

	if (!id)
		return;
	exact_pass(w, w->now_ns + (ms + 4) * NSEC_PER_MSEC);
	id = exact_fill(w, exact_other(w, c), k, w->knobs.lease_max_ms, "the last one's time is"
			" over");
	if (!id)
		return;
	exact_release(w, exact_other(w, c), k, id);
	id = exact_fill(w, c, k, w->knobs.lease_max_ms, "the last one was given up");
	calm_one(w, LARDER_OP_PUT, k, 0, 0, 0);
	calm_rest(w);
}

/* Who waits is told when it is there. */
static void exact_fill_waits(struct world *w, struct client *c)
{
	struct client *o = exact_other(w, c);
	struct model_key *k = exact_absent(w, c);
	struct op *wait;

	if (w->knobs.evicts || o == c || w->knobs.lease_max_ms < 200 ||
	    !exact_fill(w, c, k, w->knobs.lease_max_ms, "nobody holds a fill lease"))
		return;
	wait = calm_whole(w, o, k);
	wait->batch.flags = LARDER_F_WAIT | (chance(&w->more_rng, 2) ? LARDER_F_FILL : 0);
	wait->lease_id = ++w->lease_number;
	(void)op_submit(wait);
	exact_turns(w, 12);
	if (wait->kind == OP_NONE)
		sim_fail(w, "key %u of tenant %u: nobody waits for whom it was promised to",
			 k->index, k->tenant);
	/* not from its own client, which may have no credit left; and all that is under way */
	calm_run(exact_op(w, c, LARDER_OP_PUT, k, 0), "a PUT by a fill lease's holder");
	if (wait->items[0].status != LARDER_OK)
		sim_fail(w, "who waited for a fill lease's holder was told %s",
			 larder_status_name(wait->items[0].status));
}

static void exact_reopen(struct world *w, struct client *c)
{
	larder_close(TAKE_PTR(c->c));
	op_close_all(c);
	world_client_open(w, c);
}

/* Its holder goes: whoever waits gets the next one, soon. */
static void exact_fill_owner(struct world *w, struct client *c)
{
	struct client *o = exact_other(w, c);
	struct model_key *k = exact_absent(w, c);
	struct op *wait;

	if (o == c || w->knobs.records_short || w->knobs.lease_max_ms < 600 ||
	    !exact_fill(w, c, k, w->knobs.lease_max_ms, "nobody holds a fill lease"))
		return;
	wait = exact_ask(w, o, k, LARDER_F_WAIT, w->knobs.lease_max_ms);
	(void)op_submit(wait);
	exact_turns(w, 12);
	exact_reopen(w, c);
	calm_wait(w, "who waits for a fill lease whose holder is gone");
	if (wait->items[0].status != LARDER_FILL)
		sim_fail(w, "key %u of tenant %u: its fill lease's holder is gone, and who waited"
			 " was told %s", k->index, k->tenant,
			 larder_status_name(wait->items[0].status));
	exact_release(w, o, k, wait->lease_id);
	calm_connect(w, c);
	calm_rest(w);
}

/* --- pins ------------------------------------------------------------------------------------ */

static void exact_is_there(struct world *w, struct model_key *k, int status, const char *why)
{
	struct op *op = exact_op(w, calm_client(w, k->tenant), LARDER_OP_STAT, k, 0);

	calm_run(op, why);
	if (op->items[0].status != status)
		sim_fail(w, "key %u of tenant %u, %s: %s instead of %s", k->index, k->tenant, why,
			 larder_status_name(op->items[0].status), larder_status_name(status));
}

/* The pin of a key: over a crash, too. */
static void exact_pin(struct world *w, struct client *c, bool crash)
{
	struct model_key *k = exact_absent(w, c);

	calm_one(w, LARDER_OP_PUT, k, 0, 0, 0);
	calm_one(w, LARDER_OP_PIN, k, 0, LARDER_F_HARD, 0);
	calm_one(w, LARDER_OP_PIN, k, 0, 0, 0);
	if (!k->pinned_ns)
		return;		/* no room for it, or for a pin */
	if (crash) {
		host_die(w);
		hard_come_back(w);
	}
	exact_is_there(w, k, LARDER_OK, "it is pinned hard");
	calm_one(w, LARDER_OP_DELETE, k, 0, 0, 0);
	exact_is_there(w, k, LARDER_OK, "it is pinned hard and was deleted without force");
	calm_one(w, LARDER_OP_UNPIN, k, 0, chance(&w->more_rng, 2) ? LARDER_F_HARD : 0, 0);
	calm_one(w, LARDER_OP_DELETE, k, 0, LARDER_F_FORCE, 0);
	exact_is_there(w, k, LARDER_NOT_FOUND, "it was deleted by force");
}

/* --- ttl ------------------------------------------------------------------------------------- */

static void exact_ttl(struct world *w, struct client *c, bool crash)
{
	struct model_key *k = exact_absent(w, c);
	struct op *op = exact_op(w, c, LARDER_OP_PUT, k, 0);
	uint64_t over_ns;

	op->batch.ttl_ms = (uint32_t)between(&w->more_rng, 2, 60);
	calm_run(op, "a PUT with a ttl");
	over_ns = w->now_ns + (op->batch.ttl_ms + 1) * NSEC_PER_MSEC;
	calm_get(w, k);
	if (crash) {
		host_die(w);
		hard_come_back(w);
	} else if (chance(&w->more_rng, 2) && w->knobs.lease_max_ms > 200) {
		calm_one(w, LARDER_OP_EXISTS, k, 0, LARDER_F_LEASE, 150);
		exact_pass(w, over_ns);
		calm_get(w, k);		/* the model knows if the lease still holds it */
		exact_pass(w, w->now_ns + 170 * NSEC_PER_MSEC + w->gaps_ns);
	}
	exact_pass(w, over_ns);
	exact_is_there(w, k, LARDER_NOT_FOUND, "its time is over");
	k->ttl_from_ns = 0;
	calm_get(w, k);
}

/* --- all ------------------------------------------------------------------------------------- */

static struct client *exact_some(struct world *w)
{
	return &w->client[prng_below(&w->more_rng, w->knobs.clients)];
}

void exact_promises(struct world *w)
{
	if (w->knobs.fills) {
		exact_fill_ends(w, exact_some(w));
		exact_fill_waits(w, exact_some(w));
	}
	if (w->knobs.pins)
		exact_pin(w, exact_some(w), false);
	if (w->knobs.ttl)
		exact_ttl(w, exact_some(w), false);
}

/* Connections are lost here. */
void exact_ends(struct world *w)
{
	struct prng *r = &w->more_rng;

	if (w->knobs.fills)
		exact_fill_owner(w, exact_some(w));
	if (w->knobs.pins && chance(r, 2))
		exact_pin(w, exact_some(w), true);
	if (w->knobs.ttl && chance(r, 3))
		exact_ttl(w, exact_some(w), true);
	for (uint32_t i = 0; i < w->n_keys; i++)
		if (w->key[i].maybe_pinned && !chance(r, 3))
			calm_one(w, LARDER_OP_UNPIN, &w->key[i], 0, LARDER_F_HARD, 0);
}
