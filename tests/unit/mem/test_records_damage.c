/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes turned over. A rebuild of a damaged file never crashes and never returns an object whose
 * fixed part is not what was committed; what it drops it frees, and its result needs no second
 * repair.
 */
#include "fixture.h"
#include "mem/records_internal.h"

#define SEED 31337u

enum { OBJECTS = 40, PAGES = 1500, RECORDS = 400 };

struct scene {
	struct fixture f;
	struct expected e[OBJECTS];
	uint32_t slot[OBJECTS];		/* where each was put */
	uint8_t *whole;			/* the file before any damage */
	uint32_t found;			/* objects that the last rebuild gave */
	uint32_t pages, records;	/* that they hold */
	bool any_content;		/* what is found need not be one of ours (forged CRC) */
};

static void scene_open(struct scene *s)
{
	fixture_open(&s->f, PAGES, RECORDS);
	for (uint32_t i = 0; i < OBJECTS; i++) {
		expected_make(&s->e[i], &s->f, i, (uint16_t)(1 + i * 1023 / (OBJECTS - 1)),
			      1 + i * 4000);
		s->slot[i] = fixture_put(&s->f, &s->e[i]);
		assert_int_not_equal(s->slot[i], RECORD_NONE);
	}
	s->whole = malloc(s->f.size);
	assert_non_null(s->whole);
	memcpy(s->whole, s->f.base, s->f.size);
}

static void scene_close(struct scene *s)
{
	fixture_close(&s->f);
	free(s->whole);
}

static void scene_object(void *user, uint32_t slot)
{
	struct scene *s = user;
	const struct record *rec = records_at(s->f.records, slot);

	for (uint32_t i = 0; i < OBJECTS && !s->any_content; i++) {
		if (s->slot[i] == slot) {
			fixture_expect(&s->f, slot, &s->e[i]);
			break;
		}
		assert_int_not_equal(i, OBJECTS - 1);	/* nobody put one there */
	}
	s->found++;
	s->pages += fixture_pages(rec->length);
	s->records += records_needed(rec->key_len, rec->n_runs, rec->n_checks);
}

/* Rebuilds the file as it is and checks that everything is accounted for. */
static void scene_rebuild(struct scene *s, struct records_rebuilt *ret)
{
	int r;

	s->found = s->pages = s->records = 0;
	fixture_detach(&s->f);
	fixture_attach(&s->f, false);
	r = records_rebuild(s->f.records, s->f.arena, 1000, scene_object, s, NULL, ret);
	assert_int_equal(r, 0);
	assert_true(ret->objects == s->found);
	assert_int_equal(arena_free_pages(s->f.arena), PAGES - s->pages);
	assert_int_equal(records_slots_free(s->f.records), RECORDS - s->records);
}

/* A rebuilt file is as good as one that was never hurt: whole, and all of it can be freed. */
static void scene_settled(struct scene *s)
{
	struct records_rebuilt again;
	uint32_t found = s->found;

	scene_rebuild(s, &again);
	assert_int_equal(s->found, found);
	assert_true(again.dropped_bad + again.dropped_twice + again.dropped_unfinished == 0);
	for (uint32_t slot = 0; slot < RECORDS; slot++)
		if (records_at(s->f.records, slot)->state == RECORD_COMMITTED)
			fixture_delete(&s->f, slot);
	assert_int_equal(arena_free_pages(s->f.arena), PAGES);
	assert_int_equal(records_slots_free(s->f.records), RECORDS);
	memcpy(s->f.base, s->whole, s->f.size);
}

static uint8_t *scene_record_bytes(struct scene *s)
{
	return (uint8_t *)records_at(s->f.records, 0);
}

static void rebuild__survives_random_bytes(void **state)
{
	struct records_rebuilt found;
	static struct scene s;
	uint64_t lost = 0;
	struct prng p;

	print_message("seed %u\n", SEED);
	prng_seed(&p, SEED);
	scene_open(&s);
	for (int round = 0; round < 1500; round++) {
		/* generation and heartbeat in the header too, not its geometry */
		uint64_t first = round % 3 ? (uint64_t)(scene_record_bytes(&s) -
							(uint8_t *)s.f.base) : 128;
		uint64_t n = 1ull << prng_below(&p, 10);

		for (uint64_t i = 0; i < n; i++)
			((uint8_t *)s.f.base)[first + prng_below(&p, s.f.size - first)] =
				(uint8_t)prng_next(&p);
		scene_rebuild(&s, &found);
		lost += OBJECTS - s.found;
		scene_settled(&s);
	}
	print_message("%.1f of %d objects lost a round\n", (double)lost / 1500, OBJECTS);
	assert_true(lost > 1500);	/* the damage really hit something */
	scene_close(&s);
}

