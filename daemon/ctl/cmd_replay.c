/* SPDX-License-Identifier: Apache-2.0 */
/* replay: the command line, the stores, the report. What is done with a trace is in replay*.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/output.h"
#include "ctl/replay.h"
#include "ctl/session.h"

#define REPLAY_NS "replay"
#define REPLAY_PAGES 5859u
#define REPLAY_BLOCK_MAX (256u * 1024 * 1024)
#define REPLAY_PAGE_MIN 4096u
#define REPLAY_PAGE_MAX (2u * 1024 * 1024)

enum {
	OPT_MODE = 256, OPT_ORDER, OPT_BLOCK, OPT_REQUESTS, OPT_INFLIGHT, OPT_LEASE, OPT_FLUSH,
	OPT_LOCAL, OPT_PAGES, OPT_PAGE_BYTES, OPT_SHARDS, OPT_POLICY, OPT_RESERVE, OPT_SEED,
	OPT_TOKENS, OPT_LINEAR, OPT_QUADRATIC,
};

static const struct option replay_long[] = {
	{ "mode", required_argument, NULL, OPT_MODE },
	{ "order", required_argument, NULL, OPT_ORDER },
	{ "block-bytes", required_argument, NULL, OPT_BLOCK },
	{ "requests", required_argument, NULL, OPT_REQUESTS },
	{ "inflight", required_argument, NULL, OPT_INFLIGHT },
	{ "lease", required_argument, NULL, OPT_LEASE },
	{ "flush", no_argument, NULL, OPT_FLUSH },
	{ "in-process", no_argument, NULL, OPT_LOCAL },
	{ "pages", required_argument, NULL, OPT_PAGES },
	{ "page-bytes", required_argument, NULL, OPT_PAGE_BYTES },
	{ "shards", required_argument, NULL, OPT_SHARDS },
	{ "policy", required_argument, NULL, OPT_POLICY },
	{ "reserve", required_argument, NULL, OPT_RESERVE },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "tokens-per-block", required_argument, NULL, OPT_TOKENS },
	{ "model-linear", required_argument, NULL, OPT_LINEAR },
	{ "model-quadratic", required_argument, NULL, OPT_QUADRATIC },
	{ 0 },
};
static const char *const replay_modes[] = { "exact", "engine", NULL };
static const char *const replay_orders[] = { "first-last", "last-first", NULL };

struct replay_command {
	struct replay_options options;
	struct replay_local_options local;
	bool in_process;
	bool local_options;	/* one of them was given */
	bool flush;
	const char *name;	/* as it was given */
	char *path;
	struct trace trace;
	struct replay_result *result;
	struct session session;
	struct replay_store *store;
};

/* A number whose place is 32 bits wide. */
static int replay_take_u32(const char *name, uint64_t min, uint64_t max, uint32_t *ret)
{
	uint64_t v;
	int r = ctl_take_number(name, optarg, min, max, &v);

	if (!r)
		*ret = (uint32_t)v;
	return r;
}

static int replay_take_size(const char *name, uint64_t min, uint64_t max, uint32_t *ret)
{
	uint64_t v;
	int r = ctl_take_size(name, optarg, min, max, &v);

	if (!r)
		*ret = (uint32_t)v;
	return r;
}

static int replay_local_option(struct replay_command *cmd, int c)
{
	struct replay_local_options *l = &cmd->local;

	cmd->local_options = true;
	switch (c) {
	case OPT_PAGES:
		return replay_take_u32("--pages", 1, UINT32_MAX / 2, &l->pages);
	case OPT_PAGE_BYTES:
		return replay_take_size("--page-bytes", REPLAY_PAGE_MIN, REPLAY_PAGE_MAX,
					&l->page_bytes);
	case OPT_SHARDS:
		return replay_take_u32("--shards", 1, 1024, &l->shards);
	case OPT_POLICY:
		l->policy = optarg;
		return 0;
	case OPT_RESERVE:
		return ctl_take_size("--reserve", optarg, 0, UINT64_MAX, &l->reserve_bytes);
	default:
		return ctl_take_number("--seed", optarg, 0, UINT64_MAX, &l->seed);
	}
}

