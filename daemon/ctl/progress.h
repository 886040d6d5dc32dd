/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on standard error, when that is a terminal and the work takes over a second. */
#ifndef LARDERCTL_PROGRESS_H
#define LARDERCTL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *what;
	uint64_t total;		/* 0: unknown */
	uint64_t start_ns;
	uint64_t next_ns;	/* not drawn again before */
	bool terminal;
	bool drawn;
};

void progress_begin(struct progress *p, const char *what, uint64_t total);
/* Cheap: looks at the clock and draws ten times a second at most. */
void progress_step(struct progress *p, uint64_t done);
/* Wipes the bar off; before anything else is printed. */
void progress_end(struct progress *p);

#endif
