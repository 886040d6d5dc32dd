/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits as the control thread sets and reads them: all of a call are looked at before the first is
 * taken. What is in force is worked out for every tenant at each change, because the guarantee of
 * one bounds what the others may hold fast. Both go to the ledger. What the engine keeps it is
 * told; the rest is asked for by reactors at each request (admit.c).
 */
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "node/node.h"
#include "node/session.h"

#define LIMITS_VIEW "_view"

/*
 * What viewers get unless it is set: enough for people and an indexer, not for a second cache.
 * Their reads have no owner who could be asked to pay.
 */
static const struct larder_limits limits_viewers_default = { .value = {
	[LARDER_LIMIT_out_bytes_per_s] = 1ull << 30,
	[LARDER_LIMIT_ops_per_s] = 100000,
	[LARDER_LIMIT_in_flight_lookup] = 256,
	[LARDER_LIMIT_in_flight_fetch] = 64,
	[LARDER_LIMIT_connections] = 64,
} };

/* Viewers hold nothing, so of the limits these make sense. */
#define LIMITS_FOR_VIEWERS                                                                         \
	(1u << LARDER_LIMIT_out_bytes_per_s | 1u << LARDER_LIMIT_ops_per_s |                       \
	 1u << LARDER_LIMIT_in_flight_lookup | 1u << LARDER_LIMIT_in_flight_fetch |                \
	 1u << LARDER_LIMIT_connections | 1u << LARDER_LIMIT_regions |                             \
	 1u << LARDER_LIMIT_region_bytes | 1u << LARDER_LIMIT_weight)

void node_quota_init(struct quota *q)
{
	bucket_init(&q->ops, 1);
	bucket_init(&q->in_bytes, NODE_PIECE_BYTES);
	bucket_init(&q->out_bytes, NODE_PIECE_BYTES);
}

static uint64_t limits_set_value(const struct quota *q, enum larder_limit limit)
{
	return __atomic_load_n(&q->set[limit], __ATOMIC_RELAXED);
}

/* --- what is in force ------------------------------------------------------------------------ */

/* 0 is no limit, on either side. */
static uint64_t limits_least(uint64_t a, uint64_t b)
{
	return a == 0 || b == 0 ? MAX(a, b) : MIN(a, b);
}

static uint64_t limits_times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* The node's own bounds, from which a tenant's limits can only take away. 0 = it has none. */
static void limits_of_node(const struct larder_node *n, uint64_t connections,
			   uint64_t bound[LARDER_LIMITS])
{
	const struct larder_node_config *c = &n->config;
	struct larder_memory_info info;

	larder_memory_get_info(c->memory, &info);
	memset(bound, 0, LARDER_LIMITS * sizeof(*bound));
	bound[LARDER_LIMIT_resident_bytes] = info.arena_bytes;
	bound[LARDER_LIMIT_objects] = info.records;
	bound[LARDER_LIMIT_pinned_bytes] = info.arena_bytes;
	bound[LARDER_LIMIT_leased_bytes] = info.arena_bytes;
	bound[LARDER_LIMIT_connections] = c->max_connections;
	bound[LARDER_LIMIT_regions] = limits_times(connections, c->max_regions);
	bound[LARDER_LIMIT_region_bytes] = limits_times(connections, c->max_region_bytes);
	bound[LARDER_LIMIT_in_flight_lookup] = limits_times(connections, c->credits);
	bound[LARDER_LIMIT_in_flight_fetch] = bound[LARDER_LIMIT_in_flight_lookup];
	bound[LARDER_LIMIT_in_flight_write] = bound[LARDER_LIMIT_in_flight_lookup];
}

/*
 * Somebody may have written a limit through the map since it was shown: that is left to
 * larder_node_limits_look(), not overwritten.
 */
