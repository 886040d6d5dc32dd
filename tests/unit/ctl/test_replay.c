/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replay rules over an exact LRU in memory: the published integers of the public traces where
 * they are found (LARDER_TRACES), a model's on a generated one everywhere.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/replay.h"
#include "ctl/trace_gen.h"
#include "ctl/util.h"
#include "fake_store.h"
#include "lru_model.h"

static struct replay_options options(enum replay_mode mode)
{
	return (struct replay_options){
		.mode = mode, .block_bytes = 64, .inflight = 4, .lease_ms = 10000,
		.tokens_per_block = 512, .linear_ns = 47300, .quadratic_ns = 2.1,
	};
}

static int replay(struct fake_store *f, const struct trace *t, const struct replay_options *o,
		  struct replay_result *res)
{
	struct progress p;

	progress_begin(&p, "test", 0);
	memset(res, 0, sizeof(*res));
	return replay_run(&f->store, t, o, &p, res);
}

static struct replay_result *result_new(void)
{
	struct replay_result *res = calloc(1, sizeof(*res));

	assert_non_null(res);
	return res;
}

static void replay_exact__is_the_reference_on_a_generated_trace(void **state)
{
	static const uint32_t capacities[] = { 1, 50, 1000, 5859 };
	struct replay_options o = options(REPLAY_EXACT);
	struct replay_result *res = result_new();
	struct trace t = TRACE_NULL;

	assert_int_equal(trace_generate(2000, 3, &t), 0);
	for (size_t i = 0; i < ARRAY_SIZE(capacities); i++) {
		struct fake_store f;
		uint64_t block, prefix;

		fake_store_init(&f, capacities[i], o.block_bytes);
		lru_reference(&t, capacities[i], &block, &prefix);
		assert_int_equal(replay(&f, &t, &o, res), 0);
		assert_int_equal(res->requests, 2000);
		assert_int_equal(res->blocks, t.n_blocks);
		assert_int_equal(res->block_hits, block);
		assert_int_equal(res->prefix_hits, prefix);
		assert_int_equal(res->checksum_errors, 0);
		/* one look-up, then a GET of each block and a PUT of each that it missed */
		assert_int_equal(res->gets, t.n_blocks);
		assert_int_equal(res->puts, t.n_blocks - res->get_hits);
		assert_int_equal(res->put_same, 0);
		assert_int_equal(f.ops, 2000 + res->gets + res->puts);
		assert_int_equal(res->exists.count, 2000);
		assert_int_equal(f.now_ms, t.requests[1999].timestamp_ms);
		fake_store_done(&f);
	}
	trace_done(&t);
	free(res);
}

static void replay_exact__order_of_touches(void **state)
{
	/* room for three; 0 1 2 3 looked up twice. First to last, a scan pushes out what it needs
	 * next: no hit. Last to first, 3 is pushed out by 0 and the leading run is there. */
	static const uint64_t ids[] = { 0, 1, 2, 3 };
	struct replay_options o = options(REPLAY_EXACT);
	struct replay_result *res = result_new();
	struct trace t = TRACE_NULL;
	struct fake_store f;

	assert_int_equal(trace_add(&t, 0, 2048, 1, ids, 4), 0);
	assert_int_equal(trace_add(&t, 9, 2048, 1, ids, 4), 0);
	fake_store_init(&f, 3, o.block_bytes);
	assert_int_equal(replay(&f, &t, &o, res), 0);
	/* the look-up sees 1 2 3; putting 0 pushes out 1, and so on: every GET misses */
	assert_int_equal(res->block_hits, 3);
	assert_int_equal(res->prefix_hits, 0);
	assert_int_equal(res->get_hits, 0);
	fake_store_done(&f);

	o.order = REPLAY_LAST_FIRST;
	fake_store_init(&f, 3, o.block_bytes);
	assert_int_equal(replay(&f, &t, &o, res), 0);
	assert_int_equal(res->block_hits, 3);
	assert_int_equal(res->prefix_hits, 3);
	fake_store_done(&f);
	trace_done(&t);
	free(res);
}

static void replay__checksum_errors_are_counted(void **state)
{
	static const enum replay_mode modes[] = { REPLAY_EXACT, REPLAY_ENGINE };
	static const uint64_t ids[] = { 0, 1, 2 };
	struct replay_result *res = result_new();
	struct trace t = TRACE_NULL;

	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(trace_add(&t, i, 1536, 1, ids, 3), 0);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct replay_options o = options(modes[i]);
		struct fake_store f;

		o.inflight = 1;
		fake_store_init(&f, 10, o.block_bytes);
		f.corrupt = 1;
		assert_int_equal(replay(&f, &t, &o, res), 0);
		assert_int_equal(res->requests, 3);
		assert_int_equal(res->checksum_errors, 2);	/* of two GETs that found it */
		assert_int_equal(res->get_hits, 6);
		fake_store_done(&f);
	}
	trace_done(&t);
	free(res);
}

