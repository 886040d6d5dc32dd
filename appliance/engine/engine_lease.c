/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases. The stored table (mem/records.h) is what survives; beside it, entry by entry, stands what
 * makes it quick: three ways to find a lease and a heap of deadlines.
 *
 *	by key		(tenant, id, object): is this a repetition?
 *	by id		(tenant, id): RELEASE without keys
 *	by object	a group per leased object, to know the longest lease that is left
 *
 * A group, not the object, is what a lease points to. When an object ends under its leases (only
 * FORCE does that, or leases that ran out), its group is cut off in one step and its leases go
 * when their time comes or their id is released; the slot's next object has another group.
 *
 * A tenant's leased_bytes: its own object counts once, whatever number of leases it has on it;
 * another's object counts with each. A lease that holds nothing any more counts nothing.
 *
 * No tenant has more than half of the table, and no more than half of what a tenant may have is
 * lent (leased by others), or who may only read could keep its owner from writing.
 *
 * One lock for all of it, below the shards' locks. A lease is only added under the object's shard
 * lock. The record's lease word is written under the leases' lock, and only while the group is
 * attached, which is what lets a lease end, or all of them move, without the shard's lock. Readers
 * of the word (eviction, delete, ttl) hold the shard's lock, so that no lease can be added between
 * their look and what they do.
 */
#include <errno.h>

#include "base/log.h"
#include "engine/engine_internal.h"
#include "engine/fill.h"

#define LEASES_PER_OBJECT 4096u		/* bounds the look for the longest that is left */
#define LEASES_EXPIRE_MAX 1024u		/* looked for room in a full table or budget */

struct lease_links {
	uint32_t prev, next;		/* index + 1, 0 = none */
};

struct lease_entry {
	struct lease_links by_id, by_object;
	uint32_t by_key;		/* next in the bucket */
	uint32_t group;
};

struct lease_group {
	uint32_t slot;		/* RECORD_NONE: the object has ended; free groups: next free */
	uint32_t first, count;
	uint32_t own;		/* of them, the owner's */
	bool lent;		/* others have some: counted with the owner */
};

struct engine_leases {
	pthread_mutex_t lock;
	struct lease_record *records;	/* the stored table */
	uint32_t capacity;
	struct lease_entry *entries;
	struct lease_group *groups;
	uint32_t free_group;		/* index + 1 */
	uint32_t *key_buckets, *id_buckets;
	uint32_t mask;
	uint64_t salt;
	struct heap deadlines;
	uint64_t first_ns;		/* atomic: the earliest deadline */
	uint64_t forgiven_ns;		/* gaps before this time are dealt with */
};

static void leases_lock(struct engine_leases *l)
{
	(void)pthread_mutex_lock(&l->lock);	/* can't fail: not recursive, not robust */
}

static void leases_unlock(struct engine_leases *l)
{
	__atomic_store_n(&l->first_ns, heap_first(&l->deadlines), __ATOMIC_RELAXED);
	(void)pthread_mutex_unlock(&l->lock);
}

/* Ids are chosen by clients: the salt keeps them from choosing a bucket too. */
static uint32_t lease_mix(const struct engine_leases *l, uint32_t what, uint64_t id)
{
	uint64_t h = (id ^ l->salt) * 0x9e3779b97f4a7c15u;

	h = (h ^ h >> 32 ^ what) * 0xd6e8feb86659fd93u;
	h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
	return (uint32_t)(h >> 32);
}

static uint32_t *lease_id_bucket(struct engine_leases *l, uint32_t tenant, uint64_t id)
{
	return &l->id_buckets[lease_mix(l, tenant, id) & l->mask];
}

static uint32_t *lease_key_bucket(struct engine_leases *l, uint32_t tenant, uint64_t id,
				  uint32_t group)
{
	return &l->key_buckets[lease_mix(l, group << 8 ^ tenant, id) & l->mask];
}

static void lease_word_set(struct engine *e, uint32_t slot, uint64_t deadline)
{
	__atomic_store_n(&engine_record(e, slot)->lease_ns, deadline, __ATOMIC_RELAXED);
}

static void lease_count(struct engine *e, uint32_t tenant, int32_t sign)
{
	struct larder_gauges *g = engine_gauges(e, tenant);

	e->tenants[tenant].leases += (uint32_t)sign;
	if (g)
		ledger_gauge_add(&g->leases, (uint64_t)(int64_t)sign);
}

/* --- groups: leases' lock held ------------------------------------------------------------ */

