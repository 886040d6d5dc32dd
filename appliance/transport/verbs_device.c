/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device, as one transport uses it: a protection domain, one completion queue, one shared receive
 * queue, the buffers of both directions. Everything that the data path needs is made here.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "transport/verbs.h"

static const char *device_name(const struct ibv_context *context)
{
	return ibv_get_device_name(context->device);
}

/* --- limits -------------------------------------------------------------------------------- */

static bool device_may_pin_all(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	if (syscall(SYS_capget, &head, data) < 0)
		return false;
	return data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK);
}

/* Says what is too small, before anything was taken. */
static int device_plan(struct verbs_transport *t, struct ibv_context *context,
		       struct verbs_plan *plan)
{
	const struct transport_config *config = &t->config;
	struct ibv_device_attr a;
	struct rlimit limit;
	char text[VERBS_LINE];
	const char *fault;
	int e = ibv_query_device(context, &a);

	if (e) {
		log_err(config->log, "rdma: %s does not answer: %s", device_name(context),
			strerror(e));
		return -e;
	}
	struct verbs_caps caps = {
		.max_sge = (uint32_t)MIN(a.max_sge, a.max_srq_sge ? a.max_sge : 0),
		.max_qp_wr = (uint32_t)a.max_qp_wr,
		.max_cqe = (uint32_t)a.max_cqe,
		.max_srq = (uint32_t)a.max_srq,
		.max_srq_wr = (uint32_t)a.max_srq_wr,
		.max_reads_out = (uint32_t)a.max_qp_init_rd_atom,
		.max_reads_in = (uint32_t)a.max_qp_rd_atom,
		.max_mr_size = a.max_mr_size,
	};

