/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: connect, handshake, what is on its way out, what is arriving.
 *
 * On a byte stream (tcp, loop) receive buffers are posted for exactly what must come next: header,
 * body, then the payload straight into the caller's memory. On a transport with message boundaries
 * (shm) whole messages arrive in buffers of our own and the node moves values by itself.
 *
 * Thread rules: as the core.
 */
#ifndef LARDER_CLIENT_CONN_H
#define LARDER_CLIENT_CONN_H

#include "client/core.h"
#include "client/memory.h"
#include "client/verify.h"

#define CONN_RX_POSTED 16u	/* receive buffers in the transport at a time; a power of two */
#define CONN_RX_AHEAD 4u	/* pieces of a payload posted at a time */
#define CONN_PIECE (128u * 1024u)	/* small enough that its CRC finds it in the cache */
#define CONN_PIECE_UNCHECKED (1024u * 1024u)
#define CONN_SCRATCH (64u * 1024u)
#define CONN_MESSAGE_CAP (1024u * 1024u)	/* a node that wants larger messages is refused */

enum conn_state {
	CONN_CONNECTING,
	CONN_HELLO,	/* HELLO sent, waits for the challenge */
	CONN_AUTH,	/* AUTH sent, waits for the welcome */
	CONN_REOPEN,	/* namespaces are opened again */
	CONN_READY,
	CONN_OVER,	/* ended; waits for CONN_GONE */
};

enum rx_kind {
	RX_HEADER = 1,
	RX_BODY,
	RX_VALUE,	/* in the caller's memory */
	RX_EDGE,	/* in scratch: part of a check block that the caller did not ask for */
	RX_WASTE,	/* in scratch: nobody wants it any more */
	RX_MESSAGE,
};

struct rx {
	uint8_t kind;
	uint8_t *data;
	uint32_t length;
	uint64_t cookie;
};

/* A payload that is arriving on a stream. */
struct payload {
	struct call *call;	/* NULL: thrown away */
	uint64_t left;		/* bytes not posted yet */
	uint64_t pending;	/* bytes posted and not arrived */
	uint64_t at;		/* bytes posted so far */
	uint64_t app;		/* of these, those for the caller's memory begin here ... */
	uint64_t app_end;	/* ... and end here */
	uint32_t edges;		/* scratch pieces posted: each has a buffer of its own */
	bool checked;
	struct iov_cursor cursor;
	struct verify verify;
};

struct conn {
	struct list link;	/* core->conns */
	struct core *core;
	struct target *target;
	struct transport_conn *tc;
	uint8_t state;
	bool stream;
	bool one_sided;
	bool ours;		/* the end was our decision */
	bool down;		/* CONN_DOWN was told */
	bool unsealed;		/* over for us, but not closed: the node may be inside a buffer */
	bool spent;		/* over, and the transport holds no memory of ours any more */
	uint32_t tx_pending;	/* descriptors without their done-event */
	uint64_t tx_bytes;	/* payload of calls that the transport has begun to send */
	uint64_t epoch;
	uint64_t started_ns;
	uint64_t rx_ns;		/* last sign of life of the node */
	uint64_t tx_ns;		/* last of ours */
	int down_status;
	char why[CORE_TEXT_SIZE];

	/* what the welcome said */
	uint32_t credits;
	uint32_t max_message;	/* of what we send */
	uint64_t keepalive_ns;
	uint64_t max_value;
	uint32_t in_flight;

	struct list sending;
	struct list sent;
	bool control_busy;
	uint32_t reopening;	/* NS_OPENs under way */

	/* handshake: messages as they were sent */
	uint8_t hello[WIRE_HEADER_SIZE + sizeof(struct wire_hello)];
	uint8_t challenge[WIRE_HEADER_SIZE + sizeof(struct wire_challenge)];
	uint8_t auth[WIRE_HEADER_SIZE + sizeof(struct wire_auth)];

