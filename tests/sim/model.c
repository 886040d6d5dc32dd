/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the node may answer. Per key the model keeps the set of states in which it may be now:
 * absent, or holding value v. An operation under way may take effect at any moment between its
 * beginning and its end (or, when it ends without certainty, until the next barrier: its bytes may
 * still be on their way), so the set is closed under the effects of all of those. What an
 * operation reports was true at some moment since it began: it must be among the states that were
 * possible since then, and afterwards the key can only be where effects that overlap with it lead
 * from there.
 *
 *	present --delete, eviction--> absent --put v--> v
 *
 * and nothing else: no value becomes another in one step (first writer wins). Eviction is an effect
 * that is always under way in a seed whose memory is small, and in any seed while the key's tenant
 * is held to less than it has (limits.c); so is the end of its ttl from the earliest moment at
 * which that may be. A certain lease switches off eviction, ttl and deletes that are not forced. It
 * is certain from its completion on, until its time counted from the request's beginning: the node
 * counted from a later moment. A certain hard pin does the same until somebody begins to undo it.
 */
#include "sim.h"

static void model_value_make(struct world *w, struct model_key *k, uint32_t v)
{
	struct prng *r = &w->knob_rng;
	const uint64_t page = w->knobs.page, max = w->knobs.value_max;
	const uint64_t edges[] = { 1, 2, page - 1, page, page + 1, 2 * page, 2 * page + 1,
				   LARDER_CHECK_BLOCK - 1, LARDER_CHECK_BLOCK,
				   LARDER_CHECK_BLOCK + 1, 2 * LARDER_CHECK_BLOCK, max };
	struct value *value = &k->value[v];
	struct prng bytes;

	value->length = chance(r, 2) ? edges[prng_below(r, ARRAY_SIZE(edges))]
				     : between(r, 1, MIN(max, 3 * page));
	if (k->index == 0 && v == 0)
		value->length = max;	/* each namespace has one of the largest */
	if (value->length > max)
		value->length = between(r, 1, MIN(max, 3 * page));
	value->bytes = malloc(value->length);
	if (!value->bytes)
		sim_fail(w, "no memory for a value");
	prng_seed(&bytes, prng_next(r));
	for (uint64_t i = 0; i < value->length; i += 8) {
		uint64_t x = prng_next(&bytes);

		memcpy(value->bytes + i, &x, (size_t)MIN(value->length - i, (uint64_t)8));
	}
	/* the shortest values of a name differ, too, whoever's they are */
	value->bytes[0] = (uint8_t)(k->tenant << 6 | k->space << 5 | (k->index & 7) << 2 | v);
}

static void model_key_make(struct world *w, struct model_key *k)
{
	struct prng names;

	/* the same names for everybody: what tells keys apart is tenant and namespace alone */
	prng_seed(&names, w->seed * 31 + k->index);
	k->name_len = (uint16_t)(chance(&names, 5) ? between(&names, 100, 1024)
						   : between(&names, 1, 40));
	for (uint32_t i = 0; i < k->name_len; i++)
		k->name[i] = (uint8_t)prng_next(&names);
	k->name[0] = (uint8_t)(k->index * 16 + 1);
	k->set = SIM_ABSENT;
	for (uint32_t v = 0; v < SIM_VALUES; v++)
		model_value_make(w, k, v);
}

void model_open(struct world *w)
{
	for (uint32_t t = 0; t < w->knobs.tenants; t++)
		for (uint32_t s = 0; s < w->knobs.spaces; s++)
			for (uint32_t i = 0; i < w->knobs.names; i++) {
				struct model_key *k = &w->key[w->n_keys++];

				*k = (struct model_key){ .tenant = t, .space = s, .index = i };
				model_key_make(w, k);
			}
}

void model_close(struct world *w)
{
	for (uint32_t i = 0; i < w->n_keys; i++)
		for (uint32_t v = 0; v < SIM_VALUES; v++)
			free(w->key[i].value[v].bytes);
}

