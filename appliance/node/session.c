/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of a connection, from CONN_UP to the last thing that comes back.
 *
 * The end has one path: something calls node_session_close (or the peer goes), the transport says
 * CONN_DOWN, every request is abandoned, buffers come back, the transport says CONN_GONE, and the
 * reactor frees the session when its last request is home. Nothing is freed earlier, because pages
 * and buffers belong to the transport until their events.
 */
#include "node/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <larder/probes.h>

#include "base/compiler.h"
#include "node/codec.h"

static void session_reject(struct reactor *r, struct transport_conn *c)
{
	struct transport_peer peer = { .text = "?" };

	if (c->transport->ops->peer(c, &peer) < 0)
		strcpy(peer.text, "?");
	node_count(&r->node->ledger->node->rejected_connections, 1);
	node_reactor_complain(r, "%s: not let in: %u connections, %u of them not authenticated, "
			      "are the limit", peer.text, r->node->config.max_connections,
			      r->node->config.max_unauthenticated);
	c->user = NULL;
	if (transport_disconnect(c, false) < 0)
		log_err(&r->node->log, "a connection over the limit can not be ended");
}

static bool session_admit(struct larder_node *n)
{
	if (__atomic_add_fetch(&n->connections, 1, __ATOMIC_RELAXED) > n->config.max_connections)
		goto undo_connections;
	if (__atomic_add_fetch(&n->unauthenticated, 1, __ATOMIC_RELAXED) >
	    n->config.max_unauthenticated)
		goto undo_unauthenticated;
	return true;
undo_unauthenticated:
	node_uncount(&n->unauthenticated, 1);
undo_connections:
	node_uncount(&n->connections, 1);
	return false;
}

void node_session_up(struct reactor *r, struct transport_conn *c, const struct node_codec *codec)
{
	struct larder_node *n = r->node;
	struct session *s;

	if (r->closing || !session_admit(n)) {
		session_reject(r, c);
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		node_uncount(&n->unauthenticated, 1);
		node_uncount(&n->connections, 1);
		session_reject(r, c);
		return;
	}
	s->reactor = r;
	s->conn = c;
	s->codec = codec;
	s->holder = __atomic_add_fetch(&n->holders, 1, __ATOMIC_RELAXED);
	c->user = s;
	c->bulk = false;
	s->limits = &c->transport->ops->limits;
	s->stream = !(transport_caps(c->transport) & TRANSPORT_MESSAGE);
	s->one_sided = transport_caps(c->transport) & TRANSPORT_ONE_SIDED;
	s->heard_ns = s->progress_ns = s->up_ns = r->now_ns;
	s->slot = LARDER_PROBE_NOBODY;	/* nobody's yet */
	s->handshake_ns = r->now_ns + n->config.handshake_timeout_ms * NSEC_PER_MSEC;
	s->keepalive_ns = n->config.keepalive_ms * NSEC_PER_MSEC;
	list_init(&s->drr_link);
	list_init(&s->free);
	list_init(&s->active);
	list_init(&s->tx);
	list_init(&s->work);
	list_push_tail(&r->sessions, &s->link);
	larder_probe2(conn_up, s->holder, transport_number(c->transport));
	if (codec->start(s) < 0)
		node_session_close(s, false);
}

/* The connection has proven whose it is. */
static void session_tell_open(struct session *s)
{
	struct transport_peer peer = { .cookie = 0 };

	if (!larder_probe_enabled(conn_open))
		return;
	if (s->conn->transport->ops->peer(s->conn, &peer) < 0)
		peer.cookie = 0;
	larder_probe4(conn_open, s->holder, s->slot, transport_number(s->conn->transport),
		      peer.cookie);
}

static size_t session_layout(struct session *s, const struct larder_node_config *c)
{
	size_t at = 0;

	s->max_message = WIRE_MESSAGE_MAX;
	s->credits = c->credits;
	/* twice: a reply that is handed over frees its credit before its buffer is back */
	s->n_requests = 2 * (s->credits + 1);
	if (!s->stream) {
		s->max_message = MIN(s->max_message, ALIGN_DOWN(s->limits->max_message, 64u));
		s->n_requests = MIN(s->n_requests, s->limits->max_rx);
		s->credits = MIN(s->credits, s->n_requests - 1);
	}
	at += s->n_requests * sizeof(struct request);
	at += c->max_regions * sizeof(struct session_region);
	at += SESSION_PUTS_MAX * sizeof(struct session_put);
	at = ALIGN_UP(at, (size_t)64);
	return at + (size_t)s->n_requests * (s->max_message + REQUEST_SCRATCH);
}

