/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers' owner: opens them, puts the working set, lets them run, adds up, cleans up.
 *
 * Keys carry a number of this process, so that two benches on one namespace don't meet and what is
 * deleted at the end is exactly what was put: the working set has ids [0, keys), PUTs go on behind
 * it, interleaved by worker.
 */
#include "ctl/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/bench_internal.h"
#include "ctl/ctl.h"
#include "ctl/util.h"
#include "ctl/value.h"

#define BENCH_PIECE_BYTES (8u * 1024 * 1024)	/* of the working set, at once */
#define BENCH_PIECE_KEYS 256u
#define BENCH_WATCH_NS (20 * NSEC_PER_MSEC)

static int bench_fail(char error[256], const char *what, int r)
{
	const char *detail = ctl_detail(r);

	(void)snprintf(error, 256, "%s: %s%s%s", what,
		       r > 0 ? larder_status_text(r) : strerror(-r), *detail ? ": " : "", detail);
	return r;
}

static int bench_open_worker(struct bench *b, uint32_t index, char error[256])
{
	static const struct larder_environment kernel;	/* all NULL: the kernel's */
	const struct bench_options *o = &b->options;
	struct bench_worker *w = &b->workers[index];
	int r;

	w->bench = b;
	w->index = index;
	w->random = util_mix64(o->seed + 1) + util_mix64(index);
	if (o->spin)
		r = larder_open_stepped(o->client, &kernel, NULL, NULL, &w->client);
	else
		r = larder_open(o->client, &w->client);
	if (r)
		return bench_fail(error, "open", r);
	r = larder_ns_open(w->client, o->ns, NULL, LARDER_NS_CREATE, o->deadline_ms, &w->ns);
	if (r)
		return bench_fail(error, "namespace", r);
	r = bench_worker_prepare(w);
	return r ? bench_fail(error, "memory", r) : 0;
}

/* One piece of ids in a row, by worker 0. 0, a status, -errno. */
static int bench_piece(struct bench *b, uint8_t opcode, uint64_t from, uint32_t n, uint64_t stride,
		       unsigned char *memory)
{
	_cleanup_free_ struct larder_item *items = calloc(n, sizeof(*items));
	_cleanup_free_ struct iovec *iov = calloc(n, sizeof(*iov));
	_cleanup_free_ char *keys = calloc(n, BENCH_KEY_SIZE);
	struct bench_worker *w = &b->workers[0];
	struct larder_batch batch = {
		.opcode = opcode, .ns = w->ns, .deadline_ms = b->options.deadline_ms,
		.items = items, .n_items = n,
	};

	if (!items || !iov || !keys)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		char *key = keys + (size_t)i * BENCH_KEY_SIZE;
		uint64_t id = from + i * stride;

		items[i].key = key;
		items[i].key_len = bench_key(b, id, key);
		if (!memory)
			continue;
		iov[i] = (struct iovec){ memory + (size_t)i * b->options.size, b->options.size };
		value_fill(id, iov[i].iov_base, b->options.size);
		items[i].iov = &iov[i];
		items[i].iovcnt = 1;
	}
	return larder_run(w->client, &batch);
}

static int bench_populate(struct bench *b, struct progress *p, char error[256])
{
	const struct bench_options *o = &b->options;
	uint32_t piece = MIN(MAX(BENCH_PIECE_BYTES / o->size, 1u), BENCH_PIECE_KEYS);
	_cleanup_free_ unsigned char *memory = NULL;
	int r;

	if (o->opcode == LARDER_OP_PUT)
		return 0;
	memory = malloc((size_t)piece * o->size);
	if (!memory)
		return bench_fail(error, "memory", -ENOMEM);
	progress_begin(p, "working set", o->keys);
	for (uint64_t at = 0; at < o->keys; at += piece) {
		uint32_t n = (uint32_t)MIN(o->keys - at, (uint64_t)piece);

		r = bench_piece(b, LARDER_OP_PUT, at, n, 1, memory);
		if (r && r != LARDER_EXISTS_SAME) {
			progress_end(p);
			return bench_fail(error, "putting the working set", r);
		}
		progress_step(p, at + n);
	}
	progress_end(p);
	return 0;
}

int bench_open(const struct bench_options *o, struct progress *p, struct bench **ret,
	       char error[256])
{
	struct bench *b = calloc(1, sizeof(*b));
	int r = 0;

	if (!b)
		return bench_fail(error, "memory", -ENOMEM);
	b->options = *o;
	b->nonce = util_mix64(util_now_ns() + ((uint64_t)getpid() << 40));
	(void)pthread_mutex_init(&b->lock, NULL);	/* default attributes: can't fail */
	(void)pthread_cond_init(&b->moved, NULL);
	b->workers = calloc(o->connections, sizeof(*b->workers));
	if (!b->workers)
		r = bench_fail(error, "memory", -ENOMEM);
	for (uint32_t i = 0; !r && i < o->connections; i++)
		r = bench_open_worker(b, i, error);
	if (!r)
		r = bench_populate(b, p, error);
	if (r) {
		bench_close(b);
		return r;
	}
	*ret = b;
	return 0;
}

