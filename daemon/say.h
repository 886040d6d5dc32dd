/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's own log lines: to stderr, with the journal's level prefix when it is the journal. */
#ifndef LARDER_DAEMON_SAY_H
#define LARDER_DAEMON_SAY_H

#include <larder/log.h>

/* One line to @log, printf-like; level as syslog's. */
void say(const struct larder_log *log, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A log that writes to stderr. Set .level. */
void say_to_stderr(struct larder_log *log, int level);

#endif
