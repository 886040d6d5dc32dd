/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knobs of the loop transport, for tests and the simulator: how unkind the wire is.
 * They act on what this transport's connections send and receive from now on.
 */
#ifndef LARDER_TRANSPORT_LOOP_H
#define LARDER_TRANSPORT_LOOP_H

#include "transport/transport.h"

#define LOOP_RING_BYTES (256u * 1024u)	/* per direction */
#define LOOP_DELAY_MAX 63u

struct loop_knobs {
	uint32_t max_move;	/* bytes per poll, connection and direction; 0 = the turn's limit */
	uint64_t split_seed;	/* not 0: a random number of bytes from 1 to max_move instead */
	uint32_t delay_polls;	/* what arrives is seen this many of the receiver's polls later */
	uint64_t break_after;	/* the connection breaks when this end has sent so many; 0: no */
};

/* @t: a loop transport. 0; -EINVAL: delay_polls over LOOP_DELAY_MAX, or not a loop transport. */
int loop_set_knobs(struct transport *t, const struct loop_knobs *knobs);
/* Breaks a connection as a cut cable does: both sides get DOWN with -ECONNRESET, unsent bytes are
 * lost. 0, -ENOTCONN. */
int loop_break(struct transport_conn *c);

/*
 * The network between both ends, for a simulator that owns every transport of its process. What
 * becomes of a connection is drawn once, as it is made; it acts on top of the knobs.
 */
#define LOOP_FOREVER UINT64_MAX

/* One direction. All zero but @break_after and @cut_after (LOOP_FOREVER) is a kind wire. */
struct loop_wire {
	uint32_t max_move;	/* as in the knobs, of what this direction sends */
	uint64_t split_seed;
	uint32_t delay_polls;	/* added to the receiver's */
	uint64_t break_after;	/* both sides get DOWN when so many bytes were sent */
	/* Bytes past so many never arrive, and neither does any end: nobody is told. The sender
	 * may go on until the ring is full, as with a cable that was pulled. */
	uint64_t cut_after;
	bool cut_both;		/* the other direction is cut when this one is */
};

struct loop_net {
	/* @wire[0]: of the side that connects, [1]: of the side that accepts. Both are kind. */
	void (*draw)(void *user, struct loop_wire wire[2]);
	void *user;
	/* All is well: every wire is kind, except that what was cut stays cut. */
	bool kind;
	/* The process at the accepting side is dead and only its functions still run: what it
	 * sends goes nowhere. */
	bool muted;
};

/* NULL: the kind network. Not while connections are made or bytes moved by another thread; @net
 * stays the caller's and is read until it is replaced. */
void loop_set_net(const struct loop_net *net);

#endif
