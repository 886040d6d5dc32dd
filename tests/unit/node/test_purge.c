/* SPDX-License-Identifier: Apache-2.0 */
/* Purging a tenant that was removed, or that the memory has and nobody added. */
#include "speak.h"

struct told {
	char text[256];
};

static bool tell(void *user, const struct larder_node_tenant *t)
{
	struct told *told = user;
	size_t at = strlen(told->text);

	(void)snprintf(told->text + at, sizeof(told->text) - at, "%s%s:%llu/%llu/%llu ", t->name,
		       t->removed ? "(removed)" : "", (unsigned long long)t->objects,
		       (unsigned long long)t->value_bytes, (unsigned long long)t->resident_bytes);
	return true;
}

static void expect_tenants(struct rig *r, const char *wanted)
{
	struct told told = { "" };

	larder_node_tenants(r->node, tell, &told);
	assert_string_equal(told.text, wanted);
}

/* Turns of the node until it is done; its answer in between is "under way". */
static void purge_finish(struct rig *r, const char *name, uint64_t objects, uint64_t bytes)
{
	uint64_t gone_objects, gone_bytes;
	int status = 1;

	for (uint32_t i = 0; i < RIG_STEPS && status == 1; i++) {
		rig_step(r);
		status = larder_node_purge(r->node, name, &gone_objects, &gone_bytes);
	}
	assert_int_equal(status, 0);
	assert_int_equal(gone_objects, objects);
	assert_int_equal(gone_bytes, bytes);
}

static void purge__frees_all_that_a_removed_tenant_has(void **state)
{
	static const char *const key[] = { "k" };
	const struct larder_share share = { .ns = "m", .ns_len = 1, .reader = "other" };
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login_as(r, "other", "tom");
	uint32_t na = peer_open_ns(a), nb = peer_open_ns(b), next;
	uint64_t objects, bytes;

	assert_int_equal(larder_node_set_shares(r->node, "other", (const struct larder_share[]){
		{ .ns = "m", .ns_len = 1, .reader = "demo" } }, 1), 0);
	assert_int_equal(larder_node_set_shares(r->node, "demo", &share, 1), 0);
	assert_int_equal(peer_put_key(a, na, "k", 5000), LARDER_OK);
	assert_int_equal(peer_put_key(a, na, "l", 100), LARDER_OK);
	assert_int_equal(peer_put_key(b, nb, "k", 300), LARDER_OK);
	assert_int_equal(peer_keys(a, LARDER_OP_LEASE, na, 0, 1, 60000, key, 1), LARDER_OK);
	assert_int_equal(peer_keys(b, LARDER_OP_LEASE, na, 0, 1, 60000, key, 1), LARDER_OK);
	assert_int_equal(peer_keys(a, LARDER_OP_LEASE, nb, 0, 1, 60000, key, 1), LARDER_OK);
	assert_int_equal(rig_stats(r).leases, 3);
	expect_tenants(r, "demo:2/5100/12288 other:1/300/4096 ");
	assert_int_equal(larder_node_purge(r->node, "demo", &objects, &bytes), -EBUSY);
	assert_int_equal(larder_node_purge(r->node, "nobody", &objects, &bytes), -ENOENT);
	assert_int_equal(larder_node_purge(r->node, "No", &objects, &bytes), -ENOENT);

	assert_int_equal(larder_node_tenant_remove(r->node, "demo"), 0);
	expect_tenants(r, "demo(removed):2/5100/12288 other:1/300/4096 ");
	assert_int_equal(larder_node_purge(r->node, "demo", &objects, &bytes), 1);
	assert_int_equal(objects, 0);		/* its session is still there */
	assert_int_equal(larder_node_tenant_add(r->node, "demo", "x", 1, NULL, 0), -EBUSY);
	purge_finish(r, "demo", 2, 5100);
	assert_int_equal(larder_node_purge(r->node, "demo", &objects, &bytes), -ENOENT);
	expect_tenants(r, "other:1/300/4096 ");
	/* the other's lease on what is gone holds nothing and ends with its time */
	assert_int_equal(rig_stats(r).leases, 1);
	assert_int_equal(rig_stats(r).pages_free, r->before.pages_free - 1);
	assert_int_equal(peer_get(b, nb, "k", 300), LARDER_OK);
	assert_int_equal(peer_get(b, na, "k", 5000), LARDER_NOT_FOUND);
	peer_expect_closed(a);
	peer_close(a);

	/* the name again: nothing of it, and nothing that is shared with it by its old number */
	assert_int_equal(larder_node_tenant_add(r->node, "demo", "x", 1, NULL, 0), 0);
	a = peer_login_as(r, "demo", "x");
	assert_int_equal(peer_ns(a, LARDER_OP_NS_OPEN, "m", NULL, NULL), LARDER_NOT_FOUND);
	assert_int_equal(peer_get(a, na, "k", 5000), LARDER_NOT_FOUND);
	/* what the other shares, it shares by name */
	assert_int_equal(peer_ns(a, LARDER_OP_NS_OPEN, "other:m", NULL, &next), LARDER_OK);
	next = peer_open_ns(a);
	assert_int_not_equal(next, na);
	assert_int_equal(peer_put_key(a, next, "k", 10), LARDER_OK);
	peer_close(a);
	peer_close(b);
	rig_check_released(r);
	rig_stop(r);
}

