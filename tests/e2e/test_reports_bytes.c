/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports from the field about bytes and promises, each as a scenario named after it. REPORTS.md
 * tells which test proves which report.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "raw.h"

#define MEMORY (64u << 20)
#define BIG (4u << 20)		/* far more than the sockets between hold */
#define SMALL (64u << 10)
#define BATCH 64u
#define CHURN (2 * (MEMORY / SMALL))

static struct node node;

static void key_of(unsigned i, char key[24])
{
	snprintf(key, 24, "block-%u", i);
}

/* Puts what was never there, for ever; with a bound on what it has acknowledged in @progress. */
static void churning_writer(unsigned limit, unsigned *progress)
{
	struct larder_client *c = node_client(&node, NODE_SHM);
	uint32_t ns = node_namespace(c, "reports");
	uint8_t *value = malloc(SMALL);

	for (unsigned i = 0; i < limit; i++) {
		char key[24];
		int r;

		key_of(i, key);
		pattern_fill(value, SMALL, i);
		r = larder_put(c, ns, key, strlen(key), value, SMALL, 10000);
		if (r != LARDER_OK && r != LARDER_NO_SPACE)
			_exit(1);
		__atomic_store_n(progress, i + 1, __ATOMIC_RELEASE);
	}
	_exit(0);
}

static unsigned *progress_new(void)
{
	unsigned *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			   0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static pid_t spawn_writer(unsigned limit, unsigned *progress)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		churning_writer(limit, progress);
	return pid;
}

static void end_writer(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));	/* it was at work until now */
}

static int lease(struct larder_client *c, uint32_t ns, struct larder_item *items, unsigned n,
		 uint64_t id, uint32_t ms)
{
	struct larder_batch b = { .opcode = LARDER_OP_EXISTS, .ns = ns, .flags = LARDER_F_LEASE,
				  .lease_id = id, .lease_ms = ms, .deadline_ms = 10000,
				  .items = items, .n_items = n };

	(void)larder_run(c, &b);	/* NOT_FOUND where one is absent: each item says its own */
	return (int)b.leading_run;
}

/*
 * GET by hand, read in small pieces over @ms. The status; the bytes were compared when it is OK.
 * @last_ms tells how long the reading took.
 */
static int slow_get(struct raw *r, uint32_t ns, const char *key, uint64_t seed, unsigned ms,
		    uint64_t *last_ms)
{
	uint8_t message[WIRE_MESSAGE_MAX], *value = malloc(BIG);
	int len = raw_get_message(message, 5, ns, key, BIG), small = 65536;
	uint64_t from = now_ms();
	const unsigned pieces = 32;

	assert_non_null(value);
	assert_int_equal(setsockopt(r->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	assert_true(raw_send(r, message, (size_t)len));
	assert_true(raw_reply(r, 10000));
	for (unsigned i = 0; i < pieces && r->header.status == LARDER_OK; i++) {
		sleep_ms(ms / pieces);
		assert_true(raw_read(r, value + i * (BIG / pieces), BIG / pieces, 10000));
	}
	if (r->header.status == LARDER_OK)
		assert_int_equal(pattern_check(value, BIG, seed), -1);
	*last_ms = now_ms() - from;
	free(value);
	return r->header.status;
}

static void mooncake_4239_850_778_short_leases_slow_reader_churning_writer(void **state)
{
	struct larder_client *c = node_client(&node, NODE_SHM);
	uint32_t ns = node_namespace(c, "reports");
	unsigned *progress = progress_new(), outlived = 0, i;
	uint8_t *value = malloc(BIG);
	pid_t writer = spawn_writer(UINT32_MAX, progress);
	struct raw r;

	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "demo", node.secret), LARDER_OK);
	/* twelve reads, and more while the writer has not gone through the memory twice */
	for (i = 0; i < 12 || (i < 200 && node_stat(&node, "objects", "evictions") <= CHURN); i++) {
		char key[24];
		struct larder_item item = { .key = key };
		uint64_t took;
		int status;

		snprintf(key, sizeof(key), "slow-%u", i);
		item.key_len = strlen(key);
		pattern_fill(value, BIG, 1000 + i);
		assert_int_equal(larder_put(c, ns, key, strlen(key), value, BIG, 10000), LARDER_OK);
		(void)lease(c, ns, &item, 1, 7, 50);
		status = slow_get(&r, ns, key, 1000 + i, 160, &took);
		assert_true(status == LARDER_OK || status == LARDER_NOT_FOUND);
		outlived += status == LARDER_OK && took > 100;
	}
	assert_true(outlived >= i / 2);	/* most reads went on without their lease */
	assert_true(node_stat(&node, "objects", "evictions") > CHURN);
	end_writer(writer);
	raw_close(&r);
	larder_close(c);
	free(value);
}

