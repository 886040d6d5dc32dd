/* SPDX-License-Identifier: Apache-2.0 */
/* How tcp connections begin: listening, sharing a listener, refusing, running out, connecting. */
#include "tcp_peer.h"

#include <sys/resource.h>

static void tcp_listen__a_taken_port_is_an_error(void **state)
{
	struct transport *a = open_tcp(1), *b = open_tcp(1);
	char text[64];

	assert_int_equal(transport_tcp()->bound(a, text, sizeof(text)), -ENOENT);
	assert_int_equal(transport_tcp()->listener_fd(a), -ENOENT);
	assert_int_equal(transport_tcp()->listen(a, "127.0.0.1:0"), 0);
	assert_int_equal(transport_tcp()->bound(a, text, sizeof(text)), 0);
	assert_int_equal(transport_tcp()->listen(b, text), -EADDRINUSE);
	assert_int_equal(transport_tcp()->listen(a, text), -EADDRINUSE);
	assert_int_equal(transport_tcp()->bound(a, text, 5), -ENOSPC);
	transport_tcp()->close(a);
	assert_int_equal(transport_tcp()->listen(b, text), 0);
	transport_tcp()->close(b);
}

static void tcp_listen__refuses(void **state)
{
	struct transport *t = open_tcp(1);

	assert_int_equal(transport_tcp()->listen(t, "localhost:0"), -EINVAL);
	assert_int_equal(transport_tcp()->listen(t, "127.0.0.1"), -EINVAL);
	assert_int_equal(transport_tcp()->listen(t, "192.0.2.1:0"), -EADDRNOTAVAIL);
	for (unsigned i = 0; i < TCP_LISTENERS; i++)
		assert_int_equal(transport_tcp()->listen(t, "127.0.0.1:0"), 0);
	assert_int_equal(transport_tcp()->listen(t, "127.0.0.1:0"), -ENOSPC);
	transport_tcp()->close(t);
}

static void tcp_listen__ipv6(void **state)
{
	struct peer p = { .raw = -1 };
	struct transport_peer who;
	struct transport_conn *c;
	char text[64];
	int r;

	p.t = open_tcp(2);
	r = transport_tcp()->listen(p.t, "[::1]:0");
	if (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL) {
		transport_tcp()->close(p.t);
		print_message("skipped: no IPv6 here\n");
		skip();
	}
	assert_int_equal(r, 0);
	assert_int_equal(transport_tcp()->bound(p.t, text, sizeof(text)), 0);
	assert_memory_equal(text, "[::1]:", 6);
	/* A second one on the same port of IPv4 does not get in the way: one means one. */
	snprintf(text, sizeof(text), "127.0.0.1:%u", port_of(p.t));
	assert_int_equal(transport_tcp()->listen(p.t, text), 0);
	snprintf(text, sizeof(text), "[::1]:%u", port_of(p.t));
	assert_int_equal(transport_tcp()->connect(p.t, text, NULL, &c), 0);
	peer_until(&p, TRANSPORT_CONN_UP, 2);
	assert_int_equal(transport_tcp()->peer(c, &who), 0);
	assert_string_equal(who.text, text);
	assert_false(who.has_cred);
	peer_close(&p);
}

/* Several reactors on one socket: each gets its share, none is lost. */
static void tcp_listen_fd__shares_a_listener(void **state)
{
	struct peer a = { .raw = -1 }, b = { .raw = -1 };
	int raw[4], fd;

	a.t = open_tcp(8);
	b.t = open_tcp(8);
	assert_int_equal(transport_tcp()->listen(a.t, "127.0.0.1:0"), 0);
	fd = dup(transport_tcp()->listener_fd(a.t));
	assert_true(fd >= 0);
	assert_int_equal(transport_tcp()->listen_fd(b.t, fd), 0);
	assert_int_equal(port_of(a.t), port_of(b.t));
	raw[0] = raw_connect(port_of(a.t), 0);
	raw[1] = raw_connect(port_of(a.t), 0);
	peer_until(&a, TRANSPORT_CONN_UP, 2);
	raw[2] = raw_connect(port_of(a.t), 0);
	raw[3] = raw_connect(port_of(a.t), 0);
	peer_until(&b, TRANSPORT_CONN_UP, 2);
	transport_tcp()->close(a.t);		/* the other one goes on listening */
	(void)close(raw[0]);
	raw[0] = raw_connect(port_of(b.t), 0);
	peer_until(&b, TRANSPORT_CONN_UP, 3);
	for (unsigned i = 0; i < 4; i++)
		(void)close(raw[i]);
	transport_tcp()->close(b.t);
}

