/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted node for tests of the client: speaks the wire over any transport, keeps values in a
 * list, and does wrong whatever a test asks for. Stepped together with the client by one thread, on
 * a clock that the test moves; or from a thread of its own.
 */
#ifndef TESTS_CLIENT_FAKE_NODE_H
#define TESTS_CLIENT_FAKE_NODE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <larder/client.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/prng.h"
#include "transport/loop.h"
#include "transport/transport.h"
#include "wire/mac.h"
#include "wire/wire.h"

#define FAKE_CONNS 16
#define FAKE_REGIONS 16
#define FAKE_NS 7u
#define FAKE_SECRET "a secret of the test"
#define FAKE_RX 16

struct fake_clock {
	uint64_t now_ns;
	uint64_t seed;
};

static inline uint64_t fake_now(void *user)
{
	return ((struct fake_clock *)user)->now_ns;
}

static inline int fake_random(void *user, void *out, size_t len)
{
	struct fake_clock *c = user;
	struct prng p;

	prng_seed(&p, c->seed++);
	for (size_t i = 0; i < len; i++)
		((uint8_t *)out)[i] = (uint8_t)prng_next(&p);
	return 0;
}

struct fake_object {
	struct list link;
	uint8_t key[LARDER_KEY_MAX];
	uint16_t key_len;
	uint8_t *data;
	uint64_t length;
	uint32_t *checks;
	uint64_t digest;
	uint64_t put;		/* not 0: begun and not committed */
};

struct fake_region {
	uint32_t number;
	struct transport_region *tr;
};

struct fake_conn {
	struct transport_conn *tc;	/* NULL: free */
	bool authed;
	uint8_t hello[WIRE_HEADER_SIZE + sizeof(struct wire_hello)];
	uint8_t challenge[WIRE_HEADER_SIZE + sizeof(struct wire_challenge)];
	struct wire_header header;
	uint8_t *body;
	uint8_t *payload;
	int stage;			/* stream: 0 header, 1 body, 2 payload */
	struct fake_region regions[FAKE_REGIONS];
	uint32_t requests, in_flight;
};

struct fake;
/* A reply that waits for the end of one-sided transfers. */
struct fake_move {
	struct list link;
	struct fake_conn *conn;
	uint32_t left;
	int status;
	uint8_t *data;			/* PUT: what is being read */
	struct wire_request request;
	uint8_t *body;
	struct fake_object *object;
};

struct fake {
	struct transport *t;
	struct fake_clock *clock;
	struct fake_conn conns[FAKE_CONNS];
	struct list objects;
	struct list moves;
	uint64_t puts;
	/* settings */
	const char *secret;
	uint32_t ns;			/* id of every namespace */
	uint32_t credits;
	uint32_t keepalive_ms;
	uint64_t max_value;
	struct larder_descriptor descriptor;
	bool mute;			/* takes requests, answers nothing */
	bool bad_mac;
	int refuse;			/* status that HELLO gets */
	bool corrupt_payload;		/* of GET, until a VERIFY comes */
	bool heal;			/* VERIFY answers NOT_FOUND and drops the object */
	bool wrong_digest;
	int busy;			/* PUTs that get BUSY first */
	/* called first for each request after the handshake; true = it did all */
	bool (*hook)(struct fake *f, struct fake_conn *c, const struct wire_request *r,
		     const uint8_t *payload);
	void *user;
	/* seen */
	uint32_t count[LARDER_OP_MAX];
	uint64_t cancelled;		/* request id of the last CANCEL */
	uint32_t handshakes;
	uint32_t last_flags;		/* of the last GET, PUT */
	uint64_t last_batch;
	uint32_t last_index[64];
	uint32_t n_index;
	bool saw_last;
};

static inline void fake_post(struct fake_conn *c, void *data, uint32_t len)
{
	struct transport_rx rx = { .data = data, .length = len };
	int r = transport_post_rx(c->tc, &rx, 1);

	assert_true(r == 0 || r == -ENOTCONN);
}

static inline bool fake_stream(const struct fake *f)
{
	return !(f->t->ops->caps & TRANSPORT_MESSAGE);
}