static int replay_option(struct replay_command *cmd, int c)
{
	struct replay_options *o = &cmd->options;
	uint64_t v;
	int word, r;

	switch (c) {
	case OPT_MODE:
		r = ctl_take_word("--mode", optarg, replay_modes, &word);
		o->mode = r ? o->mode : (enum replay_mode)word;
		return r;
	case OPT_ORDER:
		r = ctl_take_word("--order", optarg, replay_orders, &word);
		o->order = r ? o->order : (enum replay_order)word;
		return r;
	case OPT_BLOCK:
		return replay_take_size("--block-bytes", 1, REPLAY_BLOCK_MAX, &o->block_bytes);
	case OPT_REQUESTS:
		r = ctl_take_number("--requests", optarg, 1, SIZE_MAX, &v);
		o->requests = r ? o->requests : (size_t)v;
		return r;
	case OPT_INFLIGHT:
		return replay_take_u32("--inflight", 1, REPLAY_INFLIGHT_MAX, &o->inflight);
	case OPT_LEASE:
		r = ctl_take_duration("--lease", optarg, &v);
		if (!r && (v < NSEC_PER_MSEC || v / NSEC_PER_MSEC > UINT32_MAX))
			r = ctl_usage("replay", "--lease %s: out of range", optarg);
		o->lease_ms = r ? o->lease_ms : (uint32_t)(v / NSEC_PER_MSEC);
		return r;
	case OPT_TOKENS:
		return replay_take_u32("--tokens-per-block", 1, UINT32_MAX, &o->tokens_per_block);
	case OPT_LINEAR:
		return ctl_take_real("--model-linear", optarg, &o->linear_ns);
	case OPT_QUADRATIC:
		return ctl_take_real("--model-quadratic", optarg, &o->quadratic_ns);
	case OPT_FLUSH:
		cmd->flush = true;
		return 0;
	case OPT_LOCAL:
		cmd->in_process = true;
		return 0;
	default:
		return replay_local_option(cmd, c);
	}
}

static int replay_load(struct replay_command *cmd)
{
	_cleanup_free_ char *folder = NULL;
	struct progress_watch watch;
	char error[TRACE_ERROR];
	FILE *f;
	int r;

	cmd->path = trace_find(cmd->name);
	if (!cmd->path) {
		folder = trace_folder();
		return ctl_fail(CTL_NOT_FOUND, "replay %s: no such file, nor a trace in %s",
				cmd->name, folder ? folder : "LARDER_TRACES");
	}
	f = fopen(cmd->path, "re");
	if (!f)
		return ctl_fail(errno == ENOENT ? CTL_NOT_FOUND : CTL_FAILED, "replay: %s: %s",
				cmd->path, strerror(errno));
	progress_watch_begin(&watch, "reading the trace");
	r = trace_read(f, cmd->options.requests, &cmd->trace, error);
	progress_watch_end(&watch);
	(void)fclose(f);	/* it was only read */
	if (r)
		return ctl_fail(CTL_FAILED, "replay: %s: %s", cmd->path, error);
	if (!cmd->trace.n_requests)
		return ctl_fail(CTL_FAILED, "replay: %s: no requests in it", cmd->path);
	return CTL_DONE;
}

static int replay_open(struct ctl *ctl, struct replay_command *cmd)
{
	char error[256];
	int r;

	if (cmd->in_process) {
		if (!cmd->local.page_bytes) {
			cmd->local.page_bytes = REPLAY_PAGE_MIN;
			while (cmd->local.page_bytes < MIN(cmd->options.block_bytes,
							   REPLAY_PAGE_MAX))
				cmd->local.page_bytes *= 2;
		}
		r = replay_local_open(&cmd->local, &cmd->store, error);
		return r ? ctl_fail(CTL_FAILED, "replay: the node in this process: %s", error)
			 : CTL_DONE;
	}
	r = session_open(ctl, "replay", REPLAY_NS, true, &cmd->session);
	if (r)
		return r;
	if (cmd->flush) {
		r = larder_ns_flush(cmd->session.client, cmd->session.ns, false, ctl->deadline_ms,
				    NULL, NULL);
		if (r && r != LARDER_BUSY)	/* what somebody leases may stay */
			return ctl_result(r, "replay: flush of namespace %s", cmd->session.ns_name);
	}
	cmd->store = replay_client_open(cmd->session.client, cmd->session.ns);
	return cmd->store ? CTL_DONE : ctl_fail(CTL_FAILED, "replay: %s", strerror(ENOMEM));
}

