/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking keys up, for who looks up many. A crawler lists first and asks for attributes then, in
 * the order of the list: one answer of the node about the objects that follow serves it for a
 * hundred looks. What is kept is a few pages, for half a second.
 *
 * Any thread.
 */
#ifndef FSVIEW_LOOKUPS_H
#define FSVIEW_LOOKUPS_H

#include "fetch.h"

struct lookups;

int lookups_new(struct fetch *f, const struct process_clock *clock, struct lookups **ret);
void lookups_free(struct lookups *l);
/*
 * As fetch_stat. *@ret_age_ms: how long ago that was so, always less than LOOKUPS_AGE_MS.
 */
#define LOOKUPS_AGE_MS 500u
int lookups_stat(struct lookups *l, const struct space *space, struct tree_key *key,
		 struct larder_stat *ret, uint32_t *ret_age_ms);
/*
 * Did somebody look up what he had listed of @space, not long ago? Then attributes pay that come
 * with the list.
 */
bool lookups_follow(struct lookups *l, uint32_t space);
/* Something of @space turned out to be gone: the next look asks the node. */
void lookups_drop(struct lookups *l, uint32_t space);

#endif
