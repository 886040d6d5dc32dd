/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses: what is taken, what is refused, and that text survives there and back. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "transport/tcp_address.h"

static void tcp_address_parse__there_and_back(void **state)
{
	const char *texts[] = {
		"127.0.0.1:16180", "0.0.0.0:0", "198.51.100.7:65535", "[::1]:16180",
		"[::]:0", "[2001:db8::17]:4711",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct tcp_address a;
		char text[128];

		assert_int_equal(tcp_address_parse(texts[i], &a), 0);
		assert_int_equal(tcp_address_format(&a, text, sizeof(text)), 0);
		assert_string_equal(text, texts[i]);
	}
}

static void tcp_address_parse__refuses(void **state)
{
	const char *texts[] = {
		"", ":", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
		"127.0.0.1:+1", "127.0.0.1: 1", "127.0.0.1:1x", "127.0.0.1:000080",
		"127.0.0.256:1", "127.0.0:1", "localhost:1", "::1:16180", "[::1]", "[::1]16180",
		"[::1]:", "[::1:80", "[127.0.0.1]:80", "[]:80", "[::g]:80",
	};
	struct tcp_address a;
	char long_host[300];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (tcp_address_parse(texts[i], &a) != -EINVAL)
			fail_msg("\"%s\" was taken", texts[i]);
	}
	assert_int_equal(tcp_address_parse(NULL, &a), -EINVAL);
	memset(long_host, 'a', sizeof(long_host));
	snprintf(long_host + 280, sizeof(long_host) - 280, ":80");
	assert_int_equal(tcp_address_parse(long_host, &a), -EINVAL);
}

static void tcp_address_resolve__numbers(void **state)
{
	struct tcp_addresses found;

	assert_int_equal(tcp_address_resolve("127.0.0.1:80", &found), 0);
	assert_int_equal(found.n, 1);
	assert_int_equal(found.a[0].sa.any.sa_family, AF_INET);
	assert_int_equal(tcp_address_resolve("[::1]:80", &found), 0);
	assert_int_equal(found.n, 1);
	assert_int_equal(found.a[0].sa.any.sa_family, AF_INET6);
	assert_int_equal(tcp_address_resolve("127.0.0.1:0", &found), -EINVAL);
	assert_int_equal(tcp_address_resolve("[localhost]:80", &found), -EINVAL);
}

/* From /etc/hosts: no name server is asked. */
static void tcp_address_resolve__a_name(void **state)
{
	struct tcp_addresses found;
	int r = tcp_address_resolve("localhost:16180", &found);

	if (r == -EHOSTUNREACH || r == -EAGAIN) {
		print_message("skipped: this host does not know localhost\n");
		skip();
	}
	assert_int_equal(r, 0);
	assert_true(found.n >= 1);
	for (unsigned i = 0; i < found.n; i++) {
		char text[128];

		assert_int_equal(tcp_address_format(&found.a[i], text, sizeof(text)), 0);
		assert_non_null(strstr(text, ":16180"));
	}
}

static void tcp_address_format__too_small(void **state)
{
	struct tcp_address a;
	char text[8];

	assert_int_equal(tcp_address_parse("127.0.0.1:80", &a), 0);
	assert_int_equal(tcp_address_format(&a, text, sizeof(text)), -ENOSPC);
	a.sa.any.sa_family = AF_UNIX;
	assert_int_equal(tcp_address_format(&a, text, sizeof(text)), -EAFNOSUPPORT);
}

static void tcp_address_equal__compares_all(void **state)
{
	const char *texts[] = { "127.0.0.1:1", "127.0.0.1:2", "127.0.0.2:1", "[::1]:1", "[::1]:2",
				"[::2]:1" };
	struct tcp_address a, b;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(texts); k++) {
			assert_int_equal(tcp_address_parse(texts[i], &a), 0);
			assert_int_equal(tcp_address_parse(texts[k], &b), 0);
			assert_int_equal(tcp_address_equal(&a, &b), i == k);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tcp_address_parse__there_and_back),
		cmocka_unit_test(tcp_address_parse__refuses),
		cmocka_unit_test(tcp_address_resolve__numbers),
		cmocka_unit_test(tcp_address_resolve__a_name),
		cmocka_unit_test(tcp_address_format__too_small),
		cmocka_unit_test(tcp_address_equal__compares_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
