/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of the client: everything between a caller's batch and the transport, stepped from
 * outside, with clock and randomness handed in. It has no thread and takes no lock that another
 * thread could hold for long.
 *
 *	job	what a caller asked for: a batch, one request, or a change of the core's own tables
 *	call	one request message of a job, under way. Its index is its slot: request id
 *		(generation << 16 | index) and gate number both come from it, so that at most
 *		CORE_DEPTH requests exist whatever callers submit
 *	conn	one connection, from connect to its CONN_GONE. The core has at most one that is not
 *		over (core->conn); older ones linger until the transport has given everything back
 *
 * Ownership of a buffer: an item's memory is the library's from core_submit until its status is
 * set. call_end sets it, and is called only when nothing can touch the memory any more: every
 * descriptor that names it has had its done-event, no receive buffer points into it, and on a
 * one-sided transport the reply has come, the gate was taken or the connection is down.
 *
 * Thread rules: one thread at a time, whoever holds the driver's role (thread.c).
 */
#ifndef LARDER_CLIENT_CORE_H
#define LARDER_CLIENT_CORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <larder/client.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/prng.h"
#include "client/verify.h"
#include "transport/transport.h"
#include "wire/wire.h"

#define CORE_DEPTH 256u			/* calls at a time; the node's credits may allow fewer */
#define CORE_RESERVED 8u		/* of these, kept for the core's own jobs */
#define CORE_CONTROL CORE_DEPTH		/* index of the call for HELLO, AUTH, PING and CANCEL */
#define CORE_CALLS (CORE_DEPTH + 1u)
#define CORE_SENDS_MAX 3u		/* times one request is sent before DISCONNECTED */
#define CORE_CHECKS_MAX 4096u		/* check blocks of one value */
#define CORE_TARGETS_MAX 2u		/* what larder:// chooses from */
#define CORE_TEXT_SIZE 192u
#define CORE_URL_SIZE 256u
#define CORE_SECRET_MAX 1024u
#define CORE_NEVER UINT64_MAX
#define CORE_BACKOFF_MIN_NS (10 * NSEC_PER_MSEC)
#define CORE_BACKOFF_MAX_NS (800 * NSEC_PER_MSEC)	/* a second with the handshake */
#define CORE_GAP_NS NSEC_PER_SEC	/* not looking for longer is not the peer's silence */
#define CORE_TURNS_MAX 16u		/* polls of one transport in one step */
#define CORE_EVENTS 64u

struct core;
struct conn;
struct call;
struct arena;

/* --- jobs ------------------------------------------------------------------------------------ */

enum job_kind {
	JOB_BATCH,	/* larder_batch: any number of calls */
	JOB_ONE,	/* one call, encoded and answered by the job's own functions */
	JOB_LOCAL,	/* no call: runs inside the core and is done */
};

struct job {
	struct list link;	/* core->jobs while active; before and after, the owner's */
	struct list ready;	/* core->ready while it has something to issue */
	struct core *core;
	uint8_t kind;
	uint8_t opcode;
	bool control_plane;	/* the core's own: passes before the connection is READY */
	bool ending;		/* deadline or cancel: nothing more is issued */
	bool cancel;		/* asked for and not looked at; under the handle's lock */
	int status;		/* first status that is not OK or EXISTS_SAME; 0 */
	uint64_t deadline_ns;
	uint64_t started_ns;
	void (*finished)(struct job *job);	/* the job is the owner's again */
	void *user;

	/* JOB_BATCH */
	struct larder_batch *batch;
	uint64_t batch_id;
	uint32_t issued;	/* items handed to calls */
	uint32_t left;		/* items without a status */
	bool split;		/* FILL over several messages: see job.c */
	bool filling;		/* all are answered: the missing ones are asked one by one */
	uint32_t held;		/* of left: answered as missing, and not told yet */

	/* JOB_ONE; -errno from encode ends it as BAD_REQUEST, positive with that status */
	uint32_t ns;
	uint64_t epoch;		/* only on this connection; 0 = any */
	const struct iovec *iov;	/* payload of PUT_PART */
	int iovcnt;
	uint64_t payload;
	int (*encode)(struct call *call, struct wire_writer *w);
	void (*reply)(struct call *call, const struct wire_reply *r);

	/* JOB_LOCAL: returns the status, or -1 when it finishes later */
	int (*local)(struct job *job);

