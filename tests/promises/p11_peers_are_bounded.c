/* SPDX-License-Identifier: Apache-2.0 */
/* P11: what a peer makes the node hold has a limit, and every wait has an end. */
#include "promise.h"

#include <unistd.h>

#define PEERS 60
#define VALUE (2u << 20)
/* As configured below: long enough for the handshake of a good peer on a busy machine. */
#define HANDSHAKE_MS 6000

static struct raw peers[PEERS];

static void others_are_served(void)
{
	struct larder_client *c = node_client(&node, NODE_SHM);
	uint32_t ns = node_namespace(c, "others");
	uint64_t start = now_ms();

	assert_true(promise_put(c, ns, "k", 5000, 1) <= LARDER_EXISTS_SAME);
	assert_int_equal(promise_get(c, ns, "k", 5000, 1), LARDER_OK);
	/* they waited for no stranger to go: the time of none is over yet */
	assert_true(now_ms() - start < HANDSHAKE_MS - 1000);
	larder_close(c);
}

/* One kind of bad manners for each peer. */
static void misbehave(struct raw *r, unsigned kind)
{
	uint8_t message[WIRE_MESSAGE_MAX], value[4096];
	uint32_t ns;
	int len;

	raw_connect(r, &node);
	if (kind == 0)
		return;				/* says nothing, ever */
	if (kind == 1) {
		assert_true(raw_send(r, "GET / HTTP/1.1\r\n\r\n", 18));
		return;
	}
	if (kind == 2) {
		(void)raw_handshake(r, "demo", "wrong");
		return;
	}
	assert_int_equal(raw_handshake(r, "demo", node.secret), LARDER_OK);
	ns = raw_namespace(r, "bad-manners");
	memset(value, (int)kind, sizeof(value));
	if (kind == 3) {			/* half a payload */
		len = raw_put_message(message, 7, ns, "half", value, sizeof(value));
		assert_true(raw_send(r, message, (size_t)len) && raw_send(r, value, 99));
	} else if (kind == 4) {			/* asks for much and never reads */
		for (unsigned i = 0; i < r->welcome.credits; i++) {
			len = raw_get_message(message, 10 + i, ns, "big", VALUE);
			if (!raw_send(r, message, (size_t)len))
				break;
		}
	} else {				/* garbage after a good start */
		memset(message, 0xa5, 64);
		(void)raw_send(r, message, 64);
	}
}

static void P11_bad_manners_cost_their_owner_only(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "bad-manners");
	uint64_t rss;
	int64_t pages, objects;
	unsigned fds;

	assert_int_equal(promise_put(c, ns, "big", VALUE, 3), LARDER_OK);
	others_are_served();
	pages = node_stat(&node, "memory", "pages_free");
	objects = node_stat(&node, "objects", "objects");
	fds = node_fds(&node);
	rss = node_rss_kib(&node);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < PEERS; i++)
			misbehave(&peers[i], i % 6);
		others_are_served();
		assert_true(node_rss_kib(&node) < rss + 64 * 1024);
		for (unsigned i = 0; i < PEERS; i++) {
			assert_true(raw_closed(&peers[i], 20000));	/* by the node's doing */
			raw_close(&peers[i]);
		}
		assert_int_equal(node_stat_wait(&node, "connections", "connections", 1), 1);
		assert_int_equal(node_stat_wait(&node, "connections", "unauthenticated", 0), 0);
		assert_int_equal(node_stat_wait(&node, "objects", "references", 0), 0);
		assert_int_equal(node_stat_wait(&node, "objects", "filling", 0), 0);
		assert_int_equal(node_stat_wait(&node, "memory", "pages_free", pages), pages);
		assert_int_equal(node_stat(&node, "objects", "objects"), objects);
	}
	for (uint64_t end = now_ms() + 20000; node_fds(&node) > fds && now_ms() < end;)
		sleep_ms(10);
	assert_true(node_fds(&node) <= fds);
	assert_int_equal(promise_get(c, ns, "big", VALUE, 3), LARDER_OK);
	larder_close(c);
}

/* A peer that does not prove who it is may be one of few, and for a short time. */
static void P11_strangers_are_few(void **state)
{
	static struct raw strangers[40];
	unsigned closed = 0;
	uint64_t end;

	for (unsigned i = 0; i < 40; i++)
		raw_connect(&strangers[i], &node);
	end = now_ms() + HANDSHAKE_MS - 1000;	/* before the time of the first is over */
	while (node_stat(&node, "connections", "unauthenticated") > 32 && now_ms() < end)
		sleep_ms(10);
	assert_true(node_stat(&node, "connections", "unauthenticated") <= 32);
	for (unsigned i = 0; i < 40; i++) {
		closed += raw_closed(&strangers[i], 2 * HANDSHAKE_MS);
		raw_close(&strangers[i]);
	}
	assert_int_equal(closed, 40);
	others_are_served();
}

PROMISE("[node]\nstall_timeout = 1500\nkeepalive = 3000\nhandshake_timeout = 6000\n"
	"max_unauthenticated = 32\n",
	cmocka_unit_test(P11_bad_manners_cost_their_owner_only),
	cmocka_unit_test(P11_strangers_are_few))
