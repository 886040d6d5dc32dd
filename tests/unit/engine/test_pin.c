/* SPDX-License-Identifier: Apache-2.0 */
/* Pins: soft ones go last, hard ones never; marks that a retry does not change; budget; restart. */
#include "fixture.h"

#include "base/prng.h"

static int pin(struct fixture *f, int opcode, const char *key, uint32_t flags)
{
	struct request q;
	int status;

	request_init(&q, f, opcode, key);
	q.op.flags = flags;
	status = request_run(f->r, &q);
	if (status == LARDER_OK && q.key.status == LARDER_QUOTA)
		assert_int_equal(q.op.limit, LARDER_LIMIT_pinned_bytes);
	return status == LARDER_OK ? q.key.status : status;
}

static int pin_soft(struct fixture *f, const char *key)
{
	return pin(f, LARDER_OP_PIN, key, 0);
}

static int pin_hard(struct fixture *f, const char *key)
{
	return pin(f, LARDER_OP_PIN, key, LARDER_F_HARD);
}

static uint32_t pins_of(struct fixture *f, const char *key)
{
	struct request q;
	struct larder_stat st;

	request_init(&q, f, LARDER_OP_STAT, key);
	q.op.stats = &st;
	assert_int_equal(request_run(f->r, &q), LARDER_OK);
	return st.pins;
}

static uint64_t pinned_bytes(const struct fixture *f)
{
	return f->ledger->gauges[0].pinned_bytes;
}

static void limit_pinned(struct fixture *f, uint64_t bytes)
{
	struct larder_limits l = {};

	l.value[LARDER_LIMIT_pinned_bytes] = bytes;
	engine_tenant_set_limits(f->engine, f->tenant, &l);
}

static const char *name(uint32_t i)
{
	static char key[16];

	(void)snprintf(key, sizeof(key), "k%u", i);
	return key;
}

/* A page each, a millisecond apart. */
static void put_many(struct fixture *f, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++) {
		fixture_advance(f, NSEC_PER_MSEC);
		assert_int_equal(put(f, name(i), i, FIXTURE_PAGE), LARDER_OK);
	}
}

static void pin__is_a_mark_that_a_retry_does_not_change(void **state)
{
	struct fixture f = {};

	fixture_open(&f, 16);
	assert_int_equal(pin_soft(&f, "k"), LARDER_NOT_FOUND);
	assert_int_equal(pin(&f, LARDER_OP_UNPIN, "k", 0), LARDER_NOT_FOUND);
	assert_int_equal(put(&f, "k", 1, 100), LARDER_OK);
	assert_int_equal(pin(&f, LARDER_OP_UNPIN, "k", 0), LARDER_OK);
	assert_int_equal(pins_of(&f, "k"), 0);
	assert_int_equal(pin_soft(&f, "k"), LARDER_OK);
	assert_int_equal(pin_soft(&f, "k"), LARDER_OK);
	assert_int_equal(pins_of(&f, "k"), 1);
	assert_int_equal(pin_hard(&f, "k"), LARDER_OK);
	assert_int_equal(pin_hard(&f, "k"), LARDER_OK);
	assert_int_equal(pins_of(&f, "k"), 1 | 1 << 16);
	assert_int_equal(pinned_bytes(&f), 100);
	/* each kind for itself */
	assert_int_equal(pin(&f, LARDER_OP_UNPIN, "k", 0), LARDER_OK);
	assert_int_equal(pins_of(&f, "k"), 1 << 16);
	assert_int_equal(pin(&f, LARDER_OP_UNPIN, "k", LARDER_F_HARD), LARDER_OK);
	assert_int_equal(pin(&f, LARDER_OP_UNPIN, "k", LARDER_F_HARD), LARDER_OK);
	assert_int_equal(pins_of(&f, "k"), 0);
	assert_int_equal(pinned_bytes(&f), 0);
	fixture_close(&f);
}

