/* SPDX-License-Identifier: Apache-2.0 */
/* The RESP port: who is let in, what each command answers, byte for byte, and what it leaves. */
#include "resp_speak.h"

#define NOAUTH "-NOAUTH Authentication required.\r\n"
#define WRONGPASS "-WRONGPASS invalid username-password pair or user is disabled.\r\n"

static void stop(struct rig *r, struct peer *p)
{
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void auth__nobody_without(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_connect(&rr);

	resp_do(p, "GET a", NOAUTH);
	resp_do(p, "PING", NOAUTH);
	resp_do(p, "SET a b", NOAUTH);
	resp_do_line(p, "HELLO 3", "-NOAUTH ");
	resp_do_line(p, "HELLO 4", "-NOPROTO ");
	resp_do(p, "AUTH demo wrong", WRONGPASS);
	resp_do(p, "AUTH tom", WRONGPASS);		/* no default tenant */
	resp_do(p, "AUTH nobody tom", WRONGPASS);	/* the third is the last */
	peer_expect_closed(p);
	stop(r, p);
}

static void auth__tenant_and_secret(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_connect(&rr), *q;

	resp_do(p, "AUTH other wrong", WRONGPASS);
	resp_do(p, "AUTH other jerry", "+OK\r\n");	/* the second secret */
	resp_do(p, "PING", "+PONG\r\n");
	resp_do(p, "AUTH other tom", "+OK\r\n");
	resp_say(p, RESP_AUTH, "-ERR who a connection is does not change: open another\r\n");
	assert_int_equal(rig_stats(r).connections, 1);
	assert_int_equal(rig_stats(r).unauthenticated, 0);
	/* one tenant's keys are not another's */
	resp_do(p, "SET a mine", "+OK\r\n");
	q = resp_open(&rr);
	resp_do(q, "GET a", "$-1\r\n");
	resp_do(q, "SCAN 0", "*2\r\n$1\r\n0\r\n*0\r\n");
	resp_do(q, "DEL a", ":0\r\n");
	resp_do(p, "GET a", "$4\r\nmine\r\n");
	peer_close(q);
	stop(r, p);
}

static void auth__default_tenant(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr;
	struct peer *p;

	r->config.resp.default_tenant = "other";
	rr = resp_rig_open(r);
	p = resp_connect(&rr);
	resp_do(p, "AUTH wrong", WRONGPASS);
	resp_do(p, "AUTH tom", "+OK\r\n");
	peer_close(p);
	p = resp_connect(&rr);
	resp_do(p, "HELLO 2 AUTH default tom",
		"*14\r\n$6\r\nserver\r\n$6\r\nlarder\r\n$7\r\nversion\r\n$5\r\n" LARDER_VERSION
		"\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:2\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n"
		"$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
	stop(r, p);
}

static void hello__three(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_connect(&rr);

	resp_do_line(p, "HELLO 3 AUTH other tom SETNAME x", "%7\r\n");
	for (int i = 0; i < 20; i++)
		resp_expect_line(p, "");
	resp_expect(p, "$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
	resp_do(p, "GET none", "_\r\n");
	resp_do(p, "MGET none none", "*2\r\n_\r\n_\r\n");
	stop(r, p);
}

static void values__set_get_and_their_like(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_open(&rr);

	resp_do(p, "GET a", "$-1\r\n");
	resp_do(p, "SET a hello", "+OK\r\n");
	resp_do(p, "get a", "$5\r\nhello\r\n");
	resp_do(p, "SET a hello", "+OK\r\n");		/* the same bytes */
	resp_do_line(p, "SET a other", "-CONFLICT ");
	resp_do_line(p, "SET a longer-than", "-CONFLICT ");
	resp_do(p, "GET a", "$5\r\nhello\r\n");
	resp_do(p, "SET a other NX", "$-1\r\n");
	resp_do(p, "SET b other NX", "+OK\r\n");
	resp_do(p, "MGET a none b", "*3\r\n$5\r\nhello\r\n$-1\r\n$5\r\nother\r\n");
	resp_do(p, "STRLEN a", ":5\r\n");
	resp_do(p, "STRLEN none", ":0\r\n");
	resp_do(p, "GETRANGE a 1 3", "$3\r\nell\r\n");
	resp_do(p, "GETRANGE a -3 -1", "$3\r\nllo\r\n");
	resp_do(p, "GETRANGE a 0 -1", "$5\r\nhello\r\n");
	resp_do(p, "GETRANGE a -100 100", "$5\r\nhello\r\n");
	resp_do(p, "GETRANGE a 3 1", "$0\r\n\r\n");
	resp_do(p, "GETRANGE a 5 9", "$0\r\n\r\n");
	resp_do(p, "GETRANGE none 0 1", "$0\r\n\r\n");
	resp_do(p, "EXISTS a b none a", ":3\r\n");
	resp_do(p, "DBSIZE", ":2\r\n");
	resp_do(p, "DEL a b none", ":2\r\n");
	resp_do(p, "EXISTS a", ":0\r\n");
	resp_do(p, "DBSIZE", ":0\r\n");
	stop(r, p);
}

static void values__ttl(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_open(&rr);

	resp_do(p, "SET a x EX 100", "+OK\r\n");
	resp_do(p, "SET b x PX 1500 NX", "+OK\r\n");
	resp_do(p, "SET c x", "+OK\r\n");
	resp_do(p, "TTL a", ":100\r\n");
	resp_do(p, "TTL b", ":2\r\n");
	resp_do(p, "TTL c", ":-1\r\n");
	resp_do(p, "TTL none", ":-2\r\n");
	rig_advance(r, 1600);
	resp_do(p, "GET b", "$-1\r\n");
	resp_do(p, "TTL a", ":99\r\n");
	rig_advance(r, 99000);
	resp_do(p, "MGET a b c", "*3\r\n$-1\r\n$-1\r\n$1\r\nx\r\n");
	stop(r, p);
}

static void values__errors_keep_step(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_open(&rr);
	char key[1200];

	resp_do_line(p, "SET a x BOGUS", "-ERR syntax error");
	resp_do_line(p, "SET a x EX", "-ERR syntax error");
	resp_do_line(p, "SET a x EX 0", "-ERR invalid expire");
	resp_do_line(p, "SET a x EX ten", "-ERR value is not an integer");
	resp_do_line(p, "SET a x EX 1 PX 1", "-ERR syntax error");
	resp_do(p, "GET a", "$-1\r\n");			/* nothing of these is there */
	resp_do_line(p, "SET a", "-ERR wrong number of arguments for 'set'");
	resp_do_line(p, "GET", "-ERR wrong number of arguments for 'get'");
	resp_do_line(p, "GET a b", "-ERR wrong number of arguments for 'get'");
	resp_do_line(p, "FLUSHALL", "-ERR unknown command 'FLUSHALL'");
	resp_do_line(p, "CLUSTER SLOTS", "-ERR unknown command");
	resp_do_line(p, "CONFIG GET save", "-ERR unknown command");
	resp_say(p, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n",
		 "-ERR a value has at least one byte\r\n");
	memset(key, 'k', sizeof(key));
	snprintf(key, sizeof(key), "SET %01050d x", 1);
	resp_do_line(p, key, "-ERR a key has 1 to 1024 bytes");
	snprintf(key, sizeof(key), "GET %01050d", 1);
	resp_do(p, key, "$-1\r\n");
	resp_do_line(p, "SELECT 1", "-ERR DB index");
	resp_do_line(p, "CLIENT KILL x", "-ERR CLIENT here knows");
	resp_do_line(p, "GETRANGE a b c", "-ERR value is not an integer");
	resp_do_line(p, "SCAN x", "-ERR invalid cursor");
	resp_do_line(p, "SCAN 0 COUNT 0", "-ERR syntax");
	resp_do(p, "PING", "+PONG\r\n");
	stop(r, p);
}

static void info_says(struct peer *p, const char *what)
{
	char head[8] = "", text[2048] = "";
	unsigned long len;

	resp_send(p, "INFO REPLICATION");
	assert_true(peer_read(p, head, 6));	/* "$nnn\r\n" */
	len = strtoul(head + 1, NULL, 10);
	assert_in_range(len, 100, sizeof(text) - 3);
	assert_true(peer_read(p, text, (uint32_t)len + 2));
	assert_non_null(strstr(text, what));
}

static void talk__small_commands(void **state)
{
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_open(&rr);

	resp_do(p, "PING word", "$4\r\nword\r\n");
	resp_do(p, "ECHO word", "$4\r\nword\r\n");
	resp_do(p, "SELECT 0", "+OK\r\n");
	resp_do(p, "CLIENT SETINFO LIB-NAME x", "+OK\r\n");
	resp_do(p, "CLIENT GETNAME", "$-1\r\n");
	resp_do(p, "CLIENT SETNAME me", "+OK\r\n");
	resp_do(p, "CLIENT GETNAME", "$2\r\nme\r\n");
	resp_do(p, "CLIENT ID", ":1\r\n");
	resp_do(p, "COMMAND COUNT", ":19\r\n");
	resp_do(p, "COMMAND DOCS", "*0\r\n");
	resp_do(p, "COMMAND INFO get nope",
		"*2\r\n*6\r\n$3\r\nget\r\n:2\r\n*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n$-1\r\n");
	info_says(p, "\r\nrole:master\r\n");
	peer_close(p);
	p = resp_open(&rr);
	resp_do(p, "QUIT", "+OK\r\n");
	peer_expect_closed(p);
	stop(r, p);
}

/* Many commands in one write, values among them, are answered in order. */
static void pipeline__order_and_bounds(void **state)
{
	static char text[200000], expected[200000];
	struct rig *r = rig_new();
	struct resp_rig rr = resp_rig_open(r);
	struct peer *p = resp_open(&rr);
	size_t at = 0, n = 0;

	for (int i = 0; i < 1000; i++) {
		at += (size_t)sprintf(text + at,
				      "*3\r\n$3\r\nSET\r\n$4\r\nk%03d\r\n$6\r\nvalue%d\r\n"
				      "*2\r\n$3\r\nGET\r\n$4\r\nk%03d\r\n*1\r\n$4\r\nPING\r\n",
				      i, i % 10, i);
		n += (size_t)sprintf(expected + n, "+OK\r\n$6\r\nvalue%d\r\n+PONG\r\n", i % 10);
	}
	for (size_t i = 0; i < at; i += 7777)
		peer_send_raw(p, text + i, MIN((size_t)7777, at - i));
	for (size_t i = 0; i < n; i += 1000)
		resp_expect_bytes(p, expected + i, MIN((size_t)1000, n - i));
	assert_int_equal(rig_stats(r).objects, 1000);
	stop(r, p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(auth__nobody_without),
		cmocka_unit_test(auth__tenant_and_secret),
		cmocka_unit_test(auth__default_tenant),
		cmocka_unit_test(hello__three),
		cmocka_unit_test(values__set_get_and_their_like),
		cmocka_unit_test(values__ttl),
		cmocka_unit_test(values__errors_keep_step),
		cmocka_unit_test(talk__small_commands),
		cmocka_unit_test(pipeline__order_and_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
