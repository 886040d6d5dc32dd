/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines of the libraries. A library never writes to a file or a terminal by itself: it hands
 * one finished line (no newline) to the function that its user gave. Levels are syslog's.
 *
 * Thread rules: the function may be called from any thread that works for the library.
 */
#ifndef LARDER_LOG_H
#define LARDER_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

enum larder_log_level {
	LARDER_LOG_ERR = 3,
	LARDER_LOG_WARNING = 4,
	LARDER_LOG_NOTICE = 5,
	LARDER_LOG_INFO = 6,
	LARDER_LOG_DEBUG = 7,
};

struct larder_log {
	void (*line)(void *user, int level, const char *text);	/* NULL: silence */
	void *user;
	int level;		/* lines above this level are not made */
};

#ifdef __cplusplus
}
#endif
#endif
