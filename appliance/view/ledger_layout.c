/* SPDX-License-Identifier: Apache-2.0 */
/* The layout's names and sizes. */
#include <larder/ledger.h>

#include "base/compiler.h"

LARDER_PUBLIC const char *larder_ledger_section_name(unsigned section)
{
	static const char *const names[LARDER_SECTIONS] = {
		[LARDER_SECTION_USAGE] = "usage",
		[LARDER_SECTION_GAUGES] = "gauges",
		[LARDER_SECTION_LATENCY] = "latency",
		[LARDER_SECTION_LIMITS] = "limits",
		[LARDER_SECTION_EFFECTIVE] = "effective",
		[LARDER_SECTION_NAMES] = "names",
		[LARDER_SECTION_NODE] = "node",
	};

	return section < LARDER_SECTIONS ? names[section] : "?";
}

LARDER_PUBLIC void larder_ledger_geometry(unsigned section, uint32_t writers,
					  uint32_t *ret_value_size, uint32_t *ret_entries)
{
	const struct {
		size_t size, entries;
	} of[LARDER_SECTIONS] = {
		[LARDER_SECTION_USAGE] = { sizeof(struct larder_usage),
					   (size_t)LARDER_LEDGER_TENANTS * writers },
		[LARDER_SECTION_GAUGES] = { sizeof(struct larder_gauges), LARDER_LEDGER_TENANTS },
		[LARDER_SECTION_LATENCY] = { sizeof(struct larder_latency), writers },
		[LARDER_SECTION_LIMITS] = { sizeof(uint64_t),
					    LARDER_LEDGER_TENANTS * LARDER_LEDGER_LIMITS },
		[LARDER_SECTION_EFFECTIVE] = { sizeof(uint64_t),
					       LARDER_LEDGER_TENANTS * LARDER_LEDGER_LIMITS },
		[LARDER_SECTION_NAMES] = { sizeof(struct larder_ledger_name),
					   LARDER_LEDGER_TENANTS },
		[LARDER_SECTION_NODE] = { sizeof(struct larder_node_section), 1 },
	};

	*ret_value_size = section < LARDER_SECTIONS ? (uint32_t)of[section].size : 0;
	*ret_entries = section < LARDER_SECTIONS ? (uint32_t)of[section].entries : 0;
}
