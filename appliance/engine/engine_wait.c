/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ops that are not done yet: parked, woken, timed out, taken back.
 *
 * A parked op holds a waiter out of a table made at open; each reactor has its own part of it, so
 * only the home reactor takes and gives waiters. An op is parked for one of two reasons:
 *
 *	KEY	another writer fills its key, or is to. The waiter hangs on that object, under the
 *		shard's lock. Whoever ends the filling detaches all of them under the lock, writes
 *		down the outcome (a commit brings each a reference), and after the lock pushes them
 *		onto the stack of their home reactor, which finishes the op in its own thread.
 *	WORK	it has more to do than one turn may take. It stands in the home reactor's queue.
 *
 * `linked` decides races: who sees it true under the shard's lock and takes the waiter off owns the
 * op's end. A deadline or cancel that finds it false leaves the op to the completion on its way.
 *
 * Deadlines of parked ops are a heap of the home reactor.
 */
#include <errno.h>

#include "engine/engine_internal.h"
#include "engine/fill.h"

int engine_wait_init(struct engine *e)
{
	e->waiters = calloc((size_t)e->reactors * ENGINE_WAITERS, sizeof(*e->waiters));
	if (!e->waiters)
		return -ENOMEM;
	for (uint32_t i = 0; i < e->reactors; i++) {
		struct engine_reactor *r = &e->reactor[i];
		uint32_t first = i * ENGINE_WAITERS;
		int rc = heap_init(&r->deadlines, ENGINE_WAITERS);

		if (rc < 0)
			return rc;
		for (uint32_t id = first; id < first + ENGINE_WAITERS; id++)
			e->waiters[id].next = id + 1 < first + ENGINE_WAITERS ? id + 2 : 0;
		r->free_waiter = first + 1;
		r->work_tail = &r->work;
		r->done_tail = &r->done;
	}
	return 0;
}

/* --- queues of ops ------------------------------------------------------------------------ */

/* @tail is where the next op will be linked: the head itself while there is none. */
static void wait_queue_push(struct larder_op ***tail, struct larder_op *op)
{
	op->next = NULL;
	op->pprev = *tail;
	**tail = op;
	*tail = &op->next;
}

static void wait_queue_remove(struct larder_op ***tail, struct larder_op *op)
{
	*op->pprev = op->next;
	if (op->next)
		op->next->pprev = op->pprev;
	else
		*tail = op->pprev;
	op->next = NULL;
	op->pprev = NULL;
}

static void wait_complete(struct engine_reactor *r, struct larder_op *op)
{
	wait_queue_push(&r->done_tail, op);
}

/* --- parking ------------------------------------------------------------------------------ */

static void wait_gauge(struct engine *e, const struct engine_waiter *w, int64_t sign)
{
	struct larder_gauges *g = engine_gauges(e, w->op->tenant);

	if (g && w->kind == WAIT_KEY)
		ledger_gauge_add(&g->waiting, (uint64_t)sign);
}

static struct engine_waiter *wait_take(struct engine_reactor *r, struct larder_op *op,
				       enum engine_wait kind, uint32_t slot)
{
	struct engine *e = r->engine;
	uint32_t id = r->free_waiter;
	struct engine_waiter *w;

	/* one tenant leaves places to the others */
	if (id == 0 || r->parked_of[op->tenant] >= ENGINE_WAITERS_TENANT) {
		struct larder_usage *u = engine_usage(r, engine_usage_slot(e, op));

		if (u)
			ledger_count(&u->waits_refused, 1);
		return NULL;
	}
	w = &e->waiters[id - 1];
	r->free_waiter = w->next;
	*w = (struct engine_waiter){ .op = op, .kind = (uint8_t)kind, .slot = slot };
	op->stage = id;
	if (op->deadline_ns)
		heap_set(&r->deadlines, (id - 1) % ENGINE_WAITERS, op->deadline_ns);
	r->parked_of[op->tenant]++;
	wait_gauge(e, w, 1);
	engine_tally(&r->counters.parked, 1);
	return w;
}