static void limits_show(uint64_t *at, uint64_t *shown, uint64_t value)
{
	uint64_t expected = *shown;

	if (__atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		*shown = value;
}

void node_limits_publish(struct larder_node *n, struct quota *q, uint32_t slot)
{
	uint64_t *set = &n->ledger->limits[slot * LARDER_LEDGER_LIMITS];
	uint64_t *effective = &n->ledger->effective[slot * LARDER_LEDGER_LIMITS];

	if (slot == LARDER_LEDGER_VIEW_TENANT - 1)
		return;		/* "_other": several tenants share it */
	for (unsigned i = 0; i < LARDER_LIMITS; i++) {
		limits_show(&set[i], &q->shown[i], limits_set_value(q, i));
		__atomic_store_n(&effective[i], quota_limit(q, i), __ATOMIC_RELAXED);
	}
}

/* @in: what is set, or what the engine makes of it. */
static void limits_work_out(struct larder_node *n, struct quota *q, const struct larder_limits *in,
			    uint32_t slot)
{
	uint64_t bound[LARDER_LIMITS];

	limits_of_node(n, limits_least(in->value[LARDER_LIMIT_connections],
				       n->config.max_connections), bound);
	for (unsigned i = 0; i < LARDER_LIMITS; i++)
		__atomic_store_n(&q->effective[i], limits_least(in->value[i], bound[i]),
				 __ATOMIC_RELAXED);
	if (in->value[LARDER_LIMIT_weight] == 0)
		__atomic_store_n(&q->effective[LARDER_LIMIT_weight], LARDER_WEIGHT_DEFAULT,
				 __ATOMIC_RELAXED);
	bucket_set(&q->ops, in->value[LARDER_LIMIT_ops_per_s]);
	bucket_set(&q->in_bytes, in->value[LARDER_LIMIT_in_bytes_per_s]);
	bucket_set(&q->out_bytes, in->value[LARDER_LIMIT_out_bytes_per_s]);
	node_limits_publish(n, q, slot);
}

static void limits_of_tenant(struct larder_node *n, struct tenant *t)
{
	struct larder_limits effective;

	engine_tenant_effective(n->engine, t->id, &effective);
	limits_work_out(n, &t->quota, &effective, t->slot);
}

static void limits_tell_engine(struct larder_node *n, const struct tenant *t)
{
	struct larder_limits set;

	for (unsigned i = 0; i < LARDER_LIMITS_MAX; i++)
		set.value[i] = limits_set_value(&t->quota, i);
	engine_tenant_set_limits(n->engine, t->id, &set);
}

static void limits_of_viewers(struct larder_node *n)
{
	struct larder_limits set;

	for (unsigned i = 0; i < LARDER_LIMITS_MAX; i++)
		set.value[i] = limits_set_value(&n->viewers, i);
	limits_work_out(n, &n->viewers, &set, LARDER_LEDGER_VIEW_TENANT);
}

/* The engine is told of every tenant first: the guarantees of all count for each. */
static void limits_all(struct larder_node *n)
{
	for (uint32_t i = 0; i < n->tenants.n; i++)
		limits_tell_engine(n, n->tenants.at[i]);
	for (uint32_t i = 0; i < n->tenants.n; i++)
		limits_of_tenant(n, n->tenants.at[i]);
	limits_of_viewers(n);
}

static void limits_keep(struct quota *q, const struct larder_limits *l)
{
	for (unsigned i = 0; i < LARDER_LIMITS; i++)
		__atomic_store_n(&q->set[i], l->value[i], __ATOMIC_RELAXED);
}

void node_limits_init(struct larder_node *n)
{
	node_quota_init(&n->viewers);
	limits_keep(&n->viewers, &limits_viewers_default);
	limits_of_viewers(n);
}

void node_limits_added(struct larder_node *n, struct tenant *tenant)
{
	limits_of_tenant(n, tenant);
}

void node_limits_removed(struct larder_node *n, struct tenant *tenant)
{
	__atomic_store_n(&tenant->quota.set[LARDER_LIMIT_guarantee_bytes], 0, __ATOMIC_RELAXED);
	limits_all(n);
}

/* --- what may be set ------------------------------------------------------------------------- */

static struct quota *limits_find(struct larder_node *n, const char *tenant)
{
	struct tenant *t;

	if (!tenant)
		return NULL;
	if (strcmp(tenant, LIMITS_VIEW) == 0)
		return &n->viewers;
	t = node_tenants_find(&n->tenants, tenant);
	return t ? &t->quota : NULL;
}

/* What is wrong with @l by itself: -EINVAL and a line, or 0. */
static int limits_check_values(struct larder_node *n, const struct larder_tenant_limits *l)
{
	const uint64_t *v = l->limits.value;
	bool viewers = strcmp(l->tenant, LIMITS_VIEW) == 0;

	for (unsigned i = 0; i < LARDER_LIMITS_MAX; i++) {
		if (v[i] == 0)
			continue;
		if (!larder_limit_valid(i, v[i])) {
			log_warning(&n->log, "limits of %s not set: %s can not be %llu", l->tenant,
				    larder_limit_name(i), (unsigned long long)v[i]);
			return -EINVAL;
		}
		if (viewers && !(LIMITS_FOR_VIEWERS & 1u << i)) {
			log_warning(&n->log, "limits of " LIMITS_VIEW " not set: viewers write "
				    "nothing and hold nothing, so they have no %s",
				    larder_limit_name(i));
			return -EINVAL;
		}
	}
	if (v[LARDER_LIMIT_resident_bytes] > 0 &&
	    v[LARDER_LIMIT_guarantee_bytes] > v[LARDER_LIMIT_resident_bytes]) {
		log_warning(&n->log, "limits of %s not set: its guarantee, %llu bytes, is more "
			    "than its resident_bytes, %llu", l->tenant,
			    (unsigned long long)v[LARDER_LIMIT_guarantee_bytes],
			    (unsigned long long)v[LARDER_LIMIT_resident_bytes]);
		return -EINVAL;
	}
	return 0;
}

/* -ENOENT, -EINVAL, or 0. @before: the entries that were checked already. */
static int limits_check_entry(struct larder_node *n, const struct larder_tenant_limits *l,
			      const struct larder_tenant_limits *before, size_t n_before)
{
	if (!limits_find(n, l->tenant)) {
		log_warning(&n->log, "limits not set: there is no tenant %s",
			    l->tenant ? l->tenant : "without a name");
		return -ENOENT;
	}
	for (size_t i = 0; i < n_before; i++) {
		if (strcmp(before[i].tenant, l->tenant) == 0) {
			log_warning(&n->log, "limits of %s not set: they are given twice",
				    l->tenant);
			return -EINVAL;
		}
	}
	return limits_check_values(n, l);
}

/* What a guarantee takes of the node: whole pages. */
static uint64_t limits_whole_pages(const struct larder_node *n, uint64_t bytes)
{
	return bytes > UINT64_MAX - n->page_size ? UINT64_MAX :
						   ALIGN_UP(bytes, (uint64_t)n->page_size);
}

static uint64_t limits_guarantee(const struct larder_node *n, const struct quota *q)
{
	return limits_whole_pages(n, limits_set_value(q, LARDER_LIMIT_guarantee_bytes));
}

/* All of them: they were checked to fit the node, so the sum does not wrap. */
static uint64_t limits_guarantees(const struct larder_node *n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n->tenants.n; i++)
		sum += limits_guarantee(n, &n->tenants.at[i]->quota);
	return sum;
}

