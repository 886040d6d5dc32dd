/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that were set while the node ran, by tenant, and the file that keeps them: once for those
 * that are saved, once for run-time values.
 */
#ifndef LARDER_DAEMON_OVERRIDES_H
#define LARDER_DAEMON_OVERRIDES_H

#include <stddef.h>

#include "tenants_file.h"

#define OVERRIDES_PATH 4096

struct override {
	char tenant[LARDER_TENANT_NAME_MAX + 1];
	struct limit_set set;
};

struct overrides {
	const char *what;		/* "saved", "run-time" */
	char path[OVERRIDES_PATH];
	size_t n;
	struct override *at;
};

/*
 * Fills @o from its file; an absent one holds nothing. 0, or -errno with a sentence in @error: what
 * is wrong with the file and what to do; @o is then empty.
 */
int overrides_read(struct overrides *o, char *error, size_t size);
/*
 * Makes the file say what @o does, in one step: after a crash it is the old one or the new one.
 * Nothing to say: no file. Its directory is made (0700) when it is not there. 0, or -errno with a
 * sentence.
 */
int overrides_write(const struct overrides *o, char *error, size_t size);

/* What is set for @tenant; never NULL. */
const struct limit_set *overrides_find(const struct overrides *o, const char *tenant);
/* Sets what @set gives and takes back what @drop names (bits by limit). 0 or -ENOMEM. */
int overrides_change(struct overrides *o, const char *tenant, const struct limit_set *set,
		     uint32_t drop);
void overrides_forget(struct overrides *o, const char *tenant);
/* @to becomes what @from is, path and all; its own entries are freed. 0 or -ENOMEM. */
int overrides_copy(struct overrides *to, const struct overrides *from);
void overrides_done(struct overrides *o);

#endif
