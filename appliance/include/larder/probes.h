/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes: where a tracer may look into larderd and liblarder.so.
 *
 * They are USDT probes (ELF notes, provider "larder") and an interface: a name, the number of its
 * arguments and their meaning stay; a new argument is added at the end, six at most. Every argument
 * is a plain unsigned integer of 64 bits in a register or a constant, nothing that a tracer would
 * have to follow. One that carries what a client chose is marked [user data]: no key and no byte of
 * a value is ever among them.
 *
 * Nobody listens: a probe is a load and a branch; its arguments are not even computed (each has a
 * semaphore that the kernel raises while someone is attached). Someone listens: a trap, 0.8 us and
 * more a hit (README, "Look at it"), in the reactor's own thread.
 *
 * Words: `op` names a request while it is under way (its connection's number << 16 and its place
 * there). `tenant` is a slot of the ledger (<larder/ledger.h>, section names); LARDER_PROBE_NOBODY:
 * none. `conn` numbers the connections of a node from 1 on. Times are of CLOCK_MONOTONIC.
 *
 * larderd:
 *
 * op_start(op, tenant, opcode, conn, queued_ns)
 *	A request's message has arrived; queued_ns: when its header was read.
 * op_phase(op, tenant, opcode, phase)
 *	It comes to a phase: enum larder_probe_phase, those between op_start and op_done.
 * op_done(op, tenant, opcode, status, bytes, ns)
 *	It is over: bytes of payload that moved for it; ns from its header to its last byte.
 *	status: enum larder_status, or LARDER_PROBE_LOST when its connection went first (the ledger
 *	counts its bytes then and nothing else). Each op_start has its op_done. A request whose
 *	connection went before its message was there has neither, and moved nothing.
 * reject(tenant, limit, count)
 *	Refused for a limit (enum larder_limit): requests, or keys for leases, as `refused` of the
 *	ledger. What was refused for another reason is told by the status of op_done.
 * evict(tenant, for_tenant, bytes, age_ns, reason)
 *	An object goes (reason: enum larder_probe_evict); bytes: of its value; age_ns since its last
 *	touch; for_tenant: who needed the room.
 * lease(tenant, event, id, left_ns, bytes)
 *	event: enum larder_probe_lease; id: as the client chose it [user data]; left_ns to its
 *	deadline (0: over); bytes: of the value, 0 when the object went before the lease.
 * conn_up(conn, transport)
 *	A connection stands, nobody knows yet whose; transport: enum larder_probe_transport.
 * conn_open(conn, tenant, transport, cookie)
 *	It has proven whose it is; cookie: SO_COOKIE of its TCP socket, as the kernel's programs
 *	know it; 0 elsewhere.
 * conn_down(conn, tenant, ns, requests)
 *	It is over and gave everything back; ns: how long it stood; requests: how many it began.
 * region_add(conn, tenant, region, bytes)
 * region_del(conn, tenant, region, bytes)
 *	Memory of the client comes and goes; region: its number [user data].
 * page_alloc_fail(pages, free)
 *	So many pages were wanted and could not be had; free: how many were left.
 *
 * liblarder.so, in the process that uses it:
 *
 * client_op_start(job, opcode, items, deadline_ns)
 *	A call of the library begins; job names it until its end; items: keys of a batch, else 1.
 * client_op_done(job, opcode, items, status, ns)
 *	status: the first that is neither OK nor EXISTS_SAME, else OK.
 * client_conn_up(conn, transport)
 * client_conn_down(conn, transport, error)
 *	A session begins and ends; conn: number among the handle's; error: errno, 0 = orderly.
 * client_region_add(region, bytes)
 * client_region_del(region, bytes)
 *	The node has learned of a region, and is to forget it.
 *
 * Built without <sys/sdt.h> there are none, and everything else is the same.
 *
 * This header is for the product's own code and for the kernel side of its tools; a program that
 * links liblarder has no use for it.
 */
#ifndef LARDER_PROBES_H
#define LARDER_PROBES_H

/* X(name, number of arguments) */
#define LARDER_PROBE_TABLE(X)                                                                      \
	X(op_start, 5)                                                                             \
	X(op_phase, 4)                                                                             \
	X(op_done, 6)                                                                              \
	X(reject, 3)                                                                               \
	X(evict, 5)                                                                                \
	X(lease, 5)                                                                                \
	X(conn_up, 2)                                                                              \
	X(conn_open, 4)                                                                            \
	X(conn_down, 4)                                                                            \
	X(region_add, 4)                                                                           \
	X(region_del, 4)                                                                           \
	X(page_alloc_fail, 2)                                                                      \
	X(client_op_start, 4)                                                                      \
	X(client_op_done, 5)                                                                       \
	X(client_conn_up, 2)                                                                       \
	X(client_conn_down, 3)                                                                     \
	X(client_region_add, 2)                                                                    \
	X(client_region_del, 2)

