/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm against peers that speak no shm: each costs itself its connection, with a line in the log,
 * leaves no descriptor and no mapping behind, and does not disturb the connection beside it.
 */
#include <sys/stat.h>

#include "shm_pair.h"

struct attack {
	struct pair *p;
	int sock;
	struct transport_conn *conn;	/* the node's end */
	char rx[PAIR_RX][SHM_MAX_MESSAGE];
	uint32_t fds;
	uint32_t maps;
};

static struct attack *attack_begin(struct pair *p)
{
	struct attack *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	a->p = p;
	a->fds = count_fds();
	a->maps = count_memfd_maps();
	a->sock = raw_connect(p->path);
	pair_settle(p);
	a->conn = side_find(&p->node, TRANSPORT_CONN_UP)->conn;
	for (uint32_t i = 0; i < PAIR_RX; i++) {
		struct transport_rx rx = { .data = a->rx[i], .length = sizeof(a->rx[i]) };

		assert_int_equal(transport_post_rx(a->conn, &rx, 1), 0);
	}
	p->node.n = p->client.n = 0;
	p->lines = 0;
	return a;
}

/* The honest neighbour's message arrives. */
static void attack_check_neighbour(struct attack *a)
{
	struct pair *p = a->p;
	const struct transport_event *ev;
	struct transport_rx rx;

	p->client.n = 0;
	assert_int_equal(side_send(&p->node, "still here", 10, 1), 1);
	pair_settle(p);
	ev = side_find(&p->client, TRANSPORT_RX);
	assert_int_equal(ev->length, 10);
	assert_memory_equal(ev->data, "still here", 10);
	rx = (struct transport_rx){ .data = ev->data, .length = SHM_MAX_MESSAGE };
	assert_int_equal(transport_post_rx(p->client.conn, &rx, 1), 0);
}

/* The attacker was cut off and nothing of it is left. */
static void attack_end(struct attack *a, const char *word)
{
	struct pair *p = a->p;
	const struct transport_event *down;
	char c;

	pair_settle(p);
	down = side_find(&p->node, TRANSPORT_CONN_DOWN);
	assert_ptr_equal(down->conn, a->conn);
	assert_int_equal(down->status, -EPROTO);
	assert_int_equal(side_count(&p->node, TRANSPORT_CONN_GONE), 1);
	assert_int_equal(side_count(&p->node, TRANSPORT_RX), PAIR_RX);
	assert_true(p->lines >= 1);
	assert_non_null(strstr(p->last_line, "cut off"));
	if (!strstr(p->last_line, word))
		fail_msg("\"%s\" does not say \"%s\"", p->last_line, word);
	assert_true(recv(a->sock, &c, 1, 0) == 0 || errno == ECONNRESET);
	assert_int_equal(close(a->sock), 0);
	assert_int_equal(count_fds(), a->fds);
	assert_int_equal(count_memfd_maps(), a->maps);
	p->now_ns += NSEC_PER_SEC;		/* the next complaint is not cut off */
	free(a);
}

static void datagram__that_makes_no_sense(void **state)
{
	static const struct {
		struct shm_frame frame;
		size_t len;
		const char *word;
	} cases[] = {
		{ { .type = SHM_FRAME_DATA, .version = SHM_VERSION }, 1, "shorter" },
		{ { .type = SHM_FRAME_DATA, .version = SHM_VERSION }, 15, "shorter" },
		{ { .type = 0, .version = SHM_VERSION }, 16, "unknown type" },
		{ { .type = 99, .version = SHM_VERSION }, 16, "unknown type" },
		{ { .type = SHM_FRAME_DATA, .version = 0 }, 16, "version" },
		{ { .type = SHM_FRAME_DATA, .version = 9 }, 16, "version" },
		{ { .type = SHM_FRAME_DATA, .version = SHM_VERSION, .reserved = 1 }, 16,
		  "version" },
		{ { .type = SHM_FRAME_DATA, .version = SHM_VERSION, .token = 1 }, 16, "may not" },
		{ { .type = SHM_FRAME_DATA, .version = SHM_VERSION, .gates = 1 }, 16, "may not" },
		{ { .type = SHM_FRAME_GATES, .version = SHM_VERSION, .gates = 4 }, 16,
		  "one descriptor" },
		{ { .type = SHM_FRAME_REGION_FD, .version = SHM_VERSION, .token = 4 }, 16,
		  "one descriptor" },
		{ { .type = SHM_FRAME_REGION_FD, .version = SHM_VERSION, .token = 4 }, 100,
		  "bytes behind" },
	};
	struct pair *p = pair_connected();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct attack *a = attack_begin(p);
		char data[128] = { 0 };

		memcpy(data, &cases[i].frame, sizeof(cases[i].frame));
		assert_int_equal(raw_send(a->sock, data, cases[i].len, NULL, 0), 0);
		attack_check_neighbour(a);
		attack_end(a, cases[i].word);
	}
	pair_free(p);
}

