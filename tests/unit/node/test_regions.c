/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided transfers over a real shm socket: regions, gates, ranges, limits; and the viewer. */
#include "region.h"

#define MIB (1u << 20)

static struct rig *shm_start(void)
{
	struct rig *r = rig_new();

	r->ops = transport_shm();
	r->config.max_region_bytes = 2 * REGION_BYTES;
	r->config.max_regions = 3;
	rig_open(r);
	return r;
}

static void put_get__sizes(void **state)
{
	static const size_t sizes[] = { 1, RIG_PAGE - 1, RIG_PAGE, RIG_PAGE + 1, 256 * 1024 - 1,
					256 * 1024, 256 * 1024 + 1, MIB + 3, REGION_BYTES };
	struct rig *r = shm_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	struct memory from, to;

	assert_true(p->welcome.capabilities & WIRE_CAP_ONE_SIDED);
	memory_make(&from, p);
	memory_make(&to, p);
	assert_int_equal(region_add(p, &from, 10), LARDER_OK);
	assert_int_equal(region_add(p, &to, 20), LARDER_OK);
	assert_int_equal(rig_stats(r).regions, 2);
	assert_int_equal(rig_stats(r).region_bytes, 2 * REGION_BYTES);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t len = sizes[i], half = len / 3 ? len / 3 : len;
		uint16_t n_segs = half < len ? 2 : 1;
		/* two pieces, swapped in memory, that end anywhere in a page */
		const struct wire_seg segs[2] = {
			{ .region = 10, .length = (uint32_t)half, .offset = len - half },
			{ .region = 10, .length = (uint32_t)(len - half), .offset = 0 },
		};
		const struct wire_seg back = { .region = 20, .length = (uint32_t)len };
		char key[32];

		snprintf(key, sizeof(key), "k%zu", len);
		_cleanup_free_ uint8_t *v = value_make(key, len);

		memcpy(from.at + len - half, v, half);
		memcpy(from.at, v + half, len - half);
		assert_int_equal(put_from(p, ns, key, v, len, segs, n_segs), LARDER_OK);
		memset(to.at, 0xee, REGION_BYTES);
		assert_int_equal(get_into(p, ns, key, LARDER_F_WHOLE, 0, len, &back, 1), LARDER_OK);
		assert_int_equal(p->reply.u.got.length, len);
		assert_int_equal(p->reply.u.got.n_checks, larder_check_count(len));
		assert_memory_equal(to.at, v, len);
		if (len < REGION_BYTES)
			assert_int_equal(to.at[len], 0xee);
		assert_int_equal(put_from(p, ns, key, v, len, segs, n_segs), LARDER_EXISTS_SAME);
	}
	assert_int_equal(region_del(p, 10), LARDER_OK);
	assert_int_equal(region_del(p, 10), LARDER_BAD_REQUEST);
	assert_int_equal(rig_stats(r).regions, 1);
	peer_close(p);
	memory_drop(&from, true);
	memory_drop(&to, true);
	rig_check_released(r);
	rig_stop(r);
}

static void segments__are_checked(void **state)
{
	struct rig *r = shm_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	const struct wire_seg good = { .region = 1, .length = 1000 },
			      past = { .region = 1, .length = 1000, .offset = REGION_BYTES - 999 },
			      wraps = { .region = 1, .length = 1000, .offset = UINT64_MAX - 10 },
			      nowhere = { .region = 2, .length = 1000 };
	struct memory m;

	memory_make(&m, p);
	memset(m.at, 7, 1000);
	assert_int_equal(region_add(p, &m, 1), LARDER_OK);
	assert_int_equal(put_from(p, ns, "k", m.at, 1000, &past, 1), LARDER_BAD_REQUEST);
	assert_int_equal(put_from(p, ns, "k", m.at, 1000, &wraps, 1), LARDER_BAD_REQUEST);
	assert_int_equal(put_from(p, ns, "k", m.at, 1000, &nowhere, 1), LARDER_BAD_REQUEST);
	assert_int_equal(put_from(p, ns, "k", m.at, 999, &good, 1), LARDER_BAD_REQUEST);
	assert_int_equal(put_from(p, ns, "k", m.at, 1000, NULL, 0), LARDER_BAD_REQUEST);
	assert_int_equal(put_from(p, ns, "k", m.at + 1000, 1000, &good, 1), LARDER_CHECKSUM);
	assert_int_equal(rig_stats(r).filling, 0);
	assert_int_equal(put_from(p, ns, "k", m.at, 1000, &good, 1), LARDER_OK);
	assert_int_equal(get_into(p, ns, "k", LARDER_F_WHOLE, 0, 1000, &past, 1),
			 LARDER_BAD_REQUEST);
	const struct wire_seg small = { .region = 1, .length = 999 };

	assert_int_equal(get_into(p, ns, "k", LARDER_F_WHOLE, 0, 999, &small, 1), LARDER_TOO_SMALL);
	assert_int_equal(p->reply.u.error.detail, 1000);
	assert_int_equal(get_into(p, ns, "k", LARDER_F_WHOLE, 0, 1000, NULL, 0),
			 LARDER_BAD_REQUEST);
	const struct wire_seg tiny = { .region = 1, .length = 10 };

	assert_int_equal(get_into(p, ns, "k", LARDER_F_NO_CHECKS, 995, 10, &tiny, 1), LARDER_OK);
	assert_int_equal(p->reply.u.got.length, 5);
	assert_int_equal(p->reply.u.got.n_checks, 0);
	peer_close(p);
	memory_drop(&m, true);
	rig_check_released(r);
	rig_stop(r);
}

