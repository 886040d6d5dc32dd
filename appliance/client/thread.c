/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who drives the core, and how the others wait. handle.h has the idea.
 *
 * The progress thread sleeps in one of two ways. Watching, it polls the transports and its own
 * descriptor until the core's next timer. Parked, it polls its own descriptor only: callers drive,
 * and every reply would wake it for nothing. It parks when it wakes and finds a driver, and watches
 * again once no caller drove for HANDLE_PARK_MS. A driver that leaves work behind wakes it unless
 * it is watching and its sleep ends early enough.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/handle.h"

#define HANDLE_PARK_MS 20
#define HANDLE_SPINS 24		/* idle steps before a driver sleeps: some 10 microseconds */
#define HANDLE_TURNS_MAX 256	/* steps of the thread before it looks at its queue */
#define HANDLE_STUCK_MAX 100000	/* idle turns of a stepped handle whose clock stands still */

static void thread_signal(int fd)
{
	uint64_t one = 1;
	ssize_t r;

	do {
		r = write(fd, &one, sizeof(one));
	} while (r < 0 && errno == EINTR);
	/* EAGAIN: the counter is full, so it is readable already */
}

static void thread_drain(int fd)
{
	uint64_t count;
	ssize_t r;

	do {
		r = read(fd, &count, sizeof(count));
	} while (r < 0 && errno == EINTR);
	/* EAGAIN: somebody else's wake-up was taken along */
}

/* --- the driver's turn ----------------------------------------------------------------------- */

static struct job *handle_cancelled(struct larder_client *c)
{
	struct job *found = NULL;

