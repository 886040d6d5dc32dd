/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs_phase.h"

#define TO(phase) (1u << (phase))
#define END TO(VERBS_ENDING)

static const struct {
	const char *name;
	unsigned next;
} phases[VERBS_PHASES] = {
	[VERBS_FREE] = { "free", TO(VERBS_ADDRESS) | TO(VERBS_ANSWERED) },
	[VERBS_ADDRESS] = { "address", TO(VERBS_ROUTE) | END },
	[VERBS_ROUTE] = { "route", TO(VERBS_ASKED) | END },
	[VERBS_ASKED] = { "asked", TO(VERBS_NEW) | END },
	[VERBS_ANSWERED] = { "answered", TO(VERBS_NEW) | END },
	[VERBS_NEW] = { "new", TO(VERBS_OPEN) | END },
	[VERBS_OPEN] = { "open", TO(VERBS_DRAIN) | END },
	[VERBS_DRAIN] = { "drain", END },
	[VERBS_ENDING] = { "ending", TO(VERBS_OVER) },
	[VERBS_OVER] = { "over", TO(VERBS_DOWN) | TO(VERBS_GONE) },
	[VERBS_DOWN] = { "down", TO(VERBS_GONE) },
	[VERBS_GONE] = { "gone", TO(VERBS_FREE) },
};

const char *verbs_phase_name(enum verbs_phase phase)
{
	return phase < VERBS_PHASES ? phases[phase].name : "?";
}

bool verbs_phase_allows(enum verbs_phase from, enum verbs_phase to)
{
	return from < VERBS_PHASES && to < VERBS_PHASES && phases[from].next & TO(to);
}
