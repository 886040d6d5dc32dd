/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory: tenants and namespaces by stable ids. An id is the entry's index. An entry that is
 * retired keeps its id until the next rebuild, which begins by dropping whatever would still carry
 * it: so no object can wake up under another's name, and no peer's old id names a new thing. What
 * never changes in an entry is under a CRC, since an id whose entry is wrong would serve one
 * tenant's objects to another: such an entry is dropped at rebuild, and its objects with it.
 *
 * Control path: linear search under the file's lock.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "mem/records_internal.h"

/* --- tenants ---------------------------------------------------------------------------------- */

static uint32_t directory_tenant_crc(const struct tenant_record *t)
{
	return crc32c(0, t->name, sizeof(t->name));
}

static bool directory_tenant_used(const struct records *r, uint32_t id)
{
	return id < RECORDS_TENANTS_MAX &&
	       __atomic_load_n(&r->tenants[id].state, __ATOMIC_ACQUIRE) == DIRECTORY_USED;
}

static uint32_t directory_tenant_locked(const struct records *r, const char *name)
{
	for (uint32_t i = 0; i < RECORDS_TENANTS_MAX; i++)
		if (directory_tenant_used(r, i) &&
		    strncmp(r->tenants[i].name, name, sizeof(r->tenants[i].name)) == 0)
			return i;
	return RECORD_NONE;
}

int records_tenant_find(struct records *r, const char *name, uint32_t *ret_id)
{
	uint32_t id;

	pthread_mutex_lock(&r->lock);
	id = directory_tenant_locked(r, name);
	pthread_mutex_unlock(&r->lock);
	if (id == RECORD_NONE)
		return -ENOENT;
	*ret_id = id;
	return 0;
}

static int directory_tenant_add_locked(struct records *r, const char *name, size_t len,
				       uint32_t *ret_id)
{
	uint32_t id = directory_tenant_locked(r, name);

	for (uint32_t i = 0; id == RECORD_NONE; i++) {
		struct tenant_record *t = &r->tenants[i];

		if (i == RECORDS_TENANTS_MAX)
			return -ENOSPC;
		if (t->state != DIRECTORY_FREE)
			continue;
		memset(t->name, 0, sizeof(t->name));
		memcpy(t->name, name, len);
		t->crc = directory_tenant_crc(t);
		records_store_state(&t->state, DIRECTORY_USED);
		id = i;
	}
	*ret_id = id;
	return 0;
}

int records_tenant_add(struct records *r, const char *name, uint32_t *ret_id)
{
	size_t len = strlen(name);
	int e;

	if (len < 1 || len > LARDER_TENANT_NAME_MAX)
		return -EINVAL;
	pthread_mutex_lock(&r->lock);
	e = directory_tenant_add_locked(r, name, len, ret_id);
	pthread_mutex_unlock(&r->lock);
	return e;
}

const char *records_tenant_name(struct records *r, uint32_t id)
{
	return directory_tenant_used(r, id) ? r->tenants[id].name : NULL;
}

void records_tenant_retire(struct records *r, uint32_t id)
{
	pthread_mutex_lock(&r->lock);
	if (directory_tenant_used(r, id))
		records_store_state(&r->tenants[id].state, DIRECTORY_RETIRED);
	pthread_mutex_unlock(&r->lock);
}

/* --- namespaces ------------------------------------------------------------------------------- */

static uint32_t directory_namespace_crc(const struct namespace_record *n)
{
	uint32_t crc = crc32c(0, &n->tenant, sizeof(n->tenant));

	crc = crc32c(crc, &n->created_ms, sizeof(n->created_ms));
	crc = crc32c(crc, &n->name_len, sizeof(n->name_len));
	crc = crc32c(crc, n->name, sizeof(n->name));
	return crc32c(crc, &n->descriptor, sizeof(n->descriptor));
}

static bool directory_namespace_used(const struct records *r, uint32_t id)
{
	return id < r->n_namespaces &&
	       __atomic_load_n(&r->namespaces[id].state, __ATOMIC_ACQUIRE) == DIRECTORY_USED;
}

static uint32_t directory_namespace_locked(const struct records *r, uint32_t tenant,
					   const void *name, uint16_t name_len)
{
	for (uint32_t i = 0; i < r->n_namespaces; i++) {
		const struct namespace_record *n = &r->namespaces[i];

		if (directory_namespace_used(r, i) && n->tenant == tenant &&
		    n->name_len == name_len && memcmp(n->name, name, name_len) == 0)
			return i;
	}
	return RECORD_NONE;
}

