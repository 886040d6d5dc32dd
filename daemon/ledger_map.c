/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger_map.h"

#include <string.h>

static const void *ledger_at(const struct larder_ledger_header *h,
			     enum larder_ledger_section section)
{
	return (const char *)h + h->section[section].offset;
}

const char *ledger_map_name(const struct larder_ledger_header *h, uint32_t slot)
{
	const struct larder_ledger_name *names = ledger_at(h, LARDER_SECTION_NAMES);

	return names[slot].tenant;
}

int ledger_map_slot(const struct larder_ledger_header *h, const char *tenant)
{
	for (uint32_t i = 0; i < h->tenants; i++)
		if (strcmp(ledger_map_name(h, i), tenant) == 0)
			return (int)i;
	return -1;
}

void ledger_map_gauges(const struct larder_ledger_header *h, uint32_t slot,
		       struct larder_gauges *ret)
{
	const struct larder_gauges *gauges = ledger_at(h, LARDER_SECTION_GAUGES);
	const uint64_t *from = (const uint64_t *)&gauges[slot];
	uint64_t *to = (uint64_t *)ret;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < offsetof(struct larder_gauges, tenant) / 8; i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

void ledger_map_usage(const struct larder_ledger_header *h, uint32_t slot, struct larder_usage *ret)
{
	const struct larder_usage *all = ledger_at(h, LARDER_SECTION_USAGE);
	uint64_t *to = (uint64_t *)ret;

	memset(ret, 0, sizeof(*ret));
	for (uint32_t w = 0; w < h->writers; w++) {
		const uint64_t *from = (const uint64_t *)&all[w * h->tenants + slot];

		for (size_t i = 0; i < offsetof(struct larder_usage, tenant) / 8; i++)
			to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	}
}
