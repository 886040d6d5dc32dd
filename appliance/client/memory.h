/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a node may reach: callers' regions, and how one is made known to a connection.
 *
 * A region with a memfd is direct on every one-sided transport. A range of it that was lost (the
 * node froze inside a transfer) is detached: ordinary pages lie at the same addresses, the node
 * still has the old ones, and what touches the range goes through the bounce until the region is
 * renewed.
 *
 * Thread rules: struct larder_region's first part never changes after it was made; the rest is the
 * core's.
 */
#ifndef LARDER_CLIENT_MEMORY_H
#define LARDER_CLIENT_MEMORY_H

#include "client/core.h"

#define REGION_DETACHED_MAX 16u		/* ranges; one more detaches the whole region */

enum region_state {
	REGION_UNKNOWN,		/* to the node of this connection */
	REGION_ADDING,		/* REGION_ADD is under way */
	REGION_KNOWN,
	REGION_REFUSED,		/* by this node or transport: not direct */
};

struct region_range {
	uintptr_t from;
	uintptr_t to;
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
	struct region_range detached[REGION_DETACHED_MAX];
	uint32_t n_detached;
};

/* --- mapping.c: no core in it --- */

/* A sealed, fully allocated, pre-faulted memfd mapping. 0 or -errno. */
int mapping_create(size_t size, bool huge, int *ret_fd, uint8_t **ret_addr, size_t *ret_page);
/* Puts fresh anonymous pages under [@from, @to) at the same addresses, keeping the bytes outside
 * [@keep_from, @keep_to). Page-aligned. 0 or -errno. */
int mapping_replace(uintptr_t from, uintptr_t to, uintptr_t keep_from, uintptr_t keep_to);
/* Puts a new memfd with the same bytes under the whole region, and closes the old one. */
int mapping_renew(struct larder_region *r);
/* Takes it out of its list, unmaps what is ours, closes, frees. */
void region_free(struct larder_region *r);

/* What the node is told: whole pages of our own, exactly what was registered of the caller's. */
static inline size_t region_bytes(const struct larder_region *r)
{
	return r->fd >= 0 ? ALIGN_UP(r->size, r->page) : r->size;
}

/* --- region.c --- */

/* The direct region that holds [@addr, @addr + @len); NULL = goes through the bounce. */
struct larder_region *region_find(struct core *core, const void *addr, size_t len);
/* Makes it known to @conn. 0 = it is; -EAGAIN = under way; -errno or a status = it can not be. */
int region_know(struct conn *conn, struct larder_region *r);
bool region_in_use(struct core *core, const struct larder_region *r);
/* The node is frozen inside @len bytes at @addr: replaces their pages and detaches them. True when
 * some of it lay in a region. */
bool region_lose(struct core *core, const void *addr, size_t len);
/* The transport and the node forget it; @waiter (may be NULL) is finished afterwards. */
void region_forget(struct core *core, struct larder_region *r, struct job *waiter);
/* The connection is over. */
void regions_drop(struct conn *conn);

#endif
