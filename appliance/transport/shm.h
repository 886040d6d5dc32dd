/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the shm transport: what its files share. Nobody else includes this.
 *
 *	shm.c		the table: open, close, poll, flush, event_fd
 *	shm_listen.c	the socket's path, accept, connect
 *	shm_conn.c	one connection: its turn, its end, what is owed to its owner
 *	shm_queue.c	accepted descriptors and posted buffers
 *	shm_socket.c	one datagram out or in, with its descriptor
 *	shm_region.c	memory of the peer: named, checked, mapped, pre-faulted
 *	shm_gate.c	one word per request by which the client takes its buffer back
 *	shm_slice.c	a slice of a copy: through the gate, under the SIGBUS guard
 *	shm_stream.c	the copy itself
 *
 * A connection is a unix SEQPACKET socket. Each datagram starts with a struct shm_frame:
 *
 *	DATA		a message of the session; the rest of the datagram
 *	GATES		client, once, first: the memfd of its gate words (one descriptor attached)
 *	REGION_FD	client: the memfd behind a region, by token (one descriptor attached). Sent
 *			before the message that names the token, so it is there when that one is
 *
 * Whatever else arrives ends the connection. Bytes of values never pass through the socket: the
 * node copies between its pages and the mapped region.
 *
 * Thread rules: a transport belongs to one thread. The SIGBUS guard is per thread.
 */
#ifndef LARDER_TRANSPORT_SHM_H
#define LARDER_TRANSPORT_SHM_H

#include <assert.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/list.h"
#include "transport/transport.h"

#define SHM_MAX_MESSAGE (16u * 1024u)
#define SHM_MAX_TRANSFER (1u << 30)
#define SHM_MAX_TX 128u		/* descriptors; a power of two, as the next two */
#define SHM_IOVS 1024u		/* pieces of all of them */
#define SHM_MAX_RX 128u
#define SHM_MAX_IOV 64u		/* pieces of one */
#define SHM_MAX_GATES 4096u
#define SHM_GATE_STRIDE 64u	/* a gate has its cache line */
#define SHM_PENDING_MAX 64u	/* descriptors that no REGION_ADD has claimed: per connection, */
#define SHM_PENDING_TOTAL 512u	/* and per transport: beyond it the largest hoard pays */
#define SHM_SLICE TRANSPORT_TURN_BYTES
#define SHM_POLL_BYTES (4u * 1024u * 1024u)	/* moved in one poll, all connections together */

/* --- wire ---------------------------------------------------------------------------------- */

#define SHM_VERSION 1u

enum shm_frame_type {
	SHM_FRAME_DATA = 1,
	SHM_FRAME_GATES,
	SHM_FRAME_REGION_FD,
};

struct shm_frame {
	uint8_t type;
	uint8_t version;
	uint16_t reserved;	/* 0 */
	uint32_t gates;		/* GATES: how many; else 0 */
	uint64_t token;		/* REGION_FD: which; else 0 */
};
static_assert(sizeof(struct shm_frame) == 16, "wire");

/* What REGION_ADD carries. */
struct shm_region_name {
	uint64_t token;
	uint64_t offset;	/* in the memfd */
	uint64_t size;
};
static_assert(sizeof(struct shm_region_name) <= TRANSPORT_OPAQUE_MAX, "wire");

/* --- gates --------------------------------------------------------------------------------- */

/* TAKEN is zero, so that a gate page that was never armed, or was punched away, lets nobody in. */
enum shm_gate_state {
	SHM_GATE_TAKEN = 0,
	SHM_GATE_OPEN = 1,
	SHM_GATE_BUSY = 2,
};

struct shm_gates {
	uint8_t *map;		/* NULL: none */
	size_t bytes;
	uint32_t n;
};

/* --- structs ------------------------------------------------------------------------------- */

struct shm_transport;

struct shm_region {
	struct transport_region base;
	struct list link;		/* on its conn, or among the orphans when that is gone */
	struct shm_conn *conn;		/* NULL: orphan, only region_del is left to do */
	uint8_t *map;			/* node: whole pages of the memfd; NULL with the client */
	size_t map_bytes;
	uint8_t *addr;			/* where the region begins in it */
	size_t faulted;			/* bytes of map that were pre-faulted */
	uint32_t busy;			/* accepted descriptors that name it */
};

