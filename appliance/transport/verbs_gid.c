/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs_gid.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

static bool gid_is_zero(const struct verbs_gid *gid)
{
	static const uint8_t zero[16];

	return memcmp(gid->raw, zero, sizeof(zero)) == 0;
}

static bool gid_is_link_local(const struct verbs_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

static bool gid_is_v4(const struct verbs_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

void verbs_gid_text(const struct verbs_gid *gid, char text[VERBS_GID_TEXT])
{
	const char *r = gid_is_v4(gid) ? inet_ntop(AF_INET, gid->raw + 12, text, VERBS_GID_TEXT) :
					 inet_ntop(AF_INET6, gid->raw, text, VERBS_GID_TEXT);

	if (!r)
		strcpy(text, "?");	/* can't be: the text is long enough */
}

const char *verbs_gid_type_name(uint8_t type)
{
	switch (type) {
	case VERBS_GID_IB:
		return "InfiniBand";
	case VERBS_GID_ROCE_V1:
		return "RoCE v1";
	case VERBS_GID_ROCE_V2:
		return "RoCE v2";
	default:
		return "?";
	}
}

const char *verbs_gid_fault(const struct verbs_gid *gid)
{
	if (gid_is_zero(gid))
		return "the entry is empty";
	if (gid->type == VERBS_GID_IB)
		return NULL;	/* a subnet's own addresses begin with fe80:: by default */
	if (gid_is_link_local(gid))
		return "it is link-local: give the interface an address and name that one";
	if (gid->type == VERBS_GID_ROCE_V1)
		return "it is RoCE v1, which no router forwards: use RoCE v2";
	return NULL;
}

static int gid_rank(const struct verbs_gid *gid)
{
	return gid_is_v4(gid) ? 2 : 1;
}

const struct verbs_gid *verbs_gid_choose(const struct verbs_gid *table, size_t n,
					 const uint8_t *raw, const char **ret_why)
{
	const struct verbs_gid *best = NULL;

	*ret_why = raw ? "no entry of the port's GID table has that address" :
			 "the port's GID table is empty";
	for (size_t i = 0; i < n; i++) {
		const struct verbs_gid *gid = &table[i];
		const char *fault = verbs_gid_fault(gid);

		if (raw && memcmp(gid->raw, raw, sizeof(gid->raw)) != 0)
			continue;
		if (fault) {
			*ret_why = fault;
			continue;
		}
		if (!best || gid_rank(gid) > gid_rank(best))
			best = gid;
	}
	return best;
}
