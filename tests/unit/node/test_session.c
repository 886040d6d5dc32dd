/* SPDX-License-Identifier: Apache-2.0 */
/* What a session may have under way: credits, waits, lost peers, cancel, drain, counts, turns. */
#include "speak.h"

#define MIB (1u << 20)

/* --- credits -------------------------------------------------------------------------------- */

/* One connection fills a key; @n GETs of another wait for it. Returns when all are parked. */
static void park_gets(struct peer *p, uint32_t ns, const char *key, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		peer_send_get(p, ns, LARDER_F_WAIT | LARDER_F_WHOLE, key, 0, 0, MIB);
	rig_settle(p->rig);
}

static void credits__all_and_one_more_for_control(void **state)
{
	struct rig *r = rig_start();
	struct peer *writer = peer_login(r), *p = peer_login(r);
	uint32_t ns = peer_open_ns(writer);

	put_partly(writer, ns, "k", 5000, 100, 0);
	park_gets(p, ns, "k", p->credits);
	assert_int_equal(rig_stats(r).parked, p->credits);
	assert_false(p->down);
	assert_int_equal(peer_ping(p), LARDER_OK);	/* the extra credit */
	put_rest(writer, "k", 5000, 100);
	assert_int_equal(peer_status(writer), LARDER_OK);
	for (uint32_t i = 0; i < p->credits; i++) {
		assert_int_equal(peer_status(p), LARDER_OK);
		peer_check_value(p, "k", 5000);
	}
	peer_close(p);
	peer_close(writer);
	rig_check_released(r);
	rig_stop(r);
}

static void credits__one_over_closes(void **state)
{
	struct rig *r = rig_start();
	struct peer *writer = peer_login(r), *p = peer_login(r);
	uint32_t ns = peer_open_ns(writer);

	put_partly(writer, ns, "k", 5000, 100, 0);
	park_gets(p, ns, "k", p->credits);
	peer_send_get(p, ns, LARDER_F_WAIT | LARDER_F_WHOLE, "k", 0, 0, MIB);
	peer_expect_closed(p);
	assert_non_null(strstr(r->last_line, "credits"));
	assert_int_equal(rig_stats(r).parked, 0);
	put_rest(writer, "k", 5000, 100);
	assert_int_equal(peer_status(writer), LARDER_OK);
	peer_close(p);
	peer_close(writer);
	rig_check_released(r);
	rig_stop(r);
}

/* Replies out of the order of requests: a parked GET does not hold up what follows it. */
static void requests__complete_out_of_order(void **state)
{
	struct rig *r = rig_start();
	struct peer *writer = peer_login(r), *p = peer_login(r);
	uint32_t ns = peer_open_ns(writer);

	assert_int_equal(peer_put_key(writer, ns, "there", 3000), LARDER_OK);
	put_partly(writer, ns, "k", 5000, 100, 0);
	park_gets(p, ns, "k", 1);
	assert_int_equal(peer_get(p, ns, "there", 3000), LARDER_OK);
	peer_check_value(p, "there", 3000);
	put_rest(writer, "k", 5000, 100);
	assert_int_equal(peer_status(p), LARDER_OK);
	peer_check_value(p, "k", 5000);
	peer_close(p);
	peer_close(writer);
	rig_stop(r);
}

static void deadline__ends_a_wait(void **state)
{
	struct rig *r = rig_start();
	struct peer *writer = peer_login(r), *p = peer_login(r);
	uint32_t ns = peer_open_ns(writer);
	const struct wire_get g = { .c = { .ns = ns, .flags = LARDER_F_WAIT | LARDER_F_WHOLE,
					   .deadline_ms = 700 }, .room = MIB, .key_len = 1 };
	struct draft d;

	put_partly(writer, ns, "k", 5000, 100, 0);
	draft_begin(&d);
	wire_append(&d.w, &g, sizeof(g));
	wire_append(&d.w, "k", 1);
	draft_finish(&d, p, LARDER_OP_GET, 0);
	peer_write(p, d.buffer, d.length);
	rig_settle(r);
	rig_advance(r, 600);
	assert_int_equal(rig_stats(r).parked, 1);
	rig_advance(r, 200);
	assert_int_equal(rig_stats(r).parked, 0);
	assert_int_equal(peer_status(p), LARDER_DEADLINE);
	peer_close(p);
	peer_close(writer);
	rig_check_released(r);
	rig_stop(r);
}

