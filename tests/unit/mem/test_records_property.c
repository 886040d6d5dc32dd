/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record file under random streams of everything that is done to it, against a model that
 * follows from seeds. First in one process: restarts, random bits turned, pages claimed twice. Then
 * by a child that is killed after a random number of instructions in the middle of an operation:
 * whatever it had finished is there, what was under way happened as a whole or not at all.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "property.h"
#include "mem/records_internal.h"

enum {
	ITEMS = 24, PAGES = 2048, RECORDS = 160, LEASES = 16,
	OPS = 400, ROUNDS = 30, KILLS = 40, STEPS_MAX = 6000,
	SPACES = 3,			/* namespaces, of a tenant each */
};

/* All that is known of an object: the rest follows from its seed. */
struct item {
	uint64_t seed;			/* 0: absent */
	uint32_t slot;
	uint32_t pins;
	uint32_t lease;			/* index + 1 */
	uint32_t deadline;
};

struct model {
	struct item item[ITEMS];
	struct item before;		/* the one under way, as it was */
	uint32_t busy;			/* the one under way; ITEMS: none */
	uint64_t version;		/* the last seed given */
	uint64_t version_before;	/* as it was when the one under way began */
};

struct scene {
	struct fixture f;
	struct prng p;
	struct model *m;
	uint32_t tenant[SPACES], ns[SPACES];
	uint32_t found[RECORDS];
	uint32_t n_found;
};

static void item_expected(const struct scene *s, uint64_t seed, struct expected *e)
{
	struct prng p;
	uint16_t key_len;
	uint64_t length;
	uint32_t space;

	prng_seed(&p, seed);
	key_len = (uint16_t)(8 + prng_below(&p, prng_below(&p, 2) ? 30 : LARDER_KEY_MAX - 8));
	length = 1 + prng_below(&p, prng_below(&p, 4) ? 90000 : 1200000);
	space = (uint32_t)prng_below(&p, SPACES);
	expected_make(e, &s->f, seed, key_len, length);
	e->content.tenant = s->tenant[space];
	e->content.ns = s->ns[space];
}

static void scene_directory(struct scene *s)
{
	for (uint32_t i = 0; i < SPACES; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "t%u", i);
		assert_int_equal(records_tenant_add(s->f.records, name, &s->tenant[i]), 0);
		assert_int_equal(records_namespace_add(s->f.records, s->tenant[i], name, 2, NULL, 1,
						       &s->ns[i]), 0);
	}
}

