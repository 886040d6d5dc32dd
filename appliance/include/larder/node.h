/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node as a library: no process policy in it. It makes no thread and reads no clock, no
 * randomness and no file by path; the daemon (or a test, or a simulator) hands those in and steps
 * each reactor, from its own thread or all from one.
 *
 *	larder_memory_open -> larder_node_open -> larder_node_tenant_add -> larder_node_listen
 *	-> per reactor: larder_node_step until it returns 0, then wait on larder_node_event_fd
 *	-> larder_node_drain -> larder_node_close -> larder_memory_close
 *
 * Thread rules: step, event_fd: one thread per reactor index. Everything else: one control thread,
 * which may be another than the reactors'; it is served by them at their next turn.
 */
#ifndef LARDER_NODE_H
#define LARDER_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <larder/environment.h>
#include <larder/limits.h>
#include <larder/log.h>
#include <larder/memory.h>
#include <larder/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct larder_node;

/* Listeners "resp://": the Redis protocol. See larder-lmcache(7) for what each is good for. */
struct larder_resp_config {
	/* Where every key belongs; NULL or "auto": LMCache's keys to one named after their model,
	 * others to "resp". Copied. */
	const char *ns;
	/* Who "AUTH password" without a user is; NULL or "": nobody. Copied. */
	const char *default_tenant;
	bool drop;		/* a refusal looks like done, or not there, and is counted */
	bool verify;		/* compares pages with their checks before a GET is answered */
	uint32_t exists_lease_ms;	/* EXISTS keeps what it found for so long; 0 = not */
	uint32_t wait_ms;	/* how long a command waits for another writer of its key */
	uint32_t idle_ms;	/* silence that ends a connection; 0 = none does */
};

struct larder_node_config {
	struct larder_memory *memory;		/* stays the caller's; outlives the node */
	const struct larder_environment *environment;	/* NULL: the kernel's; copied */
	const struct larder_log *log;		/* NULL: silence; copied */
	const char *boot_id;			/* NULL: "" */
	/* NULL, or descriptors of BPF arrays for the ledger, by section (<larder/ledger.h>): they
	 * are mapped at once and stay the caller's. Else it is a memfd. */
	const int *ledger_maps;
	uint32_t reactors;			/* 1 to 64 */
	uint32_t shards;			/* power of two, 1 to 1024 */
	const char *policy;			/* larder_node_policy_known */
	uint64_t reserve_bytes;			/* kept free ahead of need */
	uint64_t max_value_bytes;		/* 1 to 256 MiB */
	uint32_t lease_max_ms;
	uint64_t scrub_bytes_per_s;		/* looked at for bytes that went bad; 0 = off */
	uint32_t max_connections;		/* all reactors together */
	uint32_t max_unauthenticated;		/* of these, before AUTH */
	uint32_t handshake_timeout_ms;
	uint32_t keepalive_ms;			/* silence that ends a session */
	/* a transfer without progress ends its connection */
	uint32_t stall_timeout_ms;
	uint32_t credits;			/* requests in flight per connection */
	uint64_t max_region_bytes;		/* per connection */
	uint32_t max_regions;			/* per connection */
	bool verify_commit;			/* CRC a PUT before it becomes visible; true */
	long viewer_uid;			/* uid that may be viewer beside 0; -1 = none */
	struct larder_resp_config resp;
	uint64_t seed;				/* of sampling; any number */
};

/* Sets every field to its documented default (the same that larderd prints). */
void larder_node_config_defaults(struct larder_node_config *config);

/* Is there an eviction policy of that name? *@ret_names (may be NULL): those that there are. */
bool larder_node_policy_known(const char *name, const char **ret_names);

/* 0 or -errno; each failure logs one line. */
int larder_node_open(const struct larder_node_config *config, struct larder_node **ret);
/* Ends all connections, frees everything. NULL is fine. No reactor may be stepped any more. */
void larder_node_close(struct larder_node *node);

/*
 * Adds a tenant, or replaces its secrets (up to two valid at once; the second may be NULL).
 * Secrets are copied, 1 to 1024 bytes. 0, -EINVAL (name, length), -ENOSPC (too many tenants),
 * -ENOMEM, -EBUSY (it is being purged); what it did not add is not there, and no line is logged.
 * Names of tenants that were purged count as there until the memory is opened again.
 */
