/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service manager is told (sd_notify(3)), once the control loop is there: READY,
 * RELOADING, STOPPING, a status line with figures, and WATCHDOG while every reactor turns. Without
 * a manager each of these does nothing.
 */
#ifndef LARDER_DAEMON_NOTIFY_H
#define LARDER_DAEMON_NOTIFY_H

#include <stddef.h>
#include <stdint.h>

#include <systemd/sd-event.h>

#include <larder/node.h>

struct daemon;
struct notify;

/* 0 or -errno. */
int notify_open(sd_event *event, struct daemon *d, struct notify **ret);
struct notify *notify_close(struct notify *n);		/* always NULL */
/* Serves, or serves again after a reload. */
void notify_ready(struct notify *n);
void notify_reloading(void);
void notify_stopping(struct notify *n, uint64_t drain_timeout_ms);
/* Something of the status has just changed; it is looked at by itself every two seconds. */
void notify_status(struct notify *n);

/* "Serving 3 tenants: 1,024 objects in 64.0 MiB of 1.0 GiB, 5 connections". */
void notify_text(const struct larder_node_stats *s, uint32_t tenants, char *text, size_t size);

#endif
