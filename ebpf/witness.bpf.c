// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * What passed the kernel's edge, counted without a look at the node: TCP bytes of each socket of a
 * cgroup, and RoCE v2 by the headers of its packets. Only whose a TCP socket is comes from a probe.
 */
#include "types.bpf.h"
#include <bpf/bpf_endian.h>
#include "witness.h"

#define ETH_IPV4 0x0800
#define ETH_IPV6 0x86dd
#define PROTO_TCP 6
#define PROTO_UDP 17
#define ROCE_PORT 4791

static const struct witness_socket no_socket = { .tenant = WITNESS_NOBODY };
static const struct witness_roce no_roce;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WITNESS_SOCKETS);
	__type(key, __u64);
	__type(value, struct witness_socket);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WITNESS_QPS);
	__type(key, struct witness_qp);
	__type(value, struct witness_roce);
} qps SEC(".maps");

__u64 lost;		/* packets whose socket or queue pair had no place */
__u64 malformed;	/* to RoCE's port, and no RoCE */

/* --- TCP: cgroup skb ------------------------------------------------------------------------- */

struct tcp_head {
	__u16 source, dest;
	__u32 seq, ack;
	__u8 offset, flags;
	__u16 window;
} __attribute__((packed));

/* Where TCP begins in a packet that begins with IP; 0: it is none. */
static __always_inline __u32 tcp_at(struct __sk_buff *skb)
{
	__u8 first, proto;

	if (bpf_skb_load_bytes(skb, 0, &first, 1) < 0)
		return 0;
	if (first >> 4 == 4) {
		if (bpf_skb_load_bytes(skb, 9, &proto, 1) < 0 || proto != PROTO_TCP)
			return 0;
		return (first & 15) * 4;
	}
	/* IPv6: the kernel's own TCP puts nothing before itself */
	if (first >> 4 != 6 || bpf_skb_load_bytes(skb, 6, &proto, 1) < 0 || proto != PROTO_TCP)
		return 0;
	return 40;
}

static __always_inline void tcp_count(struct witness_way *w, struct __sk_buff *skb, __u32 at,
				      const struct tcp_head *tcp)
{
	__u32 head = at + (tcp->offset >> 4) * 4, seq = bpf_ntohl(tcp->seq);
	__u32 bytes = skb->len > head ? skb->len - head : 0, again;

	count_add(w->packets, 1);
	count_add(w->wire_bytes, skb->len);
	if (!bytes)
		return;
	count_add(w->payload, bytes);
	if (w->begun) {
		again = w->next_seq - seq;	/* how far behind the newest it begins */
		if ((__s32)again > 0)
			count_add(w->repeated, again < bytes ? again : bytes);
	}
	if (!w->begun || (__s32)(seq + bytes - w->next_seq) > 0) {
		w->next_seq = seq + bytes;
		w->begun = 1;
	}
}

static __always_inline int tcp_see(struct __sk_buff *skb, bool out)
{
	__u64 cookie = bpf_get_socket_cookie(skb);
	struct witness_socket *s;
	struct tcp_head tcp;
	__u32 at = tcp_at(skb);

	if (!at || !cookie || bpf_skb_load_bytes(skb, at, &tcp, sizeof(tcp)) < 0)
		return 1;
	s = find_or_make(&sockets, &cookie, &no_socket);
	if (s)
		tcp_count(out ? &s->out : &s->in, skb, at, &tcp);
	else
		count_add(lost, 1);
	return 1;	/* let it pass, whatever it is */
}

SEC("cgroup_skb/ingress")
int tcp_in(struct __sk_buff *skb)
{
	return tcp_see(skb, false);
}

SEC("cgroup_skb/egress")
int tcp_out(struct __sk_buff *skb)
{
	return tcp_see(skb, true);
}

SEC("usdt")
int BPF_USDT(on_conn_open, __u64 conn, __u64 tenant, __u64 transport, __u64 cookie)
{
	struct witness_socket *s;

	if (!cookie)
		return 0;
	s = find_or_make(&sockets, &cookie, &no_socket);
	if (s) {
		s->conn = conn;
		s->tenant = tenant;
	}
	return 0;
}

/* --- RoCE v2: xdp ---------------------------------------------------------------------------- */

struct bth {
	__u8 opcode, flags;	/* flags: solicited, migration, pad count (2 bits), version */
	__u16 partition;
	__u32 qp;		/* 8 bits reserved, 24 of the destination */
	__u32 psn;		/* acknowledge request, 7 bits reserved, 24 of the number */
} __attribute__((packed));

