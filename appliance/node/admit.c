/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits as reactors ask for them, before anything is reserved: rates and what is in flight by
 * class. Over one, the answer is THROTTLED with the time to wait, at once: nothing queues here.
 *
 * What lets go of things (RELEASE, UNPIN, COMMIT, ABORT, REGION_DEL, CANCEL) and PING is never
 * refused, or a tenant over its rate could not get below its other limits. Payload is paid for when
 * its length is known: a PUT's with its header once it is let in here, whether the engine takes it
 * or not, because an inline payload comes all the same; a GET's when its object was found. What is
 * refused here is not paid for. So a request is let in while nothing is owed, and a value larger
 * than the burst overdraws the bucket once.
 */
#include <larder/probes.h>

#include "base/compiler.h"
#include "node/node.h"
#include "node/session.h"

#define ADMIT_WAIT_MAX_MS 1000u
/* How long one of the requests that are in flight may take yet; a guess, nobody knows. */
#define ADMIT_LOOKUP_MS 1u
#define ADMIT_VALUE_MS 3u

bool node_quota_claim(struct quota *q, enum larder_limit limit, uint64_t n)
{
	uint64_t most = quota_limit(q, limit), used = __atomic_load_n(&q->used[limit],
								     __ATOMIC_RELAXED);

	if (most == 0)
		most = UINT64_MAX;
	do {
		if (used > most || n > most - used)
			return false;
	} while (!__atomic_compare_exchange_n(&q->used[limit], &used, used + n, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

void node_quota_give(struct quota *q, enum larder_limit limit, uint64_t n)
{
	(void)__atomic_fetch_sub(&q->used[limit], n, __ATOMIC_RELAXED);
}

enum larder_limit node_admit_class(uint8_t opcode)
{
	switch (opcode) {
	case LARDER_OP_GET:
		return LARDER_LIMIT_in_flight_fetch;
	case LARDER_OP_PUT:
	case LARDER_OP_PUT_BEGIN:
	case LARDER_OP_PUT_PART:
	case LARDER_OP_PUT_COMMIT:
		return LARDER_LIMIT_in_flight_write;
	case LARDER_OP_EXISTS:
	case LARDER_OP_LEASE:
	case LARDER_OP_STAT:
	case LARDER_OP_LIST:
		return LARDER_LIMIT_in_flight_lookup;
	default:
		return LARDER_LIMIT_NONE;
	}
}

static bool admit_lets_go(uint8_t opcode)
{
	switch (opcode) {
	case LARDER_OP_PING:
	case LARDER_OP_CANCEL:
	case LARDER_OP_RELEASE:
	case LARDER_OP_UNPIN:
	case LARDER_OP_PUT_COMMIT:
	case LARDER_OP_PUT_ABORT:
	case LARDER_OP_REGION_DEL:
		return true;
	default:
		return false;
	}
}

void node_admit_refused(struct session *s, enum larder_limit limit)
{
	struct larder_usage *u = ledger_usage(session_node(s)->ledger, s->reactor->index, s->slot);

	ledger_count(&u->refused[limit], 1);
	larder_probe3(reject, s->slot, limit, 1);
}

static bool admit_refuse(struct request *r, enum larder_limit limit, uint64_t wait_ns)
{
	uint64_t ms = (wait_ns + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;

	ms = MAX(MIN(ms, (uint64_t)ADMIT_WAIT_MAX_MS), (uint64_t)1);
	node_admit_refused(r->session, limit);
	node_reply_error(r, LARDER_THROTTLED, ms,
			 "over the limit %s of %s, which is %llu: try again in %llu ms",
			 larder_limit_name(limit),
			 r->session->viewer ? "all viewers" : "the tenant",
			 (unsigned long long)quota_limit(r->session->quota, limit),
			 (unsigned long long)ms);
	return false;
}

/* What it asks for is in flight from now on, whatever the limit says. */
static void admit_count(struct request *r, enum larder_limit class)
{
	(void)__atomic_fetch_add(&r->session->quota->used[class], 1, __ATOMIC_RELAXED);
	r->claimed = (uint8_t)class;
}

bool node_admit(struct request *r)
{
	struct quota *q = r->session->quota;
	enum larder_limit class = node_admit_class(r->opcode);
	uint64_t payload = r->inbound, now = r->start_ns, wait;

	if (admit_lets_go(r->opcode)) {
		if (class != LARDER_LIMIT_NONE)
			admit_count(r, class);
		return true;
	}
	wait = r->opcode == LARDER_OP_GET ? bucket_ask(&q->out_bytes, now) : 0;
	if (unlikely(wait > 0))
		return admit_refuse(r, LARDER_LIMIT_out_bytes_per_s, wait);
	wait = payload > 0 ? bucket_ask(&q->in_bytes, now) : 0;
	if (unlikely(wait > 0))
		return admit_refuse(r, LARDER_LIMIT_in_bytes_per_s, wait);
	if (class != LARDER_LIMIT_NONE) {
		if (unlikely(!node_quota_claim(q, class, 1)))
			return admit_refuse(r, class, NSEC_PER_MSEC *
					    (class == LARDER_LIMIT_in_flight_lookup ?
					     ADMIT_LOOKUP_MS : ADMIT_VALUE_MS));
		r->claimed = (uint8_t)class;
	}
	wait = bucket_take(&q->ops, now, 1);
	if (unlikely(wait > 0))
		return admit_refuse(r, LARDER_LIMIT_ops_per_s, wait);
	if (payload > 0)
		bucket_charge(&q->in_bytes, now, payload);
	return true;
}

void node_admit_read(struct request *r, uint64_t bytes)
{
	bucket_charge(&r->session->quota->out_bytes, r->start_ns, bytes);
}

void node_admit_over(struct request *r)
{
	if (r->claimed != LARDER_LIMIT_NONE)
		node_quota_give(r->session->quota, r->claimed, 1);
	r->claimed = LARDER_LIMIT_NONE;
}
