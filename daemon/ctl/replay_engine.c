/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine rule: several requests at once, each one moved by its own small machine.
 *
 *	LOOKUP -> FETCH (pieces of the leading run) -> STORE (pieces of the rest) -> RELEASE
 *
 * One batch of each request is in flight; when the store gives it back, one function moves that
 * request on. Pieces bound the memory of a request, whose context may be hundreds of blocks:
 * they go from the last blocks to the first, so that a prefix is always younger than what
 * follows it. What was leased must be found; what a full node refuses to take is counted and
 * left.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/replay.h"
#include "ctl/util.h"
#include "ctl/value.h"

#define ENGINE_PIECE_BYTES (8u * 1024 * 1024)	/* of a request in flight */
#define ENGINE_PIECE_BLOCKS 64u

enum engine_stage {
	ENGINE_IDLE,
	ENGINE_LOOKUP,		/* EXISTS with a lease is under way */
	ENGINE_FETCH,		/* GET of blocks [left, left + n) of the leading run */
	ENGINE_STORE,		/* PUT of blocks [left, left + n) behind it */
	ENGINE_RELEASE,		/* the lease is being given back */
};

struct engine_slot {
	enum engine_stage stage;
	struct larder_batch batch;
	const struct trace_request *request;
	const uint64_t *blocks;
	uint32_t run;		/* leading run that the look-up told */
	uint32_t from;		/* the stage's blocks end here ... */
	uint32_t left;		/* ... and these are still to come, [from, left) */
	uint64_t lease_id;
	uint64_t start_ns;
	struct larder_item *items;
	struct iovec *iov;
	char (*keys)[REPLAY_KEY_SIZE];
	unsigned char *buffer;	/* of one piece */
};

struct engine {
	struct replay_store *store;
	const struct trace *trace;
	const struct replay_options *options;
	struct replay_result *result;
	struct engine_slot *slots;
	uint32_t piece;		/* blocks at most */
	uint32_t busy;
	size_t next;		/* request */
	size_t end;
	uint64_t lease_base;
	int failed;		/* first failure: nothing new begins */
};

static int engine_fail(struct engine *e, const char *what, const char *key, int r)
{
	const char *detail = ctl_detail(r);

	if (!e->failed)
		(void)snprintf(e->result->error, sizeof(e->result->error), "%s %s: %s%s%s", what,
			       key, r > 0 ? larder_status_text(r) : strerror(-r),
			       *detail ? ": " : "", detail);
	if (!e->failed)
		e->failed = r;
	return r;
}

static int engine_submit(struct engine *e, struct engine_slot *s, enum engine_stage stage,
			 uint8_t opcode, uint32_t flags, uint32_t n)
{
	int r;

	s->stage = stage;
	s->batch = (struct larder_batch){
		.opcode = opcode,
		.ns = e->store->ns,
		.flags = flags,
		.deadline_ms = e->options->deadline_ms,
		.lease_id = stage == ENGINE_LOOKUP || stage == ENGINE_RELEASE ? s->lease_id : 0,
		.lease_ms = stage == ENGINE_LOOKUP ? e->options->lease_ms : 0,
		.items = s->items,
		.n_items = n,
		.user = s,
	};
	s->start_ns = util_now_ns();
	r = e->store->ops->submit(e->store, &s->batch);
	if (r)
		return engine_fail(e, "submit", "", r);
	return 0;
}

static void engine_item(struct engine_slot *s, uint32_t index, uint64_t block)
{
	s->items[index] = (struct larder_item){
		.key = s->keys[index], .key_len = replay_key(block, s->keys[index]),
	};
}

static int engine_lookup(struct engine *e, struct engine_slot *s, const struct trace_request *q)
{
	s->request = q;
	s->blocks = e->trace->blocks + q->first;
	s->lease_id = e->lease_base + (uint64_t)(q - e->trace->requests);
	for (uint32_t i = 0; i < q->n_blocks; i++)
		engine_item(s, i, s->blocks[i]);
	return engine_submit(e, s, ENGINE_LOOKUP, LARDER_OP_EXISTS, LARDER_F_LEASE, q->n_blocks);
}

