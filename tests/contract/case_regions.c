/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-sided transfers (j): the node (b) moves bytes between its own memory and a region of the
 * client (a), who may write to that region at any moment.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pair.h"

struct bench {
	struct pair *pair;
	int fd;
	uint8_t *client;			/* the client's view of its region */
	struct transport_region *added;		/* client */
	struct transport_region *imported;	/* node */
	uint8_t in[64];				/* posted by the node, as a session does */
};

static void bench_open(struct bench *bench, const struct subject *s)
{
	uint8_t opaque[TRANSPORT_OPAQUE_MAX];
	size_t len = sizeof(opaque);
	uint64_t end = now_ms() + PAIR_PATIENCE_MS;
	int r;

	bench->pair = pair_new(s);
	bench->fd = memfd_create("contract", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(bench->fd >= 0);
	assert_int_equal(posix_fallocate(bench->fd, 0, REGION_BYTES), 0);
	assert_int_equal(fcntl(bench->fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	bench->client = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, bench->fd, 0);
	assert_ptr_not_equal(bench->client, MAP_FAILED);
	assert_int_equal(s->ops->region_add(bench->pair->a.conn, bench->client, REGION_BYTES,
					    bench->fd, 0, opaque, &len, &bench->added), 0);
	assert_true(len <= TRANSPORT_OPAQUE_MAX);
	side_post(&bench->pair->b, bench->in, sizeof(bench->in));
	do {
		pair_step(bench->pair);
		r = s->ops->region_import(bench->pair->b.conn, opaque, len, REGION_BYTES,
					  &bench->imported);
		assert_true(now_ms() < end);
	} while (r == -EAGAIN);
	assert_int_equal(r, 0);
	assert_int_equal(bench->imported->size, REGION_BYTES);
	memset(node_memory, 0, sizeof(node_memory));
}

static void bench_close(struct bench *bench)
{
	const struct transport_ops *ops = bench->pair->subject->ops;

	assert_int_equal(ops->region_del(bench->imported), 0);
	assert_int_equal(ops->region_del(bench->added), 0);
	assert_int_equal(munmap(bench->client, REGION_BYTES), 0);
	(void)close(bench->fd);
	pair_close(bench->pair);
}

static int bench_tx(struct bench *bench, uint8_t type, uint8_t *mem, size_t len, uint64_t offset,
		    uint32_t gate)
{
	struct side *b = &bench->pair->b;
	struct iovec iov[2] = {
		{ .iov_base = mem, .iov_len = len / 3 },
		{ .iov_base = mem + len / 3, .iov_len = len - len / 3 },
	};
	struct transport_tx tx = {
		.type = type, .niov = 2, .gate = gate, .iov = iov, .cookie = b->accepted,
		.region = bench->imported, .offset = offset,
	};
	int r = transport_tx(b->conn, &tx, 1);

	if (r > 0)
		b->accepted += (uint64_t)r;
	return r;
}

static bool bench_is_done(void *user)
{
	const struct bench *bench = user;

	return bench->pair->b.done == bench->pair->b.accepted;
}

#define NEED_GATES(s)                                                                              \
	do {                                                                                       \
		if ((s)->no_gates)                                                                 \
			SKIP_BECAUSE("no gates: the connection's end stops the node");             \
	} while (0)
#define NEED_ONE_SIDED(s)                                                                          \
	do {                                                                                       \
		if (!((s)->ops->caps & TRANSPORT_ONE_SIDED))                                       \
			SKIP_BECAUSE("not one-sided");                                             \
	} while (0)

static void j_one_sided_write_and_read_move_the_bytes(void **state)
{
	const struct subject *s = subject_of(state);
	struct bench bench;

	NEED_ONE_SIDED(s);
	bench_open(&bench, s);
	pattern_fill(node_memory, 21, 0, 1000000);
	memset(bench.client, 0xaa, REGION_BYTES);
	assert_int_equal(bench_tx(&bench, TRANSPORT_WRITE, node_memory, 1000000, 333,
				  TRANSPORT_NO_GATE), 1);
	pair_until(bench.pair, bench_is_done, &bench);
	assert_int_equal(side_last(&bench.pair->b, TRANSPORT_WRITE_DONE)->status, 0);
	pattern_check(bench.client + 333, 21, 0, 1000000);
	assert_int_equal(bench.client[332], 0xaa);
	assert_int_equal(bench.client[1000333], 0xaa);
	pattern_fill(bench.client, 22, 0, REGION_BYTES);
	assert_int_equal(bench_tx(&bench, TRANSPORT_READ, node_memory, REGION_BYTES, 0,
				  TRANSPORT_NO_GATE), 1);
	pair_until(bench.pair, bench_is_done, &bench);
	assert_int_equal(side_last(&bench.pair->b, TRANSPORT_READ_DONE)->status, 0);
	pattern_check(node_memory, 22, 0, REGION_BYTES);
	bench_close(&bench);
}

static void j_transfer_outside_the_region_answers_erange(void **state)
{
	const struct subject *s = subject_of(state);
	const uint64_t offsets[] = { REGION_BYTES - 99, REGION_BYTES, UINT64_MAX - 10, UINT64_MAX };
	struct bench bench;

	NEED_ONE_SIDED(s);
	bench_open(&bench, s);
	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
		assert_int_equal(bench_tx(&bench, TRANSPORT_READ, node_memory, 100, offsets[i],
					  TRANSPORT_NO_GATE), 1);
		pair_until(bench.pair, bench_is_done, &bench);
		assert_int_equal(side_last(&bench.pair->b, TRANSPORT_READ_DONE)->status, -ERANGE);
	}
	assert_false(bench.pair->b.down);
	bench_close(&bench);
}

static void j_taken_gate_keeps_the_node_out(void **state)
{
	const struct subject *s = subject_of(state);
	struct bench bench;

	NEED_ONE_SIDED(s);
	NEED_GATES(s);
	bench_open(&bench, s);
	memset(node_memory, 0x33, sizeof(node_memory));
	memset(bench.client, 0, REGION_BYTES);
	assert_int_equal(s->ops->gate_arm(bench.pair->a.conn, 5), 0);
	assert_int_equal(bench_tx(&bench, TRANSPORT_WRITE, node_memory, 1000, 0, 5), 1);
	pair_until(bench.pair, bench_is_done, &bench);
	assert_int_equal(side_last(&bench.pair->b, TRANSPORT_WRITE_DONE)->status, 0);
	assert_int_equal(bench.client[999], 0x33);
	assert_int_equal(s->ops->gate_take(bench.pair->a.conn, 5), 0);
	assert_int_equal(bench_tx(&bench, TRANSPORT_WRITE, node_memory, REGION_BYTES, 0, 5), 1);
	pair_until(bench.pair, bench_is_done, &bench);
	assert_true(side_last(&bench.pair->b, TRANSPORT_WRITE_DONE)->status < 0);
	assert_int_equal(bench.client[1000], 0);
	assert_int_equal(bench.client[REGION_BYTES - 1], 0);
	assert_false(bench.pair->b.down);
	bench_close(&bench);
}

/* A long transfer is cut by the gate: nothing changes after gate_take has returned 0. */
static void j_gate_taken_in_mid_transfer_stops_it(void **state)
{
	const struct subject *s = subject_of(state);
	struct bench bench;

	NEED_ONE_SIDED(s);
	NEED_GATES(s);
	bench_open(&bench, s);
	memset(node_memory, 0x44, sizeof(node_memory));
	memset(bench.client, 0, REGION_BYTES);
	assert_int_equal(s->ops->gate_arm(bench.pair->a.conn, 0), 0);
	assert_int_equal(bench_tx(&bench, TRANSPORT_WRITE, node_memory, REGION_BYTES, 0, 0), 1);
	side_step(&bench.pair->b);
	assert_false(bench_is_done(&bench));	/* a turn's bytes at most have moved */
	assert_int_equal(s->ops->gate_take(bench.pair->a.conn, 0), 0);
	memset(bench.client, 0, REGION_BYTES);
	pair_until(bench.pair, bench_is_done, &bench);
	assert_true(side_last(&bench.pair->b, TRANSPORT_WRITE_DONE)->status < 0);
	for (uint32_t i = 0; i < REGION_BYTES; i++)
		assert_int_equal(bench.client[i], 0);
	bench_close(&bench);
}

static void i_one_sided_transfer_takes_a_turn_per_poll(void **state)
{
	const struct subject *s = subject_of(state);
	struct bench bench;
	uint64_t polls;

	NEED_ONE_SIDED(s);
	bench_open(&bench, s);
	polls = bench.pair->b.polls;
	assert_int_equal(bench_tx(&bench, TRANSPORT_WRITE, node_memory, REGION_BYTES, 0,
				  TRANSPORT_NO_GATE), 1);
	pair_until(bench.pair, bench_is_done, &bench);
	assert_true(bench.pair->b.polls - polls >= REGION_BYTES / TRANSPORT_TURN_BYTES);
	bench_close(&bench);
}

/* --- a peer that writes while it is read --- */

struct scribbler {
	uint8_t *at;
	bool stop;	/* atomic */
};

/* The race is the point: the thread sanitizer must not watch this side of it. */
__attribute__((no_sanitize("thread"))) static void *scribble(void *arg)
{
	struct scribbler *s = arg;
	volatile uint8_t *at = s->at;

	for (uint8_t v = 0; !__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE); v++) {
		for (uint32_t i = 0; i < REGION_BYTES; i += 61)
			at[i] = v;
	}
	return NULL;
}

