/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel and bpftool are told of the ledger's maps. */
#ifndef LARDER_EBPF_MAPS_BTF_H
#define LARDER_EBPF_MAPS_BTF_H

#include <stdint.h>

#include <bpf/btf.h>
#include <larder/ledger.h>

/* Type ids. */
struct maps_btf {
	uint32_t key;
	uint32_t value[LARDER_SECTIONS];
};

/* The caller frees *@ret. 0 or -errno. */
int maps_btf_new(struct btf **ret, struct maps_btf *types);

#endif
