/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue pair of a connection. It is ours rather than rdma_cm's, so that every step is seen
 * here: which address it uses, that it allows nothing to the peer where it should not, that no
 * retry is for ever.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "transport/verbs.h"

static struct list *qp_bucket(struct verbs_device *d, uint32_t number)
{
	return &d->qps[number % VERBS_QP_BUCKETS];
}

struct verbs_conn *verbs_qp_find(struct verbs_device *d, uint32_t number)
{
	list_for_each(it, qp_bucket(d, number)) {
		struct verbs_conn *c = list_entry(it, struct verbs_conn, bucket);

		if (c->qp->qp_num == number)
			return c;
	}
	return NULL;
}

int verbs_qp_make(struct verbs_conn *c)
{
	struct verbs_device *d = c->device;
	struct ibv_qp_init_attr attr = {
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.srq = d->srq,
		.cap = {
			.max_send_wr = VERBS_SQ + VERBS_SQ_SPARE,
			.max_send_sge = d->plan.sge,
			.max_inline_data = VERBS_INLINE_WANTED,
		},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	c->qp = ibv_create_qp(d->pd, &attr);
	if (!c->qp) {
		attr.cap.max_inline_data = 0;
		c->qp = ibv_create_qp(d->pd, &attr);
	}
	if (!c->qp)
		return -errno;
	c->max_inline = attr.cap.max_inline_data;
	list_push_tail(qp_bucket(d, c->qp->qp_num), &c->bucket);
	d->n_conns++;
	return 0;
}

static uint8_t qp_gid_type(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_ROCE_V1:
		return VERBS_GID_ROCE_V1;
	case IBV_GID_TYPE_ROCE_V2:
		return VERBS_GID_ROCE_V2;
	default:
		return VERBS_GID_IB;
	}
}

/* The address that rdma_cm chose: told, and refused where it would not work. */
static int qp_look_at_gid(struct verbs_conn *c, const struct ibv_qp_attr *attr)
{
	const struct larder_log *log = verbs_owner(c)->config.log;
	const char *name = ibv_get_device_name(c->device->context->device), *fault;
	struct ibv_gid_entry entry;
	char text[VERBS_GID_TEXT];
	int e = ibv_query_gid_ex(c->device->context, attr->port_num ? attr->port_num :
				 c->id->port_num, attr->ah_attr.grh.sgid_index, &entry, 0);

	if (e) {
		log_err(log, "rdma: %s: GID %u can not be read: %s", name,
			attr->ah_attr.grh.sgid_index, strerror(e));
		return -e;
	}
	c->gid = (struct verbs_gid){ .index = entry.gid_index,
				     .type = qp_gid_type(entry.gid_type) };
	memcpy(c->gid.raw, entry.gid.raw, sizeof(c->gid.raw));
	verbs_gid_text(&c->gid, text);
	fault = verbs_gid_fault(&c->gid);
	if (fault) {
		log_err(log, "rdma: %s: GID %u (%s, %s) is not used: %s", name, c->gid.index,
			verbs_gid_type_name(c->gid.type), text, fault);
		return -EADDRNOTAVAIL;
	}
	return 0;
}

static int qp_step(struct verbs_conn *c, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0, e;

	if (rdma_init_qp_attr(c->id, &attr, &mask) < 0)
		return -errno;
	if (mask & IBV_QP_ACCESS_FLAGS)
		attr.qp_access_flags = c->accepted ? 0 : IBV_ACCESS_REMOTE_READ |
							 IBV_ACCESS_REMOTE_WRITE;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr.max_rd_atomic = (uint8_t)(c->accepted ? c->reads : 0);
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr.max_dest_rd_atomic = (uint8_t)(c->accepted ? 0 : c->reads);
	if (mask & IBV_QP_RNR_RETRY)
		attr.rnr_retry = VERBS_RNR_RETRIES;
	if (mask & IBV_QP_RETRY_CNT)
		attr.retry_cnt = VERBS_RETRIES;
	if (mask & IBV_QP_AV && attr.ah_attr.is_global) {
		e = qp_look_at_gid(c, &attr);
		if (e < 0)
			return e;
	}
	e = ibv_modify_qp(c->qp, &attr, mask);
	return -e;
}

int verbs_qp_connect(struct verbs_conn *c)
{
	const struct transport_config *config = &verbs_owner(c)->config;
	char peer[TRANSPORT_ADDR_TEXT], gid[VERBS_GID_TEXT];
	int r = qp_step(c, IBV_QPS_INIT);

	if (r == 0)
		r = qp_step(c, IBV_QPS_RTR);
	if (r == 0)
		r = qp_step(c, IBV_QPS_RTS);
	if (r < 0)
		return r;
	verbs_peer_text(c, peer, sizeof(peer));
	verbs_gid_text(&c->gid, gid);
	log_info(config->log, "rdma: %s: %s, GID %u (%s, %s), %u reads at a time, window %u", peer,
		 ibv_get_device_name(c->device->context->device), c->gid.index,
		 verbs_gid_type_name(c->gid.type), gid, c->reads, c->window);
	return 0;
}

void verbs_qp_stop(struct verbs_conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_send_wr wr = { .wr_id = UINT64_MAX, .opcode = IBV_WR_SEND }, *bad;

	if (!c->qp)
		return;
	/* what is at the device comes back flushed, in order; the marker is the last */
	if (ibv_modify_qp(c->qp, &attr, IBV_QP_STATE) != 0)
		return;		/* destroying it is what is left, and that can not fail */
	if (c->wr_tail - c->wr_head < VERBS_SQ + VERBS_SQ_SPARE &&
	    ibv_post_send(c->qp, &wr, &bad) == 0)
		c->wr[c->wr_tail++ % VERBS_WRS] = (struct verbs_wr){ .buffer = -1, .ours = true };
}

void verbs_qp_free(struct verbs_conn *c)
{
	struct ibv_qp *qp = TAKE_PTR(c->qp);
	int e;

	if (!qp)
		return;
	list_remove(&c->bucket);
	c->device->n_conns--;
	e = ibv_destroy_qp(qp);
	if (e)
		log_err(verbs_owner(c)->config.log, "rdma: a queue pair can not be destroyed: %s",
			strerror(e));
}
