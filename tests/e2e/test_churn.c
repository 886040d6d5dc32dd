/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that is used without end does not grow (kvcache-ai/Mooncake#834, #3452): clients come, go
 * and are killed; namespaces are made and flushed; values are put whole and in parts, read, leased,
 * evicted and deleted; strangers talk nonsense. After a warm-up and at the end everybody leaves:
 * the node's memory is within 5 %, its descriptors, threads and mappings are as many as before.
 *
 *	SOAK_SECONDS=60		how long (8 under a sanitizer, where memory is not compared: a
 *				sanitizer keeps what was freed); make soak: an hour
 *	LARDER_SEED=N		what is done; when it is done is the machine's to choose
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "raw.h"
#include "usage.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SECONDS 8
#define COMPARE_MEMORY false
#else
#define SECONDS 60
#define COMPARE_MEMORY true
#endif

#define WORKERS 7u		/* the last one is the stranger */
#define VALUE_MAX (1u << 20)
#define SPACES 96u
#define KEYS 4000u
#define EVICTIONS_KEPT 65536	/* that the node remembers, engine/engine_history.c */

struct shared {
	bool pause, stop;			/* atomic */
	bool quiet[WORKERS];			/* atomic: its handles are closed */
	uint64_t opened, operations, flushes, leases, parts, nonsense;	/* atomic */
};

static struct node node;
static struct shared *shared;
static pid_t pids[WORKERS];
static uint64_t seed;

struct worker {
	unsigned index;
	uint64_t random;
	struct larder_client *c;
	struct larder_region *region;
	uint8_t *memory;
	uint32_t ns;
};

static uint64_t rnd(uint64_t *state, uint64_t below)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (z ^ (z >> 31)) % below;
}

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static bool flag(const bool *f)
{
	return __atomic_load_n(f, __ATOMIC_ACQUIRE);
}

/* --- a worker -------------------------------------------------------------------------------- */

static bool worker_space(struct worker *w)
{
	char name[64];

	snprintf(name, sizeof(name), "churn-%u@r%u", (unsigned)rnd(&w->random, SPACES),
		 w->index % 2);
	return larder_ns_open(w->c, name, NULL, LARDER_NS_CREATE, 5000, &w->ns) == LARDER_OK;
}

static bool worker_open(struct worker *w)
{
	struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;
	char url[400];

	if (w->index % 2)
		snprintf(url, sizeof(url), "shm://%s", node.socket);
	else
		snprintf(url, sizeof(url), "tcp://127.0.0.1:%d", node.port);
	o.url = url;
	o.tenant = "demo";
	o.secret = node.secret;
	o.secret_len = strlen(node.secret);
	o.bounce_bytes = 4u << 20;
	count(&shared->opened);
	if (larder_open(&o, &w->c) || !worker_space(w))
		return false;
	if (w->index % 2 && rnd(&w->random, 2) &&
	    larder_region_alloc(w->c, VALUE_MAX, 0, &w->region) == 0)
		w->memory = larder_region_addr(w->region);
	else
		w->memory = malloc(VALUE_MAX);
	return w->memory != NULL;
}

static void worker_close(struct worker *w)
{
	if (w->region)
		(void)larder_region_free(w->region);
	else
		free(w->memory);
	larder_close(w->c);
	w->region = NULL;
	w->memory = NULL;
	w->c = NULL;
}

/* Length and bytes belong to the key, so every reader can tell. */
static uint64_t value_length(unsigned key)
{
	uint64_t state = key;

	return 1 + rnd(&state, 1ull << (1 + key % 20));
}

