/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of the tcp transport: "host:port", "198.51.100.7:16180", "[2001:db8::1]:16180".
 * Only numbers are taken where a call must not block; a name is resolved by connect alone.
 */
#ifndef LARDER_TRANSPORT_TCP_ADDRESS_H
#define LARDER_TRANSPORT_TCP_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define TCP_ADDRESSES 6u	/* of one name; the rest is not tried */

union tcp_sockaddr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct tcp_address {
	union tcp_sockaddr sa;
	socklen_t len;
};

struct tcp_addresses {
	unsigned n;
	unsigned next;		/* to try */
	struct tcp_address a[TCP_ADDRESSES];
};

/* An address to listen on: numbers only, port 0 allowed. 0 or -EINVAL. */
int tcp_address_parse(const char *text, struct tcp_address *ret);
/* Addresses to connect to. Blocks when @text holds a name. 0, -EINVAL, -EHOSTUNREACH (no such
 * name), -EAGAIN (no answer), -ENOMEM, -errno. */
int tcp_address_resolve(const char *text, struct tcp_addresses *ret);
/* "198.51.100.7:4711", "[2001:db8::1]:4711". 0, -ENOSPC, -EAFNOSUPPORT. */
int tcp_address_format(const struct tcp_address *address, char *text, size_t size);
bool tcp_address_equal(const struct tcp_address *a, const struct tcp_address *b);

#endif