static uint64_t sum_of(const uint8_t *mem, size_t len)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum = sum * 31 + mem[i];
	return sum;
}

/* What was read is the node's own copy: it stays as it is while the peer goes on writing. */
static void j_memory_that_the_peer_writes_is_copied(void **state)
{
	const struct subject *s = subject_of(state);
	struct scribbler scribbler;
	struct bench bench;
	pthread_t thread;

	NEED_ONE_SIDED(s);
	bench_open(&bench, s);
	scribbler = (struct scribbler){ .at = bench.client };
	assert_int_equal(pthread_create(&thread, NULL, scribble, &scribbler), 0);
	for (unsigned i = 0; i < 10; i++) {
		uint64_t sum;

		assert_int_equal(bench_tx(&bench, TRANSPORT_READ, node_memory, REGION_BYTES, 0,
					  TRANSPORT_NO_GATE), 1);
		pair_until(bench.pair, bench_is_done, &bench);
		assert_int_equal(side_last(&bench.pair->b, TRANSPORT_READ_DONE)->status, 0);
		sum = sum_of(node_memory, REGION_BYTES);
		(void)usleep(1000);	/* time for the peer to write, nothing else */
		assert_int_equal(sum_of(node_memory, REGION_BYTES), sum);
	}
	__atomic_store_n(&scribbler.stop, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, NULL), 0);
	bench_close(&bench);
}

