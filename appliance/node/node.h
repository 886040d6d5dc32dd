/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's own structs: the node, its reactors, its tenants. Inside this folder only.
 *
 * Who owns what: everything under struct reactor belongs to the thread that steps it, except the
 * fields marked atomic. A struct tenant is never freed nor moved while the node lives, so a session
 * may keep a pointer to it; its secrets are behind the lock of struct node_tenants.
 */
#ifndef LARDER_NODE_NODE_H
#define LARDER_NODE_NODE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <larder/ledger.h>
#include <larder/node.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/prng.h"
#include "engine/engine.h"
#include "node/limits.h"
#include "transport/transport.h"
#include "view/ledger.h"
#include "wire/wire.h"

#define NODE_LISTENERS_MAX 8u		/* listen calls in the life of a node */
#define NODE_TENANTS_MAX RECORDS_TENANTS_MAX
#define NODE_SECRET_MAX 1024u
#define NODE_PIECE_BYTES LARDER_CHECK_BLOCK /* most of one descriptor, and of a session's turn */
#define NODE_WINDOW_BYTES (2u * NODE_PIECE_BYTES) /* of one transfer at the transport at a time */
#define NODE_IOV_MAX 66u		/* a piece of 4 KiB pages, unaligned, and the message */
#define NODE_EVENTS 64u			/* events taken from a transport at once */
#define NODE_QUIET_TURNS 8u		/* see reactor_poll_transports */
/* Well under the gap that promise 12 forgives, or each idle sleep would look like one. */
#define NODE_SLEEP_MAX_MS 500
#define NODE_GAP_NS NSEC_PER_SEC
/* No request waits longer, whatever it says: 0 ("none") and more become this. */
#define NODE_DEADLINE_MAX_MS (10u * 60u * 1000u)

struct node_secret {
	uint16_t len;			/* 0 = there is none */
	uint8_t bytes[NODE_SECRET_MAX];
};

struct tenant {
	char name[LARDER_TENANT_NAME_MAX + 1];
	uint32_t id;			/* stable, of the record file */
	uint32_t index;			/* place in the table: who takes turns with whom */
	uint32_t slot;			/* in the ledger */
	struct node_secret secret[2];	/* lock */
	bool removed;			/* lock: not let in, as if it were unknown */
	bool purged;			/* lock: removed, and its id is nobody's */
	uint32_t removals;		/* atomic: a session of before the last one is to end */
	struct node_share *shares;	/* control thread: see shares.c */
	size_t n_shares;
	struct quota quota;
	uint64_t resp_dropped;		/* atomic: refusals that its RESP clients were not told */
};

struct node_tenants {
	pthread_mutex_t lock;
	uint32_t n;
	uint32_t removals;		/* atomic: of all of them, for reactors to see */
	struct tenant *at[NODE_TENANTS_MAX];
};

/* Tenants that are being thrown away; see purge.c. */
struct node_purges {
	pthread_mutex_t lock;
	struct node_purge *first;
	bool any;			/* atomic: one is not done */
};

struct node_codec;
struct request;
struct session;

/* Turns of those who have bytes to move; see drr.c. Viewers take turns as one tenant more. */
struct drr_tenant {
	struct list link;		/* drr.active */
	struct list sessions;
	uint32_t n_sessions;
	int64_t deficit;
	const struct quota *quota;
	uint64_t weight;		/* as it was when this turn began */
	uint64_t seen;			/* rounds when it left the ring, or was last settled */
};

struct drr {
	struct list active;
	uint32_t n_active;
	uint64_t rounds;
	uint64_t heaviest;		/* weight, in the last turn */
	struct drr_tenant tenants[NODE_TENANTS_MAX + 1];
};

struct reactor {
	struct larder_node *node;
	struct engine_reactor *engine;
	uint32_t index;
	int epoll_fd;
	int wake_fd;
	bool woken;			/* atomic: wake_fd was, or is about to be, written */
	uint32_t n_transports;		/* atomic: the control thread adds, never takes away */
	struct transport *transports[NODE_LISTENERS_MAX];
	const struct node_codec *codecs[NODE_LISTENERS_MAX];	/* what is spoken on each */
	bool quiet[NODE_LISTENERS_MAX];		/* had nothing when it was last asked */
	bool busy;				/* the last turn did something */
	uint64_t light_ns;			/* when a small reply left last */
	bool spins;			/* atomic: a transport has no event fd */
	bool closing;			/* takes no new connection */

	uint64_t now_ns;		/* read once a turn */
	uint64_t last_turn_ns;		/* 0 = never stepped */
	uint64_t next_scan_ns;
	uint64_t next_due_ns;		/* the first deadline that a scan has to keep */
	uint32_t removals_seen;		/* of node_tenants.removals */
	uint64_t next_publish_ns;
	uint64_t turn;
	struct list sessions;
	uint32_t n_gone;		/* sessions without a connection, not yet freed */
	struct list retry;		/* requests whose region's descriptor has not arrived */
	uint32_t moving;		/* requests of clients that wait for nobody but us */
	uint64_t yield_until_ns;
	struct list yielding;		/* requests of viewers, not begun */
	struct drr drr;
	uint8_t *discard;		/* NODE_PIECE_BYTES that nobody reads */
	uint64_t next_complaint_ns;	/* one line a second about peers that make no sense */
	uint64_t complaints_hidden;

