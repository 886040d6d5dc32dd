/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One well-formed message of every kind, by name. The unit tests bend them, the fuzzers start from
 * them. A new operation gets its samples here; test_request and test_reply fail until it has.
 */
#ifndef TESTS_UNIT_WIRE_SAMPLES_H
#define TESTS_UNIT_WIRE_SAMPLES_H

#include <stdint.h>
#include <string.h>

#include <larder/status.h>

#include "base/compiler.h"
#include "wire/encode.h"

#define SAMPLE_ID 0x1122334455667788ull
#define SAMPLE_KEY "block/0001"
#define SAMPLE_KEY_LEN 10u
#define SAMPLE_HASH "0123456789abcdef"
#define SAMPLE_VALUE_LEN (2ull * LARDER_CHECK_BLOCK + 5)

struct sample {
	const char *name;
	uint8_t op;
	int (*build)(struct wire_writer *w);	/* as wire_finish */
};

static const struct wire_common sample_common = {
	.batch = 7, .batch_index = 3, .deadline_ms = 1000, .ns = 5,
};

static const uint32_t sample_checks[3] = { 0x11111111, 0x22222222, 0x33333333 };

static const struct wire_seg sample_segs[2] = {
	{ .region = 1, .length = 2 * LARDER_CHECK_BLOCK, .offset = 4096 },
	{ .region = 2, .length = 5, .offset = 1 },
};

/* --- requests -------------------------------------------------------------------------------- */

static int sample_request(struct wire_writer *w, uint8_t op, const void *body, uint32_t len)
{
	wire_append(w, body, len);
	return wire_finish(w, op, 0, 0, SAMPLE_ID, 0);
}

static int sample_hello(struct wire_writer *w)
{
	struct wire_hello m = {
		.version_min = 1, .version_max = 1, .tenant_len = 4, .tenant = "demo",
		.check_block = LARDER_CHECK_BLOCK, .keepalive_ms = 5000,
	};

	memset(m.nonce, 0xa5, sizeof(m.nonce));
	return sample_request(w, LARDER_OP_HELLO, &m, sizeof(m));
}

static int sample_hello_viewer(struct wire_writer *w)
{
	struct wire_hello m = {
		.version_min = 1, .version_max = 3, .role = WIRE_ROLE_VIEWER,
		.check_block = LARDER_CHECK_BLOCK,
	};

	return sample_request(w, LARDER_OP_HELLO, &m, sizeof(m));
}

static int sample_auth(struct wire_writer *w)
{
	struct wire_auth m = { .mac = { 1, 2, 3 } };

	return sample_request(w, LARDER_OP_AUTH, &m, sizeof(m));
}

static int sample_ping(struct wire_writer *w)
{
	struct wire_ping m = { .token = 42 };

	return sample_request(w, LARDER_OP_PING, &m, sizeof(m));
}

static int sample_cancel(struct wire_writer *w)
{
	struct wire_cancel m = { .request_id = 41 };

	return sample_request(w, LARDER_OP_CANCEL, &m, sizeof(m));
}

static int sample_named(struct wire_writer *w, uint8_t op, const char *name, bool described)
{
	struct wire_ns_open m = {
		.name_len = (uint16_t)strlen(name), .has_descriptor = described,
	};

	if (described)
		memcpy(m.descriptor.model, "llama", 5);
	wire_append(w, &m, sizeof(m));
	wire_append(w, name, m.name_len);
	return wire_finish(w, op, 0, 0, SAMPLE_ID, 0);
}

static int sample_ns_create(struct wire_writer *w)
{
	return sample_named(w, LARDER_OP_NS_CREATE, "llama-3.1-8b@r7", true);
}

static int sample_ns_open(struct wire_writer *w)
{
	return sample_named(w, LARDER_OP_NS_OPEN, "n", false);
}

static int sample_ns_open_other(struct wire_writer *w)
{
	return sample_named(w, LARDER_OP_NS_OPEN, "demo:llama", false);
}

static int sample_ns_list(struct wire_writer *w)
{
	struct wire_ns_list m = { .cursor = 9, .max = 100 };

	return sample_request(w, LARDER_OP_NS_LIST, &m, sizeof(m));
}

static int sample_ns_flush(struct wire_writer *w)
{
	struct wire_ns_flush m = { .ns = 5, .flags = LARDER_F_FORCE };

	return sample_request(w, LARDER_OP_NS_FLUSH, &m, sizeof(m));
}

static int sample_ns_retire(struct wire_writer *w)
{
	struct wire_ns_flush m = { .ns = 5 };

	return sample_request(w, LARDER_OP_NS_RETIRE, &m, sizeof(m));
}