/* The op is not parked any more. */
static void wait_give(struct engine_reactor *r, struct engine_waiter *w)
{
	uint32_t id = (uint32_t)(w - r->engine->waiters);

	heap_remove(&r->deadlines, id % ENGINE_WAITERS);
	r->parked_of[w->op->tenant]--;
	wait_gauge(r->engine, w, -1);
	w->op->stage = 0;
	w->op = NULL;
	w->kind = WAIT_FREE;
	w->next = r->free_waiter;
	r->free_waiter = id + 1;
	engine_tally(&r->counters.parked, -1);
}

bool engine_wait_key(struct engine_reactor *r, struct larder_op *op, uint32_t slot)
{
	struct engine *e = r->engine;
	struct engine_object *o = &e->objects[slot];
	struct engine_waiter *w = wait_take(r, op, WAIT_KEY, slot);

	if (!w)
		return false;
	w->linked = 1;
	w->next = o->waiters;
	if (w->next)
		e->waiters[w->next - 1].prev = op->stage;
	o->waiters = op->stage;
	return true;
}

/* Shard's lock held. */
static void wait_unlink(struct engine *e, struct engine_waiter *w)
{
	if (w->prev)
		e->waiters[w->prev - 1].next = w->next;
	else
		e->objects[w->slot].waiters = w->next;
	if (w->next)
		e->waiters[w->next - 1].prev = w->prev;
	w->linked = 0;
}

bool engine_wait_work(struct engine_reactor *r, struct larder_op *op, uint32_t slot,
		      const struct engine_scan *scan)
{
	struct engine_waiter *w = wait_take(r, op, WAIT_WORK, slot);

	if (!w)
		return false;
	if (scan)
		w->scan = *scan;
	wait_queue_push(&r->work_tail, op);
	return true;
}

/* --- waking ------------------------------------------------------------------------------- */

uint32_t engine_wait_detach(struct engine *e, struct engine_object *o, enum engine_outcome outcome,
			    uint32_t *ret_n)
{
	uint32_t list = o->waiters;

	*ret_n = 0;
	for (uint32_t id = list; id; id = e->waiters[id - 1].next) {
		e->waiters[id - 1].linked = 0;
		e->waiters[id - 1].outcome = (uint8_t)outcome;
		(*ret_n)++;
	}
	o->waiters = 0;
	return list;
}

/* Hands each waiter of the list to its home. What is pushed is not ours any more. */
void engine_wait_wake(struct engine_reactor *r, uint32_t list)
{
	struct engine *e = r->engine;

	while (list) {
		uint32_t id = list;
		struct engine_waiter *w = &e->waiters[id - 1];
		struct engine_reactor *home = &e->reactor[(id - 1) / ENGINE_WAITERS];
		uint32_t top = __atomic_load_n(&home->ready, __ATOMIC_RELAXED);

		list = w->next;
		do
			w->ready_next = top;
		while (!__atomic_compare_exchange_n(&home->ready, &top, id, true, __ATOMIC_RELEASE,
						    __ATOMIC_RELAXED));
		/* one call while it has not looked: it takes all that it finds */
		if (top == 0 && home != r && home->wake)
			home->wake(home->wake_user);
	}
}

static void wait_finish(struct engine_reactor *r, struct engine_waiter *w, uint64_t now)
{
	struct larder_op *op = w->op;
	enum engine_outcome outcome = w->outcome;
	uint32_t slot = w->slot;

	wait_give(r, w);
	switch (op->opcode) {
	case LARDER_OP_PUT:
	case LARDER_OP_PUT_BEGIN:
		engine_put_told(r, op, slot, outcome);
		break;
	case LARDER_OP_GET:
		if (engine_get_told(r, op, slot, outcome, now) == ENGINE_LATER)
			return;
		break;
	default:			/* EXISTS, LEASE: look again from that key on */
		if (outcome == OUTCOME_COMMITTED)
			engine_unref(r, &r->engine->objects[slot]);
		if (engine_exists(r, op, now, true) == ENGINE_LATER)
			return;
	}
	wait_complete(r, op);
}

static void wait_drain_ready(struct engine_reactor *r, uint64_t now)
{
	struct engine *e = r->engine;
	uint32_t id, list = 0;

	if (!__atomic_load_n(&r->ready, __ATOMIC_RELAXED))
		return;
	id = __atomic_exchange_n(&r->ready, 0, __ATOMIC_ACQUIRE);
	while (id) {			/* turn the stack over: first woken, first told */
		struct engine_waiter *w = &e->waiters[id - 1];
		uint32_t next = w->ready_next;

		w->ready_next = list;
		list = id;
		id = next;
	}
	while (list) {
		struct engine_waiter *w = &e->waiters[list - 1];

		list = w->ready_next;
		wait_finish(r, w, now);
	}
}