/* Words that something follows, set to what is near the edge of what is possible. */
static void rebuild__survives_wrong_words(void **state)
{
	static const uint32_t values[] = {
		0, 1, 2, 3, 4, 5, 6, 160, 1023, 1024, 1025, PAGES - 1, PAGES, PAGES + 1,
		RECORDS - 1, RECORDS, RECORDS + 1, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff,
	};
	struct records_rebuilt found;
	static struct scene s;
	struct prng p;

	print_message("seed %u\n", SEED + 1);
	prng_seed(&p, SEED + 1);
	scene_open(&s);
	for (int round = 0; round < 3000; round++) {
		uint8_t *rec = scene_record_bytes(&s) + prng_below(&p, RECORDS) * RECORD_SIZE;
		uint64_t words = 1 + prng_below(&p, 3);

		for (uint64_t i = 0; i < words; i++) {
			/* mostly the head's fields and the overflow's link; some runs */
			uint64_t at = prng_below(&p, prng_below(&p, 3) ? 24 : 64) * 4;

			memcpy(rec + at, &values[prng_below(&p, ARRAY_SIZE(values))], 4);
		}
		scene_rebuild(&s, &found);
		assert_true(s.found >= OBJECTS - 1);	/* one record was touched */
		scene_settled(&s);
	}
	scene_close(&s);
}

/* The CRC made right over wrong words: the ranges alone must hold the rebuild together. */
static void rebuild__survives_forged_records(void **state)
{
	struct records_rebuilt found;
	static struct scene s;
	struct prng p;

	print_message("seed %u\n", SEED + 2);
	prng_seed(&p, SEED + 2);
	scene_open(&s);
	s.any_content = true;
	for (int round = 0; round < 3000; round++) {
		uint32_t i = (uint32_t)prng_below(&p, OBJECTS);
		struct record *rec = records_at(s.f.records, s.slot[i]);
		struct larder_run run;

		memcpy(&run, rec->data, sizeof(run));
		switch (prng_below(&p, 8)) {
		case 0: rec->length = prng_next(&p) >> prng_below(&p, 64); break;
		case 1: rec->n_runs = (uint32_t)prng_next(&p) >> prng_below(&p, 32); break;
		case 2: rec->n_checks = (uint32_t)prng_next(&p) >> prng_below(&p, 32); break;
		case 3: rec->key_len = (uint16_t)(prng_next(&p) >> prng_below(&p, 16)); break;
		case 4: rec->tenant = (uint32_t)prng_next(&p) >> prng_below(&p, 32); break;
		case 5: rec->ns = (uint32_t)prng_next(&p) >> prng_below(&p, 32); break;
		case 6: run.page = (uint32_t)prng_next(&p) >> prng_below(&p, 32); break;
		case 7: run.count = (uint32_t)prng_next(&p) >> prng_below(&p, 32); break;
		}
		memcpy(rec->data, &run, sizeof(run));
		rec->crc = records_crc(s.f.records, s.slot[i]);
		scene_rebuild(&s, &found);
		scene_settled(&s);
	}
	scene_close(&s);
}

static struct record *scene_copy(struct scene *s, uint32_t object)
{
	struct record *from = records_at(s->f.records, s->slot[object]);
	uint32_t slot = records_slot_take(s->f.records);
	struct record *to = records_at(s->f.records, slot);

	assert_int_not_equal(slot, RECORD_NONE);
	*to = *from;
	return to;
}

