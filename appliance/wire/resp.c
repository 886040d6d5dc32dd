/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of commands and the writer of replies; resp.h says how they are used. */
#include "wire/resp.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

#define RESP_LINE_MAX 32u	/* a type byte, a number, CR LF; more is no number */

bool resp_number(const void *text, size_t len, int64_t *ret)
{
	const char *p = text;
	bool minus = len > 0 && p[0] == '-';
	uint64_t n = 0, most = (uint64_t)INT64_MAX + minus;

	if (len == minus)
		return false;
	for (size_t i = minus; i < len; i++) {
		uint64_t digit = (uint64_t)(uint8_t)p[i] - '0';

		if (digit > 9 || n > (most - digit) / 10)
			return false;
		n = 10 * n + digit;
	}
	*ret = minus ? (int64_t)(0 - n) : (int64_t)n;
	return true;
}

static enum resp_step reader_break(struct resp_reader *r, const char *fault)
{
	r->state = RESP_AT_FAULT;
	r->fault = fault;
	return RESP_BROKEN;
}

/* A line "<type><number>\r\n" at @data. 1: all of it; 0: not yet; -1: it is none. */
static int reader_line(const uint8_t *data, size_t len, char type, int64_t *ret, size_t *used)
{
	const uint8_t *end;
	size_t look = MIN(len, (size_t)RESP_LINE_MAX);

	if (len == 0)
		return 0;
	if (data[0] != type)
		return -1;
	end = memchr(data, '\r', look);
	if (!end)
		return look == RESP_LINE_MAX || memchr(data, '\n', look) ? -1 : 0;
	if (!resp_number(data + 1, (size_t)(end - data) - 1, ret))
		return -1;
	if ((size_t)(end - data) + 1 == len)
		return 0;
	if (end[1] != '\n')
		return -1;
	*used = (size_t)(end - data) + 2;
	return 1;
}

static bool reader_begins(const uint8_t *data, size_t len, const char *word)
{
	return len >= strlen(word) && memcmp(data, word, strlen(word)) == 0;
}

/* Who else could have knocked. */
static const char *reader_stranger(const uint8_t *data, size_t len)
{
	static const char *const http[] = { "GET ", "POST ", "HEAD ", "PUT ", "OPTIONS ", "PRI ",
					    "DELETE ", "CONNECT " };

	if (len >= 2 && data[0] == 0x16 && data[1] == 0x03)
		return "it speaks TLS, and this port does not";
	for (size_t i = 0; i < ARRAY_SIZE(http); i++)
		if (reader_begins(data, len, http[i]))
			return "it speaks HTTP, and this port does not";
	if (reader_begins(data, len, "LRDR"))
		return "it speaks Larder's own protocol, and this port does not";
	return "a command begins with '*': inline commands are not served";
}

static enum resp_step reader_command(struct resp_reader *r, const uint8_t *data, size_t len,
				     size_t *used)
{
	int64_t n = 0;
	int line;

	*used = 0;
	/* empty commands are passed over, as Redis does */
	do {
		size_t line_len = 0;

		line = reader_line(data + *used, len - *used, '*', &n, &line_len);
		if (line > 0)
			*used += line_len;
	} while (line > 0 && n <= 0);
	if (line == 0 && *used == 0)
		return RESP_MORE;
	if (line == 0)
		return RESP_BYTES;	/* of no argument: only to be passed over */
	if (line < 0 && data[*used] != '*')
		return reader_break(r, reader_stranger(data + *used, len - *used));
	if (line < 0 || n > (int64_t)RESP_ARGUMENTS_MAX)
		return reader_break(r, "invalid multibulk length");
	*r = (struct resp_reader){ .state = RESP_AT_LENGTH, .arguments = (uint32_t)n };
	return RESP_COMMAND;
}

static enum resp_step reader_length(struct resp_reader *r, const uint8_t *data, size_t len,
				    size_t *used)
{
	int64_t n = 0;
	int line = reader_line(data, len, '$', &n, used);

	if (line == 0)
		return RESP_MORE;
	if (line < 0 && data[0] != '$')
		return reader_break(r, "expected '$' before an argument");
	if (line < 0 || n < 0 || n > (int64_t)RESP_ARGUMENT_BYTES_MAX)
		return reader_break(r, "invalid bulk length");
	r->length = r->left = (uint64_t)n;
	r->state = n > 0 ? RESP_AT_BYTES : RESP_AT_LINE_END;
	return RESP_ARGUMENT;
}

