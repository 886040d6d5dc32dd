/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact rule, and what both rules share: keys, the prefill model.
 *
 * Order matters: the look-up of a request sees the store before the request changes anything, and a
 * block that was there at the look-up may have been pushed out by an earlier PUT of the same
 * request. It is then put again; that is why the GET's own answer decides and not the look-up's.
 */
#include "ctl/ctl.h"
#include "ctl/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/util.h"
#include "ctl/value.h"

/* One request's keys and items, reused for each. */
struct replay_exact {
	struct replay_store *store;
	const struct replay_options *options;
	struct replay_result *result;
	char (*keys)[REPLAY_KEY_SIZE];
	struct larder_item *items;
	void *buffer;
};

size_t replay_key(uint64_t block, char key[REPLAY_KEY_SIZE])
{
	return (size_t)snprintf(key, REPLAY_KEY_SIZE, "%08" PRIu64, block);
}

/*
 * t(n new after p cached) = a n + b n (p + n/2). What a leading run of h tokens saves of a whole
 * input of n is t(n after 0) - t(n - h after h) = a h + b h h / 2.
 */
void replay_prefill(const struct replay_options *o, const struct trace_request *q, uint32_t run,
		    struct replay_result *ret)
{
	double n = q->input_length;
	double h = MIN((double)run * o->tokens_per_block, n);

	ret->prefill_ns += o->linear_ns * n + o->quadratic_ns * n * n / 2;
	ret->saved_ns += o->linear_ns * h + o->quadratic_ns * h * h / 2;
}

bool replay_size_fits(const struct replay_options *o, int status, const struct larder_item *item)
{
	if (status != LARDER_OK && status != LARDER_TOO_SMALL)
		return true;	/* there is no size to speak of */
	return item->stat.size_bytes == o->block_bytes;
}

static int exact_fail(struct replay_exact *e, const char *what, const char *key, int r)
{
	const char *detail = ctl_detail(r);

	(void)snprintf(e->result->error, sizeof(e->result->error), "%s %s: %s%s%s", what, key,
		       r > 0 ? larder_status_text(r) : strerror(-r), *detail ? ": " : "", detail);
	return r;
}

static int exact_exists(struct replay_exact *e, const uint64_t *blocks, uint32_t n,
			uint32_t *ret_run)
{
	struct larder_batch b = {
		.opcode = LARDER_OP_EXISTS, .ns = e->store->ns,
		.deadline_ms = e->options->deadline_ms, .items = e->items, .n_items = n,
	};
	uint64_t start = util_now_ns();
	uint32_t run = 0;
	int r;

	for (uint32_t i = 0; i < n; i++)
		e->items[i] = (struct larder_item){
			.key = e->keys[i], .key_len = replay_key(blocks[i], e->keys[i]),
		};
	r = e->store->ops->run(e->store, &b);
	latency_add(&e->result->exists, util_now_ns() - start);
	/* what is absent may be told as the batch's status; each item says it itself */
	if (r && r != LARDER_NOT_FOUND)
		return exact_fail(e, "exists", e->keys[0], r);
	for (uint32_t i = 0; i < n; i++) {
		bool there = e->items[i].presence == LARDER_PRESENT ||
			     e->items[i].presence == LARDER_LEASED;

		e->result->block_hits += there;
		run += there && run == i;
	}
	if (b.leading_run != run)
		return exact_fail(e, "exists (its leading run is wrong)", e->keys[0],
				  LARDER_INTERNAL);
	e->result->blocks += n;
	e->result->prefix_hits += run;
	*ret_run = run;
	return 0;
}

static int exact_transfer(struct replay_exact *e, uint8_t opcode, const char *key, size_t key_len,
			  struct larder_item *item)
{
	struct iovec iov = { e->buffer, e->options->block_bytes };
	struct larder_batch b = {
		.opcode = opcode, .ns = e->store->ns, .deadline_ms = e->options->deadline_ms,
		.items = item, .n_items = 1,
		.flags = opcode == LARDER_OP_GET ? LARDER_F_WHOLE : 0,
	};
	uint64_t start = util_now_ns();
	int r;

