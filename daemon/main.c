/* SPDX-License-Identifier: Apache-2.0 */
/* larderd: arguments, checked completely; then start, loop, stop; one way out. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon.h"
#include "say.h"

#define DEFAULT_CONFIG "/etc/larder/larderd.conf"

static void usage(FILE *f)
{
	fputs("larderd " LARDER_VERSION ": the node\n\n"
	      "  larderd [-c FILE] [--set SECTION.KEY=VALUE]...\n\n"
	      "  -c, --config FILE   configuration (default " DEFAULT_CONFIG
	      ", and FILE.d/*.conf)\n"
	      "      --set ASSIGNMENT  one setting, over the files; may be repeated\n"
	      "      --check         read the configuration and the tenants, and stop\n"
	      "      --dump-config   print every setting and where it came from\n"
	      "      --dump-man      print the settings as man page source\n"
	      "      --dump-man-limits  the same of the limits of tenants\n"
	      "  -h, --help          this text\n"
	      "      --version\n\n"
	      "Exit codes:\n", f);
#define EXIT_CODE_LINE(name, code, text) fprintf(f, "  %2d  %s\n", code, text);
	EXIT_CODE_TABLE(EXIT_CODE_LINE)
#undef EXIT_CODE_LINE
}

enum { OPT_SET = 256, OPT_CHECK, OPT_DUMP, OPT_MAN, OPT_MAN_LIMITS, OPT_VERSION };

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' }, { "set", required_argument, NULL, OPT_SET },
	{ "check", no_argument, NULL, OPT_CHECK },  { "dump-config", no_argument, NULL, OPT_DUMP },
	{ "dump-man", no_argument, NULL, OPT_MAN },
	{ "dump-man-limits", no_argument, NULL, OPT_MAN_LIMITS },
	{ "help", no_argument, NULL, 'h' },	    { "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

/* -1 = go on; else the exit code. */
static int parse(int argc, char **argv, struct daemon_arguments *a)
{
	int o;

	while ((o = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		switch (o) {
		case 'c':
			a->config_path = optarg;
			a->config_required = true;
			break;
		case OPT_SET:
			if (a->n_set == DAEMON_SET_MAX) {
				fprintf(stderr, "larderd: more than %d --set\n", DAEMON_SET_MAX);
				return LARDERD_EXIT_USAGE;
			}
			a->set[a->n_set++] = optarg;
			break;
		case OPT_CHECK:
			a->check = true;
			break;
		case OPT_DUMP:
			a->dump_config = true;
			break;
		case OPT_MAN:
			a->dump_man = true;
			break;
		case OPT_MAN_LIMITS:
			a->dump_man_limits = true;
			break;
		case OPT_VERSION:
			puts("larderd " LARDER_VERSION);
			return LARDERD_EXIT_OK;
		case 'h':
			usage(stdout);
			return LARDERD_EXIT_OK;
		default:
			return LARDERD_EXIT_USAGE;
		}
	}
	if (optind != argc) {
		fprintf(stderr, "larderd: %s: no arguments are taken, see --help\n", argv[optind]);
		return LARDERD_EXIT_USAGE;
	}
	return -1;
}

static int run(struct daemon *d)
{
	const struct daemon_arguments *a = d->arguments;
	sigset_t blocked;
	int r, n;

	if (a->dump_man) {
		config_man(stdout);
		return LARDERD_EXIT_OK;
	}
	if (a->dump_man_limits) {
		config_man_limits(stdout);
		return LARDERD_EXIT_OK;
	}
	r = daemon_read_config(a, &d->config);
	if (r) {
		say(&d->log, LARDER_LOG_ERR, "%s", d->config.error);
		return LARDERD_EXIT_CONFIG;
	}
	d->log.level = config_log_level(config_string(&d->config, CONFIG_log_level));
	if (a->dump_config)
		config_dump(&d->config, stdout);
	if (a->check) {
		r = daemon_check(d);
		if (r != LARDERD_EXIT_OK)
			return r;
		r = daemon_check_tenants(d, &n);
		if (r != LARDERD_EXIT_OK)
			return r;
		printf("larderd: the configuration is good, %d tenants\n", n);
	}
	if (a->check || a->dump_config)
		return LARDERD_EXIT_OK;

	/* the control loop takes signals; every thread made from here on inherits this mask */
	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGTERM);
	(void)sigaddset(&blocked, SIGINT);
	(void)sigaddset(&blocked, SIGHUP);
	(void)sigaddset(&blocked, SIGPIPE);
	r = -pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	if (r) {
		say(&d->log, LARDER_LOG_ERR, "signals can not be blocked: %s", strerror(-r));
		return LARDERD_EXIT_INTERNAL;
	}
	r = daemon_start(d);
	if (r == LARDERD_EXIT_OK && !d->stopping)
		r = daemon_loop(d);
	daemon_stop(d);
	return r;
}

int main(int argc, char **argv)
{
	struct daemon_arguments arguments = { .config_path = DEFAULT_CONFIG };
	struct daemon daemon = { .arguments = &arguments };
	int r = parse(argc, argv, &arguments);

	if (r >= 0)
		return r;
	(void)umask(0077);
	say_to_stderr(&daemon.log, LARDER_LOG_INFO);
	r = run(&daemon);
	config_done(&daemon.config);
	if (fflush(stdout) == EOF) {
		say(&daemon.log, LARDER_LOG_ERR, "can not write the output: %s", strerror(errno));
		r = r ? r : LARDERD_EXIT_INTERNAL;
	}
	return r;
}
