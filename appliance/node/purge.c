/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Purging a tenant: begun by the control thread, done in the turns of the first reactor, a bounded
 * part in each. It begins when the tenant's last session is gone, since until then something of it
 * may be under way. What is done stays in the list until the control thread has asked once more.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "node/node.h"

struct node_purge {
	struct node_purge *next;
	struct tenant *tenant;		/* NULL: left over in the memory, never added */
	struct engine_purge work;
	bool done;
	char name[LARDER_TENANT_NAME_MAX + 1];
};

static void purge_forget(struct node_purge **at)
{
	struct node_purge *one = *at;

	*at = one->next;
	free(one);
}

void node_purges_init(struct node_purges *p)
{
	(void)pthread_mutex_init(&p->lock, NULL);	/* can't fail with default attributes */
}

void node_purges_done(struct node_purges *p)
{
	while (p->first)
		purge_forget(&p->first);
	(void)pthread_mutex_destroy(&p->lock);
}

static struct node_purge **purge_find(struct node_purges *p, const char *name)
{
	struct node_purge **at = &p->first;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

/* lock held */
static bool purges_any(const struct node_purges *p)
{
	for (const struct node_purge *one = p->first; one; one = one->next)
		if (!one->done)
			return true;
	return false;
}

bool node_purge_allows(struct larder_node *n, const char *name)
{
	struct node_purges *p = &n->purges;
	struct node_purge **at;
	bool allowed;

	(void)pthread_mutex_lock(&p->lock);
	at = purge_find(p, name);
	allowed = !*at || (*at)->done;
	if (*at && allowed)
		purge_forget(at);
	(void)pthread_mutex_unlock(&p->lock);
	return allowed;
}

/* 1, or -errno. */
static int purge_begin(struct larder_node *n, const char *name, struct node_purge **end)
{
	_cleanup_free_ struct node_purge *one = calloc(1, sizeof(*one));
	int r;

	if (!one)
		return -ENOMEM;
	if (!node_tenant_name_is_good(name))
		return -ENOENT;
	if (node_tenants_find(&n->tenants, name))
		return -EBUSY;
	r = engine_purge_begin(n->engine, name, &one->work);
	if (r < 0)
		return r;
	strcpy(one->name, name);	/* its length was checked */
	one->tenant = node_tenants_find_removed(&n->tenants, name);
	log_notice(&n->log, "tenant %s: its objects are being thrown away", name);
	*end = TAKE_PTR(one);
	__atomic_store_n(&n->purges.any, true, __ATOMIC_RELEASE);
	node_reactor_wake(&n->reactors[0]);
	return 1;
}

LARDER_PUBLIC int larder_node_purge(struct larder_node *n, const char *name, uint64_t *ret_objects,
				    uint64_t *ret_bytes)
{
	struct node_purges *p = &n->purges;
	struct node_purge **at, *one;
	int r = 1;

	if (!name)
		return -ENOENT;
	(void)pthread_mutex_lock(&p->lock);
	at = purge_find(p, name);
	if (!*at)
		r = purge_begin(n, name, at);
	one = *at;
	*ret_objects = one ? one->work.objects : 0;
	*ret_bytes = one ? one->work.bytes : 0;
	if (one && one->done) {
		purge_forget(at);
		r = 0;
	}
	(void)pthread_mutex_unlock(&p->lock);
	return r;
}

/* The name may come again, with another id. */
static void purge_end(struct larder_node *n, struct node_purge *one)
{
	if (one->tenant)
		node_tenants_purged(&n->tenants, one->tenant);
	one->done = true;
	log_notice(&n->log, "tenant %s: thrown away: %" PRIu64 " objects, %" PRIu64 " bytes",
		   one->name, one->work.objects, one->work.bytes);
}

int node_purge_turn(struct reactor *r)
{
	struct larder_node *n = r->node;
	struct node_purges *p = &n->purges;
	int worked = 0;

	if (likely(r->index != 0 || !__atomic_load_n(&p->any, __ATOMIC_ACQUIRE)))
		return 0;
	(void)pthread_mutex_lock(&p->lock);
	for (struct node_purge *one = p->first; one && !worked; one = one->next) {
		const struct engine_purge before = one->work;

		if (one->done || (one->tenant && node_tenant_has_sessions(one->tenant)))
			continue;
		if (engine_purge_turn(r->engine, &one->work))
			purge_end(n, one);
		/* else it waits for somebody's reference, and the next one may have its turn */
		worked = one->done || before.objects != one->work.objects ||
			 before.stage != one->work.stage || before.at != one->work.at;
	}
	__atomic_store_n(&p->any, purges_any(p), __ATOMIC_RELEASE);
	(void)pthread_mutex_unlock(&p->lock);
	return worked;
}

LARDER_PUBLIC void larder_node_tenants(struct larder_node *n,
				       bool (*fn)(void *user, const struct larder_node_tenant *t),
				       void *user)
{
	for (uint32_t id = 0; id < RECORDS_TENANTS_MAX; id++) {
		struct larder_node_tenant t = { .name = engine_tenant_name(n->engine, id) };

		if (!t.name)
			continue;
		t.removed = !node_tenants_find(&n->tenants, t.name);
		engine_tenant_usage(n->engine, id, &t.objects, &t.value_bytes, &t.resident_bytes);
		if (!fn(user, &t))
			return;
	}
}
