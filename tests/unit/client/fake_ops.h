/* SPDX-License-Identifier: Apache-2.0 */
/* What the scripted node does with each operation. See fake_node.h. */
#ifndef TESTS_CLIENT_FAKE_OPS_H
#define TESTS_CLIENT_FAKE_OPS_H

#include "fake_base.h"

/* --- operations ------------------------------------------------------------------------------- */

static inline int fake_mac(struct fake *f, const char *label, struct fake_conn *c,
			   const void *auth, size_t auth_len, uint8_t mac[WIRE_MAC_SIZE])
{
	struct iovec parts[3] = { { c->hello, sizeof(c->hello) },
				  { c->challenge, sizeof(c->challenge) },
				  { (void *)auth, auth_len } };

	return mac_compute(f->secret, strlen(f->secret), label, parts, auth ? 3 : 2, mac);
}

static inline void fake_hello(struct fake *f, struct fake_conn *c, const struct wire_request *r,
			      const void *body)
{
	struct wire_challenge ch = { .version = WIRE_VERSION };
	struct wire_writer w;

	if (f->refuse) {
		fake_error(c, r, f->refuse, 0, "the fake refuses");
		return;
	}
	memcpy(c->hello, &r->header, WIRE_HEADER_SIZE);
	memcpy(c->hello + WIRE_HEADER_SIZE, body, sizeof(struct wire_hello));
	memset(ch.nonce, 0x5a, sizeof(ch.nonce));
	wire_begin(&w, c->challenge, sizeof(c->challenge));
	wire_append(&w, &ch, sizeof(ch));
	assert_int_equal(wire_finish(&w, LARDER_OP_HELLO, WIRE_REPLY, 0, r->header.request_id, 0),
			 sizeof(c->challenge));
	fake_send(c, c->challenge, sizeof(c->challenge), NULL, 0);
}

static inline void fake_auth(struct fake *f, struct fake_conn *c, const struct wire_request *r,
			     const void *body)
{
	struct wire_welcome wl = {
		.max_value_bytes = f->max_value,
		.max_message = WIRE_MESSAGE_MAX,
		.credits = f->credits,
		.page_size = 65536,
		.check_block = LARDER_CHECK_BLOCK,
		.keepalive_ms = f->keepalive_ms,
		.lease_max_ms = 60000,
		.capabilities = f->t->ops->caps & TRANSPORT_ONE_SIDED ? WIRE_CAP_ONE_SIDED : 0,
	};
	uint8_t mac[WIRE_MAC_SIZE], auth[WIRE_HEADER_SIZE + sizeof(struct wire_auth)];

	assert_int_equal(fake_mac(f, MAC_LABEL_CLIENT, c, NULL, 0, mac), 0);
	if (!mac_equal(mac, r->u.auth.mac)) {
		fake_error(c, r, LARDER_DENIED, 0, "wrong secret");
		return;
	}
	memcpy(auth, &r->header, WIRE_HEADER_SIZE);
	memcpy(auth + WIRE_HEADER_SIZE, body, sizeof(struct wire_auth));
	assert_int_equal(fake_mac(f, MAC_LABEL_NODE, c, auth, sizeof(auth), wl.mac), 0);
	wl.mac[3] ^= f->bad_mac;
	c->authed = true;
	f->handshakes++;
	fake_reply(c, r, LARDER_OK, &wl, sizeof(wl), NULL, 0, NULL, 0);
}

static inline struct transport_region *fake_region(struct fake_conn *c, uint32_t number)
{
	for (int i = 0; i < FAKE_REGIONS; i++) {
		if (c->regions[i].tr && c->regions[i].number == number)
			return c->regions[i].tr;
	}
	return NULL;
}

