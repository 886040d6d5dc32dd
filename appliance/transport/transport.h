/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transports: how bytes move. Leased buffers, batches, pull: poll returns events, a transport never
 * calls up and never parses a frame. Node and client use the same table.
 *
 * Contract (tests/contract runs it over every transport):
 *  (a) each accepted descriptor gives exactly one done-event, also after CONN_DOWN: CONN_DOWN comes
 *      first, then the rest of its done-events with status -ECONNRESET (or -ECANCELED), then the
 *      conn is gone: CONN_GONE is the last event that names it;
 *  (b) a buffer belongs to the transport until its event;
 *  (c) post_rx, tx, poll and flush neither block nor allocate (control calls may);
 *  (d) poll's @max is honoured;
 *  (e) order holds per connection;
 *  (f) no RX after CONN_DOWN (posted buffers come back as RX with status < 0 and length = bytes
 *      that had arrived);
 *  (g) unset slots answer -EOPNOTSUPP through transport_fill_defaults;
 *  (h) without TRANSPORT_MESSAGE it is a byte stream and an RX buffer is reported when exactly full
 *      (bounded read-ahead inside the transport is allowed), or, posted as `partial`, as soon as
 *      anything is in it; with it, one message per buffer, a longer message than the buffer ends
 *      the connection with -EMSGSIZE;
 *  (i) no more than TRANSPORT_TURN_BYTES moved per connection and poll;
 *  (j) peer-writable memory is copied before it is believed.
 *
 * To add one: transport/<name>.c with a struct transport_ops, a line in transport/registry.c.
 *
 * Thread rules: a struct transport belongs to one reactor; no call from another thread, except
 * region_import/region_del where a transport says so.
 */
#ifndef LARDER_TRANSPORT_TRANSPORT_H
#define LARDER_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <larder/log.h>

#include "base/clock.h"

#define TRANSPORT_TURN_BYTES (256u * 1024u)
#define TRANSPORT_OPAQUE_MAX 64u	/* bytes of a region's description for REGION_ADD */
#define TRANSPORT_ADDR_TEXT 128u

enum transport_caps {
	TRANSPORT_MESSAGE = 1u << 0,	/* keeps message boundaries */
	TRANSPORT_RELIABLE = 1u << 1,
	TRANSPORT_ORDERED = 1u << 2,
	TRANSPORT_ONE_SIDED = 1u << 3,	/* READ and WRITE of imported regions */
	TRANSPORT_EVENT_FD = 1u << 4,	/* event_fd is readable when poll has something to do */
	TRANSPORT_PEER_CRED = 1u << 5,	/* CONN_UP's peer carries kernel-checked uid, gid, pid */
};

struct transport_limits {
	uint32_t max_message;	/* SEND and RX, bytes */
	uint32_t max_transfer;	/* READ, WRITE: bytes of one descriptor */
	uint32_t max_iov;	/* pieces of one descriptor */
	uint32_t max_tx;	/* descriptors accepted per connection before "full" */
	uint32_t max_rx;	/* posted buffers per connection */
};

enum transport_event_type {
	/* accepted or connected; conn_user still NULL on the listener's side */
	TRANSPORT_CONN_UP = 1,
	/* status: why (-errno; 0 = orderly); a connect that failed has no UP */
	TRANSPORT_CONN_DOWN,
	TRANSPORT_CONN_GONE,	/* last event: the conn pointer is dead after this */
	TRANSPORT_RX,		/* cookie, data, length */
	TRANSPORT_TX_DONE,
	TRANSPORT_READ_DONE,
	TRANSPORT_WRITE_DONE,
};

struct transport;
struct transport_conn;		/* each transport embeds it first in its own struct */
struct transport_region;

struct transport_peer {
	char text[TRANSPORT_ADDR_TEXT];	/* "198.51.100.7:4711", "unix:pid=42" */
	bool has_cred;
	uid_t uid;
	gid_t gid;
	pid_t pid;
	uint64_t cookie;	/* tcp: SO_COOKIE of the socket; 0 = none */
};

struct transport_event {
	uint8_t type;
	int status;		/* 0 or -errno */
	uint32_t length;	/* RX: bytes in the buffer */
	struct transport_conn *conn;
	uint64_t cookie;	/* of the descriptor or buffer */
	void *data;		/* RX: the buffer */
};

