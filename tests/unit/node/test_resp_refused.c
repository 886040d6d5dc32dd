/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RESP port when the answer is no: limits, leases, draining, a full node, bad pages; told as
 * errors or, with resp.on_refusal=drop, not told and counted. And what can be listed.
 */
#include "limit_speak.h"
#include "resp_speak.h"

static void limit(struct rig *r, enum larder_limit which, uint64_t value)
{
	assert_int_equal(set_one(r, "demo", which, value), 0);
}

static void check_end(struct rig *r)
{
	rig_settle(r);
	rig_check_released(r);
	rig_stop(r);
}

static uint64_t dropped(struct peer *p)
{
	char head[8] = "", text[2048] = "", *at;
	unsigned long len;

	resp_send(p, "INFO");
	assert_true(peer_read(p, head, 6));	/* "$nnn\r\n" */
	len = strtoul(head + 1, NULL, 10);
	assert_in_range(len, 100, sizeof(text) - 3);
	assert_true(peer_read(p, text, (uint32_t)len + 2));
	at = strstr(text, "larder_resp_dropped:");
	assert_non_null(at);
	return strtoull(at + strlen("larder_resp_dropped:"), NULL, 10);
}

static void exists__promises_what_it_counts(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_open(&rr), *q = peer_login(r);
	const char *key = "a";
	uint32_t ns;

	resp_do(p, "SET a x", "+OK\r\n");
	assert_int_equal(peer_ns(q, LARDER_OP_NS_OPEN, "resp", NULL, &ns), LARDER_OK);
	resp_do(p, "EXISTS a", ":1\r\n");
	assert_int_equal(rig_stats(r).leases, 1);
	resp_do(p, "EXISTS a", ":1\r\n");		/* the same lease, longer */
	assert_int_equal(rig_stats(r).leases, 1);
	/* it holds against natives */
	assert_int_equal(peer_keys(q, LARDER_OP_DELETE, ns, 0, 0, 0, &key, 1), LARDER_OK);
	assert_int_equal(peer_key_status(q, 0).status, LARDER_BUSY);
	/* RESP lets go of its own */
	resp_do(p, "DEL a", ":1\r\n");
	assert_int_equal(rig_stats(r).leases, 0);
	/* of another's it does not */
	resp_do(p, "SET a y", "+OK\r\n");
	assert_int_equal(peer_keys(q, LARDER_OP_LEASE, ns, 0, 9, 3600000, &key, 1), LARDER_OK);
	resp_do(p, "EXISTS a", ":1\r\n");
	resp_do_line(p, "DEL a", "-BUSY ");
	resp_do(p, "GET a", "$1\r\ny\r\n");
	peer_close(q);
	peer_close(p);
	check_end(r);
}

static void exists__no_lease_is_no(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_open(&rr);

	limit(r, LARDER_LIMIT_leased_bytes, 1);
	resp_do(p, "SET a x", "+OK\r\n");
	resp_do(p, "SET b x", "+OK\r\n");
	resp_do(p, "EXISTS a", ":1\r\n");
	resp_do(p, "EXISTS b", ":0\r\n");
	resp_do(p, "GET b", "$1\r\nx\r\n");
	larder_node_drain(r->node, true);
	resp_do(p, "EXISTS a", ":0\r\n");
	resp_do_line(p, "SET c x", "-DRAINING ");
	resp_do(p, "GET a", "$1\r\nx\r\n");
	larder_node_drain(r->node, false);
	peer_close(p);
	check_end(r);
}

static void limits__are_told(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_open(&rr);

	limit(r, LARDER_LIMIT_ops_per_s, 1);
	resp_send(p, "GET a");
	resp_expect(p, "$-1\r\n");
	for (int i = 0; i < 3; i++)
		resp_send(p, "GET a");
	rig_settle(r);
	resp_expect_line(p, "");		/* the burst */
	resp_expect_line(p, "-THROTTLED over the limit ops_per_s");
	resp_expect_line(p, "-THROTTLED ");
	limit(r, LARDER_LIMIT_namespaces, 1);
	resp_do(p, "SET a x", "+OK\r\n");
	resp_do_line(p, "SET m@00000001@0@0 x", "-QUOTA ");
	resp_do(p, "GET m@00000001@0@0", "$-1\r\n");
	peer_close(p);
	check_end(r);
}

static void drop__looks_done(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr;
	struct peer *p;
	uint8_t *v = value_make("big", 300000);

	r->config.resp.drop = true;
	r->config.max_value_bytes = 100000;
	rr = resp_rig_open(r);
	p = resp_open(&rr);
	resp_do(p, "SET a x", "+OK\r\n");
	assert_int_equal(dropped(p), 0);
	resp_do(p, "SET a y", "+OK\r\n");		/* CONFLICT */
	assert_int_equal(dropped(p), 1);
	resp_set_bytes(p, "big", v, 300000, 50000);	/* TOO_LARGE */
	resp_expect(p, "+OK\r\n");
	assert_int_equal(dropped(p), 2);
	resp_set_bytes(p, "empty", v, 0, 1);
	resp_expect(p, "+OK\r\n");
	assert_int_equal(dropped(p), 3);
	resp_do(p, "MGET a big", "*2\r\n$1\r\nx\r\n$-1\r\n");
	larder_node_drain(r->node, true);
	resp_do(p, "SET c x", "+OK\r\n");
	resp_do(p, "EXISTS a c", ":0\r\n");
	larder_node_drain(r->node, false);
	assert_int_equal(dropped(p), 4);
	resp_do(p, "GET c", "$-1\r\n");
	limit(r, LARDER_LIMIT_ops_per_s, 1);
	for (int i = 0; i < 4; i++)
		resp_do(p, "EXISTS none", ":0\r\n");
	for (int i = 0; i < 4; i++)
		resp_do(p, "GET a", "$-1\r\n");
	assert_in_range(dropped(p), 4 + 6, 4 + 8);	/* all but the burst */
	/* what makes no sense is an error still */
	resp_do_line(p, "SET a", "-ERR ");
	free(v);
	peer_close(p);
	check_end(r);
}

