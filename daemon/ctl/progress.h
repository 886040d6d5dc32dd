/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on standard error, when that is a terminal and the work takes over a second. */
#ifndef LARDERCTL_PROGRESS_H
#define LARDERCTL_PROGRESS_H

#include <pthread.h>
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

/*
 * For one call that says nothing until it is done: a thread of its own draws how long it has taken.
 * Without a terminal there is no thread. Every begin wants its end.
 */
struct progress_watch {
	struct progress progress;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool running;
	bool over;		/* under lock */
};
void progress_watch_begin(struct progress_watch *w, const char *what);
void progress_watch_end(struct progress_watch *w);

#endif
