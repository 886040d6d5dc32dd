/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger over a memfd, or over BPF arrays that somebody else made, with a memfd as a copy for
 * readers. Of the memfd one mapping for writing exists, ours, made before the file is sealed
 * against any later one (F_SEAL_FUTURE_WRITE): a descriptor of it can be handed to anyone, and
 * neither reopening nor mprotect makes it writable. Size is sealed too, so a reader's mapping never
 * loses its pages.
 *
 * Sections begin at page bounds, so that each array is mapped where the one file would have it.
 * Arrays outlive a node: what counts goes on, what tells how things are begins anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "base/hist.h"
#include "view/ledger.h"

#define LEDGER_SECTION_ALIGN 4096u
#define LEDGER_OTHER_TENANT (LARDER_LEDGER_VIEW_TENANT - 1)	/* shared by those without a slot */
#define LEDGER_NO_ID UINT64_MAX

static_assert(LARDER_LATENCY_BUCKETS == HIST_BUCKETS, "layout");

/* What ledger_open gives out, with what only this file needs. */
struct ledger_memory {
	struct ledger ledger;
	pthread_mutex_t slots;		/* guards who has which slot */
	/* over arrays: what readers map, because no descriptor of an array can be mapped that could
	 * not be written too */
	uint64_t *copy;
	/* its tenant is one of this node's; the others' rows were found in the arrays */
	bool claimed[LARDER_LEDGER_TENANTS];
};

static size_t ledger_layout(struct larder_ledger_header *h, uint32_t writers)
{
	size_t at = ALIGN_UP(sizeof(*h), LEDGER_SECTION_ALIGN);

	h->magic = LARDER_LEDGER_MAGIC;
	h->layout = LARDER_LEDGER_LAYOUT;
	h->writers = writers;
	h->tenants = LARDER_LEDGER_TENANTS;
	for (unsigned i = 0; i < LARDER_SECTIONS; i++) {
		uint32_t value_size, entries;

		larder_ledger_geometry(i, writers, &value_size, &entries);
		h->section[i].offset = at;
		h->section[i].size = (uint64_t)value_size * entries;
		at = ALIGN_UP(at + h->section[i].size, LEDGER_SECTION_ALIGN);
	}
	return at;
}

/* A reader may look at any time: the name's first byte goes in last. */
static void ledger_text_set(char to[40], const char *name)
{
	size_t len = strnlen(name, 39);

	if (strncmp(to, name, 40) == 0)
		return;
	__atomic_store_n(&to[0], '\0', __ATOMIC_RELEASE);
	memset(to + 1, 0, 39);
	if (len == 0)
		return;
	memcpy(to + 1, name + 1, len - 1);
	__atomic_store_n(&to[0], name[0], __ATOMIC_RELEASE);
}

/* Gives the slot its name, and every row of it. */
static void ledger_name_set(struct ledger *l, uint32_t slot, uint64_t id, const char *name)
{
	struct ledger_memory *m = container_of(l, struct ledger_memory, ledger);
	struct larder_ledger_name *n = &l->names[slot];

	m->claimed[slot] = true;
	__atomic_store_n(&n->id, id, __ATOMIC_RELAXED);
	ledger_text_set(n->tenant, name);
	for (uint32_t w = 0; w < l->writers; w++)
		ledger_text_set(ledger_usage(l, w, slot)->tenant, name);
	ledger_text_set(l->gauges[slot].tenant, name);
}

static void *ledger_section(struct ledger *l, enum larder_ledger_section s)
{
	return (char *)l->header + l->header->section[s].offset;
}

