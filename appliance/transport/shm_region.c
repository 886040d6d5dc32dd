/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: memory of the client in the node's address space.
 *
 *	client	region_add	queues REGION_FD {token} + memfd; hands out {token, offset, size}
 *	node	(arrival)	keeps the descriptor as pending, when it is a sealed memfd at all
 *	node	region_import	finds it by token, checks, maps, closes it
 *	node	region_del	unmaps
 *
 * What is accepted: a memfd that can't shrink, large enough, with every page allocated (so that its
 * bytes were charged to the client when it made it, and the node's accesses allocate nothing unless
 * somebody punches holes later), within the connection's budget of regions and bytes. Pending
 * descriptors count as regions, so a client that sends and never claims runs into the same limit.
 *
 * A gigabyte of page table takes too long for one turn of a reactor: the mapping is made at once,
 * and its pages are faulted in by a few megabytes per turn. A copy that comes earlier faults for
 * itself. If pre-faulting fails it is given up; the guard deals with what the copy meets.
 *
 * A region outlives its connection as an empty shell until region_del, so that the owner may delete
 * it before or after CONN_GONE; its mapping goes with the connection.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/shm.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define REGION_HUGE_ALIGN (2ull * 1024 * 1024)	/* of a transparent hugepage */
#define REGION_FAULT_STEP (2u * 1024u * 1024u)	/* per turn: well under a millisecond */

static struct shm_region *region_of(struct transport_region *r)
{
	return container_of(r, struct shm_region, base);
}

/* --- memfds -------------------------------------------------------------------------------- */

int shm_memfd_create(const char *name, unsigned flags)
{
	int fd;

	flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
	fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)		/* before Linux 6.3 */
		fd = memfd_create(name, flags);
	return fd < 0 ? -errno : fd;
}

