/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the verbs transport: what its files share. Nobody else includes this.
 *
 *	verbs.c			the table: open, close, poll, flush, event_fd
 *	verbs_cm.c		rdma_cm's events; listen
 *	verbs_connect.c		how a connection comes about, on either side
 *	verbs_conn.c		one connection: its state, its turn, its end
 *	verbs_qp.c		its queue pair
 *	verbs_queue.c		accepted descriptors, posted buffers
 *	verbs_post.c		descriptors to work requests
 *	verbs_complete.c	completions; messages that arrived
 *	verbs_device.c		what a device is asked for: protection domain, queues, buffers
 *	verbs_memory.c		registered memory of the node
 *	verbs_region.c		memory of the peer, named by it
 *	verbs_credits, verbs_gid, verbs_phase, verbs_plan, verbs_hello	no verbs call in them
 *
 * The node moves the bytes: it posts RDMA WRITE for a GET and RDMA READ for a PUT, then the reply
 * on the same queue pair. Its queue pairs carry no remote access rights and its memory is
 * registered for local writing only, so no key of it is of use to anybody. The client's queue pairs
 * allow both, and its regions are the only memory in its protection domain that does.
 *
 * Messages are SENDs, copied once on either side: out of memory that is registered (or inline), and
 * out of the shared receive queue into the owner's buffer. See verbs_credits.h for who may send.
 *
 * There are no gates: a client takes a buffer back by ending the connection. DOWN is told when the
 * queue pair is destroyed, so after it nothing touches the memory of either side.
 *
 * Thread rules: a transport belongs to one thread. librdmacm and libibverbs allocate while
 * connections come and go; sending and receiving do not.
 */
#ifndef LARDER_TRANSPORT_VERBS_H
#define LARDER_TRANSPORT_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/compiler.h"
#include "base/list.h"
#include "transport/tcp_address.h"
#include "transport/transport.h"
#include "transport/verbs_credits.h"
#include "transport/verbs_gid.h"
#include "transport/verbs_hello.h"
#include "transport/verbs_phase.h"
#include "transport/verbs_plan.h"

#define VERBS_MAX_MESSAGE (16u * 1024u)
#define VERBS_MAX_TRANSFER (1u << 30)
#define VERBS_MAX_TX 128u	/* descriptors; a power of two, as the next two */
#define VERBS_IOVS 1024u	/* pieces of all of them */
#define VERBS_MAX_RX 128u
#define VERBS_MAX_IOV 64u	/* pieces of one */
#define VERBS_CHUNK TRANSPORT_TURN_BYTES	/* a work request moves at most this */
#define VERBS_POLL_BYTES (8u * 1024u * 1024u)	/* posted in one poll, all connections together */
#define VERBS_COMPLETIONS 64u	/* taken at once */
#define VERBS_QUIET_POLLS 8u	/* that found nothing, until events are asked for */
#define VERBS_LOOK_POLLS 16u	/* how often rdma_cm is looked at while there is work */
#define VERBS_QP_BUCKETS 256u
#define VERBS_ACK_TIMEOUT 16u	/* 4.096 us * 2^16, for each of the retries: 1.9 s in all */
#define VERBS_RETRIES 6u	/* soft-RoCE takes 7 for ever */
#define VERBS_RNR_RETRIES 6u
#define VERBS_RESOLVE_MS 2000
#define VERBS_FLUSH_NS (2 * NSEC_PER_SEC)	/* for the last completion; then without it */
#define VERBS_RELISTEN_NS NSEC_PER_SEC
#define VERBS_LINE 200u

/* --- memory -------------------------------------------------------------------------------- */

/* What REGION_ADD carries. */
struct verbs_region_name {
	uint64_t addr;
	uint64_t size;
	uint32_t rkey;
	uint32_t version;	/* VERBS_HELLO_VERSION */
};
static_assert(sizeof(struct verbs_region_name) <= TRANSPORT_OPAQUE_MAX, "wire");

