/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of the control socket, one function each; commands.c has their table. */
#ifndef LARDER_DAEMON_COMMANDS_H
#define LARDER_DAEMON_COMMANDS_H

#include "daemon.h"

/* The whole reply: control_result or control_refusal. NULL: out of memory. */
typedef json_t *command_fn(struct daemon *d, const json_t *request, int *ret_fd);

json_t *command_tenants(struct daemon *d, const json_t *request, int *ret_fd);
json_t *command_connections(struct daemon *d, const json_t *request, int *ret_fd);
json_t *command_purge(struct daemon *d, const json_t *request, int *ret_fd);
json_t *command_quota(struct daemon *d, const json_t *request, int *ret_fd);
json_t *command_quota_set(struct daemon *d, const json_t *request, int *ret_fd);

#endif
