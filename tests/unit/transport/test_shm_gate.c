/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm's gates: after gate_take has returned 0 the node touches no byte of the buffer, whatever it
 * was doing: idle, between slices, in another thread, or frozen by SIGSTOP in another process.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "shm_pair.h"

#define BYTES (2u << 20)

static int arm(struct pair *p, uint32_t gate)
{
	return p->client.t->ops->gate_arm(p->client.conn, gate);
}

static int take(struct pair *p, uint32_t gate)
{
	return p->client.t->ops->gate_take(p->client.conn, gate);
}

static void gate__that_is_not_armed_lets_nobody_in(void **state)
{
	struct pair *p = pair_connected();
	uint8_t pages[4096];
	struct shared s;

	memset(pages, 0x55, sizeof(pages));
	shared_join(p, &s, 4096);
	assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages, 4096, 0, 0), 1);
	assert_int_equal(node_move(p, TRANSPORT_READ, s.node, pages, 4096, 0, 0), 1);
	pair_settle(p);
	assert_int_equal(side_find(&p->node, TRANSPORT_WRITE_DONE)->status, -ECANCELED);
	assert_int_equal(side_find(&p->node, TRANSPORT_READ_DONE)->status, -ECANCELED);
	assert_int_equal(s.addr[0], 0);
	assert_int_equal(pages[0], 0x55);
	assert_int_equal(arm(p, 0), 0);
	assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages, 4096, 0, 0), 1);
	pair_settle(p);
	assert_int_equal(side_find(&p->node, TRANSPORT_WRITE_DONE)->status, 0);
	assert_memory_equal(s.addr, pages, 4096);
	shared_free(&s);
	pair_free(p);
}

static void gate__refuses_what_makes_no_sense(void **state)
{
	struct pair *p = pair_connected();

	assert_int_equal(arm(p, 16), -ERANGE);
	assert_int_equal(take(p, 16), -ERANGE);
	assert_int_equal(arm(p, TRANSPORT_NO_GATE), -ERANGE);
	assert_int_equal(p->node.t->ops->gate_arm(p->node.conn, 0), -EOPNOTSUPP);
	assert_int_equal(p->node.t->ops->gate_take(p->node.conn, 0), -EOPNOTSUPP);
	assert_int_equal(take(p, 15), 0);		/* never armed: nothing to wait for */
	assert_int_equal(take(p, 15), 0);
	pair_free(p);
}

static void gate__taken_in_mid_transfer_stops_it_there(void **state)
{
	struct pair *p = pair_connected();
	static uint8_t pages[BYTES];
	struct shared s;
	size_t at;

	memset(pages, 0x55, sizeof(pages));
	shared_join(p, &s, BYTES);
	assert_int_equal(arm(p, 7), 0);
	assert_int_equal(arm(p, 8), 0);
	assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages, BYTES, 0, 7), 1);
	assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages, 1, BYTES - 1, 8), 1);
	assert_int_equal(side_send(&p->node, "after", 5, 3), 1);
	side_step(&p->node, 16);
	side_step(&p->node, 16);
	assert_int_equal(take(p, 7), 0);
	for (at = 0; at < BYTES && s.addr[at] == 0x55; at++)
		;
	assert_in_range(at, 1, 2 * TRANSPORT_TURN_BYTES);
	memset(s.addr, 0xee, BYTES);
	pair_settle(p);
	for (at = 0; at < BYTES - 1; at++)
		assert_int_equal(s.addr[at], 0xee);
	assert_int_equal(s.addr[BYTES - 1], 0x55);	/* by the other gate */
	for (uint32_t i = 0; i < p->node.n; i++) {
		if (p->node.ev[i].type == TRANSPORT_WRITE_DONE)
			assert_int_equal(p->node.ev[i].status,
					 p->node.ev[i].cookie == 1000 ? -ECANCELED : 0);
	}
	assert_memory_equal(side_find(&p->client, TRANSPORT_RX)->data, "after", 5);
	shared_free(&s);
	pair_free(p);
}

