/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record file as a whole: where its sections lie, attaching to one, and what is handed out
 * from it under one short lock: slots and generations.
 *
 * A file carries its geometry and is used with no other. It is in use from the moment its magic is
 * there, which is stored last; until then RECORDS_MAKING stands in its place. What has neither is
 * damaged, or is not ours, and is left as it is.
 *
 * Generations are never given out twice, however the process ends: they are taken from a block
 * whose end was stored in the header first, and the next process begins at that end.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mem/records_internal.h"

static _Thread_local char records_why[256];

static uint64_t records_section(uint64_t bytes)
{
	return ALIGN_UP(bytes, (uint64_t)RECORDS_SECTION);
}

struct records_layout {
	uint64_t tenants, namespaces, leases, records, end;
};

static struct records_layout records_layout(uint32_t records, uint32_t leases, uint32_t namespaces)
{
	struct records_layout l;

	l.tenants = sizeof(struct records_header);
	l.namespaces = l.tenants + sizeof(struct tenant_record) * RECORDS_TENANTS_MAX;
	l.leases = l.namespaces + records_section(sizeof(struct namespace_record) *
						  (uint64_t)namespaces);
	l.records = l.leases + records_section(sizeof(struct lease_record) * (uint64_t)leases);
	l.end = l.records + records_section(RECORD_SIZE * (uint64_t)records);
	return l;
}

size_t records_bytes(uint32_t records, uint32_t leases, uint32_t namespaces)
{
	return records_layout(records, leases, namespaces).end;
}

struct records_geometry_field {
	const char *name;
	uint32_t there, asked;
};

int records_header_check(const struct records_header *h, const struct larder_memory_config *g,
			 const char **why)
{
	const struct records_geometry_field fields[] = {
		{ "format", h->format, RECORDS_FORMAT },
		{ "record size", h->record_size, RECORD_SIZE },
		{ "pages", h->pages, g->pages },
		{ "page size", h->page_size, g->page_size_bytes },
		{ "records", h->records, g->records },
		{ "leases", h->leases, g->leases },
		{ "namespaces", h->namespaces, g->namespaces },
		{ "tenants", h->tenants, RECORDS_TENANTS_MAX },
		{ "check block", h->check_block, LARDER_CHECK_BLOCK },
	};

	if (h->magic != RECORDS_MAGIC) {
		(void)snprintf(records_why, sizeof(records_why),
			       "is no record file (magic 0x%016" PRIx64 "): choose another "
			       "directory, or remove it if it is in the way", h->magic);
		*why = records_why;
		return -EPROTO;
	}
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (fields[i].there == fields[i].asked)
			continue;
		(void)snprintf(records_why, sizeof(records_why),
			       "was made with %s %u, %u is asked for: configure %u again to keep "
			       "its objects, or remove the directory's files to give them up",
			       fields[i].name, fields[i].there, fields[i].asked, fields[i].there);
		*why = records_why;
		return -EPROTO;
	}
	return 0;
}

static void records_format(struct records *r, const struct larder_memory_config *g)
{
	struct records_header *h = r->header;

	/* the sections are zeros already: all free */
	h->format = RECORDS_FORMAT;
	h->record_size = RECORD_SIZE;
	h->pages = g->pages;
	h->page_size = g->page_size_bytes;
	h->records = g->records;
	h->leases = g->leases;
	h->namespaces = g->namespaces;
	h->tenants = RECORDS_TENANTS_MAX;
	h->check_block = LARDER_CHECK_BLOCK;
	h->generation = 1;
	__atomic_store_n(&h->magic, RECORDS_MAGIC, __ATOMIC_RELEASE);
}

void records_stacks_fill(struct records *r, const uint64_t *used)
{
	struct records_stack *slots = &r->free_slots, *leases = &r->free_leases;

	slots->n = leases->n = 0;
	/* downwards, so that the lowest are taken first and the file stays dense */
	for (uint32_t i = r->n_records; i-- > 0;)
		if (used ? !records_bit(used, i) : r->record[i].state == RECORD_FREE)
			slots->index[slots->n++] = i;
	for (uint32_t i = r->n_leases; i-- > 0;)
		if (r->leases[i].state == LEASE_FREE)
			leases->index[leases->n++] = i;
}

int records_attach(void *base, size_t size, const struct larder_memory_config *geometry,
		   const char *boot_id, bool fresh, struct records **ret, const char **why)
{
	const struct larder_memory_config *g = geometry;
	struct records_layout l = records_layout(g->records, g->leases, g->namespaces);
	_cleanup_free_ struct records *r = calloc(1, sizeof(*r));
	_cleanup_free_ uint32_t *slots = calloc(g->records, sizeof(uint32_t));
	_cleanup_free_ uint32_t *leases = calloc(g->leases, sizeof(uint32_t));
	int e;

	if (size < l.end || !g->records || !g->leases || !g->namespaces || !g->page_size_bytes)
		return -EINVAL;
	if (!r || !slots || !leases)
		return -ENOMEM;
	r->header = base;
	r->tenants = (void *)((char *)base + l.tenants);
	r->namespaces = (void *)((char *)base + l.namespaces);
	r->leases = (void *)((char *)base + l.leases);
	r->record = (void *)((char *)base + l.records);
	r->n_records = g->records;
	r->n_leases = g->leases;
	r->n_namespaces = g->namespaces;
	r->page_size = g->page_size_bytes;
	if (!fresh) {
		e = records_header_check(r->header, g, why);
		if (e < 0)
			return e;
	} else {
		records_format(r, g);
	}
	r->next_generation = r->header->generation;
	e = records_set_boot(r, boot_id);
	if (e < 0)
		return e;
	e = pthread_mutex_init(&r->lock, NULL);
	if (e)
		return -e;
	r->free_slots.index = TAKE_PTR(slots);
	r->free_leases.index = TAKE_PTR(leases);
	/* until records_rebuild says more: what is marked free */
	records_stacks_fill(r, NULL);
	*ret = TAKE_PTR(r);
	return 0;
}

