/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several reactors, each in its own thread, do everything to few keys in little memory. Whatever
 * the interleaving: a read gives whole, right bytes, what is leased is found, and in the end every
 * page, record and count is back.
 */
#include <pthread.h>

#include "fixture.h"

#include "base/prng.h"

#define THREADS 4u
#define KEYS 24u
#define PAGES 40u

struct stress {
	struct fixture f;
	uint32_t steps;
};

struct worker {
	struct stress *all;
	struct engine_reactor *r;
	uint32_t index;
	struct prng prng;
	pthread_t thread;
	const char *wrong;		/* cmocka's assertions are for the main thread only */
	uint64_t gets, puts;
};

static void stress_clock(struct worker *w)
{
	if (w->index == 0)
		(void)__atomic_fetch_add(&w->all->f.now_ns, 5000, __ATOMIC_RELAXED);
}

/* Runs one op to its end; now and then it gives up waiting. */
static int worker_run(struct worker *w, struct request *q)
{
	if (prng_below(&w->prng, 4) == 0)
		q->op.deadline_ns = fixture_monotonic(&w->all->f) + 20000;
	if (engine_submit(w->r, &q->op) == 0)
		return q->op.status;
	for (unsigned i = 0;; i++) {
		struct larder_op *op = engine_poll(w->r);

		stress_clock(w);
		if (op == &q->op)
			return op->status;
		if (op)
			w->wrong = "an op that was not ours came back";
		if (i == 50 && engine_cancel(w->r, &q->op) == 0)
			return q->op.status;
		if (i > 20000000) {
			w->wrong = "an op never came back";
			return LARDER_INTERNAL;
		}
	}
}

static uint64_t key_length(uint32_t key)
{
	return 1 + key * 701;		/* one to five pages */
}

static bool object_is(const struct engine_object *o, uint32_t key)
{
	uint64_t length = key_length(key), bytes;

	if (engine_object_length(o) != length)
		return false;
	for (uint64_t at = 0; at < length; at += bytes) {
		struct iovec iov[8];
		uint32_t n = engine_object_iov(o, at, length - at, iov, 8, &bytes);
		uint64_t within = at;

		for (uint32_t i = 0; i < n; i++)
			for (size_t b = 0; b < iov[i].iov_len; b++)
				if (((uint8_t *)iov[i].iov_base)[b] != value_byte(key, within++))
					return false;
	}
	return true;
}

static void worker_put(struct worker *w, uint32_t key, const char *name)
{
	struct request q;
	bool parts = prng_below(&w->prng, 2);
	int status;

	request_init(&q, &w->all->f, parts ? LARDER_OP_PUT_BEGIN : LARDER_OP_PUT, name);
	request_value(&q, key, key_length(key));
	status = worker_run(w, &q);
	w->puts++;
	if (status == LARDER_OK) {
		if (!q.op.present)
			object_write(q.op.object, key);
		if (prng_below(&w->prng, 5) == 0) {
			engine_abort(w->r, &q.op);
			return;
		}
		engine_commit(w->r, &q.op);
		status = q.op.status;
	}
	if (status == LARDER_CONFLICT)
		w->wrong = "a conflict, though all write the same";
}

static void worker_get(struct worker *w, uint32_t key, const char *name)
{
	struct request q;

	request_init(&q, &w->all->f, LARDER_OP_GET, name);
	q.op.flags = prng_below(&w->prng, 2) ? LARDER_F_WAIT : 0;
	if (worker_run(w, &q) != LARDER_OK)
		return;
	w->gets++;
	if (prng_below(&w->prng, 4) == 0)
		(void)engine_poll(w->r);
	if (!object_is(q.op.object, key))
		w->wrong = "wrong bytes";
	if (prng_below(&w->prng, 16) == 0 && engine_verify(w->r, q.op.object))
		w->wrong = "quarantined what is good";
	engine_unref(w->r, q.op.object);
}

