/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call fails in. Each prepares with nothing in its way, arms, and does a part of a node's
 * and a client's life; fault.c then has it verified.
 */
#include <stdlib.h>
#include <string.h>

#include "world.h"

static uint8_t scenario_room[WORLD_VALUE_MAX];

static void scenario_open(struct world *w)
{
	world_arm(w);
	world_up(w);
	world_put(w, 0);
	world_get(w, 0, scenario_room, sizeof(scenario_room));
	world_disarm(w);
}

static void scenario_put(struct world *w)
{
	world_up(w);
	world_arm(w);
	world_put(w, 0);
	world_put(w, 2);
	world_put(w, 3);
	world_put(w, 0);
	world_disarm(w);
}

static void scenario_parts_commit(struct world *w, unsigned key)
{
	struct larder_put_stream *s = NULL;
	uint32_t len, half;
	const uint8_t *value = world_value(key, &len);
	int r;

	half = LARDER_CHECK_BLOCK;	/* a part begins where a check block does */
	world_ask();
	r = larder_put_begin(w->client, w->ns, world_key(key), strlen(world_key(key)), len, 0, &s);
	if (!world_answer(w, "larder_put_begin", r))
		return;
	world_ask();
	r = larder_put_part(s, half, value + half, len - half);
	(void)world_answer(w, "larder_put_part", r);
	world_ask();
	(void)world_answer(w, "larder_put_part", larder_put_part(s, 0, value, half));
	w->key[key] = KEY_MAYBE;
	world_ask();
	r = larder_put_commit(s);
	if (r == LARDER_EXISTS_SAME || world_answer(w, "larder_put_commit", r))
		w->key[key] = KEY_THERE;
}

static void scenario_parts(struct world *w)
{
	struct larder_put_stream *s = NULL;
	uint32_t len;
	const uint8_t *value = world_value(6, &len);
	int r;

	world_up(w);
	world_arm(w);
	scenario_parts_commit(w, 3);
	world_ask();
	r = larder_put_begin(w->client, w->ns, world_key(6), strlen(world_key(6)), len, 0, &s);
	if (world_answer(w, "larder_put_begin", r)) {
		world_ask();
		(void)world_answer(w, "larder_put_part", larder_put_part(s, 0, value, 100));
		world_ask();
		(void)world_answer(w, "larder_put_abort", larder_put_abort(s));
	}
	world_disarm(w);
}

static void scenario_range(struct world *w, unsigned key, uint64_t at, uint64_t length)
{
	struct iovec iov = { scenario_room, length };
	struct larder_item item = { .key = world_key(key), .key_len = strlen(world_key(key)),
				    .iov = &iov, .iovcnt = 1, .offset = at, .length = length };
	struct larder_batch b = { .opcode = LARDER_OP_GET, .ns = w->ns, .items = &item,
				  .n_items = 1 };
	uint32_t len;
	const uint8_t *value = world_value(key, &len);

	world_ask();
	if (world_answer(w, "GET of a range", larder_run(w->client, &b)) &&
	    memcmp(scenario_room, value + at, length) != 0)
		world_fail(w, "GET of a range: wrong bytes");
}

static void scenario_get(struct world *w)
{
	world_up(w);
	world_put(w, 0);
	world_put(w, 2);
	world_put(w, 3);
	world_arm(w);
	world_get(w, 0, scenario_room, sizeof(scenario_room));
	world_get(w, 3, scenario_room, sizeof(scenario_room));
	scenario_range(w, 2, 1000, 60000);
	world_get(w, 7, scenario_room, sizeof(scenario_room));
	world_disarm(w);
}

static bool scenario_count(void *user, const void *key, size_t key_len,
			   const struct larder_stat *st)
{
	(*(unsigned *)user)++;
	return true;
}

static bool scenario_count_ns(void *user, const struct larder_ns_info *i)
{
	(*(unsigned *)user)++;
	return true;
}

static void scenario_release(struct world *w, unsigned key)
{
	struct larder_item item = { .key = world_key(key), .key_len = strlen(world_key(key)) };
	struct larder_batch b = { .opcode = LARDER_OP_RELEASE, .ns = w->ns, .items = &item,
				  .n_items = 1, .lease_id = WORLD_LEASE };
	int r;

	w->leased[key] = false;		/* if it fails it may or may not be */
	world_ask();
	r = larder_run(w->client, &b);
	if (r != LARDER_NOT_FOUND || !inject_fired())	/* the library may have sent it twice */
		(void)world_answer(w, "RELEASE", r);
}

