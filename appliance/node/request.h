/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request, from its header to the last done-event of its reply. One enum of states, one function
 * that moves it (node_request_move), one continuation for the wait that it is in.
 *
 * Its two buffers were made with the session: `message` holds the body until the reply is written
 * over it; `scratch` holds what an operation needs beside it (keys, checks, stats, a listing).
 */
#ifndef LARDER_NODE_REQUEST_H
#define LARDER_NODE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include <larder/limits.h>
#include <larder/op.h>

#include "base/check.h"
#include "base/compiler.h"
#include "base/list.h"
#include "wire/wire.h"

struct session;
struct session_put;
struct engine_object;
struct transport_event;

enum request_state {
	REQUEST_FREE,		/* unused; on a message transport its buffer waits for a message */
	REQUEST_BODY,		/* its body arrives */
	REQUEST_STARTED,	/* its operation looks at it now; never across turns */
	REQUEST_ENGINE,		/* the engine has it: someone else is at work on its key */
	REQUEST_REGION,		/* waits for a region: its descriptor, or its last transfer */
	REQUEST_YIELD,		/* a viewer's: waits until no client's request moves */
	REQUEST_PARTS,		/* COMMIT or ABORT waits for parts under way */
	REQUEST_PULL,		/* bytes come into pages: read from regions or received inline */
	REQUEST_PUSH,		/* bytes go from pages into regions */
	REQUEST_REST,		/* its value is in, the rest of its command is awaited */
	REQUEST_VERIFY,		/* pages are compared with their checks, a slice a turn */
	REQUEST_REPLY,		/* its reply waits to be sent, or is on its way */
	REQUEST_STATES
};

/* What it holds in the engine, to be given up with it. */
enum request_hold {
	HOLD_NONE,
	HOLD_FILLING,		/* op.object: abort */
	HOLD_REFERENCE,		/* op.object: unref */
};

#define REQUEST_SCRATCH (20u * 1024u)	/* 1,024 keys; keys and stats of a message; a listing */

/* Bytes on their way between pages and the peer; see transfer.c. */
struct transfer {
	struct engine_object *object;
	uint64_t offset;		/* in the value */
	uint64_t length;
	uint64_t posted;		/* handed to the transport */
	uint64_t done;			/* came back well, in order */
	uint32_t seg;			/* next piece: segment and place in it */
	uint32_t seg_at;
	uint32_t gate;
	bool is_inline;
	bool stop;			/* post no more; over when the last piece is back */
	bool checked;			/* feed `crc` as bytes arrive */
	/* not NULL: bytes are only checked, each piece in this memory, nothing is kept */
	uint8_t *sink;
	uint32_t sink_bytes;
	int error;			/* of the first piece that failed */
	struct check_stream crc;
};

struct request {
	struct list link;		/* session.free or session.active */
	struct list queue;		/* session.tx, session.work, reactor.retry or .yielding */
	struct session *session;
	uint16_t index;
	uint8_t state;			/* enum request_state: node_request_move alone */
	uint8_t hold;			/* enum request_hold */
	uint8_t opcode;
	uint8_t status;			/* of the reply, for the ledger */
	bool control;			/* may use the extra credit */
	bool charged;			/* counts against the credits */
	bool cancelled;
	bool expired;			/* its deadline passed while its bytes moved */
	bool moves;			/* counts in reactor.moving */
	bool lost;			/* its session is down: no reply, only clean up */
	bool segs_held;			/* its segments count as uses of their regions */
	bool stranded;			/* inline payload is being thrown away */
	uint32_t out;			/* descriptors and buffers at the transport that name it */
	uint64_t start_ns;
	uint64_t moved;			/* bytes of payload, as the ledger counted them */
	void (*next)(struct request *r); /* what follows when the present wait is over */

	uint8_t *message;
	uint8_t *scratch;
	uint8_t *reply;			/* message or scratch */
	uint32_t reply_len;
	bool reply_posted;
	uint64_t payload;		/* bytes that follow the reply, from transfer.object */
	const char *trailer;		/* NULL, or what follows the payload */
	uint64_t inbound;		/* bytes of payload that come with it */

	struct wire_request wire;	/* native: decoded; points into message */
	struct larder_op op;
	struct larder_op *submitted;	/* what the engine has now: &op or that of a begun put */
	struct larder_op_key key;
	struct larder_stat stat;
	struct transfer transfer;
	struct session_put *put;	/* parts, commit, abort */
	uint64_t verified;		/* VERIFY: compared up to here */
	uint64_t verify_end;
	const uint32_t *verify_checks;	/* NULL: those of the object */
	struct engine_object *verify_object;
	uint32_t verify_block;		/* the last one that was looked at */
	bool verify_bad;
	uint64_t *gauge;		/* in-flight gauge of the ledger that it counts in */
	uint8_t claimed;		/* enum larder_limit: counts as in flight there */
};

/* request.c */
void node_request_move(struct request *r, enum request_state to);
/* A free one becomes a request; charged against the credits. @control: may use the extra one. */
void node_request_begin(struct request *r, uint8_t opcode, bool control);
/* All of it that is not payload is there: its operation begins. */
void node_request_start(struct request *r);
void node_request_submit(struct request *r, struct larder_op *op, void (*next)(struct request *));
void node_request_engine_done(struct larder_op *op);
void node_request_cancel(struct request *r);
/* The session is down. */
void node_request_abandon(struct request *r);
/* After an event: gives an abandoned request up when its last buffer is back. True if lost. */
bool node_request_settle_lost(struct request *r);
void node_request_end(struct request *r);
void node_request_uncharge(struct request *r);
/* Gives up what it holds in the engine. */
void node_request_release(struct request *r);

