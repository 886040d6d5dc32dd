/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the node and keeping it: attempts with bounded, jittered exponential backoff, keepalive,
 * and failing fast.
 *
 * larder://host stands for a list of targets (shm, then tcp); one round tries each in turn, and
 * only a round in which all failed counts as a failure. The core tries for as long as the handle is
 * open, so that a node that comes back is found within a second whether somebody waits or not.
 *
 * A failure is a round without a session, or a request whose deadline passed while nothing at all
 * came from the node, whether it was sent or still waited for a session: a stopped process accepts
 * connections (its kernel does) and then never answers the handshake. After fail_fast_after of them
 * in a row new jobs are refused at once; the attempts (or a PING on the silent session) are the
 * probe, and the first sign of life ends it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <larder/probes.h>

#include "base/log.h"
#include "client/conn.h"

#define CONN_RESEAL_NS (10 * NSEC_PER_MSEC)
#define CONN_IDLE_KEEPALIVES 3u	/* of silence, until a session that nobody uses is given up */

static void connect_info(struct core *core, const struct conn *conn, bool connected)
{
	pthread_mutex_lock(&core->info_lock);
	core->info.connected = connected;
	if (conn && connected) {
		memcpy(core->info.url, conn->target->url, sizeof(core->info.url));
		core->info.credits = conn->credits;
		if (core->ever_ready)
			core->info.reconnects++;
	}
	pthread_mutex_unlock(&core->info_lock);
}

/* When to try next: between half of the backoff and all of it, so that clients spread out. */
static void connect_backoff(struct core *core)
{
	uint64_t half;

	core->backoff_ns = core->backoff_ns ? MIN(core->backoff_ns * 2, CORE_BACKOFF_MAX_NS)
					    : CORE_BACKOFF_MIN_NS;
	half = core->backoff_ns / 2;
	core->connect_at_ns = core->now_ns + half + prng_below(&core->prng, half + 1);
	core_timer(core, core->connect_at_ns);
}

/* One target did not give a session. */
static void connect_failed(struct core *core)
{
	core->target++;
	if (core->target < core->n_targets && !core->refusal) {
		core->connect_at_ns = core->now_ns;
		core_timer(core, core->now_ns);
		return;
	}
	core->target = 0;
	core->failures++;
	connect_backoff(core);
}

bool conn_blocked(const struct core *core)
{
	/* an ended connection still holds memory of calls that would go out on the new one */
	list_for_each(it, &core->conns) {
		if (!list_entry(it, struct conn, link)->spent)
			return true;
	}
	return core->calls[CORE_CONTROL].tx_pending > 0;
}

static struct conn *conn_new(struct core *core, struct target *target)
{
	struct conn *conn = calloc(1, sizeof(*conn));
	uint32_t caps = transport_caps(target->transport);

	if (!conn)
		return NULL;
	conn->core = core;
	conn->target = target;
	conn->stream = !(caps & TRANSPORT_MESSAGE);
	conn->one_sided = caps & TRANSPORT_ONE_SIDED;
	conn->epoch = ++core->epoch;
	conn->started_ns = conn->rx_ns = conn->tx_ns = core->now_ns;
	conn->max_message = WIRE_MESSAGE_MAX;
	conn->body_size = WIRE_MESSAGE_MAX;
	list_init(&conn->sending);
	list_init(&conn->sent);
	list_init(&conn->arenas);
	if (conn->stream)
		conn->scratch = malloc((size_t)(CONN_RX_AHEAD + 1) * CONN_SCRATCH);
	conn->body = malloc((size_t)conn->body_size * (conn->stream ? 1 : CONN_RX_POSTED));
	if (!conn->body || (conn->stream && !conn->scratch)) {
		free(conn->body);
		free(conn->scratch);
		free(conn);
		return NULL;
	}
	list_push_tail(&core->conns, &conn->link);
	return conn;
}

void conn_free(struct conn *conn)
{
	bounce_drop(conn);
	list_remove(&conn->link);
	free(conn->body);
	free(conn->scratch);
	free(conn);
}

