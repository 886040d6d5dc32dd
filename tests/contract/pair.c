/* SPDX-License-Identifier: Apache-2.0 */
/* The bench: opening, stepping, the checks that every event passes. pair.h tells the idea. */
#include "pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define PAIR_QUIET 20u

uint8_t node_memory[REGION_BYTES] __attribute__((aligned(4096)));

static unsigned pair_serial;

const struct subject *subject_of(void **state)
{
	return *state;
}

uint64_t now_ms(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_MONOTONIC, &ts) < 0)
		abort();
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static uint64_t pair_seed(void)
{
	const char *text = getenv("LARDER_TEST_SEED");
	struct timespec ts;

	if (text)
		return strtoull(text, NULL, 0);
	if (clock_gettime(CLOCK_REALTIME, &ts) < 0)
		abort();
	return (uint64_t)ts.tv_sec * 1000003 + (uint64_t)ts.tv_nsec;
}

struct transport_config pair_config(void)
{
	return (struct transport_config){
		.clock = &clock_system,
		.max_conns = 8,
		.max_region_bytes = 64u << 20,
		.max_regions = 8,
		.gates = 64,
		.memory = node_memory,
		.memory_bytes = sizeof(node_memory),
	};
}

void pair_address(const struct subject *s, char *text, size_t size)
{
	unsigned n = pair_serial++;

	if (!strcmp(s->name, "tcp"))
		snprintf(text, size, "127.0.0.1:0");
	else if (!strcmp(s->name, "rdma"))
		snprintf(text, size, "%s:0", getenv("LARDER_TEST_RDMA"));
	else if (!strcmp(s->name, "shm"))
		snprintf(text, size, "/tmp/larder-contract-%d-%u.sock", (int)getpid(), n);
	else
		snprintf(text, size, "contract-%d-%u", (int)getpid(), n);
}

void side_open(const struct subject *s, struct side *side, const char *name,
	       const struct transport_config *config)
{
	memset(side, 0, sizeof(*side));
	side->name = name;
	side->max = PAIR_BATCH;
	assert_int_equal(s->ops->open(config, &side->t), 0);
	assert_ptr_equal(side->t->ops, s->ops);
}

/* --- events --- */

static void side_note_rx(struct side *side, const struct transport_event *ev)
{
	/* Buffers come back in the order they were posted; each therefore once. */
	assert_true(side->back < side->posted);
	assert_int_equal(ev->cookie, side->back);
	side->back++;
	if (ev->status == 0) {
		assert_false(side->down);
		side->rx_bytes += ev->length;
		return;
	}
	assert_true(side->down);
	assert_true(ev->status < 0);
	side->returned++;
}

static void side_note_done(struct side *side, const struct transport_event *ev)
{
	assert_true(side->done < side->accepted);
	assert_int_equal(ev->cookie, side->done);
	assert_true(ev->status <= 0);
	side->done++;
	side->cancelled += ev->status < 0;
}

void side_note(struct side *side, const struct transport_event *ev)
{
	if (side->conn && ev->conn != side->conn)
		fail_msg("%s: an event of a connection that is not ours", side->name);
	assert_false(side->gone);
	switch (ev->type) {
	case TRANSPORT_CONN_UP:
		assert_false(side->up);
		assert_false(side->down);
		side->conn = ev->conn;
		side->up = true;
		break;
	case TRANSPORT_CONN_DOWN:
		assert_false(side->down);
		assert_true(ev->status <= 0);
		side->down = true;
		side->down_status = ev->status;
		break;
	case TRANSPORT_CONN_GONE:
		assert_true(side->down);
		assert_int_equal(side->done, side->accepted);
		assert_int_equal(side->back, side->posted);
		side->gone = true;
		break;
	case TRANSPORT_RX:
		side_note_rx(side, ev);
		break;
	case TRANSPORT_TX_DONE:
	case TRANSPORT_READ_DONE:
	case TRANSPORT_WRITE_DONE:
		side_note_done(side, ev);
		break;
	default:
		fail_msg("%s: an event of type %u", side->name, ev->type);
	}
	side->log[side->n++ % PAIR_LOG] = *ev;
	if (side->on_event)
		side->on_event(side->user, ev);
}

int side_step(struct side *side)
{
	struct transport_event events[PAIR_BATCH + 1];
	int n;

	assert_true(side->max <= PAIR_BATCH);
	memset(&events[side->max], 0x5a, sizeof(events[0]));
	assert_true(transport_flush(side->t) >= 0);
	n = transport_poll(side->t, events, side->max);
	assert_true(n >= 0);
	assert_true((uint32_t)n <= side->max);
	for (size_t i = 0; i < sizeof(events[0]); i++)
		assert_int_equal(((uint8_t *)&events[side->max])[i], 0x5a);
	side->polls++;
	for (int i = 0; i < n; i++)
		side_note(side, &events[i]);
	return n;
}