static int worker_parts(struct worker *w, const char *key, uint64_t length)
{
	struct larder_put_stream *s;
	int r = larder_put_begin(w->c, w->ns, key, strlen(key), length, 5000, &s);

	if (r)
		return r;
	count(&shared->parts);
	r = larder_put_part(s, 0, w->memory, length / 2 + 1);
	if (r || rnd(&w->random, 3) == 0) {
		(void)larder_put_abort(s);	/* what the node holds of it ends with it */
		return r;
	}
	if (length / 2 + 1 < length)
		r = larder_put_part(s, length / 2 + 1, w->memory + length / 2 + 1,
				    length - length / 2 - 1);
	if (r == LARDER_OK)
		return larder_put_commit(s);
	(void)larder_put_abort(s);
	return r;
}

static int worker_lease(struct worker *w, const char *key)
{
	struct larder_item item = { .key = key, .key_len = strlen(key) };
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .ns = w->ns, .flags = LARDER_F_LEASE,
				  .lease_id = w->random | 1, .lease_ms = 200, .deadline_ms = 5000,
				  .items = &item, .n_items = 1 };
	int r = larder_run(w->c, &b);

	count(&shared->leases);
	if (rnd(&w->random, 2))
		return r;
	b.opcode = LARDER_OP_RELEASE;
	b.flags = 0;
	return larder_run(w->c, &b);
}

static bool seen(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	return true;
}

static int worker_operation(struct worker *w)
{
	unsigned k = (unsigned)rnd(&w->random, KEYS), dice = (unsigned)rnd(&w->random, 100);
	uint64_t length = value_length(k), cursor = 0;
	size_t got = 0;
	char key[200];
	int r;

	/* some take overflow records */
	snprintf(key, sizeof(key), "%u-%0*u", k, k % 10 ? 1 : 170, k);
	if (dice < 40 || dice >= 96)
		pattern_fill(w->memory, length, k);
	if (dice < 40)
		return larder_put(w->c, w->ns, key, strlen(key), w->memory, length, 5000);
	if (dice < 75) {
		r = larder_get(w->c, w->ns, key, strlen(key), w->memory, VALUE_MAX, &got, 5000);
		if (r == LARDER_OK && (got != length || pattern_check(w->memory, got, k) >= 0))
			return LARDER_CHECKSUM;
		return r;
	}
	if (dice < 85)
		return larder_delete(w->c, w->ns, key, strlen(key), dice % 2 ? LARDER_F_FORCE : 0,
				     5000);
	if (dice < 92)
		return worker_lease(w, key);
	if (dice < 94)
		return larder_list(w->c, w->ns, NULL, 0, &cursor, 100, seen, NULL, 5000);
	if (dice < 95)
		return worker_space(w) ? LARDER_OK : LARDER_INTERNAL;
	if (dice < 96) {
		count(&shared->flushes);
		return larder_ns_flush(w->c, w->ns, false, 5000, NULL, NULL);
	}
	return worker_parts(w, key, length);
}

/* What may come of it beside other workers; never bytes that differ, never a fault. */
static bool is_fair(int r)
{
	return r == LARDER_OK || r == LARDER_EXISTS_SAME || r == LARDER_NOT_FOUND ||
	       r == LARDER_BUSY || r == LARDER_FILL || r == LARDER_NO_SPACE;
}

/* --- the stranger: connections that end in every wrong way ----------------------------------- */

static void stranger_call(uint64_t *random)
{
	uint8_t bytes[WIRE_MESSAGE_MAX];
	struct raw r;
	int len;

	raw_connect(&r, &node);
	count(&shared->nonsense);
	switch (rnd(random, 4)) {
	case 0:		/* nothing, or something else */
		for (unsigned i = 0; i < 100; i++)
			bytes[i] = (uint8_t)rnd(random, 256);
		(void)raw_send(&r, bytes, rnd(random, 100));
		break;
	case 1:
		(void)raw_handshake(&r, "demo", "not the secret");
		break;
	case 2:		/* half a value */
		if (raw_handshake(&r, "demo", node.secret))
			break;
		memset(bytes, 0, sizeof(bytes));
		len = raw_put_message(bytes, 9, raw_namespace(&r, "churn-0@r0"), "half", bytes,
				      9000);
		(void)raw_send(&r, bytes, (size_t)len);
		(void)raw_send(&r, bytes, 4000);
		break;
	default:	/* asks, and does not listen */
		if (raw_handshake(&r, "demo", node.secret))
			break;
		len = raw_get_message(bytes, 9, raw_namespace(&r, "churn-0@r0"), "none", VALUE_MAX);
		(void)raw_send(&r, bytes, (size_t)len);
	}
	raw_close(&r);
}