	fault = verbs_plan_make(&caps, config->max_conns, VERBS_MAX_MESSAGE, config->memory_bytes,
				plan, text, sizeof(text));
	if (!fault && getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
		fault = verbs_plan_memlock(limit.rlim_cur, device_may_pin_all(),
					   plan->pinned_bytes, text, sizeof(text));
	if (!fault)
		return 0;
	log_err(config->log, "rdma: %s is not used: %s", device_name(context), fault);
	return -ENOSPC;
}

/* --- receives ------------------------------------------------------------------------------ */

void verbs_slot_idle(struct verbs_device *d, uint32_t slot)
{
	d->slots[slot].next = d->idle;
	d->idle = slot;
}

int verbs_slots_post(struct verbs_device *d)
{
	while (d->idle != VERBS_NO_SLOT) {
		struct ibv_recv_wr wr[VERBS_COMPLETIONS], *bad = NULL;
		struct ibv_sge sge[VERBS_COMPLETIONS];
		uint32_t n = 0;
		int e;

		for (; n < VERBS_COMPLETIONS && d->idle != VERBS_NO_SLOT; n++) {
			uint32_t slot = d->idle;

			d->idle = d->slots[slot].next;
			sge[n] = (struct ibv_sge){ .addr = (uintptr_t)verbs_slot_data(d, slot),
						   .length = VERBS_MAX_MESSAGE,
						   .lkey = d->rx_mr->lkey };
			wr[n] = (struct ibv_recv_wr){ .wr_id = slot, .sg_list = &sge[n],
						      .num_sge = 1 };
			if (n)
				wr[n - 1].next = &wr[n];
		}
		e = ibv_post_srq_recv(d->srq, wr, &bad);
		if (!e)
			continue;
		for (; bad; bad = bad->next)
			verbs_slot_idle(d, (uint32_t)bad->wr_id);
		return -e;
	}
	return 0;
}

/* --- making it ----------------------------------------------------------------------------- */

static int device_map(struct verbs_device *d, uint32_t n, uint8_t **ret, struct ibv_mr **ret_mr)
{
	size_t bytes = (size_t)n * VERBS_MAX_MESSAGE;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	*ret = p;
	*ret_mr = ibv_reg_mr(d->pd, p, bytes, IBV_ACCESS_LOCAL_WRITE);
	return *ret_mr ? 0 : -errno;
}

static int device_buffers(struct verbs_device *d)
{
	const struct verbs_plan *p = &d->plan;
	int r = device_map(d, p->receives, &d->rx_memory, &d->rx_mr);

	if (r == 0)
		r = device_map(d, p->send_buffers, &d->tx_memory, &d->tx_mr);
	if (r < 0)
		return r;
	d->slots = calloc(p->receives, sizeof(*d->slots));
	d->tx_free = calloc(p->send_buffers, sizeof(*d->tx_free));
	if (!d->slots || !d->tx_free)
		return -ENOMEM;
	for (uint32_t i = p->receives; i-- > 0;)
		verbs_slot_idle(d, i);
	for (uint32_t i = p->send_buffers; i-- > 0;)
		d->tx_free[d->n_tx_free++] = (uint16_t)i;
	d->receives_left = p->receives;
	return verbs_slots_post(d);
}

static int device_domain(struct verbs_device *d)
{
	struct verbs_transport *t = d->transport;
	int r;

	if (!t->config.memory_bytes) {
		d->pd = ibv_alloc_pd(d->context);
		return d->pd ? 0 : -errno;
	}
	r = verbs_memory_get(t->config.log, d->context, &t->config, &d->plan, &d->memory);
	if (r == 0)
		d->pd = d->memory->pd;
	return r;
}

static int device_queues(struct verbs_device *d)
{
	struct ibv_srq_init_attr srq = {
		.attr = { .max_wr = d->plan.receives, .max_sge = 1 },
	};

	d->channel = ibv_create_comp_channel(d->context);
	if (!d->channel)
		return -errno;
	if (fcntl(d->channel->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	d->cq = ibv_create_cq(d->context, (int)d->plan.cqe, d, d->channel, 0);
	if (!d->cq)
		return -errno;
	d->srq = ibv_create_srq(d->pd, &srq);
	return d->srq ? 0 : -errno;
}

static int device_open(struct verbs_device *d)
{
	struct verbs_transport *t = d->transport;
	int r = device_domain(d);

	if (r < 0)
		return r;
	r = device_queues(d);
	if (r == 0)
		r = device_buffers(d);
	if (r == 0)
		r = verbs_watch(t, d->channel->fd);
	if (r < 0)
		log_err(t->config.log, "rdma: %s is not used: its queues can not be made: %s",
			device_name(d->context), verbs_explain(r));
	return r;
}

int verbs_device_get(struct verbs_transport *t, struct ibv_context *context,
		     struct verbs_device **ret)
{
	struct verbs_plan plan = { 0 };
	struct verbs_device *d;
	int r;

	list_for_each(it, &t->devices) {
		d = list_entry(it, struct verbs_device, link);
		if (d->context == context && !d->removed) {
			*ret = d;
			return 0;
		}
	}
	r = device_plan(t, context, &plan);
	if (r < 0)
		return r;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->transport = t;
	d->context = context;
	d->plan = plan;
	d->idle = VERBS_NO_SLOT;
	for (uint32_t i = 0; i < VERBS_QP_BUCKETS; i++)
		list_init(&d->qps[i]);
	list_push_tail(&t->devices, &d->link);
	r = device_open(d);
	if (r < 0) {
		verbs_device_close(d);
		return r;
	}
	log_info(t->config.log, "rdma: %s: %u connections, %u receives, %u pieces a request, %llu "
		 "MiB registered in %u regions", device_name(context), plan.conns, plan.receives,
		 plan.sge, (unsigned long long)(t->config.memory_bytes >> 20), plan.mrs);
	*ret = d;
	return 0;
}

static void device_unmap(uint8_t *memory, uint32_t n)
{
	if (memory)
		(void)munmap(memory, (size_t)n * VERBS_MAX_MESSAGE);	/* our own: can't fail */
}

void verbs_device_close(struct verbs_device *d)
{
	list_remove(&d->link);
	if (d->channel)
		verbs_unwatch(d->transport, d->channel->fd);
	if (d->srq)
		(void)ibv_destroy_srq(d->srq);	/* no queue pair is left: what could refuse? */
	if (d->cq)
		(void)ibv_destroy_cq(d->cq);
	if (d->channel)
		(void)ibv_destroy_comp_channel(d->channel);
	if (d->rx_mr)
		(void)ibv_dereg_mr(d->rx_mr);
	if (d->tx_mr)
		(void)ibv_dereg_mr(d->tx_mr);
	if (d->memory)
		verbs_memory_put(d->memory);
	else if (d->pd)
		(void)ibv_dealloc_pd(d->pd);
	verbs_device_abandon(d);
}

void verbs_device_abandon(struct verbs_device *d)
{
	device_unmap(d->rx_memory, d->plan.receives);
	device_unmap(d->tx_memory, d->plan.send_buffers);
	free(d->slots);
	free(d->tx_free);
	free(d);
}

/* --- those that there are ------------------------------------------------------------------ */

bool verbs_device_is_up(struct ibv_context *context)
{
	struct ibv_device_attr a;

	if (ibv_query_device(context, &a))
		return false;
	for (uint8_t i = 1; i <= a.phys_port_cnt; i++) {
		struct ibv_port_attr port;

		if (ibv_query_port(context, i, &port) == 0 && port.state == IBV_PORT_ACTIVE)
			return true;
	}
	return false;
}

int verbs_device_get_all(struct verbs_transport *t)
{
	int n = 0, r = -ENODEV, opened = 0;
	struct ibv_context **all = rdma_get_devices(&n);

	if (!all)
		return -ENODEV;
	for (int i = 0; i < n; i++) {
		struct verbs_device *d;

		if (!verbs_device_is_up(all[i])) {
			log_notice(t->config.log, "rdma: %s has no port that is up",
				   device_name(all[i]));
			r = -ENETDOWN;
			continue;
		}
		r = verbs_device_get(t, all[i], &d);
		opened += r == 0;
	}
	rdma_free_devices(all);
	return opened ? 0 : r;
}
