/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of the tcp transport: how it begins, moves bytes and ends.
 *
 * Edge-triggered epoll tells a change once. can_read and can_write carry it on until a call comes
 * back short: a short read or write of a stream socket means that the kernel has no more just now,
 * and the next change is an edge again. Once the peer's end was seen (hup) no further edge need
 * come, so from then on only EAGAIN, an error or the end itself stops reading.
 *
 * A reset does not take away what had arrived before it: while buffers are posted, reading goes on
 * to the error itself, so that a last reply followed by a close with unread input is not lost.
 *
 * Ends: the peer's FIN is told as DOWN after what had arrived was taken and what was accepted for
 * sending has gone; an error at once; disconnect without drain resets, so that a stalled peer keeps
 * nothing in our kernel; disconnect with drain sends, shuts down, and keeps the socket (LINGER)
 * until the peer's kernel has it all, because closing over unread input would reset and lose it.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "transport/tcp.h"

#define TCP_CONN_EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

static void tcp_conn_init(struct tcp *t, struct tcp_conn *c)
{
	memset(c, 0, offsetof(struct tcp_conn, ahead));
	c->stream.base.transport = &t->base;
	c->source = TCP_SOURCE_CONN;
	c->fd = -1;
	list_init(&c->ready);
	list_init(&c->timed);
	list_init(&c->link);
	list_push_tail(&t->conns, &c->link);
}

struct tcp_conn *tcp_conn_new_accepted(struct tcp *t)
{
	struct list *it = list_pop_head(&t->free);
	struct tcp_conn *c;

	if (it)
		c = list_entry(it, struct tcp_conn, link);
	else if (t->pool_used < t->config.max_conns)
		c = &t->pool[t->pool_used++];
	else
		return NULL;
	tcp_conn_init(t, c);
	c->accepted = true;
	return c;
}

struct tcp_conn *tcp_conn_new_connecting(struct tcp *t)
{
	struct tcp_conn *c = malloc(sizeof(*c));

	if (c)
		tcp_conn_init(t, c);
	return c;
}

static void tcp_conn_close_fd(struct tcp_conn *c)
{
	if (c->fd < 0)
		return;
	tcp_unwatch(tcp_of_conn(c), c->fd);
	/* A forked child may hold the socket too; the peer must learn of the end all the same. */
	(void)shutdown(c->fd, SHUT_RDWR);	/* ENOTCONN: it knows */
	(void)close(TAKE_FD(c->fd));		/* the bytes' fate was decided before */
}

void tcp_conn_free(struct tcp_conn *c)
{
	struct tcp *t = tcp_of_conn(c);

	tcp_conn_close_fd(c);
	tcp_unready(c);
	list_remove(&c->timed);
	list_remove(&c->link);
	if (c->accepted)
		list_push_head(&t->free, &c->link);
	else
		free(c);
}

/* --- beginning --- */

/* 0: under way or done. */
static int tcp_conn_try(struct tcp_conn *c, const struct tcp_address *a)
{
	struct tcp *t = tcp_of_conn(c);
	_cleanup_close_ int fd = tcp_socket(a->sa.any.sa_family);
	const int on = 1;
	int r;

	if (fd < 0)
		return fd;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		return -errno;
	if (connect(fd, &a->sa.any, a->len) < 0 && errno != EINPROGRESS)
		return -errno;
	/* Watched from here on: adding tells the present state, so nothing was missed. */
	r = tcp_watch(t, fd, TCP_CONN_EVENTS, &c->source);
	if (r < 0)
		return r;
	c->fd = TAKE_FD(fd);
	c->peer = *a;
	return 0;
}

void tcp_conn_connect_next(struct tcp_conn *c, int error)
{
	while (c->to_try.next < c->to_try.n) {
		int r = tcp_conn_try(c, &c->to_try.a[c->to_try.next++]);

		if (r == 0)
			return;
		error = r;
	}
	tcp_conn_end(c, error, -ECONNRESET);
}

/* 0, or why connecting failed. */
static int tcp_conn_check_connected(const struct tcp_conn *c)
{
	struct tcp_address self = { .len = sizeof(self.sa) };
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return -errno;
	if (error)
		return -error;
	/* Nobody listens, the kernel picked the very port we ask for as ours, and TCP's
	 * simultaneous open has connected us to ourselves. */
	if (getsockname(c->fd, &self.sa.any, &self.len) < 0)
		return -errno;
	return tcp_address_equal(&self, &c->peer) ? -ECONNREFUSED : 0;
}

