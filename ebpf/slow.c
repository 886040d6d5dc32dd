/* SPDX-License-Identifier: Apache-2.0 */
/* larder-slow: operations that took longer than they should, and where the time went. */
#include <errno.h>
#include <stdlib.h>

#include <larder/probes.h>
#include <larder/status.h>

#include "slow.h"
#include "slow.skel.h"
#include "tool.h"

#define SLOW_LEAST_US 10000u
#define SLOW_POLL_MS 100

_Static_assert(SLOW_PHASES == LARDER_PHASES, "phases");

struct slow {
	struct tool_options options;
	struct tool_names names;
	struct slow_bpf *skel;
	unsigned least_us;
	uint64_t first_ns;	/* of the first event: times count from there */
	uint64_t told, dropped_told;
};

static const struct argp_child slow_children[] = { { &tool_argp, 0, NULL, 0 }, { 0 } };
static const struct argp_option slow_options[] = {
	{ "min", 'm', "US", 0, "tell of those that took so long or longer (10000)", 0 },
	{ 0 },
};

static error_t slow_option(int key, char *arg, struct argp_state *state)
{
	struct slow *s = state->input;
	char *end;
	unsigned long v;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &s->options;
		return 0;
	case 'm':
		errno = 0;
		v = strtoul(arg, &end, 10);
		if (errno || *end || end == arg || arg[0] == '-' || v > 3600000000ul)
			argp_error(state, "--min is microseconds, up to an hour, not '%s'", arg);
		s->least_us = (unsigned)v;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp slow_argp = {
	.options = slow_options,
	.parser = slow_option,
	.args_doc = "[SECONDS [COUNT]]",
	.doc = "Tells of each operation of larderd that took long, with its phases: queued (from "
	       "its header until it was let in), admitted (until its object was there), data "
	       "(bytes that move before the reply), reply (until the last byte was handed over)."
	       "\vEnds after SECONDS x COUNT, or when it is told to. What is told faster than it "
	       "can be printed is dropped and counted.",
	.children = slow_children,
};

/* How long each phase took: until the next one that it came to. */
static void slow_phases(const struct slow_event *e, double us[SLOW_PHASES])
{
	for (unsigned i = 0; i < SLOW_PHASES; i++) {
		unsigned next = i + 1;

		us[i] = 0;
		while (next < SLOW_PHASES && !e->at_ns[next])
			next++;
		if (e->at_ns[i] && next < SLOW_PHASES && e->at_ns[next] > e->at_ns[i])
			us[i] = (double)(e->at_ns[next] - e->at_ns[i]) / 1e3;
	}
}

static int slow_event(void *user, void *data, size_t size)
{
	struct slow *s = user;
	const struct slow_event *e = data;
	const char *status = e->status == LARDER_PROBE_LOST ? "LOST" :
			     larder_status_name(e->status);
	double us[SLOW_PHASES];
	char text[TOOL_NAME];
	const char *tenant = tool_tenant(&s->names, e->tenant, text);

	slow_phases(e, us);
	s->told++;
	if (!s->first_ns)
		s->first_ns = e->end_ns;
	if (s->options.json)
		tool_print_json(json_pack(
			"{s:I, s:s, s:I, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f}",
			"end_ns", (json_int_t)e->end_ns, "tenant", tenant,
			"conn", (json_int_t)e->conn, "op", tool_op_name(e->opcode),
			"status", status, "bytes", (json_int_t)e->bytes,
			"total_us", (double)e->ns / 1e3,
			"queued_us", us[LARDER_PHASE_QUEUED],
			"admitted_us", us[LARDER_PHASE_ADMITTED],
			"data_us", us[LARDER_PHASE_DATA],
			"reply_us", us[LARDER_PHASE_REPLY]));
	else
		printf("%10.3f %-16s %5llu %-10s %-10s %10llu %10.0f %9.0f %9.0f %9.0f %9.0f\n",
		       (double)(e->end_ns - s->first_ns) / 1e9, tenant, e->conn,
		       tool_op_name(e->opcode), status, e->bytes, (double)e->ns / 1e3,
		       us[LARDER_PHASE_QUEUED], us[LARDER_PHASE_ADMITTED],
		       us[LARDER_PHASE_DATA], us[LARDER_PHASE_REPLY]);
	return 0;
}

static void slow_tell_dropped(struct slow *s)
{
	uint64_t dropped = s->skel->bss->dropped;

	if (dropped == s->dropped_told)
		return;
	tool_say(&s->options, "%llu more were dropped: raise --min",
		 (unsigned long long)(dropped - s->dropped_told));
	s->dropped_told = dropped;
}

static int slow_run(struct slow *s)
{
	struct ring_buffer *ring = ring_buffer__new(bpf_map__fd(s->skel->maps.events), slow_event,
						    s, NULL);
	const struct tool_options *o = &s->options;
	uint64_t turns = o->interval_s * 1000ull / SLOW_POLL_MS * (o->count ? o->count : 1);
	int r = 0;

	if (!ring) {
		tool_say_error(o, "no ring buffer (Linux 5.8 has them)", -errno);
		return -errno;
	}
	if (!o->json)
		printf("%10s %-16s %5s %-10s %-10s %10s %10s %9s %9s %9s %9s\n", "TIME(s)",
		       "TENANT", "CONN", "OP", "STATUS", "BYTES", "TOTAL(us)", "QUEUED",
		       "ADMITTED", "DATA", "REPLY");
	for (uint64_t i = 0; r >= 0 && (turns == 0 || i < turns); i++) {
		bool end = tool_wait(SLOW_POLL_MS);

		r = ring_buffer__consume(ring);
		slow_tell_dropped(s);
		if (end)
			break;
		if (i % 50 == 49)
			tool_names_read(o, &s->names);
	}
	ring_buffer__free(ring);
	if (r < 0)
		tool_say_error(o, "the ring buffer can not be read", r);
	else if (o->json)
		tool_print_json(json_pack("{s:I, s:I}", "told", (json_int_t)s->told, "dropped",
					  (json_int_t)s->skel->bss->dropped));
	else
		printf("%llu told, %llu dropped\n", (unsigned long long)s->told,
		       (unsigned long long)s->skel->bss->dropped);
	return r < 0 ? r : 0;
}

int main(int argc, char **argv)
{
	static struct slow s = { .least_us = SLOW_LEAST_US };
	struct tool tool = { 0 };
	int slot, r;

	tool_parse(&s.options, "larder-slow", &slow_argp, argc, argv, &s);
	tool_names_read(&s.options, &s.names);
	slot = tool_tenant_slot(&s.options, &s.names);
	if (slot < 0)
		return 2;
	tool_signals();
	s.skel = slow_bpf__open();
	if (!s.skel) {
		tool_say_error(&s.options, "the program can not be opened", -errno);
		return 5;
	}
	s.skel->rodata->least_ns = s.least_us * 1000ull;
	if (slot < (int)TOOL_TENANTS)
		s.skel->rodata->wanted_tenant = (unsigned)slot;
	r = slow_bpf__load(s.skel);
	if (r < 0)
		tool_say_error(&s.options, "the program can not be loaded", r);
	else
		r = tool_attach(&tool, &s.options, s.skel->obj);
	if (r == 0) {
		tool_ready(&tool);
		r = slow_run(&s);
	}
	tool_detach(&tool);
	slow_bpf__destroy(s.skel);
	return r < 0 ? 5 : 0;
}
