/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node: what it is made of, in which order it comes up and goes down. It owns the ledger, the
 * engine and the reactors; memory, clock and randomness stay its caller's.
 *
 * Going down is the reverse of coming up, after each reactor has ended its connections: nothing
 * may be under way in the engine when it closes.
 */
#include <larder/node.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "engine/policy.h"
#include "node/node.h"

LARDER_PUBLIC void larder_node_config_defaults(struct larder_node_config *config)
{
	*config = (struct larder_node_config){
		.reactors = 1,
		.shards = 16,
		.policy = "aseg",
		.reserve_bytes = 0,
		.max_value_bytes = 256ull << 20,
		.lease_max_ms = 60000,
		.scrub_bytes_per_s = 32u << 20,
		.max_connections = 1024,
		.max_unauthenticated = 64,
		.handshake_timeout_ms = 5000,
		.keepalive_ms = 30000,
		.stall_timeout_ms = 30000,
		.credits = 32,
		.max_region_bytes = 64ull << 30,
		.max_regions = 64,
		.verify_commit = true,
		.viewer_uid = -1,
		.resp = { .verify = true, .exists_lease_ms = 5000, .wait_ms = 5000 },
		.seed = 1,
	};
}

LARDER_PUBLIC bool larder_node_policy_known(const char *name, const char **ret_names)
{
	if (ret_names)
		*ret_names = policy_names();
	return policy_find(name) != NULL;
}

/* NULL, or which value is out of range and what it may be. */
static const char *node_config_fault(const struct larder_node_config *c)
{
	/* the checks of a value and its key go into one message: PUT is the tightest */
	const uint64_t max_checks = (WIRE_MESSAGE_MAX - WIRE_HEADER_SIZE - sizeof(struct wire_put) -
				     WIRE_SEGS_MAX * sizeof(struct wire_seg) - LARDER_KEY_MAX) / 4;

	if (!c->memory)
		return "there is no memory to serve from";
	if (c->reactors < 1 || c->reactors > 64)
		return "reactors must be 1 to 64";
	if (!c->policy)
		return "no eviction policy is named";
	if (c->max_value_bytes < 1 || c->max_value_bytes > 256ull << 20 ||
	    larder_check_count(c->max_value_bytes) > max_checks)
		return "max_value must be 1 byte to 256 MiB";
	if (c->max_connections < 1 || c->max_connections > 1u << 20)
		return "max_connections must be 1 to 1,048,576";
	if (c->max_unauthenticated < 1)
		return "max_unauthenticated must be at least 1";
	if (c->handshake_timeout_ms < 1 || c->keepalive_ms < 1 || c->stall_timeout_ms < 1)
		return "handshake, keepalive and stall timeouts must be at least 1 ms";
	if (c->credits < 1 || c->credits > 1024)
		return "credits must be 1 to 1,024";
	if (c->max_regions > 4096)
		return "max_regions must be at most 4,096";
	if (c->lease_max_ms < 1)
		return "lease_max must be at least 1 ms";
	if (c->resp.ns && (strlen(c->resp.ns) < 1 || strlen(c->resp.ns) > LARDER_NS_NAME_MAX ||
			   strchr(c->resp.ns, ':')))
		return "the namespace of RESP must have 1 to 128 bytes, and no ':'";
	if (c->resp.default_tenant && strlen(c->resp.default_tenant) > LARDER_TENANT_NAME_MAX)
		return "the default tenant of RESP must have at most 32 bytes";
	if (c->resp.wait_ms < 1)
		return "RESP commands must wait at least 1 ms";
	return NULL;
}

static void node_take_environment(struct larder_node *n, const struct larder_environment *env)
{
	n->clock = clock_system;
	n->random = secure_random_system;
	if (!env)
		return;
	/* one user pointer serves both of the clock's functions: take both or neither */
	if (env->monotonic_ns && env->wall_ms)
		n->clock = (struct clock){ .monotonic_ns = env->monotonic_ns,
					   .wall_ms = env->wall_ms, .user = env->user };
	if (env->random_bytes)
		n->random = (struct secure_random){ .bytes = env->random_bytes, .user = env->user };
}

static int node_open_engine(struct larder_node *n)
{
	struct larder_memory_info info;

	larder_memory_get_info(n->config.memory, &info);
	n->page_size = info.page_size_bytes;
	struct engine_config ec = {
		.memory = n->config.memory,
		.ledger = n->ledger,
		.clock = &n->clock,
		.log = &n->log,
		.shards = n->config.shards,
		.reactors = n->config.reactors,
		.policy = n->config.policy,
		.reserve_pages = arena_pages_of(info.page_size_bytes, n->config.reserve_bytes),
		.max_value_bytes = n->config.max_value_bytes,
		.lease_max_ms = n->config.lease_max_ms,
		.scrub_bytes_per_s = n->config.scrub_bytes_per_s,
		.seed = n->config.seed,
		.boot_id = n->boot_id,
	};
	int r = engine_open(&ec, &n->engine);

	if (r < 0)
		return r;
	struct larder_node_section *v = n->ledger->node;
	struct records_rebuilt rebuilt;

	engine_get_rebuilt(n->engine, &rebuilt);
	v->start_time_ms = clock_wall_ms(&n->clock);
	v->pages = info.pages;
	v->page_size_bytes = info.page_size_bytes;
	v->records = info.records;
	v->rebuilt_objects = rebuilt.objects;
	v->dropped_records = rebuilt.dropped_bad + rebuilt.dropped_twice;
	return 0;
}