/* Guarantees of the tenants that @limits does not name stay; those of the others are added up. */
static int limits_check_sum(struct larder_node *n, const struct larder_tenant_limits *limits,
			    size_t n_limits, size_t *ret_bad)
{
	uint64_t sum = limits_guarantees(n);
	struct larder_memory_info info;

	larder_memory_get_info(n->config.memory, &info);
	for (size_t i = 0; i < n_limits; i++)
		sum -= limits_guarantee(n, limits_find(n, limits[i].tenant));
	for (size_t i = 0; i < n_limits; i++) {
		uint64_t add = limits_whole_pages(
			n, limits[i].limits.value[LARDER_LIMIT_guarantee_bytes]);

		if (add > info.arena_bytes - sum) {
			*ret_bad = i;
			log_warning(&n->log, "limits of %s not set: a guarantee of %llu bytes does "
				    "not fit: of the node's %llu, %llu are guaranteed to others",
				    limits[i].tenant, (unsigned long long)add,
				    (unsigned long long)info.arena_bytes,
				    (unsigned long long)sum);
			return -ENOSPC;
		}
		sum += add;
	}
	return 0;
}

LARDER_PUBLIC int larder_node_set_limits(struct larder_node *n,
					 const struct larder_tenant_limits *limits, size_t n_limits,
					 size_t *ret_bad)
{
	size_t ignored;
	int r;

	if (!ret_bad)
		ret_bad = &ignored;
	for (size_t i = 0; i < n_limits; i++) {
		*ret_bad = i;
		r = limits_check_entry(n, &limits[i], limits, i);
		if (r < 0)
			return r;
	}
	r = limits_check_sum(n, limits, n_limits, ret_bad);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n_limits; i++)
		limits_keep(limits_find(n, limits[i].tenant), &limits[i].limits);
	limits_all(n);
	return 0;
}

LARDER_PUBLIC int larder_node_get_limits(struct larder_node *n, const char *tenant,
					 struct larder_limits *ret_set,
					 struct larder_limits *ret_effective)
{
	const struct quota *q = limits_find(n, tenant);

	if (!q)
		return -ENOENT;
	for (unsigned i = 0; i < LARDER_LIMITS_MAX; i++) {
		if (ret_set)
			ret_set->value[i] = limits_set_value(q, i);
		if (ret_effective)
			ret_effective->value[i] = quota_limit(q, i);
	}
	return 0;
}
