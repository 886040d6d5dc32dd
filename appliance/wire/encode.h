/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that have several variable parts, written in one call: the order of the parts and the
 * payload's length are known here and nowhere else. Pure, as wire.h.
 *
 * Each is called after wire_begin and returns as wire_finish; -EMSGSIZE also where an inline value
 * is longer than a payload can be or there are too many segments.
 */
#ifndef LARDER_WIRE_ENCODE_H
#define LARDER_WIRE_ENCODE_H

#include "wire/wire.h"

/* PUT and PUT_BEGIN; the counts are those in @put. Without segments a PUT's payload is inline. */
int wire_put_encode(struct wire_writer *w, uint8_t op, uint16_t flags, uint64_t request_id,
		    const struct wire_put *put, const struct wire_seg *segs,
		    const uint32_t *checks, const void *key);
int wire_put_part_encode(struct wire_writer *w, uint64_t request_id,
			 const struct wire_put_part *part, const struct wire_seg *segs);
int wire_get_encode(struct wire_writer *w, uint16_t flags, uint64_t request_id,
		    const struct wire_get *get, const struct wire_seg *segs, const void *key);
/* Overwrites body bytes that were appended before: a count that is known at the end. */
void wire_patch(struct wire_writer *w, uint32_t at, const void *data, uint32_t len);

#endif