static void datagram__at_random(void **state)
{
	struct pair *p = pair_connected();
	struct prng prng;

	prng_seed(&prng, 2026);
	print_message("seed 2026\n");
	for (int round = 0; round < 300; round++) {
		struct attack *a = attack_begin(p);
		char data[512];
		int memfd = memfd_make(8192, 0, PAIR_SEALS);
		uint32_t sent;

		for (sent = 0; sent < 40; sent++) {
			int fds[3] = { memfd, a->sock, memfd };

			fill((uint8_t *)data, sizeof(data), prng_next(&prng));
			data[0] = (char)prng_below(&prng, 5);
			data[1] = (char)prng_below(&prng, 2);
			data[2] = data[3] = 0;
			if (prng_below(&prng, 2))
				memset(data + 4, 0, 4);
			if (raw_send(a->sock, data, prng_below(&prng, sizeof(data)), fds,
				     (uint32_t)prng_below(&prng, 4)) < 0)
				break;
			if (prng_below(&prng, 4) == 0)
				pair_settle(p);
		}
		pair_settle(p);
		assert_int_equal(close(memfd), 0);
		assert_int_equal(close(a->sock), 0);
		pair_settle(p);
		/* Buffers may have run out with messages unread: then the end waits for buffers. */
		if (!side_count(&p->node, TRANSPORT_CONN_GONE))
			assert_int_equal(transport_disconnect(a->conn, false), 0);
		pair_settle(p);
		assert_int_equal(side_count(&p->node, TRANSPORT_CONN_GONE), 1);
		attack_check_neighbour(a);
		assert_int_equal(count_fds(), a->fds);
		assert_int_equal(count_memfd_maps(), a->maps);
		free(a);
	}
	pair_free(p);
}

static void descriptors__that_nobody_asked_for(void **state)
{
	const struct shm_frame data = { .type = SHM_FRAME_DATA, .version = SHM_VERSION };
	const struct shm_frame region = { .type = SHM_FRAME_REGION_FD, .version = SHM_VERSION };
	static const uint32_t counts[] = { 1, 2, 3, 60 };
	struct pair *p = pair_connected();
	int fds[60];

	for (uint32_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = memfd_make(4096, 0, PAIR_SEALS);
	for (size_t i = 0; i < ARRAY_SIZE(counts) * 2; i++) {
		struct attack *a = attack_begin(p);
		uint32_t n = counts[i / 2];

		if (i % 2 && n == 1) {		/* that one would be right */
			attack_check_neighbour(a);
			assert_int_equal(raw_send(a->sock, &region, 15, fds, 1), 0);
			attack_end(a, "shorter");
			continue;
		}
		assert_int_equal(raw_send(a->sock, i % 2 ? &region : &data, sizeof(data), fds, n),
				 0);
		attack_check_neighbour(a);
		attack_end(a, n > SHM_FDS ? "too many" : i % 2 ? "one descriptor" : "may not");
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(fds); i++)
		assert_int_equal(close(fds[i]), 0);
	pair_free(p);
}

static int wrong_fd(int kind)
{
	int fd, pair[2];

	switch (kind) {
	case 0:
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		assert_int_equal(close(pair[1]), 0);
		return pair[0];
	case 1:
		return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	case 2:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	case 3:
		return memfd_make(1u << 20, 0, 0);		/* can shrink */
	case 4:
		fd = memfd_make(1u << 20, 0, 0);		/* a file of tmpfs, too */
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL), 0);
		return fd;
	default:
		fd = memfd_create("holes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		assert_int_equal(ftruncate(fd, 1 << 20), 0);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, PAIR_SEALS), 0);
		return fd;
	}
}

