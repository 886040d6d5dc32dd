/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant is thrown away: its objects, whatever is leased or pinned, the leases that it holds on
 * others' objects, its namespaces, what it shares and may read, and last its name. A bounded part
 * per call, so that it is done beside everything else.
 *
 * Nobody acts as the tenant any more, so what it has can only become less: objects that are read
 * (by who it was shared with) or that were being written when it left go by themselves. Nothing
 * carries its id when the name goes, and the directory does not give the id out again before the
 * next start; who dies in between finds the tenant with less in it, to be purged again.
 */
#include <errno.h>

#include "engine/engine_internal.h"

#define PURGE_LEASES_PER_TURN 1024u
#define PURGE_NAMESPACES_PER_TURN 64u

enum purge_stage {
	PURGE_OBJECTS,
	PURGE_LEASES,
	PURGE_NAMESPACES,
	PURGE_NAME,
	PURGE_DONE,
};

int engine_purge_begin(struct engine *e, const char *name, struct engine_purge *ret)
{
	*ret = (struct engine_purge){ .stage = PURGE_OBJECTS };
	return records_tenant_find(e->records, name, &ret->tenant);
}

static void purge_slot(struct engine_reactor *r, struct engine_purge *p, uint32_t slot)
{
	struct engine *e = r->engine;
	uint32_t shard;
	bool free;

	if (!engine_lock_object(e, slot, p->tenant, &shard))
		return;
	p->objects++;
	p->bytes += engine_record(e, slot)->length;
	free = engine_doom(r, slot, END_DELETED);
	engine_unlock(e, shard);
	if (free)
		engine_object_free(r, slot);
}

/* True: it has none, in whatever state. */
static bool purge_objects(struct engine_reactor *r, struct engine_purge *p)
{
	struct engine *e = r->engine;
	const struct engine_tenant *t = &e->tenants[p->tenant];
	uint64_t end = MIN((uint64_t)p->at + ENGINE_SLOTS_PER_TURN, (uint64_t)e->capacity);

	/* else what is left is held by a reader or a writer: no use in looking */
	if (__atomic_load_n(&t->listed, __ATOMIC_RELAXED) || p->at)
		for (; p->at < end; p->at++)
			purge_slot(r, p, p->at);
	if (p->at == e->capacity)
		p->at = 0;
	return p->at == 0 && !__atomic_load_n(&t->listed, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&t->resident_pages, __ATOMIC_ACQUIRE);
}

/* 1: all are gone; 0: not yet; -EBUSY: there is an object after all. */
static int purge_namespaces(struct engine *e, struct engine_purge *p)
{
	uint32_t end = MIN(p->at + PURGE_NAMESPACES_PER_TURN, e->n_namespaces);

	for (; p->at < end; p->at++)
		if (engine_namespace_retire(e, p->tenant, p->at) == LARDER_BUSY)
			return -EBUSY;
	return p->at == e->n_namespaces;
}

static void purge_name(struct engine *e, uint32_t tenant)
{
	const struct larder_limits none = { 0 };

	engine_tenant_set_limits(e, tenant, &none);
	(void)pthread_mutex_lock(&e->control);
	engine_readers_forget(e, tenant);
	records_tenant_retire(e->records, tenant);
	(void)pthread_mutex_unlock(&e->control);
}

bool engine_purge_turn(struct engine_reactor *r, struct engine_purge *p)
{
	struct engine *e = r->engine;
	bool over = false;
	int n;

	switch ((enum purge_stage)p->stage) {
	case PURGE_OBJECTS:
		over = purge_objects(r, p);
		break;
	case PURGE_LEASES:
		over = engine_lease_drop_tenant(e, p->tenant, &p->at, PURGE_LEASES_PER_TURN);
		break;
	case PURGE_NAMESPACES:
		n = purge_namespaces(e, p);
		if (n < 0) {
			p->stage = PURGE_OBJECTS;
			p->at = 0;
		}
		over = n > 0;
		break;
	case PURGE_NAME:
		purge_name(e, p->tenant);
		over = true;
		break;
	case PURGE_DONE:
		break;
	}
	if (over) {
		p->stage++;
		p->at = 0;
	}
	return p->stage == PURGE_DONE;
}