static void gate__busy_is_told_until_the_peer_is_gone(void **state)
{
	struct pair *p = pair_connected();
	_Atomic uint32_t *gate = shm_gate_at(&shm_conn_of(p->client.conn)->gates, 2);

	assert_int_equal(arm(p, 2), 0);
	assert_int_equal(arm(p, 3), 0);
	assert_true(shm_gate_enter(gate));		/* as a node that was stopped in a slice */
	assert_int_equal(take(p, 2), -EBUSY);
	assert_int_equal(take(p, 2), -EBUSY);
	assert_false(shm_gate_enter(gate));
	/* Our own end does not prove that the node has stopped. */
	assert_int_equal(transport_disconnect(p->client.conn, false), 0);
	assert_int_equal(take(p, 2), -EBUSY);
	assert_int_equal(take(p, 3), 0);
	assert_int_equal(arm(p, 3), -ENOTCONN);
	pair_settle(p);
	pair_connect(p);
	gate = shm_gate_at(&shm_conn_of(p->client.conn)->gates, 2);
	assert_int_equal(arm(p, 2), 0);
	assert_true(shm_gate_enter(gate));
	/* Its end does. */
	assert_int_equal(transport_disconnect(p->node.conn, false), 0);
	side_step(&p->node, 16);
	assert_int_equal(take(p, 2), -EBUSY);		/* not seen yet */
	p->client.n = 0;
	side_step(&p->client, 1);
	assert_int_equal(p->client.ev[0].type, TRANSPORT_CONN_DOWN);
	assert_int_equal(take(p, 2), 0);
	pair_settle(p);
	pair_free(p);
}

static void gate__scribbled_over_means_taken(void **state)
{
	static const uint32_t values[] = { 3, 0xffffffff, SHM_GATE_BUSY, 0x80000001 };
	struct pair *p = pair_connected();
	_Atomic uint32_t *gate = shm_gate_at(&shm_conn_of(p->client.conn)->gates, 2);
	uint8_t pages[64];
	struct shared s;

	memset(pages, 0x55, sizeof(pages));
	shared_join(p, &s, 4096);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		*gate = values[i];
		assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages, 64, 0, 2), 1);
		pair_settle(p);
		assert_int_equal(side_find(&p->node, TRANSPORT_WRITE_DONE)->status, -ECANCELED);
		assert_int_equal(*gate, values[i]);
		assert_int_equal(s.addr[0], 0);
	}
	shared_free(&s);
	pair_free(p);
}

/* --- a node that runs by itself ------------------------------------------------------------- */

/*
 * The client sends {type, gate}; the node moves the whole region that way under that gate and
 * replies with the status and with one byte of what it read. It ends with its connection.
 */
struct order {
	uint32_t type;
	uint32_t gate;
	uint8_t opaque[TRANSPORT_OPAQUE_MAX];	/* type 0: import */
	uint32_t opaque_len;
};

struct answer {
	int32_t status;
	uint32_t has_ee;	/* what was read has bytes of 0xee */
};

#define NODE_FILL 0x55
#define CLIENT_FILL 0xee

struct server {
	struct transport *t;
	struct transport_conn *conn;
	struct transport_region *region;
	uint8_t *pages;
	struct order order;
	struct answer answer;
};

static int server_order(struct server *s)
{
	struct iovec iov = { .iov_base = s->pages, .iov_len = BYTES };
	struct transport_tx tx = {
		.type = (uint8_t)s->order.type, .niov = 1, .gate = s->order.gate, .iov = &iov,
		.region = s->region,
	};

	if (s->order.type)
		return transport_tx(s->conn, &tx, 1) == 1 ? 0 : -EIO;
	return s->t->ops->region_import(s->conn, s->order.opaque, s->order.opaque_len, BYTES,
					&s->region);
}

static int server_answer(struct server *s, int status)
{
	struct iovec iov = { .iov_base = &s->answer, .iov_len = sizeof(s->answer) };
	struct transport_tx tx = { .type = TRANSPORT_SEND, .niov = 1, .iov = &iov };

	s->answer = (struct answer){
		.status = status, .has_ee = memchr(s->pages, CLIENT_FILL, BYTES) != NULL,
	};
	memset(s->pages, NODE_FILL, BYTES);
	return transport_tx(s->conn, &tx, 1) == 1 ? 0 : -EIO;
}

/* 0 go on, 1 the end, -errno. */
static int server_event(struct server *s, const struct transport_event *ev)
{
	struct transport_rx rx = { .data = &s->order, .length = sizeof(s->order) };
	int r;

	switch (ev->type) {
	case TRANSPORT_CONN_UP:
		s->conn = ev->conn;
		return transport_post_rx(s->conn, &rx, 1);
	case TRANSPORT_RX:
		if (ev->status < 0)
			return 0;
		r = server_order(s);
		if (r < 0 || s->order.type)
			return r;
		return server_answer(s, 0);
	case TRANSPORT_READ_DONE:
	case TRANSPORT_WRITE_DONE:
		return server_answer(s, ev->status);
	case TRANSPORT_TX_DONE:
		return ev->status < 0 ? 0 : transport_post_rx(s->conn, &rx, 1);
	case TRANSPORT_CONN_GONE:
		return 1;
	default:
		return 0;
	}
}