static void worker_lease(struct worker *w, const char *name)
{
	struct request q;

	request_init(&q, &w->all->f, LARDER_OP_EXISTS, name);
	q.op.flags = LARDER_F_LEASE | (prng_below(&w->prng, 2) ? LARDER_F_WAIT : 0);
	q.op.lease_id = w->index * 16 + prng_below(&w->prng, 4);
	q.op.lease_ms = 60000;		/* longer than the clock runs */
	if (worker_run(w, &q) != LARDER_OK || q.key.presence != LARDER_LEASED)
		return;
	request_init(&q, &w->all->f, LARDER_OP_GET, name);
	if (engine_submit(w->r, &q.op) != 0 || q.op.status != LARDER_OK)
		w->wrong = "a leased object was not found";
	else
		engine_unref(w->r, q.op.object);
	request_init(&q, &w->all->f, LARDER_OP_RELEASE, "");
	q.op.n_keys = 0;
	for (uint32_t id = 0; id < 4; id++) {
		q.op.lease_id = w->index * 16 + id;
		(void)worker_run(w, &q);
	}
}

static bool count_entry(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	(*(uint32_t *)user)++;
	return true;
}

static void worker_other(struct worker *w, const char *name)
{
	struct request q;
	struct larder_stat st;
	uint32_t listed = 0;

	switch (prng_below(&w->prng, 8)) {
	case 0:
		request_init(&q, &w->all->f, LARDER_OP_LIST, "");
		q.op.n_keys = 0;
		q.op.max = 100;
		q.op.list = count_entry;
		q.op.list_user = &listed;
		(void)worker_run(w, &q);
		if (listed > KEYS)
			w->wrong = "listed more than there is";
		break;
	case 1:
		engine_forgive(w->all->f.engine, 1);
		break;
	case 2:
		request_init(&q, &w->all->f, LARDER_OP_NS_FLUSH, "");
		(void)worker_run(w, &q);
		break;
	case 3:
		request_init(&q, &w->all->f, LARDER_OP_STAT, name);
		q.op.stats = &st;
		(void)worker_run(w, &q);
		break;
	default:
		request_init(&q, &w->all->f, LARDER_OP_DELETE, name);
		(void)worker_run(w, &q);
	}
}

static void *worker_main(void *user)
{
	struct worker *w = user;

	for (uint32_t step = 0; step < w->all->steps && !w->wrong; step++) {
		uint32_t key = (uint32_t)prng_below(&w->prng, KEYS);
		char name[16];

		stress_clock(w);
		(void)snprintf(name, sizeof(name), "key%u", key);
		switch (prng_below(&w->prng, 10)) {
		case 0:
		case 1:
		case 2:
		case 3:
			worker_put(w, key, name);
			break;
		case 4:
		case 5:
		case 6:
			worker_get(w, key, name);
			break;
		case 7:
		case 8:
			worker_lease(w, name);
			break;
		default:
			worker_other(w, name);
		}
		if (engine_poll(w->r))
			w->wrong = "an op came back out of nowhere";
	}
	return NULL;
}

static void stress(const char *policy, uint32_t shards, uint32_t reserve)
{
	static struct worker workers[THREADS];
	struct stress all = { .steps = 1500 };
	uint64_t gets = 0, seed = 20 + shards;

	print_message("seed %llu\n", (unsigned long long)seed);
	all.f.config.policy = policy;
	all.f.config.shards = shards;
	all.f.config.reactors = THREADS;
	all.f.config.reserve_pages = reserve;
	all.f.config.scrub_bytes_per_s = 1ull << 40;	/* a look with every poll */
	fixture_open(&all.f, PAGES);
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .all = &all, .index = i,
					      .r = engine_reactor(all.f.engine, i) };
		prng_seed(&workers[i].prng, seed * 100 + i);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_main,
						&workers[i]), 0);
	for (uint32_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		if (workers[i].wrong)
			fail_msg("thread %u: %s", i, workers[i].wrong);
		gets += workers[i].gets;
	}
	assert_true(gets > 100);
	assert_true(counts(&all.f).evictions > 10);
	assert_true(counts(&all.f).scrubbed_bytes > 0);
	assert_int_equal(all.f.ledger->node->quarantined, 0);
	/* and what the file says is what the index said */
	fixture_restart(&all.f);
	fixture_close(&all.f);
}

static void stress__lru_one_shard(void **state)
{
	stress("lru", 1, 0);
}

static void stress__lru_many_shards_with_reserve(void **state)
{
	stress("lru", 16, 4);
}

static void stress__fifo(void **state)
{
	stress("fifo", 4, 0);
}

static void stress__aseg_with_reserve(void **state)
{
	stress("aseg", 8, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stress__lru_one_shard),
		cmocka_unit_test(stress__lru_many_shards_with_reserve),
		cmocka_unit_test(stress__fifo),
		cmocka_unit_test(stress__aseg_with_reserve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
