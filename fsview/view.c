/* SPDX-License-Identifier: Apache-2.0 */
#include "view.h"

#include <errno.h>
#include <string.h>

int view_place(struct view *v, uint64_t number, struct view_place *ret)
{
	int r = tree_number_split(number, &ret->node);

	if (r)
		return r;
	switch (ret->node.kind) {
	case TREE_TENANT:
		r = spaces_tenant(v->spaces, ret->node.index, &ret->tenant);
		break;
	case TREE_SPACE:
	case TREE_OBJECT:
		r = spaces_space(v->spaces, ret->node.index, &ret->space);
		if (!r && !ret->space.alive)
			r = -ESTALE;
		if (!r)
			r = spaces_tenant(v->spaces, ret->space.tenant, &ret->tenant);
		break;
	default:
		break;
	}
	return r ? -ESTALE : 0;
}

uint64_t view_number(const struct view_place *p)
{
	switch (p->node.kind) {
	case TREE_TENANT:
		return tree_number_tenant(p->node.index);
	case TREE_SPACE:
		return tree_number_space(p->node.index);
	default:
		return TREE_ROOT_NUMBER;
	}
}

static bool view_tenant_name(void *user, const char *name)
{
	struct view *v = user;

	/* over the table's end: told by the listing that it belongs to */
	(void)spaces_add_tenant(v->spaces, name);
	return true;
}

void view_more_tenants(void *view)
{
	struct view *v = view;

	/* without a ledger only tenants with namespaces are known */
	(void)ledger_tenants(v->ledger, view_tenant_name, v);
}

int view_list(struct view *v, uint32_t age_ms)
{
	return fetch_spaces(v->fetch, age_ms);
}

/* --- attributes ------------------------------------------------------------------------------ */

static gid_t view_gid(const struct view *v, const struct view_place *p)
{
	for (const struct view_group *g = v->groups; g; g = g->next)
		if (p->node.kind != TREE_ROOT && !strcmp(g->tenant, p->tenant.name))
			return g->gid;
	return 0;
}

static struct timespec view_time(uint64_t ms)
{
	return (struct timespec){ (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };
}

static void view_attr_times(struct stat *st, struct timespec t)
{
	st->st_mtim = st->st_ctim = st->st_atim = t;
}

uint64_t view_directory_ino(const struct view_place *p)
{
	switch (p->node.kind) {
	case TREE_TENANT:
		return tree_ino_tenant(p->tenant.name);
	case TREE_SPACE:
		return tree_ino_space(p->space.id);
	default:
		return tree_ino_root();
	}
}

void view_attr_directory(struct view *v, const struct view_place *p, struct stat *ret)
{
	bool root = p->node.kind == TREE_ROOT;
	mode_t mode = root || v->meta == VIEW_ALL ? 0555 : 0550;

	/* who may read what lies below gets through, without a list of what there is */
	if (v->content == VIEW_ALL)
		mode |= 0001;
	*ret = (struct stat){
		.st_ino = view_directory_ino(p),
		.st_mode = S_IFDIR | mode,
		.st_nlink = p->node.kind == TREE_SPACE ? 2 : 1,	/* 1: nobody counts */
		.st_gid = view_gid(v, p),
		.st_blksize = 4096,
	};
	view_attr_times(ret, p->node.kind == TREE_SPACE ? view_time(p->space.created_ms)
							 : v->since);
}

void view_attr_object(struct view *v, const struct view_place *p, const struct larder_stat *st,
		      uint32_t page_size, struct stat *ret)
{
	/* with --content=never, too: attributes of a file ask for the right to read */
	mode_t mode = v->content == VIEW_ALL ? 0444 : 0440;

	*ret = (struct stat){
		.st_ino = st->inode,
		.st_mode = S_IFREG | mode,
		.st_nlink = 1,
		.st_gid = view_gid(v, p),
		.st_size = (off_t)st->size_bytes,
		.st_blksize = LARDER_CHECK_BLOCK,
		/* whole pages are what it holds of the node's memory */
		.st_blocks = (blkcnt_t)((st->size_bytes + page_size - 1) / page_size *
					(page_size / 512)),
	};
	view_attr_times(ret, view_time(st->commit_time_ms));
}

void view_attr_snapshot(struct view *v, const struct view_place *parent, const struct snapshot *s,
			struct stat *ret)
{
	bool all = parent->node.kind == TREE_ROOT || v->meta == VIEW_ALL;

	*ret = (struct stat){
		.st_ino = s->ino,
		.st_mode = S_IFREG | (all ? 0444 : 0440),
		.st_nlink = 1,
		.st_gid = view_gid(v, parent),
		.st_size = (off_t)s->len,
		.st_blksize = 4096,
		.st_blocks = (blkcnt_t)((s->len + 511) / 512),
	};
	view_attr_times(ret, view_time(s->made_ms));
}

int view_snapshot(struct view *v, const struct view_place *dir, unsigned which,
		  struct snapshot *ret)
{
	const struct status_source source = { v->ledger, v->fetch, v->spaces, v->clock };
	uint64_t ino = tree_ino_status(view_directory_ino(dir), which);
	char *text = NULL;
	size_t len = 0;
	int r = snapshots_find(v->snapshots, ino, ret);

	if (!r)
		return 0;
	r = status_make(&source, which, &dir->tenant, &dir->space, &text, &len);
	if (r)
		return r;
	return snapshots_add(v->snapshots, ino, view_number(dir), text, len, ret);
}
