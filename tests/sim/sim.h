/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator: an unmodified node and several client handles on one thread, in a world of which
 * one seed decides everything.
 *
 *	sim.c		arguments, one child per seed, the replay command
 *	knobs.c		what a seed draws: sizes, shape, faults
 *	world.c		time, randomness, the turn of everybody, the trace
 *	host.c		the node's memory, its life, its crash at any store
 *	net.c		what becomes of a connection
 *	model.c		the set of allowed answers per key
 *	ops.c		operations: begun, ended, judged
 *	actor.c		who does what next; streams, flushes, faults of clients
 *	calm.c		the phase in which all is well and everything must add up
 *	hard.c		moments of it that chance would find too rarely
 *	ledger.c	the ledger against the model
 *	limits.c	limits of tenants: drawn, set, and which refusals they allow
 *	fills.c		who holds a fill lease
 *	list.c		LIST under change, NS_LIST
 *	tenants.c	tenants that go, are purged and come back; what is shared
 *	exact_*.c	more of the calm: limits, promises, namespaces, one by one
 *
 * A seed goes through rounds. Each has a wild phase (operations under faults; only safety is
 * demanded) and a calm one: faults end, everything under way must end within a bound, the model is
 * narrowed to certainty by reading every key, and then counts, the ledger and exact statuses hold.
 *
 * The world is one struct, handed to everybody; nothing is read from the machine.
 */
#ifndef LARDER_TESTS_SIM_H
#define LARDER_TESTS_SIM_H

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <larder/client.h>
#include <larder/ledger.h>
#include <larder/node.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/prng.h"
#include "mem/memory.h"
#include "transport/loop.h"

enum {
	SIM_CLIENTS = 4,
	SIM_TENANTS = 3,
	SIM_SPACES = 2,			/* namespaces of a tenant */
	SIM_NAMES = 10,			/* key names, the same in every namespace */
	SIM_KEYS = SIM_TENANTS * SIM_SPACES * SIM_NAMES,
	SIM_VALUES = 4,			/* contents that a key may get */
	SIM_OPS = 40,			/* under way */
	SIM_ITEMS = 10,			/* of a batch */
	SIM_PAST = 48,			/* ended items a key remembers */
	SIM_LEASES = 8,			/* a key remembers */
	SIM_SETTINGS = 8,		/* of a tenant's limits that are remembered */
	SIM_FILLS = 4,			/* fill leases a key remembers */
	SIM_TTL_MAX_MS = 900,
	SIM_KEPT = 48,			/* buffers watched after their completion */
};

#define SIM_ABSENT 1u			/* bit 0 of a set of states; value v is bit v + 1 */
#define SIM_VALUE(v) (2u << (v))
#define SIM_ANY_VALUE (SIM_VALUE(SIM_VALUES) - SIM_VALUE(0))
#define SIM_GUARD 16u			/* bytes behind each buffer */
#define SIM_FILL 0xa5			/* of buffers before a GET */

struct world;
struct op;
struct model_key;

/* --- what a seed draws ----------------------------------------------------------------------- */

struct faults {
	bool splits, delay, breaks, cuts, crashes, gaps, wall, slow, cancels, reopens, rot;
	bool purges;
};

struct knobs {
	uint32_t shards, reactors, page, pages, records, leases, credits;
	uint32_t clients, tenants, spaces, names;
	uint32_t batch_max, ops_per_round, rounds, under_way;
	uint64_t value_max, reserve;
	uint32_t lease_max_ms, keepalive_ms, stall_ms, deadline_ms;
	const char *policy;
	bool evicts;			/* memory does not hold everything */
	bool records_short;		/* records may run out before pages do */
	bool sleeps;			/* the node is stepped only when its event fd says so */
	bool limits;			/* tenants have some, and they change */
	bool guarantees;
	bool shares;			/* each tenant reads the first namespace of another */
	bool ttl, fills, pins;
	struct faults may;
};

/* --- the model ------------------------------------------------------------------------------- */

