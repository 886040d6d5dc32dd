/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Killed at every instruction. A child works on a record file in shared memory while this process
 * single-steps it; whenever a step changed a byte of the file, the file as it is now is copied and
 * rebuilt as the next process would. That is every instant at which a kill could be noticed, in
 * the order in which the compiled code really stores.
 *
 * The child tells what it has acknowledged, as a node does by its reply. Whatever was acknowledged
 * must hold in the copy; whatever was under way may have happened or not, but as a whole.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "fixture.h"
#include "mem/records_internal.h"

enum {
	PAGES = 64,
	RECORDS = 16,
	STEPS_MAX = 20 * 1000 * 1000,
};

/* What the child has acknowledged so far. */
enum acknowledged {
	ACK_NOTHING, ACK_DIRECTORY, ACK_COMMIT, ACK_PIN, ACK_DELETE, ACK_FREED, ACK_REUSED,
	ACK_RETIRED, ACK_NEXT,
};

struct stage {
	struct fixture f;		/* file in shared memory; heap side before the fork */
	struct expected first, second;
	volatile uint32_t *ack;		/* shared */
	uint8_t *seen;			/* the file as it was at the last look */
	uint8_t *copy;
	unsigned changes;
	bool was_there;			/* the object under way has been seen whole */
};

static struct larder_descriptor stage_descriptor(void)
{
	return (struct larder_descriptor){ .model = "model", .layout = "layout", .pp = 3 };
}

static void stage_open(struct stage *s)
{
	void *shared;

	*s = (struct stage){ 0 };
	fixture_open(&s->f, PAGES, RECORDS);
	fixture_detach(&s->f);
	shared = mmap(NULL, s->f.size + 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	memcpy(shared, s->f.base, s->f.size);
	free(s->f.base);
	s->f.base = shared;
	s->ack = (void *)((char *)shared + s->f.size);
	s->seen = malloc(s->f.size);
	s->copy = aligned_alloc(4096, s->f.size);
	assert_true(s->seen && s->copy);
	fixture_attach(&s->f, false);
	expected_make(&s->first, &s->f, 1, 600, 3 * LARDER_CHECK_BLOCK / 16);
	expected_make(&s->second, &s->f, 2, 900, 30000);
}

static void stage_close(struct stage *s)
{
	fixture_detach(&s->f);
	assert_int_equal(munmap(s->f.base, s->f.size + 4096), 0);
	free(s->seen);
	free(s->copy);
}

/* Runs @child single-stepped; @look sees the file after each step that changed it. */
static void stage_run(struct stage *s, void (*child)(struct stage *), void (*look)(struct stage *))
{
	int status;
	pid_t pid;

#ifdef __SANITIZE_THREAD__
	print_message("skipped: one thread, and a million steps of the sanitizer's own\n");
	skip();
#endif
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(77);
		if (raise(SIGSTOP) != 0)
			_exit(78);
		child(s);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("skipped: a child can not be traced here\n");
		skip();
	}
	assert_true(WIFSTOPPED(status));
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL), 0);
	memcpy(s->seen, s->f.base, s->f.size);
	look(s);
	for (unsigned step = 0; step < STEPS_MAX; step++) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			look(s);
			print_message("%u steps, %u states of the file\n", step, s->changes);
			return;
		}
		assert_true(WIFSTOPPED(status));
		assert_int_equal(WSTOPSIG(status), SIGTRAP);
		if (memcmp(s->seen, s->f.base, s->f.size) == 0)
			continue;
		memcpy(s->seen, s->f.base, s->f.size);
		s->changes++;
		look(s);
	}
	fail_msg("the child does not end");
}

/* --- the sequences ---------------------------------------------------------------------------- */

static void child_sequences(struct stage *s)
{
	struct larder_descriptor d = stage_descriptor();
	uint32_t tenant, ns, slot;

	if (records_tenant_add(s->f.records, "late", &tenant) < 0 ||
	    records_namespace_add(s->f.records, tenant, "space", 5, &d, 9, &ns) < 0)
		_exit(1);
	*s->ack = ACK_DIRECTORY;
	slot = fixture_put(&s->f, &s->first);
	*s->ack = ACK_COMMIT;
	/* a pin is one store, as the engine makes it */
	__atomic_store_n(&records_at(s->f.records, slot)->pins, 1u << 16, __ATOMIC_RELEASE);
	*s->ack = ACK_PIN;
	records_set_state(s->f.records, slot, RECORD_DOOMED);
	*s->ack = ACK_DELETE;
	fixture_delete(&s->f, slot);
	*s->ack = ACK_FREED;
	/* takes the same slots and pages: nothing of the first may shine through */
	if (fixture_put(&s->f, &s->second) == RECORD_NONE)
		_exit(1);
	*s->ack = ACK_REUSED;
}