static void rebuild__drops_both_that_claim_a_page(void **state)
{
	struct records_rebuilt found;
	static struct scene s;
	struct record *copy;

	scene_open(&s);
	/* a copy of one without a chain; one with a chain; and one that overlaps by a page only */
	(void)scene_copy(&s, 0);
	(void)scene_copy(&s, OBJECTS - 1);
	scene_rebuild(&s, &found);
	assert_true(found.dropped_twice == 4 && found.dropped_bad == 0);
	assert_int_equal(s.found, OBJECTS - 2);
	scene_settled(&s);

	fixture_detach(&s.f);
	fixture_attach(&s.f, false);
	copy = scene_copy(&s, 5);	/* 20,001 bytes in a run of five pages */
	assert_int_equal(copy->n_runs, 1);
	((struct larder_run *)copy->data)->page += 4;	/* its first page is the other's last */
	copy->crc = records_crc(s.f.records, (uint32_t)(copy - records_at(s.f.records, 0)));
	scene_rebuild(&s, &found);
	/* five, the copy, and six, whose pages lie next and are claimed by the copy too */
	assert_true(found.dropped_twice == 3 && found.dropped_bad == 0);
	assert_int_equal(s.found, OBJECTS - 2);
	assert_int_equal(records_at(s.f.records, s.slot[5])->state, RECORD_FREE);
	assert_int_equal(records_at(s.f.records, s.slot[6])->state, RECORD_FREE);
	scene_settled(&s);
	scene_close(&s);
}

static void rebuild__drops_broken_chains(void **state)
{
	static const char *const cases[] = {
		"cycle", "itself", "head", "other's", "out of range", "early end", "late end",
		"state",
	};
	const uint32_t victim = OBJECTS - 1, other = OBJECTS - 2;
	struct records_rebuilt found;
	static struct scene s;

	scene_open(&s);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct record *rec = records_at(s.f.records, s.slot[victim]);
		struct record *neighbour = records_at(s.f.records, s.slot[other]);
		struct record_overflow *o = records_overflow_at(s.f.records, rec->overflow);
		struct record_overflow *last = records_overflow_at(s.f.records, o->next);

		while (last->next != RECORD_NONE)
			last = records_overflow_at(s.f.records, last->next);
		switch (i) {
		case 0: last->next = rec->overflow; break;
		case 1: o->next = rec->overflow; break;
		case 2: o->next = s.slot[victim]; break;
		case 3: o->next = neighbour->overflow; break;
		case 4: o->next = RECORDS; break;
		case 5: o->next = RECORD_NONE; break;
		case 6: last->next = 0; break;
		case 7: o->state = RECORD_FREE; break;
		}
		scene_rebuild(&s, &found);
		if (found.dropped_bad != 1 || s.found != OBJECTS - 1)
			fail_msg("chain with %s", cases[i]);
		scene_settled(&s);
		fixture_detach(&s.f);
		fixture_attach(&s.f, false);
	}
	scene_close(&s);
}

static void rebuild__drops_objects_whose_directory_entry_is_gone(void **state)
{
	struct records_rebuilt found;
	static struct scene s;
	uint32_t id;

	scene_open(&s);
	s.f.records->namespaces[s.f.ns].descriptor.tp ^= 1;	/* now another layout's objects */
	scene_rebuild(&s, &found);
	assert_true(found.objects == 0 && found.dropped_bad == OBJECTS);
	assert_null(records_namespace(s.f.records, s.f.ns));
	assert_int_equal(records_tenant_find(s.f.records, "tenant", &id), 0);
	memcpy(s.f.base, s.whole, s.f.size);
	s.f.records->tenants[s.f.tenant].name[0] = 'T';		/* now another tenant's */
	scene_rebuild(&s, &found);
	assert_true(found.objects == 0 && found.dropped_bad == OBJECTS);
	assert_int_equal(records_slots_free(s.f.records), RECORDS);
	scene_close(&s);
}

static void rebuild__goes_on_after_the_newest_generation(void **state)
{
	struct records_rebuilt found;
	static struct scene s;
	uint64_t newest;

	scene_open(&s);
	newest = records_at(s.f.records, s.slot[OBJECTS - 1])->generation;
	s.f.records->header->generation = 1;	/* lost */
	scene_rebuild(&s, &found);
	assert_int_equal(s.found, OBJECTS);
	assert_true(records_next_generation(s.f.records) > newest);
	assert_true(s.f.records->header->generation > newest + 1);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rebuild__survives_random_bytes),
		cmocka_unit_test(rebuild__survives_wrong_words),
		cmocka_unit_test(rebuild__survives_forged_records),
		cmocka_unit_test(rebuild__drops_both_that_claim_a_page),
		cmocka_unit_test(rebuild__drops_broken_chains),
		cmocka_unit_test(rebuild__drops_objects_whose_directory_entry_is_gone),
		cmocka_unit_test(rebuild__goes_on_after_the_newest_generation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
