/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: options, opening and closing, the last error, and what a child of fork() may do with a
 * handle.
 *
 * After a fork both processes hold the same sockets and the same shared pages, and only one of them
 * can speak. The one that opened the handle keeps it; a child is told -ECHILD by every call before
 * any lock is touched (a thread that no longer exists may hold it), and its larder_close lets go of
 * the handle's memory and descriptors without a word to the node.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/handle.h"

#define OPEN_DEADLINE_MS 30000u
#define OPEN_CONNECT_TIMEOUT_MS 2000u
#define OPEN_GRACE_MS 50u
#define OPEN_FAIL_FAST_AFTER 3u
#define OPEN_BOUNCE_BYTES (64ull * 1024 * 1024)

static __thread char open_error[CORE_TEXT_SIZE] = "no error";

void handle_error(const char *text)
{
	snprintf(open_error, sizeof(open_error), "%s", text);
}

int handle_refuse(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(open_error, sizeof(open_error), fmt, ap);	/* may be cut */
	va_end(ap);
	return -EINVAL;
}

int handle_errno(int error)
{
	handle_error(strerror(-error));
	return error;
}

LARDER_PUBLIC const char *larder_last_error(void)
{
	return open_error;
}

int handle_check(const struct larder_client *c)
{
	if (!c)
		return handle_refuse("there is no handle");
	if (getpid() == c->pid)
		return 0;
	handle_error("the handle belongs to the process that opened it: after a fork the child "
		     "opens its own");
	return -ECHILD;
}

uint64_t handle_deadline(const struct larder_client *c, uint32_t deadline_ms)
{
	if (!deadline_ms)
		deadline_ms = c->core.deadline_ms;
	return clock_now(&c->core.clock) + deadline_ms * NSEC_PER_MSEC;
}

/* --- options --------------------------------------------------------------------------------- */

