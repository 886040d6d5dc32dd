/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: every transport by its scheme, every slot filled, URLs taken apart. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "transport/registry.h"

static void transport_find__known_schemes(void **state)
{
	const char *schemes[] = { "tcp", "shm", "rdma", "loop" };

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		const struct transport_ops *ops = transport_find(schemes[i]);

		assert_non_null(ops);
		assert_string_equal(ops->name, schemes[i]);
		assert_int_equal(ops->size, sizeof(*ops));
		assert_ptr_equal(transport_find(schemes[i]), ops);
	}
}

static void transport_find__unknown_schemes(void **state)
{
	assert_null(transport_find(NULL));
	assert_null(transport_find(""));
	assert_null(transport_find("tc"));
	assert_null(transport_find("tcpx"));
	assert_null(transport_find("TCP"));
}

/* From the first slot to the last, nothing is NULL: a table is a run of pointers. */
static void transport_tables__no_slot_is_null(void **state)
{
	const struct transport_ops *tables[] = { transport_tcp(), transport_shm(),
						 transport_verbs(), transport_loop() };

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		const char *bytes = (const char *)tables[i];

		for (size_t at = offsetof(struct transport_ops, open); at < sizeof(*tables[i]);
		     at += sizeof(void *)) {
			void *slot;

			memcpy(&slot, bytes + at, sizeof(slot));
			assert_non_null(slot);
		}
		assert_true(tables[i]->limits.max_message > 0);
		assert_true(tables[i]->limits.max_iov > 0);
		assert_true(tables[i]->limits.max_tx > 0);
		assert_true(tables[i]->limits.max_rx > 0);
	}
}

static int opened(const struct transport_config *config, struct transport **ret)
{
	return 42;
}

static void transport_fill_defaults__keeps_what_is_set(void **state)
{
	struct transport_ops ops = { .name = "x", .open = opened };

	transport_fill_defaults(&ops);
	assert_ptr_equal(ops.open, opened);
	assert_int_equal(ops.flush(NULL), -EOPNOTSUPP);
}

static void transport_parse_url__good(void **state)
{
	const struct transport_ops *ops;
	const char *address;

	assert_int_equal(transport_parse_url("tcp://[::1]:16180", &ops, &address), 0);
	assert_ptr_equal(ops, transport_tcp());
	assert_string_equal(address, "[::1]:16180");
	assert_int_equal(transport_parse_url("shm:///run/larder/larder.sock", &ops, &address), 0);
	assert_ptr_equal(ops, transport_shm());
	assert_string_equal(address, "/run/larder/larder.sock");
	assert_int_equal(transport_parse_url("loop://a://b", &ops, &address), 0);
	assert_ptr_equal(ops, transport_loop());
	assert_string_equal(address, "a://b");
}

static void transport_parse_url__bad(void **state)
{
	const struct transport_ops *ops = NULL;
	const char *address = NULL;

	assert_int_equal(transport_parse_url(NULL, &ops, &address), -EINVAL);
	assert_int_equal(transport_parse_url("", &ops, &address), -EINVAL);
	assert_int_equal(transport_parse_url("://x", &ops, &address), -EINVAL);
	assert_int_equal(transport_parse_url("tcp", &ops, &address), -EINVAL);
	assert_int_equal(transport_parse_url("tcp:/x", &ops, &address), -EINVAL);
	assert_int_equal(transport_parse_url("tcp://", &ops, &address), -EINVAL);
	assert_int_equal(transport_parse_url("http://x", &ops, &address), -EPROTONOSUPPORT);
	assert_int_equal(transport_parse_url("tcpp://x", &ops, &address), -EPROTONOSUPPORT);
	assert_null(ops);
	assert_null(address);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(transport_find__known_schemes),
		cmocka_unit_test(transport_find__unknown_schemes),
		cmocka_unit_test(transport_tables__no_slot_is_null),
		cmocka_unit_test(transport_fill_defaults__keeps_what_is_set),
		cmocka_unit_test(transport_parse_url__good),
		cmocka_unit_test(transport_parse_url__bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
