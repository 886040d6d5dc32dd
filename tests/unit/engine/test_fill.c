/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fill leases: who misses first is told to compute, the others wait and are told; how one ends,
 * and what bounds them.
 */
#include "fixture.h"

enum { ABSENT_MS = 10000 };	/* of a fill lease for which no time was asked */

static void ask_init(struct request *q, const struct fixture *f, int opcode, const char *key,
		     uint64_t id, uint64_t holder)
{
	request_init(q, f, opcode, key);
	q->op.flags = LARDER_F_FILL;
	q->op.lease_id = id;
	q->op.holder = holder;
}

/* The status of the key; does not wait. */
static int ask(struct fixture *f, int opcode, const char *key, uint64_t id, uint64_t holder)
{
	struct request q;

	ask_init(&q, f, opcode, key, id, holder);
	assert_int_equal(engine_submit(f->r, &q.op), 0);
	if (opcode == LARDER_OP_GET)
		return q.op.status;
	assert_int_equal(q.op.status, LARDER_OK);
	return q.key.status;
}

static int fill(struct fixture *f, const char *key, uint64_t id, uint64_t holder)
{
	return ask(f, LARDER_OP_EXISTS, key, id, holder);
}

/* Asks and waits: parked. */
static void park(struct fixture *f, struct request *q, int opcode, uint32_t flags, uint64_t id)
{
	ask_init(q, f, opcode, "k", id, 100 + id);
	q->op.flags = LARDER_F_WAIT | flags;
	assert_int_equal(engine_submit(f->r, &q->op), 1);
}

static uint32_t drain(struct fixture *f)
{
	uint32_t n = 0;

	while (engine_poll(f->r))
		n++;
	return n;
}

static void fill__the_first_who_misses_is_told(void **state)
{
	struct fixture f = {};
	struct request q;

	fixture_open(&f, 64);
	assert_int_equal(fill(&f, "k", 1, 1), LARDER_FILL);
	assert_int_equal(fill(&f, "k", 2, 2), LARDER_NOT_FOUND);
	assert_int_equal(ask(&f, LARDER_OP_GET, "k", 0, 3), LARDER_NOT_FOUND);
	assert_int_equal(presence(&f, "k"), LARDER_FILLING);
	assert_int_equal(ask(&f, LARDER_OP_GET, "g", 0, 3), LARDER_FILL);
	assert_int_equal(counts(&f).fills, 2);
	assert_int_equal(f.ledger->gauges[0].fills, 2);
	assert_int_equal(f.ledger->usage[0].fills, 2);
	/* the same id again is a retry after a lost reply, from wherever it comes */
	assert_int_equal(fill(&f, "k", 1, 7), LARDER_FILL);
	assert_int_equal(counts(&f).fills, 2);
	/* no id is nobody's retry */
	assert_int_equal(ask(&f, LARDER_OP_GET, "g", 0, 3), LARDER_NOT_FOUND);
	/* the holder's put is a put */
	assert_int_equal(put(&f, "k", 1, 100), LARDER_OK);
	assert_int_equal(touch(&f, "k"), LARDER_OK);
	assert_int_equal(counts(&f).fills, 1);
	request_init(&q, &f, LARDER_OP_EXISTS, "k");
	q.op.flags = LARDER_F_FILL;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.key.status, LARDER_OK);
	assert_int_equal(q.op.leading_run, 1);
	engine_fills_release(f.r, 3);
	fixture_close(&f);
}

