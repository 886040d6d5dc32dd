/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What attach.bpf.c counts of each probe. */
#ifndef LARDER_TESTS_PROBE_ATTACH_H
#define LARDER_TESTS_PROBE_ATTACH_H

#define ATTACH_PROBES 32u
#define ATTACH_ARGUMENTS 6u

struct attach_probe {
	unsigned long long hits;
	unsigned long long unreadable;		/* arguments that libbpf could not fetch */
	unsigned long long arguments;		/* of the last hit */
	unsigned long long sum[ATTACH_ARGUMENTS];
};

#endif
