/* SPDX-License-Identifier: Apache-2.0 */
/* Spelling of keys: one key, one spelling, both ways. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <larder/key.h>

#include "base/check.h"
#include "base/compiler.h"
#include "base/prng.h"

#define SEED 7u

static void expect_spelling(const void *key, size_t key_len, const char *spelling)
{
	char text[LARDER_KEY_TEXT_SIZE];
	uint8_t back[LARDER_KEY_MAX];
	bool is_hash = true;

	assert_int_equal(larder_key_format(key, key_len, text, sizeof(text)), strlen(spelling));
	assert_string_equal(text, spelling);
	assert_int_equal(larder_key_parse(text, back, sizeof(back), &is_hash), key_len);
	assert_false(is_hash);
	assert_memory_equal(back, key, key_len);
}

static void format__spells_as_documented(void **state)
{
	expect_spelling("llama-3.1-8b@r7", 15, "llama-3.1-8b@r7");
	expect_spelling("a/b c", 5, "a%2Fb%20c");
	expect_spelling(".hidden.", 8, "%2Ehidden.");
	expect_spelling("~x00", 4, "%7Ex00");
	expect_spelling("100%", 4, "100%25");
	expect_spelling("..", 2, "%2E.");
	expect_spelling("\0", 1, "~x00");
	expect_spelling("ab\n", 3, "~x61620a");
	expect_spelling("\x7f", 1, "~x7f");
	expect_spelling("gr\xc3\xbc", 4, "~x6772c3bc");
}

static void format__refuses_bad_lengths_and_small_rooms(void **state)
{
	char text[LARDER_KEY_TEXT_SIZE];
	uint8_t key[LARDER_KEY_MAX + 1] = { 0 };

	assert_int_equal(larder_key_format(key, 0, text, sizeof(text)), -EINVAL);
	assert_int_equal(larder_key_format(key, sizeof(key), text, sizeof(text)), -EINVAL);
	for (size_t room = 0; room <= 5; room++)	/* "a%20" and its NUL */
		assert_int_equal(larder_key_format("a ", 2, text, room), room < 5 ? -ENOBUFS : 4);
	for (size_t room = 0; room <= 5; room++)	/* "~x00" and its NUL */
		assert_int_equal(larder_key_format("\0", 1, text, room), room < 5 ? -ENOBUFS : 4);
	memset(key, ' ', sizeof(key));			/* the longest spelling there is */
	assert_int_equal(larder_key_format(key, LARDER_KEY_MAX, text, sizeof(text)),
			 LARDER_KEY_TEXT_SIZE - 1);
	assert_int_equal(larder_key_format(key, LARDER_KEY_MAX, text, sizeof(text) - 1), -ENOBUFS);
}

static void parse__refuses_what_format_would_not_write(void **state)
{
	static const char *const bad[] = {
		"", "%61", "%2f", "%", "%2", "%2G", ".a", "a b", "a/b", "~", "~x", "~x0", "~x0G",
		"~xAB", "~x61", "~h", "~h00", "~y00", "a~b", "%00", "%7F", "%0A", "%80", "a%2E",
		"\xc3\xbc", "~h0123456789abcdef0123456789abcdeF",
		"~h0123456789abcdef0123456789abcdef0", "~h0123456789abcdef0123456789abcdef00",
	};
	uint8_t key[LARDER_KEY_MAX];
	char text[2 * LARDER_KEY_MAX + 8];
	bool is_hash = true;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (larder_key_parse(bad[i], key, sizeof(key), &is_hash) != -EINVAL)
			fail_msg("\"%s\" was taken", bad[i]);
	assert_true(is_hash);	/* untouched on failure */
	memset(text, 'a', sizeof(text));
	text[LARDER_KEY_MAX + 1] = '\0';
	assert_int_equal(larder_key_parse(text, key, sizeof(key), &is_hash), -EINVAL);
	text[LARDER_KEY_MAX] = '\0';
	assert_int_equal(larder_key_parse(text, key, sizeof(key), &is_hash), LARDER_KEY_MAX);
	assert_int_equal(larder_key_parse("abc", key, 2, &is_hash), -ENOBUFS);
}

