/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page allocator against a model that is one byte per page: whatever is asked in whatever
 * order, no page has two owners, none is lost, and a request fails only for the stated reason.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/prng.h"
#include "mem/arena.h"

#define SEED 4711u

static struct arena *arena_make(uint32_t pages)
{
	struct arena *a = NULL;

	assert_int_equal(arena_new(NULL, pages, 4096, &a), 0);
	assert_int_equal(arena_free_pages(a), pages);
	return a;
}

static void arena__is_what_it_was_made_of(void **state)
{
	char base[16];
	struct arena *a = NULL;

	assert_int_equal(arena_new(base, 0, 4096, &a), -EINVAL);
	assert_null(a);
	assert_null(arena_free_all(NULL));
	assert_int_equal(arena_new(base, 100, 8192, &a), 0);
	assert_ptr_equal(arena_base(a), base);
	assert_int_equal(arena_pages(a), 100);
	assert_int_equal(arena_page_size(a), 8192);
	assert_null(arena_free_all(a));
	assert_int_equal(arena_pages_of(4096, 1), 1);
	assert_int_equal(arena_pages_of(4096, 4096), 1);
	assert_int_equal(arena_pages_of(4096, 4097), 2);
}

static void alloc__takes_all_of_it_as_one_run(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 63, 64, 65, 127, 128, 4095, 4096, 4097, 300000 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct arena *a = arena_make(sizes[i]);
		struct larder_run run;

		assert_int_equal(arena_alloc(a, sizes[i] + 1, &run, 1), -ENOSPC);
		assert_int_equal(arena_alloc(a, sizes[i], &run, 1), 1);
		assert_int_equal(run.page, 0);
		assert_int_equal(run.count, sizes[i]);
		assert_int_equal(arena_free_pages(a), 0);
		assert_int_equal(arena_alloc(a, 1, &run, 1), -ENOSPC);
		run = (struct larder_run){ 0, sizes[i] };
		arena_release(a, &run, 1);
		assert_int_equal(arena_free_pages(a), sizes[i]);
		a = arena_free_all(a);
	}
}

/* Every second page used: only single pages are left, and all of them can be had. */
static void alloc__succeeds_while_enough_pages_are_free(void **state)
{
	enum { PAGES = 1000 };
	struct larder_run runs[PAGES];
	struct arena *a = arena_make(PAGES);

	for (uint32_t page = 0; page < PAGES; page += 2)
		assert_int_equal(arena_claim(a, (struct larder_run){ page, 1 }), 0);
	assert_int_equal(arena_alloc(a, 10, runs, 9), -E2BIG);
	assert_int_equal(arena_free_pages(a), PAGES / 2);
	assert_int_equal(arena_alloc(a, PAGES / 2, runs, PAGES / 2), PAGES / 2);
	for (uint32_t i = 0; i < PAGES / 2; i++) {
		assert_int_equal(runs[i].count, 1);
		assert_int_equal(runs[i].page % 2, 1);
	}
	arena_release(a, runs, PAGES / 2);
	assert_int_equal(arena_free_pages(a), PAGES / 2);
	a = arena_free_all(a);
}

