/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How connections begin: the path, accept, connect.
 *
 * The socket's file is world-accessible: who may do what is decided by HELLO and by the kernel's
 * word on the peer (SO_PEERCRED), not by file modes. A file that a dead node left is removed, but
 * only when a probe shows that no socket is behind it; at the end ours is removed, but only when
 * the path still leads to it.
 *
 * accept takes its connections from a slab made by listen, so that poll allocates nothing. When it
 * is used up, or the process is out of descriptors, a newcomer is accepted and closed at once: it
 * learns of it, and the listening socket does not stay readable for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/log.h"
#include "transport/shm.h"

#define LISTEN_ACCEPTS_PER_POLL 16u
#define LISTEN_MODE 0666

static int listen_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

static int listen_address(const char *path, struct sockaddr_un *ret)
{
	size_t len = path ? strlen(path) : 0;

	if (!len)
		return -EINVAL;
	if (len >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	memcpy(ret->sun_path, path, len + 1);
	return 0;
}

/*
 * 0: @path was a socket that belongs to nobody, and is gone now. The probe is a datagram socket: on
 * a path with a live socket of our type connect answers EPROTOTYPE (ECONNREFUSED only when no
 * socket is behind the file), so the owner is not bothered with a connection, and one that is
 * bound but does not listen yet is not taken for dead.
 */
static int listen_remove_stale(const struct sockaddr_un *sa)
{
	_cleanup_close_ int probe = -1;
	struct stat st;

	if (lstat(sa->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EADDRINUSE;
	probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (probe < 0)
		return -errno;
	if (connect(probe, (const struct sockaddr *)sa, sizeof(*sa)) == 0)
		return -EADDRINUSE;
	if (errno != ECONNREFUSED)
		return errno == ENOENT ? 0 : -EADDRINUSE;
	if (unlink(sa->sun_path) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

static int listen_bind(int fd, const struct sockaddr_un *sa)
{
	int r;

	if (bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) == 0)
		return 0;
	if (errno != EADDRINUSE)
		return -errno;
	r = listen_remove_stale(sa);
	if (r < 0)
		return r;
	return bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0 ? -errno : 0;
}

/* What a listening transport needs besides its socket. Undone by shm_unlisten. */
static int listen_prepare(struct shm_transport *t, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = t };
	int r;

	r = shm_guard_install();
	if (r < 0)
		return r;
	if (!t->slab && t->config.max_conns) {
		t->slab = calloc(t->config.max_conns, sizeof(*t->slab));
		if (!t->slab)
			return -ENOMEM;
		for (uint32_t i = 0; i < t->config.max_conns; i++)
			list_push_tail(&t->spare, &t->slab[i].link);
	}
	if (t->spare_fd < 0)
		t->spare_fd = fcntl(t->kick_fd, F_DUPFD_CLOEXEC, 0);
	if (t->spare_fd < 0)
		return -errno;
	/* Exclusive: several reactors share a listening socket, one wakes up for a newcomer. */
	return epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int listen_bound(struct shm_transport *t, int fd, const struct sockaddr_un *sa)
{
	struct stat st;
	int r;

	if (chmod(sa->sun_path, LISTEN_MODE) < 0 || lstat(sa->sun_path, &st) < 0)
		return -errno;
	if (listen(fd, SOMAXCONN) < 0)
		return -errno;
	r = listen_prepare(t, fd);
	if (r < 0)
		return r;
	memcpy(t->path, sa->sun_path, sizeof(t->path));
	t->path_dev = st.st_dev;
	t->path_ino = st.st_ino;
	return 0;
}

int shm_listen(struct transport *base, const char *address)
{
	struct shm_transport *t = shm_of(base);
	_cleanup_close_ int fd = -1;
	struct sockaddr_un sa;
	int r;

	if (t->listen_fd >= 0)
		return -EALREADY;
	r = listen_address(address, &sa);
	if (r < 0)
		return r;
	fd = listen_socket();
	if (fd < 0)
		return fd;
	r = listen_bind(fd, &sa);
	if (r < 0)
		return r;
	r = listen_bound(t, fd, &sa);
	if (r < 0) {
		(void)unlink(sa.sun_path);	/* ours since a moment ago */
		return r;
	}
	t->listen_fd = TAKE_FD(fd);
	return 0;
}

static int listen_option(int fd, int option)
{
	socklen_t len = sizeof(int);
	int value;

	if (getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0)
		return -errno;
	return value;
}

int shm_listen_fd(struct transport *base, int fd)
{
	struct shm_transport *t = shm_of(base);
	int flags, r;

	if (t->listen_fd >= 0)
		return -EALREADY;
	if (listen_option(fd, SO_DOMAIN) != AF_UNIX ||
	    listen_option(fd, SO_TYPE) != SOCK_SEQPACKET || listen_option(fd, SO_ACCEPTCONN) != 1)
		return -EINVAL;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	r = listen_prepare(t, fd);
	if (r < 0)
		return r;
	t->path[0] = '\0';
	t->listen_fd = fd;
	return 0;
}

void shm_unlisten(struct shm_transport *t)
{
	struct stat st;

	if (t->listen_fd < 0)
		return;
	if (t->path[0] && lstat(t->path, &st) == 0 && st.st_dev == t->path_dev &&
	    st.st_ino == t->path_ino && unlink(t->path) < 0)
		log_warning(t->config.log, "shm: %s stays: %s", t->path, strerror(errno));
	t->path[0] = '\0';
	(void)epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, t->listen_fd, NULL);
	(void)close(TAKE_FD(t->listen_fd));	/* a socket: nothing that could fail late */
}

/* --- connections --------------------------------------------------------------------------- */

static void listen_credentials(struct shm_conn *c, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	c->pid = 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return;				/* then shm_peer says that there are none */
	c->pid = cred.pid;
	c->uid = cred.uid;
	c->gid = cred.gid;
}

/* Out of descriptors: the spare one makes room to tell the newcomer by closing. */
static int listen_refuse(struct shm_transport *t)
{
	int fd;

	if (t->spare_fd < 0)
		return -EMFILE;
	(void)close(TAKE_FD(t->spare_fd));
	fd = accept4(t->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		(void)close(fd);
	t->spare_fd = fcntl(t->kick_fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -EAGAIN : 0;
}

static void listen_take(struct shm_transport *t, int fd)
{
	struct list *l = list_pop_head(&t->spare);
	struct shm_conn *c;

	if (!l) {
		(void)close(fd);
		log_notice(t->config.log, "shm: a connection is refused: %u are open",
			   t->config.max_conns);
		return;
	}
	c = list_entry(l, struct shm_conn, link);
	c->accepted = true;
	listen_credentials(c, fd);
	if (shm_conn_start(t, c, fd, 0) < 0) {
		(void)close(fd);
		list_push_tail(&t->spare, &c->link);
	}
}

void shm_accept(struct shm_transport *t)
{
	for (unsigned i = 0; i < LISTEN_ACCEPTS_PER_POLL; i++) {
		int fd = accept4(t->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			listen_take(t, fd);
		} else if (errno == EMFILE || errno == ENFILE) {
			if (listen_refuse(t) < 0)
				return;
		} else if (errno != ECONNABORTED && errno != EINTR) {
			return;		/* nobody there, or the system is short: next poll */
		}
	}
}

/* 0: connected or known to have failed (then *status says so). */
static int connect_socket(const char *address, int *ret_fd, int *status)
{
	_cleanup_close_ int fd = -1;
	struct sockaddr_un sa;
	int r;

	r = listen_address(address, &sa);
	if (r < 0)
		return r;
	fd = listen_socket();
	if (fd < 0)
		return fd;
	*status = 0;
	/* Local and non-blocking: it has worked or failed when it returns. */
	if (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0)
		*status = -errno;
	else
		*ret_fd = TAKE_FD(fd);
	return 0;
}

int shm_connect(struct transport *base, const char *address, void *user,
		struct transport_conn **ret)
{
	struct shm_transport *t = shm_of(base);
	_cleanup_free_ struct shm_conn *c = NULL;
	_cleanup_close_ int fd = -1;
	int status, r;

	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	r = connect_socket(address, &fd, &status);
	if (r < 0)
		return r;
	if (fd >= 0)
		listen_credentials(c, fd);
	r = shm_conn_start(t, c, fd, status);
	if (r < 0)
		return r;
	(void)TAKE_FD(fd);			/* the connection's now */
	c->base.user = user;
	if (!status && t->config.gates) {
		r = shm_gates_create(c, t->config.gates);
		if (r < 0) {
			shm_conn_release(c);	/* the next poll frees it */
			(void)TAKE_PTR(c);
			return r;
		}
	}
	*ret = &TAKE_PTR(c)->base;
	return 0;
}
