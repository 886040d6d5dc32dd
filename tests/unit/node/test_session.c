/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer may hold and for how long: credits, stalls, silence, gaps, cancel, drain, turns. */
#include "rig.h"

#define MIB (1u << 20)

/* Sends the message of a PUT and the first @part bytes of its value. */
static void put_partly(struct peer *p, uint32_t ns, const char *key, size_t len, size_t part,
		       uint32_t flags)
{
	_cleanup_free_ uint8_t *v = value_make(key, len);
	struct draft d;

	draft_put(&d, p, &(struct put_options){ .ns = ns, .flags = flags, .key = key, .value = v,
						 .length = len });
	peer_write(p, d.buffer, d.length);
	if (part)
		peer_write(p, v, part);
	rig_settle(p->rig);
}

static void put_rest(struct peer *p, const char *key, size_t len, size_t part)
{
	_cleanup_free_ uint8_t *v = value_make(key, len);

	peer_write(p, v + part, len - part);
}

/* --- credits -------------------------------------------------------------------------------- */

/* One connection fills a key; @n GETs of another wait for it. Returns when all are parked. */
static void park_gets(struct peer *p, uint32_t ns, const char *key, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		peer_send_get(p, ns, LARDER_F_WAIT | LARDER_F_WHOLE, key, 0, 0, MIB);
	rig_settle(p->rig);
}

static void credits__all_and_one_more_for_control(void **state)
{
	struct rig *r = rig_start();
	struct peer *writer = peer_login(r), *p = peer_login(r);
	uint32_t ns = peer_open_ns(writer);

	put_partly(writer, ns, "k", 5000, 100, 0);
	park_gets(p, ns, "k", p->credits);
	assert_int_equal(rig_stats(r).parked, p->credits);
	assert_false(p->down);
	assert_int_equal(peer_ping(p), LARDER_OK);	/* the extra credit */
	put_rest(writer, "k", 5000, 100);
	assert_int_equal(peer_status(writer), LARDER_OK);
	for (uint32_t i = 0; i < p->credits; i++) {
		assert_int_equal(peer_status(p), LARDER_OK);
		peer_check_value(p, "k", 5000);
	}
	peer_close(p);
	peer_close(writer);
	rig_check_released(r);
	rig_stop(r);
}

static void credits__one_over_closes(void **state)
{
	struct rig *r = rig_start();
	struct peer *writer = peer_login(r), *p = peer_login(r);
	uint32_t ns = peer_open_ns(writer);

	put_partly(writer, ns, "k", 5000, 100, 0);
	park_gets(p, ns, "k", p->credits);
	peer_send_get(p, ns, LARDER_F_WAIT | LARDER_F_WHOLE, "k", 0, 0, MIB);
	peer_expect_closed(p);
	assert_non_null(strstr(r->last_line, "credits"));
	assert_int_equal(rig_stats(r).parked, 0);
	put_rest(writer, "k", 5000, 100);
	assert_int_equal(peer_status(writer), LARDER_OK);
	peer_close(p);
	peer_close(writer);
	rig_check_released(r);
	rig_stop(r);
}

/* Replies out of the order of requests: a parked GET does not hold up what follows it. */
static void requests__complete_out_of_order(void **state)
{
	struct rig *r = rig_start();
	struct peer *writer = peer_login(r), *p = peer_login(r);
	uint32_t ns = peer_open_ns(writer);

	assert_int_equal(peer_put_key(writer, ns, "there", 3000), LARDER_OK);
	put_partly(writer, ns, "k", 5000, 100, 0);
	park_gets(p, ns, "k", 1);
	assert_int_equal(peer_get(p, ns, "there", 3000), LARDER_OK);
	peer_check_value(p, "there", 3000);
	put_rest(writer, "k", 5000, 100);
	assert_int_equal(peer_status(p), LARDER_OK);
	peer_check_value(p, "k", 5000);
	peer_close(p);
	peer_close(writer);
	rig_stop(r);
}

