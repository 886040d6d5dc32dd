/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* larder-witness: what its programs and its process agree on. */
#ifndef LARDER_EBPF_WITNESS_H
#define LARDER_EBPF_WITNESS_H

#define WITNESS_SOCKETS 65536
#define WITNESS_QPS 4096
#define WITNESS_NOBODY 0xffffffff	/* LARDER_PROBE_NOBODY */

/* One direction of one TCP connection. */
struct witness_way {
	unsigned long long packets;	/* as this edge sees them: large ones before they are cut */
	unsigned long long wire_bytes;	/* with IP and TCP headers */
	unsigned long long payload;	/* of TCP, each time it passes */
	unsigned long long repeated;	/* of that, bytes that had passed before */
	unsigned int next_seq;
	unsigned int begun;
};

struct witness_socket {
	struct witness_way in, out;	/* as the node sees them */
	unsigned long long conn;	/* 0: from before we began */
	unsigned int tenant;
	unsigned int pad;
};

/* RoCE v2 packets that came to one queue pair from one address. */
struct witness_qp {
	unsigned int source[4];		/* IPv4: in the last word */
	unsigned int qp;		/* destination */
	unsigned int pad;
};

enum witness_class { WITNESS_SEND, WITNESS_WRITE, WITNESS_READ, WITNESS_OTHER, WITNESS_CLASSES };

struct witness_roce {
	unsigned long long packets[WITNESS_CLASSES];
	unsigned long long payload[WITNESS_CLASSES];
	unsigned long long wire_bytes;	/* with Ethernet headers */
	unsigned long long repeated;	/* payload whose number had passed before */
	unsigned int next[2];		/* packet numbers: of requests, of answers */
	unsigned int begun[2];
};

#endif
