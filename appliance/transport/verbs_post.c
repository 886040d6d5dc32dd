/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From descriptors to work requests, strictly in order: what was accepted first is posted first, so
 * a reply leaves after the bytes that it speaks of. A long transfer becomes several requests of at
 * most VERBS_CHUNK bytes and as many pieces as the device takes. Requests are handed to the device
 * several at a time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "transport/verbs.h"

#define POST_BATCH 8u

/* What goes to the device with one call. */
struct post {
	uint32_t n;
	struct ibv_send_wr wr[POST_BATCH];
	struct ibv_sge sge[POST_BATCH][VERBS_SGE_WANTED + 2];
};

static bool post_has_room(const struct verbs_conn *c)
{
	return c->wr_tail - c->wr_head < VERBS_SQ;
}

static struct ibv_send_wr *post_add(struct verbs_conn *c, struct post *p, int16_t buffer, bool ours)
{
	struct ibv_send_wr *wr = &p->wr[p->n];

	*wr = (struct ibv_send_wr){ .wr_id = UINT64_MAX, .sg_list = p->sge[p->n] };
	if (p->n)
		p->wr[p->n - 1].next = wr;
	p->n++;
	c->wr[c->wr_tail++ % VERBS_WRS] = (struct verbs_wr){ .tx = c->tx.next, .buffer = buffer,
							     .ours = ours };
	return wr;
}

static void post_out(struct verbs_conn *c, struct post *p)
{
	struct ibv_send_wr *bad = NULL;
	int e = p->n ? ibv_post_send(c->qp, p->wr, &bad) : 0;

	p->n = 0;
	if (!e)
		return;
	log_err(verbs_owner(c)->config.log, "rdma: the device takes no work request: %s",
		strerror(e));
	/* which of them it has is known only to it: none comes back before the queue pair goes */
	verbs_conn_end(c, -EIO, -ECONNRESET);
}

static void post_take(struct verbs_conn *c, const struct verbs_cut *cut)
{
	struct verbs_tx *q = &c->tx;
	struct verbs_tx_slot *s = &q->slot[q->next % VERBS_MAX_TX];

	s->pieces -= cut->at - q->iov_head;
	q->iov_head = cut->at;
	q->iov_skip = cut->skip;
}

static struct verbs_cut post_cut(const struct verbs_tx *q, const struct verbs_tx_slot *s)
{
	return (struct verbs_cut){ .iov = q->iov, .mask = VERBS_IOVS - 1, .at = q->iov_head,
				   .end = q->iov_head + s->pieces, .skip = q->iov_skip };
}

/* The head, which ends without (the rest of) its pieces. */
static void post_skip(struct verbs_conn *c, struct verbs_tx_slot *s)
{
	c->tx.iov_head += s->pieces;
	c->tx.iov_skip = 0;
	s->pieces = 0;
	s->posted = true;
	c->tx.next++;
}

