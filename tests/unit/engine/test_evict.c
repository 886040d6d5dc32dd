/* SPDX-License-Identifier: Apache-2.0 */
/* What goes when there is no room: what the textbook says, and nothing that was promised. */
#include "fixture.h"

#include "base/prng.h"

/* --- the textbook, on one list ------------------------------------------------------------ */

#define KEYS 300u
#define CAPACITY 100u

struct model {
	uint32_t order[CAPACITY];	/* oldest first */
	uint32_t n;
	bool lru;
	uint64_t hits;
};

static uint32_t model_find(const struct model *m, uint32_t key)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (m->order[i] == key)
			return i;
	return UINT32_MAX;
}

static void model_take(struct model *m, uint32_t i)
{
	memmove(&m->order[i], &m->order[i + 1], (m->n - i - 1) * sizeof(m->order[0]));
	m->n--;
}

/* Touch when it is there, else evict one if full and insert. True: it was there. */
static bool model_access(struct model *m, uint32_t key)
{
	uint32_t i = model_find(m, key);

	if (i != UINT32_MAX) {
		m->hits++;
		if (!m->lru)
			return true;
		model_take(m, i);
	} else if (m->n == CAPACITY) {
		model_take(m, 0);
	}
	m->order[m->n++] = key;
	return i != UINT32_MAX;
}

static void evict__equals_the_textbook(const char *policy, uint64_t seed)
{
	struct fixture f = { .config.policy = policy, .config.shards = 1 };
	struct model m = { .lru = strcmp(policy, "lru") == 0 };
	struct prng p;
	char key[16];

	print_message("seed %llu\n", (unsigned long long)seed);
	prng_seed(&p, seed);
	fixture_open(&f, CAPACITY);
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t k = (uint32_t)prng_below(&p, prng_below(&p, KEYS) + 1);
		bool there;

		fixture_advance(&f, prng_below(&p, 3));	/* time may stand still */
		(void)snprintf(key, sizeof(key), "%u", k);
		there = presence(&f, key) == LARDER_PRESENT;
		if (there && prng_below(&p, 2))
			assert_int_equal(touch(&f, key), LARDER_OK);
		else
			assert_int_equal(put(&f, key, k, 1 + k),
					 there ? LARDER_EXISTS_SAME : LARDER_OK);
		assert_int_equal(model_access(&m, k), there);
	}
	for (uint32_t k = 0; k < KEYS; k++) {
		(void)snprintf(key, sizeof(key), "%u", k);
		assert_int_equal(presence(&f, key) == LARDER_PRESENT,
				 model_find(&m, k) != UINT32_MAX);
	}
	assert_int_equal(counts(&f).objects, m.n);
	assert_true(m.hits > 1000);
	fixture_close(&f);
}

static void lru__equals_the_textbook(void **state)
{
	for (uint64_t seed = 1; seed <= 3; seed++)
		evict__equals_the_textbook("lru", seed);
}

static void fifo__equals_the_textbook(void **state)
{
	for (uint64_t seed = 1; seed <= 3; seed++)
		evict__equals_the_textbook("fifo", seed);
}

static void evict__counts_what_it_took(void **state)
{
	struct fixture f = { .config.shards = 1 };

	fixture_open(&f, 8);
	for (uint32_t i = 0; i < 8; i++) {
		const char key[] = { (char)('a' + i), '\0' };

		assert_int_equal(put(&f, key, i, 100), LARDER_OK);
	}
	/* three pages: the three oldest, no more */
	assert_int_equal(put(&f, "big", 9, 3 * FIXTURE_PAGE), LARDER_OK);
	assert_int_equal(presence(&f, "c"), LARDER_ABSENT);
	assert_int_equal(presence(&f, "d"), LARDER_PRESENT);
	assert_int_equal(counts(&f).evictions, 3);
	assert_int_equal(counts(&f).evicted_bytes, 300);
	assert_int_equal(ledger_usage(f.ledger, 0, 0)->evicted_objects, 3);
	assert_int_equal(ledger_usage(f.ledger, 0, 0)->evicted_bytes, 300);
	assert_int_equal(f.ledger->gauges[0].resident_bytes, 8 * FIXTURE_PAGE);
	fixture_close(&f);
}