int node_session_establish(struct session *s)
{
	const struct larder_node_config *c = &session_node(s)->config;
	size_t bytes = session_layout(s, c);
	/* a mapping, not the heap: what is never touched costs nothing, what was is given back */
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	s->block = p;
	s->block_bytes = bytes;
	s->requests = (struct request *)p;
	s->puts = (struct session_put *)(s->requests + s->n_requests);
	s->regions = (struct session_region *)(s->puts + SESSION_PUTS_MAX);
	p += bytes - (size_t)s->n_requests * (s->max_message + REQUEST_SCRATCH);
	for (uint32_t i = 0; i < s->n_requests; i++) {
		struct request *r = &s->requests[i];

		r->session = s;
		r->index = (uint16_t)i;
		r->message = p;
		r->scratch = p + s->max_message;
		p += s->max_message + REQUEST_SCRATCH;
		list_init(&r->queue);
		list_push_tail(&s->free, &r->link);
	}
	node_uncount(&session_node(s)->unauthenticated, 1);
	ledger_gauge_add(&session_node(s)->ledger->gauges[s->slot].connections, 1);
	session_tell_open(s);
	node_listed_add(s);
	return 0;
}

bool node_session_post_rx(struct session *s, void *data, uint32_t length, uint64_t cookie)
{
	const struct transport_rx rx = { .data = data, .length = length, .cookie = cookie };

	if (transport_post_rx(s->conn, &rx, 1) == 0)
		return true;
	node_session_close(s, false);
	return false;
}

void node_session_close(struct session *s, bool drain)
{
	int r;

	if (s->state >= SESSION_CLOSING)
		return;
	s->state = SESSION_CLOSING;
	s->rx = RX_OFF;
	s->progress_ns = s->reactor->now_ns;
	node_drr_leave(s->reactor, s);
	r = transport_disconnect(s->conn, drain);
	if (r < 0 && r != -ENOTCONN)	/* it may have ended by itself just now */
		log_err(&session_node(s)->log, "a connection can not be ended: %s", strerror(-r));
}

void node_session_blame(struct session *s, const char *why)
{
	struct transport_peer peer = { .text = "?" };

	if (s->conn->transport->ops->peer(s->conn, &peer) < 0)
		strcpy(peer.text, "?");
	node_count(&session_node(s)->ledger->node->protocol_errors, 1);
	node_reactor_complain(s->reactor, "%s: closed: %s", peer.text, why);
}

void node_session_refuse(struct session *s, const char *why)
{
	if (s->state >= SESSION_CLOSING)
		return;
	node_session_blame(s, why);
	node_session_close(s, false);
}

static void session_down(struct session *s)
{
	if (s->state >= SESSION_DOWN)
		return;
	s->state = SESSION_DOWN;
	s->rx = RX_OFF;
	node_drr_leave(s->reactor, s);
	list_for_each_safe(it, &s->active)
		node_request_abandon(list_entry(it, struct request, link));
	if (s->block)
		node_puts_lost(s);
	engine_fills_release(s->reactor->engine, s->holder);
}

void node_session_event(struct session *s, const struct transport_event *ev)
{
	if (ev->status >= 0 && ev->type >= TRANSPORT_RX) {
		s->progress_ns = s->reactor->now_ns;
		if (ev->type == TRANSPORT_RX)
			s->heard_ns = s->reactor->now_ns;
	}
	switch (ev->type) {
	case TRANSPORT_CONN_DOWN:
		session_down(s);
		break;
	case TRANSPORT_CONN_GONE:
		session_down(s);
		s->state = SESSION_GONE;
		s->conn = NULL;
		s->reactor->n_gone++;
		return;
	case TRANSPORT_RX:
		if (cookie_is_payload(ev->cookie))
			node_payload_event(s, ev);
		else
			s->codec->received(s, ev);
		break;
	case TRANSPORT_TX_DONE:
		if (cookie_kind(ev->cookie) == COOKIE_HANDSHAKE_TX)
			s->codec->greeted(s, ev->status);
		else
			node_send_event(s, ev);
		break;
	case TRANSPORT_READ_DONE:
	case TRANSPORT_WRITE_DONE:
		node_transfer_event(s, ev);
		break;
	default:
		break;
	}
	node_session_kick(s);
}

bool node_session_has_work(const struct session *s)
{
	return s->state == SESSION_OPEN && (!list_empty(&s->tx) || !list_empty(&s->work) ||
					    (s->rx == RX_PAYLOAD && s->rx_left > 0));
}

