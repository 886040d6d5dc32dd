/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One datagram, out or in. A datagram is a frame, perhaps bytes, perhaps a descriptor.
 *
 * Descriptors that a peer sends are in our table as soon as recvmsg returns, wanted or not: each
 * way out of here either hands them to the caller in the datagram or has closed them. The control
 * buffer holds SHM_FDS; the kernel drops what does not fit and says so.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/shm.h"

union socket_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(SHM_FDS * sizeof(int))];
};

static void socket_take_fds(struct msghdr *msg, struct shm_datagram *d)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (d->n_fds < SHM_FDS) {
				d->fds[d->n_fds++] = fd;
			} else {
				d->surplus = true;
				(void)close(fd);	/* not ours, nothing was written to it */
			}
		}
	}
}

int shm_socket_recv(int fd, void *buf, size_t len, struct shm_datagram *d)
{
	union socket_control control;
	struct iovec iov[2] = {
		{ .iov_base = &d->frame, .iov_len = sizeof(d->frame) },
		{ .iov_base = buf, .iov_len = len },
	};
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	memset(d, 0, sizeof(*d));
	do {
		n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	socket_take_fds(&msg, d);
	if (msg.msg_flags & MSG_CTRUNC)
		d->surplus = true;
	d->truncated = msg.msg_flags & MSG_TRUNC;
	if (n == 0 && !d->n_fds && !d->surplus)
		return 0;
	d->runt = (size_t)n < sizeof(d->frame);
	d->payload = d->runt ? 0 : (size_t)n - sizeof(d->frame);
	return 1;
}

void shm_datagram_close(struct shm_datagram *d)
{
	while (d->n_fds)
		(void)close(d->fds[--d->n_fds]);	/* not ours, nothing was written to it */
}

int shm_socket_send(int sock, const struct shm_frame *frame, const struct iovec *iov,
		    uint32_t niov, int fd)
{
	union socket_control control = { 0 };
	struct iovec all[1 + SHM_MAX_IOV];
	struct msghdr msg = { .msg_iov = all, .msg_iovlen = 1 + niov };
	ssize_t n;

	all[0].iov_base = (void *)frame;	/* sendmsg only reads it */
	all[0].iov_len = sizeof(*frame);
	if (niov)
		memcpy(all + 1, iov, niov * sizeof(*iov));
	if (fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(sizeof(fd));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	}
	do {
		n = sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	return 0;	/* a datagram goes whole or not at all */
}