static void mooncake_3076_a_read_slower_than_its_lease_completes(void **state)
{
	struct larder_client *c = node_client(&node, NODE_SHM);
	uint32_t ns = node_namespace(c, "reports");
	struct larder_item item = { .key = "slow", .key_len = 4 };
	unsigned *progress = progress_new();
	uint8_t *value = malloc(BIG);
	pid_t writer = spawn_writer(UINT32_MAX, progress);
	uint64_t took;
	struct raw r;

	pattern_fill(value, BIG, 3076);
	assert_int_equal(larder_put(c, ns, "slow", 4, value, BIG, 10000), LARDER_OK);
	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "demo", node.secret), LARDER_OK);
	/* time for a busy machine to begin to read in */
	assert_int_equal(lease(c, ns, &item, 1, 8, 1500), 1);
	assert_int_equal(item.presence, LARDER_LEASED);
	assert_int_equal(slow_get(&r, ns, "slow", 3076, 2500, &took), LARDER_OK);
	assert_true(took > 1900);
	/* the connection is as good as before */
	assert_true(larder_put(c, ns, "slow", 4, value, BIG, 10000) <= LARDER_EXISTS_SAME);
	assert_int_equal(slow_get(&r, ns, "slow", 3076, 0, &took), LARDER_OK);
	end_writer(writer);
	raw_close(&r);
	larder_close(c);
	free(value);
}

/* Whatever was said to be leased is got, with its bytes. The number of such. */
static unsigned get_leased(struct larder_client *c, uint32_t ns, const struct larder_item *items,
			   unsigned first, unsigned n, uint8_t *back)
{
	unsigned found = 0;

	for (unsigned i = 0; i < n; i++) {
		size_t got;

		assert_true(items[i].presence == LARDER_LEASED ||
			    items[i].presence == LARDER_ABSENT ||
			    items[i].presence == LARDER_FILLING);
		if (items[i].presence != LARDER_LEASED)
			continue;
		found++;
		assert_int_equal(larder_get(c, ns, items[i].key, items[i].key_len, back, SMALL,
					    &got, 10000), LARDER_OK);
		assert_int_equal(got, SMALL);
		assert_int_equal(pattern_check(back, SMALL, first + i), -1);
	}
	return found;
}

static void lease_batch(struct larder_client *c, uint32_t ns, unsigned first, uint64_t id,
			struct larder_item items[BATCH], char keys[BATCH][24])
{
	for (unsigned i = 0; i < BATCH; i++) {
		key_of(first + i, keys[i]);
		items[i] = (struct larder_item){ .key = keys[i], .key_len = strlen(keys[i]) };
	}
	(void)lease(c, ns, items, BATCH, id, 600000);
}

static void release_batch(struct larder_client *c, uint32_t ns, uint64_t id,
			  struct larder_item items[BATCH])
{
	struct larder_batch b = { .opcode = LARDER_OP_RELEASE, .ns = ns, .lease_id = id,
				  .deadline_ms = 10000, .items = items, .n_items = BATCH };

	(void)larder_run(c, &b);	/* NOT_FOUND for those that were absent */
}

