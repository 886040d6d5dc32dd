/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object engine: index, life of an object, leases, eviction. It has never heard of a socket,
 * a wire format or a path.
 *
 * A reactor submits struct larder_op's and gets each back exactly once: at once (engine_submit
 * returns 0) or later from engine_poll of the same reactor (engine_submit returned 1).
 *
 * A PUT goes in two steps. engine_submit(PUT or PUT_BEGIN) reserves: status OK, op->object is
 * FILLING with its pages (engine_object_runs); the owner moves the bytes in, verifies them against
 * the checks, and calls engine_commit or engine_abort. Other outcomes of the first step:
 * EXISTS_SAME or CONFLICT (PUT of a present key: length and checks were compared; nothing was
 * reserved), OK with op->present (PUT_BEGIN of a present key: op->object is referenced, commit
 * compares), BUSY, NO_SPACE, TOO_LARGE, DEADLINE. While another writer fills the key the op waits
 * (bounded by its deadline, or not at all with NOWAIT): when that writer commits it ends as
 * EXISTS_SAME or CONFLICT, when that writer fails it ends as BUSY.
 *
 * A GET takes a reference: op->object stays readable, whatever is evicted or deleted, until
 * engine_unref. WAIT: a FILLING key parks the op until commit, abort or deadline.
 *
 * FILL (EXISTS, GET): the first missing key, if nobody writes it and nobody was promised it, is the
 * op's to fill: status FILL, and a fill lease of (tenant, key, op->lease_id, op->holder), which
 * op->lease_ms bounds (0: ten seconds). Others find that key FILLING. Any PUT of it by the tenant
 * takes the fill lease over, with who waits; RELEASE, DELETE, a flush, its deadline or
 * engine_fills_release(op->holder) end it. The same lease_id again (not 0) is the same fill lease.
 * With WAIT the op waits for its first missing key while another holds it, and when that comes to
 * nothing is perhaps the next to be told FILL; for later keys it does not wait.
 *
 * A PUT may also be parked because room for it takes more than one turn to find; its object is
 * FILLING for others from the start. EXISTS and LEASE set op->lease_ms to what was granted. LIST
 * takes a prefix as its one key. A flush, and a RELEASE without keys, are parked when there is much
 * to do. After a commit, abort or cancel ops of the same reactor may be ready: poll, or ask
 * engine_next_deadline, before sleeping.
 *
 * Thread rules: an op and its completion belong to the reactor that submitted it; any reactor may
 * touch any shard. engine_object_* accessors need a reference (or the filling ownership).
 */
#ifndef LARDER_ENGINE_ENGINE_H
#define LARDER_ENGINE_ENGINE_H

#include <sys/uio.h>

#include <larder/log.h>
#include <larder/op.h>

#include "base/clock.h"
#include "mem/memory.h"

struct engine;
struct engine_reactor;
struct ledger;			/* view/ledger.h */

struct engine_config {
	struct larder_memory *memory;
	struct ledger *ledger;		/* may be NULL: nothing is counted */
	const struct clock *clock;
	const struct larder_log *log;	/* may be NULL */
	uint32_t shards;		/* power of two, 1 to 1024 */
	uint32_t reactors;		/* 1 to 64 */
	const char *policy;		/* policy_find */
	uint32_t reserve_pages;		/* kept free ahead of need; 0 = evict exactly on demand */
	uint64_t max_value_bytes;
	uint32_t lease_max_ms;
	uint64_t scrub_bytes_per_s;	/* that the scrubber looks at, 0 = it is off */
	uint64_t seed;			/* sampling of shard tails */
	const char *boot_id;
};

/* 0 or -errno; -EINVAL logs which value. Rebuilds the index from the record file. */
int engine_open(const struct engine_config *config, struct engine **ret);
struct engine *engine_close(struct engine *e);	/* always NULL; no op may be under way */
void engine_get_rebuilt(const struct engine *e, struct records_rebuilt *ret);

struct engine_reactor *engine_reactor(struct engine *e, uint32_t index);
/* Called by another reactor's completion for this one: the owner makes its event fd readable. */
void engine_reactor_set_wake(struct engine_reactor *r, void (*wake)(void *user), void *user);

/* 0: completed, look at op->status. 1: parked, engine_poll will return it. It never fails. */
int engine_submit(struct engine_reactor *r, struct larder_op *op);
/* Next completed op of this reactor, or NULL. Also ends ops whose deadline passed, and evicts a
 * few victims ahead of need, looks at a slice for the scrubber, and beats for the record
 * file: call it every turn. */
struct larder_op *engine_poll(struct engine_reactor *r);
/* Takes a parked op back: 0 = it is the caller's again (status CANCELLED), -EALREADY = its
 * completion is on its way. */