static void replay__values_of_another_size_are_no_checksum_errors(void **state)
{
	static const enum replay_mode modes[] = { REPLAY_EXACT, REPLAY_ENGINE };
	static const uint64_t sizes[] = { 63, 65 };
	static const uint64_t ids[] = { 0, 1, 2 };
	struct replay_result *res = result_new();
	struct trace t = TRACE_NULL;

	assert_int_equal(trace_add(&t, 0, 1536, 1, ids, 3), 0);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(modes); i++) {
		struct replay_options o = options(modes[i / 2]);
		struct fake_store f;

		fake_store_init(&f, 10, o.block_bytes);
		assert_int_equal(replay(&f, &t, &o, res), 0);
		f.stored_bytes = sizes[i % 2];
		f.now_ms = 0;
		assert_int_equal(replay(&f, &t, &o, res), LARDER_CONFLICT);
		assert_int_equal(res->checksum_errors, 0);
		assert_non_null(strstr(res->error, "another size"));
		fake_store_done(&f);
	}
	trace_done(&t);
	free(res);
}

static void replay_exact__a_refusal_ends_it_with_its_status(void **state)
{
	static const uint64_t ids[] = { 0, 1, 2 };
	struct replay_options o = options(REPLAY_EXACT);
	struct replay_result *res = result_new();
	struct trace t = TRACE_NULL;
	struct fake_store f;

	assert_int_equal(trace_add(&t, 0, 1536, 1, ids, 3), 0);
	fake_store_init(&f, 10, o.block_bytes);
	f.fail_put = 1;
	f.fail_status = LARDER_NO_SPACE;
	assert_int_equal(replay(&f, &t, &o, res), LARDER_NO_SPACE);
	assert_int_equal(res->requests, 0);
	assert_int_equal(res->puts, 1);
	assert_non_null(strstr(res->error, "put 00000001"));
	fake_store_done(&f);
	trace_done(&t);
	free(res);
}

static void replay_engine__leases_gets_and_puts(void **state)
{
	struct replay_options o = options(REPLAY_ENGINE);
	struct replay_result *res = result_new();
	struct trace t = TRACE_NULL;
	struct fake_store f;
	uint64_t distinct = 0;

	assert_int_equal(trace_generate(400, 8, &t), 0);
	for (size_t i = 0; i < t.n_blocks; i++)
		distinct = MAX(distinct, t.blocks[i] + 1);
	fake_store_init(&f, (uint32_t)distinct, o.block_bytes);
	assert_int_equal(replay(&f, &t, &o, res), 0);
	assert_int_equal(res->requests, 400);
	assert_int_equal(res->blocks, t.n_blocks);
	assert_int_equal(f.leases, 400);
	assert_int_equal(f.in_flight_max, o.inflight);
	/* nothing was pushed out: what the look-ups led to was read, the rest written */
	assert_int_equal(res->gets, res->prefix_hits);
	assert_int_equal(res->get_hits, res->gets);
	assert_int_equal(res->puts, res->blocks - res->prefix_hits);
	assert_int_equal(res->puts - res->put_same, distinct);
	assert_int_equal(res->lease_broken, 0);
	assert_int_equal(res->checksum_errors, 0);
	assert_true(f.releases > 0 && f.releases <= 400);
	fake_store_done(&f);
	trace_done(&t);
	free(res);
}

static void replay_engine__a_broken_lease_shows(void **state)
{
	/* the fake keeps no leases: with several in flight and little room, what one leased another
	 * pushes out */
	struct replay_options o = options(REPLAY_ENGINE);
	struct replay_result *res = result_new();
	struct trace t = TRACE_NULL;
	struct fake_store f;

	assert_int_equal(trace_generate(400, 8, &t), 0);
	o.inflight = 8;
	fake_store_init(&f, 40, o.block_bytes);
	assert_int_equal(replay(&f, &t, &o, res), 0);
	assert_true(res->lease_broken > 0);
	fake_store_done(&f);
	trace_done(&t);
	free(res);
}

static void replay_engine__refusals_are_counted_failures_end_it(void **state)
{
	static const uint64_t ids[] = { 0, 1, 2 };
	struct replay_options o = options(REPLAY_ENGINE);
	struct replay_result *res = result_new();
	struct trace t = TRACE_NULL;
	struct fake_store f;

	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(trace_add(&t, i, 1536, 1, ids, 3), 0);
	o.inflight = 2;
	fake_store_init(&f, 10, o.block_bytes);
	f.fail_put = 2;
	f.fail_status = LARDER_THROTTLED;
	assert_int_equal(replay(&f, &t, &o, res), 0);
	assert_int_equal(res->requests, 5);
	assert_int_equal(res->refused, 5);
	fake_store_done(&f);

	fake_store_init(&f, 10, o.block_bytes);
	f.fail_put = 2;
	f.fail_status = LARDER_DISCONNECTED;
	assert_int_equal(replay(&f, &t, &o, res), LARDER_DISCONNECTED);
	assert_int_equal(res->requests, 0);
	assert_int_equal(f.n_queue, 0);		/* what was in flight was waited for */
	assert_non_null(strstr(res->error, "put 00000002"));
	fake_store_done(&f);
	trace_done(&t);
	free(res);
}

