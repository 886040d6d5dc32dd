/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every byte-stream transport has in common: the queue of accepted SEND descriptors, the queue
 * of posted buffers, and the order of events in which a connection ends. tcp and loop differ in how
 * bytes leave and arrive; what their callers see of it is decided here, once.
 *
 * No event is ever stored. Each is derived from the queues when there is room for it in the array
 * of the poll under way, so a caller that asks for one event at a time loses nothing and a caller
 * that never polls costs nothing more than its queues.
 *
 * Thread rules: none; the owner of the connection calls.
 */
#ifndef LARDER_TRANSPORT_STREAM_H
#define LARDER_TRANSPORT_STREAM_H

#include "transport/transport.h"

#define STREAM_MAX_TX 128u	/* descriptors; a power of two */
#define STREAM_MAX_IOV 64u	/* pieces of one descriptor */
#define STREAM_IOVS 512u	/* pieces of all descriptors; a power of two */
#define STREAM_MAX_RX 64u	/* posted buffers; a power of two */
#define STREAM_MAX_MESSAGE (1u << 30)	/* bytes of one descriptor or buffer */

/* The array of the poll under way. */
struct stream_batch {
	struct transport_event *events;
	uint32_t n;
	uint32_t max;
};

struct stream_tx_slot {
	uint64_t cookie;
	uint32_t left;		/* pieces that are not fully sent */
};

/* Positions only grow: reported <= sent <= tail, iov_head <= iov_tail. */
struct stream_tx {
	uint32_t reported;
	uint32_t sent;
	uint32_t tail;
	uint32_t iov_head;
	uint32_t iov_tail;
	struct stream_tx_slot slot[STREAM_MAX_TX];
	struct iovec iov[STREAM_IOVS];
};

struct stream_rx_slot {
	char *data;		/* NULL: what arrives is thrown away */
	uint32_t length;
	uint32_t filled;
	bool partial;		/* reported when not empty, not only when full */
	uint64_t cookie;
};

struct stream_rx {
	uint32_t head;
	uint32_t tail;
	struct stream_rx_slot slot[STREAM_MAX_RX];
};

enum stream_phase {
	STREAM_CONNECTING,	/* no UP yet: post_rx and tx queue */
	STREAM_UP,
	STREAM_DRAIN,		/* disconnect asked to send first: nothing is read any more */
	STREAM_DOWN,		/* ended: DOWN is owed */
	STREAM_RETURN,		/* DOWN is told: descriptors and buffers go back */
	STREAM_LINGER,		/* all told but GONE: the transport waits for something */
	STREAM_GONE,		/* told; the memory lives until the next poll */
};

struct stream {
	struct transport_conn base;	/* first: a stream is a conn */
	uint8_t phase;			/* enum stream_phase */
	bool up_owed;
	int status;			/* of DOWN */
	int cancel_status;		/* of what goes back after it */
	struct stream_tx tx;
	struct stream_rx rx;
};

static inline uint32_t stream_room(const struct stream_batch *b)
{
	return b->max - b->n;
}

/* The stream of a conn: it is the same address. */
static inline struct stream *stream_of(struct transport_conn *c)
{
	return (struct stream *)c;
}

static inline bool stream_tx_unsent(const struct stream_tx *q)
{
	return q->sent != q->tail;
}

static inline bool stream_tx_unreported(const struct stream_tx *q)
{
	return q->reported != q->sent;
}

static inline bool stream_rx_empty(const struct stream_rx *q)
{
	return q->head == q->tail;
}

static inline struct stream_rx_slot *stream_rx_first(struct stream_rx *q)
{
	return &q->slot[q->head % STREAM_MAX_RX];
}

/* Posted buffers. */
static inline uint32_t stream_rx_count(const struct stream_rx *q)
{
	return q->tail - q->head;
}

/* Is the last posted buffer one that is reported when not empty? Reading ahead of it is no use. */
static inline bool stream_rx_ends_partial(const struct stream_rx *q)
{
	return q->head != q->tail && q->slot[(q->tail - 1) % STREAM_MAX_RX].partial;
}

/* Adds an event for @s; the caller has seen that there is room. */
struct transport_event *stream_emit(struct stream *s, struct stream_batch *b, uint8_t type);

/* The slots tx, post_rx and redirect_rx as far as queues go. -ENOTCONN once the end has begun. */
int stream_tx_push(struct stream *s, const struct transport_tx *tx, uint32_t n);
int stream_rx_post(struct stream *s, const struct transport_rx *rx, uint32_t n);
int stream_rx_redirect(struct stream *s, uint64_t cookie, void *to);

/* What to send next: at most @max pieces and @budget bytes. Number of pieces; @bytes their sum. */
uint32_t stream_tx_gather(const struct stream_tx *q, struct iovec *iov, uint32_t max,
			  size_t budget, size_t *bytes);
/* Is more than @bytes still to be sent? */
bool stream_tx_is_more_than(const struct stream_tx *q, size_t bytes);
/* @n bytes of what was gathered have left. */
void stream_tx_advance(struct stream_tx *q, size_t n);
/* Events of descriptors that were sent, as many as there is room for. */
void stream_tx_report(struct stream *s, struct stream_batch *b);

/* Where to receive next, up to the first buffer that throws away. Number of pieces. */
uint32_t stream_rx_gather(const struct stream_rx *q, struct iovec *iov, uint32_t max,
			  size_t budget, size_t *bytes);
/* Are buffers of more than @bytes posted? What has arrived in them counts: it is looked at when
 * they are full. */
bool stream_rx_is_more_than(const struct stream_rx *q, size_t bytes);
/* @n bytes have arrived in what was gathered (or were thrown away for the first buffer). Events of
 * buffers that are full now need room: at most one per buffer gathered. Bytes beyond them. */
size_t stream_rx_advance(struct stream *s, struct stream_batch *b, size_t n);
/* Copies into posted buffers while there are some and room for their events. Bytes taken. */
size_t stream_rx_copy(struct stream *s, struct stream_batch *b, const char *from, size_t len);

/* Begins the end: nothing is sent or received after this. Does nothing when it began before. */
void stream_end(struct stream *s, int status, int cancel_status);
/* UP if it is owed. */
void stream_report_up(struct stream *s, struct stream_batch *b);
/* From STREAM_DOWN on: tells what is owed, in the order of contract (a). True when only GONE is
 * left to tell. */
bool stream_finish(struct stream *s, struct stream_batch *b);

#endif
