/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turn of the core: issue what may be sent, send it, take what arrived, look at the clock.
 *
 * Order matters in two places. Events are taken before timers, so that an answer that came while
 * nobody looked counts although its deadline has passed meanwhile. And a step that begins more than
 * a second later than it should have (the process was stopped, the machine slept) moves the
 * deadlines by which the node's silence is judged: silence counts only while we were looking.
 */
#include "client/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "client/conn.h"
#include "client/memory.h"

#define CORE_CALL_MEMORY (WIRE_MESSAGE_MAX + CORE_CHECKS_MAX * sizeof(uint32_t))

static void core_events(struct core *core, int n)
{
	for (int i = 0; i < n; i++) {
		const struct transport_event *ev = &core->events[i];
		struct conn *conn = ev->conn->user;

		switch (ev->type) {
		case TRANSPORT_CONN_UP:
			conn_up(conn);
			break;
		case TRANSPORT_CONN_DOWN:
			conn_down(conn, ev->status);
			break;
		case TRANSPORT_CONN_GONE:
			conn_gone(conn);
			break;
		case TRANSPORT_RX:
			conn_rx(conn, ev);
			break;
		case TRANSPORT_TX_DONE:
			conn_tx_done(conn, ev->cookie);
			break;
		default:
			break;	/* READ_DONE and WRITE_DONE: only a node asks for those */
		}
	}
}

/* The transport says that it is broken beyond use: after its close nothing of ours is in it. */
static void core_transport_broken(struct core *core, struct target *target, int error)
{
	log_err(&core->log, "%s: the transport failed: %s", target->url, strerror(-error));
	target->transport->ops->close(target->transport);
	target->transport = NULL;
	list_for_each_safe(it, &core->conns) {
		struct conn *conn = list_entry(it, struct conn, link);

		if (conn->target != target)
			continue;
		conn->tc = NULL;
		if (!conn->down)
			conn_down(conn, error);
		for (uint32_t i = 0; i < CORE_CALLS; i++) {
			if (core->calls[i].conn == conn)
				core->calls[i].tx_pending = 0;
		}
		conn->tx_pending = 0;
		conn->rx_head = conn->rx_tail;
		conn_gone(conn);
	}
}

static int core_poll(struct core *core)
{
	int work = 0;

	for (uint32_t i = 0; i < core->n_targets; i++) {
		struct target *target = &core->targets[i];

		for (uint32_t turn = 0; target->transport && turn < CORE_TURNS_MAX; turn++) {
			int n = transport_poll(target->transport, core->events, CORE_EVENTS);

			if (n < 0)
				core_transport_broken(core, target, n);
			if (n <= 0)
				break;
			core_events(core, n);
			work += n;
			core_issue(core);
			if (core->conn)
				work += conn_send(core->conn);
		}
	}
	return work;
}

static bool core_job_overdue(struct core *core)
{
	list_for_each(it, &core->jobs) {
		struct job *job = list_entry(it, struct job, link);

		if (job->kind == JOB_LOCAL || job->ending)
			continue;
		if (job->deadline_ns <= core->now_ns) {
			job_end(job, LARDER_DEADLINE);
			return true;	/* lists have changed: look again from the start */
		}
		core_timer(core, job->deadline_ns);
	}
	return false;
}

static void core_timers(struct core *core)
{
	if (core->now_ns < core->next_timer_ns)
		return;
	core->next_timer_ns = CORE_NEVER;
	while (core_job_overdue(core))
		;
	for (uint32_t i = 0; i < CORE_DEPTH; i++) {
		struct call *call = &core->calls[i];

		if (call->state == CALL_FREE)
			continue;
		if (call->state == CALL_WAITING && call->not_before_ns) {
			if (call->not_before_ns <= core->now_ns)
				core->kick = true;
			else
				core_timer(core, call->not_before_ns);
		}
		if (call->job && call->grace_ns) {
			if (call->grace_ns <= core->now_ns)
				call_grace_over(call);
			else
				core_timer(core, call->grace_ns);
		}
	}
	if (core->conn)
		conn_timers(core->conn);
	list_for_each(it, &core->conns)
		conn_reseal(list_entry(it, struct conn, link));
	/* who waits for the end of a connection is woken by that end */
	if (!core->conn && !conn_blocked(core))
		core_timer(core, core->connect_at_ns);
}

