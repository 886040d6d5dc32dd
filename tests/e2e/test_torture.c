/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 of the node, again and again, under load from several processes with memory to spare, at
 * random moments, also while it starts; now and then of a client, too. No wrong byte, no lost
 * acknowledged object, no deleted one back, leases kept; at the end every page and record is free.
 *
 * What may be changed, by the environment:
 *
 *	LARDER_KILLS=100	kills of the node (8 under a sanitizer)
 *	LARDER_CLIENTS=4	client processes, tcp and shm in turn; at most 64
 *	LARDER_KEYS=96		keys of each client; at most 4096
 *	LARDER_SIZES=1-4M	lengths of values; small and large ones alike, by powers of two
 *	LARDER_MEMORY=256M	value memory; clients use half of it at most, so nothing is evicted
 *	LARDER_PAGE=64K		page size
 *	LARDER_REACTORS=2	threads of the node
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

#include "torture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KILLS 8
#else
#define KILLS 100
#endif

static struct node node;
static struct torture *t;
static uint64_t random_state;
static pid_t pids[TORTURE_CLIENTS_MAX];
static unsigned starts_interrupted, clients_killed;
static uint64_t slowest_start_ms, start_ms;

static uint64_t rnd(uint64_t below)
{
	random_state += 0x9e3779b97f4a7c15ull;
	return torture_mix(random_state, 3, 4) % below;
}

static uint64_t size_of(const char *text, char **end)
{
	uint64_t n = strtoull(text, end, 10);

	if (**end == 'K' || **end == 'M' || **end == 'G')
		n <<= **end == 'K' ? 10 : **end == 'M' ? 20 : 30, (*end)++;
	return n;
}

static uint64_t setting(const char *name, const char *otherwise, uint64_t min, uint64_t max)
{
	const char *text = getenv(name) ? getenv(name) : otherwise;
	char *end;
	uint64_t n = size_of(text, &end);

	if (*end || n < min || n > max) {
		fprintf(stderr, "%s=%s: from %" PRIu64 " to %" PRIu64 "\n", name, text, min, max);
		exit(2);
	}
	return n;
}

static void read_settings(struct torture_settings *s)
{
	const char *sizes = getenv("LARDER_SIZES") ? getenv("LARDER_SIZES") : "1-4M";
	char *end, kills[16];
	uint64_t fair;

	snprintf(kills, sizeof(kills), "%d", KILLS);
	if (getrandom(&s->seed, sizeof(s->seed), 0) != sizeof(s->seed))
		exit(2);
	if (getenv("LARDER_SEED"))
		s->seed = strtoull(getenv("LARDER_SEED"), NULL, 0);
	s->kills = (unsigned)setting("LARDER_KILLS", kills, 1, 1000000);
	s->clients = (unsigned)setting("LARDER_CLIENTS", "4", 1, TORTURE_CLIENTS_MAX);
	s->keys = (unsigned)setting("LARDER_KEYS", "96", 2, TORTURE_KEYS_MAX);
	s->memory = setting("LARDER_MEMORY", "256M", 1 << 20, 1ull << 40);
	s->page = setting("LARDER_PAGE", "64K", 4096, TORTURE_PAGE_MAX);
	s->reactors = (unsigned)setting("LARDER_REACTORS", "2", 1, 64);
	s->length_min = size_of(sizes, &end);
	s->length_max = *end == '-' ? size_of(end + 1, &end) : 0;
	if (*end || s->length_min < 1 || s->length_max < s->length_min) {
		fprintf(stderr, "LARDER_SIZES=%s: wanted is MIN-MAX\n", sizes);
		exit(2);
	}
	/* a client has at least eight of the largest */
	fair = s->memory / 2 / s->clients / 8;
	if (s->length_max > fair) {
		fprintf(stderr, "LARDER_SIZES=%s: with this memory and number of clients a value "
			"may have %" PRIu64 " bytes at most\n", sizes, fair);
		exit(2);
	}
}

static void print_settings(FILE *f)
{
	const struct torture_settings *s = &t->s;

	fprintf(f, "LARDER_SEED=%" PRIu64 " LARDER_KILLS=%u LARDER_CLIENTS=%u LARDER_KEYS=%u "
		"LARDER_SIZES=%" PRIu64 "-%" PRIu64 " LARDER_MEMORY=%" PRIu64 " LARDER_PAGE=%"
		PRIu64 " LARDER_REACTORS=%u BIN=%s %s\n", s->seed, s->kills, s->clients, s->keys,
		s->length_min, s->length_max, s->memory, s->page, s->reactors, getenv("BIN"),
		program_invocation_name);
}

/* --- clients --------------------------------------------------------------------------------- */

