/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many keys EXISTS looks up in the engine, one core, no wire: batches of random keys over a
 * store whose index and records are far larger than the caches. Beside it what the other steps of
 * an object's life cost, and how long a restart takes.
 *
 *	engine_exists [OBJECTS [SHARDS [BATCH]]]
 *
 * One line of JSON; rates are medians of ROUNDS rounds, in CPU time of the one thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/prng.h"
#include "engine/engine.h"

#define KEY_LEN 32u
#define PAGE 4096u
#define ROUNDS 9u
#define ROUND_KEYS 1000000u

struct bench {
	struct larder_memory *memory;
	struct engine *engine;
	struct engine_reactor *r;
	struct engine_config config;
	uint32_t tenant, ns;
	uint32_t objects, batch;
	uint8_t (*keys)[KEY_LEN];
	struct prng prng;
};

static void die(const char *what)
{
	(void)fprintf(stderr, "engine_exists: %s\n", what);
	exit(1);
}

/* Of this thread alone: a neighbour on the machine costs caches, not turns. */
static uint64_t now_ns(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) < 0)
		die("no clock");
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double median_ns(uint64_t ns[ROUNDS], uint64_t n)
{
	qsort(ns, ROUNDS, sizeof(ns[0]), compare_u64);
	return (double)ns[ROUNDS / 2] / (double)n;
}

static void bench_start(struct bench *b)
{
	if (engine_open(&b->config, &b->engine) < 0 ||
	    engine_tenant_add(b->engine, "bench", &b->tenant) < 0 ||
	    engine_namespace_open(b->engine, b->tenant, "ns", 2, NULL, true, &b->ns, NULL))
		die("can't open the engine");
	b->r = engine_reactor(b->engine, 0);
}

static void bench_open(struct bench *b, uint32_t shards)
{
	const struct larder_memory_config memory = { .pages = b->objects, .page_size_bytes = PAGE };

	if (larder_memory_open(&memory, &b->memory) < 0)
		die("can't open the memory");
	b->config = (struct engine_config){
		.memory = b->memory, .clock = &clock_system, .shards = shards, .reactors = 1,
		.policy = "lru", .max_value_bytes = PAGE, .lease_max_ms = 1000, .boot_id = "",
	};
	bench_start(b);
	prng_seed(&b->prng, 1);
	b->keys = calloc(b->objects, sizeof(*b->keys));
	if (!b->keys)
		die("no memory");
	for (uint32_t i = 0; i < b->objects; i++)
		for (uint32_t at = 0; at < KEY_LEN; at += 8) {
			uint64_t x = prng_next(&b->prng);

			memcpy(&b->keys[i][at], &x, sizeof(x));
		}
}

static void bench_op(struct bench *b, struct larder_op *op, struct larder_op_key *key, int opcode)
{
	*op = (struct larder_op){ .opcode = (uint8_t)opcode, .tenant = b->tenant, .ns = b->ns,
				  .keys = key, .n_keys = 1 };
}

/* No byte of a value is written: it is the engine that is measured. */
static double bench_put(struct bench *b)
{
	const uint32_t check = 0;
	struct larder_op_key key = { .key_len = KEY_LEN };
	uint64_t start = now_ns();

	for (uint32_t i = 0; i < b->objects; i++) {
		struct larder_op op;

		bench_op(b, &op, &key, LARDER_OP_PUT);
		key.key = b->keys[i];
		op.length = PAGE;
		op.checks = &check;
		op.n_checks = 1;
		if (engine_submit(b->r, &op) != 0 || op.status != LARDER_OK)
			die("a put failed");
		engine_commit(b->r, &op);
	}
	return (double)(now_ns() - start) / b->objects;
}

static double bench_get(struct bench *b)
{
	struct larder_op_key key = { .key_len = KEY_LEN };
	uint64_t ns[ROUNDS];

	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint64_t start = now_ns();

		for (uint32_t i = 0; i < ROUND_KEYS / 8; i++) {
			struct larder_op op;

			bench_op(b, &op, &key, LARDER_OP_GET);
			key.key = b->keys[prng_below(&b->prng, b->objects)];
			if (engine_submit(b->r, &op) != 0 || op.status != LARDER_OK)
				die("a get failed");
			engine_unref(b->r, op.object);
		}
		ns[round] = now_ns() - start;
	}
	return median_ns(ns, ROUND_KEYS / 8);
}

static double bench_exists(struct bench *b)
{
	struct larder_op_key *keys = calloc(b->batch, sizeof(*keys));
	uint8_t (*message)[KEY_LEN] = calloc(b->batch, sizeof(*message));
	uint64_t ns[ROUNDS], batches = ROUND_KEYS / b->batch;
	struct larder_op op;

	if (!keys || !message)
		die("no memory");
	for (uint32_t round = 0; round < ROUNDS; round++) {
		ns[round] = 0;
		for (uint64_t n = 0; n < batches; n++) {
			uint64_t start;

			/* as they come: one after another in a message that was just received */
			for (uint32_t i = 0; i < b->batch; i++) {
				memcpy(message[i], b->keys[prng_below(&b->prng, b->objects)],
				       KEY_LEN);
				keys[i] = (struct larder_op_key){ .key = message[i],
								  .key_len = KEY_LEN };
			}
			bench_op(b, &op, keys, LARDER_OP_EXISTS);
			op.n_keys = b->batch;
			start = now_ns();
			if (engine_submit(b->r, &op) != 0 || op.leading_run != b->batch)
				die("a key is missing");
			ns[round] += now_ns() - start;
		}
	}
	free(message);
	free(keys);
	return median_ns(ns, batches * b->batch);
}

static double bench_restart(struct bench *b)
{
	struct records_rebuilt rebuilt;
	uint64_t start;

	b->engine = engine_close(b->engine);
	start = now_ns();
	bench_start(b);
	start = now_ns() - start;
	engine_get_rebuilt(b->engine, &rebuilt);
	if (rebuilt.objects != b->objects)
		die("a restart lost objects");
	return (double)start / 1e6;
}

int main(int argc, char **argv)
{
	struct bench b = { .objects = 1u << 18, .batch = 1000 };
	uint32_t shards = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 64;
	double put, get, exists, restart;

	if (argc > 1)
		b.objects = (uint32_t)strtoul(argv[1], NULL, 10);
	if (argc > 3)
		b.batch = (uint32_t)strtoul(argv[3], NULL, 10);
	if (b.objects == 0 || b.batch == 0 || b.batch > ROUND_KEYS)
		die("usage: engine_exists [OBJECTS [SHARDS [BATCH]]]");
	bench_open(&b, shards);
	put = bench_put(&b);
	exists = bench_exists(&b);
	get = bench_get(&b);
	restart = bench_restart(&b);
	(void)printf("{\"bench\":\"engine_exists\",\"objects\":%" PRIu32 ",\"shards\":%" PRIu32
		     ",\"batch\":%" PRIu32 ",\"exists_ns_per_key\":%.1f,"
		     "\"exists_mkeys_per_s\":%.2f,"
		     "\"put_ns\":%.0f,\"get_ns\":%.0f,\"restart_ms\":%.0f}\n", b.objects, shards,
		     b.batch, exists, 1000 / exists, put, get, restart);
	b.engine = engine_close(b.engine);
	larder_memory_close(b.memory);
	free(b.keys);
	return 0;
}
