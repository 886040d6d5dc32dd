// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* A histogram of service times for each tenant, operation and class of size. */
#include "types.bpf.h"
#include "oplat.h"

const volatile __u32 wanted_tenant = 0xffffffff;

static const struct oplat_hist zero;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OPLAT_MAX);
	__type(key, struct oplat_key);
	__type(value, struct oplat_hist);
} hists SEC(".maps");

__u64 lost;	/* had no place in the map */

static __always_inline __u8 class_of(__u64 bytes)
{
	if (bytes == 0)
		return 0;
	if (bytes <= 4096)
		return 1;
	if (bytes <= 65536)
		return 2;
	if (bytes <= 1048576)
		return 3;
	return bytes <= 16777216 ? 4 : 5;
}

SEC("usdt")
int BPF_USDT(on_op_done, __u64 op, __u64 tenant, __u64 opcode, __u64 status, __u64 bytes, __u64 ns)
{
	struct oplat_key key = { .tenant = tenant, .opcode = opcode, .class = class_of(bytes) };
	struct oplat_hist *h;
	__u32 slot = log2_of(ns);

	if (status == LARDER_PROBE_LOST)
		return 0;
	if (wanted_tenant != 0xffffffff && tenant != wanted_tenant)
		return 0;
	h = find_or_make(&hists, &key, &zero);
	if (!h) {
		count_add(lost, 1);
		return 0;
	}
	if (slot >= OPLAT_SLOTS)
		slot = OPLAT_SLOTS - 1;
	count_add(h->count, 1);
	count_add(h->sum_ns, ns);
	count_add(h->slots[slot], 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
