/* SPDX-License-Identifier: Apache-2.0 */
/* RESP's reader over any split of its bytes, numbers, replies, patterns, LMCache's keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "wire/resp.h"

/* Steps as text: "C2 A3 GET. A1 k. D" for a whole command. */
static void read_all(const char *bytes, size_t len, size_t piece, char *out, size_t size)
{
	struct resp_reader r = { 0 };
	size_t at = 0, end = 0, n = 0;

	while (n + 64 < size) {
		size_t used = 0;
		const char *data = bytes + at;

		switch (resp_reader_step(&r, (const uint8_t *)data, end - at, &used)) {
		case RESP_MORE:
			assert_int_equal(used, 0);
			if (end == len)
				return;
			end = MIN(end + piece, len);
			break;
		case RESP_COMMAND:
			n += (size_t)sprintf(out + n, "C%u ", r.arguments);
			break;
		case RESP_ARGUMENT:
			n += (size_t)sprintf(out + n, "A%llu ", (unsigned long long)r.length);
			break;
		case RESP_BYTES:
			if (resp_reader_is_inside(&r))
				n += (size_t)sprintf(out + n, "%.*s", (int)used, data);
			break;
		case RESP_END:
			n += (size_t)sprintf(out + n, ". ");
			break;
		case RESP_DONE:
			n += (size_t)sprintf(out + n, "D ");
			break;
		case RESP_BROKEN:
			assert_non_null(r.fault);
			sprintf(out + n, "X");
			return;
		}
		at += used;
		assert_true(at <= end);
	}
	fail_msg("it does not end: %s", out);
}

static void reader__any_split_gives_the_same_steps(void **state)
{
	const char *bytes = "*2\r\n$3\r\nGET\r\n$5\r\nkey-1\r\n*0\r\n*-1\r\n"
			    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n";
	const char *expected = "C2 A3 GET. A5 key-1. D C3 A3 SET. A1 k. A0 . D C1 A4 PING. D ";

	for (size_t piece = 1; piece <= strlen(bytes); piece++) {
		char out[1024] = "";

		read_all(bytes, strlen(bytes), piece, out, sizeof(out));
		assert_string_equal(out, expected);
	}
}

static void reader__refuses_what_is_no_command(void **state)
{
	static const char *const bad[] = {
		"PING\r\n", "GET / HTTP/1.1\r\n", "\r\n", "*x\r\n", "*\r\n", "*1\n", "*1\rx",
		"*1048577\r\n", "*99999999999999999999\r\n", "*00000000000000000000000000000000001",
		"*1\r\n+OK\r\n", "*1\r\n$-1\r\n", "*1\r\n$536870913\r\n", "*1\r\n$ 1\r\n",
		"*1\r\n$4\r\nPINGX", "*1\r\n$4\r\nPING\rX", "*1\r\n$2\r\nPING\r\n", "\x16\x03\x01",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		for (size_t piece = 1; piece < 40; piece += 13) {
			char out[256] = "";

			read_all(bad[i], strlen(bad[i]), piece, out, sizeof(out));
			if (out[0] == '\0' || out[strlen(out) - 1] != 'X')
				fail_msg("\"%s\" was taken: %s", bad[i], out);
		}
}

static void reader__names_the_stranger(void **state)
{
	struct resp_reader r = { 0 };
	size_t used;

	assert_int_equal(resp_reader_step(&r, (const uint8_t *)"POST / HTTP", 11, &used),
			 RESP_BROKEN);
	assert_non_null(strstr(r.fault, "HTTP"));
	/* and stays so */
	assert_int_equal(resp_reader_step(&r, (const uint8_t *)"*1\r\n", 4, &used), RESP_BROKEN);
}

static void reader__bytes_may_go_elsewhere(void **state)
{
	struct resp_reader r = { 0 };
	const char *head = "*1\r\n$10\r\nabc";
	size_t at = 0, used;

	for (int i = 0; i < 3; i++) {
		resp_reader_step(&r, (const uint8_t *)head + at, strlen(head) - at, &used);
		at += used;
	}
	assert_int_equal(r.left, 7);
	resp_reader_passed(&r, 7);
	assert_int_equal(resp_reader_step(&r, (const uint8_t *)"\r\n", 2, &used), RESP_END);
	assert_int_equal(resp_reader_step(&r, NULL, 0, &used), RESP_DONE);
}

static void number__whole_and_in_range(void **state)
{
	int64_t n;

	assert_true(resp_number("-9223372036854775808", 20, &n) && n == INT64_MIN);
	assert_true(resp_number("9223372036854775807", 19, &n) && n == INT64_MAX);
	assert_true(resp_number("0", 1, &n) && n == 0);
	assert_false(resp_number("9223372036854775808", 19, &n));
	assert_false(resp_number("-9223372036854775809", 20, &n));
	assert_false(resp_number("", 0, &n));
	assert_false(resp_number("-", 1, &n));
	assert_false(resp_number("1 ", 2, &n));
	assert_false(resp_number("+1", 2, &n));
}

static void writer__both_versions(void **state)
{
	char out[256];
	struct resp_writer w;

	resp_begin(&w, out, sizeof(out), false);
	resp_write_simple(&w, "OK");
	resp_write_error(&w, "ERR", "a\r\nb");
	resp_write_integer(&w, -3);
	resp_write_bulk(&w, "x\0y", 3);
	resp_write_null(&w);
	resp_write_map(&w, 2);
	assert_int_equal(w.len, 39);
	assert_memory_equal(out, "+OK\r\n-ERR a  b\r\n:-3\r\n$3\r\nx\0y\r\n$-1\r\n*4\r\n", 39);
	resp_begin(&w, out, sizeof(out), true);
	resp_write_null(&w);
	resp_write_map(&w, 2);
	assert_memory_equal(out, "_\r\n%2\r\n", 7);
	resp_begin(&w, out, 8, false);
	resp_write_text(&w, "longer");
	assert_true(w.is_full);
	assert_true(w.len <= 8);
}

static void match__as_redis_does(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool match;
	} t[] = {
		{ "*", "", true }, { "*", "abc", true }, { "a*c", "abbbc", true },
		{ "a*c", "abbbd", false }, { "h?llo", "hello", true }, { "h?llo", "hllo", false },
		{ "h[ae]llo", "hallo", true }, { "h[^e]llo", "hello", false },
		{ "h[a-c]llo", "hbllo", true }, { "h[c-a]llo", "hbllo", true },
		{ "\\*x", "*x", true }, { "\\*x", "ax", false }, { "a[", "a", false },
		{ "**a**", "bab", true }, { "[\\]]", "]", true }, { "", "", true },
		{ "", "a", false },
		{ "a*b*c*d", "axxbxxcxxcxd", true }, { "*ab", "aab", true },
	};
	char star[200], text[4000];

	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		if (resp_match(t[i].pattern, strlen(t[i].pattern), t[i].text, strlen(t[i].text)) !=
		    t[i].match)
			fail_msg("%s on %s", t[i].pattern, t[i].text);
	assert_int_equal(resp_match_prefix("abc*d", 5), 3);
	assert_int_equal(resp_match_prefix("abc", 3), 3);
	/* what takes others for ever */
	for (size_t i = 0; i + 1 < sizeof(star); i += 2)
		memcpy(star + i, "a*", 2);
	memset(text, 'a', sizeof(text));
	star[sizeof(star) - 1] = 'b';
	assert_false(resp_match(star, sizeof(star), text, sizeof(text)));
}

