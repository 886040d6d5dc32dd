/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: who may open a session, and by what secret. The table only grows; an entry stays where
 * it is, so sessions point to it. The control thread writes, reactors read during handshakes: one
 * lock for all, held for a few hundred bytes of copying.
 *
 * A tenant that is removed keeps its entry without secrets. Its sessions belong to their reactors,
 * so they are not ended from here: each session remembers how often its tenant had been removed
 * when its secret was checked, and each reactor, told by a counter and a wake-up, ends those for
 * which that is no longer so. Removed and added again in between, the old sessions still end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "node/node.h"
#include "node/session.h"

void node_tenants_init(struct node_tenants *t)
{
	(void)pthread_mutex_init(&t->lock, NULL);	/* can't fail with default attributes */
}

void node_tenants_done(struct node_tenants *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		explicit_bzero(t->at[i]->secret, sizeof(t->at[i]->secret));
		free(t->at[i]->shares);
		free(t->at[i]);
	}
	t->n = 0;
	(void)pthread_mutex_destroy(&t->lock);
}

bool node_tenant_name_is_good(const char *name)
{
	size_t len = strnlen(name, LARDER_TENANT_NAME_MAX + 1);

	return len >= 1 && len <= LARDER_TENANT_NAME_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static struct tenant *tenant_find_locked(struct node_tenants *t, const char *name)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (strcmp(t->at[i]->name, name) == 0)
			return t->at[i];
	return NULL;
}

struct tenant *node_tenants_find(struct node_tenants *t, const char *name)
{
	(void)pthread_mutex_lock(&t->lock);
	struct tenant *found = tenant_find_locked(t, name);

	if (found && found->removed)
		found = NULL;
	(void)pthread_mutex_unlock(&t->lock);
	return found;
}

struct tenant *node_tenants_find_removed(struct node_tenants *t, const char *name)
{
	(void)pthread_mutex_lock(&t->lock);
	struct tenant *found = tenant_find_locked(t, name);

	if (found && !found->removed)
		found = NULL;
	(void)pthread_mutex_unlock(&t->lock);
	return found;
}

bool node_tenant_has_sessions(const struct tenant *tenant)
{
	return __atomic_load_n(&tenant->quota.used[LARDER_LIMIT_connections], __ATOMIC_ACQUIRE);
}

void node_tenants_purged(struct node_tenants *t, struct tenant *tenant)
{
	(void)pthread_mutex_lock(&t->lock);
	tenant->purged = true;
	(void)pthread_mutex_unlock(&t->lock);
}

uint32_t node_tenants_secrets(struct node_tenants *t, const struct tenant *tenant,
			      struct node_secret ret[2])
{
	uint32_t removals;

	(void)pthread_mutex_lock(&t->lock);
	ret[0] = tenant->secret[0];
	ret[1] = tenant->secret[1];
	removals = tenant->removals;
	(void)pthread_mutex_unlock(&t->lock);
	return removals;
}

static void secret_set(struct node_secret *s, const void *bytes, size_t len)
{
	explicit_bzero(s, sizeof(*s));
	if (len)
		memcpy(s->bytes, bytes, len);
	s->len = (uint16_t)len;
}

/* Gives it its ids: a tenant that is new, or was purged and comes again. */
static int tenant_enter(struct larder_node *n, struct tenant *tenant)
{
	int r = engine_tenant_add(n->engine, tenant->name, &tenant->id);

	if (r == 0)
		tenant->slot = ledger_slot(n->ledger, tenant->id, tenant->name);
	return r;
}

static int tenant_new(struct larder_node *n, const char *name, struct tenant **ret)
{
	_cleanup_free_ struct tenant *fresh = calloc(1, sizeof(*fresh));
	int r;

	if (!fresh)
		return -ENOMEM;
	if (n->tenants.n == NODE_TENANTS_MAX)
		return -ENOSPC;
	strcpy(fresh->name, name);	/* its length was checked */
	node_quota_init(&fresh->quota);
	r = tenant_enter(n, fresh);
	if (r == 0)
		*ret = TAKE_PTR(fresh);
	return r;
}

