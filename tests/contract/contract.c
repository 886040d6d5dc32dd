/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport contract (appliance/transport/transport.h, letters a to j; k: sleeping and
 * addresses), one suite run over every transport of the registry. A case's name begins with the
 * letter that it proves.
 *
 *	contract [TRANSPORT [CASE]]	LARDER_TEST_SEED repeats a run
 *
 * rdma runs where LARDER_TEST_RDMA holds the address of an RDMA device's interface.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

#define MAX_CASES 128u

static struct subject subjects[] = {
	{ .name = "tcp", .other_process = true },
	{ .name = "shm", .other_process = true },
	{ .name = "rdma", .other_process = true, .no_gates = true, .cm_allocates = true,
	  .flushes = true },
	{ .name = "loop" },
};

static struct CMUnitTest tests[MAX_CASES];
static char names[MAX_CASES][96];
static size_t n_tests;

static void add_cases(struct subject *s, const struct CMUnitTest *cases, size_t n,
		      const char *only)
{
	for (size_t i = 0; i < n; i++) {
		if (only && strcmp(cases[i].name, only) != 0)
			continue;
		if (n_tests == MAX_CASES)
			abort();
		snprintf(names[n_tests], sizeof(names[0]), "%s__%s", s->name, cases[i].name);
		tests[n_tests] = cases[i];
		tests[n_tests].name = names[n_tests];
		tests[n_tests].initial_state = s;
		n_tests++;
	}
}

/* NULL, or why it can not be run here. */
static const char *subject_fault(const struct subject *s)
{
	struct transport_config config = pair_config();
	struct transport *t;

	if (strcmp(s->name, "rdma") != 0)
		return NULL;
	if (!getenv("LARDER_TEST_RDMA"))
		return "LARDER_TEST_RDMA holds no address of an RDMA device";
	if (s->ops->open(&config, &t) < 0)
		return "there is no RDMA device";
	s->ops->close(t);
	return NULL;
}

static int run_subject(struct subject *s, const char *only)
{
	const char *fault;

	s->ops = transport_find(s->name);
	if (!s->ops) {
		fprintf(stderr, "no transport %s\n", s->name);
		return 1;
	}
	fault = subject_fault(s);
	if (fault) {
		printf("[  SKIPPED ] %s: %s\n", s->name, fault);
		return 0;
	}
	s->message = s->ops->caps & TRANSPORT_MESSAGE;
	s->largest = MIN(s->ops->limits.max_message, 300u * 1024);
	n_tests = 0;
	add_cases(s, cases_end, n_cases_end, only);
	add_cases(s, cases_bytes, n_cases_bytes, only);
	add_cases(s, cases_turn, n_cases_turn, only);
	add_cases(s, cases_regions, n_cases_regions, only);
	return _cmocka_run_group_tests(s->name, tests, n_tests, NULL, NULL);
}

static int echo(char **argv)
{
	struct subject s = { .name = argv[0], .ops = transport_find(argv[0]) };

	if (s.ops)
		child_echo(&s, argv[1], atoi(argv[2]));
	return 1;
}

int main(int argc, char **argv)
{
	int failed = 0;

	if (argc == 5 && !strcmp(argv[1], "--echo"))
		return echo(argv + 2);
	for (size_t i = 0; i < ARRAY_SIZE(subjects); i++) {
		if (argc < 2 || !strcmp(argv[1], subjects[i].name))
			failed += run_subject(&subjects[i], argc > 2 ? argv[2] : NULL);
	}
	return failed ? 1 : 0;
}
