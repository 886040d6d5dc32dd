/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose bytes move next: deficit round robin over the tenants that have any (Shreedhar and
 * Varghese 1995), by weight. The heaviest tenant's turn is worth one piece, the others' as much
 * less as they weigh less; a tenant may overdraw by at most one piece and pays that back later, so
 * pieces stay whole. Inside a tenant its sessions take turns, each with at most NODE_PIECE_BYTES in
 * one turn of the reactor: how many there are changes nothing between tenants.
 *
 * A reply with little payload does not wait for its tenant's turn: it overdraws, and the rounds
 * that go by pay for it, in the ring or out of it.
 *
 * Nothing idles for a debt: while less than a piece has moved in a turn there are more rounds, and
 * when all who could go on are in debt, they are given at once what the missing rounds would bring.
 *
 * A session is in the ring while it has something that can be handed out now. One that the
 * transport can take nothing more from leaves, and comes back with its next done-event.
 */
#include "base/compiler.h"
#include "node/node.h"
#include "node/session.h"

#define DRR_QUANTUM ((int64_t)NODE_PIECE_BYTES)
#define DRR_VIEW_BYTES (32u * 1024u)	/* of a viewer in a turn, which others' requests wait for */
#define DRR_ROUNDS 4u	/* in a turn: after that others than those who move bytes are looked at */

void node_drr_init(struct drr *d)
{
	list_init(&d->active);
	d->n_active = 0;
	d->heaviest = 1;
	for (uint32_t i = 0; i < ARRAY_SIZE(d->tenants); i++) {
		list_init(&d->tenants[i].link);
		list_init(&d->tenants[i].sessions);
	}
}

static uint64_t drr_weight(const struct drr_tenant *t)
{
	return MAX(quota_limit(t->quota, LARDER_LIMIT_weight), (uint64_t)1);
}

/* What one round brings. Never 0, or a debt would last for ever. */
static int64_t drr_quantum(const struct drr_tenant *t, uint64_t heaviest)
{
	uint64_t most = MAX(heaviest, t->weight);

	return MAX((int64_t)((uint64_t)DRR_QUANTUM * t->weight / most), (int64_t)1);
}

/* It was not in the ring: rounds that went by pay its debt; nothing is saved up. */
static void drr_settle(struct drr *d, struct drr_tenant *t)
{
	uint64_t missed = MIN(d->rounds - t->seen, (uint64_t)NODE_PIECE_BYTES);

	t->weight = drr_weight(t);
	t->deficit = MIN(t->deficit + (int64_t)missed * drr_quantum(t, d->heaviest), (int64_t)0);
	t->seen = d->rounds;
}

bool node_drr_may_overdraw(struct reactor *r, struct session *s)
{
	struct drr_tenant *t = &r->drr.tenants[s->drr_index];

	t->quota = s->quota;
	if (t->n_sessions == 0)
		drr_settle(&r->drr, t);
	return t->deficit > -DRR_QUANTUM;
}

void node_drr_charge(struct reactor *r, struct session *s, uint32_t bytes)
{
	r->drr.tenants[s->drr_index].deficit -= bytes;
}

void node_drr_enter(struct reactor *r, struct session *s)
{
	struct drr_tenant *t = &r->drr.tenants[s->drr_index];

	if (s->in_drr)
		return;
	s->in_drr = true;
	t->quota = s->quota;
	list_push_tail(&t->sessions, &s->drr_link);
	if (t->n_sessions++ == 0) {
		drr_settle(&r->drr, t);
		list_push_tail(&r->drr.active, &t->link);
		r->drr.n_active++;
	}
}

void node_drr_leave(struct reactor *r, struct session *s)
{
	struct drr_tenant *t = &r->drr.tenants[s->drr_index];

	if (!s->in_drr)
		return;
	s->in_drr = false;
	list_remove(&s->drr_link);
	if (--t->n_sessions == 0) {
		t->seen = r->drr.rounds;
		list_remove(&t->link);
		r->drr.n_active--;
	}
}

