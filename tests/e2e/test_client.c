/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library's sessions with a real node, over tcp and shm: how it finds the node and finds
 * it again, roles, tenants and layouts, drain, and what a fork does to a handle. What goes over a
 * session is in test_client_objects.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"

#define OTHER_SECRET "the secret of another tenant"
#define DEFAULT_SOCKET "/run/larder/larder.sock"

static struct node node;

#define BOTH(name)                                                                                 \
	static void name##__tcp(void **state)                                                      \
	{                                                                                          \
		name(NODE_TCP);                                                                    \
	}                                                                                          \
	static void name##__shm(void **state)                                                      \
	{                                                                                          \
		name(NODE_SHM);                                                                    \
	}

static struct larder_client *open_as(const char *url, const char *tenant, const char *secret,
				     uint32_t flags)
{
	struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;
	struct larder_client *c = NULL;

	o.url = url;
	o.tenant = tenant;
	o.secret = secret;
	o.secret_len = secret ? strlen(secret) : 0;
	o.flags = flags;
	assert_int_equal(larder_open(&o, &c), 0);
	return c;
}

static void url_of(enum node_transport t, char *url, size_t size)
{
	if (t == NODE_TCP)
		snprintf(url, size, "tcp://127.0.0.1:%d", node.port);
	else
		snprintf(url, size, "shm://%s", node.socket);
}

static void put_text(struct larder_client *c, uint32_t ns, const char *key, const char *value)
{
	int r = larder_put(c, ns, key, strlen(key), value, strlen(value), 5000);

	assert_true(r == LARDER_OK || r == LARDER_EXISTS_SAME);
}

static void assert_text(struct larder_client *c, uint32_t ns, const char *key, const char *value)
{
	char back[256] = "";
	size_t len = 0;

	assert_int_equal(larder_get(c, ns, key, strlen(key), back, sizeof(back), &len, 5000),
			 LARDER_OK);
	assert_int_equal(len, strlen(value));
	assert_memory_equal(back, value, len);
}

/* --- finding the node ------------------------------------------------------------------------ */

static void assert_reached_by(const char *url, const char *picked)
{
	struct larder_client *c = open_as(url, "demo", node.secret, 0);
	struct larder_client_info info;

	assert_int_equal(larder_ping(c, 5000), LARDER_OK);
	larder_get_info(c, &info);
	assert_true(info.connected);
	assert_string_equal(info.url, picked);
	larder_close(c);
}

static void url__picks_and_falls_back(void **state)
{
	char url[400], picked[400];
	struct stat st;
	bool made = mkdir("/run/larder", 0755) == 0;

	snprintf(url, sizeof(url), "larder://%s", node.socket);
	snprintf(picked, sizeof(picked), "shm://%s", node.socket);
	assert_reached_by(url, picked);
	snprintf(url, sizeof(url), "larder://127.0.0.1:%d", node.port);
	snprintf(picked, sizeof(picked), "tcp://127.0.0.1:%d", node.port);
	assert_reached_by(url, picked);
	if (lstat(DEFAULT_SOCKET, &st) == 0) {
		print_message("skipped: something of this host is at " DEFAULT_SOCKET "\n");
		skip();
	}
	if (symlink(node.socket, DEFAULT_SOCKET) == 0) {
		/* whoever listens there, a port means that port */
		assert_reached_by(url, picked);
		assert_reached_by("larder://127.0.0.1", "shm://" DEFAULT_SOCKET);
		assert_int_equal(unlink(DEFAULT_SOCKET), 0);
	}
	if (made)
		assert_int_equal(rmdir("/run/larder"), 0);
}

struct early {
	struct larder_client *c;
	uint32_t ns;
	int status;
};

static void *early_open(void *arg)
{
	struct early *e = arg;

	e->status = larder_ns_open(e->c, "client", NULL, LARDER_NS_CREATE, 15000, &e->ns);
	return NULL;
}

