/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants and namespaces as the engine sees them: stable ids from the directory in the record file,
 * and beside each what the data path needs of it without the directory's lock, read with one
 * acquire load. One that goes leaves its id, and the memory of its entry, unused while the engine
 * is open: who still has the id, or reads the entry, meets nothing else. Who may use one:
 * engine_access.c.
 */
#include <errno.h>
#include <string.h>

#include <larder/probes.h>

#include "engine/engine_internal.h"

static int directory_tenant(struct engine *e, uint32_t id, const char *name)
{
	struct engine_tenant *t = &e->tenants[id];
	struct engine_set *sets;

	if (t->sets)
		return 0;
	sets = aligned_alloc(CACHE_LINE, e->shards * sizeof(*sets));
	if (!sets)
		return -ENOMEM;
	for (uint32_t shard = 0; shard < e->shards; shard++)
		for (uint32_t i = 0; i < POLICY_LISTS; i++)
			policy_list_init(&sets[shard].set.seg[i]);
	t->ledger_slot = e->ledger ? ledger_slot(e->ledger, id, name) : 0;
	t->cap_pages = UINT64_MAX;
	__atomic_store_n(&t->sets, sets, __ATOMIC_RELEASE);
	if (id >= e->n_tenants)
		__atomic_store_n(&e->n_tenants, id + 1, __ATOMIC_RELEASE);
	return 0;
}

static void directory_namespace(struct engine *e, uint32_t id,
				const struct namespace_record *record)
{
	struct larder_gauges *g = engine_gauges(e, record->tenant);

	e->namespaces[id].user = record->tenant;
	e->namespaces[id].ttl_ms = record->ttl_ms;
	e->namespaces[id].second_touch = record->flags & NAMESPACE_SECOND_TOUCH;
	e->namespaces[id].block_bytes = record->descriptor.bytes_per_block;
	e->namespaces[id].short_last = record->descriptor.flags & LARDER_DESCRIPTOR_SHORT_LAST;
	engine_readers_apply(e, id);
	__atomic_store_n(&e->namespaces[id].tenant, record->tenant, __ATOMIC_RELEASE);
	if (g)
		ledger_gauge_add(&g->namespaces, 1);
}

/* Gauges that the engine keeps start from what it finds, whatever an earlier engine left. */
static void directory_clear_gauges(struct ledger *l)
{
	for (uint32_t i = 0; i < LARDER_LEDGER_TENANTS; i++) {
		struct larder_gauges *g = &l->gauges[i];
		uint64_t *const ours[] = { &g->resident_bytes, &g->value_bytes, &g->objects,
					   &g->leased_bytes, &g->leases, &g->namespaces,
					   &g->pinned_bytes, &g->fills, &g->waiting };

		for (size_t n = 0; n < ARRAY_SIZE(ours); n++)
			__atomic_store_n(ours[n], 0, __ATOMIC_RELAXED);
	}
}

/* After the record file was checked: its tenants and namespaces, in use or left over. */
int engine_directory_init(struct engine *e)
{
	if (e->ledger)
		directory_clear_gauges(e->ledger);
	for (uint32_t id = 0; id < RECORDS_TENANTS_MAX; id++) {
		const char *name = records_tenant_name(e->records, id);
		int rc = name ? directory_tenant(e, id, name) : 0;

		if (rc < 0)
			return rc;
	}
	for (uint32_t id = 0; id < e->n_namespaces; id++) {
		const struct namespace_record *record = records_namespace(e->records, id);

		if (record)
			directory_namespace(e, id, record);
	}
	return 0;
}

void engine_directory_done(struct engine *e)
{
	for (uint32_t id = 0; id < RECORDS_TENANTS_MAX; id++) {
		free(TAKE_PTR(e->tenants[id].sets));
		free(TAKE_PTR(e->tenants[id].shared));
	}
}

