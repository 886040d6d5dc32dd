/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See verify.h. Both walk forward only and keep no more state than where they are, so that a value
 * may arrive in pieces of any size.
 */
#include "client/verify.h"

#include <larder/types.h>

#include "base/check.h"
#include "base/compiler.h"

void iov_start(struct iov_cursor *c, const struct iovec *iov, int n)
{
	*c = (struct iov_cursor){ .iov = iov, .n = n };
}

size_t iov_take(struct iov_cursor *c, size_t max, uint8_t **ret)
{
	size_t take;

	while (c->n > 0 && c->used == c->iov[0].iov_len) {
		c->iov++;
		c->n--;
		c->used = 0;
	}
	if (c->n <= 0 || !max)
		return 0;
	take = MIN(max, c->iov[0].iov_len - c->used);
	*ret = (uint8_t *)c->iov[0].iov_base + c->used;
	c->used += take;
	return take;
}

uint64_t iov_total(const struct iovec *iov, int n)
{
	uint64_t sum = 0;

	for (int i = 0; i < n; i++) {
		if (__builtin_add_overflow(sum, (uint64_t)iov[i].iov_len, &sum))
			return UINT64_MAX;
	}
	return sum;
}

void verify_start(struct verify *v, const uint32_t *checks, uint32_t n_checks, uint64_t length)
{
	*v = (struct verify){
		.checks = checks,
		.n_checks = n_checks,
		.left = length,
		.bad = n_checks != larder_check_count(length),
	};
}

void verify_feed(struct verify *v, const void *data, size_t len)
{
	const uint8_t *at = data;

	while (len && !v->bad) {
		size_t take = MIN(len, (size_t)(LARDER_CHECK_BLOCK - v->in_block));

		if (take > v->left) {
			v->bad = true;
			return;
		}
		v->crc = crc32c(v->crc, at, take);
		v->in_block += (uint32_t)take;
		v->left -= take;
		at += take;
		len -= take;
		if (v->in_block < LARDER_CHECK_BLOCK && v->left)
			continue;
		if (v->crc != v->checks[v->block])
			v->bad = true;
		v->block++;
		v->in_block = 0;
		v->crc = 0;
	}
}

bool verify_good(const struct verify *v)
{
	return !v->bad && !v->left;
}
