/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: global options everywhere, faults in one line, exit codes; -H. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <fcntl.h>

#include <cmocka.h>

#include <larder/key.h>

#include "ctl/bench.h"
#include "ctl/ctl.h"
#include "ctl/remote.h"
#include "ctl/session.h"

#define WORDS 24

/* A command line that getopt may reorder. */
struct line {
	char *argv[WORDS + 1];
	char *copy[WORDS];
	int argc;
};

static void line_split(struct line *l, const char *text)
{
	char *word, *save = NULL, *copy = strdup(text);

	assert_non_null(copy);
	memset(l, 0, sizeof(*l));
	for (word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		assert_true(l->argc < WORDS);
		l->copy[l->argc] = strdup(word);
		assert_non_null(l->copy[l->argc]);
		l->argv[l->argc] = l->copy[l->argc];
		l->argc++;
	}
	free(copy);
}

static void line_done(struct line *l)
{
	for (int i = 0; i < WORDS; i++)
		free(l->copy[i]);
}

static void clear_environment(void)
{
	static const char *const names[] = {
		"LARDER_URL", "LARDER_TENANT", "LARDER_SECRET_FILE", "LARDER_NS", "LARDER_CONTROL",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(unsetenv(names[i]), 0);
}

static int saved_stdout, saved_stderr;
static FILE *captured;

static void capture_begin(void)
{
	fflush(NULL);
	captured = tmpfile();
	assert_non_null(captured);
	saved_stdout = dup(STDOUT_FILENO);
	saved_stderr = dup(STDERR_FILENO);
	assert_true(saved_stdout >= 0 && saved_stderr >= 0);
	assert_true(dup2(fileno(captured), STDOUT_FILENO) >= 0);
	assert_true(dup2(fileno(captured), STDERR_FILENO) >= 0);
}

static void capture_end(char *text, size_t size)
{
	size_t n;

	fflush(NULL);
	(void)dup2(saved_stdout, STDOUT_FILENO);
	(void)dup2(saved_stderr, STDERR_FILENO);
	close(saved_stdout);
	close(saved_stderr);
	rewind(captured);
	n = fread(text, 1, size - 1, captured);
	text[n] = '\0';
	fclose(captured);
}

/* Runs a whole command line; *@text is all it printed. */
static int run(const char *words, char *text, size_t size)
{
	struct line l;
	int r;

	line_split(&l, words);
	optind = 0;
	capture_begin();
	r = ctl_main(l.argc, l.argv);
	capture_end(text, size);
	line_done(&l);
	return r;
}

static void ctl_init__environment_below_options(void **state)
{
	struct line l;
	struct ctl ctl;

	clear_environment();
	ctl_init(&ctl);
	assert_string_equal(ctl.url, "larder://localhost");
	assert_string_equal(ctl.control, "/run/larder/control.sock");
	assert_null(ctl.tenant);
	assert_int_equal(setenv("LARDER_URL", "tcp://n1:1", 1), 0);
	assert_int_equal(setenv("LARDER_TENANT", "t1", 1), 0);
	assert_int_equal(setenv("LARDER_NS", "", 1), 0);
	ctl_init(&ctl);
	assert_string_equal(ctl.url, "tcp://n1:1");
	assert_string_equal(ctl.tenant, "t1");
	assert_null(ctl.ns);	/* empty is unset */
	line_split(&l, "put --url tcp://n2:2 --json KEY --deadline 250 --ns=a@b");
	optind = 0;
	assert_int_equal(ctl_getopt(&ctl, l.argc, l.argv, "", NULL), -1);
	assert_string_equal(ctl.url, "tcp://n2:2");
	assert_string_equal(ctl.ns, "a@b");
	assert_true(ctl.json);
	assert_int_equal(ctl.deadline_ms, 250);
	assert_int_equal(optind, l.argc - 1);
	assert_string_equal(l.argv[optind], "KEY");
	line_done(&l);
	clear_environment();
}

static void ctl_getopt__own_options_among_global_ones(void **state)
{
	static const struct option own[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "wait", no_argument, NULL, 256 },
		{ 0 },
	};
	struct ctl ctl;
	struct line l;

	ctl_init(&ctl);
	line_split(&l, "get --json --wait -o out --tenant t -- -key");
	optind = 0;
	assert_int_equal(ctl_getopt(&ctl, l.argc, l.argv, "o:", own), 256);
	assert_int_equal(ctl_getopt(&ctl, l.argc, l.argv, "o:", own), 'o');
	assert_string_equal(optarg, "out");
	assert_int_equal(ctl_getopt(&ctl, l.argc, l.argv, "o:", own), -1);
	assert_true(ctl.json);
	assert_string_equal(ctl.tenant, "t");
	assert_string_equal(l.argv[optind], "-key");
	line_done(&l);
}

