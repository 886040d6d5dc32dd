/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256: the vectors of RFC 4231 (case 5 is truncated there: its first 16 bytes). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "wire/mac.h"

struct vector {
	size_t key_len;
	const char *key;	/* NULL: 0xaa */
	size_t data_len;
	const char *data;	/* one character: repeated */
	size_t mac_len;
	const char *mac;
};

static const struct vector vectors[] = {
	{ 20, "\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b", 8,
	  "Hi There", 32, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
	{ 4, "Jefe", 28, "what do ya want for nothing?", 32,
	  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
	{ 20, NULL, 50, "\xdd", 32,
	  "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
	{ 25, "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15"
	  "\x16\x17\x18\x19", 50, "\xcd", 32,
	  "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
	{ 20, "\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c",
	  20, "Test With Truncation", 16, "a3b6167473100ee06e0c796c2955552b" },
	{ 131, NULL, 54, "Test Using Larger Than Block-Size Key - Hash Key First", 32,
	  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
	{ 131, NULL, 152, "This is a test using a larger than block-size key and a larger than "
	  "block-size data. The key needs to be hashed before being used by the HMAC algorithm.",
	  32, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
};

static void hex(const uint8_t *bytes, size_t len, char *text)
{
	for (size_t i = 0; i < len; i++)
		(void)sprintf(text + 2 * i, "%02x", bytes[i]);	/* room: 2 * len + 1 */
}

static void mac_compute__rfc_4231(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
		const struct vector *v = &vectors[i];
		uint8_t key[131], data[152], mac[WIRE_MAC_SIZE];
		char text[2 * WIRE_MAC_SIZE + 1];

		memset(key, 0xaa, sizeof(key));
		if (v->key)
			memcpy(key, v->key, v->key_len);
		memset(data, v->data[0], sizeof(data));
		if (v->data[1])
			memcpy(data, v->data, v->data_len);
		/* in two parts, cut at every place */
		for (size_t cut = 0; cut <= v->data_len; cut++) {
			struct iovec parts[2] = {
				{ data, cut }, { data + cut, v->data_len - cut },
			};

			assert_int_equal(mac_compute(key, v->key_len, "", parts, 2, mac), 0);
			hex(mac, v->mac_len, text);
			assert_string_equal(text, v->mac);
		}
	}
}

static void mac_compute__label_goes_first(void **state)
{
	uint8_t a[WIRE_MAC_SIZE], b[WIRE_MAC_SIZE];
	struct iovec all = { (void *)"Hi There", 8 }, rest = { (void *)"There", 5 };

	assert_int_equal(mac_compute("secret", 6, "", &all, 1, a), 0);
	assert_int_equal(mac_compute("secret", 6, "Hi ", &rest, 1, b), 0);
	assert_int_equal(mac_equal(a, b), 1);
	assert_int_equal(mac_compute("secret", 6, MAC_LABEL_CLIENT, &all, 1, a), 0);
	assert_int_equal(mac_compute("secret", 6, MAC_LABEL_NODE, &all, 1, b), 0);
	assert_int_equal(mac_equal(a, b), 0);
	assert_int_equal(strlen(MAC_LABEL_CLIENT), 13);
	assert_int_equal(strlen(MAC_LABEL_NODE), 11);
}

static void mac_compute__no_secret(void **state)
{
	uint8_t mac[WIRE_MAC_SIZE];

	assert_int_equal(mac_compute(NULL, 0, "label", NULL, 0, mac), -EIO);
}

static void mac_equal__every_bit_counts(void **state)
{
	uint8_t a[WIRE_MAC_SIZE], b[WIRE_MAC_SIZE];

	memset(a, 0x5a, sizeof(a));
	memcpy(b, a, sizeof(b));
	assert_int_equal(mac_equal(a, b), 1);
	for (unsigned bit = 0; bit < 8 * WIRE_MAC_SIZE; bit++) {
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(mac_equal(a, b), 0);
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(mac_equal(a, b), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mac_compute__rfc_4231),
		cmocka_unit_test(mac_compute__label_goes_first),
		cmocka_unit_test(mac_compute__no_secret),
		cmocka_unit_test(mac_equal__every_bit_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
