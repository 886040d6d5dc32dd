/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a configuration to a node that serves: memory, node, tenants, listeners, reactors, in this
 * order, and back in reverse. Each failure has told its line by the time it gets here and becomes
 * an exit code of its own.
 */
#include "daemon.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "memory_dir.h"
#include "say.h"

/* How long a start may go on without another sign of life: at the slowest seen, four times over. */
#define START_EXTEND_US 60000000ull
#define START_RECORD_NS 10000ull	/* to look at one record */

int daemon_read_config(const struct daemon_arguments *a, struct config *c)
{
	int r = config_init(c);

	if (!r)
		r = config_load(c, a->config_path, a->config_required);
	for (unsigned i = 0; !r && i < a->n_set; i++)
		r = config_set(c, a->set[i], "--set");
	return r ? r : config_validate(c);
}

static void start_pick_dir(struct daemon *d, uint64_t bytes)
{
	const char *dir = config_string(&d->config, CONFIG_memory_dir);

	if (strcmp(dir, "auto") == 0)
		/* records and leases take up to a fifth more than small pages alone */
		dir = memory_dir_pick(bytes + bytes / 5 + (16u << 20));
	(void)snprintf(d->memory_dir, sizeof(d->memory_dir), "%s", dir);
}

static uint64_t start_now_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);	/* can not fail for this clock */
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void start_progress(void *user, uint64_t done, uint64_t total)
{
	struct daemon *d = user;
	uint64_t now = start_now_us();

	/* systemd's start time-out counts from the last sign of life */
	(void)sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu\nSTATUS=Taking memory: %llu of %llu MiB",
			 START_EXTEND_US, (unsigned long long)(done >> 20),
			 (unsigned long long)(total >> 20));
	if (!d->progress_us)
		d->progress_us = now;	/* a start of less than a second says nothing */
	if (now - d->progress_us < 1000000 || !isatty(STDERR_FILENO))
		return;
	d->progress_us = now;
	say(&d->log, LARDER_LOG_INFO, "taking memory: %llu of %llu MiB",
	    (unsigned long long)(done >> 20), (unsigned long long)(total >> 20));
}

/* The loop is not there yet; the signals that it will take are blocked, so they wait. */
static bool start_cancelled(void *user)
{
	sigset_t pending;

	return sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) == 1 ||
					     sigismember(&pending, SIGINT) == 1);
}

void daemon_memory_config(struct daemon *d, struct larder_memory_config *m)
{
	const struct config *c = &d->config;

	*m = (struct larder_memory_config){
		.create_dir = true,
		.any_filesystem = config_number(c, CONFIG_memory_any_filesystem),
		.size_bytes = config_number(c, CONFIG_memory_size),
		.pages = (uint32_t)config_number(c, CONFIG_memory_pages),
		.page_size_bytes = (uint32_t)config_number(c, CONFIG_memory_page_size),
		.records = (uint32_t)config_number(c, CONFIG_memory_records),
		.leases = (uint32_t)config_number(c, CONFIG_memory_leases),
		.namespaces = (uint32_t)config_number(c, CONFIG_memory_namespaces),
		.progress = start_progress,
		.cancelled = start_cancelled,
		.user = d,
		.log = &d->log,
	};
	start_pick_dir(d, m->pages ? (uint64_t)m->pages * m->page_size_bytes : m->size_bytes);
	m->dir = d->memory_dir;
}

static int start_memory(struct daemon *d)
{
	struct larder_memory_config m;
	struct larder_memory_info info;
	int r;

	daemon_memory_config(d, &m);
	r = larder_memory_open(&m, &d->memory);
	if (r == -EINTR) {
		say(&d->log, LARDER_LOG_NOTICE, "stopped while starting");
		d->stopping = true;
		return LARDERD_EXIT_OK;
	}
	if (r)
		return r == -EBUSY ? LARDERD_EXIT_MEMORY_BUSY :
		       r == -EPROTO ? LARDERD_EXIT_MEMORY_GEOMETRY : LARDERD_EXIT_MEMORY;
	larder_memory_get_info(d->memory, &info);
	say(&d->log, LARDER_LOG_INFO,
	    "memory %s: %u pages of %u KiB (%llu MiB), %u records (%llu MiB)%s, %s", d->memory_dir,
	    info.pages, info.page_size_bytes >> 10, (unsigned long long)(info.arena_bytes >> 20),
	    info.records, (unsigned long long)(info.records_bytes >> 20),
	    info.hugepages ? ", hugepages" : "", info.fresh ? "new" : "found");
	return LARDERD_EXIT_OK;
}

static long start_viewer_uid(const struct config *c)
{
	const struct passwd *p = getpwnam(config_string(c, CONFIG_view_user));

	return p ? (long)p->pw_uid : -1;
}

/* The kernel's boot id: it tells a restart of the process from one of the machine. */
static void start_boot_id(char *id, size_t size)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	id[0] = 0;
	if (!f)
		return;
	if (!fgets(id, (int)size, f))
		id[0] = 0;
	id[strcspn(id, "\n")] = 0;
	(void)fclose(f);
}

