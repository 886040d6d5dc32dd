/* SPDX-License-Identifier: Apache-2.0 */
/* quota: the limits of a tenant, where each comes from, and how they are changed. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <larder/limits.h>

#include "control_protocol.h"
#include "ctl/control.h"
#include "ctl/output.h"

static int quota_limit(const char *name, int *ret)
{
	char names[512] = "";

	*ret = larder_limit_find(name);
	if (*ret >= 0)
		return CTL_DONE;
	for (unsigned i = 0; i < LARDER_LIMITS; i++) {
		size_t n = strlen(names);

		(void)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
			       larder_limit_name(i));
	}
	return ctl_usage("quota", "no such limit: %s: there are %s", name, names);
}

static void quota_cell(struct table *t, size_t column, unsigned limit, const json_t *value)
{
	char text[LARDER_LIMIT_TEXT];

	if (json_is_integer(value))
		table_cell(t, column, "%s",
			   larder_limit_format(limit, (uint64_t)json_integer_value(value), text));
	else
		table_cell(t, column, "-");
}

/*
 * The line that sets @limit to @value without this program, where the node counts in BPF maps: an
 * element of eight bytes, in the machine's order.
 */
static void quota_line(const json_t *map, unsigned limit, uint64_t value, char *text, size_t size)
{
	uint32_t index = (uint32_t)json_integer_value(json_object_get(map, "slot")) *
			 LARDER_LIMITS_MAX + limit;
	uint8_t bytes[sizeof(index) + sizeof(value)];
	size_t n;

	memcpy(bytes, &index, sizeof(index));
	memcpy(bytes + sizeof(index), &value, sizeof(value));
	(void)snprintf(text, size, "bpftool map update pinned %s key",
		       json_string_value(json_object_get(map, "pin")));
	for (size_t i = 0; i < sizeof(bytes); i++) {
		n = strlen(text);
		(void)snprintf(text + n, size - n, "%s %u", i == sizeof(index) ? " value" : "",
			       bytes[i]);
	}
}

/* Of a table with one limit: how it is set by other means. */
static void quota_print_line(const json_t *map, unsigned limit, const json_t *limits)
{
	const json_t *one = json_object_get(limits, larder_limit_name(limit));
	char line[PATH_MAX];

	if (!map)
		return;
	quota_line(map, limit, (uint64_t)json_integer_value(json_object_get(one, "effective")),
		   line, sizeof(line));
	printf("\nas root, until the node ends: %s\n", line);
}

/* @wanted: bits by limit. Takes @limits over. */
static int quota_print(struct ctl *ctl, const char *tenant, json_t *limits, uint32_t wanted)
{
	static const struct table_column columns[] = {
		{ "LIMIT", false }, { "EFFECTIVE", true }, { "FILE", true }, { "SAVED", true },
		{ "RUNTIME", true },
	};
	static const char *const members[] = { "", "effective", "file", "saved", "runtime" };
	struct table *t = ctl->json ? NULL : table_new(columns, ARRAY_SIZE(columns));
	json_t *doc, *some = json_object(), *map = json_object_get(limits, "_map");
	int r;

	for (unsigned i = 0; i < LARDER_LIMITS; i++) {
		json_t *one = json_object_get(limits, larder_limit_name(i));

		/* a daemon of another version may have fewer */
		if (!(wanted & 1u << i) || !one)
			continue;
		if (ctl->json) {
			json_set(some, larder_limit_name(i), json_incref(one));
			continue;
		}
		table_row(t);
		table_cell(t, 0, "%s", larder_limit_name(i));
		for (size_t c = 1; c < ARRAY_SIZE(columns); c++)
			quota_cell(t, c, i, json_object_get(one, members[c]));
	}
	if (!ctl->json) {
		json_decref(some);
		r = table_print(t);
		if (!r && !(wanted & (wanted - 1)))
			quota_print_line(map, (unsigned)__builtin_ctz(wanted), limits);
		json_decref(limits);
		return r;
	}
	doc = json_object();
	json_set_text(doc, "tenant", tenant);
	json_set(doc, "limits", some);
	if (map)
		json_set(doc, "map", json_incref(map));
	json_decref(limits);
	return output_json(doc);
}

static int quota_show(struct ctl *ctl, const char *tenant, uint32_t wanted)
{
	json_t *limits, *request = json_object();
	int r;

	json_set_text(request, "cmd", LARDER_CONTROL_QUOTA);
	json_set_text(request, "tenant", tenant);
	r = control_request(ctl, "quota show", request, &limits, NULL);
	return r ? r : quota_print(ctl, tenant, limits, wanted);
}

