/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation from its beginning to its judgement. Each item's status is turned into the set of
 * states that it proves the key to have been in, which the model accepts or not.
 *
 * An operation whose request went out more than once may have happened more than once, and a copy
 * of it may still be under way on a connection that the client gave up: then its effect lingers
 * even though its answer is certain.
 */
#include "sim.h"

#define OPS_GRACE_NS (300 * NSEC_PER_MSEC)

static uint64_t ops_resends(const struct op *op)
{
	struct larder_client_info info;

	larder_get_info(op->w->client[op->client].c, &info);
	return info.reconnects * 1000003 + info.retries;
}

bool op_uncertain(const struct op *op, int status)
{
	return status_is_uncertain(status) ||
	       (status == LARDER_DENIED && tenants_away(op->w, op));
}

bool op_resent(const struct op *op)
{
	return ops_resends(op) != op->resends;
}

bool status_is_uncertain(int status)
{
	return status == LARDER_DEADLINE || status == LARDER_CANCELLED ||
	       status == LARDER_DISCONNECTED || status == LARDER_IO;
}

/* --- buffers --------------------------------------------------------------------------------- */

static uint64_t kept_hash(const uint8_t *bytes, size_t size)
{
	uint64_t h = size;

	for (size_t i = 0; i < size; i++)
		h = (h ^ bytes[i]) * 0x100000001b3u;
	return h;
}

static void kept_drop(struct world *w, struct kept *k)
{
	if (k->bytes && kept_hash(k->bytes, k->size) != k->hash)
		sim_fail(w, "a buffer changed after its completion was delivered");
	free(k->bytes);
	*k = (struct kept){ 0 };
}

/* Watches the beginning of a buffer that is no longer the library's. */
void kept_add(struct world *w, uint8_t *bytes, size_t size)
{
	struct kept *k = &w->kept[w->n_kept++ % SIM_KEPT];

	kept_drop(w, k);
	*k = (struct kept){ bytes, MIN(size, (size_t)8192), 0 };
	k->hash = kept_hash(k->bytes, k->size);
}

void kept_check(struct world *w)
{
	for (uint32_t i = 0; i < SIM_KEPT; i++)
		kept_drop(w, &w->kept[i]);
}

/* --- begun ----------------------------------------------------------------------------------- */

struct op *op_new(struct world *w, uint32_t client, uint8_t opcode)
{
	for (uint32_t i = 0; i < SIM_OPS; i++) {
		struct op *op = &w->op[i];

		if (op->kind != OP_NONE)
			continue;
		*op = (struct op){ .kind = OP_BATCH, .opcode = opcode, .w = w, .client = client };
		op->number = ++w->op_number;
		w->n_ops++;
		return op;
	}
	return NULL;
}

/* A buffer in one to three pieces: where a piece ends is where copies go wrong. */
static void item_pieces(struct world *w, struct item *it, uint8_t *bytes, uint64_t length,
			struct larder_item *li)
{
	uint64_t at = 0;
	int n = 0;

	if (length > 2)
		for (; n < 2 && at + 1 < length && chance(&w->op_rng, 3); n++) {
			uint64_t len = between(&w->op_rng, 1, length - at - 1);

			it->iov[n] = (struct iovec){ bytes + at, (size_t)len };
			at += len;
		}
	it->iov[n++] = (struct iovec){ bytes + at, (size_t)(length - at) };
	li->iov = it->iov;
	li->iovcnt = n;
}

static void item_get(struct world *w, struct item *it, struct larder_item *li)
{
	struct prng *r = &w->op_rng;

	it->room = (size_t)w->knobs.value_max;
	if (chance(r, 4))	/* on purpose, a little or much too small for some */
		it->room = (size_t)(it->key->value[it->v].length - chance(r, 2));
	if (chance(r, 3)) {
		it->offset = prng_below(r, it->key->value[it->v].length);
		it->length = between(r, 1, it->key->value[it->v].length);
		it->room = (size_t)it->length;
	}
	it->buffer = malloc(it->room + SIM_GUARD);
	if (!it->buffer)
		sim_fail(w, "no memory for a buffer");
	memset(it->buffer, SIM_FILL, it->room + SIM_GUARD);
	item_pieces(w, it, it->buffer, it->room, li);
	li->offset = it->offset;
	li->length = it->length;
}

