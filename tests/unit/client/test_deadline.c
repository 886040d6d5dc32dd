/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines and cancels over a byte stream. The promise: a call ends on time, and after its end no
 * byte of the caller's buffer changes, whatever still arrives.
 */
#include "fake_node.h"

#define VALUE_LEN (1024u * 1024u)

/* The node answers a GET with its header and half of the value, and the rest when told. */
struct half {
	struct fake_conn *conn;
	uint8_t *rest;
	size_t rest_len;
};

static bool half_get(struct fake *f, struct fake_conn *c, const struct wire_request *r,
		     const uint8_t *payload)
{
	struct half *h = f->user;
	struct fake_object *o = list_entry(f->objects.next, struct fake_object, link);
	struct wire_got got = { .size_bytes = o->length, .length = o->length,
				.digest = o->digest, .n_checks = larder_check_count(o->length) };
	uint8_t buffer[WIRE_MESSAGE_MAX];
	struct wire_writer w;
	int n;

	if (r->header.op != LARDER_OP_GET || h->rest)
		return false;
	wire_begin(&w, buffer, sizeof(buffer));
	wire_append(&w, &got, sizeof(got));
	wire_append(&w, o->checks, got.n_checks * 4);
	n = wire_finish(&w, LARDER_OP_GET, WIRE_REPLY, 0, r->header.request_id,
			(uint32_t)o->length);
	assert_true(n > 0);
	fake_send(c, buffer, (size_t)n, o->data, o->length / 2);
	h->conn = c;
	h->rest = o->data + o->length / 2;
	h->rest_len = o->length - o->length / 2;
	return true;
}

static void get__deadline_while_it_arrives(void **state)
{
	struct rig r;
	struct half half = { 0 };
	uint8_t *v = malloc(VALUE_LEN), *buffer = calloc(1, VALUE_LEN), *seen = malloc(VALUE_LEN);
	uint64_t before;
	size_t len;

	assert_non_null(v);
	assert_non_null(buffer);
	assert_non_null(seen);
	rig_fill(v, VALUE_LEN, 1);
	rig_open(&r, "deadline");
	(void)fake_put(&r.fake, "v", v, VALUE_LEN);
	r.fake.hook = half_get;
	r.fake.user = &half;
	before = r.clock.now_ns;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, VALUE_LEN, &len, 100),
			 LARDER_DEADLINE);
	assert_in_range(r.clock.now_ns - before, 100 * NSEC_PER_MSEC, 160 * NSEC_PER_MSEC);
	/* some of it had come ... */
	assert_memory_equal(buffer, v, 1000);
	memcpy(seen, buffer, VALUE_LEN);
	/* ... and what comes now goes elsewhere, on the same connection */
	fake_send(half.conn, half.rest, half.rest_len, NULL, 0);
	rig_turn(&r, 100);
	assert_memory_equal(buffer, seen, VALUE_LEN);
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, VALUE_LEN, &len, 1000), LARDER_OK);
	assert_memory_equal(buffer, v, VALUE_LEN);
	assert_int_equal(r.fake.handshakes, 1);
	rig_close(&r);
	free(v);
	free(buffer);
	free(seen);
}

static void get__rest_in_the_grace(void **state)
{
	struct rig r;
	struct half half = { 0 };
	uint8_t *v = malloc(VALUE_LEN), *buffer = calloc(1, VALUE_LEN);
	struct iovec iov = { buffer, VALUE_LEN };
	struct larder_item item = { .key = "v", .key_len = 1, .iov = &iov, .iovcnt = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_GET, .items = &item, .n_items = 1,
				  .deadline_ms = 100 };
	struct larder_batch *back;

	assert_non_null(v);
	assert_non_null(buffer);
	rig_fill(v, VALUE_LEN, 1);
	rig_open(&r, "deadline");
	b.ns = r.ns;
	(void)fake_put(&r.fake, "v", v, VALUE_LEN);
	r.fake.hook = half_get;
	r.fake.user = &half;
	assert_int_equal(larder_submit(r.c, &b), 0);
	rig_turn(&r, 60);
	r.clock.now_ns += 110 * NSEC_PER_MSEC;
	rig_turn(&r, 5);
	assert_int_equal(item.status, -1);
	fake_send(half.conn, half.rest, half.rest_len, NULL, 0);
	rig_turn(&r, 100);
	assert_int_equal(larder_poll(r.c, &back, 1), 1);
	assert_int_equal(item.status, LARDER_OK);
	assert_memory_equal(buffer, v, VALUE_LEN);
	rig_close(&r);
	free(v);
	free(buffer);
}

/* Keeps the first request of a kind and answers it when told. */
struct late {
	uint8_t op;
	struct fake_conn *conn;
	struct wire_request request;
	uint8_t *tail;
};

