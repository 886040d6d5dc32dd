/* SPDX-License-Identifier: Apache-2.0 */
/* Header, CRC and writer: what every message has. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "samples_reply.h"

static uint8_t buffer[WIRE_MESSAGE_MAX];

/* One bit of a message in @buffer, header or body, is flipped: somebody must notice. */
static bool is_noticed(uint32_t bit)
{
	struct wire_header h;
	uint8_t message[WIRE_MESSAGE_MAX];
	bool noticed;

	memcpy(message, buffer, sizeof(message));
	message[bit / 8] ^= (uint8_t)(1u << bit % 8);
	h = sample_header(message);
	noticed = wire_header_check(&h, WIRE_MESSAGE_MAX) != 0;
	return noticed || wire_body_check(&h, message + WIRE_HEADER_SIZE) == -EBADMSG;
}

static void seal__every_bit_of_a_message_counts(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_requests); i++) {
		struct wire_writer w;
		int len;

		wire_begin(&w, buffer, sizeof(buffer));
		len = sample_requests[i].build(&w);
		assert_true(len > 0);
		for (uint32_t bit = 0; bit < (uint32_t)len * 8; bit++) {
			if (!is_noticed(bit))
				fail_msg("%s: bit %u", sample_requests[i].name, bit);
		}
	}
}

static void seal__is_crc32c_of_header_and_body(void **state)
{
	uint8_t all[WIRE_HEADER_SIZE + 9];
	struct wire_header h = { .op = LARDER_OP_PING, .request_id = 1, .body_len = 9 };

	wire_header_seal(&h, "123456789");
	assert_int_equal(h.magic, WIRE_MAGIC);
	assert_int_equal(h.version, WIRE_VERSION);
	memcpy(all, &h, WIRE_HEADER_SIZE);
	memset(all + offsetof(struct wire_header, crc), 0, 4);
	memcpy(all + WIRE_HEADER_SIZE, "123456789", 9);
	assert_int_equal(crc32c(0, all, sizeof(all)), h.crc);
	/* the four bytes on the wire are "LRDR" */
	assert_memory_equal(all, "LRDR", 4);
}

static void seal__without_a_body(void **state)
{
	struct wire_header h = { .op = LARDER_OP_PING };

	wire_header_seal(&h, NULL);
	assert_int_equal(wire_body_check(&h, NULL), 0);
	h.crc ^= 1;
	assert_int_equal(wire_body_check(&h, NULL), -EBADMSG);
}

static void header_check__says_what_is_wrong(void **state)
{
	struct wire_header good = { .op = LARDER_OP_PING, .body_len = 8 }, h;

	wire_header_seal(&good, "12345678");
	assert_int_equal(wire_header_check(&good, WIRE_MESSAGE_MAX), 0);
	assert_int_equal(wire_header_check(&good, WIRE_HEADER_SIZE + 8), 0);
	assert_int_equal(wire_header_check(&good, WIRE_HEADER_SIZE + 7), -EMSGSIZE);
	assert_int_equal(wire_header_check(&good, WIRE_HEADER_SIZE - 1), -EMSGSIZE);
	assert_int_equal(wire_header_check(&good, 0), -EMSGSIZE);
	h = good;
	h.body_len = 0;
	assert_int_equal(wire_header_check(&h, WIRE_HEADER_SIZE), 0);
	h = good;
	h.magic = 0x20544547;	/* "GET " */
	assert_int_equal(wire_header_check(&h, WIRE_MESSAGE_MAX), -EPROTO);
	h = good;
	h.version = 2;
	assert_int_equal(wire_header_check(&h, WIRE_MESSAGE_MAX), -EPROTO);
	h = good;
	h.body_len = WIRE_MESSAGE_MAX - WIRE_HEADER_SIZE;
	assert_int_equal(wire_header_check(&h, WIRE_MESSAGE_MAX), 0);
	h.body_len++;
	assert_int_equal(wire_header_check(&h, WIRE_MESSAGE_MAX), -EMSGSIZE);
	h.body_len = UINT32_MAX;
	assert_int_equal(wire_header_check(&h, WIRE_MESSAGE_MAX), -EMSGSIZE);
	for (unsigned op = 0; op < 256; op++) {
		h = good;
		h.op = (uint8_t)op;
		assert_int_equal(wire_header_check(&h, WIRE_MESSAGE_MAX),
				 wire_op_info((uint8_t)op) ? 0 : -EOPNOTSUPP);
	}
	/* an unknown operation with a body that is too long can not be answered and skipped */
	h.op = 0xff;
	h.body_len = UINT32_MAX;
	assert_int_equal(wire_header_check(&h, WIRE_MESSAGE_MAX), -EMSGSIZE);
}

