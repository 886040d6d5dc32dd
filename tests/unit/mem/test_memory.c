/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory directories: made, found again, refused. On /dev/shm where that is a tmpfs. What needs a
 * mount of its own is done by a child in a mount namespace of its own, as root, or skipped.
 */
#include <sched.h>
#include <sys/mount.h>

#include "place.h"

static void anonymous__is_there_at_once(void **state)
{
	struct larder_memory_config c = {
		.size_bytes = (1ull << 30) + 1, .page_size_bytes = 65536,
	};
	struct larder_memory_info info;
	struct larder_memory *m = NULL;

	assert_int_equal(larder_memory_open(&c, &m), 0);
	larder_memory_get_info(m, &info);
	assert_int_equal(info.pages, 16385);
	assert_int_equal(info.records, 16385 + 16385 / 8 + 1024);
	assert_int_equal(info.page_size_bytes, 65536);
	assert_true(info.fresh && !info.hugepages);
	assert_true(info.arena_bytes == 16385ull * 65536);
	assert_int_equal((uintptr_t)arena_base(m->arena) % (2 << 20), 0);
	((char *)arena_base(m->arena))[info.arena_bytes - 1] = 1;
	assert_int_equal(records_count(m->records), info.records);
	larder_memory_close(m);
	larder_memory_close(NULL);
}

