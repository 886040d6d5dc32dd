/* SPDX-License-Identifier: Apache-2.0 */
/* The view's tables on a clock that is advanced by hand: namespaces, snapshots, quantiles. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fsview/ledger.h"
#include "fsview/snapshots.h"
#include "fsview/spaces.h"

static uint64_t now_ns;

static uint64_t fake_ns(void)
{
	return now_ns;
}

static uint64_t fake_ms(void)
{
	return 1700000000000 + now_ns / NSEC_PER_MSEC;
}

static const struct process_clock fake_clock = { fake_ns, fake_ms };

static void add(struct spaces *s, const char *name, uint32_t id, uint64_t created_ms)
{
	struct larder_ns_info info = { .ns = id, .created_ms = created_ms, .objects = 1 };

	(void)snprintf(info.name, sizeof(info.name), "%s", name);
	assert_int_equal(spaces_add(s, &info), 0);
}

static struct spaces *spaces_fixture(void)
{
	struct spaces *s;

	now_ns = NSEC_PER_SEC;
	assert_int_equal(spaces_new(&fake_clock, &s), 0);
	spaces_begin(s);
	add(s, "demo:one", 0, 100);
	add(s, "other:one", 1, 100);
	assert_int_equal(spaces_add_tenant(s, "empty"), 0);
	spaces_end(s, true);
	return s;
}

static void names_are_found_in_their_tenant(void **state)
{
	struct spaces *s = spaces_fixture();
	struct tenant demo, t;
	struct space space;

	assert_int_equal(spaces_find_tenant(s, "demo", &demo), 0);
	assert_int_equal(spaces_find_space(s, demo.index, "one", &space), 0);
	assert_string_equal(space.listed, "demo:one");
	assert_int_equal(spaces_find_space(s, demo.index, "two", &space), -ENOENT);
	assert_int_equal(spaces_find_tenant(s, "empty", &t), 0);
	assert_int_equal(spaces_find_space(s, t.index, "one", &space), -ENOENT);
	spaces_free(s);
}

static void a_namespace_made_anew_is_another_one(void **state)
{
	struct spaces *s = spaces_fixture();
	struct space before, after;

	assert_int_equal(spaces_find_space(s, 0, "one", &before), 0);
	spaces_begin(s);
	add(s, "demo:one", 0, 200);	/* the same name and id: the node's memory was made anew */
	add(s, "other:one", 1, 100);
	spaces_end(s, true);
	assert_int_equal(spaces_find_space(s, 0, "one", &after), 0);
	assert_int_not_equal(before.index, after.index);
	assert_int_equal(spaces_space(s, before.index, &before), 0);
	assert_false(before.alive);
	spaces_free(s);
}

static void a_listing_that_failed_takes_nothing_away(void **state)
{
	struct spaces *s = spaces_fixture();
	struct tenant t;

	spaces_begin(s);
	spaces_end(s, false);
	assert_int_equal(spaces_find_tenant(s, "demo", &t), 0);
	spaces_begin(s);
	spaces_end(s, true);
	assert_int_equal(spaces_find_tenant(s, "demo", &t), -ENOENT);
	spaces_free(s);
}

static void places_last_through_coming_and_going(void **state)
{
	struct spaces *s = spaces_fixture();
	uint32_t i = 1;
	struct tenant t;

	/* a reader stopped before place 1; place 0 goes, a new one comes */
	spaces_begin(s);
	add(s, "other:one", 1, 100);
	add(s, "new:one", 2, 100);
	spaces_end(s, true);
	assert_int_equal(spaces_next_tenant(s, &i, &t), 0);
	assert_string_equal(t.name, "other");
	i++;
	assert_int_equal(spaces_next_tenant(s, &i, &t), 0);
	assert_string_equal(t.name, "new");
	spaces_free(s);
}

static void a_full_table_uses_places_again_that_rested(void **state)
{
	struct spaces *s = spaces_fixture();
	struct larder_ns_info info = { .ns = 9, .created_ms = 9, .name = "demo:over" };
	char name[64];

	spaces_begin(s);
	for (unsigned i = 2; i < TREE_SPACES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "demo:n%u", i);
		add(s, name, i, 1);
	}
	spaces_end(s, true);	/* the fixture's two are gone */
	spaces_begin(s);
	assert_int_equal(spaces_add(s, &info), -ENFILE);
	now_ns += 301 * NSEC_PER_SEC;
	assert_int_equal(spaces_add(s, &info), 0);
	spaces_free(s);
}

