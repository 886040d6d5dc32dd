/* SPDX-License-Identifier: Apache-2.0 */
/* printf in front of a struct larder_log. NULL log: silence. */
#ifndef LARDER_BASE_LOG_H
#define LARDER_BASE_LOG_H

#include <larder/log.h>

#include "base/compiler.h"

void log_line(const struct larder_log *log, int level, const char *fmt, ...) _printf_(3, 4);

#define log_err(log, ...) log_line(log, LARDER_LOG_ERR, __VA_ARGS__)
#define log_warning(log, ...) log_line(log, LARDER_LOG_WARNING, __VA_ARGS__)
#define log_notice(log, ...) log_line(log, LARDER_LOG_NOTICE, __VA_ARGS__)
#define log_info(log, ...) log_line(log, LARDER_LOG_INFO, __VA_ARGS__)
#define log_debug(log, ...) log_line(log, LARDER_LOG_DEBUG, __VA_ARGS__)

#endif
