/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page allocator. One bit per page says whether it is free; above it stand two summaries, each
 * a pyramid of bitmaps in which a bit stands for a word below:
 *
 *	some	the word below has a free page somewhere
 *	full	all 64 pages of the word below are free
 *
 * "some" finds the next free page in one word per level, however full memory is; "full" finds a
 * long run the same way, however scattered the rest is. A request looks at a bounded number of
 * free runs from a cursor on (next fit), takes the first that is long enough, else a whole free
 * word, else the longest that it saw, and goes on with what is left. That keeps runs long without
 * a search that grows with memory. Only a caller with room for few runs can make the greedy choice
 * fail while memory would do; then, and only then, all free runs are looked at for the longest.
 *
 * Invariants, all under the lock: a summary bit is set exactly when its condition holds; n_free is
 * the number of set page bits; bits beyond the last page are never set (so the last word is "full"
 * only where the number of pages is a multiple of 64).
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <larder/probes.h>

#include "base/compiler.h"
#include "mem/arena.h"

#define ARENA_LEVELS 6u		/* 64^6 bits: more than a uint32_t of pages */
#define ARENA_NONE UINT64_MAX
#define ARENA_LOOK 64u		/* free runs that a request looks at before it takes what it saw */

struct arena_pyramid {
	uint64_t *level[ARENA_LEVELS];	/* 0: one bit per page or per word of pages */
	unsigned levels;
};

struct arena {
	uint8_t *base;
	uint32_t pages;
	uint32_t page_size;
	pthread_mutex_t lock;
	/* guarded by the lock; n_free is also read without it */
	struct arena_pyramid some;	/* level 0: the pages themselves */
	struct arena_pyramid full;	/* level 0: one bit per 64 pages */
	uint64_t cursor;		/* page where the next search begins */
	uint32_t n_free;
};

static int arena_pyramid_init(struct arena_pyramid *p, uint64_t bits)
{
	do {
		uint64_t words = (bits + 63) / 64;

		assert(p->levels < ARENA_LEVELS);
		p->level[p->levels] = calloc(words, sizeof(uint64_t));
		if (!p->level[p->levels])
			return -ENOMEM;
		p->levels++;
		bits = words;
	} while (bits > 1);
	return 0;
}

static void arena_pyramid_done(struct arena_pyramid *p)
{
	for (unsigned i = 0; i < p->levels; i++)
		free(p->level[i]);
	p->levels = 0;
}

/* Word @word of level 0 has become non-zero or zero: carries that upward as far as it changes. */
static void arena_pyramid_note(struct arena_pyramid *p, uint64_t word, bool any)
{
	for (unsigned i = 1; i < p->levels; i++) {
		uint64_t *at = &p->level[i][word / 64];
		uint64_t before = *at;

		if (any)
			*at |= 1ull << (word % 64);
		else
			*at &= ~(1ull << (word % 64));
		if ((before != 0) == (*at != 0))
			return;
		word /= 64;
	}
}

/* First set bit of level 0 at or after @from (of @bits), or ARENA_NONE. */
static uint64_t arena_pyramid_next(const struct arena_pyramid *p, uint64_t bits, uint64_t from)
{
	unsigned i = 0;

	if (from >= bits)
		return ARENA_NONE;
	for (;;) {
		uint64_t word = p->level[i][from / 64] >> (from % 64);

		if (word) {
			from += (uint64_t)__builtin_ctzll(word);
			break;
		}
		/* one level up, the words after this one */
		from = from / 64 + 1;
		if (++i == p->levels)
			return ARENA_NONE;
		bits = (bits + 63) / 64;
		if (from >= bits)
			return ARENA_NONE;
	}
	while (i > 0) {
		i--;
		from = from * 64 + (uint64_t)__builtin_ctzll(p->level[i][from]);
	}
	return from;
}

static uint64_t arena_words(const struct arena *a)
{
	return ((uint64_t)a->pages + 63) / 64;
}