struct found {
	struct fixture f;
	struct stage *s;
	uint32_t first, second;		/* slots, RECORD_NONE = absent */
	uint32_t pages, records;	/* that the objects hold */
	uint32_t pins;			/* of the first */
};

static void found_object(void *user, uint32_t slot)
{
	struct found *found = user;
	const struct record *rec = records_at(found->f.records, slot);
	bool first = records_key_equal(found->f.records, slot, found->s->first.key,
				       found->s->first.content.key_len);

	fixture_expect(&found->f, slot, first ? &found->s->first : &found->s->second);
	assert_int_equal(first ? found->first : found->second, RECORD_NONE);
	*(first ? &found->first : &found->second) = slot;
	if (first)
		found->pins = rec->pins;
	else
		assert_int_equal(rec->pins, 0);	/* none of the slot's earlier object */
	found->pages += fixture_pages(rec->length);
	found->records += records_needed(rec->key_len, rec->n_runs, rec->n_checks);
}

static void found_complaint(void *user, int level, const char *text)
{
	fail_msg("a crash was taken for damage: %s", text);
}

/* Rebuilds a copy of the file as it is now and checks what must hold at every instant. */
static void found_rebuild(struct found *found, struct stage *s)
{
	const struct larder_log log = { .line = found_complaint, .level = LARDER_LOG_DEBUG };
	struct records_rebuilt rebuilt;
	uint64_t newest = 0;
	int r;

	*found = (struct found){ .f = s->f, .s = s, .first = RECORD_NONE, .second = RECORD_NONE };
	memcpy(s->copy, s->f.base, s->f.size);
	found->f.base = s->copy;
	fixture_attach(&found->f, false);
	for (uint32_t slot = 0; slot < RECORDS; slot++) {
		const struct record *rec = records_at(found->f.records, slot);

		if (rec->state == RECORD_FILLING || rec->state == RECORD_COMMITTED)
			newest = MAX(newest, rec->generation);
	}
	assert_true(records_next_generation(found->f.records) > newest);
	r = records_rebuild(found->f.records, found->f.arena, 1000, found_object, found, &log,
			    &rebuilt);
	assert_int_equal(r, 0);
	/* a crash never looks like damage */
	assert_true(rebuilt.dropped_bad == 0 && rebuilt.dropped_twice == 0);
	assert_int_equal(arena_free_pages(found->f.arena), PAGES - found->pages);
	assert_int_equal(records_slots_free(found->f.records), RECORDS - found->records);
}

static void look_sequences(struct stage *s)
{
	struct larder_descriptor d = stage_descriptor();
	uint32_t ack = *s->ack, tenant, ns;
	struct found found;
	bool there;

	found_rebuild(&found, s);
	there = records_tenant_find(found.f.records, "late", &tenant) == 0;
	if (there && records_namespace_find(found.f.records, tenant, "space", 5, &ns) == 0)
		assert_null(larder_descriptor_difference(
			&records_namespace(found.f.records, ns)->descriptor, &d));
	else
		assert_int_equal(ack, ACK_NOTHING);
	switch (ack) {
	case ACK_NOTHING:
		assert_int_equal(found.first, RECORD_NONE);
		break;
	case ACK_DIRECTORY:
		s->was_there |= found.first != RECORD_NONE;
		if (s->was_there)	/* one step made it visible */
			assert_int_not_equal(found.first, RECORD_NONE);
		break;
	case ACK_COMMIT:
		assert_int_not_equal(found.first, RECORD_NONE);
		break;
	case ACK_PIN:		/* until the delete's store, which comes before its reply */
		if (found.first == RECORD_NONE)
			s->was_there = false;
		if (!s->was_there)
			assert_int_equal(found.first, RECORD_NONE);
		break;
	default:
		assert_int_equal(found.first, RECORD_NONE);
	}
	if (found.first != RECORD_NONE && ack == ACK_PIN)
		assert_int_equal(found.pins, 1u << 16);
	if (ack < ACK_FREED)
		assert_int_equal(found.second, RECORD_NONE);
	if (ack == ACK_REUSED)
		assert_int_not_equal(found.second, RECORD_NONE);
	fixture_detach(&found.f);
}

static void kill__after_each_store_of_commit_pin_and_delete(void **state)
{
	struct stage s;

	stage_open(&s);
	stage_run(&s, child_sequences, look_sequences);
	assert_int_equal(*s.ack, ACK_REUSED);
	assert_true(s.changes > 50);	/* it really was looked at in between */
	stage_close(&s);
}

/* --- acknowledged, then killed at once -------------------------------------------------------- */

static void child_commit(struct stage *s)
{
	(void)fixture_put(&s->f, &s->first);
}

static void look_nothing(struct stage *s)
{
}

