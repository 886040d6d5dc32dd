/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection per request: connect, one line out, one line in, at most one descriptor. The reply
 * is bounded in length and time, so that a daemon that is sick can't hold its operator.
 */
#include "ctl/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <larder/status.h>

#include "control_protocol.h"

struct control_reply {
	char *line;
	size_t len;
	int fd;
};

static void control_reply_done(struct control_reply *r)
{
	free(r->line);
	if (r->fd >= 0)
		(void)close(r->fd);	/* read-only memory: nothing to lose */
}

int control_status(const char *name)
{
	for (int i = 0; name && i < LARDER_STATUS_COUNT; i++)
		if (!strcmp(name, larder_status_name(i)))
			return i;
	return -1;
}

static int control_connect(const char *path, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Waits for @events until @end_ns. 0, -ETIMEDOUT, -errno. */
static int control_wait(int fd, short events, uint64_t end_ns)
{
	struct pollfd p = { fd, events, 0 };

	for (;;) {
		uint64_t now = util_now_ns();
		int r;

		if (now >= end_ns)
			return -ETIMEDOUT;
		r = poll(&p, 1, (int)((end_ns - now) / NSEC_PER_MSEC) + 1);
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
}

/* A part of the reply; a descriptor that comes with it is kept, further ones are closed. */
static ssize_t control_receive(int fd, void *into, size_t room, struct control_reply *reply)
{
	union {
		char buffer[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct iovec iov = { into, room };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = ancillary.buffer, .msg_controllen = sizeof(ancillary.buffer),
	};
	ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (n < 0)
		return -errno;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
		size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int got;

			memcpy(&got, CMSG_DATA(h) + i * sizeof(int), sizeof(got));
			if (reply->fd < 0)
				reply->fd = got;
			else
				(void)close(got);	/* not asked for */
		}
	}
	return n;
}

/* Reads until the newline, which is cut off. */
static int control_read(int fd, uint64_t end_ns, struct control_reply *reply)
{
	size_t room = 0;

	for (;;) {
		char *newline;
		ssize_t n;
		int r = control_wait(fd, POLLIN, end_ns);

		if (r < 0)
			return r;
		if (room - reply->len < 2) {
			char *more;

			if (room >= LARDER_CONTROL_REPLY_MAX)
				return -EMSGSIZE;
			room = room ? room * 2 : 4096;
			more = realloc(reply->line, room);
			if (!more)
				return -ENOMEM;
			reply->line = more;
		}
		n = control_receive(fd, reply->line + reply->len, room - reply->len - 1, reply);
		if (n == -EAGAIN || n == -EINTR)
			continue;
		if (n < 0)
			return (int)n;
		if (!n)
			return -ECONNRESET;
		newline = memchr(reply->line + reply->len, '\n', (size_t)n);
		reply->len += (size_t)n;
		if (newline) {
			reply->len = (size_t)(newline - reply->line);
			*newline = '\0';
			return 0;
		}
	}
}

static int control_write(int fd, const char *line, size_t len, uint64_t end_ns)
{
	while (len) {
		int r = control_wait(fd, POLLOUT, end_ns);
		ssize_t n;

		if (r < 0)
			return r;
		n = send(fd, line, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n < 0)
			return -errno;
		line += n;
		len -= (size_t)n;
	}
	return 0;
}

static int control_exchange(const struct ctl *ctl, json_t *request, struct control_reply *reply)
{
	uint32_t ms = ctl->deadline_ms ? ctl->deadline_ms : LARDER_CONTROL_TIMEOUT_MS;
	uint64_t end_ns = util_now_ns() + ms * NSEC_PER_MSEC;
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *line = request ? json_dumps(request, JSON_COMPACT) : NULL;
	size_t len;
	int r;

	json_decref(request);
	if (!line)
		return -ENOMEM;
	len = strlen(line);
	if (len + 1 > LARDER_CONTROL_REQUEST_MAX)
		return -EMSGSIZE;
	line[len] = '\n';	/* in the place of the NUL: its length is known */
	r = control_connect(ctl->control, &fd);
	if (!r)
		r = control_write(fd, line, len + 1, end_ns);
	return r ? r : control_read(fd, end_ns, reply);
}

static int control_tell(const struct ctl *ctl, const char *what, int r)
{
	switch (r) {
	case -ENOENT:
	case -ECONNREFUSED:
		return ctl_fail(CTL_UNREACHABLE, "%s: %s: %s: is larderd running?", what,
				ctl->control, strerror(-r));
	case -EACCES:
	case -EPERM:
		return ctl_fail(CTL_REFUSED, "%s: %s: %s", what, ctl->control, strerror(-r));
	case -ECONNRESET:
	case -EPIPE:
		return ctl_fail(CTL_UNREACHABLE, "%s: %s: the daemon hung up", what, ctl->control);
	case -ETIMEDOUT:
		return ctl_fail(CTL_FAILED, "%s: %s: no answer in time (DEADLINE)", what,
				ctl->control);
	default:
		return ctl_fail(CTL_FAILED, "%s: %s: %s", what, ctl->control, strerror(-r));
	}
}

int control_ask(const struct ctl *ctl, const char *what, const char *cmd, json_t **ret_result,
		int *ret_fd)
{
	return control_request(ctl, what, json_pack("{s:s}", "cmd", cmd), ret_result, ret_fd);
}

int control_request(const struct ctl *ctl, const char *what, json_t *request, json_t **ret_result,
		    int *ret_fd)
{
	__attribute__((cleanup(control_reply_done))) struct control_reply reply = { .fd = -1 };
	json_t *doc, *result;
	int r = control_exchange(ctl, request, &reply);

	if (r)
		return control_tell(ctl, what, r);
	doc = json_loadb(reply.line, reply.len, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(doc) || !json_is_boolean(json_object_get(doc, "ok"))) {
		json_decref(doc);
		return ctl_fail(CTL_FAILED, "%s: %s: the reply is not understood", what,
				ctl->control);
	}
	if (!json_is_true(json_object_get(doc, "ok"))) {
		const char *name = json_string_value(json_object_get(doc, "status"));
		const char *error = json_string_value(json_object_get(doc, "error"));
		int status = control_status(name);

		r = ctl_fail(status > 0 ? (enum ctl_exit)larder_status_exit_code(status)
					: CTL_FAILED,
			     "%s: %s (%s)", what, error ? error : "refused",
			     name ? name : "INTERNAL");
		json_decref(doc);
		return r;
	}
	result = json_object_get(doc, "result");
	*ret_result = json_is_object(result) ? json_incref(result) : json_object();
	json_decref(doc);
	if (ret_fd)
		*ret_fd = TAKE_FD(reply.fd);
	return CTL_DONE;
}
