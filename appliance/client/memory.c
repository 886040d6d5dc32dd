/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions as callers see them. Mapping, copying and unmapping is done by the caller's own thread;
 * only the change of the core's table goes through the core.
 */
#include "client/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/handle.h"

struct memory_call {
	struct waiter w;
	struct larder_region *region;
};

static struct larder_region *memory_region(struct job *job)
{
	return container_of(job, struct memory_call, w.job)->region;
}

static int memory_call(struct larder_client *c, struct larder_region *r,
		       int (*local)(struct job *job))
{
	struct memory_call m = { .region = r };

	job_init_one(&m.w.job, 0, 0);
	m.w.job.kind = JOB_LOCAL;
	m.w.job.local = local;
	return handle_call(c, &m.w);
}

static int memory_attach(struct job *job)
{
	list_push_tail(&job->core->regions, &memory_region(job)->link);
	return LARDER_OK;
}

/* Nothing new may use it, and the node forgets it. */
static int memory_detach(struct job *job)
{
	struct larder_region *r = memory_region(job);

	if (r->closed || region_in_use(job->core, r))
		return LARDER_BUSY;
	r->closed = true;
	region_forget(job->core, r, job);
	return -1;	/* region_forget finishes it */
}

static int memory_remove(struct job *job)
{
	list_remove(&memory_region(job)->link);
	return LARDER_OK;
}

static int memory_reopen(struct job *job)
{
	struct larder_region *r = memory_region(job);

	r->closed = false;
	r->epoch = 0;
	r->state = REGION_UNKNOWN;
	return LARDER_OK;
}

static int memory_renewed(struct job *job)
{
	struct larder_region *r = memory_region(job);

	memset(r->detached, 0, mapping_bits(r) / 8);
	r->n_detached = 0;
	return memory_reopen(job);
}

static struct larder_region *memory_new(struct larder_client *c, size_t size, uint32_t flags)
{
	struct larder_region *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->client = c;
	r->size = size;
	r->flags = flags;
	r->fd = -1;
	r->page = (size_t)sysconf(_SC_PAGESIZE);
	list_init(&r->link);
	return r;
}

LARDER_PUBLIC int larder_region_alloc(struct larder_client *c, size_t size, uint32_t flags,
				      struct larder_region **ret)
{
	struct larder_region *region;
	int r = handle_check(c);

	if (r < 0)
		return r;
	if (!size || !ret || flags & ~LARDER_REGION_HUGE)
		return handle_refuse("a region has a size, a place for its handle and known flags");
	region = memory_new(c, size, flags);
	if (!region)
		return handle_errno(-ENOMEM);
	r = mapping_create(size, flags & LARDER_REGION_HUGE, &region->fd, &region->addr,
			   &region->page);
	if (r < 0) {
		region_free(region);
		return handle_errno(r);
	}
	region->owned = true;
	r = mapping_track(region);
	if (r < 0)
		(void)handle_errno(r);
	else
		r = memory_call(c, region, memory_attach);
	if (r < 0) {
		region_free(region);
		return r;
	}
	*ret = region;
	return 0;
}

LARDER_PUBLIC int larder_region_register(struct larder_client *c, void *addr, size_t size,
					 struct larder_region **ret)
{
	struct larder_region *region;
	int r = handle_check(c);

	if (r < 0)
		return r;
	if (!addr || !size || !ret || (uintptr_t)addr > UINTPTR_MAX - size)
		return handle_refuse("a region has an address, a size and a place for its handle");
	region = memory_new(c, size, 0);
	if (!region)
		return handle_errno(-ENOMEM);
	region->addr = addr;
	r = memory_call(c, region, memory_attach);
	if (r < 0) {
		region_free(region);
		return r;
	}
	*ret = region;
	return 0;
}

LARDER_PUBLIC void *larder_region_addr(const struct larder_region *r)
{
	return r->addr;
}

LARDER_PUBLIC size_t larder_region_size(const struct larder_region *r)
{
	return r->size;
}

static int memory_in_use(void)
{
	handle_error("an operation uses the region");
	return -EBUSY;
}

LARDER_PUBLIC int larder_region_free(struct larder_region *r)
{
	int k;

	if (!r)
		return 0;
	k = handle_check(r->client);
	if (k < 0)
		return k;
	k = memory_call(r->client, r, memory_detach);
	if (k == LARDER_BUSY)
		return memory_in_use();
	if (k < 0)
		return k;
	k = memory_call(r->client, r, memory_remove);
	if (k < 0)
		return k;
	region_free(r);
	return 0;
}

LARDER_PUBLIC int larder_region_renew(struct larder_region *r)
{
	int renewed, k;

	if (!r)
		return handle_refuse("there is no region");
	k = handle_check(r->client);
	if (k < 0)
		return k;
	if (r->fd < 0)
		return 0;	/* never direct where memory can be lost */
	k = memory_call(r->client, r, memory_detach);
	if (k)
		return k == LARDER_BUSY ? memory_in_use() : k;
	renewed = mapping_renew(r);
	k = memory_call(r->client, r, renewed < 0 ? memory_reopen : memory_renewed);
	return renewed < 0 ? handle_errno(renewed) : k;
}