static void kill__after_the_commit_returned(void **state)
{
	struct found found;
	struct stage s;

	stage_open(&s);
	stage_run(&s, child_commit, look_nothing);
	found_rebuild(&found, &s);
	assert_int_not_equal(found.first, RECORD_NONE);
	fixture_detach(&found.f);
	stage_close(&s);
}

/* --- a namespace and a tenant go -------------------------------------------------------------- */

/* The object is deleted, its namespace and tenant are forgotten, others come. */
static void child_retire(struct stage *s)
{
	struct larder_descriptor d = stage_descriptor();
	uint32_t slot = fixture_put(&s->f, &s->first), tenant, ns;

	*s->ack = ACK_COMMIT;
	fixture_delete(&s->f, slot);
	records_namespace_retire(s->f.records, s->f.ns);
	records_tenant_retire(s->f.records, s->f.tenant);
	*s->ack = ACK_RETIRED;
	if (records_tenant_add(s->f.records, "next", &tenant) < 0 ||
	    records_namespace_add(s->f.records, tenant, "ns", 2, &d, 9, &ns) < 0)
		_exit(1);
	/* numbers that are still known out there name nothing else */
	if (tenant == s->f.tenant || ns == s->f.ns)
		_exit(2);
	*s->ack = ACK_NEXT;
}

static void look_retire(struct stage *s)
{
	struct larder_descriptor d = stage_descriptor();
	uint32_t ack = *s->ack, tenant = RECORD_NONE, ns, old = RECORD_NONE;
	struct found found;

	found_rebuild(&found, s);	/* fails also when an object's namespace is not there */
	(void)records_tenant_find(found.f.records, "tenant", &old);
	if (ack == ACK_NOTHING)
		assert_int_not_equal(old, RECORD_NONE);
	if (ack >= ACK_RETIRED) {
		assert_int_equal(old, RECORD_NONE);
		assert_int_equal(found.first, RECORD_NONE);
	}
	(void)records_tenant_find(found.f.records, "next", &tenant);
	if (tenant != RECORD_NONE &&
	    records_namespace_find(found.f.records, tenant, "ns", 2, &ns) == 0)
		assert_null(larder_descriptor_difference(
			&records_namespace(found.f.records, ns)->descriptor, &d));
	else
		assert_true(ack < ACK_NEXT);
	if (ack >= ACK_RETIRED) {	/* now the numbers may be used again, and are found clean */
		assert_int_equal(records_tenant_add(found.f.records, "another", &tenant), 0);
		assert_int_equal(tenant, s->f.tenant);
		assert_int_equal(records_namespace_add(found.f.records, tenant, "other", 5, NULL, 9,
						       &ns), 0);
		assert_int_equal(ns, s->f.ns);
	}
	fixture_detach(&found.f);
}

static void kill__after_each_store_of_a_retirement(void **state)
{
	struct stage s;

	stage_open(&s);
	stage_run(&s, child_retire, look_retire);
	assert_int_equal(*s.ack, ACK_NEXT);
	stage_close(&s);
}

/* --- killed while it rebuilds ----------------------------------------------------------------- */

static void child_rebuild(struct stage *s)
{
	struct records_rebuilt rebuilt;

	if (records_rebuild(s->f.records, s->f.arena, 2000, NULL, NULL, NULL, &rebuilt) < 0)
		_exit(1);
	*s->ack = ACK_COMMIT;
}

static void look_rebuild(struct stage *s)
{
	struct found found;

	found_rebuild(&found, s);
	assert_int_not_equal(found.first, RECORD_NONE);
	assert_int_equal(found.second, RECORD_NONE);
	/* a lease is never shortened by it */
	assert_int_equal(records_lease_at(found.f.records, 0)->state, LEASE_HELD);
	assert_true(records_lease_at(found.f.records, 0)->deadline_ns >= 900);
	fixture_detach(&found.f);
}

static void kill__in_the_middle_of_a_rebuild(void **state)
{
	struct lease_record *l;
	struct stage s;
	uint32_t slot;

	stage_open(&s);
	slot = fixture_put(&s.f, &s.first);
	l = records_lease_take(s.f.records);
	l->tenant = s.f.tenant;
	l->deadline_ns = 900;
	l->record = slot;
	l->generation = (uint32_t)records_at(s.f.records, slot)->generation;
	records_lease_commit(l);
	records_heartbeat(s.f.records, 500);
	records_set_state(s.f.records, fixture_put(&s.f, &s.second), RECORD_DOOMED);
	fixture_detach(&s.f);
	fixture_attach(&s.f, false);
	stage_run(&s, child_rebuild, look_rebuild);
	assert_int_equal(*s.ack, ACK_COMMIT);
	stage_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kill__after_each_store_of_commit_pin_and_delete),
		cmocka_unit_test(kill__after_the_commit_returned),
		cmocka_unit_test(kill__after_each_store_of_a_retirement),
		cmocka_unit_test(kill__in_the_middle_of_a_rebuild),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