/* What an operation may do to a key. */
struct effect {
	uint32_t puts;			/* values it may bring */
	bool deletes;
	bool forced;			/* deletes over leases */
};

struct past {
	uint64_t end_seq;
	struct effect effect;
};

struct lease {
	uint64_t id;
	uint32_t tenant;		/* whose it is */
	uint64_t from_ns;		/* certain from its completion ... */
	uint64_t until_ns;		/* ... until then, or its release began */
};

/* A fill lease that is certainly held, from_ns on, until one of the things that end it begins. */
struct fill {
	uint64_t id;
	uint64_t from_ns, until_ns;
	uint32_t client;
	uint64_t connection;		/* of the client: its number of reconnects */
};

struct value {
	uint8_t *bytes;
	uint64_t length;
};

struct model_key {
	uint32_t tenant, space, index;
	uint8_t name[1024];
	uint16_t name_len;
	struct value value[SIM_VALUES];
	uint32_t set;			/* states in which it may be now */
	struct effect linger;		/* of operations that ended without certainty */
	struct past past[SIM_PAST];
	uint32_t n_past;
	struct lease lease[SIM_LEASES];
	uint32_t n_leases;
	/* after that, and after the gaps since, nothing leases it: BUSY would be a lie */
	uint64_t leased_at_most_ns;
	uint64_t leased_gaps_ns;
	bool leases_linger;
	bool rotten;			/* a byte was flipped: it may be taken out of service */
	uint64_t ttl_from_ns;		/* it may end by its ttl from then on; 0: it has none */
	uint64_t pinned_ns;		/* certainly pinned hard since then; 0: it may not be */
	bool maybe_pinned;		/* it may be pinned hard */
	uint64_t unpin_seq;		/* the last UNPIN of that ended then */
	bool pins_linger, unpins_linger;
	bool reads_linger;		/* a reader that nobody knows of may hold its pages */
	uint64_t purge_seq;		/* its tenant was being purged until then */
	struct fill fill[SIM_FILLS];
	uint32_t n_fills;
	uint64_t fill_end_seq;		/* something that ends them began then */
	struct item *pending;
};

/* One key of an operation under way. */
struct item {
	struct model_key *key;
	struct item *next;		/* of the key */
	struct op *op;
	int v;				/* PUT: which value */
	uint32_t seen;			/* states in which the key may have been since it began */
	struct effect effect;
	uint8_t hash[LARDER_KEY_HASH_SIZE];	/* of its key, with BY_HASH */
	uint8_t *buffer;
	size_t room;
	uint64_t offset, length;
	struct iovec iov[3];
	bool leased;			/* it was answered that a lease was granted */
	bool pinned, filled;		/* a hard pin, a fill lease */
};

enum op_kind { OP_NONE, OP_BATCH, OP_CALL };

struct op {
	enum op_kind kind;
	uint8_t opcode;
	struct world *w;
	uint32_t client;
	uint64_t number;
	uint64_t start_ns, start_seq;
	uint64_t resends;		/* of the handle, when it began */
	uint64_t lease_id;
	uint32_t lease_ms;
	bool leases;			/* that is of leases, not of a fill lease */
	uint64_t most_pages, most_objects;	/* its tenant may have had meanwhile */
	uint64_t held_pages, held_objects;	/* of these, what could not be evicted */
	bool calm;			/* nothing may go wrong */
	bool cancelled;
	bool excused;			/* the node dies under it, on purpose */
	uint32_t n;
	struct item item[SIM_ITEMS];
	struct larder_batch batch;
	struct larder_item items[SIM_ITEMS];
};

/* --- the ledger as the calm phase expects it ------------------------------------------------- */

struct tally {
	uint64_t ops[LARDER_OP_MAX], status[32];
	uint64_t get_hits, get_hit_bytes, read_bytes, written_bytes;
	uint64_t exists_keys, exists_present, leading_run_keys, put_new;
};

/* --- everybody ------------------------------------------------------------------------------- */