static void pin__a_key_each_of_a_batch(void **state)
{
	struct larder_op_key keys[3] = { { .key = "a", .key_len = 1 }, { .key = "b", .key_len = 1 },
					 { .key = "c", .key_len = 1 } };
	struct fixture f = {};
	struct request q;

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "a", 1, 1), LARDER_OK);
	assert_int_equal(put(&f, "c", 1, 1), LARDER_OK);
	request_init(&q, &f, LARDER_OP_PIN, "");
	q.op.keys = keys;
	q.op.n_keys = 3;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(keys[0].status, LARDER_OK);
	assert_int_equal(keys[1].status, LARDER_NOT_FOUND);
	assert_int_equal(keys[2].status, LARDER_OK);
	assert_int_equal(pins_of(&f, "c"), 1);
	q.op.n_keys = 0;
	assert_int_equal(request_run(f.r, &q), LARDER_BAD_REQUEST);
	fixture_close(&f);
}

static void pin__only_the_owner(void **state)
{
	struct fixture f = {};
	struct request q;
	uint32_t other;

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "k", 1, 1), LARDER_OK);
	assert_int_equal(engine_tenant_add(f.engine, "other", &other), 0);
	request_init(&q, &f, LARDER_OP_PIN, "k");
	q.op.tenant = other;
	assert_int_equal(request_run(f.r, &q), LARDER_NOT_FOUND);
	q.op.flags = LARDER_F_HARD;
	assert_int_equal(request_run(f.r, &q), LARDER_NOT_FOUND);
	assert_int_equal(pins_of(&f, "k"), 0);
	fixture_close(&f);
}

static void soft__goes_last_but_goes(const char *policy)
{
	enum { PAGES = 128, SOFT = 100 };
	struct fixture f = { .config.policy = policy, .config.shards = 16 };

	fixture_open(&f, PAGES);
	put_many(&f, 0, PAGES);
	/* the oldest, and some of the youngest */
	for (uint32_t i = 0; i < SOFT; i++)
		assert_int_equal(pin_soft(&f, name(i)), LARDER_OK);
	put_many(&f, 1000, 500);
	for (uint32_t i = 0; i < SOFT; i++)
		assert_int_equal(presence(&f, name(i)), LARDER_PRESENT);
	/* nothing else is left: now they go, and what came last stays */
	for (uint32_t i = 0; i < 500; i++)
		if (presence(&f, name(1000 + i)) == LARDER_PRESENT)
			assert_int_equal(pin_soft(&f, name(1000 + i)), LARDER_OK);
	put_many(&f, 2000, 1);
	assert_int_equal(counts(&f).objects, PAGES);
	assert_int_equal(presence(&f, name(2000)), LARDER_PRESENT);
	fixture_close(&f);
}

static void soft__goes_last_lru(void **state)
{
	soft__goes_last_but_goes("lru");
}

static void soft__goes_last_fifo(void **state)
{
	soft__goes_last_but_goes("fifo");
}

static void soft__goes_last_aseg(void **state)
{
	soft__goes_last_but_goes("aseg");
}

/* What may not go stands in the policy's lists: only the walk over all of them tells that. */
static void soft__goes_when_the_rest_is_leased(void **state)
{
	enum { PAGES = 600 };
	struct fixture f = { .config.shards = 4 };

	fixture_open(&f, PAGES);
	put_many(&f, 0, PAGES);
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(lease(&f, name(i), 1, 60000), LARDER_LEASED);
	for (uint32_t i = 200; i < PAGES; i++)
		assert_int_equal(pin_soft(&f, name(i)), LARDER_OK);
	assert_int_equal(put(&f, "new", 1, 3 * FIXTURE_PAGE), LARDER_OK);
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(presence(&f, name(i)), LARDER_PRESENT);
	assert_int_equal(counts(&f).evictions, 3);
	fixture_close(&f);
}

