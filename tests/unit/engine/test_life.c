/* SPDX-License-Identifier: Apache-2.0 */
/* Life of one object: put, get, exists, stat, delete, verify, ttl, and what is refused. */
#include "fixture.h"

#define BLOCK LARDER_CHECK_BLOCK

static void put__then_get_gives_the_bytes(void **state)
{
	const uint64_t lengths[] = { 1, FIXTURE_PAGE - 1, FIXTURE_PAGE, FIXTURE_PAGE + 1, BLOCK - 1,
				     BLOCK, BLOCK + 1, 3 * BLOCK + 17 };
	struct fixture f = {};
	struct engine_object *o;

	fixture_open(&f, 1024);
	for (uint32_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		char key[16];

		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put(&f, key, i, lengths[i]), LARDER_OK);
		assert_int_equal(get(&f, key, &o), LARDER_OK);
		object_assert(o, i, lengths[i]);
		assert_int_equal(engine_object_digest(o), i);
		assert_false(engine_verify(f.r, o));
		engine_unref(f.r, o);
	}
	assert_int_equal(counts(&f).objects, ARRAY_SIZE(lengths));
	assert_int_equal(f.ledger->gauges[0].objects, ARRAY_SIZE(lengths));
	fixture_close(&f);
}

static void put__in_scattered_memory_is_whole(void **state)
{
	struct fixture f = {};
	struct engine_object *o;
	char key[16];

	fixture_open(&f, 64);
	for (uint32_t i = 0; i < 64; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put(&f, key, i, FIXTURE_PAGE), LARDER_OK);
	}
	for (uint32_t i = 0; i < 64; i += 2) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(delete(&f, key, 0), LARDER_OK);
	}
	/* 32 free pages, no two of them neighbours: more runs than a record takes inline */
	assert_int_equal(put(&f, "big", 99, 32 * FIXTURE_PAGE - 5), LARDER_OK);
	assert_int_equal(get(&f, "big", &o), LARDER_OK);
	assert_int_equal(engine_object_n_runs(o), 32);
	object_assert(o, 99, 32 * FIXTURE_PAGE - 5);
	engine_unref(f.r, o);
	fixture_close(&f);
}

