/* SPDX-License-Identifier: Apache-2.0 */
/* "Why was this a miss?", asked by names; the engine's record of evictions knows. */
#include <errno.h>
#include <string.h>

#include "node/node.h"

static uint64_t why_ago_ms(uint64_t now, uint64_t then)
{
	return now > then ? (now - then) / NSEC_PER_MSEC : 0;
}

LARDER_PUBLIC int larder_node_why(struct larder_node *n, const char *tenant, const void *ns,
				  size_t ns_len, const void *key, size_t key_len,
				  struct larder_node_why *ret)
{
	static const char *const fates[] = {
		[ENGINE_FATE_UNKNOWN] = "unknown", [ENGINE_FATE_PRESENT] = "present",
		[ENGINE_FATE_EVICTED] = "evicted", [ENGINE_FATE_REFUSED] = "refused",
	};
	struct records *records = engine_records(n->engine);
	uint64_t now = clock_now(&n->clock);
	uint32_t tenant_id, ns_id;
	struct engine_why w;
	const char *whom;

	if (ns_len < 1 || ns_len > LARDER_NS_NAME_MAX || key_len < 1 || key_len > LARDER_KEY_MAX)
		return -EINVAL;
	if (records_tenant_find(records, tenant, &tenant_id) < 0 ||
	    records_namespace_find(records, tenant_id, ns, (uint16_t)ns_len, &ns_id) < 0 ||
	    !engine_why(n->engine, tenant_id, ns_id, key, (uint16_t)key_len, &w))
		return -ENOENT;
	*ret = (struct larder_node_why){
		.fate = fates[w.fate],
		.status = w.status,
		.ago_ms = why_ago_ms(now, w.when_ns),
		.age_ms = w.age_ms,
		.record_ms = why_ago_ms(now, w.since_ns),
		.record_entries = w.entries,
	};
	whom = w.fate == ENGINE_FATE_EVICTED && w.room_for != UINT32_MAX ?
	       engine_tenant_name(n->engine, w.room_for) : NULL;
	if (whom)
		strncpy(ret->room_for, whom, sizeof(ret->room_for) - 1);
	return 0;
}
