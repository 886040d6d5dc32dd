/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as they are written, by client and node alike: append parts, then finish. What does not
 * fit is remembered and told once, by wire_finish, so that callers check one return value.
 *
 * Room for the header is kept at the front from the start. The buffer needs no alignment.
 */
#include "wire/encode.h"

#include <errno.h>
#include <string.h>

#include <larder/status.h>

void wire_begin(struct wire_writer *w, void *buffer, uint32_t size)
{
	*w = (struct wire_writer){
		.buffer = buffer,
		.size = size,
		.used = WIRE_HEADER_SIZE,
		.overflow = size < WIRE_HEADER_SIZE,
	};
}

uint32_t wire_room(const struct wire_writer *w)
{
	return w->overflow ? 0 : w->size - w->used;
}

void wire_append(struct wire_writer *w, const void *data, uint32_t len)
{
	if (len == 0)
		return;
	if (len > wire_room(w)) {
		w->overflow = true;
		return;
	}
	memcpy(w->buffer + w->used, data, len);
	w->used += len;
}

void wire_append_key(struct wire_writer *w, const void *key, uint16_t len)
{
	/* both or neither: half a key would still be a message */
	if (sizeof(len) + len > wire_room(w)) {
		w->overflow = true;
		return;
	}
	wire_append(w, &len, sizeof(len));
	wire_append(w, key, len);
}

void wire_patch(struct wire_writer *w, uint32_t at, const void *data, uint32_t len)
{
	uint32_t body_len = w->overflow ? 0 : w->used - WIRE_HEADER_SIZE;

	if (at > body_len || len > body_len - at) {
		w->overflow = true;
		return;
	}
	memcpy(w->buffer + WIRE_HEADER_SIZE + at, data, len);
}

int wire_finish(struct wire_writer *w, uint8_t op, uint16_t flags, uint16_t status,
		uint64_t request_id, uint32_t payload_len)
{
	struct wire_header h = {
		.op = op,
		.flags = flags,
		.request_id = request_id,
		.status = status,
		.payload_len = payload_len,
	};

	if (w->overflow)
		return -EMSGSIZE;
	h.body_len = w->used - WIRE_HEADER_SIZE;
	wire_header_seal(&h, w->buffer + WIRE_HEADER_SIZE);
	memcpy(w->buffer, &h, sizeof(h));
	return (int)w->used;
}

int wire_write_error(struct wire_writer *w, uint8_t op, uint16_t status, uint64_t request_id,
		     uint64_t detail, const char *text)
{
	struct wire_error error = { .detail = detail };
	size_t len;

	/* whatever had been written of an answer is dropped */
	wire_begin(w, w->buffer, w->size);
	if (!text)
		text = larder_status_text(status);
	len = strlen(text);
	if (wire_room(w) < sizeof(error))
		return -EMSGSIZE;
	if (len > wire_room(w) - sizeof(error))
		len = wire_room(w) - sizeof(error);
	error.text_len = (uint32_t)len;
	wire_append(w, &error, sizeof(error));
	wire_append(w, text, error.text_len);
	return wire_finish(w, op, WIRE_REPLY, status, request_id, 0);
}

int wire_put_encode(struct wire_writer *w, uint8_t op, uint16_t flags, uint64_t request_id,
		    const struct wire_put *put, const struct wire_seg *segs,
		    const uint32_t *checks, const void *key)
{
	bool is_inline = op == LARDER_OP_PUT && put->n_segs == 0;

	if (is_inline && put->length > UINT32_MAX)
		return -EMSGSIZE;
	if (put->n_segs > WIRE_SEGS_MAX || put->n_checks > w->size / sizeof(*checks))
		return -EMSGSIZE;
	wire_append(w, put, sizeof(*put));
	wire_append(w, segs, put->n_segs * (uint32_t)sizeof(*segs));
	wire_append(w, checks, put->n_checks * (uint32_t)sizeof(*checks));
	wire_append(w, key, put->key_len);
	return wire_finish(w, op, flags, 0, request_id, is_inline ? (uint32_t)put->length : 0);
}

int wire_put_part_encode(struct wire_writer *w, uint64_t request_id,
			 const struct wire_put_part *part, const struct wire_seg *segs)
{
	bool is_inline = part->n_segs == 0;

	if (part->n_segs > WIRE_SEGS_MAX || (is_inline && part->length > UINT32_MAX))
		return -EMSGSIZE;
	wire_append(w, part, sizeof(*part));
	wire_append(w, segs, part->n_segs * (uint32_t)sizeof(*segs));
	return wire_finish(w, LARDER_OP_PUT_PART, 0, 0, request_id,
			   is_inline ? (uint32_t)part->length : 0);
}

int wire_get_encode(struct wire_writer *w, uint16_t flags, uint64_t request_id,
		    const struct wire_get *get, const struct wire_seg *segs, const void *key)
{
	if (get->n_segs > WIRE_SEGS_MAX)
		return -EMSGSIZE;
	wire_append(w, get, sizeof(*get));
	wire_append(w, segs, get->n_segs * (uint32_t)sizeof(*segs));
	wire_append(w, key, get->key_len);
	return wire_finish(w, LARDER_OP_GET, flags, 0, request_id, 0);
}
