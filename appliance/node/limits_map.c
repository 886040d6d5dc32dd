/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that come through the ledger: where its sections are BPF arrays, who may write them sets a
 * limit with one u64. The array is memory of the kernel's, so nobody tells us: the control thread
 * looks. Reserved places and rows without a tenant are no limits: what is written there goes.
 */
#include <stdio.h>

#include "base/compiler.h"
#include "node/node.h"

#define LIMITS_VIEW "_view"

static uint64_t *limits_row(struct larder_node *n, uint32_t slot)
{
	return &n->ledger->limits[slot * LARDER_LEDGER_LIMITS];
}

/* Takes what differs from what was shown; bits by limit. What is taken counts as shown. */
static uint32_t limits_take(struct larder_node *n, struct quota *q, uint32_t slot,
			    struct larder_limits *values)
{
	const uint64_t *row = limits_row(n, slot);
	uint32_t given = 0;

	for (unsigned i = 0; i < LARDER_LIMITS; i++) {
		uint64_t now = __atomic_load_n(&row[i], __ATOMIC_RELAXED);

		if (now == q->shown[i])
			continue;
		values->value[i] = now;
		q->shown[i] = now;
		given |= 1u << i;
	}
	return given;
}

/* The values that are set, for those that were not written. */
static void limits_fill_up(const struct quota *q, struct larder_limits *values, uint32_t given)
{
	for (unsigned i = 0; i < LARDER_LIMITS_MAX; i++)
		if (!(given & 1u << i))
			values->value[i] = __atomic_load_n(&q->set[i], __ATOMIC_RELAXED);
}

static void limits_look_at(struct larder_node *n, const char *tenant, struct quota *q,
			   uint32_t slot, larder_limits_fn *fn, void *user)
{
	struct larder_limits values = { .value = { 0 } };
	uint32_t given = limits_take(n, q, slot, &values), taken;

	if (!given)
		return;
	limits_fill_up(q, &values, given);
	taken = fn(user, tenant, &values, given) & given;
	node_count(&n->ledger->node->limits_written, (uint64_t)__builtin_popcount(taken));
	node_count(&n->ledger->node->limits_refused,
		   (uint64_t)__builtin_popcount(given & ~taken));
	for (unsigned i = 0; i < LARDER_LIMITS; i++) {
		char good[LARDER_LIMIT_TEXT];

		if (!(given & ~taken & 1u << i))
			continue;
		log_warning(&n->log, "tenant %s: %s = %llu of the limits map can not be: "
			    "written back to %s", tenant, larder_limit_name(i),
			    (unsigned long long)values.value[i],
			    larder_limit_format(i, __atomic_load_n(&q->set[i], __ATOMIC_RELAXED),
						good));
	}
	node_limits_publish(n, q, slot);
}

/* @from, @to: places of a row in which nothing may stand. */
static void limits_wipe(struct larder_node *n, uint32_t slot, unsigned from, unsigned to)
{
	uint64_t *row = limits_row(n, slot);

	for (unsigned i = from; i < to; i++) {
		uint64_t was = __atomic_exchange_n(&row[i], 0, __ATOMIC_RELAXED);

		if (!was)
			continue;
		node_count(&n->ledger->node->limits_refused, 1);
		log_warning(&n->log, "element %u of the limits map, %llu, is no limit of a tenant: "
			    "written back to 0", slot * LARDER_LEDGER_LIMITS + i,
			    (unsigned long long)was);
	}
}

LARDER_PUBLIC void larder_node_limits_look(struct larder_node *n, larder_limits_fn *fn, void *user)
{
	bool used[LARDER_LEDGER_TENANTS] = { [LARDER_LEDGER_VIEW_TENANT] = true };

	limits_look_at(n, LIMITS_VIEW, &n->viewers, LARDER_LEDGER_VIEW_TENANT, fn, user);
	for (uint32_t i = 0; i < n->tenants.n; i++) {
		struct tenant *t = n->tenants.at[i];

		if (t->slot == LARDER_LEDGER_VIEW_TENANT - 1)
			continue;	/* "_other": several share it, and it shows none */
		used[t->slot] = true;
		limits_look_at(n, t->name, &t->quota, t->slot, fn, user);
	}
	for (uint32_t slot = 0; slot < LARDER_LEDGER_TENANTS; slot++)
		limits_wipe(n, slot, used[slot] ? LARDER_LIMITS : 0, LARDER_LEDGER_LIMITS);
}