	char text[CORE_TEXT_SIZE];	/* sentence of the first failure */
};

/* --- calls ----------------------------------------------------------------------------------- */

#define CALL_AGAIN (-1)

enum call_state {
	CALL_FREE,
	CALL_WAITING,	/* for a connection, a credit, a region, bounce memory or its backoff */
	CALL_SENDING,	/* on conn->sending: not all of it was accepted by the transport */
	CALL_SENT,	/* on conn->sent: accepted; no reply yet */
	CALL_RECEIVING,	/* stream: the reply's payload is arriving in the item's memory */
	CALL_REPLIED,	/* result known, wholly accepted; waits for the last done-event of tx */
};

struct call {
	struct list link;	/* core->free, core->waiting, conn->sending or conn->sent */
	struct core *core;
	struct job *job;	/* NULL: its item is done, the slot waits for the late reply */
	struct conn *conn;	/* holds a credit of it */
	uint32_t index;
	uint32_t generation;
	uint8_t state;
	uint8_t opcode;
	uint8_t sends;
	uint8_t end_status;	/* DEADLINE or CANCELLED once wanted; 0 = none */
	bool cancel_wanted;	/* CANCEL is to be sent */
	bool gate_armed;	/* the node may touch memory of ours until reply or gate */
	bool exposed;		/* the same without a gate: until reply or the connection's end */
	bool held;		/* not handed back: its memory could not be replaced */
	bool tainted;		/* a page under it was replaced: what arrived may be elsewhere */
	bool no_direct;		/* goes through the bounce */
	bool checks_valid;	/* PUT: call->checks are those of the value */
	bool verify;		/* GET: the repeat that asks the node to look itself */
	bool fill;		/* of a split job: the one that asks for the fill lease */
	bool sized;		/* GET: room below is the value's size as the node told it */
	uint32_t first;		/* batch: item, or first of n_items */
	uint32_t n_items;
	uint64_t sent_ns;
	uint64_t not_before_ns;	/* backoff after BUSY or THROTTLED */
	uint32_t backoffs;
	uint64_t grace_ns;	/* until then the node may still answer; 0 = no end wanted */
	uint64_t gate_ns;	/* until then a frozen gate is tried; 0 = not yet */
	bool replied;		/* result below is known */
	int result;		/* status, or CALL_AGAIN */

	/* what goes out: message, then payload from the item's memory */
	uint8_t *message;	/* WIRE_MESSAGE_MAX */
	uint32_t message_len;
	struct iov_cursor out;
	uint64_t out_len;	/* payload bytes inline */
	uint64_t accepted;	/* bytes of message and payload that tx took */
	uint32_t tx_pending;	/* descriptors without their done-event */

	/* a value: PUT, PUT_PART, GET */
	const struct iovec *iov;	/* the caller's memory */
	int iovcnt;
	uint64_t room;		/* bytes of it that take part */
	uint64_t head;		/* GET: bytes before the wanted range, to scratch */
	uint64_t tail;		/* GET: bytes behind it, at most */
	uint64_t offset;	/* GET: where on the wire it begins */
	uint64_t wanted;	/* GET: head + room + tail */
	struct arena *arena;	/* bounce memory that it holds; NULL = none */
	uint64_t bounce_off;	/* in the arena */
	uint64_t bounce_len;
	bool bounced;		/* all of the value lies there, not only scratch */
	struct wire_got got;
	uint32_t *checks;	/* CORE_CHECKS_MAX */
	uint32_t n_checks;
};

/* --- targets and namespaces ------------------------------------------------------------------ */

struct target {
	const struct transport_ops *ops;
	struct transport *transport;
	char url[CORE_URL_SIZE];
	const char *address;	/* in url */
};

struct name {
	struct list link;
	uint32_t local;		/* what callers use; stays */
	uint32_t remote;	/* what the node calls it now */
	bool opened;		/* on the connection of core->conn */
	int refusal;		/* status of the re-open; 0 */
	uint64_t digest;	/* of the descriptor */
	struct larder_descriptor descriptor;
	bool create;
	bool retired;		/* here: not opened again by itself, refusal says so */
	uint8_t admission;	/* enum wire_admission, as the caller gave it */
	char text[WIRE_NS_NAME_MAX + 1];
	struct job job;		/* re-open */
};

/* --- the core -------------------------------------------------------------------------------- */

