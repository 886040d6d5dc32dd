/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the dot files say. Each is made once, as JSON; the text that a person reads is the same
 * figures, one a line, with units.
 */
#ifndef FSVIEW_STATUS_H
#define FSVIEW_STATUS_H

#include <stddef.h>

#include "fetch.h"
#include "ledger.h"
#include "spaces.h"
#include "tree.h"

struct status_source {
	struct ledger *ledger;
	struct fetch *fetch;
	struct spaces *spaces;
	const struct process_clock *clock;
};

/*
 * The content of @which, in memory of its own. @tenant of a tenant's and a namespace's file, @space
 * of a namespace's. 0 or -errno.
 */
int status_make(const struct status_source *s, enum tree_status which, const struct tenant *tenant,
		const struct space *space, char **ret, size_t *ret_len);

#endif
