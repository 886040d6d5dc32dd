/* SPDX-License-Identifier: Apache-2.0 */
#include "bpf_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "say.h"

#define BPF_MAPS_PATH 4200

struct bpf_maps_opening {
	const char *dir;
	uint32_t writers;
	const struct larder_log *log;
	struct bpf_maps *maps;
};

/* -EINVAL, after the line. */
static int __attribute__((format(printf, 3, 4)))
bpf_maps_fault(const struct bpf_maps_opening *o, enum larder_log_level level, const char *fmt, ...)
{
	char text[BPF_MAPS_PATH + 512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say(o->log, level, "ledger.bpf: %s: the node counts in memory of its own, which bpftool "
	    "can not see", text);
	return -EINVAL;
}

static int bpf_maps_take_lock(const struct bpf_maps_opening *o)
{
	char path[BPF_MAPS_PATH];

	(void)snprintf(path, sizeof(path), "%s/" BPF_MAPS_LOCK, o->dir);
	o->maps->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->maps->lock < 0)
		return bpf_maps_fault(o, LARDER_LOG_WARNING, "%s: %s: larder-bpf load makes it, "
				      "for the user that larderd runs as", path, strerror(errno));
	if (flock(o->maps->lock, LOCK_EX | LOCK_NB) < 0)
		return bpf_maps_fault(o, LARDER_LOG_WARNING, "%s: %s", path,
				      errno == EWOULDBLOCK ? "another larderd or larder-bpf has it"
							   : strerror(errno));
	return 0;
}

/* One that root froze, or made for reading, can be opened and not be counted in. */
static int bpf_maps_try(const struct bpf_maps_opening *o, int map, const char *path)
{
	void *page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);

	if (page == MAP_FAILED)
		return bpf_maps_fault(o, LARDER_LOG_WARNING, "%s: can not be mapped for writing: "
				      "%s: larder-bpf load makes another", path, strerror(errno));
	(void)munmap(page, 1);	/* only tried */
	return 0;
}

static int bpf_maps_check(const struct bpf_maps_opening *o, unsigned section, const char *path)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info), value_size, entries;

	larder_ledger_geometry(section, o->writers, &value_size, &entries);
	if (bpf_obj_get_info_by_fd(o->maps->map[section], &info, &len) < 0)
		return bpf_maps_fault(o, LARDER_LOG_WARNING, "%s: what it is can not be told: %s",
				      path, strerror(errno));
	if (info.type != BPF_MAP_TYPE_ARRAY || !(info.map_flags & BPF_F_MMAPABLE))
		return bpf_maps_fault(o, LARDER_LOG_WARNING, "%s: not an array that can be mapped",
				      path);
	if (info.value_size != value_size || info.max_entries != entries)
		return bpf_maps_fault(o, LARDER_LOG_WARNING, "%s: %u elements of %u bytes, and %u "
				      "of %u are wanted (node.reactors was changed?): stop "
				      "larderd, run larder-bpf load and start it again", path,
				      info.max_entries, info.value_size, entries, value_size);
	return bpf_maps_try(o, o->maps->map[section], path);
}

static int bpf_maps_open_one(const struct bpf_maps_opening *o, unsigned section)
{
	char path[BPF_MAPS_PATH];

	(void)snprintf(path, sizeof(path), "%s/%s_%u", o->dir, larder_ledger_section_name(section),
		       LARDER_LEDGER_LAYOUT);
	o->maps->map[section] = bpf_obj_get(path);
	if (o->maps->map[section] < 0)
		return bpf_maps_fault(o, LARDER_LOG_WARNING, "%s: %s%s", path, strerror(errno),
				      errno == ENOENT ? ": larder-bpf load makes it" : "");
	return bpf_maps_check(o, section, path);
}

static int bpf_maps_open_all(const struct bpf_maps_opening *o)
{
	struct statfs fs;
	int r;

	if (statfs(o->dir, &fs) < 0)
		return bpf_maps_fault(o, errno == ENOENT ? LARDER_LOG_INFO : LARDER_LOG_WARNING,
				      "%s: %s%s", o->dir, strerror(errno),
				      errno == ENOENT ? ": larder-bpf load makes it" : "");
	if (fs.f_type != BPF_FS_MAGIC)
		return bpf_maps_fault(o, LARDER_LOG_INFO, "%s: no BPF file system is mounted "
				      "there: larder-bpf load does", o->dir);
	r = bpf_maps_take_lock(o);
	for (unsigned i = 0; i < LARDER_SECTIONS && !r; i++)
		r = bpf_maps_open_one(o, i);
	return r;
}

void bpf_maps_open(const char *dir, uint32_t writers, const struct larder_log *log,
		   struct bpf_maps *ret)
{
	const struct bpf_maps_opening o = { dir, writers, log, ret };

	ret->there = false;
	ret->lock = -1;
	for (unsigned i = 0; i < LARDER_SECTIONS; i++)
		ret->map[i] = -1;
	if (!dir[0])
		return;
	ret->there = bpf_maps_open_all(&o) == 0;
	if (ret->there)
		say(log, LARDER_LOG_INFO, "ledger: counting in the BPF maps of %s, layout %u", dir,
		    LARDER_LEDGER_LAYOUT);
	else
		bpf_maps_close(ret);
}

static void bpf_maps_close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);	/* nothing is buffered in it */
	*fd = -1;
}

void bpf_maps_close(struct bpf_maps *m)
{
	for (unsigned i = 0; i < LARDER_SECTIONS; i++)
		bpf_maps_close_fd(&m->map[i]);
	bpf_maps_close_fd(&m->lock);	/* and with it the lock */
	m->there = false;
}
