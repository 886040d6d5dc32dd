/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values and keys at their edges, over tcp and shm: 1, page-1, page, page+1 and max_value bytes,
 * the edges of check blocks; keys of 1, 1024 and 1025 bytes and of any byte; ranges; buffers that
 * are too small; the second writer.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness.h"

#define PAGE 65536u
#define MAX_VALUE (16u << 20)

static struct node node;

static void round_trip(struct larder_client *c, uint32_t ns, const void *key, size_t key_len,
		       size_t len)
{
	uint8_t *value = malloc(len + 1);
	uint8_t *back = malloc(len + 64);
	size_t got = 0;

	assert_non_null(value);
	assert_non_null(back);
	pattern_fill(value, len, len * 31 + key_len);
	memset(back, 0xee, len + 64);
	assert_int_equal(larder_put(c, ns, key, key_len, value, len, 20000), LARDER_OK);
	assert_int_equal(larder_get(c, ns, key, key_len, back, len + 64, &got, 20000), LARDER_OK);
	assert_int_equal(got, len);
	assert_int_equal(pattern_check(back, len, len * 31 + key_len), -1);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(back[len + i], 0xee);
	assert_int_equal(larder_exists(c, ns, key, key_len, 5000), LARDER_OK);
	/* the same again, then another of the same length */
	assert_int_equal(larder_put(c, ns, key, key_len, value, len, 20000), LARDER_EXISTS_SAME);
	value[len / 2] ^= 1;
	assert_int_equal(larder_put(c, ns, key, key_len, value, len, 20000), LARDER_CONFLICT);
	/* one byte too little room: told the size, not one byte written */
	if (len > 1) {
		memset(back, 0xee, len);
		assert_int_equal(larder_get(c, ns, key, key_len, back, len - 1, &got, 20000),
				 LARDER_TOO_SMALL);
		assert_int_equal(got, len);
		for (size_t i = 0; i < len; i++)
			assert_int_equal(back[i], 0xee);
	}
	assert_int_equal(larder_delete(c, ns, key, key_len, 0, 5000), LARDER_OK);
	assert_int_equal(larder_exists(c, ns, key, key_len, 5000), LARDER_NOT_FOUND);
	free(value);
	free(back);
}

static void values_at_their_edges(enum node_transport t)
{
	static const size_t sizes[] = { 1, 2, 4095, 4096, PAGE - 1, PAGE, PAGE + 1,
					LARDER_CHECK_BLOCK - 1, LARDER_CHECK_BLOCK,
					LARDER_CHECK_BLOCK + 1, 3 * LARDER_CHECK_BLOCK + 7,
					4u << 20, MAX_VALUE - 1, MAX_VALUE };
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "values");

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		round_trip(c, ns, "key", 3, sizes[i]);
	larder_close(c);
}

static void values_at_their_edges__tcp(void **state)
{
	values_at_their_edges(NODE_TCP);
}

static void values_at_their_edges__shm(void **state)
{
	values_at_their_edges(NODE_SHM);
}

static void over_max_value__is_refused(void **state)
{
	uint8_t *value = calloc(1, MAX_VALUE + 1);

	assert_non_null(value);
	for (int t = NODE_TCP; t <= NODE_SHM; t++) {
		struct larder_client *c = node_client(&node, (enum node_transport)t);
		uint32_t ns = node_namespace(c, "values");

		assert_int_equal(larder_put(c, ns, "big", 3, value, MAX_VALUE + 1, 20000),
				 LARDER_TOO_LARGE);
		/* the connection is as good as before */
		round_trip(c, ns, "after", 5, 1000);
		larder_close(c);
	}
	free(value);
}

static void keys_of_any_length_and_byte(void **state)
{
	uint8_t key[1025];

	for (int t = NODE_TCP; t <= NODE_SHM; t++) {
		struct larder_client *c = node_client(&node, (enum node_transport)t);
		uint32_t ns = node_namespace(c, "keys");
		size_t got;
		char b[4];
		int r;

		for (unsigned i = 0; i < sizeof(key); i++)
			key[i] = (uint8_t)(i * 7);
		round_trip(c, ns, key, 1, 100);
		round_trip(c, ns, key, 1024, 100);
		r = larder_put(c, ns, key, 1025, "x", 1, 5000);
		assert_true(r == LARDER_BAD_REQUEST || r == -EINVAL);
		r = larder_get(c, ns, key, 1025, b, sizeof(b), &got, 5000);
		assert_true(r == LARDER_BAD_REQUEST || r == -EINVAL);
		r = larder_put(c, ns, key, 0, "x", 1, 5000);
		assert_true(r == LARDER_BAD_REQUEST || r == -EINVAL);
		for (unsigned i = 0; i < 256; i++) {
			key[0] = (uint8_t)i;
			round_trip(c, ns, key, 1, 3);
			key[1] = 0;
			round_trip(c, ns, key, 3, 3);
		}
		larder_close(c);
	}
}

static void ranges__give_exactly_their_bytes(void **state)
{
	const size_t len = 3 * LARDER_CHECK_BLOCK + 1234;
	static const uint64_t edges[] = { 0,
					  1,
					  4095,
					  65536,
					  LARDER_CHECK_BLOCK - 1,
					  LARDER_CHECK_BLOCK,
					  LARDER_CHECK_BLOCK + 1,
					  2 * LARDER_CHECK_BLOCK + 5,
					  3 * LARDER_CHECK_BLOCK + 1233 };
	uint8_t *value = malloc(len), *back = malloc(len + 2);

	assert_non_null(value);
	assert_non_null(back);
	pattern_fill(value, len, 5);
	for (int t = NODE_TCP; t <= NODE_SHM; t++) {
		struct larder_client *c = node_client(&node, (enum node_transport)t);
		uint32_t ns = node_namespace(c, "ranges");

		assert_true(larder_put(c, ns, "r", 1, value, len, 20000) <= LARDER_EXISTS_SAME);
		for (unsigned i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
			for (unsigned k = 0; k < 6; k++) {
				uint64_t n = k < 3 ? k + 1 : k == 3 ? 70000 : k == 4 ?
					     LARDER_CHECK_BLOCK : len;
				struct iovec iov = { back + 1, n };
				struct larder_item item = { .key = "r", .key_len = 1, .iov = &iov,
							    .iovcnt = 1, .offset = edges[i],
							    .length = n };
				struct larder_batch b = { .opcode = LARDER_OP_GET, .ns = ns,
							  .deadline_ms = 20000, .items = &item,
							  .n_items = 1 };
				uint64_t want = n < len - edges[i] ? n : len - edges[i];

				memset(back, 0xdd, len + 2);
				assert_int_equal(larder_run(c, &b), LARDER_OK);
				assert_int_equal(item.done_bytes, want);
				assert_memory_equal(back + 1, value + edges[i], want);
				assert_int_equal(back[0], 0xdd);
				assert_int_equal(back[1 + want], 0xdd);
			}
		}
		larder_close(c);
	}
	free(value);
	free(back);
}

static int setup(void **state)
{
	node_setup(&node, "[engine]\nmax_value = 16M\n");
	node_start(&node);
	return 0;
}

static int teardown(void **state)
{
	node_stop(&node);
	node_cleanup(&node);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_at_their_edges__tcp),
		cmocka_unit_test(values_at_their_edges__shm),
		cmocka_unit_test(over_max_value__is_refused),
		cmocka_unit_test(keys_of_any_length_and_byte),
		cmocka_unit_test(ranges__give_exactly_their_bytes),
	};
	int r = cmocka_run_group_tests(tests, setup, teardown);

	node_cleanup(&node);
	return r;
}
