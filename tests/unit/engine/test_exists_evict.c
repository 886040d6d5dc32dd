/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EXISTS beside a writer that evicts at full speed: one thread looks up batches of 1,000 keys, the
 * other puts new keys into full memory as fast as it can, in turns with windows in which it rests.
 * The goal is a p99 of at most twice that of rest; asserted is twice that, and one line of JSON
 * tells the figures.
 *
 * A lock that makes EXISTS wait costs processor time while it spins and a sleep after that. Both
 * are counted for the looking thread alone. What else runs on the machine takes caches and leaves a
 * holder of a lock without its processor: that only adds, so of a few runs the best is held to the
 * bound. A cause in the code is in each of them.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "fixture.h"

#include "base/prng.h"

enum {
#ifdef __SANITIZE_THREAD__
	OBJECTS = 1 << 11, WINDOW = 20, PAIRS = 2,	/* for the races alone */
#elif defined(__SANITIZE_ADDRESS__)
	OBJECTS = 1 << 13, WINDOW = 100, PAIRS = 3,
#else
	OBJECTS = 1 << 15, WINDOW = 200, PAIRS = 15,
#endif
	SHARDS = 64, BATCH = 1000, KEY = 16, ATTEMPTS = 5,
};

struct bench {
	struct fixture f;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool run, stop, failed;		/* guarded by the lock; run and stop also atomic */
	uint64_t written;		/* atomic */
	uint64_t busy_puts, sleeps[2];
	struct prng prng;
	uint64_t cpu[2][PAIRS], wall[2][PAIRS], median[2][PAIRS];
	double ratio[PAIRS];		/* of the 99th percentiles of a pair */
};

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	(void)clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static uint64_t thread_sleeps(void)
{
	struct rusage u;

	return getrusage(RUSAGE_THREAD, &u) ? 0 : (uint64_t)u.ru_nvcsw;
}

/* The n-th key ever written. */
static void key_make(uint8_t *key, uint64_t n)
{
	struct prng p;

	prng_seed(&p, n);
	for (unsigned at = 0; at < KEY; at += 8) {
		uint64_t x = prng_next(&p);

		memcpy(key + at, &x, sizeof(x));
	}
}

/* No byte of a value is written: it is the engine's locks that are looked for. */
static bool bench_put(struct bench *b, struct engine_reactor *r)
{
	const uint32_t check = 0;
	uint8_t bytes[KEY];
	struct larder_op_key key = { .key = bytes, .key_len = KEY };
	struct larder_op op = { .opcode = LARDER_OP_PUT, .tenant = b->f.tenant, .ns = b->f.ns,
				.keys = &key, .n_keys = 1, .length = FIXTURE_PAGE,
				.checks = &check, .n_checks = 1 };

	key_make(bytes, b->written);
	if (engine_submit(r, &op))
		while (!engine_poll(r))
			(void)sched_yield();
	if (op.status != LARDER_OK)
		return false;
	engine_commit(r, &op);
	__atomic_store_n(&b->written, b->written + 1, __ATOMIC_RELAXED);
	return engine_poll(r) == NULL;
}

