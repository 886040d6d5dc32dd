/* SPDX-License-Identifier: Apache-2.0 */
/* What a client reads when a limit that the engine keeps is met: which, how much, what to do. */
#include "limit_speak.h"

static void told_over(const struct peer *p, enum larder_limit limit, uint64_t value)
{
	char text[512], number[32];

	assert_int_equal(p->h.status, LARDER_QUOTA);
	snprintf(text, sizeof(text), "%.*s", (int)p->reply.tail_len, (const char *)p->reply.tail);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)value);
	assert_non_null(strstr(text, larder_limit_name(limit)));
	assert_non_null(strstr(text, number));
	assert_int_equal(p->reply.u.error.detail, value);
}

static void resident__a_put_that_is_refused_names_the_limit(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns;
	struct larder_tenant_limits l = { .tenant = "demo" };

	assert_int_equal(peer_ns(p, LARDER_OP_NS_CREATE, "ns", NULL, &ns), LARDER_OK);
	l.limits.value[LARDER_LIMIT_resident_bytes] = RIG_PAGE;
	l.limits.value[LARDER_LIMIT_over_cap] = LARDER_OVER_CAP_REJECT;
	assert_int_equal(larder_node_set_limits(r->node, &l, 1, NULL), 0);
	assert_int_equal(peer_put_key(p, ns, "a", 100), LARDER_OK);
	for (uint64_t n = 1; n <= 3; n++) {
		assert_int_equal(peer_put_key(p, ns, "b", 100), LARDER_QUOTA);
		told_over(p, LARDER_LIMIT_resident_bytes, RIG_PAGE);
		assert_int_equal(refused(r, 0, LARDER_LIMIT_resident_bytes), n);
	}
	/* none: it fits again */
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_resident_bytes, 0), 0);
	assert_int_equal(peer_put_key(p, ns, "b", 100), LARDER_OK);
	peer_close(p);
	rig_stop(r);
}

static void namespaces__a_create_that_is_refused_names_the_limit(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns;

	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_namespaces, 1), 0);
	assert_int_equal(peer_ns(p, LARDER_OP_NS_CREATE, "ns", NULL, &ns), LARDER_OK);
	assert_int_equal(peer_ns(p, LARDER_OP_NS_CREATE, "more", NULL, &ns), LARDER_QUOTA);
	told_over(p, LARDER_LIMIT_namespaces, 1);
	assert_int_equal(peer_ns(p, LARDER_OP_NS_CREATE, "ns", NULL, &ns), LARDER_OK);
	assert_int_equal(ledger_usage(r->node->ledger, r->config.reactors, 0)
				 ->refused[LARDER_LIMIT_namespaces], 1);
	peer_close(p);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resident__a_put_that_is_refused_names_the_limit),
		cmocka_unit_test(namespaces__a_create_that_is_refused_names_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