void op_add(struct op *op, struct model_key *k, int v)
{
	struct item *it = &op->item[op->n];
	struct larder_item *li = &op->items[op->n++];

	*it = (struct item){ .key = k, .op = op, .v = v };
	*li = (struct larder_item){ .key = k->name, .key_len = k->name_len };
	if (op->batch.flags & LARDER_F_BY_HASH) {
		larder_key_hash(k->name, k->name_len, it->hash);
		li->key = it->hash;
		li->key_len = sizeof(it->hash);
	}
	if (op->opcode == LARDER_OP_PUT) {
		item_pieces(op->w, it, k->value[v].bytes, k->value[v].length, li);
		it->effect.puts = SIM_VALUE(v);
	} else if (op->opcode == LARDER_OP_GET) {
		item_get(op->w, it, li);
	} else if (op->opcode == LARDER_OP_DELETE) {
		it->effect.deletes = true;
		it->effect.forced = op->batch.flags & LARDER_F_FORCE;
	}
}

static void op_free(struct op *op)
{
	op->kind = OP_NONE;
	op->w->n_ops--;
}

bool op_submit(struct op *op)
{
	struct world *w = op->w;
	struct client *c = &w->client[op->client];
	int r;

	op->batch.opcode = op->opcode;
	op->batch.items = op->items;
	op->batch.n_items = op->n;
	op->batch.lease_id = op->lease_id;
	op->batch.lease_ms = op->lease_ms;
	op->leases = op->opcode == LARDER_OP_LEASE || op->batch.flags & LARDER_F_LEASE;
	op->batch.user = op;
	op->batch.ns = op->item[0].key->tenant == c->tenant ? c->ns[op->item[0].key->space]
							     : c->shared;
	op->start_ns = w->now_ns;
	op->start_seq = ++w->seq;
	op->resends = ops_resends(op);
	r = larder_submit(c->c, &op->batch);
	if (r < 0)
		sim_fail(w, "larder_submit: %s", strerror(-r));
	for (uint32_t i = 0; i < op->n; i++) {
		if (op->opcode == LARDER_OP_RELEASE) {
			model_lease_ends(w, op->item[i].key, op->lease_id);
			fill_ends(w, op->item[i].key, op->lease_id);
		}
		model_begin(w, &op->item[i]);
	}
	if (op->opcode == LARDER_OP_RELEASE)
		for (uint32_t i = 0; i < op->n; i++)
			op->item[i].effect = (struct effect){ 0 };
	world_trace(w, "begin", op->number, op->opcode | (uint64_t)op->n << 8 | op->client << 16,
		    op->batch.flags);
	return true;
}

/* --- judged ---------------------------------------------------------------------------------- */

static void item_bad(struct item *it, int status, const char *why)
{
	const struct model_key *k = it->key;

	sim_fail(it->op->w, "operation %" PRIu64 " (%#x, flags %#x, client %u) on key %u of tenant"
		 " %u in %u: %s: %s; seen %s, now %s", it->op->number, it->op->opcode,
		 it->op->batch.flags, it->op->client, k->index, k->tenant, k->space,
		 larder_status_name(status), why, model_set_text(it->seen),
		 model_set_text(k->set));
}

static bool item_untouched(const struct item *it)
{
	/* an earlier answer may have been cut, or found bad, in the middle of the buffer */
	if (op_resent(it->op) || it->key->rotten)
		return true;
	for (size_t i = 0; i < it->room; i++)
		if (it->buffer[i] != SIM_FILL)
			return false;
	return true;
}

static uint32_t judge_put(struct item *it, int status)
{
	struct world *w = it->op->w;
	const struct model_key *k = it->key;
	bool others = it->key->pending != it || it->next || k->linger.puts;
	struct extent e;

	switch (status) {
	case LARDER_OK:
		if (!(it->seen & SIM_ABSENT))
			item_bad(it, status, "it was there all the time");
		return SIM_VALUE(it->v);
	case LARDER_EXISTS_SAME:
		return SIM_VALUE(it->v);
	case LARDER_CONFLICT:
		return it->seen & SIM_ANY_VALUE & ~SIM_VALUE(it->v);
	case LARDER_BUSY:
		if (it->op->calm && !others && !k->n_past)
			item_bad(it, status, "nobody else was at it");
		return SIM_ABSENT;
	case LARDER_NO_SPACE:
		model_extent(w, SIM_TENANTS, NULL, &e);
		if (!w->knobs.evicts || (!w->knobs.records_short &&
					 !limits_guaranteed(w, it->op) &&
					 e.held_pages + 2 * w->knobs.value_max /
					 w->knobs.page + 2 < w->knobs.pages / 2))
			item_bad(it, status, "there is memory that it may evict");
		return SIM_ABSENT;
	case LARDER_QUOTA:
		if (!limits_allow_quota(w, it))
			item_bad(it, status, "there is room below its limits");
		return SIM_ABSENT;
	case LARDER_CHECKSUM:
		if (k->rotten)		/* it hit what had arrived already */
			return it->seen;
		/* fallthrough */
	default:
		item_bad(it, status, "no answer to a PUT");
	}
	return 0;
}

