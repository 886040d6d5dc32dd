/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs_credits.h"

#include <errno.h>

#include "base/compiler.h"

#define CREDITS_UPDATE (1u << 31)
#define CREDITS_TAKEN_BITS 23u
#define CREDITS_TAKEN_MASK ((1u << CREDITS_TAKEN_BITS) - 1)
/* A connection takes at most this part of what is left, so that many find something. */
#define CREDITS_SHARE 8u

void verbs_credits_init(struct verbs_credits *c, uint32_t ours, uint32_t theirs)
{
	*c = (struct verbs_credits){ .limit = theirs, .theirs = theirs, .window = ours };
}

bool verbs_credits_may_send(const struct verbs_credits *c)
{
	return c->sent != c->limit;
}

static uint32_t credits_tell(struct verbs_credits *c)
{
	c->told = c->taken;
	return (uint32_t)c->updates_received << CREDITS_TAKEN_BITS |
	       (c->taken & CREDITS_TAKEN_MASK);
}

uint32_t verbs_credits_send(struct verbs_credits *c)
{
	c->sent++;
	return credits_tell(c);
}

bool verbs_credits_update_due(const struct verbs_credits *c)
{
	return c->taken - c->told >= MAX(c->window / 2, 1u) &&
	       (uint8_t)(c->updates_sent - c->updates_acked) < VERBS_UPDATES;
}

uint32_t verbs_credits_update(struct verbs_credits *c)
{
	c->updates_sent++;
	return CREDITS_UPDATE | credits_tell(c);
}

int verbs_credits_arrived(struct verbs_credits *c, uint32_t imm)
{
	/* what was taken of our messages before: those that the peer's window does not hold */
	uint32_t before = c->limit - c->theirs;
	uint32_t more = ((imm & CREDITS_TAKEN_MASK) - before) & CREDITS_TAKEN_MASK;
	uint8_t acked = (uint8_t)(imm >> CREDITS_TAKEN_BITS);

	if (more > c->sent - before)
		return -EPROTO;		/* it took more than was sent */
	if ((uint8_t)(acked - c->updates_acked) >
	    (uint8_t)(c->updates_sent - c->updates_acked))
		return -EPROTO;
	c->limit += more;
	c->updates_acked = acked;
	if (imm & CREDITS_UPDATE) {
		c->updates_received++;
		return 1;
	}
	if (c->received - c->taken >= c->window)
		return -EPROTO;
	c->received++;
	return 0;
}

void verbs_credits_taken(struct verbs_credits *c)
{
	c->taken++;
}

uint32_t verbs_credits_grant(uint32_t want, uint32_t left, uint32_t all)
{
	uint32_t most = left;

	want = MIN(want, VERBS_WINDOW_MAX);
	if (want < VERBS_WINDOW_MIN || left < VERBS_WINDOW_MIN + VERBS_UPDATES)
		return 0;
	if (left <= all / 2)
		most = MAX(left / CREDITS_SHARE, VERBS_WINDOW_MIN + VERBS_UPDATES);
	return MIN(want, most - VERBS_UPDATES);
}