/* A lease of @tenant comes (1) or goes (-1): its budget. The group is attached. */
static void lease_charge(struct engine *e, struct lease_group *g, uint32_t tenant, int32_t sign)
{
	const struct record *record = engine_record(e, g->slot);
	struct larder_gauges *gauges = engine_gauges(e, tenant);
	uint64_t bytes = record->length;

	if (tenant == record->tenant) {
		g->own += (uint32_t)sign;
		if (g->own != (sign > 0 ? 1 : 0))
			return;
	}
	bytes *= (uint64_t)(int64_t)sign;
	e->tenants[tenant].leased_bytes += bytes;
	if (gauges)
		ledger_gauge_add(&gauges->leased_bytes, bytes);
}

/* The group is attached. */
static void lease_lend(struct engine *e, struct lease_group *g, bool lent)
{
	const struct engine_object *o = &e->objects[g->slot];
	struct engine_tenant *owner = &e->tenants[o->tenant];
	uint64_t objects = (uint64_t)lent - (uint64_t)g->lent;	/* 1, 0 or -1 */

	g->lent = lent;
	owner->lent_objects += objects;
	owner->lent_pages += objects * o->size_pages;
}

/* May the tenant lease so much more? If so, what can't be evicted from now on is counted. */
static bool lease_may(struct engine *e, uint32_t slot, uint32_t tenant)
{
	const struct record *record = engine_record(e, slot);
	const struct engine_tenant *t = &e->tenants[tenant];
	uint64_t max = engine_limit(t, LARDER_LIMIT_leased_bytes);
	uint32_t group = __atomic_load_n(&e->objects[slot].leases, __ATOMIC_RELAXED);
	const struct lease_group *g = group ? &e->leases->groups[group - 1] : NULL;
	bool counted = g && tenant == record->tenant && g->own;

	if (!counted && (record->length > max || t->leased_bytes > max - record->length))
		return false;
	if (tenant != record->tenant && !(g && g->lent) &&
	    !engine_lends(e, record->tenant, e->objects[slot].size_pages))
		return false;
	return g || engine_held_take(e, record->tenant,
					 &e->tenants[record->tenant].leased_pages,
					 e->objects[slot].size_pages);
}

/* The group of an object, made when it has none. There are as many groups as leases. */
static uint32_t lease_group_get(struct engine *e, uint32_t slot)
{
	struct engine_leases *l = e->leases;
	struct engine_object *o = &e->objects[slot];
	uint32_t group = __atomic_load_n(&o->leases, __ATOMIC_RELAXED);

	if (group == 0) {
		group = l->free_group;
		l->free_group = l->groups[group - 1].slot;
		l->groups[group - 1] = (struct lease_group){ .slot = slot };
		__atomic_store_n(&o->leases, group, __ATOMIC_RELAXED);
	}
	return group - 1;
}

static void lease_group_cut(struct engine *e, struct lease_group *g)
{
	const struct engine_leases *l = e->leases;
	struct engine_object *o;

	if (g->slot == RECORD_NONE)
		return;
	o = &e->objects[g->slot];
	for (uint32_t i = g->first; i; i = l->entries[i - 1].by_object.next)
		lease_charge(e, g, l->records[i - 1].tenant, -1);
	lease_lend(e, g, false);
	engine_held_give(&e->tenants[o->tenant].leased_pages, o->size_pages);
	lease_word_set(e, g->slot, 0);
	/* who finds none need not lock, and may free the object: we are done with it */
	__atomic_store_n(&o->leases, 0, __ATOMIC_RELEASE);
	g->slot = RECORD_NONE;
}

static void lease_group_put(struct engine *e, uint32_t group)
{
	struct engine_leases *l = e->leases;

	if (l->groups[group].count > 0)
		return;
	lease_group_cut(e, &l->groups[group]);
	l->groups[group].slot = l->free_group;
	l->free_group = group + 1;
}

/* The longest lease of the group is gone: which is the longest now? */
static void lease_group_shrink(struct engine *e, const struct lease_group *g)
{
	const struct engine_leases *l = e->leases;
	uint64_t longest = 0;

	for (uint32_t i = g->first; i; i = l->entries[i - 1].by_object.next)
		longest = MAX(longest, l->records[i - 1].deadline_ns);
	lease_word_set(e, g->slot, longest);
}

/* --- entries: leases' lock held ----------------------------------------------------------- */

