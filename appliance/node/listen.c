/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening: one transport for each reactor and URL. Reactor 0 binds; the others take a duplicate
 * of its listening socket where the transport has one (the kernel then spreads the connections),
 * else they have no part in that URL.
 *
 * All transports of a URL listen before any reactor is given one, so a failure leaves nothing.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/compiler.h"
#include "mem/memory.h"
#include "node/codec.h"
#include "node/node.h"
#include "transport/tcp_address.h"

static int listen_open(struct larder_node *n, const struct transport_ops *ops,
		       struct transport **ret)
{
	struct transport_config tc = {
		.clock = &n->clock,
		.log = &n->log,
		.max_conns = n->config.max_connections,
		.max_region_bytes = n->config.max_region_bytes,
		.max_regions = n->config.max_regions,
		.memory = arena_base(n->config.memory->arena),
		.memory_bytes = (uint64_t)arena_pages(n->config.memory->arena) * n->page_size,
	};

	return ops->open(&tc, ret);
}

/* A further reactor on the socket of the first. 1 = the transport has no socket to share. */
static int listen_share(struct larder_node *n, struct transport *first, struct transport **ret)
{
	struct transport *t = NULL;
	int fd = first->ops->listener_fd(first);

	if (fd == -EOPNOTSUPP)
		return 1;
	if (fd < 0)
		return fd;
	_cleanup_close_ int copy = dup(fd);

	if (copy < 0)
		return -errno;
	int r = listen_open(n, first->ops, &t);

	if (r < 0)
		return r;
	r = t->ops->listen_fd(t, copy);
	if (r < 0) {
		t->ops->close(t);
		return r;
	}
	copy = -1;	/* the transport's now */
	*ret = t;
	return 0;
}

static int listen_all(struct larder_node *n, const struct transport_ops *ops, const char *address,
		      struct transport **made, uint32_t *n_made)
{
	int r = listen_open(n, ops, &made[0]);

	if (r < 0)
		return r;
	*n_made = 1;
	r = made[0]->ops->listen(made[0], address);
	if (r < 0)
		return r;
	for (uint32_t i = 1; i < n->config.reactors; i++) {
		r = listen_share(n, made[0], &made[i]);
		if (r != 0)
			return r < 0 ? r : 0;
		*n_made = i + 1;
	}
	return 0;
}

static void listen_note_port(struct larder_node *n, struct transport *t, const char *scheme)
{
	char text[TRANSPORT_ADDR_TEXT];
	const char *colon;

	if (n->port || strcmp(scheme, "tcp") != 0 || t->ops->bound(t, text, sizeof(text)) < 0)
		return;
	colon = strrchr(text, ':');
	if (colon)
		n->port = (int)strtol(colon + 1, NULL, 10);
}

LARDER_PUBLIC int larder_node_listen_check(const char *url, const char **ret_why)
{
	const struct transport_ops *ops = NULL;
	const char *address = NULL;
	struct tcp_address tcp;
	int r = transport_parse_url(url, &ops, &address);

	*ret_why = "no such transport";
	if (r < 0)
		return r;
	*ret_why = "an address is a number and a port: 192.0.2.1:16180 or [2001:db8::1]:16180";
	if (strcmp(ops->name, "tcp") == 0 || strcmp(ops->name, "rdma") == 0)
		return tcp_address_parse(address, &tcp);
	*ret_why = "the path of a unix socket has 1 to 107 bytes";
	static_assert(sizeof(((struct sockaddr_un *)0)->sun_path) == 108, "as the sentence says");
	if (strcmp(ops->name, "shm") == 0 &&
	    strlen(address) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return -ENAMETOOLONG;
	return address[0] ? 0 : -EINVAL;
}

LARDER_PUBLIC int larder_node_listen(struct larder_node *n, const char *url)
{
	const struct transport_ops *ops = NULL;
	const char *address = NULL;
	struct transport *made[64] = { NULL };
	uint32_t n_made = 0, adopted = 0;
	int r = transport_parse_url(url, &ops, &address);

	if (r == 0 && __atomic_load_n(&n->reactors[0].n_transports, __ATOMIC_RELAXED) ==
			      NODE_LISTENERS_MAX)
		r = -ENOSPC;
	if (r == 0)
		r = listen_all(n, ops, address, made, &n_made);
	if (r == 0)
		listen_note_port(n, made[0], ops->name);
	while (r == 0 && adopted < n_made) {
		r = node_reactor_adopt(&n->reactors[adopted], made[adopted],
				       &node_codec_native);
		if (r == 0)
			adopted++;
	}
	if (r < 0) {
		for (uint32_t i = adopted; i < n_made; i++)
			made[i]->ops->close(made[i]);
		log_err(&n->log, "can not listen on %s: %s", url,
			r == -EPROTONOSUPPORT ? "no such transport" : strerror(-r));
		return r;
	}
	log_debug(&n->log, "listening on %s", url);
	return 0;
}

LARDER_PUBLIC int larder_node_port(const struct larder_node *n)
{
	return n->port;
}
