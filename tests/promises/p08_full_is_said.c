/* SPDX-License-Identifier: Apache-2.0 */
/* P8: full is an answer, counted by tenant and reason; nothing acknowledged is dropped for it. */
#include "promise.h"

#define LENGTH 65536u			/* one page */
#define CAP 64u				/* objects that 4 MiB hold */

/* A figure of a tenant's statistics; @group NULL: directly under the tenant. */
static int64_t tenant_stat(const char *tenant, const char *group, const char *name)
{
	json_t *j = node_control(&node, "{\"cmd\":\"stats\"}");
	json_t *t = json_object_get(json_object_get(json_object_get(j, "result"), "tenants"),
				    tenant);
	json_t *v = json_object_get(group ? json_object_get(t, group) : t, name);
	int64_t r = json_is_integer(v) ? (int64_t)json_integer_value(v) : 0;

	json_decref(j);
	return r;
}

static const char *key_of(unsigned i)
{
	static char key[24];

	snprintf(key, sizeof(key), "key-%u", i);
	return key;
}

static void P8_reject_refuses_and_counts(void **state)
{
	struct larder_client *c;
	unsigned stored = 0, refused = 0;
	uint32_t ns;

	node_add_tenant(&node, "strict", "[limits]\nresident_bytes = 4M\nover_cap = reject\n");
	c = node_client_as(&node, NODE_TCP, "strict");
	ns = node_namespace(c, "full");
	for (unsigned i = 0; i < 2 * CAP; i++) {
		int r = promise_put(c, ns, key_of(i), LENGTH, i);

		assert_true(r == LARDER_OK || r == LARDER_QUOTA);
		stored += r == LARDER_OK;
		refused += r == LARDER_QUOTA;
		assert_int_equal(promise_get(c, ns, key_of(i), LENGTH, i),
				 r == LARDER_OK ? LARDER_OK : LARDER_NOT_FOUND);
	}
	assert_int_equal(stored, CAP);
	assert_int_equal(refused, CAP);
	assert_int_equal(tenant_stat("strict", "refused_by", "resident_bytes"), refused);
	for (unsigned i = 0; i < CAP; i++)
		assert_int_equal(promise_get(c, ns, key_of(i), LENGTH, i), LARDER_OK);
	larder_close(c);
}

static void P8_evict_own_takes_its_own_and_keeps_leases(void **state)
{
	struct larder_client *c, *other = node_client(&node, NODE_SHM);
	uint32_t ns, other_ns = node_namespace(other, "full");
	unsigned leased = CAP / 2;

	for (unsigned i = 0; i < CAP; i++)
		assert_int_equal(promise_put(other, other_ns, key_of(i), LENGTH, i), LARDER_OK);
	node_add_tenant(&node, "lenient", "[limits]\nresident_bytes = 4M\n");
	c = node_client_as(&node, NODE_SHM, "lenient");
	ns = node_namespace(c, "full");
	for (unsigned i = 0; i < 3 * CAP; i++) {
		assert_int_equal(promise_put(c, ns, key_of(i), LENGTH, i), LARDER_OK);
		if (i < leased)
			assert_int_equal(promise_ask(c, LARDER_OP_LEASE, ns, key_of(i), 0, 1,
						     600000, NULL), LARDER_OK);
		assert_true(tenant_stat("lenient", NULL, "resident_bytes") <= 4 << 20);
	}
	for (unsigned i = 0; i < leased; i++)
		assert_int_equal(promise_get(c, ns, key_of(i), LENGTH, i), LARDER_OK);
	assert_int_equal(tenant_stat("lenient", "refused_by", "resident_bytes"), 0);
	/* its own leases fill the cap: now it is refused */
	for (unsigned i = 0; i < 3 * CAP; i++)
		(void)promise_ask(c, LARDER_OP_LEASE, ns, key_of(i), 0, 1, 600000, NULL);
	assert_int_equal(promise_put(c, ns, "one-more", LENGTH, 1), LARDER_QUOTA);
	assert_int_equal(tenant_stat("lenient", "refused_by", "resident_bytes"), 1);
	for (unsigned i = 0; i < CAP; i++)
		assert_int_equal(promise_get(other, other_ns, key_of(i), LENGTH, i), LARDER_OK);
	larder_close(c);
	larder_close(other);
}

