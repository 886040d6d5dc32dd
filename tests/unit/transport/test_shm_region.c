/* SPDX-License-Identifier: Apache-2.0 */
/* shm's regions: the right bytes at the right place, ranges, limits, what is refused. */
#include "shm_pair.h"

static void region__read_and_write_move_the_right_bytes(void **state)
{
	static const size_t sizes[] = {
		1, 63, 64, 65, 4095, 65536, 65537, 262144, 262145, 3000001,
	};
	struct pair *p = pair_connected();
	size_t total = 4u << 20;
	uint8_t *pages = malloc(total), *expect = malloc(total);
	struct shared s;
	struct prng prng;

	assert_true(pages && expect);
	prng_seed(&prng, 42);
	print_message("seed 42\n");
	shared_join(p, &s, total);
	for (size_t i = 0; i < ARRAY_SIZE(sizes) * 4; i++) {
		size_t len = sizes[i % ARRAY_SIZE(sizes)];
		size_t at = prng_below(&prng, total - len + 1);
		size_t from = prng_below(&prng, total - len + 1);

		fill(s.addr, total, i);
		memcpy(expect, s.addr, total);
		fill(pages, total, ~i);
		memcpy(expect + at, pages + from, len);
		assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages + from, len, at,
					   TRANSPORT_NO_GATE), 1);
		pair_settle(p);
		assert_int_equal(side_find(&p->node, TRANSPORT_WRITE_DONE)->status, 0);
		assert_memory_equal(s.addr, expect, total);

		memcpy(expect, pages, total);
		fill(s.addr + at, len, i + 99);
		memcpy(expect + from, s.addr + at, len);
		assert_int_equal(node_move(p, TRANSPORT_READ, s.node, pages + from, len, at,
					   TRANSPORT_NO_GATE), 1);
		pair_settle(p);
		assert_int_equal(side_find(&p->node, TRANSPORT_READ_DONE)->status, 0);
		assert_memory_equal(pages, expect, total);
		p->node.n = p->client.n = 0;
	}
	free(pages);
	free(expect);
	shared_free(&s);
	pair_free(p);
}

/* Pieces of all sizes, more than one descriptor's worth of the ring, many times around it. */
static void region__scattered_pages_keep_their_order(void **state)
{
	struct pair *p = pair_connected();
	size_t total = 1u << 20;
	uint8_t *pages = malloc(total);
	struct shared s;
	struct prng prng;

	assert_non_null(pages);
	prng_seed(&prng, 7);
	print_message("seed 7\n");
	shared_join(p, &s, total);
	for (int round = 0; round < 200; round++) {
		struct iovec iov[SHM_MAX_IOV];
		struct transport_tx tx = {
			.type = TRANSPORT_WRITE, .iov = iov, .region = s.node,
			.gate = TRANSPORT_NO_GATE, .cookie = (uint64_t)round,
		};
		size_t used = 0;

		fill(pages, total, (uint64_t)round);
		memset(s.addr, 0, total);
		tx.niov = (uint16_t)(1 + prng_below(&prng, SHM_MAX_IOV));
		for (uint32_t i = 0; i < tx.niov; i++) {
			iov[i].iov_base = pages + used;
			iov[i].iov_len = prng_below(&prng, 16000);
			used += iov[i].iov_len;
		}
		if (used > total)
			continue;
		assert_int_equal(transport_tx(p->node.conn, &tx, 1), 1);
		pair_settle(p);
		assert_int_equal(side_find(&p->node, TRANSPORT_WRITE_DONE)->cookie, round);
		assert_memory_equal(s.addr, pages, used);
		for (size_t i = used; i < total; i++)
			assert_int_equal(s.addr[i], 0);
		p->node.n = 0;
	}
	free(pages);
	shared_free(&s);
	pair_free(p);
}

static void copy__range_is_checked(void **state)
{
	struct pair *p = pair_connected();
	struct shared s;
	uint8_t page[4096];
	static const struct { uint64_t offset; size_t len; int status; } cases[] = {
		{ 0, 4096, 0 }, { 8192, 4096, -ERANGE }, { 8191, 1, 0 }, { 8191, 2, -ERANGE },
		{ UINT64_MAX, 4096, -ERANGE }, { 8192, 0, 0 }, { 8193, 0, -ERANGE },
	};

	shared_join(p, &s, 8192);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(node_move(p, TRANSPORT_READ, s.node, page, cases[i].len,
					   cases[i].offset, TRANSPORT_NO_GATE), 1);
		pair_settle(p);
		assert_int_equal(side_count(&p->node, TRANSPORT_READ_DONE), i + 1);
		assert_int_equal(side_find(&p->node, TRANSPORT_READ_DONE)->status,
				 cases[i].status);
	}
	assert_int_equal(node_move(p, TRANSPORT_READ, s.node, page, 1, 0, 16), 1);
	pair_settle(p);
	assert_int_equal(side_find(&p->node, TRANSPORT_READ_DONE)->status, -ERANGE);
	assert_non_null(p->node.conn);
	shared_free(&s);
	pair_free(p);
}