static void flip_a_byte(struct rig *r, const uint8_t *value, size_t len)
{
	uint8_t *arena = arena_base(r->memory->arena);
	size_t bytes = (size_t)arena_pages(r->memory->arena) * RIG_PAGE;
	uint8_t *at = memmem(arena, bytes, value, MIN(len, (size_t)RIG_PAGE));

	assert_non_null(at);
	at[100] ^= 1;
}

/* Nobody else looks for such a client: bad bytes are taken out of service, not sent. */
static void bad_pages__are_not_served(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr;
	struct peer *p;
	uint8_t *v = value_make("k", 600000);

	r->config.scrub_bytes_per_s = 0;
	rr = resp_rig_open(r);
	p = resp_open(&rr);
	resp_set_bytes(p, "k", v, 600000, 100000);
	resp_expect(p, "+OK\r\n");
	resp_get_bytes(p, "k", v, 600000);
	flip_a_byte(r, v, 600000);
	resp_do_line(p, "GETRANGE k 300000 300001", "$2");	/* not in the bad block */
	resp_expect_line(p, "");
	resp_do(p, "GET k", "$-1\r\n");
	assert_int_equal(rig_stats(r).quarantined, 1);
	resp_set_bytes(p, "k", v, 600000, 100000);	/* it heals */
	resp_expect(p, "+OK\r\n");
	resp_get_bytes(p, "k", v, 600000);
	free(v);
	peer_close(p);
	check_end(r);
}

/* All of @expected keys are told, by calls with @words behind the cursor. */
static uint32_t scan_all(struct peer *p, const char *words)
{
	char say[256], line[64];
	uint64_t cursor = 0;
	uint32_t found = 0, calls = 0;

	do {
		unsigned n;
		char text[32];

		snprintf(say, sizeof(say), "SCAN %llu%s", (unsigned long long)cursor, words);
		resp_send(p, say);
		resp_expect(p, "*2\r\n$");
		for (n = 0; n < 2 || line[n - 1] != '\n'; n++)
			assert_true(n < sizeof(line) && peer_read(p, line + n, 1));
		n = (unsigned)strtoul(line, NULL, 10);
		assert_in_range(n, 1, sizeof(text) - 3);
		assert_true(peer_read(p, text, n + 2));
		cursor = strtoull(text, NULL, 10);
		resp_expect(p, "*");
		for (n = 0; n < 2 || line[n - 1] != '\n'; n++)
			assert_true(n < sizeof(line) && peer_read(p, line + n, 1));
		n = (unsigned)strtoul(line, NULL, 10);
		found += n;
		for (unsigned i = 0; i < n; i++) {
			resp_expect_line(p, "$");
			resp_expect_line(p, "");
		}
		assert_true(calls++ < 1000);
	} while (cursor != 0);
	return found;
}

static void scan__every_key_once(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_open(&rr), *q = peer_login(r);
	uint32_t ns = peer_open_ns(q);
	char words[128];

	for (int i = 0; i < 300; i++) {
		snprintf(words, sizeof(words), i % 3 ? "SET key-%d x" : "SET m%d@00000001@0@%x x",
			 i % 3 ? i : i % 5, i);
		resp_do(p, words, "+OK\r\n");
	}
	/* a native one that no RESP key leads to */
	assert_int_equal(peer_put_key(q, ns, "hidden", 100), LARDER_OK);
	assert_int_equal(scan_all(p, ""), 300);
	assert_int_equal(scan_all(p, " COUNT 1"), 300);
	assert_int_equal(scan_all(p, " COUNT 10000"), 300);
	assert_int_equal(scan_all(p, " MATCH key-*"), 200);
	assert_int_equal(scan_all(p, " MATCH key-1?[12]"), 13);
	assert_int_equal(scan_all(p, " MATCH none*"), 0);
	peer_close(q);
	peer_close(p);
	check_end(r);
}

static void scan__one_namespace(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr;
	struct peer *p, *q;
	uint32_t ns;

	r->config.resp.ns = "one";
	rr = resp_rig_open(r);
	p = resp_open(&rr);
	q = peer_login(r);
	ns = peer_open_ns(q);
	assert_int_equal(peer_put_key(q, ns, "hidden", 100), LARDER_OK);
	resp_do(p, "DBSIZE", ":0\r\n");
	resp_do(p, "SCAN 0", "*2\r\n$1\r\n0\r\n*0\r\n");
	resp_do(p, "SET m@00000001@0@0 x", "+OK\r\n");
	resp_do(p, "DBSIZE", ":1\r\n");
	assert_int_equal(scan_all(p, ""), 1);
	assert_int_equal(peer_ns(q, LARDER_OP_NS_OPEN, "one", NULL, &ns), LARDER_OK);
	peer_close(q);
	peer_close(p);
	check_end(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exists__promises_what_it_counts),
		cmocka_unit_test(exists__no_lease_is_no),
		cmocka_unit_test(limits__are_told),
		cmocka_unit_test(drop__looks_done),
		cmocka_unit_test(bad_pages__are_not_served),
		cmocka_unit_test(scan__every_key_once),
		cmocka_unit_test(scan__one_namespace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
