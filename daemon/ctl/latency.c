/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buckets: values below 128 have one each; above, an octave [2^k, 2^(k+1)) is cut into 128 equal
 * steps. The number of a bucket is found from the position of the highest bit, no loop, no floating
 * point.
 */
#include "ctl/latency.h"

#include <math.h>

#include "ctl/util.h"

#define LATENCY_BITS 7u		/* log2(LATENCY_STEPS) */

static unsigned latency_bucket(uint64_t ns)
{
	unsigned shift, bucket;

	if (ns < LATENCY_STEPS)
		return (unsigned)ns;
	shift = 63u - (unsigned)__builtin_clzll(ns) - LATENCY_BITS;
	if (shift >= LATENCY_OCTAVES)
		return LATENCY_BUCKETS - 1;
	bucket = (shift + 1) * LATENCY_STEPS + (unsigned)((ns >> shift) - LATENCY_STEPS);
	return bucket;
}

/* The largest value that falls into @bucket. */
static uint64_t latency_upper(unsigned bucket)
{
	unsigned shift;

	if (bucket < LATENCY_STEPS)
		return bucket;
	shift = bucket / LATENCY_STEPS - 1;
	return (((uint64_t)(bucket % LATENCY_STEPS) + LATENCY_STEPS + 1) << shift) - 1;
}

void latency_add(struct latency *l, uint64_t ns)
{
	l->buckets[latency_bucket(ns)]++;
	l->sum_ns += ns;
	if (!l->count || ns < l->min_ns)
		l->min_ns = ns;
	if (ns > l->max_ns)
		l->max_ns = ns;
	l->count++;
}

void latency_merge(struct latency *into, const struct latency *from)
{
	if (!from->count)
		return;
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
	into->min_ns = into->count ? MIN(into->min_ns, from->min_ns) : from->min_ns;
	into->max_ns = MAX(into->max_ns, from->max_ns);
	into->sum_ns += from->sum_ns;
	into->count += from->count;
}

uint64_t latency_quantile(const struct latency *l, double q)
{
	uint64_t rank, seen = 0;

	if (!l->count)
		return 0;
	rank = (uint64_t)ceil(q * (double)l->count);
	rank = MIN(MAX(rank, (uint64_t)1), l->count);
	for (unsigned i = 0; i < LATENCY_BUCKETS - 1; i++) {
		seen += l->buckets[i];
		if (seen >= rank)
			return MIN(latency_upper(i), l->max_ns);
	}
	return l->max_ns;	/* the last bucket has no upper end of its own */
}

uint64_t latency_mean(const struct latency *l)
{
	return l->count ? l->sum_ns / l->count : 0;
}
