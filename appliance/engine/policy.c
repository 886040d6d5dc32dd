/* SPDX-License-Identifier: Apache-2.0 */
/* The table of policies, and the list that all of them are made of. See policy.h. */
#include <string.h>

#include "engine/policies.h"
#include "mem/records.h"

static const struct policy *const policy_table[] = {
#define POLICY_ENTRY(name) &policy_##name,
	POLICIES(POLICY_ENTRY)
#undef POLICY_ENTRY
};

const struct policy *policy_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(policy_table); i++)
		if (strcmp(policy_table[i]->name, name) == 0)
			return policy_table[i];
	return NULL;
}

const char *policy_names(void)
{
#define POLICY_NAME(name) ", " #name
	return &POLICIES(POLICY_NAME)[2];	/* without the first comma */
#undef POLICY_NAME
}

void policy_list_init(struct policy_list *l)
{
	*l = (struct policy_list){ .head = RECORD_NONE, .tail = RECORD_NONE };
}

void policy_list_push_head(struct engine_object *objects, struct policy_list *l, uint32_t slot)
{
	struct engine_object *o = &objects[slot];

	o->prev = RECORD_NONE;
	o->next = l->head;
	if (l->head != RECORD_NONE)
		objects[l->head].prev = slot;
	else
		l->tail = slot;
	l->head = slot;
	l->pages += o->size_pages;
	l->count++;
}

void policy_list_remove(struct engine_object *objects, struct policy_list *l, uint32_t slot)
{
	struct engine_object *o = &objects[slot];

	if (o->prev != RECORD_NONE)
		objects[o->prev].next = o->next;
	else
		l->head = o->next;
	if (o->next != RECORD_NONE)
		objects[o->next].prev = o->prev;
	else
		l->tail = o->prev;
	o->prev = o->next = RECORD_NONE;
	l->pages -= o->size_pages;
	l->count--;
}

static void policy_sum(const struct policy_place *p, uint32_t segment, uint64_t pages,
		       uint64_t count)
{
	(void)__atomic_fetch_add(&p->tenant->pages[segment], pages, __ATOMIC_RELAXED);
	(void)__atomic_fetch_add(&p->tenant->count[segment], count, __ATOMIC_RELAXED);
}

void policy_enter(const struct policy_place *p, uint32_t segment, uint32_t slot)
{
	struct engine_object *o = &p->objects[slot];

	o->seg = (uint8_t)segment;
	o->at = p->now_ns;
	policy_list_push_head(p->objects, &p->set->seg[segment], slot);
	policy_sum(p, segment, o->size_pages, 1);
}

void policy_leave(const struct policy_place *p, uint32_t slot)
{
	const struct engine_object *o = &p->objects[slot];

	policy_list_remove(p->objects, &p->set->seg[o->seg], slot);
	/* unsigned: adding the complement takes away */
	policy_sum(p, o->seg, -(uint64_t)o->size_pages, (uint64_t)-1);
}

uint32_t policy_tail(const struct engine_object *objects, const struct policy_set *set,
		     uint32_t segment, uint64_t *ret_at)
{
	uint32_t slot = set->seg[segment].tail;

	if (slot != RECORD_NONE)
		*ret_at = objects[slot].at;
	return slot;
}
