/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, values, latencies, base64: the parts that everything else counts on. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/latency.h"
#include "ctl/output.h"
#include "ctl/util.h"
#include "ctl/value.h"

static void util_parse_size__units_and_faults(void **state)
{
	static const struct { const char *text; int r; uint64_t v; } cases[] = {
		{ "0", 0, 0 }, { "4096", 0, 4096 }, { "64K", 0, 65536 }, { "64k", 0, 65536 },
		{ "4MiB", 0, 4 << 20 }, { "4mb", 0, 4 << 20 }, { "1G", 0, 1 << 30 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 }, { "99999999T", -ERANGE, 0 },
		{ "", -EINVAL, 0 }, { "-1", -EINVAL, 0 }, { " 1", -EINVAL, 0 },
		{ "1 K", -EINVAL, 0 }, { "1X", -EINVAL, 0 }, { "1Kx", -EINVAL, 0 },
		{ "K", -EINVAL, 0 }, { "1.5K", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = 0;

		assert_int_equal(util_parse_size(cases[i].text, &v), cases[i].r);
		assert_true(v == cases[i].v);
	}
}

static void util_parse_duration__units_and_faults(void **state)
{
	static const struct { const char *text; int r; uint64_t ns; } cases[] = {
		{ "500ms", 0, 500000000 }, { "10s", 0, 10000000000 }, { "2m", 0, 120000000000 },
		{ "1h", 0, 3600000000000 }, { "1.5", 0, 1500000000 }, { "7us", 0, 7000 },
		{ "0", 0, 0 }, { "s", -EINVAL, 0 }, { "", -EINVAL, 0 }, { "1x", -EINVAL, 0 },
		{ "-1s", -EINVAL, 0 }, { "nan", -EINVAL, 0 }, { "infs", -EINVAL, 0 },
		{ "0x10s", -EINVAL, 0 }, { "99999999999h", -ERANGE, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ns = 0;
		int r = util_parse_duration_ns(cases[i].text, &ns);

		if (r != cases[i].r || ns != cases[i].ns)
			fail_msg("%s: %d, %llu ns", cases[i].text, r, (unsigned long long)ns);
	}
}

static void util_parse_number__bounds(void **state)
{
	uint64_t v = 0;

	assert_int_equal(util_parse_number("5", 1, 5, &v), 0);
	assert_int_equal(v, 5);
	assert_int_equal(util_parse_number("6", 1, 5, &v), -ERANGE);
	assert_int_equal(util_parse_number("0", 1, 5, &v), -ERANGE);
	assert_int_equal(util_parse_number("5 ", 1, 5, &v), -EINVAL);
	assert_int_equal(v, 5);
}

static void util_format__text(void **state)
{
	char text[UTIL_TEXT];

	assert_string_equal(util_format_bytes(0, text), "0 B");
	assert_string_equal(util_format_bytes(1023, text), "1023 B");
	assert_string_equal(util_format_bytes(4 << 20, text), "4.0 MiB");
	assert_string_equal(util_format_bytes(UINT64_MAX, text), "16.0 EiB");
	assert_string_equal(util_format_ns(999, text), "999 ns");
	assert_string_equal(util_format_ns(12300, text), "12.3 us");
	assert_string_equal(util_format_ns(4560000, text), "4.56 ms");
	assert_string_equal(util_format_ns(7800000000, text), "7.80 s");
}

static void util_read_all__whole_and_bounded(void **state)
{
	size_t n = 300000, len = 0;
	char *data = malloc(n);
	void *back = NULL;
	FILE *f = tmpfile();

	assert_non_null(data);
	assert_non_null(f);
	value_fill(3, data, n);
	assert_int_equal(util_write_all(fileno(f), data, n), 0);
	assert_int_equal(lseek(fileno(f), 0, SEEK_SET), 0);
	assert_int_equal(util_read_all(fileno(f), n - 1, &back, &len), -EFBIG);
	assert_null(back);
	assert_int_equal(lseek(fileno(f), 0, SEEK_SET), 0);
	assert_int_equal(util_read_all(fileno(f), n, &back, &len), 0);
	assert_int_equal(len, n);
	assert_memory_equal(back, data, n);
	free(back);
	free(data);
	assert_int_equal(fclose(f), 0);
}

static void value_check__sees_every_bit_and_place(void **state)
{
	static const size_t sizes[] = { 1, 7, 8, 9, 63, 4096, 4099 };
	unsigned char a[4100], b[4100];

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];

		memset(a, 0xee, sizeof(a));
		value_fill(17, a, n);
		assert_int_equal(a[n], 0xee);	/* not one byte more */
		assert_true(value_check(17, a, n));
		for (size_t at = 0; at < n; at += n > 100 ? 97 : 1) {
			a[at] ^= 1u << (at % 8);
			assert_false(value_check(17, a, n));
			a[at] ^= 1u << (at % 8);
		}
		a[n - 1] ^= 0x80;
		assert_false(value_check(17, a, n));
	}
	/* another id's value, and a shifted one, are wrong; a shorter one is a beginning */
	value_fill(17, a, 4096);
	assert_false(value_check(18, a, 4096));
	memmove(b, a + 8, 4088);
	assert_false(value_check(17, b, 4088));
	assert_true(value_check(17, a, 100));
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void latency_quantile__against_sorted_samples(void **state)
{
	enum { N = 20001 };
	static const double qs[] = { 0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.99999, 1 };
	struct latency *l = calloc(1, sizeof(*l));
	uint64_t *v = calloc(N, sizeof(*v)), seed = 4;

	assert_non_null(l);
	assert_non_null(v);
	for (size_t i = 0; i < N; i++) {
		/* over all octaves from 1 ns to minutes */
		v[i] = util_random64(&seed) >> (26 + util_random_below(&seed, 38));
		latency_add(l, v[i]);
	}
	qsort(v, N, sizeof(*v), compare_u64);
	for (size_t i = 0; i < ARRAY_SIZE(qs); i++) {
		double exact = qs[i] * N;
		size_t rank = (size_t)exact + (exact > (double)(size_t)exact);
		uint64_t want = v[rank ? rank - 1 : 0], got = latency_quantile(l, qs[i]);

		if (got < want || (double)got > (double)want * (1 + 1.0 / 128) + 1)
			fail_msg("seed 4, q %g: %llu for %llu", qs[i], (unsigned long long)got,
				 (unsigned long long)want);
	}
	assert_true(l->min_ns == v[0] && l->max_ns == v[N - 1]);
	free(v);
	free(l);
}

static void latency__empty_merge_and_saturation(void **state)
{
	struct latency *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));

	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(latency_quantile(a, 0.5), 0);
	assert_int_equal(latency_mean(a), 0);
	latency_merge(a, b);
	assert_int_equal(a->count, 0);
	latency_add(b, 100);
	latency_add(b, UINT64_MAX / 4);
	latency_merge(a, b);
	latency_add(a, 40);
	assert_int_equal(a->count, 3);
	assert_int_equal(a->min_ns, 40);
	assert_int_equal(latency_quantile(a, 0.5), 100);
	assert_true(latency_quantile(a, 1) == UINT64_MAX / 4);
	free(a);
	free(b);
}

static void output_base64__rfc_4648(void **state)
{
	static const struct { const char *in, *out; } cases[] = {
		{ "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" },
		{ "\xff\xfe\xfd", "//79" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *text = output_base64(cases[i].in, strlen(cases[i].in));

		assert_string_equal(text, cases[i].out);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(util_parse_size__units_and_faults),
		cmocka_unit_test(util_parse_duration__units_and_faults),
		cmocka_unit_test(util_parse_number__bounds),
		cmocka_unit_test(util_format__text),
		cmocka_unit_test(util_read_all__whole_and_bounded),
		cmocka_unit_test(value_check__sees_every_bit_and_place),
		cmocka_unit_test(latency_quantile__against_sorted_samples),
		cmocka_unit_test(latency__empty_merge_and_saturation),
		cmocka_unit_test(output_base64__rfc_4648),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
