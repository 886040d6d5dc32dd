/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger as its readers see it: published layout, really read-only, slots by stable id. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/hist.h"
#include "view/ledger.h"

static int setup(void **state)
{
	struct ledger *l = NULL;

	if (ledger_open(3, NULL, &l) < 0)
		return -1;
	*state = l;
	return 0;
}

static int teardown(void **state)
{
	*state = ledger_close(*state);
	return 0;
}

static void open__refuses_bad_numbers_of_writers(void **state)
{
	struct ledger *l = NULL;

	assert_int_equal(ledger_open(0, NULL, &l), -EINVAL);
	assert_int_equal(ledger_open(LARDER_LEDGER_WRITERS_MAX + 1, NULL, &l), -EINVAL);
	assert_null(l);
	assert_null(ledger_close(NULL));
	assert_int_equal(ledger_open(LARDER_LEDGER_WRITERS_MAX, NULL, &l), 0);
	l = ledger_close(l);
}

static void reader__finds_every_section_where_the_header_says(void **state)
{
	struct ledger *l = *state;
	_cleanup_close_ int fd = ledger_read_fd(l);
	const struct larder_ledger_header *h;
	struct stat st;
	uint64_t end = sizeof(*h);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, l->size);
	h = mmap(NULL, l->size, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(h, MAP_FAILED);
	assert_int_equal(h->magic, LARDER_LEDGER_MAGIC);
	assert_int_equal(h->layout, LARDER_LEDGER_LAYOUT);
	assert_int_equal(h->writers, 3);
	assert_int_equal(h->tenants, LARDER_LEDGER_TENANTS);
	for (int i = 0; i < LARDER_SECTIONS; i++) {
		assert_int_equal(h->section[i].offset % 4096, 0);
		assert_true(h->section[i].offset >= end);
		end = h->section[i].offset + h->section[i].size;
	}
	assert_true(end <= l->size);
	ledger_count(&ledger_usage(l, 2, 5)->get_hits, 7);
	ledger_count(&ledger_usage(l, 2, 5)->get_hits, 1);
	ledger_gauge_add(&l->gauges[5].objects, 10);
	ledger_gauge_sub(&l->gauges[5].objects, 3);
	l->node->pages = 42;
	l->limits[5 * LARDER_LEDGER_LIMITS + 3] = 99;
	{
		const char *at = (const char *)h;
		const struct larder_usage *usage =
			(const void *)(at + h->section[LARDER_SECTION_USAGE].offset);
		const struct larder_gauges *gauges =
			(const void *)(at + h->section[LARDER_SECTION_GAUGES].offset);
		const struct larder_node_section *node =
			(const void *)(at + h->section[LARDER_SECTION_NODE].offset);
		const uint64_t *limits =
			(const void *)(at + h->section[LARDER_SECTION_LIMITS].offset);

		assert_true(usage[2 * LARDER_LEDGER_TENANTS + 5].get_hits == 8);
		assert_true(gauges[5].objects == 7);
		assert_true(node->pages == 42);
		assert_true(limits[5 * LARDER_LEDGER_LIMITS + 3] == 99);
	}
	assert_int_equal(munmap((void *)(uintptr_t)h, l->size), 0);
}

static void reader__can_not_write_by_any_way(void **state)
{
	struct ledger *l = *state;
	_cleanup_close_ int fd = ledger_read_fd(l), again = -1;
	char path[64];
	void *map;

	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(errno, EPERM);
	map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(mprotect(map, 4096, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(munmap(map, 4096), 0);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, (off_t)l->size * 2), -1);
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	assert_int_equal(fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4096), -1);
	/* reopened for writing, as a process of the same user could */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again >= 0) {
		assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
		assert_int_equal(pwrite(again, "x", 1, 0), -1);
	}
	assert_int_equal(l->header->magic, LARDER_LEDGER_MAGIC);
	l->node->turns = 1;	/* and the writer still can */
}

static void slot__is_found_by_id_and_the_last_is_shared(void **state)
{
	struct ledger *l = *state;
	char name[40];

	assert_string_equal(l->names[LARDER_LEDGER_VIEW_TENANT].tenant, "_view");
	for (uint32_t i = 0; i < 100; i++) {
		uint32_t want = i < 62 ? i : 62;

		(void)snprintf(name, sizeof(name), "tenant-%u", i);
		assert_int_equal(ledger_slot(l, 1000 + i, name), want);
		assert_int_equal(ledger_slot(l, 1000 + i, name), want);
	}
	assert_string_equal(l->names[61].tenant, "tenant-61");
	assert_true(l->names[61].id == 1061);
	assert_string_equal(l->names[62].tenant, "_other");
	assert_string_equal(l->names[63].tenant, "_view");
}

static void latency__lands_in_the_bucket_of_its_bound(void **state)
{
	struct ledger *l = *state;

	ledger_latency(l, 1, LARDER_LATENCY_PUT, 1024);
	ledger_latency(l, 1, LARDER_LATENCY_PUT, 1025);
	ledger_latency(l, 1, LARDER_LATENCY_PUT, UINT64_MAX / 2);
	assert_true(l->latency[1].buckets[LARDER_LATENCY_PUT][hist_bucket(1024)] == 1);
	assert_true(l->latency[1].buckets[LARDER_LATENCY_PUT][hist_bucket(1024) + 1] == 1);
	assert_true(l->latency[1].buckets[LARDER_LATENCY_PUT][HIST_BUCKETS - 1] == 1);
	assert_true(l->latency[1].sum_ns[LARDER_LATENCY_PUT] == 2049 + UINT64_MAX / 2);
	assert_true(l->latency[0].sum_ns[LARDER_LATENCY_PUT] == 0);
}

/* One name is one row of every table that is made from it, however often its tenant was purged. */
static void slot__of_a_purged_tenant_is_its_again(void **state)
{
	struct ledger *l = *state;
	uint32_t slot = ledger_slot(l, 5, "again");

	assert_int_not_equal(ledger_slot(l, 6, "other"), slot);
	ledger_count(&ledger_usage(l, 0, slot)->put_new, 3);
	assert_int_equal(ledger_slot(l, 9, "again"), slot);
	assert_true(l->names[slot].id == 9);
	assert_true(ledger_usage(l, 0, slot)->put_new == 3);
	assert_int_equal(ledger_slot(l, 9, "again"), slot);
}

static uint32_t slot_of(struct ledger *l, uint32_t id)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "t%u", id);
	return ledger_slot(l, id, name);
}

static void *assign_slots(void *user)
{
	struct ledger *l = user;

	for (uint32_t id = 0; id < 40; id++)
		(void)slot_of(l, id);
	return NULL;
}

static void slot__two_threads_agree(void **state)
{
	struct ledger *l = *state;
	pthread_t t[2];
	uint64_t seen = 0;

	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, assign_slots, l), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
	for (uint32_t id = 0; id < 40; id++)
		seen |= 1ull << slot_of(l, id);
	assert_true(seen == (1ull << 40) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open__refuses_bad_numbers_of_writers),
		cmocka_unit_test_setup_teardown(reader__finds_every_section_where_the_header_says,
						setup, teardown),
		cmocka_unit_test_setup_teardown(reader__can_not_write_by_any_way, setup, teardown),
		cmocka_unit_test_setup_teardown(slot__is_found_by_id_and_the_last_is_shared, setup,
						teardown),
		cmocka_unit_test_setup_teardown(latency__lands_in_the_bucket_of_its_bound, setup,
						teardown),
		cmocka_unit_test_setup_teardown(slot__of_a_purged_tenant_is_its_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(slot__two_threads_agree, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
