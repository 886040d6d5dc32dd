/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random puts, reads, leases, deletes and changes of limits by three tenants on a small node. After
 * each step: nobody is above a cap that was not lowered under it, nobody lost anything that its
 * guarantee or a promise keeps, gauges are what a model counts, and so are the refusals.
 */
#include "limits.h"

#include "base/prng.h"
#include "engine/engine_internal.h"

#define TENANTS 3u
#define KEYS 24u
#define PAGES 48u
#define PAGES_MAX 4u		/* of one value */
#define IDS 2u
#define READS 6u

struct entry {
	bool there, filling;
	uint32_t pages, length;
	uint64_t lease_ns[IDS];	/* 0 = none */
	struct request put;	/* while it is filling */
};

struct read {
	struct engine_object *object;	/* NULL: free */
	uint32_t tenant, key, pages;
	bool gone;			/* deleted meanwhile */
};

struct party {
	struct who who;
	struct entry entries[KEYS];
	uint64_t refused[LARDER_LIMITS];
	uint64_t resident, objects;	/* at the end of the last step */
};

struct play {
	struct fixture f;
	struct prng p;
	struct party parties[TENANTS];
	struct read reads[READS];
	uint32_t who;			/* whose step it is */
};

static uint64_t random_below(struct play *y, uint64_t n)
{
	return prng_below(&y->p, n);
}

static void key_name(char *name, uint32_t key)
{
	(void)snprintf(name, 16, "k%u", key);
}

static bool entry_leased(const struct play *y, const struct entry *x)
{
	for (uint32_t id = 0; id < IDS; id++)
		if (x->lease_ns[id] > y->f.now_ns)
			return true;
	return false;
}

static bool entry_read(const struct play *y, uint32_t tenant, uint32_t key)
{
	for (uint32_t i = 0; i < READS; i++) {
		const struct read *r = &y->reads[i];

		if (r->object && !r->gone && r->tenant == tenant && r->key == key)
			return true;
	}
	return false;
}

/* Pages of a tenant that nobody may evict, not even for itself. */
static uint64_t fixed_pages(const struct play *y, uint32_t tenant)
{
	uint64_t pages = 0;

	for (uint32_t key = 0; key < KEYS; key++) {
		const struct entry *x = &y->parties[tenant].entries[key];

		if (x->filling || (x->there && (entry_leased(y, x) || entry_read(y, tenant, key))))
			pages += x->pages;
	}
	for (uint32_t i = 0; i < READS; i++)
		if (y->reads[i].object && y->reads[i].gone && y->reads[i].tenant == tenant)
			pages += y->reads[i].pages;
	return pages;
}

static uint64_t all_pages(const struct play *y, uint32_t tenant)
{
	uint64_t pages = 0;

	for (uint32_t key = 0; key < KEYS; key++) {
		const struct entry *x = &y->parties[tenant].entries[key];

		pages += x->there || x->filling ? x->pages : 0;
	}
	for (uint32_t i = 0; i < READS; i++)
		if (y->reads[i].object && y->reads[i].gone && y->reads[i].tenant == tenant)
			pages += y->reads[i].pages;
	return pages;
}

/* --- steps -------------------------------------------------------------------------------- */

static void refused_for(struct play *y, struct party *w, const struct request *q)
{
	uint64_t pages = (q->op.length + FIXTURE_PAGE - 1) / FIXTURE_PAGE;
	uint64_t cap = w->who.limits.value[LARDER_LIMIT_resident_bytes] / FIXTURE_PAGE;

	assert_in_range(q->op.limit, 0, LARDER_LIMITS - 1);
	w->refused[q->op.limit]++;
	/* evict-own says so only when nothing it could evict is enough */
	if (q->op.limit == LARDER_LIMIT_resident_bytes &&
	    !w->who.limits.value[LARDER_LIMIT_over_cap])
		assert_true(fixed_pages(y, y->who) + pages > cap);
}

static void step_put(struct play *y, uint32_t key)
{
	struct party *w = &y->parties[y->who];
	struct entry *x = &w->entries[key];
	uint32_t length = 1 + (uint32_t)random_below(y, PAGES_MAX * FIXTURE_PAGE);
	char name[16];
	int status;

	if (x->filling)
		return;
	key_name(name, key);
	request_init(&x->put, &y->f, LARDER_OP_PUT, name);
	request_value(&x->put, 1, length);
	status = request_run(y->f.r, &x->put);
	if (status == LARDER_QUOTA) {
		assert_false(x->there);
		refused_for(y, w, &x->put);
	} else if (status == LARDER_OK) {
		x->filling = true;
		x->there = false;		/* evicted since, or by this very PUT */
		x->length = length;
		x->pages = (length + FIXTURE_PAGE - 1) / FIXTURE_PAGE;
	} else if (status == LARDER_NO_SPACE) {
		assert_false(x->there);
	} else {
		assert_true(status == LARDER_EXISTS_SAME || status == LARDER_CONFLICT);
		assert_true(x->there);
	}
}