static void ctl_main__faults_are_usage_and_one_line(void **state)
{
	static const struct { const char *words; const char *told; } cases[] = {
		{ "larderctl", "larderctl: no command" },
		{ "larderctl nonsense", "larderctl: no such command: nonsense" },
		{ "larderctl --nonsense get k", "larderctl: option --nonsense is unknown" },
		{ "larderctl get --nonsense k", "larderctl: get: option --nonsense is unknown" },
		{ "larderctl get -z k", "larderctl: get: option -z is unknown" },
		{ "larderctl get k -o", "larderctl: get: option -o needs a value" },
		{ "larderctl get k --range", "larderctl: get: option --range needs a value" },
		{ "larderctl get", "larderctl: get: wanted one KEY" },
		{ "larderctl get a b", "larderctl: get: wanted one KEY" },
		{ "larderctl get %61", "larderctl: get: %61: not a key" },
		{ "larderctl get k --range 5", "larderctl: get: --range 5: wanted OFF:LEN" },
		{ "larderctl get k --range 5:0", "larderctl: get: --range 5:0: wanted" },
		{ "larderctl put", "larderctl: put: wanted KEY" },
		{ "larderctl put ~h00000000000000000000000000000000", "larderctl: put: ~h" },
		{ "larderctl put k --ttl 0.00001 -", "larderctl: put: --ttl" },
		{ "larderctl exists", "larderctl: exists: wanted KEY" },
		{ "larderctl ls a b", "larderctl: ls: wanted at most one PREFIX" },
		{ "larderctl --deadline 0 ping", "larderctl: --deadline 0: out of range" },
		{ "larderctl ping --deadline x", "larderctl: --deadline x: not a number" },
		{ "larderctl ns nonsense", "larderctl: ns nonsense: wanted one of ls, create" },
		{ "larderctl ns create", "larderctl: ns: create: wanted one NAME" },
		{ "larderctl ns show x --tp 2", "larderctl: ns: an option that show" },
		{ "larderctl ns create x --tp -1", "larderctl: tp -1: not a number" },
		{ "larderctl bench", "larderctl: bench: wanted one of" },
		{ "larderctl bench fly", "larderctl: bench fly: wanted one of get, put, exists" },
		{ "larderctl bench exists --checks off", "larderctl: bench: --checks is" },
		{ "larderctl bench get --size 0", "larderctl: --size 0: out of range" },
		{ "larderctl replay", "larderctl: replay: wanted one TRACE" },
		{ "larderctl replay x --pages 5", "larderctl: replay: --pages and the like" },
		{ "larderctl replay x --mode odd", "larderctl: --mode odd: wanted one of exact" },
		{ "larderctl trace-gen --json", "larderctl: trace-gen: --json wants -o FILE" },
		{ "larderctl drain --undo --wait", "larderctl: drain: --undo and --wait" },
		{ "larderctl stats extra", "larderctl: stats: takes no argument" },
		{ "larderctl -H host get k", "larderctl: get: not with -H" },
		{ "larderctl get k -H host", "larderctl: get: not with -H" },
		{ "larderctl -H -oProxyCommand=x stats", "larderctl: -H -oProxyCommand=x: not" },
		{ "larderctl stats -H", "larderctl: stats: option -H needs a value" },
		{ "larderctl get k", "larderctl: no tenant" },
		{ "larderctl --tenant t get k", "larderctl: no secret" },
		{ "larderctl --tenant t --secret-file /nowhere get k", "larderctl: /nowhere: No" },
	};

	clear_environment();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[2048];
		int r = run(cases[i].words, text, sizeof(text));

		if (r != CTL_USAGE || strncmp(text, cases[i].told, strlen(cases[i].told)) ||
		    strchr(text, '\n') != text + strlen(text) - 1)
			fail_msg("%s: exit %d, \"%s\"", cases[i].words, r, text);
	}
}

