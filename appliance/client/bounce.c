/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounce: memory of the library that the node of a one-sided connection reaches, for callers'
 * buffers that it does not reach.
 *
 * It is made of arenas, each a region of its own, that are created when they are needed and grow
 * until bounce_bytes are used; a call that needs more than that alone gets an arena for itself, one
 * such call at a time. Arenas belong to one connection and end with it: a node that froze inside
 * one keeps the old pages, nobody else has them.
 *
 * A call that finds no room waits. One that no arena could ever serve puts a claim on the bounce:
 * the others wait until idle arenas could be given up for it, so that small calls never starve a
 * large one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "client/conn.h"
#include "client/memory.h"

#define BOUNCE_CHUNK (64u * 1024u)
#define BOUNCE_FIRST (4u * 1024u * 1024u)

struct arena {
	struct list link;		/* conn->arenas */
	struct conn *conn;
	struct larder_region region;
	uint32_t n_chunks;
	uint32_t n_used;
	uint32_t next;			/* where to look first */
	bool leaving;			/* REGION_DEL is under way */
	uint8_t used[];			/* per chunk */
};

static void arena_free(struct conn *conn, struct arena *a)
{
	size_t size = a->region.size;

	conn->arena_bytes -= size;
	list_remove(&a->link);
	/* unmapping can only fail for an address that is not ours */
	(void)munmap(a->region.addr, size);
	(void)close(a->region.fd);
	free(a);
}

void arena_forget(struct conn *conn, struct list *link)
{
	struct larder_region *r = &list_entry(link, struct arena, link)->region;
	struct transport_region *tr = TAKE_PTR(r->tr);

	if (tr && conn->tc)
		(void)tr->transport->ops->region_del(tr);	/* as regions_drop */
	r->state = REGION_UNKNOWN;
}

void bounce_drop(struct conn *conn)
{
	conn->arena_claim = NULL;
	list_for_each_safe(it, &conn->arenas)
		arena_free(conn, list_entry(it, struct arena, link));
}

static struct arena *arena_new(struct conn *conn, uint64_t size)
{
	uint32_t n = (uint32_t)(size / BOUNCE_CHUNK);
	struct arena *a = calloc(1, sizeof(*a) + n);
	int r;

	if (!a)
		return NULL;
	a->conn = conn;
	a->n_chunks = n;
	a->region.size = size;
	r = mapping_create(size, false, &a->region.fd, &a->region.addr, &a->region.page);
	if (r < 0) {
		log_err(&conn->core->log, "no bounce memory of %llu bytes: %s",
			(unsigned long long)size, strerror(-r));
		free(a);
		return NULL;
	}
	list_init(&a->region.link);
	a->region.owned = true;
	conn->arena_bytes += size;
	list_push_tail(&conn->arenas, &a->link);
	return a;
}

/* A run of free chunks; -1 = none. */
static int64_t arena_take(struct arena *a, uint32_t n)
{
	uint32_t run = 0;

	if (a->leaving || n > a->n_chunks - a->n_used)
		return -1;
	for (uint32_t pass = 0; pass < 2; pass++) {
		run = 0;
		for (uint32_t i = pass ? 0 : a->next; i < a->n_chunks; i++) {
			run = a->used[i] ? 0 : run + 1;
			if (run < n)
				continue;
			memset(a->used + i + 1 - n, 1, n);
			a->n_used += n;
			a->next = i + 1 < a->n_chunks ? i + 1 : 0;
			return i + 1 - n;
		}
	}
	return -1;
}

/* Gives up arenas that nobody uses. True when one is on its way out. */
static bool bounce_shrink(struct conn *conn)
{
	bool leaving = false;

	list_for_each_safe(it, &conn->arenas) {
		struct arena *a = list_entry(it, struct arena, link);

		if (a->leaving && a->region.state == REGION_UNKNOWN) {
			arena_free(conn, a);
			continue;
		}
		if (a->n_used || a->region.state == REGION_ADDING)
			continue;
		if (!a->leaving) {
			a->leaving = true;
			region_forget(conn->core, &a->region, NULL);
		}
		leaving = true;
	}
	return leaving;
}

