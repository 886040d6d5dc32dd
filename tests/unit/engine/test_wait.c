/* SPDX-License-Identifier: Apache-2.0 */
/* First writer wins and the second is told; waiting, deadlines, cancel; 64 writers at once. */
#include <errno.h>
#include <pthread.h>

#include "fixture.h"

static void begin(struct fixture *f, struct request *q, const char *key)
{
	request_init(q, f, LARDER_OP_PUT, key);
	request_value(q, 1, 3 * FIXTURE_PAGE);
	assert_int_equal(engine_submit(f->r, &q->op), 0);
	assert_int_equal(q->op.status, LARDER_OK);
}

static void finish(struct fixture *f, struct request *q)
{
	object_write(q->op.object, 1);
	engine_commit(f->r, &q->op);
	assert_int_equal(q->op.status, LARDER_OK);
}

static void park(struct fixture *f, struct request *q, int opcode, uint32_t seed)
{
	request_init(q, f, opcode, "k");
	if (opcode == LARDER_OP_PUT || opcode == LARDER_OP_PUT_BEGIN)
		request_value(q, seed, 3 * FIXTURE_PAGE);
	q->op.flags = LARDER_F_WAIT;
	assert_int_equal(engine_submit(f->r, &q->op), 1);
}

/* Everything that is done by now. */
static uint32_t drain(struct fixture *f)
{
	uint32_t n = 0;

	while (engine_poll(f->r))
		n++;
	return n;
}

static void commit__tells_all_who_wait(void **state)
{
	struct fixture f = {};
	struct request first, same, other, part, reader, asker;

	fixture_open(&f, 64);
	begin(&f, &first, "k");
	park(&f, &same, LARDER_OP_PUT, 1);
	park(&f, &other, LARDER_OP_PUT, 2);
	park(&f, &part, LARDER_OP_PUT_BEGIN, 1);
	park(&f, &reader, LARDER_OP_GET, 0);
	park(&f, &asker, LARDER_OP_EXISTS, 0);
	assert_int_equal(counts(&f).parked, 5);
	assert_null(engine_poll(f.r));
	finish(&f, &first);
	assert_int_equal(engine_next_deadline(f.r), 0);
	assert_int_equal(drain(&f), 5);
	assert_int_equal(same.op.status, LARDER_EXISTS_SAME);
	assert_int_equal(other.op.status, LARDER_CONFLICT);
	assert_int_equal(part.op.status, LARDER_OK);
	assert_true(part.op.present);
	engine_commit(f.r, &part.op);
	assert_int_equal(part.op.status, LARDER_EXISTS_SAME);
	assert_int_equal(reader.op.status, LARDER_OK);
	object_assert(reader.op.object, 1, 3 * FIXTURE_PAGE);
	engine_unref(f.r, reader.op.object);
	assert_int_equal(asker.key.presence, LARDER_PRESENT);
	assert_int_equal(asker.op.leading_run, 1);
	fixture_close(&f);
}

static void abort__tells_all_who_wait(void **state)
{
	struct fixture f = {};
	struct request first, second, part, reader, asker;

	fixture_open(&f, 64);
	begin(&f, &first, "k");
	park(&f, &second, LARDER_OP_PUT, 1);
	park(&f, &part, LARDER_OP_PUT_BEGIN, 1);
	park(&f, &reader, LARDER_OP_GET, 0);
	park(&f, &asker, LARDER_OP_EXISTS, 0);
	engine_abort(f.r, &first.op);
	assert_int_equal(drain(&f), 4);
	assert_int_equal(second.op.status, LARDER_BUSY);
	assert_int_equal(part.op.status, LARDER_BUSY);
	assert_int_equal(reader.op.status, LARDER_NOT_FOUND);
	assert_null(reader.op.object);
	assert_int_equal(asker.op.status, LARDER_OK);
	assert_int_equal(asker.key.presence, LARDER_ABSENT);
	fixture_close(&f);
}

static void nowait__is_busy_at_once(void **state)
{
	struct fixture f = {};
	struct request first, q;

	fixture_open(&f, 64);
	begin(&f, &first, "k");
	request_init(&q, &f, LARDER_OP_PUT, "k");
	request_value(&q, 1, 10);
	q.op.flags = LARDER_F_NOWAIT;
	assert_int_equal(engine_submit(f.r, &q.op), 0);
	assert_int_equal(q.op.status, LARDER_BUSY);
	request_init(&q, &f, LARDER_OP_GET, "k");
	assert_int_equal(engine_submit(f.r, &q.op), 0);
	assert_int_equal(q.op.status, LARDER_NOT_FOUND);
	engine_abort(f.r, &first.op);
	fixture_close(&f);
}

