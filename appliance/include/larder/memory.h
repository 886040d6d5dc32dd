/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a node: the arena (pages of values) and the record file (what is in them).
 *
 * Two files in one directory on a mount of its own (tmpfs or hugetlbfs), "arena" and "records",
 * mode 0600, flocked for the life of the process, space taken by fallocate, pre-faulted with
 * progress. A second process on the same directory is refused by name (-EBUSY); a geometry that
 * differs from what is asked for, a damaged or cut record file, and whatever is not ours, are
 * refused with advice (-EPROTO), never wiped. New are only files that are absent or empty, and
 * those of a first open that did not come to its end.
 *
 * Thread rules: open and close from one thread; the node owns it between.
 */
#ifndef LARDER_MEMORY_H
#define LARDER_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <larder/log.h>

#ifdef __cplusplus
extern "C" {
#endif

struct larder_memory;

struct larder_memory_config {
	/* NULL: anonymous memory that dies with the process (tests, replay) */
	const char *dir;
	bool create_dir;	/* make @dir (0700) when it is absent; its parent must exist */
	bool any_filesystem;	/* allow a dir that is not tmpfs or hugetlbfs (tests) */
	uint64_t size_bytes;	/* of the arena; rounded up to pages. Or: */
	uint32_t pages;		/* that many pages; wins over size_bytes when not 0 */
	uint32_t page_size_bytes; /* 4 KiB to 2 MiB, power of two */
	uint32_t records;	/* 0: pages + pages / 8 + 1024 */
	uint32_t leases;	/* lease entries; 0: 65,536 */
	uint32_t namespaces;	/* directory entries; 0: 1,024 */
	uint64_t prefault_step_bytes; /* 0: 256 MiB; progress is told after each */
	void (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes); /* may be NULL */
	/* asked before each step; true: the open ends with -EINTR. May be NULL */
	bool (*cancelled)(void *user);
	void *user;
	const struct larder_log *log;
};

struct larder_memory_info {
	uint64_t arena_bytes;
	uint64_t records_bytes;		/* size of the record file */
	uint32_t pages;
	uint32_t page_size_bytes;
	uint32_t records;
	bool hugepages;
	bool fresh;			/* made by this open; false: found with content */
};

/*
 * 0, or: -EBUSY (in use; the log names the holder's pid when it can), -EPROTO (other geometry or
 * format, or damage), -ENOSPC / -ENOMEM (not enough memory: the log says how much is there and is
 * wanted), -EINVAL (values out of range), -EINTR (@cancelled), other -errno from the system. Each
 * failure logs one line. What a failed open had begun to make is taken back.
 */
int larder_memory_open(const struct larder_memory_config *config, struct larder_memory **ret);
/*
 * What of larder_memory_open can be told beforehand: values in range, no more memory than the
 * machine has, and, where @dir is there already, that it lies on a memory file system. Touches
 * nothing. 0 or -errno after one line.
 */
int larder_memory_check(const struct larder_memory_config *config);
/* NULL is fine. The content stays in the files. */
void larder_memory_close(struct larder_memory *mem);
void larder_memory_get_info(const struct larder_memory *mem, struct larder_memory_info *info);

#ifdef __cplusplus
}
#endif
#endif
