/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions: what was sent is done, what was received waits for a buffer of its owner's.
 *
 * Sends complete in order on a reliable connection, so the oldest work request of the connection is
 * the one that a completion speaks of. A message is copied out of the shared queue before anybody
 * reads it, and its receive goes back at once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "transport/verbs.h"

#define COMPLETE_ROUNDS 8u	/* of VERBS_COMPLETIONS, for one device and poll */

static int complete_errno(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_WR_FLUSH_ERR:
		return -ECONNRESET;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return -ETIMEDOUT;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_LOC_PROT_ERR:
		return -EACCES;
	default:
		return -EIO;
	}
}

/* The first failure of a connection ends it; what follows is only flushed. */
static void complete_failed(struct verbs_conn *c, const struct ibv_wc *wc)
{
	char peer[TRANSPORT_ADDR_TEXT];

	if (c->phase >= VERBS_ENDING)
		return;
	verbs_peer_text(c, peer, sizeof(peer));
	if (wc->status != IBV_WC_WR_FLUSH_ERR)
		log_notice(verbs_owner(c)->config.log, "rdma: %s: a transfer failed: %s", peer,
			   ibv_wc_status_str(wc->status));
	verbs_conn_end(c, complete_errno(wc->status), -ECONNRESET);
}

static void complete_send(struct verbs_conn *c, const struct ibv_wc *wc)
{
	struct verbs_wr *wr = &c->wr[c->wr_head % VERBS_WRS];

	if (c->wr_head == c->wr_tail)
		return;		/* can't be: each of them was counted */
	c->wr_head++;
	if (wr->buffer >= 0) {
		c->device->tx_free[c->device->n_tx_free++] = (uint16_t)wr->buffer;
		c->n_buffers--;
	}
	if (!wr->ours) {
		struct verbs_tx_slot *s = &c->tx.slot[wr->tx % VERBS_MAX_TX];

		s->under_way--;
		if (wc->status != IBV_WC_SUCCESS && !s->status)
			s->status = complete_errno(wc->status);
	}
	if (wc->status != IBV_WC_SUCCESS)
		complete_failed(c, wc);
	if (c->phase < VERBS_ENDING)
		verbs_tx_settle(c);	/* later ones are told after DOWN */
	verbs_ready(c);
}

static void complete_message(struct verbs_conn *c, uint32_t slot, uint32_t length)
{
	struct verbs_device *d = c->device;

	d->slots[slot] = (struct verbs_slot){ .next = VERBS_NO_SLOT, .length = length };
	if (c->waiting == VERBS_NO_SLOT)
		c->waiting = slot;
	else
		d->slots[c->waiting_last].next = slot;
	c->waiting_last = slot;
}

static void complete_receive(struct verbs_device *d, struct verbs_conn *c, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id;
	char peer[TRANSPORT_ADDR_TEXT];
	int r;

	if (!c || c->phase >= VERBS_ENDING || wc->status != IBV_WC_SUCCESS) {
		verbs_slot_idle(d, slot);
		if (c && wc->status != IBV_WC_SUCCESS)
			complete_failed(c, wc);
		return;
	}
	r = wc->wc_flags & IBV_WC_WITH_IMM ?
		    verbs_credits_arrived(&c->credits, ntohl(wc->imm_data)) : -EPROTO;
	if (r == 0 && c->phase != VERBS_DRAIN)
		complete_message(c, slot, wc->byte_len);
	else
		verbs_slot_idle(d, slot);
	if (r < 0) {
		verbs_peer_text(c, peer, sizeof(peer));
		log_warning(verbs_owner(c)->config.log, "rdma: %s is cut off: it sends more than "
			    "its credit, or what is no message of ours", peer);
		verbs_conn_end(c, r, -ECONNRESET);
	}
	verbs_ready(c);
}

static int complete_device(struct verbs_device *d)
{
	struct ibv_wc wc[VERBS_COMPLETIONS];
	int all = 0, n = VERBS_COMPLETIONS;

	d->drained = false;
	for (unsigned i = 0; i < COMPLETE_ROUNDS && n == VERBS_COMPLETIONS; i++) {
		n = ibv_poll_cq(d->cq, VERBS_COMPLETIONS, wc);
		if (n < 0)
			return d->removed ? 0 : -EIO;
		for (int k = 0; k < n; k++) {
			struct verbs_conn *c = verbs_qp_find(d, wc[k].qp_num);

			if (wc[k].wr_id != UINT64_MAX)
				complete_receive(d, c, &wc[k]);
			else if (c)
				complete_send(c, &wc[k]);
		}
		all += n;
	}
	d->drained = n < (int)VERBS_COMPLETIONS;
	return all;
}

int verbs_complete(struct verbs_transport *t)
{
	int all = 0;

	list_for_each(it, &t->devices) {
		struct verbs_device *d = list_entry(it, struct verbs_device, link);
		int n = complete_device(d);

		if (n < 0)
			return n;
		all += n;
		if (d->idle != VERBS_NO_SLOT)
			n = verbs_slots_post(d);
		if (n < 0 && !d->removed)
			return n;
	}
	return all;
}

static void deliver_pop(struct verbs_conn *c)
{
	struct verbs_device *d = c->device;
	uint32_t slot = c->waiting;

	c->waiting = d->slots[slot].next;
	verbs_slot_idle(d, slot);
}

void verbs_deliver(struct verbs_conn *c, struct verbs_batch *b)
{
	while (c->waiting != VERBS_NO_SLOT && c->rx.head != c->rx.tail && b->n < b->max) {
		const struct transport_rx *rx = &c->rx.slot[c->rx.head % VERBS_MAX_RX];
		uint32_t length = c->device->slots[c->waiting].length;
		struct transport_event *ev;

		if (length > rx->length) {
			verbs_conn_end(c, -EMSGSIZE, -ECONNRESET);
			return;
		}
		if (length > c->turn_left)
			return;
		memcpy(rx->data, verbs_slot_data(c->device, c->waiting), length);
		c->turn_left -= length;
		c->rx.head++;
		ev = verbs_emit(c, b, TRANSPORT_RX);
		ev->cookie = rx->cookie;
		ev->data = rx->data;
		ev->length = length;
		deliver_pop(c);
		verbs_credits_taken(&c->credits);
	}
}

void verbs_drop_waiting(struct verbs_conn *c)
{
	while (c->waiting != VERBS_NO_SLOT)
		deliver_pop(c);
}
