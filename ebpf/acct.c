/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder-acct: accounting by probe. What the ledger counts, counted a second time by a program in
 * the kernel, for those who trust one count only when another agrees. Counters begin when it does.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include <larder/ledger.h>
#include <larder/limits.h>
#include <larder/status.h>

#include "acct.h"
#include "acct.skel.h"
#include "tool.h"

_Static_assert(ACCT_TENANTS == LARDER_LEDGER_TENANTS && ACCT_TENANTS == TOOL_TENANTS, "layout");
_Static_assert(ACCT_OPS == LARDER_OP_MAX && ACCT_CAUSES == LARDER_CAUSES, "layout");
_Static_assert(ACCT_LIMITS == LARDER_LEDGER_LIMITS, "layout");
_Static_assert(ACCT_VIEW == LARDER_LEDGER_VIEW_TENANT, "layout");
_Static_assert(ACCT_BUCKETS == LARDER_LATENCY_BUCKETS, "layout");
_Static_assert(ACCT_LATENCY_OPS == LARDER_LATENCY_OPS, "layout");
_Static_assert(LARDER_OP_PUT == 0x20 && LARDER_OP_GET == 0x28 && LARDER_OP_EXISTS == 0x29, "wire");
_Static_assert(LARDER_CAUSE_CLIENT_READ == 0 && LARDER_CAUSE_CLIENT_WRITE == 1 &&
	       LARDER_CAUSE_VIEW == 2, "layout");
_Static_assert(LARDER_OK == 0 && LARDER_TOO_SMALL == 10, "wire");
_Static_assert(LARDER_LATENCY_GET == 0 && LARDER_LATENCY_PUT == 1 && LARDER_LATENCY_EXISTS == 2,
	       "layout");

#define ACCT_MAPS 2u	/* those that count; libbpf has its own beside them */

struct acct {
	struct tool_options options;
	const char *pin;
	int folder;		/* of the pins, locked; -1: none */
	bool made_folder;
	struct tool_names names;
	struct acct_bpf *skel;
	int only;		/* slot, or TOOL_TENANTS */
};

static const struct argp_child acct_children[] = { { &tool_argp, 0, NULL, 0 }, { 0 } };
static const struct argp_option acct_options[] = {
	{ "pin", 'P', "DIR", 0, "on a bpffs: keep the maps there, for bpftool, while it runs", 0 },
	{ 0 },
};

static error_t acct_option(int key, char *arg, struct argp_state *state)
{
	struct acct *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->options;
		return 0;
	case 'P':
		a->pin = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp acct_argp = {
	.options = acct_options,
	.parser = acct_option,
	.args_doc = "[INTERVAL [COUNT]]",
	.doc = "Counts operations, bytes, rejections by reason and service times of each tenant by "
	       "the probes of larderd, in maps of its own. On a node that is quiet they equal the "
	       "ledger's growth since it began, to the last one.\v"
	       "Costs about a microsecond an operation while it runs. Without INTERVAL (seconds) "
	       "it prints once, when it is told to end; counters are never reset.",
	.children = acct_children,
};

/* --- pins: maps only, gone with us ----------------------------------------------------------- */

/* The folder, locked: no other larder-acct has it. A descriptor, or -errno after a line. */
static int acct_take_folder(struct acct *a)
{
	struct statfs fs;
	int fd, r;

	a->made_folder = mkdir(a->pin, 0750) == 0;
	if (!a->made_folder && errno != EEXIST) {
		r = -errno;
		tool_say(&a->options, "%s: can not be made: %s", a->pin, strerror(-r));
		return r;
	}
	fd = open(a->pin, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstatfs(fd, &fs) < 0) {
		r = -errno;
		tool_say(&a->options, "%s: %s", a->pin, strerror(-r));
	} else if (fs.f_type != BPF_FS_MAGIC) {
		r = -EINVAL;
		tool_say(&a->options, "%s: not on a BPF file system: name a folder of one, such as "
			 "/run/larder/bpf/acct, or mount one (mount -t bpf)", a->pin);
	} else if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		r = -errno;
		tool_say(&a->options, "%s: another larder-acct keeps its maps there: name another "
			 "folder", a->pin);
	} else {
		return fd;
	}
	if (fd >= 0)
		(void)close(fd);	/* only looked at */
	if (a->made_folder)
		(void)rmdir(a->pin);	/* nothing is in it */
	return r;
}