struct verbs_region {
	struct transport_region base;
	struct list link;		/* of its conn, or of the transport's orphans */
	struct verbs_conn *conn;	/* NULL: its connection is over */
	struct ibv_mr *mr;		/* client, while it has a connection */
	uint64_t addr;			/* node: in the client's address space */
	uint32_t rkey;
	uint32_t busy;			/* accepted descriptors that name it */
	bool dying;			/* region_del was called: goes with the next turn */
};

/* Memory of the node, registered with one device; shared by the transports of a process. */
struct verbs_memory {
	struct list link;
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint8_t *base;
	uint64_t bytes;
	uint64_t mr_bytes;
	uint32_t users;
	uint32_t n;
	struct ibv_mr *mr[];
};

/* --- device -------------------------------------------------------------------------------- */

/* A receive of the shared queue. */
struct verbs_slot {
	uint32_t next;		/* of the connection's waiting messages; of those to be posted */
	uint32_t length;
};
#define VERBS_NO_SLOT UINT32_MAX

struct verbs_device {
	struct list link;
	struct verbs_transport *transport;
	struct ibv_context *context;
	struct verbs_memory *memory;	/* NULL: none was given, pd is our own */
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct verbs_plan plan;
	uint32_t n_conns;
	uint32_t receives_left;		/* nobody's */
	bool armed;			/* an event will tell of the next completion */
	bool drained;			/* the last look emptied the completion queue */
	bool removed;			/* unplugged: closed with its last connection */
	uint8_t *rx_memory;
	struct ibv_mr *rx_mr;
	struct verbs_slot *slots;
	uint32_t idle;			/* slots that wait to be posted again: a list */
	uint8_t *tx_memory;
	struct ibv_mr *tx_mr;
	uint16_t *tx_free;		/* a stack of buffers */
	uint32_t n_tx_free;
	struct list qps[VERBS_QP_BUCKETS];
};

/* --- connection ---------------------------------------------------------------------------- */

struct verbs_tx_slot {
	uint8_t type;			/* enum transport_tx_type */
	bool posted;			/* all of it */
	uint16_t under_way;		/* work requests */
	uint32_t pieces;		/* of the iov ring, not used up yet */
	int status;
	uint64_t cookie;
	uint64_t length;
	uint64_t moved;			/* posted bytes */
	uint64_t offset;
	struct verbs_region *region;
};

/* Positions only grow: reported <= done <= next <= tail. */
struct verbs_tx {
	uint32_t reported;
	uint32_t done;
	uint32_t next;			/* to be posted */
	uint32_t tail;
	uint32_t iov_head;
	uint32_t iov_tail;
	size_t iov_skip;		/* of the piece at the head */
	struct verbs_tx_slot slot[VERBS_MAX_TX];
	struct iovec iov[VERBS_IOVS];
};

struct verbs_rx {
	uint32_t head;
	uint32_t tail;
	struct transport_rx slot[VERBS_MAX_RX];
};

/* A work request at the device; they complete in order. */
struct verbs_wr {
	uint32_t tx;			/* position in the ring of descriptors */
	int16_t buffer;			/* of the device's send buffers; -1: none */
	bool ours;			/* an update or the marker: no descriptor */
};
#define VERBS_WRS 128u			/* a power of two over VERBS_SQ + VERBS_SQ_SPARE */

struct verbs_conn {
	struct transport_conn base;	/* first: a conn of ours is a transport_conn */
	struct list link;		/* among the transport's conns, its spare or gone ones */
	struct list ready;		/* among those with work; else linked to itself */
	struct list bucket;		/* of the device's queue pairs */
	uint8_t phase;			/* enum verbs_phase: verbs_conn_move alone */
	bool accepted;			/* the node's side */
	bool established;		/* there is something to disconnect */
	bool closed;			/* the peer has disconnected */
	bool starved;			/* the head waits for a send buffer of the device */
	bool region_dying;		/* a region was deleted and is still registered */
	int status;			/* of DOWN */
	int cancel_status;		/* of what goes back after it */
	uint64_t turn;
	uint32_t turn_left;
	uint64_t ending_ns;
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	struct verbs_device *device;
	uint32_t max_inline;
	uint32_t reads;			/* RDMA READs that may be under way, as negotiated */
	uint32_t window;		/* receives set aside for it, without those for updates */
	uint32_t n_buffers;		/* send buffers that it holds */
	struct tcp_address peer;
	struct verbs_gid gid;
	struct verbs_credits credits;
	uint32_t waiting;		/* slots with messages, in order: first and last */
	uint32_t waiting_last;
	struct list regions;
	uint32_t n_regions;
	uint64_t region_bytes;
	uint32_t wr_head;
	uint32_t wr_tail;
	struct verbs_wr wr[VERBS_WRS];
	struct verbs_rx rx;
	struct verbs_tx tx;
};

