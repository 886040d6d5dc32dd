/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted node's structs, its store, and how it sends. See fake_node.h. */
#ifndef TESTS_CLIENT_FAKE_BASE_H
#define TESTS_CLIENT_FAKE_BASE_H

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
	uint32_t requests;
	struct list out;
};

struct fake;
/* A message on its way out. */
struct fake_out {
	struct list link;
	uint8_t bytes[];
};

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
	bool promised;			/* somebody else has every fill lease */
	/* called first for each request after the handshake; true = it did all */
	bool (*hook)(struct fake *f, struct fake_conn *c, const struct wire_request *r,
		     const uint8_t *payload);
	void *user;
	/* seen */
	uint32_t count[LARDER_OP_MAX];
	uint64_t cancelled;		/* request id of the last CANCEL */
	uint32_t n_fill;		/* requests with FILL */
	uint32_t handshakes;
	uint32_t last_flags;		/* of the last GET, or list of keys */
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
	struct fake_out *o = malloc(sizeof(*o) + len + payload_len);
	struct iovec iov = { NULL, len + payload_len };
	struct transport_tx tx = { .type = TRANSPORT_SEND, .niov = 1, .iov = &iov,
				   .cookie = (uintptr_t)o, .gate = TRANSPORT_NO_GATE };

	assert_non_null(o);
	iov.iov_base = o->bytes;
	memcpy(o->bytes, message, len);
	if (payload_len)
		memcpy(o->bytes + len, payload, payload_len);
	if (transport_tx(c->tc, &tx, 1) == 1)
		list_push_tail(&c->out, &o->link);
	else
		free(o);
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

#endif