static inline void fake_region_add(struct fake *f, struct fake_conn *c,
				   const struct wire_request *r)
{
	struct transport_region *tr;
	int k = f->t->ops->region_import(c->tc, r->tail, r->tail_len, r->u.region_add.size_bytes,
					 &tr);

	if (k < 0) {
		fake_error(c, r, LARDER_QUOTA, 0, "no such region");
		return;
	}
	for (int i = 0; i < FAKE_REGIONS; i++) {
		if (c->regions[i].tr)
			continue;
		c->regions[i] = (struct fake_region){ r->u.region_add.region, tr };
		fake_reply(c, r, LARDER_OK, "\0\0\0\0\0\0\0", 8, NULL, 0, NULL, 0);
		return;
	}
	fail_msg("too many regions");
}

static inline void fake_region_del(struct fake *f, struct fake_conn *c,
				   const struct wire_request *r)
{
	for (int i = 0; i < FAKE_REGIONS; i++) {
		if (!c->regions[i].tr || c->regions[i].number != r->u.region_del.region)
			continue;
		assert_int_equal(f->t->ops->region_del(c->regions[i].tr), 0);
		c->regions[i].tr = NULL;
	}
	fake_reply(c, r, LARDER_OK, "\0\0\0\0\0\0\0", 8, NULL, 0, NULL, 0);
}

/* One-sided: moves @data to or from the request's segments; the reply follows at the end. */
static inline void fake_start_move(struct fake *f, struct fake_conn *c,
				   const struct wire_request *r, const void *body,
				   struct fake_object *o, uint8_t *data, uint64_t len, bool write)
{
	struct fake_move *m = calloc(1, sizeof(*m));
	uint32_t gate = write ? r->u.get.gate : r->header.op == LARDER_OP_PUT ? r->u.put.gate
									       : r->u.put_part.gate;

	assert_non_null(m);
	m->conn = c;
	m->request = *r;
	m->body = malloc(r->header.body_len);
	assert_non_null(m->body);
	memcpy(m->body, body, r->header.body_len);
	if (r->tail)
		m->request.tail = m->body + (r->tail - (const uint8_t *)body);
	if (r->checks)
		m->request.checks = m->body + (r->checks - (const uint8_t *)body);
	m->object = o;
	m->data = write ? NULL : data;
	list_push_tail(&f->moves, &m->link);
	for (uint32_t i = 0; i < r->n_segs && len; i++) {
		struct wire_seg seg = wire_seg_at(r, i);
		struct iovec iov = { data, MIN((uint64_t)seg.length, len) };
		struct transport_tx tx = { .type = write ? TRANSPORT_WRITE : TRANSPORT_READ,
					   .niov = 1, .iov = &iov, .gate = gate,
					   .cookie = (uintptr_t)m | 1,
					   .region = fake_region(c, seg.region),
					   .offset = seg.offset };

		assert_non_null(tx.region);
		assert_int_equal(transport_tx(c->tc, &tx, 1), 1);
		m->left++;
		data += iov.iov_len;
		len -= iov.iov_len;
	}
}

static inline void fake_got(struct fake *f, struct fake_conn *c, const struct wire_request *r,
			    struct fake_object *o, bool inline_payload)
{
	uint64_t length = o->length > r->u.get.offset ? o->length - r->u.get.offset : 0;
	struct wire_got got = { .size_bytes = o->length, .offset = r->u.get.offset,
				.digest = o->digest ^ f->wrong_digest };
	uint8_t *copy = NULL;

	got.length = MIN(length, r->u.get.length);
	got.first_check = (uint32_t)(got.offset / LARDER_CHECK_BLOCK);
	if (!(r->u.get.c.flags & LARDER_F_NO_CHECKS))
		got.n_checks = larder_check_count(got.length);
	if (inline_payload && got.length) {
		copy = malloc(got.length);
		assert_non_null(copy);
		memcpy(copy, o->data + got.offset, got.length);
		if (f->corrupt_payload)
			copy[got.length / 2] ^= 1;
	}
	fake_reply(c, r, LARDER_OK, &got, sizeof(got), o->checks + got.first_check,
		   got.n_checks * sizeof(uint32_t), copy, inline_payload ? got.length : 0);
	free(copy);
}