const char *model_set_text(uint32_t set)
{
	static char text[4][64];
	static unsigned turn;
	char *at = text[turn++ % 4];
	int n = snprintf(at, sizeof(text[0]), "{%s", set & SIM_ABSENT ? " absent" : "");

	for (uint32_t v = 0; v < SIM_VALUES; v++)
		if (set & SIM_VALUE(v))
			n += snprintf(at + n, sizeof(text[0]) - (size_t)n, " %u", v);
	(void)snprintf(at + n, sizeof(text[0]) - (size_t)n, " }");
	return at;
}

uint32_t model_value_of_length(const struct model_key *k, uint64_t length)
{
	uint32_t set = 0;

	for (uint32_t v = 0; v < SIM_VALUES; v++)
		if (k->value[v].length == length)
			set |= SIM_VALUE(v);
	return set;
}

/* --- leases ---------------------------------------------------------------------------------- */

/* Certainly leased, or pinned hard, all the time from @since_ns to now. */
static bool model_leased(const struct world *w, const struct model_key *k, uint64_t since_ns)
{
	if (k->pinned_ns && k->pinned_ns <= since_ns)
		return true;
	for (uint32_t i = 0; i < k->n_leases; i++)
		if (k->lease[i].from_ns <= since_ns && w->now_ns < k->lease[i].until_ns)
			return true;
	return false;
}

static void model_leases_prune(const struct world *w, struct model_key *k)
{
	for (uint32_t i = 0; i < k->n_leases;) {
		if (w->now_ns < k->lease[i].until_ns)
			i++;
		else
			k->lease[i] = k->lease[--k->n_leases];
	}
}

void model_forgive(struct world *w, uint64_t gap_ns)
{
	for (uint32_t i = 0; i < w->n_keys; i++)
		for (uint32_t n = 0; n < w->key[i].n_leases; n++)
			if (w->key[i].lease[n].until_ns > w->node_seen_ns)
				w->key[i].lease[n].until_ns += gap_ns;
}

uint64_t model_next_lease_end(const struct world *w)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < w->n_keys; i++)
		for (uint32_t n = 0; n < w->key[i].n_leases; n++)
			next = MIN(next, w->key[i].lease[n].until_ns);
	return next;
}

static void model_leased_at_most(struct world *w, struct model_key *k, uint64_t until_ns)
{
	/* what has passed of gaps since an older mark counts for the older one only */
	uint64_t older = k->leased_at_most_ns + (w->gaps_ns - k->leased_gaps_ns);

	k->leased_at_most_ns = MAX(older, until_ns);
	k->leased_gaps_ns = w->gaps_ns;
}

bool model_maybe_leased(const struct world *w, const struct item *it)
{
	const struct model_key *k = it->key;
	uint64_t slack = 50 * NSEC_PER_MSEC;

	if (k->leases_linger || k->maybe_pinned)
		return true;
	for (const struct item *o = k->pending; o; o = o->next)
		if (o->op->leases || o->op->opcode == LARDER_OP_PIN)
			return true;
	return k->leased_at_most_ns &&
	       it->op->start_ns < k->leased_at_most_ns + (w->gaps_ns - k->leased_gaps_ns) + slack;
}

/* --- the set --------------------------------------------------------------------------------- */

static uint32_t model_close_set(uint32_t set, const struct effect *e)
{
	if ((set & SIM_ANY_VALUE) && e->deletes)
		set |= SIM_ABSENT;
	if (set & SIM_ABSENT)
		set |= e->puts;
	if ((set & SIM_ANY_VALUE) && e->deletes)
		set |= SIM_ABSENT;
	return set;
}

static void model_add(struct effect *sum, const struct effect *e, bool leased)
{
	sum->puts |= e->puts;
	sum->deletes |= e->deletes && (e->forced || !leased);
}

/* All that may have happened to @k since @since_seq. */
static struct effect model_effects(const struct world *w, const struct model_key *k,
				   uint64_t since_seq, uint64_t since_ns)
{
	bool leased = model_leased(w, k, since_ns);
	bool ends = limits_may_evict(w, k, since_seq) ||
		    (k->ttl_from_ns && w->now_ns >= k->ttl_from_ns);
	struct effect sum = { .deletes = (ends && !leased) || k->rotten ||
					 k->purge_seq >= since_seq };

	for (const struct item *it = k->pending; it; it = it->next)
		model_add(&sum, &it->effect, leased);
	model_add(&sum, &k->linger, leased);
	for (uint32_t i = 0; i < k->n_past; i++)
		if (k->past[i].end_seq >= since_seq)
			model_add(&sum, &k->past[i].effect, leased);
	return sum;
}

