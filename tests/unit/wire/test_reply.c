/* SPDX-License-Identifier: Apache-2.0 */
/* Replies: every kind there and back, and bent as a broken or hostile node would bend them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "samples_reply.h"

static uint8_t buffer[2 * WIRE_MESSAGE_MAX];

static struct wire_header build(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_replies); i++) {
		struct wire_writer w;

		if (strcmp(sample_replies[i].name, name))
			continue;
		wire_begin(&w, buffer, WIRE_MESSAGE_MAX);
		assert_true(sample_replies[i].build(&w) > 0);
		return sample_header(buffer);
	}
	fail_msg("no sample %s", name);
	return (struct wire_header){ 0 };
}

/* From memory of exactly the body's length. */
static int decode(const struct wire_header *h)
{
	struct wire_reply r;
	uint8_t *body = malloc(h->body_len ? h->body_len : 1);
	int rc;

	assert_non_null(body);
	memcpy(body, buffer + WIRE_HEADER_SIZE, h->body_len);
	rc = wire_reply_decode(h, body, &r);
	free(body);
	return rc;
}

static void every_operation__has_a_sample(void **state)
{
	for (unsigned op = 0; op < 256; op++) {
		const struct wire_op_info *info = wire_op_info((uint8_t)op);
		bool found = false;

		for (size_t i = 0; i < ARRAY_SIZE(sample_replies); i++)
			found |= sample_replies[i].op == op;
		assert_int_equal(found, info != NULL);
		if (info)
			assert_in_range(info->reply_size, 8, sizeof(((struct wire_reply *)0)->u));
	}
}

static void decode__gives_back_what_was_written(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_replies); i++) {
		const struct sample *s = &sample_replies[i];
		struct wire_header h = build(s->name);
		const uint8_t *body = buffer + WIRE_HEADER_SIZE;
		bool error = strncmp(s->name, "error", 5) == 0;
		uint32_t fixed = error ? sizeof(struct wire_error) :
				 wire_op_info(s->op)->reply_size;
		struct wire_reply r;

		assert_int_equal(wire_header_check(&h, WIRE_MESSAGE_MAX), 0);
		assert_int_equal(wire_body_check(&h, body), 0);
		if (wire_reply_decode(&h, body, &r))
			fail_msg("sample %s", s->name);
		assert_int_equal(r.is_error, error);
		assert_int_equal(r.header.request_id, SAMPLE_ID);
		assert_memory_equal(&r.u, body, fixed);
		if (s->op == LARDER_OP_GET && !error)
			assert_int_equal(fixed + r.u.got.n_checks * 4, h.body_len);
		else
			assert_int_equal(fixed + r.tail_len, h.body_len);
		if (r.tail_len)
			assert_ptr_equal(r.tail, body + fixed);
	}
}

static void decode__body_cut_at_every_byte(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_replies); i++) {
		struct wire_header h = build(sample_replies[i].name);

		for (uint32_t full = h.body_len, len = 0; len < full; len++) {
			h.body_len = len;
			if (decode(&h) != -EBADMSG)
				fail_msg("%s cut to %u", sample_replies[i].name, len);
		}
	}
}

static void decode__body_with_bytes_behind_it(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_replies); i++) {
		struct wire_header h;
		uint32_t full;

		memset(buffer, 0, sizeof(buffer));
		h = build(sample_replies[i].name);
		full = h.body_len;
		for (uint32_t more = 1; more <= 128; more++) {
			h.body_len = full + more;
			if (decode(&h) != -EBADMSG)
				fail_msg("%s and %u bytes", sample_replies[i].name, more);
		}
	}
}

static void decode__header_fields(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_replies); i++) {
		struct wire_header good = build(sample_replies[i].name), h = good;

		h.flags = 0;
		assert_int_equal(decode(&h), -EBADMSG);
		h.flags = WIRE_REPLY | WIRE_LAST;
		assert_int_equal(decode(&h), 0);
		h.flags = WIRE_REPLY | 4;
		assert_int_equal(decode(&h), -EBADMSG);
		h = good;
		h.op = 0;
		assert_int_equal(decode(&h), -EBADMSG);
		h = good;
		h.payload_len = UINT32_MAX;
		assert_int_equal(decode(&h), -EBADMSG);
		h.payload_len = good.payload_len + 1;
		assert_int_equal(decode(&h), -EBADMSG);
	}
}

