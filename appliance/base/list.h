/* SPDX-License-Identifier: Apache-2.0 */
/* Circular doubly linked list, links embedded in the elements. A head is a link of its own. */
#ifndef LARDER_BASE_LIST_H
#define LARDER_BASE_LIST_H

#include <stdbool.h>

#include "base/compiler.h"

struct list {
	struct list *prev;
	struct list *next;
};

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/* Puts @e before @at: at the tail when @at is the head. */
static inline void list_insert_before(struct list *at, struct list *e)
{
	e->prev = at->prev;
	e->next = at;
	at->prev->next = e;
	at->prev = e;
}

static inline void list_push_tail(struct list *head, struct list *e)
{
	list_insert_before(head, e);
}

static inline void list_push_head(struct list *head, struct list *e)
{
	list_insert_before(head->next, e);
}

/* Takes @e out and leaves it linked to itself, so that removing twice is harmless. */
static inline void list_remove(struct list *e)
{
	e->prev->next = e->next;
	e->next->prev = e->prev;
	list_init(e);
}

static inline struct list *list_pop_head(struct list *head)
{
	struct list *e = head->next;

	if (e == head)
		return NULL;
	list_remove(e);
	return e;
}

#define list_entry(l, type, member) container_of(l, type, member)
#define list_for_each(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)
#define list_for_each_safe(it, head)                                                               \
	for (struct list *it = (head)->next, *it##_next = it->next; it != (head);                  \
	     it = it##_next, it##_next = it->next)

#endif
