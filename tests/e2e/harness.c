/* SPDX-License-Identifier: Apache-2.0 */
/* See harness.h. Every wait has a bound; every failure prints the node's log. */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void sleep_ms(unsigned ms)
{
	struct timespec ts = { ms / 1000, (long)(ms % 1000) * 1000000 };

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(close(fd), 0);
}

void node_setup(struct node *n, const char *extra)
{
	uint8_t random[32];
	char path[400];

	memset(n, 0, sizeof(*n));
	snprintf(n->dir, sizeof(n->dir), "%s/larder-e2e.XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert_non_null(mkdtemp(n->dir));
	snprintf(n->memory, sizeof(n->memory), "/dev/shm/%s", strrchr(n->dir, '/') + 1);
	snprintf(n->socket, sizeof(n->socket), "%s/larder.sock", n->dir);
	snprintf(n->control, sizeof(n->control), "%s/control.sock", n->dir);
	snprintf(n->log, sizeof(n->log), "%s/log", n->dir);
	snprintf(n->extra, sizeof(n->extra), "%s", extra ? extra : "");
	assert_int_equal(getrandom(random, sizeof(random), 0), sizeof(random));
	for (unsigned i = 0; i < sizeof(random); i++)
		sprintf(n->secret + 2 * i, "%02x", random[i]);
	snprintf(path, sizeof(path), "%s/tenants.d", n->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/tenants.d/demo.secret", n->dir);
	write_file(path, n->secret, 0400);
	node_add_tenant(n, "demo", NULL);
}

void node_add_tenant(struct node *n, const char *name, const char *lines)
{
	char path[400], text[2000];
	json_t *j;

	snprintf(path, sizeof(path), "%s/tenants.d/%s.conf", n->dir, name);
	snprintf(text, sizeof(text), "[tenant]\nsecret_file = demo.secret\n%s",
		 lines ? lines : "");
	write_file(path, text, 0600);
	if (n->pid <= 0)
		return;
	j = node_control(n, "{\"cmd\":\"reload\"}");
	assert_true(json_is_true(json_object_get(j, "ok")));
	json_decref(j);
}

static void node_write_config(struct node *n)
{
	char text[6000];
	char path[400];

	snprintf(text, sizeof(text),
		 "[memory]\ndir = %s\nsize = 64M\n"
		 "[listen]\ntcp = 127.0.0.1:%d\nshm = %s\n"
		 "[tenants]\ndir = %s/tenants.d\n[state]\ndir = %s/state\n"
		 "[bus]\naddress =\n[control]\nsocket = %s\n%s",
		 n->memory, n->port, n->socket, n->dir, n->dir, n->control, n->extra);
	snprintf(path, sizeof(path), "%s/larderd.conf", n->dir);
	write_file(path, text, 0600);
}

static pid_t node_spawn(struct node *n, char *const more[])
{
	char program[400], config[400];
	char *argv[40] = { program, "--config", config };
	unsigned argc = 3;
	pid_t pid;

	assert_non_null(getenv("BIN"));
	snprintf(program, sizeof(program), "%s/larderd", getenv("BIN"));
	snprintf(config, sizeof(config), "%s/larderd.conf", n->dir);
	for (; more && *more && argc < 39; more++)
		argv[argc++] = *more;
	node_write_config(n);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int fd = open(n->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fd < 0 || dup2(fd, 2) < 0 || dup2(fd, 1) < 0)
			_exit(120);
		execv(program, argv);
		_exit(121);
	}
	return pid;
}

static void node_print_log(const struct node *n)
{
	FILE *f = fopen(n->log, "r");
	char line[512];

	if (!f)
		return;
	while (fgets(line, sizeof(line), f))
		print_error("    node: %s", line);
	fclose(f);
}

/* The log of this start holds "(port N)" and, at its end, "ready". */
static bool node_read_port(struct node *n, long from)
{
	FILE *f = fopen(n->log, "r");
	char line[512];
	bool ready = false;

	if (!f)
		return false;
	fseek(f, from, SEEK_SET);
	while (fgets(line, sizeof(line), f)) {
		char *p = strstr(line, "(port ");

		if (p)
			n->port = atoi(p + 6);
		if (strstr(line, "ready"))
			ready = true;
	}
	fclose(f);
	return ready;
}

void node_launch(struct node *n)
{
	struct stat st;

	n->log_from = stat(n->log, &st) == 0 ? (long)st.st_size : 0;
	n->pid = node_spawn(n, NULL);
}

void node_await(struct node *n)
{
	uint64_t deadline = now_ms() + 120000;	/* gigabytes are taken page by page */

	while (!node_read_port(n, n->log_from)) {
		int status;

		if (waitpid(n->pid, &status, WNOHANG) == n->pid || now_ms() > deadline) {
			node_print_log(n);
			fail_msg("the node did not start");
		}
		sleep_ms(5);
	}
}

void node_start(struct node *n)
{
	node_launch(n);
	node_await(n);
}

int node_start_expect_exit(struct node *n, char *const more[], char *output, size_t size)
{
	struct stat st;
	long from = stat(n->log, &st) == 0 ? (long)st.st_size : 0;
	struct node other = *n;
	int code;

	other.pid = node_spawn(n, more);
	code = node_wait(&other, 20000);
	if (code < 0)
		node_kill(&other);
	if (output) {
		FILE *f = fopen(n->log, "r");
		size_t len = 0;

		if (f) {
			fseek(f, from, SEEK_SET);
			len = fread(output, 1, size - 1, f);
			fclose(f);
		}
		output[len] = 0;
	}
	return code;
}

/* How many threads of it still run, or are about to. */
static unsigned node_not_stopped(const struct node *n)
{
	char path[300], line[256], *state;
	unsigned running = 0;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)n->pid);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d))) {
		FILE *f;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", (int)n->pid, e->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		state = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
		running += state && state[1] && state[2] != 'T';
		fclose(f);
	}
	closedir(d);
	return running;
}

