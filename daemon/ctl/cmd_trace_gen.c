/* SPDX-License-Identifier: Apache-2.0 */
/* trace-gen: a conversation-like trace to a file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/output.h"
#include "ctl/progress.h"
#include "ctl/trace_gen.h"
#include "ctl/ctl.h"

#define TRACE_GEN_MAX 10000000u

static int trace_gen_write(const char *path, const struct trace *t)
{
	FILE *f = stdout;
	int r;

	if (path && strcmp(path, "-")) {
		f = fopen(path, "we");
		if (!f)
			return ctl_fail(CTL_FAILED, "%s: %s", path, strerror(errno));
	} else {
		path = "standard output";
	}
	r = trace_write(f, t);
	if (f != stdout && fclose(f) == EOF && !r)
		r = -errno;
	return r ? ctl_fail(CTL_FAILED, "%s: %s", path, strerror(-r)) : CTL_DONE;
}

static int trace_gen_tell(const struct trace *t, uint64_t seed, const char *path)
{
	json_t *doc = json_object();

	json_set_text(doc, "file", path);
	json_set_u64(doc, "seed", seed);
	json_set_u64(doc, "requests", t->n_requests);
	json_set_u64(doc, "blocks", t->n_blocks);
	json_set_u64(doc, "max_blocks", t->max_blocks);
	json_set_u64(doc, "span_ms", t->requests[t->n_requests - 1].timestamp_ms);
	return output_json(doc);
}

int cmd_trace_gen(struct ctl *ctl, int argc, char **argv)
{
	static const struct option own[] = {
		{ "requests", required_argument, NULL, 256 },
		{ "seed", required_argument, NULL, 257 },
		{ "output", required_argument, NULL, 'o' },
		{ 0 },
	};
	__attribute__((cleanup(trace_done))) struct trace t = TRACE_NULL;
	uint64_t requests = TRACE_GEN_REQUESTS, seed = 1;
	struct progress_watch watch;
	const char *path = NULL;
	int c, r;

	while ((c = ctl_getopt(ctl, argc, argv, "o:", own)) != -1) {
		if (c == '?' ||
		    (c == 256 && ctl_take_number("--requests", optarg, 1, TRACE_GEN_MAX,
						 &requests)) ||
		    (c == 257 && ctl_take_number("--seed", optarg, 0, UINT64_MAX, &seed)))
			return CTL_USAGE;
		if (c == 'o')
			path = optarg;
	}
	if (ctl->help)
		return ctl_help(ctl_command_find("trace-gen"));
	if (optind < argc)
		return ctl_usage("trace-gen", "takes no argument");
	if (ctl->json && (!path || !strcmp(path, "-")))
		return ctl_usage("trace-gen", "--json wants -o FILE: the trace is no document");
	progress_watch_begin(&watch, "trace-gen");
	r = trace_generate(requests, seed, &t);
	r = r ? ctl_fail(CTL_FAILED, "trace-gen: %s", strerror(-r)) : trace_gen_write(path, &t);
	progress_watch_end(&watch);
	return r || !ctl->json ? r : trace_gen_tell(&t, seed, path);
}