static void writer__what_does_not_fit_is_told_at_the_end(void **state)
{
	uint8_t *small = malloc(WIRE_HEADER_SIZE + 8);
	struct wire_writer w;

	assert_non_null(small);
	wire_begin(&w, small, WIRE_HEADER_SIZE + 8);
	assert_int_equal(wire_room(&w), 8);
	wire_append(&w, "12345678", 8);
	assert_int_equal(wire_room(&w), 0);
	wire_append(&w, NULL, 0);
	assert_int_equal(wire_finish(&w, LARDER_OP_PING, 0, 0, 1, 0), WIRE_HEADER_SIZE + 8);
	wire_append(&w, "9", 1);
	assert_int_equal(wire_finish(&w, LARDER_OP_PING, 0, 0, 1, 0), -EMSGSIZE);

	/* once is for ever, also when a later part would fit */
	wire_begin(&w, small, WIRE_HEADER_SIZE + 8);
	wire_append(&w, "123456789", 9);
	assert_int_equal(wire_room(&w), 0);
	wire_append(&w, "1", 1);
	assert_int_equal(wire_finish(&w, LARDER_OP_PING, 0, 0, 1, 0), -EMSGSIZE);

	wire_begin(&w, small, WIRE_HEADER_SIZE);
	assert_int_equal(wire_finish(&w, LARDER_OP_PING, 0, 0, 1, 0), WIRE_HEADER_SIZE);
	wire_begin(&w, small, WIRE_HEADER_SIZE - 1);
	assert_int_equal(wire_room(&w), 0);
	assert_int_equal(wire_finish(&w, LARDER_OP_PING, 0, 0, 1, 0), -EMSGSIZE);
	free(small);
}

static void writer__key_is_written_whole_or_not(void **state)
{
	struct wire_writer w;

	wire_begin(&w, buffer, WIRE_HEADER_SIZE + 5);
	wire_append_key(&w, "abc", 3);
	assert_int_equal(wire_room(&w), 0);
	assert_memory_equal(buffer + WIRE_HEADER_SIZE, "\3\0abc", 5);
	assert_false(w.overflow);
	wire_begin(&w, buffer, WIRE_HEADER_SIZE + 4);
	wire_append_key(&w, "abc", 3);
	assert_true(w.overflow);
	assert_int_equal(w.used, WIRE_HEADER_SIZE);
}

static void writer__patch_stays_inside_what_was_written(void **state)
{
	struct wire_writer w;

	wire_begin(&w, buffer, sizeof(buffer));
	wire_append(&w, "12345678", 8);
	wire_patch(&w, 4, "xy", 2);
	assert_memory_equal(buffer + WIRE_HEADER_SIZE, "1234xy78", 8);
	wire_patch(&w, 6, "zz", 2);
	assert_memory_equal(buffer + WIRE_HEADER_SIZE, "1234xyzz", 8);
	assert_false(w.overflow);
	wire_patch(&w, 7, "ab", 2);
	assert_true(w.overflow);
	wire_begin(&w, buffer, sizeof(buffer));
	wire_patch(&w, UINT32_MAX, "ab", 2);
	assert_true(w.overflow);
}