static inline void fake_get(struct fake *f, struct fake_conn *c, const struct wire_request *r,
			    const void *body)
{
	struct fake_object *o = fake_find(f, r->tail, r->tail_len);

	f->last_flags = r->u.get.c.flags;
	f->n_fill += !!(f->last_flags & LARDER_F_FILL);
	if (!fake_stream(f) && !r->n_segs) {
		fake_error(c, r, LARDER_BAD_REQUEST, 0, "no way for the bytes");
		return;
	}
	if (o && (r->u.get.c.flags & LARDER_F_VERIFY)) {
		f->corrupt_payload = f->corrupt_payload && !f->heal;
		if (f->heal) {
			fake_drop(o);
			o = NULL;
		}
	}
	if (!o) {
		bool fills = f->last_flags & LARDER_F_FILL && !f->promised;

		fake_error(c, r, fills ? LARDER_FILL : LARDER_NOT_FOUND, 0, "no such object");
		return;
	}
	if ((r->u.get.c.flags & LARDER_F_WHOLE) && o->length > r->u.get.room) {
		fake_error(c, r, LARDER_TOO_SMALL, o->length, "too small");
		return;
	}
	if (r->u.get.offset > o->length) {
		fake_error(c, r, LARDER_BAD_REQUEST, 0, "behind the end");
		return;
	}
	if (r->n_segs)
		fake_start_move(f, c, r, body, o, o->data + r->u.get.offset,
				MIN(o->length - r->u.get.offset, r->u.get.length), true);
	else
		fake_got(f, c, r, o, true);
}

static inline void fake_put_done(struct fake *f, struct fake_conn *c,
				 const struct wire_request *r, const uint8_t *data)
{
	struct fake_object *o = fake_find(f, r->tail, r->tail_len);
	struct wire_put_done done = { .size_bytes = r->u.put.length, .commit_time_ms = 1 };
	int status = LARDER_OK;

	if (f->busy > 0) {
		f->busy--;
		fake_error(c, r, LARDER_BUSY, 0, "another writer failed");
		return;
	}
	if (o) {
		status = o->length == r->u.put.length &&
			 !memcmp(o->checks, r->checks, r->n_checks * 4) ? LARDER_EXISTS_SAME
									: LARDER_CONFLICT;
	} else {
		o = fake_new(f, r->tail, r->tail_len, r->u.put.length);
		memcpy(o->data, data, o->length);
		memcpy(o->checks, r->checks, r->n_checks * 4);
		o->digest = r->u.put.digest;
	}
	if (status == LARDER_CONFLICT)
		fake_error(c, r, status, 0, NULL);
	else
		fake_reply(c, r, status, &done, sizeof(done), NULL, 0, NULL, 0);
}

static inline struct fake_object *fake_begun(struct fake *f, uint64_t put)
{
	list_for_each(it, &f->objects) {
		struct fake_object *o = list_entry(it, struct fake_object, link);

		if (o->put == put)
			return o;
	}
	return NULL;
}

