/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests as the node reads them. The body is a fixed struct, then segments, checks and a tail.
 *
 * One equation guards every length: what the struct's counts ask for must be exactly the bytes that
 * are left. It is computed in 64 bits from counts that were bounded first, so a short body, a long
 * one and an invented count all fail in the same line, before a pointer is made. After that the
 * rules of the single operations compare values, never lengths of memory.
 *
 * Reserved fields and unknown flags are refused: a later version may then give them a meaning
 * without an older node ignoring it in silence.
 */
#include "wire/wire.h"

#include <errno.h>
#include <string.h>

/* Points into the part of a body that follows the fixed struct. */
struct rest {
	const uint8_t *data;
	uint32_t len;
};

/* Takes the variable part apart; true when it has exactly the bytes that the counts ask for. */
static bool request_split(struct wire_request *r, const struct rest *rest, uint32_t n_segs,
			  uint32_t n_checks, uint32_t tail_len)
{
	uint64_t segs_bytes = (uint64_t)n_segs * sizeof(struct wire_seg);
	uint64_t checks_bytes = (uint64_t)n_checks * sizeof(uint32_t);

	if (n_segs > WIRE_SEGS_MAX || segs_bytes + checks_bytes + tail_len != rest->len)
		return false;
	r->n_segs = n_segs;
	r->n_checks = n_checks;
	r->tail_len = tail_len;
	r->segs = n_segs ? rest->data : NULL;
	r->checks = n_checks ? rest->data + segs_bytes : NULL;
	r->tail = tail_len ? rest->data + segs_bytes + checks_bytes : NULL;
	return true;
}

/* A struct with nothing behind it. */
static bool request_is_bare(struct wire_request *r, const struct rest *rest)
{
	return request_split(r, rest, 0, 0, 0);
}

/* No segment is empty or wraps round the address space of its region. */
static bool request_segs_are_sane(const struct wire_request *r)
{
	for (uint32_t i = 0; i < r->n_segs; i++) {
		struct wire_seg seg = wire_seg_at(r, i);

		if (seg.length == 0 || seg.offset > UINT64_MAX - seg.length)
			return false;
	}
	return true;
}

/* The bytes of a value come either inline or from segments, and there are @length of them. */
static bool request_source_is_sane(const struct wire_request *r, uint64_t length)
{
	if (length == 0)
		return false;
	if (r->n_segs == 0)
		return r->header.payload_len == length;
	return r->header.payload_len == 0 && request_segs_are_sane(r) &&
	       wire_segs_total(r) == length;
}

/* larder_check_count without its overflow near 2^64. */
static uint64_t request_check_count(uint64_t length)
{
	return length / LARDER_CHECK_BLOCK + (length % LARDER_CHECK_BLOCK != 0);
}

static bool request_key_is_sane(uint32_t key_len, uint32_t flags)
{
	if (flags & LARDER_F_BY_HASH)
		return key_len == LARDER_KEY_HASH_SIZE;
	return key_len >= 1 && key_len <= LARDER_KEY_MAX;
}

/* BY_HASH changes what a key is: where it has no meaning it must not be ignored. */
static bool request_flags_are_sane(uint8_t op, uint32_t flags)
{
	bool takes_hash = op == LARDER_OP_GET || op == LARDER_OP_STAT || op == LARDER_OP_DELETE;

	return (flags & ~(uint32_t)WIRE_CLIENT_FLAGS) == 0 &&
	       (takes_hash || !(flags & LARDER_F_BY_HASH));
}

/* The empty name is nobody's, but it can be told apart: refusing it politely is the node's. */
static bool request_tenant_is_sane(const uint8_t *name, uint32_t len)
{
	if (len > LARDER_TENANT_NAME_MAX)
		return false;
	for (uint32_t i = 0; i < len; i++) {
		uint8_t b = name[i];

		if (!(b >= 'a' && b <= 'z') && !(b >= '0' && b <= '9') && b != '-')
			return false;
	}
	return true;
}

/*
 * Length and, in an OPEN, the tenant in front of a ':'. A namespace's own name is spelled like a
 * key, and that spelling has no ':'. What else the name may be made of is the engine's to say.
 */
