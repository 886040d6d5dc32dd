/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm, the ordinary life: messages both ways, copies in order with messages, limits of a turn,
 * readiness, the end with everything given back, counts of descriptors and mappings.
 */
#include "shm_pair.h"

static void message__arrives_whole_in_order(void **state)
{
	struct pair *p = pair_connected();
	char big[SHM_MAX_MESSAGE];
	const struct transport_event *ev;

	fill((uint8_t *)big, sizeof(big), 1);
	assert_int_equal(side_send(&p->client, "one", 3, 7), 1);
	assert_int_equal(side_send(&p->client, big, sizeof(big), 8), 1);
	assert_int_equal(side_send(&p->client, "", 0, 9), 1);
	pair_settle(p);
	assert_int_equal(side_count(&p->node, TRANSPORT_RX), 3);
	ev = &p->node.ev[p->node.n - 3];
	assert_int_equal(ev[0].length, 3);
	assert_memory_equal(ev[0].data, "one", 3);
	assert_int_equal(ev[1].length, sizeof(big));
	assert_memory_equal(ev[1].data, big, sizeof(big));
	assert_int_equal(ev[2].length, 0);
	assert_int_equal(side_count(&p->client, TRANSPORT_TX_DONE), 3);
	assert_int_equal(side_find(&p->client, TRANSPORT_TX_DONE)->cookie, 9);

	assert_int_equal(side_send(&p->node, "reply", 5, 1), 1);
	assert_int_equal(transport_flush(p->node.t), 0);
	side_step(&p->client, 16);	/* flush alone has sent it */
	assert_memory_equal(side_find(&p->client, TRANSPORT_RX)->data, "reply", 5);
	pair_free(p);
}

static void message__too_long_for_the_buffer_ends_the_connection(void **state)
{
	struct pair *p = pair_new();
	char data[200] = { 0 };
	char small[100];
	struct transport_rx rx = { .data = small, .length = sizeof(small), .cookie = 77 };

	pair_listen(p);
	assert_int_equal(transport_shm()->open(&p->config, &p->client.t), 0);
	assert_int_equal(p->client.t->ops->connect(p->client.t, p->path, p, &p->client.conn), 0);
	pair_settle(p);
	assert_int_equal(transport_post_rx(p->node.conn, &rx, 1), 0);
	assert_int_equal(side_send(&p->client, data, sizeof(data), 1), 1);
	pair_settle(p);
	assert_int_equal(side_find(&p->node, TRANSPORT_CONN_DOWN)->status, -EMSGSIZE);
	assert_int_equal(side_find(&p->node, TRANSPORT_RX)->cookie, 77);
	assert_true(side_find(&p->node, TRANSPORT_RX)->status < 0);
	assert_int_equal(side_count(&p->node, TRANSPORT_CONN_GONE), 1);
	assert_int_equal(side_count(&p->client, TRANSPORT_CONN_GONE), 1);
	pair_free(p);
}

static void tx__refuses_what_it_can_not_do(void **state)
{
	struct pair *p = pair_connected();
	static char big[SHM_MAX_MESSAGE + 1];
	struct iovec iov[SHM_MAX_IOV + 1] = { { .iov_base = big, .iov_len = 1 } };
	struct transport_tx tx = { .type = TRANSPORT_SEND, .niov = SHM_MAX_IOV + 1, .iov = iov };
	struct shared s;

	assert_int_equal(side_send(&p->client, big, sizeof(big), 1), -EMSGSIZE);
	assert_int_equal(transport_tx(p->client.conn, &tx, 1), -EINVAL);
	tx.niov = 1;
	tx.type = 99;
	assert_int_equal(transport_tx(p->client.conn, &tx, 1), -EINVAL);
	tx.type = TRANSPORT_READ;	/* of no region */
	assert_int_equal(transport_tx(p->client.conn, &tx, 1), -EINVAL);
	shared_join(p, &s, 4096);
	tx.region = s.client;		/* not the node's side */
	assert_int_equal(transport_tx(p->client.conn, &tx, 1), -EINVAL);
	tx.region = s.node;		/* of another connection */
	assert_int_equal(transport_tx(p->client.conn, &tx, 1), -EINVAL);
	assert_int_equal(side_count(&p->client, TRANSPORT_TX_DONE), 0);
	shared_free(&s);
	pair_free(p);
}

