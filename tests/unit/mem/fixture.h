/* SPDX-License-Identifier: Apache-2.0 */
/* A record file in plain memory with an arena over it, as the tests of mem/ want them. */
#ifndef LARDER_TESTS_MEM_FIXTURE_H
#define LARDER_TESTS_MEM_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "mem/arena.h"
#include "mem/records.h"

#define FIXTURE_PAGE 4096u

struct fixture {
	struct larder_memory_config geometry;
	void *base;
	size_t size;
	struct records *records;
	struct arena *arena;
	uint32_t tenant, ns;
};

static inline void fixture_attach(struct fixture *f, bool fresh)
{
	const char *why = NULL;
	int r = records_attach(f->base, f->size, &f->geometry, "", fresh, &f->records, &why);

	if (r < 0)
		fail_msg("records_attach: %d %s", r, why ? why : "");
	assert_int_equal(arena_new(NULL, f->geometry.pages, FIXTURE_PAGE, &f->arena), 0);
}

static inline void fixture_directory(struct fixture *f)
{
	assert_int_equal(records_tenant_add(f->records, "tenant", &f->tenant), 0);
	assert_int_equal(records_namespace_add(f->records, f->tenant, "ns", 2, NULL, 1, &f->ns), 0);
}

static inline void fixture_open(struct fixture *f, uint32_t pages, uint32_t records)
{
	*f = (struct fixture){ .geometry = { .pages = pages, .page_size_bytes = FIXTURE_PAGE,
					     .records = records, .leases = 16, .namespaces = 4 } };
	f->size = records_bytes(records, 16, 4);
	f->base = aligned_alloc(4096, f->size);
	assert_non_null(f->base);
	memset(f->base, 0, f->size);
	fixture_attach(f, true);
	fixture_directory(f);
}

static inline void fixture_detach(struct fixture *f)
{
	f->records = records_detach(f->records);
	f->arena = arena_free_all(f->arena);
}

static inline void fixture_close(struct fixture *f)
{
	fixture_detach(f);
	free(f->base);
}

/* The process died and came back: heap gone, file as it is. */
static inline void fixture_restart(struct fixture *f, struct records_rebuilt *ret)
{
	fixture_detach(f);
	fixture_attach(f, false);
	assert_int_equal(records_rebuild(f->records, f->arena, 1000, NULL, NULL, NULL, ret), 0);
}

static inline uint32_t fixture_pages(uint64_t length)
{
	return arena_pages_of(FIXTURE_PAGE, length);
}

/* Key, checks and so on follow from @seed, so that what is read back can be compared. */
struct expected {
	uint8_t key[LARDER_KEY_MAX];
	uint32_t checks[1024];
	struct record_content content;
};

static inline void expected_make(struct expected *e, const struct fixture *f, uint64_t seed,
				 uint16_t key_len, uint64_t length)
{
	struct prng p;

	prng_seed(&p, seed);
	e->content = (struct record_content){
		.tenant = f->tenant, .ns = f->ns, .length = length, .digest = prng_next(&p),
		.flags = RECORD_CHECKED_BY_NODE, .key = e->key, .key_len = key_len,
		.checks = e->checks, .n_checks = larder_check_count(length),
	};
	for (uint16_t i = 0; i < key_len; i++)
		e->key[i] = (uint8_t)prng_next(&p);
	memcpy(e->key, &seed, MIN(sizeof(seed), (size_t)key_len));
	for (uint32_t i = 0; i < e->content.n_checks; i++)
		e->checks[i] = (uint32_t)prng_next(&p);
}

/* Fills with pages of the arena, at most @max_runs runs, and commits. RECORD_NONE: no room. */
static inline uint32_t fixture_put(struct fixture *f, struct expected *e)
{
	uint32_t pages = fixture_pages(e->content.length);
	_cleanup_free_ struct larder_run *runs = calloc(pages, sizeof(*runs));
	uint32_t slot = records_slot_take(f->records);
	int n;

	assert_non_null(runs);
	if (slot == RECORD_NONE)
		return RECORD_NONE;
	n = arena_alloc(f->arena, pages, runs, pages);
	if (n > 0) {
		e->content.runs = runs;
		e->content.n_runs = (uint32_t)n;
		if (records_fill(f->records, slot, &e->content) == 0) {
			records_commit(f->records, slot, e->content.checks, 77);
			e->content.runs = NULL;
			return slot;
		}
		arena_release(f->arena, runs, (uint32_t)n);
	}
	records_slot_give(f->records, slot);
	return RECORD_NONE;
}

static inline void fixture_delete(struct fixture *f, uint32_t slot)
{
	uint32_t n = records_at(f->records, slot)->n_runs;
	_cleanup_free_ struct larder_run *runs = calloc(n, sizeof(*runs));

	assert_non_null(runs);
	records_set_state(f->records, slot, RECORD_DOOMED);
	records_runs(f->records, slot, runs, 0, n);
	arena_release(f->arena, runs, n);
	records_free(f->records, slot);
}

static inline void fixture_expect(struct fixture *f, uint32_t slot, const struct expected *e)
{
	const struct record *rec = records_at(f->records, slot);
	uint8_t key[LARDER_KEY_MAX];
	uint32_t checks[1024];

	assert_int_equal(rec->state, RECORD_COMMITTED);
	assert_true(rec->length == e->content.length && rec->digest == e->content.digest);
	assert_int_equal(rec->tenant, e->content.tenant);
	assert_int_equal(rec->ns, e->content.ns);
	assert_int_equal(rec->flags, e->content.flags);
	assert_int_equal(records_key(f->records, slot, key), e->content.key_len);
	assert_memory_equal(key, e->key, e->content.key_len);
	assert_true(records_key_equal(f->records, slot, e->key, e->content.key_len));
	assert_int_equal(rec->n_checks, e->content.n_checks);
	records_checks(f->records, slot, checks, 0, rec->n_checks);
	assert_memory_equal(checks, e->checks, 4ull * rec->n_checks);
}

#endif