/* --- what may not go ---------------------------------------------------------------------- */

static void fill_all(struct fixture *f, uint32_t n)
{
	char key[16];

	for (uint32_t i = 0; i < n; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(put(f, key, i, FIXTURE_PAGE), LARDER_OK);
	}
}

static void lease__keeps_from_eviction_until_it_ends(void **state)
{
	struct fixture f = { .config.shards = 8 };
	char key[16];

	fixture_open(&f, 200);
	fill_all(&f, 200);
	for (uint32_t i = 0; i < 200; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		if (i != 150)
			assert_int_equal(lease(&f, key, i, 1000), LARDER_LEASED);
	}
	/* there is one that may go, wherever it is: it is found */
	assert_int_equal(put(&f, "new", 1, 1), LARDER_OK);
	assert_int_equal(presence(&f, "k150"), LARDER_ABSENT);
	assert_int_equal(lease(&f, "new", 1, 1000), LARDER_LEASED);
	assert_int_equal(put(&f, "more", 1, 1), LARDER_NO_SPACE);
	assert_int_equal(presence(&f, "more"), LARDER_ABSENT);
	assert_int_equal(counts(&f).objects, 200);
	fixture_advance(&f, 1000 * NSEC_PER_MSEC);
	assert_int_equal(put(&f, "more", 1, 1), LARDER_OK);
	fixture_close(&f);
}

static void reference__keeps_from_eviction_until_it_ends(void **state)
{
	struct fixture f = {};
	struct engine_object *o[4];
	char key[16];

	fixture_open(&f, 4);
	fill_all(&f, 4);
	for (uint32_t i = 0; i < 4; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(get(&f, key, &o[i]), LARDER_OK);
	}
	assert_int_equal(put(&f, "new", 9, 1), LARDER_NO_SPACE);
	for (uint32_t i = 0; i < 4; i++)
		object_assert(o[i], i, FIXTURE_PAGE);
	engine_unref(f.r, o[2]);
	assert_int_equal(put(&f, "new", 9, 1), LARDER_OK);
	assert_int_equal(presence(&f, "k2"), LARDER_ABSENT);
	object_assert(o[0], 0, FIXTURE_PAGE);
	engine_unref(f.r, o[0]);
	engine_unref(f.r, o[1]);
	engine_unref(f.r, o[3]);
	fixture_close(&f);
}

static void filling_and_pinned__keep_from_eviction(void **state)
{
	struct fixture f = {};
	struct request q, hard;

	fixture_open(&f, 4);
	request_init(&q, &f, LARDER_OP_PUT, "filling");
	request_value(&q, 1, 3 * FIXTURE_PAGE);
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(put(&f, "k", 2, 1), LARDER_OK);
	request_init(&hard, &f, LARDER_OP_PIN, "k");
	hard.op.flags = LARDER_F_HARD;
	assert_int_equal(request_run(f.r, &hard), LARDER_OK);
	assert_int_equal(put(&f, "new", 2, 1), LARDER_NO_SPACE);
	assert_int_equal(delete(&f, "k", 0), LARDER_BUSY);
	engine_abort(f.r, &q.op);
	assert_int_equal(put(&f, "new", 2, 1), LARDER_OK);
	fixture_close(&f);
}

