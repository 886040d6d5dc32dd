/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: every kind there and back, and every way to bend one that we could think of. Bodies
 * are decoded from allocations of exactly their length, so that ASan sees a byte read too far.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "samples.h"

static uint8_t buffer[4 * WIRE_MESSAGE_MAX];

static int build(const struct sample *s)
{
	struct wire_writer w;
	int len;

	wire_begin(&w, buffer, WIRE_MESSAGE_MAX);
	len = s->build(&w);
	assert_true(len > 0);
	return len;
}

static const struct sample *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_requests); i++) {
		if (strcmp(sample_requests[i].name, name) == 0)
			return &sample_requests[i];
	}
	fail_msg("no sample %s", name);
	return NULL;
}

/* Decodes the message in @buffer with another header, from memory of exactly its body's length. */
static int decode(const struct wire_header *h)
{
	struct wire_request r;
	uint8_t *body = malloc(h->body_len ? h->body_len : 1);
	int rc;

	assert_non_null(body);
	memcpy(body, buffer + WIRE_HEADER_SIZE, h->body_len);
	rc = wire_request_decode(h, body, &r);
	free(body);
	return rc;
}

static int decode_built(void)
{
	struct wire_header h = sample_header(buffer);

	return decode(&h);
}

static void every_operation__has_a_sample_and_a_size(void **state)
{
	unsigned ops = 0;

	for (unsigned op = 0; op < 256; op++) {
		const struct wire_op_info *info = wire_op_info((uint8_t)op);
		bool found = false;

		for (size_t i = 0; i < ARRAY_SIZE(sample_requests); i++)
			found |= sample_requests[i].op == op;
		assert_int_equal(found, info != NULL);
		if (!info)
			continue;
		ops++;
		assert_in_range(info->request_size, 8, sizeof(((struct wire_request *)0)->u));
		assert_int_equal(info->request_size % 8, 0);
		assert_true(strlen(info->name) > 2 && strlen(info->sentence) > 10);
	}
	assert_int_equal(ops, 25);
}

static void decode__gives_back_what_was_written(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_requests); i++) {
		const struct sample *s = &sample_requests[i];
		int len = build(s);
		struct wire_header h = sample_header(buffer);
		const uint8_t *body = buffer + WIRE_HEADER_SIZE;
		uint32_t fixed = wire_op_info(s->op)->request_size;
		struct wire_request r;

		assert_int_equal(wire_header_check(&h, WIRE_MESSAGE_MAX), 0);
		assert_int_equal(wire_body_check(&h, body), 0);
		assert_int_equal(h.body_len + WIRE_HEADER_SIZE, len);
		if (wire_request_decode(&h, body, &r))
			fail_msg("sample %s", s->name);
		assert_int_equal(r.header.op, s->op);
		assert_int_equal(r.header.request_id, SAMPLE_ID);
		assert_memory_equal(&r.u, body, fixed);
		/* the parts lie where they were, without a gap */
		assert_int_equal(fixed + r.n_segs * sizeof(struct wire_seg) +
				 r.n_checks * sizeof(uint32_t) + r.tail_len, h.body_len);
		if (r.n_segs)
			assert_ptr_equal(r.segs, body + fixed);
		if (r.tail_len)
			assert_ptr_equal(r.tail, body + h.body_len - r.tail_len);
	}
}

static void decode__put_parts(void **state)
{
	struct wire_request r;
	struct wire_header h;

	build(find("put-segs"));
	h = sample_header(buffer);
	assert_int_equal(wire_request_decode(&h, buffer + WIRE_HEADER_SIZE, &r), 0);
	assert_int_equal(r.n_segs, 2);
	assert_int_equal(r.n_checks, 3);
	for (uint32_t i = 0; i < 2; i++) {
		struct wire_seg seg = wire_seg_at(&r, i);

		assert_memory_equal(&seg, &sample_segs[i], sizeof(seg));
	}
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(wire_check_at(r.checks, i), sample_checks[i]);
	assert_int_equal(wire_segs_total(&r), SAMPLE_VALUE_LEN);
	assert_int_equal(r.tail_len, SAMPLE_KEY_LEN);
	assert_memory_equal(r.tail, SAMPLE_KEY, SAMPLE_KEY_LEN);
}