static double replay_share(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

static json_t *replay_latency_json(const struct latency *l)
{
	json_t *o = json_object();

	json_set_u64(o, "count", l->count);
	json_set_u64(o, "mean_ns", latency_mean(l));
	json_set_u64(o, "p50_ns", latency_quantile(l, 0.5));
	json_set_u64(o, "p99_ns", latency_quantile(l, 0.99));
	json_set_u64(o, "p999_ns", latency_quantile(l, 0.999));
	json_set_u64(o, "max_ns", l->max_ns);
	return o;
}

static int replay_json(const struct replay_command *cmd)
{
	const struct replay_result *r = cmd->result;
	const struct replay_options *o = &cmd->options;
	json_t *doc = json_object(), *latency = json_object(), *model = json_object();

	json_set_text(doc, "trace", cmd->path);
	json_set_text(doc, "mode", replay_modes[o->mode]);
	if (o->mode == REPLAY_EXACT)
		json_set_text(doc, "order", replay_orders[o->order]);
	json_set(doc, "in_process", json_boolean(cmd->in_process));
	json_set_u64(doc, "block_bytes", o->block_bytes);
	json_set_u64(doc, "requests", r->requests);
	json_set_u64(doc, "blocks", r->blocks);
	json_set_u64(doc, "block_hits", r->block_hits);
	json_set_u64(doc, "prefix_hits", r->prefix_hits);
	json_set(doc, "block_hit_rate",
		 json_real(replay_share((double)r->block_hits, (double)r->blocks)));
	json_set(doc, "prefix_hit_rate",
		 json_real(replay_share((double)r->prefix_hits, (double)r->blocks)));
	json_set_u64(doc, "gets", r->gets);
	json_set_u64(doc, "get_hits", r->get_hits);
	json_set_u64(doc, "get_bytes", r->get_bytes);
	json_set_u64(doc, "puts", r->puts);
	json_set_u64(doc, "put_same", r->put_same);
	json_set_u64(doc, "put_bytes", r->put_bytes);
	json_set_u64(doc, "refused", r->refused);
	json_set_u64(doc, "lease_broken", r->lease_broken);
	json_set_u64(doc, "checksum_errors", r->checksum_errors);
	json_set(latency, "exists", replay_latency_json(&r->exists));
	json_set(latency, "get", replay_latency_json(&r->get));
	json_set(latency, "put", replay_latency_json(&r->put));
	json_set(doc, "latency", latency);
	json_set(model, "linear_ns", json_real(o->linear_ns));
	json_set(model, "quadratic_ns", json_real(o->quadratic_ns));
	json_set_u64(model, "tokens_per_block", o->tokens_per_block);
	json_set(doc, "prefill_model", model);
	json_set(doc, "prefill_s", json_real(r->prefill_ns / 1e9));
	json_set(doc, "prefill_saved_s", json_real(r->saved_ns / 1e9));
	json_set(doc, "wall_s", json_real((double)r->wall_ns / 1e9));
	return output_json(doc);
}

static void replay_row(struct table *t, const char *name, const char *value)
{
	table_row(t);
	table_cell(t, 0, "%s", name);
	table_cell(t, 1, "%s", value);
}

static void replay_count(struct table *t, const char *name, uint64_t n, uint64_t of)
{
	char text[64];

	if (of)
		(void)snprintf(text, sizeof(text), "%" PRIu64 "  (%.2f %%)", n,
			       100.0 * (double)n / (double)of);
	else
		(void)snprintf(text, sizeof(text), "%" PRIu64, n);
	replay_row(t, name, text);
}

static int replay_summary(const struct replay_command *cmd)
{
	const struct replay_result *r = cmd->result;
	const struct replay_options *o = &cmd->options;
	const struct table_column columns[] = { { "REPLAY", false }, { cmd->name, false } };
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	char text[128], a[UTIL_TEXT], b[UTIL_TEXT];

	(void)snprintf(text, sizeof(text), "%s%s%s%s", replay_modes[o->mode],
		       o->mode == REPLAY_EXACT ? ", " : "",
		       o->mode == REPLAY_EXACT ? replay_orders[o->order] : "",
		       cmd->in_process ? ", in this process" : "");
	replay_row(t, "mode", text);
	replay_count(t, "requests", r->requests, 0);
	replay_count(t, "blocks looked up", r->blocks, 0);
	replay_count(t, "block hits", r->block_hits, r->blocks);
	replay_count(t, "usable prefix hits", r->prefix_hits, r->blocks);
	(void)snprintf(text, sizeof(text), "%" PRIu64 ", %s", r->get_hits,
		       util_format_bytes(r->get_bytes, a));
	replay_row(t, "values read", text);
	(void)snprintf(text, sizeof(text), "%" PRIu64 ", %s", r->puts,
		       util_format_bytes(r->put_bytes, a));
	replay_row(t, "values written", text);
	if (r->refused)
		replay_count(t, "writes refused", r->refused, 0);
	if (r->lease_broken)
		replay_count(t, "leases broken", r->lease_broken, 0);
	replay_count(t, "checksum errors", r->checksum_errors, 0);
	(void)snprintf(text, sizeof(text), "%.1f s of %.1f s  (%.2f %%)", r->saved_ns / 1e9,
		       r->prefill_ns / 1e9, 100 * replay_share(r->saved_ns, r->prefill_ns));
	replay_row(t, "prefill saved (model)", text);
	(void)snprintf(text, sizeof(text), "%s, %s/s", util_format_ns(r->wall_ns, a),
		       util_format_bytes((uint64_t)replay_share((double)(r->get_bytes +
									 r->put_bytes),
								(double)r->wall_ns / 1e9), b));
	replay_row(t, "time", text);
	return table_print(t);
}

static int replay_latencies(const struct replay_result *r)
{
	static const struct table_column columns[] = {
		{ "OPERATION", false }, { "COUNT", true }, { "MEAN", true }, { "P50", true },
		{ "P99", true }, { "P99.9", true }, { "MAX", true },
	};
	const struct { const char *name; const struct latency *l; } rows[] = {
		{ "exists", &r->exists }, { "get", &r->get }, { "put", &r->put },
	};
	struct table *t = table_new(columns, ARRAY_SIZE(columns));

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct latency *l = rows[i].l;
		char text[UTIL_TEXT];

		table_row(t);
		table_cell(t, 0, "%s", rows[i].name);
		table_cell(t, 1, "%" PRIu64, l->count);
		table_cell(t, 2, "%s", util_format_ns(latency_mean(l), text));
		table_cell(t, 3, "%s", util_format_ns(latency_quantile(l, 0.5), text));
		table_cell(t, 4, "%s", util_format_ns(latency_quantile(l, 0.99), text));
		table_cell(t, 5, "%s", util_format_ns(latency_quantile(l, 0.999), text));
		table_cell(t, 6, "%s", util_format_ns(l->max_ns, text));
	}
	return table_print(t);
}