int engine_cancel(struct engine_reactor *r, struct larder_op *op);
/* When engine_poll next has something to do by itself (a deadline), monotonic ns; UINT64_MAX. */
uint64_t engine_next_deadline(struct engine_reactor *r);
/*
 * A turn of the reactor begins: until the next one it is @now_ns for what this reactor does, so
 * that a process that is stopped in the middle of a turn expires nothing in the rest of it. The
 * gap is seen, and told by engine_forgive, before the next turn. Never called: each call reads the
 * clock.
 */
void engine_turn(struct engine_reactor *r, uint64_t now_ns);
/* A gap of @gap_ns, up to now, in which nobody looked (promise 12): leases move, requests do not.
 * Call it before anything else of that turn. Each reactor may tell of the same gap. */
void engine_forgive(struct engine *e, uint64_t gap_ns);

/*
 * Ends a PUT whose bytes are all in their pages and were verified. op->checks/n_checks are those
 * of the writer (PUT: as submitted; PUT_BEGIN: set now). Sets op->status: OK, EXISTS_SAME or
 * CONFLICT (op->present), and gives op->object up. Wakes those who wait for the key.
 */
void engine_commit(struct engine_reactor *r, struct larder_op *op);
/* Another ttl for what @op (PUT or PUT_BEGIN) is filling, counted from now: for who learns it after
 * the value. Nothing when the key was there already. */
void engine_put_ttl(struct engine_reactor *r, const struct larder_op *op, uint32_t ttl_ms);
/* Gives up: pages are free again, waiters get BUSY (PUT) or NOT_FOUND (GET). */
void engine_abort(struct engine_reactor *r, struct larder_op *op);
/* Drops the reference that GET (or PUT_BEGIN of a present key) took. */
void engine_unref(struct engine_reactor *r, struct engine_object *o);
/* GET with VERIFY found (or the scrubber found) a difference: the object is taken out of service
 * if the pages really do not match. True when it was quarantined. Reference kept. */
bool engine_verify(struct engine_reactor *r, struct engine_object *o);
/* The same for one check block, so that a turn stays short. */
bool engine_verify_block(struct engine_reactor *r, struct engine_object *o, uint32_t block);
/* How many bytes a second the scrubber looks at from now on, 0 = none. Any thread. */
void engine_set_scrub(struct engine *e, uint64_t bytes_per_s);

/* Needs a reference or the filling ownership. */
uint64_t engine_object_length(const struct engine_object *o);
uint64_t engine_object_digest(const struct engine_object *o);
uint32_t engine_object_n_runs(const struct engine_object *o);
void engine_object_runs(const struct engine_object *o, struct larder_run *runs, uint32_t first,
			uint32_t n);
void engine_object_checks(const struct engine_object *o, uint32_t *checks, uint32_t first,
			  uint32_t n);
/*
 * Describes [@offset, @offset + @length) of the value as at most @max pieces of the arena. Returns
 * the number of pieces; *@ret_bytes = bytes they cover (less than @length when @max was reached).
 */
uint32_t engine_object_iov(const struct engine_object *o, uint64_t offset, uint64_t length,
			   struct iovec *iov, uint32_t max, uint64_t *ret_bytes);

/* Tenants and namespaces (control path: may allocate; any thread). */
int engine_tenant_add(struct engine *e, const char *name, uint32_t *ret_tenant);
/*
 * Opens or creates. @d NULL: no opinion. Returns enum larder_status: OK (id in *@ret_ns),
 * NOT_FOUND, LAYOUT_MISMATCH (*@field names it), QUOTA (the tenant's `namespaces`, half of the
 * directory used up by the tenant, those retired since engine_open too, or the directory is full),
 * BAD_REQUEST (name).
 */
int engine_namespace_open(struct engine *e, uint32_t tenant, const void *name, uint16_t name_len,
			  const struct larder_descriptor *d, bool create, uint32_t *ret_ns,
			  const char **field);
/*
 * "owner:name", as others spell it: @owner's namespace, if @tenant may read in it (@viewer: any).
 * OK, NOT_FOUND or LAYOUT_MISMATCH. What is not shared with @tenant is not looked at, so that it is
 * as absent, and takes as long, as what is not there.
 */
int engine_namespace_open_other(struct engine *e, uint32_t tenant, bool viewer, const char *owner,
				const void *name, uint16_t name_len,
				const struct larder_descriptor *d, uint32_t *ret_ns,
				const char **field);
/* NULL when @ns is no namespace of @tenant. @viewer: any tenant's. */
const struct namespace_record *engine_namespace(struct engine *e, uint32_t tenant, bool viewer,
						uint32_t ns);
/* The same for reading: also what others share with @tenant. */
const struct namespace_record *engine_namespace_readable(struct engine *e, uint32_t tenant,
							 bool viewer, uint32_t ns);
/*
 * Does a value of @length fit the namespace's descriptor? False: *@ret_bytes is what it has to be,
 * and *@ret_shorter says if less is allowed. A PUT that does not ends as BAD_REQUEST.
 */
bool engine_namespace_takes(struct engine *e, uint32_t ns, uint64_t length, uint64_t *ret_bytes,
			    bool *ret_shorter);
