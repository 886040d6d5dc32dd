/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffer in which the node froze: its pages are replaced, also hugepages, and what lies beside it
 * stays; where they can not be replaced it is held until nobody writes to it any more. A frozen
 * gate is made by a wrapper around the transport's table.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "shm_rig.h"

static void get__node_frozen_inside(void **state)
{
	struct rig r;
	struct larder_region *region;
	struct larder_client_info info;
	uint8_t *m, *buffer, *v = malloc(VALUE_LEN);
	uint64_t before;
	size_t len;

	assert_non_null(v);
	rig_fill(v, VALUE_LEN, 7);
	shm_open_rig(&r, 0);
	(void)fake_put(&r.fake, "v", v, VALUE_LEN);
	assert_int_equal(larder_region_alloc(r.c, 4 * VALUE_LEN, 0, &region), 0);
	m = larder_region_addr(region);
	buffer = m + 5000;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, VALUE_LEN, &len, 1000), LARDER_OK);
	memset(m, 0x77, 4 * VALUE_LEN);
	gate_wrap(&r);
	r.frozen = true;
	before = r.clock.now_ns;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, VALUE_LEN, &len, 100),
			 LARDER_BUFFER_LOST);
	assert_in_range(r.clock.now_ns - before, 100 * NSEC_PER_MSEC, 220 * NSEC_PER_MSEC);
	larder_get_info(r.c, &info);
	assert_int_equal(info.buffers_lost, 1);
	/* bytes outside the buffer are what they were */
	for (size_t i = 0; i < 5000; i++)
		assert_int_equal(m[i], 0x77);
	for (size_t i = 5000 + VALUE_LEN; i < 4 * VALUE_LEN; i++)
		assert_int_equal(m[i], 0x77);
	/* the node goes on and writes: not where we look */
	memset(buffer, 0x33, VALUE_LEN);
	r.frozen = false;
	gate_stuck = false;
	rig_turn(&r, 50);
	for (size_t i = 0; i < VALUE_LEN; i++)
		assert_int_equal(buffer[i], 0x33);
	/* through the bounce until it is renewed */
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, VALUE_LEN, &len, 1000), LARDER_OK);
	assert_memory_equal(buffer, v, VALUE_LEN);
	assert_int_equal(r.fake.count[LARDER_OP_REGION_ADD], 2);
	assert_int_equal(larder_region_renew(region), 0);
	assert_memory_equal(buffer, v, VALUE_LEN);
	assert_int_equal(m[0], 0x77);
	memset(buffer, 0, VALUE_LEN);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, VALUE_LEN, &len, 1000), LARDER_OK);
	assert_memory_equal(buffer, v, VALUE_LEN);
	assert_int_equal(r.fake.count[LARDER_OP_REGION_ADD], 3);
	assert_int_equal(larder_region_free(region), 0);
	shm_close_rig(&r);
	free(v);
}

static void get__frozen_inside_the_bounce(void **state)
{
	struct rig r;
	uint8_t buffer[100];
	size_t len;

	shm_open_rig(&r, 0);
	(void)fake_put(&r.fake, "v", "0123456789", 10);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, 100, &len, 1000), LARDER_OK);
	gate_wrap(&r);
	r.frozen = true;
	/* the caller's memory was never in danger */
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, 100, &len, 100), LARDER_DEADLINE);
	r.frozen = false;
	gate_stuck = false;
	rig_turn(&r, 20);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, 100, &len, 1000), LARDER_OK);
	shm_close_rig(&r);
}

