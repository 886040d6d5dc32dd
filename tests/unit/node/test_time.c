/* SPDX-License-Identifier: Apache-2.0 */
/* Time: who stalls or is silent has to go, except while the node was not looking. */
#include "speak.h"

#define MIB (1u << 20)

static void stall__half_a_message_and_half_a_value(void **state)
{
	struct rig *r = rig_new();

	r->config.stall_timeout_ms = 4000;
	r->config.keepalive_ms = 60000;
	rig_open(r);
	struct peer *half = peer_login(r), *value = peer_login(r), *fine = peer_login(r);
	uint32_t ns = peer_open_ns(fine);
	struct draft d;

	draft_get(&d, half, ns, 0, "k", 0, 1, 0);
	peer_write(half, d.buffer, d.length - 1);
	put_partly(value, ns, "k", 5000, 4999, 0);
	rig_advance(r, 3800);
	assert_false(half->down);
	assert_false(value->down);
	rig_advance(r, 400);
	peer_expect_closed(half);
	peer_expect_closed(value);
	assert_int_equal(rig_stats(r).filling, 0);
	assert_int_equal(peer_ping(fine), LARDER_OK);
	peer_close(half);
	peer_close(value);
	peer_close(fine);
	rig_check_released(r);
	rig_stop(r);
}

/* A hundred that ask and do not read: each holds its credits and costs the others nothing. */
static void stall__a_hundred_readers(void **state)
{
	struct rig *r = rig_new();
	struct peer *p[100], *fine;
	uint32_t ns;

	r->config.stall_timeout_ms = 4000;
	r->config.max_unauthenticated = 200;
	rig_open(r);
	fine = peer_login(r);
	ns = peer_open_ns(fine);
	assert_int_equal(peer_put_key(fine, ns, "k", 4 * MIB), LARDER_OK);
	for (uint32_t i = 0; i < ARRAY_SIZE(p); i++) {
		p[i] = peer_login(r);
		for (uint32_t k = 0; k < p[i]->credits; k++)
			peer_send_get(p[i], ns, LARDER_F_WHOLE, "k", 0, 0, 4 * MIB);
	}
	rig_settle(r);
	assert_int_equal(rig_stats(r).references, 100 * p[0]->credits);
	assert_int_equal(rig_stats(r).requests, 100 * p[0]->credits);
	assert_int_equal(peer_get(fine, ns, "k", 4 * MIB), LARDER_OK);
	peer_check_value(fine, "k", 4 * MIB);
	rig_advance(r, 4400);
	for (uint32_t i = 0; i < ARRAY_SIZE(p); i++) {
		peer_expect_closed(p[i]);
		peer_close(p[i]);
	}
	assert_int_equal(rig_stats(r).references, 0);
	assert_int_equal(peer_ping(fine), LARDER_OK);
	peer_close(fine);
	rig_check_released(r);
	rig_stop(r);
}

/*
 * A value that stops coming ends at its request's deadline: the answer is there, whoever waited
 * goes on, and the rest, whatever it is, lands in nobody's pages.
 */
static void put_stalls(const struct transport_ops *ops)
{
	struct rig *r = rig_new();

	r->ops = ops;
	rig_open(r);
	struct peer *a = peer_login(r), *b = peer_login(r);
	uint32_t ns = peer_open_ns(a);
	size_t len = 3 * MIB, part = MIB + 12345;
	_cleanup_free_ uint8_t *v = value_make("k", len), *junk = malloc(len);
	struct put_options o = { .ns = ns, .key = "k", .value = v, .length = len,
				 .deadline_ms = 2000 };
	struct draft d;

	assert_non_null(junk);
	memset(junk, 0xee, len);
	draft_put(&d, a, &o);
	peer_write(a, d.buffer, d.length);
	peer_write(a, v, part);
	rig_settle(r);
	o.deadline_ms = 20000;
	draft_put(&d, b, &o);
	peer_send_raw(b, d.buffer, d.length);
	peer_write(b, v, len);
	rig_advance(r, 1800);
	assert_int_equal(rig_stats(r).filling, 1);
	assert_int_equal(rig_stats(r).parked, 1);
	assert_true(larder_node_timeout_ms(r->node, 0) <= 200);	/* it does not sleep past it */
	rig_advance(r, 200);
	assert_int_equal(rig_stats(r).filling, 0);
	assert_int_equal(rig_stats(r).pages_free, r->before.pages_free);
	assert_int_equal(peer_status(a), LARDER_DEADLINE);
	assert_int_equal(peer_status(b), LARDER_BUSY);
	assert_int_equal(peer_put(b, &o), LARDER_OK);	/* in the same pages, most likely */
	peer_write(a, junk, len - part);
	assert_int_equal(peer_ping(a), LARDER_OK);
	assert_int_equal(peer_get(a, ns, "k", len), LARDER_OK);
	peer_check_value(a, "k", len);
	peer_close(a);
	peer_close(b);
	rig_check_released(r);
	rig_stop(r);
}