const char *shm_memfd_check(int fd, uint64_t bytes, uint64_t *huge_page)
{
	struct statfs fs;
	struct stat st;
	int seals;

	/* First: it asks no foreign file system, which could keep us waiting. */
	seals = fcntl(fd, F_GET_SEALS);
	errno = EINVAL;
	if (seals < 0)
		return "is not a memfd";
	if (!(seals & F_SEAL_SHRINK))
		return "is not sealed against shrinking";
	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return "can't be examined";	/* errno is the system's */
	if (st.st_size < 0 || (uint64_t)st.st_size < bytes)
		return "is too small";
	if ((uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size)
		return "has holes";
	*huge_page = fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : 0;
	return NULL;
}

/* --- client -------------------------------------------------------------------------------- */

int shm_region_add(struct transport_conn *base, void *addr, size_t len, int fd, uint64_t fd_offset,
		   uint8_t *opaque, size_t *opaque_len, struct transport_region **ret)
{
	struct shm_conn *c = shm_conn_of(base);
	struct shm_region_name name = {
		.token = c->last_token + 1, .offset = fd_offset, .size = len,
	};
	struct shm_frame frame = {
		.type = SHM_FRAME_REGION_FD, .version = SHM_VERSION, .token = name.token,
	};
	_cleanup_free_ struct shm_region *region = NULL;
	_cleanup_close_ int own = -1;
	uint64_t huge_page;
	uint64_t end;
	int r;

	if (fd < 0 || c->accepted)
		return -EOPNOTSUPP;
	if (c->phase > SHM_OPEN)
		return -ENOTCONN;
	if (!addr || !len || __builtin_add_overflow(fd_offset, (uint64_t)len, &end))
		return -EINVAL;
	if (shm_memfd_check(fd, end, &huge_page))
		return -errno;
	region = calloc(1, sizeof(*region));
	if (!region)
		return -ENOMEM;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return -errno;
	r = shm_tx_fd(c, &frame, own);
	if (r < 0)
		return r;
	(void)TAKE_FD(own);			/* the queue's now */
	c->last_token = name.token;
	memcpy(opaque, &name, sizeof(name));
	*opaque_len = sizeof(name);
	region->base.transport = base->transport;
	region->base.size = len;
	region->conn = c;
	list_push_tail(&c->regions, &region->link);
	*ret = &TAKE_PTR(region)->base;
	return 0;
}

/* --- node: pending descriptors ------------------------------------------------------------- */

static int pending_find(const struct shm_conn *c, uint64_t token)
{
	for (uint32_t i = 0; i < c->n_pending; i++) {
		if (c->pending[i].token == token)
			return (int)i;
	}
	return -ENOENT;
}

static int pending_take(struct shm_conn *c, uint32_t i)
{
	int fd = c->pending[i].fd;

	c->pending[i] = c->pending[--c->n_pending];
	shm_owner(c)->n_pending--;
	return fd;
}

void shm_pending_drop_all(struct shm_conn *c)
{
	while (c->n_pending)
		(void)close(pending_take(c, c->n_pending - 1));	/* a memfd: nothing to lose */
}

/* All connections together hold too many: the one that holds most goes. */
static void pending_relieve(struct shm_transport *t)
{
	struct shm_conn *worst = NULL;

	list_for_each(l, &t->conns) {
		struct shm_conn *c = list_entry(l, struct shm_conn, link);

		if (!worst || c->n_pending > worst->n_pending)
			worst = c;
	}
	if (!worst || !worst->n_pending)
		return;
	shm_complain(worst, "it holds %u descriptors that no region claims, of %u in all",
		     worst->n_pending, t->n_pending);
	shm_conn_end(worst, -EPROTO, -ECONNRESET);
}

int shm_pending_add(struct shm_conn *c, struct shm_datagram *d)
{
	struct shm_transport *t = shm_owner(c);
	uint64_t huge_page;
	const char *wrong;

	wrong = shm_memfd_check(d->fds[0], 0, &huge_page);
	if (wrong) {
		shm_complain(c, "its descriptor for a region %s", wrong);
		return -EPROTO;
	}
	if (pending_find(c, d->frame.token) >= 0) {
		shm_complain(c, "it sent two descriptors with the same token");
		return -EPROTO;
	}
	if (c->n_pending >= MIN(SHM_PENDING_MAX, t->config.max_regions)) {
		shm_complain(c, "it sent %u descriptors and claimed none", c->n_pending + 1);
		return -EPROTO;
	}
	c->pending[c->n_pending].token = d->frame.token;
	c->pending[c->n_pending].fd = d->fds[--d->n_fds];	/* there was exactly one */
	c->n_pending++;
	if (++t->n_pending > SHM_PENDING_TOTAL)
		pending_relieve(t);
	return c->phase == SHM_OPEN ? 0 : -EPROTO;
}

/* --- node: mapping ------------------------------------------------------------------------- */

/*
 * Maps @bytes of @fd at @offset to an address that is congruent to the offset, so that transparent
 * hugepages of the memfd become single entries here as well. The address space around is given
 * back.
 */
static int region_map(int fd, uint64_t offset, size_t bytes, uint8_t **ret)
{
	size_t slack = bytes >= REGION_HUGE_ALIGN ? REGION_HUGE_ALIGN : 0;
	uint8_t *whole, *at, *map;
	size_t before;

	whole = mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		     -1, 0);
	if (whole == MAP_FAILED)
		return -errno;
	before = slack ? (offset - (uintptr_t)whole) % slack : 0;
	at = whole + before;
	map = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset);
	if (map == MAP_FAILED) {
		int r = -errno;

		(void)munmap(whole, bytes + slack);	/* ours, whole: can't fail */
		return r;
	}
	if (before)
		(void)munmap(whole, before);
	if (slack > before)
		(void)munmap(at + bytes, slack - before);
	(void)madvise(map, bytes, MADV_HUGEPAGE);	/* a kernel without is slower, no more */
	(void)madvise(map, bytes, MADV_DONTFORK);
	*ret = map;
	return 0;
}

/* Hugetlb mappings are made of whole hugepages, address and length. */
static int region_map_huge(int fd, uint64_t offset, size_t bytes, uint8_t **ret)
{
	uint8_t *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	if (map == MAP_FAILED)
		return -errno;
	(void)madvise(map, bytes, MADV_DONTFORK);	/* a fork would only keep it longer */
	*ret = map;
	return 0;
}

/* The request does not fit what the client itself sent: no honest one does that. */
static int region_reject(struct shm_conn *c, const char *wrong)
{
	shm_complain(c, "its region %s", wrong);
	shm_conn_end(c, -EPROTO, -ECONNRESET);
	return -EPROTO;
}

static int region_budget(const struct shm_conn *c, uint64_t bytes)
{
	const struct transport_config *config = &shm_owner(c)->config;

	if (c->n_regions >= config->max_regions)
		return -EDQUOT;
	if (bytes > config->max_region_bytes ||
	    c->region_bytes > config->max_region_bytes - bytes)
		return -EDQUOT;
	return 0;
}

