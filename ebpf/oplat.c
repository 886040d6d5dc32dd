/* SPDX-License-Identifier: Apache-2.0 */
/* larder-oplat: how long operations take in the node, as histograms. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "oplat.h"
#include "oplat.skel.h"
#include "tool.h"

_Static_assert(OPLAT_SLOTS == TOOL_LOG2_SLOTS, "one kind of histogram");

static const char *const oplat_classes[OPLAT_CLASSES] = {
	"no payload", "up to 4 KiB", "up to 64 KiB", "up to 1 MiB", "up to 16 MiB", "over 16 MiB",
};

struct oplat {
	struct tool_options options;
	struct tool_names names;
	struct oplat_bpf *skel;
	struct {
		struct oplat_key key;
		struct oplat_hist hist;
	} at[OPLAT_MAX];
	unsigned n;
};

static const struct argp_child oplat_children[] = { { &tool_argp, 0, NULL, 0 }, { 0 } };

static error_t oplat_option(int key, char *arg, struct argp_state *state)
{
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = state->input;
	return 0;
}

static const struct argp oplat_argp = {
	.parser = oplat_option,
	.args_doc = "[INTERVAL [COUNT]]",
	.doc = "Service times of operations in larderd, from a request's header to the last byte "
	       "of its reply: a histogram for each tenant, operation and class of size.\v"
	       "Without INTERVAL (seconds) it prints once, when it is told to end. Each interval "
	       "starts from zero.\n\nExamples:\n"
	       "  larder-oplat 1 10       a second each, ten times\n"
	       "  larder-oplat -t red 5   one tenant\n"
	       "  larder-oplat -j 1       for a program",
	.children = oplat_children,
};

/* Takes out what is there: the next interval begins with nothing. */
static int oplat_collect(struct oplat *o)
{
	int fd = bpf_map__fd(o->skel->maps.hists);
	struct oplat_key key, *last = NULL;

	o->n = 0;
	while (o->n < OPLAT_MAX && bpf_map_get_next_key(fd, last, &o->at[o->n].key) == 0) {
		key = o->at[o->n].key;
		last = &key;
		o->n++;
	}
	for (unsigned i = 0; i < o->n; i++) {
		if (bpf_map_lookup_and_delete_elem(fd, &o->at[i].key, &o->at[i].hist) == 0)
			continue;
		/* before 5.14 a hash has no such call: between two a hit may be lost */
		if (bpf_map_lookup_elem(fd, &o->at[i].key, &o->at[i].hist) < 0 ||
		    bpf_map_delete_elem(fd, &o->at[i].key) < 0) {
			tool_say_error(&o->options, "a histogram can not be read", -errno);
			return -errno;
		}
	}
	return 0;
}

static int oplat_order(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct oplat_key));
}

static void oplat_print_text(struct oplat *o)
{
	char text[TOOL_NAME];

	for (unsigned i = 0; i < o->n; i++) {
		const struct oplat_key *k = &o->at[i].key;
		const struct oplat_hist *h = &o->at[i].hist;

		printf("\ntenant %s, %s, %s: %llu, mean %.1f us\n",
		       tool_tenant(&o->names, k->tenant, text), tool_op_name(k->opcode),
		       oplat_classes[k->class], h->count,
		       (double)h->sum_ns / (double)(h->count ? h->count : 1) / 1e3);
		tool_print_log2(h->slots, OPLAT_SLOTS, "ns");
	}
	if (o->n == 0)
		puts("no operation came to its end");
	if (o->skel->bss->lost)
		printf("%llu operations had no place: more than %u histograms\n",
		       (unsigned long long)o->skel->bss->lost, OPLAT_MAX);
}

static void oplat_print_json(struct oplat *o)
{
	json_t *all = json_array();
	char text[TOOL_NAME];

	for (unsigned i = 0; i < o->n; i++) {
		const struct oplat_key *k = &o->at[i].key;
		const struct oplat_hist *h = &o->at[i].hist;

		(void)json_array_append_new(all, json_pack(
			"{s:s, s:s, s:s, s:I, s:I, s:o}",
			"tenant", tool_tenant(&o->names, k->tenant, text),
			"op", tool_op_name(k->opcode), "size", oplat_classes[k->class],
			"count", (json_int_t)h->count, "sum_ns", (json_int_t)h->sum_ns,
			"log2_ns", tool_json_log2(h->slots, OPLAT_SLOTS)));
	}
	tool_print_json(json_pack("{s:o, s:I}", "histograms", all,
				  "lost", (json_int_t)o->skel->bss->lost));
}

static int oplat_run(struct oplat *o)
{
	const struct tool_options *opt = &o->options;
	bool end = false;

	for (unsigned i = 0; !end && (opt->count == 0 || i < opt->count); i++) {
		int r;

		do {
			end = tool_wait(opt->interval_s ? opt->interval_s * 1000 : 60000);
		} while (!end && opt->interval_s == 0);
		r = oplat_collect(o);
		if (r < 0)
			return r;
		qsort(o->at, o->n, sizeof(o->at[0]), oplat_order);
		tool_names_read(opt, &o->names);
		if (opt->json)
			oplat_print_json(o);
		else
			oplat_print_text(o);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct oplat o;
	struct tool tool = { 0 };
	int slot, r;

	tool_parse(&o.options, "larder-oplat", &oplat_argp, argc, argv, &o.options);
	tool_names_read(&o.options, &o.names);
	slot = tool_tenant_slot(&o.options, &o.names);
	if (slot < 0)
		return 2;
	tool_signals();
	o.skel = oplat_bpf__open();
	if (!o.skel) {
		tool_say_error(&o.options, "the program can not be opened", -errno);
		return 5;
	}
	if (slot < (int)TOOL_TENANTS)
		o.skel->rodata->wanted_tenant = (unsigned)slot;
	r = oplat_bpf__load(o.skel);
	if (r < 0)
		tool_say_error(&o.options, "the program can not be loaded", r);
	else
		r = tool_attach(&tool, &o.options, o.skel->obj);
	if (r == 0) {
		tool_ready(&tool);
		r = oplat_run(&o);
	}
	tool_detach(&tool);
	oplat_bpf__destroy(o.skel);
	return r < 0 ? 5 : 0;
}
