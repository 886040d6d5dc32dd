/* SPDX-License-Identifier: Apache-2.0 */
/* Values that arrive in parts, and memory that is full or in pieces. */
#include "speak.h"

#define MIB (1u << 20)

static int part_begin(struct peer *p, uint32_t ns, const char *key, uint64_t len, uint64_t *put)
{
	const struct wire_put w = { .c = { .ns = ns }, .length = len,
				    .digest = key_digest(0, key, strlen(key)),
				    .key_len = (uint16_t)strlen(key) };
	struct draft d;
	int status;

	draft_begin(&d);
	wire_append(&d.w, &w, sizeof(w));
	wire_append(&d.w, key, w.key_len);
	draft_finish(&d, p, LARDER_OP_PUT_BEGIN, 0);
	peer_write(p, d.buffer, d.length);
	status = peer_status(p);
	if (status == LARDER_OK)
		*put = p->reply.u.put_begun.put;
	return status;
}

static void part_send(struct peer *p, uint64_t put, const uint8_t *v, uint64_t offset, uint64_t len)
{
	const struct wire_put_part w = { .put = put, .offset = offset, .length = len };
	struct draft d;

	draft_begin(&d);
	wire_append(&d.w, &w, sizeof(w));
	draft_finish(&d, p, LARDER_OP_PUT_PART, len);
	peer_write(p, d.buffer, d.length);
	peer_write(p, v + offset, len);
}

static int part(struct peer *p, uint64_t put, const uint8_t *v, uint64_t offset, uint64_t len)
{
	part_send(p, put, v, offset, len);
	return peer_status(p);
}

static int part_commit(struct peer *p, uint64_t put, const uint8_t *v, uint64_t len, bool bad)
{
	uint32_t checks[64];
	const struct wire_put_commit w = { .put = put, .n_checks = larder_check_count(len) };
	struct draft d;

	value_checks(v, len, checks);
	checks[0] ^= bad;
	draft_begin(&d);
	wire_append(&d.w, &w, sizeof(w));
	wire_append(&d.w, checks, w.n_checks * 4);
	draft_finish(&d, p, LARDER_OP_PUT_COMMIT, 0);
	peer_write(p, d.buffer, d.length);
	return peer_status(p);
}

static int part_abort(struct peer *p, uint64_t put)
{
	const struct wire_put_abort w = { .put = put };

	peer_request(p, LARDER_OP_PUT_ABORT, &w, sizeof(w));
	return peer_status(p);
}

