/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGSTOP of the node in mid-GET and mid-PUT, on both transports: each call ends on time as
 * DEADLINE, BUFFER_LOST or DISCONNECTED; after SIGCONT not one byte of a buffer that was handed
 * back changes, calls fail fast meanwhile, and all is normal within a second.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness.h"

#define VALUE (16u << 20)
#define DEPTH 4
#define AT_ONCE_MS 20000u	/* for 1,000 calls whose deadline is 300 ms each */
#define ROUNDS 12

static struct node node;

static bool fair_end(int status)
{
	return status == LARDER_OK || status == LARDER_EXISTS_SAME || status == LARDER_DEADLINE ||
	       status == LARDER_BUFFER_LOST || status == LARDER_DISCONNECTED ||
	       status == LARDER_CANCELLED;
}

struct flight {
	struct larder_item item;
	struct larder_batch batch;
	struct iovec iov;
	char key[24];
	uint8_t *memory;
	struct larder_region *region;
};

static void flight_prepare(struct flight *f, struct larder_client *c, uint8_t op, uint32_t ns,
			   unsigned round, unsigned i, bool registered)
{
	memset(f, 0, sizeof(*f));
	if (registered) {
		assert_int_equal(larder_region_alloc(c, VALUE, 0, &f->region), 0);
		f->memory = larder_region_addr(f->region);
	} else {
		f->memory = malloc(VALUE);
	}
	assert_non_null(f->memory);
	if (op == LARDER_OP_PUT) {
		snprintf(f->key, sizeof(f->key), "put-%u-%u", round, i);
		pattern_fill(f->memory, VALUE, 100 + round * 10 + i);
	} else {
		snprintf(f->key, sizeof(f->key), "get-%u", i);
		memset(f->memory, 0, VALUE);
	}
	f->iov = (struct iovec){ f->memory, VALUE };
	f->item = (struct larder_item){ .key = f->key, .key_len = strlen(f->key), .iov = &f->iov,
					.iovcnt = 1 };
	f->batch = (struct larder_batch){ .opcode = op, .ns = ns, .deadline_ms = 400,
					  .items = &f->item, .n_items = 1 };
}

static void flight_done(struct flight *f)
{
	if (f->region)
		assert_int_equal(larder_region_free(f->region), 0);
	else
		free(f->memory);
}

/* A PUT whose end is unknown is there whole and right, or not at all. */
static void put_is_whole_or_absent(struct larder_client *c, uint32_t ns, const struct flight *f,
				   uint64_t seed)
{
	uint8_t *back = malloc(VALUE);
	size_t got = 0;
	int r = larder_get(c, ns, f->key, strlen(f->key), back, VALUE, &got, 5000);

	assert_true(r == LARDER_OK || r == LARDER_NOT_FOUND);
	if (f->item.status == LARDER_OK)
		assert_int_equal(r, LARDER_OK);
	if (r == LARDER_OK) {
		assert_int_equal(got, VALUE);
		assert_int_equal(pattern_check(back, VALUE, seed), -1);
		assert_int_equal(larder_delete(c, ns, f->key, strlen(f->key), LARDER_F_FORCE, 5000),
				 LARDER_OK);
	}
	free(back);
}

/* One stop at a moment of its own: @delay_us after the batch was handed in. */
static void stopped_once(enum node_transport t, uint8_t op, unsigned round, bool registered,
			 unsigned *cut)
{
	struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;
	struct larder_client *c = node_client_with(&node, t, &o);
	uint32_t ns = node_namespace(c, "stopped");
	struct flight f[DEPTH];
	struct larder_batch *done;
	uint8_t *copies[DEPTH];
	uint64_t start, after;
	unsigned n = 0;

	for (unsigned i = 0; i < DEPTH; i++)
		flight_prepare(&f[i], c, op, ns, round, i, registered);
	start = now_ms();
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(larder_submit(c, &f[i].batch), 0);
	if (round % 4)
		sleep_ms(round % 4);
	node_signal(&node, SIGSTOP);
	while (n < DEPTH && now_ms() < start + 20000) {
		n += (unsigned)larder_poll(c, &done, 1);
		sleep_ms(1);
	}
	after = now_ms();
	assert_int_equal(n, DEPTH);
	assert_true(after < start + 400 + 4000);	/* the grace, and a machine that is busy */
	for (unsigned i = 0; i < DEPTH; i++) {
		assert_true(fair_end(f[i].item.status));
		if (f[i].item.status != LARDER_OK && f[i].item.status != LARDER_EXISTS_SAME)
			(*cut)++;
		else if (op == LARDER_OP_GET)
			assert_int_equal(pattern_check(f[i].memory, VALUE, i + 1), -1);
		/* mine again: I write into it, and what I wrote must stay */
		pattern_fill(f[i].memory, VALUE, 7777 + i);
		copies[i] = f[i].memory;
	}
	/* a sick node is answered for at once */
	start = now_ms();
	for (unsigned i = 0; *cut && i < 1000; i++) {
		int r = larder_exists(c, ns, "get-0", 5, 300);

		assert_true(r == LARDER_DISCONNECTED || r == LARDER_DEADLINE);
	}
	if (now_ms() - start >= AT_ONCE_MS)
		print_error("1,000 calls to a stopped node took %u ms\n",
			    (unsigned)(now_ms() - start));
	assert_true(now_ms() - start < AT_ONCE_MS);
	node_signal(&node, SIGCONT);
	start = now_ms();
	while (larder_exists(c, ns, "get-0", 5, 1000) != LARDER_OK)
		assert_true(now_ms() < start + 10000);
	sleep_ms(30);	/* time in which a careless node would still write */
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(pattern_check(copies[i], VALUE, 7777 + i), -1);
	for (unsigned i = 0; op == LARDER_OP_PUT && i < DEPTH; i++)
		put_is_whole_or_absent(c, ns, &f[i], 100 + round * 10 + i);
	for (unsigned i = 0; i < DEPTH; i++)
		flight_done(&f[i]);
	larder_close(c);
	assert_int_equal(node_stat_wait(&node, "connections", "connections", 0), 0);
	assert_int_equal(node_stat_wait(&node, "objects", "references", 0), 0);
	assert_int_equal(node_stat_wait(&node, "objects", "filling", 0), 0);
	assert_int_equal(node_stat_wait(&node, "connections", "regions", 0), 0);
}

