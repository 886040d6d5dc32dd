/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs_plan.h"

#include <stdio.h>

#include "base/compiler.h"
#include "transport/verbs_credits.h"

#define PLAN_CLIENT_CONNS 4u
#define PLAN_RECEIVES_MAX 4096u
#define PLAN_BUFFERS_MAX 1024u
#define PLAN_MR_BYTES (16ull << 30)	/* few large regions; each is made by a thread of its own */
#define PLAN_READS_MAX 128u

static const char *plan_short(char *text, size_t size, const char *what, uint64_t has,
			      uint64_t needs)
{
	(void)snprintf(text, size, "the device's %s is %llu, and %llu are needed", what,
		       (unsigned long long)has, (unsigned long long)needs);
	return text;
}

static void plan_memory(const struct verbs_caps *caps, uint64_t bytes, struct verbs_plan *p)
{
	p->mr_bytes = 0;
	p->mrs = 0;
	if (!bytes)
		return;
	p->mr_bytes = MIN(PLAN_MR_BYTES, ALIGN_DOWN(caps->max_mr_size, (uint64_t)1 << 21));
	if (p->mr_bytes)
		p->mrs = (uint32_t)((bytes + p->mr_bytes - 1) / p->mr_bytes);
}

const char *verbs_plan_make(const struct verbs_caps *caps, uint32_t max_conns,
			    uint32_t max_message, uint64_t memory_bytes, struct verbs_plan *p,
			    char *text, size_t size)
{
	const uint32_t each = VERBS_WINDOW_WANTED + VERBS_UPDATES;
	const uint32_t least = VERBS_WINDOW_MIN + VERBS_UPDATES;
	const uint32_t sq = VERBS_SQ + VERBS_SQ_SPARE;
	uint32_t receives;

	p->conns = max_conns ? max_conns : PLAN_CLIENT_CONNS;
	if (!caps->max_srq)
		return plan_short(text, size, "limit of shared receive queues", 0, 1);
	if (caps->max_qp_wr < sq)
		return plan_short(text, size, "limit of work requests per queue pair",
				  caps->max_qp_wr, sq);
	if (caps->max_sge < 2)
		return plan_short(text, size, "limit of pieces per work request", caps->max_sge, 2);
	receives = (uint32_t)MIN((uint64_t)p->conns * each, (uint64_t)PLAN_RECEIVES_MAX);
	receives = MIN(receives, caps->max_srq_wr);
	if (receives / least < 1)
		return plan_short(text, size, "limit of receives", caps->max_srq_wr, least);
	p->receives = receives;
	p->conns = MIN(p->conns, receives / least);
	/* what does not fit into the completion queue can not be connected */
	if (caps->max_cqe < receives + sq)
		return plan_short(text, size, "limit of completion queue entries", caps->max_cqe,
				  receives + sq);
	p->conns = MIN(p->conns, (caps->max_cqe - receives) / sq);
	p->cqe = receives + p->conns * sq;
	p->send_buffers = MIN(p->conns * VERBS_SEND_BUFFERS, PLAN_BUFFERS_MAX);
	p->sge = MIN(caps->max_sge, VERBS_SGE_WANTED);
	p->reads_out = MIN(caps->max_reads_out, PLAN_READS_MAX);
	p->reads_in = MIN(caps->max_reads_in, VERBS_READS_WANTED);
	plan_memory(caps, memory_bytes, p);
	if (memory_bytes && !p->mr_bytes)
		return plan_short(text, size, "limit of a memory region, in bytes",
				  caps->max_mr_size, 1u << 21);
	p->pinned_bytes = memory_bytes +
			  (uint64_t)(p->receives + p->send_buffers) * max_message;
	return NULL;
}

const char *verbs_plan_memlock(uint64_t limit, bool privileged, uint64_t need, char *text,
			       size_t size)
{
	if (privileged || limit >= need)
		return NULL;
	(void)snprintf(text, size,
		       "RLIMIT_MEMLOCK is %llu KiB and %llu KiB must be pinned: raise it "
		       "(ulimit -l, LimitMEMLOCK=) or give CAP_IPC_LOCK",
		       (unsigned long long)(limit >> 10),
		       (unsigned long long)((need + 1023) >> 10));
	return text;
}

uint32_t verbs_cut_next(struct verbs_cut *cut, size_t bytes, uint32_t max, struct iovec *out,
			size_t *ret_bytes)
{
	uint32_t n = 0;

	*ret_bytes = 0;
	while (n < max && bytes && cut->at != cut->end) {
		const struct iovec *v = &cut->iov[cut->at & cut->mask];
		size_t len = MIN(v->iov_len - cut->skip, bytes);

		if (len)
			out[n++] = (struct iovec){ (char *)v->iov_base + cut->skip, len };
		*ret_bytes += len;
		bytes -= len;
		cut->skip += len;
		if (cut->skip == v->iov_len) {
			cut->at++;
			cut->skip = 0;
		}
	}
	return n;
}