/* A message: inline when it is small, else out of a buffer of the device's. */
static bool post_message(struct verbs_conn *c, struct verbs_tx_slot *s, struct post *p)
{
	struct verbs_device *d = c->device;
	struct verbs_cut cut = post_cut(&c->tx, s);
	bool small = s->length <= c->max_inline && s->pieces <= d->plan.sge;
	struct iovec iov[VERBS_MAX_IOV];
	struct ibv_send_wr *wr;
	int16_t buffer = -1;
	uint8_t *at = NULL;
	size_t bytes;
	uint32_t n;

	if (s->length > c->turn_left || !verbs_credits_may_send(&c->credits))
		return false;
	if (!small) {
		if (c->n_buffers >= VERBS_SEND_BUFFERS)
			return false;
		c->starved = d->n_tx_free == 0;
		if (c->starved)
			return false;
		buffer = (int16_t)d->tx_free[--d->n_tx_free];
		c->n_buffers++;
		at = d->tx_memory + (size_t)buffer * VERBS_MAX_MESSAGE;
	}
	n = verbs_cut_next(&cut, s->length, VERBS_MAX_IOV, iov, &bytes);
	wr = post_add(c, p, buffer, false);
	wr->opcode = IBV_WR_SEND_WITH_IMM;
	wr->imm_data = htonl(verbs_credits_send(&c->credits));
	wr->num_sge = small ? (int)n : 1;
	if (small)
		wr->send_flags = IBV_SEND_INLINE;
	else
		wr->sg_list[0] = (struct ibv_sge){ .addr = (uintptr_t)at, .length = (uint32_t)bytes,
						   .lkey = d->tx_mr->lkey };
	for (uint32_t i = 0; i < n; i++) {
		if (small) {
			wr->sg_list[i] = (struct ibv_sge){ .addr = (uintptr_t)iov[i].iov_base,
							   .length = (uint32_t)iov[i].iov_len };
			continue;
		}
		memcpy(at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	post_take(c, &cut);
	c->turn_left -= (uint32_t)s->length;
	s->under_way++;
	s->posted = true;
	c->tx.next++;
	return true;
}

/* Keys of the pieces; one that crosses two regions of memory becomes two. Number; 0: not ours. */
static uint32_t post_keys(const struct verbs_memory *m, const struct iovec *iov, uint32_t n,
			  struct ibv_sge *sge, uint32_t max, size_t *ret_bytes)
{
	uint32_t used = 0;

	*ret_bytes = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint8_t *at = iov[i].iov_base;
		size_t left = iov[i].iov_len;

		while (left && used < max) {
			uint32_t key = 0;
			size_t good = MIN(verbs_memory_key(m, at, &key), left);

			if (!good)
				return 0;
			sge[used++] = (struct ibv_sge){ .addr = (uintptr_t)at,
							.length = (uint32_t)good, .lkey = key };
			at += good;
			left -= good;
			*ret_bytes += good;
		}
	}
	return used;
}

/* One request of a READ or WRITE. False: not now, or never. */
static bool post_chunk(struct verbs_conn *c, struct verbs_tx_slot *s, struct post *p)
{
	struct verbs_transport *t = verbs_owner(c);
	const uint32_t max = c->device->plan.sge;
	size_t bytes = MIN(c->turn_left, VERBS_CHUNK);
	struct verbs_cut cut = post_cut(&c->tx, s), taken = cut;
	struct iovec iov[VERBS_SGE_WANTED];
	struct ibv_send_wr *wr;
	uint32_t n, keys;
	size_t got;

	if (s->status || s->moved == s->length) {
		post_skip(c, s);
		return true;
	}
	bytes = MIN(bytes, (size_t)t->poll_left);
	bytes = MIN(bytes, (size_t)(s->length - s->moved));
	if (!bytes)
		return false;
	n = verbs_cut_next(&cut, bytes, max, iov, &bytes);
	keys = post_keys(c->device->memory, iov, n, p->sge[p->n], max, &got);
	if (!keys) {
		s->status = -EFAULT;	/* memory that was not given to open */
		post_skip(c, s);
		return true;
	}
	(void)verbs_cut_next(&taken, got, VERBS_SGE_WANTED, iov, &bytes);
	wr = post_add(c, p, -1, false);
	wr->opcode = s->type == TRANSPORT_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	wr->num_sge = (int)keys;
	wr->wr.rdma.remote_addr = s->region->addr + s->offset + s->moved;
	wr->wr.rdma.rkey = s->region->rkey;
	post_take(c, &taken);
	s->moved += got;
	s->under_way++;
	c->turn_left -= (uint32_t)got;
	t->poll_left -= (uint32_t)got;
	if (s->moved == s->length)
		post_skip(c, s);
	return true;
}

void verbs_post(struct verbs_conn *c)
{
	struct post p;
	bool more = true;

	p.n = 0;
	c->starved = false;
	while (more && c->tx.next != c->tx.tail && post_has_room(c)) {
		struct verbs_tx_slot *s = &c->tx.slot[c->tx.next % VERBS_MAX_TX];

		more = s->type == TRANSPORT_SEND ? post_message(c, s, &p) : post_chunk(c, s, &p);
		if (p.n == POST_BATCH)
			post_out(c, &p);
		if (c->phase >= VERBS_ENDING)
			return;
	}
	post_out(c, &p);
	verbs_tx_settle(c);
}

void verbs_post_update(struct verbs_conn *c)
{
	struct post p;
	struct ibv_send_wr *wr;

	if (!verbs_credits_update_due(&c->credits) ||
	    c->wr_tail - c->wr_head >= VERBS_SQ + VERBS_SQ_SPARE - 1)
		return;
	p.n = 0;
	wr = post_add(c, &p, -1, true);
	wr->opcode = IBV_WR_SEND_WITH_IMM;
	wr->imm_data = htonl(verbs_credits_update(&c->credits));
	wr->num_sge = 0;
	post_out(c, &p);
}
