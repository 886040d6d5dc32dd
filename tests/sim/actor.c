/* SPDX-License-Identifier: Apache-2.0 */
/* The wild phase: who does what next. Nothing here judges; it only draws. */
#include "sim.h"

static struct model_key *actor_key(struct world *w, const struct client *c, uint32_t space)
{
	const struct knobs *k = &w->knobs;

	return &w->key[(c->tenant * k->spaces + space) * k->names +
		       prng_below(&w->op_rng, k->names)];
}

/* In some seeds values cross check blocks: then most namespaces have a descriptor, too. */
void actor_open_spaces(struct world *w, struct client *c)
{
	struct larder_descriptor d = { .model = "sim", .tokens_per_block = 16, .tp = 1 };

	for (uint32_t s = 0; s < w->knobs.spaces; s++) {
		char name[24];
		int r;

		if (c->ns_open[s])
			continue;
		(void)snprintf(name, sizeof(name), "space-%u", s);
		world_sync_begin(c);
		r = larder_ns_open(c->c, name, s ? &d : NULL, LARDER_NS_CREATE, 0, &c->ns[s]);
		world_sync_end(c);
		world_trace(w, "ns_open", c->index, s, (uint64_t)r);
		if (r != 0 && !status_is_uncertain(r) && r != LARDER_THROTTLED &&
		    r != LARDER_DENIED)
			sim_fail(w, "namespace %s: %s: %s", name, larder_status_name(r),
				 larder_last_error());
		c->ns_open[s] = r == 0;
	}
	tenants_open_shared(w, c);
}

static const struct lease *actor_lease(struct world *w, const struct client *c, uint32_t space,
				       struct model_key **k)
{
	for (uint32_t i = 0; i < 4; i++) {
		*k = actor_key(w, c, space);
		if ((*k)->n_leases)
			return &(*k)->lease[prng_below(&w->op_rng, (*k)->n_leases)];
	}
	return NULL;
}

static uint8_t actor_opcode(struct world *w, struct op *op)
{
	struct prng *r = &w->op_rng;
	uint64_t x = prng_below(r, 100);

	if (x < 36) {
		if (chance(r, 6))
			op->batch.flags |= LARDER_F_NOWAIT;
		return LARDER_OP_PUT;
	}
	if (x < 62) {
		if (chance(r, 4))
			op->batch.flags |= LARDER_F_WAIT;
		if (chance(r, 12))
			op->batch.flags |= LARDER_F_VERIFY;
		return LARDER_OP_GET;
	}
	if (x < 76) {
		if (chance(r, 4))
			op->batch.flags |= LARDER_F_WAIT;
		if (chance(r, 2)) {
			op->batch.flags |= LARDER_F_LEASE;
			op->lease_ms = (uint32_t)between(r, 1, w->knobs.lease_max_ms);
		}
		return LARDER_OP_EXISTS;
	}
	if (x < 80) {
		op->lease_ms = (uint32_t)between(r, 1, w->knobs.lease_max_ms);
		return LARDER_OP_LEASE;
	}
	if (x < 84)
		return LARDER_OP_STAT;
	if (x < 88)
		return LARDER_OP_RELEASE;
	if (chance(r, 5))
		op->batch.flags |= LARDER_F_FORCE;
	return LARDER_OP_DELETE;
}

