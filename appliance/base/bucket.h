/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token buckets: so many units a second, and a burst of what an eighth of a second brings (at
 * least @unit, or nothing would ever pass).
 *
 * The algorithm is the generic cell rate algorithm in its virtual scheduling form (ITU-T I.371,
 * "Traffic control and congestion control in B-ISDN"): all that is kept is the time at which the
 * bucket is full again. A bucket is one atomic word that any number of threads may share, nothing
 * has to refill it, and a gap of the clock fills it and no more. Time is in sixteenths of a
 * nanosecond, which last for 36 years; a charge is rounded up to one, so a rate is never exceeded.
 *
 * Two ways to use it:
 *	bucket_take	the amount is known: all of it or nothing. One that is more than the burst
 *			passes when the bucket is full and overdraws it.
 *	bucket_ask, then bucket_charge when the amount is known: passes while nothing is owed, and
 *			so overdraws by at most what is charged between two times of asking.
 * In any time T no more than rate * T + burst passes, and what it was overdrawn by. What is owed is
 * waited for before anything else passes.
 *
 * Rate 0 is no limit. Times may come a little out of order from several threads.
 *
 * Thread rules: everything, from anywhere; bucket_set from one thread at a time.
 */
#ifndef LARDER_BASE_BUCKET_H
#define LARDER_BASE_BUCKET_H

#include <stdint.h>

struct bucket {
	uint64_t full_at;		/* atomic: sixteenths of a ns; in the past: it is full */
	uint64_t rate;			/* atomic: units a second, 0 = no limit */
	uint64_t unit;			/* least burst; set once */
};

void bucket_init(struct bucket *b, uint64_t unit);
/* Another rate begins with a full bucket; the same one changes nothing. */
void bucket_set(struct bucket *b, uint64_t rate);
uint64_t bucket_burst(const struct bucket *b);
/* 0: taken. Else the ns until it is worth another try; nothing was taken. */
uint64_t bucket_take(struct bucket *b, uint64_t now_ns, uint64_t n);
/* 0, or the ns until nothing is owed. */
uint64_t bucket_ask(const struct bucket *b, uint64_t now_ns);
void bucket_charge(struct bucket *b, uint64_t now_ns, uint64_t n);

#endif
