/* SPDX-License-Identifier: Apache-2.0 */
/* Each tenant's figures out of the ledger, for "stats"; and the look at what wants attention. */
#include "daemon.h"

#include <string.h>
#include <time.h>

#include "ledger_map.h"
#include "say.h"
#include "stats.h"

/*
 * Seconds: half of the victims had been touched within that time. A bound of the ledger's buckets,
 * so it is right to a factor of four; 0 = there were none.
 */
static uint64_t stats_age(const uint64_t evicted[LARDER_LEDGER_AGES])
{
	uint64_t all = 0, seen = 0;

	for (unsigned i = 0; i < LARDER_LEDGER_AGES; i++)
		all += evicted[i];
	for (unsigned i = 0; all && i < LARDER_LEDGER_AGES; i++) {
		seen += evicted[i];
		if (2 * seen >= all)
			return 1ull << 2 * i;
	}
	return 0;
}

/* What was refused, by the limit's name or by the reason; what refused nothing is left out. */
static json_t *stats_refused(const struct larder_usage *u)
{
	const struct {
		const char *name;
		uint64_t n;
	} reasons[] = {
		{ "no_space", u->status[LARDER_NO_SPACE] },
		{ "draining", u->status[LARDER_DRAINING] },
		{ "not_admitted", u->put_not_admitted },
		{ "layout_mismatch", u->layout_mismatches },
	};
	json_t *o = json_object();

	for (unsigned i = 0; i < LARDER_LIMITS; i++)
		if (u->refused[i])
			stats_add(o, larder_limit_name(i), u->refused[i]);
	for (unsigned i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].n)
			stats_add(o, reasons[i].name, reasons[i].n);
	return o;
}

static json_t *stats_tenant(const struct larder_gauges *g, const struct larder_usage *u)
{
	json_t *o = json_object();
	uint64_t ops = 0;

	for (unsigned i = 0; i < LARDER_OP_MAX; i++)
		ops += u->ops[i];
	stats_add(o, "objects", g->objects);
	stats_add(o, "resident_bytes", g->resident_bytes);
	stats_add(o, "connections", g->connections);
	stats_add(o, "operations", ops);
	stats_add(o, "gets", u->ops[LARDER_OP_GET]);
	stats_add(o, "get_hits", u->get_hits);
	stats_add(o, "puts", u->ops[LARDER_OP_PUT] + u->ops[LARDER_OP_PUT_COMMIT]);
	stats_add(o, "bytes_in", u->bytes[LARDER_CAUSE_CLIENT_WRITE]);
	stats_add(o, "bytes_discarded", u->bytes[LARDER_CAUSE_DISCARDED]);
	stats_add(o, "bytes_out",
		  u->bytes[LARDER_CAUSE_CLIENT_READ] + u->bytes[LARDER_CAUSE_VIEW]);
	stats_add(o, "refused", u->status[LARDER_NO_SPACE] + u->status[LARDER_QUOTA] +
		  u->status[LARDER_THROTTLED] + u->status[LARDER_DRAINING]);
	stats_add(o, "evicted_objects", u->evicted_objects);
	stats_add(o, "evicted_age_s", stats_age(u->evicted_age));
	stats_add(o, "expired_objects", u->expired_objects);
	stats_add(o, "namespaces", g->namespaces);
	stats_add(o, "leases", g->leases);
	stats_add(o, "leased_bytes", g->leased_bytes);
	stats_add(o, "pinned_bytes", g->pinned_bytes);
	stats_add(o, "waiting", g->waiting);
	stats_add(o, "fills_held", g->fills);
	stats_add(o, "fills", u->fills);
	stats_add(o, "fills_lapsed", u->fills_lapsed);
	stats_add(o, "checksum_errors", u->checksum_errors);
	(void)json_object_set_new(o, "refused_by", stats_refused(u));
	return o;
}

static uint64_t stats_now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);	/* can not fail for this clock */
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void stats_look(struct daemon *d, const char *name, uint32_t slot,
		       const struct larder_usage *u)
{
	if (watch_look(&d->watch, slot, u, stats_now_ms()))
		say(&d->log, LARDER_LOG_WARNING, "tenant %s put %llu objects since it last found "
		    "one: do its engines make the same keys of the same tokens (seed of the hash, "
		    "model, block size, namespace)? Until they do it fills the node for nothing",
		    name, (unsigned long long)d->watch.at[slot].puts);
}

/* Looks at each tenant; its figures go into @all, which may be NULL. */
static void stats_each(struct daemon *d, json_t *all)
{
	const struct larder_ledger_header *h = larder_node_ledger(d->node);

	for (uint32_t i = 0; i < h->tenants; i++) {
		const char *name = ledger_map_name(h, i);
		struct larder_gauges g;
		struct larder_usage u;
		json_t *o;

		if (!name[0])
			continue;
		ledger_map_usage(h, i, &u);
		stats_look(d, name, i, &u);
		if (!all)
			continue;
		ledger_map_gauges(h, i, &g);
		o = stats_tenant(&g, &u);
		(void)json_object_set_new(o, "slot", json_integer(i));
		if (d->watch.at[i].warned)
			(void)json_object_set_new(o, "warning", json_string(WATCH_PUTS_NEVER_HIT));
		(void)json_object_set_new(all, name, o);
	}
}

json_t *daemon_stats_tenants(struct daemon *d)
{
	json_t *all = json_object();

	stats_each(d, all);
	return all;
}

void daemon_watch(struct daemon *d)
{
	stats_each(d, NULL);
}
