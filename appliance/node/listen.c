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
#include <fcntl.h>
#include <stdio.h>
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

/* Which transport, which address in it, and what is spoken there: "tcp://" and its like are native,
 * "resp://" is RESP over tcp, "resp+loop://" over another byte stream. */
static int listen_parse(const char *url, const struct transport_ops **ops, const char **address,
			const struct node_codec **codec)
{
	int r;

	*codec = &node_codec_native;
	if (strncmp(url, "resp://", 7) == 0) {
		*codec = &node_codec_resp;
		*ops = transport_find("tcp");
		*address = url + 7;
		return *ops ? 0 : -EPROTONOSUPPORT;
	}
	if (strncmp(url, "resp+", 5) == 0) {
		*codec = &node_codec_resp;
		url += 5;
	}
	r = transport_parse_url(url, ops, address);
	if (r == 0 && *codec == &node_codec_resp && ((*ops)->caps & TRANSPORT_MESSAGE))
		r = -EPROTONOSUPPORT;	/* it needs a byte stream */
	return r;
}

/* Listens on a duplicate of @fd. */
static int listen_copy(struct transport *t, int fd)
{
	_cleanup_close_ int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	int r = copy < 0 ? -errno : t->ops->listen_fd(t, copy);

	if (r == 0)
		copy = -1;	/* the transport's now */
	return r;
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
	int r = listen_open(n, first->ops, &t);

	if (r < 0)
		return r;
	r = listen_copy(t, fd);
	if (r < 0) {
		t->ops->close(t);
		return r;
	}
	*ret = t;
	return 0;
}

/* @fd: a socket that listens already, -1: listens on @address. */
static int listen_all(struct larder_node *n, const struct transport_ops *ops, const char *address,
		      int fd, struct transport **made, uint32_t *n_made)
{
	int r = listen_open(n, ops, &made[0]);

	if (r < 0)
		return r;
	*n_made = 1;
	r = fd < 0 ? made[0]->ops->listen(made[0], address) : listen_copy(made[0], fd);
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

static void listen_note_port(struct larder_node *n, struct transport *t,
			     const struct node_codec *codec)
{
	int *port = codec == &node_codec_resp ? &n->resp_port : &n->port;
	char text[TRANSPORT_ADDR_TEXT];
	const char *colon;

	if (*port || strcmp(t->ops->name, "tcp") != 0 || t->ops->bound(t, text, sizeof(text)) < 0)
		return;
	colon = strrchr(text, ':');
	if (colon)
		*port = (int)strtol(colon + 1, NULL, 10);
}

LARDER_PUBLIC int larder_node_listen_check(const char *url, const char **ret_why)
{
	const struct transport_ops *ops = NULL;
	const struct node_codec *codec = NULL;
	const char *address = NULL;
	struct tcp_address tcp;
	int r = listen_parse(url, &ops, &address, &codec);

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

static int listen_on(struct larder_node *n, const char *url, int fd)
{
	const struct transport_ops *ops = NULL;
	const struct node_codec *codec = NULL;
	const char *address = NULL;
	struct transport *made[64] = { NULL };
	uint32_t n_made = 0, adopted = 0;
	int r = listen_parse(url, &ops, &address, &codec);

	if (r == 0 && __atomic_load_n(&n->reactors[0].n_transports, __ATOMIC_RELAXED) ==
			      NODE_LISTENERS_MAX)
		r = -ENOSPC;
	if (r == 0)
		r = listen_all(n, ops, address, fd, made, &n_made);
	if (r == 0)
		listen_note_port(n, made[0], codec);
	while (r == 0 && adopted < n_made) {
		r = node_reactor_adopt(&n->reactors[adopted], made[adopted], codec);
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

LARDER_PUBLIC int larder_node_listen(struct larder_node *n, const char *url)
{
	return listen_on(n, url, -1);
}

LARDER_PUBLIC int larder_node_listen_fd(struct larder_node *n, const char *scheme, int fd)
{
	char url[32];

	if (fd < 0 || snprintf(url, sizeof(url), "%s://", scheme) >= (int)sizeof(url))
		return -EINVAL;
	return listen_on(n, url, fd);
}

LARDER_PUBLIC int larder_node_port(const struct larder_node *n)
{
	return n->port;
}

LARDER_PUBLIC int larder_node_resp_port(const struct larder_node *n)
{
	return n->resp_port;
}