/* Copies and sends. */
static inline void fake_send(struct fake_conn *c, const void *message, size_t len,
			     const void *payload, size_t payload_len)
{
	uint8_t *copy = malloc(len + payload_len);
	struct iovec iov = { copy, len + payload_len };
	struct transport_tx tx = { .type = TRANSPORT_SEND, .niov = 1, .iov = &iov,
				   .cookie = (uintptr_t)copy, .gate = TRANSPORT_NO_GATE };

	assert_non_null(copy);
	memcpy(copy, message, len);
	if (payload_len)
		memcpy(copy + len, payload, payload_len);
	if (transport_tx(c->tc, &tx, 1) != 1)
		free(copy);
}

static inline void fake_reply(struct fake_conn *c, const struct wire_request *r, int status,
			      const void *body, size_t len, const void *tail, size_t tail_len,
			      const void *payload, size_t payload_len)
{
	uint8_t buffer[WIRE_MESSAGE_MAX];
	struct wire_writer w;
	int n;

	wire_begin(&w, buffer, sizeof(buffer));
	wire_append(&w, body, (uint32_t)len);
	wire_append(&w, tail, (uint32_t)tail_len);
	n = wire_finish(&w, r->header.op, WIRE_REPLY, (uint16_t)status, r->header.request_id,
			(uint32_t)payload_len);
	assert_true(n > 0);
	fake_send(c, buffer, (size_t)n, payload, payload_len);
}

static inline void fake_error(struct fake_conn *c, const struct wire_request *r, int status,
			      uint64_t detail, const char *text)
{
	uint8_t buffer[WIRE_MESSAGE_MAX];
	struct wire_writer w;
	int n;

	wire_begin(&w, buffer, sizeof(buffer));
	n = wire_write_error(&w, r->header.op, (uint16_t)status, r->header.request_id, detail,
			     text);
	assert_true(n > 0);
	fake_send(c, buffer, (size_t)n, NULL, 0);
}

/* --- store ------------------------------------------------------------------------------------ */

static inline struct fake_object *fake_find(struct fake *f, const void *key, size_t len)
{
	list_for_each(it, &f->objects) {
		struct fake_object *o = list_entry(it, struct fake_object, link);

		if (!o->put && o->key_len == len && !memcmp(o->key, key, len))
			return o;
	}
	return NULL;
}

static inline struct fake_object *fake_new(struct fake *f, const void *key, size_t key_len,
					   uint64_t length)
{
	struct fake_object *o = calloc(1, sizeof(*o));

	assert_non_null(o);
	memcpy(o->key, key, key_len);
	o->key_len = (uint16_t)key_len;
	o->length = length;
	o->data = malloc(length);
	o->checks = calloc(larder_check_count(length), sizeof(uint32_t));
	assert_non_null(o->data);
	assert_non_null(o->checks);
	list_push_tail(&f->objects, &o->link);
	return o;
}

/* As if somebody had put it. */
static inline struct fake_object *fake_put(struct fake *f, const char *key, const void *data,
					   uint64_t length)
{
	struct fake_object *o = fake_new(f, key, strlen(key), length);
	struct check_stream s;

	memcpy(o->data, data, length);
	check_stream_init(&s, length, o->checks);
	check_stream_feed(&s, o->data, length);
	o->digest = key_digest(larder_descriptor_digest(&f->descriptor), key, strlen(key));
	return o;
}

static inline void fake_drop(struct fake_object *o)
{
	list_remove(&o->link);
	free(o->data);
	free(o->checks);
	free(o);
}

/* --- operations ------------------------------------------------------------------------------- */

static inline int fake_mac(struct fake *f, const char *label, struct fake_conn *c,
			   const void *auth, size_t auth_len, uint8_t mac[WIRE_MAC_SIZE])
{
	struct iovec parts[3] = { { c->hello, sizeof(c->hello) },
				  { c->challenge, sizeof(c->challenge) },
				  { (void *)auth, auth_len } };

	return mac_compute(f->secret, strlen(f->secret), label, parts, auth ? 3 : 2, mac);
}

static inline void fake_hello(struct fake *f, struct fake_conn *c, const struct wire_request *r,
			      const void *body)
{
	struct wire_challenge ch = { .version = WIRE_VERSION };
	struct wire_writer w;

	if (f->refuse) {
		fake_error(c, r, f->refuse, 0, "the fake refuses");
		return;
	}
	memcpy(c->hello, &r->header, WIRE_HEADER_SIZE);
	memcpy(c->hello + WIRE_HEADER_SIZE, body, sizeof(struct wire_hello));
	memset(ch.nonce, 0x5a, sizeof(ch.nonce));
	wire_begin(&w, c->challenge, sizeof(c->challenge));
	wire_append(&w, &ch, sizeof(ch));
	assert_int_equal(wire_finish(&w, LARDER_OP_HELLO, WIRE_REPLY, 0, r->header.request_id, 0),
			 sizeof(c->challenge));
	fake_send(c, c->challenge, sizeof(c->challenge), NULL, 0);
}