static void mooncake_3465_exists_then_get_under_eviction(void **state)
{
	const unsigned limit = 3 * (MEMORY / SMALL);
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "reports");
	struct larder_item items[BATCH];
	char keys[BATCH][24];
	unsigned *progress = progress_new(), found = 0;
	uint8_t *back = malloc(SMALL);
	int64_t evictions = node_stat(&node, "objects", "evictions");
	pid_t writer;

	assert_int_equal(larder_ns_flush(c, ns, true, 10000, NULL, NULL), LARDER_OK);
	writer = spawn_writer(limit, progress);
	for (unsigned first = 0; first < limit; first += BATCH) {
		/* just behind the writer, and what is about to be evicted */
		unsigned old = first > MEMORY / SMALL ? first - MEMORY / SMALL : 0;

		while (__atomic_load_n(progress, __ATOMIC_ACQUIRE) < first + BATCH / 2 &&
		       waitpid(writer, NULL, WNOHANG) == 0)
			sleep_ms(1);
		lease_batch(c, ns, first, 1, items, keys);
		found += get_leased(c, ns, items, first, BATCH, back);
		release_batch(c, ns, 1, items);
		lease_batch(c, ns, old, 2, items, keys);
		found += get_leased(c, ns, items, old, BATCH, back);
		release_batch(c, ns, 2, items);
	}
	assert_true(found > limit / 2);
	assert_true(node_stat(&node, "objects", "evictions") > evictions + (int64_t)limit / 2);
	(void)waitpid(writer, NULL, 0);	/* it may have been met above */
	larder_close(c);
	free(back);
}

/* A lease on the whole batch, a status for each key, the run that can be used. */
static void sglang_27504_the_whole_prefix_is_leased_or_it_is_told(void **state)
{
	struct larder_client *c = node_client(&node, NODE_SHM);
	uint32_t ns = node_namespace(c, "reports");
	uint8_t *value = malloc(SMALL);
	struct larder_item items[BATCH];
	char keys[BATCH][24];
	unsigned *progress = progress_new();
	pid_t writer;

	assert_int_equal(larder_ns_flush(c, ns, true, 10000, NULL, NULL), LARDER_OK);
	for (unsigned i = 0; i < BATCH; i++) {
		char key[24];

		if (i == 40 || i == 50)
			continue;
		key_of(1000000 + i, key);
		pattern_fill(value, SMALL, 1000000 + i);
		assert_int_equal(larder_put(c, ns, key, strlen(key), value, SMALL, 10000),
				 LARDER_OK);
	}
	lease_batch(c, ns, 1000000, 3, items, keys);
	for (unsigned i = 0; i < BATCH; i++)
		assert_int_equal(items[i].presence,
				 i == 40 || i == 50 ? LARDER_ABSENT : LARDER_LEASED);
	writer = spawn_writer(UINT32_MAX, progress);
	while (__atomic_load_n(progress, __ATOMIC_ACQUIRE) < 3 * (MEMORY / SMALL))
		sleep_ms(1);
	end_writer(writer);
	assert_int_equal(get_leased(c, ns, items, 1000000, BATCH, value), BATCH - 2);
	release_batch(c, ns, 3, items);
	larder_close(c);
	free(value);
}

/* --- quota ------------------------------------------------------------------------------------ */

#define CAP (16u << 20)		/* of tenants "rejects" and "evicts": 256 blocks */

static int64_t tenant_stat(const char *tenant, const char *name)
{
	json_t *j = node_control(&node, "{\"cmd\":\"stats\"}");
	json_t *all = json_object_get(json_object_get(j, "result"), "tenants");
	json_t *t = json_object_get(all, tenant);
	json_t *v = json_object_get(t, name);
	int64_t r = json_is_integer(v) ? (int64_t)json_integer_value(v) : -1;

	json_decref(j);
	return r;
}

