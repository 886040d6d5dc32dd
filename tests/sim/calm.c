/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calm phase. Faults end; what is under way must end, the node must come to rest, and then
 * everything must add up: the state of each key (read, one by one), pages, records, references,
 * leases, connections, the gauges. Then operations whose outcome is known in advance are run and
 * the ledger must have counted exactly them. hard.c adds moments of its own.
 */
#include "sim.h"

#define CALM_REST_NS (10 * NSEC_PER_SEC)
#define CALM_OP_NS (300 * NSEC_PER_MSEC)

uint64_t calm_bound(const struct world *w)
{
	return (w->knobs.deadline_ms + 2 * w->knobs.keepalive_ms + 2 * w->knobs.stall_ms) *
	       NSEC_PER_MSEC + CALM_REST_NS;
}

/* --- heal ------------------------------------------------------------------------------------ */

static void calm_heal(struct world *w)
{
	w->wild = false;
	w->net.kind = true;
	w->node_stop_ns = 0;
	host_disarm(w);
	for (uint32_t i = 0; i < w->knobs.clients; i++)
		w->client[i].slow_until_ns = 0;
	tenants_finish(w);
	limits_lift(w);
	world_trace(w, "heal", 0, 0, 0);
}

static void calm_finish(struct world *w)
{
	uint64_t until = w->now_ns + calm_bound(w);

	actor_streams(w, true);
	while (w->n_ops) {
		(void)world_turn(w);
		if (w->now_ns > until)
			sim_fail(w, "%u operations do not end", w->n_ops);
	}
}

void calm_connect(struct world *w, struct client *c)
{
	uint64_t until = w->now_ns + calm_bound(w);
	int r;

	do {
		world_sync_begin(c);
		r = larder_ping(c->c, 400);
		world_sync_end(c);
		if (r == 0)
			actor_open_spaces(w, c);
		if (w->now_ns > until)
			sim_fail(w, "client %u does not find the node again: %s: %s", c->index,
				 larder_status_name(r), larder_last_error());
	} while (r != 0 || !c->ns_open[w->knobs.spaces - 1] || !c->ns_open[0]);
}

static bool calm_at_rest(struct world *w, struct larder_node_stats *s)
{
	larder_node_get_stats(w->node, s);
	return s->requests == 0 && s->references == 0 && s->filling == 0 && s->parked == 0 &&
	       s->unauthenticated == 0 && s->connections == w->knobs.clients;
}

void calm_rest(struct world *w)
{
	uint64_t until = w->now_ns + calm_bound(w);
	struct larder_node_stats s;

	while (!calm_at_rest(w, &s) || (w->knobs.fills && fill_count(w))) {
		(void)world_turn(w);
		if (w->now_ns > until)
			sim_fail(w, "the node does not come to rest: %" PRIu64 " requests, %" PRIu64
				 " references, %" PRIu64 " filling, %" PRIu64 " parked, %" PRIu64
				 " of %u connections, %" PRIu64 " unauthenticated", s.requests,
				 s.references, s.filling, s.parked, s.connections,
				 w->knobs.clients, s.unauthenticated);
	}
	/* what is made ahead of need is made by now */
	for (until = w->now_ns + 40 * NSEC_PER_MSEC; w->now_ns < until;)
		(void)world_turn(w);
}

/* --- operations of the calm ------------------------------------------------------------------ */

struct client *calm_client(struct world *w, uint32_t tenant)
{
	uint32_t i = tenant;

	while (i + w->knobs.tenants < w->knobs.clients && chance(&w->op_rng, 2))
		i += w->knobs.tenants;
	return &w->client[i];
}

struct op *calm_op(struct world *w, const struct client *c, uint8_t opcode)
{
	struct op *op = op_new(w, c->index, opcode);

	if (!op)
		sim_fail(w, "no room for an operation");
	op->calm = true;
	return op;
}

void calm_wait(struct world *w, const char *what)
{
	uint64_t until = w->now_ns + CALM_OP_NS;

	while (w->n_ops) {
		(void)world_turn(w);
		if (w->now_ns > until)
			sim_fail(w, "%s: not done although all is well", what);
	}
}

void calm_run(struct op *op, const char *what)
{
	struct world *w = op->w;

	(void)op_submit(op);
	calm_wait(w, what);
}

struct op *calm_whole(struct world *w, struct client *c, struct model_key *k)
{
	struct op *op = calm_op(w, c, LARDER_OP_GET);
	struct larder_item *li = &op->items[0];
	struct item *it = &op->item[0];

