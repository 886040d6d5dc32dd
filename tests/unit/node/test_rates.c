/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits as reactors keep them: rates and requests in flight, each below, at and above; what is
 * told, counted and given back; live changes. The clock stands still unless a test moves it.
 */
#include "limit_speak.h"

#define MIB (1u << 20)

static void ops_per_s__pass_up_to_the_burst_and_after_the_told_time(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r), *q = peer_login(r);
	uint32_t ns = peer_open_ns(p), seen = 0;
	uint64_t ms;

	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_ops_per_s, 80), 0);	/* a burst of 10 */
	for (uint32_t i = 0; i < 10; i++)	/* two sessions, one tenant, one bucket */
		assert_int_equal(peer_exists(i % 2 ? p : q, ns, 0, "k"), LARDER_OK);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(peer_exists(p, ns, 0, "k"), LARDER_THROTTLED);
		seen++;
	}
	ms = told_ms(p, LARDER_LIMIT_ops_per_s, 80);
	assert_int_equal(ms, 13);		/* a token in 12.5 ms */
	rig_advance(r, ms - 1);
	assert_int_equal(peer_exists(p, ns, 0, "k"), LARDER_THROTTLED);
	seen++;
	rig_advance(r, 1);
	assert_int_equal(peer_exists(p, ns, 0, "k"), LARDER_OK);
	assert_int_equal(peer_exists(p, ns, 0, "k"), LARDER_THROTTLED);
	seen++;
	rig_advance(r, 10000);			/* no more than the burst is ever saved up */
	for (uint32_t i = 0; i < 12; i++)
		seen += peer_exists(p, ns, 0, "k") == LARDER_THROTTLED;
	assert_int_equal(seen, 5 + 2);
	assert_int_equal(refused(r, 0, LARDER_LIMIT_ops_per_s), seen);
	assert_int_equal(refused_sum(r, 0), seen);
	assert_int_equal(refused_sum(r, 1), 0);
	peer_close(p);
	peer_close(q);
	rig_check_released(r);
	rig_stop(r);
}

