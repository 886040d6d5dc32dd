/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token buckets. Random histories are checked against the promise itself: between any two moments
 * no more passes than rate * time + burst, and what one amount overdrew. LARDER_SEED=n repeats one.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/bucket.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/prng.h"

#define EVENTS 400u
#define START (5 * NSEC_PER_SEC)

struct passed {
	uint64_t at_ns;
	uint64_t n;
};

static uint64_t seed_first(void)
{
	const char *s = getenv("LARDER_SEED");

	return s ? strtoull(s, NULL, 10) : (uint64_t)time(NULL) * 1000;
}

/* What may pass in @ns, rounded up. */
static unsigned __int128 brings(uint64_t rate, uint64_t ns)
{
	return ((unsigned __int128)rate * ns + NSEC_PER_SEC - 1) / NSEC_PER_SEC;
}

/* Every window that begins and ends with something that passed. */
static void check_windows(const struct bucket *b, const struct passed *p, uint32_t n)
{
	uint64_t burst = bucket_burst(b);

	for (uint32_t i = 0; i < n; i++) {
		unsigned __int128 sum = 0;

		for (uint32_t j = i; j < n; j++) {
			unsigned __int128 may = brings(b->rate, p[j].at_ns - p[i].at_ns) + burst;

			/* the last one may overdraw: what was there before it counts */
			assert_true(sum <= may);
			sum += p[j].n;
			assert_true(sum <= may + p[j].n);
		}
	}
}

/* The same where nothing may be overdrawn. */
static void check_windows_strictly(const struct bucket *b, const struct passed *p, uint32_t n)
{
	uint64_t burst = bucket_burst(b);

	for (uint32_t i = 0; i < n; i++) {
		unsigned __int128 sum = 0;

		for (uint32_t j = i; j < n; j++) {
			sum += p[j].n;
			assert_true(sum <= brings(b->rate, p[j].at_ns - p[i].at_ns) + burst);
		}
	}
}

static uint64_t random_rate(struct prng *g)
{
	return 1 + prng_next(g) % (1ull << (1 + prng_below(g, 40)));
}

static void take__never_passes_more_than_rate_and_burst(void **state)
{
	uint64_t first = seed_first();

	print_message("seed %llu\n", (unsigned long long)first);
	for (uint64_t seed = first; seed < first + 50; seed++) {
		struct passed p[EVENTS];
		struct bucket b;
		struct prng g;
		uint64_t now = START, burst;
		uint32_t n = 0;

		prng_seed(&g, seed);
		bucket_init(&b, 1 + prng_below(&g, 1000));
		bucket_set(&b, random_rate(&g));
		burst = bucket_burst(&b);
		for (uint32_t i = 0; i < EVENTS; i++) {
			uint64_t want = 1 + prng_below(&g, burst);

			now += prng_below(&g, 1 + NSEC_PER_SEC / (1 + prng_below(&g, 1000)));
			if (bucket_take(&b, now, want) == 0)
				p[n++] = (struct passed){ now, want };
		}
		check_windows_strictly(&b, p, n);
	}
}

static void debt__is_one_amount_and_is_paid_back(void **state)
{
	uint64_t first = seed_first();

	print_message("seed %llu\n", (unsigned long long)first);
	for (uint64_t seed = first; seed < first + 50; seed++) {
		struct passed p[EVENTS];
		struct bucket b;
		struct prng g;
		uint64_t now = START;
		uint32_t n = 0;

		prng_seed(&g, seed);
		bucket_init(&b, 1 + prng_below(&g, 1000));
		bucket_set(&b, random_rate(&g));
		for (uint32_t i = 0; i < EVENTS; i++) {
			uint64_t length = 1 + prng_below(&g, 8 * bucket_burst(&b));
			uint64_t wait = bucket_ask(&b, now);

			if (wait == 0) {
				bucket_charge(&b, now, length);
				p[n++] = (struct passed){ now, length };
				wait = NSEC_PER_MSEC;
			}
			/* half of the time it comes too early */
			now += prng_below(&g, 2) ? wait : prng_below(&g, wait + 1);
		}
		assert_true(n > EVENTS / 8);
		check_windows(&b, p, n);
	}
}

static void waiting_as_told__always_helps_and_gives_the_whole_rate(void **state)
{
	static const uint64_t rates[] = { 1, 7, 1000, 999983, 1ull << 30, 40ull << 30 };

	for (unsigned k = 0; k < ARRAY_SIZE(rates); k++) {
		uint64_t sizes[] = { 1, rates[k] / 100 + 1, rates[k] + 1 };

		for (unsigned s = 0; s < ARRAY_SIZE(sizes); s++) {
			struct bucket b;
			uint64_t now = START, total = 0, wait, end;
			uint64_t limit;

			bucket_init(&b, 1);
			bucket_set(&b, rates[k]);
			for (uint32_t i = 0; i < 2000; i++) {
				wait = bucket_take(&b, now, sizes[s]);
				now += wait;
				if (wait)	/* told so: it must pass now */
					assert_int_equal(bucket_take(&b, now, sizes[s]), 0);
				total += sizes[s];
			}
			end = now - START;
			limit = bucket_burst(&b) + sizes[s];
			/* all of the rate but 1 %, and the roundings of 2,000 waits */
			assert_true((unsigned __int128)total * NSEC_PER_SEC * 101 +
				    (unsigned __int128)rates[k] * 2000 * 100 >=
				    (unsigned __int128)rates[k] * end * 100);
			assert_true(total <= (uint64_t)brings(rates[k], end) + limit);
		}
	}
}

