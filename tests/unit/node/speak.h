/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What peers of the tests say: messages as drafts that a test may spoil before it sends them, the
 * handshake, and the operations, each with the status of its answer. Values are made from their
 * key, so that any wrong byte shows.
 */
#ifndef LARDER_TESTS_NODE_SPEAK_H
#define LARDER_TESTS_NODE_SPEAK_H

#include "rig.h"

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
	struct iovec parts[3] = { { hello.buffer, hello.length },
				  { challenge, sizeof(challenge) } };

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
	struct wire_ns_open o = { .name_len = (uint16_t)strlen(name),
				  .has_descriptor = desc != NULL };
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

	return peer_put(p, &(struct put_options){ .ns = ns, .key = key, .value = v,
						  .length = len });
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
			    uint64_t lease_id, uint32_t lease_ms, const char *const *keys,
			    uint32_t n)
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

/* Sends the message of a PUT and the first @part bytes of its value. */
static inline void put_partly(struct peer *p, uint32_t ns, const char *key, size_t len, size_t part,
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

static inline void put_rest(struct peer *p, const char *key, size_t len, size_t part)
{
	_cleanup_free_ uint8_t *v = value_make(key, len);

	peer_write(p, v + part, len - part);
}

#endif
