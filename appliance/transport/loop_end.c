/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a loop connection: how bytes get from one to the other, what the knobs do to them,
 * and how an end tells the other that it is over. Locks: loop.c.
 */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/loop_pair.h"
#include "transport/registry.h"

#define LOOP_DRAIN_STALL (2 * NSEC_PER_SEC)	/* a draining peer that takes nothing is cut */
#define LOOP_PIECES 16u				/* copied at once */

/* --- the network --- */

static const struct loop_net *loop_the_net;

void loop_set_net(const struct loop_net *net)
{
	loop_the_net = net;
}

const struct loop_net *loop_net(void)
{
	return loop_the_net;
}

/* What becomes of @p, decided before a byte moves. */
static void loop_pair_draw(struct loop_pair *p)
{
	struct loop_wire wire[2];

	for (unsigned i = 0; i < 2; i++)
		wire[i] = (struct loop_wire){ .break_after = LOOP_FOREVER,
					      .cut_after = LOOP_FOREVER };
	if (loop_the_net)
		loop_the_net->draw(loop_the_net->user, wire);
	for (unsigned i = 0; i < 2; i++) {
		p->ring[i].wire = wire[i];
		if (wire[i].split_seed)
			prng_seed(&p->ring[i].split, wire[i].split_seed);
	}
}

static bool loop_kind(void)
{
	return loop_the_net && loop_the_net->kind;
}

static bool loop_muted(const struct loop_end *e)
{
	return loop_the_net && loop_the_net->muted && e->side == 1;
}

/* --- the event fd --- */

void loop_kick(struct loop *t)
{
	const uint64_t one = 1;

	if (!t)
		return;
	loop_lock(&t->kick_lock);
	if (!t->kicked && write(t->event_fd, &one, sizeof(one)) < 0)
		log_err(t->config.log, "loop: eventfd: %m");
	t->kicked = true;
	loop_unlock(&t->kick_lock);
}

void loop_unkick(struct loop *t)
{
	uint64_t count;

	loop_lock(&t->kick_lock);
	if (t->kicked && read(t->event_fd, &count, sizeof(count)) < 0)
		log_err(t->config.log, "loop: eventfd: %m");
	t->kicked = false;
	loop_unlock(&t->kick_lock);
}

void loop_own_work(struct loop_end *e)
{
	struct loop *t = loop_owner(e);

	if (t->idle)
		loop_kick(t);
}

/* --- pairs --- */

struct loop_pair *loop_pair_new(const char *name)
{
	struct loop_pair *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	if (pthread_mutex_init(&p->lock, NULL) != 0) {
		free(p);
		return NULL;
	}
	p->refs = 2;
	for (unsigned i = 0; i < 2; i++) {
		p->end[i].pair = p;
		p->end[i].side = i;
		list_init(&p->end[i].link);
	}
	memcpy(p->name, name, strlen(name) + 1);
	loop_pair_draw(p);
	return p;
}

void loop_end_adopt(struct loop *t, struct loop_end *e)
{
	e->stream.base.transport = &t->base;
	e->stream.phase = STREAM_UP;
	e->stream.up_owed = true;
	list_push_tail(&t->conns, &e->link);
	loop_lock(&e->pair->lock);
	e->pair->owner[e->side] = t;
	loop_unlock(&e->pair->lock);
}

/* This end neither sends nor receives from now on; the other one is told. */
static void loop_end_hang_up(struct loop_end *e, bool orderly)
{
	struct loop_pair *p = e->pair;
	struct loop_ring *out = &p->ring[e->side];
	struct loop_ring *in = &p->ring[!e->side];

	if (e->hung_up)
		return;
	e->hung_up = true;
	loop_lock(&p->lock);
	out->closed = orderly;
	out->broken = !orderly;
	in->read = in->written;		/* nobody will take it */
	loop_kick(p->owner[!e->side]);
	loop_unlock(&p->lock);
}

void loop_end_finish(struct loop_end *e, int status, int cancel_status)
{
	loop_end_hang_up(e, status == 0);
	stream_end(&e->stream, status, cancel_status);
	loop_own_work(e);
}

void loop_end_release(struct loop_end *e)
{
	struct loop_pair *p = e->pair;
	unsigned refs;

	loop_end_hang_up(e, false);
	list_remove(&e->link);
	loop_lock(&p->lock);
	p->owner[e->side] = NULL;
	refs = --p->refs;
	loop_unlock(&p->lock);
	if (refs)
		return;
	(void)pthread_mutex_destroy(&p->lock);	/* nobody else knows the pair */
	free(p);
}

