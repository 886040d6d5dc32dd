/* SPDX-License-Identifier: Apache-2.0 */
/* One well-formed reply of every kind, by name: the other half of samples.h. */
#ifndef TESTS_UNIT_WIRE_SAMPLES_REPLY_H
#define TESTS_UNIT_WIRE_SAMPLES_REPLY_H

#include "samples.h"

static int reply_sample(struct wire_writer *w, uint8_t op, uint16_t status, const void *body,
			uint32_t len, const void *tail, uint32_t tail_len)
{
	wire_append(w, body, len);
	wire_append(w, tail, tail_len);
	return wire_finish(w, op, WIRE_REPLY, status, SAMPLE_ID, 0);
}

static int reply_sample_none(struct wire_writer *w, uint8_t op)
{
	struct wire_none m = { 0 };

	return reply_sample(w, op, LARDER_OK, &m, sizeof(m), NULL, 0);
}

static int reply_sample_challenge(struct wire_writer *w)
{
	struct wire_challenge m = { .version = 1, .nonce = { 9, 8, 7 } };

	return reply_sample(w, LARDER_OP_HELLO, LARDER_OK, &m, sizeof(m), NULL, 0);
}

static int reply_sample_welcome(struct wire_writer *w)
{
	struct wire_welcome m = {
		.mac = { 5 }, .boot_nonce = 1, .max_value_bytes = 256u << 20,
		.max_region_bytes = 1u << 30, .max_message = WIRE_MESSAGE_MAX, .credits = 64,
		.page_size = 65536, .check_block = LARDER_CHECK_BLOCK, .keepalive_ms = 30000,
		.lease_max_ms = 60000, .tenant = 1, .capabilities = WIRE_CAP_ONE_SIDED,
	};

	return reply_sample(w, LARDER_OP_AUTH, LARDER_OK, &m, sizeof(m), NULL, 0);
}

static int reply_sample_ping(struct wire_writer *w)
{
	struct wire_ping m = { .token = 42 };

	return reply_sample(w, LARDER_OP_PING, LARDER_OK, &m, sizeof(m), NULL, 0);
}

static int reply_sample_cancel(struct wire_writer *w)
{
	return reply_sample_none(w, LARDER_OP_CANCEL);
}

static int reply_sample_ns_create(struct wire_writer *w)
{
	struct wire_ns_opened m = { .ns = 5, .flags = 1, .descriptor = { .model = "llama" } };

	return reply_sample(w, LARDER_OP_NS_CREATE, LARDER_OK, &m, sizeof(m), NULL, 0);
}

static int reply_sample_ns_open(struct wire_writer *w)
{
	struct wire_ns_opened m = { .ns = 5 };

	return reply_sample(w, LARDER_OP_NS_OPEN, LARDER_OK, &m, sizeof(m), NULL, 0);
}

static int reply_sample_ns_list(struct wire_writer *w)
{
	struct wire_ns_listed m = { .cursor = 12, .count = 2 };
	struct wire_ns_entry entry = { .ns = 5, .name_len = 5, .objects = 10, .bytes = 1000 };

	wire_append(w, &m, sizeof(m));
	wire_append(w, &entry, sizeof(entry));
	wire_append(w, "llama", 5);
	wire_append(w, &entry, sizeof(entry));
	return reply_sample(w, LARDER_OP_NS_LIST, LARDER_OK, "qwen2", 5, NULL, 0);
}

static int reply_sample_ns_flush(struct wire_writer *w)
{
	struct wire_ns_flushed m = { .objects = 10, .bytes = 1000, .kept = 1 };

	return reply_sample(w, LARDER_OP_NS_FLUSH, LARDER_OK, &m, sizeof(m), NULL, 0);
}

static int reply_sample_ns_retire(struct wire_writer *w)
{
	struct wire_ns_flushed m = { .objects = 3, .bytes = 300 };

	return reply_sample(w, LARDER_OP_NS_RETIRE, LARDER_OK, &m, sizeof(m), NULL, 0);
}