static void fill__one_for_a_batch_at_its_first_miss(void **state)
{
	struct fixture f = {};
	struct request q;
	struct larder_op_key keys[5] = { { .key = "a", .key_len = 1 }, { .key = "b", .key_len = 1 },
					 { .key = "c", .key_len = 1 }, { .key = "d", .key_len = 1 },
					 { .key = "e", .key_len = 1 } };

	fixture_open(&f, 64);
	assert_int_equal(put(&f, "a", 1, 1), LARDER_OK);
	assert_int_equal(put(&f, "d", 1, 1), LARDER_OK);
	ask_init(&q, &f, LARDER_OP_EXISTS, "", 1, 1);
	q.op.flags |= LARDER_F_WAIT | LARDER_F_LEASE;
	q.op.lease_ms = 1000;
	q.op.keys = keys;
	q.op.n_keys = 5;
	assert_int_equal(fill(&f, "c", 9, 9), LARDER_FILL);
	/* "c" is another's, but who holds a fill lease waits for nobody */
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.op.leading_run, 1);
	assert_int_equal(keys[0].presence, LARDER_LEASED);
	assert_int_equal(keys[1].status, LARDER_FILL);
	assert_int_equal(keys[1].presence, LARDER_ABSENT);
	assert_int_equal(keys[2].status, LARDER_NOT_FOUND);
	assert_int_equal(keys[2].presence, LARDER_FILLING);
	assert_int_equal(keys[3].presence, LARDER_LEASED);
	assert_int_equal(keys[4].status, LARDER_NOT_FOUND);
	assert_int_equal(counts(&f).fills, 2);
	/* another's batch: its first miss is taken, and it gets no other */
	q.op.lease_id = q.op.holder = 2;
	q.op.flags = LARDER_F_FILL;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_not_equal(keys[i].status, LARDER_FILL);
	assert_int_equal(counts(&f).fills, 2);
	assert_int_equal(release(&f, NULL, 1), LARDER_OK);	/* leases and the fill lease */
	assert_int_equal(counts(&f).leases, 0);
	assert_int_equal(counts(&f).fills, 1);
	assert_int_equal(release(&f, "c", 1), LARDER_NOT_FOUND);
	assert_int_equal(release(&f, "c", 9), LARDER_OK);
	fixture_close(&f);
}

static void fill__the_waiters_stay_with_the_writer(void **state)
{
	struct fixture f = {};
	struct request get, exists, plain, put_first, put_second;

	fixture_open(&f, 64);
	assert_int_equal(fill(&f, "k", 1, 1), LARDER_FILL);
	park(&f, &get, LARDER_OP_GET, LARDER_F_FILL, 2);
	park(&f, &exists, LARDER_OP_EXISTS, LARDER_F_FILL, 3);
	park(&f, &plain, LARDER_OP_GET, 0, 4);
	assert_int_equal(f.ledger->gauges[0].waiting, 3);
	request_init(&put_first, &f, LARDER_OP_PUT, "k");
	request_value(&put_first, 1, 100);
	put_first.op.flags = LARDER_F_NOWAIT;	/* nobody writes: it need not wait */
	assert_int_equal(request_run(f.r, &put_first), LARDER_OK);
	assert_int_equal(counts(&f).fills, 0);
	assert_int_equal(counts(&f).filling, 1);
	assert_int_equal(drain(&f), 0);
	/* the second writer is second, whoever held the fill lease */
	request_init(&put_second, &f, LARDER_OP_PUT, "k");
	request_value(&put_second, 2, 100);
	assert_int_equal(engine_submit(f.r, &put_second.op), 1);
	object_write(put_first.op.object, 1);
	engine_commit(f.r, &put_first.op);
	assert_int_equal(drain(&f), 4);
	assert_int_equal(get.op.status, LARDER_OK);
	engine_unref(f.r, get.op.object);
	assert_int_equal(exists.key.presence, LARDER_PRESENT);
	assert_int_equal(plain.op.status, LARDER_OK);
	engine_unref(f.r, plain.op.object);
	assert_int_equal(put_second.op.status, LARDER_CONFLICT);
	assert_int_equal(f.ledger->gauges[0].waiting, 0);
	fixture_close(&f);
}

