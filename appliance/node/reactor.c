/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reactor and its turn. The order of a turn: look at the clock and forgive a gap, take what the
 * transports have, small things first, take what the engine has, try what waits for a region, hand
 * out bytes in fair turns, look for those whose time is over, publish.
 *
 * Promise 12: a gap of over a second between two turns is time in which nobody looked. It moves
 * every deadline that measures a peer's silence; those of requests stay. Leases belong to all
 * reactors: each tells the engine of the gap that it saw, and the engine counts it once.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/compiler.h"
#include "node/node.h"
#include "node/session.h"

#define REACTOR_SCAN_NS (50u * NSEC_PER_MSEC)	/* how exactly keepalive and stall are kept */
#define REACTOR_PUBLISH_NS (10u * NSEC_PER_MSEC)
#define REACTOR_SHUTDOWN_TURNS 1000u
/*
 * Beside small requests the large ones move in slices, so that the next small one lies unseen for
 * less, and finds the caches less emptied. Without them a slice would only cost turns.
 */
#define REACTOR_SLICE (64u * 1024u)
#define REACTOR_LATELY_NS (10u * NSEC_PER_MSEC)
#define REACTOR_LIGHT_ROUNDS 8u	/* of small things before the large ones have their turn */

static int reactor_watch(struct reactor *r, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

int node_reactor_init(struct reactor *r, struct larder_node *node, uint32_t index)
{
	r->node = node;
	r->index = index;
	r->engine = engine_reactor(node->engine, index);
	r->next_due_ns = UINT64_MAX;
	list_init(&r->retry);
	list_init(&r->yielding);
	node_drr_init(&r->drr);
	r->discard = malloc(NODE_PIECE_BYTES);
	if (!r->discard)
		return -ENOMEM;
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll_fd < 0)
		return -errno;
	r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->wake_fd < 0)
		return -errno;
	engine_reactor_set_wake(r->engine, node_reactor_wake, r);
	return reactor_watch(r, r->wake_fd);
}

void node_reactor_done(struct reactor *r)
{
	for (uint32_t i = 0; i < r->n_transports; i++)
		r->transports[i]->ops->close(r->transports[i]);
	r->n_transports = 0;
	if (r->wake_fd >= 0)
		(void)close(r->wake_fd);	/* an eventfd: nothing can be lost */
	if (r->epoll_fd >= 0)
		(void)close(r->epoll_fd);
	free(r->discard);
}

int node_reactor_adopt(struct reactor *r, struct transport *t, const struct node_codec *codec)
{
	uint32_t n = __atomic_load_n(&r->n_transports, __ATOMIC_RELAXED);
	int fd = t->ops->event_fd(t);

	if (fd == -EOPNOTSUPP) {
		__atomic_store_n(&r->spins, true, __ATOMIC_RELAXED);
	} else if (fd < 0) {
		return fd;
	} else {
		int e = reactor_watch(r, fd);

		if (e < 0)
			return e;
	}
	r->transports[n] = t;
	r->codecs[n] = codec;
	__atomic_store_n(&r->n_transports, n + 1, __ATOMIC_RELEASE);
	node_reactor_wake(r);
	return 0;
}

