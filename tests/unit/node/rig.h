/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the node's tests share: a node on anonymous memory with a clock that only a test moves, and
 * peers that speak the raw wire over loop, so that they can also speak it wrongly. Everything runs
 * in one thread: a peer that waits for something steps the node until it is there.
 */
#ifndef LARDER_TESTS_NODE_RIG_H
#define LARDER_TESTS_NODE_RIG_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
	struct transport *client;	/* all peers live on it */
	struct larder_node_stats before;
	uint64_t now_ns;
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

static inline uint64_t rig_now(void *user)
{
	return ((struct rig *)user)->now_ns;
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

/* One turn of everything. Returns what was done. */
static inline int rig_step(struct rig *r)
{
	int n = 0;

	for (uint32_t i = 0; i < r->config.reactors; i++) {
		int k = larder_node_step(r->node, i);

		assert_true(k >= 0);
		n += k;
	}
	return n + rig_poll_client(r);
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
	assert_true(e == 0 || e == -EOPNOTSUPP);	/* the answer to an operation that is none */
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

/* --- messages ------------------------------------------------------------------------------- */

struct draft {
	struct wire_writer w;
	uint8_t buffer[WIRE_MESSAGE_MAX];
	uint32_t length;
};

static inline void draft_begin(struct draft *d)
{
	wire_begin(&d->w, d->buffer, sizeof(d->buffer));
}

static inline void draft_finish(struct draft *d, struct peer *p, uint8_t op, uint64_t payload)
{
	int n = wire_finish(&d->w, op, 0, 0, p->next_id++, (uint32_t)payload);

	assert_true(n > 0);
	d->length = (uint32_t)n;
}

static inline void draft_struct(struct draft *d, struct peer *p, uint8_t op, const void *body,
				uint32_t len)
{
	draft_begin(d);
	wire_append(&d->w, body, len);
	draft_finish(d, p, op, 0);
}

static inline void peer_request(struct peer *p, uint8_t op, const void *body, uint32_t len)
{
	struct draft d;

	draft_struct(&d, p, op, body, len);
	peer_write(p, d.buffer, d.length);
}

struct hello_options {
	const char *tenant;
	const char *secret;
	uint8_t role;
	uint16_t version;
	uint32_t check_block;
	uint32_t keepalive_ms;
};

static inline void peer_hello(struct peer *p, const struct hello_options *o, struct draft *hello)
{
	struct wire_hello h = { .version_min = o->version ? o->version : WIRE_VERSION,
				.version_max = o->version ? o->version : WIRE_VERSION,
				.role = o->role,
				.check_block = o->check_block ? o->check_block : LARDER_CHECK_BLOCK,
				.keepalive_ms = o->keepalive_ms };

	if (o->tenant) {
		h.tenant_len = (uint8_t)strlen(o->tenant);
		memcpy(h.tenant, o->tenant, h.tenant_len);
	}
	memset(h.nonce, 0x5a, sizeof(h.nonce));
	draft_struct(hello, p, LARDER_OP_HELLO, &h, sizeof(h));
}

/* The whole handshake; the status of its last answer, -1 = closed. Checks the node's proof. */
static inline int peer_handshake(struct peer *p, const struct hello_options *o)
{
	struct draft hello, auth;
	uint8_t challenge[WIRE_HEADER_SIZE + sizeof(struct wire_challenge)];
	struct wire_auth a = { .mac = { 0 } };
	uint8_t expected[WIRE_MAC_SIZE];
	int status;

	peer_hello(p, o, &hello);
	peer_write(p, hello.buffer, hello.length);
	status = peer_status(p);
	if (status != LARDER_OK)
		return status;
	assert_int_equal(p->h.body_len, sizeof(struct wire_challenge));
	memcpy(challenge, &p->h, sizeof(p->h));
	memcpy(challenge + sizeof(p->h), p->message, p->h.body_len);
	struct iovec parts[3] = { { hello.buffer, hello.length }, { challenge, sizeof(challenge) } };

	if (o->secret)
		assert_int_equal(mac_compute(o->secret, strlen(o->secret), MAC_LABEL_CLIENT, parts,
					     2, a.mac), 0);
	draft_struct(&auth, p, LARDER_OP_AUTH, &a, sizeof(a));
	peer_write(p, auth.buffer, auth.length);
	status = peer_status(p);
	if (status != LARDER_OK)
		return status;
	p->welcome = p->reply.u.welcome;
	p->credits = p->welcome.credits;
	if (o->secret) {
		parts[2] = (struct iovec){ auth.buffer, auth.length };
		assert_int_equal(mac_compute(o->secret, strlen(o->secret), MAC_LABEL_NODE, parts, 3,
					     expected), 0);
		assert_int_equal(mac_equal(expected, p->welcome.mac), 1);
	}
	return LARDER_OK;
}

static inline struct peer *peer_login_as(struct rig *r, const char *tenant, const char *secret)
{
	struct peer *p = peer_connect(r);

	assert_int_equal(peer_handshake(p, &(struct hello_options){ .tenant = tenant,
								     .secret = secret }),
			 LARDER_OK);
	return p;
}

static inline struct peer *peer_login(struct rig *r)
{
	return peer_login_as(r, "demo", RIG_SECRET);
}

static inline int peer_ns(struct peer *p, uint8_t op, const char *name,
			  const struct larder_descriptor *desc, uint32_t *ret)
{
	struct wire_ns_open o = { .name_len = (uint16_t)strlen(name), .has_descriptor = desc != NULL };
	struct draft d;
	int status;

	if (desc)
		o.descriptor = *desc;
	draft_begin(&d);
	wire_append(&d.w, &o, sizeof(o));
	wire_append(&d.w, name, o.name_len);
	draft_finish(&d, p, op, 0);
	peer_write(p, d.buffer, d.length);
	status = peer_status(p);
	if (status == LARDER_OK && ret)
		*ret = p->reply.u.ns_opened.ns;
	return status;
}

static inline uint32_t peer_open_ns(struct peer *p)
{
	uint32_t ns = UINT32_MAX;

	assert_int_equal(peer_ns(p, LARDER_OP_NS_CREATE, "m", NULL, &ns), LARDER_OK);
	return ns;
}

/* Bytes that belong to a key: any difference shows. */
static inline uint8_t *value_make(const char *key, size_t len)
{
	uint8_t *v = malloc(len ? len : 1);
	struct prng g;

	assert_non_null(v);
	prng_seed(&g, key_hash64(key, strlen(key)));
	for (size_t i = 0; i < len; i++)
		v[i] = (uint8_t)prng_next(&g);
	return v;
}

static inline void value_checks(const uint8_t *v, size_t len, uint32_t *checks)
{
	for (size_t at = 0; at < len; at += LARDER_CHECK_BLOCK)
		*checks++ = crc32c(0, v + at, MIN(len - at, (size_t)LARDER_CHECK_BLOCK));
}

struct put_options {
	uint32_t ns;
	uint32_t flags;
	uint32_t deadline_ms;
	const char *key;
	const uint8_t *value;
	size_t length;
	bool bad_check;
};

/* The message of a PUT whose payload follows. */
static inline void draft_put(struct draft *d, struct peer *p, const struct put_options *o)
{
	uint32_t checks[64];
	struct wire_put w = {
		.c = { .ns = o->ns, .flags = o->flags, .deadline_ms = o->deadline_ms },
		.length = o->length,
		.digest = key_digest(0, o->key, strlen(o->key)),
		.n_checks = larder_check_count(o->length),
		.key_len = (uint16_t)strlen(o->key),
	};

	assert_true(w.n_checks <= ARRAY_SIZE(checks));
	value_checks(o->value, o->length, checks);
	if (o->bad_check)
		checks[w.n_checks - 1] ^= 1;
	draft_begin(d);
	wire_append(&d->w, &w, sizeof(w));
	wire_append(&d->w, checks, w.n_checks * 4);
	wire_append(&d->w, o->key, w.key_len);
	draft_finish(d, p, LARDER_OP_PUT, o->length);
}

static inline int peer_put(struct peer *p, const struct put_options *o)
{
	struct draft d;

	draft_put(&d, p, o);
	peer_send_raw(p, d.buffer, d.length);
	peer_write(p, o->value, o->length);
	return peer_status(p);
}

static inline int peer_put_key(struct peer *p, uint32_t ns, const char *key, size_t len)
{
	_cleanup_free_ uint8_t *v = value_make(key, len);

	return peer_put(p, &(struct put_options){ .ns = ns, .key = key, .value = v, .length = len });
}

static inline void draft_get(struct draft *d, struct peer *p, uint32_t ns, uint32_t flags,
			     const char *key, uint64_t offset, uint64_t length, uint64_t room)
{
	const struct wire_get g = { .c = { .ns = ns, .flags = flags }, .offset = offset,
				    .length = length, .room = room,
				    .key_len = (uint16_t)strlen(key) };

	draft_begin(d);
	wire_append(&d->w, &g, sizeof(g));
	wire_append(&d->w, key, g.key_len);
	draft_finish(d, p, LARDER_OP_GET, 0);
}

static inline void peer_send_get(struct peer *p, uint32_t ns, uint32_t flags, const char *key,
				 uint64_t offset, uint64_t length, uint64_t room)
{
	struct draft d;

	draft_get(&d, p, ns, flags, key, offset, length, room);
	peer_write(p, d.buffer, d.length);
}

static inline int peer_get(struct peer *p, uint32_t ns, const char *key, uint64_t room)
{
	peer_send_get(p, ns, LARDER_F_WHOLE, key, 0, 0, room);
	return peer_status(p);
}

/* The last reply was a GET of the whole of @key: every byte and every check is right. */
static inline void peer_check_value(struct peer *p, const char *key, size_t len)
{
	_cleanup_free_ uint8_t *v = value_make(key, len);
	const struct wire_got *g = &p->reply.u.got;
	uint32_t checks[64];

	assert_int_equal(g->size_bytes, len);
	assert_int_equal(g->length, len);
	assert_int_equal(p->h.payload_len, len);
	assert_int_equal(g->n_checks, larder_check_count(len));
	assert_int_equal(g->digest, key_digest(0, key, strlen(key)));
	assert_memory_equal(p->payload, v, len);
	value_checks(v, len, checks);
	for (uint32_t i = 0; i < g->n_checks; i++)
		assert_int_equal(wire_check_at(p->reply.checks, i), checks[i]);
}

static inline void draft_keys(struct draft *d, struct peer *p, uint8_t op, uint32_t ns,
			      uint32_t flags, uint64_t lease_id, uint32_t lease_ms,
			      const char *const *keys, uint32_t n)
{
	const struct wire_keys k = { .c = { .ns = ns, .flags = flags }, .lease_id = lease_id,
				     .lease_ms = lease_ms, .n_keys = n };

	draft_begin(d);
	wire_append(&d->w, &k, sizeof(k));
	for (uint32_t i = 0; i < n; i++)
		wire_append_key(&d->w, keys[i], (uint16_t)strlen(keys[i]));
	draft_finish(d, p, op, 0);
}

static inline int peer_keys(struct peer *p, uint8_t op, uint32_t ns, uint32_t flags,
			    uint64_t lease_id, uint32_t lease_ms, const char *const *keys, uint32_t n)
{
	struct draft d;

	draft_keys(&d, p, op, ns, flags, lease_id, lease_ms, keys, n);
	peer_write(p, d.buffer, d.length);
	return peer_status(p);
}

static inline struct wire_key_status peer_key_status(struct peer *p, uint32_t i)
{
	struct wire_key_status st;

	memcpy(&st, p->reply.tail + i * sizeof(st), sizeof(st));
	return st;
}

static inline int peer_ping(struct peer *p)
{
	const struct wire_ping ping = { .token = 0x1234567890abcdefull };
	int status;

	peer_request(p, LARDER_OP_PING, &ping, sizeof(ping));
	status = peer_status(p);
	if (status == LARDER_OK)
		assert_int_equal(p->reply.u.ping.token, ping.token);
	return status;
}

#endif
