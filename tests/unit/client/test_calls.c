/* SPDX-License-Identifier: Apache-2.0 */
/* Every public call once against a node that behaves, and what is refused before it is sent. */
#include "fake_node.h"

static void put_get__same_bytes(void **state)
{
	struct rig r;
	uint8_t value[1000], back[1000];
	size_t len = 0;

	rig_open(&r, "calls");
	rig_fill(value, sizeof(value), 1);
	assert_int_equal(larder_put(r.c, r.ns, "key", 3, value, sizeof(value), 1000), LARDER_OK);
	assert_int_equal(larder_get(r.c, r.ns, "key", 3, back, sizeof(back), &len, 1000),
			 LARDER_OK);
	assert_int_equal(len, sizeof(value));
	assert_memory_equal(value, back, sizeof(value));
	rig_close(&r);
}

static void put__existing_key(void **state)
{
	struct rig r;

	rig_open(&r, "calls");
	assert_int_equal(larder_put(r.c, r.ns, "k", 1, "one", 3, 1000), LARDER_OK);
	assert_int_equal(larder_put(r.c, r.ns, "k", 1, "one", 3, 1000), LARDER_EXISTS_SAME);
	assert_int_equal(larder_put(r.c, r.ns, "k", 1, "two", 3, 1000), LARDER_CONFLICT);
	assert_string_equal(larder_last_error(), larder_status_text(LARDER_CONFLICT));
	rig_close(&r);
}

static void get__absent_and_too_small(void **state)
{
	struct rig r;
	uint8_t buffer[16], before[16];
	size_t len = 7;

	rig_open(&r, "calls");
	memset(buffer, 0xee, sizeof(buffer));
	memcpy(before, buffer, sizeof(buffer));
	assert_int_equal(larder_get(r.c, r.ns, "no", 2, buffer, sizeof(buffer), &len, 1000),
			 LARDER_NOT_FOUND);
	assert_int_equal(len, 7);
	assert_int_equal(larder_put(r.c, r.ns, "k", 1, "12345678901234567", 17, 1000), LARDER_OK);
	assert_int_equal(larder_get(r.c, r.ns, "k", 1, buffer, sizeof(buffer), &len, 1000),
			 LARDER_TOO_SMALL);
	assert_int_equal(len, 17);
	assert_memory_equal(buffer, before, sizeof(buffer));
	assert_int_equal(larder_get(r.c, r.ns, "k", 1, NULL, 0, &len, 1000), LARDER_TOO_SMALL);
	rig_close(&r);
}

static bool take_name(void *user, const struct larder_ns_info *i)
{
	assert_string_equal(i->name, "space");
	(*(int *)user)++;
	return true;
}

static bool take_key(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	assert_int_equal(key_len, 1);
	*(uint64_t *)user += st->size_bytes;
	return true;
}

static void other_calls__work(void **state)
{
	struct rig r;
	struct larder_stat st;
	struct larder_descriptor d;
	struct larder_client_info info;
	uint64_t objects = 0, bytes = 0, cursor = 0, sum = 0;
	int names = 0;

	rig_open(&r, "calls");
	assert_int_equal(larder_put(r.c, r.ns, "a", 1, "xyz", 3, 1000), LARDER_OK);
	assert_int_equal(larder_exists(r.c, r.ns, "a", 1, 1000), LARDER_OK);
	assert_int_equal(larder_exists(r.c, r.ns, "b", 1, 1000), LARDER_NOT_FOUND);
	assert_int_equal(larder_stat(r.c, r.ns, "a", 1, 0, 1000, &st), LARDER_OK);
	assert_int_equal(st.size_bytes, 3);
	assert_int_equal(larder_list(r.c, r.ns, "", 0, &cursor, 0, take_key, &sum, 1000),
			 LARDER_OK);
	assert_int_equal(sum, 3);
	assert_int_equal(larder_ns_list(r.c, take_name, &names, 1000), LARDER_OK);
	assert_int_equal(names, 1);
	assert_int_equal(larder_ns_flush(r.c, r.ns, false, 1000, &objects, &bytes), LARDER_OK);
	assert_int_equal(objects, 2);
	assert_int_equal(bytes, 20);
	assert_int_equal(larder_delete(r.c, r.ns, "a", 1, 0, 1000), LARDER_OK);
	assert_int_equal(larder_delete(r.c, r.ns, "a", 1, 0, 1000), LARDER_NOT_FOUND);
	assert_int_equal(larder_ping(r.c, 1000), LARDER_OK);
	assert_int_equal(larder_ns_descriptor(r.c, r.ns, &d), LARDER_OK);
	assert_true(larder_descriptor_is_empty(&d));
	assert_int_equal(larder_ns_descriptor(r.c, r.ns + 1, &d), LARDER_NOT_FOUND);
	larder_get_info(r.c, &info);
	assert_true(info.connected);
	assert_int_equal(info.credits, 32);
	assert_string_equal(info.url, "loop://calls");
	rig_close(&r);
}

