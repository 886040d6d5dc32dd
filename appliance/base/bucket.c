/* SPDX-License-Identifier: Apache-2.0 */
/* Token buckets as one word each: see the header. */
#include <stdbool.h>

#include "base/bucket.h"
#include "base/clock.h"
#include "base/compiler.h"

#define BUCKET_TICKS 16u			/* of a nanosecond */
#define BUCKET_SECOND (BUCKET_TICKS * NSEC_PER_SEC)
#define BUCKET_BURST_PART 8u			/* of a second's worth */
#define BUCKET_SMALL (UINT64_MAX / BUCKET_SECOND)

static uint64_t bucket_ticks(uint64_t now_ns)
{
	return now_ns > UINT64_MAX / BUCKET_TICKS ? UINT64_MAX : now_ns * BUCKET_TICKS;
}

static uint64_t bucket_add(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

/* Time that @n units take, rounded up. */
static uint64_t bucket_cost(uint64_t rate, uint64_t n)
{
	unsigned __int128 ticks;

	if (likely(n <= BUCKET_SMALL)) {
		uint64_t whole = n * BUCKET_SECOND;

		return whole / rate + (whole % rate != 0);
	}
	ticks = ((unsigned __int128)n * BUCKET_SECOND + rate - 1) / rate;
	return ticks > UINT64_MAX ? UINT64_MAX : (uint64_t)ticks;
}

static uint64_t bucket_burst_of(const struct bucket *b, uint64_t rate)
{
	return MAX(rate / BUCKET_BURST_PART, b->unit);
}

/* How far ahead of now the bucket may be full again: the whole burst is gone then. */
static uint64_t bucket_depth(const struct bucket *b, uint64_t rate)
{
	return bucket_cost(rate, bucket_burst_of(b, rate));
}

static uint64_t bucket_wait(uint64_t full_at, uint64_t may_be)
{
	return (full_at - may_be + BUCKET_TICKS - 1) / BUCKET_TICKS;
}

void bucket_init(struct bucket *b, uint64_t unit)
{
	*b = (struct bucket){ .unit = MAX(unit, (uint64_t)1) };
}

void bucket_set(struct bucket *b, uint64_t rate)
{
	if (__atomic_load_n(&b->rate, __ATOMIC_RELAXED) == rate)
		return;
	__atomic_store_n(&b->rate, rate, __ATOMIC_RELAXED);
	__atomic_store_n(&b->full_at, 0, __ATOMIC_RELAXED);
}

uint64_t bucket_burst(const struct bucket *b)
{
	return bucket_burst_of(b, __atomic_load_n(&b->rate, __ATOMIC_RELAXED));
}

/*
 * Adds @cost when the bucket is full again at now + @slack or before. 0, or the ns to wait.
 * Relaxed: the word stands for itself, nothing else is ordered by it.
 */
static uint64_t bucket_advance(struct bucket *b, uint64_t now, uint64_t slack, uint64_t cost)
{
	uint64_t full_at = __atomic_load_n(&b->full_at, __ATOMIC_RELAXED);
	uint64_t may_be = bucket_add(now, slack), next;

	do {
		if (full_at > may_be)
			return bucket_wait(full_at, may_be);
		next = bucket_add(MAX(full_at, now), cost);
	} while (!__atomic_compare_exchange_n(&b->full_at, &full_at, next, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return 0;
}

uint64_t bucket_take(struct bucket *b, uint64_t now_ns, uint64_t n)
{
	uint64_t rate = __atomic_load_n(&b->rate, __ATOMIC_RELAXED), depth, cost;

	if (rate == 0)
		return 0;
	depth = bucket_depth(b, rate);
	cost = bucket_cost(rate, n);
	return bucket_advance(b, bucket_ticks(now_ns), depth - MIN(depth, cost), cost);
}

uint64_t bucket_ask(const struct bucket *b, uint64_t now_ns)
{
	uint64_t rate = __atomic_load_n(&b->rate, __ATOMIC_RELAXED), full_at, may_be;

	if (rate == 0)
		return 0;
	full_at = __atomic_load_n(&b->full_at, __ATOMIC_RELAXED);
	may_be = bucket_add(bucket_ticks(now_ns), bucket_depth(b, rate));
	return full_at > may_be ? bucket_wait(full_at, may_be) : 0;
}

void bucket_charge(struct bucket *b, uint64_t now_ns, uint64_t n)
{
	uint64_t rate = __atomic_load_n(&b->rate, __ATOMIC_RELAXED);

	if (rate != 0)
		(void)bucket_advance(b, bucket_ticks(now_ns), UINT64_MAX, bucket_cost(rate, n));
}