static void scene_open(struct scene *s, uint64_t seed)
{
	*s = (struct scene){ .f.geometry = { .pages = PAGES, .page_size_bytes = FIXTURE_PAGE,
					     .records = RECORDS, .leases = LEASES,
					     .namespaces = 4 } };
	prng_seed(&s->p, seed);
	s->f.size = records_bytes(RECORDS, LEASES, 4);
	/* shared: a child may work on it */
	s->f.base = mmap(NULL, s->f.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			 0);
	s->m = mmap(NULL, sizeof(*s->m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	assert_true(s->f.base != MAP_FAILED && s->m != MAP_FAILED);
	s->m->busy = ITEMS;
	s->m->version = seed << 20;
	fixture_attach(&s->f, true);
	scene_directory(s);
}

static void scene_close(struct scene *s)
{
	fixture_detach(&s->f);
	assert_int_equal(munmap(s->f.base, s->f.size), 0);
	assert_int_equal(munmap(s->m, sizeof(*s->m)), 0);
}

/* --- the stream --------------------------------------------------------------------------- */

static void op_put(struct scene *s, struct item *it, bool abort_it)
{
	static struct expected e;
	struct item done = { .seed = ++s->m->version };

	item_expected(s, done.seed, &e);
	done.slot = fixture_put(&s->f, &e);
	if (done.slot == RECORD_NONE)
		return;
	if (abort_it)
		fixture_delete(&s->f, done.slot);
	else
		*it = done;
}

/* One that never gets as far as its commit. */
static void op_fill(struct scene *s)
{
	static struct expected e;
	uint32_t slot = records_slot_take(s->f.records);
	struct larder_run run;

	if (slot == RECORD_NONE)
		return;
	item_expected(s, ++s->m->version, &e);
	e.content.length = 4000;
	e.content.n_checks = 1;
	if (arena_alloc(s->f.arena, 1, &run, 1) != 1) {
		records_slot_give(s->f.records, slot);
		return;
	}
	e.content.runs = &run;
	e.content.n_runs = 1;
	if (records_fill(s->f.records, slot, &e.content) < 0)
		records_slot_give(s->f.records, slot);
	else
		records_free(s->f.records, slot);
	arena_release(s->f.arena, &run, 1);
}

static void op_unlease(struct scene *s, struct item *it)
{
	struct lease_record *l;

	if (!it->lease)
		return;
	l = records_lease_at(s->f.records, it->lease - 1);
	it->lease = 0;
	records_lease_give(s->f.records, l);
}

static void op_lease(struct scene *s, struct item *it)
{
	struct lease_record *l = it->lease ? NULL : records_lease_take(s->f.records);

	if (!l)
		return;
	l->tenant = s->tenant[0];
	l->id = it->seed;
	l->deadline_ns = it->deadline = 1000000 + (uint32_t)prng_below(&s->p, 1000);
	l->record = it->slot;
	l->generation = (uint32_t)records_at(s->f.records, it->slot)->generation;
	records_lease_commit(l);
	it->lease = (uint32_t)(l - records_lease_at(s->f.records, 0)) + 1;
}

static void stream_op(struct scene *s)
{
	uint32_t i = (uint32_t)prng_below(&s->p, ITEMS), what = (uint32_t)prng_below(&s->p, 8);
	struct item *it = &s->m->item[i];

	s->m->before = *it;
	s->m->version_before = s->m->version;
	__atomic_store_n(&s->m->busy, i, __ATOMIC_SEQ_CST);
	if (!it->seed) {
		if (what == 0)
			op_fill(s);
		else
			op_put(s, it, what == 1);
	} else if (what < 3) {
		op_lease(s, it);
	} else if (what == 3) {
		op_unlease(s, it);
	} else if (what == 4) {
		it->pins = (uint32_t)prng_next(&s->p);
		__atomic_store_n(&records_at(s->f.records, it->slot)->pins, it->pins,
				 __ATOMIC_RELAXED);
	} else {
		op_unlease(s, it);
		if (what == 5)
			records_set_state(s->f.records, it->slot, RECORD_QUARANTINED);
		fixture_delete(&s->f, it->slot);
		it->seed = 0;
	}
	__atomic_store_n(&s->m->busy, ITEMS, __ATOMIC_SEQ_CST);
}

/* --- after a restart ---------------------------------------------------------------------- */

static void scene_found(void *user, uint32_t slot)
{
	struct scene *s = user;

	s->found[s->n_found++] = slot;
}

static void scene_rebuild(struct scene *s, struct records_rebuilt *rebuilt)
{
	fixture_detach(&s->f);
	fixture_attach(&s->f, false);
	s->n_found = 0;
	assert_int_equal(records_rebuild(s->f.records, s->f.arena, 1000, scene_found, s, NULL,
					 rebuilt), 0);
	assert_int_equal(rebuilt->objects, s->n_found);
}

/* Slot in which the object of that seed was found, whole; RECORD_NONE. */
static uint32_t scene_find(struct scene *s, uint64_t seed)
{
	static struct expected e;

	item_expected(s, seed, &e);
	for (uint32_t i = 0; i < s->n_found; i++) {
		if (!records_key_equal(s->f.records, s->found[i], e.key, e.content.key_len))
			continue;
		fixture_expect(&s->f, s->found[i], &e);
		return s->found[i];
	}
	return RECORD_NONE;
}

static void expect_there(struct scene *s, struct item *it)
{
	const struct lease_record *l;

	assert_int_equal(scene_find(s, it->seed), it->slot);
	assert_int_equal(records_at(s->f.records, it->slot)->pins, it->pins);
	if (!it->lease)
		return;
	l = records_lease_at(s->f.records, it->lease - 1);
	assert_int_equal(l->state, LEASE_HELD);
	assert_true(l->id == it->seed && l->record == it->slot);
	assert_true(l->deadline_ns >= it->deadline);
}

/* What is free is what the objects found do not hold. */
static void expect_conserved(struct scene *s)
{
	uint32_t pages = 0, records = 0;

	for (uint32_t i = 0; i < s->n_found; i++) {
		const struct record *rec = records_at(s->f.records, s->found[i]);

		pages += fixture_pages(rec->length);
		records += records_needed(rec->key_len, rec->n_runs, rec->n_checks);
	}
	assert_int_equal(arena_free_pages(s->f.arena), PAGES - pages);
	assert_int_equal(records_slots_free(s->f.records), RECORDS - records);
}

static uint32_t model_count(const struct model *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ITEMS; i++)
		n += m->item[i].seed != 0;
	return n;
}

static void expect_all(struct scene *s, const struct records_rebuilt *rebuilt)
{
	uint32_t leases = 0;

	for (uint32_t i = 0; i < ITEMS; i++) {
		if (!s->m->item[i].seed)
			continue;
		expect_there(s, &s->m->item[i]);
		leases += s->m->item[i].lease != 0;
	}
	assert_int_equal(s->n_found, model_count(s->m));
	assert_int_equal(rebuilt->leases, leases);
	assert_int_equal(rebuilt->dropped_bad + rebuilt->dropped_twice, 0);
	expect_conserved(s);
}

static void property__rebuild_gives_what_the_model_has(void **state)
{
	uint64_t seed = property_seed("test_records_property");

	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct records_rebuilt rebuilt;
		struct scene s;

		scene_open(&s, seed + round);
		for (uint32_t life = 0; life < 4; life++) {
			for (uint64_t n = prng_below(&s.p, OPS); n > 0; n--)
				stream_op(&s);
			scene_rebuild(&s, &rebuilt);
			expect_all(&s, &rebuilt);
		}
		scene_close(&s);
	}
}

