/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values over a byte stream: ranges widened to check blocks, scatter lists, bad bytes and how they
 * heal, and a stream that is cut at any place.
 */
#include "fake_node.h"

#define VALUE_LEN (3 * LARDER_CHECK_BLOCK + 12345)

static uint8_t *value_new(uint64_t seed)
{
	uint8_t *v = malloc(VALUE_LEN);

	assert_non_null(v);
	rig_fill(v, VALUE_LEN, seed);
	return v;
}

static int value_range(struct rig *r, uint8_t *to, uint64_t offset, uint64_t length,
		       uint32_t flags, uint64_t *done)
{
	struct iovec iov = { to, length };
	struct larder_item item = { .key = "v", .key_len = 1, .iov = &iov, .iovcnt = 1,
				    .offset = offset, .length = length };
	struct larder_batch b = { .opcode = LARDER_OP_GET, .ns = r->ns, .flags = flags,
				  .items = &item, .n_items = 1, .deadline_ms = 5000 };
	int k = larder_run(r->c, &b);

	*done = item.done_bytes;
	return k;
}

static void get__ranges_at_every_kind_of_edge(void **state)
{
	static const uint64_t at[] = { 0, 1, 255, LARDER_CHECK_BLOCK - 1, LARDER_CHECK_BLOCK,
				       LARDER_CHECK_BLOCK + 1, 2 * LARDER_CHECK_BLOCK + 77,
				       VALUE_LEN - 1, VALUE_LEN };
	static const uint64_t len[] = { 1, 2, LARDER_CHECK_BLOCK - 1, LARDER_CHECK_BLOCK,
					LARDER_CHECK_BLOCK + 1, VALUE_LEN };
	struct rig r;
	uint8_t *v = value_new(2), *back = malloc(VALUE_LEN + 64);
	uint64_t done;

	assert_non_null(back);
	rig_open(&r, "values");
	(void)fake_put(&r.fake, "v", v, VALUE_LEN);
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(len) * 2; j++) {
			uint64_t n = len[j / 2], want = MIN(n, VALUE_LEN - at[i]);

			memset(back, 0xee, VALUE_LEN + 64);
			assert_int_equal(value_range(&r, back, at[i], n,
						     j % 2 ? LARDER_F_NO_CHECKS : 0, &done),
					 LARDER_OK);
			assert_int_equal(done, want);
			assert_memory_equal(back, v + at[i], want);
			assert_int_equal(back[want], 0xee);
		}
	}
	rig_close(&r);
	free(v);
	free(back);
}

static void put_get__scatter_lists(void **state)
{
	struct rig r;
	uint8_t *v = value_new(3), *back = calloc(1, VALUE_LEN);
	struct iovec iov[200], riov[200];
	struct larder_item item = { .key = "v", .key_len = 1, .iov = iov, .iovcnt = 200 };
	struct larder_batch b = { .opcode = LARDER_OP_PUT, .items = &item, .n_items = 1 };
	size_t at = 0;

	assert_non_null(back);
	for (int i = 0; i < 200; i++) {
		size_t n = i == 199 ? VALUE_LEN - at : (size_t)(i * 37 % 9000);

		iov[i] = (struct iovec){ v + at, n };
		riov[i] = (struct iovec){ back + at, n };
		at += n;
	}
	rig_open(&r, "values");
	b.ns = r.ns;
	assert_int_equal(larder_run(r.c, &b), LARDER_OK);
	assert_memory_equal(fake_find(&r.fake, "v", 1)->data, v, VALUE_LEN);
	b.opcode = LARDER_OP_GET;
	item.iov = riov;
	assert_int_equal(larder_run(r.c, &b), LARDER_OK);
	assert_int_equal(item.done_bytes, VALUE_LEN);
	assert_memory_equal(back, v, VALUE_LEN);
	rig_close(&r);
	free(v);
	free(back);
}

static void get__bad_bytes_heal(void **state)
{
	struct rig r;
	uint8_t *v = value_new(4);
	uint8_t *back = malloc(VALUE_LEN);
	struct larder_client_info info;
	size_t len;

	assert_non_null(back);
	rig_open(&r, "values");
	(void)fake_put(&r.fake, "v", v, VALUE_LEN);
	r.fake.corrupt_payload = true;
	r.fake.heal = true;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, back, VALUE_LEN, &len, 1000),
			 LARDER_NOT_FOUND);
	assert_int_equal(r.fake.count[LARDER_OP_GET], 2);
	assert_true(r.fake.last_flags & LARDER_F_VERIFY);
	larder_get_info(r.c, &info);
	assert_int_equal(info.checksum_errors, 1);
	assert_int_equal(larder_put(r.c, r.ns, "v", 1, v, VALUE_LEN, 1000), LARDER_OK);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, back, VALUE_LEN, &len, 1000), LARDER_OK);
	assert_memory_equal(back, v, VALUE_LEN);
	rig_close(&r);
	free(v);
	free(back);
}

