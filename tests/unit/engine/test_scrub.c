/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promise 1, healing: what went bad in memory is found though nobody reads it, at a bounded rate,
 * new objects first, and nothing good is ever taken for bad. The clock is the test's.
 */
#include <pthread.h>
#include <sched.h>

#include "fixture.h"

#include "engine/engine_internal.h"

#define BLOCK LARDER_CHECK_BLOCK
#define RATE (32ull << 20)
#define SLICES 16u
#define SLOW (4ull << 20)
#define STEP_NS (NSEC_PER_SEC / 128)	/* a block's worth of the rate */

struct told {
	struct larder_log log;
	unsigned lines;
	char last[1024];
};

static void told_line(void *user, int level, const char *text)
{
	struct told *t = user;

	if (level > LARDER_LOG_WARNING)
		return;
	t->lines++;
	(void)snprintf(t->last, sizeof(t->last), "%s", text);
}

static void scrub_open(struct fixture *f, struct told *t, uint32_t pages)
{
	*t = (struct told){ .log = { .line = told_line, .user = t, .level = LARDER_LOG_DEBUG } };
	f->config.log = &t->log;
	f->config.scrub_bytes_per_s = RATE;
	fixture_open(f, pages);
}

/* A turn in which a block may become due, and those in which the rest of it is looked at. */
static void turn(struct fixture *f, uint64_t ns)
{
	fixture_advance(f, ns);
	for (uint32_t n = 0; n < SLICES; n++) {
		uint64_t before = counts(f).scrubbed_bytes;

		for (uint32_t i = 0; i < f->config.reactors; i++)
			assert_null(engine_poll(engine_reactor(f->engine, i)));
		/* no request waits for more than a slice */
		assert_true(counts(f).scrubbed_bytes - before <=
			    f->config.reactors * BLOCK / SLICES);
	}
	/* nothing is held between turns: eviction and delete meet no reference of ours */
	assert_int_equal(counts(f).references, 0);
}

static void flip(struct fixture *f, const char *key, uint64_t at)
{
	struct engine_object *o;
	struct iovec iov;
	uint64_t bytes;

	assert_int_equal(get(f, key, &o), LARDER_OK);
	assert_int_equal(engine_object_iov(o, at, 1, &iov, 1, &bytes), 1);
	*(uint8_t *)iov.iov_base ^= 0x20;
	engine_unref(f->r, o);
}

static uint64_t quarantined(const struct fixture *f)
{
	return f->ledger->node->quarantined;
}

/* A writer whose checks are not those of its bytes, as with node.verify_commit = no. */
static void put_wrong(struct fixture *f, const char *key, uint64_t length)
{
	struct request q;

	request_init(&q, f, LARDER_OP_PUT, key);
	request_value(&q, 7, length);
	q.checks[q.op.n_checks - 1] ^= 1;
	assert_int_equal(request_run(f->r, &q), LARDER_OK);
	object_write(q.op.object, 7);
	engine_commit(f->r, &q.op);
	assert_int_equal(q.op.status, LARDER_OK);
}

/* Whole blocks of zeros, quicker than the fixture's put. */
static int put_zeros(struct fixture *f, const char *key, uint32_t blocks)
{
	static const uint8_t zeros[BLOCK];
	struct request q;
	struct iovec iov;
	uint64_t bytes;

	request_init(&q, f, LARDER_OP_PUT, key);
	q.op.length = (uint64_t)blocks * BLOCK;
	q.op.checks = q.checks;
	q.op.n_checks = blocks;
	for (uint32_t i = 0; i < blocks; i++)
		q.checks[i] = crc32c(0, zeros, sizeof(zeros));
	/* whoever looks at the last object may have lost its processor: wait as long as it takes */
	if (engine_submit(f->r, &q.op))
		while (!engine_poll(f->r))
			(void)sched_yield();
	if (q.op.status != LARDER_OK)
		return q.op.status;
	for (uint64_t at = 0; at < q.op.length; at += bytes) {
		if (engine_object_iov(q.op.object, at, q.op.length - at, &iov, 1, &bytes) != 1)
			return LARDER_INTERNAL;
		memset(iov.iov_base, 0, iov.iov_len);
	}
	engine_commit(f->r, &q.op);
	return q.op.status;
}

