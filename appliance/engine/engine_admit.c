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

int engine_namespace_set_admission(struct engine *e, uint32_t tenant, uint32_t ns,
				   enum engine_admission admission)
{
	const struct namespace_record *record = engine_namespace(e, tenant, false, ns);
	uint32_t flags;

	if (!record)
		return LARDER_NOT_FOUND;
	if (admission == ENGINE_ADMIT_SECOND_TOUCH && !e->ghost)
		return LARDER_UNSUPPORTED;
	(void)pthread_mutex_lock(&e->control);
	flags = record->flags & ~NAMESPACE_SECOND_TOUCH;
	if (admission == ENGINE_ADMIT_SECOND_TOUCH)
		flags |= NAMESPACE_SECOND_TOUCH;
	records_namespace_set_flags(e->records, ns, flags);
	__atomic_store_n(&e->namespaces[ns].second_touch,
			 admission == ENGINE_ADMIT_SECOND_TOUCH, __ATOMIC_RELAXED);
	(void)pthread_mutex_unlock(&e->control);
	return LARDER_OK;
}

enum engine_admission engine_namespace_admission(struct engine *e, uint32_t ns)
{
	return ns < e->n_namespaces &&
	       __atomic_load_n(&e->namespaces[ns].second_touch, __ATOMIC_RELAXED) ?
	       ENGINE_ADMIT_SECOND_TOUCH : ENGINE_ADMIT_ALL;
}