static void decode__body_cut_at_every_byte(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_requests); i++) {
		struct wire_header h;

		build(&sample_requests[i]);
		h = sample_header(buffer);
		for (uint32_t full = h.body_len, len = 0; len < full; len++) {
			h.body_len = len;
			if (decode(&h) != -EBADMSG)
				fail_msg("%s cut to %u", sample_requests[i].name, len);
		}
	}
}

static void decode__body_with_bytes_behind_it(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_requests); i++) {
		struct wire_header h;
		uint32_t full;

		memset(buffer, 0, sizeof(buffer));
		build(&sample_requests[i]);
		h = sample_header(buffer);
		full = h.body_len;
		for (uint32_t more = 1; more <= 64; more++) {
			h.body_len = full + more;
			if (decode(&h) != -EBADMSG)
				fail_msg("%s and %u bytes", sample_requests[i].name, more);
		}
	}
}

static void decode__header_fields_that_a_request_has_not(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample_requests); i++) {
		struct wire_header good, h;

		build(&sample_requests[i]);
		good = sample_header(buffer);
		for (int bit = 0; bit < 16; bit++) {
			h = good;
			h.flags = (uint16_t)(1u << bit);
			assert_int_equal(decode(&h), h.flags == WIRE_LAST ? 0 : -EBADMSG);
			h = good;
			h.status = (uint16_t)(1u << bit);
			assert_int_equal(decode(&h), -EBADMSG);
			h = good;
			h.reserved = (uint16_t)(1u << bit);
			assert_int_equal(decode(&h), -EBADMSG);
		}
		h = good;
		h.payload_len++;
		assert_int_equal(decode(&h), -EBADMSG);
		h.payload_len = good.payload_len ? 0 : UINT32_MAX;
		assert_int_equal(decode(&h), -EBADMSG);
		h = good;
		h.op = LARDER_OP_MAX;
		assert_int_equal(decode(&h), -EBADMSG);
	}
}

/* One field of one sample set to a value that it must not have. */
struct bend {
	const char *sample;
	size_t offset;
	size_t size;
	uint64_t value;
};
#define BEND(sample, type, field, value)                                                           \
	{ sample, offsetof(struct type, field), sizeof(((struct type *)0)->field), value }
#define SEG(sample, type, i, field, value)                                                         \
	{ sample, sizeof(struct type) + i * sizeof(struct wire_seg) +                              \
	  offsetof(struct wire_seg, field), sizeof(((struct wire_seg *)0)->field), value }

