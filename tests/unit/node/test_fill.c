/* SPDX-License-Identifier: Apache-2.0 */
/* Fill leases through the raw wire: they end with their session, and who waits is told at once. */
#include "speak.h"

#include "engine/engine.h"

static const char *const fill_keys[] = { "k", "l" };

/* Asks for the two keys; the answer, if it has to wait, comes later. */
static void fill_send(struct peer *p, uint32_t ns, uint32_t flags, uint64_t id)
{
	struct draft d;

	draft_keys(&d, p, LARDER_OP_EXISTS, ns, LARDER_F_FILL | flags, id, 0, fill_keys, 2);
	peer_write(p, d.buffer, d.length);
	rig_settle(p->rig);
}

static void fill_told(struct peer *p, uint8_t first, uint8_t second)
{
	assert_int_equal(peer_status(p), LARDER_OK);
	assert_int_equal(peer_key_status(p, 0).status, first);
	assert_int_equal(peer_key_status(p, 1).status, second);
}

static void fill__one_computes_the_others_are_told(void **state)
{
	struct rig *r = rig_start();
	struct peer *holder = peer_login(r), *waits = peer_login(r), *reads = peer_login(r);
	uint32_t ns = peer_open_ns(holder);

	fill_send(holder, ns, LARDER_F_WAIT, 1);
	fill_told(holder, LARDER_FILL, LARDER_NOT_FOUND);
	assert_true(holder->reply.u.keys_done.lease_ms > 0);
	fill_send(waits, ns, LARDER_F_WAIT, 2);
	peer_send_get(reads, ns, LARDER_F_WHOLE | LARDER_F_WAIT | LARDER_F_FILL, "k", 0, 0, 1000);
	rig_settle(r);
	assert_int_equal(rig_stats(r).parked, 2);
	assert_int_equal(peer_put_key(holder, ns, "k", 1000), LARDER_OK);
	/* "k" is there; the next miss is the one that may be filled */
	fill_told(waits, LARDER_OK, LARDER_FILL);
	assert_int_equal(waits->reply.u.keys_done.leading_run, 1);
	assert_int_equal(peer_status(reads), LARDER_OK);
	peer_check_value(reads, "k", 1000);
	peer_send_get(reads, ns, LARDER_F_WHOLE | LARDER_F_FILL, "m", 0, 0, 1000);
	assert_int_equal(peer_status(reads), LARDER_FILL);
	assert_int_equal(peer_keys(waits, LARDER_OP_RELEASE, ns, 0, 2, 0, &fill_keys[1], 1),
			 LARDER_OK);
	peer_close(holder);
	peer_close(waits);
	peer_close(reads);
	rig_check_released(r);
	rig_stop(r);
}

static void fill__ends_with_its_session(void **state)
{
	struct rig *r = rig_start();
	struct peer *holder = peer_login(r), *next = peer_login(r), *last = peer_login(r);
	uint32_t ns = peer_open_ns(holder);

	fill_send(holder, ns, 0, 1);
	fill_told(holder, LARDER_FILL, LARDER_NOT_FOUND);
	fill_send(next, ns, LARDER_F_WAIT, 2);
	peer_send_get(last, ns, LARDER_F_WHOLE | LARDER_F_WAIT, "k", 0, 0, 1000);
	rig_settle(r);
	assert_int_equal(rig_stats(r).parked, 2);
	peer_close(holder);		/* no clock moves: it is gone, not silent */
	fill_told(next, LARDER_FILL, LARDER_NOT_FOUND);
	assert_int_equal(peer_status(last), LARDER_NOT_FOUND);
	peer_close(next);
	fill_send(last, ns, 0, 3);
	fill_told(last, LARDER_FILL, LARDER_NOT_FOUND);
	peer_close(last);
	rig_check_released(r);
	rig_stop(r);
}

/* A holder that is frozen is gone when its keepalive is over. */
static void fill__ends_with_the_holders_silence(void **state)
{
	struct rig *r = rig_start();
	struct peer *holder = peer_login(r), *next = peer_login(r);
	uint32_t ns = peer_open_ns(holder), left = r->config.keepalive_ms + 200;
	struct draft d;

	draft_keys(&d, holder, LARDER_OP_EXISTS, ns, LARDER_F_FILL, 1, 60000, fill_keys, 1);
	peer_write(holder, d.buffer, d.length);
	assert_int_equal(peer_status(holder), LARDER_OK);
	assert_int_equal(peer_key_status(holder, 0).status, LARDER_FILL);
	for (; left > 0 && rig_stats(r).connections == 2; left -= MIN(left, 100u)) {
		assert_int_equal(peer_ping(next), LARDER_OK);
		rig_advance(r, 100);
	}
	assert_int_equal(rig_stats(r).connections, 1);
	fill_send(next, ns, 0, 2);
	fill_told(next, LARDER_FILL, LARDER_NOT_FOUND);
	peer_close(holder);
	peer_close(next);
	rig_check_released(r);
	rig_stop(r);
}

static void fill__not_while_draining(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);

	larder_node_drain(r->node, true);
	assert_int_equal(peer_keys(p, LARDER_OP_EXISTS, ns, LARDER_F_FILL, 1, 0, fill_keys, 2),
			 LARDER_DRAINING);
	peer_send_get(p, ns, LARDER_F_WHOLE | LARDER_F_FILL, "k", 0, 0, 1000);
	assert_int_equal(peer_status(p), LARDER_NOT_FOUND);
	larder_node_drain(r->node, false);
	fill_send(p, ns, 0, 1);
	fill_told(p, LARDER_FILL, LARDER_NOT_FOUND);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fill__one_computes_the_others_are_told),
		cmocka_unit_test(fill__ends_with_its_session),
		cmocka_unit_test(fill__ends_with_the_holders_silence),
		cmocka_unit_test(fill__not_while_draining),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
