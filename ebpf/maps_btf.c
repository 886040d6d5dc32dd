/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BTF of the ledger's maps. Offsets are the compiler's, names are the fields' own and, where an
 * array is indexed by a number that has a name (an operation, a status, a limit, a cause), that
 * name: a dump is read by people and by jq.
 *
 * tests/unit/ebpf/test_maps_btf holds it against <larder/ledger.h>, word by word.
 */
#include "maps_btf.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <larder/status.h>

/* Type ids are positive; the first failure stays. */
struct maps_types {
	struct btf *btf;
	int error;
	int u64, u32, character;
	int name;		/* char [40] */
};

static int maps_add(struct maps_types *t, int id)
{
	if (id < 0 && !t->error)
		t->error = id;
	return id;
}

static int maps_array(struct maps_types *t, int of, uint32_t n)
{
	return maps_add(t, btf__add_array(t->btf, t->u32, of, n));
}

static int maps_struct(struct maps_types *t, const char *name, size_t size)
{
	return maps_add(t, btf__add_struct(t->btf, name, (uint32_t)size));
}

static void maps_field(struct maps_types *t, const char *name, int type, size_t offset)
{
	(void)maps_add(t, btf__add_field(t->btf, name, type, (uint32_t)offset * 8, 0));
}

/* One u64 of a struct for each number that @name_of has a name for. */
static int maps_named(struct maps_types *t, const char *name, unsigned n,
		      const char *(*name_of)(unsigned i))
{
	int id = maps_struct(t, name, n * sizeof(uint64_t));

	for (unsigned i = 0; i < n; i++)
		if (name_of(i))
			maps_field(t, name_of(i), t->u64, i * sizeof(uint64_t));
	return id;
}

static const char *maps_op_name(unsigned op)
{
	static const char *const names[LARDER_OP_MAX] = {
#define MAPS_OP(name) [LARDER_OP_##name] = #name
		MAPS_OP(HELLO), MAPS_OP(AUTH), MAPS_OP(PING), MAPS_OP(CANCEL), MAPS_OP(NS_CREATE),
		MAPS_OP(NS_OPEN), MAPS_OP(NS_LIST), MAPS_OP(NS_FLUSH), MAPS_OP(NS_RETIRE),
		MAPS_OP(REGION_ADD), MAPS_OP(REGION_DEL), MAPS_OP(PUT), MAPS_OP(PUT_BEGIN),
		MAPS_OP(PUT_PART), MAPS_OP(PUT_COMMIT), MAPS_OP(PUT_ABORT), MAPS_OP(GET),
		MAPS_OP(EXISTS), MAPS_OP(LEASE), MAPS_OP(RELEASE), MAPS_OP(PIN), MAPS_OP(UNPIN),
		MAPS_OP(STAT), MAPS_OP(LIST), MAPS_OP(DELETE),
#undef MAPS_OP
	};

	return names[op];
}

static const char *maps_status_name(unsigned status)
{
	return status < LARDER_STATUS_COUNT ? larder_status_name((int)status) : NULL;
}

static const char *maps_limit_name(unsigned limit)
{
	return limit < LARDER_LIMITS ? larder_limit_name(limit) : NULL;
}

static const char *maps_latency_name(unsigned op)
{
	static const char *const names[LARDER_LATENCY_OPS] = { "get", "put", "exists", "other" };

	return names[op];
}

#define U64(type, field) maps_field(t, #field, t->u64, offsetof(struct larder_##type, field))

static int maps_usage(struct maps_types *t)
{
	int ops = maps_named(t, "larder_ops", LARDER_OP_MAX, maps_op_name);
	int status = maps_named(t, "larder_statuses", 32, maps_status_name);
	int bytes = maps_named(t, "larder_bytes", LARDER_CAUSES, larder_cause_name);
	int refused = maps_named(t, "larder_refused", LARDER_LEDGER_LIMITS, maps_limit_name);
	int ages = maps_array(t, t->u64, LARDER_LEDGER_AGES);
	int id = maps_struct(t, "larder_usage", sizeof(struct larder_usage));

	maps_field(t, "ops", ops, offsetof(struct larder_usage, ops));
	maps_field(t, "status", status, offsetof(struct larder_usage, status));
	maps_field(t, "bytes", bytes, offsetof(struct larder_usage, bytes));
	U64(usage, get_hits);
	U64(usage, get_hit_bytes);
	U64(usage, exists_keys);
	U64(usage, exists_present);
	U64(usage, leading_run_keys);
	U64(usage, put_new);
	U64(usage, evicted_objects);
	U64(usage, evicted_bytes);
	U64(usage, expired_objects);
	U64(usage, checksum_errors);
	U64(usage, layout_mismatches);
	U64(usage, put_not_admitted);
	maps_field(t, "evicted_age", ages, offsetof(struct larder_usage, evicted_age));
	maps_field(t, "refused", refused, offsetof(struct larder_usage, refused));
	U64(usage, fills);
	U64(usage, fills_lapsed);
	U64(usage, fills_refused);
	U64(usage, waits_refused);
	maps_field(t, "tenant", t->name, offsetof(struct larder_usage, tenant));
	return id;
}

