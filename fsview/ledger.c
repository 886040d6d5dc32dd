/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control.h"

#define LEDGER_LOOK_MS 500
#define LEDGER_STILL_LOOKS 6	/* reactors turn at least once a second */
#define LEDGER_ASK_MS 1000u

struct ledger {
	const struct process_clock *clock;
	char *control;
	pthread_t thread;
	int stop_fd;
	pthread_mutex_t lock;		/* of all that follows */
	const uint8_t *base;		/* NULL: no node */
	size_t size;
	struct larder_ledger_header header;	/* what was checked is what is used */
	char version[32], listen[256];
	bool hugepages;
	/* the thread's own */
	uint64_t heartbeat;
	unsigned still;
	int told;
};

/* --- reading --------------------------------------------------------------------------------- */

static const void *ledger_at(const struct ledger *l, unsigned section, size_t offset)
{
	return l->base + l->header.section[section].offset + offset;
}

/* into[] += from[], word by word, as the words are at this moment. */
static void ledger_add(void *into, const void *from, size_t bytes)
{
	const uint64_t *words = from;
	uint64_t *to = into;

	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		to[i] += __atomic_load_n(&words[i], __ATOMIC_RELAXED);
}

/* Lock held. The slot of a tenant, or -ENOENT. */
static int ledger_slot(const struct ledger *l, const char *name)
{
	for (uint32_t i = 0; i < l->header.tenants; i++) {
		const struct larder_ledger_name *n =
			ledger_at(l, LARDER_SECTION_NAMES, i * sizeof(*n));

		if (!strncmp(n->tenant, name, sizeof(n->tenant)))
			return (int)i;
	}
	return -ENOENT;
}