/* However it ends without an object, the next of those who ask for it is the one. */
static void next_in_turn(struct fixture *f, void (*end)(struct fixture *f))
{
	struct request one, two, plain;

	fixture_open(f, 64);
	assert_int_equal(fill(f, "k", 1, 1), LARDER_FILL);
	park(f, &one, LARDER_OP_EXISTS, LARDER_F_FILL, 2);
	park(f, &two, LARDER_OP_GET, LARDER_F_FILL, 3);
	park(f, &plain, LARDER_OP_GET, 0, 4);
	end(f);
	assert_int_equal(drain(f), 2);
	assert_int_equal(plain.op.status, LARDER_NOT_FOUND);
	assert_int_equal(f->ledger->usage[0].fills, 2);
	/* one of the two has it, the other waits for that one */
	if (one.op.stage) {
		assert_int_equal(two.op.status, LARDER_FILL);
		assert_int_equal(engine_cancel(f->r, &one.op), 0);
	} else {
		assert_int_equal(one.key.status, LARDER_FILL);
		assert_int_equal(engine_cancel(f->r, &two.op), 0);
	}
	assert_int_equal(counts(f).fills, 1);
	engine_fills_release(f->r, 102);
	engine_fills_release(f->r, 103);
	fixture_close(f);
}

static void end_by_release(struct fixture *f)
{
	assert_int_equal(release(f, "k", 1), LARDER_OK);
}

static void end_by_departure(struct fixture *f)
{
	engine_fills_release(f->r, 2);
	assert_int_equal(counts(f).fills, 1);
	engine_fills_release(f->r, 1);
	assert_int_equal(f->ledger->usage[0].fills_lapsed, 1);
}

/* A retry by the same id, on a new connection: the old one's end, if late, is nobody's end. */
static void fill__goes_with_the_retry_to_its_new_holder(void **state)
{
	struct fixture f = {};

	fixture_open(&f, 64);
	assert_int_equal(fill(&f, "k", 1, 10), LARDER_FILL);
	assert_int_equal(fill(&f, "k", 1, 20), LARDER_FILL);
	engine_fills_release(f.r, 10);
	assert_int_equal(counts(&f).fills, 1);
	assert_int_equal(f.ledger->usage[0].fills_lapsed, 0);
	assert_int_equal(fill(&f, "k", 2, 30), LARDER_NOT_FOUND);
	engine_fills_release(f.r, 20);
	assert_int_equal(counts(&f).fills, 0);
	assert_int_equal(f.ledger->usage[0].fills_lapsed, 1);
	assert_int_equal(fill(&f, "k", 2, 30), LARDER_FILL);
	engine_fills_release(f.r, 30);
	fixture_close(&f);
}

static void end_by_time(struct fixture *f)
{
	assert_int_equal(engine_next_deadline(f->r), f->now_ns + ABSENT_MS * NSEC_PER_MSEC);
	fixture_advance(f, ABSENT_MS * NSEC_PER_MSEC - 1);
	assert_int_equal(drain(f), 0);
	fixture_advance(f, 1);
	(void)engine_poll(f->r);	/* it finds the time over; who waits is told by the next */
	assert_int_equal(f->ledger->usage[0].fills_lapsed, 1);
}

static void end_by_abort(struct fixture *f)
{
	struct request q;

	request_init(&q, f, LARDER_OP_PUT, "k");
	request_value(&q, 1, 100);
	assert_int_equal(request_run(f->r, &q), LARDER_OK);
	engine_abort(f->r, &q.op);
}

static void end_by_delete(struct fixture *f)
{
	assert_int_equal(delete(f, "k", 0), LARDER_NOT_FOUND);
}

static void end_by_flush(struct fixture *f)
{
	struct request q;

	request_init(&q, f, LARDER_OP_NS_FLUSH, "");
	q.op.n_keys = 0;
	assert_int_equal(engine_submit(f->r, &q.op), 0);
	assert_int_equal(q.op.status, LARDER_OK);
}

