/* SPDX-License-Identifier: Apache-2.0 */
/* The exporter's text: bounds at their edges, numbers without loss, names inside their quotes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "exporter/metrics.h"
#include "base/hist.h"
#include "view/ledger.h"

/* ctl/control.c wants it; nothing here fails that way */
int ctl_fail(int code, const char *fmt, ...);
int ctl_fail(int code, const char *fmt, ...)
{
	return code;
}

static char *text_of_latency(const struct larder_latency *l)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	metrics_latency(f, l);
	assert_int_equal(fclose(f), 0);
	return text;
}

static uint64_t le(const char *text, const char *op, const char *bound)
{
	char line[128];
	const char *at;

	snprintf(line, sizeof(line), "_bucket{operation=\"%s\",le=\"%s\"} ", op, bound);
	at = strstr(text, line);
	if (!at)
		fail_msg("no %s", line);
	return strtoull(at + strlen(line), NULL, 10);
}

static void bounds__are_right_at_their_edges(void **state)
{
	static struct larder_latency l;
	static const uint64_t values[] = { 0, 255, 256, 257, 384, 385, 1024, 1025, 1536, 1ull << 36,
					   (1ull << 36) + 1, UINT64_MAX };
	char *text;

	memset(&l, 0, sizeof(l));
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		l.buckets[LARDER_LATENCY_GET][hist_bucket(values[i])]++;
	l.sum_ns[LARDER_LATENCY_GET] = 1500000001;
	text = text_of_latency(&l);
	assert_int_equal(le(text, "get", "0.000000256"), 3);
	assert_int_equal(le(text, "get", "0.000000384"), 5);
	assert_int_equal(le(text, "get", "0.000000512"), 6);
	assert_int_equal(le(text, "get", "0.000001024"), 7);
	assert_int_equal(le(text, "get", "0.000001536"), 9);
	assert_int_equal(le(text, "get", "68.719476736"), 10);
	assert_int_equal(le(text, "get", "+Inf"), 12);
	assert_int_equal(le(text, "put", "+Inf"), 0);
	assert_non_null(strstr(text, "_count{operation=\"get\"} 12\n"));
	assert_non_null(strstr(text, "_sum{operation=\"get\"} 1.500000001\n"));
	free(text);
}

/* Every bound is one of the ledger's, so that nothing of a bucket is on the wrong side of it. */
static void bounds__are_bounds_of_the_ledger(void **state)
{
	static struct larder_latency l;
	unsigned n = 0;
	char *text = text_of_latency(&l), *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *at = strstr(line, "le=\"0.");
		unsigned i = 0;
		uint64_t ns;

		if (!at || !strstr(line, "operation=\"exists\""))
			continue;
		ns = (uint64_t)(strtod(at + 4, NULL) * 1e9 + 0.5);
		while (i < LARDER_LATENCY_BUCKETS && ledger_bucket_bound(i) < ns)
			i++;
		assert_int_equal(ledger_bucket_bound(i), ns);
		n++;
	}
	assert_int_equal(n, 44);
	free(text);
}

static void seconds__lose_nothing(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0" }, { 1, "0.000000001" }, { 1500000000, "1.5" }, { 3000000000u, "3" },
		{ UINT64_MAX, "18446744073.709551615" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[64] = "";
		FILE *f = fmemopen(text, sizeof(text), "w");

		metrics_seconds(f, cases[i].ns);
		fclose(f);
		assert_string_equal(text, cases[i].text);
	}
}

static char *page_of(struct ledger *ledger)
{
	struct ledger_reader r = LEDGER_READER_NULL;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int fd = ledger_read_fd(ledger);

	assert_int_equal(ledger_reader_open(fd, &r), 0);
	metrics_print(f, &r, 5000000000u);
	ledger_reader_close(&r);
	close(fd);
	fclose(f);
	return text;
}

static void rows__are_sums_over_writers_of_each_tenant(void **state)
{
	struct ledger *l;
	char *text;
	uint32_t slot;

	assert_int_equal(ledger_open(3, NULL, &l), 0);
	slot = ledger_slot(l, 7, "team-a");
	ledger_usage(l, 0, slot)->ops[LARDER_OP_GET] = 5;
	ledger_usage(l, 2, slot)->ops[LARDER_OP_GET] = 6;
	ledger_usage(l, 1, slot)->bytes[LARDER_CAUSE_CLIENT_READ] = UINT64_MAX;
	ledger_usage(l, 1, slot)->refused[LARDER_LIMIT_objects] = 3;
	l->gauges[slot].objects = 9;
	l->effective[slot * LARDER_LEDGER_LIMITS + LARDER_LIMIT_weight] = 100;
	l->node->heartbeat_ns = 4000000000u;
	/* a word of another process: it stays inside its quotes */
	strcpy(l->names[ledger_slot(l, 8, "team-b")].tenant, "a\"b\\c\nd");
	text = page_of(l);
	assert_non_null(strstr(text, "\nlarder_up 1\n"));
	assert_non_null(strstr(text, "\nlarder_operations_total{tenant=\"team-a\","
				     "operation=\"get\"} 11\n"));
	assert_non_null(strstr(text, "{tenant=\"team-a\",cause=\"client_read\"} "
				     "18446744073709551615\n"));
	assert_non_null(strstr(text, "{tenant=\"team-a\",limit=\"objects\"} 3\n"));
	assert_non_null(strstr(text, "\nlarder_objects{tenant=\"team-a\"} 9\n"));
	assert_non_null(strstr(text, "\nlarder_limit{tenant=\"team-a\",limit=\"weight\"} 100\n"));
	assert_non_null(strstr(text, "\nlarder_heartbeat_age_seconds 1\n"));
	assert_non_null(strstr(text, "\nlarder_objects{tenant=\"a\\\"b\\\\c?d\"} 0\n"));
	assert_null(strstr(text, "operation=\"put_part\""));
	free(text);
	ledger_close(l);
}

static void no_node__is_a_figure(void **state)
{
	char text[256] = "";
	FILE *f = fmemopen(text, sizeof(text), "w");

	metrics_print(f, NULL, 0);
	fclose(f);
	assert_non_null(strstr(text, "\nlarder_up 0\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds__are_right_at_their_edges),
		cmocka_unit_test(bounds__are_bounds_of_the_ledger),
		cmocka_unit_test(seconds__lose_nothing),
		cmocka_unit_test(rows__are_sums_over_writers_of_each_tenant),
		cmocka_unit_test(no_node__is_a_figure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
