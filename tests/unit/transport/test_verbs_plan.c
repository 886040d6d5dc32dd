/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of devices against what is wanted, states of a connection, and how transfers are cut. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "transport/verbs_credits.h"
#include "transport/verbs_hello.h"
#include "transport/verbs_phase.h"
#include "transport/verbs_plan.h"

#define MESSAGE 16384u

static const struct verbs_caps good = {
	.max_sge = 32, .max_qp_wr = 16384, .max_cqe = 32767, .max_srq = 1024, .max_srq_wr = 32767,
	.max_reads_out = 128, .max_reads_in = 128, .max_mr_size = UINT64_MAX,
};

static void plan_make__fits_what_the_device_has(void **state)
{
	struct verbs_plan p;
	char text[200];

	assert_null(verbs_plan_make(&good, 16, MESSAGE, 1ull << 30, &p, text, sizeof(text)));
	assert_int_equal(p.conns, 16);
	assert_int_equal(p.receives, 16 * (VERBS_WINDOW_WANTED + VERBS_UPDATES));
	assert_true(p.cqe >= p.receives + p.conns * VERBS_SQ);
	assert_int_equal(p.sge, VERBS_SGE_WANTED);
	assert_int_equal(p.mrs, 1);
	assert_true(p.pinned_bytes > 1ull << 30);
	assert_null(verbs_plan_make(&good, 0, MESSAGE, 0, &p, text, sizeof(text)));
	assert_true(p.conns > 0);
	assert_int_equal(p.mrs, 0);
}

/* A thousand connections on a small device: fewer, and everything still adds up. */
static void plan_make__fewer_connections_on_a_small_device(void **state)
{
	struct verbs_caps caps = good;
	struct verbs_plan p;
	char text[200];

	caps.max_cqe = 4096;
	caps.max_srq_wr = 2048;
	caps.max_sge = 3;
	assert_null(verbs_plan_make(&caps, 1024, MESSAGE, 0, &p, text, sizeof(text)));
	assert_true(p.conns >= 1 && p.conns < 1024);
	assert_true(p.receives <= 2048);
	assert_true(p.cqe <= 4096);
	assert_true(p.receives >= p.conns * (VERBS_WINDOW_MIN + VERBS_UPDATES));
	assert_int_equal(p.sge, 3);
}