static void tcp_listen_fd__refuses(void **state)
{
	struct transport *t = open_tcp(1);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(transport_tcp()->listen_fd(t, -1), -EBADF);
	assert_int_equal(transport_tcp()->listen_fd(t, fd), -EINVAL);	/* not listening */
	assert_int_equal(close(fd), 0);					/* still ours */
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(transport_tcp()->listen_fd(t, fd), -ENOTSOCK);
	assert_int_equal(close(fd), 0);
	transport_tcp()->close(t);
}

static bool raw_is_refused(int fd)
{
	char byte;
	ssize_t r = recv(fd, &byte, 1, MSG_DONTWAIT);

	return r == 0 || (r < 0 && errno == ECONNRESET);
}

static void set_fd_limit(rlim_t soft)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = MIN(soft, limit.rlim_max);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* The next descriptor there would be. */
static rlim_t next_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	(void)close(fd);
	return (rlim_t)fd;
}

static rlim_t fd_limit(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit.rlim_cur;
}

static void tcp_accept__no_descriptor_left_refuses_and_does_not_spin(void **state)
{
	rlim_t before = fd_limit();
	struct peer p = { .raw = -1 };
	int raw[3];

	p.t = open_tcp(8);
	log_lines = 0;
	assert_int_equal(transport_tcp()->listen(p.t, "127.0.0.1:0"), 0);
	for (unsigned i = 0; i < 3; i++)
		raw[i] = raw_connect(port_of(p.t), 0);
	set_fd_limit(next_fd());
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(peer_step(&p), 0);
	set_fd_limit(before);
	for (unsigned i = 0; i < 3; i++)
		assert_true(raw_is_refused(raw[i]));
	assert_false(wakes(p.t, 0));
	assert_int_equal(log_lines, 1);
	(void)close(raw[0]);
	raw[0] = raw_connect(port_of(p.t), 0);
	peer_until(&p, TRANSPORT_CONN_UP, 1);
	for (unsigned i = 0; i < 3; i++)
		(void)close(raw[i]);
	transport_tcp()->close(p.t);
}

/* Without even the spare one, accepting pauses and comes back by the clock. */
static void tcp_accept__pauses_without_a_spare(void **state)
{
	rlim_t before = fd_limit();
	struct peer p = { .raw = -1 };
	struct tcp *t;
	int raw;

	p.t = open_tcp(8);
	t = tcp_of(p.t);
	assert_int_equal(transport_tcp()->listen(p.t, "127.0.0.1:0"), 0);
	raw = raw_connect(port_of(p.t), 0);
	(void)close(TAKE_FD(t->spare_fd));	/* as if another thread had taken the number */
	set_fd_limit((rlim_t)next_fd());
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(peer_step(&p), 0);
	assert_true(t->accept_paused);
	assert_false(wakes(p.t, 0));		/* although the connection still waits */
	set_fd_limit(before);
	assert_int_equal(peer_step(&p), 0);
	fake_now += TCP_ACCEPT_PAUSE;
	peer_until(&p, TRANSPORT_CONN_UP, 1);
	assert_false(t->accept_paused);
	(void)close(raw);
	transport_tcp()->close(p.t);
}

static void tcp_connect__refused(void **state)
{
	struct peer p = { .raw = -1 };
	struct transport_conn *c;
	char text[64];

	p.t = open_tcp(1);
	assert_int_equal(transport_tcp()->listen(p.t, "127.0.0.1:0"), 0);
	assert_int_equal(transport_tcp()->bound(p.t, text, sizeof(text)), 0);
	transport_tcp()->close(p.t);
	p.t = open_tcp(0);
	assert_int_equal(transport_tcp()->connect(p.t, text, NULL, &c), 0);
	peer_until(&p, TRANSPORT_CONN_GONE, 1);
	assert_int_equal(peer_event(&p, TRANSPORT_CONN_DOWN)->status, -ECONNREFUSED);
	assert_int_equal(peer_count(&p, TRANSPORT_CONN_UP), 0);
	assert_int_equal(transport_tcp()->connect(p.t, "127.0.0.1:0", NULL, &c), -EINVAL);
	assert_int_equal(transport_tcp()->connect(p.t, "nonsense", NULL, &c), -EINVAL);
	peer_close(&p);
}

