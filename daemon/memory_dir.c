/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory.dir = auto leads: to the memory that is there already, else to the best place. */
#include "memory_dir.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define HUGETLBFS_MAGIC 0x958458f6
#define TMPFS_MAGIC 0x01021994

static bool memory_dir_on(const char *dir, unsigned long magic)
{
	struct statfs fs;

	return statfs(dir, &fs) == 0 && (unsigned long)fs.f_type == magic;
}

/* The whole arena fits into free hugepages. */
static bool memory_dir_hugepages_fit(uint64_t bytes)
{
	/* f_bavail counts the mount's own limit only; the pool is in meminfo */
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	unsigned long long free_pages = 0, kib = 0;

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		(void)sscanf(line, "HugePages_Free: %llu", &free_pages);
		(void)sscanf(line, "Hugepagesize: %llu kB", &kib);
	}
	(void)fclose(f);
	return free_pages * kib * 1024 >= bytes;
}

/* A tmpfs of its own, and not just a folder of the one that /run is. */
static bool memory_dir_own_mount(const char *dir)
{
	struct stat own, parent;
	char up[64];

	(void)snprintf(up, sizeof(up), "%s/..", dir);
	return memory_dir_on(dir, TMPFS_MAGIC) && stat(dir, &own) == 0 && stat(up, &parent) == 0 &&
	       own.st_dev != parent.st_dev && access(dir, W_OK | X_OK) == 0;
}

const char *memory_dir_pick(uint64_t bytes)
{
	static const char *const places[] = { MEMORY_DIR_HUGE, MEMORY_DIR_MOUNT, MEMORY_DIR_SHM };
	struct stat st;
	char arena[64];

	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		(void)snprintf(arena, sizeof(arena), "%s/arena", places[i]);
		if (stat(arena, &st) == 0)
			return places[i];
	}
	/* the packaged node's folder is the mount itself; else it is made inside /dev/hugepages */
	if ((memory_dir_on(MEMORY_DIR_HUGE, HUGETLBFS_MAGIC) ?
	     access(MEMORY_DIR_HUGE, W_OK | X_OK) == 0 :
	     memory_dir_on("/dev/hugepages", HUGETLBFS_MAGIC) &&
	     access("/dev/hugepages", W_OK | X_OK) == 0) && memory_dir_hugepages_fit(bytes))
		return MEMORY_DIR_HUGE;
	return memory_dir_own_mount(MEMORY_DIR_MOUNT) ? MEMORY_DIR_MOUNT : MEMORY_DIR_SHM;
}