static inline void fake_put_stream(struct fake *f, struct fake_conn *c,
				   const struct wire_request *r, const void *body,
				   const uint8_t *payload)
{
	struct wire_put_begun begun = { 0 };
	struct wire_put_done done = { 0 };
	struct fake_object *o;

	switch (r->header.op) {
	case LARDER_OP_PUT_BEGIN:
		o = fake_new(f, r->tail, r->tail_len, r->u.put.length);
		o->digest = r->u.put.digest;
		o->put = begun.put = ++f->puts;
		fake_reply(c, r, LARDER_OK, &begun, sizeof(begun), NULL, 0, NULL, 0);
		return;
	case LARDER_OP_PUT_PART:
		o = fake_begun(f, r->u.put_part.put);
		assert_non_null(o);
		assert_true(r->u.put_part.offset + r->u.put_part.length <= o->length);
		if (r->n_segs) {
			fake_start_move(f, c, r, body, o, o->data + r->u.put_part.offset,
					r->u.put_part.length, false);
			return;
		}
		memcpy(o->data + r->u.put_part.offset, payload, r->u.put_part.length);
		fake_reply(c, r, LARDER_OK, "\0\0\0\0\0\0\0", 8, NULL, 0, NULL, 0);
		return;
	case LARDER_OP_PUT_COMMIT:
		o = fake_begun(f, r->u.put_commit.put);
		assert_non_null(o);
		assert_int_equal(r->n_checks, larder_check_count(o->length));
		memcpy(o->checks, r->checks, r->n_checks * 4);
		o->put = 0;
		done.size_bytes = o->length;
		fake_reply(c, r, LARDER_OK, &done, sizeof(done), NULL, 0, NULL, 0);
		return;
	default:
		o = fake_begun(f, r->u.put_abort.put);
		if (o)
			fake_drop(o);
		fake_reply(c, r, LARDER_OK, "\0\0\0\0\0\0\0", 8, NULL, 0, NULL, 0);
		return;
	}
}

static inline void fake_keys(struct fake *f, struct fake_conn *c, const struct wire_request *r)
{
	static struct larder_op_key keys[WIRE_KEYS_MAX];
	struct wire_key_status ks[WIRE_KEYS_MAX] = { 0 };
	static struct wire_stat st[WIRE_KEYS_MAX];
	int n = wire_keys_decode(r, keys, WIRE_KEYS_MAX);
	struct wire_keys_done done = { 0 };
	struct wire_stats_done sdone = { 0 };

	bool fills;

	assert_true(n >= 0);
	f->last_flags = r->u.keys.c.flags;
	fills = f->last_flags & LARDER_F_FILL && !f->promised;
	f->n_fill += !!(f->last_flags & LARDER_F_FILL);
	done.n_keys = sdone.n_keys = (uint32_t)n;
	memset(st, 0, sizeof(st));
	for (int i = 0; i < n; i++) {
		struct fake_object *o = fake_find(f, keys[i].key, keys[i].key_len);

		ks[i].status = (uint8_t)(o ? LARDER_OK : LARDER_NOT_FOUND);
		ks[i].presence = (uint8_t)(o ? LARDER_PRESENT : LARDER_ABSENT);
		if (!o && fills)
			ks[i].status = LARDER_FILL;
		fills = fills && o;
		st[i].status = ks[i].status;
		st[i].stat.size_bytes = o ? o->length : 0;
		if (o && r->header.op == LARDER_OP_DELETE)
			fake_drop(o);
	}
	if (r->header.op == LARDER_OP_STAT)
		fake_reply(c, r, LARDER_OK, &sdone, sizeof(sdone), st,
			   (size_t)n * sizeof(st[0]), NULL, 0);
	else
		fake_reply(c, r, LARDER_OK, &done, sizeof(done), ks, (size_t)n * sizeof(ks[0]),
			   NULL, 0);
}

static inline void fake_list(struct fake *f, struct fake_conn *c, const struct wire_request *r)
{
	uint8_t tail[4096];
	struct wire_listed listed = { 0 };
	size_t used = 0;

	list_for_each(it, &f->objects) {
		struct fake_object *o = list_entry(it, struct fake_object, link);
		struct wire_list_entry e = { .stat.size_bytes = o->length,
					     .key_len = o->key_len };

		if (o->key_len < r->tail_len ||
		    (r->tail_len && memcmp(o->key, r->tail, r->tail_len)) ||
		    used + sizeof(e) + o->key_len > sizeof(tail))
			continue;
		memcpy(tail + used, &e, sizeof(e));
		memcpy(tail + used + sizeof(e), o->key, o->key_len);
		used += sizeof(e) + o->key_len;
		listed.count++;
	}
	fake_reply(c, r, LARDER_OK, &listed, sizeof(listed), tail, used, NULL, 0);
}

