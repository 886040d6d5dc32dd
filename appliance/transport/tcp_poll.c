/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One poll of the tcp transport, and its promise about sleeping.
 *
 * The ready list is the only memory of what is to be done. Invariants between calls:
 *  - a connection for which tcp_conn_has_work is true stands on the ready list;
 *  - while the caller may sleep (idle: the last poll returned 0), a non-empty ready list implies
 *    that the kick was written and not yet taken back, so that the epoll fd is readable.
 * epoll_wait takes the kick back, so a poll that returns 0 with work left writes it again.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/tcp.h"

int tcp_watch(struct tcp *t, int fd, uint32_t events, void *source)
{
	struct epoll_event ev = { .events = events, .data.ptr = source };

	return epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

void tcp_unwatch(struct tcp *t, int fd)
{
	/* Explicitly, before close: a forked child may hold the same socket open, and then closing
	 * alone would leave the registration behind. */
	(void)epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, fd, NULL);	/* ENOENT while paused */
}

static void tcp_kick(struct tcp *t)
{
	const uint64_t one = 1;

	if (t->kicked)
		return;
	/* The counter can not overflow in practice (2^64 - 2 kicks), and EAGAIN would still mean
	 * that it is readable. */
	if (write(t->kick_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		log_err(t->config.log, "tcp: eventfd: %m");
	t->kicked = true;
}

void tcp_make_ready(struct tcp_conn *c)
{
	struct tcp *t = tcp_of_conn(c);

	if (list_empty(&c->ready)) {
		list_push_tail(&t->ready, &c->ready);
		t->n_ready++;
	}
	if (t->idle)
		tcp_kick(t);
}

void tcp_unready(struct tcp_conn *c)
{
	if (list_empty(&c->ready))
		return;
	list_remove(&c->ready);
	tcp_of_conn(c)->n_ready--;
}

static int tcp_harvest(struct tcp *t)
{
	int n = epoll_wait(t->epoll_fd, t->harvest, TCP_HARVEST, 0);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	t->polls = 0;
	for (int i = 0; i < n; i++) {
		uint8_t *source = t->harvest[i].data.ptr;

		switch (*source) {
		case TCP_SOURCE_KICK:
			t->kicked = false;
			break;
		case TCP_SOURCE_LISTENER:
			tcp_accept(t, container_of(source, struct tcp_listener, source));
			break;
		default:
			tcp_conn_happened(container_of(source, struct tcp_conn, source),
					  t->harvest[i].events);
			break;
		}
	}
	return 0;
}

static bool tcp_is_of_lot(const struct tcp *t, const struct tcp_conn *c)
{
	return t->base.lot == TRANSPORT_ALL ||
	       (c->stream.base.bulk || tcp_conn_is_heavy(c)) ==
		       (t->base.lot == TRANSPORT_HEAVY);
}

static bool tcp_slice_is_over(const struct tcp *t)
{
	return t->base.lot == TRANSPORT_HEAVY && t->base.slice && t->base.moved >= t->base.slice;
}

/* Each connection that was ready is served at most once, and goes to the tail if it still is. */
static void tcp_serve(struct tcp *t, struct stream_batch *b)
{
	for (uint32_t n = t->n_ready; n && stream_room(b) && !tcp_slice_is_over(t); n--) {
		struct tcp_conn *c = list_entry(t->ready.next, struct tcp_conn, ready);
		bool ours = tcp_is_of_lot(t, c);

		tcp_unready(c);
		if (ours)
			tcp_conn_serve(c, b);
		else if (t->base.lot == TRANSPORT_LIGHT)
			t->heavy = ++t->base.left;
		if (!ours || tcp_conn_has_work(c))
			tcp_make_ready(c);
	}
}

static void tcp_check_time(struct tcp *t)
{
	uint64_t now;

	if (list_empty(&t->timed) && !t->accept_paused)
		return;
	now = clock_now(t->config.clock);
	if (t->accept_paused)
		tcp_accept_resume(t, now);
	list_for_each_safe(it, &t->timed)
		tcp_conn_timed(list_entry(it, struct tcp_conn, timed), now);
}

int tcp_poll(struct transport *transport, struct transport_event *events, uint32_t max)
{
	struct stream_batch b = { .events = events, .max = max };
	struct tcp *t = tcp_of(transport);
	bool look = t->base.lot != TRANSPORT_HEAVY;	/* the LIGHT poll before it has looked */
	int r;

	if (!max)
		return 0;
	list_for_each_safe(it, &t->dead)
		tcp_conn_free(list_entry(it, struct tcp_conn, link));
	t->turn++;
	t->base.moved = 0;
	t->idle = false;
	if (look) {
		t->heavy = t->base.left > 0;
		t->base.left = 0;
	}
	tcp_check_time(t);
	if (look && (list_empty(&t->ready) || ++t->polls >= TCP_POLLS_PER_HARVEST)) {
		r = tcp_harvest(t);
		if (r < 0)
			return r;
	}
	tcp_serve(t, &b);
	/* The ready list gave nothing: what has come in since the last look? */
	if (look && !b.n && list_empty(&t->ready) && t->polls) {
		r = tcp_harvest(t);
		if (r < 0)
			return r;
		tcp_serve(t, &b);
	}
	t->idle = !b.n && (look ? !t->base.left : !t->base.slice || !t->base.moved);
	if (t->idle && !list_empty(&t->ready))
		tcp_kick(t);
	return (int)b.n;
}

int tcp_flush(struct transport *transport)
{
	struct tcp *t = tcp_of(transport);

	list_for_each(it, &t->ready) {
		struct tcp_conn *c = list_entry(it, struct tcp_conn, ready);

		if ((c->stream.phase == STREAM_UP || c->stream.phase == STREAM_DRAIN) &&
		    tcp_is_of_lot(t, c))
			tcp_conn_send(c);
	}
	return 0;
}
