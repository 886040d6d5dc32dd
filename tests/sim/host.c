/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine that the node runs on: its memory, and how it dies.
 *
 * The memory is a pair of mappings of which one is in use. A crash at any instant is a copy of the
 * mapping in use into the other, made at that instant: whatever the doomed node still does goes to
 * memory that nobody will look at again, and whatever it still sends goes nowhere (loop_net.muted).
 * So it may run to the end of its step and be closed in order: nothing of it leaks, no lock of it
 * is left held, and what survives is exactly what was in memory when it died.
 *
 * Instants are: between two steps; at a look at the clock (several in each operation); or before
 * the n-th store into the record file. For the last the record file is write-protected: a store
 * faults, is counted, and is let through single-stepped, after which the protection comes back.
 * Where single-stepping is not known to this file, looks at the clock take its place.
 */
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "sim.h"

#if defined(__x86_64__)
#define HOST_STEPS 1
#define HOST_TRAP_FLAG 0x100
#else
#define HOST_STEPS 0
#endif

#define HOST_NAMESPACES 128u	/* ids of what is gone are not used again */

static struct world *host_watched;	/* its record file is write-protected */
static bool host_stepping;

/* --- the copy -------------------------------------------------------------------------------- */

static void host_copy(struct world *w)
{
	struct host *h = &w->host;

	memcpy(h->records[!h->live], h->records[h->live], h->records_bytes);
	memcpy(h->arena[!h->live], h->arena[h->live], h->arena_bytes);
	w->doom.dead = true;
	w->net.muted = true;
}

static void host_protect(const struct host *h, bool on)
{
	/* fails for wrong arguments only, and a store let through unseen is no fault of the node */
	(void)mprotect(h->records[h->live], h->records_bytes,
		       on ? PROT_READ : PROT_READ | PROT_WRITE);
}

#if HOST_STEPS
static void host_on_store(int sig, siginfo_t *info, void *context)
{
	struct world *w = host_watched;
	ucontext_t *uc = context;
	const struct host *h;
	uintptr_t at = (uintptr_t)info->si_addr, base;

	if (!w) {
		(void)signal(sig, SIG_DFL);	/* a real fault: again, and die of it */
		return;
	}
	h = &w->host;
	base = (uintptr_t)h->records[h->live];
	if (at - base >= h->records_bytes) {
		(void)signal(sig, SIG_DFL);
		return;
	}
	host_protect(h, false);
	if (--w->doom.count == 0) {
		host_watched = NULL;
		host_copy(w);
		return;
	}
	host_stepping = true;
	uc->uc_mcontext.gregs[REG_EFL] |= HOST_TRAP_FLAG;
}

static void host_on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	if (!host_stepping) {
		(void)signal(sig, SIG_DFL);
		return;
	}
	host_stepping = false;
	uc->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)HOST_TRAP_FLAG;
	if (host_watched)
		host_protect(&host_watched->host, true);
}

static void host_handlers(struct world *w)
{
	struct sigaction store = { .sa_sigaction = host_on_store, .sa_flags = SA_SIGINFO };
	struct sigaction step = { .sa_sigaction = host_on_step, .sa_flags = SA_SIGINFO };

	if (sigaction(SIGSEGV, &store, NULL) < 0 || sigaction(SIGTRAP, &step, NULL) < 0)
		sim_fail(w, "sigaction: %s", strerror(errno));
}
#else
static void host_handlers(struct world *w)
{
}
#endif

void host_arm_store(struct world *w, uint64_t stores)
{
	w->doom.when = HOST_STEPS ? DOOM_STORE : DOOM_CLOCK;
	w->doom.count = stores;
}

void host_disarm(struct world *w)
{
	w->doom.when = DOOM_NONE;
}

/* Only while the node's own code runs: nobody else's store is its death. */
static void host_watch(struct world *w, bool on)
{
	if (w->doom.when != DOOM_STORE || w->doom.dead)
		return;
	host_watched = on ? w : NULL;
	host_protect(&w->host, on);
}

void host_looked(struct world *w)
{
	if (w->doom.when != DOOM_CLOCK || w->doom.dead || --w->doom.count > 0)
		return;
	host_copy(w);
}

/* --- memory ---------------------------------------------------------------------------------- */

static void *host_map(struct world *w, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		sim_fail(w, "mmap of %zu bytes: %s", bytes, strerror(errno));
	return p;
}

void host_open(struct world *w)
{
	const struct knobs *k = &w->knobs;
	struct host *h = &w->host;

	h->geometry = (struct larder_memory_config){
		.pages = k->pages,
		.page_size_bytes = k->page,
		.records = k->records,
		.leases = k->leases,
		.namespaces = HOST_NAMESPACES,
		.log = world_log(w),
	};
	h->arena_bytes = (size_t)k->pages * k->page;
	h->records_bytes = ALIGN_UP(records_bytes(k->records, k->leases, HOST_NAMESPACES),
				    (size_t)4096);
	for (unsigned i = 0; i < 2; i++) {
		h->arena[i] = host_map(w, h->arena_bytes);
		h->records[i] = host_map(w, h->records_bytes);
	}
	host_handlers(w);
}

void host_close(struct world *w)
{
	struct host *h = &w->host;

	for (unsigned i = 0; i < 2; i++) {
		(void)munmap(h->arena[i], h->arena_bytes);	/* the arguments are mmap's */
		(void)munmap(h->records[i], h->records_bytes);
	}
}

