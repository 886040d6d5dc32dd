/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h has the idea. */
#include "tree.h"

#include <errno.h>
#include <string.h>

#define TREE_OBJECT_BIT (1ull << 63)
#define TREE_KIND_SHIFT 60u
#define TREE_SPACE_SHIFT 51u
#define TREE_SLOT_SHIFT 24u
#define TREE_GENERATION_MASK ((1u << TREE_GENERATION_BITS) - 1)
#define TREE_SERIAL_MASK ((1ull << TREE_KIND_SHIFT) - 1)

_Static_assert(TREE_SPACES_MAX == 1u << (63 - TREE_SPACE_SHIFT), "bits");
_Static_assert(TREE_SLOTS_MAX == 1u << (TREE_SPACE_SHIFT - TREE_SLOT_SHIFT), "bits");
_Static_assert(TREE_GENERATION_BITS == TREE_SLOT_SHIFT, "bits");

/* Slot UINT32_MAX is nobody's: what is no object lives there. */
#define TREE_INO_BASE (0xffffffffull << 32)
#define TREE_INO_TENANT (1ull << 30)
#define TREE_INO_SPACE (2ull << 30)
#define TREE_INO_STATUS (3ull << 30)
#define TREE_INO_MASK ((1ull << 30) - 1)

enum { TREE_TAG_ROOT, TREE_TAG_TENANT, TREE_TAG_SPACE, TREE_TAG_STATUS };

/* --- numbers --------------------------------------------------------------------------------- */

uint64_t tree_number_tenant(uint32_t index)
{
	return (uint64_t)TREE_TAG_TENANT << TREE_KIND_SHIFT | index;
}

uint64_t tree_number_space(uint32_t index)
{
	return (uint64_t)TREE_TAG_SPACE << TREE_KIND_SHIFT | index;
}

uint64_t tree_number_status(uint64_t serial)
{
	return (uint64_t)TREE_TAG_STATUS << TREE_KIND_SHIFT | (serial & TREE_SERIAL_MASK);
}

uint32_t tree_inode_slot(uint64_t inode)
{
	return (uint32_t)(inode >> 32);
}

uint32_t tree_inode_generation(uint64_t inode)
{
	return (uint32_t)inode;
}

int tree_number_object(uint32_t space, uint64_t inode, uint64_t *ret)
{
	uint32_t slot = tree_inode_slot(inode);

	if (space >= TREE_SPACES_MAX || slot >= TREE_SLOTS_MAX)
		return -EOVERFLOW;
	*ret = TREE_OBJECT_BIT | (uint64_t)space << TREE_SPACE_SHIFT |
	       (uint64_t)slot << TREE_SLOT_SHIFT |
	       (tree_inode_generation(inode) & TREE_GENERATION_MASK);
	return 0;
}

int tree_number_split(uint64_t number, struct tree_node *ret)
{
	uint64_t rest = number & TREE_SERIAL_MASK;

	*ret = (struct tree_node){ .kind = TREE_ROOT };
	if (number & TREE_OBJECT_BIT) {
		ret->kind = TREE_OBJECT;
		ret->index = (uint32_t)(number >> TREE_SPACE_SHIFT) & (TREE_SPACES_MAX - 1);
		ret->slot = (uint32_t)(number >> TREE_SLOT_SHIFT) & (TREE_SLOTS_MAX - 1);
		ret->generation = (uint32_t)number & TREE_GENERATION_MASK;
		return 0;
	}
	switch (number >> TREE_KIND_SHIFT) {
	case TREE_TAG_ROOT:
		return number == TREE_ROOT_NUMBER ? 0 : -ESTALE;
	case TREE_TAG_STATUS:
		ret->kind = TREE_STATUS;
		ret->serial = rest;
		return 0;
	case TREE_TAG_TENANT:
	case TREE_TAG_SPACE:
		if (rest >= TREE_SPACES_MAX)
			return -ESTALE;
		ret->kind = number >> TREE_KIND_SHIFT == TREE_TAG_TENANT ? TREE_TENANT : TREE_SPACE;
		ret->index = (uint32_t)rest;
		return 0;
	default:
		return -ESTALE;
	}
}

bool tree_node_is(const struct tree_node *n, uint64_t inode)
{
	return n->kind == TREE_OBJECT && n->slot == tree_inode_slot(inode) &&
	       n->generation == (tree_inode_generation(inode) & TREE_GENERATION_MASK);
}