/* What newer features add to an operation. */
static void actor_more(struct world *w, struct op *op)
{
	const struct knobs *k = &w->knobs;
	struct prng *r = &w->more_rng;

	if (k->pins && chance(r, 12)) {
		op->opcode = chance(r, 2) ? LARDER_OP_PIN : LARDER_OP_UNPIN;
		op->batch.flags = chance(r, 2) ? LARDER_F_HARD : 0;
		op->lease_ms = 0;
		return;
	}
	if (op->opcode == LARDER_OP_PUT && k->ttl && chance(r, 6))
		op->batch.ttl_ms = (uint32_t)between(r, 1, SIM_TTL_MAX_MS);
	if ((op->opcode == LARDER_OP_GET || op->opcode == LARDER_OP_STAT ||
	     op->opcode == LARDER_OP_DELETE) && chance(r, 6))
		op->batch.flags |= LARDER_F_BY_HASH;
	if (!k->fills || op->batch.flags & LARDER_F_BY_HASH || !chance(r, 2))
		return;
	if (op->opcode == LARDER_OP_GET || op->opcode == LARDER_OP_EXISTS) {
		op->batch.flags |= LARDER_F_FILL;
		if (chance(r, 2))
			op->batch.flags |= LARDER_F_WAIT;
		if (op->opcode == LARDER_OP_EXISTS && !op->lease_ms)
			op->lease_ms = (uint32_t)between(r, 1, w->knobs.lease_max_ms);
	}
}

/* Does it read another tenant's? */
static bool actor_reads(const struct op *op)
{
	return op->opcode == LARDER_OP_GET || op->opcode == LARDER_OP_EXISTS ||
	       op->opcode == LARDER_OP_STAT || op->opcode == LARDER_OP_LEASE;
}

static bool actor_has(const struct op *op, const struct model_key *k)
{
	for (uint32_t i = 0; i < op->n; i++)
		if (op->item[i].key == k)
			return true;
	return false;
}

void actor_start(struct world *w, struct client *c)
{
	struct prng *r = &w->op_rng;
	uint32_t space = (uint32_t)prng_below(r, w->knobs.spaces), n;
	const struct lease *lease = NULL;
	struct model_key *k = NULL;
	struct op *op;
	bool other;

	if (!c->ns_open[space])
		return;
	op = op_new(w, c->index, 0);
	if (!op)
		return;
	op->opcode = actor_opcode(w, op);
	actor_more(w, op);
	other = c->shared_open && actor_reads(op) && chance(&w->more_rng, 4);
	if (other && op->batch.flags & LARDER_F_FILL)
		op->batch.flags &= ~(uint32_t)LARDER_F_FILL;	/* who reads does not fill */
	if (op->opcode == LARDER_OP_RELEASE)
		lease = actor_lease(w, c, space, &k);
	if (op->opcode == LARDER_OP_RELEASE && !lease)
		op->opcode = LARDER_OP_DELETE;	/* nothing to release */
	if (lease) {
		op->lease_id = lease->id;
		op_add(op, k, 0);
	} else {
		if (op->lease_ms || op->batch.flags & LARDER_F_FILL)
			op->lease_id = ++w->lease_number;
		n = (uint32_t)between(r, 1, w->knobs.batch_max);
		for (uint32_t i = 0; i < n; i++) {
			k = other ? tenants_shared_key(w, c) : actor_key(w, c, space);
			if (!actor_has(op, k))
				op_add(op, k, (int)prng_below(r, SIM_VALUES));
		}
	}
	(void)op_submit(op);
}

/* --- layer by layer -------------------------------------------------------------------------- */

static void stream_over(struct world *w, struct client *c, int status)
{
	struct item *it = &c->stream.op.item[0];
	uint32_t states = 0;

	if (status == LARDER_OK || status == LARDER_EXISTS_SAME)
		states = SIM_VALUE(it->v);
	else if (status == LARDER_CONFLICT)
		states = it->seen & SIM_ANY_VALUE & ~SIM_VALUE(it->v);
	else if (!op_uncertain(&c->stream.op, status) && status != LARDER_BUSY &&
		 status != LARDER_NO_SPACE &&
		 !(status == LARDER_QUOTA && limits_allow_quota(w, it)) &&
		 !(status == LARDER_THROTTLED && limits_allow_throttled(w, it->op)) &&
		 !(status == LARDER_CHECKSUM && it->key->rotten))
		sim_fail(w, "a stream ends as %s: %s", larder_status_name(status),
			 larder_last_error());
	if (status == LARDER_OK && !(it->seen & SIM_ABSENT))
		sim_fail(w, "a stream was stored over an object");
	op_end_call(&c->stream.op, status, states);
	c->stream.s = NULL;
}

