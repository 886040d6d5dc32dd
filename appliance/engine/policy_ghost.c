/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See policy_ghost.h. The line of a key follows from the hash bits below those that chose its
 * shard, the fingerprint from the low half. A fingerprint of 0 marks an empty slot.
 *
 * The clock in a slot has 32 bits. It ticks once per 2^shift pages, the shift being such that four
 * times the node's memory is far from one turn of it; what is left over is carried, so it runs
 * true. A slot that nobody overwrote for a whole turn would look young again: by then its line has
 * seen many other keys, each of which takes the place of the oldest.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "engine/policy_ghost.h"

#define GHOST_SLOTS 8u			/* of a line */
#define GHOST_LINES_PER_OBJECT 2u	/* 16 slots */
#define GHOST_CAPACITIES 4u		/* how many times the node's memory is remembered */
#define GHOST_TICKS_MAX (1u << 26)	/* that the node's memory may have */
#define GHOST_HUGE (2u << 20)

struct ghost_slot {
	uint32_t fingerprint;
	uint32_t clock;
};

struct ghost_line {
	struct ghost_slot slot[GHOST_SLOTS];
} __attribute__((aligned(CACHE_LINE)));
static_assert(sizeof(struct ghost_line) == CACHE_LINE, "one miss");

struct policy_ghost {
	struct ghost_line *lines;
	size_t bytes;
	uint32_t shard_bits;
	uint32_t per_shard;		/* lines */
	uint32_t shift;
	uint32_t window;		/* ticks */
	uint64_t clock;			/* atomic: pages */
};

int policy_ghost_new(uint32_t shard_bits, uint32_t objects, uint32_t pages,
		     struct policy_ghost **ret)
{
	struct policy_ghost *g = calloc(1, sizeof(*g));
	uint64_t lines = (uint64_t)objects * GHOST_LINES_PER_OBJECT;
	size_t align;

	if (!g)
		return -ENOMEM;
	g->shard_bits = shard_bits;
	g->per_shard = (uint32_t)(lines >> shard_bits) + 1;
	while (pages >> g->shift > GHOST_TICKS_MAX)
		g->shift++;
	g->window = (pages >> g->shift) * GHOST_CAPACITIES;
	g->bytes = ((size_t)g->per_shard << shard_bits) * sizeof(*g->lines);
	align = g->bytes < GHOST_HUGE ? CACHE_LINE : GHOST_HUGE;
	g->bytes = ALIGN_UP(g->bytes, align);
	g->lines = aligned_alloc(align, g->bytes);
	if (!g->lines) {
		free(g);
		return -ENOMEM;
	}
	if (align == GHOST_HUGE)
		(void)madvise(g->lines, g->bytes, MADV_HUGEPAGE);	/* a wish */
	memset(g->lines, 0, g->bytes);
	*ret = g;
	return 0;
}

struct policy_ghost *policy_ghost_free(struct policy_ghost *g)
{
	if (!g)
		return NULL;
	free(g->lines);
	free(g);
	return NULL;
}

size_t policy_ghost_bytes(const struct policy_ghost *g)
{
	return g->bytes;
}

static struct ghost_line *ghost_line(const struct policy_ghost *g, uint64_t hash)
{
	uint64_t shard = g->shard_bits ? hash >> (64 - g->shard_bits) : 0;
	uint64_t in_shard = hash << g->shard_bits >> 32;

	return &g->lines[shard * g->per_shard + (in_shard * g->per_shard >> 32)];
}

static uint32_t ghost_fingerprint(uint64_t hash)
{
	uint32_t low = (uint32_t)hash;

	return low ? low : 1;
}

static uint32_t ghost_now(const struct policy_ghost *g)
{
	return (uint32_t)(__atomic_load_n(&g->clock, __ATOMIC_RELAXED) >> g->shift);
}

static struct ghost_slot *ghost_find(const struct policy_ghost *g, uint64_t hash)
{
	struct ghost_line *line = ghost_line(g, hash);
	uint32_t fingerprint = ghost_fingerprint(hash);

	/* nothing was ever put: spares a restart a cache miss for each object */
	if (!__atomic_load_n(&g->clock, __ATOMIC_RELAXED))
		return NULL;
	for (unsigned i = 0; i < GHOST_SLOTS; i++)
		if (line->slot[i].fingerprint == fingerprint)
			return &line->slot[i];
	return NULL;
}

/* Where a new key goes: an empty slot, else the oldest. */
static struct ghost_slot *ghost_place(const struct policy_ghost *g, uint64_t hash, uint32_t now)
{
	struct ghost_line *line = ghost_line(g, hash);
	struct ghost_slot *oldest = &line->slot[0];

	for (unsigned i = 0; i < GHOST_SLOTS; i++) {
		struct ghost_slot *s = &line->slot[i];

		if (s->fingerprint == 0)
			return s;
		if (now - s->clock > now - oldest->clock)
			oldest = s;
	}
	return oldest;
}

void policy_ghost_put(struct policy_ghost *g, uint64_t hash, uint32_t pages)
{
	struct ghost_slot *s = ghost_find(g, hash);
	uint32_t now;

	(void)__atomic_fetch_add(&g->clock, pages, __ATOMIC_RELAXED);
	now = ghost_now(g);
	if (!s)
		s = ghost_place(g, hash, now);
	s->fingerprint = ghost_fingerprint(hash);
	s->clock = now;
}

bool policy_ghost_has(const struct policy_ghost *g, uint64_t hash)
{
	const struct ghost_slot *s = ghost_find(g, hash);

	return s && ghost_now(g) - s->clock <= g->window;
}

bool policy_ghost_take(struct policy_ghost *g, uint64_t hash)
{
	struct ghost_slot *s = ghost_find(g, hash);

	if (!s)
		return false;
	s->fingerprint = 0;
	return ghost_now(g) - s->clock <= g->window;
}
