/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a connection comes about.
 *
 *	client: address, route, request with a hello ─▶ node: sets receives aside, answers
 *	client: queue pair connected, "it arrived"   ─▶ node: UP
 *
 * The client gives the node a window and asks for one; the node grants what it can. A refusal
 * carries its reason.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "transport/verbs.h"

#define CONNECT_NO_LISTENER 8	/* IB_CM_REJ_INVALID_SERVICE_ID */
#define CONNECT_BY_PEER 28	/* IB_CM_REJ_CONSUMER_DEFINED */

static void connect_timeout(struct verbs_conn *c)
{
	uint8_t exponent = VERBS_ACK_TIMEOUT;

	/* without it the fabric's own default is in force: later, and finite as well */
	if (rdma_set_option(c->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent,
			    sizeof(exponent)) < 0)
		log_debug(verbs_owner(c)->config.log, "rdma: no acknowledgement timeout: %s",
			  strerror(errno));
}

/* --- client -------------------------------------------------------------------------------- */

static int connect_resolve(struct verbs_transport *t, struct verbs_conn *c)
{
	if (rdma_create_id(t->cm, &c->id, c, RDMA_PS_TCP) < 0)
		return -errno;
	connect_timeout(c);
	if (rdma_resolve_addr(c->id, NULL, &c->peer.sa.any, VERBS_RESOLVE_MS) < 0)
		return errno == ENODEV || errno == EADDRNOTAVAIL ? -EHOSTUNREACH : -errno;
	return 0;
}

int verbs_connect(struct transport *base, const char *address, void *user,
		  struct transport_conn **ret)
{
	struct verbs_transport *t = verbs_of(base);
	struct tcp_addresses found = { 0 };
	struct verbs_conn *c;
	int r = tcp_address_resolve(address, &found);

	if (r < 0)
		return r;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	verbs_conn_start(t, c, VERBS_ADDRESS);
	c->base.user = user;
	c->peer = found.a[0];
	r = connect_resolve(t, c);
	if (r < 0)
		verbs_conn_end(c, r, -ECONNRESET);	/* told by poll, as every end */
	*ret = &c->base;
	return 0;
}

int verbs_connect_address(struct verbs_conn *c)
{
	int r = verbs_device_get(verbs_owner(c), c->id->verbs, &c->device);

	if (r < 0)
		return r;
	verbs_conn_move(c, VERBS_ROUTE);
	return rdma_resolve_route(c->id, VERBS_RESOLVE_MS) < 0 ? -errno : 0;
}

/* Sets receives aside. False: there are none. */
static bool connect_grant(struct verbs_conn *c, uint32_t want)
{
	struct verbs_device *d = c->device;

	c->window = verbs_credits_grant(want, d->receives_left, d->plan.receives);
	if (c->window)
		d->receives_left -= c->window + VERBS_UPDATES;
	return c->window > 0;
}

static void connect_param(const struct verbs_conn *c, const struct verbs_hello *h,
			  struct rdma_conn_param *p)
{
	*p = (struct rdma_conn_param){
		.private_data = h,
		.private_data_len = sizeof(*h),
		.responder_resources = (uint8_t)(c->accepted ? 0 : c->reads),
		.initiator_depth = (uint8_t)(c->accepted ? c->reads : 0),
		.retry_count = VERBS_RETRIES,
		.rnr_retry_count = VERBS_RNR_RETRIES,
		.srq = 1,
		.qp_num = c->qp->qp_num,
	};
}

int verbs_connect_route(struct verbs_conn *c)
{
	struct rdma_conn_param param;
	struct verbs_hello hello;
	int r;

	if (c->device->n_conns >= c->device->plan.conns || !connect_grant(c, VERBS_WINDOW_WANTED))
		return -EUSERS;
	r = verbs_qp_make(c);
	if (r < 0)
		return r;
	c->reads = c->device->plan.reads_in;
	verbs_hello_make(&hello, c->window, VERBS_WINDOW_WANTED, VERBS_MAX_MESSAGE);
	connect_param(c, &hello, &param);
	verbs_conn_move(c, VERBS_ASKED);
	return rdma_connect(c->id, &param) < 0 ? -errno : 0;
}

int verbs_connect_answer(struct verbs_conn *c, const struct rdma_conn_param *param)
{
	struct verbs_hello hello;
	int r = verbs_hello_parse(param->private_data, param->private_data_len, &hello);

	if (r < 0 || hello.refusal) {
		log_warning(verbs_owner(c)->config.log, "rdma: what answers is no node of ours");
		return r < 0 ? r : -EPROTO;
	}
	verbs_credits_init(&c->credits, c->window, hello.window);
	r = verbs_qp_connect(c);
	if (r < 0)
		return r;
	c->established = true;
	if (rdma_establish(c->id) < 0)
		return -errno;
	verbs_conn_move(c, VERBS_NEW);
	return 0;
}