void pair_step(struct pair *p)
{
	if (p->a.t)
		side_step(&p->a);
	if (p->b.t)
		side_step(&p->b);
}

void pair_until(struct pair *p, bool (*done)(void *user), void *user)
{
	uint64_t end = now_ms() + PAIR_PATIENCE_MS;

	while (!done(user)) {
		pair_step(p);
		if (now_ms() > end)
			fail_msg("%s: waited in vain (a: %lu of %lu done, b: %lu of %lu buffers)",
				 p->subject->name, p->a.done, p->a.accepted, p->b.back,
				 p->b.posted);
	}
}

static bool side_is_gone(void *user)
{
	return ((struct side *)user)->gone;
}

void pair_until_gone(struct pair *p, struct side *side)
{
	pair_until(p, side_is_gone, side);
}

static bool side_reads_until_gone(void *user)
{
	static uint8_t sink[1u << 20];
	struct side *side = user;

	if (side->up && !side->down && side->posted == side->back) {
		struct transport_rx rx = {
			.data = sink, .length = sizeof(sink), .cookie = side->posted,
		};

		if (transport_post_rx(side->conn, &rx, 1) == 0)	/* refused: DOWN is on its way */
			side->posted++;
	}
	return side->gone;
}

void pair_read_until_gone(struct pair *p, struct side *side)
{
	pair_until(p, side_reads_until_gone, side);
}

void pair_settle(struct pair *p)
{
	unsigned quiet = 0;

	while (quiet < PAIR_QUIET) {
		uint32_t before = p->a.n + p->b.n;

		pair_step(p);
		quiet = p->a.n + p->b.n == before ? quiet + 1 : 0;
	}
}

/* --- opening --- */

struct pair *pair_new_apart(const struct subject *s, const struct transport_config *config)
{
	struct pair *p = calloc(1, sizeof(*p));
	int r;

	assert_non_null(p);
	p->subject = s;
	p->seed = pair_seed();
	prng_seed(&p->prng, p->seed);
	print_message("%s: seed %lu\n", s->name, p->seed);
	side_open(s, &p->a, "a", config);
	side_open(s, &p->b, "b", config);
	pair_address(s, p->address, sizeof(p->address));
	assert_int_equal(s->ops->listen(p->b.t, p->address), 0);
	r = s->ops->bound(p->b.t, p->address, sizeof(p->address));
	assert_true(r == 0 || r == -EOPNOTSUPP);
	return p;
}

static bool pair_is_up(void *user)
{
	const struct pair *p = user;

	return p->a.up && p->b.up;
}

void pair_connect(struct pair *p)
{
	assert_int_equal(p->subject->ops->connect(p->a.t, p->address, p, &p->a.conn), 0);
	assert_ptr_equal(p->a.conn->user, p);
	pair_until(p, pair_is_up, p);
	assert_null(p->b.conn->user);
}

struct pair *pair_new(const struct subject *s)
{
	struct transport_config config = pair_config();
	struct pair *p = pair_new_apart(s, &config);

	pair_connect(p);
	return p;
}

void pair_close(struct pair *p)
{
	if (p->a.t)
		p->subject->ops->close(p->a.t);
	if (p->b.t)
		p->subject->ops->close(p->b.t);
	free(p);
}

/* --- sending and receiving --- */

int side_send_iov(struct side *side, const struct iovec *iov, uint16_t niov)
{
	struct transport_tx tx = {
		.type = TRANSPORT_SEND,
		.niov = niov,
		.gate = TRANSPORT_NO_GATE,
		.iov = iov,
		.cookie = side->accepted,
	};
	int r = transport_tx(side->conn, &tx, 1);

	if (r > 0)
		side->accepted += (uint64_t)r;
	return r;
}

int side_send(struct side *side, const void *data, size_t len)
{
	struct iovec iov = { .iov_base = (void *)data, .iov_len = len };

	return side_send_iov(side, &iov, 1);
}

void side_post(struct side *side, void *data, uint32_t len)
{
	struct transport_rx rx = { .data = data, .length = len, .cookie = side->posted };

	assert_int_equal(transport_post_rx(side->conn, &rx, 1), 0);
	side->posted++;
}

const struct transport_event *side_last(const struct side *side, uint8_t type)
{
	for (uint32_t i = 0; i < MIN(side->n, PAIR_LOG); i++) {
		const struct transport_event *ev = &side->log[(side->n - 1 - i) % PAIR_LOG];

		if (ev->type == type)
			return ev;
	}
	fail_msg("%s: no event of type %u", side->name, type);
	return NULL;
}

void pattern_fill(uint8_t *to, uint64_t seed, uint64_t at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		to[i] = pattern_byte(seed, at + i);
}

void pattern_check(const uint8_t *from, uint64_t seed, uint64_t at, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (from[i] != pattern_byte(seed, at + i))
			fail_msg("byte %lu is wrong: 0x%02x, not 0x%02x", at + i, from[i],
				 pattern_byte(seed, at + i));
	}
}