static void descriptors__of_the_wrong_kind(void **state)
{
	static const char *const words[] = {
		"not a memfd", "not a memfd", "not a memfd", "not sealed", "not sealed", "holes",
	};
	struct pair *p = pair_connected();

	for (int kind = 0; kind < (int)ARRAY_SIZE(words) * 2; kind++) {
		struct shm_frame frame = { .version = SHM_VERSION };
		int fd = wrong_fd(kind / 2);
		struct attack *a;

		assert_true(fd >= 0);
		a = attack_begin(p);
		if (kind % 2) {
			frame.type = SHM_FRAME_GATES;
			frame.gates = 16;
		} else {
			frame.type = SHM_FRAME_REGION_FD;
			frame.token = 1;
		}
		assert_int_equal(raw_send(a->sock, &frame, sizeof(frame), &fd, 1), 0);
		attack_check_neighbour(a);
		attack_end(a, words[kind / 2]);
		assert_int_equal(close(fd), 0);
	}
	pair_free(p);
}

static void gates__of_a_size_that_is_not_there(void **state)
{
	static const struct { uint32_t n; const char *word; } cases[] = {
		{ 0, "at most" }, { SHM_MAX_GATES + 1, "at most" }, { UINT32_MAX, "at most" },
		{ 65, "too small" },
	};
	struct pair *p = pair_connected();
	int fd = memfd_make(4096, 0, PAIR_SEALS);	/* room for 64 */
	struct shm_frame frame = { .type = SHM_FRAME_GATES, .version = SHM_VERSION };
	struct attack *a;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		a = attack_begin(p);
		frame.gates = cases[i].n;
		assert_int_equal(raw_send(a->sock, &frame, sizeof(frame), &fd, 1), 0);
		attack_check_neighbour(a);
		attack_end(a, cases[i].word);
	}
	a = attack_begin(p);
	frame.gates = 64;
	assert_int_equal(raw_send(a->sock, &frame, sizeof(frame), &fd, 1), 0);
	assert_int_equal(raw_send(a->sock, &frame, sizeof(frame), &fd, 1), 0);
	attack_end(a, "twice");
	assert_int_equal(close(fd), 0);
	pair_free(p);
}

static int attack_region(struct attack *a, uint64_t token, int fd)
{
	struct shm_frame frame = {
		.type = SHM_FRAME_REGION_FD, .version = SHM_VERSION, .token = token,
	};
	int r = raw_send(a->sock, &frame, sizeof(frame), &fd, 1);

	pair_settle(a->p);
	return r;
}

static void region__described_with_lies(void **state)
{
	static const struct {
		struct shm_region_name name;
		uint64_t size;
		const char *word;
	} cases[] = {
		{ { 1, 0, 8192 }, 4096, "two sizes" },
		{ { 1, 0, 0 }, 0, "two sizes" },
		{ { 1, 0, 8193 }, 8193, "too small" },
		{ { 1, 4096, 8192 }, 8192, "too small" },
		{ { 1, UINT64_MAX, 8192 }, 8192, "beyond" },
		{ { 1, UINT64_MAX - 8192, 8192 }, 8192, "beyond" },
		{ { 1, 0, UINT64_MAX }, UINT64_MAX, "beyond" },
	};
	struct pair *p = pair_connected();
	int fd = memfd_make(8192, 0, PAIR_SEALS);
	struct transport_region *r;
	struct attack *a;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		a = attack_begin(p);
		assert_int_equal(attack_region(a, 1, fd), 0);
		assert_int_equal(p->node.t->ops->region_import(a->conn,
							       (const uint8_t *)&cases[i].name,
							       sizeof(cases[i].name),
							       cases[i].size, &r), -EPROTO);
		attack_check_neighbour(a);
		attack_end(a, cases[i].word);
	}
	a = attack_begin(p);
	assert_int_equal(p->node.t->ops->region_import(a->conn, (const uint8_t *)"x", 1, 8192, &r),
			 -EPROTO);
	attack_end(a, "length");
	assert_int_equal(close(fd), 0);
	pair_free(p);
}

