/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node says of itself when asked: sums of the reactors' atomics and the engine's counts.
 * Each number is right by itself; together they are no snapshot.
 */
#include "base/compiler.h"
#include "engine/object.h"
#include "node/node.h"

static uint64_t stats_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

LARDER_PUBLIC void larder_node_get_stats(struct larder_node *n, struct larder_node_stats *ret)
{
	struct engine_counts c;
	struct records_rebuilt rebuilt;
	struct larder_node_stats s = { .draining = node_draining(n) };

	larder_memory_get_info(n->config.memory, &s.memory);
	engine_get_counts(n->engine, &c);
	engine_get_rebuilt(n->engine, &rebuilt);
	s.uptime_ms = (clock_now(&n->clock) - n->start_ns) / NSEC_PER_MSEC;
	s.pages_free = c.free_pages;
	s.records_free = c.free_records;
	s.objects = c.objects;
	s.evictions = c.evictions;
	s.leases = c.leases;
	s.references = c.references;
	s.filling = c.filling;
	s.parked = c.parked;
	s.rebuilt_objects = rebuilt.objects;
	s.dropped_records = rebuilt.dropped_bad + rebuilt.dropped_twice;
	for (uint32_t i = 0; i < LARDER_LEDGER_TENANTS; i++)
		s.value_bytes += stats_read(&n->ledger->gauges[i].value_bytes);
	for (uint32_t i = 0; i < n->config.reactors; i++) {
		const struct reactor *r = &n->reactors[i];

		s.requests += stats_read(&r->requests);
		s.regions += stats_read(&r->regions);
		s.region_bytes += stats_read(&r->region_bytes);
	}
	s.scrubbed_bytes = c.scrubbed_bytes;
	s.scrub_passes = c.scrub_passes;
	s.quarantined = stats_read(&n->ledger->node->quarantined);
	s.connections = stats_read(&n->connections);
	s.unauthenticated = stats_read(&n->unauthenticated);
	/* the record, the engine's heap entry, and one bucket of the index */
	s.bytes_per_object = s.memory.records ? s.memory.records_bytes / s.memory.records : 0;
	s.bytes_per_object += sizeof(struct engine_object) + sizeof(uint32_t);
	*ret = s;
}

LARDER_PUBLIC int larder_node_ledger_fd(struct larder_node *n)
{
	return ledger_read_fd(n->ledger);
}

LARDER_PUBLIC void larder_node_ledger_refresh(struct larder_node *n)
{
	ledger_refresh(n->ledger);
}

LARDER_PUBLIC const struct larder_ledger_header *larder_node_ledger(const struct larder_node *n)
{
	return n->ledger->header;
}

LARDER_PUBLIC uint64_t larder_node_turns(const struct larder_node *n, uint32_t reactor)
{
	return reactor < n->config.reactors ? stats_read(&n->reactors[reactor].turns) : 0;
}
