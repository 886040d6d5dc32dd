/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection.
 *
 *	NEW ──▶ OPEN ──▶ DRAIN ──▶ ENDING ──▶ DOWN ──▶ GONE ──▶ (struct reused)
 *	 └────────┴───────────────────▲
 *
 * DRAIN waits as long as the peer takes to read; its owner cuts it short by disconnect without
 * drain.
 *
 * All work is done in turns: poll visits each connection that has something to do once, and a turn
 * moves at most TRANSPORT_TURN_BYTES, received, sent and copied together. Descriptors are worked
 * off strictly in order, so a reply that was accepted after the copies it speaks of leaves after
 * them.
 *
 * The end closes the socket first, then tells: DOWN, each descriptor, each buffer, GONE. The peer
 * may take "socket closed" as proof that nothing touches its memory any more (shm_gate.c), and it
 * is one: this thread is the only one that copies, and it never does after ENDING.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/shm.h"

#define CONN_RX_PER_TURN 32u
/* What arrives may use half a turn, so that a talkative peer does not stall its own copies. */
#define CONN_RX_BYTES (TRANSPORT_TURN_BYTES / 2)
/* A slice that is not a descriptor's last ends on a page: the next one begins aligned. */
#define CONN_SLICE_ALIGN 4096u

static bool conn_wants(const struct shm_conn *c)
{
	switch (c->phase) {
	case SHM_NEW:
	case SHM_ENDING:
	case SHM_DOWN:
		return true;
	case SHM_GONE:
		return false;
	default:
		return c->tx.reported != c->tx.done || (c->phase == SHM_OPEN && c->n_unfaulted) ||
		       (c->tx.done != c->tx.tail && !c->blocked);
	}
}

bool shm_conn_is_heavy(const struct shm_conn *c)
{
	const struct shm_slot *s = &c->tx.slot[c->tx.done % SHM_MAX_TX];

	if (c->phase != SHM_OPEN)
		return false;
	if (c->n_unfaulted)
		return true;
	return c->tx.done != c->tx.tail && !c->blocked &&
	       (s->type == SHM_SLOT_READ || s->type == SHM_SLOT_WRITE) &&
	       s->length > TRANSPORT_LIGHT_BYTES;
}

static void conn_budget(struct shm_conn *c)
{
	const struct shm_transport *t = shm_owner(c);

	if (c->turn == t->turn)
		return;
	c->turn = t->turn;
	c->turn_left = TRANSPORT_TURN_BYTES;
}

static void conn_spend(struct shm_conn *c, size_t bytes)
{
	struct shm_transport *t = shm_owner(c);

	c->turn_left -= (uint32_t)MIN(bytes, (size_t)c->turn_left);
	t->poll_left -= (uint32_t)MIN(bytes, (size_t)t->poll_left);
}

int shm_conn_watch(struct shm_conn *c, uint32_t set, uint32_t clear)
{
	/* Without a bit it stays registered: a hang-up is told in any case. */
	struct epoll_event ev = { .events = (c->interest | set) & ~clear, .data.ptr = c };

	if (c->fd < 0 || ev.events == c->interest)
		return 0;
	if (epoll_ctl(shm_owner(c)->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev) < 0) {
		int r = -errno;

		shm_conn_end(c, r, -ECONNRESET);
		return r;
	}
	c->interest = ev.events;
	return 0;
}

int shm_conn_start(struct shm_transport *t, struct shm_conn *c, int fd, int status)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };

	if (fd >= 0 && epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	c->base.transport = &t->base;
	c->base.user = NULL;
	c->fd = fd;
	c->phase = fd >= 0 ? SHM_NEW : SHM_ENDING;
	c->status = c->cancel_status = status;
	c->peer_gone = fd < 0;
	c->reset = false;
	c->blocked = false;
	c->interest = fd >= 0 ? ev.events : 0;
	c->revents = 0;
	c->turn = 0;
	c->gates = (struct shm_gates){ 0 };
	c->n_regions = c->n_unfaulted = c->n_pending = 0;
	c->region_bytes = c->last_token = 0;
	c->rx.head = c->rx.tail = 0;
	c->tx.reported = c->tx.done = c->tx.tail = 0;
	c->tx.iov_head = c->tx.iov_tail = 0;
	list_init(&c->regions);
	list_init(&c->link);
	list_init(&c->ready);
	list_push_tail(&t->conns, &c->link);
	shm_ready(c);
	return 0;
}