static void letting_go__is_never_throttled(void **state)
{
	static const char *const key[] = { "k" };
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	const struct wire_put begin = { .c = { .ns = ns }, .length = 5, .key_len = 1 };
	struct wire_put_abort abort_put = { .put = 0 };
	struct draft d;

	assert_int_equal(peer_put_key(p, ns, "k", 100), LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_LEASE, ns, 0, 7, 1000, key, 1), LARDER_OK);
	draft_begin(&d);
	wire_append(&d.w, &begin, sizeof(begin));
	wire_append(&d.w, "b", 1);
	draft_finish(&d, p, LARDER_OP_PUT_BEGIN, 0);
	peer_write(p, d.buffer, d.length);
	assert_int_equal(peer_status(p), LARDER_OK);
	abort_put.put = p->reply.u.put_begun.put;
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_ops_per_s, 1), 0);
	assert_int_equal(peer_exists(p, ns, 0, "k"), LARDER_OK);
	assert_int_equal(peer_exists(p, ns, 0, "k"), LARDER_THROTTLED);
	assert_int_equal(peer_ping(p), LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_RELEASE, ns, 0, 7, 0, key, 1), LARDER_OK);
	assert_int_not_equal(peer_keys(p, LARDER_OP_UNPIN, ns, 0, 0, 0, key, 1), LARDER_THROTTLED);
	peer_request(p, LARDER_OP_PUT_ABORT, &abort_put, sizeof(abort_put));
	assert_int_equal(peer_status(p), LARDER_OK);
	assert_int_equal(refused(r, 0, LARDER_LIMIT_ops_per_s), 1);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void in_bytes_per_s__a_large_value_overdraws_once_and_is_paid_back(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	uint64_t ms;

	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_in_bytes_per_s, MIB), 0);
	assert_int_equal(peer_put_key(p, ns, "a", MIB), LARDER_OK);	/* four times the burst */
	assert_int_equal(peer_put_key(p, ns, "b", 300000), LARDER_THROTTLED);
	ms = told_ms(p, LARDER_LIMIT_in_bytes_per_s, MIB);
	assert_int_equal(ms, 750);
	/* its payload was thrown away: the connection goes on, and readers are not concerned */
	assert_int_equal(peer_get(p, ns, "a", MIB), LARDER_OK);
	peer_check_value(p, "a", MIB);
	assert_int_equal(peer_get(p, ns, "b", MIB), LARDER_NOT_FOUND);
	rig_advance(r, ms - 1);
	assert_int_equal(peer_put_key(p, ns, "b", 1), LARDER_THROTTLED);
	assert_int_equal(told_ms(p, LARDER_LIMIT_in_bytes_per_s, MIB), 1);
	rig_advance(r, 1);
	assert_int_equal(peer_put_key(p, ns, "b", 300000), LARDER_OK);
	assert_int_equal(refused(r, 0, LARDER_LIMIT_in_bytes_per_s), 2);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void out_bytes_per_s__is_charged_what_really_goes_out(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);

	assert_int_equal(peer_put_key(p, ns, "a", MIB), LARDER_OK);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_out_bytes_per_s, MIB), 0);
	for (uint32_t i = 0; i < 20; i++) {	/* nothing goes out for these */
		assert_int_equal(peer_get(p, ns, "none", 8 * MIB), LARDER_NOT_FOUND);
		assert_int_equal(peer_get(p, ns, "a", 1), LARDER_TOO_SMALL);
	}
	peer_send_get(p, ns, 0, "a", 0, 1024, 0);
	assert_int_equal(peer_status(p), LARDER_OK);
	assert_int_equal(peer_get(p, ns, "a", MIB), LARDER_OK);
	assert_int_equal(peer_get(p, ns, "a", MIB), LARDER_THROTTLED);
	assert_int_equal(told_ms(p, LARDER_LIMIT_out_bytes_per_s, MIB), 751);
	assert_int_equal(peer_put_key(p, ns, "b", MIB), LARDER_OK);	/* the other way is free */
	rig_advance(r, 751);
	assert_int_equal(peer_get(p, ns, "a", MIB), LARDER_OK);
	assert_int_equal(refused(r, 0, LARDER_LIMIT_out_bytes_per_s), 1);
	peer_close(p);
	rig_stop(r);
}

static void in_flight__is_of_all_sessions_and_given_back(void **state)
{
	struct rig *r = rig_start();
	struct peer *w = peer_login(r), *p = peer_login(r), *q = peer_login(r);
	uint32_t ns = peer_open_ns(w);
	struct larder_tenant_limits l = { .tenant = "demo" };

	l.limits.value[LARDER_LIMIT_in_flight_fetch] = 2;
	l.limits.value[LARDER_LIMIT_in_flight_lookup] = 1;
	l.limits.value[LARDER_LIMIT_in_flight_write] = 1;
	assert_int_equal(larder_node_set_limits(r->node, &l, 1, NULL), 0);
	assert_int_equal(peer_put_key(w, ns, "there", 100), LARDER_OK);
	put_partly(w, ns, "k", 5000, 100, 0);
	assert_int_equal(used(r, "demo", LARDER_LIMIT_in_flight_write), 1);
	assert_int_equal(peer_put_key(q, ns, "else", 100), LARDER_THROTTLED);
	assert_int_equal(told_ms(q, LARDER_LIMIT_in_flight_write, 1), 3);
	peer_send_get(p, ns, LARDER_F_WAIT | LARDER_F_WHOLE, "k", 0, 0, MIB);
	rig_settle(r);
	assert_int_equal(peer_get(q, ns, "there", 100), LARDER_OK);	/* the second */
	peer_send_get(q, ns, LARDER_F_WAIT | LARDER_F_WHOLE, "k", 0, 0, MIB);
	rig_settle(r);
	assert_int_equal(used(r, "demo", LARDER_LIMIT_in_flight_fetch), 2);
	peer_send_get(p, ns, LARDER_F_WHOLE, "there", 0, 0, MIB);
	assert_int_equal(peer_status(p), LARDER_THROTTLED);
	assert_int_equal(told_ms(p, LARDER_LIMIT_in_flight_fetch, 2), 3);
	/* another tenant has its own */
	struct peer *o = peer_login_as(r, "other", "tom");

	assert_int_equal(peer_put_key(o, peer_open_ns(o), "k", 100), LARDER_OK);
	peer_close(o);
	/* a class does not count in another */
	assert_int_equal(peer_exists(p, ns, 0, "there"), LARDER_OK);
	/* one that is killed gives its own back */
	peer_close(q);
	assert_int_equal(used(r, "demo", LARDER_LIMIT_in_flight_fetch), 1);
	put_rest(w, "k", 5000, 100);
	assert_int_equal(peer_status(w), LARDER_OK);
	assert_int_equal(peer_status(p), LARDER_OK);
	rig_settle(r);
	peer_close(p);
	peer_close(w);
	for (unsigned i = 0; i < LARDER_LIMITS; i++)
		assert_int_equal(used(r, "demo", i), 0);
	assert_int_equal(refused(r, 0, LARDER_LIMIT_in_flight_write), 1);
	assert_int_equal(refused(r, 0, LARDER_LIMIT_in_flight_fetch), 1);
	assert_int_equal(refused_sum(r, 0), 2);
	rig_check_released(r);
	rig_stop(r);
}

