/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: one JSON line in, one JSON line out (control_protocol.h), by peer
 * credentials. Runs on the control thread's event loop; never touches payload. What the commands
 * are is the business of commands.c.
 */
#ifndef LARDER_DAEMON_CONTROL_H
#define LARDER_DAEMON_CONTROL_H

#include <systemd/sd-event.h>

#include <jansson.h>
#include <larder/log.h>

struct control;

/* What a peer may ask; each includes those before it. */
enum control_right { CONTROL_RIGHT_NONE, CONTROL_RIGHT_STATS, CONTROL_RIGHT_ADMIN };

/*
 * Answers one request: the whole reply, a new reference; NULL: out of memory. *@ret_fd, when set,
 * goes out with it and is closed then.
 */
typedef json_t *control_answer_fn(void *user, enum control_right right, const char *cmd,
				  const json_t *request, int *ret_fd);
/* Replies. @result is taken over; NULL makes a NULL. */
json_t *control_result(json_t *result);
json_t *control_refusal(const char *status, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* 0 or -errno after one log line. */
int control_open(sd_event *event, const char *path, control_answer_fn *answer, void *user,
		 const char *stats_group, const char *admin_group, const struct larder_log *log,
		 struct control **ret);
/* After a reload. */
int control_set_groups(struct control *c, const char *stats_group, const char *admin_group);
struct control *control_close(struct control *c);	/* always NULL */

#endif
