/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of a verbs connection, and which may follow which.
 *
 *	ADDRESS ─▶ ROUTE ─▶ ASKED ─┐
 *	   (client)                ├─▶ NEW ─▶ OPEN ─▶ DRAIN
 *	ANSWERED ──────────────────┘    │      │        │
 *	   (node)   every one of them ──┴──────┴────────┴─▶ ENDING ─▶ OVER ─▶ DOWN ─▶ GONE
 *
 * ENDING: the queue pair is in the error state and gives back what it held. From OVER on there is
 * no queue pair: nothing touches any memory on this connection's behalf.
 */
#ifndef LARDER_TRANSPORT_VERBS_PHASE_H
#define LARDER_TRANSPORT_VERBS_PHASE_H

#include <stdbool.h>

enum verbs_phase {
	VERBS_FREE,	/* not in use */
	VERBS_ADDRESS,	/* the address is being resolved to a device */
	VERBS_ROUTE,	/* ... and the path to it */
	VERBS_ASKED,	/* the request for a connection is out */
	VERBS_ANSWERED,	/* the node said yes and waits to hear that it arrived */
	VERBS_NEW,	/* connected; UP is owed */
	VERBS_OPEN,
	VERBS_DRAIN,	/* disconnect asked to send first: what arrives is thrown away */
	VERBS_ENDING,
	VERBS_OVER,	/* DOWN is owed */
	VERBS_DOWN,	/* DOWN is told: descriptors and buffers go back */
	VERBS_GONE,	/* told; the memory lives until the next poll */
	VERBS_PHASES
};

const char *verbs_phase_name(enum verbs_phase phase);
bool verbs_phase_allows(enum verbs_phase from, enum verbs_phase to);

#endif
