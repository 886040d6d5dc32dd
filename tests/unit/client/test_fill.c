/* SPDX-License-Identifier: Apache-2.0 */
/* FILL of a batch that is split over messages: one fill lease, at the batch's first miss. */
#include "fake_node.h"

enum { N_GET = 12, N_EXISTS = 3000, KEY = 16 };

struct fill {
	struct rig r;
	struct larder_batch b;
	struct larder_item *items;
	char (*keys)[KEY];
	uint8_t values[N_EXISTS];
	struct iovec iov[N_EXISTS];
	uint32_t done;
	/* put when the first question of the second kind arrives */
	uint32_t late_from, late_to;
};

static void fill_item_done(void *user, struct larder_batch *b, uint32_t index)
{
	struct fill *t = user;

	assert_int_not_equal(b->items[index].status, -1);
	t->done++;
}

/* @there of @n keys, from the first on, are in the node. */
static struct fill *fill_open(uint8_t opcode, uint32_t n, uint32_t there)
{
	struct fill *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	t->items = calloc(n, sizeof(*t->items));
	t->keys = calloc(n, KEY);
	assert_true(t->items && t->keys);
	rig_open(&t->r, "fill");
	t->b = (struct larder_batch){
		.opcode = opcode,
		.ns = t->r.ns,
		.flags = LARDER_F_FILL | LARDER_F_WAIT,
		.lease_id = 7,
		.items = t->items,
		.n_items = n,
		.item_done = fill_item_done,
		.user = t,
	};
	for (uint32_t i = 0; i < n; i++) {
		(void)snprintf(t->keys[i], KEY, "key%06u", i);
		t->iov[i] = (struct iovec){ &t->values[i], 1 };
		t->items[i] = (struct larder_item){
			.key = t->keys[i], .key_len = 9, .iov = &t->iov[i], .iovcnt = 1,
		};
		if (i < there)
			(void)fake_put(&t->r.fake, t->keys[i], "v", 1);
	}
	t->r.fake.user = t;
	return t;
}

static void fill_close(struct fill *t)
{
	assert_int_equal(t->done, t->b.n_items);
	assert_int_equal(t->b.n_done, t->b.n_items);
	rig_close(&t->r);
	free(t->items);
	free(t->keys);
	free(t);
}

static void fill_expect(const struct fill *t, uint32_t found, int at_found)
{
	for (uint32_t i = 0; i < t->b.n_items; i++) {
		int want = i < found ? LARDER_OK : i == found ? at_found : LARDER_NOT_FOUND;

		if (t->items[i].status != want)
			fail_msg("item %u: %d, wanted %d", i, t->items[i].status, want);
	}
}

static void exists__one_fill_lease_over_messages(void **state)
{
	struct fill *t = fill_open(LARDER_OP_EXISTS, N_EXISTS, 2500);

	assert_int_equal(larder_run(t->r.c, &t->b), LARDER_FILL);
	fill_expect(t, 2500, LARDER_FILL);
	assert_int_equal(t->b.leading_run, 2500);
	assert_int_equal(t->r.fake.n_fill, 1);
	assert_int_equal(t->r.fake.last_flags, LARDER_F_FILL | LARDER_F_WAIT);
	fill_close(t);
}

static void exists__a_batch_of_one_message_asks_once(void **state)
{
	struct fill *t = fill_open(LARDER_OP_EXISTS, 100, 40);

	assert_int_equal(larder_run(t->r.c, &t->b), LARDER_FILL);
	fill_expect(t, 40, LARDER_FILL);
	assert_int_equal(t->r.fake.count[LARDER_OP_EXISTS], 1);
	fill_close(t);
}

static void get__one_fill_lease_over_messages(void **state)
{
	struct fill *t = fill_open(LARDER_OP_GET, N_GET, 5);

	assert_int_equal(larder_run(t->r.c, &t->b), LARDER_FILL);
	fill_expect(t, 5, LARDER_FILL);
	for (uint32_t i = 0; i < N_GET; i++)
		assert_int_equal(t->values[i], i < 5 ? 'v' : 0);
	assert_int_equal(t->r.fake.n_fill, 1);
	assert_int_equal(t->r.fake.count[LARDER_OP_GET], N_GET + 1);
	fill_close(t);
}

