/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a memory directory. Memory files fail late by nature: a tmpfs hands out pages at the
 * first touch, a hugetlbfs at the mapping, and the answer is a signal. So the space is taken by
 * fallocate before anything is mapped, and a lack of it is an error with figures, at start.
 *
 * Huge pages: a hugetlbfs gives them by itself. On a tmpfs the mount decides (with huge=within_size
 * or huge=always fallocate takes them); where the kernel's shmem_enabled allows it, khugepaged
 * collapses the rest by advice. The mapping is aligned so that either has effect. MADV_COLLAPSE is
 * not used: it copies all of memory once more at a start that people wait for.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>

#include "base/compiler.h"
#include "base/log.h"
#include "mem/memory_file.h"

#define MEMORY_HUGE_PAGE (2ull << 20)
#define MEMORY_SMALL_PAGE 4096ull
#define MEMORY_STEP (256ull << 20)
#define MEMORY_MIB ((uint64_t)1 << 20)

#ifndef MADV_POPULATE_WRITE		/* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

static int memory_dir_kind(const struct larder_memory_config *c, struct memory_dir *d)
{
	struct statfs fs;

	if (fstatfs(d->fd, &fs) < 0) {
		int e = -errno;

		log_err(d->log, "memory: %s: can not be examined: %m", d->path);
		return e;
	}
	d->hugetlbfs = fs.f_type == HUGETLBFS_MAGIC;
	d->tmpfs = fs.f_type == TMPFS_MAGIC;
	d->block = d->hugetlbfs ? (uint64_t)fs.f_bsize : MEMORY_SMALL_PAGE;
	if (!d->hugetlbfs && !d->tmpfs && !c->any_filesystem) {
		log_err(d->log, "memory: %s: lies on a file system of type 0x%lx, which is neither "
			"tmpfs nor hugetlbfs: mount one there or choose another directory",
			d->path, (unsigned long)fs.f_type);
		return -EINVAL;
	}
	return 0;
}

int memory_dir_open(const struct larder_memory_config *c, struct memory_dir *d)
{
	_cleanup_close_ int fd = -1;
	int r;

	*d = (struct memory_dir){ .path = c->dir, .fd = -1, .log = c->log };
	if (c->create_dir && mkdir(c->dir, 0700) < 0 && errno != EEXIST) {
		r = -errno;
		log_err(d->log, "memory: %s: can not be made: %m", d->path);
		return r;
	}
	fd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		r = -errno;
		log_err(d->log, "memory: %s: can not be opened: %m", d->path);
		return r;
	}
	d->fd = fd;
	r = memory_dir_kind(c, d);
	d->fd = -1;
	if (r < 0)
		return r;
	d->fd = TAKE_FD(fd);
	return 0;
}