static inline void fake_spaces(struct fake *f, struct fake_conn *c, const struct wire_request *r)
{
	struct wire_ns_opened opened = { .ns = f->ns, .descriptor = f->descriptor };
	struct wire_ns_listed listed = { .count = 1 };
	struct wire_ns_entry entry = { .ns = f->ns, .name_len = 5, .objects = 3 };
	struct wire_ns_flushed flushed = { .objects = 2, .bytes = 20 };
	const char *field;
	uint8_t tail[64];

	switch (r->header.op) {
	case LARDER_OP_NS_LIST:
		memcpy(tail, &entry, sizeof(entry));
		memcpy(tail + sizeof(entry), "space", 5);
		fake_reply(c, r, LARDER_OK, &listed, sizeof(listed), tail, sizeof(entry) + 5, NULL,
			   0);
		return;
	case LARDER_OP_NS_FLUSH:
		assert_int_equal(r->u.ns_flush.ns, f->ns);
		fake_reply(c, r, LARDER_OK, &flushed, sizeof(flushed), NULL, 0, NULL, 0);
		return;
	default:
		field = r->u.ns_open.has_descriptor
				? larder_descriptor_difference(&r->u.ns_open.descriptor,
							       &f->descriptor)
				: NULL;
		if (field)
			fake_error(c, r, LARDER_LAYOUT_MISMATCH, 0, field);
		else
			fake_reply(c, r, LARDER_OK, &opened, sizeof(opened), NULL, 0, NULL, 0);
		return;
	}
}

static inline void fake_request(struct fake *f, struct fake_conn *c, const struct wire_request *r,
				const void *body, const uint8_t *payload)
{
	f->count[r->header.op]++;
	c->requests++;
	if (r->header.op == LARDER_OP_HELLO) {
		fake_hello(f, c, r, body);
		return;
	}
	if (r->header.op == LARDER_OP_AUTH) {
		fake_auth(f, c, r, body);
		return;
	}
	assert_true(c->authed);
	if (f->hook && f->hook(f, c, r, payload))
		return;
	switch (r->header.op) {
	case LARDER_OP_PING:
		fake_reply(c, r, LARDER_OK, &r->u.ping, sizeof(r->u.ping), NULL, 0, NULL, 0);
		break;
	case LARDER_OP_CANCEL:
		f->cancelled = r->u.cancel.request_id;
		fake_reply(c, r, LARDER_OK, "\0\0\0\0\0\0\0", 8, NULL, 0, NULL, 0);
		break;
	case LARDER_OP_NS_CREATE:
	case LARDER_OP_NS_OPEN:
	case LARDER_OP_NS_LIST:
	case LARDER_OP_NS_FLUSH:
		fake_spaces(f, c, r);
		break;
	case LARDER_OP_REGION_ADD:
		fake_region_add(f, c, r);
		break;
	case LARDER_OP_REGION_DEL:
		fake_region_del(f, c, r);
		break;
	case LARDER_OP_PUT_BEGIN:
	case LARDER_OP_PUT_PART:
	case LARDER_OP_PUT_COMMIT:
	case LARDER_OP_PUT_ABORT:
		fake_put_stream(f, c, r, body, payload);
		break;
	case LARDER_OP_LIST:
		fake_list(f, c, r);
		break;
	case LARDER_OP_PUT:
	case LARDER_OP_GET:
		f->last_batch = r->u.common.batch;
		f->last_index[f->n_index++ % 64] = r->u.common.batch_index;
		f->saw_last = r->header.flags & WIRE_LAST;
		if (r->header.op == LARDER_OP_GET) {
			fake_get(f, c, r, body);
		} else if (r->n_segs) {
			uint8_t *data = malloc(r->u.put.length);

			assert_non_null(data);
			fake_start_move(f, c, r, body, NULL, data, r->u.put.length, false);
		} else {
			fake_put_done(f, c, r, payload);
		}
		break;
	default:
		fake_keys(f, c, r);
		break;
	}
}

#endif
