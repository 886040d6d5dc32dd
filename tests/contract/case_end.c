/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends: each descriptor and each buffer comes back once, in the contract's order (a, f), whoever
 * ends the connection and however: in order, at once, by dying.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

#define STUFF_BYTES (32u << 20)

/* Sends until the peer, which takes nothing, lets no more through: some descriptors stay. */
static void stuff(struct pair *p, struct side *side, const uint8_t *data)
{
	uint64_t done, queued = 0;
	unsigned quiet = 0;

	while (quiet < 50) {
		done = side->done;
		while (queued < STUFF_BYTES && side_send(side, data, p->subject->largest) == 1)
			queued += p->subject->largest;
		side_step(side);
		quiet = side->done == done ? quiet + 1 : 0;
	}
	assert_true(side->accepted > side->done);
	assert_false(side->down);
}

static void a_each_descriptor_gives_one_done_event(void **state)
{
	struct pair *p = pair_new(subject_of(state));
	struct flow f;

	flow_start(&f, p, true, 2000000);
	flow_run(&f);
	assert_true(p->a.accepted > 5);
	assert_int_equal(p->a.done, p->a.accepted);
	pair_settle(p);
	assert_int_equal(p->a.done, p->a.accepted);
	flow_free(&f);
	pair_close(p);
}

/* side_note checks the order: DOWN, then what is left, then GONE and nothing more. */
static void check_all_came_back(const struct side *side)
{
	assert_true(side->gone);
	assert_int_equal(side->done, side->accepted);
	assert_int_equal(side->back, side->posted);
}

static void a_done_events_after_conn_down(void **state)
{
	const struct subject *s = subject_of(state);
	struct pair *p = pair_new(s);
	uint8_t *data = calloc(1, s->largest);
	uint8_t in[3][50];

	assert_non_null(data);
	for (unsigned i = 0; i < 3; i++)
		side_post(&p->a, in[i], sizeof(in[i]));
	stuff(p, &p->a, data);
	s->ops->close(TAKE_PTR(p->b.t));
	pair_until_gone(p, &p->a);
	check_all_came_back(&p->a);
	assert_true(p->a.down_status < 0);
	assert_true(p->a.cancelled > 0);
	assert_int_equal(p->a.returned, 3);
	free(data);
	pair_close(p);
}

static void a_disconnect_at_once_returns_everything(void **state)
{
	const struct subject *s = subject_of(state);
	struct pair *p = pair_new(s);
	uint8_t *data = calloc(1, s->largest);
	uint8_t in[3][50];

	assert_non_null(data);
	for (unsigned i = 0; i < 3; i++)
		side_post(&p->a, in[i], sizeof(in[i]));
	stuff(p, &p->a, data);
	assert_int_equal(transport_disconnect(p->a.conn, false), 0);
	pair_until_gone(p, &p->a);
	check_all_came_back(&p->a);
	assert_int_equal(p->a.returned, 3);
	assert_true(p->a.cancelled > 0);
	pair_read_until_gone(p, &p->b);
	free(data);
	pair_close(p);
}

static void a_disconnect_with_drain_sends_what_was_accepted(void **state)
{
	struct pair *p = pair_new(subject_of(state));
	uint8_t data[1000], got[10][100], in[8];

	pattern_fill(data, 11, 0, sizeof(data));
	for (unsigned i = 0; i < 10; i++)
		side_post(&p->b, got[i], sizeof(got[i]));
	side_post(&p->a, in, sizeof(in));
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(side_send(&p->a, data + i * 100, 100), 1);
	assert_int_equal(transport_disconnect(p->a.conn, true), 0);
	assert_true(side_send(&p->a, data, 1) < 0);
	pair_until_gone(p, &p->b);
	assert_int_equal(p->b.down_status, 0);
	assert_int_equal(p->b.rx_bytes, sizeof(data));
	for (unsigned i = 0; i < 10; i++)
		pattern_check(got[i], 11, i * 100, 100);
	pair_until_gone(p, &p->a);
	check_all_came_back(&p->a);
	assert_int_equal(p->a.cancelled, 0);
	assert_int_equal(p->a.returned, 1);
	pair_close(p);
}