/* Puts blocks @from to @to; how many were refused for the quota. Each that was not is there. */
static unsigned fill(struct larder_client *c, uint32_t ns, unsigned from, unsigned to)
{
	uint8_t *value = malloc(SMALL);
	unsigned refused = 0;

	for (unsigned i = from; i < to; i++) {
		char key[24];
		size_t got;
		int r;

		key_of(i, key);
		pattern_fill(value, SMALL, i);
		r = larder_put(c, ns, key, strlen(key), value, SMALL, 10000);
		assert_true(r == LARDER_OK || r == LARDER_QUOTA);
		refused += r == LARDER_QUOTA;
		assert_int_equal(larder_get(c, ns, key, strlen(key), value, SMALL, &got, 10000),
				 r == LARDER_OK ? LARDER_OK : LARDER_NOT_FOUND);
		if (r == LARDER_OK)
			assert_int_equal(pattern_check(value, SMALL, i), -1);
	}
	free(value);
	return refused;
}

static void mooncake_3741_a_put_over_quota_is_told_or_makes_room(void **state)
{
	const unsigned blocks = CAP / SMALL;
	struct larder_item items[BATCH];
	char keys[BATCH][24];
	struct larder_client *c;
	unsigned refused;
	uint32_t ns;

	node_add_tenant(&node, "rejects", "[limits]\nresident_bytes = 16M\nover_cap = reject\n");
	node_add_tenant(&node, "evicts",
			"[limits]\nresident_bytes = 16M\nover_cap = evict-own\n");
	c = node_client_as(&node, NODE_SHM, "rejects");
	ns = node_namespace(c, "quota");
	refused = fill(c, ns, 0, 2 * blocks);
	assert_int_equal(refused, blocks);
	assert_int_equal(tenant_stat("rejects", "refused"), refused);
	assert_int_equal(tenant_stat("rejects", "objects"), blocks);
	assert_int_equal(tenant_stat("rejects", "evicted_objects"), 0);
	larder_close(c);
	c = node_client_as(&node, NODE_TCP, "evicts");
	ns = node_namespace(c, "quota");
	assert_int_equal(fill(c, ns, 0, BATCH), 0);
	lease_batch(c, ns, 0, 9, items, keys);
	assert_int_equal(fill(c, ns, BATCH, 2 * blocks), 0);
	assert_true(tenant_stat("evicts", "resident_bytes") <= CAP);
	for (unsigned i = 0; i < BATCH; i++)	/* leased: they stayed */
		assert_int_equal(larder_exists(c, ns, keys[i], strlen(keys[i]), 5000), LARDER_OK);
	/* its own leases fill the cap: only then it is refused */
	for (unsigned i = BATCH; i < blocks; i++) {
		assert_int_equal(fill(c, ns, 10000 + i, 10001 + i), 0);
		key_of(10000 + i, keys[0]);	/* at once: the next one's victim may be any */
		items[0] = (struct larder_item){ .key = keys[0], .key_len = strlen(keys[0]) };
		(void)lease(c, ns, items, 1, 10, 600000);
		assert_int_equal(items[0].presence, LARDER_LEASED);
	}
	assert_int_equal(fill(c, ns, 20000, 20010), 10);
	assert_int_equal(tenant_stat("evicts", "refused"), 10);
	larder_close(c);
}

static int setup(void **state)
{
	node_setup(&node, "[memory]\nsize = 64M\n[node]\nreactors = 2\n"
		   "[engine]\nlease_max = 600000\n");
	node_start(&node);
	return 0;
}

static int teardown(void **state)
{
	node_stop(&node);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mooncake_4239_850_778_short_leases_slow_reader_churning_writer),
		cmocka_unit_test(mooncake_3076_a_read_slower_than_its_lease_completes),
		cmocka_unit_test(mooncake_3465_exists_then_get_under_eviction),
		cmocka_unit_test(sglang_27504_the_whole_prefix_is_leased_or_it_is_told),
		cmocka_unit_test(mooncake_3741_a_put_over_quota_is_told_or_makes_room),
	};
	int r = cmocka_run_group_tests(tests, setup, teardown);

	node_cleanup(&node);
	return r;
}
