/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LIST and NS_LIST. A listing goes page by page while others work: what is there all the time is
 * told exactly once, what was never there is not told, and nobody else's ever.
 */
#include "sim.h"

struct listing {
	struct world *w;
	struct op op;			/* all keys of the namespace, under way */
	uint32_t told[SIM_NAMES];	/* how often */
	uint32_t entries;
};

static bool list_entry(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	struct listing *l = user;

	l->entries++;
	for (uint32_t i = 0; i < l->op.n; i++) {
		const struct item *it = &l->op.item[i];
		uint32_t set;

		if (it->key->name_len != key_len || memcmp(it->key->name, key, key_len) != 0)
			continue;
		set = model_value_of_length(it->key, st->size_bytes);
		if (!(set & it->seen))
			sim_fail(l->w, "LIST tells key %u of tenant %u with %" PRIu64 " bytes: seen"
				 " %s, now %s", it->key->index, it->key->tenant, st->size_bytes,
				 model_set_text(it->seen), model_set_text(it->key->set));
		if (l->told[i]++ && !(it->seen & SIM_ABSENT))
			sim_fail(l->w, "LIST tells key %u of tenant %u twice", it->key->index,
				 it->key->tenant);
		return true;
	}
	sim_fail(l->w, "LIST tells a key that nobody put there");
}

static void list_begin(struct world *w, struct listing *l, const struct client *c, uint32_t first)
{
	*l = (struct listing){ .w = w };
	l->op = (struct op){ .w = w, .client = c->index, .opcode = LARDER_OP_LIST,
			     .number = ++w->op_number };
	for (uint32_t i = 0; i < w->knobs.names; i++)
		op_add(&l->op, &w->key[first + i], 0);
	op_begin_call(&l->op);
}

static void list_end(struct listing *l, int status, bool prefix)
{
	for (uint32_t i = 0; i < l->op.n && status == LARDER_OK; i++) {
		const struct item *it = &l->op.item[i];

		if (!l->told[i] && !(it->seen & SIM_ABSENT) && !(prefix && i > 0) &&
		    !tenants_not_shared(it))
			sim_fail(l->w, "LIST leaves out key %u of tenant %u, which was there all"
				 " the time", it->key->index, it->key->tenant);
	}
	op_end_call(&l->op, status, 0);
}

/* Under change: between two pages others begin and end things. */
void list_actor(struct world *w, struct client *c)
{
	struct prng *r = &w->more_rng;
	bool other = c->shared_open && chance(r, 3), prefix = chance(r, 4);
	uint32_t space = other ? 0 : (uint32_t)prng_below(r, w->knobs.spaces);
	uint32_t ns = other ? c->shared : c->ns[space];
	const struct model_key *some = other ? tenants_shared_key(w, c) :
				       &w->key[c->tenant * w->knobs.spaces * w->knobs.names];
	uint32_t first = (some->tenant * w->knobs.spaces + space) * w->knobs.names;
	struct listing l;
	uint64_t cursor = 0;
	int status;

	if (!other && !c->ns_open[space])
		return;
	list_begin(w, &l, c, first);
	do {
		world_sync_begin(c);
		status = larder_list(c->c, ns, w->key[first].name, prefix ? w->key[first].name_len
			: 0, &cursor, (uint32_t)between(r, 1, 4), list_entry, &l, 0);
		world_sync_end(c);
		for (uint64_t n = prng_below(r, 4); n > 0; n--) {
			actor_start(w, &w->client[prng_below(r, w->knobs.clients)]);
			(void)world_turn(w);
		}
	} while (status == LARDER_OK && cursor);
	if (status != LARDER_OK && !op_uncertain(&l.op, status) &&
	    !(status == LARDER_NOT_FOUND && other) &&
	    !(status == LARDER_THROTTLED && limits_allow_throttled(w, &l.op)))
		sim_fail(w, "LIST: %s: %s", larder_status_name(status), larder_last_error());
	list_end(&l, status, prefix);
}

/* --- the calm -------------------------------------------------------------------------------- */

struct space_sum {
	struct world *w;
	uint32_t tenant;
	uint32_t found, shared;
	uint64_t objects;
};

static bool list_space(void *user, const struct larder_ns_info *i)
{
	struct space_sum *s = user;
	char name[24], other[40];
	uint32_t n = s->w->knobs.tenants;

	(void)snprintf(other, sizeof(other), "tenant-%u:space-0", (s->tenant + n - 1) % n);
	if (strcmp(i->name, other) == 0) {
		s->shared++;
		return true;
	}
	for (uint32_t k = 0; k < s->w->knobs.spaces; k++) {
		(void)snprintf(name, sizeof(name), "space-%u", k);
		if (strcmp(i->name, name) == 0) {
			s->found++;
			s->objects += i->objects;
			return true;
		}
	}
	sim_fail(s->w, "NS_LIST tells tenant %u of %s", s->tenant, i->name);
}

static void list_spaces(struct world *w, struct client *c, uint64_t objects)
{
	struct space_sum s = { .w = w, .tenant = c->tenant };
	int status;

	world_sync_begin(c);
	status = larder_ns_list(c->c, list_space, &s, 0);
	world_sync_end(c);
	if (status != LARDER_OK)
		sim_fail(w, "NS_LIST: %s: %s", larder_status_name(status), larder_last_error());
	calm_equal(w, "namespaces listed", w->knobs.spaces, s.found);
	calm_equal(w, "namespaces of others listed", w->knobs.shares && w->knobs.tenants > 1,
		   s.shared);
	if (!w->knobs.evicts)
		calm_equal(w, "objects of the namespaces listed", s.objects, objects);
}

/* All is known: a listing is exact, whatever the pages. */
void list_calm(struct world *w)
{
	for (uint32_t i = 0; i < w->knobs.clients && i < w->knobs.tenants; i++) {
		struct client *c = &w->client[i];
		uint64_t objects = 0;

		for (uint32_t s = 0; s < w->knobs.spaces; s++) {
			uint32_t first = (c->tenant * w->knobs.spaces + s) * w->knobs.names;
			struct listing l;
			uint64_t cursor = 0;
			int status;

			list_begin(w, &l, c, first);
			do {
				world_sync_begin(c);
				status = larder_list(c->c, c->ns[s], NULL, 0, &cursor,
						     (uint32_t)between(&w->more_rng, 1, 12),
						     list_entry, &l, 0);
				world_sync_end(c);
			} while (status == LARDER_OK && cursor);
			if (status != LARDER_OK)
				sim_fail(w, "LIST: %s: %s", larder_status_name(status),
					 larder_last_error());
			objects += l.entries;
			list_end(&l, status, false);
		}
		list_spaces(w, c, objects);
	}
}
