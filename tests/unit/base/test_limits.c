/* SPDX-License-Identifier: Apache-2.0 */
/* Limits as people write them: what is taken, what is refused, and back again without loss. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <larder/limits.h>

static void limit_parse__takes_and_refuses(void **state)
{
	static const struct { unsigned limit; const char *text; int r; uint64_t value; } cases[] = {
		{ LARDER_LIMIT_resident_bytes, "64M", 0, 64ull << 20 },
		{ LARDER_LIMIT_resident_bytes, "64m", 0, 64ull << 20 },
		{ LARDER_LIMIT_resident_bytes, "1T", 0, 1ull << 40 },
		{ LARDER_LIMIT_resident_bytes, "0", 0, 0 },
		{ LARDER_LIMIT_resident_bytes, "none", 0, 0 },
		{ LARDER_LIMIT_resident_bytes, "9223372036854775807", 0, INT64_MAX },
		{ LARDER_LIMIT_resident_bytes, "9223372036854775808", -EINVAL, 0 },
		{ LARDER_LIMIT_resident_bytes, "18446744073709551617", -EINVAL, 0 },
		{ LARDER_LIMIT_resident_bytes, "8388608T", -EINVAL, 0 },
		{ LARDER_LIMIT_resident_bytes, "64Mi", -EINVAL, 0 },
		{ LARDER_LIMIT_resident_bytes, "64P", -EINVAL, 0 },
		{ LARDER_LIMIT_resident_bytes, "-1", -EINVAL, 0 },
		{ LARDER_LIMIT_resident_bytes, " 1", -EINVAL, 0 },
		{ LARDER_LIMIT_resident_bytes, "", -EINVAL, 0 },
		{ LARDER_LIMIT_resident_bytes, "M", -EINVAL, 0 },
		{ LARDER_LIMIT_resident_bytes, "1.5G", -EINVAL, 0 },
		{ LARDER_LIMIT_in_bytes_per_s, "10M", 0, 10ull << 20 },
		{ LARDER_LIMIT_objects, "1000", 0, 1000 },
		{ LARDER_LIMIT_objects, "1K", -EINVAL, 0 },
		{ LARDER_LIMIT_objects, "None", -EINVAL, 0 },
		{ LARDER_LIMIT_weight, "10000", 0, 10000 },
		{ LARDER_LIMIT_weight, "10001", -EINVAL, 0 },
		{ LARDER_LIMIT_weight, "none", -EINVAL, 0 },
		{ LARDER_LIMIT_over_cap, "reject", 0, LARDER_OVER_CAP_REJECT },
		{ LARDER_LIMIT_over_cap, "evict-own", 0, LARDER_OVER_CAP_EVICT_OWN },
		{ LARDER_LIMIT_over_cap, "none", -EINVAL, 0 },
		{ LARDER_LIMIT_over_cap, "1", -EINVAL, 0 },
		{ LARDER_LIMITS, "1", -EINVAL, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t v = 0;
		int r = larder_limit_parse(cases[i].limit, cases[i].text, &v);

		if (r != cases[i].r || v != cases[i].value)
			fail_msg("%s = %s: %d, %" PRIu64, larder_limit_name(cases[i].limit),
				 cases[i].text, r, v);
	}
}

static void limit_format__is_parsed_back_without_loss(void **state)
{
	static const uint64_t values[] = {
		0, 1, 100, 1023, 1024, 1025, 1ull << 20, (1ull << 40) - 1, 1ull << 40, 1ull << 50,
		3ull << 30, INT64_MAX,
	};

	for (unsigned l = 0; l < LARDER_LIMITS; l++) {
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			char text[LARDER_LIMIT_TEXT];
			uint64_t back = 1;

			if (!larder_limit_valid(l, values[i]))
				continue;
			larder_limit_format(l, values[i], text);
			if (larder_limit_parse(l, text, &back) || back != values[i])
				fail_msg("%s: %" PRIu64 " became %s", larder_limit_name(l),
					 values[i], text);
		}
	}
}

static void limit_format__is_short_for_a_person(void **state)
{
	char text[LARDER_LIMIT_TEXT];

	assert_string_equal(larder_limit_format(LARDER_LIMIT_resident_bytes, 1ull << 30, text),
			    "1G");
	assert_string_equal(larder_limit_format(LARDER_LIMIT_region_bytes, 1500, text), "1500");
	assert_string_equal(larder_limit_format(LARDER_LIMIT_objects, 2048, text), "2048");
	assert_string_equal(larder_limit_format(LARDER_LIMIT_objects, 0, text), "none");
	assert_string_equal(larder_limit_format(LARDER_LIMIT_over_cap, 1, text), "reject");
	assert_string_equal(larder_limit_format(LARDER_LIMIT_weight, 0, text), "0");
}

static void limits__each_has_a_name_that_is_found(void **state)
{
	for (unsigned l = 0; l < LARDER_LIMITS; l++) {
		assert_int_equal(larder_limit_find(larder_limit_name(l)), (int)l);
		assert_true(strlen(larder_limit_text(l)) > 1);
		assert_true(strlen(larder_limit_allowed(l)) > 1);
	}
	assert_int_equal(larder_limit_find("resident"), -1);
	assert_int_equal(larder_limit_find(""), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limit_parse__takes_and_refuses),
		cmocka_unit_test(limit_format__is_parsed_back_without_loss),
		cmocka_unit_test(limit_format__is_short_for_a_person),
		cmocka_unit_test(limits__each_has_a_name_that_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
