/* SPDX-License-Identifier: Apache-2.0 */
/* tenant: who is in the node's memory, and throwing away what one left behind. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "control_protocol.h"
#include "ctl/confirm.h"
#include "ctl/control.h"
#include "ctl/output.h"
#include "ctl/progress.h"

#define PURGE_POLL_MS 100

static uint64_t tenant_number(const json_t *o, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(o, name));
}

static int tenant_ls(struct ctl *ctl)
{
	static const struct table_column columns[] = {
		{ "TENANT", false }, { "CONFIGURED", false }, { "OBJECTS", true },
		{ "VALUES", true }, { "RESIDENT", true },
	};
	json_t *result, *tenant;
	struct table *t;
	size_t i;
	int r = control_ask(ctl, "tenant ls", LARDER_CONTROL_TENANTS, &result, NULL);

	if (r)
		return r;
	if (ctl->json)
		return output_json(result);
	t = table_new(columns, ARRAY_SIZE(columns));
	json_array_foreach(json_object_get(result, "tenants"), i, tenant) {
		const char *name = json_string_value(json_object_get(tenant, "name"));
		bool configured = json_is_true(json_object_get(tenant, "configured"));
		char text[UTIL_TEXT];

		table_row(t);
		table_cell(t, 0, "%s", name ? name : "?");
		table_cell(t, 1, "%s", configured ? "yes" : "no: left over");
		table_cell(t, 2, "%" PRIu64, tenant_number(tenant, "objects"));
		table_cell(t, 3, "%s", util_format_bytes(tenant_number(tenant, "value_bytes"),
							 text));
		table_cell(t, 4, "%s", util_format_bytes(tenant_number(tenant, "resident_bytes"),
							 text));
	}
	json_decref(result);
	return table_print(t);
}

/* What @name holds; refused when it is configured. The exit code; a fault was told. */
static int tenant_left(struct ctl *ctl, const char *name, uint64_t *objects, uint64_t *bytes)
{
	json_t *result, *tenant;
	size_t i;
	int r = control_ask(ctl, "tenant purge", LARDER_CONTROL_TENANTS, &result, NULL);
	bool found = false, configured = false;

	if (r)
		return r;
	json_array_foreach(json_object_get(result, "tenants"), i, tenant) {
		const char *one = json_string_value(json_object_get(tenant, "name"));

		if (!one || strcmp(one, name))
			continue;
		found = true;
		configured = json_is_true(json_object_get(tenant, "configured"));
		*objects = tenant_number(tenant, "objects");
		*bytes = tenant_number(tenant, "value_bytes");
	}
	json_decref(result);
	if (!found)
		return ctl_fail(CTL_NOT_FOUND, "tenant purge %s: no such tenant (NOT_FOUND)",
				name);
	if (configured)
		return ctl_fail(CTL_REFUSED, "tenant purge %s: it is configured: take its file "
				"away and reload first (BUSY)", name);
	return CTL_DONE;
}

/* Asks until it is done. */
static int tenant_purge_run(struct ctl *ctl, const char *name, uint64_t *objects,
			    uint64_t *bytes)
{
	const struct timespec pause = { 0, PURGE_POLL_MS * (long)NSEC_PER_MSEC };
	struct progress p;
	uint64_t total = *objects;
	int r;

	progress_begin(&p, "tenant purge", total);
	for (;;) {
		json_t *result, *request = json_object();
		bool done;

		json_set_text(request, "cmd", LARDER_CONTROL_PURGE);
		json_set_text(request, "tenant", name);
		r = control_request(ctl, "tenant purge", request, &result, NULL);
		if (r)
			break;
		done = json_is_true(json_object_get(result, "done"));
		*objects = tenant_number(result, "objects");
		*bytes = tenant_number(result, "bytes");
		json_decref(result);
		if (done)
			break;
		progress_step(&p, *objects);
		(void)nanosleep(&pause, NULL);	/* an early end only asks sooner */
	}
	progress_end(&p);
	return r;
}

static int tenant_purge(struct ctl *ctl, const char *name, bool yes)
{
	uint64_t objects = 0, bytes = 0;
	char what[128], text[UTIL_TEXT];
	json_t *doc;
	int r = tenant_left(ctl, name, &objects, &bytes);

	if (r)
		return r;
	(void)snprintf(what, sizeof(what), "tenant purge %s", name);
	r = ctl_confirm(what, objects, bytes, yes);
	if (!r)
		r = tenant_purge_run(ctl, name, &objects, &bytes);
	if (r)
		return r;
	if (!ctl->json) {
		printf("%s: %" PRIu64 " objects, %s thrown away\n", name, objects,
		       util_format_bytes(bytes, text));
		return output_end();
	}
	doc = json_object();
	json_set_text(doc, "tenant", name);
	json_set_u64(doc, "objects", objects);
	json_set_u64(doc, "bytes", bytes);
	return output_json(doc);
}

int cmd_tenant(struct ctl *ctl, int argc, char **argv)
{
	static const char *const verbs[] = { "ls", "purge", NULL };
	static const struct option own[] = { { "yes", no_argument, NULL, 'y' }, { 0 } };
	bool yes = false;
	int c, verb = 0;

	while ((c = ctl_getopt(ctl, argc, argv, "y", own)) != -1) {
		if (c == '?')
			return CTL_USAGE;
		yes = true;
	}
	if (ctl->help)
		return ctl_help(ctl_command_find("tenant"));
	if (optind < argc && ctl_take_word("tenant", argv[optind++], verbs, &verb))
		return CTL_USAGE;
	if (verb == 0)
		return optind == argc && !yes ? tenant_ls(ctl)
					      : ctl_usage("tenant", "ls takes no argument");
	if (argc - optind != 1)
		return ctl_usage("tenant", "purge: wanted one NAME");
	return tenant_purge(ctl, argv[optind], yes);
}
