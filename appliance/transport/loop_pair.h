/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop transport's own structs and the calls between its files; nobody else includes this.
 *
 *	loop.c		the table, names, listeners, poll
 *	loop_end.c	pairs, bytes, knobs, the end of a connection, kicks
 */
#ifndef LARDER_TRANSPORT_LOOP_PAIR_H
#define LARDER_TRANSPORT_LOOP_PAIR_H

#include <pthread.h>

#include "base/list.h"
#include "base/prng.h"
#include "transport/loop.h"
#include "transport/stream.h"

#define LOOP_NAME_MAX 64u
#define LOOP_BACKLOG 256u	/* connections not yet accepted, per name */

struct loop {
	struct transport base;	/* first */
	struct transport_config config;
	struct loop_knobs knobs;
	struct prng split;
	int event_fd;
	pthread_mutex_t kick_lock;
	bool kicked;		/* kick_lock: event_fd is readable */
	bool idle;		/* the last poll returned 0 */
	bool moved;		/* this poll moved bytes, or waits only for more polls */
	unsigned backlog;	/* atomic: pairs in the backlogs of our names */
	uint32_t accepted;
	uint64_t turn;
	struct list conns;
	struct list dead;
	struct list listeners;
};

struct loop_listener {
	struct list registered;	/* in loop_names */
	struct list link;	/* in loop.listeners */
	struct list backlog;	/* of far ends */
	unsigned n;
	struct loop *owner;
	char name[LOOP_NAME_MAX];
};

/* One direction. Positions only grow. */
struct loop_ring {
	uint64_t written;
	uint64_t read;
	bool closed;		/* the writer has ended in order */
	bool broken;		/* the writer is gone, or the cable is cut */
	bool cut;		/* nothing past wire.cut_after arrives, no end either */
	struct loop_wire wire;
	struct prng split;
	char bytes[LOOP_RING_BYTES];
};

struct loop_pair;

struct loop_end {
	struct stream stream;	/* first: a loop_end is a conn */
	struct loop_pair *pair;
	unsigned side;
	bool accepted;
	bool hung_up;
	struct list link;	/* in a backlog, loop.conns or loop.dead */
	uint64_t turn;
	uint64_t polls;
	uint64_t sent;
	uint64_t deadline;	/* of a drain that makes no progress */
	size_t tx_budget;
	size_t rx_budget;
	uint64_t seen[LOOP_DELAY_MAX + 1];	/* ring's written at the last polls */
};

struct loop_pair {
	pthread_mutex_t lock;
	unsigned refs;			/* ends not released */
	struct loop *owner[2];		/* to kick; NULL: in a backlog, or released */
	struct loop_end end[2];
	struct loop_ring ring[2];	/* [i]: written by end i */
	char name[LOOP_NAME_MAX];
};

static inline struct loop *loop_of(struct transport *t)
{
	return (struct loop *)t;
}

static inline struct loop_end *loop_end_of(struct transport_conn *c)
{
	return (struct loop_end *)c;
}

static inline struct loop *loop_owner(const struct loop_end *e)
{
	return loop_of(e->stream.base.transport);
}

/* Locking a valid, error-free default mutex can not fail. */
static inline void loop_lock(pthread_mutex_t *m)
{
	(void)pthread_mutex_lock(m);
}

static inline void loop_unlock(pthread_mutex_t *m)
{
	(void)pthread_mutex_unlock(m);
}

void loop_kick(struct loop *t);	/* NULL is fine: an end in a backlog */
void loop_unkick(struct loop *t);
/* The end's owner gave it something to do, from outside a poll. */
void loop_own_work(struct loop_end *e);

/* The network in force; NULL: the kind one. */
const struct loop_net *loop_net(void);
struct loop_pair *loop_pair_new(const char *name);	/* NULL: no memory */
void loop_end_adopt(struct loop *t, struct loop_end *e);
void loop_end_release(struct loop_end *e);
void loop_end_send(struct loop_end *e);
void loop_end_serve(struct loop_end *e, struct stream_batch *b);
void loop_end_start_drain(struct loop_end *e);
void loop_end_finish(struct loop_end *e, int status, int cancel_status);

#endif
