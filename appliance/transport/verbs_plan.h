/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes of a verbs device's resources: what we want against what it has, and what of a long
 * transfer goes into one work request. No verbs call in it.
 */
#ifndef LARDER_TRANSPORT_VERBS_PLAN_H
#define LARDER_TRANSPORT_VERBS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define VERBS_SQ 64u		/* work requests of data per connection at the device */
#define VERBS_SQ_SPARE 4u	/* updates of credits, and the marker of the end */
#define VERBS_SGE_WANTED 30u
#define VERBS_INLINE_WANTED 220u
#define VERBS_READS_WANTED 16u	/* RDMA READs under way at a time */
#define VERBS_WINDOW_WANTED 64u
#define VERBS_SEND_BUFFERS 16u	/* messages of a connection that wait for their acknowledgement */

/* What a device says of itself. */
struct verbs_caps {
	uint32_t max_sge;
	uint32_t max_qp_wr;
	uint32_t max_cqe;
	uint32_t max_srq;
	uint32_t max_srq_wr;
	uint32_t max_reads_out;		/* max_qp_init_rd_atom */
	uint32_t max_reads_in;		/* max_qp_rd_atom */
	uint64_t max_mr_size;
};

struct verbs_plan {
	uint32_t conns;
	uint32_t receives;		/* of the shared queue */
	uint32_t send_buffers;
	uint32_t cqe;
	uint32_t sge;
	uint32_t reads_out;
	uint32_t reads_in;
	uint64_t mr_bytes;		/* of one memory region, at most; 0 = there is no memory */
	uint32_t mrs;
	uint64_t pinned_bytes;		/* all that will be pinned */
};

/* @max_conns 0: a client's, a few. NULL, or what is too small, as a sentence in @text. */
const char *verbs_plan_make(const struct verbs_caps *caps, uint32_t max_conns,
			    uint32_t max_message, uint64_t memory_bytes, struct verbs_plan *ret,
			    char *text, size_t size);
/* NULL, or a sentence in @text. @limit: RLIMIT_MEMLOCK, UINT64_MAX = none. */
const char *verbs_plan_memlock(uint64_t limit, bool privileged, uint64_t need, char *text,
			       size_t size);

/* Where a list of pieces is being cut up. */
struct verbs_cut {
	const struct iovec *iov;	/* a ring of @mask + 1 */
	uint32_t mask;
	uint32_t at;			/* piece */
	uint32_t end;
	size_t skip;			/* of it */
};

/* The next work request: at most @bytes in at most @max pieces, into @out. Number of pieces;
 * *@ret_bytes in sum. 0: nothing is left. */
uint32_t verbs_cut_next(struct verbs_cut *cut, size_t bytes, uint32_t max, struct iovec *out,
			size_t *ret_bytes);

#endif
