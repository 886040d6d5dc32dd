/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger's memory and its writers. The layout is published in <larder/ledger.h>; this is the
 * node's side: open it over memory (a memfd or BPF arrays; callers can't tell), count into it.
 *
 * Thread rules: ledger_usage() slots have one writer each; ledger_gauge_* are atomic.
 */
#ifndef LARDER_VIEW_LEDGER_H
#define LARDER_VIEW_LEDGER_H

#include <larder/ledger.h>

struct ledger {
	struct larder_ledger_header *header;
	struct larder_usage *usage;		/* [writers][TENANTS] */
	struct larder_gauges *gauges;
	struct larder_latency *latency;		/* [writers] */
	uint64_t *limits;
	uint64_t *effective;
	struct larder_ledger_name *names;
	struct larder_node_section *node;
	uint32_t writers;
	size_t size;
	int fd;					/* memfd: what readers map */
};

/*
 * @maps: NULL, or descriptors of BPF arrays of larder_ledger_geometry(), by section, which stay the
 * caller's: counters in them go on, gauges and limits begin at 0. 0 or -errno.
 */
int ledger_open(uint32_t writers, const int *maps, struct ledger **ret);
struct ledger *ledger_close(struct ledger *l);
/* A descriptor through which the memfd can only be mapped for reading; the caller closes it. What
 * is read is the ledger itself or, over BPF arrays, as it was at this or the last refresh. */
int ledger_read_fd(struct ledger *l);
/* One thread, as ledger_read_fd. */
void ledger_refresh(struct ledger *l);

/* Slot for a tenant by its name; found or assigned. @id: the one in the record file, which is
 * another when the tenant was purged and came again. Tenants past the last slot share slot 62,
 * named "_other". Control path. */
uint32_t ledger_slot(struct ledger *l, uint64_t id, const char *name);

static inline struct larder_usage *ledger_usage(struct ledger *l, uint32_t writer, uint32_t slot)
{
	return &l->usage[writer * LARDER_LEDGER_TENANTS + slot];
}

/* One writer: a plain add that a reader never sees torn. */
static inline void ledger_count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

static inline void ledger_gauge_add(uint64_t *gauge, uint64_t n)
{
	(void)__atomic_fetch_add(gauge, n, __ATOMIC_RELAXED);
}

static inline void ledger_gauge_sub(uint64_t *gauge, uint64_t n)
{
	(void)__atomic_fetch_sub(gauge, n, __ATOMIC_RELAXED);
}

void ledger_latency(struct ledger *l, uint32_t writer, enum larder_latency_op op, uint64_t ns);

#endif
