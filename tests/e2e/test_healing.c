/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.verify_commit = no: a writer whose checks are not those of its bytes is believed at first.
 * The scrubber looks at new objects before old ones, and takes it out of service though nobody
 * reads it; a right one beside it stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "raw.h"

#define LEN 70000u

static void wrong_checks_are_found_by_the_scrubber(void **state)
{
	struct node node;
	static struct raw r;
	uint8_t message[WIRE_MESSAGE_MAX], *value = malloc(LEN);
	uint32_t ns;

	assert_non_null(value);
	node_setup(&node, "[node]\nverify_commit = no\n[engine]\nscrub = 16M\n");
	node_start(&node);
	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "demo", node.secret), LARDER_OK);
	ns = raw_namespace(&r, "lies");
	pattern_fill(value, LEN, 5);
	for (unsigned lie = 0; lie < 2; lie++) {
		int len = raw_put_message(message, 9 + lie, ns, lie ? "lie" : "truth", value, LEN);

		value[LEN - 1] ^= lie;
		assert_true(raw_send(&r, message, (size_t)len));
		assert_true(raw_send(&r, value, LEN));
		assert_true(raw_reply(&r, 5000));
		assert_int_equal(r.header.status, LARDER_OK);
	}
	assert_int_equal(node_stat_wait(&node, "objects", "quarantined", 1), 1);
	assert_int_equal(node_stat(&node, "objects", "objects"), 1);
	assert_true(raw_send(&r, message, (size_t)raw_get_message(message, 20, ns, "lie", LEN)));
	assert_true(raw_reply(&r, 5000));
	assert_int_equal(r.header.status, LARDER_NOT_FOUND);
	assert_true(raw_send(&r, message, (size_t)raw_get_message(message, 21, ns, "truth", LEN)));
	assert_true(raw_reply(&r, 5000));
	assert_int_equal(r.header.status, LARDER_OK);
	assert_true(raw_read(&r, value, LEN, 5000));
	assert_int_equal(pattern_check(value, LEN, 5), -1);
	raw_close(&r);
	node_stop(&node);
	node_cleanup(&node);
	free(value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_checks_are_found_by_the_scrubber),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