static void regions__limits(void **state)
{
	struct rig *r = shm_start();
	struct peer *p = peer_login(r);
	struct memory m[3];

	for (int i = 0; i < 3; i++)
		memory_make(&m[i], p);
	assert_int_equal(region_add(p, &m[0], 1), LARDER_OK);
	assert_int_equal(region_add(p, &m[1], 1), LARDER_BAD_REQUEST);
	assert_int_equal(region_add_sized(p, &m[1], 2, 0), LARDER_BAD_REQUEST);
	assert_int_equal(region_add(p, &m[1], 2), LARDER_OK);
	assert_int_equal(region_add(p, &m[2], 3), LARDER_QUOTA);
	assert_int_equal(p->reply.u.error.detail, 2 * REGION_BYTES);
	assert_int_equal(region_del(p, 1), LARDER_OK);
	assert_int_equal(region_add(p, &m[2], 3), LARDER_OK);
	assert_int_equal(rig_stats(r).region_bytes, 2 * REGION_BYTES);
	peer_close(p);
	for (int i = 0; i < 3; i++)
		memory_drop(&m[i], true);
	rig_check_released(r);
	rig_stop(r);
}

/* A description whose memfd never comes: answered when its time is over, and nothing hangs. */
static void region__whose_descriptor_never_comes(void **state)
{
	struct rig *r = shm_start();
	struct peer *p = peer_login(r);
	struct memory m;

	memory_make(&m, p);
	assert_int_equal(region_add(p, &m, 1), LARDER_OK);
	for (int i = 0; i < 2; i++) {
		const struct wire_region_add w = { .region = 2, .size_bytes = 4096,
						   .opaque_len = (uint32_t)m.opaque_len };
		struct draft d;

		m.opaque[0] ^= 0x40;	/* another token */
		draft_begin(&d);
		wire_append(&d.w, &w, sizeof(w));
		wire_append(&d.w, m.opaque, (uint32_t)m.opaque_len);
		draft_finish(&d, p, LARDER_OP_REGION_ADD, 0);
		peer_write(p, d.buffer, d.length);
		rig_settle(r);
		if (i == 1)
			break;
		for (uint32_t ms = 0; ms < r->config.stall_timeout_ms && !p->down; ms += 5000) {
			rig_advance(r, 5000);
			if (p->rx_events)
				break;
		}
		int status = peer_status(p);

		assert_true(status == LARDER_BAD_REQUEST || status == -1);
		if (status == -1)
			break;
	}
	peer_close(p);
	memory_drop(&m, true);
	rig_check_released(r);
	rig_stop(r);
}

