/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which slot is whose: asked of the daemon over its control socket. Without an answer everything
 * goes on, with numbers in place of names.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tool.h"

#define NAMES_REPLY_MAX (1u << 20)
#define NAMES_TIMEOUT_S 2

static int names_connect(const char *path)
{
	const struct timeval patience = { .tv_sec = NAMES_TIMEOUT_S };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		int r = -errno;

		(void)close(fd);	/* nothing was sent over it */
		return r;
	}
	return fd;
}

/* One line of @fd, parsed; NULL when none comes. */
static json_t *names_reply(int fd)
{
	char *text = malloc(NAMES_REPLY_MAX);
	json_t *doc = NULL;
	size_t len = 0;

	while (text && len < NAMES_REPLY_MAX) {
		ssize_t n = recv(fd, text + len, NAMES_REPLY_MAX - len, 0);

		if (n <= 0)
			break;
		len += (size_t)n;
		if (text[len - 1] == '\n') {
			doc = json_loadb(text, len, 0, NULL);
			break;
		}
	}
	free(text);
	return doc;
}

void tool_names_read(const struct tool_options *o, struct tool_names *n)
{
	static const char ask[] = "{\"cmd\":\"stats\"}\n";
	int fd = names_connect(o->control);
	json_t *doc = NULL, *tenant;
	const char *name;

	memset(n, 0, sizeof(*n));
	if (fd < 0)
		return;
	if (send(fd, ask, strlen(ask), MSG_NOSIGNAL) == (ssize_t)strlen(ask))
		doc = names_reply(fd);
	(void)close(fd);	/* everything that was wanted was read */
	json_object_foreach(json_object_get(json_object_get(doc, "result"), "tenants"), name,
			    tenant) {
		const json_t *slot = json_object_get(tenant, "slot");

		if (json_is_integer(slot) && json_integer_value(slot) >= 0 &&
		    json_integer_value(slot) < TOOL_TENANTS)
			snprintf(n->name[json_integer_value(slot)], TOOL_NAME, "%s", name);
	}
	json_decref(doc);
}

const char *tool_tenant(const struct tool_names *n, uint64_t slot, char text[TOOL_NAME])
{
	if (slot < TOOL_TENANTS && n->name[slot][0])
		return n->name[slot];
	if (slot >= TOOL_TENANTS)
		return "-";
	snprintf(text, TOOL_NAME, "#%u", (unsigned)slot);
	return text;
}

int tool_tenant_slot(const struct tool_options *o, const struct tool_names *n)
{
	char *end;
	unsigned long slot;

	if (!o->tenant)
		return TOOL_TENANTS;
	for (unsigned i = 0; i < TOOL_TENANTS; i++)
		if (strcmp(n->name[i], o->tenant) == 0)
			return (int)i;
	if (o->tenant[0] == '#') {
		slot = strtoul(o->tenant + 1, &end, 10);
		if (o->tenant[1] && !*end && slot < TOOL_TENANTS)
			return (int)slot;
	}
	tool_say(o, "no tenant '%s': %s does not tell of one (larderctl tenant ls shows them; "
		 "#N names a slot of the ledger)", o->tenant, o->control);
	return -ENOENT;
}