static void ctl_main__help_and_version(void **state)
{
	static const char *const commands[] = {
		"put", "get", "exists", "stat", "ls", "rm", "pin", "unpin", "ns", "ping", "stats",
		"top", "drain", "undrain", "reload", "replay", "trace-gen", "bench", "help",
	};
	char all[8192], text[8192], words[64];

	assert_int_equal(run("larderctl help", all, sizeof(all)), CTL_DONE);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		assert_non_null(strstr(all, commands[i]));
		assert_non_null(ctl_command_find(commands[i]));
		(void)snprintf(words, sizeof(words), "larderctl %s --help", commands[i]);
		assert_int_equal(run(words, text, sizeof(text)), CTL_DONE);
		assert_non_null(strstr(text, commands[i]));
	}
	assert_int_equal(run("larderctl --help", text, sizeof(text)), CTL_DONE);
	assert_string_equal(text, all);
	assert_int_equal(run("larderctl --version", text, sizeof(text)), CTL_DONE);
	assert_string_equal(text, "larderctl " LARDER_VERSION "\n");
	assert_int_equal(run("larderctl help nonsense", text, sizeof(text)), CTL_USAGE);
}

/* @path as one text without backslashes, which roff puts before each dash; NULL: not there. */
static char *slurp(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL, *out;
	size_t len = 0;

	if (!f)
		return NULL;
	assert_int_equal(util_read_all(fileno(f), 1 << 20, (void **)&text, &len), 0);
	assert_int_equal(fclose(f), 0);
	text = realloc(text, len + 1);
	assert_non_null(text);
	out = text;
	for (size_t i = 0; i < len; i++)
		if (text[i] != '\\')
			*out++ = text[i];
	*out = '\0';
	return text;
}

static void help__manual_and_completion_know_every_option(void **state)
{
	static const char *const commands[] = {
		"", "put", "get", "ls", "rm", "pin", "ns", "ping", "top", "drain", "replay",
		"trace-gen", "bench",
	};
	char *man = slurp("packaging/man/larderctl.1");
	char *completion = slurp("packaging/completions/larderctl");
	unsigned n = 0;

	if (!man || !completion) {
		free(man);
		free(completion);
		printf("skipped: not run from the root of the tree\n");
		skip();
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		char text[8192], words[64], *at = text;

		(void)snprintf(words, sizeof(words), "larderctl help %s", commands[i]);
		assert_int_equal(run(words, text, sizeof(text)), CTL_DONE);
		while ((at = strstr(at, "--"))) {
			size_t len = 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
			char option[64];

			(void)snprintf(option, sizeof(option), "%.*s", (int)len, at);
			at += len;
			n++;
			if (!strstr(man, option) || !strstr(completion, option))
				fail_msg("%s %s: not in the manual or the completion", commands[i],
					 option);
		}
	}
	assert_true(n > 60);
	free(man);
	free(completion);
}

static void ctl_main__unreachable_and_missing(void **state)
{
	char text[1024];

	assert_int_equal(run("larderctl --control /nowhere/c.sock stats", text, sizeof(text)),
			 CTL_UNREACHABLE);
	assert_non_null(strstr(text, "is larderd running?"));
	assert_int_equal(run("larderctl replay --in-process /nowhere/t.jsonl", text, sizeof(text)),
			 CTL_NOT_FOUND);
	assert_int_equal(run("larderctl replay --in-process /dev/null", text, sizeof(text)),
			 CTL_FAILED);
	assert_non_null(strstr(text, "no requests"));
}

