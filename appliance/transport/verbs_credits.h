/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credits of a verbs connection: arithmetic, no verbs in it.
 *
 * All connections of a reactor receive from one shared queue, so a peer may send only as many
 * messages as were set aside for it: its window. What was taken out of the queue again is told by a
 * running count in the immediate value of everything that goes the other way. When nothing does, an
 * empty message tells it alone: an update.
 *
 * An update needs a receive, too: two more than the window are set aside. A third is not sent
 * before the peer has shown (in its own count) that it got the first. This never stalls: whoever
 * used up what two updates gave has sent something that was received, and with it the
 * acknowledgement.
 *
 *	immediate value:  update (1 bit) | updates received (8) | messages taken (23)
 */
#ifndef LARDER_TRANSPORT_VERBS_CREDITS_H
#define LARDER_TRANSPORT_VERBS_CREDITS_H

#include <stdbool.h>
#include <stdint.h>

#define VERBS_WINDOW_MIN 2u
#define VERBS_WINDOW_MAX 1024u
#define VERBS_UPDATES 2u	/* receives set aside for updates, beside the window */

struct verbs_credits {
	/* what we send */
	uint32_t limit;		/* messages that the peer allows, since the beginning */
	uint32_t sent;
	uint32_t theirs;	/* the window that it gave */
	uint8_t updates_sent;
	uint8_t updates_acked;
	/* what we receive */
	uint32_t window;	/* that we gave */
	uint32_t received;
	uint32_t taken;		/* of these, out of the queue again */
	uint32_t told;		/* of these, told to the peer */
	uint8_t updates_received;
};

/* @ours: the window that we gave; @theirs: the one that we got. */
void verbs_credits_init(struct verbs_credits *c, uint32_t ours, uint32_t theirs);
bool verbs_credits_may_send(const struct verbs_credits *c);
/* A message leaves: counts it and gives its immediate value. */
uint32_t verbs_credits_send(struct verbs_credits *c);
/* Is there so much to tell that an update is worth its while, and may one be sent? */
bool verbs_credits_update_due(const struct verbs_credits *c);
uint32_t verbs_credits_update(struct verbs_credits *c);
/* Something arrived with @imm. 1: an update; 0: a message; -EPROTO: it is over its credit, or tells
 * what can not be. */
int verbs_credits_arrived(struct verbs_credits *c, uint32_t imm);
/* A message was taken out of the queue. */
void verbs_credits_taken(struct verbs_credits *c);
/* The window of a late connection: all that it wants while there is plenty, then less, at least
 * VERBS_WINDOW_MIN; 0: it must be refused. @left: receives that are nobody's, of @all. */
uint32_t verbs_credits_grant(uint32_t want, uint32_t left, uint32_t all);

#endif
