/* SPDX-License-Identifier: Apache-2.0 */
/* A binary heap that knows the place of each id. See heap.h. */
#include <errno.h>
#include <stdlib.h>

#include "engine/heap.h"

int heap_init(struct heap *h, uint32_t ids)
{
	*h = (struct heap){
		.entries = calloc(ids, sizeof(*h->entries)),
		.place = calloc(ids, sizeof(*h->place)),
	};
	if (h->entries && h->place)
		return 0;
	heap_done(h);
	return -ENOMEM;
}

void heap_done(struct heap *h)
{
	free(h->entries);
	free(h->place);
	*h = (struct heap){};
}

static void heap_put(struct heap *h, uint32_t i, struct heap_entry entry)
{
	h->entries[i] = entry;
	h->place[entry.id] = i + 1;
}

/* Finds the place for @entry, from the hole at @i towards the root or the leaves. */
static void heap_settle(struct heap *h, uint32_t i, struct heap_entry entry)
{
	while (i > 0 && h->entries[(i - 1) / 2].at > entry.at) {
		heap_put(h, i, h->entries[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= h->count)
			break;
		if (child + 1 < h->count && h->entries[child + 1].at < h->entries[child].at)
			child++;
		if (h->entries[child].at >= entry.at)
			break;
		heap_put(h, i, h->entries[child]);
		i = child;
	}
	heap_put(h, i, entry);
}

void heap_set(struct heap *h, uint32_t id, uint64_t at)
{
	uint32_t i = h->place[id] ? h->place[id] - 1 : h->count++;

	heap_settle(h, i, (struct heap_entry){ .at = at, .id = id });
}

void heap_remove(struct heap *h, uint32_t id)
{
	uint32_t i = h->place[id];
	struct heap_entry last;

	if (i == 0)
		return;
	h->place[id] = 0;
	last = h->entries[--h->count];
	if (last.id != id)
		heap_settle(h, i - 1, last);
}

void heap_shift(struct heap *h, uint64_t by)
{
	for (uint32_t i = 0; i < h->count; i++)
		h->entries[i].at += by;
}
