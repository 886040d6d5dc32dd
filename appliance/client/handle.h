/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle: the core, and who steps it.
 *
 * Exactly one thread at a time drives the core. It may be the handle's own progress thread or any
 * synchronous caller: a caller that finds nobody driving drives by itself until its own call is
 * done, so that a round trip costs no wake-up of another thread. Who finds a driver queues its job
 * and sleeps; a driver that leaves hands the role to one of those, or to the progress thread.
 *
 * The progress thread watches the transports' descriptors when nobody else drives, and keeps out of
 * the way for a while when callers do. Callbacks (item_done) come from it alone: while a batch with
 * one is under way, callers do not drive.
 *
 * @lock guards the queues and the roles, and is never held while the core works or a callback runs.
 * What the core holds passes from driver to driver through it.
 */
#ifndef LARDER_CLIENT_HANDLE_H
#define LARDER_CLIENT_HANDLE_H

#include <sys/types.h>

#include "client/core.h"

#define HANDLE_BATCHES 1024u	/* asynchronous ones under way or not yet polled */

struct larder_client {
	struct core core;
	pid_t pid;		/* of the process that opened it */
	bool stepped;
	int (*step)(void *user);
	void *step_user;
	struct job *pool;	/* HANDLE_BATCHES */

	pthread_mutex_t lock;
	struct list submitted;	/* jobs for the core */
	struct list waiters;	/* callers that neither drive nor are done */
	struct list done;	/* batches for larder_poll */
	struct list spare;	/* of pool */
	bool driven;
	bool driver_asleep;	/* in poll: wake_fd gets it out */
	bool watching;		/* the progress thread sleeps on the transports too ... */
	uint64_t watch_until_ns;	/* ... until then */
	bool needed;		/* work was left when the last driver went */
	bool stop;
	bool cancels;		/* some job->cancel is set and not looked at */
	uint32_t callbacks;	/* batches with item_done under way */
	uint64_t drives;	/* times that a caller drove */
	int wake_fd;
	int thread_fd;
	int done_fd;
	pthread_t thread;
};

/* A synchronous call. */
struct waiter {
	struct list link;
	struct job job;
	struct larder_client *client;
	pthread_cond_t cond;
	bool done;
	bool drive;		/* the role was handed to it */
};

/* --- thread.c -------------------------------------------------------------------------------- */

int handle_start(struct larder_client *c);
void handle_stop(struct larder_client *c);
/* Submits w->job (initialised, deadline set) and waits for it. Its status; keeps its text. */
int handle_call(struct larder_client *c, struct waiter *w);
/* Takes what was submitted into the core, and one step. Only for the driver. */
int handle_turn(struct larder_client *c);

/* --- open.c ---------------------------------------------------------------------------------- */

/* -ECHILD in a process that did not open it. */
int handle_check(const struct larder_client *c);
uint64_t handle_deadline(const struct larder_client *c, uint32_t deadline_ms);
/* For larder_last_error: each failure leaves a sentence there, on the thread that was told. */
void handle_error(const char *text);
/* The same, for a call that makes no sense. -EINVAL. */
int handle_refuse(const char *fmt, ...) _printf_(1, 2);
/* The same, with errno's sentence. Returns @error (-errno). */
int handle_errno(int error);

/* --- url.c ----------------------------------------------------------------------------------- */

/* Fills core->targets. 0; -EINVAL or -EPROTONOSUPPORT, with a sentence that names the url. */
int url_parse(struct core *core, const struct larder_client_options *o);

#endif
