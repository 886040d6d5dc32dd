/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay of a trace against a store: each block id is a key, its value is made from it.
 *
 * A store is what executes batches; the rule does not know which it is: a node over the network, a
 * node in this process, or (in tests) a cache in memory. Three rules:
 *
 * exact	As the traces' reference says: one EXISTS for all blocks of the request, against the
 *		store as it stands; then block by block, in the chosen order, GET when it is there
 *		now, PUT when it is not. One request at a time.
 * engine	As an inference engine does it: EXISTS on the whole prefix with a lease, GET of the
 *		leading run, PUT of the rest, RELEASE; several requests in flight.
 */
#ifndef LARDERCTL_REPLAY_H
#define LARDERCTL_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include <larder/client.h>

#include "ctl/latency.h"
#include "ctl/progress.h"
#include "ctl/trace.h"

#define REPLAY_KEY_SIZE 24u	/* room for a block's key as text */
#define REPLAY_INFLIGHT_MAX 1024u

/* Each function: 0 or -errno unless it says more. */
struct replay_store;
struct replay_store_ops {
	/* Runs a batch to its end, as larder_run does: 0, a status, -errno. */
	int (*run)(struct replay_store *s, struct larder_batch *b);
	int (*submit)(struct replay_store *s, struct larder_batch *b);
	/* Batches that are done; waits until there is one. The number, or -errno. */
	int (*wait)(struct replay_store *s, struct larder_batch **done, int max);
	/* The trace's time is now this. A store with the kernel's clock ignores it. */
	int (*set_time)(struct replay_store *s, uint64_t ms);
	void (*close)(struct replay_store *s);
};

struct replay_store {
	const struct replay_store_ops *ops;
	uint32_t ns;
};

enum replay_mode { REPLAY_EXACT, REPLAY_ENGINE };
enum replay_order { REPLAY_FIRST_LAST, REPLAY_LAST_FIRST };

struct replay_options {
	enum replay_mode mode;
	enum replay_order order;
	size_t requests;		/* 0: all */
	uint32_t block_bytes;
	uint32_t inflight;
	uint32_t lease_ms;
	uint32_t deadline_ms;
	uint32_t tokens_per_block;
	double linear_ns;		/* of the prefill model, per token */
	double quadratic_ns;		/* and per token squared */
};

/* Counts; the rule adds to what is there. */
struct replay_result {
	uint64_t requests;
	uint64_t blocks;		/* looked up */
	uint64_t block_hits;		/* present at look-up */
	uint64_t prefix_hits;		/* in leading runs */
	uint64_t gets, get_hits, get_bytes;
	uint64_t puts, put_same, put_bytes;
	uint64_t refused;		/* engine: PUTs that the node had no room or time for */
	uint64_t lease_broken;		/* engine: leased and then not found: must be 0 */
	uint64_t checksum_errors;	/* must be 0 */
	double prefill_ns;		/* of the whole input, without a cache */
	double saved_ns;		/* by the leading runs found */
	uint64_t wall_ns;
	struct latency exists, get, put;
	char error[256];		/* why it ended early */
};

/*
 * Runs the trace. 0; a status (positive) or -errno with error[] set: the run ended early. Checksum
 * errors don't end it; they are counted.
 */
int replay_run(struct replay_store *s, const struct trace *t, const struct replay_options *o,
	       struct progress *p, struct replay_result *ret);
int replay_run_engine(struct replay_store *s, const struct trace *t,
		      const struct replay_options *o, struct progress *p,
		      struct replay_result *ret);	/* replay_engine.c */

/* The key of a block: decimal, at least 8 digits. Its length. */
size_t replay_key(uint64_t block, char key[REPLAY_KEY_SIZE]);
/*
 * Whether a GET's object has the size that this replay writes: an earlier one may have left others,
 * which is no checksum error.
 */
bool replay_size_fits(const struct replay_options *o, int status, const struct larder_item *item);
/* Adds the prefill time of one request to the sums. */
void replay_prefill(const struct replay_options *o, const struct trace_request *q, uint32_t run,
		    struct replay_result *ret);

/* Stores. */
struct replay_local_options {
	uint32_t pages;
	uint32_t page_bytes;
	uint32_t shards;
	const char *policy;
	uint64_t reserve_bytes;
	uint64_t seed;
};

/* Over a handle with an open namespace, both the caller's. Allocated; NULL: out of memory. */
struct replay_store *replay_client_open(struct larder_client *c, uint32_t ns);
/* A node of this process. 0 or -errno; @error says what failed. */
int replay_local_open(const struct replay_local_options *o, struct replay_store **ret,
		      char error[256]);

#endif