static void lease_link(struct engine *e, uint32_t i, uint32_t group)
{
	struct engine_leases *l = e->leases;
	const struct lease_record *record = &l->records[i];
	struct lease_entry *entry = &l->entries[i];
	struct lease_group *g = &l->groups[group];
	uint32_t *key_bucket = lease_key_bucket(l, record->tenant, record->id, group);
	uint32_t *id_bucket = lease_id_bucket(l, record->tenant, record->id);

	*entry = (struct lease_entry){
		.group = group,
		.by_key = *key_bucket,
		.by_id.next = *id_bucket,
		.by_object.next = g->first,
	};
	if (entry->by_id.next)
		l->entries[entry->by_id.next - 1].by_id.prev = i + 1;
	if (entry->by_object.next)
		l->entries[entry->by_object.next - 1].by_object.prev = i + 1;
	*key_bucket = *id_bucket = g->first = i + 1;
	g->count++;
	heap_set(&l->deadlines, i, record->deadline_ns);
	if (record->deadline_ns > engine_lease_word(e, g->slot))
		lease_word_set(e, g->slot, record->deadline_ns);
	lease_count(e, record->tenant, 1);
	lease_charge(e, g, record->tenant, 1);
	lease_lend(e, g, g->count > g->own);
}

static void lease_unlink(struct engine_leases *l, uint32_t i)
{
	const struct lease_record *record = &l->records[i];
	const struct lease_entry *entry = &l->entries[i];
	uint32_t *link = lease_key_bucket(l, record->tenant, record->id, entry->group);

	while (*link != i + 1)
		link = &l->entries[*link - 1].by_key;
	*link = entry->by_key;
	if (entry->by_id.prev)
		l->entries[entry->by_id.prev - 1].by_id.next = entry->by_id.next;
	else
		*lease_id_bucket(l, record->tenant, record->id) = entry->by_id.next;
	if (entry->by_id.next)
		l->entries[entry->by_id.next - 1].by_id.prev = entry->by_id.prev;
	if (entry->by_object.prev)
		l->entries[entry->by_object.prev - 1].by_object.next = entry->by_object.next;
	else
		l->groups[entry->group].first = entry->by_object.next;
	if (entry->by_object.next)
		l->entries[entry->by_object.next - 1].by_object.prev = entry->by_object.prev;
	l->groups[entry->group].count--;
	heap_remove(&l->deadlines, i);
}

static void lease_end(struct engine *e, uint32_t i)
{
	struct engine_leases *l = e->leases;
	struct lease_record *record = &l->records[i];
	struct lease_group *g = &l->groups[l->entries[i].group];

	engine_tell_lease(e, record, g->slot, LARDER_LEASE_ENDED, 0);
	lease_unlink(l, i);
	lease_count(e, record->tenant, -1);
	if (g->slot != RECORD_NONE) {
		lease_charge(e, g, record->tenant, -1);
		lease_lend(e, g, g->count > g->own);
	}
	if (g->count && g->slot != RECORD_NONE &&
	    record->deadline_ns >= engine_lease_word(e, g->slot))
		lease_group_shrink(e, g);
	lease_group_put(e, l->entries[i].group);
	records_lease_give(e->records, record);
}

static uint32_t lease_find(struct engine_leases *l, uint32_t group, uint32_t tenant, uint64_t id)
{
	uint32_t i = *lease_key_bucket(l, tenant, id, group);

	for (; i; i = l->entries[i - 1].by_key) {
		const struct lease_record *record = &l->records[i - 1];

		if (record->id == id && record->tenant == tenant &&
		    l->entries[i - 1].group == group)
			break;
	}
	return i;
}

static void lease_extend(struct engine *e, uint32_t i, uint64_t deadline)
{
	struct engine_leases *l = e->leases;
	uint32_t slot = l->groups[l->entries[i].group].slot;

	if (deadline <= l->records[i].deadline_ns)
		return;
	__atomic_store_n(&l->records[i].deadline_ns, deadline, __ATOMIC_RELAXED);
	heap_set(&l->deadlines, i, deadline);
	if (slot != RECORD_NONE && deadline > engine_lease_word(e, slot))
		lease_word_set(e, slot, deadline);
}

static void lease_expire_locked(struct engine *e, uint64_t now, uint32_t max)
{
	struct engine_leases *l = e->leases;

	while (max-- && heap_first(&l->deadlines) <= now)
		lease_end(e, l->deadlines.entries[0].id);
}

/* An entry of the table for the tenant, or NULL. */
static struct lease_record *lease_take(struct engine *e, uint32_t tenant, uint64_t now)
{
	uint32_t most = MAX(e->leases->capacity / 2, 1u);
	const struct engine_tenant *t = &e->tenants[tenant];
	struct lease_record *record = t->leases < most ? records_lease_take(e->records) : NULL;