static void commit__is_counted_in_flight_and_never_refused(void **state)
{
	struct rig *r = rig_start();
	struct peer *w = peer_login(r), *p = peer_login(r);
	uint32_t ns = peer_open_ns(w);
	const struct wire_put begin = { .c = { .ns = ns }, .length = 5, .key_len = 1 };
	struct wire_put_commit commit = { .c = { .ns = ns }, .n_checks = 1 };
	const uint32_t check = crc32c(0, "hello", 5);
	struct wire_put_part part = { .c = { .ns = ns }, .length = 5 };
	struct draft d;

	draft_begin(&d);
	wire_append(&d.w, &begin, sizeof(begin));
	wire_append(&d.w, "b", 1);
	draft_finish(&d, p, LARDER_OP_PUT_BEGIN, 0);
	peer_write(p, d.buffer, d.length);
	assert_int_equal(peer_status(p), LARDER_OK);
	part.put = commit.put = p->reply.u.put_begun.put;
	draft_begin(&d);
	wire_append(&d.w, &part, sizeof(part));
	draft_finish(&d, p, LARDER_OP_PUT_PART, 5);
	peer_write(p, d.buffer, d.length);
	peer_write(p, "hello", 5);
	assert_int_equal(peer_status(p), LARDER_OK);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_in_flight_write, 1), 0);
	put_partly(w, ns, "k", 5000, 100, 0);
	draft_begin(&d);
	wire_append(&d.w, &commit, sizeof(commit));
	wire_append(&d.w, &check, sizeof(check));
	draft_finish(&d, p, LARDER_OP_PUT_COMMIT, 0);
	peer_write(p, d.buffer, d.length);
	assert_int_equal(peer_status(p), LARDER_OK);
	put_rest(w, "k", 5000, 100);
	assert_int_equal(peer_status(w), LARDER_OK);
	rig_settle(r);
	assert_int_equal(used(r, "demo", LARDER_LIMIT_in_flight_write), 0);
	peer_close(p);
	peer_close(w);
	rig_stop(r);
}