static const struct bend bends[] = {
	BEND("hello", wire_hello, version_min, 2),
	BEND("hello", wire_hello, tenant_len, 5),
	BEND("hello", wire_hello, tenant_len, 33),
	BEND("hello", wire_hello, tenant_len, 255),
	BEND("hello", wire_hello, tenant[0], 'D'),
	BEND("hello", wire_hello, tenant[3], '/'),
	BEND("hello", wire_hello, reserved, 1),
	BEND("hello-viewer", wire_hello, tenant_len, 33),
	BEND("ns-create", wire_ns_open, name_len, 0),
	BEND("ns-create", wire_ns_open, name_len, UINT16_MAX),
	BEND("ns-create", wire_ns_open, has_descriptor, 2),
	BEND("ns-create", wire_ns_open, admission, 3),
	BEND("ns-open", wire_ns_open, admission, 1),
	BEND("ns-list", wire_ns_list, reserved, 1),
	BEND("ns-flush", wire_ns_flush, flags, LARDER_F_FORCE | LARDER_F_WAIT),
	BEND("ns-retire", wire_ns_flush, flags, LARDER_F_WAIT),
	BEND("region-add", wire_region_add, opaque_len, UINT32_MAX),
	BEND("region-add", wire_region_add, size_bytes, 0),
	BEND("region-del", wire_region_del, reserved, 1),
	BEND("put-inline", wire_put, length, 0),
	BEND("put-inline", wire_put, length, SAMPLE_VALUE_LEN + 1),
	BEND("put-inline", wire_put, length, UINT64_MAX),
	BEND("put-inline", wire_put, n_checks, 2),
	BEND("put-inline", wire_put, n_checks, UINT32_MAX),
	BEND("put-inline", wire_put, n_checks, 0x40000003),
	BEND("put-inline", wire_put, n_segs, UINT16_MAX),
	BEND("put-inline", wire_put, key_len, 0),
	BEND("put-inline", wire_put, key_len, UINT16_MAX),
	BEND("put-inline", wire_put, c.flags, LARDER_F_BY_HASH),
	BEND("put-inline", wire_put, c.flags, LARDER_F_CHECKED_BY_NODE),
	BEND("put-inline", wire_put, c.flags, LARDER_F_NO_TOUCH),
	BEND("put-inline", wire_put, c.flags, 1u << 31),
	BEND("put-segs", wire_put, length, SAMPLE_VALUE_LEN - 1),
	BEND("put-segs", wire_put, length, SAMPLE_VALUE_LEN + 1),
	BEND("put-segs", wire_put, n_segs, 1),
	SEG("put-segs", wire_put, 0, length, 0),
	SEG("put-segs", wire_put, 1, length, 6),
	SEG("put-segs", wire_put, 1, offset, UINT64_MAX),
	SEG("put-segs", wire_put, 0, offset, UINT64_MAX - 4096),
	BEND("put-begin", wire_put, length, 0),
	BEND("put-begin", wire_put, n_checks, 3),
	BEND("put-begin", wire_put, n_segs, 1),
	BEND("put-part-inline", wire_put_part, length, 0),
	BEND("put-part-inline", wire_put_part, length, 18),
	BEND("put-part-inline", wire_put_part, offset, UINT64_MAX - 16),
	BEND("put-part-inline", wire_put_part, n_segs, 1),
	BEND("put-part-inline", wire_put_part, n_segs, 0x10000000),
	BEND("put-part-segs", wire_put_part, n_segs, 1),
	BEND("put-part-segs", wire_put_part, n_segs, UINT32_MAX),
	BEND("put-part-segs", wire_put_part, length, 1),
	SEG("put-part-segs", wire_put_part, 1, length, 0),
	BEND("put-commit", wire_put_commit, n_checks, 0),
	BEND("put-commit", wire_put_commit, n_checks, 0x40000003),
	BEND("put-commit", wire_put_commit, reserved, 1),
	BEND("get-inline", wire_get, offset, 1),
	BEND("get-inline", wire_get, length, 0),
	BEND("get-inline", wire_get, length, UINT64_MAX),
	BEND("get-inline", wire_get, key_len, 0),
	BEND("get-inline", wire_get, n_segs, 1),
	BEND("get-inline", wire_get, c.flags, LARDER_F_BY_HASH),
	BEND("get-whole", wire_get, offset, LARDER_CHECK_BLOCK),
	BEND("get-whole", wire_get, length, SAMPLE_VALUE_LEN + 1),
	BEND("get-whole", wire_get, room, SAMPLE_VALUE_LEN + 1),
	SEG("get-whole", wire_get, 0, length, 0),
	SEG("get-whole", wire_get, 1, length, 4),
	BEND("get-by-hash", wire_get, key_len, 15),
	BEND("get-by-hash", wire_get, c.flags, LARDER_F_BY_HASH),
	BEND("exists", wire_keys, n_keys, 0),
	BEND("exists", wire_keys, n_keys, 4),
	BEND("exists", wire_keys, n_keys, 6),
	BEND("exists", wire_keys, n_keys, UINT32_MAX),
	BEND("exists", wire_keys, c.batch_index, UINT32_MAX - 4),
	BEND("exists", wire_keys, c.flags, LARDER_F_BY_HASH),
	{ "exists", sizeof(struct wire_keys), 2, 0 },
	{ "exists", sizeof(struct wire_keys), 2, 2 },
	{ "exists", sizeof(struct wire_keys), 2, UINT16_MAX },
	BEND("lease", wire_keys, n_keys, 0),
	BEND("release", wire_keys, n_keys, 0),
	BEND("release-all", wire_keys, n_keys, 1),
	BEND("pin", wire_keys, c.flags, LARDER_F_BY_HASH),
	BEND("stat", wire_keys, n_keys, 0),
	BEND("delete", wire_keys, c.flags, LARDER_F_BY_HASH),
	BEND("list", wire_list, prefix_len, 5),
	BEND("list", wire_list, prefix_len, UINT32_MAX),
	BEND("list", wire_list, c.flags, LARDER_F_BY_HASH),
};

