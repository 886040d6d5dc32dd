/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shm transport: messages over a unix socket, values by copying between the node's pages and
 * memory that the client shares. shm.h has the map of its files and the datagrams.
 *
 * Readiness. Everything that can make poll useful is inside one epoll descriptor, which is also
 * event_fd: the listening socket, the connections' sockets, and an eventfd, the kick, that is
 * readable while some connection has work that no socket announces (a copy, an event to tell). The
 * kick costs a system call each time it changes, so it is not taken back as soon as the work is
 * done, but by the first poll that finds nothing at all: a busy loop pays for it once.
 *
 * Fairness. poll visits each ready connection once, oldest first, for one turn; who has work left
 * goes to the end of the line. A poll moves at most SHM_POLL_BYTES, so that its caller gets to do
 * other things between, however many connections are busy.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "transport/registry.h"
#include "transport/shm.h"

#define SHM_EPOLL_BATCH 64
#define SHM_LOG_LINES 10u	/* complaints about peers, per second */

/* --- log ----------------------------------------------------------------------------------- */

static bool shm_may_log(struct shm_transport *t)
{
	uint64_t now;

	if (!t->config.clock)
		return true;
	now = clock_now(t->config.clock);
	if (now - t->log_since_ns >= NSEC_PER_SEC) {
		if (t->log_dropped)
			log_warning(t->config.log, "shm: %u more lines about peers were left out",
				    t->log_dropped);
		t->log_since_ns = now;
		t->log_lines = t->log_dropped = 0;
	}
	if (t->log_lines >= SHM_LOG_LINES) {
		t->log_dropped++;
		return false;
	}
	t->log_lines++;
	return true;
}

void shm_complain(struct shm_conn *c, const char *fmt, ...)
{
	struct shm_transport *t = shm_owner(c);
	char text[192];
	va_list ap;

	if (!shm_may_log(t))
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);	/* cut when too long */
	va_end(ap);
	log_warning(t->config.log, "shm: peer pid %d (uid %u) is cut off: %s", (int)c->pid,
		    (unsigned)c->uid, text);
}

/* --- readiness ----------------------------------------------------------------------------- */

static void shm_kick(struct shm_transport *t)
{
	uint64_t one = 1;

	if (!t->kicked)
		t->kicked = write(t->kick_fd, &one, sizeof(one)) == sizeof(one);
}

static void shm_unkick(struct shm_transport *t)
{
	uint64_t count;

	if (t->kicked)
		t->kicked = read(t->kick_fd, &count, sizeof(count)) != sizeof(count);
}

void shm_ready(struct shm_conn *c)
{
	struct shm_transport *t = shm_owner(c);

	if (list_empty(&c->ready))
		list_push_tail(&t->ready, &c->ready);
	if (!t->polling)
		shm_kick(t);
}

static int shm_event_fd(struct transport *base)
{
	return shm_of(base)->epoll_fd;
}

/* --- poll ---------------------------------------------------------------------------------- */

/* Structs whose GONE was told by the poll before this one. */
static void shm_reclaim(struct shm_transport *t)
{
	struct list *l;

	while ((l = list_pop_head(&t->gone))) {
		struct shm_conn *c = list_entry(l, struct shm_conn, link);

		if (c->accepted)
			list_push_head(&t->spare, &c->link);
		else
			free(c);
	}
}

static int shm_gather(struct shm_transport *t)
{
	struct epoll_event ev[SHM_EPOLL_BATCH];
	int n = epoll_wait(t->epoll_fd, ev, SHM_EPOLL_BATCH, 0);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		struct shm_conn *c = ev[i].data.ptr;

		if (!c)
			continue;		/* the kick */
		if (ev[i].data.ptr == t) {
			shm_accept(t);
			continue;
		}
		c->revents |= ev[i].events;
		shm_ready(c);
	}
	return 0;
}

static bool shm_is_of_lot(const struct shm_transport *t, const struct shm_conn *c)
{
	return t->base.lot == TRANSPORT_ALL ||
	       (c->base.bulk || shm_conn_is_heavy(c)) == (t->base.lot == TRANSPORT_HEAVY);
}

static void shm_turns(struct shm_transport *t, struct shm_batch *b)
{
	const struct list *last = t->ready.prev;	/* who comes later waits a poll */
	struct list *l;

	while (b->n < b->max && t->poll_left && (l = list_pop_head(&t->ready))) {
		struct shm_conn *c = list_entry(l, struct shm_conn, ready);
		bool was_last = l == last;

		if (shm_is_of_lot(t, c)) {
			shm_conn_turn(c, b);
		} else {
			t->base.left += t->base.lot == TRANSPORT_LIGHT;
			list_push_tail(&t->ready, &c->ready);
		}
		if (was_last)
			return;
	}
}