static uint32_t judge_got(struct item *it, const struct larder_item *li)
{
	const struct model_key *k = it->key;
	uint32_t set = 0;

	for (uint32_t v = 0; v < SIM_VALUES; v++) {
		uint64_t length = k->value[v].length, want = length;

		if (it->offset >= length)
			want = 0;	/* the range begins behind the value's end */
		else if (it->length)
			want = MIN(it->length, length - it->offset);
		if (li->done_bytes == want && li->stat.size_bytes == length &&
		    (!want || !memcmp(it->buffer, k->value[v].bytes + it->offset, (size_t)want)))
			set |= SIM_VALUE(v);
	}
	if (!set) {
		printf("\nread [%" PRIu64 ", +%" PRIu64 ") into %zu: %" PRIu64 " bytes of %" PRIu64
		       ", first %#x", it->offset, it->length, it->room, li->done_bytes,
		       li->stat.size_bytes, it->buffer[0]);
		item_bad(it, LARDER_OK, "bytes that nobody put");
	}
	for (size_t i = (size_t)li->done_bytes; i < it->room + SIM_GUARD; i++)
		if (it->buffer[i] != SIM_FILL && !op_resent(it->op) && !k->rotten)
			item_bad(it, LARDER_OK, "bytes behind the value were written");
	return set;
}

/* Told to compute it: it is absent, and nobody else was told. */
static uint32_t judge_fill(struct item *it, int status)
{
	const struct op *op = it->op;

	if (!(op->batch.flags & LARDER_F_FILL))
		item_bad(it, status, "nobody asked for a fill lease");
	for (uint32_t i = 0; i < op->n; i++)
		if (&op->item[i] != it && op->items[i].status == LARDER_FILL)
			item_bad(it, status, "one batch, two fill leases");
	it->filled = true;
	return SIM_ABSENT;
}

static uint32_t judge_get(struct item *it, const struct larder_item *li)
{
	const struct model_key *k = it->key;
	uint32_t set = 0;

	switch (li->status) {
	case LARDER_FILL:
		if (!item_untouched(it))
			item_bad(it, li->status, "and yet the buffer was written");
		return judge_fill(it, li->status);
	case LARDER_OK:
		return judge_got(it, li);
	case LARDER_NOT_FOUND:
		if (!item_untouched(it))
			item_bad(it, li->status, "and yet the buffer was written");
		return SIM_ABSENT;
	case LARDER_TOO_SMALL:
		if (!item_untouched(it))
			item_bad(it, li->status, "and yet the buffer was written");
		if (it->length || li->stat.size_bytes <= it->room)
			item_bad(it, li->status, "there was room");
		return model_value_of_length(k, li->stat.size_bytes);
	case LARDER_BAD_REQUEST:
		for (uint32_t v = 0; v < SIM_VALUES; v++)
			if (it->length && k->value[v].length <= it->offset)
				set |= SIM_VALUE(v);
		return set & it->seen;
	case LARDER_CHECKSUM:
		if (k->rotten)
			return it->seen;
		/* fallthrough */
	default:
		item_bad(it, li->status, "no answer to a GET");
	}
	return 0;
}

