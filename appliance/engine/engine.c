/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine as a whole: opened over a larder_memory, closed, asked, counted. What an operation
 * does is in the file of its name; how the pieces fit is told in engine_internal.h.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "engine/engine_internal.h"
#include "engine/fill.h"

#define ENGINE_HUGE (2u << 20)
#define ENGINE_BEAT_NS (10 * NSEC_PER_MSEC)
#define ENGINE_LEASES_EXPIRED_PER_TURN 16u

/* --- open --------------------------------------------------------------------------------- */

static int engine_check(const struct engine_config *c)
{
	uint32_t pages = arena_pages(c->memory->arena);

	if (c->shards < 1 || c->shards > ENGINE_SHARDS_MAX || (c->shards & (c->shards - 1)))
		log_err(c->log, "engine: %u shards: must be a power of two, 1 to %u", c->shards,
			ENGINE_SHARDS_MAX);
	else if (c->reactors < 1 || c->reactors > ENGINE_REACTORS_MAX)
		log_err(c->log, "engine: %u reactors: must be 1 to %u", c->reactors,
			ENGINE_REACTORS_MAX);
	else if (!c->policy || !policy_find(c->policy))
		log_err(c->log, "engine: no policy \"%s\": there are %s",
			c->policy ? c->policy : "", policy_names());
	else if (c->reserve_pages >= pages)
		log_err(c->log, "engine: a reserve of %u pages leaves none of %u", c->reserve_pages,
			pages);
	else if (c->max_value_bytes < 1)
		log_err(c->log, "engine: values must be allowed at least one byte");
	else if (c->lease_max_ms < 1)
		log_err(c->log, "engine: leases must be allowed at least one millisecond");
	else
		return 0;
	return -EINVAL;
}

static int engine_mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	int rc = pthread_mutexattr_init(&attr);

	if (rc)
		return -rc;
	/* held for less than a microsecond: spin a little before sleeping */
	rc = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	if (rc == 0)
		rc = pthread_mutex_init(mutex, &attr);
	(void)pthread_mutexattr_destroy(&attr);
	return -rc;
}

/* Zeroed. Large ones on huge pages where the kernel has some: a look-up misses the TLB less. */
static void *engine_array(size_t n, size_t size)
{
	size_t align = n * size < ENGINE_HUGE ? CACHE_LINE : ENGINE_HUGE;
	size_t bytes = ALIGN_UP(n * size, align);
	void *p = aligned_alloc(align, bytes);

	if (!p)
		return NULL;
	if (align == ENGINE_HUGE)
		(void)madvise(p, bytes, MADV_HUGEPAGE);	/* a wish */
	memset(p, 0, bytes);
	return p;
}