/* --- bytes --- */

static size_t loop_turn_bytes(struct loop *t, struct loop_ring *r)
{
	size_t limit = TRANSPORT_TURN_BYTES;

	if (t->knobs.max_move && t->knobs.max_move < limit)
		limit = t->knobs.max_move;
	if (r->wire.max_move && r->wire.max_move < limit && !loop_kind())
		limit = r->wire.max_move;
	if (r->wire.split_seed && !loop_kind())
		return (size_t)prng_below(&r->split, limit) + 1;
	return t->knobs.split_seed ? (size_t)prng_below(&t->split, limit) + 1 : limit;
}

static void loop_new_turn(struct loop_end *e)
{
	struct loop *t = loop_owner(e);

	if (e->turn == t->turn)
		return;
	e->turn = t->turn;
	e->tx_budget = loop_turn_bytes(t, &e->pair->ring[e->side]);
	e->rx_budget = loop_turn_bytes(t, &e->pair->ring[!e->side]);
}

static size_t loop_ring_put(struct loop_ring *r, const char *from, size_t len)
{
	size_t room = LOOP_RING_BYTES - (size_t)(r->written - r->read);
	size_t done = 0;

	len = MIN(len, room);
	while (done < len) {
		size_t at = (size_t)(r->written % LOOP_RING_BYTES);
		size_t piece = MIN(len - done, LOOP_RING_BYTES - at);

		memcpy(r->bytes + at, from + done, piece);
		r->written += piece;
		done += piece;
	}
	return done;
}

static void loop_sent(struct loop_end *e, size_t n)
{
	struct loop *t = loop_owner(e);

	stream_tx_advance(&e->stream.tx, n);
	e->tx_budget -= n;
	e->sent += n;
	t->moved = true;
	if (e->stream.phase == STREAM_DRAIN)
		e->deadline = clock_now(t->config.clock) + LOOP_DRAIN_STALL;
	loop_kick(e->pair->owner[!e->side]);
}

static uint64_t loop_break_after(const struct loop_end *e)
{
	uint64_t knob = loop_owner(e)->knobs.break_after;
	uint64_t wire = loop_kind() ? LOOP_FOREVER : e->pair->ring[e->side].wire.break_after;

	return MIN(knob ? knob : LOOP_FOREVER, wire);
}

/* How much may go now: the turn's rest, or what is left until the cable breaks. */
static size_t loop_may_send(const struct loop_end *e)
{
	uint64_t left = loop_break_after(e);

	if (e->sent >= left)
		return 0;
	return (size_t)MIN((uint64_t)e->tx_budget, left - e->sent);
}

/* Is this where the cable was pulled? Lock held. */
static void loop_pull(struct loop_end *e)
{
	struct loop_ring *out = &e->pair->ring[e->side];
	struct loop_ring *in = &e->pair->ring[!e->side];

	if (out->cut || out->written < out->wire.cut_after || loop_kind())
		return;
	out->cut = true;
	if (!out->wire.cut_both || in->cut)
		return;
	in->cut = true;
	in->wire.cut_after = in->written;
}

void loop_end_send(struct loop_end *e)
{
	struct loop_ring *r = &e->pair->ring[e->side];
	struct iovec iov[LOOP_PIECES];
	size_t bytes, sent = 0;
	uint32_t n;

	if (loop_muted(e))
		return;

	loop_new_turn(e);
	loop_lock(&e->pair->lock);
	do {
		n = stream_tx_gather(&e->stream.tx, iov, LOOP_PIECES, loop_may_send(e), &bytes);
		sent = 0;
		for (uint32_t i = 0; i < n; i++)
			sent += loop_ring_put(r, iov[i].iov_base, iov[i].iov_len);
		if (sent)
			loop_sent(e, sent);
	} while (sent);
	loop_pull(e);
	loop_unlock(&e->pair->lock);
	if (e->sent >= loop_break_after(e))
		loop_end_finish(e, -ECONNRESET, -ECONNRESET);
}

static uint64_t loop_arrives(const struct loop_ring *r)
{
	return r->cut ? MIN(r->written, r->wire.cut_after) : r->written;
}

