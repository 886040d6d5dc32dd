/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One object's record: filled, committed, deleted, read.
 *
 * Its variable part is one stream of bytes: runs, checks, key. The first 160 lie in the head
 * record, the rest in a chain of overflow records, 240 each. Both are multiples of 8, so neither a
 * run nor a check is ever cut. The CRC covers the head from its crc field (taken as 0) to its end,
 * then each overflow record from its `next` to its end.
 *
 * Order of stores. fill: FILLING, then anything. commit: everything, CRC, then COMMITTED. delete:
 * DOOMED (or FREE), then anything. So at any instant the file shows the object whole, or a state
 * that is not COMMITTED. A slot is FREE before it is given back, and its chain after it.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "mem/records_internal.h"

static_assert(RECORD_INLINE % 8 == 0 && RECORD_OVERFLOW_INLINE % 8 == 0, "runs are never cut");

/* Records that a stream of @bytes takes, the head included. */
uint32_t records_needed_bytes(uint64_t bytes)
{
	if (bytes <= RECORD_INLINE)
		return 1;
	return 1 + (uint32_t)((bytes - RECORD_INLINE + RECORD_OVERFLOW_INLINE - 1) /
			      RECORD_OVERFLOW_INLINE);
}

uint32_t records_needed(uint16_t key_len, uint32_t n_runs, uint32_t n_checks)
{
	return records_needed_bytes(records_stream_bytes(key_len, n_runs, n_checks));
}

/* --- the stream ------------------------------------------------------------------------------- */

void records_stream_init(struct records_stream *s, struct records *r, uint32_t slot)
{
	struct record *rec = records_at(r, slot);

	*s = (struct records_stream){ r, rec->data, RECORD_INLINE, rec->overflow };
}

/* Makes @s stand on bytes; asked for only where the stream goes on. */
static void records_stream_turn(struct records_stream *s)
{
	struct record_overflow *o;

	if (s->left)
		return;
	o = records_overflow_at(s->r, s->next);
	s->at = o->data;
	s->left = RECORD_OVERFLOW_INLINE;
	s->next = o->next;
}

static uint32_t records_stream_step(struct records_stream *s, uint64_t n, uint8_t **at)
{
	uint32_t step;

	records_stream_turn(s);
	step = (uint32_t)MIN(n, (uint64_t)s->left);
	*at = s->at;
	s->at += step;
	s->left -= step;
	return step;
}

void records_stream_skip(struct records_stream *s, uint64_t n)
{
	uint8_t *at;

	while (n)
		n -= records_stream_step(s, n, &at);
}

void records_stream_read(struct records_stream *s, void *out, uint64_t n)
{
	uint8_t *to = out, *at;

	while (n) {
		uint32_t step = records_stream_step(s, n, &at);

		memcpy(to, at, step);
		to += step;
		n -= step;
	}
}

/* NULL @in: zeros. */
void records_stream_write(struct records_stream *s, const void *in, uint64_t n)
{
	const uint8_t *from = in;
	uint8_t *at;

	while (n) {
		uint32_t step = records_stream_step(s, n, &at);

		if (from) {
			memcpy(at, from, step);
			from += step;
		} else {
			memset(at, 0, step);
		}
		n -= step;
	}
}

/* --- the chain -------------------------------------------------------------------------------- */

/* Takes @n slots and links them behind @rec, or takes none. */
static int records_chain_take(struct records *r, struct record *rec, uint32_t n)
{
	struct records_stack *stack = &r->free_slots;
	uint32_t *link = &rec->overflow;

	rec->overflow = RECORD_NONE;
	if (n == 0)
		return 0;
	pthread_mutex_lock(&r->lock);
	if (stack->n < n) {
		pthread_mutex_unlock(&r->lock);
		return -ENOSPC;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t slot = stack->index[stack->n - 1 - i];
		struct record_overflow *o = records_overflow_at(r, slot);

		o->generation = rec->generation;
		o->next = RECORD_NONE;
		records_store_state(&o->state, RECORD_OVERFLOW);
		*link = slot;
		link = &o->next;
	}
	__atomic_store_n(&stack->n, stack->n - n, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&r->lock);
	return 0;
}

/* Gives the chain from @slot on back. Stops at what is not of this object. */
static void records_chain_give(struct records *r, uint32_t slot, uint64_t generation)
{
	while (slot < r->n_records) {
		struct record_overflow *o = records_overflow_at(r, slot);
		uint32_t next = o->next;

		if (o->state != RECORD_OVERFLOW || o->generation != generation)
			return;
		records_store_state(&o->state, RECORD_FREE);
		records_slot_give(r, slot);
		slot = next;
	}
}

/* --- fill, commit, free ----------------------------------------------------------------------- */

