/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page allocator against a model with one owner per page: random streams of alloc with room for
 * any number of runs, release of all or of parts, and claim, in arenas of random size.
 */
#include "property.h"

enum { ROUNDS = 60, STEPS = 800, PAGES_MAX = 3000, VALUES = 64 };

struct model {
	struct arena *a;
	struct prng p;
	uint32_t pages, n_free;
	uint8_t used[PAGES_MAX];
	struct larder_run *runs[VALUES];
	uint32_t n_runs[VALUES];
};

static void model_take(struct model *m, struct larder_run run)
{
	assert_true(run.count > 0 && run.page < m->pages && run.count <= m->pages - run.page);
	for (uint32_t i = 0; i < run.count; i++) {
		assert_int_equal(m->used[run.page + i], 0);	/* no page is given twice */
		m->used[run.page + i] = 1;
	}
	m->n_free -= run.count;
}

static void model_give(struct model *m, struct larder_run run)
{
	for (uint32_t i = 0; i < run.count; i++) {
		assert_int_equal(m->used[run.page + i], 1);
		m->used[run.page + i] = 0;
	}
	m->n_free += run.count;
}

static int longer(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Pages that the @max longest free runs have. */
static uint64_t model_reach(const struct model *m, uint32_t max)
{
	static uint32_t runs[PAGES_MAX];
	uint32_t n = 0, length = 0;
	uint64_t sum = 0;

	for (uint32_t i = 0; i <= m->pages; i++) {
		if (i < m->pages && !m->used[i]) {
			length++;
		} else if (length) {
			runs[n++] = length;
			length = 0;
		}
	}
	qsort(runs, n, sizeof(runs[0]), longer);
	for (uint32_t i = 0; i < MIN(n, max); i++)
		sum += runs[i];
	return sum;
}

static uint32_t random_pages(struct model *m)
{
	uint32_t small = (uint32_t)prng_below(&m->p, MIN(m->pages, 40u)) + 1;

	switch (prng_below(&m->p, 4)) {
	case 0:
		return (uint32_t)prng_below(&m->p, m->pages) + 1;
	case 1:
		return m->n_free ? m->n_free : 1;	/* all that is left */
	default:
		return small;
	}
}

static void step_alloc(struct model *m, uint32_t v)
{
	uint32_t pages = random_pages(m), max = pages;
	uint64_t reach;
	int n;

	if (prng_below(&m->p, 3) == 0)
		max = (uint32_t)prng_below(&m->p, MIN(pages, 8u)) + 1;
	m->runs[v] = calloc(pages, sizeof(struct larder_run));
	assert_non_null(m->runs[v]);
	reach = model_reach(m, max);
	n = arena_alloc(m->a, pages, m->runs[v], max);
	if (pages > m->n_free) {
		assert_int_equal(n, -ENOSPC);
	} else if (reach < pages) {
		assert_int_equal(n, -E2BIG);
		assert_true(max < pages);
	} else {
		uint64_t sum = 0;

		assert_in_range(n, 1, max);
		for (int i = 0; i < n; i++) {
			model_take(m, m->runs[v][i]);
			sum += m->runs[v][i].count;
		}
		assert_int_equal(sum, pages);
		m->n_runs[v] = (uint32_t)n;
		return;
	}
	free(TAKE_PTR(m->runs[v]));
}

static void step_claim(struct model *m, uint32_t v)
{
	struct larder_run run = { (uint32_t)prng_below(&m->p, m->pages + 2u),
				  (uint32_t)prng_below(&m->p, 20) };
	int r = arena_claim(m->a, run), want = 0;

	if (run.count == 0 || run.page + run.count > m->pages)
		want = -ERANGE;
	for (uint32_t i = 0; want == 0 && i < run.count; i++)
		if (m->used[run.page + i])
			want = -EEXIST;
	assert_int_equal(r, want);
	if (r < 0)
		return;
	m->runs[v] = calloc(1, sizeof(run));
	assert_non_null(m->runs[v]);
	m->runs[v][0] = run;
	m->n_runs[v] = 1;
	model_take(m, run);
}

/* The end of the last run, as it comes: a value is given back in any pieces. */
static void step_release_part(struct model *m, uint32_t v)
{
	struct larder_run *last = &m->runs[v][m->n_runs[v] - 1], part;

	if (last->count == 1)
		return;
	part.count = (uint32_t)prng_below(&m->p, last->count - 1) + 1;
	part.page = last->page + last->count - part.count;
	last->count -= part.count;
	arena_release(m->a, &part, 1);
	model_give(m, part);
}

static void step_release(struct model *m, uint32_t v)
{
	arena_release(m->a, m->runs[v], m->n_runs[v]);
	for (uint32_t i = 0; i < m->n_runs[v]; i++)
		model_give(m, m->runs[v][i]);
	free(TAKE_PTR(m->runs[v]));
}

static void arena_round(struct model *m, uint64_t seed)
{
	*m = (struct model){ 0 };
	prng_seed(&m->p, seed);
	m->pages = m->n_free = (uint32_t)prng_below(&m->p, seed % 2 ? 200 : PAGES_MAX) + 1;
	assert_int_equal(arena_new(NULL, m->pages, 4096, &m->a), 0);
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t v = (uint32_t)prng_below(&m->p, VALUES);

		if (m->runs[v])
			(prng_below(&m->p, 4) ? step_release : step_release_part)(m, v);
		else
			(prng_below(&m->p, 8) ? step_alloc : step_claim)(m, v);
		assert_int_equal(arena_free_pages(m->a), m->n_free);
	}
	for (uint32_t v = 0; v < VALUES; v++)
		if (m->runs[v])
			step_release(m, v);
	assert_int_equal(arena_free_pages(m->a), m->pages);
	/* and it is whole again: one run */
	m->runs[0] = calloc(m->pages, sizeof(struct larder_run));
	assert_non_null(m->runs[0]);
	assert_in_range(arena_alloc(m->a, m->pages, m->runs[0], m->pages), 1, 2);
	free(m->runs[0]);
	m->a = arena_free_all(m->a);
}

static void property__arena_agrees_with_the_model(void **state)
{
	uint64_t seed = property_seed("test_arena_property");
	static struct model m;

	for (uint64_t i = 0; i < ROUNDS; i++)
		arena_round(&m, seed + i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(property__arena_agrees_with_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