static inline void fake_auth(struct fake *f, struct fake_conn *c, const struct wire_request *r,
			     const void *body)
{
	struct wire_welcome wl = {
		.max_value_bytes = f->max_value,
		.max_message = WIRE_MESSAGE_MAX,
		.credits = f->credits,
		.page_size = 65536,
		.check_block = LARDER_CHECK_BLOCK,
		.keepalive_ms = f->keepalive_ms,
		.lease_max_ms = 60000,
		.capabilities = f->t->ops->caps & TRANSPORT_ONE_SIDED ? WIRE_CAP_ONE_SIDED : 0,
	};
	uint8_t mac[WIRE_MAC_SIZE], auth[WIRE_HEADER_SIZE + sizeof(struct wire_auth)];

	assert_int_equal(fake_mac(f, MAC_LABEL_CLIENT, c, NULL, 0, mac), 0);
	if (!mac_equal(mac, r->u.auth.mac)) {
		fake_error(c, r, LARDER_DENIED, 0, "wrong secret");
		return;
	}
	memcpy(auth, &r->header, WIRE_HEADER_SIZE);
	memcpy(auth + WIRE_HEADER_SIZE, body, sizeof(struct wire_auth));
	assert_int_equal(fake_mac(f, MAC_LABEL_NODE, c, auth, sizeof(auth), wl.mac), 0);
	wl.mac[3] ^= f->bad_mac;
	c->authed = true;
	f->handshakes++;
	fake_reply(c, r, LARDER_OK, &wl, sizeof(wl), NULL, 0, NULL, 0);
}

static inline struct transport_region *fake_region(struct fake_conn *c, uint32_t number)
{
	for (int i = 0; i < FAKE_REGIONS; i++) {
		if (c->regions[i].tr && c->regions[i].number == number)
			return c->regions[i].tr;
	}
	return NULL;
}

static inline void fake_region_add(struct fake *f, struct fake_conn *c,
				   const struct wire_request *r)
{
	struct transport_region *tr;
	int k = f->t->ops->region_import(c->tc, r->tail, r->tail_len, r->u.region_add.size_bytes,
					 &tr);

	if (k < 0) {
		fake_error(c, r, LARDER_QUOTA, 0, "no such region");
		return;
	}
	for (int i = 0; i < FAKE_REGIONS; i++) {
		if (c->regions[i].tr)
			continue;
		c->regions[i] = (struct fake_region){ r->u.region_add.region, tr };
		fake_reply(c, r, LARDER_OK, "\0\0\0\0\0\0\0", 8, NULL, 0, NULL, 0);
		return;
	}
	fail_msg("too many regions");
}

static inline void fake_region_del(struct fake *f, struct fake_conn *c,
				   const struct wire_request *r)
{
	for (int i = 0; i < FAKE_REGIONS; i++) {
		if (!c->regions[i].tr || c->regions[i].number != r->u.region_del.region)
			continue;
		assert_int_equal(f->t->ops->region_del(c->regions[i].tr), 0);
		c->regions[i].tr = NULL;
	}
	fake_reply(c, r, LARDER_OK, "\0\0\0\0\0\0\0", 8, NULL, 0, NULL, 0);
}

/* One-sided: moves @data to or from the request's segments; the reply follows at the end. */
static inline void fake_start_move(struct fake *f, struct fake_conn *c,
				   const struct wire_request *r, const void *body,
				   struct fake_object *o, uint8_t *data, uint64_t len, bool write)
{
	struct fake_move *m = calloc(1, sizeof(*m));
	uint32_t gate = write ? r->u.get.gate : r->header.op == LARDER_OP_PUT ? r->u.put.gate
									       : r->u.put_part.gate;