#define NEXT_IN_TURN(how)                                                                          \
	static void fill__ends_##how(void **state)                                                 \
	{                                                                                          \
		struct fixture f = {};                                                             \
		next_in_turn(&f, end_##how);                                                       \
	}
NEXT_IN_TURN(by_release)
NEXT_IN_TURN(by_departure)
NEXT_IN_TURN(by_time)
NEXT_IN_TURN(by_abort)
NEXT_IN_TURN(by_delete)
NEXT_IN_TURN(by_flush)

static void fill__time_is_the_askers_and_bounded(void **state)
{
	struct fixture f = { .config.lease_max_ms = 20000 };
	struct request q;

	fixture_open(&f, 64);
	ask_init(&q, &f, LARDER_OP_EXISTS, "short", 1, 1);
	q.op.lease_ms = 50;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.op.lease_ms, 50);
	ask_init(&q, &f, LARDER_OP_EXISTS, "long", 1, 1);
	q.op.lease_ms = 1000000;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.op.lease_ms, 20000);
	ask_init(&q, &f, LARDER_OP_EXISTS, "none", 1, 1);
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.op.lease_ms, ABSENT_MS);
	assert_int_equal(counts(&f).fills, 3);
	fixture_advance(&f, 50 * NSEC_PER_MSEC);
	assert_null(engine_poll(f.r));
	assert_int_equal(counts(&f).fills, 2);
	/* a retry makes it longer, never shorter */
	fixture_advance(&f, 9000 * NSEC_PER_MSEC);
	assert_int_equal(fill(&f, "none", 1, 1), LARDER_FILL);
	fixture_advance(&f, 9000 * NSEC_PER_MSEC);
	assert_null(engine_poll(f.r));
	assert_int_equal(counts(&f).fills, 2);
	fixture_advance(&f, 1950 * NSEC_PER_MSEC);
	assert_null(engine_poll(f.r));
	assert_int_equal(counts(&f).fills, 0);
	fixture_close(&f);
}

static void fill__a_gap_moves_it(void **state)
{
	struct fixture f = {};

	fixture_open(&f, 64);
	assert_int_equal(fill(&f, "k", 1, 1), LARDER_FILL);
	fixture_advance(&f, 60 * NSEC_PER_SEC);
	engine_forgive(f.engine, 60 * NSEC_PER_SEC);
	assert_null(engine_poll(f.r));
	assert_int_equal(counts(&f).fills, 1);
	fixture_advance(&f, ABSENT_MS * NSEC_PER_MSEC);
	assert_null(engine_poll(f.r));
	assert_int_equal(counts(&f).fills, 0);
	fixture_close(&f);
}

/* Whose time is over will not compute anything. */
static void fill__not_for_whose_deadline_passed(void **state)
{
	struct fixture f = {};
	struct request get, exists;

	fixture_open(&f, 64);
	assert_int_equal(fill(&f, "k", 1, 1), LARDER_FILL);
	ask_init(&get, &f, LARDER_OP_GET, "k", 2, 2);
	get.op.flags |= LARDER_F_WAIT;
	get.op.deadline_ns = f.now_ns + 1000;
	assert_int_equal(engine_submit(f.r, &get.op), 1);
	ask_init(&exists, &f, LARDER_OP_EXISTS, "k", 3, 3);
	exists.op.flags |= LARDER_F_WAIT;
	exists.op.deadline_ns = f.now_ns + 1000;
	assert_int_equal(engine_submit(f.r, &exists.op), 1);
	engine_fills_release(f.r, 1);		/* they are told, and their time is over too */
	fixture_advance(&f, 1000);
	assert_int_equal(drain(&f), 2);
	assert_int_equal(get.op.status, LARDER_NOT_FOUND);
	assert_int_equal(exists.key.status, LARDER_NOT_FOUND);
	assert_int_equal(counts(&f).fills, 0);
	fixture_close(&f);
}

