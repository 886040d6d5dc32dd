/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tcp transport's own structs and the calls between its files; nobody else includes this.
 *
 *	tcp.c		the table: open and close, listen, connect, disconnect, tx, post_rx
 *	tcp_poll.c	one poll: epoll, the ready list, turns, deadlines, the event fd's promise
 *	tcp_accept.c	listeners, refusals, no descriptors left
 *	tcp_conn.c	a connection's life: connecting, bytes in and out, its end
 *	tcp_address.c	text and socket addresses
 */
#ifndef LARDER_TRANSPORT_TCP_H
#define LARDER_TRANSPORT_TCP_H

#include <sys/epoll.h>

#include "base/compiler.h"
#include "base/list.h"
#include "transport/stream.h"
#include "transport/tcp_address.h"

#define TCP_AHEAD (64u * 1024u)		/* read-ahead per connection */
#define TCP_AHEAD_LIGHT (8u * 1024u)	/* while large pieces wait: it may be one that is read */
#define TCP_LISTENERS 8u
#define TCP_BACKLOG 1024
#define TCP_ACCEPTS_PER_POLL 16u
#define TCP_HARVEST 64u			/* epoll events taken at once */
#define TCP_POLLS_PER_HARVEST 4u	/* while there is work that needs no epoll */
#define TCP_RX_PIECES 16u		/* posted buffers that one readv fills */
#define TCP_TX_PIECES 64u		/* pieces that one sendmsg sends */
#define TCP_DRAIN_STALL (2 * NSEC_PER_SEC)	/* a draining peer that takes nothing is cut */
#define TCP_LINGER (1 * NSEC_PER_SEC)	/* for the kernel to deliver what was drained */
#define TCP_ACCEPT_PAUSE (100 * NSEC_PER_MSEC)

/* What an epoll event points at. */
enum tcp_source { TCP_SOURCE_KICK, TCP_SOURCE_LISTENER, TCP_SOURCE_CONN };

struct tcp_listener {
	uint8_t source;
	int fd;
};

struct tcp_conn {
	struct stream stream;	/* first: a tcp_conn is a conn */
	uint8_t source;
	bool accepted;		/* from the pool, counted */
	bool can_read;		/* the last read was not short */
	bool can_write;
	bool hup;		/* the peer's end was seen: a short read proves nothing any more */
	bool look;		/* just now: is it reached already, although nobody reads? */
	bool broken;		/* sending is over; what has arrived may still be read */
	bool eof;
	bool rx_first;		/* alternates, so that one event per poll starves neither side */
	int error;		/* why broken */
	int fd;
	struct list ready;	/* in tcp.ready, or alone */
	struct list link;	/* in tcp.conns, tcp.dead or tcp.free */
	struct list timed;	/* in tcp.timed, or alone */
	uint64_t deadline;
	uint64_t turn;		/* the poll that the budgets are of */
	size_t rx_budget;
	size_t tx_budget;
	struct tcp_address peer;
	struct tcp_addresses to_try;
	uint32_t ahead_start;	/* bytes read ahead are ahead[start, end) */
	uint32_t ahead_end;
	char ahead[TCP_AHEAD];	/* last: never cleared */
};

struct tcp {
	struct transport base;	/* first */
	uint8_t source;		/* TCP_SOURCE_KICK: what kick_fd's event points at */
	bool idle;		/* the last poll returned no event: the caller may sleep */
	bool kicked;		/* kick_fd was written and not yet seen by epoll_wait */
	bool accept_paused;
	bool accept_warned;
	struct transport_config config;
	int epoll_fd;
	int kick_fd;
	int spare_fd;		/* given up for a moment when there is no other descriptor */
	unsigned n_listeners;
	struct tcp_listener listeners[TCP_LISTENERS];
	uint64_t accept_again;	/* when paused */
	uint64_t turn;
	unsigned polls;		/* since the last epoll_wait */
	bool heavy;			/* the last LIGHT poll, or this one, passed some over */
	uint32_t n_ready;
	struct list ready;	/* connections that have something to do */
	struct list conns;
	struct list dead;	/* GONE was told by the poll before */
	struct list timed;
	struct list free;	/* of the pool */
	struct tcp_conn *pool;
	size_t pool_bytes;
	uint32_t pool_used;	/* slots ever handed out: the rest was never touched */
	struct epoll_event harvest[TCP_HARVEST];
};

static inline struct tcp *tcp_of(struct transport *t)
{
	return (struct tcp *)t;
}

static inline struct tcp_conn *tcp_conn_of(struct transport_conn *c)
{
	return (struct tcp_conn *)c;
}

static inline struct tcp *tcp_of_conn(const struct tcp_conn *c)
{
	return tcp_of(c->stream.base.transport);
}

/* tcp.c */
int tcp_socket(int family);	/* non-blocking, close-on-exec; fd or -errno */

/* tcp_poll.c */
/* @c has something to do: the next poll serves it, and a sleeping caller wakes. */
void tcp_make_ready(struct tcp_conn *c);
void tcp_unready(struct tcp_conn *c);
int tcp_poll(struct transport *t, struct transport_event *events, uint32_t max);
int tcp_flush(struct transport *t);
int tcp_watch(struct tcp *t, int fd, uint32_t events, void *source);	/* 0 or -errno */
void tcp_unwatch(struct tcp *t, int fd);

/* tcp_accept.c */
int tcp_listener_add(struct tcp *t, int fd);	/* takes @fd when it succeeds */
void tcp_accept(struct tcp *t, struct tcp_listener *l);
void tcp_accept_resume(struct tcp *t, uint64_t now);

/* tcp_conn.c */
struct tcp_conn *tcp_conn_new_accepted(struct tcp *t);	/* NULL: the pool is used up */
struct tcp_conn *tcp_conn_new_connecting(struct tcp *t);	/* NULL: no memory */
void tcp_conn_free(struct tcp_conn *c);
void tcp_conn_connect_next(struct tcp_conn *c, int error);
void tcp_conn_happened(struct tcp_conn *c, uint32_t epoll_events);
bool tcp_conn_has_work(const struct tcp_conn *c);
/* Has more to move next than TRANSPORT_LIGHT_BYTES. */
bool tcp_conn_is_heavy(const struct tcp_conn *c);
void tcp_conn_serve(struct tcp_conn *c, struct stream_batch *b);
void tcp_conn_send(struct tcp_conn *c);
void tcp_conn_end(struct tcp_conn *c, int status, int cancel_status);
void tcp_conn_drain(struct tcp_conn *c);
void tcp_conn_cut(struct tcp_conn *c, int status);	/* the peer sees a reset */
void tcp_conn_timed(struct tcp_conn *c, uint64_t now);

#endif
