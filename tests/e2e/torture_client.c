/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the torture: writes, reads, leases and deletes its own keys, reads those of others,
 * and holds every answer against the journal. See torture.h.
 */
#include "torture_internal.h"

#include <stdlib.h>
#include <string.h>

static uint64_t rnd(struct tormentor *c, uint64_t below)
{
	c->random += 0x9e3779b97f4a7c15ull;
	return torture_mix(c->random, 1, 2) % below;
}

static void call_init(struct tormentor *c, struct torture_call *call, uint8_t opcode,
		      unsigned space, uint32_t flags)
{
	call->n = 0;
	call->batch = (struct larder_batch){ .opcode = opcode, .ns = c->h.ns[space], .flags = flags,
					     .deadline_ms = DEADLINE_MS };
}

static void call_add(struct tormentor *c, struct torture_call *call, unsigned key, void *memory,
		     size_t room)
{
	unsigned i = call->n++;

	call->key[i] = key;
	call->iov[i] = (struct iovec){ memory, room };
	call->item[i] = (struct larder_item){ .key = call->name[i], .iov = &call->iov[i],
					      .iovcnt = memory ? 1 : 0, .status = -1 };
	call->item[i].key_len = torture_name(c->t, c->index, key, call->name[i]);
}

static bool call_run(struct tormentor *c, struct torture_call *call)
{
	struct larder_client_info before, after;
	int r;

	call->batch.items = call->item;
	call->batch.n_items = call->n;
	larder_get_info(c->h.client, &before);
	call->started_ms = now_ms();
	r = larder_run(c->h.client, &call->batch);
	call->ended_ms = now_ms();
	larder_get_info(c->h.client, &after);
	call->repeated = before.retries != after.retries || before.reconnects != after.reconnects;
	if (r < 0)
		return complain(c, call->key[0], "larder_run: %s", strerror(-r));
	for (unsigned i = 0; i < call->n; i++)
		c->away |= is_lost(call->item[i].status);
	return true;
}

/* --- requests -------------------------------------------------------------------------------- */

enum torture_class { SURE_ABSENT, SURE_THERE, IN_DOUBT, PENDING };

static enum torture_class class_of(struct tormentor *c, unsigned key)
{
	const struct torture_key *k = &c->keys[key];

	if (!is_settled(c, key))
		return PENDING;
	return !k->may_be_there ? SURE_ABSENT : !k->may_be_absent ? SURE_THERE : IN_DOUBT;
}

/* Adds keys of the same class and namespace to @first, as long as their values fit. */
static unsigned pick_more(struct tormentor *c, unsigned first, uint64_t room_of_first,
			  unsigned keys[BATCH_MAX], uint32_t version_step)
{
	unsigned n = 1, want = rnd(c, 4) ? 1 : 2 + (unsigned)rnd(c, BATCH_MAX - 1);
	enum torture_class class = class_of(c, first);
	uint64_t room = room_of_first;

	keys[0] = first;
	for (unsigned k = first + TORTURE_SPACES; n < want && k < c->t->s.keys;
	     k += TORTURE_SPACES) {
		uint64_t length = torture_length(c->t, c->index, k,
						 c->keys[k].version + version_step);

		if (class_of(c, k) != class || room + length > c->h.size)
			continue;
		room += length;
		keys[n++] = k;
	}
	return n;
}

static bool do_get(struct tormentor *c, unsigned first)
{
	struct torture_call call;
	unsigned keys[BATCH_MAX];
	uint8_t *at = c->h.memory;
	unsigned n = pick_more(c, first, torture_length(c->t, c->index, first,
							c->keys[first].version), keys, 0);

	call_init(c, &call, LARDER_OP_GET, torture_space(first), 0);
	for (unsigned i = 0; i < n; i++) {
		uint64_t length = torture_length(c->t, c->index, keys[i], c->keys[keys[i]].version);

		call_add(c, &call, keys[i], at, length);
		at += length;
	}
	if (!call_run(c, &call))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (!got_own(c, keys[i], &call.item[i], call.iov[i].iov_base))
			return false;
	return true;
}