static void a_live_change__holds_for_the_next_request_and_drops_nothing(void **state)
{
	struct rig *r = rig_start();
	struct peer *w = peer_login(r), *p[4];
	uint32_t ns = peer_open_ns(w);

	put_partly(w, ns, "k", 5000, 100, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(p); i++) {
		p[i] = peer_login(r);
		peer_send_get(p[i], ns, LARDER_F_WAIT | LARDER_F_WHOLE, "k", 0, 0, MIB);
	}
	rig_settle(r);
	assert_int_equal(used(r, "demo", LARDER_LIMIT_in_flight_fetch), 4);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_in_flight_fetch, 2), 0);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_connections, 1), 0);
	rig_settle(r);
	for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
		assert_false(p[i]->down);
	put_rest(w, "k", 5000, 100);
	assert_int_equal(peer_status(w), LARDER_OK);
	for (unsigned i = 0; i < ARRAY_SIZE(p); i++) {
		assert_int_equal(peer_status(p[i]), LARDER_OK);
		peer_check_value(p[i], "k", 5000);
	}
	/* a rate, too: from none to one, to a higher one, to none */
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_ops_per_s, 1), 0);
	assert_int_equal(peer_exists(w, ns, 0, "k"), LARDER_OK);
	assert_int_equal(peer_exists(w, ns, 0, "k"), LARDER_THROTTLED);
	assert_int_equal(told_ms(w, LARDER_LIMIT_ops_per_s, 1), 1000);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_ops_per_s, 16), 0);
	assert_int_equal(peer_exists(w, ns, 0, "k"), LARDER_OK);
	assert_int_equal(peer_exists(w, ns, 0, "k"), LARDER_OK);
	assert_int_equal(peer_exists(w, ns, 0, "k"), LARDER_THROTTLED);
	/* set to what it is: nobody gets another burst by that */
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_ops_per_s, 16), 0);
	assert_int_equal(peer_exists(w, ns, 0, "k"), LARDER_THROTTLED);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_ops_per_s, 0), 0);
	assert_int_equal(peer_exists(w, ns, 0, "k"), LARDER_OK);
	for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
		peer_close(p[i]);
	peer_close(w);
	rig_check_released(r);
	rig_stop(r);
}

/* --- connections and regions ----------------------------------------------------------------- */

static int login_status(struct rig *r, const char *tenant, const char *secret, struct peer **ret)
{
	*ret = peer_connect(r);
	return peer_handshake(*ret, &(struct hello_options){ .tenant = tenant, .secret = secret });
}

static void connections__are_counted_refused_and_given_back(void **state)
{
	struct rig *r = rig_start();
	struct peer *p[3], *o;

	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_connections, 2), 0);
	for (uint32_t round = 0; round < 5; round++) {
		p[0] = peer_login(r);
		p[1] = peer_login(r);
		assert_int_equal(login_status(r, "demo", RIG_SECRET, &p[2]), LARDER_QUOTA);
		assert_non_null(strstr((const char *)p[2]->reply.tail, "connections"));
		peer_expect_closed(p[2]);
		peer_close(p[2]);
		/* who does not know the secret learns nothing of it, and takes no place */
		assert_int_equal(login_status(r, "demo", "wrong", &p[2]), LARDER_DENIED);
		peer_expect_closed(p[2]);
		peer_close(p[2]);
		o = peer_login_as(r, "other", "tom");
		assert_int_equal(used(r, "demo", LARDER_LIMIT_connections), 2);
		assert_int_equal(refused(r, 0, LARDER_LIMIT_connections), round + 1);
		peer_close(p[0]);
		p[0] = peer_login(r);
		peer_close(p[0]);
		peer_close(p[1]);
		peer_close(o);
		assert_int_equal(used(r, "demo", LARDER_LIMIT_connections), 0);
	}
	rig_check_released(r);
	rig_stop(r);
}