int larder_node_tenant_add(struct larder_node *node, const char *name, const void *secret,
			   size_t secret_len, const void *second, size_t second_len);
/*
 * From now on nobody is let in as @name, as if it had never been; each reactor ends its open
 * sessions at its next turn and logs how many. Its objects stay, unreachable; adding it again
 * brings them back. Its guarantee is given up, its other limits stay until they are set again.
 * 0 or -ENOENT: no such tenant.
 */
int larder_node_tenant_remove(struct larder_node *node, const char *name);

/*
 * Limits of tenants, in force from the next request on, kept until set again. All of @limits at
 * once: either every one is taken or none. 0; -ENOENT: no such tenant; -EINVAL: a value that can
 * not be (also a guarantee over resident_bytes, or a tenant named twice); -ENOSPC: the guarantees
 * of all tenants are more than the node has. *@ret_bad (may be NULL) is then the entry that is to
 * blame, and one log line says what is wrong with it.
 *
 * The name "_view" stands for all viewers together. They begin with bounds of their own (see
 * docs/limits.md) and can have: out_bytes_per_s, ops_per_s, in_flight_lookup, in_flight_fetch,
 * connections, regions, region_bytes and weight.
 */
struct larder_tenant_limits {
	const char *tenant;
	struct larder_limits limits;
};
int larder_node_set_limits(struct larder_node *node, const struct larder_tenant_limits *limits,
			   size_t n, size_t *ret_bad);
/*
 * What was set, and what is in force: node-wide bounds, guarantees of others and the default
 * weight worked in. Either may be NULL. 0 or -ENOENT.
 */
int larder_node_get_limits(struct larder_node *node, const char *tenant,
			   struct larder_limits *ret_set, struct larder_limits *ret_effective);
/*
 * Lets other tenants read namespaces of @tenant, as "tenant:namespace": all that it shares from
 * now on; @n 0: nothing. It ends when @tenant is removed. A name need not be there yet, on either
 * side. Whoever may read learns by timing whether a key was there before it put it: the manual
 * warns of that. 0; -ENOENT: no such @tenant; -EINVAL: a name; -ENOMEM; nothing is changed then.
 */
struct larder_share {
	const void *ns;			/* its name, bytes */
	size_t ns_len;
	const char *reader;		/* tenant */
};
int larder_node_set_shares(struct larder_node *node, const char *tenant,
			   const struct larder_share *shares, size_t n);
/*
 * Throws the objects, namespaces and name of a tenant away that was removed (or was in the memory
 * and never added). It works in the reactors' turns: this begins it or tells how far it is. 0:
 * done; 1: under way; -ENOENT: no such tenant; -EBUSY: it is not removed; -ENOMEM. *@ret_objects,
 * *@ret_bytes: what is gone so far.
 */
int larder_node_purge(struct larder_node *node, const char *tenant, uint64_t *ret_objects,
		      uint64_t *ret_bytes);
/* Every tenant in the memory: configured or left over. Calls @fn until it returns false. */
struct larder_node_tenant {
	const char *name;
	bool removed;			/* nobody is let in as it */
	uint64_t objects, value_bytes, resident_bytes;
};
void larder_node_tenants(struct larder_node *node,
			 bool (*fn)(void *user, const struct larder_node_tenant *t), void *user);

/* An open connection. */
struct larder_node_connection {
	uint64_t id;			/* never used again while the node is open */
	uint64_t age_ms;
	uint32_t reactor;
	bool viewer;
	char tenant[LARDER_TENANT_NAME_MAX + 1];	/* "_view" of a viewer */
	char transport[16];		/* "tcp", "shm", "verbs" */
	char peer[128];			/* "198.51.100.7:4711", "unix:pid=42" */
};
/* Copies at most @size of them, oldest first; returns how many. Any thread. */
uint32_t larder_node_connections(struct larder_node *node, struct larder_node_connection *at,
				 uint32_t size);

/* "tcp://127.0.0.1:16180", "shm:///run/larder/larder.sock", "rdma://192.0.2.1:16180",
 * "loop://name", "resp://127.0.0.1:6379" (the Redis protocol, over tcp). Every reactor listens, on
 * rdma the first alone; rdma registers the node's memory.
 * 0 or -errno; the log says what is wrong with it. */
int larder_node_listen(struct larder_node *node, const char *url);
/* The same on a TCP socket that listens already ("tcp" or "resp" is spoken there). @fd stays the
 * caller's: it may be closed after this. */