static void deadline__ends_a_wait(void **state)
{
	struct rig *r = rig_start();
	struct peer *writer = peer_login(r), *p = peer_login(r);
	uint32_t ns = peer_open_ns(writer);
	const struct wire_get g = { .c = { .ns = ns, .flags = LARDER_F_WAIT | LARDER_F_WHOLE,
					   .deadline_ms = 700 }, .room = MIB, .key_len = 1 };
	struct draft d;

	put_partly(writer, ns, "k", 5000, 100, 0);
	draft_begin(&d);
	wire_append(&d.w, &g, sizeof(g));
	wire_append(&d.w, "k", 1);
	draft_finish(&d, p, LARDER_OP_GET, 0);
	peer_write(p, d.buffer, d.length);
	rig_settle(r);
	rig_advance(r, 600);
	assert_int_equal(rig_stats(r).parked, 1);
	rig_advance(r, 200);
	assert_int_equal(rig_stats(r).parked, 0);
	assert_int_equal(peer_status(p), LARDER_DEADLINE);
	peer_close(p);
	peer_close(writer);
	rig_check_released(r);
	rig_stop(r);
}

/* --- two writers ---------------------------------------------------------------------------- */

/* The second's payload is thrown away as it arrives; the connection serves others meanwhile. */
static void put__second_writer_is_told(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login(r);
	uint32_t ns = peer_open_ns(a);

	put_partly(a, ns, "k", 2 * MIB, 1000, 0);
	put_partly(b, ns, "k", 2 * MIB, 2 * MIB, 0);
	assert_int_equal(peer_ping(b), LARDER_OK);
	put_rest(a, "k", 2 * MIB, 1000);
	assert_int_equal(peer_status(a), LARDER_OK);
	assert_int_equal(peer_status(b), LARDER_EXISTS_SAME);
	assert_int_equal(b->reply.u.put_done.size_bytes, 2 * MIB);

	put_partly(a, ns, "l", 2 * MIB, 1000, 0);
	put_partly(b, ns, "l", 2 * MIB, 2 * MIB, 0);
	peer_close(a);		/* the first fails: the second is to repeat */
	assert_int_equal(peer_status(b), LARDER_BUSY);
	assert_int_equal(peer_put_key(b, ns, "l", 2 * MIB), LARDER_OK);
	peer_close(b);
	rig_check_released(r);
	rig_stop(r);
}

static void put__second_writer_does_not_wait(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login(r);
	uint32_t ns = peer_open_ns(a);

	put_partly(a, ns, "k", 100000, 1000, 0);
	put_partly(b, ns, "k", 100000, 100000, LARDER_F_NOWAIT);
	assert_int_equal(peer_status(b), LARDER_BUSY);
	assert_int_equal(peer_ping(b), LARDER_OK);
	peer_close(a);
	peer_close(b);
	rig_check_released(r);
	rig_stop(r);
}

/* --- lost in the middle --------------------------------------------------------------------- */

static void disconnect__at_every_byte_of_a_put(void **state)
{
	size_t len = 700, whole;
	struct rig *r = rig_start();

	for (size_t cut = 0;; cut += 3) {
		struct peer *p = peer_login(r);
		uint32_t ns = peer_open_ns(p);
		_cleanup_free_ uint8_t *v = value_make("k", len);
		uint8_t wire[2000];
		struct draft d;

		draft_put(&d, p, &(struct put_options){ .ns = ns, .key = "k", .value = v,
							 .length = len });
		whole = d.length + len;
		memcpy(wire, d.buffer, d.length);
		memcpy(wire + d.length, v, len);
		if (cut >= whole) {
			peer_close(p);
			break;
		}
		if (cut)
			peer_write(p, wire, cut);
		rig_settle(r);
		peer_close(p);
		rig_check_released(r);
	}
	rig_stop(r);
}

