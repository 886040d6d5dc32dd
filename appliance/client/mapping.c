/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory mappings that a node may share: sealed memfds, and what becomes of them when a node froze
 * inside. No lists, no connections; see memory.h.
 *
 * Pages are replaced by private ones of the same file (mapping_replace), each of which is made ours
 * by the first write to it (mapping_own). That copy is the kernel's: it holds all that was in the
 * page, and a thread that writes beside the lost buffer just now is either in it or waits for it.
 * The node has the file's page. Hugepages need a spare one each; see mapping_replace_copied.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "client/memory.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* *@size becomes whole pages. */
static int mapping_memfd(size_t *size, bool huge, int *ret_fd, size_t *ret_page)
{
	_cleanup_close_ int fd = memfd_create("larder-region", MFD_CLOEXEC | MFD_ALLOW_SEALING |
							       (huge ? MFD_HUGETLB : 0));
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	/* which hugepages there are is the kernel's configuration */
	*ret_page = huge ? (size_t)st.st_blksize : (size_t)sysconf(_SC_PAGESIZE);
	*size = ALIGN_UP(*size, *ret_page);
	if (ftruncate(fd, (off_t)*size) < 0)
		return -errno;
	/* a node takes only what can neither shrink nor lack a page */
	do {
		r = fallocate(fd, 0, 0, (off_t)*size);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return errno == ENOSPC ? -ENOMEM : -errno;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int mapping_create(size_t size, bool huge, int *ret_fd, uint8_t **ret_addr, size_t *ret_page)
{
	_cleanup_close_ int fd = -1;
	void *addr;
	int r;

	if (!size || size > SIZE_MAX / 2)
		return -EINVAL;
	r = mapping_memfd(&size, huge, &fd, ret_page);
	if (r < 0)
		return r;
	addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (addr == MAP_FAILED)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	*ret_addr = addr;
	return 0;
}

int mapping_track(struct larder_region *r)
{
	r->detached = calloc(mapping_bits(r) / 64, sizeof(*r->detached));
	return r->detached ? 0 : -ENOMEM;
}

/* Writes of other threads that came after the copy @was and before the old page was out of reach.
 * A byte that was written once more since then stays. They race by nature, and that is settled here
 * byte by byte: nothing for the thread sanitizer. */
__attribute__((no_sanitize_thread))
static void mapping_catch_up(uint8_t *now, const uint8_t *old, uint8_t *was, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (old[i] != was[i])
			(void)__atomic_compare_exchange_n(now + i, was + i, old[i], false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
}

/* What lies in front of the lost bytes and behind them, in whole pages. */
struct mapping_edges {
	uint8_t *was;		/* a copy of both */
	size_t head;
	size_t tail;
	size_t tail_at;
};

/* @fresh takes the place of what was at @from, with the edges. @old: the same pages elsewhere. */
static int mapping_place(uint8_t *from, size_t size, uint8_t *fresh, const uint8_t *old,
			 const struct mapping_edges *e)
{
	memcpy(e->was, old, e->head);
	memcpy(e->was + e->head, old + e->tail_at, e->tail);
	memcpy(fresh, e->was, e->head);
	memcpy(fresh + e->tail_at, e->was + e->head, e->tail);
	if (mremap(fresh, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, from) == MAP_FAILED)
		return -errno;
	mapping_catch_up(from, old, e->was, e->head);
	mapping_catch_up(from + e->tail_at, old + e->tail_at, e->was + e->head, e->tail);
	return 0;
}

/*
 * There are no hugepages to copy to: ordinary memory takes their place, whole hugepages at a time.
 * The old ones are looked at once more afterwards, through a second mapping, for what was written
 * beside the buffer while it was copied. Not a byte is lost by that, but for some microseconds a
 * thread may read beside the buffer what was there a moment before.
 */
static int mapping_replace_copied(struct larder_region *r, uintptr_t from, uintptr_t to,
				  uintptr_t lost, uintptr_t lost_end)
{
	struct mapping_edges e = {
		.head = MAX(lost, from) - from,
		.tail = to - MIN(lost_end, to),
		.tail_at = MIN(lost_end, to) - from,
	};
	_cleanup_free_ uint8_t *was = malloc(e.head + e.tail + 1);
	size_t size = to - from;
	uint8_t *old, *fresh;
	int k;

	if (!was)
		return -ENOMEM;
	e.was = was;
	old = mmap(NULL, size, PROT_READ, MAP_SHARED, r->fd, (off_t)(from - (uintptr_t)r->addr));
	if (old == MAP_FAILED)
		return -errno;
	fresh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	k = fresh == MAP_FAILED ? -errno : mapping_place((uint8_t *)from, size, fresh, old, &e);
	if (k < 0 && fresh != MAP_FAILED)
		(void)munmap(fresh, size);	/* it was ours a line ago */
	(void)munmap(old, size);		/* as above */
	return k;
}

int mapping_replace(struct larder_region *r, uintptr_t from, uintptr_t to, uintptr_t lost,
		    uintptr_t lost_end)
{
	size_t size = to - from;
	uint8_t *fresh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, r->fd,
			      (off_t)(from - (uintptr_t)r->addr));
	int k;

	if (fresh == MAP_FAILED && errno == ENOMEM && r->flags & LARDER_REGION_HUGE)
		return mapping_replace_copied(r, from, to, lost, lost_end);
	if (fresh == MAP_FAILED)
		return -errno;
	/* not by mmap in place: when that fails, what was there may be gone */
	if (mremap(fresh, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)from) != MAP_FAILED)
		return 0;
	k = -errno;
	(void)munmap(fresh, size);	/* it was ours a line ago */
	return k;
}

int mapping_own(struct larder_region *r, uintptr_t lost, uintptr_t lost_end)
{
	uintptr_t from = ALIGN_DOWN(lost, r->page), to = ALIGN_UP(lost_end, r->page);

	/* by the kernel: where it can't, it says so, and a write of ours would be a SIGBUS */
	if (madvise((void *)from, to - from, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return -errno;
	/* before Linux 5.14; what the lost bytes are is undefined anyway */
	for (uintptr_t page = from; page < to; page += r->page)
		*(volatile uint8_t *)MAX(page, lost) = 0;
	return 0;
}

int mapping_renew(struct larder_region *r)
{
	size_t size = ALIGN_UP(r->size, r->page), page;
	uint8_t *addr;
	int fd, k;

	k = mapping_create(size, r->flags & LARDER_REGION_HUGE, &fd, &addr, &page);
	if (k < 0)
		return k;
	memcpy(addr, r->addr, size);
	/* not mremap: the pages of a hugetlb mapping do not move */
	if (mmap(r->addr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd,
		 0) == MAP_FAILED) {
		k = -errno;
		(void)munmap(addr, size);
		(void)close(fd);	/* the region stays as it was */
		return k;
	}
	(void)munmap(addr, size);	/* the file's second mapping */
	(void)close(r->fd);		/* the old memory is the frozen node's alone now */
	r->fd = fd;
	return 0;
}

void region_free(struct larder_region *r)
{
	list_remove(&r->link);
	if (r->owned)
		(void)munmap(r->addr, region_bytes(r));	/* fails only for what is not mapped */
	cleanup_closep(&r->fd);
	free(r->detached);
	free(r);
}