static bool late_one(struct fake *f, struct fake_conn *c, const struct wire_request *r,
		     const uint8_t *payload)
{
	struct late *l = f->user;

	if (r->header.op != l->op || l->conn)
		return false;
	l->conn = c;
	l->request = *r;
	l->tail = malloc(r->tail_len);
	assert_non_null(l->tail);
	memcpy(l->tail, r->tail, r->tail_len);
	l->request.tail = l->tail;
	return true;
}

static void get__reply_after_the_end(void **state)
{
	struct rig r;
	struct late late = { .op = LARDER_OP_GET };
	uint8_t buffer[64], zero[64] = { 0 };
	size_t len = 0;

	rig_open(&r, "deadline");
	memset(buffer, 0, sizeof(buffer));
	(void)fake_put(&r.fake, "v", "0123456789", 10);
	r.fake.hook = late_one;
	r.fake.user = &late;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, 64, &len, 100), LARDER_DEADLINE);
	/* it was asked to let go */
	assert_int_equal(r.fake.count[LARDER_OP_CANCEL], 1);
	assert_int_equal(r.fake.cancelled, late.request.header.request_id);
	fake_get(&r.fake, late.conn, &late.request, NULL);
	rig_turn(&r, 20);
	assert_memory_equal(buffer, zero, sizeof(zero));
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, 64, &len, 100), LARDER_OK);
	assert_int_equal(len, 10);
	free(late.tail);
	rig_close(&r);
}

static void get__cancelled_by_the_node(void **state)
{
	struct rig r;
	struct late late = { .op = LARDER_OP_GET };
	struct iovec iov;
	uint8_t buffer[64];
	struct larder_item item = { .key = "v", .key_len = 1, .iov = &iov, .iovcnt = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_GET, .items = &item, .n_items = 1,
				  .deadline_ms = 10000 };
	struct larder_batch *back;

	rig_open(&r, "deadline");
	iov = (struct iovec){ buffer, sizeof(buffer) };
	b.ns = r.ns;
	r.fake.hook = late_one;
	r.fake.user = &late;
	assert_int_equal(larder_submit(r.c, &b), 0);
	rig_turn(&r, 20);
	assert_int_equal(larder_cancel(r.c, &b), 0);
	rig_turn(&r, 20);
	assert_int_equal(r.fake.cancelled, late.request.header.request_id);
	fake_error(late.conn, &late.request, LARDER_CANCELLED, 0, NULL);
	rig_turn(&r, 20);
	assert_int_equal(larder_poll(r.c, &back, 1), 1);
	assert_int_equal(item.status, LARDER_CANCELLED);
	free(late.tail);
	rig_close(&r);
}

static void slots__are_kept_until_the_late_replies(void **state)
{
	enum { N = 8 };
	struct rig r;
	struct larder_item items[N];
	struct larder_batch b[N];
	struct larder_batch *back[N];

	memset(items, 0, sizeof(items));
	memset(b, 0, sizeof(b));
	rig_open(&r, "deadline");
	larder_close(r.c);
	r.fake.credits = 4;
	{
		struct larder_client_options o = rig_options("loop://deadline");

		o.fail_fast_after = 1000;
		rig_client(&r, &o);
	}
	assert_int_equal(larder_ns_open(r.c, "space", NULL, 0, 1000, &r.ns), LARDER_OK);
	r.fake.mute = true;
	for (int i = 0; i < N; i++) {
		items[i].key = "k";
		items[i].key_len = 1;
		b[i] = (struct larder_batch){ .opcode = LARDER_OP_EXISTS, .ns = r.ns,
					      .items = &items[i], .n_items = 1,
					      .deadline_ms = 100 };
		assert_int_equal(larder_submit(r.c, &b[i]), 0);
	}
	rig_turn(&r, 20);
	/* four went out, four wait; all end on time */
	assert_int_equal(r.fake.count[LARDER_OP_EXISTS], 4);
	r.clock.now_ns += 101 * NSEC_PER_MSEC;
	rig_turn(&r, 5);
	assert_int_equal(larder_poll(r.c, back, N), 4);
	r.clock.now_ns += 51 * NSEC_PER_MSEC;
	rig_turn(&r, 5);
	assert_int_equal(larder_poll(r.c, back, N), 4);
	for (int i = 0; i < N; i++)
		assert_int_equal(items[i].status, LARDER_DEADLINE);
	/* no credit is left: nothing more is sent to this node */
	assert_int_equal(larder_exists(r.c, r.ns, "k", 1, 50), LARDER_DEADLINE);
	assert_int_equal(r.fake.count[LARDER_OP_EXISTS], 4);
	rig_close(&r);
}