struct shm_pending {
	uint64_t token;
	int fd;
};

enum shm_slot_type {
	SHM_SLOT_SEND = TRANSPORT_SEND,
	SHM_SLOT_READ = TRANSPORT_READ,
	SHM_SLOT_WRITE = TRANSPORT_WRITE,
	SHM_SLOT_FD,			/* GATES or REGION_FD: ours, no event */
};

struct shm_slot {
	uint8_t type;			/* enum shm_slot_type */
	uint32_t pieces;		/* of the iov ring, not used up yet */
	uint32_t gate;
	int status;			/* once done */
	int fd;				/* SLOT_FD: ours until sent */
	uint64_t cookie;
	uint64_t length;
	uint64_t moved;
	uint64_t offset;
	struct shm_region *region;
	struct shm_frame frame;		/* SLOT_FD */
};

/* Positions only grow: reported <= done <= tail. The first piece in use belongs to slot "done". */
struct shm_tx {
	uint32_t reported;
	uint32_t done;
	uint32_t tail;
	uint32_t iov_head;
	uint32_t iov_tail;
	struct shm_slot slot[SHM_MAX_TX];
	struct iovec iov[SHM_IOVS];
};

struct shm_rx {
	uint32_t head;
	uint32_t tail;
	struct transport_rx slot[SHM_MAX_RX];
};

enum shm_phase {
	SHM_NEW,	/* UP is owed; descriptors and buffers queue */
	SHM_OPEN,
	SHM_DRAIN,	/* disconnect asked to send first: nothing is read any more */
	SHM_ENDING,	/* the socket is closed, DOWN is owed */
	SHM_DOWN,	/* DOWN is told: descriptors and buffers go back */
	SHM_GONE,	/* told; the memory lives until the next poll */
};

struct shm_conn {
	struct transport_conn base;	/* first: a conn of ours is a transport_conn */
	struct list link;		/* among the transport's conns, its spare or gone ones */
	struct list ready;		/* among those with work; else linked to itself */
	int fd;				/* -1 from SHM_ENDING on */
	uint8_t phase;			/* enum shm_phase */
	bool accepted;			/* the node's side: imports regions and copies */
	bool peer_gone;			/* its socket was seen closed: it can't touch anything */
	bool blocked;			/* the head of tx waits for room in the socket */
	bool reset;			/* it closed while words of ours were unread */
	uint32_t interest;		/* what epoll watches, besides a hang-up */
	uint32_t revents;		/* what it saw, not handled yet */
	int status;			/* of DOWN */
	int cancel_status;		/* of what goes back after it */
	uint64_t turn;			/* the poll that turn_left belongs to */
	uint32_t turn_left;
	pid_t pid;
	uid_t uid;
	gid_t gid;
	struct shm_gates gates;
	struct list regions;
	uint32_t n_regions;
	uint32_t n_unfaulted;		/* regions that are still being pre-faulted */
	uint64_t region_bytes;
	uint64_t last_token;
	uint32_t n_pending;
	struct shm_pending pending[SHM_PENDING_MAX];
	struct shm_rx rx;
	struct shm_tx tx;
};

struct shm_transport {
	struct transport base;
	struct transport_config config;
	int epoll_fd;
	int kick_fd;			/* eventfd inside epoll_fd: readable while work is left */
	bool kicked;
	bool polling;			/* inside poll, which settles the kick at its end */
	int spare_fd;			/* given up for a moment to refuse when out of fds */
	int listen_fd;
	char path[108];			/* of listen; "" after listen_fd */
	dev_t path_dev;			/* the socket that we bound there */
	ino_t path_ino;
	struct shm_conn *slab;		/* conns for accept: max_conns of them */
	struct list spare;
	struct list conns;
	struct list gone;
	struct list ready;
	struct list orphans;		/* regions whose conn is gone */
	uint32_t n_pending;		/* descriptors held, all conns */
	uint64_t turn;
	uint32_t poll_left;		/* bytes */
	uint64_t log_since_ns;		/* complaints about peers are limited */
	uint32_t log_lines;
	uint32_t log_dropped;
};

