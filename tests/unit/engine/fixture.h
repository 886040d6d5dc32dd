/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine over anonymous memory with a clock that only the test moves, and the operations in one
 * line each. Every test ends with fixture_close, which demands that all that was taken came back.
 */
#ifndef LARDER_TESTS_ENGINE_FIXTURE_H
#define LARDER_TESTS_ENGINE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/compiler.h"
#include "engine/engine.h"
#include "view/ledger.h"

#define FIXTURE_PAGE 4096u
#define FIXTURE_LEASES 512u		/* of one tenant half of them */
#define FIXTURE_UNUSED __attribute__((unused))

struct fixture {
	struct engine_config config;
	struct larder_memory *memory;
	struct ledger *ledger;
	struct clock clock;
	uint64_t now_ns;	/* atomic */
	uint64_t wall_ms;
	struct engine *engine;
	struct engine_reactor *r;
	uint32_t tenant, ns;
};

static uint64_t fixture_monotonic(void *user)
{
	return __atomic_load_n(&((struct fixture *)user)->now_ns, __ATOMIC_RELAXED);
}

static uint64_t fixture_wall(void *user)
{
	return ((struct fixture *)user)->wall_ms;
}

FIXTURE_UNUSED static void fixture_advance(struct fixture *f, uint64_t ns)
{
	(void)__atomic_fetch_add(&f->now_ns, ns, __ATOMIC_RELAXED);
	f->wall_ms += ns / NSEC_PER_MSEC;
}

static void fixture_start(struct fixture *f)
{
	assert_int_equal(engine_open(&f->config, &f->engine), 0);
	f->r = engine_reactor(f->engine, 0);
	assert_int_equal(engine_tenant_add(f->engine, "demo", &f->tenant), 0);
	assert_int_equal(engine_namespace_open(f->engine, f->tenant, "ns", 2, NULL, true, &f->ns,
					       NULL), LARDER_OK);
}

/* Values that a test sets in @config beforehand stay. */
FIXTURE_UNUSED static void fixture_open(struct fixture *f, uint32_t pages)
{
	const struct larder_memory_config memory = {
		.pages = pages,
		.page_size_bytes = FIXTURE_PAGE,
		.leases = FIXTURE_LEASES,
		.namespaces = 16,
	};
	struct engine_config *c = &f->config;

	assert_int_equal(larder_memory_open(&memory, &f->memory), 0);
	assert_int_equal(ledger_open(65, NULL, &f->ledger), 0);
	f->clock = (struct clock){ fixture_monotonic, fixture_wall, f };
	f->now_ns = 1000 * NSEC_PER_SEC;
	f->wall_ms = 1700000000000u;
	c->memory = f->memory;
	c->ledger = f->ledger;
	c->clock = &f->clock;
	c->shards = c->shards ? c->shards : 4;
	c->reactors = c->reactors ? c->reactors : 1;
	c->policy = c->policy ? c->policy : "lru";
	c->max_value_bytes = c->max_value_bytes ? c->max_value_bytes : 64u << 20;
	c->lease_max_ms = c->lease_max_ms ? c->lease_max_ms : 60000;
	c->boot_id = "test";
	fixture_start(f);
}

/* As a process that ends and comes back: the memory stays. */
FIXTURE_UNUSED static void fixture_restart(struct fixture *f)
{
	f->engine = engine_close(f->engine);
	fixture_start(f);
}

/* --- operations --------------------------------------------------------------------------- */

struct request {
	struct larder_op op;
	struct larder_op_key key;
	uint32_t checks[64];
	char name[32];
};

static void request_init(struct request *q, const struct fixture *f, int opcode, const char *key)
{
	memset(q, 0, sizeof(*q));
	(void)snprintf(q->name, sizeof(q->name), "%s", key);
	q->key.key = q->name;
	q->key.key_len = (uint16_t)strlen(q->name);
	q->op.opcode = (uint8_t)opcode;
	q->op.tenant = f->tenant;
	q->op.ns = f->ns;
	q->op.keys = &q->key;
	q->op.n_keys = 1;
}

/* The bytes of a value follow from its seed, so that any of them can be checked later. */
static uint8_t value_byte(uint32_t seed, uint64_t at)
{
	return (uint8_t)((seed * 2654435761u + at) >> 3 ^ at);
}

static void request_value(struct request *q, uint32_t seed, uint64_t length)
{
	struct check_stream s;

	q->op.length = length;
	q->op.digest = seed;
	q->op.n_checks = larder_check_count(length);
	assert_true(q->op.n_checks <= 64);
	check_stream_init(&s, length, q->checks);
	for (uint64_t at = 0; at < length; at++) {
		uint8_t byte = value_byte(seed, at);

		check_stream_feed(&s, &byte, 1);
	}
	q->op.checks = q->checks;
}

static void object_write(const struct engine_object *o, uint32_t seed)
{
	uint64_t length = engine_object_length(o), bytes;

	for (uint64_t at = 0; at < length; at += bytes) {
		struct iovec iov[3];
		uint32_t n = engine_object_iov(o, at, length - at, iov, 3, &bytes);
		uint64_t within = at;

		assert_true(n > 0);
		for (uint32_t i = 0; i < n; i++)
			for (size_t b = 0; b < iov[i].iov_len; b++)
				((uint8_t *)iov[i].iov_base)[b] = value_byte(seed, within++);
	}
}

