/* SPDX-License-Identifier: Apache-2.0 */
/* See raw.h. */
#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "wire/mac.h"

void raw_connect(struct raw *r, const struct node *n)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)n->port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	memset(r, 0, sizeof(*r));
	r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(r->fd >= 0);
	assert_int_equal(connect(r->fd, (struct sockaddr *)&a, sizeof(a)), 0);
}

bool raw_send(struct raw *r, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len) {
		ssize_t n = send(r->fd, p, len, MSG_NOSIGNAL);

		if (n < 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

bool raw_read(struct raw *r, void *data, size_t len, unsigned ms)
{
	uint64_t deadline = now_ms() + ms;
	uint8_t *p = data;

	while (len) {
		struct pollfd f = { .fd = r->fd, .events = POLLIN };
		uint64_t now = now_ms();
		ssize_t n;

		if (now >= deadline || poll(&f, 1, (int)(deadline - now)) <= 0)
			return false;
		n = recv(r->fd, p, len, 0);
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

bool raw_reply(struct raw *r, unsigned ms)
{
	if (!raw_read(r, &r->header, sizeof(r->header), ms))
		return false;
	assert_int_equal(wire_header_check(&r->header, WIRE_MESSAGE_MAX), 0);
	if (r->header.body_len && !raw_read(r, r->body, r->header.body_len, ms))
		return false;
	assert_int_equal(wire_body_check(&r->header, r->body), 0);
	assert_int_equal(wire_reply_decode(&r->header, r->body, &r->reply), 0);
	return true;
}

bool raw_closed(struct raw *r, unsigned ms)
{
	uint64_t deadline = now_ms() + ms;
	char sink[65536];

	for (;;) {
		struct pollfd f = { .fd = r->fd, .events = POLLIN };
		uint64_t now = now_ms();

		if (now >= deadline)
			return false;
		if (poll(&f, 1, (int)(deadline - now)) > 0 &&
		    recv(r->fd, sink, sizeof(sink), 0) <= 0)
			return true;
	}
}

void raw_close(struct raw *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

int raw_handshake(struct raw *r, const char *tenant, const char *secret)
{
	uint8_t hello[256], challenge[256], auth[256];
	struct wire_hello h = { .version_min = WIRE_VERSION, .version_max = WIRE_VERSION,
				.tenant_len = (uint8_t)strlen(tenant),
				.check_block = LARDER_CHECK_BLOCK };
	struct wire_auth a;
	struct wire_writer w;
	struct iovec parts[2];
	int hello_len, auth_len;

	memcpy(h.tenant, tenant, strlen(tenant));
	memset(h.nonce, 0x5a, sizeof(h.nonce));
	wire_begin(&w, hello, sizeof(hello));
	wire_append(&w, &h, sizeof(h));
	hello_len = wire_finish(&w, LARDER_OP_HELLO, 0, 0, 1, 0);
	assert_true(hello_len > 0);
	if (!raw_send(r, hello, (size_t)hello_len) || !raw_reply(r, 5000))
		return LARDER_DISCONNECTED;
	if (r->header.status != LARDER_OK)
		return r->header.status;
	memcpy(challenge, &r->header, sizeof(r->header));
	memcpy(challenge + sizeof(r->header), r->body, r->header.body_len);
	parts[0] = (struct iovec){ hello, (size_t)hello_len };
	parts[1] = (struct iovec){ challenge, sizeof(r->header) + r->header.body_len };
	assert_int_equal(mac_compute(secret, strlen(secret), MAC_LABEL_CLIENT, parts, 2, a.mac), 0);
	wire_begin(&w, auth, sizeof(auth));
	wire_append(&w, &a, sizeof(a));
	auth_len = wire_finish(&w, LARDER_OP_AUTH, 0, 0, 2, 0);
	assert_true(auth_len > 0);
	if (!raw_send(r, auth, (size_t)auth_len) || !raw_reply(r, 5000))
		return LARDER_DISCONNECTED;
	if (r->header.status == LARDER_OK)
		r->welcome = r->reply.u.welcome;
	return r->header.status;
}

uint32_t raw_namespace(struct raw *r, const char *name)
{
	uint8_t message[WIRE_MESSAGE_MAX];
	struct wire_ns_open o = { .name_len = (uint16_t)strlen(name) };
	struct wire_writer w;
	int len;

	wire_begin(&w, message, sizeof(message));
	wire_append(&w, &o, sizeof(o));
	wire_append(&w, name, (uint32_t)strlen(name));
	len = wire_finish(&w, LARDER_OP_NS_CREATE, 0, 0, 3, 0);
	assert_true(len > 0);
	assert_true(raw_send(r, message, (size_t)len));
	assert_true(raw_reply(r, 5000));
	assert_int_equal(r->header.status, LARDER_OK);
	return r->reply.u.ns_opened.ns;
}

int raw_put_message(uint8_t *buffer, uint64_t request_id, uint32_t ns, const char *key,
		    const void *value, size_t len)
{
	struct wire_put p = { .c.ns = ns,
			      .c.deadline_ms = 60000,
			      .length = len,
			      .digest = key_digest(0, key, strlen(key)),
			      .n_checks = larder_check_count(len),
			      .key_len = (uint16_t)strlen(key) };
	uint32_t *checks = calloc(p.n_checks, sizeof(*checks));
	struct check_stream s;
	struct wire_writer w;
	int r;

	assert_non_null(checks);
	check_stream_init(&s, len, checks);
	check_stream_feed(&s, value, len);
	wire_begin(&w, buffer, WIRE_MESSAGE_MAX);
	r = wire_put_encode(&w, LARDER_OP_PUT, 0, request_id, &p, NULL, checks, key);
	free(checks);
	assert_true(r > 0);
	return r;
}

int raw_get_message(uint8_t *buffer, uint64_t request_id, uint32_t ns, const char *key,
		    uint64_t room)
{
	struct wire_get g = { .c.ns = ns, .c.deadline_ms = 60000, .c.flags = LARDER_F_WHOLE,
			      .length = room, .room = room, .key_len = (uint16_t)strlen(key) };
	struct wire_writer w;
	int r;

	wire_begin(&w, buffer, WIRE_MESSAGE_MAX);
	r = wire_get_encode(&w, 0, request_id, &g, NULL, key);
	assert_true(r > 0);
	return r;
}