static void deadline__ends_the_wait(void **state)
{
	struct fixture f = {};
	struct request first, put_late, get_late, asks, q;
	struct larder_op_key keys[3] = { { .key = "k", .key_len = 1 }, { .key = "p", .key_len = 1 },
					 { .key = "z", .key_len = 1 } };

	fixture_open(&f, 64);
	assert_int_equal(put(&f, "p", 1, 10), LARDER_OK);
	begin(&f, &first, "k");
	request_init(&put_late, &f, LARDER_OP_PUT, "k");
	request_value(&put_late, 1, 10);
	put_late.op.deadline_ns = f.now_ns + 2000;
	assert_int_equal(engine_submit(f.r, &put_late.op), 1);
	request_init(&get_late, &f, LARDER_OP_GET, "k");
	get_late.op.flags = LARDER_F_WAIT;
	get_late.op.deadline_ns = f.now_ns + 1000;
	assert_int_equal(engine_submit(f.r, &get_late.op), 1);
	request_init(&asks, &f, LARDER_OP_EXISTS, "");
	asks.op.keys = keys;
	asks.op.n_keys = 3;
	asks.op.flags = LARDER_F_WAIT;
	asks.op.deadline_ns = f.now_ns + 3000;
	assert_int_equal(engine_submit(f.r, &asks.op), 1);
	park(&f, &q, LARDER_OP_GET, 0);		/* waits for ever */
	assert_int_equal(engine_next_deadline(f.r), f.now_ns + 1000);
	fixture_advance(&f, 999);
	assert_null(engine_poll(f.r));
	fixture_advance(&f, 1);
	assert_ptr_equal(engine_poll(f.r), &get_late.op);
	assert_int_equal(get_late.op.status, LARDER_DEADLINE);
	assert_int_equal(engine_next_deadline(f.r), f.now_ns + 1000);
	fixture_advance(&f, 1000);
	assert_ptr_equal(engine_poll(f.r), &put_late.op);
	assert_int_equal(put_late.op.status, LARDER_DEADLINE);
	fixture_advance(&f, 1000);
	assert_ptr_equal(engine_poll(f.r), &asks.op);
	assert_int_equal(asks.op.status, LARDER_OK);	/* an answer for the others all the same */
	assert_int_equal(keys[0].presence, LARDER_FILLING);
	assert_int_equal(keys[1].presence, LARDER_PRESENT);
	assert_int_equal(keys[2].presence, LARDER_ABSENT);
	assert_int_equal(asks.op.leading_run, 0);
	finish(&f, &first);
	assert_ptr_equal(engine_poll(f.r), &q.op);
	assert_int_equal(q.op.status, LARDER_OK);
	engine_unref(f.r, q.op.object);
	fixture_close(&f);
}

static void cancel__takes_back_or_is_too_late(void **state)
{
	struct fixture f = {};
	struct request first, a, b, c;

	fixture_open(&f, 64);
	begin(&f, &first, "k");
	park(&f, &a, LARDER_OP_GET, 0);
	park(&f, &b, LARDER_OP_PUT, 1);
	park(&f, &c, LARDER_OP_EXISTS, 0);
	assert_int_equal(engine_cancel(f.r, &b.op), 0);	/* from the middle */
	assert_int_equal(b.op.status, LARDER_CANCELLED);
	assert_int_equal(engine_cancel(f.r, &b.op), -EALREADY);
	finish(&f, &first);
	assert_int_equal(engine_cancel(f.r, &a.op), -EALREADY);
	assert_int_equal(drain(&f), 2);
	assert_int_equal(engine_cancel(f.r, &a.op), -EALREADY);
	assert_int_equal(a.op.status, LARDER_OK);
	engine_unref(f.r, a.op.object);
	fixture_close(&f);
}

static void exists__waits_key_by_key(void **state)
{
	struct larder_op_key keys[40];
	char names[40][8];
	struct fixture f = {};
	struct request first, second, q;

	fixture_open(&f, 64);
	for (uint32_t i = 0; i < 40; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "k%02u", i);
		keys[i] = (struct larder_op_key){ .key = names[i], .key_len = 3 };
		if (i != 2 && i != 35)
			assert_int_equal(put(&f, names[i], 1, 1), LARDER_OK);
	}
	begin(&f, &first, "k02");
	begin(&f, &second, "k35");
	request_init(&q, &f, LARDER_OP_EXISTS, "");
	q.op.keys = keys;
	q.op.n_keys = 40;
	q.op.flags = LARDER_F_WAIT | LARDER_F_LEASE;
	q.op.lease_id = 9;
	q.op.lease_ms = 1000;
	assert_int_equal(engine_submit(f.r, &q.op), 1);
	finish(&f, &first);
	assert_null(engine_poll(f.r));		/* waits for the next one now */
	engine_abort(f.r, &second.op);
	assert_ptr_equal(engine_poll(f.r), &q.op);
	assert_int_equal(q.op.leading_run, 35);
	assert_int_equal(keys[2].presence, LARDER_LEASED);
	assert_int_equal(keys[35].presence, LARDER_ABSENT);
	assert_int_equal(keys[39].presence, LARDER_LEASED);
	assert_int_equal(counts(&f).leases, 39);
	fixture_close(&f);
}

