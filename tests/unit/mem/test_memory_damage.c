/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory directories that are not as an orderly process leaves them: a first open that was killed
 * or stopped, files that were cut, damaged, lost, or are somebody else's.
 */
#include "place.h"

/* A child that is killed at the @n-th sign of progress of its first open. False: it got through. */
static unsigned kill_at;

static void kill_progress(void *user, uint64_t done, uint64_t total)
{
	if (--kill_at == 0)
		(void)raise(SIGKILL);
}

static bool place_killed_at(struct place *p, unsigned n)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct larder_memory *m = NULL;

		kill_at = n;
		p->config.progress = kill_progress;
		_exit(larder_memory_open(&p->config, &m) == 0 ? 42 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		return true;
	assert_int_equal(WEXITSTATUS(status), 42);
	return false;
}

static void open__begins_anew_where_the_first_open_was_killed(void **state)
{
	static const char zeros[4096];
	struct place *p = *state;
	struct larder_memory_info info;
	struct larder_memory *m;
	unsigned n = 1;

	for (; place_killed_at(p, n); n++) {
		p->config.pages = 900 + n;	/* nobody was told of the first size */
		m = place_open(p);
		larder_memory_get_info(m, &info);
		assert_true(info.fresh && info.pages == 900 + n);
		memory_put(m);
		larder_memory_close(m);
		m = place_open(p);
		memory_expect(m, 1);
		larder_memory_close(m);
		place_remove(p);
		p->config.pages = 700;
	}
	assert_true(n > 6);	/* both files, both given their space and made present */
	m = place_open(p);
	larder_memory_get_info(m, &info);
	assert_false(info.fresh);
	larder_memory_close(m);
	/* between the room for the mark and the mark */
	place_write(p, "arena", 0, NULL, 0);
	place_write(p, "records", 0, NULL, 0);
	place_write(p, "records", 0, zeros, sizeof(zeros));
	larder_memory_close(place_open(p));
}

/* What place_read has of a file; at most 64 KiB are looked at. */
static size_t place_read(const struct place *p, const char *name, char *bytes, size_t size)
{
	_cleanup_close_ int fd = -1;
	char path[96];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = pread(fd, bytes, size, 0);
	assert_true(n >= 0);
	return (size_t)n;
}

/* Refused as often as it is tried, and not a byte of it changes. */
static void place_untouched(struct place *p, const char *why)
{
	static char before[2][65536], after[2][65536];
	size_t n = place_read(p, "records", before[0], sizeof(before[0]));
	size_t k = place_read(p, "arena", before[1], sizeof(before[1]));

	for (int i = 0; i < 2; i++) {
		place_refused(p, -EPROTO, why);
		assert_int_equal(place_read(p, "records", after[0], sizeof(after[0])), n);
		assert_int_equal(place_read(p, "arena", after[1], sizeof(after[1])), k);
		assert_memory_equal(before[0], after[0], n);
		assert_memory_equal(before[1], after[1], k);
	}
}