	op_add(op, k, 0);
	free(it->buffer);
	it->offset = it->length = li->offset = li->length = 0;
	it->room = (size_t)w->knobs.value_max;
	it->buffer = malloc(it->room + SIM_GUARD);
	if (!it->buffer)
		sim_fail(w, "no memory for a buffer");
	memset(it->buffer, SIM_FILL, it->room + SIM_GUARD);
	it->iov[0] = (struct iovec){ it->buffer, it->room };
	li->iovcnt = 1;
	return op;
}

/* Reads a key whole, and what was in doubt is not any more. */
void calm_get(struct world *w, struct model_key *k)
{
	struct op *op = calm_whole(w, calm_client(w, k->tenant), k);
	const struct larder_item *li = &op->items[0];
	struct tally *t = &w->tally[k->tenant];

	calm_run(op, "a GET");
	if (li->status == LARDER_OK) {
		t->read_bytes += li->done_bytes;
		t->get_hit_bytes += li->done_bytes;
	}
	if (k->rotten)		/* read whole and checked, or taken out of service */
		k->set &= li->status == LARDER_OK ? SIM_ANY_VALUE : SIM_ABSENT;
	k->rotten = false;
	if (k->set & (k->set - 1) && !w->knobs.evicts && !k->ttl_from_ns)
		sim_fail(w, "key %u of tenant %u was read and is still in doubt: %s", k->index,
			 k->tenant, model_set_text(k->set));
}

void calm_one(struct world *w, uint8_t opcode, struct model_key *k, int v, uint32_t flags,
		     uint32_t lease_ms)
{
	struct op *op = calm_op(w, calm_client(w, k->tenant), opcode);

	op->batch.flags = flags;
	op->lease_ms = lease_ms;
	op->lease_id = lease_ms ? ++w->lease_number : 0;
	op_add(op, k, v);
	calm_run(op, "one operation");
}

static uint32_t calm_hits(struct world *w, struct model_key *k)
{
	struct op *op = calm_op(w, calm_client(w, k->tenant), LARDER_OP_STAT);

	op_add(op, k, 0);
	calm_run(op, "a STAT");
	return op->items[0].status == LARDER_OK ? op->items[0].stat.hits : UINT32_MAX;
}

/* Asking is not using: EXISTS tells the policy nothing, GET does. */
static void calm_touch(struct world *w, struct model_key *k)
{
	uint32_t before = calm_hits(w, k), asked, got;

	if (before == UINT32_MAX)
		return;
	calm_one(w, LARDER_OP_EXISTS, k, 0, 0, 0);
	asked = calm_hits(w, k);
	calm_get(w, k);
	got = calm_hits(w, k);
	if (asked == UINT32_MAX || got == UINT32_MAX)
		return;		/* evicted meanwhile: the model knows whether it may be */
	if (asked != before || got != before + 1)
		sim_fail(w, "hits: %u, after EXISTS %u, after GET %u", before, asked, got);
}

/* A lease, tried at once and again just before it ends. */
static void calm_lease(struct world *w, struct model_key *k)
{
	uint32_t ms = (uint32_t)between(&w->op_rng, 2, MIN(w->knobs.lease_max_ms, 30u));

	calm_one(w, LARDER_OP_EXISTS, k, 0, LARDER_F_LEASE, ms);
	calm_one(w, LARDER_OP_DELETE, k, 0, 0, 0);
	if (!k->n_leases)
		return;
	w->fine = true;
	while (model_next_lease_end(w) > w->now_ns + NSEC_PER_MSEC / 2 && k->n_leases)
		(void)world_turn(w);
	calm_one(w, LARDER_OP_DELETE, k, 0, 0, 0);
	w->fine = false;
}

/* Statuses that can only be these; the model checks the rest. */
static void calm_exact(struct world *w, struct model_key *k)
{
	struct prng *r = &w->op_rng;
	int v = (int)prng_below(r, SIM_VALUES);

	calm_one(w, LARDER_OP_EXISTS, k, 0, 0, 0);
	calm_one(w, LARDER_OP_PUT, k, v, 0, 0);
	calm_one(w, LARDER_OP_PUT, k, v, 0, 0);
	calm_one(w, LARDER_OP_PUT, k, (v + 1) % SIM_VALUES, 0, 0);
	calm_get(w, k);
	calm_one(w, LARDER_OP_STAT, k, 0, 0, 0);
	calm_touch(w, k);
	if (chance(r, 2))
		calm_lease(w, k);
	if (chance(r, 2)) {
		calm_one(w, LARDER_OP_DELETE, k, 0, chance(r, 2) ? LARDER_F_FORCE : 0, 0);
		calm_get(w, k);
	}
}

