/* SPDX-License-Identifier: Apache-2.0 */
#include "ini_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ini.h>

struct ini_file {
	FILE *file;
	struct ini_line line;
	char *raw;
	size_t room;
	int (*fn)(void *user, const struct ini_line *l);
	void *user;
	int error;
};

/*
 * Hands inih the next line. In the place of one that is too long it gets a setting that fits: the
 * handler is then told to look at the line itself.
 */
static char *ini_file_line(char *buffer, int size, void *stream)
{
	struct ini_file *f = stream;
	ssize_t n = getline(&f->raw, &f->room, f->file);
	size_t blank;

	if (n < 0)
		return NULL;
	f->line.number++;
	f->raw[strcspn(f->raw, "\r\n")] = '\0';
	f->line.raw = f->raw;
	blank = strspn(f->raw, " \t");
	f->line.cut = strlen(f->raw) + 2 > (size_t)size && !strchr(";#[", f->raw[blank]);
	(void)snprintf(buffer, (size_t)size, "%s", f->line.cut ? "cut = cut" : f->raw);
	return buffer;
}

static int ini_file_handler(void *user, const char *section, const char *key, const char *value)
{
	struct ini_file *f = user;

	if (f->error)
		return 0;	/* inih goes on to the end all the same */
	f->line.section = section;
	f->line.key = key;
	f->line.value = value;
	f->error = f->fn(f->user, &f->line);
	return f->error == 0;
}

int ini_file_read(const char *path, int (*fn)(void *user, const struct ini_line *l), void *user,
		  char *error, size_t size)
{
	struct ini_file f = { .line = { .path = path }, .fn = fn, .user = user,
			      .file = fopen(path, "re") };
	int r;

	if (!f.file) {
		r = -errno;
		(void)snprintf(error, size, "%s: can not be read: %s", path, strerror(-r));
		return r;
	}
	errno = 0;
	r = ini_parse_stream(ini_file_line, &f, ini_file_handler, &f);
	if (f.error) {
		r = f.error;
	} else if (ferror(f.file) || r < 0) {
		r = errno ? -errno : -EIO;
		(void)snprintf(error, size, "%s: can not be read: %s", path, strerror(-r));
	} else if (r) {
		(void)snprintf(error, size,
			       "%s:%d: not a [section], a key = value, or a comment", path, r);
		r = -EINVAL;
	}
	(void)fclose(f.file);	/* only read from */
	free(f.raw);
	return r;
}