static void stream_begin(struct world *w, struct client *c)
{
	struct prng *r = &w->op_rng;
	uint32_t space = (uint32_t)prng_below(r, w->knobs.spaces);
	struct stream *s = &c->stream;
	struct model_key *k;
	struct item *it;
	int status;

	if (!c->ns_open[space] || s->s)
		return;
	k = actor_key(w, c, space);
	s->op = (struct op){ .w = w, .client = c->index, .opcode = LARDER_OP_PUT_BEGIN,
			     .number = ++w->op_number };
	op_add(&s->op, k, (int)prng_below(r, SIM_VALUES));
	it = &s->op.item[0];
	it->effect.puts = SIM_VALUE(it->v);
	s->given = 0;
	s->next_ns = w->now_ns;
	op_begin_call(&s->op);
	world_sync_begin(c);
	status = larder_put_begin(c->c, c->ns[space], k->name, k->name_len,
				  k->value[it->v].length, 0, &s->s);
	world_sync_end(c);
	if (status == 0)
		return;
	it->effect = (struct effect){ 0 };	/* nothing is visible before the commit */
	stream_over(w, c, status);
}

static void stream_end(struct world *w, struct client *c, bool commit)
{
	struct stream *s = &c->stream;
	int status;

	world_sync_begin(c);
	status = commit ? larder_put_commit(s->s) : larder_put_abort(s->s);
	world_sync_end(c);
	s->s = NULL;
	if (!commit) {
		s->op.item[0].effect = (struct effect){ 0 };
		status = LARDER_CANCELLED;
	}
	stream_over(w, c, status);
}

static void stream_go_on(struct world *w, struct client *c, bool finish)
{
	struct prng *r = &w->op_rng;
	struct stream *s = &c->stream;
	const struct item *it = &s->op.item[0];
	const struct value *v;
	uint64_t n;
	int status;

	if (!s->s || (!finish && w->now_ns < s->next_ns))
		return;
	v = &it->key->value[it->v];
	if (s->given == v->length || (!finish && chance(r, 12))) {
		stream_end(w, c, s->given == v->length);
		return;
	}
	n = finish ? v->length - s->given : between(r, 1, v->length - s->given);
	world_sync_begin(c);
	status = larder_put_part(s->s, s->given, v->bytes + s->given, (size_t)n);
	world_sync_end(c);
	if (status == -EINVAL)
		sim_fail(w, "a part is refused: %s", larder_last_error());
	s->given += n;
	s->next_ns = w->now_ns + between(r, 0, 60) * NSEC_PER_MSEC;
	if (status != 0)
		stream_end(w, c, false);
}

void actor_streams(struct world *w, bool finish)
{
	for (uint32_t i = 0; i < w->knobs.clients; i++)
		do {
			stream_go_on(w, &w->client[i], finish);
		} while (finish && w->client[i].stream.s);
}

static void actor_flush(struct world *w, struct client *c)
{
	uint32_t space = (uint32_t)prng_below(&w->op_rng, w->knobs.spaces);
	struct op op = { .w = w, .client = c->index, .opcode = LARDER_OP_NS_FLUSH,
			 .number = ++w->op_number };
	uint64_t objects, bytes;
	int status;

	if (!c->ns_open[space])
		return;
	for (uint32_t i = 0; i < w->knobs.names; i++) {
		op_add(&op, &w->key[(c->tenant * w->knobs.spaces + space) * w->knobs.names + i],
		       0);
		op.item[i].effect.deletes = true;
	}
	op_begin_call(&op);
	world_sync_begin(c);
	status = larder_ns_flush(c->c, c->ns[space], false, 0, &objects, &bytes);
	world_sync_end(c);
	if (status != LARDER_OK && status != LARDER_BUSY && !op_uncertain(&op, status) &&
	    !(status == LARDER_THROTTLED && limits_allow_throttled(w, &op)))
		sim_fail(w, "NS_FLUSH: %s: %s", larder_status_name(status), larder_last_error());
	/* BUSY: some were leased, the others may be gone */
	op_end_call(&op, status == LARDER_BUSY ? LARDER_OK : status, 0);
}