struct core {
	struct clock clock;
	struct secure_random random;
	struct larder_log log;
	struct prng prng;

	/* options */
	char tenant[LARDER_TENANT_NAME_MAX + 1];
	uint8_t secret[CORE_SECRET_MAX];
	size_t secret_len;
	uint8_t role;
	uint32_t keepalive_ms;
	uint64_t connect_timeout_ns;
	uint64_t grace_ns;
	uint32_t fail_fast_after;
	uint64_t bounce_bytes;
	uint32_t deadline_ms;
	struct target targets[CORE_TARGETS_MAX];
	uint32_t n_targets;

	/* connection */
	struct conn *conn;		/* connecting, shaking hands or ready */
	struct list conns;		/* all that are not GONE */
	uint32_t target;		/* next to try */
	uint32_t tried;			/* the last one that was: refusal_text is about it */
	uint64_t connect_at_ns;
	uint64_t backoff_ns;
	uint64_t epoch;
	uint32_t failures;		/* in a row, without any answer */
	uint64_t heard_ns;		/* when the node last said anything, on any connection */
	uint64_t asked_ns;		/* when a caller last wanted something */
	uint64_t opened_ns;
	bool ever_ready;
	bool sick;			/* new jobs are answered at once */
	int refusal;			/* the node's answer to the handshake; 0 */
	char refusal_text[CORE_TEXT_SIZE];

	/* work */
	struct call *calls;		/* CORE_CALLS */
	uint8_t *call_memory;		/* their messages and checks */
	struct list free;
	uint32_t n_free;
	struct list waiting;
	struct list jobs;
	struct list ready;
	uint64_t batch_id;
	bool kick;			/* something that WAITING calls wait for has changed */
	bool cut_off;			/* a connection ended: jobs of it may be in ready */
	uint32_t cancels;		/* CANCELs to be sent */
	uint64_t last_size;		/* of a value seen: a guess for the next */

	struct list names;
	uint32_t n_names;
	struct list regions;
	uint32_t region_number;

	/* time */
	uint64_t now_ns;
	uint64_t next_timer_ns;
	uint64_t looked_ns;		/* end of the last step, or when it planned the next one */
	struct transport_event events[CORE_EVENTS];

	pthread_mutex_t info_lock;	/* a leaf: nothing is called under it */
	struct larder_client_info info;
};

struct core_config {
	const struct larder_client_options *options;	/* defaults filled in */
	const struct larder_environment *environment;	/* NULL: the kernel's */
};

int core_open(struct core *core, const struct core_config *config);
/* Ends every job with CANCELLED, then frees everything. */
void core_close(struct core *core);
/* In a forked child: frees memory and closes descriptors; parent and node notice nothing. */
void core_abandon(struct core *core);
/* One turn. Returns how much was done (0 = idle). */
int core_step(struct core *core);
/* How long a sleep on the event fds may last, milliseconds; at most 1,000. Remembers the answer. */
int core_timeout_ms(struct core *core);
/* Event fds of the transports, at most CORE_TARGETS_MAX; -EOPNOTSUPP when one has none. */
int core_event_fds(struct core *core, int *fds);
/* Takes a job. It comes back once through job->finished, perhaps before this returns. */
void core_submit(struct core *core, struct job *job);
void core_cancel(struct core *core, struct job *job);
bool core_busy(const struct core *core);

/* --- jobs (job.c) ---------------------------------------------------------------------------- */

void job_init_one(struct job *job, uint8_t opcode, uint32_t ns);
/* 0, or -EINVAL: then job->text says why, and nothing else of @job counts. */
int job_init_batch(struct job *job, struct larder_batch *b);
/* Item @index of a batch has its status. May finish the job: it is not to be touched afterwards. */
void job_item_done(struct job *job, uint32_t index, int status);
void job_text(struct job *job, int status, const char *fmt, ...) _printf_(3, 4);
/* From job->reply: the answer makes no sense, or there was no memory for it: ends as INTERNAL. */
void job_fault(struct job *job, const char *text);
/* Ends a JOB_ONE or JOB_LOCAL. */
void job_finish(struct job *job, int status);
/* Ends what was not issued yet, and asks for an end of what was. */
void job_end(struct job *job, int status);
/* It belongs to a connection that is over: it can only end, and is told why. */
bool job_is_cut_off(struct job *job);
/* Issues calls while there are credits and work. */
void core_issue(struct core *core);

