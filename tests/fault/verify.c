/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the fault: the same handle works again, what was acknowledged is there with its bytes, now
 * and after a restart of the node over the same memory, and nothing is held that nobody needs.
 */
#include <string.h>

#include "base/clock.h"
#include "world.h"

static void verify_heal(struct world *w)
{
	int r = larder_ping(w->client, 0);

	for (unsigned i = 0; r != LARDER_OK; i++) {
		if (i == 50)
			world_fail(w, "the handle never works again: %d", r);
		world_run(w, 100);
		r = larder_ping(w->client, 0);
	}
}

/* What a call without a clear word did is seen here, and is so from now on. */
static void verify_key(struct world *w, unsigned key)
{
	static uint8_t into[WORLD_VALUE_MAX];
	size_t got = 0;
	uint32_t len;
	const uint8_t *value = world_value(key, &len);
	int r = larder_get(w->client, w->ns, world_key(key), strlen(world_key(key)), into,
			   sizeof(into), &got, 0);

	if (r == LARDER_NOT_FOUND) {
		if (w->key[key] == KEY_THERE)
			world_fail(w, "%s is lost, and it was acknowledged", world_key(key));
		w->key[key] = KEY_ABSENT;
		return;
	}
	if (r != LARDER_OK)
		world_fail(w, "%s can not be read: %s", world_key(key), larder_status_name(r));
	if (w->key[key] == KEY_ABSENT)
		world_fail(w, "%s is there, and nobody put it", world_key(key));
	if (got != len || memcmp(into, value, len) != 0)
		world_fail(w, "%s has wrong bytes", world_key(key));
	w->key[key] = KEY_THERE;
}

static void verify_keys(struct world *w)
{
	for (unsigned k = 0; k < WORLD_KEYS; k++)
		verify_key(w, k);
}

static void verify_held(struct world *w, uint64_t connections)
{
	struct larder_node_stats s;
	uint64_t pages = 0, objects = 0;

	for (unsigned k = 0; k < WORLD_KEYS; k++) {
		uint32_t len;

		(void)world_value(k, &len);
		if (w->key[k] != KEY_THERE)
			continue;
		pages += (len + WORLD_PAGE - 1) / WORLD_PAGE;
		objects++;
	}
	/* a peer that was lost is noticed by its silence at the latest */
	for (unsigned ms = 0; ms < 8000; ms += 1 + ms) {
		world_run(w, 10 + ms);
		larder_node_get_stats(w->node, &s);
		if (s.connections == connections && s.requests == 0 && s.filling == 0 &&
		    s.references == 0)
			break;
	}
	if (s.connections != connections || s.unauthenticated || s.requests || s.filling ||
	    s.references || s.parked)
		world_fail(w, "the node holds %lu connections (%lu unknown), %lu requests, %lu "
			   "fills, %lu references, %lu parked", s.connections, s.unauthenticated,
			   s.requests, s.filling, s.references, s.parked);
	if (s.objects != objects || s.pages_free + pages != WORLD_PAGES)
		world_fail(w, "%lu objects for %lu, %lu pages free of %u and %lu are used",
			   s.objects, objects, s.pages_free, WORLD_PAGES, pages);
	if (connections == 0 && (s.regions || s.region_bytes))
		world_fail(w, "the node holds %lu regions", s.regions);
}

static void verify_leases(struct world *w)
{
	for (unsigned k = 0; k < WORLD_KEYS; k++)
		if (w->leased[k] && w->key[k] == KEY_THERE)
			world_delete(w, k);	/* BUSY, or it fails */
}

static void verify_empty(struct world *w)
{
	struct larder_node_stats s;
	int r = larder_ns_flush(w->client, w->ns, true, 0, NULL, NULL);

	if (r != LARDER_OK)
		world_fail(w, "larder_ns_flush: %d", r);
	memset(w->key, 0, sizeof(w->key));
	larder_node_get_stats(w->node, &s);
	if (s.records_free != s.memory.records)
		world_fail(w, "%lu records free of %u, and no object is left", s.records_free,
			   s.memory.records);
}

void world_verify(struct world *w)
{
	if (w->node) {
		verify_heal(w);
		verify_keys(w);
		verify_held(w, 1);
		world_put(w, 9);
		if (w->key[9] != KEY_THERE)
			world_fail(w, "a put does not work again");
		world_node_down(w);
	}
	world_memory(w);
	world_node(w);
	if (!w->client)
		world_client(w);
	verify_heal(w);
	verify_keys(w);
	verify_leases(w);
	verify_keys(w);
	verify_empty(w);
	larder_close(TAKE_PTR(w->client));
	verify_held(w, 0);
	world_node_down(w);
}