/* --- faults that are the clients' ------------------------------------------------------------ */

static void actor_cancel(struct world *w)
{
	struct op *op = &w->op[prng_below(&w->op_rng, SIM_OPS)];
	int r;

	if (op->kind != OP_BATCH)
		return;
	r = larder_cancel(w->client[op->client].c, &op->batch);
	if (r < 0 && r != -ENOENT)
		sim_fail(w, "larder_cancel: %s", strerror(-r));
	op->cancelled = true;
	world_trace(w, "cancel", op->number, 0, 0);
}

/* A client that dies and comes back: whatever it had under way ends in nobody knows what. */
static void actor_reopen(struct world *w, struct client *c)
{
	if (c->stream.s)
		return;
	world_trace(w, "reopen", c->index, 0, 0);
	larder_close(TAKE_PTR(c->c));
	op_close_all(c);
	world_client_open(w, c);
}

/* A byte of some object goes bad in memory. */
static void actor_rot(struct world *w)
{
	struct model_key *k = &w->key[prng_below(&w->fault_rng, w->n_keys)];
	uint32_t v = (uint32_t)prng_below(&w->fault_rng, SIM_VALUES);
	uint8_t *arena = w->host.arena[w->host.live];

	if (!w->node || k->value[v].length < 64)
		return;
	for (size_t at = 0; at < w->host.arena_bytes; at += w->knobs.page) {
		if (memcmp(arena + at, k->value[v].bytes, 48))
			continue;
		arena[at + prng_below(&w->fault_rng, 64)] ^= 0x10;
		model_rot(w, k);
		world_trace(w, "rot", k->tenant, k->index, v);
	}
}

static void actor_faults(struct world *w, struct client *c)
{
	const struct faults *f = &w->knobs.may;

	if (f->cancels && chance(&w->fault_rng, 60))
		actor_cancel(w);
	if (f->rot && chance(&w->fault_rng, 150))
		actor_rot(w);
	if (f->reopens && chance(&w->fault_rng, 500))
		actor_reopen(w, c);
	if (w->knobs.limits && chance(&w->more_rng, 40))
		limits_change(w);
	if (f->purges && chance(&w->more_rng, 120))
		tenants_purge(w);
}

static void actor_act(struct world *w, struct client *c)
{
	if (chance(&w->op_rng, 25))
		stream_begin(w, c);
	else if (chance(&w->op_rng, 120))
		actor_flush(w, c);
	else if (chance(&w->more_rng, 30))
		list_actor(w, c);
	else
		actor_start(w, c);
}

void actor_round(struct world *w)
{
	uint32_t left = w->knobs.ops_per_round;

	w->wild = true;
	w->net.kind = false;
	while (left) {
		struct client *c = &w->client[prng_below(&w->op_rng, w->knobs.clients)];

		if (!c->ns_open[0] || !c->ns_open[w->knobs.spaces - 1]) {
			actor_open_spaces(w, c);
			left--;		/* it may go on failing */
		} else if (w->knobs.shares && !c->shared_open && chance(&w->more_rng, 6)) {
			tenants_open_shared(w, c);
			left--;
		} else if (w->n_ops < w->knobs.under_way && !chance(&w->op_rng, 3)) {
			actor_act(w, c);
			left--;
		}
		actor_faults(w, c);
		actor_streams(w, false);
		(void)world_turn(w);
	}
}