struct records *records_detach(struct records *r)
{
	if (!r)
		return NULL;
	(void)pthread_mutex_destroy(&r->lock);	/* fails only while held */
	free(r->free_slots.index);
	free(r->free_leases.index);
	free(r);
	return NULL;
}

int records_set_boot(struct records *r, const char *boot_id)
{
	struct records_header *h = r->header;
	size_t len = boot_id ? strlen(boot_id) : 0;
	bool other;

	if (len == 0)
		return 0;
	if (len >= sizeof(h->boot_id))
		return -EINVAL;
	if (strncmp(h->boot_id, boot_id, sizeof(h->boot_id)) == 0)
		return 0;
	other = h->boot_id[0] != '\0';
	if (other) {
		/* objects first: who dies in here leaves the old id, and it is done again */
		for (uint32_t i = 0; i < r->n_records; i++)
			records_store_state(&r->record[i].state, RECORD_FREE);
		for (uint32_t i = 0; i < r->n_leases; i++)
			records_store_state(&r->leases[i].state, LEASE_FREE);
		for (uint32_t i = 0; i < r->n_namespaces; i++)
			records_store_state(&r->namespaces[i].state, 0);
		for (uint32_t i = 0; i < RECORDS_TENANTS_MAX; i++)
			records_store_state(&r->tenants[i].state, 0);
		h->heartbeat_ns = 0;
		if (r->free_slots.index)
			records_stacks_fill(r, NULL);
	}
	/* first byte last: whoever dies in between leaves "unknown", never another boot's id */
	__atomic_store_n(&h->boot_id[0], '\0', __ATOMIC_RELEASE);
	records_barrier();
	memset(h->boot_id + 1, 0, sizeof(h->boot_id) - 1);
	memcpy(h->boot_id + 1, boot_id + 1, len - 1);
	__atomic_store_n(&h->boot_id[0], boot_id[0], __ATOMIC_RELEASE);
	return other;
}

void records_set_holder(struct records *r, uint32_t pid)
{
	__atomic_store_n(&r->header->holder_pid, pid, __ATOMIC_RELAXED);
}

uint32_t records_count(const struct records *r)
{
	return r->n_records;
}

struct record *records_at(struct records *r, uint32_t slot)
{
	assert(slot < r->n_records);
	return &r->record[slot];
}

struct record_overflow *records_overflow_at(struct records *r, uint32_t slot)
{
	return (struct record_overflow *)records_at(r, slot);
}

uint64_t records_next_generation(struct records *r)
{
	uint64_t generation = __atomic_fetch_add(&r->next_generation, 1, __ATOMIC_RELAXED);
	uint64_t *reserved = &r->header->generation;

	if (likely(generation < __atomic_load_n(reserved, __ATOMIC_ACQUIRE)))
		return generation;
	pthread_mutex_lock(&r->lock);
	while (generation >= *reserved) {
		__atomic_store_n(reserved, *reserved + RECORDS_GENERATION_STEP, __ATOMIC_RELEASE);
		records_barrier();	/* before the first use */
	}
	pthread_mutex_unlock(&r->lock);
	return generation;
}

void records_heartbeat(struct records *r, uint64_t now_ns)
{
	__atomic_store_n(&r->header->heartbeat_ns, now_ns, __ATOMIC_RELAXED);
}

uint32_t records_slot_take(struct records *r)
{
	uint32_t slot = RECORD_NONE, n;

	pthread_mutex_lock(&r->lock);
	n = r->free_slots.n;
	if (n) {
		slot = r->free_slots.index[n - 1];
		/* what an earlier object left here must not pass for this one's chain */
		r->record[slot].overflow = RECORD_NONE;
		__atomic_store_n(&r->free_slots.n, n - 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&r->lock);
	return slot;
}

void records_slot_give(struct records *r, uint32_t slot)
{
	uint32_t n;

	assert(slot < r->n_records && r->record[slot].state == RECORD_FREE);
	pthread_mutex_lock(&r->lock);
	n = r->free_slots.n;
	assert(n < r->n_records);
	r->free_slots.index[n] = slot;
	__atomic_store_n(&r->free_slots.n, n + 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&r->lock);
}

uint32_t records_slots_free(struct records *r)
{
	return __atomic_load_n(&r->free_slots.n, __ATOMIC_RELAXED);
}