	if (record)
		return record;
	lease_expire_locked(e, now, LEASES_EXPIRE_MAX);
	return t->leases < most ? records_lease_take(e->records) : NULL;
}

static enum engine_leased lease_add_locked(struct engine *e, uint32_t slot, uint32_t tenant,
					   uint64_t id, uint64_t deadline, uint64_t now)
{
	struct engine_leases *l = e->leases;
	uint32_t group = __atomic_load_n(&e->objects[slot].leases, __ATOMIC_RELAXED);
	struct lease_record *record;

	if (group) {
		uint32_t i = lease_find(l, group - 1, tenant, id);

		if (i) {
			lease_extend(e, i - 1, deadline);
			engine_tell_lease(e, &l->records[i - 1], slot, LARDER_LEASE_EXTENDED, now);
			return ENGINE_LEASED;
		}
		if (l->groups[group - 1].count >= LEASES_PER_OBJECT)
			return ENGINE_LEASES_FULL;
	}
	record = lease_take(e, tenant, now);
	if (!record)
		return ENGINE_LEASES_FULL;
	if (!lease_may(e, slot, tenant)) {
		lease_expire_locked(e, now, LEASES_EXPIRE_MAX);
		if (!lease_may(e, slot, tenant)) {
			records_lease_give(e->records, record);
			return ENGINE_LEASE_OVER;
		}
	}
	record->tenant = tenant;
	record->id = id;
	record->deadline_ns = deadline;
	record->record = slot;
	record->generation = (uint32_t)engine_record(e, slot)->generation;
	lease_link(e, (uint32_t)(record - l->records), lease_group_get(e, slot));
	records_lease_commit(record);
	engine_tell_lease(e, record, slot, LARDER_LEASE_GRANTED, now);
	return ENGINE_LEASED;
}

/* --- what others call --------------------------------------------------------------------- */

enum engine_leased engine_lease_add(struct engine *e, uint32_t slot, uint32_t tenant, uint64_t id,
				    uint64_t deadline_ns, uint64_t now)
{
	enum engine_leased added;

	leases_lock(e->leases);
	added = lease_add_locked(e, slot, tenant, id, deadline_ns, now);
	leases_unlock(e->leases);
	return added;
}

bool engine_lease_drop(struct engine *e, uint32_t slot, uint32_t tenant, uint64_t id)
{
	struct engine_leases *l = e->leases;
	uint32_t group, i = 0;

	leases_lock(l);
	group = __atomic_load_n(&e->objects[slot].leases, __ATOMIC_RELAXED);
	if (group)
		i = lease_find(l, group - 1, tenant, id);
	if (i)
		lease_end(e, i - 1);
	leases_unlock(l);
	return i != 0;
}

uint32_t engine_lease_drop_all(struct engine *e, uint32_t tenant, uint64_t id, uint32_t max)
{
	struct engine_leases *l = e->leases;
	uint32_t n = 0;

	leases_lock(l);
	for (uint32_t i = *lease_id_bucket(l, tenant, id); i && n < max;) {
		uint32_t next = l->entries[i - 1].by_id.next;

		if (l->records[i - 1].id == id && l->records[i - 1].tenant == tenant) {
			lease_end(e, i - 1);
			n++;
		}
		i = next;
	}
	leases_unlock(l);
	return n;
}

bool engine_lease_drop_tenant(struct engine *e, uint32_t tenant, uint32_t *at, uint32_t max)
{
	struct engine_leases *l = e->leases;
	uint32_t end = MIN((uint64_t)*at + max, (uint64_t)l->capacity);

	leases_lock(l);
	for (; *at < end; (*at)++)
		if (l->records[*at].state == LEASE_HELD && l->records[*at].tenant == tenant)
			lease_end(e, *at);
	leases_unlock(l);
	return end == l->capacity;
}

void engine_lease_orphan(struct engine *e, uint32_t slot)
{
	struct engine_leases *l = e->leases;
	uint32_t group;

	/* Nobody adds one while we hold the shard's lock, so none now is none later. */
	if (!__atomic_load_n(&e->objects[slot].leases, __ATOMIC_ACQUIRE))
		return;
	leases_lock(l);
	group = __atomic_load_n(&e->objects[slot].leases, __ATOMIC_RELAXED);
	if (group)
		lease_group_cut(e, &l->groups[group - 1]);
	leases_unlock(l);
}

void engine_lease_expire(struct engine *e, uint64_t now, uint32_t max)
{
	if (!engine_lease_due(e, now))
		return;
	leases_lock(e->leases);
	lease_expire_locked(e, now, max);
	leases_unlock(e->leases);
}

