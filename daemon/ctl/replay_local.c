/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node of this process: the node library in anonymous memory, a stepped client, and the trace's
 * timestamps as the clock of both. Nothing sleeps; the same trace, options and seed give the same
 * run.
 *
 * The clock stands still while requests are served. Between two timestamps it moves in steps short
 * enough that the node's gap rule (promise 12) does not take the trace's pauses for a stopped
 * process, and both sides are stepped in between, so keepalives and lease deadlines work. Should
 * both sides be idle although something is awaited, time goes on by itself, so that deadlines end
 * the wait: a fault shows as DEADLINE, never as a hang.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <larder/node.h>

#include "ctl/replay.h"
#include "ctl/util.h"

#define LOCAL_URL "loop://replay"
#define LOCAL_TENANT "replay"
#define LOCAL_STEP_NS (250 * NSEC_PER_MSEC)	/* well under the gap rule's second */
#define LOCAL_IDLE_TURNS 64u
#define LOCAL_START_NS NSEC_PER_SEC		/* clocks that begin at 0 look unset */

struct replay_local {
	struct replay_store store;
	struct larder_memory *memory;
	struct larder_node *node;
	struct larder_client *client;
	struct larder_environment environment;
	struct larder_log log;
	uint64_t now_ns;
	uint64_t random;
	uint32_t idle;		/* turns in a row in which the node did nothing */
	char error[256];	/* last line of the libraries' log */
};

static uint64_t local_monotonic(void *user)
{
	return ((struct replay_local *)user)->now_ns;
}

static uint64_t local_wall(void *user)
{
	return ((struct replay_local *)user)->now_ns / NSEC_PER_MSEC;
}

/* Seeded: the session's secrecy protects nothing here, its repetition helps. */
static int local_random(void *user, void *out, size_t len)
{
	struct replay_local *l = user;
	unsigned char *p = out;

	while (len) {
		uint64_t w = util_random64(&l->random);
		size_t n = MIN(len, sizeof(w));

		memcpy(p, &w, n);
		p += n;
		len -= n;
	}
	return 0;
}

static void local_log(void *user, int level, const char *text)
{
	struct replay_local *l = user;

	(void)snprintf(l->error, sizeof(l->error), "%s", text);
}

/* Called by the client while a call waits: the node's turn. */
static int local_step(void *user)
{
	struct replay_local *l = user;
	int r = larder_node_step(l->node, 0);

	if (r < 0)
		return r;
	if (r > 0)
		l->idle = 0;
	else if (++l->idle > LOCAL_IDLE_TURNS)
		l->now_ns += NSEC_PER_MSEC;
	return r;
}

/* Both sides until neither has anything to do. 0 or -errno. */
static int local_settle(struct replay_local *l)
{
	for (uint32_t i = 0; i < LOCAL_IDLE_TURNS; i++) {
		int n = larder_node_step(l->node, 0), c;

		if (n < 0)
			return n;
		c = larder_step(l->client);
		if (c < 0)
			return c;
		if (!n && !c)
			break;
	}
	return 0;
}

static int local_set_time(struct replay_store *s, uint64_t ms)
{
	struct replay_local *l = container_of(s, struct replay_local, store);
	uint64_t to = LOCAL_START_NS + ms * NSEC_PER_MSEC;

	while (l->now_ns < to) {
		int r;

		l->now_ns += MIN(to - l->now_ns, LOCAL_STEP_NS);
		r = local_settle(l);
		if (r)
			return r;
	}
	return 0;
}

static int local_run(struct replay_store *s, struct larder_batch *b)
{
	struct replay_local *l = container_of(s, struct replay_local, store);

	l->idle = 0;
	return larder_run(l->client, b);
}

static int local_submit(struct replay_store *s, struct larder_batch *b)
{
	return larder_submit(container_of(s, struct replay_local, store)->client, b);
}

static int local_wait(struct replay_store *s, struct larder_batch **done, int max)
{
	struct replay_local *l = container_of(s, struct replay_local, store);

	l->idle = 0;
	for (;;) {
		int n = larder_poll(l->client, done, max), r;

		if (n)
			return n;
		r = larder_step(l->client);
		if (r < 0)
			return r;
		if (r > 0)
			l->idle = 0;
		r = local_step(l);
		if (r < 0)
			return r;
	}
}

static void local_close(struct replay_store *s)
{
	struct replay_local *l = container_of(s, struct replay_local, store);

	larder_close(l->client);
	larder_node_close(l->node);
	larder_memory_close(l->memory);
	free(l);
}

static const struct replay_store_ops local_ops = {
	.run = local_run,
	.submit = local_submit,
	.wait = local_wait,
	.set_time = local_set_time,
	.close = local_close,
};

static int local_open_node(struct replay_local *l, const struct replay_local_options *o)
{
	struct larder_memory_config memory = {
		.pages = o->pages, .page_size_bytes = o->page_bytes, .log = &l->log,
	};
	struct larder_node_config config;
	int r = larder_memory_open(&memory, &l->memory);

	if (r)
		return r;
	larder_node_config_defaults(&config);
	config.memory = l->memory;
	config.environment = &l->environment;
	config.log = &l->log;
	config.reactors = 1;
	config.shards = o->shards;
	config.policy = o->policy;
	config.reserve_bytes = o->reserve_bytes;
	config.seed = o->seed;
	r = larder_node_open(&config, &l->node);
	if (r)
		return r;
	r = larder_node_tenant_add(l->node, LOCAL_TENANT, LOCAL_TENANT, strlen(LOCAL_TENANT), NULL,
				   0);
	return r ? r : larder_node_listen(l->node, LOCAL_URL);
}

static int local_open_client(struct replay_local *l)
{
	struct larder_client_options options = LARDER_CLIENT_OPTIONS_INIT;
	int r;

	options.url = LOCAL_URL;
	options.tenant = LOCAL_TENANT;
	options.secret = LOCAL_TENANT;
	options.secret_len = strlen(LOCAL_TENANT);
	options.log = &l->log;
	r = larder_open_stepped(&options, &l->environment, local_step, l, &l->client);
	if (r)
		return r;
	r = larder_ns_open(l->client, "replay", NULL, LARDER_NS_CREATE, 0, &l->store.ns);
	if (r > 0) {
		(void)snprintf(l->error, sizeof(l->error), "namespace: %s", larder_status_text(r));
		r = -larder_status_errno(r);
	}
	return r;
}

int replay_local_open(const struct replay_local_options *o, struct replay_store **ret,
		      char error[256])
{
	struct replay_local *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->store.ops = &local_ops;
	l->now_ns = LOCAL_START_NS;
	l->random = o->seed;
	l->environment = (struct larder_environment){
		.monotonic_ns = local_monotonic, .wall_ms = local_wall,
		.random_bytes = local_random, .user = l,
	};
	l->log = (struct larder_log){ .line = local_log, .user = l, .level = LARDER_LOG_WARNING };
	r = local_open_node(l, o);
	if (!r)
		r = local_open_client(l);
	if (r) {
		(void)snprintf(error, 256, "%s", l->error[0] ? l->error : strerror(-r));
		local_close(&l->store);
		return r;
	}
	*ret = &l->store;
	return 0;
}
