/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EXISTS and DEL, key by key as they arrive, and what is asked of one key.
 *
 * Who saw 1 must find the value, so EXISTS leases what it counts, for resp.exists_lease; where no
 * lease is to be had the answer is 0. All of RESP shares one lease id, so that DEL can let go of
 * it: a lease of anybody else still protects the object.
 */
#include "base/compiler.h"
#include "node/resp.h"

#define DEL_TRIES 3u	/* that an EXISTS of somebody else may come in between */

/* The key was looked at; the rest of the command follows. */
static void keys_next(struct request *r)
{
	struct session *s = r->session;
	struct resp_session *p = resp_of(s);

	node_request_move(r, REQUEST_REST);
	p->request = r;
	p->waits = false;
	resp_go(s);
}

/* The request of the command: its limits are asked once. NULL: it was refused. */
static struct request *keys_request(struct session *s, struct resp_session *p, uint8_t opcode)
{
	struct request *r = p->request;

	p->waits = true;
	if (r) {
		node_request_move(r, REQUEST_STARTED);
		return r;
	}
	r = resp_request(s, opcode);
	return node_admit(r) ? r : NULL;
}

void resp_keys_end(struct session *s, struct resp_session *p)
{
	struct request *r = p->request;

	if (!r)
		return;		/* MGET has answered */
	node_request_move(r, REQUEST_STARTED);
	resp_reply_integer(r, p->count, LARDER_OK);
}

/* --- EXISTS ---------------------------------------------------------------------------------- */

static void exists_looked(struct request *r)
{
	bool leased = r->op.flags & LARDER_F_LEASE;

	if (r->op.status != LARDER_OK) {
		node_reply_status(r, r->op.status);
		return;
	}
	resp_of(r->session)->count += r->key.presence == (leased ? LARDER_LEASED : LARDER_PRESENT);
	keys_next(r);
}

void resp_exists(struct session *s, struct resp_session *p)
{
	const struct larder_node_config *c = &session_node(s)->config;
	struct request *r = keys_request(s, p, LARDER_OP_EXISTS);

	if (!r)
		return;
	/* while draining there are no new leases, so nothing can be promised */
	if (resp_take_key(r, 1, false) != LARDER_OK ||
	    (c->resp.exists_lease_ms && node_draining(session_node(s)))) {
		keys_next(r);
		return;
	}
	r->op.flags = c->resp.exists_lease_ms ? LARDER_F_LEASE : 0;
	r->op.lease_id = RESP_LEASE_ID;
	r->op.lease_ms = MIN(c->resp.exists_lease_ms, c->lease_max_ms);
	r->op.count = 0;
	r->op.leading_run = 0;
	node_request_submit(r, &r->op, exists_looked);
}

/* --- DEL ------------------------------------------------------------------------------------- */

static void del_looked(struct request *r);

/* It was leased. By us? Then once more. */
static void del_released(struct request *r)
{
	struct resp_session *p = resp_of(r->session);

	if (r->op.status != LARDER_OK || ++p->from == DEL_TRIES) {
		node_reply_status(r, LARDER_BUSY);
		return;
	}
	r->op.opcode = LARDER_OP_DELETE;
	node_request_submit(r, &r->op, del_looked);
}

static void del_looked(struct request *r)
{
	switch (r->op.status == LARDER_OK ? r->key.status : r->op.status) {
	case LARDER_OK:
		resp_of(r->session)->count++;
		keys_next(r);
		break;
	case LARDER_NOT_FOUND:
		keys_next(r);
		break;
	case LARDER_BUSY:
		r->op.opcode = LARDER_OP_RELEASE;
		r->op.lease_id = RESP_LEASE_ID;
		node_request_submit(r, &r->op, del_released);
		break;
	default:
		node_reply_status(r, r->op.status == LARDER_OK ? r->key.status : r->op.status);
		break;
	}
}

void resp_del(struct session *s, struct resp_session *p)
{
	struct request *r = keys_request(s, p, LARDER_OP_DELETE);

	if (!r)
		return;
	if (resp_take_key(r, 1, false) != LARDER_OK) {
		keys_next(r);
		return;
	}
	p->from = 0;
	r->op.opcode = LARDER_OP_DELETE;
	node_request_submit(r, &r->op, del_looked);
}

/* --- one key --------------------------------------------------------------------------------- */

static void strlen_looked(struct request *r)
{
	bool found = r->op.status == LARDER_OK && r->key.status == LARDER_OK;

	resp_reply_integer(r, found ? (int64_t)r->stat.size_bytes : 0,
			   found ? LARDER_OK : LARDER_NOT_FOUND);
}

/* Rounded up: what still has a moment to live has a second. */
static int64_t ttl_seconds(uint64_t expire_ns, uint64_t now_ns)
{
	if (expire_ns == 0)
		return -1;
	return expire_ns <= now_ns ? 0 :
	       (int64_t)((expire_ns - now_ns + NSEC_PER_SEC - 1) / NSEC_PER_SEC);
}

static void ttl_looked(struct request *r)
{
	bool found = r->op.status == LARDER_OK && r->key.status == LARDER_OK;

	resp_reply_integer(r, found ? ttl_seconds(r->op.expire_ns, r->session->reactor->now_ns) :
				      -2, found ? LARDER_OK : LARDER_NOT_FOUND);
}

static void stat_key(struct session *s, struct resp_session *p, int64_t nothing,
		     void (*looked)(struct request *))
{
	struct request *r = resp_request(s, LARDER_OP_STAT);

	p->waits = true;
	if (!node_admit(r))
		return;
	if (resp_take_key(r, 1, false) != LARDER_OK) {
		resp_reply_integer(r, nothing, LARDER_NOT_FOUND);
		return;
	}
	r->op.stats = &r->stat;
	node_request_submit(r, &r->op, looked);
}

void resp_strlen(struct session *s, struct resp_session *p)
{
	stat_key(s, p, 0, strlen_looked);
}

void resp_ttl(struct session *s, struct resp_session *p)
{
	stat_key(s, p, -2, ttl_looked);
}
