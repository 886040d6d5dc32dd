/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engine keeps on the heap for each record slot: an array indexed by slot, so that links
 * are slots and the whole costs 64 bytes an object. Rebuilt from the record file at start.
 */
#ifndef LARDER_ENGINE_OBJECT_H
#define LARDER_ENGINE_OBJECT_H

#include <assert.h>
#include <stdint.h>

#include "base/compiler.h"

/* In the index, but without pages and a filled record yet: its key is still that of the op. */
#define OBJECT_RESERVING 0x80u
/* In the index, and somebody holds its fill lease: engine_fill.c. */
#define OBJECT_PROMISED 0x81u
#define OBJECT_GONE 0x80000000u
#define OBJECT_SEG_NONE 0xffu
#define OBJECT_TTL 0x1u		/* it may expire: only then is that part of its record looked at */

struct engine_object {
	/* Guarded by the shard's lock, except refs and leases. hash, chain, tenant and state are
	 * also peeked at without it, so they are stored as atomics. */
	uint64_t hash;		/* of (namespace, key) */
	uint64_t at;		/* the policy's clock: when it got its place in the list */
	uint32_t chain;		/* next in the hash bucket, slot */
	uint32_t prev, next;	/* policy list, slots */
	uint32_t refs;		/* atomic: who reads it; OBJECT_GONE: the last one frees it */
	uint32_t size_pages;
	uint32_t waiters;	/* head of parked ops: index + 1 into the engine's waiter table */
	uint32_t leases;	/* its group of leases, index + 1; 0 = none. Leases' lock */
	uint8_t tenant;
	uint8_t flags;		/* OBJECT_TTL */
	uint8_t state;		/* enum record_state, a copy; or OBJECT_* */
	uint8_t seg;		/* policy list it is in; 0xff = none */
	/* the policy's second clock; OBJECT_RESERVING: its op; OBJECT_PROMISED: its promise */
	uint64_t last;
	struct engine *engine;	/* for the accessors */
};
static_assert(sizeof(struct engine_object) == 64, "a cache line");

#endif