/* The next piece of [from, left), from its end. */
static int engine_piece(struct engine *e, struct engine_slot *s, enum engine_stage stage)
{
	uint32_t bytes = e->options->block_bytes, n = MIN(s->left - s->from, e->piece);

	s->left -= n;
	for (uint32_t i = 0; i < n; i++) {
		unsigned char *at = s->buffer + (size_t)i * bytes;

		engine_item(s, i, s->blocks[s->left + i]);
		s->iov[i] = (struct iovec){ at, bytes };
		s->items[i].iov = &s->iov[i];
		s->items[i].iovcnt = 1;
		if (stage == ENGINE_STORE)
			value_fill(s->blocks[s->left + i], at, bytes);
	}
	return stage == ENGINE_STORE
		       ? engine_submit(e, s, stage, LARDER_OP_PUT, 0, n)
		       : engine_submit(e, s, stage, LARDER_OP_GET, LARDER_F_WHOLE, n);
}

/* What the look-up told. 0 or a status. */
static int engine_looked_up(struct engine *e, struct engine_slot *s)
{
	struct replay_result *res = e->result;

	for (uint32_t i = 0; i < s->batch.n_items; i++) {
		const struct larder_item *item = &s->items[i];

		if (item->status != LARDER_OK && item->status != LARDER_NOT_FOUND)
			return engine_fail(e, "exists", s->keys[i], item->status);
		res->block_hits += item->presence == LARDER_PRESENT ||
				   item->presence == LARDER_LEASED;
	}
	s->run = MIN(s->batch.leading_run, s->request->n_blocks);
	res->blocks += s->request->n_blocks;
	res->prefix_hits += s->run;
	replay_prefill(e->options, s->request, s->run, res);
	s->from = 0;
	s->left = s->run;
	return 0;
}

static int engine_fetched(struct engine *e, struct engine_slot *s)
{
	struct replay_result *res = e->result;
	uint32_t bytes = e->options->block_bytes;

	for (uint32_t i = 0; i < s->batch.n_items; i++) {
		const struct larder_item *item = &s->items[i];

		res->gets++;
		if (!replay_size_fits(e->options, item->status, item))
			return engine_fail(e, "get (there is a value of another size: --flush?)",
					   s->keys[i], LARDER_CONFLICT);
		if (item->status == LARDER_CHECKSUM) {
			res->checksum_errors++;
		} else if (item->status == LARDER_NOT_FOUND) {
			res->lease_broken++;
		} else if (item->status != LARDER_OK) {
			return engine_fail(e, "get", s->keys[i], item->status);
		} else {
			res->get_hits++;
			res->get_bytes += item->done_bytes;
			res->checksum_errors +=
				item->done_bytes != bytes ||
				!value_check(s->blocks[s->left + i], s->iov[i].iov_base, bytes);
		}
	}
	return 0;
}

static int engine_stored(struct engine *e, struct engine_slot *s)
{
	struct replay_result *res = e->result;

	for (uint32_t i = 0; i < s->batch.n_items; i++) {
		switch (s->items[i].status) {
		case LARDER_EXISTS_SAME:
			res->put_same++;
			/* fall through */
		case LARDER_OK:
			res->puts++;
			res->put_bytes += e->options->block_bytes;
			break;
		case LARDER_NO_SPACE:
		case LARDER_QUOTA:
		case LARDER_THROTTLED:
		case LARDER_BUSY:
			res->refused++;
			break;
		default:
			return engine_fail(e, "put", s->keys[i], s->items[i].status);
		}
	}
	return 0;
}

static void engine_idle(struct engine *e, struct engine_slot *s)
{
	s->stage = ENGINE_IDLE;
	e->busy--;
}

/* The next stage of a request whose pieces of the present one are done. */
static int engine_advance(struct engine *e, struct engine_slot *s)
{
	if (s->stage == ENGINE_LOOKUP || s->stage == ENGINE_FETCH) {
		if (s->left > s->from)
			return engine_piece(e, s, ENGINE_FETCH);
		s->from = s->run;
		s->left = s->request->n_blocks;
		s->stage = ENGINE_STORE;
	}
	if (s->stage == ENGINE_STORE && s->left > s->from)
		return engine_piece(e, s, ENGINE_STORE);
	if (s->stage == ENGINE_STORE && s->run)
		return engine_submit(e, s, ENGINE_RELEASE, LARDER_OP_RELEASE, 0, 0);
	e->result->requests++;
	engine_idle(e, s);
	return 0;
}