/* Several tenants, since one alone can't fill it (test_fill.c). */
static void table__full_of_waiters_is_busy(void **state)
{
	enum { MANY = 5120, TENANTS = 5 };
	struct fixture f = {}, of[TENANTS];
	struct request first[TENANTS], *q = calloc(MANY, sizeof(*q));
	uint32_t parked = 0;

	assert_non_null(q);
	fixture_open(&f, 64);
	for (uint32_t t = 0; t < TENANTS; t++) {
		char name[8] = { 't', (char)('a' + t) };

		of[t] = f;
		assert_int_equal(engine_tenant_add(f.engine, name, &of[t].tenant), 0);
		assert_int_equal(engine_namespace_open(f.engine, of[t].tenant, "ns", 2, NULL, true,
						       &of[t].ns, NULL), LARDER_OK);
		begin(&of[t], &first[t], "k");
	}
	for (uint32_t i = 0; i < MANY; i++) {
		request_init(&q[i], &of[i % TENANTS], LARDER_OP_GET, "k");
		q[i].op.flags = LARDER_F_WAIT;
		if (engine_submit(f.r, &q[i].op) == 1)
			parked++;
		else
			assert_int_equal(q[i].op.status, LARDER_BUSY);
	}
	assert_int_equal(parked, 4096);
	for (uint32_t t = 0; t < TENANTS; t++)
		engine_abort(f.r, &first[t].op);
	assert_int_equal(drain(&f), parked);
	fixture_close(&f);
	free(q);
}

/* --- threads ------------------------------------------------------------------------------ */

#define WRITERS 64u
#define ROUNDS 20u

struct writers {
	struct fixture f;
	pthread_barrier_t barrier;
	uint32_t filled[ROUNDS], same[ROUNDS];	/* atomic */
	uint32_t woken;				/* atomic */
};

struct writer {
	struct writers *all;
	uint32_t index;
	pthread_t thread;
	bool wrong;
};

static void writer_wake(void *user)
{
	(void)__atomic_fetch_add(&((struct writers *)user)->woken, 1, __ATOMIC_RELAXED);
}

/* No assertion of cmocka in a thread: it would jump out of another thread's frame. */
static void writer_round(struct writer *w, struct engine_reactor *r, uint32_t round)
{
	struct request q;
	char key[16];

	(void)snprintf(key, sizeof(key), "round%u", round);
	request_init(&q, &w->all->f, LARDER_OP_PUT, key);
	request_value(&q, round, 100);
	(void)pthread_barrier_wait(&w->all->barrier);
	if (engine_submit(r, &q.op) == 1)
		while (engine_poll(r) != &q.op)
			;
	if (q.op.status == LARDER_OK) {
		object_write(q.op.object, round);
		engine_commit(r, &q.op);
		(void)__atomic_fetch_add(&w->all->filled[round], 1, __ATOMIC_RELAXED);
	}
	if (q.op.status == LARDER_EXISTS_SAME)
		(void)__atomic_fetch_add(&w->all->same[round], 1, __ATOMIC_RELAXED);
	else if (q.op.status != LARDER_OK)
		w->wrong = true;
	/* whoever was told that it is there finds it */
	request_init(&q, &w->all->f, LARDER_OP_GET, key);
	if (engine_submit(r, &q.op) != 0 || q.op.status != LARDER_OK) {
		w->wrong = true;
		return;
	}
	if (engine_object_length(q.op.object) != 100)
		w->wrong = true;
	engine_unref(r, q.op.object);
}

static void *writer_run(void *user)
{
	struct writer *w = user;
	struct engine_reactor *r = engine_reactor(w->all->f.engine, w->index);

	for (uint32_t round = 0; round < ROUNDS; round++)
		writer_round(w, r, round);
	return NULL;
}

static void writers__one_fills_the_rest_learn(void **state)
{
	static struct writers all;
	static struct writer writers[WRITERS];

	all.f.config.reactors = WRITERS;
	fixture_open(&all.f, 64);
	assert_int_equal(pthread_barrier_init(&all.barrier, NULL, WRITERS), 0);
	for (uint32_t i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ .all = &all, .index = i };
		engine_reactor_set_wake(engine_reactor(all.f.engine, i), writer_wake, &all);
	}
	for (uint32_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i].thread, NULL, writer_run,
						&writers[i]), 0);
	for (uint32_t i = 0; i < WRITERS; i++) {
		assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
		assert_false(writers[i].wrong);
	}
	for (uint32_t round = 0; round < ROUNDS; round++) {
		assert_int_equal(all.filled[round], 1);
		assert_int_equal(all.same[round], WRITERS - 1);
	}
	(void)pthread_barrier_destroy(&all.barrier);
	fixture_close(&all.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commit__tells_all_who_wait),
		cmocka_unit_test(abort__tells_all_who_wait),
		cmocka_unit_test(nowait__is_busy_at_once),
		cmocka_unit_test(deadline__ends_the_wait),
		cmocka_unit_test(cancel__takes_back_or_is_too_late),
		cmocka_unit_test(exists__waits_key_by_key),
		cmocka_unit_test(table__full_of_waiters_is_busy),
		cmocka_unit_test(writers__one_fills_the_rest_learn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
