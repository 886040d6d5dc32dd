/* SPDX-License-Identifier: Apache-2.0 */
/* bench: the command line, the runs, medians and spread. The load itself is in bench*.c. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ctl/bench.h"
#include "ctl/output.h"
#include "ctl/session.h"

#define BENCH_NS "bench"
#define BENCH_SET_BYTES (256ull * 1024 * 1024)	/* default working set */
#define BENCH_REPEAT_MAX 1000u
#define BENCH_VALUE_MAX (256u * 1024 * 1024)

enum {
	OPT_SIZE = 256,
	OPT_BATCH,
	OPT_DEPTH,
	OPT_CONNECTIONS,
	OPT_KEYS,
	OPT_DURATION,
	OPT_COUNT,
	OPT_WARMUP,
	OPT_BUFFERS,
	OPT_RATE,
	OPT_REPEAT,
	OPT_CHECKS,
	OPT_REGION,
	OPT_SPIN,
	OPT_VERIFY,
	OPT_KEEP,
	OPT_SEED,
};

static const struct option bench_long[] = {
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "depth", required_argument, NULL, OPT_DEPTH },
	{ "buffers", required_argument, NULL, OPT_BUFFERS },
	{ "connections", required_argument, NULL, OPT_CONNECTIONS },
	{ "keys", required_argument, NULL, OPT_KEYS },
	{ "duration", required_argument, NULL, OPT_DURATION },
	{ "count", required_argument, NULL, OPT_COUNT },
	{ "warmup", required_argument, NULL, OPT_WARMUP },
	{ "rate", required_argument, NULL, OPT_RATE },
	{ "repeat", required_argument, NULL, OPT_REPEAT },
	{ "checks", required_argument, NULL, OPT_CHECKS },
	{ "region", no_argument, NULL, OPT_REGION },
	{ "spin", no_argument, NULL, OPT_SPIN },
	{ "verify", no_argument, NULL, OPT_VERIFY },
	{ "keep", no_argument, NULL, OPT_KEEP },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ 0 },
};
static const char *const bench_words[] = { "get", "put", "exists", NULL };
static const uint8_t bench_opcodes[] = { LARDER_OP_GET, LARDER_OP_PUT, LARDER_OP_EXISTS };

/* The figures of a run that are compared over runs. */
enum bench_figure {
	BENCH_OPS, BENCH_BYTES, BENCH_MEAN, BENCH_P50, BENCH_P99, BENCH_P999, BENCH_MAXIMUM,
	BENCH_FIGURES
};
static const char *const bench_figure_json[] = {
	"operations_per_s", "bytes_per_s", "mean_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns",
};
static const char *const bench_figure_name[] = {
	"operations/s", "bytes/s", "latency mean", "latency p50", "latency p99", "latency p99.9",
	"latency max",
};

struct bench_command {
	struct bench_options options;
	struct larder_client_options client;
	bool checks_given;
	uint32_t repeat;
	int word;			/* of bench_words */
	double (*figures)[BENCH_FIGURES]; /* of each run */
	struct bench_result *total;
	struct bench_result *run;
	char url[256];			/* in use: what larder:// picked */
};

static int bench_take_u32(const char *name, uint64_t max, uint32_t *ret)
{
	uint64_t v;
	int r = ctl_take_number(name, optarg, 1, max, &v);

	if (!r)
		*ret = (uint32_t)v;
	return r;
}

static int bench_load_option(struct bench_command *cmd, int c)
{
	struct bench_options *o = &cmd->options;
	uint64_t v;
	int r;

	switch (c) {
	case OPT_SIZE:
		r = ctl_take_size("--size", optarg, 1, BENCH_VALUE_MAX, &v);
		o->size = r ? o->size : (uint32_t)v;
		return r;
	case OPT_BATCH:
		return bench_take_u32("--batch", BENCH_BATCH_MAX, &o->batch);
	case OPT_DEPTH:
		return bench_take_u32("--depth", BENCH_DEPTH_MAX, &o->depth);
	case OPT_BUFFERS:
		return bench_take_u32("--buffers", BENCH_BUFFERS_MAX, &o->buffers);
	case OPT_CONNECTIONS:
		return bench_take_u32("--connections", BENCH_CONNECTIONS_MAX, &o->connections);
	case OPT_KEYS:
		return ctl_take_number("--keys", optarg, 1, UINT32_MAX, &o->keys);
	case OPT_DURATION:
		return ctl_take_duration("--duration", optarg, &o->duration_ns);
	case OPT_COUNT:
		return ctl_take_number("--count", optarg, 1, INT64_MAX, &o->count);
	case OPT_WARMUP:
		return ctl_take_duration("--warmup", optarg, &o->warmup_ns);
	case OPT_RATE:
		return ctl_take_real("--rate", optarg, &o->rate);
	case OPT_REPEAT:
		return bench_take_u32("--repeat", BENCH_REPEAT_MAX, &cmd->repeat);
	default:
		return ctl_take_number("--seed", optarg, 0, UINT64_MAX, &o->seed);
	}
}