static int region_new(struct shm_conn *c, const struct shm_region_name *name, int fd,
		      uint64_t huge_page, struct transport_region **ret)
{
	uint64_t page = huge_page ? huge_page : (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t from = ALIGN_DOWN(name->offset, page);
	uint64_t bytes = ALIGN_UP(name->offset + name->size, page) - from;
	_cleanup_free_ struct shm_region *region = NULL;
	int r;

	r = region_budget(c, bytes);
	if (r < 0)
		return r;
	region = calloc(1, sizeof(*region));
	if (!region)
		return -ENOMEM;
	r = huge_page ? region_map_huge(fd, from, bytes, &region->map)
		      : region_map(fd, from, bytes, &region->map);
	if (r < 0)
		return r;
	region->map_bytes = bytes;
	region->addr = region->map + (name->offset - from);
	region->base.transport = c->base.transport;
	region->base.size = name->size;
	region->conn = c;
	c->n_regions++;
	c->region_bytes += bytes;
	c->n_unfaulted++;
	shm_ready(c);
	list_push_tail(&c->regions, &region->link);
	*ret = &TAKE_PTR(region)->base;
	return 0;
}

int shm_region_import(struct transport_conn *base, const uint8_t *opaque, size_t opaque_len,
		      uint64_t size, struct transport_region **ret)
{
	struct shm_conn *c = shm_conn_of(base);
	struct shm_region_name name;
	_cleanup_close_ int fd = -1;
	uint64_t huge_page, end;
	const char *wrong;
	int at;

	if (!c->accepted)
		return -EOPNOTSUPP;
	if (c->phase > SHM_OPEN)
		return -ENOTCONN;
	if (opaque_len != sizeof(name))
		return region_reject(c, "has a description of the wrong length");
	memcpy(&name, opaque, sizeof(name));
	at = pending_find(c, name.token);
	if (at < 0)
		return -EAGAIN;
	fd = pending_take(c, (uint32_t)at);
	if (name.size != size || !size)
		return region_reject(c, "is described with two sizes");
	if (__builtin_add_overflow(name.offset, name.size, &end) || end > INT64_MAX)
		return region_reject(c, "ends beyond any file");
	wrong = shm_memfd_check(fd, end, &huge_page);
	if (wrong)
		return region_reject(c, wrong);
	return region_new(c, &name, fd, huge_page, ret);
}

/* --- node: pre-faulting -------------------------------------------------------------------- */

static void region_faulted(struct shm_region *r, size_t bytes)
{
	if (!bytes)
		return;
	r->faulted += bytes;
	if (r->faulted == r->map_bytes)
		r->conn->n_unfaulted--;
}

void shm_region_fault_some(struct shm_conn *c)
{
	list_for_each(l, &c->regions) {
		struct shm_region *r = list_entry(l, struct shm_region, link);
		size_t left = r->map_bytes - r->faulted;
		size_t step = MIN(left, (size_t)REGION_FAULT_STEP);

		if (!left)
			continue;
		/* A kernel or memory that can't: give up, copies fault for themselves. */
		if (madvise(r->map + r->faulted, step, MADV_POPULATE_WRITE) < 0)
			step = left;
		region_faulted(r, step);
		return;
	}
}

/* --- both ---------------------------------------------------------------------------------- */

static void region_unmap(struct shm_region *r)
{
	if (!r->map)
		return;
	region_faulted(r, r->map_bytes - r->faulted);
	r->conn->n_regions--;
	r->conn->region_bytes -= r->map_bytes;
	(void)munmap(r->map, r->map_bytes);	/* ours, whole: can't fail */
	r->map = r->addr = NULL;
}

int shm_region_del(struct transport_region *base)
{
	struct shm_region *r = region_of(base);

	if (r->busy)
		return -EBUSY;
	region_unmap(r);
	list_remove(&r->link);
	free(r);
	return 0;
}

void shm_region_orphan_all(struct shm_conn *c)
{
	struct shm_transport *t = shm_owner(c);

	while (!list_empty(&c->regions)) {
		struct shm_region *r = list_entry(c->regions.next, struct shm_region, link);

		region_unmap(r);
		r->conn = NULL;
		list_remove(&r->link);
		list_push_tail(&t->orphans, &r->link);
	}
}
