/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fsview/tree.h"

static uint64_t inode(uint32_t slot, uint32_t generation)
{
	return (uint64_t)slot << 32 | generation;
}

static void numbers_come_back_as_what_they_were(void **state)
{
	struct tree_node n;
	uint64_t number;

	assert_int_equal(tree_number_split(TREE_ROOT_NUMBER, &n), 0);
	assert_int_equal(n.kind, TREE_ROOT);
	assert_int_equal(tree_number_split(tree_number_tenant(7), &n), 0);
	assert_int_equal(n.kind, TREE_TENANT);
	assert_int_equal(n.index, 7);
	assert_int_equal(tree_number_split(tree_number_space(TREE_SPACES_MAX - 1), &n), 0);
	assert_int_equal(n.kind, TREE_SPACE);
	assert_int_equal(n.index, TREE_SPACES_MAX - 1);
	assert_int_equal(tree_number_split(tree_number_status(1ull << 40), &n), 0);
	assert_int_equal(n.kind, TREE_STATUS);
	assert_int_equal(n.serial, 1ull << 40);
	assert_int_equal(tree_number_object(TREE_SPACES_MAX - 1,
					    inode(TREE_SLOTS_MAX - 1, UINT32_MAX), &number), 0);
	assert_int_equal(tree_number_split(number, &n), 0);
	assert_int_equal(n.kind, TREE_OBJECT);
	assert_int_equal(n.index, TREE_SPACES_MAX - 1);
	assert_int_equal(n.slot, TREE_SLOTS_MAX - 1);
	assert_true(tree_node_is(&n, inode(TREE_SLOTS_MAX - 1, UINT32_MAX)));
}

static void a_slot_used_again_is_another_object(void **state)
{
	struct tree_node n;
	uint64_t number;

	assert_int_equal(tree_number_object(3, inode(9, 1000), &number), 0);
	assert_int_equal(tree_number_split(number, &n), 0);
	assert_true(tree_node_is(&n, inode(9, 1000)));
	assert_false(tree_node_is(&n, inode(9, 1001)));
	assert_false(tree_node_is(&n, inode(10, 1000)));
}

static void what_has_no_room_in_a_number_is_refused(void **state)
{
	uint64_t number;
	struct tree_node n;

	assert_int_equal(tree_number_object(TREE_SPACES_MAX, inode(1, 1), &number), -EOVERFLOW);
	assert_int_equal(tree_number_object(0, inode(TREE_SLOTS_MAX, 1), &number), -EOVERFLOW);
	assert_int_equal(tree_number_split(0, &n), -ESTALE);
	assert_int_equal(tree_number_split(2, &n), -ESTALE);
	assert_int_equal(tree_number_split(tree_number_tenant(TREE_SPACES_MAX), &n), -ESTALE);
	assert_int_equal(tree_number_split(5ull << 60, &n), -ESTALE);
}

static void inode_numbers_of_directories_meet_no_objects(void **state)
{
	assert_int_equal(tree_inode_slot(tree_ino_root()), UINT32_MAX);
	assert_int_equal(tree_inode_slot(tree_ino_tenant("demo")), UINT32_MAX);
	assert_int_equal(tree_inode_slot(tree_ino_space(12)), UINT32_MAX);
	assert_int_equal(tree_inode_slot(tree_ino_status(1, 2)), UINT32_MAX);
	assert_true(tree_ino_tenant("a") != tree_ino_tenant("b"));
	assert_true(tree_ino_status(1, 2) != tree_ino_status(1, 3));
	assert_int_equal(tree_ino_tenant("demo"), tree_ino_tenant("demo"));
}

static void a_place_goes_on_after_its_entry(void **state)
{
	/* the node's cursor is the next slot plus one: object 41 is first from cursor 42 on */
	assert_int_equal(tree_slot_cursor(41), 42);
	assert_int_equal(tree_place_cursor(tree_place_after_object(inode(41, 5))), 43);
	assert_int_equal(tree_place_cursor(TREE_PLACE_REST), 0);
	assert_int_equal(tree_place_cursor(0), 0);
	assert_true(tree_place_after_object(inode(0, 1)) > TREE_PLACE_REST);
}

static void status_files_have_places_before_the_rest(void **state)
{
	unsigned n = 0;

	for (enum tree_kind kind = TREE_ROOT; kind <= TREE_SPACE; kind++) {
		unsigned i = 0;

		for (; tree_status_nth(kind, i) >= 0; i++) {
			const char *name = tree_status_name((unsigned)tree_status_nth(kind, i));

			assert_int_equal(name[0], '.');
			assert_int_equal(tree_status_find(kind, name), tree_status_nth(kind, i));
			assert_int_equal(TREE_STATUS_IS_JSON((unsigned)tree_status_nth(kind, i)),
					 strstr(name, ".json") != NULL);
		}
		assert_true(TREE_PLACE_STATUS + i <= TREE_PLACE_REST);
		n += i;
	}
	assert_int_equal(n, TREE_STATUSES);
	assert_int_equal(tree_status_find(TREE_ROOT, ".usage"), -1);
}