	/* atomic: written here, summed by the control thread */
	uint64_t turns;
	uint64_t requests;
	uint64_t puts;			/* values begun in parts */
	uint64_t regions;
	uint64_t region_bytes;
};

struct larder_node {
	struct larder_node_config config;
	struct clock clock;
	struct secure_random random;
	struct larder_log log;
	char boot_id[64];
	char resp_ns[LARDER_NS_NAME_MAX + 1];
	char resp_tenant[LARDER_TENANT_NAME_MAX + 1];
	struct ledger *ledger;
	struct engine *engine;
	struct node_tenants tenants;
	struct node_purges purges;
	struct quota viewers;
	struct reactor *reactors;
	uint64_t boot_nonce;
	uint8_t dummy_secret[32];	/* for tenants that are none: as slow as a real one */
	uint64_t start_ns;
	uint32_t page_size;
	int port;
	int resp_port;

	pthread_mutex_t listed_lock;
	struct list listed;		/* session.listed_link: open sessions, oldest first */

	/* atomic */
	uint64_t holders;		/* sessions so far: each is a holder of fill leases */
	bool draining;
	uint64_t connections;
	uint64_t unauthenticated;
};

/* shares.c: tells the engine again, after a tenant came. 0 or -ENOMEM. */
int node_shares_tell_all(struct larder_node *n);
/* The tenant was removed: nobody reads what is its. */
void node_shares_forget(struct larder_node *n, struct tenant *tenant);

/* listed.c */
void node_listed_init(struct larder_node *n);
void node_listed_done(struct larder_node *n);
void node_listed_add(struct session *s);
void node_listed_remove(struct session *s);

/* purge.c */
void node_purges_init(struct node_purges *p);
void node_purges_done(struct node_purges *p);
/* May a tenant of that name come? Not while one is being purged; forgets one that was. */
bool node_purge_allows(struct larder_node *n, const char *name);
/* Returns how much it did. */
int node_purge_turn(struct reactor *r);

/* tenants.c */
bool node_tenant_name_is_good(const char *name);
void node_tenants_init(struct node_tenants *t);
void node_tenants_done(struct node_tenants *t);
/* NULL also when it was removed. */
struct tenant *node_tenants_find(struct node_tenants *t, const char *name);
/* NULL unless it was removed. */
struct tenant *node_tenants_find_removed(struct node_tenants *t, const char *name);
bool node_tenant_has_sessions(const struct tenant *tenant);
/* Nothing of it is left: if it is added again it gets another id. */
void node_tenants_purged(struct node_tenants *t, struct tenant *tenant);
/*
 * Copies both secrets; a tenant's may be replaced while handshakes are under way. Returns its
 * removals so far: whoever is let in by these secrets ends when they become more.
 */
uint32_t node_tenants_secrets(struct node_tenants *t, const struct tenant *tenant,
			      struct node_secret ret[2]);
/* Ends this reactor's sessions of tenants that were removed since it last looked. */
void node_tenants_evict(struct reactor *r);

/* reactor.c */
int node_reactor_init(struct reactor *r, struct larder_node *node, uint32_t index);
void node_reactor_done(struct reactor *r);
/* Ends every connection and waits, by turns, until nothing of theirs is left. */
void node_reactor_shutdown(struct reactor *r);
/* Adds a transport that listens already. The caller is the control thread. */
int node_reactor_adopt(struct reactor *r, struct transport *t, const struct node_codec *codec);
void node_reactor_wake(void *reactor);
/* A scan is wanted at @when_ns: something under way ends there by itself. */
void node_reactor_due(struct reactor *r, uint64_t when_ns);
/* A line about a peer that makes no sense; at most one a second and reactor. */
void node_reactor_complain(struct reactor *r, const char *fmt, ...) _printf_(2, 3);

/* drr.c */
void node_drr_init(struct drr *d);
void node_drr_enter(struct reactor *r, struct session *s);
void node_drr_leave(struct reactor *r, struct session *s);
/* May its tenant send something small before its turn, to be charged? */
bool node_drr_may_overdraw(struct reactor *r, struct session *s);
void node_drr_charge(struct reactor *r, struct session *s, uint32_t bytes);
/* Returns the bytes that were handed out. */
uint64_t node_drr_run(struct reactor *r);

/* yield.c: the state of @r changed. */
void node_yield_moved(struct request *r);
/* Is it too early for a step of a viewer? */
bool node_yield(struct reactor *r);
/* Puts off a viewer's request that was received. */
void node_yield_start(struct request *r);
/* Begins those that were put off, if it is time. How many. */
int node_yield_turn(struct reactor *r);

static inline void node_count(uint64_t *counter, uint64_t n)
{
	(void)__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static inline void node_uncount(uint64_t *counter, uint64_t n)
{
	(void)__atomic_fetch_sub(counter, n, __ATOMIC_RELAXED);
}

static inline bool node_draining(const struct larder_node *n)
{
	return __atomic_load_n(&n->draining, __ATOMIC_RELAXED);
}

#endif