static void decode__field_out_of_its_range(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(bends); i++) {
		const struct bend *b = &bends[i];

		build(find(b->sample));
		assert_int_equal(decode_built(), 0);
		memcpy(buffer + WIRE_HEADER_SIZE + b->offset, &b->value, b->size);
		if (decode_built() != -EBADMSG)
			fail_msg("%s: %#jx at %zu was taken", b->sample,
				 (uintmax_t)b->value, b->offset);
	}
}

static const struct bend edges[] = {
	BEND("hello", wire_hello, tenant[0], 'a'),
	BEND("hello", wire_hello, tenant[0], 'z'),
	BEND("hello", wire_hello, tenant[0], '0'),
	BEND("hello", wire_hello, tenant[0], '9'),
	BEND("hello", wire_hello, tenant[0], '-'),
	BEND("hello", wire_hello, tenant_len, 0),
	BEND("hello", wire_hello, version_max, UINT16_MAX),
	BEND("put-part-inline", wire_put_part, offset, UINT64_MAX - 17),
	SEG("put-segs", wire_put, 1, offset, UINT64_MAX - 5),
	BEND("get-by-hash", wire_get, offset, UINT64_MAX - 1000),
	BEND("get-whole", wire_get, room, 0),
	BEND("get-whole", wire_get, length, 0),
	BEND("exists", wire_keys, c.batch_index, UINT32_MAX - 5),
	BEND("exists", wire_keys, c.flags, WIRE_CLIENT_FLAGS & ~LARDER_F_BY_HASH),
};

static void decode__field_at_the_edge_of_its_range(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(edges); i++) {
		const struct bend *b = &edges[i];

		build(find(b->sample));
		memcpy(buffer + WIRE_HEADER_SIZE + b->offset, &b->value, b->size);
		if (decode_built() != 0)
			fail_msg("%s: %#jx at %zu was refused", b->sample,
				 (uintmax_t)b->value, b->offset);
	}
}

/* --- limits, in messages that are right in everything else ------------------------------------ */

static char long_key[LARDER_KEY_MAX + 1];

static void put_key_of(struct wire_writer *w, uint16_t len, int want)
{
	struct wire_put m = sample_put(0, 3);

	m.key_len = len;
	wire_begin(w, buffer, sizeof(buffer));
	assert_true(wire_put_encode(w, LARDER_OP_PUT, 0, 1, &m, NULL, sample_checks, long_key) > 0);
	assert_int_equal(decode_built(), want);
}

static void decode__key_length_at_its_limits(void **state)
{
	struct wire_writer w;
	struct wire_keys keys = { .n_keys = 1 };

	put_key_of(&w, 0, -EBADMSG);
	put_key_of(&w, 1, 0);
	put_key_of(&w, LARDER_KEY_MAX, 0);
	put_key_of(&w, LARDER_KEY_MAX + 1, -EBADMSG);
	for (uint16_t len = 0; len <= LARDER_KEY_MAX + 1; len++) {
		bool good = len >= 1 && len <= LARDER_KEY_MAX;

		wire_begin(&w, buffer, sizeof(buffer));
		wire_append(&w, &keys, sizeof(keys));
		wire_append_key(&w, long_key, len);
		assert_true(wire_finish(&w, LARDER_OP_EXISTS, 0, 0, 1, 0) > 0);
		assert_int_equal(decode_built(), good ? 0 : -EBADMSG);
	}
}