static int bench_option(struct bench_command *cmd, int c)
{
	static const char *const states[] = { "on", "off", NULL };
	struct bench_options *o = &cmd->options;
	int word, r;

	switch (c) {
	case OPT_CHECKS:
		r = ctl_take_word("--checks", optarg, states, &word);
		o->no_checks = !r && word == 1;
		cmd->checks_given = true;
		return r;
	case OPT_REGION:
		o->region = true;
		return 0;
	case OPT_SPIN:
		o->spin = true;
		return 0;
	case OPT_VERIFY:
		o->verify = true;
		return 0;
	case OPT_KEEP:
		o->keep = true;
		return 0;
	default:
		return bench_load_option(cmd, c);
	}
}

/* What can't be told from one option alone. */
static int bench_check(struct bench_command *cmd)
{
	struct bench_options *o = &cmd->options;

	o->opcode = bench_opcodes[cmd->word];
	if (!o->keys)
		o->keys = MAX(BENCH_SET_BYTES / o->size, 1ull);
	if (cmd->checks_given && o->opcode == LARDER_OP_EXISTS)
		return ctl_usage("bench", "--checks is for get and put");
	if (o->verify && o->opcode != LARDER_OP_GET)
		return ctl_usage("bench", "--verify is for get");
	if (!o->duration_ns)
		return ctl_usage("bench", "--duration: longer than nothing");
	if ((double)o->size * o->batch * o->depth * o->buffers > 64.0 * 1024 * 1024 * 1024)
		return ctl_usage("bench",
				 "size x batch x depth x buffers: more than 64 GiB a connection");
	return CTL_DONE;
}

static void bench_measure(const struct bench_result *r, double figures[BENCH_FIGURES])
{
	double seconds = MAX((double)r->elapsed_ns, 1.0) / 1e9;

	figures[BENCH_OPS] = (double)r->operations / seconds;
	figures[BENCH_BYTES] = (double)r->bytes / seconds;
	figures[BENCH_MEAN] = (double)latency_mean(&r->latency);
	figures[BENCH_P50] = (double)latency_quantile(&r->latency, 0.5);
	figures[BENCH_P99] = (double)latency_quantile(&r->latency, 0.99);
	figures[BENCH_P999] = (double)latency_quantile(&r->latency, 0.999);
	figures[BENCH_MAXIMUM] = (double)r->latency.max_ns;
}

static int bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Smallest, median and largest of a figure over the runs. 0 or -ENOMEM. */
static int bench_spread(const struct bench_command *cmd, unsigned figure, double ret[3])
{
	_cleanup_free_ double *v = calloc(cmd->repeat, sizeof(*v));
	uint32_t n = cmd->repeat;

	if (!v)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		v[i] = cmd->figures[i][figure];
	qsort(v, n, sizeof(*v), bench_compare);
	ret[0] = v[0];
	ret[1] = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
	ret[2] = v[n - 1];
	return 0;
}

static void bench_cell(struct table *t, size_t column, unsigned figure, double v)
{
	char text[UTIL_TEXT];

	if (figure == BENCH_OPS)
		table_cell(t, column, "%.0f", v);
	else if (figure == BENCH_BYTES)
		table_cell(t, column, "%.3f GB/s", v / 1e9);
	else
		table_cell(t, column, "%s", util_format_ns((uint64_t)v, text));
}

