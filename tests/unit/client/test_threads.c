/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One handle, many threads, a node in a thread of its own, the kernel's clock: who drives, who
 * waits, who is called back. Plus fork.
 */
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

#include "fake_node.h"

#define THREADS 6
#define ROUNDS 30

struct world {
	struct fake fake;
	struct fake_clock clock;
	pthread_t node;
	bool stop;		/* atomic */
	struct larder_client *c;
	uint32_t ns;
	char url[96];
};

static void *world_node(void *arg)
{
	struct world *w = arg;
	int fd = w->fake.t->ops->event_fd(w->fake.t);

	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };

		if (!fake_step(&w->fake))
			(void)poll(&pfd, 1, 10);
	}
	return NULL;
}

static void world_open(struct world *w, const char *scheme)
{
	struct larder_client_options o;
	char address[64], bound[64];

	memset(w, 0, sizeof(*w));
	if (!strcmp(scheme, "shm")) {
		snprintf(address, sizeof(address), "/tmp/larder-threads-%d.sock", (int)getpid());
		(void)unlink(address);
	} else {
		snprintf(address, sizeof(address), "%s",
			 !strcmp(scheme, "tcp") ? "127.0.0.1:0" : "threads");
	}
	fake_open(&w->fake, &w->clock, scheme, address);
	w->fake.keepalive_ms = 30000;
	assert_int_equal(w->fake.t->ops->bound(w->fake.t, bound, sizeof(bound)), 0);
	snprintf(w->url, sizeof(w->url), "%s://%s", scheme, bound);
	assert_int_equal(pthread_create(&w->node, NULL, world_node, w), 0);
	o = rig_options(w->url);
	assert_int_equal(larder_open(&o, &w->c), 0);
	assert_int_equal(larder_ns_open(w->c, "space", NULL, LARDER_NS_CREATE, 5000, &w->ns), 0);
}

static void world_close(struct world *w)
{
	larder_close(w->c);
	__atomic_store_n(&w->stop, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(w->node, NULL), 0);
	fake_close(&w->fake);
}

struct worker {
	struct world *w;
	int index;
	int failed;
	pthread_t thread;
};

/* A condition of a worker thread: cmocka's asserts may only be used on the main one. */
#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #cond,             \
				larder_last_error());                                              \
			k->failed++;                                                               \
		}                                                                                  \
	} while (0)

static void *work_sync(void *arg)
{
	struct worker *k = arg;
	size_t size = 200000;
	uint8_t *v = malloc(size), *back = malloc(size);
	char key[32];
	size_t len;

	for (int i = 0; i < ROUNDS; i++) {
		size_t n = 1 + (size_t)(i * 7919 % (int)size);

		snprintf(key, sizeof(key), "%d/%d", k->index, i);
		rig_fill(v, n, (uint64_t)(k->index * 1000 + i));
		EXPECT(larder_put(k->w->c, k->w->ns, key, strlen(key), v, n, 10000) == 0);
		EXPECT(larder_exists(k->w->c, k->w->ns, key, strlen(key), 10000) == 0);
		EXPECT(larder_get(k->w->c, k->w->ns, key, strlen(key), back, size, &len, 10000) ==
		       0);
		EXPECT(len == n && !memcmp(v, back, n));
	}
	free(v);
	free(back);
	return NULL;
}

struct batch_of {
	struct larder_batch b;
	struct larder_item items[4];
	struct iovec iov[4];
	uint8_t data[4][3000];
	uint32_t called;
	pthread_t from;
};

static void called_back(void *user, struct larder_batch *b, uint32_t index)
{
	struct batch_of *o = user;

	o->from = pthread_self();
	o->called++;
}