void shm_conn_end(struct shm_conn *c, int status, int cancel_status)
{
	if (c->phase >= SHM_ENDING)
		return;
	c->phase = SHM_ENDING;
	c->status = status;
	c->cancel_status = cancel_status;
	if (!c->accepted)
		shm_gates_take_all(c);
	/* Explicitly: after a fork the child's copy of the socket would keep it in epoll. */
	(void)epoll_ctl(shm_owner(c)->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
	/* For the same reason: the peer must learn of the end while a child still holds a copy. */
	(void)shutdown(c->fd, SHUT_RDWR);	/* ENOTCONN: it knows */
	(void)close(TAKE_FD(c->fd));	/* a socket: nothing that could fail late */
	shm_pending_drop_all(c);
	shm_ready(c);
}

void shm_conn_abandon(struct shm_conn *c)
{
	const int fd = TAKE_FD(c->fd);

	cleanup_closep(&fd);
	shm_pending_drop_all(c);
	c->phase = SHM_ENDING;
}

void shm_conn_release(struct shm_conn *c)
{
	struct shm_transport *t = shm_owner(c);

	shm_conn_end(c, -ECANCELED, -ECANCELED);
	while (shm_tx_head(c))
		shm_tx_finish(c, c->cancel_status);
	shm_region_orphan_all(c);
	shm_gates_unmap(c);
	c->phase = SHM_GONE;
	list_remove(&c->ready);
	list_remove(&c->link);
	list_push_tail(&t->gone, &c->link);
}

/* --- in ------------------------------------------------------------------------------------ */

/* What comes next on the socket, for a connection that has no buffer for a message. */
enum conn_next {
	NEXT_NOTHING,	/* yet: what comes after this look must not be taken for what was seen */
	NEXT_MESSAGE,	/* waits for a buffer */
	NEXT_OTHER,	/* needs no buffer: an offer of memory, nonsense, or the end */
};

static enum conn_next conn_peek(struct shm_conn *c)
{
	struct shm_frame frame;
	ssize_t n = recv(c->fd, &frame, sizeof(frame), MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return NEXT_NOTHING;
	if (n < 0 && errno == ECONNRESET)
		c->reset = true;		/* told once, and now it is */
	return n == sizeof(frame) && frame.type == SHM_FRAME_DATA ? NEXT_MESSAGE : NEXT_OTHER;
}

/* The peer closed, and all that it sent was read or finds no buffer. */
static void conn_hangup(struct shm_conn *c)
{
	c->peer_gone = true;
	shm_conn_end(c, c->reset ? -ECONNRESET : 0, -ECONNRESET);
}

static const char *conn_frame_wrong(const struct shm_conn *c, const struct shm_datagram *d)
{
	const struct shm_frame *f = &d->frame;

	if (d->runt)
		return "a datagram is shorter than its header";
	if (f->version != SHM_VERSION || f->reserved)
		return "a datagram is of another version";
	if (d->surplus)
		return "too many descriptors came at once";
	switch (f->type) {
	case SHM_FRAME_DATA:
		if (d->n_fds || f->gates || f->token)
			return "a message carries what it may not";
		return NULL;
	case SHM_FRAME_GATES:
		if (f->token)
			return "its gates carry what they may not";
		break;
	case SHM_FRAME_REGION_FD:
		if (f->gates)
			return "its region carries what it may not";
		break;
	default:
		return "a datagram has an unknown type";
	}
	if (!c->accepted)
		return "a node offers memory";
	if (d->payload || d->truncated)
		return "an offer of memory has bytes behind it";
	return d->n_fds == 1 ? NULL : "an offer of memory needs one descriptor";
}

/* One datagram for the first posted buffer. True: go on with the next. */
static bool conn_datagram(struct shm_conn *c, struct shm_datagram *d, struct shm_batch *b)
{
	const struct transport_rx *rx = &c->rx.slot[c->rx.head % SHM_MAX_RX];
	const char *wrong = conn_frame_wrong(c, d);
	struct transport_event *ev;
	int r = 0;

	if (wrong) {
		shm_complain(c, "%s", wrong);
		r = -EPROTO;
	} else if (d->frame.type == SHM_FRAME_GATES) {
		r = shm_gates_import(c, d);
	} else if (d->frame.type == SHM_FRAME_REGION_FD) {
		r = shm_pending_add(c, d);
	} else if (d->truncated) {
		r = -EMSGSIZE;
	} else {
		ev = shm_emit(c, b, TRANSPORT_RX);
		ev->cookie = rx->cookie;
		ev->data = rx->data;
		ev->length = (uint32_t)d->payload;
		c->rx.head++;
	}
	shm_datagram_close(d);
	if (r < 0)
		shm_conn_end(c, r, -ECONNRESET);
	return r == 0;
}

static void conn_input(struct shm_conn *c, uint32_t revents, struct shm_batch *b)
{
	uint32_t left = CONN_RX_BYTES;

	for (unsigned i = 0; i < CONN_RX_PER_TURN && b->n < b->max; i++) {
		const struct transport_rx *rx = &c->rx.slot[c->rx.head % SHM_MAX_RX];
		bool have = c->rx.head != c->rx.tail;
		uint32_t room = have ? MIN(rx->length, SHM_MAX_MESSAGE) : 0;
		struct shm_datagram d;
		int r;

		enum conn_next next = have ? NEXT_OTHER : conn_peek(c);

		if (next == NEXT_NOTHING && !(revents & (EPOLLHUP | EPOLLERR)))
			return;
		if (next == NEXT_MESSAGE) {
			if (revents & (EPOLLHUP | EPOLLERR))
				conn_hangup(c);
			else
				(void)shm_conn_watch(c, 0, EPOLLIN);	/* tells by ending */
			return;
		}
		if (left < room || c->turn_left < room)
			return;
		r = shm_socket_recv(c->fd, have ? rx->data : NULL, room, &d);
		if (r == -EAGAIN)
			return;
		if (r == -ECONNRESET) {		/* it closed on words of ours; its own may follow */
			c->reset = true;
			continue;
		}
		if (r == 0) {
			conn_hangup(c);
			return;
		}
		if (r < 0) {
			shm_conn_end(c, r, -ECONNRESET);
			return;
		}
		conn_spend(c, d.payload);
		left -= (uint32_t)MIN(d.payload, (size_t)left);
		if (!conn_datagram(c, &d, b))
			return;
	}
}

/* --- out ----------------------------------------------------------------------------------- */

/* Sends the head, a message or a descriptor of ours. False: not now. */
static bool conn_send(struct shm_conn *c, struct shm_slot *s)
{
	static const struct shm_frame data = { .type = SHM_FRAME_DATA, .version = SHM_VERSION };
	struct iovec iov[SHM_MAX_IOV];
	uint32_t niov;
	int r;

	if (s->length > c->turn_left)
		return false;
	niov = shm_tx_gather(&c->tx, s, s->length, iov);
	r = shm_socket_send(c->fd, s->type == SHM_SLOT_FD ? &s->frame : &data, iov, niov, s->fd);
	switch (r) {
	case 0:
		conn_spend(c, s->length);
		shm_tx_finish(c, 0);
		return true;
	case -EAGAIN:
		c->blocked = true;
		(void)shm_conn_watch(c, EPOLLOUT, 0);	/* tells by ending */
		return false;
	case -ENOBUFS:
	case -ENOMEM:
	case -ETOOMANYREFS:
		return false;				/* the system's trouble, not ours: again */
	default:
		c->peer_gone = r == -EPIPE || r == -ECONNRESET;
		shm_conn_end(c, c->peer_gone ? -ECONNRESET : r, -ECONNRESET);
		return false;
	}
}

/* What is wrong with a copy from its first byte on; 0: nothing. */
static int conn_copy_check(const struct shm_conn *c, const struct shm_slot *s)
{
	uint64_t size = s->region->base.size;

	if (s->offset > size || s->length > size - s->offset)
		return -ERANGE;
	if (s->gate != TRANSPORT_NO_GATE && s->gate >= c->gates.n)
		return -ERANGE;
	return 0;
}

/* One slice of the head, a copy. False: the turn is used up, or the connection. */
static bool conn_copy(struct shm_conn *c, struct shm_slot *s)
{
	struct iovec iov[SHM_MAX_IOV];
	struct shm_slice slice = { .iov = iov, .to_peer = s->type == SHM_SLOT_WRITE };
	uint64_t left = s->length - s->moved;
	uint64_t bytes = MIN(left, (uint64_t)c->turn_left);
	int r = conn_copy_check(c, s);

	if (r < 0 || !left) {
		shm_tx_finish(c, r);
		return true;
	}
	if (bytes < left)
		bytes = ALIGN_DOWN(bytes, CONN_SLICE_ALIGN);
	if (!bytes)
		return false;
	slice.gate = s->gate == TRANSPORT_NO_GATE ? NULL : shm_gate_at(&c->gates, s->gate);
	slice.peer = s->region->addr + s->offset + s->moved;
	slice.length = bytes;
	slice.niov = shm_tx_gather(&c->tx, s, bytes, iov);
	r = shm_slice_copy(&slice);
	if (r < 0) {
		shm_tx_finish(c, r);
		if (r != -EFAULT)
			return true;
		shm_complain(c, "memory that it registered is not there (SIGBUS)");
		shm_conn_end(c, -EFAULT, -ECONNRESET);
		return false;
	}
	conn_spend(c, bytes);
	shm_tx_advance(&c->tx, s, bytes);
	if (s->moved == s->length)
		shm_tx_finish(c, 0);
	return true;
}

static void conn_output(struct shm_conn *c, struct shm_batch *b)
{
	struct shm_slot *s;
	bool more = true;

	shm_tx_report(c, b);
	while (more && !c->blocked && (s = shm_tx_head(c))) {
		if (s->type == SHM_SLOT_READ || s->type == SHM_SLOT_WRITE)
			more = conn_copy(c, s);
		else
			more = conn_send(c, s);
		shm_tx_report(c, b);
	}
}

void shm_conn_flush(struct shm_conn *c)
{
	struct shm_slot *s;

	if (c->phase != SHM_OPEN)
		return;
	conn_budget(c);
	while (!c->blocked && (s = shm_tx_head(c))) {
		if (s->type == SHM_SLOT_READ || s->type == SHM_SLOT_WRITE || !conn_send(c, s))
			return;
	}
}

/* --- the end ------------------------------------------------------------------------------- */

static void conn_return_buffers(struct shm_conn *c, struct shm_batch *b)
{
	while (c->rx.head != c->rx.tail && b->n < b->max) {
		const struct transport_rx *rx = &c->rx.slot[c->rx.head++ % SHM_MAX_RX];
		struct transport_event *ev = shm_emit(c, b, TRANSPORT_RX);

		ev->cookie = rx->cookie;
		ev->data = rx->data;
		ev->status = c->cancel_status;
	}
}

static void conn_finish(struct shm_conn *c, struct shm_batch *b)
{
	struct transport_event *ev;

	if (c->phase == SHM_ENDING) {
		shm_tx_report(c, b);		/* what was done before */
		if (c->tx.reported != c->tx.done || b->n == b->max)
			return;
		ev = shm_emit(c, b, TRANSPORT_CONN_DOWN);
		ev->status = c->status;
		c->phase = SHM_DOWN;
		while (shm_tx_head(c))
			shm_tx_finish(c, c->cancel_status);
	}
	shm_tx_report(c, b);
	conn_return_buffers(c, b);
	if (c->tx.reported != c->tx.tail || c->rx.head != c->rx.tail || b->n == b->max)
		return;
	(void)shm_emit(c, b, TRANSPORT_CONN_GONE);	/* has no further field */
	shm_conn_release(c);
}

static void conn_drain(struct shm_conn *c, uint32_t revents)
{
	if (!shm_tx_head(c))
		shm_conn_end(c, 0, -ECANCELED);
	else if (revents & (EPOLLHUP | EPOLLERR))
		conn_hangup(c);		/* nobody is left to send to */
}

/* False: UP is still owed, or was told just now: the owner has to see it first. */
static bool conn_is_up(struct shm_conn *c, struct shm_batch *b)
{
	if (c->phase != SHM_NEW)
		return true;
	if (b->n < b->max) {
		(void)shm_emit(c, b, TRANSPORT_CONN_UP);	/* has no further field */
		c->phase = SHM_OPEN;
	}
	return false;
}

void shm_conn_turn(struct shm_conn *c, struct shm_batch *b)
{
	uint32_t revents = c->revents;

	c->revents = 0;
	conn_budget(c);
	if (conn_is_up(c, b)) {
		if (revents & EPOLLOUT && c->blocked) {
			c->blocked = false;
			(void)shm_conn_watch(c, 0, EPOLLOUT);	/* tells by ending */
		}
		if (revents & ~EPOLLOUT && c->phase == SHM_OPEN)
			conn_input(c, revents, b);
		if (c->phase == SHM_OPEN || c->phase == SHM_DRAIN)
			conn_output(c, b);
		if (c->phase == SHM_OPEN && c->n_unfaulted)
			shm_region_fault_some(c);
		if (c->phase == SHM_DRAIN)
			conn_drain(c, revents);
		if (c->phase >= SHM_ENDING)
			conn_finish(c, b);
	}
	if (conn_wants(c))
		shm_ready(c);
}

int shm_disconnect(struct transport_conn *base, bool drain)
{
	struct shm_conn *c = shm_conn_of(base);

	if (c->phase >= SHM_ENDING)
		return 0;
	if (!drain || c->phase == SHM_NEW) {
		shm_conn_end(c, 0, -ECANCELED);
		return 0;
	}
	c->phase = SHM_DRAIN;
	(void)shm_conn_watch(c, 0, EPOLLIN);	/* tells by ending */
	shm_ready(c);
	return 0;
}

int shm_peer(struct transport_conn *base, struct transport_peer *ret)
{
	const struct shm_conn *c = shm_conn_of(base);

	*ret = (struct transport_peer){
		.has_cred = c->pid > 0,
		.uid = c->uid,
		.gid = c->gid,
		.pid = c->pid,
	};
	(void)snprintf(ret->text, sizeof(ret->text), "unix:pid=%d", (int)c->pid);	/* fits */
	return 0;
}