static uint32_t judge_exists(struct item *it, const struct larder_item *li)
{
	const struct op *op = it->op;
	uint32_t there = it->seen & SIM_ANY_VALUE;

	if (li->status == LARDER_NOT_FOUND && (li->presence == LARDER_ABSENT ||
					       li->presence == LARDER_FILLING))
		return SIM_ABSENT;
	if (li->status == LARDER_FILL)
		return judge_fill(it, li->status);
	if (li->status == LARDER_QUOTA && op->leases && li->presence == LARDER_PRESENT) {
		if (op->w->knobs.leases >= 512 && !limits_allow_lease_quota(op->w, it))
			item_bad(it, li->status, "there are leases left");
		return there;
	}
	if (li->status != LARDER_OK)
		item_bad(it, li->status, "no answer to a look-up");
	if (li->presence != (op->leases ? LARDER_LEASED : LARDER_PRESENT))
		item_bad(it, li->status, "another presence than asked for");
	return there;
}

static uint32_t judge_delete(struct item *it, int status)
{
	switch (status) {
	case LARDER_OK:
		if (!(it->seen & SIM_ANY_VALUE))
			item_bad(it, status, "nothing was there");
		return SIM_ABSENT;
	case LARDER_NOT_FOUND:
		return SIM_ABSENT;
	case LARDER_BUSY:
		if (it->effect.forced)
			item_bad(it, status, "it was forced");
		if (!model_maybe_leased(it->op->w, it))
			item_bad(it, status, "no lease or pin can be left");
		return it->seen & SIM_ANY_VALUE;
	default:
		item_bad(it, status, "no answer to a DELETE");
	}
	return 0;
}

static uint32_t judge_pin(struct item *it, int status)
{
	bool hard = it->op->batch.flags & LARDER_F_HARD, pin = it->op->opcode == LARDER_OP_PIN;

	switch (status) {
	case LARDER_OK:
		it->pinned = hard && pin;
		return it->seen & SIM_ANY_VALUE;
	case LARDER_NOT_FOUND:
		return SIM_ABSENT;
	case LARDER_QUOTA:
		if (!hard || !pin)
			item_bad(it, status, "that costs nothing");
		if (!limits_allow_pin_quota(it->op->w, it))
			item_bad(it, status, "there is room for pins");
		return it->seen & SIM_ANY_VALUE;
	default:
		item_bad(it, status, "no answer to a PIN");
	}
	return 0;
}

/* The states that this answer proves; all of them when it proves nothing. */
static uint32_t judge(struct item *it, const struct larder_item *li)
{
	if (li->status == LARDER_THROTTLED) {
		if (!limits_allow_throttled(it->op->w, it->op))
			item_bad(it, li->status, "it has no such limit");
		return it->seen;
	}
	if (li->status == LARDER_NOT_FOUND && tenants_not_shared(it))
		return it->seen;
	if (li->status == LARDER_BUSY && it->op->batch.flags & LARDER_F_WAIT)
		return SIM_ABSENT;	/* too many wait already */
	switch (it->op->opcode) {
	case LARDER_OP_PIN:
	case LARDER_OP_UNPIN:
		return judge_pin(it, li->status);
	case LARDER_OP_PUT:
		return judge_put(it, li->status);
	case LARDER_OP_GET:
		return judge_get(it, li);
	case LARDER_OP_EXISTS:
	case LARDER_OP_LEASE:
		return judge_exists(it, li);
	case LARDER_OP_STAT:
		if (li->status == LARDER_NOT_FOUND)
			return SIM_ABSENT;
		if (li->status == LARDER_OK)
			return model_value_of_length(it->key, li->stat.size_bytes);
		break;
	case LARDER_OP_DELETE:
		return judge_delete(it, li->status);
	case LARDER_OP_RELEASE:
		if (li->status == LARDER_OK || li->status == LARDER_NOT_FOUND)
			return it->seen;
		break;
	default:
		break;
	}
	item_bad(it, li->status, "no answer to that");
	return 0;
}

static void uncertain_check(struct item *it, int status)
{
	const struct op *op = it->op;
	const struct faults *f = &op->w->knobs.may;
	uint64_t took = op->w->now_ns - op->start_ns;
	uint64_t ms = op->batch.deadline_ms ? op->batch.deadline_ms : op->w->knobs.deadline_ms;
	uint64_t deadline = ms * NSEC_PER_MSEC;
	bool net = f->breaks || f->cuts || f->crashes || f->slow || f->splits || f->gaps ||
		   f->purges;

	if (op->calm)
		item_bad(it, status, "though all is well");
	if (status == LARDER_CANCELLED && !op->cancelled)
		item_bad(it, status, "nobody cancelled it");
	if (status == LARDER_DEADLINE && took + NSEC_PER_MSEC < deadline)
		item_bad(it, status, "before its deadline");
	if ((status == LARDER_DISCONNECTED || status == LARDER_IO) && !net && !f->delay)
		item_bad(it, status, "though the network is kind");
	if (!f->gaps && !f->slow && took > deadline + OPS_GRACE_NS)
		item_bad(it, status, "long after its deadline");
}