/* A name with several addresses: the one where nobody listens is passed over. */
static void tcp_connect__tries_the_next_address(void **state)
{
	struct peer p = { .raw = -1 };
	struct tcp_conn *c;
	struct tcp *t;

	p.t = open_tcp(2);
	t = tcp_of(p.t);
	assert_int_equal(transport_tcp()->listen(p.t, "127.0.0.1:0"), 0);
	c = tcp_conn_new_connecting(t);
	assert_non_null(c);
	c->to_try.n = 2;
	assert_int_equal(tcp_address_parse("127.0.0.1:1", &c->to_try.a[0]), 0);	/* tcpmux: unused */
	assert_int_equal(tcp_address_parse("127.0.0.1:0", &c->to_try.a[1]), 0);
	c->to_try.a[1].sa.v4.sin_port = htons(port_of(p.t));
	tcp_conn_connect_next(c, -EHOSTUNREACH);
	peer_until(&p, TRANSPORT_CONN_UP, 2);
	assert_int_equal(peer_count(&p, TRANSPORT_CONN_DOWN), 0);
	peer_close(&p);
}

static void tcp_connect__disconnect_before_up(void **state)
{
	struct peer p = { .raw = -1 };
	struct transport_conn *c;
	char text[64], byte = 'x';
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct transport_tx tx = { .type = TRANSPORT_SEND, .niov = 1, .iov = &iov };

	p.t = open_tcp(2);
	assert_int_equal(transport_tcp()->listen(p.t, "127.0.0.1:0"), 0);
	assert_int_equal(transport_tcp()->bound(p.t, text, sizeof(text)), 0);
	assert_int_equal(transport_tcp()->connect(p.t, text, NULL, &c), 0);
	assert_int_equal(transport_tx(c, &tx, 1), 1);
	assert_int_equal(transport_disconnect(c, true), 0);
	while (peer_count(&p, TRANSPORT_CONN_GONE) < 1)
		(void)peer_step(&p);
	for (uint32_t i = 0; i < p.n; i++)
		assert_true(p.ev[i].conn != c || p.ev[i].type != TRANSPORT_CONN_UP);
	peer_close(&p);
}

/* The pool: places are used again, and only so many are ever touched. */
static void tcp_pool__places_are_used_again(void **state)
{
	struct peer p = { .raw = -1 };

	p.t = open_tcp(3);
	assert_int_equal(transport_tcp()->listen(p.t, "127.0.0.1:0"), 0);
	for (unsigned i = 1; i <= 20; i++) {
		p.n = 0;
		p.raw = raw_connect(port_of(p.t), 0);
		peer_until(&p, TRANSPORT_CONN_UP, 1);
		(void)close(TAKE_FD(p.raw));
		peer_until(&p, TRANSPORT_CONN_GONE, 1);
	}
	assert_int_equal(tcp_of(p.t)->pool_used, 1);
	peer_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tcp_listen__a_taken_port_is_an_error),
		cmocka_unit_test(tcp_listen__refuses),
		cmocka_unit_test(tcp_listen__ipv6),
		cmocka_unit_test(tcp_listen_fd__shares_a_listener),
		cmocka_unit_test(tcp_listen_fd__refuses),
		cmocka_unit_test(tcp_accept__no_descriptor_left_refuses_and_does_not_spin),
		cmocka_unit_test(tcp_accept__pauses_without_a_spare),
		cmocka_unit_test(tcp_connect__refused),
		cmocka_unit_test(tcp_connect__tries_the_next_address),
		cmocka_unit_test(tcp_connect__disconnect_before_up),
		cmocka_unit_test(tcp_pool__places_are_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
