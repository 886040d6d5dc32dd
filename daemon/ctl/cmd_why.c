/* SPDX-License-Identifier: Apache-2.0 */
/* why: what became of a key, as far as the node's record of evictions and refusals reaches. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <larder/status.h>

#include "control_protocol.h"
#include "ctl/control.h"
#include "ctl/output.h"
#include "ctl/session.h"

static const char *why_time(const json_t *why, const char *name, char text[UTIL_TEXT])
{
	uint64_t ms = (uint64_t)json_integer_value(json_object_get(why, name));

	return util_format_ns(ms * NSEC_PER_MSEC, text);
}

/* The line's middle: the fate itself. */
static void why_fate(const json_t *why, char *out, size_t size)
{
	const char *fate = json_string_value(json_object_get(why, "fate"));
	const char *room_for = json_string_value(json_object_get(why, "room_for"));
	const char *status = json_string_value(json_object_get(why, "status"));
	char ago[UTIL_TEXT], age[UTIL_TEXT];

	if (fate && !strcmp(fate, "present"))
		(void)snprintf(out, size, "it is there");
	else if (fate && !strcmp(fate, "evicted"))
		(void)snprintf(out, size, "evicted %s ago, not touched for %s then, %s%s",
			       why_time(why, "ago_ms", ago), why_time(why, "age_ms", age),
			       room_for ? "to make room for tenant " : "to keep room ahead of need",
			       room_for ? room_for : "");
	else if (fate && !strcmp(fate, "refused"))
		(void)snprintf(out, size, "refused %s ago: %s (%s)",
			       why_time(why, "ago_ms", ago),
			       status && control_status(status) >= 0 ?
				       larder_status_text(control_status(status)) : "?",
			       status ? status : "?");
	else
		(void)snprintf(out, size, "never seen (or deleted, expired, found bad, or gone "
			       "before the record begins)");
}

static int why_print(const char *key, const json_t *why)
{
	uint64_t entries = (uint64_t)json_integer_value(json_object_get(why, "record_entries"));
	char fate[512], back[UTIL_TEXT];

	why_fate(why, fate, sizeof(fate));
	if (entries)
		printf("%s: %s; the record goes back %s (%" PRIu64 " entries)\n", key, fate,
		       why_time(why, "record_ms", back), entries);
	else
		printf("%s: %s; the record is empty\n", key, fate);
	return output_end();
}

/* "tenant:namespace" names both; else the tenant is that of --tenant. */
static int why_place(const struct ctl *ctl, const char *spelled, char tenant[], const char **ret_ns)
{
	const char *colon = strchr(spelled, ':');
	size_t n = colon ? (size_t)(colon - spelled) : 0;

	if (colon && (n < 1 || n > LARDER_TENANT_NAME_MAX))
		return ctl_usage("why", "%s: wanted TENANT:NAMESPACE", spelled);
	if (!colon && (!ctl->tenant || strlen(ctl->tenant) > LARDER_TENANT_NAME_MAX))
		return ctl_usage("why", "wanted --tenant, or a namespace as TENANT:NAMESPACE");
	(void)snprintf(tenant, LARDER_TENANT_NAME_MAX + 1, "%.*s", colon ? (int)n : 99,
		       colon ? spelled : ctl->tenant);
	*ret_ns = colon ? colon + 1 : spelled;
	return CTL_DONE;
}

int cmd_why(struct ctl *ctl, int argc, char **argv)
{
	const char *ns = ctl->ns ? ctl->ns : SESSION_NS_DEFAULT;
	char tenant[LARDER_TENANT_NAME_MAX + 1], name[SESSION_NS_SIZE];
	json_t *request, *why;
	struct session_key key;
	int r;

	if (ctl_getopt(ctl, argc, argv, "", NULL) != -1)
		return CTL_USAGE;
	if (ctl->help)
		return ctl_help(ctl_command_find("why"));
	if (argc - optind < 1 || argc - optind > 2)
		return ctl_usage("why", "wanted [NAMESPACE] KEY");
	ns = argc - optind == 2 ? argv[optind++] : ctl->ns ? ctl->ns : SESSION_NS_DEFAULT;
	r = session_ns_parse("why", ns, name);
	if (!r)
		r = why_place(ctl, ns, tenant, &ns);
	if (!r)
		r = session_key_parse("why", argv[optind], true, &key);
	if (r)
		return r;
	request = json_object();
	json_set_text(request, "cmd", LARDER_CONTROL_WHY);
	json_set_text(request, "tenant", tenant);
	json_set_text(request, "ns", ns);
	json_set_text(request, "key", argv[optind]);
	r = control_request(ctl, "why", request, &why, NULL);
	if (r)
		return r;
	if (ctl->json)
		return output_json(why);
	r = why_print(argv[optind], why);
	json_decref(why);
	return r;
}
