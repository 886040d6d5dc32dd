/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading traces. jansson parses each line; this file says what a line must be. A trace comes from
 * anywhere: counts are bounded, numbers are range-checked, and what is wrong is told with its line.
 */
#include "ctl/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "ctl/util.h"

void trace_done(struct trace *t)
{
	free(t->requests);
	free(t->blocks);
	*t = TRACE_NULL;
}

/* Makes room for @more elements of @size behind @used. 0 or -ENOMEM. */
static int trace_grow(void **array, size_t used, size_t more, size_t *room, size_t size)
{
	size_t want = *room ? *room : 1024;
	void *p;

	while (want < used + more)
		want *= 2;
	if (want == *room)
		return 0;
	p = reallocarray(*array, want, size);
	if (!p)
		return -ENOMEM;
	*array = p;
	*room = want;
	return 0;
}

int trace_add(struct trace *t, uint64_t timestamp_ms, uint32_t input_length, uint32_t output_length,
	      const uint64_t *blocks, uint32_t n)
{
	if (trace_grow((void **)&t->requests, t->n_requests, 1, &t->requests_room,
		       sizeof(*t->requests)) < 0 ||
	    trace_grow((void **)&t->blocks, t->n_blocks, n, &t->blocks_room,
		       sizeof(*t->blocks)) < 0)
		return -ENOMEM;
	t->requests[t->n_requests++] = (struct trace_request){
		.timestamp_ms = timestamp_ms,
		.input_length = input_length,
		.output_length = output_length,
		.n_blocks = n,
		.first = t->n_blocks,
	};
	if (n)
		memcpy(t->blocks + t->n_blocks, blocks, n * sizeof(*blocks));
	t->n_blocks += n;
	t->max_blocks = MAX(t->max_blocks, n);
	return 0;
}

/* A member that is an integer between 0 and @max. NULL, or what is wrong with it. */
static const char *trace_number(const json_t *object, const char *name, uint64_t max, uint64_t *ret)
{
	const json_t *v = json_object_get(object, name);

	/* some writers print whole numbers as "3000.0" */
	if (json_is_real(v)) {
		double d = json_real_value(v);

		if (d < 0 || d > 9007199254740992.0 || d > (double)max)
			return "out of range";
		*ret = (uint64_t)d;
		return NULL;
	}
	if (!v)
		return "missing";
	if (!json_is_integer(v))
		return "not a number";
	if (json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) > max)
		return "out of range";
	*ret = (uint64_t)json_integer_value(v);
	return NULL;
}

/* One parsed line. 0, -EBADMSG with @error, -ENOMEM. */
static int trace_line(const json_t *object, struct trace *t, uint64_t *blocks,
		      char error[TRACE_ERROR])
{
	static const char *const names[] = { "timestamp", "input_length", "output_length" };
	const json_t *ids = json_object_get(object, "hash_ids");
	uint64_t v[3];
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *wrong = trace_number(object, names[i],
						 i ? (uint64_t)UINT32_MAX : (uint64_t)INT64_MAX / 2,
						 &v[i]);

		if (wrong) {
			(void)snprintf(error, TRACE_ERROR, "%s: %s", names[i], wrong);
			return -EBADMSG;
		}
	}
	n = json_array_size(ids);
	if (!json_is_array(ids) || n > TRACE_BLOCKS_MAX) {
		(void)snprintf(error, TRACE_ERROR, "hash_ids: wanted a list of at most %u numbers",
			       TRACE_BLOCKS_MAX);
		return -EBADMSG;
	}
	for (size_t i = 0; i < n; i++) {
		const json_t *id = json_array_get(ids, i);

		if (!json_is_integer(id) || json_integer_value(id) < 0) {
			(void)snprintf(error, TRACE_ERROR, "hash_ids[%zu]: not a number from 0", i);
			return -EBADMSG;
		}
		blocks[i] = (uint64_t)json_integer_value(id);
	}
	if (t->n_requests && v[0] < t->requests[t->n_requests - 1].timestamp_ms) {
		(void)snprintf(error, TRACE_ERROR, "timestamp: earlier than the line before");
		return -EBADMSG;
	}
	return trace_add(t, v[0], (uint32_t)v[1], (uint32_t)v[2], blocks, (uint32_t)n);
}