	assert_non_null(m);
	m->conn = c;
	m->request = *r;
	m->body = malloc(r->header.body_len);
	assert_non_null(m->body);
	memcpy(m->body, body, r->header.body_len);
	m->request.tail = m->body + (r->tail - (const uint8_t *)body);
	if (r->checks)
		m->request.checks = m->body + (r->checks - (const uint8_t *)body);
	m->object = o;
	m->data = write ? NULL : data;
	list_push_tail(&f->moves, &m->link);
	for (uint32_t i = 0; i < r->n_segs && len; i++) {
		struct wire_seg seg = wire_seg_at(r, i);
		struct iovec iov = { data, MIN((uint64_t)seg.length, len) };
		struct transport_tx tx = { .type = write ? TRANSPORT_WRITE : TRANSPORT_READ,
					   .niov = 1, .iov = &iov, .gate = gate,
					   .cookie = (uintptr_t)m | 1,
					   .region = fake_region(c, seg.region),
					   .offset = seg.offset };

		assert_non_null(tx.region);
		assert_int_equal(transport_tx(c->tc, &tx, 1), 1);
		m->left++;
		data += iov.iov_len;
		len -= iov.iov_len;
	}
}

static inline void fake_got(struct fake *f, struct fake_conn *c, const struct wire_request *r,
			    struct fake_object *o, bool inline_payload)
{
	uint64_t length = o->length > r->u.get.offset ? o->length - r->u.get.offset : 0;
	struct wire_got got = { .size_bytes = o->length, .offset = r->u.get.offset,
				.digest = o->digest ^ f->wrong_digest };
	uint8_t *copy = NULL;

	got.length = MIN(length, r->u.get.length);
	got.first_check = (uint32_t)(got.offset / LARDER_CHECK_BLOCK);
	if (!(r->u.get.c.flags & LARDER_F_NO_CHECKS))
		got.n_checks = larder_check_count(got.length);
	if (inline_payload && got.length) {
		copy = malloc(got.length);
		assert_non_null(copy);
		memcpy(copy, o->data + got.offset, got.length);
		if (f->corrupt_payload)
			copy[got.length / 2] ^= 1;
	}
	fake_reply(c, r, LARDER_OK, &got, sizeof(got), o->checks + got.first_check,
		   got.n_checks * sizeof(uint32_t), copy, inline_payload ? got.length : 0);
	free(copy);
}

static inline void fake_get(struct fake *f, struct fake_conn *c, const struct wire_request *r,
			    const void *body)
{
	struct fake_object *o = fake_find(f, r->tail, r->tail_len);

	f->last_flags = r->u.get.c.flags;
	if (o && (r->u.get.c.flags & LARDER_F_VERIFY)) {
		f->corrupt_payload = f->corrupt_payload && !f->heal;
		if (f->heal) {
			fake_drop(o);
			o = NULL;
		}
	}
	if (!o) {
		fake_error(c, r, LARDER_NOT_FOUND, 0, "no such object");
		return;
	}
	if ((r->u.get.c.flags & LARDER_F_WHOLE) && o->length > r->u.get.room) {
		fake_error(c, r, LARDER_TOO_SMALL, o->length, "too small");
		return;
	}
	if (r->u.get.offset > o->length) {
		fake_error(c, r, LARDER_BAD_REQUEST, 0, "behind the end");
		return;
	}
	if (r->n_segs)
		fake_start_move(f, c, r, body, o, o->data + r->u.get.offset,
				MIN(o->length - r->u.get.offset, r->u.get.length), true);
	else
		fake_got(f, c, r, o, true);
}

static inline void fake_put_done(struct fake *f, struct fake_conn *c,
				 const struct wire_request *r, const uint8_t *data)
{
	struct fake_object *o = fake_find(f, r->tail, r->tail_len);
	struct wire_put_done done = { .size_bytes = r->u.put.length, .commit_time_ms = 1 };
	int status = LARDER_OK;

	if (f->busy > 0) {
		f->busy--;
		fake_error(c, r, LARDER_BUSY, 0, "another writer failed");
		return;
	}
	if (o) {
		status = o->length == r->u.put.length &&
			 !memcmp(o->checks, r->checks, r->n_checks * 4) ? LARDER_EXISTS_SAME
									: LARDER_CONFLICT;
	} else {
		o = fake_new(f, r->tail, r->tail_len, r->u.put.length);
		memcpy(o->data, data, o->length);
		memcpy(o->checks, r->checks, r->n_checks * 4);
		o->digest = r->u.put.digest;
	}
	if (status == LARDER_CONFLICT)
		fake_error(c, r, status, 0, NULL);
	else
		fake_reply(c, r, status, &done, sizeof(done), NULL, 0, NULL, 0);
}

static inline struct fake_object *fake_begun(struct fake *f, uint64_t put)
{
	list_for_each(it, &f->objects) {
		struct fake_object *o = list_entry(it, struct fake_object, link);

		if (o->put == put)
			return o;
	}
	return NULL;
}