static void get__all_there_asks_for_none(void **state)
{
	struct fill *t = fill_open(LARDER_OP_GET, N_GET, N_GET);

	assert_int_equal(larder_run(t->r.c, &t->b), 0);
	fill_expect(t, N_GET, LARDER_OK);
	assert_int_equal(t->r.fake.n_fill, 0);
	fill_close(t);
}

static void get__anothers_promise_is_a_miss(void **state)
{
	struct fill *t = fill_open(LARDER_OP_GET, N_GET, 5);

	t->r.fake.promised = true;
	assert_int_equal(larder_run(t->r.c, &t->b), LARDER_NOT_FOUND);
	fill_expect(t, 5, LARDER_NOT_FOUND);
	assert_int_equal(t->r.fake.n_fill, 1);
	fill_close(t);
}

/* Whoever was at work on them puts them between our two questions. */
static bool fill_late(struct fake *f, struct fake_conn *c, const struct wire_request *r,
		      const uint8_t *payload)
{
	struct fill *t = f->user;

	if ((r->header.op == LARDER_OP_GET || r->header.op == LARDER_OP_EXISTS) &&
	    r->u.common.flags & LARDER_F_FILL)
		for (; t->late_from < t->late_to; t->late_from++)
			(void)fake_put(f, t->keys[t->late_from], "w", 1);
	return false;
}

static void get__goes_on_to_the_next_that_is_missing(void **state)
{
	struct fill *t = fill_open(LARDER_OP_GET, N_GET, 5);

	t->r.fake.hook = fill_late;
	t->late_from = 5;
	t->late_to = 8;
	assert_int_equal(larder_run(t->r.c, &t->b), LARDER_FILL);
	fill_expect(t, 8, LARDER_FILL);
	assert_int_equal(t->values[7], 'w');
	assert_int_equal(t->r.fake.n_fill, 4);
	fill_close(t);
}

static void get__all_came_meanwhile(void **state)
{
	struct fill *t = fill_open(LARDER_OP_GET, N_GET, 5);

	t->r.fake.hook = fill_late;
	t->late_from = 5;
	t->late_to = N_GET;
	assert_int_equal(larder_run(t->r.c, &t->b), 0);
	fill_expect(t, N_GET, LARDER_OK);
	fill_close(t);
}

static void exists__goes_on_to_the_next_that_is_missing(void **state)
{
	struct fill *t = fill_open(LARDER_OP_EXISTS, N_EXISTS, 2500);

	t->r.fake.hook = fill_late;
	t->late_from = 2500;
	t->late_to = 2503;
	assert_int_equal(larder_run(t->r.c, &t->b), LARDER_FILL);
	fill_expect(t, 2503, LARDER_FILL);
	assert_int_equal(t->b.leading_run, 2503);
	fill_close(t);
}

/* The node lets the question for the fill lease wait. */
static bool fill_silent(struct fake *f, struct fake_conn *c, const struct wire_request *r,
			const uint8_t *payload)
{
	return r->header.op == LARDER_OP_GET && r->u.common.flags & LARDER_F_FILL;
}

static void get__the_deadline_ends_the_wait(void **state)
{
	struct fill *t = fill_open(LARDER_OP_GET, N_GET, 5);

	t->r.fake.hook = fill_silent;
	t->b.deadline_ms = 100;
	assert_int_equal(larder_run(t->r.c, &t->b), LARDER_DEADLINE);
	fill_expect(t, 5, LARDER_DEADLINE);
	fill_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exists__one_fill_lease_over_messages),
		cmocka_unit_test(exists__a_batch_of_one_message_asks_once),
		cmocka_unit_test(get__one_fill_lease_over_messages),
		cmocka_unit_test(get__all_there_asks_for_none),
		cmocka_unit_test(get__anothers_promise_is_a_miss),
		cmocka_unit_test(get__goes_on_to_the_next_that_is_missing),
		cmocka_unit_test(get__all_came_meanwhile),
		cmocka_unit_test(exists__goes_on_to_the_next_that_is_missing),
		cmocka_unit_test(get__the_deadline_ends_the_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
