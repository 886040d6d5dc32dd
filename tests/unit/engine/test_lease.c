/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: granted, extended, released, run out, forgiven; what they hold back, and their limits. */
#include "fixture.h"

#include "base/prng.h"

static uint32_t lease_left_ms(struct fixture *f, const char *key)
{
	struct request q;
	struct larder_stat st;

	request_init(&q, f, LARDER_OP_STAT, key);
	q.op.stats = &st;
	assert_int_equal(request_run(f->r, &q), LARDER_OK);
	return st.lease_ms;
}

static void lease__holds_the_object(void **state)
{
	struct fixture f = {};
	struct request q;

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "k", 1, 100), LARDER_OK);
	assert_int_equal(lease(&f, "k", 1, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "absent", 1, 1000), LARDER_ABSENT);
	assert_int_equal(f.ledger->gauges[0].leases, 1);
	assert_int_equal(f.ledger->gauges[0].leased_bytes, 100);
	assert_int_equal(delete(&f, "k", 0), LARDER_BUSY);
	request_init(&q, &f, LARDER_OP_NS_FLUSH, "");
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.op.count, 0);
	assert_int_equal(q.op.kept, 1);
	fixture_advance(&f, 1000 * NSEC_PER_MSEC - 1);
	assert_int_equal(delete(&f, "k", 0), LARDER_BUSY);
	fixture_advance(&f, 1);
	assert_int_equal(delete(&f, "k", 0), LARDER_OK);
	fixture_close(&f);
}

static void lease__is_clamped_and_extended(void **state)
{
	struct fixture f = { .config.lease_max_ms = 5000 };
	struct request q;

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "k", 1, 100), LARDER_OK);
	request_init(&q, &f, LARDER_OP_LEASE, "k");
	q.op.lease_id = 7;
	q.op.lease_ms = 60000;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.op.lease_ms, 5000);
	assert_int_equal(q.key.presence, LARDER_LEASED);
	assert_int_equal(lease_left_ms(&f, "k"), 5000);
	/* the same id again is the same lease: longer, never shorter */
	assert_int_equal(lease(&f, "k", 7, 10), LARDER_LEASED);
	assert_int_equal(counts(&f).leases, 1);
	assert_int_equal(lease_left_ms(&f, "k"), 5000);
	fixture_advance(&f, 1000 * NSEC_PER_MSEC);
	assert_int_equal(lease(&f, "k", 7, 5000), LARDER_LEASED);
	assert_int_equal(counts(&f).leases, 1);
	assert_int_equal(lease_left_ms(&f, "k"), 5000);
	request_init(&q, &f, LARDER_OP_LEASE, "absent");
	q.op.lease_ms = 1;
	assert_int_equal(request_run(f.r, &q), LARDER_NOT_FOUND);
	q.op.lease_ms = 0;
	assert_int_equal(request_run(f.r, &q), LARDER_BAD_REQUEST);
	fixture_close(&f);
}

static void release__by_key_and_by_id(void **state)
{
	struct fixture f = {};

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "a", 1, 1), LARDER_OK);
	assert_int_equal(put(&f, "b", 1, 1), LARDER_OK);
	assert_int_equal(put(&f, "c", 1, 1), LARDER_OK);
	assert_int_equal(lease(&f, "a", 1, 3000), LARDER_LEASED);
	assert_int_equal(lease(&f, "a", 2, 2000), LARDER_LEASED);
	assert_int_equal(lease(&f, "a", 3, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "b", 1, 3000), LARDER_LEASED);
	assert_int_equal(lease(&f, "c", 1, 3000), LARDER_LEASED);
	assert_int_equal(release(&f, "a", 9), LARDER_NOT_FOUND);
	assert_int_equal(release(&f, "a", 1), LARDER_OK);
	assert_int_equal(release(&f, "a", 1), LARDER_NOT_FOUND);
	/* the word is the longest of what is left */
	assert_int_equal(lease_left_ms(&f, "a"), 2000);
	assert_int_equal(release(&f, "a", 3), LARDER_OK);
	assert_int_equal(lease_left_ms(&f, "a"), 2000);
	assert_int_equal(release(&f, "a", 2), LARDER_OK);
	assert_int_equal(lease_left_ms(&f, "a"), 0);
	assert_int_equal(delete(&f, "a", 0), LARDER_OK);
	assert_int_equal(delete(&f, "b", 0), LARDER_BUSY);
	assert_int_equal(release(&f, NULL, 1), LARDER_OK);
	assert_int_equal(release(&f, NULL, 1), LARDER_NOT_FOUND);
	assert_int_equal(counts(&f).leases, 0);
	assert_int_equal(delete(&f, "b", 0), LARDER_OK);
	assert_int_equal(delete(&f, "c", 0), LARDER_OK);
	fixture_close(&f);
}

