/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What FUSE and the node may hand the view's tree: names, numbers, places, names of namespaces.
 * Each input is tried as all of them.
 */
#include "fuzz.h"

#include "../../fsview/tree.h"

static void check_name(const char *name)
{
	struct tree_key k;
	char again[TREE_NAME_SIZE];

	for (enum tree_kind kind = TREE_ROOT; kind <= TREE_OBJECT; kind++) {
		int which = tree_status_find(kind, name);

		PROPERTY(which < 0 || !strcmp(tree_status_name((unsigned)which), name));
		/* no key is hidden behind a status file */
		PROPERTY(which < 0 || tree_key_parse(name, &k) < 0);
	}
	if (tree_key_parse(name, &k) < 0)
		return;
	PROPERTY(k.len >= 1 && k.len <= LARDER_KEY_MAX);
	PROPERTY(strlen(name) <= LARDER_KEY_NAME_MAX);
	if (k.is_hash)
		return;
	PROPERTY(tree_key_format(k.bytes, k.len, again) == (int)strlen(name));
	PROPERTY(tree_key_names(name, k.bytes, k.len));
}

static void check_listed(const char *listed)
{
	char tenant[LARDER_TENANT_NAME_MAX + 1], space[TREE_NAME_SIZE];

	if (tree_space_split(listed, tenant, space) < 0)
		return;
	PROPERTY(tree_tenant_valid(tenant));
	PROPERTY(strlen(space) >= 1 && strlen(space) <= LARDER_KEY_NAME_MAX);
	PROPERTY(!strchr(space, '/') && space[0] != '.');
}

static void check_numbers(const uint8_t *data, size_t size)
{
	uint64_t word[2] = { 0 }, number;
	struct tree_node n;

	memcpy(word, data, size < sizeof(word) ? size : sizeof(word));
	if (tree_number_split(word[0], &n) == 0) {
		uint64_t inode = (uint64_t)n.slot << 32 | n.generation;

		PROPERTY(n.index < TREE_SPACES_MAX);
		if (n.kind == TREE_OBJECT) {
			PROPERTY(tree_number_object(n.index, inode, &number) == 0);
			PROPERTY(number == word[0]);
			PROPERTY(tree_node_is(&n, inode));
		}
		if (n.kind == TREE_STATUS)
			PROPERTY(tree_number_status(n.serial) == word[0]);
	}
	if (tree_number_object((uint32_t)word[1], word[0], &number) == 0) {
		PROPERTY(tree_number_split(number, &n) == 0 && n.kind == TREE_OBJECT);
		PROPERTY(n.index == (uint32_t)word[1] && tree_node_is(&n, word[0]));
	}
	PROPERTY(tree_place_cursor(tree_place_after_object(word[0])) ==
		 tree_slot_cursor(tree_inode_slot(word[0])) + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), name[TREE_NAME_SIZE];

	PROPERTY(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	check_name(text);
	check_listed(text);
	check_numbers(data, size);
	if (size >= 1 && size <= LARDER_KEY_MAX) {
		PROPERTY(tree_key_format(data, size, name) > 0);
		PROPERTY(tree_key_names(name, data, size));
	}
	free(text);
	return 0;
}
