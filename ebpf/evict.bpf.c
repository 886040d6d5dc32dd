// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Who evicts whom, how old what goes is, and how often memory was short all the same. */
#include "types.bpf.h"
#include "evict.h"

const volatile __u32 wanted_tenant = 0xffffffff;

static const struct evict_sum zero;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, EVICT_MAX);
	__type(key, struct evict_key);
	__type(value, struct evict_sum);
} sums SEC(".maps");

__u64 lost;		/* had no place in the map */
__u64 alloc_failures;
__u64 alloc_failed_pages;

SEC("usdt")
int BPF_USDT(on_evict, __u64 tenant, __u64 for_tenant, __u64 bytes, __u64 age_ns, __u64 reason)
{
	struct evict_key key = { .tenant = tenant, .for_tenant = for_tenant, .reason = reason };
	struct evict_sum *s;
	__u32 slot = log2_of(age_ns / 1000000);

	if (wanted_tenant != 0xffffffff && tenant != wanted_tenant)
		return 0;
	s = find_or_make(&sums, &key, &zero);
	if (!s) {
		count_add(lost, 1);
		return 0;
	}
	if (slot >= EVICT_SLOTS)
		slot = EVICT_SLOTS - 1;
	count_add(s->objects, 1);
	count_add(s->bytes, bytes);
	count_add(s->age_ms[slot], 1);
	return 0;
}

SEC("usdt")
int BPF_USDT(on_page_alloc_fail, __u64 pages, __u64 free)
{
	count_add(alloc_failures, 1);
	count_add(alloc_failed_pages, pages);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
