/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of pins: mounted, locked, brought up to date. A loader that was killed anywhere in
 * here leaves what the next one puts in order: pins that are not all there begin anew.
 */
#include "pins.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

void pins_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)fputs("larder-bpf: ", stderr);
	(void)vfprintf(stderr, fmt, ap);
	(void)fputc('\n', stderr);
	va_end(ap);
}

/* --- mount and lock -------------------------------------------------------------------------- */

static bool pins_is_bpffs(const char *dir)
{
	struct statfs fs;

	return statfs(dir, &fs) == 0 && fs.f_type == BPF_FS_MAGIC;
}

static int pins_mount(const struct pins *p)
{
	if (mkdir(p->dir, 0755) < 0 && errno != EEXIST) {
		pins_say("%s: can not be made: %s", p->dir, strerror(errno));
		return -1;
	}
	if (!pins_is_bpffs(p->dir)) {
		if (mount("larder-bpf", p->dir, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC,
			  "mode=0750") < 0) {
			pins_say("%s: no BPF file system can be mounted there: %s%s", p->dir,
				 strerror(errno), errno == EPERM ? ": it takes root" :
				 errno == ENODEV ? ": this kernel has none (CONFIG_BPF_SYSCALL)" :
				 "");
			return -1;
		}
		pins_say("mounted a BPF file system at %s", p->dir);
	}
	if (chown(p->dir, 0, p->gid) < 0 || chmod(p->dir, 0750) < 0) {
		pins_say("%s: can not be given to the group: %s", p->dir, strerror(errno));
		return -1;
	}
	return 0;
}

