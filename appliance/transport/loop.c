/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop: a byte stream inside one process, found by name. For tests, the simulator and a node in the
 * same process: no kernel between the two sides, so a run depends on nothing but the order of polls
 * and the knobs of loop.h.
 *
 * A connection is a pair: two ends and two rings of bytes, one per direction. connect makes the
 * whole pair and leaves its far end in the listener's backlog, so that accepting, which happens in
 * a poll, allocates nothing. The two ends may belong to transports of different threads:
 *
 *	the registry of names, listeners and backlogs	loop_registry_lock
 *	rings and who owns which end			the pair's lock
 *	the kick of a transport				its kick_lock
 *
 * always taken in this order. An end's queues are its owner's alone, without a lock.
 *
 * The event fd is an eventfd. Its promise is tcp's: once a poll has returned 0, it is readable
 * whenever the next poll may have something to do, moving bytes without an event included.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/compiler.h"
#include "transport/loop_pair.h"
#include "transport/registry.h"

static pthread_mutex_t loop_registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list loop_names = { &loop_names, &loop_names };

/* --- listening --- */

static struct loop_listener *loop_find_name(const char *name)
{
	list_for_each(it, &loop_names) {
		struct loop_listener *l = list_entry(it, struct loop_listener, registered);

		if (!strcmp(l->name, name))
			return l;
	}
	return NULL;
}

static bool loop_name_ok(const char *name)
{
	return name && *name && strlen(name) < LOOP_NAME_MAX;
}

static int loop_listen(struct transport *transport, const char *address)
{
	_cleanup_free_ struct loop_listener *l = NULL;
	struct loop *t = loop_of(transport);
	bool taken;

	if (!loop_name_ok(address))
		return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->owner = t;
	list_init(&l->backlog);
	memcpy(l->name, address, strlen(address) + 1);
	loop_lock(&loop_registry_lock);
	taken = loop_find_name(address) != NULL;
	if (!taken)
		list_push_tail(&loop_names, &l->registered);
	loop_unlock(&loop_registry_lock);
	if (taken)
		return -EADDRINUSE;
	list_push_tail(&t->listeners, &TAKE_PTR(l)->link);
	return 0;
}

static int loop_bound(struct transport *transport, char *text, size_t size)
{
	const struct loop *t = loop_of(transport);
	const struct loop_listener *l;
	size_t len;

	if (list_empty(&t->listeners))
		return -ENOENT;
	l = list_entry(t->listeners.prev, struct loop_listener, link);
	len = strlen(l->name) + 1;
	if (len > size)
		return -ENOSPC;
	memcpy(text, l->name, len);
	return 0;
}

static void loop_accept(struct loop *t)
{
	if (!__atomic_load_n(&t->backlog, __ATOMIC_ACQUIRE))
		return;
	loop_lock(&loop_registry_lock);
	list_for_each(it, &t->listeners) {
		struct loop_listener *l = list_entry(it, struct loop_listener, link);
		struct list *far;

		while ((far = list_pop_head(&l->backlog))) {
			struct loop_end *e = list_entry(far, struct loop_end, link);

			l->n--;
			__atomic_sub_fetch(&t->backlog, 1, __ATOMIC_RELEASE);
			if (t->accepted < t->config.max_conns) {
				e->accepted = true;
				t->accepted++;
				loop_end_adopt(t, e);
			} else {
				loop_end_release(e);	/* refused */
			}
		}
	}
	loop_unlock(&loop_registry_lock);
}

/* The far end of @p to whoever listens on its name. 0 or -ECONNREFUSED. */
static int loop_call(struct loop_pair *p)
{
	struct loop_listener *l;
	int r = -ECONNREFUSED;

	loop_lock(&loop_registry_lock);
	l = loop_find_name(p->name);
	if (l && l->n < LOOP_BACKLOG) {
		list_push_tail(&l->backlog, &p->end[1].link);
		l->n++;
		__atomic_add_fetch(&l->owner->backlog, 1, __ATOMIC_RELEASE);
		loop_kick(l->owner);
		r = 0;
	}
	loop_unlock(&loop_registry_lock);
	return r;
}