static int bench_table(const struct bench_command *cmd)
{
	const struct bench_options *o = &cmd->options;
	const struct table_column columns[] = {
		{ "BENCH", false }, { "MEDIAN", true }, { "MIN", true }, { "MAX", true },
	};
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	char text[UTIL_TEXT];

	printf("%s over %s: %s x %" PRIu32 ", depth %" PRIu32 ", %" PRIu32 " connections, %"
	       PRIu32 " runs%s%s%s%s\n", bench_words[cmd->word], cmd->url,
	       util_format_bytes(o->size, text), o->batch, o->depth, o->connections, cmd->repeat,
	       o->no_checks ? ", checks off" : "", o->region ? ", registered memory" : "",
	       o->spin ? ", spinning" : "", o->rate > 0 ? ", open loop" : "");
	for (unsigned f = 0; f < BENCH_FIGURES; f++) {
		double v[3];

		if (f == BENCH_BYTES && o->opcode == LARDER_OP_EXISTS)
			continue;	/* it moves none */
		if (bench_spread(cmd, f, v) < 0) {
			table_free(t);
			return ctl_fail(CTL_FAILED, "bench: %s", strerror(ENOMEM));
		}
		table_row(t);
		table_cell(t, 0, "%s", bench_figure_name[f]);
		bench_cell(t, 1, f, v[1]);
		bench_cell(t, 2, f, v[0]);
		bench_cell(t, 3, f, v[2]);
	}
	return table_print(t);
}

static void bench_json_setup(const struct bench_command *cmd, json_t *doc)
{
	const struct bench_options *o = &cmd->options;

	json_set_text(doc, "operation", bench_words[cmd->word]);
	json_set_text(doc, "url", cmd->url);
	json_set_u64(doc, "size_bytes", o->size);
	json_set_u64(doc, "batch", o->batch);
	json_set_u64(doc, "depth", o->depth);
	json_set_u64(doc, "buffers", o->buffers);
	json_set_u64(doc, "connections", o->connections);
	if (o->opcode != LARDER_OP_PUT)
		json_set_u64(doc, "keys", o->keys);
	json_set(doc, "checks", json_boolean(!o->no_checks));
	json_set(doc, "region", json_boolean(o->region));
	json_set(doc, "spin", json_boolean(o->spin));
	json_set(doc, "rate", o->rate > 0 ? json_real(o->rate) : json_null());
	json_set_u64(doc, "repeat", cmd->repeat);
}

static int bench_json(const struct bench_command *cmd)
{
	const struct bench_result *total = cmd->total;
	const struct bench_options *o = &cmd->options;
	json_t *doc = json_object(), *statuses = json_object(), *runs = json_array();

	bench_json_setup(cmd, doc);
	json_set_u64(doc, "batches", total->batches);
	json_set_u64(doc, "operations", total->operations);
	json_set_u64(doc, "bytes", total->bytes);
	json_set_u64(doc, "unsent", total->unsent);
	json_set_u64(doc, "wrong_values", total->wrong);
	json_set_u64(doc, "reconnects", total->reconnects);
	json_set_u64(doc, "retries", total->retries);
	for (int i = 0; i < LARDER_STATUS_COUNT; i++)
		if (total->status[i])
			json_set_u64(statuses, larder_status_name(i), total->status[i]);
	json_set(doc, "statuses", statuses);
	for (unsigned f = 0; f < BENCH_FIGURES; f++) {
		double v[3];

		if (f == BENCH_BYTES && o->opcode == LARDER_OP_EXISTS)
			continue;
		if (bench_spread(cmd, f, v) < 0)
			json_set(doc, bench_figure_json[f], NULL);
		else
			json_set(doc, bench_figure_json[f],
				 json_pack("{s:I, s:I, s:I}", "median", (json_int_t)llround(v[1]),
					   "min", (json_int_t)llround(v[0]), "max",
					   (json_int_t)llround(v[2])));
	}
	for (uint32_t i = 0; i < cmd->repeat; i++) {
		json_t *run = json_object();

		for (unsigned f = 0; f < BENCH_FIGURES; f++)
			json_set_u64(run, bench_figure_json[f], (uint64_t)cmd->figures[i][f]);
		if (json_array_append_new(runs, run))
			json_set(doc, "runs", NULL);
	}
	json_set(doc, "runs", runs);
	return output_json(doc);
}