static void check_key(const void *key, size_t len)
{
	char name[TREE_NAME_SIZE];
	struct tree_key back;

	assert_true(tree_key_format(key, len, name) > 0);
	assert_true(strlen(name) <= LARDER_KEY_NAME_MAX);
	assert_null(strchr(name, '/'));
	assert_int_not_equal(name[0], '.');
	assert_int_equal(tree_key_parse(name, &back), 0);
	assert_true(tree_key_names(name, key, len));
	if (back.is_hash)
		return;
	assert_int_equal(back.len, len);
	assert_memory_equal(back.bytes, key, len);
}

static void gcsfuse_341_any_bytes_as_a_key_have_one_name(void **state)
{
	uint64_t seed = (uint64_t)time(NULL);
	const char *given = getenv("LARDER_SEED");
	uint8_t key[LARDER_KEY_MAX];

	if (given)
		seed = strtoull(given, NULL, 0);
	print_message("seed %llu: LARDER_SEED repeats it\n", (unsigned long long)seed);
	check_key("a/b", 3);
	check_key("%41", 3);
	check_key("line\n", 5);
	check_key("\0\0", 2);
	check_key("\xff", 1);
	check_key(".", 1);
	check_key("..", 2);
	check_key(".stats", 6);
	srand48((long)seed);
	for (int i = 0; i < 20000; i++) {
		size_t len = 1 + (size_t)(lrand48() % (i % 2 ? 40 : LARDER_KEY_MAX));

		for (size_t b = 0; b < len; b++)
			key[b] = (uint8_t)(i % 3 ? lrand48() : 0x20 + lrand48() % 0x5f);
		check_key(key, len);
	}
}

static void only_the_canonical_name_is_found(void **state)
{
	char name[TREE_NAME_SIZE], long_key[300];
	struct tree_key k;

	assert_int_equal(tree_key_parse("%61", &k), -ENOENT);
	assert_int_equal(tree_key_parse("%2f", &k), -ENOENT);
	assert_int_equal(tree_key_parse("~x61", &k), -ENOENT);
	assert_int_equal(tree_key_parse(".hidden", &k), -ENOENT);
	assert_int_equal(tree_key_parse("~h00", &k), -ENOENT);
	/* a short name of a key that has a full one */
	memset(long_key, 'k', sizeof(long_key));
	assert_int_equal(tree_key_format(long_key, sizeof(long_key), name), 34);
	assert_int_equal(tree_key_parse(name, &k), 0);
	assert_true(k.is_hash);
	assert_true(tree_key_names(name, long_key, sizeof(long_key)));
	assert_false(tree_key_names(name, long_key, 200));
	/* a full spelling that no directory shows */
	memset(long_key, 'k', sizeof(long_key) - 1);
	long_key[sizeof(long_key) - 1] = '\0';
	assert_int_equal(tree_key_parse(long_key, &k), -ENOENT);
}

static void namespaces_are_divided_from_their_tenant(void **state)
{
	char tenant[LARDER_TENANT_NAME_MAX + 1], space[TREE_NAME_SIZE], listed[200];

	assert_int_equal(tree_space_split("demo:llama-3.1-8b@r7", tenant, space), 0);
	assert_string_equal(tenant, "demo");
	assert_string_equal(space, "llama-3.1-8b@r7");
	assert_int_equal(tree_space_split("demo:a/b", tenant, space), 0);
	assert_string_equal(space, "a%2Fb");
	assert_int_equal(tree_space_split("nothing", tenant, space), -EINVAL);
	assert_int_equal(tree_space_split(":x", tenant, space), -EINVAL);
	assert_int_equal(tree_space_split("demo:", tenant, space), -EINVAL);
	assert_int_equal(tree_space_split("../x:y", tenant, space), -EINVAL);
	assert_int_equal(tree_space_split("A:y", tenant, space), -EINVAL);
	/* 128 bytes that are no text would be 258 characters */
	strcpy(listed, "demo:");
	memset(listed + 5, 0xff, LARDER_NS_NAME_MAX);
	listed[5 + LARDER_NS_NAME_MAX] = '\0';
	assert_int_equal(tree_space_split(listed, tenant, space), 0);
	assert_int_equal(strlen(space), 34);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_come_back_as_what_they_were),
		cmocka_unit_test(a_slot_used_again_is_another_object),
		cmocka_unit_test(what_has_no_room_in_a_number_is_refused),
		cmocka_unit_test(inode_numbers_of_directories_meet_no_objects),
		cmocka_unit_test(a_place_goes_on_after_its_entry),
		cmocka_unit_test(status_files_have_places_before_the_rest),
		cmocka_unit_test(gcsfuse_341_any_bytes_as_a_key_have_one_name),
		cmocka_unit_test(only_the_canonical_name_is_found),
		cmocka_unit_test(namespaces_are_divided_from_their_tenant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
