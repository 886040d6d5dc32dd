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

#endif
