/* SPDX-License-Identifier: Apache-2.0 */
/* quota: the limits of a tenant, where each comes from, and how they are changed. */
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

/* @wanted: bits by limit. Takes @limits over. */
static int quota_print(struct ctl *ctl, const char *tenant, json_t *limits, uint32_t wanted)
{
	static const struct table_column columns[] = {
		{ "LIMIT", false }, { "EFFECTIVE", true }, { "FILE", true }, { "SAVED", true },
		{ "RUNTIME", true },
	};
	static const char *const members[] = { "", "effective", "file", "saved", "runtime" };
	struct table *t = ctl->json ? NULL : table_new(columns, ARRAY_SIZE(columns));
	json_t *doc, *some = json_object();

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
	json_decref(limits);
	if (!ctl->json) {
		json_decref(some);
		return table_print(t);
	}
	doc = json_object();
	json_set_text(doc, "tenant", tenant);
	json_set(doc, "limits", some);
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

int cmd_quota(struct ctl *ctl, int argc, char **argv)
{
	static const char *const verbs[] = { "show", "set", NULL };
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
		return ctl_usage("quota", "wanted show or set");
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
	if (runtime || argc - optind > 1)
		return ctl_usage("quota", "show: wanted TENANT [LIMIT]");
	if (optind < argc) {
		if (quota_limit(argv[optind], &limit))
			return CTL_USAGE;
		wanted = 1u << limit;
	}
	return quota_show(ctl, tenant, wanted);
}
