/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index: from (namespace, key) to a record slot.
 *
 * A chained hash table whose links are slots inside struct engine_object, so it costs 4 bytes a
 * link and 4 to 8 bytes a bucket, and never grows. The high bits of the hash choose the shard, the
 * low ones the bucket inside the shard's own stretch of buckets, so that one lock guards each
 * bucket.
 *
 * The hash is XXH3-128's low half, mixed one to one with the namespace and a salt: a look-up by the
 * 16-byte hash of a key (its last 8 bytes are that half, big endian) starts from the same bucket,
 * and nobody can choose keys that meet in one. Equal hashes prove nothing: the key in the record is
 * always compared.
 *
 * A batch of look-ups asks for buckets, then objects, then records of keys that are still to come
 * (engine_exists.c), so that cache misses overlap. Those three steps run without the lock over
 * words that others may be changing; what they read is only used as an address to prefetch.
 */
#include <endian.h>
#include <string.h>

#include "base/check.h"
#include "engine/engine_internal.h"
#include "engine/fill.h"

#define INDEX_PEEK_MAX 4u	/* links followed without the lock */

/* One to one for a namespace, so equal hashes come from equal halves only. */
static uint64_t index_mix(const struct engine *e, uint32_t ns, uint64_t low)
{
	uint64_t x = low ^ ((uint64_t)ns + 1) * 0x9e3779b97f4a7c15u ^ e->salt;

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

uint64_t engine_hash(const struct engine *e, uint32_t ns, const void *key, uint16_t len)
{
	return index_mix(e, ns, key_hash64(key, len));
}

int engine_key_init(const struct engine *e, struct engine_key *k, uint32_t ns,
		    const struct larder_op_key *key, bool by_hash)
{
	uint64_t low;

	if (key->key_len == 0 || key->key_len > LARDER_KEY_MAX || !key->key)
		return LARDER_BAD_REQUEST;
	if (by_hash && key->key_len != LARDER_KEY_HASH_SIZE)
		return LARDER_BAD_REQUEST;
	*k = (struct engine_key){
		.key = key->key,
		.len = key->key_len,
		.ns = ns,
		.by_hash = by_hash,
	};
	if (by_hash) {
		memcpy(&low, (const uint8_t *)key->key + 8, sizeof(low));
		k->hash = index_mix(e, ns, be64toh(low));
	} else {
		k->hash = engine_hash(e, ns, key->key, key->key_len);
	}
	k->shard = engine_shard_of(e, k->hash);
	return LARDER_OK;
}

static uint32_t *index_bucket(const struct engine *e, uint64_t hash)
{
	uint64_t in_shard = hash & ((1ull << e->bucket_bits) - 1);

	return &e->buckets[((uint64_t)engine_shard_of(e, hash) << e->bucket_bits) + in_shard];
}

void engine_index_prefetch_bucket(const struct engine *e, const struct engine_key *k)
{
	__builtin_prefetch(index_bucket(e, k->hash));
}

void engine_index_prefetch_object(const struct engine *e, const struct engine_key *k)
{
	uint32_t slot = __atomic_load_n(index_bucket(e, k->hash), __ATOMIC_RELAXED);

	if (slot != RECORD_NONE)
		__builtin_prefetch(&e->objects[slot]);
}

void engine_index_prefetch_record(const struct engine *e, const struct engine_key *k)
{
	uint32_t slot = __atomic_load_n(index_bucket(e, k->hash), __ATOMIC_RELAXED);

	for (unsigned i = 0; slot != RECORD_NONE && i < INDEX_PEEK_MAX; i++) {
		const struct engine_object *o = &e->objects[slot];

		if (__atomic_load_n(&o->hash, __ATOMIC_RELAXED) == k->hash) {
			const char *record = (const char *)engine_record(e, slot);

			/* namespace and lengths; the key of a small object */
			__builtin_prefetch(record + CACHE_LINE);
			__builtin_prefetch(record + 2 * CACHE_LINE);
			return;
		}
		slot = __atomic_load_n(&o->chain, __ATOMIC_RELAXED);
	}
}

static bool index_is(struct engine *e, uint32_t slot, const struct engine_key *k)
{
	const struct engine_object *o = &e->objects[slot];

	if (engine_state(o) == OBJECT_PROMISED)
		return engine_fill_has_key(e, slot, k);
	if (engine_state(o) == OBJECT_RESERVING) {
		const struct larder_op *op = (const struct larder_op *)(uintptr_t)o->last;

		return op->ns == k->ns && op->keys[0].key_len == k->len &&
		       memcmp(op->keys[0].key, k->key, k->len) == 0;
	}
	return engine_record(e, slot)->ns == k->ns &&
	       records_key_equal(e->records, slot, k->key, k->len);
}

static bool index_has_hash(struct engine *e, uint32_t slot, const struct engine_key *k)
{
	uint8_t key[LARDER_KEY_MAX], hash[LARDER_KEY_HASH_SIZE];

	if (engine_state(&e->objects[slot]) != RECORD_COMMITTED ||
	    engine_record(e, slot)->ns != k->ns)
		return false;
	larder_key_hash(key, records_key(e->records, slot, key), hash);
	return memcmp(hash, k->key, sizeof(hash)) == 0;
}

uint32_t engine_index_find(struct engine *e, const struct engine_key *k, bool *ambiguous)
{
	uint32_t found = RECORD_NONE;

	*ambiguous = false;
	for (uint32_t slot = *index_bucket(e, k->hash); slot != RECORD_NONE;
	     slot = e->objects[slot].chain) {
		if (e->objects[slot].hash != k->hash)
			continue;
		if (!k->by_hash) {
			if (index_is(e, slot, k))
				return slot;
		} else if (index_has_hash(e, slot, k)) {
			if (found != RECORD_NONE)
				*ambiguous = true;
			found = slot;
		}
	}
	return *ambiguous ? RECORD_NONE : found;
}

/* The object's hash is set. */
void engine_index_insert(struct engine *e, uint32_t slot)
{
	struct engine_object *o = &e->objects[slot];
	uint32_t *bucket = index_bucket(e, o->hash);

	__atomic_store_n(&o->chain, *bucket, __ATOMIC_RELAXED);
	__atomic_store_n(bucket, slot, __ATOMIC_RELAXED);
}

void engine_index_remove(struct engine *e, uint32_t slot)
{
	struct engine_object *o = &e->objects[slot];
	uint32_t *link = index_bucket(e, o->hash);

	while (*link != slot)
		link = &e->objects[*link].chain;
	__atomic_store_n(link, o->chain, __ATOMIC_RELAXED);
}
