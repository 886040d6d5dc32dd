/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the probes of a 4 KiB GET cost while nobody listens: nanoseconds a GET, median of rounds.
 * The same macros in the same number, with nothing kept in a register from one to the next, as in
 * the node, where other functions lie between them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <larder/probes.h>

#define ROUNDS 15u
#define GETS 2000000u

/* As between two functions of the node: everything in memory is read again. */
#define ELSEWHERE __asm__ volatile("" ::: "memory")

struct request {
	uint64_t holder, start_ns, moved, began;
	uint32_t slot;
	uint16_t index;
	uint8_t opcode, status;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);	/* it exists on every kernel */
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline void phase(struct request *r, unsigned to)
{
	larder_probe4(op_phase, r->holder << 16 | r->index, r->slot, r->opcode, to);
	ELSEWHERE;
}

static inline void get(struct request *r, uint64_t ns)
{
	r->moved = 0;
	r->began++;
	larder_probe5(op_start, r->holder << 16 | r->index, r->slot, r->opcode, r->holder,
		      r->start_ns);
	ELSEWHERE;
	phase(r, LARDER_PHASE_ADMITTED);
	phase(r, LARDER_PHASE_DATA);
	phase(r, LARDER_PHASE_REPLY);
	r->moved += 4096;
	larder_probe6(op_done, r->holder << 16 | r->index, r->slot, r->opcode, r->status,
		      r->moved, ns);
	ELSEWHERE;
}

static double get_ns(struct request *r)
{
	uint64_t start = now_ns();

	for (unsigned i = 0; i < GETS; i++)
		get(r, i);
	return (double)(now_ns() - start) / GETS;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	static struct request r = { .holder = 3, .slot = 1, .opcode = 0x28 };
	double all[ROUNDS];

	for (unsigned i = 0; i < ROUNDS; i++)
		all[i] = get_ns(&r);
	qsort(all, ROUNDS, sizeof(all[0]), by_size);
	printf("{\"idle_ns\": %.2f}\n", all[ROUNDS / 2]);
	return 0;
}
