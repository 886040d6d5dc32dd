/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hit rates of an eviction policy on a request trace, from the engine alone.
 *
 *	policy_replay [options] TRACE
 *
 *	--policy NAME        aseg
 *	--blocks N[,N...]    capacities; 5859
 *	--shards N           64
 *	--seeds A-B          sampling seeds; 1-10
 *	--reserve N          pages kept free ahead of need; 0
 *	--first-last         order of a request's blocks; from the last to the first unless told
 *	--twice              every block is touched twice
 *	--scan N             N blocks a second that nobody asks for again
 *	--sizes              blocks of 1 to 32 pages
 *
 * One line of JSON for each capacity: means over the seeds in per cent of the blocks looked up.
 */
#include <getopt.h>
#include <inttypes.h>
#include <time.h>

#include "../unit/engine/trace_replay.h"

struct bench {
	struct trace trace;
	struct trace_options options;
	const char *blocks;
	uint64_t seed_first, seed_last;
};

static uint64_t bench_cpu_ns(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) < 0)
		trace_die("clock_gettime", "no clock");
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static void bench_capacity(struct bench *b, uint32_t blocks)
{
	double prefix = 0, hits = 0, low = 100, high = 0, ns = 0, most = 0;
	uint64_t refused = 0, n = 0;

	b->options.blocks = blocks;
	for (uint64_t seed = b->seed_first; seed <= b->seed_last; seed++, n++) {
		struct trace_result r;
		uint64_t start = bench_cpu_ns();
		double rate;

		b->options.seed = seed;
		r = trace_replay(&b->trace, &b->options);
		rate = trace_percent(r.prefix, r.blocks);
		ns += (double)(bench_cpu_ns() - start) / (double)(r.operations + r.blocks);
		prefix += rate;
		hits += trace_percent(r.hits, r.blocks);
		low = MIN(low, rate);
		high = MAX(high, rate);
		most = MAX(most, (double)r.most_pages / (double)r.pages);
		refused += r.refused;
	}
	printf("{\"policy\":\"%s\",\"blocks\":%" PRIu32 ",\"seeds\":%" PRIu64 ",\"prefix\":%.4f,"
	       "\"prefix_low\":%.4f,\"prefix_high\":%.4f,\"block\":%.4f,\"refused\":%" PRIu64
	       ",\"most_of_budget\":%.6f,\"ns_per_operation\":%.0f}\n", b->options.policy, blocks,
	       n, prefix / (double)n, low, high, hits / (double)n, refused, most, ns / (double)n);
	(void)fflush(stdout);
}

static uint64_t bench_number(const char *text, char **end)
{
	uint64_t n = strtoull(text, end, 10);

	if (*end == text)
		trace_die(text, "not a number");
	return n;
}

enum { OPT_POLICY = 256, OPT_BLOCKS, OPT_SHARDS, OPT_SEEDS, OPT_RESERVE, OPT_FIRST, OPT_TWICE,
       OPT_SCAN, OPT_SIZES };

static const struct option bench_options[] = {
	{ "policy", required_argument, NULL, OPT_POLICY },
	{ "blocks", required_argument, NULL, OPT_BLOCKS },
	{ "shards", required_argument, NULL, OPT_SHARDS },
	{ "seeds", required_argument, NULL, OPT_SEEDS },
	{ "reserve", required_argument, NULL, OPT_RESERVE },
	{ "first-last", no_argument, NULL, OPT_FIRST },
	{ "twice", no_argument, NULL, OPT_TWICE },
	{ "scan", required_argument, NULL, OPT_SCAN },
	{ "sizes", no_argument, NULL, OPT_SIZES },
	{ NULL, 0, NULL, 0 },
};

static void bench_option(struct bench *b, int c)
{
	struct trace_options *o = &b->options;
	char *end;

	switch (c) {
	case OPT_POLICY:
		o->policy = optarg;
		break;
	case OPT_BLOCKS:
		b->blocks = optarg;
		break;
	case OPT_SHARDS:
		o->shards = (uint32_t)bench_number(optarg, &end);
		break;
	case OPT_SEEDS:
		b->seed_first = bench_number(optarg, &end);
		b->seed_last = *end == '-' ? bench_number(end + 1, &end) : b->seed_first;
		break;
	case OPT_RESERVE:
		o->reserve_pages = (uint32_t)bench_number(optarg, &end);
		break;
	case OPT_FIRST:
		o->first_last = true;
		break;
	case OPT_TWICE:
		o->twice = true;
		break;
	case OPT_SCAN:
		o->scan_per_second = (uint32_t)bench_number(optarg, &end);
		break;
	case OPT_SIZES:
		o->sizes = true;
		break;
	default:
		trace_die("policy_replay", "usage: policy_replay [options] TRACE");
	}
}

int main(int argc, char **argv)
{
	struct bench b = {
		.options = { .policy = "aseg", .shards = 64 },
		.blocks = "5859", .seed_first = 1, .seed_last = 10,
	};
	char *end;
	int c;

	while ((c = getopt_long(argc, argv, "", bench_options, NULL)) != -1)
		bench_option(&b, c);
	if (optind != argc - 1 || b.seed_last < b.seed_first)
		bench_option(&b, '?');
	b.trace = trace_load(argv[optind]);
	for (const char *at = b.blocks; *at; at = end + (*end == ','))
		bench_capacity(&b, (uint32_t)bench_number(at, &end));
	trace_free(&b.trace);
	return 0;
}