void model_key_refresh(struct world *w, struct model_key *k)
{
	struct effect e;

	model_leases_prune(w, k);
	e = model_effects(w, k, UINT64_MAX, w->now_ns);
	k->set = model_close_set(k->set, &e);
	for (struct item *it = k->pending; it; it = it->next)
		it->seen |= k->set;
}

void model_refresh(struct world *w)
{
	limits_look(w);
	fill_look(w);
	for (uint32_t i = 0; i < w->n_keys; i++) {
		struct model_key *k = &w->key[i];
		bool over = k->ttl_from_ns && w->now_ns >= k->ttl_from_ns;

		for (uint32_t n = 0; n < k->n_leases; n++)
			over |= w->now_ns >= k->lease[n].until_ns;
		if (over)
			model_key_refresh(w, k);
	}
}

void model_rot(struct world *w, struct model_key *k)
{
	k->rotten = true;
	k->n_leases = 0;	/* a quarantine asks no lease, and no pin */
	k->pinned_ns = 0;
	model_key_refresh(w, k);
}

/* What its beginning makes uncertain of leases, pins, ttl and fill leases. */
static void model_begin_marks(struct world *w, struct item *it)
{
	const struct op *op = it->op;
	struct model_key *k = it->key;
	uint64_t ttl_ns = w->now_ns + op->batch.ttl_ms * NSEC_PER_MSEC;

	if (it->effect.forced) {	/* they go with their object, if it goes */
		k->n_leases = 0;
		k->pinned_ns = 0;
	}
	if (op->opcode == LARDER_OP_UNPIN && op->batch.flags & LARDER_F_HARD)
		k->pinned_ns = 0;
	if (op->opcode == LARDER_OP_PIN && op->batch.flags & LARDER_F_HARD)
		k->maybe_pinned = true;
	if (op->opcode == LARDER_OP_PUT && op->batch.ttl_ms)
		k->ttl_from_ns = k->ttl_from_ns ? MIN(k->ttl_from_ns, ttl_ns) : ttl_ns;
	if (it->effect.puts || it->effect.deletes || op->opcode == LARDER_OP_PUT_BEGIN)
		fill_ends(w, k, 0);
}

void model_begin(struct world *w, struct item *it)
{
	it->next = it->key->pending;
	it->key->pending = it;
	it->seen = 0;
	model_begin_marks(w, it);
	limits_look(w);
	if (it->op->leases)
		model_leased_at_most(w, it->key, w->now_ns);
	model_key_refresh(w, it->key);
}

static void model_unlink(struct item *it)
{
	struct item **at = &it->key->pending;

	while (*at != it)
		at = &(*at)->next;
	*at = it->next;
}

/* Past effects matter while something is under way that began before they ended. */
static void model_remember(struct world *w, struct model_key *k, const struct effect *e)
{
	uint64_t oldest = UINT64_MAX;
	uint32_t kept = 0;

	for (const struct item *it = k->pending; it; it = it->next)
		oldest = MIN(oldest, it->op->start_seq);
	for (uint32_t i = 0; i < k->n_past; i++)
		if (k->past[i].end_seq >= oldest)
			k->past[kept++] = k->past[i];
	k->n_past = kept;
	if (!e->puts && !e->deletes)
		return;
	if (kept == SIM_PAST) {		/* more than we can tell apart: as if uncertain */
		model_add(&k->linger, e, false);
		k->linger.forced |= e->forced;
		return;
	}
	k->past[k->n_past++] = (struct past){ .end_seq = w->seq, .effect = *e };
}

static void model_linger(struct item *it)
{
	struct model_key *k = it->key;

	k->linger.puts |= it->effect.puts;
	k->linger.deletes |= it->effect.deletes;
	k->linger.forced |= it->effect.forced;
	k->leases_linger |= it->op->leases;
	k->reads_linger |= it->op->opcode == LARDER_OP_GET;
}

