/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors: compared field by field in the order of the struct, so that a refusal can name what
 * differs. Comparison and digest both take the bytes as they stand, padding of texts too: what
 * digests differently must never pass as equal.
 */
#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include <larder/descriptor.h>

#include "base/compiler.h"

static_assert(sizeof(struct larder_descriptor) == 560, "format: no padding");

struct descriptor_field {
	const char *name;
	uint16_t offset;
	uint16_t size;
};

#define DESCRIPTOR_FIELD(f)                                                                        \
	{ #f, offsetof(struct larder_descriptor, f), sizeof(((struct larder_descriptor *)0)->f) }

static const struct descriptor_field descriptor_fields[] = {
	DESCRIPTOR_FIELD(model),
	DESCRIPTOR_FIELD(revision),
	DESCRIPTOR_FIELD(weights_digest),
	DESCRIPTOR_FIELD(adapter),
	DESCRIPTOR_FIELD(position),
	DESCRIPTOR_FIELD(dtype),
	DESCRIPTOR_FIELD(layout),
	DESCRIPTOR_FIELD(hash_scheme),
	DESCRIPTOR_FIELD(hash_seed),
	DESCRIPTOR_FIELD(bytes_per_block),
	DESCRIPTOR_FIELD(tokens_per_block),
	DESCRIPTOR_FIELD(tp),
	DESCRIPTOR_FIELD(pp),
	DESCRIPTOR_FIELD(flags),
};

LARDER_PUBLIC bool larder_descriptor_is_empty(const struct larder_descriptor *d)
{
	static const struct larder_descriptor empty;

	return memcmp(d, &empty, sizeof(empty)) == 0;
}

LARDER_PUBLIC uint64_t larder_descriptor_digest(const struct larder_descriptor *d)
{
	if (!d || larder_descriptor_is_empty(d))
		return 0;
	return XXH3_64bits(d, sizeof(*d));
}

LARDER_PUBLIC const char *larder_descriptor_difference(const struct larder_descriptor *a,
						       const struct larder_descriptor *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(descriptor_fields); i++) {
		const struct descriptor_field *f = &descriptor_fields[i];

		if (memcmp((const char *)a + f->offset, (const char *)b + f->offset, f->size))
			return f->name;
	}
	return NULL;
}
