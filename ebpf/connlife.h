/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* larder-connlife: what its program and its process agree on. */
#ifndef LARDER_EBPF_CONNLIFE_H
#define LARDER_EBPF_CONNLIFE_H

#define CONNLIFE_CONNS 65536
#define CONNLIFE_COMM 16

enum connlife_kind {
	CONNLIFE_UP, CONNLIFE_OPEN, CONNLIFE_DOWN, CONNLIFE_REGION_ADD, CONNLIFE_REGION_DEL,
	CONNLIFE_CM_EVENT, CONNLIFE_QP_CREATED, CONNLIFE_QP_DESTROYED,
	CONNLIFE_KINDS
};

struct connlife_event {
	unsigned long long at_ns;	/* CLOCK_MONOTONIC */
	unsigned long long conn;
	unsigned long long ns;		/* DOWN: how long it stood */
	unsigned long long requests;	/* DOWN */
	unsigned long long bytes;	/* of the region; DOWN: of all of its regions, at most */
	unsigned int tenant;
	unsigned int regions;		/* DOWN: at most at a time; REGION_*: its number */
	unsigned int number;		/* QP_*: of the QP; CM_EVENT: which */
	int status;			/* of the kernel */
	unsigned int pid;		/* QP_*: who */
	unsigned char kind;
	unsigned char transport;
	unsigned char pad[2];
	char comm[CONNLIFE_COMM];	/* QP_* */
};

#endif
