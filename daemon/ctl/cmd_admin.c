/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats, drain, undrain, reload: through the control socket.
 *
 * The node's figures are printed as they come, group by group: a figure that a newer daemon adds
 * shows without a change here. What a name ends with says how its number is written for a person.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "control_protocol.h"
#include "ctl/control.h"
#include "ctl/output.h"
#include "ctl/progress.h"

#define DRAIN_POLL_MS 100
#define DRAIN_WAIT_MS 30000u

static bool stats_ends(const char *name, const char *suffix)
{
	size_t a = strlen(name), b = strlen(suffix);

	return a >= b && !strcmp(name + a - b, suffix);
}

static void stats_cell(struct table *t, size_t column, const char *name, const json_t *value)
{
	char text[UTIL_TEXT];
	uint64_t v;

	if (json_is_boolean(value)) {
		table_cell(t, column, "%s", json_is_true(value) ? "yes" : "no");
		return;
	}
	if (json_is_string(value)) {
		table_cell(t, column, "%s", json_string_value(value));
		return;
	}
	v = (uint64_t)json_integer_value(value);
	if (strstr(name, "bytes"))
		table_cell(t, column, "%s", util_format_bytes(v, text));
	else if (stats_ends(name, "_ms"))
		table_cell(t, column, "%s", util_format_ns(v * NSEC_PER_MSEC, text));
	else
		table_cell(t, column, "%" PRIu64, v);
}

/* A table of the members of @group that are no groups themselves. */
static int stats_group(const char *title, json_t *group)
{
	const struct table_column columns[] = { { title, false }, { "", true } };
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	const char *name;
	json_t *value;

	json_object_foreach(group, name, value) {
		if (json_is_object(value) || json_is_array(value))
			continue;
		table_row(t);
		/* the cell says its unit */
		table_cell(t, 0, "%.*s", (int)(strlen(name) - (stats_ends(name, "_ms") ? 3 : 0)),
			   name);
		stats_cell(t, 1, name, value);
	}
	return table_print(t);
}

/* One row a tenant; the columns are the members of the first. */
static int stats_tenants(json_t *tenants)
{
	struct table_column columns[16] = { { "TENANT", false } };
	json_t *first = json_object_iter_value(json_object_iter(tenants)), *tenant, *value;
	const char *name, *member;
	size_t n = 1;
	struct table *t;

	json_object_foreach(first, member, value)
		if (n < ARRAY_SIZE(columns))
			columns[n++] = (struct table_column){ member, true };
	t = table_new(columns, n);
	json_object_foreach(tenants, name, tenant) {
		table_row(t);
		table_cell(t, 0, "%s", name);
		for (size_t i = 1; i < n; i++)
			stats_cell(t, i, columns[i].name,
				   json_object_get(tenant, columns[i].name));
	}
	return table_print(t);
}

static int stats_tell(json_t *stats)
{
	const char *name;
	json_t *group;
	int r = stats_group("NODE", stats);

	json_object_foreach(stats, name, group) {
		char title[UTIL_TEXT];
		size_t i;

		if (r || !json_is_object(group) || !json_object_size(group))
			continue;
		for (i = 0; name[i] && i < sizeof(title) - 1; i++)
			title[i] = name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i];
		title[i] = '\0';
		putchar('\n');
		r = strcmp(name, "tenants") ? stats_group(title, group) : stats_tenants(group);
	}
	return r;
}

/* Admin commands without options of their own. */
static int admin_plain(struct ctl *ctl, int argc, char **argv)
{
	if (ctl_getopt(ctl, argc, argv, "", NULL) != -1)
		return CTL_USAGE;
	if (!ctl->help && optind < argc)
		return ctl_usage(argv[0], "takes no argument");
	return CTL_DONE;
}

int cmd_stats(struct ctl *ctl, int argc, char **argv)
{
	json_t *stats;
	int r = admin_plain(ctl, argc, argv);

	if (r || ctl->help)
		return r ? r : ctl_help(ctl_command_find("stats"));
	r = control_ask(ctl, "stats", LARDER_CONTROL_STATS, &stats, NULL);
	if (r)
		return r;
	if (ctl->json)
		return output_json(stats);
	r = stats_tell(stats);
	json_decref(stats);
	return r;
}

static int admin_do(struct ctl *ctl, const char *what, const char *cmd, const char *sentence)
{
	json_t *result;
	int r = control_ask(ctl, what, cmd, &result, NULL);

	if (r)
		return r;
	if (ctl->json)
		return output_json(result);
	json_decref(result);
	puts(sentence);
	return output_end();
}

/* 0 = drained, else the exit code. */
static int drain_wait(struct ctl *ctl)
{
	uint32_t ms = ctl->deadline_ms ? ctl->deadline_ms : DRAIN_WAIT_MS;
	uint64_t end = util_now_ns() + ms * NSEC_PER_MSEC;
	const struct timespec pause = { 0, DRAIN_POLL_MS * (long)NSEC_PER_MSEC };

	for (;;) {
		bool drained;
		json_t *stats;
		int r = control_ask(ctl, "drain", LARDER_CONTROL_STATS, &stats, NULL);

		if (r)
			return r;
		drained = json_is_true(json_object_get(stats, "drained"));
		json_decref(stats);
		if (drained)
			return CTL_DONE;
		if (util_now_ns() >= end)
			return ctl_fail(CTL_FAILED, "drain: not finished in time (DEADLINE)");
		(void)nanosleep(&pause, NULL);	/* an early end only asks sooner */
	}
}

int cmd_drain(struct ctl *ctl, int argc, char **argv)
{
	static const struct option own[] = {
		{ "undo", no_argument, NULL, 256 }, { "wait", no_argument, NULL, 257 }, { 0 },
	};
	bool undo = false, wait = false;
	struct progress_watch watch;
	int c, r;

	while ((c = ctl_getopt(ctl, argc, argv, "", own)) != -1) {
		if (c == '?')
			return CTL_USAGE;
		undo |= c == 256;
		wait |= c == 257;
	}
	if (ctl->help)
		return ctl_help(ctl_command_find("drain"));
	if (optind < argc)
		return ctl_usage("drain", "takes no argument");
	if (undo && wait)
		return ctl_usage("drain", "--undo and --wait exclude each other");
	if (undo)
		return admin_do(ctl, "drain --undo", LARDER_CONTROL_UNDRAIN, "serving again");
	if (wait) {
		json_t *result;

		r = control_ask(ctl, "drain", LARDER_CONTROL_DRAIN, &result, NULL);
		if (r)
			return r;
		json_decref(result);
		progress_watch_begin(&watch, "drain");
		r = drain_wait(ctl);
		progress_watch_end(&watch);
		if (r)
			return r;
	}
	return admin_do(ctl, "drain", LARDER_CONTROL_DRAIN, wait ? "drained" : "draining");
}

int cmd_undrain(struct ctl *ctl, int argc, char **argv)
{
	int r = admin_plain(ctl, argc, argv);

	if (r || ctl->help)
		return r ? r : ctl_help(ctl_command_find("undrain"));
	return admin_do(ctl, "undrain", LARDER_CONTROL_UNDRAIN, "serving again");
}

int cmd_reload(struct ctl *ctl, int argc, char **argv)
{
	int r = admin_plain(ctl, argc, argv);

	if (r || ctl->help)
		return r ? r : ctl_help(ctl_command_find("reload"));
	return admin_do(ctl, "reload", LARDER_CONTROL_RELOAD, "reloaded");
}