LARDER_PUBLIC int larder_node_tenant_add(struct larder_node *n, const char *name,
					 const void *secret, size_t secret_len, const void *second,
					 size_t second_len)
{
	struct node_tenants *t = &n->tenants;

	if (!name || !node_tenant_name_is_good(name) || !secret || secret_len < 1 ||
	    secret_len > NODE_SECRET_MAX || second_len > NODE_SECRET_MAX ||
	    (!second && second_len != 0))
		return -EINVAL;
	if (!node_purge_allows(n, name))
		return -EBUSY;
	/* the control thread alone adds, so nothing changes between the look and the entry */
	(void)pthread_mutex_lock(&t->lock);
	struct tenant *tenant = tenant_find_locked(t, name);
	bool fresh = !tenant, added = fresh || tenant->purged;

	(void)pthread_mutex_unlock(&t->lock);

	if (added) {
		int r = fresh ? tenant_new(n, name, &tenant) : tenant_enter(n, tenant);

		if (r == 0)
			r = node_shares_tell_all(n);	/* it may be somebody's reader */
		if (r < 0) {
			if (fresh)
				free(tenant);
			return r;
		}
	}
	(void)pthread_mutex_lock(&t->lock);
	secret_set(&tenant->secret[0], secret, secret_len);
	secret_set(&tenant->secret[1], second, second_len);
	tenant->removed = tenant->purged = false;
	if (fresh) {
		tenant->index = t->n;
		t->at[t->n++] = tenant;
	}
	(void)pthread_mutex_unlock(&t->lock);
	if (added)
		node_limits_added(n, tenant);
	return 0;
}

LARDER_PUBLIC int larder_node_tenant_remove(struct larder_node *n, const char *name)
{
	struct node_tenants *t = &n->tenants;

	(void)pthread_mutex_lock(&t->lock);
	struct tenant *tenant = name ? tenant_find_locked(t, name) : NULL;
	bool found = tenant && !tenant->removed;

	if (found) {
		secret_set(&tenant->secret[0], NULL, 0);
		secret_set(&tenant->secret[1], NULL, 0);
		tenant->removed = true;
		__atomic_store_n(&tenant->removals, tenant->removals + 1, __ATOMIC_RELAXED);
		__atomic_store_n(&t->removals, t->removals + 1, __ATOMIC_RELEASE);
	}
	(void)pthread_mutex_unlock(&t->lock);
	if (!found)
		return -ENOENT;
	node_shares_forget(n, tenant);
	node_limits_removed(n, tenant);
	for (uint32_t i = 0; i < n->config.reactors; i++)
		node_reactor_wake(&n->reactors[i]);
	return 0;
}

static bool session_is_evicted(const struct session *s)
{
	return s->state == SESSION_OPEN && s->tenant &&
	       s->tenant_removals != __atomic_load_n(&s->tenant->removals, __ATOMIC_RELAXED);
}

/* Ends the sessions of @tenant, whose reference is in a session that is one of them. */
static uint32_t tenant_evict(struct reactor *r, const struct tenant *tenant)
{
	uint32_t n = 0;

	list_for_each(it, &r->sessions) {
		struct session *s = list_entry(it, struct session, link);

		if (s->tenant != tenant || !session_is_evicted(s))
			continue;
		node_session_close(s, false);
		n++;
	}
	return n;
}

void node_tenants_evict(struct reactor *r)
{
	uint32_t removals = __atomic_load_n(&r->node->tenants.removals, __ATOMIC_ACQUIRE);

	if (likely(removals == r->removals_seen))
		return;
	r->removals_seen = removals;
	list_for_each(it, &r->sessions) {
		const struct session *s = list_entry(it, struct session, link);

		if (session_is_evicted(s))
			log_notice(&r->node->log, "reactor %u: tenant %s was removed: %u of its "
				   "sessions closed", r->index, s->tenant->name,
				   tenant_evict(r, s->tenant));
	}
}
