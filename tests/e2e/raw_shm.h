/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shm transport's client side, driven by hand: for regions that the client library would never
 * make (holes, hugepages without a pool, no seals).
 */
#ifndef LARDER_TESTS_E2E_RAW_SHM_H
#define LARDER_TESTS_E2E_RAW_SHM_H

#include "harness.h"
#include "transport/transport.h"
#include "wire/encode.h"
#include "wire/wire.h"

struct raw_shm {
	struct transport *transport;
	struct transport_conn *conn;
	bool up, down;
	uint8_t message[WIRE_MESSAGE_MAX];
	uint8_t rx[4][WIRE_MESSAGE_MAX];
	struct wire_header header;
	struct wire_reply reply;
	uint8_t body[WIRE_MESSAGE_MAX];
};

void raw_shm_open(struct raw_shm *r, const struct node *n);
/* Sends what is in r->message and waits for a reply; false: the connection is down. */
bool raw_shm_call(struct raw_shm *r, int len, unsigned ms);
/* Announces [addr, addr+size) of memfd @fd as region @number. Status of REGION_ADD, or
 * DISCONNECTED. */
int raw_shm_region(struct raw_shm *r, uint32_t number, void *addr, size_t size, int fd);
/* GET of a whole object into @region at 0. Status, or DISCONNECTED. */
int raw_shm_get(struct raw_shm *r, uint32_t ns, const char *key, uint32_t region, size_t room);
void raw_shm_close(struct raw_shm *r);

#endif
