/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: one connection and whatever its peer may make the node hold. All of it is bounded and
 * taken at the end of the handshake in one block: requests with their buffers, regions, begun puts.
 * Before that a connection holds this struct and nothing else.
 *
 * A session dies when its transport has said CONN_GONE and its last request came back.
 */
#ifndef LARDER_NODE_SESSION_H
#define LARDER_NODE_SESSION_H

#include "node/node.h"
#include "node/request.h"

enum session_state {
	SESSION_HELLO,		/* up; its first word is awaited */
	SESSION_AUTH,		/* challenged; its proof is awaited */
	SESSION_OPEN,		/* knows who it is; requests are taken */
	SESSION_CLOSING,	/* told to end; what arrives is ignored */
	SESSION_DOWN,		/* the connection is down; its buffers come back */
	SESSION_GONE,		/* the transport has forgotten it */
};

/* What a byte stream is to bring next. Message transports stay in RX_HEADER. */
enum session_rx {
	RX_MAGIC,		/* four bytes: enough to know a stranger */
	RX_HEADER,		/* a header */
	RX_BODY,		/* the body of rx_request, or of the handshake */
	RX_PAYLOAD,		/* bytes of a value: into pages, or thrown away */
	RX_HELD,		/* a header came and every request is in use: reads no further */
	RX_OFF,			/* nothing any more */
};

#define SESSION_PUTS_MAX 16u	/* values begun in parts, at a time */
#define SESSION_SPANS_MAX 64u	/* gaps between the parts that have arrived */
#define SESSION_HS_IN (WIRE_HEADER_SIZE + WIRE_PRE_AUTH_MAX)
#define SESSION_HS_OUT 512u

/* What the handshake needs; the transcript is what was really sent. */
struct session_handshake {
	uint8_t in[SESSION_HS_IN];
	uint8_t out[SESSION_HS_OUT];
	uint8_t hello[WIRE_HEADER_SIZE + sizeof(struct wire_hello)];
	uint8_t challenge[WIRE_HEADER_SIZE + sizeof(struct wire_challenge)];
	struct tenant *claimed;		/* NULL: unknown, to be refused only after the proof */
	uint32_t keepalive_ms;
	bool viewer;
	bool last_word;			/* what is being sent is the last: close after it */
};

struct session_region {
	struct transport_region *region; /* NULL: unused */
	uint32_t number;
	uint32_t uses;			/* segments of requests that name it */
	uint64_t bytes;
	struct request *deleter;	/* REGION_DEL that waits for uses to be 0 */
};

struct session_span {
	uint64_t from;
	uint64_t to;
};

/* A value that arrives in parts. */
struct session_put {
	bool used;
	bool lost;			/* nobody is left to commit it: goes with its last part */
	bool expired;			/* not used any more: its deadline ended it */
	uint32_t parts;			/* requests that move bytes of it now */
	uint64_t id;
	uint64_t length;
	struct larder_op op;		/* the engine's hold on the object */
	struct larder_op_key key;
	struct request *ender;		/* COMMIT or ABORT that waits or works; no parts after it */
	uint32_t n_spans;
	struct session_span spans[SESSION_SPANS_MAX]; /* what has arrived; sorted, apart */
	uint8_t key_bytes[LARDER_KEY_MAX];
};

struct session {
	struct list link;		/* reactor.sessions */
	struct list listed_link;	/* larder_node.listed */
	struct larder_node_connection listed;
	struct list drr_link;		/* drr_tenant.sessions */
	bool in_drr;
	bool stream;			/* no message boundaries */
	bool one_sided;
	bool viewer;
	bool flip;			/* who goes first in its next turn: sending or the rest */
	enum session_state state;
	enum session_rx rx;
	struct reactor *reactor;
	struct transport_conn *conn;
	const struct node_codec *codec;
	void *codec_own;		/* the codec's */
	const struct transport_limits *limits;
	struct tenant *tenant;		/* NULL for a viewer */
	struct quota *quota;		/* of the tenant, or of all viewers */
	uint32_t tenant_removals;	/* when its secret was checked: see tenants.c */
	uint32_t slot;			/* of the ledger */
	uint64_t holder;		/* of fill leases: its number among all sessions */
	uint64_t up_ns;			/* when it came */
	uint64_t began;			/* requests so far */
	uint32_t drr_index;

	uint64_t heard_ns;		/* the peer's last sign of life */
	uint64_t progress_ns;		/* something that was under way went on */
	uint64_t handshake_ns;		/* the handshake's deadline */
	uint64_t keepalive_ns;		/* silence that ends it */
	uint64_t frame_ns;		/* since when there is half a command; 0 = none */

	uint64_t turn;			/* drr: the turn that turn_bytes is of */
	uint32_t turn_bytes;