static void records__short_of_them_evicts_too(void **state)
{
	static char big[LARDER_KEY_MAX];
	struct fixture f = {};
	struct request q;
	uint32_t stored = 0;

	/* long keys take five records each: records end before pages do */
	fixture_open(&f, 2048);
	for (uint32_t i = 0; i < 2048; i++) {
		request_init(&q, &f, LARDER_OP_PUT, "");
		request_value(&q, i, 1);
		memset(big, 'x', sizeof(big));
		(void)snprintf(big, 16, "%u", i);
		q.key.key = big;
		q.key.key_len = sizeof(big);
		assert_int_equal(request_run(f.r, &q), LARDER_OK);
		engine_commit(f.r, &q.op);
		assert_int_equal(q.op.status, LARDER_OK);
		stored++;
	}
	assert_true(counts(&f).objects < stored);
	assert_true(counts(&f).free_records < 16);
	assert_true(counts(&f).free_pages > 0);
	fixture_close(&f);
}

/* A walk that does not end within a turn parks the op, and it still gets what there is. */
static void space__waits_for_the_walk(void **state)
{
	enum { MANY = 2000 };
	struct fixture f = { .config.shards = 1 };
	struct engine_object **o = calloc(MANY, sizeof(struct engine_object *));
	struct request q;
	char key[16];

	assert_non_null(o);
	fixture_open(&f, MANY);
	fill_all(&f, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(get(&f, key, &o[i]), LARDER_OK);
	}
	request_init(&q, &f, LARDER_OP_PUT, "new");
	request_value(&q, 1, 1);
	assert_int_equal(engine_submit(f.r, &q.op), 1);
	assert_int_equal(presence(&f, "new"), LARDER_FILLING);
	assert_int_equal(engine_next_deadline(f.r), 0);
	engine_unref(f.r, o[1000]);
	for (unsigned i = 0; i < 1000 && !engine_poll(f.r); i++)
		;
	assert_int_equal(q.op.status, LARDER_OK);
	assert_non_null(q.op.object);
	engine_commit(f.r, &q.op);
	/* and when there is none, it says so in the end, and leaves nothing */
	assert_int_equal(get(&f, "new", &o[1000]), LARDER_OK);
	assert_int_equal(put(&f, "none", 1, 1), LARDER_NO_SPACE);
	/* by deadline and by cancel as well */
	request_init(&q, &f, LARDER_OP_PUT, "late");
	request_value(&q, 1, 1);
	q.op.deadline_ns = f.now_ns + 10;
	assert_int_equal(engine_submit(f.r, &q.op), 1);
	fixture_advance(&f, 10);
	assert_ptr_equal(engine_poll(f.r), &q.op);
	assert_int_equal(q.op.status, LARDER_DEADLINE);
	q.op.deadline_ns = 0;
	assert_int_equal(engine_submit(f.r, &q.op), 1);
	assert_int_equal(engine_cancel(f.r, &q.op), 0);
	assert_int_equal(presence(&f, "late"), LARDER_ABSENT);
	for (uint32_t i = 0; i < MANY; i++)
		engine_unref(f.r, o[i]);
	free(o);
	fixture_close(&f);
}

/* --- whose, and when ---------------------------------------------------------------------- */

static void tenant__that_holds_most_gives(void **state)
{
	struct fixture f = { .config.shards = 1 };
	uint32_t other, ns;
	struct fixture g;

	fixture_open(&f, 30);
	assert_int_equal(engine_tenant_add(f.engine, "other", &other), 0);
	assert_int_equal(engine_namespace_open(f.engine, other, "ns", 2, NULL, true, &ns, NULL),
			 LARDER_OK);
	fill_all(&f, 10);			/* the oldest are demo's */
	g = f;
	g.tenant = other;
	g.ns = ns;
	fill_all(&g, 20);
	assert_int_equal(put(&f, "new", 1, 1), LARDER_OK);
	assert_int_equal(presence(&f, "k0"), LARDER_PRESENT);
	assert_int_equal(presence(&g, "k0"), LARDER_ABSENT);
	assert_int_equal(ledger_usage(f.ledger, 0, 1)->evicted_objects, 1);
	/* the larger one has nothing to give: then the other */
	for (uint32_t i = 1; i < 20; i++) {
		char key[16];

		(void)snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(lease(&g, key, 1, 1000), LARDER_LEASED);
	}
	assert_int_equal(put(&f, "newer", 1, 1), LARDER_OK);
	assert_int_equal(presence(&f, "k0"), LARDER_ABSENT);
	fixture_close(&f);
}