static void node_after_the_client(enum node_transport t)
{
	struct early e = { .status = -1 };
	pthread_t thread;
	char url[400];

	node_stop(&node);
	url_of(t, url, sizeof(url));
	e.c = open_as(url, "demo", node.secret, 0);
	assert_int_equal(pthread_create(&thread, NULL, early_open, &e), 0);
	sleep_ms(300);
	node_start(&node);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(e.status, LARDER_OK);
	put_text(e.c, e.ns, "early", "bird");
	larder_close(e.c);
}
BOTH(node_after_the_client)

/* Both ways to go: in order, and killed. The handle and its namespaces stay usable. */
static void node_restarts(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "client"), other = node_namespace(c, "second");
	struct larder_client_info info;

	put_text(c, ns, "kept", "over the restart");
	put_text(c, other, "kept", "in another namespace");
	for (int i = 0; i < 2; i++) {
		uint64_t start;

		if (i)
			node_kill(&node);
		else
			node_stop(&node);
		node_start(&node);
		start = now_ms();
		while (larder_exists(c, ns, "kept", 4, 1000) != LARDER_OK)
			assert_true(now_ms() < start + 15000);
		assert_text(c, ns, "kept", "over the restart");
		assert_text(c, other, "kept", "in another namespace");
		put_text(c, other, "new", "after it");
	}
	larder_get_info(c, &info);
	assert_int_equal(info.reconnects, 2);
	larder_close(c);
}
BOTH(node_restarts)

/* A stream whose node is gone says so at once, and for as long as it is asked. */
static void stream__node_lost(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "client");
	struct larder_put_stream *s;
	uint64_t start;

	assert_int_equal(larder_put_begin(c, ns, "lost", 4, 10, 8000, &s), LARDER_OK);
	assert_int_equal(larder_put_part(s, 0, "12345", 5), LARDER_OK);
	node_kill(&node);
	start = now_ms();
	assert_int_equal(larder_put_part(s, 5, "67890", 5), LARDER_DISCONNECTED);
	assert_int_equal(larder_put_commit(s), LARDER_DISCONNECTED);
	assert_true(now_ms() < start + 4000);	/* not at its deadline */
	node_start(&node);
	larder_close(c);
}
BOTH(stream__node_lost)

/* --- roles, tenants, layouts ----------------------------------------------------------------- */

static int64_t tenant_stat(const char *tenant, const char *name)
{
	json_t *j = node_control(&node, "{\"cmd\":\"stats\"}");
	json_t *all = json_object_get(json_object_get(j, "result"), "tenants");
	json_t *v = json_object_get(json_object_get(all, tenant), name);
	int64_t r = json_is_integer(v) ? (int64_t)json_integer_value(v) : -1;

	json_decref(j);
	return r;
}

static bool count_key(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	(*(unsigned *)user)++;
	return true;
}

static void viewer__reads_and_nothing_else(void **state)
{
	struct larder_client *c = node_client(&node, NODE_SHM), *v;
	uint32_t ns = node_namespace(c, "client"), seen;
	struct larder_stat before, after;
	int64_t demo_gets, view_gets;
	uint64_t cursor = 0;
	unsigned keys = 0;
	char url[400];

	put_text(c, ns, "shown", "to a viewer");
	assert_text(c, ns, "shown", "to a viewer");
	assert_int_equal(larder_stat(c, ns, "shown", 5, 0, 5000, &before), LARDER_OK);
	demo_gets = tenant_stat("demo", "gets");
	view_gets = tenant_stat("_view", "gets");
	url_of(NODE_SHM, url, sizeof(url));
	v = open_as(url, NULL, NULL, LARDER_OPEN_VIEWER);
	assert_int_equal(larder_ns_open(v, "demo:client", NULL, 0, 5000, &seen), LARDER_OK);
	for (int i = 0; i < 5; i++)
		assert_text(v, seen, "shown", "to a viewer");
	assert_int_equal(larder_stat(v, seen, "shown", 5, 0, 5000, &after), LARDER_OK);
	assert_int_equal(after.size_bytes, 11);
	while (keys == 0 || cursor)
		assert_int_equal(larder_list(v, seen, "shown", 5, &cursor, 100, count_key, &keys,
					     5000), LARDER_OK);
	assert_int_equal(keys, 1);
	assert_int_equal(larder_put(v, seen, "mine", 4, "x", 1, 5000), LARDER_DENIED);
	assert_int_equal(larder_delete(v, seen, "shown", 5, 0, 5000), LARDER_DENIED);
	larder_close(v);
	assert_int_equal(larder_stat(c, ns, "shown", 5, 0, 5000, &after), LARDER_OK);
	assert_int_equal(after.hits, before.hits);
	assert_int_equal(tenant_stat("demo", "gets"), demo_gets);
	assert_int_equal(tenant_stat("_view", "gets"), view_gets + 5);
	assert_int_equal(larder_exists(c, ns, "mine", 4, 5000), LARDER_NOT_FOUND);
	larder_close(c);
}

