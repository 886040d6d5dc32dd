/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node on D-Bus: org.larder.Node1 says what the control socket says, and takes the same
 * commands. Where no bus is, the control socket serves alone; a bus that goes is looked for again.
 *
 *	/org/larder/Node1			org.larder.Node1, ObjectManager
 *	/org/larder/Node1/tenant/NAME		org.larder.Tenant1
 *	/org/larder/Node1/connection/cID		org.larder.Connection1
 *
 * Everything here runs on the control thread and waits for nobody: a method that has to be allowed
 * first is remembered, a few at a time, and answered when the word has come.
 */
#ifndef LARDER_DAEMON_BUS_H
#define LARDER_DAEMON_BUS_H

#include <systemd/sd-event.h>

struct bus;
struct daemon;

/* 0 or -errno (no memory); that there is no bus is no failure. */
int bus_open(sd_event *event, struct daemon *d, struct bus **ret);
struct bus *bus_close(struct bus *b);		/* always NULL */
/* Draining, stopping, or serving again: tells those who watch. Looked at each second anyway. */
void bus_changed(struct bus *b);
/* After a reload: @error is NULL, or why it was refused. */
void bus_reloaded(struct bus *b, const char *error);

#endif
