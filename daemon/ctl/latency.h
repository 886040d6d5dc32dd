/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latencies of many operations in bounded memory: a histogram with 128 linear steps per octave, so
 * that a quantile is never more than 0.8 % above the true sample. Not the ledger's histogram, whose
 * steps are coarser because a node keeps one per operation class and reactor.
 *
 * Thread rules: one writer; merge after the writers have stopped.
 */
#ifndef LARDERCTL_LATENCY_H
#define LARDERCTL_LATENCY_H

#include <stdint.h>

#define LATENCY_STEPS 128u
#define LATENCY_OCTAVES 36u	/* beyond 2^42 ns: over an hour */
#define LATENCY_BUCKETS (LATENCY_STEPS * (LATENCY_OCTAVES + 1))

struct latency {
	uint64_t count;
	uint64_t sum_ns;
	uint64_t min_ns;
	uint64_t max_ns;
	uint64_t buckets[LATENCY_BUCKETS];
};

/* A struct that is all zero is empty and ready. */
void latency_add(struct latency *l, uint64_t ns);
void latency_merge(struct latency *into, const struct latency *from);
/*
 * The smallest sample that at least @q (0 to 1) of the samples do not exceed, rounded up to its
 * step's upper end but never beyond the largest sample. 0 when empty.
 */
uint64_t latency_quantile(const struct latency *l, double q);
uint64_t latency_mean(const struct latency *l);

#endif
