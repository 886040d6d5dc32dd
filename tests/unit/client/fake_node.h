/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted node for tests of the client: speaks the wire over any transport, keeps values in a
 * list, and does wrong whatever a test asks for. Stepped together with the client by one thread, on
 * a clock that the test moves; or from a thread of its own.
 */
#ifndef TESTS_CLIENT_FAKE_NODE_H
#define TESTS_CLIENT_FAKE_NODE_H

#include "fake_ops.h"

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
		list_init(&c->out);
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
			list_remove(&((struct fake_out *)(uintptr_t)ev[i].cookie)->link);
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
		while (f->conns[i].tc && !list_empty(&f->conns[i].out))
			free(list_entry(list_pop_head(&f->conns[i].out), struct fake_out, link));
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