static bool do_put(struct tormentor *c, unsigned first)
{
	struct torture_call call;
	unsigned keys[BATCH_MAX];
	uint8_t *at = c->h.memory;
	uint32_t step = class_of(c, first) == SURE_ABSENT;
	unsigned n = pick_more(c, first, torture_length(c->t, c->index, first,
							c->keys[first].version + step), keys, step);

	call_init(c, &call, LARDER_OP_PUT, torture_space(first), 0);
	for (unsigned i = 0; i < n; i++) {
		struct torture_key *k = &c->keys[keys[i]];
		uint64_t length;

		change_begins(k, CHANGE_PUT);
		__atomic_store_n(&k->version, k->version + step, __ATOMIC_RELEASE);
		k->may_be_there = 1;
		length = torture_length(c->t, c->index, keys[i], k->version);
		pattern_fill(at, length, torture_pattern(c->t, c->index, keys[i], k->version));
		call_add(c, &call, keys[i], at, length);
		at += length;
	}
	if (!call_run(c, &call))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (!put_answered(c, keys[i], call.item[i].status, call.repeated))
			return false;
	return true;
}

/* Layer by layer; now and then given up, which leaves nothing. */
static bool do_put_parts(struct tormentor *c, unsigned key)
{
	struct torture_key *k = &c->keys[key];
	struct larder_put_stream *s;
	char name[1024];
	size_t name_len = torture_name(c->t, c->index, key, name);
	uint64_t length, at = 0, stop_at;
	int r;

	change_begins(k, CHANGE_PUT);
	__atomic_store_n(&k->version, k->version + 1, __ATOMIC_RELEASE);
	length = torture_length(c->t, c->index, key, k->version);
	stop_at = rnd(c, 8) ? length : rnd(c, length);
	pattern_fill(c->h.memory, length, torture_pattern(c->t, c->index, key, k->version));
	r = larder_put_begin(c->h.client, c->h.ns[torture_space(key)], name, name_len, length,
			     DEADLINE_MS, &s);
	if (r < 0)
		return complain(c, key, "larder_put_begin: %s", strerror(-r));
	if (r != LARDER_OK) {	/* without a commit nothing can be there */
		change_ends(c, k, false);
		c->away |= is_lost(r);
		return is_lost(r) || r == LARDER_BUSY ||
		       complain(c, key, "PUT_BEGIN: %s", larder_status_name(r));
	}
	while (r == LARDER_OK && at < stop_at) {
		uint64_t n = 1 + rnd(c, stop_at - at);

		r = larder_put_part(s, at, c->h.memory + at, n);
		at += n;
	}
	if (r != LARDER_OK || at < length) {
		c->away |= is_lost(r);
		change_ends(c, k, larder_put_abort(s) == LARDER_OK);
		return r == LARDER_OK || is_lost(r) ||
		       complain(c, key, "PUT_PART: %s", larder_status_name(r));
	}
	k->may_be_there = 1;
	r = larder_put_commit(s);
	if (r < 0)
		return complain(c, key, "larder_put_commit: %s", strerror(-r));
	c->away |= is_lost(r);
	return put_answered(c, key, r, false);
}

static bool do_overwrite(struct tormentor *c, unsigned key)
{
	struct torture_call call;
	uint64_t length = torture_length(c->t, c->index, key, c->keys[key].version);

	pattern_fill(c->h.memory, length,
		     torture_pattern(c->t, c->index, key, c->keys[key].version));
	c->h.memory[rnd(c, length)] ^= (uint8_t)(1u << rnd(c, 8));
	change_begins(&c->keys[key], CHANGE_OVERWRITE);
	call_init(c, &call, LARDER_OP_PUT, torture_space(key), 0);
	call_add(c, &call, key, c->h.memory, length);
	return call_run(c, &call) &&
	       overwrite_answered(c, key, call.item[0].status, call.repeated);
}

