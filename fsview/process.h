/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the process asks of the system: time, environment, a place for log lines. Everything else in
 * fsview/ gets these handed in.
 */
#ifndef FSVIEW_PROCESS_H
#define FSVIEW_PROCESS_H

#include <stdint.h>

#include <larder/log.h>

#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_SEC 1000000000ull

struct process_clock {
	uint64_t (*monotonic_ns)(void);
	uint64_t (*wall_ms)(void);
};
extern const struct process_clock process_clock;

/* To stderr, with the journal's level prefix when that is where it goes. */
extern struct larder_log process_log;
void process_log_init(int level);
void process_say(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