/* A hole made between the arrival and the import is seen by the import. */
static void region__punched_before_import(void **state)
{
	struct pair *p = pair_connected();
	int fd = memfd_make(8192, 0, PAIR_SEALS);
	struct shm_region_name name = { .token = 1, .size = 8192 };
	struct transport_region *r;
	struct attack *a = attack_begin(p);

	assert_int_equal(attack_region(a, 1, fd), 0);
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
	assert_int_equal(p->node.t->ops->region_import(a->conn, (const uint8_t *)&name,
						       sizeof(name), 8192, &r), -EPROTO);
	attack_end(a, "holes");
	assert_int_equal(close(fd), 0);
	pair_free(p);
}

static void region__sent_and_never_claimed(void **state)
{
	struct pair *p = pair_connected();
	int fd = memfd_make(4096, 0, PAIR_SEALS);
	struct attack *a = attack_begin(p);

	assert_int_equal(attack_region(a, 1, fd), 0);
	assert_int_equal(attack_region(a, 1, fd), 0);
	attack_end(a, "same token");
	a = attack_begin(p);
	for (uint64_t i = 0; i <= p->config.max_regions; i++) {
		assert_int_equal(side_count(&p->node, TRANSPORT_CONN_DOWN), 0);
		assert_int_equal(attack_region(a, i, fd), 0);
	}
	attack_end(a, "claimed none");
	assert_int_equal(close(fd), 0);
	pair_free(p);
}

/* Many connections that each stay below their limit: the largest hoard goes, not who came last. */
static void region__hoards_of_many_connections(void **state)
{
	struct pair *p = pair_new();
	int fd = memfd_make(4096, 0, PAIR_SEALS);
	struct attack *a[9];
	struct attack *largest;
	uint32_t fds;

	p->config.max_conns = 20;
	p->config.max_regions = 100;
	pair_listen(p);
	pair_connect(p);
	fds = count_fds();
	for (int i = 0; i < 9; i++) {
		a[i] = attack_begin(p);
		for (uint32_t k = 0; k < (i == 2 ? 63u : 56u); k++)
			assert_int_equal(attack_region(a[i], k, fd), 0);
	}
	assert_int_equal(side_count(&p->node, TRANSPORT_CONN_DOWN), 0);	/* 511 */
	largest = a[2];
	for (uint32_t k = 0; k < 2; k++)
		assert_int_equal(attack_region(a[8], 1000 + k, fd), 0);
	assert_int_equal(side_count(&p->node, TRANSPORT_CONN_DOWN), 1);
	assert_ptr_equal(side_find(&p->node, TRANSPORT_CONN_DOWN)->conn, largest->conn);
	attack_check_neighbour(a[0]);
	for (int i = 0; i < 9; i++) {
		assert_int_equal(close(a[i]->sock), 0);
		free(a[i]);
	}
	pair_settle(p);
	assert_int_equal(count_fds(), fds);
	assert_int_equal(close(fd), 0);
	pair_free(p);
}

