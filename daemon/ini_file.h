/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ini file, line by line. inih walks it; this adds the number of the line, which inih keeps to
 * itself, and the whole line, which it cuts after some 200 bytes.
 */
#ifndef LARDER_DAEMON_INI_FILE_H
#define LARDER_DAEMON_INI_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct ini_line {
	const char *path;
	unsigned number;	/* 1 is the first */
	const char *section, *key, *value;
	/* too long for inih: key and value say nothing, @raw does */
	bool cut;
	const char *raw;	/* as it stands in the file, without its newline */
};

/*
 * Calls @fn for each setting; it returns 0, or -errno after having told the fault, which ends it.
 * 0, what @fn returned, or -errno with a sentence in @error that names file and line.
 */
int ini_file_read(const char *path, int (*fn)(void *user, const struct ini_line *l), void *user,
		  char *error, size_t size);

#endif