/* Could somebody undo a lease or a pin that @it was granted? */
static bool model_undone(const struct item *it, bool pin)
{
	const struct model_key *k = it->key;
	bool undone = k->linger.forced || k->rotten || k->purge_seq >= it->op->start_seq;

	for (const struct item *o = k->pending; o; o = o->next)
		undone |= o->effect.forced || (pin && o->op->opcode == LARDER_OP_UNPIN);
	for (uint32_t i = 0; i < k->n_past; i++)
		undone |= k->past[i].effect.forced && k->past[i].end_seq >= it->op->start_seq;
	return undone;
}

/* Pinned from some moment before now on; pins are counted as taken back by any UNPIN since. */
static void model_pin_taken(struct world *w, struct item *it)
{
	struct model_key *k = it->key;

	if (model_undone(it, true) || k->unpin_seq >= it->op->start_seq || k->unpins_linger)
		return;
	if (!k->pinned_ns)
		k->pinned_ns = w->now_ns;
	k->set &= ~SIM_ABSENT;
	if (!k->set)
		sim_fail(w, "key %u of tenant %u: pinned, and yet it can only be absent", k->index,
			 k->tenant);
}

/* From its moment on it was protected, and that moment lies between beginning and end. */
static void model_lease_taken(struct world *w, struct item *it)
{
	struct model_key *k = it->key;
	uint64_t until = it->op->start_ns + it->op->lease_ms * NSEC_PER_MSEC;

	if (model_undone(it, false) || w->now_ns >= until || k->n_leases == SIM_LEASES)
		return;
	k->lease[k->n_leases++] = (struct lease){ it->op->lease_id,
						  w->client[it->op->client].tenant, w->now_ns,
						  until };
	k->set &= ~SIM_ABSENT;
	if (!k->set)
		sim_fail(w, "key %u of tenant %u: leased, and yet it can only be absent", k->index,
			 k->tenant);
}

void model_end(struct world *w, struct item *it, uint32_t states, bool lingers)
{
	struct model_key *k = it->key;
	struct effect e;
	uint32_t set;

	model_unlink(it);
	if (lingers)
		model_linger(it);
	if (it->op->leases)
		model_leased_at_most(w, k, w->now_ns + it->op->lease_ms * NSEC_PER_MSEC);
	if (states) {
		/* its own effect is behind it, unless it may happen again */
		e = model_effects(w, k, it->op->start_seq, it->op->start_ns);
		set = k->set & model_close_set(states & it->seen, &e);
		if (!set)
			sim_fail(w, "key %u of tenant %u in %u: %s since %" PRIu64 " is not"
				 " possible: seen %s, now %s", k->index, k->tenant, k->space,
				 model_set_text(states), it->op->number, model_set_text(it->seen),
				 model_set_text(k->set));
		k->set = set;
	}
	if (it->leased)
		model_lease_taken(w, it);
	if (it->pinned)
		model_pin_taken(w, it);
	if (it->op->opcode == LARDER_OP_UNPIN && it->op->batch.flags & LARDER_F_HARD) {
		k->unpin_seq = w->seq;
		k->unpins_linger |= lingers;
	}
	if (it->op->opcode == LARDER_OP_PIN)
		k->pins_linger |= lingers;
	if (it->filled)
		fill_taken(w, it);
	model_remember(w, k, &it->effect);
	model_key_refresh(w, k);
}

void model_lease_ends(struct world *w, struct model_key *k, uint64_t id)
{
	for (uint32_t i = 0; i < k->n_leases; i++)
		if (k->lease[i].id == id)
			k->lease[i].until_ns = w->now_ns;
	model_key_refresh(w, k);
}

void model_barrier(struct world *w)
{
	for (uint32_t i = 0; i < w->n_keys; i++) {
		struct model_key *k = &w->key[i];

		if (k->leases_linger)
			model_leased_at_most(w, k, w->now_ns +
					     w->knobs.lease_max_ms * NSEC_PER_MSEC);
		k->leases_linger = k->reads_linger = false;
		k->pins_linger = k->unpins_linger = false;
		k->linger = (struct effect){ 0 };
	}
}

/* --- a tenant is thrown away ----------------------------------------------------------------- */

