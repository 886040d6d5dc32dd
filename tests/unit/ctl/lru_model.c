/* SPDX-License-Identifier: Apache-2.0 */
/* A list through arrays that ids index; slot 0 is the list's head, id i has slot i + 1. */
#include "lru_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct lru_model {
	uint32_t *prev;
	uint32_t *next;
	bool *there;
	uint32_t slots;
	uint32_t capacity;
	uint32_t n;
};

struct lru_model *lru_new(uint32_t capacity)
{
	struct lru_model *m = calloc(1, sizeof(*m));

	assert(m);
	m->capacity = capacity;
	return m;
}

void lru_free(struct lru_model *m)
{
	free(m->prev);
	free(m->next);
	free(m->there);
	free(m);
}

static void lru_room(struct lru_model *m, uint64_t id)
{
	uint32_t slots = m->slots ? m->slots : 1024;

	assert(id < UINT32_MAX / 4);
	while (slots < id + 2)
		slots *= 2;
	if (slots == m->slots)
		return;
	m->prev = realloc(m->prev, slots * sizeof(*m->prev));
	m->next = realloc(m->next, slots * sizeof(*m->next));
	m->there = realloc(m->there, slots * sizeof(*m->there));
	assert(m->prev && m->next && m->there);
	memset(m->there + m->slots, 0, (slots - m->slots) * sizeof(*m->there));
	if (!m->slots)
		m->prev[0] = m->next[0] = 0;
	m->slots = slots;
}

bool lru_has(const struct lru_model *m, uint64_t id)
{
	return id + 1 < m->slots && m->there[id + 1];
}

static void lru_unlink(struct lru_model *m, uint32_t slot)
{
	m->next[m->prev[slot]] = m->next[slot];
	m->prev[m->next[slot]] = m->prev[slot];
	m->there[slot] = false;
	m->n--;
}

bool lru_touch(struct lru_model *m, uint64_t id)
{
	uint32_t slot = (uint32_t)id + 1;
	bool was = lru_has(m, id);

	lru_room(m, id);
	if (was)
		lru_unlink(m, slot);
	else if (m->n == m->capacity)
		lru_unlink(m, m->prev[0]);
	m->next[slot] = m->next[0];
	m->prev[slot] = 0;
	m->prev[m->next[0]] = slot;
	m->next[0] = slot;
	m->there[slot] = true;
	m->n++;
	return was;
}

void lru_reference(const struct trace *t, uint32_t capacity, uint64_t *ret_block,
		   uint64_t *ret_prefix)
{
	struct lru_model *m = lru_new(capacity);

	*ret_block = *ret_prefix = 0;
	for (size_t i = 0; i < t->n_requests; i++) {
		const struct trace_request *q = &t->requests[i];
		const uint64_t *ids = t->blocks + q->first;
		uint32_t run = 0;

		for (uint32_t k = 0; k < q->n_blocks; k++) {
			bool there = lru_has(m, ids[k]);

			*ret_block += there;
			run += there && run == k;
		}
		*ret_prefix += run;
		for (uint32_t k = 0; k < q->n_blocks; k++)
			(void)lru_touch(m, ids[k]);
	}
	lru_free(m);
}