static void get__bad_bytes_stay_bad(void **state)
{
	struct rig r;
	uint8_t *v = value_new(5);
	size_t len;

	rig_open(&r, "values");
	(void)fake_put(&r.fake, "v", v, 1000);
	r.fake.corrupt_payload = true;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, v, VALUE_LEN, &len, 1000), LARDER_CHECKSUM);
	assert_int_equal(r.fake.count[LARDER_OP_GET], 2);
	/* the reader's own choice */
	assert_int_equal(value_range(&r, v, 0, 1000, LARDER_F_NO_CHECKS, &(uint64_t){ 0 }),
			 LARDER_OK);
	rig_close(&r);
	free(v);
}

static void get__value_of_another_key(void **state)
{
	struct rig r;
	uint8_t buffer[16];
	size_t len;

	rig_open(&r, "values");
	(void)fake_put(&r.fake, "v", "0123456789", 10);
	r.fake.wrong_digest = true;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, 16, &len, 1000), LARDER_CHECKSUM);
	rig_close(&r);
}

static void put_get__stream_cut_anywhere(void **state)
{
	struct rig r;
	uint8_t v[2000], back[2000];
	size_t len;

	rig_fill(v, sizeof(v), 6);
	for (uint32_t move = 1; move <= 3; move++) {
		struct loop_knobs knobs = { .max_move = move };

		rig_open(&r, "values");
		assert_int_equal(loop_set_knobs(r.fake.t, &knobs), 0);
		assert_int_equal(larder_put(r.c, r.ns, "v", 1, v, sizeof(v), 9000), LARDER_OK);
		memset(back, 0, sizeof(back));
		assert_int_equal(larder_get(r.c, r.ns, "v", 1, back, sizeof(back), &len, 9000),
				 LARDER_OK);
		assert_memory_equal(v, back, sizeof(v));
		rig_close(&r);
	}
}

static void put_get__random_pieces(void **state)
{
	struct rig r;
	uint8_t *v = value_new(7), *back = malloc(VALUE_LEN);
	uint64_t seed = 20260101;
	uint64_t done;

	assert_non_null(back);
	print_message("seed %llu\n", (unsigned long long)seed);
	for (int round = 0; round < 4; round++) {
		struct loop_knobs knobs = { .max_move = 30000,
					    .split_seed = seed + (uint64_t)round };

		rig_open(&r, "values");
		assert_int_equal(loop_set_knobs(r.fake.t, &knobs), 0);
		assert_int_equal(larder_put(r.c, r.ns, "v", 1, v, VALUE_LEN, 9000), LARDER_OK);
		assert_int_equal(value_range(&r, back, 100000, 400000, 0, &done), LARDER_OK);
		assert_memory_equal(v + 100000, back, 400000);
		rig_close(&r);
	}
	free(v);
	free(back);
}

static void put__busy_is_repeated(void **state)
{
	struct rig r;
	struct iovec iov = { "v", 1 };
	struct larder_item item = { .key = "k", .key_len = 1, .iov = &iov, .iovcnt = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_PUT, .items = &item, .n_items = 1,
				  .flags = LARDER_F_NOWAIT };

	rig_open(&r, "values");
	b.ns = r.ns;
	r.fake.busy = 10;
	assert_int_equal(larder_run(r.c, &b), LARDER_BUSY);
	assert_int_equal(r.fake.count[LARDER_OP_PUT], 1);
	assert_int_equal(larder_put(r.c, r.ns, "k", 1, "v", 1, 2000), LARDER_OK);
	assert_int_equal(r.fake.count[LARDER_OP_PUT], 11);
	r.fake.busy = 1000000;
	assert_int_equal(larder_put(r.c, r.ns, "k2", 2, "v", 1, 300), LARDER_BUSY);
	rig_close(&r);
}

static void put__too_large(void **state)
{
	struct rig r;

	rig_open(&r, "values");
	assert_int_equal(larder_put(r.c, r.ns, "k", 1, &r, (64u << 20) + 1, 1000),
			 LARDER_TOO_LARGE);
	assert_int_equal(r.fake.count[LARDER_OP_PUT], 0);
	rig_close(&r);
}

/* A node that says what was not asked for. */
static bool lie(struct fake *f, struct fake_conn *c, const struct wire_request *r,
		const uint8_t *payload)
{
	struct wire_got got = { .size_bytes = 10, .length = 10, .n_checks = 1 };
	uint8_t zero[32] = { 0 };
	uint32_t check = 0;

	if (r->header.op != LARDER_OP_GET)
		return false;
	got.size_bytes = got.length = *(uint64_t *)f->user;
	fake_reply(c, r, LARDER_OK, &got, sizeof(got), &check, 4, zero, got.length);
	return true;
}

static void get__more_than_there_is_room_for(void **state)
{
	struct rig r;
	uint8_t buffer[16 + 16];
	uint64_t claim = 17;
	size_t len;

	rig_open(&r, "values");
	memset(buffer, 0xee, sizeof(buffer));
	r.fake.hook = lie;
	r.fake.user = &claim;
	assert_int_equal(larder_get(r.c, r.ns, "k", 1, buffer, 16, &len, 1000), LARDER_INTERNAL);
	for (size_t i = 0; i < sizeof(buffer); i++)
		assert_int_equal(buffer[i], 0xee);
	r.fake.hook = NULL;
	assert_int_equal(larder_ping(r.c, 1000), LARDER_OK);
	assert_int_equal(r.fake.handshakes, 2);
	rig_close(&r);
}