struct verbs_transport {
	struct transport base;
	struct transport_config config;
	int epoll_fd;
	int kick_fd;			/* eventfd inside epoll_fd: readable while poll is wanted */
	bool kicked;
	bool polling;
	uint32_t quiet;			/* polls in a row that found nothing */
	struct rdma_event_channel *cm;
	struct rdma_cm_id *listener;
	struct tcp_address listen_address;
	bool listening;			/* wanted; without a listener it is tried again */
	uint64_t relisten_ns;
	struct list devices;
	struct verbs_conn *slab;	/* conns for those who connect to us: max_conns of them */
	struct list spare;
	struct list conns;
	struct list gone;
	struct list ready;
	struct list orphans;		/* regions whose conn is over: region_del is left */
	uint64_t turn;
	uint32_t poll_left;		/* bytes */
};

/* The array of the poll under way. */
struct verbs_batch {
	struct transport_event *events;
	uint32_t n;
	uint32_t max;
};

static inline struct verbs_transport *verbs_of(struct transport *t)
{
	return container_of(t, struct verbs_transport, base);
}

static inline struct verbs_conn *verbs_conn_of(struct transport_conn *c)
{
	return container_of(c, struct verbs_conn, base);
}

static inline struct verbs_transport *verbs_owner(const struct verbs_conn *c)
{
	return verbs_of(c->base.transport);
}

/* --- verbs.c --- */

/* @c has something to do: poll visits it, event_fd is readable until then. */
void verbs_ready(struct verbs_conn *c);
int verbs_watch(struct verbs_transport *t, int fd);
void verbs_unwatch(struct verbs_transport *t, int fd);
/* What the system's answer means here, for a log line. */
const char *verbs_explain(int error);

/* --- verbs_cm.c --- */

int verbs_open_cm(struct verbs_transport *t);
int verbs_listen(struct transport *base, const char *address);
int verbs_bound(struct transport *base, char *text, size_t size);
void verbs_unlisten(struct verbs_transport *t);
/* Takes what rdma_cm has to tell; tries again to listen when the device had gone. */
void verbs_cm_poll(struct verbs_transport *t);

/* --- verbs_connect.c --- */

int verbs_connect(struct transport *base, const char *address, void *user,
		  struct transport_conn **ret);
/* The steps of a client, as rdma_cm tells them. 0 or -errno: it ends. */
int verbs_connect_address(struct verbs_conn *c);
int verbs_connect_route(struct verbs_conn *c);
int verbs_connect_answer(struct verbs_conn *c, const struct rdma_conn_param *param);
/* Somebody wants to connect; takes @id. */
void verbs_accept(struct verbs_transport *t, struct rdma_cm_id *id,
		  const struct rdma_conn_param *param);
/* Why it was refused, told in the log. -errno for DOWN. */
int verbs_refused(struct verbs_conn *c, int cm_status, const struct rdma_conn_param *param);

/* --- verbs_conn.c --- */

/* @c is zeroed or spare. */
void verbs_conn_start(struct verbs_transport *t, struct verbs_conn *c, enum verbs_phase phase);
void verbs_conn_move(struct verbs_conn *c, enum verbs_phase to);
void verbs_conn_turn(struct verbs_conn *c, struct verbs_batch *b);
/* Begins the end: nothing is posted any more. */
void verbs_conn_end(struct verbs_conn *c, int status, int cancel_status);
/* Destroys what it has at the device and with rdma_cm, at once. */
void verbs_conn_strip(struct verbs_conn *c);
/* Lets go of everything but the struct itself, whatever its phase. */
void verbs_conn_release(struct verbs_conn *c);
/* Posts what stands at the head of the queue, within this turn's bytes. */
void verbs_conn_flush(struct verbs_conn *c);
int verbs_disconnect(struct transport_conn *base, bool drain);
int verbs_peer(struct transport_conn *base, struct transport_peer *ret);
struct transport_event *verbs_emit(struct verbs_conn *c, struct verbs_batch *b, uint8_t type);
/* "198.51.100.7:4711" */
void verbs_peer_text(const struct verbs_conn *c, char *text, size_t size);

