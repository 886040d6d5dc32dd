// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The ledger's figures once more, from the probes alone and in maps of our own. Reactors count at
 * the same time: everything is an atomic add.
 */
#include "types.bpf.h"
#include "acct.h"

#define OP_PUT 0x20
#define OP_GET 0x28
#define OP_EXISTS 0x29
#define CLASS_GET 0
#define CLASS_PUT 1
#define CLASS_EXISTS 2
#define CLASS_OTHER 3
#define CAUSE_READ 0
#define CAUSE_WRITE 1
#define CAUSE_VIEW 2
#define STATUS_OK 0
#define STATUS_TOO_SMALL 10	/* there, and no room for it */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ACCT_TENANTS);
	__type(key, __u32);
	__type(value, struct acct_usage);
} acct_usage SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ACCT_TENANTS * ACCT_LATENCY_OPS);
	__type(key, __u32);
	__type(value, struct acct_latency);
} acct_latency SEC(".maps");

/* As hist_bucket of the node: bounds 0 to 4, then four steps an octave, inclusive above. */
static __always_inline __u64 bucket_of(__u64 value)
{
	__u64 below = value - 1;
	__u64 octave, bucket;

	if (value <= 4)
		return value;
	octave = log2_of(below) - 2;
	bucket = 5 + 4 * octave + ((below >> octave) & 3);
	return bucket < ACCT_BUCKETS ? bucket : ACCT_BUCKETS - 1;
}

static __always_inline __u32 class_of(__u32 tenant, __u64 opcode)
{
	if (tenant == ACCT_VIEW)
		return CLASS_OTHER;
	if (opcode == OP_GET)
		return CLASS_GET;
	if (opcode == OP_PUT)
		return CLASS_PUT;
	return opcode == OP_EXISTS ? CLASS_EXISTS : CLASS_OTHER;
}

SEC("usdt")
int BPF_USDT(on_op_done, __u64 op, __u64 tenant, __u64 opcode, __u64 status, __u64 bytes, __u64 ns)
{
	__u32 slot = tenant, class = class_of(slot, opcode), at = slot * ACCT_LATENCY_OPS + class;
	__u32 cause = opcode != OP_GET ? CAUSE_WRITE : slot == ACCT_VIEW ? CAUSE_VIEW : CAUSE_READ;
	struct acct_usage *u = bpf_map_lookup_elem(&acct_usage, &slot);
	struct acct_latency *l = bpf_map_lookup_elem(&acct_latency, &at);
	__u64 bucket;

	if (!u || !l)
		return 0;
	if (bytes)
		count_add(u->bytes[cause], bytes);
	if (status == LARDER_PROBE_LOST) {
		count_add(u->lost, 1);
		return 0;
	}
	count_add(u->ops[opcode < ACCT_OPS ? opcode : 0], 1);
	count_add(u->status[status & (ACCT_STATUSES - 1)], 1);
	if (opcode == OP_GET && (status == STATUS_OK || status == STATUS_TOO_SMALL))
		count_add(u->get_hits, 1);
	count_add(u->sum_ns[class & (ACCT_LATENCY_OPS - 1)], ns);
	bucket = bucket_of(ns);
	/* or the compiler compares a copy, and the verifier sees no bound */
	barrier_var(bucket);
	if (bucket < ACCT_BUCKETS)
		count_add(l->buckets[bucket], 1);
	return 0;
}

SEC("usdt")
int BPF_USDT(on_reject, __u64 tenant, __u64 limit, __u64 count)
{
	__u32 slot = tenant;
	struct acct_usage *u = bpf_map_lookup_elem(&acct_usage, &slot);

	if (u)
		count_add(u->refused[limit & (ACCT_LIMITS - 1)], count);
	return 0;
}

SEC("usdt")
int BPF_USDT(on_evict, __u64 tenant, __u64 for_tenant, __u64 bytes, __u64 age_ns, __u64 reason)
{
	__u32 slot = tenant;
	struct acct_usage *u = bpf_map_lookup_elem(&acct_usage, &slot);

	if (u && reason == LARDER_EVICT_ROOM) {
		count_add(u->evicted_objects, 1);
		count_add(u->evicted_bytes, bytes);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