static void writer__needs_no_alignment(void **state)
{
	for (unsigned shift = 0; shift < 8; shift++) {
		uint8_t *at = buffer + shift;
		struct wire_writer w;
		struct wire_request r;
		struct wire_header h;

		wire_begin(&w, at, WIRE_MESSAGE_MAX - 8);
		assert_true(sample_put_segs(&w) > 0);
		h = sample_header(at);
		assert_int_equal(wire_body_check(&h, at + WIRE_HEADER_SIZE), 0);
		assert_int_equal(wire_request_decode(&h, at + WIRE_HEADER_SIZE, &r), 0);
		assert_int_equal(wire_seg_at(&r, 1).length, 5);
		assert_int_equal(wire_check_at(r.checks, 2), sample_checks[2]);
	}
}

static void write_error__replaces_what_was_begun(void **state)
{
	struct wire_writer w;
	struct wire_header h;
	struct wire_reply r;

	wire_begin(&w, buffer, 200);
	wire_append(&w, buffer, 4096);
	assert_true(wire_write_error(&w, LARDER_OP_PUT, LARDER_THROTTLED, 9, 250, "later") > 0);
	h = sample_header(buffer);
	assert_int_equal(h.flags, WIRE_REPLY);
	assert_int_equal(h.status, LARDER_THROTTLED);
	assert_int_equal(h.request_id, 9);
	assert_int_equal(wire_reply_decode(&h, buffer + WIRE_HEADER_SIZE, &r), 0);
	assert_true(r.is_error);
	assert_int_equal(r.u.error.detail, 250);
	assert_int_equal(r.tail_len, 5);
	assert_memory_equal(r.tail, "later", 5);
}

static void write_error__text_is_cut_or_the_statuses_own(void **state)
{
	uint32_t least = WIRE_HEADER_SIZE + sizeof(struct wire_error);
	const char *own = larder_status_text(LARDER_BUSY);
	struct wire_writer w;
	struct wire_header h;
	struct wire_reply r;

	wire_begin(&w, buffer, least + 3);
	assert_int_equal(wire_write_error(&w, LARDER_OP_PUT, LARDER_BUSY, 9, 0, "sentence"),
			 least + 3);
	h = sample_header(buffer);
	assert_int_equal(wire_reply_decode(&h, buffer + WIRE_HEADER_SIZE, &r), 0);
	assert_memory_equal(r.tail, "sen", 3);

	wire_begin(&w, buffer, least);
	assert_int_equal(wire_write_error(&w, LARDER_OP_PUT, LARDER_BUSY, 9, 0, "x"), least);
	wire_begin(&w, buffer, least - 1);
	assert_int_equal(wire_write_error(&w, LARDER_OP_PUT, LARDER_BUSY, 9, 0, ""), -EMSGSIZE);

	wire_begin(&w, buffer, sizeof(buffer));
	assert_true(wire_write_error(&w, LARDER_OP_PUT, LARDER_BUSY, 9, 0, NULL) > 0);
	h = sample_header(buffer);
	assert_int_equal(wire_reply_decode(&h, buffer + WIRE_HEADER_SIZE, &r), 0);
	assert_int_equal(r.tail_len, strlen(own));
	assert_memory_equal(r.tail, own, r.tail_len);

	/* a request that is no operation is answered too */
	wire_begin(&w, buffer, sizeof(buffer));
	assert_true(wire_write_error(&w, 0xfe, LARDER_UNSUPPORTED, 9, 0, NULL) > 0);
}

static void encode__largest_put_fits_a_message(void **state)
{
	static uint32_t checks[1024];
	struct wire_seg segs[WIRE_SEGS_MAX];
	char key[LARDER_KEY_MAX];
	struct wire_put m = {
		.length = 256u << 20, .n_checks = larder_check_count(256u << 20),
		.n_segs = WIRE_SEGS_MAX, .key_len = LARDER_KEY_MAX,
	};
	struct wire_writer w;
	struct wire_request r;
	struct wire_header h;

	memset(key, 'k', sizeof(key));
	for (uint32_t i = 0; i < WIRE_SEGS_MAX; i++)
		segs[i] = (struct wire_seg){ .region = i, .length = 4u << 20 };
	assert_int_equal(m.n_checks, ARRAY_SIZE(checks));
	wire_begin(&w, buffer, sizeof(buffer));
	assert_true(wire_put_encode(&w, LARDER_OP_PUT, 0, 1, &m, segs, checks, key) > 0);
	h = sample_header(buffer);
	assert_int_equal(wire_request_decode(&h, buffer + WIRE_HEADER_SIZE, &r), 0);
}

