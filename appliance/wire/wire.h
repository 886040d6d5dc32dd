/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native wire: fixed little-endian structs, sizes asserted beside the definition. Pure: no I/O,
 * no allocation. Decoding never trusts a length and never reads past what it was given.
 *
 * A message is a header (32 bytes), a body (at most max_message less the header) and a payload.
 * The header's crc is CRC-32C of header (crc as 0) and body; the payload has its own checks.
 *
 * Bodies begin with the struct named in ops.def; what varies follows in this order: segments,
 * checks, then key, name, prefix or text. A list of keys is, per key, a u16 length and the bytes.
 * A reply whose status is not OK or EXISTS_SAME has a body of struct wire_error and a text,
 * whatever the operation, except EXISTS/LEASE/RELEASE/PIN/UNPIN/STAT/DELETE replies, which always
 * carry a status per key when the header's status is OK or NOT_FOUND.
 */
#ifndef LARDER_WIRE_WIRE_H
#define LARDER_WIRE_WIRE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <larder/descriptor.h>
#include <larder/op.h>

#define WIRE_MAGIC 0x5244524cu		/* "LRDR" */
#define WIRE_VERSION 1u
#define WIRE_MESSAGE_MAX (16u * 1024u)	/* header + body, unless HELLO says otherwise */
#define WIRE_HEADER_SIZE 32u
#define WIRE_NONCE_SIZE 32u
#define WIRE_MAC_SIZE 32u
#define WIRE_SEGS_MAX 64u		/* remote segments in one request */
#define WIRE_OPAQUE_MAX 64u
#define WIRE_PRE_AUTH_MAX 512u		/* largest body before authentication */
#define WIRE_KEYS_MAX 1024u		/* keys in one message */

enum wire_header_flags {
	WIRE_REPLY = 1u << 0,
	WIRE_LAST = 1u << 1,		/* last message of its batch */
};

struct wire_header {
	uint32_t magic;
	uint8_t version;
	uint8_t op;
	uint16_t flags;
	uint64_t request_id;	/* chosen by the client; unique among those under way */
	uint16_t status;
	uint16_t reserved;
	uint32_t body_len;
	uint32_t payload_len;
	uint32_t crc;
};
static_assert(sizeof(struct wire_header) == WIRE_HEADER_SIZE, "wire");

enum wire_role { WIRE_ROLE_CLIENT = 0, WIRE_ROLE_VIEWER = 1 };

enum wire_features { WIRE_FEATURE_NONE = 0 };

struct wire_none {
	uint64_t zero;
};

struct wire_hello {
	uint16_t version_min;
	uint16_t version_max;
	uint8_t role;			/* enum wire_role */
	uint8_t tenant_len;
	uint16_t reserved;
	uint64_t features;
	uint32_t check_block;		/* must be LARDER_CHECK_BLOCK */
	uint32_t keepalive_ms;		/* client's wish; 0 = the node's default */
	uint8_t tenant[LARDER_TENANT_NAME_MAX];
	uint8_t nonce[WIRE_NONCE_SIZE];
};
static_assert(sizeof(struct wire_hello) == 88, "wire");

struct wire_challenge {
	uint16_t version;
	uint16_t reserved;
	uint32_t reserved2;
	uint64_t features;
	uint8_t nonce[WIRE_NONCE_SIZE];
};
static_assert(sizeof(struct wire_challenge) == 48, "wire");

/*
 * mac = HMAC-SHA256(secret, label || HELLO header and body || challenge header and body), as sent,
 * where label is "larder client" (13 bytes) from the client and "larder node" (11) from the node.
 * The node's is over the AUTH message (header and body) too. A viewer by peer credentials sends
 * zeros and gets zeros.
 */
struct wire_auth {
	uint8_t mac[WIRE_MAC_SIZE];
};
static_assert(sizeof(struct wire_auth) == 32, "wire");

struct wire_welcome {
	uint8_t mac[WIRE_MAC_SIZE];
	uint64_t boot_nonce;		/* differs after each start of the node */
	uint64_t max_value_bytes;
	uint64_t max_region_bytes;
	uint32_t max_message;
	uint32_t credits;		/* requests in flight; one more for operations marked C */
	uint32_t page_size;
	uint32_t check_block;
	uint32_t keepalive_ms;		/* silence longer than this ends the session */
	uint32_t lease_max_ms;
	uint32_t tenant;		/* its stable id, for people */
	uint32_t capabilities;		/* WIRE_CAP_* */
};
static_assert(sizeof(struct wire_welcome) == 88, "wire");

#define WIRE_CAP_ONE_SIDED 0x1u		/* name regions; else payload is inline */