int larder_node_listen_fd(struct larder_node *node, const char *scheme, int fd);
/* Could it be listened on, as far as its spelling tells? Touches nothing. 0, or -errno and a
 * sentence in *@ret_why. */
int larder_node_listen_check(const char *url, const char **ret_why);
/* The port that "tcp://127.0.0.1:0" got, 0 when there is none. */
int larder_node_port(const struct larder_node *node);
/* Likewise of "resp://127.0.0.1:0". */
int larder_node_resp_port(const struct larder_node *node);

/*
 * One turn of one reactor. Returns how much it did (0 = idle) or -errno when the reactor is broken
 * beyond repair (its log line says why).
 */
int larder_node_step(struct larder_node *node, uint32_t reactor);
/* Readable (poll, epoll) when a step has something to do; owned by the node. */
int larder_node_event_fd(struct larder_node *node, uint32_t reactor);
/* How long a sleep on the event fd may last, milliseconds; at most 1,000. */
int larder_node_timeout_ms(struct larder_node *node, uint32_t reactor);
/* Counts the turns of a reactor: a watchdog's food. */
uint64_t larder_node_turns(const struct larder_node *node, uint32_t reactor);

/* Draining: see DRAINING in <larder/status.h>. Undrain before it is done is allowed. */
void larder_node_drain(struct larder_node *node, bool on);
bool larder_node_is_drained(const struct larder_node *node);	/* nothing is under way */

/* Changes scrub_bytes_per_s of a running node. */
void larder_node_set_scrub(struct larder_node *node, uint64_t bytes_per_s);

struct larder_node_stats {
	struct larder_memory_info memory;
	uint64_t uptime_ms;
	uint64_t pages_free, records_free;
	uint64_t objects, value_bytes, evictions;
	uint64_t leases, references, filling, parked;
	uint64_t connections, unauthenticated, regions, region_bytes, requests;
	uint64_t rebuilt_objects, dropped_records;
	uint64_t quarantined;		/* values whose bytes went bad, taken out of service */
	uint64_t scrubbed_bytes;	/* looked at by the scrubber */
	uint64_t scrub_passes;		/* times that it has looked at every object */
	uint64_t bytes_per_object;	/* metadata: records, heap and index over the capacity */
	bool draining;
};
void larder_node_get_stats(struct larder_node *node, struct larder_node_stats *ret);
/* What became of a key, as far as the node's record of its last evictions and refusals reaches. */
struct larder_node_why {
	/* "present", "evicted", "refused", or "unknown": not in the record (deleted, expired, never
	 * seen, or longer ago) */
	const char *fate;
	int status;		/* refused: what the last writer was told */
	uint64_t ago_ms;	/* evicted, refused: when */
	uint64_t age_ms;	/* evicted: it had not been touched for so long */
	/* evicted: the tenant whose object needed the room; empty: made ahead of need */
	char room_for[LARDER_TENANT_NAME_MAX + 1];
	uint64_t record_ms;	/* how far back the record goes */
	uint64_t record_entries;
};
/* @ns and @key as bytes. Any thread. 0, -EINVAL (lengths), -ENOENT: no such tenant or namespace. */
int larder_node_why(struct larder_node *node, const char *tenant, const void *ns, size_t ns_len,
		    const void *key, size_t key_len, struct larder_node_why *ret);
/*
 * The ledger's memfd for readers: map it PROT_READ, MAP_SHARED; the caller closes it. Over
 * ledger_maps it is a copy, as of this call and of each refresh. -errno.
 */
int larder_node_ledger_fd(struct larder_node *node);
void larder_node_ledger_refresh(struct larder_node *node);
/* The ledger itself, to be read while the node is open. */
struct larder_ledger_header;
const struct larder_ledger_header *larder_node_ledger(const struct larder_node *node);

/*
 * Values that somebody else wrote into the ledger's `limits` (who may write the BPF array), since
 * the last look: @fn gets each tenant's together, bits of @given by enum larder_limit, and returns
 * the bits of those that it has set (larder_node_set_limits). The others, and what is written where
 * no limit is, are written back to what is set, each with a line, and counted.
 */
typedef uint32_t larder_limits_fn(void *user, const char *tenant,
				  const struct larder_limits *values, uint32_t given);
void larder_node_limits_look(struct larder_node *node, larder_limits_fn *fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
