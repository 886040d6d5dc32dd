/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* larder-slow: what its program and its process agree on. */
#ifndef LARDER_EBPF_SLOW_H
#define LARDER_EBPF_SLOW_H

#define SLOW_PHASES 5		/* LARDER_PHASES */
#define SLOW_UNDER_WAY 65536	/* requests that are followed at a time */

struct slow_event {
	unsigned long long op;
	unsigned long long conn;
	unsigned long long bytes;
	unsigned long long ns;
	unsigned long long end_ns;		/* CLOCK_MONOTONIC */
	/* when it came to each phase; 0 = it did not, or was not seen */
	unsigned long long at_ns[SLOW_PHASES];
	unsigned int tenant;
	unsigned char opcode;
	unsigned char status;
	unsigned char pad[2];
};

#endif
