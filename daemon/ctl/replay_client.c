/* SPDX-License-Identifier: Apache-2.0 */
/* The store over a client handle: a node elsewhere, or on this machine. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "ctl/replay.h"
#include "ctl/util.h"

struct replay_client {
	struct replay_store store;
	struct larder_client *client;
};

static struct larder_client *replay_client_of(struct replay_store *s)
{
	return container_of(s, struct replay_client, store)->client;
}

static int replay_client_run(struct replay_store *s, struct larder_batch *b)
{
	return larder_run(replay_client_of(s), b);
}

static int replay_client_submit(struct replay_store *s, struct larder_batch *b)
{
	return larder_submit(replay_client_of(s), b);
}

static int replay_client_wait(struct replay_store *s, struct larder_batch **done, int max)
{
	struct larder_client *c = replay_client_of(s);

	for (;;) {
		int n = larder_poll(c, done, max);
		struct pollfd p = { larder_event_fd(c), POLLIN, 0 };

		if (n)
			return n;
		/* the library gives each batch back by its deadline: this wait is bounded by it */
		if (poll(&p, 1, 1000) < 0 && errno != EINTR)
			return -errno;
	}
}

static int replay_client_set_time(struct replay_store *s, uint64_t ms)
{
	return 0;
}

static void replay_client_close(struct replay_store *s)
{
	free(container_of(s, struct replay_client, store));	/* the handle is the caller's */
}

static const struct replay_store_ops replay_client_ops = {
	.run = replay_client_run,
	.submit = replay_client_submit,
	.wait = replay_client_wait,
	.set_time = replay_client_set_time,
	.close = replay_client_close,
};

struct replay_store *replay_client_open(struct larder_client *c, uint32_t ns)
{
	struct replay_client *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->store = (struct replay_store){ &replay_client_ops, ns };
	r->client = c;
	return &r->store;
}