static inline void fake_put_stream(struct fake *f, struct fake_conn *c,
				   const struct wire_request *r, const void *body,
				   const uint8_t *payload)
{
	struct wire_put_begun begun = { 0 };
	struct wire_put_done done = { 0 };
	struct fake_object *o;

	switch (r->header.op) {
	case LARDER_OP_PUT_BEGIN:
		o = fake_new(f, r->tail, r->tail_len, r->u.put.length);
		o->digest = r->u.put.digest;
		o->put = begun.put = ++f->puts;
		fake_reply(c, r, LARDER_OK, &begun, sizeof(begun), NULL, 0, NULL, 0);
		return;
	case LARDER_OP_PUT_PART:
		o = fake_begun(f, r->u.put_part.put);
		assert_non_null(o);
		assert_true(r->u.put_part.offset + r->u.put_part.length <= o->length);
		if (r->n_segs) {
			fake_start_move(f, c, r, body, o, o->data + r->u.put_part.offset,
					r->u.put_part.length, false);
			return;
		}
		memcpy(o->data + r->u.put_part.offset, payload, r->u.put_part.length);
		fake_reply(c, r, LARDER_OK, "\0\0\0\0\0\0\0", 8, NULL, 0, NULL, 0);
		return;
	case LARDER_OP_PUT_COMMIT:
		o = fake_begun(f, r->u.put_commit.put);
		assert_non_null(o);
		assert_int_equal(r->n_checks, larder_check_count(o->length));
		memcpy(o->checks, r->checks, r->n_checks * 4);
		o->put = 0;
		done.size_bytes = o->length;
		fake_reply(c, r, LARDER_OK, &done, sizeof(done), NULL, 0, NULL, 0);
		return;
	default:
		o = fake_begun(f, r->u.put_abort.put);
		if (o)
			fake_drop(o);
		fake_reply(c, r, LARDER_OK, "\0\0\0\0\0\0\0", 8, NULL, 0, NULL, 0);
		return;
	}
}

static inline void fake_keys(struct fake *f, struct fake_conn *c, const struct wire_request *r)
{
	static struct larder_op_key keys[WIRE_KEYS_MAX];
	struct wire_key_status ks[WIRE_KEYS_MAX] = { 0 };
	static struct wire_stat st[WIRE_KEYS_MAX];
	int n = wire_keys_decode(r, keys, WIRE_KEYS_MAX);
	struct wire_keys_done done = { 0 };
	struct wire_stats_done sdone = { 0 };

	assert_true(n >= 0);
	done.n_keys = sdone.n_keys = (uint32_t)n;
	memset(st, 0, sizeof(st));
	for (int i = 0; i < n; i++) {
		struct fake_object *o = fake_find(f, keys[i].key, keys[i].key_len);

		ks[i].status = (uint8_t)(o ? LARDER_OK : LARDER_NOT_FOUND);
		ks[i].presence = (uint8_t)(o ? LARDER_PRESENT : LARDER_ABSENT);
		st[i].status = ks[i].status;
		st[i].stat.size_bytes = o ? o->length : 0;
		if (o && r->header.op == LARDER_OP_DELETE)
			fake_drop(o);
	}
	if (r->header.op == LARDER_OP_STAT)
		fake_reply(c, r, LARDER_OK, &sdone, sizeof(sdone), st,
			   (size_t)n * sizeof(st[0]), NULL, 0);
	else
		fake_reply(c, r, LARDER_OK, &done, sizeof(done), ks, (size_t)n * sizeof(ks[0]),
			   NULL, 0);
}

static inline void fake_list(struct fake *f, struct fake_conn *c, const struct wire_request *r)
{
	uint8_t tail[4096];
	struct wire_listed listed = { 0 };
	size_t used = 0;

	list_for_each(it, &f->objects) {
		struct fake_object *o = list_entry(it, struct fake_object, link);
		struct wire_list_entry e = { .stat.size_bytes = o->length,
					     .key_len = o->key_len };

		if (o->key_len < r->tail_len || memcmp(o->key, r->tail, r->tail_len) ||
		    used + sizeof(e) + o->key_len > sizeof(tail))
			continue;
		memcpy(tail + used, &e, sizeof(e));
		memcpy(tail + used + sizeof(e), o->key, o->key_len);
		used += sizeof(e) + o->key_len;
		listed.count++;
	}
	fake_reply(c, r, LARDER_OK, &listed, sizeof(listed), tail, used, NULL, 0);
}