static void scrub__finds_a_bad_byte_that_nobody_reads(void **state)
{
	struct engine_object *o;
	struct fixture f = {};
	struct told t;
	unsigned turns = 0;
	char key[16];

	scrub_open(&f, &t, 4096);
	for (uint32_t i = 0; i < 10; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put_zeros(&f, key, 4), LARDER_OK);
	}
	while (counts(&f).scrub_passes == 0 && turns++ < 1000)
		turn(&f, STEP_NS);
	assert_int_equal(quarantined(&f), 0);
	flip(&f, "k6", 3 * BLOCK + 9);
	/* the next pass may wait a minute; from then on 10 objects of 4 blocks, and some slack */
	turn(&f, 60 * NSEC_PER_SEC);
	for (turns = 0; quarantined(&f) == 0 && turns < 60; turns++)
		turn(&f, STEP_NS);
	assert_int_equal(quarantined(&f), 1);
	assert_int_equal(t.lines, 1);
	assert_non_null(strstr(t.last, "tenant demo, namespace ns, key hash "));
	assert_non_null(strstr(t.last, "check block 4 of 4"));
	assert_int_equal(counts(&f).objects, 9);
	assert_int_equal(touch(&f, "k6"), LARDER_NOT_FOUND);
	assert_int_equal(put(&f, "k6", 60, BLOCK + 1), LARDER_OK);
	assert_int_equal(get(&f, "k6", &o), LARDER_OK);
	object_assert(o, 60, BLOCK + 1);
	engine_unref(f.r, o);
	fixture_close(&f);
}

static void scrub__new_objects_come_first(void **state)
{
	struct fixture f = {};
	struct told t;
	char key[16];

	f.config.scrub_bytes_per_s = 0;
	scrub_open(&f, &t, 16384);
	engine_set_scrub(f.engine, 0);
	for (uint32_t i = 0; i < 40; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put_zeros(&f, key, 4), LARDER_OK);
	}
	engine_set_scrub(f.engine, RATE);
	for (uint32_t i = 0; i < 4; i++)
		turn(&f, STEP_NS);
	put_wrong(&f, "new", BLOCK + 1);
	assert_int_equal(touch(&f, "new"), LARDER_OK);
	/* two blocks, and a turn or two of the sweep between them: not after 160 old ones */
	for (uint32_t i = 0; i < 4; i++)
		turn(&f, STEP_NS);
	assert_int_equal(quarantined(&f), 1);
	assert_int_equal(touch(&f, "new"), LARDER_NOT_FOUND);
	assert_int_equal(counts(&f).objects, 40);
	fixture_close(&f);
}

/* More new ones than the ring holds, for ever: the sweep comes round all the same. */
static void scrub__new_objects_do_not_starve_the_sweep(void **state)
{
	struct fixture f = {};
	struct told t;
	unsigned turns = 0;
	char key[16];

	scrub_open(&f, &t, 256);
	assert_int_equal(put(&f, "old", 1, 100), LARDER_OK);
	flip(&f, "old", 50);
	for (; quarantined(&f) == 0 && turns < 2000; turns++) {
		(void)snprintf(key, sizeof(key), "k%u", turns % 64);
		(void)delete(&f, key, 0);
		assert_int_equal(put(&f, key, turns, 4000), LARDER_OK);
		turn(&f, STEP_NS / 64);
	}
	assert_int_equal(quarantined(&f), 1);
	assert_int_equal(touch(&f, "old"), LARDER_NOT_FOUND);
	fixture_close(&f);
}