	/* receiving */
	struct rx rx[CONN_RX_POSTED];
	uint32_t rx_head;
	uint32_t rx_tail;
	uint64_t rx_cookie;
	struct wire_header header;
	uint8_t *body;		/* also the buffers of RX_MESSAGE */
	uint32_t body_size;
	uint8_t *scratch;	/* CONN_RX_AHEAD + 1 pieces of CONN_SCRATCH */
	struct payload payload;

	/* bounce memory of a one-sided connection */
	struct list arenas;
	uint64_t arena_bytes;
	struct call *arena_claim;	/* needs more than there is: others wait */
};

/* --- connect.c ------------------------------------------------------------------------------- */

/* Starts an attempt when it is time. Returns 1 when it did something. */
int conn_connect(struct core *core);
/* Another attempt has to wait for the end of the connection before. */
bool conn_blocked(const struct core *core);
void conn_up(struct conn *conn);
void conn_gone(struct conn *conn);
/* Looks whether an ended connection has given everything back. */
void conn_settle(struct conn *conn);
/* Ends it: @status is what the attempt or the session died of. Never frees. */
void conn_fail(struct conn *conn, int status, const char *fmt, ...) _printf_(3, 4);
void conn_down(struct conn *conn, int status);
void conn_timers(struct conn *conn);
/* One that is unsealed: closes it as soon as it may. */
void conn_reseal(struct conn *conn);
/* A caller wants something: a session that was silent for too long ends now. */
void conn_asked(struct core *core);
/* Any byte of the node: it is alive. */
void conn_heard(struct conn *conn);
/* A deadline passed and nothing at all had come. */
void core_unanswered(struct core *core);
void conn_ready(struct conn *conn);
void conn_free(struct conn *conn);

/* --- handshake.c ----------------------------------------------------------------------------- */

void handshake_start(struct conn *conn);
/* A reply to HELLO or AUTH; @message is header and body as they came. */
void handshake_reply(struct conn *conn, const struct wire_reply *r, const void *body);

/* --- send.c ---------------------------------------------------------------------------------- */

/* Hands to the transport what it takes. Returns the number of descriptors. */
int conn_send(struct conn *conn);
void conn_tx_done(struct conn *conn, uint64_t cookie);
/* PING or the next CANCEL, if the control slot is free. */
void conn_control(struct conn *conn);
void conn_ping(struct conn *conn);
/* The control slot's call, free and ready to be encoded into. */
struct call *conn_control_call(struct conn *conn);
void conn_control_send(struct conn *conn, struct call *call, int message_len);
void conn_control_reply(struct conn *conn);

/* --- receive.c ------------------------------------------------------------------------------- */

int receive_start(struct conn *conn);
void conn_rx(struct conn *conn, const struct transport_event *ev);
/* The call's memory is given up: the rest of its payload goes to scratch. 0 or -errno. */
int receive_abandon(struct conn *conn, struct call *call);
/* After the welcome: room for larger replies. */
int receive_resize(struct conn *conn, uint32_t max_message);

/* --- bounce.c -------------------------------------------------------------------------------- */

/*
 * Memory of the library that the node of a one-sided connection may reach, for callers' buffers
 * that it may not. -EAGAIN: full now, or its region is being made known; -ENOMEM; a positive
 * status when the node refuses it.
 */
int bounce_get(struct conn *conn, struct call *call, uint64_t len);
void bounce_put(struct call *call);
/* The node is frozen inside the call's piece: it is never handed out again. */
void bounce_retire(struct call *call);
uint8_t *bounce_at(const struct call *call, uint64_t offset);
struct wire_seg bounce_seg(const struct call *call, uint64_t offset, uint64_t len);
/* The connection is over. */
void bounce_drop(struct conn *conn);
/* The transport is about to forget the connection: so is the region of the arena at @link. */
void arena_forget(struct conn *conn, struct list *link);

#endif