static bool count_space(void *user, const struct larder_ns_info *i)
{
	unsigned *n = user;

	n[0]++;
	n[1] += strncmp(i->name, "demo:", 5) == 0;
	return true;
}

static void tenants__do_not_see_each_other(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t), *o;
	uint32_t ns = node_namespace(c, "client"), theirs, none;
	uint64_t objects, bytes;
	unsigned seen[2] = { 0, 0 };
	char url[400];

	put_text(c, ns, "same", "mine");
	url_of(t, url, sizeof(url));
	o = open_as(url, "other", OTHER_SECRET, 0);
	assert_int_equal(larder_ns_open(o, "demo:client", NULL, 0, 5000, &none),
			 LARDER_NOT_FOUND);
	assert_int_equal(larder_ns_open(o, "client", NULL, LARDER_NS_CREATE, 5000, &theirs),
			 LARDER_OK);
	assert_int_equal(larder_exists(o, theirs, "same", 4, 5000), LARDER_NOT_FOUND);
	put_text(o, theirs, "same", "the other's");
	assert_text(c, ns, "same", "mine");
	assert_text(o, theirs, "same", "the other's");
	assert_int_equal(larder_ns_list(o, count_space, seen, 5000), LARDER_OK);
	assert_int_equal(seen[0], 1);
	assert_int_equal(seen[1], 0);
	assert_int_equal(larder_ns_flush(o, theirs, true, 5000, &objects, &bytes), LARDER_OK);
	assert_int_equal(objects, 1);
	assert_text(c, ns, "same", "mine");
	larder_close(o);
	/* the right name with the wrong secret is nobody */
	o = open_as(url, "demo", OTHER_SECRET, 0);
	assert_int_equal(larder_ping(o, 5000), LARDER_DENIED);
	larder_close(o);
	larder_close(c);
}
BOTH(tenants__do_not_see_each_other)

static void layout_mismatch__names_the_field(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t);
	struct larder_descriptor d, stored;
	uint32_t ns, again;

	memset(&d, 0, sizeof(d));
	strcpy(d.model, "llama-3.1-8b");
	strcpy(d.dtype, "bf16");
	d.tokens_per_block = 16;
	assert_int_equal(larder_ns_open(c, "layout", &d, LARDER_NS_CREATE, 5000, &ns), LARDER_OK);
	assert_int_equal(larder_ns_open(c, "layout", NULL, 0, 5000, &again), LARDER_OK);
	assert_int_equal(larder_ns_descriptor(c, again, &stored), LARDER_OK);
	assert_memory_equal(&stored, &d, sizeof(d));
	strcpy(d.dtype, "fp8");
	assert_int_equal(larder_ns_open(c, "layout", &d, 0, 5000, &again),
			 LARDER_LAYOUT_MISMATCH);
	assert_non_null(strstr(larder_last_error(), "dtype"));
	strcpy(d.dtype, "bf16");
	d.tokens_per_block = 32;
	assert_int_equal(larder_ns_open(c, "layout", &d, LARDER_NS_CREATE, 5000, &again),
			 LARDER_LAYOUT_MISMATCH);
	assert_non_null(strstr(larder_last_error(), "tokens_per_block"));
	larder_close(c);
}
BOTH(layout_mismatch__names_the_field)

