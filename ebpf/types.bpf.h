/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What every program of ours begins with, on the kernel's side: the kernel's published headers (no
 * vmlinux.h, so that a build needs no running kernel's BTF) and libbpf's.
 */
#ifndef LARDER_EBPF_TYPES_BPF_H
#define LARDER_EBPF_TYPES_BPF_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/ptrace.h>

typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/usdt.bpf.h>

#include <larder/probes.h>

static __always_inline __u32 log2_of(__u64 v)
{
	__u32 n = 0;

	if (v >> 32) { n += 32; v >>= 32; }
	if (v >> 16) { n += 16; v >>= 16; }
	if (v >> 8) { n += 8; v >>= 8; }
	if (v >> 4) { n += 4; v >>= 4; }
	if (v >> 2) { n += 2; v >>= 2; }
	if (v >> 1)
		n++;
	return n;
}

/* The entry of @key; where there is none, one of zeros (@zero). NULL: the map is full. */
static __always_inline void *find_or_make(void *map, const void *key, const void *zero)
{
	void *found = bpf_map_lookup_elem(map, key);

	if (found)
		return found;
	/* -EEXIST when another CPU was quicker: then that one's is found */
	bpf_map_update_elem(map, key, zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

#define count_add(counter, n) __sync_fetch_and_add(&(counter), (n))

#endif
