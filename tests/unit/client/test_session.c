/* SPDX-License-Identifier: Apache-2.0 */
/* The session: who is believed, what a lost connection costs, failing fast, keepalive, gaps. */
#include "fake_node.h"

#include "client/conn.h"
#include "client/handle.h"

static int session_open(struct rig *r, const char *url)
{
	struct larder_client_options o = rig_options(url);
	uint32_t ns;

	rig_client(r, &o);
	return larder_ns_open(r->c, "space", NULL, LARDER_NS_CREATE, 1000, &ns);
}

static void session_rig(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	r->clock.now_ns = 1000 * NSEC_PER_SEC;
	r->clock.seed = 1;
	r->tick_ns = 20 * NSEC_PER_USEC;
}

static void handshake__node_without_the_secret(void **state)
{
	struct rig r;
	uint64_t before;

	session_rig(&r);
	fake_open(&r.fake, &r.clock, "loop", "session");
	r.fake.bad_mac = true;
	before = r.clock.now_ns;
	assert_int_equal(session_open(&r, "loop://session"), LARDER_DENIED);
	assert_string_equal(larder_last_error(), "the node did not prove that it knows the secret");
	/* at once, not at the deadline */
	assert_true(r.clock.now_ns - before < 500 * NSEC_PER_MSEC);
	assert_int_equal(larder_ping(r.c, 1000), LARDER_DENIED);
	/* a node that can is found within a second */
	r.fake.bad_mac = false;
	r.clock.now_ns += NSEC_PER_SEC;
	rig_turn(&r, 200);
	assert_int_equal(larder_ping(r.c, 1000), LARDER_OK);
	rig_close(&r);
}

static void handshake__client_without_the_secret(void **state)
{
	struct rig r;

	session_rig(&r);
	fake_open(&r.fake, &r.clock, "loop", "session");
	r.fake.secret = "another";
	assert_int_equal(session_open(&r, "loop://session"), LARDER_DENIED);
	assert_string_equal(larder_last_error(), "wrong secret");
	rig_close(&r);
}


static void handshake__draining_is_told_at_once(void **state)
{
	struct rig r;
	uint64_t before;

	session_rig(&r);
	fake_open(&r.fake, &r.clock, "loop", "session");
	r.fake.refuse = LARDER_DRAINING;
	before = r.clock.now_ns;
	assert_int_equal(session_open(&r, "loop://session"), LARDER_DRAINING);
	assert_true(r.clock.now_ns - before < 500 * NSEC_PER_MSEC);
	assert_string_equal(larder_last_error(), "the fake refuses");
	assert_int_equal(larder_ping(r.c, 1000), LARDER_DRAINING);
	/* undone: found within a second */
	r.fake.refuse = 0;
	r.clock.now_ns += NSEC_PER_SEC;
	rig_turn(&r, 200);
	assert_int_equal(larder_ping(r.c, 1000), LARDER_OK);
	rig_close(&r);
}

/* The connection is lost under a call, and the node takes no new one. */
static void handshake__draining_ends_what_waits(void **state)
{
	struct rig r;
	struct larder_item item = { .key = "k", .key_len = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .items = &item, .n_items = 1 };
	struct larder_batch *back;

	rig_open(&r, "session");
	b.ns = r.ns;
	r.fake.mute = true;
	assert_int_equal(larder_submit(r.c, &b), 0);
	rig_turn(&r, 20);
	r.fake.mute = false;
	r.fake.refuse = LARDER_DRAINING;
	assert_int_equal(loop_break(r.fake.conns[0].tc), 0);
	rig_turn(&r, 200);
	assert_int_equal(larder_poll(r.c, &back, 1), 1);
	assert_int_equal(item.status, LARDER_DRAINING);
	assert_string_equal(larder_last_error(), "the fake refuses");
	rig_close(&r);
}

/* The node comes up while a call waits. */
static int step_and_start(void *user)
{
	struct rig *r = user;

	if (++r->steps == 5000)
		fake_restart(&r->fake, "loop", "session");
	r->clock.now_ns += r->tick_ns;
	return r->fake.t ? fake_step(&r->fake) : 0;
}