static void replay_engine__requests_without_blocks(void **state)
{
	static const uint64_t ids[] = { 0 };
	struct replay_options o = options(REPLAY_ENGINE);
	struct replay_result *res = result_new();
	struct trace t = TRACE_NULL;
	struct fake_store f;

	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(trace_add(&t, i, i % 3 ? 0 : 512, 1, ids, i % 3 ? 0 : 1), 0);
	fake_store_init(&f, 10, o.block_bytes);
	assert_int_equal(replay(&f, &t, &o, res), 0);
	assert_int_equal(res->requests, 9);
	assert_int_equal(res->blocks, 3);
	o.mode = REPLAY_EXACT;
	o.requests = 4;
	fake_store_done(&f);
	fake_store_init(&f, 10, o.block_bytes);
	assert_int_equal(replay(&f, &t, &o, res), 0);
	assert_int_equal(res->requests, 4);
	assert_int_equal(res->block_hits, 1);
	fake_store_done(&f);
	trace_done(&t);
	free(res);
}

static void replay_prefill__model(void **state)
{
	struct replay_options o = options(REPLAY_EXACT);
	struct trace_request q = { .input_length = 1000 };
	struct replay_result *res = result_new();
	double n = 1000, p = 512, whole, rest;

	whole = 47300 * n + 2.1 * n * n / 2;
	rest = 47300 * (n - p) + 2.1 * (n - p) * (p + (n - p) / 2);
	replay_prefill(&o, &q, 1, res);
	assert_true(fabs(res->prefill_ns - whole) < 1);
	assert_true(fabs(res->saved_ns - (whole - rest)) < 1);
	/* a last block is partial: never more than the input is saved */
	memset(res, 0, sizeof(*res));
	replay_prefill(&o, &q, 2, res);
	assert_true(fabs(res->saved_ns - whole) < 1);
	free(res);
}

struct published {
	const char *name;
	uint32_t capacity;
	uint64_t block, prefix;
	double saved;		/* % of prefill time; 0: not published */
};

static void replay_published(const struct published *p)
{
	struct replay_options o = options(REPLAY_EXACT);
	char *path = getenv("LARDER_TRACES") ? trace_find(p->name) : NULL;
	struct replay_result *res;
	char error[TRACE_ERROR];
	struct trace t = TRACE_NULL;
	struct fake_store f;
	double saved;
	FILE *file;

	if (!path) {
		printf("skipped: the public traces are not in LARDER_TRACES\n");
		skip();
	}
	file = fopen(path, "r");
	assert_non_null(file);
	free(path);
	assert_int_equal(trace_read(file, 0, &t, error), 0);
	assert_int_equal(fclose(file), 0);
	res = result_new();
	o.block_bytes = 16;
	fake_store_init(&f, p->capacity, o.block_bytes);
	assert_int_equal(replay(&f, &t, &o, res), 0);
	assert_int_equal(res->block_hits, p->block);
	assert_int_equal(res->prefix_hits, p->prefix);
	assert_int_equal(res->checksum_errors, 0);
	saved = 100 * res->saved_ns / res->prefill_ns;
	if (p->saved > 0 && fabs(saved - p->saved) > 0.05)
		fail_msg("%s %u: %.2f %% saved, published %.2f", p->name, p->capacity, saved,
			 p->saved);
	fake_store_done(&f);
	trace_done(&t);
	free(res);
}

static void replay_exact__public_conversation_trace(void **state)
{
	static const struct published cases[] = {
		{ "conversation", 1000, 12845, 12831, 2.75 },
		{ "conversation", 5859, 39244, 39101, 11.68 },
		{ "conversation", 30000, 93977, 93967, 30.44 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		replay_published(&cases[i]);
}

static void replay_exact__public_synthetic_trace(void **state)
{
	static const struct published cases[] = {
		{ "synthetic", 1000, 10247, 10050, 8.21 },
		{ "synthetic", 5859, 37703, 37703, 32.75 },
		{ "synthetic", 30000, 76077, 76077, 65.78 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		replay_published(&cases[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replay_exact__is_the_reference_on_a_generated_trace),
		cmocka_unit_test(replay_exact__order_of_touches),
		cmocka_unit_test(replay__checksum_errors_are_counted),
		cmocka_unit_test(replay__values_of_another_size_are_no_checksum_errors),
		cmocka_unit_test(replay_exact__a_refusal_ends_it_with_its_status),
		cmocka_unit_test(replay_engine__leases_gets_and_puts),
		cmocka_unit_test(replay_engine__a_broken_lease_shows),
		cmocka_unit_test(replay_engine__refusals_are_counted_failures_end_it),
		cmocka_unit_test(replay_engine__requests_without_blocks),
		cmocka_unit_test(replay_prefill__model),
		cmocka_unit_test(replay_exact__public_conversation_trace),
		cmocka_unit_test(replay_exact__public_synthetic_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
