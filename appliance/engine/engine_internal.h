/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the engine: its structs, and what its files call of each other.
 *
 * An object is a record slot. Its 64 bytes on the heap (engine/object.h) hang in one bucket of the
 * index and, once committed, in one list of its tenant's policy. The life of an object is its
 * state, changed under the lock of its shard:
 *
 *	FREE -> RESERVING	in the index: the first writer is known before memory is found
 *	FREE -> PROMISED	in the index, nobody writes yet: one client has its fill lease
 *	PROMISED -> RESERVING	a writer has come (-> FREE: none came)
 *	RESERVING -> FILLING	pages and record are there, the owner moves the bytes in
 *	FILLING -> COMMITTED	visible; the only state that has references and a policy list
 *	COMMITTED -> DOOMED	out of the index: deleted, evicted, expired (or QUARANTINED)
 *	any -> FREE		pages and slots given back, by whoever drops the last reference
 *
 * Locks: a shard's lock, and below it the leaf locks of arena, records, leases and fill leases.
 * Never two shards at once, and no call upward (clock, wake, list) under any of them.
 *
 * Counters of a reactor have one writer, its thread; readers add them up.
 */
#ifndef LARDER_ENGINE_ENGINE_INTERNAL_H
#define LARDER_ENGINE_ENGINE_INTERNAL_H

#include <pthread.h>

#include <larder/probes.h>

#include "base/prng.h"
#include "engine/engine.h"
#include "engine/heap.h"
#include "engine/object.h"
#include "engine/policy.h"
#include "view/ledger.h"

#define ENGINE_SHARDS_MAX 1024u
#define ENGINE_REACTORS_MAX 64u
#define ENGINE_WAITERS 4096u		/* parked ops per reactor; more are told BUSY */
#define ENGINE_WAITERS_TENANT (ENGINE_WAITERS / 4)	/* of these, of one tenant */
#define ENGINE_SLOTS_PER_TURN 4096u	/* that LIST or FLUSH visit before they yield */
#define ENGINE_LEASES_PER_TURN 1024u	/* that RELEASE drops before it yields */
#define ENGINE_SCRUB_RING 512u		/* new objects that the scrubber looks at first */
#define ENGINE_PIN_SOFT 0x0000ffffu	/* halves of a record's pins; the engine stores 0 or 1 */
#define ENGINE_PIN_HARD 0xffff0000u
#define ENGINE_NOWHERE UINT32_MAX	/* a namespace in which no key is ever found */

static_assert(RECORDS_TENANTS_MAX <= 256, "struct engine_object has a byte for it");

/* A step of work that may want to be continued by a later engine_poll. */
enum engine_step { ENGINE_DONE = 0, ENGINE_LATER = 1 };

struct engine_shard {
	pthread_mutex_t lock;
} __attribute__((aligned(CACHE_LINE)));

/* Lists of one tenant in one shard; a line of its own, since other reactors write the next. */
struct engine_set {
	struct policy_set set;
} __attribute__((aligned(CACHE_LINE)));

/* Who else may read namespaces of that name. */
struct engine_shared {
	struct engine_readers readers;
	uint16_t name_len;
	uint8_t name[LARDER_NS_NAME_MAX];
};

struct engine_tenant {
	struct engine_set *sets;	/* [shards], set once; NULL: no such tenant */
	uint64_t resident_pages;	/* atomic: held by its objects in any state */
	uint64_t listed;		/* atomic: objects in its policy lists */
	uint32_t ledger_slot;
	/* engine_limits.c; atomic */
	uint64_t limit[LARDER_LIMITS_MAX];	/* as set, 0 = none */
	uint64_t cap_pages;			/* of resident_bytes; UINT64_MAX = none */
	uint64_t guarantee_pages;
	uint64_t objects;			/* RESERVING, FILLING and COMMITTED */
	uint64_t pinned_bytes;
	uint64_t leased_pages, pinned_pages;	/* of its objects, whoever leased or pinned them */
	uint64_t going_pages;			/* being evicted for others at this moment */
	/* leases' lock */
	uint64_t leased_bytes;
	uint32_t leases;			/* entries of the table that it has */
	uint64_t lent_pages, lent_objects;	/* of its objects, those that others lease */
	struct engine_shared *shared;		/* [n_shared]; engine.control */
	uint32_t n_shared;
	struct policy_tenant policy;
};