int records_namespace_find(struct records *r, uint32_t tenant, const void *name, uint16_t name_len,
			   uint32_t *ret_id)
{
	uint32_t id;

	if (name_len < 1 || name_len > LARDER_NS_NAME_MAX)
		return -ENOENT;
	pthread_mutex_lock(&r->lock);
	id = directory_namespace_locked(r, tenant, name, name_len);
	pthread_mutex_unlock(&r->lock);
	if (id == RECORD_NONE)
		return -ENOENT;
	*ret_id = id;
	return 0;
}

static void directory_namespace_write(struct namespace_record *n, uint32_t tenant,
				      const void *name, uint16_t name_len,
				      const struct larder_descriptor *d, uint64_t now_ms)
{
	n->tenant = tenant;
	n->flags = 0;
	n->ttl_ms = 0;
	n->created_ms = now_ms;
	n->name_len = name_len;
	memset(n->name, 0, sizeof(n->name));
	memcpy(n->name, name, name_len);
	memset(n->reserved, 0, sizeof(n->reserved));
	if (d)
		n->descriptor = *d;
	else
		memset(&n->descriptor, 0, sizeof(n->descriptor));
	n->crc = directory_namespace_crc(n);
	records_store_state(&n->state, DIRECTORY_USED);
}

int records_namespace_add(struct records *r, uint32_t tenant, const void *name, uint16_t name_len,
			  const struct larder_descriptor *d, uint64_t now_ms, uint32_t *ret_id)
{
	uint32_t id;

	if (name_len < 1 || name_len > LARDER_NS_NAME_MAX || !directory_tenant_used(r, tenant))
		return -EINVAL;
	pthread_mutex_lock(&r->lock);
	id = directory_namespace_locked(r, tenant, name, name_len);
	for (uint32_t i = 0; id == RECORD_NONE && i < r->n_namespaces; i++) {
		if (r->namespaces[i].state != DIRECTORY_FREE)
			continue;
		directory_namespace_write(&r->namespaces[i], tenant, name, name_len, d, now_ms);
		id = i;
	}
	pthread_mutex_unlock(&r->lock);
	if (id == RECORD_NONE)
		return -ENOSPC;
	*ret_id = id;
	return 0;
}

const struct namespace_record *records_namespace(struct records *r, uint32_t id)
{
	return directory_namespace_used(r, id) ? &r->namespaces[id] : NULL;
}

void records_namespace_set_flags(struct records *r, uint32_t id, uint32_t flags)
{
	__atomic_store_n(&r->namespaces[id].flags, flags, __ATOMIC_RELAXED);
}

void records_namespace_retire(struct records *r, uint32_t id)
{
	pthread_mutex_lock(&r->lock);
	if (directory_namespace_used(r, id))
		records_store_state(&r->namespaces[id].state, DIRECTORY_RETIRED);
	pthread_mutex_unlock(&r->lock);
}

uint32_t records_namespaces(const struct records *r)
{
	return r->n_namespaces;
}

bool records_directory_has(const struct records *r, uint32_t tenant, uint32_t ns)
{
	return directory_tenant_used(r, tenant) && directory_namespace_used(r, ns);
}

/* --- rebuild ---------------------------------------------------------------------------------- */

static bool directory_tenant_checks(const struct tenant_record *t)
{
	size_t len = strnlen(t->name, sizeof(t->name));

	return t->state == DIRECTORY_USED && len >= 1 && len <= LARDER_TENANT_NAME_MAX &&
	       t->crc == directory_tenant_crc(t);
}

static bool directory_namespace_checks(const struct records *r, const struct namespace_record *n)
{
	return n->state == DIRECTORY_USED &&
	       n->name_len >= 1 && n->name_len <= LARDER_NS_NAME_MAX &&
	       n->crc == directory_namespace_crc(n) && directory_tenant_used(r, n->tenant);
}

uint32_t records_directory_check(struct records *r, const struct larder_log *log)
{
	uint32_t dropped = 0;

	for (uint32_t i = 0; i < RECORDS_TENANTS_MAX; i++) {
		struct tenant_record *t = &r->tenants[i];

		if (t->state == DIRECTORY_FREE || directory_tenant_checks(t))
			continue;
		if (t->state != DIRECTORY_RETIRED) {
			log_warning(log, "records: tenant %u does not check: dropped with its "
				    "objects", i);
			dropped++;
		}
		records_store_state(&t->state, DIRECTORY_FREE);
	}
	for (uint32_t i = 0; i < r->n_namespaces; i++) {
		struct namespace_record *n = &r->namespaces[i];

		if (n->state == DIRECTORY_FREE || directory_namespace_checks(r, n))
			continue;
		if (n->state != DIRECTORY_RETIRED) {
			log_warning(log, "records: namespace %u does not check: dropped with its "
				    "objects", i);
			dropped++;
		}
		records_store_state(&n->state, DIRECTORY_FREE);
	}
	return dropped;
}
