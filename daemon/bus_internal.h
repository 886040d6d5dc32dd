/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the bus share. */
#ifndef LARDER_DAEMON_BUS_INTERNAL_H
#define LARDER_DAEMON_BUS_INTERNAL_H

#include <sys/types.h>

#include <systemd/sd-bus.h>

#include "bus.h"
#include "daemon.h"

#define BUS_NAME "org.larder.Node1"
#define BUS_PATH "/org/larder/Node1"
#define BUS_TENANTS BUS_PATH "/tenant"
#define BUS_CONNECTIONS BUS_PATH "/connection"
#define BUS_NODE BUS_NAME
#define BUS_TENANT "org.larder.Tenant1"
#define BUS_CONNECTION "org.larder.Connection1"
#define BUS_ERROR "org.larder.Error."

#define BUS_REQUESTS 16u	/* methods that wait to be allowed */

/* A method that waits to be allowed. */
struct bus_request {
	struct bus *bus;
	sd_bus_message *call;	/* NULL: this place is free */
	sd_bus_slot *asked;	/* the question under way */
	const char *command;	/* of the control socket */
	const char *action;	/* of polkit */
	json_t *request;
};

/* What a look found; kept while one call is answered. */
struct bus_figures {
	struct larder_node_stats stats;
	const char *state;
};
struct bus_tenant {
	char name[LARDER_TENANT_NAME_MAX + 1];
	int configured;
	uint64_t objects, value_bytes, resident_bytes;
};

struct bus {
	struct daemon *daemon;
	sd_event *event;
	sd_bus *bus;			/* NULL: none now */
	sd_event_source *timer;
	bool lost;			/* it went; taken down when nothing of it is under way */
	bool told_absent;
	bool unnamed;			/* the bus refused the name: asked for again */
	bool told_unnamed;
	uint64_t retry_in;		/* looks */
	gid_t admin_gid;
	const char *state;		/* as told last */
	struct bus_figures figures;
	struct bus_tenant tenant;
	struct larder_node_connection connection;
	struct larder_node_connection *all;	/* max_connections of them */
	uint32_t n_all, size_all;
	uint64_t *known;		/* connections that were told */
	uint32_t n_known;
	char (*tenants)[LARDER_TENANT_NAME_MAX + 1]; /* the same of tenants */
	uint32_t n_tenants;
	struct bus_request request[BUS_REQUESTS];
};

/* bus_node.c */
int bus_node_add(struct bus *b);
const char *bus_state(struct bus *b);

/* bus_objects.c */
int bus_objects_open(struct bus *b);
void bus_objects_close(struct bus *b);
int bus_objects_add(struct bus *b);
/* Tells of tenants and connections that came or went. */
void bus_objects_changed(struct bus *b);
/* Nobody was told anything yet. */
void bus_objects_forget(struct bus *b);

/*
 * bus_allow.c: runs @command with @request (taken over) and answers @call, once its sender is
 * known to be allowed to: root, the daemon's user, control.admin_group, or polkit's word for
 * @action. What a method's handler is to return.
 */
int bus_allow(struct bus *b, sd_bus_message *call, const char *command, const char *action,
	      json_t *request, sd_bus_error *error);
void bus_allow_forget(struct bus *b);

#endif