static void scenario_second_space(struct world *w)
{
	uint64_t objects = 0, bytes = 0;
	unsigned n = 0;
	uint32_t ns;
	int r;

	world_ask();
	if (!world_answer(w, "larder_ns_open", larder_ns_open(w->client, "other", NULL,
							      LARDER_NS_CREATE, 0, &ns)))
		return;
	world_ask();
	r = larder_ns_list(w->client, scenario_count_ns, &n, 0);
	(void)world_answer(w, "larder_ns_list", r);
	world_ask();
	(void)world_answer(w, "larder_ns_flush",
			   larder_ns_flush(w->client, ns, false, 0, &objects, &bytes));
}

static void scenario_keys(struct world *w)
{
	struct larder_stat st;
	uint64_t cursor = 0;
	unsigned n = 0;

	world_up(w);
	for (unsigned k = 0; k < 4; k++)
		world_put(w, k);
	world_arm(w);
	world_exists(w, 0, true);
	world_exists(w, 1, true);
	world_exists(w, 7, false);
	scenario_release(w, 1);
	world_ask();
	(void)world_answer(w, "larder_stat", larder_stat(w->client, w->ns, world_key(2),
							 strlen(world_key(2)), 0, 0, &st));
	world_ask();
	(void)world_answer(w, "larder_list", larder_list(w->client, w->ns, "key", 3, &cursor, 10,
							 scenario_count, &n, 0));
	world_delete(w, 2);
	scenario_second_space(w);
	world_disarm(w);
}

static void scenario_region_use(struct world *w, struct larder_region *r, unsigned key)
{
	uint32_t len;
	const uint8_t *value = world_value(key, &len);

	memcpy(larder_region_addr(r), value, len);
	world_put_from(w, key, larder_region_addr(r));
	world_get(w, key, larder_region_addr(r), (uint32_t)larder_region_size(r));
	world_ask();
	(void)world_answer(w, "larder_region_renew", larder_region_renew(r));
	world_get(w, key, larder_region_addr(r), (uint32_t)larder_region_size(r));
	world_ask();
	if (!world_answer(w, "larder_region_free", larder_region_free(r)))
		world_fail(w, "larder_region_free: does not take it back");
}

static void scenario_region(struct world *w)
{
	struct larder_region *r = NULL;

	world_up(w);
	world_arm(w);
	world_ask();
	if (world_answer(w, "larder_region_alloc", larder_region_alloc(w->client, 128u << 10, 0,
								       &r)))
		scenario_region_use(w, r, 2);
	world_ask();
	if (world_answer(w, "larder_region_register",
			 larder_region_register(w->client, scenario_room, 64u << 10, &r)))
		scenario_region_use(w, r, 8);
	world_disarm(w);
}

static void scenario_prepare(struct world *w)
{
	world_up(w);
	for (unsigned k = 0; k < 4; k++)
		world_put(w, k);
	world_exists(w, 1, true);
	world_delete(w, 0);
}

static void scenario_recover(struct world *w)
{
	scenario_prepare(w);
	world_node_down(w);
	world_arm(w);
	world_memory(w);
	world_node(w);
	world_get(w, 3, scenario_room, sizeof(scenario_room));
	world_get(w, 1, scenario_room, sizeof(scenario_room));
	world_delete(w, 1);
	world_disarm(w);
}

static void scenario_drain(struct world *w)
{
	scenario_prepare(w);
	world_arm(w);
	larder_node_drain(w->node, true);
	w->draining = true;
	world_put(w, 5);
	world_get(w, 2, scenario_room, sizeof(scenario_room));
	for (unsigned i = 0; !larder_node_is_drained(w->node); i++) {
		if (i == 100)
			world_fail(w, "it is never drained");
		world_run(w, 100);
	}
	larder_close(TAKE_PTR(w->client));
	world_run(w, 10);
	world_node_down(w);
	world_disarm(w);
	w->draining = false;
}

/* With a thread of its own; there is no node. */
static void scenario_thread(struct world *w)
{
	struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;
	struct larder_client *c = NULL;
	int r;

	o.url = "tcp://localhost:1";
	o.tenant = "demo";
	o.secret = "secret";
	o.secret_len = 6;
	o.log = &w->log;
	world_arm(w);
	world_ask();
	r = larder_open(&o, &c);
	if (world_answer(w, "larder_open", r))
		larder_close(c);
	world_disarm(w);
}

const struct scenario scenarios[] = {
	{ "open", "loop tcp shm", scenario_open },
	{ "put", "loop tcp shm", scenario_put },
	{ "parts", "loop tcp shm", scenario_parts },
	{ "get", "loop tcp shm", scenario_get },
	{ "keys", "loop tcp shm", scenario_keys },
	{ "region", "loop tcp shm", scenario_region },
	{ "recover", "loop tcp shm", scenario_recover },
	{ "drain", "loop tcp shm", scenario_drain },
	{ "thread", "tcp", scenario_thread },
	{ NULL, NULL, NULL },
};
