/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the default policy is worth: hit rates on the public request traces, found through
 * LARDER_TRACES, at some of the capacities and seeds of docs/eviction.md (`make eviction` measures
 * all of them). Without the traces the tests are skipped, and where threads are watched too: there
 * is one here, and it would take minutes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "trace_replay.h"

#ifdef __SANITIZE_ADDRESS__
#define SEEDS 1u
#else
#define SEEDS 2u
#endif

struct floor {
	uint32_t blocks;
	double prefix;		/* per cent, mean of the seeds */
};

/* 64 shards */
static const struct floor conversation[] = { { 1000, 6.5 }, { 5859, 17.4 }, { 30000, 32.3 } };
static const struct floor synthetic[] = { { 1000, 7.0 }, { 5859, 31.2 }, { 10000, 43.3 } };
/* one shard, exact ghost */
static const struct floor reference_conversation[] = {
	{ 1000, 7.061005 }, { 3000, 13.423224 }, { 10000, 22.225997 }, { 30000, 32.516464 },
};
static const struct floor reference_synthetic[] = {
	{ 1000, 8.548783 }, { 5859, 33.887444 }, { 10000, 43.672719 }, { 30000, 62.595896 },
};

static struct trace load(const char *file)
{
	const char *folder = getenv("LARDER_TRACES");
	char path[4096];

#ifdef __SANITIZE_THREAD__
	printf("skipped: one thread, nothing to watch\n");
	skip();
#endif
	if (folder)
		(void)snprintf(path, sizeof(path), "%s/%s", folder, file);
	if (!folder || access(path, R_OK) < 0) {
		printf("skipped: no %s in LARDER_TRACES\n", file);
		skip();
	}
	return trace_load(path);
}

static double mean(const struct trace *t, struct trace_options o)
{
	double sum = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct trace_result r;

		o.seed = seed;
		r = trace_replay(t, &o);
		assert_int_equal(r.refused, 0);
		assert_true(r.most_pages <= r.pages);
		sum += trace_percent(r.prefix, r.blocks);
	}
	return sum / SEEDS;
}

static void rates(const char *file, const struct floor *f, size_t n)
{
	struct trace t = load(file);

	for (size_t i = 0; i < n; i++) {
		struct trace_options o = { .policy = "aseg", .shards = 64, .blocks = f[i].blocks };
		double aseg = mean(&t, o), twice, lru;

		o.twice = true;
		twice = mean(&t, o);
		o.twice = false;
		o.policy = "lru";
		lru = mean(&t, o);
		printf("%s at %u: %.2f %%, touched twice %.2f, lru %.2f\n", file, f[i].blocks,
		       aseg, twice, lru);
		assert_true(aseg >= f[i].prefix);
		assert_true(aseg >= lru - 1);
		assert_true(twice >= f[i].prefix - 1);
	}
	trace_free(&t);
}

static void aseg__keeps_its_floors_on_conversation(void **state)
{
	rates("conversation_trace.jsonl", conversation, ARRAY_SIZE(conversation));
}

static void aseg__keeps_its_floors_on_synthetic(void **state)
{
	rates("synthetic_trace.jsonl", synthetic, ARRAY_SIZE(synthetic));
}

static void reference(const char *file, const struct floor *want, size_t n)
{
	struct trace t = load(file);

	for (size_t i = 0; i < n; i++) {
		const struct trace_options o = {
			.policy = "aseg", .shards = 1, .blocks = want[i].blocks,
		};
		double got = mean(&t, o);

		printf("%s at %u, one shard: %.3f %%, reference %.3f\n", file, want[i].blocks, got,
		       want[i].prefix);
		assert_true(got > want[i].prefix - 0.1 && got < want[i].prefix + 0.1);
	}
	trace_free(&t);
}

static void aseg__one_shard_equals_the_reference(void **state)
{
	reference("conversation_trace.jsonl", reference_conversation,
		  ARRAY_SIZE(reference_conversation));
	reference("synthetic_trace.jsonl", reference_synthetic, ARRAY_SIZE(reference_synthetic));
}

static void aseg__keeps_twice_the_hits_of_lru_beside_a_scan(void **state)
{
	struct trace t = load("conversation_trace.jsonl");
	struct trace_options o = {
		.policy = "aseg", .shards = 64, .blocks = 5859, .scan_per_second = 50,
	};
	double aseg = mean(&t, o), lru;

	o.policy = "lru";
	lru = mean(&t, o);
	printf("beside a scan: %.2f %%, lru %.2f\n", aseg, lru);
	assert_true(aseg >= 2 * lru);
	trace_free(&t);
}

static void aseg__blocks_of_many_sizes_stay_within_the_budget(void **state)
{
	struct trace t = load("synthetic_trace.jsonl");
	const struct trace_options o = {
		.policy = "aseg", .shards = 64, .blocks = 3000, .sizes = true,
	};
	double rate = mean(&t, o);

	printf("sizes 1:32: %.2f %%\n", rate);
	assert_true(rate >= 18);
	trace_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aseg__keeps_its_floors_on_conversation),
		cmocka_unit_test(aseg__keeps_its_floors_on_synthetic),
		cmocka_unit_test(aseg__one_shard_equals_the_reference),
		cmocka_unit_test(aseg__keeps_twice_the_hits_of_lru_beside_a_scan),
		cmocka_unit_test(aseg__blocks_of_many_sizes_stay_within_the_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
