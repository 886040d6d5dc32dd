/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of records_*.c share: the header of the record file, the entries that no other
 * module reads, and the heap side. docs/record-format.md draws the whole.
 */
#ifndef LARDER_MEM_RECORDS_INTERNAL_H
#define LARDER_MEM_RECORDS_INTERNAL_H

#include <pthread.h>

#include "base/compiler.h"
#include "mem/records.h"

#define RECORDS_MAGIC 0x4344524f4345524cull	/* "LRECORDC" */
/* "LMAKINGC": in place of the magic while the files are made for the first time. */
#define RECORDS_MAKING 0x43474e494b414d4cull
#define RECORDS_SECTION 4096u			/* every section begins at a multiple of this */
#define RECORDS_GENERATION_STEP (1u << 20)	/* generations reserved by one store */

struct records_header {
	uint64_t magic;			/* stored last: a file without it was never in use */
	uint32_t format;
	uint32_t record_size;
	/* geometry: a file is only ever used with the one it was made for */
	uint32_t pages;
	uint32_t page_size;
	uint32_t records;
	uint32_t leases;
	uint32_t namespaces;
	uint32_t tenants;
	uint32_t check_block;
	uint32_t holder_pid;		/* for the message to a second process; the flock decides */
	char boot_id[48];		/* NUL-terminated; empty: unknown */
	uint8_t reserved0[32];
	uint64_t generation;		/* none at or above this was ever given out */
	uint8_t reserved1[56];
	uint64_t heartbeat_ns;		/* its own cache line: reactors store it */
	uint8_t reserved2[RECORDS_SECTION - 200];
};
static_assert(sizeof(struct records_header) == RECORDS_SECTION, "format");
static_assert(offsetof(struct records_header, generation) == 128, "format");
static_assert(offsetof(struct records_header, heartbeat_ns) == 192, "format");

struct tenant_record {
	uint32_t state;			/* enum directory_state */
	uint32_t crc;			/* CRC-32C of the name field */
	char name[40];			/* NUL-padded */
	uint64_t reserved[2];
};
static_assert(sizeof(struct tenant_record) == 64, "format");

/* A stack of indexes: what is free. Guarded by records.lock; n is also read without it. */
struct records_stack {
	uint32_t *index;
	uint32_t n;
};

struct records {
	struct records_header *header;
	struct tenant_record *tenants;
	struct namespace_record *namespaces;
	struct lease_record *leases;
	struct record *record;
	uint32_t n_records;
	uint32_t n_leases;
	uint32_t n_namespaces;
	uint32_t page_size;
	pthread_mutex_t lock;
	struct records_stack free_slots;
	struct records_stack free_leases;
	uint64_t next_generation;	/* atomic */
};

/* Parts of a record's stream of bytes (runs, checks, key), in order, wherever they continue. */
struct records_stream {
	struct records *r;
	uint8_t *at;
	uint32_t left;			/* in this record */
	uint32_t next;			/* slot that continues it */
};

void records_stream_init(struct records_stream *s, struct records *r, uint32_t slot);
void records_stream_skip(struct records_stream *s, uint64_t n);
void records_stream_read(struct records_stream *s, void *out, uint64_t n);
void records_stream_write(struct records_stream *s, const void *in, uint64_t n);

/* CRC of the fixed part of @slot with its chain, which must be whole. */
uint32_t records_crc(struct records *r, uint32_t slot);
uint32_t records_needed_bytes(uint64_t bytes);
static inline uint64_t records_stream_bytes(uint16_t key_len, uint32_t n_runs, uint32_t n_checks)
{
	return 8ull * n_runs + 4ull * n_checks + key_len;
}

struct record_overflow *records_overflow_at(struct records *r, uint32_t slot);
/* Empties the stacks and fills them with what is free in the file: slots by @used, a bit each. */
void records_stacks_fill(struct records *r, const uint64_t *used);
/* Compares a header with what is asked for. 0 or -EPROTO and a sentence. */
int records_header_check(const struct records_header *h, const struct larder_memory_config *g,
			 const char **why);
/* Names the process in the header; 0: nobody. */
void records_set_holder(struct records *r, uint32_t pid);
/* Drops directory entries that do not check; returns how many. */
uint32_t records_directory_check(struct records *r, const struct larder_log *log);
bool records_directory_has(const struct records *r, uint32_t tenant, uint32_t ns);
/* At rebuild, once objects are known: @alive has a bit per slot. */
void records_lease_rebuild(struct records *r, const uint64_t *alive, uint64_t gap_ns,
			   struct records_rebuilt *ret);

static inline bool records_bit(const uint64_t *bits, uint64_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

static inline void records_bit_set(uint64_t *bits, uint64_t i)
{
	bits[i / 64] |= 1ull << (i % 64);
}

/* What was stored before this is in the file before whatever is stored after it. */
static inline void records_barrier(void)
{
#ifdef __SANITIZE_THREAD__
	__asm__ volatile("" ::: "memory");	/* tsan knows no fences; the order is x86's own */
#else
	__atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/*
 * Leaves the state at @state with one store. What was stored before is visible before it (commit),
 * and what is stored after it is visible after it (pages are reused only then).
 */
static inline void records_store_state(uint32_t *at, uint32_t state)
{
	__atomic_store_n(at, state, __ATOMIC_RELEASE);
	records_barrier();
}

#endif
