/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant that puts and never hits: when it is one, and how often that is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/watch.h"

static void watch__warns_at_a_thousand_puts_without_a_hit(void **state)
{
	struct watch w = { 0 };
	struct larder_usage u = { .put_new = WATCH_PUTS - 1 };

	assert_false(watch_look(&w, 3, &u, 0));
	assert_false(w.at[3].warned);
	u.put_new++;
	assert_true(watch_look(&w, 3, &u, 0));
	assert_true(w.at[3].warned);
	assert_int_equal(w.at[3].puts, WATCH_PUTS);
	/* nobody else is meant */
	assert_false(w.at[2].warned);
}

static void watch__a_hit_ends_it_and_counting_begins_anew(void **state)
{
	struct watch w = { 0 };
	struct larder_usage u = { .put_new = 5000 };

	assert_true(watch_look(&w, 0, &u, 0));
	u.get_hits = 1;
	assert_false(watch_look(&w, 0, &u, 1));
	assert_false(w.at[0].warned);
	u.put_new += WATCH_PUTS - 1;
	assert_false(watch_look(&w, 0, &u, 2));
	/* a key that EXISTS found is a hit as well */
	u.exists_present = 1;
	assert_false(watch_look(&w, 0, &u, 3));
	u.put_new += WATCH_PUTS - 1;
	assert_false(watch_look(&w, 0, &u, 4));
	u.put_new++;
	assert_true(watch_look(&w, 0, &u, 4 + WATCH_AGAIN_MS));
}

static void watch__says_a_line_once_an_hour(void **state)
{
	struct watch w = { 0 };
	struct larder_usage u = { .put_new = 5000 };
	unsigned lines = 0;

	/* a look each ten seconds, for three hours from some uptime on */
	for (uint64_t ms = 0; ms < 3 * WATCH_AGAIN_MS; ms += 10000) {
		u.put_new++;
		lines += watch_look(&w, 0, &u, 77777 + ms);
		assert_true(w.at[0].warned);
	}
	assert_int_equal(lines, 3);
	/* a hit in between does not make it say more */
	u.get_hits++;
	assert_false(watch_look(&w, 0, &u, 77777 + 3 * WATCH_AGAIN_MS - 1));
	u.put_new += WATCH_PUTS;
	assert_false(watch_look(&w, 0, &u, 77777 + 3 * WATCH_AGAIN_MS - 1));
	assert_true(w.at[0].warned);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(watch__warns_at_a_thousand_puts_without_a_hit),
		cmocka_unit_test(watch__a_hit_ends_it_and_counting_begins_anew),
		cmocka_unit_test(watch__says_a_line_once_an_hour),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
