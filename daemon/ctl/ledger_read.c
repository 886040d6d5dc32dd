/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of 64-bit words that others write with relaxed stores: read them the same way. */
#include "ctl/ledger_read.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "ctl/util.h"

/* What each section must hold at least, for what this reader takes from it. */
static uint64_t ledger_section_need(const struct larder_ledger_header *h, unsigned section)
{
	switch (section) {
	case LARDER_SECTION_USAGE:
		return (uint64_t)h->writers * h->tenants * sizeof(struct larder_usage);
	case LARDER_SECTION_GAUGES:
		return (uint64_t)h->tenants * sizeof(struct larder_gauges);
	case LARDER_SECTION_LATENCY:
		return (uint64_t)h->writers * sizeof(struct larder_latency);
	case LARDER_SECTION_LIMITS:
	case LARDER_SECTION_EFFECTIVE:
		return (uint64_t)h->tenants * LARDER_LEDGER_LIMITS * sizeof(uint64_t);
	case LARDER_SECTION_NAMES:
		return (uint64_t)h->tenants * sizeof(struct larder_ledger_name);
	case LARDER_SECTION_NODE:
		return sizeof(struct larder_node_section);
	default:
		return 0;
	}
}

static int ledger_check(const struct larder_ledger_header *h, uint64_t size)
{
	if (h->magic != LARDER_LEDGER_MAGIC || h->layout != LARDER_LEDGER_LAYOUT)
		return -EPROTO;
	if (!h->writers || h->writers > LARDER_LEDGER_WRITERS_MAX ||
	    h->tenants != LARDER_LEDGER_TENANTS)
		return -EPROTO;
	for (unsigned i = 0; i < LARDER_SECTIONS; i++) {
		uint64_t offset = h->section[i].offset, len = h->section[i].size;

		if (offset > size || len > size - offset || offset % sizeof(uint64_t) ||
		    len < ledger_section_need(h, i))
			return -EPROTO;
	}
	return 0;
}

int ledger_reader_open(int fd, struct ledger_reader *ret)
{
	struct ledger_reader l = LEDGER_READER_NULL;
	struct stat st;
	void *base;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < (off_t)sizeof(l.header))
		return -EPROTO;
	l.size = (size_t)st.st_size;
	base = mmap(NULL, l.size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	l.base = base;
	memcpy(&l.header, base, sizeof(l.header));
	r = ledger_check(&l.header, l.size);
	if (r < 0) {
		ledger_reader_close(&l);
		return r;
	}
	*ret = l;
	return 0;
}

void ledger_reader_close(struct ledger_reader *l)
{
	if (l->base)
		(void)munmap((void *)(uintptr_t)l->base, l->size);	/* can't fail */
	*l = LEDGER_READER_NULL;
}

static const uint64_t *ledger_at(const struct ledger_reader *l, unsigned section, size_t offset)
{
	return (const void *)(l->base + l->header.section[section].offset + offset);
}

/* into[] += from[], word by word, as the words are at this moment. */
static void ledger_add(void *into, const uint64_t *from, size_t bytes)
{
	uint64_t *to = into;

	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

void ledger_reader_name(const struct ledger_reader *l, uint32_t slot, char name[40])
{
	memcpy(name, ledger_at(l, LARDER_SECTION_NAMES, slot * sizeof(struct larder_ledger_name)),
	       40);
	name[39] = '\0';
}

void ledger_reader_usage(const struct ledger_reader *l, uint32_t slot, struct larder_usage *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (uint32_t w = 0; w < l->header.writers; w++) {
		size_t index = (size_t)w * l->header.tenants + slot;

		ledger_add(ret, ledger_at(l, LARDER_SECTION_USAGE, index * sizeof(*ret)),
			   offsetof(struct larder_usage, tenant));
	}
}

void ledger_reader_gauges(const struct ledger_reader *l, uint32_t slot, struct larder_gauges *ret)
{
	memset(ret, 0, sizeof(*ret));
	ledger_add(ret, ledger_at(l, LARDER_SECTION_GAUGES, slot * sizeof(*ret)),
		   offsetof(struct larder_gauges, tenant));
}

void ledger_reader_node(const struct ledger_reader *l, struct larder_node_section *ret)
{
	memset(ret, 0, sizeof(*ret));
	ledger_add(ret, ledger_at(l, LARDER_SECTION_NODE, 0), sizeof(*ret));
}

void ledger_reader_latency(const struct ledger_reader *l, struct larder_latency *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (uint32_t w = 0; w < l->header.writers; w++)
		ledger_add(ret, ledger_at(l, LARDER_SECTION_LATENCY, w * sizeof(*ret)),
			   sizeof(*ret));
}

void ledger_reader_limits(const struct ledger_reader *l, uint32_t slot,
			  uint64_t effective[LARDER_LEDGER_LIMITS])
{
	size_t bytes = LARDER_LEDGER_LIMITS * sizeof(*effective);

	memset(effective, 0, bytes);
	ledger_add(effective, ledger_at(l, LARDER_SECTION_EFFECTIVE, slot * bytes), bytes);
}

uint64_t ledger_bucket_bound(unsigned bucket)
{
	unsigned octave, step;

	if (bucket <= 4)
		return bucket;
	octave = (bucket - 5) / 4;
	step = (bucket - 5) % 4 + 1;
	return (uint64_t)(4 + step) << octave;
}

uint64_t ledger_quantile(const uint64_t *before, const uint64_t *after, double q)
{
	uint64_t total = 0, seen = 0, rank;

	for (unsigned i = 0; i < LARDER_LATENCY_BUCKETS; i++)
		total += after[i] - before[i];
	if (!total)
		return 0;
	rank = MAX((uint64_t)ceil(q * (double)total), (uint64_t)1);
	for (unsigned i = 0; i < LARDER_LATENCY_BUCKETS; i++) {
		seen += after[i] - before[i];
		if (seen >= rank)
			return ledger_bucket_bound(i);
	}
	return ledger_bucket_bound(LARDER_LATENCY_BUCKETS - 1);
}