static void scrub__keeps_its_rate(void **state)
{
	struct fixture f = {};
	struct told t;
	uint64_t before, seen = 0;
	char key[16];

	scrub_open(&f, &t, 8192);
	engine_set_scrub(f.engine, SLOW);
	for (uint32_t i = 0; i < 10; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put_zeros(&f, key, 8), LARDER_OK);
	}
	before = counts(&f).scrubbed_bytes;
	for (uint32_t i = 0; i < 20000; i++) {	/* two seconds, a turn each 100 us */
		uint64_t now;

		turn(&f, NSEC_PER_SEC / 10000);
		now = counts(&f).scrubbed_bytes;
		assert_true(now - before - seen <= BLOCK);	/* a turn stays short */
		seen = now - before;
		assert_true(seen <= SLOW * (i + 1) / 10000 + 2 * BLOCK);
	}
	assert_true(seen >= 2 * SLOW * 0.95);
	/* a reactor that did not turn for long does not make up for it in one go */
	turn(&f, 10 * NSEC_PER_SEC);
	for (uint32_t i = 0; i < 10; i++)
		turn(&f, 0);
	assert_true(counts(&f).scrubbed_bytes - before - seen <= 2 * BLOCK);
	fixture_close(&f);
}

static void scrub__reactors_share_rate_and_slots(void **state)
{
	struct fixture f = { .config = { .reactors = 3 } };
	struct told t;
	uint64_t start;
	char key[16];

	scrub_open(&f, &t, 16384);
	engine_set_scrub(f.engine, 0);
	for (uint32_t i = 0; i < 64; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put_zeros(&f, key, 1), LARDER_OK);
	}
	engine_set_scrub(f.engine, RATE);
	start = f.now_ns;
	while (counts(&f).scrub_passes == 0)
		turn(&f, NSEC_PER_SEC / 10000);
	/* each object once; empty slots cost a little too */
	assert_int_equal(counts(&f).scrubbed_bytes, 64 * BLOCK);
	assert_true(f.now_ns - start >= NSEC_PER_SEC / 2 * 0.9);
	assert_true(f.now_ns - start <= NSEC_PER_SEC);
	fixture_close(&f);
}

static void scrub__an_empty_node_sleeps(void **state)
{
	struct fixture f = {};
	struct told t;
	uint64_t at;

	scrub_open(&f, &t, 64);
	turn(&f, NSEC_PER_SEC);
	assert_true(engine_next_deadline(f.r) == UINT64_MAX);
	assert_int_equal(put(&f, "k", 1, 100), LARDER_OK);
	assert_true(engine_next_deadline(f.r) <= f.now_ns + NSEC_PER_SEC);
	/* looked at as new and in the sweep; then there is a minute's rest */
	for (uint32_t i = 0; i < 20; i++) {
		at = engine_next_deadline(f.r);
		turn(&f, at > f.now_ns ? MIN(at - f.now_ns, STEP_NS) : 0);
	}
	at = engine_next_deadline(f.r);
	assert_true(at > f.now_ns + 50 * NSEC_PER_SEC && at != UINT64_MAX);
	engine_set_scrub(f.engine, 0);
	assert_true(engine_next_deadline(f.r) == UINT64_MAX);
	engine_set_scrub(f.engine, RATE);
	assert_int_equal(delete(&f, "k", 0), LARDER_OK);
	assert_true(engine_next_deadline(f.r) == UINT64_MAX);
	fixture_close(&f);
}

/* Deleted in the middle of its look, and the slot and its pages are somebody else's. */
static void scrub__gives_a_look_up_when_the_object_goes(void **state)
{
	struct fixture f = {};
	struct told t;
	struct engine_counts c;

	scrub_open(&f, &t, 3 * BLOCK / FIXTURE_PAGE);
	for (uint32_t i = 0; i < 24; i++) {
		assert_int_equal(put_zeros(&f, "a", 3), LARDER_OK);
		for (uint32_t n = 0; n <= i % 3; n++)
			turn(&f, STEP_NS);
		if (i % 2)
			assert_int_equal(delete(&f, "a", 0), LARDER_OK);
		/* or evicted: all pages are wanted */
		assert_int_equal(put_zeros(&f, "b", 3), LARDER_OK);
		turn(&f, STEP_NS);
		assert_int_equal(delete(&f, "b", 0), LARDER_OK);
	}
	c = counts(&f);
	assert_true(c.scrubbed_bytes > 24 * BLOCK);
	assert_int_equal(c.free_pages, 3 * BLOCK / FIXTURE_PAGE);
	assert_int_equal(quarantined(&f), 0);
	assert_int_equal(t.lines, 0);
	fixture_close(&f);
}

