/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verified transfer in one direction, at the mercy of a seed: how long each descriptor is, into
 * how many pieces it is cut, how long each posted buffer is.
 *
 * The source is the whole pattern, once. On a stream the destination is as long, and buffers are
 * posted one behind the other in it; with messages, each buffer is a slot of the largest message,
 * and an event must carry exactly the length that was sent.
 */
#include <stdlib.h>
#include <string.h>

#include "pair.h"

#define FLOW_SLOTS 16u
#define FLOW_PIECES 8u

static bool flow_message(const struct flow *f)
{
	return f->pair->subject->message;
}

static void flow_on_event(void *user, const struct transport_event *ev)
{
	struct flow *f = user;

	if (ev->type != TRANSPORT_RX || ev->status)
		return;
	if (flow_message(f)) {
		assert_true(f->received < f->messages);
		assert_int_equal(ev->length, f->lengths[f->received % FLOW_LENGTHS]);
	}
	f->received++;
	assert_true(f->got + ev->length <= f->total);
	pattern_check(ev->data, f->seed, f->got, ev->length);
	memset(ev->data, 0xee, ev->length);	/* ours again: nobody else may look at it */
	f->got += ev->length;
}

void flow_start(struct flow *f, struct pair *p, bool a_to_b, uint64_t total)
{
	const struct subject *s = p->subject;

	memset(f, 0, sizeof(*f));
	f->pair = p;
	f->from = a_to_b ? &p->a : &p->b;
	f->to = a_to_b ? &p->b : &p->a;
	f->seed = prng_next(&p->prng);
	f->total = total;
	f->largest_tx = s->largest;
	f->largest_rx = s->message ? s->largest : s->largest * 2;
	f->src = malloc(total);
	f->dst = malloc(s->message ? (size_t)FLOW_SLOTS * f->largest_rx : total);
	f->lengths = calloc(FLOW_LENGTHS, sizeof(*f->lengths));
	assert_true(f->src && f->dst && f->lengths);
	pattern_fill(f->src, f->seed, 0, total);
	f->to->on_event = flow_on_event;
	f->to->user = f;
}

void flow_free(struct flow *f)
{
	f->to->on_event = NULL;
	free(f->src);
	free(f->dst);
	free(f->lengths);
}

static bool flow_send_one(struct flow *f)
{
	struct prng *prng = &f->pair->prng;
	uint64_t rest = MIN(f->total - f->queued, (uint64_t)f->largest_tx);
	uint64_t len = prng_below(prng, rest) + 1;
	struct iovec iov[FLOW_PIECES];
	uint64_t cut = 0;
	uint16_t n = 0;

	while (cut < len) {
		uint64_t piece = n == FLOW_PIECES - 1 ? len - cut : prng_below(prng, len - cut) + 1;

		iov[n++] = (struct iovec){ .iov_base = f->src + f->queued + cut, .iov_len = piece };
		cut += piece;
	}
	if (f->messages - f->received >= FLOW_LENGTHS || side_send_iov(f->from, iov, n) != 1)
		return false;
	f->lengths[f->messages++ % FLOW_LENGTHS] = (uint32_t)len;
	f->queued += len;
	return true;
}

static void flow_post(struct flow *f)
{
	struct side *to = f->to;

	while (to->posted - to->back < FLOW_SLOTS) {
		uint64_t left = f->total - f->asked;
		uint32_t len;

		if (flow_message(f)) {
			side_post(to, f->dst + (to->posted % FLOW_SLOTS) * f->largest_rx,
				  f->largest_rx);
			continue;
		}
		if (!left)
			return;
		len = (uint32_t)prng_below(&f->pair->prng, MIN(left, (uint64_t)f->largest_rx)) + 1;
		side_post(to, f->dst + f->asked, len);
		f->asked += len;
	}
}

void flow_feed(struct flow *f)
{
	flow_post(f);
	while (f->queued < f->total && flow_send_one(f))
		;
}

bool flow_done(const struct flow *f)
{
	return f->got == f->total && f->from->done == f->from->accepted;
}

void flow_run(struct flow *f)
{
	uint64_t end = now_ms() + PAIR_PATIENCE_MS;

	while (!flow_done(f)) {
		flow_feed(f);
		pair_step(f->pair);
		if (now_ms() > end)
			fail_msg("%lu of %lu bytes arrived in time", f->got, f->total);
	}
	assert_int_equal(f->from->cancelled, 0);
}