static int engine_done(struct engine *e, struct engine_slot *s)
{
	uint64_t took = util_now_ns() - s->start_ns;
	int r = 0;

	switch (s->stage) {
	case ENGINE_LOOKUP:
		latency_add(&e->result->exists, took);
		r = engine_looked_up(e, s);
		break;
	case ENGINE_FETCH:
		latency_add(&e->result->get, took);
		r = engine_fetched(e, s);
		break;
	case ENGINE_STORE:
		latency_add(&e->result->put, took);
		r = engine_stored(e, s);
		break;
	case ENGINE_RELEASE:	/* a lease that ended by itself is no fault */
	case ENGINE_IDLE:
		break;
	}
	if (!r && !e->failed)
		r = engine_advance(e, s);
	if (r || e->failed)
		engine_idle(e, s);
	return r;
}

/* Begins requests while slots and requests last. */
static int engine_fill(struct engine *e)
{
	for (uint32_t i = 0; i < e->options->inflight && e->next < e->end; i++) {
		const struct trace_request *q = &e->trace->requests[e->next];
		struct engine_slot *s = &e->slots[i];
		int r;

		if (s->stage != ENGINE_IDLE)
			continue;
		r = e->store->ops->set_time(e->store, q->timestamp_ms);
		if (r)
			return engine_fail(e, "clock", "", r);
		e->next++;
		if (!q->n_blocks) {
			replay_prefill(e->options, q, 0, e->result);
			e->result->requests++;
			i--;	/* the slot is still free */
			continue;
		}
		e->busy++;
		r = engine_lookup(e, s, q);
		if (r) {
			engine_idle(e, s);
			return r;
		}
	}
	return 0;
}

static int engine_loop(struct engine *e, struct progress *p)
{
	struct larder_batch *done[16];

	for (;;) {
		int n;

		if (!e->failed)
			(void)engine_fill(e);	/* a failure is kept in e->failed */
		if (!e->busy)
			return e->failed;
		n = e->store->ops->wait(e->store, done, ARRAY_SIZE(done));
		/* batches under way can't be left: their memory is ours only when they end */
		if (n < 0)
			return engine_fail(e, "wait", "", n);
		for (int i = 0; i < n; i++)
			(void)engine_done(e, done[i]->user);	/* as above */
		progress_step(p, e->result->requests);
	}
}

static void engine_free(struct engine *e)
{
	for (uint32_t i = 0; e->slots && i < e->options->inflight; i++) {
		free(e->slots[i].items);
		free(e->slots[i].iov);
		free(e->slots[i].keys);
		free(e->slots[i].buffer);
	}
	free(e->slots);
}

static int engine_allocate(struct engine *e)
{
	uint32_t blocks = e->trace->max_blocks + 1;

	e->slots = calloc(e->options->inflight, sizeof(*e->slots));
	if (!e->slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < e->options->inflight; i++) {
		struct engine_slot *s = &e->slots[i];

		s->items = calloc(blocks, sizeof(*s->items));
		s->iov = calloc(e->piece, sizeof(*s->iov));
		s->keys = calloc(blocks, sizeof(*s->keys));
		s->buffer = malloc((size_t)e->piece * e->options->block_bytes);
		if (!s->items || !s->iov || !s->keys || !s->buffer)
			return -ENOMEM;
	}
	return 0;
}

int replay_run_engine(struct replay_store *s, const struct trace *t,
		      const struct replay_options *o, struct progress *p,
		      struct replay_result *ret)
{
	struct engine e = {
		.store = s,
		.trace = t,
		.options = o,
		.result = ret,
		.piece = MIN(MAX(ENGINE_PIECE_BYTES / o->block_bytes, 1u), ENGINE_PIECE_BLOCKS),
		.end = o->requests ? MIN(o->requests, t->n_requests) : t->n_requests,
		/* ids of leases belong to the tenant: two replays at once must not share them */
		.lease_base = util_mix64(util_now_ns() ^ (uint64_t)getpid()),
	};
	int r = engine_allocate(&e);

	if (r)
		r = engine_fail(&e, "memory", "", r);
	else
		r = engine_loop(&e, p);
	/* after a failed wait batches may still be under way: the store's close ends them, and the
	 * process ends with it, so that their memory is left alone */
	if (!e.busy)
		engine_free(&e);
	return r;
}
