/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs: what they may say, and what larder:// stands for.
 *
 * A url that can reach nobody is refused when the handle is opened, with a sentence that names it;
 * whether somebody is there is found out later, by every attempt to connect. A port names one
 * listener among all that a host may have, so larder:// with a port is tcp to that port. Without
 * one it is the host's default node: on this host that is the one behind the default socket, where
 * there is one, and otherwise the default port.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/handle.h"

#define URL_SOCKET "/run/larder/larder.sock"
#define URL_PORT "16180"
#define URL_PORT_MAX 65535u
#define URL_PORT_DIGITS 5u

struct url_host {
	char name[CORE_URL_SIZE];	/* without brackets */
	bool bracketed;
	const char *port;		/* NULL: none was given */
};

static bool url_is_port(const char *text)
{
	size_t len = strlen(text);
	unsigned long port;

	if (!len || len > URL_PORT_DIGITS || strspn(text, "0123456789") != len)
		return false;
	port = strtoul(text, NULL, 10);
	return port >= 1 && port <= URL_PORT_MAX;
}

/* "host", "host:port", "[v6]", "[v6]:port". NULL, or what is wrong with it. */
static const char *url_split(const char *address, struct url_host *ret)
{
	const char *from = address, *end;
	size_t len;

	ret->bracketed = address[0] == '[';
	if (ret->bracketed) {
		from = address + 1;
		end = strchr(from, ']');
		if (!end || (end[1] && end[1] != ':'))
			return "an address in brackets ends with ']', then perhaps ':' and a port";
		len = (size_t)(end - from);
		end++;
	} else {
		len = strcspn(from, ":");
		end = from + len;
		if (*end && strchr(end + 1, ':'))
			return "an IPv6 address needs brackets";
	}
	if (!len)
		return "there is no host in it";
	if (len >= sizeof(ret->name))
		return "its host is too long";
	memcpy(ret->name, from, len);
	ret->name[len] = 0;
	if (strpbrk(ret->name, "/ \t"))
		return "a host has no '/' and no blank";
	ret->port = *end ? end + 1 : NULL;
	if (ret->port && !url_is_port(ret->port))
		return "a port is a number from 1 to 65535";
	return NULL;
}

static bool url_is_loopback(const struct url_host *h)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (h->bracketed)
		return inet_pton(AF_INET6, h->name, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
	if (inet_pton(AF_INET, h->name, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
	return !strcasecmp(h->name, "localhost");
}

static int url_refuse(const char *url, const char *why)
{
	return handle_refuse("%.100s: %s", url, why);
}

static int url_add(struct core *core, const char *url, const char *scheme, const char *address)
{
	struct target *t = &core->targets[core->n_targets];
	const char *port = "", *fault;
	struct url_host h;
	int n;

	if (!strcmp(scheme, "tcp") || !strcmp(scheme, "rdma")) {
		fault = url_split(address, &h);
		if (fault)
			return url_refuse(url, fault);
		if (!h.port)
			port = ":" URL_PORT;
	}
	if (!address[0])
		return url_refuse(url, "there is no address in it");
	n = snprintf(t->url, sizeof(t->url), "%s://%s%s", scheme, address, port);
	if (n < 0 || (size_t)n >= sizeof(t->url))
		return url_refuse(url, "it is too long");
	n = transport_parse_url(t->url, &t->ops, &t->address);
	if (n < 0) {
		(void)url_refuse(url, n == -EPROTONOSUPPORT ? "there is no transport of that name"
							    : "it makes no sense");
		return n;
	}
	core->n_targets++;
	return 0;
}

/* larder://: what reaches the node with the fewest copies, first. */
static int url_pick(struct core *core, const char *url, const char *rest, bool viewer)
{
	struct url_host h;
	const char *fault;
	bool local;
	int r;

	if (rest[0] == '/')
		return url_add(core, url, "shm", rest);
	fault = url_split(rest, &h);
	if (fault)
		return url_refuse(url, fault);
	local = !h.port && url_is_loopback(&h);
	if (viewer && !local)
		return url_refuse(url, "a viewer needs shared memory: this host, and no port");
	if (local) {
		r = url_add(core, url, "shm", URL_SOCKET);
		if (viewer || (r < 0 && r != -EPROTONOSUPPORT))
			return r;
	}
	return url_add(core, url, "tcp", rest);
}

int url_parse(struct core *core, const struct larder_client_options *o)
{
	char scheme[16];
	const char *mark;
	size_t len;

	if (!o->url)
		return handle_refuse("there is no url");
	mark = strstr(o->url, "://");
	len = mark ? (size_t)(mark - o->url) : 0;
	if (!len || len >= sizeof(scheme))
		return url_refuse(o->url, "a url is larder://HOST, tcp://HOST:PORT, "
				  "rdma://HOST:PORT or shm://PATH");
	memcpy(scheme, o->url, len);
	scheme[len] = 0;
	if (!strcmp(scheme, "larder"))
		return url_pick(core, o->url, mark + 3, o->flags & LARDER_OPEN_VIEWER);
	return url_add(core, o->url, scheme, mark + 3);
}
