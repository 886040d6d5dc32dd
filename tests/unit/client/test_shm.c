/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one-sided side of the client, over shm: regions, the bounce, gates, and what becomes of a
 * buffer in which the node froze. A frozen gate is made by a wrapper around the transport's table.
 */
#include <sys/mman.h>

#include "fake_node.h"

#include "client/handle.h"

#define VALUE_LEN (600u * 1024u)

static char shm_path[64];

static void shm_open_rig(struct rig *r, uint64_t bounce)
{
	struct larder_client_options o;
	char url[96];

	snprintf(shm_path, sizeof(shm_path), "/tmp/larder-client-%d.sock", (int)getpid());
	(void)unlink(shm_path);
	memset(r, 0, sizeof(*r));
	r->clock.now_ns = 1000 * NSEC_PER_SEC;
	r->clock.seed = 1;
	r->tick_ns = 20 * NSEC_PER_USEC;
	fake_open(&r->fake, &r->clock, "shm", shm_path);
	snprintf(url, sizeof(url), "shm://%s", shm_path);
	o = rig_options(url);
	o.bounce_bytes = bounce;
	rig_client(r, &o);
	assert_int_equal(larder_ns_open(r->c, "space", NULL, LARDER_NS_CREATE, 1000, &r->ns), 0);
}

static void shm_close_rig(struct rig *r)
{
	rig_close(r);
	(void)unlink(shm_path);
}

/* A transport whose gates are stuck when told. */
static bool gate_stuck;
static struct transport_ops gate_ops;
static int (*gate_take_real)(struct transport_conn *c, uint32_t gate);

static int gate_take(struct transport_conn *c, uint32_t gate)
{
	return gate_stuck ? -EBUSY : gate_take_real(c, gate);
}

static void gate_wrap(struct rig *r)
{
	struct transport *t = r->c->core.targets[0].transport;

	gate_ops = *t->ops;
	gate_take_real = gate_ops.gate_take;
	gate_ops.gate_take = gate_take;
	t->ops = &gate_ops;
	gate_stuck = true;
}

static void put_get__through_the_bounce(void **state)
{
	struct rig r;
	uint8_t *v = malloc(VALUE_LEN), *back = malloc(VALUE_LEN);
	size_t len;

	assert_non_null(v);
	assert_non_null(back);
	rig_fill(v, VALUE_LEN, 1);
	shm_open_rig(&r, 0);
	assert_int_equal(larder_put(r.c, r.ns, "v", 1, v, VALUE_LEN, 1000), LARDER_OK);
	assert_memory_equal(fake_find(&r.fake, "v", 1)->data, v, VALUE_LEN);
	/* the first time the size is not known: asked twice */
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, back, VALUE_LEN, &len, 1000), LARDER_OK);
	assert_memory_equal(v, back, VALUE_LEN);
	assert_int_equal(r.fake.count[LARDER_OP_GET], 2);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, back, VALUE_LEN, &len, 1000), LARDER_OK);
	assert_int_equal(r.fake.count[LARDER_OP_GET], 3);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, back, VALUE_LEN - 1, &len, 1000),
			 LARDER_TOO_SMALL);
	assert_int_equal(len, VALUE_LEN);
	shm_close_rig(&r);
	free(v);
	free(back);
}

static void put_get__direct(void **state)
{
	struct rig r;
	struct larder_region *region;
	uint8_t *m;
	size_t len;

	shm_open_rig(&r, 0);
	assert_int_equal(larder_region_alloc(r.c, 2 * VALUE_LEN, 0, &region), 0);
	m = larder_region_addr(region);
	rig_fill(m, VALUE_LEN, 2);
	assert_int_equal(larder_put(r.c, r.ns, "v", 1, m, VALUE_LEN, 1000), LARDER_OK);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, m + VALUE_LEN, VALUE_LEN, &len, 1000),
			 LARDER_OK);
	assert_memory_equal(m, m + VALUE_LEN, VALUE_LEN);
	/* one region, no bounce */
	assert_int_equal(r.fake.count[LARDER_OP_REGION_ADD], 1);
	assert_int_equal(r.fake.count[LARDER_OP_GET], 1);
	assert_int_equal(larder_region_free(region), 0);
	assert_int_equal(r.fake.count[LARDER_OP_REGION_DEL], 1);
	shm_close_rig(&r);
}

