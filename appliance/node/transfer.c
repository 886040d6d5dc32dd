/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payload between pages and the peer. One-sided or inline is one branch, taken when a transfer
 * starts: pieces named by segments are posted from here as READ or WRITE, an inline payload is
 * received by payload.c, which tells here what landed. (An inline GET is no transfer: its payload
 * follows the reply, see send.c.)
 *
 * Pieces come back in the order in which they were posted, so what is done is always a prefix and
 * the running checksum of a PUT can follow it while the bytes are in cache. A transfer that is to
 * stop posts nothing more and is over when its last piece is back.
 */
#include <errno.h>
#include <string.h>

#include <larder/probes.h>

#include "base/check.h"
#include "base/compiler.h"
#include "node/session.h"

void node_transfer_start(struct request *r, enum request_state direction,
			 struct engine_object *object, uint64_t offset, uint64_t length,
			 void (*next)(struct request *))
{
	struct session *s = r->session;
	struct transfer *t = &r->transfer;
	bool checked = t->checked;	/* and crc: set up by the operation before this */

	t->object = object;
	t->offset = offset;
	t->length = length;
	t->posted = t->done = 0;
	t->seg = t->seg_at = 0;
	t->gate = r->opcode == LARDER_OP_GET	  ? r->wire.u.get.gate :
		  r->opcode == LARDER_OP_PUT_PART ? r->wire.u.put_part.gate :
						    r->wire.u.put.gate;
	t->is_inline = r->wire.n_segs == 0;
	t->stop = false;
	t->error = 0;
	t->checked = checked;
	t->sink = NULL;
	r->next = next;
	node_request_move(r, direction);
	larder_probe4(op_phase, request_probe_op(r), s->slot, r->opcode, LARDER_PHASE_DATA);
	if (t->is_inline) {
		s->rx_request = r;
		node_reactor_due(s->reactor, r->op.deadline_ns);
	} else {
		list_push_tail(&s->work, &r->queue);
	}
}

int node_transfer_hold_segs(struct request *r)
{
	for (uint32_t i = 0; i < r->wire.n_segs; i++) {
		struct wire_seg seg = wire_seg_at(&r->wire, i);
		const struct session_region *g = node_region_find(r->session, seg.region);

		if (!g || g->deleter) {
			node_reply_error(r, LARDER_BAD_REQUEST, 0,
					 "segment %u names region %u, which this connection has "
					 "not added", i, seg.region);
			return LARDER_BAD_REQUEST;
		}
		if (seg.offset > g->bytes || seg.length > g->bytes - seg.offset) {
			node_reply_error(r, LARDER_BAD_REQUEST, 0,
					 "segment %u reaches past the %llu bytes of region %u", i,
					 (unsigned long long)g->bytes, seg.region);
			return LARDER_BAD_REQUEST;
		}
	}
	for (uint32_t i = 0; i < r->wire.n_segs; i++)
		node_region_find(r->session, wire_seg_at(&r->wire, i).region)->uses++;
	r->segs_held = true;
	return LARDER_OK;
}

void node_transfer_drop_segs(struct request *r)
{
	if (!r->segs_held)
		return;
	r->segs_held = false;
	for (uint32_t i = 0; i < r->wire.n_segs; i++)
		node_region_unuse(r->session,
				  node_region_find(r->session, wire_seg_at(&r->wire, i).region));
}

/* The wait is over: everything is back, and there is nothing more to post. */
static void transfer_try_finish(struct request *r)
{
	const struct transfer *t = &r->transfer;

	if (r->out > 0 || (t->done < t->length && !t->stop))
		return;
	list_remove(&r->queue);
	if (r->session->rx_request == r)
		r->session->rx_request = NULL;
	node_transfer_drop_segs(r);
	node_request_move(r, REQUEST_STARTED);
	r->next(r);
}

void node_transfer_stop(struct request *r)
{
	r->transfer.stop = true;
	list_remove(&r->queue);		/* nothing more is posted for it */
	transfer_try_finish(r);
}

bool node_transfer_is_whole(const struct request *r)
{
	return r->transfer.done == r->transfer.length && r->transfer.error == 0;
}

static void transfer_fail(struct request *r, int error)
{
	if (r->transfer.error == 0)
		r->transfer.error = error;
	r->transfer.stop = true;
	list_remove(&r->queue);
}

/* Posts the next piece. Bytes; 0 = the transport is full, or it failed. */
static uint32_t transfer_post_piece(struct request *r, uint32_t budget)
{
	struct session *s = r->session;
	struct transfer *t = &r->transfer;
	struct wire_seg seg = wire_seg_at(&r->wire, t->seg);
	struct iovec iov[NODE_IOV_MAX];
	uint64_t bytes = 0, want = MIN(t->length - t->posted, (uint64_t)(seg.length - t->seg_at));
	uint64_t most = MIN(budget, s->limits->max_transfer);
	bool pull = r->state == REQUEST_PULL;
	struct transport_tx tx = { .type = pull ? TRANSPORT_READ : TRANSPORT_WRITE, .iov = iov,
				   .gate = t->gate };
	int n;

	want = MIN(want, most);
	tx.niov = (uint16_t)engine_object_iov(t->object, t->offset + t->posted, want, iov,
					      MIN(s->limits->max_iov, NODE_IOV_MAX), &bytes);
	tx.cookie = cookie_make(pull ? COOKIE_READ : COOKIE_WRITE, r->index, (uint32_t)bytes);
	tx.region = node_region_find(s, seg.region)->region;
	tx.offset = seg.offset + t->seg_at;
	n = transport_tx(s->conn, &tx, 1);
	if (n < 0 && n != -EAGAIN)
		node_session_close(s, false);
	if (n <= 0)
		return 0;
	r->out++;
	session_owe(s);
	t->posted += bytes;
	t->seg_at += (uint32_t)bytes;
	return (uint32_t)bytes;
}