/* The client takes its gate: the GET comes back CANCELLED, or was done before; no byte after. */
static void gate__taken_ends_a_get(void **state)
{
	struct rig *r = shm_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p), cancelled = 0;
	const struct wire_seg seg = { .region = 1, .length = REGION_BYTES };
	struct memory m;

	memory_make(&m, p);
	assert_int_equal(region_add(p, &m, 1), LARDER_OK);
	_cleanup_free_ uint8_t *v = value_make("k", REGION_BYTES);

	memcpy(m.at, v, REGION_BYTES);
	assert_int_equal(put_from(p, ns, "k", v, REGION_BYTES, &seg, 1), LARDER_OK);
	for (int turns = 0; turns < 12; turns++) {
		int status;

		memset(m.at, 0, REGION_BYTES);
		get_into_send(p, ns, "k", LARDER_F_WHOLE, 0, REGION_BYTES, &seg, 1);
		for (int i = 0; i < turns; i++)
			rig_step(r);
		assert_int_equal(r->ops->gate_take(p->c, p->gate), 0);
		_cleanup_free_ uint8_t *then = malloc(REGION_BYTES);

		memcpy(then, m.at, REGION_BYTES);
		status = peer_status(p);
		assert_true(status == LARDER_CANCELLED || status == LARDER_OK);
		cancelled += status == LARDER_CANCELLED;
		rig_settle(r);
		assert_memory_equal(m.at, then, REGION_BYTES);
	}
	assert_true(cancelled >= 4);	/* all but, maybe, the first and the last moment */
	assert_int_equal(rig_stats(r).references, 0);
	peer_close(p);
	memory_drop(&m, true);
	rig_check_released(r);
	rig_stop(r);
}

static void cancel__stops_at_the_next_piece(void **state)
{
	struct rig *r = shm_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p), cancelled = 0;
	const struct wire_seg seg = { .region = 1, .length = REGION_BYTES };
	struct memory m;

	memory_make(&m, p);
	assert_int_equal(region_add(p, &m, 1), LARDER_OK);
	_cleanup_free_ uint8_t *v = value_make("k", REGION_BYTES);

	memcpy(m.at, v, REGION_BYTES);
	assert_int_equal(put_from(p, ns, "k", v, REGION_BYTES, &seg, 1), LARDER_OK);
	for (int turns = 0; turns < 6; turns++) {
		struct wire_cancel c = { .request_id = p->next_id };
		bool seen_get = false;

		get_into_send(p, ns, "k", LARDER_F_WHOLE, 0, REGION_BYTES, &seg, 1);
		for (int i = 0; i < turns; i++)
			rig_step(r);
		peer_request(p, LARDER_OP_CANCEL, &c, sizeof(c));
		for (int i = 0; i < 2; i++) {
			int status = peer_status(p);

			if (p->h.op != LARDER_OP_GET)
				continue;
			assert_true(status == LARDER_CANCELLED || status == LARDER_OK);
			cancelled += status == LARDER_CANCELLED;
			seen_get = true;
		}
		assert_true(seen_get);
	}
	assert_true(cancelled >= 4);	/* all but, maybe, the first and the last moment */
	assert_int_equal(rig_stats(r).references, 0);
	peer_close(p);
	memory_drop(&m, true);
	rig_check_released(r);
	rig_stop(r);
}

/* REGION_DEL answers after the transfer that uses the region. */
static void region_del__waits_for_its_transfers(void **state)
{
	struct rig *r = shm_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	const struct wire_seg seg = { .region = 1, .length = REGION_BYTES };
	const struct wire_region_del del = { .region = 1 };
	struct memory m;

	memory_make(&m, p);
	assert_int_equal(region_add(p, &m, 1), LARDER_OK);
	_cleanup_free_ uint8_t *v = value_make("k", REGION_BYTES);

	memcpy(m.at, v, REGION_BYTES);
	assert_int_equal(put_from(p, ns, "k", v, REGION_BYTES, &seg, 1), LARDER_OK);
	memset(m.at, 0, REGION_BYTES);
	get_into_send(p, ns, "k", LARDER_F_WHOLE, 0, REGION_BYTES, &seg, 1);
	peer_request(p, LARDER_OP_REGION_DEL, &del, sizeof(del));
	assert_int_equal(get_into(p, ns, "k", LARDER_F_WHOLE, 0, REGION_BYTES, &seg, 1),
			 LARDER_BAD_REQUEST);	/* it is going: nothing new may name it */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(peer_status(p), LARDER_OK);
		assert_true(p->h.op == (i ? LARDER_OP_REGION_DEL : LARDER_OP_GET) ||
			    p->h.op == (i ? LARDER_OP_GET : LARDER_OP_REGION_DEL));
	}
	assert_memory_equal(m.at, v, REGION_BYTES);
	assert_int_equal(rig_stats(r).regions, 0);
	peer_close(p);
	memory_drop(&m, true);
	rig_check_released(r);
	rig_stop(r);
}

