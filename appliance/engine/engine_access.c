/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what in which namespace.
 *
 * A namespace belongs to one tenant, which may let others read in it. Whoever names one that is not
 * for him is given ENGINE_NOWHERE, in which the index finds nothing: the same path, and the same
 * time, as a key that is not there. Only who may read, and so knows of it, is told DENIED when he
 * tries to change something.
 *
 * What is shared is said by name and kept on the heap of its owner; the data path reads one bit per
 * tenant beside the namespace. Taking a bit away takes effect with the next operation.
 */
#include <errno.h>
#include <string.h>

#include "engine/engine_internal.h"

/* Operations that change nothing; opcodes are below 64. */
#define ACCESS_READS                                                                               \
	(1ull << LARDER_OP_GET | 1ull << LARDER_OP_EXISTS | 1ull << LARDER_OP_STAT |               \
	 1ull << LARDER_OP_LIST | 1ull << LARDER_OP_LEASE | 1ull << LARDER_OP_RELEASE)
/* Those of them that a viewer may do. */
#define ACCESS_VIEWS                                                                               \
	(1ull << LARDER_OP_GET | 1ull << LARDER_OP_EXISTS | 1ull << LARDER_OP_STAT |               \
	 1ull << LARDER_OP_LIST)
static_assert(LARDER_OP_MAX <= 64, "a bit each");

enum access {
	ACCESS_NONE,
	ACCESS_READ,
	ACCESS_OWN,
};

static enum access access_of(const struct engine *e, uint32_t tenant, bool viewer, uint32_t ns)
{
	const struct engine_ns *n;
	uint32_t owner;
	bool reads;

	if (ns >= e->n_namespaces)
		return ACCESS_NONE;
	n = &e->namespaces[ns];
	owner = __atomic_load_n(&n->tenant, __ATOMIC_ACQUIRE);
	reads = __atomic_load_n(&n->readers.bits[tenant / 64], __ATOMIC_RELAXED) >> tenant % 64 & 1;
	if (owner == RECORD_NONE)
		return ACCESS_NONE;
	if (owner == tenant)
		return ACCESS_OWN;
	return reads || viewer ? ACCESS_READ : ACCESS_NONE;
}

static bool op_is(const struct larder_op *op, uint64_t set)
{
	return op->opcode < LARDER_OP_MAX && set >> op->opcode & 1;
}

uint32_t engine_op_ns(const struct engine *e, const struct larder_op *op)
{
	bool viewer = op->flags & LARDER_F_NO_TOUCH && op_is(op, ACCESS_VIEWS);
	enum access needed = op_is(op, ACCESS_READS) ? ACCESS_READ : ACCESS_OWN;

	return access_of(e, op->tenant, viewer, op->ns) >= needed ? op->ns : ENGINE_NOWHERE;
}

bool engine_op_is_denied(const struct engine *e, const struct larder_op *op)
{
	/* who takes a fill lease is to write */
	if (op_is(op, ACCESS_READS) && !(op->flags & LARDER_F_FILL))
		return false;
	return access_of(e, op->tenant, false, op->ns) == ACCESS_READ;
}

const struct namespace_record *engine_namespace(struct engine *e, uint32_t tenant, bool viewer,
						uint32_t ns)
{
	enum access needed = viewer ? ACCESS_READ : ACCESS_OWN;

	return access_of(e, tenant, viewer, ns) >= needed ? records_namespace(e->records, ns)
							  : NULL;
}

const struct namespace_record *engine_namespace_readable(struct engine *e, uint32_t tenant,
							 bool viewer, uint32_t ns)
{
	return access_of(e, tenant, viewer, ns) >= ACCESS_READ ? records_namespace(e->records, ns)
							       : NULL;
}

/* --- writers ------------------------------------------------------------------------------ */

int engine_writer_enter(struct engine *e, const struct larder_op *op)
{
	struct engine_ns *n = &e->namespaces[op->ns];
	uint32_t owner;

	(void)__atomic_fetch_add(&n->writers, 1, __ATOMIC_SEQ_CST);
	owner = __atomic_load_n(&n->tenant, __ATOMIC_SEQ_CST);
	if (likely(owner == op->tenant && !__atomic_load_n(&n->retiring, __ATOMIC_SEQ_CST)))
		return LARDER_OK;
	engine_writer_leave(e, op->ns);
	return owner == op->tenant ? LARDER_BUSY : LARDER_NOT_FOUND;
}

