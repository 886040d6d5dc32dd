/* SPDX-License-Identifier: Apache-2.0 */
/* The place of the view in the file system: cleaned before, never stacked. */
#ifndef FSVIEW_MOUNT_H
#define FSVIEW_MOUNT_H

#define MOUNT_TYPE "fuse.larder"

/*
 * Makes @path ready to be mounted on: makes the folder if it is not there, takes away what a dead
 * larderfs left. A descriptor to be kept while it is mounted, which keeps others from it; -EBUSY:
 * something that lives is mounted there, or is about to be; -errno. A line was said.
 */
int mount_prepare(const char *path);

#endif