static void part_from(struct peer *p, uint64_t put, uint64_t offset, uint64_t length)
{
	const struct wire_put_part w = { .put = put, .offset = offset, .length = length,
					 .gate = gate_arm(p), .n_segs = 1 };
	const struct wire_seg seg = { .region = 1, .offset = offset, .length = (uint32_t)length };
	struct draft d;

	draft_begin(&d);
	wire_append(&d.w, &w, sizeof(w));
	wire_append(&d.w, &seg, sizeof(seg));
	draft_finish(&d, p, LARDER_OP_PUT_PART, 0);
	peer_write(p, d.buffer, d.length);
}

/* A part that is under way has given its bytes already, though none of them may be here. */
static void parts__that_overlap_one_under_way_are_refused(void **state)
{
	static const struct {
		uint64_t from, to;
	} second[] = {
		{ MIB, 3 * MIB }, { 3 * MIB - 1, REGION_BYTES }, { 0, MIB + 1 },
		{ MIB + 7, MIB + 8 }, { 0, REGION_BYTES },
	};
	struct rig *r = shm_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	const struct wire_put w = { .c = { .ns = ns }, .length = REGION_BYTES,
				    .digest = key_digest(0, "k", 1), .key_len = 1 };
	struct memory m;
	struct draft d;

	memory_make(&m, p);
	assert_int_equal(region_add(p, &m, 1), LARDER_OK);
	for (size_t i = 0; i < ARRAY_SIZE(second); i++) {
		struct wire_put_abort a;
		uint64_t first_id;

		draft_begin(&d);
		wire_append(&d.w, &w, sizeof(w));
		wire_append(&d.w, "k", 1);
		draft_finish(&d, p, LARDER_OP_PUT_BEGIN, 0);
		peer_write(p, d.buffer, d.length);
		assert_int_equal(peer_status(p), LARDER_OK);
		a.put = p->reply.u.put_begun.put;
		first_id = p->next_id;
		part_from(p, a.put, MIB, 2 * MIB);
		part_from(p, a.put, second[i].from, second[i].to - second[i].from);
		/* the second is answered first: the first was under way */
		assert_int_equal(peer_status(p), LARDER_BAD_REQUEST);
		assert_int_equal(p->h.request_id, first_id + 1);
		assert_int_equal(peer_status(p), LARDER_OK);
		assert_int_equal(p->h.request_id, first_id);
		peer_request(p, LARDER_OP_PUT_ABORT, &a, sizeof(a));
		assert_int_equal(peer_status(p), LARDER_OK);
	}
	peer_close(p);
	memory_drop(&m, true);
	rig_check_released(r);
	rig_stop(r);
}

static void disconnect__in_the_middle(void **state)
{
	struct rig *r = shm_start();
	const struct wire_seg seg = { .region = 1, .length = REGION_BYTES };
	_cleanup_free_ uint8_t *v = value_make("k", REGION_BYTES);

	for (int turns = 0; turns < 10; turns++) {
		struct peer *p = peer_login(r);
		uint32_t ns = peer_open_ns(p);
		struct memory m;
		char key[8];

		memory_make(&m, p);
		assert_int_equal(region_add(p, &m, 1), LARDER_OK);
		memcpy(m.at, v, REGION_BYTES);
		assert_int_equal(put_from(p, ns, "k", v, REGION_BYTES, &seg, 1),
				 turns ? LARDER_EXISTS_SAME : LARDER_OK);
		snprintf(key, sizeof(key), "x%d", turns);
		get_into_send(p, ns, "k", LARDER_F_WHOLE, 0, REGION_BYTES, &seg, 1);
		const struct wire_put w = { .c = { .ns = ns }, .length = REGION_BYTES, .n_segs = 1,
					    .gate = gate_arm(p), .n_checks = 16, .key_len = 2 };
		uint32_t checks[16] = { 0 };
		struct draft d;

		draft_begin(&d);
		wire_append(&d.w, &w, sizeof(w));
		wire_append(&d.w, &seg, sizeof(seg));
		wire_append(&d.w, checks, sizeof(checks));
		wire_append(&d.w, key, 2);
		draft_finish(&d, p, LARDER_OP_PUT, 0);
		peer_write(p, d.buffer, d.length);
		for (int i = 0; i < turns; i++)
			rig_step(r);
		peer_close(p);
		memory_drop(&m, true);
		rig_check_released(r);
	}
	rig_stop(r);
}