/* The few long runs stand behind more short ones than the greedy search looks at. */
static void alloc__finds_the_longest_runs_when_only_those_reach(void **state)
{
	enum { PAGES = 64 * 1024 };
	struct larder_run runs[3];
	struct arena *a = arena_make(PAGES);

	for (uint32_t page = 0; page < PAGES; page += 2)
		if (page / 40 != 700 && page / 40 != 900 && page / 40 != 1100)
			assert_int_equal(arena_claim(a, (struct larder_run){ page, 1 }), 0);
	assert_int_equal(arena_alloc(a, 3 * 41 + 1, runs, 3), -E2BIG);
	assert_int_equal(arena_alloc(a, 3 * 41, runs, 3), 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(runs[i].count, 41);
	a = arena_free_all(a);
}

static void alloc__prefers_a_long_run_to_scattered_pages(void **state)
{
	enum { PAGES = 64 * 1024 };
	struct larder_run runs[64];
	struct arena *a = arena_make(PAGES);

	/* a comb with one stretch of 512 pages far from the cursor */
	for (uint32_t page = 0; page < PAGES; page += 2)
		if (page < 50000 || page >= 50512)
			assert_int_equal(arena_claim(a, (struct larder_run){ page, 1 }), 0);
	assert_int_equal(arena_alloc(a, 60, runs, 64), 1);
	assert_int_equal(arena_alloc(a, 300, runs, 64), 1);
	assert_in_range(runs[0].page, 50000 - 1, 50512);
	a = arena_free_all(a);
}

static void claim__is_all_or_nothing(void **state)
{
	struct arena *a = arena_make(200);

	assert_int_equal(arena_claim(a, (struct larder_run){ 60, 10 }), 0);
	assert_int_equal(arena_claim(a, (struct larder_run){ 69, 100 }), -EEXIST);
	assert_int_equal(arena_claim(a, (struct larder_run){ 0, 61 }), -EEXIST);
	assert_int_equal(arena_claim(a, (struct larder_run){ 199, 2 }), -ERANGE);
	assert_int_equal(arena_claim(a, (struct larder_run){ 200, 1 }), -ERANGE);
	assert_int_equal(arena_claim(a, (struct larder_run){ UINT32_MAX, UINT32_MAX }), -ERANGE);
	assert_int_equal(arena_claim(a, (struct larder_run){ 5, UINT32_MAX }), -ERANGE);
	assert_int_equal(arena_claim(a, (struct larder_run){ 5, 0 }), -ERANGE);
	assert_int_equal(arena_free_pages(a), 190);
	assert_int_equal(arena_claim(a, (struct larder_run){ 70, 130 }), 0);
	assert_int_equal(arena_claim(a, (struct larder_run){ 0, 60 }), 0);
	assert_int_equal(arena_free_pages(a), 0);
	a = arena_free_all(a);
}

struct held {
	struct larder_run *runs;
	uint32_t n;
};

/* Longest possible answer of the model: can @pages be had from @max_runs runs? */
static bool model_reaches(const uint8_t *used, uint32_t n_pages, uint32_t pages, uint32_t max_runs)
{
	static uint32_t counts[1 << 16];
	uint32_t n = 0, have = 0;

	for (uint32_t i = 0; i < n_pages; i++) {
		if (used[i])
			continue;
		if (i == 0 || used[i - 1])
			counts[n++] = 0;
		counts[n - 1]++;
	}
	for (; max_runs && n; max_runs--) {
		uint32_t best = 0;

		for (uint32_t i = 1; i < n; i++)
			if (counts[i] > counts[best])
				best = i;
		have += counts[best];
		counts[best] = counts[--n];
	}
	return have >= pages;
}

static void model_take(uint8_t *used, uint32_t n_pages, const struct larder_run *runs, uint32_t n,
		       uint32_t want)
{
	for (uint32_t i = 0; i < n; i++) {
		assert_true(runs[i].count > 0 && runs[i].page + runs[i].count <= n_pages);
		for (uint32_t k = 0; k < runs[i].count; k++)
			assert_int_equal(used[runs[i].page + k]++, 0);
		want -= runs[i].count;
	}
	assert_int_equal(want, 0);
}

static void random_walk(struct prng *p, uint32_t n_pages, unsigned steps)
{
	_cleanup_free_ uint8_t *used = calloc(n_pages, 1);
	_cleanup_free_ struct held *held = calloc(n_pages + 1ull, sizeof(*held));
	struct arena *a = arena_make(n_pages);
	uint32_t n_held = 0, n_free = n_pages;

	assert_true(used && held);
	for (unsigned step = 0; step < steps; step++) {
		uint32_t pages = (uint32_t)prng_below(p, prng_below(p, 8) ? 20 : n_pages) + 1;
		uint32_t max_runs = prng_below(p, 2) ? pages : (uint32_t)prng_below(p, 5) + 1;
		struct held *h = &held[n_held];
		int r;

		if (n_held && prng_below(p, 100) < (step / 500 % 2 ? 70 : 30)) {
			uint32_t i = (uint32_t)prng_below(p, n_held);

			arena_release(a, held[i].runs, held[i].n);
			for (uint32_t k = 0; k < held[i].n; k++) {
				memset(used + held[i].runs[k].page, 0, held[i].runs[k].count);
				n_free += held[i].runs[k].count;
			}
			free(held[i].runs);
			held[i] = held[--n_held];
			continue;
		}
		h->runs = calloc(max_runs, sizeof(*h->runs));
		assert_non_null(h->runs);
		r = arena_alloc(a, pages, h->runs, max_runs);
		if (r < 0) {
			assert_int_equal(r, pages > n_free ? -ENOSPC : -E2BIG);
			if (r == -E2BIG)
				assert_false(model_reaches(used, n_pages, pages, max_runs));
			free(h->runs);
		} else {
			assert_in_range(r, 1, max_runs);
			h->n = (uint32_t)r;
			model_take(used, n_pages, h->runs, h->n, pages);
			n_free -= pages;
			n_held++;
		}
		assert_int_equal(arena_free_pages(a), n_free);
	}
	while (n_held) {
		n_held--;
		arena_release(a, held[n_held].runs, held[n_held].n);
		free(held[n_held].runs);
	}
	assert_int_equal(arena_free_pages(a), n_pages);
	a = arena_free_all(a);
}

static void random_walk__agrees_with_the_model(void **state)
{
	static const uint32_t sizes[] = { 1, 7, 64, 65, 200, 1000, 4096, 5000 };
	struct prng p;

	print_message("seed %u\n", SEED);
	prng_seed(&p, SEED);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		random_walk(&p, sizes[i], 4000);
}

/* A cache that is always full of values of mixed sizes: runs must stay worth their name. */
static void churn__keeps_runs_long_and_calls_short(void **state)
{
	enum { PAGES = 1 << 18, VALUES = 1 << 14 };
	_cleanup_free_ struct held *held = calloc(VALUES, sizeof(*held));
	static struct larder_run runs[64];
	struct arena *a = arena_make(PAGES);
	uint64_t n_runs = 0, n_pages = 0, calls = 0, start;
	uint32_t head = 0, tail = 0;
	struct prng p;

	assert_non_null(held);
	prng_seed(&p, SEED);
	start = clock_now(&clock_system);
	for (int i = 0; i < 200000; i++) {
		uint32_t pages = (uint32_t)prng_below(&p, 63) + 2;
		struct held *h = &held[head % VALUES];
		int r;

		while (arena_free_pages(a) < pages + PAGES / 20 || head - tail == VALUES) {
			/* mostly the oldest, as an eviction would; sometimes one in the middle */
			struct held *out = &held[tail % VALUES];

			if (prng_below(&p, 4) == 0) {
				struct held *other = &held[(tail + (head - tail) / 2) % VALUES];
				struct held swap = *out;

				*out = *other;
				*other = swap;
			}
			arena_release(a, out->runs, out->n);
			free(TAKE_PTR(out->runs));
			tail++;
		}
		r = arena_alloc(a, pages, runs, 64);
		assert_true(r > 0);
		h->n = (uint32_t)r;
		h->runs = malloc(h->n * sizeof(*runs));
		assert_non_null(h->runs);
		memcpy(h->runs, runs, h->n * sizeof(*runs));
		head++;
		calls++;
		n_runs += (uint64_t)r;
		n_pages += pages;
	}
	print_message("%.2f runs and %.0f pages a value, %.0f ns a value\n",
		      (double)n_runs / (double)calls, (double)n_pages / (double)calls,
		      (double)(clock_now(&clock_system) - start) / (double)calls);
	assert_true(n_runs < 4 * calls);	/* one in twenty pages is free */
	for (; tail != head; tail++) {
		arena_release(a, held[tail % VALUES].runs, held[tail % VALUES].n);
		free(held[tail % VALUES].runs);
	}
	assert_int_equal(arena_free_pages(a), PAGES);
	a = arena_free_all(a);
}

struct worker {
	struct arena *a;
	uint8_t *owner;
	uint64_t seed;
	uint8_t me;
	bool failed;
};

static void *worker_run(void *user)
{
	struct worker *w = user;
	struct larder_run runs[32];
	struct prng p;

	prng_seed(&p, w->seed);
	for (int i = 0; i < 20000 && !w->failed; i++) {
		uint32_t pages = (uint32_t)prng_below(&p, 32) + 1;
		int n = arena_alloc(w->a, pages, runs, 32);

		if (n < 0)
			continue;
		for (int k = 0; k < n; k++)
			for (uint32_t j = 0; j < runs[k].count; j++) {
				uint8_t *o = &w->owner[runs[k].page + j];

				/* plain on purpose: two owners are a race that tsan sees */
				w->failed |= *o != 0;
				*o = w->me;
			}
		for (int k = 0; k < n; k++)
			for (uint32_t j = 0; j < runs[k].count; j++) {
				uint8_t *o = &w->owner[runs[k].page + j];

				w->failed |= *o != w->me;
				*o = 0;
			}
		arena_release(w->a, runs, (uint32_t)n);
	}
	return NULL;
}

static void threads__never_share_a_page(void **state)
{
	enum { PAGES = 100, WORKERS = 4 };
	uint8_t owner[PAGES] = { 0 };
	struct worker w[WORKERS];
	pthread_t t[WORKERS];
	struct arena *a = arena_make(PAGES);

	for (int i = 0; i < WORKERS; i++) {
		w[i] = (struct worker){ .a = a, .owner = owner, .seed = SEED + (uint64_t)i,
					.me = (uint8_t)(i + 1) };
		assert_int_equal(pthread_create(&t[i], NULL, worker_run, &w[i]), 0);
	}
	for (int i = 0; i < WORKERS; i++) {
		assert_int_equal(pthread_join(t[i], NULL), 0);
		assert_false(w[i].failed);
	}
	assert_int_equal(arena_free_pages(a), PAGES);
	a = arena_free_all(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena__is_what_it_was_made_of),
		cmocka_unit_test(alloc__takes_all_of_it_as_one_run),
		cmocka_unit_test(alloc__succeeds_while_enough_pages_are_free),
		cmocka_unit_test(alloc__finds_the_longest_runs_when_only_those_reach),
		cmocka_unit_test(alloc__prefers_a_long_run_to_scattered_pages),
		cmocka_unit_test(claim__is_all_or_nothing),
		cmocka_unit_test(random_walk__agrees_with_the_model),
		cmocka_unit_test(churn__keeps_runs_long_and_calls_short),
		cmocka_unit_test(threads__never_share_a_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
