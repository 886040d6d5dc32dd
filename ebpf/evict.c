/* SPDX-License-Identifier: Apache-2.0 */
/* larder-evict: whose objects go, for whom, and how long nobody had asked for them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include <larder/probes.h>

#include "evict.h"
#include "evict.skel.h"
#include "tool.h"

_Static_assert(EVICT_SLOTS == TOOL_LOG2_SLOTS, "one kind of histogram");

struct evict {
	struct tool_options options;
	struct tool_names names;
	struct evict_bpf *skel;
	struct {
		struct evict_key key;
		struct evict_sum sum;
	} at[EVICT_MAX];
	unsigned n;
};

static const struct argp_child evict_children[] = { { &tool_argp, 0, NULL, 0 }, { 0 } };

static error_t evict_option(int key, char *arg, struct argp_state *state)
{
	struct evict *e = state->input;

	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = &e->options;
	return 0;
}

static const struct argp evict_argp = {
	.parser = evict_option,
	.args_doc = "[INTERVAL [COUNT]]",
	.doc = "Who evicts whom: for each pair of tenants the objects and bytes that went, and a "
	       "histogram of the time since their last touch.\v"
	       "Without INTERVAL (seconds) it prints once, when it is told to end; counts go on "
	       "from interval to interval. --tenant: whose objects go.",
	.children = evict_children,
};

/* What is there, as a copy. */
static void evict_collect(struct evict *e)
{
	int fd = bpf_map__fd(e->skel->maps.sums);
	struct evict_key key, *last = NULL;

	e->n = 0;
	while (e->n < EVICT_MAX && bpf_map_get_next_key(fd, last, &e->at[e->n].key) == 0) {
		key = e->at[e->n].key;
		last = &key;
		if (bpf_map_lookup_elem(fd, &key, &e->at[e->n].sum) == 0)
			e->n++;
	}
}

static int evict_order(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct evict_key));
}

static const char *evict_for(struct evict *e, const struct evict_key *k, char text[TOOL_NAME])
{
	if (k->reason == LARDER_EVICT_EXPIRED)
		return "its time ran out";
	if (k->for_tenant == LARDER_PROBE_NOBODY)
		return "room ahead of need";
	return tool_tenant(&e->names, k->for_tenant, text);
}

static void evict_print_text(struct evict *e)
{
	char whose[TOOL_NAME], whom[TOOL_NAME];

	for (unsigned i = 0; i < e->n; i++) {
		const struct evict_key *k = &e->at[i].key;
		const struct evict_sum *s = &e->at[i].sum;

		printf("\nof %s, for %s: %llu objects, %llu bytes; since their last touch\n",
		       tool_tenant(&e->names, k->tenant, whose), evict_for(e, k, whom), s->objects,
		       s->bytes);
		tool_print_log2(s->age_ms, EVICT_SLOTS, "ms");
	}
	printf("\n%llu page allocations failed (%llu pages)%s\n",
	       (unsigned long long)e->skel->bss->alloc_failures,
	       (unsigned long long)e->skel->bss->alloc_failed_pages,
	       e->n ? "" : "; nothing was evicted");
	if (e->skel->bss->lost)
		printf("%llu evictions had no place\n", (unsigned long long)e->skel->bss->lost);
}

static void evict_print_json(struct evict *e)
{
	json_t *all = json_array();
	char text[TOOL_NAME];

	for (unsigned i = 0; i < e->n; i++) {
		const struct evict_key *k = &e->at[i].key;
		const struct evict_sum *s = &e->at[i].sum;
		json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:o}", "tenant",
				      tool_tenant(&e->names, k->tenant, text), "reason",
				      k->reason == LARDER_EVICT_ROOM ? "room" : "expired",
				      "objects", (json_int_t)s->objects, "bytes",
				      (json_int_t)s->bytes, "log2_age_ms",
				      tool_json_log2(s->age_ms, EVICT_SLOTS));

		if (k->for_tenant != LARDER_PROBE_NOBODY)
			(void)json_object_set_new(o, "for", json_string(
				tool_tenant(&e->names, k->for_tenant, text)));
		(void)json_array_append_new(all, o);
	}
	tool_print_json(json_pack("{s:o, s:I, s:I, s:I}", "evictions", all,
				  "page_alloc_failures",
				  (json_int_t)e->skel->bss->alloc_failures,
				  "page_alloc_failed_pages",
				  (json_int_t)e->skel->bss->alloc_failed_pages,
				  "lost", (json_int_t)e->skel->bss->lost));
}

static void evict_run(struct evict *e)
{
	const struct tool_options *o = &e->options;
	bool end = false;

	for (unsigned i = 0; !end && (o->count == 0 || i < o->count); i++) {
		do {
			end = tool_wait(o->interval_s ? o->interval_s * 1000 : 60000);
		} while (!end && o->interval_s == 0);
		evict_collect(e);
		qsort(e->at, e->n, sizeof(e->at[0]), evict_order);
		tool_names_read(o, &e->names);
		if (o->json)
			evict_print_json(e);
		else
			evict_print_text(e);
	}
}

int main(int argc, char **argv)
{
	static struct evict e;
	struct tool tool = { 0 };
	int slot, r;

	tool_parse(&e.options, "larder-evict", &evict_argp, argc, argv, &e);
	tool_names_read(&e.options, &e.names);
	slot = tool_tenant_slot(&e.options, &e.names);
	if (slot < 0)
		return 2;
	tool_signals();
	e.skel = evict_bpf__open();
	if (!e.skel) {
		tool_say_error(&e.options, "the program can not be opened", -errno);
		return 5;
	}
	if (slot < (int)TOOL_TENANTS)
		e.skel->rodata->wanted_tenant = (unsigned)slot;
	r = evict_bpf__load(e.skel);
	if (r < 0)
		tool_say_error(&e.options, "the program can not be loaded", r);
	else
		r = tool_attach(&tool, &e.options, e.skel->obj);
	if (r == 0) {
		tool_ready(&tool);
		evict_run(&e);
	}
	tool_detach(&tool);
	evict_bpf__destroy(e.skel);
	return r < 0 ? 5 : 0;
}
