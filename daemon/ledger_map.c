/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger_map.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int ledger_map_open(struct larder_node *node, struct ledger_map *ret)
{
	int fd = larder_node_ledger_fd(node), r = 0;
	struct stat st;
	void *base;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0) {
		r = -errno;
		(void)close(fd);	/* read-only memory: nothing to lose */
		return r;
	}
	base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		r = -errno;
	(void)close(fd);		/* the mapping stays */
	if (r)
		return r;
	*ret = (struct ledger_map){ .header = base, .size = (size_t)st.st_size };
	return 0;
}

void ledger_map_close(struct ledger_map *m)
{
	if (m->header)
		(void)munmap((void *)(uintptr_t)m->header, m->size);	/* can't fail */
	*m = (struct ledger_map){ .header = NULL };
}

static const void *ledger_map_at(const struct ledger_map *m, enum larder_ledger_section section)
{
	return (const char *)m->header + m->header->section[section].offset;
}

const char *ledger_map_name(const struct ledger_map *m, uint32_t slot)
{
	const struct larder_ledger_name *names = ledger_map_at(m, LARDER_SECTION_NAMES);

	return names[slot].tenant;
}

const struct larder_gauges *ledger_map_gauges(const struct ledger_map *m, uint32_t slot)
{
	const struct larder_gauges *gauges = ledger_map_at(m, LARDER_SECTION_GAUGES);

	return &gauges[slot];
}

void ledger_map_usage(const struct ledger_map *m, uint32_t slot, struct larder_usage *ret)
{
	const struct larder_usage *all = ledger_map_at(m, LARDER_SECTION_USAGE);
	uint64_t *to = (uint64_t *)ret;

	memset(ret, 0, sizeof(*ret));
	for (uint32_t w = 0; w < m->header->writers; w++) {
		const uint64_t *from = (const uint64_t *)&all[w * m->header->tenants + slot];

		for (size_t i = 0; i < sizeof(*ret) / sizeof(uint64_t); i++)
			to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	}
}