static void open__before_the_node(void **state)
{
	struct rig r;
	struct larder_client_options o = rig_options("loop://session");
	struct larder_environment env = { .monotonic_ns = fake_now, .random_bytes = fake_random };

	session_rig(&r);
	fake_open(&r.fake, &r.clock, "loop", "session");
	fake_stop(&r.fake);
	r.tick_ns = 200 * NSEC_PER_USEC;
	env.user = &r.clock;
	assert_int_equal(larder_open_stepped(&o, &env, step_and_start, &r, &r.c), 0);
	assert_int_equal(larder_ping(r.c, 4000), LARDER_OK);
	assert_true(r.steps >= 5000);
	rig_close(&r);
}

static void node__never_there(void **state)
{
	struct rig r;
	uint64_t before;

	session_rig(&r);
	fake_open(&r.fake, &r.clock, "loop", "session");
	fake_stop(&r.fake);
	before = r.clock.now_ns;
	assert_int_equal(session_open(&r, "loop://session"), LARDER_DISCONNECTED);
	assert_in_range(r.clock.now_ns - before, 1000 * NSEC_PER_MSEC, 1010 * NSEC_PER_MSEC);
	rig_close(&r);
}

static void connection__lost_and_found(void **state)
{
	struct rig r;
	struct larder_client_info info;
	uint8_t back[8];
	size_t len;

	rig_open(&r, "session");
	assert_int_equal(larder_put(r.c, r.ns, "k", 1, "value", 5, 1000), LARDER_OK);
	fake_stop(&r.fake);
	rig_turn(&r, 10);
	r.fake.ns = 55;		/* memory made anew: the namespace has another id */
	fake_restart(&r.fake, "loop", "session");
	assert_int_equal(larder_get(r.c, r.ns, "k", 1, back, 8, &len, 1000), LARDER_OK);
	assert_memory_equal(back, "value", 5);
	larder_get_info(r.c, &info);
	assert_int_equal(info.reconnects, 1);
	assert_int_equal(r.fake.handshakes, 2);
	rig_close(&r);
}

/* Breaks the connection for the first requests of a kind. */
static bool break_some(struct fake *f, struct fake_conn *c, const struct wire_request *r,
		       const uint8_t *payload)
{
	int *left = f->user;

	if (r->header.op != LARDER_OP_GET || *left == 0)
		return false;
	(*left)--;
	(void)loop_break(c->tc);
	return true;
}

static void request__is_sent_again(void **state)
{
	struct rig r;
	uint8_t back[8];
	size_t len;
	int left = 2;

	rig_open(&r, "session");
	(void)fake_put(&r.fake, "k", "value", 5);
	r.fake.hook = break_some;
	r.fake.user = &left;
	assert_int_equal(larder_get(r.c, r.ns, "k", 1, back, 8, &len, 5000), LARDER_OK);
	assert_int_equal(r.fake.handshakes, 3);
	left = 3;	/* the budget of one request */
	assert_int_equal(larder_get(r.c, r.ns, "k", 1, back, 8, &len, 5000),
			 LARDER_DISCONNECTED);
	assert_int_equal(left, 0);
	rig_close(&r);
}

static void stream__ends_with_its_connection(void **state)
{
	struct rig r;
	struct larder_put_stream *s;

	rig_open(&r, "session");
	assert_int_equal(larder_put_begin(r.c, r.ns, "v", 1, 10, 5000, &s), LARDER_OK);
	assert_int_equal(loop_break(r.fake.conns[0].tc), 0);
	rig_turn(&r, 100);
	assert_int_equal(larder_put_part(s, 0, "12345", 5), LARDER_DISCONNECTED);
	assert_int_equal(larder_put_abort(s), LARDER_OK);
	rig_close(&r);
}

