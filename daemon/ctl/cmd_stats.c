/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats: the node's figures and each tenant's, through the control socket.
 *
 * They are printed as they come, group by group: a figure that a newer daemon adds shows without a
 * change here. What a name ends with says how its number is written for a person.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control_protocol.h"
#include "ctl/control.h"
#include "ctl/output.h"
#include "ctl/stats.h"

#define STATS_COLUMNS 11u	/* of figures, beside the name, in one table */

const char *stats_warning_text(const char *warning)
{
	if (!strcmp(warning, "puts_never_hit"))
		return "it stored a thousand objects or more since it last found one: do its "
		       "engines make the same keys of the same tokens (seed of the hash, model, "
		       "block size, namespace)?";
	return "see larderctl(1)";
}

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

/* Rows of tenants, with @names as columns. */
static int stats_tenants_part(json_t *tenants, const char *const *names, size_t n)
{
	struct table_column columns[STATS_COLUMNS + 1] = { { "TENANT", false } };
	const char *name;
	json_t *tenant;
	struct table *t;

	for (size_t i = 0; i < n; i++)
		columns[i + 1] = (struct table_column){ names[i], true };
	t = table_new(columns, n + 1);
	json_object_foreach(tenants, name, tenant) {
		table_row(t);
		table_cell(t, 0, "%s", name);
		for (size_t i = 0; i < n; i++)
			stats_cell(t, i + 1, names[i], json_object_get(tenant, names[i]));
	}
	return table_print(t);
}

/* One row a tenant; the columns are the figures of the first, some to a table. */
static int stats_tenants(json_t *tenants)
{
	json_t *first = json_object_iter_value(json_object_iter(tenants)), *value;
	const char *names[STATS_COLUMNS], *member;
	size_t n = 0;
	bool begun = false;
	int r = CTL_DONE;

	json_object_foreach(first, member, value) {
		if (!json_is_integer(value))
			continue;
		names[n++] = member;
		if (n < STATS_COLUMNS)
			continue;
		if (begun)
			putchar('\n');
		r = r ? r : stats_tenants_part(tenants, names, n);
		begun = true;
		n = 0;
	}
	if (begun && n)
		putchar('\n');
	return n && !r ? stats_tenants_part(tenants, names, n) : r;
}

/* What limits refused, where they did. */
static int stats_refused(json_t *tenants)
{
	static const struct table_column columns[] = {
		{ "TENANT", false }, { "LIMIT", false }, { "REFUSED", true },
	};
	struct table *t = NULL;
	const char *name, *limit;
	json_t *tenant, *value;

	json_object_foreach(tenants, name, tenant) {
		json_object_foreach(json_object_get(tenant, "refused_by"), limit, value) {
			if (!t) {
				putchar('\n');
				t = table_new(columns, ARRAY_SIZE(columns));
			}
			table_row(t);
			table_cell(t, 0, "%s", name);
			table_cell(t, 1, "%s", limit);
			table_cell(t, 2, "%" PRIu64, (uint64_t)json_integer_value(value));
		}
	}
	return t ? table_print(t) : CTL_DONE;
}

static void stats_warnings(json_t *tenants)
{
	const char *name, *warning;
	json_t *tenant;

	json_object_foreach(tenants, name, tenant) {
		warning = json_string_value(json_object_get(tenant, "warning"));
		if (warning)
			printf("\nwarning: tenant %s: %s: %s\n", name, warning,
			       stats_warning_text(warning));
	}
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
		if (strcmp(name, "tenants")) {
			r = stats_group(title, group);
			continue;
		}
		r = stats_tenants(group);
		if (!r)
			r = stats_refused(group);
		stats_warnings(group);
	}
	return r;
}

int cmd_stats(struct ctl *ctl, int argc, char **argv)
{
	json_t *stats;
	int r;

	if (ctl_getopt(ctl, argc, argv, "", NULL) != -1)
		return CTL_USAGE;
	if (ctl->help)
		return ctl_help(ctl_command_find("stats"));
	if (optind < argc)
		return ctl_usage("stats", "takes no argument");
	r = control_ask(ctl, "stats", LARDER_CONTROL_STATS, &stats, NULL);
	if (r)
		return r;
	if (ctl->json)
		return output_json(stats);
	r = stats_tell(stats);
	json_decref(stats);
	return r;
}