static void open__makes_the_files_and_finds_them_again(void **state)
{
	struct place *p = *state;
	struct larder_memory_info info;
	struct larder_memory *m;
	char path[96];
	struct stat st;

	m = place_open(p);
	larder_memory_get_info(m, &info);
	assert_true(info.fresh);
	assert_true(p->done == p->total && p->total == info.arena_bytes + info.records_bytes);
	assert_int_equal(stat(p->dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	(void)snprintf(path, sizeof(path), "%s/arena", p->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, info.arena_bytes);
	assert_true((uint64_t)st.st_blocks * 512 >= info.arena_bytes);
	assert_int_equal(chmod(path, 0644), 0);
	memory_put(m);
	larder_memory_close(m);
	m = place_open(p);
	larder_memory_get_info(m, &info);
	assert_false(info.fresh);
	memory_expect(m, 1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	larder_memory_close(m);
}

static void open__names_the_process_that_has_it(void **state)
{
	struct place *p = *state;
	struct larder_memory *m = place_open(p);
	char why[64];

	(void)snprintf(why, sizeof(why), "in use by process %d", (int)getpid());
	place_refused(p, -EBUSY, why);
	p->config.pages = 1;	/* the lock comes before the geometry */
	place_refused(p, -EBUSY, why);
	larder_memory_close(m);
}

static void open__refuses_another_geometry_and_changes_nothing(void **state)
{
	struct place *p = *state;
	struct larder_memory *m = place_open(p);

	memory_put(m);
	larder_memory_close(m);
	p->config.pages = 701;
	place_refused(p, -EPROTO, "pages 700, 701 is asked for: configure 700 again");
	p->config.pages = 700;
	p->config.leases = 11;
	place_refused(p, -EPROTO, "leases 10, 11 is asked for");
	p->config.leases = 10;
	m = place_open(p);
	memory_expect(m, 1);
	larder_memory_close(m);
}

static void open__refuses_files_that_do_not_belong_together(void **state)
{
	struct place *p = *state;
	struct larder_memory *m = place_open(p);
	char path[96];

	memory_put(m);
	larder_memory_close(m);
	place_write(p, "arena", 4096, NULL, 0);
	place_refused(p, -EPROTO, "is not the one that");
	(void)snprintf(path, sizeof(path), "%s/arena", p->dir);
	assert_int_equal(unlink(path), 0);
	place_refused(p, -EPROTO, "is not the one that");
	place_write(p, "records", 8192, NULL, 0);
	place_refused(p, -EPROTO, "it was cut");
	/* damaged, not new: it was in use */
	place_write(p, "records", 0, "\0\0\0\0\0\0\0", 8);
	place_refused(p, -EPROTO, "is no record file");
	place_write(p, "records", 0, "something", 9);
	place_refused(p, -EPROTO, "is no record file");
	place_write(p, "records", 0, NULL, 0);		/* empty: nothing is lost */
	m = place_open(p);
	memory_expect(m, 0);
	larder_memory_close(m);
}

static void open__refuses_what_can_not_be(void **state)
{
	struct place *p = *state;

	p->config.page_size_bytes = 5000;
	place_refused(p, -EINVAL, "a page of 5000 bytes");
	p->config.page_size_bytes = 2048;
	place_refused(p, -EINVAL, "a page of 2048 bytes");
	p->config.page_size_bytes = 4 << 20;
	place_refused(p, -EINVAL, "a page of 4194304 bytes");
	p->config.page_size_bytes = 4096;
	p->config.pages = 0;
	place_refused(p, -EINVAL, "0 pages");
	p->config.size_bytes = UINT64_MAX;
	place_refused(p, -EINVAL, "pages of 4096 bytes");
	p->config.pages = 700;
	p->config.create_dir = false;
	place_refused(p, -ENOENT, p->dir);
	p->config.dir = "/proc";
	p->config.any_filesystem = false;
	place_refused(p, -EINVAL, "neither tmpfs nor hugetlbfs");
	p->config.dir = p->dir;
	assert_int_equal(symlink("/dev/null", p->dir), 0);
	p->config.any_filesystem = true;
	place_refused(p, -ENOTDIR, p->dir);
	assert_int_equal(unlink(p->dir), 0);
}

static void open__after_the_holder_was_killed(void **state)
{
	struct place *p = *state;
	struct larder_memory *m;
	int status, ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		memory_put(place_open(p));
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			(void)pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	m = place_open(p);
	memory_expect(m, 1);
	larder_memory_close(m);
	assert_int_equal(close(ready[0]), 0);
	assert_int_equal(close(ready[1]), 0);
}

/* --- on a mount of its own -------------------------------------------------------------------- */

/* Runs @test in a child with @type mounted at a directory. Exit 77: not possible here. */
static void on_mount(const char *type, const char *options, void (*test)(struct place *))
{
	char at[] = "/tmp/larder-test-XXXXXX";
	int status;
	pid_t pid;

	assert_non_null(mkdtemp(at));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct place p;

		if (unshare(CLONE_NEWNS) < 0 ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("none", at, type, 0, options) < 0)
			_exit(77);
		place_init(&p, at);
		p.config.any_filesystem = false;
		test(&p);	/* a failed assertion ends the child through cmocka: not with 42 */
		_exit(42);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(rmdir(at), 0);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("skipped: %s can not be mounted here, or has no pages\n", type);
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 42);
}

static void child_expect(bool ok, const struct place *p)
{
	if (ok)
		return;
	print_error("%s\n", p->log);
	_exit(1);
}

static void full_tmpfs(struct place *p)
{
	struct larder_memory *m = NULL;
	int r = larder_memory_open(&p->config, &m);

	child_expect(r == -ENOSPC && p->lines == 1 && strstr(p->log, "arena: wants 6 MiB"), p);
	/* what was taken is free again: a smaller one fits */
	p->config.pages = 100;
	p->done = 0;
	child_expect(larder_memory_open(&p->config, &m) == 0, p);
	larder_memory_close(m);
}

static void open__tells_the_figures_of_a_full_tmpfs(void **state)
{
	on_mount("tmpfs", "size=2m", full_tmpfs);
}

static void huge_tmpfs(struct place *p)
{
	struct larder_memory *m = NULL;
	int r;

	p->config.size_bytes = 1ull << 50;
	p->config.pages = 0;
	p->config.page_size_bytes = 2 << 20;
	r = larder_memory_open(&p->config, &m);
	child_expect(r == -ENOMEM && p->lines == 1 && strstr(p->log, "the machine has"), p);
}

static void open__refuses_more_than_the_machine_has(void **state)
{
	on_mount("tmpfs", "size=2048t", huge_tmpfs);
}

static void no_hugepages(struct place *p)
{
	struct larder_memory *m = NULL;
	int r;

	p->config.size_bytes = 1ull << 40;
	p->config.pages = 0;
	r = larder_memory_open(&p->config, &m);
	child_expect((r == -ENOSPC || r == -ENOMEM) && p->lines == 1 &&
		     strstr(p->log, "raise vm.nr_hugepages"), p);
}

static void open__tells_of_missing_hugepages(void **state)
{
	on_mount("hugetlbfs", "", no_hugepages);
}

static void on_hugepages(struct place *p)
{
	struct larder_memory_info info;
	struct larder_memory *m = NULL;
	int r = larder_memory_open(&p->config, &m);

	if (r == -ENOSPC || r == -ENOMEM)
		_exit(77);	/* none are reserved on this machine: five would do */
	child_expect(r == 0, p);
	larder_memory_get_info(m, &info);
	child_expect(info.hugepages && info.arena_bytes % (2 << 20) == 0, p);
	memory_put(m);
	larder_memory_close(m);
	p->done = 0;
	child_expect(larder_memory_open(&p->config, &m) == 0, p);
	memory_expect(m, 1);
	larder_memory_close(m);
}

#define POOL "/proc/sys/vm/nr_hugepages"

static long pool_read(void)
{
	FILE *f = fopen(POOL, "re");
	long n = -1;

	if (f) {
		if (fscanf(f, "%ld", &n) != 1)
			n = -1;
		(void)fclose(f);
	}
	return n;
}

static void pool_write(long n)
{
	FILE *f = fopen(POOL, "we");

	if (f) {
		(void)fprintf(f, "%ld\n", n);
		(void)fclose(f);	/* where it is not allowed the test says that it skips */
	}
}

static long pool_before;

/* A few pages for the test; the teardown gives them back whatever became of it. */
static int pool_raise(void **state)
{
	pool_before = pool_read();
	if (pool_before >= 0)
		pool_write(pool_before + 8);
	return 0;
}

static int pool_restore(void **state)
{
	if (pool_before >= 0)
		pool_write(pool_before);
	return 0;
}

static void open__works_on_hugepages(void **state)
{
	on_mount("hugetlbfs", "", on_hugepages);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anonymous__is_there_at_once),
		MEMORY_TEST(open__makes_the_files_and_finds_them_again),
		MEMORY_TEST(open__names_the_process_that_has_it),
		MEMORY_TEST(open__refuses_another_geometry_and_changes_nothing),
		MEMORY_TEST(open__refuses_files_that_do_not_belong_together),
		MEMORY_TEST(open__refuses_what_can_not_be),
		MEMORY_TEST(open__after_the_holder_was_killed),
		cmocka_unit_test(open__tells_the_figures_of_a_full_tmpfs),
		cmocka_unit_test(open__refuses_more_than_the_machine_has),
		cmocka_unit_test(open__tells_of_missing_hugepages),
		cmocka_unit_test_setup_teardown(open__works_on_hugepages, pool_raise,
						pool_restore),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