static int sample_region_add(struct wire_writer *w)
{
	struct wire_region_add m = { .region = 1, .opaque_len = 12, .size_bytes = 1 << 20 };

	wire_append(w, &m, sizeof(m));
	wire_append(w, "rkey+address", 12);
	return wire_finish(w, LARDER_OP_REGION_ADD, 0, 0, SAMPLE_ID, 0);
}

static int sample_region_del(struct wire_writer *w)
{
	struct wire_region_del m = { .region = 1 };

	return sample_request(w, LARDER_OP_REGION_DEL, &m, sizeof(m));
}

static struct wire_put sample_put(uint16_t n_segs, uint32_t n_checks)
{
	return (struct wire_put){
		.c = sample_common, .length = SAMPLE_VALUE_LEN, .digest = 0xabcdef, .ttl_ms = 60000,
		.n_checks = n_checks, .n_segs = n_segs, .key_len = SAMPLE_KEY_LEN,
	};
}

static int sample_put_inline(struct wire_writer *w)
{
	struct wire_put m = sample_put(0, 3);

	m.c.flags = LARDER_F_NOWAIT;
	return wire_put_encode(w, LARDER_OP_PUT, WIRE_LAST, SAMPLE_ID, &m, NULL, sample_checks,
			       SAMPLE_KEY);
}

static int sample_put_segs(struct wire_writer *w)
{
	struct wire_put m = sample_put(2, 3);

	m.gate = 4;
	return wire_put_encode(w, LARDER_OP_PUT, 0, SAMPLE_ID, &m, sample_segs, sample_checks,
			       SAMPLE_KEY);
}

static int sample_put_begin(struct wire_writer *w)
{
	struct wire_put m = sample_put(0, 0);

	return wire_put_encode(w, LARDER_OP_PUT_BEGIN, 0, SAMPLE_ID, &m, NULL, NULL, SAMPLE_KEY);
}

static int sample_put_part_inline(struct wire_writer *w)
{
	struct wire_put_part m = { .c = sample_common, .put = 8, .offset = 4096, .length = 17 };

	return wire_put_part_encode(w, SAMPLE_ID, &m, NULL);
}

static int sample_put_part_segs(struct wire_writer *w)
{
	struct wire_put_part m = {
		.c = sample_common, .put = 8, .length = SAMPLE_VALUE_LEN, .n_segs = 2,
	};

	return wire_put_part_encode(w, SAMPLE_ID, &m, sample_segs);
}

static int sample_put_commit(struct wire_writer *w)
{
	struct wire_put_commit m = { .c = sample_common, .put = 8, .n_checks = 3 };

	wire_append(w, &m, sizeof(m));
	wire_append(w, sample_checks, sizeof(sample_checks));
	return wire_finish(w, LARDER_OP_PUT_COMMIT, 0, 0, SAMPLE_ID, 0);
}

static int sample_put_abort(struct wire_writer *w)
{
	struct wire_put_abort m = { .put = 8 };

	return sample_request(w, LARDER_OP_PUT_ABORT, &m, sizeof(m));
}

static int sample_get_inline(struct wire_writer *w)
{
	struct wire_get m = {
		.c = sample_common, .offset = LARDER_CHECK_BLOCK, .length = 1000,
		.key_len = SAMPLE_KEY_LEN,
	};

	return wire_get_encode(w, 0, SAMPLE_ID, &m, NULL, SAMPLE_KEY);
}

static int sample_get_whole(struct wire_writer *w)
{
	struct wire_get m = {
		.c = sample_common, .length = SAMPLE_VALUE_LEN, .room = SAMPLE_VALUE_LEN, .gate = 3,
		.n_segs = 2, .key_len = SAMPLE_KEY_LEN,
	};

	m.c.flags = LARDER_F_WHOLE | LARDER_F_WAIT;
	return wire_get_encode(w, WIRE_LAST, SAMPLE_ID, &m, sample_segs, SAMPLE_KEY);
}

static int sample_get_by_hash(struct wire_writer *w)
{
	struct wire_get m = {
		.c = sample_common, .offset = 17, .length = 1000, .key_len = LARDER_KEY_HASH_SIZE,
	};

	m.c.flags = LARDER_F_BY_HASH | LARDER_F_NO_CHECKS;
	return wire_get_encode(w, 0, SAMPLE_ID, &m, NULL, SAMPLE_HASH);
}

/* Keys "k", "kk", "kkk" and so on. */
static int sample_keys(struct wire_writer *w, uint8_t op, uint32_t flags, uint32_t n)
{
	struct wire_keys m = {
		.c = sample_common, .lease_id = 77, .lease_ms = 2000, .n_keys = n,
	};
	char key[LARDER_KEY_MAX];

	memset(key, 'k', sizeof(key));
	m.c.flags = flags;
	wire_append(w, &m, sizeof(m));
	for (uint32_t i = 0; i < n; i++) {
		if (flags & LARDER_F_BY_HASH)
			wire_append_key(w, SAMPLE_HASH, LARDER_KEY_HASH_SIZE);
		else
			wire_append_key(w, key, (uint16_t)(i % LARDER_KEY_MAX + 1));
	}
	return wire_finish(w, op, 0, 0, SAMPLE_ID, 0);
}

