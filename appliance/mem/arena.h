/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page allocator over one mapping. A value is a list of runs; the allocator prefers long runs but
 * succeeds while enough pages are free. Bitmap with summary levels: finding the next free page
 * costs a constant number of words. State lives on the heap; after a restart the owner claims the
 * pages that its records name.
 *
 * Thread rules: every function may be called from any thread (one short lock inside).
 */
#ifndef LARDER_MEM_ARENA_H
#define LARDER_MEM_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include <larder/types.h>

struct arena;

/* @base stays the caller's mapping of pages * page_size bytes. */
int arena_new(void *base, uint32_t pages, uint32_t page_size, struct arena **ret);
struct arena *arena_free_all(struct arena *a);	/* destructor: NULL in, NULL out; always NULL */

/*
 * Takes @pages pages as at most @max_runs runs into @runs. Returns the number of runs (> 0),
 * -ENOSPC when fewer pages are free, -E2BIG when free memory is so scattered that @max_runs do not
 * reach (pass max_runs = pages to never see it). Nothing is taken on failure.
 */
int arena_alloc(struct arena *a, uint32_t pages, struct larder_run *runs, uint32_t max_runs);
void arena_release(struct arena *a, const struct larder_run *runs, uint32_t n_runs);
/* At rebuild: marks a run used. -EEXIST when any page of it is used already (nothing is marked),
 * -ERANGE when it is outside. */
int arena_claim(struct arena *a, struct larder_run run);

uint32_t arena_free_pages(struct arena *a);	/* a snapshot */
uint32_t arena_pages(const struct arena *a);
uint32_t arena_page_size(const struct arena *a);
void *arena_base(const struct arena *a);

static inline uint32_t arena_pages_of(uint32_t page_size, uint64_t length)
{
	return (uint32_t)((length + page_size - 1) / page_size);
}

#endif
