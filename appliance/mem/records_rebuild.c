/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a start makes of a file that a process left behind, killed at any instruction or with bytes
 * turned over.
 *
 * Nothing in the file is believed until it was checked: a head record in state COMMITTED is an
 * object when its ranges hold, its chain is exactly as long as its lengths say and of its own
 * generation, and the CRC over all of it is right. Only then are its runs read and its pages
 * claimed in the arena.
 *
 * Pages claimed twice: whichever record comes second fails to claim. All of its pages go into the
 * bitmap `twice`; every other claimant of one of them, earlier or later, is dropped for touching
 * that bitmap. So both go, in whatever order they lie, and the pages end free.
 *
 * Slots that no object names, heads or overflow, are free afterwards. Three passes at most: check
 * and claim; drop what touches `twice` (only if there is any); tell the owner, free the rest.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "mem/arena.h"
#include "mem/records_internal.h"

#define REBUILD_AHEAD 16u	/* records fetched ahead of the one looked at */
#define REBUILD_LOG_MAX 16u	/* lines about single records; the sum is told by the caller */

struct rebuild {
	struct records *r;
	struct arena *arena;
	const struct larder_log *log;
	struct records_rebuilt *ret;
	uint64_t *alive;	/* a bit per slot: head of an object */
	uint64_t *used;		/* a bit per slot: alive, or in the chain of one that is */
	uint64_t *twice;	/* a bit per page */
	bool any_twice;
	uint64_t gap_ns;
	uint64_t generation;	/* highest seen */
	uint32_t logged;
};

static void rebuild_log(struct rebuild *b, uint32_t slot, const char *what)
{
	if (b->logged++ < REBUILD_LOG_MAX)
		log_warning(b->log, "records: object in slot %u dropped: %s", slot, what);
}

/* --- does a record check? --------------------------------------------------------------------- */

/* Ranges of the head. NULL, or what is wrong. */
static const char *rebuild_check_head(const struct rebuild *b, const struct record *rec)
{
	uint64_t room = (uint64_t)arena_pages(b->arena) * b->r->page_size;

	if (rec->key_len < 1 || rec->key_len > LARDER_KEY_MAX)
		return "length of its key";
	if (rec->length < 1 || rec->length > room)
		return "length of its value";
	if (rec->n_checks != larder_check_count(rec->length))
		return "number of checks";
	if (rec->n_runs < 1 || rec->n_runs > arena_pages_of(b->r->page_size, rec->length))
		return "number of runs";
	if (rec->generation == 0)
		return "generation";
	return NULL;
}

/* The chain: as long as it has to be, of this object, and not a loop (which would not end). */
static const char *rebuild_check_chain(const struct rebuild *b, const struct record *rec)
{
	uint32_t left = records_needed(rec->key_len, rec->n_runs, rec->n_checks) - 1;
	uint32_t next = rec->overflow;

	for (; left; left--) {
		const struct record_overflow *o;

		if (next >= b->r->n_records)
			return "chain ends early";
		o = records_overflow_at(b->r, next);
		if (o->state != RECORD_OVERFLOW || o->generation != rec->generation)
			return "chain goes to another object";
		next = o->next;
	}
	return next == RECORD_NONE ? NULL : "chain does not end";
}

static const char *rebuild_check_runs(const struct rebuild *b, uint32_t slot)
{
	const struct record *rec = records_at(b->r, slot);
	uint32_t pages = arena_pages(b->arena);
	struct records_stream s;
	uint64_t sum = 0;

	records_stream_init(&s, b->r, slot);
	for (uint32_t i = 0; i < rec->n_runs; i++) {
		struct larder_run run;

		records_stream_read(&s, &run, sizeof(run));
		if (run.count == 0 || run.page >= pages || run.count > pages - run.page)
			return "a run outside the arena";
		sum += run.count;
	}
	return sum == arena_pages_of(b->r->page_size, rec->length) ? NULL : "pages do not add up";
}

