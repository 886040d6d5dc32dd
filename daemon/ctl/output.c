/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables by libsmartcols, JSON by jansson. Both libraries report a lack of memory from every call;
 * it is remembered (a table's `error`, the file's json_broken) and told at the end in one place.
 */
#include "ctl/output.h"

#include <errno.h>
#include <libsmartcols/libsmartcols.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

struct table {
	struct libscols_table *scols;
	struct libscols_line *line;
	int error;
};

static bool json_broken;

struct table *table_free(struct table *t)
{
	if (!t)
		return NULL;
	scols_unref_table(t->scols);
	free(t);
	return NULL;
}

struct table *table_new(const struct table_column *columns, size_t n)
{
	struct table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->scols = scols_new_table();
	if (!t->scols)
		return table_free(t);
	for (size_t i = 0; i < n; i++) {
		int flags = columns[i].right ? SCOLS_FL_RIGHT : 0;

		if (!scols_table_new_column(t->scols, columns[i].name, 0, flags))
			return table_free(t);
	}
	return t;
}

void table_row(struct table *t)
{
	if (!t || t->error)
		return;
	t->line = scols_table_new_line(t->scols, NULL);
	if (!t->line)
		t->error = -ENOMEM;
}

void table_cell(struct table *t, size_t column, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	if (!t || t->error)
		return;
	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		t->error = -ENOMEM;
	else
		t->error = scols_line_refer_data(t->line, column, text);
	if (t->error && n >= 0)
		free(text);
}

int output_end(void)
{
	if (fflush(stdout) == EOF || ferror(stdout))
		return ctl_fail(CTL_FAILED, "standard output: %s", strerror(errno));
	return CTL_DONE;
}

int table_print(struct table *t)
{
	int r = t ? t->error : -ENOMEM;

	if (!r)
		r = scols_print_table(t->scols);
	table_free(t);
	if (r)
		return ctl_fail(CTL_FAILED, "table: %s", strerror(-r));
	return output_end();
}

void json_set(json_t *object, const char *name, json_t *value)
{
	if (json_object_set_new(object, name, value))
		json_broken = true;
}

void json_set_u64(json_t *object, const char *name, uint64_t value)
{
	/* JSON's integers end at 2^63 in most readers; no figure of ours gets there */
	json_set(object, name, json_integer((json_int_t)MIN(value, (uint64_t)INT64_MAX)));
}

void json_set_text(json_t *object, const char *name, const char *value)
{
	json_t *text = json_string(value);
	_cleanup_free_ char *ascii = NULL;

	/* a file's name may be no UTF-8, a JSON text must be */
	if (!text) {
		ascii = strdup(value);
		for (char *p = ascii; p && *p; p++)
			*p = (unsigned char)*p < 0x80 ? *p : '?';
		text = ascii ? json_string(ascii) : NULL;
	}
	json_set(object, name, text);
}

int output_json(json_t *document)
{
	int r = -1;

	if (document && !json_broken)
		r = json_dumpf(document, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	json_decref(document);
	json_broken = false;
	if (r)
		return ctl_fail(CTL_FAILED, "JSON: out of memory or standard output is closed");
	putchar('\n');
	return output_end();
}

char *output_base64(const void *data, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = data;
	char *text = malloc((len + 2) / 3 * 4 + 1), *out = text;

	if (!text)
		return NULL;
	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		uint32_t v = (uint32_t)in[i] << 16;

		if (left > 1)
			v |= (uint32_t)in[i + 1] << 8;
		if (left > 2)
			v |= in[i + 2];
		*out++ = digits[v >> 18];
		*out++ = digits[v >> 12 & 63];
		*out++ = left > 1 ? digits[v >> 6 & 63] : '=';
		*out++ = left > 2 ? digits[v & 63] : '=';
	}
	*out = '\0';
	return text;
}
