/* SPDX-License-Identifier: Apache-2.0 */
/* -H host: the same command, run on that host by ssh. */
#ifndef LARDERCTL_REMOTE_H
#define LARDERCTL_REMOTE_H

#include "ctl/ctl.h"

/* @word quoted for a POSIX shell, allocated; NULL: out of memory. */
char *remote_quote(const char *word);
/*
 * The ssh command line: "ssh [-t] -- HOST larderctl GLOBALS argv...", each word behind the host
 * quoted; a NULL-terminated array, both levels allocated. NULL: out of memory.
 */
char **remote_command(const struct ctl *ctl, bool terminal, int argc, char **argv);
void remote_command_free(char **command);
/* Replaces the process; returns an exit code only when that failed (told). */
int remote_exec(const struct ctl *ctl, int argc, char **argv);

#endif
