/* SPDX-License-Identifier: Apache-2.0 */
/* What a seed draws before anything runs. Faults are on or off for a whole seed: a fault that is
 * always there hides what needs its absence. */
#include "sim.h"

static void knobs_sizes(struct world *w, struct knobs *k)
{
	struct prng *r = &w->knob_rng;
	static const uint32_t pages_of[] = { 4096, 4096, 8192, 16384, 65536 };
	uint64_t most;

	k->page = pages_of[prng_below(r, ARRAY_SIZE(pages_of))];
	/* most values are small; in some seeds they cross check blocks */
	k->value_max = 6ull * k->page;
	if (chance(r, 3))
		k->value_max = LARDER_CHECK_BLOCK + k->page *
			       between(r, 2, LARDER_CHECK_BLOCK / k->page + 3);
	most = (k->value_max + k->page - 1) / k->page;
	k->evicts = chance(r, 3);
	if (k->evicts)
		k->pages = (uint32_t)(most + between(r, 1, 12) + prng_below(r, 2 * most));
	else	/* what is there, what is being written, what readers still hold */
		k->pages = (uint32_t)((k->tenants * k->spaces * k->names +
				       2 * (k->under_way + k->clients)) * most);
	k->records_short = k->evicts && chance(r, 3);
	k->records = k->records_short ? (uint32_t)between(r, 24, 40)
				      : 32 * k->pages / 16 + 8 * SIM_KEYS + 64;
	k->leases = k->evicts && chance(r, 4) ? (uint32_t)between(r, 4, 12) : 512;
	k->reserve = k->evicts && chance(r, 3) ? between(r, 1, 4) * k->page : 0;
	if (k->reserve >= (uint64_t)k->pages * k->page)
		k->reserve = 0;
}

static void knobs_faults(struct world *w, struct faults *f)
{
	struct prng *r = &w->knob_rng;

	if (chance(r, 8))
		return;		/* a quiet seed: exactness everywhere */
	f->splits = chance(r, 2);
	f->delay = chance(r, 3);
	f->breaks = chance(r, 2);
	f->cuts = chance(r, 3);
	f->crashes = chance(r, 2);
	f->gaps = chance(r, 3);
	f->wall = chance(r, 4);
	f->slow = chance(r, 3);
	f->cancels = chance(r, 3);
	f->reopens = chance(r, 4);
	f->rot = chance(r, 6);
}

/* From a generator of its own: what a seed drew before these came, it still draws. */
static void knobs_more(struct world *w, struct knobs *k)
{
	struct prng *r = &w->more_rng;

	k->limits = chance(r, 3);
	k->limits |= k->evicts && chance(r, 2);
	k->guarantees = k->limits && k->evicts && !chance(r, 4);
	k->shares = k->tenants > 1 && chance(r, 2);
	k->ttl = chance(r, 4);
	k->fills = chance(r, 2);
	k->pins = chance(r, 3);
	k->may.purges = chance(r, 6);
}

void knobs_draw(struct world *w)
{
	static const char *const policies[] = { "lru", "fifo", "aseg", "aseg" };
	struct knobs *k = &w->knobs;
	struct prng *r = &w->knob_rng;

	k->shards = 1u << prng_below(r, 7);
	k->reactors = chance(r, 4) ? 2 : 1;
	k->policy = policies[prng_below(r, ARRAY_SIZE(policies))];
	k->credits = (uint32_t)(chance(r, 3) ? between(r, 1, 3) : between(r, 4, 32));
	k->clients = (uint32_t)between(r, 1, SIM_CLIENTS);
	k->tenants = (uint32_t)between(r, 1, MIN(k->clients, (uint32_t)SIM_TENANTS));
	k->spaces = (uint32_t)between(r, 1, SIM_SPACES);
	k->names = (uint32_t)between(r, 2, SIM_NAMES);
	k->batch_max = (uint32_t)between(r, 1, 8);
	k->under_way = (uint32_t)between(r, 1, 12);
	k->ops_per_round = (uint32_t)between(r, 30, 120);
	k->rounds = (uint32_t)between(r, 1, 3);
	k->lease_max_ms = (uint32_t)between(r, 50, 3000);
	k->keepalive_ms = (uint32_t)between(r, 300, 3000);
	k->stall_ms = (uint32_t)between(r, 300, 2000);
	k->deadline_ms = (uint32_t)between(r, 500, 8000);
	k->sleeps = !chance(r, 4);
	knobs_sizes(w, k);
	knobs_faults(w, &k->may);
	knobs_more(w, k);
}

void knobs_print(const struct world *w)
{
	const struct knobs *k = &w->knobs;
	const struct faults *f = &k->may;

	printf("seed %" PRIu64 ": %u clients of %u tenants, %u namespaces, %u keys, batches to %u,"
	       " %u under way; %u pages of %u, values to %" PRIu64 ", %u records, %u leases,"
	       " reserve %" PRIu64 "; %u shards, %u reactors, %s, %u credits, lease %u ms,"
	       " keepalive %u ms, stall %u ms, deadline %u ms;%s%s%s", w->seed, k->clients,
	       k->tenants, k->spaces, k->names, k->batch_max, k->under_way, k->pages, k->page,
	       k->value_max, k->records, k->leases, k->reserve, k->shards, k->reactors, k->policy,
	       k->credits, k->lease_max_ms, k->keepalive_ms, k->stall_ms, k->deadline_ms,
	       k->evicts ? " evicts" : "", k->records_short ? " few records" : "",
	       k->sleeps ? " sleeps" : "");
	printf("%s%s%s%s%s%s", k->limits ? " limits" : "", k->guarantees ? " guarantees" : "",
	       k->shares ? " shares" : "", k->ttl ? " ttl" : "", k->fills ? " fills" : "",
	       k->pins ? " pins" : "");
	printf("; faults:%s%s%s%s%s%s%s%s%s%s%s%s\n", f->splits ? " splits" : "",
	       f->delay ? " delay" : "", f->breaks ? " breaks" : "", f->cuts ? " cuts" : "",
	       f->crashes ? " crashes" : "", f->gaps ? " gaps" : "", f->wall ? " wall" : "",
	       f->slow ? " slow" : "", f->cancels ? " cancels" : "", f->reopens ? " reopens" : "",
	       f->rot ? " rot" : "", f->purges ? " purges" : "");
}
