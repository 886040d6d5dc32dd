// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* One program for every probe: hits, how many arguments there are, their sums. The cookie that it
 * was attached with says which. */
#include "types.bpf.h"
#include "attach.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ATTACH_PROBES);
	__type(key, __u32);
	__type(value, struct attach_probe);
} probes SEC(".maps");

static __always_inline void one(struct pt_regs *ctx, struct attach_probe *p, __u32 i, __u32 n)
{
	long value = 0;

	if (i >= n)
		return;
	if (bpf_usdt_arg(ctx, i, &value) < 0)
		count_add(p->unreadable, 1);
	else
		count_add(p->sum[i], (__u64)value);
}

SEC("usdt")
int hit(struct pt_regs *ctx)
{
	__u32 at = bpf_usdt_cookie(ctx);
	struct attach_probe *p = bpf_map_lookup_elem(&probes, &at);
	__u32 n = bpf_usdt_arg_cnt(ctx);

	if (!p)
		return 0;
	count_add(p->hits, 1);
	p->arguments = n;
	one(ctx, p, 0, n);
	one(ctx, p, 1, n);
	one(ctx, p, 2, n);
	one(ctx, p, 3, n);
	one(ctx, p, 4, n);
	one(ctx, p, 5, n);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
