/* SPDX-License-Identifier: Apache-2.0 */
/* The asking side of the daemon's control socket (control_protocol.h). */
#ifndef LARDERCTL_CONTROL_H
#define LARDERCTL_CONTROL_H

#include <stdint.h>

#include <jansson.h>

#include "ctl/ctl.h"

/*
 * Sends @request (taken over; NULL: out of memory) and gives the reply's "result" as control_ask.
 */
int control_request(const struct ctl *ctl, const char *what, json_t *request, json_t **ret_result,
		    int *ret_fd);
/*
 * Asks @cmd and gives the reply's "result" (a new reference). @ret_fd, when not NULL, gets the
 * descriptor that came with it, or -1. @what opens the line that tells a fault. The exit code.
 */
int control_ask(const struct ctl *ctl, const char *what, const char *cmd, json_t **ret_result,
		int *ret_fd);

/* The status that @name spells; -1 when it is none. */
int control_status(const char *name);

#endif