static void client_spawn(unsigned i)
{
	uint64_t seed = torture_mix(t->s.seed, i, rnd(UINT64_MAX));

	pids[i] = fork();
	assert_true(pids[i] >= 0);
	if (pids[i] == 0)
		_exit(torture_client(t, i, seed));
}

/* None has ended by itself: that would be because of what it saw. */
static void clients_are_content(void)
{
	for (unsigned i = 0; i < t->s.clients; i++) {
		int status;
		pid_t r = waitpid(pids[i], &status, WNOHANG);

		if (r == 0)
			continue;
		pids[i] = 0;
		fail_msg("client %u ended (status %x): see above", i, (unsigned)status);
	}
}

static void client_kill(unsigned i)
{
	int status;

	assert_int_equal(kill(pids[i], SIGKILL), 0);
	assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
	assert_true(WIFSIGNALED(status));	/* it had not ended by itself */
	clients_killed++;
	client_spawn(i);
}

static uint64_t changes(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < t->s.clients; i++)
		n += __atomic_load_n(&t->counts[i].acknowledged, __ATOMIC_RELAXED);
	return n;
}

/* --- the node -------------------------------------------------------------------------------- */

static void killed(void)
{
	node_kill(&node);
	__atomic_fetch_add(&t->generation, 1, __ATOMIC_ACQ_REL);
}

static void sleep_us(uint64_t us)
{
	usleep((useconds_t)us);
}

/* Some acknowledged changes later, and at a random moment after that. */
static void under_load(void)
{
	uint64_t want = changes() + 30 + rnd(500), limit = now_ms() + 20000;

	while (changes() < want) {
		clients_are_content();
		if (now_ms() > limit)
			fail_msg("the clients came to a stop");
		sleep_ms(1);
	}
	sleep_us(rnd(20000));
}

static void start_again(void)
{
	uint64_t from;

	while (rnd(4) == 0) {	/* killed while it starts */
		node_launch(&node);
		sleep_us(rnd(1000 * (start_ms + 5)));
		killed();
		starts_interrupted++;
	}
	from = now_ms();
	node_start(&node);
	start_ms = now_ms() - from;
	assert_true(start_ms < 5000);
	slowest_start_ms = start_ms > slowest_start_ms ? start_ms : slowest_start_ms;
	assert_int_equal(node_stat(&node, "objects", "dropped_records"), 0);
}

static void clients_stop(void)
{
	__atomic_store_n(&t->stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < t->s.clients; i++) {
		uint64_t limit = now_ms() + 30000;
		int status = -1;

		while (waitpid(pids[i], &status, WNOHANG) == 0 && now_ms() < limit)
			sleep_ms(2);
		if (status != 0)
			fail_msg("client %u did not end well (status %x)", i, (unsigned)status);
		pids[i] = 0;
	}
}

static bool count_key(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	(*(uint64_t *)user)++;
	return true;
}

static uint64_t keys_listed(struct torture_handle *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < TORTURE_SPACES; i++) {
		uint64_t cursor = 0;

		do {
			assert_int_equal(larder_list(h->client, h->ns[i], NULL, 0, &cursor, 1000,
						     count_key, &n, 5000), LARDER_OK);
		} while (cursor);
	}
	return n;
}

static void delete_all(struct torture_handle *h)
{
	for (unsigned i = 0; i < t->s.clients; i++)
		for (unsigned k = 0; k < t->s.keys; k++) {
			char name[1024];
			size_t len = torture_name(t, i, k, name);
			int r = larder_delete(h->client, h->ns[torture_space(k)], name, len,
					      LARDER_F_FORCE, 5000);

			assert_int_equal(r, t->key[i][k].may_be_there ? LARDER_OK
								      : LARDER_NOT_FOUND);
		}
}

static void all_is_free(int64_t pages_free, int64_t records_free)
{
	assert_int_equal(node_stat_wait(&node, "memory", "pages_free", pages_free), pages_free);
	assert_int_equal(node_stat(&node, "memory", "records_free"), records_free);
	assert_int_equal(node_stat(&node, "objects", "objects"), 0);
	/* those of objects that were deleted by force end by their time */
	assert_int_equal(node_stat_wait(&node, "objects", "leases", 0), 0);
	assert_int_equal(node_stat(&node, "objects", "filling"), 0);
	assert_int_equal(node_stat(&node, "objects", "references"), 0);
	assert_int_equal(node_stat(&node, "objects", "evictions"), 0);
	assert_int_equal(node_stat(&node, "objects", "quarantined"), 0);
}