static void ctl_take_host__leaves_the_rest(void **state)
{
	static const struct { const char *words, *rest; } cases[] = {
		{ "top -H n1 --json", "top --json" }, { "top -Hn1 --json", "top --json" },
		{ "top --host=n1", "top" }, { "top -n 1 --host n1", "top -n 1" },
		{ "top", "top" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char rest[64] = "";
		struct ctl ctl = { 0 };
		struct line l;

		line_split(&l, cases[i].words);
		assert_int_equal(ctl_take_host(&ctl, &l.argc, l.argv), CTL_DONE);
		for (int k = 0; k < l.argc; k++) {
			strcat(rest, k ? " " : "");
			strcat(rest, l.argv[k]);
		}
		assert_string_equal(rest, cases[i].rest);
		if (strcmp(cases[i].words, "top"))
			assert_string_equal(ctl.host, "n1");
		else
			assert_null(ctl.host);
		line_done(&l);
	}
}

static void remote_quote__a_shell_gives_the_word_back(void **state)
{
	static const char *const words[] = {
		"plain-1.0", "", "two words", "it's", "$(reboot)", "a;b", "\"\\`", "*", "''", "-n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		char command[256], back[64] = "";
		char *quoted = remote_quote(words[i]);
		FILE *f;
		size_t n;

		assert_non_null(quoted);
		(void)snprintf(command, sizeof(command), "printf '<%%s>' %s", quoted);
		free(quoted);
		f = popen(command, "r");
		assert_non_null(f);
		n = fread(back, 1, sizeof(back) - 1, f);
		assert_int_equal(pclose(f), 0);
		assert_true(n >= 2);
		assert_int_equal(back[0], '<');
		assert_int_equal(back[n - 1], '>');
		back[n - 1] = '\0';
		assert_string_equal(back + 1, words[i]);
	}
}

static void remote_command__words(void **state)
{
	struct ctl ctl = { .host = "n1", .json = true, .deadline_ms = 50, .control = "/a b",
			   .control_given = true };
	char *argv[] = { "top", "-d", "2 s", NULL };
	static const char *const want[] = {
		"ssh", "-t", "--", "n1", "larderctl", "--json", "--control", "'/a b'", "--deadline",
		"50", "top", "-d", "'2 s'",
	};
	char **command = remote_command(&ctl, true, 3, argv);

	assert_non_null(command);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_string_equal(command[i], want[i]);
	assert_null(command[ARRAY_SIZE(want)]);
	remote_command_free(command);
}

static void session_read_secret__newline_and_limits(void **state)
{
	char path[] = "/tmp/larder-secret-XXXXXX", text[SESSION_SECRET_MAX + 3];
	unsigned char secret[SESSION_SECRET_MAX];
	static const struct { size_t len; bool newline; int r; size_t got; } cases[] = {
		{ 5, true, 0, 5 }, { 5, false, 0, 5 }, { 0, true, -EINVAL, 0 },
		{ 0, false, -EINVAL, 0 }, { SESSION_SECRET_MAX, true, 0, SESSION_SECRET_MAX },
		{ SESSION_SECRET_MAX + 1, false, -EINVAL, 0 },
		{ SESSION_SECRET_MAX + 1, true, -EINVAL, 0 },
	};
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t len = 0;

		memset(text, 's', sizeof(text));
		if (cases[i].newline)
			text[cases[i].len] = '\n';
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_true(pwrite(fd, text, cases[i].len + cases[i].newline, 0) >= 0);
		assert_int_equal(session_read_secret(path, secret, &len), cases[i].r);
		assert_int_equal(len, cases[i].got);
	}
	assert_int_equal(session_read_secret("/nowhere", secret, &(size_t){ 0 }), -ENOENT);
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlink(path), 0);
}

static void session_key_parse__spellings(void **state)
{
	struct session_key key;

	assert_int_equal(session_key_parse("get", "a%2Fb", true, &key), 0);
	assert_int_equal(key.len, 3);
	assert_memory_equal(key.bytes, "a/b", 3);
	assert_int_equal(key.flags, 0);
	assert_int_equal(session_key_parse("get", "~x00ff", true, &key), 0);
	assert_int_equal(key.len, 2);
	assert_int_equal(session_key_parse("get", "~h00112233445566778899aabbccddeeff", false,
					   &key), 0);
	assert_int_equal(key.len, LARDER_KEY_HASH_SIZE);
	assert_int_equal(key.flags, LARDER_F_BY_HASH);
}

static void bench_due__workers_interleave(void **state)
{
	/* three workers, 300 batches a second: one every 3.33 ms, each worker every 10 */
	uint64_t last = 0;

	assert_int_equal(bench_due_ns(300, 3, 0, 0), 0);
	assert_int_equal(bench_due_ns(300, 3, 0, 1), 10000000);
	for (uint64_t k = 0; k < 300; k++)
		for (uint32_t w = 0; w < 3; w++) {
			uint64_t at = bench_due_ns(300, 3, w, k);

			if (k || w) {
				assert_true(at > last);
				assert_in_range(at - last, 3333332, 3333334);
			}
			last = at;
		}
	assert_int_equal(bench_due_ns(300, 3, 0, 100), 1000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ctl_init__environment_below_options),
		cmocka_unit_test(ctl_getopt__own_options_among_global_ones),
		cmocka_unit_test(ctl_main__faults_are_usage_and_one_line),
		cmocka_unit_test(ctl_main__help_and_version),
		cmocka_unit_test(help__manual_and_completion_know_every_option),
		cmocka_unit_test(ctl_main__unreachable_and_missing),
		cmocka_unit_test(ctl_take_host__leaves_the_rest),
		cmocka_unit_test(remote_quote__a_shell_gives_the_word_back),
		cmocka_unit_test(remote_command__words),
		cmocka_unit_test(session_read_secret__newline_and_limits),
		cmocka_unit_test(session_key_parse__spellings),
		cmocka_unit_test(bench_due__workers_interleave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