struct wire_ping {
	uint64_t token;
};

struct wire_cancel {
	uint64_t request_id;
};

/* Which keys a namespace stores. */
enum wire_admission {
	WIRE_ADMISSION_LEAVE = 0,	/* as it is; all in a new one */
	WIRE_ADMISSION_ALL = 1,
	WIRE_ADMISSION_SECOND_TOUCH = 2,
};

/* What a namespace is for who asks. */
enum wire_ns_flags {
	WIRE_NS_CREATED = 1,		/* by this request */
	WIRE_NS_SECOND_TOUCH = 2,	/* its admission */
	WIRE_NS_READ_ONLY = 4,		/* another tenant's */
};

struct wire_ns_open {
	uint16_t name_len;
	uint16_t has_descriptor;
	uint32_t admission;		/* enum wire_admission; NS_OPEN: LEAVE */
	struct larder_descriptor descriptor;
	/* name */
};
static_assert(sizeof(struct wire_ns_open) == 8 + sizeof(struct larder_descriptor), "wire");

struct wire_ns_opened {
	uint32_t ns;
	uint32_t flags;			/* enum wire_ns_flags */
	struct larder_descriptor descriptor;
};

struct wire_ns_list {
	uint64_t cursor;		/* 0 = from the start */
	uint32_t max;
	uint32_t reserved;
};

struct wire_ns_listed {
	uint64_t cursor;		/* 0 = that was all */
	uint32_t count;
	uint32_t reserved;
	/* count entries: struct wire_ns_entry, name ("tenant:name" of another tenant's) */
};

struct wire_ns_entry {
	uint32_t ns;
	uint16_t name_len;
	uint16_t flags;			/* enum wire_ns_flags */
	uint64_t objects;
	uint64_t bytes;
	uint64_t created_ms;
};
static_assert(sizeof(struct wire_ns_entry) == 32, "wire");

struct wire_ns_flush {
	uint32_t ns;
	uint32_t flags;			/* LARDER_F_FORCE */
};

struct wire_ns_flushed {
	uint64_t objects;
	uint64_t bytes;
	uint64_t kept;			/* leased or pinned, not forced */
};

struct wire_region_add {
	uint32_t region;		/* number chosen by the client, unique in the connection */
	uint32_t opaque_len;
	uint64_t size_bytes;
	/* opaque */
};
static_assert(sizeof(struct wire_region_add) == 16, "wire");

struct wire_region_del {
	uint32_t region;
	uint32_t reserved;
};

/* Head of every request on objects. */
struct wire_common {
	uint64_t batch;			/* id of the caller's batch; 0 = alone */
	uint32_t batch_index;		/* index of this message's first key in it */
	uint32_t deadline_ms;		/* what is left of the caller's; 0 = none */
	uint32_t ns;
	uint32_t flags;			/* enum larder_op_flags */
};
static_assert(sizeof(struct wire_common) == 24, "wire");

/* A piece of a region. */
struct wire_seg {
	uint32_t region;
	uint32_t length;
	uint64_t offset;
};
static_assert(sizeof(struct wire_seg) == 16, "wire");

struct wire_put {
	struct wire_common c;
	uint64_t length;
	uint64_t digest;
	uint32_t ttl_ms;
	uint32_t gate;			/* with segments on shm; else not looked at */
	uint32_t n_checks;		/* larder_check_count(length); PUT_BEGIN: 0 */
	uint16_t n_segs;		/* 0: payload is inline, length bytes (PUT_BEGIN: none) */
	uint16_t key_len;
	/* segs, checks, key */
};
static_assert(sizeof(struct wire_put) == 56, "wire");

struct wire_put_done {
	uint64_t size_bytes;
	uint64_t commit_time_ms;
};

struct wire_put_begun {
	uint64_t put;			/* names the value on this connection */
	uint32_t present;		/* 1: key is there; parts are discarded, commit compares */
	uint32_t reserved;
};

struct wire_put_part {
	struct wire_common c;
	uint64_t put;
	uint64_t offset;
	uint64_t length;
	uint32_t gate;
	uint32_t n_segs;		/* 0: inline */
	/* segs */
};
static_assert(sizeof(struct wire_put_part) == 56, "wire");

struct wire_put_commit {
	struct wire_common c;
	uint64_t put;
	uint32_t n_checks;
	uint32_t reserved;
	/* checks */
};
static_assert(sizeof(struct wire_put_commit) == 40, "wire");

struct wire_put_abort {
	uint64_t put;
};

