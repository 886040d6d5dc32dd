/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a node's memory. The order is the point:
 *
 *	open "records", lock it, look at both files: fresh, ours, or refused
 *	fresh: mark the record file as being made, before anything else is touched
 *	give both files their space, map them, touch every page
 *	attach the records (which formats them when fresh), build the arena's allocator
 *
 * The lock is on "records" and is held until close, by the descriptor. Fresh is what can not be
 * anybody's: both files absent or empty, or the mark in the place of the magic, which the first
 * open replaces when all is done. Everything else is ours with a good header, or is refused: a
 * record file that was cut or damaged is worth a question, and a file that is not ours is not ours.
 *
 * What was made by an open that failed is emptied again, not unlinked: a file with a name is a file
 * with one lock. The arena goes first, so that the mark outlives whatever needs it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* The size of the arena; 0: it is absent or empty. */
static int memory_arena_bytes(const struct memory_dir *d, uint64_t *ret)
{
	struct stat st = { 0 };

	if (fstatat(d->fd, "arena", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT) {
		int r = -errno;

		log_err(d->log, "memory: %s/arena: can not be examined: %m", d->path);
		return r;
	}
	*ret = (uint64_t)st.st_size;
	return 0;
}

static bool memory_is_blank(const struct records_header *h)
{
	static const struct records_header blank;

	return memcmp(h, &blank, sizeof(blank)) == 0;
}

/* Nothing of ours begins the record file. Fresh all the same? -EPROTO after one line: no. */
static int memory_look_fresh(const struct memory_dir *d, uint64_t records, bool blank,
			     uint64_t arena)
{
	/* a first open that was killed between making room for its mark and writing it */
	bool no_records = records == 0 || (records == d->block && blank);

	if (no_records && arena == 0)
		return 0;
	if (no_records)
		log_err(d->log, "memory: %s/arena: has %" PRIu64 " bytes, but %s/records, which "
			"should describe them, is empty: put it back, or remove both to begin "
			"anew", d->path, arena, d->path);
	else if (records < sizeof(struct records_header))
		log_err(d->log, "memory: %s/records: has %" PRIu64 " bytes, less than a header: it "
			"was cut, or is something else; put it back, or remove the directory's "
			"files to begin anew", d->path, records);
	else
		log_err(d->log, "memory: %s/records: has no header: it was damaged, or is "
			"something else; put it back, or remove the directory's files to begin "
			"anew", d->path);
	return -EPROTO;
}

/* What is in the locked record file? Tells fresh; refuses what is not for this geometry. */
static int memory_look(const struct memory_dir *d, const struct larder_memory_config *s,
		       uint64_t arena, struct larder_memory *m)
{
	struct records_header h = { 0 };
	const char *why = NULL;
	struct stat st;
	ssize_t n = -1;
	int r;

	if (fstat(m->records_fd, &st) == 0)
		n = pread(m->records_fd, &h, sizeof(h), 0);
	if (n < 0) {
		r = -errno;
		log_err(d->log, "memory: %s/records: can not be read: %m", d->path);
		return r;
	}
	m->info.fresh = true;
	if (h.magic == RECORDS_MAKING)
		return 0;
	if (n < (ssize_t)sizeof(h) || memory_is_blank(&h))
		return memory_look_fresh(d, (uint64_t)st.st_size, memory_is_blank(&h), arena);
	m->info.fresh = false;
	r = records_header_check(&h, s, &why);
	if (r < 0) {
		log_err(d->log, "memory: %s/records: %s", d->path, why);
		return r;
	}
	if ((uint64_t)st.st_size != m->records_map_bytes) {
		log_err(d->log, "memory: %s/records: has %" PRIu64 " bytes where its header means "
			"%" PRIu64 ": it was cut; remove the directory's files to begin anew",
			d->path, (uint64_t)st.st_size, (uint64_t)m->records_map_bytes);
		return -EPROTO;
	}
	if (arena != m->arena_map_bytes) {
		log_err(d->log, "memory: %s/arena: is not the one that %s/records describes: put "
			"it back, or remove both to begin anew", d->path, d->path);
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

/* From here on the files are ours to make, and to empty: whoever finds the mark knows it. */
static int memory_mark(const struct memory_dir *d, struct larder_memory *m)
{
	struct records_header *h;
	void *map = NULL;
	int r = memory_empty(d, "arena", m->arena_fd);

	if (r == 0)
		r = memory_empty(d, "records", m->records_fd);
	if (r < 0)
		return r;
	m->making = true;
	/* its space first: a hugetlbfs knows no write, and a store must not lack memory */
	r = memory_file_allocate(d, "records", m->records_fd, d->block, NULL);
	if (r == 0)
		r = memory_map(d->log, m->records_fd, d->block, &map);
	if (r < 0)
		return r;
	h = map;
	h->holder_pid = (uint32_t)getpid();
	__atomic_store_n(&h->magic, RECORDS_MAKING, __ATOMIC_RELEASE);
	(void)munmap(map, d->block);	/* fails for wrong arguments only */
	return 0;
}

/* Takes back what an open that failed had begun. The failure that counts is told already. */
static void memory_unmake(struct larder_memory *m)
{
	m->records = records_detach(m->records);	/* it would be stored to at close */
	if (m->arena_fd >= 0)
		(void)!ftruncate(m->arena_fd, 0);
	(void)!ftruncate(m->records_fd, 0);
}

/* Both files open, locked, of their size and backed by memory. */
static int memory_files(const struct larder_memory_config *s, struct memory_dir *d,
			struct larder_memory *m, struct memory_work *w)
{
	uint64_t arena = 0;
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
	w->total = m->arena_map_bytes + m->records_map_bytes;
	r = memory_arena_bytes(d, &arena);
	if (r == 0)
		r = memory_look(d, s, arena, m);
	if (r == 0)
		r = memory_file_open(d, "arena", &m->arena_fd);
	if (r == 0)
		r = memory_file_close_off(d, "records", m->records_fd);
	if (r == 0)
		r = memory_file_close_off(d, "arena", m->arena_fd);
	if (r == 0 && m->info.fresh)
		r = memory_mark(d, m);
	if (r == 0)
		r = memory_file_allocate(d, "records", m->records_fd, m->records_map_bytes, w);
	if (r == 0)
		r = memory_file_allocate(d, "arena", m->arena_fd, m->arena_map_bytes, w);
	return r;
}

static int memory_maps(const struct larder_memory_config *s, struct larder_memory *m,
		       struct memory_work *w)
{
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
	r = memory_prefault(w, m->records_map, m->records_map_bytes);
	if (r == 0)
		r = memory_prefault(w, m->arena_map, m->arena_map_bytes);
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
	struct memory_work w = { .config = s };
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
		r = memory_files(s, &d, m, &w);
		if (r < 0)
			return r;
	}
	r = memory_maps(s, m, &w);
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
		if (m->making)
			memory_unmake(m);
		larder_memory_close(m);
		return r;
	}
	m->making = false;
	*ret = m;
	return 0;
}

LARDER_PUBLIC int larder_memory_check(const struct larder_memory_config *config)
{
	struct larder_memory_config s;
	struct memory_dir d = { .fd = -1 };
	_cleanup_close_ int dir_fd = -1;
	int r = memory_config_settle(config, &s);

	if (r < 0 || !s.dir)
		return r;
	s.create_dir = false;
	if (access(s.dir, F_OK) == 0 || errno != ENOENT) {
		r = memory_dir_open(&s, &d);
		if (r < 0)
			return r;
		dir_fd = d.fd;
	} else {
		/* it is made at the open, on what is memory unless a disk is allowed */
		d = (struct memory_dir){ .path = s.dir, .fd = -1, .log = s.log,
					 .tmpfs = !s.any_filesystem };
	}
	d.tmpfs |= d.hugetlbfs;
	return memory_fits_machine(&d, "arena", (uint64_t)s.pages * s.page_size_bytes);
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