/* A memfd of which no other mapping can be written. *@ret: ours. */
static int ledger_map_file(struct ledger *l, void **ret)
{
	int r;

	l->fd = memfd_create("larder-ledger-2", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (l->fd < 0)
		return -errno;
	do {
		r = fallocate(l->fd, 0, 0, (off_t)l->size);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	*ret = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
	if (*ret == MAP_FAILED) {
		*ret = NULL;
		return -errno;
	}
	if (fcntl(l->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW |
				      F_SEAL_SEAL) < 0)
		return -errno;
	return 0;
}

/* Our own page for the header, and each array at its section's place. */
static int ledger_map_arrays(struct ledger *l, const struct larder_ledger_header *h,
			     const int maps[LARDER_SECTIONS])
{
	char *base = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);

	if (base == MAP_FAILED)
		return -errno;
	l->header = (void *)base;
	for (unsigned i = 0; i < LARDER_SECTIONS; i++)
		if (mmap(base + h->section[i].offset,
			 ALIGN_UP(h->section[i].size, LEDGER_SECTION_ALIGN),
			 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, maps[i], 0) == MAP_FAILED)
			return -errno;
	return 0;
}

static int ledger_map(struct ledger *l, const int *maps)
{
	struct ledger_memory *m = container_of(l, struct ledger_memory, ledger);
	struct larder_ledger_header h = { 0 };
	void *file = NULL;
	int r;

	l->size = ledger_layout(&h, l->writers);
	r = ledger_map_file(l, &file);
	if (maps) {
		m->copy = file;
		if (r == 0)
			r = ledger_map_arrays(l, &h, maps);
	} else {
		l->header = file;
	}
	if (r == 0)
		*l->header = h;
	return r;
}

void ledger_refresh(struct ledger *l)
{
	struct ledger_memory *m = container_of(l, struct ledger_memory, ledger);
	const uint64_t *from = (const uint64_t *)l->header;

	if (!m->copy)
		return;
	for (size_t i = 0; i < l->size / sizeof(uint64_t); i++)
		__atomic_store_n(&m->copy[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
}

/* What an earlier node left: counters and the names that they belong to stay. */
static void ledger_adopt(struct ledger *l)
{
	memset(l->gauges, 0, l->header->section[LARDER_SECTION_GAUGES].size);
	memset(l->limits, 0, l->header->section[LARDER_SECTION_LIMITS].size);
	memset(l->effective, 0, l->header->section[LARDER_SECTION_EFFECTIVE].size);
	__atomic_store_n(&l->node->draining, 0, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < LARDER_LEDGER_TENANTS; i++) {
		char name[sizeof(l->names[i].tenant)];

		memcpy(name, l->names[i].tenant, sizeof(name));
		name[sizeof(name) - 1] = '\0';
		if (!name[0])
			continue;
		/* ids are the record file's, which may be another than before */
		ledger_name_set(l, i, LEDGER_NO_ID, name);
		container_of(l, struct ledger_memory, ledger)->claimed[i] = false;
	}
}

int ledger_open(uint32_t writers, const int *maps, struct ledger **ret)
{
	struct ledger_memory *m;
	struct ledger *l;
	int r;

	if (writers < 1 || writers > LARDER_LEDGER_WRITERS_MAX)
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	l = &m->ledger;
	l->fd = -1;
	l->writers = writers;
	r = -pthread_mutex_init(&m->slots, NULL);
	if (r < 0) {
		free(m);
		return r;
	}
	r = ledger_map(l, maps);
	if (r < 0) {
		(void)ledger_close(l);
		return r;
	}
	l->usage = ledger_section(l, LARDER_SECTION_USAGE);
	l->gauges = ledger_section(l, LARDER_SECTION_GAUGES);
	l->latency = ledger_section(l, LARDER_SECTION_LATENCY);
	l->limits = ledger_section(l, LARDER_SECTION_LIMITS);
	l->effective = ledger_section(l, LARDER_SECTION_EFFECTIVE);
	l->names = ledger_section(l, LARDER_SECTION_NAMES);
	l->node = ledger_section(l, LARDER_SECTION_NODE);
	if (maps)
		ledger_adopt(l);
	ledger_name_set(l, LARDER_LEDGER_VIEW_TENANT, LEDGER_NO_ID, "_view");
	*ret = l;
	return 0;
}

struct ledger *ledger_close(struct ledger *l)
{
	struct ledger_memory *m;

	if (!l)
		return NULL;
	m = container_of(l, struct ledger_memory, ledger);
	/* munmap fails for wrong arguments only */
	if (l->header)
		(void)munmap(l->header, l->size);
	if (m->copy)
		(void)munmap(m->copy, l->size);
	cleanup_closep(&l->fd);
	(void)pthread_mutex_destroy(&m->slots);		/* fails only while held */
	free(m);
	return NULL;
}

int ledger_read_fd(struct ledger *l)
{
	int fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);

	ledger_refresh(l);
	return fd < 0 ? -errno : fd;
}

/* The row of a tenant that an earlier node knew and this one does not: for another one. */
static void ledger_slot_reuse(struct ledger *l, uint32_t slot)
{
	for (uint32_t w = 0; w < l->writers; w++)
		memset(ledger_usage(l, w, slot), 0, sizeof(struct larder_usage));
	memset(&l->gauges[slot], 0, sizeof(l->gauges[slot]));
}

/* By name: one name is one row, and its counters go on whatever id it comes back with. */
static uint32_t ledger_slot_locked(struct ledger *l, uint64_t id, const char *name)
{
	struct ledger_memory *m = container_of(l, struct ledger_memory, ledger);
	uint32_t slot = 0;

	while (slot < LEDGER_OTHER_TENANT && l->names[slot].tenant[0] &&
	       strncmp(l->names[slot].tenant, name, sizeof(l->names[slot].tenant)) != 0)
		slot++;
	if (slot == LEDGER_OTHER_TENANT) {
		for (slot = 0; slot < LEDGER_OTHER_TENANT && m->claimed[slot];)
			slot++;
		if (slot < LEDGER_OTHER_TENANT)
			ledger_slot_reuse(l, slot);
	}
	if (slot == LEDGER_OTHER_TENANT && m->claimed[slot])
		return slot;
	ledger_name_set(l, slot, slot == LEDGER_OTHER_TENANT ? LEDGER_NO_ID : id,
			slot == LEDGER_OTHER_TENANT ? "_other" : name);
	return slot;
}

uint32_t ledger_slot(struct ledger *l, uint64_t id, const char *name)
{
	struct ledger_memory *m = container_of(l, struct ledger_memory, ledger);
	uint32_t slot;

	pthread_mutex_lock(&m->slots);
	slot = ledger_slot_locked(l, id, name);
	pthread_mutex_unlock(&m->slots);
	return slot;
}

void ledger_latency(struct ledger *l, uint32_t writer, enum larder_latency_op op, uint64_t ns)
{
	struct larder_latency *at = &l->latency[writer];

	ledger_count(&at->buckets[op][hist_bucket(ns)], 1);
	ledger_count(&at->sum_ns[op], ns);
}