/* Promise 5: who reads it keeps it, until the reading is over. */
static void scrub__a_reader_is_not_cut(void **state)
{
	struct engine_object *o;
	struct fixture f = {};
	struct told t;

	scrub_open(&f, &t, 256);
	assert_int_equal(put(&f, "k", 1, 5000), LARDER_OK);
	flip(&f, "k", 1);
	assert_int_equal(get(&f, "k", &o), LARDER_OK);
	for (uint32_t i = 0; i < 4; i++) {
		fixture_advance(&f, STEP_NS);
		assert_null(engine_poll(f.r));
	}
	assert_int_equal(quarantined(&f), 1);
	assert_int_equal(counts(&f).references, 1);
	assert_int_equal(counts(&f).free_pages, 254);
	assert_int_equal(counts(&f).doomed, 1);
	assert_int_equal(touch(&f, "k"), LARDER_NOT_FOUND);
	assert_int_equal(put(&f, "k", 2, 5000), LARDER_OK);
	engine_unref(f.r, o);
	assert_int_equal(counts(&f).free_pages, 254);
	assert_int_equal(counts(&f).doomed, 0);
	fixture_close(&f);
}

/* What is not committed is not looked at: its bytes are not there yet. */
static void scrub__a_writer_is_left_alone(void **state)
{
	struct fixture f = {};
	struct request q;
	struct told t;

	scrub_open(&f, &t, 256);
	request_init(&q, &f, LARDER_OP_PUT, "k");
	request_value(&q, 1, 9000);
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	for (uint32_t i = 0; i < 20; i++)
		turn(&f, 10 * NSEC_PER_SEC);
	object_write(q.op.object, 1);
	engine_commit(f.r, &q.op);
	for (uint32_t i = 0; i < 20; i++)
		turn(&f, 10 * NSEC_PER_SEC);
	assert_int_equal(quarantined(&f), 0);
	assert_true(counts(&f).scrubbed_bytes >= 18000);
	assert_int_equal(touch(&f, "k"), LARDER_OK);
	fixture_close(&f);
}

/* The policy does not notice: the least recently used one is still the one that goes. */
static void scrub__does_not_touch(void **state)
{
	struct fixture f = {};
	struct told t;

	f.config.shards = 1;
	scrub_open(&f, &t, 3);
	assert_int_equal(put(&f, "a", 1, 100), LARDER_OK);
	assert_int_equal(put(&f, "b", 2, 100), LARDER_OK);
	assert_int_equal(put(&f, "c", 3, 100), LARDER_OK);
	for (uint32_t i = 0; i < 200; i++)
		turn(&f, NSEC_PER_SEC);
	assert_true(counts(&f).scrub_passes >= 2);
	assert_int_equal(put(&f, "d", 4, 100), LARDER_OK);
	assert_int_equal(touch(&f, "a"), LARDER_NOT_FOUND);
	assert_int_equal(touch(&f, "b"), LARDER_OK);
	fixture_close(&f);
}

static void scrub__memory_that_fails_as_a_whole_does_not_flood_the_log(void **state)
{
	struct fixture f = {};
	struct told t;
	char key[16];

	scrub_open(&f, &t, 1024);
	for (uint32_t i = 0; i < 500; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put(&f, key, i, 100), LARDER_OK);
		flip(&f, key, i % 100);
	}
	for (uint32_t i = 0; i < 3000; i++)
		turn(&f, NSEC_PER_SEC / 1000);
	assert_int_equal(quarantined(&f), 500);
	assert_in_range(t.lines, 1, 4);
	fixture_close(&f);
}