static void fill__only_in_a_namespace_of_ones_own(void **state)
{
	struct fixture f = {};
	struct request q;
	uint32_t other;

	fixture_open(&f, 64);
	assert_int_equal(engine_tenant_add(f.engine, "other", &other), 0);
	ask_init(&q, &f, LARDER_OP_EXISTS, "k", 1, 1);
	q.op.tenant = other;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.key.status, LARDER_NOT_FOUND);
	ask_init(&q, &f, LARDER_OP_GET, "k", 1, 1);
	q.op.ns = 999;
	assert_int_equal(request_run(f.r, &q), LARDER_NOT_FOUND);
	ask_init(&q, &f, LARDER_OP_GET, "k", 1, 1);
	q.op.flags |= LARDER_F_NO_TOUCH;	/* a viewer */
	assert_int_equal(request_run(f.r, &q), LARDER_NOT_FOUND);
	assert_int_equal(counts(&f).fills, 0);
	fixture_close(&f);
}

static void fill__long_keys_and_their_neighbours(void **state)
{
	static char key[LARDER_KEY_MAX];
	struct fixture f = {};
	struct request q;

	fixture_open(&f, 64);
	memset(key, 'x', sizeof(key));
	for (uint32_t len = LARDER_KEY_MAX - 3; len <= LARDER_KEY_MAX; len++) {
		ask_init(&q, &f, LARDER_OP_EXISTS, "", 1, 1);
		q.key.key = key;
		q.key.key_len = (uint16_t)len;
		assert_int_equal(request_run(f.r, &q), LARDER_OK);
		assert_int_equal(q.key.status, LARDER_FILL);
	}
	assert_int_equal(counts(&f).fills, 4);
	request_init(&q, &f, LARDER_OP_PUT, "");
	request_value(&q, 1, 100);
	q.key.key = key;
	q.key.key_len = LARDER_KEY_MAX - 1;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	engine_commit(f.r, &q.op);
	assert_int_equal(counts(&f).fills, 3);
	q.op.opcode = LARDER_OP_EXISTS;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.key.presence, LARDER_PRESENT);
	fixture_close(&f);
}

static void fill__a_tenant_has_its_bound(void **state)
{
	struct fixture f = {}, g;
	struct engine_counts before;
	uint32_t n = 0;
	char key[16];

	fixture_open(&f, 256);
	before = counts(&f);
	for (; n < 10000; n++) {
		(void)snprintf(key, sizeof(key), "k%u", n);
		if (fill(&f, key, 1, 1) != LARDER_FILL)
			break;
	}
	assert_true(n > 1 && n <= before.free_records / 8 / 4 + 1);
	assert_int_equal(f.ledger->usage[0].fills_refused, 1);
	assert_int_equal(presence(&f, key), LARDER_ABSENT);	/* plain: nothing was left behind */
	g = f;
	assert_int_equal(engine_tenant_add(f.engine, "other", &g.tenant), 0);
	assert_int_equal(engine_namespace_open(f.engine, g.tenant, "ns", 2, NULL, true, &g.ns,
					       NULL), LARDER_OK);
	assert_int_equal(fill(&g, "k", 2, 2), LARDER_FILL);
	engine_fills_release(f.r, 1);
	assert_int_equal(counts(&f).fills, 1);
	assert_int_equal(fill(&f, key, 1, 1), LARDER_FILL);
	engine_fills_release(f.r, 1);
	engine_fills_release(f.r, 2);
	assert_int_equal(counts(&f).free_records, before.free_records);
	fixture_close(&f);
}

