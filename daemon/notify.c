/* SPDX-License-Identifier: Apache-2.0 */
#include "notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <systemd/sd-daemon.h>

#include "daemon.h"
#include "say.h"

#define NOTIFY_STATUS_US 2000000ull
#define NOTIFY_STOP_EXTRA_US UINT64_C(5000000)	/* beyond the drain: threads, files */
/* an idle reactor turns once a second, so a look that comes sooner tells nothing */
#define NOTIFY_WATCHDOG_MIN_US 1100000ull

struct notify {
	struct daemon *daemon;
	sd_event_source *status_timer;
	sd_event_source *watchdog_timer;
	uint64_t watchdog_us;		/* between two looks */
	char said[256];
};

static void notify_bytes(uint64_t n, char *text, size_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double d = (double)n;
	unsigned u = 0;

	for (; d >= 1024 && u < 4; u++)
		d /= 1024;
	(void)snprintf(text, size, u ? "%.1f %s" : "%.0f %s", d, units[u]);
}

void notify_text(const struct larder_node_stats *s, uint32_t tenants, char *text, size_t size)
{
	char used[32], all[32];

	notify_bytes((uint64_t)(s->memory.pages - s->pages_free) * s->memory.page_size_bytes, used,
		     sizeof(used));
	notify_bytes(s->memory.arena_bytes, all, sizeof(all));
	(void)snprintf(text, size,
		       "%s %" PRIu32 " tenant%s: %" PRIu64 " object%s in %s of %s, %" PRIu64
		       " connection%s",
		       s->draining ? "Draining" : "Serving", tenants, tenants == 1 ? "" : "s",
		       s->objects, s->objects == 1 ? "" : "s", used, all, s->connections,
		       s->connections == 1 ? "" : "s");
}

static bool notify_count(void *user, const struct larder_node_tenant *t)
{
	uint32_t *n = user;

	if (!t->removed)
		(*n)++;
	return true;
}

static void notify_make(struct notify *n, char *text, size_t size)
{
	struct larder_node_stats s;
	uint32_t tenants = 0;

	larder_node_get_stats(n->daemon->node, &s);
	larder_node_tenants(n->daemon->node, notify_count, &tenants);
	notify_text(&s, tenants, text, size);
}

void notify_status(struct notify *n)
{
	char text[sizeof(n->said)];

	if (!n)
		return;
	notify_make(n, text, sizeof(text));
	if (strcmp(text, n->said) == 0)
		return;
	strcpy(n->said, text);
	(void)sd_notifyf(0, "STATUS=%s", text);
}

void notify_ready(struct notify *n)
{
	/* one message: the manager has the figures when it learns that the node serves */
	notify_make(n, n->said, sizeof(n->said));
	(void)sd_notifyf(0, "READY=1\nSTATUS=%s", n->said);
}

void notify_reloading(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);	/* can not fail for this clock */
	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
			 (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000);
}

void notify_stopping(struct notify *n, uint64_t drain_timeout_ms)
{
	(void)sd_notifyf(0, "STOPPING=1\nSTATUS=Draining\nEXTEND_TIMEOUT_USEC=%" PRIu64,
			 drain_timeout_ms * 1000 + NOTIFY_STOP_EXTRA_US);
	notify_status(n);
}

static int notify_status_timer(sd_event_source *s, uint64_t usec, void *user)
{
	notify_status(user);
	(void)sd_event_source_set_time_relative(s, NOTIFY_STATUS_US);
	return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

static int notify_watchdog_timer(sd_event_source *s, uint64_t usec, void *user)
{
	struct notify *n = user;

	if (reactors_turned(n->daemon->reactors))
		(void)sd_notify(0, "WATCHDOG=1");
	else
		say(&n->daemon->log, LARDER_LOG_WARNING,
		    "a reactor does not turn: the watchdog is not fed");
	(void)sd_event_source_set_time_relative(s, n->watchdog_us);
	return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

int notify_open(sd_event *event, struct daemon *d, struct notify **ret)
{
	struct notify *n = calloc(1, sizeof(*n));
	uint64_t period;
	int r;

	if (!n)
		return -ENOMEM;
	*ret = n;		/* the caller closes it, failed or not */
	n->daemon = d;
	r = sd_event_add_time_relative(event, &n->status_timer, CLOCK_MONOTONIC, NOTIFY_STATUS_US,
				       0, notify_status_timer, n);
	if (r < 0 || sd_watchdog_enabled(0, &period) <= 0)
		return r < 0 ? r : 0;
	n->watchdog_us = period / 3;
	if (n->watchdog_us < NOTIFY_WATCHDOG_MIN_US) {
		n->watchdog_us = NOTIFY_WATCHDOG_MIN_US;
		if (period < NOTIFY_WATCHDOG_MIN_US * 2)
			say(&d->log, LARDER_LOG_WARNING, "WatchdogSec= of %" PRIu64 " ms is too "
			    "short: an idle reactor turns once a second; give it 3 s or more",
			    period / 1000);
	}
	return sd_event_add_time_relative(event, &n->watchdog_timer, CLOCK_MONOTONIC,
					  n->watchdog_us, 0, notify_watchdog_timer, n);
}

struct notify *notify_close(struct notify *n)
{
	if (!n)
		return NULL;
	n->status_timer = sd_event_source_disable_unref(n->status_timer);
	n->watchdog_timer = sd_event_source_disable_unref(n->watchdog_timer);
	free(n);
	return NULL;
}