static enum resp_step reader_line_end(struct resp_reader *r, const uint8_t *data, size_t len,
				      size_t *used)
{
	if ((len > 0 && data[0] != '\r') || (len > 1 && data[1] != '\n'))
		return reader_break(r, "an argument is not as long as it was said to be");
	if (len < 2)
		return RESP_MORE;
	*used = 2;
	r->argument++;
	r->state = r->argument == r->arguments ? RESP_AT_DONE : RESP_AT_LENGTH;
	return RESP_END;
}

enum resp_step resp_reader_step(struct resp_reader *r, const uint8_t *data, size_t len,
				size_t *used)
{
	*used = 0;
	switch ((enum resp_reader_state)r->state) {
	case RESP_AT_COMMAND:
		return reader_command(r, data, len, used);
	case RESP_AT_LENGTH:
		return reader_length(r, data, len, used);
	case RESP_AT_BYTES:
		if (len == 0)
			return RESP_MORE;
		*used = (size_t)MIN(r->left, (uint64_t)len);
		resp_reader_passed(r, *used);
		return RESP_BYTES;
	case RESP_AT_LINE_END:
		return reader_line_end(r, data, len, used);
	case RESP_AT_DONE:
		*r = (struct resp_reader){ .state = RESP_AT_COMMAND };
		return RESP_DONE;
	case RESP_AT_FAULT:
		break;
	}
	return RESP_BROKEN;
}

void resp_reader_passed(struct resp_reader *r, uint64_t n)
{
	r->left -= n;
	if (r->left == 0)
		r->state = RESP_AT_LINE_END;
}

/* --- replies --------------------------------------------------------------------------------- */

void resp_begin(struct resp_writer *w, void *to, size_t room, bool three)
{
	*w = (struct resp_writer){ .at = to, .room = room, .three = three };
}

static void writer_add(struct resp_writer *w, const void *data, size_t len)
{
	if (w->is_full || w->room - w->len < len) {
		w->is_full = true;
		return;
	}
	if (len > 0)
		memcpy(w->at + w->len, data, len);
	w->len += len;
}

static void writer_line(struct resp_writer *w, const char *fmt, ...) _printf_(2, 3);
static void writer_line(struct resp_writer *w, const char *fmt, ...)
{
	char line[64];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);	/* numbers only: they fit */
	va_end(ap);
	writer_add(w, line, (size_t)n);
	writer_add(w, "\r\n", 2);
}

void resp_write_simple(struct resp_writer *w, const char *text)
{
	writer_add(w, "+", 1);
	writer_add(w, text, strlen(text));
	writer_add(w, "\r\n", 2);
}

void resp_write_error(struct resp_writer *w, const char *code, const char *text)
{
	size_t from;

	writer_add(w, "-", 1);
	writer_add(w, code, strlen(code));
	writer_add(w, " ", 1);
	from = w->len;
	writer_add(w, text, strlen(text));
	for (size_t i = from; i < w->len; i++)
		if ((uint8_t)w->at[i] < 0x20)
			w->at[i] = ' ';
	writer_add(w, "\r\n", 2);
}

void resp_write_integer(struct resp_writer *w, int64_t n)
{
	writer_line(w, ":%" PRId64, n);
}

void resp_write_bulk_head(struct resp_writer *w, uint64_t len)
{
	writer_line(w, "$%" PRIu64, len);
}

void resp_write_bulk(struct resp_writer *w, const void *data, size_t len)
{
	resp_write_bulk_head(w, len);
	writer_add(w, data, len);
	writer_add(w, "\r\n", 2);
}

void resp_write_text(struct resp_writer *w, const char *text)
{
	resp_write_bulk(w, text, strlen(text));
}

void resp_write_null(struct resp_writer *w)
{
	if (w->three)
		writer_add(w, "_\r\n", 3);
	else
		writer_add(w, "$-1\r\n", 5);
}

void resp_write_array(struct resp_writer *w, uint64_t n)
{
	writer_line(w, "*%" PRIu64, n);
}

void resp_write_map(struct resp_writer *w, uint64_t pairs)
{
	if (w->three)
		writer_line(w, "%%%" PRIu64, pairs);
	else
		resp_write_array(w, 2 * pairs);
}
