/* SPDX-License-Identifier: Apache-2.0 */
/* Checks against a CRC computed bit by bit, and against the known answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <larder/types.h>

#include "base/check.h"
#include "base/compiler.h"
#include "base/prng.h"

#define SEED 20240611u

static uint32_t crc_by_bits(uint32_t crc, const uint8_t *data, size_t len)
{
	crc = ~crc;
	for (size_t i = 0; i < len; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

static void fill(struct prng *p, uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)prng_next(p);
}

static void crc32c__known_answers(void **state)
{
	uint8_t zeros[32] = { 0 }, ones[32];

	memset(ones, 0xff, sizeof(ones));
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);
	assert_int_equal(crc32c(0, zeros, sizeof(zeros)), 0x8a9136aau);	/* RFC 3720 B.4 */
	assert_int_equal(crc32c(0, ones, sizeof(ones)), 0x62a8ab43u);
	assert_int_equal(crc32c(0, NULL, 0), 0);
}

static void crc32c__equals_the_definition_at_every_length_and_cut(void **state)
{
	struct prng p;
	uint8_t data[600];

	prng_seed(&p, SEED);
	fill(&p, data, sizeof(data));
	for (size_t len = 0; len <= sizeof(data); len++) {
		uint32_t whole = crc_by_bits(0, data, len);
		size_t cut = len / 3;

		assert_int_equal(crc32c(0, data, len), whole);
		assert_int_equal(crc32c(crc32c(0, data, cut), data + cut, len - cut), whole);
	}
}

static void crc32c_combine__equals_the_crc_of_the_concatenation(void **state)
{
	struct prng p;
	_cleanup_free_ uint8_t *data = malloc(1 << 20);

	assert_non_null(data);
	print_message("seed %u\n", SEED);
	prng_seed(&p, SEED);
	fill(&p, data, 1 << 20);
	for (int i = 0; i < 500; i++) {
		size_t len = prng_below(&p, 1 << (i % 21)) + 1;
		size_t cut = prng_below(&p, len + 1);
		uint32_t a = crc32c(0, data, cut), b = crc32c(0, data + cut, len - cut);

		assert_int_equal(crc32c_combine(a, b, len - cut), crc32c(0, data, len));
	}
	assert_int_equal(crc32c_combine(0x12345678, 0, 0), 0x12345678);
}

/* Lengths too long to lay out: combining in halves must agree with combining at once. */
static void crc32c_combine__is_associative_beyond_memory(void **state)
{
	uint32_t a = crc32c(0, "a", 1), b = crc32c(0, "bc", 2), c = crc32c(0, "def", 3);

	for (unsigned shift = 0; shift < 62; shift++) {
		uint64_t lb = 1ull << shift, lc = (1ull << shift) + 3;

		assert_int_equal(crc32c_combine(crc32c_combine(a, b, lb), c, lc),
				 crc32c_combine(a, crc32c_combine(b, c, lc), lb + lc));
	}
}

static void check_stream__gives_one_crc_per_block_however_it_is_fed(void **state)
{
	static const uint64_t lengths[] = {
		1, 4095, LARDER_CHECK_BLOCK - 1, LARDER_CHECK_BLOCK, LARDER_CHECK_BLOCK + 1,
		2 * LARDER_CHECK_BLOCK, 3 * LARDER_CHECK_BLOCK + 77,
	};
	struct prng p;
	_cleanup_free_ uint8_t *data = malloc(4 * LARDER_CHECK_BLOCK);

	assert_non_null(data);
	prng_seed(&p, SEED);
	fill(&p, data, 4 * LARDER_CHECK_BLOCK);
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint32_t out[6] = { 1, 2, 3, 4, 5, 6 };
		uint32_t n = larder_check_count(lengths[i]);
		struct check_stream s;
		uint64_t at = 0;

		check_stream_init(&s, lengths[i], out);
		while (at < lengths[i]) {
			uint64_t piece = prng_below(&p, 300000);

			piece = MIN(piece, lengths[i] - at);
			check_stream_feed(&s, data + at, piece);
			at += piece;
		}
		assert_int_equal(s.n_out, n);
		for (uint32_t b = 0; b < n; b++) {
			uint64_t from = (uint64_t)b * LARDER_CHECK_BLOCK;
			uint64_t len = MIN(lengths[i] - from, (uint64_t)LARDER_CHECK_BLOCK);

			assert_int_equal(out[b], crc32c(0, data + from, len));
		}
		check_stream_feed(&s, data, 4096);	/* too much: nothing more is stored */
		assert_int_equal(s.n_out, n);
		assert_int_equal(out[n], n + 1);
	}
}

static void key_digest__depends_on_key_and_descriptor(void **state)
{
	assert_int_not_equal(key_digest(0, "a", 1), key_digest(1, "a", 1));
	assert_int_not_equal(key_digest(0, "a", 1), key_digest(0, "b", 1));
	/* XXH3-64 of nothing with seed 0, as xxHash publishes it */
	assert_true(key_digest(0, "", 0) == 0x2d06800538d394c2ull);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc32c__known_answers),
		cmocka_unit_test(crc32c__equals_the_definition_at_every_length_and_cut),
		cmocka_unit_test(crc32c_combine__equals_the_crc_of_the_concatenation),
		cmocka_unit_test(crc32c_combine__is_associative_beyond_memory),
		cmocka_unit_test(check_stream__gives_one_crc_per_block_however_it_is_fed),
		cmocka_unit_test(key_digest__depends_on_key_and_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