uint32_t records_crc(struct records *r, uint32_t slot)
{
	const struct record *rec = records_at(r, slot);
	const uint32_t no_crc = 0;
	uint32_t crc = crc32c(0, &no_crc, sizeof(no_crc));
	uint32_t next = rec->overflow;

	crc = crc32c(crc, &rec->generation, RECORD_SIZE - offsetof(struct record, generation));
	while (next != RECORD_NONE) {
		const struct record_overflow *o = records_overflow_at(r, next);

		crc = crc32c(crc, &o->next, RECORD_SIZE - offsetof(struct record_overflow, next));
		next = o->next;
	}
	return crc;
}

int records_fill(struct records *r, uint32_t slot, const struct record_content *c)
{
	uint64_t bytes = records_stream_bytes(c->key_len, c->n_runs, c->n_checks);
	uint32_t needed = records_needed_bytes(bytes);
	struct record *rec = records_at(r, slot);
	struct records_stream s;
	int e;

	assert(rec->state == RECORD_FREE || rec->state == RECORD_FILLING);
	rec->generation = records_next_generation(r);
	e = records_chain_take(r, rec, needed - 1);
	if (e < 0)
		return e;
	records_store_state(&rec->state, RECORD_FILLING);
	rec->hits = 0;
	rec->last_ns = 0;
	rec->lease_ns = 0;
	rec->expire_ns = c->expire_ns;
	rec->pins = 0;
	rec->crc = 0;
	rec->commit_time_ms = 0;
	rec->length = c->length;
	rec->digest = c->digest;
	rec->tenant = c->tenant;
	rec->ns = c->ns;
	rec->n_runs = c->n_runs;
	rec->n_checks = c->n_checks;
	rec->key_len = c->key_len;
	rec->flags = c->flags;
	records_stream_init(&s, r, slot);
	records_stream_write(&s, c->runs, 8ull * c->n_runs);
	records_stream_write(&s, c->checks, 4ull * c->n_checks);
	records_stream_write(&s, c->key, c->key_len);
	/* the tail too: a CRC over bytes of an earlier object would be right, but not repeatable */
	records_stream_write(&s, NULL, s.left);
	return 0;
}

void records_commit(struct records *r, uint32_t slot, const uint32_t *checks,
		    uint64_t commit_time_ms)
{
	struct record *rec = records_at(r, slot);
	struct records_stream s;

	assert(rec->state == RECORD_FILLING);
	if (checks) {
		records_stream_init(&s, r, slot);
		records_stream_skip(&s, 8ull * rec->n_runs);
		records_stream_write(&s, checks, 4ull * rec->n_checks);
	}
	rec->commit_time_ms = commit_time_ms;
	rec->crc = records_crc(r, slot);
	records_store_state(&rec->state, RECORD_COMMITTED);
}

void records_set_state(struct records *r, uint32_t slot, enum record_state state)
{
	records_store_state(&records_at(r, slot)->state, state);
}

void records_free(struct records *r, uint32_t slot)
{
	struct record *rec = records_at(r, slot);

	records_store_state(&rec->state, RECORD_FREE);
	records_chain_give(r, rec->overflow, rec->generation);
	rec->overflow = RECORD_NONE;
	records_slot_give(r, slot);
}

/* --- read ------------------------------------------------------------------------------------- */

uint16_t records_key(struct records *r, uint32_t slot, void *key)
{
	const struct record *rec = records_at(r, slot);
	struct records_stream s;

	records_stream_init(&s, r, slot);
	records_stream_skip(&s, records_stream_bytes(0, rec->n_runs, rec->n_checks));
	records_stream_read(&s, key, rec->key_len);
	return rec->key_len;
}

void records_runs(struct records *r, uint32_t slot, struct larder_run *runs, uint32_t first,
		  uint32_t n)
{
	struct records_stream s;

	records_stream_init(&s, r, slot);
	records_stream_skip(&s, 8ull * first);
	records_stream_read(&s, runs, 8ull * n);
}

void records_checks(struct records *r, uint32_t slot, uint32_t *checks, uint32_t first, uint32_t n)
{
	const struct record *rec = records_at(r, slot);
	struct records_stream s;

	records_stream_init(&s, r, slot);
	records_stream_skip(&s, records_stream_bytes(0, rec->n_runs, first));
	records_stream_read(&s, checks, 4ull * n);
}

bool records_key_equal(struct records *r, uint32_t slot, const void *key, uint16_t key_len)
{
	const struct record *rec = records_at(r, slot);
	const uint8_t *with = key;
	struct records_stream s;
	uint64_t left = key_len;

	if (rec->key_len != key_len)
		return false;
	records_stream_init(&s, r, slot);
	records_stream_skip(&s, records_stream_bytes(0, rec->n_runs, rec->n_checks));
	while (left) {
		uint8_t *at;
		uint32_t step = records_stream_step(&s, left, &at);

		if (memcmp(at, with, step))
			return false;
		with += step;
		left -= step;
	}
	return true;
}
