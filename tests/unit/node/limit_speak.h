/* SPDX-License-Identifier: Apache-2.0 */
/* Limits for tests of the node: set one, and what the ledger counted of it. */
#ifndef LARDER_TESTS_NODE_LIMIT_SPEAK_H
#define LARDER_TESTS_NODE_LIMIT_SPEAK_H

#include "region.h"

#include "node/node.h"

/* One limit of a tenant; all its others are none. */
static inline int set_one(struct rig *r, const char *tenant, enum larder_limit limit,
			  uint64_t value)
{
	struct larder_tenant_limits l = { .tenant = tenant };

	l.limits.value[limit] = value;
	return larder_node_set_limits(r->node, &l, 1, NULL);
}

/* Slots are given in the order of larder_node_tenant_add: demo 0, other 1. */
static inline uint64_t refused(struct rig *r, uint32_t slot, enum larder_limit limit)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < r->config.reactors; i++)
		sum += ledger_usage(r->node->ledger, i, slot)->refused[limit];
	return sum;
}

/* All that is refused for limits, by any of them. */
static inline uint64_t refused_sum(struct rig *r, uint32_t slot)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < LARDER_LIMITS; i++)
		sum += refused(r, slot, i);
	return sum;
}

/* Of a limit that the node counts itself. */
static inline uint64_t used(struct rig *r, const char *tenant, enum larder_limit limit)
{
	return node_tenants_find(&r->node->tenants, tenant)->quota.used[limit];
}

/* The last reply was THROTTLED, for @limit: the milliseconds that it told. */
static inline uint64_t told_ms(const struct peer *p, enum larder_limit limit, uint64_t value)
{
	char number[32];
	char text[512];

	assert_int_equal(p->h.status, LARDER_THROTTLED);
	snprintf(text, sizeof(text), "%.*s", (int)p->reply.tail_len, (const char *)p->reply.tail);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)value);
	assert_non_null(strstr(text, larder_limit_name(limit)));
	assert_non_null(strstr(text, number));
	assert_in_range(p->reply.u.error.detail, 1, 1000);
	return p->reply.u.error.detail;
}

static inline int peer_exists(struct peer *p, uint32_t ns, uint32_t flags, const char *key)
{
	return peer_keys(p, LARDER_OP_EXISTS, ns, flags, 0, 0, &key, 1);
}

#endif