static int reply_sample_region_add(struct wire_writer *w)
{
	return reply_sample_none(w, LARDER_OP_REGION_ADD);
}

static int reply_sample_region_del(struct wire_writer *w)
{
	return reply_sample_none(w, LARDER_OP_REGION_DEL);
}

static const struct wire_put_done reply_sample_put_done = {
	.size_bytes = SAMPLE_VALUE_LEN, .commit_time_ms = 1700000000000,
};

static int reply_sample_put(struct wire_writer *w)
{
	return reply_sample(w, LARDER_OP_PUT, LARDER_EXISTS_SAME, &reply_sample_put_done,
			    sizeof(reply_sample_put_done), NULL, 0);
}

static int reply_sample_put_commit(struct wire_writer *w)
{
	return reply_sample(w, LARDER_OP_PUT_COMMIT, LARDER_OK, &reply_sample_put_done,
			    sizeof(reply_sample_put_done), NULL, 0);
}

static int reply_sample_put_begin(struct wire_writer *w)
{
	struct wire_put_begun m = { .put = 8, .present = 1 };

	return reply_sample(w, LARDER_OP_PUT_BEGIN, LARDER_OK, &m, sizeof(m), NULL, 0);
}

static int reply_sample_put_part(struct wire_writer *w)
{
	return reply_sample_none(w, LARDER_OP_PUT_PART);
}

static int reply_sample_put_abort(struct wire_writer *w)
{
	return reply_sample_none(w, LARDER_OP_PUT_ABORT);
}

static int reply_sample_get(struct wire_writer *w)
{
	struct wire_got m = {
		.size_bytes = SAMPLE_VALUE_LEN, .offset = LARDER_CHECK_BLOCK,
		.length = LARDER_CHECK_BLOCK + 5, .digest = 0xabcdef, .first_check = 1,
		.n_checks = 2,
	};

	wire_append(w, &m, sizeof(m));
	wire_append(w, sample_checks + 1, 8);
	return wire_finish(w, LARDER_OP_GET, WIRE_REPLY, LARDER_OK, SAMPLE_ID,
			   LARDER_CHECK_BLOCK + 5);
}

static int reply_sample_get_unchecked(struct wire_writer *w)
{
	struct wire_got m = { .size_bytes = 100, .offset = 7, .length = 93 };

	return reply_sample(w, LARDER_OP_GET, LARDER_OK, &m, sizeof(m), NULL, 0);
}

static int reply_sample_statuses(struct wire_writer *w, uint8_t op, uint16_t status)
{
	static const struct wire_key_status keys[3] = {
		{ LARDER_OK, LARDER_LEASED }, { LARDER_OK, LARDER_PRESENT },
		{ LARDER_NOT_FOUND, LARDER_ABSENT },
	};
	struct wire_keys_done m = { .n_keys = 3, .leading_run = 2, .lease_ms = 2000 };

	return reply_sample(w, op, status, &m, sizeof(m), keys, sizeof(keys));
}

static int reply_sample_exists(struct wire_writer *w)
{
	return reply_sample_statuses(w, LARDER_OP_EXISTS, LARDER_OK);
}

static int reply_sample_exists_not_found(struct wire_writer *w)
{
	return reply_sample_statuses(w, LARDER_OP_EXISTS, LARDER_NOT_FOUND);
}

static int reply_sample_lease(struct wire_writer *w)
{
	return reply_sample_statuses(w, LARDER_OP_LEASE, LARDER_OK);
}

static int reply_sample_release(struct wire_writer *w)
{
	return reply_sample_statuses(w, LARDER_OP_RELEASE, LARDER_OK);
}

static int reply_sample_pin(struct wire_writer *w)
{
	return reply_sample_statuses(w, LARDER_OP_PIN, LARDER_OK);
}

static int reply_sample_unpin(struct wire_writer *w)
{
	return reply_sample_statuses(w, LARDER_OP_UNPIN, LARDER_OK);
}