/* Sets or clears @mask in one word of pages and keeps both pyramids true. */
static void arena_word_change(struct arena *a, uint64_t word, uint64_t mask, bool set)
{
	uint64_t *at = &a->some.level[0][word];
	uint64_t before = *at;

	*at = set ? before | mask : before & ~mask;
	if ((before != 0) != (*at != 0))
		arena_pyramid_note(&a->some, word, *at != 0);
	if ((before == UINT64_MAX) != (*at == UINT64_MAX)) {
		uint64_t *full = &a->full.level[0][word / 64];
		uint64_t full_before = *full;

		*full ^= 1ull << (word % 64);
		if ((full_before != 0) != (*full != 0))
			arena_pyramid_note(&a->full, word / 64, *full != 0);
	}
}

/* Bits of @word that belong to [@page, @page + @count). */
static uint64_t arena_mask(uint64_t word, uint64_t page, uint64_t count)
{
	uint64_t first = word * 64, low = MAX(page, first) - first;
	uint64_t high = MIN(page + count, first + 64) - first;

	return (high == 64 ? UINT64_MAX : (1ull << high) - 1) & ~((1ull << low) - 1);
}

static void arena_change(struct arena *a, uint64_t page, uint64_t count, bool set)
{
	for (uint64_t w = page / 64; w <= (page + count - 1) / 64; w++)
		arena_word_change(a, w, arena_mask(w, page, count), set);
	__atomic_store_n(&a->n_free, set ? a->n_free + (uint32_t)count
					 : a->n_free - (uint32_t)count, __ATOMIC_RELAXED);
}

/* Whether all (@set) or none (!@set) of the pages are free. */
static bool arena_all(const struct arena *a, uint64_t page, uint64_t count, bool set)
{
	for (uint64_t w = page / 64; w <= (page + count - 1) / 64; w++) {
		uint64_t mask = arena_mask(w, page, count);

		if ((a->some.level[0][w] & mask) != (set ? mask : 0))
			return false;
	}
	return true;
}

/* Length of the free run that begins at the free page @page, looked at no further than @limit. */
static uint64_t arena_run_length(const struct arena *a, uint64_t page, uint64_t limit)
{
	uint64_t at = page;

	while (at - page < limit) {
		uint64_t used = ~(a->some.level[0][at / 64] >> (at % 64));
		uint64_t n = used ? (uint64_t)__builtin_ctzll(used) : 64;

		n = MIN(n, 64 - at % 64);
		at += n;
		if (n == 0 || at % 64 || at >= a->pages)
			break;
	}
	return MIN(at - page, limit);
}

/* Moves @page, free, back to where its run begins, by @limit pages at most. */
static uint64_t arena_run_start(const struct arena *a, uint64_t page, uint64_t limit)
{
	uint64_t at = page;

	while (at > 0 && page - at < limit) {
		uint64_t below = at - 1;	/* the next page down, at bit 63 once shifted */
		uint64_t used = ~(a->some.level[0][below / 64] << (63 - below % 64));
		uint64_t n = used ? (uint64_t)__builtin_clzll(used) : 64;

		n = MIN(n, below % 64 + 1);
		at -= n;
		if (n == 0 || at % 64)
			break;
	}
	return page - at > limit ? page - limit : at;
}

/*
 * Looks at free runs from @from on, wrapping once, and stops at the first of @want pages. Each
 * look costs one of *@looks. Gives the longest seen; count 0 = there was nothing.
 */
static struct larder_run arena_look(const struct arena *a, uint64_t from, uint64_t want,
				    unsigned *looks)
{
	struct larder_run best = { 0, 0 };
	uint64_t at = from, end = a->pages;
	bool wrapped = false;

	do {
		uint64_t page = arena_pyramid_next(&a->some, end, at), count;

		if (page == ARENA_NONE || page >= end) {
			if (wrapped || from == 0)
				break;
			wrapped = true;
			at = 0;
			end = from;
			continue;
		}
		count = arena_run_length(a, page, want);
		if (count > best.count)
			best = (struct larder_run){ (uint32_t)page, (uint32_t)count };
		at = page + count;
		*looks -= *looks ? 1 : 0;
	} while (*looks && best.count < want);
	return best;
}

