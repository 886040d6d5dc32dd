/* SPDX-License-Identifier: Apache-2.0 */
/* See inject.h. */
#include "inject.h"

#include <errno.h>
#include <string.h>

#include "base/compiler.h"

struct inject_entry {
	const char *name;
	unsigned ways;
	int error[8];
};

#define INJECT_COUNT(...) (sizeof((int[]){ __VA_ARGS__ }) / sizeof(int))
static const struct inject_entry inject_table[FAULT_CALLS] = {
#define FAULT_CALL(call, ...)                                                                      \
	[FAULT_##call] = { .name = #call, .ways = INJECT_COUNT(__VA_ARGS__),                       \
			   .error = { __VA_ARGS__ } },
#include "calls.def"
#undef FAULT_CALL
};

static struct {
	uint64_t n;
	unsigned way;
	uint64_t seen;			/* atomic */
	unsigned left;			/* of the burst */
} inject;
static struct inject_report inject_own, *inject_report = &inject_own;
static unsigned inject_burst_length;
static __thread bool inject_thread;

static void inject_start(uint64_t n, unsigned way)
{
	memset(&inject, 0, sizeof(inject));
	memset(inject_report, 0, sizeof(*inject_report));
	inject.n = n;
	inject.way = way;
	inject.left = inject_burst_length;
}

void inject_arm(uint64_t n, unsigned way)
{
	inject_start(n, way);
	inject_thread = true;
}

void inject_burst(unsigned further)
{
	inject_burst_length = further;
}

void inject_disarm(struct inject_report *ret)
{
	inject_thread = false;
	inject_report->seen = inject.seen;
	*ret = *inject_report;
}

void inject_share(struct inject_report *at)
{
	inject_report = at;
}

bool inject_fired(void)
{
	return inject_report->fired;
}

const char *inject_call_name(enum fault_call call)
{
	return inject_table[call].name;
}

const char *inject_error_name(int error)
{
	return error == FAULT_SHORT ? "SHORT" : strerrorname_np(error);
}

bool inject_harmless(void)
{
	const struct inject_report *r = inject_report;

	switch (r->call) {
	case FAULT_pthread_create:	/* too many threads */
	case FAULT_flock:		/* somebody else's */
	case FAULT_pread:		/* a file that was cut */
		return false;
	default:
		break;
	}
	return r->fired && (r->error == EINTR || r->error == EAGAIN || r->error == FAULT_SHORT);
}

int inject_next(enum fault_call call, void *site)
{
	const struct inject_entry *e = &inject_table[call];
	struct inject_report *r = inject_report;

	if (!inject_thread)
		return 0;
	if (__atomic_add_fetch(&inject.seen, 1, __ATOMIC_RELAXED) != inject.n) {
		if (!r->fired || call != r->call || !inject.left)
			return 0;
		inject.left--;
		return r->error;
	}
	r->reached = true;
	r->call = call;
	r->site = site;
	r->ways = e->ways;
	if (inject.way >= e->ways)
		return 0;
	r->fired = true;
	r->error = e->error[inject.way];
	return r->error;
}

void inject_unfit(void)
{
	if (inject.left == inject_burst_length)
		inject_report->fired = false;
}
