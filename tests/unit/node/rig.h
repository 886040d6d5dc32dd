/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the node's tests share: a node on anonymous memory with a clock that only a test moves, and
 * peers that speak the raw wire over loop, so that they can also speak it wrongly. Everything runs
 * in one thread: a peer that waits for something steps the node until it is there.
 */
#ifndef LARDER_TESTS_NODE_RIG_H
#define LARDER_TESTS_NODE_RIG_H

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <larder/node.h>

#include "base/check.h"
#include "base/compiler.h"
#include "base/prng.h"
#include "mem/memory.h"
#include "transport/registry.h"
#include "transport/transport.h"
#include "view/ledger.h"
#include "wire/mac.h"
#include "wire/wire.h"

#define RIG_STEPS 20000u	/* turns that anything may take */
#define RIG_PAGE 4096u
#define RIG_SECRET "correct horse"

struct rig {
	struct larder_memory *memory;
	struct larder_memory_config mc;
	struct larder_node_config config;
	struct larder_environment environment;
	struct clock clock;
	struct larder_log log;
	struct larder_node *node;
	bool threaded;			/* someone else steps the node */
	struct transport *client;	/* all peers live on it */
	struct larder_node_stats before;
	uint64_t now_ns;
	/* the clock is the time that the node itself works: nothing that peers do takes any */
	bool node_time;
	uint64_t step_ns;		/* when this step of it began; 0: it does not work */
	void (*each_step)(void *user);	/* after each; may be NULL */
	void *each_user;
	struct prng prng;
	const struct transport_ops *ops;	/* loop, unless the test says so before rig_open */
	char dir[64];			/* shm: where the socket is */
	char url[160];			/* never the same twice */
	char address[TRANSPORT_ADDR_TEXT]; /* what peers connect to */
	uint32_t lines;
	char last_line[512];
};

struct peer {
	struct rig *rig;
	struct transport_conn *c;
	bool up, down, gone;
	int down_status;
	uint32_t rx_events;		/* buffers that came back filled */
	uint32_t rx_length;
	uint32_t tx_out;
	uint32_t credits;
	uint64_t next_id;
	uint32_t gate;			/* the last one armed */
	struct wire_welcome welcome;
	uint8_t message[WIRE_MESSAGE_MAX];	/* the last one received */
	struct wire_header h;
	struct wire_reply reply;
	uint8_t *payload;		/* of the last reply; freed with the next */
};

static inline uint64_t rig_cpu_ns(void)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static inline uint64_t rig_now(void *user)
{
	const struct rig *r = user;

	return r->now_ns + (r->step_ns ? rig_cpu_ns() - r->step_ns : 0);
}

static inline uint64_t rig_wall(void *user)
{
	return 1700000000000ull + ((struct rig *)user)->now_ns / NSEC_PER_MSEC;
}

static inline int rig_random(void *user, void *out, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)out)[i] = (uint8_t)prng_next(&((struct rig *)user)->prng);
	return 0;
}

static inline void rig_line(void *user, int level, const char *text)
{
	struct rig *r = user;

	r->lines++;
	snprintf(r->last_line, sizeof(r->last_line), "%s", text);
}

/* A node that is configured but not open; the test may change r->config and r->mc. */
static inline struct rig *rig_new(void)
{
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->now_ns = 100 * NSEC_PER_SEC;
	prng_seed(&r->prng, 1);
	r->log = (struct larder_log){ .line = rig_line, .user = r, .level = LARDER_LOG_INFO };
	r->environment = (struct larder_environment){ .monotonic_ns = rig_now, .wall_ms = rig_wall,
						      .random_bytes = rig_random, .user = r };
	r->clock = (struct clock){ .monotonic_ns = rig_now, .wall_ms = rig_wall, .user = r };
	r->mc = (struct larder_memory_config){ .pages = 4096, .page_size_bytes = RIG_PAGE,
					       .log = &r->log };
	larder_node_config_defaults(&r->config);
	r->config.environment = &r->environment;
	r->config.log = &r->log;
	r->config.shards = 4;
	r->config.max_value_bytes = 8u << 20;
	r->config.credits = 8;
	r->ops = transport_loop();
	return r;
}

static inline void rig_listen(struct rig *r)
{
	static uint32_t count;

	if (r->ops == transport_shm()) {
		snprintf(r->dir, sizeof(r->dir), "/tmp/larder-node-XXXXXX");
		assert_non_null(mkdtemp(r->dir));
		snprintf(r->address, sizeof(r->address), "%s/sock", r->dir);
	} else if (r->ops == transport_tcp()) {
		snprintf(r->address, sizeof(r->address), "127.0.0.1:0");
	} else {
		snprintf(r->address, sizeof(r->address), "node-%u", ++count);
	}
	snprintf(r->url, sizeof(r->url), "%s://%s", r->ops->name, r->address);
	assert_int_equal(larder_node_listen(r->node, r->url), 0);
	if (r->ops == transport_tcp())
		snprintf(r->address, sizeof(r->address), "127.0.0.1:%d",
			 larder_node_port(r->node));
}