/* Of one-sided descriptors, too, each gives exactly one done-event (a). */
static void j_a_down_conn_returns_one_sided_descriptors(void **state)
{
	const struct subject *s = subject_of(state);
	struct bench bench;

	NEED_ONE_SIDED(s);
	bench_open(&bench, s);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(bench_tx(&bench, TRANSPORT_WRITE, node_memory, REGION_BYTES, 0,
					  TRANSPORT_NO_GATE), 1);
	assert_int_equal(transport_disconnect(bench.pair->a.conn, false), 0);
	pair_until_gone(bench.pair, &bench.pair->b);
	assert_int_equal(bench.pair->b.done, 5);
	pair_until_gone(bench.pair, &bench.pair->a);
	bench_close(&bench);
}

/* Whoever ended a connection has its memory back at DOWN: nothing is written from then on. */
static void j_down_gives_the_memory_back(void **state)
{
	const struct subject *s = subject_of(state);
	struct bench bench;

	NEED_ONE_SIDED(s);
	bench_open(&bench, s);
	memset(node_memory, 0x55, sizeof(node_memory));
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(bench_tx(&bench, TRANSPORT_WRITE, node_memory, REGION_BYTES, 0,
					  TRANSPORT_NO_GATE), 1);
	side_step(&bench.pair->b);	/* it has begun */
	assert_int_equal(transport_disconnect(bench.pair->a.conn, false), 0);
	while (!bench.pair->a.down)
		side_step(&bench.pair->a);
	memset(bench.client, 0, REGION_BYTES);
	pair_until_gone(bench.pair, &bench.pair->b);
	pair_until_gone(bench.pair, &bench.pair->a);
	for (uint32_t i = 0; i < REGION_BYTES; i++)
		assert_int_equal(bench.client[i], 0);
	bench_close(&bench);
}

const struct CMUnitTest cases_regions[] = {
	cmocka_unit_test(i_one_sided_transfer_takes_a_turn_per_poll),
	cmocka_unit_test(j_one_sided_write_and_read_move_the_bytes),
	cmocka_unit_test(j_transfer_outside_the_region_answers_erange),
	cmocka_unit_test(j_taken_gate_keeps_the_node_out),
	cmocka_unit_test(j_gate_taken_in_mid_transfer_stops_it),
	cmocka_unit_test(j_memory_that_the_peer_writes_is_copied),
	cmocka_unit_test(j_down_gives_the_memory_back),
	cmocka_unit_test(j_a_down_conn_returns_one_sided_descriptors),
};
const size_t n_cases_regions = ARRAY_SIZE(cases_regions);
