/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants from their directory: NAME.conf, one file each. */
#ifndef LARDER_DAEMON_TENANTS_H
#define LARDER_DAEMON_TENANTS_H

#include <larder/log.h>
#include <larder/node.h>

/* Names of the tenants that were loaded. */
struct tenants;

/*
 * Reads every NAME.conf of @dir and gives it to @node: a new tenant is added, a known one gets its
 * new secrets, one that *@loaded names and @dir no longer has is removed, with a line. *@loaded
 * (NULL at first) then names what there is now. All is read before anything is given, and a failure
 * takes back what was: it changes nothing. Returns the number of tenants, or -errno after one log
 * line that names the file and the mistake.
 */
int tenants_load(struct larder_node *node, const char *dir, const struct larder_log *log,
		 struct tenants **loaded);
/* Only reads: for --check. */
int tenants_check(const char *dir, const struct larder_log *log);
struct tenants *tenants_free(struct tenants *t);	/* always NULL */

#endif
