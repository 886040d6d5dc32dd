/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: what is not expected to be read is not written. Chosen per namespace and kept with it
 * in the record file.
 *
 * Second touch: a key that is not there is stored when it is put for the second time while the
 * ghost still knows it, from the first try or from an eviction. The first PUT is refused as QUOTA,
 * not acknowledged: an acknowledged object has to be readable (promise 2), a refusal has to be said
 * (promise 8), and of the refusals the client library repeats BUSY and waits out THROTTLED, either
 * of which would itself be the second touch.
 */
#include "engine/engine_internal.h"

bool engine_admits(struct engine_reactor *r, const struct larder_op *op, const struct engine_key *k)
{
	struct engine *e = r->engine;
	struct larder_usage *u;

	if (!__atomic_load_n(&e->namespaces[op->ns].second_touch, __ATOMIC_RELAXED) || !e->ghost ||
	    policy_ghost_has(e->ghost, k->hash))
		return true;
	policy_ghost_put(e->ghost, k->hash, arena_pages_of(e->page_size, op->length));
	u = engine_usage(r, engine_usage_slot(e, op));
	if (u)
		ledger_count(&u->put_not_admitted, 1);
	return false;
}

bool engine_admission_is_possible(const struct engine *e, enum engine_admission admission)
{
	return admission == ENGINE_ADMIT_ALL || e->ghost;
}

/* engine.control held. */
static void admission_set(struct engine *e, uint32_t ns, uint32_t flags, bool second_touch)
{
	flags &= ~NAMESPACE_SECOND_TOUCH;
	if (second_touch)
		flags |= NAMESPACE_SECOND_TOUCH;
	records_namespace_set_flags(e->records, ns, flags);
	__atomic_store_n(&e->namespaces[ns].second_touch, second_touch, __ATOMIC_RELAXED);
}

int engine_namespace_set_admission(struct engine *e, uint32_t tenant, uint32_t ns,
				   enum engine_admission admission)
{
	const struct namespace_record *record;

	(void)pthread_mutex_lock(&e->control);
	record = engine_namespace(e, tenant, false, ns);
	if (record && engine_admission_is_possible(e, admission))
		admission_set(e, ns, record->flags, admission == ENGINE_ADMIT_SECOND_TOUCH);
	(void)pthread_mutex_unlock(&e->control);
	if (!record)
		return LARDER_NOT_FOUND;
	return engine_admission_is_possible(e, admission) ? LARDER_OK : LARDER_UNSUPPORTED;
}

enum engine_admission engine_namespace_admission(struct engine *e, uint32_t ns)
{
	return ns < e->n_namespaces &&
	       __atomic_load_n(&e->namespaces[ns].second_touch, __ATOMIC_RELAXED) ?
	       ENGINE_ADMIT_SECOND_TOUCH : ENGINE_ADMIT_ALL;
}
