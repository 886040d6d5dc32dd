/* SPDX-License-Identifier: Apache-2.0 */
/* See raw_shm.h. */
#include "raw_shm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "wire/mac.h"

static void raw_shm_post(struct raw_shm *r, unsigned i)
{
	struct transport_rx rx = { .data = r->rx[i], .length = WIRE_MESSAGE_MAX, .cookie = i };

	assert_int_equal(transport_post_rx(r->conn, &rx, 1), 0);
}

/* True when a reply has come. */
static bool raw_shm_turn(struct raw_shm *r)
{
	struct transport_event ev[8];
	bool got = false;
	int n = transport_poll(r->transport, ev, 8);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		if (ev[i].type == TRANSPORT_CONN_UP) {
			r->up = true;
			for (unsigned k = 0; k < 4; k++)
				raw_shm_post(r, k);
		} else if (ev[i].type == TRANSPORT_CONN_DOWN || ev[i].type == TRANSPORT_CONN_GONE) {
			r->down = true;
		} else if (ev[i].type == TRANSPORT_RX && ev[i].status == 0) {
			memcpy(&r->header, ev[i].data, sizeof(r->header));
			memcpy(r->body, (uint8_t *)ev[i].data + sizeof(r->header),
			       ev[i].length - sizeof(r->header));
			assert_int_equal(wire_body_check(&r->header, r->body), 0);
			assert_int_equal(wire_reply_decode(&r->header, r->body, &r->reply), 0);
			got = true;
			raw_shm_post(r, (unsigned)ev[i].cookie);
		}
	}
	return got;
}

bool raw_shm_call(struct raw_shm *r, int len, unsigned ms)
{
	struct iovec iov = { r->message, (size_t)len };
	struct transport_tx tx = { .type = TRANSPORT_SEND, .iov = &iov, .niov = 1,
				   .gate = TRANSPORT_NO_GATE };
	uint64_t end = now_ms() + ms;

	assert_true(len > 0);
	if (r->down || transport_tx(r->conn, &tx, 1) != 1)
		return false;
	transport_flush(r->transport);
	while (now_ms() < end && !r->down)
		if (raw_shm_turn(r))
			return true;
	return false;
}

static void raw_shm_handshake(struct raw_shm *r, const struct node *n)
{
	uint8_t hello[256], challenge[256];
	struct wire_hello h = { .version_min = WIRE_VERSION, .version_max = WIRE_VERSION,
				.tenant_len = 4, .check_block = LARDER_CHECK_BLOCK };
	struct wire_auth a;
	struct wire_writer w;
	struct iovec parts[2];
	int len;

	memcpy(h.tenant, "demo", 4);
	wire_begin(&w, r->message, sizeof(r->message));
	wire_append(&w, &h, sizeof(h));
	len = wire_finish(&w, LARDER_OP_HELLO, 0, 0, 1, 0);
	memcpy(hello, r->message, (size_t)len);
	assert_true(raw_shm_call(r, len, 5000));
	assert_int_equal(r->header.status, LARDER_OK);
	memcpy(challenge, &r->header, sizeof(r->header));
	memcpy(challenge + sizeof(r->header), r->body, r->header.body_len);
	parts[0] = (struct iovec){ hello, (size_t)len };
	parts[1] = (struct iovec){ challenge, sizeof(r->header) + r->header.body_len };
	assert_int_equal(
		mac_compute(n->secret, strlen(n->secret), MAC_LABEL_CLIENT, parts, 2, a.mac), 0);
	wire_begin(&w, r->message, sizeof(r->message));
	wire_append(&w, &a, sizeof(a));
	assert_true(raw_shm_call(r, wire_finish(&w, LARDER_OP_AUTH, 0, 0, 2, 0), 5000));
	assert_int_equal(r->header.status, LARDER_OK);
}

void raw_shm_open(struct raw_shm *r, const struct node *n)
{
	static const struct larder_log silence;
	struct transport_config config = { .clock = &clock_system, .log = &silence, .max_conns = 1,
					   .max_region_bytes = 1ull << 30, .max_regions = 8,
					   .gates = 16 };
	const struct transport_ops *ops = transport_find("shm");
	uint64_t end = now_ms() + 5000;

	memset(r, 0, sizeof(*r));
	assert_non_null(ops);
	assert_int_equal(ops->open(&config, &r->transport), 0);
	assert_int_equal(ops->connect(r->transport, n->socket, r, &r->conn), 0);
	while (!r->up && !r->down && now_ms() < end)
		(void)raw_shm_turn(r);
	assert_true(r->up);
	raw_shm_handshake(r, n);
}

int raw_shm_region(struct raw_shm *r, uint32_t number, void *addr, size_t size, int fd)
{
	struct wire_region_add add = { .region = number, .size_bytes = size };
	uint8_t opaque[TRANSPORT_OPAQUE_MAX];
	size_t opaque_len = sizeof(opaque);
	struct transport_region *region;
	struct wire_writer w;
	int e = r->transport->ops->region_add(r->conn, addr, size, fd, 0, opaque, &opaque_len,
					      &region);

	assert_int_equal(e, 0);
	add.opaque_len = (uint32_t)opaque_len;
	wire_begin(&w, r->message, sizeof(r->message));
	wire_append(&w, &add, sizeof(add));
	wire_append(&w, opaque, (uint32_t)opaque_len);
	if (!raw_shm_call(r, wire_finish(&w, LARDER_OP_REGION_ADD, 0, 0, 10 + number, 0), 5000))
		return LARDER_DISCONNECTED;
	if (r->header.status != LARDER_OK)
		print_message("REGION_ADD: %.*s\n", (int)r->reply.tail_len,
			      (const char *)r->reply.tail);
	return r->header.status;
}

int raw_shm_get(struct raw_shm *r, uint32_t ns, const char *key, uint32_t region, size_t room)
{
	struct wire_get g = { .c.ns = ns, .c.deadline_ms = 10000, .c.flags = LARDER_F_WHOLE,
			      .length = room, .room = room, .key_len = (uint16_t)strlen(key),
			      .n_segs = 1, .gate = 3 };
	struct wire_seg seg = { .region = region, .length = (uint32_t)room };
	struct wire_writer w;

	assert_int_equal(r->transport->ops->gate_arm(r->conn, 3), 0);
	wire_begin(&w, r->message, sizeof(r->message));
	if (!raw_shm_call(r, wire_get_encode(&w, 0, 50, &g, &seg, key), 10000))
		return LARDER_DISCONNECTED;
	return r->header.status;
}

void raw_shm_close(struct raw_shm *r)
{
	r->transport->ops->close(r->transport);
}
