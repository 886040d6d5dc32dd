/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of one identity (a tenant, or all viewers together) and what is used of those that the
 * node keeps: rates, requests in flight by class, connections, regions. The control thread sets,
 * reactors read and count; every number is right by itself.
 *
 * Counts are taken before what they stand for and given back after it, so they are never too small.
 */
#ifndef LARDER_NODE_LIMITS_H
#define LARDER_NODE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include <larder/limits.h>

#include "base/bucket.h"

struct larder_node;
struct tenant;

struct quota {
	/* atomic: as set, and what is in force; the second is never 0 where the node has a bound */
	uint64_t set[LARDER_LIMITS_MAX];
	uint64_t effective[LARDER_LIMITS_MAX];
	uint64_t shown[LARDER_LIMITS_MAX];	/* control: what the ledger's `limits` was told */
	struct bucket ops, in_bytes, out_bytes;
	/* atomic: by limit; only in_flight_*, connections, regions and region_bytes are used */
	uint64_t used[LARDER_LIMITS];
};

static inline uint64_t quota_limit(const struct quota *q, enum larder_limit limit)
{
	return __atomic_load_n(&q->effective[limit], __ATOMIC_RELAXED);
}

/* admit.c: atomically all of @n or nothing; what is claimed is given back. */
bool node_quota_claim(struct quota *q, enum larder_limit limit, uint64_t n);
void node_quota_give(struct quota *q, enum larder_limit limit, uint64_t n);

/* limits.c */
/* The ledger is told what is set and what is in force. */
void node_limits_publish(struct larder_node *n, struct quota *q, uint32_t slot);
void node_quota_init(struct quota *q);
/* Viewers get bounds of their own from the start. */
void node_limits_init(struct larder_node *n);
/* A tenant is new: tells what is in force for it. */
void node_limits_added(struct larder_node *n, struct tenant *tenant);
/* A tenant is removed: what it was guaranteed is the others' again; its other limits stay. */
void node_limits_removed(struct larder_node *n, struct tenant *tenant);

#endif