/* Root is let in as viewer: reads everything by its full name, changes nothing. */
static void viewer__reads_and_nothing_else(void **state)
{
	static const char *const key[] = { "k" };
	struct rig *r = shm_start();
	struct peer *p, *w;
	uint32_t ns, seen;
	struct wire_ns_entry e;
	const uint8_t *name;
	uint32_t pos = 0;
	struct memory m, wm;

	if (getuid() != 0) {
		rig_stop(r);
		print_message("skipped: a viewer is root or the user of view.user\n");
		skip();
	}
	p = peer_login(r);
	ns = peer_open_ns(p);
	memory_make(&m, p);
	assert_int_equal(region_add(p, &m, 1), LARDER_OK);
	memset(m.at, 3, 5000);
	const struct wire_seg seg = { .region = 1, .length = 5000 };

	assert_int_equal(put_from(p, ns, "k", m.at, 5000, &seg, 1), LARDER_OK);
	w = peer_connect(r);
	assert_int_equal(peer_handshake(w, &(struct hello_options){ .role = WIRE_ROLE_VIEWER }),
			 LARDER_OK);
	assert_int_equal(peer_ns(w, LARDER_OP_NS_OPEN, "m", NULL, NULL), LARDER_BAD_REQUEST);
	assert_int_equal(peer_ns(w, LARDER_OP_NS_OPEN, "nobody:m", NULL, NULL), LARDER_NOT_FOUND);
	assert_int_equal(peer_ns(w, LARDER_OP_NS_OPEN, "demo:m", NULL, &seen), LARDER_OK);
	assert_int_equal(seen, ns);
	assert_int_equal(peer_ns(w, LARDER_OP_NS_CREATE, "demo:x", NULL, NULL), LARDER_DENIED);
	const struct wire_ns_list l = { .max = 0 };

	peer_request(w, LARDER_OP_NS_LIST, &l, sizeof(l));
	assert_int_equal(peer_status(w), LARDER_OK);
	assert_int_equal(wire_ns_entry_next(&w->reply, &pos, &e, &name), 1);
	assert_int_equal(e.name_len, 6);
	assert_memory_equal(name, "demo:m", 6);
	assert_int_equal(peer_keys(w, LARDER_OP_STAT, ns, 0, 0, 0, key, 1), LARDER_OK);
	assert_int_equal(peer_keys(w, LARDER_OP_STAT, ns + 9, 0, 0, 0, key, 1), LARDER_NOT_FOUND);
	assert_int_equal(peer_keys(w, LARDER_OP_EXISTS, ns, LARDER_F_LEASE, 1, 100, key, 1),
			 LARDER_DENIED);
	assert_int_equal(peer_keys(w, LARDER_OP_LEASE, ns, 0, 1, 100, key, 1), LARDER_DENIED);
	assert_int_equal(peer_keys(w, LARDER_OP_DELETE, ns, 0, 0, 0, key, 1), LARDER_DENIED);
	memory_make(&wm, w);
	assert_int_equal(region_add(w, &wm, 1), LARDER_OK);
	assert_int_equal(put_from(w, ns, "z", wm.at, 5000, &seg, 1), LARDER_DENIED);
	assert_int_equal(get_into(w, ns, "k", LARDER_F_WHOLE, 0, 5000, &seg, 1), LARDER_OK);
	assert_memory_equal(wm.at, m.at, 5000);
	peer_close(w);
	peer_close(p);
	memory_drop(&m, true);
	memory_drop(&wm, true);
	rig_check_released(r);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_get__sizes),
		cmocka_unit_test(segments__are_checked),
		cmocka_unit_test(regions__limits),
		cmocka_unit_test(region__whose_descriptor_never_comes),
		cmocka_unit_test(gate__taken_ends_a_get),
		cmocka_unit_test(cancel__stops_at_the_next_piece),
		cmocka_unit_test(region_del__waits_for_its_transfers),
		cmocka_unit_test(parts__that_overlap_one_under_way_are_refused),
		cmocka_unit_test(disconnect__in_the_middle),
		cmocka_unit_test(viewer__reads_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
