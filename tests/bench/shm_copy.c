/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast shm copies, against memcpy between the same two memories in the same run. By hand:
 *
 *	shm_copy [MIB [ROUNDS]]		sets of MIB on each side (default 512), ROUNDS (default 7)
 *
 * A node and a client in one process, one thread: a connection, a region of MIB, an arena of MIB;
 * the node keeps two transfers of 4 MiB under way, gates armed, walking through both memories.
 * Each round measures every line once, so that a slow moment of the machine hits all; printed are
 * medians in GB/s and their ratio to memcpy in calls of 4 MiB. "checked": a CRC-32C of each 256 KiB
 * right after it was copied, as a node does with what it reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "transport/registry.h"

#define COPY_BYTES (4u << 20)
#define COPY_SLICE (256u << 10)
#define COPY_ROUNDS_MAX 101
#define COPY_GATES 2u

struct copy_side {
	struct transport *t;
	struct transport_conn *conn;
};

struct copy {
	size_t bytes;		/* of each memory */
	uint8_t *arena;		/* the node's */
	uint8_t *client;	/* the client's view of its region */
	int fd;
	struct copy_side node;
	struct copy_side peer;
	struct transport_region *named;
	struct transport_region *imported;
	uint32_t sink;
};

static void die(const char *what, int r)
{
	fprintf(stderr, "shm_copy: %s: %s\n", what, strerror(-r));
	exit(1);
}