static bool request_ns_name_is_sane(uint8_t op, const uint8_t *name, uint32_t len)
{
	const uint8_t *colon = len ? memchr(name, ':', len) : NULL;

	if (op == LARDER_OP_NS_OPEN && colon) {
		uint32_t tenant_len = (uint32_t)(colon - name);

		if (tenant_len == 0 || !request_tenant_is_sane(name, tenant_len))
			return false;
		len -= tenant_len + 1;
	}
	return len >= 1 && len <= LARDER_NS_NAME_MAX;
}

static bool request_hello(struct wire_request *r, const struct rest *rest)
{
	const struct wire_hello *m = &r->u.hello;

	return request_is_bare(r, rest) && !m->reserved && m->version_min <= m->version_max &&
	       request_tenant_is_sane(m->tenant, m->tenant_len);
}

static bool request_ns_open(struct wire_request *r, const struct rest *rest)
{
	const struct wire_ns_open *m = &r->u.ns_open;

	return request_split(r, rest, 0, 0, m->name_len) && m->has_descriptor <= 1 &&
	       m->admission <= (r->header.op == LARDER_OP_NS_CREATE ? WIRE_ADMISSION_SECOND_TOUCH
								     : WIRE_ADMISSION_LEAVE) &&
	       request_ns_name_is_sane(r->header.op, r->tail, r->tail_len);
}

static bool request_region_add(struct wire_request *r, const struct rest *rest)
{
	const struct wire_region_add *m = &r->u.region_add;

	return m->opaque_len <= WIRE_OPAQUE_MAX && m->size_bytes &&
	       request_split(r, rest, 0, 0, m->opaque_len);
}

static bool request_put(struct wire_request *r, const struct rest *rest)
{
	const struct wire_put *m = &r->u.put;

	if (!request_split(r, rest, m->n_segs, m->n_checks, m->key_len) ||
	    !request_key_is_sane(m->key_len, m->c.flags))
		return false;
	if (r->header.op == LARDER_OP_PUT_BEGIN)
		return m->length && !m->n_segs && !m->n_checks;
	return m->n_checks == request_check_count(m->length) &&
	       request_source_is_sane(r, m->length);
}

static bool request_put_part(struct wire_request *r, const struct rest *rest)
{
	const struct wire_put_part *m = &r->u.put_part;

	return m->n_segs <= WIRE_SEGS_MAX && request_split(r, rest, m->n_segs, 0, 0) &&
	       m->offset <= UINT64_MAX - m->length && request_source_is_sane(r, m->length);
}

static bool request_put_commit(struct wire_request *r, const struct rest *rest)
{
	const struct wire_put_commit *m = &r->u.put_commit;

	return m->n_checks && !m->reserved && request_split(r, rest, 0, m->n_checks, 0);
}

static bool request_get(struct wire_request *r, const struct rest *rest)
{
	const struct wire_get *m = &r->u.get;
	bool whole = m->c.flags & LARDER_F_WHOLE;

	if (!request_split(r, rest, m->n_segs, 0, m->key_len) ||
	    !request_key_is_sane(m->key_len, m->c.flags) || !request_segs_are_sane(r))
		return false;
	if (whole ? m->offset != 0 : m->length == 0)
		return false;
	if (!(m->c.flags & LARDER_F_NO_CHECKS) && m->offset % LARDER_CHECK_BLOCK)
		return false;
	if (m->offset > UINT64_MAX - m->length)
		return false;
	return m->n_segs == 0 || (wire_segs_total(r) >= m->length &&
				  (!whole || wire_segs_total(r) >= m->room));
}

/* The next key of a list, or NULL when there is no sane one. Moves @pos behind it. */
static const uint8_t *request_next_key(const struct wire_request *r, uint32_t *pos, uint16_t *len)
{
	const uint8_t *key;

	if (r->tail_len - *pos < sizeof(*len))
		return NULL;
	memcpy(len, r->tail + *pos, sizeof(*len));
	if (r->tail_len - *pos - sizeof(*len) < *len)
		return NULL;
	key = r->tail + *pos + sizeof(*len);
	*pos += (uint32_t)sizeof(*len) + *len;
	return request_key_is_sane(*len, r->u.common.flags) ? key : NULL;
}