static void region__limits_are_kept(void **state)
{
	struct pair *p = pair_new();
	struct shared s[9];

	p->config.max_region_bytes = 8192;
	p->config.max_regions = 3;
	pair_listen(p);
	pair_connect(p);
	shared_join(p, &s[0], 4096);
	shared_make(&s[1], 8192);
	assert_int_equal(shared_add(p, &s[1]), 0);
	assert_int_equal(shared_import(p, &s[1]), -EAGAIN);	/* not arrived yet */
	pair_settle(p);
	assert_int_equal(shared_import(p, &s[1]), -EDQUOT);
	assert_int_equal(shared_import(p, &s[1]), -EAGAIN);	/* and it was let go */
	shared_join(p, &s[2], 100);				/* a page of bytes */
	shared_make(&s[3], 100);
	assert_int_equal(shared_add(p, &s[3]), 0);
	pair_settle(p);
	assert_int_equal(shared_import(p, &s[3]), -EDQUOT);	/* bytes are used up */
	assert_int_equal(p->node.t->ops->region_del(s[0].node), 0);
	s[0].node = NULL;
	shared_join(p, &s[4], 10);
	for (int i = 0; i < 5; i++)
		shared_free(&s[i]);
	assert_non_null(p->node.conn);
	pair_free(p);
}

static void region__of_ordinary_memory_is_refused(void **state)
{
	struct pair *p = pair_connected();
	struct transport_region *r;
	uint8_t opaque[TRANSPORT_OPAQUE_MAX];
	char memory[100];
	size_t len;
	int fd;

	assert_int_equal(p->client.t->ops->region_add(p->client.conn, memory, 100, -1, 0, opaque,
						      &len, &r), -EOPNOTSUPP);
	fd = memfd_make(4096, 0, 0);		/* not sealed */
	assert_int_equal(p->client.t->ops->region_add(p->client.conn, memory, 100, fd, 0, opaque,
						      &len, &r), -EINVAL);
	assert_int_equal(close(fd), 0);
	fd = memfd_make(4096, 0, PAIR_SEALS);	/* too small */
	assert_int_equal(p->client.t->ops->region_add(p->client.conn, memory, 100, fd, 4000,
						      opaque, &len, &r), -EINVAL);
	assert_int_equal(close(fd), 0);
	assert_int_equal(p->node.t->ops->region_add(p->node.conn, memory, 100, -1, 0, opaque, &len,
						    &r), -EOPNOTSUPP);
	pair_free(p);
}

static void region__in_the_middle_of_a_memfd(void **state)
{
	struct pair *p = pair_connected();
	struct transport_region *mine, *theirs;
	uint8_t opaque[TRANSPORT_OPAQUE_MAX];
	uint8_t out[1000], in[1000];
	struct shared s;
	size_t len;

	shared_make(&s, 5u << 20);
	for (size_t offset = 1; offset < s.bytes - 1000; offset += 777777) {
		fill(s.addr, s.bytes, offset);
		assert_int_equal(p->client.t->ops->region_add(p->client.conn, s.addr + offset, 1000,
							      s.fd, offset, opaque, &len, &mine),
				 0);
		pair_settle(p);
		assert_int_equal(p->node.t->ops->region_import(p->node.conn, opaque, len, 1000,
							       &theirs), 0);
		assert_int_equal(node_move(p, TRANSPORT_READ, theirs, in, 1000, 0,
					   TRANSPORT_NO_GATE), 1);
		pair_settle(p);
		assert_memory_equal(in, s.addr + offset, 1000);
		fill(out, sizeof(out), offset + 1);
		assert_int_equal(node_move(p, TRANSPORT_WRITE, theirs, out, 1000, 0,
					   TRANSPORT_NO_GATE), 1);
		assert_int_equal(p->node.t->ops->region_del(theirs), -EBUSY);
		pair_settle(p);
		assert_memory_equal(out, s.addr + offset, 1000);
		assert_int_equal(p->node.t->ops->region_del(theirs), 0);
		assert_int_equal(p->client.t->ops->region_del(mine), 0);
	}
	shared_free(&s);
	pair_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(region__read_and_write_move_the_right_bytes),
		cmocka_unit_test(region__scattered_pages_keep_their_order),
		cmocka_unit_test(copy__range_is_checked),
		cmocka_unit_test(region__limits_are_kept),
		cmocka_unit_test(region__of_ordinary_memory_is_refused),
		cmocka_unit_test(region__in_the_middle_of_a_memfd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
