/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp: a byte stream over non-blocking sockets, one epoll set per transport.
 *
 * Data sockets are watched edge-triggered, for both directions, from their first moment to their
 * last: no epoll_ctl on the data path. A connection remembers whether its socket can be read and
 * written (until a call comes back short) and stands on the transport's ready list while it has
 * anything to do; a poll serves that list round robin and asks epoll only when the list gave
 * nothing, and every few polls so that newcomers are seen. So a message costs one readv and one
 * sendmsg, and an idle spin one epoll_wait.
 *
 * A readv fills the posted buffers and, behind them, a bounded read-ahead. Small messages arrive
 * many at a time by the read-ahead; a large payload goes straight into the posted memory.
 *
 * The event fd is the epoll fd itself. Work that the kernel knows nothing of (bytes read ahead, a
 * turn that ran out of budget, an event for which there was no room) is made visible by an eventfd
 * inside the set, written only when the caller was told "nothing now" and may be about to sleep.
 * The rule for callers is: sleep only after a poll that returned 0.
 *
 * Several reactors share one listening socket: the first listens, the others take a dup of
 * listener_fd. SO_REUSEPORT would do it too, but lets a second daemon share the port silently.
 *
 * Accepted connections live in a pool that open reserved: accepting allocates nothing.
 */
#include "transport/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "transport/registry.h"

int tcp_socket(int family)
{
	_cleanup_close_ int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : TAKE_FD(fd);
}

static int tcp_open_pool(struct tcp *t)
{
	void *pool;

	if (!t->config.max_conns)
		return 0;
	if (__builtin_mul_overflow(sizeof(struct tcp_conn), (size_t)t->config.max_conns,
				   &t->pool_bytes))
		return -EINVAL;
	/* Address space only: a slot takes memory when it is first used. */
	pool = mmap(NULL, t->pool_bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (pool == MAP_FAILED)
		return -errno;
	t->pool = pool;
	return 0;
}

static int tcp_open_fds(struct tcp *t)
{
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll_fd < 0)
		return -errno;
	t->kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (t->kick_fd < 0)
		return -errno;
	t->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (t->spare_fd < 0)
		return -errno;
	/* Edge-triggered: epoll_wait alone takes a kick back, the counter is never read. */
	return tcp_watch(t, t->kick_fd, EPOLLIN | EPOLLET, &t->source);
}

static void tcp_close(struct transport *transport)
{
	struct tcp *t = tcp_of(transport);

	if (!t)
		return;
	list_for_each_safe(it, &t->conns)
		tcp_conn_free(list_entry(it, struct tcp_conn, link));
	list_for_each_safe(it, &t->dead)
		tcp_conn_free(list_entry(it, struct tcp_conn, link));
	for (unsigned i = 0; i < t->n_listeners; i++)
		cleanup_closep(&t->listeners[i].fd);
	cleanup_closep(&t->spare_fd);
	cleanup_closep(&t->kick_fd);
	cleanup_closep(&t->epoll_fd);
	if (t->pool)
		(void)munmap(t->pool, t->pool_bytes);	/* fails only on wrong arguments */
	free(t);
}

static void tcp_fd_drop(struct tcp_conn *c)
{
	const int fd = TAKE_FD(c->fd);

	cleanup_closep(&fd);
}

/* A connection without its descriptor is only memory: tcp_close then tells nobody anything. */
static void tcp_abandon(struct transport *transport)
{
	struct tcp *t = tcp_of(transport);

	list_for_each(it, &t->conns)
		tcp_fd_drop(list_entry(it, struct tcp_conn, link));
	list_for_each(it, &t->dead)
		tcp_fd_drop(list_entry(it, struct tcp_conn, link));
	tcp_close(transport);
}

static int tcp_open(const struct transport_config *config, struct transport **ret)
{
	struct tcp *t;
	int r;

	if (!config || !config->clock)
		return -EINVAL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->base.ops = transport_tcp();
	t->config = *config;
	t->source = TCP_SOURCE_KICK;
	t->epoll_fd = t->kick_fd = t->spare_fd = -1;
	t->idle = true;
	list_init(&t->ready);
	list_init(&t->conns);
	list_init(&t->dead);
	list_init(&t->timed);
	list_init(&t->free);
	r = tcp_open_fds(t);
	if (r == 0)
		r = tcp_open_pool(t);
	if (r < 0) {
		tcp_close(&t->base);
		return r;
	}
	*ret = &t->base;
	return 0;
}

static int tcp_listen(struct transport *transport, const char *address)
{
	_cleanup_close_ int fd = -1;
	struct tcp_address a;
	const int on = 1;
	int r;

	r = tcp_address_parse(address, &a);
	if (r < 0)
		return r;
	fd = tcp_socket(a.sa.any.sa_family);
	if (fd < 0)
		return fd;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	/* "[::]" means IPv6: an operator who wants both says both. */
	if (a.sa.any.sa_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
		return -errno;
	if (bind(fd, &a.sa.any, a.len) < 0 || listen(fd, TCP_BACKLOG) < 0)
		return -errno;
	r = tcp_listener_add(tcp_of(transport), fd);
	if (r < 0)
		return r;
	(void)TAKE_FD(fd);	/* the listener has it */
	return 0;
}

static int tcp_listen_fd(struct transport *transport, int fd)
{
	int listening = 0, type = 0, flags;
	socklen_t len = sizeof(listening);

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0)
		return -errno;
	len = sizeof(type);
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
		return -errno;
	if (!listening || type != SOCK_STREAM)
		return -EINVAL;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	return tcp_listener_add(tcp_of(transport), fd);
}

