/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests as a hostile client sends them. The input is a message; the CRC is not asked for, or
 * nothing would get past it. Properties of what is accepted: it is made of the bytes of the body
 * in their order with none left over, and everything that was promised about counts holds.
 */
#include "fuzz.h"

#include "wire/wire.h"

static struct larder_op_key keys[WIRE_KEYS_MAX];

static bool is_keys(uint8_t op)
{
	return wire_op_info(op)->flags & WIRE_OP_KEYS;
}

static void check_keys(const struct wire_request *r, const uint8_t *body)
{
	int n = wire_keys_decode(r, keys, WIRE_KEYS_MAX);
	const uint8_t *at = r->tail;

	PROPERTY(n == (int)r->u.keys.n_keys);
	for (int i = 0; i < n; i++) {
		const uint8_t *key = keys[i].key;

		PROPERTY(key == at + 2);
		PROPERTY(keys[i].key_len >= 1 && keys[i].key_len <= LARDER_KEY_MAX);
		at = key + keys[i].key_len;
	}
	PROPERTY(n == 0 || at == body + r->header.body_len);
}

static void check_value(const struct wire_request *r, uint64_t length)
{
	uint64_t total = wire_segs_total(r);

	PROPERTY(length > 0);
	PROPERTY(r->n_segs ? total == length && r->header.payload_len == 0 :
		 r->header.payload_len == length);
}

static void check(const struct wire_request *r, const uint8_t *body)
{
	uint32_t fixed = wire_op_info(r->header.op)->request_size;

	PROPERTY(memcmp(&r->u, body, fixed) == 0);
	PROPERTY(fixed + r->n_segs * 16ull + r->n_checks * 4ull + r->tail_len ==
		 r->header.body_len);
	PROPERTY(r->n_segs <= WIRE_SEGS_MAX);
	PROPERTY(!r->n_segs || r->segs == body + fixed);
	PROPERTY(!r->n_checks || r->checks == body + fixed + r->n_segs * 16);
	PROPERTY(!r->tail_len || r->tail + r->tail_len == body + r->header.body_len);
	for (uint32_t i = 0; i < r->n_checks; i++)
		(void)*(volatile const uint8_t *)&r->checks[4 * i + 3];
	switch (r->header.op) {
	case LARDER_OP_PUT:
		PROPERTY(r->n_checks == larder_check_count(r->u.put.length));
		check_value(r, r->u.put.length);
		break;
	case LARDER_OP_PUT_PART:
		PROPERTY(r->u.put_part.offset + r->u.put_part.length >= r->u.put_part.length);
		check_value(r, r->u.put_part.length);
		break;
	case LARDER_OP_GET:
		PROPERTY(!r->n_segs || wire_segs_total(r) >= r->u.get.length);
		PROPERTY(r->u.get.offset + r->u.get.length >= r->u.get.length);
		break;
	default:
		if (is_keys(r->header.op))
			check_keys(r, body);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_request r;
	struct wire_header h;
	uint8_t *body;

	if (size < sizeof(h) || size > WIRE_MESSAGE_MAX)
		return 0;
	memcpy(&h, data, sizeof(h));
	body = fuzz_copy(data + sizeof(h), size - sizeof(h));
	/* as the node does it */
	if (wire_header_check(&h, WIRE_MESSAGE_MAX) == 0 && h.body_len <= size - sizeof(h))
		(void)wire_body_check(&h, body);	/* only that it stays inside */
	/* and past the CRC */
	h.body_len = (uint32_t)(size - sizeof(h));
	if (wire_request_decode(&h, body, &r) == 0)
		check(&r, body);
	free(body);
	return 0;
}