static void rest_while_paused(unsigned index)
{
	__atomic_store_n(&shared->quiet[index], true, __ATOMIC_RELEASE);
	while (flag(&shared->pause) && !flag(&shared->stop))
		sleep_ms(2);
	__atomic_store_n(&shared->quiet[index], false, __ATOMIC_RELEASE);
}

static int worker_main(unsigned index)
{
	struct worker w = { .index = index, .random = seed + (uint64_t)getpid() * 7919 + index };

	while (!flag(&shared->stop)) {
		unsigned n = 1 + (unsigned)rnd(&w.random, 400);

		if (flag(&shared->pause)) {
			rest_while_paused(index);
			continue;
		}
		if (index == WORKERS - 1) {
			stranger_call(&w.random);
			sleep_ms(3);
			continue;
		}
		if (!worker_open(&w)) {
			fprintf(stderr, "worker %u: open: %s\n", index, larder_last_error());
			return 1;
		}
		for (; n && !flag(&shared->pause) && !flag(&shared->stop); n--) {
			int r = worker_operation(&w);

			count(&shared->operations);
			if (is_fair(r))
				continue;
			fprintf(stderr, "worker %u: %s: %s\n", index, r < 0 ? strerror(-r) :
				larder_status_name(r), larder_last_error());
			return 1;
		}
		worker_close(&w);
	}
	return 0;
}

/* --- the test -------------------------------------------------------------------------------- */

static void spawn(unsigned i)
{
	__atomic_store_n(&shared->quiet[i], false, __ATOMIC_RELEASE);
	pids[i] = fork();
	assert_true(pids[i] >= 0);
	if (pids[i] == 0)
		_exit(worker_main(i));
}

static void workers_are_content(void)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		int status;

		if (waitpid(pids[i], &status, WNOHANG) != pids[i])
			continue;
		pids[i] = 0;
		fail_msg("worker %u ended (status %x): see above", i, (unsigned)status);
	}
}

static void kill_one(unsigned i)
{
	assert_int_equal(kill(pids[i], SIGKILL), 0);
	assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	spawn(i);
}

/* Everybody leaves; what the node is then. */
static struct usage quiet_usage(void)
{
	uint64_t limit = now_ms() + 60000;
	struct usage u;

	__atomic_store_n(&shared->pause, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < WORKERS; i++)
		while (!flag(&shared->quiet[i])) {
			workers_are_content();
			assert_true(now_ms() < limit);
			sleep_ms(2);
		}
	assert_int_equal(node_stat_wait(&node, "connections", "connections", 0), 0);
	assert_int_equal(node_stat_wait(&node, "connections", "unauthenticated", 0), 0);
	assert_int_equal(node_stat_wait(&node, "connections", "regions", 0), 0);
	assert_int_equal(node_stat_wait(&node, "objects", "references", 0), 0);
	assert_int_equal(node_stat_wait(&node, "objects", "filling", 0), 0);
	assert_int_equal(node_stat_wait(&node, "objects", "leases", 0), 0);
	u = usage_settled(node.pid);
	__atomic_store_n(&shared->pause, false, __ATOMIC_RELEASE);
	return u;
}

