/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a message: sealed by the sender, believed by the receiver in two steps. First what
 * can be said before the body is there (so that nobody waits for a body that is too long), then
 * the CRC over both. The meaning of the fields is request.c's and reply.c's affair.
 *
 * Structs go out as they stand in memory, which is right on little-endian machines only.
 */
#include "wire/wire.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire is little-endian memory");

static uint32_t header_crc(const struct wire_header *h, const void *body)
{
	struct wire_header zeroed = *h;
	uint32_t crc;

	zeroed.crc = 0;
	crc = crc32c(0, &zeroed, sizeof(zeroed));
	return h->body_len ? crc32c(crc, body, h->body_len) : crc;
}

void wire_header_seal(struct wire_header *h, const void *body)
{
	h->magic = WIRE_MAGIC;
	h->version = WIRE_VERSION;
	h->crc = header_crc(h, body);
}

int wire_header_check(const struct wire_header *h, uint32_t max_message)
{
	if (h->magic != WIRE_MAGIC || h->version != WIRE_VERSION)
		return -EPROTO;
	if (max_message < WIRE_HEADER_SIZE || h->body_len > max_message - WIRE_HEADER_SIZE)
		return -EMSGSIZE;
	if (!wire_op_info(h->op))
		return -EOPNOTSUPP;
	return 0;
}

int wire_body_check(const struct wire_header *h, const void *body)
{
	return header_crc(h, body) == h->crc ? 0 : -EBADMSG;
}