static struct bpf_map *acct_map(const struct acct *a, unsigned i)
{
	return i ? a->skel->maps.acct_latency : a->skel->maps.acct_usage;
}

/* Also over what one left that was killed: nobody counts in those. */
static int acct_pin_one(struct acct *a, struct bpf_map *map)
{
	char path[4200];
	int r;

	(void)snprintf(path, sizeof(path), "%s/%s", a->pin, bpf_map__name(map));
	if (unlink(path) == 0)
		tool_say(&a->options, "%s: left by one that was killed: replaced", path);
	r = bpf_map__pin(map, path);
	if (r < 0)
		tool_say(&a->options, "%s: can not be pinned: %s", path, strerror(-r));
	return r;
}

static void acct_unpin(struct acct *a)
{
	for (unsigned i = 0; i < ACCT_MAPS; i++) {
		int r = bpf_map__is_pinned(acct_map(a, i)) ? bpf_map__unpin(acct_map(a, i), NULL) :
							     0;

		if (r < 0)
			tool_say(&a->options, "%s: a pin stays: %s", a->pin, strerror(-r));
	}
	if (a->made_folder)
		(void)rmdir(a->pin);	/* it stays when it is not ours alone */
	(void)close(a->folder);		/* and with it the lock */
}

static int acct_pin(struct acct *a)
{
	int r = 0;

	if (!a->pin)
		return 0;
	a->folder = acct_take_folder(a);
	if (a->folder < 0)
		return a->folder;
	for (unsigned i = 0; i < ACCT_MAPS && r == 0; i++)
		r = acct_pin_one(a, acct_map(a, i));
	return r;
}

/* --- printing -------------------------------------------------------------------------------- */

static bool acct_read(struct acct *a, uint32_t slot, struct acct_usage *u)
{
	if (bpf_map_lookup_elem(bpf_map__fd(a->skel->maps.acct_usage), &slot, u) < 0)
		memset(u, 0, sizeof(*u));
	for (unsigned i = 0; i < ACCT_OPS; i++)
		if (u->ops[i])
			return true;
	for (unsigned i = 0; i < ACCT_LIMITS; i++)
		if (u->refused[i])
			return true;
	return u->lost || u->evicted_objects;
}

static json_t *acct_counts(const unsigned long long *counts, unsigned n,
			   const char *(*name)(unsigned))
{
	json_t *all = json_object();

	for (unsigned i = 0; i < n; i++)
		if (counts[i])
			(void)json_object_set_new(all, name(i),
						  json_integer((json_int_t)counts[i]));
	return all;
}

static const char *acct_status_name(unsigned status)
{
	return larder_status_name((int)status);
}

static json_t *acct_latency_json(struct acct *a, uint32_t slot, const struct acct_usage *u)
{
	static const char *const names[ACCT_LATENCY_OPS] = { "get", "put", "exists", "other" };
	json_t *all = json_object();

	for (uint32_t i = 0; i < ACCT_LATENCY_OPS; i++) {
		uint32_t at = slot * ACCT_LATENCY_OPS + i;
		struct acct_latency l = { 0 };
		json_t *buckets = json_array();

		if (bpf_map_lookup_elem(bpf_map__fd(a->skel->maps.acct_latency), &at, &l) < 0)
			memset(&l, 0, sizeof(l));
		for (unsigned b = 0; b < ACCT_BUCKETS; b++)
			(void)json_array_append_new(buckets,
						    json_integer((json_int_t)l.buckets[b]));
		(void)json_object_set_new(all, names[i],
					  json_pack("{s:I, s:o}", "sum_ns",
						    (json_int_t)u->sum_ns[i], "buckets", buckets));
	}
	return all;
}

