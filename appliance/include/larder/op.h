/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation on the engine, as every codec fills it.
 *
 * A codec (native, later RESP and others) decodes a request into a struct larder_op and submits it;
 * the engine fills the result part and gives it back as a completion. Neither knows more of the
 * other than this struct.
 *
 * Ownership: the op and all memory it points to (keys, checks, outputs) belong to the engine from
 * engine_submit until it is completed. The engine copies what it keeps.
 */
#ifndef LARDER_OP_H
#define LARDER_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <larder/key.h>
#include <larder/limits.h>
#include <larder/status.h>
#include <larder/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LARDER_NS_ANY UINT32_MAX

/* Operations; numbers are wire format (wire/ops.def documents each). */
enum larder_opcode {
	LARDER_OP_HELLO = 0x01,
	LARDER_OP_AUTH = 0x02,
	LARDER_OP_PING = 0x03,
	LARDER_OP_CANCEL = 0x04,
	LARDER_OP_NS_CREATE = 0x10,
	LARDER_OP_NS_OPEN = 0x11,
	LARDER_OP_NS_LIST = 0x12,
	LARDER_OP_NS_FLUSH = 0x13,
	LARDER_OP_NS_RETIRE = 0x14,
	LARDER_OP_REGION_ADD = 0x18,
	LARDER_OP_REGION_DEL = 0x19,
	LARDER_OP_PUT = 0x20,
	LARDER_OP_PUT_BEGIN = 0x21,
	LARDER_OP_PUT_PART = 0x22,
	LARDER_OP_PUT_COMMIT = 0x23,
	LARDER_OP_PUT_ABORT = 0x24,
	LARDER_OP_GET = 0x28,
	LARDER_OP_EXISTS = 0x29,
	LARDER_OP_LEASE = 0x2a,
	LARDER_OP_RELEASE = 0x2b,
	LARDER_OP_PIN = 0x2c,
	LARDER_OP_UNPIN = 0x2d,
	LARDER_OP_STAT = 0x2e,
	LARDER_OP_LIST = 0x2f,
	LARDER_OP_DELETE = 0x30,
	LARDER_OP_MAX = 0x40,
};

/* Flags of an operation (wire numbers too). */
enum larder_op_flags {
	LARDER_F_NOWAIT = 1u << 0,	/* PUT: BUSY at once where another writer is at work */
	LARDER_F_WAIT = 1u << 1,	/* GET, EXISTS: wait for a FILLING or promised key */
	/* GET: node verifies pages first, quarantines what is bad */
	LARDER_F_VERIFY = 1u << 2,
	/* STAT, GET, DELETE: the key is the 16-byte XXH3-128(key) */
	LARDER_F_BY_HASH = 1u << 3,
	LARDER_F_FORCE = 1u << 4,	/* DELETE, NS_FLUSH: over leases and hard pins */
	LARDER_F_WHOLE = 1u << 5,	/* GET: the whole object or TOO_SMALL */
	/* EXISTS: lease what is found, lease_id and lease_ms given */
	LARDER_F_LEASE = 1u << 6,
	LARDER_F_FILL = 1u << 7,	/* EXISTS, GET: a fill lease on the batch's first miss */
	LARDER_F_HARD = 1u << 8,	/* PIN, UNPIN: the hard pin, not the soft one */
	LARDER_F_NO_CHECKS = 1u << 9,	/* GET: reader does not want checks */
	LARDER_F_NO_TOUCH = 1u << 10,	/* set by the node for viewers: policy is not told */
	/* PUT: checks were computed by a codec, not the client */
	LARDER_F_CHECKED_BY_NODE = 1u << 11,
};

/* What EXISTS says of a key. */
enum larder_presence {
	LARDER_ABSENT = 0,
	LARDER_PRESENT = 1,
	LARDER_LEASED = 2,
	LARDER_FILLING = 3,	/* absent for a reader; another writer is at work */
};

