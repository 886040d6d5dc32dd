/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few connections at most, each with a bounded line and a deadline, so that nobody can make the
 * daemon hold anything. Who may ask what is decided by the kernel's word alone: root and the
 * daemon's own user may do all, the admin group's members too, the stats group's may read.
 */
#include "control.h"

#include <errno.h>
#include <grp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control_protocol.h"
#include "say.h"

#define CONTROL_CONNS 16u
#define CONTROL_TIMEOUT_US (LARDER_CONTROL_TIMEOUT_MS * 1000ull)
#define CONTROL_GROUPS 1024

struct control_conn {
	struct control *control;
	int fd;			/* -1: this place is free */
	sd_event_source *io;
	sd_event_source *timer;
	enum control_right right;
	size_t in_len;
	char in[LARDER_CONTROL_REQUEST_MAX];
	char *out;		/* answer under way */
	size_t out_len;
	size_t out_sent;
	int out_fd;		/* passed with its first byte; -1 = none */
};

struct control {
	sd_event *event;
	sd_event_source *io;
	control_answer_fn *answer;
	void *user;
	const struct larder_log *log;
	int fd;
	struct sockaddr_un address;
	ino_t inode;
	gid_t stats_gid;	/* (gid_t)-1: no such group */
	gid_t admin_gid;
	struct control_conn conn[CONTROL_CONNS];
};

static void conn_close(struct control_conn *c)
{
	c->io = sd_event_source_disable_unref(c->io);
	c->timer = sd_event_source_disable_unref(c->timer);
	if (c->fd >= 0)
		(void)close(c->fd);
	if (c->out_fd >= 0)
		(void)close(c->out_fd);
	free(c->out);
	c->out = NULL;
	c->fd = c->out_fd = -1;
	c->in_len = c->out_len = c->out_sent = 0;
}

static bool control_in_group(const struct ucred *cred, const gid_t *groups, size_t n, gid_t wanted)
{
	if (wanted == (gid_t)-1)
		return false;
	if (cred->gid == wanted)
		return true;
	for (size_t i = 0; i < n; i++)
		if (groups[i] == wanted)
			return true;
	return false;
}

static enum control_right control_right(const struct control *c, int fd)
{
	struct ucred cred;
	gid_t groups[CONTROL_GROUPS];
	socklen_t len = sizeof(cred);
	socklen_t groups_len = sizeof(groups);
	size_t n = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return CONTROL_RIGHT_NONE;
	if (cred.uid == 0 || cred.uid == geteuid())
		return CONTROL_RIGHT_ADMIN;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &groups_len) == 0)
		n = groups_len / sizeof(groups[0]);
	if (control_in_group(&cred, groups, n, c->admin_gid))
		return CONTROL_RIGHT_ADMIN;
	return control_in_group(&cred, groups, n, c->stats_gid) ? CONTROL_RIGHT_STATS
								: CONTROL_RIGHT_NONE;
}

/* Sends what is left of the answer. 1 = all of it, 0 = later, -errno. */
static int conn_send(struct control_conn *c)
{
	while (c->out_sent < c->out_len) {
		union {
			char buffer[CMSG_SPACE(sizeof(int))];
			struct cmsghdr align;
		} ancillary;
		struct iovec iov = { c->out + c->out_sent, c->out_len - c->out_sent };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t n;

		if (c->out_fd >= 0) {
			struct cmsghdr *h;

			memset(&ancillary, 0, sizeof(ancillary));
			m.msg_control = ancillary.buffer;
			m.msg_controllen = sizeof(ancillary.buffer);
			h = CMSG_FIRSTHDR(&m);
			h->cmsg_level = SOL_SOCKET;
			h->cmsg_type = SCM_RIGHTS;
			h->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(h), &c->out_fd, sizeof(int));
		}
		n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		if (c->out_fd >= 0) {
			(void)close(c->out_fd);
			c->out_fd = -1;
		}
		c->out_sent += (size_t)n;
	}
	return 1;
}

json_t *control_result(json_t *result)
{
	return json_pack("{s:b, s:o}", "ok", 1, "result", result);
}

json_t *control_refusal(const char *status, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* text out of a file may be no UTF-8, which JSON must be */
	for (char *p = text; *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	return json_pack("{s:b, s:s, s:s}", "ok", 0, "status", status, "error", text);
}

/* Answers the line in c->in. 0 or -errno: the connection is no good. */
static int conn_line(struct control_conn *c, const char *line, size_t len)
{
	json_t *request = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	const char *cmd = json_string_value(json_object_get(request, "cmd"));
	struct control *control = c->control;
	json_t *answer = cmd ? control->answer(control->user, c->right, cmd, request, &c->out_fd)
			     : control_refusal("BAD_REQUEST", "wanted one line {\"cmd\":\"...\"}");

	json_decref(request);
	c->out = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
	json_decref(answer);
	if (!c->out)
		return -ENOMEM;
	c->out_len = strlen(c->out);
	c->out[c->out_len++] = '\n';	/* in the place of the NUL: its length is known */
	c->out_sent = 0;
	return 0;
}

/* Reads and answers while there is something. 0 = wait for more, -errno: close. */
static int conn_turn(struct control_conn *c)
{
	for (;;) {
		char *end;
		ssize_t n;
		int r;

		if (c->out) {
			r = conn_send(c);
			if (r <= 0)
				return r ? r : sd_event_source_set_io_events(c->io, EPOLLOUT);
			free(c->out);
			c->out = NULL;
		}
		end = memchr(c->in, '\n', c->in_len);
		if (end) {
			size_t used = (size_t)(end - c->in) + 1;

			r = conn_line(c, c->in, used - 1);
			memmove(c->in, c->in + used, c->in_len - used);
			c->in_len -= used;
			if (r)
				return r;
			continue;
		}
		if (c->in_len == sizeof(c->in))
			return -EMSGSIZE;
		n = read(c->fd, c->in + c->in_len, sizeof(c->in) - c->in_len);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0)
			return errno == EAGAIN ? sd_event_source_set_io_events(c->io, EPOLLIN)
					       : -errno;
		c->in_len += (size_t)n;
	}
}

