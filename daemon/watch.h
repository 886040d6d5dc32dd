/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a tenant's figures wants a person's attention: it puts and never hits. The usual cause is
 * engines that hash the same tokens to different keys (a seed of each process), and a node that is
 * full of objects which nobody will ask for.
 */
#ifndef LARDER_DAEMON_WATCH_H
#define LARDER_DAEMON_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <larder/ledger.h>

#define WATCH_PUTS_NEVER_HIT "puts_never_hit"
#define WATCH_PUTS 1000u		/* stored since the last hit */
#define WATCH_AGAIN_MS 3600000ull	/* a line is said once in that time */

struct watch {
	struct watch_tenant {
		uint64_t hits;		/* at the last look */
		uint64_t puts_then;	/* what had been stored when it last hit */
		uint64_t puts;		/* since then */
		uint64_t told_ms;	/* when the last line was said */
		bool told;
		bool warned;
	} at[LARDER_LEDGER_TENANTS];
};

/*
 * One look at the figures of the tenant in @slot. True: now is the time for a line about it;
 * at[slot].warned says whether the warning holds.
 */
bool watch_look(struct watch *w, uint32_t slot, const struct larder_usage *u, uint64_t now_ms);

#endif
