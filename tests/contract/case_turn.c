/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A poll's manners: it neither blocks nor allocates (c), returns no more than asked (d), moves no
 * more than a turn's bytes (i) and starves nobody; the event fd wakes whoever may sleep; what a
 * transport does not have says so (g).
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "pair.h"

static void c_data_calls_do_not_allocate(void **state)
{
	struct pair *p;
	struct flow f;
	uint64_t before;

	if (!alloc_can_count())
		SKIP_BECAUSE("a sanitizer's allocator can not be counted");
	p = pair_new(subject_of(state));
	flow_start(&f, p, true, 3000000);
	before = alloc_count();
	flow_run(&f);
	assert_int_equal(alloc_count(), before);
	flow_free(&f);
	pair_close(p);
}

static void c_accepting_and_ending_do_not_allocate(void **state)
{
	const struct subject *s = subject_of(state);
	struct transport_config config = pair_config();
	uint64_t before, in_polls = 0;
	struct pair *p;

	if (!alloc_can_count())
		SKIP_BECAUSE("a sanitizer's allocator can not be counted");
	if (s->cm_allocates)
		SKIP_BECAUSE("librdmacm and libibverbs allocate when a connection comes and goes");
	p = pair_new_apart(s, &config);
	assert_int_equal(s->ops->connect(p->a.t, p->address, NULL, &p->a.conn), 0);
	while (!p->b.up || !p->a.up) {
		side_step(&p->a);
		before = alloc_count();
		side_step(&p->b);
		in_polls += alloc_count() - before;
	}
	assert_int_equal(transport_disconnect(p->a.conn, false), 0);
	while (!p->b.gone) {
		side_step(&p->a);
		before = alloc_count();
		side_step(&p->b);
		in_polls += alloc_count() - before;
	}
	assert_int_equal(in_polls, 0);
	pair_close(p);
}

/* Nobody reads on the other side: every call must still return at once. */
static void c_data_calls_do_not_block_on_a_stalled_peer(void **state)
{
	const struct subject *s = subject_of(state);
	struct pair *p = pair_new(s);
	uint8_t *data = calloc(1, s->largest);
	uint64_t start = now_ms();

	assert_non_null(data);
	for (unsigned i = 0; i < 2000; i++) {
		assert_true(side_send(&p->a, data, s->largest) >= 0);
		side_step(&p->a);
	}
	assert_true(now_ms() - start < PAIR_PATIENCE_MS);
	assert_true(p->a.accepted > p->a.done);
	free(data);
	pair_close(p);
}

static void d_poll_honours_max_of_one(void **state)
{
	struct pair *p = pair_new(subject_of(state));
	struct flow f;

	p->a.max = p->b.max = 1;	/* side_step looks at what is behind the array */
	flow_start(&f, p, true, 1000000);
	f.largest_tx = MIN(f.largest_tx, 5000u);
	flow_run(&f);
	flow_free(&f);
	assert_int_equal(transport_disconnect(p->a.conn, false), 0);
	pair_until_gone(p, &p->a);
	pair_until_gone(p, &p->b);
	pair_close(p);
}

static void d_poll_of_zero_events_gives_none(void **state)
{
	struct pair *p = pair_new(subject_of(state));
	struct transport_event ev;
	uint8_t byte = 3, got = 0;

	side_post(&p->b, &got, 1);
	assert_int_equal(side_send(&p->a, &byte, 1), 1);
	assert_int_equal(transport_poll(p->b.t, &ev, 0), 0);
	while (!p->b.back)
		pair_step(p);
	assert_int_equal(got, 3);
	pair_close(p);
}

