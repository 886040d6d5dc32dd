/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: options, URLs, opening and closing, and what a child of fork() may do with one.
 *
 * After a fork both processes hold the same sockets and the same shared pages, and only one of them
 * can speak. The one that opened the handle keeps it; a child is told -ECHILD by every call before
 * any lock is touched (a thread that no longer exists may hold it), and its larder_close lets go of
 * the handle's memory and descriptors without a word to the node.
 */
#include <errno.h>
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
#define OPEN_SOCKET "/run/larder/larder.sock"

static __thread char open_error[CORE_TEXT_SIZE] = "no error";

void handle_error(const char *text)
{
	snprintf(open_error, sizeof(open_error), "%s", text);
}

LARDER_PUBLIC const char *larder_last_error(void)
{
	return open_error;
}

int handle_check(const struct larder_client *c)
{
	if (!c)
		return -EINVAL;
	return getpid() == c->pid ? 0 : -ECHILD;
}

uint64_t handle_deadline(const struct larder_client *c, uint32_t deadline_ms)
{
	if (!deadline_ms)
		deadline_ms = c->core.deadline_ms;
	return clock_now(&c->core.clock) + deadline_ms * NSEC_PER_MSEC;
}

/* --- URLs ------------------------------------------------------------------------------------ */

static int url_add(struct core *core, const char *scheme, const char *address)
{
	struct target *t = &core->targets[core->n_targets];
	const char *port = "";
	int n;

	if (!strcmp(scheme, "tcp")) {
		const char *after = strrchr(address, ']');

		if (!strchr(after ? after : address, ':'))
			port = ":16180";
	}
	n = snprintf(t->url, sizeof(t->url), "%s://%s%s", scheme, address, port);
	if (n < 0 || (size_t)n >= sizeof(t->url))
		return -EINVAL;
	n = transport_parse_url(t->url, &t->ops, &t->address);
	if (n < 0)
		return n;
	core->n_targets++;
	return 0;
}

static bool url_is_loopback(const char *host)
{
	size_t len = strcspn(host, ":");

	if (host[0] == '[')
		return !strncmp(host, "[::1]", 5);
	return !len || !strncmp(host, "127.", 4) || (len == 9 && !strncmp(host, "localhost", 9));
}

/* larder://: what reaches the node with the fewest copies, first. */
static int url_pick(struct core *core, const char *rest, bool viewer)
{
	char host[CORE_URL_SIZE];
	int r;

	if (rest[0] == '/')
		return url_add(core, "shm", rest);
	if (url_is_loopback(rest)) {
		r = url_add(core, "shm", OPEN_SOCKET);
		if (r < 0 && r != -EPROTONOSUPPORT)
			return r;
		if (viewer)
			return r;
	}
	r = snprintf(host, sizeof(host), "%s%s", rest[0] == ':' || !rest[0] ? "127.0.0.1" : "",
		     rest);
	if (r < 0 || (size_t)r >= sizeof(host))
		return -EINVAL;
	return viewer ? -EINVAL : url_add(core, "tcp", host);
}

static int url_parse(struct core *core, const struct larder_client_options *o)
{
	bool viewer = o->flags & LARDER_OPEN_VIEWER;
	char scheme[16];
	const char *mark;

	if (!o->url)
		return -EINVAL;
	mark = strstr(o->url, "://");
	if (!mark || mark == o->url || (size_t)(mark - o->url) >= sizeof(scheme))
		return -EINVAL;
	memcpy(scheme, o->url, (size_t)(mark - o->url));
	scheme[mark - o->url] = 0;
	if (!strcmp(scheme, "larder"))
		return url_pick(core, mark + 3, viewer);
	return url_add(core, scheme, mark + 3);
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
		return -EINVAL;
	memset(to, 0, sizeof(*to));
	memcpy(to, from, MIN((size_t)from->size, sizeof(*to)));
	if (to->flags & ~LARDER_OPEN_VIEWER)
		return -EINVAL;
	if (!(to->flags & LARDER_OPEN_VIEWER) &&
	    (!tenant_is_name(to->tenant) || !to->secret || to->secret_len < 1 ||
	     to->secret_len > CORE_SECRET_MAX))
		return -EINVAL;
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
	int r = options_take(options, &o);

	if (r < 0)
		return r;
	r = handle_new(&c);
	if (r < 0)
		return r;
	r = url_parse(&c->core, &o);
	if (r == 0)
		r = core_open(&c->core, &config);
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
	struct larder_client *c;
	int r = handle_open(options, NULL, &c);

	if (r < 0)
		return r;
	r = handle_start(c);
	if (r < 0) {
		core_close(&c->core);
		handle_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

LARDER_PUBLIC int larder_open_stepped(const struct larder_client_options *options,
				      const struct larder_environment *environment,
				      int (*step)(void *user), void *user,
				      struct larder_client **ret)
{
	struct larder_client *c;
	int r = handle_open(options, environment, &c);

	if (r < 0)
		return r;
	c->stepped = true;
	c->step = step;
	c->step_user = user;
	*ret = c;
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