bool engine_lease_due(struct engine *e, uint64_t now)
{
	return __atomic_load_n(&e->leases->first_ns, __ATOMIC_RELAXED) <= now;
}

uint64_t engine_lease_count(struct engine *e)
{
	uint64_t count;

	leases_lock(e->leases);
	count = e->leases->deadlines.count;
	leases_unlock(e->leases);
	return count;
}

/* Several reactors tell of one gap, each as it saw it: what they have in common counts once. */
void engine_forgive(struct engine *e, uint64_t gap_ns)
{
	struct engine_leases *l = e->leases;
	uint64_t now = clock_now(e->clock), since;

	leases_lock(l);
	since = now > l->forgiven_ns ? now - l->forgiven_ns : 0;
	gap_ns = MIN(gap_ns, since);
	l->forgiven_ns += since;
	heap_shift(&l->deadlines, gap_ns);
	for (uint32_t n = 0; n < l->deadlines.count; n++) {
		const struct heap_entry *at = &l->deadlines.entries[n];
		uint32_t slot = l->groups[l->entries[at->id].group].slot;

		__atomic_store_n(&l->records[at->id].deadline_ns, at->at, __ATOMIC_RELAXED);
		if (slot != RECORD_NONE && at->at > engine_lease_word(e, slot))
			lease_word_set(e, slot, at->at);
	}
	leases_unlock(l);
	engine_fill_forgive(e, gap_ns);
}

/* --- open and close ----------------------------------------------------------------------- */

int engine_leases_init(struct engine *e)
{
	uint32_t capacity = 0, buckets = 1;
	struct engine_leases *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return -ENOMEM;
	rc = pthread_mutex_init(&l->lock, NULL);
	if (rc) {
		free(l);
		return -rc;
	}
	e->leases = l;
	while (records_lease_at(e->records, capacity))
		capacity++;
	while (buckets < capacity)
		buckets *= 2;
	l->records = records_lease_at(e->records, 0);
	l->capacity = capacity;
	l->mask = buckets - 1;
	l->salt = prng_next(&e->reactor[0].prng);
	l->first_ns = UINT64_MAX;
	l->entries = calloc(capacity, sizeof(*l->entries));
	l->groups = calloc(capacity, sizeof(*l->groups));
	l->key_buckets = calloc(buckets, sizeof(*l->key_buckets));
	l->id_buckets = calloc(buckets, sizeof(*l->id_buckets));
	if (!l->entries || !l->groups || !l->key_buckets || !l->id_buckets)
		return -ENOMEM;
	for (uint32_t i = 0; i < capacity; i++)
		l->groups[i].slot = i + 1 < capacity ? i + 2 : 0;
	l->free_group = 1;
	return heap_init(&l->deadlines, capacity);
}

void engine_leases_done(struct engine *e)
{
	struct engine_leases *l = e->leases;

	if (!l)
		return;
	heap_done(&l->deadlines);
	free(l->id_buckets);
	free(l->key_buckets);
	free(l->groups);
	free(l->entries);
	(void)pthread_mutex_destroy(&l->lock);	/* fails only while held */
	free(l);
	e->leases = NULL;
}

/* Objects are in place. The words of records are made anew from what is in the table. */
void engine_leases_rebuild(struct engine *e)
{
	struct engine_leases *l = e->leases;

	leases_lock(l);
	for (uint32_t slot = 0; slot < e->capacity; slot++)
		if (engine_state(&e->objects[slot]) == RECORD_COMMITTED &&
		    engine_lease_word(e, slot))
			lease_word_set(e, slot, 0);
	for (uint32_t i = 0; i < l->capacity; i++) {
		struct lease_record *record = &l->records[i];
		uint32_t slot = record->record, tenant;

		if (record->state != LEASE_HELD)
			continue;
		if (slot >= e->capacity || record->tenant >= RECORDS_TENANTS_MAX ||
		    engine_state(&e->objects[slot]) != RECORD_COMMITTED ||
		    !records_tenant_name(e->records, record->tenant) ||
		    record->generation != (uint32_t)engine_record(e, slot)->generation) {
			log_notice(e->log, "engine: lease %u is of no object: dropped", i);
			records_lease_give(e->records, record);
			continue;
		}
		tenant = e->objects[slot].tenant;
		if (!__atomic_load_n(&e->objects[slot].leases, __ATOMIC_RELAXED))
			/* true: there are no guarantees yet */
			(void)engine_held_take(e, tenant, &e->tenants[tenant].leased_pages,
					       e->objects[slot].size_pages);
		lease_link(e, i, lease_group_get(e, slot));
	}
	leases_unlock(l);
}