static bool do_delete(struct tormentor *c, unsigned first, uint32_t flags)
{
	struct torture_call call;
	unsigned keys[BATCH_MAX], n = pick_more(c, first, 0, keys, 0);
	bool sure[BATCH_MAX];

	call_init(c, &call, LARDER_OP_DELETE, torture_space(first), flags);
	for (unsigned i = 0; i < n; i++) {
		struct torture_key *k = &c->keys[keys[i]];

		sure[i] = !k->may_be_absent;
		change_begins(k, CHANGE_DELETE);
		k->may_be_absent = 1;
		call_add(c, &call, keys[i], NULL, 0);
	}
	if (!call_run(c, &call))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (!delete_answered(c, &call, i, sure[i]))
			return false;
	return true;
}

static bool do_lease(struct tormentor *c, unsigned key)
{
	struct torture_key *k = &c->keys[key];
	uint32_t ms = 300 + (uint32_t)rnd(c, 4000);
	struct torture_call call;

	change_begins(k, CHANGE_OVERWRITE);	/* a lease of an unknown moment changes no bytes */
	k->lease = LEASE_MAYBE;
	call_init(c, &call, LARDER_OP_EXISTS, torture_space(key), LARDER_F_LEASE);
	call.batch.lease_id = key + 1;
	call.batch.lease_ms = ms;
	call_add(c, &call, key, NULL, 0);
	if (!call_run(c, &call))
		return false;
	if (is_lost(call.item[0].status)) {
		change_ends(c, k, false);
		return true;
	}
	if (call.item[0].presence != LARDER_LEASED)
		return complain(c, key, "EXISTS with a lease: %s, presence %u",
				larder_status_name(call.item[0].status), call.item[0].presence);
	k->lease_until_ms = call.started_ms + ms;
	k->lease = LEASE_SURE;
	c->counts->leases++;
	change_ends(c, k, !call.repeated);
	return true;
}

static bool do_release(struct tormentor *c, unsigned key)
{
	struct torture_key *k = &c->keys[key];
	struct torture_call call;
	int status;

	change_begins(k, CHANGE_OVERWRITE);
	k->lease = LEASE_MAYBE;
	call_init(c, &call, LARDER_OP_RELEASE, torture_space(key), 0);
	call.batch.lease_id = key + 1;
	call_add(c, &call, key, NULL, 0);
	if (!call_run(c, &call))
		return false;
	status = call.item[0].status;
	if (status != LARDER_OK && status != LARDER_NOT_FOUND && !is_lost(status))
		return complain(c, key, "RELEASE: %s", larder_status_name(status));
	if (!is_lost(status) && !call.repeated)
		k->lease = LEASE_NONE;
	change_ends(c, k, !is_lost(status) && !call.repeated);
	return true;
}

/* Another's key: whatever version it had while we looked, but nothing else. */
static bool do_get_other(struct tormentor *c, unsigned other, unsigned key)
{
	struct torture *t = c->t;
	const struct torture_key *k = &t->key[other][key];
	uint32_t from = __atomic_load_n(&k->version, __ATOMIC_ACQUIRE), to;
	char name[1024];
	size_t got = 0, name_len = torture_name(t, other, key, name);
	int r = larder_get(c->h.client, c->h.ns[torture_space(key)], name, name_len, c->h.memory,
			   c->h.size, &got, DEADLINE_MS);

	to = __atomic_load_n(&k->version, __ATOMIC_ACQUIRE);
	c->away |= is_lost(r);
	if (r == LARDER_NOT_FOUND || is_lost(r))
		return true;
	c->counts->reads++;
	for (uint32_t v = from ? from : 1; r == LARDER_OK && v <= to; v++)
		if (got == torture_length(t, other, key, v) &&
		    pattern_check(c->h.memory, got, torture_pattern(t, other, key, v)) < 0)
			return true;
	fprintf(stderr, "client %u (%s) read key %u of client %u, versions %u to %u: %s, %zu bytes "
		"of none of them; %s\n", c->index, node_transport_name(c->transport), key, other,
		from, to, r < 0 ? strerror(-r) : larder_status_name(r), got, larder_last_error());
	return false;
}