static void decode__status_chooses_the_shape(void **state)
{
	struct wire_header h = build("exists");
	struct wire_reply r;

	/* keys_done is 16 bytes as wire_error is: as an error its lengths do not agree */
	h.status = LARDER_BUSY;
	assert_int_equal(decode(&h), -EBADMSG);
	h.status = LARDER_NOT_FOUND;
	assert_int_equal(decode(&h), 0);

	h = build("get");
	h.status = LARDER_NOT_FOUND;
	assert_int_equal(decode(&h), -EBADMSG);

	/* a status of a later version is an error with a text */
	h = build("error");
	h.status = 999;
	assert_int_equal(wire_reply_decode(&h, buffer + WIRE_HEADER_SIZE, &r), 0);
	assert_true(r.is_error);
	assert_int_equal(r.u.error.detail, 4096);
	assert_int_equal(r.tail_len, 9);
	assert_memory_equal(r.tail, "too small", 9);
}

struct bend {
	const char *sample;
	size_t offset;
	size_t size;
	uint64_t value;
};
#define BEND(sample, type, field, value)                                                           \
	{ sample, offsetof(struct type, field), sizeof(((struct type *)0)->field), value }
#define BEHIND(sample, type, inner, field, value)                                                  \
	{ sample, sizeof(struct type) + offsetof(struct inner, field),                             \
	  sizeof(((struct inner *)0)->field), value }

static const struct bend bends[] = {
	BEND("ns-list", wire_ns_listed, count, 0),
	BEND("ns-list", wire_ns_listed, count, 1),
	BEND("ns-list", wire_ns_listed, count, 3),
	BEND("ns-list", wire_ns_listed, count, UINT32_MAX),
	BEHIND("ns-list", wire_ns_listed, wire_ns_entry, name_len, 0),
	BEHIND("ns-list", wire_ns_listed, wire_ns_entry, name_len, 6),
	BEHIND("ns-list", wire_ns_listed, wire_ns_entry, name_len, UINT32_MAX),
	BEND("list", wire_listed, count, 0),
	BEND("list", wire_listed, count, 1),
	BEND("list", wire_listed, count, 3),
	BEND("list", wire_listed, count, UINT32_MAX),
	BEHIND("list", wire_listed, wire_list_entry, key_len, 0),
	BEHIND("list", wire_listed, wire_list_entry, key_len, 5),
	BEHIND("list", wire_listed, wire_list_entry, key_len, UINT32_MAX),
	BEND("exists", wire_keys_done, n_keys, 0),
	BEND("exists", wire_keys_done, n_keys, 2),
	BEND("exists", wire_keys_done, n_keys, 4),
	BEND("exists", wire_keys_done, n_keys, 0x80000003),
	BEND("exists", wire_keys_done, leading_run, 4),
	BEND("exists", wire_keys_done, leading_run, UINT32_MAX),
	BEND("stat", wire_stats_done, n_keys, 1),
	BEND("stat", wire_stats_done, n_keys, 3),
	BEND("stat", wire_stats_done, n_keys, UINT32_MAX),
	BEND("get", wire_got, size_bytes, SAMPLE_VALUE_LEN - 1),
	BEND("get", wire_got, offset, LARDER_CHECK_BLOCK + 1),
	BEND("get", wire_got, offset, UINT64_MAX),
	BEND("get", wire_got, length, LARDER_CHECK_BLOCK + 4),
	BEND("get", wire_got, length, UINT64_MAX),
	BEND("get", wire_got, first_check, 0),
	BEND("get", wire_got, n_checks, 1),
	BEND("get", wire_got, n_checks, 0),
	BEND("get", wire_got, n_checks, 0x40000002),
	BEND("get-unchecked", wire_got, n_checks, 1),
	BEND("get-unchecked", wire_got, length, 94),
	BEND("error", wire_error, text_len, 0),
	BEND("error", wire_error, text_len, 8),
	BEND("error", wire_error, text_len, UINT32_MAX),
};

static void decode__field_out_of_its_range(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(bends); i++) {
		const struct bend *b = &bends[i];
		struct wire_header h = build(b->sample);

		assert_int_equal(decode(&h), 0);
		memcpy(buffer + WIRE_HEADER_SIZE + b->offset, &b->value, b->size);
		if (decode(&h) != -EBADMSG)
			fail_msg("%s: %#jx at %zu was taken", b->sample,
				 (uintmax_t)b->value, b->offset);
	}
}

static int decode_got(uint64_t offset, uint64_t length, uint32_t first, uint32_t n)
{
	struct wire_got m = {
		.size_bytes = 4 * LARDER_CHECK_BLOCK, .offset = offset, .length = length,
		.first_check = first, .n_checks = n,
	};
	uint32_t checks[8] = { 0 };
	struct wire_writer w;
	struct wire_header h;

	wire_begin(&w, buffer, WIRE_MESSAGE_MAX);
	assert_true(reply_sample(&w, LARDER_OP_GET, LARDER_OK, &m, sizeof(m), checks, n * 4) > 0);
	h = sample_header(buffer);
	return decode(&h);
}