/* "LIMIT=VALUE" into @limits, its bit into *@named. */
static int quota_assignment(const char *text, json_t *limits, uint32_t *named)
{
	const char *value = strchr(text, '=');
	char name[64];
	uint64_t v;
	int limit;

	if (!value || (size_t)(value - text) >= sizeof(name))
		return ctl_usage("quota", "%s: wanted LIMIT=VALUE", text);
	memcpy(name, text, (size_t)(value - text));
	name[value - text] = '\0';
	value++;
	if (quota_limit(name, &limit))
		return CTL_USAGE;
	if (*named & 1u << limit)
		return ctl_usage("quota", "%s is set twice", name);
	*named |= 1u << limit;
	if (!strcmp(value, "default")) {
		json_set(limits, name, json_null());
		return CTL_DONE;
	}
	if (larder_limit_parse((unsigned)limit, value, &v))
		return ctl_usage("quota", "%s: \"%s\" is not %s, or default", name, value,
				 larder_limit_allowed((unsigned)limit));
	json_set_u64(limits, name, v);
	return CTL_DONE;
}

static int quota_set(struct ctl *ctl, const char *tenant, int n, char **assignments, bool runtime)
{
	json_t *request = json_object(), *limits = json_object(), *result;
	uint32_t named = 0;
	int r = CTL_DONE;

	json_set_text(request, "cmd", LARDER_CONTROL_QUOTA_SET);
	json_set_text(request, "tenant", tenant);
	json_set(request, "runtime", json_boolean(runtime));
	for (int i = 0; i < n && !r; i++)
		r = quota_assignment(assignments[i], limits, &named);
	json_set(request, "limits", limits);
	if (r) {
		json_decref(request);
		return r;
	}
	r = control_request(ctl, "quota set", request, &result, NULL);
	if (r)
		return r;
	json_decref(result);
	/* what it came to: a run-time value may hide a saved one */
	return quota_show(ctl, tenant, named);
}

/* Prints what to type for @assignments; sets nothing. */
static int quota_lines(struct ctl *ctl, const char *tenant, int n, char **assignments)
{
	json_t *request = json_object(), *wanted = json_object(), *limits, *map, *value;
	const char *name;
	uint32_t named = 0;
	int r = CTL_DONE;

	for (int i = 0; i < n && !r; i++)
		r = quota_assignment(assignments[i], wanted, &named);
	json_set_text(request, "cmd", LARDER_CONTROL_QUOTA);
	json_set_text(request, "tenant", tenant);
	if (r)
		json_decref(request);
	else
		r = control_request(ctl, "quota line", request, &limits, NULL);
	if (r) {
		json_decref(wanted);
		return r;
	}
	map = json_object_get(limits, "_map");
	if (!map)
		r = ctl_fail(CTL_FAILED, "quota line: the node does not count in BPF maps: see "
			     "larder-bpf(8), or use quota set");
	json_object_foreach(wanted, name, value) {
		char line[PATH_MAX];

		if (r)
			break;
		if (json_is_null(value)) {
			r = ctl_usage("quota", "line: default is no value of the map");
			break;
		}
		quota_line(map, (unsigned)larder_limit_find(name),
			   (uint64_t)json_integer_value(value), line, sizeof(line));
		puts(line);
	}
	json_decref(limits);
	json_decref(wanted);
	return r;
}

int cmd_quota(struct ctl *ctl, int argc, char **argv)
{
	static const char *const verbs[] = { "show", "set", "line", NULL };
	static const struct option own[] = { { "runtime", no_argument, NULL, 256 }, { 0 } };
	uint32_t wanted = UINT32_MAX;
	bool runtime = false;
	int c, verb = 0, limit;
	const char *tenant;

	while ((c = ctl_getopt(ctl, argc, argv, "", own)) != -1) {
		if (c == '?')
			return CTL_USAGE;
		runtime = true;
	}
	if (ctl->help)
		return ctl_help(ctl_command_find("quota"));
	if (optind == argc)
		return ctl_usage("quota", "wanted show, set or line");
	if (ctl_take_word("quota", argv[optind++], verbs, &verb))
		return CTL_USAGE;
	if (optind == argc)
		return ctl_usage("quota", "%s: wanted a TENANT", verbs[verb]);
	tenant = argv[optind++];
	if (verb == 1) {
		if (optind == argc)
			return ctl_usage("quota", "set: wanted LIMIT=VALUE...");
		return quota_set(ctl, tenant, argc - optind, argv + optind, runtime);
	}
	if (verb == 2) {
		if (runtime || optind == argc)
			return ctl_usage("quota", "line: wanted LIMIT=VALUE...");
		return quota_lines(ctl, tenant, argc - optind, argv + optind);
	}
	if (runtime || argc - optind > 1)
		return ctl_usage("quota", "show: wanted TENANT [LIMIT]");
	if (optind < argc) {
		if (quota_limit(argv[optind], &limit))
			return CTL_USAGE;
		wanted = 1u << limit;
	}
	return quota_show(ctl, tenant, wanted);
}