int conn_connect(struct core *core)
{
	struct target *target = &core->targets[core->target];
	struct conn *conn;
	int r;

	if (core->conn || core->now_ns < core->connect_at_ns || conn_blocked(core))
		return 0;
	if (!target->transport) {
		connect_failed(core);
		return 0;
	}
	conn = conn_new(core, target);
	if (!conn) {
		connect_failed(core);
		return 0;
	}
	if (core->tried != core->target && !core->refusal)
		core->refusal_text[0] = 0;	/* it was about the other one */
	core->tried = core->target;
	r = target->transport->ops->connect(target->transport, target->address, conn, &conn->tc);
	if (r < 0) {
		core->refusal = 0;	/* this attempt did not get as far as a refusal */
		snprintf(core->refusal_text, sizeof(core->refusal_text), "%s", strerror(-r));
		conn_free(conn);
		connect_failed(core);
		return 0;
	}
	core->conn = conn;
	core_timer(core, core->now_ns + core->connect_timeout_ns);
	return 1;
}

void conn_up(struct conn *conn)
{
	int r;

	if (conn->state != CONN_CONNECTING)
		return;
	r = receive_start(conn);
	if (r < 0) {
		conn_fail(conn, r, "receiving could not begin: %s", strerror(-r));
		return;
	}
	handshake_start(conn);
}

void conn_ready(struct conn *conn)
{
	struct core *core = conn->core;

	conn->state = CONN_READY;
	larder_probe2(client_conn_up, conn->epoch, transport_number(conn->target->transport));
	connect_info(core, conn, true);
	core->ever_ready = true;
	core->failures = 0;
	core->backoff_ns = 0;
	core->target = 0;
	core->refusal = 0;
	core->refusal_text[0] = 0;
	core->kick = true;
	core_timer(core, core->now_ns);	/* sets those of the keepalive */
	log_info(&core->log, "%s: connected", conn->target->url);
}

void conn_heard(struct conn *conn)
{
	conn->rx_ns = conn->core->heard_ns = conn->core->now_ns;
	if (conn->state == CONN_READY)
		conn->core->failures = 0;
}

void core_unanswered(struct core *core)
{
	core->failures++;
	if (core->conn && core->conn->state == CONN_READY)
		conn_ping(core->conn);
}

/* What is common to both ways in which a connection ends. */
static void conn_over(struct conn *conn)
{
	struct core *core = conn->core;
	bool was_ready = conn->state == CONN_READY;

	conn->state = CONN_OVER;
	if (was_ready)
		larder_probe3(client_conn_down, conn->epoch,
			      transport_number(conn->target->transport), -conn->down_status);
	regions_drop(conn);
	if (core->conn != conn)
		return;
	core->conn = NULL;
	core->cut_off = core->kick = true;
	connect_info(core, conn, false);
	if (was_ready) {
		core->connect_at_ns = core->now_ns;
		core_timer(core, core->now_ns);
		log_notice(&core->log, "%s: connection lost: %s", conn->target->url,
			   conn->why[0] ? conn->why : "ended by the node");
	} else {
		if (conn->down_status != -EACCES)
			core->refusal = 0;	/* this attempt did not get as far as a refusal */
		if (!core->refusal)
			memcpy(core->refusal_text, conn->why, sizeof(core->refusal_text));
		connect_failed(core);
	}
}

static void conn_disconnect(struct conn *conn)
{
	int r = transport_disconnect(conn->tc, false);

	if (r < 0)
		log_warning(&conn->core->log, "%s: disconnect: %s", conn->target->url,
			    strerror(-r));
}

/* False: the node is inside memory that could not be replaced. */
static bool conn_seal(struct conn *conn)
{
	struct core *core = conn->core;
	bool sealed = true;

	for (uint32_t i = 0; conn->one_sided && i < CORE_DEPTH; i++) {
		if (core->calls[i].conn == conn && core->calls[i].state != CALL_FREE)
			sealed &= call_seal(&core->calls[i]);
	}
	return sealed;
}