static int sample_exists(struct wire_writer *w)
{
	return sample_keys(w, LARDER_OP_EXISTS, LARDER_F_LEASE | LARDER_F_WAIT, 5);
}

static int sample_lease(struct wire_writer *w)
{
	return sample_keys(w, LARDER_OP_LEASE, 0, 1);
}

static int sample_release(struct wire_writer *w)
{
	return sample_keys(w, LARDER_OP_RELEASE, 0, 2);
}

static int sample_release_all(struct wire_writer *w)
{
	return sample_keys(w, LARDER_OP_RELEASE, 0, 0);
}

static int sample_pin(struct wire_writer *w)
{
	return sample_keys(w, LARDER_OP_PIN, LARDER_F_HARD, 3);
}

static int sample_unpin(struct wire_writer *w)
{
	return sample_keys(w, LARDER_OP_UNPIN, 0, 3);
}

static int sample_stat(struct wire_writer *w)
{
	return sample_keys(w, LARDER_OP_STAT, LARDER_F_BY_HASH, 3);
}

static int sample_delete(struct wire_writer *w)
{
	return sample_keys(w, LARDER_OP_DELETE, LARDER_F_FORCE, 3);
}

static int sample_list(struct wire_writer *w)
{
	struct wire_list m = { .c = sample_common, .cursor = 1, .max = 50, .prefix_len = 6 };

	wire_append(w, &m, sizeof(m));
	wire_append(w, "block/", 6);
	return wire_finish(w, LARDER_OP_LIST, 0, 0, SAMPLE_ID, 0);
}

static const struct sample sample_requests[] = {
	{ "hello", LARDER_OP_HELLO, sample_hello },
	{ "hello-viewer", LARDER_OP_HELLO, sample_hello_viewer },
	{ "auth", LARDER_OP_AUTH, sample_auth },
	{ "ping", LARDER_OP_PING, sample_ping },
	{ "cancel", LARDER_OP_CANCEL, sample_cancel },
	{ "ns-create", LARDER_OP_NS_CREATE, sample_ns_create },
	{ "ns-open", LARDER_OP_NS_OPEN, sample_ns_open },
	{ "ns-open-other", LARDER_OP_NS_OPEN, sample_ns_open_other },
	{ "ns-list", LARDER_OP_NS_LIST, sample_ns_list },
	{ "ns-flush", LARDER_OP_NS_FLUSH, sample_ns_flush },
	{ "ns-retire", LARDER_OP_NS_RETIRE, sample_ns_retire },
	{ "region-add", LARDER_OP_REGION_ADD, sample_region_add },
	{ "region-del", LARDER_OP_REGION_DEL, sample_region_del },
	{ "put-inline", LARDER_OP_PUT, sample_put_inline },
	{ "put-segs", LARDER_OP_PUT, sample_put_segs },
	{ "put-begin", LARDER_OP_PUT_BEGIN, sample_put_begin },
	{ "put-part-inline", LARDER_OP_PUT_PART, sample_put_part_inline },
	{ "put-part-segs", LARDER_OP_PUT_PART, sample_put_part_segs },
	{ "put-commit", LARDER_OP_PUT_COMMIT, sample_put_commit },
	{ "put-abort", LARDER_OP_PUT_ABORT, sample_put_abort },
	{ "get-inline", LARDER_OP_GET, sample_get_inline },
	{ "get-whole", LARDER_OP_GET, sample_get_whole },
	{ "get-by-hash", LARDER_OP_GET, sample_get_by_hash },
	{ "exists", LARDER_OP_EXISTS, sample_exists },
	{ "lease", LARDER_OP_LEASE, sample_lease },
	{ "release", LARDER_OP_RELEASE, sample_release },
	{ "release-all", LARDER_OP_RELEASE, sample_release_all },
	{ "pin", LARDER_OP_PIN, sample_pin },
	{ "unpin", LARDER_OP_UNPIN, sample_unpin },
	{ "stat", LARDER_OP_STAT, sample_stat },
	{ "list", LARDER_OP_LIST, sample_list },
	{ "delete", LARDER_OP_DELETE, sample_delete },
};

/* The messages, unsealed of their writer: header by value, body as it lies in @buffer. */
static inline struct wire_header sample_header(const uint8_t *buffer)
{
	struct wire_header h;

	memcpy(&h, buffer, sizeof(h));
	return h;
}

#endif