static void iov__any_piece(void **state)
{
	struct fixture f = {};
	struct engine_object *o;
	struct iovec iov[4];
	uint64_t bytes;
	uint32_t n;

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "k", 5, 3 * FIXTURE_PAGE), LARDER_OK);
	assert_int_equal(get(&f, "k", &o), LARDER_OK);
	n = engine_object_iov(o, FIXTURE_PAGE - 3, 7, iov, 4, &bytes);
	assert_int_equal(bytes, 7);
	assert_true(n >= 1);
	assert_int_equal(*(uint8_t *)iov[0].iov_base, value_byte(5, FIXTURE_PAGE - 3));
	/* past the end there is nothing, across it only what is there */
	assert_int_equal(engine_object_iov(o, 3 * FIXTURE_PAGE, 9, iov, 4, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(engine_object_iov(o, UINT64_MAX, UINT64_MAX, iov, 4, &bytes), 0);
	(void)engine_object_iov(o, 3 * FIXTURE_PAGE - 2, 100, iov, 4, &bytes);
	assert_int_equal(bytes, 2);
	assert_int_equal(engine_object_iov(o, 0, 100, iov, 0, &bytes), 0);
	assert_int_equal(bytes, 0);
	engine_unref(f.r, o);
	fixture_close(&f);
}

static void put__present_key_is_told(void **state)
{
	struct fixture f = {};
	struct request q;

	fixture_open(&f, 64);
	assert_int_equal(put(&f, "k", 1, 5000), LARDER_OK);
	assert_int_equal(put(&f, "k", 1, 5000), LARDER_EXISTS_SAME);
	assert_int_equal(put(&f, "k", 2, 5000), LARDER_CONFLICT);
	assert_int_equal(put(&f, "k", 1, 5001), LARDER_CONFLICT);
	request_init(&q, &f, LARDER_OP_PUT_BEGIN, "k");
	q.op.length = 5000;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_true(q.op.present);
	request_value(&q, 1, 5000);
	engine_commit(f.r, &q.op);
	assert_int_equal(q.op.status, LARDER_EXISTS_SAME);
	assert_null(q.op.object);
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	request_value(&q, 2, 5000);
	engine_commit(f.r, &q.op);
	assert_int_equal(q.op.status, LARDER_CONFLICT);
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	engine_abort(f.r, &q.op);
	assert_int_equal(counts(&f).references, 0);
	assert_int_equal(presence(&f, "k"), LARDER_PRESENT);
	fixture_close(&f);
}

static void put_begin__commit_brings_the_checks(void **state)
{
	struct fixture f = {};
	struct request q;
	struct engine_object *o;

	fixture_open(&f, 1024);
	request_init(&q, &f, LARDER_OP_PUT_BEGIN, "k");
	q.op.length = 2 * BLOCK + 1;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_false(q.op.present);
	assert_int_equal(presence(&f, "k"), LARDER_FILLING);
	assert_int_equal(touch(&f, "k"), LARDER_NOT_FOUND);
	assert_int_equal(delete(&f, "k", LARDER_F_FORCE), LARDER_NOT_FOUND);
	object_write(q.op.object, 3);
	request_value(&q, 3, 2 * BLOCK + 1);
	engine_commit(f.r, &q.op);
	assert_int_equal(q.op.status, LARDER_OK);
	assert_int_equal(get(&f, "k", &o), LARDER_OK);
	object_assert(o, 3, 2 * BLOCK + 1);
	assert_false(engine_verify(f.r, o));
	engine_unref(f.r, o);
	/* without checks, or with too few, there is no object */
	request_init(&q, &f, LARDER_OP_PUT_BEGIN, "l");
	q.op.length = 2 * BLOCK;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	q.op.checks = q.checks;
	q.op.n_checks = 1;
	engine_commit(f.r, &q.op);
	assert_int_equal(q.op.status, LARDER_BAD_REQUEST);
	assert_int_equal(presence(&f, "l"), LARDER_ABSENT);
	fixture_close(&f);
}

static void put__abort_leaves_nothing(void **state)
{
	struct fixture f = {};
	struct request q;

	fixture_open(&f, 16);
	request_init(&q, &f, LARDER_OP_PUT, "k");
	request_value(&q, 1, 5 * FIXTURE_PAGE);
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(counts(&f).filling, 1);
	assert_int_equal(counts(&f).free_pages, 11);
	engine_abort(f.r, &q.op);
	assert_int_equal(counts(&f).free_pages, 16);
	assert_int_equal(presence(&f, "k"), LARDER_ABSENT);
	assert_int_equal(put(&f, "k", 1, 5 * FIXTURE_PAGE), LARDER_OK);
	fixture_close(&f);
}

static int put_raw(struct fixture *f, const void *key, uint16_t key_len, uint64_t length,
		   uint32_t n_checks)
{
	struct request q;

	request_init(&q, f, LARDER_OP_PUT, "x");
	q.key.key = key;
	q.key.key_len = key_len;
	q.op.length = length;
	q.op.checks = q.checks;
	q.op.n_checks = n_checks;
	if (request_run(f->r, &q) == LARDER_OK)
		engine_commit(f->r, &q.op);
	return q.op.status;
}

static void put__refuses_what_makes_no_sense(void **state)
{
	static uint8_t key[LARDER_KEY_MAX + 1];
	struct fixture f = { .config.max_value_bytes = 8 * FIXTURE_PAGE };
	struct request q;

	fixture_open(&f, 16);
	assert_int_equal(put_raw(&f, key, 0, 1, 1), LARDER_BAD_REQUEST);
	assert_int_equal(put_raw(&f, key, LARDER_KEY_MAX + 1, 1, 1), LARDER_BAD_REQUEST);
	assert_int_equal(put_raw(&f, key, 1, 0, 0), LARDER_BAD_REQUEST);
	assert_int_equal(put_raw(&f, key, 1, 1, 0), LARDER_BAD_REQUEST);
	assert_int_equal(put_raw(&f, key, 1, 1, 2), LARDER_BAD_REQUEST);
	assert_int_equal(put_raw(&f, key, 1, 8 * FIXTURE_PAGE + 1, 1), LARDER_TOO_LARGE);
	assert_int_equal(put_raw(&f, key, 1, UINT64_MAX, 1), LARDER_TOO_LARGE);
	assert_int_equal(put_raw(&f, key, 1, 8 * FIXTURE_PAGE, 1), LARDER_OK);
	assert_int_equal(put_raw(&f, key, LARDER_KEY_MAX, 1, 1), LARDER_OK);
	assert_int_equal(put_raw(&f, key, LARDER_KEY_MAX - 1, 1, 1), LARDER_OK);
	request_init(&q, &f, LARDER_OP_PING, "x");
	assert_int_equal(request_run(f.r, &q), LARDER_UNSUPPORTED);
	request_init(&q, &f, LARDER_OP_GET, "x");
	q.op.deadline_ns = f.now_ns;
	assert_int_equal(request_run(f.r, &q), LARDER_DEADLINE);
	fixture_close(&f);
}

static void put__larger_than_the_arena_is_too_large(void **state)
{
	struct fixture f = {};

	fixture_open(&f, 16);
	assert_int_equal(put_raw(&f, "k", 1, 17 * FIXTURE_PAGE, 1), LARDER_TOO_LARGE);
	fixture_close(&f);
}

static void stat__describes(void **state)
{
	struct fixture f = {};
	struct larder_stat st[2];
	struct larder_op_key keys[2] = { { .key = "k", .key_len = 1 },
					 { .key = "z", .key_len = 1 } };
	struct request q;
	uint64_t length = 2 * BLOCK + 100;
	uint32_t crc = 0;

	fixture_open(&f, 1024);
	assert_int_equal(put(&f, "k", 1, length), LARDER_OK);
	assert_int_equal(touch(&f, "k"), LARDER_OK);
	assert_int_equal(lease(&f, "k", 1, 5000), LARDER_LEASED);
	fixture_advance(&f, 2 * NSEC_PER_SEC);
	request_init(&q, &f, LARDER_OP_STAT, "k");
	q.op.keys = keys;
	q.op.n_keys = 2;
	q.op.stats = st;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(keys[0].status, LARDER_OK);
	assert_int_equal(keys[1].status, LARDER_NOT_FOUND);
	assert_int_equal(st[0].size_bytes, length);
	assert_int_equal(st[0].digest, 1);
	assert_int_equal(st[0].hits, 1);
	assert_int_equal(st[0].age_ms, 2000);
	assert_int_equal(st[0].lease_ms, 3000);
	assert_int_equal(st[0].commit_time_ms, f.wall_ms - 2000);
	for (uint64_t at = 0; at < length; at++) {
		uint8_t byte = value_byte(1, at);

		crc = crc32c(crc, &byte, 1);
	}
	assert_int_equal(st[0].crc32c, crc);
	fixture_close(&f);
}

static void by_hash__finds_the_key(void **state)
{
	struct fixture f = {};
	uint8_t hash[LARDER_KEY_HASH_SIZE];
	struct request q;
	struct larder_stat st;

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "some key", 1, 10), LARDER_OK);
	larder_key_hash("some key", 8, hash);
	request_init(&q, &f, LARDER_OP_GET, "");
	q.op.flags = LARDER_F_BY_HASH;
	q.key.key = hash;
	q.key.key_len = sizeof(hash);
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	object_assert(q.op.object, 1, 10);
	engine_unref(f.r, q.op.object);
	q.op.opcode = LARDER_OP_STAT;
	q.op.stats = &st;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(st.size_bytes, 10);
	hash[0] ^= 1;		/* the same low half, another key */
	assert_int_equal(request_run(f.r, &q), LARDER_NOT_FOUND);
	q.key.key_len = 15;
	q.op.opcode = LARDER_OP_GET;
	assert_int_equal(request_run(f.r, &q), LARDER_BAD_REQUEST);
	hash[0] ^= 1;
	q.key.key_len = sizeof(hash);
	q.op.opcode = LARDER_OP_DELETE;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.op.count, 1);
	assert_int_equal(presence(&f, "some key"), LARDER_ABSENT);
	fixture_close(&f);
}