static void calm_operations(struct world *w)
{
	struct larder_usage before[SIM_TENANTS], after;
	struct larder_gauges gauges;
	uint32_t n = (uint32_t)between(&w->op_rng, 1, 6);

	calm_rest(w);		/* what was told just now is counted by then */
	for (uint32_t t = 0; t < w->knobs.tenants; t++)
		ledger_look(w, t, &before[t], &gauges);
	memset(w->tally, 0, sizeof(w->tally));
	for (uint32_t i = 0; i < n; i++)
		calm_exact(w, &w->key[prng_below(&w->op_rng, w->n_keys)]);
	calm_rest(w);
	for (uint32_t t = 0; t < w->knobs.tenants; t++) {
		ledger_look(w, t, &after, &gauges);
		ledger_compare(w, t, &before[t], &after, &w->tally[t]);
	}
}

/* --- sums ------------------------------------------------------------------------------------ */

struct sum {
	uint64_t objects, bytes, pages, records, pinned;
};

/* What it says of pins is so: nobody is at work. */
static void calm_pin_key(struct world *w, struct model_key *k, const struct larder_stat *st,
			 struct sum *s)
{
	bool hard = st->pins >> 16;

	if (hard && !k->maybe_pinned)
		sim_fail(w, "key %u of tenant %u is pinned hard, which nobody asked for", k->index,
			 k->tenant);
	if (!hard && k->pinned_ns)
		sim_fail(w, "key %u of tenant %u: its hard pin is lost", k->index, k->tenant);
	k->maybe_pinned = hard;
	k->pinned_ns = hard ? MIN(k->pinned_ns ? k->pinned_ns : w->now_ns, w->now_ns) : 0;
	s->pinned += hard ? st->size_bytes : 0;
}

static void calm_sum_key(struct world *w, struct model_key *k, struct sum *s)
{
	struct op *op = NULL;
	const struct larder_stat *st;
	uint64_t length;

	if (k->set != SIM_ABSENT) {
		op = calm_op(w, calm_client(w, k->tenant), LARDER_OP_STAT);
		op_add(op, k, 0);
		calm_run(op, "a STAT");
	}
	if (k->set == SIM_ABSENT || op->items[0].status != LARDER_OK) {
		k->maybe_pinned = false;	/* a pin goes with its object */
		k->pinned_ns = 0;
		return;
	}
	st = &op->items[0].stat;
	length = st->size_bytes;
	calm_pin_key(w, k, st, s);
	s->objects++;
	s->bytes += length;
	s->pages += (length + w->knobs.page - 1) / w->knobs.page;
	s->records += records_needed(k->name_len, st->runs, larder_check_count(length));
}

void calm_equal(struct world *w, const char *what, uint64_t have, uint64_t want)
{
	if (have != want)
		sim_fail(w, "at rest: %s: the node says %" PRIu64 ", the keys say %" PRIu64, what,
			 have, want);
}

static void calm_sums_tenant(struct world *w, uint32_t tenant, const struct sum *sum)
{
	struct larder_gauges g;
	struct larder_usage u;

	ledger_look(w, tenant, &u, &g);
	calm_equal(w, "objects of a tenant", g.objects, sum->objects);
	calm_equal(w, "value bytes of a tenant", g.value_bytes, sum->bytes);
	calm_equal(w, "resident bytes of a tenant", g.resident_bytes, sum->pages * w->knobs.page);
	calm_equal(w, "bytes pinned hard", g.pinned_bytes, sum->pinned);
	calm_equal(w, "fill leases", g.fills, 0);
	calm_equal(w, "who waits for a writer", g.waiting, 0);
	calm_equal(w, "namespaces", g.namespaces, w->knobs.spaces);
	calm_equal(w, "in flight", g.in_flight_lookup + g.in_flight_fetch + g.in_flight_write, 0);
}

/* What the keys say, while nothing is evicted behind the question's back. */
static void calm_sums_look(struct world *w, struct sum sum[SIM_TENANTS])
{
	struct larder_node_stats before, after;

	do {
		memset(sum, 0, SIM_TENANTS * sizeof(*sum));
		larder_node_get_stats(w->node, &before);
		for (uint32_t i = 0; i < w->n_keys; i++)
			calm_sum_key(w, &w->key[i], &sum[w->key[i].tenant]);
		calm_rest(w);
		larder_node_get_stats(w->node, &after);
	} while (before.evictions != after.evictions);
}

