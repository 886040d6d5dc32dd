/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256 over the transcript of a handshake (OpenSSL). RFC 2104, FIPS 180-4. */
#ifndef LARDER_WIRE_MAC_H
#define LARDER_WIRE_MAC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire/wire.h"

#define MAC_LABEL_CLIENT "larder client"
#define MAC_LABEL_NODE "larder node"

/* @parts in order. 0 or -EIO. */
int mac_compute(const void *secret, size_t secret_len, const char *label,
		const struct iovec *parts, int n_parts, uint8_t mac[WIRE_MAC_SIZE]);
/* Constant time. 1 = equal. */
int mac_equal(const uint8_t a[WIRE_MAC_SIZE], const uint8_t b[WIRE_MAC_SIZE]);

#endif