/* What is left of a stream ends at once, whether a node is there again or not. */
static void stream__first_failure_is_told_again(void **state)
{
	for (int again = 0; again < 2; again++) {
		struct rig r;
		struct larder_put_stream *s, *t;
		uint64_t before;

		rig_open(&r, "session");
		assert_int_equal(larder_put_begin(r.c, r.ns, "v", 1, 10, 8000, &s), LARDER_OK);
		assert_int_equal(larder_put_part(s, 0, "12345", 5), LARDER_OK);
		assert_int_equal(larder_put_begin(r.c, r.ns, "w", 1, 10, 8000, &t), LARDER_OK);
		fake_stop(&r.fake);
		if (again)
			fake_restart(&r.fake, "loop", "session");
		rig_turn(&r, 100);
		before = r.clock.now_ns;
		assert_int_equal(larder_put_part(s, 5, "67890", 5), LARDER_DISCONNECTED);
		assert_int_equal(larder_put_part(s, 5, "67890", 5), LARDER_DISCONNECTED);
		assert_int_equal(larder_put_commit(s), LARDER_DISCONNECTED);
		assert_non_null(strstr(larder_last_error(), "on which it began"));
		assert_int_equal(larder_put_abort(t), LARDER_OK);
		assert_true(r.clock.now_ns - before < 10 * NSEC_PER_MSEC);
		assert_int_equal(r.fake.count[LARDER_OP_PUT_PART], 1);
		assert_int_equal(r.fake.count[LARDER_OP_PUT_ABORT], 0);
		rig_close(&r);
	}
}

static bool refuse_parts(struct fake *f, struct fake_conn *c, const struct wire_request *r,
			 const uint8_t *payload)
{
	if (r->header.op != LARDER_OP_PUT_PART)
		return false;
	fake_error(c, r, LARDER_QUOTA, 0, "gaps");
	return true;
}

/* The commit after a refused part gives the rest up, and says why. */
static void stream__refused_part_is_given_up(void **state)
{
	struct rig r;
	struct larder_put_stream *s;

	rig_open(&r, "session");
	r.fake.hook = refuse_parts;
	assert_int_equal(larder_put_begin(r.c, r.ns, "v", 1, 10, 8000, &s), LARDER_OK);
	assert_int_equal(larder_put_part(s, 0, "12345", 5), LARDER_QUOTA);
	assert_int_equal(larder_exists(r.c, r.ns, "v", 1, 1000), LARDER_NOT_FOUND);
	assert_int_equal(larder_put_commit(s), LARDER_QUOTA);
	assert_string_equal(larder_last_error(), "gaps");
	assert_int_equal(r.fake.count[LARDER_OP_PUT_ABORT], 1);
	assert_int_equal(r.fake.count[LARDER_OP_PUT_COMMIT], 0);
	rig_close(&r);
}

static int step_and_stop(void *user)
{
	struct rig *r = user;

	r->clock.now_ns += r->tick_ns;
	if (++r->steps == 500)
		fake_stop(&r->fake);
	return r->fake.t ? fake_step(&r->fake) : 0;
}

/* A part that waits for a credit when its connection is lost. */
static void stream__lost_while_it_waits_for_credits(void **state)
{
	struct rig r;
	struct larder_put_stream *s;
	struct larder_item item = { .key = "k", .key_len = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .items = &item, .n_items = 1,
				  .deadline_ms = 20000 };
	uint64_t before;

	session_rig(&r);
	fake_open(&r.fake, &r.clock, "loop", "session");
	r.fake.credits = 1;
	assert_int_equal(session_open(&r, "loop://session"), LARDER_OK);
	assert_int_equal(larder_ns_open(r.c, "space", NULL, 0, 1000, &r.ns), LARDER_OK);
	assert_int_equal(larder_put_begin(r.c, r.ns, "v", 1, 10, 8000, &s), LARDER_OK);
	r.fake.mute = true;
	b.ns = r.ns;
	assert_int_equal(larder_submit(r.c, &b), 0);
	rig_turn(&r, 10);
	r.steps = 0;
	r.c->step = step_and_stop;
	before = r.clock.now_ns;
	assert_int_equal(larder_put_part(s, 0, "12345", 5), LARDER_DISCONNECTED);
	assert_true(r.steps >= 500);
	assert_int_equal(larder_put_abort(s), LARDER_OK);
	assert_true(r.clock.now_ns - before < 100 * NSEC_PER_MSEC);
	rig_close(&r);
}

