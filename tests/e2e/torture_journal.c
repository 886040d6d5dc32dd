/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of the torture: which answers it allows, and what they make of it. See torture.h. */
#include "torture_internal.h"

#include <stdarg.h>
#include <string.h>

uint64_t generation(const struct tormentor *c)
{
	return __atomic_load_n(&c->t->generation, __ATOMIC_ACQUIRE);
}

bool complain(const struct tormentor *c, unsigned key, const char *text, ...)
{
	const struct torture_key *k = &c->keys[key];
	va_list ap;
	char what[300];

	va_start(ap, text);
	vsnprintf(what, sizeof(what), text, ap);
	va_end(ap);
	fprintf(stderr, "client %u (%s) key %u version %u: %s; the journal: there %u, absent %u, "
		"change %u of generation %lld, lease %u; generation %llu; %s\n",
		c->index, node_transport_name(c->transport), key, k->version, what, k->may_be_there,
		k->may_be_absent, k->change, (long long)k->change_generation, k->lease,
		(unsigned long long)generation(c), larder_last_error());
	return false;
}

bool is_lost(int status)
{
	return status == LARDER_DEADLINE || status == LARDER_DISCONNECTED ||
	       status == LARDER_CANCELLED || status == LARDER_BUFFER_LOST;
}

bool is_settled(const struct tormentor *c, unsigned key)
{
	struct torture_key *k = &c->keys[key];

	if (k->change && generation(c) > k->change_generation)
		k->change = CHANGE_NONE;
	return k->change == CHANGE_NONE;
}

void change_begins(struct torture_key *k, enum torture_change change)
{
	k->change_generation = UINT64_MAX;
	__atomic_store_n(&k->change, change, __ATOMIC_RELEASE);
}

void change_ends(struct tormentor *c, struct torture_key *k, bool known)
{
	if (known) {
		__atomic_store_n(&k->change, CHANGE_NONE, __ATOMIC_RELEASE);
		c->counts->acknowledged++;
	} else {
		__atomic_store_n(&k->change_generation, generation(c), __ATOMIC_RELEASE);
		c->counts->lost++;
	}
}

static bool saw_present(struct tormentor *c, unsigned key)
{
	struct torture_key *k = &c->keys[key];

	if (!k->may_be_there)
		return complain(c, key, "it is back");
	if (k->change != CHANGE_DELETE)
		k->may_be_absent = 0;
	return true;
}

static bool saw_absent(struct tormentor *c, unsigned key)
{
	struct torture_key *k = &c->keys[key];

	if (!k->may_be_absent)
		return complain(c, key, "it is lost");
	if (k->change == CHANGE_PUT)
		return true;
	k->may_be_there = 0;
	k->lease = LEASE_NONE;
	return true;
}

bool got_own(struct tormentor *c, unsigned key, const struct larder_item *item, const void *memory)
{
	uint64_t length = torture_length(c->t, c->index, key, c->keys[key].version);
	int64_t at;

	if (is_lost(item->status))
		return true;
	(void)is_settled(c, key);
	c->counts->reads++;
	if (item->status == LARDER_NOT_FOUND)
		return saw_absent(c, key);
	if (item->status != LARDER_OK)
		return complain(c, key, "GET: %s", larder_status_name(item->status));
	if (item->done_bytes != length)
		return complain(c, key, "GET: %llu bytes instead of %llu",
				(unsigned long long)item->done_bytes, (unsigned long long)length);
	at = pattern_check(memory, length,
			   torture_pattern(c->t, c->index, key, c->keys[key].version));
	if (at >= 0)
		return complain(c, key, "wrong bytes from %lld on", (long long)at);
	return saw_present(c, key);
}

bool put_answered(struct tormentor *c, unsigned key, int status, bool repeated)
{
	struct torture_key *k = &c->keys[key];

	switch (status) {
	case LARDER_OK:
	case LARDER_EXISTS_SAME:
		k->may_be_absent = 0;
		change_ends(c, k, !repeated);
		return true;
	case LARDER_BUSY:	/* what an earlier connection of ours left is still being cleared */
	case LARDER_DEADLINE:
	case LARDER_DISCONNECTED:
	case LARDER_CANCELLED:
	case LARDER_BUFFER_LOST:
		change_ends(c, k, false);
		return true;
	default:
		return complain(c, key, "PUT: %s", larder_status_name(status));
	}
}

bool overwrite_answered(struct tormentor *c, unsigned key, int status, bool repeated)
{
	if (status != LARDER_CONFLICT && status != LARDER_BUSY && !is_lost(status))
		return complain(c, key, "PUT of other bytes: %s", larder_status_name(status));
	change_ends(c, &c->keys[key], status == LARDER_CONFLICT && !repeated);
	c->counts->conflicts += status == LARDER_CONFLICT;
	return true;
}

bool delete_answered(struct tormentor *c, const struct torture_call *call, unsigned i,
		     bool was_sure)
{
	unsigned key = call->key[i];
	struct torture_key *k = &c->keys[key];
	int status = call->item[i].status;
	bool forced = call->batch.flags & LARDER_F_FORCE;

	if (status == LARDER_NOT_FOUND && was_sure && !call->repeated)
		return complain(c, key, "DELETE: it is lost");
	if (status == LARDER_OK || status == LARDER_NOT_FOUND) {
		if (!forced && k->lease == LEASE_SURE && call->ended_ms < k->lease_until_ms)
			return complain(c, key, "DELETE of a leased object: OK, %llu ms early",
					(unsigned long long)(k->lease_until_ms - call->ended_ms));
		k->may_be_there = 0;
		k->lease = LEASE_NONE;
		change_ends(c, k, !call->repeated);
		return true;
	}
	if (status == LARDER_BUSY) {
		if (forced || k->lease == LEASE_NONE)
			return complain(c, key, "DELETE: BUSY without a lease");
		k->may_be_absent = !was_sure;
		change_ends(c, k, !call->repeated);
		c->counts->refused_deletes++;
		return true;
	}
	if (!is_lost(status))
		return complain(c, key, "DELETE: %s", larder_status_name(status));
	change_ends(c, k, false);
	return true;
}
