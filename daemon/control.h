/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: one JSON line in, one JSON line out (control_protocol.h), by peer
 * credentials. Runs on the control thread's event loop; never touches payload.
 */
#ifndef LARDER_DAEMON_CONTROL_H
#define LARDER_DAEMON_CONTROL_H

#include <systemd/sd-event.h>

#include <jansson.h>
#include <larder/log.h>
#include <larder/node.h>

struct control;

/* What the socket asks of the daemon; @user is handed through. */
struct control_calls {
	json_t *(*stats)(void *user);			/* a new reference; NULL: out of memory */
	/* NULL: *@ret_status says what was wrong with the request */
	json_t *(*why)(void *user, const json_t *request, int *ret_status);
	int (*drain)(void *user, bool on);		/* 0 or -errno */
	int (*reload)(void *user, char *error, size_t size); /* -errno: @error is the line */
	int (*ledger_fd)(void *user);			/* the caller closes it; -errno */
	void *user;
};

/* 0 or -errno after one log line. */
int control_open(sd_event *event, const char *path, const struct control_calls *calls,
		 const char *stats_group, const char *admin_group, const struct larder_log *log,
		 struct control **ret);
/* After a reload. */
int control_set_groups(struct control *c, const char *stats_group, const char *admin_group);
struct control *control_close(struct control *c);	/* always NULL */

#endif