static void decode__number_of_keys_at_its_limits(void **state)
{
	static const struct {
		uint8_t op;
		uint32_t max;
	} ops[] = {
		{ LARDER_OP_EXISTS, WIRE_KEYS_MAX }, { LARDER_OP_LEASE, WIRE_KEYS_MAX },
		{ LARDER_OP_RELEASE, WIRE_KEYS_MAX }, { LARDER_OP_PIN, WIRE_KEYS_MAX },
		{ LARDER_OP_UNPIN, WIRE_KEYS_MAX }, { LARDER_OP_DELETE, WIRE_KEYS_MAX },
		{ LARDER_OP_STAT, WIRE_STAT_KEYS_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		for (uint32_t n = ops[i].max; n <= ops[i].max + 1; n++) {
			struct wire_keys m = { .n_keys = n };
			struct wire_writer w;

			wire_begin(&w, buffer, sizeof(buffer));
			wire_append(&w, &m, sizeof(m));
			for (uint32_t k = 0; k < n; k++)
				wire_append_key(&w, "k", 1);
			assert_true(wire_finish(&w, ops[i].op, 0, 0, 1, 0) > 0);
			assert_int_equal(decode_built(), n <= ops[i].max ? 0 : -EBADMSG);
		}
	}
	/* the answer to the largest STAT is a message */
	assert_true(WIRE_HEADER_SIZE + sizeof(struct wire_stats_done) +
		    WIRE_STAT_KEYS_MAX * sizeof(struct wire_stat) <= WIRE_MESSAGE_MAX);
}

static void decode__number_of_segments_at_its_limit(void **state)
{
	struct wire_seg segs[WIRE_SEGS_MAX + 1];

	for (uint32_t i = 0; i <= WIRE_SEGS_MAX; i++)
		segs[i] = (struct wire_seg){ .region = i, .length = 1, .offset = i };
	for (uint32_t n = WIRE_SEGS_MAX; n <= WIRE_SEGS_MAX + 1; n++) {
		struct wire_get get = { .length = n, .n_segs = (uint16_t)n, .key_len = 1 };
		struct wire_put_part part = { .length = n, .n_segs = n };
		int want = n <= WIRE_SEGS_MAX ? 0 : -EBADMSG;
		struct wire_writer w;

		wire_begin(&w, buffer, sizeof(buffer));
		wire_append(&w, &get, sizeof(get));
		wire_append(&w, segs, n * (uint32_t)sizeof(*segs));
		wire_append(&w, "k", 1);
		assert_true(wire_finish(&w, LARDER_OP_GET, 0, 0, 1, 0) > 0);
		assert_int_equal(decode_built(), want);

		wire_begin(&w, buffer, sizeof(buffer));
		wire_append(&w, &part, sizeof(part));
		wire_append(&w, segs, n * (uint32_t)sizeof(*segs));
		assert_true(wire_finish(&w, LARDER_OP_PUT_PART, 0, 0, 1, 0) > 0);
		assert_int_equal(decode_built(), want);
	}
}

/* A request with @len bytes of tail, @m in front of it. */
static int decode_tail(uint8_t op, const void *m, uint32_t size, const void *tail, uint32_t len)
{
	struct wire_writer w;

	wire_begin(&w, buffer, sizeof(buffer));
	wire_append(&w, m, size);
	wire_append(&w, tail, len);
	assert_true(wire_finish(&w, op, 0, 0, 1, 0) > 0);
	return decode_built();
}

static void decode__tail_at_its_limits(void **state)
{
	struct wire_list list = { .prefix_len = 0 };
	struct wire_region_add add = { .size_bytes = 1 };
	struct wire_ns_open ns = { .name_len = 0 };

	assert_int_equal(decode_tail(LARDER_OP_LIST, &list, sizeof(list), long_key, 0), 0);
	list.prefix_len = LARDER_KEY_MAX;
	assert_int_equal(decode_tail(LARDER_OP_LIST, &list, sizeof(list), long_key,
				     LARDER_KEY_MAX), 0);
	list.prefix_len++;
	assert_int_equal(decode_tail(LARDER_OP_LIST, &list, sizeof(list), long_key,
				     LARDER_KEY_MAX + 1), -EBADMSG);

	assert_int_equal(decode_tail(LARDER_OP_REGION_ADD, &add, sizeof(add), long_key, 0), 0);
	add.opaque_len = WIRE_OPAQUE_MAX;
	assert_int_equal(decode_tail(LARDER_OP_REGION_ADD, &add, sizeof(add), long_key,
				     WIRE_OPAQUE_MAX), 0);
	add.opaque_len++;
	assert_int_equal(decode_tail(LARDER_OP_REGION_ADD, &add, sizeof(add), long_key,
				     WIRE_OPAQUE_MAX + 1), -EBADMSG);

	for (uint16_t len = LARDER_NS_NAME_MAX; len <= LARDER_NS_NAME_MAX + 1; len++) {
		int want = len <= LARDER_NS_NAME_MAX ? 0 : -EBADMSG;

		ns.name_len = len;
		assert_int_equal(decode_tail(LARDER_OP_NS_OPEN, &ns, sizeof(ns), long_key, len),
				 want);
		assert_int_equal(decode_tail(LARDER_OP_NS_CREATE, &ns, sizeof(ns), long_key, len),
				 want);
	}
}

/* @tenant bytes, a ':' and @name bytes. */
static int decode_qualified(uint8_t op, uint32_t tenant, uint32_t name)
{
	struct wire_ns_open m = { .name_len = (uint16_t)(tenant + 1 + name) };
	char text[256];

	memset(text, 'a', sizeof(text));
	text[tenant] = ':';
	return decode_tail(op, &m, sizeof(m), text, m.name_len);
}

static void decode__name_of_another_tenants_namespace(void **state)
{
	assert_int_equal(decode_qualified(LARDER_OP_NS_OPEN, 1, 1), 0);
	assert_int_equal(decode_qualified(LARDER_OP_NS_OPEN, 32, 128), 0);
	assert_int_equal(decode_qualified(LARDER_OP_NS_OPEN, 0, 1), -EBADMSG);
	assert_int_equal(decode_qualified(LARDER_OP_NS_OPEN, 33, 1), -EBADMSG);
	assert_int_equal(decode_qualified(LARDER_OP_NS_OPEN, 1, 0), -EBADMSG);
	assert_int_equal(decode_qualified(LARDER_OP_NS_OPEN, 1, 129), -EBADMSG);
	/* nothing is created there, so the whole has the length of a name */
	assert_int_equal(decode_qualified(LARDER_OP_NS_CREATE, 32, 128), -EBADMSG);
}

/* --- lists of keys ---------------------------------------------------------------------------- */

static void keys_decode__gives_every_key(void **state)
{
	struct larder_op_key keys[5];
	struct wire_request r;
	struct wire_header h;

	build(find("exists"));
	h = sample_header(buffer);
	assert_int_equal(wire_request_decode(&h, buffer + WIRE_HEADER_SIZE, &r), 0);
	memset(keys, 0xff, sizeof(keys));
	assert_int_equal(wire_keys_decode(&r, keys, 5), 5);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(keys[i].key_len, i + 1);
		assert_memory_equal(keys[i].key, "kkkkk", (size_t)i + 1);
		assert_int_equal(keys[i].status, 0);
		assert_int_equal(keys[i].presence, 0);
	}
	assert_int_equal(wire_keys_decode(&r, keys, 4), -EBADMSG);

	build(find("release-all"));
	h = sample_header(buffer);
	assert_int_equal(wire_request_decode(&h, buffer + WIRE_HEADER_SIZE, &r), 0);
	assert_int_equal(wire_keys_decode(&r, keys, 5), 0);
}