/* Short of records: room is made for a promise, and a PUT takes promises back. */
static void fill__gives_way_when_records_are_short(void **state)
{
	enum { PAGES = 2048 };
	static struct engine_object *held[PAGES];
	static char big[LARDER_KEY_MAX];
	struct fixture f = {};
	struct request q;
	uint32_t n = 0;
	char key[16];

	fixture_open(&f, PAGES);
	assert_int_equal(fill(&f, "a", 1, 1), LARDER_FILL);
	assert_int_equal(fill(&f, "b", 1, 1), LARDER_FILL);
	assert_int_equal(fill(&f, "c", 1, 1), LARDER_FILL);
	/* objects of many records, all of them being read */
	memset(big, 'x', sizeof(big));
	for (; n < PAGES; n++) {
		request_init(&q, &f, LARDER_OP_PUT, "");
		request_value(&q, n, 1);
		(void)snprintf(big, 16, "%u", n);
		q.key.key = big;
		q.key.key_len = sizeof(big);
		if (request_run(f.r, &q) != LARDER_OK)
			break;
		engine_commit(f.r, &q.op);
		q.op.opcode = LARDER_OP_GET;
		assert_int_equal(request_run(f.r, &q), LARDER_OK);
		held[n] = q.op.object;
	}
	assert_int_equal(q.op.status, LARDER_NO_SPACE);
	assert_int_equal(counts(&f).fills, 0);
	/* to the last record; none is free and none may go: a plain miss */
	for (; n < PAGES; n++) {
		(void)snprintf(key, sizeof(key), "s%u", n);
		if (put(&f, key, 1, 1) != LARDER_OK)
			break;
		assert_int_equal(get(&f, key, &held[n]), LARDER_OK);
	}
	assert_int_equal(counts(&f).free_records, 0);
	assert_int_equal(fill(&f, "p", 1, 1), LARDER_NOT_FOUND);
	assert_int_equal(f.ledger->usage[0].fills_refused, 1);
	while (n)
		engine_unref(f.r, held[--n]);
	assert_int_equal(fill(&f, "p", 1, 1), LARDER_FILL);
	assert_int_equal(counts(&f).evictions, 1);
	engine_fills_release(f.r, 1);
	fixture_close(&f);
}

static void fill__a_restart_knows_nothing_of_it(void **state)
{
	struct fixture f = {};
	struct records_rebuilt rebuilt;

	fixture_open(&f, 64);
	assert_int_equal(put(&f, "there", 1, 100), LARDER_OK);
	assert_int_equal(fill(&f, "k", 1, 1), LARDER_FILL);
	fixture_restart(&f);
	engine_get_rebuilt(f.engine, &rebuilt);
	assert_int_equal(rebuilt.objects, 1);
	assert_int_equal(rebuilt.dropped_unfinished, 0);
	assert_int_equal(counts(&f).fills, 0);
	assert_int_equal(f.ledger->gauges[0].fills, 0);
	assert_int_equal(presence(&f, "k"), LARDER_ABSENT);
	assert_int_equal(fill(&f, "k", 2, 2), LARDER_FILL);
	engine_fills_release(f.r, 2);
	fixture_close(&f);
}

/* What somebody waits for will be read: admission does not refuse it. */
static void fill__is_admitted_when_somebody_waits(void **state)
{
	struct fixture f = { .config.policy = "aseg" };
	struct request waits;

	fixture_open(&f, 64);
	assert_int_equal(engine_namespace_set_admission(f.engine, f.tenant, f.ns,
							ENGINE_ADMIT_SECOND_TOUCH), LARDER_OK);
	assert_int_equal(fill(&f, "k", 1, 1), LARDER_FILL);
	assert_int_equal(put(&f, "k", 1, 10), LARDER_QUOTA);
	assert_int_equal(counts(&f).fills, 0);
	assert_int_equal(fill(&f, "k", 1, 1), LARDER_FILL);
	assert_int_equal(delete(&f, "k", 0), LARDER_NOT_FOUND);
	assert_int_equal(put(&f, "k", 1, 10), LARDER_OK);	/* its second touch */
	assert_int_equal(delete(&f, "k", 0), LARDER_OK);
	assert_int_equal(fill(&f, "new", 1, 1), LARDER_FILL);
	request_init(&waits, &f, LARDER_OP_EXISTS, "new");
	waits.op.flags = LARDER_F_WAIT;
	assert_int_equal(engine_submit(f.r, &waits.op), 1);
	assert_int_equal(put(&f, "new", 1, 10), LARDER_OK);
	assert_int_equal(drain(&f), 1);
	assert_int_equal(waits.key.presence, LARDER_PRESENT);
	fixture_close(&f);
}

