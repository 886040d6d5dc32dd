/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coming up and going down. A step that fails says so in words, leaves nothing behind, and works
 * when it is tried again.
 */
#include <errno.h>
#include <string.h>

#include "world.h"

static int step_memory(struct world *w)
{
	const struct larder_memory_config c = {
		.dir = w->memory_dir,
		.create_dir = true,
		.pages = WORLD_PAGES,
		.page_size_bytes = WORLD_PAGE,
		.records = 256,
		.leases = 64,
		.namespaces = 8,
		.log = &w->log,
	};

	return larder_memory_open(&c, &w->memory);
}

static int step_node(struct world *w)
{
	struct larder_node_config c;

	larder_node_config_defaults(&c);
	c.memory = w->memory;
	c.environment = &w->env;
	c.log = &w->log;
	c.boot_id = "fault";
	c.shards = 2;
	c.max_value_bytes = 1u << 20;
	c.lease_max_ms = 3600u * 1000;
	c.max_connections = 8;
	c.max_unauthenticated = 4;
	c.handshake_timeout_ms = 1000;
	c.keepalive_ms = 3000;
	c.stall_timeout_ms = 1000;
	c.credits = 8;
	c.max_regions = 8;
	return larder_node_open(&c, &w->node);
}

static int step_tenant(struct world *w)
{
	return larder_node_tenant_add(w->node, "demo", "secret", 6, NULL, 0);
}

static int step_listen(struct world *w)
{
	return larder_node_listen(w->node, w->url);
}

static int step_client(struct world *w)
{
	struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;

	o.url = w->url;
	o.tenant = "demo";
	o.secret = "secret";
	o.secret_len = 6;
	o.deadline_ms = WORLD_CALL_MS;
	o.connect_timeout_ms = 500;
	o.bounce_bytes = 1u << 20;
	o.log = &w->log;
	return larder_open_stepped(&o, &w->env, world_step, w, &w->client);
}

/* Where the words are: in a line of the log, in larder_last_error, or -errno says it all. */
enum step_words {
	WORDS_LOGGED,
	WORDS_LAST_ERROR,
	WORDS_NONE,
};

static void step_try(struct world *w, const char *what, int (*step)(struct world *w),
		     enum step_words words)
{
	unsigned lines = w->lines, fds = books_fds();
	struct books before, after;
	int r;

	books_get(&before);
	world_ask();
	r = step(w);
	if (r == 0)
		return;
	if (!inject_fired() || inject_harmless())
		world_fail(w, "%s: fails for no reason: %s", what, strerror(-r));
	if (r > 0)
		world_fail(w, "%s: answers %d", what, r);
	if (words == WORDS_LOGGED && w->lines == lines)
		world_fail(w, "%s: %s, and no line says why", what, strerror(-r));
	if (words == WORDS_LAST_ERROR)
		(void)world_answer(w, what, r);
	books_get(&after);
	if (after.allocations != before.allocations || after.mapped_bytes != before.mapped_bytes ||
	    books_fds() != fds)
		world_fail(w, "%s: failed and left %lld allocations, %lld bytes mapped, %d "
			   "descriptors", what, (long long)(after.allocations - before.allocations),
			   (long long)(after.mapped_bytes - before.mapped_bytes),
			   (int)(books_fds() - fds));
	world_disarm(w);
	r = step(w);
	if (r < 0)
		world_fail(w, "%s: fails again with nothing in its way: %s", what, strerror(-r));
}

void world_memory(struct world *w)
{
	step_try(w, "larder_memory_open", step_memory, WORDS_LOGGED);
}

void world_node(struct world *w)
{
	step_try(w, "larder_node_open", step_node, WORDS_LOGGED);
	step_try(w, "larder_node_tenant_add", step_tenant, WORDS_NONE);
	step_try(w, "larder_node_listen", step_listen, WORDS_LOGGED);
}

void world_client(struct world *w)
{
	int r;

	step_try(w, "larder_open_stepped", step_client, WORDS_LAST_ERROR);
	world_ask();
	r = larder_ns_open(w->client, "blocks", NULL, LARDER_NS_CREATE, 0, &w->ns);
	for (unsigned i = 0; !world_answer(w, "larder_ns_open", r); i++) {
		if (i == 50)
			world_fail(w, "larder_ns_open: never works again: %d", r);
		world_run(w, 100);
		r = larder_ns_open(w->client, "blocks", NULL, LARDER_NS_CREATE, 0, &w->ns);
	}
}

void world_up(struct world *w)
{
	world_memory(w);
	world_node(w);
	world_client(w);
}

void world_node_down(struct world *w)
{
	larder_node_close(TAKE_PTR(w->node));
	larder_memory_close(TAKE_PTR(w->memory));
}
