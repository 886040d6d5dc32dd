/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where log lines go. Under systemd stderr is the journal (JOURNAL_STREAM is set) and each line
 * begins with "<level>", which the journal takes off again; on a terminal or in a file lines stand
 * as they are. A line is written with one write, so that threads never mix theirs.
 */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static __thread struct { char *text; size_t size; } say_copy;

void say_capture(char *text, size_t size)
{
	say_copy.text = size ? text : NULL;
	say_copy.size = size;
	if (say_copy.text)
		text[0] = '\0';
}

static void say_line(void *user, int level, const char *text)
{
	const char *prefix = user;
	char line[2048];
	int n;

	if (say_copy.text && level <= LARDER_LOG_WARNING) {
		(void)snprintf(say_copy.text, say_copy.size, "%s", text);
		say_copy.text = NULL;
	}
	if (prefix)
		n = snprintf(line, sizeof(line), "<%d>%s\n", level, text);
	else
		n = snprintf(line, sizeof(line), "larderd: %s%s\n",
			     level <= LARDER_LOG_ERR ? "error: " :
			     level == LARDER_LOG_WARNING ? "warning: " : "", text);
	if (n < 0)
		return;
	if ((size_t)n >= sizeof(line)) {
		n = sizeof(line) - 1;
		line[n - 1] = '\n';
	}
	while (write(STDERR_FILENO, line, (size_t)n) < 0 && errno == EINTR)
		;
	/* any other failure: nowhere is left to complain */
}

void say_to_stderr(struct larder_log *log, int level)
{
	log->line = say_line;
	log->user = getenv("JOURNAL_STREAM") ? (void *)"journal" : NULL;
	log->level = level;
}

void say(const struct larder_log *log, int level, const char *fmt, ...)
{
	char text[1536];
	va_list ap;

	if (!log->line || level > log->level)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log->line(log->user, level, text);
}