/* The same over runs that hold a whole free word. */
static struct larder_run arena_look_full(const struct arena *a, uint64_t from, uint64_t want,
					 unsigned *looks)
{
	struct larder_run best = { 0, 0 };
	uint64_t words = arena_words(a), at = from / 64, end = words;
	bool wrapped = false;

	do {
		uint64_t word = arena_pyramid_next(&a->full, end, at), page, count;

		if (word == ARENA_NONE || word >= end) {
			if (wrapped || from / 64 == 0)
				break;
			wrapped = true;
			at = 0;
			end = from / 64;
			continue;
		}
		page = arena_run_start(a, word * 64, 64);
		count = arena_run_length(a, page, want);
		if (count > best.count)
			best = (struct larder_run){ (uint32_t)page, (uint32_t)count };
		at = MAX(word + 1, (page + count) / 64);
		*looks -= *looks ? 1 : 0;
	} while (*looks && best.count < want);
	return best;
}

/* The next run for a request that still wants @want pages. There is a free page. */
static struct larder_run arena_pick(const struct arena *a, uint64_t want, unsigned *looks)
{
	struct larder_run run = { 0, 0 }, full = { 0, 0 };
	unsigned one = 1;

	if (want >= 128)	/* a free run this long holds a whole free word */
		run = arena_look_full(a, a->cursor, want, *looks ? looks : &one);
	if (run.count)
		return run;
	one = 1;
	run = arena_look(a, a->cursor, want, *looks ? looks : &one);
	if (run.count < want && run.count < 64) {
		one = 1;
		full = arena_look_full(a, a->cursor, want, &one);
		if (full.count > run.count)
			run = full;
	}
	return run;
}

/* Keeps the smallest run at the root of the heap runs[0..n). */
static void arena_heap_down(struct larder_run *runs, uint32_t n, uint32_t i)
{
	for (;;) {
		uint64_t least = i, child = 2ull * i + 1;
		struct larder_run swap = runs[i];

		if (child < n && runs[child].count < runs[least].count)
			least = child;
		if (child + 1 < n && runs[child + 1].count < runs[least].count)
			least = child + 1;
		if (least == i)
			return;
		runs[i] = runs[least];
		runs[least] = swap;
		i = (uint32_t)least;
	}
}

/*
 * The @max_runs longest free runs there are, found by looking at all: what decides between -E2BIG
 * and success when the greedy choice did not reach. Returns the runs used, taken, or -E2BIG.
 */
static int arena_take_longest(struct arena *a, uint32_t pages, struct larder_run *runs,
			      uint32_t max_runs)
{
	uint64_t at = 0, have = 0;
	uint32_t n = 0, used = 0, left = pages;

	while ((at = arena_pyramid_next(&a->some, a->pages, at)) != ARENA_NONE && have < pages) {
		struct larder_run run = {
			(uint32_t)at, (uint32_t)arena_run_length(a, at, pages),
		};

		at += run.count;
		if (n < max_runs) {
			runs[n++] = run;
			have += run.count;
			if (n == max_runs)
				for (uint32_t i = n / 2; i-- > 0;)
					arena_heap_down(runs, n, i);
		} else if (run.count > runs[0].count) {
			have += run.count - runs[0].count;
			runs[0] = run;
			arena_heap_down(runs, n, 0);
		}
	}
	if (have < pages)
		return -E2BIG;
	for (; left; used++) {
		runs[used].count = MIN(runs[used].count, left);
		left -= runs[used].count;
		arena_change(a, runs[used].page, runs[used].count, false);
	}
	return (int)used;
}