static void plan_make__names_what_is_too_small(void **state)
{
	static const struct {
		size_t field;
		const char *word;
	} cases[] = {
		{ offsetof(struct verbs_caps, max_srq), "shared receive" },
		{ offsetof(struct verbs_caps, max_qp_wr), "work requests" },
		{ offsetof(struct verbs_caps, max_sge), "pieces" },
		{ offsetof(struct verbs_caps, max_srq_wr), "receives" },
		{ offsetof(struct verbs_caps, max_cqe), "completion" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct verbs_caps caps = good;
		struct verbs_plan p;
		char text[200] = "";
		const char *fault;

		*(uint32_t *)(void *)((char *)&caps + cases[i].field) = 1;
		if (i == 0)
			caps.max_srq = 0;
		fault = verbs_plan_make(&caps, 16, MESSAGE, 1 << 20, &p, text, sizeof(text));
		assert_non_null(fault);
		assert_non_null(strstr(fault, cases[i].word));
	}
}

static void plan_make__memory_in_few_large_regions(void **state)
{
	struct verbs_caps caps = good;
	struct verbs_plan p;
	char text[200];

	assert_null(verbs_plan_make(&good, 1, MESSAGE, 100ull << 30, &p, text, sizeof(text)));
	assert_int_equal(p.mrs, 7);
	assert_true(p.mr_bytes * p.mrs >= 100ull << 30);
	caps.max_mr_size = (1ull << 30) + 5;
	assert_null(verbs_plan_make(&caps, 1, MESSAGE, 10ull << 30, &p, text, sizeof(text)));
	assert_int_equal(p.mr_bytes, 1ull << 30);
	assert_int_equal(p.mrs, 10);
	caps.max_mr_size = 4096;
	assert_non_null(verbs_plan_make(&caps, 1, MESSAGE, 1 << 30, &p, text, sizeof(text)));
}

static void plan_memlock__names_the_limit_and_the_need(void **state)
{
	char text[200];
	const char *fault;

	assert_null(verbs_plan_memlock(UINT64_MAX, false, 1ull << 40, text, sizeof(text)));
	assert_null(verbs_plan_memlock(8 << 20, true, 1ull << 40, text, sizeof(text)));
	assert_null(verbs_plan_memlock(8 << 20, false, 8 << 20, text, sizeof(text)));
	fault = verbs_plan_memlock(8 << 20, false, (1ull << 30) + 1, text, sizeof(text));
	assert_non_null(fault);
	assert_non_null(strstr(fault, "RLIMIT_MEMLOCK is 8192 KiB"));
	assert_non_null(strstr(fault, "1048577 KiB"));
}

/* --- cutting --- */

static uint64_t test_seed(void)
{
	const char *text = getenv("LARDER_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);

	print_message("seed %lu (LARDER_TEST_SEED)\n", seed);
	return seed;
}

/* Every byte once, in order, in requests of at most so many bytes and pieces; rings wrap. */
static void cut__every_byte_once_within_the_limits(void **state)
{
	static uint8_t memory[1 << 16];
	struct iovec ring[16];
	struct prng prng;

	prng_seed(&prng, test_seed());
	for (unsigned run = 0; run < 500; run++) {
		uint32_t n = 1 + (uint32_t)prng_below(&prng, 16), first = (uint32_t)run * 7;
		struct verbs_cut cut = { .iov = ring, .mask = 15, .at = first, .end = first + n };
		size_t at = 0, seen = 0, total = 0;

		for (uint32_t i = 0; i < n; i++) {
			size_t len = prng_below(&prng, 4000);

			ring[(first + i) & 15] = (struct iovec){ memory + at, len };
			at += len;
			total += len;
		}
		for (;;) {
			uint32_t max = 1 + (uint32_t)prng_below(&prng, 5);
			size_t most = 1 + prng_below(&prng, 5000), bytes, sum = 0;
			struct iovec out[5];
			uint32_t k = verbs_cut_next(&cut, most, max, out, &bytes);

			assert_true(k <= max && bytes <= most);
			for (uint32_t i = 0; i < k; i++) {
				assert_ptr_equal(out[i].iov_base, memory + seen);
				assert_true(out[i].iov_len > 0);
				seen += out[i].iov_len;
				sum += out[i].iov_len;
			}
			assert_int_equal(sum, bytes);
			if (!k && cut.at == cut.end)
				break;
		}
		assert_int_equal(seen, total);
	}
}

/* --- states --- */

static void phase__the_end_is_reached_from_everywhere_and_left_one_way(void **state)
{
	for (int from = VERBS_ADDRESS; from <= VERBS_DRAIN; from++)
		assert_true(verbs_phase_allows((enum verbs_phase)from, VERBS_ENDING));
	for (int from = VERBS_ENDING; from <= VERBS_GONE; from++)
		for (int to = VERBS_ADDRESS; to < from; to++)
			assert_false(verbs_phase_allows((enum verbs_phase)from,
							(enum verbs_phase)to));
	/* no way round the flush */
	for (int from = VERBS_ADDRESS; from < VERBS_ENDING; from++)
		for (int to = VERBS_OVER; to < VERBS_PHASES; to++)
			assert_false(verbs_phase_allows((enum verbs_phase)from,
							(enum verbs_phase)to));
}

static void phase__a_client_and_a_node_come_up(void **state)
{
	const enum verbs_phase client[] = { VERBS_FREE, VERBS_ADDRESS, VERBS_ROUTE, VERBS_ASKED,
					    VERBS_NEW, VERBS_OPEN, VERBS_DRAIN, VERBS_ENDING,
					    VERBS_OVER, VERBS_DOWN, VERBS_GONE, VERBS_FREE };
	const enum verbs_phase node[] = { VERBS_FREE, VERBS_ANSWERED, VERBS_NEW, VERBS_OPEN,
					  VERBS_ENDING, VERBS_OVER, VERBS_GONE };

	for (size_t i = 1; i < ARRAY_SIZE(client); i++)
		assert_true(verbs_phase_allows(client[i - 1], client[i]));
	for (size_t i = 1; i < ARRAY_SIZE(node); i++)
		assert_true(verbs_phase_allows(node[i - 1], node[i]));
	assert_false(verbs_phase_allows(VERBS_ADDRESS, VERBS_OPEN));
	assert_false(verbs_phase_allows(VERBS_ANSWERED, VERBS_OPEN));
	for (int i = 0; i < VERBS_PHASES; i++)
		assert_non_null(verbs_phase_name((enum verbs_phase)i));
}

/* --- the hello --- */

static void hello__there_and_back(void **state)
{
	uint8_t padded[56] = { 0 };
	struct verbs_hello h, got;

	verbs_hello_make(&h, 64, 32, MESSAGE);
	memcpy(padded, &h, sizeof(h));
	assert_int_equal(verbs_hello_parse(padded, sizeof(padded), &got), 0);
	assert_int_equal(got.window, 64);
	assert_int_equal(got.wanted, 32);
	assert_int_equal(got.max_message, MESSAGE);
	assert_int_equal(got.refusal, 0);
	assert_int_equal(verbs_hello_parse(padded, sizeof(h) - 1, &got), -EPROTO);
	assert_int_equal(verbs_hello_parse(NULL, 0, &got), -EPROTO);
	padded[0] ^= 1;
	assert_int_equal(verbs_hello_parse(padded, sizeof(padded), &got), -EPROTO);
	padded[0] ^= 1;
	padded[4]++;
	assert_int_equal(verbs_hello_parse(padded, sizeof(padded), &got), -EPROTONOSUPPORT);
}

static void hello__no_window_is_no_hello(void **state)
{
	const uint32_t bad[] = { 0, 1, VERBS_WINDOW_MAX + 1 };
	struct verbs_hello h, got;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		verbs_hello_make(&h, bad[i], 2, MESSAGE);
		assert_int_equal(verbs_hello_parse(&h, sizeof(h), &got), -EPROTO);
	}
}

static void hello__a_refusal_says_why(void **state)
{
	struct verbs_hello h, got;

	for (int why = VERBS_REFUSED_VERSION; why <= VERBS_REFUSED_DEVICE; why++) {
		verbs_hello_refuse(&h, (enum verbs_refusal)why);
		assert_int_equal(verbs_hello_parse(&h, sizeof(h), &got), 0);
		assert_int_equal(got.refusal, why);
		assert_string_not_equal(verbs_refusal_text(got.refusal), verbs_refusal_text(0));
		assert_true(verbs_refusal_errno(got.refusal) < 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plan_make__fits_what_the_device_has),
		cmocka_unit_test(plan_make__fewer_connections_on_a_small_device),
		cmocka_unit_test(plan_make__names_what_is_too_small),
		cmocka_unit_test(plan_make__memory_in_few_large_regions),
		cmocka_unit_test(plan_memlock__names_the_limit_and_the_need),
		cmocka_unit_test(cut__every_byte_once_within_the_limits),
		cmocka_unit_test(phase__the_end_is_reached_from_everywhere_and_left_one_way),
		cmocka_unit_test(phase__a_client_and_a_node_come_up),
		cmocka_unit_test(hello__there_and_back),
		cmocka_unit_test(hello__no_window_is_no_hello),
		cmocka_unit_test(hello__a_refusal_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