static void g_unset_slots_answer_eopnotsupp(void **state)
{
	struct transport_ops ops = { .name = "empty" };
	struct transport t = { .ops = &ops };
	struct transport_conn c = { .transport = &t };
	struct transport_region r = { .transport = &t };
	struct transport *opened;
	struct transport_conn *connected;
	struct transport_region *region;
	size_t len = 0;
	uint8_t opaque[TRANSPORT_OPAQUE_MAX];
	char text[8];

	transport_fill_defaults(&ops);
	assert_int_equal(ops.size, sizeof(ops));
	assert_int_equal(ops.open(NULL, &opened), -EOPNOTSUPP);
	ops.close(&t);
	assert_int_equal(ops.listen(&t, ""), -EOPNOTSUPP);
	assert_int_equal(ops.listen_fd(&t, 0), -EOPNOTSUPP);
	assert_int_equal(ops.connect(&t, "", NULL, &connected), -EOPNOTSUPP);
	assert_int_equal(ops.disconnect(&c, false), -EOPNOTSUPP);
	assert_int_equal(ops.peer(&c, NULL), -EOPNOTSUPP);
	assert_int_equal(ops.region_add(&c, NULL, 0, -1, 0, opaque, &len, &region), -EOPNOTSUPP);
	assert_int_equal(ops.region_import(&c, opaque, 0, 0, &region), -EOPNOTSUPP);
	assert_int_equal(ops.region_del(&r), -EOPNOTSUPP);
	assert_int_equal(ops.event_fd(&t), -EOPNOTSUPP);
	assert_int_equal(ops.gate_arm(&c, 0), -EOPNOTSUPP);
	assert_int_equal(ops.gate_take(&c, 0), -EOPNOTSUPP);
	assert_int_equal(ops.post_rx(&c, NULL, 0), -EOPNOTSUPP);
	assert_int_equal(ops.tx(&c, NULL, 0), -EOPNOTSUPP);
	assert_int_equal(ops.poll(&t, NULL, 0), -EOPNOTSUPP);
	assert_int_equal(ops.flush(&t), -EOPNOTSUPP);
	assert_int_equal(ops.redirect_rx(&c, 0, NULL), -EOPNOTSUPP);
	assert_int_equal(ops.bound(&t, text, sizeof(text)), -EOPNOTSUPP);
	assert_int_equal(ops.listener_fd(&t), -EOPNOTSUPP);
}

static void g_caps_agree_with_what_works(void **state)
{
	const struct subject *s = subject_of(state);
	struct pair *p = pair_new(s);
	uint8_t byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct transport_tx tx = {
		.type = TRANSPORT_READ, .niov = 1, .gate = TRANSPORT_NO_GATE, .iov = &iov,
	};
	struct transport_region *region;
	struct transport_peer peer;
	uint8_t opaque[TRANSPORT_OPAQUE_MAX];
	size_t len = sizeof(opaque);

	assert_true(s->ops->caps & TRANSPORT_RELIABLE);
	assert_true(s->ops->caps & TRANSPORT_ORDERED);
	assert_int_equal(s->ops->event_fd(p->a.t) >= 0, !!(s->ops->caps & TRANSPORT_EVENT_FD));
	if (!(s->ops->caps & TRANSPORT_ONE_SIDED)) {
		assert_int_equal(transport_tx(p->b.conn, &tx, 1), -EOPNOTSUPP);
		tx.type = TRANSPORT_WRITE;
		assert_int_equal(transport_tx(p->b.conn, &tx, 1), -EOPNOTSUPP);
		assert_int_equal(s->ops->region_add(p->a.conn, &byte, 1, -1, 0, opaque, &len,
						    &region), -EOPNOTSUPP);
		assert_int_equal(s->ops->gate_take(p->a.conn, 0), -EOPNOTSUPP);
	}
	tx.type = 99;
	assert_int_equal(transport_tx(p->b.conn, &tx, 1), -EINVAL);
	tx.type = TRANSPORT_SEND;
	tx.niov = (uint16_t)(s->ops->limits.max_iov + 1);
	assert_int_equal(transport_tx(p->b.conn, &tx, 1), -EINVAL);
	assert_int_equal(s->ops->peer(p->b.conn, &peer), 0);
	assert_true(strlen(peer.text) > 0);
	assert_int_equal(peer.has_cred, !!(s->ops->caps & TRANSPORT_PEER_CRED));
	pair_close(p);
}

