/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client without manners: speaks the wire by hand over a blocking socket, so that a test can stop
 * in the middle of anything, lie about lengths, or never read. tcp only, except raw_shm_*, which
 * drives the shm transport's client side for regions that the library would not make.
 */
#ifndef LARDER_TESTS_E2E_RAW_H
#define LARDER_TESTS_E2E_RAW_H

#include <stdbool.h>

#include "harness.h"
#include "wire/encode.h"
#include "wire/wire.h"

struct raw {
	int fd;
	struct wire_welcome welcome;
	struct wire_header header;		/* of the last reply */
	uint8_t body[WIRE_MESSAGE_MAX];
	struct wire_reply reply;		/* decoded; points into body */
};

/* Connects to the node's tcp port; no handshake. */
void raw_connect(struct raw *r, const struct node *n);
/* HELLO and AUTH as tenant "demo" with @secret. The status of the last step. */
int raw_handshake(struct raw *r, const char *tenant, const char *secret);
/* Sends all; false when the peer has closed. */
bool raw_send(struct raw *r, const void *data, size_t len);
/* Reads one reply's header and body (not its payload). False: closed, or nothing within @ms. */
bool raw_reply(struct raw *r, unsigned ms);
/* Reads @len payload bytes. */
bool raw_read(struct raw *r, void *data, size_t len, unsigned ms);
/* True once the node has closed; waits at most @ms. */
bool raw_closed(struct raw *r, unsigned ms);
void raw_close(struct raw *r);

/* Opens (creates) a namespace. */
uint32_t raw_namespace(struct raw *r, const char *name);
/* Message of a PUT without its payload, in @buffer (WIRE_MESSAGE_MAX). Length. */
int raw_put_message(uint8_t *buffer, uint64_t request_id, uint32_t ns, const char *key,
		    const void *value, size_t len);
int raw_get_message(uint8_t *buffer, uint64_t request_id, uint32_t ns, const char *key,
		    uint64_t room);

#endif
