/* SPDX-License-Identifier: Apache-2.0 */
/* The node's ledger as the daemon reads it (larder_node_ledger), and its sums for one tenant. */
#ifndef LARDER_DAEMON_LEDGER_MAP_H
#define LARDER_DAEMON_LEDGER_MAP_H

#include <stddef.h>

#include <larder/ledger.h>

/* "" for an unused slot. */
const char *ledger_map_name(const struct larder_ledger_header *h, uint32_t slot);
/* Where it is, or -1. */
int ledger_map_slot(const struct larder_ledger_header *h, const char *tenant);
/* Figures only, here and below: a name is ledger_map_name's. Reactors go on counting meanwhile, so
 * each figure is whole, but they are not all of one moment. */
void ledger_map_gauges(const struct larder_ledger_header *h, uint32_t slot,
		       struct larder_gauges *ret);
/* Over all writers. */
void ledger_map_usage(const struct larder_ledger_header *h, uint32_t slot,
		      struct larder_usage *ret);

#endif