static void host_detach(struct host *h)
{
	h->memory.records = records_detach(h->memory.records);
	h->memory.arena = arena_free_all(h->memory.arena);
}

/* What larder_memory_open does, over a mapping that outlives it. */
static void host_attach(struct world *w)
{
	struct host *h = &w->host;
	struct larder_memory *m = &h->memory;
	const char *why = NULL;
	int r;

	memset(m, 0, sizeof(*m));
	m->arena_fd = m->records_fd = -1;
	m->arena_map = h->arena[h->live];
	m->arena_map_bytes = h->arena_bytes;
	m->records_map = h->records[h->live];
	m->records_map_bytes = h->records_bytes;
	m->info = (struct larder_memory_info){
		.arena_bytes = h->arena_bytes,
		.records_bytes = h->records_bytes,
		.pages = w->knobs.pages,
		.page_size_bytes = w->knobs.page,
		.records = w->knobs.records,
		.fresh = !h->ever_opened,
	};
	r = records_attach(m->records_map, m->records_map_bytes, &h->geometry, NULL,
			   m->info.fresh, &m->records, &why);
	if (r < 0)
		sim_fail(w, "the record file is refused: %s", why ? why : strerror(-r));
	r = arena_new(m->arena_map, w->knobs.pages, w->knobs.page, &m->arena);
	if (r < 0)
		sim_fail(w, "arena: %s", strerror(-r));
	h->ever_opened = true;
}

/* --- life ------------------------------------------------------------------------------------ */

static void host_config(struct world *w, struct larder_node_config *c)
{
	const struct knobs *k = &w->knobs;

	larder_node_config_defaults(c);
	c->memory = &w->host.memory;
	c->environment = &w->node_env;
	c->log = world_log(w);
	c->boot_id = "sim";
	c->reactors = k->reactors;
	c->shards = k->shards;
	c->policy = k->policy;
	c->reserve_bytes = k->reserve;
	c->max_value_bytes = k->value_max;
	c->lease_max_ms = k->lease_max_ms;
	c->max_connections = 64;
	c->max_unauthenticated = 16;
	c->handshake_timeout_ms = 500;
	c->keepalive_ms = k->keepalive_ms;
	c->stall_timeout_ms = k->stall_ms;
	c->credits = k->credits;
	c->seed = prng_next(&w->node_rng);
}

/* In another order each time: who is who must come from the names. */
static void host_add_tenants(struct world *w)
{
	uint32_t n = w->knobs.tenants, first = (uint32_t)prng_below(&w->node_rng, n);

	for (uint32_t i = 0; i < n; i++) {
		char name[24], secret[24];
		uint32_t t = (first + i) % n;
		int r;

		(void)snprintf(name, sizeof(name), "tenant-%u", t);
		(void)snprintf(secret, sizeof(secret), "secret-%u", t);
		r = larder_node_tenant_add(w->node, name, secret, strlen(secret), NULL, 0);
		if (r < 0)
			sim_fail(w, "tenant_add: %s", strerror(-r));
	}
}

void host_boot(struct world *w)
{
	struct larder_node_config config;
	int r;

	host_attach(w);
	host_config(w, &config);
	host_watch(w, true);
	r = larder_node_open(&config, &w->node);
	host_watch(w, false);
	if (r < 0)
		sim_fail(w, "the node does not start: %s", strerror(-r));
	/* what it finds in memory was seen last by the one before; one that dies
	 * while it looks may have moved the leases, and the next moves them again */
	if (w->node_seen_ns)
		w->gaps_ns += w->now_ns - w->node_seen_ns + 20 * NSEC_PER_MSEC;
	if (w->doom.dead) {
		host_bury(w);
		return;
	}
	host_add_tenants(w);
	tenants_booted(w);
	r = larder_node_listen(w->node, "loop://sim");
	if (r < 0)
		sim_fail(w, "the node does not listen: %s", strerror(-r));
	w->node_seen_ns = w->now_ns;
	memset(w->node_wake_ns, 0, sizeof(w->node_wake_ns));
	world_trace(w, "boot", w->crashes, 0, 0);
}

void host_bury(struct world *w)
{
	struct larder_node *node = TAKE_PTR(w->node);

	larder_node_close(node);
	host_detach(&w->host);
	w->host.live = !w->host.live;
	w->net.muted = false;
	w->doom = (struct doom){ .when = DOOM_NONE };
	w->crashes++;
	w->restart_ns = w->now_ns + between(&w->fault_rng, 0, 400) * NSEC_PER_MSEC;
	world_trace(w, "crash", w->crashes, 0, 0);
	fill_ends_all(w);
	model_barrier(w);
}

void host_die(struct world *w)
{
	host_copy(w);
	host_bury(w);
}

int host_step(struct world *w)
{
	int work = 0;

	host_watch(w, true);
	for (uint32_t i = 0; i < w->knobs.reactors; i++) {
		int r = larder_node_step(w->node, i);

		if (r < 0) {
			host_watch(w, false);
			sim_fail(w, "reactor %u is broken: %s", i, strerror(-r));
		}
		work += r;
		w->node_wake_ns[i] = r > 0 ? 0 : w->now_ns +
			(uint64_t)larder_node_timeout_ms(w->node, i) * NSEC_PER_MSEC;
	}
	host_watch(w, false);
	if (w->doom.when == DOOM_STEP && !w->doom.dead && --w->doom.count == 0)
		host_copy(w);
	if (w->doom.dead)
		host_bury(w);
	return work;
}