/* Attributes of one object. Times are wall-clock milliseconds since 1970. */
struct larder_stat {
	uint64_t size_bytes;
	uint64_t commit_time_ms;
	uint64_t digest;	/* XXH3-64(key, seed = digest of the descriptor) */
	uint64_t inode;		/* record slot and generation: never names two objects */
	/* of the whole value, from its check blocks when there is one; else of them */
	uint32_t crc32c;
	uint32_t hits;
	uint32_t age_ms;	/* since commit; saturates */
	uint32_t lease_ms;	/* left of the longest lease, 0 = none */
	uint32_t pins;		/* soft in the low half, hard in the high half: 0 or 1 each */
	uint32_t runs;
	uint32_t flags;		/* LARDER_F_CHECKED_BY_NODE */
	uint32_t tier;		/* 0 = memory */
};

/* One key of an operation, with its result. */
struct larder_op_key {
	const void *key;
	uint16_t key_len;
	uint8_t status;		/* out: enum larder_status */
	uint8_t presence;	/* out: enum larder_presence (EXISTS) */
};

struct engine_object;		/* opaque outside the engine */
struct larder_op;

/* LIST: the engine calls it for each object found; false = no room, stop before this one. */
typedef bool (*larder_list_fn)(void *user, const void *key, size_t key_len,
			       const struct larder_stat *st);

struct larder_op {
	/* --- request: filled by the codec --- */
	uint8_t opcode;			/* enum larder_opcode */
	uint32_t flags;			/* enum larder_op_flags */
	uint32_t tenant;		/* index of the connection's identity */
	uint32_t ns;			/* namespace id */
	uint64_t deadline_ns;		/* on the clock of the node; 0 = none */
	struct larder_op_key *keys;	/* n_keys of them; GET and PUT have one */
	uint32_t n_keys;
	uint64_t length;		/* PUT: bytes of the value */
	uint64_t digest;		/* PUT: as computed by the writer */
	const uint32_t *checks;		/* PUT, PUT_COMMIT: one CRC-32C per check block */
	uint32_t n_checks;
	uint32_t ttl_ms;		/* PUT: 0 = none */
	/* EXISTS with LEASE, LEASE, RELEASE; FILL: of the fill lease */
	uint64_t lease_id;
	/* of a lease, and of a fill lease: there 0 = the engine's choice */
	uint32_t lease_ms;
	uint64_t holder;		/* FILL: whose end also ends it, see engine_fills_release */
	uint64_t cursor;		/* LIST: 0 = from the start; out: 0 = that was all */
	uint32_t max;			/* LIST: entries at most */
	larder_list_fn list;
	void *list_user;
	struct larder_stat *stats;	/* STAT: n_keys of them; GET, PUT: one or NULL */

	/* --- result: filled by the engine --- */
	int status;			/* enum larder_status of the whole */
	uint64_t expire_ns;		/* STAT: when the last key's ttl ends, 0 = never */
	uint32_t leading_run;		/* EXISTS: keys found before the first absent one */
	uint64_t count;			/* NS_FLUSH: objects; DELETE: deleted */
	uint64_t bytes;			/* NS_FLUSH: bytes */
	/* NS_FLUSH: objects left because they are leased or pinned hard */
	uint64_t kept;
	struct engine_object *object;	/* GET: referenced; PUT: being filled. See engine.h */
	bool present;			/* PUT_BEGIN: key is there, parts are to be discarded */
	/* QUOTA, THROTTLED: the limit that said so (enum larder_limit), or LARDER_LIMIT_NONE */
	uint8_t limit;

	/* --- the engine's and the owner's own --- */
	void *owner;			/* codec's, untouched */
	struct larder_op *next;		/* engine: queue link */
	struct larder_op **pprev;	/* engine: queue link */
	void *home;			/* engine: who completes it */
	uint32_t stage;			/* engine: what it waits for */
	uint32_t shard;			/* engine: shard of its key */
};

#ifdef __cplusplus
}
#endif
#endif
