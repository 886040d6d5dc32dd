/* SPDX-License-Identifier: Apache-2.0 */
/* The node's figures as JSON, for the control socket. Names end with their unit. */
#include "daemon.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <larder/ledger.h>
#include <larder/status.h>

static void stats_add(json_t *o, const char *name, uint64_t n)
{
	/* a failure leaves the field out; the caller checks the document as a whole */
	(void)json_object_set_new(o, name, json_integer((json_int_t)n));
}

static json_t *stats_memory(const struct larder_node_stats *s)
{
	json_t *o = json_object();

	stats_add(o, "arena_bytes", s->memory.arena_bytes);
	stats_add(o, "records_bytes", s->memory.records_bytes);
	stats_add(o, "page_size_bytes", s->memory.page_size_bytes);
	stats_add(o, "pages", s->memory.pages);
	stats_add(o, "pages_free", s->pages_free);
	stats_add(o, "records", s->memory.records);
	stats_add(o, "records_free", s->records_free);
	stats_add(o, "metadata_bytes_per_object", s->bytes_per_object);
	(void)json_object_set_new(o, "hugepages", json_boolean(s->memory.hugepages));
	return o;
}

static json_t *stats_objects(const struct larder_node_stats *s)
{
	json_t *o = json_object();

	stats_add(o, "objects", s->objects);
	stats_add(o, "value_bytes", s->value_bytes);
	stats_add(o, "evictions", s->evictions);
	stats_add(o, "leases", s->leases);
	stats_add(o, "references", s->references);
	stats_add(o, "filling", s->filling);
	stats_add(o, "waiting", s->parked);
	stats_add(o, "rebuilt", s->rebuilt_objects);
	stats_add(o, "dropped_records", s->dropped_records);
	return o;
}

static json_t *stats_connections(const struct larder_node_stats *s)
{
	json_t *o = json_object();

	stats_add(o, "connections", s->connections);
	stats_add(o, "unauthenticated", s->unauthenticated);
	stats_add(o, "requests", s->requests);
	stats_add(o, "regions", s->regions);
	stats_add(o, "region_bytes", s->region_bytes);
	return o;
}

/* One tenant's line: its gauges, and its usage summed over the writers. */
static json_t *stats_tenant(const struct larder_ledger_header *h, const char *base, uint32_t slot)
{
	const struct larder_gauges *g =
		(const void *)(base + h->section[LARDER_SECTION_GAUGES].offset);
	const struct larder_usage *u =
		(const void *)(base + h->section[LARDER_SECTION_USAGE].offset);
	uint64_t ops = 0, in = 0, out = 0, hits = 0, gets = 0, puts = 0, evicted = 0, refused = 0;
	json_t *o = json_object();

	for (uint32_t w = 0; w < h->writers; w++) {
		const struct larder_usage *one = &u[w * h->tenants + slot];

		for (unsigned i = 0; i < LARDER_OP_MAX; i++)
			ops += one->ops[i];
		gets += one->ops[LARDER_OP_GET];
		puts += one->ops[LARDER_OP_PUT] + one->ops[LARDER_OP_PUT_COMMIT];
		hits += one->get_hits;
		in += one->bytes[LARDER_CAUSE_CLIENT_WRITE];
		out += one->bytes[LARDER_CAUSE_CLIENT_READ] + one->bytes[LARDER_CAUSE_VIEW];
		evicted += one->evicted_objects;
		refused += one->status[LARDER_NO_SPACE] + one->status[LARDER_QUOTA] +
			   one->status[LARDER_THROTTLED] + one->status[LARDER_DRAINING];
	}
	stats_add(o, "objects", g[slot].objects);
	stats_add(o, "resident_bytes", g[slot].resident_bytes);
	stats_add(o, "leases", g[slot].leases);
	stats_add(o, "connections", g[slot].connections);
	stats_add(o, "operations", ops);
	stats_add(o, "gets", gets);
	stats_add(o, "get_hits", hits);
	stats_add(o, "puts", puts);
	stats_add(o, "bytes_in", in);
	stats_add(o, "bytes_out", out);
	stats_add(o, "evicted_objects", evicted);
	stats_add(o, "refused", refused);
	return o;
}

static json_t *stats_tenants(struct daemon *d)
{
	json_t *all = json_object();
	int fd = larder_node_ledger_fd(d->node);
	const struct larder_ledger_header *h;
	const struct larder_ledger_name *names;
	struct stat st;

	if (fd < 0)
		return all;
	if (fstat(fd, &st) < 0) {
		(void)close(fd);
		return all;
	}
	h = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	(void)close(fd);	/* the mapping stays */
	if (h == MAP_FAILED)
		return all;
	names = (const void *)((const char *)h + h->section[LARDER_SECTION_NAMES].offset);
	for (uint32_t i = 0; i < h->tenants; i++)
		if (names[i].tenant[0])
			(void)json_object_set_new(all, names[i].tenant,
						  stats_tenant(h, (const char *)h, i));
	(void)munmap((void *)(uintptr_t)h, (size_t)st.st_size);
	return all;
}

json_t *daemon_stats(struct daemon *d)
{
	struct larder_node_stats s;

	larder_node_get_stats(d->node, &s);
	return json_pack("{s:s, s:I, s:b, s:b, s:o, s:o, s:o, s:o}", "version", LARDER_VERSION,
			 "uptime_ms", (json_int_t)s.uptime_ms, "draining", s.draining, "drained",
			 larder_node_is_drained(d->node), "memory", stats_memory(&s), "objects",
			 stats_objects(&s), "connections", stats_connections(&s), "tenants",
			 stats_tenants(d));
}