#define LARDER_PROBE_NOBODY 0xffffffffu
#define LARDER_PROBE_LOST 255u		/* status of a request whose connection went */

enum larder_probe_phase {
	LARDER_PHASE_QUEUED,	/* op_start: arrived; limits are asked next */
	LARDER_PHASE_ADMITTED,	/* within the limits: the engine looks at it next */
	LARDER_PHASE_DATA,	/* the object is there, or its pages: payload may move */
	LARDER_PHASE_REPLY,	/* decided: the reply, and an inline GET's payload, goes out */
	LARDER_PHASE_COMPLETED,	/* op_done */
	LARDER_PHASES
};

enum larder_probe_evict { LARDER_EVICT_ROOM, LARDER_EVICT_EXPIRED };

enum larder_probe_lease {
	LARDER_LEASE_GRANTED, LARDER_LEASE_EXTENDED,
	LARDER_LEASE_ENDED	/* released, or its time ran out */
};

enum larder_probe_transport {
	LARDER_TRANSPORT_OTHER, LARDER_TRANSPORT_TCP, LARDER_TRANSPORT_SHM, LARDER_TRANSPORT_RDMA
};

#ifndef __bpf__

#include <stdbool.h>
#include <stdint.h>

#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#define LARDER_HAVE_PROBES 1
#endif
#endif

#ifdef LARDER_HAVE_PROBES

#ifdef __cplusplus
extern "C" {
#endif
/* Raised by the kernel, behind the compiler's back. Defined once, in base/probes.c. */
#define LARDER_PROBE_SEMAPHORE(name, n)                                                            \
	extern volatile unsigned short larder_##name##_semaphore                                   \
		__attribute__((visibility("hidden"), section(".probes")));
LARDER_PROBE_TABLE(LARDER_PROBE_SEMAPHORE)
#undef LARDER_PROBE_SEMAPHORE
#ifdef __cplusplus
}
#endif

#define _SDT_HAS_SEMAPHORES 1
#define STAP_SDT_ARG_CONSTRAINT nr	/* a constant or a register, never memory */
#include <sys/sdt.h>

/* Does anyone listen? For arguments that are dear to get. */
#define larder_probe_enabled(name) __builtin_expect(larder_##name##_semaphore != 0, 0)

#define LARDER_PROBE_ON(name, call)                                                                \
	do {                                                                                       \
		if (larder_probe_enabled(name))                                                    \
			call;                                                                      \
	} while (0)
#define LARDER_U(x) ((uint64_t)(x))
#define larder_probe2(name, a, b)                                                                  \
	LARDER_PROBE_ON(name, STAP_PROBE2(larder, name, LARDER_U(a), LARDER_U(b)))
#define larder_probe3(name, a, b, c)                                                               \
	LARDER_PROBE_ON(name, STAP_PROBE3(larder, name, LARDER_U(a), LARDER_U(b), LARDER_U(c)))
#define larder_probe4(name, a, b, c, d)                                                            \
	LARDER_PROBE_ON(name, STAP_PROBE4(larder, name, LARDER_U(a), LARDER_U(b), LARDER_U(c),     \
					  LARDER_U(d)))
#define larder_probe5(name, a, b, c, d, e)                                                         \
	LARDER_PROBE_ON(name, STAP_PROBE5(larder, name, LARDER_U(a), LARDER_U(b), LARDER_U(c),     \
					  LARDER_U(d), LARDER_U(e)))
#define larder_probe6(name, a, b, c, d, e, f)                                                      \
	LARDER_PROBE_ON(name, STAP_PROBE6(larder, name, LARDER_U(a), LARDER_U(b), LARDER_U(c),     \
					  LARDER_U(d), LARDER_U(e), LARDER_U(f)))

#else /* !LARDER_HAVE_PROBES: the same names, nothing behind them */

#define larder_probe_enabled(name) false
#define larder_probe2(name, a, b) ((void)sizeof(a), (void)sizeof(b))
#define larder_probe3(name, a, b, c) (larder_probe2(name, a, b), (void)sizeof(c))
#define larder_probe4(name, a, b, c, d) (larder_probe3(name, a, b, c), (void)sizeof(d))
#define larder_probe5(name, a, b, c, d, e) (larder_probe4(name, a, b, c, d), (void)sizeof(e))
#define larder_probe6(name, a, b, c, d, e, f) (larder_probe5(name, a, b, c, d, e), (void)sizeof(f))

#endif
#endif /* __bpf__ */
#endif