static void item_end(struct op *op, uint32_t i, bool closed)
{
	struct item *it = &op->item[i];
	const struct larder_item *li = &op->items[i];
	struct world *w = op->w;
	bool resent = closed || op_resent(op), lingers = resent;
	uint32_t states = 0;

	world_trace(w, "end", op->number, (uint64_t)li->status << 8 | i,
		    (uint64_t)li->presence << 32 | li->done_bytes);
	if (w->verbose)
		printf("\t%#x flags %#x on %u/%u/%u, value %d: %s; seen %s, now %s\n", op->opcode,
		       op->batch.flags, it->key->tenant, it->key->space, it->key->index, it->v,
		       larder_status_name(li->status), model_set_text(it->seen),
		       model_set_text(it->key->set));
	if (closed || op_uncertain(op, li->status)) {
		if (!closed && !op->excused)
			uncertain_check(it, li->status);
		lingers = true;
	} else {
		states = judge(it, li);
		if (!(states & it->seen))
			item_bad(it, li->status, "it was never like that");
		if (li->status != LARDER_OK && !resent)
			it->effect = (struct effect){ 0 };
		w->ops_definite++;
		if (!tenants_away_now(w, op))
			w->client[op->client].away = false;
	}
	if (op->calm)
		tally_item(op, i);
	/* what was just told must outlive the teller */
	if (w->wild && w->knobs.may.crashes && li->status == LARDER_OK && chance(&w->fault_rng, 60))
		w->die_now = true;
	it->leased = !closed && li->status == LARDER_OK && li->presence == LARDER_LEASED;
	model_end(w, it, states, lingers);
	if (it->buffer)
		kept_add(w, it->buffer, it->room + SIM_GUARD);
	w->ops_done++;
}

static void op_end(struct op *op, bool closed)
{
	op->w->seq++;
	for (uint32_t i = 0; i < op->n; i++)
		item_end(op, i, closed);
	if (op->calm)
		tally_op(op);
	op_free(op);
}

void op_close_all(struct client *c)
{
	struct world *w = c->w;

	for (uint32_t i = 0; i < SIM_OPS; i++)
		if (w->op[i].kind == OP_BATCH && w->op[i].client == c->index)
			op_end(&w->op[i], true);
}

void op_poll(struct world *w, struct client *c)
{
	struct larder_batch *done[8];
	int n;

	while ((n = larder_poll(c->c, done, ARRAY_SIZE(done))) > 0)
		for (int i = 0; i < n; i++)
			op_end(done[i]->user, false);
	if (n < 0)
		sim_fail(w, "larder_poll: %s", strerror(-n));
}

/* --- synchronous calls ----------------------------------------------------------------------- */

void op_begin_call(struct op *op)
{
	struct world *w = op->w;

	op->kind = OP_CALL;
	op->start_ns = w->now_ns;
	op->start_seq = ++w->seq;
	op->resends = ops_resends(op);
	for (uint32_t i = 0; i < op->n; i++)
		model_begin(w, &op->item[i]);
}

void op_end_call(struct op *op, int status, uint32_t states)
{
	struct world *w = op->w;

	w->seq++;
	world_trace(w, "call", op->number, (uint64_t)status, op->n);
	if (w->verbose)
		printf("\t%#x on %u/%u/%u, value %d: %s\n", op->opcode, op->item[0].key->tenant,
		       op->item[0].key->space, op->item[0].key->index, op->item[0].v,
		       larder_status_name(status));
	for (uint32_t i = 0; i < op->n; i++) {
		struct item *it = &op->item[i];
		bool sure = !op_uncertain(op, status), resent = op_resent(op);

		if (sure && status != LARDER_OK && !resent)
			it->effect = (struct effect){ 0 };
		if (states && !(states & it->seen))
			item_bad(it, status, "it was never like that");
		model_end(w, it, sure ? states : 0, !sure || resent);
	}
	op->n = 0;
}
