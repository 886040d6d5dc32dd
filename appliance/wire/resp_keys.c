/* SPDX-License-Identifier: Apache-2.0 */
/* What RESP's clients say in and about keys: SCAN's patterns, and LMCache's own spelling. */
#include <string.h>

#include "base/compiler.h"
#include "wire/resp.h"

/* --- patterns -------------------------------------------------------------------------------- */

/* A set "[...]" that begins at @p[*at]. Moves behind it; does @c belong to it? */
static bool match_set(const uint8_t *p, size_t len, size_t *at, uint8_t c)
{
	size_t i = *at + 1;
	bool negate = i < len && p[i] == '^', found = false;

	i += negate;
	for (; i < len && p[i] != ']'; i++) {
		uint8_t low, high;

		if (p[i] == '\\' && i + 1 < len)
			i++;
		low = high = p[i];
		if (i + 2 < len && p[i + 1] == '-' && p[i + 2] != ']') {
			i += 2;
			high = p[i];
		}
		found |= c >= MIN(low, high) && c <= MAX(low, high);
	}
	*at = i < len ? i + 1 : len;
	return found != negate;
}

/* One element that is no '*', against one byte. Moves *@at behind it. */
static bool match_one(const uint8_t *p, size_t len, size_t *at, uint8_t c)
{
	if (p[*at] == '[')
		return match_set(p, len, at, c);
	if (p[*at] == '?') {
		++*at;
		return true;
	}
	if (p[*at] == '\\' && *at + 1 < len)
		++*at;
	return p[(*at)++] == c;
}

/* Only the last '*' is ever tried again: what was matched before it can stay as it is. */
bool resp_match(const void *pattern, size_t pattern_len, const void *text, size_t text_len)
{
	const uint8_t *p = pattern, *t = text;
	size_t at = 0, i = 0, star = SIZE_MAX, from = 0;

	while (i < text_len) {
		size_t next = at;

		if (at < pattern_len && p[at] == '*') {
			star = ++at;
			from = i;
		} else if (at < pattern_len && match_one(p, pattern_len, &next, t[i])) {
			at = next;
			i++;
		} else if (star != SIZE_MAX) {
			at = star;
			i = ++from;
		} else {
			return false;
		}
	}
	while (at < pattern_len && p[at] == '*')
		at++;
	return at == pattern_len;
}

size_t resp_match_prefix(const void *pattern, size_t pattern_len)
{
	const uint8_t *p = pattern;
	size_t n = 0;

	while (n < pattern_len && p[n] != '*' && p[n] != '?' && p[n] != '[' && p[n] != '\\')
		n++;
	return n;
}

/* --- LMCache's keys -------------------------------------------------------------------------- */

#define KEY_FIELDS 7u	/* more than any form has before what may hold anything */

struct key_field {
	const char *text;
	size_t len;
};

static uint32_t key_split(const char *key, size_t len, struct key_field ret[KEY_FIELDS])
{
	uint32_t n = 0;

	while (n < KEY_FIELDS) {
		const char *end = memchr(key, '@', len);
		size_t field = end ? (size_t)(end - key) : len;

		ret[n++] = (struct key_field){ .text = key, .len = field };
		if (!end)
			break;
		key += field + 1;
		len -= field + 1;
	}
	return n;
}

static bool key_is_of(const struct key_field *f, const char *letters)
{
	for (size_t i = 0; i < f->len; i++)
		if (!f->text[i] || !strchr(letters, f->text[i]))
			return false;
	return f->len > 0;
}

static bool key_is_decimal(const struct key_field *f)
{
	return key_is_of(f, "0123456789");
}

static bool key_is_hex(const struct key_field *f)
{
	return key_is_of(f, "0123456789abcdefABCDEF");
}

static bool key_is_single_process(const struct key_field *f, uint32_t n)
{
	return n >= 5 && f[0].len > 0 && key_is_decimal(&f[1]) && key_is_decimal(&f[2]) &&
	       key_is_hex(&f[3]) && f[4].len > 0;
}

static bool key_is_multi_process(const struct key_field *f, uint32_t n)
{
	return n >= 4 && f[0].len > 0 && f[1].len == 8 && key_is_hex(&f[1]) && key_is_hex(&f[2]) &&
	       key_is_hex(&f[3]);
}

static size_t key_escape(const char *text, size_t len, char ret[RESP_NAMESPACE_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		bool special = text[i] == ':' || text[i] == '%';

		if (n + (special ? 3 : 1) > RESP_NAMESPACE_MAX)
			return 0;
		if (special) {
			memcpy(ret + n, text[i] == ':' ? "%3A" : "%25", 3);
			n += 3;
		} else {
			ret[n++] = text[i];
		}
	}
	return n;
}

size_t resp_key_namespace(const void *key, size_t key_len, char ret[RESP_NAMESPACE_MAX])
{
	struct key_field f[KEY_FIELDS];
	uint32_t n = key_split(key, key_len, f);

	if (key_is_multi_process(f, n) || key_is_single_process(f, n))
		return key_escape(f[0].text, f[0].len, ret);
	if (f[0].len > 0 && n > 1 && key_is_multi_process(f + 1, n - 1))
		return key_escape(f[0].text, f[0].len + 1 + f[1].len, ret);
	return 0;
}