static int conn_io(sd_event_source *s, int fd, uint32_t events, void *user)
{
	struct control_conn *c = user;

	if (conn_turn(c) < 0) {
		conn_close(c);
		return 0;
	}
	/* who makes progress gets its time anew */
	(void)sd_event_source_set_time_relative(c->timer, CONTROL_TIMEOUT_US);
	return 0;
}

static int conn_timeout(sd_event_source *s, uint64_t usec, void *user)
{
	conn_close(user);
	return 0;
}

static int control_accept(sd_event_source *s, int fd, uint32_t events, void *user)
{
	struct control *c = user;
	struct control_conn *conn = NULL;
	int in = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (in < 0)
		/* gone already, or out of descriptors: the next event tries again */
		return 0;
	for (unsigned i = 0; i < CONTROL_CONNS && !conn; i++)
		if (c->conn[i].fd < 0)
			conn = &c->conn[i];
	if (!conn) {
		(void)close(in);
		return 0;
	}
	conn->fd = in;
	conn->right = control_right(c, in);
	if (sd_event_add_io(c->event, &conn->io, in, EPOLLIN, conn_io, conn) < 0 ||
	    sd_event_add_time_relative(c->event, &conn->timer, CLOCK_MONOTONIC, CONTROL_TIMEOUT_US,
				       0, conn_timeout, conn) < 0)
		conn_close(conn);
	return 0;
}

static gid_t control_gid(const char *name)
{
	const struct group *g = name[0] ? getgrnam(name) : NULL;

	return g ? g->gr_gid : (gid_t)-1;
}

int control_set_groups(struct control *c, const char *stats_group, const char *admin_group)
{
	c->stats_gid = control_gid(stats_group);
	c->admin_gid = control_gid(admin_group);
	return 0;
}

/* A socket file that nobody listens on is a leftover of a crash: it may go. */
static int control_clear_stale(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return -errno;
	r = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno
										 : -EADDRINUSE;
	(void)close(fd);
	if (r != -ECONNREFUSED)
		return r == -ENOENT ? 0 : r;
	return unlink(address->sun_path) < 0 && errno != ENOENT ? -errno : 0;
}

static int control_listen(struct control *c)
{
	struct stat st;
	int r = control_clear_stale(&c->address);

	if (r)
		return r;
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		return -errno;
	/* anyone may connect: who they are is asked of the kernel, and they may be told "no" */
	if (bind(c->fd, (struct sockaddr *)&c->address, sizeof(c->address)) < 0 ||
	    chmod(c->address.sun_path, 0666) < 0 || stat(c->address.sun_path, &st) < 0 ||
	    listen(c->fd, CONTROL_CONNS) < 0)
		return -errno;
	c->inode = st.st_ino;
	return sd_event_add_io(c->event, &c->io, c->fd, EPOLLIN, control_accept, c);
}

int control_open(sd_event *event, const char *path, control_answer_fn *answer, void *user,
		 const char *stats_group, const char *admin_group, const struct larder_log *log,
		 struct control **ret)
{
	struct control *c = calloc(1, sizeof(*c));
	int r = -ENAMETOOLONG;

	if (!c) {
		say(log, LARDER_LOG_ERR, "control.socket %s: no memory for its connections", path);
		return -ENOMEM;
	}
	c->event = sd_event_ref(event);
	c->answer = answer;
	c->user = user;
	c->log = log;
	c->fd = -1;
	c->address.sun_family = AF_UNIX;
	for (unsigned i = 0; i < CONTROL_CONNS; i++) {
		c->conn[i].control = c;
		c->conn[i].fd = c->conn[i].out_fd = -1;
	}
	if (strlen(path) < sizeof(c->address.sun_path)) {
		strcpy(c->address.sun_path, path);
		r = control_listen(c);
	}
	if (r < 0) {
		say(log, LARDER_LOG_ERR, "control.socket %s: can not listen: %s", path,
		    r == -EADDRINUSE ? "another daemon does" : strerror(-r));
		control_close(c);
		return r;
	}
	(void)control_set_groups(c, stats_group, admin_group);
	*ret = c;
	return 0;
}

struct control *control_close(struct control *c)
{
	struct stat st;

	if (!c)
		return NULL;
	for (unsigned i = 0; i < CONTROL_CONNS; i++)
		conn_close(&c->conn[i]);
	c->io = sd_event_source_disable_unref(c->io);
	if (c->fd >= 0)
		(void)close(c->fd);
	if (c->inode && stat(c->address.sun_path, &st) == 0 && st.st_ino == c->inode)
		/* a leftover is cleared at the next start */
		(void)unlink(c->address.sun_path);
	c->event = sd_event_unref(c->event);
	free(c);
	return NULL;
}