struct stream {
	struct larder_put_stream *s;
	struct op op;			/* OP_CALL with one item */
	uint64_t given;
	uint64_t next_ns;
	bool broken;
};

/* What the model knows of a tenant. */
struct setting {
	uint64_t until_seq;		/* it was in force until then */
	struct larder_limits limits;
};

struct tenant {
	struct larder_limits limits;	/* in force */
	struct setting past[SIM_SETTINGS];
	uint32_t n_past;
	bool squeezed;			/* its writers evict its own */
	uint64_t squeezed_seq;		/* they did until then */
	uint64_t over_bytes;		/* more than its cap it has only since before that */
	uint64_t unsafe_seq;		/* its guarantee did not keep all that it has until then */
	bool gone;			/* removed: being purged, or soon back */
	bool purging;
	uint64_t back_ns;
	uint64_t gone_seq;		/* it was away until then */
};

struct client {
	struct larder_client *c;
	struct larder_environment env;
	struct world *w;
	uint32_t index, tenant;
	uint32_t ns[SIM_SPACES];
	bool ns_open[SIM_SPACES];
	uint32_t shared;		/* another tenant's first namespace */
	bool shared_open;
	bool away;			/* its tenant was, and nothing of it was answered since */
	bool inside;			/* a synchronous call: not stepped from outside */
	uint64_t slow_until_ns;
	struct stream stream;
};

/* A buffer that the library has given back and may never touch again. */
struct kept {
	uint8_t *bytes;
	size_t size;
	uint64_t hash;
};

struct host {
	struct larder_memory memory;	/* what the node is given */
	void *arena[2], *records[2];	/* [live] is in use, the other takes a crash's copy */
	unsigned live;
	size_t arena_bytes, records_bytes;
	struct larder_memory_config geometry;
	bool ever_opened;
};

/* When the node dies. */
struct doom {
	enum { DOOM_NONE, DOOM_STEP, DOOM_CLOCK, DOOM_STORE } when;
	uint64_t count;			/* steps, looks at the clock, stores until then */
	bool dead;			/* it happened: only its functions still run */
};

struct world {
	uint64_t seed;
	bool verbose;
	struct knobs knobs;
	struct prng knob_rng, time_rng, net_rng, fault_rng, op_rng, node_rng, client_rng,
		    more_rng;
	uint64_t now_ns;
	int64_t wall_offset_ms;
	uint64_t seq;			/* counts starts and ends of operations */
	uint64_t hash;			/* of the trace */
	uint64_t turns;
	bool wild;			/* faults may happen */
	bool fine;			/* time goes in small steps, idle or not */
	bool die_now;			/* the node dies as an answer of it is read */
	uint32_t depth;			/* of synchronous calls */

	struct host host;
	struct larder_node *node;
	struct larder_environment node_env;
	struct doom doom;
	uint64_t restart_ns;		/* node is down until then */
	uint64_t boot_gap_ns;		/* passes between its next start and its first turn */
	uint64_t node_seen_ns;		/* its last turn */
	uint64_t node_stop_ns;		/* SIGSTOP until then */
	uint64_t node_wake_ns[4];	/* per reactor: it sleeps at most until then */
	bool squeezed;			/* some tenant was: its own may have been evicted */
	uint64_t gaps_ns;		/* all that leases may have been moved by */
	uint64_t crashes;

	struct loop_net net;
	struct tenant tenant[SIM_TENANTS];
	struct client client[SIM_CLIENTS];
	struct model_key key[SIM_KEYS];
	uint32_t n_keys;
	struct op op[SIM_OPS];
	uint32_t n_ops;
	uint64_t op_number, lease_number;
	uint64_t ops_done, ops_definite;
	struct kept kept[SIM_KEPT];
	uint32_t n_kept;
	struct tally tally[SIM_TENANTS];
};

/* sim.c */
void sim_fail(struct world *w, const char *fmt, ...) _printf_(2, 3) __attribute__((noreturn));