void node_reactor_wake(void *reactor)
{
	struct reactor *r = reactor;
	const uint64_t one = 1;

	if (__atomic_exchange_n(&r->woken, true, __ATOMIC_ACQ_REL))
		return;		/* it is readable already, or about to be */
	/* fails only when the counter is full: then it is readable as it should be */
	if (write(r->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void node_reactor_complain(struct reactor *r, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (r->now_ns < r->next_complaint_ns) {
		r->complaints_hidden++;
		return;
	}
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);	/* cut if too long, on purpose */
	va_end(ap);
	if (r->complaints_hidden)
		log_notice(&r->node->log, "%s (and %llu more like it)", text,
			   (unsigned long long)r->complaints_hidden);
	else
		log_notice(&r->node->log, "%s", text);
	r->complaints_hidden = 0;
	r->next_complaint_ns = r->now_ns + NSEC_PER_SEC;
}

static void reactor_look_at_clock(struct reactor *r)
{
	struct larder_node *n = r->node;
	uint64_t now = clock_now(&n->clock), last = r->last_turn_ns;

	/* what the node found in memory was last seen when it began to look at it */
	if (last == 0)
		last = n->start_ns;

	r->now_ns = now;
	r->last_turn_ns = now;
	r->turn++;
	__atomic_store_n(&r->turns, r->turn, __ATOMIC_RELAXED);
	if (now - last <= NODE_GAP_NS) {
		engine_turn(r->engine, now);
		return;
	}
	list_for_each(it, &r->sessions)
		node_session_forgive(list_entry(it, struct session, link), now - last);
	engine_forgive(n->engine, now - last);
	engine_turn(r->engine, now);
	node_count(&n->ledger->node->gaps, 1);
	log_warning(&n->log, "reactor %u did not look for %llu ms: silence in it is held against "
		    "nobody", r->index, (unsigned long long)((now - last) / NSEC_PER_MSEC));
}

static void reactor_event(struct reactor *r, const struct node_codec *codec,
			  const struct transport_event *ev)
{
	if (ev->type == TRANSPORT_CONN_UP)
		node_session_up(r, ev->conn, codec);
	else if (ev->conn->user)
		node_session_event(ev->conn->user, ev);
	/* else: a connection that was refused at its CONN_UP is on its way out */
}

/* Asks again while it keeps answering: a header and its body then take one turn, not two. */
static int reactor_poll_transport(struct reactor *r, uint32_t i)
{
	struct transport *t = r->transports[i];
	struct transport_event events[NODE_EVENTS];
	int n = transport_poll(t, events, NODE_EVENTS);

	if (n < 0) {
		log_err(&r->node->log, "reactor %u: transport %s is broken: %s", r->index,
			t->ops->name, strerror(-n));
		return n;
	}
	for (int k = 0; k < n; k++)
		reactor_event(r, r->codecs[i], &events[k]);
	r->quiet[i] = n == 0 && t->left == 0;
	return n;
}

/*
 * A transport that had nothing last time is asked only every few turns while others keep the
 * reactor busy: a turn moves 256 KiB in some 15 us, and an empty look costs one. Before the reactor
 * may sleep every transport has answered "nothing" in this very turn.
 */
static int reactor_poll_transports(struct reactor *r)
{
	uint32_t n_transports = __atomic_load_n(&r->n_transports, __ATOMIC_ACQUIRE);
	bool look = !r->busy || r->turn % NODE_QUIET_TURNS == 0;
	int done = 0, n = 0;

	for (uint32_t i = 0; i < n_transports && n >= 0; i++) {
		if (r->quiet[i] && !look)
			continue;
		n = reactor_poll_transport(r, i);
		done += n;
	}
	for (uint32_t i = 0; i < n_transports && n >= 0 && done == 0 && !look; i++) {
		n = reactor_poll_transport(r, i);
		done += n;
	}
	return n < 0 ? n : done;
}

static int reactor_poll_engine(struct reactor *r)
{
	struct larder_op *op;
	int n = 0;

	while ((op = engine_poll(r->engine)) != NULL) {
		node_request_engine_done(op);
		n++;
	}
	return n;
}

static void reactor_set_lot(struct reactor *r, enum transport_lot lot)
{
	for (uint32_t i = 0; i < __atomic_load_n(&r->n_transports, __ATOMIC_ACQUIRE); i++)
		r->transports[i]->lot = (uint8_t)lot;
}

static void reactor_set_slice(struct reactor *r, uint32_t bytes)
{
	for (uint32_t i = 0; i < __atomic_load_n(&r->n_transports, __ATOMIC_ACQUIRE); i++)
		r->transports[i]->slice = bytes;
}

/* Was a small request answered lately? Then the large ones move in slices, see REACTOR_SLICE. */
static bool reactor_slices(const struct reactor *r)
{
	return r->light_ns && r->now_ns - r->light_ns < REACTOR_LATELY_NS;
}

static int reactor_flush(struct reactor *r)
{
	uint32_t n_transports = __atomic_load_n(&r->n_transports, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n_transports; i++) {
		int n = transport_flush(r->transports[i]);

		if (n < 0 && n != -EOPNOTSUPP)
			return n;
	}
	return 0;
}

/*
 * Small things first, and to their end: requests and replies without large values are gone through
 * until there are none, so that no large piece comes between their first byte and their last, nor a
 * request that will bring one. Bounded, so the large ones move every turn.
 */
static int reactor_light(struct reactor *r)
{
	int done = 0;

	reactor_set_lot(r, TRANSPORT_LIGHT);
	reactor_set_slice(r, reactor_slices(r) ? REACTOR_SLICE : 0);
	for (uint32_t round = 0; round < REACTOR_LIGHT_ROUNDS; round++) {
		int n = reactor_poll_transports(r), flushed;

		if (n < 0)
			return n;
		n += reactor_poll_engine(r);
		done += n;
		if (n == 0)
			break;
		flushed = reactor_flush(r);
		if (flushed < 0)
			return flushed;
	}
	return done;
}

static int reactor_heavy(struct reactor *r)
{
	uint32_t n_transports = __atomic_load_n(&r->n_transports, __ATOMIC_ACQUIRE);
	int done = 0;

	reactor_set_lot(r, TRANSPORT_HEAVY);
	for (uint32_t i = 0; i < n_transports; i++) {
		int n = r->transports[i]->left > 0 ? reactor_poll_transport(r, i) : 0;

		if (n < 0)
			return n;
		done += n + (r->transports[i]->slice && r->transports[i]->moved);
	}
	/* in slices what is large leaves by the HEAVY poll alone */
	reactor_set_lot(r, reactor_slices(r) ? TRANSPORT_LIGHT : TRANSPORT_ALL);
	return done;
}

static int reactor_retry(struct reactor *r)
{
	int n = 0;

	list_for_each_safe(it, &r->retry)
		n += node_region_retry(list_entry(it, struct request, queue));
	return n;
}

void node_reactor_due(struct reactor *r, uint64_t when_ns)
{
	r->next_due_ns = MIN(r->next_due_ns, when_ns);
}

static void reactor_scan(struct reactor *r)
{
	if (r->now_ns < MIN(r->next_scan_ns, r->next_due_ns))
		return;
	r->next_scan_ns = r->now_ns + REACTOR_SCAN_NS;
	r->next_due_ns = UINT64_MAX;	/* whoever has a deadline says so again */
	list_for_each_safe(it, &r->sessions)
		node_session_scan(list_entry(it, struct session, link), r->now_ns);
}

static int reactor_reap(struct reactor *r)
{
	int n = 0;

	if (r->n_gone == 0)
		return 0;
	list_for_each_safe(it, &r->sessions) {
		struct session *s = list_entry(it, struct session, link);

		if (s->state == SESSION_GONE && node_session_reap(s))
			n++;
	}
	return n;
}

static void reactor_publish_turns(struct larder_node *n, struct larder_node_section *v)
{
	uint64_t turns = 0;

	for (uint32_t i = 0; i < n->config.reactors; i++)
		turns += __atomic_load_n(&n->reactors[i].turns, __ATOMIC_RELAXED);
	__atomic_store_n(&v->turns, turns, __ATOMIC_RELAXED);
}

/* Every reactor shows that it turns; the first also tells how the node is. The record file's
 * heartbeat is kept by engine_poll. */
static void reactor_publish(struct reactor *r)
{
	struct larder_node *n = r->node;
	struct larder_node_section *v = n->ledger->node;
	struct engine_counts c;

	if (r->now_ns < r->next_publish_ns)
		return;
	r->next_publish_ns = r->now_ns + REACTOR_PUBLISH_NS;
	__atomic_store_n(&v->heartbeat_ns, r->now_ns, __ATOMIC_RELAXED);
	if (r->index != 0)
		return;
	engine_get_counts(n->engine, &c);
	__atomic_store_n(&v->pages_free, c.free_pages, __ATOMIC_RELAXED);
	__atomic_store_n(&v->records_free, c.free_records, __ATOMIC_RELAXED);
	__atomic_store_n(&v->objects, c.objects, __ATOMIC_RELAXED);
	__atomic_store_n(&v->evictions, c.evictions, __ATOMIC_RELAXED);
	__atomic_store_n(&v->scrubbed_bytes, c.scrubbed_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&v->scrub_passes, c.scrub_passes, __ATOMIC_RELAXED);
	__atomic_store_n(&v->connections, __atomic_load_n(&n->connections, __ATOMIC_RELAXED),
			 __ATOMIC_RELAXED);
	reactor_publish_turns(n, v);
}

/* Spares idle turns the system call: the flag says whether the eventfd is worth a look. */
static int reactor_answer_wake(struct reactor *r)
{
	uint64_t n;

	if (!__atomic_exchange_n(&r->woken, false, __ATOMIC_ACQ_REL))
		return 0;
	if (read(r->wake_fd, &n, sizeof(n)) >= 0)
		return 0;
	if (errno != EAGAIN && errno != EINTR)
		return -errno;
	/* its write is still to come, or a signal came first */
	__atomic_store_n(&r->woken, true, __ATOMIC_RELEASE);
	return 0;
}

static int reactor_turn(struct reactor *r)
{
	int done = reactor_answer_wake(r);
	int n;

	if (done < 0)
		return done;
	reactor_look_at_clock(r);
	n = reactor_light(r);
	if (n < 0)
		return n;
	done += n;
	n = reactor_heavy(r);
	if (n < 0)
		return n;
	done += n;
	done += reactor_poll_engine(r);
	done += reactor_retry(r);
	done += node_yield_turn(r);
	node_tenants_evict(r);
	done += node_purge_turn(r);
	reactor_scan(r);	/* before the flush: it may have answered */
	done += node_drr_run(r) > 0;
	n = reactor_flush(r);
	if (n < 0)
		return n;
	done += reactor_reap(r);
	reactor_publish(r);
	r->busy = done > 0;
	return done;
}

LARDER_PUBLIC int larder_node_step(struct larder_node *n, uint32_t reactor)
{
	return reactor < n->config.reactors ? reactor_turn(&n->reactors[reactor]) : -EINVAL;
}

LARDER_PUBLIC int larder_node_event_fd(struct larder_node *n, uint32_t reactor)
{
	return reactor < n->config.reactors ? n->reactors[reactor].epoll_fd : -EINVAL;
}

LARDER_PUBLIC int larder_node_timeout_ms(struct larder_node *n, uint32_t reactor)
{
	struct reactor *r;
	uint64_t next, now;

	if (reactor >= n->config.reactors)
		return NODE_SLEEP_MAX_MS;
	r = &n->reactors[reactor];
	if (__atomic_load_n(&r->spins, __ATOMIC_RELAXED))
		return 0;
	/* a region's descriptor, a payload whose place is not decided yet, a viewer that yields: no
	 * event tells */
	if (!list_empty(&r->retry) || !list_empty(&r->yielding) || r->drr.n_active > 0)
		return 1;
	/* a purge waits for references and sessions, which end elsewhere */
	if (reactor == 0 && __atomic_load_n(&n->purges.any, __ATOMIC_ACQUIRE))
		return 1;
	next = MIN(engine_next_deadline(r->engine), r->next_due_ns);
	now = clock_now(&n->clock);
	if (next <= now)
		return 0;
	/* rounded up: waking a little early would spin until the deadline */
	next = (next - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
	return (int)MIN(next, (uint64_t)NODE_SLEEP_MAX_MS);
}

void node_reactor_shutdown(struct reactor *r)
{
	if (!r->discard || r->epoll_fd < 0 || r->wake_fd < 0)
		return;		/* never came up */
	r->closing = true;
	list_for_each(it, &r->sessions)
		node_session_close(list_entry(it, struct session, link), false);
	for (uint32_t i = 0; i < REACTOR_SHUTDOWN_TURNS && !list_empty(&r->sessions); i++)
		if (reactor_turn(r) < 0)
			break;
	/* a broken transport gives nothing back: close it, then its buffers are ours by that */
	for (uint32_t i = 0; i < r->n_transports; i++)
		r->transports[i]->ops->close(r->transports[i]);
	r->n_transports = 0;
	list_for_each_safe(it, &r->sessions)
		node_session_forget(list_entry(it, struct session, link));
	(void)reactor_poll_engine(r);
	list_for_each_safe(it, &r->sessions)
		(void)node_session_reap(list_entry(it, struct session, link));
}