int ledger_node(struct ledger *l, struct ledger_node *ret)
{
	int r = -EIO;

	memset(ret, 0, sizeof(*ret));
	pthread_mutex_lock(&l->lock);
	if (l->base) {
		ledger_add(&ret->section, ledger_at(l, LARDER_SECTION_NODE, 0),
			   sizeof(ret->section));
		memcpy(ret->version, l->version, sizeof(ret->version));
		memcpy(ret->listen, l->listen, sizeof(ret->listen));
		ret->hugepages = l->hugepages;
		r = 0;
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

int ledger_tenant(struct ledger *l, const char *name, struct larder_usage *usage,
		  struct larder_gauges *gauges)
{
	int slot, r = -EIO;

	memset(usage, 0, sizeof(*usage));
	memset(gauges, 0, sizeof(*gauges));
	pthread_mutex_lock(&l->lock);
	slot = l->base ? ledger_slot(l, name) : -EIO;
	if (slot >= 0) {
		for (uint32_t w = 0; w < l->header.writers; w++)
			ledger_add(usage, ledger_at(l, LARDER_SECTION_USAGE,
						    ((size_t)w * l->header.tenants +
						     (unsigned)slot) * sizeof(*usage)),
				   offsetof(struct larder_usage, tenant));
		ledger_add(gauges, ledger_at(l, LARDER_SECTION_GAUGES,
					     (unsigned)slot * sizeof(*gauges)),
			   offsetof(struct larder_gauges, tenant));
	}
	/* a tenant that has no slot of its own has no figures */
	r = slot == -ENOENT || slot >= 0 ? 0 : slot;
	pthread_mutex_unlock(&l->lock);
	return r;
}

int ledger_limits(struct ledger *l, const char *name, uint64_t set[LARDER_LIMITS_MAX],
		  uint64_t effective[LARDER_LIMITS_MAX])
{
	size_t bytes = LARDER_LIMITS_MAX * sizeof(uint64_t);
	int slot;

	memset(set, 0, bytes);
	memset(effective, 0, bytes);
	pthread_mutex_lock(&l->lock);
	slot = l->base ? ledger_slot(l, name) : -EIO;
	if (slot >= 0) {
		ledger_add(set, ledger_at(l, LARDER_SECTION_LIMITS, (unsigned)slot * bytes), bytes);
		ledger_add(effective, ledger_at(l, LARDER_SECTION_EFFECTIVE,
						(unsigned)slot * bytes), bytes);
	}
	pthread_mutex_unlock(&l->lock);
	return slot == -EIO ? slot : 0;
}

int ledger_latency(struct ledger *l, struct larder_latency *ret)
{
	int r = -EIO;

	memset(ret, 0, sizeof(*ret));
	pthread_mutex_lock(&l->lock);
	if (l->base) {
		for (uint32_t w = 0; w < l->header.writers; w++)
			ledger_add(ret, ledger_at(l, LARDER_SECTION_LATENCY, w * sizeof(*ret)),
				   sizeof(*ret));
		r = 0;
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

int ledger_tenants(struct ledger *l, bool (*fn)(void *user, const char *name), void *user)
{
	int r = -EIO;

	pthread_mutex_lock(&l->lock);
	for (uint32_t i = 0; l->base && i < l->header.tenants; i++) {
		const struct larder_ledger_name *n =
			ledger_at(l, LARDER_SECTION_NAMES, i * sizeof(*n));
		char name[sizeof(n->tenant)];

		memcpy(name, n->tenant, sizeof(name));
		name[sizeof(name) - 1] = '\0';
		if (name[0] && name[0] != '_' && !fn(user, name))
			break;
	}
	r = l->base ? 0 : -EIO;
	pthread_mutex_unlock(&l->lock);
	return r;
}

uint64_t ledger_bucket_bound(unsigned bucket)
{
	if (bucket <= 4)
		return bucket;
	return (uint64_t)(5 + (bucket - 5) % 4) << (bucket - 5) / 4;
}

uint64_t ledger_quantile(const uint64_t buckets[LARDER_LATENCY_BUCKETS], double q)
{
	uint64_t total = 0, seen = 0, rank;

	for (unsigned i = 0; i < LARDER_LATENCY_BUCKETS; i++)
		total += buckets[i];
	if (!total)
		return 0;
	rank = (uint64_t)(q * (double)total);
	if ((double)rank < q * (double)total || !rank)
		rank++;
	for (unsigned i = 0; i < LARDER_LATENCY_BUCKETS; i++) {
		seen += buckets[i];
		if (seen >= rank)
			return ledger_bucket_bound(i);
	}
	return ledger_bucket_bound(LARDER_LATENCY_BUCKETS - 1);
}

/* --- the thread ------------------------------------------------------------------------------ */

/* What each section must hold for what is read from it here. */
static uint64_t ledger_need(const struct larder_ledger_header *h, unsigned section)
{
	uint64_t tenants = h->tenants, writers = h->writers;

	switch (section) {
	case LARDER_SECTION_USAGE:
		return writers * tenants * sizeof(struct larder_usage);
	case LARDER_SECTION_GAUGES:
		return tenants * sizeof(struct larder_gauges);
	case LARDER_SECTION_LATENCY:
		return writers * sizeof(struct larder_latency);
	case LARDER_SECTION_LIMITS:
	case LARDER_SECTION_EFFECTIVE:
		return tenants * LARDER_LEDGER_LIMITS * sizeof(uint64_t);
	case LARDER_SECTION_NAMES:
		return tenants * sizeof(struct larder_ledger_name);
	default:
		return sizeof(struct larder_node_section);
	}
}

static bool ledger_good(const struct larder_ledger_header *h, uint64_t size)
{
	if (h->magic != LARDER_LEDGER_MAGIC || h->layout != LARDER_LEDGER_LAYOUT ||
	    h->writers == 0 || h->writers > LARDER_LEDGER_WRITERS_MAX ||
	    h->tenants != LARDER_LEDGER_TENANTS)
		return false;
	for (unsigned i = 0; i < LARDER_SECTIONS; i++) {
		uint64_t offset = h->section[i].offset, len = h->section[i].size;

		if (offset > size || len > size - offset || offset % sizeof(uint64_t) ||
		    len < ledger_need(h, i))
			return false;
	}
	return true;
}

static void ledger_drop(struct ledger *l)
{
	pthread_mutex_lock(&l->lock);
	if (l->base)
		(void)munmap((void *)(uintptr_t)l->base, l->size);	/* can't fail */
	l->base = NULL;
	pthread_mutex_unlock(&l->lock);
}

static int ledger_map(struct ledger *l, int fd)
{
	struct larder_ledger_header header;
	struct stat st;
	uint8_t *base;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < (off_t)sizeof(header))
		return -EPROTO;
	base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	memcpy(&header, base, sizeof(header));
	if (!ledger_good(&header, (uint64_t)st.st_size)) {
		(void)munmap(base, (size_t)st.st_size);
		return -EPROTO;
	}
	ledger_drop(l);
	pthread_mutex_lock(&l->lock);
	l->base = base;
	l->size = (size_t)st.st_size;
	l->header = header;
	pthread_mutex_unlock(&l->lock);
	return 0;
}

static void ledger_describe(struct ledger *l)
{
	json_t *stats = NULL;
	const char *version, *listen;

	if (control_ask(l->control, "stats", LEDGER_ASK_MS, l->clock, &stats, NULL))
		return;
	version = json_string_value(json_object_get(stats, "version"));
	listen = json_string_value(json_object_get(stats, "listen"));
	pthread_mutex_lock(&l->lock);
	(void)snprintf(l->version, sizeof(l->version), "%s", version ? version : "");
	(void)snprintf(l->listen, sizeof(l->listen), "%s", listen ? listen : "");
	l->hugepages = json_is_true(json_object_get(json_object_get(stats, "memory"),
						    "hugepages"));
	pthread_mutex_unlock(&l->lock);
	json_decref(stats);
}

static int ledger_ask(struct ledger *l)
{
	json_t *answer = NULL;
	int fd = -1;
	int r = control_ask(l->control, "ledger", LEDGER_ASK_MS, l->clock, &answer, &fd);

	json_decref(answer);
	if (!r && fd < 0)
		r = -EPROTO;
	if (!r)
		r = ledger_map(l, fd);
	if (fd >= 0)
		(void)close(fd);	/* the mapping stays */
	return r;
}

static void ledger_tell(struct ledger *l, int r)
{
	if (r == l->told)
		return;
	l->told = r;
	if (r == -EACCES)
		process_say(LARDER_LOG_WARNING, "%s refuses this user: status files and df stay "
			    "empty until it is in the node's control.stats_group", l->control);
	else if (r)
		process_say(LARDER_LOG_WARNING, "%s: %s: no figures for status files and df until "
			    "it answers", l->control, strerror(-r));
}

/* One look at whether the node's heart beats. */
static void ledger_look(struct ledger *l)
{
	struct ledger_node n;
	bool there = ledger_node(l, &n) == 0;
	int r;

	l->still = there && n.section.heartbeat_ns == l->heartbeat ? l->still + 1 : 0;
	l->heartbeat = n.section.heartbeat_ns;
	if (there && l->still < LEDGER_STILL_LOOKS)
		return;
	l->still = 0;
	r = ledger_ask(l);
	if (!r)
		ledger_describe(l);
	else
		ledger_drop(l);
	ledger_tell(l, r);
}

static void *ledger_thread(void *arg)
{
	struct ledger *l = arg;
	struct pollfd p = { l->stop_fd, POLLIN, 0 };

	while (poll(&p, 1, LEDGER_LOOK_MS) <= 0 || !p.revents)
		ledger_look(l);
	return NULL;
}

int ledger_open(const char *control, const struct process_clock *clock, struct ledger **ret)
{
	struct ledger *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->clock = clock;
	l->control = strdup(control);
	l->stop_fd = eventfd(0, EFD_CLOEXEC);
	r = l->control ? 0 : -ENOMEM;
	if (!r && l->stop_fd < 0)
		r = -errno;
	if (!r)
		r = -pthread_mutex_init(&l->lock, NULL);
	if (!r) {
		ledger_look(l);
		r = -pthread_create(&l->thread, NULL, ledger_thread, l);
	}
	if (r) {
		ledger_drop(l);
		if (l->stop_fd >= 0)
			(void)close(l->stop_fd);
		free(l->control);
		free(l);
		return r;
	}
	*ret = l;
	return 0;
}

void ledger_close(struct ledger *l)
{
	uint64_t one = 1;

	if (!l)
		return;
	while (write(l->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	(void)pthread_join(l->thread, NULL);	/* it is ours and not yet joined */
	ledger_drop(l);
	(void)close(l->stop_fd);
	(void)pthread_mutex_destroy(&l->lock);	/* nobody holds it */
	free(l->control);
	free(l);
}