static uint8_t *copy_map(size_t bytes, int *ret_fd)
{
	int fd = memfd_create("shm_copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint8_t *map;

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		die("memfd", -errno);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("mmap", -errno);
	(void)madvise(map, bytes, MADV_HUGEPAGE);	/* where the kernel has it */
	memset(map, 1, bytes);
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		die("seal", -errno);
	*ret_fd = fd;
	return map;
}

/* One event of either side; false: none. */
static bool copy_step(struct copy_side *s, struct transport_event *ev)
{
	int n = transport_poll(s->t, ev, 1);

	if (n < 0)
		die("poll", n);
	if (n && ev->type == TRANSPORT_CONN_UP)
		s->conn = ev->conn;
	if (n && (ev->type == TRANSPORT_CONN_DOWN || ev->status < 0))
		die("connection", ev->status);
	return n;
}

static void copy_connect(struct copy *c)
{
	struct transport_config config = {
		.clock = &clock_system, .max_conns = 1, .max_region_bytes = UINT64_MAX,
		.max_regions = 1, .gates = COPY_GATES,
	};
	uint8_t opaque[TRANSPORT_OPAQUE_MAX];
	struct transport_event ev;
	char path[64];
	size_t len;
	int r;

	snprintf(path, sizeof(path), "/tmp/larder-shm-copy-%d.sock", (int)getpid());
	r = transport_shm()->open(&config, &c->node.t);
	if (!r)
		r = transport_shm()->open(&config, &c->peer.t);
	if (!r)
		r = c->node.t->ops->listen(c->node.t, path);
	if (!r)
		r = c->peer.t->ops->connect(c->peer.t, path, NULL, &c->peer.conn);
	if (r < 0)
		die("connect", r);
	while (!c->node.conn || !c->peer.conn) {
		(void)copy_step(&c->node, &ev);
		(void)copy_step(&c->peer, &ev);
	}
	r = c->peer.t->ops->region_add(c->peer.conn, c->client, c->bytes, c->fd, 0, opaque, &len,
				       &c->named);
	if (r < 0)
		die("region_add", r);
	do {
		(void)copy_step(&c->peer, &ev);
		(void)copy_step(&c->node, &ev);
		r = c->node.t->ops->region_import(c->node.conn, opaque, len, c->bytes,
						  &c->imported);
	} while (r == -EAGAIN);
	if (r < 0)
		die("region_import", r);
	for (uint32_t i = 0; i < COPY_GATES; i++) {
		r = c->peer.t->ops->gate_arm(c->peer.conn, i);
		if (r < 0)
			die("gate_arm", r);
	}
	for (size_t i = 0; i < c->bytes / COPY_SLICE; i++)	/* until it is pre-faulted */
		(void)copy_step(&c->node, &ev);
}

static double copy_seconds(uint64_t since)
{
	return (double)(clock_now(&clock_system) - since) / 1e9;
}

static double measure_memcpy(struct copy *c, uint8_t *dst, const uint8_t *src, size_t call,
			     bool checked)
{
	uint64_t start = clock_now(&clock_system);

	for (size_t at = 0; at < c->bytes; at += call) {
		memcpy(dst + at, src + at, call);
		for (size_t k = 0; checked && k < call; k += COPY_SLICE)
			c->sink += crc32c(0, dst + at + k, COPY_SLICE);
	}
	return (double)c->bytes / copy_seconds(start) / 1e9;
}

/* @piece: bytes of a descriptor; two transfers of 4 MiB under way. */
static double measure_shm(struct copy *c, uint8_t type, size_t piece, bool checked)
{
	uint64_t start = clock_now(&clock_system);
	size_t given = 0, done = 0;
	struct transport_event ev;

	while (done < c->bytes) {
		while (given < c->bytes && given - done < 2 * COPY_BYTES) {
			struct iovec iov = { .iov_base = c->arena + given, .iov_len = piece };
			struct transport_tx tx = {
				.type = type, .niov = 1, .iov = &iov, .cookie = given,
				.region = c->imported, .offset = given,
				.gate = (uint32_t)(given / COPY_BYTES) % COPY_GATES,
			};
			int r = transport_tx(c->node.conn, &tx, 1);

			if (r < 0)
				die("tx", r);
			if (!r)
				break;
			given += piece;
		}
		if (!copy_step(&c->node, &ev))
			continue;
		if (checked)
			c->sink += crc32c(0, c->arena + ev.cookie, piece);
		done += piece;
	}
	return (double)c->bytes / copy_seconds(start) / 1e9;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

enum line {
	OUT_4M, OUT_256K, WRITE_4M, IN_4M, READ_4M, READ_256K, IN_CHECKED, READ_CHECKED, LINES
};

static const struct {
	const char *name;
	enum line base;
} lines[LINES] = {
	[OUT_4M] = { "memcpy arena to region, 4 MiB calls", OUT_4M },
	[OUT_256K] = { "memcpy arena to region, 256 KiB calls", OUT_4M },
	[WRITE_4M] = { "shm WRITE, 4 MiB", OUT_4M },
	[IN_4M] = { "memcpy region to arena, 4 MiB calls", IN_4M },
	[READ_4M] = { "shm READ, 4 MiB", IN_4M },
	[READ_256K] = { "shm READ, 256 KiB descriptors", IN_4M },
	[IN_CHECKED] = { "memcpy region to arena, 256 KiB calls, checked", IN_CHECKED },
	[READ_CHECKED] = { "shm READ, 256 KiB descriptors, checked", IN_CHECKED },
};

static double measure(struct copy *c, enum line line)
{
	switch (line) {
	case OUT_4M:
		return measure_memcpy(c, c->client, c->arena, COPY_BYTES, false);
	case OUT_256K:
		return measure_memcpy(c, c->client, c->arena, COPY_SLICE, false);
	case WRITE_4M:
		return measure_shm(c, TRANSPORT_WRITE, COPY_BYTES, false);
	case IN_4M:
		return measure_memcpy(c, c->arena, c->client, COPY_BYTES, false);
	case READ_4M:
		return measure_shm(c, TRANSPORT_READ, COPY_BYTES, false);
	case READ_256K:
		return measure_shm(c, TRANSPORT_READ, COPY_SLICE, false);
	case IN_CHECKED:
		return measure_memcpy(c, c->arena, c->client, COPY_SLICE, true);
	default:
		return measure_shm(c, TRANSPORT_READ, COPY_SLICE, true);
	}
}

int main(int argc, char **argv)
{
	static double got[LINES][COPY_ROUNDS_MAX];
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 512;
	int rounds = argc > 2 ? atoi(argv[2]) : 7;
	struct copy c = { .bytes = ALIGN_DOWN(mib << 20, COPY_BYTES) };
	double median[LINES];
	int fd;

	if (!c.bytes || rounds < 1 || rounds > COPY_ROUNDS_MAX) {
		fprintf(stderr, "usage: shm_copy [MIB [ROUNDS]]\n");
		return 2;
	}
	c.arena = copy_map(c.bytes, &fd);
	c.client = copy_map(c.bytes, &c.fd);
	copy_connect(&c);
	for (int round = 0; round < rounds; round++) {
		for (enum line line = 0; line < LINES; line++)
			got[line][round] = measure(&c, line);
	}
	printf("%zu MiB on each side, %d rounds, medians (check %08x)\n", c.bytes >> 20, rounds,
	       c.sink);
	for (enum line line = 0; line < LINES; line++) {
		qsort(got[line], (size_t)rounds, sizeof(double), compare);
		median[line] = got[line][rounds / 2];
		printf("%-48s %6.2f GB/s  %5.2f of memcpy\n", lines[line].name, median[line],
		       median[line] / median[lines[line].base]);
	}
	c.node.t->ops->close(c.node.t);
	c.peer.t->ops->close(c.peer.t);
	(void)close(fd);
	(void)close(c.fd);
	return 0;
}
