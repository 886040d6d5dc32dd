/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record file: what survives the process. Format version 1, little endian, in this order:
 *
 *	header		4096 bytes: magic, format, geometry, boot id, generation, heartbeat
 *	tenants		RECORDS_TENANTS_MAX entries of 64 bytes
 *	namespaces	n entries of 1024 bytes (name and descriptor)
 *	leases		n entries of 32 bytes
 *	records		n records of 256 bytes: objects and their overflow
 *
 * What never changes after commit (key, ids, length, runs, checks) is under the record's CRC.
 * State, times, hits, lease and pin are single aligned words outside it.
 *
 * Commit: write all, CRC, one release store of the state, then the caller replies.
 * Delete and evict: one store of the state before a page is reused and before the reply.
 * At start records_rebuild walks the file; whatever was half-written is freed.
 *
 * Free record slots are kept on a heap-side stack. Thread rules: slot_take/slot_give, namespace
 * and tenant and lease calls may be made from any thread (one lock inside); a record's content
 * belongs to whoever owns the slot (the engine's shard lock).
 */
#ifndef LARDER_MEM_RECORDS_H
#define LARDER_MEM_RECORDS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <larder/descriptor.h>
#include <larder/memory.h>
#include <larder/key.h>
#include <larder/types.h>

#define RECORDS_FORMAT 1u
#define RECORDS_TENANTS_MAX 256u	/* stable ids; the ledger shows the first 64 in use */
#define RECORD_SIZE 256u
#define RECORD_INLINE 160u		/* bytes of key, runs and checks in the head record */
#define RECORD_OVERFLOW_INLINE 240u
#define RECORD_NONE UINT32_MAX

enum record_state {
	RECORD_FREE = 0,
	RECORD_FILLING = 1,	/* a writer is at work: freed at restart */
	RECORD_COMMITTED = 2,
	RECORD_DOOMED = 3,	/* deleted; pages wait for references: freed at restart */
	RECORD_OVERFLOW = 4,	/* belongs to the head record that names it */
	RECORD_QUARANTINED = 5,	/* bytes were found bad: never served, freed at restart */
};

struct record {
	/* single aligned words, changed in place, outside the CRC */
	uint32_t state;		/* enum record_state; release store */
	uint32_t hits;
	uint64_t last_ns;	/* last touch, monotonic */
	uint64_t lease_ns;	/* longest lease's deadline, monotonic; 0 = none */
	uint64_t expire_ns;	/* ttl's end, monotonic; 0 = none */
	uint32_t pins;		/* soft | hard << 16: marks, 0 or 1 each */
	/* fixed from commit on, under the CRC (over everything from here, crc field as 0) */
	uint32_t crc;
	uint64_t generation;	/* never used twice in one file: inode and cursor identity */
	uint64_t commit_time_ms;
	uint64_t length;
	uint64_t digest;
	uint32_t tenant;
	uint32_t ns;
	uint32_t overflow;	/* next record of the chain, RECORD_NONE at its end */
	uint32_t n_runs;
	uint32_t n_checks;
	uint16_t key_len;
	uint16_t flags;		/* RECORD_CHECKED_BY_NODE */
	uint8_t data[RECORD_INLINE]; /* runs, then checks, then key; continued in the overflow */
};
static_assert(sizeof(struct record) == RECORD_SIZE, "format");
static_assert(offsetof(struct record, generation) % 8 == 0, "format");

#define RECORD_CHECKED_BY_NODE 0x1u

struct record_overflow {
	uint32_t state;		/* RECORD_OVERFLOW */
	uint32_t next;
	uint64_t generation;	/* of the head record: a stale chain does not match */
	uint8_t data[RECORD_OVERFLOW_INLINE];
};
static_assert(sizeof(struct record_overflow) == RECORD_SIZE, "format");

enum lease_state { LEASE_FREE = 0, LEASE_HELD = 1 };

struct lease_record {
	uint32_t state;		/* enum lease_state; release store, last */
	uint32_t tenant;
	uint64_t id;		/* chosen by the client */
	uint64_t deadline_ns;	/* monotonic */
	uint32_t record;	/* slot of the object */
	uint32_t generation;	/* low half of the object's generation */
};
static_assert(sizeof(struct lease_record) == 32, "format");

/* Of a tenant's or namespace's entry in the directory; 32 bits, stored with release, last. */
enum directory_state {
	DIRECTORY_FREE = 0,
	DIRECTORY_USED = 1,
	DIRECTORY_RETIRED = 2,	/* gone for good; FREE after the next records_rebuild */
};

#define NAMESPACE_SECOND_TOUCH 0x1u	/* admission */

struct namespace_record {
	uint32_t state;		/* enum directory_state */
	uint32_t tenant;
	uint32_t flags;		/* NAMESPACE_*; may change, outside the CRC */
	uint32_t ttl_ms;
	uint64_t created_ms;
	uint16_t name_len;
	uint8_t name[LARDER_NS_NAME_MAX];
	uint8_t reserved[866 - sizeof(struct larder_descriptor)];
	uint32_t crc;		/* CRC-32C of tenant, created_ms, name_len, name, descriptor */
	struct larder_descriptor descriptor;
};
static_assert(sizeof(struct namespace_record) == 1024, "format");

struct records;

/* What a rebuild found. */
struct records_rebuilt {
	uint64_t objects;
	uint64_t bytes;
	uint64_t dropped_bad;		/* CRC, ranges or chain wrong */
	uint64_t dropped_twice;		/* pages claimed by two */
	uint64_t dropped_unfinished;	/* FILLING, DOOMED, QUARANTINED */
	uint64_t leases;
	uint64_t gap_ns;		/* nobody looked: leases were moved by it */
};

/*
 * Formats or checks @base (records_bytes() long). 0, or -EPROTO with *@why set to a sentence (valid
 * until this thread's next call), or -EINVAL / -ENOMEM. @geometry's values are the final ones (no
 * zeros for defaults). @boot_id as in records_set_boot.
 */
size_t records_bytes(uint32_t records, uint32_t leases, uint32_t namespaces);
int records_attach(void *base, size_t size, const struct larder_memory_config *geometry,
		   const char *boot_id, bool fresh, struct records **ret, const char **why);
struct records *records_detach(struct records *r);	/* always NULL */
/*
 * Says which boot this is ("" or NULL: unknown, nothing happens). 0, or 1 when the content is of
 * another boot: a power loss, after which neither the order of stores nor monotonic times hold.
 * Everything in the file is dropped then. Call it before records_rebuild and before anything is
 * added. -EINVAL: longer than 47 bytes.
 */
int records_set_boot(struct records *r, const char *boot_id);

uint32_t records_count(const struct records *r);
struct record *records_at(struct records *r, uint32_t slot);
uint64_t records_next_generation(struct records *r);
/* The last turn of a reactor before a crash: the gap is not held against leases. */
void records_heartbeat(struct records *r, uint64_t now_ns);

/* Slots. take: RECORD_NONE when none is free. give: the state must be RECORD_FREE by then. */
uint32_t records_slot_take(struct records *r);
void records_slot_give(struct records *r, uint32_t slot);
uint32_t records_slots_free(struct records *r);

/* Records that @length, @key_len, @n_runs need in all: 1 + overflow. */
uint32_t records_needed(uint16_t key_len, uint32_t n_runs, uint32_t n_checks);

/*
 * Fills the fixed part of @slot (state FILLING) and its overflow chain; generation is set. The
 * slots of the chain are taken here. 0 or -ENOSPC (no slots; nothing is kept, @slot stays the
 * caller's). Checks may be NULL: written as zeros, to be given to records_commit.
 */
struct record_content {
	uint32_t tenant, ns;
	uint64_t length, digest;
	uint64_t expire_ns;
	uint16_t flags;
	const void *key;
	uint16_t key_len;
	const struct larder_run *runs;
	uint32_t n_runs;
	const uint32_t *checks;
	uint32_t n_checks;
};
int records_fill(struct records *r, uint32_t slot, const struct record_content *c);
/* Stores @checks (NULL: keep), commit time and CRC, then the state with one release store. */
void records_commit(struct records *r, uint32_t slot, const uint32_t *checks,
		    uint64_t commit_time_ms);
/* One store of the state (DOOMED, QUARANTINED or FREE), released. */
void records_set_state(struct records *r, uint32_t slot, enum record_state state);
/* Gives the overflow chain and the slot back; stores FREE first. Pages are the caller's. */
void records_free(struct records *r, uint32_t slot);

/* Copies out parts, wherever they continue. key: room for LARDER_KEY_MAX; returns its length. */
uint16_t records_key(struct records *r, uint32_t slot, void *key);
void records_runs(struct records *r, uint32_t slot, struct larder_run *runs, uint32_t first,
		  uint32_t n);
void records_checks(struct records *r, uint32_t slot, uint32_t *checks, uint32_t first, uint32_t n);
bool records_key_equal(struct records *r, uint32_t slot, const void *key, uint16_t key_len);

/*
 * Walks the file once: frees what was unfinished or does not check (each is logged and counted),
 * claims pages through @claim (0 or -EEXIST / -ERANGE), and calls @object for each that is left.
 * Two records that claim one page are both dropped. Leases' and lease words' deadlines are moved
 * by the gap between the last heartbeat and @now_ns; leases of dropped objects are freed.
 */
struct arena;
int records_rebuild(struct records *r, struct arena *arena, uint64_t now_ns,
		    void (*object)(void *user, uint32_t slot), void *user,
		    const struct larder_log *log, struct records_rebuilt *ret);

/* Directory. Ids are indexes; a name is found or added. -ENOSPC when the directory is full. */
int records_tenant_add(struct records *r, const char *name, uint32_t *ret_id);
int records_tenant_find(struct records *r, const char *name, uint32_t *ret_id);
const char *records_tenant_name(struct records *r, uint32_t id);	/* NULL: unused */
int records_namespace_add(struct records *r, uint32_t tenant, const void *name, uint16_t name_len,
			  const struct larder_descriptor *d, uint64_t now_ms, uint32_t *ret_id);
int records_namespace_find(struct records *r, uint32_t tenant, const void *name, uint16_t name_len,
			   uint32_t *ret_id);	/* 0 or -ENOENT */
const struct namespace_record *records_namespace(struct records *r, uint32_t id); /* NULL: unused */
void records_namespace_set_flags(struct records *r, uint32_t id, uint32_t flags);
uint32_t records_namespaces(const struct records *r);
/*
 * Forgets an entry with one store. What the entry says stays readable, and its id names nothing
 * else, until the next records_rebuild. No object may carry the id any more.
 */
void records_namespace_retire(struct records *r, uint32_t id);
void records_tenant_retire(struct records *r, uint32_t id);

/* Leases, stored; the engine keeps its own index over them. NULL when the table is full. */
struct lease_record *records_lease_take(struct records *r);
void records_lease_commit(struct lease_record *l);	/* after its fields were set */
void records_lease_give(struct records *r, struct lease_record *l);
struct lease_record *records_lease_at(struct records *r, uint32_t i);	/* NULL past the end */

#endif
