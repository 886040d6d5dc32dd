/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger as a reader sees it: mapped read-only, checked once, figures summed over the writers.
 *
 * Its writer is another process: nothing read from it is used as an offset or a length after the
 * check, and its pages are only ever read.
 */
#ifndef LARDERCTL_LEDGER_READ_H
#define LARDERCTL_LEDGER_READ_H

#include <stddef.h>
#include <stdint.h>

#include <larder/ledger.h>

struct ledger_reader {
	const unsigned char *base;
	size_t size;
	struct larder_ledger_header header;	/* a copy: what was checked is what is used */
};
#define LEDGER_READER_NULL ((struct ledger_reader){ 0 })

/* Maps @fd, which stays the caller's. 0, -EPROTO (layout, sections out of range), -errno. */
int ledger_reader_open(int fd, struct ledger_reader *ret);
void ledger_reader_close(struct ledger_reader *l);

/* The tenant's name in @slot, NUL-terminated; empty when the slot is unused. */
void ledger_reader_name(const struct ledger_reader *l, uint32_t slot, char name[40]);
void ledger_reader_usage(const struct ledger_reader *l, uint32_t slot, struct larder_usage *ret);
void ledger_reader_gauges(const struct ledger_reader *l, uint32_t slot, struct larder_gauges *ret);
void ledger_reader_node(const struct ledger_reader *l, struct larder_node_section *ret);
void ledger_reader_limits(const struct ledger_reader *l, uint32_t slot,
			  uint64_t effective[LARDER_LEDGER_LIMITS]);
void ledger_reader_latency(const struct ledger_reader *l, struct larder_latency *ret);

/* The inclusive upper bound of a latency bucket: 0 to 4 each, then four steps an octave. */
uint64_t ledger_bucket_bound(unsigned bucket);
/* Quantile of what was added between two readings; 0 when nothing was. */
uint64_t ledger_quantile(const uint64_t *before, const uint64_t *after, double q);

#endif