static void stream__parts_in_any_order_of_blocks(void **state)
{
	struct rig r;
	struct larder_put_stream *s;
	uint8_t *v = value_new(8), *back = malloc(VALUE_LEN);
	size_t len;

	assert_non_null(back);
	rig_open(&r, "values");
	assert_int_equal(larder_put_begin(r.c, r.ns, "v", 1, VALUE_LEN, 5000, &s), LARDER_OK);
	assert_int_equal(larder_put_part(s, LARDER_CHECK_BLOCK, v + LARDER_CHECK_BLOCK,
					 LARDER_CHECK_BLOCK + 100), LARDER_OK);
	assert_int_equal(larder_put_part(s, 0, v, 1000), LARDER_OK);
	assert_int_equal(larder_put_part(s, 5000, v + 5000, 10), -EINVAL);
	assert_int_equal(larder_put_part(s, 1000, v + 1000, LARDER_CHECK_BLOCK), -EINVAL);
	assert_int_equal(larder_put_part(s, 1000, v + 1000, LARDER_CHECK_BLOCK - 1000), LARDER_OK);
	assert_int_equal(larder_put_part(s, 2 * LARDER_CHECK_BLOCK + 100,
					 v + 2 * LARDER_CHECK_BLOCK + 100,
					 VALUE_LEN - 2 * LARDER_CHECK_BLOCK - 100), LARDER_OK);
	assert_int_equal(larder_exists(r.c, r.ns, "v", 1, 1000), LARDER_NOT_FOUND);
	assert_int_equal(larder_put_commit(s), LARDER_OK);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, back, VALUE_LEN, &len, 1000), LARDER_OK);
	assert_memory_equal(v, back, VALUE_LEN);
	rig_close(&r);
	free(v);
	free(back);
}

static void stream__incomplete_commit_and_abort(void **state)
{
	struct rig r;
	struct larder_put_stream *s;

	rig_open(&r, "values");
	assert_int_equal(larder_put_begin(r.c, r.ns, "v", 1, 10, 5000, &s), LARDER_OK);
	assert_int_equal(larder_put_part(s, 0, "12345", 5), LARDER_OK);
	assert_int_equal(larder_put_commit(s), -EINVAL);
	assert_int_equal(r.fake.count[LARDER_OP_PUT_ABORT], 1);
	assert_int_equal(larder_put_begin(r.c, r.ns, "v", 1, 10, 5000, &s), LARDER_OK);
	assert_int_equal(larder_put_abort(s), LARDER_OK);
	assert_true(list_empty(&r.fake.objects));
	rig_close(&r);
}

/* Those that the caller brought are sent as they are: the right ones, and the wrong ones. */
static void put__checks_that_were_computed_before(void **state)
{
	uint32_t checks[4];
	struct rig r;
	uint8_t *v = value_new(9);
	struct iovec iov[2] = { { v, 1000 }, { v + 1000, VALUE_LEN - 1000 } };
	struct larder_item item = { .key = "v", .key_len = 1, .iov = iov, .iovcnt = 2,
				    .checks = checks };
	struct larder_batch b = { .opcode = LARDER_OP_PUT, .items = &item, .n_items = 1,
				  .deadline_ms = 5000 };
	size_t len;

	rig_open(&r, "values");
	b.ns = r.ns;
	assert_int_equal(larder_check_count(VALUE_LEN), ARRAY_SIZE(checks));
	larder_value_checks(iov, 2, checks);
	assert_int_equal(checks[1], crc32c(0, v + LARDER_CHECK_BLOCK, LARDER_CHECK_BLOCK));
	assert_int_equal(larder_run(r.c, &b), LARDER_OK);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, v, VALUE_LEN, &len, 1000), LARDER_OK);
	checks[3] ^= 1;
	item.key = "w";
	/* this node verifies nothing */
	assert_int_equal(larder_run(r.c, &b), LARDER_OK);
	assert_int_equal(fake_find(&r.fake, "w", 1)->checks[3], checks[3]);
	assert_int_equal(larder_get(r.c, r.ns, "w", 1, v, VALUE_LEN, &len, 1000), LARDER_CHECKSUM);
	rig_close(&r);
	free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get__ranges_at_every_kind_of_edge),
		cmocka_unit_test(put_get__scatter_lists),
		cmocka_unit_test(get__bad_bytes_heal),
		cmocka_unit_test(get__bad_bytes_stay_bad),
		cmocka_unit_test(get__value_of_another_key),
		cmocka_unit_test(put_get__stream_cut_anywhere),
		cmocka_unit_test(put_get__random_pieces),
		cmocka_unit_test(put__busy_is_repeated),
		cmocka_unit_test(put__too_large),
		cmocka_unit_test(put__checks_that_were_computed_before),
		cmocka_unit_test(get__more_than_there_is_room_for),
		cmocka_unit_test(stream__parts_in_any_order_of_blocks),
		cmocka_unit_test(stream__incomplete_commit_and_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