/* As the configuration of the next start leaves it out. */
static void purge__of_a_tenant_that_was_never_added(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login_as(r, "other", "tom");
	uint32_t na = peer_open_ns(a), nb = peer_open_ns(b);

	assert_int_equal(peer_put_key(a, na, "k", 5000), LARDER_OK);
	assert_int_equal(peer_put_key(b, nb, "k", 300), LARDER_OK);
	peer_close(a);
	peer_close(b);
	larder_node_close(r->node);
	assert_int_equal(larder_node_open(&r->config, &r->node), 0);
	assert_int_equal(larder_node_tenant_add(r->node, "new", "n", 1, NULL, 0), 0);
	assert_int_equal(larder_node_tenant_add(r->node, "other", "tom", 3, NULL, 0), 0);
	rig_listen(r);
	expect_tenants(r, "demo(removed):1/5000/8192 other:1/300/4096 new:0/0/0 ");
	b = peer_login_as(r, "other", "tom");
	assert_int_equal(peer_ns(b, LARDER_OP_NS_OPEN, "m", NULL, &nb), LARDER_OK);
	assert_int_equal(peer_get(b, nb, "k", 300), LARDER_OK);
	peer_check_value(b, "k", 300);
	purge_finish(r, "demo", 1, 5000);
	expect_tenants(r, "other:1/300/4096 new:0/0/0 ");
	assert_int_equal(rig_stats(r).pages_free, r->before.pages_free - 1);
	a = peer_login_as(r, "new", "n");
	(void)peer_open_ns(a);
	assert_int_equal(peer_get(a, na, "k", 5000), LARDER_NOT_FOUND);
	peer_close(a);
	peer_close(b);
	rig_check_released(r);
	rig_stop(r);
}

/* P9: the tenants of the next start in another order, one gone, one new. */
static void P9_restart__with_other_tenants_mixes_nothing_up(void **state)
{
	static const char *const names[] = { "a", "b", "c" };
	static const char *const again[] = { "d", "c", "a" };	/* b is gone */
	struct rig *r = rig_start();
	struct peer *p;
	uint32_t ns[3];

	for (int i = 0; i < 3; i++) {
		assert_int_equal(larder_node_tenant_add(r->node, names[i], "s", 1, NULL, 0), 0);
		p = peer_login_as(r, names[i], "s");
		ns[i] = peer_open_ns(p);
		for (int k = 0; k < 5; k++) {
			const char key[] = { 'k', (char)('0' + k), '\0' };

			assert_int_equal(peer_put_key(p, ns[i], key, 100 * (size_t)(i + 1)),
					 LARDER_OK);
		}
		peer_close(p);
	}
	larder_node_close(r->node);
	assert_int_equal(larder_node_open(&r->config, &r->node), 0);
	rig_listen(r);
	for (int i = 0; i < 3; i++) {
		const char *name = again[i];
		uint32_t mine;

		assert_int_equal(larder_node_tenant_add(r->node, name, "s", 1, NULL, 0), 0);
		p = peer_login_as(r, name, "s");
		mine = peer_open_ns(p);
		for (int k = 0; k < 5; k++) {
			const char key[] = { 'k', (char)('0' + k), '\0' };
			size_t size = name[0] == 'd' ? 0 : 100 * (size_t)(name[0] - 'a' + 1);

			assert_int_equal(peer_get(p, mine, key, 1000),
					 size ? LARDER_OK : LARDER_NOT_FOUND);
			if (size)
				peer_check_value(p, key, size);
			for (int other = 0; other < 3; other++)	/* by number, too */
				if (ns[other] != mine)
					assert_int_equal(peer_get(p, ns[other], key, 1000),
							 LARDER_NOT_FOUND);
		}
		peer_close(p);
	}
	rig_check_released(r);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(purge__frees_all_that_a_removed_tenant_has),
		cmocka_unit_test(purge__of_a_tenant_that_was_never_added),
		cmocka_unit_test(P9_restart__with_other_tenants_mixes_nothing_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
