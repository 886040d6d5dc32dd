/* SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static void ops_init(void *user, struct fuse_conn_info *conn)
{
	conn->want |= conn->capable & (FUSE_CAP_READDIRPLUS | FUSE_CAP_PARALLEL_DIROPS |
				       FUSE_CAP_ASYNC_DIO);
	/*
	 * Attributes with the list: who wants them is found out here (ops_dir.c). The kernel's own
	 * guess is good for one answer after each look-up, and du(1) lists thousands of names
	 * before it looks.
	 */
	conn->want &= ~FUSE_CAP_READDIRPLUS_AUTO;
	/* an object's bytes stay; that its size may change is for others */
	conn->want &= ~(FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_SPLICE_READ);
	conn->max_readahead = WINDOWS_READ_MAX;
	conn->max_background = 16;
}

/* --- names ----------------------------------------------------------------------------------- */

int ops_entry_object(struct view *v, const struct view_place *dir, const struct larder_stat *st,
		     uint32_t page_size, struct fuse_entry_param *e)
{
	uint64_t number;
	int r = tree_number_object(dir->node.index, st->inode, &number);

	if (r)
		return r;
	*e = (struct fuse_entry_param){
		.ino = number,
		/* all of it: what is left out of the number can not be mistaken either */
		.generation = tree_inode_generation(st->inode),
		.attr_timeout = VIEW_OBJECT_TIMEOUT_S,
		.entry_timeout = VIEW_NAME_TIMEOUT_S,
	};
	view_attr_object(v, dir, st, page_size, &e->attr);
	return 0;
}

void ops_entry_directory(struct view *v, const struct view_place *p, struct fuse_entry_param *e)
{
	*e = (struct fuse_entry_param){
		.ino = view_number(p),
		.generation = p->node.kind == TREE_SPACE ? p->space.created_ms : 0,
		.attr_timeout = VIEW_NAME_TIMEOUT_S,
		.entry_timeout = VIEW_NAME_TIMEOUT_S,
	};
	view_attr_directory(v, p, &e->attr);
}

static int ops_lookup_object(struct view *v, const struct view_place *dir, const char *name,
			     struct fuse_entry_param *e)
{
	struct fetch_info info;
	struct larder_stat st;
	struct tree_key key;
	uint32_t age_ms;
	bool is_hash;
	int r = tree_key_parse(name, &key);

	if (r)
		return r;
	is_hash = key.is_hash;
	r = lookups_stat(v->lookups, &dir->space, &key, &st, &age_ms);
	if (r)
		return r;
	if (is_hash && !tree_key_names(name, key.bytes, key.len))
		return -ENOENT;
	fetch_get_info(v->fetch, &info);
	r = ops_entry_object(v, dir, &st, info.page_size, e);
	e->entry_timeout -= age_ms / 1e3;
	return r;
}

/* A tenant or a namespace in the tables. */
static int ops_find(struct view *v, const struct view_place *dir, const char *name,
		    struct view_place *ret)
{
	int r;

	*ret = (struct view_place){ .node = { .kind = TREE_TENANT } };
	if (dir->node.kind == TREE_ROOT) {
		r = spaces_find_tenant(v->spaces, name, &ret->tenant);
		ret->node.index = ret->tenant.index;
		return r;
	}
	ret->node.kind = TREE_SPACE;
	ret->tenant = dir->tenant;
	r = spaces_find_space(v->spaces, dir->node.index, name, &ret->space);
	ret->node.index = ret->space.index;
	return r;
}

static int ops_lookup_directory(struct view *v, const struct view_place *dir, const char *name,
				struct fuse_entry_param *e)
{
	struct view_place found;
	int r = view_list(v, VIEW_LIST_MS);

	if (r)
		return r;
	r = ops_find(v, dir, name, &found);
	if (r) {	/* it may be new */
		r = view_list(v, VIEW_LIST_AGAIN_MS);
		if (!r)
			r = ops_find(v, dir, name, &found);
	}
	if (!r)
		ops_entry_directory(v, &found, e);
	return r;
}

static int ops_lookup_status(struct view *v, const struct view_place *dir, unsigned which,
			     struct fuse_entry_param *e)
{
	struct snapshot s;
	int r = view_snapshot(v, dir, which, &s);

	if (r)
		return r;
	*e = (struct fuse_entry_param){
		.ino = tree_number_status(s.serial),
		.attr_timeout = VIEW_OBJECT_TIMEOUT_S,
		.entry_timeout = 0,	/* the next look is another snapshot */
	};
	view_attr_snapshot(v, dir, &s, &e->attr);
	return 0;
}