uint32_t node_transfer_post(struct request *r, uint32_t budget)
{
	struct session *s = r->session;
	struct transfer *t = &r->transfer;
	uint32_t used = 0;

	if (s->reactor->now_ns > r->op.deadline_ns) {
		r->expired = true;
		node_transfer_stop(r);
		return 0;
	}
	while (s->state == SESSION_OPEN && used < budget && t->posted < t->length &&
	       t->posted - t->done < NODE_WINDOW_BYTES) {
		uint32_t bytes;

		if (t->seg_at == wire_seg_at(&r->wire, t->seg).length) {
			t->seg++;	/* the sum of segments was checked: there is one more */
			t->seg_at = 0;
			continue;
		}
		bytes = transfer_post_piece(r, MIN(budget - used, NODE_PIECE_BYTES));
		if (bytes == 0)
			break;
		used += bytes;
	}
	if (t->posted == t->length)
		list_remove(&r->queue);
	return used;
}

static void transfer_feed_pages(struct transfer *t, uint32_t length)
{
	uint64_t at = t->done, end = t->done + length;

	while (at < end) {
		struct iovec iov[NODE_IOV_MAX];
		uint64_t bytes = 0;
		uint32_t n = engine_object_iov(t->object, t->offset + at, end - at, iov,
					       NODE_IOV_MAX, &bytes);

		for (uint32_t i = 0; i < n; i++)
			check_stream_feed(&t->crc, iov[i].iov_base, iov[i].iov_len);
		if (bytes == 0)
			break;	/* can't be: the range lies inside the object */
		at += bytes;
	}
}

void node_transfer_copy(struct request *r, const uint8_t *data, uint64_t length)
{
	struct transfer *t = &r->transfer;
	uint64_t at = 0;

	while (at < length && !t->sink) {
		struct iovec iov;
		uint64_t bytes = 0;

		if (engine_object_iov(t->object, t->offset + t->done + at, length - at, &iov, 1,
				      &bytes) != 1)
			break;	/* can't be: the range lies inside the object */
		memcpy(iov.iov_base, data + at, bytes);
		at += bytes;
	}
	if (t->checked)
		check_stream_feed(&t->crc, data, length);
	node_account_bytes(r, length);
	t->posted += length;
	t->done += length;
	transfer_try_finish(r);
}

/* One piece is back. @data: where it lies when that is one place, else NULL. */
static void transfer_piece_done(struct request *r, const void *data, uint32_t length, int status)
{
	struct transfer *t = &r->transfer;

	r->out--;
	if (status >= 0 && !r->lost) {
		node_account_bytes(r, length);
		if (t->checked && data)
			check_stream_feed(&t->crc, data, length);
		else if (t->checked && t->error == 0)
			transfer_feed_pages(t, length);
		t->done += t->error == 0 ? length : 0;
	} else {
		transfer_fail(r, status);
	}
	if (!node_request_settle_lost(r))
		transfer_try_finish(r);
}

void node_transfer_event(struct session *s, const struct transport_event *ev)
{
	s->out--;
	transfer_piece_done(&s->requests[cookie_request(ev->cookie)], NULL,
			    cookie_length(ev->cookie), ev->status);
}

void node_transfer_landed(struct request *r, const void *data, uint32_t length, int status)
{
	transfer_piece_done(r, data, length, status);
}

void node_verify_start(struct request *r, struct engine_object *object, uint64_t offset,
		       uint64_t length, void (*next)(struct request *))
{
	r->verify_object = object;
	r->verified = ALIGN_DOWN(offset, LARDER_CHECK_BLOCK);
	r->verify_end = offset + length;
	r->verify_bad = false;
	r->next = next;
	node_request_move(r, REQUEST_VERIFY);
	list_push_tail(&r->session->work, &r->queue);
}

uint32_t node_verify_slice(struct request *r, uint32_t budget)
{
	struct engine_object *o = r->verify_object;
	uint64_t length = engine_object_length(o);
	uint32_t used = 0;

	while (used < budget && r->verified < r->verify_end && !r->verify_bad) {
		uint32_t block = (uint32_t)(r->verified / LARDER_CHECK_BLOCK);
		uint32_t want, expected, crc = 0, at = 0;

		want = (uint32_t)MIN(length - r->verified, (uint64_t)LARDER_CHECK_BLOCK);
		while (at < want) {
			struct iovec iov;
			uint64_t bytes = 0;

			if (engine_object_iov(o, r->verified + at, want - at, &iov, 1, &bytes) != 1)
				break;	/* can't be: the range lies inside the object */
			crc = crc32c(crc, iov.iov_base, iov.iov_len);
			at += (uint32_t)bytes;
		}
		if (r->verify_checks)
			expected = r->verify_checks[block];
		else
			engine_object_checks(o, &expected, block, 1);
		r->verify_bad = at != want || crc != expected;
		r->verify_block = block;
		r->verified += want;
		used += want;
	}
	if (r->verified < r->verify_end && !r->verify_bad)
		return used;
	list_remove(&r->queue);
	node_request_move(r, REQUEST_STARTED);
	r->next(r);
	return used;
}