static void i_no_more_than_a_turn_per_poll(void **state)
{
	const struct subject *s = subject_of(state);
	struct pair *p = pair_new(s);
	uint64_t polls_a, polls_b, sent_at_start;
	struct flow f;

	flow_start(&f, p, true, 6u << 20);
	f.largest_rx = MIN(f.largest_rx, 64u * 1024);
	for (unsigned i = 0; i < 20; i++) {	/* much is queued before anybody reads */
		flow_feed(&f);
		side_step(&p->a);
	}
	polls_a = p->a.polls;
	polls_b = p->b.polls;
	sent_at_start = 20u * TRANSPORT_TURN_BYTES;
	while (!flow_done(&f)) {
		flow_feed(&f);
		pair_step(p);
		assert_true(f.got <= (p->b.polls - polls_b) * TRANSPORT_TURN_BYTES);
		assert_true(f.got <= sent_at_start +
			    (p->a.polls - polls_a + 1) * TRANSPORT_TURN_BYTES);
	}
	flow_free(&f);
	pair_close(p);
}

/* --- two connections, one of which never stops --- */

struct crowd {
	struct side *node;
	struct transport_conn *busy, *quiet;
	uint8_t sink[16][4096];
	uint8_t got;
	bool arrived;
	uint64_t busy_events;
};

static void crowd_step(struct crowd *crowd, uint32_t max)
{
	struct transport_event ev[PAIR_BATCH];
	int n = transport_poll(crowd->node->t, ev, max);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		struct transport_rx rx = { .length = 4096, .cookie = ev[i].cookie };

		if (ev[i].type == TRANSPORT_CONN_UP && !crowd->busy) {
			crowd->busy = ev[i].conn;
			for (uint64_t k = 0; k < 16; k++) {
				rx = (struct transport_rx){ .data = crowd->sink[k], .length = 4096,
							    .cookie = k };
				assert_int_equal(transport_post_rx(ev[i].conn, &rx, 1), 0);
			}
		} else if (ev[i].type == TRANSPORT_CONN_UP) {
			crowd->quiet = ev[i].conn;
			rx = (struct transport_rx){ .data = &crowd->got, .length = 1 };
			assert_int_equal(transport_post_rx(ev[i].conn, &rx, 1), 0);
		} else if (ev[i].type == TRANSPORT_RX && ev[i].conn == crowd->busy) {
			rx.data = ev[i].data;
			crowd->busy_events++;
			assert_int_equal(transport_post_rx(ev[i].conn, &rx, 1), 0);
		} else if (ev[i].type == TRANSPORT_RX) {
			crowd->arrived = true;
		}
	}
}

static void i_a_busy_connection_starves_nobody(void **state)
{
	const struct subject *s = subject_of(state);
	struct transport_config config = pair_config();
	struct pair *p = pair_new_apart(s, &config);
	struct crowd crowd = { .node = &p->b };
	struct side quiet;
	uint8_t data[4096] = { 0 }, byte = 7;
	unsigned polls;

	assert_int_equal(s->ops->connect(p->a.t, p->address, NULL, &p->a.conn), 0);
	while (!p->a.up || !crowd.busy) {
		side_step(&p->a);
		crowd_step(&crowd, 1);
	}
	side_open(s, &quiet, "quiet", &config);
	assert_int_equal(s->ops->connect(quiet.t, p->address, NULL, &quiet.conn), 0);
	while (!quiet.up || !crowd.quiet || crowd.busy_events < 100) {
		while (side_send(&p->a, data, sizeof(data)) == 1)
			;
		side_step(&p->a);
		side_step(&quiet);
		crowd_step(&crowd, 1);
	}
	assert_int_equal(side_send(&quiet, &byte, 1), 1);
	while (!quiet.done)
		side_step(&quiet);
	for (polls = 0; !crowd.arrived; polls++) {
		assert_true(polls < 64);
		while (side_send(&p->a, data, sizeof(data)) == 1)
			;
		side_step(&p->a);
		crowd_step(&crowd, 1);
	}
	s->ops->close(quiet.t);
	pair_close(p);
}

/* --- sleeping --- */

static int event_fd_of(const struct side *side)
{
	int fd = side->t->ops->event_fd(side->t);

	assert_true(fd >= 0);
	return fd;
}

static bool is_readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int r = poll(&pfd, 1, 0);

	assert_true(r >= 0);
	return r == 1;
}

