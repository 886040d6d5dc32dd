/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases, stored so that they outlive the process. An entry counts from the moment its state is
 * HELD, stored last; it names its object by slot and generation, so that a slot's next object
 * never inherits it.
 */
#include "mem/records_internal.h"

struct lease_record *records_lease_take(struct records *r)
{
	struct records_stack *stack = &r->free_leases;
	struct lease_record *l = NULL;

	pthread_mutex_lock(&r->lock);
	if (stack->n)
		l = &r->leases[stack->index[--stack->n]];
	pthread_mutex_unlock(&r->lock);
	return l;
}

void records_lease_commit(struct lease_record *l)
{
	records_store_state(&l->state, LEASE_HELD);
}

void records_lease_give(struct records *r, struct lease_record *l)
{
	struct records_stack *stack = &r->free_leases;

	records_store_state(&l->state, LEASE_FREE);
	pthread_mutex_lock(&r->lock);
	assert(stack->n < r->n_leases);
	stack->index[stack->n++] = (uint32_t)(l - r->leases);
	pthread_mutex_unlock(&r->lock);
}

struct lease_record *records_lease_at(struct records *r, uint32_t i)
{
	return i < r->n_leases ? &r->leases[i] : NULL;
}

static bool lease_alive(const struct records *r, const struct lease_record *l,
			const uint64_t *alive)
{
	return l->state == LEASE_HELD && l->record < r->n_records &&
	       records_bit(alive, l->record) && l->tenant < RECORDS_TENANTS_MAX &&
	       l->generation == (uint32_t)r->record[l->record].generation;
}

void records_lease_rebuild(struct records *r, const uint64_t *alive, uint64_t gap_ns,
			   struct records_rebuilt *ret)
{
	for (uint32_t i = 0; i < r->n_leases; i++) {
		struct lease_record *l = &r->leases[i];

		if (l->state == LEASE_FREE)
			continue;
		if (!lease_alive(r, l, alive)) {
			records_store_state(&l->state, LEASE_FREE);
			continue;
		}
		if (__builtin_add_overflow(l->deadline_ns, gap_ns, &l->deadline_ns))
			l->deadline_ns = UINT64_MAX;
		ret->leases++;
	}
}
