/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts to the last one: four tenants put, get, look up and delete over tcp and shm, each with a
 * limit that refuses, and keep a journal of what they were told. The ledger (larderctl stats), the
 * BPF maps (bpftool), larder-acct, the exporter and the file view's .usage must then say what the
 * journals say, and the causes of payload must add up. What can not be had here (BPF, FUSE) is left
 * out and told.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <larder/ledger.h>

#include "harness.h"

#define TENANTS 4u
#define STEPS 400u
#define KEYS 40u
#define CAP 24u			/* objects; over it PUTs are QUOTA */
#define VALUE_MAX 150000u

/* What one tenant was told. */
struct journal {
	char tenant[16];
	uint64_t gets, hits, puts, stored, exists, present, deletes, refused;
	uint64_t bytes_in, bytes_out;
	size_t there[KEYS];	/* lengths; 0: not there */
	unsigned objects;
};

static struct node node;
static struct journal journal[TENANTS];
static char bpf[300], view[300];	/* empty: not to be had */
static pid_t view_pid, acct_pid;

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return *seed >> 33;
}

/* --- the workload ---------------------------------------------------------------------------- */

static void put(struct journal *j, struct larder_client *c, uint32_t ns, unsigned k, size_t len)
{
	static uint8_t value[VALUE_MAX];
	char key[16];
	int n = snprintf(key, sizeof(key), "key-%u", k), r;

	pattern_fill(value, len, k);
	r = larder_put(c, ns, key, (size_t)n, value, len, 20000);
	j->puts++;
	if (j->there[k]) {
		assert_int_equal(r, j->there[k] == len ? LARDER_EXISTS_SAME : LARDER_CONFLICT);
	} else if (j->objects == CAP) {
		assert_int_equal(r, LARDER_QUOTA);
		j->refused++;
	} else {
		assert_int_equal(r, LARDER_OK);
		j->there[k] = len;
		j->objects++;
		j->stored++;
		j->bytes_in += len;
	}
}

/*
 * Into memory of the library's: into any other, shm guesses how long the value is, and asks again
 * when it was longer. That is another request, and rightly counted.
 */
static void get(struct journal *j, struct larder_client *c, uint32_t ns, unsigned k, uint8_t *back)
{
	size_t got = 0;
	char key[16];
	int n = snprintf(key, sizeof(key), "key-%u", k);
	int r = larder_get(c, ns, key, (size_t)n, back, VALUE_MAX, &got, 20000);

	j->gets++;
	assert_int_equal(r, j->there[k] ? LARDER_OK : LARDER_NOT_FOUND);
	if (!j->there[k])
		return;
	assert_int_equal(got, j->there[k]);
	assert_int_equal(pattern_check(back, got, k), -1);
	j->hits++;
	j->bytes_out += got;
}

static void step(struct journal *j, struct larder_client *c, uint32_t ns, uint8_t *back,
		 uint64_t *seed)
{
	unsigned k = (unsigned)(next(seed) % KEYS);
	char key[16];
	int n = snprintf(key, sizeof(key), "key-%u", k);

	switch (next(seed) % 10) {
	case 0: case 1: case 2: case 3:
		put(j, c, ns, k, 1 + next(seed) % VALUE_MAX);
		break;
	case 4:
		if (j->there[k])
			put(j, c, ns, k, j->there[k]);
		break;
	case 5: case 6: case 7:
		get(j, c, ns, k, back);
		break;
	case 8:
		assert_int_equal(larder_exists(c, ns, key, (size_t)n, 5000),
				 j->there[k] ? LARDER_OK : LARDER_NOT_FOUND);
		j->exists++;
		j->present += j->there[k] != 0;
		break;
	default:
		assert_int_equal(larder_delete(c, ns, key, (size_t)n, 0, 5000),
				 j->there[k] ? LARDER_OK : LARDER_NOT_FOUND);
		j->deletes++;
		j->objects -= j->there[k] != 0;
		j->there[k] = 0;
	}
}