static void force__deletes_over_a_lease(void **state)
{
	struct fixture f = {};

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "k", 1, 1), LARDER_OK);
	assert_int_equal(lease(&f, "k", 1, 3000), LARDER_LEASED);
	assert_int_equal(lease(&f, "k", 2, 3000), LARDER_LEASED);
	assert_int_equal(delete(&f, "k", LARDER_F_FORCE), LARDER_OK);
	assert_int_equal(put(&f, "k", 2, 1), LARDER_OK);	/* takes the same slot */
	assert_int_equal(lease_left_ms(&f, "k"), 0);
	assert_int_equal(release(&f, "k", 1), LARDER_NOT_FOUND);
	assert_int_equal(lease(&f, "k", 1, 1000), LARDER_LEASED);
	assert_int_equal(counts(&f).leases, 3);
	/* the leases of the old object end without touching the new one's */
	assert_int_equal(release(&f, NULL, 2), LARDER_OK);
	assert_int_equal(lease_left_ms(&f, "k"), 1000);
	assert_int_equal(release(&f, NULL, 1), LARDER_OK);
	assert_int_equal(counts(&f).leases, 0);
	assert_int_equal(lease_left_ms(&f, "k"), 0);
	fixture_close(&f);
}

static void half_of_the_table__is_quota_until_some_run_out(void **state)
{
	struct fixture f = {};
	struct request q;

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "k", 1, 1), LARDER_OK);
	for (uint64_t id = 0; id < FIXTURE_LEASES / 2; id++)
		assert_int_equal(lease(&f, "k", id, id < 128 ? 1000 : 2000), LARDER_LEASED);
	request_init(&q, &f, LARDER_OP_EXISTS, "k");
	q.op.flags = LARDER_F_LEASE;
	q.op.lease_id = 1000;
	q.op.lease_ms = 10;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.key.status, LARDER_QUOTA);
	assert_int_equal(q.key.presence, LARDER_PRESENT);
	assert_int_equal(q.op.leading_run, 1);
	/* a repetition needs no entry */
	assert_int_equal(lease(&f, "k", 5, 3000), LARDER_LEASED);
	fixture_advance(&f, 1000 * NSEC_PER_MSEC);
	assert_int_equal(lease(&f, "k", 1000, 10), LARDER_LEASED);
	while (counts(&f).leases > 130)
		assert_null(engine_poll(f.r));
	fixture_advance(&f, 3000 * NSEC_PER_MSEC);
	while (counts(&f).leases)
		assert_null(engine_poll(f.r));
	assert_int_equal(delete(&f, "k", 0), LARDER_OK);
	fixture_close(&f);
}

/* Stopped in the middle of a turn: what is left of the turn ends no lease, and then it moves. */
static void turn__a_stop_inside_it_ends_no_lease(void **state)
{
	struct fixture f = {};

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "k", 1, 100), LARDER_OK);
	assert_int_equal(lease(&f, "k", 1, 1000), LARDER_LEASED);
	engine_turn(f.r, f.now_ns);
	f.now_ns += 30 * NSEC_PER_SEC;
	assert_null(engine_poll(f.r));
	assert_int_equal(delete(&f, "k", 0), LARDER_BUSY);
	engine_forgive(f.engine, 30 * NSEC_PER_SEC);
	engine_turn(f.r, f.now_ns);
	assert_null(engine_poll(f.r));
	assert_int_equal(delete(&f, "k", 0), LARDER_BUSY);
	assert_int_equal(lease_left_ms(&f, "k"), 1000);
	f.now_ns += 1000 * NSEC_PER_MSEC;
	engine_turn(f.r, f.now_ns);
	assert_int_equal(delete(&f, "k", 0), LARDER_OK);
	fixture_close(&f);
}

static void forgive__moves_leases_only(void **state)
{
	struct fixture f = {};
	struct request first, waits;

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "a", 1, 1), LARDER_OK);
	assert_int_equal(put(&f, "b", 1, 1), LARDER_OK);
	assert_int_equal(lease(&f, "a", 1, 1000), LARDER_LEASED);
	assert_int_equal(lease(&f, "a", 2, 500), LARDER_LEASED);
	assert_int_equal(lease(&f, "b", 1, 2000), LARDER_LEASED);
	request_init(&first, &f, LARDER_OP_PUT, "k");
	request_value(&first, 1, 1);
	assert_int_equal(request_run(f.r, &first), LARDER_OK);
	request_init(&waits, &f, LARDER_OP_GET, "k");
	waits.op.flags = LARDER_F_WAIT;
	waits.op.deadline_ns = f.now_ns + NSEC_PER_SEC;
	assert_int_equal(engine_submit(f.r, &waits.op), 1);
	fixture_advance(&f, 30 * NSEC_PER_SEC);
	engine_forgive(f.engine, 30 * NSEC_PER_SEC);
	engine_forgive(f.engine, 30 * NSEC_PER_SEC);	/* another reactor saw the same gap */
	assert_ptr_equal(engine_poll(f.r), &waits.op);
	assert_int_equal(waits.op.status, LARDER_DEADLINE);
	assert_int_equal(lease_left_ms(&f, "a"), 1000);
	assert_int_equal(lease_left_ms(&f, "b"), 2000);
	assert_int_equal(counts(&f).leases, 3);
	assert_int_equal(delete(&f, "a", 0), LARDER_BUSY);
	fixture_advance(&f, 1000 * NSEC_PER_MSEC);
	assert_int_equal(delete(&f, "a", 0), LARDER_OK);
	assert_int_equal(delete(&f, "b", 0), LARDER_BUSY);
	engine_abort(f.r, &first.op);
	fixture_close(&f);
}

