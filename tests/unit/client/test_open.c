/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a handle: what a url stands for, what is refused, and the sentences that come with it. */
#include <pthread.h>

#include "fake_node.h"

#include "client/conn.h"
#include "client/handle.h"

#define DEFAULT_SHM "shm:///run/larder/larder.sock"

static void open__bad_options(void **state)
{
	struct larder_client_options o = rig_options("loop://x");
	struct larder_client *c;

	o.tenant = "Upper";
	assert_int_equal(larder_open(&o, &c), -EINVAL);
	o = rig_options("nothing");
	assert_int_equal(larder_open(&o, &c), -EINVAL);
	o = rig_options("carrier-pigeon://x");
	assert_int_equal(larder_open(&o, &c), -EPROTONOSUPPORT);
	o = rig_options("loop://x");
	o.secret_len = 0;
	assert_int_equal(larder_open(&o, &c), -EINVAL);
	o = rig_options("loop://x");
	o.size = 8;
	assert_int_equal(larder_open(&o, &c), -EINVAL);
	o = rig_options("larder://192.0.2.1");
	o.flags = LARDER_OPEN_VIEWER;
	assert_int_equal(larder_open(&o, &c), -EINVAL);
}

/* @second NULL: there is one way only. */
static void assert_targets(const char *url, uint32_t flags, const char *first, const char *second)
{
	struct larder_client_options o = rig_options(url);
	struct rig r;

	memset(&r, 0, sizeof(r));
	o.flags = flags;
	rig_client(&r, &o);
	assert_int_equal(r.c->core.n_targets, second ? 2 : 1);
	assert_string_equal(r.c->core.targets[0].url, first);
	if (second)
		assert_string_equal(r.c->core.targets[1].url, second);
	larder_close(r.c);
}

static void url__larder_with_a_port_is_tcp(void **state)
{
	assert_targets("larder://127.0.0.1:4711", 0, "tcp://127.0.0.1:4711", NULL);
	assert_targets("larder://localhost:16180", 0, "tcp://localhost:16180", NULL);
	assert_targets("larder://[::1]:1", 0, "tcp://[::1]:1", NULL);
	assert_targets("larder://192.0.2.1:65535", 0, "tcp://192.0.2.1:65535", NULL);
}

static void url__larder_without_a_port(void **state)
{
	assert_targets("larder://127.0.0.1", 0, DEFAULT_SHM, "tcp://127.0.0.1:16180");
	assert_targets("larder://127.1.2.3", 0, DEFAULT_SHM, "tcp://127.1.2.3:16180");
	assert_targets("larder://localhost", 0, DEFAULT_SHM, "tcp://localhost:16180");
	assert_targets("larder://[::1]", 0, DEFAULT_SHM, "tcp://[::1]:16180");
	assert_targets("larder://localhost", LARDER_OPEN_VIEWER, DEFAULT_SHM, NULL);
	assert_targets("larder://192.0.2.1", 0, "tcp://192.0.2.1:16180", NULL);
	assert_targets("larder://[2001:db8::1]", 0, "tcp://[2001:db8::1]:16180", NULL);
	assert_targets("larder://127.example.net", 0, "tcp://127.example.net:16180", NULL);
	assert_targets("larder://localhost.example.net", 0, "tcp://localhost.example.net:16180",
		       NULL);
	assert_targets("larder:///tmp/x.sock", 0, "shm:///tmp/x.sock", NULL);
	assert_targets("tcp://host", 0, "tcp://host:16180", NULL);
}

static void url__refused_by_its_name(void **state)
{
	static const char *const bad[] = {
		"larder://127.0.0.1:99999", "larder://127.0.0.1:0", "larder://127.0.0.1:65536",
		"larder://127.0.0.1:", "larder://host:1x", "larder://:16180", "larder://",
		"larder://[::1", "larder://[::1]16180", "larder://::1", "larder://host/path",
		"tcp://", "tcp://:16180", "tcp://host:0x", "tcp://host:0", "tcp://host:65536",
		"tcp://host:-1", "tcp://host:000080", "tcp://host:1:2", "tcp://[]:1", "tcp://a b",
		"shm://", "loop://", "://host", "host:16180", "",
	};
	char longest[400] = "tcp://";

	memset(longest + 6, 'a', sizeof(longest) - 7);
	for (size_t i = 0; i <= ARRAY_SIZE(bad); i++) {
		const char *url = i < ARRAY_SIZE(bad) ? bad[i] : longest;
		struct larder_client_options o = rig_options(url);
		struct larder_client *c;
		char start[64];

		handle_error("another one");
		assert_int_equal(larder_open(&o, &c), -EINVAL);
		snprintf(start, sizeof(start), "%.60s", url);
		assert_int_equal(strncmp(larder_last_error(), start, strlen(start)), 0);
		assert_null(strstr(larder_last_error(), "another one"));
	}
}

/* --- sentences ------------------------------------------------------------------------------- */

static void assert_told(int r, int wanted)
{
	assert_int_equal(r, wanted);
	assert_string_not_equal(larder_last_error(), "another one");
	assert_string_not_equal(larder_last_error(), "");
	handle_error("another one");
}