static bool tenant_is_name(const char *tenant)
{
	size_t len = tenant ? strlen(tenant) : 0;

	return len >= 1 && len <= LARDER_TENANT_NAME_MAX &&
	       strspn(tenant, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

/* A caller that was built against an older header gave a shorter struct. */
static int options_take(const struct larder_client_options *from, struct larder_client_options *to)
{
	size_t least = offsetof(struct larder_client_options, secret_len) +
		       sizeof(from->secret_len);

	if (!from || from->size < least)
		return handle_refuse("options begin with LARDER_CLIENT_OPTIONS_INIT");
	memset(to, 0, sizeof(*to));
	memcpy(to, from, MIN((size_t)from->size, sizeof(*to)));
	if (to->flags & ~LARDER_OPEN_VIEWER)
		return handle_refuse("options have a flag that is unknown here");
	if (!(to->flags & LARDER_OPEN_VIEWER) && !tenant_is_name(to->tenant))
		return handle_refuse("a tenant's name has 1 to %u of a-z, 0-9 and '-'",
				     (unsigned)LARDER_TENANT_NAME_MAX);
	if (!(to->flags & LARDER_OPEN_VIEWER) &&
	    (!to->secret || to->secret_len < 1 || to->secret_len > CORE_SECRET_MAX))
		return handle_refuse("a secret has 1 to %u bytes", CORE_SECRET_MAX);
	if (to->flags & LARDER_OPEN_VIEWER) {
		to->secret = NULL;
		to->secret_len = 0;
		to->tenant = "";
	}
	if (!to->deadline_ms)
		to->deadline_ms = OPEN_DEADLINE_MS;
	if (!to->connect_timeout_ms)
		to->connect_timeout_ms = OPEN_CONNECT_TIMEOUT_MS;
	if (!to->grace_ms)
		to->grace_ms = OPEN_GRACE_MS;
	if (!to->fail_fast_after)
		to->fail_fast_after = OPEN_FAIL_FAST_AFTER;
	if (!to->bounce_bytes)
		to->bounce_bytes = OPEN_BOUNCE_BYTES;
	return 0;
}

/* --- open and close -------------------------------------------------------------------------- */

static void handle_free(struct larder_client *c)
{
	cleanup_closep(&c->wake_fd);
	cleanup_closep(&c->thread_fd);
	cleanup_closep(&c->done_fd);
	free(c->pool);
	free(c);
}

static int handle_new(struct larder_client **ret)
{
	struct larder_client *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->pid = getpid();
	list_init(&c->submitted);
	list_init(&c->waiters);
	list_init(&c->done);
	list_init(&c->spare);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = c->wake_fd < 0 ? -errno : 0;
	c->thread_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = c->thread_fd < 0 && !r ? -errno : r;
	c->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = c->done_fd < 0 && !r ? -errno : r;
	c->pool = calloc(HANDLE_BATCHES, sizeof(*c->pool));
	if (!c->pool)
		r = -ENOMEM;
	for (uint32_t i = 0; i < HANDLE_BATCHES && !r; i++)
		list_push_tail(&c->spare, &c->pool[i].link);
	if (!r)
		r = -pthread_mutex_init(&c->lock, NULL);
	if (r) {
		handle_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

static int handle_open(const struct larder_client_options *options,
		       const struct larder_environment *environment, struct larder_client **ret)
{
	struct larder_client_options o;
	struct core_config config = { .options = &o, .environment = environment };
	struct larder_client *c = NULL;
	int r = ret ? options_take(options, &o) : handle_refuse("no place for the handle");

	if (r < 0)
		return r;
	r = handle_new(&c);
	if (r < 0)
		return handle_errno(r);
	r = url_parse(&c->core, &o);
	if (r == 0) {
		r = core_open(&c->core, &config);
		if (r < 0)
			(void)handle_errno(r);
	}
	if (r < 0) {
		(void)pthread_mutex_destroy(&c->lock);	/* nobody has it */
		handle_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

LARDER_PUBLIC int larder_open(const struct larder_client_options *options,
			      struct larder_client **ret)
{
	int r = handle_open(options, NULL, ret);

	if (r < 0)
		return r;
	r = handle_start(*ret);
	if (r < 0) {
		core_close(&(*ret)->core);
		(void)pthread_mutex_destroy(&(*ret)->lock);	/* nobody has it */
		handle_free(TAKE_PTR(*ret));
		return handle_errno(r);
	}
	return 0;
}

LARDER_PUBLIC int larder_open_stepped(const struct larder_client_options *options,
				      const struct larder_environment *environment,
				      int (*step)(void *user), void *user,
				      struct larder_client **ret)
{
	int r = handle_open(options, environment, ret);

	if (r < 0)
		return r;
	(*ret)->stepped = true;
	(*ret)->step = step;
	(*ret)->step_user = user;
	return 0;
}

static void handle_abandon(struct larder_client *c)
{
	/* The fork caught a driver in mid-step: what it was changing can not be walked. It stays as
	 * it is until exec (all descriptors are close-on-exec) or exit; the parent's end of a
	 * connection shuts it down, so that the copies here keep nothing alive. */
	if (c->driven && !c->driver_asleep)
		return;
	core_abandon(&c->core);
	handle_free(c);
}

LARDER_PUBLIC void larder_close(struct larder_client *c)
{
	if (!c)
		return;
	if (handle_check(c) < 0) {
		handle_abandon(c);
		return;
	}
	if (!c->stepped)
		handle_stop(c);
	/* what was submitted and never seen belongs to the core first: it ends everything */
	(void)handle_turn(c);
	core_close(&c->core);
	(void)pthread_mutex_destroy(&c->lock);	/* no other call may be inside */
	handle_free(c);
}

LARDER_PUBLIC void larder_get_info(struct larder_client *c, struct larder_client_info *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (handle_check(c) < 0)
		return;
	pthread_mutex_lock(&c->core.info_lock);
	*ret = c->core.info;
	pthread_mutex_unlock(&c->core.info_lock);
	if (!ret->url[0])
		memcpy(ret->url, c->core.targets[0].url, sizeof(ret->url));
}