static void key_namespace__lmcache_and_others(void **state)
{
	static const struct {
		const char *key, *ns;
	} t[] = {
		{ "llama@8@3@00ffab@bfloat16", "llama" },
		{ "meta-llama/L-3.1@8@3@00ffab@bfloat16@t1=2kv_bytes", "meta-llama/L-3.1" },
		{ "llama@8@3@00ffab", NULL },			/* no dtype */
		{ "llama@8@3@xyz@bf16", NULL },			/* no hash */
		{ "@8@3@00@bf16", NULL },
		{ "llama@0000000a@f@00ffab", "llama" },
		{ "llama@0000000a@f@00ffab@salt", "llama" },
		{ "site@llama@0000000a@f@00ffab@salt", "site@llama" },
		{ "llama@000000a@f@00ffab", NULL },		/* seven digits */
		{ "a:b%c@00000001@0@0", "a%3Ab%25c" },
		{ "plain", NULL }, { "", NULL }, { "@", NULL }, { "a@b", NULL },
	};
	char ns[RESP_NAMESPACE_MAX], longest[200];

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		size_t n = resp_key_namespace(t[i].key, strlen(t[i].key), ns);

		if (n != (t[i].ns ? strlen(t[i].ns) : 0) || (n && memcmp(ns, t[i].ns, n) != 0))
			fail_msg("%s is in \"%.*s\"", t[i].key, (int)n, ns);
	}
	memset(longest, 'm', sizeof(longest));
	memcpy(longest + 128, "@00000001@0@0", 13);
	assert_int_equal(resp_key_namespace(longest, 141, ns), 128);
	memcpy(longest + 129, "@00000001@0@0", 13);
	longest[128] = 'm';
	assert_int_equal(resp_key_namespace(longest, 142, ns), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reader__any_split_gives_the_same_steps),
		cmocka_unit_test(reader__refuses_what_is_no_command),
		cmocka_unit_test(reader__names_the_stranger),
		cmocka_unit_test(reader__bytes_may_go_elsewhere),
		cmocka_unit_test(number__whole_and_in_range),
		cmocka_unit_test(writer__both_versions),
		cmocka_unit_test(match__as_redis_does),
		cmocka_unit_test(key_namespace__lmcache_and_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
