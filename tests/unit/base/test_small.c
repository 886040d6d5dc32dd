/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses, descriptors, histogram bounds, random numbers, log lines, lists. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <larder/descriptor.h>
#include <larder/status.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/hist.h"
#include "base/list.h"
#include "base/log.h"
#include "base/prng.h"

static void status__table_is_whole(void **state)
{
	assert_string_equal(larder_status_name(LARDER_NOT_FOUND), "NOT_FOUND");
	assert_int_equal(larder_status_errno(LARDER_QUOTA), EDQUOT);
	assert_int_equal(larder_status_exit_code(LARDER_DISCONNECTED), 4);
	assert_int_equal(larder_status_errno(LARDER_EXISTS_SAME), 0);
	for (int s = 0; s < LARDER_STATUS_COUNT; s++) {
		assert_string_not_equal(larder_status_name(s), "?");
		assert_true(strlen(larder_status_text(s)) > 0);
		assert_true(larder_status_exit_code(s) <= 5 && larder_status_exit_code(s) != 2);
		assert_int_equal(larder_status_exit_code(s) == 0, larder_status_errno(s) == 0);
	}
}

static void status__unknown_numbers_are_failures(void **state)
{
	static const int unknown[] = { -1, LARDER_STATUS_COUNT, 255, INT32_MAX, INT32_MIN };

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		assert_string_equal(larder_status_name(unknown[i]), "?");
		assert_non_null(larder_status_text(unknown[i]));
		assert_int_not_equal(larder_status_errno(unknown[i]), 0);
		assert_int_equal(larder_status_exit_code(unknown[i]), 5);
	}
}

static void descriptor__names_the_field_that_differs(void **state)
{
	struct larder_descriptor a = { .model = "m", .tokens_per_block = 16 }, b = a;

	assert_null(larder_descriptor_difference(&a, &b));
	b.tp = 2;
	assert_string_equal(larder_descriptor_difference(&a, &b), "tp");
	(void)snprintf(b.layout, sizeof(b.layout), "NHD");
	assert_string_equal(larder_descriptor_difference(&a, &b), "layout");
	b.model[127] = 'x';	/* behind the NUL, but digested: not the same */
	assert_string_equal(larder_descriptor_difference(&a, &b), "model");
}

static void descriptor__every_byte_is_in_digest_and_difference(void **state)
{
	struct larder_descriptor zero = { 0 }, d;

	assert_true(larder_descriptor_is_empty(&zero));
	assert_true(larder_descriptor_digest(&zero) == 0);
	assert_true(larder_descriptor_digest(NULL) == 0);
	for (size_t i = 0; i < sizeof(d); i++) {
		d = zero;
		((uint8_t *)&d)[i] = 1;
		assert_false(larder_descriptor_is_empty(&d));
		assert_non_null(larder_descriptor_difference(&zero, &d));
		assert_true(larder_descriptor_digest(&d) != 0);
	}
}

static void hist__bounds_are_exact_and_inclusive(void **state)
{
	static const uint64_t first[] = {
		0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32,
	};

	for (unsigned i = 0; i < ARRAY_SIZE(first); i++)
		assert_true(hist_bound(i) == first[i]);
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		uint64_t bound = hist_bound(i);

		assert_int_equal(hist_bucket(bound), i);
		assert_int_equal(hist_bucket(bound + 1), MIN(i + 1, HIST_BUCKETS - 1));
		if (i > 0)
			assert_true(bound > hist_bound(i - 1));
	}
	assert_true(hist_bound(HIST_BUCKETS - 1) > 1ull << 40);
	assert_int_equal(hist_bucket(UINT64_MAX), HIST_BUCKETS - 1);
	assert_true(hist_bound(HIST_BUCKETS + 7) == hist_bound(HIST_BUCKETS - 1));
}

static void hist_quantile__gives_the_bound_of_the_rank(void **state)
{
	uint64_t counts[HIST_BUCKETS] = { 0 };

	assert_true(hist_quantile(counts, 0.5) == 0);
	for (uint64_t v = 1; v <= 100; v++)
		counts[hist_bucket(v)]++;
	assert_true(hist_quantile(counts, 0) == 1);
	assert_true(hist_quantile(counts, 0.5) == hist_bound(hist_bucket(50)));
	assert_true(hist_quantile(counts, 0.99) == hist_bound(hist_bucket(99)));
	assert_true(hist_quantile(counts, 1) == hist_bound(hist_bucket(100)));
	assert_true(hist_quantile(counts, 7) == hist_bound(hist_bucket(100)));
}