bool torture_sweep(struct torture *t, struct torture_handle *h, unsigned index)
{
	struct tormentor c = { .t = t, .keys = t->key[index], .counts = &t->counts[index],
			       .index = index, .h = *h };

	for (unsigned key = 0; key < t->s.keys; key++) {
		struct torture_call call;
		uint64_t length = torture_length(t, index, key, c.keys[key].version);

		call_init(&c, &call, LARDER_OP_GET, torture_space(key), 0);
		call_add(&c, &call, key, h->memory, length);
		if (!call_run(&c, &call) || !got_own(&c, key, &call.item[0], h->memory))
			return false;
		if (is_lost(call.item[0].status))
			return true;	/* killed again: the next sweep looks at all of them */
	}
	return true;
}

/* --- the process ----------------------------------------------------------------------------- */

static uint64_t memory_taken(const struct tormentor *c)
{
	uint64_t page = c->t->s.page, sum = 0;

	for (unsigned k = 0; k < c->t->s.keys; k++)
		if (c->keys[k].may_be_there || c->keys[k].change)
			sum += (torture_length(c->t, c->index, k, c->keys[k].version) + page - 1) /
			       page * page;
	return sum;
}

static bool one_step(struct tormentor *c)
{
	unsigned key = (unsigned)rnd(c, c->t->s.keys), dice = (unsigned)rnd(c, 100);
	const struct torture_key *k = &c->keys[key];

	if (dice < 10 && c->t->s.clients > 1)
		return do_get_other(c, (unsigned)rnd(c, c->t->s.clients), key);
	switch (class_of(c, key)) {
	case SURE_ABSENT:
		if (dice < 20 && k->version)
			return do_get(c, key);
		if (memory_taken(c) + BATCH_MAX * c->t->s.length_max > c->budget)
			return true;
		return dice < 40 ? do_put_parts(c, key) : do_put(c, key);
	case SURE_THERE:
		if (dice < 45)
			return do_get(c, key);
		if (dice < 55)
			return do_overwrite(c, key);
		if (k->lease)
			return dice < 70 ? do_release(c, key) :
			       do_delete(c, key, dice < 90 ? 0 : LARDER_F_FORCE);
		return dice < 65 ? do_lease(c, key) :
		       do_delete(c, key, dice < 95 ? 0 : LARDER_F_FORCE);
	case IN_DOUBT:
		return dice < 60 ? do_get(c, key) : dice < 80 ? do_put(c, key) :
		       do_delete(c, key, 0);
	case PENDING:
		return do_get(c, key);
	}
	return true;
}

/* What a killed predecessor had under way may be carried out by the node that runs now. */
static void take_over(struct tormentor *c)
{
	for (unsigned k = 0; k < c->t->s.keys; k++) {
		struct torture_key *key = &c->keys[k];

		if (key->change && key->change_generation == UINT64_MAX)
			key->change_generation = generation(c);
	}
}

/* By the handle that it has, which finds the node again by itself, or by a new one. */
static bool connected(struct tormentor *c)
{
	size_t size = c->t->s.length_max * 2;

	if (c->h.client && rnd(c, 4))
		return larder_ping(c->h.client, 500) == LARDER_OK;
	torture_close(&c->h);
	c->counts->reopened++;
	return torture_open(c->t, &c->h, c->transport, size < 65536 ? 65536 : size,
			    c->transport == NODE_SHM && rnd(c, 3));
}

int torture_client(struct torture *t, unsigned index, uint64_t seed)
{
	struct tormentor c = { .t = t, .keys = t->key[index], .counts = &t->counts[index],
			       .index = index, .random = seed,
			       .transport = index % 2 ? NODE_SHM : NODE_TCP, .away = true,
			       .swept = UINT64_MAX, .budget = t->s.memory / 2 / t->s.clients };

	take_over(&c);
	while (!__atomic_load_n(&t->stop, __ATOMIC_ACQUIRE)) {
		uint64_t now = generation(&c);

		if (c.away && !connected(&c)) {
			sleep_ms(2);
			continue;
		}
		c.away = false;
		if (c.swept != now) {
			if (!torture_sweep(t, &c.h, index))
				return 1;
			c.swept = now;
			c.counts->sweeps++;
		}
		if (!one_step(&c))
			return 1;
	}
	torture_close(&c.h);
	return 0;
}
