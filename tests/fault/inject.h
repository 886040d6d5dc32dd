/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The injector: counts the product's calls into the system and fails the Nth.
 *
 * Armed is a thread; only its calls are counted. One arming fails at most one call and its burst,
 * in one of the ways that calls.def lists for it: @way is an index there. It also keeps the books
 * that a leak shows in: allocations and mappings of the product.
 */
#ifndef FAULT_INJECT_H
#define FAULT_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAULT_SHORT 5000	/* beyond every errno */

enum fault_call {
#define FAULT_CALL(name, ...) FAULT_##name,
#include "calls.def"
#undef FAULT_CALL
	FAULT_CALLS
};

struct inject_report {
	uint64_t seen;			/* calls counted */
	bool reached;			/* there was an Nth */
	bool fired;			/* and it was made to fail; not every way fits each call */
	enum fault_call call;
	int error;			/* errno or FAULT_SHORT */
	unsigned ways;			/* that the call can fail in */
	void *site;			/* return address */
};

/* From here on the calling thread's @n-th call fails in its @way; 0 = only count. */
void inject_arm(uint64_t n, unsigned way);
/* So many further calls of the same name fail in the same way: what is short stays so a while. */
void inject_burst(unsigned further);
void inject_disarm(struct inject_report *ret);
/* Where reports are written at the moment they come true: memory that outlives this process. */
void inject_share(struct inject_report *at);
/* Was a call made to fail since the last arming? */
bool inject_fired(void);
/* And in a way that is no failure: a signal came, a socket has no room or fewer bytes just now. Who
 * made the call goes on, and nobody else learns of it. */
bool inject_harmless(void);

const char *inject_call_name(enum fault_call call);
const char *inject_error_name(int error);
/* For wraps.c: 0, or what the call is to fail with. */
int inject_next(enum fault_call call, void *site);
/* The way does not fit this very call after all. */
void inject_unfit(void);

/* --- books.c: what the product holds --- */
struct books {
	int64_t allocations;
	uint64_t mapped_bytes;
};
void books_get(struct books *ret);
void books_alloc(int64_t n);
void books_map(void *at, size_t length);
void books_unmap(void *at, size_t length);
/* Descriptors of this process. */
unsigned books_fds(void);

#endif