static void decode__checks_of_exactly_the_blocks_touched(void **state)
{
	const uint64_t b = LARDER_CHECK_BLOCK;

	assert_int_equal(decode_got(0, 4 * b, 0, 4), 0);
	assert_int_equal(decode_got(0, 4 * b, 0, 3), -EBADMSG);
	assert_int_equal(decode_got(0, 4 * b, 0, 5), -EBADMSG);
	assert_int_equal(decode_got(b, b, 1, 1), 0);
	assert_int_equal(decode_got(b, b + 1, 1, 1), -EBADMSG);
	assert_int_equal(decode_got(b, b + 1, 1, 2), 0);
	assert_int_equal(decode_got(b - 1, 2, 0, 2), 0);
	assert_int_equal(decode_got(b - 1, 1, 0, 1), 0);
	assert_int_equal(decode_got(4 * b, 0, 0, 0), 0);
	assert_int_equal(decode_got(4 * b, 0, 4, 1), -EBADMSG);
	assert_int_equal(decode_got(4 * b + 1, 0, 4, 0), -EBADMSG);
	assert_int_equal(decode_got(4 * b, 1, 4, 1), -EBADMSG);
}

static void list_entry_next__walks_to_the_end(void **state)
{
	struct wire_header h = build("list");
	struct wire_list_entry entry;
	struct wire_reply r;
	const uint8_t *key;
	uint32_t pos = 0;

	assert_int_equal(wire_reply_decode(&h, buffer + WIRE_HEADER_SIZE, &r), 0);
	assert_int_equal(r.u.listed.cursor, 3);
	for (int i = 1; i <= 2; i++) {
		assert_int_equal(wire_list_entry_next(&r, &pos, &entry, &key), 1);
		assert_int_equal(entry.key_len, 4);
		assert_int_equal(entry.stat.size_bytes, 100);
		assert_memory_equal(key, i == 1 ? "key1" : "key2", 4);
	}
	assert_int_equal(wire_list_entry_next(&r, &pos, &entry, &key), 0);
	assert_int_equal(wire_list_entry_next(&r, &pos, &entry, &key), 0);
	pos = r.tail_len + 1;
	assert_int_equal(wire_list_entry_next(&r, &pos, &entry, &key), -EBADMSG);
}

static void ns_entry_next__walks_to_the_end(void **state)
{
	struct wire_header h = build("ns-list");
	struct wire_ns_entry entry;
	struct wire_reply r;
	const uint8_t *name;
	uint32_t pos = 0;

	assert_int_equal(wire_reply_decode(&h, buffer + WIRE_HEADER_SIZE, &r), 0);
	assert_int_equal(wire_ns_entry_next(&r, &pos, &entry, &name), 1);
	assert_memory_equal(name, "llama", 5);
	assert_int_equal(wire_ns_entry_next(&r, &pos, &entry, &name), 1);
	assert_memory_equal(name, "qwen2", 5);
	assert_int_equal(entry.objects, 10);
	assert_int_equal(wire_ns_entry_next(&r, &pos, &entry, &name), 0);
	pos = r.tail_len + 1;
	assert_int_equal(wire_ns_entry_next(&r, &pos, &entry, &name), -EBADMSG);
}

/* Entries are walked again by the caller: a list that was cut meanwhile gives no byte too many. */
static void entry_next__list_that_was_cut(void **state)
{
	for (int is_ns = 0; is_ns <= 1; is_ns++) {
		struct wire_header h = build(is_ns ? "ns-list" : "list");
		uint32_t entry_size = is_ns ? sizeof(struct wire_ns_entry) + 5 :
				      sizeof(struct wire_list_entry) + 4;
		struct wire_ns_entry ns;
		struct wire_list_entry object;
		const uint8_t *name;
		struct wire_reply r;
		uint32_t full;

		assert_int_equal(wire_reply_decode(&h, buffer + WIRE_HEADER_SIZE, &r), 0);
		full = r.tail_len;
		assert_int_equal(full, 2 * entry_size);
		for (uint32_t len = 1; len < full; len++) {
			uint8_t *tail = malloc(len);
			uint32_t pos = 0;
			int k;

			assert_non_null(tail);
			memcpy(tail, buffer + WIRE_HEADER_SIZE + h.body_len - full, len);
			r.tail = tail;
			r.tail_len = len;
			do {
				k = is_ns ? wire_ns_entry_next(&r, &pos, &ns, &name) :
				    wire_list_entry_next(&r, &pos, &object, &name);
			} while (k > 0);
			assert_int_equal(k, len % entry_size ? -EBADMSG : 0);
			assert_int_equal(pos, len / entry_size * entry_size);
			free(tail);
		}
	}
}