/* --- random steps against arrays ---------------------------------------------------------- */

#define KEYS 6u
#define IDS 10u

struct lease_model {
	uint64_t deadline[KEYS][IDS];	/* 0: none */
};

static uint64_t model_longest(const struct lease_model *m, uint32_t key, uint64_t now)
{
	uint64_t longest = 0;

	for (uint32_t id = 0; id < IDS; id++)
		longest = m->deadline[key][id] > longest ? m->deadline[key][id] : longest;
	return longest > now ? longest : 0;
}

static void model_step(struct fixture *f, struct lease_model *m, struct prng *p)
{
	uint32_t key = (uint32_t)prng_below(p, KEYS), id = (uint32_t)prng_below(p, IDS);
	uint32_t ms = 1 + (uint32_t)prng_below(p, 100);
	const char name[] = { (char)('a' + key), '\0' };
	bool leased = model_longest(m, key, f->now_ns);

	switch (prng_below(p, 10)) {
	case 0:
		(void)release(f, NULL, id);
		for (uint32_t k = 0; k < KEYS; k++)
			m->deadline[k][id] = 0;
		break;
	case 1:
	case 2:
		(void)release(f, name, id);
		m->deadline[key][id] = 0;
		break;
	case 3:
		assert_int_equal(delete(f, name, 0), leased ? LARDER_BUSY : LARDER_OK);
		if (leased)
			break;
		memset(m->deadline[key], 0, sizeof(m->deadline[key]));
		assert_int_equal(put(f, name, key, 1), LARDER_OK);
		break;
	case 4:
		assert_int_equal(delete(f, name, LARDER_F_FORCE), LARDER_OK);
		assert_int_equal(put(f, name, key, 1), LARDER_OK);
		memset(m->deadline[key], 0, sizeof(m->deadline[key]));
		break;
	case 5:
		fixture_advance(f, prng_below(p, 20) * NSEC_PER_MSEC);
		assert_null(engine_poll(f->r));
		break;
	case 6:
		if (prng_below(p, 10))
			break;
		fixture_advance(f, 10 * NSEC_PER_MSEC);
		assert_null(engine_poll(f->r));	/* beats now, so the restart forgives nothing */
		fixture_restart(f);
		break;
	default:
		assert_int_equal(lease(f, name, id, ms), LARDER_LEASED);
		m->deadline[key][id] = MAX(m->deadline[key][id], f->now_ns + ms * NSEC_PER_MSEC);
	}
}

static void leases__random_steps_against_arrays(void **state)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct fixture f = {};
		struct lease_model m = {};
		struct prng p;

		print_message("seed %llu\n", (unsigned long long)seed);
		prng_seed(&p, seed);
		fixture_open(&f, 16);
		for (uint32_t key = 0; key < KEYS; key++) {
			const char name[] = { (char)('a' + key), '\0' };

			assert_int_equal(put(&f, name, key, 1), LARDER_OK);
		}
		for (uint32_t step = 0; step < 4000; step++) {
			model_step(&f, &m, &p);
			for (uint32_t key = 0; key < KEYS; key++) {
				const char name[] = { (char)('a' + key), '\0' };
				uint64_t end = model_longest(&m, key, f.now_ns);
				uint64_t left = end ? end - f.now_ns : 0;

				assert_int_equal(lease_left_ms(&f, name), left / NSEC_PER_MSEC);
			}
		}
		fixture_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lease__holds_the_object),
		cmocka_unit_test(lease__is_clamped_and_extended),
		cmocka_unit_test(release__by_key_and_by_id),
		cmocka_unit_test(force__deletes_over_a_lease),
		cmocka_unit_test(half_of_the_table__is_quota_until_some_run_out),
		cmocka_unit_test(turn__a_stop_inside_it_ends_no_lease),
		cmocka_unit_test(forgive__moves_leases_only),
		cmocka_unit_test(leases__random_steps_against_arrays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