int memory_file_open(const struct memory_dir *d, const char *name, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r;

	fd = openat(d->fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || fstat(fd, &st) < 0) {
		r = -errno;
		log_err(d->log, "memory: %s/%s: can not be opened: %m", d->path, name);
		return r;
	}
	if (!S_ISREG(st.st_mode)) {
		log_err(d->log, "memory: %s/%s: is not a regular file", d->path, name);
		return -EINVAL;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int memory_file_close_off(const struct memory_dir *d, const char *name, int fd)
{
	int r = fchmod(fd, 0600) < 0 ? -errno : 0;

	if (r < 0)
		log_err(d->log, "memory: %s/%s: its mode can not be set to 0600: %m", d->path,
			name);
	return r;
}

/* The line for a lack of space, with the figures that the system gives. Returns @e. */
static int memory_no_space(const struct memory_dir *d, const char *name, uint64_t bytes, int e)
{
	struct statfs fs = { 0 };
	uint64_t unit;

	if (fstatfs(d->fd, &fs) < 0)
		fs = (struct statfs){ 0 };
	unit = (uint64_t)fs.f_bsize;
	if (d->hugetlbfs)
		log_err(d->log, "memory: %s/%s: wants %" PRIu64 " huge pages of %" PRIu64
			" KiB, which the kernel does not have free: raise vm.nr_hugepages%s or "
			"lower memory.size", d->path, name, bytes / d->block, d->block / 1024,
			fs.f_blocks ? ", the size of the mount," : "");
	else
		log_err(d->log, "memory: %s/%s: wants %" PRIu64 " MiB, %" PRIu64 " of %" PRIu64
			" MiB are free: enlarge the file system or lower memory.size", d->path,
			name, (bytes + MEMORY_MIB - 1) / MEMORY_MIB, fs.f_bfree * unit / MEMORY_MIB,
			fs.f_blocks * unit / MEMORY_MIB);
	return e;
}

/* A tmpfs may be larger than the machine: fallocate would call the out-of-memory killer. */
int memory_fits_machine(const struct memory_dir *d, const char *name, uint64_t bytes)
{
	struct sysinfo si;
	uint64_t total;

	if (!d->tmpfs || sysinfo(&si) < 0)
		return 0;
	total = ((uint64_t)si.totalram + si.totalswap) * si.mem_unit;
	if (bytes <= total)
		return 0;
	log_err(d->log, "memory: %s/%s: wants %" PRIu64 " MiB, the machine has %" PRIu64
		" MiB: lower memory.size", d->path, name, bytes / MEMORY_MIB, total / MEMORY_MIB);
	return -ENOMEM;
}

int memory_work_step(struct memory_work *w, uint64_t bytes)
{
	const struct larder_memory_config *c = w->config;

	w->done += bytes;
	if (bytes > 0 && c->progress)
		c->progress(c->user, w->done / 2, w->total);
	if (!c->cancelled || !c->cancelled(c->user))
		return 0;
	log_notice(c->log, "memory: stopped as asked, with %" PRIu64 " of %" PRIu64 " MiB taken",
		   w->done / 2 / MEMORY_MIB, w->total / MEMORY_MIB);
	return -EINTR;
}

static uint64_t memory_step_bytes(const struct larder_memory_config *c)
{
	uint64_t step = c->prefault_step_bytes ? c->prefault_step_bytes : MEMORY_STEP;

	return ALIGN_UP(step, MEMORY_HUGE_PAGE);
}

/* In steps: a tmpfs clears each page here, which takes seconds for each few GiB. */
static int memory_allocate_steps(int fd, uint64_t bytes, uint64_t step, struct memory_work *w)
{
	uint64_t at = 0;
	int r = w ? memory_work_step(w, 0) : 0;

	while (r == 0 && at < bytes) {
		uint64_t n = MIN(step, bytes - at);

		if (fallocate(fd, 0, (off_t)at, (off_t)n) < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		at += n;
		r = w ? memory_work_step(w, n) : 0;
	}
	return r;
}

int memory_file_allocate(const struct memory_dir *d, const char *name, int fd, uint64_t bytes,
			 struct memory_work *w)
{
	uint64_t step = w ? memory_step_bytes(w->config) : MEMORY_STEP;
	struct stat st;
	int r;

	if (fstat(fd, &st) == 0 && (uint64_t)st.st_size == bytes &&
	    (uint64_t)st.st_blocks * 512 >= bytes)
		return w ? memory_work_step(w, bytes) : 0;	/* there from last time */
	if (bytes > INT64_MAX)
		return memory_no_space(d, name, bytes, -ENOSPC);
	r = memory_fits_machine(d, name, bytes);
	if (r < 0)
		return r;
	r = memory_allocate_steps(fd, bytes, ALIGN_UP(step, d->block), w);
	if (r == -EOPNOTSUPP && !d->tmpfs && !d->hugetlbfs) {	/* any_filesystem, for tests */
		r = ftruncate(fd, (off_t)bytes) < 0 ? -errno : 0;
		if (r == 0 && w)
			r = memory_work_step(w, bytes);
	}
	if (r == -EINTR)
		return r;	/* told already */
	if (r == -ENOSPC || r == -ENOMEM)
		return memory_no_space(d, name, bytes, r);
	if (r < 0) {
		errno = -r;
		log_err(d->log, "memory: %s/%s: can not be given its space: %m", d->path, name);
	}
	return r;
}

int memory_map(const struct larder_log *log, int fd, uint64_t bytes, void **ret)
{
	uint64_t slack = bytes >= MEMORY_HUGE_PAGE ? MEMORY_HUGE_PAGE : 0;
	int flags = MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS | MAP_NORESERVE : 0);
	uint8_t *room, *at;
	int r;

	/* reserve more than is needed, map at the aligned place inside, give the rest back */
	room = mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	if (room == MAP_FAILED)
		goto failed;
	at = slack ? (uint8_t *)ALIGN_UP((uintptr_t)room, (uintptr_t)MEMORY_HUGE_PAGE) : room;
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) == MAP_FAILED) {
		r = errno;
		(void)munmap(room, bytes + slack);	/* can not fail: it is what was mapped */
		errno = r;
		goto failed;
	}
	if (at != room)
		(void)munmap(room, (size_t)(at - room));
	if (slack && at + bytes != room + bytes + slack)
		(void)munmap(at + bytes, (size_t)(room + slack - at));
	*ret = at;
	return 0;
failed:
	r = -errno;
	log_err(log, "memory: %" PRIu64 " MiB can not be mapped: %m%s", bytes / MEMORY_MIB,
		r == -ENOMEM ? " (address space limit, or huge pages that are not there)" : "");
	return r;
}

/* For kernels without MADV_POPULATE_WRITE: an atomic or of nothing is a write fault like any. */
static void memory_touch(uint8_t *base, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += MEMORY_SMALL_PAGE)
		(void)__atomic_fetch_or(base + at, 0, __ATOMIC_RELAXED);
}

int memory_prefault(struct memory_work *w, void *base, uint64_t bytes)
{
	const struct larder_memory_config *c = w->config;
	uint64_t step = memory_step_bytes(c), at = 0;
	int r = 0;

	while (r == 0 && at < bytes) {
		uint64_t n = MIN(step, bytes - at);
		uint8_t *from = (uint8_t *)base + at;

		if (madvise(from, n, MADV_POPULATE_WRITE) < 0) {
			r = -errno;
			if (r == -EINTR || r == -EAGAIN) {
				r = 0;
				continue;
			}
			if (r != -EINVAL) {
				log_err(c->log, "memory: pages can not be made present after "
					"%" PRIu64 " of %" PRIu64 " MiB: %m",
					w->done / 2 / MEMORY_MIB, w->total / MEMORY_MIB);
				return r == -EFAULT ? -ENOMEM : r;
			}
			memory_touch(from, n);
		}
		at += n;
		r = memory_work_step(w, n);
	}
	return r;
}
