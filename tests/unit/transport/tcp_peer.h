/* SPDX-License-Identifier: Apache-2.0 */
/* A tcp transport under a fake clock against raw sockets, for test_tcp*.c. */
#ifndef LARDER_TESTS_UNIT_TCP_PEER_H
#define LARDER_TESTS_UNIT_TCP_PEER_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "transport/registry.h"
#include "transport/tcp.h"

#define PATIENCE_MS 10000

static uint64_t fake_now = 1000 * NSEC_PER_SEC;
static unsigned log_lines;

static uint64_t fake_monotonic(void *user)
{
	return fake_now;
}

static const struct clock fake_clock = { .monotonic_ns = fake_monotonic };

static void count_line(void *user, int level, const char *text)
{
	log_lines++;
}

static const struct larder_log counting_log = { .line = count_line, .level = LARDER_LOG_WARNING };

/* The transport that listens, its one connection, and a raw socket at the other end. */
struct peer {
	struct transport *t;
	struct transport_conn *conn;
	uint16_t port;
	int raw;
	uint32_t n;
	struct transport_event ev[256];	/* all events so far */
};

static inline uint64_t real_ms(void)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static inline int raw_connect(uint16_t port, int rcvbuf)
{
	struct sockaddr_in sa = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (rcvbuf)
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof(rcvbuf)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static inline void raw_reset(struct peer *p)
{
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

	assert_int_equal(setsockopt(p->raw, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	(void)close(TAKE_FD(p->raw));
}

static inline struct transport *open_tcp(uint32_t max_conns)
{
	struct transport_config config = {
		.clock = &fake_clock, .log = &counting_log, .max_conns = max_conns,
	};
	struct transport *t;

	assert_int_equal(transport_tcp()->open(&config, &t), 0);
	return t;
}

static inline uint16_t port_of(struct transport *t)
{
	char text[64];

	assert_int_equal(transport_tcp()->bound(t, text, sizeof(text)), 0);
	return (uint16_t)atoi(strrchr(text, ':') + 1);
}

static inline int peer_step(struct peer *p)
{
	int n;

	assert_true(p->n + 32 <= ARRAY_SIZE(p->ev));
	n = transport_poll(p->t, p->ev + p->n, 32);
	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		if (p->ev[p->n + (uint32_t)i].type == TRANSPORT_CONN_UP)
			p->conn = p->ev[p->n + (uint32_t)i].conn;
	}
	p->n += (uint32_t)n;
	return n;
}

static inline unsigned peer_count(const struct peer *p, uint8_t type)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < p->n; i++)
		count += p->ev[i].type == type;
	return count;
}

static inline const struct transport_event *peer_event(const struct peer *p, uint8_t type)
{
	for (uint32_t i = p->n; i > 0; i--) {
		if (p->ev[i - 1].type == type)
			return &p->ev[i - 1];
	}
	fail_msg("no event of type %u", type);
	return NULL;
}

/* Polls until @count events of @type have come. */
static inline void peer_until(struct peer *p, uint8_t type, unsigned count)
{
	uint64_t end = real_ms() + PATIENCE_MS;

	while (peer_count(p, type) < count) {
		(void)peer_step(p);
		if (real_ms() > end)
			fail_msg("waited in vain for an event of type %u", type);
	}
}

static inline void peer_open(struct peer *p, int rcvbuf)
{
	memset(p, 0, sizeof(*p));
	p->t = open_tcp(4);
	assert_int_equal(transport_tcp()->listen(p->t, "127.0.0.1:0"), 0);
	p->port = port_of(p->t);
	p->raw = raw_connect(p->port, rcvbuf);
	peer_until(p, TRANSPORT_CONN_UP, 1);
}

static inline void peer_close(struct peer *p)
{
	cleanup_closep(&p->raw);
	transport_tcp()->close(p->t);
}

static inline void peer_post(struct peer *p, void *data, uint32_t len)
{
	struct transport_rx rx = { .data = data, .length = len };

	assert_int_equal(transport_post_rx(p->conn, &rx, 1), 0);
}

static inline void peer_send(struct peer *p, void *data, size_t len)
{
	struct iovec iov = { .iov_base = data, .iov_len = len };
	struct transport_tx tx = { .type = TRANSPORT_SEND, .niov = 1, .iov = &iov };

	assert_int_equal(transport_tx(p->conn, &tx, 1), 1);
}

static inline bool wakes(struct transport *t, int ms)
{
	struct pollfd pfd = { .fd = transport_tcp()->event_fd(t), .events = POLLIN };
	int r = poll(&pfd, 1, ms);

	assert_true(r >= 0);
	return r == 1;
}

#endif