static void round_trip__every_byte_and_random_keys(void **state)
{
	char text[LARDER_KEY_TEXT_SIZE], again[LARDER_KEY_TEXT_SIZE];
	uint8_t key[LARDER_KEY_MAX], back[LARDER_KEY_MAX];
	struct prng p;
	bool is_hash;

	for (unsigned c = 0; c < 65536; c++) {
		uint8_t two[2] = { (uint8_t)(c >> 8), (uint8_t)c };

		assert_true(larder_key_format(two, 2, text, sizeof(text)) > 0);
		assert_int_equal(larder_key_parse(text, back, sizeof(back), &is_hash), 2);
		assert_memory_equal(back, two, 2);
	}
	print_message("seed %u\n", SEED);
	prng_seed(&p, SEED);
	for (int i = 0; i < 3000; i++) {
		size_t len = prng_below(&p, LARDER_KEY_MAX) + 1;
		bool printable = prng_below(&p, 2);

		for (size_t k = 0; k < len; k++)
			key[k] = printable ? (uint8_t)(0x20 + prng_below(&p, 0x5f))
					   : (uint8_t)prng_next(&p);
		assert_true(larder_key_format(key, len, text, sizeof(text)) > 0);
		assert_int_equal(larder_key_parse(text, back, sizeof(back), &is_hash), len);
		assert_memory_equal(back, key, len);
	}
	/* random texts: what parses is exactly what format writes */
	for (int i = 0; i < 200000; i++) {
		static const char set[] = "~xh%0126AaFf. /\x01";
		size_t len = prng_below(&p, 9);
		int n;

		for (size_t k = 0; k < len; k++)
			text[k] = set[prng_below(&p, sizeof(set) - 1)];
		text[len] = '\0';
		n = larder_key_parse(text, back, sizeof(back), &is_hash);
		if (n < 0)
			continue;
		assert_int_equal(larder_key_format(back, (size_t)n, again, sizeof(again)), len);
		assert_string_equal(again, text);
	}
}

static void format_name__hashes_only_what_is_too_long(void **state)
{
	char name[LARDER_KEY_NAME_MAX + 1];
	uint8_t key[LARDER_KEY_MAX], hash[LARDER_KEY_HASH_SIZE], back[LARDER_KEY_MAX];
	bool is_hash = false;

	memset(key, 'k', sizeof(key));
	assert_int_equal(larder_key_format_name(key, 255, name, sizeof(name)), 255);
	assert_int_equal(larder_key_format_name(key, 255, name, 255), -ENOBUFS);
	assert_int_equal(larder_key_format_name(key, 256, name, sizeof(name)), 34);
	assert_memory_equal(name, "~h", 2);
	assert_int_equal(larder_key_parse(name, back, sizeof(back), &is_hash), 16);
	assert_true(is_hash);
	larder_key_hash(key, 256, hash);
	assert_memory_equal(back, hash, sizeof(hash));
	assert_int_equal(larder_key_parse(name, back, 15, &is_hash), -ENOBUFS);
}

static void hash__is_the_canonical_one_and_its_low_half_is_key_hash64(void **state)
{
	/* XXH3-128 of nothing, as xxHash publishes it */
	static const uint8_t empty[LARDER_KEY_HASH_SIZE] = {
		0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
		0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f,
	};
	uint8_t hash[LARDER_KEY_HASH_SIZE];
	uint64_t low = 0;

	larder_key_hash("", 0, hash);
	assert_memory_equal(hash, empty, sizeof(hash));
	larder_key_hash("some key", 8, hash);
	for (int i = 8; i < 16; i++)
		low = low << 8 | hash[i];
	assert_true(low == key_hash64("some key", 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(format__spells_as_documented),
		cmocka_unit_test(format__refuses_bad_lengths_and_small_rooms),
		cmocka_unit_test(parse__refuses_what_format_would_not_write),
		cmocka_unit_test(round_trip__every_byte_and_random_keys),
		cmocka_unit_test(format_name__hashes_only_what_is_too_long),
		cmocka_unit_test(hash__is_the_canonical_one_and_its_low_half_is_key_hash64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
