/* SPDX-License-Identifier: Apache-2.0 */
/* See usage.h. */
#include "usage.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "harness.h"

static unsigned entries(pid_t pid, const char *what)
{
	char path[64];
	unsigned n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static unsigned lines(pid_t pid, const char *what)
{
	char path[64];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	f = fopen(path, "re");
	assert_non_null(f);
	for (int c; (c = getc(f)) != EOF;)
		n += c == '\n';
	fclose(f);
	return n;
}

struct usage usage_of(pid_t pid)
{
	unsigned long long anon = 0, file = 0, shared = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		(void)sscanf(line, "RssAnon: %llu kB", &anon);
		(void)sscanf(line, "RssFile: %llu kB", &file);
		(void)sscanf(line, "RssShmem: %llu kB", &shared);
	}
	fclose(f);
	return (struct usage){ .anon_kib = anon, .file_kib = file, .shared_kib = shared,
			       .fds = entries(pid, "fd"), .mappings = lines(pid, "maps"),
			       .threads = entries(pid, "task") };
}

#define SMALLER(a, b) ((a) = (b) < (a) ? (b) : (a))

struct usage usage_settled(pid_t pid)
{
	struct usage least = usage_of(pid);

	for (unsigned i = 0; i < 50; i++) {
		struct usage u;

		sleep_ms(10);
		u = usage_of(pid);
		SMALLER(least.anon_kib, u.anon_kib);
		SMALLER(least.file_kib, u.file_kib);
		SMALLER(least.shared_kib, u.shared_kib);
		SMALLER(least.fds, u.fds);
		SMALLER(least.mappings, u.mappings);
		SMALLER(least.threads, u.threads);
	}
	return least;
}