/* A number without its condition misleads: failures and misses are told, and decide the code. */
static int bench_verdict(const struct bench_command *cmd)
{
	const struct bench_result *t = cmd->total;
	int code = CTL_DONE;

	for (int i = 0; i < LARDER_STATUS_COUNT; i++) {
		if (i == LARDER_OK || i == LARDER_EXISTS_SAME || !t->status[i])
			continue;
		(void)ctl_fail(CTL_FAILED, "bench: %" PRIu64 " of %" PRIu64 " operations: %s (%s)",
			       t->status[i], t->operations, larder_status_text(i),
			       larder_status_name(i));
		code = MAX(code, larder_status_exit_code(i));
	}
	if (t->unsent)
		(void)ctl_fail(CTL_FAILED, "bench: %" PRIu64 " batches were due and never "
			       "started: the node or the depth is too small for this rate",
			       t->unsent);
	if (t->wrong)
		code = ctl_fail(CTL_FAILED, "bench: %" PRIu64 " values were not what was put",
				t->wrong);
	if (!t->batches)
		code = ctl_fail(CTL_FAILED, "bench: no batch was finished in the time");
	return code;
}

static void bench_total(struct bench_result *into, const struct bench_result *from)
{
	into->batches += from->batches;
	into->operations += from->operations;
	into->bytes += from->bytes;
	into->unsent += from->unsent;
	into->wrong += from->wrong;
	into->reconnects = from->reconnects;	/* the handles count over all runs */
	into->retries = from->retries;
	for (unsigned i = 0; i < LARDER_STATUS_COUNT; i++)
		into->status[i] += from->status[i];
}

static int bench_do(struct ctl *ctl, struct bench_command *cmd)
{
	struct progress progress;
	struct bench *bench = NULL;
	char error[256] = "";
	int code, r = bench_open(&cmd->options, &progress, &bench, error);

	for (uint32_t i = 0; !r && i < cmd->repeat; i++) {
		memset(cmd->run, 0, sizeof(*cmd->run));
		r = bench_run(bench, &progress, cmd->run, error);
		bench_measure(cmd->run, cmd->figures[i]);
		bench_total(cmd->total, cmd->run);
	}
	if (!r)
		bench_url(bench, cmd->url, sizeof(cmd->url));
	bench_close(bench);
	if (r)
		return ctl_fail(r > 0 ? (enum ctl_exit)larder_status_exit_code(r) : CTL_FAILED,
				"bench: %s (%s)", error, r > 0 ? larder_status_name(r) : "errno");
	r = ctl->json ? bench_json(cmd) : bench_table(cmd);
	code = bench_verdict(cmd);
	return MAX(r, code);
}

static void bench_command_done(struct bench_command *cmd)
{
	free(cmd->figures);
	free(cmd->total);
	free(cmd->run);
}

int cmd_bench(struct ctl *ctl, int argc, char **argv)
{
	__attribute__((cleanup(bench_command_done))) struct bench_command cmd = {
		.options = {
			.size = 65536, .batch = 1, .depth = 1, .buffers = 1,
			.connections = 1,
			.duration_ns = 5 * NSEC_PER_SEC, .warmup_ns = 500 * NSEC_PER_MSEC,
			.seed = 1,
		},
		.repeat = 1,
	};
	unsigned char secret[SESSION_SECRET_MAX];
	char ns[SESSION_NS_SIZE];
	int c, r;

	while ((c = ctl_getopt(ctl, argc, argv, "", bench_long)) != -1)
		if (c == '?' || bench_option(&cmd, c))
			return CTL_USAGE;
	if (ctl->help)
		return ctl_help(ctl_command_find("bench"));
	if (argc - optind != 1)
		return ctl_usage("bench", "wanted one of get, put, exists");
	if (ctl_take_word("bench", argv[optind], bench_words, &cmd.word) || bench_check(&cmd) ||
	    session_ns_parse("bench", ctl->ns ? ctl->ns : BENCH_NS, ns))
		return CTL_USAGE;
	cmd.figures = calloc(cmd.repeat, sizeof(*cmd.figures));
	cmd.total = calloc(1, sizeof(*cmd.total));
	cmd.run = calloc(1, sizeof(*cmd.run));
	if (!cmd.figures || !cmd.total || !cmd.run)
		return ctl_fail(CTL_FAILED, "bench: %s", strerror(ENOMEM));
	r = session_options(ctl, &cmd.client, secret);
	if (r)
		return r;
	cmd.options.client = &cmd.client;
	cmd.options.ns = ns;
	cmd.options.deadline_ms = ctl->deadline_ms;
	r = bench_do(ctl, &cmd);
	explicit_bzero(secret, sizeof(secret));
	return r;
}