static int server_run(struct server *s)
{
	int r = 0;

	s->pages = malloc(BYTES);
	if (!s->pages)
		return -ENOMEM;
	memset(s->pages, NODE_FILL, BYTES);
	while (!r) {
		struct transport_event ev;
		int n = transport_poll(s->t, &ev, 1);

		r = n < 0 ? n : n ? server_event(s, &ev) : 0;
	}
	if (s->region && s->t->ops->region_del(s->region) < 0)
		r = -EBUSY;
	free(s->pages);
	return r;
}

static void client_order(struct pair *p, const struct order *o)
{
	assert_int_equal(side_send(&p->client, o, sizeof(*o), 1), 1);
	assert_int_equal(transport_flush(p->client.t), 0);
}

static struct answer client_answer(struct pair *p)
{
	struct transport_rx rx = { .length = SHM_MAX_MESSAGE };
	const struct transport_event *ev;
	struct answer a;

	p->client.n = 0;
	while (!side_count(&p->client, TRANSPORT_RX)) {
		p->client.n = 0;
		side_step(&p->client, 16);
		assert_non_null(p->client.conn);
	}
	ev = side_find(&p->client, TRANSPORT_RX);
	assert_int_equal(ev->length, sizeof(a));
	memcpy(&a, ev->data, sizeof(a));
	rx.data = ev->data;
	assert_int_equal(transport_post_rx(p->client.conn, &rx, 1), 0);
	return a;
}

/* The client's half of a pair whose node runs elsewhere. */
static void client_begin(struct pair *p, struct shared *s)
{
	struct order o = { .type = 0 };

	assert_int_equal(transport_shm()->open(&p->config, &p->client.t), 0);
	assert_int_equal(p->client.t->ops->connect(p->client.t, p->path, p, &p->client.conn), 0);
	side_post(&p->client);
	shared_make(s, BYTES);
	assert_int_equal(shared_add(p, s), 0);
	o.opaque_len = (uint32_t)s->opaque_len;
	memcpy(o.opaque, s->opaque, s->opaque_len);
	client_order(p, &o);
	assert_int_equal(client_answer(p).status, 0);
}

static void client_end(struct pair *p, struct shared *s)
{
	assert_int_equal(transport_disconnect(p->client.conn, false), 0);
	pair_settle(p);
	shared_free(s);
}

struct score {
	uint32_t taken;
	uint32_t busy;
	uint32_t cancelled;
};

/* What must hold after gate_take said 0 (or nothing was tried): @before is what the buffer held. */
static void client_judge(struct pair *p, struct shared *s, uint32_t type, bool taken,
			 struct score *score)
{
	struct answer a;

	if (taken)
		memset(s->addr, CLIENT_FILL, BYTES);
	a = client_answer(p);
	score->taken += taken;
	score->cancelled += a.status == -ECANCELED;
	assert_true(a.status == 0 || a.status == -ECANCELED);
	if (!taken)
		return;
	if (s->addr[0] != CLIENT_FILL || memcmp(s->addr, s->addr + 1, BYTES - 1) != 0)
		fail_msg("a buffer that was taken back changed");
	if (type == TRANSPORT_READ)
		assert_int_equal(a.has_ee, 0);	/* it read nothing of what came afterwards */
}

static void client_wait_some(struct prng *prng)
{
	/* From a microsecond to some milliseconds, each magnitude as often. */
	for (volatile uint64_t i = prng_below(prng, 1024ull << prng_below(prng, 12)); i; i--)
		;
}

/* --- in another thread ---------------------------------------------------------------------- */

static void *thread_node(void *arg)
{
	return (void *)(intptr_t)server_run(arg);
}

