/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service times as histograms. The ledger's bucket i holds b(i-1) < v <= b(i), which is what "le"
 * means, so a sum over buckets 0 to i is exact for le = b(i). Of its four bounds an octave every
 * second one is told, from 256 ns to 69 s: what is below or above is in the next, or in +Inf.
 */
#include "metrics.h"

#include <inttypes.h>

#define METRICS_FIRST_NS 256u
#define METRICS_LAST_NS (1ull << 36)

void metrics_seconds(FILE *f, uint64_t ns)
{
	unsigned digits = 9;
	uint64_t part = ns % 1000000000u;

	fprintf(f, "%" PRIu64, ns / 1000000000u);
	if (!part)
		return;
	while (part % 10 == 0) {
		part /= 10;
		digits--;
	}
	fprintf(f, ".%0*" PRIu64, (int)digits, part);
}

static void metrics_histogram(FILE *f, const char *op, const uint64_t *buckets, uint64_t sum_ns)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < LARDER_LATENCY_BUCKETS; i++) {
		uint64_t bound = ledger_bucket_bound(i);

		count += buckets[i];
		if (bound < METRICS_FIRST_NS || bound > METRICS_LAST_NS || i % 2)
			continue;
		fprintf(f, "larder_service_time_seconds_bucket{operation=\"%s\",le=\"", op);
		metrics_seconds(f, bound);
		fprintf(f, "\"} %" PRIu64 "\n", count);
	}
	fprintf(f, "larder_service_time_seconds_bucket{operation=\"%s\",le=\"+Inf\"} %" PRIu64 "\n",
		op, count);
	fprintf(f, "larder_service_time_seconds_sum{operation=\"%s\"} ", op);
	metrics_seconds(f, sum_ns);
	fprintf(f, "\nlarder_service_time_seconds_count{operation=\"%s\"} %" PRIu64 "\n", op,
		count);
}

void metrics_latency(FILE *f, const struct larder_latency *l)
{
	static const char *const ops[LARDER_LATENCY_OPS] = { "get", "put", "exists", "other" };

	fputs("# HELP larder_service_time_seconds What the node took for a request, from its "
	      "arrival to its answer.\n# TYPE larder_service_time_seconds histogram\n", f);
	for (unsigned i = 0; i < LARDER_LATENCY_OPS; i++)
		metrics_histogram(f, ops[i], l->buckets[i], l->sum_ns[i]);
}
