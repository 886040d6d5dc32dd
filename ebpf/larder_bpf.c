/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder-bpf: the privileged half of the ledger in BPF maps. It runs before larderd, makes what
 * larderd maps, and ends. What it has to know of the settings it asks larderd for, which is the one
 * that reads them.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "pins.h"

#define BPF_ARGUMENTS 32

enum bpf_exit { BPF_DONE, BPF_FAILED, BPF_USAGE };

struct bpf_options {
	const char *config[BPF_ARGUMENTS + 1];	/* what larderd is given, too */
	unsigned n_config;
	const char *user, *group;
	char dir[PINS_PATH];
	unsigned long reactors;		/* 0: larderd tells */
};

static void bpf_help(FILE *f)
{
	fputs("larder-bpf " LARDER_VERSION ": the ledger's BPF maps\n\n"
	      "  larder-bpf [OPTIONS] load     mount, create and pin what larderd counts in\n"
	      "  larder-bpf [OPTIONS] unload   remove it\n"
	      "  larder-bpf [OPTIONS] status   tell what is there\n\n"
	      "  -c, --config FILE      larderd's settings, as larderd -c\n"
	      "      --set ASSIGNMENT   as larderd --set; may be repeated\n"
	      "      --dir DIR          where to pin (default: the setting ledger.bpf)\n"
	      "      --reactors N       for how many (default: the setting node.reactors)\n"
	      "      --user USER        whom larderd runs as (default larder if there is one)\n"
	      "      --group GROUP      who may read (default larder if there is one)\n"
	      "  -h, --help             this text\n"
	      "      --version\n\n"
	      "Exit codes: 0 done, 1 it could not be (a line says why), 2 wrong arguments\n", f);
}

/* --- the settings ---------------------------------------------------------------------------- */

static void bpf_take_setting(struct bpf_options *o, const char *section, char *line)
{
	char *value = strstr(line, " = "), *end = strrchr(line, ';');

	if (!value || !end)
		return;
	*value = '\0';
	value += strlen(" = ");
	while (end > value && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	if (!strcmp(section, "ledger") && !strcmp(line, "bpf") && !o->dir[0])
		(void)snprintf(o->dir, sizeof(o->dir), "%s", value);
	if (!strcmp(section, "node") && !strcmp(line, "reactors") && !o->reactors)
		o->reactors = strtoul(value, NULL, 10);
}

static void bpf_read_settings(struct bpf_options *o, FILE *f)
{
	char line[PINS_PATH + 256], section[64] = "";

	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '[')
			(void)sscanf(line, "[%63[^]]", section);
		else
			bpf_take_setting(o, section, line);
	}
}

/* larderd is beside this program, wherever that was put. */
static int bpf_larderd(char path[PINS_PATH])
{
	char self[PINS_PATH - 16];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return -errno;
	self[n] = '\0';
	(void)snprintf(path, PINS_PATH, "%s/larderd", dirname(self));
	return 0;
}

static int bpf_ask_larderd(struct bpf_options *o)
{
	char path[PINS_PATH];
	int pipes[2], status;
	pid_t pid;
	FILE *f;

	if (bpf_larderd(path) < 0 || pipe(pipes) < 0) {
		pins_say("larderd can not be asked: %s", strerror(errno));
		return -1;
	}
	pid = fork();
	if (pid == 0) {
		const char *argv[BPF_ARGUMENTS + 3] = { path };

		memcpy(argv + 1, o->config, o->n_config * sizeof(*argv));
		argv[o->n_config + 1] = "--dump-config";
		if (dup2(pipes[1], STDOUT_FILENO) >= 0)
			(void)execv(path, (char *const *)argv);
		_exit(127);
	}
	(void)close(pipes[1]);	/* the child's end */
	f = pid < 0 ? NULL : fdopen(pipes[0], "r");
	if (f) {
		bpf_read_settings(o, f);
		(void)fclose(f);	/* only read */
	} else {
		(void)close(pipes[0]);	/* nobody reads it */
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0) {
		pins_say("%s --dump-config did not tell the settings: give --dir and --reactors",
			 path);
		return -1;
	}
	return 0;
}

/* --- whom it is for -------------------------------------------------------------------------- */

