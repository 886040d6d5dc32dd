/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking over a scatter list, and comparing check blocks with their CRC-32C as bytes come by.
 *
 * Thread rules: plain values, no sharing.
 */
#ifndef LARDER_CLIENT_VERIFY_H
#define LARDER_CLIENT_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct iov_cursor {
	const struct iovec *iov;
	int n;
	size_t used;	/* of iov[0] */
};

void iov_start(struct iov_cursor *c, const struct iovec *iov, int n);
/* The next piece of at most @max bytes; 0 at the end. */
size_t iov_take(struct iov_cursor *c, size_t max, uint8_t **ret);
/* Sum of the lengths; UINT64_MAX when it overflows. */
uint64_t iov_total(const struct iovec *iov, int n);

struct verify {
	const uint32_t *checks;
	uint32_t n_checks;
	uint32_t block;		/* the one under way */
	uint32_t in_block;
	uint32_t crc;
	uint64_t left;
	bool bad;
};

/* @length bytes that begin at the start of a check block. */
void verify_start(struct verify *v, const uint32_t *checks, uint32_t n_checks, uint64_t length);
void verify_feed(struct verify *v, const void *data, size_t len);
/* All bytes came and none differed. */
bool verify_good(const struct verify *v);

#endif