static void get__ranges_direct_and_bounced(void **state)
{
	static const uint64_t at[] = { 0, 1, LARDER_CHECK_BLOCK - 1, LARDER_CHECK_BLOCK + 7,
				       VALUE_LEN - 3 };
	struct rig r;
	struct larder_region *region;
	uint8_t *v = malloc(VALUE_LEN), *heap = malloc(VALUE_LEN), *m;

	assert_non_null(v);
	assert_non_null(heap);
	rig_fill(v, VALUE_LEN, 3);
	shm_open_rig(&r, 0);
	(void)fake_put(&r.fake, "v", v, VALUE_LEN);
	assert_int_equal(larder_region_alloc(r.c, VALUE_LEN, 0, &region), 0);
	m = larder_region_addr(region);
	for (size_t i = 0; i < ARRAY_SIZE(at) * 4; i++) {
		uint64_t want = MIN((uint64_t)300000, VALUE_LEN - at[i / 4]);
		uint8_t *to = i % 2 ? heap : m;
		struct iovec iov[2] = { { to, 1000 }, { to + 2000, 300000 - 1000 } };
		struct larder_item item = { .key = "v", .key_len = 1, .iov = iov, .iovcnt = 2,
					    .offset = at[i / 4], .length = 300000 };
		struct larder_batch b = { .opcode = LARDER_OP_GET, .ns = r.ns, .items = &item,
					  .n_items = 1,
					  .flags = i & 2 ? LARDER_F_NO_CHECKS : 0 };

		memset(to, 0xee, VALUE_LEN);
		assert_int_equal(larder_run(r.c, &b), LARDER_OK);
		assert_int_equal(item.done_bytes, want);
		assert_memory_equal(to, v + at[i / 4], MIN(want, (uint64_t)1000));
		if (want > 1000)
			assert_memory_equal(to + 2000, v + at[i / 4] + 1000, want - 1000);
		assert_int_equal(to[1500], 0xee);
	}
	assert_int_equal(larder_region_free(region), 0);
	shm_close_rig(&r);
	free(v);
	free(heap);
}

static void bounce__smaller_than_what_is_asked(void **state)
{
	enum { N = 12 };
	struct rig r;
	struct larder_item items[N];
	struct iovec iov[N];
	char keys[N];
	size_t big = 10u << 20;
	uint8_t *v = malloc(big), *back = malloc(big);
	struct larder_batch b = { .opcode = LARDER_OP_PUT, .items = items, .n_items = N };
	size_t len;

	assert_non_null(v);
	assert_non_null(back);
	rig_fill(v, big, 4);
	shm_open_rig(&r, 5u << 20);
	memset(items, 0, sizeof(items));
	for (int i = 0; i < N; i++) {
		keys[i] = (char)('a' + i);
		iov[i] = (struct iovec){ v + i, VALUE_LEN };
		items[i] = (struct larder_item){ .key = &keys[i], .key_len = 1, .iov = &iov[i],
						 .iovcnt = 1 };
	}
	b.ns = r.ns;
	/* more than fits at once: they wait for each other */
	assert_int_equal(larder_run(r.c, &b), LARDER_OK);
	/* larger than all of it: alone */
	assert_int_equal(larder_put(r.c, r.ns, "big", 3, v, big, 2000), LARDER_OK);
	assert_int_equal(larder_get(r.c, r.ns, "big", 3, back, big, &len, 2000), LARDER_OK);
	assert_memory_equal(v, back, big);
	assert_int_equal(larder_get(r.c, r.ns, "c", 1, back, big, &len, 2000), LARDER_OK);
	assert_memory_equal(v + 2, back, VALUE_LEN);
	shm_close_rig(&r);
	free(v);
	free(back);
}

static void region__in_use(void **state)
{
	struct rig r;
	struct larder_region *region;
	struct iovec iov;
	struct larder_item item = { .key = "v", .key_len = 1, .iov = &iov, .iovcnt = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_GET, .items = &item, .n_items = 1 };
	struct larder_batch *back;

	shm_open_rig(&r, 0);
	(void)fake_put(&r.fake, "v", "0123456789", 10);
	assert_int_equal(larder_region_alloc(r.c, 4096, 0, &region), 0);
	iov = (struct iovec){ larder_region_addr(region), 4096 };
	b.ns = r.ns;
	r.frozen = true;
	assert_int_equal(larder_submit(r.c, &b), 0);
	(void)larder_step(r.c);
	assert_int_equal(larder_region_free(region), -EBUSY);
	assert_int_equal(larder_region_renew(region), -EBUSY);
	r.frozen = false;
	rig_turn(&r, 50);
	assert_int_equal(larder_poll(r.c, &back, 1), 1);
	assert_int_equal(item.status, LARDER_OK);
	assert_int_equal(larder_region_free(region), 0);
	shm_close_rig(&r);
}

