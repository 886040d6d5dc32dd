/* SPDX-License-Identifier: Apache-2.0 */
/* What goes to standard output: a table for a person or one JSON document for a program. */
#ifndef LARDERCTL_OUTPUT_H
#define LARDERCTL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "ctl/util.h"

struct table_column {
	const char *name;
	bool right;		/* numbers */
};

/*
 * A table under construction. A failure on the way is kept and told by table_print, so that its
 * user need not look after each cell. @name stays the caller's.
 */
struct table;
struct table *table_new(const struct table_column *columns, size_t n);
struct table *table_free(struct table *t);	/* always NULL */
void table_row(struct table *t);
void table_cell(struct table *t, size_t column, const char *fmt, ...) _printf_(3, 4);
/* Prints and frees it. The exit code; a fault was told. */
int table_print(struct table *t);

/* Sets a member; a NULL @value or a lack of memory marks the object, output_json tells it. */
void json_set(json_t *object, const char *name, json_t *value);
void json_set_u64(json_t *object, const char *name, uint64_t value);
void json_set_text(json_t *object, const char *name, const char *value);
/* Prints the document with a newline and drops it. NULL: out of memory. The exit code. */
int output_json(json_t *document);
/* Flushes standard output: a full disk is a failure too. The exit code. */
int output_end(void);

/* Base64 of @data, NUL-terminated; NULL: out of memory. */
char *output_base64(const void *data, size_t len);

#endif
