/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the record file to a working engine: which objects are there, in which order they would be
 * evicted, which are leased.
 *
 * The record module has checked every record and claimed its pages by the time an object is told.
 * Here the objects are sorted by what their policy's order follows (the last touch, or the order in
 * which they came) and put into the policy's lists oldest first, which is the order that was lost.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine_internal.h"

#define REBUILD_AHEAD 16u

struct rebuild_item {
	uint64_t order;
	uint64_t generation;
	uint32_t slot;
};

struct rebuild_now {
	uint64_t ns, wall_ms;
};

struct rebuild_order {
	struct engine *engine;
	struct rebuild_item *items;
	size_t n;
};

static void rebuild_found(void *user, uint32_t slot)
{
	struct rebuild_order *b = user;
	const struct record *record = engine_record(b->engine, slot);

	b->items[b->n++] = (struct rebuild_item){
		.order = b->engine->policy->by_touch ? record->last_ns : record->generation,
		.generation = record->generation,
		.slot = slot,
	};
	/* its pages are claimed: from here on they go with the object */
	b->engine->objects[slot].size_pages = arena_pages_of(b->engine->page_size, record->length);
}

static int rebuild_compare(const void *a, const void *b)
{
	const struct rebuild_item *x = a, *y = b;

	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	return x->generation < y->generation ? -1 : x->generation > y->generation;
}

/*
 * Tells the policy again what became of the object: it came, and was touched last a while later.
 * The record keeps the wall clock for the first and the monotonic one for the second; where the two
 * disagree it came when it was touched.
 */
static void rebuild_retell(struct engine *e, uint32_t slot, uint32_t shard,
			   const struct rebuild_now *now)
{
	const struct record *record = engine_record(e, slot);
	uint64_t last = record->last_ns, came = last;
	struct policy_place place;

	if (record->hits && record->commit_time_ms <= now->wall_ms) {
		uint64_t age = (now->wall_ms - record->commit_time_ms) * NSEC_PER_MSEC;

		came = MIN(last, age < now->ns ? now->ns - age : 0);
	}
	place = engine_place(e, e->objects[slot].tenant, shard, came);
	e->policy->on_insert(&place, slot);
	place.now_ns = last;
	if (record->hits)
		e->policy->on_hit(&place, slot);
	engine_pin_rebuild(e, slot, &place);
}

/* Puts one object into index and policy. False: its key is there already, it is the older one. */
static bool rebuild_enter(struct engine *e, uint32_t slot, const struct rebuild_now *now)
{
	struct engine_object *o = &e->objects[slot];
	const struct record *record = engine_record(e, slot);
	uint8_t key[LARDER_KEY_MAX];
	uint16_t len = records_key(e->records, slot, key);
	struct engine_key k = { .hash = engine_hash(e, record->ns, key, len), .key = key,
				.ns = record->ns, .len = len };
	bool ambiguous;

	o->tenant = (uint8_t)record->tenant;
	o->flags = record->expire_ns ? OBJECT_TTL : 0;
	engine_resident(e, record->tenant, o->size_pages);
	k.shard = engine_shard_of(e, k.hash);
	if (engine_index_find(e, &k, &ambiguous) != RECORD_NONE)
		return false;
	o->hash = k.hash;
	engine_set_state(o, RECORD_COMMITTED);
	engine_index_insert(e, slot);
	rebuild_retell(e, slot, k.shard, now);
	engine_listed(e, slot, 1);
	engine_objects_add(e, record->tenant, 1);
	engine_tally(&e->reactor[0].counters.objects, 1);
	return true;
}

/* Two records of one key can't come from us. Whichever it is, only one may be served. */
static void rebuild_drop(struct engine *e, uint32_t slot)
{
	struct engine_reactor *r = &e->reactor[0];

	log_warning(e->log, "engine: object in slot %u dropped: its key is there twice", slot);
	e->rebuilt.objects--;
	e->rebuilt.bytes -= engine_record(e, slot)->length;
	e->rebuilt.dropped_bad++;
	engine_set_state(&e->objects[slot], RECORD_DOOMED);
	engine_tally(&r->counters.doomed, 1);
	engine_object_free(r, slot);
}

static void rebuild_fetch_ahead(const struct engine *e, const struct rebuild_order *b, size_t i)
{
	const char *record;

	if (i >= b->n)
		return;
	record = (const char *)engine_record(e, b->items[i].slot);
	for (unsigned line = 0; line < 3; line++)
		__builtin_prefetch(record + line * CACHE_LINE);
	__builtin_prefetch(&e->objects[b->items[i].slot], 1);
}

int engine_rebuild(struct engine *e, uint64_t now)
{
	_cleanup_free_ struct rebuild_item *items = calloc(e->capacity, sizeof(*items));
	struct rebuild_order b = { .engine = e, .items = items };
	const struct rebuild_now t = { .ns = now, .wall_ms = clock_wall_ms(e->clock) };
	uint64_t from;
	int rc;

	if (!items)
		return -ENOMEM;
	from = clock_now(e->clock);
	rc = records_rebuild(e->records, e->arena, now, rebuild_found, &b, e->log, &e->rebuilt);
	if (rc == 0)
		rc = engine_directory_init(e);
	if (rc < 0)
		return rc;
	qsort(items, b.n, sizeof(*items), rebuild_compare);
	for (size_t i = 0; i < b.n; i++) {
		rebuild_fetch_ahead(e, &b, i + REBUILD_AHEAD);
		if (!rebuild_enter(e, items[i].slot, &t))
			rebuild_drop(e, items[i].slot);
	}
	for (uint32_t i = 0; i < e->n_tenants; i++)
		memset(e->tenants[i].policy.hits, 0, sizeof(e->tenants[i].policy.hits));
	engine_leases_rebuild(e);
	log_info(e->log, "engine: %" PRIu64 " objects rebuilt in %" PRIu64 " ms",
		 e->rebuilt.objects, (uint64_t)((clock_now(e->clock) - from) / NSEC_PER_MSEC));
	return 0;
}
