/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys as text. A key has exactly one spelling and a spelling names exactly one key:
 *
 *	all bytes 0x20 to 0x7E	plain bytes as they are, the others (and a leading '.') as %XX
 *	anything else		"~x" and lower-case hexadecimal
 *
 * '~' is not plain, so the first byte of a spelling tells the form. The parser accepts only what
 * the formatter would have written: that makes a spelling usable as a file name, where two names
 * of one object would be two files. "~h" names a key by its hash and is never a spelling.
 */
#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include <larder/key.h>

#include "base/compiler.h"

static const char key_hex_lower[] = "0123456789abcdef";
static const char key_hex_upper[] = "0123456789ABCDEF";

static bool key_byte_printable(uint8_t c)
{
	return c >= 0x20 && c <= 0x7e;
}

static bool key_byte_plain(uint8_t c, bool first)
{
	if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
		return true;
	if (c == '.')
		return !first;
	return c == '_' || c == '=' || c == '@' || c == '+' || c == '-';
}

static bool key_printable(const uint8_t *key, size_t key_len)
{
	for (size_t i = 0; i < key_len; i++)
		if (!key_byte_printable(key[i]))
			return false;
	return true;
}

static int key_format_hex(char form, const uint8_t *bytes, size_t n, char *text, size_t text_size)
{
	size_t at = 0;

	if (text_size < 2 + 2 * n + 1)
		return -ENOBUFS;
	text[at++] = '~';
	text[at++] = form;
	for (size_t i = 0; i < n; i++) {
		text[at++] = key_hex_lower[bytes[i] >> 4];
		text[at++] = key_hex_lower[bytes[i] & 15];
	}
	text[at] = '\0';
	return (int)at;
}

static int key_format_text(const uint8_t *key, size_t key_len, char *text, size_t text_size)
{
	size_t at = 0;

	for (size_t i = 0; i < key_len; i++) {
		bool plain = key_byte_plain(key[i], i == 0);

		if (text_size - at < (plain ? 1 : 3) + 1u)
			return -ENOBUFS;
		if (plain) {
			text[at++] = (char)key[i];
			continue;
		}
		text[at++] = '%';
		text[at++] = key_hex_upper[key[i] >> 4];
		text[at++] = key_hex_upper[key[i] & 15];
	}
	text[at] = '\0';
	return (int)at;
}

LARDER_PUBLIC int larder_key_format(const void *key, size_t key_len, char *text, size_t text_size)
{
	if (key_len < 1 || key_len > LARDER_KEY_MAX)
		return -EINVAL;
	if (text_size == 0)
		return -ENOBUFS;
	if (!key_printable(key, key_len))
		return key_format_hex('x', key, key_len, text, text_size);
	return key_format_text(key, key_len, text, text_size);
}

LARDER_PUBLIC int larder_key_format_name(const void *key, size_t key_len, char *name,
					 size_t name_size)
{
	char text[LARDER_KEY_TEXT_SIZE];
	uint8_t hash[LARDER_KEY_HASH_SIZE];
	int len;

	len = larder_key_format(key, key_len, text, sizeof(text));
	if (len < 0)
		return len;
	if (len > (int)LARDER_KEY_NAME_MAX) {
		larder_key_hash(key, key_len, hash);
		return key_format_hex('h', hash, sizeof(hash), name, name_size);
	}
	if ((size_t)len >= name_size)
		return -ENOBUFS;
	memcpy(name, text, (size_t)len + 1);
	return len;
}

/* Value of one digit of @digits, -1 when @c is none. */
static int key_digit(char c, const char *digits)
{
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Two digits at @text to a byte, or -1. Reads the second only when the first is one. */
static int key_parse_byte(const char *text, const char *digits)
{
	int high = key_digit(text[0], digits);
	int low = high < 0 ? -1 : key_digit(text[1], digits);

	return low < 0 ? -1 : high << 4 | low;
}

static int key_parse_hex(const char *text, uint8_t *key, size_t key_size)
{
	size_t n = 0;

	for (; *text; text += 2) {
		int c = key_parse_byte(text, key_hex_lower);

		if (c < 0 || n >= key_size)
			return -EINVAL;
		key[n++] = (uint8_t)c;
	}
	return (int)n;
}

static int key_parse_text(const char *text, uint8_t *key, size_t key_size)
{
	size_t n = 0;

	while (*text) {
		bool first = n == 0;
		int c = (uint8_t)*text;

		if (n >= key_size)
			return -EINVAL;
		if (c == '%') {
			c = key_parse_byte(text + 1, key_hex_upper);
			if (c < 0 || !key_byte_printable((uint8_t)c) ||
			    key_byte_plain((uint8_t)c, first))
				return -EINVAL;
			text += 3;
		} else {
			if (!key_byte_plain((uint8_t)c, first))
				return -EINVAL;
			text++;
		}
		key[n++] = (uint8_t)c;
	}
	return (int)n;
}

LARDER_PUBLIC int larder_key_parse(const char *text, void *key, size_t key_size, bool *is_hash)
{
	uint8_t bytes[LARDER_KEY_MAX];
	bool hash = false;
	int n;

	if (text[0] == '~' && text[1] == 'h') {
		hash = true;
		n = key_parse_hex(text + 2, bytes, LARDER_KEY_HASH_SIZE);
		if (n != (int)LARDER_KEY_HASH_SIZE)
			return -EINVAL;
	} else if (text[0] == '~' && text[1] == 'x') {
		n = key_parse_hex(text + 2, bytes, sizeof(bytes));
		/* a key of printable bytes has a spelling as text, and only that one */
		if (n > 0 && key_printable(bytes, (size_t)n))
			return -EINVAL;
	} else {
		n = key_parse_text(text, bytes, sizeof(bytes));
	}
	if (n <= 0)
		return -EINVAL;
	if ((size_t)n > key_size)
		return -ENOBUFS;
	memcpy(key, bytes, (size_t)n);
	*is_hash = hash;
	return n;
}

LARDER_PUBLIC void larder_key_hash(const void *key, size_t key_len,
				   uint8_t hash[LARDER_KEY_HASH_SIZE])
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits(key, key_len));
	memcpy(hash, canonical.digest, LARDER_KEY_HASH_SIZE);
}