static int bpf_find_user(const struct bpf_options *o, struct pins *p)
{
	const struct passwd *user = getpwnam(o->user ? o->user : "larder");
	const struct group *group = getgrnam(o->group ? o->group : "larder");

	if (!user && o->user) {
		pins_say("--user %s: there is no such user", o->user);
		return -1;
	}
	if (!group && o->group) {
		pins_say("--group %s: there is no such group", o->group);
		return -1;
	}
	/* without them larderd runs as root, and so may who reads */
	p->uid = user ? user->pw_uid : 0;
	p->gid = group ? group->gr_gid : 0;
	return 0;
}

static int bpf_prepare(struct bpf_options *o, struct pins *p)
{
	if ((!o->dir[0] || !o->reactors) && bpf_ask_larderd(o) < 0)
		return -1;
	if (!o->dir[0]) {
		pins_say("ledger.bpf is empty: the node shall not count in BPF maps");
		return 1;
	}
	if (o->reactors < 1 || o->reactors >= LARDER_LEDGER_WRITERS_MAX) {
		pins_say("%lu reactors: wanted 1 to %u", o->reactors,
			 LARDER_LEDGER_WRITERS_MAX - 1);
		return -1;
	}
	*p = (struct pins){ .dir = o->dir, .writers = (uint32_t)o->reactors + 1 };
	return bpf_find_user(o, p);
}

/* --- arguments ------------------------------------------------------------------------------- */

enum { OPT_SET = 256, OPT_DIR, OPT_REACTORS, OPT_USER, OPT_GROUP, OPT_VERSION };

static const struct option bpf_long[] = {
	{ "config", required_argument, NULL, 'c' }, { "set", required_argument, NULL, OPT_SET },
	{ "dir", required_argument, NULL, OPT_DIR },
	{ "reactors", required_argument, NULL, OPT_REACTORS },
	{ "user", required_argument, NULL, OPT_USER },
	{ "group", required_argument, NULL, OPT_GROUP },
	{ "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static int bpf_option(struct bpf_options *o, int c)
{
	char *end;

	switch (c) {
	case 'c':
	case OPT_SET:
		if (o->n_config + 2 > BPF_ARGUMENTS) {
			pins_say("too many settings");
			return BPF_USAGE;
		}
		o->config[o->n_config++] = c == 'c' ? "--config" : "--set";
		o->config[o->n_config++] = optarg;
		return -1;
	case OPT_DIR:
		if ((size_t)snprintf(o->dir, sizeof(o->dir), "%s", optarg) >=
		    sizeof(o->dir) - 64) {
			pins_say("--dir: too long");
			return BPF_USAGE;
		}
		return -1;
	case OPT_REACTORS:
		o->reactors = strtoul(optarg, &end, 10);
		if (*end || !o->reactors) {
			pins_say("--reactors %s: wanted a number", optarg);
			return BPF_USAGE;
		}
		return -1;
	case OPT_USER:
		o->user = optarg;
		return -1;
	case OPT_GROUP:
		o->group = optarg;
		return -1;
	case OPT_VERSION:
		puts("larder-bpf " LARDER_VERSION);
		return BPF_DONE;
	case 'h':
		bpf_help(stdout);
		return BPF_DONE;
	default:
		return BPF_USAGE;
	}
}

/* A libbpf line says less than ours, which follows it. */
static int bpf_silence(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const struct pins *p);
	} verbs[] = {
		{ "load", pins_load }, { "unload", pins_unload }, { "status", pins_status },
	};
	struct bpf_options o = { .n_config = 0 };
	struct pins p;
	int c, r;

	while ((c = getopt_long(argc, argv, "c:h", bpf_long, NULL)) != -1) {
		r = bpf_option(&o, c);
		if (r >= 0)
			return r;
	}
	(void)umask(0077);
	(void)libbpf_set_print(bpf_silence);
	for (unsigned i = 0; optind + 1 == argc && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(argv[optind], verbs[i].name) != 0)
			continue;
		r = bpf_prepare(&o, &p);
		if (r == 0)
			r = verbs[i].run(&p);
		return r < 0 ? BPF_FAILED : BPF_DONE;
	}
	pins_say("wanted load, unload or status; see --help");
	return BPF_USAGE;
}
