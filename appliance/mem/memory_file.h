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

/* How far both files are: each byte is given its space once, and made present once. */
struct memory_work {
	const struct larder_memory_config *config;
	uint64_t total;			/* bytes of both files */
	uint64_t done;			/* of 2 * total */
};
/* @bytes more are done. 0, or -EINTR after one line: that is enough. */
int memory_work_step(struct memory_work *w, uint64_t bytes);

/* Refuses more than the machine has: taking it would call the out-of-memory killer. */
int memory_fits_machine(const struct memory_dir *d, const char *name, uint64_t bytes);
/* Opens (and makes, if asked) the directory, looks at what it lies on. @d->fd is the caller's. */
int memory_dir_open(const struct larder_memory_config *c, struct memory_dir *d);
/* Opens @name in @d, making it 0600 if absent. */
int memory_file_open(const struct memory_dir *d, const char *name, int *ret_fd);
/* It holds other people's values: whatever its mode was, it is 0600 now. For what is ours. */
int memory_file_close_off(const struct memory_dir *d, const char *name, int fd);
/* Takes the space of @bytes: nothing that is stored later can fail for lack of it. @w: or NULL. */
int memory_file_allocate(const struct memory_dir *d, const char *name, int fd, uint64_t bytes,
			 struct memory_work *w);
/* @fd -1: anonymous. Aligned to 2 MiB where it is that long, so that huge pages can back it. */
int memory_map(const struct larder_log *log, int fd, uint64_t bytes, void **ret);
/* Makes every page present and writable without changing a byte of it. */
int memory_prefault(struct memory_work *w, void *base, uint64_t bytes);

#endif