uint64_t tree_ino_root(void)
{
	return TREE_INO_BASE | 1;
}

uint64_t tree_ino_tenant(const char *tenant)
{
	uint8_t hash[LARDER_KEY_HASH_SIZE];
	uint32_t low;

	larder_key_hash(tenant, strlen(tenant), hash);
	memcpy(&low, hash, sizeof(low));
	return TREE_INO_BASE | TREE_INO_TENANT | (low & TREE_INO_MASK);
}

uint64_t tree_ino_space(uint32_t id)
{
	return TREE_INO_BASE | TREE_INO_SPACE | (id & TREE_INO_MASK);
}

uint64_t tree_ino_status(uint64_t parent_ino, unsigned which)
{
	uint8_t hash[LARDER_KEY_HASH_SIZE];
	uint64_t words[2] = { parent_ino, which };
	uint32_t low;

	larder_key_hash(words, sizeof(words), hash);
	memcpy(&low, hash, sizeof(low));
	return TREE_INO_BASE | TREE_INO_STATUS | (low & TREE_INO_MASK);
}

/* --- status files ---------------------------------------------------------------------------- */

static const struct {
	enum tree_kind kind;
	const char *name;
} tree_statuses[TREE_STATUSES] = {
#define TREE_STATUS_ROW(kind_, id, name_)                                                          \
	[TREE_STATUS_##id] = { kind_, name_ }, [TREE_STATUS_##id##_JSON] = { kind_, name_ ".json" },
	TREE_STATUS_TABLE(TREE_STATUS_ROW)
#undef TREE_STATUS_ROW
};

int tree_status_find(enum tree_kind kind, const char *name)
{
	for (int i = 0; i < TREE_STATUSES; i++)
		if (tree_statuses[i].kind == kind && !strcmp(tree_statuses[i].name, name))
			return i;
	return -1;
}

int tree_status_nth(enum tree_kind kind, unsigned nth)
{
	for (int i = 0; i < TREE_STATUSES; i++)
		if (tree_statuses[i].kind == kind && !nth--)
			return i;
	return -1;
}

const char *tree_status_name(unsigned which)
{
	return which < TREE_STATUSES ? tree_statuses[which].name : "?";
}

/* --- names ----------------------------------------------------------------------------------- */

int tree_key_parse(const char *name, struct tree_key *ret)
{
	int n;

	if (strlen(name) > LARDER_KEY_NAME_MAX)
		return -ENOENT;
	n = larder_key_parse(name, ret->bytes, sizeof(ret->bytes), &ret->is_hash);
	if (n < 0)
		return -ENOENT;
	ret->len = (uint16_t)n;
	return 0;
}

int tree_key_format(const void *key, size_t len, char name[TREE_NAME_SIZE])
{
	return larder_key_format_name(key, len, name, TREE_NAME_SIZE);
}

bool tree_key_names(const char *name, const void *key, size_t len)
{
	char is[TREE_NAME_SIZE];

	return tree_key_format(key, len, is) > 0 && !strcmp(is, name);
}

bool tree_tenant_valid(const char *name)
{
	size_t len = strlen(name);

	return len >= 1 && len <= LARDER_TENANT_NAME_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

int tree_space_split(const char *listed, char tenant[LARDER_TENANT_NAME_MAX + 1],
		     char space[TREE_NAME_SIZE])
{
	const char *colon = strchr(listed, ':');
	size_t len = colon ? (size_t)(colon - listed) : 0;

	if (len < 1 || len > LARDER_TENANT_NAME_MAX)
		return -EINVAL;
	memcpy(tenant, listed, len);
	tenant[len] = '\0';
	if (!tree_tenant_valid(tenant) || strlen(colon + 1) > LARDER_NS_NAME_MAX)
		return -EINVAL;
	return tree_key_format(colon + 1, strlen(colon + 1), space) > 0 ? 0 : -EINVAL;
}

/* --- places ---------------------------------------------------------------------------------- */

uint64_t tree_slot_cursor(uint32_t slot)
{
	return (uint64_t)slot + 1;
}

uint64_t tree_place_of_cursor(uint64_t cursor)
{
	return TREE_PLACE_REST + cursor;
}

uint64_t tree_place_after_object(uint64_t inode)
{
	return tree_place_of_cursor(tree_slot_cursor(tree_inode_slot(inode)) + 1);
}

uint64_t tree_place_cursor(uint64_t place)
{
	return place > TREE_PLACE_REST ? place - TREE_PLACE_REST : 0;
}
