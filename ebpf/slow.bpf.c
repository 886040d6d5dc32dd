// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Follows each request from its start and tells of those that took long. What is under way is in a
 * hash that forgets the oldest when it is full; what is told goes through a ring buffer, and what
 * has no room there is counted.
 */
#include "types.bpf.h"
#include "slow.h"

const volatile __u64 least_ns = 1000000;
const volatile __u32 wanted_tenant = 0xffffffff;

struct slow_way {
	__u64 conn;
	__u64 at_ns[SLOW_PHASES];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SLOW_UNDER_WAY);
	__type(key, __u64);
	__type(value, struct slow_way);
} ways SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

__u64 dropped;

static __always_inline bool wanted(__u64 tenant)
{
	return wanted_tenant == 0xffffffff || tenant == wanted_tenant;
}

SEC("usdt")
int BPF_USDT(on_op_start, __u64 op, __u64 tenant, __u64 opcode, __u64 conn, __u64 queued_ns)
{
	struct slow_way way = { .conn = conn, .at_ns = { queued_ns } };

	if (wanted(tenant))
		bpf_map_update_elem(&ways, &op, &way, BPF_ANY);
	return 0;
}

SEC("usdt")
int BPF_USDT(on_op_phase, __u64 op, __u64 tenant, __u64 opcode, __u64 phase)
{
	struct slow_way *way = bpf_map_lookup_elem(&ways, &op);

	barrier_var(phase);
	/* the first time counts: a cancelled reply comes twice */
	if (way && phase < SLOW_PHASES && !way->at_ns[phase])
		way->at_ns[phase] = bpf_ktime_get_ns();
	return 0;
}

SEC("usdt")
int BPF_USDT(on_op_done, __u64 op, __u64 tenant, __u64 opcode, __u64 status, __u64 bytes, __u64 ns)
{
	struct slow_way *way;
	struct slow_event *e;

	if (!wanted(tenant))
		return 0;
	way = bpf_map_lookup_elem(&ways, &op);
	if (ns < least_ns)
		goto out;
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		count_add(dropped, 1);
		goto out;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->op = op;
	e->bytes = bytes;
	e->ns = ns;
	e->end_ns = bpf_ktime_get_ns();
	e->tenant = tenant;
	e->opcode = opcode;
	e->status = status;
	if (way) {
		e->conn = way->conn;
		__builtin_memcpy(e->at_ns, way->at_ns, sizeof(e->at_ns));
		/* when the node looked at its clock, not when we came to it */
		e->at_ns[LARDER_PHASE_COMPLETED] = way->at_ns[LARDER_PHASE_QUEUED] + ns;
	}
	bpf_ringbuf_submit(e, 0);
out:
	if (way)
		bpf_map_delete_elem(&ways, &op);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
