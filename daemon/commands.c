/* SPDX-License-Identifier: Apache-2.0 */
/* From a request of the control socket (control_protocol.h) to what the daemon does for it. */
#include "commands.h"

#include <errno.h>
#include <string.h>

#include <larder/status.h>

#include "control_protocol.h"
#include "bus.h"
#include "notify.h"
#include "say.h"

static json_t *command_done(int r)
{
	return r ? control_refusal("INTERNAL", "%s", strerror(-r)) : control_result(json_object());
}

static json_t *command_ping(struct daemon *d, const json_t *request, int *ret_fd)
{
	return command_done(0);
}

static json_t *command_stats(struct daemon *d, const json_t *request, int *ret_fd)
{
	return control_result(daemon_stats(d));
}

static json_t *command_why(struct daemon *d, const json_t *request, int *ret_fd)
{
	int status;
	json_t *why = daemon_why(d, request, &status);

	if (why)
		return control_result(why);
	if (status == LARDER_BAD_REQUEST)
		return control_refusal("BAD_REQUEST", "why: wanted \"tenant\", and \"ns\" and "
						      "\"key\" as larderctl spells them");
	return control_refusal(larder_status_name(status), "%s", status == LARDER_NOT_FOUND ?
			       "no such tenant or namespace" : larder_status_text(status));
}

static json_t *command_ledger(struct daemon *d, const json_t *request, int *ret_fd)
{
	int fd = larder_node_ledger_fd(d->node);

	if (fd < 0)
		return command_done(fd);
	*ret_fd = fd;
	return command_done(0);
}

static json_t *command_set_drain(struct daemon *d, bool on)
{
	if (d->stopping && !on)
		return command_done(-EALREADY);
	say(&d->log, LARDER_LOG_INFO, on ? "draining: nothing new is taken" : "taking work again");
	larder_node_drain(d->node, on);
	notify_status(d->notify);
	bus_changed(d->bus);
	return command_done(0);
}

static json_t *command_drain(struct daemon *d, const json_t *request, int *ret_fd)
{
	return command_set_drain(d, true);
}

static json_t *command_undrain(struct daemon *d, const json_t *request, int *ret_fd)
{
	return command_set_drain(d, false);
}

static json_t *command_reload(struct daemon *d, const json_t *request, int *ret_fd)
{
	char error[1536] = "";
	int r = daemon_reload(d, error, sizeof(error));

	if (r)
		return control_refusal("BAD_REQUEST", "%s", error[0] ? error : strerror(-r));
	return command_done(0);
}

static const struct {
	const char *name;
	enum control_right right;
	command_fn *run;
} commands[] = {
	{ LARDER_CONTROL_PING, CONTROL_RIGHT_STATS, command_ping },
	{ LARDER_CONTROL_STATS, CONTROL_RIGHT_STATS, command_stats },
	{ LARDER_CONTROL_WHY, CONTROL_RIGHT_STATS, command_why },
	{ LARDER_CONTROL_LEDGER, CONTROL_RIGHT_STATS, command_ledger },
	{ LARDER_CONTROL_TENANTS, CONTROL_RIGHT_STATS, command_tenants },
	{ LARDER_CONTROL_CONNECTIONS, CONTROL_RIGHT_STATS, command_connections },
	{ LARDER_CONTROL_QUOTA, CONTROL_RIGHT_STATS, command_quota },
	{ LARDER_CONTROL_QUOTA_SET, CONTROL_RIGHT_ADMIN, command_quota_set },
	{ LARDER_CONTROL_PURGE, CONTROL_RIGHT_ADMIN, command_purge },
	{ LARDER_CONTROL_DRAIN, CONTROL_RIGHT_ADMIN, command_drain },
	{ LARDER_CONTROL_UNDRAIN, CONTROL_RIGHT_ADMIN, command_undrain },
	{ LARDER_CONTROL_RELOAD, CONTROL_RIGHT_ADMIN, command_reload },
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static json_t *command_unknown(void)
{
	char names[512] = "";

	for (size_t i = 0; i < COMMANDS; i++) {
		size_t n = strlen(names);

		(void)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
			       commands[i].name);
	}
	return control_refusal("UNSUPPORTED", "no such command: there are %s", names);
}

json_t *daemon_answer(void *user, enum control_right right, const char *cmd,
		      const json_t *request, int *ret_fd)
{
	/* who may ask nothing is not told what there is */
	if (right < CONTROL_RIGHT_STATS)
		return control_refusal("DENIED", "only root and the groups of control.stats_group "
						 "and control.admin_group may ask this node");
	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(commands[i].name, cmd) != 0)
			continue;
		if (right < commands[i].right)
			return control_refusal("DENIED", "only root and the group of "
					       "control.admin_group may administer this node");
		return commands[i].run(user, request, ret_fd);
	}
	return command_unknown();
}