/* --- two writers ---------------------------------------------------------------------------- */

/* The second's payload is thrown away as it arrives; the connection serves others meanwhile. */
static void put__second_writer_is_told(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login(r);
	uint32_t ns = peer_open_ns(a);

	put_partly(a, ns, "k", 2 * MIB, 1000, 0);
	put_partly(b, ns, "k", 2 * MIB, 2 * MIB, 0);
	assert_int_equal(peer_ping(b), LARDER_OK);
	put_rest(a, "k", 2 * MIB, 1000);
	assert_int_equal(peer_status(a), LARDER_OK);
	assert_int_equal(peer_status(b), LARDER_EXISTS_SAME);
	assert_int_equal(b->reply.u.put_done.size_bytes, 2 * MIB);

	put_partly(a, ns, "l", 2 * MIB, 1000, 0);
	put_partly(b, ns, "l", 2 * MIB, 2 * MIB, 0);
	peer_close(a);		/* the first fails: the second is to repeat */
	assert_int_equal(peer_status(b), LARDER_BUSY);
	assert_int_equal(peer_put_key(b, ns, "l", 2 * MIB), LARDER_OK);
	peer_close(b);
	rig_check_released(r);
	rig_stop(r);
}

static void put__second_writer_does_not_wait(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login(r);
	uint32_t ns = peer_open_ns(a);

	put_partly(a, ns, "k", 100000, 1000, 0);
	put_partly(b, ns, "k", 100000, 100000, LARDER_F_NOWAIT);
	assert_int_equal(peer_status(b), LARDER_BUSY);
	assert_int_equal(peer_ping(b), LARDER_OK);
	peer_close(a);
	peer_close(b);
	rig_check_released(r);
	rig_stop(r);
}

/* --- lost in the middle --------------------------------------------------------------------- */

static void disconnect__at_every_byte_of_a_put(void **state)
{
	size_t len = 700, whole;
	struct rig *r = rig_start();

	for (size_t cut = 0;; cut += 3) {
		struct peer *p = peer_login(r);
		uint32_t ns = peer_open_ns(p);
		_cleanup_free_ uint8_t *v = value_make("k", len);
		uint8_t wire[2000];
		struct draft d;

		draft_put(&d, p, &(struct put_options){ .ns = ns, .key = "k", .value = v,
							 .length = len });
		whole = d.length + len;
		memcpy(wire, d.buffer, d.length);
		memcpy(wire + d.length, v, len);
		if (cut >= whole) {
			peer_close(p);
			break;
		}
		if (cut)
			peer_write(p, wire, cut);
		rig_settle(r);
		peer_close(p);
		rig_check_released(r);
	}
	rig_stop(r);
}

static void disconnect__while_reading(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);

	assert_int_equal(peer_put_key(p, ns, "k", 8 * MIB), LARDER_OK);
	for (int i = 0; i < 5; i++) {
		struct peer *q = peer_login(r);

		for (int k = 0; k < 4; k++)
			peer_send_get(q, ns, LARDER_F_WHOLE, "k", 0, 0, 8 * MIB);
		for (int k = 0; k < i; k++)
			rig_step(r);
		assert_true(rig_stats(r).references > 0);
		peer_close(q);
		assert_int_equal(rig_stats(r).references, 0);
	}
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void close__with_everything_under_way(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login(r), *c = peer_connect(r);
	uint32_t ns = peer_open_ns(a);

	assert_int_equal(peer_put_key(a, ns, "big", 4 * MIB), LARDER_OK);
	put_partly(a, ns, "k", 5000, 100, 0);
	park_gets(b, ns, "k", 3);
	peer_send_get(b, ns, LARDER_F_WHOLE, "big", 0, 0, 4 * MIB);
	larder_node_close(r->node);
	assert_int_equal(arena_free_pages(r->memory->arena), arena_pages(r->memory->arena));
	for (uint32_t i = 0; i < RIG_STEPS && !(a->gone && b->gone && c->gone); i++)
		rig_poll_client(r);
	assert_true(a->gone && b->gone && c->gone);
	free(a);
	free(b);
	free(c);
	r->client->ops->close(r->client);
	larder_memory_close(r->memory);
	free(r);
}