static void regions__are_limited_over_all_sessions(void **state)
{
	struct rig *r = rig_new();
	struct larder_tenant_limits l = { .tenant = "demo" };
	struct peer *p[2];
	struct memory m[4];

	r->ops = transport_shm();
	rig_open(r);
	l.limits.value[LARDER_LIMIT_regions] = 3;
	l.limits.value[LARDER_LIMIT_region_bytes] = 2 * REGION_BYTES;
	assert_int_equal(larder_node_set_limits(r->node, &l, 1, NULL), 0);
	p[0] = peer_login(r);
	p[1] = peer_login(r);
	for (unsigned i = 0; i < ARRAY_SIZE(m); i++)
		memory_make(&m[i], p[i % 2]);
	assert_int_equal(region_add(p[0], &m[0], 1), LARDER_OK);
	assert_int_equal(region_add(p[1], &m[1], 1), LARDER_OK);
	assert_int_equal(region_add(p[0], &m[2], 2), LARDER_QUOTA);
	assert_int_equal(refused(r, 0, LARDER_LIMIT_region_bytes), 1);
	l.limits.value[LARDER_LIMIT_region_bytes] = 0;
	l.limits.value[LARDER_LIMIT_regions] = 2;
	assert_int_equal(larder_node_set_limits(r->node, &l, 1, NULL), 0);
	assert_int_equal(region_add(p[1], &m[3], 2), LARDER_QUOTA);
	assert_int_equal(refused(r, 0, LARDER_LIMIT_regions), 1);
	assert_int_equal(region_del(p[0], 1), LARDER_OK);
	assert_int_equal(used(r, "demo", LARDER_LIMIT_region_bytes), REGION_BYTES);
	/* one that is none takes nothing, whether it ends the connection or not */
	(void)region_add_sized(p[1], &m[3], 2, 2 * REGION_BYTES);
	peer_close(p[1]);		/* with its region */
	peer_close(p[0]);
	assert_int_equal(used(r, "demo", LARDER_LIMIT_regions), 0);
	assert_int_equal(used(r, "demo", LARDER_LIMIT_region_bytes), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(m); i++)
		memory_drop(&m[i], false);
	rig_check_released(r);
	rig_stop(r);
}

/* --- viewers --------------------------------------------------------------------------------- */

static void viewers__share_limits_of_their_own(void **state)
{
	const struct hello_options viewer = { .role = WIRE_ROLE_VIEWER };
	const struct wire_ns_list list = { .max = 1 };
	struct rig *r = rig_new();
	struct larder_tenant_limits l = { .tenant = "_view" };
	struct peer *p, *q, *v;

	r->ops = transport_shm();
	r->config.viewer_uid = (long)getuid();
	rig_open(r);
	l.limits.value[LARDER_LIMIT_connections] = 2;
	l.limits.value[LARDER_LIMIT_ops_per_s] = 16;
	assert_int_equal(larder_node_set_limits(r->node, &l, 1, NULL), 0);
	p = peer_connect(r);
	assert_int_equal(peer_handshake(p, &viewer), LARDER_OK);
	q = peer_connect(r);
	assert_int_equal(peer_handshake(q, &viewer), LARDER_OK);
	v = peer_connect(r);
	assert_int_equal(peer_handshake(v, &viewer), LARDER_QUOTA);
	peer_expect_closed(v);
	peer_close(v);
	for (uint32_t i = 0; i < 2; i++) {
		peer_request(i ? p : q, LARDER_OP_NS_LIST, &list, sizeof(list));
		assert_int_equal(peer_status(i ? p : q), LARDER_OK);
	}
	peer_request(p, LARDER_OP_NS_LIST, &list, sizeof(list));
	assert_int_equal(peer_status(p), LARDER_THROTTLED);
	assert_int_equal(told_ms(p, LARDER_LIMIT_ops_per_s, 16), 63);
	assert_int_equal(refused(r, LARDER_LEDGER_VIEW_TENANT, LARDER_LIMIT_ops_per_s), 1);
	assert_int_equal(refused(r, LARDER_LEDGER_VIEW_TENANT, LARDER_LIMIT_connections), 1);
	peer_close(p);
	peer_close(q);
	assert_int_equal(r->node->viewers.used[LARDER_LIMIT_connections], 0);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ops_per_s__pass_up_to_the_burst_and_after_the_told_time),
		cmocka_unit_test(letting_go__is_never_throttled),
		cmocka_unit_test(in_bytes_per_s__a_large_value_overdraws_once_and_is_paid_back),
		cmocka_unit_test(out_bytes_per_s__is_charged_what_really_goes_out),
		cmocka_unit_test(in_flight__is_of_all_sessions_and_given_back),
		cmocka_unit_test(commit__is_counted_in_flight_and_never_refused),
		cmocka_unit_test(a_live_change__holds_for_the_next_request_and_drops_nothing),
		cmocka_unit_test(connections__are_counted_refused_and_given_back),
		cmocka_unit_test(regions__are_limited_over_all_sessions),
		cmocka_unit_test(viewers__share_limits_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