int verbs_refused(struct verbs_conn *c, int cm_status, const struct rdma_conn_param *param)
{
	const struct larder_log *log = verbs_owner(c)->config.log;
	char peer[TRANSPORT_ADDR_TEXT];
	struct verbs_hello hello;
	int r;

	verbs_peer_text(c, peer, sizeof(peer));
	if (cm_status != CONNECT_BY_PEER) {
		log_info(log, "rdma: %s refuses: %s (%d)", peer,
			 cm_status == CONNECT_NO_LISTENER ? "nobody listens there" :
							    "its rdma_cm says no", cm_status);
		return -ECONNREFUSED;
	}
	r = verbs_hello_parse(param->private_data, param->private_data_len, &hello);
	if (r == -EPROTO || (r == 0 && !hello.refusal))
		return -ECONNREFUSED;
	log_notice(log, "rdma: %s refuses: %s", peer, verbs_refusal_text(hello.refusal));
	return verbs_refusal_errno(hello.refusal);
}

/* --- node ---------------------------------------------------------------------------------- */

static void accept_refuse(struct verbs_transport *t, struct rdma_cm_id *id,
			  const struct tcp_address *peer, enum verbs_refusal why, int error)
{
	struct verbs_hello hello;
	char text[TRANSPORT_ADDR_TEXT];

	if (tcp_address_format(peer, text, sizeof(text)) < 0)
		strcpy(text, "?");
	log_notice(t->config.log, "rdma: %s is refused: %s%s%s", text, verbs_refusal_text(why),
		   error ? ": " : "", error ? strerror(-error) : "");
	verbs_hello_refuse(&hello, why);
	(void)rdma_reject(id, &hello, sizeof(hello));	/* else it times out by itself */
}

static void accept_peer(const struct rdma_cm_id *id, struct tcp_address *ret)
{
	const struct sockaddr *sa = &id->route.addr.dst_addr;

	ret->len = sa->sa_family == AF_INET6 ? sizeof(ret->sa.v6) : sizeof(ret->sa.v4);
	memcpy(&ret->sa, sa, ret->len);
}

/* As far as the answer. 0, or *@why it is refused. */
static int accept_make(struct verbs_conn *c, const struct rdma_conn_param *param,
		       const struct verbs_hello *theirs, enum verbs_refusal *why)
{
	struct verbs_transport *t = verbs_owner(c);
	struct rdma_conn_param answer;
	struct verbs_hello hello;
	int r;

	*why = VERBS_REFUSED_DEVICE;
	r = verbs_device_get(t, c->id->verbs, &c->device);
	if (r < 0)
		return r;
	*why = VERBS_REFUSED_FULL;
	if (c->device->n_conns >= c->device->plan.conns)
		return -EUSERS;
	*why = VERBS_REFUSED_RECEIVES;
	if (!connect_grant(c, theirs->wanted))
		return -ENOBUFS;
	*why = VERBS_REFUSED_DEVICE;
	c->reads = MAX(MIN((uint32_t)param->initiator_depth, c->device->plan.reads_out), 1u);
	connect_timeout(c);
	verbs_credits_init(&c->credits, c->window, theirs->window);
	r = verbs_qp_make(c);
	if (r == 0)
		r = verbs_qp_connect(c);
	if (r < 0)
		return r;
	verbs_hello_make(&hello, c->window, 0, VERBS_MAX_MESSAGE);
	connect_param(c, &hello, &answer);
	if (rdma_accept(c->id, &answer) < 0)
		return -errno;
	c->established = true;
	return 0;
}

void verbs_accept(struct verbs_transport *t, struct rdma_cm_id *id,
		  const struct rdma_conn_param *param)
{
	struct list *l = list_pop_head(&t->spare);
	enum verbs_refusal why = VERBS_REFUSED_FULL;
	struct tcp_address peer = { .len = 0 };
	struct verbs_hello hello;
	struct verbs_conn *c;
	int r = 0;

	accept_peer(id, &peer);
	if (!l) {
		accept_refuse(t, id, &peer, why, 0);
		(void)rdma_destroy_id(id);
		return;
	}
	c = list_entry(l, struct verbs_conn, link);
	verbs_conn_start(t, c, VERBS_ANSWERED);
	c->peer = peer;
	c->id = id;
	id->context = c;
	why = VERBS_REFUSED_VERSION;
	r = verbs_hello_parse(param->private_data, param->private_data_len, &hello);
	if (r == 0)
		r = accept_make(c, param, &hello, &why);
	if (r == 0)
		return;
	accept_refuse(t, id, &peer, why, r);
	/* nobody has heard of it, so nobody is told */
	verbs_conn_end(c, r, -ECONNRESET);
	verbs_conn_strip(c);
	verbs_conn_move(c, VERBS_OVER);
	verbs_conn_move(c, VERBS_GONE);
	list_remove(&c->ready);
	list_remove(&c->link);
	list_push_tail(&t->gone, &c->link);
}