/* The only object that could go is being looked at, by another reactor, just now. */
static void scrub__is_no_reason_to_say_no_space(void **state)
{
	struct fixture f = { .config = { .reactors = 2 } };
	struct engine_reactor *other;
	struct engine_object *o;
	struct request q;
	struct told t;

	scrub_open(&f, &t, 2);
	other = engine_reactor(f.engine, 1);
	assert_int_equal(put(&f, "a", 1, 2 * FIXTURE_PAGE), LARDER_OK);
	assert_int_equal(get(&f, "a", &o), LARDER_OK);
	request_init(&q, &f, LARDER_OP_PUT, "b");
	request_value(&q, 2, 2 * FIXTURE_PAGE);
	/* a client's reference is one */
	assert_int_equal(request_run(f.r, &q), LARDER_NO_SPACE);
	other->scrub.held = engine_slot(f.engine, o);
	assert_int_equal(engine_submit(f.r, &q.op), 1);
	for (uint32_t i = 0; i < 10; i++)
		assert_null(engine_poll(f.r));
	other->scrub.held = RECORD_NONE;
	engine_unref(f.r, o);
	assert_ptr_equal(engine_poll(f.r), &q.op);
	assert_int_equal(q.op.status, LARDER_OK);
	engine_abort(f.r, &q.op);
	fixture_close(&f);
}

/* --- threads: one puts into a node that holds a single object, the others scrub at full speed */

struct crowd {
	struct fixture f;
	bool stop;			/* atomic */
};

struct scrubber {
	struct crowd *crowd;
	struct engine_reactor *r;
};

static void *scrubber_run(void *arg)
{
	struct scrubber *s = arg;

	while (!__atomic_load_n(&s->crowd->stop, __ATOMIC_RELAXED)) {
		/* no pass waits for the next */
		(void)__atomic_fetch_add(&s->crowd->f.now_ns, 60 * NSEC_PER_SEC, __ATOMIC_RELAXED);
		(void)engine_poll(s->r);
	}
	return NULL;
}

static void scrub__beside_a_writer_that_evicts(void **state)
{
	struct crowd c = { .f.config = { .reactors = 3, .scrub_bytes_per_s = 1ull << 40 } };
	struct scrubber s[2];
	pthread_t thread[2];
	int status = LARDER_OK;
	char key[16];

	fixture_open(&c.f, BLOCK / FIXTURE_PAGE);
	for (uint32_t i = 0; i < 2; i++) {
		s[i] = (struct scrubber){ &c, engine_reactor(c.f.engine, i + 1) };
		assert_int_equal(pthread_create(&thread[i], NULL, scrubber_run, &s[i]), 0);
	}
	/* until they have met, however busy the machine is */
	for (uint32_t i = 0; status == LARDER_OK &&
			     (i < 500 || counts(&c.f).scrubbed_bytes < 20 * BLOCK); i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		status = put_zeros(&c.f, key, 1);
	}
	__atomic_store_n(&c.stop, true, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(status, LARDER_OK);
	assert_int_equal(quarantined(&c.f), 0);
	fixture_close(&c.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scrub__finds_a_bad_byte_that_nobody_reads),
		cmocka_unit_test(scrub__new_objects_come_first),
		cmocka_unit_test(scrub__new_objects_do_not_starve_the_sweep),
		cmocka_unit_test(scrub__keeps_its_rate),
		cmocka_unit_test(scrub__reactors_share_rate_and_slots),
		cmocka_unit_test(scrub__an_empty_node_sleeps),
		cmocka_unit_test(scrub__gives_a_look_up_when_the_object_goes),
		cmocka_unit_test(scrub__a_reader_is_not_cut),
		cmocka_unit_test(scrub__a_writer_is_left_alone),
		cmocka_unit_test(scrub__does_not_touch),
		cmocka_unit_test(scrub__memory_that_fails_as_a_whole_does_not_flood_the_log),
		cmocka_unit_test(scrub__is_no_reason_to_say_no_space),
		cmocka_unit_test(scrub__beside_a_writer_that_evicts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