/* --- verbs_qp.c --- */

int verbs_qp_make(struct verbs_conn *c);
/* Through INIT and RTR to RTS with what rdma_cm has agreed; looks at the GID. */
int verbs_qp_connect(struct verbs_conn *c);
/* To ERR, and behind what is there a marker that comes back last. */
void verbs_qp_stop(struct verbs_conn *c);
void verbs_qp_free(struct verbs_conn *c);
struct verbs_conn *verbs_qp_find(struct verbs_device *d, uint32_t number);

/* --- verbs_queue.c --- */

int verbs_tx(struct transport_conn *base, const struct transport_tx *tx, uint32_t n);
int verbs_post_rx(struct transport_conn *base, const struct transport_rx *rx, uint32_t n);
/* Moves `done` over what is. */
void verbs_tx_settle(struct verbs_conn *c);
/* All that is not done ends with @status; nothing of it is at the device. */
void verbs_tx_cancel(struct verbs_conn *c, int status);
void verbs_tx_report(struct verbs_conn *c, struct verbs_batch *b);

/* --- verbs_post.c --- */

void verbs_post(struct verbs_conn *c);
void verbs_post_update(struct verbs_conn *c);

/* --- verbs_complete.c --- */

/* Takes completions of every device. Number, or -errno. */
int verbs_complete(struct verbs_transport *t);
/* Messages into posted buffers. */
void verbs_deliver(struct verbs_conn *c, struct verbs_batch *b);
void verbs_drop_waiting(struct verbs_conn *c);

/* --- verbs_device.c --- */

/* Finds or opens what belongs to @context. */
int verbs_device_get(struct verbs_transport *t, struct ibv_context *context,
		     struct verbs_device **ret);
void verbs_device_close(struct verbs_device *d);
/* In a forked child: the parent's objects stay. */
void verbs_device_abandon(struct verbs_device *d);
/* Has it a port that is up? */
bool verbs_device_is_up(struct ibv_context *context);
/* Opens every device that has a port that is up; at least one or -errno. */
int verbs_device_get_all(struct verbs_transport *t);
void verbs_slot_idle(struct verbs_device *d, uint32_t slot);
/* Gives idle slots back to the shared queue. */
int verbs_slots_post(struct verbs_device *d);
static inline uint8_t *verbs_slot_data(const struct verbs_device *d, uint32_t slot)
{
	return d->rx_memory + (size_t)slot * VERBS_MAX_MESSAGE;
}

/* --- verbs_memory.c --- */

/* Registers (or finds) [base, base + bytes) for @context. Says what is wrong itself. */
int verbs_memory_get(const struct larder_log *log, struct ibv_context *context,
		     const struct transport_config *config, const struct verbs_plan *plan,
		     struct verbs_memory **ret);
void verbs_memory_put(struct verbs_memory *m);
/* The key for @addr, and how many bytes from there it is good for; 0: not registered. */
size_t verbs_memory_key(const struct verbs_memory *m, const void *addr, uint32_t *ret_key);

/* --- verbs_region.c --- */

int verbs_region_add(struct transport_conn *base, void *addr, size_t len, int fd,
		     uint64_t fd_offset, uint8_t *opaque, size_t *opaque_len,
		     struct transport_region **ret);
int verbs_region_import(struct transport_conn *base, const uint8_t *opaque, size_t opaque_len,
			uint64_t size, struct transport_region **ret);
int verbs_region_del(struct transport_region *base);
/* Its connection has no queue pair any more. */
void verbs_region_orphan_all(struct verbs_conn *c);
/* Deregisters what was deleted. The connection is open, or has no queue pair. */
void verbs_region_bury(struct verbs_conn *c);

#endif