static void P8_no_space_only_when_nothing_may_go(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "leased");
	unsigned i;
	int r = LARDER_OK;

	/* every object is leased as soon as it is there */
	for (i = 0; i < 4000; i++) {
		r = promise_put(c, ns, key_of(i), LENGTH, i);
		if (r != LARDER_OK)
			break;
		assert_int_equal(promise_ask(c, LARDER_OP_LEASE, ns, key_of(i), 0, 5, 600000,
					     NULL), LARDER_OK);
	}
	assert_int_equal(r, LARDER_NO_SPACE);
	assert_true(i > 800);		/* of the 1,024 pages, less what other tenants leased */
	for (unsigned k = 0; k < i; k++)
		assert_int_equal(promise_get(c, ns, key_of(k), LENGTH, k), LARDER_OK);
	assert_true(tenant_stat("demo", "refused_by", "no_space") > 0);
	assert_int_equal(promise_ask(c, LARDER_OP_RELEASE, ns, key_of(0), 0, 5, 0, NULL),
			 LARDER_OK);
	assert_int_equal(promise_put(c, ns, "there-is-room-again", LENGTH, 1), LARDER_OK);
	larder_close(c);
}

static void P8_throttled_tells_when_to_come_again(void **state)
{
	static struct raw r;
	uint8_t message[WIRE_MESSAGE_MAX];
	unsigned throttled = 0;
	uint32_t ns;

	node_add_tenant(&node, "slow", "[limits]\nops_per_s = 20\n");
	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "slow", node.secret), LARDER_OK);
	ns = raw_namespace(&r, "slow");
	for (unsigned i = 0; i < 100; i++) {
		int len = raw_get_message(message, 100 + i, ns, "nothing", LENGTH);

		assert_true(raw_send(&r, message, (size_t)len));
		assert_true(raw_reply(&r, 5000));
		if (r.header.status == LARDER_NOT_FOUND)
			continue;
		assert_int_equal(r.header.status, LARDER_THROTTLED);
		assert_true(r.reply.u.error.detail >= 1 && r.reply.u.error.detail <= 1000);
		throttled++;
	}
	assert_true(throttled > 50);
	assert_int_equal(tenant_stat("slow", "refused_by", "ops_per_s"), throttled);
	raw_close(&r);
}

static void P8_draining_takes_nothing_new(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "drained");
	struct larder_put_stream *begun;

	assert_int_equal(promise_put(c, ns, "before", 1000, 1), LARDER_OK);
	assert_int_equal(larder_put_begin(c, ns, "begun", 5, 4, 5000, &begun), 0);
	json_decref(node_control(&node, "{\"cmd\":\"drain\"}"));
	assert_int_equal(promise_put(c, ns, "after", 1000, 1), LARDER_DRAINING);
	assert_int_equal(promise_ask(c, LARDER_OP_LEASE, ns, "before", 0, 1, 1000, NULL),
			 LARDER_DRAINING);
	assert_int_equal(promise_get(c, ns, "before", 1000, 1), LARDER_OK);
	assert_int_equal(larder_put_part(begun, 0, "four", 4), 0);
	assert_int_equal(larder_put_commit(begun), LARDER_OK);
	assert_int_equal(tenant_stat("demo", "refused_by", "draining"), 2);
	json_decref(node_control(&node, "{\"cmd\":\"undrain\"}"));
	assert_int_equal(promise_put(c, ns, "after", 1000, 1), LARDER_OK);
	larder_close(c);
}

PROMISE("[engine]\nlease_max = 600000\n",
	cmocka_unit_test(P8_reject_refuses_and_counts),
	cmocka_unit_test(P8_evict_own_takes_its_own_and_keeps_leases),
	cmocka_unit_test(P8_draining_takes_nothing_new),
	cmocka_unit_test(P8_throttled_tells_when_to_come_again),
	cmocka_unit_test(P8_no_space_only_when_nothing_may_go))
