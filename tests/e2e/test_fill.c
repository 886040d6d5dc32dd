/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sixteen engines miss the same prefix at once: each block of it is computed once. The engine that
 * computes is killed: another takes over.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"

#define ENGINES 16u
#define BLOCKS 64u
#define LENGTH 20000u
#define DEADLINE_MS 20000u

static struct node node;

struct prefix {
	struct larder_item items[BLOCKS];
	struct iovec iov[BLOCKS];
	char keys[BLOCKS][32];
};

static void prefix_init(struct prefix *p, const char *name)
{
	memset(p, 0, sizeof(*p));
	for (uint32_t i = 0; i < BLOCKS; i++) {
		snprintf(p->keys[i], sizeof(p->keys[i]), "%s-%u", name, i);
		p->items[i].key = p->keys[i];
		p->items[i].key_len = strlen(p->keys[i]);
	}
}

struct engine {
	struct larder_client *client;
	uint32_t ns, index;
	const char *name;
	uint32_t *computed;	/* [BLOCKS], atomic */
	pthread_barrier_t *start;
	int failed;
};

/* Computes all that is missing from @from on, and puts it, the end first. */
static int engine_compute(struct engine *e, struct prefix *p, uint32_t from)
{
	struct larder_batch b = { .opcode = LARDER_OP_PUT, .ns = e->ns,
				  .deadline_ms = DEADLINE_MS, .items = &p->items[from],
				  .n_items = BLOCKS - from };
	uint8_t *values = malloc(BLOCKS * LENGTH);
	int r;

	for (uint32_t i = from; i < BLOCKS; i++) {
		(void)__atomic_add_fetch(&e->computed[i], 1, __ATOMIC_RELAXED);
		pattern_fill(values + i * LENGTH, LENGTH, i);
		p->iov[i] = (struct iovec){ values + i * LENGTH, LENGTH };
		p->items[i].iov = &p->iov[i];
		p->items[i].iovcnt = 1;
	}
	r = larder_run(e->client, &b);
	free(values);
	return r;
}

static void *engine_main(void *user)
{
	struct engine *e = user;
	struct prefix *p = malloc(sizeof(*p));
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .ns = e->ns,
				  .flags = LARDER_F_FILL | LARDER_F_WAIT,
				  .deadline_ms = DEADLINE_MS, .lease_id = 1 + e->index,
				  .items = p->items, .n_items = BLOCKS };

	prefix_init(p, e->name);
	pthread_barrier_wait(e->start);
	do {
		int r = larder_run(e->client, &b);

		if (r == LARDER_FILL)
			r = engine_compute(e, p, b.leading_run);
		else if (r == 0)
			break;
		if (r) {
			e->failed = r;
			break;
		}
	} while (b.leading_run < BLOCKS);
	free(p);
	return NULL;
}

static void blocks_are_computed_once(enum node_transport t)
{
	static struct engine engines[ENGINES];
	uint32_t computed[BLOCKS] = { 0 };
	pthread_t threads[ENGINES];
	pthread_barrier_t start;

	assert_int_equal(pthread_barrier_init(&start, NULL, ENGINES), 0);
	for (uint32_t i = 0; i < ENGINES; i++) {
		struct larder_client *c = node_client(&node, t);

		engines[i] = (struct engine){ .client = c, .ns = node_namespace(c, "fill"),
					      .index = i, .name = node_transport_name(t),
					      .computed = computed, .start = &start };
	}
	for (uint32_t i = 0; i < ENGINES; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, engine_main, &engines[i]), 0);
	for (uint32_t i = 0; i < ENGINES; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (uint32_t i = 0; i < ENGINES; i++) {
		assert_int_equal(engines[i].failed, 0);
		larder_close(engines[i].client);
	}
	for (uint32_t i = 0; i < BLOCKS; i++)
		assert_int_equal(computed[i], 1);
	pthread_barrier_destroy(&start);
	assert_int_equal(node_stat_wait(&node, "connections", "connections", 0), 0);
	assert_int_equal(node_stat(&node, "objects", "waiting"), 0);
}

static void blocks_are_computed_once__tcp(void **state)
{
	blocks_are_computed_once(NODE_TCP);
}

static void blocks_are_computed_once__shm(void **state)
{
	blocks_are_computed_once(NODE_SHM);
}

/* In a process of its own: takes the fill lease, says so, and computes for ever. */
static void holder_main(enum node_transport t, const char *key, int said)
{
	/* a test that fails leaves nobody behind */
	int orphan = prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct larder_client *c = node_client(&node, t);
	struct larder_item item = { .key = key, .key_len = strlen(key) };
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .flags = LARDER_F_FILL,
				  .ns = node_namespace(c, "fill"), .deadline_ms = DEADLINE_MS,
				  .lease_id = 99, .lease_ms = 60000, .items = &item,
				  .n_items = 1 };
	char status = (char)larder_run(c, &b);

	if (orphan || write(said, &status, 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void killed_holder_is_followed(enum node_transport t)
{
	const char *key = t == NODE_TCP ? "killed-tcp" : "killed-shm";
	struct larder_item item = { .key = key, .key_len = strlen(key) };
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .deadline_ms = DEADLINE_MS,
				  .flags = LARDER_F_FILL | LARDER_F_WAIT, .lease_id = 100,
				  .items = &item, .n_items = 1 }, *done;
	struct larder_client *c;
	int said[2], status;
	char first;
	pid_t pid;

	assert_int_equal(pipe(said), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		holder_main(t, key, said[1]);
	assert_int_equal(read(said[0], &first, 1), 1);
	assert_int_equal(first, LARDER_FILL);
	c = node_client(&node, t);
	b.ns = node_namespace(c, "fill");
	assert_int_equal(larder_submit(c, &b), 0);
	assert_int_equal(node_stat_wait(&node, "objects", "waiting", 1), 1);
	assert_int_equal(larder_poll(c, &done, 1), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* its connection ends with it: long before its fill lease does */
	for (unsigned i = 0; i < 500 && larder_poll(c, &done, 1) == 0; i++)
		sleep_ms(10);
	assert_int_equal(b.n_done, 1);
	assert_int_equal(item.status, LARDER_FILL);
	assert_int_equal(larder_put(c, b.ns, key, strlen(key), "v", 1, DEADLINE_MS), 0);
	larder_close(c);
	close(said[0]);
	close(said[1]);
}

static void killed_holder_is_followed__tcp(void **state)
{
	killed_holder_is_followed(NODE_TCP);
}

static void killed_holder_is_followed__shm(void **state)
{
	killed_holder_is_followed(NODE_SHM);
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
		cmocka_unit_test(blocks_are_computed_once__tcp),
		cmocka_unit_test(blocks_are_computed_once__shm),
		cmocka_unit_test(killed_holder_is_followed__tcp),
		cmocka_unit_test(killed_holder_is_followed__shm),
	};
	int r = cmocka_run_group_tests(tests, setup, teardown);

	node_cleanup(&node);
	return r;
}
