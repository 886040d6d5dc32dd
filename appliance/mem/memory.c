/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a node's memory. The order is the point:
 *
 *	open "records", lock it, read its header: fresh, ours, or another geometry's (refused)
 *	give both files their space, map them, touch every page
 *	attach the records (which formats them when fresh), build the arena's allocator
 *
 * The lock is on "records" and is held until close, by the descriptor. The record file alone says
 * what the arena holds, so an arena without records is scratch, and records without their arena
 * are refused. A file whose header was never finished was never told to anyone: it is fresh.
 * Whatever was made by an open that failed is emptied again, not unlinked: a file with a name is a
 * file with one lock.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/compiler.h"
#include "base/log.h"
#include "mem/memory.h"
#include "mem/memory_file.h"
#include "mem/records_internal.h"

#define MEMORY_LEASES 65536u
#define MEMORY_NAMESPACES 1024u
#define MEMORY_RECORDS_EXTRA 1024u
#define MEMORY_PAGE_MIN 4096u
#define MEMORY_PAGE_MAX (2u << 20)

/* Fills in what was left to us. The result's values are final. */
static int memory_config_settle(const struct larder_memory_config *c,
				struct larder_memory_config *s)
{
	uint64_t pages, records, page = c->page_size_bytes;

	*s = *c;
	if (s->page_size_bytes < MEMORY_PAGE_MIN || s->page_size_bytes > MEMORY_PAGE_MAX ||
	    (s->page_size_bytes & (s->page_size_bytes - 1))) {
		log_err(s->log, "memory: a page of %u bytes: powers of two from %u to %u are "
			"possible", s->page_size_bytes, MEMORY_PAGE_MIN, MEMORY_PAGE_MAX);
		return -EINVAL;
	}
	pages = s->pages;
	if (!pages)
		pages = s->size_bytes / page + (s->size_bytes % page != 0);
	records = s->records ? s->records : pages + pages / 8 + MEMORY_RECORDS_EXTRA;
	if (pages == 0 || pages > INT32_MAX || records >= RECORD_NONE) {
		log_err(s->log, "memory: %" PRIu64 " pages of %u bytes with %" PRIu64
			" records: 1 to %d pages are possible", pages, s->page_size_bytes, records,
			INT32_MAX);
		return -EINVAL;
	}
	s->pages = (uint32_t)pages;
	s->records = (uint32_t)records;
	s->leases = s->leases ? s->leases : MEMORY_LEASES;
	s->namespaces = s->namespaces ? s->namespaces : MEMORY_NAMESPACES;
	return 0;
}

/* Takes the lock for the life of the process, or names who has it. */
static int memory_lock(const struct memory_dir *d, int fd)
{
	struct records_header h;
	int r;

	do {
		r = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
	} while (r == -EINTR);
	if (r == -EWOULDBLOCK) {
		if (pread(fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h) && h.holder_pid)
			log_err(d->log, "memory: %s: in use by process %u", d->path, h.holder_pid);
		else
			log_err(d->log, "memory: %s: in use by another process", d->path);
		return -EBUSY;
	}
	if (r < 0) {
		errno = -r;
		log_err(d->log, "memory: %s/records: can not be locked: %m", d->path);
	}
	return r;
}

/* What is in the locked record file? Sets @fresh; refuses what is not for this geometry. */
static int memory_look(const struct memory_dir *d, int fd, const struct larder_memory_config *s,
		       uint64_t bytes, bool *fresh)
{
	struct records_header h = { 0 };
	const char *why = NULL;
	struct stat st;
	ssize_t n = -1;
	int r;

	if (fstat(fd, &st) == 0)
		n = pread(fd, &h, sizeof(h), 0);
	if (n < 0) {
		r = -errno;
		log_err(d->log, "memory: %s/records: can not be read: %m", d->path);
		return r;
	}
	/* a generation was given out: its magic was there once, and something damaged it */
	*fresh = n < (ssize_t)sizeof(h) || (h.magic == 0 && h.generation <= 1);
	if (*fresh)
		return 0;
	r = records_header_check(&h, s, &why);
	if (r < 0) {
		log_err(d->log, "memory: %s/records: %s", d->path, why);
		return r;
	}
	if ((uint64_t)st.st_size != bytes) {
		log_err(d->log, "memory: %s/records: has %" PRIu64 " bytes where its header means "
			"%" PRIu64 ": it was cut; remove the directory's files to begin anew",
			d->path, (uint64_t)st.st_size, bytes);
		return -EPROTO;
	}
	return 0;
}

static int memory_empty(const struct memory_dir *d, const char *name, int fd)
{
	int r = ftruncate(fd, 0) < 0 ? -errno : 0;

	if (r < 0)
		log_err(d->log, "memory: %s/%s: can not be emptied: %m", d->path, name);
	return r;
}

/* Both files open, locked, of their size and backed by memory. */
static int memory_files(const struct larder_memory_config *s, struct memory_dir *d,
			struct larder_memory *m)
{
	struct stat st;
	int r;

