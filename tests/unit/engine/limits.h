/* SPDX-License-Identifier: Apache-2.0 */
/* Several tenants in one fixture, their limits, and what the ledger says of them. */
#ifndef LARDER_TESTS_ENGINE_LIMITS_H
#define LARDER_TESTS_ENGINE_LIMITS_H

#include "fixture.h"

struct who {
	uint32_t tenant, ns;
	struct larder_limits limits;
};

/* The fixture's operations are those of this tenant from now on. */
FIXTURE_UNUSED static void as(struct fixture *f, const struct who *w)
{
	f->tenant = w->tenant;
	f->ns = w->ns;
}

/* A tenant with a namespace; also after a restart. */
FIXTURE_UNUSED static void who_open(struct fixture *f, const char *name, struct who *w)
{
	assert_int_equal(engine_tenant_add(f->engine, name, &w->tenant), 0);
	assert_int_equal(engine_namespace_open(f->engine, w->tenant, "ns", 2, NULL, true, &w->ns,
					       NULL), LARDER_OK);
}

FIXTURE_UNUSED static void limit(struct fixture *f, struct who *w, enum larder_limit which,
				 uint64_t value)
{
	w->limits.value[which] = value;
	engine_tenant_set_limits(f->engine, w->tenant, &w->limits);
}

FIXTURE_UNUSED static uint64_t refused(const struct fixture *f, const struct who *w,
				       enum larder_limit which)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < f->ledger->writers; i++)
		sum += ledger_usage(f->ledger, i, w->tenant)->refused[which];
	return sum;
}

FIXTURE_UNUSED static struct larder_gauges *gauges(const struct fixture *f, const struct who *w)
{
	return &f->ledger->gauges[w->tenant];
}

FIXTURE_UNUSED static uint64_t evicted(const struct fixture *f, const struct who *w)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < f->ledger->writers; i++)
		sum += ledger_usage(f->ledger, i, w->tenant)->evicted_objects;
	return sum;
}

/* Puts @n values of @pages pages: prefix0, prefix1, ... */
FIXTURE_UNUSED static void put_many(struct fixture *f, const char *prefix, uint32_t n,
				    uint32_t pages)
{
	for (uint32_t i = 0; i < n; i++) {
		char key[32];

		(void)snprintf(key, sizeof(key), "%s%u", prefix, i);
		assert_int_equal(put(f, key, i, (uint64_t)pages * FIXTURE_PAGE), LARDER_OK);
	}
}

FIXTURE_UNUSED static uint32_t present_of(struct fixture *f, const char *prefix, uint32_t n)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < n; i++) {
		char key[32];

		(void)snprintf(key, sizeof(key), "%s%u", prefix, i);
		found += presence(f, key) == LARDER_PRESENT;
	}
	return found;
}

/* A PUT that is to be refused for @which, once. */
FIXTURE_UNUSED static void put_is_refused(struct fixture *f, const struct who *w,
					  enum larder_limit which, uint64_t length)
{
	uint64_t before = refused(f, w, which);
	struct engine_counts was = counts(f), is;
	struct engine_why why;
	struct request q;

	request_init(&q, f, LARDER_OP_PUT, "refused");
	request_value(&q, 1, length);
	assert_int_equal(request_run(f->r, &q), LARDER_QUOTA);
	assert_int_equal(q.op.limit, which);
	assert_null(q.op.object);
	assert_int_equal(refused(f, w, which), before + 1);
	is = counts(f);
	assert_memory_equal(&is, &was, sizeof(is));
	assert_true(engine_why(f->engine, f->tenant, f->ns, "refused", 7, &why));
	assert_int_equal(why.fate, ENGINE_FATE_REFUSED);
	assert_int_equal(why.status, LARDER_QUOTA);
}

#endif