static void *writer_run(void *arg)
{
	struct bench *b = arg;
	struct engine_reactor *r = engine_reactor(b->f.engine, 1);
	bool failed = false;

	pthread_mutex_lock(&b->lock);
	while (!b->stop) {
		if (!b->run) {
			pthread_cond_wait(&b->changed, &b->lock);
			continue;
		}
		pthread_mutex_unlock(&b->lock);
		while (__atomic_load_n(&b->run, __ATOMIC_RELAXED) && !failed)
			failed = !bench_put(b, r);
		pthread_mutex_lock(&b->lock);
		b->failed |= failed;
		b->stop |= failed;
	}
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

static void writer_set(struct bench *b, bool run, bool stop)
{
	pthread_mutex_lock(&b->lock);
	__atomic_store_n(&b->run, run, __ATOMIC_RELAXED);
	b->stop |= stop;
	pthread_cond_signal(&b->changed);
	pthread_mutex_unlock(&b->lock);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t nth(uint64_t *v, size_t n, size_t of_100)
{
	qsort(v, n, sizeof(v[0]), compare_u64);
	return v[MIN(n - 1, n * of_100 / 100)];
}

/* Some present, some evicted: the last twice as many as there is room for. */
static void bench_window(struct bench *b, uint32_t pair, bool busy)
{
	static uint8_t bytes[BATCH][KEY];
	static struct larder_op_key keys[BATCH];
	static uint64_t cpu[WINDOW], wall[WINDOW];
	uint64_t sleeps = 0;

	for (uint32_t n = 0; n < WINDOW; n++) {
		uint64_t end = __atomic_load_n(&b->written, __ATOMIC_RELAXED), slept;
		struct larder_op op = { .opcode = LARDER_OP_EXISTS, .tenant = b->f.tenant,
					.ns = b->f.ns, .keys = keys, .n_keys = BATCH };

		for (uint32_t i = 0; i < BATCH; i++) {
			key_make(bytes[i], end - 1 - prng_below(&b->prng, 2 * OBJECTS));
			keys[i] = (struct larder_op_key){ .key = bytes[i], .key_len = KEY };
		}
		slept = thread_sleeps();
		wall[n] = clock_ns(CLOCK_MONOTONIC);
		cpu[n] = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		assert_int_equal(engine_submit(b->f.r, &op), 0);
		cpu[n] = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu[n];
		wall[n] = clock_ns(CLOCK_MONOTONIC) - wall[n];
		sleeps += thread_sleeps() - slept;
	}
	b->sleeps[busy] += sleeps;
	b->median[busy][pair] = nth(cpu, WINDOW, 50);
	b->cpu[busy][pair] = nth(cpu, WINDOW, 99);
	b->wall[busy][pair] = nth(wall, WINDOW, 99);
}

static void bench_run(struct bench *b)
{
	b->f.config = (struct engine_config){ .shards = SHARDS, .reactors = 2, .policy = "aseg",
					      .reserve_pages = OBJECTS / 128 };
	fixture_open(&b->f, OBJECTS);
	prng_seed(&b->prng, 1);
	assert_int_equal(pthread_mutex_init(&b->lock, NULL), 0);
	assert_int_equal(pthread_cond_init(&b->changed, NULL), 0);
	while (b->written < 3 * OBJECTS)
		assert_true(bench_put(b, engine_reactor(b->f.engine, 1)));
	assert_int_equal(pthread_create(&b->thread, NULL, writer_run, b), 0);
	for (uint32_t pair = 0; pair < PAIRS; pair++) {
		uint64_t before;

		writer_set(b, false, false);
		bench_window(b, pair, false);
		before = __atomic_load_n(&b->written, __ATOMIC_RELAXED);
		writer_set(b, true, false);
		while (__atomic_load_n(&b->written, __ATOMIC_RELAXED) == before)
			(void)sched_yield();	/* it is at work when the window begins */
		bench_window(b, pair, true);
		b->ratio[pair] = (double)b->cpu[1][pair] / (double)b->cpu[0][pair];
		b->busy_puts += __atomic_load_n(&b->written, __ATOMIC_RELAXED) - before;
	}
	writer_set(b, false, true);
	assert_int_equal(pthread_join(b->thread, NULL), 0);
	assert_false(b->failed);
	assert_true(counts(&b->f).evictions >= OBJECTS);
	fixture_close(&b->f);
	(void)pthread_cond_destroy(&b->changed);
	(void)pthread_mutex_destroy(&b->lock);
}

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double ratio(struct bench *b)
{
	qsort(b->ratio, PAIRS, sizeof(b->ratio[0]), compare_double);
	return b->ratio[PAIRS / 2];
}

static double us(uint64_t *v)
{
	return (double)nth(v, PAIRS, 50) / 1000;
}

static void bench_tell(struct bench *b)
{
	print_message("{\"bench\":\"exists_evict\",\"batch\":%u,\"puts_per_busy_batch\":%.0f,"
		      "\"idle_p50_us\":%.1f,\"busy_p50_us\":%.1f,"
		      "\"idle_p99_us\":%.1f,\"busy_p99_us\":%.1f,\"ratio\":%.2f,"
		      "\"idle_p99_wall_us\":%.1f,\"busy_p99_wall_us\":%.1f,"
		      "\"sleeps_per_1000_batches\":[%.1f,%.1f]}\n", BATCH,
		      (double)b->busy_puts / (PAIRS * WINDOW), us(b->median[0]), us(b->median[1]),
		      us(b->cpu[0]), us(b->cpu[1]), ratio(b), us(b->wall[0]), us(b->wall[1]),
		      1000.0 * (double)b->sleeps[0] / (PAIRS * WINDOW),
		      1000.0 * (double)b->sleeps[1] / (PAIRS * WINDOW));
}

static bool bench_holds(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	bench_run(b);
	bench_tell(b);
#ifdef __SANITIZE_THREAD__
	return true;
#endif
	assert_true(b->busy_puts > 0);
#ifdef __SANITIZE_ADDRESS__
	return true;
#endif
	/* hardly a lock is held so long that it sleeps: a holder that lost its processor */
	return ratio(b) <= 4 && b->busy_puts > PAIRS * WINDOW && b->sleeps[1] <= PAIRS * WINDOW / 4;
}

static void exists__under_full_eviction_at_most_twice_idle(void **state)
{
	static struct bench b;

	for (unsigned i = 0; i < ATTEMPTS; i++)
		if (bench_holds(&b))
			return;
	fail_msg("EXISTS waits for a writer that evicts");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exists__under_full_eviction_at_most_twice_idle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
