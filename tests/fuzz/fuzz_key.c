/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and their spelling. Each input is tried as bytes of a key, which must come back from its
 * spelling, and as a spelling, which must be refused or be exactly what its key is spelled.
 */
#include "fuzz.h"

#include <larder/key.h>

static void check_bytes(const uint8_t *data, size_t size)
{
	char text[LARDER_KEY_TEXT_SIZE], name[LARDER_KEY_NAME_MAX + 1];
	uint8_t key[LARDER_KEY_MAX], hash[LARDER_KEY_HASH_SIZE];
	bool is_hash;
	int len;

	len = larder_key_format(data, size, text, sizeof(text));
	if (size < 1 || size > LARDER_KEY_MAX) {
		PROPERTY(len < 0);
		return;
	}
	PROPERTY(len > 0 && (size_t)len == strlen(text));
	PROPERTY(larder_key_parse(text, key, sizeof(key), &is_hash) == (int)size && !is_hash);
	PROPERTY(memcmp(key, data, size) == 0);
	PROPERTY(larder_key_format(data, size, text, (size_t)len) < 0);

	/* a name that a directory takes always exists, and is the spelling where that is short */
	PROPERTY(larder_key_format(data, size, text, sizeof(text)) == len);
	PROPERTY(larder_key_format_name(data, size, name, sizeof(name)) > 0);
	PROPERTY(strchr(name, '/') == NULL && name[0] != '.');
	if (len <= (int)LARDER_KEY_NAME_MAX) {
		PROPERTY(strcmp(name, text) == 0);
		return;
	}
	PROPERTY(larder_key_parse(name, key, sizeof(key), &is_hash) == (int)sizeof(hash));
	PROPERTY(is_hash);
	larder_key_hash(data, size, hash);
	PROPERTY(memcmp(key, hash, sizeof(hash)) == 0);
}

static void check_text(const char *text)
{
	char again[LARDER_KEY_TEXT_SIZE];
	uint8_t key[LARDER_KEY_MAX];
	bool is_hash = false;
	int len = larder_key_parse(text, key, sizeof(key), &is_hash);

	if (len < 0)
		return;
	PROPERTY(len >= 1 && len <= (int)LARDER_KEY_MAX);
	if (is_hash) {
		PROPERTY(len == (int)LARDER_KEY_HASH_SIZE);
		PROPERTY(strlen(text) == 2 + 2 * LARDER_KEY_HASH_SIZE);
		return;
	}
	PROPERTY(larder_key_format(key, (size_t)len, again, sizeof(again)) == (int)strlen(text));
	PROPERTY(strcmp(text, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = fuzz_copy(data, size);
	char *text = malloc(size + 1);

	PROPERTY(text);
	check_bytes(bytes, size);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	check_text(text);
	free(text);
	free(bytes);
	return 0;
}