static void ns_open__another_layout(void **state)
{
	struct rig r;
	struct larder_descriptor d = { .tp = 3 };
	uint32_t ns = 99;

	rig_open(&r, "calls");
	assert_int_equal(larder_ns_open(r.c, "other", &d, 0, 1000, &ns), LARDER_LAYOUT_MISMATCH);
	assert_string_equal(larder_last_error(), "tp");
	assert_int_equal(ns, 99);
	rig_close(&r);
}

static void arguments__that_make_no_sense(void **state)
{
	struct rig r;
	uint8_t key[1025] = { 1 };
	struct larder_batch b = { .opcode = LARDER_OP_LIST };
	uint32_t ns;

	rig_open(&r, "calls");
	assert_int_equal(larder_put(r.c, r.ns, key, 0, "v", 1, 1000), -EINVAL);
	assert_int_equal(larder_put(r.c, r.ns, key, 1025, "v", 1, 1000), -EINVAL);
	assert_int_equal(larder_put(r.c, r.ns, key, 1024, "v", 1, 1000), LARDER_OK);
	assert_int_equal(larder_put(r.c, r.ns, key, 1, "", 0, 1000), -EINVAL);
	assert_int_equal(larder_run(r.c, &b), -EINVAL);
	b.opcode = LARDER_OP_GET;
	assert_int_equal(larder_run(r.c, &b), -EINVAL);
	assert_int_equal(larder_ns_open(r.c, "", NULL, 0, 1000, &ns), -EINVAL);
	assert_int_equal(larder_put(r.c, 4711, key, 1, "v", 1, 1000), LARDER_BAD_REQUEST);
	rig_close(&r);
}

static void batch__values_go_from_last_to_first(void **state)
{
	struct rig r;
	struct larder_item items[5];
	struct iovec iov[5];
	char keys[5], values[5];
	struct larder_batch b = { .opcode = LARDER_OP_PUT, .items = items, .n_items = 5 };

	rig_open(&r, "calls");
	memset(items, 0, sizeof(items));
	for (int i = 0; i < 5; i++) {
		keys[i] = (char)('a' + i);
		values[i] = (char)(i + 1);
		iov[i] = (struct iovec){ &values[i], 1 };
		items[i].key = &keys[i];
		items[i].key_len = 1;
		items[i].iov = &iov[i];
		items[i].iovcnt = 1;
	}
	b.ns = r.ns;
	r.fake.n_index = 0;
	assert_int_equal(larder_run(r.c, &b), LARDER_OK);
	assert_int_equal(b.n_done, 5);
	assert_int_equal(r.fake.n_index, 5);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(r.fake.last_index[i], 4 - i);
	assert_true(r.fake.saw_last);
	assert_true(r.fake.last_batch != 0);
	b.opcode = LARDER_OP_GET;
	r.fake.n_index = 0;
	memset(values, 0, sizeof(values));
	assert_int_equal(larder_run(r.c, &b), LARDER_OK);
	for (int i = 0; i < 5; i++)
		assert_int_equal(values[i], i + 1);
	assert_int_equal(r.fake.last_index[0], 4);
	rig_close(&r);
}