struct engine_ns {
	uint32_t tenant;		/* atomic; RECORD_NONE: unused, or retired */
	uint32_t user;			/* tenant that used the id up, retired or not; control */
	uint32_t ttl_ms;		/* of objects that bring none */
	bool second_touch;		/* atomic: admission */
	bool retiring;			/* atomic: takes no writer, see engine_namespace_retire */
	bool short_last;		/* a value may be shorter than block_bytes */
	uint64_t block_bytes;		/* that every value has, 0: any. The descriptor's */
	struct engine_readers readers;	/* atomic words: tenants that may read in it, not its own */
	uint64_t objects, bytes;	/* atomic */
	uint64_t writers;		/* atomic: objects RESERVING or FILLING */
};

/* Where a walk over policy lists stands, that looks for anything to evict. */
struct engine_scan {
	uint32_t tenant, shard, segment;
	uint32_t passes;
	uint64_t left;			/* of the list that it is in */
	bool active, inside;
	bool own;			/* only those of the tenant that room is made for */
	bool again;			/* it met one that only the scrubber held */
	bool soft;			/* nothing else may go: it walks the soft-pinned ones */
};

enum engine_wait { WAIT_FREE, WAIT_KEY, WAIT_WORK };
enum engine_outcome { OUTCOME_COMMITTED, OUTCOME_FAILED };

/* A parked op. Its reactor is that of its place in the table. */
struct engine_waiter {
	struct larder_op *op;
	struct engine_scan scan;	/* of a PUT that waits for space */
	uint32_t slot;			/* of the object that it waits for, or reserves */
	uint32_t next, prev;		/* on that object, id + 1: shard's lock; or free list */
	uint32_t ready_next;		/* reactor's stack of woken ones, id + 1 */
	uint8_t kind;			/* enum engine_wait */
	uint8_t linked;			/* on the object's list: shard's lock */
	uint8_t outcome;		/* enum engine_outcome, when it is not linked any more */
};

struct engine_counters {
	int64_t objects, filling, doomed, references, parked;
	uint64_t evictions, evicted_bytes;
	uint64_t scrubbed_bytes, scrub_passes;
};

/* Where the scrubber stands in one object. */
struct engine_scrub_look {
	uint64_t generation;		/* 0: in none */
	uint32_t slot;
	uint32_t block;			/* being looked at */
	uint32_t done, crc;		/* bytes of it that were, and their CRC */
};

/* engine_scrub.c. Its reactor's own but for `held`. */
struct engine_scrub {
	struct engine_scrub_look fresh, sweep;
	uint32_t sweep_slot;		/* the sweep's next; a reactor has every n-th */
	uint32_t held;			/* atomic: slot that it has a reference of; RECORD_NONE */
	uint32_t turn;
	bool sweeping;			/* in the middle of a pass */
	uint64_t pass_ns;		/* begin of the last pass, 0: none yet */
	uint64_t since_ns, spent;	/* bytes to be paid for by time from then on */
	uint64_t log_ns, untold;
	uint32_t noted, taken;		/* of the ring: ever written, ever read */
	struct engine_scrub_look ring[ENGINE_SCRUB_RING];
};

struct engine_reactor {
	struct engine *engine;
	uint32_t index;
	void (*wake)(void *user);
	void *wake_user;
	struct larder_run *runs;	/* scratch, n_runs of them */
	uint32_t n_runs;
	uint64_t turn_ns;		/* engine_turn; 0: the clock is read each time */
	struct prng prng;
	uint32_t room_for;		/* tenant that room is made for, RECORD_NONE: ahead */
	uint32_t room_pages;		/* that it asks for */
	struct engine_counters counters;

	/* parked ops: engine_wait.c */
	uint32_t free_waiter;		/* id + 1 */
	uint16_t parked_of[RECORDS_TENANTS_MAX];
	struct heap deadlines;		/* by number of the waiter within the reactor */
	struct larder_op *work, **work_tail;	/* to be continued */
	struct larder_op *done, **done_tail;	/* to be returned */

	/* housekeeping: engine.c */
	uint64_t evict_after_ns;	/* nothing was evictable: no try ahead of need until then */
	uint64_t beat_ns;
	uint64_t expire_ns;		/* last turn of the ttl sweep */
	uint32_t expire_slot;
	struct engine_scrub scrub;

