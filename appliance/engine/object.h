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

struct engine_object {
	/* all guarded by the shard's lock, except refs */
	uint64_t hash;		/* of (namespace, key) */
	uint64_t at;		/* the policy's clock: when it got its place in the list */
	uint32_t chain;		/* next in the hash bucket, slot */
	uint32_t prev, next;	/* policy list, slots */
	uint32_t refs;		/* atomic: transfers that read it */
	uint32_t size_pages;
	uint32_t waiters;	/* head of parked ops: index + 1 into the engine's waiter table */
	uint32_t leases;	/* first lease entry, index + 1; 0 = none */
	uint16_t tenant;
	uint8_t state;		/* enum record_state, a copy */
	uint8_t seg;		/* policy list it is in; 0xff = none */
	uint64_t last;		/* the policy's second clock: last counted touch */
	struct engine *engine;	/* for the accessors */
};
static_assert(sizeof(struct engine_object) == 64, "a cache line");

#endif