static void work(void)
{
	struct larder_client *c[TENANTS][2];
	struct larder_region *region[TENANTS][2];
	uint32_t ns[TENANTS][2];
	uint64_t seed = 20261130;

	for (unsigned t = 0; t < TENANTS; t++) {
		for (unsigned w = 0; w < 2; w++) {
			c[t][w] = node_client_as(&node, w ? NODE_SHM : NODE_TCP, journal[t].tenant);
			ns[t][w] = node_namespace(c[t][w], "work");
			assert_int_equal(larder_region_alloc(c[t][w], VALUE_MAX, 0, &region[t][w]),
					 0);
		}
	}
	for (unsigned i = 0; i < STEPS * TENANTS; i++) {
		unsigned t = (unsigned)(next(&seed) % TENANTS), w = (unsigned)(next(&seed) % 2);

		step(&journal[t], c[t][w], ns[t][w], larder_region_addr(region[t][w]), &seed);
	}
	for (unsigned t = 0; t < TENANTS; t++) {
		struct journal *j = &journal[t];

		for (unsigned k = 0; j->objects < CAP; k++)
			if (!j->there[k])
				put(j, c[t][k % 2], ns[t][k % 2], k, 1000);
		for (unsigned k = 0; k < KEYS; k++)	/* all of these are one too many */
			if (!j->there[k])
				put(j, c[t][k % 2], ns[t][k % 2], k, 1000);
		assert_true(j->hits > 20 && j->gets > j->hits && j->refused > 5);
		for (unsigned w = 0; w < 2; w++) {
			assert_int_equal(larder_region_free(region[t][w]), 0);
			larder_close(c[t][w]);
		}
	}
}

/* --- the six who tell ------------------------------------------------------------------------ */

/* The output of a command, as JSON; NULL where it is none. */
static json_t *run_json(const char *fmt, ...)
{
	char command[1024];
	json_t *doc;
	va_list ap;
	FILE *f;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	f = popen(command, "r");
	assert_non_null(f);
	doc = json_loadf(f, 0, NULL);
	pclose(f);
	return doc;
}

static uint64_t number(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);

	if (!json_is_integer(v))
		fail_msg("no %s", name);
	return (uint64_t)json_integer_value(v);
}

static void same(const char *who, const struct journal *j, const char *what, uint64_t told,
		 uint64_t wanted)
{
	if (told != wanted)
		fail_msg("%s: tenant %s: %s: %llu, the journal has %llu", who, j->tenant, what,
			 (unsigned long long)told, (unsigned long long)wanted);
}

static json_t *stats(void)
{
	json_t *all = run_json("%s/larderctl --control %s stats --json", getenv("BIN"),
			       node.control);
	json_t *tenants = json_incref(json_object_get(all, "tenants"));

	assert_non_null(tenants);
	json_decref(all);
	return tenants;
}

/* A request is counted when its reply is gone, which may be after the client has it. */
static void settle(void)
{
	for (unsigned i = 0; i < 100; i++) {
		json_t *all = stats();
		bool done = true;

		for (unsigned t = 0; t < TENANTS; t++) {
			const json_t *o = json_object_get(all, journal[t].tenant);

			done = done && number(o, "gets") == journal[t].gets &&
			       number(o, "puts") == journal[t].puts &&
			       number(o, "connections") == 0;
		}
		json_decref(all);
		if (done)
			return;
		sleep_ms(50);
	}
}

static void ledger__says_what_the_journals_say(void **state)
{
	json_t *all = stats();

	for (unsigned t = 0; t < TENANTS; t++) {
		const struct journal *j = &journal[t];
		const json_t *o = json_object_get(all, j->tenant);

		same("stats", j, "gets", number(o, "gets"), j->gets);
		same("stats", j, "get_hits", number(o, "get_hits"), j->hits);
		same("stats", j, "puts", number(o, "puts"), j->puts);
		same("stats", j, "bytes_in", number(o, "bytes_in"), j->bytes_in);
		same("stats", j, "bytes_out", number(o, "bytes_out"), j->bytes_out);
		same("stats", j, "refused", number(o, "refused"), j->refused);
		same("stats", j, "refused by objects",
		     number(json_object_get(o, "refused_by"), "objects"), j->refused);
		same("stats", j, "objects", number(o, "objects"), j->objects);
	}
	json_decref(all);
}

