/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of bench share: bench.c owns the workers, bench_worker.c is one's thread. */
#ifndef LARDERCTL_BENCH_INTERNAL_H
#define LARDERCTL_BENCH_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "ctl/bench.h"

#define BENCH_KEY_SIZE 64u

/* A batch that is in flight or free, with its memory. */
struct bench_slot {
	struct larder_batch batch;
	struct larder_item *items;
	struct iovec *iov;
	char (*keys)[BENCH_KEY_SIZE];
	uint64_t *ids;
	unsigned char *memory;		/* buffers * batch * size bytes; NULL for EXISTS */
	uint32_t *checks;		/* PUT, checks off: of each value in memory */
	uint32_t turn;			/* which of the buffers is next */
	uint64_t start_ns;		/* or when it was due */
	struct bench_slot *next_free;
};

struct bench_worker {
	struct bench *bench;
	uint32_t index;
	pthread_t thread;
	bool running;
	struct larder_client *client;
	uint32_t ns;
	struct larder_region *region;
	void *memory;			/* of all slots when there is no region */
	size_t memory_size;
	struct bench_slot *slots;
	struct bench_slot *free;
	uint32_t in_flight;
	uint64_t random;
	uint64_t next_put;		/* new keys of PUT */
	uint64_t due;			/* open loop: next batch of the schedule */
	bool over;			/* nothing more is to be started in this run */
	int failed;			/* -errno of a call that made no sense */
	uint64_t last_ns;		/* latest completion that counted */
	struct bench_result *result;
};

struct bench {
	struct bench_options options;
	uint64_t nonce;			/* of this process's keys */
	struct bench_worker *workers;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	int gate;			/* under lock: 0 wait, 1 go, -1 go home */
	uint64_t begin_ns;		/* of the load; these three are set before the gate opens */
	uint64_t start_ns;		/* of counting: after the warm-up */
	uint64_t end_ns;
	_Atomic int64_t left;		/* batches to start, when counted */
	_Atomic uint64_t done;		/* batches, for the progress bar */
	_Atomic uint32_t working;	/* threads that have not finished the run */
};

/* Key of the working set's member @id, or of a PUT. Its length. */
size_t bench_key(const struct bench *b, uint64_t id, char key[BENCH_KEY_SIZE]);
/* Allocates slots and value memory. 0 or -errno. */
int bench_worker_prepare(struct bench_worker *w);
void bench_worker_release(struct bench_worker *w);
/* The thread: waits at the gate, then works until the run's end. */
void *bench_worker_main(void *worker);

#endif
