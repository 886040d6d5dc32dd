/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histogram bounds: log2 with four steps per octave. Bucket i holds b(i-1) < v <= b(i), so that a
 * value equal to a bound lands below it, as Prometheus' "le" wants. b(0) = 0; then every value to
 * 4, then four bounds an octave. 160 buckets reach beyond 2^40 (18 minutes in ns).
 */
#ifndef LARDER_BASE_HIST_H
#define LARDER_BASE_HIST_H

#include <stdint.h>

#define HIST_BUCKETS 160u

unsigned hist_bucket(uint64_t value);		/* < HIST_BUCKETS; saturates */
uint64_t hist_bound(unsigned bucket);		/* the inclusive upper bound b(i) */
/* Value at quantile @q (0 to 1) by the upper bound of its bucket; 0 when empty. */
uint64_t hist_quantile(const uint64_t counts[HIST_BUCKETS], double q);

#endif
