/* SPDX-License-Identifier: Apache-2.0 */
/* One question at the node's control socket (daemon/control_protocol.h). */
#ifndef FSVIEW_CONTROL_H
#define FSVIEW_CONTROL_H

#include <jansson.h>

#include "process.h"

/*
 * Asks {"cmd": @cmd} and waits at most @timeout_ms. *@ret_fd (may be NULL): the descriptor that
 * came with the answer, or -1. 0; -EACCES: refused; -errno.
 */
int control_ask(const char *path, const char *cmd, unsigned timeout_ms,
		const struct process_clock *clock, json_t **ret, int *ret_fd);

#endif
