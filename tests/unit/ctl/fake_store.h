/* SPDX-License-Identifier: Apache-2.0 */
/* A store for the replay rules that is an exact LRU in this process. */
#ifndef TEST_FAKE_STORE_H
#define TEST_FAKE_STORE_H

#include "ctl/replay.h"

#define FAKE_BATCHES 64

struct fake_store {
	struct replay_store store;
	struct lru_model *lru;
	uint32_t block_bytes;
	uint64_t stored_bytes;	/* another size that its values have; 0: block_bytes */
	uint64_t now_ms;
	uint64_t corrupt;	/* block that comes back with a flipped bit; UINT64_MAX: none */
	uint64_t fail_put;	/* block whose PUT answers fail_status */
	int fail_status;
	uint64_t ops;		/* batches executed */
	uint64_t leases, releases;
	uint32_t in_flight_max;
	uint32_t n_queue;	/* executed at submit, given back by wait in that order */
	struct larder_batch *queue[FAKE_BATCHES];
};

void fake_store_init(struct fake_store *f, uint32_t capacity, uint32_t block_bytes);
void fake_store_done(struct fake_store *f);

#endif
