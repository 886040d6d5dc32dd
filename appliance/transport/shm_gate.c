/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gates: how a client gets a buffer back from a node that does not answer.
 *
 * The client can't stop a node that has its memory mapped; the node may even be frozen between two
 * instructions. So each request has one word, in memory of the client, that both sides change by
 * compare-and-exchange only:
 *
 *	         gate_arm                  node, before a slice
 *	TAKEN ─────────────▶ OPEN ◀═════════════════════════════════▶ BUSY
 *	  ▲                   │            node, after it
 *	  └───────────────────┘
 *	        gate_take
 *
 * Claim: once gate_take has returned 0, no byte of the buffer is read or written by the node, even
 * if the node was stopped at any instruction and goes on years later, until the client arms again.
 *
 * Why: all changes of one word form a single order. gate_take's exchange OPEN to TAKEN has a place
 * in it. A slice of the node begins with its exchange OPEN to BUSY and ends with BUSY to OPEN.
 *  - Slices that entered before gate_take have also left before it, because the word was OPEN. The
 *    node's exchange on leaving is a release and comes after its stores (non-temporal ones are
 *    fenced before it) and its loads; gate_take's is an acquire that reads from it or from a later
 *    change. So all of the slice happened before gate_take returned.
 *  - A slice that wants to enter after gate_take finds TAKEN: its exchange fails and it touches
 *    nothing. Nothing of a slice can be done ahead of its entry: the exchange is an acquire.
 *  - A node that was stopped inside a slice has left BUSY there: gate_take says -EBUSY and the
 *    client keeps waiting, or gives the memory up (BUFFER_LOST).
 * There is no third case, and where in the node's code it was stopped does not matter.
 *
 * What the caller must see to: a gate is armed again only when the node can't hold a descriptor of
 * the earlier request any more (its reply came, or the connection is gone); else that one would
 * enter by the new permission.
 *
 * When the peer's socket has been seen closed, BUSY is a leftover: a node closes a connection only
 * from the thread that copies, between slices, and the kernel closes the sockets of a killed
 * process only when its last thread runs no more. Then gate_take succeeds.
 *
 * The node trusts nothing in that memory: any value but OPEN means TAKEN, and the access itself is
 * under the SIGBUS guard. Hugepage memfds are refused for gates: a punched hole there may never be
 * filled again, while an ordinary one is filled with zeroes, which is TAKEN.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport/shm.h"

static_assert(sizeof(_Atomic uint32_t) == 4, "shared with another process");
static_assert(ATOMIC_INT_LOCK_FREE == 2, "a lock would be in one process only");

static size_t gates_bytes(uint32_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return ALIGN_UP((size_t)n * SHM_GATE_STRIDE, page);
}

/* The access may fault and be left by a jump: a sanitizer's own code must not be in it then. */
#define GATE_MAY_FAULT __attribute__((no_sanitize_thread))

GATE_MAY_FAULT bool shm_gate_enter(_Atomic uint32_t *gate)
{
	uint32_t expected = SHM_GATE_OPEN;

	return atomic_compare_exchange_strong_explicit(gate, &expected, SHM_GATE_BUSY,
						       memory_order_acquire,
						       memory_order_relaxed);
}

GATE_MAY_FAULT void shm_gate_leave(_Atomic uint32_t *gate)
{
	uint32_t expected = SHM_GATE_BUSY;

	/* Not a plain store: a peer that scribbled here meanwhile has taken it. */
	(void)atomic_compare_exchange_strong_explicit(gate, &expected, SHM_GATE_OPEN,
						      memory_order_release, memory_order_relaxed);
}

int shm_gates_create(struct shm_conn *c, uint32_t n)
{
	struct shm_frame frame = {
		.type = SHM_FRAME_GATES, .version = SHM_VERSION, .gates = n,
	};
	_cleanup_close_ int fd = -1;
	size_t bytes = gates_bytes(n);
	void *map;
	int r;

	if (n > SHM_MAX_GATES)
		return -EINVAL;
	fd = shm_memfd_create("larder-gates", 0);
	if (fd < 0)
		return fd;
	r = posix_fallocate(fd, 0, (off_t)bytes);
	if (r)
		return -r;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	r = shm_tx_fd(c, &frame, fd);
	if (r < 0) {
		(void)munmap(map, bytes);	/* ours, whole: can't fail */
		return r;
	}
	(void)TAKE_FD(fd);			/* the queue's now */
	c->gates = (struct shm_gates){ .map = map, .bytes = bytes, .n = n };
	return 0;
}

int shm_gates_import(struct shm_conn *c, struct shm_datagram *d)
{
	uint32_t n = d->frame.gates;
	uint64_t huge_page;
	const char *wrong;
	size_t bytes;
	void *map;

	if (c->gates.map) {
		shm_complain(c, "it sent gates twice");
		return -EPROTO;
	}
	if (!n || n > SHM_MAX_GATES) {
		shm_complain(c, "it wants %u gates, of at most %u", n, SHM_MAX_GATES);
		return -EPROTO;
	}
	bytes = gates_bytes(n);
	wrong = shm_memfd_check(d->fds[0], bytes, &huge_page);
	if (!wrong && huge_page)
		wrong = "is made of hugepages";
	if (wrong) {
		shm_complain(c, "its descriptor for gates %s", wrong);
		return -EPROTO;
	}
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, d->fds[0], 0);
	if (map == MAP_FAILED) {
		shm_complain(c, "its gates can't be mapped: %s", strerror(errno));
		return -EPROTO;
	}
	c->gates = (struct shm_gates){ .map = map, .bytes = bytes, .n = n };
	return 0;
}

void shm_gates_unmap(struct shm_conn *c)
{
	if (c->gates.map)
		(void)munmap(c->gates.map, c->gates.bytes);	/* ours, whole: can't fail */
	c->gates = (struct shm_gates){ 0 };
}

static int gate_take(struct shm_conn *c, uint32_t gate)
{
	uint32_t seen = SHM_GATE_OPEN;

	if (atomic_compare_exchange_strong_explicit(shm_gate_at(&c->gates, gate), &seen,
						    SHM_GATE_TAKEN, memory_order_acq_rel,
						    memory_order_acquire))
		return 0;
	if (seen == SHM_GATE_TAKEN || c->peer_gone)
		return 0;
	return -EBUSY;
}

/* The client ends the connection: what the node has not begun, it shall not begin. */
void shm_gates_take_all(struct shm_conn *c)
{
	for (uint32_t i = 0; i < c->gates.n; i++)
		(void)gate_take(c, i);	/* a busy one stays so; its owner asks by gate_take */
}

int shm_gate_arm(struct transport_conn *base, uint32_t gate)
{
	struct shm_conn *c = shm_conn_of(base);

	if (c->accepted)
		return -EOPNOTSUPP;
	if (c->phase >= SHM_ENDING)
		return -ENOTCONN;
	if (gate >= c->gates.n)
		return -ERANGE;
	/* Release: what the application put into the buffer is there for who enters. */
	atomic_store_explicit(shm_gate_at(&c->gates, gate), SHM_GATE_OPEN, memory_order_release);
	return 0;
}

int shm_gate_take(struct transport_conn *base, uint32_t gate)
{
	struct shm_conn *c = shm_conn_of(base);

	if (c->accepted)
		return -EOPNOTSUPP;
	if (gate >= c->gates.n)
		return -ERANGE;
	return gate_take(c, gate);
}