/* The array of the poll under way. */
struct shm_batch {
	struct transport_event *events;
	uint32_t n;
	uint32_t max;
};

static inline struct shm_transport *shm_of(struct transport *t)
{
	return container_of(t, struct shm_transport, base);
}

static inline struct shm_conn *shm_conn_of(struct transport_conn *c)
{
	return container_of(c, struct shm_conn, base);
}

static inline struct shm_transport *shm_owner(const struct shm_conn *c)
{
	return shm_of(c->base.transport);
}

/* --- shm.c --------------------------------------------------------------------------------- */

/* @c has something to do: poll visits it, event_fd is readable until then. */
void shm_ready(struct shm_conn *c);
/* One line about a peer that misbehaved; a flood of them is cut off and counted. */
void shm_complain(struct shm_conn *c, const char *fmt, ...) _printf_(2, 3);

/* --- shm_listen.c -------------------------------------------------------------------------- */

int shm_listen(struct transport *base, const char *address);
int shm_listen_fd(struct transport *base, int fd);
void shm_unlisten(struct shm_transport *t);
/* Takes new connections, a few per poll. */
void shm_accept(struct shm_transport *t);
int shm_connect(struct transport *base, const char *address, void *user,
		struct transport_conn **ret);

/* --- shm_conn.c ---------------------------------------------------------------------------- */

/* @c is zeroed or came back from shm_conn_reclaim; @fd is taken on success, -errno when epoll
 * refuses. fd -1: a connection that failed with @status and has only that to tell. */
int shm_conn_start(struct shm_transport *t, struct shm_conn *c, int fd, int status);
/* One turn in a poll; leaves it on the ready list when something is left to do. */
/* Has more to move next than TRANSPORT_LIGHT_BYTES. */
bool shm_conn_is_heavy(const struct shm_conn *c);
void shm_conn_turn(struct shm_conn *c, struct shm_batch *b);
/* Sends what stands at the head of the queue, up to the first copy. */
void shm_conn_flush(struct shm_conn *c);
/* Changes what epoll watches. Ends the connection when that fails. */
int shm_conn_watch(struct shm_conn *c, uint32_t set, uint32_t clear);
/* Begins the end: the socket closes and nothing is touched after it. */
void shm_conn_end(struct shm_conn *c, int status, int cancel_status);
/* In a forked child: closes its copies of the descriptors; nothing is left that release tells. */
void shm_conn_abandon(struct shm_conn *c);
/* Lets go of everything but the struct itself. */
void shm_conn_release(struct shm_conn *c);
int shm_disconnect(struct transport_conn *base, bool drain);
int shm_peer(struct transport_conn *base, struct transport_peer *ret);

/* --- shm_queue.c --------------------------------------------------------------------------- */

int shm_tx(struct transport_conn *base, const struct transport_tx *tx, uint32_t n);
int shm_post_rx(struct transport_conn *base, const struct transport_rx *rx, uint32_t n);
/* Queues a frame with a descriptor. Takes @fd on success; -ENOBUFS: the queue is full. */
int shm_tx_fd(struct shm_conn *c, const struct shm_frame *frame, int fd);
/* The first descriptor that is not done; NULL: none. */
struct shm_slot *shm_tx_head(struct shm_conn *c);
/* Pieces for the next @bytes of the head: at most @bytes in sum, into iov[SHM_MAX_IOV]. */
uint32_t shm_tx_gather(const struct shm_tx *q, const struct shm_slot *s, size_t bytes,
		       struct iovec *iov);
void shm_tx_advance(struct shm_tx *q, struct shm_slot *s, size_t bytes);
/* The head is over. */
void shm_tx_finish(struct shm_conn *c, int status);
void shm_tx_report(struct shm_conn *c, struct shm_batch *b);
struct transport_event *shm_emit(struct shm_conn *c, struct shm_batch *b, uint8_t type);

