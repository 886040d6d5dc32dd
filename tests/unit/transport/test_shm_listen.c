/* SPDX-License-Identifier: Apache-2.0 */
/* shm: the socket's path, listening sockets handed in, how connecting fails. */
#include <sys/resource.h>
#include <sys/stat.h>

#include "shm_pair.h"

/* A socket file at the pair's path; @accepting: somebody listens on it. */
static int path_socket(const struct pair *p, int type, bool accepting)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", p->path);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	if (accepting)
		assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static int node_listen(struct pair *p, const char *path)
{
	if (!p->node.t)
		assert_int_equal(transport_shm()->open(&p->config, &p->node.t), 0);
	return p->node.t->ops->listen(p->node.t, path);
}

static void node_close(struct pair *p)
{
	p->node.t->ops->close(p->node.t);
	p->node.t = NULL;
	p->node.conn = NULL;
}

static void path__is_open_to_all_and_goes_with_the_node(void **state)
{
	struct pair *p = pair_new();
	mode_t old = umask(077);
	char bound[108];
	struct stat st;

	assert_int_equal(node_listen(p, p->path), 0);
	umask(old);
	assert_int_equal(lstat(p->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666);
	assert_int_equal(node_listen(p, p->path), -EALREADY);
	assert_int_equal(p->node.t->ops->bound(p->node.t, bound, sizeof(bound)), 0);
	assert_string_equal(bound, p->path);
	node_close(p);
	assert_int_equal(lstat(p->path, &st), -1);
	pair_free(p);
}

static void path__of_a_dead_node_is_taken_over(void **state)
{
	struct pair *p = pair_new();
	int fd = path_socket(p, SOCK_SEQPACKET, true);

	assert_int_equal(close(fd), 0);		/* the file stays */
	assert_int_equal(node_listen(p, p->path), 0);
	pair_connect(p);
	pair_free(p);
}

static void path__in_use_is_left_alone(void **state)
{
	static const int types[] = { SOCK_SEQPACKET, SOCK_STREAM };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct pair *p = pair_new();
		int fd = path_socket(p, types[i], true);
		struct stat before, after;

		assert_int_equal(lstat(p->path, &before), 0);
		assert_int_equal(node_listen(p, p->path), -EADDRINUSE);
		assert_int_equal(lstat(p->path, &after), 0);
		assert_int_equal(before.st_ino, after.st_ino);
		assert_int_equal(close(fd), 0);
		pair_free(p);
	}
}

