/* SPDX-License-Identifier: Apache-2.0 */
/* org.larder.Node1: figures as properties, the commands as methods. */
#include "bus_internal.h"

#include <stddef.h>
#include <string.h>

const char *bus_state(struct bus *b)
{
	struct daemon *d = b->daemon;
	struct larder_node_stats s;

	if (d->stopping)
		return "stopping";
	larder_node_get_stats(d->node, &s);
	if (!s.draining)
		return "serving";
	return larder_node_is_drained(d->node) ? "drained" : "draining";
}

/* The figures of one moment for all properties of one call. */
static int node_find(sd_bus *bus, const char *path, const char *interface, void *user,
		     void **ret, sd_bus_error *error)
{
	struct bus *b = user;

	if (strcmp(path, BUS_PATH) != 0)
		return 0;
	larder_node_get_stats(b->daemon->node, &b->figures.stats);
	b->figures.state = bus_state(b);
	*ret = b;
	return 1;
}

static int node_version(sd_bus *bus, const char *path, const char *interface,
			const char *property, sd_bus_message *reply, void *user,
			sd_bus_error *error)
{
	return sd_bus_message_append(reply, "s", LARDER_VERSION);
}

static int node_u32(sd_bus *bus, const char *path, const char *interface, const char *property,
		    sd_bus_message *reply, void *user, sd_bus_error *error)
{
	return sd_bus_message_append(reply, "t", (uint64_t)*(const uint32_t *)user);
}

static int node_bool(sd_bus *bus, const char *path, const char *interface, const char *property,
		     sd_bus_message *reply, void *user, sd_bus_error *error)
{
	return sd_bus_message_append(reply, "b", (int)*(const bool *)user);
}

static int node_draining(sd_bus *bus, const char *path, const char *interface,
			 const char *property, sd_bus_message *reply, void *user,
			 sd_bus_error *error)
{
	const struct bus *b = user;

	return sd_bus_message_append(reply, "b", strcmp(property, "Draining") == 0 ?
				     (int)b->figures.stats.draining :
				     (int)larder_node_is_drained(b->daemon->node));
}

static int node_call(sd_bus_message *m, void *user, sd_bus_error *error)
{
	static const struct {
		const char *member, *command, *action;
	} calls[] = {
		{ "Drain", "drain", "org.larder.node1.drain" },
		{ "Undrain", "undrain", "org.larder.node1.drain" },
		{ "Reload", "reload", "org.larder.node1.reload" },
	};
	const char *member = sd_bus_message_get_member(m);

	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].member, member) == 0)
			return bus_allow(user, m, calls[i].command, calls[i].action,
					 json_object(), error);
	return sd_bus_error_set(error, SD_BUS_ERROR_UNKNOWN_METHOD, member);
}

static int node_set_limit(sd_bus_message *m, void *user, sd_bus_error *error)
{
	const char *tenant, *limit;
	uint64_t value;
	int runtime, r = sd_bus_message_read(m, "sstb", &tenant, &limit, &value, &runtime);

	if (r < 0)
		return r;
	if (value > INT64_MAX)
		return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
					 "%s can not be that much", limit);
	return bus_allow(user, m, "quota_set", "org.larder.node1.set-limit",
			 json_pack("{s:s, s:{s:I}, s:b}", "tenant", tenant, "limits", limit,
				   (json_int_t)value, "runtime", runtime), error);
}

static int node_clear_limit(sd_bus_message *m, void *user, sd_bus_error *error)
{
	const char *tenant, *limit;
	int runtime, r = sd_bus_message_read(m, "ssb", &tenant, &limit, &runtime);

	if (r < 0)
		return r;
	return bus_allow(user, m, "quota_set", "org.larder.node1.set-limit",
			 json_pack("{s:s, s:{s:n}, s:b}", "tenant", tenant, "limits", limit,
				   "runtime", runtime), error);
}

#define FIGURE(name, member)                                                                       \
	SD_BUS_PROPERTY(name, "t", NULL, offsetof(struct bus, figures.stats.member), 0)
#define FIGURE_U32(name, member)                                                                   \
	SD_BUS_PROPERTY(name, "t", node_u32, offsetof(struct bus, figures.stats.member), 0)

static const sd_bus_vtable node_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_PROPERTY("Version", "s", node_version, 0, SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("State", "s", NULL, offsetof(struct bus, figures.state),
			SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
	SD_BUS_PROPERTY("Draining", "b", node_draining, 0, 0),
	SD_BUS_PROPERTY("Drained", "b", node_draining, 0, 0),
	FIGURE("UptimeMSec", uptime_ms),
	FIGURE("ArenaBytes", memory.arena_bytes),
	FIGURE("RecordsBytes", memory.records_bytes),
	FIGURE_U32("PageSizeBytes", memory.page_size_bytes),
	FIGURE_U32("Pages", memory.pages),
	FIGURE("PagesFree", pages_free),
	FIGURE_U32("Records", memory.records),
	FIGURE("RecordsFree", records_free),
	FIGURE("MetadataBytesPerObject", bytes_per_object),
	SD_BUS_PROPERTY("Hugepages", "b", node_bool,
			offsetof(struct bus, figures.stats.memory.hugepages), 0),
	FIGURE("Objects", objects),
	FIGURE("ValueBytes", value_bytes),
	FIGURE("Evictions", evictions),
	FIGURE("Leases", leases),
	FIGURE("References", references),
	FIGURE("Filling", filling),
	FIGURE("Waiting", parked),
	FIGURE("Rebuilt", rebuilt_objects),
	FIGURE("DroppedRecords", dropped_records),
	FIGURE("Quarantined", quarantined),
	FIGURE("ScrubbedBytes", scrubbed_bytes),
	FIGURE("ScrubPasses", scrub_passes),
	FIGURE("Connections", connections),
	FIGURE("Unauthenticated", unauthenticated),
	FIGURE("Requests", requests),
	FIGURE("Regions", regions),
	FIGURE("RegionBytes", region_bytes),
	SD_BUS_METHOD("Drain", NULL, NULL, node_call, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD("Undrain", NULL, NULL, node_call, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD("Reload", NULL, NULL, node_call, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("SetLimit",
				SD_BUS_ARGS("s", tenant, "s", limit, "t", value, "b", runtime),
				SD_BUS_NO_RESULT, node_set_limit, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD_WITH_ARGS("ClearLimit", SD_BUS_ARGS("s", tenant, "s", limit, "b", runtime),
				SD_BUS_NO_RESULT, node_clear_limit, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_SIGNAL_WITH_ARGS("Reloaded", SD_BUS_ARGS("b", done, "s", error), 0),
	SD_BUS_VTABLE_END
};

int bus_node_add(struct bus *b)
{
	int r = sd_bus_add_fallback_vtable(b->bus, NULL, BUS_PATH, BUS_NODE, node_vtable,
					   node_find, b);

	return r < 0 ? r : sd_bus_add_object_manager(b->bus, NULL, BUS_PATH);
}