/* knobs.c */
void knobs_draw(struct world *w);
void knobs_print(const struct world *w);
static inline bool chance(struct prng *p, uint32_t one_in)
{
	return prng_below(p, one_in) == 0;
}
static inline uint64_t between(struct prng *p, uint64_t low, uint64_t high)
{
	return low + prng_below(p, high - low + 1);
}

/* world.c */
void world_open(struct world *w);
void world_close(struct world *w);
/* Time goes on a little and everybody gets a turn. */
int world_turn(struct world *w);
/* Adds to the trace what happened. */
void world_trace(struct world *w, const char *what, uint64_t a, uint64_t b, uint64_t c);
void world_client_open(struct world *w, struct client *c);
/* Fills @env with the world's clock and with randomness of @rng. */
void world_environment(struct world *w, struct larder_environment *env, bool node);
const struct larder_log *world_log(struct world *w);
bool world_step_client(struct client *c);
void world_sync_begin(struct client *c);
void world_sync_end(struct client *c);

/* host.c */
void host_open(struct world *w);	/* memory, formatted */
void host_close(struct world *w);
void host_boot(struct world *w);	/* a node over it; may die meanwhile */
void host_die(struct world *w);		/* now, between two steps */
void host_bury(struct world *w);	/* after it died inside a step */
void host_arm_store(struct world *w, uint64_t stores);
void host_disarm(struct world *w);
/* Its clock was looked at: the moment for DOOM_CLOCK. */
void host_looked(struct world *w);
int host_step(struct world *w);

/* net.c */
void net_open(struct world *w);

/* model.c */
void model_open(struct world *w);
void model_close(struct world *w);
void model_begin(struct world *w, struct item *it);
/* It ended. @states: the key was in one of them at some moment since it began, 0 = unknown.
 * @lingers: it may still happen (again). */
void model_end(struct world *w, struct item *it, uint32_t states, bool lingers);
/* A byte of it went bad: it may be taken out of service. */
void model_rot(struct world *w, struct model_key *k);
/* Somebody begins to release @id. */
void model_lease_ends(struct world *w, struct model_key *k, uint64_t id);
/* Could it have been leased at some moment since @it began? */
bool model_maybe_leased(const struct world *w, const struct item *it);
/* Nobody looked for so long: leases are moved by it. */
void model_forgive(struct world *w, uint64_t gap_ns);
/* Nothing that ended can happen any more. */
void model_barrier(struct world *w);
void model_refresh(struct world *w);	/* time went on: leases end */
uint64_t model_next_lease_end(const struct world *w);
uint32_t model_value_of_length(const struct model_key *k, uint64_t length);
const char *model_set_text(uint32_t set);
/* What may be there of a tenant (SIM_TENANTS: of all), and what of it may not go, at most. @but:
 * leaves out what this one does itself. */
struct extent {
	uint64_t pages, objects, held_pages, held_objects;
};
void model_extent(const struct world *w, uint32_t tenant, const struct item *but,
		  struct extent *ret);
void model_key_refresh(struct world *w, struct model_key *k);
/* All of that tenant's goes, leased and pinned or not: begun, done. */
void model_purge(struct world *w, uint32_t tenant);
void model_purged(struct world *w, uint32_t tenant);
uint64_t model_most_length(const struct model_key *k);

/* limits.c */
void limits_apply(struct world *w);		/* to a node that has just started */
void limits_set(struct world *w, uint32_t tenant, const struct larder_limits *l);
void limits_change(struct world *w);		/* some of somebody's */
void limits_lift(struct world *w);		/* all, of all */
void limits_watch(struct world *w);		/* nobody grows past a cap */
void limits_look(struct world *w);		/* what is there changed, or time went on */
bool limits_allow_quota(const struct world *w, const struct item *it);
bool limits_allow_lease_quota(const struct world *w, const struct item *it);
bool limits_allow_pin_quota(const struct world *w, const struct item *it);
bool limits_allow_throttled(const struct world *w, const struct op *op);
bool limits_guaranteed(const struct world *w, const struct op *op);
/* May @k have been evicted since @since_seq? */
bool limits_may_evict(const struct world *w, const struct model_key *k, uint64_t since_seq);