struct transport_rx {
	void *data;
	uint32_t length;
	uint64_t cookie;
	/* Stream: reported with the first bytes that come, however few: for protocols whose next
	 * frame does not tell its length. */
	bool partial;
};

enum transport_tx_type { TRANSPORT_SEND = 1, TRANSPORT_READ, TRANSPORT_WRITE };

/*
 * READ moves from the peer's region into iov; WRITE from iov into the region. The iov array itself
 * is copied at acceptance; the memory it names belongs to the transport until the done-event.
 */
struct transport_tx {
	uint8_t type;
	uint16_t niov;		/* <= max_iov */
	uint32_t gate;		/* READ, WRITE: the request's gate number; see gate_* */
	const struct iovec *iov;
	uint64_t cookie;
	struct transport_region *region; /* READ, WRITE: an imported region */
	/* in that region; range-checked by the transport: -ERANGE as status */
	uint64_t offset;
};

struct transport_config {
	const struct clock *clock;
	const struct larder_log *log;
	uint32_t max_conns;		/* accepted ones; more are refused at once */
	uint64_t max_region_bytes;	/* per connection */
	uint32_t max_regions;		/* per connection */
	/* gate words per connection (client decides by its depth) */
	uint32_t gates;
	/* Node: the memory that READ and WRITE move from and into, for transports that must have
	 * it registered; it outlives the transport. Other memory: -EFAULT as status. */
	void *memory;
	uint64_t memory_bytes;
};

#define TRANSPORT_NO_GATE UINT32_MAX

struct transport_ops {
	size_t size;			/* of this table: older callers, newer transports */
	const char *name;		/* "tcp" */
	uint32_t caps;
	struct transport_limits limits;

	/* control: may block shortly and allocate */
	int (*open)(const struct transport_config *config, struct transport **ret);
	void (*close)(struct transport *t);	/* every conn must be GONE or is dropped now */
	/* @address without the scheme: "0.0.0.0:16180", "/run/larder/larder.sock". */
	int (*listen)(struct transport *t, const char *address);
	/* Takes a listening socket opened elsewhere (socket activation, second reactor). */
	int (*listen_fd)(struct transport *t, int fd);
	/* Returns at once; CONN_UP or CONN_DOWN + CONN_GONE follows. @user is conn_user from the
	 * start. */
	int (*connect)(struct transport *t, const char *address, void *user,
		       struct transport_conn **ret);
	/* Starts the end: CONN_DOWN (if not yet), done-events, CONN_GONE follow from poll. @drain:
	 * what was accepted by tx is sent first (bounded by the kernel's buffers), else dropped. */
	int (*disconnect)(struct transport_conn *c, bool drain);
	int (*peer)(struct transport_conn *c, struct transport_peer *ret);
	/* Client: makes [addr, addr+len) nameable by the peer of @c. @fd: the memfd behind it
	 * at @fd_offset, -1 = none. Writes at most TRANSPORT_OPAQUE_MAX bytes for REGION_ADD. */
	int (*region_add)(struct transport_conn *c, void *addr, size_t len, int fd,
			  uint64_t fd_offset, uint8_t *opaque, size_t *opaque_len,
			  struct transport_region **ret);
	/* Node: from what REGION_ADD carried. -EAGAIN: the descriptor has not arrived yet. */
	int (*region_import)(struct transport_conn *c, const uint8_t *opaque, size_t opaque_len,
			     uint64_t size, struct transport_region **ret);
	/* Both sides. Node: no descriptor on it may be under way. */
	int (*region_del)(struct transport_region *region);
	/* Readable when poll has something to do; level-triggered. -EOPNOTSUPP: spin. */
	int (*event_fd)(struct transport *t);
	/* Gates (one-sided transports whose peer can not be stopped otherwise: shm). Client:
	 * arm before naming a buffer in a request, take before handing it back early.
	 * gate_take: 0 = no byte of it is touched any more; -EBUSY = the node is inside a slice
	 * now. */
	int (*gate_arm)(struct transport_conn *c, uint32_t gate);
	int (*gate_take)(struct transport_conn *c, uint32_t gate);