static void delete__does_not_cut_a_reader(void **state)
{
	struct fixture f = {};
	struct engine_object *o, *again;

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "k", 1, 8 * FIXTURE_PAGE), LARDER_OK);
	assert_int_equal(get(&f, "k", &o), LARDER_OK);
	assert_int_equal(delete(&f, "k", 0), LARDER_OK);
	assert_int_equal(delete(&f, "k", 0), LARDER_NOT_FOUND);
	assert_int_equal(touch(&f, "k"), LARDER_NOT_FOUND);
	assert_int_equal(counts(&f).doomed, 1);
	assert_int_equal(counts(&f).free_pages, 8);
	/* the key can be had again at once, beside what is still read */
	assert_int_equal(put(&f, "k", 2, 8 * FIXTURE_PAGE), LARDER_OK);
	object_assert(o, 1, 8 * FIXTURE_PAGE);
	assert_int_equal(get(&f, "k", &again), LARDER_OK);
	object_assert(again, 2, 8 * FIXTURE_PAGE);
	engine_unref(f.r, again);
	engine_unref(f.r, o);
	assert_int_equal(counts(&f).doomed, 0);
	assert_int_equal(counts(&f).free_pages, 8);
	fixture_close(&f);
}

static void verify__bad_pages_are_quarantined_and_heal(void **state)
{
	struct fixture f = {};
	struct engine_object *o;
	struct iovec iov;
	uint64_t bytes;

	fixture_open(&f, 256);
	assert_int_equal(put(&f, "k", 1, BLOCK + 10), LARDER_OK);
	assert_int_equal(get(&f, "k", &o), LARDER_OK);
	assert_int_equal(engine_object_iov(o, BLOCK + 9, 1, &iov, 1, &bytes), 1);
	*(uint8_t *)iov.iov_base ^= 4;
	assert_true(engine_verify(f.r, o));
	assert_true(engine_verify(f.r, o));
	assert_int_equal(touch(&f, "k"), LARDER_NOT_FOUND);
	assert_int_equal(put(&f, "k", 1, BLOCK + 10), LARDER_OK);
	engine_unref(f.r, o);
	assert_int_equal(get(&f, "k", &o), LARDER_OK);
	assert_false(engine_verify(f.r, o));
	engine_unref(f.r, o);
	fixture_close(&f);
}

