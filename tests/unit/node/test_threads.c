/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several reactors with threads of their own over tcp, and a control thread that meddles: what the
 * other tests prove of one thread, here for the sharing. Meant for TSan.
 */
#include "speak.h"

#include <pthread.h>

#include "node/limits.h"

#define REACTORS 3u
#define PEERS 6u
#define ROUNDS 60u

struct worker {
	pthread_t thread;
	struct rig *rig;
	uint32_t index;
	bool *stop;
	uint64_t turns;
};

static void *worker_run(void *user)
{
	struct worker *w = user;

	while (!__atomic_load_n(w->stop, __ATOMIC_ACQUIRE)) {
		int n = larder_node_step(w->rig->node, w->index);

		if (n < 0)
			abort();
		w->turns++;
		if (n > 0)
			continue;
		struct pollfd fd = { .fd = larder_node_event_fd(w->rig->node, w->index),
				     .events = POLLIN };

		if (poll(&fd, 1, MIN(larder_node_timeout_ms(w->rig->node, w->index), 20)) < 0)
			abort();
	}
	return NULL;
}

/* Other limits at each look, all of them more than the peers want. */
static void control_limits(struct larder_node *node, uint64_t n)
{
	struct larder_tenant_limits l[] = { { .tenant = "demo" }, { .tenant = "other" } };

	for (unsigned i = 0; i < ARRAY_SIZE(l); i++) {
		uint64_t *v = l[i].limits.value;

		v[LARDER_LIMIT_ops_per_s] = 10000000 + n % 2;
		v[LARDER_LIMIT_in_bytes_per_s] = v[LARDER_LIMIT_out_bytes_per_s] = 1ull << 40;
		v[LARDER_LIMIT_in_flight_fetch] = 100 + n % 7;
		v[LARDER_LIMIT_in_flight_write] = 100 + n % 5;
		v[LARDER_LIMIT_weight] = 1 + n % 1000;
		v[LARDER_LIMIT_guarantee_bytes] = n % 100000;
	}
	if (larder_node_set_limits(node, l, ARRAY_SIZE(l), NULL) < 0)
		abort();
}

static void *control_run(void *user)
{
	struct worker *w = user;

	while (!__atomic_load_n(w->stop, __ATOMIC_ACQUIRE)) {
		struct larder_node_stats s;

		larder_node_get_stats(w->rig->node, &s);
		if (larder_node_is_drained(w->rig->node))
			abort();
		if (larder_node_tenant_add(w->rig->node, "other", "tom", 3, "jerry", 5) < 0)
			abort();
		control_limits(w->rig->node, w->turns);
		w->turns += larder_node_turns(w->rig->node, 0);
		(void)poll(NULL, 0, 1);
	}
	return NULL;
}

static void reactors__share_one_node(void **state)
{
	static const char *const shared[] = { "shared" };
	struct rig *r = rig_new();
	struct worker w[REACTORS + 1];
	struct peer *p[PEERS];
	uint32_t ns[PEERS];
	bool stop = false;

	r->ops = transport_tcp();
	r->config.environment = NULL;	/* the kernel's clock */
	r->config.reactors = REACTORS;
	r->mc.pages = 1024;		/* 4 MiB: evictions happen */
	rig_open(r);
	assert_int_not_equal(larder_node_port(r->node), 0);
	r->threaded = true;
	for (uint32_t i = 0; i <= REACTORS; i++) {
		w[i] = (struct worker){ .rig = r, .index = i, .stop = &stop };
		assert_int_equal(pthread_create(&w[i].thread, NULL,
						i < REACTORS ? worker_run : control_run, &w[i]), 0);
	}
	for (uint32_t i = 0; i < PEERS; i++) {
		p[i] = i % 2 ? peer_login(r) : peer_login_as(r, "other", "jerry");
		ns[i] = peer_open_ns(p[i]);
	}
	for (uint32_t n = 0; n < ROUNDS; n++) {
		for (uint32_t i = 0; i < PEERS; i++) {
			size_t len = 1 + (n * 7919 + i * 104729) % 300000;
			char key[32];
			int status;

			snprintf(key, sizeof(key), "k%u", (n * 3 + i / 2) % 40);
			status = peer_put_key(p[i], ns[i], key, len);
			assert_true(status == LARDER_OK || status == LARDER_EXISTS_SAME ||
				    status == LARDER_CONFLICT);
			status = peer_get(p[i], ns[i], key, 1u << 20);
			if (status == LARDER_OK)
				peer_check_value(p[i], key, p[i]->reply.u.got.size_bytes);
			else
				assert_int_equal(status, LARDER_NOT_FOUND);
			status = peer_put_key(p[i], ns[i], "shared", 5000);
			assert_in_range(status, LARDER_OK, LARDER_EXISTS_SAME);
			assert_int_equal(peer_keys(p[i], LARDER_OP_LEASE, ns[i], 0, 100 + i, 50,
						   shared, 1), LARDER_OK);
		}
	}
	for (uint32_t i = 0; i < PEERS; i++)
		peer_close(p[i]);
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i <= REACTORS; i++)
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
	r->threaded = false;
	rig_settle(r);
	rig_check_released(r);
	rig_stop(r);
}

/* --- claims ---------------------------------------------------------------------------------- */

#define CLAIM_LIMIT 3u
#define CLAIMS 50000u

struct claimer {
	pthread_t thread;
	struct quota *q;
	uint64_t *held;			/* atomic: by all */
	uint64_t most, got;
};

static void *claimer_run(void *user)
{
	struct claimer *c = user;

	for (uint32_t i = 0; i < CLAIMS; i++) {
		uint64_t held;

		if (!node_quota_claim(c->q, LARDER_LIMIT_in_flight_write, 1 + i % 2))
			continue;
		held = __atomic_add_fetch(c->held, 1 + i % 2, __ATOMIC_RELAXED);
		c->most = MAX(c->most, held);
		c->got++;
		(void)__atomic_fetch_sub(c->held, 1 + i % 2, __ATOMIC_RELAXED);
		node_quota_give(c->q, LARDER_LIMIT_in_flight_write, 1 + i % 2);
	}
	return NULL;
}

static void a_limit__is_never_passed_by_several_at_once(void **state)
{
	struct claimer c[4];
	struct quota q = { .used = { 0 } };
	uint64_t held = 0, got = 0;

	node_quota_init(&q);
	q.effective[LARDER_LIMIT_in_flight_write] = CLAIM_LIMIT;
	for (unsigned i = 0; i < ARRAY_SIZE(c); i++) {
		c[i] = (struct claimer){ .q = &q, .held = &held };
		assert_int_equal(pthread_create(&c[i].thread, NULL, claimer_run, &c[i]), 0);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(c); i++) {
		assert_int_equal(pthread_join(c[i].thread, NULL), 0);
		assert_in_range(c[i].most, 0, CLAIM_LIMIT);
		got += c[i].got;
	}
	assert_true(got > 0);	/* one alone may get none: who holds them may be off the CPU */
	assert_int_equal(q.used[LARDER_LIMIT_in_flight_write], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reactors__share_one_node),
		cmocka_unit_test(a_limit__is_never_passed_by_several_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