static void stall__a_put_ends_at_its_deadline(void **state)
{
	put_stalls(transport_loop());
	put_stalls(transport_tcp());
}

/* As above, and the connection ends before the rest has come. */
static void stall__a_put_is_lost_after_its_deadline(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r);
	uint32_t ns = peer_open_ns(a);
	_cleanup_free_ uint8_t *v = value_make("k", MIB);
	struct draft d;

	draft_put(&d, a, &(struct put_options){ .ns = ns, .key = "k", .value = v, .length = MIB,
						 .deadline_ms = 1000 });
	peer_write(a, d.buffer, d.length);
	peer_write(a, v, 1000);
	rig_advance(r, 1200);
	assert_int_equal(peer_status(a), LARDER_DEADLINE);
	peer_close(a);
	rig_check_released(r);
	rig_stop(r);
}

static void keepalive__silence_ends_a_session(void **state)
{
	struct rig *r = rig_new();

	r->config.keepalive_ms = 3000;
	rig_open(r);
	struct peer *silent = peer_login(r), *alive = peer_login(r);

	for (int i = 0; i < 4; i++) {
		rig_advance(r, 900);
		assert_int_equal(peer_ping(alive), LARDER_OK);
	}
	peer_expect_closed(silent);
	assert_false(alive->down);
	peer_close(silent);
	peer_close(alive);
	rig_check_released(r);
	rig_stop(r);
}

/* Promise 12: half a minute in which nobody looked expires no session and no lease. */
static void gap__is_held_against_nobody(void **state)
{
	static const char *const key[] = { "k" };
	struct rig *r = rig_new();

	r->config.keepalive_ms = 3000;
	r->config.stall_timeout_ms = 3000;
	r->config.handshake_timeout_ms = 3000;
	r->config.reactors = 2;
	rig_open(r);
	struct peer *p = peer_login(r), *half = peer_login(r), *fresh = peer_connect(r);
	uint32_t ns = peer_open_ns(p);

	assert_int_equal(peer_put_key(p, ns, "k", 100), LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_LEASE, ns, 0, 1, 10000, key, 1), LARDER_OK);
	put_partly(half, ns, "l", 5000, 100, 0);
	r->now_ns += 30 * NSEC_PER_SEC;
	rig_settle(r);
	assert_false(p->down);
	assert_false(half->down);
	assert_false(fresh->down);
	assert_int_equal(rig_stats(r).leases, 1);
	assert_int_equal(peer_keys(p, LARDER_OP_DELETE, ns, 0, 0, 0, key, 1), LARDER_OK);
	assert_int_equal(peer_key_status(p, 0).status, LARDER_BUSY);
	put_rest(half, "l", 5000, 100);
	assert_int_equal(peer_status(half), LARDER_OK);
	/* both reactors saw the gap; leases moved once: 10 s of looking are enough to end it */
	for (int i = 0; i < 11; i++) {
		rig_advance(r, 1000);
		assert_int_equal(peer_ping(p), LARDER_OK);
	}
	assert_int_equal(rig_stats(r).leases, 0);
	peer_expect_closed(fresh);
	peer_close(fresh);
	peer_close(half);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

/* The deadline of a request is not moved by a gap. */
static void gap__does_not_move_deadlines(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login(r);
	uint32_t ns = peer_open_ns(a);
	_cleanup_free_ uint8_t *v = value_make("k", 5000);

	put_partly(a, ns, "k", 5000, 100, 0);
	struct draft d;

	draft_put(&d, b, &(struct put_options){ .ns = ns, .key = "k", .value = v, .length = 5000,
						 .deadline_ms = 5000 });
	peer_send_raw(b, d.buffer, d.length);
	peer_write(b, v, 5000);
	rig_settle(r);
	r->now_ns += 6 * NSEC_PER_SEC;
	assert_int_equal(peer_status(b), LARDER_DEADLINE);
	assert_false(a->down);
	peer_close(a);
	peer_close(b);
	rig_stop(r);
}

static void sleep__is_no_gap(void **state)
{
	struct rig *r = rig_start();

	rig_settle(r);
	assert_true(larder_node_timeout_ms(r->node, 0) > 0);
	assert_true(larder_node_timeout_ms(r->node, 0) < 1000);
	assert_true(larder_node_event_fd(r->node, 0) >= 0);
	assert_true(larder_node_turns(r->node, 0) >= 20);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stall__half_a_message_and_half_a_value),
		cmocka_unit_test(stall__a_hundred_readers),
		cmocka_unit_test(stall__a_put_ends_at_its_deadline),
		cmocka_unit_test(stall__a_put_is_lost_after_its_deadline),
		cmocka_unit_test(keepalive__silence_ends_a_session),
		cmocka_unit_test(gap__is_held_against_nobody),
		cmocka_unit_test(gap__does_not_move_deadlines),
		cmocka_unit_test(sleep__is_no_gap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