/* Promise 12: moves what judges the node's silence by the time in which nobody looked. */
static void core_look(struct core *core)
{
	uint64_t gap = core->now_ns > core->looked_ns ? core->now_ns - core->looked_ns : 0;

	if (gap > CORE_GAP_NS && core->conn) {
		core->conn->rx_ns += gap;
		core->conn->started_ns += gap;
	}
	core->looked_ns = core->now_ns;
}

int core_step(struct core *core)
{
	int work;

	core->now_ns = clock_now(&core->clock);
	core_look(core);
	work = conn_connect(core);
	core_issue(core);
	if (core->conn)
		work += conn_send(core->conn);
	work += core_poll(core);
	core_timers(core);
	if (core->kick)
		core_issue(core);
	if (core->conn) {
		work += conn_send(core->conn);
		conn_control(core->conn);
	}
	for (uint32_t i = 0; i < core->n_targets; i++) {
		struct transport *t = core->targets[i].transport;
		int r = t && t->ops->flush ? transport_flush(t) : 0;

		if (r < 0 && r != -EOPNOTSUPP)
			core_transport_broken(core, &core->targets[i], r);
	}
	return work;
}

int core_timeout_ms(struct core *core)
{
	uint64_t now = clock_now(&core->clock), wait = NSEC_PER_SEC;

	if (core->kick)
		wait = 0;
	else if (core->next_timer_ns <= now)
		wait = 0;
	else if (core->next_timer_ns - now < wait)
		wait = core->next_timer_ns - now;
	core->looked_ns = now + wait;
	return (int)((wait + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

int core_event_fds(struct core *core, int *fds)
{
	int n = 0;

	for (uint32_t i = 0; i < core->n_targets; i++) {
		struct transport *t = core->targets[i].transport;
		int fd = t ? t->ops->event_fd(t) : -EOPNOTSUPP;

		if (!t)
			continue;
		if (fd < 0)
			return -EOPNOTSUPP;
		fds[n++] = fd;
	}
	return n;
}

bool core_busy(const struct core *core)
{
	return !list_empty(&core->jobs);
}

static void core_close_targets(struct core *core)
{
	for (uint32_t i = 0; i < core->n_targets; i++) {
		struct transport *t = TAKE_PTR(core->targets[i].transport);

		if (t)
			t->ops->close(t);
	}
}

static int core_open_targets(struct core *core)
{
	struct transport_config config = {
		.clock = &core->clock,
		.log = &core->log,
		.gates = CORE_CALLS,
		.max_region_bytes = UINT64_MAX,
		.max_regions = UINT32_MAX,
	};

	for (uint32_t i = 0; i < core->n_targets; i++) {
		struct target *target = &core->targets[i];
		int r = target->ops->open(&config, &target->transport);

		if (r < 0)
			return r;
	}
	return 0;
}

static int core_open_calls(struct core *core)
{
	core->calls = calloc(CORE_CALLS, sizeof(*core->calls));
	/* large: the kernel gives pages as they are touched */
	core->call_memory = calloc(CORE_CALLS, CORE_CALL_MEMORY);
	if (!core->calls || !core->call_memory)
		return -ENOMEM;
	for (uint32_t i = 0; i < CORE_CALLS; i++) {
		struct call *call = &core->calls[i];

		call->core = core;
		call->index = i;
		call->message = core->call_memory + (size_t)i * CORE_CALL_MEMORY;
		call->checks = (uint32_t *)(call->message + WIRE_MESSAGE_MAX);
		list_init(&call->link);
		if (i == CORE_CONTROL)
			continue;
		list_push_tail(&core->free, &call->link);
		core->n_free++;
	}
	return 0;
}

static void core_options(struct core *core, const struct larder_client_options *o)
{
	strncpy(core->tenant, o->tenant ? o->tenant : "", sizeof(core->tenant) - 1);
	if (o->secret_len)
		memcpy(core->secret, o->secret, o->secret_len);
	core->secret_len = o->secret_len;
	core->role = o->flags & LARDER_OPEN_VIEWER ? WIRE_ROLE_VIEWER : WIRE_ROLE_CLIENT;
	core->keepalive_ms = o->keepalive_ms;
	core->deadline_ms = o->deadline_ms;
	core->connect_timeout_ns = o->connect_timeout_ms * NSEC_PER_MSEC;
	core->grace_ns = o->grace_ms * NSEC_PER_MSEC;
	core->fail_fast_after = o->fail_fast_after;
	core->bounce_bytes = o->bounce_bytes;
	if (o->log)
		core->log = *o->log;
}

/* A stepped handle's environment: what it leaves out is the kernel's. */
static void core_environment(struct core *core, const struct larder_environment *env)
{
	core->clock = clock_system;
	core->random = secure_random_system;
	if (!env)
		return;
	core->clock.user = env->user;
	if (env->monotonic_ns)
		core->clock.monotonic_ns = env->monotonic_ns;
	if (env->wall_ms)
		core->clock.wall_ms = env->wall_ms;
	if (env->random_bytes)
		core->random = (struct secure_random){ env->random_bytes, env->user };
}

int core_open(struct core *core, const struct core_config *config)
{
	uint64_t seed;
	int r;

	core_options(core, config->options);
	core_environment(core, config->environment);
	list_init(&core->conns);
	list_init(&core->free);
	list_init(&core->waiting);
	list_init(&core->jobs);
	list_init(&core->ready);
	list_init(&core->names);
	list_init(&core->regions);
	r = pthread_mutex_init(&core->info_lock, NULL);
	if (r)
		return -r;
	core->next_timer_ns = 0;
	core->now_ns = core->opened_ns = core->looked_ns = clock_now(&core->clock);
	r = core->random.bytes(core->random.user, &seed, sizeof(seed));
	if (r == 0) {
		prng_seed(&core->prng, seed);
		r = core_open_calls(core);
	}
	if (r == 0)
		r = core_open_targets(core);
	if (r < 0)
		core_close(core);
	return r;
}

static void core_free(struct core *core)
{
	list_for_each_safe(it, &core->conns)
		conn_free(list_entry(it, struct conn, link));
	core->conn = NULL;
	list_for_each_safe(it, &core->regions)
		region_free(list_entry(it, struct larder_region, link));
	names_free(core);
	free(TAKE_PTR(core->calls));
	free(TAKE_PTR(core->call_memory));
	explicit_bzero(core->secret, sizeof(core->secret));
}

void core_close(struct core *core)
{
	/* regions and gates are told first, while the transports still know them */
	if (core->conn && core->conn->state != CONN_OVER)
		conn_fail(core->conn, 0, "closed");
	core_close_targets(core);
	for (uint32_t i = 0; core->calls && i < CORE_DEPTH; i++) {
		struct call *call = &core->calls[i];

		call->tx_pending = 0;
		if (call->job)
			call_end(call, call->end_status ? call->end_status : LARDER_CANCELLED);
	}
	while (!list_empty(&core->jobs)) {
		struct job *job = list_entry(core->jobs.next, struct job, link);

		job_end(job, LARDER_CANCELLED);
		if (core->jobs.next == &job->link)
			job_finish(job, LARDER_CANCELLED);
	}
	/* what a frozen node still writes goes to pages that are unmapped here */
	core_free(core);
	(void)pthread_mutex_destroy(&core->info_lock);	/* nobody can hold it */
}

void core_abandon(struct core *core)
{
	/* A transport's close speaks for the process that opened it: it shuts sockets down, takes
	 * them out of an epoll set and takes gates, all of which are shared with the parent. */
	for (uint32_t i = 0; i < core->n_targets; i++) {
		struct transport *t = TAKE_PTR(core->targets[i].transport);

		if (t)
			t->ops->abandon(t);
	}
	list_for_each(it, &core->conns)
		list_entry(it, struct conn, link)->tc = NULL;
	core_free(core);
}
