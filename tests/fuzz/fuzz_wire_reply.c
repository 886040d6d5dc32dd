/* SPDX-License-Identifier: Apache-2.0 */
/* Replies as a hostile node sends them; as fuzz_wire_request.c. */
#include "fuzz.h"

#include "wire/wire.h"

static void check_listed(const struct wire_reply *r)
{
	struct wire_list_entry entry;
	const uint8_t *key, *at = r->tail;
	uint32_t pos = 0, n = 0;

	while (wire_list_entry_next(r, &pos, &entry, &key) > 0) {
		PROPERTY(key == at + sizeof(entry));
		PROPERTY(entry.key_len >= 1 && entry.key_len <= LARDER_KEY_MAX);
		at = key + entry.key_len;
		n++;
	}
	PROPERTY(n == r->u.listed.count && pos == r->tail_len);
}

static void check_ns_listed(const struct wire_reply *r)
{
	struct wire_ns_entry entry;
	const uint8_t *name, *at = r->tail;
	uint32_t pos = 0, n = 0;

	while (wire_ns_entry_next(r, &pos, &entry, &name) > 0) {
		PROPERTY(name == at + sizeof(entry));
		PROPERTY(entry.name_len >= 1 && entry.name_len <= WIRE_NS_NAME_MAX);
		at = name + entry.name_len;
		n++;
	}
	PROPERTY(n == r->u.ns_listed.count && pos == r->tail_len);
}

static void check_got(const struct wire_reply *r, const uint8_t *body)
{
	const struct wire_got *m = &r->u.got;

	PROPERTY(m->offset + m->length >= m->offset && m->offset + m->length <= m->size_bytes);
	PROPERTY(sizeof(*m) + m->n_checks * 4ull == r->header.body_len);
	PROPERTY(!m->n_checks || r->checks == body + sizeof(*m));
	PROPERTY(!r->header.payload_len || r->header.payload_len == m->length);
	PROPERTY(r->tail_len == 0);
}

static void check(const struct wire_reply *r, const uint8_t *body)
{
	uint32_t fixed = r->is_error ? sizeof(struct wire_error) :
			 wire_op_info(r->header.op)->reply_size;

	PROPERTY(memcmp(&r->u, body, fixed) == 0);
	PROPERTY(r->tail_len <= r->header.body_len);
	PROPERTY(!r->tail_len || r->tail + r->tail_len == body + r->header.body_len);
	if (r->is_error) {
		PROPERTY(r->tail_len == r->u.error.text_len);
		return;
	}
	switch (r->header.op) {
	case LARDER_OP_GET:
		check_got(r, body);
		break;
	case LARDER_OP_LIST:
		check_listed(r);
		break;
	case LARDER_OP_NS_LIST:
		check_ns_listed(r);
		break;
	case LARDER_OP_STAT:
		PROPERTY(r->u.stats_done.n_keys * 72ull == r->tail_len);
		break;
	case LARDER_OP_EXISTS:
		PROPERTY(r->u.keys_done.n_keys * 2ull == r->tail_len);
		PROPERTY(r->u.keys_done.leading_run <= r->u.keys_done.n_keys);
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_header h;
	struct wire_reply r;
	uint8_t *body;

	if (size < sizeof(h) || size > WIRE_MESSAGE_MAX)
		return 0;
	memcpy(&h, data, sizeof(h));
	h.body_len = (uint32_t)(size - sizeof(h));
	body = fuzz_copy(data + sizeof(h), h.body_len);
	if (wire_reply_decode(&h, body, &r) == 0)
		check(&r, body);
	free(body);
	return 0;
}