/* The sum of a figure over the rows of a tenant. */
static uint64_t rows(const json_t *dump, const char *tenant, const char *group, const char *name)
{
	uint64_t sum = 0;
	size_t i;
	json_t *row;

	json_array_foreach(dump, i, row) {
		const json_t *v = json_object_get(row, "value");

		if (strcmp(json_string_value(json_object_get(v, "tenant")), tenant) == 0)
			sum += number(group ? json_object_get(v, group) : v, name);
	}
	return sum;
}

static void bpftool__says_what_the_journals_say(void **state)
{
	static const char *const causes[] = { "client_read", "client_write", "view", "rebuild",
					      "replica", "prefetch", "cold" };
	json_t *u, *g;

	if (!bpf[0])
		skip();
	u = run_json("bpftool map dump pinned %s/usage_%u", bpf, LARDER_LEDGER_LAYOUT);
	g = run_json("bpftool map dump pinned %s/gauges_%u", bpf, LARDER_LEDGER_LAYOUT);
	assert_true(json_is_array(u) && json_is_array(g));
	for (unsigned t = 0; t < TENANTS; t++) {
		const struct journal *j = &journal[t];
		uint64_t all = 0;

		same("bpftool", j, "GET", rows(u, j->tenant, "ops", "GET"), j->gets);
		same("bpftool", j, "PUT", rows(u, j->tenant, "ops", "PUT"), j->puts);
		same("bpftool", j, "EXISTS", rows(u, j->tenant, "ops", "EXISTS"), j->exists);
		same("bpftool", j, "DELETE", rows(u, j->tenant, "ops", "DELETE"), j->deletes);
		same("bpftool", j, "hits", rows(u, j->tenant, NULL, "get_hits"), j->hits);
		same("bpftool", j, "hit bytes", rows(u, j->tenant, NULL, "get_hit_bytes"),
		     j->bytes_out);
		same("bpftool", j, "put_new", rows(u, j->tenant, NULL, "put_new"), j->stored);
		same("bpftool", j, "present", rows(u, j->tenant, NULL, "exists_present"),
		     j->present);
		same("bpftool", j, "QUOTA", rows(u, j->tenant, "status", "QUOTA"), j->refused);
		same("bpftool", j, "refused", rows(u, j->tenant, "refused", "objects"),
		     j->refused);
		same("bpftool", j, "objects", rows(g, j->tenant, NULL, "objects"), j->objects);
		for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
			all += rows(u, j->tenant, "bytes", causes[i]);
		same("bpftool", j, "all causes", all, j->bytes_in + j->bytes_out);
	}
	json_decref(u);
	json_decref(g);
}

static uint64_t metric(const char *page, const char *fmt, ...)
{
	char line[256];
	const char *at;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	at = strstr(page, line);
	/* what never happened is left out */
	return at ? strtoull(at + strlen(line), NULL, 10) : 0;
}