int engine_tenant_add(struct engine *e, const char *name, uint32_t *ret_tenant)
{
	size_t len = strlen(name);
	uint32_t id;
	int rc;

	if (len < 1 || len > LARDER_TENANT_NAME_MAX ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != len)
		return -EINVAL;
	(void)pthread_mutex_lock(&e->control);
	rc = records_tenant_add(e->records, name, &id);
	if (rc == 0)
		rc = directory_tenant(e, id, name);
	(void)pthread_mutex_unlock(&e->control);
	if (rc == 0)
		*ret_tenant = id;
	return rc;
}

static int namespace_compare(struct engine *e, uint32_t id, const struct larder_descriptor *d,
			     const char **field)
{
	const struct namespace_record *record = records_namespace(e->records, id);
	const char *difference;

	if (!d)
		return LARDER_OK;
	difference = larder_descriptor_difference(&record->descriptor, d);
	if (!difference)
		return LARDER_OK;
	*field = difference;
	return LARDER_LAYOUT_MISMATCH;
}

/* Under the control lock. What refuses here has no reactor: the control writer counts it. */
static bool namespace_over(struct engine *e, uint32_t tenant)
{
	struct engine_tenant *t = &e->tenants[tenant];
	uint64_t n = 0, used = 0;

	for (uint32_t id = 0; id < e->n_namespaces; id++) {
		n += __atomic_load_n(&e->namespaces[id].tenant, __ATOMIC_RELAXED) == tenant;
		used += e->namespaces[id].user == tenant;
	}
	/* retired ids come back with a restart only: nobody may use up those of others */
	if (n < engine_limit(t, LARDER_LIMIT_namespaces) && used < MAX(e->n_namespaces / 2, 1u))
		return false;
	if (e->ledger && e->ledger->writers > e->reactors)
		ledger_gauge_add(&ledger_usage(e->ledger, e->reactors, t->ledger_slot)
				  ->refused[LARDER_LIMIT_namespaces], 1);
	larder_probe3(reject, t->ledger_slot, LARDER_LIMIT_namespaces, 1);
	return true;
}

static int namespace_open(struct engine *e, uint32_t tenant, const void *name, uint16_t name_len,
			  const struct larder_descriptor *d, bool create, uint32_t *ret_id,
			  const char **field)
{
	int rc = records_namespace_find(e->records, tenant, name, name_len, ret_id);

	if (rc == 0)
		return namespace_compare(e, *ret_id, d, field);
	if (rc != -ENOENT)
		return LARDER_INTERNAL;
	if (!create)
		return LARDER_NOT_FOUND;
	if (namespace_over(e, tenant))
		return LARDER_QUOTA;
	rc = records_namespace_add(e->records, tenant, name, name_len, d, clock_wall_ms(e->clock),
				   ret_id);
	if (rc == -ENOSPC)
		return LARDER_QUOTA;
	if (rc < 0)
		return LARDER_INTERNAL;
	directory_namespace(e, *ret_id, records_namespace(e->records, *ret_id));
	return LARDER_OK;
}

int engine_namespace_open(struct engine *e, uint32_t tenant, const void *name, uint16_t name_len,
			  const struct larder_descriptor *d, bool create, uint32_t *ret_ns,
			  const char **field)
{
	const char *difference = NULL;
	uint32_t id;
	int status;

	if (name_len < 1 || name_len > LARDER_NS_NAME_MAX || tenant >= RECORDS_TENANTS_MAX ||
	    !__atomic_load_n(&e->tenants[tenant].sets, __ATOMIC_ACQUIRE) ||
	    !records_tenant_name(e->records, tenant))
		return LARDER_BAD_REQUEST;
	(void)pthread_mutex_lock(&e->control);
	status = namespace_open(e, tenant, name, name_len, d, create, &id, &difference);
	(void)pthread_mutex_unlock(&e->control);
	if (status == LARDER_OK)
		*ret_ns = id;
	if (field && difference)
		*field = difference;
	return status;
}

static bool namespace_is_of(struct engine *e, uint32_t ns, const char *owner, const void *name,
			    uint16_t name_len)
{
	const struct namespace_record *record = records_namespace(e->records, ns);
	const char *tenant = record ? records_tenant_name(e->records, record->tenant) : NULL;

	return tenant && strcmp(tenant, owner) == 0 && record->name_len == name_len &&
	       memcmp(record->name, name, name_len) == 0;
}