static void path__that_is_a_file_is_left_alone(void **state)
{
	struct pair *p = pair_new();
	struct stat st;
	int fd = open(p->path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(node_listen(p, p->path), -EADDRINUSE);
	assert_int_equal(lstat(p->path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	pair_free(p);
}

static void path__replaced_by_another_is_not_unlinked(void **state)
{
	struct pair *p = pair_new();
	struct stat st;
	int fd;

	assert_int_equal(node_listen(p, p->path), 0);
	assert_int_equal(unlink(p->path), 0);
	fd = path_socket(p, SOCK_SEQPACKET, true);
	node_close(p);
	assert_int_equal(lstat(p->path, &st), 0);
	assert_int_equal(close(fd), 0);
	pair_free(p);
}

static void path__has_a_longest_and_a_shortest(void **state)
{
	struct pair *p = pair_new();
	struct transport_conn *c;
	char path[200];

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[108] = '\0';
	assert_int_equal(node_listen(p, path), -ENAMETOOLONG);
	assert_int_equal(node_listen(p, ""), -EINVAL);
	assert_int_equal(node_listen(p, "/nonexistent/larder.sock"), -ENOENT);
	assert_int_equal(p->node.t->ops->connect(p->node.t, path, NULL, &c), -ENAMETOOLONG);
	assert_int_equal(p->node.t->ops->connect(p->node.t, "", NULL, &c), -EINVAL);
	pair_free(p);
}

static void listen_fd__takes_only_what_fits(void **state)
{
	struct pair *p = pair_new();
	int fd;

	assert_int_equal(transport_shm()->open(&p->config, &p->node.t), 0);
	fd = path_socket(p, SOCK_STREAM, true);
	assert_int_equal(p->node.t->ops->listen_fd(p->node.t, fd), -EINVAL);
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlink(p->path), 0);
	fd = path_socket(p, SOCK_SEQPACKET, false);
	assert_int_equal(p->node.t->ops->listen_fd(p->node.t, fd), -EINVAL);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(p->node.t->ops->listen_fd(p->node.t, fd), 0);
	pair_connect(p);
	assert_int_equal(side_send(&p->client, "hello", 5, 1), 1);
	pair_settle(p);
	assert_int_equal(side_count(&p->node, TRANSPORT_RX), 1);
	node_close(p);
	assert_int_equal(access(p->path, F_OK), 0);	/* not ours to remove */
	pair_free(p);
}

/* A second reactor on a dup of the listening socket: each newcomer is taken by one of them. */
static void listen_fd__is_shared_by_two_reactors(void **state)
{
	struct pair *p = pair_new();
	struct pair_side *second = calloc(1, sizeof(*second));
	int socks[8];

	assert_non_null(second);
	pair_listen(p);
	assert_int_equal(transport_shm()->open(&p->config, &second->t), 0);
	assert_int_equal(second->t->ops->listen_fd(second->t,
						   dup(p->node.t->ops->listener_fd(p->node.t))),
			 0);
	for (int i = 0; i < 8; i++) {
		socks[i] = raw_connect(p->path);
		for (int round = 0; round < 4; round++)
			side_step(i % 2 ? second : &p->node, 16);
	}
	assert_int_equal(side_count(&p->node, TRANSPORT_CONN_UP), 4);
	assert_int_equal(side_count(second, TRANSPORT_CONN_UP), 4);
	for (int i = 0; i < 8; i++)
		assert_int_equal(close(socks[i]), 0);
	second->t->ops->close(second->t);
	free(second);
	pair_free(p);
}

static void connect__failure_is_told_by_events(void **state)
{
	struct pair *p = pair_new();
	uint32_t fds;
	int fd;

	assert_int_equal(transport_shm()->open(&p->config, &p->client.t), 0);
	fds = count_fds();
	for (int round = 0; round < 2; round++) {
		p->client.n = 0;
		assert_int_equal(p->client.t->ops->connect(p->client.t, p->path, p,
							   &p->client.conn), 0);
		assert_true(side_busy(&p->client));
		pair_settle(p);
		assert_int_equal(p->client.n, 2);
		assert_int_equal(p->client.ev[0].type, TRANSPORT_CONN_DOWN);
		assert_int_equal(p->client.ev[0].status, round ? -ECONNREFUSED : -ENOENT);
		assert_int_equal(p->client.ev[1].type, TRANSPORT_CONN_GONE);
		if (!round) {
			fd = path_socket(p, SOCK_SEQPACKET, true);
			assert_int_equal(close(fd), 0);
		}
	}
	assert_int_equal(count_fds(), fds);
	pair_free(p);
}

static bool raw_closed(int fd)
{
	char c;

	return recv(fd, &c, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
}

static void accept__refuses_beyond_its_limit_at_once(void **state)
{
	struct pair *p = pair_new();
	int socks[20];
	uint32_t fds;

	pair_listen(p);			/* takes 8 */
	fds = count_fds();
	for (int i = 0; i < 20; i++)
		socks[i] = raw_connect(p->path);
	pair_settle(p);
	assert_int_equal(side_count(&p->node, TRANSPORT_CONN_UP), 8);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(raw_closed(socks[i]), i >= 8);
		assert_int_equal(close(socks[i]), 0);
	}
	assert_true(p->lines > 0);
	pair_settle(p);
	assert_int_equal(side_count(&p->node, TRANSPORT_CONN_GONE), 8);
	assert_int_equal(count_fds(), fds);
	p->node.conn = NULL;
	pair_connect(p);		/* and there is room again */
	pair_free(p);
}

static void accept__out_of_descriptors_refuses_and_recovers(void **state)
{
	struct pair *p = pair_new();
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct rlimit old, low;
	uint32_t used = 0;
	int sock;

	pair_listen(p);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", p->path);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	/* All descriptors below the limit are taken: fill the gaps. */
	low = (struct rlimit){ .rlim_cur = (rlim_t)sock + 1, .rlim_max = old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	int filler[64];
	while (used < 64 && (filler[used] = dup(sock)) >= 0)
		used++;
	assert_int_equal(errno, EMFILE);
	assert_int_equal(connect(sock, (struct sockaddr *)&sa, sizeof(sa)), 0);
	for (int i = 0; i < 10; i++)
		side_step(&p->node, 16);
	assert_int_equal(side_count(&p->node, TRANSPORT_CONN_UP), 0);
	assert_false(side_busy(&p->node));
	assert_true(raw_closed(sock));
	while (used)
		assert_int_equal(close(filler[--used]), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(close(sock), 0);
	pair_connect(p);
	pair_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path__is_open_to_all_and_goes_with_the_node),
		cmocka_unit_test(path__of_a_dead_node_is_taken_over),
		cmocka_unit_test(path__in_use_is_left_alone),
		cmocka_unit_test(path__that_is_a_file_is_left_alone),
		cmocka_unit_test(path__replaced_by_another_is_not_unlinked),
		cmocka_unit_test(path__has_a_longest_and_a_shortest),
		cmocka_unit_test(listen_fd__takes_only_what_fits),
		cmocka_unit_test(listen_fd__is_shared_by_two_reactors),
		cmocka_unit_test(connect__failure_is_told_by_events),
		cmocka_unit_test(accept__refuses_beyond_its_limit_at_once),
		cmocka_unit_test(accept__out_of_descriptors_refuses_and_recovers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