static void reserve__is_made_ahead_of_need(void **state)
{
	struct fixture f = { .config.reserve_pages = 16, .config.shards = 64 };

	fixture_open(&f, 128);
	fill_all(&f, 128);
	assert_int_equal(counts(&f).free_pages, 0);
	assert_int_equal(engine_next_deadline(f.r), 0);
	assert_null(engine_poll(f.r));
	assert_int_equal(counts(&f).free_pages, 4);	/* a few per turn */
	for (unsigned i = 0; i < 3; i++)
		assert_null(engine_poll(f.r));
	assert_int_equal(counts(&f).free_pages, 16);
	assert_null(engine_poll(f.r));
	assert_int_equal(counts(&f).free_pages, 16);
	assert_int_equal(engine_next_deadline(f.r), UINT64_MAX);
	assert_int_equal(put(&f, "new", 1, 16 * FIXTURE_PAGE), LARDER_OK);
	fixture_close(&f);
}

/* Sampling four of many shards takes old ones: nearly all of the young half stays. */
static void shards__sampling_takes_the_old(void **state)
{
	struct fixture f = { .config.shards = 64, .config.seed = 3 };
	uint32_t young = 0;
	char key[16];

	fixture_open(&f, 1024);
	for (uint32_t i = 0; i < 1024; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		fixture_advance(&f, NSEC_PER_MSEC);
		assert_int_equal(put(&f, key, i, 1), LARDER_OK);
	}
	assert_int_equal(put(&f, "big", 1, 256 * FIXTURE_PAGE), LARDER_OK);
	for (uint32_t i = 512; i < 1024; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		young += presence(&f, key) == LARDER_PRESENT;
	}
	assert_true(young > 505);
	fixture_close(&f);
}

/* Many small ones go for a large one, a bounded number with each turn. */
static void large__is_no_long_turn_for_others(void **state)
{
	enum { SMALL = 2000, LARGE = 1500, TURN_MAX = 256 };
	struct fixture f = { .config.shards = 8 };
	struct request q;
	uint64_t was = 0;

	fixture_open(&f, SMALL);
	fill_all(&f, SMALL);
	request_init(&q, &f, LARDER_OP_PUT, "large");
	request_value(&q, 1, (uint64_t)LARGE * FIXTURE_PAGE);
	assert_int_equal(engine_submit(f.r, &q.op), 1);
	for (;;) {
		uint64_t is = counts(&f).evictions;
		struct larder_op *op;

		assert_in_range(is - was, 1, TURN_MAX);
		was = is;
		op = engine_poll(f.r);
		if (op)
			break;
	}
	assert_int_equal(q.op.status, LARDER_OK);
	assert_int_equal(counts(&f).evictions, LARGE);
	engine_abort(f.r, &q.op);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lru__equals_the_textbook),
		cmocka_unit_test(fifo__equals_the_textbook),
		cmocka_unit_test(evict__counts_what_it_took),
		cmocka_unit_test(lease__keeps_from_eviction_until_it_ends),
		cmocka_unit_test(reference__keeps_from_eviction_until_it_ends),
		cmocka_unit_test(filling_and_pinned__keep_from_eviction),
		cmocka_unit_test(records__short_of_them_evicts_too),
		cmocka_unit_test(space__waits_for_the_walk),
		cmocka_unit_test(tenant__that_holds_most_gives),
		cmocka_unit_test(reserve__is_made_ahead_of_need),
		cmocka_unit_test(shards__sampling_takes_the_old),
		cmocka_unit_test(large__is_no_long_turn_for_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
