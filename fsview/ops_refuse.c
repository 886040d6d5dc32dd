/* SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"

#include <errno.h>

void ops_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	fuse_reply_err(req, EROFS);
}

void ops_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	fuse_reply_err(req, EROFS);
}

void ops_remove(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(req, EROFS);
}

void ops_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(req, EROFS);
}

void ops_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		const char *new_name, unsigned flags)
{
	fuse_reply_err(req, EROFS);
}

void ops_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(req, EROFS);
}

void ops_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		struct fuse_file_info *fi)
{
	fuse_reply_err(req, EROFS);
}

void ops_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int what,
		 struct fuse_file_info *fi)
{
	fuse_reply_err(req, EROFS);
}

void ops_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t off,
	       struct fuse_file_info *fi)
{
	fuse_reply_err(req, EROFS);
}

void ops_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		  int flags)
{
	fuse_reply_err(req, EROFS);
}

void ops_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	fuse_reply_err(req, EROFS);
}

void ops_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len,
		   struct fuse_file_info *fi)
{
	fuse_reply_err(req, EROFS);
}