/* --- damage ------------------------------------------------------------------------------- */

/*
 * Turns a bit of what is under the CRC of the object, or of its chain's links. Returns how many
 * records are counted as bad for it: a part of a chain may look like a head with no state.
 */
static uint32_t damage(struct scene *s, const struct item *it)
{
	const struct record *rec = records_at(s->f.records, it->slot);
	uint32_t n = records_needed(rec->key_len, rec->n_runs, rec->n_checks);
	uint32_t which = (uint32_t)prng_below(&s->p, n), slot = it->slot;
	uint32_t from = which ? 0 : offsetof(struct record, crc);
	uint32_t bit;

	for (uint32_t i = 0; i < which; i++)
		slot = i ? records_overflow_at(s->f.records, slot)->next : rec->overflow;
	bit = from * 8 + (uint32_t)prng_below(&s->p, (RECORD_SIZE - from) * 8);
	((uint8_t *)records_at(s->f.records, slot))[bit / 8] ^= (uint8_t)(1u << bit % 8);
	return 1 + (which && records_at(s->f.records, slot)->state > RECORD_QUARANTINED);
}

/* A record that checks and says that pages of @it are its own. */
static bool forge(struct scene *s, const struct item *it)
{
	uint32_t n = records_at(s->f.records, it->slot)->n_runs, slot;
	static struct expected e;
	struct larder_run run;

	slot = records_slot_take(s->f.records);
	if (slot == RECORD_NONE)
		return false;
	item_expected(s, ++s->m->version, &e);
	records_runs(s->f.records, it->slot, &run, (uint32_t)prng_below(&s->p, n), 1);
	e.content.runs = &run;
	e.content.n_runs = 1;
	e.content.length = (uint64_t)run.count * FIXTURE_PAGE;
	e.content.n_checks = larder_check_count(e.content.length);
	if (records_fill(s->f.records, slot, &e.content) < 0) {
		records_slot_give(s->f.records, slot);
		return false;
	}
	records_commit(s->f.records, slot, NULL, 5);
	return true;
}

