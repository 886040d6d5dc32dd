/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines in order: a binary heap of (time, id) for ids 0 to n-1, each in it at most once, so
 * that one can be moved or taken out by its id. All memory is taken at init.
 *
 * Thread rules: none inside; the owner's lock or thread.
 */
#ifndef LARDER_ENGINE_HEAP_H
#define LARDER_ENGINE_HEAP_H

#include <stdint.h>

struct heap_entry {
	uint64_t at;
	uint32_t id;
};

struct heap {
	struct heap_entry *entries;
	uint32_t *place;		/* by id: index + 1 into entries, 0 = not in the heap */
	uint32_t count;
};

int heap_init(struct heap *h, uint32_t ids);	/* 0 or -ENOMEM */
void heap_done(struct heap *h);
void heap_set(struct heap *h, uint32_t id, uint64_t at);	/* puts in, or moves */
void heap_remove(struct heap *h, uint32_t id);			/* nothing when it is not in */
void heap_shift(struct heap *h, uint64_t by);			/* every time grows by @by */

/* UINT64_MAX when it is empty. */
static inline uint64_t heap_first(const struct heap *h)
{
	return h->count ? h->entries[0].at : UINT64_MAX;
}

/* Time of an id that is in the heap. */
static inline uint64_t heap_at(const struct heap *h, uint32_t id)
{
	return h->entries[h->place[id] - 1].at;
}

#endif
