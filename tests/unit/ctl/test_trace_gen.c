/* SPDX-License-Identifier: Apache-2.0 */
/* The generator against the figures of the public conversation trace, for several seeds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/trace_gen.h"
#include "ctl/util.h"
#include "lru_model.h"

/* LRU's rate of usable prefixes on the public trace, % of all blocks looked up. */
static const struct { uint32_t blocks; double percent; } conversation[] = {
	{ 1000, 4.45 }, { 3000, 6.50 }, { 5859, 13.55 }, { 10000, 21.12 }, { 30000, 32.57 },
};

static void trace_generate__prefix_rates_are_those_of_the_public_trace(void **state)
{
	const char *seeds = getenv("TRACE_GEN_SEEDS");	/* more of them, when one wants */
	uint64_t n = seeds ? strtoull(seeds, NULL, 10) : 8;
	double worst = 0;

	for (uint64_t seed = 0; seed < n; seed++) {
		struct trace t = TRACE_NULL;
		char line[200] = "";
		size_t at = 0;

		assert_int_equal(trace_generate(TRACE_GEN_REQUESTS, seed * seed * 7919, &t), 0);
		for (size_t i = 0; i < ARRAY_SIZE(conversation); i++) {
			uint64_t block, prefix;
			double off;

			lru_reference(&t, conversation[i].blocks, &block, &prefix);
			off = 100.0 * (double)prefix / (double)t.n_blocks - conversation[i].percent;
			at += (size_t)snprintf(line + at, sizeof(line) - at, " %+.2f", off);
			worst = fmax(worst, fabs(off));
		}
		printf("seed %llu: %zu blocks, off by%s points\n",
		       (unsigned long long)(seed * seed * 7919), t.n_blocks, line);
		trace_done(&t);
		assert_true(worst < 2.0);
	}
}

static void trace_generate__is_what_the_format_promises(void **state)
{
	struct trace t = TRACE_NULL;
	uint64_t *parent, *depth, next = 0, last = 0;

	assert_int_equal(trace_generate(3000, 42, &t), 0);
	assert_int_equal(t.n_requests, 3000);
	parent = calloc(t.n_blocks, sizeof(*parent));
	depth = calloc(t.n_blocks, sizeof(*depth));
	assert_non_null(parent);
	assert_non_null(depth);
	for (size_t i = 0; i < t.n_requests; i++) {
		const struct trace_request *q = &t.requests[i];
		const uint64_t *ids = t.blocks + q->first;

		assert_true(q->timestamp_ms >= last);
		last = q->timestamp_ms;
		assert_int_equal(q->n_blocks, (q->input_length + 511) / 512);
		assert_int_equal(ids[0], 0);
		for (uint32_t k = 0; k < q->n_blocks; k++) {
			uint64_t up = k ? ids[k - 1] : 0;

			/* a new id is the next number; an old one has one parent and depth */
			assert_true(ids[k] <= next);
			if (ids[k] == next) {
				next++;
				parent[ids[k]] = up;
				depth[ids[k]] = k;
			}
			assert_int_equal(parent[ids[k]], up);
			assert_int_equal(depth[ids[k]], k);
		}
	}
	free(parent);
	free(depth);
	trace_done(&t);
}

static void trace_generate__same_seed_same_trace(void **state)
{
	struct trace a = TRACE_NULL, b = TRACE_NULL, c = TRACE_NULL;

	assert_int_equal(trace_generate(500, 5, &a), 0);
	assert_int_equal(trace_generate(500, 5, &b), 0);
	assert_int_equal(trace_generate(500, 6, &c), 0);
	assert_int_equal(a.n_blocks, b.n_blocks);
	assert_memory_equal(a.blocks, b.blocks, a.n_blocks * sizeof(*a.blocks));
	for (size_t i = 0; i < a.n_requests; i++) {
		assert_int_equal(a.requests[i].timestamp_ms, b.requests[i].timestamp_ms);
		assert_int_equal(a.requests[i].input_length, b.requests[i].input_length);
		assert_int_equal(a.requests[i].output_length, b.requests[i].output_length);
	}
	assert_true(a.n_blocks != c.n_blocks ||
		    memcmp(a.blocks, c.blocks, a.n_blocks * sizeof(*a.blocks)) != 0);
	trace_done(&a);
	trace_done(&b);
	trace_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace_generate__prefix_rates_are_those_of_the_public_trace),
		cmocka_unit_test(trace_generate__is_what_the_format_promises),
		cmocka_unit_test(trace_generate__same_seed_same_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