/* --- drain ----------------------------------------------------------------------------------- */

static void control(const char *line)
{
	json_t *j = node_control(&node, line);

	assert_non_null(j);
	assert_true(json_is_true(json_object_get(j, "ok")) || json_object_get(j, "result"));
	json_decref(j);
}

static void draining__is_told_at_once(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t), *late;
	uint32_t ns = node_namespace(c, "client");
	uint64_t start;
	char url[400];

	put_text(c, ns, "before", "the drain");
	control("{\"cmd\":\"drain\"}");
	assert_int_equal(larder_put(c, ns, "during", 6, "x", 1, 5000), LARDER_DRAINING);
	url_of(t, url, sizeof(url));
	late = open_as(url, "demo", node.secret, 0);
	start = now_ms();
	assert_int_equal(larder_ping(late, 5000), LARDER_DRAINING);
	assert_non_null(strstr(larder_last_error(), "draining"));
	for (int i = 0; i < 100; i++)
		assert_int_equal(larder_ping(late, 5000), LARDER_DRAINING);
	assert_true(now_ms() < start + 4000);	/* not at one deadline of the hundred */
	control("{\"cmd\":\"undrain\"}");
	start = now_ms();
	while (larder_ping(late, 5000) != LARDER_OK)
		assert_true(now_ms() < start + 10000);
	larder_close(late);
	put_text(c, ns, "during", "x");
	larder_close(c);
}
BOTH(draining__is_told_at_once)

/* --- fork ------------------------------------------------------------------------------------ */

static unsigned open_fds(void)
{
	struct node self = { .pid = getpid() };

	return node_fds(&self);
}

/* In the child: every call is refused, close leaves no descriptor and says nothing to the node. */
static int child_closes(struct larder_client *c, uint32_t ns, struct larder_region *region,
			unsigned fds)
{
	struct larder_client_info info;

	if (larder_exists(c, ns, "fork", 4, 1000) != -ECHILD || larder_ping(c, 1000) != -ECHILD)
		return 1;
	if (larder_region_free(region) != -ECHILD)
		return 2;
	larder_get_info(c, &info);
	if (info.connected)
		return 3;
	larder_close(c);
	return open_fds() == fds ? 0 : 4;
}

/* What the parent does meanwhile: with its region, so that a gate taken by the child would show. */
static void parent_works(struct larder_client *c, uint32_t ns, struct larder_region *region,
			 unsigned ms)
{
	uint64_t until = now_ms() + ms;
	uint8_t *m = larder_region_addr(region);
	size_t got;

	for (uint64_t i = 0; now_ms() < until; i++) {
		pattern_fill(m, 300000, i);
		assert_int_equal(larder_put(c, ns, "fork", 4, m, 300000, 5000), LARDER_OK);
		memset(m, 0, 300000);
		assert_int_equal(larder_get(c, ns, "fork", 4, m, 300000, &got, 5000), LARDER_OK);
		assert_int_equal(pattern_check(m, 300000, i), -1);
		assert_int_equal(larder_delete(c, ns, "fork", 4, 0, 5000), LARDER_OK);
	}
}

static pid_t fork_child(int wait_fd, struct larder_client *c, uint32_t ns,
			struct larder_region *region, unsigned fds)
{
	pid_t pid = fork();
	char byte;
	int code = 0;

	assert_true(pid >= 0);
	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);	/* when the test fails */
	if (c)
		code = child_closes(c, ns, region, fds);
	/* lives on until it is told */
	while (read(wait_fd, &byte, 1) < 0 && errno == EINTR)
		;
	_exit(code);
}

