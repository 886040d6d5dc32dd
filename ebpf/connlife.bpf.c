// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The life of connections and their regions by the node's probes, and, where there is RDMA, by what
 * the kernel sees of it: the connection manager's events, queue pairs that come and go.
 */
#include "types.bpf.h"
#include "connlife.h"
#include "kernel.bpf.h"

const volatile __u32 wanted_tenant = 0xffffffff;
const volatile bool all_events;

struct conn {
	__u64 bytes, bytes_most;
	__u32 regions, regions_most;
	__u32 transport;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CONNLIFE_CONNS);
	__type(key, __u64);
	__type(value, struct conn);
} conns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

__u64 dropped;
__u64 seen[CONNLIFE_KINDS];

static __always_inline struct connlife_event *tell(__u8 kind, __u32 tenant)
{
	struct connlife_event *e;

	count_add(seen[kind], 1);
	if (wanted_tenant != 0xffffffff && tenant != wanted_tenant)
		return NULL;
	if (!all_events && kind != CONNLIFE_DOWN && kind < CONNLIFE_CM_EVENT)
		return NULL;
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		count_add(dropped, 1);
		return NULL;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->at_ns = bpf_ktime_get_ns();
	e->kind = kind;
	e->tenant = tenant;
	return e;
}

SEC("usdt")
int BPF_USDT(on_conn_up, __u64 id, __u64 transport)
{
	struct conn c = { .transport = transport };
	struct connlife_event *e;

	bpf_map_update_elem(&conns, &id, &c, BPF_ANY);
	e = tell(CONNLIFE_UP, LARDER_PROBE_NOBODY);
	if (e) {
		e->conn = id;
		e->transport = transport;
		bpf_ringbuf_submit(e, 0);
	}
	return 0;
}

SEC("usdt")
int BPF_USDT(on_conn_open, __u64 id, __u64 tenant, __u64 transport, __u64 cookie)
{
	struct connlife_event *e = tell(CONNLIFE_OPEN, tenant);

	if (e) {
		e->conn = id;
		e->transport = transport;
		bpf_ringbuf_submit(e, 0);
	}
	return 0;
}

SEC("usdt")
int BPF_USDT(on_conn_down, __u64 id, __u64 tenant, __u64 ns, __u64 requests)
{
	struct conn *c = bpf_map_lookup_elem(&conns, &id);
	struct connlife_event *e = tell(CONNLIFE_DOWN, tenant);

	if (e) {
		e->conn = id;
		e->ns = ns;
		e->requests = requests;
		if (c) {
			e->transport = c->transport;
			e->regions = c->regions_most;
			e->bytes = c->bytes_most;
		}
		bpf_ringbuf_submit(e, 0);
	}
	if (c)
		bpf_map_delete_elem(&conns, &id);
	return 0;
}

/* A connection is one reactor's: nobody else counts in its entry at the same time. */
SEC("usdt")
int BPF_USDT(on_region_add, __u64 id, __u64 tenant, __u64 region, __u64 bytes)
{
	struct conn *c = bpf_map_lookup_elem(&conns, &id);
	struct connlife_event *e;

	if (c) {
		c->bytes += bytes;
		c->regions++;
		if (c->bytes > c->bytes_most)
			c->bytes_most = c->bytes;
		if (c->regions > c->regions_most)
			c->regions_most = c->regions;
	}
	e = tell(CONNLIFE_REGION_ADD, tenant);
	if (e) {
		e->conn = id;
		e->regions = region;
		e->bytes = bytes;
		bpf_ringbuf_submit(e, 0);
	}
	return 0;
}

SEC("usdt")
int BPF_USDT(on_region_del, __u64 id, __u64 tenant, __u64 region, __u64 bytes)
{
	struct conn *c = bpf_map_lookup_elem(&conns, &id);
	struct connlife_event *e;

	if (c && c->regions > 0) {
		c->bytes -= bytes;
		c->regions--;
	}
	e = tell(CONNLIFE_REGION_DEL, tenant);
	if (e) {
		e->conn = id;
		e->regions = region;
		e->bytes = bytes;
		bpf_ringbuf_submit(e, 0);
	}
	return 0;
}

/* --- the kernel's own: each goes on without the others ------------------------------------- */

/* cm_event_handler(id_priv, event): an event of the connection manager goes to its user */
SEC("raw_tp/cm_event_handler")
int kernel_cm_event(struct bpf_raw_tracepoint_args *ctx)
{
	const struct rdma_cm_event *event = (const void *)ctx->args[1];
	struct connlife_event *e = tell(CONNLIFE_CM_EVENT, LARDER_PROBE_NOBODY);

	if (!e)
		return 0;
	if (bpf_core_field_exists(event->event)) {	/* else there is no RDMA in this kernel */
		e->number = BPF_CORE_READ(event, event);
		e->status = BPF_CORE_READ(event, status);
	}
	bpf_ringbuf_submit(e, 0);
	return 0;
}

static __always_inline void tell_qp(__u8 kind, const struct ib_qp *qp)
{
	struct connlife_event *e = tell(kind, LARDER_PROBE_NOBODY);

	if (!e)
		return;
	if (is_error(qp))
		e->status = (long)qp;
	else
		e->number = BPF_CORE_READ(qp, qp_num);
	e->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(e->comm, sizeof(e->comm));
	bpf_ringbuf_submit(e, 0);
}

/* ib_create_qp_user(device, pd, attr, udata, uobject, caller) */
SEC("fexit/ib_create_qp_user")
int BPF_PROG(kernel_qp_created, void *device, void *pd, void *attr, void *udata, void *uobject,
	     const char *caller, struct ib_qp *qp)
{
	tell_qp(CONNLIFE_QP_CREATED, qp);
	return 0;
}

SEC("fentry/ib_destroy_qp_user")
int BPF_PROG(kernel_qp_destroyed, struct ib_qp *qp)
{
	tell_qp(CONNLIFE_QP_DESTROYED, qp);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
