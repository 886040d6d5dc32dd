/* SPDX-License-Identifier: Apache-2.0 */
/* FUSE's requests: each is answered once, with what the node says or an errno. */
#ifndef FSVIEW_OPS_H
#define FSVIEW_OPS_H

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include "view.h"

/* The session's user data is the struct view. */
extern const struct fuse_lowlevel_ops ops;

/* Called first, once: the request's deadline counts from here. */
static inline struct view *ops_view(fuse_req_t req)
{
	struct view *v = fuse_req_userdata(req);

	fetch_begin(v->fetch);
	return v;
}

/* Fills @e for the object of @st in @dir. 0 or -EOVERFLOW. */
int ops_entry_object(struct view *v, const struct view_place *dir, const struct larder_stat *st,
		     uint32_t page_size, struct fuse_entry_param *e);
void ops_entry_directory(struct view *v, const struct view_place *p, struct fuse_entry_param *e);

/* fetch_node; when it is stale, the kernel's next look at its name asks the node. */
int ops_node(struct view *v, const struct view_place *p, struct tree_key *key,
	     struct larder_stat *st);

/* ops_dir.c */
void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void ops_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		     struct fuse_file_info *fi);
/* ops_xattr.c */
void ops_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
/*
 * ops_refuse.c: everything that would change something. The mount is read-only, so the kernel
 * refuses first; these are for one that was mounted again to be written.
 */
void ops_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void ops_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void ops_remove(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name);
void ops_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		const char *new_name, unsigned flags);
void ops_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void ops_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		struct fuse_file_info *fi);
void ops_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int what,
		 struct fuse_file_info *fi);
void ops_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t off,
	       struct fuse_file_info *fi);
void ops_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		  int flags);
void ops_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);
void ops_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len,
		   struct fuse_file_info *fi);
#define OPS_REFUSALS                                                                               \
	.mknod = ops_mknod, .mkdir = ops_mkdir, .unlink = ops_remove, .rmdir = ops_remove,         \
	.symlink = ops_symlink, .rename = ops_rename, .link = ops_link, .create = ops_create,      \
	.setattr = ops_setattr, .write = ops_write, .setxattr = ops_setxattr,                      \
	.removexattr = ops_removexattr, .fallocate = ops_fallocate,

#endif
