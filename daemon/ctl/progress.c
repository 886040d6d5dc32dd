/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line that is drawn over itself. It shows the share done, the time so far and the time left at
 * the pace so far. Nothing is written where nobody watches: a log file is no terminal.
 */
#include "ctl/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "ctl/util.h"

#define PROGRESS_WIDTH 30u
#define PROGRESS_AFTER_NS NSEC_PER_SEC
#define PROGRESS_EVERY_NS (100 * NSEC_PER_MSEC)

void progress_begin(struct progress *p, const char *what, uint64_t total)
{
	uint64_t now = util_now_ns();

	*p = (struct progress){
		.what = what,
		.total = total,
		.start_ns = now,
		.next_ns = now + PROGRESS_AFTER_NS,
		.terminal = isatty(STDERR_FILENO),
	};
}

static void progress_draw(struct progress *p, uint64_t done, uint64_t now)
{
	char bar[PROGRESS_WIDTH + 1];
	double seconds = (double)(now - p->start_ns) / 1e9, share;
	unsigned full;

	if (!p->total) {
		fprintf(stderr, "\r\033[K%s", p->what);
		if (done)
			fprintf(stderr, " %" PRIu64, done);
		fprintf(stderr, "  %.0f s", seconds);
		return;
	}
	share = (double)MIN(done, p->total) / (double)p->total;
	full = (unsigned)(share * PROGRESS_WIDTH);
	for (unsigned i = 0; i < PROGRESS_WIDTH; i++)
		bar[i] = i < full ? '#' : '.';
	bar[PROGRESS_WIDTH] = '\0';
	fprintf(stderr, "\r\033[K%s [%s] %3.0f %%  %.0f s", p->what, bar, share * 100, seconds);
	if (share > 0)
		fprintf(stderr, ", %.0f s left", seconds / share - seconds);
}

void progress_step(struct progress *p, uint64_t done)
{
	uint64_t now;

	if (!p->terminal)
		return;
	now = util_now_ns();
	if (now < p->next_ns)
		return;
	p->next_ns = now + PROGRESS_EVERY_NS;
	p->drawn = true;
	progress_draw(p, done, now);
	fflush(stderr);
}

void progress_end(struct progress *p)
{
	if (!p->drawn)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	p->drawn = false;
}

/* The thread: draws until the call that it watches has returned. */
static void *progress_watch_main(void *user)
{
	struct progress_watch *w = user;

	(void)pthread_mutex_lock(&w->lock);	/* a plain mutex: can't fail */
	while (!w->over) {
		struct timespec until;

		(void)clock_gettime(CLOCK_MONOTONIC, &until);	/* can't fail for this clock */
		until.tv_nsec += (long)PROGRESS_EVERY_NS;
		until.tv_sec += until.tv_nsec / (long)NSEC_PER_SEC;
		until.tv_nsec %= (long)NSEC_PER_SEC;
		progress_step(&w->progress, 0);
		(void)pthread_cond_timedwait(&w->ended, &w->lock, &until);	/* `over` decides */
	}
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

void progress_watch_begin(struct progress_watch *w, const char *what)
{
	pthread_condattr_t attr;

	*w = (struct progress_watch){ 0 };
	progress_begin(&w->progress, what, 0);
	if (!w->progress.terminal)
		return;
	(void)pthread_condattr_init(&attr);	/* these can't fail on Linux */
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_cond_init(&w->ended, &attr);
	(void)pthread_condattr_destroy(&attr);
	/* no thread, no bar: the call works without */
	w->running = pthread_create(&w->thread, NULL, progress_watch_main, w) == 0;
}

void progress_watch_end(struct progress_watch *w)
{
	if (!w->running)
		return;
	(void)pthread_mutex_lock(&w->lock);
	w->over = true;
	(void)pthread_cond_signal(&w->ended);
	(void)pthread_mutex_unlock(&w->lock);
	(void)pthread_join(w->thread, NULL);	/* joinable, joined once */
	w->running = false;
	progress_end(&w->progress);
}
