/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger over a memfd. One mapping for writing exists, ours, made before the file is sealed
 * against any later one (F_SEAL_FUTURE_WRITE): a descriptor of it can be handed to anyone, and
 * neither reopening nor mprotect makes it writable. Size is sealed too, so a reader's mapping
 * never loses its pages.
 *
 * Sections begin at page bounds, so that each may become a map of its own without another layout.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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
};

static size_t ledger_layout(struct larder_ledger_header *h, uint32_t writers)
{
	const size_t tenants = LARDER_LEDGER_TENANTS;
	const size_t sizes[LARDER_SECTIONS] = {
		[LARDER_SECTION_USAGE] = sizeof(struct larder_usage) * tenants * writers,
		[LARDER_SECTION_GAUGES] = sizeof(struct larder_gauges) * tenants,
		[LARDER_SECTION_LATENCY] = sizeof(struct larder_latency) * writers,
		[LARDER_SECTION_LIMITS] = sizeof(uint64_t) * tenants * LARDER_LEDGER_LIMITS,
		[LARDER_SECTION_EFFECTIVE] = sizeof(uint64_t) * tenants * LARDER_LEDGER_LIMITS,
		[LARDER_SECTION_NAMES] = sizeof(struct larder_ledger_name) * tenants,
		[LARDER_SECTION_NODE] = sizeof(struct larder_node_section),
	};
	size_t at = ALIGN_UP(sizeof(*h), LEDGER_SECTION_ALIGN);

	h->magic = LARDER_LEDGER_MAGIC;
	h->layout = LARDER_LEDGER_LAYOUT;
	h->writers = writers;
	h->tenants = LARDER_LEDGER_TENANTS;
	for (unsigned i = 0; i < LARDER_SECTIONS; i++) {
		h->section[i].offset = at;
		h->section[i].size = sizes[i];
		at = ALIGN_UP(at + sizes[i], LEDGER_SECTION_ALIGN);
	}
	return at;
}

static void *ledger_section(struct ledger *l, enum larder_ledger_section s)
{
	return (char *)l->header + l->header->section[s].offset;
}

/* A reader may look at any time: the name's first byte goes in last. */
static void ledger_name_set(struct larder_ledger_name *n, uint64_t id, const char *name)
{
	size_t len = strnlen(name, sizeof(n->tenant) - 1);

	if (len == 0)
		return;
	n->id = id;
	memcpy(n->tenant + 1, name + 1, len - 1);
	__atomic_store_n(&n->tenant[0], name[0], __ATOMIC_RELEASE);
}

static int ledger_map(struct ledger *l)
{
	struct larder_ledger_header h = { 0 };
	void *map;
	int r;

	l->size = ledger_layout(&h, l->writers);
	l->fd = memfd_create("larder-ledger-2", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (l->fd < 0)
		return -errno;
	do {
		r = fallocate(l->fd, 0, 0, (off_t)l->size);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	map = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	l->header = map;
	*l->header = h;
	if (fcntl(l->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW |
				      F_SEAL_SEAL) < 0)
		return -errno;
	return 0;
}

int ledger_open(uint32_t writers, struct ledger **ret)
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
	r = ledger_map(l);
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
	ledger_name_set(&l->names[LARDER_LEDGER_VIEW_TENANT], LEDGER_NO_ID, "_view");
	*ret = l;
	return 0;
}

struct ledger *ledger_close(struct ledger *l)
{
	struct ledger_memory *m;

	if (!l)
		return NULL;
	m = container_of(l, struct ledger_memory, ledger);
	if (l->header)
		(void)munmap(l->header, l->size);	/* fails for wrong arguments only */
	cleanup_closep(&l->fd);
	(void)pthread_mutex_destroy(&m->slots);		/* fails only while held */
	free(m);
	return NULL;
}

int ledger_read_fd(const struct ledger *l)
{
	int fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

static uint32_t ledger_slot_locked(struct ledger *l, uint64_t id, const char *name)
{
	for (uint32_t i = 0; i < LEDGER_OTHER_TENANT; i++) {
		struct larder_ledger_name *n = &l->names[i];

		if (n->tenant[0] == '\0') {	/* slots fill from below: it has none yet */
			ledger_name_set(n, id, name);
			return i;
		}
		if (n->id == id)
			return i;
		/* it was purged and came again: one name is one row, and counters go on */
		if (n->id != LEDGER_NO_ID && strcmp(n->tenant, name) == 0) {
			__atomic_store_n(&n->id, id, __ATOMIC_RELAXED);
			return i;
		}
	}
	if (l->names[LEDGER_OTHER_TENANT].tenant[0] == '\0')
		ledger_name_set(&l->names[LEDGER_OTHER_TENANT], LEDGER_NO_ID, "_other");
	return LEDGER_OTHER_TENANT;
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