/* --- shm_socket.c -------------------------------------------------------------------------- */

#define SHM_FDS 2u	/* one is wanted; room for a second shows that there were too many */

struct shm_datagram {
	struct shm_frame frame;
	size_t payload;		/* bytes after the frame */
	bool truncated;		/* there were more */
	bool runt;		/* shorter than a frame */
	bool surplus;		/* more descriptors than SHM_FDS, or none left in our table */
	uint32_t n_fds;
	int fds[SHM_FDS];	/* the receiver's to close */
};

/* 1: a datagram; 0: the peer closed; -EAGAIN; -errno. */
int shm_socket_recv(int fd, void *buf, size_t len, struct shm_datagram *d);
void shm_datagram_close(struct shm_datagram *d);
/* 0, -EAGAIN, -errno. @fd -1: none. @iov has @niov pieces. */
int shm_socket_send(int sock, const struct shm_frame *frame, const struct iovec *iov,
		    uint32_t niov, int fd);

/* --- shm_region.c -------------------------------------------------------------------------- */

int shm_region_add(struct transport_conn *base, void *addr, size_t len, int fd, uint64_t fd_offset,
		   uint8_t *opaque, size_t *opaque_len, struct transport_region **ret);
int shm_region_import(struct transport_conn *base, const uint8_t *opaque, size_t opaque_len,
		      uint64_t size, struct transport_region **ret);
int shm_region_del(struct transport_region *base);
/* A REGION_FD arrived: takes the descriptor out of @d. 0 or -EPROTO, told in the log. */
int shm_pending_add(struct shm_conn *c, struct shm_datagram *d);
void shm_pending_drop_all(struct shm_conn *c);
/* Pre-faults a little. */
void shm_region_fault_some(struct shm_conn *c);
void shm_region_orphan_all(struct shm_conn *c);
/* NULL: @fd is a memfd that can not shrink, with @bytes of it there and all of it allocated. Else
 * what is wrong, and errno: EINVAL, or what the system said that could not examine it. @huge_page:
 * its page size when it is made of hugepages, else 0. */
const char *shm_memfd_check(int fd, uint64_t bytes, uint64_t *huge_page);
/* A sealable, close-on-exec, never executable memfd. -errno. */
int shm_memfd_create(const char *name, unsigned flags);

/* --- shm_gate.c ---------------------------------------------------------------------------- */

int shm_gates_create(struct shm_conn *c, uint32_t n);	/* client; queues the GATES frame */
int shm_gates_import(struct shm_conn *c, struct shm_datagram *d);	/* node; -EPROTO: told */
void shm_gates_take_all(struct shm_conn *c);
void shm_gates_unmap(struct shm_conn *c);
int shm_gate_arm(struct transport_conn *base, uint32_t gate);
int shm_gate_take(struct transport_conn *base, uint32_t gate);

static inline _Atomic uint32_t *shm_gate_at(const struct shm_gates *g, uint32_t gate)
{
	return (_Atomic uint32_t *)(void *)(g->map + (size_t)gate * SHM_GATE_STRIDE);
}

/* Node, around a slice. False: the client has taken it. */
bool shm_gate_enter(_Atomic uint32_t *gate);
void shm_gate_leave(_Atomic uint32_t *gate);

/* --- shm_slice.c --------------------------------------------------------------------------- */

struct shm_slice {
	_Atomic uint32_t *gate;		/* NULL: none. In peer memory, too */
	const struct iovec *iov;	/* our side */
	uint32_t niov;
	uint8_t *peer;			/* the region's side */
	size_t length;			/* = sum of iov */
	bool to_peer;
};

/* Installs the SIGBUS handler, once per process. */
int shm_guard_install(void);
/* 0; -ECANCELED: the gate is taken and no byte was touched; -EFAULT: the peer's memory is gone. */
int shm_slice_copy(struct shm_slice *s);

/* --- shm_stream.c -------------------------------------------------------------------------- */

/* memcpy around the caches where the processor can; complete (ordered) only after the fence. */
void shm_stream_copy(void *dst, const void *src, size_t len);
void shm_stream_fence(void);

#endif