bool node_session_is_blocked(const struct session *s)
{
	/* a payload that waits for its place does so for a number of turns, whatever comes */
	return s->out > 0 && !(s->rx_request && s->rx_request->state == REQUEST_ENGINE);
}

void node_session_kick(struct session *s)
{
	if (s->state != SESSION_OPEN)
		return;
	node_send_small(s);
	if (node_session_has_work(s))
		node_drr_enter(s->reactor, s);
}

static uint32_t session_work_requests(struct session *s, uint32_t budget)
{
	uint32_t used = 0;

	list_for_each_safe(it, &s->work) {
		struct request *r = list_entry(it, struct request, queue);

		if (used >= budget || s->state != SESSION_OPEN)
			break;
		used += r->state == REQUEST_VERIFY ? node_verify_slice(r, budget - used) :
						     node_transfer_post(r, budget - used);
	}
	return MIN(used, budget);
}

uint32_t node_session_work(struct session *s, uint32_t budget)
{
	uint32_t used = 0;

	s->flip = !s->flip;
	if (s->flip)
		used += node_send_pump(s, budget);
	used += node_payload_pump(s, budget - used);
	used += session_work_requests(s, budget - used);
	used += node_send_pump(s, budget - used);
	return used;
}

static void session_expire(struct session *s, const char *why)
{
	struct transport_peer peer = { .text = "?" };

	if (s->conn->transport->ops->peer(s->conn, &peer) < 0)
		strcpy(peer.text, "?");
	node_reactor_complain(s->reactor, "%s: closed: %s", peer.text, why);
	node_count(&session_node(s)->ledger->node->peers_expired, 1);
	node_session_close(s, false);
}

void node_session_scan(struct session *s, uint64_t now)
{
	const struct larder_node_config *c = &session_node(s)->config;
	const uint64_t stall_ns = c->stall_timeout_ms * NSEC_PER_MSEC;

	switch (s->state) {
	case SESSION_HELLO:
	case SESSION_AUTH:
		if (now >= s->handshake_ns)
			session_expire(s, "no handshake in time");
		break;
	case SESSION_OPEN:
		node_payload_expire(s, now);
		s->codec->scan(s, now);
		if (now - s->heard_ns >= s->keepalive_ns)
			session_expire(s, "silent for longer than the keepalive time");
		else if (s->out > 0 && now - s->progress_ns >= stall_ns)
			session_expire(s, "a transfer made no progress");
		else if (s->frame_ns && now - s->frame_ns >= stall_ns)
			session_expire(s, "a command did not arrive whole in time");
		break;
	case SESSION_CLOSING:
		/* its last words are not read: end it without them */
		if (now - s->progress_ns >= stall_ns) {
			s->progress_ns = now;
			(void)transport_disconnect(s->conn, false);	/* begun already */
		}
		break;
	case SESSION_DOWN:
	case SESSION_GONE:
		break;
	}
}

void node_session_forgive(struct session *s, uint64_t gap_ns)
{
	s->heard_ns += gap_ns;
	s->progress_ns += gap_ns;
	s->handshake_ns += gap_ns;
	s->frame_ns += s->frame_ns ? gap_ns : 0;
}

bool node_session_reap(struct session *s)
{
	struct larder_node *n = session_node(s);

	if (s->state != SESSION_GONE || s->n_active > 0 || s->n_puts > 0)
		return false;
	/* an operation may have got one while it was on its way home */
	engine_fills_release(s->reactor->engine, s->holder);
	if (s->block) {
		node_listed_remove(s);
		node_regions_free(s);
		node_quota_give(s->quota, LARDER_LIMIT_connections, 1);
		ledger_gauge_sub(&n->ledger->gauges[s->slot].connections, 1);
		(void)munmap(s->block, s->block_bytes);	/* a mapping of our own: can't fail */
	} else {
		node_uncount(&n->unauthenticated, 1);
	}
	node_uncount(&n->connections, 1);
	larder_probe4(conn_down, s->holder, s->slot, s->reactor->now_ns - s->up_ns, s->began);
	s->reactor->n_gone--;
	list_remove(&s->link);
	s->codec->stop(s);
	free(s);
	return true;
}

void node_session_forget(struct session *s)
{
	for (uint32_t i = 0; i < s->n_requests; i++)
		s->requests[i].out = 0;
	session_down(s);
	if (s->state != SESSION_GONE) {
		s->state = SESSION_GONE;
		s->conn = NULL;
		s->reactor->n_gone++;
	}
	list_for_each_safe(it, &s->active)
		(void)node_request_settle_lost(list_entry(it, struct request, link));
}