void node_signal(struct node *n, int signal)
{
	uint64_t end = now_ms() + 5000;

	assert_true(n->pid > 0);
	assert_int_equal(kill(n->pid, signal), 0);
	/* microseconds: each thread stops at its next way out of the kernel */
	while (signal == SIGSTOP && node_not_stopped(n) && now_ms() < end)
		;
}

int node_wait(struct node *n, unsigned ms)
{
	uint64_t deadline = now_ms() + ms;
	int status;

	for (;;) {
		pid_t r = waitpid(n->pid, &status, WNOHANG);

		if (r == n->pid) {
			n->pid = 0;
			return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
		}
		if (now_ms() >= deadline)
			return -1;
		sleep_ms(2);
	}
}

void node_stop(struct node *n)
{
	int code;

	node_signal(n, SIGTERM);
	code = node_wait(n, 30000);
	if (code != 0)
		node_print_log(n);
	assert_int_equal(code, 0);
}

void node_kill(struct node *n)
{
	node_signal(n, SIGKILL);
	assert_int_equal(node_wait(n, 30000), 256 + SIGKILL);
}

static void remove_tree(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	char child[600];

	if (!d) {
		unlink(path);
		return;
	}
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(child, sizeof(child), "%s/%s", path, e->d_name);
		remove_tree(child);
	}
	closedir(d);
	rmdir(path);
}

void node_cleanup(struct node *n)
{
	if (n->pid > 0) {
		kill(n->pid, SIGCONT);
		kill(n->pid, SIGKILL);
		(void)waitpid(n->pid, NULL, 0);
		n->pid = 0;
	}
	if (n->dir[0])
		remove_tree(n->dir);
	if (n->memory[0])
		remove_tree(n->memory);
}

const char *node_transport_name(enum node_transport t)
{
	return t == NODE_TCP ? "tcp" : "shm";
}

