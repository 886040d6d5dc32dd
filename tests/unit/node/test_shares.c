/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of the node's transfers, as bytes that were moved in a number of turns: by weight between
 * tenants, whatever number of sessions each has, and nothing idles.
 */
#include "flood.h"

#define MIB (1u << 20)
#define TURNS 3000u
#define SESSIONS_MANY 63u

static uint64_t moved(struct rig *r, uint32_t slot)
{
	return ledger_usage(r->node->ledger, 0, slot)->bytes[LARDER_CAUSE_CLIENT_READ];
}

static struct peer *peer_of(struct rig *r, bool other)
{
	return other ? peer_login_as(r, "other", "tom") : peer_login(r);
}

/* @a's sessions of demo beside @b's of other, at full speed for @turns; bytes of each. */
static void run(uint32_t a, uint64_t weight_a, uint32_t b, uint64_t weight_b, uint32_t turns,
		uint64_t ret[2])
{
	struct flood f[SESSIONS_MANY + 1];
	struct rig *r = rig_new();
	uint64_t before[2] = { 0, 0 };

	r->config.max_unauthenticated = 2;
	rig_open(r);
	assert_int_equal(set_one(r, "demo", LARDER_LIMIT_weight, weight_a), 0);
	assert_int_equal(set_one(r, "other", LARDER_LIMIT_weight, weight_b), 0);
	for (uint32_t i = 0; i < a + b; i++) {
		struct peer *p = peer_of(r, i >= a);
		uint32_t ns = peer_open_ns(p);
		int status = peer_put_key(p, ns, "k", 2 * MIB);

		assert_in_range(status, LARDER_OK, LARDER_EXISTS_SAME);
		flood_gets(&f[i], p, ns, "k", 2 * MIB, 4);
	}
	for (uint32_t t = 0; t < turns + 50; t++) {
		if (t == 50)		/* everybody is at full speed by now */
			for (uint32_t i = 0; i < 2; i++)
				before[i] = moved(r, i);
		for (uint32_t i = 0; i < a + b; i++)
			flood_step(&f[i]);
		rig_step(r);
		while (rig_poll_client(r) > 0)
			;	/* no peer is late: what is measured is the node's doing */
	}
	for (uint32_t i = 0; i < 2; i++)
		ret[i] = moved(r, i) - before[i];
	for (uint32_t i = 0; i < a + b; i++)
		flood_end(&f[i]);
	rig_check_released(r);
	rig_stop(r);
}

/* Within 5 % and a piece. */
static void check_share(const uint64_t bytes[2], uint64_t weight_a, uint64_t weight_b)
{
	double total = (double)(bytes[0] + bytes[1]);
	double share = total * (double)weight_a / (double)(weight_a + weight_b);
	double least = total * (double)MIN(weight_a, weight_b) / (double)(weight_a + weight_b);
	double off = (double)bytes[0] - share;

	print_message("weights %llu:%llu moved %.1f and %.1f MiB\n",
		      (unsigned long long)weight_a, (unsigned long long)weight_b,
		      (double)bytes[0] / MIB, (double)bytes[1] / MIB);
	if (off < 0)
		off = -off;
	assert_true(off <= least * 0.05 + NODE_PIECE_BYTES);
}

static void weights__give_shares(void **state)
{
	static const uint64_t weights[][2] = { { 1, 1 }, { 0, 0 }, { 1, 3 }, { 100, 1 },
					       { 1, LARDER_WEIGHT_MAX } };

	for (unsigned i = 0; i < ARRAY_SIZE(weights); i++) {
		uint64_t bytes[2];

		run(1, weights[i][0], 1, weights[i][1], TURNS, bytes);
		check_share(bytes, MAX(weights[i][0], (uint64_t)1),
			    MAX(weights[i][1], (uint64_t)1));
		/* a turn moves at least a piece while somebody wants one */
		assert_true(bytes[0] + bytes[1] >= (uint64_t)TURNS * NODE_PIECE_BYTES * 9 / 10);
	}
}

static void many_sessions__get_no_more_than_one(void **state)
{
	uint64_t bytes[2];

	run(SESSIONS_MANY, 1, 1, 1, TURNS, bytes);
	check_share(bytes, 1, 1);
	run(1, 3, SESSIONS_MANY, 1, TURNS, bytes);
	check_share(bytes, 3, 1);
}

static void a_light_tenant_alone__has_everything(void **state)
{
	uint64_t light[2], heavy[2];

	run(1, 1, 0, LARDER_WEIGHT_MAX, 500, light);
	run(1, LARDER_WEIGHT_MAX, 0, 1, 500, heavy);
	assert_int_equal(light[0], heavy[0]);
	assert_true(light[0] >= 500ull * NODE_PIECE_BYTES * 9 / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weights__give_shares),
		cmocka_unit_test(many_sessions__get_no_more_than_one),
		cmocka_unit_test(a_light_tenant_alone__has_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