static void soft__can_be_deleted_and_runs_out(void **state)
{
	struct fixture f = {};
	struct request q;

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "k", 1, 1), LARDER_OK);
	assert_int_equal(pin_soft(&f, "k"), LARDER_OK);
	assert_int_equal(delete(&f, "k", 0), LARDER_OK);
	request_init(&q, &f, LARDER_OP_PUT, "t");
	request_value(&q, 1, 1);
	q.op.ttl_ms = 10;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	engine_commit(f.r, &q.op);
	assert_int_equal(pin_soft(&f, "t"), LARDER_OK);
	fixture_advance(&f, 10 * NSEC_PER_MSEC);
	assert_int_equal(presence(&f, "t"), LARDER_ABSENT);
	fixture_close(&f);
}

static void hard__is_never_evicted(void **state)
{
	struct fixture f = { .config.policy = "aseg" };

	fixture_open(&f, 64);
	put_many(&f, 0, 64);
	for (uint32_t i = 0; i < 63; i++)
		assert_int_equal(pin_hard(&f, name(i)), LARDER_OK);
	put_many(&f, 100, 300);
	for (uint32_t i = 0; i < 63; i++)
		assert_int_equal(touch(&f, name(i)), LARDER_OK);
	assert_int_equal(pin_hard(&f, name(399)), LARDER_OK);
	assert_int_equal(put(&f, "more", 1, 1), LARDER_NO_SPACE);
	assert_int_equal(pin(&f, LARDER_OP_UNPIN, name(7), LARDER_F_HARD), LARDER_OK);
	assert_int_equal(put(&f, "more", 1, 1), LARDER_OK);
	assert_int_equal(presence(&f, name(7)), LARDER_ABSENT);
	fixture_close(&f);
}

static void hard__is_busy_unless_forced(void **state)
{
	struct fixture f = {};
	struct request q;

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "a", 1, 100), LARDER_OK);
	assert_int_equal(put(&f, "b", 1, 100), LARDER_OK);
	assert_int_equal(put(&f, "c", 1, 100), LARDER_OK);
	assert_int_equal(pin_hard(&f, "a"), LARDER_OK);
	assert_int_equal(pin_hard(&f, "b"), LARDER_OK);
	assert_int_equal(delete(&f, "a", 0), LARDER_BUSY);
	request_init(&q, &f, LARDER_OP_NS_FLUSH, "");
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.op.count, 1);
	assert_int_equal(q.op.kept, 2);
	assert_int_equal(pinned_bytes(&f), 200);
	assert_int_equal(delete(&f, "a", LARDER_F_FORCE), LARDER_OK);
	assert_int_equal(pinned_bytes(&f), 100);
	q.op.flags = LARDER_F_FORCE;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	assert_int_equal(q.op.count, 1);
	assert_int_equal(pinned_bytes(&f), 0);
	/* the slot's next object has none of it */
	assert_int_equal(put(&f, "a", 1, 100), LARDER_OK);
	assert_int_equal(pins_of(&f, "a"), 0);
	fixture_close(&f);
}

static void hard__outlives_its_ttl(void **state)
{
	struct fixture f = {};
	struct request q;

	fixture_open(&f, 16);
	request_init(&q, &f, LARDER_OP_PUT, "t");
	request_value(&q, 1, 1);
	q.op.ttl_ms = 10;
	assert_int_equal(request_run(f.r, &q), LARDER_OK);
	engine_commit(f.r, &q.op);
	assert_int_equal(pin_hard(&f, "t"), LARDER_OK);
	fixture_advance(&f, 100 * NSEC_PER_SEC);
	assert_null(engine_poll(f.r));
	assert_int_equal(presence(&f, "t"), LARDER_PRESENT);
	assert_int_equal(pin(&f, LARDER_OP_UNPIN, "t", LARDER_F_HARD), LARDER_OK);
	assert_int_equal(presence(&f, "t"), LARDER_ABSENT);
	fixture_close(&f);
}