static bool request_keys(struct wire_request *r, const struct rest *rest)
{
	const struct wire_keys *m = &r->u.keys;
	uint32_t max = r->header.op == LARDER_OP_STAT ? WIRE_STAT_KEYS_MAX : WIRE_KEYS_MAX;
	uint32_t min = r->header.op == LARDER_OP_RELEASE ? 0 : 1;
	uint32_t pos = 0;
	uint16_t len;

	if (m->n_keys < min || m->n_keys > max || m->c.batch_index > UINT32_MAX - m->n_keys)
		return false;
	if (!request_split(r, rest, 0, 0, rest->len))
		return false;
	for (uint32_t i = 0; i < m->n_keys; i++) {
		if (!request_next_key(r, &pos, &len))
			return false;
	}
	return pos == r->tail_len;
}

static bool request_list(struct wire_request *r, const struct rest *rest)
{
	const struct wire_list *m = &r->u.list;

	return m->prefix_len <= LARDER_KEY_MAX && request_split(r, rest, 0, 0, m->prefix_len);
}

/* The rules of one operation. Its fixed struct is in r->u. */
static bool request_body(struct wire_request *r, const struct rest *rest)
{
	switch (r->header.op) {
	case LARDER_OP_HELLO:
		return request_hello(r, rest);
	case LARDER_OP_AUTH:
	case LARDER_OP_PING:
	case LARDER_OP_CANCEL:
	case LARDER_OP_PUT_ABORT:
		return request_is_bare(r, rest);
	case LARDER_OP_NS_CREATE:
	case LARDER_OP_NS_OPEN:
		return request_ns_open(r, rest);
	case LARDER_OP_NS_LIST:
		return request_is_bare(r, rest) && !r->u.ns_list.reserved;
	case LARDER_OP_NS_FLUSH:
	case LARDER_OP_NS_RETIRE:
		return request_is_bare(r, rest) &&
		       (r->u.ns_flush.flags & ~(uint32_t)LARDER_F_FORCE) == 0;
	case LARDER_OP_REGION_ADD:
		return request_region_add(r, rest);
	case LARDER_OP_REGION_DEL:
		return request_is_bare(r, rest) && !r->u.region_del.reserved;
	default:
		break;
	}
	if (!request_flags_are_sane(r->header.op, r->u.common.flags))
		return false;
	switch (r->header.op) {
	case LARDER_OP_PUT:
	case LARDER_OP_PUT_BEGIN:
		return request_put(r, rest);
	case LARDER_OP_PUT_PART:
		return request_put_part(r, rest);
	case LARDER_OP_PUT_COMMIT:
		return request_put_commit(r, rest);
	case LARDER_OP_GET:
		return request_get(r, rest);
	case LARDER_OP_LIST:
		return request_list(r, rest);
	default:
		return request_keys(r, rest);
	}
}

int wire_request_decode(const struct wire_header *h, const void *body, struct wire_request *ret)
{
	const struct wire_op_info *info = wire_op_info(h->op);
	struct rest rest;

	if (!info || h->body_len < info->request_size)
		return -EBADMSG;
	if ((h->flags & ~WIRE_LAST) || h->status || h->reserved)
		return -EBADMSG;
	if (h->payload_len && !(info->flags & WIRE_OP_PAYLOAD))
		return -EBADMSG;
	ret->header = *h;
	memcpy(&ret->u, body, info->request_size);
	rest.data = (const uint8_t *)body + info->request_size;
	rest.len = h->body_len - info->request_size;
	return request_body(ret, &rest) ? 0 : -EBADMSG;
}

struct wire_seg wire_seg_at(const struct wire_request *r, uint32_t i)
{
	struct wire_seg seg;

	memcpy(&seg, r->segs + (size_t)i * sizeof(seg), sizeof(seg));
	return seg;
}

uint32_t wire_check_at(const uint8_t *checks, uint32_t i)
{
	uint32_t check;

	memcpy(&check, checks + (size_t)i * sizeof(check), sizeof(check));
	return check;
}

uint64_t wire_segs_total(const struct wire_request *r)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < r->n_segs; i++)
		total += wire_seg_at(r, i).length;
	return total;
}

int wire_keys_decode(const struct wire_request *r, struct larder_op_key *keys, uint32_t max)
{
	uint32_t n = r->u.keys.n_keys, pos = 0;

	if (n > max)
		return -EBADMSG;
	for (uint32_t i = 0; i < n; i++) {
		uint16_t len;
		const uint8_t *key = request_next_key(r, &pos, &len);

		if (!key)
			return -EBADMSG;
		keys[i] = (struct larder_op_key){ .key = key, .key_len = len };
	}
	return pos == r->tail_len ? (int)n : -EBADMSG;
}
