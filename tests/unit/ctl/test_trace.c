/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing traces, and finding them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "ctl/trace.h"
#include "ctl/trace_gen.h"
#include "ctl/util.h"

#define LINE                                                                                       \
	"{\"timestamp\": 5, \"input_length\": 1000, \"output_length\": 7, \"hash_ids\": [0, 46]}\n"

static int read_text(const char *text, size_t max, struct trace *t, char error[TRACE_ERROR])
{
	FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int r;

	assert_non_null(f);
	*error = '\0';
	r = trace_read(f, max, t, error);
	assert_int_equal(fclose(f), 0);
	return r;
}

static void trace_read__fields(void **state)
{
	struct trace t = TRACE_NULL;
	char error[TRACE_ERROR];

	assert_int_equal(read_text(LINE "\n"
				   "{\"hash_ids\":[],\"output_length\":0,\"input_length\":0,"
				   "\"timestamp\":3000.0,\"more\":{}}", 0, &t, error), 0);
	assert_int_equal(t.n_requests, 2);
	assert_int_equal(t.requests[0].timestamp_ms, 5);
	assert_int_equal(t.requests[0].input_length, 1000);
	assert_int_equal(t.requests[0].output_length, 7);
	assert_int_equal(t.requests[0].n_blocks, 2);
	assert_int_equal(t.blocks[1], 46);
	assert_int_equal(t.requests[1].timestamp_ms, 3000);
	assert_int_equal(t.requests[1].n_blocks, 0);
	assert_int_equal(t.max_blocks, 2);
	trace_done(&t);
}

static void trace_read__stops_at_max(void **state)
{
	struct trace t = TRACE_NULL;
	char error[TRACE_ERROR];

	/* what stands behind is not even looked at */
	assert_int_equal(read_text(LINE LINE "rubbish", 2, &t, error), 0);
	assert_int_equal(t.n_requests, 2);
	trace_done(&t);
}

