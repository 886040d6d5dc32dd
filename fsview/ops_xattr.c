/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes: what the node knows of an object beyond its size and time. */
#include "ops.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define XATTR_PREFIX "user.larder."
#define XATTR_SIZE LARDER_KEY_TEXT_SIZE		/* the longest value is a key */

static const char *const xattr_object[] = {
	"tenant", "namespace", "key", "crc32c", "hits", "age_ms", "lease_ms", "pins", "tier",
	"runs", NULL,
};
static const char *const xattr_directory[] = { "bytes", "objects", NULL };
static const char *const xattr_none[] = { NULL };

static const char *const *xattr_names(const struct view_place *p)
{
	switch (p->node.kind) {
	case TREE_OBJECT:
		return xattr_object;
	case TREE_STATUS:
		return xattr_none;
	default:
		return xattr_directory;
	}
}

static bool xattr_known(const char *const *names, const char *name)
{
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

/* Sums of all namespaces below. */
static int xattr_directory_value(struct view *v, const struct view_place *p, const char *name,
				 char *text)
{
	uint64_t bytes = 0, objects = 0;
	struct space space;
	int r = view_list(v, VIEW_LIST_AGAIN_MS);

	if (r)
		return r;
	for (uint32_t i = 0; !spaces_next_space(v->spaces, UINT32_MAX, &i, &space); i++) {
		if (p->node.kind == TREE_TENANT && space.tenant != p->node.index)
			continue;
		if (p->node.kind == TREE_SPACE && space.index != p->node.index)
			continue;
		bytes += space.bytes;
		objects += space.objects;
	}
	return sprintf(text, "%" PRIu64, !strcmp(name, "bytes") ? bytes : objects);
}

static int xattr_object_value(struct view *v, const struct view_place *p, const char *name,
			      char *text)
{
	struct larder_stat st;
	struct tree_key key;
	int r = ops_node(v, p, &key, &st);

	if (r)
		return r;
	if (!strcmp(name, "tenant"))
		return sprintf(text, "%s", p->tenant.name);
	if (!strcmp(name, "namespace")) {
		const char *bytes = strchr(p->space.listed, ':') + 1;

		return larder_key_format(bytes, strlen(bytes), text, XATTR_SIZE);
	}
	if (!strcmp(name, "key"))
		return larder_key_format(key.bytes, key.len, text, XATTR_SIZE);
	if (!strcmp(name, "crc32c"))
		return sprintf(text, "%08" PRIx32, st.crc32c);
	if (!strcmp(name, "hits"))
		return sprintf(text, "%" PRIu32, st.hits);
	if (!strcmp(name, "age_ms"))
		return sprintf(text, "%" PRIu32, st.age_ms);
	if (!strcmp(name, "lease_ms"))
		return sprintf(text, "%" PRIu32, st.lease_ms);
	if (!strcmp(name, "pins"))
		return sprintf(text, "%" PRIu32 " soft %" PRIu32 " hard", st.pins & 0xffff,
			       st.pins >> 16);
	if (!strcmp(name, "tier"))
		return sprintf(text, "%s", st.tier ? "cold" : "memory");
	return sprintf(text, "%" PRIu32, st.runs);
}

static void xattr_reply(fuse_req_t req, const char *bytes, size_t len, size_t size)
{
	if (!size)
		fuse_reply_xattr(req, len);
	else if (len > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, bytes, len);
}

void ops_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct view *v = ops_view(req);
	char text[XATTR_SIZE];
	struct view_place p;
	int r = view_place(v, ino, &p);

	if (!r && strncmp(name, XATTR_PREFIX, strlen(XATTR_PREFIX)))
		r = -ENODATA;
	name += r ? 0 : strlen(XATTR_PREFIX);
	if (!r && !xattr_known(xattr_names(&p), name))
		r = -ENODATA;
	if (!r)
		r = p.node.kind == TREE_OBJECT ? xattr_object_value(v, &p, name, text)
						: xattr_directory_value(v, &p, name, text);
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		xattr_reply(req, text, (size_t)r, size);
}

void ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct view *v = ops_view(req);
	char list[512];
	struct view_place p;
	size_t len = 0;
	int r = view_place(v, ino, &p);

	if (r) {
		fuse_reply_err(req, -r);
		return;
	}
	for (const char *const *n = xattr_names(&p); *n; n++)
		len += (size_t)sprintf(list + len, XATTR_PREFIX "%s", *n) + 1;
	xattr_reply(req, list, len, size);
}