	r = memory_file_open(d, "records", &m->records_fd);
	if (r < 0)
		return r;
	r = memory_lock(d, m->records_fd);
	if (r < 0)
		return r;
	m->arena_map_bytes = ALIGN_UP(m->info.arena_bytes, d->block);
	m->records_map_bytes = ALIGN_UP(m->info.records_bytes, d->block);
	m->info.arena_bytes = m->arena_map_bytes;
	m->info.records_bytes = m->records_map_bytes;
	m->info.hugepages = d->hugetlbfs;
	r = memory_look(d, m->records_fd, s, m->records_map_bytes, &m->info.fresh);
	if (r < 0)
		return r;
	r = memory_file_open(d, "arena", &m->arena_fd);
	if (r < 0)
		return r;
	if (m->info.fresh) {
		r = memory_empty(d, "records", m->records_fd);
		if (r == 0)
			r = memory_empty(d, "arena", m->arena_fd);
		if (r < 0)
			return r;
	} else if (fstat(m->arena_fd, &st) < 0 || (uint64_t)st.st_size != m->arena_map_bytes) {
		log_err(d->log, "memory: %s/arena: is not the one that %s/records describes ("
			"%" PRIu64 " bytes): put it back, or remove both to begin anew",
			d->path, d->path, (uint64_t)m->arena_map_bytes);
		return -EPROTO;
	}
	r = memory_file_allocate(d, "records", m->records_fd, m->records_map_bytes);
	if (r == 0)
		r = memory_file_allocate(d, "arena", m->arena_fd, m->arena_map_bytes);
	if (r < 0 && m->info.fresh) {
		/* give back what was taken; the failure that counts is told already */
		(void)!ftruncate(m->records_fd, 0);
		(void)!ftruncate(m->arena_fd, 0);
	}
	return r;
}

static int memory_maps(const struct larder_memory_config *s, struct larder_memory *m)
{
	uint64_t total = m->arena_map_bytes + m->records_map_bytes, done = 0;
	int r;

	r = memory_map(s->log, m->records_fd, m->records_map_bytes, &m->records_map);
	if (r == 0)
		r = memory_map(s->log, m->arena_fd, m->arena_map_bytes, &m->arena_map);
	if (r < 0)
		return r;
	/* values are the tenants' and as large as the machine: they have no place in a core */
	if (madvise(m->arena_map, m->arena_map_bytes, MADV_DONTDUMP) < 0)
		log_notice(s->log, "memory: the arena can not be kept out of core dumps: %m");
	/* huge pages where the kernel offers them by advice; no loss where it does not */
	(void)madvise(m->arena_map, m->arena_map_bytes, MADV_HUGEPAGE);
	(void)madvise(m->records_map, m->records_map_bytes, MADV_HUGEPAGE);
	if (m->records_fd < 0)
		return 0;	/* anonymous: pages come as they are used */
	r = memory_prefault(s, m->records_map, m->records_map_bytes, &done, total);
	if (r == 0)
		r = memory_prefault(s, m->arena_map, m->arena_map_bytes, &done, total);
	return r;
}

static int memory_attach(const struct larder_memory_config *s, struct larder_memory *m)
{
	const char *why = NULL;
	int r;

	r = records_attach(m->records_map, m->records_map_bytes, s, NULL, m->info.fresh,
			   &m->records, &why);
	if (r == 0)
		r = arena_new(m->arena_map, s->pages, s->page_size_bytes, &m->arena);
	if (r < 0) {
		errno = -r;
		log_err(s->log, "memory: %s: %s%s%m", s->dir ? s->dir : "(anonymous)",
			why ? why : "", why ? ": " : "");
		return r;
	}
	records_set_holder(m->records, (uint32_t)getpid());
	return 0;
}

static int memory_open(const struct larder_memory_config *s, struct larder_memory *m)
{
	struct memory_dir d = { .fd = -1 };
	_cleanup_close_ int dir_fd = -1;
	int r;

	m->info.pages = s->pages;
	m->info.page_size_bytes = s->page_size_bytes;
	m->info.records = s->records;
	m->info.arena_bytes = (uint64_t)s->pages * s->page_size_bytes;
	m->info.records_bytes = records_bytes(s->records, s->leases, s->namespaces);
	m->info.fresh = true;
	m->arena_map_bytes = m->info.arena_bytes;
	m->records_map_bytes = m->info.records_bytes;
	if (s->dir) {
		r = memory_dir_open(s, &d);
		if (r < 0)
			return r;
		dir_fd = d.fd;
		r = memory_files(s, &d, m);
		if (r < 0)
			return r;
	}
	r = memory_maps(s, m);
	if (r < 0)
		return r;
	return memory_attach(s, m);
}

LARDER_PUBLIC int larder_memory_open(const struct larder_memory_config *config,
				     struct larder_memory **ret)
{
	struct larder_memory_config settled;
	struct larder_memory *m;
	int r;

	r = memory_config_settle(config, &settled);
	if (r < 0)
		return r;
	m = calloc(1, sizeof(*m));
	if (!m) {
		log_err(config->log, "memory: no memory for its own description");
		return -ENOMEM;
	}
	m->arena_fd = m->records_fd = -1;
	r = memory_open(&settled, m);
	if (r < 0) {
		larder_memory_close(m);
		return r;
	}
	*ret = m;
	return 0;
}

LARDER_PUBLIC void larder_memory_close(struct larder_memory *m)
{
	if (!m)
		return;
	if (m->records)
		records_set_holder(m->records, 0);
	m->records = records_detach(m->records);
	m->arena = arena_free_all(m->arena);
	if (m->arena_map)
		(void)munmap(m->arena_map, m->arena_map_bytes);	/* fails for wrong arguments only */
	if (m->records_map)
		(void)munmap(m->records_map, m->records_map_bytes);
	cleanup_closep(&m->arena_fd);
	cleanup_closep(&m->records_fd);	/* last: the lock goes with it */
	free(m);
}

LARDER_PUBLIC void larder_memory_get_info(const struct larder_memory *mem,
					  struct larder_memory_info *info)
{
	*info = mem->info;
}
