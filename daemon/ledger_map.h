/* SPDX-License-Identifier: Apache-2.0 */
/* The node's ledger, mapped to be read, and its sums for one tenant. */
#ifndef LARDER_DAEMON_LEDGER_MAP_H
#define LARDER_DAEMON_LEDGER_MAP_H

#include <stddef.h>

#include <larder/ledger.h>
#include <larder/node.h>

struct ledger_map {
	const struct larder_ledger_header *header;	/* NULL: not mapped */
	size_t size;
};

int ledger_map_open(struct larder_node *node, struct ledger_map *ret);	/* 0 or -errno */
void ledger_map_close(struct ledger_map *m);
/* "" for an unused slot. */
const char *ledger_map_name(const struct ledger_map *m, uint32_t slot);
const struct larder_gauges *ledger_map_gauges(const struct ledger_map *m, uint32_t slot);
/* Over all writers. */
void ledger_map_usage(const struct ledger_map *m, uint32_t slot, struct larder_usage *ret);

#endif
