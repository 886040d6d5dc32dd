/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants and namespaces as the view knows them. A place in a table belongs to one name while the
 * process lives (a namespace's is used again some minutes after it was retired), so that numbers
 * and places in directories stay what they are.
 *
 * Any thread; what is given out is a copy.
 */
#ifndef FSVIEW_SPACES_H
#define FSVIEW_SPACES_H

#include <stdbool.h>
#include <stdint.h>

#include <larder/client.h>

#include "process.h"
#include "tree.h"

#define SPACES_NAME_SIZE (LARDER_TENANT_NAME_MAX + 1u + LARDER_NS_NAME_MAX + 1u)
#define SPACES_TENANTS_MAX 1024u

struct tenant {
	char name[LARDER_TENANT_NAME_MAX + 1];
	uint32_t index;
	bool alive;
};

struct space {
	char listed[SPACES_NAME_SIZE];		/* "tenant:name" */
	char text[TREE_NAME_SIZE];		/* its directory */
	uint32_t index, tenant;			/* places in the tables */
	uint32_t id;				/* the node's */
	uint32_t flags;				/* LARDER_NS_SECOND_TOUCH */
	uint64_t created_ms, objects, bytes;
	uint32_t handle;			/* the library's; valid when opened */
	bool alive, opened;
	uint64_t gone_ns;			/* since when it is not alive */
};

struct spaces;

int spaces_new(const struct process_clock *clock, struct spaces **ret);
void spaces_free(struct spaces *s);

/*
 * A new listing: begin, add each, end. What was not added is gone, where @whole. Only one thread at
 * a time. Names that are no names are left out.
 */
void spaces_begin(struct spaces *s);
int spaces_add(struct spaces *s, const struct larder_ns_info *info);
int spaces_add_tenant(struct spaces *s, const char *name);
void spaces_end(struct spaces *s, bool whole);
/* When the last whole listing ended; 0: none did. */
uint64_t spaces_listed_ns(struct spaces *s);

/* By place, alive or not. 0 or -ENOENT. */
int spaces_tenant(struct spaces *s, uint32_t index, struct tenant *ret);
int spaces_space(struct spaces *s, uint32_t index, struct space *ret);
/* By name, alive. */
int spaces_find_tenant(struct spaces *s, const char *name, struct tenant *ret);
int spaces_find_space(struct spaces *s, uint32_t tenant, const char *text, struct space *ret);
/* The next alive one at or after *@index, which becomes its place. */
int spaces_next_tenant(struct spaces *s, uint32_t *index, struct tenant *ret);
/* @tenant UINT32_MAX: any. */
int spaces_next_space(struct spaces *s, uint32_t tenant, uint32_t *index, struct space *ret);
/* The namespace with @id at @index was opened as @handle. */
void spaces_opened(struct spaces *s, uint32_t index, uint32_t id, uint32_t handle);

#endif
