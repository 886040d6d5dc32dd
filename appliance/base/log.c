/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One finished line for the user's function. Names that peers chose end up in lines: control
 * bytes are made visible here, so that nobody forges a second line.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define LOG_LINE_MAX 1024

void log_line(const struct larder_log *log, int level, const char *fmt, ...)
{
	char text[LOG_LINE_MAX];
	va_list ap;
	int n;

	if (!log || !log->line || level > log->level)
		return;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		(void)snprintf(text, sizeof(text), "(a log line that could not be formatted)");
	else if ((size_t)n >= sizeof(text))
		memcpy(text + sizeof(text) - 4, "...", 4);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	log->line(log->user, level, text);
}