	struct wire_header head;	/* stream: the header that arrives or is held */
	struct request *rx_request;	/* stream: whose payload arrives; NULL: thrown away */
	uint64_t rx_patience;		/* stream: the turn until which payload may wait */
	uint64_t rx_left;		/* payload that no buffer is posted for yet */
	uint32_t rx_out;		/* payload that posted buffers wait for */
	uint32_t rx_posted;		/* payload buffers posted */
	uint32_t rx_adrift;		/* of these, the first: no longer any request's */
	uint32_t rx_number;		/* of the next payload buffer, to tell it from the others */
	uint32_t out;			/* at the transport: what can stall */

	void *block;			/* everything below in one mapping */
	size_t block_bytes;
	struct request *requests;
	uint32_t n_requests;
	uint32_t n_active;
	uint32_t credits;
	uint32_t max_message;
	uint32_t charged;		/* requests whose reply is not handed over yet */
	uint32_t charged_plain;		/* of these, such as may not use the extra credit */
	struct list free;
	struct list active;
	struct list tx;			/* replies, in the order they go out */
	struct list work;		/* requests with pieces to post or pages to check */
	struct session_region *regions;
	uint32_t n_regions;
	uint64_t region_bytes;
	struct session_put *puts;
	uint32_t n_puts;
	uint64_t next_put;

	struct session_handshake hs;
};

/* session.c */
void node_session_up(struct reactor *r, struct transport_conn *c, const struct node_codec *codec);
void node_session_event(struct session *s, const struct transport_event *ev);
/* Posts one buffer. False: the connection is ending. */
bool node_session_post_rx(struct session *s, void *data, uint32_t length, uint64_t cookie);
/* Starts the end. @drain: what the transport has taken is sent first. */
void node_session_close(struct session *s, bool drain);
/* As close, for a peer that broke the protocol: counted, and one line says @why. */
void node_session_refuse(struct session *s, const char *why);
/* Counts and tells that the peer broke the protocol; whoever calls it ends the session. */
void node_session_blame(struct session *s, const char *why);
/* The handshake is over: takes the block. 0 or -ENOMEM. */
int node_session_establish(struct session *s);
/* Frees the session when nothing holds it any more. True when it did. */
bool node_session_reap(struct session *s);
/* For a transport that was closed under it: gives back what never will come back. */
void node_session_forget(struct session *s);
void node_session_scan(struct session *s, uint64_t now_ns);
void node_session_forgive(struct session *s, uint64_t gap_ns);
/* Posts what has a place in @budget bytes; returns the bytes used. */
uint32_t node_session_work(struct session *s, uint32_t budget);
bool node_session_has_work(const struct session *s);
/* It can go on only after an event of its own. */
bool node_session_is_blocked(const struct session *s);
/* Something changed: sends what is small, asks for a turn if there is more. */
void node_session_kick(struct session *s);

/* handshake.c */
void node_handshake_message(struct session *s, const struct wire_header *h, const void *body,
			    uint32_t message_len);
void node_handshake_sent(struct session *s, int status);
/*
 * s->hs.claimed (or viewer) has proved who it is: takes its connection's place among its limits and
 * what an open session has. LARDER_OK, or a status and a sentence in @why.
 */
int node_session_enter(struct session *s, char *why, size_t size);
/* It has not: counted, and one line tells. */
void node_session_turn_away(struct session *s);

/* native.c */
void node_native_open(struct session *s);	/* the handshake is over */
void node_native_next_handshake(struct session *s);

/* payload.c */
void node_payload_event(struct session *s, const struct transport_event *ev);
/* It is to end now: what is still to come of its payload is thrown away. */
void node_payload_strand(struct session *s, struct request *r);
/* Ends a payload that stalls past its request's deadline. */
void node_payload_expire(struct session *s, uint64_t now);
uint32_t node_payload_pump(struct session *s, uint32_t budget);

/* send.c */
void node_send_queue(struct request *r);
void node_send_event(struct session *s, const struct transport_event *ev);
/* Replies at the head that are small, without waiting for a turn. */
void node_send_small(struct session *s);
uint32_t node_send_pump(struct session *s, uint32_t budget);

/* admit.c */
/* Counts a refusal for a limit. */
void node_admit_refused(struct session *s, enum larder_limit limit);

/* ops_region.c */
struct session_region *node_region_find(struct session *s, uint32_t number);
void node_regions_free(struct session *s);
void node_region_unuse(struct session *s, struct session_region *g);

/* ops_parts.c */
void node_puts_lost(struct session *s);
/* Gives up what was begun and neither committed nor aborted by its deadline. */
void node_puts_expire(struct session *s, uint64_t now);

/* One more thing at the transport. Progress is measured from the first. */
static inline void session_owe(struct session *s)
{
	if (s->out++ == 0)
		s->progress_ns = s->reactor->now_ns;
}

/* How probes call a request while it is under way. */
static inline uint64_t request_probe_op(const struct request *r)
{
	return r->session->holder << 16 | r->index;
}

static inline struct larder_node *session_node(const struct session *s)
{
	return s->reactor->node;
}

#endif