static int decode_counted(uint8_t op, uint32_t n, uint32_t run)
{
	static uint8_t tail[(WIRE_KEYS_MAX + 1) * sizeof(struct wire_stat)];
	static uint8_t large[sizeof(tail) + 256];
	struct wire_keys_done keys = { .n_keys = n, .leading_run = run };
	struct wire_stats_done stats = { .n_keys = n };
	bool is_stat = op == LARDER_OP_STAT;
	struct wire_reply r;
	struct wire_writer w;
	struct wire_header h;

	wire_begin(&w, large, sizeof(large));
	wire_append(&w, is_stat ? (void *)&stats : (void *)&keys,
		    is_stat ? sizeof(stats) : sizeof(keys));
	wire_append(&w, tail, n * (is_stat ? (uint32_t)sizeof(struct wire_stat) : 2));
	assert_true(wire_finish(&w, op, WIRE_REPLY, LARDER_OK, 1, 0) > 0);
	h = sample_header(large);
	return wire_reply_decode(&h, large + WIRE_HEADER_SIZE, &r);
}

static void decode__number_of_keys_at_its_limit(void **state)
{
	assert_int_equal(decode_counted(LARDER_OP_EXISTS, WIRE_KEYS_MAX, WIRE_KEYS_MAX), 0);
	assert_int_equal(decode_counted(LARDER_OP_EXISTS, WIRE_KEYS_MAX + 1, 0), -EBADMSG);
	assert_int_equal(decode_counted(LARDER_OP_RELEASE, 0, 0), 0);
	assert_int_equal(decode_counted(LARDER_OP_RELEASE, 0, 1), -EBADMSG);
	assert_int_equal(decode_counted(LARDER_OP_STAT, WIRE_KEYS_MAX, 0), 0);
	assert_int_equal(decode_counted(LARDER_OP_STAT, WIRE_KEYS_MAX + 1, 0), -EBADMSG);
}

/* A listing whose one entry has a name or key of @len bytes. */
static int decode_entry(uint8_t op, uint32_t len)
{
	struct wire_listed m = { .count = 1 };
	struct wire_ns_entry ns = { .name_len = len };
	struct wire_list_entry object = { .key_len = len };
	bool is_ns = op == LARDER_OP_NS_LIST;
	static char name[LARDER_KEY_MAX + 1];
	struct wire_writer w;
	struct wire_header h;

	static_assert(sizeof(struct wire_ns_listed) == sizeof(struct wire_listed), "same head");
	wire_begin(&w, buffer, WIRE_MESSAGE_MAX);
	wire_append(&w, &m, sizeof(m));
	wire_append(&w, is_ns ? (void *)&ns : (void *)&object, is_ns ? sizeof(ns) : sizeof(object));
	assert_true(reply_sample(&w, op, LARDER_OK, name, len, NULL, 0) > 0);
	h = sample_header(buffer);
	return decode(&h);
}

static void decode__entry_names_at_their_limits(void **state)
{
	assert_int_equal(decode_entry(LARDER_OP_LIST, 1), 0);
	assert_int_equal(decode_entry(LARDER_OP_LIST, LARDER_KEY_MAX), 0);
	assert_int_equal(decode_entry(LARDER_OP_LIST, LARDER_KEY_MAX + 1), -EBADMSG);
	assert_int_equal(decode_entry(LARDER_OP_NS_LIST, 1), 0);
	assert_int_equal(decode_entry(LARDER_OP_NS_LIST, WIRE_NS_NAME_MAX), 0);
	assert_int_equal(decode_entry(LARDER_OP_NS_LIST, WIRE_NS_NAME_MAX + 1), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation__has_a_sample),
		cmocka_unit_test(decode__gives_back_what_was_written),
		cmocka_unit_test(decode__body_cut_at_every_byte),
		cmocka_unit_test(decode__body_with_bytes_behind_it),
		cmocka_unit_test(decode__header_fields),
		cmocka_unit_test(decode__status_chooses_the_shape),
		cmocka_unit_test(decode__field_out_of_its_range),
		cmocka_unit_test(decode__checks_of_exactly_the_blocks_touched),
		cmocka_unit_test(list_entry_next__walks_to_the_end),
		cmocka_unit_test(ns_entry_next__walks_to_the_end),
		cmocka_unit_test(entry_next__list_that_was_cut),
		cmocka_unit_test(decode__number_of_keys_at_its_limit),
		cmocka_unit_test(decode__entry_names_at_their_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
