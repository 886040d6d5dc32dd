/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 64 writers on one key: readers see one whole value, and every writer is told the truth. Half of
 * them bring the same bytes, the other half bytes of their own.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness.h"

#define WRITERS 64
#define LENGTH (300000u)
#define ROUNDS 8

static struct node node;

struct writer {
	struct larder_client *client;
	uint32_t ns;
	unsigned index;
	unsigned round;
	uint64_t seed;
	int status;
	pthread_barrier_t *start;
};

static void *writer_main(void *user)
{
	struct writer *w = user;
	uint8_t *value = malloc(LENGTH);
	char key[16];

	snprintf(key, sizeof(key), "key-%u", w->round);
	pattern_fill(value, LENGTH, w->seed);
	pthread_barrier_wait(w->start);
	w->status = larder_put(w->client, w->ns, key, strlen(key), value, LENGTH, 20000);
	free(value);
	return NULL;
}

struct reader {
	struct larder_client *client;
	uint32_t ns;
	bool stop;
	uint64_t seed_of_round[ROUNDS];
	unsigned torn, changed, seen;
};

/* A value that was seen once is the only one that may be seen. */
static void *reader_main(void *user)
{
	struct reader *r = user;
	uint8_t *back = malloc(LENGTH);

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		for (unsigned round = 0; round < ROUNDS; round++) {
			char key[16];
			size_t got;
			uint64_t seed = 0;

			snprintf(key, sizeof(key), "key-%u", round);
			if (larder_get(r->client, r->ns, key, strlen(key), back, LENGTH, &got,
				       20000) != LARDER_OK)
				continue;
			r->seen++;
			for (uint64_t s = 1; s <= WRITERS + 1 && !seed; s++)
				if (pattern_check(back, 64, s + round * 1000) == -1)
					seed = s;
			if (got != LENGTH || !seed ||
			    pattern_check(back, LENGTH, seed + round * 1000) != -1)
				r->torn++;
			if (r->seed_of_round[round] && r->seed_of_round[round] != seed)
				r->changed++;
			r->seed_of_round[round] = seed;
		}
	}
	free(back);
	return NULL;
}

static void many_writers_one_key(enum node_transport t)
{
	static struct writer w[WRITERS];
	struct reader reader = { .stop = false };
	pthread_t threads[WRITERS], reading;
	pthread_barrier_t start;

	for (unsigned i = 0; i < WRITERS; i++) {
		w[i].client = node_client(&node, t);
		w[i].ns = node_namespace(w[i].client, node_transport_name(t));
	}
	reader.client = node_client(&node, t);
	reader.ns = w[0].ns;
	assert_int_equal(pthread_create(&reading, NULL, reader_main, &reader), 0);
	assert_int_equal(pthread_barrier_init(&start, NULL, WRITERS), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned ok = 0, same = 0, conflict = 0;
		uint64_t winner = 0;

		for (unsigned i = 0; i < WRITERS; i++) {
			w[i].index = i;
			w[i].round = round;
			w[i].seed = (i % 2 ? i + 2 : 1) + round * 1000;
			w[i].start = &start;
			assert_int_equal(pthread_create(&threads[i], NULL, writer_main, &w[i]), 0);
		}
		for (unsigned i = 0; i < WRITERS; i++) {
			assert_int_equal(pthread_join(threads[i], NULL), 0);
			ok += w[i].status == LARDER_OK;
			same += w[i].status == LARDER_EXISTS_SAME;
			conflict += w[i].status == LARDER_CONFLICT;
			if (w[i].status == LARDER_OK)
				winner = w[i].seed;
		}
		assert_int_equal(ok, 1);
		assert_int_equal(ok + same + conflict, WRITERS);
		for (unsigned i = 0; i < WRITERS; i++)
			if (w[i].status != LARDER_OK)
				assert_int_equal(w[i].status, w[i].seed == winner
								      ? LARDER_EXISTS_SAME
								      : LARDER_CONFLICT);
	}
	__atomic_store_n(&reader.stop, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(reading, NULL), 0);
	assert_int_equal(reader.torn, 0);
	assert_int_equal(reader.changed, 0);
	pthread_barrier_destroy(&start);
	for (unsigned i = 0; i < WRITERS; i++)
		larder_close(w[i].client);
	larder_close(reader.client);
	assert_int_equal(node_stat_wait(&node, "connections", "connections", 0), 0);
	assert_int_equal(node_stat(&node, "objects", "filling"), 0);
	assert_int_equal(node_stat(&node, "objects", "references"), 0);
}

static void many_writers_one_key__tcp(void **state)
{
	many_writers_one_key(NODE_TCP);
}

static void many_writers_one_key__shm(void **state)
{
	many_writers_one_key(NODE_SHM);
}

static int setup(void **state)
{
	node_setup(&node, "[node]\nreactors = 2\n");
	node_start(&node);
	return 0;
}

static int teardown(void **state)
{
	node_stop(&node);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_writers_one_key__tcp),
		cmocka_unit_test(many_writers_one_key__shm),
	};
	int r = cmocka_run_group_tests(tests, setup, teardown);

	node_cleanup(&node);
	return r;
}