/* Whoever changes the request between the two calls is not believed either. */
static void keys_decode__list_that_does_not_hold(void **state)
{
	struct larder_op_key keys[8];
	struct wire_request r, bent;
	struct wire_header h;

	build(find("exists"));
	h = sample_header(buffer);
	assert_int_equal(wire_request_decode(&h, buffer + WIRE_HEADER_SIZE, &r), 0);
	for (uint32_t len = 0; len < r.tail_len; len++) {
		bent = r;
		bent.tail_len = len;
		assert_int_equal(wire_keys_decode(&bent, keys, 8), -EBADMSG);
	}
	bent = r;
	bent.u.keys.n_keys = 4;
	assert_int_equal(wire_keys_decode(&bent, keys, 8), -EBADMSG);
	bent.u.keys.n_keys = 6;
	assert_int_equal(wire_keys_decode(&bent, keys, 8), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation__has_a_sample_and_a_size),
		cmocka_unit_test(decode__gives_back_what_was_written),
		cmocka_unit_test(decode__put_parts),
		cmocka_unit_test(decode__body_cut_at_every_byte),
		cmocka_unit_test(decode__body_with_bytes_behind_it),
		cmocka_unit_test(decode__header_fields_that_a_request_has_not),
		cmocka_unit_test(decode__field_out_of_its_range),
		cmocka_unit_test(decode__field_at_the_edge_of_its_range),
		cmocka_unit_test(decode__key_length_at_its_limits),
		cmocka_unit_test(decode__number_of_keys_at_its_limits),
		cmocka_unit_test(decode__number_of_segments_at_its_limit),
		cmocka_unit_test(decode__tail_at_its_limits),
		cmocka_unit_test(decode__name_of_another_tenants_namespace),
		cmocka_unit_test(keys_decode__gives_every_key),
		cmocka_unit_test(keys_decode__list_that_does_not_hold),
	};

	memset(long_key, 'x', sizeof(long_key));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