static int engine_init_index(struct engine *e)
{
	uint64_t buckets = e->shards;

	while (1u << e->shard_bits < e->shards)
		e->shard_bits++;
	/* two for each object: most chains are one link, a second one is a miss of its own */
	for (; buckets < 2ull * e->capacity; buckets *= 2)
		e->bucket_bits++;
	e->objects = engine_array(e->capacity, sizeof(*e->objects));
	e->buckets = engine_array(buckets, sizeof(*e->buckets));
	e->shard = engine_array(e->shards, sizeof(*e->shard));
	if (!e->objects || !e->buckets || !e->shard)
		return -ENOMEM;
	for (uint64_t i = 0; i < buckets; i++)
		e->buckets[i] = RECORD_NONE;
	for (uint32_t i = 0; i < e->capacity; i++)
		e->objects[i].engine = e;
	for (uint32_t i = 0; i < e->shards; i++) {
		int rc = engine_mutex_init(&e->shard[i].lock);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int engine_init_reactors(struct engine *e, uint64_t seed, uint64_t now)
{
	uint64_t runs = MIN((e->max_value_bytes + e->page_size - 1) / e->page_size,
			    (uint64_t)arena_pages(e->arena));

	e->reactor = engine_array(e->reactors, sizeof(*e->reactor));
	if (!e->reactor)
		return -ENOMEM;
	for (uint32_t i = 0; i < e->reactors; i++) {
		struct engine_reactor *r = &e->reactor[i];

		r->engine = e;
		r->index = i;
		r->n_runs = (uint32_t)runs;
		r->runs = calloc(runs, sizeof(*r->runs));
		if (!r->runs)
			return -ENOMEM;
		prng_seed(&r->prng, seed + i);
		engine_scrub_init(r);
		r->expire_ns = now;
		r->expire_slot = (uint32_t)((uint64_t)e->capacity * i / e->reactors);
	}
	e->salt = prng_next(&e->reactor[0].prng);
	return engine_wait_init(e);
}

static int engine_init_namespaces(struct engine *e)
{
	e->n_namespaces = records_namespaces(e->records);
	e->namespaces = calloc(e->n_namespaces, sizeof(*e->namespaces));
	if (!e->namespaces)
		return -ENOMEM;
	for (uint32_t i = 0; i < e->n_namespaces; i++) {
		e->namespaces[i].tenant = RECORD_NONE;
		e->namespaces[i].user = RECORD_NONE;
	}
	return 0;
}

static int engine_init_ghost(struct engine *e)
{
	uint32_t pages = arena_pages(e->arena);
	int rc;

	if (!e->policy->ghost)
		return 0;
	/* an object has a page of its own and a record of its own */
	rc = policy_ghost_new(e->shard_bits, MIN(pages, e->capacity), pages, &e->ghost);
	if (rc == 0)
		log_info(e->log, "engine: policy %s remembers what it evicted in %zu KiB",
			 e->policy->name, policy_ghost_bytes(e->ghost) / 1024);
	return rc;
}

static int engine_init(struct engine *e, const struct engine_config *c, uint64_t now)
{
	int rc = records_set_boot(e->records, c->boot_id);

	if (rc < 0) {
		log_err(c->log, "engine: the boot id is too long");
		return rc;
	}
	if (rc > 0)
		log_notice(c->log, "engine: the memory is of another boot: its objects are gone");
	rc = engine_init_index(e);
	if (rc == 0)
		rc = engine_init_reactors(e, c->seed, now);
	if (rc == 0)
		rc = engine_init_namespaces(e);
	if (rc == 0)
		rc = engine_leases_init(e);
	if (rc == 0)
		rc = engine_fills_init(e);
	if (rc == 0)
		rc = engine_history_init(e);
	if (rc == 0)
		rc = engine_init_ghost(e);
	if (rc == 0)
		rc = engine_rebuild(e, now);
	if (rc == -ENOMEM)
		log_err(c->log, "engine: no memory for the index of %u records", e->capacity);
	return rc;
}

int engine_open(const struct engine_config *config, struct engine **ret)
{
	struct engine *e;
	int rc = engine_check(config);

	if (rc < 0)
		return rc;
	e = calloc(1, sizeof(*e));
	if (!e) {
		log_err(config->log, "engine: no memory for its own description");
		return -ENOMEM;
	}
	rc = engine_mutex_init(&e->control);
	if (rc < 0) {
		free(e);
		return rc;
	}
	e->memory = config->memory;
	e->arena = config->memory->arena;
	e->records = config->memory->records;
	e->ledger = config->ledger;
	e->clock = config->clock;
	e->log = config->log;
	e->policy = policy_find(config->policy);
	e->shards = config->shards;
	e->reactors = config->reactors;
	e->reserve_pages = config->reserve_pages;
	e->page_size = arena_page_size(e->arena);
	e->max_value_bytes = config->max_value_bytes;
	e->lease_max_ms = config->lease_max_ms;
	e->scrub_rate = config->scrub_bytes_per_s;
	e->capacity = records_count(e->records);
	e->record = records_at(e->records, 0);
	rc = engine_init(e, config, clock_now(e->clock));
	if (rc < 0) {
		engine_close(e);
		return rc;
	}
	*ret = e;
	return 0;
}

/* --- close -------------------------------------------------------------------------------- */

/* The arena's allocator lives on the heap and knows nothing of us: the next engine claims anew. */
static void engine_unclaim(struct engine *e)
{
	struct larder_run runs[64];

	for (uint32_t slot = 0; slot < e->capacity; slot++) {
		uint32_t n_runs = engine_record(e, slot)->n_runs;

		if (e->objects[slot].size_pages == 0)
			continue;
		for (uint32_t first = 0; first < n_runs; first += ARRAY_SIZE(runs)) {
			uint32_t n = MIN(n_runs - first, (uint32_t)ARRAY_SIZE(runs));

			records_runs(e->records, slot, runs, first, n);
			arena_release(e->arena, runs, n);
		}
	}
}

struct engine *engine_close(struct engine *e)
{
	if (!e)
		return NULL;
	if (e->objects)
		engine_unclaim(e);
	engine_directory_done(e);
	engine_leases_done(e);
	engine_fills_done(e);
	engine_history_done(e);
	for (uint32_t i = 0; e->reactor && i < e->reactors; i++) {
		heap_done(&e->reactor[i].deadlines);
		free(e->reactor[i].runs);
	}
	for (uint32_t i = 0; e->shard && i < e->shards; i++)
		(void)pthread_mutex_destroy(&e->shard[i].lock);	/* fails only while held */
	(void)pthread_mutex_destroy(&e->control);
	e->ghost = policy_ghost_free(e->ghost);
	free(e->namespaces);
	free(e->waiters);
	free(e->reactor);
	free(e->shard);
	free(e->buckets);
	free(e->objects);
	free(e);
	return NULL;
}

/* --- ask ---------------------------------------------------------------------------------- */

void engine_get_rebuilt(const struct engine *e, struct records_rebuilt *ret)
{
	*ret = e->rebuilt;
}

struct engine_reactor *engine_reactor(struct engine *e, uint32_t index)
{
	return &e->reactor[index];
}

void engine_reactor_set_wake(struct engine_reactor *r, void (*wake)(void *user), void *user)
{
	r->wake = wake;
	r->wake_user = user;
}

struct records *engine_records(struct engine *e)
{
	return e->records;
}

void engine_turn(struct engine_reactor *r, uint64_t now_ns)
{
	r->turn_ns = now_ns;
}

static int engine_dispatch(struct engine_reactor *r, struct larder_op *op, uint64_t now)
{
	switch (op->opcode) {
	case LARDER_OP_PUT:
	case LARDER_OP_PUT_BEGIN:
		return engine_put(r, op, now);
	case LARDER_OP_GET:
		return engine_get(r, op, now);
	case LARDER_OP_EXISTS:
	case LARDER_OP_LEASE:
		return engine_exists(r, op, now, true);
	case LARDER_OP_RELEASE:
		return engine_release(r, op, now);
	case LARDER_OP_PIN:
	case LARDER_OP_UNPIN:
		return engine_pin(r, op, now);
	case LARDER_OP_STAT:
		return engine_op_stat(r, op, now);
	case LARDER_OP_LIST:
		return engine_list(r, op, now);
	case LARDER_OP_DELETE:
		return engine_delete(r, op, now);
	case LARDER_OP_NS_FLUSH:
		op->cursor = 0;
		return engine_flush(r, op, now);
	default:
		op->status = LARDER_UNSUPPORTED;
		return ENGINE_DONE;
	}
}

int engine_submit(struct engine_reactor *r, struct larder_op *op)
{
	uint64_t now = engine_now(r);
	int step;

	op->status = LARDER_OK;
	op->leading_run = 0;
	op->count = op->bytes = op->kept = 0;
	op->object = NULL;
	op->present = false;
	op->limit = LARDER_LIMIT_NONE;
	op->next = NULL;
	op->pprev = NULL;
	op->home = r;
	op->stage = 0;
	op->shard = 0;
	if (op->deadline_ns && now >= op->deadline_ns) {
		op->status = LARDER_DEADLINE;
		return 0;
	}
	if (op->tenant >= RECORDS_TENANTS_MAX) {
		op->status = LARDER_BAD_REQUEST;
		return 0;
	}
	if (engine_op_is_denied(r->engine, op)) {
		op->status = LARDER_DENIED;
		return 0;
	}
	step = engine_dispatch(r, op, now);
	if (step == ENGINE_DONE)
		return 0;
	if (op->stage == 0 && !engine_wait_work(r, op, RECORD_NONE, NULL)) {
		op->status = LARDER_BUSY;
		return 0;
	}
	return 1;
}

void engine_housekeep(struct engine_reactor *r, uint64_t now)
{
	struct engine *e = r->engine;

	engine_evict_ahead(r, now);
	engine_lease_expire(e, now, ENGINE_LEASES_EXPIRED_PER_TURN);
	engine_fill_expire(r, now, ENGINE_LEASES_EXPIRED_PER_TURN);
	engine_expire_sweep(r, now);
	engine_scrub_step(r, now);
	if (now - r->beat_ns >= ENGINE_BEAT_NS) {
		r->beat_ns = now;
		records_heartbeat(e->records, now);
	}
}

void engine_get_counts(struct engine *e, struct engine_counts *ret)
{
	struct engine_counters sum = { .scrub_passes = UINT64_MAX };

	for (uint32_t i = 0; i < e->reactors; i++) {
		struct engine_counters *c = &e->reactor[i].counters;

		sum.objects += __atomic_load_n(&c->objects, __ATOMIC_RELAXED);
		sum.filling += __atomic_load_n(&c->filling, __ATOMIC_RELAXED);
		sum.doomed += __atomic_load_n(&c->doomed, __ATOMIC_RELAXED);
		sum.references += __atomic_load_n(&c->references, __ATOMIC_RELAXED);
		sum.parked += __atomic_load_n(&c->parked, __ATOMIC_RELAXED);
		sum.evictions += __atomic_load_n(&c->evictions, __ATOMIC_RELAXED);
		sum.evicted_bytes += __atomic_load_n(&c->evicted_bytes, __ATOMIC_RELAXED);
		sum.scrubbed_bytes += __atomic_load_n(&c->scrubbed_bytes, __ATOMIC_RELAXED);
		sum.scrub_passes = MIN(sum.scrub_passes,
				       __atomic_load_n(&c->scrub_passes, __ATOMIC_RELAXED));
	}
	*ret = (struct engine_counts){
		.objects = (uint64_t)sum.objects,
		.filling = (uint64_t)sum.filling,
		.doomed = (uint64_t)sum.doomed,
		.references = (uint64_t)sum.references,
		.parked = (uint64_t)sum.parked,
		.leases = engine_lease_count(e),
		.fills = engine_fill_count(e),
		.free_pages = arena_free_pages(e->arena),
		.free_records = records_slots_free(e->records),
		.evictions = sum.evictions,
		.evicted_bytes = sum.evicted_bytes,
		.scrubbed_bytes = sum.scrubbed_bytes,
		.scrub_passes = sum.scrub_passes,
	};
}
