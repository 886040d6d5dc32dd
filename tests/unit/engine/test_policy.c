/* SPDX-License-Identifier: Apache-2.0 */
/* The policies' lists and the heap of deadlines, each against the plainest model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "engine/heap.h"
#include "engine/policy.h"
#include "mem/records.h"

#define OBJECTS 8u

struct bench {
	struct engine_object objects[OBJECTS];
	struct policy_set set;
	struct policy_tenant tenant;
	struct policy_place place;
};

static void bench_init(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	for (uint32_t i = 0; i < OBJECTS; i++) {
		b->objects[i].prev = b->objects[i].next = RECORD_NONE;
		b->objects[i].size_pages = i + 1;
		b->objects[i].seg = OBJECT_SEG_NONE;
	}
	for (uint32_t i = 0; i < POLICY_SEGMENTS; i++)
		policy_list_init(&b->set.seg[i]);
	b->place = (struct policy_place){
		.objects = b->objects, .set = &b->set, .tenant = &b->tenant, .cap = 100,
	};
}

static const struct policy_place *at(struct bench *b, uint64_t now_ns)
{
	b->place.now_ns = now_ns;
	return &b->place;
}

static uint32_t bench_victim(const struct policy *p, const struct bench *b, uint64_t *ret_at)
{
	return p->victim(b->objects, &b->set, 0, ret_at);
}

static void policy_find__names(void **state)
{
	assert_string_equal(policy_find("lru")->name, "lru");
	assert_string_equal(policy_find("fifo")->name, "fifo");
	assert_null(policy_find("mru"));
	assert_null(policy_find(""));
	assert_non_null(strstr(policy_names(), "lru"));
	assert_non_null(strstr(policy_names(), "fifo"));
	assert_string_equal(policy_find("aseg")->name, "aseg");
	assert_non_null(strstr(policy_names(), "aseg"));
}

static void policy__victim_follows_the_rule(const char *name, bool touched_moves)
{
	const struct policy *p = policy_find(name);
	struct bench b;
	uint64_t age = 0;

	bench_init(&b);
	assert_int_equal(p->segments, 1);
	assert_int_equal(bench_victim(p, &b, &age), RECORD_NONE);
	for (uint32_t i = 0; i < 4; i++)
		p->on_insert(at(&b, 100 + i), i);
	assert_int_equal(b.set.seg[0].count, 4);
	assert_int_equal(b.set.seg[0].pages, 1 + 2 + 3 + 4);
	assert_int_equal(b.tenant.count[0], 4);
	assert_int_equal(b.tenant.pages[0], 1 + 2 + 3 + 4);
	p->on_hit(at(&b, 200), 0);
	p->on_hit(at(&b, 201), 0);	/* at the head already */
	assert_int_equal(bench_victim(p, &b, &age), touched_moves ? 1 : 0);
	assert_int_equal(age, touched_moves ? 101 : 100);
	assert_int_equal(b.objects[0].at, touched_moves ? 201 : 100);
	p->on_remove(at(&b, 202), 2);	/* from the middle */
	p->on_remove(at(&b, 202), touched_moves ? 1 : 0);
	assert_int_equal(bench_victim(p, &b, &age), touched_moves ? 3 : 1);
	p->on_remove(at(&b, 202), 3);
	p->on_remove(at(&b, 202), touched_moves ? 0 : 1);
	assert_int_equal(bench_victim(p, &b, &age), RECORD_NONE);
	assert_int_equal(b.set.seg[0].count, 0);
	assert_int_equal(b.set.seg[0].pages, 0);
	assert_int_equal(b.tenant.count[0], 0);
	assert_int_equal(b.tenant.pages[0], 0);
}

static void fifo__hits_move_nothing(void **state)
{
	policy__victim_follows_the_rule("fifo", false);
}

static void lru__hits_make_young(void **state)
{
	policy__victim_follows_the_rule("lru", true);
}

#define IDS 64u

static void heap_assert_model(const struct heap *h, const uint64_t want[IDS])
{
	uint64_t first = UINT64_MAX;
	uint32_t n = 0;

	for (uint32_t id = 0; id < IDS; id++) {
		if (want[id] == UINT64_MAX) {
			assert_int_equal(h->place[id], 0);
			continue;
		}
		assert_int_equal(heap_at(h, id), want[id]);
		first = want[id] < first ? want[id] : first;
		n++;
	}
	assert_int_equal(h->count, n);
	assert_int_equal(heap_first(h), first);
}

static void heap__random_steps_against_an_array(void **state)
{
	uint64_t model[IDS], seed = 7;
	struct prng p;
	struct heap h;

	print_message("seed %llu\n", (unsigned long long)seed);
	prng_seed(&p, seed);
	memset(model, 0xff, sizeof(model));
	assert_int_equal(heap_init(&h, IDS), 0);
	for (uint32_t step = 0; step < 20000; step++) {
		uint32_t id = (uint32_t)prng_below(&p, IDS);

		switch (prng_below(&p, 8)) {
		case 0:
		case 1:
			heap_remove(&h, id);
			model[id] = UINT64_MAX;
			break;
		case 2:
			heap_shift(&h, 3);
			for (uint32_t i = 0; i < IDS; i++)
				model[i] += model[i] == UINT64_MAX ? 0 : 3;
			break;
		default:
			model[id] = prng_below(&p, 1000);
			heap_set(&h, id, model[id]);
		}
		heap_assert_model(&h, model);
	}
	heap_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policy_find__names),
		cmocka_unit_test(fifo__hits_move_nothing),
		cmocka_unit_test(lru__hits_make_young),
		cmocka_unit_test(heap__random_steps_against_an_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
