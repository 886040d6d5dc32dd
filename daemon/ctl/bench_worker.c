/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker of the bench: starts batches as the loop's rule allows, takes completions, counts.
 *
 * A batch counts when its start (open loop: the moment it was due) lies in [start, end) of the
 * run; those before are the warm-up. All that were started are waited for, so the slowest ones
 * count too: stopping the clock at the end and dropping what is under way would hide exactly
 * them.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "ctl/bench_internal.h"
#include "ctl/util.h"
#include "ctl/value.h"

#define BENCH_IDLE_NS (100 * NSEC_PER_MSEC)
#define BENCH_POLL 64

size_t bench_key(const struct bench *b, uint64_t id, char key[BENCH_KEY_SIZE])
{
	return (size_t)snprintf(key, BENCH_KEY_SIZE, "bench-%016llx-%012llx",
				(unsigned long long)b->nonce, (unsigned long long)id);
}

uint64_t bench_due_ns(double rate, uint32_t connections, uint32_t worker, uint64_t k)
{
	return (uint64_t)(((double)k * connections + worker) / rate * 1e9);
}

static int worker_memory(struct bench_worker *w)
{
	const struct bench_options *o = &w->bench->options;
	size_t size = (size_t)o->depth * o->buffers * o->batch * o->size;
	int r;

	if (o->opcode == LARDER_OP_EXISTS)
		return 0;
	if (o->region) {
		r = larder_region_alloc(w->client, size, 0, &w->region);
		if (r)
			return r < 0 ? r : -larder_status_errno(r);
		w->memory = larder_region_addr(w->region);
		return 0;
	}
	/* touched now, so that the first batches don't pay for it */
	w->memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (w->memory == MAP_FAILED) {
		w->memory = NULL;
		return -errno;
	}
	w->memory_size = size;
	return 0;
}

/* Of all values that the slot will ever put: none is computed while the clock runs. */
static int slot_checks(struct bench_slot *s, const struct bench_options *o)
{
	size_t n = (size_t)o->buffers * o->batch, each = larder_check_count(o->size);

	s->checks = calloc(n * each, sizeof(*s->checks));
	if (!s->checks)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct iovec iov = { s->memory + i * o->size, o->size };

		larder_value_checks(&iov, 1, s->checks + i * each);
	}
	return 0;
}

int bench_worker_prepare(struct bench_worker *w)
{
	const struct bench_options *o = &w->bench->options;
	int r = worker_memory(w);

	if (r)
		return r;
	w->slots = calloc(o->depth, sizeof(*w->slots));
	if (!w->slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < o->depth; i++) {
		struct bench_slot *s = &w->slots[i];

		s->items = calloc(o->batch, sizeof(*s->items));
		s->iov = calloc(o->batch, sizeof(*s->iov));
		s->keys = calloc(o->batch, sizeof(*s->keys));
		s->ids = calloc(o->batch, sizeof(*s->ids));
		if (!s->items || !s->iov || !s->keys || !s->ids)
			return -ENOMEM;
		if (w->memory) {
			size_t size = (size_t)o->buffers * o->batch * o->size;

			s->memory = (unsigned char *)w->memory + i * size;
			value_fill(w->bench->nonce + i, s->memory, size);
		}
		if (o->no_checks && o->opcode == LARDER_OP_PUT && slot_checks(s, o) < 0)
			return -ENOMEM;
		s->next_free = w->free;
		w->free = s;
	}
	return 0;
}

void bench_worker_release(struct bench_worker *w)
{
	for (uint32_t i = 0; w->slots && i < w->bench->options.depth; i++) {
		free(w->slots[i].items);
		free(w->slots[i].iov);
		free(w->slots[i].keys);
		free(w->slots[i].ids);
		free(w->slots[i].checks);
	}
	free(w->slots);
	w->slots = w->free = NULL;
	if (w->region)
		(void)larder_region_free(w->region);	/* the handle's end frees it otherwise */
	else if (w->memory)
		(void)munmap(w->memory, w->memory_size);	/* it was mapped: can't fail */
	w->region = NULL;
	w->memory = NULL;
	larder_close(TAKE_PTR(w->client));
}

static void worker_fill(struct bench_worker *w, struct bench_slot *s)
{
	const struct bench_options *o = &w->bench->options;
	size_t first = (size_t)(s->turn++ % o->buffers) * o->batch, at = first * o->size;

	for (uint32_t i = 0; i < o->batch; i++) {
		struct larder_item *item = &s->items[i];

		if (o->opcode == LARDER_OP_PUT)
			s->ids[i] = o->keys + w->index + w->next_put++ * o->connections;
		else
			s->ids[i] = util_random_below(&w->random, o->keys);
		*item = (struct larder_item){ .key = s->keys[i] };
		item->key_len = bench_key(w->bench, s->ids[i], s->keys[i]);
		if (s->memory) {
			s->iov[i] = (struct iovec){ s->memory + at + (size_t)i * o->size,
						    o->size };
			item->iov = &s->iov[i];
			item->iovcnt = 1;
		}
		if (s->checks)
			item->checks = s->checks + (first + i) * larder_check_count(o->size);
	}
	s->batch = (struct larder_batch){
		.opcode = o->opcode, .ns = w->ns, .deadline_ms = o->deadline_ms,
		.items = s->items, .n_items = o->batch, .user = s,
	};
	if (o->opcode == LARDER_OP_GET)
		s->batch.flags = LARDER_F_WHOLE | (o->no_checks ? LARDER_F_NO_CHECKS : 0);
}

/*
 * Whether a batch may start now, and from when its latency counts. Otherwise *@when_ns is when to
 * ask again (UINT64_MAX: after a completion).
 */
