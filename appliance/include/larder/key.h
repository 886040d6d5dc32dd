/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys as text: one reversible, canonical spelling for tools, logs and the file view.
 *
 * A key is 1 to 1024 opaque bytes. If all its bytes are 0x20 to 0x7E it is spelled as text: bytes
 * outside [A-Za-z0-9._=@+-], and a leading '.', become %XX in upper case. Any other key is spelled
 * "~x" and lower-case hexadecimal. Where the result is longer than 255 bytes, the short name "~h"
 * and 32 hexadecimal digits of XXH3-128(key) stands for it too. '~' itself is outside the plain
 * set, so a key that begins with it is spelled %7E and the three forms never collide. Only the
 * canonical form parses: "%61" or "%2f" is refused.
 *
 * Thread rules: pure functions, any thread.
 */
#ifndef LARDER_KEY_H
#define LARDER_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LARDER_KEY_MAX 1024u		/* bytes in a key */
#define LARDER_KEY_HASH_SIZE 16u /* bytes of XXH3-128(key), big endian as its canonical form */
#define LARDER_KEY_NAME_MAX 255u	/* longest spelling that a directory entry takes */
#define LARDER_KEY_TEXT_SIZE (3u * LARDER_KEY_MAX + 1u) /* room for any spelling, NUL included */

/*
 * Spells @key (1 to LARDER_KEY_MAX bytes) into @text, NUL-terminated. @text_size should be
 * LARDER_KEY_TEXT_SIZE. Returns the length without the NUL, -EINVAL for a bad key length,
 * -ENOBUFS when it does not fit.
 */
int larder_key_format(const void *key, size_t key_len, char *text, size_t text_size);

/* As larder_key_format, but gives the "~h" name where the spelling exceeds LARDER_KEY_NAME_MAX. */
int larder_key_format_name(const void *key, size_t key_len, char *name, size_t name_size);

/*
 * Parses a spelling. On success returns the number of bytes stored in @key (room for
 * LARDER_KEY_MAX) and sets *@is_hash: true when @text was a "~h" name and @key holds the 16 bytes
 * of the hash. -EINVAL for anything that is not canonical.
 */
int larder_key_parse(const char *text, void *key, size_t key_size, bool *is_hash);

/* XXH3-128(key) in canonical (big-endian) order. */
void larder_key_hash(const void *key, size_t key_len, uint8_t hash[LARDER_KEY_HASH_SIZE]);

#ifdef __cplusplus
}
#endif
#endif