static void neighbour__of_a_lost_page(void **state)
{
	struct rig r;
	struct larder_region *region;
	struct iovec iov[2];
	struct larder_item item[2];
	struct larder_batch b[2], *back[2];
	uint8_t *m;
	size_t len;

	shm_open_rig(&r, 0);
	(void)fake_put(&r.fake, "v", "0123456789", 10);
	assert_int_equal(larder_region_alloc(r.c, 4096, 0, &region), 0);
	m = larder_region_addr(region);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, m, 100, &len, 1000), LARDER_OK);
	memset(m, 0, 4096);
	gate_wrap(&r);
	r.frozen = true;
	for (int i = 0; i < 2; i++) {
		iov[i] = (struct iovec){ m + i * 100, 100 };
		item[i] = (struct larder_item){ .key = "v", .key_len = 1, .iov = &iov[i],
						.iovcnt = 1 };
		b[i] = (struct larder_batch){ .opcode = LARDER_OP_GET, .ns = r.ns,
					      .items = &item[i], .n_items = 1,
					      .flags = LARDER_F_NO_CHECKS,
					      .deadline_ms = i ? 5000 : 100 };
		assert_int_equal(larder_submit(r.c, &b[i]), 0);
	}
	rig_turn(&r, 10);
	r.clock.now_ns += 101 * NSEC_PER_MSEC;
	rig_turn(&r, 5);
	r.clock.now_ns += 51 * NSEC_PER_MSEC;
	rig_turn(&r, 5);
	r.clock.now_ns += 51 * NSEC_PER_MSEC;
	rig_turn(&r, 5);
	assert_int_equal(larder_poll(r.c, back, 2), 1);
	assert_int_equal(item[0].status, LARDER_BUFFER_LOST);
	assert_int_equal(item[1].status, -1);
	/* its answer is about the old page: it is fetched again */
	r.frozen = false;
	gate_stuck = false;
	rig_turn(&r, 100);
	assert_int_equal(larder_poll(r.c, back, 2), 1);
	assert_int_equal(item[1].status, LARDER_OK);
	assert_memory_equal(m + 100, "0123456789", 10);
	assert_int_equal(m[0], 0);
	assert_int_equal(larder_region_free(region), 0);
	shm_close_rig(&r);
}

/* Buffers that share a page are lost one after the other: the second time the page is ours already
 * and what was written to it since then stays. */
static void get__lost_twice_in_one_page(void **state)
{
	struct rig r;
	struct larder_region *region;
	uint8_t *m;
	size_t len;

	shm_open_rig(&r, 0);
	(void)fake_put(&r.fake, "v", "0123456789", 10);
	assert_int_equal(larder_region_alloc(r.c, 3 * 4096, 0, &region), 0);
	m = larder_region_addr(region);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, m, 100, &len, 1000), LARDER_OK);
	memset(m, 0x55, 3 * 4096);
	gate_wrap(&r);
	r.frozen = true;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, m + 100, 200, &len, 50),
			 LARDER_BUFFER_LOST);
	memset(m, 0x66, 100);
	memset(m + 300, 0x66, 4096);
	r.frozen = false;
	gate_stuck = false;
	rig_turn(&r, 50);
	/* over the page that is ours and the next, which is not: through the bounce by now */
	gate_stuck = true;
	r.frozen = true;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, m + 200, 6000, &len, 50), LARDER_DEADLINE);
	assert_int_equal(region_lose(&r.c->core, m + 200, 6000), 0);
	assert_int_equal(region->n_detached, 2);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(m[i], 0x66);
	for (size_t i = 6200; i < 3 * 4096; i++)
		assert_int_equal(m[i], 0x55);
	r.frozen = false;
	gate_stuck = false;
	rig_turn(&r, 50);
	assert_int_equal(larder_region_renew(region), 0);
	assert_int_equal(region->n_detached, 0);
	assert_int_equal(m[0], 0x66);
	assert_int_equal(m[3 * 4096 - 1], 0x55);
	assert_int_equal(larder_region_free(region), 0);
	shm_close_rig(&r);
}

/* --- no memory to replace it with ------------------------------------------------------------ */

static rlim_t held_limit;

static void held_memory(bool there)
{
	struct rlimit l;

	assert_int_equal(getrlimit(RLIMIT_DATA, &l), 0);
	if (!there)
		held_limit = l.rlim_cur;
	l.rlim_cur = there ? held_limit : 1;
	assert_int_equal(setrlimit(RLIMIT_DATA, &l), 0);
}

struct held {
	struct rig r;
	struct larder_region *region;
	uint8_t *m;
	struct iovec iov;
	struct larder_item item;
	struct larder_batch b;
};

