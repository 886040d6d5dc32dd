/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reactor threads. A reactor steps while there is work, looks for more for a short while (a wake-up
 * from sleep costs more than it), then sleeps on its event fd. The sleep is bounded by what the
 * reactor says it needs, at most a second, so a stop is noticed within that even if the wake-up
 * were lost; it is not: a stop writes to an eventfd that the thread polls beside its own.
 */
#include "reactors.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "say.h"

struct reactor_thread {
	struct reactors *all;
	pthread_t thread;
	uint32_t index;
	uint64_t turns_seen;
};

struct reactors {
	struct larder_node *node;
	const struct larder_log *log;
	uint32_t n;		/* started */
	uint64_t spin_ns;
	int stop_fd;
	int failed_fd;
	bool stop;		/* atomic */
	struct reactor_thread thread[];
};

static uint64_t reactor_now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);	/* can not fail for this clock */
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void reactor_sleep(struct reactor_thread *t)
{
	struct reactors *all = t->all;
	struct pollfd fds[2] = {
		{ .fd = larder_node_event_fd(all->node, t->index), .events = POLLIN },
		{ .fd = all->stop_fd, .events = POLLIN },
	};

	/* EINTR can not happen (signals are blocked); any other failure shows in the next step */
	(void)poll(fds, 2, larder_node_timeout_ms(all->node, t->index));
}

static void *reactor_main(void *user)
{
	struct reactor_thread *t = user;
	struct reactors *all = t->all;
	uint64_t idle_since = 0;
	uint64_t one = 1;

	while (!__atomic_load_n(&all->stop, __ATOMIC_ACQUIRE)) {
		int r = larder_node_step(all->node, t->index);

		if (r < 0) {
			say(all->log, LARDER_LOG_ERR, "reactor %u ended: %s", t->index,
			    strerror(-r));
			if (write(all->failed_fd, &one, sizeof(one)) < 0)
				abort();	/* nobody would notice otherwise; objects survive */
			break;
		}
		if (r > 0) {
			idle_since = 0;
			continue;
		}
		if (all->spin_ns) {
			uint64_t now = reactor_now_ns();

			if (!idle_since)
				idle_since = now;
			if (now - idle_since < all->spin_ns)
				continue;
			idle_since = 0;
		}
		reactor_sleep(t);
	}
	return NULL;
}

struct reactors *reactors_stop(struct reactors *r)
{
	uint64_t one = 1;

	if (!r)
		return NULL;
	__atomic_store_n(&r->stop, true, __ATOMIC_RELEASE);
	if (r->stop_fd >= 0 && write(r->stop_fd, &one, sizeof(one)) < 0)
		say(r->log, LARDER_LOG_WARNING, "reactors stop late: %s", strerror(errno));
	for (uint32_t i = 0; i < r->n; i++)
		(void)pthread_join(r->thread[i].thread, NULL);	/* ours, joinable: can not fail */
	if (r->stop_fd >= 0)
		(void)close(r->stop_fd);
	if (r->failed_fd >= 0)
		(void)close(r->failed_fd);
	free(r);
	return NULL;
}

int reactors_start(struct larder_node *node, uint32_t n, uint32_t spin_us,
		   const struct larder_log *log, struct reactors **ret)
{
	struct reactors *r = calloc(1, sizeof(*r) + n * sizeof(r->thread[0]));
	sigset_t all, before;
	int error = 0;

	if (!r)
		return -ENOMEM;
	r->node = node;
	r->log = log;
	r->spin_ns = spin_us * 1000ull;
	r->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->failed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->stop_fd < 0 || r->failed_fd < 0) {
		error = -errno;
		reactors_stop(r);
		return error;
	}
	(void)sigfillset(&all);
	(void)sigdelset(&all, SIGBUS);	/* faults of the copying thread are its own */
	(void)sigdelset(&all, SIGSEGV);
	error = -pthread_sigmask(SIG_SETMASK, &all, &before);
	for (uint32_t i = 0; !error && i < n; i++) {
		char name[16];

		r->thread[i] = (struct reactor_thread){ .all = r, .index = i };
		error = -pthread_create(&r->thread[i].thread, NULL, reactor_main, &r->thread[i]);
		if (error)
			break;
		r->n++;
		(void)snprintf(name, sizeof(name), "reactor-%u", i % 1000);
		(void)pthread_setname_np(r->thread[i].thread, name);	/* for people only */
	}
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		reactors_stop(r);
		return error;
	}
	*ret = r;
	return 0;
}

int reactors_failed_fd(const struct reactors *r)
{
	return r->failed_fd;
}

bool reactors_turned(struct reactors *r)
{
	bool all = true;

	for (uint32_t i = 0; i < r->n; i++) {
		uint64_t turns = larder_node_turns(r->node, i);

		if (turns == r->thread[i].turns_seen)
			all = false;
		r->thread[i].turns_seen = turns;
	}
	return all;
}
