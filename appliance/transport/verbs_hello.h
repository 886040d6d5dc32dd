/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two ends tell each other while rdma_cm connects them: private data, little-endian. The
 * client says it with its request; the node with its answer, or with its refusal. The session's own
 * HELLO follows on the connection, as everywhere.
 */
#ifndef LARDER_TRANSPORT_VERBS_HELLO_H
#define LARDER_TRANSPORT_VERBS_HELLO_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define VERBS_HELLO_MAGIC 0x5652414cu	/* "LARV" */
#define VERBS_HELLO_VERSION 1u

enum verbs_refusal {
	VERBS_REFUSED_VERSION = 1,
	VERBS_REFUSED_FULL,	/* no connection left */
	VERBS_REFUSED_RECEIVES,	/* no receives left to set aside */
	VERBS_REFUSED_DEVICE,	/* the node's device, or its address, is not usable */
};

struct verbs_hello {
	uint32_t magic;
	uint8_t version;
	uint8_t refusal;	/* enum verbs_refusal; 0 with the others */
	uint16_t window;	/* messages that the other end may send */
	uint16_t wanted;	/* request: messages that the client would like to send */
	uint16_t reserved;	/* 0 */
	uint32_t max_message;
};
static_assert(sizeof(struct verbs_hello) == 16, "wire");

void verbs_hello_make(struct verbs_hello *h, uint32_t window, uint32_t wanted,
		      uint32_t max_message);
void verbs_hello_refuse(struct verbs_hello *h, enum verbs_refusal why);
/* rdma_cm may have padded it. 0, -EPROTO: no hello of ours, -EPROTONOSUPPORT: of another version
 * (*ret is filled). */
int verbs_hello_parse(const void *data, size_t len, struct verbs_hello *ret);
const char *verbs_refusal_text(uint8_t refusal);
int verbs_refusal_errno(uint8_t refusal);

#endif