static void damage_round(uint64_t seed)
{
	uint32_t bad = 0, twice = 0;
	struct records_rebuilt rebuilt;
	bool gone[ITEMS] = { false };
	struct scene s;

	scene_open(&s, seed);
	for (uint64_t n = 100 + prng_below(&s.p, OPS); n > 0; n--)
		stream_op(&s);
	for (uint64_t n = prng_below(&s.p, 6); n > 0; n--) {
		uint32_t i = (uint32_t)prng_below(&s.p, ITEMS);
		const struct item *it = &s.m->item[i];

		if (!it->seed || gone[i])
			continue;
		if (prng_below(&s.p, 3)) {
			bad += damage(&s, it);
		} else if (forge(&s, it)) {
			twice += 2;
		} else {
			continue;
		}
		gone[i] = true;
	}
	scene_rebuild(&s, &rebuilt);
	assert_int_equal(rebuilt.dropped_bad, bad);
	assert_int_equal(rebuilt.dropped_twice, twice);
	for (uint32_t i = 0; i < ITEMS; i++) {
		struct item *it = &s.m->item[i];

		if (it->seed && gone[i])
			*it = (struct item){ 0 };
		else if (it->seed)
			expect_there(&s, it);
	}
	assert_int_equal(s.n_found, model_count(s.m));
	expect_conserved(&s);
	/* and life goes on */
	for (uint32_t n = 0; n < 50; n++)
		stream_op(&s);
	scene_rebuild(&s, &rebuilt);
	expect_all(&s, &rebuilt);
	scene_close(&s);
}

static void property__damage_takes_only_what_was_damaged(void **state)
{
	uint64_t seed = property_seed("test_records_property");

	for (uint64_t round = 0; round < 4 * ROUNDS; round++)
		damage_round(seed + round);
}

/* --- killed in the middle ----------------------------------------------------------------- */

static void child_run(struct scene *s, uint32_t free_ops)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(77);
	for (uint32_t i = 0; i < free_ops; i++)
		stream_op(s);
	if (raise(SIGSTOP) != 0)
		_exit(78);
	for (;;)
		stream_op(s);
}

/* Lets the child do whole operations, then single instructions, then kills it. False: no ptrace. */
static bool child_kill(pid_t pid, uint64_t steps)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		return false;
	assert_true(WIFSTOPPED(status));
	for (; steps > 0; steps--) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return true;
}

/* The one that was under way is as before, or as after, and whole. */
static void expect_killed(struct scene *s, const struct records_rebuilt *rebuilt)
{
	struct model *m = s->m;
	uint32_t slot, rest = 0;

	assert_int_equal(rebuilt->dropped_bad + rebuilt->dropped_twice, 0);
	for (uint32_t i = 0; i < ITEMS; i++) {
		if (i == m->busy || !m->item[i].seed)
			continue;
		expect_there(s, &m->item[i]);
		rest++;
	}
	if (m->busy < ITEMS) {
		uint64_t seed = m->before.seed;

		if (!seed && m->version != m->version_before)
			seed = m->version;
		slot = seed ? scene_find(s, seed) : RECORD_NONE;
		rest += slot != RECORD_NONE;
		/* all but deleting leaves it where it was */
		if (m->before.seed && slot != RECORD_NONE)
			assert_int_equal(slot, m->before.slot);
	}
	assert_int_equal(s->n_found, rest);
	expect_conserved(s);
}

static void property__killed_anywhere(void **state)
{
	uint64_t seed = property_seed("test_records_property");
	unsigned in_the_middle = 0;

#ifdef __SANITIZE_THREAD__
	print_message("skipped: one thread, and a million steps of the sanitizer's own\n");
	skip();
#endif
	for (uint64_t round = 0; round < KILLS; round++) {
		struct records_rebuilt rebuilt;
		struct scene s;
		uint64_t steps;
		uint32_t ops;
		pid_t pid;

		scene_open(&s, seed + round);
		ops = (uint32_t)prng_below(&s.p, OPS);
		steps = prng_below(&s.p, STEPS_MAX);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			child_run(&s, ops);
		if (!child_kill(pid, steps)) {
			print_message("skipped: a child can not be traced here\n");
			skip();
		}
		in_the_middle += s.m->busy < ITEMS;
		scene_rebuild(&s, &rebuilt);
		expect_killed(&s, &rebuilt);
		scene_close(&s);
	}
	assert_true(in_the_middle > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(property__rebuild_gives_what_the_model_has),
		cmocka_unit_test(property__damage_takes_only_what_was_damaged),
		cmocka_unit_test(property__killed_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
