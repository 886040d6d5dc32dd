/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces of requests to an inference service: one JSON object a line, in order of arrival,
 *
 *	{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, ...]}
 *
 * timestamp: milliseconds since the start, never decreasing; lengths in tokens; hash_ids: one
 * number per block of the input, chained by prefix (equal numbers mean equal prefixes).
 */
#ifndef LARDERCTL_TRACE_H
#define LARDERCTL_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TRACE_BLOCKS_MAX 65536u		/* of one request */
#define TRACE_TOKENS_PER_BLOCK 512u	/* of the public traces and of trace-gen */
#define TRACE_ERROR 160			/* room for a sentence */

struct trace_request {
	uint64_t timestamp_ms;
	uint32_t input_length;
	uint32_t output_length;
	uint32_t n_blocks;
	size_t first;		/* its blocks are trace.blocks[first ... first + n_blocks) */
};

struct trace {
	struct trace_request *requests;
	size_t n_requests;
	uint64_t *blocks;
	size_t n_blocks;
	size_t requests_room;
	size_t blocks_room;
	uint32_t max_blocks;	/* of any one request */
};
#define TRACE_NULL ((struct trace){ 0 })

void trace_done(struct trace *t);
/* Adds a request with @n copied block ids. 0 or -ENOMEM. */
int trace_add(struct trace *t, uint64_t timestamp_ms, uint32_t input_length, uint32_t output_length,
	      const uint64_t *blocks, uint32_t n);
/*
 * Reads @f to its end, or until @max requests (0: all). 0; -EBADMSG: @error says which line and
 * what is wrong with it; -errno otherwise, @error says it too. An empty line is skipped. On
 * failure @t holds what was read until then.
 */
int trace_read(FILE *f, size_t max, struct trace *t, char error[TRACE_ERROR]);
/* Writes @t in the same form. 0 or -errno. */
int trace_write(FILE *f, const struct trace *t);
/*
 * The file that @name means: a path when it has a '/' or is there; else NAME, NAME.jsonl or
 * NAME_trace.jsonl in the folder of traces. Allocated; NULL with errno ENOENT or ENOMEM.
 */
char *trace_find(const char *name);
/* $LARDER_TRACES, else $XDG_DATA_HOME/larder/traces, else ~/.local/share/larder/traces. */
char *trace_folder(void);

#endif
