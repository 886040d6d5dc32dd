/* SPDX-License-Identifier: Apache-2.0 */
/* Makes conversation-like traces of any length from a seed. */
#ifndef LARDERCTL_TRACE_GEN_H
#define LARDERCTL_TRACE_GEN_H

#include "ctl/trace.h"

#define TRACE_GEN_REQUESTS 12031u	/* as many as the public conversation trace has */

/* Adds @requests to the empty @t: equal seeds give equal traces on every machine. 0 or -ENOMEM. */
int trace_generate(size_t requests, uint64_t seed, struct trace *t);

#endif
