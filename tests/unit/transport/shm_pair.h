/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the shm tests share: a node and a client in one thread, stepped by hand, with a log that
 * counts lines and a clock that stands still; regions; raw sockets for peers that misbehave.
 *
 * Nothing here waits: both sides are local, so a bounded number of steps is enough for everything.
 */
#ifndef LARDER_TESTS_SHM_PAIR_H
#define LARDER_TESTS_SHM_PAIR_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"
#include "transport/registry.h"
#include "transport/shm.h"

#define PAIR_STEPS 4000
#define PAIR_EVENTS 4096
#define PAIR_RX 8
#define PAIR_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

struct pair_side {
	struct transport *t;
	struct transport_conn *conn;
	struct transport_event ev[PAIR_EVENTS];
	uint32_t n;
	char rx[PAIR_RX][SHM_MAX_MESSAGE];
};

struct pair {
	struct pair_side node;
	struct pair_side client;
	struct transport_config config;
	struct larder_log log;
	struct clock clock;
	uint64_t now_ns;
	uint32_t lines;
	char last_line[512];
	char dir[64];
	char path[96];
};

/* --- what this process holds ---------------------------------------------------------------- */

static inline uint32_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint32_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Mappings of memfds: other ones come and go with the allocator. */
static inline uint32_t count_memfd_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	uint32_t n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "/memfd:") != NULL || strstr(line, "/anon_hugepage") != NULL;
	fclose(f);
	return n;
}

/* --- pair ----------------------------------------------------------------------------------- */

static inline uint64_t pair_now(void *user)
{
	return ((struct pair *)user)->now_ns;
}

static inline void pair_line(void *user, int level, const char *text)
{
	struct pair *p = user;

	p->lines++;
	snprintf(p->last_line, sizeof(p->last_line), "%s", text);
}

static inline struct pair *pair_new(void)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->clock = (struct clock){ .monotonic_ns = pair_now, .wall_ms = pair_now, .user = p };
	p->now_ns = 10 * NSEC_PER_SEC;
	p->log = (struct larder_log){ .line = pair_line, .user = p, .level = LARDER_LOG_INFO };
	p->config = (struct transport_config){
		.clock = &p->clock,
		.log = &p->log,
		.max_conns = 8,
		.max_region_bytes = 64u << 20,
		.max_regions = 8,
		.gates = 16,
	};
	snprintf(p->dir, sizeof(p->dir), "/tmp/larder-shm-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->path, sizeof(p->path), "%s/sock", p->dir);
	return p;
}

static inline void pair_listen(struct pair *p)
{
	assert_int_equal(transport_shm()->open(&p->config, &p->node.t), 0);
	assert_int_equal(p->node.t->ops->listen(p->node.t, p->path), 0);
}

static inline void side_step(struct pair_side *s, uint32_t max)
{
	int n;

	if (!s->t)
		return;
	if (s->n + max > PAIR_EVENTS)
		fail_msg("too many events for the log");
	n = transport_poll(s->t, s->ev + s->n, max);
	assert_in_range(n, 0, max);
	for (int i = 0; i < n; i++) {
		struct transport_event *ev = &s->ev[s->n + i];

		if (ev->type == TRANSPORT_CONN_UP && !s->conn)
			s->conn = ev->conn;
		if (ev->type == TRANSPORT_CONN_GONE && s->conn == ev->conn)
			s->conn = NULL;
	}
	s->n += (uint32_t)n;
}

static inline void pair_step(struct pair *p)
{
	side_step(&p->node, 16);
	side_step(&p->client, 16);
}

static inline bool fd_readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int n = poll(&pfd, 1, 0);

	assert_true(n >= 0);
	return n == 1;
}

static inline bool side_busy(const struct pair_side *s)
{
	return s->t && fd_readable(s->t->ops->event_fd(s->t));
}

/* Until neither side has anything to do. */
static inline void pair_settle(struct pair *p)
{
	for (int i = 0; side_busy(&p->node) || side_busy(&p->client); i++) {
		assert_true(i < PAIR_STEPS);
		pair_step(p);
	}
}

static inline uint32_t side_count(const struct pair_side *s, uint8_t type)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n; i++)
		n += s->ev[i].type == type;
	return n;
}

/* The last event of its type; the case fails when there is none. */
static inline const struct transport_event *side_find(const struct pair_side *s, uint8_t type)
{
	for (uint32_t i = s->n; i > 0; i--) {
		if (s->ev[i - 1].type == type)
			return &s->ev[i - 1];
	}
	fail_msg("no event of type %u", type);
	return NULL;
}

static inline void side_post(struct pair_side *s)
{
	struct transport_rx rx[PAIR_RX];

	for (uint32_t i = 0; i < PAIR_RX; i++) {
		rx[i] = (struct transport_rx){
			.data = s->rx[i], .length = sizeof(s->rx[i]), .cookie = i,
		};
	}
	assert_int_equal(transport_post_rx(s->conn, rx, PAIR_RX), 0);
}

