/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories. Nothing is kept between two calls: a place (tree.h) says where to go on, and the
 * answer is as long as FUSE has room for.
 *
 * Attributes come with the names (readdirplus) in the first answer about a directory, which is all
 * of a small one, and when somebody has looked up what a list told: du, ls -l, rsync. Else an entry
 * carries none, and FUSE makes no inode of it: find -type f and ls -f cost what the names cost.
 */
#include "ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of an answer that an entry takes about: how many to ask the node for. */
#define DIR_ENTRY 64u
#define DIR_ENTRY_PLUS 208u

struct dir_fill {
	fuse_req_t req;
	struct view *view;
	const struct view_place *dir;
	bool plus;		/* the answer's form */
	bool attributes;	/* and whether they are in it */
	uint32_t page_size;
	char *buffer;
	size_t size, used;
	bool full;
	int error;
};

/* False: no room. */
static bool dir_add(struct dir_fill *d, const char *name, const struct fuse_entry_param *e,
		    uint64_t next)
{
	size_t room = d->size - d->used;
	size_t n = d->plus ? fuse_add_direntry_plus(d->req, d->buffer + d->used, room, name, e,
						    (off_t)next)
			   : fuse_add_direntry(d->req, d->buffer + d->used, room, name, &e->attr,
					       (off_t)next);

	d->full = n > room;
	if (!d->full)
		d->used += n;
	return !d->full;
}

/* The dots and status files, whose number would be a look-up: none is given. */
static bool dir_add_plain(struct dir_fill *d, const char *name, uint64_t ino, mode_t type,
			  uint64_t next)
{
	const struct fuse_entry_param e = { .attr = { .st_ino = ino, .st_mode = type } };

	return dir_add(d, name, &e, next);
}

/* Everything before TREE_PLACE_REST. */
static bool dir_fill_first(struct dir_fill *d, uint64_t place)
{
	uint64_t ino = view_directory_ino(d->dir);
	int which;

	if (place == 0 && !dir_add_plain(d, ".", ino, S_IFDIR, 1))
		return false;
	if (place <= 1 && !dir_add_plain(d, "..", ino, S_IFDIR, TREE_PLACE_STATUS))
		return false;
	for (uint64_t at = place > TREE_PLACE_STATUS ? place : TREE_PLACE_STATUS;
	     at < TREE_PLACE_REST; at++) {
		which = tree_status_nth(d->dir->node.kind, (unsigned)(at - TREE_PLACE_STATUS));
		if (which < 0)
			break;
		if (!dir_add_plain(d, tree_status_name((unsigned)which),
				   tree_ino_status(ino, (unsigned)which), S_IFREG, at + 1))
			return false;
	}
	return true;
}

static bool dir_object(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	struct dir_fill *d = user;
	char name[TREE_NAME_SIZE];
	struct fuse_entry_param e;

	if (tree_key_format(key, key_len, name) < 0)
		return true;	/* the node has no such key */
	d->error = ops_entry_object(d->view, d->dir, st, d->page_size, &e);
	if (d->error)
		return false;
	if (!d->attributes)
		e.ino = 0;	/* the name alone */
	return dir_add(d, name, &e, tree_place_after_object(st->inode));
}

/* Pages without an entry are no end: the node looks at a bounded part of its records at a time. */
static int dir_fill_objects(struct dir_fill *d, uint64_t place)
{
	uint64_t cursor = tree_place_cursor(place);
	size_t begun = d->used;
	int r;

	do {
		uint32_t max = (uint32_t)((d->size - d->used) /
					  (d->plus ? DIR_ENTRY_PLUS : DIR_ENTRY)) + 1;

		r = fetch_list(d->view->fetch, &d->dir->space, &cursor, max, dir_object, d);
		if (r || d->error)
			return r ? r : d->error;
	} while (cursor && !d->full && d->used == begun);
	return 0;
}

static void dir_fill_tenants(struct dir_fill *d, uint32_t index)
{
	struct view_place p = { .node = { .kind = TREE_TENANT } };
	struct fuse_entry_param e;

	for (; !spaces_next_tenant(d->view->spaces, &index, &p.tenant); index++) {
		p.node.index = index;
		ops_entry_directory(d->view, &p, &e);
		if (!dir_add(d, p.tenant.name, &e, tree_place_of_cursor(index + 1)))
			return;
	}
}

static void dir_fill_spaces(struct dir_fill *d, uint32_t index)
{
	struct view_place p = { .node = { .kind = TREE_SPACE }, .tenant = d->dir->tenant };
	struct fuse_entry_param e;

	for (; !spaces_next_space(d->view->spaces, d->dir->node.index, &index, &p.space);
	     index++) {
		p.node.index = index;
		ops_entry_directory(d->view, &p, &e);
		if (!dir_add(d, p.space.text, &e, tree_place_of_cursor(index + 1)))
			return;
	}
}

static int dir_fill(struct dir_fill *d, uint64_t place)
{
	uint64_t index = tree_place_cursor(place);
	int r;

	if (place < TREE_PLACE_REST && !dir_fill_first(d, place))
		return 0;
	if (d->dir->node.kind == TREE_SPACE)
		return dir_fill_objects(d, place);
	r = view_list(d->view, VIEW_LIST_AGAIN_MS);
	if (r || index > UINT32_MAX)
		return r;
	if (d->dir->node.kind == TREE_ROOT)
		dir_fill_tenants(d, (uint32_t)index);
	else
		dir_fill_spaces(d, (uint32_t)index);
	return 0;
}

static void dir_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
	struct view_place dir;
	struct dir_fill d = { .req = req, .view = ops_view(req), .dir = &dir, .plus = plus };
	struct fetch_info info;
	int r = view_place(d.view, ino, &dir);

	if (!r && (dir.node.kind == TREE_OBJECT || dir.node.kind == TREE_STATUS))
		r = -ENOTDIR;
	d.attributes = plus && !r && (off < TREE_PLACE_REST ||
				      lookups_follow(d.view->lookups, dir.node.index));
	d.buffer = r ? NULL : malloc(size);
	d.size = size;
	if (!r && !d.buffer)
		r = -ENOMEM;
	if (!r) {
		fetch_get_info(d.view->fetch, &info);
		d.page_size = info.page_size;
		r = dir_fill(&d, (uint64_t)off);
	}
	/* entries before a failure may be another node's by now */
	if (r)
		fuse_reply_err(req, -r);
	else
		fuse_reply_buf(req, d.buffer, d.used);
	free(d.buffer);
}

void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	dir_read(req, ino, size, off, false);
}

void ops_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	dir_read(req, ino, size, off, true);
}