/* A GET of 100 ms whose buffer is neither free nor replaced a second later. */
static void held_begin(struct held *h)
{
	struct larder_batch *back;
	size_t len;

	memset(h, 0, sizeof(*h));
	shm_open_rig(&h->r, 0);
	(void)fake_put(&h->r.fake, "v", "0123456789", 10);
	assert_int_equal(larder_region_alloc(h->r.c, 3 * 4096, 0, &h->region), 0);
	h->m = larder_region_addr(h->region);
	assert_int_equal(larder_get(h->r.c, h->r.ns, "v", 1, h->m, 100, &len, 1000), LARDER_OK);
	h->iov = (struct iovec){ h->m, 3 * 4096 };
	h->item = (struct larder_item){ .key = "v", .key_len = 1, .iov = &h->iov, .iovcnt = 1 };
	h->b = (struct larder_batch){ .opcode = LARDER_OP_GET, .ns = h->r.ns, .items = &h->item,
				      .n_items = 1, .deadline_ms = 100 };
	gate_wrap(&h->r);
	h->r.frozen = true;
	assert_int_equal(larder_submit(h->r.c, &h->b), 0);
	rig_turn(&h->r, 5);
	held_memory(false);
	for (int i = 0; i < 100; i++) {
		h->r.clock.now_ns += 10 * NSEC_PER_MSEC;
		rig_turn(&h->r, 2);
	}
	assert_int_equal(larder_poll(h->r.c, &back, 1), 0);
	assert_int_equal(h->item.status, -1);
	assert_int_equal(larder_region_free(h->region), -EBUSY);
}

static void held_end(struct held *h, int status)
{
	struct larder_batch *back;

	for (int i = 0; i < 10; i++) {
		h->r.clock.now_ns += 10 * NSEC_PER_MSEC;
		rig_turn(&h->r, 5);
	}
	assert_int_equal(larder_poll(h->r.c, &back, 1), 1);
	assert_int_equal(h->item.status, status);
	assert_int_equal(larder_region_free(h->region), 0);
	gate_stuck = false;
	shm_close_rig(&h->r);
}

static void held__until_there_is_memory(void **state)
{
	struct held h;

	held_begin(&h);
	held_memory(true);
	held_end(&h, LARDER_BUFFER_LOST);
}

static void held__until_the_node_leaves(void **state)
{
	struct held h;

	held_begin(&h);
	gate_stuck = false;
	held_end(&h, LARDER_DEADLINE);
	held_memory(true);
}

static void held__until_the_node_is_gone(void **state)
{
	struct held h;

	held_begin(&h);
	/* the connection is over for us long before; it stays open, so that its end can be seen */
	for (int i = 0; i < 500; i++) {
		h.r.clock.now_ns += 100 * NSEC_PER_MSEC;
		rig_turn(&h.r, 2);
	}
	assert_null(h.r.c->core.conn);
	assert_false(list_empty(&h.r.c->core.conns));
	assert_int_equal(h.item.status, -1);
	held_memory(true);	/* for the fake; what follows comes before the next try */
	fake_stop(&h.r.fake);
	(void)larder_step(h.r.c);
	assert_int_equal(h.item.status, LARDER_DEADLINE);
	held_end(&h, LARDER_DEADLINE);
}

static void held__after_our_end_of_the_connection(void **state)
{
	struct held h;
	struct conn *conn;

	held_begin(&h);
	conn = h.r.c->core.conn;
	conn_fail(conn, -ETIMEDOUT, "no sign of life");
	assert_true(conn->unsealed);
	rig_turn(&h.r, 20);
	assert_int_equal(h.item.status, -1);
	held_memory(true);
	held_end(&h, LARDER_BUFFER_LOST);
}

static void held__and_closed(void **state)
{
	struct held h;

	held_begin(&h);
	shm_close_rig(&h.r);
	held_memory(true);
	assert_int_equal(h.item.status, LARDER_DEADLINE);
	gate_stuck = false;
}

/* --- hugepages ------------------------------------------------------------------------------- */

#define HUGE_PAGE (2u << 20)
#define HUGE_POOL "/proc/sys/vm/nr_hugepages"

static long huge_pool(long set)
{
	FILE *f = fopen(HUGE_POOL, "r");
	long n = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%ld", &n) != 1)
		n = -1;
	fclose(f);
	if (set < 0 || n < 0)
		return n;
	f = fopen(HUGE_POOL, "w");
	if (!f)
		return -1;
	fprintf(f, "%ld", set);
	return fclose(f) == 0 ? n : -1;
}

/* Writes beside the lost buffer for as long as it is told, and sees that nothing gets lost. */
struct huge_writer {
	pthread_t thread;
	_Atomic bool stop;
	uint8_t *at;
	size_t len;
	unsigned long rounds;
	bool torn;
};