/* The lock's descriptor; -EWOULDBLOCK: somebody counts there; -1 after a line. */
static int pins_lock(const struct pins *p, bool make)
{
	char path[PINS_PATH];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/" PINS_LOCK, p->dir);
	if (make && ((mkdir(path, 0700) < 0 && errno != EEXIST) ||
		     chown(path, p->uid, p->gid) < 0 || chmod(path, 0700) < 0)) {
		pins_say("%s: can not be made: %s", path, strerror(errno));
		return -1;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		pins_say("%s: %s", path, strerror(errno));
		return -1;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	(void)close(fd);	/* only locked */
	return -EWOULDBLOCK;
}

/* --- what is pinned -------------------------------------------------------------------------- */

/* Its layout, if @name is NAME_LAYOUT of a section; else 0. */
static unsigned pins_layout_of(const char *name)
{
	for (unsigned i = 0; i < LARDER_SECTIONS; i++) {
		const char *section = larder_ledger_section_name(i);
		size_t len = strlen(section);
		char *end;
		unsigned long layout;

		if (strncmp(name, section, len) != 0 || name[len] != '_' ||
		    !isdigit((unsigned char)name[len + 1]))
			continue;
		layout = strtoul(name + len + 1, &end, 10);
		if (!*end && layout <= UINT32_MAX)
			return (unsigned)layout;
	}
	return 0;
}

/* Removes pins: those of other layouts, or with @all those of ours too. How many, or -1. */
static int pins_remove(const struct pins *p, bool all)
{
	DIR *d = opendir(p->dir);
	struct dirent *e;
	int n = 0;

	if (!d) {
		pins_say("%s: %s", p->dir, strerror(errno));
		return -1;
	}
	while (n >= 0 && (e = readdir(d))) {
		unsigned layout = pins_layout_of(e->d_name);

		if (!layout || (layout == LARDER_LEDGER_LAYOUT && !all))
			continue;
		if (unlinkat(dirfd(d), e->d_name, 0) < 0) {
			pins_say("%s/%s: can not be removed: %s", p->dir, e->d_name,
				 strerror(errno));
			n = -1;
			break;
		}
		if (layout != LARDER_LEDGER_LAYOUT)
			pins_say("%s/%s: of layout %u, this is layout %u: removed, its counters "
				 "start anew", p->dir, e->d_name, layout, LARDER_LEDGER_LAYOUT);
		n++;
	}
	(void)closedir(d);	/* only read */
	return n;
}

/* How many are good; *@ret_missing: how many are not there. Tells what is wrong with the others. */
static unsigned pins_count(const struct pins *p, unsigned *ret_missing)
{
	unsigned good = 0;

	*ret_missing = 0;
	for (unsigned i = 0; i < LARDER_SECTIONS; i++) {
		char why[PINS_PATH + 256];

		switch (pins_look(p, i, why, sizeof(why))) {
		case PINS_GOOD:
			good++;
			break;
		case PINS_MISSING:
			(*ret_missing)++;
			break;
		case PINS_OTHER:
			pins_say("%s", why);
		}
	}
	return good;
}

/* Also what a loader that was killed had pinned and not yet given away. */
static int pins_give(const struct pins *p)
{
	char path[PINS_PATH];

	for (unsigned i = 0; i < LARDER_SECTIONS; i++) {
		pins_path(p, i, path);
		if (chown(path, p->uid, p->gid) < 0 || chmod(path, 0640) < 0) {
			pins_say("%s: can not be given to its user: %s", path, strerror(errno));
			return -1;
		}
	}
	return 0;
}

static int pins_update(const struct pins *p)
{
	unsigned missing, good;

	if (pins_remove(p, false) < 0)
		return -1;
	good = pins_count(p, &missing);
	if (good == LARDER_SECTIONS) {
		pins_say("%s: the maps of layout %u are there and their counters go on", p->dir,
			 LARDER_LEDGER_LAYOUT);
		return pins_give(p);
	}
	if (missing < LARDER_SECTIONS) {
		pins_say("%s: %u of %u maps are as they have to be: all are made again, and "
			 "counters start anew", p->dir, good, LARDER_SECTIONS);
		if (pins_remove(p, true) < 0)
			return -1;
	}
	if (pins_create(p) < 0 || pins_give(p) < 0)
		return -1;
	pins_say("%s: pinned %u maps of layout %u, for %u reactors", p->dir, LARDER_SECTIONS,
		 LARDER_LEDGER_LAYOUT, p->writers - 1);
	return 0;
}

int pins_load(const struct pins *p)
{
	unsigned missing;
	int lock, r;

	if (pins_mount(p) < 0)
		return -1;
	lock = pins_lock(p, true);
	if (lock == -EWOULDBLOCK) {
		if (pins_count(p, &missing) == LARDER_SECTIONS) {
			pins_say("%s: the maps are there, and a larderd counts in them", p->dir);
			return 0;
		}
		pins_say("%s: the maps have to be replaced, and a larderd counts in them: stop it "
			 "first", p->dir);
		return -1;
	}
	if (lock < 0)
		return -1;
	r = pins_update(p);
	(void)close(lock);	/* only locked */
	return r;
}

/* Is something there that is not the kernel's own? An umount would take it away. */
static bool pins_of_others(const struct pins *p)
{
	DIR *d = opendir(p->dir);
	struct dirent *e;
	bool found = !d;

	while (!found && (e = readdir(d)))
		found = e->d_name[0] != '.' && strcmp(e->d_name, "maps.debug") != 0 &&
			strcmp(e->d_name, "progs.debug") != 0;
	if (d)
		(void)closedir(d);	/* only read */
	return found;
}

int pins_unload(const struct pins *p)
{
	char path[PINS_PATH];
	int lock, n;

	if (!pins_is_bpffs(p->dir)) {
		pins_say("%s: no BPF file system is mounted there: nothing to do", p->dir);
		return 0;
	}
	lock = pins_lock(p, true);
	if (lock == -EWOULDBLOCK)
		pins_say("%s: a larderd counts in the maps: stop it first", p->dir);
	if (lock < 0)
		return -1;
	n = pins_remove(p, true);
	(void)snprintf(path, sizeof(path), "%s/" PINS_LOCK, p->dir);
	if (rmdir(path) < 0)
		pins_say("%s: %s", path, strerror(errno));
	(void)close(lock);	/* only locked */
	if (n < 0)
		return -1;
	pins_say("%s: removed %d pins", p->dir, n);
	if (rmdir(p->dir) == 0 || errno != EBUSY)
		return 0;
	if (pins_of_others(p))
		pins_say("%s: stays mounted: others have pinned something there", p->dir);
	else if (umount(p->dir) < 0)
		pins_say("%s: stays mounted: %s", p->dir, strerror(errno));
	return 0;
}

int pins_status(const struct pins *p)
{
	unsigned good = 0;
	int lock;

	if (!pins_is_bpffs(p->dir)) {
		printf("%s: no BPF file system is mounted there\n", p->dir);
		return -1;
	}
	for (unsigned i = 0; i < LARDER_SECTIONS; i++) {
		char why[PINS_PATH + 256];

		good += pins_look(p, i, why, sizeof(why)) == PINS_GOOD;
		printf("%s\n", why);
	}
	lock = pins_lock(p, false);
	printf("%s: %s\n", p->dir, lock == -EWOULDBLOCK ? "a larderd counts in them" :
	       lock >= 0 ? "nobody counts in them" : "who counts in them can not be told");
	if (lock >= 0)
		(void)close(lock);	/* only locked */
	return good == LARDER_SECTIONS ? 0 : -1;
}