/* The peer's unread words must not destroy ours: a refusal followed by a close is read. */
static void a_drained_bytes_arrive_although_input_is_unread(void **state)
{
	struct pair *p = pair_new(subject_of(state));
	uint8_t data[5000], got[500];

	pattern_fill(data, 12, 0, sizeof(data));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(side_send(&p->b, data, sizeof(data)), 1);
	pair_settle(p);
	assert_int_equal(side_send(&p->a, data, 500), 1);
	assert_int_equal(transport_disconnect(p->a.conn, true), 0);
	for (unsigned i = 0; i < 20; i++)
		side_step(&p->a);
	side_post(&p->b, got, sizeof(got));
	pair_until_gone(p, &p->b);
	assert_int_equal(p->b.rx_bytes, 500);
	pattern_check(got, 12, 0, sizeof(got));
	pair_until_gone(p, &p->a);
	pair_close(p);
}

static void a_drain_can_be_cut_short(void **state)
{
	const struct subject *s = subject_of(state);
	struct pair *p = pair_new(s);
	uint8_t *data = calloc(1, s->largest);
	uint64_t end;

	assert_non_null(data);
	stuff(p, &p->a, data);
	end = now_ms() + PAIR_PATIENCE_MS;
	assert_int_equal(transport_disconnect(p->a.conn, true), 0);
	for (unsigned i = 0; i < 10 && !p->a.gone; i++)
		side_step(&p->a);
	/* Whether it waits for the peer or gives up at full buffers is the transport's choice. */
	if (!p->a.gone)
		assert_int_equal(transport_disconnect(p->a.conn, false), 0);
	while (!p->a.gone) {	/* without the peer's help */
		assert_true(side_step(&p->a) > 0 || p->a.gone || s->flushes);
		assert_true(now_ms() < end);
	}
	check_all_came_back(&p->a);
	free(data);
	pair_close(p);
}

static void a_refused_connect_gives_down_and_gone(void **state)
{
	const struct subject *s = subject_of(state);
	struct transport_config config = pair_config();
	struct pair *p = pair_new_apart(s, &config);
	uint8_t in[8];

	s->ops->close(TAKE_PTR(p->b.t));	/* nobody listens there now */
	assert_int_equal(s->ops->connect(p->a.t, p->address, NULL, &p->a.conn), 0);
	if (transport_post_rx(p->a.conn, &(struct transport_rx){ .data = in, .length = sizeof(in) },
			      1) == 0)
		p->a.posted++;
	pair_until_gone(p, &p->a);
	assert_false(p->a.up);
	assert_true(p->a.down_status < 0);
	check_all_came_back(&p->a);
	pair_close(p);
}

static void a_calls_on_a_conn_that_is_gone_are_refused(void **state)
{
	const struct subject *s = subject_of(state);
	struct pair *p = pair_new(s);
	struct transport_rx rx = { .length = 4 };
	uint8_t data[4] = { 0 };

	rx.data = data;
	assert_int_equal(transport_disconnect(p->a.conn, false), 0);
	pair_until_gone(p, &p->a);
	/* The event was returned a moment ago; the caller may not have looked at it yet. */
	assert_true(transport_post_rx(p->a.conn, &rx, 1) < 0);
	assert_true(side_send(&p->a, data, sizeof(data)) < 0);
	assert_true(transport_disconnect(p->a.conn, false) <= 0);
	pair_settle(p);
	pair_close(p);
}

static void a_full_queue_gives_a_short_count(void **state)
{
	const struct subject *s = subject_of(state);
	uint32_t max = s->ops->limits.max_tx, n = max + 7;
	struct transport_tx *tx = calloc(n, sizeof(*tx));
	struct pair *p = pair_new(s);
	uint8_t byte = 0x42, got[4];
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	int r;

	assert_non_null(tx);
	assert_true(max > 0);
	for (uint32_t i = 0; i < n; i++) {
		tx[i] = (struct transport_tx){
			.type = TRANSPORT_SEND, .niov = 1, .gate = TRANSPORT_NO_GATE,
			.iov = &iov, .cookie = i,
		};
	}
	r = transport_tx(p->a.conn, tx, n);
	assert_true(r > 0);
	assert_true((uint32_t)r <= max);
	p->a.accepted = (uint64_t)r;
	assert_int_equal(side_send(&p->a, &byte, 1), 0);
	while (p->a.done < p->a.accepted) {
		while (p->b.posted < p->a.accepted && p->b.posted - p->b.back < 4)
			side_post(&p->b, &got[p->b.posted % 4], 1);
		pair_step(p);
	}
	assert_int_equal(side_send(&p->a, &byte, 1), 1);
	free(tx);
	pair_close(p);
}

