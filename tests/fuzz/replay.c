/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs every file of a folder (its argument, or the one it was built for) through a fuzz target:
 * the corpus as an ordinary test. Each file's name is printed before it runs, so that the last line
 * names the one that ended the program. No file at all is a failure.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

/* 0 or -errno. */
static int replay_file(const char *path)
{
	static uint8_t data[1 << 20];
	size_t size;
	FILE *f = fopen(path, "rbe");

	if (!f)
		return -errno;
	size = fread(data, 1, sizeof(data), f);
	if (ferror(f) || !feof(f)) {
		(void)fclose(f);	/* the read's failure is told */
		return size == sizeof(data) ? -EFBIG : -EIO;
	}
	if (fclose(f))
		return -errno;
	(void)LLVMFuzzerTestOneInput(data, size);	/* always 0 */
	return 0;
}

int main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : FUZZ_CORPUS;
	struct dirent **entries;
	int n, passed = 0, failed = 0;

	n = scandir(folder, &entries, is_visible, by_name);
	if (n <= 0) {
		printf("%s: %s\n0 passed, 1 failed, 0 skipped\n", folder,
		       n ? strerror(errno) : "no file");
		return 1;
	}
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];
		int r;

		r = snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		printf("%s\n", path);
		(void)fflush(stdout);
		r = r < 0 || r >= (int)sizeof(path) ? -ENAMETOOLONG : replay_file(path);
		if (r)
			printf("%s: %s\n", path, strerror(-r));
		r ? failed++ : passed++;
		free(entries[i]);
	}
	free(entries);
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
