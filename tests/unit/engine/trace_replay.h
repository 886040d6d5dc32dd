/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request trace against the engine alone: no node, no socket, no bytes. The clock is the trace's.
 *
 * Per request, as the traces' own reference does it: one look-up of all blocks as the store stands,
 * then block by block, from the last to the first or the other way, a touch of what is there now
 * and a put of what is not. Variants: every block touched a second time in the same breath, blocks
 * that nobody asks for again mixed in at a rate, and blocks of 1 to 32 pages.
 *
 * For the unit tests of the default policy and for the table of measured rates, which are two
 * programs; hence a header. A failure of the environment ends the program with a line.
 */
#ifndef LARDER_TESTS_ENGINE_TRACE_REPLAY_H
#define LARDER_TESTS_ENGINE_TRACE_REPLAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "engine/engine.h"

#define REPLAY_PAGE 4096u
#define REPLAY_BLOCKS_MAX 4096u		/* of one request */
#define REPLAY_START_NS (1000 * NSEC_PER_SEC)
#define REPLAY_SCAN_FIRST (1ull << 40)	/* keys that no trace has */
#define REPLAY_SIZES 6u			/* 1, 2, 4, 8, 16, 32 pages */
#define REPLAY_SIZES_MEAN 10.5

struct trace_request {
	uint64_t at_ms;
	size_t first;
	uint32_t n;
};

struct trace {
	struct trace_request *requests;
	size_t n_requests;
	uint64_t *ids;
	size_t n_ids;
};

struct trace_options {
	const char *policy;
	uint32_t blocks;		/* capacity; pages, or pages times the mean size */
	uint32_t shards;
	uint32_t reserve_pages;
	uint64_t seed;
	uint32_t scan_per_second;
	bool first_last;		/* order; else from the last block to the first */
	bool twice;
	bool sizes;
};

struct trace_result {
	uint64_t blocks, hits, prefix;
	uint64_t operations;		/* that may change something: gets and puts */
	uint64_t refused;		/* puts that found no room */
	uint64_t evictions;
	uint64_t pages, most_pages;	/* there are, and were ever taken */
};

static void trace_die(const char *what, const char *why)
{
	(void)fprintf(stderr, "%s: %s\n", what, why);
	exit(2);
}

static void *trace_grow(void *p, size_t n, size_t size)
{
	/* doubles at each power of two */
	if (n & (n - 1))
		return p;
	p = realloc(p, (n ? 2 * n : 1) * size);
	if (!p)
		trace_die("trace", "no memory");
	return p;
}

static void trace_line(struct trace *t, const char *path, const char *line)
{
	const char *stamp = strstr(line, "\"timestamp\":"), *ids = strstr(line, "\"hash_ids\":");
	struct trace_request *q;
	char *end;

	ids = ids ? strchr(ids, '[') : NULL;
	if (!stamp || !ids)
		trace_die(path, "not a line of a request trace");
	t->requests = trace_grow(t->requests, t->n_requests, sizeof(*t->requests));
	q = &t->requests[t->n_requests++];
	*q = (struct trace_request){
		.at_ms = strtoull(strchr(stamp, ':') + 1, NULL, 10),
		.first = t->n_ids,
	};
	for (ids++; *ids != ']'; ids = end + strspn(end, ", ")) {
		uint64_t id = strtoull(ids, &end, 10);

		if (end == ids || q->n == REPLAY_BLOCKS_MAX)
			trace_die(path, "hash_ids can not be read");
		t->ids = trace_grow(t->ids, t->n_ids, sizeof(*t->ids));
		t->ids[t->n_ids++] = id;
		q->n++;
	}
}

static struct trace trace_load(const char *path)
{
	struct trace t = {};
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	FILE *f = fopen(path, "re");

	if (!f)
		trace_die(path, "can not be opened");
	while (getline(&line, &size, f) > 0)
		trace_line(&t, path, line);
	if (ferror(f) || t.n_requests == 0)
		trace_die(path, "can not be read");
	(void)fclose(f);
	return t;
}

static void trace_free(struct trace *t)
{
	free(TAKE_PTR(t->requests));
	free(TAKE_PTR(t->ids));
}

/* --- the engine --------------------------------------------------------------------------- */

struct replay {
	const struct trace_options *o;
	struct larder_memory *memory;
	struct engine *engine;
	struct engine_reactor *r;
	struct clock clock;
	uint64_t now_ns;
	uint32_t tenant, ns;
	uint64_t keys[REPLAY_BLOCKS_MAX];
	struct larder_op_key op_keys[REPLAY_BLOCKS_MAX];
	struct trace_result result;
};

static uint64_t replay_monotonic(void *user)
{
	return ((struct replay *)user)->now_ns;
}

static uint64_t replay_wall(void *user)
{
	return ((struct replay *)user)->now_ns / NSEC_PER_MSEC;
}

static uint32_t replay_pages(const struct replay *p, uint64_t id)
{
	if (!p->o->sizes)
		return 1;
	id = (id + 1) * 0x9e3779b97f4a7c15u;
	return 1u << (id >> 32) % REPLAY_SIZES;
}