static void prng__repeats_by_seed_and_stays_below(void **state)
{
	struct prng a, b;
	uint64_t seen = 0;

	prng_seed(&a, 0);
	prng_seed(&b, 0);
	for (int i = 0; i < 1000; i++)
		assert_true(prng_next(&a) == prng_next(&b));
	prng_seed(&b, 1);
	assert_true(prng_next(&a) != prng_next(&b));
	for (int i = 0; i < 10000; i++) {
		uint64_t v = prng_below(&a, 7);

		assert_true(v < 7);
		seen |= 1u << v;
		assert_true(prng_below(&a, 1) == 0);
		assert_true(prng_below(&a, (1ull << 63) + 1) <= 1ull << 63);
	}
	assert_int_equal(seen, 0x7f);
}

static void secure_random__fills_all_of_it(void **state)
{
	uint8_t a[1000] = { 0 }, b[1000] = { 0 };

	assert_int_equal(secure_random_system.bytes(NULL, a, sizeof(a)), 0);
	assert_int_equal(secure_random_system.bytes(NULL, b, sizeof(b)), 0);
	assert_memory_not_equal(a, b, sizeof(a));
	assert_memory_not_equal(a + 984, b + 984, 16);
}

static void clock_system__goes_forward(void **state)
{
	uint64_t before = clock_now(&clock_system);

	assert_true(clock_now(&clock_system) >= before);
	assert_true(clock_wall_ms(&clock_system) > 1600000000000ull);
}

struct capture {
	char text[2048];
	int level;
	int lines;
};

static void capture_line(void *user, int level, const char *text)
{
	struct capture *c = user;

	(void)snprintf(c->text, sizeof(c->text), "%s", text);
	c->level = level;
	c->lines++;
}

static void log__one_clean_line_at_or_below_its_level(void **state)
{
	struct capture c = { 0 };
	struct larder_log log = { .line = capture_line, .user = &c, .level = LARDER_LOG_INFO };
	struct larder_log silent = { .level = LARDER_LOG_DEBUG };
	char big[3000];

	log_info(&log, "name %s", "a\nERR forged\x7f");
	assert_string_equal(c.text, "name a?ERR forged?");
	assert_int_equal(c.level, LARDER_LOG_INFO);
	log_debug(&log, "too fine");
	log_err(NULL, "nobody listens");
	log_err(&silent, "nobody listens");
	assert_int_equal(c.lines, 1);
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	log_err(&log, "%s", big);
	assert_int_equal(strlen(c.text), 1023);
	assert_string_equal(c.text + 1020, "...");
}

struct element {
	int value;
	struct list link;
};

static void list__keeps_order_and_survives_double_removal(void **state)
{
	struct element e[3] = { { .value = 0 }, { .value = 1 }, { .value = 2 } };
	struct list head;
	int sum = 0, n = 0;

	list_init(&head);
	assert_null(list_pop_head(&head));
	list_push_tail(&head, &e[1].link);
	list_push_tail(&head, &e[2].link);
	list_push_head(&head, &e[0].link);
	list_for_each(it, &head)
		assert_int_equal(list_entry(it, struct element, link)->value, n++);
	assert_int_equal(n, 3);
	list_for_each_safe(it, &head) {
		sum += list_entry(it, struct element, link)->value;
		list_remove(it);
		list_remove(it);
	}
	assert_int_equal(sum, 3);
	assert_true(list_empty(&head));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(status__table_is_whole),
		cmocka_unit_test(status__unknown_numbers_are_failures),
		cmocka_unit_test(descriptor__names_the_field_that_differs),
		cmocka_unit_test(descriptor__every_byte_is_in_digest_and_difference),
		cmocka_unit_test(hist__bounds_are_exact_and_inclusive),
		cmocka_unit_test(hist_quantile__gives_the_bound_of_the_rank),
		cmocka_unit_test(prng__repeats_by_seed_and_stays_below),
		cmocka_unit_test(secure_random__fills_all_of_it),
		cmocka_unit_test(clock_system__goes_forward),
		cmocka_unit_test(log__one_clean_line_at_or_below_its_level),
		cmocka_unit_test(list__keeps_order_and_survives_double_removal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
