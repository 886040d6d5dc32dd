/* SPDX-License-Identifier: Apache-2.0 */
/* The table of policies, and the list that all of them are made of. See policy.h. */
#include <string.h>

#include "engine/policy.h"
#include "engine/policies.h"
#include "mem/records.h"

static const struct policy *const policy_table[] = {
	&policy_fifo,
	&policy_lru,
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
	return "fifo, lru";
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