static void step_finish(struct play *y, uint32_t key)
{
	struct entry *x = &y->parties[y->who].entries[key];

	if (!x->filling)
		return;
	x->filling = false;
	if (random_below(y, 4)) {
		engine_commit(y->f.r, &x->put.op);
		x->there = true;
		memset(x->lease_ns, 0, sizeof(x->lease_ns));
	} else {
		engine_abort(y->f.r, &x->put.op);
	}
}

static void step_read(struct play *y, uint32_t key)
{
	struct read *r = &y->reads[random_below(y, READS)];
	char name[16];

	if (r->object) {
		engine_unref(y->f.r, TAKE_PTR(r->object));
		return;
	}
	key_name(name, key);
	if (get(&y->f, name, &r->object) != LARDER_OK)
		return;
	r->tenant = y->who;
	r->key = key;
	r->pages = y->parties[y->who].entries[key].pages;
	r->gone = false;
}

static void step_lease(struct play *y, uint32_t key)
{
	struct party *w = &y->parties[y->who];
	struct entry *x = &w->entries[key];
	uint32_t ms = 1 + (uint32_t)random_below(y, 4000), id = (uint32_t)random_below(y, IDS);
	struct request q;
	char name[16];

	key_name(name, key);
	request_init(&q, &y->f, LARDER_OP_LEASE, name);
	q.op.lease_id = id;
	q.op.lease_ms = ms;
	(void)request_run(y->f.r, &q);
	if (q.key.status == LARDER_QUOTA) {
		assert_int_equal(q.key.presence, LARDER_PRESENT);
		assert_int_equal(q.op.limit, LARDER_LIMIT_leased_bytes);
		assert_false(entry_leased(y, x));
		w->refused[LARDER_LIMIT_leased_bytes]++;
	} else if (q.key.presence == LARDER_LEASED) {
		x->lease_ns[id] = MAX(x->lease_ns[id], y->f.now_ns + ms * NSEC_PER_MSEC);
	}
}

static void step_release(struct play *y, uint32_t key)
{
	uint32_t id = (uint32_t)random_below(y, IDS);
	char name[16];

	key_name(name, key);
	(void)release(&y->f, name, id);
	y->parties[y->who].entries[key].lease_ns[id] = 0;
}

static void step_delete(struct play *y, uint32_t key)
{
	struct entry *x = &y->parties[y->who].entries[key];
	bool force = random_below(y, 2);
	char name[16];

	key_name(name, key);
	if (delete(&y->f, name, force ? LARDER_F_FORCE : 0) != LARDER_OK)
		return;
	assert_true(force || !entry_leased(y, x));
	x->there = false;
	memset(x->lease_ns, 0, sizeof(x->lease_ns));
	for (uint32_t i = 0; i < READS; i++)
		if (y->reads[i].tenant == y->who && y->reads[i].key == key)
			y->reads[i].gone = true;
}

/* Guarantees that the three can have together; anything else at will. */
static void step_limit(struct play *y)
{
	struct who *w = &y->parties[y->who].who;

	switch (random_below(y, 5)) {
	case 0:
		limit(&y->f, w, LARDER_LIMIT_resident_bytes,
		      random_below(y, 4) ? (4 + random_below(y, PAGES)) * FIXTURE_PAGE : 0);
		break;
	case 1:
		limit(&y->f, w, LARDER_LIMIT_objects,
		      random_below(y, 4) ? 1 + random_below(y, KEYS) : 0);
		break;
	case 2:
		limit(&y->f, w, LARDER_LIMIT_leased_bytes,
		      random_below(y, 4) ? random_below(y, 10 * FIXTURE_PAGE) : 0);
		break;
	case 3:
		limit(&y->f, w, LARDER_LIMIT_guarantee_bytes,
		      random_below(y, PAGES / TENANTS * FIXTURE_PAGE));
		break;
	case 4:
		limit(&y->f, w, LARDER_LIMIT_over_cap, random_below(y, 2));
		break;
	}
}

/* --- after each step ---------------------------------------------------------------------- */