/* Somebody sends as fast as the socket takes it: a turn stays a turn, the neighbour is served. */
static void flood__does_not_stall_the_neighbour(void **state)
{
	struct pair *p = pair_connected();
	struct attack *a = attack_begin(p);
	static char data[sizeof(struct shm_frame) + SHM_MAX_MESSAGE];
	const struct shm_frame frame = { .type = SHM_FRAME_DATA, .version = SHM_VERSION };
	uint32_t got = 0;

	memcpy(data, &frame, sizeof(frame));
	for (int round = 0; round < 50; round++) {
		uint32_t before = p->node.n;
		uint64_t bytes = 0;

		while (raw_send(a->sock, data, sizeof(data), NULL, 0) == 0)
			;
		assert_int_equal(side_send(&p->node, "x", 1, 1), 1);
		side_step(&p->node, 64);
		side_step(&p->client, 64);
		for (uint32_t i = before; i < p->node.n; i++) {
			const struct transport_event *ev = &p->node.ev[i];
			struct transport_rx rx = { .data = ev->data, .length = SHM_MAX_MESSAGE };

			if (ev->type != TRANSPORT_RX)
				continue;
			assert_ptr_equal(ev->conn, a->conn);
			bytes += ev->length;
			assert_int_equal(transport_post_rx(a->conn, &rx, 1), 0);
		}
		assert_in_range(bytes, 1, TRANSPORT_TURN_BYTES);
		got += side_count(&p->client, TRANSPORT_RX);
		p->client.n = 0;
		if (round % PAIR_RX == PAIR_RX - 1)
			side_post(&p->client);
	}
	assert_int_equal(got, 50);
	assert_int_equal(close(a->sock), 0);
	free(a);
	pair_free(p);
}

/* A client is as careful with what calls itself a node. */
static void node__that_offers_memory(void **state)
{
	struct pair *p = pair_new();
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct shm_frame frame = { .type = SHM_FRAME_REGION_FD, .version = SHM_VERSION };
	int fd = memfd_make(4096, 0, PAIR_SEALS);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int sock;

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", p->path);
	assert_int_equal(bind(listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(transport_shm()->open(&p->config, &p->client.t), 0);
	assert_int_equal(p->client.t->ops->connect(p->client.t, p->path, p, &p->client.conn), 0);
	sock = accept(listener, NULL, NULL);
	assert_true(sock >= 0);
	pair_settle(p);
	side_post(&p->client);
	assert_int_equal(raw_send(sock, &frame, sizeof(frame), &fd, 1), 0);
	pair_settle(p);
	assert_int_equal(side_find(&p->client, TRANSPORT_CONN_DOWN)->status, -EPROTO);
	assert_non_null(strstr(p->last_line, "a node offers memory"));
	assert_int_equal(close(sock), 0);
	assert_int_equal(close(listener), 0);
	assert_int_equal(close(fd), 0);
	pair_free(p);
}

/* A reconnecting nuisance can't fill the log. */
static void log__is_not_flooded(void **state)
{
	struct pair *p = pair_connected();
	uint32_t lines = 0;
	struct attack *a;

	for (int i = 0; i < 100; i++) {
		a = attack_begin(p);
		assert_int_equal(raw_send(a->sock, "x", 1, NULL, 0), 0);
		pair_settle(p);
		lines += p->lines;
		assert_int_equal(close(a->sock), 0);
		free(a);
	}
	assert_in_range(lines, 1, 10);
	p->now_ns += NSEC_PER_SEC;
	p->lines = 0;
	a = attack_begin(p);
	assert_int_equal(raw_send(a->sock, "x", 1, NULL, 0), 0);
	attack_end(a, "shorter");
	pair_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagram__that_makes_no_sense),
		cmocka_unit_test(datagram__at_random),
		cmocka_unit_test(descriptors__that_nobody_asked_for),
		cmocka_unit_test(descriptors__of_the_wrong_kind),
		cmocka_unit_test(gates__of_a_size_that_is_not_there),
		cmocka_unit_test(region__described_with_lies),
		cmocka_unit_test(region__punched_before_import),
		cmocka_unit_test(region__sent_and_never_claimed),
		cmocka_unit_test(region__hoards_of_many_connections),
		cmocka_unit_test(flood__does_not_stall_the_neighbour),
		cmocka_unit_test(node__that_offers_memory),
		cmocka_unit_test(log__is_not_flooded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
