/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is connected, for those who ask from another thread. A session enters the list when its
 * handshake is over and leaves it when it is freed; what the list shows of it never changes
 * between, so the lock is taken twice in a session's life and never while bytes move.
 */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "node/node.h"
#include "node/session.h"

void node_listed_init(struct larder_node *n)
{
	(void)pthread_mutex_init(&n->listed_lock, NULL);	/* can not fail */
	list_init(&n->listed);
}

void node_listed_done(struct larder_node *n)
{
	(void)pthread_mutex_destroy(&n->listed_lock);
}

void node_listed_add(struct session *s)
{
	struct larder_node *n = session_node(s);
	struct larder_node_connection *c = &s->listed;
	struct transport_peer peer = { .text = "?" };

	if (s->conn->transport->ops->peer(s->conn, &peer) < 0)
		strcpy(peer.text, "?");
	c->id = s->holder;
	c->viewer = s->viewer;
	c->reactor = s->reactor->index;
	c->age_ms = s->reactor->now_ns / NSEC_PER_MSEC;		/* made an age when it is asked */
	(void)snprintf(c->tenant, sizeof(c->tenant), "%s", s->tenant ? s->tenant->name : "_view");
	(void)snprintf(c->transport, sizeof(c->transport), "%s", s->conn->transport->ops->name);
	(void)snprintf(c->peer, sizeof(c->peer), "%s", peer.text);
	(void)pthread_mutex_lock(&n->listed_lock);
	list_push_tail(&n->listed, &s->listed_link);
	(void)pthread_mutex_unlock(&n->listed_lock);
}

void node_listed_remove(struct session *s)
{
	struct larder_node *n = session_node(s);

	(void)pthread_mutex_lock(&n->listed_lock);
	list_remove(&s->listed_link);
	(void)pthread_mutex_unlock(&n->listed_lock);
}

LARDER_PUBLIC uint32_t larder_node_connections(struct larder_node *n,
					       struct larder_node_connection *at, uint32_t size)
{
	uint64_t now_ms = clock_now(&n->clock) / NSEC_PER_MSEC;
	uint32_t i = 0;

	(void)pthread_mutex_lock(&n->listed_lock);
	list_for_each(it, &n->listed) {
		const struct session *s = list_entry(it, struct session, listed_link);

		if (i == size)
			break;
		at[i] = s->listed;
		at[i].age_ms = now_ms > at[i].age_ms ? now_ms - at[i].age_ms : 0;
		i++;
	}
	(void)pthread_mutex_unlock(&n->listed_lock);
	return i;
}