struct wire_get {
	struct wire_common c;
	uint64_t offset;		/* multiple of the check block unless NO_CHECKS */
	uint64_t length;		/* bytes wanted from there; cut at the value's end */
	uint64_t room;			/* WHOLE: bytes the reader has room for (else TOO_SMALL) */
	uint32_t gate;
	uint16_t n_segs;		/* where the bytes go, in order; 0: inline in the reply */
	uint16_t key_len;
	/* segs, key */
};
static_assert(sizeof(struct wire_get) == 56, "wire");

struct wire_got {
	uint64_t size_bytes;		/* of the whole value */
	uint64_t offset;
	uint64_t length;		/* bytes moved; payload_len when inline */
	uint64_t digest;
	uint64_t commit_time_ms;
	uint32_t first_check;		/* check block at offset */
	uint32_t n_checks;		/* blocks that the moved bytes touch; 0 with NO_CHECKS */
	uint32_t flags;			/* LARDER_F_CHECKED_BY_NODE */
	uint32_t reserved;
	/* checks */
};
static_assert(sizeof(struct wire_got) == 56, "wire");

struct wire_keys {
	struct wire_common c;
	uint64_t lease_id;
	uint32_t lease_ms;
	uint32_t n_keys;
	/* keys */
};
static_assert(sizeof(struct wire_keys) == 40, "wire");

struct wire_key_status {
	uint8_t status;
	uint8_t presence;
};

struct wire_keys_done {
	uint32_t n_keys;
	uint32_t leading_run;		/* within this message */
	uint32_t lease_ms;		/* granted */
	uint32_t reserved;
	/* n_keys struct wire_key_status */
};

struct wire_stats_done {
	uint32_t n_keys;
	uint32_t reserved;
	/* n_keys struct wire_stat */
};

struct wire_stat {
	uint32_t status;
	uint32_t reserved;
	struct larder_stat stat;
};
static_assert(sizeof(struct wire_stat) == 8 + sizeof(struct larder_stat), "wire");
static_assert(sizeof(struct larder_stat) == 64, "wire");

struct wire_list {
	struct wire_common c;
	uint64_t cursor;
	uint32_t max;
	uint32_t prefix_len;
	/* prefix: of the key's bytes */
};
static_assert(sizeof(struct wire_list) == 40, "wire");

struct wire_listed {
	uint64_t cursor;		/* 0 = that was all; may come with no entry */
	uint32_t count;
	uint32_t reserved;
	/* count entries, packed: struct wire_list_entry, key */
};

struct wire_list_entry {
	struct larder_stat stat;
	uint32_t key_len;
	uint32_t reserved;
};
static_assert(sizeof(struct wire_list_entry) == 72, "wire");

struct wire_error {
	uint64_t detail;		/* TOO_SMALL: size; THROTTLED: retry after, ms; else 0 */
	uint32_t text_len;
	uint32_t reserved;
	/* text: a sentence for a person; LAYOUT_MISMATCH: the field's name */
};
static_assert(sizeof(struct wire_error) == 16, "wire");

/* What one operation is: from ops.def. */
enum wire_op_flags {
	WIRE_OP_KEYS = 1, WIRE_OP_PAYLOAD = 2, WIRE_OP_REPLY_PAYLOAD = 4, WIRE_OP_PRE_AUTH = 8,
	WIRE_OP_CONTROL = 16, WIRE_OP_VIEWER = 32,
};

struct wire_op_info {
	const char *name;
	uint16_t request_size;
	uint16_t reply_size;
	uint32_t flags;
	const char *sentence;
};
/* NULL: no such operation. */
const struct wire_op_info *wire_op_info(uint8_t op);

/* Flags of struct larder_op that a client may set; the others are the node's own. */
#define WIRE_CLIENT_FLAGS                                                                          \
	(LARDER_F_NOWAIT | LARDER_F_WAIT | LARDER_F_VERIFY | LARDER_F_BY_HASH | LARDER_F_FORCE |   \
	 LARDER_F_WHOLE | LARDER_F_LEASE | LARDER_F_FILL | LARDER_F_HARD | LARDER_F_NO_CHECKS)
/* "tenant:name": a namespace of someone else. */
#define WIRE_NS_NAME_MAX (LARDER_TENANT_NAME_MAX + 1u + LARDER_NS_NAME_MAX)
/* Keys in one STAT, so that the answer fits a message. */
#define WIRE_STAT_KEYS_MAX                                                                         \
	((WIRE_MESSAGE_MAX - WIRE_HEADER_SIZE - sizeof(struct wire_stats_done)) /                  \
	 sizeof(struct wire_stat))

