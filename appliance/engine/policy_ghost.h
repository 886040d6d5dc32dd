/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ghost: which keys left the node lately, without their values. One table for the node, made of
 * 64-byte lines of eight slots {fingerprint, clock}; a look-up is one cache miss.
 *
 * The clock counts evicted pages of the whole node, so that of two slots in a line the older is
 * known whoever they belong to. A key is remembered until the node has evicted four times what it
 * holds; the table has room for about four times as many keys as that, so that a line seldom drops
 * what is still wanted.
 *
 * A line belongs to the shard of its keys and is guarded by that shard's lock. Fingerprints may
 * collide: a key is then taken for one that was here, once in some hundred million look-ups.
 */
#ifndef LARDER_ENGINE_POLICY_GHOST_H
#define LARDER_ENGINE_POLICY_GHOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy_ghost;

/* @objects: how many the node holds when it is full; @pages: its memory. 0 or -ENOMEM. */
int policy_ghost_new(uint32_t shard_bits, uint32_t objects, uint32_t pages,
		     struct policy_ghost **ret);
struct policy_ghost *policy_ghost_free(struct policy_ghost *g);		/* always NULL */
size_t policy_ghost_bytes(const struct policy_ghost *g);
/* @hash: of the key, as the index has it. Shard's lock held. */
void policy_ghost_put(struct policy_ghost *g, uint64_t hash, uint32_t pages);
/* Forgets the key. True when it was remembered. */
bool policy_ghost_take(struct policy_ghost *g, uint64_t hash);
bool policy_ghost_has(const struct policy_ghost *g, uint64_t hash);

#endif
