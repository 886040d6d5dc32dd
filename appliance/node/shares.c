/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tenants may read which namespaces of others, as the configuration says it: by name. Names
 * are kept, because either side may come later; the engine is told the ids of those that are there,
 * and told again when a tenant comes. The control thread's own: no reactor looks here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "node/node.h"

struct node_share {
	char reader[LARDER_TENANT_NAME_MAX + 1];
	uint16_t ns_len;
	uint8_t ns[LARDER_NS_NAME_MAX];
};

static void share_add_reader(struct larder_node *n, const char *reader, uint32_t owner,
			     struct engine_readers *readers)
{
	uint32_t id;

	/* not there yet: told again when it comes. To itself: it may anyway */
	if (records_tenant_find(engine_records(n->engine), reader, &id) == 0 && id != owner)
		readers->bits[id / 64] |= 1ull << id % 64;
}

static int shares_tell(struct larder_node *n, uint32_t owner, const struct node_share *shares,
		       size_t n_shares)
{
	_cleanup_free_ struct engine_share *told = NULL;

	if (n_shares) {
		told = calloc(n_shares, sizeof(*told));
		if (!told)
			return -ENOMEM;
	}
	for (size_t i = 0; i < n_shares; i++) {
		told[i].name = shares[i].ns;
		told[i].name_len = shares[i].ns_len;
		share_add_reader(n, shares[i].reader, owner, &told[i].readers);
	}
	return engine_set_shares(n->engine, owner, told, n_shares);
}

int node_shares_tell_all(struct larder_node *n)
{
	const struct node_tenants *t = &n->tenants;

	for (uint32_t i = 0; i < t->n; i++) {
		int r = t->at[i]->n_shares ? shares_tell(n, t->at[i]->id, t->at[i]->shares,
							 t->at[i]->n_shares) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

void node_shares_forget(struct larder_node *n, struct tenant *tenant)
{
	(void)engine_set_shares(n->engine, tenant->id, NULL, 0);	/* needs no memory */
	free(TAKE_PTR(tenant->shares));
	tenant->n_shares = 0;
}

/* 0 or -EINVAL. */
static int share_copy(const struct larder_share *from, struct node_share *to)
{
	if (!from->ns || from->ns_len < 1 || from->ns_len > LARDER_NS_NAME_MAX || !from->reader ||
	    !node_tenant_name_is_good(from->reader))
		return -EINVAL;
	to->ns_len = (uint16_t)from->ns_len;
	memcpy(to->ns, from->ns, from->ns_len);
	strcpy(to->reader, from->reader);	/* its length was checked */
	return 0;
}

LARDER_PUBLIC int larder_node_set_shares(struct larder_node *n, const char *name,
					 const struct larder_share *shares, size_t n_shares)
{
	_cleanup_free_ struct node_share *fresh = NULL;
	struct tenant *tenant = name ? node_tenants_find(&n->tenants, name) : NULL;
	int r;

	if (!tenant)
		return -ENOENT;
	if (n_shares) {
		fresh = calloc(n_shares, sizeof(*fresh));
		if (!fresh)
			return -ENOMEM;
	}
	for (size_t i = 0; i < n_shares; i++) {
		r = share_copy(&shares[i], &fresh[i]);
		if (r < 0)
			return r;
	}
	r = shares_tell(n, tenant->id, fresh, n_shares);
	if (r < 0)
		return r;
	free(tenant->shares);
	tenant->shares = TAKE_PTR(fresh);
	tenant->n_shares = n_shares;
	return 0;
}