static void tcp_conn_connected(struct tcp_conn *c)
{
	int r = tcp_conn_check_connected(c);

	if (r < 0) {
		tcp_conn_close_fd(c);
		tcp_conn_connect_next(c, r);
		return;
	}
	c->stream.phase = STREAM_UP;
	c->stream.up_owed = true;
}

/* --- ending --- */

void tcp_conn_end(struct tcp_conn *c, int status, int cancel_status)
{
	tcp_conn_close_fd(c);
	stream_end(&c->stream, status, cancel_status);
	tcp_make_ready(c);
}

void tcp_conn_cut(struct tcp_conn *c, int status)
{
	const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

	/* Resets at once, also when a forked child holds the socket, which SO_LINGER would not. */
	if (c->fd >= 0)
		(void)connect(c->fd, &nowhere, sizeof(nowhere));	/* nothing left to reset */
	tcp_conn_end(c, status, -ECANCELED);
}

static void tcp_conn_set_deadline(struct tcp_conn *c, uint64_t ns)
{
	struct tcp *t = tcp_of_conn(c);

	c->deadline = clock_now(t->config.clock) + ns;
	if (list_empty(&c->timed))
		list_push_tail(&t->timed, &c->timed);
}

void tcp_conn_drain(struct tcp_conn *c)
{
	c->stream.phase = STREAM_DRAIN;
	tcp_conn_set_deadline(c, TCP_DRAIN_STALL);
	tcp_make_ready(c);
}

/* The peer's kernel has everything but, perhaps, our FIN; or there is no telling. */
static bool tcp_conn_delivered(const struct tcp_conn *c)
{
	int queued = 0;

	return ioctl(c->fd, SIOCOUTQ, &queued) < 0 || queued <= 1;
}

static void tcp_conn_drained(struct tcp_conn *c)
{
	(void)shutdown(c->fd, SHUT_WR);	/* ENOTCONN: reset meanwhile, which reading tells */
	if (tcp_conn_delivered(c)) {
		tcp_conn_end(c, 0, -ECANCELED);
		return;
	}
	tcp_conn_set_deadline(c, TCP_LINGER);
	stream_end(&c->stream, 0, -ECANCELED);
}

void tcp_conn_timed(struct tcp_conn *c, uint64_t now)
{
	if (c->fd < 0)
		return;
	if (c->stream.phase >= STREAM_DOWN && tcp_conn_delivered(c))
		tcp_conn_end(c, 0, -ECANCELED);
	else if (now >= c->deadline)
		tcp_conn_cut(c, -ETIMEDOUT);
}

/* Sending is over. @error: what the failed call said, 0 when epoll told it. */
static void tcp_conn_break(struct tcp_conn *c, int error)
{
	socklen_t len = sizeof(int);
	int pending = 0;

	c->hup = true;
	c->can_read = true;
	if (c->broken || c->fd < 0)
		return;
	c->broken = true;
	if (!error && getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &pending, &len) == 0)
		error = pending;
	c->error = error && error != EPIPE ? -error : -ECONNRESET;
}

/* --- bytes --- */

static void tcp_conn_new_turn(struct tcp_conn *c)
{
	const struct tcp *t = tcp_of_conn(c);

	if (c->turn == t->turn)
		return;
	c->turn = t->turn;
	c->rx_budget = c->tx_budget = t->base.slice ? MIN(t->base.slice, TRANSPORT_TURN_BYTES) :
						      TRANSPORT_TURN_BYTES;
}

void tcp_conn_send(struct tcp_conn *c)
{
	struct stream_tx *q = &c->stream.tx;
	struct iovec iov[TCP_TX_PIECES];
	size_t bytes;

	tcp_conn_new_turn(c);
	while (stream_tx_unsent(q) && c->can_write && c->tx_budget && !c->broken) {
		struct msghdr msg = { .msg_iov = iov };
		ssize_t sent;

		msg.msg_iovlen = stream_tx_gather(q, iov, TCP_TX_PIECES, c->tx_budget, &bytes);
		sent = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN)
				c->can_write = false;
			else
				tcp_conn_break(c, errno);
			return;
		}
		stream_tx_advance(q, (size_t)sent);
		c->tx_budget -= (size_t)sent;
		tcp_of_conn(c)->base.moved += (size_t)sent;
		if ((size_t)sent < bytes)
			c->can_write = false;
		if (c->stream.phase == STREAM_DRAIN)
			tcp_conn_set_deadline(c, TCP_DRAIN_STALL);
	}
}