/* Header bytes that follow BTH in a packet of a reliable connection, by opcode; -1: none such. */
static __always_inline int roce_extended(__u8 opcode, __u32 *class)
{
	*class = WITNESS_SEND;
	if (opcode <= 0x02 || opcode == 0x04)
		return 0;
	if (opcode == 0x03 || opcode == 0x05 || opcode == 0x16 || opcode == 0x17)
		return 4;
	*class = WITNESS_WRITE;
	if (opcode == 0x06 || opcode == 0x0a)
		return 16;
	if (opcode == 0x07 || opcode == 0x08)
		return 0;
	if (opcode == 0x09)
		return 4;
	if (opcode == 0x0b)
		return 20;
	*class = WITNESS_READ;
	if (opcode == 0x0d || opcode == 0x0f || opcode == 0x10)
		return 4;
	if (opcode == 0x0e)
		return 0;
	*class = WITNESS_OTHER;
	if (opcode == 0x0c)
		return 16;
	if (opcode == 0x11)
		return 4;
	if (opcode == 0x12)
		return 12;
	return opcode == 0x13 || opcode == 0x14 ? 28 : -1;
}

/* @key->source is filled; @udp_bytes: length by the UDP header. */
static __always_inline void roce_count(struct witness_qp *key, const struct bth *bth,
				       __u32 udp_bytes, __u64 wire_bytes)
{
	__u32 class, pad = bth->flags >> 4 & 3, psn = bpf_ntohl(bth->psn) & 0xffffff, payload = 0;
	/* UDP 8, BTH 12, the invariant CRC 4 */
	int extended = roce_extended(bth->opcode, &class), heads = 8 + 12 + 4 + extended + pad;
	struct witness_roce *r;
	__u32 answer;

	if (extended < 0)
		heads = 8 + 12 + 4 + pad;	/* management datagrams, others' */
	if (udp_bytes < heads) {
		count_add(malformed, 1);
		return;
	}
	if (extended >= 0 && class != WITNESS_OTHER)
		payload = udp_bytes - heads;
	key->qp = bpf_ntohl(bth->qp) & 0xffffff;
	r = find_or_make(&qps, key, &no_roce);
	if (!r || class >= WITNESS_CLASSES) {
		count_add(lost, 1);
		return;
	}
	count_add(r->packets[class], 1);
	count_add(r->payload[class], payload);
	count_add(r->wire_bytes, wire_bytes);
	answer = class == WITNESS_READ;
	if (!payload)
		return;
	/* numbers are 24 bits and wrap: behind by less than half of them is behind */
	if (r->begun[answer] && ((psn - r->next[answer]) & 0x800000)) {
		count_add(r->repeated, payload);
		return;
	}
	r->begun[answer] = 1;
	r->next[answer] = (psn + 1) & 0xffffff;
}

struct ipv4_head {
	__u8 version, tos;
	__u16 length, id, fragment;
	__u8 ttl, proto;
	__u16 check;
	__u32 source, dest;
} __attribute__((packed));

struct ipv6_head {
	__u32 version;
	__u16 length;
	__u8 next, hops;
	__u32 source[4], dest[4];
} __attribute__((packed));

struct udp_head {
	__u16 source, dest, length, check;
} __attribute__((packed));

static __always_inline void *ip_udp(void *data, void *end, struct witness_qp *key)
{
	__u16 type = bpf_ntohs(*(__u16 *)(data + 12));
	void *ip = data + 14;

	if (type == ETH_IPV4) {
		struct ipv4_head *h = ip;

		if ((void *)(h + 1) > end || h->version != 0x45 || h->proto != PROTO_UDP)
			return NULL;	/* RoCE v2 has no IP options */
		key->source[3] = h->source;
		return h + 1;
	}
	if (type == ETH_IPV6) {
		struct ipv6_head *h = ip;

		if ((void *)(h + 1) > end || h->next != PROTO_UDP)
			return NULL;
		__builtin_memcpy(key->source, h->source, sizeof(key->source));
		return h + 1;
	}
	return NULL;
}

SEC("xdp.frags")
int roce_in(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct witness_qp key = { 0 };
	struct udp_head *udp;
	struct bth *bth;

	if (data + 14 > end)
		return XDP_PASS;
	udp = ip_udp(data, end, &key);
	if (!udp || (void *)(udp + 1) > end || udp->dest != bpf_htons(ROCE_PORT))
		return XDP_PASS;
	bth = (void *)(udp + 1);
	if ((void *)(bth + 1) > end) {
		count_add(malformed, 1);
		return XDP_PASS;
	}
	roce_count(&key, bth, bpf_ntohs(udp->length),
		   ((void *)udp - data) + bpf_ntohs(udp->length));
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