static void hard__stays_within_its_budget(void **state)
{
	struct fixture f = {};

	fixture_open(&f, 64);
	limit_pinned(&f, 3 * FIXTURE_PAGE);
	put_many(&f, 0, 5);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(pin_hard(&f, name(i)), LARDER_OK);
	assert_int_equal(pin_hard(&f, name(3)), LARDER_QUOTA);
	assert_int_equal(pins_of(&f, name(3)), 0);
	assert_int_equal(f.ledger->usage[0].refused[LARDER_LIMIT_pinned_bytes], 1);
	assert_int_equal(pin_hard(&f, name(0)), LARDER_OK);	/* has it already */
	assert_int_equal(pin_soft(&f, name(3)), LARDER_OK);	/* costs nothing */
	assert_int_equal(pin(&f, LARDER_OP_UNPIN, name(0), LARDER_F_HARD), LARDER_OK);
	assert_int_equal(pin_hard(&f, name(3)), LARDER_OK);
	assert_int_equal(pins_of(&f, name(3)), 1 | 1 << 16);
	assert_int_equal(pin_hard(&f, name(4)), LARDER_QUOTA);
	assert_int_equal(delete(&f, name(1), LARDER_F_FORCE), LARDER_OK);
	assert_int_equal(pin_hard(&f, name(4)), LARDER_OK);
	assert_int_equal(pinned_bytes(&f), 3 * FIXTURE_PAGE);
	fixture_close(&f);
}

static void hard__quarantine_gives_the_budget_back(void **state)
{
	struct fixture f = {};
	struct engine_object *o;
	struct iovec iov;
	uint64_t bytes;

	fixture_open(&f, 16);
	assert_int_equal(put(&f, "k", 1, 100), LARDER_OK);
	assert_int_equal(pin_hard(&f, "k"), LARDER_OK);
	assert_int_equal(get(&f, "k", &o), LARDER_OK);
	assert_int_equal(engine_object_iov(o, 0, 100, &iov, 1, &bytes), 1);
	*(uint8_t *)iov.iov_base ^= 1;
	assert_true(engine_verify(f.r, o));
	engine_unref(f.r, o);
	assert_int_equal(pinned_bytes(&f), 0);
	fixture_close(&f);
}

static void restart__pins_are_there(void **state)
{
	struct fixture f = { .config.policy = "aseg" };

	fixture_open(&f, 64);
	put_many(&f, 0, 64);
	assert_int_equal(pin_hard(&f, name(0)), LARDER_OK);
	assert_int_equal(pin_soft(&f, name(1)), LARDER_OK);
	assert_int_equal(pin_hard(&f, name(1)), LARDER_OK);
	assert_int_equal(pin_soft(&f, name(2)), LARDER_OK);
	assert_int_equal(pin_hard(&f, name(3)), LARDER_OK);
	assert_int_equal(pin(&f, LARDER_OP_UNPIN, name(3), LARDER_F_HARD), LARDER_OK);
	fixture_restart(&f);
	assert_int_equal(pins_of(&f, name(0)), 1 << 16);
	assert_int_equal(pins_of(&f, name(1)), 1 | 1 << 16);
	assert_int_equal(pins_of(&f, name(2)), 1);
	assert_int_equal(pins_of(&f, name(3)), 0);
	assert_int_equal(pinned_bytes(&f), 2 * FIXTURE_PAGE);
	assert_int_equal(delete(&f, name(0), 0), LARDER_BUSY);
	put_many(&f, 100, 300);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(presence(&f, name(i)), LARDER_PRESENT);
	assert_int_equal(presence(&f, name(3)), LARDER_ABSENT);
	limit_pinned(&f, 1);		/* under what it has: nothing new, and nothing is lost */
	assert_int_equal(pin_hard(&f, name(2)), LARDER_QUOTA);
	assert_int_equal(pins_of(&f, name(0)), 1 << 16);
	fixture_close(&f);
}

