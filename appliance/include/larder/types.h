/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of format and wire, and the few types that every layer shares. */
#ifndef LARDER_TYPES_H
#define LARDER_TYPES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Check block: this many bytes of a value share one CRC-32C. Independent of the page. */
#define LARDER_CHECK_BLOCK (256u * 1024u)
#define LARDER_NS_NAME_MAX 128u		/* bytes in a namespace's name, spelled like keys */
#define LARDER_TENANT_NAME_MAX 32u	/* [a-z0-9-]{1,32} */
#define LARDER_DEFAULT_PORT 16180

/* Number of check blocks of @length bytes. */
static inline uint32_t larder_check_count(uint64_t length)
{
	return (uint32_t)((length + LARDER_CHECK_BLOCK - 1) / LARDER_CHECK_BLOCK);
}

/* Pages of the arena that lie next to each other. */
struct larder_run {
	uint32_t page;
	uint32_t count;
};

#ifdef __cplusplus
}
#endif
#endif
