/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* larder-evict: what its program and its process agree on. */
#ifndef LARDER_EBPF_EVICT_H
#define LARDER_EBPF_EVICT_H

#define EVICT_SLOTS 44		/* TOOL_LOG2_SLOTS; of milliseconds here */
#define EVICT_MAX 4096

struct evict_key {
	unsigned int tenant;
	unsigned int for_tenant;	/* LARDER_PROBE_NOBODY: ahead of need, or expired */
	unsigned int reason;
};

struct evict_sum {
	unsigned long long objects;
	unsigned long long bytes;
	unsigned int age_ms[EVICT_SLOTS];
};

#endif