static void replay_open(struct replay *p, const struct trace_options *o)
{
	const struct larder_memory_config memory = {
		.pages = (uint32_t)(o->blocks * (o->sizes ? REPLAY_SIZES_MEAN : 1)),
		.page_size_bytes = REPLAY_PAGE,
	};
	struct engine_config config = {
		.clock = &p->clock, .shards = o->shards, .reactors = 1, .policy = o->policy,
		.reserve_pages = o->reserve_pages, .max_value_bytes = 1u << 20,
		.lease_max_ms = 1000, .seed = o->seed, .boot_id = "",
	};

	*p = (struct replay){
		.o = o, .clock = { replay_monotonic, replay_wall, p }, .now_ns = REPLAY_START_NS,
	};
	if (larder_memory_open(&memory, &p->memory) < 0)
		trace_die("replay", "no memory for the store");
	config.memory = p->memory;
	if (engine_open(&config, &p->engine) < 0 ||
	    engine_tenant_add(p->engine, "trace", &p->tenant) < 0 ||
	    engine_namespace_open(p->engine, p->tenant, "ns", 2, NULL, true, &p->ns, NULL))
		trace_die("replay", "the engine does not start");
	p->r = engine_reactor(p->engine, 0);
	p->result.pages = memory.pages;
}

static void replay_close(struct replay *p)
{
	struct engine_counts c;

	engine_get_counts(p->engine, &c);
	p->result.evictions = c.evictions;
	p->engine = engine_close(p->engine);
	larder_memory_close(p->memory);
}

static void replay_submit(struct replay *p, struct larder_op *op)
{
	if (engine_submit(p->r, op) == 0)
		return;
	while (engine_poll(p->r) != op)
		;
}

static struct larder_op replay_op(struct replay *p, int opcode, uint32_t first, uint32_t n)
{
	return (struct larder_op){
		.opcode = (uint8_t)opcode, .tenant = p->tenant, .ns = p->ns,
		.keys = &p->op_keys[first], .n_keys = n,
	};
}

static void replay_keys(struct replay *p, const uint64_t *ids, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		p->keys[i] = ids[i];
		p->op_keys[i].key = &p->keys[i];
		p->op_keys[i].key_len = sizeof(p->keys[i]);
	}
}

static bool replay_touch(struct replay *p, uint32_t i)
{
	struct larder_op op = replay_op(p, LARDER_OP_GET, i, 1);

	replay_submit(p, &op);
	p->result.operations++;
	if (op.status != LARDER_OK)
		return false;
	engine_unref(p->r, op.object);
	return true;
}

static void replay_put(struct replay *p, uint32_t i)
{
	struct larder_op op = replay_op(p, LARDER_OP_PUT, i, 1);
	uint32_t checks[1] = { 0 };
	uint64_t taken;
	struct engine_counts c;

	op.length = (uint64_t)replay_pages(p, p->keys[i]) * REPLAY_PAGE;
	op.checks = checks;
	op.n_checks = 1;
	replay_submit(p, &op);
	p->result.operations++;
	if (op.status != LARDER_OK) {
		p->result.refused++;
		return;
	}
	engine_get_counts(p->engine, &c);
	taken = p->result.pages - c.free_pages;
	p->result.most_pages = MAX(p->result.most_pages, taken);
	engine_commit(p->r, &op);
	if (op.status != LARDER_OK)
		trace_die("replay", "a put was not committed");
}

static void replay_request(struct replay *p, const uint64_t *ids, uint32_t n)
{
	struct larder_op op = replay_op(p, LARDER_OP_EXISTS, 0, n);

	replay_keys(p, ids, n);
	replay_submit(p, &op);
	for (uint32_t i = 0; i < n; i++)
		p->result.hits += p->op_keys[i].presence == LARDER_PRESENT;
	p->result.prefix += op.leading_run;
	p->result.blocks += n;
	for (uint32_t k = 0; k < n; k++) {
		uint32_t i = p->o->first_last ? k : n - 1 - k;

		if (!replay_touch(p, i))
			replay_put(p, i);
	}
	for (uint32_t k = 0; p->o->twice && k < n; k++)
		(void)replay_touch(p, n - 1 - k);
}

/* Blocks that come once, evenly spread over the time until @to_ns. */
static void replay_scan(struct replay *p, uint64_t *scanned, uint64_t to_ns)
{
	uint64_t step = p->o->scan_per_second ? NSEC_PER_SEC / p->o->scan_per_second : 0;

	while (step && REPLAY_START_NS + (*scanned + 1) * step <= to_ns) {
		uint64_t id = REPLAY_SCAN_FIRST + *scanned;

		p->now_ns = REPLAY_START_NS + ++*scanned * step;
		replay_keys(p, &id, 1);
		replay_put(p, 0);
	}
}

static struct trace_result trace_replay(const struct trace *t, const struct trace_options *o)
{
	_cleanup_free_ struct replay *p = malloc(sizeof(*p));
	uint64_t scanned = 0;

	if (!p)
		trace_die("replay", "no memory");
	replay_open(p, o);
	for (size_t i = 0; i < t->n_requests; i++) {
		const struct trace_request *q = &t->requests[i];
		uint64_t at = REPLAY_START_NS + q->at_ms * NSEC_PER_MSEC;

		replay_scan(p, &scanned, at);
		p->now_ns = at;
		if (engine_poll(p->r))
			trace_die("replay", "an op came back twice");
		replay_request(p, &t->ids[q->first], q->n);
	}
	replay_close(p);
	return p->result;
}

static double trace_percent(uint64_t part, uint64_t blocks)
{
	return 100.0 * (double)part / (double)blocks;
}

#endif