/* dispatch.c */
void node_dispatch(struct request *r);

/* transfer.c */
/* Starts to move [offset, offset + length) of @object; r->next follows. */
void node_transfer_start(struct request *r, enum request_state direction,
			 struct engine_object *object, uint64_t offset, uint64_t length,
			 void (*next)(struct request *));
/* Checks the segments of the request and counts them as uses. LARDER_OK, or a refusal was sent. */
int node_transfer_hold_segs(struct request *r);
void node_transfer_drop_segs(struct request *r);
uint32_t node_transfer_post(struct request *r, uint32_t budget);
void node_transfer_event(struct session *s, const struct transport_event *ev);
/* The next bytes of an inline payload came together with its frame: copies them into their place.
 * Its end may be reached by that. */
void node_transfer_copy(struct request *r, const uint8_t *data, uint64_t length);
/* A piece of an inline payload landed in pages (or, @status < 0, never will). */
void node_transfer_landed(struct request *r, const void *data, uint32_t length, int status);
/* Post nothing more. Over at once when nothing is under way. */
void node_transfer_stop(struct request *r);
bool node_transfer_is_whole(const struct request *r);
/* Compares the pages of a range with their checks, a slice a turn; r->verify_bad tells. */
void node_verify_start(struct request *r, struct engine_object *object, uint64_t offset,
		       uint64_t length, void (*next)(struct request *));
uint32_t node_verify_slice(struct request *r, uint32_t budget);

/* reply.c */
/* The native codec's way to say node_reply_error. */
void node_native_refuse(struct request *r, int status, uint64_t detail, const char *text);
void node_reply_begin(struct request *r, struct wire_writer *w);
void node_reply_finish(struct request *r, struct wire_writer *w, int status, uint64_t payload);
void node_reply_struct(struct request *r, const void *body, uint32_t len, int status);
void node_reply_none(struct request *r);
void node_reply_error(struct request *r, int status, uint64_t detail, const char *fmt, ...)
	_printf_(4, 5);
/* A refusal by the engine, in words. */
void node_reply_status(struct request *r, int status);
/* QUOTA: names the tenant's limit, its value and what can be done. */
void node_reply_over(struct request *r, enum larder_limit limit);
/* Its bytes did not all arrive: says which way it ended. */
void node_reply_transfer(struct request *r);

/* admit.c */
/* Within the limits of its tenant? False: THROTTLED was sent. */
bool node_admit(struct request *r);
/* @bytes of payload will go out for it. */
void node_admit_read(struct request *r, uint64_t bytes);
void node_admit_over(struct request *r);
enum larder_limit node_admit_class(uint8_t opcode);

/* account.c */
void node_account_start(struct request *r);
void node_account_end(struct request *r);
void node_account_bytes(struct request *r, uint64_t bytes);
void node_account_hit(struct request *r, uint64_t bytes);
/* Payload that came for no place. */
void node_account_discarded(struct session *s, uint64_t bytes);

/* One per operation family. */
void node_op_ping(struct request *r);
void node_op_cancel(struct request *r);
void node_op_put(struct request *r);
/* True when @r was refused for it. */
bool node_put_is_too_large(struct request *r, uint64_t length);
/* The engine would not have the value of @op; says why. */
void node_put_refuse(struct request *r, const struct larder_op *op);
bool node_value_has_no_way(struct request *r);	/* the same */
void node_op_get(struct request *r);
void node_op_put_begin(struct request *r);
void node_op_put_part(struct request *r);
void node_op_put_commit(struct request *r);
void node_op_put_abort(struct request *r);
void node_op_keys(struct request *r);
void node_op_stat(struct request *r);
void node_op_list(struct request *r);
void node_op_ns_open(struct request *r);
void node_op_ns_list(struct request *r);
void node_op_ns_flush(struct request *r);
void node_op_ns_retire(struct request *r);
void node_op_region_add(struct request *r);
void node_op_region_del(struct request *r);
/* Tries REGION_ADD again. True when it did something. */
bool node_region_retry(struct request *r);
void node_part_done(struct request *r);	/* a part came to its end, one way or the other */
void node_put_orphan(struct request *r);	/* who was to end it is lost */

/* Cookies: what a done-event is of. */
enum cookie_kind {
	COOKIE_HANDSHAKE_RX = 1, COOKIE_HANDSHAKE_TX, COOKIE_HEADER, COOKIE_BODY, COOKIE_MESSAGE,
	COOKIE_PAYLOAD, COOKIE_DISCARD, COOKIE_SEND, COOKIE_READ, COOKIE_WRITE,
};

static inline uint64_t cookie_make(enum cookie_kind kind, uint32_t request, uint32_t length)
{
	return (uint64_t)kind << 56 | (uint64_t)request << 32 | length;
}

static inline enum cookie_kind cookie_kind(uint64_t c)
{
	return (enum cookie_kind)(c >> 56);
}

/* Of a buffer that the session posted for bytes of a value, not the codec for its own. */
static inline bool cookie_is_payload(uint64_t c)
{
	return cookie_kind(c) == COOKIE_PAYLOAD || cookie_kind(c) == COOKIE_DISCARD;
}

static inline uint32_t cookie_request(uint64_t c)
{
	return (uint32_t)(c >> 32) & 0xffffffu;
}

static inline uint32_t cookie_length(uint64_t c)
{
	return (uint32_t)c;
}

#endif
