/* SPDX-License-Identifier: Apache-2.0 */
/* connections: who is connected to the node. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "control_protocol.h"
#include "ctl/control.h"
#include "ctl/output.h"

static const char *connection_text(const json_t *o, const char *name)
{
	const char *text = json_string_value(json_object_get(o, name));

	return text ? text : "?";
}

static uint64_t connection_number(const json_t *o, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(o, name));
}

int cmd_connections(struct ctl *ctl, int argc, char **argv)
{
	static const struct table_column columns[] = {
		{ "ID", true }, { "TENANT", false }, { "BY", false }, { "PEER", false },
		{ "REACTOR", true }, { "AGE", true },
	};
	json_t *result, *one;
	struct table *t;
	uint64_t more;
	size_t i;
	int r;

	if (argc > 1)
		return ctl_fail(CTL_USAGE, "connections: takes no arguments");
	r = control_ask(ctl, "connections", LARDER_CONTROL_CONNECTIONS, &result, NULL);
	if (r)
		return r;
	if (ctl->json)
		return output_json(result);
	t = table_new(columns, ARRAY_SIZE(columns));
	json_array_foreach(json_object_get(result, "connections"), i, one) {
		char age[UTIL_TEXT];

		table_row(t);
		table_cell(t, 0, "%" PRIu64, connection_number(one, "id"));
		table_cell(t, 1, "%s", connection_text(one, "tenant"));
		table_cell(t, 2, "%s", connection_text(one, "transport"));
		table_cell(t, 3, "%s", connection_text(one, "peer"));
		table_cell(t, 4, "%" PRIu64, connection_number(one, "reactor"));
		table_cell(t, 5, "%s", util_format_ns(connection_number(one, "age_ms") *
						      NSEC_PER_MSEC, age));
	}
	more = connection_number(result, "more");
	json_decref(result);
	r = table_print(t);
	if (!r && more)
		printf("and %" PRIu64 " more\n", more);
	return r;
}