static uint32_t drr_serve_session(struct reactor *r, struct session *s)
{
	uint32_t used, most = s->viewer ? DRR_VIEW_BYTES : NODE_PIECE_BYTES;

	if (s->turn != r->turn) {
		s->turn = r->turn;
		s->turn_bytes = 0;
	}
	if (s->viewer && node_yield(r))
		return 0;
	if (s->turn_bytes >= most)
		return 0;	/* had its share of this turn; stays where it is */
	used = node_session_work(s, most - s->turn_bytes);
	s->turn_bytes += used;
	/* blocked: an event of its own brings it back */
	if (!node_session_has_work(s) || (used == 0 && node_session_is_blocked(s)))
		node_drr_leave(r, s);
	return used;
}

/* Weights may have been set since: read once a turn. */
static uint64_t drr_heaviest(struct drr *d)
{
	uint64_t heaviest = 1;

	list_for_each(it, &d->active) {
		struct drr_tenant *t = list_entry(it, struct drr_tenant, link);

		t->weight = drr_weight(t);
		heaviest = MAX(heaviest, t->weight);
	}
	return heaviest;
}

static uint64_t drr_serve_tenant(struct reactor *r, struct drr_tenant *t, uint64_t heaviest)
{
	int64_t quantum = drr_quantum(t, heaviest);
	uint64_t used = 0;

	t->deficit += quantum;
	for (uint32_t n = t->n_sessions; n > 0 && t->deficit > 0 && t->n_sessions > 0; n--) {
		struct session *s = list_entry(t->sessions.next, struct session, drr_link);
		uint32_t bytes;

		list_remove(&s->drr_link);	/* to the back; serving may take it out */
		list_push_tail(&t->sessions, &s->drr_link);
		bytes = drr_serve_session(r, s);
		t->deficit -= bytes;
		used += bytes;
	}
	t->deficit = MIN(t->deficit, quantum);
	return used;
}

static uint64_t drr_round(struct reactor *r, uint64_t heaviest)
{
	struct drr *d = &r->drr;
	uint64_t used = 0;

	d->rounds++;
	for (uint32_t n = d->n_active; n > 0 && d->n_active > 0; n--) {
		struct drr_tenant *t = list_entry(d->active.next, struct drr_tenant, link);

		list_remove(&t->link);
		list_push_tail(&d->active, &t->link);
		used += drr_serve_tenant(r, t, heaviest);
	}
	return used;
}

/* Everyone gets what the rounds bring that it takes until the first debt is paid. False: no debt
 * is in the way. */
static bool drr_skip_rounds(struct drr *d, uint64_t heaviest)
{
	int64_t rounds = INT64_MAX;

	list_for_each(it, &d->active) {
		struct drr_tenant *t = list_entry(it, struct drr_tenant, link);

		if (t->deficit <= 0)
			rounds = MIN(rounds, -t->deficit / drr_quantum(t, heaviest));
	}
	if (rounds == INT64_MAX)
		return false;
	list_for_each(it, &d->active) {
		struct drr_tenant *t = list_entry(it, struct drr_tenant, link);

		if (t->deficit <= 0)
			t->deficit += rounds * drr_quantum(t, heaviest);
	}
	return true;
}

uint64_t node_drr_run(struct reactor *r)
{
	struct drr *d = &r->drr;
	uint64_t heaviest = drr_heaviest(d), total = 0;

	d->heaviest = heaviest;
	for (uint32_t round = 0; round < DRR_ROUNDS && d->n_active > 0; round++) {
		bool several = d->n_active > 1;
		uint64_t used = drr_round(r, heaviest);

		total += used;
		/* one tenant's sessions need not wait for each other */
		if (several && total >= NODE_PIECE_BYTES)
			break;
		if (used == 0 && !drr_skip_rounds(d, heaviest))
			break;
	}
	return total;
}
