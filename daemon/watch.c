/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

bool watch_look(struct watch *w, uint32_t slot, const struct larder_usage *u, uint64_t now_ms)
{
	struct watch_tenant *t = &w->at[slot];
	/* an EXISTS that found a key is as good a sign as a GET that did */
	uint64_t hits = u->get_hits + u->exists_present;

	if (hits != t->hits) {
		t->hits = hits;
		t->puts_then = u->put_new;
	}
	t->puts = u->put_new - t->puts_then;
	t->warned = t->puts >= WATCH_PUTS;
	if (!t->warned || (t->told && now_ms - t->told_ms < WATCH_AGAIN_MS))
		return false;
	t->told = true;
	t->told_ms = now_ms;
	return true;
}