static void bench_gate(struct bench *b, int gate)
{
	const struct bench_options *o = &b->options;

	(void)pthread_mutex_lock(&b->lock);	/* as in the workers */
	b->begin_ns = util_now_ns();
	b->start_ns = b->begin_ns + o->warmup_ns;
	b->end_ns = o->count ? UINT64_MAX : b->start_ns + o->duration_ns;
	b->gate = gate;
	(void)pthread_cond_broadcast(&b->moved);
	(void)pthread_mutex_unlock(&b->lock);
}

/* While the workers work: the bar. */
static void bench_watch(struct bench *b, struct progress *p)
{
	const struct bench_options *o = &b->options;
	const struct timespec pause = { 0, BENCH_WATCH_NS };

	progress_begin(p, "bench", o->count ? o->count : (o->warmup_ns + o->duration_ns) /
							  NSEC_PER_MSEC);
	while (atomic_load(&b->working)) {
		(void)nanosleep(&pause, NULL);	/* an early end only draws sooner */
		progress_step(p, o->count ? atomic_load(&b->done)
					  : (util_now_ns() - b->begin_ns) / NSEC_PER_MSEC);
	}
	progress_end(p);
}

static void bench_add(struct bench_result *into, const struct bench_worker *w)
{
	const struct bench_result *from = w->result;
	struct larder_client_info info;

	into->batches += from->batches;
	into->operations += from->operations;
	into->bytes += from->bytes;
	into->unsent += from->unsent;
	into->wrong += from->wrong;
	for (unsigned i = 0; i < LARDER_STATUS_COUNT; i++)
		into->status[i] += from->status[i];
	latency_merge(&into->latency, &from->latency);
	larder_get_info(w->client, &info);
	into->reconnects += info.reconnects;
	into->retries += info.retries;
}

/* Makes the threads; they wait at the gate. 0 or -errno: then none runs. */
static int bench_threads(struct bench *b)
{
	for (uint32_t i = 0; i < b->options.connections; i++) {
		struct bench_worker *w = &b->workers[i];
		int r;

		w->over = false;
		w->failed = 0;
		w->due = 0;
		w->last_ns = 0;
		w->result = calloc(1, sizeof(*w->result));
		r = w->result ? pthread_create(&w->thread, NULL, bench_worker_main, w) : ENOMEM;
		if (r)
			return -r;
		w->running = true;
		atomic_fetch_add(&b->working, 1);
	}
	return 0;
}

int bench_run(struct bench *b, struct progress *p, struct bench_result *ret, char error[256])
{
	uint64_t last = 0;
	int r, failed = 0;

	b->gate = 0;
	atomic_store(&b->done, 0);
	atomic_store(&b->left, (int64_t)b->options.count);
	r = bench_threads(b);
	bench_gate(b, r ? -1 : 1);
	if (!r)
		bench_watch(b, p);
	for (uint32_t i = 0; i < b->options.connections; i++) {
		struct bench_worker *w = &b->workers[i];

		if (w->running)
			(void)pthread_join(w->thread, NULL);	/* joinable, joined once */
		w->running = false;
		if (!r)
			bench_add(ret, w);
		failed = failed ? failed : w->failed;
		last = MAX(last, w->last_ns);
		free(TAKE_PTR(w->result));
	}
	ret->elapsed_ns = last > b->start_ns ? last - b->start_ns : 0;
	if (!r)
		r = failed;
	return r ? bench_fail(error, "run", r) : 0;
}

void bench_url(struct bench *b, char *url, size_t size)
{
	struct larder_client_info info;

	larder_get_info(b->workers[0].client, &info);
	(void)snprintf(url, size, "%s", info.url);
}

/* Deletes @n ids from @from on, @stride apart. What was evicted is not there: no matter. */
static void bench_delete(struct bench *b, uint64_t from, uint64_t n, uint64_t stride)
{
	for (uint64_t at = 0; at < n; at += BENCH_PIECE_KEYS) {
		uint32_t piece = (uint32_t)MIN(n - at, (uint64_t)BENCH_PIECE_KEYS);
		int r = bench_piece(b, LARDER_OP_DELETE, from + at * stride, piece, stride, NULL);

		if (r < 0 || r == LARDER_DISCONNECTED)
			return;	/* the node will evict them */
	}
}

void bench_close(struct bench *b)
{
	if (!b)
		return;
	if (b->workers && b->workers[0].client && !b->options.keep) {
		if (b->options.opcode != LARDER_OP_PUT)
			bench_delete(b, 0, b->options.keys, 1);
		for (uint32_t i = 0; i < b->options.connections; i++)
			bench_delete(b, b->options.keys + i, b->workers[i].next_put,
				     b->options.connections);
	}
	for (uint32_t i = 0; b->workers && i < b->options.connections; i++)
		if (b->workers[i].bench)
			bench_worker_release(&b->workers[i]);
	free(b->workers);
	(void)pthread_cond_destroy(&b->moved);	/* nobody waits any more */
	(void)pthread_mutex_destroy(&b->lock);
	free(b);
}
