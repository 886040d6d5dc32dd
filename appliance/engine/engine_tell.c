/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What probes say of objects and leases, where that takes more than what is at hand: outside the
 * functions that do the work, so that nothing of it is in their way while nobody listens.
 */
#include <larder/probes.h>

#include "engine/engine_internal.h"

void engine_tell_evicted(struct engine_reactor *r, uint32_t slot, enum engine_end why)
{
	struct engine *e = r->engine;
	const struct record *record = engine_record(e, slot);
	uint64_t last = __atomic_load_n(&record->last_ns, __ATOMIC_RELAXED);
	uint64_t now = clock_now(e->clock), age = now > last ? now - last : 0;
	uint32_t by = why == END_EVICTED && r->room_for != RECORD_NONE ?
		      e->tenants[r->room_for].ledger_slot : LARDER_PROBE_NOBODY;

	larder_probe5(evict, e->tenants[record->tenant].ledger_slot, by, record->length, age,
		      why == END_EVICTED ? LARDER_EVICT_ROOM : LARDER_EVICT_EXPIRED);
}

void engine_tell_lease(struct engine *e, const struct lease_record *record, uint32_t slot,
		       enum larder_probe_lease event, uint64_t now)
{
	uint64_t left = 0, bytes = 0;

	if (!larder_probe_enabled(lease))
		return;
	if (event != LARDER_LEASE_ENDED && record->deadline_ns > now)
		left = record->deadline_ns - now;
	if (slot != RECORD_NONE)
		bytes = engine_record(e, slot)->length;
	larder_probe5(lease, e->tenants[record->tenant].ledger_slot, event, record->id, left,
		      bytes);
}
