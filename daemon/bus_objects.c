/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants and connections as objects of the bus. What of them is there is asked of the node for
 * each call; a look each second tells those who watch what came and what went.
 */
#include "bus_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- tenants --- */

static bool tenant_match(void *user, const struct larder_node_tenant *t)
{
	struct bus_tenant *one = user;

	if (strcmp(t->name, one->name) != 0)
		return true;
	one->configured = !t->removed;
	one->objects = t->objects;
	one->value_bytes = t->value_bytes;
	one->resident_bytes = t->resident_bytes;
	return false;
}

static int tenant_find(sd_bus *bus, const char *path, const char *interface, void *user,
		       void **ret, sd_bus_error *error)
{
	struct bus *b = user;
	char *name = NULL;
	int r = sd_bus_path_decode(path, BUS_TENANTS, &name);

	if (r <= 0 || strlen(name) > LARDER_TENANT_NAME_MAX) {
		free(name);
		return r < 0 ? r : 0;
	}
	b->tenant = (struct bus_tenant){ .configured = -1 };
	strcpy(b->tenant.name, name);
	free(name);
	larder_node_tenants(b->daemon->node, tenant_match, &b->tenant);
	if (b->tenant.configured < 0)
		return 0;
	*ret = b;
	return 1;
}

/* Appends the whole numbers of @o as a{st}. */
static int tenant_numbers(sd_bus_message *reply, const json_t *o)
{
	const char *name;
	json_t *value;
	int r = sd_bus_message_open_container(reply, 'a', "{st}");

	json_object_foreach((json_t *)o, name, value) {
		if (r < 0)
			return r;
		if (json_is_integer(value))
			r = sd_bus_message_append(reply, "{st}", name,
						  (uint64_t)json_integer_value(value));
	}
	return r < 0 ? r : sd_bus_message_close_container(reply);
}

/* Figures, RefusedBy: by the names of larderctl stats. */
static int tenant_figures(sd_bus *bus, const char *path, const char *interface,
			  const char *property, sd_bus_message *reply, void *user,
			  sd_bus_error *error)
{
	struct bus *b = user;
	json_t *all = daemon_stats_tenants(b->daemon);
	const json_t *one = json_object_get(all, b->tenant.name);
	int r = tenant_numbers(reply, strcmp(property, "RefusedBy") == 0 ?
			       json_object_get(one, "refused_by") : one);

	json_decref(all);
	return r;
}

