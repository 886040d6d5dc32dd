/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies as the client reads them: a node may be as broken or hostile as a client.
 *
 * The status in the header says which of two shapes the body has: the operation's own struct, or
 * struct wire_error with a text. As in request.c one equation guards every length. Reserved fields
 * are not looked at, so that a later node may fill them.
 */
#include "wire/wire.h"

#include <errno.h>
#include <string.h>

static bool reply_has_statuses(uint8_t op)
{
	switch (op) {
	case LARDER_OP_EXISTS:
	case LARDER_OP_LEASE:
	case LARDER_OP_RELEASE:
	case LARDER_OP_PIN:
	case LARDER_OP_UNPIN:
	case LARDER_OP_STAT:
	case LARDER_OP_DELETE:
		return true;
	default:
		return false;
	}
}

static bool reply_is_error(const struct wire_header *h)
{
	if (h->status == LARDER_OK || h->status == LARDER_EXISTS_SAME)
		return false;
	return !(h->status == LARDER_NOT_FOUND && reply_has_statuses(h->op));
}

/* What was moved lies inside the value, and the checks are those of the blocks that it touches. */
static bool reply_got(struct wire_reply *r)
{
	const struct wire_got *m = &r->u.got;
	uint64_t first = m->offset / LARDER_CHECK_BLOCK;
	uint64_t touched = 0;

	if ((uint64_t)m->n_checks * sizeof(uint32_t) != r->tail_len)
		return false;
	if (m->offset > m->size_bytes || m->length > m->size_bytes - m->offset)
		return false;
	if (r->header.payload_len && r->header.payload_len != m->length)
		return false;
	if (m->length)
		touched = (m->offset + m->length - 1) / LARDER_CHECK_BLOCK - first + 1;
	if (m->n_checks && (m->n_checks != touched || m->first_check != first))
		return false;
	r->checks = m->n_checks ? r->tail : NULL;
	r->tail = NULL;
	r->tail_len = 0;
	return true;
}

static bool reply_ns_listed(const struct wire_reply *r)
{
	struct wire_ns_entry entry;
	const uint8_t *name;
	uint32_t pos = 0, n = 0;
	int k;

	while ((k = wire_ns_entry_next(r, &pos, &entry, &name)) > 0)
		n++;
	return k == 0 && n == r->u.ns_listed.count;
}

static bool reply_listed(const struct wire_reply *r)
{
	struct wire_list_entry entry;
	const uint8_t *key;
	uint32_t pos = 0, n = 0;
	int k;

	while ((k = wire_list_entry_next(r, &pos, &entry, &key)) > 0)
		n++;
	return k == 0 && n == r->u.listed.count;
}

/* The rules of one operation's answer. Its fixed struct is in r->u, the rest is the tail. */
static bool reply_body(struct wire_reply *r)
{
	if (r->header.op == LARDER_OP_GET)
		return reply_got(r);
	if (r->header.payload_len)
		return false;
	switch (r->header.op) {
	case LARDER_OP_NS_LIST:
		return reply_ns_listed(r);
	case LARDER_OP_LIST:
		return reply_listed(r);
	case LARDER_OP_STAT:
		return r->u.stats_done.n_keys <= WIRE_KEYS_MAX &&
		       r->u.stats_done.n_keys * sizeof(struct wire_stat) == r->tail_len;
	case LARDER_OP_EXISTS:
	case LARDER_OP_LEASE:
	case LARDER_OP_RELEASE:
	case LARDER_OP_PIN:
	case LARDER_OP_UNPIN:
	case LARDER_OP_DELETE:
		return r->u.keys_done.n_keys <= WIRE_KEYS_MAX &&
		       r->u.keys_done.leading_run <= r->u.keys_done.n_keys &&
		       r->u.keys_done.n_keys * sizeof(struct wire_key_status) == r->tail_len;
	default:
		return r->tail_len == 0;
	}
}

int wire_reply_decode(const struct wire_header *h, const void *body, struct wire_reply *ret)
{
	const struct wire_op_info *info = wire_op_info(h->op);
	bool is_error = reply_is_error(h);
	uint32_t size;

	if (!info || (h->flags & ~WIRE_LAST) != WIRE_REPLY)
		return -EBADMSG;
	size = is_error ? sizeof(struct wire_error) : info->reply_size;
	if (h->body_len < size)
		return -EBADMSG;
	ret->header = *h;
	ret->is_error = is_error;
	ret->checks = NULL;
	memcpy(&ret->u, body, size);
	ret->tail_len = h->body_len - size;
	ret->tail = ret->tail_len ? (const uint8_t *)body + size : NULL;
	if (is_error)
		return ret->u.error.text_len == ret->tail_len && !h->payload_len ? 0 : -EBADMSG;
	return reply_body(ret) ? 0 : -EBADMSG;
}

/* One entry of a list: @size bytes of struct into @entry. The name behind it is the caller's. */
static int reply_entry(const struct wire_reply *r, uint32_t pos, void *entry, uint32_t size)
{
	if (pos == r->tail_len)
		return 0;
	if (pos > r->tail_len || r->tail_len - pos < size)
		return -EBADMSG;
	memcpy(entry, r->tail + pos, size);
	return 1;
}

int wire_list_entry_next(const struct wire_reply *r, uint32_t *pos, struct wire_list_entry *entry,
			 const uint8_t **key)
{
	int k = reply_entry(r, *pos, entry, sizeof(*entry));

	if (k <= 0)
		return k;
	if (entry->key_len < 1 || entry->key_len > LARDER_KEY_MAX ||
	    r->tail_len - *pos - sizeof(*entry) < entry->key_len)
		return -EBADMSG;
	*key = r->tail + *pos + sizeof(*entry);
	*pos += (uint32_t)sizeof(*entry) + entry->key_len;
	return 1;
}

int wire_ns_entry_next(const struct wire_reply *r, uint32_t *pos, struct wire_ns_entry *entry,
		       const uint8_t **name)
{
	int k = reply_entry(r, *pos, entry, sizeof(*entry));

	if (k <= 0)
		return k;
	if (entry->name_len < 1 || entry->name_len > WIRE_NS_NAME_MAX ||
	    r->tail_len - *pos - sizeof(*entry) < entry->name_len)
		return -EBADMSG;
	*name = r->tail + *pos + sizeof(*entry);
	*pos += (uint32_t)sizeof(*entry) + entry->name_len;
	return 1;
}