/* Only while the socket is open does the node's end of it tell that the node is out of our memory:
 * an unsealed connection stays until the node goes on, dies, or the memory can be replaced. */
void conn_reseal(struct conn *conn)
{
	if (!conn->unsealed)
		return;
	conn->unsealed = !conn_seal(conn);
	if (conn->unsealed)
		core_timer(conn->core, conn->core->now_ns + CONN_RESEAL_NS);
	else
		conn_disconnect(conn);
}

void conn_fail(struct conn *conn, int status, const char *fmt, ...)
{
	va_list ap;

	if (conn->state == CONN_OVER)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(conn->why, sizeof(conn->why), fmt, ap);	/* may be cut */
	va_end(ap);
	conn->ours = true;
	conn->down_status = status;
	conn_over(conn);
	conn->unsealed = true;
	conn_reseal(conn);
}

void conn_down(struct conn *conn, int status)
{
	conn->down = true;
	conn->unsealed = false;
	if (conn->state != CONN_OVER) {
		conn->down_status = status;
		snprintf(conn->why, sizeof(conn->why), "%s",
			 status ? strerror(-status) : "ended by the node");
		conn_over(conn);
	}
	conn_settle(conn);
}

void conn_settle(struct conn *conn)
{
	struct core *core = conn->core;

	if (!conn->down || conn->spent || conn->tx_pending || conn->rx_head != conn->rx_tail)
		return;
	conn->spent = true;
	conn->payload.call = NULL;
	for (uint32_t i = 0; i < CORE_DEPTH; i++) {
		struct call *call = &core->calls[i];

		if (call->conn == conn && call->state != CALL_FREE)
			call_conn_spent(call);
	}
	list_remove(&core->calls[CORE_CONTROL].link);
	core->calls[CORE_CONTROL].conn = NULL;
	bounce_drop(conn);
	core_timer(core, core->now_ns);	/* the next attempt may have waited for this */
}

void conn_gone(struct conn *conn)
{
	/* by the transport's contract everything has come back; settle does not depend on it */
	conn->down = true;
	conn->tx_pending = 0;
	conn->rx_head = conn->rx_tail;
	conn_settle(conn);
	conn_free(conn);
}

/*
 * Silent for the keepalive's time although somebody asked for something: a new session may fare
 * better. A session that nobody needs is kept for longer: the node may only have been stopped, and
 * a thousand idle clients that come back at once are no help to it.
 */
static bool conn_is_lost(const struct conn *conn)
{
	uint64_t now = conn->core->now_ns, silent = now - MIN(conn->rx_ns, now);

	if (silent < conn->keepalive_ns)
		return false;
	if (conn->core->asked_ns >= conn->rx_ns)
		return true;
	return silent >= CONN_IDLE_KEEPALIVES * conn->keepalive_ns;
}

void conn_asked(struct core *core)
{
	core->asked_ns = core->now_ns;
	if (core->conn && core->conn->state == CONN_READY && conn_is_lost(core->conn))
		core_timer(core, core->now_ns);
}

/* Deadlines of the session itself; all of them are about the node's silence. */
void conn_timers(struct conn *conn)
{
	struct core *core = conn->core;
	uint64_t now = core->now_ns, third = conn->keepalive_ns / 3, due;

	if (conn->state != CONN_READY) {
		due = conn->started_ns + core->connect_timeout_ns;
		if (now >= due)
			conn_fail(conn, -ETIMEDOUT, "no answer to the handshake in time");
		else
			core_timer(core, due);
		return;
	}
	if (conn_is_lost(conn)) {
		conn_fail(conn, -ETIMEDOUT, "no sign of life");
		return;
	}
	due = MIN(conn->rx_ns, conn->tx_ns) + third;
	if (now >= due && !conn->control_busy)
		conn_ping(conn);
	core_timer(core, MAX(due, now + third / 4 + 1));
	core_timer(core, MAX(conn->rx_ns + conn->keepalive_ns, now + third / 4 + 1));
}
