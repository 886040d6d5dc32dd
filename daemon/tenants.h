/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants from their directory: NAME.conf, one file each. */
#ifndef LARDER_DAEMON_TENANTS_H
#define LARDER_DAEMON_TENANTS_H

#include <larder/log.h>
#include <larder/node.h>

/*
 * Reads every NAME.conf of @dir and gives it to @node (a known tenant gets its new secrets).
 * Two passes: the first only reads, so that one bad file changes nothing. Returns the number of
 * tenants, or -errno after one log line that names the file and the mistake.
 */
int tenants_load(struct larder_node *node, const char *dir, const struct larder_log *log);
/* Only reads: for --check. */
int tenants_check(const char *dir, const struct larder_log *log);

#endif