/* Sums of one namespace. */
void engine_namespace_usage(struct engine *e, uint32_t ns, uint64_t *objects, uint64_t *bytes);
/*
 * Which keys are worth writing. SECOND_TOUCH: a PUT of a key that was neither put nor evicted
 * lately ends as QUOTA and is remembered, the next one is stored. Kept with the namespace.
 * LARDER_OK, NOT_FOUND or UNSUPPORTED (the policy remembers nothing).
 */
enum engine_admission { ENGINE_ADMIT_ALL, ENGINE_ADMIT_SECOND_TOUCH };
bool engine_admission_is_possible(const struct engine *e, enum engine_admission admission);
int engine_namespace_set_admission(struct engine *e, uint32_t tenant, uint32_t ns,
				   enum engine_admission admission);
enum engine_admission engine_namespace_admission(struct engine *e, uint32_t ns);
const char *engine_tenant_name(struct engine *e, uint32_t tenant);	/* NULL: none */
/* Sums over its namespaces, and the pages that its objects hold in any state. */
void engine_tenant_usage(struct engine *e, uint32_t tenant, uint64_t *objects,
			 uint64_t *value_bytes, uint64_t *resident_bytes);

/*
 * The limits that are the engine's to keep: resident_bytes, guarantee_bytes, objects, namespaces,
 * pinned_bytes, leased_bytes, over_cap. Any thread, at any time; a tenant that is over a lower
 * limit than before loses nothing at once: it is over its cap and evicts its own with its next PUT
 * (resident_bytes, objects), or gets nothing new until it is below (the others).
 */
void engine_tenant_set_limits(struct engine *e, uint32_t tenant, const struct larder_limits *l);
/* What is in force: the limits as set, and where the node or the guarantees of others leave less
 * (resident_bytes, pinned_bytes, leased_bytes), that. */
void engine_tenant_effective(struct engine *e, uint32_t tenant, struct larder_limits *ret);
/*
 * Who else may read namespaces of @tenant, by name, whether they are there yet or not: bit i of
 * readers is tenant i. All that it shares from now on; takes effect at once, whoever has it open.
 * 0, -EINVAL (a name's length) or -ENOMEM; nothing is changed then.
 */
struct engine_readers {
	uint64_t bits[RECORDS_TENANTS_MAX / 64];
};
struct engine_share {
	const void *name;
	uint16_t name_len;
	struct engine_readers readers;
};
int engine_set_shares(struct engine *e, uint32_t tenant, const struct engine_share *shares,
		      size_t n);
/*
 * Forgets an empty namespace: OK, NOT_FOUND, BUSY (objects are in it, or a writer is at work). Its
 * id is not used again while this engine is open.
 */
int engine_namespace_retire(struct engine *e, uint32_t tenant, uint32_t ns);
/*
 * Throws away all that a tenant has, a bounded part with each turn: objects (leased and pinned ones
 * too), leases, namespaces, what is shared, its name. Nobody may act as that tenant any more; its
 * id is not used again while this engine is open.
 */
struct engine_purge {
	uint64_t objects, bytes;	/* gone so far */
	uint32_t tenant;
	uint32_t stage, at;		/* the engine's own */
};
/* 0 or -ENOENT. */
int engine_purge_begin(struct engine *e, const char *name, struct engine_purge *ret);
/* True: all is gone. */
bool engine_purge_turn(struct engine_reactor *r, struct engine_purge *p);
/* Ends the fill leases of a holder, whoever waits for them is told. The holder's own reactor. */
void engine_fills_release(struct engine_reactor *r, uint64_t holder);
struct records *engine_records(struct engine *e);

/* What became of a key, as far as the bounded record of evictions and refusals reaches. */
enum engine_fate {
	ENGINE_FATE_UNKNOWN,	/* not there, and not in the record: deleted, expired, never seen */
	ENGINE_FATE_PRESENT,
	ENGINE_FATE_EVICTED,
	ENGINE_FATE_REFUSED,	/* its last PUT was */
};
struct engine_why {
	enum engine_fate fate;
	int status;		/* REFUSED: what the writer was told */
	uint64_t when_ns;
	uint32_t age_ms;	/* EVICTED: since its last touch */
	uint32_t room_for;	/* EVICTED: for which tenant; UINT32_MAX: ahead of need */
	uint64_t since_ns;	/* of the oldest entry; now when there is none */
	uint64_t entries;	/* that the record has */
};
/* Any thread; not for the data path. False: no such namespace of that tenant, or no key. */
bool engine_why(struct engine *e, uint32_t tenant, uint32_t ns, const void *key, uint16_t key_len,
		struct engine_why *ret);

/* For tests and the model: everything that must return to where it was. */
struct engine_counts {
	uint64_t objects, filling, doomed, references, leases, fills, parked;
	uint64_t free_pages, free_records;
	uint64_t evictions, evicted_bytes;
	uint64_t scrubbed_bytes, scrub_passes;	/* passes: that every reactor has made */
};
void engine_get_counts(struct engine *e, struct engine_counts *ret);

#endif
