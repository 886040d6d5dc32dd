/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory of very many objects (LARDER_MANY, 300,000) beside a real larderfs: the first entry
 * comes soon, the whole in seconds, each once, also while objects come and go; the view's memory
 * comes back.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"

#define BATCH 1000u
#define FIRST_MS 50u	/* the promise; twice that on a machine that others use, too */
#define WHOLE_MS 30000u
#define SPACES 1100u	/* four status files each: more than SNAPSHOTS_MAX */

static struct node node;
static char mount_point[300], folder[400];
static pid_t view;
static uint32_t many;
static struct larder_client *client;
static uint32_t ns;

static void put_many(uint32_t from, uint32_t n)
{
	static char keys[BATCH][32];
	static struct larder_item items[BATCH];
	struct iovec iov = { "content", 7 };

	for (uint32_t i = 0; i < n; i += BATCH) {
		struct larder_batch b = { .opcode = LARDER_OP_PUT, .ns = ns, .items = items,
					  .n_items = BATCH, .deadline_ms = 60000 };

		memset(items, 0, sizeof(items));
		for (uint32_t j = 0; j < BATCH; j++) {
			items[j].key = keys[j];
			items[j].key_len = (size_t)sprintf(keys[j], "object-%08u", from + i + j);
			items[j].iov = &iov;
			items[j].iovcnt = 1;
		}
		assert_int_equal(larder_run(client, &b), LARDER_OK);
	}
}

static int setup(void **state)
{
	const char *given = getenv("LARDER_MANY"), *bin = getenv("BIN");
	char url[400], program[400], extra[200];
	struct stat st;

	if (geteuid() != 0 || access("/dev/fuse", R_OK) < 0)
		return 0;
	many = given ? (uint32_t)strtoul(given, NULL, 10) : 300000;
	(void)snprintf(extra, sizeof(extra), "[memory]\nsize = 2G\npage_size = 4K\n"
		       "namespaces = 2400\nrecords = %u\n",
		       many + many / 2);
	node_setup(&node, extra);
	node_start(&node);
	client = node_client(&node, NODE_SHM);
	assert_int_equal(larder_ns_open(client, "many", NULL, LARDER_NS_CREATE, 5000, &ns), 0);
	put_many(0, many);
	(void)snprintf(mount_point, sizeof(mount_point), "%s/fs", node.dir);
	(void)snprintf(folder, sizeof(folder), "%s/demo/many", mount_point);
	(void)snprintf(url, sizeof(url), "shm://%s", node.socket);
	(void)snprintf(program, sizeof(program), "%s/larderfs", bin);
	view = fork();
	if (view == 0) {
		(void)execl(program, program, "-u", url, "-s", node.control, mount_point, NULL);
		_exit(127);
	}
	for (int i = 0; i < 200 && stat(folder, &st) < 0; i++)
		(void)usleep(50000);	/* another process: there is no clock to advance */
	return stat(folder, &st);
}

static int teardown(void **state)
{
	if (view > 0) {
		(void)kill(view, SIGTERM);
		(void)waitpid(view, NULL, 0);
		(void)umount2(mount_point, MNT_DETACH);	/* nothing is mounted if all went well */
	}
	if (client)
		larder_close(client);
	if (node.dir[0])
		node_cleanup(&node);
	return 0;
}

static void need_fuse(void)
{
	if (view <= 0) {
		print_message("skipped: needs root and /dev/fuse\n");
		skip();
	}
}

static unsigned long rss_kib(void)
{
	char path[64], line[200];
	unsigned long kib = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)view);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %lu", &kib) == 1)
			break;
	(void)fclose(f);
	return kib;
}

/* Names of the objects, each at most once: seen[number]++. How many there were. */
static uint32_t walk(uint8_t *seen, uint32_t room, uint64_t *ret_first_ms,
		     void (*between)(uint32_t))
{
	uint64_t begun = now_ms();
	DIR *d = opendir(folder);
	struct dirent *e;
	uint32_t n = 0, i;

	assert_non_null(d);
	while (errno = 0, (e = readdir(d))) {
		if (!n && ret_first_ms)
			*ret_first_ms = now_ms() - begun;
		if (sscanf(e->d_name, "object-%8u", &i) != 1)
			continue;
		assert_true(i < room);
		seen[i]++;
		if (between)
			between(n);
		n++;
	}
	assert_int_equal(errno, 0);
	assert_int_equal(closedir(d), 0);
	return n;
}

