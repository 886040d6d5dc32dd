/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of larderfs. */
#ifndef FSVIEW_OPTIONS_H
#define FSVIEW_OPTIONS_H

#include "view.h"

#define OPTIONS_MOUNT_POINT "/run/larder/fs"
#define OPTIONS_URL "shm:///run/larder/larder.sock"
#define OPTIONS_CONTROL "/run/larder/control.sock"

enum larderfs_exit {
	LARDERFS_OK = 0,
	LARDERFS_FAILED = 1,
	LARDERFS_USAGE = 2,
	LARDERFS_MOUNT = 3,	/* the mount point can not be used, or is in use */
};

struct options {
	const char *mount_point, *url, *control, *fuse;
	uint32_t deadline_ms;
	enum view_who content, meta;
	struct view_group *groups;
};

/* -1: go on; else the exit code, after a line. */
int options_parse(int argc, char **argv, struct options *ret);
void options_done(struct options *o);

#endif