	uint32_t ready __attribute__((aligned(CACHE_LINE)));	/* atomic: woken waiters, id + 1 */
} __attribute__((aligned(CACHE_LINE)));

struct engine_leases;
struct engine_fills;
struct engine_history;

struct engine {
	struct larder_memory *memory;
	struct arena *arena;
	struct records *records;
	struct ledger *ledger;
	const struct clock *clock;
	const struct larder_log *log;
	const struct policy *policy;
	struct policy_ghost *ghost;	/* NULL: the policy wants none */
	uint32_t shards, shard_bits;
	uint32_t reactors;
	uint32_t reserve_pages;
	uint32_t page_size;
	uint64_t max_value_bytes;
	uint32_t lease_max_ms;
	uint32_t capacity;		/* record slots */
	struct record *record;		/* [capacity], in the record file */

	struct engine_object *objects;	/* [capacity] */
	uint32_t *buckets;		/* [shards << bucket_bits], slots */
	uint32_t bucket_bits;		/* of one shard */
	uint64_t salt;			/* of the index */
	struct engine_shard *shard;	/* [shards] */
	struct engine_reactor *reactor;	/* [reactors] */
	struct engine_waiter *waiters;	/* [reactors * ENGINE_WAITERS] */
	struct engine_leases *leases;
	struct engine_fills *fills;
	struct engine_history *history;	/* [reactors] */
	struct engine_tenant tenants[RECORDS_TENANTS_MAX];
	uint32_t n_tenants;		/* atomic: one past the highest in use */
	struct engine_ns *namespaces;	/* [n_namespaces] */
	uint32_t n_namespaces;
	uint64_t scrub_rate;		/* atomic: bytes a second, all reactors; 0 = off */
	uint64_t with_ttl;		/* atomic: committed objects that end by themselves */
	pthread_mutex_t control;	/* tenants and namespaces come and go one at a time */
	struct records_rebuilt rebuilt;
};

/* A key of an op, ready to be looked up. */
struct engine_key {
	uint64_t hash;
	const void *key;
	uint32_t ns;
	uint32_t shard;
	uint16_t len;
	bool by_hash;
};

struct engine_found {
	/* COMMITTED and alive, FILLING, RESERVING or PROMISED; else RECORD_NONE */
	uint32_t slot;
	uint32_t gone;		/* met and found expired: engine_found_done frees it */
	bool ambiguous;		/* by hash: two keys have it */
};

/* Why a committed object ends. */
enum engine_end { END_DELETED, END_EVICTED, END_EXPIRED, END_QUARANTINED };

static inline void engine_lock(struct engine *e, uint32_t shard)
{
	/* can't fail: not recursive, not robust */
	(void)pthread_mutex_lock(&e->shard[shard].lock);
}

static inline void engine_unlock(struct engine *e, uint32_t shard)
{
	(void)pthread_mutex_unlock(&e->shard[shard].lock);
}

static inline uint32_t engine_shard_of(const struct engine *e, uint64_t hash)
{
	return e->shard_bits ? (uint32_t)(hash >> (64 - e->shard_bits)) : 0;
}

static inline uint32_t engine_slot(const struct engine *e, const struct engine_object *o)
{
	return (uint32_t)(o - e->objects);
}

static inline struct record *engine_record(const struct engine *e, uint32_t slot)
{
	return &e->record[slot];
}

/* What time it is for this reactor: that of its turn, see engine_turn. */
static inline uint64_t engine_now(const struct engine_reactor *r)
{
	return r->turn_ns ? r->turn_ns : clock_now(r->engine->clock);
}

/* Fields that others peek at without the lock. */
static inline void engine_set_state(struct engine_object *o, uint8_t state)
{
	__atomic_store_n(&o->state, state, __ATOMIC_RELAXED);
}

static inline uint8_t engine_state(const struct engine_object *o)
{
	return __atomic_load_n(&o->state, __ATOMIC_RELAXED);
}

static inline bool engine_is_filling(const struct engine_object *o)
{
	uint8_t state = engine_state(o);

	return state == RECORD_FILLING || state == OBJECT_RESERVING || state == OBJECT_PROMISED;
}