static void exporter__says_what_the_journals_say(void **state)
{
	static char page[1 << 20];
	char command[1024];
	size_t n;
	FILE *f;

	snprintf(command, sizeof(command), "%s/larder-exporter --once --control %s", getenv("BIN"),
		 node.control);
	f = popen(command, "r");
	assert_non_null(f);
	n = fread(page, 1, sizeof(page) - 1, f);
	page[n] = '\0';
	assert_int_equal(pclose(f), 0);
	for (unsigned t = 0; t < TENANTS; t++) {
		const struct journal *j = &journal[t];
		const char *op = "\nlarder_operations_total{tenant=\"%s\",operation=\"%s\"} ";
		const char *bytes = "\nlarder_payload_bytes_total{tenant=\"%s\",cause=\"%s\"} ";

		same("exporter", j, "get", metric(page, op, j->tenant, "get"), j->gets);
		same("exporter", j, "put", metric(page, op, j->tenant, "put"), j->puts);
		same("exporter", j, "exists", metric(page, op, j->tenant, "exists"), j->exists);
		same("exporter", j, "delete", metric(page, op, j->tenant, "delete"), j->deletes);
		same("exporter", j, "hits", metric(page, "\nlarder_get_hits_total{tenant=\"%s\"} ",
						   j->tenant), j->hits);
		same("exporter", j, "in", metric(page, bytes, j->tenant, "client_write"),
		     j->bytes_in);
		same("exporter", j, "out", metric(page, bytes, j->tenant, "client_read"),
		     j->bytes_out);
		same("exporter", j, "refused",
		     metric(page, "\nlarder_refused_total{tenant=\"%s\",limit=\"objects\"} ",
			    j->tenant), j->refused);
	}
}

static void usage_files__say_what_the_journals_say(void **state)
{
	if (!view_pid)
		skip();
	for (unsigned t = 0; t < TENANTS; t++) {
		const struct journal *j = &journal[t];
		json_t *o = run_json("cat %s/%s/.usage.json", view, j->tenant);

		if (!json_is_object(o))
			fail_msg("%s/%s/.usage.json is no JSON", view, j->tenant);
		same(".usage", j, "gets", number(o, "gets"), j->gets);
		same(".usage", j, "get_hits", number(o, "get_hits"), j->hits);
		same(".usage", j, "puts", number(o, "puts"), j->puts);
		same(".usage", j, "puts_new", number(o, "puts_new"), j->stored);
		same(".usage", j, "written", number(o, "written_bytes"), j->bytes_in);
		same(".usage", j, "read", number(o, "read_bytes"), j->bytes_out);
		same(".usage", j, "refused", number(o, "refused"), j->refused);
		same(".usage", j, "objects", number(o, "objects"), j->objects);
		json_decref(o);
	}
}

static void acct__says_what_the_journals_say(void **state)
{
	json_t *doc, *all;

	if (!acct_pid)
		skip();
	kill(acct_pid, SIGINT);
	assert_int_equal(waitpid(acct_pid, NULL, 0), acct_pid);
	acct_pid = 0;
	doc = run_json("cat %s/acct", node.dir);
	all = json_object_get(doc, "tenants");
	assert_true(json_is_object(all));
	for (unsigned t = 0; t < TENANTS; t++) {
		const struct journal *j = &journal[t];
		const json_t *o = json_object_get(all, j->tenant);
		const json_t *ops = json_object_get(o, "ops");

		same("larder-acct", j, "GET", number(ops, "GET"), j->gets);
		same("larder-acct", j, "PUT", number(ops, "PUT"), j->puts);
		same("larder-acct", j, "EXISTS", number(ops, "EXISTS"), j->exists);
		same("larder-acct", j, "DELETE", number(ops, "DELETE"), j->deletes);
		same("larder-acct", j, "hits", number(o, "get_hits"), j->hits);
		same("larder-acct", j, "in", number(o, "bytes_in"), j->bytes_in);
		same("larder-acct", j, "out", number(o, "bytes_out"), j->bytes_out);
		same("larder-acct", j, "QUOTA", number(json_object_get(o, "status"), "QUOTA"),
		     j->refused);
		same("larder-acct", j, "refused", number(json_object_get(o, "refused"), "objects"),
		     j->refused);
	}
	json_decref(doc);
}

/* --- start and stop -------------------------------------------------------------------------- */

static void make_maps(void)
{
	char command[1024];

	snprintf(bpf, sizeof(bpf), "%s/bpf", node.dir);
	snprintf(command, sizeof(command), "command -v bpftool >/dev/null && "
		 "%s/larder-bpf --dir %s --reactors 2 load >%s/bpf.log 2>&1", getenv("BIN"), bpf,
		 node.dir);
	if (geteuid() == 0 && system(command) == 0)
		return;
	printf("skipped: BPF maps can not be had here\n");
	bpf[0] = '\0';
}