static inline void fake_spaces(struct fake *f, struct fake_conn *c, const struct wire_request *r)
{
	struct wire_ns_opened opened = { .ns = f->ns, .descriptor = f->descriptor };
	struct wire_ns_listed listed = { .count = 1 };
	struct wire_ns_entry entry = { .ns = f->ns, .name_len = 5, .objects = 3 };
	struct wire_ns_flushed flushed = { .objects = 2, .bytes = 20 };
	const char *field;
	uint8_t tail[64];

	switch (r->header.op) {
	case LARDER_OP_NS_LIST:
		memcpy(tail, &entry, sizeof(entry));
		memcpy(tail + sizeof(entry), "space", 5);
		fake_reply(c, r, LARDER_OK, &listed, sizeof(listed), tail, sizeof(entry) + 5, NULL,
			   0);
		return;
	case LARDER_OP_NS_FLUSH:
		assert_int_equal(r->u.ns_flush.ns, f->ns);
		fake_reply(c, r, LARDER_OK, &flushed, sizeof(flushed), NULL, 0, NULL, 0);
		return;
	default:
		field = r->u.ns_open.has_descriptor
				? larder_descriptor_difference(&r->u.ns_open.descriptor,
							       &f->descriptor)
				: NULL;
		if (field)
			fake_error(c, r, LARDER_LAYOUT_MISMATCH, 0, field);
		else
			fake_reply(c, r, LARDER_OK, &opened, sizeof(opened), NULL, 0, NULL, 0);
		return;
	}
}

static inline void fake_request(struct fake *f, struct fake_conn *c, const struct wire_request *r,
				const void *body, const uint8_t *payload)
{
	f->count[r->header.op]++;
	c->requests++;
	if (r->header.op == LARDER_OP_HELLO) {
		fake_hello(f, c, r, body);
		return;
	}
	if (r->header.op == LARDER_OP_AUTH) {
		fake_auth(f, c, r, body);
		return;
	}
	assert_true(c->authed);
	if (f->hook && f->hook(f, c, r, payload))
		return;
	switch (r->header.op) {
	case LARDER_OP_PING:
		fake_reply(c, r, LARDER_OK, &r->u.ping, sizeof(r->u.ping), NULL, 0, NULL, 0);
		break;
	case LARDER_OP_CANCEL:
		f->cancelled = r->u.cancel.request_id;
		fake_reply(c, r, LARDER_OK, "\0\0\0\0\0\0\0", 8, NULL, 0, NULL, 0);
		break;
	case LARDER_OP_NS_CREATE:
	case LARDER_OP_NS_OPEN:
	case LARDER_OP_NS_LIST:
	case LARDER_OP_NS_FLUSH:
		fake_spaces(f, c, r);
		break;
	case LARDER_OP_REGION_ADD:
		fake_region_add(f, c, r);
		break;
	case LARDER_OP_REGION_DEL:
		fake_region_del(f, c, r);
		break;
	case LARDER_OP_PUT_BEGIN:
	case LARDER_OP_PUT_PART:
	case LARDER_OP_PUT_COMMIT:
	case LARDER_OP_PUT_ABORT:
		fake_put_stream(f, c, r, body, payload);
		break;
	case LARDER_OP_LIST:
		fake_list(f, c, r);
		break;
	case LARDER_OP_PUT:
	case LARDER_OP_GET:
		f->last_batch = r->u.common.batch;
		f->last_index[f->n_index++ % 64] = r->u.common.batch_index;
		f->saw_last = r->header.flags & WIRE_LAST;
		if (r->header.op == LARDER_OP_GET) {
			fake_get(f, c, r, body);
		} else if (r->n_segs) {
			uint8_t *data = malloc(r->u.put.length);

			assert_non_null(data);
			fake_start_move(f, c, r, body, NULL, data, r->u.put.length, false);
		} else {
			fake_put_done(f, c, r, payload);
		}
		break;
	default:
		fake_keys(f, c, r);
		break;
	}
}

/* --- events ----------------------------------------------------------------------------------- */

static inline void fake_decode(struct fake *f, struct fake_conn *c, const struct wire_header *h,
			       const void *body, const uint8_t *payload)
{
	struct wire_request r;

	assert_int_equal(wire_body_check(h, body), 0);
	assert_int_equal(wire_request_decode(h, body, &r), 0);
	if (f->mute && c->authed) {
		f->count[h->op]++;
		return;
	}
	fake_request(f, c, &r, body, payload);
}