static int node_open_reactors(struct larder_node *n)
{
	n->reactors = calloc(n->config.reactors, sizeof(*n->reactors));
	if (!n->reactors)
		return -ENOMEM;
	for (uint32_t i = 0; i < n->config.reactors; i++) {
		n->reactors[i].epoll_fd = n->reactors[i].wake_fd = -1;
		list_init(&n->reactors[i].sessions);
	}
	for (uint32_t i = 0; i < n->config.reactors; i++) {
		int r = node_reactor_init(&n->reactors[i], n, i);

		if (r < 0)
			return r;
	}
	return 0;
}

static int node_open_parts(struct larder_node *n)
{
	int r = n->random.bytes(n->random.user, &n->boot_nonce, sizeof(n->boot_nonce));

	if (r == 0)
		r = n->random.bytes(n->random.user, n->dummy_secret, sizeof(n->dummy_secret));
	if (r < 0) {
		log_err(&n->log, "no randomness for nonces: %s", strerror(-r));
		return r;
	}
	r = ledger_open(n->config.reactors + 1, n->config.ledger_maps, &n->ledger);
	if (r < 0) {
		log_err(&n->log, "the ledger can not be made: %s", strerror(-r));
		return r;
	}
	n->start_ns = clock_now(&n->clock);
	r = node_open_engine(n);
	if (r < 0)
		return r;	/* the engine has logged it */
	node_limits_init(n);
	r = node_open_reactors(n);
	if (r < 0)
		log_err(&n->log, "no memory or descriptors for %u reactors: %s",
			n->config.reactors, strerror(-r));
	return r;
}

/* Their lengths were checked. */
static void node_copy_resp(struct larder_node *n, const struct larder_resp_config *c)
{
	(void)snprintf(n->resp_ns, sizeof(n->resp_ns), "%s", c->ns ? c->ns : "auto");
	(void)snprintf(n->resp_tenant, sizeof(n->resp_tenant), "%s",
		       c->default_tenant ? c->default_tenant : "");
	n->config.resp.ns = n->resp_ns;
	n->config.resp.default_tenant = n->resp_tenant;
}

LARDER_PUBLIC int larder_node_open(const struct larder_node_config *config,
				   struct larder_node **ret)
{
	const char *fault = node_config_fault(config);

	if (fault) {
		log_err(config->log, "the node can not start: %s", fault);
		return -EINVAL;
	}
	struct larder_node *n = calloc(1, sizeof(*n));

	if (!n) {
		log_err(config->log, "the node can not start: out of memory");
		return -ENOMEM;
	}
	n->config = *config;
	if (config->log)
		n->log = *config->log;
	if (config->boot_id)
		strncpy(n->boot_id, config->boot_id, sizeof(n->boot_id) - 1);
	node_copy_resp(n, &config->resp);
	n->config.log = &n->log;
	n->config.boot_id = n->boot_id;
	n->config.environment = NULL;	/* copied into clock and random */
	node_take_environment(n, config->environment);
	node_listed_init(n);
	node_tenants_init(&n->tenants);
	node_purges_init(&n->purges);
	int r = node_open_parts(n);

	n->config.ledger_maps = NULL;	/* mapped */
	if (r < 0) {
		larder_node_close(n);
		return r;
	}
	*ret = n;
	return 0;
}

LARDER_PUBLIC void larder_node_close(struct larder_node *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; n->reactors && i < n->config.reactors; i++)
		node_reactor_shutdown(&n->reactors[i]);
	for (uint32_t i = 0; n->reactors && i < n->config.reactors; i++)
		node_reactor_done(&n->reactors[i]);
	free(n->reactors);
	if (n->engine)
		n->engine = engine_close(n->engine);
	if (n->ledger)
		n->ledger = ledger_close(n->ledger);
	node_purges_done(&n->purges);
	node_tenants_done(&n->tenants);
	node_listed_done(n);
	explicit_bzero(n->dummy_secret, sizeof(n->dummy_secret));
	free(n);
}

LARDER_PUBLIC void larder_node_drain(struct larder_node *n, bool on)
{
	__atomic_store_n(&n->draining, on, __ATOMIC_RELAXED);
	__atomic_store_n(&n->ledger->node->draining, on, __ATOMIC_RELAXED);
}

LARDER_PUBLIC void larder_node_set_scrub(struct larder_node *n, uint64_t bytes_per_s)
{
	engine_set_scrub(n->engine, bytes_per_s);
}

LARDER_PUBLIC bool larder_node_is_drained(const struct larder_node *n)
{
	if (!node_draining(n))
		return false;
	for (uint32_t i = 0; i < n->config.reactors; i++) {
		const struct reactor *r = &n->reactors[i];

		if (__atomic_load_n(&r->requests, __ATOMIC_ACQUIRE) ||
		    __atomic_load_n(&r->puts, __ATOMIC_ACQUIRE))
			return false;
	}
	return true;
}