static const char *rebuild_check(const struct rebuild *b, uint32_t slot)
{
	const struct record *rec = records_at(b->r, slot);
	const char *wrong = rebuild_check_head(b, rec);

	if (!wrong)
		wrong = rebuild_check_chain(b, rec);
	if (!wrong && rec->crc != records_crc(b->r, slot))
		wrong = "its CRC";
	if (!wrong)
		wrong = rebuild_check_runs(b, slot);
	if (!wrong && !records_directory_has(b->r, rec->tenant, rec->ns))
		wrong = "its tenant or namespace is not in the directory";
	return wrong;
}

/* --- pages ------------------------------------------------------------------------------------ */

static void rebuild_twice_mark(struct rebuild *b, struct larder_run run)
{
	for (uint32_t i = 0; i < run.count; i++)
		records_bit_set(b->twice, run.page + i);
}

static bool rebuild_twice_touches(const struct rebuild *b, struct larder_run run)
{
	for (uint32_t i = 0; i < run.count; i++)
		if (records_bit(b->twice, run.page + i))
			return true;
	return false;
}

/* Claims all pages of a checked record, or none and marks them. False: somebody else has one. */
static bool rebuild_claim(struct rebuild *b, uint32_t slot)
{
	const struct record *rec = records_at(b->r, slot);
	struct records_stream s;
	struct larder_run run;
	uint32_t claimed = 0;

	records_stream_init(&s, b->r, slot);
	for (; claimed < rec->n_runs; claimed++) {
		records_stream_read(&s, &run, sizeof(run));
		if (arena_claim(b->arena, run) < 0)	/* in range: it was checked */
			break;
	}
	if (claimed == rec->n_runs)
		return true;
	records_stream_init(&s, b->r, slot);
	for (uint32_t i = 0; i < rec->n_runs; i++) {
		records_stream_read(&s, &run, sizeof(run));
		if (i < claimed)
			arena_release(b->arena, &run, 1);
		rebuild_twice_mark(b, run);
	}
	b->any_twice = true;
	return false;
}

/* Second pass, one record: gives its pages back when one of them was claimed by another too. */
static bool rebuild_drop_twice(struct rebuild *b, uint32_t slot)
{
	const struct record *rec = records_at(b->r, slot);
	struct records_stream s;
	struct larder_run run;
	bool touches = false;

	records_stream_init(&s, b->r, slot);
	for (uint32_t i = 0; i < rec->n_runs && !touches; i++) {
		records_stream_read(&s, &run, sizeof(run));
		touches = rebuild_twice_touches(b, run);
	}
	if (!touches)
		return false;
	records_stream_init(&s, b->r, slot);
	for (uint32_t i = 0; i < rec->n_runs; i++) {
		records_stream_read(&s, &run, sizeof(run));
		arena_release(b->arena, &run, 1);
	}
	return true;
}

/* --- the passes ------------------------------------------------------------------------------- */

static void rebuild_fetch_ahead(const struct rebuild *b, uint32_t slot)
{
	const char *rec;

	if (slot >= b->r->n_records)
		return;
	rec = (const char *)&b->r->record[slot];
	for (unsigned line = 0; line < RECORD_SIZE; line += CACHE_LINE)
		__builtin_prefetch(rec + line);
}

static void rebuild_look(struct rebuild *b, uint32_t slot)
{
	const struct record *rec = &b->r->record[slot];
	const char *wrong;

	switch (rec->state) {
	case RECORD_FREE:
	case RECORD_OVERFLOW:	/* its head speaks for it */
		return;
	case RECORD_FILLING:
	case RECORD_DOOMED:
	case RECORD_QUARANTINED:
		b->ret->dropped_unfinished++;
		return;
	case RECORD_COMMITTED:
		wrong = rebuild_check(b, slot);
		break;
	default:
		wrong = "its state is none";
	}
	if (wrong) {
		b->ret->dropped_bad++;
		rebuild_log(b, slot, wrong);
		return;
	}
	b->generation = MAX(b->generation, rec->generation);
	if (rebuild_claim(b, slot)) {
		records_bit_set(b->alive, slot);
		return;
	}
	b->ret->dropped_twice++;
	rebuild_log(b, slot, "another object claims its pages");
}

static void rebuild_check_all(struct rebuild *b)
{
	for (uint32_t slot = 0; slot < MIN(REBUILD_AHEAD, b->r->n_records); slot++)
		rebuild_fetch_ahead(b, slot);
	for (uint32_t slot = 0; slot < b->r->n_records; slot++) {
		rebuild_fetch_ahead(b, slot + REBUILD_AHEAD);
		rebuild_look(b, slot);
	}
}

