/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the node, registered for a device: LOCAL_WRITE and nothing else, so that no key of it
 * is of use to a peer. A few large regions, each made by a thread of its own, since the kernel pins
 * page by page. What is registered once serves every transport of the process on that device.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "transport/verbs.h"

#define MEMORY_THREADS 4u

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list memory_all = { &memory_all, &memory_all };

struct memory_job {
	struct verbs_memory *m;
	const struct larder_log *log;
	uint32_t next;		/* atomic: of the regions */
	uint32_t done;		/* atomic */
	int error;		/* atomic: the first */
};

static uint64_t memory_size_of(const struct verbs_memory *m, uint32_t i)
{
	return MIN(m->bytes - i * m->mr_bytes, m->mr_bytes);
}

static void *memory_work(void *arg)
{
	struct memory_job *job = arg;
	struct verbs_memory *m = job->m;
	uint32_t i, done;

	while ((i = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < m->n) {
		int none = 0;

		m->mr[i] = ibv_reg_mr(m->pd, m->base + i * m->mr_bytes, memory_size_of(m, i),
				      IBV_ACCESS_LOCAL_WRITE);
		if (!m->mr[i]) {
			(void)__atomic_compare_exchange_n(&job->error, &none, -errno, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
			return NULL;
		}
		done = __atomic_add_fetch(&job->done, 1, __ATOMIC_RELAXED);
		if (m->n > 1)
			log_info(job->log, "rdma: %u of %u regions of memory are registered", done,
				 m->n);
	}
	return NULL;
}

static int memory_register(const struct larder_log *log, struct verbs_memory *m)
{
	struct memory_job job = { .m = m, .log = log };
	pthread_t threads[MEMORY_THREADS];
	uint32_t n = 0;

	/* this thread is one of them, so one that can not be made costs only time */
	while (n + 1 < MIN(m->n, MEMORY_THREADS) &&
	       pthread_create(&threads[n], NULL, memory_work, &job) == 0)
		n++;
	(void)memory_work(&job);
	while (n > 0)
		(void)pthread_join(threads[--n], NULL);
	return __atomic_load_n(&job.error, __ATOMIC_RELAXED);
}

static void memory_free(struct verbs_memory *m)
{
	for (uint32_t i = 0; i < m->n; i++) {
		if (m->mr[i])
			(void)ibv_dereg_mr(m->mr[i]);
	}
	if (m->pd)
		(void)ibv_dealloc_pd(m->pd);
	free(m);
}

static struct verbs_memory *memory_find(struct ibv_context *context, const void *base)
{
	list_for_each(it, &memory_all) {
		struct verbs_memory *m = list_entry(it, struct verbs_memory, link);

		if (m->context == context && m->base == base)
			return m;
	}
	return NULL;
}

static int memory_new(const struct larder_log *log, struct ibv_context *context,
		      const struct transport_config *config, const struct verbs_plan *plan,
		      struct verbs_memory **ret)
{
	struct verbs_memory *m = calloc(1, sizeof(*m) + plan->mrs * sizeof(m->mr[0]));
	int r;

	if (!m)
		return -ENOMEM;
	list_init(&m->link);
	m->context = context;
	m->base = config->memory;
	m->bytes = config->memory_bytes;
	m->mr_bytes = plan->mr_bytes;
	m->n = plan->mrs;
	m->pd = ibv_alloc_pd(context);
	r = m->pd ? memory_register(log, m) : -errno;
	if (r < 0) {
		log_err(log, "rdma: %llu MiB of memory can not be registered with %s: %s%s",
			(unsigned long long)(m->bytes >> 20), ibv_get_device_name(context->device),
			strerror(-r), r == -ENOMEM ? " (RLIMIT_MEMLOCK, or the device's tables)" :
						     "");
		memory_free(m);
		return r;
	}
	*ret = m;
	return 0;
}

int verbs_memory_get(const struct larder_log *log, struct ibv_context *context,
		     const struct transport_config *config, const struct verbs_plan *plan,
		     struct verbs_memory **ret)
{
	struct verbs_memory *m;
	int r = 0;

	(void)pthread_mutex_lock(&memory_lock);
	m = memory_find(context, config->memory);
	if (!m) {
		r = memory_new(log, context, config, plan, &m);
		if (r == 0)
			list_push_tail(&memory_all, &m->link);
	}
	if (r == 0) {
		m->users++;
		*ret = m;
	}
	(void)pthread_mutex_unlock(&memory_lock);
	return r;
}

void verbs_memory_put(struct verbs_memory *m)
{
	(void)pthread_mutex_lock(&memory_lock);
	if (--m->users == 0) {
		list_remove(&m->link);
		memory_free(m);
	}
	(void)pthread_mutex_unlock(&memory_lock);
}

size_t verbs_memory_key(const struct verbs_memory *m, const void *addr, uint32_t *ret_key)
{
	uintptr_t at, base;
	uint32_t i;

	if (!m)
		return 0;
	at = (uintptr_t)addr;
	base = (uintptr_t)m->base;
	if (at < base || at - base >= m->bytes)
		return 0;
	i = (uint32_t)((at - base) / m->mr_bytes);
	*ret_key = m->mr[i]->lkey;
	return memory_size_of(m, i) - (at - base - i * m->mr_bytes);
}
