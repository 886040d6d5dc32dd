/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of the ledger: what the node counts, as plain memory that anyone may map read-only.
 *
 * One file (a memfd), sections in the order of enum larder_ledger_section, each at the offset that
 * struct larder_ledger_header tells; and, where larder-bpf made them, one pinned BPF array a
 * section, of which the file is a copy. The version is part of every section's name; fields are
 * only ever added at the end of a reserved space, so a reader checks `layout` and may ignore what
 * it does not know.
 *
 * Writers: a `usage` slot has one writer, the reactor (or control thread) it belongs to, with
 * relaxed 64-bit stores; gauges are changed by atomic adds. A reader sums the usage slots of a
 * tenant over all writers. Values are monotone but not one snapshot.
 *
 * Thread rules: any number of readers in any process.
 */
#ifndef LARDER_LEDGER_H
#define LARDER_LEDGER_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include <larder/limits.h>
#include <larder/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LARDER_LEDGER_MAGIC 0x4745444cu	/* "LDEG" */
#define LARDER_LEDGER_LAYOUT 2u
#define LARDER_LEDGER_TENANTS 64u	/* slots; slot of a tenant is its place in `names` */
#define LARDER_LEDGER_LIMITS LARDER_LIMITS_MAX
#define LARDER_LEDGER_VIEW_TENANT 63u	/* slot "_view": reads of viewers */
#define LARDER_LEDGER_WRITERS_MAX 65u	/* reactors + control */

/* Why payload moved: each byte is counted once. */
enum larder_cause {
	LARDER_CAUSE_CLIENT_READ,
	LARDER_CAUSE_CLIENT_WRITE,
	LARDER_CAUSE_VIEW,
	LARDER_CAUSE_REBUILD,
	LARDER_CAUSE_REPLICA,
	LARDER_CAUSE_PREFETCH,
	LARDER_CAUSE_COLD,
	LARDER_CAUSE_DISCARDED,	/* came, and had no place: its PUT stored nothing */
	LARDER_CAUSES
};

/* "client_read"; NULL for a number that is none. */
const char *larder_cause_name(unsigned cause);

/* Operation classes with a latency histogram. */
enum larder_latency_op {
	LARDER_LATENCY_GET, LARDER_LATENCY_PUT, LARDER_LATENCY_EXISTS, LARDER_LATENCY_OTHER,
	LARDER_LATENCY_OPS
};

#define LARDER_LATENCY_BUCKETS 160u	/* bounds: base/hist.h, documented in docs/ledger.md */

#define LARDER_LEDGER_AGES 10u

struct larder_usage {
	uint64_t ops[LARDER_OP_MAX];	/* finished operations by enum larder_opcode */
	uint64_t status[32];		/* their outcome by enum larder_status */
	uint64_t bytes[LARDER_CAUSES];
	uint64_t get_hits;		/* GET: requests that found their object */
	uint64_t get_hit_bytes;
	uint64_t exists_keys;
	uint64_t exists_present;
	uint64_t leading_run_keys;	/* of EXISTS: length of leading runs */
	uint64_t put_new;		/* PUTs that stored something */
	uint64_t evicted_objects;
	uint64_t evicted_bytes;
	uint64_t expired_objects;
	uint64_t checksum_errors;
	uint64_t layout_mismatches;
	uint64_t put_not_admitted;	/* refused by the namespace's admission */
	/* evictions by time since the last touch: below 1 s, below 4^i s, the last: all the rest */
	uint64_t evicted_age[LARDER_LEDGER_AGES];
	/* requests (or, for leases, keys) refused for a limit, by enum larder_limit */
	uint64_t refused[LARDER_LEDGER_LIMITS];
	uint64_t fills;			/* fill leases given */
	uint64_t fills_lapsed;		/* of them, those whose time ran out or whose owner left */
	uint64_t fills_refused;		/* fill leases not given: the node or the tenant has many */
	uint64_t waits_refused;		/* requests that would have waited, and were told BUSY */
	char tenant[40];		/* whose row it is, as in `names` */
	uint64_t reserved[25];
};
static_assert(sizeof(struct larder_usage) == (64 + 32 + 8 + 22 + 32 + 4 + 30) * 8, "layout");