static void last_error__each_call_that_makes_no_sense(void **state)
{
	struct rig r;
	struct larder_client_options o = rig_options("loop://x");
	struct larder_batch b = { .opcode = LARDER_OP_LIST };
	struct larder_put_stream *s;
	struct larder_region *region;
	struct larder_client *c;
	uint64_t cursor = 0;
	uint32_t ns;

	rig_open(&r, "open");
	handle_error("another one");
	o.tenant = "Upper";
	assert_told(larder_open(&o, &c), -EINVAL);
	o = rig_options(NULL);
	assert_told(larder_open(&o, &c), -EINVAL);
	assert_told(larder_open(NULL, &c), -EINVAL);
	assert_told(larder_ping(NULL, 1000), -EINVAL);
	assert_told(larder_run(r.c, &b), -EINVAL);
	assert_told(larder_submit(r.c, &b), -EINVAL);
	assert_told(larder_cancel(r.c, &b), -ENOENT);
	assert_told(larder_put(r.c, r.ns, "", 0, "v", 1, 1000), -EINVAL);
	assert_told(larder_put(r.c, r.ns, "k", 1, "v", 0, 1000), -EINVAL);
	assert_told(larder_put(r.c, r.ns, "k", 1, NULL, 1, 1000), -EINVAL);
	assert_told(larder_get(r.c, r.ns, "k", 1, NULL, 1, NULL, 1000), -EINVAL);
	assert_told(larder_ns_open(r.c, "", NULL, 0, 1000, &ns), -EINVAL);
	assert_told(larder_ns_open(r.c, "x", NULL, 0, 1000, NULL), -EINVAL);
	assert_told(larder_ns_list(r.c, NULL, NULL, 1000), -EINVAL);
	assert_told(larder_ns_descriptor(r.c, r.ns, NULL), -EINVAL);
	assert_told(larder_list(r.c, r.ns, NULL, 0, &cursor, 1, NULL, NULL, 1000), -EINVAL);
	assert_told(larder_region_alloc(r.c, 0, 0, &region), -EINVAL);
	assert_told(larder_region_register(r.c, NULL, 1, &region), -EINVAL);
	assert_told(larder_region_renew(NULL), -EINVAL);
	assert_told(larder_put_begin(r.c, r.ns, "k", 1, 0, 1000, &s), -EINVAL);
	assert_told(larder_put_commit(NULL), -EINVAL);
	assert_told(larder_put_abort(NULL), -EINVAL);
	assert_int_equal(larder_put_begin(r.c, r.ns, "k", 1, 10, 1000, &s), LARDER_OK);
	assert_told(larder_put_part(s, 8, "123", 3), -EINVAL);
	assert_told(larder_put_part(s, 5, "123", 3), -EINVAL);
	assert_told(larder_put_commit(s), -EINVAL);
	rig_close(&r);
}

static void *fresh_thread(void *arg)
{
	return strcmp(larder_last_error(), "no error") ? NULL : arg;
}

static void last_error__before_any_failure(void **state)
{
	pthread_t thread;
	void *right = NULL;
	int mark;

	assert_int_equal(pthread_create(&thread, NULL, fresh_thread, &mark), 0);
	assert_int_equal(pthread_join(thread, &right), 0);
	assert_ptr_equal(right, &mark);
}

static void rename_target(struct target *t, const char *url)
{
	snprintf(t->url, sizeof(t->url), "%s", url);
	t->address = strstr(t->url, "://") + 3;
}

/* Two ways to a node that is not there: the second one is named, with what it said. */
static void last_error__names_what_was_tried_last(void **state)
{
	struct larder_client_options o = rig_options("larder://localhost");
	struct core *core;
	struct rig r;

	memset(&r, 0, sizeof(r));
	r.clock.now_ns = 1000 * NSEC_PER_SEC;
	r.tick_ns = 20 * NSEC_PER_USEC;
	rig_client(&r, &o);
	core = &r.c->core;
	rename_target(&core->targets[0], "shm:///nowhere/larder.sock");
	rename_target(&core->targets[1], "tcp://127.0.0.1:1");
	r.clock.now_ns += 3 * NSEC_PER_SEC;	/* more than one connect may take */
	while (core->failures < 3 || core->conn || core->connect_at_ns <= r.clock.now_ns) {
		r.clock.now_ns += NSEC_PER_MSEC;
		(void)larder_step(r.c);
	}
	assert_int_equal(larder_ping(r.c, 1000), LARDER_DISCONNECTED);
	assert_non_null(strstr(larder_last_error(), "tcp://127.0.0.1:1 does not answer"));
	assert_non_null(strstr(larder_last_error(), strerror(ECONNREFUSED)));
	assert_null(strstr(larder_last_error(), "shm:"));
	larder_close(r.c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open__bad_options),
		cmocka_unit_test(url__larder_with_a_port_is_tcp),
		cmocka_unit_test(url__larder_without_a_port),
		cmocka_unit_test(url__refused_by_its_name),
		cmocka_unit_test(last_error__each_call_that_makes_no_sense),
		cmocka_unit_test(last_error__before_any_failure),
		cmocka_unit_test(last_error__names_what_was_tried_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
