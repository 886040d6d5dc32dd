/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the client and what is known after each. See world.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

static const uint32_t calls_size[WORLD_KEYS] = { 100,  4096, 70000, WORLD_VALUE_MAX, 262144, 1,
						 5000, 8192, 20000, 333 };

const uint8_t *world_value(unsigned key, uint32_t *ret_len)
{
	static uint8_t value[WORLD_KEYS][WORLD_VALUE_MAX];
	static bool made;

	for (unsigned k = 0; !made && k < WORLD_KEYS; k++)
		for (uint32_t i = 0; i < WORLD_VALUE_MAX; i++)
			value[k][i] = (uint8_t)(k * 37 + i * 7 + (i >> 8) + 1);
	made = true;
	*ret_len = calls_size[key];
	return value[key];
}

const char *world_key(unsigned key)
{
	static const char name[WORLD_KEYS][8] = { "key-0", "key-1", "key-2", "key-3", "key-4",
						  "key-5", "key-6", "key-7", "key-8", "key-9" };

	return name[key];
}

#define CALLS_NOTHING "there is no handle"

void world_ask(void)
{
	(void)larder_ping(NULL, 0);	/* its sentence is CALLS_NOTHING */
}

/* What a failed call into the system may make of an operation. Never wrong bytes, never a word
 * about other content or another identity. */
static bool calls_may_say(const struct world *w, int status)
{
	switch (status) {
	case LARDER_DISCONNECTED:
	case LARDER_DEADLINE:
	case LARDER_IO:
	case LARDER_INTERNAL:
	case LARDER_NO_SPACE:
	case LARDER_BUSY:
	case LARDER_CANCELLED:
		return true;
	case LARDER_DRAINING:
		return w->draining;
	default:
		return false;
	}
}

bool world_answer(struct world *w, const char *what, int r)
{
	const char *said = larder_last_error();

	if (r == LARDER_OK)
		return true;
	if (r == LARDER_DRAINING && w->draining)
		return false;
	if (!inject_fired())
		world_fail(w, "%s: fails for no reason: %s", what,
			   r < 0 ? strerror(-r) : larder_status_name(r));
	if (inject_harmless())
		world_fail(w, "%s: fails for what is no failure: %s", what,
			   r < 0 ? strerror(-r) : larder_status_name(r));
	if (r > 0 && !calls_may_say(w, r))
		world_fail(w, "%s: says %s", what, larder_status_name(r));
	if (strcmp(said, CALLS_NOTHING) == 0 || strcmp(said, "no error") == 0 || !said[0])
		world_fail(w, "%s: %s, and no sentence says why", what,
			   r < 0 ? strerror(-r) : larder_status_name(r));
	return false;
}

void world_put_from(struct world *w, unsigned key, const void *from)
{
	enum key_state before = w->key[key];
	uint32_t len;
	int r;

	(void)world_value(key, &len);
	if (before == KEY_ABSENT)
		w->key[key] = KEY_MAYBE;
	world_ask();
	r = larder_put(w->client, w->ns, world_key(key), strlen(world_key(key)), from, len, 0);
	if (r == LARDER_EXISTS_SAME) {
		/* the library may have sent it twice */
		if (before == KEY_ABSENT && !inject_fired())
			world_fail(w, "put of %s: it was there already", world_key(key));
		w->key[key] = KEY_THERE;
	} else if (world_answer(w, "larder_put", r)) {
		if (before == KEY_THERE)
			world_fail(w, "put of %s: it was not there any more", world_key(key));
		w->key[key] = KEY_THERE;
	}
}

void world_put(struct world *w, unsigned key)
{
	uint32_t len;

	world_put_from(w, key, world_value(key, &len));
}

void world_get(struct world *w, unsigned key, void *into, uint32_t room)
{
	size_t got = 0;
	uint32_t len;
	const uint8_t *value = world_value(key, &len);
	int r;

	memset(into, 0xee, room);
	world_ask();
	r = larder_get(w->client, w->ns, world_key(key), strlen(world_key(key)), into, room, &got,
		       0);
	if (r == LARDER_NOT_FOUND) {
		if (w->key[key] == KEY_THERE)
			world_fail(w, "get of %s: lost, and it was acknowledged", world_key(key));
		return;
	}
	if (!world_answer(w, "larder_get", r))
		return;
	if (w->key[key] == KEY_ABSENT)
		world_fail(w, "get of %s: found, and it is not there", world_key(key));
	if (got != len || memcmp(into, value, len) != 0)
		world_fail(w, "get of %s: wrong bytes", world_key(key));
}

void world_delete(struct world *w, unsigned key)
{
	int r;

	world_ask();
	r = larder_delete(w->client, w->ns, world_key(key), strlen(world_key(key)), 0, 0);
	if (r == LARDER_BUSY && w->leased[key])
		return;
	if (w->leased[key] && r == LARDER_OK)
		world_fail(w, "delete of %s: done, and it is leased", world_key(key));
	if (r == LARDER_NOT_FOUND && w->key[key] == KEY_THERE && !inject_fired())
		world_fail(w, "delete of %s: it was lost", world_key(key));
	if (r == LARDER_NOT_FOUND || world_answer(w, "larder_delete", r))
		w->key[key] = KEY_ABSENT;
	else
		w->key[key] = w->key[key] == KEY_ABSENT ? KEY_ABSENT : KEY_MAYBE;
}

void world_exists(struct world *w, unsigned key, bool lease)
{
	struct larder_item item = { .key = world_key(key), .key_len = strlen(world_key(key)) };
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .ns = w->ns, .items = &item,
				  .n_items = 1 };
	int r;

	if (lease) {
		b.flags = LARDER_F_LEASE;
		b.lease_id = WORLD_LEASE;
		b.lease_ms = 1800u * 1000;
	}
	world_ask();
	r = larder_run(w->client, &b);
	if (r == LARDER_NOT_FOUND) {
		if (w->key[key] == KEY_THERE)
			world_fail(w, "exists of %s: lost, and it was acknowledged",
				   world_key(key));
		return;
	}
	if (world_answer(w, "EXISTS", r) && item.presence == LARDER_LEASED)
		w->leased[key] = true;
}