static inline void fake_rx(struct fake *f, struct fake_conn *c, const struct transport_event *ev)
{
	if (ev->status < 0)
		return;
	if (!fake_stream(f)) {
		struct wire_header h;

		memcpy(&h, ev->data, sizeof(h));
		assert_int_equal(h.body_len, ev->length - WIRE_HEADER_SIZE);
		fake_decode(f, c, &h, (uint8_t *)ev->data + WIRE_HEADER_SIZE, NULL);
		fake_post(c, ev->data, WIRE_MESSAGE_MAX);
		return;
	}
	switch (c->stage) {
	case 0:
		assert_int_equal(wire_header_check(&c->header, WIRE_MESSAGE_MAX), 0);
		c->stage = 1;
		fake_post(c, c->body, c->header.body_len);
		return;
	case 1:
		if (c->header.payload_len) {
			c->payload = malloc(c->header.payload_len);
			assert_non_null(c->payload);
			c->stage = 2;
			fake_post(c, c->payload, c->header.payload_len);
			return;
		}
		break;
	default:
		break;
	}
	c->stage = 0;
	fake_decode(f, c, &c->header, c->body, c->payload);
	free(TAKE_PTR(c->payload));
	fake_post(c, &c->header, WIRE_HEADER_SIZE);
}

static inline void fake_up(struct fake *f, struct transport_conn *tc)
{
	for (int i = 0; i < FAKE_CONNS; i++) {
		struct fake_conn *c = &f->conns[i];

		if (c->tc)
			continue;
		memset(c, 0, sizeof(*c));
		c->tc = tc;
		tc->user = c;
		c->body = malloc((size_t)WIRE_MESSAGE_MAX * FAKE_RX);
		assert_non_null(c->body);
		if (fake_stream(f)) {
			fake_post(c, &c->header, WIRE_HEADER_SIZE);
			return;
		}
		for (int k = 0; k < FAKE_RX; k++)
			fake_post(c, c->body + k * WIRE_MESSAGE_MAX, WIRE_MESSAGE_MAX);
		return;
	}
	fail_msg("too many connections");
}

static inline void fake_moved(struct fake *f, struct fake_move *m, int status)
{
	const struct wire_request *r = &m->request;

	m->status = status < 0 ? status : m->status;
	if (--m->left)
		return;
	list_remove(&m->link);
	if (m->conn->tc && m->status == 0) {
		if (r->header.op == LARDER_OP_GET) {
			fake_got(f, m->conn, r, m->object, false);
		} else if (r->header.op == LARDER_OP_PUT) {
			fake_put_done(f, m->conn, r, m->data);
		} else {
			fake_reply(m->conn, r, LARDER_OK, "\0\0\0\0\0\0\0", 8, NULL, 0, NULL, 0);
		}
	} else if (m->conn->tc) {
		fake_error(m->conn, r, LARDER_CANCELLED, 0, NULL);
	}
	if (r->header.op == LARDER_OP_PUT)
		free(m->data);
	free(m->body);
	free(m);
}

static inline void fake_gone(struct fake *f, struct fake_conn *c)
{
	if (!c)
		return;
	for (int i = 0; i < FAKE_REGIONS; i++) {
		if (c->regions[i].tr)
			(void)f->t->ops->region_del(c->regions[i].tr);
	}
	free(c->body);
	free(c->payload);
	memset(c, 0, sizeof(*c));
}

static inline int fake_step(void *user)
{
	struct fake *f = user;
	struct transport_event ev[16];
	int n = transport_poll(f->t, ev, 16);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		struct fake_conn *c = ev[i].conn->user;

		switch (ev[i].type) {
		case TRANSPORT_CONN_UP:
			fake_up(f, ev[i].conn);
			break;
		case TRANSPORT_RX:
			fake_rx(f, c, &ev[i]);
			break;
		case TRANSPORT_TX_DONE:
			free((void *)(uintptr_t)ev[i].cookie);
			break;
		case TRANSPORT_READ_DONE:
		case TRANSPORT_WRITE_DONE:
			fake_moved(f, (void *)(uintptr_t)(ev[i].cookie & ~1ull), ev[i].status);
			break;
		case TRANSPORT_CONN_GONE:
			fake_gone(f, c);
			break;
		default:
			break;
		}
	}
	(void)transport_flush(f->t);
	return n;
}

/* --- set-up ----------------------------------------------------------------------------------- */

