/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: memory of the client that the node reads and writes.
 *
 * The client registers its memory for each connection anew: a key dies with the connection that it
 * was told on. It is deregistered only when nobody can be using it: the node has answered
 * REGION_DEL, or the queue pair is destroyed. Its pages are pinned until then, so memory that the
 * caller gives back to the system meanwhile is not handed to anybody else.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "transport/verbs.h"

static struct verbs_region *region_new(struct verbs_conn *c, uint64_t size)
{
	struct verbs_region *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->base.transport = c->base.transport;
	r->base.size = size;
	r->conn = c;
	list_push_tail(&c->regions, &r->link);
	c->n_regions++;
	c->region_bytes += size;
	return r;
}

static void region_unlink(struct verbs_region *r)
{
	if (r->conn) {
		r->conn->n_regions--;
		r->conn->region_bytes -= r->base.size;
		r->conn = NULL;
	}
	list_remove(&r->link);
}

int verbs_region_add(struct transport_conn *base, void *addr, size_t len, int fd,
		     uint64_t fd_offset, uint8_t *opaque, size_t *opaque_len,
		     struct transport_region **ret)
{
	struct verbs_conn *c = verbs_conn_of(base);
	struct verbs_region_name name = { .addr = (uintptr_t)addr, .size = len,
					  .version = VERBS_HELLO_VERSION };
	struct ibv_mr *mr;
	struct verbs_region *r;

	if (c->accepted || !addr || !len || *opaque_len < sizeof(name))
		return -EINVAL;
	if (c->phase > VERBS_OPEN || !c->device)
		return -ENOTCONN;
	mr = ibv_reg_mr(c->device->pd, addr, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
						  IBV_ACCESS_REMOTE_WRITE);
	if (!mr) {
		int error = -errno;

		log_warning(verbs_owner(c)->config.log,
			    "rdma: %zu bytes can not be registered: %s%s", len, strerror(-error),
			    error == -ENOMEM ? " (RLIMIT_MEMLOCK?)" : "");
		return error;
	}
	r = region_new(c, len);
	if (!r) {
		(void)ibv_dereg_mr(mr);
		return -ENOMEM;
	}
	r->mr = mr;
	name.rkey = mr->rkey;
	memcpy(opaque, &name, sizeof(name));
	*opaque_len = sizeof(name);
	*ret = &r->base;
	return 0;
}

int verbs_region_import(struct transport_conn *base, const uint8_t *opaque, size_t opaque_len,
			uint64_t size, struct transport_region **ret)
{
	struct verbs_conn *c = verbs_conn_of(base);
	const struct transport_config *config = &verbs_owner(c)->config;
	struct verbs_region_name name;
	struct verbs_region *r;

	if (!c->accepted || opaque_len != sizeof(name))
		return -EINVAL;
	if (c->phase > VERBS_OPEN)
		return -ENOTCONN;
	memcpy(&name, opaque, sizeof(name));
	if (name.version != VERBS_HELLO_VERSION || !size || name.size != size ||
	    name.addr > UINT64_MAX - size)
		return -EINVAL;
	if (c->n_regions >= config->max_regions ||
	    size > config->max_region_bytes - c->region_bytes)
		return -EDQUOT;
	r = region_new(c, size);
	if (!r)
		return -ENOMEM;
	r->addr = name.addr;
	r->rkey = name.rkey;
	*ret = &r->base;
	return 0;
}

/* The key is dead with this; the memory stays its owner's. */
static void region_deregister(struct verbs_region *r)
{
	int e = r->mr ? ibv_dereg_mr(TAKE_PTR(r->mr)) : 0;

	if (e)
		log_warning(verbs_of(r->base.transport)->config.log,
			    "rdma: a region can not be deregistered: %s", strerror(e));
}

int verbs_region_del(struct transport_region *base)
{
	struct verbs_region *r = container_of(base, struct verbs_region, base);

	if (r->busy)
		return -EBUSY;
	if (r->mr) {
		/* an end that is about to begin must come first: the next turn decides */
		r->dying = true;
		r->conn->region_dying = true;
		verbs_ready(r->conn);
		return 0;
	}
	region_unlink(r);
	free(r);
	return 0;
}

void verbs_region_bury(struct verbs_conn *c)
{
	c->region_dying = false;
	list_for_each_safe(at, &c->regions) {
		struct verbs_region *r = list_entry(at, struct verbs_region, link);

		if (!r->dying)
			continue;
		region_deregister(r);
		region_unlink(r);
		free(r);
	}
}

void verbs_region_orphan_all(struct verbs_conn *c)
{
	struct verbs_transport *t = verbs_owner(c);

	verbs_region_bury(c);
	list_for_each_safe(at, &c->regions) {
		struct verbs_region *r = list_entry(at, struct verbs_region, link);

		region_deregister(r);
		region_unlink(r);
		list_push_tail(&t->orphans, &r->link);
	}
}