/* --- deadlines and cancel ----------------------------------------------------------------- */

/* True: the op is its caller's again, and what it held is given back. */
static bool wait_take_back(struct engine_reactor *r, struct engine_waiter *w)
{
	struct engine *e = r->engine;
	struct larder_op *op = w->op;
	uint32_t slot = w->slot;
	bool linked;

	if (w->kind == WAIT_WORK) {
		wait_queue_remove(&r->work_tail, op);
		wait_give(r, w);
		if (slot != RECORD_NONE)
			engine_put_fail(r, slot);
		return true;
	}
	engine_lock(e, op->shard);
	linked = w->linked;
	if (linked)
		wait_unlink(e, w);
	engine_unlock(e, op->shard);
	if (linked)
		wait_give(r, w);
	return linked;
}

static void wait_expire(struct engine_reactor *r, uint64_t now)
{
	while (heap_first(&r->deadlines) <= now) {
		uint32_t id = r->deadlines.entries[0].id;
		struct engine_waiter *w = &r->engine->waiters[r->index * ENGINE_WAITERS + id];
		struct larder_op *op = w->op;

		if (!wait_take_back(r, w)) {
			heap_remove(&r->deadlines, id);	/* its outcome is on the way */
			continue;
		}
		op->status = LARDER_DEADLINE;
		/* what is known of its keys is an answer: the rest without waiting */
		if (op->opcode == LARDER_OP_EXISTS || op->opcode == LARDER_OP_LEASE)
			(void)engine_exists(r, op, now, false);
		wait_complete(r, op);
	}
}

int engine_cancel(struct engine_reactor *r, struct larder_op *op)
{
	if (op->stage == 0 || !wait_take_back(r, &r->engine->waiters[op->stage - 1]))
		return -EALREADY;
	op->object = NULL;
	op->status = LARDER_CANCELLED;
	return 0;
}

uint64_t engine_next_deadline(struct engine_reactor *r)
{
	uint64_t at;

	if (r->done || r->work || __atomic_load_n(&r->ready, __ATOMIC_RELAXED))
		return 0;
	at = MIN(heap_first(&r->deadlines), engine_ahead_at(r));
	at = MIN(at, engine_fill_next(r->engine));
	return MIN(at, engine_scrub_at(r));
}

/* --- poll --------------------------------------------------------------------------------- */

static int wait_continue(struct engine_reactor *r, struct larder_op *op, uint32_t *slot,
			 struct engine_scan *scan, uint64_t now)
{
	switch (op->opcode) {
	case LARDER_OP_RELEASE:
		return engine_release(r, op, now);
	case LARDER_OP_NS_FLUSH:
		return engine_flush(r, op, now);
	default:
		return engine_put_continue(r, op, slot, scan, now);
	}
}

/* One turn of the op at the head of the queue. */
static void wait_work(struct engine_reactor *r, uint64_t now)
{
	struct larder_op *op = r->work;
	struct engine_waiter *w;
	struct engine_scan scan;
	uint32_t slot;

	if (!op)
		return;
	w = &r->engine->waiters[op->stage - 1];
	slot = w->slot;
	scan = w->scan;
	wait_queue_remove(&r->work_tail, op);
	wait_give(r, w);
	if (wait_continue(r, op, &slot, &scan, now) == ENGINE_DONE)
		wait_complete(r, op);
	else if (op->stage == 0)	/* else it waits for another writer now */
		(void)engine_wait_work(r, op, slot, &scan);	/* the waiter just given is there */
}

static struct larder_op *wait_done_pop(struct engine_reactor *r)
{
	struct larder_op *op = r->done;

	if (op)
		wait_queue_remove(&r->done_tail, op);
	return op;
}

struct larder_op *engine_poll(struct engine_reactor *r)
{
	uint64_t now = engine_now(r);
	struct larder_op *op;

	wait_drain_ready(r, now);
	wait_expire(r, now);
	op = wait_done_pop(r);
	if (op)
		return op;
	wait_work(r, now);
	engine_housekeep(r, now);
	return wait_done_pop(r);
}