static void tx__is_full_at_its_limit(void **state)
{
	struct pair *p = pair_connected();
	struct iovec iov = { .iov_base = "x", .iov_len = 1 };
	struct transport_tx tx[SHM_MAX_TX + 1];

	for (uint32_t i = 0; i < ARRAY_SIZE(tx); i++)
		tx[i] = (struct transport_tx){
			.type = TRANSPORT_SEND, .niov = 1, .iov = &iov, .cookie = i,
		};
	assert_int_equal(transport_tx(p->client.conn, tx, ARRAY_SIZE(tx)), SHM_MAX_TX);
	assert_int_equal(transport_tx(p->client.conn, tx, 1), 0);
	pair_settle(p);
	assert_int_equal(side_count(&p->client, TRANSPORT_TX_DONE), SHM_MAX_TX);
	assert_int_equal(transport_tx(p->client.conn, tx, 1), 1);
	pair_free(p);
}

/* The peer does not read: what does not fit waits, and goes on when it reads again. */
static void tx__waits_for_a_peer_that_does_not_read(void **state)
{
	struct pair *p = pair_new();
	static char data[SHM_MAX_MESSAGE];
	uint32_t sent = 0, got = 0;

	pair_listen(p);
	assert_int_equal(transport_shm()->open(&p->config, &p->client.t), 0);
	assert_int_equal(p->client.t->ops->connect(p->client.t, p->path, p, &p->client.conn), 0);
	pair_settle(p);
	while (side_send(&p->client, data, sizeof(data), sent) == 1)
		sent++;
	assert_int_equal(sent, SHM_MAX_TX);
	pair_settle(p);
	assert_true(side_count(&p->client, TRANSPORT_TX_DONE) < sent);
	/* Blocked, and nothing to do about it: the descriptor must not say otherwise. */
	assert_false(side_busy(&p->client));
	assert_false(side_busy(&p->node));
	for (int i = 0; i < PAIR_STEPS && got < sent; i++) {
		uint32_t before = side_count(&p->node, TRANSPORT_RX);

		if (!i || before == got + PAIR_RX) {
			got = before;
			side_post(&p->node);
			assert_true(side_busy(&p->node) ||
				    got == sent);
		}
		pair_step(p);
		if (side_count(&p->node, TRANSPORT_RX) == sent)
			got = sent;
	}
	assert_int_equal(side_count(&p->node, TRANSPORT_RX), sent);
	assert_int_equal(side_count(&p->client, TRANSPORT_TX_DONE), sent);
	pair_free(p);
}

/* A reply accepted after the copies it speaks of leaves after them, a turn moves at most its
 * bytes, and the descriptor to sleep on is readable while there is work. */
static void copy__goes_in_turns_and_before_the_reply(void **state)
{
	struct pair *p = pair_connected();
	size_t total = 2u << 20;
	uint8_t *pages = malloc(total);
	uint64_t before = 0;
	uint32_t polls = 0;
	struct shared s;

	assert_non_null(pages);
	memset(pages, 0xab, total);
	shared_join(p, &s, total);
	memset(s.addr, 0, total);
	assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages, total, 0,
				   TRANSPORT_NO_GATE), 1);
	assert_int_equal(side_send(&p->node, "done", 4, 5), 1);
	while (!side_count(&p->node, TRANSPORT_TX_DONE)) {
		uint64_t moved = 0;

		assert_true(side_busy(&p->node));
		assert_false(side_count(&p->client, TRANSPORT_RX));
		side_step(&p->node, 16);
		for (size_t i = 0; i < total; i++)
			moved += s.addr[i] == 0xab;
		assert_in_range(moved - before, 0, TRANSPORT_TURN_BYTES);
		if (!side_count(&p->node, TRANSPORT_TX_DONE))
			assert_true(moved > before);
		before = moved;
		side_step(&p->client, 16);
		assert_true(++polls < 20);
	}
	assert_int_equal(before, total);
	pair_settle(p);
	assert_memory_equal(side_find(&p->client, TRANSPORT_RX)->data, "done", 4);
	assert_int_equal(p->node.ev[p->node.n - 1].type, TRANSPORT_TX_DONE);
	assert_int_equal(p->node.ev[p->node.n - 2].type, TRANSPORT_WRITE_DONE);
	assert_false(side_busy(&p->node));
	assert_false(side_busy(&p->client));
	free(pages);
	shared_free(&s);
	pair_free(p);
}