static inline void pair_connect(struct pair *p)
{
	if (!p->client.t)
		assert_int_equal(transport_shm()->open(&p->config, &p->client.t), 0);
	assert_int_equal(p->client.t->ops->connect(p->client.t, p->path, p, &p->client.conn), 0);
	for (int i = 0; i < PAIR_STEPS && !p->node.conn; i++)
		pair_step(p);
	assert_non_null(p->node.conn);
	side_post(&p->node);
	side_post(&p->client);
	pair_settle(p);
	assert_non_null(p->client.conn);
}

static inline struct pair *pair_connected(void)
{
	struct pair *p = pair_new();

	pair_listen(p);
	pair_connect(p);
	return p;
}

static inline void pair_free(struct pair *p)
{
	if (p->client.t)
		p->client.t->ops->close(p->client.t);
	if (p->node.t)
		p->node.t->ops->close(p->node.t);
	(void)unlink(p->path);
	assert_int_equal(rmdir(p->dir), 0);
	free(p);
}

static inline int side_send(struct pair_side *s, const void *data, size_t len, uint64_t cookie)
{
	struct iovec iov = { .iov_base = (void *)data, .iov_len = len };
	struct transport_tx tx = {
		.type = TRANSPORT_SEND, .niov = 1, .iov = &iov, .cookie = cookie,
	};

	return transport_tx(s->conn, &tx, 1);
}

static inline int node_move(struct pair *p, uint8_t type, struct transport_region *r, void *at,
			    size_t len, uint64_t offset, uint32_t gate)
{
	struct iovec iov = { .iov_base = at, .iov_len = len };
	struct transport_tx tx = {
		.type = type, .niov = 1, .iov = &iov, .cookie = 1000 + offset, .region = r,
		.offset = offset, .gate = gate,
	};

	return transport_tx(p->node.conn, &tx, 1);
}

/* --- regions -------------------------------------------------------------------------------- */

struct shared {
	int fd;
	uint8_t *addr;
	size_t bytes;
	uint8_t opaque[TRANSPORT_OPAQUE_MAX];
	size_t opaque_len;
	struct transport_region *client;
	struct transport_region *node;
};

static inline int memfd_make(size_t bytes, unsigned flags, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	if (!(flags & MFD_HUGETLB))
		assert_int_equal(posix_fallocate(fd, 0, (off_t)bytes), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static inline void shared_make(struct shared *s, size_t bytes)
{
	memset(s, 0, sizeof(*s));
	s->bytes = bytes;
	s->fd = memfd_make(bytes, 0, PAIR_SEALS);
	s->addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	assert_true(s->addr != MAP_FAILED);
}

static inline int shared_import(struct pair *p, struct shared *s)
{
	return p->node.t->ops->region_import(p->node.conn, s->opaque, s->opaque_len,
					     s->client->size, &s->node);
}

static inline int shared_add(struct pair *p, struct shared *s)
{
	return p->client.t->ops->region_add(p->client.conn, s->addr, s->bytes, s->fd, 0, s->opaque,
					    &s->opaque_len, &s->client);
}

/* Registered, named, imported. */
static inline void shared_join(struct pair *p, struct shared *s, size_t bytes)
{
	shared_make(s, bytes);
	assert_int_equal(shared_add(p, s), 0);
	pair_settle(p);
	assert_int_equal(shared_import(p, s), 0);
	assert_int_equal(s->node->size, bytes);
	pair_settle(p);
}

static inline void shared_free(struct shared *s)
{
	if (s->client)
		assert_int_equal(s->client->transport->ops->region_del(s->client), 0);
	if (s->node)
		assert_int_equal(s->node->transport->ops->region_del(s->node), 0);
	if (s->addr)
		assert_int_equal(munmap(s->addr, s->bytes), 0);
	assert_int_equal(close(s->fd), 0);
}

static inline void fill(uint8_t *at, size_t len, uint64_t seed)
{
	struct prng prng;
	size_t i;

	prng_seed(&prng, seed);
	for (i = 0; i + 8 <= len; i += 8) {
		uint64_t x = prng_next(&prng);

		memcpy(at + i, &x, 8);
	}
	for (; i < len; i++)
		at[i] = (uint8_t)(i ^ seed);
}

/* --- raw peers ------------------------------------------------------------------------------ */

static inline int raw_connect(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static inline int raw_send(int sock, const void *data, size_t len, const int *fds, uint32_t n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(64 * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = (void *)data, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	memset(&control, 0, sizeof(control));
	if (n) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, n * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

#define SKIP_BECAUSE(...)                                                                          \
	do {                                                                                       \
		print_message("skipped: " __VA_ARGS__);                                            \
		print_message("\n");                                                               \
		skip();                                                                            \
	} while (0)

#endif