static int put_ttl(struct fixture *f, const char *key, uint32_t ttl_ms)
{
	struct request q;

	request_init(&q, f, LARDER_OP_PUT, key);
	request_value(&q, 1, 10);
	q.op.ttl_ms = ttl_ms;
	if (request_run(f->r, &q) == LARDER_OK)
		engine_commit(f->r, &q.op);
	return q.op.status;
}

static void ttl__expired_is_not_found(void **state)
{
	struct fixture f = {};

	fixture_open(&f, 16);
	assert_int_equal(put_ttl(&f, "a", 1000), LARDER_OK);
	assert_int_equal(put_ttl(&f, "b", 1000), LARDER_OK);
	assert_int_equal(put_ttl(&f, "c", 1000), LARDER_OK);
	assert_int_equal(put_ttl(&f, "d", 0), LARDER_OK);
	assert_int_equal(lease(&f, "c", 1, 5000), LARDER_LEASED);
	fixture_advance(&f, 999 * NSEC_PER_MSEC);
	assert_int_equal(touch(&f, "a"), LARDER_OK);
	fixture_advance(&f, 1 * NSEC_PER_MSEC);
	assert_int_equal(touch(&f, "a"), LARDER_NOT_FOUND);	/* taken out on the way */
	assert_int_equal(counts(&f).objects, 3);
	assert_int_equal(touch(&f, "c"), LARDER_OK);		/* a lease is a promise */
	fixture_advance(&f, 70 * NSEC_PER_SEC);
	for (unsigned i = 0; i < 10 && counts(&f).objects > 1; i++)
		assert_null(engine_poll(f.r));
	assert_int_equal(counts(&f).objects, 1);		/* the sweep found the rest */
	assert_int_equal(touch(&f, "d"), LARDER_OK);
	assert_int_equal(ledger_usage(f.ledger, 0, 0)->expired_objects, 3);
	fixture_close(&f);
}

static void exists__run_and_counts(void **state)
{
	struct larder_op_key keys[100];
	char names[100][8];
	struct fixture f = { .config.shards = 64 };
	struct request q;

	fixture_open(&f, 128);
	for (uint32_t i = 0; i < 100; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "k%02u", i);
		keys[i] = (struct larder_op_key){ .key = names[i], .key_len = 3 };
		if (i != 70 && i != 90)
			assert_int_equal(put(&f, names[i], i, 1 + i), LARDER_OK);
	}
	request_init(&q, &f, LARDER_OP_EXISTS, "");
	q.op.keys = keys;
	q.op.n_keys = 100;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.op.leading_run, 70);
	for (uint32_t i = 0; i < 100; i++) {
		bool there = i != 70 && i != 90;

		assert_int_equal(keys[i].presence, there ? LARDER_PRESENT : LARDER_ABSENT);
		assert_int_equal(keys[i].status, there ? LARDER_OK : LARDER_NOT_FOUND);
	}
	assert_int_equal(ledger_usage(f.ledger, 0, 0)->exists_keys, 100);
	assert_int_equal(ledger_usage(f.ledger, 0, 0)->exists_present, 98);
	assert_int_equal(ledger_usage(f.ledger, 0, 0)->leading_run_keys, 70);
	assert_int_equal(ledger_usage(f.ledger, 0, 0)->put_new, 98);
	keys[3].key_len = 0;
	assert_int_equal(request_run(f.r, &q), LARDER_BAD_REQUEST);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put__then_get_gives_the_bytes),
		cmocka_unit_test(put__in_scattered_memory_is_whole),
		cmocka_unit_test(iov__any_piece),
		cmocka_unit_test(put__present_key_is_told),
		cmocka_unit_test(put_begin__commit_brings_the_checks),
		cmocka_unit_test(put__abort_leaves_nothing),
		cmocka_unit_test(put__refuses_what_makes_no_sense),
		cmocka_unit_test(put__larger_than_the_arena_is_too_large),
		cmocka_unit_test(stat__describes),
		cmocka_unit_test(by_hash__finds_the_key),
		cmocka_unit_test(delete__does_not_cut_a_reader),
		cmocka_unit_test(verify__bad_pages_are_quarantined_and_heal),
		cmocka_unit_test(ttl__expired_is_not_found),
		cmocka_unit_test(exists__run_and_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