static void a_too_many_buffers_are_refused_together(void **state)
{
	const struct subject *s = subject_of(state);
	uint32_t max = s->ops->limits.max_rx;
	struct pair *p = pair_new(s);
	uint8_t *in = calloc(max + 1, 8);
	struct transport_rx rx[2];

	assert_non_null(in);
	for (uint32_t i = 0; i < max - 1; i++)
		side_post(&p->a, in + (size_t)i * 8, 8);
	rx[0] = (struct transport_rx){ .data = in, .length = 8, .cookie = 9999 };
	rx[1] = rx[0];
	assert_true(transport_post_rx(p->a.conn, rx, 2) < 0);
	side_post(&p->a, in, 8);		/* there is room for one */
	assert_true(transport_post_rx(p->a.conn, rx, 1) < 0);
	assert_int_equal(transport_disconnect(p->a.conn, false), 0);
	pair_until_gone(p, &p->a);
	assert_int_equal(p->a.returned, max);
	free(in);
	pair_close(p);
}

static void f_partly_filled_buffer_comes_back_with_its_length(void **state)
{
	const struct subject *s = subject_of(state);
	uint8_t data[40], got[100];
	struct pair *p;

	if (s->message)
		SKIP_BECAUSE("a message fills its buffer at once");
	p = pair_new(s);
	pattern_fill(data, 13, 0, sizeof(data));
	side_post(&p->b, got, sizeof(got));
	side_post(&p->b, got, sizeof(got));
	assert_int_equal(side_send(&p->a, data, sizeof(data)), 1);
	pair_settle(p);
	assert_int_equal(transport_disconnect(p->a.conn, true), 0);
	pair_until_gone(p, &p->b);
	assert_int_equal(p->b.down_status, 0);
	assert_int_equal(p->b.returned, 2);
	assert_int_equal(side_last(&p->b, TRANSPORT_RX)->length, 0);
	for (uint32_t i = 0; i < p->b.n; i++) {
		if (p->b.log[i].type == TRANSPORT_RX && p->b.log[i].cookie == 0)
			assert_int_equal(p->b.log[i].length, sizeof(data));
	}
	pattern_check(got, 13, 0, sizeof(data));
	pair_close(p);
}

static void f_returned_buffers_are_not_written_any_more(void **state)
{
	const struct subject *s = subject_of(state);
	struct pair *p = pair_new(s);
	uint8_t *data = calloc(1, s->largest);
	uint8_t *got = malloc(s->largest);

	assert_true(data && got);
	side_post(&p->b, got, s->largest);
	assert_int_equal(transport_disconnect(p->b.conn, false), 0);
	while (!p->b.gone)
		side_step(&p->b);
	memset(got, 0x5e, s->largest);
	for (unsigned i = 0; i < 50 && !p->a.down; i++) {
		(void)side_send(&p->a, data, s->largest);	/* refused once it knows */
		pair_step(p);
	}
	pair_until_gone(p, &p->a);
	for (uint32_t i = 0; i < s->largest; i++)
		assert_int_equal(got[i], 0x5e);
	free(data);
	free(got);
	pair_close(p);
}

/* --- a peer that is killed --- */

void child_echo(const struct subject *s, const char *address, int ready)
{
	struct transport_config config = pair_config();
	struct side side = { .max = PAIR_BATCH, .name = "child" };
	static uint8_t buf[4096];

	if (s->ops->open(&config, &side.t) < 0 ||
	    s->ops->connect(side.t, address, NULL, &side.conn) < 0)
		_exit(1);
	for (;;) {
		struct transport_event ev;
		struct transport_rx rx = { .data = buf, .length = sizeof(buf) };
		int n = transport_poll(side.t, &ev, 1);

		if (n < 0 || (n && ev.type == TRANSPORT_CONN_DOWN))
			_exit(1);
		if (!n || (ev.type != TRANSPORT_CONN_UP && ev.type != TRANSPORT_RX))
			continue;
		if (ev.type == TRANSPORT_RX && write(ready, "x", 1) < 0)
			_exit(1);
		if (transport_post_rx(side.conn, &rx, 1) < 0)
			_exit(1);
	}
}

/* A program of its own: what a fork inherits of a device would be its parent's as well. */
static void child_exec(const struct subject *s, const char *address, int ready)
{
	char fd[16];

	(void)snprintf(fd, sizeof(fd), "%d", ready);	/* fits */
	if (fcntl(ready, F_SETFD, 0) == 0)
		(void)execl("/proc/self/exe", "contract", "--echo", s->name, address, fd,
			    (char *)NULL);
	_exit(1);
}