/* What a call that wanted @want bytes got. True: @got bytes are there. */
static bool tcp_conn_got(struct tcp_conn *c, ssize_t got, size_t want)
{
	if (got < 0) {
		if (errno == EINTR)
			return false;
		if (errno != EAGAIN)
			tcp_conn_break(c, errno);
		c->can_read = false;	/* an error was told by this very call: it is the end */
		return false;
	}
	if (got == 0) {
		c->eof = true;
		c->can_read = false;
		return false;
	}
	if ((size_t)got < want && !c->hup)
		c->can_read = false;
	tcp_of_conn(c)->base.moved += (size_t)got;
	return true;
}

/* The kernel throws away what it would have copied; the read-ahead (empty now) is only named. */
static ssize_t tcp_conn_skip(struct tcp_conn *c, size_t want)
{
	ssize_t got;

	want = MIN(want, (size_t)TCP_AHEAD);
	got = recv(c->fd, c->ahead, want, MSG_TRUNC | MSG_DONTWAIT);
	return tcp_conn_got(c, got, want) ? got : 0;
}

static void tcp_conn_receive_thrown(struct tcp_conn *c, struct stream_batch *b)
{
	const struct stream_rx_slot *slot = stream_rx_first(&c->stream.rx);
	size_t want = MIN((size_t)(slot->length - slot->filled), c->rx_budget);
	ssize_t got = tcp_conn_skip(c, want);

	c->rx_budget -= (size_t)got;
	(void)stream_rx_advance(&c->stream, b, (size_t)got);	/* all of it is this buffer's */
}

static void tcp_conn_receive(struct tcp_conn *c, struct stream_batch *b)
{
	struct iovec iov[TCP_RX_PIECES + 1];
	uint32_t n = MIN(TCP_RX_PIECES, stream_room(b));
	size_t posted, ahead = 0, over;
	ssize_t got;

	n = stream_rx_gather(&c->stream.rx, iov, n, c->rx_budget, &posted);
	/* bytes behind the gathered buffers belong into those that are left, if there are any */
	if (n == stream_rx_count(&c->stream.rx) && !stream_rx_ends_partial(&c->stream.rx))
		ahead = MIN((size_t)(tcp_of_conn(c)->heavy ? TCP_AHEAD_LIGHT : TCP_AHEAD),
			    c->rx_budget - posted);
	if (ahead)
		iov[n++] = (struct iovec){ .iov_base = c->ahead, .iov_len = ahead };
	got = readv(c->fd, iov, (int)n);
	if (!tcp_conn_got(c, got, posted + ahead))
		return;
	over = stream_rx_advance(&c->stream, b, (size_t)got);
	c->rx_budget -= (size_t)got - over;
	c->ahead_start = 0;
	c->ahead_end = (uint32_t)over;
}

static void tcp_conn_serve_rx(struct tcp_conn *c, struct stream_batch *b)
{
	struct stream *s = &c->stream;

	while (!stream_rx_empty(&s->rx) && stream_room(b) && c->rx_budget) {
		size_t ahead = c->ahead_end - c->ahead_start;

		if (ahead) {
			size_t n = stream_rx_copy(s, b, c->ahead + c->ahead_start,
						  MIN(ahead, c->rx_budget));

			c->ahead_start += (uint32_t)n;
			c->rx_budget -= n;
		} else if (!c->can_read) {
			return;
		} else if (stream_rx_first(&s->rx)->data) {
			tcp_conn_receive(c, b);
		} else {
			tcp_conn_receive_thrown(c, b);
		}
	}
}

/* Without a posted buffer nothing is read, but a peer that has left must be noticed all the same:
 * is its end the next thing to read? */
static void tcp_conn_look(struct tcp_conn *c)
{
	char byte;
	ssize_t got;

	c->look = false;
	if (!c->hup || !c->can_read || !stream_rx_empty(&c->stream.rx) ||
	    c->ahead_start != c->ahead_end)
		return;
	got = recv(c->fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);
	(void)tcp_conn_got(c, got, sizeof(byte));	/* told by can_read, eof, broken */
}

static void tcp_conn_serve_tx(struct tcp_conn *c, struct stream_batch *b)
{
	tcp_conn_send(c);
	stream_tx_report(&c->stream, b);
}

