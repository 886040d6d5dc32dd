/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's own log lines: to stderr, with the journal's level prefix when it is the journal. */
#ifndef LARDER_DAEMON_SAY_H
#define LARDER_DAEMON_SAY_H

#include <stddef.h>

#include <larder/log.h>

/*
 * The first warning or error that this thread says from now on is also copied to @text; NULL: no
 * more. For calls of the node that tell what is wrong by a line.
 */
void say_capture(char *text, size_t size);
/* One line to @log, printf-like; level as syslog's. */
void say(const struct larder_log *log, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A log that writes to stderr. Set .level. */
void say_to_stderr(struct larder_log *log, int level);

#endif
