/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets. Several reactors watch the same one, level-triggered and exclusive: a new
 * connection wakes one of them.
 *
 * A connection that can not be taken is refused at once: its socket is accepted and closed, so that
 * the peer learns of it now. With no descriptor left even accept fails and the listener would stay
 * readable for ever; then the spare descriptor is given up for the moment that accepting and
 * closing takes. When nothing helps, listening pauses for a tenth of a second instead of spinning.
 */
#include "transport/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/log.h"

#define TCP_LISTENER_EVENTS (EPOLLIN | EPOLLEXCLUSIVE)

int tcp_listener_add(struct tcp *t, int fd)
{
	struct tcp_listener *l = &t->listeners[t->n_listeners];

	if (t->n_listeners == TCP_LISTENERS)
		return -ENOSPC;
	*l = (struct tcp_listener){ .source = TCP_SOURCE_LISTENER, .fd = fd };
	if (!t->accept_paused) {
		int r = tcp_watch(t, fd, TCP_LISTENER_EVENTS, l);

		if (r < 0)
			return r;
	}
	t->n_listeners++;
	return 0;
}

static void tcp_accept_pause(struct tcp *t, int error)
{
	if (!t->accept_warned)
		log_warning(t->config.log, "tcp: accepting pauses: %s", strerror(error));
	t->accept_warned = true;
	if (t->accept_paused)
		return;
	t->accept_paused = true;
	t->accept_again = clock_now(t->config.clock) + TCP_ACCEPT_PAUSE;
	/* EPOLLEXCLUSIVE can not be modified, only removed and added. */
	for (unsigned i = 0; i < t->n_listeners; i++)
		tcp_unwatch(t, t->listeners[i].fd);
}

void tcp_accept_resume(struct tcp *t, uint64_t now)
{
	if (now < t->accept_again)
		return;
	for (unsigned i = 0; i < t->n_listeners; i++) {
		int r = tcp_watch(t, t->listeners[i].fd, TCP_LISTENER_EVENTS, &t->listeners[i]);

		if (r < 0 && r != -EEXIST) {	/* some may be back already: tried again later */
			t->accept_again = now + TCP_ACCEPT_PAUSE;
			return;
		}
	}
	t->accept_paused = false;
}

/* Turns one connection away with the spare descriptor. 1: done; 0: none was waiting (without a
 * descriptor accept does not even look); -errno: that did not work either. */
static int tcp_accept_spare(struct tcp *t, const struct tcp_listener *l)
{
	int fd, r;

	if (t->spare_fd < 0)
		t->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (t->spare_fd < 0)
		return -errno;
	(void)close(TAKE_FD(t->spare_fd));	/* /dev/null: nothing to lose */
	fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	r = fd < 0 ? -errno : 1;
	if (fd >= 0)
		(void)close(fd);	/* refused */
	t->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (t->spare_fd < 0)
		return -errno;
	return r == -EAGAIN ? 0 : r;
}

static void tcp_accepted(struct tcp *t, int accepted_fd, const struct tcp_address *peer)
{
	_cleanup_close_ int fd = accepted_fd;
	const int on = 1;
	struct tcp_conn *c;

	/* Fails only where it does not matter, e.g. the peer has reset already. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	c = tcp_conn_new_accepted(t);
	if (!c)
		return;
	if (tcp_watch(t, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &c->source) < 0) {
		tcp_conn_free(c);
		return;
	}
	c->fd = TAKE_FD(fd);
	c->peer = *peer;
	c->stream.phase = STREAM_UP;
	c->stream.up_owed = true;
	c->can_write = true;
	tcp_make_ready(c);
}

/* accept failed. True: go on with the next one. */
static bool tcp_accept_failed(struct tcp *t, const struct tcp_listener *l, int error)
{
	int r;

	switch (error) {
	case EAGAIN:
		return false;
	case EMFILE:
	case ENFILE:
		r = tcp_accept_spare(t, l);
		if (r == 0)
			return false;
		if (!t->accept_warned)
			log_warning(t->config.log, "tcp: connections are refused: %s",
				    strerror(error));
		t->accept_warned = true;
		if (r < 0)
			tcp_accept_pause(t, -r);
		return r > 0;
	case ENOBUFS:
	case ENOMEM:
	case EBADF:
	case EINVAL:
	case ENOTSOCK:
	case EOPNOTSUPP:
		tcp_accept_pause(t, error);
		return false;
	default:	/* that connection's own trouble, e.g. ECONNABORTED */
		return true;
	}
}

void tcp_accept(struct tcp *t, struct tcp_listener *l)
{
	for (unsigned i = 0; i < TCP_ACCEPTS_PER_POLL && !t->accept_paused; i++) {
		struct tcp_address peer = { .len = sizeof(peer.sa) };
		int fd = accept4(l->fd, &peer.sa.any, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			t->accept_warned = false;
			tcp_accepted(t, fd, &peer);
		} else if (!tcp_accept_failed(t, l, errno)) {
			return;
		}
	}
}