static void exists__many_keys_and_leading_run(void **state)
{
	enum { N = 3000 };
	struct rig r;
	struct larder_item *items = calloc(N, sizeof(*items));
	char (*keys)[16] = calloc(N, 16);
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .items = items, .n_items = N };

	assert_non_null(items);
	assert_non_null(keys);
	rig_open(&r, "calls");
	for (int i = 0; i < N; i++) {
		snprintf(keys[i], 16, "key%06d", i);
		items[i].key = keys[i];
		items[i].key_len = 9;
		if (i != 2500 && i < 2900)
			(void)fake_put(&r.fake, keys[i], "v", 1);
	}
	b.ns = r.ns;
	assert_int_equal(larder_run(r.c, &b), LARDER_NOT_FOUND);
	assert_int_equal(b.leading_run, 2500);
	assert_int_equal(items[2501].presence, LARDER_PRESENT);
	assert_int_equal(items[2501].status, LARDER_OK);
	assert_int_equal(items[2950].status, LARDER_NOT_FOUND);
	assert_true(r.fake.count[LARDER_OP_EXISTS] <= 4);
	b.opcode = LARDER_OP_STAT;
	assert_int_equal(larder_run(r.c, &b), LARDER_NOT_FOUND);
	assert_int_equal(items[2899].stat.size_bytes, 1);
	rig_close(&r);
	free(items);
	free(keys);
}

static void release__without_keys(void **state)
{
	struct rig r;
	struct larder_batch b = { .opcode = LARDER_OP_RELEASE, .lease_id = 5 };

	rig_open(&r, "calls");
	b.ns = r.ns;
	assert_int_equal(larder_run(r.c, &b), LARDER_OK);
	assert_int_equal(r.fake.count[LARDER_OP_RELEASE], 1);
	rig_close(&r);
}

static void pin__flags_and_a_status_per_key(void **state)
{
	struct rig r;
	struct larder_item items[2] = { { .key = "a", .key_len = 1 },
					{ .key = "b", .key_len = 1 } };
	struct larder_batch b = { .opcode = LARDER_OP_PIN, .flags = LARDER_F_HARD, .items = items,
				  .n_items = 2 };

	rig_open(&r, "calls");
	(void)fake_put(&r.fake, "b", "v", 1);
	b.ns = r.ns;
	assert_int_equal(larder_run(r.c, &b), LARDER_NOT_FOUND);
	assert_int_equal(items[0].status, LARDER_NOT_FOUND);
	assert_int_equal(items[1].status, LARDER_OK);
	assert_int_equal(r.fake.last_flags, LARDER_F_HARD);
	b.opcode = LARDER_OP_UNPIN;
	b.n_items = 0;
	assert_int_equal(larder_run(r.c, &b), -EINVAL);
	b.items = &items[1];
	b.n_items = 1;
	assert_int_equal(larder_run(r.c, &b), LARDER_OK);
	assert_int_equal(r.fake.count[LARDER_OP_UNPIN], 1);
	rig_close(&r);
}

static void count_done(void *user, struct larder_batch *b, uint32_t index)
{
	assert_int_not_equal(b->items[index].status, -1);
	(*(uint32_t *)user)++;
}

static void submit__comes_back_once(void **state)
{
	struct rig r;
	struct larder_item item = { .key = "k", .key_len = 1 };
	uint32_t done = 0;
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .items = &item, .n_items = 1,
				  .item_done = count_done, .user = &done };
	struct larder_batch *back[4];

	rig_open(&r, "calls");
	b.ns = r.ns;
	assert_int_equal(larder_submit(r.c, &b), 0);
	assert_int_equal(larder_poll(r.c, back, 4), 0);
	rig_turn(&r, 50);
	assert_int_equal(larder_poll(r.c, back, 4), 1);
	assert_ptr_equal(back[0], &b);
	assert_int_equal(done, 1);
	assert_int_equal(b.n_done, 1);
	assert_int_equal(larder_poll(r.c, back, 4), 0);
	assert_int_equal(larder_cancel(r.c, &b), -ENOENT);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_get__same_bytes),
		cmocka_unit_test(put__existing_key),
		cmocka_unit_test(get__absent_and_too_small),
		cmocka_unit_test(other_calls__work),
		cmocka_unit_test(ns_open__another_layout),
		cmocka_unit_test(arguments__that_make_no_sense),
		cmocka_unit_test(batch__values_go_from_last_to_first),
		cmocka_unit_test(exists__many_keys_and_leading_run),
		cmocka_unit_test(release__without_keys),
		cmocka_unit_test(pin__flags_and_a_status_per_key),
		cmocka_unit_test(submit__comes_back_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
