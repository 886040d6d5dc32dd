/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs transport's table: RDMA by libibverbs and librdmacm. verbs.h has the map of its files.
 *
 * Readiness. Everything that can make poll useful is inside one epoll descriptor, which is also
 * event_fd: rdma_cm's channel, the completion channels, and an eventfd, the kick, that is readable
 * while poll is wanted. Under load completions are polled for and nobody is woken; only when
 * VERBS_QUIET_POLLS in a row found nothing does the device get asked to tell of the next one, and
 * the kick is taken back.
 *
 * Fairness is as in shm.c: poll visits each ready connection once, oldest first.
 */
#include "transport/verbs.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "transport/registry.h"

/* --- readiness ----------------------------------------------------------------------------- */

int verbs_watch(struct verbs_transport *t, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

void verbs_unwatch(struct verbs_transport *t, int fd)
{
	/* ENOENT: it did not get as far as being watched */
	(void)epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void verbs_kick(struct verbs_transport *t)
{
	uint64_t one = 1;

	t->quiet = 0;
	if (!t->kicked)
		t->kicked = write(t->kick_fd, &one, sizeof(one)) == sizeof(one);
}

static void verbs_unkick(struct verbs_transport *t)
{
	uint64_t count;

	if (t->kicked)
		t->kicked = read(t->kick_fd, &count, sizeof(count)) != sizeof(count);
}

void verbs_ready(struct verbs_conn *c)
{
	struct verbs_transport *t = verbs_owner(c);

	if (list_empty(&c->ready))
		list_push_tail(&t->ready, &c->ready);
	if (!t->polling)
		verbs_kick(t);
}

static int verbs_event_fd(struct transport *base)
{
	return verbs_of(base)->epoll_fd;
}

static void verbs_take_events(struct verbs_device *d)
{
	struct ibv_cq *cq;
	unsigned n = 0;
	void *user;

	while (ibv_get_cq_event(d->channel, &cq, &user) == 0)
		n++;
	if (n)
		ibv_ack_cq_events(d->cq, n);
}

/* True: completions came between the last look and the asking; look again. */
static bool verbs_arm(struct verbs_transport *t)
{
	bool found = false;

	list_for_each(it, &t->devices) {
		struct verbs_device *d = list_entry(it, struct verbs_device, link);

		if (d->removed)
			continue;
		verbs_take_events(d);
		if (ibv_req_notify_cq(d->cq, 0) != 0)
			found = true;	/* then it is polled for */
	}
	return verbs_complete(t) != 0 || found;
}

/* --- poll ---------------------------------------------------------------------------------- */

/* Structs whose GONE was told by the poll before this one. */
static void verbs_reclaim(struct verbs_transport *t)
{
	struct list *l;

	while ((l = list_pop_head(&t->gone))) {
		struct verbs_conn *c = list_entry(l, struct verbs_conn, link);

		if (c->accepted)
			list_push_head(&t->spare, &c->link);
		else
			free(c);
	}
}

static bool verbs_is_heavy(const struct verbs_conn *c)
{
	const struct verbs_tx_slot *s = &c->tx.slot[c->tx.next % VERBS_MAX_TX];

	return c->phase == VERBS_OPEN && c->tx.next != c->tx.tail && s->type != TRANSPORT_SEND &&
	       s->length > TRANSPORT_LIGHT_BYTES && c->tx.reported == c->tx.done &&
	       c->waiting == VERBS_NO_SLOT;
}

static bool verbs_is_of_lot(const struct verbs_transport *t, const struct verbs_conn *c)
{
	return t->base.lot == TRANSPORT_ALL ||
	       (c->base.bulk || verbs_is_heavy(c)) == (t->base.lot == TRANSPORT_HEAVY);
}

static void verbs_turns(struct verbs_transport *t, struct verbs_batch *b)
{
	const struct list *last = t->ready.prev;	/* who comes later waits a poll */
	struct list *l;

	while (b->n < b->max && (l = list_pop_head(&t->ready))) {
		struct verbs_conn *c = list_entry(l, struct verbs_conn, ready);
		bool was_last = l == last;

		if (verbs_is_of_lot(t, c)) {
			verbs_conn_turn(c, b);
		} else {
			t->base.left += t->base.lot == TRANSPORT_LIGHT;
			list_push_tail(&t->ready, &c->ready);
		}
		if (was_last)
			return;
	}
}

/* Nothing was found: a few times more by looking, then the device is to tell. */
static void verbs_rest(struct verbs_transport *t)
{
	if (++t->quiet < VERBS_QUIET_POLLS) {
		if (!t->kicked)
			t->quiet = VERBS_QUIET_POLLS;	/* it is armed already */
		return;
	}
	if (t->kicked && !verbs_arm(t) && list_empty(&t->ready))
		verbs_unkick(t);
}

static int verbs_poll(struct transport *base, struct transport_event *events, uint32_t max)
{
	struct verbs_transport *t = verbs_of(base);
	struct verbs_batch b = { .events = events, .max = max };
	int done = 0;

	verbs_reclaim(t);
	t->turn++;
	t->poll_left = VERBS_POLL_BYTES;
	t->polling = true;
	if (t->base.lot != TRANSPORT_HEAVY) {	/* the LIGHT poll before it has looked */
		t->base.left = 0;
		if (t->quiet || t->turn % VERBS_LOOK_POLLS == 0)
			verbs_cm_poll(t);
		done = verbs_complete(t);
	}
	if (done >= 0)
		verbs_turns(t, &b);
	t->polling = false;
	if (done < 0) {
		log_err(t->config.log, "rdma: completions can not be read: %s", strerror(-done));
		return done;
	}
	if (done || b.n || !list_empty(&t->ready))
		verbs_kick(t);
	else
		verbs_rest(t);
	return (int)b.n;
}

static int verbs_flush(struct transport *base)
{
	struct verbs_transport *t = verbs_of(base);

	list_for_each_safe(l, &t->ready)
		verbs_conn_flush(list_entry(l, struct verbs_conn, ready));
	return 0;
}

/* --- open and close ------------------------------------------------------------------------ */

const char *verbs_explain(int error)
{
	switch (error) {
	case -ENODEV:
		return "no RDMA device has that address, or there is none";
	case -ENETDOWN:
		return "no RDMA device has a port that is up";
	case -EACCES:
	case -EPERM:
		return "no permission for /dev/infiniband: its udev rules, or the unit's device "
		       "policy";
	case -EADDRINUSE:
		return "another process listens there";
	case -ENOMEM:
		return "out of memory, or RLIMIT_MEMLOCK is too small";
	case -ENOSPC:
		return "a limit is too small, see above";
	default:
		return strerror(-error);
	}
}

static int verbs_open_fds(struct verbs_transport *t)
{
	int r;

	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll_fd < 0)
		return -errno;
	t->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->kick_fd < 0)
		return -errno;
	r = verbs_watch(t, t->kick_fd);
	return r < 0 ? r : verbs_open_cm(t);
}

