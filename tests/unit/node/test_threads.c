/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several reactors with threads of their own over tcp, and a control thread that meddles: what the
 * other tests prove of one thread, here for the sharing. Meant for TSan.
 */
#include "speak.h"

#include <pthread.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reactors__share_one_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