/* The policy's lists of a tenant in a shard; the tenant is one that was added. */
static inline struct policy_set *engine_set_of(struct engine *e, uint32_t tenant, uint32_t shard)
{
	return &__atomic_load_n(&e->tenants[tenant].sets, __ATOMIC_ACQUIRE)[shard].set;
}

static inline uint64_t engine_cap_pages(const struct engine_tenant *t)
{
	return __atomic_load_n(&t->cap_pages, __ATOMIC_RELAXED);
}

/*
 * What a tenant may hold at this moment: its own and what is free, at most its cap. While the node
 * is short, that is what it has; alone on the node, all of it.
 */
static inline uint64_t engine_cap(struct engine *e, uint32_t tenant)
{
	const struct engine_tenant *t = &e->tenants[tenant];
	uint32_t free = arena_free_pages(e->arena);
	uint64_t may = __atomic_load_n(&t->resident_pages, __ATOMIC_RELAXED) +
		       (free > e->reserve_pages ? free - e->reserve_pages : 0);

	return MIN(may, engine_cap_pages(t));
}

/* Where the policy is to work; lock held. */
static inline struct policy_place engine_place(struct engine *e, uint32_t tenant, uint32_t shard,
					       uint64_t now)
{
	return (struct policy_place){
		.objects = e->objects,
		.set = engine_set_of(e, tenant, shard),
		.tenant = &e->tenants[tenant].policy,
		.ghost = e->ghost,
		.cap = engine_cap(e, tenant),
		.now_ns = now,
	};
}