static void disconnect__while_reading(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);

	assert_int_equal(peer_put_key(p, ns, "k", 8 * MIB), LARDER_OK);
	for (int i = 0; i < 5; i++) {
		struct peer *q = peer_login(r);

		for (int k = 0; k < 4; k++)
			peer_send_get(q, ns, LARDER_F_WHOLE, "k", 0, 0, 8 * MIB);
		for (int k = 0; k < i; k++)
			rig_step(r);
		assert_true(rig_stats(r).references > 0);
		peer_close(q);
		assert_int_equal(rig_stats(r).references, 0);
	}
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void close__with_everything_under_way(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login(r), *c = peer_connect(r);
	uint32_t ns = peer_open_ns(a);

	assert_int_equal(peer_put_key(a, ns, "big", 4 * MIB), LARDER_OK);
	put_partly(a, ns, "k", 5000, 100, 0);
	park_gets(b, ns, "k", 3);
	peer_send_get(b, ns, LARDER_F_WHOLE, "big", 0, 0, 4 * MIB);
	larder_node_close(r->node);
	assert_int_equal(arena_free_pages(r->memory->arena), arena_pages(r->memory->arena));
	for (uint32_t i = 0; i < RIG_STEPS && !(a->gone && b->gone && c->gone); i++)
		rig_poll_client(r);
	assert_true(a->gone && b->gone && c->gone);
	free(a);
	free(b);
	free(c);
	r->client->ops->close(r->client);
	larder_memory_close(r->memory);
	free(r);
}

/* --- stalls, silence, gaps ------------------------------------------------------------------ */

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

/* --- cancel --------------------------------------------------------------------------------- */

static void cancel_id(struct peer *p, uint64_t id)
{
	const struct wire_cancel c = { .request_id = id };

	peer_request(p, LARDER_OP_CANCEL, &c, sizeof(c));
}

static void cancel__parked(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login(r);
	uint32_t ns = peer_open_ns(a);
	uint64_t id;
	int first, second;

	put_partly(a, ns, "k", 5000, 100, 0);
	id = b->next_id;
	park_gets(b, ns, "k", 1);
	cancel_id(b, id);
	first = peer_status(b);
	assert_int_equal(b->h.request_id, id);
	second = peer_status(b);
	assert_int_equal(first, LARDER_CANCELLED);
	assert_int_equal(second, LARDER_OK);
	assert_int_equal(b->h.op, LARDER_OP_CANCEL);
	assert_int_equal(rig_stats(r).parked, 0);
	/* one that is not there */
	cancel_id(b, 4711);
	assert_int_equal(peer_status(b), LARDER_OK);
	peer_close(a);
	peer_close(b);
	rig_check_released(r);
	rig_stop(r);
}