/* Steps b, which sends all the time, until the child has read something. */
static void feed_child(struct pair *p, const uint8_t *data, int ready)
{
	char word;

	while (read(ready, &word, 1) < 0) {
		if (errno != EAGAIN)
			fail_msg("the child is dead");
		side_step(&p->b);
		while (p->b.up && side_send(&p->b, data, p->subject->largest) == 1)
			;
	}
}

static void a_killed_peer_in_mid_transfer(void **state)
{
	const struct subject *s = subject_of(state);
	struct transport_config config = pair_config();
	uint8_t *data, in[2][64];
	struct pair *p;
	int ready[2];
	pid_t pid;

	if (!s->other_process)
		SKIP_BECAUSE("no peer in another process");
	p = pair_new_apart(s, &config);
	data = calloc(1, s->largest);
	assert_non_null(data);
	assert_int_equal(pipe2(ready, O_NONBLOCK | O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child_exec(s, p->address, ready[1]);
	(void)close(ready[1]);
	while (!p->b.up)
		side_step(&p->b);
	side_post(&p->b, in[0], sizeof(in[0]));
	side_post(&p->b, in[1], sizeof(in[1]));
	feed_child(p, data, ready[0]);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	pair_until_gone(p, &p->b);
	check_all_came_back(&p->b);
	assert_int_equal(p->b.returned, 2);
	(void)close(ready[0]);
	free(data);
	pair_close(p);
}

/* Counts of connections return: a listener with one place serves one after another. */
static void a_place_is_free_again_after_gone(void **state)
{
	const struct subject *s = subject_of(state);
	struct transport_config config = pair_config();
	struct pair *p;

	config.max_conns = 1;
	p = pair_new_apart(s, &config);
	for (unsigned i = 0; i < 40; i++) {
		pair_connect(p);
		assert_int_equal(transport_disconnect(i % 2 ? p->a.conn : p->b.conn, i % 4 < 2), 0);
		pair_read_until_gone(p, &p->a);
		pair_read_until_gone(p, &p->b);
		p->a.conn = p->b.conn = NULL;
		p->a.up = p->a.down = p->a.gone = false;
		p->b.up = p->b.down = p->b.gone = false;
		p->a.posted = p->a.back = p->b.posted = p->b.back = 0;
	}
	pair_close(p);
}

static void a_connections_over_the_limit_are_refused(void **state)
{
	const struct subject *s = subject_of(state);
	struct transport_config config = pair_config();
	struct side third;
	struct pair *p;
	uint64_t end = now_ms() + PAIR_PATIENCE_MS;
	uint8_t byte = 1, got;

	config.max_conns = 1;
	p = pair_new_apart(s, &config);
	pair_connect(p);
	side_open(s, &third, "third", &config);
	assert_int_equal(s->ops->connect(third.t, p->address, NULL, &third.conn), 0);
	while (!third.gone) {
		/* A listener may refuse before or after the kernel has connected the two. */
		side_step(&third);
		side_step(&p->b);
		if (third.up && !third.down && !third.posted)
			side_post(&third, &got, 1);
		assert_true(now_ms() < end);
	}
	side_post(&p->b, &got, 1);		/* the first is none the worse for it */
	assert_int_equal(side_send(&p->a, &byte, 1), 1);
	while (p->b.back < 1)
		pair_step(p);
	s->ops->close(third.t);
	pair_close(p);
}

const struct CMUnitTest cases_end[] = {
	cmocka_unit_test(a_each_descriptor_gives_one_done_event),
	cmocka_unit_test(a_done_events_after_conn_down),
	cmocka_unit_test(a_disconnect_at_once_returns_everything),
	cmocka_unit_test(a_disconnect_with_drain_sends_what_was_accepted),
	cmocka_unit_test(a_drained_bytes_arrive_although_input_is_unread),
	cmocka_unit_test(a_drain_can_be_cut_short),
	cmocka_unit_test(a_refused_connect_gives_down_and_gone),
	cmocka_unit_test(a_calls_on_a_conn_that_is_gone_are_refused),
	cmocka_unit_test(a_full_queue_gives_a_short_count),
	cmocka_unit_test(a_too_many_buffers_are_refused_together),
	cmocka_unit_test(a_killed_peer_in_mid_transfer),
	cmocka_unit_test(a_place_is_free_again_after_gone),
	cmocka_unit_test(a_connections_over_the_limit_are_refused),
	cmocka_unit_test(f_partly_filled_buffer_comes_back_with_its_length),
	cmocka_unit_test(f_returned_buffers_are_not_written_any_more),
};
const size_t n_cases_end = ARRAY_SIZE(cases_end);
