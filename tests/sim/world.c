/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time, randomness, turns, the trace. Time goes on only here, between turns, so a step takes none;
 * it goes on quickly while nothing happens. Everything that decides anything is drawn from one of
 * the world's generators, and everything that happens goes into the hash of the trace: a seed that
 * gives two hashes has found a dependence on the machine.
 */
#include <poll.h>
#include <stdarg.h>

#include "sim.h"

#define WORLD_IDLE_DT (2 * NSEC_PER_MSEC)
#define WORLD_WALL_MS 1700000000000ll

void world_trace(struct world *w, const char *what, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t in[4] = { w->now_ns, a, b, c };

	for (unsigned i = 0; i < 4; i++)
		w->hash = (w->hash ^ in[i]) * 0x9e3779b97f4a7c15u + (w->hash >> 29);
	for (const char *at = what; *at; at++)
		w->hash = (w->hash ^ (uint8_t)*at) * 0x100000001b3u;
	if (w->verbose)
		printf("%12.6f %-10s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		       (double)w->now_ns / 1e9, what, a, b, c);
}

static void world_log_line(void *user, int level, const char *text)
{
	struct world *w = user;

	world_trace(w, text, (uint64_t)level, 0, 0);
}

const struct larder_log *world_log(struct world *w)
{
	static struct larder_log log = { .line = world_log_line, .level = LARDER_LOG_INFO };

	log.user = w;
	return &log;
}

static uint64_t world_node_now(void *user)
{
	struct world *w = user;

	host_looked(w);
	return w->now_ns;
}

static uint64_t world_now(void *user)
{
	return ((struct world *)user)->now_ns;
}

static uint64_t world_wall(void *user)
{
	const struct world *w = user;

	return (uint64_t)(WORLD_WALL_MS + w->wall_offset_ms +
			  (int64_t)(w->now_ns / NSEC_PER_MSEC));
}

static int world_random(struct prng *p, void *out, size_t len)
{
	uint8_t *to = out;

	while (len) {
		uint64_t x = prng_next(p);
		size_t n = MIN(len, sizeof(x));

		memcpy(to, &x, n);
		to += n;
		len -= n;
	}
	return 0;
}

static int world_node_random(void *user, void *out, size_t len)
{
	return world_random(&((struct world *)user)->node_rng, out, len);
}

static int world_client_random(void *user, void *out, size_t len)
{
	return world_random(&((struct world *)user)->client_rng, out, len);
}

void world_environment(struct world *w, struct larder_environment *env, bool node)
{
	env->user = w;
	env->monotonic_ns = node ? world_node_now : world_now;
	env->wall_ms = world_wall;
	env->random_bytes = node ? world_node_random : world_client_random;
}

/* --- clients --------------------------------------------------------------------------------- */

static int world_sync_turn(void *user)
{
	return world_turn(user);
}

void world_client_open(struct world *w, struct client *c)
{
	struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;
	char tenant[24], secret[24];
	int r;

	(void)snprintf(tenant, sizeof(tenant), "tenant-%u", c->tenant);
	(void)snprintf(secret, sizeof(secret), "secret-%u", c->tenant);
	o.url = "loop://sim";
	o.tenant = tenant;
	o.secret = secret;
	o.secret_len = strlen(secret);
	o.deadline_ms = w->knobs.deadline_ms;
	o.connect_timeout_ms = 400;
	o.keepalive_ms = w->knobs.keepalive_ms;
	o.grace_ms = 20;
	o.fail_fast_after = 3;
	o.bounce_bytes = 1 << 20;
	o.log = world_log(w);
	world_environment(w, &c->env, false);
	r = larder_open_stepped(&o, &c->env, world_sync_turn, w, &c->c);
	if (r < 0)
		sim_fail(w, "larder_open_stepped: %s", strerror(-r));
	memset(c->ns_open, 0, sizeof(c->ns_open));
	c->shared_open = false;
}

/* Who is inside a synchronous call is stepped by that call. */
void world_sync_begin(struct client *c)
{
	c->inside = true;
	c->w->depth++;
}

void world_sync_end(struct client *c)
{
	c->inside = false;
	c->w->depth--;
}

bool world_step_client(struct client *c)
{
	struct world *w = c->w;
	int r;

	if (!c->c || c->inside || w->now_ns < c->slow_until_ns)
		return false;
	r = larder_step(c->c);
	if (r < 0)
		sim_fail(w, "larder_step: %s", strerror(-r));
	return r > 0;
}

/* --- turns ----------------------------------------------------------------------------------- */

static void world_faults(struct world *w)
{
	const struct faults *f = &w->knobs.may;
	struct prng *r = &w->fault_rng;

	if (f->gaps && chance(r, 1500)) {
		uint64_t gap = between(r, 1001, 6000) * NSEC_PER_MSEC;	/* everybody stood still */

		w->now_ns += gap;
		/* promised while the node runs; one that is stopped or down may add its own */
		model_forgive(w, gap);
		world_trace(w, "gap", 0, 0, 0);
	}
	if (f->gaps && w->node && chance(r, 2500))	/* the node alone did */
		w->node_stop_ns = w->now_ns + between(r, 100, 3000) * NSEC_PER_MSEC;
	if (f->wall && chance(r, 300))
		w->wall_offset_ms += (int64_t)between(r, 0, 7200000) - 3600000;
	if (f->slow && chance(r, 200))
		w->client[prng_below(r, w->knobs.clients)].slow_until_ns =
			w->now_ns + between(r, 1, 1500) * NSEC_PER_MSEC;
	if (!f->crashes || !w->node || w->doom.when != DOOM_NONE || !chance(r, 400))
		return;
	switch (prng_below(r, 4)) {
	case 0:
		w->doom.when = DOOM_STEP;
		w->doom.count = between(r, 1, 20);
		break;
	case 1:
		w->doom.when = DOOM_CLOCK;
		w->doom.count = between(r, 1, 60);
		break;
	default:
		host_arm_store(w, between(r, 1, chance(r, 3) ? 600 : 120));
		break;
	}
}

/* Does the node's own contract say that it must be stepped now? */
static bool world_node_due(struct world *w)
{
	if (!w->knobs.sleeps)
		return true;
	for (uint32_t i = 0; i < w->knobs.reactors; i++) {
		struct pollfd pfd = { .fd = larder_node_event_fd(w->node, i), .events = POLLIN };

		if (w->now_ns >= w->node_wake_ns[i] || poll(&pfd, 1, 0) > 0)
			return true;
	}
	return false;
}

/* The node is up, and then nobody runs for a while. */
static void world_boot_gap(struct world *w)
{
	uint64_t gap = w->node ? w->boot_gap_ns : 0;

	if (!gap)
		return;
	w->boot_gap_ns = 0;
	w->now_ns += gap;
	model_forgive(w, gap);
	world_trace(w, "boot gap", gap, 0, 0);
}

static int world_node_turn(struct world *w)
{
	if (!w->node) {
		if (w->now_ns < w->restart_ns)
			return 0;
		if (w->wild && w->knobs.may.crashes && chance(&w->fault_rng, 5))
			host_arm_store(w, between(&w->fault_rng, 1, 200));
		host_boot(w);
		if (!w->wild)
			host_disarm(w);
		else if (w->knobs.may.gaps && chance(&w->fault_rng, 4))
			w->boot_gap_ns = between(&w->fault_rng, 1100, 4000) * NSEC_PER_MSEC;
		world_boot_gap(w);
		return 1;
	}
	if (w->now_ns < w->node_stop_ns || !world_node_due(w))
		return 0;
	/* twice: one that dies before its next heartbeat leaves the same gap to the next node */
	if (w->now_ns - w->node_seen_ns > 900 * NSEC_PER_MSEC)
		w->gaps_ns += 2 * (w->now_ns - w->node_seen_ns);
	w->node_seen_ns = w->now_ns;
	return host_step(w);
}

static void world_time(struct world *w, int work)
{
	uint64_t dt = work || w->fine ? between(&w->time_rng, 5, 60) * NSEC_PER_USEC
			   : between(&w->time_rng, WORLD_IDLE_DT / 8, WORLD_IDLE_DT);

	w->now_ns += dt;
	if (!w->node)		/* what passes between two nodes is held against no lease */
		model_forgive(w, dt);
}

int world_turn(struct world *w)
{
	uint32_t n = w->knobs.clients, first = (uint32_t)prng_below(&w->time_rng, n);
	int work;

	w->turns++;
	if (w->wild)
		world_faults(w);
	work = world_node_turn(w);
	for (uint32_t i = 0; i < n; i++)
		work += world_step_client(&w->client[(first + i) % n]);
	/* also inside a synchronous call: who waits there does not stop the others' clocks */
	for (uint32_t i = 0; i < n; i++)
		op_poll(w, &w->client[i]);
	if (w->die_now && w->node)
		host_die(w);
	w->die_now = false;
	tenants_turn(w);
	limits_watch(w);
	world_time(w, work);
	model_refresh(w);
	return work;
}

/* --- the whole ------------------------------------------------------------------------------- */

void world_open(struct world *w)
{
	struct prng root;
	struct prng *const rngs[] = { &w->knob_rng, &w->time_rng, &w->net_rng, &w->fault_rng,
				      &w->op_rng, &w->node_rng, &w->client_rng, &w->more_rng };

	prng_seed(&root, w->seed);
	for (unsigned i = 0; i < ARRAY_SIZE(rngs); i++)
		prng_seed(rngs[i], prng_next(&root));
	w->now_ns = 1000 * NSEC_PER_SEC;
	w->hash = w->seed;
	knobs_draw(w);
	world_environment(w, &w->node_env, true);
	net_open(w);
	model_open(w);
	host_open(w);
	host_boot(w);
	for (uint32_t i = 0; i < w->knobs.clients; i++) {
		struct client *c = &w->client[i];

		c->w = w;
		c->index = i;
		c->tenant = i % w->knobs.tenants;
		world_client_open(w, c);
	}
}

void world_close(struct world *w)
{
	for (uint32_t i = 0; i < w->knobs.clients; i++)
		larder_close(w->client[i].c);
	larder_node_close(w->node);
	w->host.memory.records = records_detach(w->host.memory.records);
	w->host.memory.arena = arena_free_all(w->host.memory.arena);
	host_close(w);
	model_close(w);
	loop_set_net(NULL);
}
