/* SPDX-License-Identifier: Apache-2.0 */
/* One mounted view: what its parts share, who may see what, and attributes. */
#ifndef FSVIEW_VIEW_H
#define FSVIEW_VIEW_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "fetch.h"
#include "ledger.h"
#include "lookups.h"
#include "snapshots.h"
#include "spaces.h"
#include "status.h"
#include "tree.h"
#include "windows.h"

#define VIEW_NAME_TIMEOUT_S 1.0		/* that the kernel believes a name */
#define VIEW_OBJECT_TIMEOUT_S 86400.0	/* and what it knows of an object, which never changes */
#define VIEW_HEART_MS 1200u		/* between two beats of a node, which are a second apart */
#define VIEW_LIST_MS 1000u		/* age of the listing of namespaces */
#define VIEW_LIST_AGAIN_MS 50u		/* the same when a name is not in it */

enum view_who { VIEW_NEVER, VIEW_OWNER, VIEW_ALL };

struct view_group {
	const char *tenant;
	gid_t gid;
	struct view_group *next;
};

struct view {
	const struct process_clock *clock;
	struct spaces *spaces;
	struct fetch *fetch;
	struct ledger *ledger;
	struct lookups *lookups;
	struct windows *windows;
	struct snapshots *snapshots;
	enum view_who content, meta;
	const struct view_group *groups;
	struct timespec since;		/* time of the directories that have none of their own */
};

/* What a number stands for, as far as the view's tables know it. */
struct view_place {
	struct tree_node node;
	struct tenant tenant;	/* not of the root */
	struct space space;	/* of namespaces and objects */
};
/* -ESTALE: it is gone. */
int view_place(struct view *v, uint64_t number, struct view_place *ret);
uint64_t view_number(const struct view_place *p);
/* Lists namespaces when the last listing is older than that. */
int view_list(struct view *v, uint32_t age_ms);
/* Tells the fetcher's listing of the tenants that have no namespace. */
void view_more_tenants(void *view);

/* Attributes. Of a directory: the root, a tenant's, a namespace's. */
void view_attr_directory(struct view *v, const struct view_place *p, struct stat *ret);
void view_attr_object(struct view *v, const struct view_place *p, const struct larder_stat *st,
		      uint32_t page_size, struct stat *ret);
void view_attr_snapshot(struct view *v, const struct view_place *parent, const struct snapshot *s,
			struct stat *ret);
uint64_t view_directory_ino(const struct view_place *p);

/* The @which status file of @dir, made if there is no fresh one; one more reference. */
int view_snapshot(struct view *v, const struct view_place *dir, unsigned which,
		  struct snapshot *ret);

#endif