static int shm_poll(struct transport *base, struct transport_event *events, uint32_t max)
{
	struct shm_transport *t = shm_of(base);
	struct shm_batch b = { .events = events, .max = max };
	int r = 0;

	shm_reclaim(t);
	t->turn++;
	t->poll_left = SHM_POLL_BYTES;
	t->polling = true;
	if (t->base.lot != TRANSPORT_HEAVY) {	/* the LIGHT poll before it has looked */
		t->base.left = 0;
		r = shm_gather(t);
	}
	if (r == 0)
		shm_turns(t, &b);
	t->polling = false;
	if (r < 0)
		return r;
	if (!list_empty(&t->ready))
		shm_kick(t);
	else if (!b.n)
		shm_unkick(t);
	return (int)b.n;
}

static int shm_flush(struct transport *base)
{
	struct shm_transport *t = shm_of(base);

	list_for_each(l, &t->ready)
		shm_conn_flush(list_entry(l, struct shm_conn, ready));
	return 0;
}

/* --- open and close ------------------------------------------------------------------------ */

static int shm_open_fds(struct shm_transport *t)
{
	struct epoll_event ev = { .events = EPOLLIN };	/* .data.ptr NULL: the kick */

	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll_fd < 0)
		return -errno;
	t->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->kick_fd < 0)
		return -errno;
	return epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, t->kick_fd, &ev) < 0 ? -errno : 0;
}

static void shm_close(struct transport *base)
{
	struct shm_transport *t;
	struct list *l;

	if (!base)
		return;
	t = shm_of(base);
	while (!list_empty(&t->conns))
		shm_conn_release(list_entry(t->conns.next, struct shm_conn, link));
	shm_reclaim(t);
	while ((l = list_pop_head(&t->orphans)))
		free(list_entry(l, struct shm_region, link));
	shm_unlisten(t);
	if (t->spare_fd >= 0)
		(void)close(t->spare_fd);
	if (t->kick_fd >= 0)
		(void)close(t->kick_fd);
	if (t->epoll_fd >= 0)
		(void)close(t->epoll_fd);
	free(t->slab);
	free(t);
}

/* The parent goes on: its gates, its epoll set and its path are not touched. */
static void shm_abandon(struct transport *base)
{
	struct shm_transport *t = shm_of(base);

	list_for_each(l, &t->conns)
		shm_conn_abandon(list_entry(l, struct shm_conn, link));
	cleanup_closep(&t->listen_fd);
	t->listen_fd = -1;
	shm_close(base);
}

static int shm_open(const struct transport_config *config, struct transport **ret)
{
	struct shm_transport *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->base.ops = transport_shm();
	t->config = *config;
	t->epoll_fd = t->kick_fd = t->spare_fd = t->listen_fd = -1;
	list_init(&t->spare);
	list_init(&t->conns);
	list_init(&t->gone);
	list_init(&t->ready);
	list_init(&t->orphans);
	r = shm_open_fds(t);
	if (r < 0) {
		shm_close(&t->base);
		return r;
	}
	*ret = &t->base;
	return 0;
}

static int shm_bound(struct transport *base, char *text, size_t size)
{
	const struct shm_transport *t = shm_of(base);

	if (!t->path[0])
		return -ENOENT;
	if (strlen(t->path) >= size)
		return -ENOSPC;
	memcpy(text, t->path, strlen(t->path) + 1);
	return 0;
}

static int shm_listener_fd(struct transport *base)
{
	const struct shm_transport *t = shm_of(base);

	return t->listen_fd < 0 ? -ENOENT : t->listen_fd;
}

static struct transport_ops shm_table = {
	.name = "shm",
	.caps = TRANSPORT_MESSAGE | TRANSPORT_RELIABLE | TRANSPORT_ORDERED | TRANSPORT_ONE_SIDED |
		TRANSPORT_EVENT_FD | TRANSPORT_PEER_CRED,
	.limits = {
		.max_message = SHM_MAX_MESSAGE,
		.max_transfer = SHM_MAX_TRANSFER,
		.max_iov = SHM_MAX_IOV,
		.max_tx = SHM_MAX_TX,
		.max_rx = SHM_MAX_RX,
	},
	.open = shm_open,
	.close = shm_close,
	.listen = shm_listen,
	.listen_fd = shm_listen_fd,
	.connect = shm_connect,
	.disconnect = shm_disconnect,
	.peer = shm_peer,
	.region_add = shm_region_add,
	.region_import = shm_region_import,
	.region_del = shm_region_del,
	.event_fd = shm_event_fd,
	.gate_arm = shm_gate_arm,
	.gate_take = shm_gate_take,
	.post_rx = shm_post_rx,
	.tx = shm_tx,
	.poll = shm_poll,
	.flush = shm_flush,
	.bound = shm_bound,
	.listener_fd = shm_listener_fd,
	.abandon = shm_abandon,
};

static void shm_table_fill(void)
{
	transport_fill_defaults(&shm_table);
}

const struct transport_ops *transport_shm(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, shm_table_fill);	/* can't fail for a valid control */
	return &shm_table;
}