static void rebuild_drop_all_twice(struct rebuild *b)
{
	for (uint32_t slot = 0; slot < b->r->n_records; slot++) {
		if (!records_bit(b->alive, slot) || !rebuild_drop_twice(b, slot))
			continue;
		b->alive[slot / 64] &= ~(1ull << (slot % 64));
		b->ret->dropped_twice++;
		rebuild_log(b, slot, "another object claims its pages");
	}
}

static void rebuild_keep(struct rebuild *b, uint32_t slot)
{
	struct record *rec = &b->r->record[slot];

	if (rec->lease_ns && __builtin_add_overflow(rec->lease_ns, b->gap_ns, &rec->lease_ns))
		rec->lease_ns = UINT64_MAX;
	b->ret->objects++;
	b->ret->bytes += rec->length;
	records_bit_set(b->used, slot);
	for (uint32_t next = rec->overflow; next != RECORD_NONE;) {
		records_bit_set(b->used, next);
		next = records_overflow_at(b->r, next)->next;
	}
}

/* Frees what nobody names; only then is the file what a running process would have. */
static void rebuild_settle(struct rebuild *b)
{
	struct records *r = b->r;

	for (uint32_t slot = 0; slot < r->n_records; slot++) {
		rebuild_fetch_ahead(b, slot + REBUILD_AHEAD);
		if (records_bit(b->alive, slot))
			rebuild_keep(b, slot);
	}
	for (uint32_t slot = 0; slot < r->n_records; slot++)
		if (!records_bit(b->used, slot) && r->record[slot].state != RECORD_FREE)
			records_store_state(&r->record[slot].state, RECORD_FREE);
	records_lease_rebuild(r, b->alive, b->gap_ns, b->ret);
	records_stacks_fill(r, b->used);
	if (b->generation >= r->header->generation) {
		/* the header is behind its records: it was damaged; go on after them */
		__atomic_store_n(&r->header->generation, b->generation + 1, __ATOMIC_RELEASE);
		r->next_generation = b->generation + 1;
	}
}

int records_rebuild(struct records *r, struct arena *arena, uint64_t now_ns,
		    void (*object)(void *user, uint32_t slot), void *user,
		    const struct larder_log *log, struct records_rebuilt *ret)
{
	size_t slot_words = (r->n_records + 63ull) / 64;
	size_t page_words = (arena_pages(arena) + 63ull) / 64;
	_cleanup_free_ uint64_t *alive = calloc(slot_words, sizeof(uint64_t));
	_cleanup_free_ uint64_t *used = calloc(slot_words, sizeof(uint64_t));
	_cleanup_free_ uint64_t *twice = calloc(page_words, sizeof(uint64_t));
	struct records_rebuilt found = { 0 };
	struct rebuild b = { .r = r, .arena = arena, .log = log, .ret = &found,
			     .alive = alive, .used = used, .twice = twice };
	uint64_t heartbeat = r->header->heartbeat_ns;

	if (!alive || !used || !twice)
		return -ENOMEM;
	/* a heartbeat ahead of the clock is another boot's: nothing to tell from it */
	found.gap_ns = heartbeat && heartbeat < now_ns ? now_ns - heartbeat : 0;
	b.gap_ns = found.gap_ns;
	(void)records_directory_check(r, log);	/* counted by the objects that go with an entry */
	rebuild_check_all(&b);
	if (b.any_twice)
		rebuild_drop_all_twice(&b);
	rebuild_settle(&b);
	records_heartbeat(r, now_ns);	/* this gap is dealt with: the next crash has its own */
	for (uint32_t slot = 0; object && slot < r->n_records; slot++) {
		rebuild_fetch_ahead(&b, slot + REBUILD_AHEAD);
		if (records_bit(alive, slot))
			object(user, slot);
	}
	if (b.logged > REBUILD_LOG_MAX)
		log_warning(log, "records: %u more objects dropped", b.logged - REBUILD_LOG_MAX);
	*ret = found;
	return 0;
}
