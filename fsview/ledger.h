/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's ledger as the view reads it: mapped read-only, asked for at the control socket, asked
 * for again when the node's heart stands still, and let go when nobody is there any more. A thread
 * of its own does that, so that whoever reads figures never waits for the node.
 */
#ifndef FSVIEW_LEDGER_H
#define FSVIEW_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include <larder/ledger.h>

#include "process.h"

struct ledger;

int ledger_open(const char *control, const struct process_clock *clock, struct ledger **ret);
void ledger_close(struct ledger *l);

/* What a status file tells of the node besides its ledger. */
struct ledger_node {
	struct larder_node_section section;
	char version[32];
	char listen[256];	/* where it listens, by commas; empty: it does not tell */
	bool hugepages;
};

/* Each: 0, or -EIO when there is no node. */
int ledger_node(struct ledger *l, struct ledger_node *ret);
int ledger_tenant(struct ledger *l, const char *name, struct larder_usage *usage,
		  struct larder_gauges *gauges);
/* As set, and as in force. */
int ledger_limits(struct ledger *l, const char *name, uint64_t set[LARDER_LIMITS_MAX],
		  uint64_t effective[LARDER_LIMITS_MAX]);
int ledger_latency(struct ledger *l, struct larder_latency *ret);
/* Names of tenants, until @fn says false; those that stand for several are left out. */
int ledger_tenants(struct ledger *l, bool (*fn)(void *user, const char *name), void *user);

/* The inclusive upper bound of a latency bucket. */
uint64_t ledger_bucket_bound(unsigned bucket);
/* The bound of the bucket in which the @q-th part of all is reached; 0: there are none. */
uint64_t ledger_quantile(const uint64_t buckets[LARDER_LATENCY_BUCKETS], double q);

#endif