static int start_node(struct daemon *d)
{
	const struct config *c = &d->config;
	struct larder_node_config n;
	struct larder_node_stats stats;
	struct larder_memory_info info;
	char boot_id[64];
	int r;

	larder_node_config_defaults(&n);
	start_boot_id(boot_id, sizeof(boot_id));
	n.memory = d->memory;
	n.log = &d->log;
	n.boot_id = boot_id;
	n.reactors = (uint32_t)config_number(c, CONFIG_node_reactors);
	n.shards = (uint32_t)config_number(c, CONFIG_engine_shards);
	n.policy = config_string(c, CONFIG_engine_policy);
	n.reserve_bytes = config_number(c, CONFIG_engine_reserve);
	n.max_value_bytes = config_number(c, CONFIG_engine_max_value);
	n.scrub_bytes_per_s = config_number(c, CONFIG_engine_scrub);
	n.lease_max_ms = (uint32_t)config_number(c, CONFIG_engine_lease_max);
	n.max_connections = (uint32_t)config_number(c, CONFIG_node_max_connections);
	n.max_unauthenticated = (uint32_t)config_number(c, CONFIG_node_max_unauthenticated);
	n.handshake_timeout_ms = (uint32_t)config_number(c, CONFIG_node_handshake_timeout);
	n.keepalive_ms = (uint32_t)config_number(c, CONFIG_node_keepalive);
	n.stall_timeout_ms = (uint32_t)config_number(c, CONFIG_node_stall_timeout);
	n.credits = (uint32_t)config_number(c, CONFIG_node_credits);
	n.max_region_bytes = config_number(c, CONFIG_node_max_region);
	n.max_regions = (uint32_t)config_number(c, CONFIG_node_max_regions);
	n.verify_commit = config_number(c, CONFIG_node_verify_commit);
	n.viewer_uid = start_viewer_uid(c);
	n.resp = (struct larder_resp_config){
		.ns = config_string(c, CONFIG_resp_namespace),
		.default_tenant = config_string(c, CONFIG_resp_default_tenant),
		.drop = strcmp(config_string(c, CONFIG_resp_on_refusal), "drop") == 0,
		.verify = config_number(c, CONFIG_resp_verify),
		.exists_lease_ms = (uint32_t)config_number(c, CONFIG_resp_exists_lease),
		.wait_ms = (uint32_t)config_number(c, CONFIG_resp_wait),
		.idle_ms = (uint32_t)config_number(c, CONFIG_resp_idle_timeout),
	};
	/* the reactors and the control thread count, each in rows of its own */
	bpf_maps_open(config_string(c, CONFIG_ledger_bpf), n.reactors + 1, &d->log, &d->bpf_maps);
	n.ledger_maps = d->bpf_maps.there ? d->bpf_maps.map : NULL;
	larder_memory_get_info(d->memory, &info);
	(void)sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu\nSTATUS=Looking at %u records",
			 START_EXTEND_US + info.records * START_RECORD_NS / 1000, info.records);
	r = larder_node_open(&n, &d->node);
	if (r)
		return r == -ENOMEM ? LARDERD_EXIT_MEMORY : LARDERD_EXIT_INTERNAL;
	larder_node_get_stats(d->node, &stats);
	say(&d->log, LARDER_LOG_INFO,
	    "objects: %llu found, %llu records dropped; %llu bytes of metadata per object",
	    (unsigned long long)stats.rebuilt_objects, (unsigned long long)stats.dropped_records,
	    (unsigned long long)stats.bytes_per_object);
	return LARDERD_EXIT_OK;
}

static int start_tenants(struct daemon *d)
{
	const char *dir = config_string(&d->config, CONFIG_tenants_dir);
	char why[1024] = "";
	int r = tenants_open(d->node, config_string(&d->config, CONFIG_state_dir),
			     config_string(&d->config, CONFIG_control_socket), &d->log, &d->tenants,
			     why, sizeof(why));

	if (r) {
		say(&d->log, LARDER_LOG_ERR, "%s", why);
		return LARDERD_EXIT_STATE;
	}
	r = tenants_load(d->tenants, dir, why, sizeof(why));
	if (r < 0) {
		say(&d->log, LARDER_LOG_ERR, "%s", why);
		return LARDERD_EXIT_TENANTS;
	}
	if (r == 0)
		say(&d->log, LARDER_LOG_WARNING, "%s holds no tenant: nobody can connect", dir);
	return LARDERD_EXIT_OK;
}

int daemon_start(struct daemon *d)
{
	int r, n;

	/* what can be told at once is not told after gigabytes were taken */
	r = daemon_check(d);
	if (r)
		return r;
	r = daemon_check_tenants(d, &n);
	if (r)
		return r;
	r = start_memory(d);
	if (r || d->stopping)
		return r;
	r = start_node(d);
	if (r)
		return r;
	r = start_tenants(d);
	if (r)
		return r;
	r = daemon_listen(d);
	if (r)
		return r;
	r = reactors_start(d->node, (uint32_t)config_number(&d->config, CONFIG_node_reactors),
			   (uint32_t)config_number(&d->config, CONFIG_node_spin_us), &d->log,
			   &d->reactors);
	if (r)
		say(&d->log, LARDER_LOG_ERR, "reactors can not start: %s", strerror(-r));
	return r ? LARDERD_EXIT_INTERNAL : LARDERD_EXIT_OK;
}

void daemon_stop(struct daemon *d)
{
	d->reactors = reactors_stop(d->reactors);
	d->tenants = tenants_close(d->tenants);
	larder_node_close(d->node);
	d->node = NULL;
	bpf_maps_close(&d->bpf_maps);
	larder_memory_close(d->memory);
	d->memory = NULL;
}
