/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message that comes while the receiver has no buffer posted, at any moment of its poll: it waits
 * and is delivered once there is a buffer; the connection stays. Two threads, because the moment
 * between a look at the socket and the read that follows is the point.
 */
#include <pthread.h>

#include "shm_pair.h"

#define RACE_MESSAGES 50000u

struct race {
	struct pair *p;
	uint32_t sent;		/* atomic: messages that the client handed in */
	uint32_t taken;		/* atomic: messages that the node delivered */
	bool down;
};

/* The node: a few polls without a buffer, then one buffer, until its message is there. */
static void *race_node(void *user)
{
	struct race *r = user;
	struct pair_side *s = &r->p->node;

	for (uint32_t i = 0; i < RACE_MESSAGES && !r->down; i++) {
		struct transport_event ev[4];
		struct transport_rx rx = { .data = s->rx[0], .length = sizeof(s->rx[0]) };
		bool posted = false, got = false;

		for (uint32_t k = 0; !got && !r->down; k++) {
			int n = transport_poll(s->t, ev, 4);

			for (int e = 0; e < n; e++) {
				got = got || (ev[e].type == TRANSPORT_RX && ev[e].status == 0);
				r->down = r->down || ev[e].type == TRANSPORT_CONN_DOWN;
			}
			if (!posted && k > i % 8 && !r->down)
				posted = transport_post_rx(s->conn, &rx, 1) == 0;
		}
		__atomic_store_n(&r->taken, i + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void message_without_a_buffer__waits_at_any_moment(void **state)
{
	struct race r = { .p = pair_new() };
	struct pair_side *client = &r.p->client;
	pthread_t thread;

	pair_listen(r.p);
	assert_int_equal(transport_shm()->open(&r.p->config, &client->t), 0);
	assert_int_equal(client->t->ops->connect(client->t, r.p->path, r.p, &client->conn), 0);
	for (int i = 0; i < PAIR_STEPS && !r.p->node.conn; i++)
		pair_step(r.p);
	side_post(client);
	pair_settle(r.p);
	assert_int_equal(pthread_create(&thread, NULL, race_node, &r), 0);
	for (uint32_t i = 0; i < RACE_MESSAGES && client->conn; i++) {
		/* a second one follows the first by a time of its own: it meets every moment of the
		 * turn in which the node takes the first with its only buffer */
		while (__atomic_load_n(&r.taken, __ATOMIC_ACQUIRE) + 1 < i && client->conn) {
			client->n = 0;
			side_step(client, 16);
		}
		for (uint32_t k = 0; k < (i * 37) % 1024; k++)
			__asm__ volatile("" ::: "memory");
		if (client->conn)
			(void)side_send(client, &i, sizeof(i), i);
		client->n = 0;
		side_step(client, 16);
	}
	while (__atomic_load_n(&r.taken, __ATOMIC_ACQUIRE) < RACE_MESSAGES && client->conn) {
		client->n = 0;
		side_step(client, 16);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(r.down);
	assert_int_equal(r.taken, RACE_MESSAGES);
	pair_free(r.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(message_without_a_buffer__waits_at_any_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