static void ops_forget_one(struct view *v, fuse_ino_t ino, uint64_t n)
{
	struct tree_node node;

	/* all others are nothing that was kept */
	if (!tree_number_split(ino, &node) && node.kind == TREE_STATUS)
		snapshots_forget(v->snapshots, node.serial, n);
}

static void ops_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct view *v = ops_view(req);
	struct fuse_entry_param e;
	struct view_place dir;
	int which, r = view_place(v, parent, &dir);

	if (r) {
		fuse_reply_err(req, -r);
		return;
	}
	which = tree_status_find(dir.node.kind, name);
	if (which >= 0)
		r = ops_lookup_status(v, &dir, (unsigned)which, &e);
	else if (dir.node.kind == TREE_SPACE)
		r = ops_lookup_object(v, &dir, name, &e);
	else
		r = ops_lookup_directory(v, &dir, name, &e);
	if (r)
		fuse_reply_err(req, -r);
	else if (fuse_reply_entry(req, &e) < 0 && which >= 0)
		ops_forget_one(v, e.ino, 1);
}

static void ops_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	ops_forget_one(ops_view(req), ino, n);
	fuse_reply_none(req);
}

static void ops_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		ops_forget_one(ops_view(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

/* --- attributes ------------------------------------------------------------------------------ */

static int ops_attr_status(struct view *v, const struct tree_node *node, struct stat *ret)
{
	struct view_place parent;
	struct snapshot s;
	int r = snapshots_get(v->snapshots, node->serial, &s);

	if (r)
		return r;
	r = view_place(v, s.parent, &parent);
	if (!r)
		view_attr_snapshot(v, &parent, &s, ret);
	snapshots_put(v->snapshots, node->serial);
	return r;
}

int ops_node(struct view *v, const struct view_place *p, struct tree_key *key,
	     struct larder_stat *st)
{
	int r = fetch_node(v->fetch, &p->space, &p->node, key, st);

	/* the kernel looks the name up again now, and what is known of it is wrong */
	if (r == -ESTALE)
		lookups_drop(v->lookups, p->space.index);
	return r;
}

static int ops_attr_object(struct view *v, const struct view_place *p, struct stat *ret)
{
	struct fetch_info info;
	struct larder_stat st;
	struct tree_key key;
	int r = ops_node(v, p, &key, &st);

	if (r)
		return r;
	fetch_get_info(v->fetch, &info);
	view_attr_object(v, p, &st, info.page_size, ret);
	return 0;
}

static void ops_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct view *v = ops_view(req);
	double timeout = VIEW_OBJECT_TIMEOUT_S;
	struct view_place p;
	struct stat st;
	int r = view_place(v, ino, &p);

	if (!r && p.node.kind == TREE_OBJECT) {
		r = ops_attr_object(v, &p, &st);
	} else if (!r && p.node.kind == TREE_STATUS) {
		r = ops_attr_status(v, &p.node, &st);
	} else if (!r) {
		timeout = VIEW_NAME_TIMEOUT_S;
		view_attr_directory(v, &p, &st);
	}
	if (r)
		fuse_reply_err(req, -r);
	else
		fuse_reply_attr(req, &st, timeout);
}

/*
 * The node's end is known by its connection at once, by the ledger only later. Without a connection
 * (it may not be made yet) a heart that still beats tells that it lives.
 */
static bool ops_node_ended(struct view *v, const struct ledger_node *n)
{
	uint64_t now = v->clock->monotonic_ns();
	struct fetch_info info;

	fetch_get_info(v->fetch, &info);
	return !info.connected && now > n->section.heartbeat_ns &&
	       now - n->section.heartbeat_ns > VIEW_HEART_MS * NSEC_PER_MSEC;
}

/* The ledger's memory answers: the node is not asked. */
static void ops_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct view *v = ops_view(req);
	struct ledger_node n;
	struct statvfs s = { .f_namemax = LARDER_KEY_NAME_MAX, .f_flag = ST_RDONLY };
	int r = ledger_node(v->ledger, &n);

	if (!r && ops_node_ended(v, &n))
		r = -EIO;
	if (r) {
		fuse_reply_err(req, -r);
		return;
	}
	s.f_bsize = s.f_frsize = n.section.page_size_bytes;
	s.f_blocks = n.section.pages;
	s.f_bfree = s.f_bavail = n.section.pages_free;
	s.f_files = n.section.objects + n.section.records_free;
	s.f_ffree = s.f_favail = n.section.records_free;
	fuse_reply_statfs(req, &s);
}

/* --- content --------------------------------------------------------------------------------- */

