/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that were set while the node ran: kept whole or refused, never in part. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/overrides.h"

static char dir[64];

static int setup(void **state)
{
	strcpy(dir, "/tmp/larder-overrides.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/state/limits", dir);
	(void)unlink(path);
	snprintf(path, sizeof(path), "%s/state", dir);
	(void)rmdir(path);
	return rmdir(dir);
}

static struct overrides at_dir(void)
{
	struct overrides o = { .what = "saved" };

	snprintf(o.path, sizeof(o.path), "%s/state/limits", dir);
	return o;
}

static void set(struct overrides *o, const char *tenant, unsigned limit, uint64_t value)
{
	struct limit_set s = { .given = 1u << limit };

	s.value[limit] = value;
	assert_int_equal(overrides_change(o, tenant, &s, 0), 0);
}

static size_t slurp(const struct overrides *o, char *text, size_t size)
{
	FILE *f = fopen(o->path, "r");
	size_t n;

	assert_non_null(f);
	n = fread(text, 1, size - 1, f);
	text[n] = '\0';
	fclose(f);
	return n;
}

static void spit(const struct overrides *o, const char *text, size_t len)
{
	FILE *f = fopen(o->path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void overrides__come_back_as_they_were_written(void **state)
{
	struct overrides o = at_dir(), back = at_dir();
	char error[512] = "", name[128];
	struct stat st;

	/* a tenant may be called like anything in the file */
	set(&o, "complete", LARDER_LIMIT_objects, 5);
	set(&o, "version", LARDER_LIMIT_over_cap, LARDER_OVER_CAP_REJECT);
	set(&o, "_view", LARDER_LIMIT_connections, 3);
	for (unsigned l = 0; l < LARDER_LIMITS; l++)
		set(&o, "all", l, 1);
	set(&o, "all", LARDER_LIMIT_resident_bytes, 0);		/* none, which is not "not set" */
	set(&o, "all", LARDER_LIMIT_region_bytes, INT64_MAX);
	assert_int_equal(overrides_write(&o, error, sizeof(error)), 0);
	snprintf(name, sizeof(name), "%s/state", dir);
	assert_int_equal(stat(name, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(o.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(overrides_read(&back, error, sizeof(error)), 0);
	assert_int_equal(back.n, 4);
	for (size_t i = 0; i < o.n; i++)
		assert_memory_equal(&o.at[i].set, overrides_find(&back, o.at[i].tenant),
				    sizeof(o.at[i].set));
	/* nothing left to say: no file */
	while (o.n)
		overrides_forget(&o, o.at[0].tenant);
	assert_int_equal(overrides_write(&o, error, sizeof(error)), 0);
	assert_int_equal(stat(o.path, &st), -1);
	assert_int_equal(overrides_read(&back, error, sizeof(error)), 0);
	assert_int_equal(back.n, 0);
	overrides_done(&o);
	overrides_done(&back);
}

static void overrides__a_file_cut_anywhere_is_refused_whole(void **state)
{
	struct overrides o = at_dir(), back = at_dir();
	char error[512], text[1024];
	size_t n;

	set(&o, "demo", LARDER_LIMIT_objects, 5);
	set(&o, "demo", LARDER_LIMIT_resident_bytes, 1u << 20);
	set(&o, "other", LARDER_LIMIT_weight, 300);
	assert_int_equal(overrides_write(&o, error, sizeof(error)), 0);
	n = slurp(&o, text, sizeof(text));
	/* the last byte is a newline, without which the file still says all */
	for (size_t cut = 0; cut + 1 < n; cut++) {
		spit(&o, text, cut);
		error[0] = '\0';
		if (overrides_read(&back, error, sizeof(error)) >= 0 || back.n)
			fail_msg("cut at %zu it was taken", cut);
		/* says which file and what to do */
		assert_non_null(strstr(error, back.path));
		assert_non_null(strstr(error, "mend the file, or move it away"));
	}
	spit(&o, text, n);
	assert_int_equal(overrides_read(&back, error, sizeof(error)), 0);
	overrides_done(&o);
	overrides_done(&back);
}

static void overrides__what_makes_no_sense_is_refused_by_its_line(void **state)
{
	static const struct { const char *text, *says; } cases[] = {
		{ "[_file]\nversion = 2\n[_end]\ncomplete = yes\n", ":2: another version" },
		{ "[demo]\nobjects = 1\n[_end]\ncomplete = yes\n", ":2: its first setting" },
		{ "[_file]\nversion = 1\n[demo]\nobject = 1\n[_end]\ncomplete = yes\n",
		  ":4: no such limit (object)" },
		{ "[_file]\nversion = 1\n[demo]\nobjects = x\n[_end]\ncomplete = yes\n",
		  ":4: not a value" },
		{ "[_file]\nversion = 1\n[De mo]\nobjects = 1\n[_end]\ncomplete = yes\n",
		  ":4: neither a tenant" },
		{ "[_file]\nversion = 1\n[demo]\nobjects\n[_end]\ncomplete = yes\n", ":4: not a" },
		{ "[_file]\nversion = 1\n[_end]\ncomplete = yes\n[demo]\nobjects = 1\n",
		  ":6: something after its end" },
	};
	struct overrides o = at_dir();
	char error[512];

	set(&o, "demo", LARDER_LIMIT_objects, 5);
	assert_int_equal(overrides_write(&o, error, sizeof(error)), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		spit(&o, cases[i].text, strlen(cases[i].text));
		error[0] = '\0';
		if (overrides_read(&o, error, sizeof(error)) >= 0 || o.n ||
		    !strstr(error, cases[i].says))
			fail_msg("%s: %s", cases[i].text, error);
	}
	overrides_done(&o);
}

static void overrides__a_change_that_can_not_be_kept_is_told(void **state)
{
	struct overrides o = { .what = "saved" };
	char error[512] = "";

	snprintf(o.path, sizeof(o.path), "%s/no/such/limits", dir);
	set(&o, "demo", LARDER_LIMIT_objects, 5);
	assert_int_equal(overrides_write(&o, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, o.path));
	overrides_done(&o);
}

static void overrides__taken_back_and_forgotten(void **state)
{
	struct overrides o = at_dir(), copy = { .n = 0 };
	struct limit_set s = { .given = 1u << LARDER_LIMIT_objects };

	s.value[LARDER_LIMIT_objects] = 9;
	set(&o, "a", LARDER_LIMIT_objects, 1);
	set(&o, "a", LARDER_LIMIT_weight, 2);
	set(&o, "b", LARDER_LIMIT_weight, 3);
	assert_int_equal(overrides_copy(&copy, &o), 0);
	assert_int_equal(overrides_change(&o, "a", &s, 1u << LARDER_LIMIT_weight), 0);
	assert_int_equal(overrides_find(&o, "a")->given, 1u << LARDER_LIMIT_objects);
	assert_int_equal(overrides_find(&o, "a")->value[LARDER_LIMIT_objects], 9);
	assert_int_equal(overrides_find(&copy, "a")->value[LARDER_LIMIT_objects], 1);
	s.given = 0;
	assert_int_equal(overrides_change(&o, "a", &s, UINT32_MAX), 0);
	assert_int_equal(o.n, 1);
	assert_int_equal(overrides_find(&o, "b")->value[LARDER_LIMIT_weight], 3);
	assert_int_equal(overrides_find(&o, "nobody")->given, 0);
	/* taking back what was never set leaves nothing behind */
	assert_int_equal(overrides_change(&o, "nobody", &s, UINT32_MAX), 0);
	assert_int_equal(o.n, 1);
	overrides_done(&o);
	overrides_done(&copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(overrides__come_back_as_they_were_written, setup,
						teardown),
		cmocka_unit_test_setup_teardown(overrides__a_file_cut_anywhere_is_refused_whole,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			overrides__what_makes_no_sense_is_refused_by_its_line, setup, teardown),
		cmocka_unit_test_setup_teardown(overrides__a_change_that_can_not_be_kept_is_told,
						setup, teardown),
		cmocka_unit_test_setup_teardown(overrides__taken_back_and_forgotten, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