static int trace_text(const char *text, size_t len, struct trace *t, uint64_t *blocks,
		      char error[TRACE_ERROR])
{
	json_error_t why;
	json_t *object = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	int r;

	if (!json_is_object(object)) {
		(void)snprintf(error, TRACE_ERROR, "not a JSON object%s%.100s",
			       object ? "" : ": ", object ? "" : why.text);
		json_decref(object);
		return -EBADMSG;
	}
	r = trace_line(object, t, blocks, error);
	json_decref(object);
	return r;
}

int trace_read(FILE *f, size_t max, struct trace *t, char error[TRACE_ERROR])
{
	_cleanup_free_ uint64_t *blocks = calloc(TRACE_BLOCKS_MAX, sizeof(*blocks));
	_cleanup_free_ char *line = NULL;
	char why[TRACE_ERROR];
	size_t room = 0;
	uint64_t number = 0;
	ssize_t n = 0;
	int r = blocks ? 0 : -ENOMEM;

	while (!r && (!max || t->n_requests < max)) {
		errno = 0;
		n = getline(&line, &room, f);
		if (n < 0)
			break;
		number++;
		if (line[strspn(line, " \t\r\n")] == '\0' && strlen(line) == (size_t)n)
			continue;
		r = trace_text(line, (size_t)n, t, blocks, why);
	}
	if (!r && n < 0 && !feof(f))
		r = errno ? -errno : -EIO;
	if (r == -EBADMSG)
		(void)snprintf(error, TRACE_ERROR, "line %" PRIu64 ": %.*s", number,
			       TRACE_ERROR - 32, why);
	else if (r)
		(void)snprintf(error, TRACE_ERROR, "line %" PRIu64 ": %s", number, strerror(-r));
	return r;
}

int trace_write(FILE *f, const struct trace *t)
{
	for (size_t i = 0; i < t->n_requests; i++) {
		const struct trace_request *q = &t->requests[i];

		fprintf(f, "{\"timestamp\": %" PRIu64 ", \"input_length\": %" PRIu32
			", \"output_length\": %" PRIu32 ", \"hash_ids\": [",
			q->timestamp_ms, q->input_length, q->output_length);
		for (uint32_t k = 0; k < q->n_blocks; k++)
			fprintf(f, "%s%" PRIu64, k ? ", " : "", t->blocks[q->first + k]);
		fputs("]}\n", f);
	}
	if (fflush(f) == EOF || ferror(f))
		return errno ? -errno : -EIO;
	return 0;
}

char *trace_folder(void)
{
	const char *set = getenv("LARDER_TRACES"), *data = getenv("XDG_DATA_HOME");
	const char *home = getenv("HOME");
	char *path = NULL;
	int n;

	if (set && *set)
		return strdup(set);
	if (data && *data)
		n = asprintf(&path, "%s/larder/traces", data);
	else
		n = asprintf(&path, "%s/.local/share/larder/traces", home ? home : "");
	return n < 0 ? NULL : path;
}

char *trace_find(const char *name)
{
	static const char *const endings[] = { "", ".jsonl", "_trace.jsonl" };
	_cleanup_free_ char *folder = NULL;

	if (strchr(name, '/') || access(name, R_OK) == 0)
		return strdup(name);
	folder = trace_folder();
	if (!folder) {
		errno = ENOMEM;
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		char *path;

		if (asprintf(&path, "%s/%s%s", folder, name, endings[i]) < 0) {
			errno = ENOMEM;
			return NULL;
		}
		if (access(path, R_OK) == 0)
			return path;
		free(path);
	}
	errno = ENOENT;
	return NULL;
}
