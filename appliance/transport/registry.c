/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which transports there are, and what an unset slot of a table answers.
 *
 * Callers never test a slot for NULL: every table is run through transport_fill_defaults before
 * anybody sees it, and what a transport left out answers -EOPNOTSUPP by the same path as a call
 * that it refused. close alone has nothing to answer: leaving it out means nothing to release.
 */
#include "transport/registry.h"

#include <errno.h>
#include <string.h>

#include <larder/probes.h>

#include "base/compiler.h"

static int refuse_open(const struct transport_config *config, struct transport **ret)
{
	return -EOPNOTSUPP;
}

static void nothing_to_close(struct transport *t)
{
}

/* A child keeps what it inherited until exec or exit: all descriptors are close-on-exec. */
static void nothing_to_abandon(struct transport *t)
{
}

static int refuse_listen(struct transport *t, const char *address)
{
	return -EOPNOTSUPP;
}

static int refuse_listen_fd(struct transport *t, int fd)
{
	return -EOPNOTSUPP;
}

static int refuse_connect(struct transport *t, const char *address, void *user,
			  struct transport_conn **ret)
{
	return -EOPNOTSUPP;
}

static int refuse_disconnect(struct transport_conn *c, bool drain)
{
	return -EOPNOTSUPP;
}

static int refuse_peer(struct transport_conn *c, struct transport_peer *ret)
{
	return -EOPNOTSUPP;
}

static int refuse_region_add(struct transport_conn *c, void *addr, size_t len, int fd,
			     uint64_t fd_offset, uint8_t *opaque, size_t *opaque_len,
			     struct transport_region **ret)
{
	return -EOPNOTSUPP;
}

static int refuse_region_import(struct transport_conn *c, const uint8_t *opaque,
				size_t opaque_len, uint64_t size, struct transport_region **ret)
{
	return -EOPNOTSUPP;
}

static int refuse_region_del(struct transport_region *region)
{
	return -EOPNOTSUPP;
}

static int refuse_event_fd(struct transport *t)
{
	return -EOPNOTSUPP;
}

static int refuse_gate(struct transport_conn *c, uint32_t gate)
{
	return -EOPNOTSUPP;
}

static int refuse_post_rx(struct transport_conn *c, const struct transport_rx *rx, uint32_t n)
{
	return -EOPNOTSUPP;
}

static int refuse_tx(struct transport_conn *c, const struct transport_tx *tx, uint32_t n)
{
	return -EOPNOTSUPP;
}

static int refuse_poll(struct transport *t, struct transport_event *events, uint32_t max)
{
	return -EOPNOTSUPP;
}

static int refuse_flush(struct transport *t)
{
	return -EOPNOTSUPP;
}

static int refuse_redirect_rx(struct transport_conn *c, uint64_t cookie, void *to)
{
	return -EOPNOTSUPP;
}

static int refuse_bound(struct transport *t, char *text, size_t size)
{
	return -EOPNOTSUPP;
}

static int refuse_listener_fd(struct transport *t)
{
	return -EOPNOTSUPP;
}

void transport_fill_defaults(struct transport_ops *ops)
{
	ops->size = sizeof(*ops);
#define FILL(slot, fn)                                                                             \
	do {                                                                                       \
		if (!ops->slot)                                                                    \
			ops->slot = (fn);                                                          \
	} while (0)
	FILL(open, refuse_open);
	FILL(close, nothing_to_close);
	FILL(listen, refuse_listen);
	FILL(listen_fd, refuse_listen_fd);
	FILL(connect, refuse_connect);
	FILL(disconnect, refuse_disconnect);
	FILL(peer, refuse_peer);
	FILL(region_add, refuse_region_add);
	FILL(region_import, refuse_region_import);
	FILL(region_del, refuse_region_del);
	FILL(event_fd, refuse_event_fd);
	FILL(gate_arm, refuse_gate);
	FILL(gate_take, refuse_gate);
	FILL(post_rx, refuse_post_rx);
	FILL(tx, refuse_tx);
	FILL(poll, refuse_poll);
	FILL(flush, refuse_flush);
	FILL(redirect_rx, refuse_redirect_rx);
	FILL(bound, refuse_bound);
	FILL(listener_fd, refuse_listener_fd);
	FILL(abandon, nothing_to_abandon);
#undef FILL
}

/* One line per transport: this is the list. */
static const struct transport_ops *(*const registry_tables[])(void) = {
	transport_tcp,
	transport_shm,
	transport_verbs,
	transport_loop,
};

static const struct transport_ops *registry_find(const char *scheme, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(registry_tables); i++) {
		const struct transport_ops *ops = registry_tables[i]();

		if (strlen(ops->name) == len && !memcmp(ops->name, scheme, len))
			return ops;
	}
	return NULL;
}

const struct transport_ops *transport_find(const char *scheme)
{
	return scheme ? registry_find(scheme, strlen(scheme)) : NULL;
}

int transport_parse_url(const char *url, const struct transport_ops **ops, const char **address)
{
	const struct transport_ops *found;
	const char *mark;

	if (!url)
		return -EINVAL;
	mark = strstr(url, "://");
	if (!mark || mark == url || !mark[3])
		return -EINVAL;
	found = registry_find(url, (size_t)(mark - url));
	if (!found)
		return -EPROTONOSUPPORT;
	*ops = found;
	*address = mark + 3;
	return 0;
}

unsigned transport_number(const struct transport *t)
{
	static const char *const names[] = { [LARDER_TRANSPORT_TCP] = "tcp",
					     [LARDER_TRANSPORT_SHM] = "shm",
					     [LARDER_TRANSPORT_RDMA] = "rdma" };

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i] && strcmp(names[i], t->ops->name) == 0)
			return i;
	return LARDER_TRANSPORT_OTHER;
}
