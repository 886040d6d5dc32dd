/* SPDX-License-Identifier: Apache-2.0 */
/* See world.h. */
#include "world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

void world_fail(struct world *w, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);	/* may be cut */
	va_end(ap);
	(void)printf("    %s\n    last line: %s\n    last error: %s\n", text,
		      w->last_line[0] ? w->last_line : "(none)", larder_last_error());
	(void)fflush(stdout);
	_exit(3);
}

static uint64_t world_monotonic(void *user)
{
	return ((struct world *)user)->now_ns;
}

static uint64_t world_wall(void *user)
{
	return 1700000000000u + ((struct world *)user)->now_ns / NSEC_PER_MSEC;
}

static void world_line(void *user, int level, const char *text)
{
	struct world *w = user;

	w->lines += level <= LARDER_LOG_WARNING;
	(void)snprintf(w->last_line, sizeof(w->last_line), "%s", text);
}

void world_begin(struct world *w, const char *transport, uint64_t n, unsigned way)
{
	unsigned pid = (unsigned)getpid();

	memset(w, 0, sizeof(*w));
	w->transport = transport;
	w->n = n;
	w->way = way;
	w->now_ns = 1000 * NSEC_PER_SEC;
	w->env = (struct larder_environment){ .monotonic_ns = world_monotonic,
					      .wall_ms = world_wall, .user = w };
	w->log = (struct larder_log){ .line = world_line, .user = w, .level = LARDER_LOG_INFO };
	(void)snprintf(w->dir, sizeof(w->dir), "/dev/shm/larder-fault.%u", pid);
	(void)snprintf(w->memory_dir, sizeof(w->memory_dir), "%s/memory", w->dir);
	if (mkdir(w->dir, 0700) < 0)
		world_fail(w, "%s: %s", w->dir, strerror(errno));
	/* an address of this process's own, so that its port is free again after a restart */
	if (strcmp(transport, "tcp") == 0)
		(void)snprintf(w->url, sizeof(w->url), "tcp://127.%u.%u.%u:16999",
			       1 + (pid >> 16 & 63), pid >> 8 & 255, 1 + (pid & 127));
	else if (strcmp(transport, "shm") == 0)
		(void)snprintf(w->url, sizeof(w->url), "shm://%s/sock", w->dir);
	else
		(void)snprintf(w->url, sizeof(w->url), "loop://fault");
}

static void world_remove(struct world *w, const char *name)
{
	char path[160];

	(void)snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	if (unlink(path) < 0 && errno != ENOENT)
		world_fail(w, "%s stays: %s", path, strerror(errno));
}

void world_end(struct world *w)
{
	world_remove(w, "memory/arena");
	world_remove(w, "memory/records");
	world_remove(w, "sock");
	if (rmdir(w->memory_dir) < 0 || rmdir(w->dir) < 0)
		world_fail(w, "%s: something is left in it: %s", w->dir, strerror(errno));
}

static uint64_t world_reconnects(struct world *w)
{
	struct larder_client_info info = { .connected = false };

	if (w->client)
		larder_get_info(w->client, &info);
	return info.reconnects;
}

void world_arm(struct world *w)
{
	w->reconnects = world_reconnects(w);
	w->armed_node = w->node;
	inject_arm(w->n, w->way);
}

void world_disarm(struct world *w)
{
	inject_disarm(&w->report);
	if (inject_harmless() && w->client && w->node == w->armed_node &&
	    world_reconnects(w) != w->reconnects)
		world_fail(w, "a connection is lost for what is no failure");
}

int world_step(void *user)
{
	struct world *w = user;
	int r = w->node ? larder_node_step(w->node, 0) : 0;

	if (r < 0)
		world_fail(w, "the reactor is broken: %s", strerror(-r));
	if (r == 0)
		w->now_ns += NSEC_PER_MSEC;
	return r;
}

void world_run(struct world *w, uint64_t ms)
{
	uint64_t until = w->now_ns + ms * NSEC_PER_MSEC;

	while (w->now_ns < until) {
		int r = w->client ? larder_step(w->client) : 0;

		if (r < 0)
			world_fail(w, "larder_step: %s", strerror(-r));
		(void)world_step(w);
	}
}