static void the_first_entry_comes_soon_and_each_comes_once(void **state)
{
	uint64_t first, best = UINT64_MAX, begun;
	uint8_t *seen;

	need_fuse();
	for (int round = 0; round < 3; round++) {
		seen = calloc(many, 1);
		assert_non_null(seen);
		begun = now_ms();
		assert_int_equal(walk(seen, many, &first, NULL), many);
		print_message("first entry %lu ms, all %u in %lu ms\n", (unsigned long)first, many,
			      (unsigned long)(now_ms() - begun));
		assert_true(now_ms() - begun < WHOLE_MS);
		for (uint32_t i = 0; i < many; i++)
			assert_int_equal(seen[i], 1);
		free(seen);
		best = first < best ? first : best;
	}
	assert_true(best <= 2 * FIRST_MS);
}

/* While it is walked: what was there goes, what was not comes. */
static void come_and_go(uint32_t n)
{
	char key[32];

	if (n % 64)
		return;
	(void)sprintf(key, "object-%08u", n);
	(void)larder_delete(client, ns, key, strlen(key), 0, 5000);
	(void)sprintf(key, "object-%08u", many + n);
	assert_int_equal(larder_put(client, ns, key, strlen(key), "new", 3, 5000), LARDER_OK);
}

static void what_stays_is_listed_once_while_others_come_and_go(void **state)
{
	uint8_t *seen;

	need_fuse();
	seen = calloc(many * 2 + BATCH, 1);
	assert_non_null(seen);
	(void)walk(seen, many * 2 + BATCH, NULL, come_and_go);
	for (uint32_t i = 0; i < many; i++) {
		if (i % 64)
			assert_int_equal(seen[i], 1);
		else
			assert_true(seen[i] <= 1);
	}
	free(seen);
	/* as before, for the tests that follow */
	for (uint32_t i = 0; i < many; i += 64) {
		char key[32];

		(void)sprintf(key, "object-%08u", many + i);
		(void)larder_delete(client, ns, key, strlen(key), 0, 5000);
		(void)sprintf(key, "object-%08u", i);
		(void)larder_put(client, ns, key, strlen(key), "content", 7, 5000);
	}
}

/*
 * Before the first crawl nothing more has happened than a look at the folder. Its own pages and
 * threads may come with the crawl; what grows with the number of objects must not stay.
 */
static void memory_comes_back_after_a_crawl(void **state)
{
	char command[1200];
	unsigned long before, after;

	need_fuse();
	(void)snprintf(command, sizeof(command), "find '%s' -type f | wc -l >/dev/null && "
		       "find '%s' -name '*00' -size +0 -exec cat {} + >/dev/null", folder, folder);
	before = rss_kib();
	assert_int_equal(system(command), 0);
	after = rss_kib();
	print_message("resident: %lu KiB before the first crawl, %lu after\n", before, after);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(after <= before + before / 5);
#endif
	assert_int_equal(system(command), 0);
	print_message("resident: %lu KiB after the second\n", rss_kib());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(rss_kib() <= before + before / 5);
#endif
}

/* More status files than the view keeps: FUSE forgets them when it likes. */
static void status_files_of_many_namespaces(void **state)
{
	struct larder_client *c;
	char command[1200], name[32];
	uint32_t made;

	need_fuse();
	node_add_tenant(&node, "spaces", "[limits]\nnamespaces = 2000\n");
	c = node_client_as(&node, NODE_SHM, "spaces");
	for (uint32_t i = 0; i < SPACES; i++) {
		(void)sprintf(name, "space-%04u", i);
		assert_int_equal(larder_ns_open(c, name, NULL, LARDER_NS_CREATE, 5000, &made),
				 LARDER_OK);
	}
	(void)snprintf(command, sizeof(command), "cd '%s/spaces' && ls -lA space-* | "
		       "grep -c '^-' | grep -qx %u && cat space-*/.stats* | grep -c '' >/dev/null",
		       mount_point, SPACES * 4);
	assert_int_equal(system(command), 0);
	larder_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_comes_back_after_a_crawl),	/* first: the first crawl */
		cmocka_unit_test(the_first_entry_comes_soon_and_each_comes_once),
		cmocka_unit_test(what_stays_is_listed_once_while_others_come_and_go),
		cmocka_unit_test(status_files_of_many_namespaces),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