/* fills.c */
void fill_taken(struct world *w, struct item *it);
/* Something begins that ends fill leases of @k; of lease @id only, unless that is 0. */
void fill_ends(struct world *w, struct model_key *k, uint64_t id);
void fill_ends_all(struct world *w);		/* a crash */
void fill_look(struct world *w);		/* time went on, connections ended */
uint64_t fill_count(struct world *w);		/* that the ledger says */

/* list.c */
void list_actor(struct world *w, struct client *c);
void list_calm(struct world *w);

/* tenants.c */
void tenants_booted(struct world *w);
void tenants_purge(struct world *w);		/* somebody goes */
void tenants_turn(struct world *w);
void tenants_finish(struct world *w);		/* all are back */
bool tenants_away_now(const struct world *w, const struct op *op);
bool tenants_away(const struct world *w, const struct op *op);
/* It reads another's, who was away meanwhile: what it shares ended with that. */
bool tenants_not_shared(const struct item *it);
void tenants_open_shared(struct world *w, struct client *c);
struct model_key *tenants_shared_key(struct world *w, const struct client *c);

/* exact_*.c */
void exact_limits(struct world *w);
void exact_promises(struct world *w);
void exact_ends(struct world *w);
void exact_spaces(struct world *w);
/* Everybody has what is shared with it open. */
void spaces_shared(struct world *w);

/* ops.c */
struct op *op_new(struct world *w, uint32_t client, uint8_t opcode);
void op_add(struct op *op, struct model_key *k, int v);
bool op_submit(struct op *op);		/* false: the library took none more; it is gone */
void op_poll(struct world *w, struct client *c);
/* The handle is closed: whatever it had under way ended, nobody knows how. */
void op_close_all(struct client *c);
/* Synchronous calls: the caller owns @op and judges; @states as in model_end. */
void op_begin_call(struct op *op);
void op_end_call(struct op *op, int status, uint32_t states);
bool op_resent(const struct op *op);
bool status_is_uncertain(int status);
/* That, or its tenant was away. */
bool op_uncertain(const struct op *op, int status);
void kept_add(struct world *w, uint8_t *bytes, size_t size);
void kept_check(struct world *w);

/* actor.c */
void actor_round(struct world *w);
void actor_open_spaces(struct world *w, struct client *c);
void actor_streams(struct world *w, bool finish);
void actor_start(struct world *w, struct client *c);

/* calm.c */
void calm_round(struct world *w, bool last);
struct client *calm_client(struct world *w, uint32_t tenant);
struct op *calm_op(struct world *w, const struct client *c, uint8_t opcode);
/* Waits for all that is under way; @what it is. */
void calm_wait(struct world *w, const char *what);
void calm_run(struct op *op, const char *what);
void calm_one(struct world *w, uint8_t opcode, struct model_key *k, int v, uint32_t flags,
	      uint32_t lease_ms);
/* A GET that has room for the whole; and that, run. */
struct op *calm_whole(struct world *w, struct client *c, struct model_key *k);
void calm_get(struct world *w, struct model_key *k);
void calm_connect(struct world *w, struct client *c);
void calm_rest(struct world *w);
uint64_t calm_bound(const struct world *w);

void calm_equal(struct world *w, const char *what, uint64_t have, uint64_t want);

/* hard.c */
void hard_come_back(struct world *w);
void hard_credits(struct world *w);
void hard_waiters(struct world *w);
void hard_reader(struct world *w);
void hard_crash(struct world *w);

/* ledger.c */
void tally_item(struct op *op, uint32_t i);
void tally_op(struct op *op);
void ledger_look(struct world *w, uint32_t tenant, struct larder_usage *usage,
		 struct larder_gauges *gauges);
void ledger_compare(struct world *w, uint32_t tenant, const struct larder_usage *before,
		    const struct larder_usage *after, const struct tally *t);

#endif
