/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to socket addresses and back. The last colon outside brackets divides host and port; an
 * IPv6 host needs its brackets, so that "::1:16180" is refused rather than guessed at.
 */
#include "transport/tcp_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TCP_HOST_MAX 256u

struct tcp_split {
	char host[TCP_HOST_MAX];
	bool bracketed;
	uint16_t port;
};

static int tcp_parse_port(const char *text, uint16_t *ret)
{
	unsigned port = 0;

	if (!*text || strlen(text) > 5)
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		port = port * 10 + (unsigned)(*text - '0');
	}
	if (port > UINT16_MAX)
		return -EINVAL;
	*ret = (uint16_t)port;
	return 0;
}

static int tcp_split(const char *text, struct tcp_split *ret)
{
	const char *host = text, *end, *port;
	size_t len;

	if (!text)
		return -EINVAL;
	ret->bracketed = *text == '[';
	if (ret->bracketed) {
		host = text + 1;
		end = strchr(host, ']');
		if (!end || end[1] != ':')
			return -EINVAL;
		port = end + 2;
	} else {
		end = strchr(host, ':');
		if (!end || strchr(end + 1, ':'))
			return -EINVAL;
		port = end + 1;
	}
	len = (size_t)(end - host);
	if (!len || len >= sizeof(ret->host))
		return -EINVAL;
	memcpy(ret->host, host, len);
	ret->host[len] = '\0';
	return tcp_parse_port(port, &ret->port);
}

static int tcp_scope(const char *text, uint32_t *ret)
{
	unsigned index = if_nametoindex(text);
	uint16_t number;

	if (!index && tcp_parse_port(text, &number) == 0)
		index = number;
	if (!index)
		return -EINVAL;
	*ret = index;
	return 0;
}

/* Host as a number, without asking anybody. 0 or -EINVAL. */
static int tcp_numeric(struct tcp_split *split, struct tcp_address *ret)
{
	struct tcp_address a = { .len = 0 };
	char *scope;

	if (!split->bracketed) {
		a.sa.v4.sin_family = AF_INET;
		a.sa.v4.sin_port = htons(split->port);
		a.len = sizeof(a.sa.v4);
		if (inet_pton(AF_INET, split->host, &a.sa.v4.sin_addr) != 1)
			return -EINVAL;
		*ret = a;
		return 0;
	}
	a.sa.v6.sin6_family = AF_INET6;
	a.sa.v6.sin6_port = htons(split->port);
	a.len = sizeof(a.sa.v6);
	scope = strchr(split->host, '%');
	if (scope) {
		*scope++ = '\0';
		if (tcp_scope(scope, &a.sa.v6.sin6_scope_id) < 0)
			return -EINVAL;
	}
	if (inet_pton(AF_INET6, split->host, &a.sa.v6.sin6_addr) != 1)
		return -EINVAL;
	*ret = a;
	return 0;
}

int tcp_address_parse(const char *text, struct tcp_address *ret)
{
	struct tcp_split split;
	int r = tcp_split(text, &split);

	return r < 0 ? r : tcp_numeric(&split, ret);
}

static int tcp_resolve_errno(int code)
{
	switch (code) {
	case EAI_SYSTEM:
		return errno ? -errno : -EIO;
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_AGAIN:
		return -EAGAIN;
	default:
		return -EHOSTUNREACH;
	}
}

static int tcp_lookup(const struct tcp_split *split, struct tcp_addresses *ret)
{
	struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_protocol = IPPROTO_TCP,
	};
	struct addrinfo *list = NULL;
	int code = getaddrinfo(split->host, NULL, &hints, &list);

	if (code)
		return tcp_resolve_errno(code);
	for (const struct addrinfo *ai = list; ai && ret->n < TCP_ADDRESSES; ai = ai->ai_next) {
		struct tcp_address *a = &ret->a[ret->n];

		if (ai->ai_addrlen > sizeof(a->sa))
			continue;
		memcpy(&a->sa, ai->ai_addr, ai->ai_addrlen);
		a->len = ai->ai_addrlen;
		if (ai->ai_family == AF_INET)
			a->sa.v4.sin_port = htons(split->port);
		else if (ai->ai_family == AF_INET6)
			a->sa.v6.sin6_port = htons(split->port);
		else
			continue;
		ret->n++;
	}
	freeaddrinfo(list);
	return ret->n ? 0 : -EHOSTUNREACH;
}

int tcp_address_resolve(const char *text, struct tcp_addresses *ret)
{
	struct tcp_addresses found = { .n = 0 };
	struct tcp_split split;
	int r = tcp_split(text, &split);

	if (r < 0)
		return r;
	if (!split.port)
		return -EINVAL;
	if (tcp_numeric(&split, &found.a[0]) == 0) {
		found.n = 1;
	} else {
		if (split.bracketed)
			return -EINVAL;
		r = tcp_lookup(&split, &found);
		if (r < 0)
			return r;
	}
	*ret = found;
	return 0;
}

int tcp_address_format(const struct tcp_address *address, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN], scope[16] = "", whole[INET6_ADDRSTRLEN + 32];
	const void *in;
	uint16_t port;
	bool v6;
	int r;

	switch (address->sa.any.sa_family) {
	case AF_INET:
		v6 = false;
		in = &address->sa.v4.sin_addr;
		port = ntohs(address->sa.v4.sin_port);
		break;
	case AF_INET6:
		v6 = true;
		in = &address->sa.v6.sin6_addr;
		port = ntohs(address->sa.v6.sin6_port);
		if (address->sa.v6.sin6_scope_id)
			snprintf(scope, sizeof(scope), "%%%u", address->sa.v6.sin6_scope_id);
		break;
	default:
		return -EAFNOSUPPORT;
	}
	if (!inet_ntop(v6 ? AF_INET6 : AF_INET, in, host, sizeof(host)))
		return -errno;
	r = snprintf(whole, sizeof(whole), v6 ? "[%s%s]:%u" : "%s%s:%u", host, scope, port);
	if (r < 0 || (size_t)r >= size)
		return -ENOSPC;
	memcpy(text, whole, (size_t)r + 1);
	return 0;
}

bool tcp_address_equal(const struct tcp_address *a, const struct tcp_address *b)
{
	if (a->sa.any.sa_family != b->sa.any.sa_family)
		return false;
	if (a->sa.any.sa_family == AF_INET)
		return a->sa.v4.sin_port == b->sa.v4.sin_port &&
		       a->sa.v4.sin_addr.s_addr == b->sa.v4.sin_addr.s_addr;
	return a->sa.v6.sin6_port == b->sa.v6.sin6_port &&
	       !memcmp(&a->sa.v6.sin6_addr, &b->sa.v6.sin6_addr, sizeof(a->sa.v6.sin6_addr));
}
