/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one-sided side of the client, over shm: regions, the bounce, gates. What becomes of a buffer
 * in which the node froze is in test_lost.c.
 */
#include "shm_rig.h"

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

/* The size of a value is asked for without a buffer. */
static void get__no_room(void **state)
{
	struct rig r;
	size_t len = 0;

	shm_open_rig(&r, 0);
	(void)fake_put(&r.fake, "v", "0123456789", 10);
	for (int i = 0; i < 2; i++) {
		len = 0;
		assert_int_equal(larder_get(r.c, r.ns, "v", 1, NULL, 0, &len, 1000),
				 LARDER_TOO_SMALL);
		assert_int_equal(len, 10);
		assert_non_null(strstr(larder_last_error(), "10 bytes"));
	}
	assert_int_equal(larder_get(r.c, r.ns, "w", 1, NULL, 0, &len, 1000), LARDER_NOT_FOUND);
	shm_close_rig(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_get__through_the_bounce),
		cmocka_unit_test(put_get__direct),
		cmocka_unit_test(get__ranges_direct_and_bounced),
		cmocka_unit_test(get__no_room),
		cmocka_unit_test(bounce__smaller_than_what_is_asked),
		cmocka_unit_test(region__in_use),
		cmocka_unit_test(reconnect__regions_are_made_known_again),
		cmocka_unit_test(get__deadline_and_the_gate_is_free),
		cmocka_unit_test(stream__parts_from_region_and_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