static void *work_async(void *arg)
{
	struct worker *k = arg;
	struct batch_of *o = calloc(1, sizeof(*o));
	struct larder_batch *done[8];
	struct pollfd pfd = { .fd = larder_event_fd(k->w->c), .events = POLLIN };

	for (int i = 0; i < ROUNDS; i++) {
		bool callback = i % 3 == 0;
		int got = 0;

		for (int j = 0; j < 4; j++) {
			rig_fill(o->data[j], sizeof(o->data[j]), (uint64_t)j);
			o->iov[j] = (struct iovec){ o->data[j], sizeof(o->data[j]) };
			o->items[j] = (struct larder_item){ .key = "abcd" + j, .key_len = 1,
							    .iov = &o->iov[j], .iovcnt = 1 };
		}
		o->called = 0;
		o->b = (struct larder_batch){ .opcode = i % 2 ? LARDER_OP_GET : LARDER_OP_PUT,
					      .ns = k->w->ns, .items = o->items, .n_items = 4,
					      .deadline_ms = 10000,
					      .item_done = callback ? called_back : NULL,
					      .user = o };
		EXPECT(larder_submit(k->w->c, &o->b) == 0);
		while (!got) {
			EXPECT(poll(&pfd, 1, 10000) == 1);
			got = larder_poll(k->w->c, done, 8);
			EXPECT(got >= 0);
			if (k->failed)
				break;
		}
		EXPECT(got == 1 && done[0] == &o->b);
		EXPECT(o->b.n_done == 4);
		EXPECT(o->called == (callback ? 4u : 0u));
		EXPECT(!callback || !pthread_equal(o->from, pthread_self()));
		for (int j = 0; j < 4; j++)
			EXPECT(o->items[j].status <= LARDER_EXISTS_SAME);
	}
	free(o);
	return NULL;
}

static void run_threads(const char *scheme, bool async)
{
	struct world w;
	struct worker workers[THREADS];
	int n = THREADS, failed = 0;

	world_open(&w, scheme);
	for (int i = 0; i < n; i++) {
		/* larder_poll gives whichever is done: one thread takes them */
		workers[i] = (struct worker){ .w = &w, .index = i };
		assert_int_equal(pthread_create(&workers[i].thread, NULL,
						async && i == 0 ? work_async : work_sync,
						&workers[i]), 0);
	}
	for (int i = 0; i < n; i++) {
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		failed += workers[i].failed;
	}
	assert_int_equal(failed, 0);
	world_close(&w);
}

static void sync__many_threads_loop(void **state)
{
	run_threads("loop", false);
}

static void sync__many_threads_tcp(void **state)
{
	run_threads("tcp", false);
}

static void sync__many_threads_shm(void **state)
{
	run_threads("shm", false);
}

static void async__beside_sync_tcp(void **state)
{
	run_threads("tcp", true);
}

static void async__beside_sync_loop(void **state)
{
	run_threads("loop", true);
}

static void async__alone(void **state)
{
	struct world w;
	struct worker k = { .w = &w };

	world_open(&w, "tcp");
	(void)work_async(&k);
	assert_int_equal(k.failed, 0);
	world_close(&w);
}

static void open_close__with_nobody_there(void **state)
{
	struct larder_client_options o = rig_options("tcp://127.0.0.1:1");
	struct larder_client *c;

	assert_int_equal(larder_open(&o, &c), 0);
	assert_int_equal(larder_ping(c, 60), LARDER_DISCONNECTED);
	larder_close(c);
}

static void fork__child_leaves_the_parent_alone(void **state)
{
	static const char *const schemes[] = { "tcp", "shm" };

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		struct world w;
		struct larder_region *region;
		int status;
		pid_t pid;

		world_open(&w, schemes[i]);
		assert_int_equal(larder_region_alloc(w.c, 4096, 0, &region), 0);
		assert_int_equal(larder_put(w.c, w.ns, "k", 1, "v", 1, 5000), LARDER_OK);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct larder_batch b = { .opcode = LARDER_OP_RELEASE };
			bool right = larder_ping(w.c, 1000) == -ECHILD &&
				     larder_submit(w.c, &b) == -ECHILD &&
				     larder_put(w.c, w.ns, "x", 1, "v", 1, 1000) == -ECHILD &&
				     larder_region_free(region) == -ECHILD &&
				     larder_event_fd(w.c) == -ECHILD &&
				     strstr(larder_last_error(), "fork");

			larder_close(w.c);
			_exit(right ? 0 : 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		/* the same session goes on */
		assert_int_equal(larder_exists(w.c, w.ns, "k", 1, 5000), LARDER_OK);
		assert_int_equal(larder_put(w.c, w.ns, "l", 1, larder_region_addr(region), 9, 5000),
				 LARDER_OK);
		assert_int_equal(w.fake.handshakes, 1);
		assert_int_equal(larder_region_free(region), 0);
		world_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sync__many_threads_loop),
		cmocka_unit_test(sync__many_threads_tcp),
		cmocka_unit_test(sync__many_threads_shm),
		cmocka_unit_test(async__beside_sync_tcp),
		cmocka_unit_test(async__beside_sync_loop),
		cmocka_unit_test(async__alone),
		cmocka_unit_test(open_close__with_nobody_there),
		cmocka_unit_test(fork__child_leaves_the_parent_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