/* One event at a time loses nothing. */
static void poll__honours_max_and_loses_nothing(void **state)
{
	struct pair *p = pair_connected();
	uint8_t page[64];
	struct shared s;

	shared_join(p, &s, 4096);
	side_step(&p->node, 0);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(node_move(p, TRANSPORT_READ, s.node, page, 64, i,
					   TRANSPORT_NO_GATE), 1);
	p->node.n = 0;
	for (uint32_t i = 0; i < 20; i++) {
		assert_true(side_busy(&p->node));
		side_step(&p->node, 1);
		assert_int_equal(p->node.n, i + 1);
		assert_int_equal(p->node.ev[i].cookie, 1000 + i);
	}
	shared_free(&s);
	pair_free(p);
}

static void end__gives_everything_back_in_order(void **state)
{
	struct pair *p = pair_connected();
	static uint8_t pages[1u << 20];
	uint32_t down, gone, done = 0;
	struct shared s;

	shared_join(p, &s, sizeof(pages));
	p->node.n = 0;
	for (int i = 0; i < 3; i++)
		assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages, sizeof(pages), 0,
					   TRANSPORT_NO_GATE), 1);
	assert_int_equal(side_send(&p->node, "x", 1, 9), 1);
	side_step(&p->node, 16);		/* a part of the first is copied */
	assert_int_equal(transport_disconnect(p->client.conn, false), 0);
	assert_int_equal(transport_disconnect(p->client.conn, false), 0);
	pair_settle(p);
	assert_int_equal(side_find(&p->client, TRANSPORT_CONN_DOWN)->status, 0);
	assert_int_equal(p->client.ev[p->client.n - 1].type, TRANSPORT_CONN_GONE);
	assert_int_equal(side_count(&p->client, TRANSPORT_RX), PAIR_RX);
	for (down = 0; p->node.ev[down].type != TRANSPORT_CONN_DOWN; down++)
		;
	gone = p->node.n - 1;
	assert_int_equal(p->node.ev[gone].type, TRANSPORT_CONN_GONE);
	for (uint32_t i = down + 1; i < gone; i++) {
		done += p->node.ev[i].type != TRANSPORT_RX;
		assert_int_equal(p->node.ev[i].status, -ECONNRESET);
	}
	assert_int_equal(done, 4);
	assert_int_equal(side_count(&p->node, TRANSPORT_RX), PAIR_RX);
	shared_free(&s);			/* after GONE: fine, too */
	pair_free(p);
}

static void end__drain_sends_what_was_accepted(void **state)
{
	struct pair *p = pair_connected();
	static uint8_t pages[1u << 20];
	struct shared s;

	memset(pages, 0x5c, sizeof(pages));
	shared_join(p, &s, sizeof(pages));
	assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages, sizeof(pages), 0,
				   TRANSPORT_NO_GATE), 1);
	assert_int_equal(side_send(&p->node, "bye", 3, 9), 1);
	assert_int_equal(transport_disconnect(p->node.conn, true), 0);
	assert_int_equal(side_send(&p->node, "x", 1, 9), -ENOTCONN);
	pair_settle(p);
	assert_memory_equal(s.addr, pages, sizeof(pages));
	assert_int_equal(side_find(&p->node, TRANSPORT_TX_DONE)->status, 0);
	assert_int_equal(side_find(&p->node, TRANSPORT_CONN_DOWN)->status, 0);
	for (uint32_t i = 0; i < p->client.n; i++) {
		if (p->client.ev[i].type == TRANSPORT_RX && !p->client.ev[i].status) {
			assert_memory_equal(p->client.ev[i].data, "bye", 3);
			assert_int_equal(p->client.ev[i].length, 3);
			shared_free(&s);
			pair_free(p);
			return;
		}
	}
	fail_msg("the message was not sent");
}

/* What was sent before the peer closed is read, although it left words of ours unread. */
static void end__is_told_after_the_last_message(void **state)
{
	struct pair *p = pair_connected();
	const struct transport_event *ev;

	assert_int_equal(side_send(&p->node, "unread", 6, 1), 1);
	assert_int_equal(transport_flush(p->node.t), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(side_send(&p->client, "last", 4, 1), 1);
	assert_int_equal(transport_disconnect(p->client.conn, true), 0);
	pair_settle(p);
	ev = side_find(&p->node, TRANSPORT_CONN_DOWN);
	assert_int_equal(ev->status, -ECONNRESET);
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(ev[-i].type, TRANSPORT_RX);
		assert_int_equal(ev[-i].status, 0);
		assert_memory_equal(ev[-i].data, "last", 4);
	}
	assert_null(p->node.conn);
	pair_free(p);
}

