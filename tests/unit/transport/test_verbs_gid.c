/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a GID over tables as devices show them. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "transport/verbs_gid.h"

static struct verbs_gid gid(uint32_t index, uint8_t type, const char *text)
{
	struct verbs_gid g = { .index = index, .type = type };

	assert_int_equal(inet_pton(AF_INET6, text, g.raw), 1);
	return g;
}

/* As soft-RoCE and most adapters have it: link-local first, then each address in both versions. */
static void gid_choose__passes_over_link_local_and_v1(void **state)
{
	const struct verbs_gid table[] = {
		gid(0, VERBS_GID_ROCE_V1, "fe80::5054:ff:fe12:3456"),
		gid(1, VERBS_GID_ROCE_V2, "fe80::5054:ff:fe12:3456"),
		gid(2, VERBS_GID_ROCE_V1, "::ffff:198.51.100.7"),
		gid(3, VERBS_GID_ROCE_V2, "::ffff:198.51.100.7"),
		gid(4, VERBS_GID_ROCE_V2, "2001:db8::7"),
	};
	const struct verbs_gid *g;
	const char *why;

	g = verbs_gid_choose(table, ARRAY_SIZE(table), NULL, &why);
	assert_non_null(g);
	assert_int_equal(g->index, 3);
	g = verbs_gid_choose(table, ARRAY_SIZE(table), table[4].raw, &why);
	assert_non_null(g);
	assert_int_equal(g->index, 4);
	g = verbs_gid_choose(table, ARRAY_SIZE(table), table[2].raw, &why);
	assert_non_null(g);
	assert_int_equal(g->index, 3);
	assert_null(verbs_gid_choose(table, ARRAY_SIZE(table), table[0].raw, &why));
	assert_non_null(strstr(why, "link-local"));
}

static void gid_choose__says_why_there_is_none(void **state)
{
	const struct verbs_gid v1[] = { gid(0, VERBS_GID_ROCE_V1, "::ffff:198.51.100.7") };
	const struct verbs_gid other = gid(0, VERBS_GID_ROCE_V2, "2001:db8::1");
	const struct verbs_gid empty[] = { { .index = 0, .type = VERBS_GID_ROCE_V2 } };
	const char *why;

	assert_null(verbs_gid_choose(NULL, 0, NULL, &why));
	assert_non_null(strstr(why, "empty"));
	assert_null(verbs_gid_choose(v1, 1, NULL, &why));
	assert_non_null(strstr(why, "v1"));
	assert_null(verbs_gid_choose(v1, 1, other.raw, &why));
	assert_non_null(strstr(why, "has that address"));
	assert_null(verbs_gid_choose(empty, 1, NULL, &why));
	assert_non_null(strstr(why, "empty"));
}

/* On InfiniBand the default subnet prefix is fe80::, which means nothing. */
static void gid_fault__infiniband_is_no_link_local(void **state)
{
	struct verbs_gid ib = gid(0, VERBS_GID_IB, "fe80::2:c903:1:2");
	struct verbs_gid roce = gid(0, VERBS_GID_ROCE_V2, "fe80::2:c903:1:2");

	assert_null(verbs_gid_fault(&ib));
	assert_non_null(verbs_gid_fault(&roce));
}

static void gid_text__as_people_write_it(void **state)
{
	struct verbs_gid v4 = gid(0, VERBS_GID_ROCE_V2, "::ffff:198.51.100.7");
	struct verbs_gid v6 = gid(0, VERBS_GID_ROCE_V2, "2001:db8::7");
	char text[VERBS_GID_TEXT];

	verbs_gid_text(&v4, text);
	assert_string_equal(text, "198.51.100.7");
	verbs_gid_text(&v6, text);
	assert_string_equal(text, "2001:db8::7");
	assert_string_equal(verbs_gid_type_name(VERBS_GID_ROCE_V2), "RoCE v2");
	assert_string_equal(verbs_gid_type_name(99), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gid_choose__passes_over_link_local_and_v1),
		cmocka_unit_test(gid_choose__says_why_there_is_none),
		cmocka_unit_test(gid_fault__infiniband_is_no_link_local),
		cmocka_unit_test(gid_text__as_people_write_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
