/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants of the running node: from their files, with the limits that were set since then. Of three
 * values of one limit the run-time one wins over the saved one, and that over the file's.
 *
 * Saved limits are in STATE_DIR/limits. Run-time ones end with the process; CONTROL_SOCKET.limits
 * remembers them so that a start after a crash can tell which ended.
 */
#ifndef LARDER_DAEMON_TENANTS_H
#define LARDER_DAEMON_TENANTS_H

#include <stdbool.h>

#include <larder/log.h>
#include <larder/node.h>

#include "tenants_file.h"

/* Not a tenant of a file: the limits of all viewers together. */
#define TENANTS_VIEW "_view"

struct tenants;

/* Where one tenant's limits come from. */
struct tenants_limits {
	struct limit_set file, saved, runtime;
	struct larder_limits effective;
};

/*
 * Reads what is saved, before the first load. @node may be NULL: only to see whether it can be
 * read. 0, or -errno with a sentence in @error, as all below.
 */
int tenants_open(struct larder_node *node, const char *state_dir, const char *control_socket,
		 const struct larder_log *log, struct tenants **ret, char *error, size_t size);
/*
 * The node serves, and nobody else has its control socket: tells the run-time values that ended
 * with a process that was killed.
 */
void tenants_started(struct tenants *t);
/* A clean stop: run-time values end, each with a line. Always NULL. */
struct tenants *tenants_close(struct tenants *t);
struct tenants *tenants_free(struct tenants *t);

/*
 * Reads every NAME.conf of @dir and gives it to the node: a new tenant is added, a known one gets
 * its new secrets, one that @dir no longer has is removed, with a line; all their limits change in
 * one step. All is read before anything is given, and a failure takes back what was: it changes
 * nothing. Returns the number of tenants.
 */
int tenants_load(struct tenants *t, const char *dir, char *error, size_t size);
/* Only reads. The number of tenants. */
int tenants_check(const char *dir, char *error, size_t size);

bool tenants_configured(const struct tenants *t, const char *name);
/* 0 or -ENOENT: it is not configured. */
int tenants_get_limits(const struct tenants *t, const char *name, struct tenants_limits *ret);
/*
 * Sets limits of one tenant and takes those back that @drop names: saved, or until the process
 * ends. -ENOENT: not configured; -EINVAL: values that can not be; else it could not be kept.
 */
int tenants_set_limits(struct tenants *t, const char *name, const struct limit_set *set,
		       uint32_t drop, bool runtime, char *error, size_t size);
/* Looks whether somebody wrote limits into the BPF map: they become run-time values. */
void tenants_look_at_map(struct tenants *t);
/* The tenant was purged: what was set for it goes, too. */
void tenants_forget(struct tenants *t, const char *name);

#endif