static void a_gap_of_the_clock__fills_the_bucket_and_no_more(void **state)
{
	struct bucket b;
	uint64_t now = START, n = 0;

	bucket_init(&b, 1);
	bucket_set(&b, 800);		/* a burst of 100 */
	while (bucket_take(&b, now, 1) == 0)
		n++;
	assert_int_equal(n, 100);
	now += 3600 * NSEC_PER_SEC;
	for (n = 0; bucket_take(&b, now, 1) == 0;)
		n++;
	assert_int_equal(n, 100);
	/* a thread that read the clock before: it waits, and takes nothing from the others */
	assert_true(bucket_take(&b, now - NSEC_PER_SEC, 1) > NSEC_PER_SEC);
	assert_true(bucket_take(&b, now, 1) <= 1250001);
}

static void rate_zero__is_no_limit(void **state)
{
	struct bucket b;

	bucket_init(&b, 1);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_int_equal(bucket_take(&b, 0, UINT64_MAX), 0);
		assert_int_equal(bucket_ask(&b, 0), 0);
		bucket_charge(&b, 0, UINT64_MAX);
	}
}

static void another_rate__begins_full_and_the_same_one_does_not(void **state)
{
	struct bucket b;

	bucket_init(&b, 1);
	bucket_set(&b, 1);
	bucket_charge(&b, START, 1u << 30);	/* over thirty years of it */
	assert_true(bucket_ask(&b, START) > 30ull * 365 * 86400 * NSEC_PER_SEC);
	bucket_set(&b, 1);
	assert_true(bucket_ask(&b, START) > 0);
	bucket_set(&b, 1000);
	assert_int_equal(bucket_ask(&b, START), 0);
	assert_int_equal(bucket_take(&b, START, 125), 0);
	assert_true(bucket_take(&b, START, 1) > 0);
	bucket_set(&b, 0);
	assert_int_equal(bucket_take(&b, START, 1u << 30), 0);
}

static void extremes__neither_overflow_nor_open_the_gate(void **state)
{
	static const uint64_t values[] = { 1, 2, 1000, NSEC_PER_SEC, 1ull << 32, 1ull << 62,
					   UINT64_MAX - 1, UINT64_MAX };
	static const uint64_t times[] = { 0, 1, START, UINT64_MAX / 16, UINT64_MAX };

	for (unsigned i = 0; i < ARRAY_SIZE(values); i++) {
		for (unsigned j = 0; j < ARRAY_SIZE(values); j++) {
			for (unsigned t = 0; t < ARRAY_SIZE(times); t++) {
				struct bucket b;

				bucket_init(&b, j % 2 ? 1 : 256u * 1024u);
				bucket_set(&b, values[i]);
				/* the first passes, whatever it is */
				assert_int_equal(bucket_take(&b, times[t], values[j]), 0);
				bucket_charge(&b, times[t], UINT64_MAX);
				if (times[t] < UINT64_MAX / 16)
					assert_true(bucket_ask(&b, times[t]) > 0);
			}
		}
	}
}

/* --- several threads ------------------------------------------------------------------------- */

#define THREADS 2u
#define TAKES 20000u

struct taker {
	pthread_t thread;
	struct bucket *b;
	uint64_t *clock;	/* atomic: moved by every take, so that all see it go on */
	uint64_t passed;
	bool owes;		/* ask and charge */
};

static void *taker_run(void *user)
{
	struct taker *t = user;

	for (uint32_t i = 0; i < TAKES; i++) {
		uint64_t now = __atomic_add_fetch(t->clock, 977, __ATOMIC_RELAXED);

		if (!t->owes) {
			t->passed += bucket_take(t->b, now, 3) == 0 ? 3 : 0;
		} else if (bucket_ask(t->b, now) == 0) {
			bucket_charge(t->b, now, 3);
			t->passed += 3;
		}
	}
	return NULL;
}

static void threads__share_one_bucket(void **state)
{
	for (unsigned owes = 0; owes < 2; owes++) {
		struct taker t[THREADS];
		struct bucket b;
		uint64_t now = START, total = 0, may;

		bucket_init(&b, 8);
		bucket_set(&b, 1000000);
		for (unsigned i = 0; i < THREADS; i++) {
			t[i] = (struct taker){ .b = &b, .clock = &now, .owes = owes };
			assert_int_equal(pthread_create(&t[i].thread, NULL, taker_run, &t[i]), 0);
		}
		for (unsigned i = 0; i < THREADS; i++) {
			assert_int_equal(pthread_join(t[i].thread, NULL), 0);
			total += t[i].passed;
		}
		may = (uint64_t)brings(1000000, now - START) + bucket_burst(&b);
		assert_true(total <= may + (owes ? 3 * THREADS : 0));
		/* and it was not refused what was there: more was asked for than could pass */
		assert_true(total >= MIN(may, (uint64_t)3 * TAKES * THREADS) * 9 / 10);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(take__never_passes_more_than_rate_and_burst),
		cmocka_unit_test(debt__is_one_amount_and_is_paid_back),
		cmocka_unit_test(waiting_as_told__always_helps_and_gives_the_whole_rate),
		cmocka_unit_test(a_gap_of_the_clock__fills_the_bucket_and_no_more),
		cmocka_unit_test(rate_zero__is_no_limit),
		cmocka_unit_test(another_rate__begins_full_and_the_same_one_does_not),
		cmocka_unit_test(extremes__neither_overflow_nor_open_the_gate),
		cmocka_unit_test(threads__share_one_bucket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