static int ops_open_object(struct view *v, const struct view_place *p, struct fuse_file_info *fi)
{
	struct windows_file *file;
	struct larder_stat st;
	int r;

	if (v->content == VIEW_NEVER)
		return -EACCES;
	file = malloc(sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->users = 1;
	/* gone or another object: ESTALE makes the kernel look the name up again */
	r = ops_node(v, p, &file->key, &st);
	if (!r) {
		file->space = p->space;
		file->inode = st.inode;
		file->size = st.size_bytes;
		r = windows_hold(v->windows, file);
	}
	if (r == -ESTALE)
		lookups_drop(v->lookups, p->space.index);
	if (r) {
		free(file);
		return r;
	}
	fi->fh = (uintptr_t)file;
	return 0;
}

/* A reader may close its file before the thread that answered it has come back from doing so. */
static void ops_done(struct view *v, struct windows_file *file)
{
	if (__atomic_sub_fetch(&file->users, 1, __ATOMIC_ACQ_REL))
		return;
	if (file->held)
		windows_let_go(v->windows, file);
	free(file);
}

static void ops_close(struct view *v, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct tree_node node;

	if (fi->fh)
		ops_done(v, (void *)(uintptr_t)fi->fh);
	else if (!tree_number_split(ino, &node) && node.kind == TREE_STATUS)
		snapshots_put(v->snapshots, node.serial);
}

static void ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct view *v = ops_view(req);
	struct view_place p;
	struct snapshot s;
	int r = view_place(v, ino, &p);

	fi->fh = 0;
	fi->keep_cache = 1;	/* the number is of these bytes and never of others */
	if (!r && (fi->flags & O_ACCMODE) != O_RDONLY)
		r = -EROFS;
	if (!r && p.node.kind == TREE_OBJECT)
		r = ops_open_object(v, &p, fi);
	else if (!r && p.node.kind == TREE_STATUS)
		r = snapshots_get(v->snapshots, p.node.serial, &s);	/* until it is closed */
	if (r)
		fuse_reply_err(req, -r);
	else if (fuse_reply_open(req, fi) < 0)
		ops_close(v, ino, fi);
}

static void ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	ops_close(ops_view(req), ino, fi);
	fuse_reply_err(req, 0);
}

static void ops_read_status(fuse_req_t req, const struct tree_node *node, size_t size, off_t off)
{
	struct view *v = ops_view(req);
	struct snapshot s;
	int r = snapshots_get(v->snapshots, node->serial, &s);

	if (r) {
		fuse_reply_err(req, -r);
		return;
	}
	if ((uint64_t)off >= s.len)
		size = 0;
	else if (size > s.len - (uint64_t)off)
		size = s.len - (size_t)off;
	fuse_reply_buf(req, size ? s.text + off : NULL, size);
	snapshots_put(v->snapshots, node->serial);
}

static void ops_read_object(fuse_req_t req, const struct windows_file *file, size_t size, off_t off)
{
	struct view *v = ops_view(req);
	struct window *window;
	const void *bytes;
	int r;

	if ((uint64_t)off >= file->size) {
		fuse_reply_buf(req, NULL, 0);
		return;
	}
	if (size > file->size - (uint64_t)off)
		size = (size_t)(file->size - (uint64_t)off);
	if (file->held) {
		fuse_reply_buf(req, (const char *)file->held + off, size);
		return;
	}
	if (size > WINDOWS_READ_MAX) {	/* FUSE's own limit is not higher */
		fuse_reply_err(req, EIO);
		return;
	}
	r = windows_get(v->windows, file, (uint64_t)off, size, &window, &bytes);
	if (r) {
		fuse_reply_err(req, -r);
		return;
	}
	fuse_reply_buf(req, bytes, size);
	windows_put(v->windows, window);
}

static void ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	struct windows_file *file = (void *)(uintptr_t)fi->fh;
	struct tree_node node;

	if (!tree_number_split(ino, &node) && node.kind == TREE_STATUS) {
		ops_read_status(req, &node, size, off);
	} else if (!file) {
		fuse_reply_err(req, EISDIR);
	} else {
		struct view *v = ops_view(req);

		(void)__atomic_add_fetch(&file->users, 1, __ATOMIC_RELAXED);
		ops_read_object(req, file, size, off);
		ops_done(v, file);
	}
}

const struct fuse_lowlevel_ops ops = {
	.init = ops_init,
	.lookup = ops_lookup,
	.forget = ops_forget,
	.forget_multi = ops_forget_multi,
	.getattr = ops_getattr,
	.statfs = ops_statfs,
	.open = ops_open,
	.read = ops_read,
	.release = ops_release,
	.readdir = ops_readdir,
	.readdirplus = ops_readdirplus,
	.getxattr = ops_getxattr,
	.listxattr = ops_listxattr,
	OPS_REFUSALS
};