static void assert_ends(pid_t pid, int release_fd)
{
	int status;

	assert_int_equal(write(release_fd, "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void fork__child_and_parent(enum node_transport t)
{
	struct larder_client *c;
	struct larder_client_info info;
	struct larder_region *region;
	int pipes[2][2];
	pid_t closer, holder;
	unsigned fds;
	uint32_t ns;

	assert_int_equal(node_stat_wait(&node, "connections", "connections", 0), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
	fds = open_fds();
	c = node_client(&node, t);
	ns = node_namespace(c, "client");
	assert_int_equal(larder_region_alloc(c, 300000, 0, &region), 0);
	parent_works(c, ns, region, 20);
	sleep_ms(100);		/* nobody is in mid-step now */
	closer = fork_child(pipes[0][0], c, ns, region, fds);
	parent_works(c, ns, region, 200);
	assert_ends(closer, pipes[0][1]);
	parent_works(c, ns, region, 50);
	/* one that does not know of the handle and outlives it */
	holder = fork_child(pipes[1][0], NULL, 0, NULL, 0);
	parent_works(c, ns, region, 50);
	larder_get_info(c, &info);
	assert_int_equal(info.reconnects, 0);
	assert_int_equal(node_stat(&node, "connections", "connections"), 1);
	larder_close(c);
	assert_int_equal(node_stat_wait(&node, "connections", "connections", 0), 0);
	assert_int_equal(node_stat_wait(&node, "connections", "regions", 0), 0);
	assert_int_equal(open_fds(), fds);
	assert_ends(holder, pipes[1][1]);
	for (int i = 0; i < 4; i++)
		assert_int_equal(close(pipes[i / 2][i % 2]), 0);
}
BOTH(fork__child_and_parent)

/* The child exits without a word, in the way in which C programs do. */
static void fork__child_exits(enum node_transport t)
{
	struct larder_client *c = node_client(&node, t);
	uint32_t ns = node_namespace(c, "client");
	struct larder_region *region;

	assert_int_equal(larder_region_alloc(c, 300000, 0, &region), 0);
	for (int i = 0; i < 20; i++) {
		pid_t pid;
		int status;

		parent_works(c, ns, region, 5);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			_exit(larder_exists(c, ns, "fork", 4, 100) == -ECHILD ? 0 : 1);
		parent_works(c, ns, region, 5);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	assert_int_equal(larder_region_free(region), 0);
	larder_close(c);
	assert_int_equal(node_stat_wait(&node, "connections", "connections", 0), 0);
}
BOTH(fork__child_exits)

/* --------------------------------------------------------------------------------------------- */

static void write_text(const char *name, const char *text, mode_t mode)
{
	char path[400];
	int fd;

	snprintf(path, sizeof(path), "%s/tenants.d/%s", node.dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(close(fd), 0);
}

static int setup(void **state)
{
	node_setup(&node, NULL);
	write_text("other.secret", OTHER_SECRET, 0400);
	write_text("other.conf", "[tenant]\nsecret_file = other.secret\n", 0600);
	node_start(&node);
	return 0;
}

static int teardown(void **state)
{
	node_stop(&node);
	return 0;
}

#define EITHER(name) cmocka_unit_test(name##__tcp), cmocka_unit_test(name##__shm)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(url__picks_and_falls_back),
		EITHER(node_after_the_client),
		EITHER(node_restarts),
		EITHER(stream__node_lost),
		cmocka_unit_test(viewer__reads_and_nothing_else),
		EITHER(tenants__do_not_see_each_other),
		EITHER(layout_mismatch__names_the_field),
		EITHER(draining__is_told_at_once),
		EITHER(fork__child_and_parent),
		EITHER(fork__child_exits),
	};
	int r = cmocka_run_group_tests(tests, setup, teardown);

	node_cleanup(&node);
	return r;
}
