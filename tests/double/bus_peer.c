/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers of the node on a bus, for tests/e2e/test_bus.sh:
 *
 *	bus_peer polkit ADDRESS yes|no|late	polkit's place: says so, or only after three seconds
 *	bus_peer getall ADDRESS N TENANT	a SetLimit that polkit has to allow, and N GetAll
 *						beside it; prints how many were answered before it
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#define LATE_US 3000000ull
#define NODE "org.larder.Node1", "/org/larder/Node1"

static const char *mode;
static bool set_done, set_worked;

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "bus_peer: %s: %s\n", what, strerror(-r));
	exit(1);
}

static sd_bus *peer_open(const char *address)
{
	sd_bus *bus;

	must(sd_bus_new(&bus), "bus");
	must(sd_bus_set_address(bus, address), address);
	must(sd_bus_set_bus_client(bus, true), "client");
	must(sd_bus_start(bus), "connect");
	return bus;
}

static int polkit_answer(sd_bus_message *call)
{
	return sd_bus_reply_method_return(call, "(bba{ss})", strcmp(mode, "no") != 0, 0, 0);
}

static int polkit_late(sd_event_source *s, uint64_t usec, void *user)
{
	must(polkit_answer(user), "answer");
	sd_bus_message_unref(user);
	return 0;
}

static int polkit_check(sd_bus_message *m, void *user, sd_bus_error *error)
{
	const char *kind, *key, *name, *action;

	must(sd_bus_message_read(m, "(sa{sv})s", &kind, 1, &key, "s", &name, &action), "read");
	printf("%s %s\n", kind, action);
	(void)fflush(stdout);
	if (strcmp(mode, "late") != 0)
		return polkit_answer(m);
	must(sd_event_add_time_relative(user, NULL, CLOCK_MONOTONIC, LATE_US, 0, polkit_late,
					sd_bus_message_ref(m)), "timer");
	return 1;
}

static const sd_bus_vtable polkit_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_METHOD("CheckAuthorization", "(sa{sv})sa{ss}us", "(bba{ss})", polkit_check,
		      SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_VTABLE_END
};

static int polkit(const char *address)
{
	sd_bus *bus = peer_open(address);
	sd_event *event;

	must(sd_event_default(&event), "event");
	must(sd_bus_attach_event(bus, event, 0), "attach");
	must(sd_bus_add_object_vtable(bus, NULL, "/org/freedesktop/PolicyKit1/Authority",
				      "org.freedesktop.PolicyKit1.Authority", polkit_vtable,
				      event), "vtable");
	must(sd_bus_request_name(bus, "org.freedesktop.PolicyKit1", 0), "name");
	puts("ready");
	(void)fflush(stdout);
	return sd_event_loop(event) < 0;
}

static int set_answer(sd_bus_message *m, void *user, sd_bus_error *error)
{
	set_done = true;
	set_worked = !sd_bus_message_is_method_error(m, NULL);
	return 0;
}

static int getall(const char *address, int n, const char *tenant)
{
	sd_bus *bus = peer_open(address);
	sd_bus_message *reply;
	int before = 0;

	must(sd_bus_call_method_async(bus, NULL, NODE, "org.larder.Node1", "SetLimit", set_answer,
				      NULL, "sstb", tenant, "objects", (uint64_t)12345, 1),
	     "SetLimit");
	for (int i = 0; i < n; i++) {
		must(sd_bus_call_method(bus, NODE, "org.freedesktop.DBus.Properties", "GetAll",
					NULL, &reply, "s", "org.larder.Node1"), "GetAll");
		sd_bus_message_unref(reply);
		before += !set_done;
	}
	while (!set_done) {
		must(sd_bus_process(bus, NULL), "process");
		must(sd_bus_wait(bus, 100000), "wait");
	}
	printf("%d before, %s\n", before, set_worked ? "set" : "refused");
	sd_bus_flush_close_unref(bus);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "polkit") == 0) {
		mode = argv[3];
		return polkit(argv[2]);
	}
	if (argc == 5 && strcmp(argv[1], "getall") == 0)
		return getall(argv[2], atoi(argv[3]), argv[4]);
	fprintf(stderr, "usage: bus_peer polkit ADDRESS yes|no|late | getall ADDRESS N TENANT\n");
	return 2;
}
