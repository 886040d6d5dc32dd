/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a node may reach: callers' regions, and how one is made known to a connection.
 *
 * A region with a memfd is direct on every one-sided transport. Pages of it that were lost (the
 * node froze inside a transfer) are detached: pages of our own lie at the same addresses, the node
 * still has the old ones, and what touches them goes through the bounce until the region is
 * renewed.
 *
 * Thread rules: struct larder_region's first part never changes after it was made; the rest is the
 * core's.
 */
#ifndef LARDER_CLIENT_MEMORY_H
#define LARDER_CLIENT_MEMORY_H

#include "client/core.h"

enum region_state {
	REGION_UNKNOWN,		/* to the node of this connection */
	REGION_ADDING,		/* REGION_ADD is under way */
	REGION_KNOWN,
	REGION_REFUSED,		/* by this node or transport: not direct */
};

struct larder_region {
	struct larder_client *client;	/* NULL: the bounce's own */
	uint8_t *addr;
	size_t size;
	size_t page;		/* of its mapping */
	uint32_t flags;		/* LARDER_REGION_* */
	int fd;			/* memfd; -1: the application's memory */
	bool owned;		/* mapped by us */

	/* the core's */
	struct list link;	/* core->regions */
	bool closed;		/* being renewed or freed: nothing new may name it */
	uint8_t state;		/* enum region_state, on the connection of @epoch */
	uint64_t epoch;
	uint32_t number;
	int refusal;
	struct transport_region *tr;
	struct job job;		/* REGION_ADD, REGION_DEL */
	uint8_t opaque[TRANSPORT_OPAQUE_MAX];
	uint32_t opaque_len;
	struct job *waiter;	/* of REGION_DEL */
	uint64_t *detached;	/* a bit per page; only with a memfd */
	size_t n_detached;
};

/* --- mapping.c: no core in it --- */

/* A sealed, fully allocated, pre-faulted memfd mapping. 0 or -errno. */
int mapping_create(size_t size, bool huge, int *ret_fd, uint8_t **ret_addr, size_t *ret_page);
/* Bits for the pages of a mapping. */
int mapping_track(struct larder_region *r);
/* Makes [@from, @to) of the region private: whole pages that were not replaced before. Bytes
 * outside [@lost, @lost_end) stay. 0 or -errno; then nothing has changed. */
int mapping_replace(struct larder_region *r, uintptr_t from, uintptr_t to, uintptr_t lost,
		    uintptr_t lost_end);
/* After that, for all pages of the lost bytes: from here on nobody else writes to them. May be
 * repeated. 0 or -errno. */
int mapping_own(struct larder_region *r, uintptr_t lost, uintptr_t lost_end);
/* Puts a new memfd with the same bytes under the whole region, and closes the old one. */
int mapping_renew(struct larder_region *r);
/* Takes it out of its list, unmaps what is ours, closes, frees. */
void region_free(struct larder_region *r);

/* What the node is told: whole pages of our own, exactly what was registered of the caller's. */
static inline size_t region_bytes(const struct larder_region *r)
{
	return r->fd >= 0 ? ALIGN_UP(r->size, r->page) : r->size;
}

static inline size_t mapping_bits(const struct larder_region *r)
{
	return ALIGN_UP(region_bytes(r) / r->page, 64);
}

/* --- region.c --- */

/* The direct region that holds [@addr, @addr + @len); NULL = goes through the bounce. */
struct larder_region *region_find(struct core *core, const void *addr, size_t len);
/* Makes it known to @conn. 0 = it is; -EAGAIN = under way; -errno or a status = it can not be. */
int region_know(struct conn *conn, struct larder_region *r);
bool region_in_use(struct core *core, const struct larder_region *r);
/* The node is frozen inside @len bytes at @addr: replaces their pages and detaches them. -ENOENT:
 * no node reaches them; other -errno: it could not be done, or not for all of them. */
int region_lose(struct core *core, const void *addr, size_t len);
/* The transport and the node forget it; @waiter (may be NULL) is finished afterwards. */
void region_forget(struct core *core, struct larder_region *r, struct job *waiter);
/* The connection is over. */
void regions_drop(struct conn *conn);

#endif