/* --- cancel --------------------------------------------------------------------------------- */

static void cancel_id(struct peer *p, uint64_t id)
{
	const struct wire_cancel c = { .request_id = id };

	peer_request(p, LARDER_OP_CANCEL, &c, sizeof(c));
}

static void cancel__parked(void **state)
{
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login(r);
	uint32_t ns = peer_open_ns(a);
	uint64_t id;
	int first, second;

	put_partly(a, ns, "k", 5000, 100, 0);
	id = b->next_id;
	park_gets(b, ns, "k", 1);
	cancel_id(b, id);
	first = peer_status(b);
	assert_int_equal(b->h.request_id, id);
	second = peer_status(b);
	assert_int_equal(first, LARDER_CANCELLED);
	assert_int_equal(second, LARDER_OK);
	assert_int_equal(b->h.op, LARDER_OP_CANCEL);
	assert_int_equal(rig_stats(r).parked, 0);
	/* one that is not there */
	cancel_id(b, 4711);
	assert_int_equal(peer_status(b), LARDER_OK);
	peer_close(a);
	peer_close(b);
	rig_check_released(r);
	rig_stop(r);
}

/* A reply that has not begun to leave becomes CANCELLED; the one before it is finished. */
static void cancel__queued_reply(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	uint64_t id;

	assert_int_equal(peer_put_key(p, ns, "k", 4 * MIB), LARDER_OK);
	id = p->next_id;
	peer_send_get(p, ns, LARDER_F_WHOLE, "k", 0, 0, 4 * MIB);
	peer_send_get(p, ns, LARDER_F_WHOLE, "k", 0, 0, 4 * MIB);
	cancel_id(p, id + 1);
	rig_settle(r);
	assert_int_equal(rig_stats(r).references, 1);
	assert_int_equal(peer_status(p), LARDER_OK);
	assert_int_equal(p->h.request_id, id);
	peer_check_value(p, "k", 4 * MIB);
	assert_int_equal(peer_status(p), LARDER_CANCELLED);
	assert_int_equal(p->h.request_id, id + 1);
	assert_int_equal(peer_status(p), LARDER_OK);
	assert_int_equal(p->h.op, LARDER_OP_CANCEL);
	assert_int_equal(peer_ping(p), LARDER_OK);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

/* --- drain ---------------------------------------------------------------------------------- */

static void drain__lets_what_has_begun_finish(void **state)
{
	static const char *const key[] = { "k" };
	struct rig *r = rig_start();
	struct peer *p = peer_login(r), *q = peer_login(r);
	uint32_t ns = peer_open_ns(p);

	assert_int_equal(peer_put_key(p, ns, "k", 3000), LARDER_OK);
	put_partly(q, ns, "l", 5000, 100, 0);
	assert_false(larder_node_is_drained(r->node));
	larder_node_drain(r->node, true);
	assert_true(rig_stats(r).draining);
	assert_false(larder_node_is_drained(r->node));
	assert_int_equal(peer_put_key(p, ns, "m", 3000), LARDER_DRAINING);
	assert_int_equal(peer_keys(p, LARDER_OP_LEASE, ns, 0, 1, 1000, key, 1), LARDER_DRAINING);
	assert_int_equal(peer_keys(p, LARDER_OP_EXISTS, ns, LARDER_F_LEASE, 1, 1000, key, 1),
			 LARDER_DRAINING);
	assert_int_equal(peer_keys(p, LARDER_OP_EXISTS, ns, 0, 0, 0, key, 1), LARDER_OK);
	assert_int_equal(peer_get(p, ns, "k", 3000), LARDER_OK);
	peer_check_value(p, "k", 3000);
	put_rest(q, "l", 5000, 100);
	assert_int_equal(peer_status(q), LARDER_OK);
	rig_settle(r);
	assert_true(larder_node_is_drained(r->node));
	larder_node_drain(r->node, false);
	assert_int_equal(peer_put_key(p, ns, "m", 3000), LARDER_OK);
	peer_close(p);
	peer_close(q);
	rig_check_released(r);
	rig_stop(r);
}

/* --- the ledger ----------------------------------------------------------------------------- */

struct ledger_map {
	void *at;
	size_t size;
	const struct larder_ledger_header *h;
};

static struct ledger_map ledger_map(struct rig *r)
{
	struct ledger_map m;
	int fd = larder_node_ledger_fd(r->node);

	assert_true(fd >= 0);
	m.size = (size_t)lseek(fd, 0, SEEK_END);
	m.at = mmap(NULL, m.size, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(m.at, MAP_FAILED);
	close(fd);
	m.h = m.at;
	return m;
}

static const void *ledger_section(const struct ledger_map *m, enum larder_ledger_section s)
{
	return (const char *)m->at + m->h->section[s].offset;
}

static void ledger__tells_what_happened(void **state)
{
	struct rig *r = rig_start();
	struct ledger_map m = ledger_map(r);
	const struct larder_usage *u = ledger_section(&m, LARDER_SECTION_USAGE);
	const struct larder_gauges *g = ledger_section(&m, LARDER_SECTION_GAUGES);
	const struct larder_latency *l = ledger_section(&m, LARDER_SECTION_LATENCY);
	const struct larder_ledger_name *names = ledger_section(&m, LARDER_SECTION_NAMES);
	const struct larder_node_section *v = ledger_section(&m, LARDER_SECTION_NODE);
	struct peer *p = peer_login(r);
	uint32_t ns = peer_open_ns(p);
	_cleanup_free_ uint8_t *bytes = value_make("k", 300000);
	uint64_t gets = 0;

	assert_string_equal(names[0].tenant, "demo");
	assert_int_equal(g[0].connections, 1);
	assert_int_equal(peer_put_key(p, ns, "k", 300000), LARDER_OK);
	assert_int_equal(peer_put(p, &(struct put_options){ .ns = ns, .key = "l", .value = bytes,
					.length = 300000, .bad_check = true }), LARDER_CHECKSUM);
	assert_int_equal(peer_get(p, ns, "k", 300000), LARDER_OK);
	assert_int_equal(peer_get(p, ns, "k", 300000), LARDER_OK);
	assert_int_equal(peer_get(p, ns, "nothing", 300000), LARDER_NOT_FOUND);
	peer_send_get(p, ns, LARDER_F_WHOLE, "k", 0, 0, 300000);
	rig_settle(r);
	assert_int_equal(g[0].in_flight_fetch, 1);	/* its reader has not read */
	assert_int_equal(peer_status(p), LARDER_OK);
	rig_advance(r, 100);
	assert_int_equal(g[0].in_flight_fetch, 0);
	assert_int_equal(g[0].in_flight_write, 0);
	assert_int_equal(u[0].ops[LARDER_OP_PUT], 2);
	assert_int_equal(u[0].ops[LARDER_OP_GET], 4);
	assert_int_equal(u[0].status[LARDER_CHECKSUM], 1);
	assert_int_equal(u[0].status[LARDER_NOT_FOUND], 1);
	assert_int_equal(u[0].checksum_errors, 1);
	assert_int_equal(u[0].put_new, 1);
	assert_int_equal(u[0].get_hits, 3);
	assert_int_equal(u[0].get_hit_bytes, 3 * 300000);
	assert_int_equal(u[0].bytes[LARDER_CAUSE_CLIENT_READ], 3 * 300000);
	assert_int_equal(u[0].bytes[LARDER_CAUSE_CLIENT_WRITE], 2 * 300000);
	assert_int_equal(u[0].bytes[LARDER_CAUSE_DISCARDED], 0);
	/* it is there: what comes along has no place */
	assert_int_equal(peer_put_key(p, ns, "k", 300000), LARDER_EXISTS_SAME);
	rig_settle(r);
	assert_int_equal(u[0].bytes[LARDER_CAUSE_CLIENT_WRITE], 2 * 300000);
	assert_int_equal(u[0].bytes[LARDER_CAUSE_DISCARDED], 300000);
	for (uint32_t i = 0; i < LARDER_LATENCY_BUCKETS; i++)
		gets += l[0].buckets[LARDER_LATENCY_GET][i];
	assert_int_equal(gets, 4);
	assert_true(v->turns > 0 && v->heartbeat_ns > 0);
	assert_int_equal(v->pages, 4096);
	assert_int_equal(v->pages_free, rig_stats(r).pages_free);
	assert_int_equal(v->objects, 1);
	peer_close(p);
	assert_int_equal(g[0].connections, 0);
	munmap(m.at, m.size);
	rig_stop(r);
}

/* --- turns ---------------------------------------------------------------------------------- */

/* Reads whatever is there and counts it; the node decides how much there is. */
struct drinker {
	struct peer *p;
	uint64_t bytes;
	uint8_t buffer[16384];
};

static void drinkers_drink(struct rig *r, struct drinker *d, uint32_t n, uint32_t turns)
{
	for (uint32_t i = 0; i < n; i++)
		d[i].p->rx_events = 0;
	for (uint32_t t = 0; t < turns; t++) {
		for (uint32_t i = 0; i < n; i++) {
			struct transport_rx rx = { .data = d[i].buffer,
						   .length = sizeof(d[i].buffer) };

			while (transport_post_rx(d[i].p->c, &rx, 1) == 0)
				;
		}
		rig_step(r);
		while (rig_poll_client(r) > 0)
			;
	}
	for (uint32_t i = 0; i < n; i++)
		d[i].bytes = (uint64_t)d[i].p->rx_events * sizeof(d[i].buffer);
}

/* Nine connections of one tenant against one of another: each tenant gets its half. */
static void turns__are_shared_by_tenants(void **state)
{
	struct rig *r = rig_new();
	struct drinker *d = calloc(10, sizeof(*d));
	uint64_t many = 0;
	uint32_t ns[10];

	assert_non_null(d);
	rig_open(r);
	for (int i = 0; i < 10; i++) {
		d[i].p = i < 9 ? peer_login(r) : peer_login_as(r, "other", "tom");
		ns[i] = peer_open_ns(d[i].p);
		if (i == 0 || i == 9)
			assert_int_equal(peer_put_key(d[i].p, ns[i], "k", 4 * MIB), LARDER_OK);
	}
	for (int i = 0; i < 10; i++)
		for (int k = 0; k < 8; k++)
			peer_send_get(d[i].p, ns[i], LARDER_F_WHOLE, "k", 0, 0, 4 * MIB);
	drinkers_drink(r, d, 10, 60);
	for (int i = 0; i < 9; i++)
		many += d[i].bytes;
	/* 60 turns of at most 256 KiB each; the first few are spent on filling the pipe */
	assert_in_range(d[9].bytes, 40ull * 256 * 1024, 64ull * 256 * 1024);
	assert_in_range(many, d[9].bytes * 8 / 10, d[9].bytes * 13 / 10);
	for (int i = 0; i < 10; i++)
		peer_close(d[i].p);
	free(d);
	rig_check_released(r);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(credits__all_and_one_more_for_control),
		cmocka_unit_test(credits__one_over_closes),
		cmocka_unit_test(requests__complete_out_of_order),
		cmocka_unit_test(deadline__ends_a_wait),
		cmocka_unit_test(put__second_writer_is_told),
		cmocka_unit_test(put__second_writer_does_not_wait),
		cmocka_unit_test(disconnect__at_every_byte_of_a_put),
		cmocka_unit_test(disconnect__while_reading),
		cmocka_unit_test(close__with_everything_under_way),
		cmocka_unit_test(cancel__parked),
		cmocka_unit_test(cancel__queued_reply),
		cmocka_unit_test(drain__lets_what_has_begun_finish),
		cmocka_unit_test(ledger__tells_what_happened),
		cmocka_unit_test(turns__are_shared_by_tenants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