/* A dead peer is noticed without any buffer, and whatever it left unread. */
static void end__is_told_without_buffers(void **state)
{
	for (int unread = 0; unread < 2; unread++) {
		struct pair *p = pair_new();

		pair_listen(p);
		assert_int_equal(transport_shm()->open(&p->config, &p->client.t), 0);
		assert_int_equal(p->client.t->ops->connect(p->client.t, p->path, p,
							   &p->client.conn), 0);
		pair_settle(p);
		if (unread)
			assert_int_equal(side_send(&p->client, "late", 4, 1), 1);
		pair_settle(p);
		assert_non_null(p->node.conn);
		assert_int_equal(transport_disconnect(p->client.conn, true), 0);
		pair_settle(p);
		assert_int_equal(side_find(&p->node, TRANSPORT_CONN_DOWN)->status, 0);
		assert_null(p->node.conn);
		pair_free(p);
	}
}

static void peer__is_told_by_the_kernel(void **state)
{
	struct pair *p = pair_connected();
	struct transport_peer peer;
	char text[40];

	assert_int_equal(p->node.t->ops->peer(p->node.conn, &peer), 0);
	assert_true(peer.has_cred);
	assert_int_equal(peer.uid, getuid());
	assert_int_equal(peer.gid, getgid());
	assert_int_equal(peer.pid, getpid());
	snprintf(text, sizeof(text), "unix:pid=%d", (int)getpid());
	assert_string_equal(peer.text, text);
	assert_ptr_equal(p->client.conn->user, p);
	assert_null(p->node.conn->user);
	pair_free(p);
}

static void counts__return_after_a_thousand_connections(void **state)
{
	struct pair *p = pair_new();
	static uint8_t pages[512u << 10];
	uint32_t fds, maps;
	struct shared s;

	pair_listen(p);
	assert_int_equal(transport_shm()->open(&p->config, &p->client.t), 0);
	shared_make(&s, sizeof(pages));
	fds = count_fds();
	maps = count_memfd_maps();
	for (int i = 0; i < 1000; i++) {
		pair_connect(p);
		assert_int_equal(shared_add(p, &s), 0);
		if (i % 7 != 6) {
			pair_settle(p);
			assert_int_equal(shared_import(p, &s), 0);
			assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages,
						   sizeof(pages), 0, (uint32_t)i % 16), 1);
			if (i % 3)	/* ends in the middle of it */
				side_step(&p->node, 16);
		}
		assert_int_equal(transport_disconnect(i % 2 ? p->client.conn : p->node.conn,
						      i % 5 == 0), 0);
		pair_settle(p);
		assert_null(p->node.conn);
		assert_null(p->client.conn);
		assert_int_equal(p->client.t->ops->region_del(s.client), 0);
		if (s.node)
			assert_int_equal(p->node.t->ops->region_del(s.node), 0);
		s.client = s.node = NULL;
		p->node.n = p->client.n = 0;
		assert_int_equal(count_memfd_maps(), maps);
	}
	assert_int_equal(count_fds(), fds);
	shared_free(&s);
	pair_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(message__arrives_whole_in_order),
		cmocka_unit_test(message__too_long_for_the_buffer_ends_the_connection),
		cmocka_unit_test(tx__refuses_what_it_can_not_do),
		cmocka_unit_test(tx__is_full_at_its_limit),
		cmocka_unit_test(tx__waits_for_a_peer_that_does_not_read),
		cmocka_unit_test(copy__goes_in_turns_and_before_the_reply),
		cmocka_unit_test(poll__honours_max_and_loses_nothing),
		cmocka_unit_test(end__gives_everything_back_in_order),
		cmocka_unit_test(end__drain_sends_what_was_accepted),
		cmocka_unit_test(end__is_told_after_the_last_message),
		cmocka_unit_test(end__is_told_without_buffers),
		cmocka_unit_test(peer__is_told_by_the_kernel),
		cmocka_unit_test(counts__return_after_a_thousand_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