/* It counts from when it listens on. */
static void start_acct(void)
{
	char acct[512], pid[16], out[400], log[400];

	snprintf(acct, sizeof(acct), "%s/larder-acct", getenv("BIN"));
	snprintf(pid, sizeof(pid), "%d", (int)node.pid);
	snprintf(out, sizeof(out), "%s/acct", node.dir);
	snprintf(log, sizeof(log), "%s/acct.log", node.dir);
	acct_pid = fork();
	if (acct_pid == 0) {
		if (!freopen(out, "w", stdout) || !freopen(log, "w", stderr))
			_exit(126);
		execl(acct, "larder-acct", "--json", "-p", pid, "-C", node.control, (char *)NULL);
		_exit(127);
	}
	for (unsigned i = 0; i < 400; i++) {
		json_t *listening = run_json("grep -q listening %s && echo []", log);

		json_decref(listening);
		if (listening)
			return;
		if (waitpid(acct_pid, NULL, WNOHANG) != 0)
			break;
		sleep_ms(50);
	}
	printf("skipped: larder-acct can not be had here\n");
	acct_pid = 0;
}

static void start_view(void)
{
	char larderfs[512], url[512];
	struct stat before, now;

	snprintf(view, sizeof(view), "%s/fs", node.dir);
	if (geteuid() != 0 || access("/dev/fuse", R_OK) < 0) {
		printf("skipped: the file view needs root and /dev/fuse\n");
		return;
	}
	assert_int_equal(mkdir(view, 0755), 0);
	assert_int_equal(stat(view, &before), 0);
	snprintf(larderfs, sizeof(larderfs), "%s/larderfs", getenv("BIN"));
	snprintf(url, sizeof(url), "shm://%s", node.socket);
	view_pid = fork();
	if (view_pid == 0) {
		execl(larderfs, "larderfs", "-u", url, "-s", node.control, view, (char *)NULL);
		_exit(127);
	}
	for (unsigned i = 0; i < 200; i++) {
		if (stat(view, &now) == 0 && now.st_dev != before.st_dev)
			break;
		sleep_ms(50);
	}
	sleep_ms(1200);		/* it maps the ledger when it first looks */
}

static int setup(void **state)
{
	char extra[600];

	node_setup(&node, NULL);
	make_maps();
	snprintf(extra, sizeof(extra), "[node]\nreactors = 2\n[ledger]\nbpf = %s\n", bpf);
	snprintf(node.extra, sizeof(node.extra), "%s", extra);
	for (unsigned t = 0; t < TENANTS; t++) {
		snprintf(journal[t].tenant, sizeof(journal[t].tenant), "team-%u", t);
		node_add_tenant(&node, journal[t].tenant,
				"[limits]\nobjects = 24\nover_cap = reject\n");
	}
	node_start(&node);
	start_view();
	start_acct();
	work();
	settle();
	/* the view's copy of the ledger is at most as old as this */
	sleep_ms(600);
	return 0;
}

static int teardown(void **state)
{
	if (acct_pid) {
		kill(acct_pid, SIGKILL);
		waitpid(acct_pid, NULL, 0);
	}
	if (view_pid) {
		kill(view_pid, SIGTERM);
		waitpid(view_pid, NULL, 0);
		(void)umount2(view, MNT_DETACH);	/* where it was killed */
	}
	node_kill(&node);
	if (bpf[0])
		(void)umount2(bpf, MNT_DETACH);
	node_cleanup(&node);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ledger__says_what_the_journals_say),
		cmocka_unit_test(bpftool__says_what_the_journals_say),
		cmocka_unit_test(acct__says_what_the_journals_say),
		cmocka_unit_test(exporter__says_what_the_journals_say),
		cmocka_unit_test(usage_files__say_what_the_journals_say),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