static void gate__taken_from_a_node_in_another_thread(void **state)
{
	struct pair *p = pair_new();
	struct server server = { 0 };
	struct score score = { 0 };
	struct shared s;
	struct prng prng;
	pthread_t thread;
	void *end;

	prng_seed(&prng, 99);
	print_message("seed 99\n");
	assert_int_equal(transport_shm()->open(&p->config, &server.t), 0);
	assert_int_equal(server.t->ops->listen(server.t, p->path), 0);
	assert_int_equal(pthread_create(&thread, NULL, thread_node, &server), 0);
	client_begin(p, &s);
	for (uint32_t i = 0; i < 60; i++) {
		struct order o = {
			.type = i % 2 ? TRANSPORT_READ : TRANSPORT_WRITE, .gate = i % 16,
		};
		int r;

		memset(s.addr, 0, BYTES);
		assert_int_equal(arm(p, o.gate), 0);
		client_order(p, &o);
		client_wait_some(&prng);
		while ((r = take(p, o.gate)) == -EBUSY)
			score.busy++;
		assert_int_equal(r, 0);
		client_judge(p, &s, o.type, true, &score);
	}
	client_end(p, &s);
	assert_int_equal(pthread_join(thread, &end), 0);
	assert_int_equal((intptr_t)end, 1);
	server.t->ops->close(server.t);
	print_message("taken %u times, cut %u transfers, busy %u times\n", score.taken,
		      score.cancelled, score.busy);
	assert_true(score.cancelled > 0);
	pair_free(p);
}

/* --- in another process, frozen ------------------------------------------------------------- */

static pid_t node_fork(struct pair *p)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct server server = { 0 };

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (transport_shm()->open(&p->config, &server.t) < 0 ||
		    server.t->ops->listen(server.t, p->path) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		_exit(server_run(&server) == 1 ? 0 : 2);
	}
	assert_int_equal(close(ready[1]), 0);
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(close(ready[0]), 0);
	return pid;
}

static void node_freeze(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
}

static void gate__taken_from_a_frozen_node(void **state)
{
	struct pair *p = pair_new();
	struct score score = { 0 };
	struct shared s;
	struct prng prng;
	pid_t pid;
	int status;

	prng_seed(&prng, 12);
	print_message("seed 12\n");
	pid = node_fork(p);
	client_begin(p, &s);
	for (uint32_t i = 0; i < 150; i++) {
		struct order o = {
			.type = i % 2 ? TRANSPORT_READ : TRANSPORT_WRITE, .gate = i % 16,
		};
		bool taken;
		int r;

		memset(s.addr, 0, BYTES);
		assert_int_equal(arm(p, o.gate), 0);
		client_order(p, &o);
		client_wait_some(&prng);
		node_freeze(pid);
		r = take(p, o.gate);
		taken = r == 0;
		if (!taken) {
			assert_int_equal(r, -EBUSY);
			assert_int_equal(take(p, o.gate), -EBUSY);	/* and stays so */
			score.busy++;
		}
		assert_int_equal(kill(pid, SIGCONT), 0);
		client_judge(p, &s, o.type, taken, &score);
	}
	client_end(p, &s);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	print_message("taken %u times, cut %u transfers, busy %u times\n", score.taken,
		      score.cancelled, score.busy);
	assert_true(score.taken > 0);
	assert_true(score.cancelled > 0);
	pair_free(p);
}

/* kill -9 of the node inside a slice: its closed socket gives every gate back. */
static void gate__of_a_killed_node_can_be_taken(void **state)
{
	for (int i = 0; i < 10; i++) {
		struct order o = { .type = TRANSPORT_WRITE, .gate = 1 };
		struct pair *p = pair_new();
		struct shared s;
		struct prng prng;
		pid_t pid = node_fork(p);

		prng_seed(&prng, (uint64_t)i);
		client_begin(p, &s);
		assert_int_equal(arm(p, 1), 0);
		client_order(p, &o);
		client_wait_some(&prng);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		p->client.n = 0;
		while (!side_count(&p->client, TRANSPORT_CONN_DOWN))
			side_step(&p->client, 1);
		assert_int_equal(take(p, 1), 0);
		memset(s.addr, CLIENT_FILL, BYTES);
		pair_settle(p);
		shared_free(&s);
		pair_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gate__that_is_not_armed_lets_nobody_in),
		cmocka_unit_test(gate__refuses_what_makes_no_sense),
		cmocka_unit_test(gate__taken_in_mid_transfer_stops_it_there),
		cmocka_unit_test(gate__busy_is_told_until_the_peer_is_gone),
		cmocka_unit_test(gate__scribbled_over_means_taken),
		cmocka_unit_test(gate__taken_from_a_node_in_another_thread),
		cmocka_unit_test(gate__taken_from_a_frozen_node),
		cmocka_unit_test(gate__of_a_killed_node_can_be_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