struct larder_client *node_client_with(struct node *n, enum node_transport t,
				       const struct larder_client_options *given)
{
	struct larder_client_options o = *given;
	struct larder_client *c = NULL;
	char url[400];
	int r;

	if (t == NODE_TCP)
		snprintf(url, sizeof(url), "tcp://127.0.0.1:%d", n->port);
	else
		snprintf(url, sizeof(url), "shm://%s", n->socket);
	o.url = url;
	if (!o.tenant)
		o.tenant = "demo";
	o.secret = n->secret;
	o.secret_len = strlen(n->secret);
	assert_int_equal(larder_open(&o, &c), 0);
	r = larder_ping(c, 10000);
	if (r) {
		node_print_log(n);
		print_error("ping over %s: %s: %s\n", node_transport_name(t),
			    r > 0 ? larder_status_name(r) : strerror(-r), larder_last_error());
	}
	assert_int_equal(r, 0);
	return c;
}

struct larder_client *node_client(struct node *n, enum node_transport t)
{
	struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;

	return node_client_with(n, t, &o);
}

struct larder_client *node_client_as(struct node *n, enum node_transport t, const char *tenant)
{
	struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;

	o.tenant = tenant;
	return node_client_with(n, t, &o);
}

uint32_t node_namespace(struct larder_client *c, const char *name)
{
	uint32_t ns = 0;

	assert_int_equal(larder_ns_open(c, name, NULL, LARDER_NS_CREATE, 10000, &ns), 0);
	return ns;
}

json_t *node_control(struct node *n, const char *line)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char answer[65536];
	size_t len = 0;
	ssize_t got;
	json_t *j;

	assert_true(fd >= 0);
	assert_true(strlen(n->control) < sizeof(a.sun_path));
	strcpy(a.sun_path, n->control);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    dprintf(fd, "%s\n", line) < 0) {
		close(fd);
		return NULL;
	}
	while (len < sizeof(answer) && (got = read(fd, answer + len, sizeof(answer) - len)) > 0) {
		len += (size_t)got;
		if (answer[len - 1] == '\n')
			break;
	}
	close(fd);
	j = json_loadb(answer, len, 0, NULL);
	return j;
}

int64_t node_stat(struct node *n, const char *group, const char *name)
{
	json_t *j = node_control(n, "{\"cmd\":\"stats\"}");
	json_t *v = json_object_get(json_object_get(json_object_get(j, "result"), group), name);
	int64_t r = json_is_integer(v) ? (int64_t)json_integer_value(v) : -1;

	json_decref(j);
	return r;
}

int64_t node_stat_wait(struct node *n, const char *group, const char *name, int64_t value)
{
	uint64_t deadline = now_ms() + 20000;
	int64_t v;

	while ((v = node_stat(n, group, name)) != value && now_ms() < deadline)
		sleep_ms(5);
	return v;
}

uint64_t node_rss_kib(const struct node *n)
{
	char path[64], line[256];
	unsigned long long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)n->pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		(void)sscanf(line, "RssAnon: %llu kB", &kib);
	fclose(f);
	return kib;
}

unsigned node_fds(const struct node *n)
{
	char path[64];
	unsigned count = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)n->pid);
	d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		count++;
	closedir(d);
	return count;
}

static uint64_t pattern_word(uint64_t seed, uint64_t index)
{
	uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

void pattern_fill(void *data, size_t len, uint64_t seed)
{
	uint8_t *p = data;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = pattern_word(seed, i / 8);

		memcpy(p + i, &w, len - i < 8 ? len - i : 8);
	}
}

int64_t pattern_check(const void *data, size_t len, uint64_t seed)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = pattern_word(seed, i / 8);
		size_t n = len - i < 8 ? len - i : 8;

		if (memcmp(p + i, &w, n) != 0)
			for (size_t k = 0; k < n; k++)
				if (p[i + k] != ((uint8_t *)&w)[k])
					return (int64_t)(i + k);
	}
	return -1;
}
