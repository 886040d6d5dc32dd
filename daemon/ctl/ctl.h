/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of larderctl share: the global options, the commands' names, how an option is
 * taken and how a failure is told.
 *
 * A command is int command(struct ctl *, argc, argv) with argv[0] its own name; it returns the exit
 * code of the program: 0 done, 1 not found, 2 usage, 3 refused, 4 unreachable, 5 failed. Whoever
 * finds a fault tells it, once, on standard error: "larderctl: WHAT: WHY (STATUS)".
 */
#ifndef LARDERCTL_CTL_H
#define LARDERCTL_CTL_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/util.h"

enum ctl_exit {
	CTL_DONE = 0,
	CTL_NOT_FOUND = 1,
	CTL_USAGE = 2,
	CTL_REFUSED = 3,
	CTL_UNREACHABLE = 4,
	CTL_FAILED = 5,
};

/* Options that every command takes; texts belong to argv, the environment or the program. */
struct ctl {
	const char *url;
	const char *tenant;
	bool tenant_given, ns_given;	/* by an option, not by the environment */
	const char *secret_file;
	const char *ns;		/* NULL: the command's own default */
	const char *host;	/* -H: administer that host over ssh */
	const char *control;
	bool control_given;	/* by an option, not by this machine's environment */
	uint32_t deadline_ms;	/* 0: the library's default */
	bool json;
	bool verbose;		/* -v: the library's log lines to standard error */
	bool help;		/* -h was among a command's options */
};

struct ctl_command {
	const char *name;
	int (*run)(struct ctl *ctl, int argc, char **argv);
	const char *arguments;	/* "KEY [FILE|-]" */
	const char *summary;	/* one line */
	const char *options;	/* its own options, one a line; NULL: none */
	bool admin;		/* may be sent to another host with -H */
};

/* The program: options, command, arguments. The exit code. Changes the order of @argv. */
int ctl_main(int argc, char **argv);
/* The table in commands.c; NULL when there is no such command. */
const struct ctl_command *ctl_command_find(const char *name);

/* Defaults, then LARDER_* of the environment. */
void ctl_init(struct ctl *ctl);

/*
 * The next of a command's options, as getopt_long(3), with the global ones taken out on the way:
 * their values land in @ctl. @own ends with a zero entry (long options; the short ones are in
 * @own_short; values of long-only options are 256 to 999). Returns the option, -1 at the end, '?'
 * after having told what is wrong with the command line. Begin with optind = 0.
 */
int ctl_getopt(struct ctl *ctl, int argc, char **argv, const char *own_short,
	       const struct option *own);
/*
 * Takes -H HOST out of a command's words, wherever it stands, so that what is sent to that host is
 * the rest. Only then are they parsed: a command never does here what was meant for there.
 */
int ctl_take_host(struct ctl *ctl, int *argc, char **argv);
/* As ctl_getopt for the words before the command's name: stops there. Also 'H' and 'V'. */
int ctl_getopt_global(struct ctl *ctl, int argc, char **argv);

/* Prints how @command is used to standard output (help) or one line to standard error. */
int ctl_help(const struct ctl_command *command);
int ctl_usage(const char *command, const char *fmt, ...) _printf_(2, 3);

/* Tells a failure that is no status; returns @code. */
int ctl_fail(enum ctl_exit code, const char *fmt, ...) _printf_(2, 3);
/*
 * Tells the outcome of a library call: @r is 0, a positive status or -errno. Returns the exit code
 * that belongs to it; says nothing when @r is OK or EXISTS_SAME.
 */
int ctl_result(int r, const char *fmt, ...) _printf_(2, 3);

/* What the library has to say about this thread's last failure beyond the status; may be empty. */
const char *ctl_detail(int r);

/* Parse an option's value; on a mistake tell it and return CTL_USAGE. */
int ctl_take_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *ret);
int ctl_take_size(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *ret);
int ctl_take_real(const char *name, const char *text, double *ret);
int ctl_take_duration(const char *name, const char *text, uint64_t *ret_ns);
/* The place of @text in @words, which ends with NULL. */
int ctl_take_word(const char *name, const char *text, const char *const *words, int *ret);

/* Commands, by file. */
int cmd_put(struct ctl *ctl, int argc, char **argv);		/* cmd_transfer.c */
int cmd_get(struct ctl *ctl, int argc, char **argv);
int cmd_exists(struct ctl *ctl, int argc, char **argv);		/* cmd_object.c */
int cmd_stat(struct ctl *ctl, int argc, char **argv);
int cmd_ls(struct ctl *ctl, int argc, char **argv);
int cmd_pin(struct ctl *ctl, int argc, char **argv);
int cmd_unpin(struct ctl *ctl, int argc, char **argv);
int cmd_rm(struct ctl *ctl, int argc, char **argv);		/* cmd_rm.c */
int cmd_ping(struct ctl *ctl, int argc, char **argv);		/* cmd_ping.c */
int cmd_ns(struct ctl *ctl, int argc, char **argv);		/* cmd_ns.c */
int cmd_stats(struct ctl *ctl, int argc, char **argv);		/* cmd_stats.c */
int cmd_drain(struct ctl *ctl, int argc, char **argv);		/* cmd_admin.c */
int cmd_undrain(struct ctl *ctl, int argc, char **argv);
int cmd_reload(struct ctl *ctl, int argc, char **argv);
int cmd_quota(struct ctl *ctl, int argc, char **argv);		/* cmd_quota.c */
int cmd_tenant(struct ctl *ctl, int argc, char **argv);		/* cmd_tenant.c */
int cmd_connections(struct ctl *ctl, int argc, char **argv);	/* cmd_connections.c */
int cmd_why(struct ctl *ctl, int argc, char **argv);		/* cmd_why.c */
int cmd_top(struct ctl *ctl, int argc, char **argv);		/* cmd_top.c */
int cmd_replay(struct ctl *ctl, int argc, char **argv);		/* cmd_replay.c */
int cmd_trace_gen(struct ctl *ctl, int argc, char **argv);	/* cmd_trace_gen.c */
int cmd_bench(struct ctl *ctl, int argc, char **argv);		/* cmd_bench.c */
int cmd_help(struct ctl *ctl, int argc, char **argv);		/* commands.c */

#endif
