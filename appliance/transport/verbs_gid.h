/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entry of a port's GID table a connection uses. No verbs call in it: the table is handed in.
 *
 * rdma_cm has chosen one from the address that it resolved. It is looked at before it is used,
 * because a wrong one shows only as a connection that never answers: a link-local address is
 * unusable behind a router and often names another port, and RoCE version 1 does not cross one.
 */
#ifndef LARDER_TRANSPORT_VERBS_GID_H
#define LARDER_TRANSPORT_VERBS_GID_H

#include <stddef.h>
#include <stdint.h>

#define VERBS_GID_TEXT 46u	/* an IPv6 address as text */

enum verbs_gid_type {
	VERBS_GID_IB,
	VERBS_GID_ROCE_V1,
	VERBS_GID_ROCE_V2,
};

struct verbs_gid {
	uint32_t index;
	uint8_t type;		/* enum verbs_gid_type */
	uint8_t raw[16];
};

/* "198.51.100.7" for a mapped IPv4 address, else IPv6. */
void verbs_gid_text(const struct verbs_gid *gid, char text[VERBS_GID_TEXT]);
const char *verbs_gid_type_name(uint8_t type);
/* NULL: usable; else why not, as a sentence. */
const char *verbs_gid_fault(const struct verbs_gid *gid);
/* The entry that should be used for the address @raw (16 bytes, IPv4 mapped), or without one
 * (NULL) the best for any. NULL: there is none, and *@ret_why says why. */
const struct verbs_gid *verbs_gid_choose(const struct verbs_gid *table, size_t n,
					 const uint8_t *raw, const char **ret_why);

#endif