/* Completes @h (magic, version, crc) over @body. */
void wire_header_seal(struct wire_header *h, const void *body);
/* Checks what can be checked before the body is there: magic, version, op known, body_len.
 * 0, -EPROTO (not our protocol or version), -EMSGSIZE (body_len), -EOPNOTSUPP (op unknown; lengths
 * are plausible, so that a reply can be given). */
int wire_header_check(const struct wire_header *h, uint32_t max_message);
/* CRC over header and body. 0 or -EBADMSG. */
int wire_body_check(const struct wire_header *h, const void *body);

/*
 * Requests, decoded: the fixed struct by value, the variable parts as pointers into the body.
 * Every decoder: 0 or -EBADMSG (lengths disagree, counts over limits, trailing bytes); what *ret
 * holds then is undefined.
 */
struct wire_request {
	struct wire_header header;
	union {
		struct wire_hello hello;
		struct wire_auth auth;
		struct wire_ping ping;
		struct wire_cancel cancel;
		struct wire_ns_open ns_open;
		struct wire_ns_list ns_list;
		struct wire_ns_flush ns_flush;	/* and NS_RETIRE */
		struct wire_region_add region_add;
		struct wire_region_del region_del;
		struct wire_common common;	/* first in all that follow */
		struct wire_put put;
		struct wire_put_part put_part;
		struct wire_put_commit put_commit;
		struct wire_put_abort put_abort;
		struct wire_get get;
		struct wire_keys keys;
		struct wire_list list;
	} u;
	const uint8_t *segs;		/* unaligned: wire_seg_at */
	uint32_t n_segs;
	const uint8_t *checks;		/* unaligned: wire_check_at, or copy */
	uint32_t n_checks;
	const uint8_t *tail;		/* key, name, prefix, opaque, or list of keys */
	uint32_t tail_len;
};
int wire_request_decode(const struct wire_header *h, const void *body, struct wire_request *ret);
struct wire_seg wire_seg_at(const struct wire_request *r, uint32_t i);
uint32_t wire_check_at(const uint8_t *checks, uint32_t i);
uint64_t wire_segs_total(const struct wire_request *r);
/* Splits the list of keys; at most @max into @keys. Number or -EBADMSG. */
int wire_keys_decode(const struct wire_request *r, struct larder_op_key *keys, uint32_t max);

/*
 * Encoding: into a buffer of WIRE_MESSAGE_MAX (or the negotiated size), header first. A writer
 * keeps the fill level; once something did not fit, wire_finish says -EMSGSIZE.
 */
struct wire_writer {
	uint8_t *buffer;
	uint32_t size;
	uint32_t used;		/* header included */
	bool overflow;
};
void wire_begin(struct wire_writer *w, void *buffer, uint32_t size);
void wire_append(struct wire_writer *w, const void *data, uint32_t len);
void wire_append_key(struct wire_writer *w, const void *key, uint16_t len);
/* Room left for body bytes. */
uint32_t wire_room(const struct wire_writer *w);
/* Writes and seals the header; returns the message's length (header + body) or -EMSGSIZE. */
int wire_finish(struct wire_writer *w, uint8_t op, uint16_t flags, uint16_t status,
		uint64_t request_id, uint32_t payload_len);
/* A refusal with its text. Returns as wire_finish. */
int wire_write_error(struct wire_writer *w, uint8_t op, uint16_t status, uint64_t request_id,
		     uint64_t detail, const char *text);

/* Replies, decoded by the client. */
struct wire_reply {
	struct wire_header header;
	bool is_error;			/* u.error and tail = text */
	union {
		struct wire_error error;
		struct wire_challenge challenge;
		struct wire_welcome welcome;
		struct wire_ping ping;
		struct wire_ns_opened ns_opened;
		struct wire_ns_listed ns_listed;
		struct wire_ns_flushed ns_flushed;	/* and NS_RETIRE */
		struct wire_put_done put_done;
		struct wire_put_begun put_begun;
		struct wire_got got;
		struct wire_keys_done keys_done;
		struct wire_stats_done stats_done;
		struct wire_listed listed;
	} u;
	const uint8_t *checks;		/* GET; unaligned */
	const uint8_t *tail;		/* what follows: statuses, stats, entries, text */
	uint32_t tail_len;
};
int wire_reply_decode(const struct wire_header *h, const void *body, struct wire_reply *ret);
/* Walk entries; *@pos starts at 0. 1 = one given, 0 = end, -EBADMSG. */
int wire_list_entry_next(const struct wire_reply *r, uint32_t *pos, struct wire_list_entry *entry,
			 const uint8_t **key);
int wire_ns_entry_next(const struct wire_reply *r, uint32_t *pos, struct wire_ns_entry *entry,
		       const uint8_t **name);

#endif