static void encode__counts_at_their_limits(void **state)
{
	struct wire_seg segs[WIRE_SEGS_MAX];
	struct wire_put_part part = { .length = WIRE_SEGS_MAX, .n_segs = WIRE_SEGS_MAX };
	struct wire_get get = { .length = WIRE_SEGS_MAX, .n_segs = WIRE_SEGS_MAX, .key_len = 1 };
	struct wire_writer w;

	for (uint32_t i = 0; i < WIRE_SEGS_MAX; i++)
		segs[i] = (struct wire_seg){ .length = 1, .offset = i };
	wire_begin(&w, buffer, sizeof(buffer));
	assert_true(wire_put_part_encode(&w, 1, &part, segs) > 0);
	wire_begin(&w, buffer, sizeof(buffer));
	assert_true(wire_get_encode(&w, 0, 1, &get, segs, "k") > 0);
	part = (struct wire_put_part){ .length = UINT32_MAX };
	wire_begin(&w, buffer, sizeof(buffer));
	assert_true(wire_put_part_encode(&w, 1, &part, NULL) > 0);
	assert_int_equal(sample_header(buffer).payload_len, UINT32_MAX);
}

static void encode__counts_that_can_not_be_sent(void **state)
{
	struct wire_put put = sample_put(0, 3);
	struct wire_put_part part = { .n_segs = WIRE_SEGS_MAX + 1 };
	struct wire_get get = { .n_segs = WIRE_SEGS_MAX + 1 };
	struct wire_writer w;

	wire_begin(&w, buffer, sizeof(buffer));
	assert_int_equal(wire_put_part_encode(&w, 1, &part, sample_segs), -EMSGSIZE);
	assert_int_equal(wire_get_encode(&w, 0, 1, &get, sample_segs, "k"), -EMSGSIZE);
	put.n_segs = WIRE_SEGS_MAX + 1;
	assert_int_equal(wire_put_encode(&w, LARDER_OP_PUT, 0, 1, &put, sample_segs, sample_checks,
					 "k"), -EMSGSIZE);
	put = sample_put(0, 0x40000001);
	assert_int_equal(wire_put_encode(&w, LARDER_OP_PUT, 0, 1, &put, NULL, sample_checks, "k"),
			 -EMSGSIZE);
	put = sample_put(0, 3);
	put.length = 1ull << 32;
	assert_int_equal(wire_put_encode(&w, LARDER_OP_PUT, 0, 1, &put, NULL, sample_checks, "k"),
			 -EMSGSIZE);
	part = (struct wire_put_part){ .length = 1ull << 32 };
	assert_int_equal(wire_put_part_encode(&w, 1, &part, NULL), -EMSGSIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seal__every_bit_of_a_message_counts),
		cmocka_unit_test(seal__is_crc32c_of_header_and_body),
		cmocka_unit_test(seal__without_a_body),
		cmocka_unit_test(header_check__says_what_is_wrong),
		cmocka_unit_test(writer__what_does_not_fit_is_told_at_the_end),
		cmocka_unit_test(writer__key_is_written_whole_or_not),
		cmocka_unit_test(writer__patch_stays_inside_what_was_written),
		cmocka_unit_test(writer__needs_no_alignment),
		cmocka_unit_test(write_error__replaces_what_was_begun),
		cmocka_unit_test(write_error__text_is_cut_or_the_statuses_own),
		cmocka_unit_test(encode__largest_put_fits_a_message),
		cmocka_unit_test(encode__counts_at_their_limits),
		cmocka_unit_test(encode__counts_that_can_not_be_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