static int loop_connect(struct transport *transport, const char *address, void *user,
			struct transport_conn **ret)
{
	struct loop *t = loop_of(transport);
	struct loop_pair *p;
	struct loop_end *e;
	int r;

	if (!loop_name_ok(address))
		return -EINVAL;
	p = loop_pair_new(address);
	if (!p)
		return -ENOMEM;
	e = &p->end[0];
	e->stream.base.user = user;
	loop_end_adopt(t, e);
	r = loop_call(p);
	if (r < 0) {
		e->stream.up_owed = false;
		loop_end_release(&p->end[1]);
		loop_end_finish(e, r, -ECONNRESET);
	}
	loop_own_work(e);
	*ret = &e->stream.base;
	return 0;
}

/* --- the table --- */

static void loop_close(struct transport *transport)
{
	struct loop *t = loop_of(transport);

	if (!t)
		return;
	list_for_each_safe(it, &t->listeners) {
		struct loop_listener *l = list_entry(it, struct loop_listener, link);

		loop_lock(&loop_registry_lock);
		list_remove(&l->registered);
		list_for_each_safe(far, &l->backlog)
			loop_end_release(list_entry(far, struct loop_end, link));
		loop_unlock(&loop_registry_lock);
		free(l);
	}
	list_for_each_safe(it, &t->conns)
		loop_end_release(list_entry(it, struct loop_end, link));
	list_for_each_safe(it, &t->dead)
		loop_end_release(list_entry(it, struct loop_end, link));
	cleanup_closep(&t->event_fd);
	(void)pthread_mutex_destroy(&t->kick_lock);	/* no pair names this transport now */
	free(t);
}

/* The pairs stay: their locks may be held by a thread that did not come along into the child. */
static void loop_abandon(struct transport *transport)
{
	struct loop *t = loop_of(transport);

	cleanup_closep(&t->event_fd);
	t->event_fd = -1;
}

static int loop_open(const struct transport_config *config, struct transport **ret)
{
	_cleanup_free_ struct loop *t = NULL;
	int r;

	if (!config || !config->clock)
		return -EINVAL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->base.ops = transport_loop();
	t->config = *config;
	t->idle = true;
	list_init(&t->conns);
	list_init(&t->dead);
	list_init(&t->listeners);
	r = pthread_mutex_init(&t->kick_lock, NULL);
	if (r)
		return -r;
	t->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (t->event_fd < 0) {
		r = -errno;
		(void)pthread_mutex_destroy(&t->kick_lock);	/* never locked */
		return r;
	}
	*ret = &TAKE_PTR(t)->base;
	return 0;
}

static int loop_disconnect(struct transport_conn *conn, bool drain)
{
	struct loop_end *e = loop_end_of(conn);

	if (e->stream.phase == STREAM_GONE)
		return -ENOTCONN;
	if (!drain) {
		if (e->stream.phase < STREAM_DOWN)
			loop_end_finish(e, -ECANCELED, -ECANCELED);
		return 0;
	}
	if (e->stream.phase == STREAM_UP)
		loop_end_start_drain(e);
	return 0;
}

static int loop_peer(struct transport_conn *conn, struct transport_peer *ret)
{
	struct transport_peer peer = { .has_cred = false };
	int r = snprintf(peer.text, sizeof(peer.text), "loop:%s", loop_end_of(conn)->pair->name);

	if (r < 0 || (size_t)r >= sizeof(peer.text))
		return -ENOSPC;
	*ret = peer;
	return 0;
}

static int loop_event_fd(struct transport *transport)
{
	return loop_of(transport)->event_fd;
}

static int loop_post_rx(struct transport_conn *conn, const struct transport_rx *rx, uint32_t n)
{
	int r = stream_rx_post(stream_of(conn), rx, n);

	if (r == 0)
		loop_own_work(loop_end_of(conn));
	return r;
}

