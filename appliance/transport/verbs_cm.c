/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_cm's events, and listening. Events are taken one at a time, acknowledged and only then acted
 * on, since a connection can be destroyed only when none of its events is held.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "transport/verbs.h"

#define CM_BACKLOG 128
#define CM_EVENTS 64u		/* in one poll */
#define CM_PRIVATE 256u

int verbs_open_cm(struct verbs_transport *t)
{
	int r = 0;

	/* kernels from 5.12 on need nothing for fork; older ones are told here */
	if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
		r = ibv_fork_init();
	if (r)
		log_notice(t->config.log, "rdma: this process may not fork: %s", strerror(r));
	errno = ENODEV;		/* librdmacm sets it to what it pleases, or not at all */
	t->cm = rdma_create_event_channel();
	if (!t->cm)
		return errno == ENOSYS || errno == ENOENT ? -ENODEV : -errno;
	if (fcntl(t->cm->fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(t->cm->fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	return verbs_watch(t, t->cm->fd);
}

/* --- listening ----------------------------------------------------------------------------- */

static bool cm_is_link_local(const struct tcp_address *a)
{
	if (a->sa.any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LINKLOCAL(&a->sa.v6.sin6_addr);
	return (ntohl(a->sa.v4.sin_addr.s_addr) >> 16) == 0xa9fe;
}

static int cm_listen(struct verbs_transport *t)
{
	struct verbs_device *d;
	int r;

	if (rdma_create_id(t->cm, &t->listener, NULL, RDMA_PS_TCP) < 0)
		return -errno;
	if (rdma_bind_addr(t->listener, &t->listen_address.sa.any) < 0)
		return errno == EADDRNOTAVAIL ? -ENODEV : -errno;
	/* memory is registered now, not when the first client waits for it */
	r = t->listener->verbs ? verbs_device_get(t, t->listener->verbs, &d) :
				 verbs_device_get_all(t);
	if (r < 0)
		return r;
	if (t->listener->verbs && !verbs_device_is_up(t->listener->verbs))
		log_warning(t->config.log, "rdma: %s has no port that is up: nobody can connect "
			    "until one is", ibv_get_device_name(t->listener->verbs->device));
	return rdma_listen(t->listener, CM_BACKLOG) < 0 ? -errno : 0;
}

static void cm_unlisten(struct verbs_transport *t)
{
	if (t->listener)
		(void)rdma_destroy_id(TAKE_PTR(t->listener));
}

int verbs_listen(struct transport *base, const char *address)
{
	struct verbs_transport *t = verbs_of(base);
	int r = t->listening ? -EALREADY : tcp_address_parse(address, &t->listen_address);

	if (r < 0)
		return r;
	if (cm_is_link_local(&t->listen_address)) {
		log_err(t->config.log, "rdma: %s is link-local: give the interface an address and "
			"listen on that one", address);
		return -EADDRNOTAVAIL;
	}
	r = cm_listen(t);
	if (r < 0) {
		cm_unlisten(t);
		log_err(t->config.log, "rdma: %s is not listened on: %s", address,
			verbs_explain(r));
		return r;
	}
	t->slab = calloc(t->config.max_conns, sizeof(*t->slab));
	if (!t->slab) {
		cm_unlisten(t);
		return -ENOMEM;
	}
	for (uint32_t i = t->config.max_conns; i-- > 0;) {
		t->slab[i].accepted = true;
		list_push_head(&t->spare, &t->slab[i].link);
	}
	t->listening = true;
	return 0;
}

void verbs_unlisten(struct verbs_transport *t)
{
	t->listening = false;
	cm_unlisten(t);
}

int verbs_bound(struct transport *base, char *text, size_t size)
{
	struct verbs_transport *t = verbs_of(base);
	struct tcp_address a = t->listen_address;

	if (!t->listener)
		return -ENOENT;
	if (a.sa.any.sa_family == AF_INET6)
		a.sa.v6.sin6_port = rdma_get_src_port(t->listener);
	else
		a.sa.v4.sin_port = rdma_get_src_port(t->listener);
	return tcp_address_format(&a, text, size);
}

static void cm_relisten(struct verbs_transport *t)
{
	uint64_t now = t->config.clock ? clock_now(t->config.clock) : UINT64_MAX;

	if (!t->listening || t->listener || now < t->relisten_ns)
		return;
	t->relisten_ns = now + VERBS_RELISTEN_NS;
	if (cm_listen(t) < 0) {
		cm_unlisten(t);
		return;		/* said when it went */
	}
	log_notice(t->config.log, "rdma: the device is back, listening again");
}

/* --- devices that go ----------------------------------------------------------------------- */

static void cm_device_removed(struct verbs_transport *t, struct ibv_context *context)
{
	list_for_each(it, &t->devices) {
		struct verbs_device *d = list_entry(it, struct verbs_device, link);

		if (d->context != context || d->removed)
			continue;
		d->removed = true;
		log_warning(t->config.log, "rdma: %s was removed: its connections end",
			    ibv_get_device_name(context->device));
		list_for_each(at, &t->conns) {
			struct verbs_conn *c = list_entry(at, struct verbs_conn, link);

			if (c->device == d)
				verbs_conn_end(c, -ENODEV, -ECONNRESET);
		}
	}
}

static void cm_close_removed(struct verbs_transport *t)
{
	list_for_each_safe(it, &t->devices) {
		struct verbs_device *d = list_entry(it, struct verbs_device, link);

		if (d->removed && d->n_conns == 0)
			verbs_device_close(d);
	}
}

/* --- events -------------------------------------------------------------------------------- */

/* What an event says, kept after its acknowledgement. */
struct cm_said {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	struct rdma_cm_id *listener;
	struct rdma_conn_param param;
	uint8_t private_data[CM_PRIVATE];
};

static int cm_next(struct verbs_transport *t, struct cm_said *s)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(t->cm, &ev) < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	*s = (struct cm_said){ .type = ev->event, .status = ev->status, .id = ev->id,
			       .listener = ev->listen_id, .param = ev->param.conn };
	if (ev->param.conn.private_data)
		memcpy(s->private_data, ev->param.conn.private_data,
		       MIN((uint32_t)ev->param.conn.private_data_len, CM_PRIVATE));
	s->param.private_data = s->private_data;
	(void)rdma_ack_cm_event(ev);	/* can't fail for an event that was got */
	return 1;
}

static void cm_listener_event(struct verbs_transport *t, const struct cm_said *s)
{
	if (s->type != RDMA_CM_EVENT_DEVICE_REMOVAL)
		return;
	cm_device_removed(t, s->id->verbs);
	cm_unlisten(t);
}

static void cm_step(struct verbs_conn *c, int r)
{
	if (r < 0)
		verbs_conn_end(c, r, -ECONNRESET);
	else
		verbs_ready(c);
}

static void cm_established(struct verbs_conn *c)
{
	if (c->phase != VERBS_ANSWERED)
		return;
	verbs_conn_move(c, VERBS_NEW);
	verbs_ready(c);
}

static void cm_conn_event(struct verbs_conn *c, const struct cm_said *s)
{
	if (c->phase >= VERBS_ENDING)
		return;		/* it ends already */
	switch (s->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		cm_step(c, verbs_connect_address(c));
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		cm_step(c, verbs_connect_route(c));
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		cm_step(c, verbs_connect_answer(c, &s->param));
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		cm_established(c);
		break;
	case RDMA_CM_EVENT_REJECTED:
		cm_step(c, verbs_refused(c, s->status, &s->param));
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		/* no RDMA device of ours leads there */
		cm_step(c, s->status < 0 && s->status != -ENODEV ? s->status : -EHOSTUNREACH);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		cm_step(c, s->status < 0 ? s->status : -ETIMEDOUT);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		c->closed = true;
		if (c->phase < VERBS_OPEN)
			verbs_conn_end(c, -ECONNRESET, -ECONNRESET);
		verbs_ready(c);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		cm_device_removed(verbs_owner(c), s->id->verbs);
		break;
	default:
		break;		/* the address of a bonded interface moved, a timewait ended */
	}
}

void verbs_cm_poll(struct verbs_transport *t)
{
	for (unsigned i = 0; i < CM_EVENTS; i++) {
		struct cm_said s;
		int r = cm_next(t, &s);

		if (r < 0)
			log_err(t->config.log, "rdma: rdma_cm fails: %s", strerror(-r));
		if (r <= 0)
			break;
		if (s.type == RDMA_CM_EVENT_CONNECT_REQUEST)
			verbs_accept(t, s.id, &s.param);
		else if (s.id == t->listener)
			cm_listener_event(t, &s);
		else if (s.id->context)
			cm_conn_event(s.id->context, &s);
	}
	cm_close_removed(t);
	cm_relisten(t);
}
