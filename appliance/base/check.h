/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of values and keys: CRC-32C (Castagnoli, RFC 3720 B.4 parameters: reflected, initial and
 * final inversion; isa-l) and XXH3 digests (xxhash).
 */
#ifndef LARDER_BASE_CHECK_H
#define LARDER_BASE_CHECK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* CRC-32C of more data: start with crc = 0; crc32c("123456789") is 0xE3069283. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);
/* CRC-32C of a concatenation, from the CRC of both parts and the length of the second. */
uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b);
/* XXH3-64 of a key, seeded with its namespace's descriptor digest. */
uint64_t key_digest(uint64_t descriptor_digest, const void *key, size_t key_len);
/* Low 64 bits of XXH3-128(key): what "~h" look-ups and the index start from. */
uint64_t key_hash64(const void *key, size_t key_len);

/*
 * Checks of a value that arrives piece by piece, in order. Feed it; each time a check block is
 * complete (or the value ends) its CRC is stored to out[] (room for larder_check_count(length)).
 */
struct check_stream {
	uint32_t *out;
	uint64_t length;	/* of the whole value */
	uint64_t seen;
	uint32_t crc;
	uint32_t n_out;
};
void check_stream_init(struct check_stream *s, uint64_t length, uint32_t *out);
void check_stream_feed(struct check_stream *s, const void *data, size_t len);

#endif