/* How large the next arena for @len bytes should be; 0 = there is no room for one. */
static uint64_t bounce_next_size(const struct conn *conn, uint64_t len)
{
	uint64_t max = conn->core->bounce_bytes, used = conn->arena_bytes;
	uint64_t size = MAX((uint64_t)BOUNCE_FIRST, used);	/* doubles what there is */

	len = ALIGN_UP(len, (uint64_t)BOUNCE_CHUNK);
	if (len > max)
		return used ? 0 : len;	/* alone */
	if (used >= max || len > max - used)
		return 0;
	return ALIGN_DOWN(MIN(MAX(size, len), max - used), (uint64_t)BOUNCE_CHUNK);
}

/*
 * The transport (-errno) or the node (a status) does not take it. This call ends, and the next one
 * tries with another: what was short may not be any more, and a refusal for good is said again.
 */
static int bounce_refused(struct conn *conn, struct call *call, struct arena *a, int r)
{
	int status = r > 0 ? r : LARDER_INTERNAL;

	job_text(call->job, status, "bounce memory of %zu bytes is refused: %s", a->region.size,
		 r > 0 ? larder_status_text(r) : strerror(-r));
	if (a->n_used == 0)
		arena_free(conn, a);
	return status;
}

static int bounce_know(struct conn *conn, struct call *call, struct arena *a)
{
	int r = a ? region_know(conn, &a->region) : -ENOMEM;

	return !a || !r || r == -EAGAIN ? r : bounce_refused(conn, call, a, r);
}

static int bounce_grow(struct conn *conn, struct call *call, uint64_t len)
{
	uint64_t size = bounce_next_size(conn, len);
	struct arena *a;
	bool fits = false;

	if (size >= len) {
		return bounce_know(conn, call, arena_new(conn, size));
	}
	list_for_each(it, &conn->arenas) {
		a = list_entry(it, struct arena, link);
		fits |= !a->leaving && (uint64_t)a->n_chunks * BOUNCE_CHUNK >= len;
	}
	if (fits)
		return -EAGAIN;		/* when others have given theirs back */
	conn->arena_claim = call;
	if (bounce_shrink(conn))
		return -EAGAIN;
	size = bounce_next_size(conn, len);
	if (size < len)
		return -EAGAIN;
	return bounce_know(conn, call, arena_new(conn, size));
}

int bounce_get(struct conn *conn, struct call *call, uint64_t len)
{
	uint32_t n = (uint32_t)((len + BOUNCE_CHUNK - 1) / BOUNCE_CHUNK);
	bool waits = false;

	if (conn->arena_claim && conn->arena_claim != call)
		return -EAGAIN;
	list_for_each(it, &conn->arenas) {
		struct arena *a = list_entry(it, struct arena, link);
		int r = a->leaving ? -EAGAIN : bounce_know(conn, call, a);
		int64_t at;

		if (r == -EAGAIN) {
			waits |= !a->leaving && a->n_chunks >= n;
			continue;
		}
		if (r)
			return r;
		at = arena_take(a, n);
		if (at < 0)
			continue;
		call->arena = a;
		call->bounce_off = (uint64_t)at * BOUNCE_CHUNK;
		call->bounce_len = len;
		conn->arena_claim = NULL;
		return 0;
	}
	return waits ? -EAGAIN : bounce_grow(conn, call, len);
}

static struct conn *bounce_claimant(struct call *call)
{
	list_for_each(it, &call->core->conns) {
		struct conn *conn = list_entry(it, struct conn, link);

		if (conn->arena_claim == call)
			return conn;
	}
	return NULL;
}

void bounce_put(struct call *call)
{
	struct arena *a = TAKE_PTR(call->arena);
	struct conn *conn = bounce_claimant(call);
	uint32_t first, n;

	if (conn)
		conn->arena_claim = NULL;
	if (!a)
		return;
	first = (uint32_t)(call->bounce_off / BOUNCE_CHUNK);
	n = (uint32_t)((call->bounce_len + BOUNCE_CHUNK - 1) / BOUNCE_CHUNK);
	memset(a->used + first, 0, n);
	a->n_used -= n;
	call->core->kick = true;
	if (a->conn->arena_bytes > call->core->bounce_bytes)
		(void)bounce_shrink(a->conn);	/* one that was made for a single large value */
}

void bounce_retire(struct call *call)
{
	call->arena = NULL;	/* its chunks stay used until the connection ends */
}

uint8_t *bounce_at(const struct call *call, uint64_t offset)
{
	return call->arena->region.addr + call->bounce_off + offset;
}

struct wire_seg bounce_seg(const struct call *call, uint64_t offset, uint64_t len)
{
	return (struct wire_seg){
		.region = call->arena->region.number,
		.length = (uint32_t)len,
		.offset = call->bounce_off + offset,
	};
}
