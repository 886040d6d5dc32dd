/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C and XXH3. isa-l's crc32_iscsi is the bare remainder: the inversions before and after are
 * made here, and lengths are cut to what its int takes.
 *
 * Combining: appending n bytes to a message multiplies its remainder by x^(8n) modulo the
 * polynomial. In the reflected order used here bit 31 is x^0. The order of x modulo this
 * polynomial is 2^31 - 1, so x^(2^k) repeats after k = 31 and one short table of them reaches any
 * 64-bit length; a check block (2^18 bytes) costs a single multiplication.
 */
#include <isa-l/crc.h>
#include <xxhash.h>

#include <larder/types.h>

#include "base/check.h"
#include "base/compiler.h"

#define CHECK_POLY 0x82f63b78u		/* reflected */
#define CHECK_ONE 0x80000000u		/* x^0 */
#define CHECK_CHUNK (1u << 30)

static const uint32_t check_x_powers[31] = {	/* x^(2^k) */
	0x40000000, 0x20000000, 0x08000000, 0x00800000, 0x00008000, 0x82f63b78,
	0x6ea2d55c, 0x18b8ea18, 0x510ac59a, 0xb82be955, 0xb8fdb1e7, 0x88e56f72,
	0x74c360a4, 0xe4172b16, 0x0d65762a, 0x35d73a62, 0x28461564, 0xbf455269,
	0xe2ea32dc, 0xfe7740e6, 0xf946610b, 0x3c204f8f, 0x538586e3, 0x59726915,
	0x734d5309, 0xbc1ac763, 0x7d0722cc, 0xd289cabe, 0xe94ca9bc, 0x05b74f3f,
	0xa51e1f42,
};

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
	/* isa-l reads only; its prototype forgot const */
	unsigned char *at = (unsigned char *)(uintptr_t)data;

	crc = ~crc;
	while (len > 0) {
		size_t n = MIN(len, (size_t)CHECK_CHUNK);

		crc = crc32_iscsi(at, (int)n, crc);
		at += n;
		len -= n;
	}
	return ~crc;
}

/* a * b modulo the polynomial. */
static uint32_t check_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = CHECK_ONE; a; bit >>= 1) {
		if (a & bit) {
			product ^= b;
			a ^= bit;
		}
		b = (b >> 1) ^ (b & 1 ? CHECK_POLY : 0);
	}
	return product;
}

uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b)
{
	/* The inversions of both parts cancel: the initial value is the final one. */
	for (unsigned k = 3; len_b; k++, len_b >>= 1) {	/* bytes to bits: 2^3 */
		uint32_t power = check_x_powers[k % ARRAY_SIZE(check_x_powers)];

		if (len_b & 1)
			crc_a = check_multiply(power, crc_a);
	}
	return crc_a ^ crc_b;
}

uint64_t key_digest(uint64_t descriptor_digest, const void *key, size_t key_len)
{
	return XXH3_64bits_withSeed(key, key_len, descriptor_digest);
}

uint64_t key_hash64(const void *key, size_t key_len)
{
	return XXH3_128bits(key, key_len).low64;
}

void check_stream_init(struct check_stream *s, uint64_t length, uint32_t *out)
{
	*s = (struct check_stream){ .out = out, .length = length };
}

void check_stream_feed(struct check_stream *s, const void *data, size_t len)
{
	const uint8_t *at = data;

	/* out[] has room for the value and not for more, whatever a caller feeds */
	len = (size_t)MIN((uint64_t)len, s->length - s->seen);
	while (len > 0) {
		uint64_t left = LARDER_CHECK_BLOCK - s->seen % LARDER_CHECK_BLOCK;
		size_t n = (size_t)MIN((uint64_t)len, left);

		s->crc = crc32c(s->crc, at, n);
		s->seen += n;
		at += n;
		len -= n;
		if (n == left || s->seen == s->length) {
			s->out[s->n_out++] = s->crc;
			s->crc = 0;
		}
	}
}
