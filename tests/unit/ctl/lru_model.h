/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference: an exact LRU of equal blocks with dense ids, and the rule that the published hit
 * rates were made with. Independent of the product's rule, which is tested against it.
 */
#ifndef TEST_LRU_MODEL_H
#define TEST_LRU_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/trace.h"

struct lru_model;

struct lru_model *lru_new(uint32_t capacity);
void lru_free(struct lru_model *m);
bool lru_has(const struct lru_model *m, uint64_t id);
/* Makes @id the youngest; inserts it, evicting the oldest when full. Whether it was there. */
bool lru_touch(struct lru_model *m, uint64_t id);

/* Replays @t first to last as the traces' reference does: hits of blocks and of leading runs. */
void lru_reference(const struct trace *t, uint32_t capacity, uint64_t *ret_block,
		   uint64_t *ret_prefix);

#endif