/* Pins, unpins, hits, puts and deletes at random against the plainest model. */
static void random__what_is_pinned_hard_stays(void **state)
{
	enum { PAGES = 96, KEYS = 256, TURNS = 60000 };
	struct fixture f = { .config.policy = "aseg", .config.shards = 8 };
	uint64_t seed = 20260, hard_pages = 0;
	bool hard[KEYS] = {};
	struct prng prng;

	print_message("seed %llu: set it in this test to repeat\n", (unsigned long long)seed);
	prng_seed(&prng, seed);
	fixture_open(&f, PAGES);
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		uint32_t i = (uint32_t)prng_below(&prng, KEYS);
		uint32_t what = (uint32_t)prng_below(&prng, 10);
		int status;

		fixture_advance(&f, NSEC_PER_SEC);
		if (what < 4) {
			status = put(&f, name(i), i, FIXTURE_PAGE);
			assert_true(status == LARDER_OK || status == LARDER_EXISTS_SAME);
		} else if (what < 6) {
			status = touch(&f, name(i));
			assert_true(status == LARDER_OK || !hard[i]);
		} else if (what == 6) {
			(void)pin_soft(&f, name(i));
		} else if (what == 7 && hard_pages < PAGES / 2) {
			status = pin_hard(&f, name(i));
			hard_pages += status == LARDER_OK && !hard[i];
			hard[i] |= status == LARDER_OK;
		} else if (what == 8) {
			status = pin(&f, LARDER_OP_UNPIN, name(i),
				     prng_below(&prng, 2) ? LARDER_F_HARD : 0);
			assert_true(status == LARDER_OK || !hard[i]);
			if (status == LARDER_OK && hard[i] && !(pins_of(&f, name(i)) >> 16)) {
				hard[i] = false;
				hard_pages--;
			}
		} else if (what == 9) {
			status = delete(&f, name(i), 0);
			assert_int_equal(status == LARDER_BUSY, hard[i]);
		}
		assert_int_equal(pinned_bytes(&f), hard_pages * FIXTURE_PAGE);
		if (turn % 20000 == 19999)
			fixture_restart(&f);
	}
	for (uint32_t i = 0; i < KEYS; i++)
		if (hard[i])
			assert_int_equal(presence(&f, name(i)), LARDER_PRESENT);
	fixture_close(&f);
}

static void hard__stays_when_it_is_soft_too(void **state)
{
	struct fixture f = { .config.shards = 1 };

	fixture_open(&f, 16);
	put_many(&f, 0, 2);
	assert_int_equal(pin_hard(&f, name(0)), LARDER_OK);
	assert_int_equal(pin_soft(&f, name(0)), LARDER_OK);
	assert_int_equal(pin_soft(&f, name(1)), LARDER_OK);
	assert_int_equal(pin_hard(&f, name(1)), LARDER_OK);
	put_many(&f, 100, 200);
	assert_int_equal(put(&f, "all", 1, 14 * FIXTURE_PAGE), LARDER_OK);
	assert_int_equal(presence(&f, name(0)), LARDER_PRESENT);
	assert_int_equal(presence(&f, name(1)), LARDER_PRESENT);
	assert_int_equal(pin_hard(&f, "all"), LARDER_OK);
	assert_int_equal(put(&f, "more", 1, 1), LARDER_NO_SPACE);
	assert_int_equal(presence(&f, name(0)), LARDER_PRESENT);
	assert_int_equal(presence(&f, name(1)), LARDER_PRESENT);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pin__is_a_mark_that_a_retry_does_not_change),
		cmocka_unit_test(pin__a_key_each_of_a_batch),
		cmocka_unit_test(pin__only_the_owner),
		cmocka_unit_test(soft__goes_last_lru),
		cmocka_unit_test(soft__goes_last_fifo),
		cmocka_unit_test(soft__goes_last_aseg),
		cmocka_unit_test(soft__goes_when_the_rest_is_leased),
		cmocka_unit_test(soft__can_be_deleted_and_runs_out),
		cmocka_unit_test(hard__is_never_evicted),
		cmocka_unit_test(hard__is_busy_unless_forced),
		cmocka_unit_test(hard__outlives_its_ttl),
		cmocka_unit_test(hard__stays_when_it_is_soft_too),
		cmocka_unit_test(hard__stays_within_its_budget),
		cmocka_unit_test(hard__quarantine_gives_the_budget_back),
		cmocka_unit_test(restart__pins_are_there),
		cmocka_unit_test(random__what_is_pinned_hard_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