/* --- snapshots ------------------------------------------------------------------------------- */

static void looks_within_a_second_get_the_same_bytes(void **state)
{
	struct snapshots *s;
	struct snapshot a, b, c;

	now_ns = 0;
	assert_int_equal(snapshots_new(&fake_clock, &s), 0);
	assert_int_equal(snapshots_find(s, 77, &a), -ENOENT);
	assert_int_equal(snapshots_add(s, 77, 1, strdup("one"), 3, &a), 0);
	now_ns += 999 * NSEC_PER_MSEC;
	assert_int_equal(snapshots_find(s, 77, &b), 0);
	assert_int_equal(a.serial, b.serial);
	now_ns += NSEC_PER_MSEC;
	assert_int_equal(snapshots_find(s, 77, &c), -ENOENT);
	/* the old one stays what it was for who has it */
	assert_int_equal(snapshots_get(s, a.serial, &c), 0);
	assert_memory_equal(c.text, "one", 3);
	snapshots_forget(s, a.serial, 2);
	snapshots_put(s, a.serial);
	assert_int_equal(snapshots_get(s, a.serial, &c), -ESTALE);
	snapshots_free(s);
}

/* FUSE forgets late: the oldest makes room, and who has one open keeps it. */
static void snapshots_are_bounded(void **state)
{
	struct snapshots *s;
	struct snapshot first, second, one, got;

	now_ns = 0;
	assert_int_equal(snapshots_new(&fake_clock, &s), 0);
	assert_int_equal(snapshots_add(s, 0, 1, strdup("first"), 5, &first), 0);
	now_ns++;
	assert_int_equal(snapshots_add(s, 1, 1, strdup("second"), 6, &second), 0);
	assert_int_equal(snapshots_get(s, first.serial, &got), 0);	/* open */
	for (unsigned i = 2; i < SNAPSHOTS_MAX + 1; i++) {
		now_ns++;
		assert_int_equal(snapshots_add(s, i, 1, strdup("x"), 1, &one), 0);
	}
	assert_int_equal(snapshots_get(s, second.serial, &got), -ESTALE);
	assert_int_equal(snapshots_get(s, first.serial, &got), 0);
	assert_memory_equal(got.text, "first", 5);
	snapshots_forget(s, second.serial, 1);	/* late, and of nobody else */
	snapshots_forget(s, first.serial, 1);
	snapshots_put(s, first.serial);
	snapshots_put(s, first.serial);
	assert_int_equal(snapshots_get(s, first.serial, &got), -ESTALE);
	snapshots_free(s);

	assert_int_equal(snapshots_new(&fake_clock, &s), 0);
	for (unsigned i = 0; i < SNAPSHOTS_MAX; i++) {
		assert_int_equal(snapshots_add(s, i, 1, strdup("x"), 1, &one), 0);
		assert_int_equal(snapshots_get(s, one.serial, &got), 0);
	}
	assert_int_equal(snapshots_add(s, 1, 1, strdup("x"), 1, &got), -ENFILE);
	snapshots_put(s, one.serial);
	assert_int_equal(snapshots_add(s, 1, 1, strdup("x"), 1, &got), 0);
	snapshots_free(s);
}

static void quantiles_are_bounds_of_buckets(void **state)
{
	uint64_t buckets[LARDER_LATENCY_BUCKETS] = { 0 };

	assert_int_equal(ledger_quantile(buckets, 0.99), 0);
	assert_int_equal(ledger_bucket_bound(4), 4);
	assert_int_equal(ledger_bucket_bound(5), 5);
	assert_int_equal(ledger_bucket_bound(9), 10);
	assert_int_equal(ledger_bucket_bound(13), 20);
	assert_int_equal(ledger_bucket_bound(159), 7ull << 38);
	buckets[9] = 99;
	buckets[13] = 1;
	assert_int_equal(ledger_quantile(buckets, 0.5), 10);
	assert_int_equal(ledger_quantile(buckets, 0.99), 10);
	assert_int_equal(ledger_quantile(buckets, 0.999), 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_found_in_their_tenant),
		cmocka_unit_test(a_namespace_made_anew_is_another_one),
		cmocka_unit_test(a_listing_that_failed_takes_nothing_away),
		cmocka_unit_test(places_last_through_coming_and_going),
		cmocka_unit_test(a_full_table_uses_places_again_that_rested),
		cmocka_unit_test(looks_within_a_second_get_the_same_bytes),
		cmocka_unit_test(snapshots_are_bounded),
		cmocka_unit_test(quantiles_are_bounds_of_buckets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
