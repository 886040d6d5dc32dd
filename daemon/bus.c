/* SPDX-License-Identifier: Apache-2.0 */
#include "bus_internal.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"

#define BUS_LOOK_US 1000000ull
#define BUS_RETRY_LOOKS 10u
#define BUS_SYSTEM "unix:path=/run/dbus/system_bus_socket"

static void bus_find_admins(struct bus *b)
{
	const char *name = config_string(&b->daemon->config, CONFIG_control_admin_group);
	const struct group *g = name[0] ? getgrnam(name) : NULL;

	b->admin_gid = g ? g->gr_gid : (gid_t)-1;
}

static int bus_named(sd_bus_message *m, void *user, sd_bus_error *error)
{
	struct bus *b = user;
	const sd_bus_error *e = sd_bus_message_get_error(m);
	uint32_t word = 0;

	/* at a first installation the bus reads its policy only after this */
	b->unnamed = e;
	if (e) {
		b->retry_in = BUS_RETRY_LOOKS;
		if (!b->told_unnamed)
			say(&b->daemon->log, LARDER_LOG_WARNING, "the bus does not give the name "
			    BUS_NAME " yet: %s", e->message ? e->message : e->name);
		b->told_unnamed = true;
	} else if (sd_bus_message_read(m, "u", &word) < 0 || (word != 1 && word != 4))
		say(&b->daemon->log, LARDER_LOG_WARNING, "the name " BUS_NAME
		    " belongs to another on the bus: this node is not seen there");
	else
		say(&b->daemon->log, LARDER_LOG_INFO, "on the bus as " BUS_NAME);
	return 0;
}

static int bus_disconnected(sd_bus_message *m, void *user, sd_bus_error *error)
{
	struct bus *b = user;

	b->lost = true;		/* taken down by the next look: it is in use here */
	return 0;
}

static void bus_drop(struct bus *b)
{
	bus_allow_forget(b);
	bus_objects_forget(b);
	b->bus = sd_bus_close_unref(b->bus);
	b->lost = b->unnamed = false;
}

static int bus_set_up(struct bus *b)
{
	int r;

	if ((r = sd_bus_set_bus_client(b->bus, true)) < 0 ||
	    (r = sd_bus_start(b->bus)) < 0 ||
	    (r = sd_bus_attach_event(b->bus, b->event, SD_EVENT_PRIORITY_NORMAL)) < 0 ||
	    (r = sd_bus_match_signal_async(b->bus, NULL, "org.freedesktop.DBus.Local", NULL,
					   "org.freedesktop.DBus.Local", "Disconnected",
					   bus_disconnected, NULL, b)) < 0 ||
	    (r = bus_node_add(b)) < 0 || (r = bus_objects_add(b)) < 0)
		return r;
	return sd_bus_request_name_async(b->bus, NULL, BUS_NAME, 0, bus_named, b);
}

static void bus_connect(struct bus *b)
{
	const char *address = config_string(&b->daemon->config, CONFIG_bus_address);
	const char *system = getenv("DBUS_SYSTEM_BUS_ADDRESS");
	int r;

	if (strcmp(address, "system") == 0)
		address = system && *system ? system : BUS_SYSTEM;
	r = sd_bus_new(&b->bus);
	if (r >= 0)
		r = sd_bus_set_address(b->bus, address);
	if (r >= 0)
		r = bus_set_up(b);
	if (r >= 0) {
		b->state = bus_state(b);
		b->told_absent = false;
		return;
	}
	bus_drop(b);
	b->retry_in = BUS_RETRY_LOOKS;
	if (!b->told_absent)
		say(&b->daemon->log, LARDER_LOG_INFO, "no bus at %s (%s): the control socket "
		    "serves alone", address, strerror(-r));
	b->told_absent = true;
}

void bus_changed(struct bus *b)
{
	const char *state;

	if (!b || !b->bus || b->lost)
		return;
	state = bus_state(b);
	if (b->state && strcmp(state, b->state) == 0)
		return;
	b->state = state;
	/* a full queue of a bus that does not read: who missed it asks again */
	(void)sd_bus_emit_properties_changed(b->bus, BUS_PATH, BUS_NODE, "State", NULL);
	(void)sd_bus_flush(b->bus);
}

void bus_reloaded(struct bus *b, const char *error)
{
	if (!b)
		return;
	bus_find_admins(b);
	if (!b->bus || b->lost)
		return;
	(void)sd_bus_emit_signal(b->bus, BUS_PATH, BUS_NODE, "Reloaded", "bs", !error,
				 error ? error : "");
	bus_objects_changed(b);
}

static int bus_look(sd_event_source *s, uint64_t usec, void *user)
{
	struct bus *b = user;

	if (b->bus && (b->lost || sd_bus_is_open(b->bus) <= 0)) {
		say(&b->daemon->log, LARDER_LOG_NOTICE, "the bus is gone, it is looked for again");
		bus_drop(b);
		b->retry_in = BUS_RETRY_LOOKS;
	}
	if (b->bus && b->unnamed && b->retry_in && --b->retry_in == 0)
		(void)sd_bus_request_name_async(b->bus, NULL, BUS_NAME, 0, bus_named, b);
	if (b->bus) {
		bus_changed(b);
		bus_objects_changed(b);
	} else if (b->retry_in && --b->retry_in == 0) {
		bus_connect(b);
	}
	(void)sd_event_source_set_time_relative(s, BUS_LOOK_US);
	return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

int bus_open(sd_event *event, struct daemon *d, struct bus **ret)
{
	struct bus *b;
	int r;

	*ret = NULL;
	if (!config_string(&d->config, CONFIG_bus_address)[0])
		return 0;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	*ret = b;		/* the caller closes it, failed or not */
	b->daemon = d;
	b->event = sd_event_ref(event);
	r = bus_objects_open(b);
	if (r < 0)
		return r;
	bus_find_admins(b);
	bus_connect(b);
	return sd_event_add_time_relative(event, &b->timer, CLOCK_MONOTONIC, BUS_LOOK_US, 0,
					  bus_look, b);
}

struct bus *bus_close(struct bus *b)
{
	if (!b)
		return NULL;
	b->timer = sd_event_source_disable_unref(b->timer);
	if (b->bus)
		bus_drop(b);
	bus_objects_close(b);
	b->event = sd_event_unref(b->event);
	free(b);
	return NULL;
}