static void put__cut_midway(void **state)
{
	struct rig r;
	uint8_t *v = malloc(VALUE_LEN);
	uint64_t before;

	assert_non_null(v);
	rig_fill(v, VALUE_LEN, 1);
	rig_open(&r, "deadline");
	/* the ring takes 256 KiB and then the node sleeps */
	r.frozen = true;
	before = r.clock.now_ns;
	assert_int_equal(larder_put(r.c, r.ns, "v", 1, v, VALUE_LEN, 100), LARDER_DEADLINE);
	assert_in_range(r.clock.now_ns - before, 100 * NSEC_PER_MSEC, 160 * NSEC_PER_MSEC);
	/* the memory is ours: the node must never see what is in it now */
	memset(v, 0, VALUE_LEN);
	r.frozen = false;
	rig_turn(&r, 100);
	assert_true(list_empty(&r.fake.objects));
	assert_int_equal(larder_put(r.c, r.ns, "v", 1, v, VALUE_LEN, 1000), LARDER_OK);
	assert_int_equal(r.fake.handshakes, 2);
	rig_close(&r);
	free(v);
}

static void put__never_started(void **state)
{
	struct rig r;
	uint8_t *v = malloc(VALUE_LEN);
	struct iovec iov[2];
	struct larder_item item[2];
	struct larder_batch b[2], *back[2];

	assert_non_null(v);
	rig_fill(v, VALUE_LEN, 1);
	rig_open(&r, "deadline");
	memset(item, 0, sizeof(item));
	for (int i = 0; i < 2; i++) {
		iov[i] = (struct iovec){ v, VALUE_LEN };
		item[i] = (struct larder_item){ .key = i ? "b" : "a", .key_len = 1, .iov = &iov[i],
						.iovcnt = 1 };
		b[i] = (struct larder_batch){ .opcode = LARDER_OP_PUT, .ns = r.ns,
					      .items = &item[i], .n_items = 1,
					      .deadline_ms = i ? 100 : 5000 };
	}
	r.frozen = true;
	assert_int_equal(larder_submit(r.c, &b[0]), 0);
	assert_int_equal(larder_submit(r.c, &b[1]), 0);
	rig_turn(&r, 20);
	r.clock.now_ns += 101 * NSEC_PER_MSEC;
	rig_turn(&r, 20);
	/* not a byte of it had left: no grace, and the connection lives */
	assert_int_equal(item[1].status, LARDER_DEADLINE);
	r.frozen = false;
	rig_turn(&r, 300);
	assert_int_equal(larder_poll(r.c, back, 2), 2);
	assert_int_equal(item[0].status, LARDER_OK);
	assert_int_equal(r.fake.handshakes, 1);
	rig_close(&r);
	free(v);
}

static void batch__rest_ends_with_it(void **state)
{
	enum { N = 100 };
	struct rig r;
	static struct larder_item items[N];
	static struct iovec iov[N];
	static uint8_t buffers[N][16];
	struct larder_batch b = { .opcode = LARDER_OP_GET, .items = items, .n_items = N,
				  .deadline_ms = 50 };

	rig_open(&r, "deadline");
	for (int i = 0; i < N; i++) {
		iov[i] = (struct iovec){ buffers[i], 16 };
		items[i] = (struct larder_item){ .key = "k", .key_len = 1, .iov = &iov[i],
						 .iovcnt = 1 };
	}
	b.ns = r.ns;
	r.fake.mute = true;
	assert_int_equal(larder_run(r.c, &b), LARDER_DEADLINE);
	assert_int_equal(b.n_done, N);
	for (int i = 0; i < N; i++)
		assert_int_equal(items[i].status, LARDER_DEADLINE);
	rig_close(&r);
}

/* Each request carries what is left of its caller's time. */
static bool see_deadline(struct fake *f, struct fake_conn *c, const struct wire_request *r,
			 const uint8_t *payload)
{
	uint32_t *seen = f->user;

	if (r->header.op == LARDER_OP_GET && !seen[0]) {
		seen[0] = r->u.get.c.deadline_ms;
		f->clock->now_ns += 400 * NSEC_PER_MSEC;
		(void)loop_break(c->tc);
		return true;
	}
	if (r->header.op == LARDER_OP_GET)
		seen[1] = r->u.get.c.deadline_ms;
	return false;
}

static void retry__sends_less_time(void **state)
{
	struct rig r;
	uint32_t seen[2] = { 0 };
	uint8_t buffer[4];
	size_t len;

	rig_open(&r, "deadline");
	r.fake.hook = see_deadline;
	r.fake.user = seen;
	assert_int_equal(larder_get(r.c, r.ns, "v", 1, buffer, 4, &len, 1000), LARDER_NOT_FOUND);
	assert_in_range(seen[0], 990, 1000);
	assert_in_range(seen[1], 550, 600);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get__deadline_while_it_arrives),
		cmocka_unit_test(get__rest_in_the_grace),
		cmocka_unit_test(get__reply_after_the_end),
		cmocka_unit_test(get__cancelled_by_the_node),
		cmocka_unit_test(slots__are_kept_until_the_late_replies),
		cmocka_unit_test(put__cut_midway),
		cmocka_unit_test(put__never_started),
		cmocka_unit_test(batch__rest_ends_with_it),
		cmocka_unit_test(retry__sends_less_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
