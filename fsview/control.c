/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONTROL_REPLY_MAX (1u << 20)

struct control_call {
	int fd;
	int got_fd;		/* that came with the answer */
	uint64_t end_ns;
	const struct process_clock *clock;
	char *text;
	size_t len, room;
};

/* 0, -ETIMEDOUT, -errno. */
static int control_wait(const struct control_call *c, short events)
{
	struct pollfd p = { c->fd, events, 0 };

	for (;;) {
		uint64_t now = c->clock->monotonic_ns();
		int r;

		if (now >= c->end_ns)
			return -ETIMEDOUT;
		r = poll(&p, 1, (int)((c->end_ns - now) / NSEC_PER_MSEC) + 1);
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
}

static int control_connect(struct control_call *c, const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		return -errno;
	/* a full backlog is EAGAIN: nobody accepts, which is as good as nobody there */
	return connect(c->fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ? -errno : 0;
}

static void control_keep_fd(struct control_call *c, struct msghdr *m)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(fd));
			if (c->got_fd < 0)
				c->got_fd = fd;
			else
				(void)close(fd);	/* not asked for */
		}
	}
}

/* One part of the answer. Its length, 0 at the end of the stream, -errno. */
static ssize_t control_part(struct control_call *c)
{
	union {
		char buffer[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct iovec iov = { c->text + c->len, c->room - c->len - 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ancillary.buffer,
			    .msg_controllen = sizeof(ancillary.buffer) };
	ssize_t n = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (n < 0)
		return -errno;
	control_keep_fd(c, &m);
	return n;
}

static int control_read(struct control_call *c)
{
	for (;;) {
		ssize_t n;
		int r = control_wait(c, POLLIN);

		if (r)
			return r;
		if (c->room - c->len < 2) {
			size_t room = c->room ? c->room * 2 : 4096;
			char *more = room <= CONTROL_REPLY_MAX ? realloc(c->text, room) : NULL;

			if (!more)
				return -ENOMEM;
			c->text = more;
			c->room = room;
		}
		n = control_part(c);
		if (n == -EAGAIN || n == -EINTR)
			continue;
		if (n <= 0)
			return n ? (int)n : -ECONNRESET;
		c->len += (size_t)n;
		if (c->text[c->len - 1] == '\n')
			return 0;
	}
}

static int control_exchange(struct control_call *c, const char *path, const char *cmd)
{
	char line[128];
	int r = control_connect(c, path), n;

	if (r)
		return r;
	n = snprintf(line, sizeof(line), "{\"cmd\":\"%s\"}\n", cmd);
	if (n < 0 || (size_t)n >= sizeof(line))
		return -EINVAL;
	/* a line that short fits the socket's buffer as a whole */
	if (send(c->fd, line, (size_t)n, MSG_NOSIGNAL) != n)
		return -EIO;
	return control_read(c);
}

static int control_parse(const struct control_call *c, json_t **ret)
{
	json_t *doc = json_loadb(c->text, c->len, 0, NULL);
	json_t *result = json_object_get(doc, "result");
	int r = 0;

	if (!json_is_object(doc))
		r = -EPROTO;
	else if (!json_is_true(json_object_get(doc, "ok")))
		r = -EACCES;
	else
		*ret = json_is_object(result) ? json_incref(result) : json_object();
	json_decref(doc);
	return r;
}

int control_ask(const char *path, const char *cmd, unsigned timeout_ms,
		const struct process_clock *clock, json_t **ret, int *ret_fd)
{
	struct control_call c = { .fd = -1, .got_fd = -1, .clock = clock };
	int r;

	c.end_ns = clock->monotonic_ns() + timeout_ms * NSEC_PER_MSEC;
	r = control_exchange(&c, path, cmd);
	if (!r)
		r = control_parse(&c, ret);
	free(c.text);
	if (c.fd >= 0)
		(void)close(c.fd);	/* a socket that was only read from */
	if (!r && ret_fd)
		*ret_fd = c.got_fd;
	else if (c.got_fd >= 0)
		(void)close(c.got_fd);
	return r;
}