void engine_writer_leave(struct engine *e, uint32_t ns)
{
	(void)__atomic_fetch_sub(&e->namespaces[ns].writers, 1, __ATOMIC_SEQ_CST);
}

/* --- sharing ------------------------------------------------------------------------------ */

static struct engine_shared *shared_find(struct engine_shared *shared, uint32_t n,
					 const void *name, uint16_t name_len)
{
	for (uint32_t i = 0; i < n; i++)
		if (shared[i].name_len == name_len && !memcmp(shared[i].name, name, name_len))
			return &shared[i];
	return NULL;
}

void engine_readers_apply(struct engine *e, uint32_t ns)
{
	const struct namespace_record *record = records_namespace(e->records, ns);
	const struct engine_tenant *t = &e->tenants[record->tenant];
	const struct engine_shared *s = shared_find(t->shared, t->n_shared, record->name,
						    record->name_len);

	for (size_t i = 0; i < ARRAY_SIZE(e->namespaces[ns].readers.bits); i++)
		__atomic_store_n(&e->namespaces[ns].readers.bits[i], s ? s->readers.bits[i] : 0,
				 __ATOMIC_RELAXED);
}

static void readers_apply_all(struct engine *e, uint32_t tenant)
{
	for (uint32_t ns = 0; ns < e->n_namespaces; ns++) {
		const struct namespace_record *record = records_namespace(e->records, ns);

		if (record && record->tenant == tenant)
			engine_readers_apply(e, ns);
	}
}

/* Copies @shares, those of one name together. 0 or -errno. */
static int shared_make(const struct engine_share *shares, size_t n, struct engine_shared **ret,
		       uint32_t *ret_n)
{
	struct engine_shared *all = n ? calloc(n, sizeof(*all)) : NULL;
	uint32_t used = 0;

	if (n && !all)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct engine_share *from = &shares[i];
		struct engine_shared *to;

		if (from->name_len < 1 || from->name_len > LARDER_NS_NAME_MAX) {
			free(all);
			return -EINVAL;
		}
		to = shared_find(all, used, from->name, from->name_len);
		if (!to) {
			to = &all[used++];
			to->name_len = from->name_len;
			memcpy(to->name, from->name, from->name_len);
		}
		for (size_t w = 0; w < ARRAY_SIZE(to->readers.bits); w++)
			to->readers.bits[w] |= from->readers.bits[w];
	}
	*ret = all;
	*ret_n = used;
	return 0;
}

int engine_set_shares(struct engine *e, uint32_t tenant, const struct engine_share *shares,
		      size_t n)
{
	struct engine_shared *fresh, *old;
	uint32_t n_fresh;
	int rc = shared_make(shares, n, &fresh, &n_fresh);

	if (rc < 0)
		return rc;
	(void)pthread_mutex_lock(&e->control);
	old = e->tenants[tenant].shared;
	e->tenants[tenant].shared = fresh;
	e->tenants[tenant].n_shared = n_fresh;
	readers_apply_all(e, tenant);
	(void)pthread_mutex_unlock(&e->control);
	free(old);
	return 0;
}

void engine_readers_forget(struct engine *e, uint32_t tenant)
{
	uint64_t others = ~(1ull << tenant % 64);

	free(TAKE_PTR(e->tenants[tenant].shared));
	e->tenants[tenant].n_shared = 0;
	for (uint32_t t = 0; t < RECORDS_TENANTS_MAX; t++)
		for (uint32_t i = 0; i < e->tenants[t].n_shared; i++)
			e->tenants[t].shared[i].readers.bits[tenant / 64] &= others;
	for (uint32_t ns = 0; ns < e->n_namespaces; ns++)
		(void)__atomic_fetch_and(&e->namespaces[ns].readers.bits[tenant / 64], others,
					 __ATOMIC_RELAXED);
}
