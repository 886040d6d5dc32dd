/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: memory of the client that requests may name. The client chooses the number; the table
 * and the bytes are bounded per connection. A region is deleted when the last segment that names it
 * is no longer in use, and REGION_DEL answers then. One whose descriptor has not arrived yet (it
 * travels beside the bytes) is tried again at each turn, for as long as a stall may last.
 */
#include <errno.h>
#include <string.h>

#include <larder/probes.h>

#include "base/compiler.h"
#include "node/session.h"

struct session_region *node_region_find(struct session *s, uint32_t number)
{
	for (uint32_t i = 0; i < s->n_regions; i++)
		if (s->regions[i].number == number)
			return &s->regions[i];
	return NULL;
}

static void region_give(struct session *s, uint64_t bytes)
{
	node_quota_give(s->quota, LARDER_LIMIT_regions, 1);
	node_quota_give(s->quota, LARDER_LIMIT_region_bytes, bytes);
}

/* One more region of the tenant. False: it was refused. */
static bool region_claim(struct request *r, uint64_t bytes)
{
	struct session *s = r->session;
	enum larder_limit over = LARDER_LIMIT_regions;

	if (node_quota_claim(s->quota, LARDER_LIMIT_regions, 1)) {
		if (node_quota_claim(s->quota, LARDER_LIMIT_region_bytes, bytes))
			return true;
		node_quota_give(s->quota, LARDER_LIMIT_regions, 1);
		over = LARDER_LIMIT_region_bytes;
	}
	node_admit_refused(s, over);
	node_reply_error(r, LARDER_QUOTA, 0,
			 "over the limit %s of the tenant, which is %llu, all its connections "
			 "together: delete one", larder_limit_name(over),
			 (unsigned long long)quota_limit(s->quota, over));
	return false;
}

static void region_forget(struct session *s, struct session_region *g)
{
	struct reactor *r = s->reactor;
	struct larder_gauges *gauges = &session_node(s)->ledger->gauges[s->slot];
	int e = g->region->transport->ops->region_del(g->region);

	if (e < 0)
		log_warning(&session_node(s)->log, "region %u can not be released: %s", g->number,
			    strerror(-e));
	larder_probe4(region_del, s->holder, s->slot, g->number, g->bytes);
	s->region_bytes -= g->bytes;
	node_uncount(&r->regions, 1);
	node_uncount(&r->region_bytes, g->bytes);
	ledger_gauge_sub(&gauges->regions, 1);
	ledger_gauge_sub(&gauges->region_bytes, g->bytes);
	region_give(s, g->bytes);
	*g = s->regions[--s->n_regions];	/* the last takes its place; order means nothing */
}

void node_regions_free(struct session *s)
{
	while (s->n_regions > 0)
		region_forget(s, &s->regions[s->n_regions - 1]);
}

void node_region_unuse(struct session *s, struct session_region *g)
{
	struct request *deleter = g->deleter;

	if (--g->uses > 0 || !deleter || deleter->lost)
		return;
	region_forget(s, g);
	node_request_move(deleter, REQUEST_STARTED);
	node_reply_none(deleter);
}

static void region_keep(struct request *r, struct transport_region *region)
{
	const struct wire_region_add *w = &r->wire.u.region_add;
	struct session *s = r->session;
	struct larder_gauges *gauges = &session_node(s)->ledger->gauges[s->slot];

	s->regions[s->n_regions++] = (struct session_region){ .region = region,
							      .number = w->region,
							      .bytes = w->size_bytes };
	larder_probe4(region_add, s->holder, s->slot, w->region, w->size_bytes);
	s->region_bytes += w->size_bytes;
	node_count(&s->reactor->regions, 1);
	node_count(&s->reactor->region_bytes, w->size_bytes);
	ledger_gauge_add(&gauges->regions, 1);
	ledger_gauge_add(&gauges->region_bytes, w->size_bytes);
	node_reply_none(r);
}