static inline void rig_open(struct rig *r)
{
	const struct transport_config tc = { .log = &r->log, .max_conns = 256,
					    .clock = &r->clock, .gates = 16, .max_regions = 16,
					    .max_region_bytes = 1ull << 30 };

	assert_int_equal(larder_memory_open(&r->mc, &r->memory), 0);
	r->config.memory = r->memory;
	assert_int_equal(larder_node_open(&r->config, &r->node), 0);
	assert_int_equal(larder_node_tenant_add(r->node, "demo", RIG_SECRET, strlen(RIG_SECRET),
						NULL, 0), 0);
	assert_int_equal(larder_node_tenant_add(r->node, "other", "tom", 3, "jerry", 5), 0);
	rig_listen(r);
	assert_int_equal(r->ops->open(&tc, &r->client), 0);
	larder_node_get_stats(r->node, &r->before);
}

static inline struct rig *rig_start(void)
{
	struct rig *r = rig_new();

	rig_open(r);
	return r;
}

static inline int rig_poll_client(struct rig *r)
{
	struct transport_event ev[16];
	int n = transport_poll(r->client, ev, 16);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		struct peer *p = ev[i].conn->user;

		switch (ev[i].type) {
		case TRANSPORT_CONN_UP:
			p->up = true;
			break;
		case TRANSPORT_CONN_DOWN:
			p->down = true;
			p->down_status = ev[i].status;
			break;
		case TRANSPORT_CONN_GONE:
			p->gone = true;
			p->c = NULL;
			break;
		case TRANSPORT_RX:
			if (ev[i].status >= 0) {
				p->rx_events++;
				p->rx_length = ev[i].length;
			}
			break;
		case TRANSPORT_TX_DONE:
			p->tx_out--;
			break;
		default:
			fail_msg("event %u", ev[i].type);
		}
	}
	return n;
}

/* The reactors have threads of their own: waits until something comes, not for long. */
static inline int rig_wait(struct rig *r)
{
	struct pollfd fd = { .fd = r->client->ops->event_fd(r->client), .events = POLLIN };
	int n = rig_poll_client(r);

	if (n > 0)
		return n;
	assert_true(poll(&fd, 1, 10) >= 0);
	return rig_poll_client(r);
}

/* One turn of everything. Returns what was done. */
static inline int rig_step(struct rig *r)
{
	int n = 0;

	if (r->threaded)
		return rig_wait(r);
	for (uint32_t i = 0; i < r->config.reactors; i++) {
		int k;

		if (r->node_time)
			r->step_ns = rig_cpu_ns();
		k = larder_node_step(r->node, i);
		if (r->node_time)
			r->now_ns += rig_cpu_ns() - r->step_ns;
		r->step_ns = 0;
		assert_true(k >= 0);
		n += k;
	}
	n += rig_poll_client(r);
	if (r->each_step)
		r->each_step(r->each_user);
	return n;
}

/* Until nothing moves any more. */
static inline void rig_settle(struct rig *r)
{
	uint32_t idle = 0;

	for (uint32_t i = 0; i < RIG_STEPS && idle < 20; i++)
		idle = rig_step(r) == 0 ? idle + 1 : 0;
	assert_true(idle >= 20);
}

/* Moves the clock by steps that are no gap. */
static inline void rig_advance(struct rig *r, uint64_t ms)
{
	while (ms > 0) {
		uint64_t step = MIN(ms, (uint64_t)200);

		r->now_ns += step * NSEC_PER_MSEC;
		ms -= step;
		rig_step(r);
	}
	rig_settle(r);
}

static inline struct larder_node_stats rig_stats(struct rig *r)
{
	struct larder_node_stats s;

	larder_node_get_stats(r->node, &s);
	return s;
}

/* Everything that a peer can make the node hold is back where it was; @objects may have come. */
static inline void rig_check_released(struct rig *r)
{
	struct larder_node_stats s = rig_stats(r);

	assert_int_equal(s.connections, 0);
	assert_int_equal(s.unauthenticated, 0);
	assert_int_equal(s.requests, 0);
	assert_int_equal(s.regions, 0);
	assert_int_equal(s.region_bytes, 0);
	assert_int_equal(s.references, 0);
	assert_int_equal(s.filling, 0);
	assert_int_equal(s.parked, 0);
	if (s.objects == r->before.objects) {
		assert_int_equal(s.pages_free, r->before.pages_free);
		assert_int_equal(s.records_free, r->before.records_free);
	}
}