static int replay_tell(struct ctl *ctl, const struct replay_command *cmd)
{
	const struct replay_result *res = cmd->result;
	int r;

	if (ctl->json) {
		r = replay_json(cmd);
	} else {
		r = replay_summary(cmd);
		if (!r) {
			putchar('\n');
			r = replay_latencies(res);
		}
	}
	if (res->checksum_errors)
		return ctl_fail(CTL_FAILED, "replay: %" PRIu64 " values came back wrong (CHECKSUM)",
				res->checksum_errors);
	if (res->lease_broken)
		return ctl_fail(CTL_FAILED, "replay: %" PRIu64 " leased values were not found",
				res->lease_broken);
	return r;
}

static int replay_do(struct ctl *ctl, struct replay_command *cmd)
{
	struct progress progress;
	int r = replay_load(cmd);

	if (!r)
		r = replay_open(ctl, cmd);
	if (r)
		return r;
	progress_begin(&progress, "replay", cmd->trace.n_requests);
	r = replay_run(cmd->store, &cmd->trace, &cmd->options, &progress, cmd->result);
	progress_end(&progress);
	if (r)
		return ctl_fail(r > 0 ? (enum ctl_exit)larder_status_exit_code(r) : CTL_FAILED,
				"replay: after %" PRIu64 " requests: %s (%s)",
				cmd->result->requests, cmd->result->error,
				r > 0 ? larder_status_name(r) : "errno");
	return replay_tell(ctl, cmd);
}

static void replay_command_done(struct replay_command *cmd)
{
	if (cmd->store)
		cmd->store->ops->close(cmd->store);
	session_close(&cmd->session);
	trace_done(&cmd->trace);
	free(cmd->path);
	free(cmd->result);
}

int cmd_replay(struct ctl *ctl, int argc, char **argv)
{
	__attribute__((cleanup(replay_command_done))) struct replay_command cmd = {
		.options = {
			.block_bytes = 4096, .inflight = 4, .lease_ms = 10000,
			.tokens_per_block = TRACE_TOKENS_PER_BLOCK,
			.linear_ns = 47300, .quadratic_ns = 2.1,
		},
		.local = { .pages = REPLAY_PAGES, .shards = 1, .policy = "lru" },
	};
	int c;

	while ((c = ctl_getopt(ctl, argc, argv, "", replay_long)) != -1)
		if (c == '?' || replay_option(&cmd, c))
			return CTL_USAGE;
	if (ctl->help)
		return ctl_help(ctl_command_find("replay"));
	if (argc - optind != 1)
		return ctl_usage("replay", "wanted one TRACE");
	if (cmd.local_options && !cmd.in_process)
		return ctl_usage("replay", "--pages and the like are for --in-process");
	if (cmd.in_process && cmd.flush)
		return ctl_usage("replay", "--flush: a node in this process begins empty");
	cmd.name = argv[optind];
	cmd.options.deadline_ms = ctl->deadline_ms;
	cmd.result = calloc(1, sizeof(*cmd.result));
	if (!cmd.result)
		return ctl_fail(CTL_FAILED, "replay: %s", strerror(ENOMEM));
	return replay_do(ctl, &cmd);
}