struct larder_gauges {
	uint64_t resident_bytes;	/* pages held */
	uint64_t value_bytes;		/* lengths of values */
	uint64_t objects;
	uint64_t pinned_bytes;
	uint64_t leased_bytes;
	uint64_t leases;
	uint64_t namespaces;
	uint64_t connections;
	uint64_t regions;
	uint64_t region_bytes;
	uint64_t in_flight_lookup;
	uint64_t in_flight_fetch;
	uint64_t in_flight_write;
	uint64_t fills;			/* fill leases held */
	uint64_t waiting;		/* requests parked for another writer */
	char tenant[40];		/* as in `names` */
	uint64_t reserved[12];
};
static_assert(sizeof(struct larder_gauges) == 32 * 8, "layout");

struct larder_latency {
	/* ns, node-side service time */
	uint64_t buckets[LARDER_LATENCY_OPS][LARDER_LATENCY_BUCKETS];
	uint64_t sum_ns[LARDER_LATENCY_OPS];
};

struct larder_ledger_name {
	char tenant[40];		/* NUL-terminated; empty: unused slot */
	uint64_t id;			/* stable id in the record file */
	uint64_t reserved[2];
};
static_assert(sizeof(struct larder_ledger_name) == 64, "layout");

struct larder_node_section {
	uint64_t start_time_ms;		/* wall clock */
	uint64_t heartbeat_ns;		/* monotonic, last turn of any reactor */
	uint64_t pages;
	uint64_t pages_free;
	uint64_t page_size_bytes;
	uint64_t records;
	uint64_t records_free;
	uint64_t objects;
	uint64_t connections;
	uint64_t evictions;
	uint64_t rejected_connections;
	uint64_t protocol_errors;
	uint64_t auth_failures;
	uint64_t peers_expired;		/* keepalive or stall ran out */
	uint64_t turns;
	uint64_t gaps;			/* turns that came over a second late */
	uint64_t draining;
	uint64_t rebuilt_objects;
	uint64_t dropped_records;
	uint64_t quarantined;
	uint64_t sigbus;		/* regions whose holes were met */
	uint64_t scrubbed_bytes;
	uint64_t scrub_passes;		/* times that every object was looked at */
	uint64_t limits_written;	/* values that were set through the `limits` map */
	uint64_t limits_refused;	/* what could not be: it was written back */
	uint64_t reserved[39];
};
static_assert(sizeof(struct larder_node_section) == 64 * 8, "layout");

enum larder_ledger_section {
	LARDER_SECTION_USAGE,		/* struct larder_usage [writers][LARDER_LEDGER_TENANTS] */
	LARDER_SECTION_GAUGES,		/* struct larder_gauges [LARDER_LEDGER_TENANTS] */
	LARDER_SECTION_LATENCY,		/* struct larder_latency [writers] */
	/* uint64_t [LARDER_LEDGER_TENANTS * LARDER_LEDGER_LIMITS] */
	LARDER_SECTION_LIMITS,
	LARDER_SECTION_EFFECTIVE,	/* the same */
	LARDER_SECTION_NAMES,		/* struct larder_ledger_name [LARDER_LEDGER_TENANTS] */
	LARDER_SECTION_NODE,		/* struct larder_node_section [1] */
	LARDER_SECTIONS
};

struct larder_ledger_header {
	uint32_t magic;
	uint32_t layout;
	uint32_t writers;
	uint32_t tenants;
	struct {
		uint64_t offset;
		uint64_t size;
	} section[LARDER_SECTIONS];
};

/* "usage", ...; its pin is PATH/NAME_LAYOUT: "/run/larder/bpf/usage_2". */
const char *larder_ledger_section_name(unsigned section);
/* What a section is an array of, and how many: of a BPF array, its value size and max_entries. */
void larder_ledger_geometry(unsigned section, uint32_t writers, uint32_t *ret_value_size,
			    uint32_t *ret_entries);

#ifdef __cplusplus
}
#endif
#endif