static inline void fake_open(struct fake *f, struct fake_clock *clock, const char *scheme,
			     const char *address)
{
	static struct clock c;
	struct transport_config config = { .clock = &c, .max_conns = FAKE_CONNS,
					   .max_region_bytes = 1ull << 32, .max_regions = 64,
					   .gates = 4096 };
	const struct transport_ops *ops = transport_find(scheme);

	memset(f, 0, sizeof(*f));
	c = clock_system;
	assert_non_null(ops);
	assert_int_equal(ops->open(&config, &f->t), 0);
	assert_int_equal(ops->listen(f->t, address), 0);
	list_init(&f->objects);
	list_init(&f->moves);
	f->clock = clock;
	f->secret = FAKE_SECRET;
	f->ns = FAKE_NS;
	f->credits = 32;
	f->keepalive_ms = 3000;
	f->max_value = 64ull << 20;
}

/* Everything that was under way is dropped, as when the process dies. */
static inline void fake_stop(struct fake *f)
{
	f->t->ops->close(f->t);
	f->t = NULL;
	for (int i = 0; i < FAKE_CONNS; i++) {
		free(f->conns[i].body);
		free(f->conns[i].payload);
		memset(&f->conns[i], 0, sizeof(f->conns[i]));
	}
	list_for_each_safe(it, &f->moves) {
		struct fake_move *m = list_entry(it, struct fake_move, link);

		list_remove(it);
		if (m->request.header.op == LARDER_OP_PUT)
			free(m->data);
		free(m->body);
		free(m);
	}
}

static inline void fake_restart(struct fake *f, const char *scheme, const char *address)
{
	static struct clock c;
	struct transport_config config = { .clock = &c, .max_conns = FAKE_CONNS,
					   .max_region_bytes = 1ull << 32, .max_regions = 64,
					   .gates = 4096 };
	const struct transport_ops *ops = transport_find(scheme);

	c = clock_system;
	assert_int_equal(ops->open(&config, &f->t), 0);
	assert_int_equal(ops->listen(f->t, address), 0);
}

static inline void fake_close(struct fake *f)
{
	if (f->t)
		fake_stop(f);
	list_for_each_safe(it, &f->objects)
		fake_drop(list_entry(it, struct fake_object, link));
}

/* --- client ----------------------------------------------------------------------------------- */

struct rig {
	struct fake_clock clock;
	struct fake fake;
	struct larder_client *c;
	uint64_t tick_ns;	/* by which each step of the world moves the clock */
	bool frozen;		/* the node is not stepped */
	uint32_t ns;
	uint32_t steps;
};

static inline int rig_step(void *user)
{
	struct rig *r = user;

	r->clock.now_ns += r->tick_ns;
	r->steps++;
	return r->frozen || !r->fake.t ? 0 : fake_step(&r->fake);
}

static inline struct larder_client_options rig_options(const char *url)
{
	struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;

	o.url = url;
	o.tenant = "demo";
	o.secret = FAKE_SECRET;
	o.secret_len = strlen(FAKE_SECRET);
	return o;
}

static inline void rig_client(struct rig *r, const struct larder_client_options *o)
{
	struct larder_environment env = { .monotonic_ns = fake_now, .random_bytes = fake_random,
					  .user = &r->clock };

	assert_int_equal(larder_open_stepped(o, &env, rig_step, r, &r->c), 0);
}

static inline void rig_turn(struct rig *r, uint32_t n)
{
	while (n--) {
		(void)larder_step(r->c);
		(void)rig_step(r);
	}
}

/* Over loop, with a namespace open. */
static inline void rig_open(struct rig *r, const char *name)
{
	struct larder_client_options o;
	char url[64];

	memset(r, 0, sizeof(*r));
	r->clock.now_ns = 1000 * NSEC_PER_SEC;
	r->clock.seed = 1;
	r->tick_ns = 20 * NSEC_PER_USEC;
	fake_open(&r->fake, &r->clock, "loop", name);
	snprintf(url, sizeof(url), "loop://%s", name);
	o = rig_options(url);
	rig_client(r, &o);
	assert_int_equal(larder_ns_open(r->c, "space", NULL, LARDER_NS_CREATE, 1000, &r->ns), 0);
}

static inline void rig_close(struct rig *r)
{
	larder_close(r->c);
	fake_close(&r->fake);
}

static inline void rig_fill(uint8_t *data, size_t len, uint64_t seed)
{
	struct prng p;

	prng_seed(&p, seed);
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)prng_next(&p);
}

#endif