static inline void rig_stop(struct rig *r)
{
	larder_node_close(r->node);
	r->client->ops->close(r->client);
	larder_memory_close(r->memory);
	if (r->dir[0])
		assert_int_equal(rmdir(r->dir), 0);	/* the socket went with its listener */
	free(r);
}

/* --- peers ---------------------------------------------------------------------------------- */

static inline struct peer *peer_connect(struct rig *r)
{
	struct peer *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->rig = r;
	p->next_id = 1;
	assert_int_equal(r->client->ops->connect(r->client, r->address, p, &p->c), 0);
	for (uint32_t i = 0; i < RIG_STEPS && !p->up && !p->down; i++)
		rig_step(r);
	return p;
}

static inline void peer_send_raw(struct peer *p, const void *data, size_t len)
{
	const struct iovec iov = { .iov_base = (void *)data, .iov_len = len };
	const struct transport_tx tx = { .type = TRANSPORT_SEND, .niov = 1, .iov = &iov };

	if (p->down || transport_tx(p->c, &tx, 1) != 1)
		return;
	p->tx_out++;
}

/* Sends and waits until it has left (the node may have closed meanwhile). */
static inline void peer_write(struct peer *p, const void *data, size_t len)
{
	peer_send_raw(p, data, len);
	for (uint32_t i = 0; i < RIG_STEPS && p->tx_out > 0 && !p->gone; i++)
		rig_step(p->rig);
	assert_true(p->tx_out == 0 || p->down);
}

/* Exactly @len bytes. False: the connection ended instead. */
static inline bool peer_read(struct peer *p, void *data, uint32_t len)
{
	const struct transport_rx rx = { .data = data, .length = len };
	uint32_t seen = p->rx_events;

	if (p->down || transport_post_rx(p->c, &rx, 1) < 0)
		return false;
	for (uint32_t i = 0; i < RIG_STEPS && p->rx_events == seen && !p->gone; i++)
		rig_step(p->rig);
	return p->rx_events != seen;
}

static inline bool peer_is_stream(const struct peer *p)
{
	return !(p->rig->ops->caps & TRANSPORT_MESSAGE);
}

/* One whole message, for transports that keep their boundaries. */
static inline bool peer_read_message(struct peer *p)
{
	uint8_t whole[WIRE_MESSAGE_MAX];

	if (!peer_read(p, whole, sizeof(whole)))
		return false;
	assert_true(p->rx_length >= sizeof(p->h));
	memcpy(&p->h, whole, sizeof(p->h));
	assert_int_equal(p->rx_length, sizeof(p->h) + p->h.body_len);
	memcpy(p->message, whole + sizeof(p->h), p->h.body_len);
	return true;
}

/* The next reply, decoded into p->reply; false when the connection ended. */
static inline bool peer_receive(struct peer *p)
{
	int e;

	free(TAKE_PTR(p->payload));
	if (!(peer_is_stream(p) ? peer_read(p, &p->h, sizeof(p->h)) : peer_read_message(p)))
		return false;
	e = wire_header_check(&p->h, WIRE_MESSAGE_MAX);
	assert_true(e == 0 || e == -EOPNOTSUPP);	/* to an operation that is none */
	if (peer_is_stream(p) && p->h.body_len > 0 && !peer_read(p, p->message, p->h.body_len))
		return false;
	assert_int_equal(wire_body_check(&p->h, p->message), 0);
	if (e == 0)
		assert_int_equal(wire_reply_decode(&p->h, p->message, &p->reply), 0);
	if (p->h.payload_len == 0)
		return true;
	p->payload = malloc(p->h.payload_len);
	assert_non_null(p->payload);
	for (uint32_t at = 0; at < p->h.payload_len;) {
		uint32_t n = MIN(p->h.payload_len - at, 200000u);

		if (!peer_read(p, p->payload + at, n))
			return false;
		at += n;
	}
	return true;
}

/* The status of the next reply; -1 = closed instead. */
static inline int peer_status(struct peer *p)
{
	return peer_receive(p) ? (int)p->h.status : -1;
}

/* Waits for the end that the node is to bring. */
static inline void peer_expect_closed(struct peer *p)
{
	for (uint32_t i = 0; i < RIG_STEPS && !p->gone; i++)
		rig_step(p->rig);
	assert_true(p->gone);
	rig_settle(p->rig);
}

static inline void peer_close(struct peer *p)
{
	if (p->c)
		assert_int_equal(transport_disconnect(p->c, false), 0);
	peer_expect_closed(p);
	free(p->payload);
	free(p);
}

#endif
