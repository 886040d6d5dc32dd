/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory mappings that a node may share: sealed memfds, and what becomes of them when a node froze
 * inside. No lists, no connections; see memory.h.
 *
 * Replacing pages goes through mremap, which puts the new pages in place of the old in one step, so
 * that a thread which reads a neighbouring buffer never sees a hole.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "client/memory.h"

#define MAPPING_HUGE_PAGE (2ul * 1024 * 1024)

static int mapping_memfd(size_t size, bool huge, int *ret_fd)
{
	_cleanup_close_ int fd = memfd_create("larder-region", MFD_CLOEXEC | MFD_ALLOW_SEALING |
							       (huge ? MFD_HUGETLB : 0));
	int r;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0)
		return -errno;
	/* a node takes only what can neither shrink nor lack a page */
	do {
		r = fallocate(fd, 0, 0, (off_t)size);
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
	size_t page = huge ? MAPPING_HUGE_PAGE : (size_t)sysconf(_SC_PAGESIZE);
	_cleanup_close_ int fd = -1;
	void *addr;
	int r;

	if (!size || size > SIZE_MAX / 2)
		return -EINVAL;
	size = ALIGN_UP(size, page);
	r = mapping_memfd(size, huge, &fd);
	if (r < 0)
		return r;
	addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (addr == MAP_FAILED)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	*ret_addr = addr;
	*ret_page = page;
	return 0;
}

int mapping_replace(uintptr_t from, uintptr_t to, uintptr_t keep_from, uintptr_t keep_to)
{
	size_t size = to - from;
	uint8_t *fresh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
	int r;

	if (fresh == MAP_FAILED)
		return -errno;
	memcpy(fresh, (void *)from, keep_from - from);
	memcpy(fresh + (keep_to - from), (void *)keep_to, to - keep_to);
	if (mremap(fresh, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)from) == MAP_FAILED) {
		r = -errno;
		(void)munmap(fresh, size);	/* it was ours a line ago */
		return r;
	}
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
	free(r);
}
