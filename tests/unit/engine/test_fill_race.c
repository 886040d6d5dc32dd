/* SPDX-License-Identifier: Apache-2.0 */
/* Fill leases with several reactors: writer, deadline, release, delete and departure at once. */
#include <pthread.h>

#include "fixture.h"

#include "base/prng.h"

static void ask_init(struct request *q, const struct fixture *f, int opcode, const char *key,
		     uint64_t id, uint64_t holder)
{
	request_init(q, f, opcode, key);
	q->op.flags = LARDER_F_FILL;
	q->op.lease_id = id;
	q->op.holder = holder;
}

enum { RACERS = 4, RACE_TURNS = 3000, RACE_KEYS = 4 };

struct race {
	struct fixture f;
	uint64_t turns_left;	/* atomic */
	uint64_t filled, found;	/* atomic */
};

struct racer {
	struct race *race;
	struct engine_reactor *r;
	uint32_t index;
};

/* The wall clock, which is no atomic, stands still. */
static void race_advance(struct fixture *f, uint64_t ns)
{
	(void)__atomic_fetch_add(&f->now_ns, ns, __ATOMIC_RELAXED);
}

/* Waits until it is back; time goes on. */
static int race_run(struct racer *me, struct request *q)
{
	if (engine_submit(me->r, &q->op) == 0)
		return q->op.status;
	while (!engine_poll(me->r))
		race_advance(&me->race->f, 1000);
	return q->op.status;
}

static void race_fill(struct racer *me, struct prng *prng, const char *key)
{
	struct fixture *f = &me->race->f;
	struct request q;

	switch (prng_below(prng, 6)) {
	case 0:			/* computes for too long: its time runs out under it */
		race_advance(f, 20 * NSEC_PER_MSEC);
		break;
	case 1:
		engine_fills_release(me->r, 1 + me->index);
		break;
	case 2:
		request_init(&q, f, LARDER_OP_RELEASE, key);
		q.op.lease_id = 1 + me->index;
		(void)race_run(me, &q);
		break;
	default:
		(void)put_on(f, me->r, key, 7, FIXTURE_PAGE);
	}
}

static void *race_thread(void *arg)
{
	struct racer *me = arg;
	struct fixture *f = &me->race->f;
	struct prng prng;

	prng_seed(&prng, 77 + me->index);
	while (__atomic_fetch_sub(&me->race->turns_left, 1, __ATOMIC_RELAXED) - 1 < RACE_TURNS) {
		bool by_get = prng_below(&prng, 2);
		struct request q;
		char key[8];
		int status;

		(void)snprintf(key, sizeof(key), "k%u", (unsigned)prng_below(&prng, RACE_KEYS));
		if (prng_below(&prng, 8) == 0) {
			request_init(&q, f, LARDER_OP_DELETE, key);
			(void)race_run(me, &q);
		}
		race_advance(f, NSEC_PER_MSEC);
		ask_init(&q, f, by_get ? LARDER_OP_GET : LARDER_OP_EXISTS, key,
			 by_get ? 0 : 1 + me->index, 1 + me->index);
		q.op.flags |= prng_below(&prng, 4) ? LARDER_F_WAIT : 0;
		q.op.lease_ms = 1 + (uint32_t)prng_below(&prng, 15);
		q.op.deadline_ns = fixture_monotonic(f) + 200 * NSEC_PER_MSEC;
		status = race_run(me, &q);
		if (by_get && status == LARDER_OK)
			engine_unref(me->r, q.op.object);
		if (!by_get)
			status = q.key.status;
		if (status == LARDER_FILL) {
			(void)__atomic_add_fetch(&me->race->filled, 1, __ATOMIC_RELAXED);
			race_fill(me, &prng, key);
		} else if (status == LARDER_OK) {
			(void)__atomic_add_fetch(&me->race->found, 1, __ATOMIC_RELAXED);
		}
	}
	engine_fills_release(me->r, 1 + me->index);
	return NULL;
}

static void race__writer_deadline_and_departure(void **state)
{
	struct race race = { .f.config.reactors = RACERS, .turns_left = RACE_TURNS };
	struct racer racers[RACERS];
	pthread_t threads[RACERS];

	fixture_open(&race.f, 64);
	for (uint32_t i = 0; i < RACERS; i++) {
		racers[i] = (struct racer){ &race, engine_reactor(race.f.engine, i), i };
		assert_int_equal(pthread_create(&threads[i], NULL, race_thread, &racers[i]), 0);
	}
	for (uint32_t i = 0; i < RACERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	print_message("%llu filled, %llu found\n", (unsigned long long)race.filled,
		      (unsigned long long)race.found);
	assert_true(race.filled > 100 && race.found > 100);
	assert_int_equal(counts(&race.f).fills, 0);
	assert_int_equal(race.f.ledger->gauges[0].waiting, 0);
	fixture_close(&race.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(race__writer_deadline_and_departure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