static void region_refuse(struct request *r, int error)
{
	switch (error) {
	case -EOPNOTSUPP:
		node_reply_error(r, LARDER_UNSUPPORTED, 0,
				 "this transport has no regions: send values inline");
		break;
	case -ENOMEM:
	case -ENOSPC:
	case -EMFILE:
	case -ENFILE:
		node_reply_error(r, LARDER_NO_SPACE, 0, "region %u can not be mapped: %s",
				 r->wire.u.region_add.region, strerror(-error));
		break;
	case -EDQUOT:
		node_reply_status(r, LARDER_QUOTA);
		break;
	default:
		node_reply_error(r, LARDER_BAD_REQUEST, 0,
				 "region %u is not usable (%s): it must be a memfd, sealed against "
				 "shrinking and fully allocated",
				 r->wire.u.region_add.region, strerror(-error));
	}
}

/* 0 = decided, one way or the other; -EAGAIN = its descriptor has not arrived. */
static int region_try(struct request *r)
{
	const struct wire_region_add *w = &r->wire.u.region_add;
	struct transport_conn *c = r->session->conn;
	struct transport_region *region = NULL;
	int e;

	if (!region_claim(r, w->size_bytes))
		return 0;
	e = c->transport->ops->region_import(c, r->wire.tail, r->wire.tail_len, w->size_bytes,
					     &region);
	if (e == 0) {
		region_keep(r, region);
		return 0;
	}
	region_give(r->session, w->size_bytes);
	if (e == -EAGAIN)
		return e;
	region_refuse(r, e);
	return 0;
}

static bool region_is_admitted(struct request *r)
{
	const struct wire_region_add *w = &r->wire.u.region_add;
	const struct larder_node_config *c = &session_node(r->session)->config;
	struct session *s = r->session;

	if (node_region_find(s, w->region)) {
		node_reply_error(r, LARDER_BAD_REQUEST, 0,
				 "region %u is there already: delete it first", w->region);
	} else if (s->n_regions >= c->max_regions) {
		node_reply_error(r, LARDER_QUOTA, c->max_regions,
				 "this connection has %u regions, which is the limit: delete one",
				 s->n_regions);
	} else if (w->size_bytes > c->max_region_bytes - s->region_bytes) {
		node_reply_error(r, LARDER_QUOTA, c->max_region_bytes,
				 "%llu bytes of regions are the limit of a connection, %llu are in "
				 "use: delete one", (unsigned long long)c->max_region_bytes,
				 (unsigned long long)s->region_bytes);
	} else {
		return true;
	}
	return false;
}

/* While it waits others may take its number or its room: each attempt asks for all of it. */
static int region_add(struct request *r)
{
	if (!region_is_admitted(r) || region_try(r) == 0)
		return 0;
	node_request_move(r, REQUEST_REGION);
	list_push_tail(&r->session->reactor->retry, &r->queue);
	return -EAGAIN;
}

void node_op_region_add(struct request *r)
{
	if (!r->session->one_sided)
		region_refuse(r, -EOPNOTSUPP);
	else
		(void)region_add(r);	/* -EAGAIN: node_region_retry goes on with it */
}

bool node_region_retry(struct request *r)
{
	struct session *s = r->session;
	uint64_t stall_ns = session_node(s)->config.stall_timeout_ms * NSEC_PER_MSEC;

	if (s->state != SESSION_OPEN)
		return false;	/* its end is on the way */
	list_remove(&r->queue);
	node_request_move(r, REQUEST_STARTED);
	if (r->cancelled)
		node_reply_status(r, LARDER_CANCELLED);
	else if (s->reactor->now_ns - r->start_ns >= stall_ns)
		node_reply_error(r, LARDER_BAD_REQUEST, 0,
				 "the descriptor of region %u did not arrive",
				 r->wire.u.region_add.region);
	else if (region_add(r) == -EAGAIN)
		return false;
	node_session_kick(s);
	return true;
}

void node_op_region_del(struct request *r)
{
	struct session *s = r->session;
	struct session_region *g = node_region_find(s, r->wire.u.region_del.region);

	if (!g || g->deleter) {
		node_reply_error(r, LARDER_BAD_REQUEST, 0,
				 "there is no region %u on this connection",
				 r->wire.u.region_del.region);
		return;
	}
	if (g->uses > 0) {
		g->deleter = r;
		node_request_move(r, REQUEST_REGION);
		return;
	}
	region_forget(s, g);
	node_reply_none(r);
}