int engine_namespace_open_other(struct engine *e, uint32_t tenant, bool viewer, const char *owner,
				const void *name, uint16_t name_len,
				const struct larder_descriptor *d, uint32_t *ret_ns,
				const char **field)
{
	int status = LARDER_NOT_FOUND;

	(void)pthread_mutex_lock(&e->control);
	for (uint32_t ns = 0; ns < e->n_namespaces; ns++) {
		if (!engine_namespace_readable(e, tenant, viewer, ns) ||
		    !namespace_is_of(e, ns, owner, name, name_len))
			continue;
		status = namespace_compare(e, ns, d, field);
		if (status == LARDER_OK)
			*ret_ns = ns;
		break;
	}
	(void)pthread_mutex_unlock(&e->control);
	return status;
}

/*
 * Whether it is empty can only be said while nobody begins to write: a PUT first counts itself as a
 * writer and then looks at `retiring`, we store that and then look at the writers, so that one of
 * the two sees the other. Readers notice nothing until it is certain.
 */
static int namespace_retire(struct engine *e, uint32_t tenant, uint32_t ns)
{
	struct larder_gauges *g = engine_gauges(e, tenant);
	struct engine_ns *n = &e->namespaces[ns];

	__atomic_store_n(&n->retiring, true, __ATOMIC_SEQ_CST);
	/* in this order: a commit counts its object before it stops being a writer */
	if (__atomic_load_n(&n->writers, __ATOMIC_SEQ_CST) ||
	    __atomic_load_n(&n->objects, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&n->retiring, false, __ATOMIC_SEQ_CST);
		return LARDER_BUSY;
	}
	__atomic_store_n(&n->tenant, RECORD_NONE, __ATOMIC_SEQ_CST);
	records_namespace_retire(e->records, ns);
	if (g)
		ledger_gauge_sub(&g->namespaces, 1);
	return LARDER_OK;
}

int engine_namespace_retire(struct engine *e, uint32_t tenant, uint32_t ns)
{
	int status = LARDER_NOT_FOUND;

	(void)pthread_mutex_lock(&e->control);
	if (engine_namespace(e, tenant, false, ns))
		status = namespace_retire(e, tenant, ns);
	(void)pthread_mutex_unlock(&e->control);
	return status;
}

bool engine_namespace_takes(struct engine *e, uint32_t ns, uint64_t length, uint64_t *ret_bytes,
			    bool *ret_shorter)
{
	const struct engine_ns *n = &e->namespaces[ns];

	*ret_bytes = n->block_bytes;
	*ret_shorter = n->short_last;
	return n->block_bytes == 0 || length == n->block_bytes ||
	       (n->short_last && length < n->block_bytes);
}

void engine_namespace_usage(struct engine *e, uint32_t ns, uint64_t *objects, uint64_t *bytes)
{
	*objects = *bytes = 0;
	if (ns >= e->n_namespaces)
		return;
	*objects = __atomic_load_n(&e->namespaces[ns].objects, __ATOMIC_RELAXED);
	*bytes = __atomic_load_n(&e->namespaces[ns].bytes, __ATOMIC_RELAXED);
}

const char *engine_tenant_name(struct engine *e, uint32_t tenant)
{
	return records_tenant_name(e->records, tenant);
}

void engine_tenant_usage(struct engine *e, uint32_t tenant, uint64_t *objects,
			 uint64_t *value_bytes, uint64_t *resident_bytes)
{
	*objects = *value_bytes = *resident_bytes = 0;
	if (tenant >= RECORDS_TENANTS_MAX)
		return;
	for (uint32_t ns = 0; ns < e->n_namespaces; ns++) {
		uint64_t ns_objects, ns_bytes;

		if (__atomic_load_n(&e->namespaces[ns].tenant, __ATOMIC_ACQUIRE) != tenant)
			continue;
		engine_namespace_usage(e, ns, &ns_objects, &ns_bytes);
		*objects += ns_objects;
		*value_bytes += ns_bytes;
	}
	*resident_bytes = __atomic_load_n(&e->tenants[tenant].resident_pages, __ATOMIC_RELAXED) *
			  e->page_size;
}