void model_purge(struct world *w, uint32_t tenant)
{
	for (uint32_t i = 0; i < w->n_keys; i++) {
		struct model_key *k = &w->key[i];

		/* leases that it has on others' end, too */
		for (uint32_t n = 0; n < k->n_leases; n++)
			if (k->tenant == tenant || k->lease[n].tenant == tenant)
				k->lease[n].until_ns = 0;
		if (k->tenant == tenant) {
			k->purge_seq = UINT64_MAX;
			k->pinned_ns = 0;
			fill_ends(w, k, 0);
		}
		model_key_refresh(w, k);
	}
}

/* A PUT that was under way is sent again once its tenant is back, its ttl with it. */
static uint64_t model_ttl_under_way(const struct world *w, const struct model_key *k)
{
	uint64_t from_ns = 0;

	for (const struct item *it = k->pending; it; it = it->next) {
		uint64_t ttl_ns = w->now_ns + it->op->batch.ttl_ms * NSEC_PER_MSEC;

		if (it->op->opcode == LARDER_OP_PUT && it->op->batch.ttl_ms)
			from_ns = from_ns ? MIN(from_ns, ttl_ns) : ttl_ns;
	}
	return from_ns;
}

/* Its sessions were gone before it began, so nothing of it is under way at the node. */
void model_purged(struct world *w, uint32_t tenant)
{
	for (uint32_t i = 0; i < w->n_keys; i++) {
		struct model_key *k = &w->key[i];

		if (k->tenant != tenant)
			continue;
		k->purge_seq = w->seq;
		k->linger = (struct effect){ 0 };
		k->leases_linger = k->reads_linger = k->maybe_pinned = false;
		k->pins_linger = k->unpins_linger = false;
		k->leased_at_most_ns = 0;
		k->ttl_from_ns = model_ttl_under_way(w, k);
		k->set = SIM_ABSENT;
		model_key_refresh(w, k);
	}
}

/* --- how much there may be ------------------------------------------------------------------- */

static uint64_t model_pages(const struct world *w, uint64_t length)
{
	return (length + w->knobs.page - 1) / w->knobs.page;
}

uint64_t model_most_length(const struct model_key *k)
{
	uint64_t most = 0;

	for (uint32_t v = 0; v < SIM_VALUES; v++)
		most = MAX(most, k->value[v].length);
	return most;
}

/* As many as are at work on it: a reader of an object that is gone holds, too. */
static void model_extent_work(const struct world *w, const struct model_key *k,
			      const struct item *but, struct extent *e)
{
	uint64_t most = model_pages(w, model_most_length(k));

	for (const struct item *it = k->pending; it; it = it->next) {
		if (it == but)
			continue;
		e->pages += most;
		e->objects++;
		e->held_pages += most;
		e->held_objects++;
	}
	if (k->reads_linger || k->linger.puts) {
		e->pages += 2 * most;
		e->objects += 2;
	}
}

static void model_extent_key(const struct world *w, const struct model_key *k,
			     const struct item *but, struct extent *e)
{
	bool others = k->pending && (k->pending != but || k->pending->next);
	bool held = others || k->leases_linger || k->linger.puts || k->maybe_pinned ||
		    k->reads_linger ||
		    (k->leased_at_most_ns && w->now_ns < k->leased_at_most_ns +
		     (w->gaps_ns - k->leased_gaps_ns) + 50 * NSEC_PER_MSEC);
	uint64_t most = 0;

	for (uint32_t v = 0; v < SIM_VALUES; v++)
		if ((k->set | k->linger.puts) & SIM_VALUE(v))
			most = MAX(most, model_pages(w, k->value[v].length));
	e->pages += most;
	e->objects += most > 0;
	if (held) {
		e->held_pages += model_pages(w, model_most_length(k));
		e->held_objects++;
	}
	model_extent_work(w, k, but, e);
}

void model_extent(const struct world *w, uint32_t tenant, const struct item *but,
		  struct extent *ret)
{
	*ret = (struct extent){ 0 };
	for (uint32_t i = 0; i < w->n_keys; i++)
		if (tenant == SIM_TENANTS || w->key[i].tenant == tenant)
			model_extent_key(w, &w->key[i], but, ret);
}