static void sick_node__is_answered_for(void **state)
{
	struct rig r;
	uint64_t before;

	rig_open(&r, "session");
	fake_stop(&r.fake);
	/* three rounds of connecting fail */
	for (int i = 0; i < 3; i++) {
		rig_turn(&r, 5);
		r.clock.now_ns += NSEC_PER_SEC;
	}
	rig_turn(&r, 5);
	before = r.clock.now_ns;
	assert_int_equal(larder_ping(r.c, 5000), LARDER_DISCONNECTED);
	assert_true(r.clock.now_ns - before < NSEC_PER_MSEC);
	assert_non_null(strstr(larder_last_error(), "does not answer"));
	fake_restart(&r.fake, "loop", "session");
	before = r.clock.now_ns;
	while (r.clock.now_ns - before < NSEC_PER_SEC) {
		rig_turn(&r, 1);
		r.clock.now_ns += NSEC_PER_MSEC;
	}
	assert_int_equal(larder_ping(r.c, 5000), LARDER_OK);
	rig_close(&r);
}

static void silent_node__is_answered_for(void **state)
{
	struct rig r;
	uint64_t before;

	rig_open(&r, "session");
	r.frozen = true;
	for (int i = 0; i < 3; i++)
		assert_int_equal(larder_exists(r.c, r.ns, "k", 1, 20), LARDER_DEADLINE);
	before = r.clock.now_ns;
	assert_int_equal(larder_exists(r.c, r.ns, "k", 1, 5000), LARDER_DISCONNECTED);
	assert_true(r.clock.now_ns - before < NSEC_PER_MSEC);
	/* it goes on: the same connection serves again */
	r.frozen = false;
	rig_turn(&r, 50);
	assert_int_equal(larder_exists(r.c, r.ns, "k", 1, 5000), LARDER_NOT_FOUND);
	assert_int_equal(r.fake.handshakes, 1);
	rig_close(&r);
}

/* Connecting succeeds, as the kernel does it for a stopped process; nobody shakes hands. */
static void deaf_node__is_answered_for(void **state)
{
	struct rig r;
	uint64_t before;
	int slow = 0;

	rig_open(&r, "session");
	r.frozen = true;
	assert_int_equal(loop_break(r.fake.conns[0].tc), 0);
	rig_turn(&r, 50);
	for (int i = 0; i < 1000; i++) {
		before = r.clock.now_ns;
		assert_int_equal(larder_exists(r.c, r.ns, "k", 1, 20), LARDER_DISCONNECTED);
		slow += r.clock.now_ns - before >= NSEC_PER_MSEC;
		r.clock.now_ns += 5 * NSEC_PER_MSEC;	/* attempts come and go meanwhile */
	}
	assert_int_equal(slow, 3);
	r.frozen = false;
	before = r.clock.now_ns;
	while (larder_exists(r.c, r.ns, "k", 1, 100) != LARDER_NOT_FOUND) {
		rig_turn(&r, 1);
		r.clock.now_ns += NSEC_PER_MSEC;
		assert_true(r.clock.now_ns - before < NSEC_PER_SEC);
	}
	rig_close(&r);
}

/* No credit is free, but the node talks: that is not silence. */
static void deaf_node__counts_only_what_nobody_answered(void **state)
{
	struct rig r;
	struct larder_item item[2] = { { .key = "k", .key_len = 1 }, { .key = "k", .key_len = 1 } };
	struct larder_batch b[2], *back[2];

	rig_open(&r, "session");
	for (int round = 0; round < 5; round++) {
		/* a session that is being made takes longer than the deadline, and speaks */
		assert_int_equal(loop_break(r.fake.conns[0].tc), 0);
		for (int i = 0; i < 2; i++) {
			b[i] = (struct larder_batch){ .opcode = LARDER_OP_EXISTS, .ns = r.ns,
						      .items = &item[i], .n_items = 1,
						      .deadline_ms = 1 };
			assert_int_equal(larder_submit(r.c, &b[i]), 0);
		}
		rig_turn(&r, 2);
		while (r.c->core.conn == NULL || r.c->core.heard_ns < r.c->core.conn->started_ns)
			rig_turn(&r, 1);
		r.clock.now_ns += 2 * NSEC_PER_MSEC;
		(void)larder_step(r.c);
		assert_int_equal(r.c->core.failures, 0);
		rig_turn(&r, 200);
		assert_int_equal(larder_poll(r.c, back, 2), 2);
		assert_int_equal(larder_ping(r.c, 1000), LARDER_OK);
	}
	rig_close(&r);
}