FIXTURE_UNUSED static void object_assert(const struct engine_object *o, uint32_t seed,
					 uint64_t length)
{
	uint64_t bytes;

	assert_int_equal(engine_object_length(o), length);
	for (uint64_t at = 0; at < length; at += bytes) {
		struct iovec iov[3];
		uint32_t n = engine_object_iov(o, at, length - at, iov, 3, &bytes);
		uint64_t within = at;

		assert_true(n > 0);
		for (uint32_t i = 0; i < n; i++)
			for (size_t b = 0; b < iov[i].iov_len; b++)
				assert_int_equal(((uint8_t *)iov[i].iov_base)[b],
						 value_byte(seed, within++));
	}
}

/* Submits and polls until it is back; the clock stands still. */
FIXTURE_UNUSED static int request_run(struct engine_reactor *r, struct request *q)
{
	if (engine_submit(r, &q->op) == 0)
		return q->op.status;
	for (unsigned i = 0; i < 1000000; i++) {
		struct larder_op *op = engine_poll(r);

		if (op) {
			assert_ptr_equal(op, &q->op);
			return op->status;
		}
	}
	fail_msg("the op never came back");
	return -1;
}

FIXTURE_UNUSED static int put_on(struct fixture *f, struct engine_reactor *r, const char *key,
				 uint32_t seed, uint64_t length)
{
	struct request q;
	int status;

	request_init(&q, f, LARDER_OP_PUT, key);
	request_value(&q, seed, length);
	status = request_run(r, &q);
	if (status != LARDER_OK)
		return status;
	object_write(q.op.object, seed);
	engine_commit(r, &q.op);
	return q.op.status;
}

FIXTURE_UNUSED static int put(struct fixture *f, const char *key, uint32_t seed, uint64_t length)
{
	return put_on(f, f->r, key, seed, length);
}

/* The object is referenced when it is found. */
FIXTURE_UNUSED static int get(struct fixture *f, const char *key, struct engine_object **ret)
{
	struct request q;
	int status;

	request_init(&q, f, LARDER_OP_GET, key);
	status = request_run(f->r, &q);
	*ret = q.op.object;
	return status;
}

/* Reads and drops. */
FIXTURE_UNUSED static int touch(struct fixture *f, const char *key)
{
	struct engine_object *o;
	int status = get(f, key, &o);

	if (status == LARDER_OK)
		engine_unref(f->r, o);
	return status;
}

FIXTURE_UNUSED static int delete(struct fixture *f, const char *key, uint32_t flags)
{
	struct request q;
	int status;

	request_init(&q, f, LARDER_OP_DELETE, key);
	q.op.flags = flags;
	status = request_run(f->r, &q);
	return status == LARDER_OK ? q.key.status : status;
}

FIXTURE_UNUSED static int presence(struct fixture *f, const char *key)
{
	struct request q;

	request_init(&q, f, LARDER_OP_EXISTS, key);
	assert_int_equal(request_run(f->r, &q), LARDER_OK);
	return q.key.presence;
}

FIXTURE_UNUSED static int lease(struct fixture *f, const char *key, uint64_t id, uint32_t ms)
{
	struct request q;

	request_init(&q, f, LARDER_OP_EXISTS, key);
	q.op.flags = LARDER_F_LEASE;
	q.op.lease_id = id;
	q.op.lease_ms = ms;
	assert_int_equal(request_run(f->r, &q), LARDER_OK);
	return q.key.presence;
}

FIXTURE_UNUSED static int release(struct fixture *f, const char *key, uint64_t id)
{
	struct request q;

	request_init(&q, f, LARDER_OP_RELEASE, key ? key : "");
	q.op.n_keys = key ? 1 : 0;
	q.op.lease_id = id;
	return request_run(f->r, &q);
}

FIXTURE_UNUSED static struct engine_counts counts(struct fixture *f)
{
	struct engine_counts c;

	engine_get_counts(f->engine, &c);
	return c;
}

/* Deletes all, and demands that every page, record and count is back. */
FIXTURE_UNUSED static void fixture_close(struct fixture *f)
{
	struct request q;
	struct engine_counts c;

	for (uint32_t ns = 0; ns < 16; ns++) {
		const struct namespace_record *record = engine_namespace(f->engine, 0, true, ns);

		if (!record)
			continue;
		request_init(&q, f, LARDER_OP_NS_FLUSH, "");
		q.op.n_keys = 0;
		q.op.flags = LARDER_F_FORCE;
		q.op.tenant = record->tenant;
		q.op.ns = ns;
		assert_int_equal(request_run(f->r, &q), LARDER_OK);
	}
	c = counts(f);
	assert_int_equal(c.objects, 0);
	assert_int_equal(c.filling, 0);
	assert_int_equal(c.doomed, 0);
	assert_int_equal(c.references, 0);
	assert_int_equal(c.parked, 0);
	assert_int_equal(c.fills, 0);
	assert_int_equal(c.free_pages, f->memory->info.pages);
	assert_int_equal(c.free_records, f->memory->info.records);
	for (uint32_t i = 0; i < LARDER_LEDGER_TENANTS; i++) {
		assert_int_equal(f->ledger->gauges[i].resident_bytes, 0);
		assert_int_equal(f->ledger->gauges[i].value_bytes, 0);
		assert_int_equal(f->ledger->gauges[i].objects, 0);
		assert_int_equal(f->ledger->gauges[i].leased_bytes, 0);
		assert_int_equal(f->ledger->gauges[i].pinned_bytes, 0);
		assert_int_equal(f->ledger->gauges[i].fills, 0);
		assert_int_equal(f->ledger->gauges[i].waiting, 0);
	}
	f->engine = engine_close(f->engine);
	f->ledger = ledger_close(f->ledger);
	larder_memory_close(f->memory);
}

#endif
