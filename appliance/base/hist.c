/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds: 0, 1, 2, 3, 4, then (4 + j) * 2^k for j = 1 to 4 and k = 0, 1, ...: 5 6 7 8, 10 12 14 16,
 * 20 24 28 32. Every bound is exact, and a value that equals one lands in its bucket.
 */
#include "base/compiler.h"
#include "base/hist.h"

#define HIST_LINEAR 4u		/* up to here each value is a bound */

unsigned hist_bucket(uint64_t value)
{
	unsigned bucket, octave;
	uint64_t below;

	if (value <= HIST_LINEAR)
		return (unsigned)value;
	/* bounds are inclusive above: one less makes them exclusive, which shifts can decide */
	below = value - 1;
	octave = 61 - (unsigned)__builtin_clzll(below);
	bucket = HIST_LINEAR + 1 + 4 * octave + ((unsigned)(below >> octave) & 3);
	return MIN(bucket, HIST_BUCKETS - 1);
}

uint64_t hist_bound(unsigned bucket)
{
	unsigned step;

	bucket = MIN(bucket, HIST_BUCKETS - 1);
	if (bucket <= HIST_LINEAR)
		return bucket;
	step = bucket - HIST_LINEAR - 1;
	return (uint64_t)(5 + step % 4) << (step / 4);
}

uint64_t hist_quantile(const uint64_t counts[HIST_BUCKETS], double q)
{
	uint64_t total = 0, rank, seen = 0;

	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		total += counts[i];
	if (total == 0)
		return 0;
	q = q < 0 ? 0 : q > 1 ? 1 : q;
	rank = (uint64_t)((double)total * q);
	if ((double)rank < (double)total * q)
		rank++;
	rank = MIN(MAX(rank, (uint64_t)1), total);
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		seen += counts[i];
		if (seen >= rank)
			return hist_bound(i);
	}
	return hist_bound(HIST_BUCKETS - 1);
}