static void verbs_free(struct verbs_transport *t)
{
	struct list *l;

	while ((l = list_pop_head(&t->orphans)))
		free(list_entry(l, struct verbs_region, link));
	if (t->kick_fd >= 0)
		(void)close(t->kick_fd);
	if (t->epoll_fd >= 0)
		(void)close(t->epoll_fd);
	free(t->slab);
	free(t);
}

static void verbs_close(struct transport *base)
{
	struct verbs_transport *t;

	if (!base)
		return;
	t = verbs_of(base);
	while (!list_empty(&t->conns))
		verbs_conn_release(list_entry(t->conns.next, struct verbs_conn, link));
	verbs_reclaim(t);
	verbs_unlisten(t);
	while (!list_empty(&t->devices))
		verbs_device_close(list_entry(t->devices.next, struct verbs_device, link));
	if (t->cm)
		rdma_destroy_event_channel(t->cm);
	verbs_free(t);
}

/* The parent goes on with all that the device knows: only memory and descriptors are let go. */
static void verbs_abandon(struct transport *base)
{
	struct verbs_transport *t = verbs_of(base);
	struct list *l;

	while ((l = list_pop_head(&t->conns))) {
		struct verbs_conn *c = list_entry(l, struct verbs_conn, link);
		struct list *r;

		while ((r = list_pop_head(&c->regions)))
			free(list_entry(r, struct verbs_region, link));
		list_push_tail(&t->gone, &c->link);
	}
	verbs_reclaim(t);
	while ((l = list_pop_head(&t->devices)))
		verbs_device_abandon(list_entry(l, struct verbs_device, link));
	if (t->cm)
		(void)close(t->cm->fd);
	verbs_free(t);
}

static int verbs_open(const struct transport_config *config, struct transport **ret)
{
	struct verbs_transport *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->base.ops = transport_verbs();
	t->config = *config;
	t->epoll_fd = t->kick_fd = -1;
	list_init(&t->devices);
	list_init(&t->spare);
	list_init(&t->conns);
	list_init(&t->gone);
	list_init(&t->ready);
	list_init(&t->orphans);
	r = verbs_open_fds(t);
	if (r < 0) {
		log_err(config->log, "rdma: not available: %s", verbs_explain(r));
		verbs_close(&t->base);
		return r;
	}
	*ret = &t->base;
	return 0;
}

static struct transport_ops verbs_table = {
	.name = "rdma",
	.caps = TRANSPORT_MESSAGE | TRANSPORT_RELIABLE | TRANSPORT_ORDERED | TRANSPORT_ONE_SIDED |
		TRANSPORT_EVENT_FD,
	.limits = {
		.max_message = VERBS_MAX_MESSAGE,
		.max_transfer = VERBS_MAX_TRANSFER,
		.max_iov = VERBS_MAX_IOV,
		.max_tx = VERBS_MAX_TX,
		.max_rx = VERBS_MAX_RX,
	},
	.open = verbs_open,
	.close = verbs_close,
	.listen = verbs_listen,
	.connect = verbs_connect,
	.disconnect = verbs_disconnect,
	.peer = verbs_peer,
	.region_add = verbs_region_add,
	.region_import = verbs_region_import,
	.region_del = verbs_region_del,
	.event_fd = verbs_event_fd,
	.post_rx = verbs_post_rx,
	.tx = verbs_tx,
	.poll = verbs_poll,
	.flush = verbs_flush,
	.bound = verbs_bound,
	.abandon = verbs_abandon,
};

static void verbs_table_fill(void)
{
	transport_fill_defaults(&verbs_table);
}

const struct transport_ops *transport_verbs(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, verbs_table_fill);	/* can't fail for a valid control */
	return &verbs_table;
}
