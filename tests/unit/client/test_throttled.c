/* SPDX-License-Identifier: Apache-2.0 */
/* THROTTLED: the library waits as long as it is told, spreads, and keeps to the deadline. */
#include "fake_node.h"

#define MS NSEC_PER_MSEC
#define SEEN_MAX 64u

/* What the fake says, and when it was asked. */
struct throttle {
	uint32_t times;			/* that are left */
	uint32_t told_ms;
	uint64_t at[SEEN_MAX];
	uint32_t n;
};

static bool throttle_hook(struct fake *f, struct fake_conn *c, const struct wire_request *r,
			  const uint8_t *payload)
{
	struct throttle *t = f->user;

	if (t->n < SEEN_MAX)
		t->at[t->n++] = f->clock->now_ns;
	if (t->times == 0)
		return false;
	t->times--;
	fake_error(c, r, LARDER_THROTTLED, t->told_ms, "over the limit ops_per_s");
	return true;
}

static void throttle_set(struct rig *r, struct throttle *t, uint32_t times, uint32_t told_ms)
{
	*t = (struct throttle){ .times = times, .told_ms = told_ms };
	r->fake.hook = throttle_hook;
	r->fake.user = t;
}

static int exists(struct rig *r, uint32_t deadline_ms)
{
	struct larder_item item = { .key = "k", .key_len = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .ns = r->ns, .items = &item,
				  .n_items = 1, .deadline_ms = deadline_ms };

	return larder_run(r->c, &b);
}

static void throttled__is_waited_out_inside_the_deadline(void **state)
{
	struct throttle t;
	struct rig r;
	uint8_t back[8];

	rig_open(&r, "throttled");
	throttle_set(&r, &t, 5, 20);
	assert_int_equal(larder_put(r.c, r.ns, "k", 1, "value", 5, 10000), LARDER_OK);
	assert_int_equal(t.n, 6);
	for (uint32_t i = 1; i < t.n; i++) {
		uint64_t waited = t.at[i] - t.at[i - 1];

		/* what it was told, and by chance up to as long again, doubled each time */
		assert_true(waited >= 20 * MS);
		assert_true(waited <= (20 + (20u << (i - 1))) * MS + 2 * MS);
	}
	throttle_set(&r, &t, 2, 5);
	assert_int_equal(exists(&r, 1000), LARDER_OK);
	assert_int_equal(t.n, 3);
	throttle_set(&r, &t, 2, 5);
	struct iovec iov = { back, sizeof(back) };
	struct larder_item item = { .key = "k", .key_len = 1, .iov = &iov, .iovcnt = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_GET, .ns = r.ns, .items = &item,
				  .n_items = 1, .deadline_ms = 1000 };

	assert_int_equal(larder_run(r.c, &b), LARDER_OK);
	assert_int_equal(item.done_bytes, 5);
	assert_memory_equal(back, "value", 5);
	rig_close(&r);
}

static void throttled__is_told_when_the_deadline_is_nearer(void **state)
{
	struct throttle t;
	struct rig r;
	uint64_t before;

	rig_open(&r, "throttled");
	/* one wait would pass the deadline: told at once, with the node's words */
	throttle_set(&r, &t, 1000, 500);
	before = r.clock.now_ns;
	assert_int_equal(larder_put(r.c, r.ns, "k", 1, "v", 1, 300), LARDER_THROTTLED);
	assert_non_null(strstr(larder_last_error(), "ops_per_s"));
	assert_int_equal(t.n, 1);
	assert_true(r.clock.now_ns - before < 10 * MS);
	/* some fit, then it is told, never later than the deadline */
	throttle_set(&r, &t, 1000, 40);
	before = r.clock.now_ns;
	assert_int_equal(exists(&r, 1000), LARDER_THROTTLED);
	assert_true(t.n > 1);
	assert_true(r.clock.now_ns - before < 1000 * MS);
	rig_close(&r);
}

static void throttled__a_node_that_tells_nonsense_is_bounded(void **state)
{
	static const uint32_t told[] = { 0, UINT32_MAX };
	struct throttle t;
	struct rig r;

	rig_open(&r, "throttled");
	for (uint32_t i = 0; i < ARRAY_SIZE(told); i++) {
		throttle_set(&r, &t, 1, told[i]);
		assert_int_equal(exists(&r, 5000), LARDER_NOT_FOUND);
		assert_true(t.at[1] - t.at[0] >= 1 * MS);
		assert_true(t.at[1] - t.at[0] <= 2002 * MS);
	}
	rig_close(&r);
}

/* Many that were refused in the same moment come back at different ones. */
static void throttled__those_refused_together_come_back_apart(void **state)
{
	struct throttle t;
	struct larder_item items[16];
	struct larder_batch b = { .opcode = LARDER_OP_PUT, .items = items, .n_items = 16,
				  .deadline_ms = 5000 };
	struct iovec iov = { "v", 1 };
	char keys[16][4];
	struct rig r;
	uint32_t apart = 0;

	rig_open(&r, "throttled");
	b.ns = r.ns;
	for (uint32_t i = 0; i < 16; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%u", i);
		items[i] = (struct larder_item){ .key = keys[i], .key_len = strlen(keys[i]),
						 .iov = &iov, .iovcnt = 1 };
	}
	throttle_set(&r, &t, 16, 100);
	assert_int_equal(larder_run(r.c, &b), LARDER_OK);
	assert_int_equal(t.n, 32);
	for (uint32_t i = 17; i < 32; i++)
		apart += t.at[i] - t.at[i - 1] > MS / 10;
	assert_true(apart >= 10);
	assert_true(t.at[31] - t.at[16] > 40 * MS);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(throttled__is_waited_out_inside_the_deadline),
		cmocka_unit_test(throttled__is_told_when_the_deadline_is_nearer),
		cmocka_unit_test(throttled__a_node_that_tells_nonsense_is_bounded),
		cmocka_unit_test(throttled__those_refused_together_come_back_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
