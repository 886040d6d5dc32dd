/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree: which number, name and place everything in it has. Pure functions; no FUSE, no node.
 *
 * The view keeps nothing for a file that somebody has looked at. All that a request by number needs
 * is in the number: the place of the namespace in the view's table, the object's record slot and
 * the low half of its generation. What lies in that slot now is asked of the node, and is another
 * object when the generations differ. So a crawl over any number of objects costs the view no
 * memory, and nothing has to be forgotten.
 *
 *	bit 63 set	object: 12 bits of namespace, 27 of slot, 24 of generation
 *	bits 60 to 62	0: the root, which FUSE calls 1; 1: tenant; 2: namespace; 3: snapshot of a
 *			status file, by its serial number
 *
 * Numbers that people see (st_ino) are others: they outlive the view and the node.
 */
#ifndef FSVIEW_TREE_H
#define FSVIEW_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <larder/key.h>
#include <larder/types.h>

#define TREE_ROOT_NUMBER 1u
#define TREE_SPACES_MAX (1u << 12)
#define TREE_SLOTS_MAX (1u << 27)
#define TREE_GENERATION_BITS 24u

enum tree_kind { TREE_ROOT, TREE_TENANT, TREE_SPACE, TREE_STATUS, TREE_OBJECT };

struct tree_node {
	enum tree_kind kind;
	uint32_t index;		/* of the tenant or the namespace in the view's tables */
	uint32_t slot;		/* of the object */
	uint32_t generation;	/* of the object, its low TREE_GENERATION_BITS */
	uint64_t serial;	/* of the snapshot */
};

uint64_t tree_number_tenant(uint32_t index);
uint64_t tree_number_space(uint32_t index);
uint64_t tree_number_status(uint64_t serial);
/* -EOVERFLOW: more namespaces or slots than a number has room for. */
int tree_number_object(uint32_t space, uint64_t inode, uint64_t *ret);
/* -ESTALE for what is no number of ours. */
int tree_number_split(uint64_t number, struct tree_node *ret);
/* Is the object with @inode the one that was numbered? */
bool tree_node_is(const struct tree_node *n, uint64_t inode);
/* Slot and generation of larder_stat.inode. */
uint32_t tree_inode_slot(uint64_t inode);
uint32_t tree_inode_generation(uint64_t inode);

/* st_ino of what is no object: in a range that no record slot reaches. */
uint64_t tree_ino_root(void);
uint64_t tree_ino_tenant(const char *tenant);
uint64_t tree_ino_space(uint32_t id);
uint64_t tree_ino_status(uint64_t parent_ino, unsigned which);

/* --- status files ---------------------------------------------------------------------------- */

/* X(kind of the directory, constant, name without ".json") */
#define TREE_STATUS_TABLE(X)                                                                       \
	X(TREE_ROOT, NODE, ".node")                                                                \
	X(TREE_TENANT, USAGE, ".usage")                                                            \
	X(TREE_TENANT, LIMITS, ".limits")                                                          \
	X(TREE_TENANT, LATENCY, ".latency")                                                        \
	X(TREE_SPACE, DESCRIPTOR, ".descriptor")                                                   \
	X(TREE_SPACE, STATS, ".stats")

/* Twice the table's row, plus one for JSON. */
enum tree_status {
#define TREE_STATUS_ENUM(kind, id, name) TREE_STATUS_##id, TREE_STATUS_##id##_JSON,
	TREE_STATUS_TABLE(TREE_STATUS_ENUM)
#undef TREE_STATUS_ENUM
	TREE_STATUSES
};
#define TREE_STATUS_IS_JSON(which) ((which) & 1u)

/* The file of that name in a directory of @kind, or -1. */
int tree_status_find(enum tree_kind kind, const char *name);
/* The @nth of a directory of @kind, or -1. */
int tree_status_nth(enum tree_kind kind, unsigned nth);
const char *tree_status_name(unsigned which);

/* --- names ----------------------------------------------------------------------------------- */

#define TREE_NAME_SIZE (LARDER_KEY_NAME_MAX + 1u)

/* A name in a namespace, parsed. */
struct tree_key {
	uint8_t bytes[LARDER_KEY_MAX];
	uint16_t len;
	bool is_hash;	/* @bytes are a hash: the object found must be checked by tree_key_names */
};
/* -ENOENT: no canonical spelling, or not the one that a directory shows. */
int tree_key_parse(const char *name, struct tree_key *ret);
/* The name of a key in its directory. */
int tree_key_format(const void *key, size_t len, char name[TREE_NAME_SIZE]);
/* Is @name how a directory shows @key? A short name of a key that has a full one is not. */
bool tree_key_names(const char *name, const void *key, size_t len);

/*
 * "tenant:name" as the node lists it, divided. @space: the directory's name of the namespace.
 * -EINVAL: it is none.
 */
int tree_space_split(const char *listed, char tenant[LARDER_TENANT_NAME_MAX + 1],
		     char space[TREE_NAME_SIZE]);
bool tree_tenant_valid(const char *name);

/* --- places in a directory ------------------------------------------------------------------- */

/*
 * What readdir counts in. A place tells what comes next and nothing of what went before, so it
 * survives whatever comes and goes: 0 and 1 are the dots, then the status files, then by the
 * table's index or the node's cursor.
 */
#define TREE_PLACE_STATUS 2u
#define TREE_PLACE_REST 16u

uint64_t tree_place_after_object(uint64_t inode);
uint64_t tree_place_of_cursor(uint64_t cursor);
/* The cursor to list on from. */
uint64_t tree_place_cursor(uint64_t place);
/* The cursor from which an object of @slot comes first. */
uint64_t tree_slot_cursor(uint32_t slot);

#endif