static void *huge_write(void *arg)
{
	struct huge_writer *w = arg;

	while (!atomic_load(&w->stop)) {
		uint8_t now = (uint8_t)++w->rounds;

		memset(w->at, now, w->len);
		sched_yield();
		for (size_t i = 0; i < w->len; i += 64)
			w->torn |= w->at[i] != now;
	}
	return NULL;
}

/* A pool of @pool more hugepages than there were, and a region of three. False: not to be had. */
static bool huge_open(struct rig *r, long before, long pool, struct larder_region **region)
{
	int k = -ENOMEM;

	if (before < 0 || huge_pool(before + pool) < 0 || huge_pool(-1) < before + pool) {
		(void)huge_pool(before);
		print_message("hugepages can not be had: " HUGE_POOL "\n");
		return false;
	}
	shm_open_rig(r, 0);
	k = larder_region_alloc(r->c, 3 * HUGE_PAGE - 100, LARDER_REGION_HUGE, region);
	assert_int_equal(k, 0);
	assert_int_equal((*region)->page, HUGE_PAGE);
	return true;
}

/* A buffer over the middle of three hugepages, one of them wholly. @pool: with pages to spare or
 * without. */
static void huge_frozen_inside(long pool, bool spare)
{
	struct rig r;
	struct larder_region *region;
	struct huge_writer w = { .len = 4096 };
	uint8_t *m, *buffer, *v;
	size_t len, at = HUGE_PAGE - 5000, size = HUGE_PAGE + 10000;
	long before = huge_pool(-1);

	if (!huge_open(&r, before, pool, &region))
		skip();
	v = malloc(size);
	assert_non_null(v);
	rig_fill(v, size, 8);
	(void)fake_put(&r.fake, "v", v, size);
	m = larder_region_addr(region);
	buffer = m + at;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, size, &len, 1000), LARDER_OK);
	assert_memory_equal(buffer, v, size);
	memset(m, 0x77, 3 * HUGE_PAGE - 100);
	w.at = m + HUGE_PAGE - 10000;
	assert_int_equal(pthread_create(&w.thread, NULL, huge_write, &w), 0);
	gate_wrap(&r);
	r.frozen = true;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, size, &len, 100),
			 LARDER_BUFFER_LOST);
	assert_int_equal(region->n_detached, 3);
	memset(buffer, 0x33, size);
	r.frozen = false;
	gate_stuck = false;
	rig_turn(&r, 200);
	for (size_t i = 0; i < size; i++)
		assert_int_equal(buffer[i], 0x33);
	for (size_t i = 0; i < at - 10000; i++)
		assert_int_equal(m[i], 0x77);
	for (size_t i = at + size; i < 3 * HUGE_PAGE - 100; i++)
		assert_int_equal(m[i], 0x77);
	atomic_store(&w.stop, true);
	assert_int_equal(pthread_join(w.thread, NULL), 0);
	assert_true(!spare || !w.torn);
	for (size_t i = 0; i < w.len; i++)
		assert_int_equal(w.at[i], (uint8_t)w.rounds);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, size, &len, 1000), LARDER_OK);
	assert_memory_equal(buffer, v, size);
	assert_int_equal(larder_region_renew(region), spare ? 0 : -ENOMEM);
	assert_memory_equal(buffer, v, size);
	assert_int_equal(m[0], 0x77);
	memset(buffer, 0, size);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, size, &len, 1000), LARDER_OK);
	assert_memory_equal(buffer, v, size);
	assert_int_equal(larder_region_free(region), 0);
	shm_close_rig(&r);
	free(v);
	assert_true(huge_pool(before) >= 0);
	assert_int_equal(huge_pool(-1), before);
}

static void huge__node_frozen_inside(void **state)
{
	huge_frozen_inside(9, true);
}

static void huge__no_page_to_spare(void **state)
{
	huge_frozen_inside(3, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get__node_frozen_inside),
		cmocka_unit_test(get__frozen_inside_the_bounce),
		cmocka_unit_test(neighbour__of_a_lost_page),
		cmocka_unit_test(get__lost_twice_in_one_page),
		cmocka_unit_test(held__until_there_is_memory),
		cmocka_unit_test(held__until_the_node_leaves),
		cmocka_unit_test(held__until_the_node_is_gone),
		cmocka_unit_test(held__after_our_end_of_the_connection),
		cmocka_unit_test(held__and_closed),
		cmocka_unit_test(huge__node_frozen_inside),
		cmocka_unit_test(huge__no_page_to_spare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