static void stopped(enum node_transport t, uint8_t op, bool registered)
{
	unsigned cut = 0;

	for (unsigned round = 0; round < ROUNDS; round++)
		stopped_once(t, op, round, registered, &cut);
	/* the test was about something: most stops hit a transfer */
	assert_true(cut > ROUNDS / 2);
}

static void sigstop_in_mid_get__tcp(void **state)
{
	stopped(NODE_TCP, LARDER_OP_GET, false);
}

static void sigstop_in_mid_get__shm(void **state)
{
	stopped(NODE_SHM, LARDER_OP_GET, true);
}

static void sigstop_in_mid_get__shm_unregistered(void **state)
{
	stopped(NODE_SHM, LARDER_OP_GET, false);
}

static void sigstop_in_mid_put__tcp(void **state)
{
	stopped(NODE_TCP, LARDER_OP_PUT, false);
}

static void sigstop_in_mid_put__shm(void **state)
{
	stopped(NODE_SHM, LARDER_OP_PUT, true);
}

/*
 * 64 idle clients, keepalive 5 s, a stop of 8 s: nobody is dropped, no lease (of 4 s) ends, no
 * key is gone.
 */
static void mooncake_3937_3936_4181_sigstop_of_idle_clients__drops_none(void **state)
{
	struct larder_item item = { .key = "get-1", .key_len = 5 };
	struct larder_batch lease = { .opcode = LARDER_OP_EXISTS, .flags = LARDER_F_LEASE,
				      .lease_id = 64, .lease_ms = 4000, .deadline_ms = 3000,
				      .items = &item, .n_items = 1 };
	struct larder_client *c[64];
	struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;

	o.keepalive_ms = 5000;
	for (unsigned i = 0; i < 64; i++)
		c[i] = node_client_with(&node, i % 2 ? NODE_TCP : NODE_SHM, &o);
	lease.ns = node_namespace(c[0], "stopped");
	assert_int_equal(larder_run(c[0], &lease), LARDER_OK);
	assert_int_equal(item.presence, LARDER_LEASED);
	node_signal(&node, SIGSTOP);
	sleep_ms(8000);
	node_signal(&node, SIGCONT);
	sleep_ms(500);
	assert_int_equal(node_stat(&node, "connections", "connections"), 64);
	assert_int_equal(larder_delete(c[0], lease.ns, "get-1", 5, 0, 3000), LARDER_BUSY);
	for (unsigned i = 0; i < 64; i++) {
		struct larder_client_info info;
		char key[8];

		snprintf(key, sizeof(key), "get-%u", i % DEPTH);
		assert_int_equal(larder_exists(c[i], node_namespace(c[i], "stopped"), key, 5,
					       3000), LARDER_OK);
		larder_get_info(c[i], &info);
		assert_int_equal(info.reconnects, 0);
		larder_close(c[i]);
	}
}

static int setup(void **state)
{
	struct larder_client *c;
	uint8_t *value = malloc(VALUE);
	uint32_t ns;

	node_setup(&node, "[memory]\nsize = 256M\n[node]\nkeepalive = 5000\n");
	node_start(&node);
	c = node_client(&node, NODE_SHM);
	ns = node_namespace(c, "stopped");
	for (unsigned i = 0; i < DEPTH; i++) {
		char key[16];

		snprintf(key, sizeof(key), "get-%u", i);
		pattern_fill(value, VALUE, i + 1);
		assert_int_equal(larder_put(c, ns, key, strlen(key), value, VALUE, 10000),
				 LARDER_OK);
	}
	free(value);
	larder_close(c);
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
		cmocka_unit_test(sigstop_in_mid_get__tcp),
		cmocka_unit_test(sigstop_in_mid_get__shm),
		cmocka_unit_test(sigstop_in_mid_get__shm_unregistered),
		cmocka_unit_test(sigstop_in_mid_put__tcp),
		cmocka_unit_test(sigstop_in_mid_put__shm),
		cmocka_unit_test(
			mooncake_3937_3936_4181_sigstop_of_idle_clients__drops_none),
	};
	int r = cmocka_run_group_tests(tests, setup, teardown);

	node_cleanup(&node);
	return r;
}