/* What is gone without a word was evicted: was it allowed to? */
static void check_evicted(struct play *y, uint32_t tenant)
{
	struct party *w = &y->parties[tenant];
	const struct party *actor = &y->parties[y->who];
	uint64_t guarantee = w->who.limits.value[LARDER_LIMIT_guarantee_bytes];
	uint64_t largest = 0, left, may = actor->who.limits.value[LARDER_LIMIT_guarantee_bytes];

	as(&y->f, &w->who);
	for (uint32_t key = 0; key < KEYS; key++) {
		struct entry *x = &w->entries[key];
		char name[16];

		key_name(name, key);
		if (!x->there || presence(&y->f, name) == LARDER_PRESENT)
			continue;
		assert_false(entry_leased(y, x));
		assert_false(entry_read(y, tenant, key));
		x->there = false;
		memset(x->lease_ns, 0, sizeof(x->lease_ns));
		largest = MAX(largest, (uint64_t)x->pages);
	}
	if (!largest || tenant == y->who)
		return;
	left = all_pages(y, tenant) * FIXTURE_PAGE;
	if (left < guarantee) {
		/* only for one within its own guarantee, and at most a part of one object */
		assert_true(all_pages(y, y->who) <= (may + FIXTURE_PAGE - 1) / FIXTURE_PAGE);
		assert_true(left + largest * FIXTURE_PAGE > guarantee);
	}
}

static void check_gauges(struct play *y, uint32_t tenant)
{
	struct party *w = &y->parties[tenant];
	const struct larder_gauges *g = gauges(&y->f, &w->who);
	uint64_t there = 0, leased = 0, bytes = 0, filling = 0;
	const uint64_t *limits = w->who.limits.value;

	for (uint32_t key = 0; key < KEYS; key++) {
		const struct entry *x = &w->entries[key];

		there += x->there;
		filling += x->filling;
		bytes += x->there ? x->length : 0;
		leased += x->there && entry_leased(y, x) ? x->length : 0;
	}
	assert_int_equal(g->objects, there);
	assert_int_equal(g->value_bytes, bytes);
	assert_int_equal(g->leased_bytes, leased);
	assert_int_equal(g->resident_bytes, all_pages(y, tenant) * FIXTURE_PAGE);
	assert_int_equal(y->f.engine->tenants[w->who.tenant].objects, there + filling);
	assert_true(!limits[LARDER_LIMIT_resident_bytes] || g->resident_bytes <= w->resident ||
		    g->resident_bytes <= limits[LARDER_LIMIT_resident_bytes]);
	assert_true(!limits[LARDER_LIMIT_objects] || there + filling <= w->objects ||
		    there + filling <= limits[LARDER_LIMIT_objects]);
	w->resident = g->resident_bytes;
	w->objects = there + filling;
	for (uint32_t l = 0; l < LARDER_LIMITS; l++)
		assert_int_equal(refused(&y->f, &w->who, (enum larder_limit)l), w->refused[l]);
}

static void play_check(struct play *y)
{
	for (uint32_t i = 0; i < 10; i++)
		assert_null(engine_poll(y->f.r));	/* leases that have run out go */
	for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
		check_evicted(y, tenant);
	for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
		check_gauges(y, tenant);
}

static void play_step(struct play *y)
{
	uint32_t key = (uint32_t)random_below(y, KEYS), what = (uint32_t)random_below(y, 100);

	y->who = (uint32_t)random_below(y, TENANTS);
	as(&y->f, &y->parties[y->who].who);
	if (what < 45)
		step_put(y, key);
	else if (what < 70)
		step_finish(y, key);
	else if (what < 78)
		step_read(y, key);
	else if (what < 86)
		step_lease(y, key);
	else if (what < 90)
		step_release(y, key);
	else if (what < 94)
		step_delete(y, key);
	else if (what < 97)
		fixture_advance(&y->f, random_below(y, NSEC_PER_SEC));
	else
		step_limit(y);
}

static void play_end(struct play *y)
{
	for (uint32_t i = 0; i < READS; i++)
		if (y->reads[i].object)
			engine_unref(y->f.r, TAKE_PTR(y->reads[i].object));
	for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
		for (uint32_t key = 0; key < KEYS; key++)
			if (y->parties[tenant].entries[key].filling)
				engine_abort(y->f.r, &y->parties[tenant].entries[key].put.op);
	fixture_close(&y->f);
}

static void limits__random_steps_against_a_model(void **state)
{
	static const char *const policies[] = { "fifo", "lru", "aseg" };
	static const char *const names[TENANTS] = { "demo", "b", "c" };
	const char *text = getenv("LIMITS_SEED");
	uint64_t base = text ? strtoull(text, NULL, 0) : 1, n = text ? 1 : 6;

	for (uint64_t seed = base; seed < base + n; seed++) {
		struct play *y = calloc(1, sizeof(*y));

		assert_non_null(y);
		print_message("seed %llu (LIMITS_SEED=%llu repeats it)\n",
			      (unsigned long long)seed, (unsigned long long)seed);
		prng_seed(&y->p, seed);
		y->f.config.policy = policies[seed % 3];
		y->f.config.shards = seed % 2 ? 4 : 1;
		fixture_open(&y->f, PAGES);
		for (uint32_t i = 0; i < TENANTS; i++)
			who_open(&y->f, names[i], &y->parties[i].who);
		for (uint32_t i = 0; i < 4000; i++) {
			play_step(y);
			play_check(y);
		}
		play_end(y);
		free(y);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits__random_steps_against_a_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