static int loop_tx(struct transport_conn *conn, const struct transport_tx *tx, uint32_t n)
{
	int r = stream_tx_push(stream_of(conn), tx, n);

	if (r > 0)
		loop_own_work(loop_end_of(conn));
	return r;
}

static int loop_redirect_rx(struct transport_conn *conn, uint64_t cookie, void *to)
{
	return stream_rx_redirect(stream_of(conn), cookie, to);
}

static bool loop_is_heavy(const struct loop_end *e)
{
	return e->stream.phase == STREAM_UP &&
	       (stream_rx_is_more_than(&e->stream.rx, TRANSPORT_LIGHT_BYTES) ||
		stream_tx_is_more_than(&e->stream.tx, TRANSPORT_LIGHT_BYTES));
}

static bool loop_is_of_lot(const struct loop *t, const struct loop_end *e)
{
	return t->base.lot == TRANSPORT_ALL ||
	       (e->stream.base.bulk || loop_is_heavy(e)) == (t->base.lot == TRANSPORT_HEAVY);
}

static int loop_poll(struct transport *transport, struct transport_event *events, uint32_t max)
{
	struct stream_batch b = { .events = events, .max = max };
	struct loop *t = loop_of(transport);
	struct list *last;

	if (!max)
		return 0;
	list_for_each_safe(it, &t->dead) {
		struct loop_end *e = list_entry(it, struct loop_end, link);

		t->accepted -= e->accepted;
		loop_end_release(e);
	}
	loop_unkick(t);
	if (t->base.lot != TRANSPORT_HEAVY)
		t->base.left = 0;
	t->idle = false;
	t->moved = false;
	t->turn++;
	loop_accept(t);
	last = t->conns.prev;
	list_for_each_safe(it, &t->conns) {
		struct loop_end *e = list_entry(it, struct loop_end, link);

		if (!stream_room(&b))
			break;
		/* To the tail: who was not served comes first next time. */
		list_remove(&e->link);
		list_push_tail(&t->conns, &e->link);
		if (loop_is_of_lot(t, e))
			loop_end_serve(e, &b);
		else
			t->base.left += t->base.lot == TRANSPORT_LIGHT;
		if (it == last)
			break;
	}
	t->idle = !b.n && (t->base.lot != TRANSPORT_LIGHT || !t->base.left);
	if (t->idle && t->moved)
		loop_kick(t);
	return (int)b.n;
}

static int loop_flush(struct transport *transport)
{
	struct loop *t = loop_of(transport);

	list_for_each(it, &t->conns) {
		struct loop_end *e = list_entry(it, struct loop_end, link);

		if ((e->stream.phase == STREAM_UP || e->stream.phase == STREAM_DRAIN) &&
		    loop_is_of_lot(t, e))
			loop_end_send(e);
	}
	return 0;
}

static struct transport_ops loop_ops = {
	.name = "loop",
	.caps = TRANSPORT_RELIABLE | TRANSPORT_ORDERED | TRANSPORT_EVENT_FD,
	.limits = {
		.max_message = STREAM_MAX_MESSAGE,
		.max_iov = STREAM_MAX_IOV,
		.max_tx = STREAM_MAX_TX,
		.max_rx = STREAM_MAX_RX,
	},
	.open = loop_open,
	.close = loop_close,
	.listen = loop_listen,
	.connect = loop_connect,
	.disconnect = loop_disconnect,
	.peer = loop_peer,
	.event_fd = loop_event_fd,
	.post_rx = loop_post_rx,
	.tx = loop_tx,
	.poll = loop_poll,
	.flush = loop_flush,
	.redirect_rx = loop_redirect_rx,
	.bound = loop_bound,
	.abandon = loop_abandon,
};

static void loop_fill_table(void)
{
	transport_fill_defaults(&loop_ops);
}

const struct transport_ops *transport_loop(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, loop_fill_table);	/* can not fail with a valid once */
	return &loop_ops;
}