	*item = (struct larder_item){ .key = key, .key_len = key_len, .iov = &iov, .iovcnt = 1 };
	r = e->store->ops->run(e->store, &b);
	item->iov = NULL;	/* it pointed into this call */
	latency_add(opcode == LARDER_OP_GET ? &e->result->get : &e->result->put,
		    util_now_ns() - start);
	return r;
}

static int exact_put(struct replay_exact *e, uint64_t block, const char *key, size_t key_len)
{
	struct replay_result *res = e->result;
	struct larder_item item;
	int r;

	value_fill(block, e->buffer, e->options->block_bytes);
	r = exact_transfer(e, LARDER_OP_PUT, key, key_len, &item);
	if (r && r != LARDER_EXISTS_SAME)
		return exact_fail(e, "put", key, r);
	res->puts++;
	res->put_bytes += e->options->block_bytes;
	res->put_same += item.status == LARDER_EXISTS_SAME;
	return 0;
}

/* GET when it is there now, PUT when it is not. */
static int exact_block(struct replay_exact *e, uint64_t block)
{
	struct replay_result *res = e->result;
	char key[REPLAY_KEY_SIZE];
	size_t key_len = replay_key(block, key);
	struct larder_item item;
	int r = exact_transfer(e, LARDER_OP_GET, key, key_len, &item);

	res->gets++;
	if (r == LARDER_NOT_FOUND)
		return exact_put(e, block, key, key_len);
	if (r == LARDER_CHECKSUM) {
		res->checksum_errors++;
		return 0;
	}
	if (!replay_size_fits(e->options, r, &item))
		return exact_fail(e, "get (there is a value of another size: --flush?)", key,
				  LARDER_CONFLICT);
	if (r)
		return exact_fail(e, "get", key, r);
	res->get_hits++;
	res->get_bytes += item.done_bytes;
	if (item.done_bytes != e->options->block_bytes ||
	    !value_check(block, e->buffer, e->options->block_bytes))
		res->checksum_errors++;
	return 0;
}

static int exact_request(struct replay_exact *e, const struct trace *t,
			 const struct trace_request *q)
{
	const uint64_t *blocks = t->blocks + q->first;
	int r = e->store->ops->set_time(e->store, q->timestamp_ms);
	uint32_t run = 0;

	if (r)
		return exact_fail(e, "clock", "", r);
	if (q->n_blocks) {
		r = exact_exists(e, blocks, q->n_blocks, &run);
		if (r)
			return r;
	}
	replay_prefill(e->options, q, run, e->result);
	for (uint32_t i = 0; i < q->n_blocks; i++) {
		uint32_t k = e->options->order == REPLAY_FIRST_LAST ? i : q->n_blocks - 1 - i;

		r = exact_block(e, blocks[k]);
		if (r)
			return r;
	}
	e->result->requests++;
	return 0;
}

static int replay_run_exact(struct replay_store *s, const struct trace *t,
			    const struct replay_options *o, struct progress *p,
			    struct replay_result *ret)
{
	size_t n = o->requests ? MIN(o->requests, t->n_requests) : t->n_requests;
	_cleanup_free_ void *keys = calloc(t->max_blocks + 1, REPLAY_KEY_SIZE);
	_cleanup_free_ struct larder_item *items = calloc(t->max_blocks + 1, sizeof(*items));
	_cleanup_free_ void *buffer = malloc(o->block_bytes);
	struct replay_exact e = {
		.store = s, .options = o, .result = ret, .keys = keys, .items = items,
		.buffer = buffer,
	};
	int r = 0;

	if (!keys || !items || !buffer)
		return exact_fail(&e, "memory", "", -ENOMEM);
	for (size_t i = 0; !r && i < n; i++) {
		r = exact_request(&e, t, &t->requests[i]);
		progress_step(p, i + 1);
	}
	return r;
}

int replay_run(struct replay_store *s, const struct trace *t, const struct replay_options *o,
	       struct progress *p, struct replay_result *ret)
{
	uint64_t start = util_now_ns();
	int r = o->mode == REPLAY_EXACT ? replay_run_exact(s, t, o, p, ret)
					: replay_run_engine(s, t, o, p, ret);

	ret->wall_ns += util_now_ns() - start;
	return r;
}