	/* data */
	int (*post_rx)(struct transport_conn *c, const struct transport_rx *rx, uint32_t n);
	/* Number accepted: less than @n = full, the rest is the caller's; -errno when none. */
	int (*tx)(struct transport_conn *c, const struct transport_tx *tx, uint32_t n);
	/* Events into @events, at most @max; 0 = nothing now; -errno = the transport is broken. */
	int (*poll)(struct transport *t, struct transport_event *events, uint32_t max);
	/* Kicks what tx batched, if the transport batches. */
	int (*flush)(struct transport *t);
	/* Stream transports: from now on the rest of the posted buffer @cookie goes into @to (same
	 * offset; NULL: is thrown away). At return the old memory is no longer the transport's.
	 * -ENOENT: no such buffer is posted. */
	int (*redirect_rx)(struct transport_conn *c, uint64_t cookie, void *to);

	/* control, added later */
	/* The address that listen took, as connect wants it ("127.0.0.1:34567" after port 0). */
	int (*bound)(struct transport *t, char *text, size_t size);
	/* The listening socket, still @t's: a dup of it goes to listen_fd of the next reactor. */
	int (*listener_fd)(struct transport *t);
	/* In a forked child, in place of close: frees the memory and closes the descriptors. What
	 * the parent shares stays as it is: no shutdown, no epoll set, no gate, no path. */
	void (*abandon)(struct transport *t);
};

/*
 * What the next poll and flush look after, for an owner that does not let small things wait for
 * large ones: first LIGHT, again while that gives events, then HEAVY if @left says that there is
 * some, and not before that sleep; nor, with a slice, after a HEAVY poll that moved something. A
 * transport that makes no difference serves all each time and leaves nothing.
 */
enum transport_lot {
	TRANSPORT_ALL,
	TRANSPORT_LIGHT,	/* connections with little to move next */
	TRANSPORT_HEAVY,	/* the others */
};
#define TRANSPORT_LIGHT_BYTES (32u * 1024u)	/* to move next on a connection that is light */

struct transport {
	const struct transport_ops *ops;
	uint8_t lot;		/* enum transport_lot: the owner's to set */
	uint32_t slice;		/* the owner's: what a HEAVY poll moves; 0 = a turn's share each */
	size_t moved;		/* bytes by the last poll, which may be less than an event */
	uint32_t left;		/* heavy connections that the last LIGHT poll passed over */
};

struct transport_conn {
	struct transport *transport;
	void *user;		/* the session's; set it at CONN_UP */
	bool bulk;		/* the session's: of the HEAVY lot, whatever it moves next */
};

struct transport_region {
	struct transport *transport;
	uint64_t size;
};

/* Fills unset slots with functions that answer -EOPNOTSUPP, so that callers never test for NULL.
 * Each transport runs its table through this once. */
void transport_fill_defaults(struct transport_ops *ops);
/* By scheme ("tcp", "shm", "loop"); NULL when there is none. */
const struct transport_ops *transport_find(const char *scheme);
/* Its enum larder_probe_transport. */
unsigned transport_number(const struct transport *t);
/* Splits "tcp://host:port" into ops and address. 0, -EINVAL, -EPROTONOSUPPORT. */
int transport_parse_url(const char *url, const struct transport_ops **ops, const char **address);

/* Thin wrappers: the calls as callers write them. */
static inline int transport_post_rx(struct transport_conn *c, const struct transport_rx *rx,
				    uint32_t n)
{
	return c->transport->ops->post_rx(c, rx, n);
}

static inline int transport_tx(struct transport_conn *c, const struct transport_tx *tx, uint32_t n)
{
	return c->transport->ops->tx(c, tx, n);
}

static inline int transport_poll(struct transport *t, struct transport_event *ev, uint32_t max)
{
	return t->ops->poll(t, ev, max);
}

static inline int transport_flush(struct transport *t)
{
	return t->ops->flush(t);
}

static inline int transport_disconnect(struct transport_conn *c, bool drain)
{
	return c->transport->ops->disconnect(c, drain);
}

static inline uint32_t transport_caps(const struct transport *t)
{
	return t->ops->caps;
}

#endif