static void trace_read__malformed_lines_are_named(void **state)
{
	static const struct { const char *line; const char *why; } cases[] = {
		{ "rubbish", "not a JSON object" },
		{ "[1, 2]", "not a JSON object" },
		{ "{\"timestamp\": 5", "not a JSON object" },
		{ "{}", "timestamp: missing" },
		{ "{\"timestamp\": -1}", "timestamp: out of range" },
		{ "{\"timestamp\": \"1\"}", "timestamp: not a number" },
		{ "{\"timestamp\": 1e300}", "timestamp: out of range" },
		{ "{\"timestamp\": 9, \"input_length\": 4294967296}",
		  "input_length: out of range" },
		{ "{\"timestamp\": 9, \"input_length\": 1}", "output_length: missing" },
		{ "{\"timestamp\": 9, \"input_length\": 1, \"output_length\": 1}",
		  "hash_ids: wanted a list" },
		{ "{\"timestamp\": 9, \"input_length\": 1, \"output_length\": 1, "
		  "\"hash_ids\": [0, -4]}", "hash_ids[1]" },
		{ "{\"timestamp\": 9, \"input_length\": 1, \"output_length\": 1, "
		  "\"hash_ids\": [0.5]}", "hash_ids[0]" },
		{ "{\"timestamp\": 9, \"timestamp\": 9}", "not a JSON object" },
		{ "{\"timestamp\": 4, \"input_length\": 1, \"output_length\": 1, "
		  "\"hash_ids\": [0]}", "earlier than the line before" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct trace t = TRACE_NULL;
		char text[512], error[TRACE_ERROR];

		(void)snprintf(text, sizeof(text), LINE "\n" "%s\n" LINE, cases[i].line);
		assert_int_equal(read_text(text, 0, &t, error), -EBADMSG);
		/* the empty line counts as one */
		if (strncmp(error, "line 3: ", 8) || !strstr(error, cases[i].why))
			fail_msg("%s: told as \"%s\"", cases[i].line, error);
		assert_int_equal(t.n_requests, 1);
		trace_done(&t);
	}
}

static void trace_read__bounds_a_request(void **state)
{
	struct trace t = TRACE_NULL;
	char error[TRACE_ERROR], *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	fputs("{\"timestamp\": 5, \"input_length\": 1, \"output_length\": 7, \"hash_ids\": [0", f);
	for (unsigned i = 0; i < TRACE_BLOCKS_MAX; i++)
		fprintf(f, ",%u", i);
	fputs("]}\n", f);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(read_text(text, 0, &t, error), -EBADMSG);
	assert_non_null(strstr(error, "line 1: hash_ids"));
	trace_done(&t);
	free(text);
}

static void trace_write__reads_back(void **state)
{
	struct trace a = TRACE_NULL, b = TRACE_NULL;
	char error[TRACE_ERROR], *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	assert_int_equal(trace_generate(300, 9, &a), 0);
	assert_int_equal(trace_write(f, &a), 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(read_text(text, 0, &b, error), 0);
	assert_int_equal(a.n_requests, b.n_requests);
	assert_int_equal(a.n_blocks, b.n_blocks);
	assert_int_equal(a.max_blocks, b.max_blocks);
	assert_memory_equal(a.blocks, b.blocks, a.n_blocks * sizeof(*a.blocks));
	for (size_t i = 0; i < a.n_requests; i++) {
		assert_int_equal(a.requests[i].timestamp_ms, b.requests[i].timestamp_ms);
		assert_int_equal(a.requests[i].first, b.requests[i].first);
	}
	trace_done(&a);
	trace_done(&b);
	free(text);
}

static void trace_write__full_disk_is_told(void **state)
{
	struct trace t = TRACE_NULL;
	FILE *f = fopen("/dev/full", "w");

	assert_non_null(f);
	assert_int_equal(trace_generate(10, 1, &t), 0);
	assert_int_equal(trace_write(f, &t), -ENOSPC);
	(void)fclose(f);	/* fails again: the same bytes */
	trace_done(&t);
}

static void find_expect(const char *name, const char *ending)
{
	char *path = trace_find(name);

	if (!ending) {
		assert_null(path);
		assert_int_equal(errno, ENOENT);
		return;
	}
	assert_non_null(path);
	assert_true(strlen(path) >= strlen(ending));
	assert_string_equal(path + strlen(path) - strlen(ending), ending);
	free(path);
}

static void trace_find__by_path_and_name(void **state)
{
	char folder[] = "/tmp/larder-traces-XXXXXX", path[64];
	FILE *f;

	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/chat_trace.jsonl", folder);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(setenv("LARDER_TRACES", folder, 1), 0);
	find_expect("chat", "/chat_trace.jsonl");
	find_expect("chat_trace", "/chat_trace.jsonl");
	find_expect("chat_trace.jsonl", "/chat_trace.jsonl");
	find_expect("other", NULL);
	find_expect("./nowhere.jsonl", "./nowhere.jsonl");	/* a path is taken at its word */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

static void trace_folder__environment(void **state)
{
	char *folder;

	assert_int_equal(setenv("HOME", "/home/h", 1), 0);
	assert_int_equal(unsetenv("LARDER_TRACES"), 0);
	assert_int_equal(unsetenv("XDG_DATA_HOME"), 0);
	folder = trace_folder();
	assert_string_equal(folder, "/home/h/.local/share/larder/traces");
	free(folder);
	assert_int_equal(setenv("XDG_DATA_HOME", "/data", 1), 0);
	folder = trace_folder();
	assert_string_equal(folder, "/data/larder/traces");
	free(folder);
	assert_int_equal(setenv("LARDER_TRACES", "/t", 1), 0);
	folder = trace_folder();
	assert_string_equal(folder, "/t");
	free(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace_read__fields),
		cmocka_unit_test(trace_read__stops_at_max),
		cmocka_unit_test(trace_read__malformed_lines_are_named),
		cmocka_unit_test(trace_read__bounds_a_request),
		cmocka_unit_test(trace_write__reads_back),
		cmocka_unit_test(trace_write__full_disk_is_told),
		cmocka_unit_test(trace_find__by_path_and_name),
		cmocka_unit_test(trace_folder__environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