static bool worker_may_start(struct bench_worker *w, uint64_t now, uint64_t *when_ns)
{
	struct bench *b = w->bench;
	const struct bench_options *o = &b->options;
	uint64_t at = now;

	*when_ns = UINT64_MAX;
	if (w->over)
		return false;
	if (o->rate > 0)
		at = b->begin_ns + bench_due_ns(o->rate, o->connections, w->index, w->due);
	if (!o->count && (at >= b->end_ns || now >= b->end_ns)) {
		w->over = true;
		return false;
	}
	*when_ns = at;
	if (at > now)
		return false;
	if (o->count && at >= b->start_ns && atomic_fetch_sub(&b->left, 1) <= 0) {
		w->over = true;
		*when_ns = UINT64_MAX;
		return false;
	}
	w->due++;
	return true;
}

/* Starts what may start. Returns when to look again, UINT64_MAX: after a completion. */
static uint64_t worker_start(struct bench_worker *w)
{
	while (w->free) {
		struct bench_slot *s = w->free;
		uint64_t when;
		int r;

		if (!worker_may_start(w, util_now_ns(), &when))
			return when;
		worker_fill(w, s);
		s->start_ns = w->bench->options.rate > 0 ? when : util_now_ns();
		r = larder_submit(w->client, &s->batch);
		if (r) {
			w->failed = r;
			w->over = true;
			return UINT64_MAX;
		}
		w->free = s->next_free;
		w->in_flight++;
	}
	return UINT64_MAX;
}

static int worker_item_status(const struct bench_options *o, const struct larder_item *item)
{
	if (o->opcode != LARDER_OP_EXISTS || item->status != LARDER_OK)
		return item->status < 0 || item->status >= LARDER_STATUS_COUNT ? LARDER_INTERNAL
									       : item->status;
	return item->presence == LARDER_ABSENT || item->presence == LARDER_FILLING
		       ? LARDER_NOT_FOUND : LARDER_OK;
}

static void worker_count(struct bench_worker *w, struct bench_slot *s, uint64_t now)
{
	const struct bench_options *o = &w->bench->options;
	struct bench_result *res = w->result;

	latency_add(&res->latency, now - s->start_ns);
	res->batches++;
	w->last_ns = now;
	for (uint32_t i = 0; i < o->batch; i++) {
		int status = worker_item_status(o, &s->items[i]);

		res->operations++;
		res->status[status]++;
		if (status != LARDER_OK && status != LARDER_EXISTS_SAME)
			continue;
		if (o->opcode == LARDER_OP_EXISTS)
			continue;
		res->bytes += s->items[i].done_bytes;
		if (o->verify)
			res->wrong += s->items[i].done_bytes != o->size ||
				      !value_check(s->ids[i], s->iov[i].iov_base, o->size);
	}
	atomic_fetch_add_explicit(&w->bench->done, 1, memory_order_relaxed);
}

static void worker_done(struct bench_worker *w, struct bench_slot *s)
{
	uint64_t now = util_now_ns();

	w->in_flight--;
	s->next_free = w->free;
	w->free = s;
	if (s->start_ns >= w->bench->start_ns)
		worker_count(w, s, now);
}

/* Waits for a completion or until @when_ns. 0 or -errno. */
static int worker_wait(struct bench_worker *w, uint64_t when_ns)
{
	struct pollfd p = { larder_event_fd(w->client), POLLIN, 0 };
	uint64_t now, ns = BENCH_IDLE_NS;
	struct timespec ts;

	if (w->bench->options.spin) {
		int r = larder_step(w->client);

		/* where there are fewer processors than threads, the node's is let by */
		if (!r)
			(void)sched_yield();
		return r < 0 ? r : 0;
	}
	now = util_now_ns();
	if (w->free && when_ns != UINT64_MAX)
		ns = MIN(ns, when_ns > now ? when_ns - now : 0);
	ts = (struct timespec){ 0, (long)ns };
	if (ppoll(&p, 1, &ts, NULL) < 0 && errno != EINTR)
		return -errno;
	return 0;
}

static void worker_run(struct bench_worker *w)
{
	struct larder_batch *done[BENCH_POLL];

	for (;;) {
		uint64_t when = worker_start(w);
		int n = larder_poll(w->client, done, BENCH_POLL);

		for (int i = 0; i < n; i++)
			worker_done(w, done[i]->user);
		if (n)
			continue;
		if (w->over && !w->in_flight)
			return;
		n = worker_wait(w, when);
		if (n < 0) {
			/* batches under way come back by their deadlines all the same */
			w->failed = n;
			w->over = true;
		}
	}
}

/* What the schedule had before the end and no slot was free for. */
static void worker_unsent(struct bench_worker *w)
{
	const struct bench *b = w->bench;
	const struct bench_options *o = &b->options;

	if (!(o->rate > 0) || o->count || w->failed)
		return;
	for (;; w->due++) {
		uint64_t at = b->begin_ns + bench_due_ns(o->rate, o->connections, w->index, w->due);

		if (at >= b->end_ns)
			return;
		w->result->unsent += at >= b->start_ns;
	}
}

void *bench_worker_main(void *worker)
{
	struct bench_worker *w = worker;
	struct bench *b = w->bench;
	int gate;

	(void)pthread_mutex_lock(&b->lock);	/* a plain mutex, never held by its owner twice */
	while (!b->gate)
		(void)pthread_cond_wait(&b->moved, &b->lock);
	gate = b->gate;
	(void)pthread_mutex_unlock(&b->lock);
	if (gate > 0) {
		worker_run(w);
		worker_unsent(w);
	}
	atomic_fetch_sub(&b->working, 1);
	return NULL;
}