static int maps_gauges(struct maps_types *t)
{
	int id = maps_struct(t, "larder_gauges", sizeof(struct larder_gauges));

	U64(gauges, resident_bytes);
	U64(gauges, value_bytes);
	U64(gauges, objects);
	U64(gauges, pinned_bytes);
	U64(gauges, leased_bytes);
	U64(gauges, leases);
	U64(gauges, namespaces);
	U64(gauges, connections);
	U64(gauges, regions);
	U64(gauges, region_bytes);
	U64(gauges, in_flight_lookup);
	U64(gauges, in_flight_fetch);
	U64(gauges, in_flight_write);
	U64(gauges, fills);
	U64(gauges, waiting);
	maps_field(t, "tenant", t->name, offsetof(struct larder_gauges, tenant));
	return id;
}

static int maps_latency(struct maps_types *t)
{
	int sums = maps_named(t, "larder_sums", LARDER_LATENCY_OPS, maps_latency_name);
	int buckets = maps_array(t, t->u64, LARDER_LATENCY_BUCKETS);
	int by_op = maps_struct(t, "larder_buckets",
				sizeof(((struct larder_latency *)NULL)->buckets));
	int id;

	for (unsigned i = 0; i < LARDER_LATENCY_OPS; i++)
		maps_field(t, maps_latency_name(i), buckets,
			   i * LARDER_LATENCY_BUCKETS * sizeof(uint64_t));
	id = maps_struct(t, "larder_latency", sizeof(struct larder_latency));
	maps_field(t, "buckets", by_op, offsetof(struct larder_latency, buckets));
	maps_field(t, "sum_ns", sums, offsetof(struct larder_latency, sum_ns));
	return id;
}

static int maps_names(struct maps_types *t)
{
	int id = maps_struct(t, "larder_ledger_name", sizeof(struct larder_ledger_name));

	maps_field(t, "tenant", t->name, offsetof(struct larder_ledger_name, tenant));
	U64(ledger_name, id);
	return id;
}

static int maps_node(struct maps_types *t)
{
	int id = maps_struct(t, "larder_node_section", sizeof(struct larder_node_section));

	U64(node_section, start_time_ms);
	U64(node_section, heartbeat_ns);
	U64(node_section, pages);
	U64(node_section, pages_free);
	U64(node_section, page_size_bytes);
	U64(node_section, records);
	U64(node_section, records_free);
	U64(node_section, objects);
	U64(node_section, connections);
	U64(node_section, evictions);
	U64(node_section, rejected_connections);
	U64(node_section, protocol_errors);
	U64(node_section, auth_failures);
	U64(node_section, peers_expired);
	U64(node_section, turns);
	U64(node_section, gaps);
	U64(node_section, draining);
	U64(node_section, rebuilt_objects);
	U64(node_section, dropped_records);
	U64(node_section, quarantined);
	U64(node_section, sigbus);
	U64(node_section, scrubbed_bytes);
	U64(node_section, scrub_passes);
	U64(node_section, limits_written);
	U64(node_section, limits_refused);
	return id;
}

static int maps_limits(struct maps_types *t)
{
	return t->u64;
}

int maps_btf_new(struct btf **ret, struct maps_btf *types)
{
	int (*const of[LARDER_SECTIONS])(struct maps_types *t) = {
		[LARDER_SECTION_USAGE] = maps_usage,
		[LARDER_SECTION_GAUGES] = maps_gauges,
		[LARDER_SECTION_LATENCY] = maps_latency,
		[LARDER_SECTION_LIMITS] = maps_limits,
		[LARDER_SECTION_EFFECTIVE] = maps_limits,
		[LARDER_SECTION_NAMES] = maps_names,
		[LARDER_SECTION_NODE] = maps_node,
	};
	struct maps_types t = { .btf = btf__new_empty() };

	if (!t.btf)
		return -errno;
	t.u64 = maps_add(&t, btf__add_int(t.btf, "__u64", 8, 0));
	t.u32 = maps_add(&t, btf__add_int(t.btf, "__u32", 4, 0));
	t.character = maps_add(&t, btf__add_int(t.btf, "char", 1, BTF_INT_CHAR));
	t.name = maps_array(&t, t.character, sizeof(((struct larder_ledger_name *)NULL)->tenant));
	types->key = (uint32_t)t.u32;
	for (unsigned i = 0; i < LARDER_SECTIONS; i++)
		types->value[i] = (uint32_t)of[i](&t);
	if (t.error) {
		btf__free(t.btf);
		return t.error;
	}
	*ret = t.btf;
	return 0;
}