static void wait__one_tenant_leaves_places_to_others(void **state)
{
	enum { PLACES = 4096 };
	struct fixture f = {}, g;
	struct request *q = calloc(PLACES, sizeof(*q)), late, other;
	uint32_t n = 0;

	assert_non_null(q);
	fixture_open(&f, 64);
	assert_int_equal(fill(&f, "k", 1, 1), LARDER_FILL);
	for (; n < PLACES; n++) {
		request_init(&q[n], &f, LARDER_OP_GET, "k");
		q[n].op.flags = LARDER_F_WAIT;
		if (engine_submit(f.r, &q[n].op) == 0)
			break;
	}
	assert_int_equal(n, PLACES / 4);
	assert_int_equal(q[n].op.status, LARDER_BUSY);
	request_init(&late, &f, LARDER_OP_EXISTS, "k");
	late.op.flags = LARDER_F_WAIT;
	assert_int_equal(engine_submit(f.r, &late.op), 0);
	assert_int_equal(late.key.status, LARDER_BUSY);
	assert_int_equal(late.key.presence, LARDER_FILLING);
	assert_int_equal(f.ledger->usage[0].waits_refused, 2);
	g = f;
	assert_int_equal(engine_tenant_add(f.engine, "other", &g.tenant), 0);
	assert_int_equal(engine_namespace_open(f.engine, g.tenant, "ns", 2, NULL, true, &g.ns,
					       NULL), LARDER_OK);
	assert_int_equal(fill(&g, "k", 2, 2), LARDER_FILL);
	request_init(&other, &g, LARDER_OP_GET, "k");
	other.op.flags = LARDER_F_WAIT;
	assert_int_equal(engine_submit(g.r, &other.op), 1);
	/* one has gone: there is a place again */
	assert_int_equal(engine_cancel(f.r, &q[5].op), 0);
	assert_int_equal(engine_submit(f.r, &q[n].op), 1);
	engine_fills_release(f.r, 1);
	engine_fills_release(f.r, 2);
	assert_int_equal(drain(&f), PLACES / 4 + 1);
	free(q);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fill__the_first_who_misses_is_told),
		cmocka_unit_test(fill__one_for_a_batch_at_its_first_miss),
		cmocka_unit_test(fill__the_waiters_stay_with_the_writer),
		cmocka_unit_test(fill__ends_by_release),
		cmocka_unit_test(fill__ends_by_departure),
		cmocka_unit_test(fill__ends_by_time),
		cmocka_unit_test(fill__ends_by_abort),
		cmocka_unit_test(fill__ends_by_delete),
		cmocka_unit_test(fill__ends_by_flush),
		cmocka_unit_test(fill__goes_with_the_retry_to_its_new_holder),
		cmocka_unit_test(fill__time_is_the_askers_and_bounded),
		cmocka_unit_test(fill__a_gap_moves_it),
		cmocka_unit_test(fill__not_for_whose_deadline_passed),
		cmocka_unit_test(fill__only_in_a_namespace_of_ones_own),
		cmocka_unit_test(fill__long_keys_and_their_neighbours),
		cmocka_unit_test(fill__a_tenant_has_its_bound),
		cmocka_unit_test(fill__gives_way_when_records_are_short),
		cmocka_unit_test(fill__a_restart_knows_nothing_of_it),
		cmocka_unit_test(fill__is_admitted_when_somebody_waits),
		cmocka_unit_test(wait__one_tenant_leaves_places_to_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