/* A reply that has not begun to leave becomes CANCELLED; the one before it is finished. */
static void cancel__queued_reply(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	uint64_t id;

	assert_int_equal(peer_put_key(p, ns, "k", 4 * MIB), LARDER_OK);
	id = p->next_id;
	peer_send_get(p, ns, LARDER_F_WHOLE, "k", 0, 0, 4 * MIB);
	peer_send_get(p, ns, LARDER_F_WHOLE, "k", 0, 0, 4 * MIB);
	cancel_id(p, id + 1);
	rig_settle(r);
	assert_int_equal(rig_stats(r).references, 1);
	assert_int_equal(peer_status(p), LARDER_OK);
	assert_int_equal(p->h.request_id, id);
	peer_check_value(p, "k", 4 * MIB);
	assert_int_equal(peer_status(p), LARDER_CANCELLED);
	assert_int_equal(p->h.request_id, id + 1);
	assert_int_equal(peer_status(p), LARDER_OK);
	assert_int_equal(p->h.op, LARDER_OP_CANCEL);
	assert_int_equal(peer_ping(p), LARDER_OK);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

/* --- drain ---------------------------------------------------------------------------------- */

static void drain__lets_what_has_begun_finish(void **state)
{
	static const char *const key[] = { "k" };
	struct rig *r = rig_start();
	struct peer *p = peer_login(r), *q = peer_login(r);
	uint32_t ns = peer_open_ns(p);

	assert_int_equal(peer_put_key(p, ns, "k", 3000), LARDER_OK);
	put_partly(q, ns, "l", 5000, 100, 0);
	assert_false(larder_node_is_drained(r->node));
	larder_node_drain(r->node, true);
	assert_true(rig_stats(r).draining);
	assert_false(larder_node_is_drained(r->node));
	assert_int_equal(peer_put_key(p, ns, "m", 3000), LARDER_DRAINING);
	assert_int_equal(peer_keys(p, LARDER_OP_LEASE, ns, 0, 1, 1000, key, 1), LARDER_DRAINING);
	assert_int_equal(peer_keys(p, LARDER_OP_EXISTS, ns, LARDER_F_LEASE, 1, 1000, key, 1),
			 LARDER_DRAINING);
	assert_int_equal(peer_keys(p, LARDER_OP_EXISTS, ns, 0, 0, 0, key, 1), LARDER_OK);
	assert_int_equal(peer_get(p, ns, "k", 3000), LARDER_OK);
	peer_check_value(p, "k", 3000);
	put_rest(q, "l", 5000, 100);
	assert_int_equal(peer_status(q), LARDER_OK);
	rig_settle(r);
	assert_true(larder_node_is_drained(r->node));
	larder_node_drain(r->node, false);
	assert_int_equal(peer_put_key(p, ns, "m", 3000), LARDER_OK);
	peer_close(p);
	peer_close(q);
	rig_check_released(r);
	rig_stop(r);
}

/* --- turns ---------------------------------------------------------------------------------- */

/* Reads whatever is there and counts it; the node decides how much there is. */
struct drinker {
	struct peer *p;
	uint64_t bytes;
	uint8_t buffer[16384];
};

static void drinkers_drink(struct rig *r, struct drinker *d, uint32_t n, uint32_t turns)
{
	for (uint32_t i = 0; i < n; i++)
		d[i].p->rx_events = 0;
	for (uint32_t t = 0; t < turns; t++) {
		for (uint32_t i = 0; i < n; i++) {
			struct transport_rx rx = { .data = d[i].buffer,
						   .length = sizeof(d[i].buffer) };

			while (transport_post_rx(d[i].p->c, &rx, 1) == 0)
				;
		}
		rig_step(r);
		while (rig_poll_client(r) > 0)
			;
	}
	for (uint32_t i = 0; i < n; i++)
		d[i].bytes = (uint64_t)d[i].p->rx_events * sizeof(d[i].buffer);
}

/* Nine connections of one tenant against one of another: each tenant gets its half. */
static void turns__are_shared_by_tenants(void **state)
{
	struct rig *r = rig_new();
	struct drinker *d = calloc(10, sizeof(*d));
	uint64_t many = 0;
	uint32_t ns[10];

	assert_non_null(d);
	rig_open(r);
	for (int i = 0; i < 10; i++) {
		d[i].p = i < 9 ? peer_login(r) : peer_login_as(r, "other", "tom");
		ns[i] = peer_open_ns(d[i].p);
		if (i == 0 || i == 9)
			assert_int_equal(peer_put_key(d[i].p, ns[i], "k", 4 * MIB), LARDER_OK);
	}
	for (int i = 0; i < 10; i++)
		for (int k = 0; k < 8; k++)
			peer_send_get(d[i].p, ns[i], LARDER_F_WHOLE, "k", 0, 0, 4 * MIB);
	drinkers_drink(r, d, 10, 60);
	for (int i = 0; i < 9; i++)
		many += d[i].bytes;
	/* 60 turns of at most 256 KiB each; the first few are spent on filling the pipe */
	assert_in_range(d[9].bytes, 40ull * 256 * 1024, 64ull * 256 * 1024);
	assert_in_range(many, d[9].bytes * 8 / 10, d[9].bytes * 13 / 10);
	for (int i = 0; i < 10; i++)
		peer_close(d[i].p);
	free(d);
	rig_check_released(r);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(credits__all_and_one_more_for_control),
		cmocka_unit_test(credits__one_over_closes),
		cmocka_unit_test(requests__complete_out_of_order),
		cmocka_unit_test(deadline__ends_a_wait),
		cmocka_unit_test(put__second_writer_is_told),
		cmocka_unit_test(put__second_writer_does_not_wait),
		cmocka_unit_test(disconnect__at_every_byte_of_a_put),
		cmocka_unit_test(disconnect__while_reading),
		cmocka_unit_test(close__with_everything_under_way),
		cmocka_unit_test(stall__half_a_message_and_half_a_value),
		cmocka_unit_test(stall__a_hundred_readers),
		cmocka_unit_test(keepalive__silence_ends_a_session),
		cmocka_unit_test(gap__is_held_against_nobody),
		cmocka_unit_test(gap__does_not_move_deadlines),
		cmocka_unit_test(sleep__is_no_gap),
		cmocka_unit_test(cancel__parked),
		cmocka_unit_test(cancel__queued_reply),
		cmocka_unit_test(drain__lets_what_has_begun_finish),
		cmocka_unit_test(turns__are_shared_by_tenants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