static void tcp_conn_serve_up(struct tcp_conn *c, struct stream_batch *b)
{
	if (c->rx_first)
		tcp_conn_serve_rx(c, b);
	tcp_conn_serve_tx(c, b);
	if (!c->rx_first)
		tcp_conn_serve_rx(c, b);
	c->rx_first = !c->rx_first;
	tcp_conn_look(c);
	if (c->broken) {
		bool more = !stream_rx_empty(&c->stream.rx) &&
			    (c->can_read || c->ahead_start != c->ahead_end);

		if (!more)
			tcp_conn_end(c, c->error, -ECONNRESET);
	} else if (c->eof && !stream_tx_unsent(&c->stream.tx)) {
		tcp_conn_end(c, 0, -ECONNRESET);
	}
}

/* Input of a connection that is being ended is thrown away, so that the peer is not blocked. */
static void tcp_conn_discard(struct tcp_conn *c)
{
	while (c->can_read && c->rx_budget)
		c->rx_budget -= (size_t)tcp_conn_skip(c, c->rx_budget);
}

static void tcp_conn_serve_drain(struct tcp_conn *c, struct stream_batch *b)
{
	tcp_conn_serve_tx(c, b);
	tcp_conn_discard(c);
	if (c->broken)
		tcp_conn_end(c, c->error, -ECONNRESET);
	else if (!stream_tx_unsent(&c->stream.tx) && !stream_tx_unreported(&c->stream.tx))
		tcp_conn_drained(c);
}

static void tcp_conn_gone(struct tcp_conn *c, struct stream_batch *b)
{
	struct tcp *t = tcp_of_conn(c);

	if (!stream_room(b))
		return;
	(void)stream_emit(&c->stream, b, TRANSPORT_CONN_GONE);	/* has no further field */
	c->stream.phase = STREAM_GONE;
	list_remove(&c->timed);
	list_remove(&c->link);
	list_push_tail(&t->dead, &c->link);
}

void tcp_conn_serve(struct tcp_conn *c, struct stream_batch *b)
{
	struct stream *s = &c->stream;

	tcp_conn_new_turn(c);
	stream_report_up(s, b);
	if (s->up_owed)
		return;
	if (s->phase == STREAM_UP)
		tcp_conn_serve_up(c, b);
	else if (s->phase == STREAM_DRAIN)
		tcp_conn_serve_drain(c, b);
	if ((s->phase == STREAM_DOWN || s->phase == STREAM_RETURN) && stream_finish(s, b))
		s->phase = STREAM_LINGER;
	if (s->phase != STREAM_LINGER)
		return;
	if (c->fd >= 0)
		tcp_conn_discard(c);
	if (c->fd >= 0 && (c->broken || c->eof))
		tcp_conn_close_fd(c);
	if (c->fd < 0)
		tcp_conn_gone(c, b);
}

bool tcp_conn_is_heavy(const struct tcp_conn *c)
{
	const struct stream *s = &c->stream;

	if (s->phase != STREAM_UP)
		return false;
	if (c->can_read && stream_rx_is_more_than(&s->rx, TRANSPORT_LIGHT_BYTES))
		return true;
	return c->can_write && stream_tx_is_more_than(&s->tx, TRANSPORT_LIGHT_BYTES);
}

bool tcp_conn_has_work(const struct tcp_conn *c)
{
	const struct stream *s = &c->stream;

	switch ((enum stream_phase)s->phase) {
	case STREAM_UP:
		if (s->up_owed || c->broken || c->look || stream_tx_unreported(&s->tx))
			return true;
		if (stream_tx_unsent(&s->tx) ? c->can_write : c->eof)
			return true;
		return !stream_rx_empty(&s->rx) && (c->can_read || c->ahead_start != c->ahead_end);
	case STREAM_DRAIN:
		return c->broken || c->can_read || stream_tx_unreported(&s->tx) ||
		       !stream_tx_unsent(&s->tx) || c->can_write;
	case STREAM_DOWN:
	case STREAM_RETURN:
		return true;
	case STREAM_LINGER:
		return c->fd < 0 || c->can_read || c->broken || c->eof;
	case STREAM_CONNECTING:
	case STREAM_GONE:
		break;
	}
	return false;
}

void tcp_conn_happened(struct tcp_conn *c, uint32_t events)
{
	if (c->stream.phase == STREAM_CONNECTING) {
		if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
			return;
		tcp_conn_connected(c);
		if (c->stream.phase != STREAM_UP)
			return;
	}
	if (events & (EPOLLIN | EPOLLRDHUP))
		c->can_read = true;
	if (events & EPOLLRDHUP)
		c->hup = c->look = true;
	if (events & EPOLLOUT)
		c->can_write = true;
	if (events & (EPOLLERR | EPOLLHUP))
		tcp_conn_break(c, 0);
	if (tcp_conn_has_work(c))
		tcp_make_ready(c);
}