/* --- calls (call.c) -------------------------------------------------------------------------- */

struct call *call_new(struct core *core, struct job *job, uint8_t opcode);
/* Sends it now or leaves it WAITING; may end it. */
void call_try(struct call *call);
/* The answer has come (@op not yet looked at): the node knows nothing of the call any more. */
void call_answered(struct call *call);
/* What came of it: takes effect as soon as the transport holds no memory of it. */
void call_result(struct call *call, int result);
/* Sets the status of its items, now. Nothing may touch their memory any more. */
void call_end(struct call *call, int status);
/* The deadline passed or a cancel came. */
void call_want_end(struct call *call, int status);
void call_grace_over(struct call *call);
/* All of it was accepted by the transport. */
void call_sent(struct call *call);
void call_tx_done(struct call *call);
/* Its connection is over and has given everything back. */
void call_conn_spent(struct call *call);
/* A one-sided connection that we end ourselves: no byte of the caller's memory may be written after
 * this. False: the node is inside and the memory could not be replaced; try again. */
bool call_seal(struct call *call);
/* The batch's flags, as far as they are this message's. */
uint32_t call_flags(const struct call *call);
struct wire_common call_common(const struct call *call, uint32_t ns, uint32_t flags);
uint64_t call_id(const struct call *call);
static inline bool call_is_batch(const struct call *call)
{
	return call->job && call->job->kind == JOB_BATCH;
}
static inline struct larder_item *call_item(const struct call *call)
{
	return &call->job->batch->items[call->first];
}

/* --- requests on objects (value.c, keys.c) --------------------------------------------------- */

/* Encodes the message into call->message. 0, -EAGAIN (waits for a region or bounce memory), other
 * -errno, or a status that ends the call. */
int call_encode(struct call *call);
int value_put_encode(struct call *call, struct wire_writer *w);
int value_get_encode(struct call *call, struct wire_writer *w);
/*
 * PUT, PUT_PART: brings call->iov to where the node can fetch it. On a stream it is
 * there; on a one-sided connection @segs (WIRE_SEGS_MAX) name it. 0, -EAGAIN, -errno or a status.
 */
int value_lay_out(struct call *call, struct wire_seg *segs, uint32_t *n);
int value_part_encode(struct call *call, struct wire_writer *w, struct wire_put_part *part);
void value_put_reply(struct call *call, const struct wire_reply *r);
/* The header of a GET's reply. 0: payload (if inline) goes to the call; -EPROTO: the node broke
 * the protocol; 1: the call is done or repeated, payload is to be thrown away. */
int value_got(struct call *call, const struct wire_reply *r);
/* All bytes are there and, on a stream, were verified on the way with this result. */
void value_got_all(struct call *call, bool good);
uint32_t keys_fit(struct job *job, uint32_t first, uint32_t max_message);
int keys_encode(struct call *call, struct wire_writer *w);
/* 0 or -EPROTO. */
int keys_reply(struct call *call, const struct wire_reply *r);
/* @r is an error: its status for the call, its text to the job. */
int reply_status(struct call *call, const struct wire_reply *r);

/* --- namespaces (names.c) -------------------------------------------------------------------- */

struct name *name_find(struct core *core, uint32_t local);
/* Takes what NS_OPEN answered; makes the entry when it is new. NULL: no memory. */
struct name *name_opened(struct core *core, const char *text, bool create,
			 const struct wire_ns_opened *opened);
/* It was retired by this handle: NOT_FOUND until it is opened by its caller again. */
void name_retired(struct name *n);
int name_encode(struct wire_writer *w, const char *text, const struct larder_descriptor *d,
		bool create, uint8_t admission, uint64_t request_id);
/* Opens every known name again on a new connection. True when nothing is left to wait for. */
bool names_reopen(struct core *core);
void names_free(struct core *core);

/* --- counters -------------------------------------------------------------------------------- */

#define core_count(core, field)                                                                    \
	do {                                                                                       \
		pthread_mutex_lock(&(core)->info_lock);                                            \
		(core)->info.field++;                                                              \
		pthread_mutex_unlock(&(core)->info_lock);                                          \
	} while (0)

static inline void core_timer(struct core *core, uint64_t at_ns)
{
	if (at_ns < core->next_timer_ns)
		core->next_timer_ns = at_ns;
}

#endif
