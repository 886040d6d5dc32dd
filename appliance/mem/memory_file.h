/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file of a memory directory: opened, given its space, mapped, touched. Each failure logs the
 * one line that says what to do about it, and returns -errno.
 */
#ifndef LARDER_MEM_MEMORY_FILE_H
#define LARDER_MEM_MEMORY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <larder/log.h>
#include <larder/memory.h>

struct memory_dir {
	const char *path;
	int fd;
	uint64_t block;			/* sizes are multiples of it: the huge page, or 4 KiB */
	bool hugetlbfs;
	bool tmpfs;
	const struct larder_log *log;
};

/* Opens (and makes, if asked) the directory, looks at what it lies on. @d->fd is the caller's. */
int memory_dir_open(const struct larder_memory_config *c, struct memory_dir *d);
/* Opens @name in @d, making it 0600 if absent. */
int memory_file_open(const struct memory_dir *d, const char *name, int *ret_fd);
/* Takes the space of @bytes: nothing that is stored later can fail for lack of it. */
int memory_file_allocate(const struct memory_dir *d, const char *name, int fd, uint64_t bytes);
/* @fd -1: anonymous. Aligned to 2 MiB where it is that long, so that huge pages can back it. */
int memory_map(const struct larder_log *log, int fd, uint64_t bytes, void **ret);
/* Makes every page present and writable without changing a byte of it; tells the progress. */
int memory_prefault(const struct larder_memory_config *c, void *base, uint64_t bytes,
		    uint64_t *done, uint64_t total);

#endif
