/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptor of a namespace: what its blocks are, so that an incompatible reader is refused.
 *
 * The struct is stored in the record file and sent on the wire as it stands (little endian, no
 * padding); texts are NUL-padded and need not be terminated when full. All zero is the empty
 * descriptor, which any non-empty one mismatches.
 *
 * Thread rules: pure functions, any thread.
 */
#ifndef LARDER_DESCRIPTOR_H
#define LARDER_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct larder_descriptor {
	char model[128];
	char revision[64];
	char weights_digest[72];	/* "sha256:..." */
	char adapter[64];
	char position[64];		/* position configuration: rope base, scaling, ... */
	char dtype[32];			/* dtype and quantization */
	char layout[64];
	char hash_scheme[40];
	uint64_t hash_seed;
	uint64_t bytes_per_block;	/* 0: any length */
	uint32_t tokens_per_block;
	uint32_t tp;			/* tensor-parallel degree */
	uint32_t pp;			/* pipeline-parallel degree */
	uint32_t flags;			/* LARDER_DESCRIPTOR_* */
};

#define LARDER_DESCRIPTOR_SHORT_LAST 0x1u	/* a shorter last block is allowed */

bool larder_descriptor_is_empty(const struct larder_descriptor *d);
/* XXH3-64 of the struct; seeds each object's key digest. 0 for NULL or the empty descriptor. */
uint64_t larder_descriptor_digest(const struct larder_descriptor *d);
/* Name of the first field that differs, or NULL when both are equal. Static string. */
const char *larder_descriptor_difference(const struct larder_descriptor *a,
					 const struct larder_descriptor *b);

#ifdef __cplusplus
}
#endif
#endif