static void open__never_wipes_what_was_damaged(void **state)
{
	static const char zeros[4096];
	static char whole[65536];
	struct place *p = *state;
	struct larder_memory *m = place_open(p);
	char path[96], away[96];
	size_t n;

	memory_put(m);
	larder_memory_close(m);
	n = place_read(p, "records", whole, sizeof(whole));
	assert_true(n > 8192 && n < sizeof(whole));
	place_write(p, "records", 3000, NULL, 0);
	place_untouched(p, "has 3000 bytes, less than a header");
	place_write(p, "records", 0, NULL, 0);
	place_untouched(p, "arena: has");
	(void)snprintf(path, sizeof(path), "%s/records", p->dir);
	assert_int_equal(unlink(path), 0);
	place_untouched(p, "arena: has");
	place_write(p, "records", 0, whole, n);
	place_write(p, "records", 0, zeros, sizeof(zeros));
	place_untouched(p, "has no header");
	/* put back, all is there */
	place_write(p, "records", 0, whole, n);
	m = place_open(p);
	memory_expect(m, 1);
	larder_memory_close(m);
	/* what was never ours, without an arena too */
	place_write(p, "arena", 0, NULL, 0);
	place_write(p, "records", 0, NULL, 0);
	place_write(p, "records", 0, "minutes of the meeting", 22);
	assert_int_equal(chmod(path, 0644), 0);
	place_untouched(p, "has 22 bytes");
	place_write(p, "records", 8192, NULL, 0);
	place_untouched(p, "is no record file");
	place_write(p, "records", 0, NULL, 0);
	place_write(p, "records", 8192, NULL, 0);
	place_untouched(p, "has no header");
	place_write(p, "records", 0, NULL, 0);
	place_write(p, "arena", 0, "a stadium", 9);
	place_untouched(p, "arena: has 9 bytes");
	(void)snprintf(away, sizeof(away), "%s/arena", p->dir);
	assert_int_equal(unlink(away), 0);
	larder_memory_close(place_open(p));
}

static unsigned cancel_at;

static bool place_cancelled(void *user)
{
	return --cancel_at == 0;
}

static uint64_t place_bytes(const struct place *p, const char *name)
{
	struct stat st;
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	if (stat(path, &st) < 0)
		return 0;
	return (uint64_t)st.st_size;
}

static void open__stops_when_it_is_told_to(void **state)
{
	struct place *p = *state;
	struct larder_memory *m = NULL;
	struct larder_memory_info info;
	unsigned n = 1;
	int r;

	p->config.cancelled = place_cancelled;
	for (;; n++) {
		p->done = 0;
		p->log[0] = '\0';
		cancel_at = n;
		r = larder_memory_open(&p->config, &m);
		if (r == 0)
			break;
		assert_int_equal(r, -EINTR);
		assert_non_null(strstr(p->log, "stopped as asked"));
		assert_ptr_equal(strchr(p->log, '\n') + 1, p->log + strlen(p->log));
		/* nothing is kept of it */
		assert_true(place_bytes(p, "arena") == 0 && place_bytes(p, "records") == 0);
	}
	assert_true(n > 8);
	larder_memory_get_info(m, &info);
	assert_true(info.fresh);
	memory_put(m);
	larder_memory_close(m);
	for (n = 1;; n++) {
		p->done = 0;
		cancel_at = n;
		r = larder_memory_open(&p->config, &m);
		if (r == 0)
			break;
		assert_int_equal(r, -EINTR);
	}
	assert_true(n > 4);
	memory_expect(m, 1);
	larder_memory_close(m);
}

static void check__tells_beforehand(void **state)
{
	struct place *p = *state;

	assert_int_equal(larder_memory_check(&p->config), 0);
	assert_int_equal(access(p->dir, F_OK), -1);	/* nothing was made */
	p->config.page_size_bytes = 5000;
	assert_int_equal(larder_memory_check(&p->config), -EINVAL);
	p->config.page_size_bytes = 65536;
	p->config.pages = 1u << 30;
	p->config.any_filesystem = false;
	p->log[0] = '\0';
	assert_int_equal(larder_memory_check(&p->config), -ENOMEM);
	assert_non_null(strstr(p->log, "the machine has"));
	p->config.pages = 700;
	assert_int_equal(larder_memory_check(&p->config), 0);
	p->config.dir = "/proc";
	p->log[0] = '\0';
	assert_int_equal(larder_memory_check(&p->config), -EINVAL);
	assert_non_null(strstr(p->log, "neither tmpfs nor hugetlbfs"));
	p->config.dir = NULL;
	assert_int_equal(larder_memory_check(&p->config), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MEMORY_TEST(open__begins_anew_where_the_first_open_was_killed),
		MEMORY_TEST(open__never_wipes_what_was_damaged),
		MEMORY_TEST(open__stops_when_it_is_told_to),
		MEMORY_TEST(check__tells_beforehand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