static int tcp_listener_fd(struct transport *transport)
{
	const struct tcp *t = tcp_of(transport);

	return t->n_listeners ? t->listeners[t->n_listeners - 1].fd : -ENOENT;
}

static int tcp_bound(struct transport *transport, char *text, size_t size)
{
	struct tcp_address a = { .len = sizeof(a.sa) };
	int fd = tcp_listener_fd(transport);

	if (fd < 0)
		return fd;
	if (getsockname(fd, &a.sa.any, &a.len) < 0)
		return -errno;
	return tcp_address_format(&a, text, size);
}

static int tcp_connect(struct transport *transport, const char *address, void *user,
		       struct transport_conn **ret)
{
	struct tcp_addresses to_try;
	struct tcp_conn *c;
	int r;

	r = tcp_address_resolve(address, &to_try);
	if (r < 0)
		return r;
	c = tcp_conn_new_connecting(tcp_of(transport));
	if (!c)
		return -ENOMEM;
	c->stream.base.user = user;
	c->to_try = to_try;
	tcp_conn_connect_next(c, -EHOSTUNREACH);
	*ret = &c->stream.base;
	return 0;
}

static int tcp_disconnect(struct transport_conn *conn, bool drain)
{
	struct tcp_conn *c = tcp_conn_of(conn);

	if (c->stream.phase == STREAM_GONE)
		return -ENOTCONN;
	if (drain && c->stream.phase == STREAM_UP)
		tcp_conn_drain(c);
	else if (!drain || c->stream.phase == STREAM_CONNECTING)
		tcp_conn_cut(c, -ECANCELED);
	return 0;
}

static int tcp_peer(struct transport_conn *conn, struct transport_peer *ret)
{
	const struct tcp_conn *c = tcp_conn_of(conn);
	struct transport_peer peer = { .has_cred = false };
	socklen_t len = sizeof(peer.cookie);
	int r = tcp_address_format(&c->peer, peer.text, sizeof(peer.text));

	if (r < 0)
		return r;
	/* an old kernel has none, and a socket may be gone: then it is 0 */
	if (getsockopt(c->fd, SOL_SOCKET, SO_COOKIE, &peer.cookie, &len) < 0)
		peer.cookie = 0;
	*ret = peer;
	return 0;
}

static int tcp_event_fd(struct transport *transport)
{
	return tcp_of(transport)->epoll_fd;
}

static int tcp_post_rx(struct transport_conn *conn, const struct transport_rx *rx, uint32_t n)
{
	struct tcp_conn *c = tcp_conn_of(conn);
	int r = stream_rx_post(&c->stream, rx, n);

	if (r < 0)
		return r;
	if (tcp_conn_has_work(c))
		tcp_make_ready(c);
	return 0;
}

static int tcp_tx(struct transport_conn *conn, const struct transport_tx *tx, uint32_t n)
{
	struct tcp_conn *c = tcp_conn_of(conn);
	int r = stream_tx_push(&c->stream, tx, n);

	if (r > 0 && tcp_conn_has_work(c))
		tcp_make_ready(c);
	return r;
}

static int tcp_redirect_rx(struct transport_conn *conn, uint64_t cookie, void *to)
{
	return stream_rx_redirect(stream_of(conn), cookie, to);
}

static struct transport_ops tcp_ops = {
	.name = "tcp",
	.caps = TRANSPORT_RELIABLE | TRANSPORT_ORDERED | TRANSPORT_EVENT_FD,
	.limits = {
		.max_message = STREAM_MAX_MESSAGE,
		.max_iov = STREAM_MAX_IOV,
		.max_tx = STREAM_MAX_TX,
		.max_rx = STREAM_MAX_RX,
	},
	.open = tcp_open,
	.close = tcp_close,
	.listen = tcp_listen,
	.listen_fd = tcp_listen_fd,
	.connect = tcp_connect,
	.disconnect = tcp_disconnect,
	.peer = tcp_peer,
	.event_fd = tcp_event_fd,
	.post_rx = tcp_post_rx,
	.tx = tcp_tx,
	.poll = tcp_poll,
	.flush = tcp_flush,
	.redirect_rx = tcp_redirect_rx,
	.bound = tcp_bound,
	.listener_fd = tcp_listener_fd,
	.abandon = tcp_abandon,
};

static void tcp_fill_table(void)
{
	transport_fill_defaults(&tcp_ops);
}

const struct transport_ops *transport_tcp(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, tcp_fill_table);	/* can not fail with a valid once */
	return &tcp_ops;
}
