/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a connection: drawn as it is made, in the wild phase only. So a connection of
 * the wild phase keeps its fate into the calm one, where the keepalive has to find out; those made
 * then are kind.
 *
 * Moments are counted in bytes and drawn from three ranges: the handshake and what is opened again,
 * the first requests, anywhere.
 */
#include "sim.h"

static uint64_t net_moment(struct prng *r)
{
	switch (prng_below(r, 3)) {
	case 0:
		return between(r, 1, 1200);
	case 1:
		return between(r, 300, 5000);
	default:
		return between(r, 1000, 400000);
	}
}

static void net_draw_one(struct world *w, struct loop_wire *wire)
{
	const struct faults *f = &w->knobs.may;
	struct prng *r = &w->net_rng;

	if (f->splits) {
		wire->split_seed = prng_next(r) | 1;
		/* a bound of one byte makes every header a hundred polls: rarely */
		wire->max_move = (uint32_t)(chance(r, 6) ? between(r, 1, 40)
							 : between(r, 200, 60000));
	} else if (f->slow && chance(r, 4)) {
		wire->max_move = (uint32_t)between(r, 100, 3000);
	}
	if (f->delay)
		wire->delay_polls = (uint32_t)between(r, 0, chance(r, 4) ? LOOP_DELAY_MAX : 6);
	if (f->breaks && chance(r, 3))
		wire->break_after = net_moment(r);
	if (f->cuts && chance(r, 3)) {
		wire->cut_after = net_moment(r);
		wire->cut_both = chance(r, 2);
	}
}

static void net_draw(void *user, struct loop_wire wire[2])
{
	struct world *w = user;

	if (!w->wild)
		return;
	for (unsigned i = 0; i < 2; i++)
		net_draw_one(w, &wire[i]);
	world_trace(w, "wire", wire[0].break_after, wire[1].break_after,
		    wire[0].cut_after ^ wire[1].cut_after);
}

void net_open(struct world *w)
{
	w->net.draw = net_draw;
	w->net.user = w;
	loop_set_net(&w->net);
}