static void say(const char *when, const struct usage *u)
{
	print_message("%s: anon %" PRIu64 " KiB, file %" PRIu64 " KiB, shared %" PRIu64 " KiB; %u "
		      "descriptors, %u mappings, %u threads; %" PRIu64 " operations, %" PRIu64
		      " opened, %" PRId64 " evictions\n", when, u->anon_kib, u->file_kib,
		      u->shared_kib, u->fds, u->mappings, u->threads, shared->operations,
		      shared->opened, node_stat(&node, "objects", "evictions"));
	fflush(stdout);
}

static void churn(unsigned seconds)
{
	uint64_t end = now_ms() + seconds * 1000ull, minute = now_ms() + 60000, random = seed;

	while (now_ms() < end) {
		struct usage u;

		workers_are_content();
		sleep_ms(100 + (unsigned)rnd(&random, 500));
		kill_one((unsigned)rnd(&random, WORKERS));
		if (now_ms() < minute)
			continue;
		minute += 60000;
		u = usage_of(node.pid);
		say("at work", &u);
	}
}

static void assert_within_5_percent(const char *what, uint64_t before, uint64_t after)
{
	if (after > before + before / 20)
		fail_msg("%s grew from %" PRIu64 " to %" PRIu64 " KiB", what, before, after);
}

static void mooncake_834_3452_an_hour_of_churn__memory_is_flat(void **state)
{
	const char *text = getenv("SOAK_SECONDS");
	unsigned seconds = text ? (unsigned)atoi(text) : SECONDS;
	uint64_t limit = now_ms() + (seconds + 120) * 1000ull;
	struct usage before, after;

	assert_true(seconds >= 4);
	for (unsigned i = 0; i < WORKERS; i++)
		spawn(i);
	churn(seconds / 3 < 60 ? seconds / 3 : 60);
	/* tables that are touched as they fill up: the longest is the record of last evictions */
	while (COMPARE_MEMORY &&
	       node_stat(&node, "objects", "evictions") < EVICTIONS_KEPT * 3 / 2) {
		assert_true(now_ms() < limit);
		churn(1);
	}
	before = quiet_usage();
	say("warm", &before);
	churn(seconds - (seconds / 3 < 60 ? seconds / 3 : 60));
	after = quiet_usage();
	say("at the end", &after);
	if (COMPARE_MEMORY) {
		assert_within_5_percent("anonymous memory", before.anon_kib, after.anon_kib);
		assert_within_5_percent("memory of files", before.file_kib, after.file_kib);
		assert_within_5_percent("shared memory", before.shared_kib, after.shared_kib);
		assert_true(after.mappings <= before.mappings + 2);	/* parts of the heap */
	}
	assert_int_equal(after.fds, before.fds);
	assert_int_equal(after.threads, before.threads);
	/* it was about something */
	assert_true(node_stat(&node, "objects", "evictions") > 200);
	assert_true(shared->opened > 20 && shared->flushes > 20 && shared->leases > 100 &&
		    shared->parts > 50 && shared->nonsense > 100);
}

static int setup(void **state)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_int_equal(getrandom(&seed, sizeof(seed), 0), sizeof(seed));
	if (getenv("LARDER_SEED"))
		seed = strtoull(getenv("LARDER_SEED"), NULL, 0);
	print_message("LARDER_SEED=%" PRIu64 " BIN=%s %s\n", seed, getenv("BIN"),
		      program_invocation_name);
	node_setup(&node, "[node]\nreactors = 2\n[memory]\npage_size = 16K\n"
			  "[engine]\nlease_max = 5000\n");
	node_start(&node);
	return 0;
}

static int teardown(void **state)
{
	__atomic_store_n(&shared->stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < WORKERS; i++)
		if (pids[i] > 0) {
			(void)kill(pids[i], SIGKILL);
			(void)waitpid(pids[i], NULL, 0);
		}
	node_stop(&node);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mooncake_834_3452_an_hour_of_churn__memory_is_flat),
	};
	int r = cmocka_run_group_tests(tests, setup, teardown);

	node_cleanup(&node);
	return r;
}
