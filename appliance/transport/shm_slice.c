/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice: at most 256 KiB copied between our pages and the peer's region, inside its gate, under
 * guard.
 *
 * The guard. A region can not shrink (its seal), but its owner can punch holes into it, and a hole
 * in a hugetlb memfd is a SIGBUS when the pool has no page for it. So is a page with a memory
 * error, and a gate word that was punched away. Such a fault must end one connection and nothing
 * else. While a slice runs, a thread-local pointer names a jump buffer and the two address ranges
 * that belong to the peer (its gate word, its part of the region). The handler jumps back when a
 * synchronous SIGBUS of this thread lies in one of them. Any other SIGBUS is not ours: it goes to
 * whatever handler was there before, or takes the default action. A fault in our own pages (an
 * arena with a bad page, say) still kills the daemon, as it must.
 *
 * Jumping out of a synchronous signal is sound here: between the two points nothing is held, no
 * lock, no allocation, and memcpy keeps no state. The handler puts the signal mask back as it was
 * before it jumps, so that sigsetjmp need not save it (a system call per slice).
 *
 * The handler is installed when a transport starts to listen, never on the client's side: an
 * application's signals are its own, and the client copies no peer's memory.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "transport/shm.h"

/* Below this a slice is likely to stay in the cache; see shm_stream.c. */
#define SLICE_STREAM_MIN (64u * 1024u)

struct guard_range {
	uintptr_t from;
	uintptr_t to;
};

struct guard {
	sigjmp_buf back;
	struct guard_range gate;
	struct guard_range peer;
};

/* initial-exec: a handler must not end up in the allocator of dynamic TLS. */
static _Thread_local struct guard *volatile guard_now __attribute__((tls_model("initial-exec")));

static struct sigaction guard_previous;
static pthread_once_t guard_once = PTHREAD_ONCE_INIT;
static int guard_error;

static bool guard_covers(const struct guard_range *r, uintptr_t at)
{
	return at >= r->from && at < r->to;
}

/* A fault of this thread's own instruction, not a kill(2) or an early memory-error hint. */
static bool guard_is_fault(const siginfo_t *info)
{
	return info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR ||
	       info->si_code == BUS_MCEERR_AR;
}

static void guard_pass_on(int sig, siginfo_t *info, void *context)
{
	struct sigaction fallback = { .sa_handler = SIG_DFL };

	if (guard_previous.sa_flags & SA_SIGINFO) {
		guard_previous.sa_sigaction(sig, info, context);
		return;
	}
	if (guard_previous.sa_handler != SIG_DFL && guard_previous.sa_handler != SIG_IGN) {
		guard_previous.sa_handler(sig);
		return;
	}
	if (guard_previous.sa_handler == SIG_IGN && !guard_is_fault(info))
		return;
	/* The instruction runs again and dies of it, with the core where it belongs. */
	(void)sigaction(sig, &fallback, NULL);	/* can't fail for these arguments */
	if (!guard_is_fault(info))
		(void)raise(sig);		/* sent, not caused: send it again */
}

static void guard_handler(int sig, siginfo_t *info, void *context)
{
	struct guard *g = guard_now;
	uintptr_t at = (uintptr_t)info->si_addr;
	int saved = errno;

	if (g && guard_is_fault(info) &&
	    (guard_covers(&g->gate, at) || guard_covers(&g->peer, at))) {
		guard_now = NULL;
		/* Of the interrupted code; fails only for a wrong first argument. */
		(void)pthread_sigmask(SIG_SETMASK, &((ucontext_t *)context)->uc_sigmask, NULL);
		siglongjmp(g->back, 1);
	}
	guard_pass_on(sig, info, context);
	errno = saved;
}

static void guard_install_once(void)
{
	struct sigaction action = {
		.sa_sigaction = guard_handler,
		.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART,
	};

	(void)sigemptyset(&action.sa_mask);	/* can't fail */
	/* First ask, then set: guard_previous must be there when the handler is. */
	if (sigaction(SIGBUS, NULL, &guard_previous) < 0 || sigaction(SIGBUS, &action, NULL) < 0)
		guard_error = -errno;
}

int shm_guard_install(void)
{
	int r = pthread_once(&guard_once, guard_install_once);

	return r ? -r : guard_error;
}

static void guard_init(struct guard *g, const struct shm_slice *s)
{
	g->gate.from = (uintptr_t)s->gate;
	g->gate.to = s->gate ? g->gate.from + sizeof(*s->gate) : 0;
	g->peer.from = (uintptr_t)s->peer;
	g->peer.to = g->peer.from + s->length;
}

static void slice_move(const struct shm_slice *s)
{
	bool stream = s->length >= SLICE_STREAM_MIN;
	uint8_t *peer = s->peer;

	for (uint32_t i = 0; i < s->niov; i++) {
		void *dst = s->to_peer ? (void *)peer : s->iov[i].iov_base;
		const void *src = s->to_peer ? s->iov[i].iov_base : (const void *)peer;

		if (stream)
			shm_stream_copy(dst, src, s->iov[i].iov_len);
		else
			memcpy(dst, src, s->iov[i].iov_len);
		peer += s->iov[i].iov_len;
	}
	/* Before anybody is told: not only the gate, the done-event may hand the bytes to another
	 * thread. */
	if (stream)
		shm_stream_fence();
}

static int slice_run(const struct shm_slice *s)
{
	if (s->gate && !shm_gate_enter(s->gate))
		return -ECANCELED;
	slice_move(s);
	if (s->gate)
		shm_gate_leave(s->gate);
	return 0;
}

static int slice_leave(const struct shm_slice *s)
{
	shm_stream_fence();
	shm_gate_leave(s->gate);
	return 0;
}

/* Apart from its caller, so that no variable of this frame changes after sigsetjmp. */
static __attribute__((noinline)) int guard_call(int (*fn)(const struct shm_slice *s),
						const struct shm_slice *s)
{
	struct guard g;
	int r;

	guard_init(&g, s);
	if (sigsetjmp(g.back, 0))
		return -EFAULT;
	guard_now = &g;
	atomic_signal_fence(memory_order_seq_cst);
	r = fn(s);
	atomic_signal_fence(memory_order_seq_cst);
	guard_now = NULL;
	return r;
}

int shm_slice_copy(struct shm_slice *s)
{
	int r = guard_call(slice_run, s);

	/* The node is out of the buffer, and an honest client whose memory failed wants to know.
	 * If the gate is what failed, this faults again, which is as good. */
	if (r == -EFAULT && s->gate)
		(void)guard_call(slice_leave, s);
	return r;
}