static json_t *acct_tenant_json(struct acct *a, uint32_t slot, const struct acct_usage *u)
{
	return json_pack("{s:i, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
			 "slot", (int)slot,
			 "ops", acct_counts(u->ops, ACCT_OPS, tool_op_name),
			 "status", acct_counts(u->status, ACCT_STATUSES, acct_status_name),
			 "refused", acct_counts(u->refused, ACCT_LIMITS, larder_limit_name),
			 "bytes_in", (json_int_t)u->bytes[LARDER_CAUSE_CLIENT_WRITE],
			 "bytes_out", (json_int_t)u->bytes[LARDER_CAUSE_CLIENT_READ],
			 "bytes_view", (json_int_t)u->bytes[LARDER_CAUSE_VIEW],
			 "get_hits", (json_int_t)u->get_hits,
			 "lost", (json_int_t)u->lost,
			 "evicted_objects", (json_int_t)u->evicted_objects,
			 "evicted_bytes", (json_int_t)u->evicted_bytes,
			 "latency", acct_latency_json(a, slot, u));
}

static void acct_tenant_text(const char *name, const struct acct_usage *u)
{
	unsigned long long ops = 0;

	for (unsigned i = 0; i < ACCT_OPS; i++)
		ops += u->ops[i];
	printf("%-20s %12llu ops %16llu bytes in %16llu out %8llu lost\n", name, ops,
	       u->bytes[LARDER_CAUSE_CLIENT_WRITE],
	       u->bytes[LARDER_CAUSE_CLIENT_READ] + u->bytes[LARDER_CAUSE_VIEW], u->lost);
	for (unsigned i = 0; i < ACCT_OPS; i++)
		if (u->ops[i])
			printf("    %-16s %12llu\n", tool_op_name(i), u->ops[i]);
	for (unsigned i = 1; i < ACCT_STATUSES; i++)
		if (u->status[i])
			printf("    ended as %-16s %12llu\n", larder_status_name((int)i),
			       u->status[i]);
	for (unsigned i = 0; i < ACCT_LIMITS; i++)
		if (u->refused[i])
			printf("    refused by %-16s %12llu\n", larder_limit_name(i),
			       u->refused[i]);
}

static void acct_print(struct acct *a)
{
	json_t *all = json_object();
	char text[TOOL_NAME];

	tool_names_read(&a->options, &a->names);
	for (uint32_t slot = 0; slot < ACCT_TENANTS; slot++) {
		const char *name = tool_tenant(&a->names, slot, text);
		struct acct_usage u;

		if ((a->only < (int)TOOL_TENANTS && (int)slot != a->only) ||
		    !acct_read(a, slot, &u))
			continue;
		if (a->options.json)
			(void)json_object_set_new(all, name, acct_tenant_json(a, slot, &u));
		else
			acct_tenant_text(name, &u);
	}
	if (a->options.json)
		tool_print_json(json_pack("{s:O}", "tenants", all));
	else
		putchar('\n');
	json_decref(all);
}

static int acct_start(struct acct *a, struct tool *tool)
{
	int r = acct_bpf__load(a->skel);

	if (r < 0) {
		tool_say_error(&a->options, "the program can not be loaded", r);
		return r;
	}
	r = acct_pin(a);
	if (r < 0)
		return r;
	return tool_attach(tool, &a->options, a->skel->obj);
}

int main(int argc, char **argv)
{
	static struct acct a;
	struct tool tool = { 0 };
	bool end = false;
	int r;

	a.folder = -1;
	tool_parse(&a.options, "larder-acct", &acct_argp, argc, argv, &a);
	tool_names_read(&a.options, &a.names);
	a.only = tool_tenant_slot(&a.options, &a.names);
	if (a.only < 0)
		return 2;
	tool_signals();
	a.skel = acct_bpf__open();
	if (!a.skel) {
		tool_say_error(&a.options, "the program can not be opened", -errno);
		return 5;
	}
	r = acct_start(&a, &tool);
	if (r == 0)
		tool_ready(&tool);
	for (unsigned i = 0; r == 0 && !end && (!a.options.count || i < a.options.count); i++) {
		do {
			end = tool_wait(a.options.interval_s ? a.options.interval_s * 1000 : 60000);
		} while (!end && a.options.interval_s == 0);
		acct_print(&a);
	}
	tool_detach(&tool);
	if (a.folder >= 0)
		acct_unpin(&a);
	acct_bpf__destroy(a.skel);
	return r < 0 ? 5 : 0;
}
