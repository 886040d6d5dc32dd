/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What differs from kernel to kernel, in one place. Only the fields that we read; libbpf moves each
 * to where the running kernel has it (CO-RE), and a program that asks bpf_core_field_exists goes on
 * without one that is gone.
 *
 *	ib_create_qp_user, ib_destroy_qp_user	functions of ib_core since 5.16 (fentry by BTF)
 *	rdma_cma:*				tracepoints of rdma_cm since 5.6
 *	ring buffers				5.8
 *	bpf_get_attach_cookie			5.15; before it libbpf finds probes by address
 *	lookup_and_delete of a hash		5.14; before it two calls (oplat.c)
 */
#ifndef LARDER_EBPF_KERNEL_BPF_H
#define LARDER_EBPF_KERNEL_BPF_H

#include <bpf/bpf_core_read.h>

struct ib_qp {
	__u32 qp_num;
} __attribute__((preserve_access_index));

struct rdma_cm_event {
	unsigned int event;	/* enum rdma_cm_event_type */
	int status;
} __attribute__((preserve_access_index));

/* A pointer that is an error instead, as the kernel makes them. */
static __always_inline bool is_error(const void *p)
{
	return (unsigned long)p >= (unsigned long)-4095;
}

#endif