static int reply_sample_delete(struct wire_writer *w)
{
	return reply_sample_statuses(w, LARDER_OP_DELETE, LARDER_NOT_FOUND);
}

static int reply_sample_stat(struct wire_writer *w)
{
	struct wire_stats_done m = { .n_keys = 2 };
	struct wire_stat stats[2] = {
		{ .status = LARDER_OK, .stat = { .size_bytes = 100, .inode = 3 } },
		{ .status = LARDER_NOT_FOUND },
	};

	return reply_sample(w, LARDER_OP_STAT, LARDER_OK, &m, sizeof(m), stats, sizeof(stats));
}

static int reply_sample_list(struct wire_writer *w)
{
	struct wire_listed m = { .cursor = 3, .count = 2 };
	struct wire_list_entry entry = { .stat = { .size_bytes = 100 }, .key_len = 4 };

	wire_append(w, &m, sizeof(m));
	wire_append(w, &entry, sizeof(entry));
	wire_append(w, "key1", 4);
	wire_append(w, &entry, sizeof(entry));
	return reply_sample(w, LARDER_OP_LIST, LARDER_OK, "key2", 4, NULL, 0);
}

static int reply_sample_error(struct wire_writer *w)
{
	return wire_write_error(w, LARDER_OP_GET, LARDER_TOO_SMALL, SAMPLE_ID, 4096, "too small");
}

static int reply_sample_error_bare(struct wire_writer *w)
{
	return wire_write_error(w, LARDER_OP_EXISTS, LARDER_DEADLINE, SAMPLE_ID, 0, "");
}

static const struct sample sample_replies[] = {
	{ "challenge", LARDER_OP_HELLO, reply_sample_challenge },
	{ "welcome", LARDER_OP_AUTH, reply_sample_welcome },
	{ "ping", LARDER_OP_PING, reply_sample_ping },
	{ "cancel", LARDER_OP_CANCEL, reply_sample_cancel },
	{ "ns-create", LARDER_OP_NS_CREATE, reply_sample_ns_create },
	{ "ns-open", LARDER_OP_NS_OPEN, reply_sample_ns_open },
	{ "ns-list", LARDER_OP_NS_LIST, reply_sample_ns_list },
	{ "ns-flush", LARDER_OP_NS_FLUSH, reply_sample_ns_flush },
	{ "ns-retire", LARDER_OP_NS_RETIRE, reply_sample_ns_retire },
	{ "region-add", LARDER_OP_REGION_ADD, reply_sample_region_add },
	{ "region-del", LARDER_OP_REGION_DEL, reply_sample_region_del },
	{ "put", LARDER_OP_PUT, reply_sample_put },
	{ "put-begin", LARDER_OP_PUT_BEGIN, reply_sample_put_begin },
	{ "put-part", LARDER_OP_PUT_PART, reply_sample_put_part },
	{ "put-commit", LARDER_OP_PUT_COMMIT, reply_sample_put_commit },
	{ "put-abort", LARDER_OP_PUT_ABORT, reply_sample_put_abort },
	{ "get", LARDER_OP_GET, reply_sample_get },
	{ "get-unchecked", LARDER_OP_GET, reply_sample_get_unchecked },
	{ "exists", LARDER_OP_EXISTS, reply_sample_exists },
	{ "exists-not-found", LARDER_OP_EXISTS, reply_sample_exists_not_found },
	{ "lease", LARDER_OP_LEASE, reply_sample_lease },
	{ "release", LARDER_OP_RELEASE, reply_sample_release },
	{ "pin", LARDER_OP_PIN, reply_sample_pin },
	{ "unpin", LARDER_OP_UNPIN, reply_sample_unpin },
	{ "stat", LARDER_OP_STAT, reply_sample_stat },
	{ "list", LARDER_OP_LIST, reply_sample_list },
	{ "delete", LARDER_OP_DELETE, reply_sample_delete },
	{ "error", LARDER_OP_GET, reply_sample_error },
	{ "error-bare", LARDER_OP_EXISTS, reply_sample_error_bare },
};

#endif