static int tenant_limits(sd_bus *bus, const char *path, const char *interface,
			 const char *property, sd_bus_message *reply, void *user,
			 sd_bus_error *error)
{
	struct bus *b = user;
	struct tenants_limits limits;
	int r = sd_bus_message_open_container(reply, 'a', "{st}");

	/* of a tenant that is left over there are none */
	if (tenants_get_limits(b->daemon->tenants, b->tenant.name, &limits) == 0)
		for (unsigned i = 0; r >= 0 && i < LARDER_LIMITS; i++)
			r = sd_bus_message_append(reply, "{st}", larder_limit_name(i),
						  limits.effective.value[i]);
	return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int tenant_text(sd_bus *bus, const char *path, const char *interface,
		       const char *property, sd_bus_message *reply, void *user,
		       sd_bus_error *error)
{
	return sd_bus_message_append(reply, "s", (const char *)user);
}

#define TENANT(member) offsetof(struct bus, tenant.member)
static const sd_bus_vtable tenant_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_PROPERTY("Name", "s", tenant_text, TENANT(name), SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("Configured", "b", NULL, TENANT(configured), 0),
	SD_BUS_PROPERTY("Objects", "t", NULL, TENANT(objects), 0),
	SD_BUS_PROPERTY("ValueBytes", "t", NULL, TENANT(value_bytes), 0),
	SD_BUS_PROPERTY("ResidentBytes", "t", NULL, TENANT(resident_bytes), 0),
	SD_BUS_PROPERTY("Figures", "a{st}", tenant_figures, 0, 0),
	SD_BUS_PROPERTY("RefusedBy", "a{st}", tenant_figures, 0, 0),
	SD_BUS_PROPERTY("Limits", "a{st}", tenant_limits, 0, 0),
	SD_BUS_VTABLE_END
};

/* --- connections --- */

static void connections_look(struct bus *b)
{
	b->n_all = larder_node_connections(b->daemon->node, b->all, b->size_all);
}

static int connection_find(sd_bus *bus, const char *path, const char *interface, void *user,
			   void **ret, sd_bus_error *error)
{
	struct bus *b = user;
	char *name = NULL, *end = NULL;
	uint64_t id;
	int r = sd_bus_path_decode(path, BUS_CONNECTIONS, &name);

	if (r <= 0)
		return r;
	id = name[0] == 'c' ? strtoull(name + 1, &end, 10) : 0;
	r = end && end != name + 1 && !*end;
	free(name);
	if (!r)
		return 0;
	connections_look(b);
	for (uint32_t i = 0; i < b->n_all; i++)
		if (b->all[i].id == id) {
			b->connection = b->all[i];
			*ret = b;
			return 1;
		}
	return 0;
}

static int connection_viewer(sd_bus *bus, const char *path, const char *interface,
			     const char *property, sd_bus_message *reply, void *user,
			     sd_bus_error *error)
{
	const struct bus *b = user;

	return sd_bus_message_append(reply, "b", (int)b->connection.viewer);
}

#define CONNECTION(member) offsetof(struct bus, connection.member)
static const sd_bus_vtable connection_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_PROPERTY("Id", "t", NULL, CONNECTION(id), SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("Tenant", "s", tenant_text, CONNECTION(tenant),
			SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("Transport", "s", tenant_text, CONNECTION(transport),
			SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("Peer", "s", tenant_text, CONNECTION(peer), SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("Viewer", "b", connection_viewer, 0, SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("AgeMSec", "t", NULL, CONNECTION(age_ms), 0),
	SD_BUS_VTABLE_END
};

/* --- what is there --- */

struct tenant_paths {
	char **at;
	size_t n;
	bool failed;
};

static int paths_add(struct tenant_paths *p, const char *prefix, const char *name)
{
	char **at = realloc(p->at, (p->n + 2) * sizeof(*at));

	if (!at)
		return -ENOMEM;
	p->at = at;
	at[p->n + 1] = NULL;
	if (sd_bus_path_encode(prefix, name, &at[p->n]) < 0) {
		at[p->n] = NULL;
		return -ENOMEM;
	}
	p->n++;
	return 0;
}

static bool paths_add_tenant(void *user, const struct larder_node_tenant *t)
{
	struct tenant_paths *p = user;

	p->failed = paths_add(p, BUS_TENANTS, t->name) < 0;
	return !p->failed;
}

static int paths_done(struct tenant_paths *p, char ***ret)
{
	if (p->failed) {
		for (size_t i = 0; i < p->n; i++)
			free(p->at[i]);
		free(p->at);
		return -ENOMEM;
	}
	*ret = p->at;
	return 0;
}

static int tenants_list(sd_bus *bus, const char *prefix, void *user, char ***ret,
			sd_bus_error *error)
{
	struct bus *b = user;
	struct tenant_paths p = { .at = NULL };

	larder_node_tenants(b->daemon->node, paths_add_tenant, &p);
	return paths_done(&p, ret);
}

static int connections_list(sd_bus *bus, const char *prefix, void *user, char ***ret,
			    sd_bus_error *error)
{
	struct bus *b = user;
	struct tenant_paths p = { .at = NULL };
	char id[24];

	connections_look(b);
	for (uint32_t i = 0; i < b->n_all && !p.failed; i++) {
		(void)snprintf(id, sizeof(id), "c%" PRIu64, b->all[i].id);
		p.failed = paths_add(&p, BUS_CONNECTIONS, id) < 0;
	}
	return paths_done(&p, ret);
}

/* --- what came and went --- */

static void objects_tell(struct bus *b, const char *prefix, const char *name, bool came)
{
	char *path = NULL;

	/* of what can not be told those who watch learn when they ask */
	if (sd_bus_path_encode(prefix, name, &path) < 0)
		return;
	if (came)
		(void)sd_bus_emit_object_added(b->bus, path);
	else
		(void)sd_bus_emit_interfaces_removed(b->bus, path, strcmp(prefix, BUS_TENANTS) ?
						     BUS_CONNECTION : BUS_TENANT, NULL);
	free(path);
}

static void connections_tell(struct bus *b, uint64_t id, bool came)
{
	char name[24];

	(void)snprintf(name, sizeof(name), "c%" PRIu64, id);
	objects_tell(b, BUS_CONNECTIONS, name, came);
}

/* Both lists are in the order in which sessions opened. */
static void connections_changed(struct bus *b)
{
	uint64_t *ids;
	uint32_t n;

	connections_look(b);
	n = b->n_all;
	ids = malloc((n + !n) * sizeof(*ids));
	if (!ids)
		return;		/* the next look tells it */
	for (uint32_t i = 0; i < n; i++)
		ids[i] = b->all[i].id;
	for (uint32_t i = 0, k = 0; i < b->n_known; i++) {
		/* what is left of the old ones stands in the same order in the new list */
		if (k < n && ids[k] == b->known[i])
			k++;
		else
			connections_tell(b, b->known[i], false);
	}
	for (uint32_t i = 0, k = 0; i < n; i++) {
		while (k < b->n_known && b->known[k] != ids[i])
			k++;
		if (k == b->n_known)
			for (; i < n; i++)
				connections_tell(b, ids[i], true);
	}
	free(b->known);
	b->known = ids;
	b->n_known = n;
}

struct tenant_names {
	char (*at)[LARDER_TENANT_NAME_MAX + 1];
	uint32_t n;
	bool failed;
};

static bool names_add(void *user, const struct larder_node_tenant *t)
{
	struct tenant_names *names = user;
	void *at = realloc(names->at, (names->n + 1) * sizeof(*names->at));

	if (!at) {
		names->failed = true;
		return false;
	}
	names->at = at;
	(void)snprintf(names->at[names->n++], sizeof(*names->at), "%s", t->name);
	return true;
}

static bool names_have(char (*at)[LARDER_TENANT_NAME_MAX + 1], uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(at[i], name) == 0)
			return true;
	return false;
}

static void tenants_changed(struct bus *b)
{
	struct tenant_names now = { .at = NULL };

	larder_node_tenants(b->daemon->node, names_add, &now);
	if (now.failed) {
		free(now.at);
		return;		/* the next look tells it */
	}
	for (uint32_t i = 0; i < b->n_tenants; i++)
		if (!names_have(now.at, now.n, b->tenants[i]))
			objects_tell(b, BUS_TENANTS, b->tenants[i], false);
	for (uint32_t i = 0; i < now.n; i++)
		if (!names_have(b->tenants, b->n_tenants, now.at[i]))
			objects_tell(b, BUS_TENANTS, now.at[i], true);
	free(b->tenants);
	b->tenants = now.at;
	b->n_tenants = now.n;
}

void bus_objects_changed(struct bus *b)
{
	if (sd_bus_is_ready(b->bus) <= 0)
		return;
	connections_changed(b);
	tenants_changed(b);
}

void bus_objects_forget(struct bus *b)
{
	b->n_known = b->n_tenants = 0;
}

int bus_objects_open(struct bus *b)
{
	b->size_all = (uint32_t)config_number(&b->daemon->config, CONFIG_node_max_connections);
	b->all = calloc(b->size_all, sizeof(*b->all));
	return b->all ? 0 : -ENOMEM;
}

void bus_objects_close(struct bus *b)
{
	free(b->all);
	free(b->known);
	free(b->tenants);
}

int bus_objects_add(struct bus *b)
{
	int r;

	if ((r = sd_bus_add_fallback_vtable(b->bus, NULL, BUS_TENANTS, BUS_TENANT, tenant_vtable,
					    tenant_find, b)) < 0 ||
	    (r = sd_bus_add_fallback_vtable(b->bus, NULL, BUS_CONNECTIONS, BUS_CONNECTION,
					    connection_vtable, connection_find, b)) < 0 ||
	    (r = sd_bus_add_node_enumerator(b->bus, NULL, BUS_TENANTS, tenants_list, b)) < 0)
		return r;
	return sd_bus_add_node_enumerator(b->bus, NULL, BUS_CONNECTIONS, connections_list, b);
}