/* Polls until nothing, then sleeps on the event fds: a missed wake-up shows as a timeout. */
static void k_event_fd_wakes_a_sleeper(void **state)
{
	struct pair *p = pair_new(subject_of(state));
	struct flow there, back;

	p->a.max = p->b.max = 3;
	flow_start(&there, p, true, 4000000);
	flow_start(&back, p, false, 1000000);
	for (;;) {
		struct pollfd pfd[2] = {
			{ .fd = event_fd_of(&p->a), .events = POLLIN },
			{ .fd = event_fd_of(&p->b), .events = POLLIN },
		};

		while (side_step(&p->a))
			;
		while (side_step(&p->b))
			;
		if (flow_done(&there) && flow_done(&back))
			break;
		flow_feed(&there);	/* after the poll that said "nothing": it must wake */
		flow_feed(&back);
		assert_true(transport_flush(p->a.t) >= 0);
		assert_true(transport_flush(p->b.t) >= 0);
		if (poll(pfd, 2, 5000) <= 0)
			fail_msg("asleep with %lu and %lu bytes there", there.got, back.got);
	}
	flow_free(&there);
	flow_free(&back);
	pair_close(p);
}

static void k_event_fd_is_quiet_when_there_is_nothing(void **state)
{
	struct pair *p = pair_new(subject_of(state));
	uint8_t byte = 1, got;

	pair_settle(p);
	assert_false(is_readable(event_fd_of(&p->a)));
	assert_false(is_readable(event_fd_of(&p->b)));
	side_post(&p->b, &got, 1);
	pair_settle(p);
	assert_false(is_readable(event_fd_of(&p->b)));
	assert_int_equal(side_send(&p->a, &byte, 1), 1);
	while (!p->a.done)
		side_step(&p->a);
	assert_true(is_readable(event_fd_of(&p->b)));
	assert_true(is_readable(event_fd_of(&p->b)));	/* level-triggered */
	pair_settle(p);
	assert_int_equal(p->b.back, 1);
	assert_false(is_readable(event_fd_of(&p->b)));
	side_post(&p->b, &got, 1);
	pair_settle(p);
	assert_int_equal(transport_disconnect(p->a.conn, false), 0);
	assert_true(is_readable(event_fd_of(&p->a)));
	while (!p->a.gone)
		side_step(&p->a);
	assert_true(is_readable(event_fd_of(&p->b)));
	pair_until_gone(p, &p->b);
	pair_settle(p);
	assert_false(is_readable(event_fd_of(&p->a)));
	assert_false(is_readable(event_fd_of(&p->b)));
	pair_close(p);
}

static void k_taken_address_is_refused(void **state)
{
	const struct subject *s = subject_of(state);
	struct transport_config config = pair_config();
	struct pair *p = pair_new_apart(s, &config);
	struct transport_event ev;

	assert_int_equal(s->ops->listen(p->a.t, p->address), -EADDRINUSE);
	/* To find out, a transport may have knocked: that connection is not ours. */
	for (unsigned i = 0; i < 50; i++)
		assert_true(transport_poll(p->b.t, &ev, 1) >= 0);
	pair_connect(p);	/* and the owner is none the worse for it */
	pair_close(p);
}

const struct CMUnitTest cases_turn[] = {
	cmocka_unit_test(c_data_calls_do_not_allocate),
	cmocka_unit_test(c_accepting_and_ending_do_not_allocate),
	cmocka_unit_test(c_data_calls_do_not_block_on_a_stalled_peer),
	cmocka_unit_test(d_poll_honours_max_of_one),
	cmocka_unit_test(d_poll_of_zero_events_gives_none),
	cmocka_unit_test(g_unset_slots_answer_eopnotsupp),
	cmocka_unit_test(g_caps_agree_with_what_works),
	cmocka_unit_test(i_no_more_than_a_turn_per_poll),
	cmocka_unit_test(i_a_busy_connection_starves_nobody),
	cmocka_unit_test(k_event_fd_wakes_a_sleeper),
	cmocka_unit_test(k_event_fd_is_quiet_when_there_is_nothing),
	cmocka_unit_test(k_taken_address_is_refused),
};
const size_t n_cases_turn = ARRAY_SIZE(cases_turn);