static void reconnect__regions_are_made_known_again(void **state)
{
	struct rig r;
	struct larder_region *region;
	uint8_t *m;
	size_t len;

	shm_open_rig(&r, 0);
	assert_int_equal(larder_region_alloc(r.c, VALUE_LEN, 0, &region), 0);
	m = larder_region_addr(region);
	rig_fill(m, VALUE_LEN, 5);
	assert_int_equal(larder_put(r.c, r.ns, "v", 1, m, VALUE_LEN, 1000), LARDER_OK);
	fake_stop(&r.fake);
	(void)unlink(shm_path);
	rig_turn(&r, 10);
	fake_restart(&r.fake, "shm", shm_path);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, m, VALUE_LEN, &len, 1000), LARDER_OK);
	assert_int_equal(r.fake.count[LARDER_OP_REGION_ADD], 2);
	assert_int_equal(larder_region_free(region), 0);
	shm_close_rig(&r);
}

static void get__deadline_and_the_gate_is_free(void **state)
{
	struct rig r;
	struct larder_region *region;
	uint8_t *m, *seen = malloc(VALUE_LEN), *v = malloc(VALUE_LEN);
	size_t len;

	assert_non_null(v);
	assert_non_null(seen);
	rig_fill(v, VALUE_LEN, 6);
	shm_open_rig(&r, 0);
	(void)fake_put(&r.fake, "v", v, VALUE_LEN);
	assert_int_equal(larder_region_alloc(r.c, VALUE_LEN, 0, &region), 0);
	m = larder_region_addr(region);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, m, VALUE_LEN, &len, 1000), LARDER_OK);
	memset(m, 0x11, VALUE_LEN);
	r.frozen = true;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, m, VALUE_LEN, &len, 100), LARDER_DEADLINE);
	memset(m, 0x22, VALUE_LEN);
	memcpy(seen, m, VALUE_LEN);
	/* the node goes on with a request that has lost its gate */
	r.frozen = false;
	rig_turn(&r, 50);
	assert_memory_equal(m, seen, VALUE_LEN);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, m, VALUE_LEN, &len, 100), LARDER_OK);
	assert_memory_equal(m, v, VALUE_LEN);
	assert_int_equal(r.fake.handshakes, 1);
	assert_int_equal(larder_region_free(region), 0);
	shm_close_rig(&r);
	free(seen);
	free(v);
}

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

static void stream__parts_from_region_and_heap(void **state)
{
	struct rig r;
	struct larder_put_stream *s;
	struct larder_region *region;
	uint8_t *m, *back = malloc(VALUE_LEN);
	size_t len;

	assert_non_null(back);
	shm_open_rig(&r, 0);
	assert_int_equal(larder_region_alloc(r.c, VALUE_LEN, 0, &region), 0);
	m = larder_region_addr(region);
	rig_fill(m, VALUE_LEN, 9);
	memcpy(back, m, VALUE_LEN);
	assert_int_equal(larder_put_begin(r.c, r.ns, "v", 1, VALUE_LEN, 5000, &s), LARDER_OK);
	assert_int_equal(larder_put_part(s, 0, m, 300000), LARDER_OK);
	assert_int_equal(larder_put_part(s, 300000, back + 300000, VALUE_LEN - 300000), LARDER_OK);
	assert_int_equal(larder_put_commit(s), LARDER_OK);
	memset(back, 0, VALUE_LEN);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, back, VALUE_LEN, &len, 1000), LARDER_OK);
	assert_memory_equal(back, m, VALUE_LEN);
	assert_int_equal(larder_region_free(region), 0);
	shm_close_rig(&r);
	free(back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_get__through_the_bounce),
		cmocka_unit_test(put_get__direct),
		cmocka_unit_test(get__ranges_direct_and_bounced),
		cmocka_unit_test(bounce__smaller_than_what_is_asked),
		cmocka_unit_test(region__in_use),
		cmocka_unit_test(reconnect__regions_are_made_known_again),
		cmocka_unit_test(get__deadline_and_the_gate_is_free),
		cmocka_unit_test(get__node_frozen_inside),
		cmocka_unit_test(get__frozen_inside_the_bounce),
		cmocka_unit_test(neighbour__of_a_lost_page),
		cmocka_unit_test(stream__parts_from_region_and_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