static int arena_alloc_locked(struct arena *a, uint32_t pages, struct larder_run *runs,
			      uint32_t max_runs)
{
	unsigned looks = ARENA_LOOK;
	uint32_t left = pages, n = 0;

	if (a->n_free < pages)
		return -ENOSPC;
	while (left && n < max_runs) {
		struct larder_run run = arena_pick(a, left, &looks);

		arena_change(a, run.page, run.count, false);
		a->cursor = ((uint64_t)run.page + run.count) % a->pages;
		left -= run.count;
		/* neighbours that came one after another are one run */
		if (n && runs[n - 1].page + runs[n - 1].count == run.page)
			runs[n - 1].count += run.count;
		else
			runs[n++] = run;
	}
	if (!left)
		return (int)n;
	while (n--)
		arena_change(a, runs[n].page, runs[n].count, true);
	return arena_take_longest(a, pages, runs, max_runs);
}

int arena_new(void *base, uint32_t pages, uint32_t page_size, struct arena **ret)
{
	_cleanup_free_ struct arena *a = calloc(1, sizeof(*a));
	int r;

	if (pages == 0 || pages > INT32_MAX || page_size == 0)
		return -EINVAL;
	if (!a)
		return -ENOMEM;
	a->base = base;
	a->pages = pages;
	a->page_size = page_size;
	r = arena_pyramid_init(&a->some, pages);
	if (r == 0)
		r = arena_pyramid_init(&a->full, arena_words(a));
	if (r == 0)
		r = -pthread_mutex_init(&a->lock, NULL);
	if (r < 0) {
		arena_pyramid_done(&a->some);
		arena_pyramid_done(&a->full);
		return r;
	}
	arena_change(a, 0, pages, true);
	*ret = TAKE_PTR(a);
	return 0;
}

struct arena *arena_free_all(struct arena *a)
{
	if (!a)
		return NULL;
	arena_pyramid_done(&a->some);
	arena_pyramid_done(&a->full);
	(void)pthread_mutex_destroy(&a->lock);	/* fails only while held */
	free(a);
	return NULL;
}

int arena_alloc(struct arena *a, uint32_t pages, struct larder_run *runs, uint32_t max_runs)
{
	int r;

	if (pages == 0)
		return -EINVAL;
	pthread_mutex_lock(&a->lock);
	r = arena_alloc_locked(a, pages, runs, max_runs);
	if (r < 0)
		larder_probe2(page_alloc_fail, pages, a->n_free);
	pthread_mutex_unlock(&a->lock);
	return r;
}

void arena_release(struct arena *a, const struct larder_run *runs, uint32_t n_runs)
{
	pthread_mutex_lock(&a->lock);
	for (uint32_t i = 0; i < n_runs; i++) {
		/* releasing what is free would give one page to two values: stop here and now */
		assert(runs[i].count > 0 && runs[i].page < a->pages &&
		       runs[i].count <= a->pages - runs[i].page);
		assert(arena_all(a, runs[i].page, runs[i].count, false));
		arena_change(a, runs[i].page, runs[i].count, true);
	}
	pthread_mutex_unlock(&a->lock);
}

int arena_claim(struct arena *a, struct larder_run run)
{
	int r = 0;

	if (run.count == 0 || run.page >= a->pages || run.count > a->pages - run.page)
		return -ERANGE;
	pthread_mutex_lock(&a->lock);
	if (arena_all(a, run.page, run.count, true))
		arena_change(a, run.page, run.count, false);
	else
		r = -EEXIST;
	pthread_mutex_unlock(&a->lock);
	return r;
}

uint32_t arena_free_pages(struct arena *a)
{
	return __atomic_load_n(&a->n_free, __ATOMIC_RELAXED);
}

uint32_t arena_pages(const struct arena *a)
{
	return a->pages;
}

uint32_t arena_page_size(const struct arena *a)
{
	return a->page_size;
}

void *arena_base(const struct arena *a)
{
	return a->base;
}
