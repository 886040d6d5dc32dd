/* SPDX-License-Identifier: Apache-2.0 */
/* A memory directory of a test: opened, refused, written to behind its back, removed. */
#ifndef LARDER_TESTS_MEM_PLACE_H
#define LARDER_TESTS_MEM_PLACE_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "mem/memory.h"

struct place {
	char dir[64];			/* does not exist before the open */
	char log[4096];			/* lines of the last open */
	unsigned lines;
	uint64_t done, total;
	struct larder_log sink;
	struct larder_memory_config config;
};

static inline void place_line(void *user, int level, const char *text)
{
	struct place *p = user;
	size_t len = strlen(p->log);

	if (level <= LARDER_LOG_ERR)
		p->lines++;
	(void)snprintf(p->log + len, sizeof(p->log) - len, "%s\n", text);
}

static inline void place_progress(void *user, uint64_t done, uint64_t total)
{
	struct place *p = user;

	assert_true(done > p->done && done <= total);
	p->done = done;
	p->total = total;
}

static inline void place_init(struct place *p, const char *parent)
{
	static unsigned n;

	*p = (struct place){ 0 };
	(void)snprintf(p->dir, sizeof(p->dir), "%s/larder-test-%d-%u", parent, (int)getpid(), n++);
	p->sink = (struct larder_log){ place_line, p, LARDER_LOG_DEBUG };
	p->config = (struct larder_memory_config){
		.dir = p->dir, .create_dir = true, .any_filesystem = true, .pages = 700,
		.page_size_bytes = 8192, .records = 100, .leases = 10, .namespaces = 5,
		.prefault_step_bytes = 1 << 20, .progress = place_progress, .user = p,
		.log = &p->sink,
	};
}

static inline void place_remove(const struct place *p)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/arena", p->dir);
	assert_true(unlink(path) == 0 || errno == ENOENT);
	(void)snprintf(path, sizeof(path), "%s/records", p->dir);
	assert_true(unlink(path) == 0 || errno == ENOENT);
	assert_true(rmdir(p->dir) == 0 || errno == ENOENT);
}

static inline int setup(void **state)
{
	struct place *p = malloc(sizeof(*p));

	if (!p)
		return -1;
	place_init(p, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	*state = p;
	return 0;
}

static inline int teardown(void **state)
{
	place_remove(*state);
	free(*state);
	return 0;
}

static inline struct larder_memory *place_open(struct place *p)
{
	struct larder_memory *m = NULL;
	int r;

	p->log[0] = '\0';
	p->done = 0;
	p->lines = 0;
	r = larder_memory_open(&p->config, &m);
	if (r < 0)
		fail_msg("larder_memory_open: %d %s", r, p->log);
	assert_int_equal(p->lines, 0);
	return m;
}

static inline void place_refused(struct place *p, int error, const char *why)
{
	struct larder_memory *m = NULL;
	int r;

	p->log[0] = '\0';
	p->done = 0;
	p->lines = 0;
	r = larder_memory_open(&p->config, &m);
	if (r != error || !strstr(p->log, why) || p->lines != 1)
		fail_msg("%d instead of %d, \"%s\" instead of \"%s\"", r, error, p->log, why);
	assert_null(m);
}

/* One object of two pages whose bytes are 'v'. */
static inline void memory_put(struct larder_memory *m)
{
	struct larder_run runs[2];
	struct record_content c = { .length = 10000, .key = "k", .key_len = 1, .runs = runs,
				    .n_checks = 1 };
	uint32_t check = 5, slot = records_slot_take(m->records);
	int n = arena_alloc(m->arena, 2, runs, 2);

	assert_int_equal(n, 1);
	c.n_runs = 1;
	c.checks = &check;
	assert_int_equal(records_tenant_add(m->records, "t", &c.tenant), 0);
	assert_int_equal(records_namespace_add(m->records, c.tenant, "n", 1, NULL, 0, &c.ns), 0);
	assert_int_equal(records_fill(m->records, slot, &c), 0);
	memset((char *)arena_base(m->arena) + runs[0].page * 8192ull, 'v', 10000);
	records_commit(m->records, slot, NULL, 1);
}

static inline void memory_expect(struct larder_memory *m, uint64_t objects)
{
	struct records_rebuilt found;
	struct larder_run run;
	uint32_t slot = 0;

	assert_int_equal(records_rebuild(m->records, m->arena, 0, NULL, NULL, NULL, &found), 0);
	assert_true(found.objects == objects && found.dropped_bad == 0);
	if (!objects)
		return;
	while (records_at(m->records, slot)->state != RECORD_COMMITTED)
		slot++;
	records_runs(m->records, slot, &run, 0, 1);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(((char *)arena_base(m->arena) + run.page * 8192ull)[i], 'v');
}

static inline void place_write(const struct place *p, const char *name, uint64_t at,
			       const char *bytes, size_t n)
{
	_cleanup_close_ int fd = -1;
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	if (bytes)
		assert_int_equal(pwrite(fd, bytes, n, (off_t)at), n);
	else
		assert_int_equal(ftruncate(fd, (off_t)at), 0);
}

#define MEMORY_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