/* Counters with one writer. */
static inline void engine_tally(int64_t *counter, int64_t n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

static inline struct larder_usage *engine_usage(struct engine_reactor *r, uint32_t slot)
{
	return r->engine->ledger ? ledger_usage(r->engine->ledger, r->index, slot) : NULL;
}

static inline struct larder_gauges *engine_gauges(struct engine *e, uint32_t tenant)
{
	return e->ledger ? &e->ledger->gauges[e->tenants[tenant].ledger_slot] : NULL;
}

/* Ledger slot under which an op of a client is counted. */
static inline uint32_t engine_usage_slot(const struct engine *e, const struct larder_op *op)
{
	return op->flags & LARDER_F_NO_TOUCH ? LARDER_LEDGER_VIEW_TENANT
					     : e->tenants[op->tenant].ledger_slot;
}

/* Live leases make the word lie in the future. */
static inline uint64_t engine_lease_word(struct engine *e, uint32_t slot)
{
	return __atomic_load_n(&engine_record(e, slot)->lease_ns, __ATOMIC_RELAXED);
}

static inline uint32_t engine_pins(struct engine *e, uint32_t slot)
{
	return __atomic_load_n(&engine_record(e, slot)->pins, __ATOMIC_RELAXED);
}

static inline bool engine_is_hard_pinned(struct engine *e, uint32_t slot)
{
	return engine_pins(e, slot) & ENGINE_PIN_HARD;
}

/* To the young end of a list; lock held. */
static inline void engine_list_move(const struct policy_place *p, uint32_t list, uint32_t slot)
{
	policy_leave(p, slot);
	policy_enter(p, list, slot);
}

/* --- engine_index.c: all but hash and prefetch under the shard's lock --------------------- */
uint64_t engine_hash(const struct engine *e, uint32_t ns, const void *key, uint16_t len);
/* LARDER_OK or BAD_REQUEST: the key's length. */
int engine_key_init(const struct engine *e, struct engine_key *k, uint32_t ns,
		    const struct larder_op_key *key, bool by_hash);
void engine_index_prefetch_bucket(const struct engine *e, const struct engine_key *k);
void engine_index_prefetch_object(const struct engine *e, const struct engine_key *k);
void engine_index_prefetch_record(const struct engine *e, const struct engine_key *k);
uint32_t engine_index_find(struct engine *e, const struct engine_key *k, bool *ambiguous);
void engine_index_insert(struct engine *e, uint32_t slot);
void engine_index_remove(struct engine *e, uint32_t slot);

/* --- engine_object.c ---------------------------------------------------------------------- */
/* Looks a key up, takes it out when it is past its ttl. Lock held; engine_found_done after it. */
struct engine_found engine_find(struct engine_reactor *r, const struct engine_key *k, uint64_t now);
void engine_found_done(struct engine_reactor *r, const struct engine_found *f);
/* Locks the shard of the committed object in @slot, of @tenant (RECORD_NONE: any). False: there is
 * none, nothing is locked. */
bool engine_lock_object(struct engine *e, uint32_t slot, uint32_t tenant, uint32_t *ret_shard);
void engine_ref(struct engine_reactor *r, uint32_t slot, uint32_t n);		/* lock held */
/* Lock held; engine_balance after it. */
void engine_touch(struct engine_reactor *r, uint32_t slot, uint64_t now);
/* Makes @slot, just taken, the place of a key: RESERVING or PROMISED, with what that needs in
 * @last. Lock held. */
void engine_enter(struct engine *e, uint32_t slot, uint32_t tenant, uint64_t hash, uint8_t state,
		  uint64_t last);
bool engine_is_expired(struct engine *e, uint32_t slot, uint64_t now);		/* lock held */
/* Lock held. True: no reference was left, engine_object_free it after the lock. */
bool engine_doom(struct engine_reactor *r, uint32_t slot, enum engine_end why);
/* engine_tell.c: while someone listens. @why: EVICTED or EXPIRED. */
void engine_tell_evicted(struct engine_reactor *r, uint32_t slot, enum engine_end why);
/* @slot: of its object; RECORD_NONE: that is gone. */
void engine_tell_lease(struct engine *e, const struct lease_record *record, uint32_t slot,
		       enum larder_probe_lease event, uint64_t now);
void engine_object_free(struct engine_reactor *r, uint32_t slot);
void engine_resident(struct engine *e, uint32_t tenant, int64_t pages);
/* Counts a committed object in (1) or out (-1). */
void engine_listed(struct engine *e, uint32_t slot, int64_t sign);
/* Needs a reference. EXISTS_SAME or CONFLICT. */
int engine_compare(struct engine *e, uint32_t slot, uint64_t length, const uint32_t *checks,
		   uint32_t n_checks);
void engine_stat(struct engine *e, uint32_t slot, uint64_t now, struct larder_stat *st);

/* --- engine_wait.c ------------------------------------------------------------------------ */
int engine_wait_init(struct engine *e);
/* Parks @op on a filling object; lock held. False: the table is full. */
bool engine_wait_key(struct engine_reactor *r, struct larder_op *op, uint32_t slot);
/* Parks @op to be continued by engine_poll. False: the table is full. */
bool engine_wait_work(struct engine_reactor *r, struct larder_op *op, uint32_t slot,
		      const struct engine_scan *scan);
/* Takes all waiters off a filling object; lock held. @ret_n: how many. Returns the list. */
uint32_t engine_wait_detach(struct engine *e, struct engine_object *o, enum engine_outcome outcome,
			    uint32_t *ret_n);
void engine_wait_wake(struct engine_reactor *r, uint32_t list);		/* no lock held */

/* --- operations: return enum engine_step -------------------------------------------------- */
int engine_put(struct engine_reactor *r, struct larder_op *op, uint64_t now);
/* A PUT that was parked for space: @slot is the object that it reserves or RECORD_NONE. */
int engine_put_continue(struct engine_reactor *r, struct larder_op *op, uint32_t *slot,
			struct engine_scan *scan, uint64_t now);
void engine_put_fail(struct engine_reactor *r, uint32_t slot);
/* A PUT that waited for another writer learns what became of it. */
void engine_put_told(struct engine_reactor *r, struct larder_op *op, uint32_t slot,
		     enum engine_outcome outcome);
int engine_get(struct engine_reactor *r, struct larder_op *op, uint64_t now);
int engine_get_told(struct engine_reactor *r, struct larder_op *op, uint32_t slot,
		    enum engine_outcome outcome, uint64_t now);
int engine_op_stat(struct engine_reactor *r, struct larder_op *op, uint64_t now);
/* EXISTS and LEASE, from key op->count on. */
int engine_exists(struct engine_reactor *r, struct larder_op *op, uint64_t now, bool wait);
int engine_release(struct engine_reactor *r, struct larder_op *op, uint64_t now);
int engine_pin(struct engine_reactor *r, struct larder_op *op, uint64_t now);	/* and UNPIN */
int engine_delete(struct engine_reactor *r, struct larder_op *op, uint64_t now);
int engine_flush(struct engine_reactor *r, struct larder_op *op, uint64_t now);
int engine_list(struct engine_reactor *r, struct larder_op *op, uint64_t now);

/* --- engine_access.c ---------------------------------------------------------------------- */
/* The namespace in which an op looks; ENGINE_NOWHERE where it may not. */
uint32_t engine_op_ns(const struct engine *e, const struct larder_op *op);
/* It would change something in a namespace that its tenant may only read. */
bool engine_op_is_denied(const struct engine *e, const struct larder_op *op);
/* A writer comes to, or leaves, the namespace of its PUT. LARDER_OK, BUSY (it is being retired) or
 * NOT_FOUND. */
int engine_writer_enter(struct engine *e, const struct larder_op *op);
void engine_writer_leave(struct engine *e, uint32_t ns);
/* Sets who may read a namespace that has just come. engine.control held. */
void engine_readers_apply(struct engine *e, uint32_t ns);
/* Nobody shares with @tenant any more, nor it with anybody. engine.control held. */
void engine_readers_forget(struct engine *e, uint32_t tenant);

/* --- engine_lease.c ----------------------------------------------------------------------- */
int engine_leases_init(struct engine *e);
void engine_leases_done(struct engine *e);
void engine_leases_rebuild(struct engine *e);
enum engine_leased {
	ENGINE_LEASED,
	ENGINE_LEASES_FULL,	/* the table is, or the tenant or object has as many as it may */
	ENGINE_LEASE_OVER,	/* leased_bytes of the tenant, what the owner lends, guarantees */
};
/* Lock held. */
enum engine_leased engine_lease_add(struct engine *e, uint32_t slot, uint32_t tenant, uint64_t id,
				    uint64_t deadline_ns, uint64_t now);
/* Lock held. False: there is no such lease. */
bool engine_lease_drop(struct engine *e, uint32_t slot, uint32_t tenant, uint64_t id);
/* At most @max of what @id holds; returns how many it dropped, less than @max = that was all. */
uint32_t engine_lease_drop_all(struct engine *e, uint32_t tenant, uint64_t id, uint32_t max);
/* Ends all that @tenant holds, whatever the id: looks at @max entries from *@at on. True: that was
 * all. */
bool engine_lease_drop_tenant(struct engine *e, uint32_t tenant, uint32_t *at, uint32_t max);
/* The object ends: its leases hold nothing any more and go when they are met. Lock held. */
void engine_lease_orphan(struct engine *e, uint32_t slot);
void engine_lease_expire(struct engine *e, uint64_t now, uint32_t max);
bool engine_lease_due(struct engine *e, uint64_t now);
uint64_t engine_lease_count(struct engine *e);

/* --- engine_pin.c: lock held -------------------------------------------------------------- */
/* The object ends: its budget is the tenant's again. */
void engine_pin_orphan(struct engine *e, uint32_t slot);
/* At start: the object that is in the policy's lists goes where its pins say, and is counted. */
void engine_pin_rebuild(struct engine *e, uint32_t slot, const struct policy_place *place);

/* --- engine_evict.c ----------------------------------------------------------------------- */
enum engine_room { ROOM_READY, ROOM_LATER, ROOM_NONE };
bool engine_evict_one(struct engine_reactor *r, uint64_t now);
/* After an insert or a hit, no lock held: keeps the policy's second list within its share. */
void engine_balance(struct engine_reactor *r, uint32_t tenant, uint64_t now);
/* Evicts until @pages and @records are free. LATER: this turn's share of looking,
 * or of evicting, is used up. */
enum engine_room engine_make_room(struct engine_reactor *r, uint32_t pages, uint32_t records,
				  struct engine_scan *scan, uint64_t now);
/* The same of the tenant's own objects, until so much more fits its caps. NONE: nothing of its own
 * may go. */
enum engine_room engine_make_own_room(struct engine_reactor *r, uint32_t tenant, uint32_t pages,
				      uint32_t objects, struct engine_scan *scan, uint64_t now);
void engine_evict_ahead(struct engine_reactor *r, uint64_t now);
/* When that has something to do: 0 = now, UINT64_MAX = not by itself. */
uint64_t engine_ahead_at(const struct engine_reactor *r);
/* Takes a few objects out whose ttl has passed. */
void engine_expire_sweep(struct engine_reactor *r, uint64_t now);

/* --- engine_scrub.c ------------------------------------------------------------------------ */
void engine_scrub_init(struct engine_reactor *r);
/* An object was committed; the caller has a reference or the lock. */
void engine_scrub_note(struct engine_reactor *r, uint32_t slot);
/* Is a reference of @slot the scrubber's? It is given back within microseconds. */
bool engine_scrub_holds(struct engine *e, uint32_t slot);
void engine_scrub_step(struct engine_reactor *r, uint64_t now);
/* When that has something to do: UINT64_MAX = nothing to look at. */
uint64_t engine_scrub_at(const struct engine_reactor *r);

/* --- engine_history.c ---------------------------------------------------------------------- */
int engine_history_init(struct engine *e);
void engine_history_done(struct engine *e);
void engine_history_evicted(struct engine_reactor *r, uint32_t slot, uint64_t now);
void engine_history_refused(struct engine_reactor *r, const struct larder_op *op, int status,
			    uint64_t now);

/* --- engine_limits.c ----------------------------------------------------------------------- */
/* A budget's counter goes up by @n unless it would pass @max; never two past it together. */
bool engine_take(uint64_t *counter, uint64_t n, uint64_t max);
/* What a limit allows; UINT64_MAX = any amount. */
uint64_t engine_limit(const struct engine_tenant *t, enum larder_limit limit);
/* A request (of a lease: a key) is refused for that limit: op->limit and the ledger say so. Once
 * per refusal. */
void engine_refused(struct engine_reactor *r, struct larder_op *op, enum larder_limit limit);
/* Pages for an object of its own; engine_resident gives them back. False: over its cap. */
bool engine_resident_take(struct engine *e, uint32_t tenant, uint64_t pages);
/* One more object; engine_objects_add(-1) gives it back. False: over its cap. */
bool engine_objects_take(struct engine *e, uint32_t tenant);
void engine_objects_add(struct engine *e, uint32_t tenant, int64_t n);
/* The cap (resident_bytes, objects) that so much more would pass, or LARDER_LIMIT_NONE. */
enum larder_limit engine_over(struct engine *e, uint32_t tenant, uint64_t pages, uint64_t objects);
/* May an object of @tenant of so many pages be lent, leased by others, beside those that are? */
bool engine_lends(const struct engine *e, uint32_t tenant, uint64_t pages);
/* How far the tenant is above its guarantee, pages; 0: nothing of it may go for others. */
uint64_t engine_above(const struct engine_tenant *t);
/* r->room_for is still within its own guarantee with the r->room_pages that it asks for. */
bool engine_entitled(const struct engine_reactor *r);
/* An object of so many pages is to go, for r->room_for. False: that would reach into the guarantee
 * of @tenant. *@ret_claim is for engine_spare_done, after the pages are free. */
bool engine_spare(struct engine_reactor *r, uint32_t tenant, uint64_t pages, uint64_t *ret_claim);
void engine_spare_done(struct engine_reactor *r, uint32_t tenant, uint64_t claim);
/* @counter is leased_pages or pinned_pages of the owner. False: that would reach into the
 * guarantees of other tenants. A restart's own counting can't fail. */
bool engine_held_take(struct engine *e, uint32_t tenant, uint64_t *counter, uint64_t pages);
void engine_held_give(uint64_t *counter, uint64_t pages);
/* So many pages can't get free by evicting the tenant's own: too much of it is leased or pinned.
 * May be false where it could be true, never the other way. */
bool engine_held_full(struct engine *e, uint32_t tenant, uint64_t pages);
/* The value of an object that gets its first hard pin, or loses its last, by the pin budget.
 * False: QUOTA, tell it with engine_refused(LARDER_LIMIT_pinned_bytes). Any lock may be held. */
bool engine_pinned_take(struct engine *e, uint32_t tenant, uint64_t bytes);
void engine_pinned_give(struct engine *e, uint32_t tenant, uint64_t bytes);

/* --- engine_admit.c: lock held; false: it was remembered, and is not to be stored ---------- */
bool engine_admits(struct engine_reactor *r, const struct larder_op *op,
		   const struct engine_key *k);

/* --- engine.c: what a reactor does when it has nothing to return -------------------------- */
void engine_housekeep(struct engine_reactor *r, uint64_t now);

/* --- engine_namespace.c, engine_rebuild.c ------------------------------------------------- */
int engine_directory_init(struct engine *e);
void engine_directory_done(struct engine *e);
int engine_rebuild(struct engine *e, uint64_t now);

#endif