static void calm_sums(struct world *w)
{
	struct sum sum[SIM_TENANTS], all = { 0 };
	struct larder_node_stats s;

	calm_sums_look(w, sum);
	for (uint32_t t = 0; t < w->knobs.tenants; t++) {
		calm_sums_tenant(w, t, &sum[t]);
		all.objects += sum[t].objects;
		all.bytes += sum[t].bytes;
		all.pages += sum[t].pages;
		all.records += sum[t].records;
	}
	larder_node_get_stats(w->node, &s);
	calm_equal(w, "objects", s.objects, all.objects);
	calm_equal(w, "value bytes", s.value_bytes, all.bytes);
	calm_equal(w, "free pages", s.pages_free, w->knobs.pages - all.pages);
	calm_equal(w, "free records", s.records_free, w->knobs.records - all.records);
	calm_equal(w, "dropped records", s.dropped_records, 0);
	if (!w->knobs.evicts && !w->squeezed)
		calm_equal(w, "evictions", s.evictions, 0);
	world_trace(w, "sums", all.objects, all.pages, all.records);
}

/* After the longest lease and all that moved it, none is left and nothing is BUSY. */
static void calm_leases_end(struct world *w)
{
	uint64_t until = w->now_ns + w->knobs.lease_max_ms * NSEC_PER_MSEC + w->gaps_ns +
			 700 * NSEC_PER_MSEC;	/* it may sleep half a second */
	struct larder_node_stats s;

	while (w->now_ns < until)
		(void)world_turn(w);
	larder_node_get_stats(w->node, &s);
	calm_equal(w, "leases", s.leases, 0);
	for (uint32_t i = 0; i < w->n_keys; i++)
		if (w->key[i].set != SIM_ABSENT && chance(&w->op_rng, 3))
			calm_one(w, LARDER_OP_DELETE, &w->key[i], 0, 0, 0);
}

static uint64_t calm_reconnects(struct world *w)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < w->knobs.clients; i++) {
		struct larder_client_info info;

		larder_get_info(w->client[i].c, &info);
		sum += info.reconnects;
	}
	return sum;
}

/* Nobody's bytes went bad in a seed in which nothing rots. */
static void calm_checksums(struct world *w)
{
	for (uint32_t i = 0; i < w->knobs.clients && !w->knobs.may.rot; i++) {
		struct larder_client_info info;

		larder_get_info(w->client[i].c, &info);
		calm_equal(w, "values that did not match their checks", info.checksum_errors, 0);
	}
}

/* What may end by its ttl in the middle of a sum goes before. */
static void calm_ttl(struct world *w)
{
	for (uint32_t i = 0; i < w->n_keys; i++) {
		struct model_key *k = &w->key[i];

		if (!k->ttl_from_ns)
			continue;
		calm_get(w, k);
		calm_one(w, LARDER_OP_DELETE, k, 0, LARDER_F_FORCE, 0);
		k->ttl_from_ns = 0;
	}
}

void calm_round(struct world *w, bool last)
{
	uint64_t reconnects;

	calm_heal(w);
	calm_finish(w);
	for (uint32_t i = 0; i < w->knobs.clients; i++)
		calm_connect(w, &w->client[i]);
	spaces_shared(w);
	calm_rest(w);
	model_barrier(w);
	kept_check(w);
	calm_ttl(w);
	reconnects = calm_reconnects(w);
	for (uint32_t i = 0; i < w->n_keys; i++)
		calm_get(w, &w->key[i]);
	calm_sums(w);
	list_calm(w);
	exact_limits(w);
	exact_promises(w);
	calm_operations(w);
	hard_credits(w);
	hard_waiters(w);
	hard_reader(w);
	calm_sums(w);
	if (calm_reconnects(w) != reconnects)
		sim_fail(w, "a connection was lost although all is well");
	exact_spaces(w);
	exact_ends(w);
	hard_crash(w);
	reconnects = calm_reconnects(w);
	for (uint32_t i = 0; i < w->n_keys; i++)
		calm_get(w, &w->key[i]);
	calm_sums(w);
	if (last) {
		calm_leases_end(w);
		calm_sums(w);
	}
	kept_check(w);
	calm_checksums(w);
	if (calm_reconnects(w) != reconnects)
		sim_fail(w, "a connection was lost although all is well");
}
