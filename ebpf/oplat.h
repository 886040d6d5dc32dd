/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* larder-oplat: what its program and its process agree on. */
#ifndef LARDER_EBPF_OPLAT_H
#define LARDER_EBPF_OPLAT_H

#define OPLAT_SLOTS 44		/* TOOL_LOG2_SLOTS */
#define OPLAT_MAX 4096		/* histograms: tenants x operations x classes that occur */
#define OPLAT_CLASSES 6

/* Classes by bytes of payload: none, up to 4 KiB, 64 KiB, 1 MiB, 16 MiB, more. */
struct oplat_key {
	unsigned int tenant;
	unsigned char opcode;
	unsigned char class;
	unsigned char pad[2];
};

struct oplat_hist {
	unsigned long long count;
	unsigned long long sum_ns;
	unsigned int slots[OPLAT_SLOTS];
};

#endif