/* The node is stopped for so long, and then goes on. */
static void session_silence(struct rig *r, unsigned ms, bool ask)
{
	r->frozen = true;
	if (ask)
		assert_int_equal(larder_exists(r->c, r->ns, "k", 1, 20), LARDER_DEADLINE);
	for (unsigned i = 0; i < ms / 200; i++) {
		r->clock.now_ns += 200 * NSEC_PER_MSEC;
		rig_turn(r, 4);
	}
	r->frozen = false;
	rig_turn(r, 50);
	r->clock.now_ns += NSEC_PER_SEC;
	rig_turn(r, 50);
	assert_int_equal(larder_ping(r->c, 1000), LARDER_OK);
}

static void keepalive__idle_connection(void **state)
{
	struct rig r;

	rig_open(&r, "session");
	for (int i = 0; i < 100; i++) {
		r.clock.now_ns += 200 * NSEC_PER_MSEC;
		rig_turn(&r, 4);
	}
	/* twenty seconds at one second each */
	assert_in_range(r.fake.count[LARDER_OP_PING], 15, 25);
	assert_int_equal(r.fake.handshakes, 1);
	/* silence: of three keepalives when nobody asks, of one when somebody does */
	session_silence(&r, 8000, false);
	assert_int_equal(r.fake.handshakes, 1);
	session_silence(&r, 10000, false);
	assert_int_equal(r.fake.handshakes, 2);
	session_silence(&r, 2000, true);
	assert_int_equal(r.fake.handshakes, 2);
	session_silence(&r, 4000, true);
	assert_int_equal(r.fake.handshakes, 3);
	rig_close(&r);
}

static void keepalive__silence_while_nobody_looked(void **state)
{
	struct rig r;

	rig_open(&r, "session");
	/* we were stopped, the node was not: ten times the keepalive in one step */
	r.clock.now_ns += 30 * NSEC_PER_SEC;
	rig_turn(&r, 20);
	assert_int_equal(larder_ping(r.c, 1000), LARDER_OK);
	assert_int_equal(r.fake.handshakes, 1);
	rig_close(&r);
}

static void close__ends_what_is_under_way(void **state)
{
	struct rig r;
	struct larder_item item = { .key = "k", .key_len = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .items = &item, .n_items = 1 };

	rig_open(&r, "session");
	b.ns = r.ns;
	r.frozen = true;
	assert_int_equal(larder_submit(r.c, &b), 0);
	rig_turn(&r, 5);
	rig_close(&r);
	assert_int_equal(item.status, LARDER_CANCELLED);
	assert_int_equal(b.n_done, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handshake__node_without_the_secret),
		cmocka_unit_test(handshake__client_without_the_secret),
		cmocka_unit_test(handshake__draining_is_told_at_once),
		cmocka_unit_test(handshake__draining_ends_what_waits),
		cmocka_unit_test(open__before_the_node),
		cmocka_unit_test(node__never_there),
		cmocka_unit_test(connection__lost_and_found),
		cmocka_unit_test(request__is_sent_again),
		cmocka_unit_test(stream__ends_with_its_connection),
		cmocka_unit_test(stream__first_failure_is_told_again),
		cmocka_unit_test(stream__refused_part_is_given_up),
		cmocka_unit_test(stream__lost_while_it_waits_for_credits),
		cmocka_unit_test(sick_node__is_answered_for),
		cmocka_unit_test(silent_node__is_answered_for),
		cmocka_unit_test(deaf_node__is_answered_for),
		cmocka_unit_test(deaf_node__counts_only_what_nobody_answered),
		cmocka_unit_test(keepalive__idle_connection),
		cmocka_unit_test(keepalive__silence_while_nobody_looked),
		cmocka_unit_test(close__ends_what_is_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