static void parts__any_order(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p), order[40], n = ARRAY_SIZE(order);
	size_t len = 1000003, step = len / n + 1;
	_cleanup_free_ uint8_t *v = value_make("k", len);
	struct prng g;

	prng_seed(&g, 7);
	for (int round = 0; round < 20; round++) {
		uint64_t put = 0;

		for (uint32_t i = 0; i < n; i++)
			order[i] = i;
		for (uint32_t i = n - 1; i > 0; i--) {
			uint32_t k = (uint32_t)prng_below(&g, i + 1), t = order[i];

			order[i] = order[k];
			order[k] = t;
		}
		assert_int_equal(part_begin(p, ns, "k", len, &put), LARDER_OK);
		assert_int_equal(p->reply.u.put_begun.present, round > 0);
		assert_int_equal(peer_get(p, ns, "k", len), round ? LARDER_OK : LARDER_NOT_FOUND);
		for (uint32_t i = 0; i < n; i++) {
			size_t at = order[i] * step;

			assert_int_equal(part(p, put, v, at, MIN(step, len - at)), LARDER_OK);
		}
		assert_int_equal(part_commit(p, put, v, len, false),
				 round ? LARDER_EXISTS_SAME : LARDER_OK);
		assert_int_equal(p->reply.u.put_done.size_bytes, len);
		assert_int_equal(peer_get(p, ns, "k", len), LARDER_OK);
		peer_check_value(p, "k", len);
		assert_int_equal(part_commit(p, put, v, len, false), LARDER_BAD_REQUEST);
		if (round)
			continue;
		/* a second under the key with other checks */
		assert_int_equal(part_begin(p, ns, "k", len, &put), LARDER_OK);
		assert_int_equal(part_commit(p, put, v, len, true), LARDER_CONFLICT);
	}
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void parts__each_byte_once(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	size_t len = 100000;
	_cleanup_free_ uint8_t *v = value_make("k", len + 1);	/* one that must not go in */
	uint64_t put;

	assert_int_equal(part_begin(p, ns, "k", len, &put), LARDER_OK);
	assert_int_equal(part(p, put, v, 1000, 1000), LARDER_OK);
	assert_int_equal(part(p, put, v, 1500, 1), LARDER_BAD_REQUEST);
	assert_int_equal(part(p, put, v, 0, 1001), LARDER_BAD_REQUEST);
	assert_int_equal(part(p, put, v, 1999, 10), LARDER_BAD_REQUEST);
	assert_int_equal(part(p, put, v, len - 1, 2), LARDER_BAD_REQUEST);
	assert_int_equal(part(p, put + 1, v, 0, 10), LARDER_BAD_REQUEST);
	assert_int_equal(part_commit(p, put, v, len, false), LARDER_BAD_REQUEST);
	assert_int_equal(part(p, put, v, 0, 1000), LARDER_OK);	/* still open */
	assert_int_equal(part(p, put, v, 2000, len - 2000), LARDER_OK);
	assert_int_equal(part_commit(p, put, v, len, false), LARDER_OK);
	assert_int_equal(peer_get(p, ns, "k", len), LARDER_OK);
	peer_check_value(p, "k", len);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

/* All but the first byte is no value: what was in those pages before must not be given out. */
static void parts__first_and_last_byte_are_due(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	size_t len = 100000;
	_cleanup_free_ uint8_t *v = value_make("k", len);
	uint64_t put;

	assert_int_equal(part_begin(p, ns, "k", len, &put), LARDER_OK);
	assert_int_equal(part(p, put, v, 1, len - 1), LARDER_OK);
	assert_int_equal(part_commit(p, put, v, len, false), LARDER_BAD_REQUEST);
	assert_int_equal(peer_get(p, ns, "k", len), LARDER_NOT_FOUND);
	assert_int_equal(part(p, put, v, 0, 1), LARDER_OK);
	assert_int_equal(part_commit(p, put, v, len, false), LARDER_OK);
	assert_int_equal(part_begin(p, ns, "l", len, &put), LARDER_OK);
	assert_int_equal(part(p, put, v, 0, len - 1), LARDER_OK);
	assert_int_equal(part_commit(p, put, v, len, false), LARDER_BAD_REQUEST);
	assert_int_equal(part(p, put, v, len - 1, 1), LARDER_OK);
	assert_int_equal(part_commit(p, put, v, len, false), LARDER_OK);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void parts__limits(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p), n = 0;
	_cleanup_free_ uint8_t *v = value_make("k", 1000);
	uint64_t put[20];
	int status;

	for (;; n++) {
		char key[8];

		snprintf(key, sizeof(key), "k%u", n);
		assert_true(n < ARRAY_SIZE(put));
		status = part_begin(p, ns, key, 1000, &put[n]);
		if (status != LARDER_OK)
			break;
	}
	assert_int_equal(status, LARDER_QUOTA);
	assert_int_equal(n, 16);
	assert_int_equal(part_abort(p, put[3]), LARDER_OK);
	assert_int_equal(part_abort(p, put[3]), LARDER_BAD_REQUEST);
	assert_int_equal(part_begin(p, ns, "again", 1000, &put[3]), LARDER_OK);
	/* every second byte: more gaps than are kept */
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(part(p, put[3], v, 2 * i, 1), LARDER_OK);
	assert_int_equal(part(p, put[3], v, 2 * 64, 1), LARDER_QUOTA);
	assert_int_equal(part(p, put[3], v, 1, 1), LARDER_OK);
	assert_int_equal(part(p, put[3], v, 2 * 64, 1), LARDER_OK);
	assert_int_equal(rig_stats(r).filling, 16);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void parts__bad_checks(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	size_t len = 3 * MIB;
	_cleanup_free_ uint8_t *v = value_make("k", len);
	uint64_t put;

	assert_int_equal(part_begin(p, ns, "k", len, &put), LARDER_OK);
	assert_int_equal(part(p, put, v, 0, len), LARDER_OK);
	assert_int_equal(part_commit(p, put, v, len, true), LARDER_CHECKSUM);
	assert_int_equal(peer_get(p, ns, "k", len), LARDER_NOT_FOUND);
	assert_int_equal(rig_stats(r).filling, 0);
	assert_int_equal(rig_stats(r).pages_free, r->before.pages_free);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void parts__lost_in_every_stage(void **state)
{
	struct rig *r = rig_start();
	size_t len = 2 * MIB;
	_cleanup_free_ uint8_t *v = value_make("k", len);

	for (int stage = 0; stage < 5; stage++) {
		struct peer *p = peer_login(r);
		uint32_t ns = peer_open_ns(p);
		uint64_t put;

		assert_int_equal(part_begin(p, ns, "k", len, &put), LARDER_OK);
		if (stage >= 1)
			assert_int_equal(part(p, put, v, 0, MIB), LARDER_OK);
		if (stage >= 3)
			part_send(p, put, v, MIB, MIB);
		if (stage == 2) {	/* a part that is half here */
			const struct wire_put_part w = { .put = put, .offset = MIB, .length = MIB };
			struct draft d;

			draft_begin(&d);
			wire_append(&d.w, &w, sizeof(w));
			draft_finish(&d, p, LARDER_OP_PUT_PART, MIB);
			peer_write(p, d.buffer, d.length);
			peer_write(p, v, MIB / 2);
		}
		if (stage >= 3)
			assert_int_equal(peer_status(p), LARDER_OK);
		if (stage == 4) {	/* a commit that is on its way */
			uint32_t checks[64];
			const struct wire_put_commit w = { .put = put,
							   .n_checks = larder_check_count(len) };
			struct draft d;

			value_checks(v, len, checks);
			checks[7] ^= 1;
			draft_begin(&d);
			wire_append(&d.w, &w, sizeof(w));
			wire_append(&d.w, checks, w.n_checks * 4);
			draft_finish(&d, p, LARDER_OP_PUT_COMMIT, 0);
			peer_send_raw(p, d.buffer, d.length);
			rig_step(r);
			rig_step(r);
		}
		peer_close(p);
		rig_check_released(r);
	}
	rig_stop(r);
}

/* A writer that gave up without a word: its value goes at the deadline of its BEGIN. */
static void parts__end_at_their_deadline(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	const struct wire_put w = { .c = { .ns = peer_open_ns(p), .deadline_ms = 2000 },
				    .length = 5000, .digest = key_digest(0, "k", 1),
				    .key_len = 1 };
	_cleanup_free_ uint8_t *v = value_make("k", 5000);
	struct draft d;
	uint64_t put;

	draft_begin(&d);
	wire_append(&d.w, &w, sizeof(w));
	wire_append(&d.w, "k", 1);
	draft_finish(&d, p, LARDER_OP_PUT_BEGIN, 0);
	peer_write(p, d.buffer, d.length);
	assert_int_equal(peer_status(p), LARDER_OK);
	put = p->reply.u.put_begun.put;
	assert_int_equal(part(p, put, v, 0, 1000), LARDER_OK);
	for (int i = 0; i < 9; i++) {		/* signs of life are no excuse */
		rig_advance(r, 200);
		assert_int_equal(peer_ping(p), LARDER_OK);
	}
	assert_int_equal(rig_stats(r).filling, 1);
	rig_advance(r, 200);
	assert_int_equal(rig_stats(r).filling, 0);
	/* late, not wrong; and the key is free for the next writer */
	assert_int_equal(part(p, put, v, 1000, 4000), LARDER_DEADLINE);
	assert_int_equal(part_commit(p, put, v, 5000, false), LARDER_DEADLINE);
	assert_int_equal(part_abort(p, put), LARDER_DEADLINE);
	assert_int_equal(peer_put_key(p, w.c.ns, "k", 5000), LARDER_OK);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

/* A part whose bytes stop coming ends by its own deadline, or by that of its BEGIN. */
static void part_stalls(bool own, uint32_t ms)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r), *q = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	size_t len = 3 * MIB;
	const struct wire_put w = { .c = { .ns = ns, .deadline_ms = own ? 60000 : ms },
				    .length = len, .digest = key_digest(0, "k", 1), .key_len = 1 };
	_cleanup_free_ uint8_t *v = value_make("k", len);
	struct wire_put_part pp = { .c = { .deadline_ms = own ? ms : 0 }, .length = len };
	struct draft d;

	draft_begin(&d);
	wire_append(&d.w, &w, sizeof(w));
	wire_append(&d.w, "k", 1);
	draft_finish(&d, p, LARDER_OP_PUT_BEGIN, 0);
	peer_write(p, d.buffer, d.length);
	assert_int_equal(peer_status(p), LARDER_OK);
	pp.put = p->reply.u.put_begun.put;
	draft_begin(&d);
	wire_append(&d.w, &pp, sizeof(pp));
	draft_finish(&d, p, LARDER_OP_PUT_PART, len);
	peer_write(p, d.buffer, d.length);
	peer_write(p, v, MIB);
	rig_advance(r, ms - 100);
	assert_int_equal(rig_stats(r).requests, 1);
	rig_advance(r, 200);
	assert_int_equal(rig_stats(r).requests, 0);
	assert_int_equal(peer_status(p), LARDER_DEADLINE);
	assert_int_equal(rig_stats(r).filling, own ? 1 : 0);
	/* the rest is nobody's, and what follows it is understood */
	peer_write(p, v + MIB, len - MIB);
	assert_int_equal(peer_ping(p), LARDER_OK);
	if (own) {
		assert_int_equal(part(p, pp.put, v, 0, len), LARDER_OK);
		assert_int_equal(part_commit(p, pp.put, v, len, false), LARDER_OK);
	} else {
		assert_int_equal(part_commit(p, pp.put, v, len, false), LARDER_DEADLINE);
		assert_int_equal(peer_put_key(q, ns, "k", len), LARDER_OK);
	}
	assert_int_equal(peer_get(q, ns, "k", len), LARDER_OK);
	peer_check_value(q, "k", len);
	peer_close(p);
	peer_close(q);
	rig_check_released(r);
	rig_stop(r);
}

static void parts__stall_until_their_deadline(void **state)
{
	part_stalls(true, 1500);
	part_stalls(false, 1500);
}

/* A writer in parts makes a second writer wait; a drain waits for it. */
static void parts__others_wait(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login(r);
	uint32_t ns = peer_open_ns(a);
	_cleanup_free_ uint8_t *v = value_make("k", 5000);
	struct draft d;
	uint64_t put;

	assert_int_equal(part_begin(a, ns, "k", 5000, &put), LARDER_OK);
	draft_put(&d, b, &(struct put_options){ .ns = ns, .key = "k", .value = v, .length = 5000 });
	peer_send_raw(b, d.buffer, d.length);
	peer_write(b, v, 5000);
	rig_settle(r);
	assert_int_equal(rig_stats(r).parked, 1);
	larder_node_drain(r->node, true);
	assert_false(larder_node_is_drained(r->node));
	assert_int_equal(part(a, put, v, 0, 5000), LARDER_OK);
	assert_int_equal(part_commit(a, put, v, 5000, false), LARDER_OK);
	assert_int_equal(peer_status(b), LARDER_EXISTS_SAME);
	assert_int_equal(part_begin(a, ns, "l", 5000, &put), LARDER_DRAINING);
	rig_settle(r);
	assert_true(larder_node_is_drained(r->node));
	peer_close(a);
	peer_close(b);
	rig_check_released(r);
	rig_stop(r);
}

/* --- full and fragmented memory ------------------------------------------------------------- */

/* Sixteen times more than fits: everything put is accepted, and what is there is whole. */
static void memory__full_evicts(void **state)
{
	struct rig *r = rig_new();
	uint32_t found = 0;

	r->mc.pages = 256;	/* 1 MiB */
	rig_open(r);
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);

	for (uint32_t i = 0; i < 400; i++) {
		char key[16];

		snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(peer_put_key(p, ns, key, 1 + i * 7919 % 200000), LARDER_OK);
	}
	for (uint32_t i = 0; i < 400; i++) {
		char key[16];
		int status;

		snprintf(key, sizeof(key), "k%u", i);
		status = peer_get(p, ns, key, MIB);
		if (status == LARDER_NOT_FOUND)
			continue;
		assert_int_equal(status, LARDER_OK);
		peer_check_value(p, key, 1 + i * 7919 % 200000);
		found++;
	}
	assert_true(found >= 5 && rig_stats(r).evictions > 300);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

/* Free memory is every second page: a value of many runs goes in and comes out. */
static void memory__in_pieces(void **state)
{
	struct rig *r = rig_new();

	r->mc.pages = 1024;
	rig_open(r);
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	size_t len = 500 * RIG_PAGE - 77;

	for (uint32_t i = 0; i < 1020; i++) {
		char key[16];

		snprintf(key, sizeof(key), "s%u", i);
		assert_int_equal(peer_put_key(p, ns, key, RIG_PAGE), LARDER_OK);
	}
	for (uint32_t i = 0; i < 1020; i += 2) {
		char text[16];
		const char *key = text;

		snprintf(text, sizeof(text), "s%u", i);
		assert_int_equal(peer_keys(p, LARDER_OP_DELETE, ns, 0, 0, 0, &key, 1), LARDER_OK);
	}
	assert_int_equal(peer_put_key(p, ns, "big", len), LARDER_OK);
	assert_int_equal(peer_get(p, ns, "big", len), LARDER_OK);
	peer_check_value(p, "big", len);
	assert_int_equal(rig_stats(r).evictions, 0);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void memory__leased_is_no_space(void **state)
{
	struct rig *r = rig_new();
	const char *keys[4] = { "a", "b", "c", "d" };

	r->mc.pages = 256;
	rig_open(r);
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);

	for (int i = 0; i < 4; i++)
		assert_int_equal(peer_put_key(p, ns, keys[i], 60 * RIG_PAGE), LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_LEASE, ns, 0, 1, 30000, keys, 4), LARDER_OK);
	assert_int_equal(peer_put_key(p, ns, "e", 60 * RIG_PAGE), LARDER_NO_SPACE);
	assert_true(p->reply.tail_len > 20);
	assert_int_equal(peer_ping(p), LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_RELEASE, ns, 0, 1, 0, NULL, 0), LARDER_OK);
	assert_int_equal(peer_put_key(p, ns, "e", 60 * RIG_PAGE), LARDER_OK);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts__any_order),
		cmocka_unit_test(parts__each_byte_once),
		cmocka_unit_test(parts__first_and_last_byte_are_due),
		cmocka_unit_test(parts__limits),
		cmocka_unit_test(parts__bad_checks),
		cmocka_unit_test(parts__lost_in_every_stage),
		cmocka_unit_test(parts__end_at_their_deadline),
		cmocka_unit_test(parts__stall_until_their_deadline),
		cmocka_unit_test(parts__others_wait),
		cmocka_unit_test(memory__full_evicts),
		cmocka_unit_test(memory__in_pieces),
		cmocka_unit_test(memory__leased_is_no_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