static void print_sums(uint64_t from_ms)
{
	struct torture_counts sum = { 0 };

	for (unsigned i = 0; i < t->s.clients; i++)
		for (unsigned k = 0; k < sizeof(sum) / sizeof(uint64_t); k++)
			((uint64_t *)&sum)[k] += ((uint64_t *)&t->counts[i])[k];
	print_message("%u kills of the node (%u while it started), %u of clients, in %u s; slowest "
		      "start %u ms\n", (unsigned)t->generation, starts_interrupted, clients_killed,
		      (unsigned)((now_ms() - from_ms) / 1000), (unsigned)slowest_start_ms);
	print_message("changes acknowledged %" PRIu64 ", answers lost %" PRIu64 ", values compared "
		      "%" PRIu64 ", overwrites refused %" PRIu64 ", leases %" PRIu64 " (deletes "
		      "refused %" PRIu64 "), all keys looked at %" PRIu64 " times\n",
		      sum.acknowledged, sum.lost, sum.reads, sum.conflicts, sum.leases,
		      sum.refused_deletes, sum.sweeps);
}

/* kvcache-ai/Mooncake#935, #3048, #1336, #1871 */
static void kill_9_a_hundred_times_under_load__nothing_lost_wrong_or_back(void **state)
{
	int64_t pages_free = node_stat(&node, "memory", "pages_free"), records_free;
	uint64_t from_ms = now_ms();
	struct torture_handle h;

	records_free = node_stat(&node, "memory", "records_free");
	for (unsigned i = 0; i < t->s.clients; i++)
		client_spawn(i);
	while (t->generation < t->s.kills) {
		under_load();
		if (rnd(5) == 0)
			client_kill((unsigned)rnd(t->s.clients));
		assert_int_equal(node_stat(&node, "objects", "evictions"), 0);
		killed();
		start_again();
	}
	clients_stop();
	assert_true(torture_open(t, &h, NODE_SHM, t->s.length_max + 65536, false));
	for (unsigned i = 0; i < t->s.clients; i++) {
		assert_true(torture_sweep(t, &h, i));
		for (unsigned k = 0; k < t->s.keys; k++)
			assert_true(t->key[i][k].may_be_there + t->key[i][k].may_be_absent == 1 ||
				    t->key[i][k].change);
	}
	print_sums(from_ms);
	/* whatever the last answers that were lost would still do is over after one more */
	torture_close(&h);
	killed();
	node_start(&node);
	assert_true(torture_open(t, &h, NODE_SHM, t->s.length_max + 65536, false));
	for (unsigned i = 0; i < t->s.clients; i++)
		assert_true(torture_sweep(t, &h, i));
	delete_all(&h);
	assert_int_equal(keys_listed(&h), 0);
	torture_close(&h);
	all_is_free(pages_free, records_free);
	killed();
	node_start(&node);
	all_is_free(pages_free, records_free);
	assert_int_equal(node_stat(&node, "objects", "rebuilt"), 0);
}

/* The very first start, too: memory that is half made is made again, not refused. */
static void kill_9_in_the_first_start__the_next_one_serves(void **state)
{
	struct node fresh;

	node_setup(&fresh, "[memory]\nsize = 64M\n");
	for (unsigned i = 0; i < 12; i++) {
		node_launch(&fresh);
		sleep_us(rnd(60000));
		node_kill(&fresh);
	}
	node_start(&fresh);
	assert_int_equal(node_stat(&fresh, "memory", "pages_free"), 1024);
	node_stop(&fresh);
	node_cleanup(&fresh);
}

static int setup(void **state)
{
	char extra[256];

	t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(t, MAP_FAILED);
	read_settings(&t->s);
	print_settings(stdout);
	random_state = t->s.seed;
	t->node = &node;
	for (unsigned i = 0; i < t->s.clients; i++)
		for (unsigned k = 0; k < t->s.keys; k++)
			t->key[i][k].may_be_absent = 1;
	snprintf(extra, sizeof(extra), "[memory]\nsize = %" PRIu64 "\npage_size = %" PRIu64
		 "\n[node]\nreactors = %u\nmax_unauthenticated = 256\n", t->s.memory, t->s.page,
		 t->s.reactors);
	node_setup(&node, extra);
	node_start(&node);
	return 0;
}

static int teardown(void **state)
{
	for (unsigned i = 0; i < TORTURE_CLIENTS_MAX; i++)
		if (pids[i] > 0) {
			(void)kill(pids[i], SIGKILL);
			(void)waitpid(pids[i], NULL, 0);
		}
	if (node.pid > 0)
		node_stop(&node);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kill_9_a_hundred_times_under_load__nothing_lost_wrong_or_back),
		cmocka_unit_test(kill_9_in_the_first_start__the_next_one_serves),
	};
	int r = cmocka_run_group_tests(tests, setup, teardown);

	if (r) {
		fprintf(stderr, "again: ");
		print_settings(stderr);
	}
	node_cleanup(&node);
	return r;
}