	pthread_mutex_lock(&c->lock);
	list_for_each(it, &c->core.jobs) {
		struct job *job = list_entry(it, struct job, link);

		if (!job->cancel)
			continue;
		job->cancel = false;
		found = job;
		break;
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

int handle_turn(struct larder_client *c)
{
	struct list jobs;
	bool cancels;
	int work = 0;

	list_init(&jobs);
	pthread_mutex_lock(&c->lock);
	while (!list_empty(&c->submitted))
		list_push_tail(&jobs, list_pop_head(&c->submitted));
	cancels = c->cancels;
	c->cancels = false;
	pthread_mutex_unlock(&c->lock);
	while (!list_empty(&jobs)) {
		core_submit(&c->core, list_entry(list_pop_head(&jobs), struct job, link));
		work++;
	}
	while (cancels) {
		struct job *job = handle_cancelled(c);

		if (job)
			core_cancel(&c->core, job);
		cancels = job != NULL;
	}
	return work + core_step(&c->core);
}

/* --- the role -------------------------------------------------------------------------------- */

/* Lock held. Somebody is to look at what was queued. */
static void handle_wake(struct larder_client *c)
{
	if (c->stepped)
		return;
	if (!c->driven)
		thread_signal(c->thread_fd);
	else if (c->driver_asleep)
		thread_signal(c->wake_fd);
	/* else the driver looks before it sleeps or leaves */
}

/* Lock held. The role to a caller who waits; false: there is none who may have it. */
static bool handle_hand_over(struct larder_client *c)
{
	if (c->callbacks)
		return false;
	list_for_each(it, &c->waiters) {
		struct waiter *w = list_entry(it, struct waiter, link);

		if (w->done || w->drive)
			continue;
		w->drive = true;
		pthread_cond_signal(&w->cond);
		return true;
	}
	return false;
}

/* A caller gives the role away. */
static void handle_leave(struct larder_client *c)
{
	uint64_t now = clock_now(&c->core.clock);
	uint64_t until = now + (uint64_t)core_timeout_ms(&c->core) * NSEC_PER_MSEC;
	bool busy = core_busy(&c->core);

	pthread_mutex_lock(&c->lock);
	c->drives++;
	if (!handle_hand_over(c)) {
		c->driven = false;
		c->needed = busy || !list_empty(&c->submitted) || c->cancels;
		if (!list_empty(&c->submitted) || c->cancels ||
		    (busy && (!c->watching || c->watch_until_ns > until + NSEC_PER_MSEC)))
			thread_signal(c->thread_fd);
	}
	pthread_mutex_unlock(&c->lock);
}

/* The driver has nothing to do until something happens. */
static void handle_sleep(struct larder_client *c)
{
	struct pollfd pfd[CORE_TARGETS_MAX + 1];
	int fds[CORE_TARGETS_MAX];
	int timeout = core_timeout_ms(&c->core);
	int n = core_event_fds(&c->core, fds);
	bool sleep;

	if (n < 0) {
		n = 0;
		timeout = timeout > 1 ? 1 : timeout;	/* a transport that must be polled */
	}
	for (int i = 0; i < n; i++)
		pfd[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	pfd[n] = (struct pollfd){ .fd = c->wake_fd, .events = POLLIN };
	pthread_mutex_lock(&c->lock);
	sleep = list_empty(&c->submitted) && !c->cancels;
	c->driver_asleep = sleep;
	pthread_mutex_unlock(&c->lock);
	if (!sleep)
		return;
	(void)poll(pfd, (nfds_t)n + 1, timeout);	/* EINTR: one turn too early */
	pthread_mutex_lock(&c->lock);
	c->driver_asleep = false;
	pthread_mutex_unlock(&c->lock);
	if (pfd[n].revents)
		thread_drain(c->wake_fd);
}

/* Drives until @w is done (true) or a batch with callbacks wants the progress thread (false). */
static bool handle_drive(struct larder_client *c, struct waiter *w)
{
	int idle = 0;

	for (;;) {
		bool callbacks;

		idle = handle_turn(c) ? 0 : idle + 1;
		/* set by this thread: it is the driver */
		if (w->done)
			return true;
		pthread_mutex_lock(&c->lock);
		callbacks = c->callbacks;
		pthread_mutex_unlock(&c->lock);
		if (callbacks)
			return false;
		if (idle > HANDLE_SPINS) {
			handle_sleep(c);
			idle = 0;
		}
	}
}

/* --- synchronous calls ----------------------------------------------------------------------- */

static void waiter_finished(struct job *job)
{
	struct waiter *w = container_of(job, struct waiter, job);
	struct larder_client *c = w->client;

	pthread_mutex_lock(&c->lock);
	if (job->kind == JOB_BATCH) {
		job->batch->internal = NULL;
		c->callbacks -= job->batch->item_done != NULL;
	}
	w->done = true;
	pthread_cond_signal(&w->cond);
	/* @w lives on its caller's stack: it may be gone once the lock is free */
	pthread_mutex_unlock(&c->lock);
}

static void handle_call_stepped(struct larder_client *c, struct waiter *w)
{
	uint64_t stood = clock_now(&c->core.clock);
	uint32_t idle = 0;

	while (!w->done) {
		int work = handle_turn(c);
		uint64_t now;

		if (c->step)
			work += c->step(c->step_user) > 0;
		now = clock_now(&c->core.clock);
		idle = work || now != stood ? 0 : idle + 1;
		stood = now;
		/* every wait ends, also in a world without time */
		if (idle > HANDLE_STUCK_MAX)
			core_cancel(&c->core, &w->job);
	}
}

/* Lock held, and again at return. @drive: the role is taken for it. */
static void handle_wait(struct larder_client *c, struct waiter *w, bool drive)
{
	bool done;

	for (;;) {
		if (drive) {
			pthread_mutex_unlock(&c->lock);
			done = handle_drive(c, w);
			handle_leave(c);
			pthread_mutex_lock(&c->lock);
			if (done)
				return;
		}
		w->drive = false;
		list_push_tail(&c->waiters, &w->link);
		while (!w->done && !w->drive)
			pthread_cond_wait(&w->cond, &c->lock);
		list_remove(&w->link);
		if (w->done)
			return;	/* nobody can finish it once it has the role */
		drive = true;
	}
}

int handle_call(struct larder_client *c, struct waiter *w)
{
	bool drive;
	int r;

	w->client = c;
	w->done = w->drive = false;
	w->job.finished = waiter_finished;
	list_init(&w->link);
	r = pthread_cond_init(&w->cond, NULL);
	if (r)
		return handle_errno(-r);
	pthread_mutex_lock(&c->lock);
	list_push_tail(&c->submitted, &w->job.link);
	if (w->job.kind == JOB_BATCH) {
		w->job.batch->internal = &w->job;
		c->callbacks += w->job.batch->item_done != NULL;
	}
	drive = !c->driven && !c->callbacks;
	if (c->stepped) {
		pthread_mutex_unlock(&c->lock);
		handle_call_stepped(c, w);
	} else {
		if (drive)
			c->driven = true;
		else
			handle_wake(c);
		handle_wait(c, w, drive);
		pthread_mutex_unlock(&c->lock);
	}
	(void)pthread_cond_destroy(&w->cond);	/* nobody waits on it but us */
	if (w->job.status > LARDER_EXISTS_SAME)
		handle_error(w->job.text[0] ? w->job.text : larder_status_text(w->job.status));
	return w->job.status;
}

/* --- the progress thread --------------------------------------------------------------------- */

/* Drives until nothing is left to do at once. True: watch; false: a caller has the role. */
static bool thread_drive(struct larder_client *c, struct pollfd *pfd, int *n, int *timeout)
{
	int fds[CORE_TARGETS_MAX];
	bool more = true;

	while (more) {
		int turns = 0, work;

		do {
			work = handle_turn(c);
		} while (work && ++turns < HANDLE_TURNS_MAX);
		*n = core_event_fds(&c->core, fds);
		*timeout = core_timeout_ms(&c->core);
		pthread_mutex_lock(&c->lock);
		more = (work || !list_empty(&c->submitted) || c->cancels) && !c->stop;
		if (!more && handle_hand_over(c)) {
			c->watching = false;
			pthread_mutex_unlock(&c->lock);
			return false;
		}
		if (!more) {
			c->driven = false;
			c->needed = core_busy(&c->core);
			c->watching = true;
			c->watch_until_ns = clock_now(&c->core.clock) +
					    (uint64_t)*timeout * NSEC_PER_MSEC;
		}
		pthread_mutex_unlock(&c->lock);
	}
	if (*n < 0) {
		*n = 0;
		*timeout = *timeout > 1 ? 1 : *timeout;
	}
	for (int i = 0; i < *n; i++)
		pfd[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	return true;
}

static void *thread_main(void *arg)
{
	struct larder_client *c = arg;
	struct pollfd pfd[CORE_TARGETS_MAX + 1];
	uint64_t seen = 0;

	for (;;) {
		int n = 0, timeout = HANDLE_PARK_MS;
		bool mine;

		pthread_mutex_lock(&c->lock);
		c->watching = false;
		if (c->stop) {
			pthread_mutex_unlock(&c->lock);
			return NULL;
		}
		mine = !c->driven && (c->needed || c->callbacks || seen == c->drives ||
				      !list_empty(&c->submitted) || c->cancels);
		seen = c->drives;
		if (mine)
			c->driven = true;
		pthread_mutex_unlock(&c->lock);
		if (mine && !thread_drive(c, pfd, &n, &timeout)) {
			n = 0;
			timeout = HANDLE_PARK_MS;
		}
		pfd[n] = (struct pollfd){ .fd = c->thread_fd, .events = POLLIN };
		(void)poll(pfd, (nfds_t)n + 1, timeout);	/* EINTR: one turn too early */
		if (pfd[n].revents)
			thread_drain(c->thread_fd);
	}
}

int handle_start(struct larder_client *c)
{
	sigset_t all, old;
	int r;

	/* the application's signals are handled by the application's threads */
	(void)sigfillset(&all);
	r = pthread_sigmask(SIG_SETMASK, &all, &old);
	if (r)
		return -r;
	r = pthread_create(&c->thread, NULL, thread_main, c);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);	/* the set came from there */
	return -r;
}

void handle_stop(struct larder_client *c)
{
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	thread_signal(c->thread_fd);
	pthread_mutex_unlock(&c->lock);
	(void)pthread_join(c->thread, NULL);	/* it is ours and not yet joined */
}

/* --- asynchronous batches -------------------------------------------------------------------- */

static void batch_finished(struct job *job)
{
	struct larder_client *c = job->user;
	bool first;

	pthread_mutex_lock(&c->lock);
	if (job->batch->item_done)
		c->callbacks--;
	first = list_empty(&c->done);
	list_push_tail(&c->done, &job->link);
	if (first)
		thread_signal(c->done_fd);
	pthread_mutex_unlock(&c->lock);
}

LARDER_PUBLIC int larder_submit(struct larder_client *c, struct larder_batch *b)
{
	struct job *job;
	bool mine = false;
	int r = handle_check(c);

	if (r < 0)
		return r;
	pthread_mutex_lock(&c->lock);
	if (list_empty(&c->spare)) {
		pthread_mutex_unlock(&c->lock);
		handle_error("too many batches are under way, or done and not polled");
		return -EAGAIN;
	}
	job = list_entry(list_pop_head(&c->spare), struct job, link);
	pthread_mutex_unlock(&c->lock);
	r = job_init_batch(job, b);
	job->finished = batch_finished;
	job->user = c;
	if (r == 0) {
		job->deadline_ns = handle_deadline(c, b->deadline_ms);
		b->internal = job;
	}
	pthread_mutex_lock(&c->lock);
	if (r < 0) {
		handle_error(job->text);
		list_push_head(&c->spare, &job->link);
	} else {
		list_push_tail(&c->submitted, &job->link);
		if (b->item_done)
			c->callbacks++;
		mine = !c->stepped && !c->driven && !c->callbacks;
		if (mine)
			c->driven = true;
		else
			handle_wake(c);
	}
	pthread_mutex_unlock(&c->lock);
	if (mine) {
		/* one turn sends it: no thread has to wake up for that */
		(void)handle_turn(c);
		handle_leave(c);
	}
	return r;
}

LARDER_PUBLIC int larder_poll(struct larder_client *c, struct larder_batch **done, int max)
{
	int n = 0, r = handle_check(c);

	if (r < 0)
		return r;
	pthread_mutex_lock(&c->lock);
	while (n < max && !list_empty(&c->done)) {
		struct job *job = list_entry(list_pop_head(&c->done), struct job, link);

		if (job->status)
			handle_error(job->text);
		done[n++] = TAKE_PTR(job->batch);
		done[n - 1]->internal = NULL;
		list_push_tail(&c->spare, &job->link);
	}
	if (n && list_empty(&c->done))
		thread_drain(c->done_fd);
	pthread_mutex_unlock(&c->lock);
	return n;
}

LARDER_PUBLIC int larder_event_fd(struct larder_client *c)
{
	int r = handle_check(c);

	return r < 0 ? r : c->done_fd;
}

LARDER_PUBLIC int larder_cancel(struct larder_client *c, struct larder_batch *b)
{
	struct job *job;
	int r = handle_check(c);

	if (r < 0)
		return r;
	if (!b)
		return handle_refuse("there is no batch");
	pthread_mutex_lock(&c->lock);
	job = b->internal;
	if (!job || job->batch != b) {
		handle_error("the batch is not under way");
		r = -ENOENT;
	} else {
		job->cancel = true;
		c->cancels = true;
		handle_wake(c);
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

LARDER_PUBLIC int larder_step(struct larder_client *c)
{
	int r = handle_check(c);

	if (r < 0)
		return r;
	if (!c->stepped)
		return handle_refuse("this handle has a thread that steps it");
	return handle_turn(c);
}