/* Up to which position the receiver sees the ring; the rest is still on its way. */
static uint64_t loop_visible(struct loop_end *e, const struct loop_ring *r)
{
	uint32_t delay = loop_owner(e)->knobs.delay_polls;
	uint64_t arrives = loop_arrives(r);
	uint64_t polls = e->polls++;
	uint64_t seen;

	if (!loop_kind())
		delay = MIN(delay + r->wire.delay_polls, LOOP_DELAY_MAX);
	e->seen[polls % ARRAY_SIZE(e->seen)] = arrives;
	if (!delay)
		return arrives;
	seen = polls < delay ? 0 : e->seen[(polls - delay) % ARRAY_SIZE(e->seen)];
	return MAX(seen, r->read);
}

static void loop_end_receive(struct loop_end *e, struct stream_batch *b)
{
	struct loop_ring *r = &e->pair->ring[!e->side];
	struct stream *s = &e->stream;
	uint64_t visible;
	bool over, orderly;

	loop_lock(&e->pair->lock);
	visible = loop_visible(e, r);
	if (visible < loop_arrives(r))
		loop_owner(e)->moved = true;
	while (r->read < visible && e->rx_budget) {
		size_t at = (size_t)(r->read % LOOP_RING_BYTES);
		size_t len = MIN((size_t)(visible - r->read), LOOP_RING_BYTES - at);
		size_t n = stream_rx_copy(s, b, r->bytes + at, MIN(len, e->rx_budget));

		if (!n)
			break;
		r->read += n;
		e->rx_budget -= n;
		loop_owner(e)->moved = true;
		loop_kick(e->pair->owner[!e->side]);
	}
	over = r->read == r->written || (r->broken && stream_rx_empty(&s->rx));
	over = over && (r->closed || r->broken) && !r->cut;
	orderly = r->closed;
	loop_unlock(&e->pair->lock);
	if (over)
		loop_end_finish(e, orderly ? 0 : -ECONNRESET, -ECONNRESET);
}

void loop_end_start_drain(struct loop_end *e)
{
	e->stream.phase = STREAM_DRAIN;
	e->deadline = clock_now(loop_owner(e)->config.clock) + LOOP_DRAIN_STALL;
	loop_own_work(e);
}

static void loop_end_drain(struct loop_end *e)
{
	struct loop_ring *in = &e->pair->ring[!e->side];
	struct loop *t = loop_owner(e);
	bool gone;

	loop_lock(&e->pair->lock);
	in->read = in->written;
	gone = (in->closed || in->broken) && !in->cut;
	loop_unlock(&e->pair->lock);
	if (!stream_tx_unsent(&e->stream.tx) && !stream_tx_unreported(&e->stream.tx))
		loop_end_finish(e, 0, -ECANCELED);
	else if (gone)
		loop_end_finish(e, -ECONNRESET, -ECONNRESET);
	else if (clock_now(t->config.clock) >= e->deadline)
		loop_end_finish(e, -ETIMEDOUT, -ECANCELED);
}

void loop_end_serve(struct loop_end *e, struct stream_batch *b)
{
	struct stream *s = &e->stream;

	loop_new_turn(e);
	stream_report_up(s, b);
	if (s->up_owed)
		return;
	if (s->phase == STREAM_UP || s->phase == STREAM_DRAIN) {
		loop_end_send(e);
		stream_tx_report(s, b);
	}
	if (s->phase == STREAM_UP)
		loop_end_receive(e, b);
	else if (s->phase == STREAM_DRAIN)
		loop_end_drain(e);
	if (s->phase < STREAM_DOWN || !stream_finish(s, b) || !stream_room(b))
		return;
	(void)stream_emit(s, b, TRANSPORT_CONN_GONE);	/* has no further field */
	s->phase = STREAM_GONE;
	list_remove(&e->link);
	list_push_tail(&loop_owner(e)->dead, &e->link);
}

/* --- knobs --- */

int loop_set_knobs(struct transport *transport, const struct loop_knobs *knobs)
{
	struct loop *t = loop_of(transport);

	if (transport->ops != transport_loop() || knobs->delay_polls > LOOP_DELAY_MAX)
		return -EINVAL;
	if (knobs->split_seed && knobs->split_seed != t->knobs.split_seed)
		prng_seed(&t->split, knobs->split_seed);
	t->knobs = *knobs;
	return 0;
}

int loop_break(struct transport_conn *conn)
{
	struct loop_end *e = loop_end_of(conn);
	struct loop_pair *p = e->pair;

	if (e->stream.phase >= STREAM_DOWN)
		return -ENOTCONN;
	loop_lock(&p->lock);
	for (unsigned i = 0; i < 2; i++)
		p->ring[i].read = p->ring[i].written;
	loop_unlock(&p->lock);
	loop_end_finish(e, -ECONNRESET, -ECONNRESET);
	return 0;
}
