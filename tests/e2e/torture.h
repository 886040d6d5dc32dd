/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the torture's clients know for sure, in memory that outlives them, and the client itself.
 *
 * Every key has one writer, so its journal can say at each moment what may be stored under it: the
 * newest version of its value, nothing, or (while the answer of a PUT or DELETE is lost) either of
 * them. A request whose answer is lost may still be carried out by the node that it was sent to; so
 * such a key takes no other change until that process is known to be dead.
 */
#ifndef LARDER_TESTS_E2E_TORTURE_H
#define LARDER_TESTS_E2E_TORTURE_H

#include "harness.h"

#define TORTURE_CLIENTS_MAX 64u
#define TORTURE_KEYS_MAX 4096u
#define TORTURE_SPACES 2u
#define TORTURE_PAGE_MAX (2u << 20)

enum torture_change { CHANGE_NONE, CHANGE_PUT, CHANGE_DELETE, CHANGE_OVERWRITE };
enum torture_lease { LEASE_NONE, LEASE_MAYBE, LEASE_SURE };

struct torture_key {
	uint32_t version;		/* newest that was put; 0: none yet */
	uint8_t may_be_there, may_be_absent;
	uint8_t change;			/* enum torture_change: under way, or its answer is lost */
	uint8_t lease;			/* enum torture_lease */
	uint64_t change_generation;	/* of the node: a younger one has not heard of it */
	uint64_t lease_until_ms;	/* it is held at least until then */
};

struct torture_counts {
	uint64_t acknowledged, lost, reads, conflicts, leases, refused_deletes, reopened, sweeps;
};

struct torture_settings {
	uint64_t seed;
	unsigned kills, clients, keys;	/* keys of each client */
	uint64_t length_min, length_max;
	uint64_t memory, page;
	unsigned reactors;
};

struct torture {
	struct torture_settings s;
	struct node *node;
	uint64_t generation;		/* atomic: how many processes of the node are dead */
	bool stop;			/* atomic */
	struct torture_counts counts[TORTURE_CLIENTS_MAX];
	struct torture_key key[TORTURE_CLIENTS_MAX][TORTURE_KEYS_MAX];
};

/* splitmix64 of a few numbers: what a seed decides. */
uint64_t torture_mix(uint64_t a, uint64_t b, uint64_t c);

/* Name (of 1 to 1,024 bytes), namespace, length and bytes of a key's version. */
size_t torture_name(const struct torture *t, unsigned client, unsigned key, char name[1024]);
unsigned torture_space(unsigned key);
uint64_t torture_length(const struct torture *t, unsigned client, unsigned key, uint32_t version);
uint64_t torture_pattern(const struct torture *t, unsigned client, unsigned key, uint32_t version);

/* A connected client and its namespaces. False: the node is away. Never aborts. */
struct torture_handle {
	struct larder_client *client;
	uint32_t ns[TORTURE_SPACES];
	struct larder_region *region;	/* NULL: memory is malloc's */
	uint8_t *memory;
	size_t size;
};
bool torture_open(struct torture *t, struct torture_handle *h, enum node_transport transport,
		  size_t size, bool region);
void torture_close(struct torture_handle *h);

/* The client process: runs until t->stop. Returns 0, or 1 after it told what it saw. */
int torture_client(struct torture *t, unsigned index, uint64_t seed);
/* GETs every key of client @index by @h and compares. False after it told what it saw. */
bool torture_sweep(struct torture *t, struct torture_handle *h, unsigned index);

#endif
