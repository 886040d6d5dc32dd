/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static uint64_t process_ns(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);	/* can not fail for these clocks */
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t process_monotonic_ns(void)
{
	return process_ns(CLOCK_MONOTONIC);
}

static uint64_t process_wall_ms(void)
{
	return process_ns(CLOCK_REALTIME) / NSEC_PER_MSEC;
}

const struct process_clock process_clock = { process_monotonic_ns, process_wall_ms };

static void process_line(void *user, int level, const char *text)
{
	char line[2048];
	int n;

	if (user)
		n = snprintf(line, sizeof(line), "<%d>%s\n", level, text);
	else
		n = snprintf(line, sizeof(line), "larderfs: %s%s\n",
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

struct larder_log process_log;

void process_log_init(int level)
{
	process_log.line = process_line;
	process_log.user = getenv("JOURNAL_STREAM") ? (void *)"journal" : NULL;
	process_log.level = level;
}

void process_say(int level, const char *fmt, ...)
{
	char text[1536];
	va_list ap;

	if (!process_log.line || level > process_log.level)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	process_log.line(process_log.user, level, text);
}
