/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load of "larderctl bench": workers, each a thread with its own handle and its own batches.
 *
 * What is measured is a batch, from its start to its completion. Closed loop: a batch starts
 * when the one before it in its slot is done. Open loop (rate > 0): batches are due at fixed
 * moments, whatever the node does, and a batch's latency counts from the moment it was due: a
 * node that stands still for a second shows as a second, not as one slow operation. What was due
 * and never got a slot before the end is counted as `unsent`.
 */
#ifndef LARDERCTL_BENCH_H
#define LARDERCTL_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <larder/client.h>

#include "ctl/latency.h"
#include "ctl/progress.h"

#define BENCH_BATCH_MAX 65536u
#define BENCH_DEPTH_MAX 1024u
#define BENCH_CONNECTIONS_MAX 256u
#define BENCH_BUFFERS_MAX 65536u

struct bench_options {
	uint8_t opcode;			/* LARDER_OP_GET, PUT, EXISTS */
	const struct larder_client_options *client;
	const char *ns;
	uint32_t size;			/* of a value */
	uint32_t batch;
	uint32_t depth;
	uint32_t buffers;		/* for each batch in flight, used in turn */
	uint32_t connections;
	uint32_t deadline_ms;
	uint64_t keys;			/* working set of GET and EXISTS */
	uint64_t duration_ns;		/* of a run; or: */
	uint64_t count;			/* batches of a run in all; 0: by time */
	uint64_t warmup_ns;
	double rate;			/* batches a second in all; 0: closed loop */
	bool no_checks;
	bool region;
	bool spin;
	bool verify;
	bool keep;
	uint64_t seed;
};

struct bench_result {
	uint64_t batches, operations, bytes;
	uint64_t unsent;		/* open loop: due and never started */
	uint64_t status[LARDER_STATUS_COUNT]; /* of operations */
	uint64_t wrong;			/* verify: values that were not what was put */
	uint64_t elapsed_ns;
	uint64_t reconnects, retries;
	struct latency latency;
};

struct bench;

/*
 * Opens the handles and the namespace, and puts the working set for GET and EXISTS. 0, a status or
 * -errno; @error says what failed.
 */
int bench_open(const struct bench_options *o, struct progress *p, struct bench **ret,
	       char error[256]);
/* One run. 0, a status or -errno with @error. */
int bench_run(struct bench *b, struct progress *p, struct bench_result *ret, char error[256]);
/* The address in use: what larder:// picked. */
void bench_url(struct bench *b, char *url, size_t size);
/* Deletes what was put unless it is to be kept, and ends the handles. NULL is fine. */
void bench_close(struct bench *b);

/*
 * The schedule of an open loop: when batch @k of a worker is due, in nanoseconds after the start.
 * Workers are offset against each other, so that together they are evenly spaced.
 */
uint64_t bench_due_ns(double rate, uint32_t connections, uint32_t worker, uint64_t k);

#endif
