/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Viewers come after clients: while a client's GET of many turns moves, a viewer's look-up is not
 * answered and no byte of a value goes to one; on a node that is never idle both go on all the
 * same, a step every millisecond. Counted in bytes and turns, on a clock that only the test moves.
 */
#include "region.h"

#include "node/session.h"

#define MIB (1u << 20)

struct two {
	struct rig *r;
	struct peer *p, *w;		/* client, viewer */
	struct memory pm, wm;
	uint32_t ns;
	uint8_t message[WIRE_MESSAGE_MAX];	/* the viewer's next */
	uint32_t seen;
};

static bool may_view(void)
{
	if (getuid() == 0)
		return true;
	print_message("skipped: a viewer is root or the user of view.user\n");
	return false;
}

static void two_start(struct two *t)
{
	const struct wire_seg seg = { .region = 1, .length = REGION_BYTES };

	*t = (struct two){ .r = rig_new() };
	t->r->ops = transport_shm();
	rig_open(t->r);
	t->p = peer_login(t->r);
	t->ns = peer_open_ns(t->p);
	memory_make(&t->pm, t->p);
	assert_int_equal(region_add(t->p, &t->pm, 1), LARDER_OK);
	memset(t->pm.at, 7, REGION_BYTES);
	assert_int_equal(put_from(t->p, t->ns, "k", t->pm.at, REGION_BYTES, &seg, 1), LARDER_OK);
	t->w = peer_connect(t->r);
	assert_int_equal(peer_handshake(t->w, &(struct hello_options){
						      .role = WIRE_ROLE_VIEWER }), LARDER_OK);
	memory_make(&t->wm, t->w);
	assert_int_equal(region_add(t->w, &t->wm, 1), LARDER_OK);
	rig_settle(t->r);
}

static void two_stop(struct two *t)
{
	peer_close(t->w);
	peer_close(t->p);
	memory_drop(&t->pm, true);
	memory_drop(&t->wm, true);
	rig_check_released(t->r);
	assert_int_equal(t->r->node->reactors[0].moving, 0);
	rig_stop(t->r);
}

static uint64_t moved(const struct two *t, enum larder_cause cause)
{
	uint64_t n = 0;

	for (uint32_t slot = 0; slot < LARDER_LEDGER_TENANTS; slot++)
		n += ledger_usage(t->r->node->ledger, 0, slot)->bytes[cause];
	return n;
}

/* The client's GET is under way, and has moved something. */
static void begin_get(struct two *t)
{
	const struct wire_seg seg = { .region = 1, .length = REGION_BYTES };
	uint64_t before = moved(t, LARDER_CAUSE_CLIENT_READ);

	get_into_send(t->p, t->ns, "k", LARDER_F_WHOLE, 0, REGION_BYTES, &seg, 1);
	for (uint32_t i = 0; i < RIG_STEPS && moved(t, LARDER_CAUSE_CLIENT_READ) == before; i++)
		rig_step(t->r);
	assert_true(moved(t, LARDER_CAUSE_CLIENT_READ) < before + REGION_BYTES);
}

static void view(struct two *t, uint64_t bytes)
{
	const struct transport_rx rx = { .data = t->message, .length = sizeof(t->message) };
	const struct wire_seg seg = { .region = 1, .length = bytes };
	const struct wire_list list = { .c = { .ns = t->ns }, .max = 10 };

	t->seen = t->w->rx_events;
	assert_int_equal(transport_post_rx(t->w->c, &rx, 1), 0);
	if (bytes)
		get_into_send(t->w, t->ns, "k", 0, 0, bytes, &seg, 1);
	else
		peer_request(t->w, LARDER_OP_LIST, &list, sizeof(list));
}

static bool viewed(const struct two *t)
{
	return t->w->rx_events != t->seen;
}

static void a_client_s_get__is_over_before_a_viewer_is_answered(void **state)
{
	struct two t;

	if (!may_view())
		skip();
	two_start(&t);
	for (uint64_t bytes = 0; bytes <= MIB; bytes += MIB) {
		uint64_t before = moved(&t, LARDER_CAUSE_CLIENT_READ);

		begin_get(&t);
		view(&t, bytes);
		while (moved(&t, LARDER_CAUSE_CLIENT_READ) < before + REGION_BYTES) {
			assert_int_equal(moved(&t, LARDER_CAUSE_VIEW), 0);
			assert_false(viewed(&t));
			rig_step(t.r);
		}
		assert_int_equal(peer_status(t.p), LARDER_OK);
		for (uint32_t i = 0; i < RIG_STEPS && !viewed(&t); i++)
			rig_step(t.r);
		assert_true(viewed(&t));
		assert_int_equal(moved(&t, LARDER_CAUSE_VIEW), bytes);
	}
	two_stop(&t);
}

/* Clients ask again and again: the viewer gets its step all the same when a millisecond is over. */
static void a_node_that_is_never_idle__goes_on_with_viewers(void **state)
{
	struct two t;
	uint32_t gets = 1;

	if (!may_view())
		skip();
	two_start(&t);
	begin_get(&t);
	view(&t, MIB);
	for (uint32_t i = 0; i < RIG_STEPS && !viewed(&t); i++) {
		if (t.r->node->reactors[0].moving == 0) {
			assert_int_equal(peer_status(t.p), LARDER_OK);
			begin_get(&t);
			gets++;
		}
		t.r->now_ns += 100000;
		rig_step(t.r);
	}
	assert_true(viewed(&t));
	assert_true(gets > 2);	/* one of them did not end it */
	assert_int_equal(moved(&t, LARDER_CAUSE_VIEW), MIB);
	assert_int_equal(peer_status(t.p), LARDER_OK);
	two_stop(&t);
}

/* One that was put off and goes away, or is taken back, leaves nothing. */
static void a_viewer_that_yields__can_go_and_cancel(void **state)
{
	struct two t;

	if (!may_view())
		skip();
	two_start(&t);
	begin_get(&t);
	view(&t, MIB);
	for (int i = 0; i < 3; i++)
		rig_step(t.r);
	assert_false(list_empty(&t.r->node->reactors[0].yielding));
	const struct wire_cancel cancel = { .request_id = t.w->next_id - 1 };

	peer_request(t.w, LARDER_OP_CANCEL, &cancel, sizeof(cancel));
	assert_int_equal(peer_status(t.p), LARDER_OK);
	rig_settle(t.r);
	assert_true(viewed(&t));

	begin_get(&t);
	view(&t, 0);
	for (int i = 0; i < 3; i++)
		rig_step(t.r);
	assert_int_equal(transport_disconnect(t.w->c, false), 0);
	peer_expect_closed(t.w);
	assert_true(list_empty(&t.r->node->reactors[0].yielding));
	assert_int_equal(peer_status(t.p), LARDER_OK);
	two_stop(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_s_get__is_over_before_a_viewer_is_answered),
		cmocka_unit_test(a_node_that_is_never_idle__goes_on_with_viewers),
		cmocka_unit_test(a_viewer_that_yields__can_go_and_cancel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
