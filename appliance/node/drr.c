/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose bytes move next: deficit round robin over the tenants that have any (Shreedhar and
 * Varghese 1995). A tenant's turn is worth one quantum; it may overdraw by at most one piece and
 * pays that back later, so pieces stay whole. Inside a tenant its sessions take turns, each with at
 * most NODE_PIECE_BYTES in one turn of the reactor.
 *
 * A session is in the ring while it has something that can be handed out now. One that the
 * transport can take nothing more from leaves, and comes back with its next done-event.
 */
#include "base/compiler.h"
#include "node/node.h"
#include "node/session.h"

#define DRR_QUANTUM NODE_PIECE_BYTES
#define DRR_ROUNDS_ALONE 4u	/* one tenant's sessions need not wait for each other */

void node_drr_init(struct drr *d)
{
	list_init(&d->active);
	d->n_active = 0;
	for (uint32_t i = 0; i < ARRAY_SIZE(d->tenants); i++) {
		list_init(&d->tenants[i].link);
		list_init(&d->tenants[i].sessions);
	}
}

void node_drr_enter(struct reactor *r, struct session *s)
{
	struct drr_tenant *t = &r->drr.tenants[s->drr_index];

	if (s->in_drr)
		return;
	s->in_drr = true;
	list_push_tail(&t->sessions, &s->drr_link);
	if (t->n_sessions++ == 0) {
		t->deficit = MIN(t->deficit, 0);	/* credit is not saved up while idle */
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
		list_remove(&t->link);
		r->drr.n_active--;
	}
}

static uint32_t drr_serve_session(struct reactor *r, struct session *s)
{
	uint32_t used;

	if (s->turn != r->turn) {
		s->turn = r->turn;
		s->turn_bytes = 0;
	}
	if (s->turn_bytes >= NODE_PIECE_BYTES)
		return 0;	/* had its share of this turn; stays where it is */
	used = node_session_work(s, NODE_PIECE_BYTES - s->turn_bytes);
	s->turn_bytes += used;
	/* blocked: an event of its own brings it back */
	if (!node_session_has_work(s) || (used == 0 && node_session_is_blocked(s)))
		node_drr_leave(r, s);
	return used;
}

static uint64_t drr_serve_tenant(struct reactor *r, struct drr_tenant *t)
{
	uint64_t used = 0;

	t->deficit += DRR_QUANTUM;
	for (uint32_t n = t->n_sessions; n > 0 && t->deficit > 0 && t->n_sessions > 0; n--) {
		struct session *s = list_entry(t->sessions.next, struct session, drr_link);
		uint32_t bytes;

		list_remove(&s->drr_link);	/* to the back; serving may take it out */
		list_push_tail(&t->sessions, &s->drr_link);
		bytes = drr_serve_session(r, s);
		t->deficit -= bytes;
		used += bytes;
	}
	t->deficit = MIN(t->deficit, (int64_t)DRR_QUANTUM);
	return used;
}

uint64_t node_drr_run(struct reactor *r)
{
	struct drr *d = &r->drr;
	uint64_t total = 0;
	uint32_t rounds = d->n_active == 1 ? DRR_ROUNDS_ALONE : 1;

	for (uint32_t round = 0; round < rounds; round++) {
		uint64_t used = 0;

		for (uint32_t n = d->n_active; n > 0 && d->n_active > 0; n--) {
			struct drr_tenant *t = list_entry(d->active.next, struct drr_tenant, link);

			list_remove(&t->link);
			list_push_tail(&d->active, &t->link);
			used += drr_serve_tenant(r, t);
		}
		if (used == 0)
			break;
		total += used;
	}
	return total;
}
